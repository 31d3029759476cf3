"""The bias that a detector reports, and how far it lies from the truth (Lyu 2025, sections 3.2 and 3.5).

Functions whose name begins with `prompt_` take counts `[..., truth, verdict]` and give one score for each array,
so with counts `[..., t2i_model, prompt, truth, verdict]` one for each prompt of each T2I model. Functions
that average take `[..., t2i_model, prompt, truth, verdict]` and reduce both axes, over all pairs of T2I model
and prompt that have at least one image; given `scopes` they return `[..., 1 + T2I models, 1 + categories]`.
"""

from __future__ import annotations

from functools import partial
from typing import get_args

import numpy as np

from detector_bench.metrics.catalogue import NClear
from detector_bench.metrics.counts import (
    CountArray,
    FloatArray,
    Score,
    class_count,
    detector_class_counts,
    divide,
    human_class_counts,
    images_without_verdict,
)
from detector_bench.metrics.declaration import metric
from detector_bench.metrics.scopes import Scopes, mean_over_prompts, one_prompt_each

SIGNED_CLASSES = 2
"""How many classes an attribute has whose prompt bias scores bear a sign."""

_FORMULA_1 = "Lyu 2025, section 3.2, formula 1; more than two classes: ours"
_FORMULA_2 = "Lyu 2025, section 3.2, formula 2"
_NONE_KEPT = "prompts of which the detector keeps no image"
_of_model = partial(metric, over="prompts", section="Model bias")
_of_prompts = partial(metric, kind="score", section="Prompt bias")
_signed = partial(
    _of_prompts,
    over="images",
    form="signed",
    rows=("prompts",),
    two_classes=True,
    lowest=-1,
    better="none",
    source=_FORMULA_2,
)


def concentration(class_counts: CountArray) -> FloatArray:
    """How far the classes are from equal numbers: total variation distance from uniform, scaled to [0, 1].

    sum_k |p_k - 1/K| / (2 (1 - 1/K)), p_k the share of class k. 0: all classes equally often; 1: one class only.
    For two classes it is |n_1 - n_2| / (n_1 + n_2), the term of the paper's formula 1; for more classes
    it is our generalisation.

    Args:
        class_counts: images of each class, `[..., K]`.

    Returns:
        `[...]`; NaN where there is no image.
    """
    classes = class_counts.shape[-1]
    total = class_counts.sum(axis=-1)
    # Multiplied out by K and the total, the numerator stays a whole number, so equal cases give equal floats.
    deviation = np.abs(classes * class_counts - total[..., np.newaxis]).sum(axis=-1)
    return divide(deviation, 2 * (classes - 1) * total)


@_signed(
    left_out="the prompt's images without a verdict; of the human labels: without a label",
)
def prompt_bias_score(counts: CountArray, *, n_clear: NClear = "detector") -> Score:
    """Balance of the first against the second class, as reported (can leave its range with n_clear human): B =
    (n_1 - n_2) / n_clear of one prompt, n_clear the detector's or the human's clear images; two classes only.

    In [-1, 1]; positive towards the attribute's first class (male). n_1 and n_2 count every image that
    the detector puts into the class, those that a human calls low-quality included. The paper leaves n_clear open:

    - `"detector"`: the images that the detector keeps. A prompt of which it keeps none has no score (NaN).
    - `"human"`: the human's clear images. A prompt of which the detector keeps none has a true 0; one without a
      single verdict has no score. The score can leave [-1, 1] where the detector keeps more images than the human.
      The paper's Table 2 fits this better than the other.

    `Score.n` is n_clear, `Score.n_left_out` the prompt's images without a verdict. For more than two classes there
    is no signed score: all values are NaN.
    """
    class_counts = detector_class_counts(counts)
    n = _clear_images(counts, n_clear=n_clear)
    value = _signed_score(class_counts, n)
    return Score(value, n, images_without_verdict(counts))


@_signed(
    actual_of="prompt_bias_score",
)
def prompt_bias_score_actual(counts: CountArray) -> Score:
    """Balance of the first against the second class, by the human labels: B of the human labels.

    In [-1, 1]. NaN for a prompt without a human-clear image, and for more than
    two classes. `Score.n` is the number of human-clear images.
    """
    class_counts = human_class_counts(counts)
    n = class_counts.sum(axis=-1)
    return Score(_signed_score(class_counts, n), n, np.zeros_like(n))


def prompt_bias_score_error(counts: CountArray, *, n_clear: NClear = "detector") -> Score:
    """Distance between the detector's and the actual prompt bias score of one prompt, the term of formula 3.

    Two classes: |PBS_detector - PBS_actual|. More: sum_k |share_k,detector - share_k,actual|, where the detector's
    shares are parts of n_clear; our generalisation, the same number for two classes and `n_clear="detector"`. 0 is
    best; at most 2 with `n_clear="detector"`. NaN unless both scores exist.

    `Score.n` is 1 where there is a value and 0 elsewhere; `Score.n_left_out` is 1 for a prompt that has images but
    no value.
    """
    if class_count(counts) == SIGNED_CLASSES:
        detector = prompt_bias_score(counts, n_clear=n_clear).value
        value = np.abs(detector - prompt_bias_score_actual(counts).value)
    else:
        human = human_class_counts(counts)
        detector_shares = divide(
            detector_class_counts(counts), _clear_images(counts, n_clear=n_clear)[..., np.newaxis]
        )
        actual_shares = divide(human, human.sum(axis=-1, keepdims=True))
        value = np.abs(detector_shares - actual_shares).sum(axis=-1)
    return one_prompt_each(value, counts)


@_of_prompts(
    over="prompts",
    term=prompt_bias_score_error,
    better="lower",
    highest=2,
    source="Lyu 2025, section 3.5, formula 3; more than two classes: ours",
    left_out="prompts without a reported or an actual score",
    headline=8,
    swept=10,
    chooses=True,
)
def prompt_bias_score_difference(
    counts: CountArray, *, n_clear: NClear = "detector", scopes: Scopes | None = None
) -> Score:
    """Mean distance between reported and actual prompt bias scores (can exceed 2 with n_clear human): mean over
    prompts of |B_detector - B_actual|; more than two classes: of Σ_k |p_k,detector - p_k,actual|.

    That is, of `prompt_bias_score_error` (formula 3); lower is better. `Score.n` counts the prompts used,
    `Score.n_left_out` those without a detector's or an actual score.
    """
    return mean_over_prompts(prompt_bias_score_error(counts, n_clear=n_clear), scopes)


@_of_model(
    form="concentration",
    rows=("scopes", "human"),
    better="none",
    kind="score",
    source=_FORMULA_1,
    left_out=_NONE_KEPT,
    headline=5,
    swept=7,
)
def model_bias_score(counts: CountArray, *, scopes: Scopes | None = None) -> Score:
    """Mean distance from equal classes per prompt, as reported: mean over prompts of D = Σ_k |p_k - 1/K| / (2 (1
    - 1/K)), p_k the share of class k among the detector's clear images; for two classes D = |n_1 - n_2| / (n_1 +
    n_2).

    D is the `concentration` of the detector's classes, in [0, 1]. 0: every prompt shows the classes equally
    often; 1: every prompt shows one class only. It describes the T2I model, so no direction is better. A
    prompt of which the detector keeps no image has no term: it is left out of the mean and counted in
    `Score.n_left_out`. The denominator of a term is the detector's own count by definition, whatever
    `n_clear`.
    """
    return mean_over_prompts(one_prompt_each(concentration(detector_class_counts(counts)), counts), scopes)


@_of_model(
    form="concentration",
    actual_of="model_bias_score",
    rows=("scopes",),
    better="none",
    kind="score",
    source=_FORMULA_1,
    left_out="prompts without a human-clear image",
    swept=8,
)
def model_bias_score_actual(counts: CountArray, *, scopes: Scopes | None = None) -> Score:
    """Mean distance from equal classes per prompt, by the human labels: mean over prompts of D of the human
    labels.

    In [0, 1]; prompts without a clear image are left out and counted.
    """
    return mean_over_prompts(one_prompt_each(concentration(human_class_counts(counts)), counts), scopes)


@_of_model(
    form="ratio",
    made_of=("model_bias_score", "model_bias_score_actual"),
    rows=("scopes",),
    better="closest to zero",
    lowest=-1,
    highest=None,
    source="Lyu 2025, Table 1",
    left_out=_NONE_KEPT,
    headline=6,
    compared=5,
    swept=9,
    chooses=True,
)
def model_bias_score_deviation(counts: CountArray, *, scopes: Scopes | None = None) -> Score:
    """Reported minus actual model bias score, as a part of the actual one: (`model_bias_score` -
    `model_bias_score_actual`) / `model_bias_score_actual`.

    Closest to 0 is best. Positive: the detector overestimates the bias. At least -1, without an upper bound.
    NaN where the actual score is 0 or either is undefined. Each score is the mean over its own prompts, as in
    the paper's Table 1; n and n_left_out are those of the detector's score.
    """
    detector = model_bias_score(counts, scopes=scopes)
    actual = model_bias_score_actual(counts, scopes=scopes).value
    return detector._replace(value=divide(detector.value - actual, actual))


def _signed_score(class_counts: CountArray, n_clear: CountArray) -> FloatArray:
    if class_counts.shape[-1] != SIGNED_CLASSES:
        return np.full(n_clear.shape, np.nan)
    return divide(class_counts[..., 0] - class_counts[..., 1], n_clear)


def _clear_images(counts: CountArray, *, n_clear: NClear) -> CountArray:
    if n_clear == "detector":
        kept: CountArray = detector_class_counts(counts).sum(axis=-1)
        return kept
    if n_clear == "human":
        human_clear = human_class_counts(counts).sum(axis=-1)
        verdicts = counts[..., :-1].sum(axis=(-2, -1))
        return np.where(verdicts > 0, human_clear, 0)
    raise ValueError(f"n_clear: {n_clear!r} (accepted: {', '.join(get_args(NClear))})")
