"""How resamples become the limits of one metric, by each of the methods."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from detector_bench.metrics import MetricInfo
from detector_bench.metrics.bootstrap import Unit, sampling_distribution
from detector_bench.metrics.counts import FloatArray
from detector_bench.metrics.intervals import (
    ENOUGH_FOR_PERCENTILES,
    Interval,
    bca_interval,
    percentile_interval,
    score_interval,
    standard_error_interval,
    stretched,
)

Method: TypeAlias = Literal["score", "percentile", "bca", "none"]


@dataclass(frozen=True)
class Scatter:
    """The resamples of every metric, and how far they fall short of the scatter from study to study."""

    resampled: Mapping[str, FloatArray]
    """By metric, `[..., resample]`, as drawn."""
    values: Mapping[str, FloatArray]
    """By metric, `[...]`."""
    spread: FloatArray
    """See `spread_factors`; broadcasts against `[...]`."""
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
