"""Fills the confidence intervals of a metric table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from detector_bench.errors import ConfigError
from detector_bench.evaluation.counting import Counts
from detector_bench.evaluation.interval_names import (
    CORRECTED,
    DEVIATION,
    MEAN_OF_SHARES,
    MEAN_OF_SHARES_PREFIX,
    PROMPT_DIFFERENCE,
    is_share,
    over_images,
    resampled_name,
)
from detector_bench.evaluation.scatter import Method, Scatter
from detector_bench.evaluation.scores import PromptCells, ScoreTable
from detector_bench.metrics import NClear, human_as_detector, metric_info, prompt_bias_error_interval
from detector_bench.metrics.bootstrap import Resampled, Unit, leave_one_prompt_out, resample, spread_factors
from detector_bench.metrics.correction_bias import model_bias_score_error_bias
from detector_bench.metrics.counts import CountArray, FloatArray, divide
from detector_bench.metrics.intervals import (
    Interval,
    correlation_of,
    interval_of_mean,
    interval_of_ratio,
    stretching,
    wilson_interval,
    wilson_interval_of_f1,
)
from detector_bench.metrics.jackknife import acceleration_of_images, acceleration_of_prompts
from detector_bench.metrics.resampling import own_weight

FEWEST_IMAGES_FOR_PERCENTILES = 400
"""In a scope; percentiles and BCa intervals of fewer hold too seldom (docs/uncertainty.md)."""

FEWEST_PROMPTS_FOR_PERCENTILES = 50
"""The same where prompts are drawn."""

FEWEST_CLEAR_IMAGES = 10
"""Per prompt, on average, for an interval of the corrected score where prompts are drawn."""

_LARGE = 200_000
_RESAMPLES = 2_000


class Intervals(BaseModel):
    """How the confidence intervals of a study are found. See docs/uncertainty.md."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    method: Method = "score"
    """score: Wilson's score interval by the effective number of images, which the scatter of the resamples gives.
    percentile: the middle part of the resamples. bca: corrected for bias and skewness, where images are drawn only
    for metrics over images; bias scores, which are means of distances, keep percentiles then. Neither holds
    for few images, so that scopes of fewer than 400 images, or of 50 prompts where these are drawn, have none."""
    level: float = Field(default=0.95, gt=0, lt=1)
    resamples: int | None = Field(default=None, ge=100, le=1_000_000)
    """None: 2,000. In a study of more than 200,000 images None means no resamples, so that it is evaluated in
    seconds: shares get Wilson's interval, bias scores none. From fewer than 400 only a standard error is taken."""
    unit: Unit = "image"
    """image: had the T2I models made other images from these prompts. prompt: had there been other prompts."""
    seed: int = Field(default=0, ge=0)
    prompts: bool = False
    """Intervals of single prompts too (`unit: image` only): Wilson's for shares."""

    def with_resamples(self, resamples: int | None) -> Intervals:
        """The same settings with another number of resamples; 0: no intervals, None: the same number.

        Raises:
            ConfigError: a number that `resamples` does not accept.
        """
        if resamples is None:
            return self
        if resamples == 0:
            return self.model_copy(update={"method": "none"})
        try:
            return Intervals.model_validate({**self.model_dump(), "resamples": resamples})
        except ValidationError as error:
            message = f"resamples: {resamples:,} (accepted: 0 for no intervals, or 100 to 1,000,000)"
            raise ConfigError(message) from error

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
    n_clear: NClear

    @classmethod
    def of_counts(cls, counts: Counts, settings: Intervals, *, n_clear: NClear) -> IntervalScores:
        """Draw the resamples."""
        joint = counts.joint
        resamples = settings.resamples_for(joint.images)
        if resamples == 0 or joint.images == 0:
            return cls(counts, settings, None, None, n_clear)
        resampled = resample(
            joint,
            resamples=resamples,
            unit=settings.unit,
            seed=settings.seed,
            n_clear=n_clear,
            prompts=settings.prompts and settings.unit == "image",
        )
        leaves_out = settings.method == "bca" and settings.unit == "prompt"
        without_one = leave_one_prompt_out(joint, n_clear=n_clear) if leaves_out else None
        return cls(counts, settings, resampled, without_one, n_clear)

    def of_detectors(self, scores: ScoreTable) -> ScoreTable:
        """Intervals of detectors' metrics for every scope."""
        if self.settings.method != "none":
            self._write(scores, scores.metrics.index("prompt_bias_error"), self._of_prompt_bias_error())
        if self.resampled is None:
            return self._of_shares(scores)
        without_one = self.without_one.detectors if self.without_one else {}
        found = self._of_scopes(scores, self.resampled.detectors, without_one, self.counts.verdicts)
        self._widen_for_bias(found, found.metrics.index("model_bias_score_error"))
        return found

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
        enough = self.enough_for_percentiles()[..., np.newaxis]
        scatter = Scatter(resampled, values, spread, self.settings.unit, self.settings.level, enough)
        for index, (name, key) in enumerate(zip(scores.metrics, keys, strict=True)):
            if name == MEAN_OF_SHARES:
                self._write(scores, index, self._of_balanced_accuracy(scores))
            elif key in resampled and self.settings.method == "score":
                if name == DEVIATION:
                    interval = self._of_deviation(scores, scatter)
                elif name in CORRECTED:
                    interval = self._of_corrected(name, scores, index, scatter)
                else:
                    images = np.moveaxis(self._images(name, scores, index), 0, -1)
                    interval = scatter.by_score(key, metric_info(name), images=images)
                self._write(scores, index, self._within_range(name, interval, values[key]), axis=0)
            elif key in resampled:
                acceleration = self._acceleration(name, without_one.get(key), verdicts)
                interval = scatter.by_percentiles(key, acceleration=acceleration)
                n = np.moveaxis(scores.n[..., index], 0, -1)
                self._write(scores, index, self._finished(name, interval, values[key], n), axis=0)
        return scores

    def enough_for_percentiles(self) -> NDArray[np.bool_]:
        """Which scopes can have percentiles or BCa intervals, `[1 + T2I models, 1 + categories]`."""
        images = self.counts.human.sum(axis=-1)
        if self.settings.unit == "prompt":
            asked = np.broadcast_to(images.sum(axis=0) > 0, images.shape).astype(np.int64)
            # All T2I models are asked the same prompts, so that "all" has as many as one of them.
            prompts = self.counts.scopes.sums(asked, prompt_axis=-1)
            prompts[0] = prompts[1] if len(prompts) > 1 else 0
            return prompts >= FEWEST_PROMPTS_FOR_PERCENTILES
        return self.counts.scopes.sums(images, prompt_axis=-1) >= FEWEST_IMAGES_FOR_PERCENTILES

    def _images(self, name: str, scores: ScoreTable, index: int) -> FloatArray:
        """1 / the step that one image makes in a metric, on the scale of its range: `[detector, ...]`."""
        if is_share(name):
            return np.asarray(scores.n[..., index] * (2.0 if name == "f1" else 1.0), dtype=np.float64)
        if name.endswith("_actual"):
            human = self.counts.human[..., : len(self.counts.attribute.classes)].sum(axis=-1)
            clear = np.broadcast_to(self.counts.scopes.sums(human, prompt_axis=-1), scores.value.shape[:-1])
        else:
            clear = scores.value[..., scores.metrics.index("images_clear")]
        classes = len(self.counts.attribute.classes)
        step = 1.0 if name == PROMPT_DIFFERENCE else (classes - 1) / classes
        return np.asarray(clear * step, dtype=np.float64)

    def _of_deviation(self, scores: ScoreTable, scatter: Scatter) -> Interval:
        """From the intervals of both scores, which stand in the table already."""
        names = ("model_bias_score", "model_bias_score_actual")
        places = [scores.metrics.index(name) for name in names]
        of_both = [
            Interval(*(np.moveaxis(limits[..., place], 0, -1) for limits in (scores.ci_low, scores.ci_high)))
            for place in places
        ]
        ratio = interval_of_ratio(
            *(scatter.values[name] for name in names),
            of_numerator=of_both[0],
            of_denominator=of_both[1],
            correlation=correlation_of(*(scatter.resampled[name] for name in names)),
        )
        return Interval(ratio.low - 1, ratio.high - 1)

    def _of_corrected(self, name: str, scores: ScoreTable, index: int, scatter: Scatter) -> Interval:
        """A standard error, since the score leaves its bounds where prompts have few images.

        There it jumps, too: prompts of 5, 4 and 3 of 5 have 1, 1.17 and -0.68. Whether a jump is among a few
        prompts is chance, so drawing prompts says nothing then.
        """
        interval = scatter.by_standard_error(name)
        if self.settings.unit == "image":
            return interval
        clear = scores.value[..., scores.metrics.index("images_clear")]
        enough = np.moveaxis(divide(clear, scores.n[..., index]) >= FEWEST_CLEAR_IMAGES, 0, -1)
        return Interval(*(np.where(enough, limit, np.nan) for limit in interval))

    def _of_shares(self, scores: ScoreTable) -> ScoreTable:
        """Wilson's intervals, which need no resamples; not for drawn prompts, whose scatter they do not know."""
        if self.settings.method != "none" and self.settings.unit == "image":
            for index, name in enumerate(scores.metrics):
                if is_share(name):
                    self._write(scores, index, self._wilson(name, scores.value[..., index], scores.n[..., index]))
                elif name == MEAN_OF_SHARES:
                    self._write(scores, index, self._of_balanced_accuracy(scores))
        return scores

    def _of_prompt_bias_error(self) -> Interval:
        """Found without resamples, which would have to estimate a variance each."""
        return prompt_bias_error_interval(
            self.counts.verdicts,
            n_clear=self.n_clear,
            scopes=self.counts.scopes,
            level=self.settings.level,
            unit=self.settings.unit,
        )

    def _widen_for_bias(self, scores: ScoreTable, index: int) -> None:
        """Resamples know the scatter of a corrected score, not what its correction leaves."""
        bias = model_bias_score_error_bias(self.counts.verdicts, scopes=self.counts.scopes)
        info = metric_info(scores.metrics[index])
        low, high = scores.ci_low[..., index] - bias, scores.ci_high[..., index] + bias
        self._write(scores, index, Interval(*(np.clip(each, info.lowest, info.highest) for each in (low, high))))

    def _of_balanced_accuracy(self, scores: ScoreTable) -> Interval:
        """From the intervals of the classes' accuracies, which stand in the table already."""
        classes = [place for place, name in enumerate(scores.metrics) if name.startswith(MEAN_OF_SHARES_PREFIX)]
        limits = Interval(scores.ci_low[..., classes], scores.ci_high[..., classes])
        return interval_of_mean(scores.value[..., classes], limits)

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

    @staticmethod
    def _within_range(name: str, interval: Interval, value: FloatArray) -> Interval:
        info = metric_info(name)
        low, high = (np.clip(limit, info.lowest, info.highest) for limit in interval)
        there = ~np.isnan(value) & (low < high)
        return Interval(np.where(there, low, np.nan), np.where(there, high, np.nan))

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
        images = self.counts.human.sum(axis=-1)
        spread = stretching(images, own_weight(images) ** 2)[at]
        clear = scores.value[..., scores.metrics.index("images_clear")]
        for index, name in enumerate(scores.metrics):
            value, n = scores.value[..., index], scores.n[..., index]
            drawn_name = name.removesuffix("_actual")
            if is_share(name):
                interval = self._wilson(name, value, n)
            elif drawn_name in self.resampled.prompts:
                chosen = slice(0, 1) if name.endswith("_actual") else judges
                drawn = self.resampled.prompts[drawn_name][rows, chosen]
                drawn = np.where((rows >= 0)[:, np.newaxis, np.newaxis], drawn, np.nan).swapaxes(0, 1)
                every = np.ones_like(value, dtype=bool)
                scatter = Scatter({name: drawn}, {name: value}, spread, "image", self.settings.level, every)
                if name == PROMPT_DIFFERENCE:
                    interval = scatter.by_score(name, metric_info(name), images=clear)
                else:
                    interval = self._of_signed_score(scatter, name, n, own=(n == clear) | name.endswith("_actual"))
                interval = self._within_range(name, interval, value)
            else:
                continue
            self._write(scores, index, interval)
        return scores

    def _of_signed_score(self, scatter: Scatter, name: str, n: CountArray, *, own: NDArray[np.bool_]) -> Interval:
        """Of single prompts: a score over the judge's `own` clear images is a share on another scale."""
        share = self._wilson(name, (scatter.values[name] + 1) / 2, n)
        drawn = scatter.by_standard_error(name)
        return Interval(*(np.where(own, 2 * one - 1, other) for one, other in zip(share, drawn, strict=True)))

    @staticmethod
    def _write(scores: ScoreTable, index: int, interval: Interval, *, axis: int | None = None) -> None:
        low, high = interval if axis is None else (np.moveaxis(limit, -1, axis) for limit in interval)
        scores.ci_low[..., index] = low
        scores.ci_high[..., index] = high
