"""What columns of tables of unknown origin mean: by their own names, by usual ones, or as somebody says."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

_FILE = (
    "file_name",
    "filename",
    "file",
    "image_path",
    "image_file",
    "image_name",
    "image",
    "img",
    "path",
    "filepath",
)

USUAL_NAMES: dict[str, tuple[str, ...]] = {
    "image_id": ("image_id", *_FILE, "imageid", "img_id", "id", "name", "key"),
    "path": _FILE,
    "annotator": ("annotator", "annotator_id", "rater", "rater_id", "worker", "worker_id", "coder", "labeller"),
    "attribute": ("attribute",),
    "label": ("label",),
    "reason": ("reason",),
    "value": ("value",),
    "t2i_model": (
        *("t2i_model", "t2i", "model", "model_name", "model_id", "generator", "checkpoint", "base_model"),
        *("pretrained_model_name_or_path", "pipeline"),
    ),
    "prompt": ("prompt", "text", "caption", "prompt_text", "positive_prompt"),
    "prompt_id": ("prompt_id", "prompt_index"),
    "word": ("word", "profession", "occupation", "concept"),
    "category": ("category", "domain"),
    "seed_image_id": ("seed_image_id",),
}
"""By our column, what others call it; the first that is there counts. In lower case, with _ for blanks."""


def plain_name(column: str) -> str:
    """A column's name without what differs from writer to writer: case, blanks, hyphens."""
    return re.sub(r"[\s-]+", "_", column.strip()).casefold()


def columns_for(ours: str, columns: Iterable[str], said: Mapping[str, str]) -> list[str]:
    """The columns of a table that may be one of ours, the likeliest first.

    What somebody says about a column of ours is all that counts for it, and a column that is said to be
    something else is no candidate.
    """
    if ours in said:
        return [said[ours]]
    others = {name.strip() for theirs in said.values() for name in theirs.split(",")}
    by_name: dict[str, str] = {}
    for column in columns:
        if column not in others:
            by_name.setdefault(plain_name(column), column)
    return [by_name[name] for name in USUAL_NAMES[ours] if name in by_name]


def column_for(ours: str, columns: Iterable[str], said: Mapping[str, str]) -> str | None:
    """The column that most likely is one of ours; None: there is none."""
    return next(iter(columns_for(ours, columns, said)), None)
