"""The long tables of a result folder, one row per number: their columns, how they are written and read.

Those beside the metric table are computed here, too: causes, comparisons and ranks, agreement, sweeps.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from detector_bench.atomic_files import remove, replacing
from detector_bench.dataset import ImageSet
from detector_bench.errors import ConfigError
from detector_bench.evaluation.agreement import AGREEMENT_COLUMNS, agreement
from detector_bench.evaluation.causes import (
    CAUSE_COLUMNS,
    GAP_COLUMNS,
    OUTCOME_COLUMNS,
    PREDICTION_COLUMNS,
    cause_tables,
)
from detector_bench.evaluation.contests import (
    COMPARISON_COLUMNS,
    CONTEST_COLUMNS,
    PAIRED_IMAGE_COLUMNS,
    RANK_COLUMNS,
    contest_tables,
)
from detector_bench.evaluation.image_index import labelled_attributes
from detector_bench.evaluation.shared_sweeps import SHARED_CHOICE_COLUMNS, shared_sweeps
from detector_bench.evaluation.sweeps import SWEEP_COLUMNS
from detector_bench.evaluation.t2i_model_tests import BIAS_COLUMNS, DIFFERENCE_COLUMNS, REFUSAL_EFFECT_COLUMNS
from detector_bench.results.label_plans import LABEL_PLAN_COLUMNS
from detector_bench.results.manifest import EvaluationSettings
from detector_bench.vocabulary.columns import CONFUSION_COLUMNS, LABEL_DOUBT_COLUMNS, METRIC_COLUMNS

LONG_TABLES: dict[str, tuple[str, ...]] = {
    "metrics": METRIC_COLUMNS,
    "confusion": CONFUSION_COLUMNS,
    "label_doubt": LABEL_DOUBT_COLUMNS,
    "causes": CAUSE_COLUMNS,
    "accuracy_gaps": GAP_COLUMNS,
    "filter_outcomes": OUTCOME_COLUMNS,
    "comparisons": COMPARISON_COLUMNS,
    "images_judged_rightly": PAIRED_IMAGE_COLUMNS,
    "ranks": RANK_COLUMNS,
    "agreement": AGREEMENT_COLUMNS,
    "sweeps": SWEEP_COLUMNS,
    "sweep_choices": SHARED_CHOICE_COLUMNS,
    "label_plans": LABEL_PLAN_COLUMNS,
    "t2i_model_biases": BIAS_COLUMNS,
    "t2i_model_comparisons": DIFFERENCE_COLUMNS,
    "refusal_effects": REFUSAL_EFFECT_COLUMNS,
}
"""Columns by name. Each stands in `<name>.csv`, the metric table in `metrics.parquet`, too. A table without a row
has no file: nobody knows how much depends on who labelled where each image has one label, for instance."""

_WORDS = {
    *("attribute", "better_than", "category", "chosen_by", "detector", "detector_reason", "error_metric", "first"),
    *("groups", "human_label", "human_reason", "label", "labelled_by", "metric", "n_clear", "prompt_id", "raters"),
    *("reason", "second", "share", "statistic", "status", "t2i_model", "variant", "verdict"),
}
_TRUE_OR_FALSE = "told_apart", "beyond_chance", "known", "could_explain", "could_hide"
_MISSING_WORDS = {"metrics": ("n_clear", "variant"), "label_doubt": ("n_clear", "variant")}
"""By table: columns of words in which an empty cell is a missing value, and no empty text."""

_ADDED_LATER = {"agreement": ("ci_low", "ci_high")}
"""By table: columns of numbers that files of earlier versions lack; nothing is known there."""

COLUMNS_NEEDED = (*PREDICTION_COLUMNS, *CONTEST_COLUMNS)
"""Columns of the predictions that `further_tables` needs."""

MOST_IMAGES = 200_000
"""Of larger studies these tables are computed when they are asked for: an evaluation takes seconds so. The metric
table draws no resamples there either."""

_OF_CAUSES = ("causes", "accuracy_gaps", "filter_outcomes")
_OF_CONTESTS = ("comparisons", "images_judged_rightly", "ranks")
_OF_SWEEPS = ("sweeps", "sweep_choices")
FURTHER_TABLES = (*_OF_CAUSES, *_OF_CONTESTS, "agreement", *_OF_SWEEPS)

_ROWS_AT_ONCE = 50_000
_NEEDS_QUOTES = ('"', ",", "\n", "\r")


def write_long_table(name: str, rows: pd.DataFrame, folder: Path) -> dict[str, int]:
    """Write a long table, each file whole or not at all; without a row, the files of an earlier evaluation go.

    The same table gives the same bytes. Missing words and undefined numbers are empty cells (nulls); floats have
    as many digits as it takes to read them back exactly. In a CSV file either no word is quoted, or, where some
    name holds a comma or a quotation mark, all of them are.

    Args:
        name: one of `LONG_TABLES`.
        rows: with its columns.
        folder: created if missing.

    Returns:
        How many rows each file holds.

    Raises:
        DetectorBenchError: the disk is full, read-only or the like.
    """
    endings = ("parquet", "csv") if name == "metrics" else ("csv",)
    if rows.empty:
        for ending in endings:
            remove(folder / f"{name}.{ending}")
        return {}
    table = pa.Table.from_pandas(rows[list(LONG_TABLES[name])], preserve_index=False).replace_schema_metadata(None)
    for ending in endings:
        with replacing(folder / f"{name}.{ending}") as temporary:
            if ending == "parquet":
                pq.write_table(table, temporary, compression="zstd")
            else:
                _write_csv(table, temporary)
    return {f"{name}.{ending}": table.num_rows for ending in endings}


def write_own_table(name: str, rows: pd.DataFrame, folder: Path) -> dict[str, int]:
    """Write a table with columns of its own, as score systems have them: as CSV for people, and as Parquet, which
    is read back with the same types.

    Args:
        name: of the CSV file, such as `imagebite_verdicts.csv`.
        rows: each column holds values of one type.
        folder: the result folder.

    Returns:
        How many rows each file holds.

    Raises:
        ConfigError: a column holds values of several types.
        DetectorBenchError: the disk is full, read-only or the like.
    """
    try:
        table = pa.Table.from_pandas(rows, preserve_index=False)
    except pa.ArrowException as error:
        why = str(error).splitlines()[0]
        raise ConfigError(f"{name}: a column holds values of several types ({why})") from error
    stored = Path(name).with_suffix(".parquet").name
    with replacing(folder / name) as temporary:
        rows.to_csv(temporary, index=False, lineterminator="\n")
    with replacing(folder / stored) as temporary:
        pq.write_table(table, temporary, compression="zstd")
    return {name: len(rows), stored: len(rows)}


def read_long_table(path: Path) -> pd.DataFrame:
    """Read a file of a long table as it was written; `path` is named after one of `LONG_TABLES`, or is the Parquet
    file of a table with columns of its own.

    Raises:
        OSError, ArrowException, ValueError: it cannot be read, or lacks a column.
    """
    if path.suffix == ".parquet":
        whole = pd.read_parquet(path)
        if lacking := [name for name in LONG_TABLES.get(path.stem, ()) if name not in whole]:
            raise ValueError(f"it lacks the columns {', '.join(lacking)}")
        return whole
    added = added_columns(path)
    columns = [name for name in LONG_TABLES[path.stem] if name not in added]
    types = {name: _type_of(name) for name in columns}
    # A prompt, a T2I model or an annotator may be called "null" or "NA".
    rows: pd.DataFrame = pyarrow.csv.read_csv(
        path,
        parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True),
        convert_options=pyarrow.csv.ConvertOptions(
            column_types=types, include_columns=list(columns), null_values=[""], strings_can_be_null=False
        ),
    ).to_pandas()
    for name in _MISSING_WORDS.get(path.stem, ()):
        rows[name] = rows[name].where(rows[name] != "")
    return rows.assign(**dict.fromkeys(added, math.nan))[list(LONG_TABLES[path.stem])]


def added_columns(path: Path) -> list[str]:
    """The columns that a CSV file of an earlier version lacks; they are read as NaN."""
    later = _ADDED_LATER.get(path.stem, ())
    with path.open(encoding="utf-8") as file:
        there = file.readline().rstrip("\r\n").split(",")
    return [name for name in later if name not in there]


def no_rows(name: str) -> pd.DataFrame:
    """A long table without a row."""
    return pd.DataFrame(columns=list(LONG_TABLES[name]))


def _type_of(column: str) -> pa.DataType:
    if column.endswith(_TRUE_OR_FALSE):
        return pa.bool_()
    return pa.string() if column in _WORDS else pa.float64()


def _write_csv(table: pa.Table, path: Path) -> None:
    types = [pa.string() if pa.types.is_dictionary(field.type) else field.type for field in table.schema]
    schema = pa.schema(list(zip(table.column_names, types, strict=True)))
    quotes = "needed" if _any_word_needs_quotes(table) else "none"
    options = pyarrow.csv.WriteOptions(quoting_style=quotes, quoting_header="none")
    with pyarrow.csv.CSVWriter(path, schema, write_options=options) as writer:
        # Words take far more memory than their codes.
        for start in range(0, table.num_rows, _ROWS_AT_ONCE):
            writer.write_table(table.slice(start, _ROWS_AT_ONCE).cast(schema))


def _any_word_needs_quotes(table: pa.Table) -> bool:
    columns = [column for column in table.columns if not pa.types.is_primitive(column.type)]
    words = (word for column in columns for word in column.unique().to_pylist() if isinstance(word, str))
    return any(mark in word for word in words for mark in _NEEDS_QUOTES)


def further_tables(
    image_set: ImageSet,
    predictions: Mapping[str, pa.Table],
    settings: EvaluationSettings,
    *,
    names: Sequence[str] = FURTHER_TABLES,
) -> tuple[dict[str, pd.DataFrame], dict[str, str]]:
    """Compute causes, comparisons, ranks and agreement.

    Args:
        image_set: images, prompts and human labels.
        predictions: by detector, with `COLUMNS_NEEDED`.
        settings: of the evaluation.
        names: which tables; others that come along are given, too.

    Returns:
        By name as in `LONG_TABLES`, without rows of attributes that no image has a label of; and by attribute, why
        its detectors are not comparable.
    """
    tables = {name: no_rows(name) for name in names}
    not_comparable: dict[str, str] = {}
    labelled = labelled_attributes(image_set, settings.attributes)
    if not labelled:
        return tables, not_comparable
    if any(name in _OF_CAUSES for name in names):
        found = [
            cause_tables(
                image_set,
                predictions,
                attribute=attribute,
                n_clear=settings.n_clear,
                allow_incomplete=True,
                intervals=settings.intervals,
            )
            for attribute in labelled
        ]
        tables |= {
            name: pd.concat([getattr(each, name) for each in found], ignore_index=True) for name in _OF_CAUSES
        }
    if any(name in _OF_CONTESTS for name in names):
        contests = contest_tables(
            image_set,
            predictions,
            attributes=labelled,
            n_clear=settings.n_clear,
            intervals=settings.intervals,
            max_error_share=settings.max_error_share,
        )
        tables |= {name: getattr(contests, name) for name in _OF_CONTESTS}
        not_comparable = contests.not_comparable
    if "agreement" in names:
        measured = [
            agreement(image_set, predictions, attribute=attribute, intervals=settings.intervals)
            for attribute in labelled
        ]
        tables["agreement"] = pd.concat(measured, ignore_index=True)
    if any(name in _OF_SWEEPS for name in names):
        swept = [
            shared_sweeps(
                image_set,
                predictions,
                attribute=attribute,
                n_clear=settings.n_clear,
                intervals=settings.intervals,
            )
            for attribute in labelled
        ]
        for name, parts in zip(_OF_SWEEPS, zip(*swept, strict=True), strict=True):
            filled = [rows for rows in parts if len(rows)]
            tables[name] = pd.concat(filled, ignore_index=True) if filled else no_rows(name)
    return tables, not_comparable
