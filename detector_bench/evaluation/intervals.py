"""Fills the confidence intervals of a metric table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from detector_bench.evaluation.counting import Counts
from detector_bench.evaluation.interval_names import (
    MEAN_OF_SHARES,
    MEAN_OF_SHARES_PREFIX,
    is_share,
    over_images,
    resampled_name,
)
from detector_bench.evaluation.scores import PromptCells, ScoreTable
from detector_bench.metrics import NClear, human_as_detector, metric_info
from detector_bench.metrics.bootstrap import Resampled, Unit, leave_one_prompt_out, resample
from detector_bench.metrics.counts import CountArray, FloatArray, divide
from detector_bench.metrics.intervals import (
    ENOUGH_FOR_PERCENTILES,
    Interval,
    bca_interval,
    percentile_interval,
    standard_error_interval,
    stretched,
    wilson_interval,
    wilson_interval_of_f1,
)
from detector_bench.metrics.jackknife import acceleration_of_images, acceleration_of_prompts
from detector_bench.metrics.sampling_distribution import (
    MEANS_OF_DISTANCES,
    sampling_distribution,
    spread_factors,
)

_LARGE = 200_000
_RESAMPLES = 2_000


class Intervals(BaseModel):
    """How the confidence intervals of a study are found. See docs/uncertainty.md."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    method: Literal["percentile", "bca", "none"] = "percentile"
    """percentile: the middle part of the resamples. bca: corrected for bias and skewness, where images are drawn
    only for metrics over images; bias scores, which are means of distances, keep percentiles then."""
    level: float = Field(default=0.95, gt=0, lt=1)
    resamples: int | None = Field(default=None, ge=100, le=1_000_000)
    """None: 2,000. In a study of more than 200,000 images None means no resamples, so that it is evaluated in
    seconds: shares get Wilson's interval, bias scores none. From fewer than 400 only a standard error is taken."""
    unit: Unit = "image"
    """image: had the T2I models made other images from these prompts. prompt: had there been other prompts."""
    seed: int = Field(default=0, ge=0)
    prompts: bool = False
    """Intervals of single prompts too (`unit: image` only): Wilson's for shares."""

    def resamples_for(self, images: int) -> int:
        """How many resamples a study of so many images gets; 0: none are drawn."""
        if self.method == "none":
            return 0
        return self.resamples or (_RESAMPLES if images <= _LARGE else 0)


@dataclass(frozen=True, slots=True)
class IntervalScores:
    """Puts intervals beside scores. What a metric's name means here stands in `interval_names`."""

    counts: Counts
    settings: Intervals
    resampled: Resampled | None
    """None: there are no intervals."""
    without_one: Resampled | None
    """The metrics without each prompt, for BCa intervals over prompts."""

    @classmethod
    def of_counts(cls, counts: Counts, settings: Intervals, *, n_clear: NClear) -> IntervalScores:
        """Draw the resamples."""
        joint = counts.joint
        resamples = settings.resamples_for(joint.images)
        if resamples == 0 or joint.images == 0:
            return cls(counts, settings, None, None)
        resampled = resample(
            joint,
            resamples=resamples,
            unit=settings.unit,
            seed=settings.seed,
            n_clear=n_clear,
            prompts=settings.prompts and settings.unit == "image",
        )
        leaves_out = settings.method == "bca" and settings.unit == "prompt"
        return cls(
            counts, settings, resampled, leave_one_prompt_out(joint, n_clear=n_clear) if leaves_out else None
        )

    def of_detectors(self, scores: ScoreTable) -> ScoreTable:
        """Intervals of detectors' metrics for every scope."""
        if self.resampled is None:
            return self._of_shares(scores)
        without_one = self.without_one.detectors if self.without_one else {}
        return self._of_scopes(scores, self.resampled.detectors, without_one, self.counts.verdicts)

    def of_human(self, scores: ScoreTable) -> ScoreTable:
        """Intervals of the human labels' metrics for every scope."""
        if self.resampled is None:
            return self._of_shares(scores)
        without_one = self.without_one.human if self.without_one else {}
        as_detector = human_as_detector(self.counts.human)[np.newaxis]
        return self._of_scopes(scores, self.resampled.human, without_one, as_detector)

    def of_detector_prompts(self, scores: ScoreTable, *, at: PromptCells) -> ScoreTable:
        """Intervals of detectors' metrics for single prompts."""
        return self._of_prompts(scores, slice(1, None), at)

    def of_human_prompts(self, scores: ScoreTable, *, at: PromptCells) -> ScoreTable:
        """Intervals of the human labels' metrics for single prompts."""
        return self._of_prompts(scores, slice(0, 1), at)

    def _of_scopes(
        self,
        scores: ScoreTable,
        resampled: Mapping[str, FloatArray],
        without_one: Mapping[str, FloatArray],
        verdicts: CountArray,
    ) -> ScoreTable:
        keys = [resampled_name(name, self.counts.attribute) for name in scores.metrics]
        values = {key: np.moveaxis(scores.value[..., index], 0, -1) for index, key in enumerate(keys)}
        spread = spread_factors(self.counts.joint, unit=self.settings.unit)[..., np.newaxis]
        scatter = sampling_distribution(resampled, values, spread=spread, unit=self.settings.unit)
        for index, (name, key) in enumerate(zip(scores.metrics, keys, strict=True)):
            if name == MEAN_OF_SHARES and self.settings.unit == "image":
                self._write(scores, index, self._of_balanced_accuracy(scores))
                continue
            if key not in scatter:
                continue
            acceleration = self._acceleration(name, without_one.get(key), verdicts)
            if scatter[key].shape[-1] < ENOUGH_FOR_PERCENTILES:
                interval = standard_error_interval(scatter[key], values[key], level=self.settings.level)
            elif acceleration is None:
                interval = percentile_interval(scatter[key], level=self.settings.level)
            else:
                interval = bca_interval(resampled[key], values[key], acceleration, level=self.settings.level)
                interval = stretched(interval, values[key], factor=spread)
            n = np.moveaxis(scores.n[..., index], 0, -1)
            self._write(scores, index, self._finished(name, interval, values[key], n), axis=0)
        return scores

    def _of_shares(self, scores: ScoreTable) -> ScoreTable:
        """Wilson's intervals, which need no resamples; not for drawn prompts, whose scatter they do not know."""
        if self.settings.method != "none" and self.settings.unit == "image":
            for index, name in enumerate(scores.metrics):
                if is_share(name):
                    self._write(scores, index, self._wilson(name, scores.value[..., index], scores.n[..., index]))
                elif name == MEAN_OF_SHARES:
                    self._write(scores, index, self._of_balanced_accuracy(scores))
        return scores

    def _of_balanced_accuracy(self, scores: ScoreTable) -> Interval:
        classes = [place for place, name in enumerate(scores.metrics) if name.startswith(MEAN_OF_SHARES_PREFIX)]
        return interval_of_mean_of_shares(
            scores.value[..., classes], scores.n[..., classes], level=self.settings.level
        )

    def _wilson(self, name: str, value: FloatArray, n: CountArray) -> Interval:
        find = wilson_interval_of_f1 if name == "f1" else wilson_interval
        return find(value, n, level=self.settings.level)

    def _acceleration(self, name: str, without_one: FloatArray | None, verdicts: CountArray) -> FloatArray | None:
        """None where there is none to be had, and the interval is no BCa interval."""
        if self.settings.method != "bca":
            return None
        if without_one is not None:
            return acceleration_of_prompts(without_one, scopes=self.counts.scopes)
        function = over_images(name, self.counts.attribute)
        if function is None:
            return None
        return acceleration_of_images(verdicts, function, scopes=self.counts.scopes)

    def _finished(self, name: str, interval: Interval, value: FloatArray, n: CountArray) -> Interval:
        """Wilson's interval for shares of 0 and 1, which no resample can leave; limits within the metric's
        range."""
        info = metric_info(name)
        low, high = (np.clip(limit, info.lowest, info.highest) for limit in interval)
        if is_share(name):
            edge = (value == 0) | (value == 1)
            at_edge = self._wilson(name, value, n)
            low, high = np.where(edge, at_edge.low, low), np.where(edge, at_edge.high, high)
        undefined = np.isnan(value)
        return Interval(np.where(undefined, np.nan, low), np.where(undefined, np.nan, high))

    def _of_prompts(self, scores: ScoreTable, judges: slice, at: PromptCells) -> ScoreTable:
        if self.resampled is None or not self.resampled.prompts:
            return scores
        model, prompt = at
        place = np.full(self.counts.joint.t2i_models * self.counts.joint.prompts, -1)
        place[self.resampled.pairs] = np.arange(len(self.resampled.pairs))
        rows = place[model * self.counts.joint.prompts + prompt]
        for index, name in enumerate(scores.metrics):
            value, n = scores.value[..., index], scores.n[..., index]
            drawn_name = name.removesuffix("_actual")
            if is_share(name):
                interval = self._wilson(name, value, n)
            elif drawn_name in self.resampled.prompts:
                chosen = slice(0, 1) if name.endswith("_actual") else judges
                drawn = self.resampled.prompts[drawn_name][rows, chosen]
                drawn = np.where((rows >= 0)[:, np.newaxis, np.newaxis], drawn, np.nan).swapaxes(0, 1)
                interval = self._of_one_prompt(name, drawn, value, n, images=scores.n[..., 0])
            else:
                continue
            self._write(scores, index, interval)
        return scores

    def _of_one_prompt(
        self, name: str, drawn: FloatArray, value: FloatArray, n: CountArray, *, images: CountArray
    ) -> Interval:
        """A bias score of single prompts, `[detector, cell]`; a score of +-1 is a share of 0 or 1 on another
        scale."""
        spread = np.sqrt(divide(images, images - 1))
        scatter = sampling_distribution({name: drawn}, {name: value}, spread=spread, unit="image")[name]
        interval = self._finished(name, percentile_interval(scatter, level=self.settings.level), value, n)
        if name in MEANS_OF_DISTANCES:
            return interval
        share = wilson_interval((value + 1) / 2, n, level=self.settings.level)
        edge = np.abs(value) == 1
        low, high = (np.where(edge, 2 * one - 1, limit) for one, limit in zip(share, interval, strict=True))
        return Interval(low, high)

    @staticmethod
    def _write(scores: ScoreTable, index: int, interval: Interval, *, axis: int | None = None) -> None:
        low, high = interval if axis is None else (np.moveaxis(limit, -1, axis) for limit in interval)
        scores.ci_low[..., index] = low
        scores.ci_high[..., index] = high


def interval_of_mean_of_shares(share: FloatArray, n: CountArray, *, level: float) -> Interval:
    """Interval of the mean of several classes' shares, from Wilson's of each.

    The distances from the shares to their limits are added like independent errors (Zou and Donner 2008, who call
    it MOVER). Resamples would say nothing about a class that has few images, all of them right.

    Args:
        share: `[..., class]`; NaN for a class without an image, which is left out.
        n: images of each class.
        level: 0.95 for a 95 % interval.
    """
    present = n > 0
    number = present.sum(axis=-1)
    mean = divide(np.where(present, share, 0).sum(axis=-1), number)
    below, above = (
        divide(np.sqrt((np.where(present, share - limit, 0) ** 2).sum(axis=-1)), number)
        for limit in wilson_interval(share, n, level=level)
    )
    return Interval(np.maximum(mean - below, 0), np.minimum(mean + above, 1))
