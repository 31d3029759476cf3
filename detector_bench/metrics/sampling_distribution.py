"""From resamples to what they stand for: how the metrics themselves would scatter from study to study.

Two corrections, without which intervals miss the truth (docs/uncertainty.md shows by how much):

- **Centring.** Drawing images again adds chance to every distance between shares, so resampled model bias scores
  and prompt bias score differences all lie too high; borrowed images move every number a little. Resamples are
  moved so that their mean lies on the metric's value. The deviation, a ratio of two such scores, is formed from
  moved scores. Not needed where whole prompts are drawn.
- **Spread.** Within a prompt of n images the bootstrap's variance is (n - 1) / n of what it should be, as one
  degree of freedom is lost to the prompt's mean; less, w squared, where only a part w of what is drawn is the
  prompt's own. And a variance that is itself estimated calls for Student's t, whose variance with d degrees of
  freedom is d / (d - 2). So variances are multiplied by images / (images - sum of w squared - 2); by prompts /
  (prompts - categories - 2), where prompts are drawn. Where nothing is left, or the scatter of prompts rests on
  fewer than five degrees of freedom, there is no interval.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from detector_bench.metrics.bootstrap import Unit
from detector_bench.metrics.counts import FloatArray, divide
from detector_bench.metrics.intervals import FEWEST_DEGREES_OF_PROMPTS, mean_of_defined, stretching
from detector_bench.metrics.joint_verdicts import JointVerdicts
from detector_bench.metrics.resampling import own_weight

_DEVIATION = "model_bias_score_deviation"


def sampling_distribution(
    resampled: Mapping[str, FloatArray], values: Mapping[str, FloatArray], *, spread: FloatArray, unit: Unit
) -> dict[str, FloatArray]:
    """Centre and stretch resamples.

    Args:
        resampled: by metric, `[..., resample]`.
        values: by metric, the metric itself, `[...]`; only the metrics that are in both are in the result.
        spread: see `spread_factors`; broadcasts against `[...]`.
        unit: what was drawn.
    """
    found: dict[str, FloatArray] = {}
    for name in resampled.keys() & values.keys():
        value = values[name]
        middle = mean_of_defined(resampled[name]) if unit == "image" else value
        found[name] = value[..., np.newaxis] + spread[..., np.newaxis] * (
            resampled[name] - middle[..., np.newaxis]
        )
    if unit == "image" and {_DEVIATION, "model_bias_score", "model_bias_score_actual"} <= found.keys():
        reported, actual = found["model_bias_score"], found["model_bias_score_actual"]
        found[_DEVIATION] = divide(reported - actual, actual)
    return found


def spread_factors(joint: JointVerdicts, *, unit: Unit) -> FloatArray:
    """By how much the scatter of resamples falls short, `[1 + T2I models, 1 + categories]`; NaN: it says
    nothing."""
    images = np.bincount(joint.pair, minlength=joint.t2i_models * joint.prompts)
    images = images.reshape(joint.t2i_models, joint.prompts)
    if unit == "image":
        drawn = joint.scopes.sums(images, prompt_axis=-1)
        lost = joint.scopes.sums(own_weight(images) ** 2, prompt_axis=-1)
    else:
        asked = (images.sum(axis=0) > 0).astype(np.int64)
        of_category = np.bincount(joint.scopes.category_of_prompt, asked, len(joint.scopes.categories))
        drawn = np.tile(np.concatenate([[of_category.sum()], of_category]), (1 + joint.t2i_models, 1))
        lost = np.tile(np.concatenate([[(of_category > 0).sum()], of_category > 0]), (1 + joint.t2i_models, 1))
        lost = np.where(drawn - lost >= FEWEST_DEGREES_OF_PROMPTS, lost, drawn)
    return stretching(drawn, lost)
