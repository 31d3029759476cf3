"""`calibration.csv`: the images of a set on which annotators agree on a standard, before they label alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from detector_bench.dataset.image_set import ImageSet
from detector_bench.dataset.table_reading import check_columns, read_any_table
from detector_bench.dataset.text_table import Findings, TextTable
from detector_bench.errors import Problem

CALIBRATION_FILE = "calibration.csv"
"""Its name in an image set's folder, where it is found by itself."""


def found_calibration(image_set: Path) -> Path | None:
    """The calibration file that lies in an image set's folder; None: there is none."""
    path = image_set / CALIBRATION_FILE
    return path if path.exists() else None


def read_calibration(image_set: ImageSet) -> list[str]:
    """The images of the calibration, in the order of the file; none where an image set has no such file.

    Only the column `image_id` is looked at, since it does not matter how these images were chosen: all of them get
    a label, and nothing is concluded from them about others.

    Raises:
        DataError: with all mistakes at once: unknown or repeated images, or those that no T2I model made.
    """
    path = found_calibration(image_set.root)
    if path is None:
        return []
    findings = Findings()
    table = read_any_table(path, findings, wanted=("image_id",))
    if table is not None:
        check_columns(table, ("image_id",), findings)
    findings.raise_if_any()
    assert table is not None  # noqa: S101 - a table that cannot be read is a mistake
    if not len(table):
        findings.add(Problem(table.file, "no image is listed", accepted="a row for each image"))
    check_listed_images(table, image_set, findings)
    findings.raise_if_any()
    return [str(name) for name in table.column("image_id").to_pylist()]


def check_listed_images(table: TextTable, image_set: ImageSet, findings: Findings) -> None:
    """Report rows whose image is not one of the set's, is listed before, or was made by no T2I model."""
    ids = pd.Series(table.column("image_id").to_pylist(), dtype="str")
    place = pd.Index(image_set.images["image_id"]).get_indexer(pd.Index(ids))
    unknown = np.flatnonzero(place < 0)
    findings.add_rows(
        table, "image_id", unknown, message="unknown image", accepted="an image_id that images.csv lists"
    )
    repeated = np.flatnonzero(ids.duplicated())
    findings.add_rows(table, "image_id", repeated, message="image listed twice", accepted="each image once")
    made_by = image_set.images["t2i_model"].to_numpy()[place]
    of_no_model = np.flatnonzero((place >= 0) & (made_by == ""))
    message = "no T2I model made this image"
    findings.add_rows(table, "image_id", of_no_model, message=message, accepted="an image with a t2i_model")
