"""Tables of errors: by cause, by reason, and by human label and verdict."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import compress, product
from typing import Any

import pandas as pd

from detector_bench.errors import ConfigError, nearest_hint
from detector_bench.metrics import DEFAULT_MAX_ERROR_SHARE, could_not_run, is_withheld
from detector_bench.tables.building import TableNumbers
from detector_bench.tables.declaration import makes_table
from detector_bench.tables.table import DASH, Cell, Column, Row, Table
from detector_bench.tables.wording import (
    attribute_in_words,
    count_cell,
    in_words,
    label_in_words,
    per_cent_cell,
    score_cell,
    whole,
)
from detector_bench.vocabulary import ALL, LOW_QUALITY, OTHERS, Status, attribute_named
from detector_bench.vocabulary.columns import CONFUSION_COLUMNS

_DIFFERENCE = "prompt_bias_score_difference"
_DEVIATION = "model_bias_score_deviation"
_PARTS = {
    "error": "Error",
    "filtering": "Filtering",
    "classification": "Classification",
    "with_both": "No verdict",
}
_NO_VERDICT = "with_both"
"""Shown only where a detector gave no verdict, and it matters."""

_NO_REASON = "no reason"
_NO_PARTS: Mapping[Hashable, Any] = dict.fromkeys(_PARTS, math.nan)
_GAP_OF = "accuracy"
"""What the gap is the difference of, between two classes."""

_NO_GAP: Mapping[Hashable, Any] = {"value": math.nan, "ci_low": math.nan, "ci_high": math.nan}
_DETECTOR = Column("detector", "Detector", kind="name")


def bias_error_causes(
    causes: pd.DataFrame,
    *,
    attribute: str = "gender",
    gaps: pd.DataFrame | None = None,
    max_error_share: float = DEFAULT_MAX_ERROR_SHARE,
) -> Table:
    """How much of each detector's bias error comes from filtering, and how much from classification.

    One row per T2I model and detector; filtering, classification and what images without a verdict add make up the
    error.

    Args:
        causes: columns as in `evaluation.causes.CAUSE_COLUMNS`.
        attribute: one of the study's.
        gaps: as `evaluation.causes.accuracy_gaps` gives them; adds a column with the accuracy gap between classes.
        max_error_share: a detector that gave no verdict on a larger share of a T2I model's images gets a dash
            there and over all T2I models; see `metrics.failing`.
    """
    rows = causes[(causes["category"] == ALL) & (causes["attribute"] == attribute)]
    numbers = {(row["t2i_model"], row["detector"], row["error_metric"]): row for row in rows.to_dict("records")}
    gap_of = None if gaps is None else _gaps(gaps, attribute=attribute)
    failed = _failed(numbers, max_error_share)
    shown = [part for part in _PARTS if part != _NO_VERDICT or rows[part].fillna(0).ne(0).any()]
    table_rows = []
    for model, detector in product(_models(rows), map(str, pd.unique(rows["detector"]))):
        if (model, detector, _DIFFERENCE) in numbers:
            parts = {metric: numbers[model, detector, metric] for metric in (_DIFFERENCE, _DEVIATION)}
            gap = None if gap_of is None else gap_of.get((model, detector), _NO_GAP)
            over = [name for name in _models(rows) if name != ALL and model in (name, ALL)]
            failing = [name for name in over if (detector, name) in failed]
            parts = {
                metric: {**row, **_NO_PARTS} if _withheld(metric, failing, over) else row
                for metric, row in parts.items()
            }
            if gap is not None and _withheld(_GAP_OF, failing, over):
                gap = _NO_GAP
            names = (Cell(_model_name(model), key=model), Cell(detector))
            cells = (*names, *_cause_cells(parts, gap, shown=shown))
            table_rows.append(
                Row(f"{detector} ({_model_name(model)})", cells, _notes(parts[_DIFFERENCE], failing))
            )
    return Table(
        name="causes",
        caption=(
            "What filtering and classification add to each detector's bias error, perceived "
            f"{attribute_in_words(attribute)}. The "
            "parts (Shapley values of replacing its filter, or its classes, by the human's"
            + ("; no verdict: what images without one add" if _NO_VERDICT in shown else "")
            + ") add up to the error. Bold: beyond chance. Of the deviation the confidence interval leaves 0 out; "
            "of the difference, which chance alone makes larger than 0, the squared distances are other than "
            "chance makes them (Student's t between prompts)."
            + ("" if gap_of is None else f" {_gap_in_words(attribute)}")
        ),
        attribute=attribute,
        columns=(
            Column("t2i_model", "T2I model", kind="name"),
            _DETECTOR,
            *_part_columns(_DIFFERENCE, "Prompt bias score difference", key="difference", shown=shown),
            *_part_columns(_DEVIATION, "Model bias score deviation (%)", key="deviation", shown=shown),
            *([] if gap_of is None else [Column("accuracy_gap", "Accuracy gap (%)")]),
        ),
        rows=tuple(table_rows),
        notes=(
            "A negative part works against the other one; of a deviation, which has a sign, it lowers the score.",
            "On clear images that a detector filtered, its classifier is assumed to err as on those that it kept.",
            *_n_clear_note(rows),
        ),
        grouped=True,
    )


def _failed(numbers: Mapping[tuple[str, str, str], Any], max_error_share: float) -> frozenset[tuple[str, str]]:
    """Detectors with the T2I models on which they could not run."""
    rows = {(detector, model): row for (model, detector, _), row in numbers.items() if model != ALL}
    counts = ([float(row[name]) for row in rows.values()] for name in ("images_without_verdict", "images"))
    return frozenset(compress(rows, could_not_run(*counts, max_error_share=max_error_share)))


def _withheld(metric: str, failed: Sequence[str], t2i_models: Sequence[str]) -> bool:
    return is_withheld(metric, failed=len(failed), t2i_models=len(t2i_models))


def _cause_cells(
    parts: Mapping[str, Mapping[Hashable, Any]], gap: Mapping[Hashable, Any] | None, *, shown: Sequence[str]
) -> Iterator[Cell]:
    for metric, as_cell in ((_DIFFERENCE, score_cell), (_DEVIATION, per_cent_cell)):
        for part in shown:
            value = float(parts[metric][part])
            yield as_cell(value, bold=bool(parts[metric][f"{part}_beyond_chance"]) and not math.isnan(value))
    if gap is not None:
        yield per_cent_cell(float(gap["value"]), bold=gap["ci_low"] > 0 or gap["ci_high"] < 0)


def _part_columns(metric: str, group: str, *, key: str, shown: Sequence[str]) -> list[Column]:
    return [
        Column(f"{metric}_{part}", _PARTS[part], group=group, full_heading=f"{_PARTS[part]}, {key}")
        for part in shown
    ]


def filter_errors(outcomes: pd.DataFrame, *, attribute: str = "gender") -> Table:
    """How many clear images each detector lost, and how many low-quality ones it kept.

    Lost images are told apart by the detector's reason, kept ones by the human's.

    Args:
        outcomes: columns as in `evaluation.causes.OUTCOME_COLUMNS`.
        attribute: one of the vocabulary's, such as gender.
    """
    rows = outcomes[outcomes["attribute"] == attribute]
    low_quality = rows["human_label"] == LOW_QUALITY
    human_clear = ~rows["human_label"].isin([LOW_QUALITY, OTHERS])
    lost = rows[human_clear & (rows["status"] == Status.FILTERED)]
    kept = rows[low_quality & (rows["status"] == Status.CLEAR)]
    lost_reasons, kept_reasons = _by_size(lost, "detector_reason"), _by_size(kept, "human_reason")
    table_rows = []
    for detector in pd.unique(rows["detector"]):
        own = rows["detector"] == detector
        judged = own & (rows["status"] != Status.ERROR)
        cells = [Cell(detector)]
        for part, mask, reason_column, reasons in (
            (lost, human_clear, "detector_reason", lost_reasons),
            (kept, low_quality, "human_reason", kept_reasons),
        ):
            images = part[part["detector"] == detector]
            by_reason = images.groupby(reason_column)["images"].sum()
            cells.append(count_cell(float(rows.loc[judged & mask, "images"].sum())))
            cells.append(count_cell(float(images["images"].sum())))
            cells += [count_cell(float(by_reason.get(reason, 0))) for reason in reasons]
        failed = float(rows.loc[own & (rows["status"] == Status.ERROR), "images"].sum())
        notes = (f"labelled images without a verdict, left out: {whole(failed)}",) if failed else ()
        table_rows.append(Row(detector, tuple(cells), notes))
    return Table(
        name="filter_errors",
        caption=(
            f"Filtering errors in images, perceived {attribute_in_words(attribute)}"
            ": human-clear images that a detector filtered, by "
            "the detector's reason, and human-low-quality images that it kept, by the human's reason."
        ),
        attribute=attribute,
        columns=(
            _DETECTOR,
            *_reason_columns("clear", "Clear", "Lost", lost_reasons),
            *_reason_columns("low_quality", "Low-quality", "Kept", kept_reasons),
        ),
        rows=tuple(table_rows),
    )


def _reason_columns(key: str, images: str, errors: str, reasons: Sequence[str]) -> list[Column]:
    columns = [
        Column(f"{key}_images", "Images", group=images, full_heading=f"{images}, images"),
        Column(f"{key}_{errors.lower()}", errors, group=images, full_heading=f"{images}, {errors.lower()}"),
    ]
    for reason in reasons:
        words = (in_words(reason) if reason else in_words(_NO_REASON)).lower()
        name = (reason or _NO_REASON).replace(" ", "_")
        columns.append(
            Column(
                f"{key}_{errors.lower()}_{name}",
                words,
                group=images,
                full_heading=f"{images}, {errors.lower()}, {words}",
            )
        )
    return columns


def _by_size(rows: pd.DataFrame, column: str) -> list[str]:
    """Reasons, the most frequent first; images without a reason come last."""
    images = rows.groupby(column)["images"].sum()
    return sorted(
        (str(reason) for reason in images.index), key=lambda reason: (not reason, -images[reason], reason)
    )


def _models(rows: pd.DataFrame) -> list[str]:
    """The T2I models, and "all" after them if there are several."""
    models = [model for model in pd.unique(rows["t2i_model"]) if model != ALL]
    return [*models, ALL] if len(models) > 1 else models


def _model_name(model: str) -> str:
    return "All" if model == ALL else model


def _gaps(gaps: pd.DataFrame, *, attribute: str) -> dict[tuple[str, str], Mapping[Hashable, Any]]:
    rows = gaps[(gaps["category"] == ALL) & (gaps["attribute"] == attribute)]
    return {(row["t2i_model"], row["detector"]): row for row in rows.to_dict("records")}


def _gap_in_words(attribute: str) -> str:
    if attribute == "gender":
        return "Accuracy gap: accuracy on men minus accuracy on women."
    return "Accuracy gap: accuracy on the best recognised class minus that on the worst."


def _n_clear_note(rows: pd.DataFrame) -> tuple[str, ...]:
    used = [name for name in pd.unique(rows["n_clear"]) if name]
    return tuple(f"Prompt bias scores are divided by n_clear: {name}." for name in used)


def _notes(difference: Mapping[Hashable, Any], failed: Sequence[str]) -> tuple[str, ...]:
    """Of a row; `failed`: the T2I models on which its detector could not run."""
    notes = []
    if without := float(difference["images_without_verdict"]):
        where = f" (too many of {', '.join(failed)})" if difference["t2i_model"] == ALL else ""
        scored = f"not split{where}" if failed else "counted as the metrics do"
        notes.append(f"no verdict on {whole(without)} of {whole(float(difference['images']))} images, {scored}")
    if failed:
        return tuple(notes)
    if difference["n_left_out"] > 0:
        prompts = whole(difference["n"] + difference["n_left_out"])
        notes.append(
            f"{whole(difference['n_left_out'])} of {prompts} prompts left out of the difference, no score"
        )
    if math.isnan(difference["error"]):
        notes.append(f"{DASH}: there is no score to split")
    return tuple(notes)


def confusion(rows: pd.DataFrame, *, attribute: str = "gender", t2i_model: str = ALL) -> Table:
    """Numbers of images by human label and verdict, a block of rows for each detector.

    A verdict is a class, filtered, or no verdict (an error, or never run). Human labels without an image have no
    row.

    Args:
        rows: confusion matrices (`vocabulary.columns.CONFUSION_COLUMNS`).
        attribute: the one to tabulate.
        t2i_model: one of them; "all" for all images.

    Raises:
        ConfigError: no such attribute in the vocabulary, or no such T2I model among the rows.
        ValueError: columns are missing.
    """
    if lacking := [name for name in CONFUSION_COLUMNS if name not in rows.columns]:
        raise ValueError(f"no confusion matrices: the columns {', '.join(lacking)} are missing")
    labels = attribute_named(attribute).labels
    of_attribute = rows[(rows["attribute"] == attribute) & (rows["category"] == ALL)]
    known = [str(name) for name in pd.unique(of_attribute["t2i_model"])]
    if known and t2i_model not in known:
        raise ConfigError(f"no confusion matrices of T2I model {t2i_model!r}: {nearest_hint(t2i_model, known)}")
    chosen = of_attribute[of_attribute["t2i_model"] == t2i_model]
    verdicts = [str(name) for name in pd.unique(chosen["verdict"])]
    images = {
        (str(detector), str(label), str(verdict)): float(number)
        for detector, label, verdict, number in zip(
            *(chosen[name] for name in ("detector", "human_label", "verdict", "images")), strict=True
        )
    }
    detectors = list(dict.fromkeys(detector for detector, _, _ in images))
    found = [
        Row(
            f"{detector}, {label_in_words(label, in_sentence=True)}",
            (
                Cell(detector),
                Cell(label_in_words(label), key=label),
                *(count_cell(images[detector, label, verdict]) for verdict in verdicts),
            ),
        )
        for detector in detectors
        for label in labels
        if (detector, label, verdicts[0]) in images
    ]
    of_model = "" if t2i_model == ALL else f" of {t2i_model}"
    return Table(
        name="confusion",
        caption=(
            f"Images{of_model} by human label and detector's verdict on perceived "
            f"{attribute_in_words(attribute)}. No verdict: an error, or never run."
        ),
        attribute=attribute,
        columns=(
            Column("detector", "Detector", kind="name"),
            Column("human_label", "Human label", kind="name"),
            *(Column(verdict, label_in_words(verdict), group="Verdict (images)") for verdict in verdicts),
        ),
        rows=tuple(found),
        notes=() if found else (f"No detector of this study judges {attribute}.",),
        grouped=True,
    )


@makes_table("confusion")
def _confusion(numbers: TableNumbers) -> Table | None:
    rows = numbers.confusion
    return None if rows is None else confusion(rows, attribute=numbers.attribute)
