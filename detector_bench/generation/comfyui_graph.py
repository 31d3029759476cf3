"""The nodes of a ComfyUI workflow and the links between them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any, NamedTuple

_TEXTS = ("text", "prompt", "text_g", "text_l", "clip_g", "clip_l", "t5xxl", "llama", "bert", "mt5xl")
"""What text encoders call the text that they take."""


class Place(NamedTuple):
    """An input of a node."""

    node: str
    input: str

    def __str__(self) -> str:
        return f"{self.node}.{self.input}"


class Graph:
    """Nodes by their id, each with `class_type` and `inputs`: values, or links `[node id, number of the output]`.

    Args:
        content: what a workflow's file says.

    Raises:
        ValueError: it is no workflow; the text says where.
    """

    def __init__(self, content: Any) -> None:
        if not isinstance(content, Mapping) or not content:
            raise ValueError("a workflow in API format is expected: a mapping of nodes")
        for node_id, node in content.items():
            wrong = not isinstance(node, Mapping) or not isinstance(node.get("class_type"), str)
            if wrong or not isinstance(node.get("inputs"), Mapping):
                raise ValueError(
                    f"node {node_id}: each node of a workflow in API format has class_type and inputs"
                )
        self.nodes: dict[str, dict[str, Any]] = {node_id: dict(node) for node_id, node in content.items()}
        for node_id in self.nodes:
            for name, (source, _) in self._links(node_id).items():
                if source not in self.nodes:
                    raise ValueError(
                        f"node {node_id}: its input {name} comes from node {source}, which is not there"
                    )

    def leading_to(self, node_id: str) -> Graph:
        """The nodes that a node needs, and itself, in the order of the file."""
        needed, left = {node_id}, [node_id]
        while left:
            for source, _ in self._links(left.pop()).values():
                if source not in needed:
                    needed.add(source)
                    left.append(source)
        return Graph({each: node for each, node in self.nodes.items() if each in needed})

    def with_values(self, values: Mapping[Place, Any]) -> Graph:
        """The same with other values."""
        nodes = {each: {**node, "inputs": dict(node["inputs"])} for each, node in self.nodes.items()}
        for place, value in values.items():
            nodes[place.node]["inputs"][place.input] = value
        return Graph(nodes)

    def value(self, place: Place) -> Any:
        """What stands there."""
        return self.nodes[place.node]["inputs"][place.input]

    def is_literal(self, place: Place, types: tuple[type, ...]) -> bool:
        """Whether there is a value of one of these types, and no link."""
        found = self.nodes[place.node]["inputs"].get(place.input)
        return isinstance(found, types) and not isinstance(found, bool)

    def literals(self, inputs: Iterable[str] | None, types: tuple[type, ...]) -> tuple[Place, ...]:
        """All places of these inputs (None: of all) that have a value of one of these types."""
        names = None if inputs is None else set(inputs)
        places = (Place(node, name) for node in self.nodes for name in self.nodes[node]["inputs"])
        return tuple(
            place for place in places if (names is None or place.input in names) and self.is_literal(place, types)
        )

    def settings(self, inputs: Iterable[str], types: tuple[type, ...]) -> tuple[Place, ...]:
        """Where the values of these inputs stand: there, or in the node that holds nothing but the value."""
        found = (
            self._where(Place(node, name), types)
            for node in self.nodes
            for name in inputs
            if name in self.nodes[node]["inputs"]
        )
        return tuple(dict.fromkeys(place for place in found if place is not None))

    def latent_sizes(self, side: str) -> tuple[Place, ...]:
        """Where `width` or `height` of the latent images stands that an image is made of."""
        latent = [node for node in self.nodes if "batch_size" in self.nodes[node]["inputs"]]
        found = (self._where(Place(node, side), (int,)) for node in latent if side in self.nodes[node]["inputs"])
        return tuple(dict.fromkeys(place for place in found if place is not None))

    def encoded_texts(self, role: str) -> dict[str, list[Place]]:
        """The texts that samplers follow, by the node that encodes them.

        Args:
            role: `positive`, or `negative`: those that are not positive as well. Where no sampler tells them
                apart, all texts are positive.
        """
        positive = self._texts_of("positive")
        if role == "positive":
            return positive or {node: own for node in self.nodes if (own := self._own_texts(node))}
        return {node: own for node, own in self._texts_of("negative").items() if node not in positive}

    def saving_node(self) -> str:
        """The one node that saves an image.

        Raises:
            ValueError: there is none, or there are several.
        """
        saves = [node for node in self.nodes if {"images", "filename_prefix"} <= self.nodes[node]["inputs"].keys()]
        read = {source for node in self.nodes for source, _ in self._links(node).values()}
        ends = [node for node in self.nodes if node not in read and "images" in self.nodes[node]["inputs"]]
        found = saves or ends
        if not found:
            raise ValueError("no node of the workflow saves an image (expected: SaveImage)")
        if len(found) > 1:
            raise ValueError(
                f"several nodes save images: {self._shown(found)}; name the one that counts, as in "
                f"`slots: {{image: '{found[0]}'}}`"
            )
        return found[0]

    def node_called(self, text: str) -> str:
        """A node by its id, else by its title.

        Raises:
            ValueError: there is none, or several have the title.
        """
        found = self._called(text)
        if not found:
            raise ValueError(f"there is no node {text!r} (accepted: {self._shown(self.nodes)})")
        if len(found) > 1:
            raise ValueError(f"several nodes are called {text!r}: {self._shown(found)} (accepted: an id)")
        return found[0]

    def place_called(self, text: str) -> Place:
        """A place `NODE.INPUT`; titles and names of inputs may hold points, too.

        Raises:
            ValueError: there is none.
        """
        for point in re.finditer(r"\.", text):
            node, name = text[: point.start()], text[point.end() :]
            if any(name in self.nodes[each]["inputs"] for each in self._called(node)):
                return Place(self.node_called(node), name)
        node, point_found, name = text.rpartition(".")
        if not point_found:
            raise ValueError(f"{text!r} is no place (accepted: NODE.INPUT, such as 6.text)")
        inputs = self.nodes[self.node_called(node)]["inputs"]
        raise ValueError(f"node {node!r} has no input {name!r} (accepted: {', '.join(inputs) or 'none'})")

    def checked(self, place: Place, types: tuple[type, ...]) -> Place:
        """The place, where values of these types belong.

        Raises:
            ValueError: it is linked, or holds something else.
        """
        if self.is_literal(place, types):
            return place
        value = self.value(place)
        if self._is_link(value):
            raise ValueError(f"{place} comes from node {value[0]}; name the place that it has the value from")
        accepted = "a text" if str in types else "a number" if float in types else "a whole number"
        raise ValueError(f"{place} holds {str(value)[:60]!r} (accepted: a place that holds {accepted})")

    def _called(self, text: str) -> list[str]:
        if text in self.nodes:
            return [text]
        return [node for node in self.nodes if self._title(node) == text]

    def _title(self, node: str) -> Any:
        meta = self.nodes[node].get("_meta")
        return meta.get("title") if isinstance(meta, Mapping) else None

    def _shown(self, nodes: Iterable[str]) -> str:
        found = [f"{node} ({self._title(node) or self.nodes[node]['class_type']})" for node in nodes]
        return ", ".join(found[:20]) + (", ..." if len(found) > 20 else "")

    def _links(self, node: str) -> dict[str, tuple[str, int]]:
        inputs = self.nodes[node]["inputs"]
        return {name: (found[0], int(found[1])) for name, found in inputs.items() if self._is_link(found)}

    @staticmethod
    def _is_link(found: Any) -> bool:
        return (
            isinstance(found, list)
            and len(found) == 2
            and isinstance(found[0], str)
            and type(found[1]) in (int, float)
        )

    def _where(self, place: Place, types: tuple[type, ...]) -> Place | None:
        if self.is_literal(place, types):
            return place
        link = self._links(place.node).get(place.input)
        if link is None:
            return None
        own = self.nodes[link[0]]["inputs"]
        held = [Place(link[0], name) for name in own if self.is_literal(Place(link[0], name), types)]
        return held[0] if len(held) == 1 and not self._links(link[0]) else None

    def _own_texts(self, node: str) -> list[Place]:
        names = [name for name in _TEXTS if name in self.nodes[node]["inputs"]]
        found = (self._where(Place(node, name), (str,)) for name in names)
        return [place for place in found if place is not None]

    def _texts_of(self, role: str) -> dict[str, list[Place]]:
        found: dict[str, list[Place]] = {}
        for node in self.nodes:
            links = self._links(node)
            if role in links:
                found |= self._texts_behind(*links[role])
            elif role == "positive" and "guider" in links and "conditioning" in self._links(links["guider"][0]):
                found |= self._texts_behind(*self._links(links["guider"][0])["conditioning"])
        return found

    def _texts_behind(self, node: str, output: int) -> dict[str, list[Place]]:
        """Through what only passes on what a text was made into."""
        found: dict[str, list[Place]] = {}
        left, seen = [(node, output)], set()
        while left:
            each = left.pop(0)
            if each in seen:
                continue
            seen.add(each)
            links = self._links(each[0])
            if own := self._own_texts(each[0]):
                found[each[0]] = own
            elif {"positive", "negative"} <= links.keys():
                left.append(links["negative" if each[1] == 1 else "positive"])
            else:
                left += [link for name, link in links.items() if name.startswith("conditioning")]
        return found

    @cached_property
    def class_types(self) -> tuple[str, ...]:
        """Which kinds of nodes there are."""
        return tuple(dict.fromkeys(str(node["class_type"]) for node in self.nodes.values()))
