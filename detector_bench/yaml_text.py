"""Reads YAML that anybody may have written: no key twice, within limits, and every mistake with its line."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import yaml

from detector_bench.limited_text import MOST_DEPTH, MOST_DIGITS, LimitError, check_text, shown

MOST_NODES = 200_000
"""Values in a file, each alias counted with all that it stands for."""
LARGEST_BYTES = 2_000_000
LONGEST_KEY = 1_000

_RETRIED_CHARACTERS = 100_000
"""So much is read a second time, in Python, for a message that says more."""
_MERGE = "tag:yaml.org,2002:merge"


class YamlMistake(ValueError):  # noqa: N818 - a mistake of who wrote the file; its message is not the whole line
    """What is wrong with a text, and where; lines and columns count from 1."""

    def __init__(self, problem: str, line: int | None = None, column: int | None = None) -> None:
        super().__init__(problem)
        self.place = "" if line is None else f", line {line}, column {column}"


def parse_yaml(text: str) -> Any:
    """What a YAML text says, as plain data.

    Raises:
        YamlMistake: it is not YAML, repeats a key, holds a value that is not what its tag says or a text with
            control characters, or is larger, deeper or, by its aliases, longer than the limits.
    """
    try:
        _check_size(text)
        return yaml.load(text, Loader=_QuickLoader)  # noqa: S506 - derived from SafeLoader
    except _RefusedError as error:
        raise _mistake(error) from None
    except yaml.YAMLError as error:
        if len(text) <= _RETRIED_CHARACTERS:
            try:
                yaml.load(text, Loader=_StrictLoader)  # noqa: S506 - its message says more
            except yaml.YAMLError as better:
                raise _mistake(better) from None
            except RecursionError:
                pass
        raise _mistake(error) from None


def _mistake(error: yaml.YAMLError) -> YamlMistake:
    mark = getattr(error, "problem_mark", None)
    problem = str(getattr(error, "problem", None) or " ".join(str(error).split()))
    return YamlMistake(problem, *((mark.line + 1, mark.column + 1) if mark is not None else ()))


class _RefusedError(yaml.constructor.ConstructorError):
    """Good YAML, which this project does not take."""

    def __init__(self, problem: str, place: Any) -> None:
        super().__init__(None, None, problem, place.start_mark)


def _check_size(text: str) -> None:
    """Walk through the events of a text before anything is built of it."""
    nodes_of_anchor: dict[str | None, int | None] = {}
    open_collections: list[tuple[str | None, int]] = []
    nodes = 0
    for event in yaml.parse(text, Loader=_EventLoader):
        if isinstance(event, yaml.AliasEvent):
            known = nodes_of_anchor.get(event.anchor, 0)  # an unknown one is refused when it is composed
            if known is None:
                raise _RefusedError(f"the alias *{event.anchor} stands within what it is an alias of", event)
            nodes += known
        elif isinstance(event, yaml.CollectionStartEvent):
            open_collections.append((event.anchor, nodes))
            nodes += 1
            if event.anchor:
                nodes_of_anchor[event.anchor] = None
            if len(open_collections) > MOST_DEPTH:
                raise _RefusedError(f"lists and mappings are nested deeper than {MOST_DEPTH}", event)
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = open_collections.pop()
            if anchor:
                nodes_of_anchor[anchor] = nodes - before
        elif isinstance(event, yaml.ScalarEvent):
            nodes += 1
            if event.anchor:
                nodes_of_anchor[event.anchor] = 1
        if nodes > MOST_NODES:
            raise _RefusedError(f"more than {MOST_NODES:,} values, with what aliases stand for", event)


class _Strict(yaml.constructor.SafeConstructor):
    """Refuses a mapping with the same key twice, of which YAML would silently keep the last."""

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:  # noqa: FBT001, FBT002
        kind = node.tag.rpartition(":")[2]
        if kind in _NOT_TAKEN:
            raise _RefusedError(f"the tag !!{kind} has no meaning here", node)
        if not isinstance(node, yaml.ScalarNode):
            return super().construct_object(node, deep=deep)
        try:
            if kind in ("int", "float") and len(node.value) > MOST_DIGITS:
                raise LimitError(f"a number of more than {MOST_DIGITS} digits")
            check_text(node.value)
            return super().construct_object(node, deep=deep)
        except LimitError as error:
            raise _RefusedError(str(error), node) from None
        except (ValueError, KeyError, IndexError, TypeError, AttributeError, OverflowError):
            # PyYAML's own constructors fail so on values that look like what they are not: 2026-02-30, 0x_.
            raise _RefusedError(f"{shown(node.value)} is {_NO_SUCH.get(kind, 'no ' + kind)}", node) from None

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:  # noqa: FBT001, FBT002
        seen: set[Any] = set()
        for key_node, _ in getattr(node, "value", ()) if isinstance(node, yaml.MappingNode) else ():
            if key_node.tag == _MERGE:
                continue  # `<<` brings in keys that the mapping's own keys may replace
            key = self.construct_object(key_node, deep=True)
            if len(key_node.value) > LONGEST_KEY:
                raise _RefusedError(f"a key of more than {LONGEST_KEY:,} characters", key_node)
            if not isinstance(key, Hashable):
                continue  # refused below
            if key in seen:
                raise _RefusedError(f"the key {shown(str(key))} stands here a second time", key_node)
            seen.add(key)
        return super().construct_mapping(node, deep=deep)


_NOT_TAKEN = ("binary", "omap", "pairs", "set")
_NO_SUCH = {
    "bool": "neither true nor false",
    "float": "no number",
    "int": "no whole number",
    "timestamp": "no date that there is",
}


class _StrictLoader(_Strict, yaml.SafeLoader):
    pass


_EventLoader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _QuickLoader(_Strict, _EventLoader):  # type: ignore[misc]
    pass
