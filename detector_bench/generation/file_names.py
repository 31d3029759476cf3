"""Makes names of T2I models, prompts and photos parts of image ids and paths, which every file system takes."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Sequence

from detector_bench.dataset.image_tree import slug

_LONGEST_PART = 120
"""Bytes of a name in a path: two of them, a number and an ending are one file's name, of at most 255."""

_DIGITS = 8
_RESERVED = frozenset(
    ("con", "prn", "aux", "nul", *(f"{port}{number}" for port in ("com", "lpt") for number in range(10)))
)


def name_part(text: str) -> str:
    """A name as a part of ids and paths; two underscores stand between parts, so none has them inside."""
    part = re.sub(r"_{2,}", "_", slug(text)) or "_"
    if len(part.encode()) > _LONGEST_PART:
        start = part.encode()[: _LONGEST_PART - _DIGITS - 1].decode(errors="ignore")
        part = f"{start}_{_digits(text)}"
    # Windows keeps them for devices, whatever follows a dot.
    return f"{part}_" if part.partition(".")[0].casefold() in _RESERVED else part


def _digits(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]


def prompt_names(prompt_ids: Sequence[str]) -> dict[str, str]:
    """By prompt id, what ids and folders call it; those that would be alike get digits of their sha256."""
    plain = {prompt_id: name_part(prompt_id) for prompt_id in prompt_ids}
    uses = Counter(name.casefold() for name in plain.values())
    return {
        prompt_id: name
        # What is written as such ids are keeps its name whatever prompt is added.
        if uses[name.casefold()] == 1 or name == prompt_id == name.casefold()
        else f"{name}_{_digits(prompt_id)}"
        for prompt_id, name in plain.items()
    }
