"""From resamples to what they stand for: how the metrics themselves would scatter from study to study.

Two corrections, without which intervals miss the truth (docs/uncertainty.md shows by how much):

- **Centring.** Drawing images again adds chance to every distance between shares, so resampled model bias scores
  and prompt bias score differences all lie too high. They are moved so that their mean lies on the metric's
  value. The deviation, a ratio of two such scores, is formed from moved scores. Not needed where whole prompts
  are drawn.
- **Spread.** Within a prompt of n images the bootstrap's variance is (n - 1) / n of what it should be, as one
  degree of freedom is lost to the prompt's mean. Distances from the value are stretched by the square root of
  images / (images - prompts); of prompts / (prompts - categories), where prompts are drawn. With one image per
  prompt nothing is known about the scatter, and there is no interval.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from detector_bench.metrics.bootstrap import Unit
from detector_bench.metrics.counts import FloatArray, divide
from detector_bench.metrics.intervals import mean_of_defined
from detector_bench.metrics.joint_verdicts import JointVerdicts

MEANS_OF_DISTANCES = (
    "model_bias_score",
    "model_bias_score_actual",
    "model_bias_score_corrected",
    "prompt_bias_score_difference",
)
"""Metrics that are centred."""

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
        middle = mean_of_defined(resampled[name]) if name in MEANS_OF_DISTANCES and unit == "image" else value
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
        lost = joint.scopes.sums((images > 0).astype(np.int64), prompt_axis=-1)
    else:
        asked = (images.sum(axis=0) > 0).astype(np.int64)
        of_category = np.bincount(joint.scopes.category_of_prompt, asked, len(joint.scopes.categories))
        drawn = np.tile(np.concatenate([[of_category.sum()], of_category]), (1 + joint.t2i_models, 1))
        lost = np.tile(np.concatenate([[(of_category > 0).sum()], of_category > 0]), (1 + joint.t2i_models, 1))
    return np.sqrt(divide(drawn, drawn - lost))
