"""How much of a detector's bias error comes from filtering, and how much from classification.

A detector does two things: it filters, and it names the class of what is left (Lyu 2025, section 3.5, names these
two as the only causes of a deviation). Each can be replaced by what the humans did, which gives four detectors:

- as it is;
- with the human's filter (`with_human_filter`): it judges exactly the images that humans call clear;
- with the human's classes (`with_human_classes`): it keeps what it keeps, and every clear image gets its true
  class;
- with both: the humans themselves, whose bias error is 0.

The error of the first is split by the Shapley value of the two replacements: a part is the mean of what its
replacement saves when it comes first and when it comes second. The parts add up to the error; a detector whose
filter keeps just the human-clear images has no filtering part, one that never confuses classes has no
classification part.

Errors are no cause: all functions look only at images with a verdict, so that without errors
`BiasErrorCauses.error` is the metric of the same name. All broadcast over leading axes of the counts, a resample
axis for instance.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from detector_bench.metrics.bias import (
    NClear,
    model_bias_score,
    model_bias_score_actual,
    prompt_bias_score_difference,
    prompt_bias_score_error,
)
from detector_bench.metrics.classification import accuracy_per_class
from detector_bench.metrics.counts import CountArray, FloatArray, Score, class_count, divide
from detector_bench.metrics.scopes import Scopes

BiasError: TypeAlias = Literal[
    "prompt_bias_score_difference", "model_bias_score_deviation", "model_bias_score_absolute_error"
]
"""Which error is split.

- `prompt_bias_score_difference`: mean distance of prompt bias scores (formula 3); 0 or more.
- `model_bias_score_deviation`: (MBS_detector - MBS_actual) / MBS_actual; signed, so parts can cancel.
- `model_bias_score_absolute_error`: |MBS_detector - MBS_actual|, in score points.
"""

BIAS_ERRORS: tuple[BiasError, ...] = get_args(BiasError)


class BiasErrorCauses(NamedTuple):
    """The four errors and the two parts, arrays of one shape; NaN where the detector has no error to split."""

    error: FloatArray
    """Of the detector as it is: `filtering + classification`."""
    with_human_filter: FloatArray
    """Left if the human's filter takes the place of the detector's."""
    with_human_classes: FloatArray
    """Left if the human's classes take the place of the detector's."""
    with_both: FloatArray
    """Left if both are the human's: 0."""
    filtering: FloatArray
    """The filter's part."""
    classification: FloatArray
    """The classifier's part."""
    n: CountArray
    """Prompts that the detector's score rests on."""
    n_left_out: CountArray
    """Prompts without a score."""


def bias_error_causes(
    counts: CountArray,
    *,
    n_clear: NClear = "detector",
    filtered_classes: CountArray | None = None,
    scopes: Scopes | None = None,
) -> dict[BiasError, BiasErrorCauses]:
    """Split every kind of bias error into a filtering and a classification part.

    Not in the paper, which compares filter rates and accuracies side by side.

    Args:
        counts: `[..., t2i_model, prompt, truth, verdict]`.
        n_clear: see `prompt_bias_score`; no matter for model bias scores.
        filtered_classes: see `with_human_filter`.
        scopes: for one result for each T2I model and category.

    Returns:
        By kind of error, arrays `[...]`, or with scopes `[..., 1 + T2I models, 1 + categories]`. A prompt of which
        the detector keeps no image is left out of the prompt bias score difference in all four cases; model bias
        scores are each the mean over their own prompts, as in `model_bias_score_deviation`, so the loss of a
        prompt is an effect of the filter.
    """
    judged = with_verdicts(counts)
    replaced = (
        judged,
        with_human_filter(judged, filtered_classes=filtered_classes),
        with_human_classes(judged),
    )
    scores = [model_bias_score(each, scopes=scopes) for each in replaced]
    actual = model_bias_score_actual(judged, scopes=scopes).value
    errors = [score.value - actual for score in scores]
    has_score = ~np.isnan(prompt_bias_score_error(judged, n_clear=n_clear).value)[..., np.newaxis, np.newaxis]
    differences = [
        prompt_bias_score_difference(has_score * each, n_clear=n_clear, scopes=scopes).value for each in replaced
    ]
    difference = prompt_bias_score_difference(judged, n_clear=n_clear, scopes=scopes)
    return {
        "prompt_bias_score_difference": _split(differences, difference),
        "model_bias_score_deviation": _split([divide(error, actual) for error in errors], scores[0]),
        "model_bias_score_absolute_error": _split([np.abs(error) for error in errors], scores[0]),
    }


def _split(errors: Sequence[FloatArray], score: Score) -> BiasErrorCauses:
    whole, human_filter, human_classes = errors
    both = np.where(np.isnan(whole), np.nan, 0.0)
    return BiasErrorCauses(
        error=whole,
        with_human_filter=human_filter,
        with_human_classes=human_classes,
        with_both=both,
        filtering=((whole - human_filter) + (human_classes - both)) / 2,
        classification=((whole - human_classes) + (human_filter - both)) / 2,
        n=score.n,
        n_left_out=score.n_left_out,
    )


def with_verdicts(counts: CountArray) -> CountArray:
    """The same counts without the images that have no verdict."""
    judged = counts.copy(order="K")
    judged[..., -1] = 0
    return judged


def with_human_filter(counts: CountArray, *, filtered_classes: CountArray | None = None) -> CountArray:
    """Counts of a detector that keeps just the human-clear images and classifies them as before.

    What its classifier would say about human-clear images that it filtered is taken from `filtered_classes` as far
    as that goes; of the rest it is assumed to name each class as often as on those images of the same T2I model
    and true class that the detector kept (of all T2I models, if it kept none there; rightly, if none at all). So
    these are expected numbers, not whole ones. Images that a detector filters tend to be harder than those that it
    keeps: the classification part may be too small.

    Args:
        counts: `[..., t2i_model, prompt, truth, verdict]`.
        filtered_classes: human-clear images that the detector filtered but classified all the same, by true and by
            named class: `[..., t2i_model, prompt, K, K]`. None: it named none.

    Returns:
        Floats in the shape of `counts`; low-quality images and `others` are all filtered.
    """
    classes = class_count(counts)
    kept = counts[..., :classes, :classes]
    named = np.zeros_like(kept) if filtered_classes is None else filtered_classes
    unnamed = counts[..., :classes, classes] - named.sum(axis=-1)
    replaced = np.zeros_like(counts, dtype=np.float64)
    replaced[..., :classes, :classes] = kept + named + unnamed[..., np.newaxis] * _class_shares(kept + named)
    replaced[..., classes:, classes] = counts[..., classes:, :-1].sum(axis=-1)
    replaced[..., -1] = counts[..., -1]
    return replaced


def with_human_classes(counts: CountArray) -> CountArray:
    """Counts of a detector that filters as before and gives every human-clear image its true class.

    Low-quality images and `others` that it keeps have no true class and keep the detector's: that they count at
    all is the filter's doing.
    """
    classes = class_count(counts)
    replaced = counts.copy(order="K")
    kept = counts[..., :classes, :classes].sum(axis=-1)
    replaced[..., :classes, :classes] = kept[..., np.newaxis] * np.eye(classes, dtype=counts.dtype)
    return replaced


def accuracy_gap(counts: CountArray) -> Score:
    """Accuracy on the attribute's first class minus accuracy on its second (male minus female), in [-1, 1].

    0 is best. For more than two classes it is the largest accuracy minus the smallest. NaN where a class has no
    image that the detector keeps. (Lyu 2025, appendix D, compares these gaps.)

    Args:
        counts: `[..., truth, verdict]`.
    """
    per_class = accuracy_per_class(counts)
    value = per_class.value
    two = value.shape[-1] == 2
    gap = value[..., 0] - value[..., 1] if two else value.max(axis=-1) - value.min(axis=-1)
    return Score(gap, per_class.n.sum(axis=-1), per_class.n_left_out.sum(axis=-1))


def _class_shares(kept: CountArray) -> FloatArray:
    """How often each class is named, by true class: `[..., t2i_model, 1, K, K]`."""
    per_model = kept.sum(axis=-3, keepdims=True)
    overall = np.broadcast_to(per_model.sum(axis=-4, keepdims=True), per_model.shape)
    shares = np.broadcast_to(np.eye(kept.shape[-1]), per_model.shape)
    for named in (overall, per_model):
        images = named.sum(axis=-1, keepdims=True)
        shares = np.where(images > 0, divide(named, images), shares)
    return shares
