"""`pair_sample.csv`: pairs of seed and edited photo that people are to compare, and nothing else about them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from detector_bench.atomic_files import write_text
from detector_bench.dataset.calibration_file import check_listed_images
from detector_bench.dataset.image_references import SEED_COLUMN
from detector_bench.dataset.image_set import ImageSet
from detector_bench.dataset.table_reading import check_columns, read_any_table
from detector_bench.dataset.text_table import Findings
from detector_bench.errors import ConfigError, Problem

PAIR_SAMPLE_FILE = "pair_sample.csv"
"""Its name in an image set's folder, where the labelling desk finds it by itself."""


def found_pair_sample(image_set: Path) -> Path | None:
    """The pairs that were drawn from an image set; None: there is no such file."""
    path = image_set / PAIR_SAMPLE_FILE
    return path if path.exists() else None


def write_pair_sample(path: Path, image_ids: Sequence[str], *, overwrite: bool = False) -> None:
    """Write the edited photos of the pairs, each once; no verdict on them stands in the file.

    Args:
        path: the file.
        image_ids: of the edited photos; repeated ones are written once.
        overwrite: whether a file that exists is replaced.

    Raises:
        ConfigError: the file exists.
    """
    if path.exists() and not overwrite:
        raise ConfigError(f"{str(path)!r} exists, and people may be at work on it; replace it with --overwrite")
    write_text(path, "\n".join(["image_id", *(_cell(name) for name in dict.fromkeys(image_ids))]) + "\n")


def read_pair_sample(path: Path, image_set: ImageSet) -> list[str]:
    """The edited photos of the pairs, in the order of the file.

    Raises:
        DataError: with all mistakes at once: unknown or repeated images, or photos that were not edited.
    """
    findings = Findings()
    table = read_any_table(path, findings, wanted=("image_id",))
    if table is not None:
        check_columns(table, ("image_id",), findings)
    findings.raise_if_any()
    assert table is not None  # noqa: S101 - a table that cannot be read is a mistake
    if not len(table):
        findings.add(Problem(table.file, "no pair is listed", accepted="the edited photo of each pair"))
    check_listed_images(table, image_set, findings)
    images = image_set.images
    edited = set(images.loc[images[SEED_COLUMN] != "", "image_id"]) if SEED_COLUMN in images else set()
    known = set(images["image_id"])
    single = table.records_with("image_id", lambda text: text in known and text not in edited)
    accepted = f"an image that names its seed photo in {SEED_COLUMN}"
    findings.add_rows(table, "image_id", np.asarray(single), message="no edited photo", accepted=accepted)
    findings.raise_if_any()
    return [str(name) for name in table.column("image_id").to_pylist()]


def _cell(text: str) -> str:
    return '"' + text.replace('"', '""') + '"' if any(mark in text for mark in ',"\n\r') else text
