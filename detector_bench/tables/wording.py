"""How numbers, labels and notes are written for people: decimals as in the paper, a dash for no number."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from detector_bench.metrics import MetricInfo, metric_info
from detector_bench.metrics.catalogue import Kind
from detector_bench.metrics.refusals import REFUSAL_RATE
from detector_bench.results.metric_lookup import NOT_EVALUATED, MetricLookup, Number
from detector_bench.tables.table import DASH, Arrow, Cell, Column, MetricColumn
from detector_bench.vocabulary import ALL, ATTRIBUTES, GROUND_TRUTH, LOW_QUALITY

_MOST_MODELS = 6
"""A note that counts the images of more T2I models one by one is too long to be read."""


def fixed(value: float, *, decimals: int) -> str:
    """Round to a fixed number of decimals; NaN becomes a dash, and minus zero loses its sign."""
    if math.isnan(value):
        return DASH
    text = f"{value:.{decimals}f}"
    return text.removeprefix("-") if float(text) == 0 else text


_DECIMALS: dict[Kind, int] = {"fraction": 2, "score": 3, "count": 0, "measurement": 2}


def number_cell(
    value: float,
    *,
    kind: Kind,
    decimals: int | None = None,
    limits: tuple[float, float] | None = None,
    deviation: float | None = None,
    bold: bool = False,
    worst: bool = False,
) -> Cell:
    """A number as its kind of metric is written: `0.686 [0.67, 0.70] (8.78 % ↓)`.

    Args:
        value: NaN gives a dash alone.
        kind: a fraction is printed in per cent (the column's heading bears the sign), a measurement in the
            attribute's unit.
        decimals: None: as the paper prints them.
        limits: of its confidence interval, see `with_interval`.
        deviation: from the ground truth, a fraction of it; positive means overestimated. NaN gives a dash in
            parentheses.
        bold: the best of its column.
        worst: the worst of its column.
    """
    per_cent = kind == "fraction"
    decimals = _DECIMALS[kind] if decimals is None else decimals
    cell = Cell(fixed(100 * value if per_cent else value, decimals=decimals), value, bold=bold, worst=worst)
    if deviation is not None:
        cell = _with_deviation(cell, deviation, missing=math.isnan(value))
    return cell if limits is None else with_interval(cell, *limits, per_cent=per_cent, decimals=decimals)


def _with_deviation(cell: Cell, deviation: float, *, missing: bool) -> Cell:
    if missing:
        return replace(cell, deviation=math.nan)
    size = DASH if math.isnan(deviation) else fixed(100 * abs(deviation), decimals=2) + " %"
    arrow = Arrow.UP if deviation > 0 else Arrow.DOWN if deviation < 0 else Arrow.NONE
    return replace(cell, deviation=deviation, deviation_text=size, arrow=arrow)


def score_cell(value: float, *, decimals: int = 3, bold: bool = False) -> Cell:
    """A bias score, as it is."""
    return number_cell(value, kind="score", decimals=decimals, bold=bold)


def per_cent_cell(value: float, *, bold: bool = False) -> Cell:
    """A fraction, printed in per cent with two decimals; the column's heading bears the sign."""
    return number_cell(value, kind="fraction", bold=bold)


def count_cell(value: float) -> Cell:
    """A cell with a number of images."""
    return number_cell(value, kind="count")


def deviating_score_cell(value: float, deviation: float, *, bold: bool = False) -> Cell:
    """A score with its deviation from the ground truth: `0.686 (8.78 % ↓)`; see `number_cell`."""
    return number_cell(value, kind="score", deviation=deviation, bold=bold)


def with_interval(cell: Cell, low: float, high: float, *, per_cent: bool = False, decimals: int = 3) -> Cell:
    """A cell with its confidence interval: `91.5 [88.2, 94.0]`; a value without an interval stays alone.

    Per cent are printed with one decimal beside an interval, as its width leaves no meaning to a second.

    Args:
        cell: a number.
        low: lower limit, in the unit of the cell's value; NaN where there is no interval.
        high: upper limit.
        per_cent: whether the cell is printed in per cent.
        decimals: of the limits, where the cell is not printed in per cent.
    """
    value = math.nan if cell.value is None else cell.value
    factor, decimals = (100, 1) if per_cent else (1, decimals)
    text = fixed(factor * value, decimals=decimals) if per_cent else cell.text
    if math.isnan(value) or math.isnan(low) or math.isnan(high):
        return replace(cell, text=text, ci_low=math.nan, ci_high=math.nan)
    limits = ", ".join(fixed(factor * limit, decimals=decimals) for limit in (low, high))
    return replace(cell, text=text, ci_low=low, ci_high=high, interval_text=f"[{limits}]")


def whole(value: float) -> str:
    """A count as it stands inside a sentence."""
    return fixed(value, decimals=0)


def labels_notes(lookup: MetricLookup) -> tuple[str, ...]:
    """Below a table that compares with the humans: over how many images it is, where not all have a label."""
    if not lookup.images_unlabelled:
        return ()
    models = [f"{name} {_labelled(lookup, name)}" for name in lookup.t2i_models]
    by_model = f" ({', '.join(models)})" if 1 < len(models) <= _MOST_MODELS else ""
    words = attribute_in_words(lookup.attribute)
    return (f"Over the {_labelled(lookup, ALL)} images that have a human label of {words}{by_model}.",)


def _labelled(lookup: MetricLookup, t2i_model: str) -> str:
    labelled, unlabelled = (
        lookup.number(metric, detector=GROUND_TRUTH, t2i_model=t2i_model).value
        for metric in ("images", "images_unlabelled")
    )
    return f"{labelled:,.0f} of {labelled + unlabelled:,.0f}"


def attribute_in_words(attribute: str) -> str:
    """An attribute inside a sentence: `skin_tone` becomes `skin tone`."""
    return ATTRIBUTES[attribute].words if attribute in ATTRIBUTES else attribute.replace("_", " ")


def attributes_in_words(attributes: Sequence[str]) -> str:
    """Attributes inside a sentence: `gender, race and skin tone`; "none" without any."""
    words = [attribute_in_words(name) for name in attributes]
    return " and ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else "".join(words) or "none"


def in_words(name: str) -> str:
    """A name for people: `low_quality` becomes `Low-quality`, `eye_glasses` becomes `Eye glasses`."""
    words = "low-quality" if name == LOW_QUALITY else name.replace("_", " ")
    return words[:1].upper() + words[1:]


def label_in_words(label: str, *, in_sentence: bool = False) -> str:
    """A label, verdict or reason for people; a class by the text of its attribute: `latino_hispanic` becomes
    `Latino or Hispanic`.

    Args:
        label: a name that several attributes give other texts to is shown as it is.
        in_sentence: without the capital at its beginning, unless it is the name of a group of people.
    """
    texts = {each.text for one in ATTRIBUTES.values() for each in one.choices if each.name == label}
    words = texts.pop() if len(texts) == 1 else in_words(label)
    if not in_sentence or any(part[:1].isupper() for part in words.split()[1:]):
        return words
    return words[:1].lower() + words[1:]


def metric_cell(value: float, metric: str, **shown: Any) -> Cell:
    """A metric's number, as metrics of its kind are written; see `number_cell`."""
    return number_cell(value, kind=metric_info(metric).kind, **shown)


def in_per_cent(metric: str) -> bool:
    """Whether tables print the metric in per cent."""
    return metric_info(metric).kind == "fraction"


def metric_heading(metric: str) -> str:
    """What a metric is called where it heads a row or a column of its own; fractions are printed in per cent."""
    return metric_info(metric).heading


def metric_in_words(metric: str) -> str:
    """A metric for people: `filter_rate` becomes `Filter rate`."""
    return metric_heading(metric).removesuffix(" (%)")


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
    REFUSAL_RATE: MetricWords("no request was answered", "requests that failed or wait", absent="no request"),
    "prompt_bias_error": MetricWords("", "prompts left out, fewer than two images clear to detector and humans"),
}


def words_of(metric: str) -> MetricWords:
    """What notes say about a metric; of one that is no built-in of the tables what its declaration says."""
    if metric in _WORDS:
        return _WORDS[metric]
    info = metric_info(metric)
    if info.kind == "count":
        return MetricWords()
    return MetricWords("its denominator is empty", f"left out, {info.left_out}" if info.left_out else "")


def undefined_notes(judged: Sequence[tuple[PlacedColumn, Number]]) -> list[str]:
    """Why numbers are missing; one note for all columns, if they are missing for one reason."""
    explained = [pair for pair in judged if words_of(pair[0].declared.metric).undefined]
    missing: list[tuple[PlacedColumn, str, bool]] = []
    for shown, number in explained:
        if number.missing:
            words, absent = words_of(shown.declared.metric), number is NOT_EVALUATED
            reason = (
                words.absent
                if absent
                else words.undefined.format(label=label_in_words(shown.label, in_sentence=True))
            )
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
