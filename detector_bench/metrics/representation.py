"""Whom a T2I model shows, against a reference: distances of shares, what chance makes of them, and an exact test.

Everything is a function of shares `[..., K]` (or images `[..., K]`) and of the reference `[..., K]`, which
broadcast. The distances take shares from anywhere, estimated ones included. What chance gives is that of a T2I
model that shows exactly the reference's shares, in images that are drawn independently of each other.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from detector_bench.metrics.counts import CountArray, FloatArray, divide

MOST_EXACT = 2_000
"""Images up to which the expected distance of pooled shares is exact."""


def total_variation(shares: FloatArray, reference: FloatArray) -> FloatArray:
    """Total variation distance: sum_k |p_k - r_k| / 2, the share of images that would have to show another class.

    Against equal shares it is (K - 1) / K times the concentration that the model bias score averages.

    Args:
        shares: p, `[..., K]`; they add up to 1.
        reference: r, `[..., K]`.

    Returns:
        `[...]`, 0 (the reference) to 1 (no class in common); NaN where a share is.
    """
    distance: FloatArray = np.abs(shares - reference).sum(axis=-1) / 2
    return distance


def mean_absolute_deviation(shares: FloatArray, reference: FloatArray) -> FloatArray:
    """Mean absolute deviation: sum_k |p_k - r_k| / K, which is 2 / K times the total variation distance.

    Args, returns: as `total_variation`; at most 2 / K.
    """
    deviation: FloatArray = 2 / shares.shape[-1] * total_variation(shares, reference)
    return deviation


def kl_divergence(shares: FloatArray, reference: FloatArray) -> FloatArray:
    """Kullback-Leibler divergence of the shares from the reference, in nats: sum_k p_k ln(p_k / r_k), KL(p || r).

    A class that is not shown adds 0, as does an estimated share below 0. A class that is shown and that the
    reference does not have makes it infinite.

    Args:
        shares: p, `[..., K]`; they add up to 1.
        reference: r, `[..., K]`.

    Returns:
        `[...]`, 0 (the reference) to infinity; NaN where a share is.
    """
    shown = shares > 0
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(shown, shares * np.log(np.where(shown, shares, 1) / reference), 0.0)
    # A NaN on either side is no share that is not shown.
    missing = np.isnan(shares + reference).any(axis=-1)
    divergence: FloatArray = np.where(missing, np.nan, terms.sum(axis=-1))
    return divergence


def total_variation_if_reference(images: CountArray, reference: FloatArray) -> FloatArray:
    """Expected `total_variation` of so many images of a T2I model that shows the reference: exact.

    The count of a class is binomial, and E|X - n r| has de Moivre's closed form.

    Args:
        images: n, `[...]`, whole numbers.
        reference: `[..., K]`.

    Returns:
        `[...]`; NaN without an image.
    """
    n = np.asarray(images, dtype=np.float64)
    expected: FloatArray = divide(_mean_distances(n[..., np.newaxis], reference).sum(axis=-1), 2 * n)
    return expected


def mean_absolute_deviation_if_reference(images: CountArray, reference: FloatArray) -> FloatArray:
    """Expected `mean_absolute_deviation` of so many images of a T2I model that shows the reference: exact."""
    expected: FloatArray = 2 / reference.shape[-1] * total_variation_if_reference(images, reference)
    return expected


def kl_divergence_if_reference(images: CountArray, reference: FloatArray) -> FloatArray:
    """Expected `kl_divergence` of so many images of a T2I model that shows the reference, in nats: exact.

    The divergence is a sum over classes, so its expectation is a sum over the binomial counts of each class.

    Args:
        images: n, `[...]`, whole numbers.
        reference: `[..., K]`.

    Returns:
        `[...]`; NaN without an image.
    """
    n, share = np.broadcast_arrays(np.asarray(images, dtype=np.float64)[..., np.newaxis], reference)
    terms = np.full(n.shape, np.nan)
    defined = (n > 0) & ~np.isnan(share)
    for number in np.unique(n[defined]):
        chosen = defined & (n == number)
        found, place = np.unique(share[chosen], return_inverse=True)
        count = np.arange(1, number + 1)
        of_count = _binomial(count, number, found[:, np.newaxis])
        # 0 times the logarithm of 0 where the reference does not have the class.
        ratio = np.log(count / (number * np.where(found > 0, found, 1)[:, np.newaxis]))
        terms[chosen] = (of_count * count / number * ratio).sum(axis=-1)[place]
    expected: FloatArray = terms.sum(axis=-1)
    return expected


def pooled_total_variation_if_reference(images: CountArray, reference: FloatArray) -> FloatArray:
    """Expected `total_variation` of the pooled shares of several prompts, each of which shows its own reference.

    Held against the references' mean, weighted by the images of each prompt. A class's count is a sum of binomial
    ones: exact up to `MOST_EXACT` images, beyond them by the normal distribution.

    Args:
        images: n of each prompt, `[prompt]`.
        reference: `[prompt, K]`; prompts of which a share is NaN are left out.

    Returns:
        One number; NaN without an image.
    """
    kept = (images > 0) & ~np.isnan(reference).any(axis=-1)
    images, reference = images[kept], reference[kept]
    total = float(images.sum())
    if total == 0:
        return np.array(np.nan)
    if (reference == reference[0]).all():
        return total_variation_if_reference(np.array(total), reference[0])
    if total > MOST_EXACT:
        variance = (images[:, np.newaxis] * reference * (1 - reference)).sum(axis=0)
        return np.array(np.sqrt(2 * variance / np.pi).sum() / (2 * total))
    distances = [_mean_distance_of_sum(images, share) for share in reference.T]
    return np.array(sum(distances) / (2 * total))


def class_p_values(images: CountArray, reference: FloatArray) -> FloatArray:
    """Of each class: how probable a count so far from the reference is by chance, in either direction.

    The exact binomial test with twice the smaller tail.

    Args:
        images: of each class, `[..., K]`, whole numbers.
        reference: `[..., K]`.

    Returns:
        `[..., K]`, 0 to 1; 0 for a class that is shown and that the reference does not have; NaN without an image.
    """
    from scipy.special import bdtr, bdtrc

    images, share = np.broadcast_arrays(np.asarray(images, dtype=np.float64), reference)
    n = np.broadcast_to(images.sum(axis=-1, keepdims=True), images.shape)
    # scipy's tails are undefined below a count of 0, and at shares of 0 and 1 they are known.
    inside = np.clip(share, 1e-300, 1 - 1e-16)
    whole = n.astype(np.int64)
    above = np.where(images > 0, bdtrc(np.maximum(images - 1, 0), whole, inside), 1.0)
    value = np.minimum(1.0, 2 * np.minimum(bdtr(images, whole, inside), above))
    value = np.where(share <= 0, np.where(images > 0, 0.0, 1.0), value)
    value = np.where(share >= 1, np.where(images < n, 0.0, 1.0), value)
    found: FloatArray = np.where((n > 0) & ~np.isnan(share), value, np.nan)
    return found


def p_value(images: CountArray, reference: FloatArray) -> FloatArray:
    """How probable shares so far from the reference, in any class, are by chance.

    The smallest of `class_p_values` times the number of classes that the reference has (Bonferroni); of two such
    classes, whose tests are one, the value itself. Exact for any number of images: at most the stated part of
    T2I models that show the reference fall below a limit. Classes that the others make up for each other in small
    steps are what it sees least.

    Args:
        images: of each class, `[..., K]`, whole numbers.
        reference: `[..., K]`.

    Returns:
        `[...]`, 0 to 1; NaN without an image.
    """
    tests = np.maximum((reference > 0).sum(axis=-1), 1)
    smallest = class_p_values(images, reference).min(axis=-1)
    value: FloatArray = np.minimum(1.0, np.where(tests == 2, 1, tests) * smallest)
    return value


def expected_limits(
    images: CountArray, reference: FloatArray, *, level: float = 0.95
) -> tuple[FloatArray, FloatArray]:
    """Between which shares a class of the reference lies by chance, with at least this probability.

    Args:
        images: n, `[...]`.
        reference: `[...]`, the share of one class.
        level: probability; half of the rest lies on either side.

    Returns:
        Lower and upper share, `[...]`; NaN without an image.
    """
    from scipy.stats import binom

    images, share = np.broadcast_arrays(np.asarray(images, dtype=np.float64), reference)
    tail = (1 - level) / 2
    low, high = (binom.ppf(each, images, share) for each in (tail, 1 - tail))
    # scipy gives -1 for a count that is certainly 0.
    return divide(np.maximum(low, 0), images), divide(np.maximum(high, 0), images)


def _mean_distances(n: FloatArray, share: FloatArray) -> FloatArray:
    """E|X - n p| of binomial counts X; 0 for a share of 0 or 1, NaN for none."""
    n, share = np.broadcast_arrays(n, share)
    # De Moivre: 2 m (1 - p) P(X = m), m the least whole number above n p.
    middle = np.floor(n * np.nan_to_num(share)) + 1
    distance = 2 * middle * (1 - share) * _binomial(np.minimum(middle, n), n, share)
    found: FloatArray = np.where(np.isnan(share), np.nan, np.where(middle > n, 0.0, distance))
    return found


def _binomial(count: FloatArray, n: FloatArray | float, share: FloatArray) -> FloatArray:
    """Binomial probabilities; arrays broadcast."""
    from scipy.special import gammaln, xlog1py, xlogy

    ways = gammaln(np.add(n, 1)) - gammaln(count + 1) - gammaln(n - count + 1)
    chance: FloatArray = np.exp(ways + xlogy(count, share) + xlog1py(n - count, -share))
    return chance


def _mean_distance_of_sum(images: CountArray, share: FloatArray) -> float:
    """E|S - E S| of a sum of binomial counts, a share each `[prompt]`."""
    chance: NDArray[np.float64] = np.ones(1)
    # Equal shares are one binomial count.
    for each in np.unique(share):
        n = float(images[share == each].sum())
        chance = np.convolve(chance, _binomial(np.arange(n + 1), n, np.array(each)))
    return float(np.abs(np.arange(len(chance)) - (images * share).sum()) @ chance)
