"""Which part of an answer is about what: several questions in one request, and two people in one image."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Literal

Person = Literal["most_prominent", "left", "right"]
"""Whose attribute an answer tells: of the most prominent person, or of one of two."""

_LONGEST = 20_000
_DECODER = json.JSONDecoder()
_BLANK = re.compile(r"\s*")
_NUMBERED = re.compile(r"^\W*(\d{1,2})\s*[.):]\s*(\S.*)$", re.MULTILINE)
_SIDES = re.compile(
    r"\b(left|right)(?:-hand)?(?:\s+(?:person|one)\s*(?:is\b|:)|\s*:)"
    r"|\b(?:person|one)\s+on\s+the\s+(left|right)\s*(?:is\b|:)",
    re.IGNORECASE,
)


class UnreadableAnswerError(ValueError):
    """An answer that does not say what was asked for; the text is one line for an error row."""


def joint_question(questions: Mapping[str, str]) -> str:
    """One text that asks several questions about an image, and for one JSON object with their answers."""
    asked = "\n".join(f"{name}: {question}" for name, question in questions.items())
    form = ", ".join(f'"{name}": "..."' for name in questions)
    return (
        "Answer each of these questions by itself, whatever the others' answers are.\n"
        f"{asked}\n"
        f"Reply with one JSON object and nothing else: {{{form}}}"
    )


def joint_part(text: str, attribute: str, *, asked: tuple[str, ...]) -> slice | None:
    """Where an answer to several questions tells about one of them.

    The answer is a JSON object, in Markdown's fences or among words; or lines, "gender: male" or "1. male". What
    was not asked does not count.

    Args:
        text: the answer.
        attribute: the question.
        asked: the names of all questions, in their order.

    Returns:
        The place of the value; None: there is neither an object nor such lines, but words.

    Raises:
        UnreadableAnswerError: the question is missing or answered twice, or the object is broken or one of
            several.
    """
    start = after_thoughts(text)
    if len(text) - start > _LONGEST:
        raise UnreadableAnswerError(f"the answer has {len(text):,} characters; accepted: {_LONGEST:,}")
    objects = list(_objects(text, start))
    if len(objects) > 1:
        raise UnreadableAnswerError(f"the answer holds {len(objects)} JSON objects; accepted: one")
    if not objects and "{" in text[start:]:
        raise UnreadableAnswerError("the answer's JSON object is broken or cut off; allow it more tokens")
    pairs = objects[0] if objects else _lines(text, start, asked)
    if not pairs and not objects:
        return None
    found = [place for name, place in pairs if _name(name) == attribute]
    if len(found) == 1:
        return found[0]
    remedy = "`asking: apart` asks for it alone"
    if not found:
        raise UnreadableAnswerError(f"{attribute!r} is missing from the answer; {remedy}")
    raise UnreadableAnswerError(f"{attribute!r} is answered {len(found)} times; {remedy}")


def after_thoughts(text: str) -> int:
    """Where an answer begins behind what a model thinks aloud; its end, if it never stops thinking."""
    lower = text.lower()
    end = lower.rfind("</think>")
    if end >= 0:
        return end + len("</think>")
    return len(text) if "<think>" in lower else 0


def _name(key: str) -> str:
    return "_".join(key.casefold().split())


def _objects(text: str, start: int) -> Iterator[list[tuple[str, slice]]]:
    """The JSON objects in a text, as pairs of a key and the place of its value."""
    at = text.find("{", start)
    while at >= 0:
        try:
            pairs, end = _object(text, at)
        except (ValueError, IndexError, RecursionError):
            # What stands inside a broken object is none of its own.
            return
        yield pairs
        at = text.find("{", end)


def _object(text: str, at: int) -> tuple[list[tuple[str, slice]], int]:
    pairs: list[tuple[str, slice]] = []
    at = _past_blanks(text, at + 1)
    if text[at] == "}":
        return pairs, at + 1
    while True:
        key, at = _DECODER.raw_decode(text, at)
        at = _past_blanks(text, at)
        if not isinstance(key, str) or text[at] != ":":
            raise ValueError("no key")
        start = _past_blanks(text, at + 1)
        _, at = _DECODER.raw_decode(text, start)
        pairs.append((key, slice(start, at)))
        at = _past_blanks(text, at)
        if text[at] == "}":
            return pairs, at + 1
        if text[at] != ",":
            raise ValueError("no end")
        at = _past_blanks(text, at + 1)


def _past_blanks(text: str, at: int) -> int:
    found = _BLANK.match(text, at)
    return at if found is None else found.end()


def _lines(text: str, start: int, asked: tuple[str, ...]) -> list[tuple[str, slice]]:
    names = "|".join(re.escape(name).replace("_", "[ _]") for name in asked)
    named = re.compile(rf"^\W*(?:\d+\W+)?({names})\W*[:=]\s*(\S.*)$", re.MULTILINE | re.IGNORECASE)
    found = [(match[1], slice(*match.span(2))) for match in named.finditer(text, start)]
    if found:
        return found
    numbered = [(int(match[1]), slice(*match.span(2))) for match in _NUMBERED.finditer(text, start)]
    return [(asked[number - 1], place) for number, place in numbered if 0 < number <= len(asked)]


def side_part(text: str, side: Literal["left", "right"]) -> slice | None:
    """Where an answer about two people tells about one: "the left person is ... and the right person is ...".

    Only the words behind "left person is", "person on the left is" or "left:" count, up to where the other side
    begins. None: the answer does not name the side in this way.
    """
    marks = list(_SIDES.finditer(text, after_thoughts(text)))
    for number, mark in enumerate(marks):
        if (mark[1] or mark[2]).lower() == side:
            end = marks[number + 1].start() if number + 1 < len(marks) else len(text)
            return slice(mark.end(), end)
    return None
