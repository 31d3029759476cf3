"""How much of a detector's bias error comes from filtering, and how much from classification.

A detector does two things: it filters, and it names the class of what is left (Lyu 2025, section 3.5, names these
two as the only causes of a deviation). Each can be replaced by what the humans did, which gives four detectors:

- as it is;
- with the human's filter (`with_human_filter`): it judges exactly the images that humans call clear;
- with the human's classes (`with_human_classes`): it keeps what it keeps, and every clear image gets its true
  class;
- with both (`with_both`): the humans themselves, but for images on which the detector failed. Without such images
  its bias error is 0.

The error of the first is split by the Shapley value of the two replacements: a part is the mean of what its
replacement saves when it comes first and when it comes second. The parts and the error of the last, which images
without a verdict leave, add up to the error, which is the metric of the same name; a detector whose filter keeps
just the human-clear images has no filtering part, one that never confuses classes has no classification part.

All functions broadcast over leading axes of the counts, a detector axis for instance.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from detector_bench.metrics.bias import (
    SIGNED_CLASSES,
    model_bias_score,
    model_bias_score_actual,
    prompt_bias_score_difference,
    prompt_bias_score_error,
)
from detector_bench.metrics.catalogue import NClear
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

REPLACEMENTS = 4
"""Detectors that are compared: as it is, with the human's filter, with the human's classes, with both."""


class ErrorParts(NamedTuple):
    """The four errors and the two parts, arrays of one shape; NaN where the detector has no error to split."""

    error: FloatArray
    """Of the detector as it is: `filtering + classification + with_both`."""
    with_human_filter: FloatArray
    """Left if the human's filter takes the place of the detector's."""
    with_human_classes: FloatArray
    """Left if the human's classes take the place of the detector's."""
    with_both: FloatArray
    """Left if both are the human's: what images without a verdict add; 0 where there are none."""
    filtering: FloatArray
    """The part of the error that the filter brings in: its Shapley value."""
    classification: FloatArray
    """The part of the error that the classifier brings in: its Shapley value."""

    @classmethod
    def of_errors(cls, errors: FloatArray) -> ErrorParts:
        """The Shapley values of errors `[replacement, ...]`, which are linear in them."""
        whole, human_filter, human_classes, both = errors
        both = np.where(np.isnan(whole), np.nan, both)
        return cls(
            error=whole,
            with_human_filter=human_filter,
            with_human_classes=human_classes,
            with_both=both,
            filtering=((whole - human_filter) + (human_classes - both)) / 2,
            classification=((whole - human_classes) + (human_filter - both)) / 2,
        )


PARTS = ErrorParts._fields

SIGNED_PARTS = ("filtering", "classification")
"""Parts that may have either sign; of a distance the others are distances, too."""


class BiasErrorCauses(NamedTuple):
    """What one kind of bias error consists of."""

    parts: ErrorParts
    n: CountArray
    """Prompts that the detector's score rests on."""
    n_left_out: CountArray
    """Prompts for which the detector has no score."""


class ReplacedScores(NamedTuple):
    """Bias scores of the four detectors, `[replacement, ...]`."""

    model_bias_score: FloatArray
    model_bias_score_actual: FloatArray
    """The model bias score by the human labels, `[...]`."""
    prompt_bias_score_difference: FloatArray

    @property
    def errors(self) -> dict[BiasError, FloatArray]:
        """Every kind of bias error, `[replacement, ...]`."""
        error = self.model_bias_score - self.model_bias_score_actual
        return {
            "prompt_bias_score_difference": self.prompt_bias_score_difference,
            "model_bias_score_deviation": divide(error, self.model_bias_score_actual),
            "model_bias_score_absolute_error": np.abs(error),
        }


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
        By kind of error, arrays as of `replaced_scores` without the axis `replacement`.
    """
    scores = replaced_scores(counts, n_clear=n_clear, filtered_classes=filtered_classes, scopes=scopes)
    behind = prompts_behind(counts, n_clear=n_clear, scopes=scopes)
    return {
        error: BiasErrorCauses(ErrorParts.of_errors(values), behind[error].n, behind[error].n_left_out)
        for error, values in scores.errors.items()
    }


def prompts_behind(
    counts: CountArray, *, n_clear: NClear = "detector", scopes: Scopes | None = None
) -> dict[BiasError, Score]:
    """By kind of bias error, the score of the detector that says how many prompts it rests on."""
    score = model_bias_score(counts, scopes=scopes)
    return {
        "prompt_bias_score_difference": prompt_bias_score_difference(counts, n_clear=n_clear, scopes=scopes),
        "model_bias_score_deviation": score,
        "model_bias_score_absolute_error": score,
    }


def replaced_scores(
    counts: CountArray,
    *,
    n_clear: NClear = "detector",
    filtered_classes: CountArray | None = None,
    scopes: Scopes | None = None,
) -> ReplacedScores:
    """The bias scores of the detector as it is, with the human's filter, with the human's classes, with both.

    Args:
        counts: `[..., t2i_model, prompt, truth, verdict]`.
        n_clear: see `prompt_bias_score`; no matter for model bias scores.
        filtered_classes: see `with_human_filter`.
        scopes: for one result for each T2I model and category.

    Returns:
        Arrays `[replacement, ...]`, or with scopes `[replacement, ..., 1 + T2I models, 1 + categories]`. A prompt
        of which the detector keeps no image is left out of the prompt bias score difference in all four cases;
        model bias scores are each the mean over their own prompts, as in `model_bias_score_deviation`, so the loss
        of a prompt is an effect of the filter.
    """
    replaced = replaced_counts(counts, filtered_classes=filtered_classes)
    has_score = ~np.isnan(prompt_bias_score_error(counts, n_clear=n_clear).value)[..., np.newaxis, np.newaxis]
    return ReplacedScores(
        np.stack([model_bias_score(each, scopes=scopes).value for each in replaced]),
        model_bias_score_actual(counts, scopes=scopes).value,
        np.stack(
            [
                prompt_bias_score_difference(has_score * each, n_clear=n_clear, scopes=scopes).value
                for each in replaced
            ]
        ),
    )


def replaced_counts(counts: CountArray, *, filtered_classes: CountArray | None = None) -> tuple[CountArray, ...]:
    """Counts of the four detectors: as it is, with the human's filter, with the human's classes, with both."""
    return (
        counts,
        with_human_filter(counts, filtered_classes=filtered_classes),
        with_human_classes(counts),
        with_both(counts),
    )


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
    guessed = guessed_classes(counts, filtered_classes=filtered_classes)
    replaced = np.zeros_like(counts, dtype=np.float64)
    replaced[..., :classes, :classes] = kept + named + guessed.images[..., np.newaxis] * guessed.shares
    replaced[..., classes:, classes] = counts[..., classes:, :-1].sum(axis=-1)
    replaced[..., -1] = counts[..., -1]
    return replaced


class GuessedClasses(NamedTuple):
    """What is assumed about human-clear images that were filtered without a class."""

    images: CountArray
    """How many there are, by true class, `[..., t2i_model, prompt, K]`."""
    shares: FloatArray
    """How often the classifier would name each class, `[..., t2i_model, 1, K, K]`."""


def guessed_classes(counts: CountArray, *, filtered_classes: CountArray | None = None) -> GuessedClasses:
    """The part of `with_human_filter` that is not known image by image."""
    classes = class_count(counts)
    kept = counts[..., :classes, :classes]
    named = np.zeros_like(kept) if filtered_classes is None else filtered_classes
    shares = class_shares((kept + named).sum(axis=-3))[..., np.newaxis, :, :]
    return GuessedClasses(counts[..., :classes, classes] - named.sum(axis=-1), shares)


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


def with_both(counts: CountArray) -> CountArray:
    """Counts of a detector that does as the humans do, but for the images without a verdict."""
    classes = class_count(counts)
    replaced = np.zeros_like(counts)
    judged = counts[..., :-1].sum(axis=-1)
    replaced[..., :classes, :classes] = judged[..., :classes, np.newaxis] * np.eye(classes, dtype=counts.dtype)
    replaced[..., classes:, classes] = judged[..., classes:]
    replaced[..., -1] = counts[..., -1]
    return replaced


def accuracy_gap(counts: CountArray) -> Score:
    """Accuracy on the attribute's first class minus accuracy on its second (male minus female), in [-1, 1].

    0 is best. For more than two classes it is the largest accuracy minus the smallest. NaN where a class has no
    image that the detector keeps. (Lyu 2025, appendix D, compares these gaps.)

    Args:
        counts: `[..., truth, verdict]`.
    """
    per_class = accuracy_per_class(counts)
    return Score(accuracy_gap_of(per_class.value), per_class.n.sum(axis=-1), per_class.n_left_out.sum(axis=-1))


def accuracy_gap_of(accuracies: FloatArray) -> FloatArray:
    """The gap between the classes' accuracies `[..., K]`."""
    if accuracies.shape[-1] == SIGNED_CLASSES:
        return accuracies[..., 0] - accuracies[..., 1]
    gap: FloatArray = accuracies.max(axis=-1) - accuracies.min(axis=-1)
    return gap


def class_shares(named: CountArray) -> FloatArray:
    """How often each class is named, by true class.

    Args:
        named: images by true and named class, `[..., t2i_model, K, K]`.

    Returns:
        The same axes. A true class without an image has the shares of all T2I models, and is named rightly if none
        has any.
    """
    overall = np.broadcast_to(named.sum(axis=-3, keepdims=True), named.shape)
    shares = np.broadcast_to(np.eye(named.shape[-1]), named.shape)
    for counted in (overall, named):
        images = counted.sum(axis=-1, keepdims=True)
        shares = np.where(images > 0, divide(counted, images), shares)
    return shares
