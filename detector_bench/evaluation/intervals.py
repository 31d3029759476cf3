"""Fills the confidence intervals of a metric table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from detector_bench.errors import ConfigError
from detector_bench.evaluation.counting import Counts
from detector_bench.evaluation.scores import PromptCells, ScoreTable
from detector_bench.metrics import METRICS, MetricInfo, NClear, human_as_detector
from detector_bench.metrics.bootstrap import (
    Method,
    Resampled,
    Scatter,
    Unit,
    leave_one_prompt_out,
    resample,
    spread_factors,
)
from detector_bench.metrics.counts import CountArray, FloatArray, divide
from detector_bench.metrics.influence import acceleration_of_images, acceleration_of_prompts
from detector_bench.metrics.intervals import (
    Interval,
    correlation_of,
    interval_of_mean,
    interval_of_ratio,
    stretching,
    wilson_interval,
    wilson_interval_of_f1,
)
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


class _OneMetric(NamedTuple):
    """One column of scores."""

    info: MetricInfo
    key: str
    """How `metrics.bootstrap` calls it: classes and labels by number."""
    word: int | None
    """Which class or label."""

    @property
    def is_share(self) -> bool:
        """Whether it is a share of images; F1 counts as one: it is a function of TP / (TP + FP + FN)."""
        return self.info.form in ("share", "f1")

    def of_images(self, counts: CountArray) -> FloatArray:
        """The values, from counts `[..., truth, verdict]`."""
        value = self.info.prompt_scores(counts, n_clear="detector").value
        return value if self.word is None else value[..., self.word]


@dataclass(frozen=True, slots=True)
class IntervalScores:
    """Puts intervals beside scores, each as `MetricInfo.form` says."""

    counts: Counts
    settings: Intervals
    resampled: Resampled | None
    """All metrics in every resample; None: there are no intervals."""
    without_one: Resampled | None
    """The metrics without each prompt, for BCa intervals over prompts."""
    n_clear: NClear

    @classmethod
    def of_counts(
        cls, counts: Counts, settings: Intervals, *, n_clear: NClear, drawn: Resampled | None = None
    ) -> IntervalScores:
        """Draw the resamples that the settings ask for; `drawn`: some metrics have been drawn, others get no
        interval."""
        joint = counts.joint
        resamples = settings.resamples_for(joint.images)
        if resamples == 0 or joint.images == 0:
            return cls(counts, settings, None, None, n_clear)
        resampled = drawn or resample(
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
            self._without_resamples(scores)
        if self.resampled is None:
            return self._of_shares(scores)
        without_one = self.without_one.detectors if self.without_one else {}
        found = self._of_scopes(scores, self.resampled.detectors, without_one, self.counts.verdicts)
        self._widen_for_bias(found)
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
        known = self._known(scores)
        keys = [name if each is None else each.key for name, each in zip(scores.metrics, known, strict=True)]
        values = {key: np.moveaxis(scores.value[..., index], 0, -1) for index, key in enumerate(keys)}
        spread = spread_factors(self.counts.joint, unit=self.settings.unit)[..., np.newaxis]
        enough = self.enough_for_percentiles()[..., np.newaxis]
        scatter = Scatter(resampled, values, spread, self.settings.unit, self.settings.level, enough)
        for index, (each, key) in enumerate(zip(known, keys, strict=True)):
            if each is None:
                continue
            if each.info.form == "mean of shares":
                self._write(scores, index, self._of_mean(each, scores))
            elif key in resampled and self.settings.method == "score":
                if each.info.form == "ratio":
                    interval = self._of_ratio(each, scores, scatter)
                elif each.info.form == "standard error":
                    interval = self._of_unbounded(each, scores, index, scatter)
                else:
                    images = np.moveaxis(self._images(each, scores, index), 0, -1)
                    interval = scatter.by_score(key, each.info, images=images)
                self._write(scores, index, self._within_range(each, interval, values[key]), axis=0)
            elif key in resampled:
                acceleration = self._acceleration(each, without_one.get(key), verdicts)
                interval = scatter.by_percentiles(key, acceleration=acceleration)
                n = np.moveaxis(scores.n[..., index], 0, -1)
                self._write(scores, index, self._finished(each, interval, values[key], n), axis=0)
        return scores

    def _known(self, scores: ScoreTable) -> list[_OneMetric | None]:
        """What each column is; None for what is not computed from counts alone."""
        attribute = self.counts.attribute
        found = {}
        for info in (each for each in METRICS.values() if each.function is not None):
            for index, word in enumerate(info.words(attribute)):
                found[info.called(word)] = _OneMetric(info, info.called(str(index)), index)
            found[info.name] = _OneMetric(info, info.name, None)
        return [found.get(name) for name in scores.metrics]

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

    def _images(self, each: _OneMetric, scores: ScoreTable, index: int) -> FloatArray:
        """1 / the step that one image makes in a metric, on the scale of its range: `[detector, ...]`."""
        if each.is_share or each.info.over == "images":
            return np.asarray(scores.n[..., index] * (2.0 if each.info.form == "f1" else 1.0), dtype=np.float64)
        classes = len(self.counts.attribute.classes)
        if each.info.actual_of:
            human = self.counts.human[..., :classes].sum(axis=-1)
            clear = np.broadcast_to(self.counts.scopes.sums(human, prompt_axis=-1), scores.value.shape[:-1])
        else:
            clear = scores.value[..., scores.metrics.index("images_clear")]
        step = (classes - 1) / classes if each.info.form == "concentration" else 1.0
        return np.asarray(clear * step, dtype=np.float64)

    def _of_ratio(self, each: _OneMetric, scores: ScoreTable, scatter: Scatter) -> Interval:
        """From the intervals of both scores, which stand in the table already."""
        names = each.info.made_of
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

    def _of_unbounded(self, each: _OneMetric, scores: ScoreTable, index: int, scatter: Scatter) -> Interval:
        """A standard error, as of corrected scores, which leave their bounds where prompts have few images.

        There they jump, too: prompts of 5, 4 and 3 of 5 have 1, 1.17 and -0.68. Whether a jump is among a few
        prompts is chance, so drawing prompts says nothing then.
        """
        interval = scatter.by_standard_error(each.key)
        if self.settings.unit == "image" or each.info.over == "images" or each.info.is_mean_of_terms:
            return interval
        clear = scores.value[..., scores.metrics.index("images_clear")]
        enough = np.moveaxis(divide(clear, scores.n[..., index]) >= FEWEST_CLEAR_IMAGES, 0, -1)
        return Interval(*(np.where(enough, limit, np.nan) for limit in interval))

    def _of_shares(self, scores: ScoreTable) -> ScoreTable:
        """Wilson's intervals, which need no resamples; not for drawn prompts, whose scatter they do not know."""
        if self.settings.method != "none" and self.settings.unit == "image":
            for index, each in enumerate(self._known(scores)):
                if each is not None and each.is_share:
                    self._write(scores, index, self._wilson(each, scores.value[..., index], scores.n[..., index]))
                elif each is not None and each.info.form == "mean of shares":
                    self._write(scores, index, self._of_mean(each, scores))
        return scores

    def _without_resamples(self, scores: ScoreTable) -> None:
        """Intervals of metrics that bring their own, since resamples would have to estimate a variance each."""
        for index, each in enumerate(self._known(scores)):
            if each is not None and (own := each.info.own_interval) is not None:
                settings, counts = self.settings, self.counts
                interval = own(
                    counts.verdicts,
                    n_clear=self.n_clear,
                    scopes=counts.scopes,
                    level=settings.level,
                    unit=settings.unit,
                )
                self._write(scores, index, interval)

    def _widen_for_bias(self, scores: ScoreTable) -> None:
        """Resamples know the scatter of a corrected score, not what its correction leaves."""
        for index, each in enumerate(self._known(scores)):
            if each is not None and (own := each.info.own_bias) is not None:
                bias = own(self.counts.verdicts, scopes=self.counts.scopes)
                low, high = scores.ci_low[..., index] - bias, scores.ci_high[..., index] + bias
                limits = (np.clip(limit, each.info.lowest, each.info.highest) for limit in (low, high))
                self._write(scores, index, Interval(*limits))

    def _of_mean(self, each: _OneMetric, scores: ScoreTable) -> Interval:
        """From the intervals of the shares that it is the mean of, which stand in the table already."""
        names = [
            METRICS[name].called(word) for name in each.info.made_of for word in self.counts.attribute.classes
        ]
        shares = [scores.metrics.index(name) for name in names]
        limits = Interval(scores.ci_low[..., shares], scores.ci_high[..., shares])
        return interval_of_mean(scores.value[..., shares], limits)

    def _wilson(self, each: _OneMetric, value: FloatArray, n: CountArray) -> Interval:
        find = wilson_interval_of_f1 if each.info.form == "f1" else wilson_interval
        return find(value, n, level=self.settings.level)

    def _acceleration(
        self, each: _OneMetric, without_one: FloatArray | None, verdicts: CountArray
    ) -> FloatArray | None:
        """None where there is none to be had, and the interval is no BCa interval."""
        if self.settings.method != "bca":
            return None
        if without_one is not None:
            return acceleration_of_prompts(without_one, scopes=self.counts.scopes)
        if each.info.over != "images":
            return None
        return acceleration_of_images(verdicts, each.of_images, scopes=self.counts.scopes)

    @staticmethod
    def _within_range(each: _OneMetric, interval: Interval, value: FloatArray) -> Interval:
        low, high = (np.clip(limit, each.info.lowest, each.info.highest) for limit in interval)
        there = ~np.isnan(value) & (low < high)
        return Interval(np.where(there, low, np.nan), np.where(there, high, np.nan))

    def _finished(self, each: _OneMetric, interval: Interval, value: FloatArray, n: CountArray) -> Interval:
        """Wilson's interval for shares of 0 and 1, which no resample can leave; limits within the metric's
        range."""
        low, high = (np.clip(limit, each.info.lowest, each.info.highest) for limit in interval)
        if each.is_share:
            edge = (value == 0) | (value == 1)
            at_edge = self._wilson(each, value, n)
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
        for index, (name, each) in enumerate(zip(scores.metrics, self._known(scores), strict=True)):
            if each is None:
                continue
            value, n, info = scores.value[..., index], scores.n[..., index], each.info
            drawn_name = info.actual_of or each.key
            if each.is_share:
                interval = self._wilson(each, value, n)
            elif drawn_name in self.resampled.prompts:
                chosen = slice(0, 1) if info.actual_of else judges
                drawn = self.resampled.prompts[drawn_name][rows, chosen]
                drawn = np.where((rows >= 0)[:, np.newaxis, np.newaxis], drawn, np.nan).swapaxes(0, 1)
                every = np.ones_like(value, dtype=bool)
                scatter = Scatter({name: drawn}, {name: value}, spread, "image", self.settings.level, every)
                if info.form == "signed":
                    interval = self._of_signed_score(
                        scatter, each, name, n, own=(n == clear) | bool(info.actual_of)
                    )
                elif info.form == "distance":
                    images = n if info.over == "images" else clear
                    interval = scatter.by_score(name, info, images=np.asarray(images, dtype=np.float64))
                else:
                    interval = scatter.by_standard_error(name)
                interval = self._within_range(each, interval, value)
            else:
                continue
            self._write(scores, index, interval)
        return scores

    def _of_signed_score(
        self, scatter: Scatter, each: _OneMetric, name: str, n: CountArray, *, own: NDArray[np.bool_]
    ) -> Interval:
        """Of single prompts: a score over the judge's `own` clear images is a share on another scale."""
        share = self._wilson(each, (scatter.values[name] + 1) / 2, n)
        drawn = scatter.by_standard_error(name)
        return Interval(*(np.where(own, 2 * one - 1, other) for one, other in zip(share, drawn, strict=True)))

    @staticmethod
    def _write(scores: ScoreTable, index: int, interval: Interval, *, axis: int | None = None) -> None:
        low, high = interval if axis is None else (np.moveaxis(limit, -1, axis) for limit in interval)
        scores.ci_low[..., index] = low
        scores.ci_high[..., index] = high
