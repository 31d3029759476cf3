"""Metrics that ask for every cell of the counts, or for those of single prompts, in resamples.

What is resampled for all metrics is laid out for speed: `image_kinds.Kinds` drops what no built-in metric over
images asks for, and `bias_terms.BiasTerms` knows the means over prompts by name. A metric of somebody else's may
ask for anything, so the cell (truth, verdict) of each image is counted beside them, pair by pair, as `Resampler`
counts codes: all else is drawn as it would be without. A plain function of each resample's counts takes more
time than the fast layout, in proportion to the number of such metrics.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from detector_bench.metrics.bias import SIGNED_CLASSES
from detector_bench.metrics.catalogue import METRICS, MetricInfo, NClear
from detector_bench.metrics.counts import CountArray, FloatArray, Score, divide
from detector_bench.metrics.joint_verdicts import JointVerdicts

_Values = dict[str, FloatArray]


class CellMetrics:
    """Metrics of one attribute that are resampled cell by cell, beside the fast layout.

    Args:
        joint: truth and verdicts.
        n_clear: for metrics that ask for it.
    """

    def __init__(self, joint: JointVerdicts, *, n_clear: NClear) -> None:
        self._joint, self._n_clear = joint, n_clear
        self._labels = joint.classes + 2
        self._infos = [
            each
            for each in resampled_metrics(joint.classes)
            if each.is_mean_of_terms or (each.over == "images" and asks_every_cell(each))
        ]

    @property
    def codes(self) -> NDArray[np.int16] | None:
        """The cell of every image for each detector, `[detector, image]`; None where no metric asks for it."""
        if not self._infos or not self._joint.detectors:
            return None
        return self._joint.truth.astype(np.int16) * self._labels + self._joint.verdicts

    def over_scopes(self, codes: CountArray | None, add_up: Callable[[CountArray], CountArray]) -> _Values:
        """The metrics of every scope, `[1 + T2I models, 1 + categories, detector, resample]`.

        Args:
            codes: images of each code, `[pair, detector, code, ...]`; None: there is no such metric.
            add_up: from `[pair, ...]` to sums over scopes, the axis `resample` last.
        """
        found: _Values = {}
        if codes is None:
            return found
        for info in self._infos:
            counts = self._cells(codes, axis=2) if info.is_mean_of_terms else self._cells(add_up(codes), axis=3)
            score = info.prompt_scores(counts, n_clear=self._n_clear)
            if info.is_mean_of_terms:
                defined = ~np.isnan(score.value)
                mean = divide(add_up(np.nan_to_num(score.value)), add_up(defined.astype(np.float64)))
                score = score._replace(value=mean)
            found |= values_by_number(info, score)
        return found

    def of_prompts(self, codes: CountArray | None) -> _Values:
        """The metrics of single prompts, `[pair, 1 + detector, resample]`; of the human, who comes first, NaN."""
        if codes is None:
            return {}
        single, found = self._cells(codes, axis=2), dict[str, FloatArray]()
        for info in (each for each in self._infos if "prompts" in each.rows):
            found |= values_by_number(info, info.prompt_scores(single, n_clear=self._n_clear))
        return {
            name: np.concatenate([np.full_like(each[:, :1], np.nan), each], axis=1) for name, each in found.items()
        }

    def _cells(self, codes: CountArray, *, axis: int) -> CountArray:
        """Count arrays `[..., truth, verdict]` of the axis `code`, whose last codes may be missing."""
        last = np.moveaxis(codes, axis, -1)
        counts = np.zeros((*last.shape[:-1], self._labels**2), dtype=codes.dtype)
        counts[..., : last.shape[-1]] = last
        return counts.reshape(*last.shape[:-1], self._labels, self._labels)


def resampled_metrics(classes: int) -> list[MetricInfo]:
    """The functions of counts that stand in a metric table with an interval."""
    return [
        each
        for each in METRICS.values()
        if each.function is not None
        and "scopes" in each.rows
        and not each.no_interval
        and (classes == SIGNED_CLASSES or not each.two_classes)
    ]


def values_by_number(info: MetricInfo, score: Score) -> _Values:
    """The values by name, those of classes with their number in place of the class."""
    numbers = [str(index) for index in range(score.value.shape[-1])] if "<" in info.name else []
    return {name: each.value for name, each in info.named(score, numbers)}


@lru_cache
def asks_every_cell(info: MetricInfo) -> bool:
    """Whether a metric over images is another without what `Kinds` leaves out; always of somebody else's."""
    assert info.function is not None  # noqa: S101 - asked of functions of counts alone
    if not info.function.__module__.startswith("detector_bench."):
        return True
    counts = np.arange(25.0).reshape(5, 5) % 7
    fewer = counts.copy()
    fewer[-1], fewer[:, -1] = 0, 0
    fewer[-2, :3] = [counts[-2, :3].sum(), 0, 0]
    whole, without = (info.prompt_scores(each, n_clear="detector").value for each in (counts, fewer))
    return not np.array_equal(whole, without, equal_nan=True)
