"""Whether people agree otherwise where labels were proposed in a grid than where each picture was asked alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from detector_bench.labelling.agreement_numbers import NO_LABEL, Agreement, agreement_of
from detector_bench.labelling.label_table import GivenLabel
from detector_bench.labelling.questions import Question
from detector_bench.labelling.sentences import IN_ENGLISH, Sentences
from detector_bench.metrics.agreement import fleiss_of_sums
from detector_bench.metrics.counts import FloatArray

PERMUTATIONS = 999
LEVEL = 0.05
"""Below which p-value a difference is called one."""

_AT_ONCE = 64


@dataclass(frozen=True, slots=True)
class Ways:
    """Agreement on pictures that all of their annotators labelled in a grid, and on those that all labelled alone.

    Attributes:
        grid, alone: agreement of either; the calibration round, which is always asked alone, is not in it.
        mixed: pictures with two labels or more of which some came from a grid and some did not; in neither.
        confirmed: labels out of a grid that are the proposed ones.
        grid_labels: all labels out of a grid.
        p_value: of the difference of both kappas, see `permutation_p`; NaN where a kappa is undefined.
    """

    grid: Agreement
    alone: Agreement
    mixed: int
    confirmed: int
    grid_labels: int
    p_value: float


def ways_of(given: Sequence[GivenLabel], question: Question, annotators: Sequence[str], *, seed: int = 0) -> Ways:
    """Compare both ways.

    Args:
        given: as people said it on their own, see `LabelStore.given(independent=True)`.
        question: which one.
        annotators: of whom; two or more.
        seed: of the permutations.
    """
    chosen = [
        one
        for one in given
        if one.question == question.name and one.annotator in annotators and not one.item.in_calibration
    ]
    row = {name: place for place, name in enumerate(dict.fromkeys(one.item.item_id for one in chosen))}
    labels = np.full((len(annotators), len(row)), NO_LABEL)
    in_grid = np.zeros(labels.shape, dtype=bool)
    confirmed = grid_labels = 0
    for one in chosen:
        place = annotators.index(one.annotator), row[one.item.item_id]
        labels[place] = question.labels.index(one.choice.label)
        in_grid[place] = one.entry.asking.in_grid
        grid_labels += one.entry.asking.in_grid
        confirmed += one.entry.asking.proposed == one.choice.label
    there = labels != NO_LABEL
    several = there.sum(axis=0) > 1
    all_grid, none_grid = (in_grid | ~there).all(axis=0) & several, ~in_grid.any(axis=0) & several
    every = all_grid | none_grid
    grid, alone = (
        agreement_of(list(labels[:, part]), labels=len(question.labels)) for part in (all_grid, none_grid)
    )
    p_value = permutation_p(labels[:, every], all_grid[every], labels=len(question.labels), seed=seed)
    return Ways(grid, alone, int((several & ~every).sum()), confirmed, grid_labels, p_value)


def ways_sentence(ways: Ways, *, sentences: Sentences = IN_ENGLISH) -> str:
    """What can be said of the difference; it is concluded on with a p-value below 5 %, and not otherwise."""
    say = sentences.say
    parts = [
        say(
            "{n} of {total} labels out of a grid are the proposed ones.",
            n=ways.confirmed,
            total=ways.grid_labels,
        )
    ]
    if ways.mixed:
        parts.append(
            sentences.say_of(
                ways.mixed,
                "{n} picture was labelled in both ways, and is in neither row.",
                "{n} pictures were labelled in both ways, and are in neither row.",
            )
        )
    if math.isnan(ways.p_value):
        parts.append(say("Whether the grid changes agreement cannot be said yet."))
        return " ".join(parts)
    if ways.p_value >= LEVEL:
        parts.append(say("A difference in agreement cannot be told from chance; it may still be there."))
    elif ways.grid.kappa > ways.alone.kappa:
        parts.append(say("In a grid people agree more than one picture at a time."))
    else:
        parts.append(say("In a grid people agree less than one picture at a time."))
    p = sentences.number(ways.p_value, decimals=3)
    parts.append(say("p = {p}, by {n} permutations of which pictures were in a grid.", p=p, n=PERMUTATIONS))
    return " ".join(parts)


def caution(sentences: Sentences = IN_ENGLISH) -> str:
    """What is to be kept in mind of labels that were proposed."""
    return sentences.say(
        "A proposed label leads: agreement in a grid may be agreement with the proposal, and not with the "
        "picture. Labels that detectors proposed also make these detectors look better than they are."
    )


def permutation_p(
    codes: NDArray[np.int64], in_grid: NDArray[np.bool_], *, labels: int, seed: int, times: int = PERMUTATIONS
) -> float:
    """Two-sided p-value of "the way makes no difference", by dealing out anew which pictures were in a grid.

    Exact where chance chose them, as at the desk: if the way changes no label, all deals were equally likely. The
    statistic is the difference of both kappas, Cohen's of two annotators, Fleiss' of more.

    Args:
        codes: positions of labels, `[annotator, picture]`, `NO_LABEL` where there is none.
        in_grid: by picture.
        labels: how many there are.
        seed: of the deals.
        times: deals.

    Returns:
        (1 + deals with a difference at least as large) / (1 + deals), from 1 / (1 + times) to 1; NaN where either
        kappa is undefined. A deal with an undefined kappa counts as at least as large.
    """
    sums = _sums_of_two(codes, labels) if len(codes) == 2 else _sums_of_many(codes, labels)
    kappa = _cohen if len(codes) == 2 else _fleiss
    total = sums.sum(axis=0)

    def difference(chosen: FloatArray) -> FloatArray:
        part = chosen @ sums
        return np.abs(kappa(part, labels) - kappa(total - part, labels))

    observed = float(difference(in_grid[None].astype(float))[0])
    if math.isnan(observed):
        return math.nan
    random, found = np.random.default_rng(seed), 0
    dealt = np.tile(in_grid.astype(float), (_AT_ONCE, 1))
    for start in range(0, times, _AT_ONCE):
        differences = difference(random.permuted(dealt, axis=1))[: times - start]
        found += int((np.isnan(differences) | (differences >= observed - 1e-12)).sum())
    return (1 + found) / (1 + times)


def _sums_of_two(codes: NDArray[np.int64], labels: int) -> FloatArray:
    """By picture, its cell of the confusion table."""
    cells: FloatArray = np.eye(labels * labels)[codes[0] * labels + codes[1]]
    return cells


def _cohen(sums: FloatArray, labels: int) -> FloatArray:
    """Cohen's kappa of each row of cells."""
    table = sums.reshape(len(sums), labels, labels)
    with np.errstate(invalid="ignore", divide="ignore"):
        shares = table / table.sum(axis=(1, 2), keepdims=True)
        chance = (shares.sum(axis=1) * shares.sum(axis=2)).sum(axis=1)
        same = np.trace(shares, axis1=1, axis2=2)
        return np.where(chance < 1 - 1e-12, (same - chance) / (1 - chance), np.nan)


def _sums_of_many(codes: NDArray[np.int64], labels: int) -> FloatArray:
    """By picture with the most common number of labels: its share of equal pairs, 1, and how often each label."""
    counts = np.stack([(codes == label).sum(axis=0) for label in range(labels)], axis=1).astype(float)
    number = counts.sum(axis=1)
    usual = number == np.bincount(number.astype(int)).argmax() if number.size else number > 0
    with np.errstate(invalid="ignore", divide="ignore"):
        equal = (counts * (counts - 1)).sum(axis=1) / (number * (number - 1))
    return np.column_stack([np.where(usual, equal, 0), usual, np.where(usual[:, None], counts, 0)])


def _fleiss(sums: FloatArray, labels: int) -> FloatArray:
    """Fleiss' kappa of each row of sums."""
    assert sums.shape[1] == labels + 2  # noqa: S101 - as `_sums_of_many` makes them
    return fleiss_of_sums(sums)
