"""The three tables of an image set as they lie in its folder: which columns each may have, and reading them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from detector_bench.dataset.image_ids import ImageIds
from detector_bench.dataset.image_references import SEED_COLUMN
from detector_bench.dataset.table_reading import read_table
from detector_bench.dataset.text_table import Findings, TextTable
from detector_bench.errors import ConfigError, Problem
from detector_bench.vocabulary import ATTRIBUTES, Attribute, attributes_of
from detector_bench.vocabulary.columns import (
    IMAGE_COLUMNS,
    LABEL_COLUMNS,
    PROMPT_COLUMNS,
    REASON_COLUMN,
    STATED_PREFIX,
    VALUE_COLUMN,
    WEIGHT_COLUMN,
    optional_prompt_columns,
)

_DISTINCT = ("image_id", "path", SEED_COLUMN, VALUE_COLUMN)
"""Columns whose cells rarely repeat."""


@dataclass(frozen=True, eq=False)
class Tables:
    """The three tables of an image set as they were read; None where a table cannot be checked.

    `attributes` are those that this image set knows: another one's own have no meaning here.
    """

    images: TextTable | None
    prompts: TextTable | None
    labels: TextTable | None
    attributes: Mapping[str, Attribute] = field(default_factory=lambda: ATTRIBUTES)
    ids: ImageIds | None = None
    """Of the images, if no two are the same."""


def read_tables(root: Path, findings: Findings, *, require_labels: bool) -> Tables:
    """Read an image set's three tables; what cannot be read is added to `findings`."""
    if not root.is_dir():
        message = "it is not a folder" if root.exists() else "no such folder"
        findings.add(Problem(str(root), message, accepted="a folder with images.csv, prompts.csv, labels.csv"))
        return Tables(None, None, None)
    attributes = _attributes(root, findings)
    images = read_table(
        root,
        "images",
        required=IMAGE_COLUMNS,
        optional=(SEED_COLUMN,),
        findings=findings,
        distinct=_DISTINCT,
    )
    ids = None
    if images is not None and images.has("image_id"):
        # In one piece, so that they are there only once.
        ids = ImageIds(images.column("image_id"))
        images = images.with_column("image_id", ids.texts)
        ids = ids if ids.are_distinct else None
    prompts = read_table(
        root,
        "prompts",
        required=PROMPT_COLUMNS,
        optional=optional_prompt_columns(attributes),
        numbers=(WEIGHT_COLUMN,),
        closed_prefix=STATED_PREFIX,
        findings=findings,
    )
    labels = read_labels(root, findings, required=require_labels, ids=ids)
    for pool in (pa.default_memory_pool(), pa.system_memory_pool()):  # CSV files are read with the latter
        pool.release_unused()
    return Tables(images, prompts, labels, attributes, ids)


def read_labels(
    root: Path, findings: Findings, *, required: bool = False, ids: ImageIds | None = None
) -> TextTable | None:
    """Read the labels of a folder; what cannot be read is added to `findings`.

    Args:
        root: the folder.
        findings: takes mistakes.
        required: whether it is a mistake if there are none.
        ids: those of the images, where they are known.
    """
    return read_table(
        root,
        "labels",
        required=tuple(name for name in LABEL_COLUMNS if name != REASON_COLUMN),
        optional=(REASON_COLUMN, VALUE_COLUMN),
        numbers=(VALUE_COLUMN,),
        findings=findings,
        may_be_missing=not required,
        distinct=_DISTINCT,
        ids=ids,
    )


def _attributes(root: Path, findings: Findings) -> dict[str, Attribute]:
    own: dict[str, Attribute] = {}
    try:
        own = attributes_of(root)
    except ConfigError as error:
        for line in str(error).splitlines():
            file, _, message = line.removeprefix(f"{root}{os.sep}").partition(": ")
            findings.add(Problem(file, message))
    return ATTRIBUTES.only_built_in() | own
