"""Reads JSON that anybody may have written: within limits, and every mistake with its line."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from detector_bench.limited_text import MOST_DEPTH, MOST_DIGITS, LimitError, check_text, limited_bytes

LARGEST_BYTES = 200_000_000

_STRING_OR_BRACKET = re.compile(r'"(?:[^"\\]|\\.)*+"|[\[{\]}]', re.DOTALL)
_ESCAPES = re.compile(r"\\u(?:00[01]|007[fF]|00[89]|[dD][89a-fA-F])")
_Pairs = Callable[[list[tuple[str, Any]]], Any]


class JsonMistake(ValueError):  # noqa: N818 - a mistake of who wrote the file; its message is not the whole line
    """What is wrong with a JSON file; the line and column count from 1, and are None for the whole file."""

    @property
    def place(self) -> str:
        """`, line 3, column 5`, or nothing."""
        return "" if self.line is None else f", line {self.line}, column {self.column}"

    def __init__(self, problem: str, line: int | None = None, column: int | None = None) -> None:
        super().__init__(problem)
        self.line, self.column = line, column


def read_json(path: Path, *, pairs: _Pairs | None = None, largest: int = LARGEST_BYTES) -> Any:
    """What a JSON file says, as plain data; a byte order mark is skipped.

    Args:
        path: the file.
        pairs: makes an object of its keys and values, for readers that refuse a key given twice; default: a dict.
        largest: bytes.

    Raises:
        OSError: it cannot be read.
        JsonMistake: it is no UTF-8, no JSON, or beyond a limit: bytes, depth, digits, characters that no text has.
    """
    try:
        return parse_json(limited_bytes(path, largest).decode("utf-8-sig"), pairs=pairs)
    except LimitError as error:
        raise JsonMistake(str(error)) from None
    except UnicodeDecodeError as error:
        raise JsonMistake(f"wrong encoding at byte {error.start:,}; UTF-8 is expected") from None


def parse_json(text: str, *, pairs: _Pairs | None = None) -> Any:
    """What a JSON text says, as plain data; like `read_json`.

    Raises:
        JsonMistake: as `read_json`.
    """
    try:
        _check_depth(text)
        content = json.loads(text, object_pairs_hook=pairs, parse_int=_whole_number)
        if _ESCAPES.search(text):
            _check_texts(content)
    except json.JSONDecodeError as error:
        raise JsonMistake(error.msg, error.lineno, error.colno) from None
    except (LimitError, RecursionError) as error:
        raise JsonMistake(str(error)) from None
    return content


def _check_depth(text: str) -> None:
    depth = 0
    for found in _STRING_OR_BRACKET.finditer(text):
        first = found.group()[0]
        depth += (first in "[{") - (first in "]}")
        if depth > MOST_DEPTH:
            raise LimitError(f"lists and objects are nested deeper than {MOST_DEPTH}")


def _check_texts(content: Any) -> None:
    if isinstance(content, str):
        check_text(content)
    elif isinstance(content, dict):
        for key, value in content.items():
            check_text(key)
            _check_texts(value)
    elif isinstance(content, list):
        for value in content:
            _check_texts(value)


def _whole_number(digits: str) -> int:
    if len(digits) > MOST_DIGITS:
        raise LimitError(f"a number of more than {MOST_DIGITS} digits")
    return int(digits)
