"""Whether a part of the prompt bias score difference is more than what chance adds to a distance.

The difference is a mean of distances. Chance alone makes them larger than 0, and larger still where images are
fewer: also a filter that drops images blindly adds to it. So an interval of the difference, or of a part of it,
leaves 0 out however blind the filter or the classifier is, and says nothing about whether one favours a class.
Squared distances less the variance of the distance have no such part (`metrics.prompt_bias_error`); they are split
into the same parts, prompt by prompt.
"""

from __future__ import annotations

import numpy as np

from detector_bench.metrics.catalogue import NClear
from detector_bench.metrics.causes import ErrorParts, guessed_classes, replaced_counts
from detector_bench.metrics.counts import (
    CountArray,
    FloatArray,
    count_images,
    detector_class_counts,
    divide,
    human_class_counts,
)
from detector_bench.metrics.prompt_bias_error import squared_errors, variance_over_prompts
from detector_bench.metrics.scopes import Scopes

_HUMAN_FILTER = 1
"""Its place among the replacements."""


def beyond_chance(
    counts: CountArray,
    *,
    n_clear: NClear = "detector",
    filtered_classes: CountArray | None = None,
    scopes: Scopes,
    level: float,
) -> ErrorParts:
    """Test every part of the squared prompt bias error against 0, by the scatter between prompts.

    Student's t of the mean over prompts, each with all its T2I models, at half of 1 - `level`. A part below 0
    hides errors of the other step, so it counts only where that one has some; the long tail of squared distances
    would else let many a mean lie far below 0. Where nothing favours a class, prompts scatter by the chance of
    their images alone, so that this is a test for other images of the same prompts, too; where something does, it
    is careful, as prompts differ. Not in the paper.

    Args:
        counts: `[..., t2i_model, prompt, truth, verdict]`.
        n_clear: see `prompt_bias_score`.
        filtered_classes: see `causes.with_human_filter`.
        scopes: the prompts' categories.
        level: 0.95 tests at 5 %.

    Returns:
        Whether the part differs from 0, `[..., 1 + T2I models, 1 + categories]`; never where a scope has no two
        prompts, or where no prompt has a part other than 0.
    """
    from scipy.special import stdtrit

    replaced = replaced_counts(counts, filtered_classes=filtered_classes)
    errors = np.stack([squared_errors(each, n_clear=n_clear).value for each in replaced])
    errors[_HUMAN_FILTER] += _scatter_of_guesses(
        counts, replaced[_HUMAN_FILTER], filtered_classes, n_clear=n_clear
    )
    # A prompt that one of the four detectors cannot be judged on says nothing about what replacing it saves.
    errors = np.where(np.isnan(errors).any(axis=0), np.nan, errors)
    asked = (~np.isnan(errors[0])).astype(np.int64)
    prompts = scopes.sums(asked, prompt_axis=-1)
    prompts[..., 0, :] = scopes.sums(asked.max(axis=-2, keepdims=True), prompt_axis=-1)[..., 0, :]
    limit = stdtrit(np.maximum(prompts - 1, 1), (1 + level) / 2)

    t = {}
    for part, value in ErrorParts.of_errors(errors)._asdict().items():
        total = scopes.sums(np.nan_to_num(value), prompt_axis=-1)
        t[part] = np.nan_to_num(divide(total, np.sqrt(variance_over_prompts(value, scopes))))
    found = {part: each > limit for part, each in t.items()}
    filtering, classification = found["filtering"], found["classification"]
    found["filtering"] = filtering | (classification & (t["filtering"] < -limit))
    found["classification"] = classification | (filtering & (t["classification"] < -limit))
    return ErrorParts(**found)


def _scatter_of_guesses(
    counts: CountArray, replaced: CountArray, filtered_classes: CountArray | None, *, n_clear: NClear
) -> FloatArray:
    """What `squared_errors` takes off too much where the human's filter replaces the detector's.

    It takes every image for one that could have been named otherwise by chance. Images whose class is only guessed
    count with their expected class, which does not vary: Var(contrast) / base^2 each, with the variance of the
    contrasts of one image 2 (1 - sum of squared shares).
    """
    guessed = guessed_classes(counts, filtered_classes=filtered_classes)
    of_image = 2 * (1 - (guessed.shares**2).sum(axis=-1))
    clear = detector_class_counts(replaced) if n_clear == "detector" else human_class_counts(replaced)
    images = count_images(counts)
    total = (guessed.images * of_image).sum(axis=-1)
    return divide(total, clear.sum(axis=-1) ** 2) * divide(images, images - 1)
