"""What asking for a class of one attribute does to the others: how many South Asian tennis players are women?

Source: BIGbench, section 4.3 (irrelevant protected attributes) and its Table 5, which has shares of one prompt.
The tests are ours. Arrays in, numbers out; axes before the named ones broadcast. What chance gives is what comes
if the images of a prompt and of its base prompt are dealt out anew to the two; images are taken as independent.
Images that share a scene or a wording are not: `shift_p_value` allows for that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from detector_bench.metrics.counts import CountArray, FloatArray, Score, divide
from detector_bench.metrics.representation import total_variation

_SLACK = 1e-9
"""Rounding errors of probabilities that are equal."""

_TWO = 2
"""Of so many classes the tests are one."""

_SHARED = 0.25
"""Squared correlation of the shifts of two prompts from the same base prompt."""


def side_effect(images: CountArray, base: CountArray, *, unknown: CountArray | int = 0) -> Score:
    """Total variation between the shares of two prompts: sum_k |p_k - q_k| / 2; higher is a larger effect, 0 to 1.

    The part of the images that would have to show another class for both prompts to show the same people.

    Args:
        images: of the prompt that asks, with a known answer, by class, `[..., class]`.
        base: likewise of its base prompt, which does not ask.
        unknown: images of both without a known answer; they are in no share and in n_left_out.

    Returns:
        `[...]`; NaN where one of the two has no known answer. n counts images of both.
    """
    value = total_variation(_shares(images), _shares(base))
    known = (images + base).sum(axis=-1)
    n, left_out = (np.broadcast_to(number, value.shape) for number in (known, unknown))
    return Score(value, n, left_out)


def side_effect_if_none(images: CountArray, base: CountArray) -> FloatArray:
    """Expected `side_effect` of as many images, had asking no effect: exact, over all ways to deal them out.

    Args, returns: as `side_effect`; whole numbers.
    """
    found = np.zeros(np.broadcast_shapes(images.shape, base.shape))
    for chosen, dealt in _by_margins(images, base):
        found[chosen] = dealt.mean_distance
    expected: FloatArray = np.where(_both_known(images, base), found.sum(axis=-1) / 2, np.nan)
    return expected


def side_effect_p_value(images: CountArray, base: CountArray) -> FloatArray:
    """How probable shares so far apart, in any class, are if asking has no effect.

    The smallest of Fisher's exact tests of each class against the rest (twice the smaller tail), times the number
    of classes that are shown at all (Bonferroni); of two such classes, whose tests are one, the value itself.

    Args, returns: as `side_effect`; whole numbers; 0 to 1.
    """
    smallest = np.ones(np.broadcast_shapes(images.shape, base.shape))
    for chosen, dealt in _by_margins(images, base):
        smallest[chosen] = dealt.tails(np.broadcast_to(images, smallest.shape)[chosen])
    shown = (images + base > 0).sum(axis=-1)
    tests = np.where(shown == _TWO, 1, np.maximum(shown, 1))
    value = np.minimum(1.0, tests * smallest.min(axis=-1))
    return np.where(_both_known(images, base), value, np.nan)


class MeanShift(NamedTuple):
    """By how much asking moves the share of a class, as a weighted mean over prompts; arrays `[..., class]`."""

    share: FloatArray
    """Where it is asked."""
    base_share: FloatArray
    """Of the same prompts' base prompts."""
    shift: FloatArray
    """`share - base_share`, -1 to 1."""
    ci_low: FloatArray
    ci_high: FloatArray
    distance: FloatArray
    """From 0, in standard errors of images dealt out anew, continuity-corrected; 0 or more."""
    p_value: FloatArray
    """Of a shift so far from 0 in either direction, if asking has no effect on any prompt; not adjusted, and only
    for independent images (see `shift_p_value`)."""
    prompts: CountArray
    """How many prompts have a known answer, as have their base prompts, `[...]`."""


def mean_shift(images: CountArray, base: CountArray, weight: FloatArray, *, level: float = 0.95) -> MeanShift:
    """By how much asking moves each class's share, over prompts.

    The test compares the weighted mean of the differences with its hypergeometric variance over all ways to deal
    each prompt's images out (the weighted form of Cochran, Mantel and Haenszel's test), with a continuity
    correction. The limits add up the variances within prompts, with half an image more of each class and the rest.

    Args:
        images: of the prompts that ask, `[..., prompt, class]`, whole numbers.
        base: of their base prompts.
        weight: `[prompt]`.
        level: of the limits.
    """
    from scipy.stats import norm

    n, m = (each.sum(axis=-1, keepdims=True).astype(np.float64) for each in (images, base))
    known = (n > 0) & (m > 0)
    part = np.where(known, weight[:, np.newaxis], 0.0)
    part = divide(part, part.sum(axis=-2, keepdims=True))

    def mean(values: FloatArray) -> FloatArray:
        total: FloatArray = np.where(known, part * values, 0.0).sum(axis=-2)
        return np.where(known.any(axis=-2), total, np.nan)

    share, of_base = _shares(images), _shares(base)
    shift = mean(share - of_base)
    within = (_variance(images, n) + _variance(base, m)) * part
    half = norm.ppf((1 + level) / 2) * np.sqrt(mean(within))
    total = n + m
    spread = np.sqrt(mean(_dealt_variance(images, base) * part))
    # One image more or less is the smallest step there is: half of the smallest of all prompts' steps.
    step = np.where(known & (part > 0), part * divide(total, n * m), np.inf).min(axis=-2)
    beyond = np.maximum(np.abs(shift) - np.where(np.isinf(step), 0, step) / 2, 0)
    distance = np.where(spread > 0, divide(beyond, spread), np.where(np.isnan(shift), np.nan, 0.0))
    low, high = np.clip(shift - half, -1, 1), np.clip(shift + half, -1, 1)
    prompts = (known[..., 0] & (weight > 0)).sum(axis=-1)
    p_value = np.minimum(2 * norm.sf(distance), 1.0)
    return MeanShift(mean(share), mean(of_base), shift, low, high, distance, p_value, prompts)


class ShiftScatter(NamedTuple):
    """How far prompts' shifts lie from their mean, and how far they would if images were independent; `[...]`."""

    squares: FloatArray
    """Sum of the squared distances, over prompts and classes."""
    expected: FloatArray
    """The same as chance gives it, over all ways to deal each prompt's images out."""
    prompts: CountArray
    """How many there are whose shift can vary."""


def scatter_over_prompts(images: CountArray, base: CountArray, weight: FloatArray) -> ShiftScatter:
    """How far the shifts of prompts that ask for the same class scatter.

    A prompt counts once, with the weighted mean of its T2I models. With its part w_p of all weights and the
    hypergeometric variance V_p of its shift, (d_p - mean)^2 is V_p (1 - 2 w_p) + sum w_q^2 V_q on average.

    Args:
        images: of the prompts that ask, `[..., t2i_model, prompt, class]`.
        base: of their base prompts.
        weight: `[prompt]`.
    """
    n, m = (each.sum(axis=-1, keepdims=True).astype(np.float64) for each in (images, base))
    part = np.where((n > 0) & (m > 0), weight[:, np.newaxis], 0.0)
    of_prompt = part.sum(axis=-3)
    part = np.nan_to_num(divide(part, of_prompt[..., np.newaxis, :, :]))
    shift = np.nansum(part * (_shares(images) - _shares(base)), axis=-3)
    variance = np.nansum(part**2 * _dealt_variance(images, base), axis=-3)
    share = np.nan_to_num(divide(of_prompt, of_prompt.sum(axis=-2, keepdims=True)))
    mean = (share * shift).sum(axis=-2, keepdims=True)
    of_mean = (share**2 * variance).sum(axis=-2, keepdims=True)
    there = of_prompt > 0
    squares = np.where(there, (shift - mean) ** 2, 0.0).sum(axis=(-2, -1))
    expected = np.where(there, variance * (1 - 2 * share) + of_mean, 0.0).sum(axis=(-2, -1))
    return ShiftScatter(squares, expected, (there & (variance > 0)).any(axis=-1).sum(axis=-1))


def shift_p_value(distance: FloatArray, kinds: Sequence[ShiftScatter]) -> FloatArray:
    """How probable mean shifts so far from 0 are, with the scatter over prompts that the study shows.

    Images of a prompt that share a wording or a scene are not independent, and then shifts scatter more than
    dealing images out says. By how much is estimated from all kinds of asking together, sum of squares by what is
    expected, and never below 1; the distance is divided by its root and held against Student's t. Two kinds of
    asking share their base prompts, so their squares correlate by about 1/4: K kinds of P prompts have
    (P - 1) / (1/K + (1 - 1/K) / 4) degrees of freedom.

    Args:
        distance: `MeanShift.distance`, `[..., class]`.
        kinds: one for each kind of asking, `[...]`.

    Returns:
        `[..., class]`, 0 to 1; 1 where no kind has two prompts, as nothing says then how they scatter.
    """
    from scipy.stats import t

    counted = [each.prompts > 1 for each in kinds]
    number = np.sum(counted, axis=0)
    squares, expected = (
        np.sum([np.where(some, each[place], 0.0) for some, each in zip(counted, kinds, strict=True)], axis=0)
        for place in range(2)
    )
    inflation = np.where(expected > 0, np.maximum(1.0, divide(squares, expected)), np.inf)
    parts = np.nan_to_num(divide(np.ones_like(expected), number.astype(np.float64)))
    prompts = np.max([each.prompts for each in kinds], axis=0)
    freedom = np.maximum((prompts - 1) / (parts + (1 - parts) * _SHARED), 1)
    tail: FloatArray = 2 * t.sf(distance / np.sqrt(inflation)[..., np.newaxis], freedom[..., np.newaxis])
    tail = np.where(number[..., np.newaxis] > 0, tail, 1.0)
    return np.where(np.isnan(distance), np.nan, np.minimum(tail, 1.0))


def shift_limits(images: CountArray, base: CountArray, *, level: float = 0.95) -> tuple[FloatArray, FloatArray]:
    """Limits of the difference of two prompts' shares of each class (Newcombe's, of Wilson's intervals)."""
    from detector_bench.metrics.intervals import wilson_interval

    n, m = (np.broadcast_to(each.sum(axis=-1, keepdims=True), each.shape) for each in (images, base))
    p, q = divide(images, n), divide(base, m)
    (p_low, p_high), (q_low, q_high) = wilson_interval(p, n, level=level), wilson_interval(q, m, level=level)
    shift = p - q
    return (
        shift - np.sqrt((p - p_low) ** 2 + (q_high - q) ** 2),
        shift + np.sqrt((p_high - p) ** 2 + (q - q_low) ** 2),
    )


class _Dealt(NamedTuple):
    """All ways to deal out a class's images to two prompts."""

    probability: FloatArray
    """Of so many images of the first prompt that show the class, from none up."""
    distance: FloatArray
    """What the shares then differ by."""

    @property
    def mean_distance(self) -> float:
        return float(self.probability @ self.distance)

    def tails(self, count: CountArray) -> FloatArray:
        """Twice the smaller tail, at most 1."""
        at_most = np.cumsum(self.probability)
        at_least = np.cumsum(self.probability[::-1])[::-1]
        place = count.astype(np.intp)
        return np.minimum(1.0, 2 * np.minimum(at_most[place], at_least[place]) * (1 + _SLACK))


def _by_margins(images: CountArray, base: CountArray) -> Iterator[tuple[tuple[NDArray[np.intp], ...], _Dealt]]:
    """Where two prompts have as many images and a class is shown as often, and how these can be dealt out."""
    images, base = np.broadcast_arrays(images, base)
    sizes = [np.broadcast_to(each.sum(axis=-1, keepdims=True), images.shape) for each in (images, base)]
    margins = np.stack([*sizes, images + base], axis=-1).reshape(-1, 3).astype(np.int64)
    kinds, place = np.unique(margins, axis=0, return_inverse=True)
    order = np.argsort(place.ravel(), kind="stable")
    ends = np.cumsum(np.bincount(place.ravel(), minlength=len(kinds)))[:-1]
    for (n, m, shown), chosen in zip(kinds.tolist(), np.split(order, ends), strict=True):
        if n and m:
            yield np.unravel_index(chosen, images.shape), _dealt(n, m, shown)


def _dealt(n: int, m: int, shown: int) -> _Dealt:
    from scipy.stats import hypergeom

    count = np.arange(n + 1)
    probability = hypergeom.pmf(count, n + m, shown, n)
    return _Dealt(probability, np.abs(count / n - (shown - count) / m))


def _shares(images: CountArray) -> FloatArray:
    return divide(images, images.sum(axis=-1, keepdims=True))


def _dealt_variance(images: CountArray, base: CountArray) -> FloatArray:
    """Of the difference of two prompts' shares over all ways to deal their images out (hypergeometric)."""
    n, m = (each.sum(axis=-1, keepdims=True).astype(np.float64) for each in (images, base))
    total, shown = n + m, images + base
    return divide(shown * (total - shown), n * m * np.maximum(total - 1, 1))


def _variance(images: CountArray, n: FloatArray) -> FloatArray:
    """Of a share of n images, with half an image more of each kind, so that it is never 0."""
    share = (images + 0.5) / (n + 1)
    variance: FloatArray = divide(share * (1 - share), n)
    return variance


def _both_known(images: CountArray, base: CountArray) -> NDArray[np.bool_]:
    known: NDArray[np.bool_] = (images.sum(axis=-1) > 0) & (base.sum(axis=-1) > 0)
    return known
