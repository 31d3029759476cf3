"""The link from predictions and labels to numbers: everything is computed again, and compared."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from detector_bench.errors import ConfigError, DetectorBenchError
from detector_bench.results.inputs import ROWS_FILE, changed_inputs, inputs_of
from detector_bench.results.long_tables import read_long_table
from detector_bench.results.manifest import Manifest
from detector_bench.results.verification_record import Link, Outcome
from detector_bench.study_configuration import StudyConfiguration
from detector_bench.study_run import evaluate_study
from detector_bench.verification.files import link

TOLERANCE = 1e-9
"""Relative, and absolute near zero: other versions of the libraries add up in another order."""

_NAME = "numbers"


def numbers(study: StudyConfiguration, folder: Path, judged: Path, manifest: Manifest) -> Link:
    """Evaluate the stored predictions again, and compare every number with the stored one.

    Args:
        study: the folder's, with an image set that is there.
        folder: the result folder.
        judged: its predictions.
        manifest: its `results.json`.
    """
    if changed := _changed(study, manifest):
        return link(_NAME, Outcome.OPEN, "the numbers were made of other inputs than those here", changed)
    with TemporaryDirectory(prefix="detector-bench-") as temporary:
        out = Path(temporary) / "again"
        try:
            evaluate_study(study, judged, out, allow_incomplete=True, allow_unproved=True)
        except DetectorBenchError as error:
            return link(_NAME, Outcome.FALSE, "they cannot be computed again", str(error).splitlines())
        again = Manifest.read(out)
        problems: list[str] = []
        equal = near = 0
        tables = {name: rows for name, rows in manifest.files.items() if name != ROWS_FILE}
        for name, rows in tables.items():
            if manifest.proof.files.get(name) == again.proof.files.get(name):
                equal += rows
                continue
            difference = _difference(folder / name, out / name)
            near += 0 if difference else rows
            problems += [f"{name}: {difference}"] if difference else []
    lost = manifest.plugins_left_out()
    if problems and lost:
        return link(_NAME, Outcome.OPEN, "numbers of plugin files cannot be computed without them", lost)
    says = f"{equal + near:,} rows of {len(tables)} tables come out again"
    if near:
        says += f", {near:,} of them to {TOLERANCE:g}"
    return link(_NAME, Outcome.FALSE if problems else Outcome.PROVED, says, problems)


def _changed(study: StudyConfiguration, manifest: Manifest) -> list[str]:
    from detector_bench.dataset import ImageSet

    now = inputs_of(ImageSet.load(study.image_set), study.score_files())
    return changed_inputs(manifest, now)


def _difference(stored: Path, again: Path) -> str:
    """What is different in two files of one table; empty if nothing is."""
    if not again.is_file():
        return "it does not come out again"
    try:
        one, other = _rows(stored), _rows(again)
    except (OSError, ValueError, KeyError, ConfigError) as error:
        return f"it cannot be read ({str(error).splitlines()[0]})"
    if list(one.columns) != list(other.columns) or len(one) != len(other):
        return f"{len(one):,} rows, computed again {len(other):,}"
    for column in one.columns:
        if pd.api.types.is_numeric_dtype(one[column]) and pd.api.types.is_numeric_dtype(other[column]):
            values = one[column].to_numpy(np.float64), other[column].to_numpy(np.float64)
            same = np.isclose(*values, rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True)
        else:
            same = _texts(one[column]) == _texts(other[column])
        if not same.all():
            row = int(np.flatnonzero(~same)[0])
            return (
                f"{int((~same).sum()):,} values of column {column}, the first in row {row + 2}: "
                f"{one[column].iloc[row]!s}, computed again {other[column].iloc[row]!s}"
            )
    return ""


def _texts(column: pd.Series[Any]) -> NDArray[np.str_]:
    """What stands in each cell; empty where nothing does, whatever way the file's format says so."""
    return np.array(["" if pd.isna(cell) else str(cell) for cell in column.tolist()], dtype=np.str_)


def _rows(path: Path) -> pd.DataFrame:
    try:
        return read_long_table(path)
    except KeyError:  # a table with columns of its own
        return pd.read_csv(path)
