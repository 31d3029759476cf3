"""The link from predictions and labels to numbers: everything is computed again, and compared."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from detector_bench.dataset import ImageSet
from detector_bench.dataset.generations import read_generations
from detector_bench.errors import ConfigError, DetectorBenchError
from detector_bench.evaluation import evaluate_with_confusion
from detector_bench.evaluation.coded_predictions import CodedPredictions
from detector_bench.evaluation.image_index import ImageIndex
from detector_bench.evaluation.intervals import Intervals
from detector_bench.evaluation.metric_table import with_rows
from detector_bench.evaluation.refusals import request_rows
from detector_bench.results.inputs import ROWS_FILE, changed_inputs, inputs_of
from detector_bench.results.long_tables import added_columns, no_rows, read_long_table
from detector_bench.results.manifest import Manifest
from detector_bench.results.verification_record import Link, Outcome
from detector_bench.runner.stored_predictions import StoredPredictions
from detector_bench.study_configuration import StudyConfiguration
from detector_bench.study_run import evaluate_study
from detector_bench.verification.files import link
from detector_bench.verification.record import unlike_counts, unlike_record, unlike_settings, unlike_tables

TOLERANCE = 1e-9
"""Relative, and absolute near zero: other versions of the libraries add up in another order."""

MOST_IMAGES = 20_000
"""Of a study whose every number is computed again without being asked for."""

_NAME = "numbers"
_COUNTED = {"metrics": "metrics.parquet", "confusion": "confusion.csv"}
_NUMBERS = ("value", "n", "n_left_out", "images")


def numbers(
    study: StudyConfiguration, image_set: ImageSet, folder: Path, judged: Path, manifest: Manifest, *, every: bool
) -> list[Link]:
    """Evaluate the stored predictions again, and compare numbers with the stored ones.

    Args:
        study: the folder's.
        image_set: its image set.
        folder: the result folder.
        judged: its predictions.
        manifest: its `results.json`.
        every: also intervals and further tables of more than `MOST_IMAGES` images, which take minutes.
    """
    if changed := changed_inputs(manifest, inputs_of(image_set, study.score_files())):
        return [link(_NAME, Outcome.OPEN, "the numbers were made of other inputs than those here", changed)]
    if every or len(image_set.image_ids) <= MOST_IMAGES:
        return [_every_number(study, image_set, folder, judged, manifest)]
    return _values(study, image_set, folder, judged, manifest)


def _every_number(
    study: StudyConfiguration, image_set: ImageSet, folder: Path, judged: Path, manifest: Manifest
) -> Link:
    with TemporaryDirectory(prefix="detector-bench-") as temporary:
        out = Path(temporary) / "again"
        try:
            # The folder of the predictions may have numbers of its own, of other labels.
            evaluate_study(study, judged, out, allow_incomplete=True, allow_unproved=True, changed_inputs=True)
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
        problems += unlike_record(manifest, again)
        unlike = unlike_tables(manifest, out, prompts=image_set.prompts)
    lost = manifest.plugins_left_out()
    if (problems or unlike) and lost:
        return link(_NAME, Outcome.OPEN, "numbers of plugin files cannot be computed without them", lost)
    says = f"{equal + near:,} rows of {len(tables)} tables come out again"
    if near and not problems:
        # What is rounded may come out otherwise where the numbers differ in their last digits.
        says += f", {near:,} of them to {TOLERANCE:g}"
        return link(_NAME, Outcome.OPEN if unlike else Outcome.PROVED, says, unlike)
    problems += unlike
    return link(_NAME, Outcome.FALSE if problems else Outcome.PROVED, says, problems)


def _values(
    study: StudyConfiguration, image_set: ImageSet, folder: Path, judged: Path, manifest: Manifest
) -> list[Link]:
    """The metric table's values and the confusion table, which follow from counting alone."""
    try:
        predictions = CodedPredictions(
            ImageIndex.of(image_set),
            StoredPredictions(judged, also=("value",)),
            detectors=[entry.name for entry in study.detectors],
            attributes=study.attributes,
        )
        again = evaluate_with_confusion(
            image_set, predictions, attributes=study.attributes, n_clear=study.n_clear, allow_incomplete=True
        )
        generations = read_generations(image_set)
        requests = None if generations is None else request_rows(generations, Intervals(method="none"))
        own_metrics = again.metrics if requests is None else with_rows(again.metrics, requests)
        stored = {
            name: read_long_table(folder / file) if file in manifest.files else no_rows(name)
            for name, file in _COUNTED.items()
        }
    except (DetectorBenchError, OSError, ValueError) as error:
        return [link(_NAME, Outcome.FALSE, "they cannot be computed again", str(error).splitlines())]
    problems = unlike_settings(manifest, study.evaluation_settings(folder))
    problems += unlike_counts(manifest, predictions.status_counts)
    left = 0
    for name, own in (("metrics", own_metrics), ("confusion", again.confusion)):
        difference, unmatched = _unlike_values(stored[name], own)
        problems += [f"{_COUNTED[name]}: {difference}"] if difference else []
        left += unmatched
    rows = len(own_metrics) + len(again.confusion)
    says = f"{rows:,} values of metrics.csv and confusion.csv come out again" if not problems else "values differ"
    others = sum(name not in ("metrics.csv", *_COUNTED.values(), ROWS_FILE) for name in manifest.files)
    not_again = (
        f"confidence intervals, {left:,} scores and estimates and {others} further tables were not computed again "
        "(--all-numbers)"
    )
    return [
        link(_NAME, Outcome.FALSE if problems else Outcome.PROVED, says, problems),
        link("intervals", Outcome.OPEN, not_again),
    ]


def _unlike_values(stored: pd.DataFrame, again: pd.DataFrame) -> tuple[str, int]:
    """What is different in rows that were computed again, and how many stored rows are none of them."""
    numbers_of = [name for name in _NUMBERS if name in again.columns]
    keys = [name for name in again.columns if name not in (*_NUMBERS, "ci_low", "ci_high")]
    one, other = (
        frame.set_index(pd.MultiIndex.from_arrays([_texts(frame[name]) for name in keys]))[numbers_of]
        for frame in (stored, again)
    )
    if not one.index.is_unique:
        return f"{int(one.index.duplicated().sum()):,} rows are there twice", 0
    found = one.reindex(other.index)
    lacking = int((~other.index.isin(one.index)).sum())
    if lacking:
        return f"{lacking:,} rows are not there", 0
    for column in numbers_of:
        values = found[column].to_numpy(np.float64), other[column].to_numpy(np.float64)
        same = np.isclose(*values, rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True)
        if not same.all():
            row = int(np.flatnonzero(~same)[0])
            shown = ", ".join(text for text in other.index[row] if text)
            change = f"{found[column].iloc[row]}, computed again {other[column].iloc[row]}"
            return f"{int((~same).sum()):,} values of column {column}, the first of {shown}: {change}", 0
    return "", len(one) - len(other)


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
    unknown = added_columns(stored) if stored.suffix == ".csv" else []
    for column in one.columns.difference(unknown, sort=False):
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
