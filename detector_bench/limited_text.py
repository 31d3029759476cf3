"""The limits of YAML and JSON files that anybody may have written: how large, how deep, which characters."""

from __future__ import annotations

import re
import unicodedata
from pathlib import Path

MOST_DEPTH = 60
"""Lists and mappings in each other."""
MOST_DIGITS = 300
"""Of a number; no float has more."""
LONGEST_SHOWN = 60
"""Characters of a bad value that a message repeats."""

_LONGEST_NAME, _LONGEST_PATH = 255, 4_000

# Tab and the line ends are text; what else controls a terminal, ends a C string or is half a character is none.
_NO_TEXT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff]")

_INVISIBLE = ("Zs", "Cf", "Co", "Cn")  # blanks, joiners and marks, private ones, those younger than this Python
_TURNING = ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")


class LimitError(ValueError):
    """A file or a value in it is beyond a limit; the message says which, without the place."""


def limited_bytes(path: Path, most: int) -> bytes:
    """The content of a file, of which no more is read than `most` bytes.

    Raises:
        OSError: it cannot be read.
        LimitError: it is larger.
    """
    with path.open("rb") as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise LimitError(f"the file is larger than {most / 1e6:,.0f} MB")
    return content


def check_text(text: str) -> None:
    """Refuse text with a character that no name, path or sentence has.

    Raises:
        LimitError: a control character (NUL among them), or one half of a surrogate pair.
    """
    if found := _NO_TEXT.search(text):
        character = ord(found.group())
        kind = "half a surrogate pair" if 0xD800 <= character <= 0xDFFF else "a control character"
        raise LimitError(f"the text {shown(text)} holds {kind}, U+{character:04X}")


def no_text_in(line: str) -> str:
    """The first character of a line that is no text, such as a line end; empty: all are.

    Blanks of all scripts are text, and so is what joins or parts letters and the pieces of an emoji. What turns
    the direction of everything behind it is none: it would show another sentence than is sent.
    """
    found = next((each for each in line if not each.isprintable() and _is_no_text(each)), "")
    return f"U+{ord(found):04X}" if found else ""


def _is_no_text(character: str) -> bool:
    kind = unicodedata.category(character)
    return kind not in _INVISIBLE or unicodedata.bidirectional(character) in _TURNING


def check_path(path: str) -> str:
    """A path as it is, unless no file system takes it.

    Raises:
        LimitError: it, or one of its parts, is too long.
    """
    longest = max(len(part.encode("utf-8", "replace")) for part in path.split("/"))
    if longest > _LONGEST_NAME or len(path) > _LONGEST_PATH:
        raise LimitError(f"the path {shown(path)} is too long (accepted: {_LONGEST_NAME} bytes for each part)")
    return path


def shown(text: str) -> str:
    """A value as a message repeats it: in quotes, control characters escaped, and not at any length."""
    return repr(text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}...")
