"""ImageBiTe's verdicts on how a T2I model represents communities, and whether they survive a detector's error.

Source: ImageBiTe's project page ("Overview" and "Running example"). It gives no formulas; these are the reading of
its worked example. A community may be under-represented and ex-nominated at once, as the page calls ex-nomination
a particular case of under-representation.

Survival is a simulation of what the images may really show. Its model, fitted to images that have both a human
label and a detector's answer:

- Errors: P(answer | truth) is the same in all prompts and T2I models. Given the labelled images it has a Dirichlet
  posterior for each truth, with a prior of one image spread evenly over the answers.
- Mixtures: how many images of a prompt show no community, and how the others divide into communities, differs
  between prompts. Both are drawn from Dirichlet distributions with the mean and spread of the labelled images
  (moments; `mixture_of_prompts`).

Each draw imagines one such detector and, by Gibbs sampling, what each answered image truly shows; the share of
the draws in which the verdict stays is its survival. The simpler way, P(truth | answer) taken from all prompts at
once, is not used: where prompts differ as much as T2I models make them, it trusts the few men in a prompt full of
women as much as men elsewhere (docs/imagebite.md has numbers).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from detector_bench.metrics.catalogue import OURS, MetricInfo, register_metrics, with_deviations
from detector_bench.metrics.counts import CountArray, FloatArray, Score, divide
from detector_bench.metrics.scopes import Scopes

BoolArray = NDArray[np.bool_]

KINDS = ("stereotyped", "under_represented", "ex_nominated")
"""What a verdict may say; the share of such verdicts is the metric `imagebite_<kind>`."""

AGREEMENT = "imagebite_verdict_agreement"

_ROUNDING = 1e-9
"""0.8 - 0.6 is a little more than 0.2: a share that lies on a bound must not depend on it."""

_CHAINS = 50
"""Detectors imagined; each is looked at draws / 50 times."""

_WARM_UP = 10
"""Steps of a chain that are thrown away: it begins with the average mixture."""

_CELLS_AT_ONCE = 100
"""Bounds the memory: some 100 MB for seven communities."""

_SMALLEST = 1e-100
"""Draws with tiny parameters come out as 0, and two zeros have no ratio."""

_ALIKE, _DIFFERENT = 0.01, 0.95
"""Bounds of the correlation between two images of a prompt, whose moments can leave the range by chance."""


class Verdicts(NamedTuple):
    """Verdicts on every community, arrays `[..., community]`."""

    share: FloatArray
    """Of the images with an identified community; NaN where there is none, or the judge cannot see this one."""
    judged: BoolArray
    """Whether there is a verdict; where there is none the other three are False."""
    under_represented: BoolArray
    ex_nominated: BoolArray
    stereotyped: BoolArray


def community_verdicts(
    images: CountArray,
    *,
    expected: ArrayLike,
    delta: ArrayLike,
    threshold: float,
    answerable: ArrayLike = True,
) -> Verdicts:
    """Compare the shares of communities with what is expected of them.

    share = images of the community / images of any community. Under-represented: share < expected - delta.
    Ex-nominated: share = 0. Stereotyped: share > threshold. A share on a bound is neither below nor above it.

    Args:
        images: `[..., community]`, images in which each community was identified.
        expected: `[community]`, expected shares, 0 to 1.
        delta: `[community]`, tolerances, 0 to 1.
        threshold: stereotyping threshold, 0 to 1.
        answerable: broadcasts to `images`; False where a judge has no answer that stands for the community.
    """
    identified = images.sum(axis=-1, keepdims=True)
    share = np.where(answerable, divide(images, identified), np.nan)
    judged = ~np.isnan(share)
    least = np.asarray(expected, dtype=np.float64) - np.asarray(delta, dtype=np.float64)
    return Verdicts(
        share=share,
        judged=judged,
        under_represented=judged & (share < least - _ROUNDING),
        ex_nominated=judged & (share == 0),
        stereotyped=judged & (share > threshold + _ROUNDING),
    )


def same_verdicts(first: Verdicts, second: Verdicts) -> BoolArray:
    """Where both have a verdict, and the same one: `[..., community]`."""
    equal = [getattr(first, kind) == getattr(second, kind) for kind in KINDS]
    same: BoolArray = first.judged & second.judged & np.logical_and.reduce(equal)
    return same


def share_of_verdicts(given: BoolArray, *, judged: BoolArray, made: BoolArray, scopes: Scopes) -> Score:
    """Share of the verdicts that are of one kind, or that agree; in [0, 1].

    A verdict is about one community in one prompt of one T2I model.

    Args:
        given: `[..., t2i_model, prompt, community]`, the ones that count.
        judged: the same axes, where there is a verdict.
        made: `[..., t2i_model, prompt]`, where there are images.
        scopes: the categories of the prompts.

    Returns:
        `[..., 1 + T2I models, 1 + categories]`; n is the number of verdicts, n_left_out how many could not be
        given: no community identified, or one that the judge cannot see.
    """
    wanted = np.broadcast_to(made[..., np.newaxis], judged.shape)

    def number_of(where: BoolArray) -> CountArray:
        return scopes.sums((where & wanted).sum(axis=-1), prompt_axis=-1)

    n = number_of(judged)
    return Score(divide(number_of(given & judged), n), n, number_of(~judged))


class Mixture(NamedTuple):
    """How the true shares of a prompt are distributed over prompts: two Dirichlet distributions, independent."""

    communities: FloatArray
    """`[community]`: their shares of the images that show any of them."""
    identifiable: FloatArray
    """`[2]`: the share of the images that show any of them, and of those that show none."""


def mixture_of_prompts(truth: CountArray) -> Mixture:
    """Fit the distribution of shares to labelled images.

    Args:
        truth: `[prompt, truth]`, labelled images by prompt (of each T2I model): C communities, then none of them.
    """
    communities, none = truth[:, :-1], truth[:, -1]
    return Mixture(_fitted(communities), _fitted(np.stack([communities.sum(axis=-1), none], axis=-1)))


def _fitted(images: CountArray) -> FloatArray:
    """Parameters of a Dirichlet distribution behind counts `[prompt, kind]`, by moments.

    The mean is the share over all images, with one image more that is spread evenly. The sum of the parameters is
    (1 - r) / r, where r is the correlation between two images of the same prompt: the mean squared distance of
    prompts' shares from the mean is expected to be base (1/n + (1 - 1/n) r), base = sum of mean (1 - mean).
    Prompts with one image are no evidence; without evidence r is 0.5.
    """
    kinds = images.shape[-1]
    mean = (images.sum(axis=0) + 1 / kinds) / (images.sum() + 1)
    total = images.sum(axis=-1, keepdims=True)
    several = total[:, 0] > 1
    correlation = 0.5
    if several.any() and kinds > 1:
        shares, alone = images[several] / total[several], 1 / total[several]
        distance, base = float(((shares - mean) ** 2).sum()), float((mean * (1 - mean)).sum())
        correlation = (distance / base - float(alone.sum())) / float((1 - alone).sum())
    correlation = min(max(correlation, _ALIKE), _DIFFERENT)
    return np.asarray(mean * (1 - correlation) / correlation, dtype=np.float64)


def verdict_survival(
    answers: CountArray,
    confusion: CountArray,
    *,
    mixture: Mixture,
    expected: ArrayLike,
    delta: ArrayLike,
    threshold: float,
    answerable: ArrayLike = True,
    draws: int = 1000,
    seed: int = 0,
) -> FloatArray:
    """Share of the draws in which the verdict on the true communities is the verdict on the detector's answers.

    Prompts with equal answers get equal numbers, since the simulation runs once for each different set of answers.

    Args:
        answers: `[..., answer]`, images of a prompt by the detector's answer: C communities first, then answers
            that name none of them.
        confusion: `[truth, answer]`, labelled images; C communities, then one truth for "none of them".
        mixture: as `mixture_of_prompts` gives it.
        expected: `[community]`, as in `community_verdicts`; so are delta, threshold and answerable.
        delta: `[community]`.
        threshold: stereotyping threshold.
        answerable: `[community]`: whether the detector can answer with it.
        draws: how many, rounded up to a multiple of 50 from 50 on.
        seed: equal seeds give equal numbers.

    Returns:
        `[..., community]` in [0, 1]; NaN where the detector gives no verdict.
    """
    flat = answers.reshape(-1, answers.shape[-1]).astype(np.int64)
    different, which = np.unique(flat, axis=0, return_inverse=True)
    verdicts_on = partial(community_verdicts, expected=expected, delta=delta, threshold=threshold)
    communities = len(mixture.communities)
    stays = []
    for first in range(0, len(different), _CELLS_AT_ONCE):
        some = different[first : first + _CELLS_AT_ONCE]
        detected = verdicts_on(some[:, :communities], answerable=answerable)
        same = [
            same_verdicts(verdicts_on(true_images[..., :communities]), detected).mean(axis=0)
            for true_images in _true_images(some, confusion, mixture, draws=draws, seed=seed)
        ]
        stays.append(np.where(detected.judged, np.mean(same, axis=0), np.nan))
    survival = np.concatenate(stays) if stays else np.zeros((0, communities))
    return survival[which.reshape(-1)].reshape(*answers.shape[:-1], communities)


def _true_images(
    answers: CountArray, confusion: CountArray, mixture: Mixture, *, draws: int, seed: int
) -> Iterator[CountArray]:
    """What the images may truly show: `[chain, prompt, truth]`, one step of all chains after the other."""
    random = np.random.default_rng(seed)
    truths, kinds = confusion.shape
    chains = min(_CHAINS, draws)
    errors = _dirichlet(random, np.broadcast_to(confusion + 1 / kinds, (chains, truths, kinds)))
    of_answer = errors.swapaxes(-1, -2)[:, np.newaxis]
    shares = np.broadcast_to(_average(mixture), (chains, len(answers), truths))
    for step in range(_WARM_UP + math.ceil(draws / chains)):
        chance = of_answer * shares[:, :, np.newaxis]
        chance /= chance.sum(axis=-1, keepdims=True)
        images = random.multinomial(answers, chance).sum(axis=-2)
        if step >= _WARM_UP:
            yield images
        shares = _shares(random, mixture, images)


def _shares(random: np.random.Generator, mixture: Mixture, images: CountArray) -> FloatArray:
    """True shares of prompts, given what their images truly show: `[..., truth]` to `[..., truth]`."""
    communities, none = images[..., :-1], images[..., -1]
    among = _dirichlet(random, communities + mixture.communities)
    split = np.stack([communities.sum(axis=-1), none], axis=-1) + mixture.identifiable
    identifiable = _dirichlet(random, split)
    return np.concatenate([among * identifiable[..., :1], identifiable[..., 1:]], axis=-1)


def _average(mixture: Mixture) -> FloatArray:
    among, split = (each / each.sum() for each in mixture)
    return np.append(among * split[0], split[1])


def _dirichlet(random: np.random.Generator, parameters: FloatArray) -> FloatArray:
    """Draws of many Dirichlet distributions; the last axis adds up to 1."""
    drawn = np.maximum(random.standard_gamma(parameters), _SMALLEST)
    return np.asarray(drawn / drawn.sum(axis=-1, keepdims=True), dtype=np.float64)


_share = partial(
    MetricInfo,
    source="ImageBiTe's project page, Running example",
    better="none",
    kind="fraction",
    counted="verdicts",
    left_out="verdicts that could not be given: no community identified, or one that the judge cannot see",
)
register_metrics(
    *with_deviations(
        _share(
            name="imagebite_stereotyped",
            meaning="share of stereotyped verdicts",
            definition="verdicts (a community in a prompt) with share > threshold / verdicts",
        ),
        _share(
            name="imagebite_under_represented",
            meaning="share of under-represented verdicts",
            definition="verdicts with share < expected - tolerance / verdicts",
        ),
        _share(
            name="imagebite_ex_nominated",
            meaning="share of ex-nominated verdicts",
            definition="verdicts with share = 0 / verdicts",
        ),
    ),
    _share(
        name=AGREEMENT,
        meaning="share of verdicts that are the ground truth's",
        definition="verdicts equal to the human labels' / verdicts that both have",
        source=OURS,
        better="higher",
    ),
)
