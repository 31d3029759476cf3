"""Workflows of ComfyUI in its API format: which values of them a request sets, and what is sent then."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from detector_bench.errors import ConfigError, nearest_hint
from detector_bench.generation.comfyui_graph import Graph, Place
from detector_bench.json_text import JsonMistake, read_json

Value = str | int | float
"""What a request puts into a workflow."""

IMAGE, SEED_PHOTO = "image", "seed_photo"
EVERY_REQUEST = ("prompt", "seed", SEED_PHOTO)
"""Slots whose values differ between requests."""
SLOTS: Mapping[str, tuple[type, ...]] = {
    "prompt": (str,),
    "seed": (int,),
    "negative_prompt": (str,),
    "width": (int,),
    "height": (int,),
    "steps": (int,),
    "guidance": (int, float),
    "sampler": (str,),
    "scheduler": (str,),
    "precision": (str,),
    SEED_PHOTO: (str,),
}
"""Values of a request that have a place in a workflow, and what stands there."""

_LARGEST = 20_000_000
_INPUTS = {
    "steps": ("steps",),
    "guidance": ("cfg", "guidance"),
    "sampler": ("sampler_name",),
    "scheduler": ("scheduler",),
}
_WEIGHTS = (".safetensors", ".sft", ".ckpt", ".pth", ".pt", ".bin", ".gguf", ".onnx")


def read_graph(path: Path) -> Graph:
    """Read a workflow that was exported in API format.

    Raises:
        ConfigError: no such file, no JSON, the other format, or no workflow.
    """
    try:
        content = read_json(path, largest=_LARGEST)
    except FileNotFoundError:
        raise ConfigError(f"workflow: there is no file {str(path)!r}") from None
    except JsonMistake as error:
        raise ConfigError(f"workflow {path}{error.place}: {error}") from None
    except OSError as error:
        raise ConfigError(f"workflow {path}: cannot be read: {error.strerror}") from None
    if isinstance(content, dict) and isinstance(content.get("nodes"), list):
        raise ConfigError(
            f"workflow {path}: it was saved for ComfyUI's own page; export it in API format: in ComfyUI's menu "
            "Workflow, Export (API)"
        )
    try:
        return Graph(content)
    except ValueError as error:
        raise ConfigError(f"workflow {path}: {error}") from None


class Named(NamedTuple):
    """Where the values of requests go, and where they cannot.

    Attributes:
        image: the node that saves the image.
        places: by slot; a value is put into all of its places.
        unnamed: by slot that has no place, why, as a line that says what helps.
        open: by slot that has no place because several could be meant, these.
    """

    image: str
    places: Mapping[str, tuple[Place, ...]]
    unnamed: Mapping[str, str]
    open: Mapping[str, tuple[Place, ...]]


@dataclass(frozen=True)
class Workflow:
    """A workflow with its slots: those that are named, and those that follow from how the nodes are linked.

    Attributes:
        graph: all nodes of the file.
        slots: as they were named: by slot, `NODE.INPUT` or several of them; of the image, the node. A node goes by
            its id or by its title.
    """

    graph: Graph
    slots: Mapping[str, str | tuple[str, ...]]

    def mistakes(self, wanted: Iterable[str]) -> list[str]:
        """What is wrong with the slots, and which of the wanted ones have no place, a line each."""
        try:
            named = self.named
        except ConfigError as error:
            return str(error).split("\n")
        return [named.unnamed[slot] for slot in ("prompt", "seed", *wanted) if slot in named.unnamed]

    @cached_property
    def named(self) -> Named:
        """The places of all slots.

        Raises:
            ConfigError: a slot names what is not there, or nothing says which node saves the image.
        """
        lines = [
            f"slots: unknown slot {slot!r}: {nearest_hint(slot, (*SLOTS, IMAGE))}"
            for slot in self.slots
            if slot not in SLOTS and slot != IMAGE
        ]
        image = ""
        try:
            image = self._image()
        except ValueError as error:
            lines.append(f"slots: {IMAGE}: {error}")
        on_the_way = self.graph.leading_to(image) if image else self.graph
        places: dict[str, tuple[Place, ...]] = {}
        for slot in SLOTS:
            if slot in self.slots:
                try:
                    places[slot] = tuple(self._places(slot, on_the_way, image))
                except ValueError as error:
                    lines.append(f"slots: {slot}: {error}")
        lines += _named_twice(places)
        if lines:
            raise ConfigError("\n".join(lines))
        unnamed: dict[str, str] = {}
        several: dict[str, tuple[Place, ...]] = {}
        for slot in SLOTS:
            if slot not in places:
                found, is_clear = _candidates(slot, on_the_way)
                if is_clear:
                    places[slot] = found
                else:
                    several[slot], unnamed[slot] = found, _unnamed(slot, found, on_the_way)
        return Named(image, places, unnamed, several)

    @cached_property
    def sent(self) -> Graph:
        """The nodes that lead to the image; only they are sent, and of each latent image there is one."""
        graph = self.graph.leading_to(self.named.image)
        single = dict.fromkeys(graph.literals(("batch_size",), (int,)), 1)
        return graph.with_values(single)

    def filled(self, values: Mapping[str, Value], *, prefix: str) -> dict[str, Any]:
        """What is sent for a request.

        Args:
            values: by slot; each has a place.
            prefix: how the file's name begins at the server. ComfyUI makes nothing again that it has made already,
                so that two requests need two.
        """
        settings: dict[Place, Value] = {
            place: value for slot, value in values.items() for place in self.named.places[slot]
        }
        return self.sent.with_values(settings | dict.fromkeys(self._prefix_places, prefix)).nodes

    def sha256(self, filled: Iterable[str]) -> str:
        """Over all that decides the image, but for the values of these slots: the same whatever stood in their
        places when the workflow was exported, whatever nodes are called, and wherever it is saved."""
        names = {place: f"({slot})" for slot in filled for place in self.named.places[slot]}
        nodes = self.sent.with_values(names | dict.fromkeys(self._prefix_places, "")).nodes
        plain = {
            node_id: {"class_type": node["class_type"], "inputs": node["inputs"]}
            for node_id, node in nodes.items()
        }
        return sha256(json.dumps(plain, sort_keys=True, separators=(",", ":")).encode()).hexdigest()

    def own_values(self, filled: Iterable[str]) -> dict[str, Value]:
        """What the workflow itself says where requests say nothing: by slot where it has one value for it, else by
        place; and all files with weights that it names, by place."""
        found: dict[str, Value] = {}
        for slot, places in {**self.named.places, **self.named.open}.items():
            if slot in (*EVERY_REQUEST, *filled) or not places:
                continue
            own = {str(place): self.sent.value(place) for place in places}
            same = len(set(own.values())) == 1
            found |= {slot: next(iter(own.values()))} if same else {f"{slot} {at}": it for at, it in own.items()}
        return found | {str(place): self.sent.value(place) for place in self.weights_files}

    @cached_property
    def weights_files(self) -> tuple[Place, ...]:
        """Where it names files with weights."""
        texts = self.sent.literals(None, (str,))
        return tuple(place for place in texts if str(self.sent.value(place)).lower().endswith(_WEIGHTS))

    @property
    def size(self) -> tuple[int, int] | None:
        """Width and height of what comes out, where the workflow says one."""
        own = self.own_values(())
        width, height = own.get("width"), own.get("height")
        return (width, height) if isinstance(width, int) and isinstance(height, int) else None

    @property
    def _prefix_places(self) -> tuple[Place, ...]:
        place = Place(self.named.image, "filename_prefix")
        return (place,) if self.sent.is_literal(place, (str,)) else ()

    def _image(self) -> str:
        given = self.slots.get(IMAGE)
        if given is not None:
            if not isinstance(given, str):
                raise ValueError("one node saves the image; got a list")
            return self.graph.node_called(given)
        return self.graph.saving_node()

    def _places(self, slot: str, on_the_way: Graph, image: str) -> Iterator[Place]:
        given = self.slots[slot]
        for text in (given,) if isinstance(given, str) else given:
            place = self.graph.place_called(text)
            if place.node not in on_the_way.nodes:
                raise ValueError(f"nothing of node {place.node} reaches the image that node {image} saves")
            yield self.graph.checked(place, SLOTS[slot])


def _named_twice(places: Mapping[str, tuple[Place, ...]]) -> Iterator[str]:
    first: dict[Place, str] = {}
    for slot, named in places.items():
        for place in named:
            if place in first:
                again = f"{slot} again" if first[place] == slot else f"both {first[place]} and {slot}"
                yield f"slots: {place} is named as {again} (accepted: one slot for a place)"
            first[place] = slot


def _candidates(slot: str, graph: Graph) -> tuple[tuple[Place, ...], bool]:
    """The places that could be meant by a slot that is not named, and whether they are without a doubt."""
    if slot in ("prompt", "negative_prompt"):
        texts = graph.encoded_texts("positive" if slot == "prompt" else "negative")
        found = tuple(dict.fromkeys(place for places in texts.values() for place in places))
        return found, len(texts) == 1  # which may take the text more than once
    if slot == "seed":
        found = graph.settings(("seed", "noise_seed"), (int,))
        return found, bool(found)  # whatever is random on the way has the seed of the request
    if slot in ("width", "height"):
        found = graph.latent_sizes(slot)
    else:
        found = graph.settings(_INPUTS.get(slot, ()), SLOTS[slot])
    return found, len(found) == 1


def _unnamed(slot: str, candidates: tuple[Place, ...], graph: Graph) -> str:
    if not candidates:
        return (
            f"{slot}: no place for it could be found in the workflow; name it, as in "
            f"`slots: {{{slot}: NODE.INPUT}}`, or leave {slot} out"
        )
    shown = ", ".join(f"{place} ({graph.nodes[place.node]['class_type']})" for place in candidates)
    return (
        f"{slot}: the workflow has several places that could be meant: {shown}; name one or a list of them, as in "
        f"`slots: {{{slot}: {candidates[0]}}}`"
    )
