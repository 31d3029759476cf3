"""Counts of prompts with many images: normally distributed in place of drawn image by image.

They have the multinomial distribution's mean and covariance, jointly over detectors and over what is counted, and
are cut at 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from detector_bench.metrics.counts import CountArray, FloatArray

_SMALL_VARIANCE = 1e-10
_Floats = NDArray[np.float32]


class Moments(NamedTuple):
    """Moments of the resamples of some pairs of T2I model and prompt; see `resampling.Resampler` for what is
    counted."""

    mean: CountArray
    """Mean of each feature's count, `[pair, feature]`."""
    kinds_mean: CountArray
    """Mean of each kind's count, `[pair, kind]`."""
    covariance: CountArray
    """Covariance of the features, `[pair, feature, feature]`."""
    crossed: CountArray
    """Covariance of features with kinds, `[pair, feature, kind]`."""
    kinds_covariance: CountArray
    """Of the kinds over all of these pairs, `[kind, kind]`."""
    codes_mean: CountArray
    """Mean of each code's count, `[pair, detector, code]`."""
    codes_covariance: CountArray
    """Covariance of a detector's codes, `[pair, detector, code, code]`."""
    codes_crossed: CountArray
    """Covariance of codes with features, `[pair, detector, code, feature]`."""

    @classmethod
    def of_images(cls, features: _Floats, kinds: _Floats, codes: _Floats, *, pairs: int) -> Self:
        """Of pairs with equally many images.

        Args:
            features: indicators `[image, feature]`, the images of one pair after those of the other.
            kinds: indicators `[image, kind]`.
            codes: indicators `[image, detector, code]`.
            pairs: how many.
        """
        images = len(features) // pairs
        by_pair = features.reshape(pairs, images, -1)
        kinds_by_pair = kinds.reshape(pairs, images, -1)
        # Sums of ones are exact in float32 up to 16 million images.
        one = np.ones((1, images), dtype=np.float32)
        mean, kinds_mean = ((one @ each)[:, 0].astype(np.float64) for each in (by_pair, kinds_by_pair))
        transposed = np.ascontiguousarray(by_pair.swapaxes(1, 2))
        by_code = codes.reshape(pairs, images, *codes.shape[1:]).transpose(0, 2, 3, 1)
        codes_mean = by_code.sum(axis=-1, dtype=np.float64)
        of_codes = codes_mean[..., np.newaxis]
        return cls(
            mean,
            kinds_mean,
            transposed @ by_pair - mean[:, :, np.newaxis] * mean[:, np.newaxis] / images,
            transposed @ kinds_by_pair - mean[:, :, np.newaxis] * kinds_mean[:, np.newaxis] / images,
            kinds.T @ kinds - kinds_mean.T @ kinds_mean / images,
            codes_mean,
            by_code @ by_code.swapaxes(-1, -2) - of_codes * codes_mean[..., np.newaxis, :] / images,
            by_code @ by_pair[:, np.newaxis] - of_codes * mean[:, np.newaxis, np.newaxis] / images,
        )


@dataclass(frozen=True, slots=True)
class NormalCounts:
    """Pairs of T2I model and prompt whose counts are normally distributed."""

    mean: _Floats
    """Mean of each feature's count, `[pair, feature]`."""
    factors: _Floats
    """Of their covariance, `[pair, feature, feature]`."""
    kinds_mean: _Floats
    """Mean of each kind's count in all pairs together, `[kind]`."""
    along: _Floats
    """What each factor adds to the kinds, `[pair x feature, kind]`."""
    rest: _Floats
    """Factor of the covariance of the kinds that the features do not explain, `[kind, kind]`."""
    codes_mean: _Floats
    """Mean of each code's count, `[pair, detector, code]`."""
    codes_along: _Floats
    """What each factor of the features adds to the codes, `[pair, detector, code, feature]`."""
    codes_rest: _Floats
    """Factors of the covariance of a detector's codes that the features do not explain, `[pair, detector, code,
    code]`: each detector's by themselves, as causes look at one detector."""

    @classmethod
    def of_moments(cls, parts: Sequence[Moments]) -> Self:
        """Put the pairs of several sizes together."""
        kinds_covariance = np.sum([each.kinds_covariance for each in parts], axis=0)
        joined = Moments(*(np.concatenate(each) for each in zip(*parts, strict=True)))
        factors = _factors(joined.covariance)
        # The part of the kinds, and of the codes, that goes along with each independent direction of the features.
        directions = np.linalg.inv(factors)
        along = (directions @ joined.crossed).reshape(-1, joined.crossed.shape[-1])
        codes_along = joined.codes_crossed @ directions.swapaxes(-1, -2)[:, np.newaxis]
        codes_rest = joined.codes_covariance - codes_along @ codes_along.swapaxes(-1, -2)
        arrays = (
            joined.mean,
            factors,
            joined.kinds_mean.sum(axis=0),
            along,
            _factors(kinds_covariance - along.T @ along),
            joined.codes_mean,
            codes_along,
            _factors(codes_rest) if codes_rest.size else codes_rest,
        )
        return cls(*(array.astype(np.float32) for array in arrays))

    def drawn(
        self, stream: np.random.Generator, code_stream: np.random.Generator, *, resamples: int
    ) -> tuple[_Floats, _Floats]:
        """Counts of features, codes behind them, `[pair, feature, resample]`, and of kinds `[kind, resample]`."""
        directions = stream.standard_normal((*self.mean.shape, resamples), dtype=np.float32)
        counts = self.mean[..., np.newaxis] + self.factors @ directions
        kinds = self.along.T @ directions.reshape(-1, resamples)
        kinds += self.rest @ stream.standard_normal((len(self.rest), resamples), dtype=np.float32)
        kinds += self.kinds_mean[:, np.newaxis]
        if self.codes_along.size:
            rest = code_stream.standard_normal((*self.codes_mean.shape, resamples), dtype=np.float32)
            codes = self.codes_mean[..., np.newaxis] + self.codes_along @ directions[:, np.newaxis]
            codes += self.codes_rest @ rest
            counts = np.concatenate([counts, codes.reshape(len(counts), -1, resamples)], axis=1)
        return np.maximum(counts, 0, out=counts), kinds


def _factors(covariances: FloatArray) -> FloatArray:
    """F with F F^T = covariance, which is singular where kinds never vary or depend on others."""
    size = covariances.shape[-1]
    scale = np.trace(covariances, axis1=-2, axis2=-1)[..., np.newaxis, np.newaxis] / size
    least = _SMALL_VARIANCE * scale + _SMALL_VARIANCE**2
    try:
        return np.linalg.cholesky(covariances + least * np.eye(size))
    except np.linalg.LinAlgError:
        # Many classes and detectors: differences of large sums leave directions with a variance just below 0.
        variances, directions = np.linalg.eigh(covariances)
        factors: FloatArray = directions * np.sqrt(np.maximum(variances, least[..., 0]))[..., np.newaxis, :]
        return factors
