"""Causes of detectors' errors, laid out as long tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from detector_bench.evaluation.cause_intervals import (
    PartIntervals,
    draw_accuracies,
    draw_causes,
    gap_interval,
    part_intervals,
)
from detector_bench.evaluation.counting import Counts, count_verdicts
from detector_bench.evaluation.image_index import NULL, IntArray, LabelledImages, first_words
from detector_bench.evaluation.image_verdicts import ImageVerdicts
from detector_bench.evaluation.intervals import Intervals
from detector_bench.metrics import NClear, count_images, images_without_verdict, pool
from detector_bench.metrics.cause_doubt import ResampledCauses, beyond_chance
from detector_bench.metrics.causes import (
    PARTS,
    BiasError,
    ErrorParts,
    ReplacedScores,
    accuracy_gap,
    prompts_behind,
    replaced_scores,
)
from detector_bench.metrics.classification import accuracy_per_class
from detector_bench.metrics.counts import FloatArray
from detector_bench.metrics.joint_verdicts import Codes
from detector_bench.vocabulary import ALL, Status

_LIMITS = ("ci_low", "ci_high")
_BEYOND_CHANCE = "beyond_chance"
_NUMBER = ("value", *_LIMITS, "n", "n_left_out")

CAUSE_COLUMNS = (
    "detector",
    "attribute",
    "t2i_model",
    "category",
    "error_metric",
    "n_clear",
    *PARTS,
    *(f"{part}_{limit}" for part in PARTS for limit in _LIMITS),
    *(f"{part}_{_BEYOND_CHANCE}" for part in PARTS),
    "n",
    "n_left_out",
    "images",
    "images_without_verdict",
)
"""One row per detector, scope and kind of bias error; see `metrics.causes.ErrorParts`. `n_clear` is empty
where it does not matter; limits are NaN where there is no interval. `<part>_beyond_chance`: whether the interval
leaves 0 out; of a prompt bias score difference, which chance alone makes larger than 0, whether
`metrics.cause_doubt` finds more than that. Never without an interval."""

GAP_COLUMNS = ("detector", "attribute", "t2i_model", "category", *_NUMBER)

OUTCOME_COLUMNS = (
    "detector",
    "attribute",
    "t2i_model",
    "category",
    "human_label",
    "human_reason",
    "status",
    "detector_reason",
    "images",
)
"""Labelled images by what the human and what the detector said, each with its reason ("" where none is stored)."""

_NEEDS_N_CLEAR = "prompt_bias_score_difference"

DEFAULT_INTERVALS = Intervals()

PREDICTION_COLUMNS = ("reason", "score")
"""What `read_predictions` has to read for the functions of this module."""


def causes(
    image_set: LabelledImages,
    predictions: Mapping[str, pa.Table],
    *,
    attribute: str = "gender",
    n_clear: NClear = "detector",
    allow_incomplete: bool = False,
    intervals: Intervals = DEFAULT_INTERVALS,
) -> pd.DataFrame:
    """Split every detector's bias errors into a filtering and a classification part.

    Args:
        image_set: images, prompts and human labels.
        predictions: by detector, with the columns `reason` and `score`.
        attribute: which one.
        n_clear: see `metrics.prompt_bias_score`.
        allow_incomplete: leave images without a prediction out instead of raising.
        intervals: how confidence intervals are found; those of the study give `error` the interval of the metric
            table.

    Returns:
        Columns as in `CAUSE_COLUMNS`: everything, each T2I model, each category, and each T2I model and category
        that has labelled images. A detector that does not judge the attribute has no row.

    Raises:
        ConfigError, DataError, IncompletePredictionsError: as in `count_verdicts`.
    """
    found = ImageVerdicts.read(image_set, predictions, attribute=attribute, allow_incomplete=allow_incomplete)
    counts = Counts.of(found)
    named, filtered = _filtered_classes(found)
    drawn = draw_causes(counts, named, settings=intervals, n_clear=n_clear)
    return _causes(counts, filtered, drawn, n_clear=n_clear, intervals=intervals)


def _causes(
    counts: Counts, filtered: IntArray, drawn: ResampledCauses | None, *, n_clear: NClear, intervals: Intervals
) -> pd.DataFrame:
    scores = replaced_scores(counts.verdicts, n_clear=n_clear, filtered_classes=filtered, scopes=counts.scopes)
    behind = prompts_behind(counts.verdicts, n_clear=n_clear, scopes=counts.scopes)
    pooled = pool(counts.verdicts, scopes=counts.scopes)
    images = {"images": count_images(pooled), "images_without_verdict": images_without_verdict(pooled)}
    limits: Mapping[BiasError, PartIntervals] = {}
    if drawn is not None:
        as_drawn = _detectors_last(scores)
        limits = part_intervals(counts, drawn.scores, as_drawn, settings=intervals, n_clear=n_clear)
    tested = beyond_chance(
        counts.verdicts, n_clear=n_clear, filtered_classes=filtered, scopes=counts.scopes, level=intervals.level
    )
    scopes = _FilledScopes(counts)
    blocks = []
    for place, detector in enumerate(counts.detectors):
        for error, values in scores.errors.items():
            parts = ErrorParts.of_errors(values[:, place])._asdict()
            numbers = parts | {"n": behind[error].n[place], "n_left_out": behind[error].n_left_out[place]}
            numbers |= {name: counted[place] for name, counted in images.items()}
            numbers |= {f"{part}_{_BEYOND_CHANCE}": np.zeros(parts["error"].shape, dtype=bool) for part in PARTS}
            for part, interval in limits.get(error, {}).items():
                low, high = (limit[..., place] for limit in interval)
                more = (low > 0) | (high < 0)
                if error == _NEEDS_N_CLEAR:
                    more = getattr(tested, part)[place] & ~np.isnan(low)
                numbers |= {f"{part}_ci_low": low, f"{part}_ci_high": high, f"{part}_{_BEYOND_CHANCE}": more}
            words = {"error_metric": error, "n_clear": n_clear if error == _NEEDS_N_CLEAR else ""}
            blocks.append(scopes.rows(detector, numbers, **words))
    return _joined(blocks, CAUSE_COLUMNS)


def accuracy_gaps(
    image_set: LabelledImages,
    predictions: Mapping[str, pa.Table],
    *,
    attribute: str = "gender",
    allow_incomplete: bool = False,
    intervals: Intervals = DEFAULT_INTERVALS,
) -> pd.DataFrame:
    """Every detector's `accuracy_gap`, in the scopes of `causes`.

    Returns:
        Columns as in `GAP_COLUMNS`.
    """
    counts = count_verdicts(image_set, predictions, attribute=attribute, allow_incomplete=allow_incomplete)
    return _accuracy_gaps(counts, draw_accuracies(counts, settings=intervals), intervals=intervals)


def _accuracy_gaps(counts: Counts, drawn: FloatArray | None, *, intervals: Intervals) -> pd.DataFrame:
    pooled = pool(counts.verdicts, scopes=counts.scopes)
    gap, accuracies = accuracy_gap(pooled), accuracy_per_class(pooled).value
    interval = gap_interval(
        counts, drawn, np.moveaxis(gap.value, 0, -1), np.moveaxis(accuracies, 0, -2), settings=intervals
    )
    scopes = _FilledScopes(counts)
    blocks = []
    for place, detector in enumerate(counts.detectors):
        numbers = {name: values[place] for name, values in gap._asdict().items()}
        numbers |= {name: limit[..., place] for name, limit in zip(_LIMITS, interval, strict=True)}
        blocks.append(scopes.rows(detector, numbers))
    return _joined(blocks, GAP_COLUMNS)


def filter_outcomes(
    image_set: LabelledImages,
    predictions: Mapping[str, pa.Table],
    *,
    attribute: str = "gender",
    allow_incomplete: bool = False,
) -> pd.DataFrame:
    """Count labelled images by human label and reason, and by the detector's status and reason.

    With it, filtering errors are broken down: clear images lost by the detector's reason, low-quality images kept
    by the human's reason.

    Returns:
        Columns as in `OUTCOME_COLUMNS`; only combinations that occur.
    """
    found = ImageVerdicts.read(image_set, predictions, attribute=attribute, allow_incomplete=allow_incomplete)
    return _filter_outcomes(image_set, found)


def _filter_outcomes(image_set: LabelledImages, found: ImageVerdicts) -> pd.DataFrame:
    attribute = found.attribute.name
    index, labelled = found.index, found.labelled
    t2i_model, prompt = (place[labelled] for place in index.places)
    truth = image_set.truth(attribute)
    human_reason, human_reasons = first_words(truth.get("reason", pd.Series("", index=truth.index)))
    places = {
        "t2i_model": (t2i_model, index.t2i_models),
        "category": (index.scopes.category_of_prompt[prompt], index.scopes.categories),
        "human_label": (found.truth[labelled], found.attribute.labels),
        "human_reason": (human_reason[labelled], human_reasons),
    }
    blocks = []
    for place, detector in enumerate(found.detectors):
        if not found.has_judged[place]:
            continue
        status = np.maximum(found.counted[place, labelled] - len(found.attribute.classes) + 1, 0)
        reason, reasons = found.reasons(place)
        columns = places | {"status": (status, tuple(Status)), "detector_reason": (reason[labelled], reasons)}
        rows = {name: np.array([*words, ""])[code] for name, (code, words) in columns.items()}
        counted = pd.DataFrame(rows).value_counts(sort=False).rename("images").reset_index()
        blocks.append(counted.assign(detector=detector, attribute=attribute))
    return _joined(blocks, OUTCOME_COLUMNS)


class CauseTables(NamedTuple):
    """What `causes`, `accuracy_gaps` and `filter_outcomes` give."""

    causes: pd.DataFrame
    accuracy_gaps: pd.DataFrame
    filter_outcomes: pd.DataFrame


def cause_tables(
    image_set: LabelledImages,
    predictions: Mapping[str, pa.Table],
    *,
    attribute: str = "gender",
    n_clear: NClear = "detector",
    allow_incomplete: bool = False,
    intervals: Intervals = DEFAULT_INTERVALS,
) -> CauseTables:
    """All three tables, the verdicts read and the resamples drawn once; arguments and errors as of `causes`."""
    found = ImageVerdicts.read(image_set, predictions, attribute=attribute, allow_incomplete=allow_incomplete)
    counts = Counts.of(found)
    named, filtered = _filtered_classes(found)
    drawn = draw_causes(counts, named, settings=intervals, n_clear=n_clear)
    # Where the human's clear images are the denominator, missing verdicts are drawn, too, before the rest.
    if drawn is not None and n_clear == "detector":
        accuracies: FloatArray | None = drawn.accuracies
    else:
        accuracies = draw_accuracies(counts, settings=intervals)
    return CauseTables(
        _causes(counts, filtered, drawn, n_clear=n_clear, intervals=intervals),
        _accuracy_gaps(counts, accuracies, intervals=intervals),
        _filter_outcomes(image_set, found),
    )


def _filtered_classes(found: ImageVerdicts) -> tuple[Codes, IntArray]:
    """The classes that are stored with filtered images.

    Returns:
        Of every labelled image, `[detector, image]`, `NULL` where none is stored or the image is not filtered; and
        how many human-clear images have one, by true and stored class, `[detector, t2i_model, prompt, K, K]`.
    """
    index, classes = found.index, len(found.attribute.classes)
    true_class = np.where(found.truth < classes, found.truth, NULL)
    stored = np.where(found.filtered, found.named, np.int8(NULL))
    images = np.zeros((len(stored), *index.shape, classes, classes), dtype=np.int64)
    for place, of_images in enumerate(stored):
        images[place] = index.count((true_class, classes), (of_images, classes))[..., :classes, :classes]
    return stored[:, found.labelled], images


def _detectors_last(scores: ReplacedScores) -> ReplacedScores:
    """`[replacement, detector, 1 + T2I models, 1 + categories]` with the detectors behind the scopes."""
    axes = (1, 0, 1)  # that of the human has no replacements
    return ReplacedScores(*(np.moveaxis(each, axis, -1) for each, axis in zip(scores, axes, strict=True)))


class _FilledScopes:
    """The scopes with labelled images: everything, T2I models, categories, T2I models by category."""

    def __init__(self, counts: Counts) -> None:
        filled = counts.scopes.sums(counts.human.sum(axis=-1), prompt_axis=-1) > 0
        t2i_model, category = np.nonzero(filled)
        order = np.lexsort((category, t2i_model, (t2i_model > 0) + 2 * (category > 0)))
        self._place = (t2i_model[order], category[order])
        self._names = (np.array([ALL, *counts.t2i_models]), np.array([ALL, *counts.scopes.categories]))
        self._attribute = counts.attribute.name

    def rows(self, detector: str, numbers: Mapping[str, NDArray[Any]], **words: str) -> pd.DataFrame:
        """A row for each scope, of numbers `[1 + T2I models, 1 + categories]`."""
        model, category = (names[code] for names, code in zip(self._names, self._place, strict=True))
        frame = pd.DataFrame({"t2i_model": model, "category": category})
        values = {name: array[self._place] for name, array in numbers.items()}
        return frame.assign(detector=detector, attribute=self._attribute, **words, **values)


def _joined(blocks: Sequence[pd.DataFrame], columns: Sequence[str]) -> pd.DataFrame:
    if not blocks:
        return pd.DataFrame({name: [] for name in columns})
    # Columns that no block has, as limits without resamples, are empty.
    return pd.concat(blocks, ignore_index=True).reindex(columns=list(columns))
