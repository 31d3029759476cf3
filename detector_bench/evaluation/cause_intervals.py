"""Confidence intervals of causes: images are drawn with replacement within every prompt of every T2I model."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from detector_bench.metrics.counts import CountArray, FloatArray

_RESAMPLES_PER_BLOCK = 100


@dataclass(frozen=True, slots=True)
class CauseIntervals:
    """How the intervals are found."""

    resamples: int = 1_000
    """0: no intervals."""
    level: float = 0.95
    seed: int = 0

    def around(self, value: FloatArray, resampled: FloatArray, *, centred: bool) -> tuple[FloatArray, FloatArray]:
        """The middle part of the resamples in which there is a number.

        Args:
            value: `[...]`.
            resampled: `[resample, ...]`.
            centred: move the limits so that the resamples' mean lies on the value. Right for means of distances:
                drawing images again adds chance to every distance, so all resamples lie too high.

        Returns:
            Lower and upper limits, `[...]`; NaN where there is no number, or where all resamples agree: they say
            nothing about the doubt then.
        """
        with warnings.catch_warnings(category=RuntimeWarning, action="ignore"):  # nothing but NaN gives NaN
            low, high = np.nanquantile(resampled, [(1 - self.level) / 2, (1 + self.level) / 2], axis=0)
            shift = value - np.nanmean(resampled, axis=0) if centred else np.zeros_like(value)
        agree = ~(low < high) | np.isnan(value)
        return np.where(agree, np.nan, low + shift), np.where(agree, np.nan, high + shift)


def resampled_counts(
    counts: CountArray, filtered_classes: CountArray, *, settings: CauseIntervals
) -> Iterator[tuple[CountArray, CountArray]]:
    """Draw counts of as many images as there are, multinomially within every prompt of every T2I model.

    Args:
        counts: `[t2i_model, prompt, truth, verdict]`.
        filtered_classes: which of the filtered images have a class all the same, `[t2i_model, prompt, K, K]`.
        settings: how many resamples, and the seed.

    Yields:
        Both with a resample axis first, in blocks.
    """
    classes, labels = filtered_classes.shape[-1], counts.shape[-1]
    # Verdicts, and behind them "filtered, but named": so both are drawn together.
    cells = np.zeros((*counts.shape[:-1], labels + classes), dtype=np.int64)
    cells[..., :labels] = counts
    cells[..., :classes, classes] -= filtered_classes.sum(axis=-1)
    cells[..., :classes, labels:] = filtered_classes
    flat = cells.reshape(*counts.shape[:2], -1)
    images = flat.sum(axis=-1)
    share = flat / np.maximum(images, 1)[..., np.newaxis]
    share[images == 0, 0] = 1  # nothing is drawn there, from any distribution
    stream = np.random.default_rng(settings.seed)
    for start in range(0, settings.resamples, _RESAMPLES_PER_BLOCK):
        size = min(_RESAMPLES_PER_BLOCK, settings.resamples - start)
        drawn = stream.multinomial(images, share, size=(size, *images.shape)).reshape(size, *cells.shape)
        named = drawn[..., :classes, labels:]
        verdicts = drawn[..., :labels].copy()
        verdicts[..., :classes, classes] += named.sum(axis=-1)
        yield _truth_and_verdict_first(verdicts), _truth_and_verdict_first(named)


def _truth_and_verdict_first(counts: CountArray) -> CountArray:
    """The same array, in memory so that adding up truths or verdicts runs over long rows, not four numbers."""
    return np.moveaxis(np.ascontiguousarray(np.moveaxis(counts, (-2, -1), (0, 1))), (0, 1), (-2, -1))


def resampled_values(
    measure: Callable[[CountArray, CountArray], FloatArray],
    counts: CountArray,
    filtered_classes: CountArray,
    *,
    settings: CauseIntervals,
) -> FloatArray:
    """A measure of every resample: `[resample, ...]`.

    Args:
        measure: from counts and filtered classes with a resample axis first to its values.
        counts: as for `resampled_counts`.
        filtered_classes: as for `resampled_counts`.
        settings: one resample at least.
    """
    blocks = resampled_counts(counts, filtered_classes, settings=settings)
    return np.concatenate([measure(drawn, named) for drawn, named in blocks])
