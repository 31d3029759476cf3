"""What the notes below a declared table say: why there is no number, and what a number leaves out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from detector_bench.metrics import MetricInfo, metric_info
from detector_bench.results.metric_lookup import NOT_EVALUATED, Number
from detector_bench.tables.table import DASH, Column, MetricColumn
from detector_bench.tables.wording import in_words, whole

Place = dict[str, str]
"""Detector, T2I model, category and prompt, as far as a row or a column says them."""


class PlacedColumn(NamedTuple):
    """A finished column of a declared table, and where its numbers are found."""

    column: Column
    declared: MetricColumn
    info: MetricInfo
    metric: str
    label: str
    """The class or label that it is of; empty: of all."""
    place: Place
    where: str
    """The T2I model or category that it is of, in words; empty: of all."""
    said: str
    """How a note calls the column."""


class MetricWords(NamedTuple):
    """What the notes of a table say about a metric's numbers."""

    undefined: str = ""
    """Why there may be none; `{label}` stands for the class. Empty: what is left out says enough."""
    left_out: str = ""
    """What a number leaves out; empty: nothing, or what other notes tell."""
    left_out_by_humans: str = ""
    """The same for the number by the human labels, where it is something else."""
    absent: str = "not evaluated"
    """What it means that the metric table does not have the number."""


_NOT_CLEAR_TO_BOTH = "no image is clear to both the humans and the detector"
_NO_VALUE = "no image has a value by both the humans and the detector"
_NONE_KEPT = "prompts left out, no image kept"
_WORDS = {
    "label_share_<label>": MetricWords("no labelled image"),
    "precision": MetricWords("the detector kept no image"),
    "recall": MetricWords("no image is clear"),
    "recall_<class>": MetricWords("no image is {label} by the human labels"),
    "f1": MetricWords("no image is clear to the humans or the detector"),
    "filter_rate": MetricWords("no image is low-quality"),
    "accuracy": MetricWords(_NOT_CLEAR_TO_BOTH),
    "accuracy_<class>": MetricWords("no image is clear to the detector and {label} by the human labels"),
    "balanced_accuracy": MetricWords(_NOT_CLEAR_TO_BOTH),
    "alignment_accuracy": MetricWords("no image is clear to the humans and has a verdict"),
    "mean_absolute_error": MetricWords(_NO_VALUE, "images without the detector's value"),
    "mean_error": MetricWords(_NO_VALUE),
    "cumulative_score_5": MetricWords(_NO_VALUE),
    "model_bias_score": MetricWords("", _NONE_KEPT, "prompts left out, no clear image"),
    "model_bias_score_corrected": MetricWords("", "prompts left out of the corrected score, no two clear images"),
    "model_bias_score_if_fair": MetricWords(),
    "model_bias_score_error": MetricWords(),
    "prompt_bias_score": MetricWords("no clear image", absent="no image"),
    "prompt_bias_score_difference": MetricWords(
        "", "prompts left out, no clear image by the detector or the humans"
    ),
    "prompt_bias_error": MetricWords("", "prompts left out, fewer than two images clear to detector and humans"),
}


def words_of(metric: str) -> MetricWords:
    """What notes say about a metric; of one that is no built-in of the tables what its declaration says."""
    if metric in _WORDS:
        return _WORDS[metric]
    info = metric_info(metric)
    if info.kind == "count":
        return MetricWords()
    return MetricWords("undefined for these images", f"left out, {info.left_out}" if info.left_out else "")


def undefined_notes(judged: Sequence[tuple[PlacedColumn, Number]]) -> list[str]:
    """Why numbers are missing; one note for all columns, if they are missing for one reason."""
    explained = [pair for pair in judged if words_of(pair[0].declared.metric).undefined]
    missing: list[tuple[PlacedColumn, str, bool]] = []
    for shown, number in explained:
        if number.missing:
            words, absent = words_of(shown.declared.metric), number is NOT_EVALUATED
            reason = words.absent if absent else words.undefined.format(label=in_words(shown.label).lower())
            missing.append((shown, reason, absent))
    if all(shown.where == shown.said for shown, _, _ in missing):
        # Columns that differ in their T2I model or category alone.
        places: dict[str, list[str]] = {}
        for shown, reason, _ in sorted(missing, key=lambda each: each[2]):
            places.setdefault(reason, []).append(shown.where)
        return [f"{reason} ({', '.join(where)})" for reason, where in places.items()]
    if len(missing) == len(explained) > 1 and len({reason for _, reason, _ in missing}) == 1:
        return [f"{DASH}: {missing[0][1]}"]
    return [f"{DASH} for {shown.said}: {reason}" for shown, reason, _ in missing]


def left_out_notes(judged: Sequence[tuple[PlacedColumn, Number]], *, by_humans: bool, several: bool) -> list[str]:
    """Say of how many prompts or images there is no number; one note for all T2I models and categories."""
    parts: dict[str, list[str]] = {}
    empty: list[str] = []
    for shown, number in judged:
        words = words_of(shown.declared.metric)
        left_out = words.left_out_by_humans if by_humans and words.left_out_by_humans else words.left_out
        if left_out and number.n_left_out > 0:
            counted = f"{whole(number.n_left_out)} of {whole(number.n + number.n_left_out)}"
            parts.setdefault(left_out, []).append(f"{counted} ({shown.where})" if several else counted)
        elif left_out and number.missing and not words.undefined:
            empty.append(shown.where or shown.said)
    notes = [f"{left_out}: {', '.join(counted)}" for left_out, counted in parts.items()]
    return [*notes, f"not evaluated on {', '.join(dict.fromkeys(empty))}"] if empty else notes
