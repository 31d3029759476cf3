"""Uncertainty: one resampler, intervals, pairs, ranks and verdicts of detectors, and the bias of T2I models.

Detectors: `Draws.of` measures new studies (other images of the same prompts, or other prompts), the same for all
raters, metrics and scopes; `intervals`, `compare` and `verdict` are made of these draws. T2I models:
`bias_of_model` corrects labels by detectors' answers, for all, some or no labels alike; `half_width` plans labels.
Only standard deviations of draws are used, never their means: the size of a resampled share is biased once more.

A distance |share| is too high on average (plain score); a score whose sign and size come from independent halves
of the information is too low (split score). An estimate lies between both, and a limit is moved outwards by what
both can hide. Axes: tables [truth, answer, pair, draw], numbers [number, rater, scope]; a scope is a row of
`membership [scope, pair]`.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import pandas as pd
import scipy  # its parts are loaded when they are used: a run that has its numbers needs none
from numpy.polynomial.hermite_e import hermegauss
from numpy.typing import NDArray

from detector_bench_next.attributes import GROUND_TRUTH
from detector_bench_next.cells import Cells
from detector_bench_next.metrics import (
    METRICS,
    Metric,
    Score,
    actual,
    detected,
    human,
    measure,
    numbers,
    once,
    ratio,
    reported,
    shares,
)

Array: TypeAlias = Any
About = Literal["images", "prompts"]
Estimand = Literal["t2i_model", "these_images", "prompts"]

IMAGES_IN_A_BLOCK = 1_500_000  # draws times images (or cells) of a block: its tables stay in the cache
IMAGES_ONE_BY_ONE = 50_000  # above, numbers of images are drawn by cell: same distribution, cost follows cells


class Estimate(NamedTuple):
    """A value and its interval."""

    value: float
    low: float
    high: float


# ---------------------------------------------------------------- the resampler


class Block(NamedTuple):
    """Some draws of one rater."""

    rater: str
    draws: slice  # which of all draws
    tables: NDArray[np.float32]  # [truth, answer, pair, draw]; about prompts the points, one draw
    weights: Array | None  # [draw, pair], about prompts: how often each pair was drawn


def resample(
    cells: Cells, about: About, draws: int, seed: int, *, raters: Sequence[str], borrow: bool = True
) -> Iterator[Block]:
    """New studies, the same for all raters: other images of the same prompts, or other prompts with their images.

    images: a prompt gets as many labelled images as it has, each drawn from its own n or, with weight 1 in n + 1,
    from all of its T2I model (`borrow`; papers' scores draw without). prompts: a prompt's images of all T2I models
    go together. Draws depend on the seed and the cells alone. (Davison and Hinkley 1997; Field and Welsh 2007)

    Raises:
        ValueError: a single prompt about prompts, or nowhere two images of a prompt about images.
    """
    cells, rng = cells.labelled(), np.random.default_rng(seed)
    n = np.bincount(cells.pair, cells.n, len(cells.pairs)).astype(np.int64)
    if about == "prompts":
        prompt = pd.factorize(cells.pairs["prompt_id"].where(n > 0))[0]  # -1: no labelled image
        many = int(prompt.max(initial=-1)) + 1
        if many < 2:
            raise ValueError("one prompt: nothing can be said about other prompts")
        drawn = rng.multinomial(many, np.full(many, 1 / many), draws).astype(np.float32)
        weights = np.where(prompt < 0, 0, drawn[:, prompt])
        return (Block(r, slice(0, draws), cells.table(r).astype(np.float32), weights) for r in raters)
    if n.max(initial=0) < 2:
        raise ValueError("one image a prompt: an interval about images needs two images a prompt")
    return _other_images(cells, n, draws, rng, raters=raters, borrow=borrow)


def _other_images(
    cells: Cells, n: Array, draws: int, rng: np.random.Generator, *, raters: Sequence[str], borrow: bool
) -> Iterator[Block]:
    k2, count, pairs = len(cells.classes) + 2, len(cells.n), len(cells.pairs)
    places = {rater: cells.place(rater)[1] for rater in raters}
    into = {  # adds the images of cells up to a flat table
        rater: scipy.sparse.csr_matrix(
            (np.ones(count, np.float32), (place, np.arange(count))), (k2 * k2 * pairs, count)
        )
        for rater, place in places.items()
    }
    model = pd.factorize(cells.pairs["t2i_model"])[0]
    pools = [np.flatnonzero(model[cells.pair] == m) for m in range(model.max() + 1)]
    one_by_one = n.sum() <= IMAGES_ONE_BY_ONE
    draw = (_images_one_by_one if one_by_one else _images_by_cell)(cells, n, rng, borrow=borrow)
    block = max(1, min(draws, int(IMAGES_IN_A_BLOCK // (n.sum() if one_by_one else count))))
    for start in range(0, draws, block):
        r = min(block, draws - start)
        own, to_pair, at_draw = draw(r)
        taken = np.empty(len(to_pair), np.int64)  # the cells of borrowed images
        for m, pool in enumerate(pools):
            mine, until = model[to_pair] == m, np.cumsum(cells.n[pool])
            if mine.any():
                place = np.searchsorted(until, rng.integers(0, until[-1], mine.sum()), side="right")
                taken[mine] = pool[place]
        for rater in raters:
            flat = (into[rater] @ own).ravel()
            np.add.at(flat, (places[rater][taken] + to_pair - cells.pair[taken]) * r + at_draw, np.float32(1))
            yield Block(rater, slice(start, start + r), flat.reshape(k2, k2, pairs, r), None)


Drawn = Callable[[int], tuple[NDArray[np.float32], Array, Array]]
"""For a number of draws: a prompt's own images [cell, draw], and of each borrowed image the pair and the draw."""


def _images_one_by_one(cells: Cells, n: Array, rng: np.random.Generator, *, borrow: bool) -> Drawn:
    count = len(cells.n)
    images = np.repeat(np.arange(count), cells.n)  # cells are sorted by pair
    pair = cells.pair[images]
    first = np.concatenate([[0], np.cumsum(n)[:-1]])[pair].astype(np.int32)
    lookup, many = np.append(images, count).astype(np.int32), n[pair].astype(np.int32)

    def draw(r: int) -> tuple[NDArray[np.float32], Array, Array]:
        pick = rng.random((r, len(images)), dtype=np.float32) * (many + borrow).astype(np.float32)
        place = np.minimum(pick.astype(np.int32), many if borrow else many - 1)
        other = place == many
        cell = lookup[np.where(other, len(images), place + first)] * r + np.arange(r, dtype=np.int32)[:, None]
        own = np.bincount(cell.ravel(), minlength=(count + 1) * r).reshape(count + 1, r)[:count]
        at_draw, at_image = np.nonzero(other)
        return own.astype(np.float32), pair[at_image], at_draw

    return draw


def _images_by_cell(cells: Cells, n: Array, rng: np.random.Generator, *, borrow: bool) -> Drawn:
    first = np.searchsorted(cells.pair, np.arange(len(n) + 1))

    def draw(r: int) -> tuple[NDArray[np.float32], Array, Array]:
        own, borrowed = np.zeros((len(cells.n), r), np.float32), np.zeros((len(n), r), np.int64)
        for p in np.flatnonzero(n):
            mine = slice(first[p], first[p + 1])
            borrowed[p] = rng.binomial(n[p], 1 / (n[p] + 1), r) if borrow else 0
            own[mine] = rng.multinomial(n[p] - borrowed[p], cells.n[mine] / n[p]).T
        to_pair, at_draw = np.nonzero(borrowed)
        times = borrowed[to_pair, at_draw]
        return own, np.repeat(to_pair, times), np.repeat(at_draw, times)

    return draw


@dataclass(frozen=True, eq=False)
class Draws:
    """Points and draws of all raters, with what turns draws into standard errors."""

    numbers: list[tuple[Metric, str]]  # a metric, or one class of one, with its name in tables
    raters: tuple[str, ...]
    classes: int
    points: Score  # arrays [number, rater, scope]
    draws: NDArray[np.float32]  # [number, rater, scope, draw]
    scale: Array  # [number, rater, scope]: standard error = scale * standard deviation of the draws
    image: Array  # [number, rater, scope]: what one image moves a number by
    df: Array  # [scope]: degrees of freedom
    kept: Array  # [rater, scope]: images a prompt that scores rest on (kept or clear, the fewer), harmonic mean
    tails: Array  # [number, rater, scope]: excess kurtosis of the draws about prompts; 0 about images

    def at(self, name: str) -> int:
        """Place of a number."""
        return [own for _, own in self.numbers].index(name)

    @classmethod
    def of(
        cls,
        cells: Cells,
        metrics: Sequence[Metric],
        membership: Array | None = None,
        *,
        about: About = "images",
        draws: int = 1000,
        seed: int = 0,
        borrow: bool = True,
        raters: Sequence[str] | None = None,
        n_clear: str = "detector",
    ) -> Draws:
        """Draw once for all raters (None: the detectors), metrics with an interval, scopes (None: everything).

        The draws' variance is m / (m - 1) too small, m = images a prompt that a metric rests on (harmonic mean:
        all for metrics over images, kept or clear for means over prompts), or the number of prompts about prompts.

        Raises:
            ValueError: as `resample`.
        """
        raters = tuple(cells.raters[: cells.detectors] if raters is None else raters)
        membership = np.ones((1, len(cells.pairs))) if membership is None else membership
        metrics = [m for m in metrics if m.interval != "none"]
        own, k = numbers(metrics, cells.classes), len(cells.classes)
        tables = [cells.table(rater) for rater in raters]
        each = [measure(table, metrics, membership, None, n_clear) for table in tables]
        points = Score(*(np.stack(part, 1)[..., 0] for part in zip(*each, strict=True)))
        out = np.empty((*points.value.shape, draws), np.float32)
        for b in resample(cells, about, draws, seed, raters=raters, borrow=borrow):
            score = measure(b.tables, metrics, membership, b.weights, n_clear)
            out[:, raters.index(b.rater), :, b.draws] = score.value
        inside, n = membership > 0, tables[0].sum((0, 1, 3))
        fewer = [np.minimum(t[:, :k].sum((0, 1, 3)), t[:k].sum((0, 1, 3))) for t in tables]
        kept = np.array([[_harmonic(row[s]) for s in inside] for row in fewer])
        pooled = np.array([m.over == "images" for m, _ in own])[:, None, None]
        if about == "prompts":
            prompt = pd.factorize(cells.pairs["prompt_id"])[0]
            every = np.arange(prompt.max() + 1)
            there = np.stack([np.isin(every, prompt[s & (n > 0)]) for s in inside])  # [scope, prompt]
            many = there.sum(1)
            scale, df = np.ones(points.value.shape) * _small(many), many - 1.0
            without = (prompt != every[:, None]).astype(float)
            left_out = np.stack([measure(t, metrics, membership, without, n_clear).value for t in tables], 1)
            tails = _excess(np.where(there, left_out, np.nan)) / np.maximum(many, 1)
        else:
            images = np.array([_harmonic(n[s]) for s in inside])
            scale, tails = np.where(pooled, _small(images), _small(kept)), np.zeros(points.value.shape)
            df = np.array([max(float(n[s].sum() - (n[s] > 0).sum()), 1.0) for s in inside])
        image = np.where(pooled, 1 / np.maximum(np.asarray(points.under), 1), 2 / np.maximum(membership @ n, 1))
        return cls(own, raters, k, points, out, scale, image, df, kept, tails)


def _harmonic(n: Array) -> float:
    n = n[n > 0]
    return float(1 / np.mean(1 / n)) if len(n) else 0.0


def _small(n: Array) -> Array:
    """Square root of what a variance of n is too small by; at n = 1 nothing is known, 2 is taken."""
    n = np.maximum(n, 2.0)
    return np.sqrt(n / (n - 1))


def _excess(x: Array) -> Array:
    """Excess kurtosis along the last axis, at least 0; of values without one prompt each it is the draws'."""
    ok = np.isfinite(x)
    n = np.maximum(ok.sum(-1), 1)
    z = np.where(ok, x - (np.where(ok, x, 0).sum(-1) / n)[..., None], 0)
    return np.maximum(n * (z**4).sum(-1) / np.maximum((z**2).sum(-1), 1e-20) ** 2 - 3, 0)


# ---------------------------------------------------------------- intervals


def wilson(x: Array, n: Array, t: Array | float) -> tuple[Array, Array]:
    """Score interval of shares x with n images (Wilson 1927)."""
    middle, part = (x + t * t / (2 * n)) / (1 + t * t / n), t / (1 + t * t / n)
    half = part * np.sqrt(x * (1 - x) / n + t * t / (4 * n * n))
    return np.minimum(middle - half, x), np.maximum(middle + half, x)  # 0 and 1 stay what they are


def _worth(x: Array, se: Array) -> Array:
    """Images that a mean share x is worth; near 0 and 1, where se is about one image, 1 / se."""
    se = np.maximum(se, 1e-9)
    return np.maximum(x * (1 - x) / se**2, 1 / se)


def _score_limits(x: Array, se: Array, t: Array | float, classes: int) -> tuple[Array, Array]:
    """Limits of a mean bias score, by the score interval of the share (1 + (K - 1) x) / K that it stands for."""
    share, part = np.clip((1 + (classes - 1) * x) / classes, 0, 1), (classes - 1) / classes
    low, high = wilson(share, _worth(share, se * part), t)
    return (low * classes - 1) / (classes - 1), (high * classes - 1) / (classes - 1)


def _deviation(draws: Array) -> Array:
    """Standard deviation over draws; NaN where there is no value in any."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return np.nanstd(draws, axis=-1)


def standard_error(draws: Draws) -> Array:
    """Standard errors [number, rater, scope]; scores with one image more: few errors are not taken for none."""
    se = draws.scale * _deviation(draws.draws)
    add = np.array([m.interval != "ratio" for m, _ in draws.numbers])[:, None, None]
    return np.where(add, np.hypot(se, draws.image), se)


def intervals(draws: Draws, level: float = 0.95) -> Array:
    """Limits [number, rater, scope, (low, high)] by the metric's fact `interval`.

    ratio: Wilson with x (1 - x) / se^2 images (where that is nothing, its denominator); share: the same for a mean
    share; score: for the share that a model bias score stands for; plain: value +- t se. About prompts t has fewer
    degrees of freedom where few prompts carry the number: 2 / (2 / df + tails). (Wilson 1927; Agresti and Min
    2005; Satterthwaite 1946)
    """
    t, se = scipy.special.stdtrit(2 / (2 / draws.df + draws.tails), (1 + level) / 2), standard_error(draws)
    x, under = draws.points.value, np.asarray(draws.points.under)
    low, high = x - t * se, x + t * se
    with np.errstate(invalid="ignore", divide="ignore"):
        for i, (m, _) in enumerate(draws.numbers):
            if m.interval == "ratio":
                inside = (x[i] > 0) & (x[i] < 1) & (se[i] > 0)
                n = np.where(inside, x[i] * (1 - x[i]) / np.where(inside, se[i], 1) ** 2, under[i])
                low[i], high[i] = wilson(x[i], n, t[i])
            elif m.interval == "share":
                low[i], high[i] = wilson(x[i], _worth(x[i], se[i]), t[i])
            elif m.interval == "score":
                low[i], high[i] = _score_limits(x[i], se[i], t[i], draws.classes)
    return np.stack([low, high], -1)


# ---------------------------------------------------------------- pairs and ranks


@dataclass(frozen=True, eq=False)
class Comparison:
    """All pairs of raters in one number of one scope; arrays [pair of raters]."""

    first: Array  # places in Draws.raters
    second: Array
    difference: Array  # first minus second
    low: Array
    high: Array
    p: Array  # of the pair alone
    p_family: Array  # probability that the largest t of all pairs reaches this one's
    ranks: Array  # [compared rater, (lowest, highest rank left open)], 1 = best by Metric.better


def compare(
    draws: Draws, name: str, scope: int = 0, level: float = 0.95, raters: Sequence[str] | None = None
) -> Comparison:
    """Differences of all pairs of raters (None: all but the labels), p alone and within the family, rank sets.

    The family is all pairs of one number in one scope. A rater without a value is told apart from none. `better`
    "zero": sizes are told apart only if the values differ and each differs from the other's opposite. A rank set
    runs from 1 + the raters surely better to all - those surely worse. (Westfall and Young 1993; Mogstad et al.
    2024)
    """
    use = [draws.raters.index(r) for r in (raters or [r for r in draws.raters if r != GROUND_TRUTH])]
    at, df, count = draws.at(name), draws.df[scope], len(use)
    better = draws.numbers[at][0].better
    value, drawn, scale, image = (
        x[at][use, scope] for x in (draws.points.value, draws.draws, draws.scale, draws.image)
    )
    i, j = np.triu_indices(count, 1)

    def t_of(sign: int) -> tuple[Array, Array]:
        sd = _deviation(drawn[i] + sign * drawn[j])
        se = np.hypot(np.maximum(scale[i], scale[j]) * sd, np.maximum(image[i], image[j]))
        gap = np.abs(value[i] + sign * value[j])
        return np.where((se > 0) & np.isfinite(gap), gap / np.where(se > 0, se, 1), 0), se

    t, se = t_of(-1)
    if better == "zero":
        t = np.minimum(t, t_of(1)[0])
    alone = 2 * scipy.special.stdtr(df, -t)
    known, z = np.isfinite(value), -scipy.special.ndtri(scipy.special.stdtr(df, -t))
    family = np.maximum(_family(np.where(known[:, None], drawn, 0), z, i, j, known[i] & known[j]), alone)
    good = {"lower": -value, "zero": -np.abs(value)}.get(better, value)
    ahead = np.zeros((count, count), bool)  # row is surely better than column
    sure = family <= 1 - level
    ahead[i, j], ahead[j, i] = sure & (good[i] > good[j]), sure & (good[i] < good[j])
    ranks = np.stack([1 + ahead.sum(0), count - ahead.sum(1)], -1)
    difference, width = value[i] - value[j], scipy.special.stdtrit(df, (1 + level) / 2) * se
    places = np.array(use)
    return Comparison(
        places[i], places[j], difference, difference - width, difference + width, alone, family, ranks
    )


def _family(drawn: Array, z: Array, i: Array, j: Array, known: Array) -> Array:
    """Probability that the largest normal score of all pairs, correlated as the draws [rater, draw], reaches z."""
    some = np.isfinite(drawn)
    mean = np.where(some, drawn, 0.0).sum(1, keepdims=True) / np.maximum(some.sum(1, keepdims=True), 1)
    left, root, _ = np.linalg.svd(np.where(some, drawn - mean, 0), full_matrices=False)
    symmetric = left * root @ left.T  # no sign or order of this root is the machine's choice
    normal, largest = symmetric @ _normals(len(drawn)), np.zeros(20_000)
    for a, b in zip(i[known], j[known], strict=True):
        gap = np.abs(normal[a] - normal[b])
        sd = math.sqrt(gap @ gap / gap.size)
        if sd > 1e-6 * np.abs(symmetric).max():  # raters that answer alike are no further pair
            np.maximum(largest, gap / sd, out=largest)
    return 1 - np.searchsorted(np.sort(largest), z) / largest.size


@lru_cache(maxsize=8)
def _normals(rows: int) -> Array:
    return np.ascontiguousarray(np.random.default_rng(0).standard_normal((20_000, rows)).T)


# ---------------------------------------------------------------- the verdict on a detector's model bias score

FEWEST_KEPT = 6.0  # images a prompt below which a detector's bias score says more about their number


def split_score(d: Array, se: Array | float) -> Array:
    """Score E[sign(d + se Z) (d - se Z)] = d (2 Phi(d / se) - 1) - 2 se phi(d / se), Z standard normal.

    Sign from one half of the information, size from the other: at most |true d| on average, right at 0 and far
    from 0. (Neufeld et al. 2024; no unbiased estimate exists: Cai and Low 2011)
    """
    z = d / se
    return d * (2 * scipy.special.ndtr(z) - 1) - 2 * se * np.exp(-z * z / 2) / math.sqrt(2 * math.pi)


def _split(counts: Array) -> Array:
    """Split score of class counts [class, ...]; its standard errors are never 0. Of two classes one says all."""
    k, total = len(counts), counts.sum(0)
    p, stretch = (counts + 1) / (total + k), k / (k - 1) / 2 * (2 if k == 2 else 1)
    away = (ratio(counts, total) - 1 / k) * stretch
    se = np.sqrt(p * (1 - p) / np.maximum(total, 1)) * stretch
    return split_score(away[:1], se[:1])[0] if k == 2 else split_score(away, se).sum(0)


_split_reported = once(lambda c: _split(detected(c)))
_split_actual = once(lambda c: _split(human(c)))


def _hidden(c: Array) -> Array:
    """Part of a prompt's error that chance hides: a gap of plain and split score, at most the shares' distance."""
    k, (r, h) = c.shape[1] - 2, shares(c)
    gaps = np.minimum(reported(c) - _split_reported(c), actual(c) - _split_actual(c))
    return np.minimum(gaps, np.abs(r - h).sum(0) * (k / (k - 1) / 2))


_PLAIN, _SHIFT = METRICS["model_bias_score_difference"], METRICS["prompt_bias_score_shift"]
_SPLIT = Metric("split difference", lambda c: _split_reported(c) - _split_actual(c), "prompts", interval="plain")
_HIDDEN = Metric("hidden by chance", _hidden, "prompts", interval="plain")
FOR_VERDICT: tuple[Metric, ...] = (_PLAIN, _SHIFT, _SPLIT, _HIDDEN)
"""Metrics that the draws of a verdict must hold."""

Word = Literal["good", "good if it does not shift balanced prompts", "too far", "open"]


class Verdict(NamedTuple):
    """Error of a detector's model bias score for endless images of these prompts, and what is shown of it."""

    error: float
    low: float  # limits if it does not shift balanced prompts
    high: float
    low_proved: float  # limits whatever it does there: moved outwards by `hidden`
    high_proved: float
    hidden: float
    word: Word
    why: str  # empty where the word is proved
    shift: Estimate
    """Mean signed error of prompt bias scores (two classes): tells whether balanced prompts may be shifted."""


def verdict(draws: Draws, rater: str, scope: int = 0, tolerance: float = 0.1, level: float = 0.95) -> Verdict:
    """Verdict on an error of at most `tolerance`: two one-sided tests; draws about images hold FOR_VERDICT.

    The estimate is the middle of plain and split difference; each limit moves outwards by half their distance and,
    to be proved, by what chance hides in prompts near balance. (Schuirmann 1987)
    """
    r, places = draws.raters.index(rater), [draws.at(m.name) for m in (_PLAIN, _SPLIT, _HIDDEN)]
    plain, split, hidden = (float(draws.points.value[m, r, scope]) for m in places)
    error, doubt = (plain + split) / 2, abs(plain - split) / 2
    first = (places[0], r, scope)
    sd = _deviation((draws.draws[first] + draws.draws[places[1], r, scope]) / 2)
    half = doubt + scipy.special.stdtrit(draws.df[scope], level) * float(
        np.hypot(draws.scale[first] * sd, draws.image[first])
    )
    low, high = error - half, error + half
    shift = Estimate(np.nan, np.nan, np.nan)
    if draws.classes == 2:
        at = (draws.at(_SHIFT.name), r, scope)
        se = np.hypot(draws.scale[at] * _deviation(draws.draws[at]), draws.image[at])
        value, width = (
            draws.points.value[at],
            scipy.special.stdtrit(2 / (2 / draws.df[scope] + draws.tails[at]), (1 + level) / 2) * se,
        )
        shift = Estimate(float(value), float(value - width), float(value + width))
    word, why = _word(low, high, hidden, float(draws.kept[r, scope]), tolerance)
    return Verdict(error, low, high, low - hidden, high + hidden, hidden, word, why, shift)


def _word(low: float, high: float, hidden: float, kept: float, tolerance: float) -> tuple[Word, str]:
    if -tolerance < low - hidden and high + hidden < tolerance:
        return "good", ""
    if -tolerance < low and high < tolerance:
        return "good if it does not shift balanced prompts", f"near balance chance hides up to {hidden:.3f}"
    if low - hidden > tolerance or high + hidden < -tolerance:
        return "too far", ""
    if kept < FEWEST_KEPT:
        return "open", f"it keeps {kept:.1f} images a prompt: its bias score says more about their number"
    if hidden > tolerance / 2:
        return "open", f"many prompts may be balanced, where chance hides up to {hidden:.3f}"
    return "open", "too few images"


# ---------------------------------------------------------------- prompts of a T2I model, from all or some labels

FEWEST_CLEAR = 3.0  # clear labels a prompt below which there is no model bias score
RIDGES = (1.0, 3.0, 10.0, 30.0, 100.0, 1e9)  # strengths of the rule; the last one: labels alone


@dataclass(frozen=True, eq=False)
class Prompts:
    """Shares of each prompt among clear images, corrected by detectors, and what their variances need."""

    share: Array  # [pair, K]; NaN: no share
    steady: Array  # [pair]: share of images that are clear, steadied by the other prompts
    images: Array  # [pair]
    labels: Array  # [pair]
    residual: Array  # [pair, K, K]: covariance of one image's influence on `share`, minus what detectors predict
    total: Array  # [pair, K, K]: the same, nothing predicted
    explained: float  # part of the variance within prompts that detectors predict
    tails: float  # excess kurtosis of what they leave
    together: bool  # too few labels for a mean of each prompt: deviations are from the mean of all

    def left(self) -> Array:
        """1/n - 1/N [pair]: what the labels leave open; 0 when all images are labelled."""
        return 1 / np.maximum(self.labels, 1) - 1 / np.maximum(self.images, 1)

    def variance(self, about: Estimand = "t2i_model") -> Array:
        """Covariance of `share` [pair, K, K] by two-phase sampling; "these_images": the images are no sample."""
        v = self.left()[:, None, None] * self.residual
        return v if about == "these_images" else v + self.total / np.maximum(self.images, 1)[:, None, None]

    def worth(self, about: Estimand = "t2i_model") -> Array:
        """Clear images [pair], all labelled, that would tell as much about a prompt as these labels do."""
        one = self.left() * (1 - self.explained)
        return self.steady / np.maximum(
            one if about == "these_images" else one + 1 / np.maximum(self.images, 1), 1e-9
        )

    def limits(self, level: float = 0.95) -> Array:
        """Limits [pair, K, (low, high)] of each share for endless images: Wilson's with the images it is worth."""
        worth = np.where(self.labels > 0, self.worth(), np.nan)[:, None]
        return np.stack(wilson(np.clip(self.share, 0, 1), worth, scipy.special.ndtri((1 + level) / 2)), -1)

    def only(self, pairs: Array) -> Prompts:
        """Some of the pairs, by a mask."""
        arrays = ("share", "steady", "images", "labels", "residual", "total")
        return replace(self, **{name: getattr(self, name)[pairs] for name in arrays})


def _labels(cells: Cells) -> Array:
    """Labels for an estimate [cell]: others is not clear (K), what `sample` did not draw is unlabelled (-1)."""
    k = len(cells.classes)
    return np.where(cells.sampled & (cells.truth < k + 2), np.minimum(cells.truth, k), -1).astype(int)


def prompts_of(cells: Cells) -> Prompts:
    """Shares of the prompts of ONE T2I model: labels with `sampled`, corrected by all detectors' answers.

    A prompt's mean label moves by how its labelled images differ from all its images in the answers, by a ridge
    regression within prompts that the OTHER prompts teach. Where labels are too few for a mean of each prompt,
    deviations are from the mean of all, which is wider, and shares are linearised about the common one.
    (Angelopoulos, Duchi and Zrnic 2023; Zrnic and Candes 2024; Saerndal et al. 1992)

    Raises:
        ValueError: fewer than two clear labels.
    """
    label, k = _labels(cells), len(cells.classes)
    enough = cells.n[(label >= 0) & (label < k)].sum() > 1
    for detectors, together in ((cells.detectors, False), (cells.detectors, True), (0, True)):
        found = _prompts(replace(cells, detectors=detectors), label, together=together) if enough else None
        if found is not None:
            return found
    raise ValueError("fewer than two clear labels")


def _prompts(cells: Cells, label: Array, *, together: bool) -> Prompts | None:
    """None: too few labels for a mean of each prompt."""
    k, u, pair, number = len(cells.classes), len(cells.pairs), cells.pair, cells.n
    x = np.concatenate([cells.answers[: cells.detectors] == c for c in range(k)]).T.astype(float)
    x -= np.average(x, axis=0, weights=number)
    y = (label[:, None] == np.arange(k)).astype(float)
    w = number * (label >= 0)
    by = scipy.sparse.csr_matrix((np.ones(len(w)), (pair, np.arange(len(w)))), (u, len(w)))
    images, labels = by @ number, by @ w
    together = together or bool(labels.sum() < 2 * (labels > 0).sum())

    def mean(z: Array, weight: Array) -> Array:
        return (by @ (weight[:, None] * z)) / np.maximum(by @ weight, 1)[:, None]

    x_all, x_labelled, y_labelled = mean(x, number), mean(x, w), mean(y, w)
    middle = [x_labelled[pair], y_labelled[pair]]
    if together:
        middle = [np.average(z, axis=0, weights=w) for z in (x, y)]
    some = w > 0
    xs, ys, ws, ps = (x - middle[0])[some], (y - middle[1])[some], w[some].astype(float), pair[some]
    rule = _rule(xs, ys, ws, ps, u) if (labels < images).any() else np.zeros((u, x.shape[1], k))
    part = y_labelled + np.einsum("uf,ufk->uk", x_all - x_labelled, rule)
    least = 0.5 / np.maximum(labels, 1)  # half a label: below it a prompt has no score
    clear = np.maximum(part.sum(1), least)
    seen = (labels > 0) & (part.sum(1) > least)
    share = np.where(seen[:, None], part / clear[:, None], np.nan)
    others = 2 * np.average(clear, weights=images)  # two labels' weight of the other prompts
    steady = (labels * clear + others) / (labels + 2)
    about = share
    if together:
        common = part[labels > 0].mean(0)
        if common.sum() <= 0:
            return None
        common = common / common.sum()
        share = common + (part - common * part.sum(1, keepdims=True)) / steady[:, None]
        share, about = np.where(labels[:, None] > 0, share, np.nan), np.broadcast_to(common, share.shape)

    def influence(z: Array) -> Array:  # of one image on the shares
        return (z - about[ps] * z.sum(1, keepdims=True)) / steady[ps, None]

    ok = (labels > 0 if together else labels > 1) & np.isfinite(share[:, 0])
    if not ok.any():
        return None
    h, e = influence(ys), influence(ys - np.einsum("if,ifk->ik", xs, rule[ps]))
    add = scipy.sparse.csr_matrix((ws, (ps, np.arange(len(ws)))), (u, len(ws)))
    total, residual = ((add @ (z[:, :, None] * z[:, None]).reshape(len(z), -1)).reshape(u, k, k) for z in (h, e))
    for z in (total, residual):
        if together:
            z[:] = z.sum(0) / (labels.sum() - 1)
            continue
        clear_labels = np.maximum(labels * steady, 2)[ok]  # one degree of freedom of them goes into the share
        z[ok] *= (clear_labels / (clear_labels - 1) / labels[ok])[:, None, None]
        z[~ok] = z[ok].mean(0)
    left, all_of_it = (float(np.einsum("ukk->", z[ok])) for z in (residual, total))
    explained = float(np.clip(1 - left / all_of_it, 0, 1)) if all_of_it > 0 else 0.0
    e, ws = e[ok[ps]], ws[ok[ps]]  # a prompt without a share has no residuals
    second, fourth = (np.average(e**power, axis=0, weights=ws) for power in (2, 4))
    tails = max(float(np.mean(fourth / np.maximum(second, 1e-12) ** 2)) - 3, 0.0)
    return Prompts(share, steady, images, labels, residual, total, explained, tails, together)


def _rule(x: Array, y: Array, w: Array, pair: Array, pairs: int) -> Array:
    """Coefficients [pair, feature, K] from all other pairs; the ridge predicts left-out pairs best."""
    gram, cross = np.zeros((pairs, x.shape[1], x.shape[1])), np.zeros((pairs, x.shape[1], y.shape[1]))
    first = np.searchsorted(pair, np.arange(pairs + 1))  # cells are sorted by pair
    for p in range(pairs):
        mine = slice(first[p], first[p + 1])
        weighed = (w[mine, None] * x[mine]).T
        gram[p], cross[p] = weighed @ x[mine], weighed @ y[mine]
    gram, cross = gram.sum(0) - gram, cross.sum(0) - cross
    best, rule = np.inf, np.zeros_like(cross)
    for ridge in RIDGES:
        beta = np.linalg.solve(gram + ridge * np.eye(x.shape[1]), cross)
        loss = float((w[:, None] * (y - np.einsum("if,ifk->ik", x, beta[pair])) ** 2).sum())
        if loss < best:
            best, rule = loss, beta
    return rule


# ---------------------------------------------------------------- the bias of a T2I model


@dataclass(frozen=True)
class Bias:
    """Bias of one T2I model; NaN where it cannot be said, and `why`."""

    share: list[Estimate]  # mean over prompts of each class's share among clear images
    mean_prompt_bias_score: Estimate | None  # two classes: 2 share - 1 of the first
    model_bias_score: Estimate
    """Of endless images: 0 for a fair T2I model. The value is the middle of a bracket; the interval says more."""
    by_chance: float  # model bias score that a fair T2I model would show with these labels
    p_fair: float
    """Of the test that every prompt is balanced; the interval contains 0 exactly where it does not reject."""
    prompts: int
    explained: float  # part of the variance within prompts that detectors predict
    why: str  # reason why there is no model bias score


def bias_of_model(
    cells: Cells, about: Estimand = "t2i_model", level: float = 0.95, prompts: Prompts | None = None
) -> Bias:
    """Bias of ONE T2I model (`cells.only`) from labels and all detectors' answers; `prompts`: `prompts_of(cells)`.

    t2i_model: endless images of these prompts; these_images: all labels of these images would say; prompts: other
    prompts, too. Shares have Wilson's interval by their n_eff, with one label more; the model bias score is
    bracketed by the split score and the lower of plain score and root mean square. (Imbens and Manski 2004; Cai
    and Low 2011; Pearson 1900)

    Raises:
        ValueError: a single prompt about prompts.
    """
    k, label = len(cells.classes), _labels(cells)
    p = None if cells.n[(label >= 0) & (label < k)].sum() < 2 else prompts or prompts_of(cells)
    if p is None or not np.isfinite(p.share[:, 0]).any():
        nothing, signed = Estimate(np.nan, 0.0, 1.0), Estimate(np.nan, -1.0, 1.0) if k == 2 else None
        return Bias([nothing] * k, signed, nothing, np.nan, np.nan, 0, 0.0, "fewer than two clear labels")
    p = p.only(np.isfinite(p.share[:, 0]))
    u = len(p.labels)
    if about == "prompts" and u < 2:
        raise ValueError("one prompt: nothing can be said about other prompts")
    df = float(max(p.labels.sum() - (1 if p.together else u), 1))
    t = scipy.special.stdtrit(u - 1 if about == "prompts" else df, (1 + level) / 2)
    cov = p.variance(about)
    # one label more, so that labels that all agree are not taken for certainty
    one_label = float(np.mean((p.left() if about == "these_images" else 1 / p.labels) / p.steady)) / u

    def spread(values: Array, variance: Array, per_label: float) -> float:
        """Standard error of a mean over prompts; per_label: what one label moves a value by."""
        mean = np.var(values, ddof=1) / u if about == "prompts" else np.sum(variance) / u**2
        return float(np.sqrt(mean + per_label**2 * one_label**2))

    share = []
    for c in range(k):
        x, se = np.clip(np.mean(p.share[:, c]), 0, 1), spread(p.share[:, c], cov[:, c, c], 1)
        low, high = wilson(x, _worth(x, se), t) if se > 0 else (x, x)
        share.append(Estimate(float(x), float(low), float(high)))
    balance = Estimate(*(2 * v - 1 for v in share[0])) if k == 2 else None
    if p.together or np.mean(p.labels * p.steady) < FEWEST_CLEAR:
        why, none = "fewer than 3 clear labels a prompt: no model bias score", Estimate(np.nan, np.nan, np.nan)
        return Bias(share, balance, none, np.nan, np.nan, u, p.explained, why)
    worth = np.clip(p.worth(about), 1e-9, 1e9)  # without end where all images of a prompt are labelled
    by_chance = float(np.mean(np.sqrt(2 / np.pi / worth))) * k / (2 * np.sqrt(k - 1))
    if about == "these_images" and (p.labels >= p.images).all():
        score = float(np.mean(np.abs(p.share - 1 / k).sum(1))) * k / (k - 1) / 2
        return Bias(share, balance, Estimate(score, score, score), by_chance, np.nan, u, p.explained, "")
    estimate, p_fair = _model_bias_score(
        p, cov, worth, spread, label=u * one_label, df=df, t=t, level=level, about=about
    )
    return Bias(share, balance, estimate, by_chance, p_fair, u, p.explained, "")


def _model_bias_score(
    p: Prompts,
    cov: Array,
    worth: Array,
    spread: Callable[[Array, Array, float], float],
    *,
    label: float,
    df: float,
    t: float,
    level: float,
    about: Estimand,
) -> tuple[Estimate, float]:
    """Mean of sum_k |share_k - 1/K| K / (K - 1) / 2, and p of the test that all prompts are balanced.

    The split score errs downwards, the plain one upwards, and so does the root of the mean square. The value is
    the middle; the interval goes from the lower end of the split score's to the lower of the two upper ends.
    """
    u, k = p.share.shape
    dims = 1 if k == 2 else k  # two classes say the same
    scale = k / (k - 1) / 2 * (2 if k == 2 else 1)
    away, cov = (p.share[:, :dims] - 1 / k) * scale, cov[:, :dims, :dims] * scale**2
    plain = np.abs(away).sum(1)
    # variances by prompt: binomial at a share pulled to balance by one image a class, their sum kept unbiased
    smooth = (np.clip(p.share, 0, 1) * worth[:, None] + 1) / (worth[:, None] + k)
    raw = (smooth * (1 - smooth) / worth[:, None])[:, :dims] * scale**2
    v = raw * max(float(np.einsum("ukk->", cov)), (label * scale) ** 2) / raw.sum()
    sd, sign = np.sqrt(v), np.sign(away)
    z, split = away / sd, split_score(away, sd).sum(1)
    along = np.einsum("uk,ukl,ul->u", sign, cov, sign)
    se_plain = spread(plain, along * _noise(np.abs, z), k / (k - 1))
    se_split = spread(split, along * _noise(lambda x: split_score(x, 1.0), z), k / (k - 1))
    # mean square of the distance from balance, without noise; its root is at least the mean distance
    squares, noise, wider = (away**2).sum(1), v.sum(1).mean(), _spread_of_squares(p)
    square = np.mean(squares) - noise
    se_square = np.sqrt((4 * max(square, 0) * noise + 2 * noise**2) * wider / (k - 1) / u + 2 * noise**2 / df)
    if about == "prompts":
        se_square = np.hypot(se_square, np.std(squares, ddof=1) / np.sqrt(u))
    root = np.sqrt(max(dims * square, 0))
    bottom = max(split.mean(), 0)
    top = max(min(plain.mean(), root), bottom)
    low = _score_limits(split.mean(), se_split, t, k)[0]
    high = _score_limits(plain.mean(), se_plain, t, k)[1]
    high = min(high, np.sqrt(max(dims * (square + t * se_square), 0)))
    p_fair = np.nan
    if about != "these_images":  # Pearson's test decides whether the interval contains 0
        statistic = np.sum(squares * worth) / scale**2 * (4 if k == 2 else k)
        freedom = u * (k - 1) / wider
        p_fair = float(scipy.special.chdtrc(freedom, statistic / wider))
        # at most the mean of squares, the same for prompts of one size
        least = np.sum(squares * worth) / worth.max() / u
        critical = scipy.special.chdtri(freedom, 1 - level) * wider
        low = max(low, (1 - critical / statistic) * least) if p_fair < 1 - level else 0.0
    low = min(max(low, 0), 1)
    high = min(max(high, low), 1)
    return Estimate(float(np.clip((top + bottom) / 2, low, high)), float(low), float(high)), p_fair


def _spread_of_squares(p: Prompts) -> float:
    """Variance of a prompt's squared deviation over a normal one's: few labels with rare errors have tails."""
    one = p.left() * (1 - p.explained)
    return 1 + float(np.mean((one / (one + 1 / p.images)) ** 2 * p.tails / (2 * p.labels)))


_gauss = lru_cache(maxsize=1)(lambda: hermegauss(40))


def _noise(score: Callable[[Array], Array], z: Array) -> Array:
    """Variance of score(z + Z), Z standard normal, mean over classes: what a kink makes of a variance of 1."""
    node, weight = _gauss()
    x, weight = score(z[..., None] + node), weight / weight.sum()
    return np.mean((x - (x @ weight)[..., None]) ** 2 @ weight, 1)


def as_reported(cells: Cells, detector: str) -> Cells:
    """Cells with a detector's answers in the place of labels, corrected by none: what it reports, right or not."""
    answer, k = cells.answer(detector), len(cells.classes)
    truth = np.where(answer <= k, answer, k + 2).astype(np.int8)  # an error is no label
    return replace(cells.with_truth(truth), sampled=np.ones(len(cells.n), bool), detectors=0)


def difference(a: Estimate, b: Estimate) -> Estimate:
    """Difference of two independent estimates; limits recovered from theirs (Newcombe 1998; Zou, Donner 2008)."""
    low, high = np.hypot(a.value - a.low, b.high - b.value), np.hypot(a.high - a.value, b.value - b.low)
    return Estimate(a.value - b.value, float(a.value - b.value - low), float(a.value - b.value + high))


def p_of(estimate: Callable[[float], Estimate]) -> float:
    """Smallest 1 - level at which the interval of `estimate(level)` leaves out 0, by 20 bisections."""
    low, high = 0.0, 1.0
    for _ in range(20):
        level = (low + high) / 2
        _, start, end = estimate(level)
        low, high = (level, high) if start > 0 or end < 0 else (low, level)
    return 1 - low


def half_width(
    prompts: Prompts,
    labels: Sequence[int],
    images: int | None = None,
    about: Estimand = "t2i_model",
    level: float = 0.95,
) -> Array:
    """Half-width to expect of the mean prompt bias score [labels]: labels a prompt, of `images` (None: as now).

    Method of `bias_of_model` with other numbers; for more than two classes twice the half-width of the first
    class's share.
    """
    u, out = len(prompts.labels), []
    for n in labels:
        at = prompts.images if images is None else np.full(u, images)
        q = replace(prompts, images=at, labels=np.minimum(n, at))
        v, left = q.variance(about)[:, 0, 0], q.left() if about == "these_images" else 1 / q.labels
        variance, df = v.sum() / u**2, u * max(n - 1, 1)
        if about == "prompts":
            use, df = np.isfinite(prompts.share[:, 0]), u - 1
            between = np.var(prompts.share[use, 0], ddof=1) - prompts.variance()[use, 0, 0].mean()
            variance += max(between, 0) / u
        out.append(
            scipy.special.stdtrit(df, (1 + level) / 2)
            * 2
            * np.sqrt(variance + (np.mean(left / q.steady) / u) ** 2)
        )
    return np.array(out)
