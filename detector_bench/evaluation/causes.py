"""Causes of detectors' errors, laid out as long tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from detector_bench.evaluation.cause_intervals import CauseIntervals, resampled_values
from detector_bench.evaluation.counting import ImageIndex, IntArray, LabelledImages
from detector_bench.evaluation.encoding import NULL
from detector_bench.evaluation.image_verdicts import ImageVerdicts, first_words, image_verdicts
from detector_bench.metrics import CountArray, FloatArray, NClear, Scopes, Score, pool
from detector_bench.metrics.causes import (
    BiasError,
    BiasErrorCauses,
    accuracy_gap,
    bias_error_causes,
)
from detector_bench.vocabulary import ALL, Status

_PARTS = ("error", "with_human_filter", "with_human_classes", "filtering", "classification")
_LIMITS = ("ci_low", "ci_high")
_NUMBER = ("value", *_LIMITS, "n", "n_left_out")

CAUSE_COLUMNS = (
    "detector",
    "attribute",
    "t2i_model",
    "category",
    "error_metric",
    "n_clear",
    *_PARTS,
    *(f"{part}_{limit}" for part in _PARTS for limit in _LIMITS),
    "n",
    "n_left_out",
)
"""One row per detector, scope and kind of bias error; see `metrics.causes.BiasErrorCauses`. `n_clear` is empty
where it does not matter; limits are NaN where there is no interval."""

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

DEFAULT_INTERVALS = CauseIntervals()

PREDICTION_COLUMNS = ("reason", "score")
"""What `read_predictions` has to read for the functions of this module."""


def causes(
    image_set: LabelledImages,
    predictions: Mapping[str, pa.Table],
    *,
    attribute: str = "gender",
    n_clear: NClear = "detector",
    allow_incomplete: bool = False,
    intervals: CauseIntervals = DEFAULT_INTERVALS,
) -> pd.DataFrame:
    """Split every detector's bias errors into a filtering and a classification part.

    Args:
        image_set: images, prompts and human labels.
        predictions: by detector, with the columns `reason` and `score`.
        attribute: which one.
        n_clear: see `metrics.prompt_bias_score`.
        allow_incomplete: leave images without a prediction out instead of raising.
        intervals: how confidence intervals are found.

    Returns:
        Columns as in `CAUSE_COLUMNS`: everything, each T2I model, each category, and each T2I model and category
        that has labelled images. A detector that does not judge the attribute has no row.

    Raises:
        ConfigError, DataError, IncompletePredictionsError: as in `count_verdicts`.
    """
    index = ImageIndex.of(image_set)
    blocks = []
    for each in _judged(image_set, index, predictions, attribute=attribute, allow_incomplete=allow_incomplete):
        counts, filtered = cell_counts(index, each), _filtered_classes(index, each)
        scopes = _filled_scopes(index, counts)

        def split(counts: CountArray, filtered: CountArray) -> dict[BiasError, BiasErrorCauses]:
            return bias_error_causes(counts, n_clear=n_clear, filtered_classes=filtered, scopes=index.scopes)

        found = split(counts, filtered)
        limits = _limits(found, split, counts=counts, filtered=filtered, intervals=intervals)
        for error, parts in found.items():
            numbers = {name: getattr(parts, name)[scopes.place] for name in (*_PARTS, "n", "n_left_out")}
            numbers |= {name: limit[scopes.place] for name, limit in limits.get(error, {}).items()}
            words = {"error_metric": error, "n_clear": n_clear if error == _NEEDS_N_CLEAR else ""}
            blocks.append(scopes.frame(each, **words).assign(**numbers))
    return _joined(blocks, CAUSE_COLUMNS)


def accuracy_gaps(
    image_set: LabelledImages,
    predictions: Mapping[str, pa.Table],
    *,
    attribute: str = "gender",
    allow_incomplete: bool = False,
    intervals: CauseIntervals = DEFAULT_INTERVALS,
) -> pd.DataFrame:
    """Every detector's `accuracy_gap`, in the scopes of `causes`.

    Returns:
        Columns as in `GAP_COLUMNS`.
    """
    index = ImageIndex.of(image_set)
    blocks = []
    for each in _judged(image_set, index, predictions, attribute=attribute, allow_incomplete=allow_incomplete):
        counts = cell_counts(index, each)
        gap, scopes = _gap(counts, index.scopes), _filled_scopes(index, counts)
        numbers = {name: getattr(gap, name)[scopes.place] for name in ("value", "n", "n_left_out")}
        if intervals.resamples:
            drawn = resampled_values(
                lambda resampled, _: _gap(resampled, index.scopes).value,
                counts,
                _filtered_classes(index, each),
                settings=intervals,
            )
            limits = intervals.around(gap.value, drawn, centred=False)
            numbers |= {name: limit[scopes.place] for name, limit in zip(_LIMITS, limits, strict=True)}
        blocks.append(scopes.frame(each).assign(**numbers))
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
    index = ImageIndex.of(image_set)
    truth = image_set.truth(attribute) if attribute in image_set.attributes else pd.DataFrame()
    has_reasons = "reason" in truth.columns
    human_reason, human_reasons = first_words(truth["reason"]) if has_reasons else (None, ())
    blocks = []
    for each in _judged(image_set, index, predictions, attribute=attribute, allow_incomplete=allow_incomplete):
        labelled = each.truth != NULL
        prompts = len(index.prompt_ids)
        status = np.maximum(each.verdict - len(each.attribute.classes) + 1, 0)
        columns = {
            "t2i_model": (index.cells // prompts, index.t2i_models),
            "category": (index.scopes.category_of_prompt[index.cells % prompts], index.scopes.categories),
            "human_label": (each.truth, each.attribute.labels),
            "human_reason": (
                np.full(len(each.truth), NULL) if human_reason is None else human_reason,
                human_reasons,
            ),
            "status": (status, tuple(Status)),
            "detector_reason": (each.reason, each.reasons),
        }
        rows = {name: np.array([*words, ""])[code[labelled]] for name, (code, words) in columns.items()}
        counted = pd.DataFrame(rows).value_counts(sort=False).rename("images").reset_index()
        blocks.append(counted.assign(detector=each.detector, attribute=attribute))
    return _joined(blocks, OUTCOME_COLUMNS)


def cell_counts(index: ImageIndex, verdicts: ImageVerdicts) -> IntArray:
    """One detector's counts `[t2i_model, prompt, truth, verdict]` of labelled images."""
    labels = len(verdicts.attribute.labels)
    counts = index.count((verdicts.truth, labels), (verdicts.verdict, labels))
    return counts[..., :labels, :labels]


def _limits(
    found: Mapping[BiasError, BiasErrorCauses],
    split: Callable[[CountArray, CountArray], Mapping[BiasError, BiasErrorCauses]],
    *,
    counts: IntArray,
    filtered: IntArray,
    intervals: CauseIntervals,
) -> dict[BiasError, dict[str, FloatArray]]:
    """By kind of error, the limits of every part under the names of their columns; none without resamples."""
    if not intervals.resamples:
        return {}

    def stacked(splits: Mapping[BiasError, BiasErrorCauses]) -> FloatArray:
        return np.stack([np.stack([getattr(parts, name) for name in _PARTS]) for parts in splits.values()])

    def drawn_values(drawn: CountArray, named: CountArray) -> FloatArray:
        return np.moveaxis(stacked(split(drawn, named)), 2, 0)  # [resample, error, part, ...]

    drawn = resampled_values(drawn_values, counts, filtered, settings=intervals)
    low, high = intervals.around(stacked(found), drawn, centred=True)
    return {
        error: {
            f"{part}_{name}": limit[row, column]
            for column, part in enumerate(_PARTS)
            for name, limit in zip(_LIMITS, (low, high), strict=True)
        }
        for row, error in enumerate(found)
    }


def _gap(counts: CountArray, scopes: Scopes) -> Score:
    return accuracy_gap(pool(counts, scopes=scopes))


def _filtered_classes(index: ImageIndex, verdicts: ImageVerdicts) -> IntArray:
    """Human-clear images that were filtered though a class is stored: `[t2i_model, prompt, K, K]`."""
    classes = len(verdicts.attribute.classes)
    human_clear = (verdicts.truth >= 0) & (verdicts.truth < classes)
    truth = np.where(verdicts.filtered & human_clear & (verdicts.label >= 0), verdicts.truth, NULL)
    label = np.where(truth == NULL, NULL, verdicts.label)
    return index.count((truth, classes), (label, classes))[..., :classes, :classes]


def _judged(
    image_set: LabelledImages,
    index: ImageIndex,
    predictions: Mapping[str, pa.Table],
    *,
    attribute: str,
    allow_incomplete: bool,
) -> Iterator[ImageVerdicts]:
    for detector, table in predictions.items():
        found = image_verdicts(
            image_set, index, table, detector=detector, attribute=attribute, allow_incomplete=allow_incomplete
        )
        if found is not None:
            yield found


class _FilledScopes:
    """The scopes with labelled images: everything, T2I models, categories, T2I models by category."""

    def __init__(self, index: ImageIndex, filled: NDArray[np.bool_]) -> None:
        t2i_model, category = np.nonzero(filled)
        order = np.lexsort((category, t2i_model, (t2i_model > 0) + 2 * (category > 0)))
        self.place = (t2i_model[order], category[order])
        self._names = (np.array([ALL, *index.t2i_models]), np.array([ALL, *index.scopes.categories]))

    def frame(self, verdicts: ImageVerdicts, **words: str) -> pd.DataFrame:
        """A row for each scope."""
        model, category = (names[code] for names, code in zip(self._names, self.place, strict=True))
        frame = pd.DataFrame({"t2i_model": model, "category": category})
        return frame.assign(detector=verdicts.detector, attribute=verdicts.attribute.name, **words)


def _filled_scopes(index: ImageIndex, counts: IntArray) -> _FilledScopes:
    images = Scopes.sums(index.scopes, counts.sum(axis=(-2, -1)), prompt_axis=-1)
    return _FilledScopes(index, images > 0)


def _joined(blocks: Sequence[pd.DataFrame], columns: Sequence[str]) -> pd.DataFrame:
    if not blocks:
        return pd.DataFrame({name: [] for name in columns})
    # Columns that no block has, as limits without resamples, are empty.
    return pd.concat(blocks, ignore_index=True).reindex(columns=list(columns))
