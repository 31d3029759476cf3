"""The bootstrap distribution of every metric, for every scope and all detectors at once.

Two questions, two units:

- `"image"`: what if the T2I models had made other images from the same prompts? Images are drawn with replacement
  within every prompt of every T2I model, and now and then one is borrowed (see `metrics.resampling`).
- `"prompt"`: what if other prompts of the same categories had been chosen? Prompts are drawn with replacement
  within their category, each with all its images by all T2I models. Their scores differ by the chance of their
  images already, so images are not drawn a second time: that would count the same noise twice.

A resample is the same for all detectors, so that differences between them are paired.

From resamples to how the metrics themselves would scatter from study to study, two corrections are due, without
which intervals miss the truth (docs/uncertainty.md shows by how much):

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
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from detector_bench.metrics.bias_terms import BiasTerms, Terms
from detector_bench.metrics.catalogue import MetricInfo, NClear
from detector_bench.metrics.cell_metrics import CellMetrics, asks_every_cell, resampled_metrics, values_by_number
from detector_bench.metrics.counts import CountArray, FloatArray, divide
from detector_bench.metrics.estimands import LARGEST_TABLE
from detector_bench.metrics.intervals import (
    ENOUGH_FOR_PERCENTILES,
    FEWEST_DEGREES_OF_PROMPTS,
    Interval,
    bca_interval,
    mean_of_defined,
    percentile_interval,
    score_interval,
    standard_error_interval,
    stretched,
    stretching,
)
from detector_bench.metrics.joint_verdicts import JointVerdicts, ScopeSums
from detector_bench.metrics.resampling import (
    LARGEST_DRAWN_ONE_BY_ONE,
    Resampler,
    over_blocks,
    own_weight,
    prompt_weights,
)

Unit: TypeAlias = Literal["image", "prompt"]
Method: TypeAlias = Literal["score", "percentile", "bca", "none"]

_Values = dict[str, FloatArray]
_DEVIATION = "model_bias_score_deviation"


class Resampled(NamedTuple):
    """The values of every metric in every resample."""

    detectors: Mapping[str, FloatArray]
    """By metric: `[1 + T2I models, 1 + categories, detector, resample]`; position 0 of the scopes is "all"."""
    human: Mapping[str, FloatArray]
    """By metric of the human labels: `[1 + T2I models, 1 + categories, 1, resample]`."""
    prompts: Mapping[str, FloatArray]
    """By metric of single prompts: `[pair, 1 + detector, resample]`, the human first; empty unless asked for."""
    pairs: NDArray[np.intp]
    """Position of each pair in the flattened table `[t2i_model, prompt]`: those on the axis `pair`."""


def resample(
    joint: JointVerdicts,
    *,
    resamples: int = 2_000,
    unit: Unit = "image",
    seed: int = 0,
    n_clear: NClear = "detector",
    prompts: bool = False,
    one_by_one: int = LARGEST_DRAWN_ONE_BY_ONE,
    borrow: bool = True,
    threads: int | None = None,
) -> Resampled:
    """Draw resamples and compute every metric in each.

    The same seed gives the same numbers with any number of threads, the first resamples of a longer series are
    those of a shorter one, and a further detector leaves what is drawn one by one as it was.

    Args:
        joint: truth and verdicts of every labelled image.
        resamples: how many.
        unit: what is drawn; see the module.
        seed: of the random numbers.
        n_clear: denominator of detectors' prompt bias scores.
        prompts: also keep the scores of single prompts (`unit="image"` only).
        one_by_one: prompts of a T2I model with more images get normally distributed counts; see `Resampler`.
        borrow: False: the plain bootstrap, from each prompt's own images alone.
        threads: how many work at once; None: as many as there are processors.
    """
    cells = CellMetrics(joint, n_clear=n_clear)
    resampler = Resampler(
        joint, count_verdicts=n_clear == "human", one_by_one=one_by_one, codes=cells.codes, borrow=borrow
    )
    evaluation = _Evaluation(joint, resampler, cells, n_clear=n_clear)
    unchanged = evaluation.unchanged() if unit == "prompt" else None

    def block(number: int) -> tuple[_Values, _Values, _Values]:
        if unchanged is not None:
            return evaluation.with_prompt_weights(unchanged, prompt_weights(joint, number, seed=seed))
        return evaluation.of_block(number, seed=seed, prompts=prompts)

    detectors, human, single = over_blocks(block, resamples=resamples, threads=threads)
    return Resampled(detectors, human, single, resampler.pairs)


def leave_one_prompt_out(joint: JointVerdicts, *, n_clear: NClear = "detector") -> Resampled:
    """Every metric without one prompt: the axis `resample` is the prompt that is left out."""
    cells = CellMetrics(joint, n_clear=n_clear)
    resampler = Resampler(joint, count_verdicts=n_clear == "human", codes=cells.codes)
    evaluation = _Evaluation(joint, resampler, cells, n_clear=n_clear)
    weights = 1 - np.eye(joint.prompts, dtype=np.float32)
    detectors, human, single = evaluation.with_prompt_weights(evaluation.unchanged(), weights)
    return Resampled(detectors, human, single, resampler.pairs)


def sampling_distribution(
    resampled: Mapping[str, FloatArray], values: Mapping[str, FloatArray], *, spread: FloatArray, unit: Unit
) -> dict[str, FloatArray]:
    """Centre resamples on the value, and stretch them to the scatter from study to study.

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


@dataclass(frozen=True)
class Scatter:
    """The resamples of every metric, how far they fall short of the scatter from study to study, and the limits
    that follow, by each of the methods."""

    resampled: Mapping[str, FloatArray]
    """By metric, `[..., resample]`, as drawn."""
    values: Mapping[str, FloatArray]
    """By metric, its value in the images at hand, `[...]`."""
    spread: FloatArray
    """What resamples are stretched by, see `spread_factors`; broadcasts against `[...]`."""
    unit: Unit
    level: float
    enough_for_percentiles: NDArray[np.bool_]
    """Broadcasts against `[...]`; elsewhere percentiles and BCa intervals are NaN."""

    def by_score(self, name: str, info: MetricInfo, *, images: FloatArray) -> Interval:
        """Wilson's interval by the effective number of images, for a metric with two bounds.

        Args:
            name: of the resamples.
            info: the metric's range.
            images: see `metrics.intervals.score_interval`.
        """
        if info.highest is None:
            raise ValueError(f"{info.name} has no upper bound, and so no score interval")
        return score_interval(
            self.resampled[name],
            self.values[name],
            lowest=info.lowest,
            highest=info.highest,
            spread=self.spread,
            images=images,
            at_most_images=self.unit == "prompt",
            level=self.level,
        )

    def by_standard_error(self, name: str) -> Interval:
        """The value plus and minus a multiple of the resamples' standard deviation."""
        return standard_error_interval(self._moved(name), self.values[name], level=self.level)

    def by_percentiles(self, name: str, *, acceleration: FloatArray | None) -> Interval:
        """The middle part of the resamples; by the BCa method where there is an acceleration."""
        value = self.values[name]
        if self.resampled[name].shape[-1] < ENOUGH_FOR_PERCENTILES:
            interval = self.by_standard_error(name)
        elif acceleration is None:
            interval = percentile_interval(self._moved(name), level=self.level)
        else:
            interval = bca_interval(self.resampled[name], value, acceleration, level=self.level)
            interval = stretched(interval, value, factor=self.spread)
        return Interval(*(np.where(self.enough_for_percentiles, limit, np.nan) for limit in interval))

    def _moved(self, name: str) -> FloatArray:
        # The deviation is formed from two other metrics.
        return sampling_distribution(self.resampled, self.values, spread=self.spread, unit=self.unit)[name]


@dataclass(frozen=True, slots=True)
class _Evaluation:
    """From sums to metrics."""

    joint: JointVerdicts
    resampler: Resampler
    cells: CellMetrics
    n_clear: NClear

    def of_block(self, number: int, *, seed: int, prompts: bool) -> tuple[_Values, _Values, _Values]:
        sums = self.resampler.block(number, seed=seed)
        terms = BiasTerms(sums.class_counts, sums.verdicts, drawn=self.resampler.drawn, n_clear=self.n_clear)
        scopes = self._scopes
        means = {
            name: Terms(*(scopes.of_pairs(part) for part in each)) for name, each in terms.by_metric().items()
        }
        single = terms.prompt_scores() | self.cells.of_prompts(sums.codes) if prompts else {}
        detectors, human = self._metrics(scopes.of_blocks(sums.pooled), means)
        return detectors | self.cells.over_scopes(sums.codes, scopes.of_pairs), human, single

    def unchanged(self) -> tuple[CountArray, CountArray | None, dict[str, Terms]]:
        """Kinds, codes and terms of every pair as it is, `[pair, ...]`: what prompts carry with them when they are
        drawn."""
        sums = self.resampler.unchanged()
        small = sums.class_counts.sum(axis=1).max(axis=(-2, -1)) <= LARGEST_TABLE
        terms = BiasTerms(sums.class_counts, sums.verdicts, drawn=small, n_clear=self.n_clear)
        codes = None if sums.codes is None else sums.codes[..., 0]
        return (
            sums.pooled[..., 0],
            codes,
            {name: Terms(*(part[..., 0] for part in each)) for name, each in terms.by_metric().items()},
        )

    def with_prompt_weights(
        self, unchanged: tuple[CountArray, CountArray | None, dict[str, Terms]], weights: NDArray[np.float32]
    ) -> tuple[_Values, _Values, _Values]:
        """The metrics of drawn prompts; `weights` say how often each is drawn, `[prompt, resample]`."""
        of_pair = weights[self.resampler.pairs % self.joint.prompts]
        scopes = self._scopes
        kinds, codes, terms = unchanged
        means = {
            name: Terms(*(scopes.of_weighted_pairs(part, of_pair) for part in each))
            for name, each in terms.items()
        }
        detectors, human = self._metrics(scopes.of_weighted_pairs(kinds, of_pair), means)
        of_cells = self.cells.over_scopes(codes, lambda values: scopes.of_weighted_pairs(values, of_pair))
        return detectors | of_cells, human, {}

    @property
    def _scopes(self) -> ScopeSums:
        return ScopeSums(self.joint, self.resampler.blocks)

    def _metrics(self, pooled: CountArray, terms: Mapping[str, Terms]) -> tuple[_Values, _Values]:
        detectors = _over_images(self.resampler.kinds.counts(pooled))
        means = {name: each.mean for name, each in terms.items()}
        human = {
            f"label_share_{index}": share
            for index, share in enumerate(_label_shares(self.resampler.kinds.label_counts(pooled)))
        }
        scores, corrected = means["model_bias_score"], means["model_bias_score_corrected"]
        human |= {"model_bias_score": scores[..., :1, :], "model_bias_score_corrected": corrected[..., :1, :]}
        actual = np.broadcast_to(scores[..., :1, :], scores[..., 1:, :].shape)
        detectors |= {
            "model_bias_score": scores[..., 1:, :],
            "model_bias_score_corrected": corrected[..., 1:, :],
            "model_bias_score_actual": actual,
            "model_bias_score_deviation": divide(scores[..., 1:, :] - actual, actual),
            "model_bias_score_error": means["model_bias_score_error"],
            "prompt_bias_score_difference": means["prompt_bias_score_difference"],
        }
        return detectors, human


def _over_images(counts: CountArray) -> _Values:
    values: _Values = {}
    for info in resampled_metrics(counts.shape[-1] - 2):
        if info.over == "images" and not asks_every_cell(info):
            values |= values_by_number(info, info.prompt_scores(counts, n_clear="detector"))
    return values


def _label_shares(labels: CountArray) -> list[FloatArray]:
    """One array for each human label, of counts `[..., label, resample]`."""
    total = labels.sum(axis=-2)
    return [divide(labels[..., index, :], total)[..., np.newaxis, :] for index in range(labels.shape[-2])]
