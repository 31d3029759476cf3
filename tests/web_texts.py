"""The texts that the desk's scripts and pages ask to be translated, read out of their source."""

from __future__ import annotations

import re
from collections.abc import Iterator

from detector_bench.labelling.web.desk import STATIC

_LITERAL = re.compile(r'"((?:[^"\\]|\\.)*)"')
_CALL = re.compile(r"(?<![\w.#])tn?\(")
_IN_PYTHON = {"Low quality", "Other"}
_OF_ENGLISH_PAGES = {"Skip to the ", "answers", "Skip to the numbers"}


def texts_of_the_pages() -> set[str]:
    """Every literal inside `t(...)` and `tn(...)`, values left aside; the coordinator's pages are in English."""
    found = {*_IN_PYTHON, "Skip to the answers"}
    for path in [*STATIC.glob("*.js"), *(STATIC.parent / "templates").glob("*.html")]:
        text = path.read_text(encoding="utf-8")
        for call in _CALL.finditer(text):
            found |= set(_literals(text, call.end()))
    return found - _OF_ENGLISH_PAGES


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
