"""The texts that the desk's scripts and pages ask to be translated, read out of their source."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from detector_bench.labelling.web.desk import STATIC

_LITERAL = re.compile(r'"((?:[^"\\]|\\.)*)"')
_CALL = re.compile(r"(?<![\w.#])tn?\(")
_SAID = ("say", "say_of", "text")
"""What Python's modules ask for a text."""


def texts_of_the_pages() -> set[str]:
    """Every literal inside `t(...)` and `tn(...)`, values left aside, and what Python says."""
    found = set(_said_in_python())
    for path in [*STATIC.glob("*.js"), *(STATIC.parent / "templates").glob("*.html")]:
        text = path.read_text(encoding="utf-8")
        for call in _CALL.finditer(text):
            found |= set(_literals(text, call.end()))
    return found


def _said_in_python() -> Iterator[str]:
    for path in [*STATIC.parent.glob("*.py"), *STATIC.parents[1].glob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) in _SAID:
                texts = (each.value for each in node.args if isinstance(each, ast.Constant))
                yield from (text for text in texts if isinstance(text, str))


def _literals(text: str, start: int) -> Iterator[str]:
    """The literals up to the bracket that closes, without those in braces."""
    depth, at = 1, start
    while depth and at < len(text):
        literal = _LITERAL.match(text, at)
        if literal is not None:
            yield literal[1]
            at = literal.end()
        elif text[at] == "{":
            at = text.index("}", at) + 1
        else:
            depth += {"(": 1, ")": -1}.get(text[at], 0)
            at += 1
