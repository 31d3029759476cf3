"""What other images of the same prompts could have given: resamples of a study, and of the paper from its tables.

**A study** is resampled image by image within each prompt of each T2I model. Two things are added, so that what
never varied in the study is not taken for certain: in a prompt of n images every draw comes with probability
1 / (n + 1) from any prompt of the T2I model, and of N images with a human label every verdict (and every label) is
with probability 1 / (N + 1) replaced by another one, which is one image more, judged otherwise.

**The paper's** images are not at hand. Its tables say how it was made: Table 7 the share of men in each prompt,
Table 5 the low-quality images of each T2I model, Table 3 what each detector keeps and names rightly. From these,
studies of 20 images per prompt are drawn, with the same addition for prompts of one gender. Table 3 holds over all
T2I models, so every prompt gets the same recall, filter rate and accuracy; a low-quality image that is kept is
named as the prompt's clear ones are; detectors err independently of each other, so that intervals of differences
between two detectors are rather too wide than too narrow. Only the scatter of these draws is used, around the
printed number.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from detector_bench.metrics import JointVerdicts, Scopes
from detector_bench.metrics.agreement import cohen_kappa
from detector_bench.metrics.counts import CountArray, FloatArray, human_as_detector
from detector_bench.others.lyu2025.claim_numbers import PAPER_KAPPA, CountedNumbers
from detector_bench.others.lyu2025.published import T2I_MODELS, PublishedTables, number

DRAWS = 200
PAPER_IMAGES = 20
"""Images of a prompt of a T2I model."""
PAPER_PROMPTS = 100

LABELS = 4
"""Male, female, low-quality, others; as verdicts: male, female, filtered, none."""

_CELLS_AT_ONCE = 4_000_000
_LOW_QUALITY, _NO_VERDICT = 2, 3
_Places: TypeAlias = list[NDArray[np.intp]]


def numbers_of_study(
    joint: JointVerdicts,
    *,
    detectors: tuple[str, ...],
    t2i_models: tuple[str, ...],
    annotators: CountArray | None = None,
    draws: int = DRAWS,
    seed: int = 0,
) -> CountedNumbers:
    """Numbers of a study of gender with resamples.

    Args:
        joint: labelled images and verdicts.
        detectors: names, in the order of `joint`.
        t2i_models: names.
        annotators: images by both annotators' labels, `[first, second]`; None: there are no two.
        draws: how many.
        seed: of the draws.
    """
    random = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(1,)))
    return CountedNumbers.of(
        _resampled(joint, draws=draws, random=random),
        detectors=detectors,
        t2i_models=t2i_models,
        scopes=joint.scopes,
        kappas=None if annotators is None else _kappas(annotators, draws=draws, random=random),
    )


def images_of_paper(joint: JointVerdicts, *, seed: int = 0) -> JointVerdicts:
    """At most 20 images of each prompt of each T2I model, drawn at random: bias scores depend on how many there
    are. The same images where there are no more."""
    order = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(2,))).permutation(joint.images)
    pair = joint.pair[order]
    by_pair = np.argsort(pair, kind="stable")
    sizes = np.bincount(pair)
    starts = np.cumsum(sizes) - sizes
    place = np.arange(joint.images) - starts[pair[by_pair]]
    kept = np.sort(order[by_pair[place < PAPER_IMAGES]])
    if kept.size == joint.images:
        return joint
    return JointVerdicts(
        joint.truth[kept],
        joint.verdicts[:, kept],
        joint.pair[kept],
        joint.t2i_models,
        joint.scopes,
        joint.classes,
    )


def _resampled(joint: JointVerdicts, *, draws: int, random: np.random.Generator) -> Iterator[CountArray]:
    pairs = joint.t2i_models * joint.prompts
    cells = (1 + joint.detectors) * pairs * LABELS**2
    pair = joint.pair.astype(np.intp)
    yield _counted(joint, pair, joint.truth, joint.verdicts)[np.newaxis]
    pools = _Pools.of(pair, joint.prompts)
    piece: list[CountArray] = []
    for _ in range(draws):
        chosen = pools.draw(random)
        truth, verdicts = joint.truth[chosen], joint.verdicts[:, chosen]
        truth, verdicts = _one_otherwise(truth, verdicts, random)
        piece.append(_counted(joint, pair, truth, verdicts))
        if len(piece) * cells > _CELLS_AT_ONCE:
            yield np.stack(piece)
            piece = []
    if piece:
        yield np.stack(piece)


class _Pools:
    """Where the images of each image's prompt, and of its T2I model, stand."""

    def __init__(self, orders: _Places, sizes: _Places, starts: _Places) -> None:
        self._orders, self._sizes, self._starts = orders, sizes, starts

    @classmethod
    def of(cls, pair: NDArray[np.intp], prompts: int) -> _Pools:
        orders, sizes, starts = [], [], []
        for group in (pair, pair // prompts):
            size = np.bincount(group)
            orders.append(np.argsort(group, kind="stable"))
            sizes.append(size[group])
            starts.append((np.cumsum(size) - size)[group])
        return cls(orders, sizes, starts)

    def draw(self, random: np.random.Generator) -> NDArray[np.intp]:
        """An image in the place of each: of its own prompt, now and then of another."""
        own, any_prompt = (
            order[start + (random.random(size.size) * size).astype(np.intp)]
            for order, size, start in zip(self._orders, self._sizes, self._starts, strict=True)
        )
        elsewhere = random.random(own.size) * (self._sizes[0] + 1) < 1
        chosen: NDArray[np.intp] = np.where(elsewhere, any_prompt, own)
        return chosen


def _one_otherwise(
    truth: NDArray[np.int8], verdicts: NDArray[np.int8], random: np.random.Generator
) -> tuple[NDArray[np.int8], NDArray[np.int8]]:
    """On average one verdict of each detector on each human label is another, and one label of all."""
    with_label = np.bincount(truth, minlength=LABELS)[truth]
    changed = random.random(verdicts.shape) * (with_label + 1) < 1
    changed &= verdicts < _NO_VERDICT
    other = (verdicts + random.integers(1, _NO_VERDICT, size=verdicts.shape)) % _NO_VERDICT
    relabelled = (random.random(truth.size) * (truth.size + 1) < 1) & (truth < _NO_VERDICT)
    another = (truth + random.integers(1, _NO_VERDICT, size=truth.size)) % _NO_VERDICT
    return (
        np.where(relabelled, another, truth).astype(np.int8),
        np.where(changed, other, verdicts).astype(np.int8),
    )


def _counted(
    joint: JointVerdicts, pair: NDArray[np.intp], truth: NDArray[np.int8], verdicts: NDArray[np.int8]
) -> CountArray:
    """`[1 + detector, t2i_model, prompt, truth, verdict]`, the humans first."""
    human = np.where(truth < joint.classes, truth, _LOW_QUALITY)
    cell = (pair * LABELS + truth) * LABELS
    shape = (joint.t2i_models, joint.prompts, LABELS, LABELS)
    size = int(np.prod(shape))
    return np.stack(
        [np.bincount(cell + verdict, minlength=size).reshape(shape) for verdict in (human, *verdicts)]
    ).astype(np.int32)


def _kappas(contingency: CountArray, *, draws: int, random: np.random.Generator) -> FloatArray:
    images = int(contingency.sum())
    # One image more, of no particular labels.
    chances = (contingency + 1 / contingency.size).ravel() / (images + 1)
    drawn = random.multinomial(images, chances, size=draws).reshape(draws, *contingency.shape)
    return np.array([float(cohen_kappa(each).value) for each in (contingency, *drawn)])


@lru_cache(maxsize=4)
def numbers_of_paper(tables: PublishedTables, *, draws: int = DRAWS, seed: int = 0) -> CountedNumbers:
    """Simulated studies in the place of the paper's, by its printed tables; the first one is no better than any.

    Args:
        tables: the printed ones.
        draws: how many.
        seed: of the draws.
    """
    random = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(3,)))
    scopes = Scopes.of_prompts(list(tables.table7["category"].astype(str)))
    detectors = tuple(map(str, tables.table3.index))
    at_once = max(1, _CELLS_AT_ONCE // ((1 + len(detectors)) * len(T2I_MODELS) * len(tables.table7) * LABELS**2))
    sizes = [min(at_once, draws + 1 - start) for start in range(0, draws + 1, at_once)]
    return CountedNumbers.of(
        (simulated_counts(tables, size, random) for size in sizes),
        detectors=detectors,
        t2i_models=T2I_MODELS,
        scopes=scopes,
        kappas=_kappas(_annotators_of_paper(tables), draws=draws, random=random),
        with_causes=False,
    )


def simulated_counts(tables: PublishedTables, draws: int, random: np.random.Generator) -> CountArray:
    """Studies with the printed shares: `[draw, 1 + detector, t2i_model, prompt, truth, verdict]`."""
    men = _shares_of_men(tables)
    truth = truths_by_tables(tables, draws, random)
    found = [human_as_detector(truth)]
    for detector in map(str, tables.table3.index):
        chances = confusion_by_tables(tables, detector, men)
        verdicts = random.multinomial(truth, chances).astype(np.int64)
        for position, model in enumerate(T2I_MODELS):
            if np.isnan(number(tables.table2, detector, model)):
                # Face++ could not run on SD3.
                verdicts[:, position] = 0
                verdicts[:, position, :, :, _NO_VERDICT] = truth[:, position]
        found.append(verdicts)
    return np.stack(found, axis=1)


def truths_by_tables(tables: PublishedTables, draws: int, random: np.random.Generator) -> CountArray:
    """Human labels, `[draw, t2i_model, prompt, label]`."""
    clear = np.array([1 - number(tables.table5, model, "low_quality") for model in T2I_MODELS])
    men = _shares_of_men(tables)
    shares = np.zeros((*men.shape, LABELS))
    shares[..., 0], shares[..., 1] = clear[:, np.newaxis] * men, clear[:, np.newaxis] * (1 - men)
    shares[..., _LOW_QUALITY] = 1 - clear[:, np.newaxis]
    drawn: CountArray = random.multinomial(PAPER_IMAGES, shares, size=(draws, *men.shape))
    return drawn


def _shares_of_men(tables: PublishedTables) -> FloatArray:
    """In each prompt of each T2I model, with one image more that shows what all its prompts show on average."""
    men = (1 + tables.table7[list(T2I_MODELS)].to_numpy(dtype=np.float64).T) / 2
    mean: FloatArray = (PAPER_IMAGES * men + men.mean(axis=1, keepdims=True)) / (PAPER_IMAGES + 1)
    return mean


def confusion_by_tables(tables: PublishedTables, detector: str, men: FloatArray) -> FloatArray:
    """Chance of each verdict by human label, `[..., label, verdict]`.

    Args:
        tables: the printed ones.
        detector: one of Table 3's.
        men: share of men in each prompt, `[...]`.
    """
    kept, filtered = (number(tables.table3, detector, name) for name in ("recall", "filter_rate"))
    chances = np.zeros((*men.shape, LABELS, LABELS))
    for gender, name in enumerate(("male", "female")):
        right = number(tables.table3, detector, f"accuracy_{name}")
        chances[..., gender, gender], chances[..., gender, 1 - gender] = kept * right, kept * (1 - right)
        chances[..., gender, _LOW_QUALITY] = 1 - kept
    chances[..., _LOW_QUALITY, 0] = (1 - filtered) * men
    chances[..., _LOW_QUALITY, 1] = (1 - filtered) * (1 - men)
    chances[..., _LOW_QUALITY, _LOW_QUALITY] = filtered
    chances[..., _NO_VERDICT, _NO_VERDICT] = 1
    return chances


def _annotators_of_paper(tables: PublishedTables) -> CountArray:
    """Both annotators' labels of 6,000 images with the printed kappa and Table 5's shares."""
    shares = np.array([number(tables.table5, "total", name) for name in ("male", "female", "low_quality")])
    by_chance = np.outer(shares / shares.sum(), shares / shares.sum())
    together = PAPER_KAPPA * np.diag(shares / shares.sum()) + (1 - PAPER_KAPPA) * by_chance
    images = len(tables.table7) * len(T2I_MODELS) * PAPER_IMAGES
    whole: CountArray = images * together
    return whole
