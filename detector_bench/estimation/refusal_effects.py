"""Could a verdict on T2I models be an effect of what they refused? Each test, had the refused images been made.

Nobody knows what they would have shown, so that extremes are asked for each test. Of the mean prompt bias score:
all refused images show the first class; all show the second. Of the model bias score: all show one class, each in
turn; they fill the rare classes of their prompts up; all show the most frequent one of their prompt. (Several, as
an estimate without what chance adds is not lowest where each prompt's own score is.) A difference of two T2I
models is asked with the lowest of the one against the highest of the other. A verdict that changes at any of
these could be an effect of refusals; where nothing was refused they are all alike, and no verdict changes.

Each test is asked alone: the others of its family (Holm) keep their p-values. That some images are refused and
others not is taken as given; a refused image would have been clear, which is the worst that it could be.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from detector_bench.estimation.bounded_shares import BoundedShares
from detector_bench.estimation.partly_labelled import PartlyLabelled
from detector_bench.estimation.t2i_model_tests import (
    ClassShares,
    ScoreTest,
    T2IModelTests,
    TestedScores,
    UnadjustedTest,
)
from detector_bench.metrics.counts import FloatArray, divide
from detector_bench.metrics.refusals import added_to_the_frequent, added_to_the_rare

_Fill = Callable[[FloatArray, FloatArray], FloatArray]
_MEAN = "mean_prompt_bias_score"


class RefusalEffect(NamedTuple):
    """What refused images could have made of one test."""

    low: float
    """The lowest that the score, or the difference, would have been estimated at."""
    high: float
    refused: tuple[int, ...]
    """Refused requests of each T2I model."""
    could_explain: bool
    """Something is said to be beyond chance that would not be, or would be the other way round, at one end."""
    could_hide: bool
    """Nothing is said to be beyond chance, and something would be at one end."""


def refusal_effects(
    images: PartlyLabelled, refused: NDArray[np.int64], tests: T2IModelTests, *, confidence: float, seed: int
) -> tuple[list[RefusalEffect | None], list[RefusalEffect | None]]:
    """Ask every test for what refusals could have done to it.

    Args:
        images: those of the tests.
        refused: requests, `[t2i_model, prompt]`.
        tests: as `t2i_model_tests` gave them for these images.
        confidence: of the tests.
        seed: of the tests.

    Returns:
        For each bias and each difference, in their order; None where none of its T2I models refused anything.
    """
    of_models = refused.sum(axis=1)
    if not of_models.any():
        return [None] * len(tests.biases), [None] * len(tests.differences)
    fills: dict[str, _Fill] = {str(place): _all_in(place) for place in range(images.classes)}
    fills |= {"rare": added_to_the_rare, "frequent": added_to_the_frequent}
    every, scores = refused.ravel().astype(np.float64), TestedScores(images, seed)
    ends = {name: scores.with_shares(_completed(scores.class_shares, every, fill)) for name, fill in fills.items()}
    found = []
    for family in (tests.biases, tests.differences):
        p_values = np.array([each.p_value for each in family])
        effects: list[RefusalEffect | None] = []
        for place, test in enumerate(family):
            counts = tuple(int(of_models[model]) for model in test.t2i_models)
            if not any(counts):
                effects.append(None)
                continue
            found_at = _extremes(test, ends)
            effects.append(_effect(test, place, found_at, p_values, counts, alpha=1 - confidence))
        found.append(effects)
    return found[0], found[1]


def _all_in(place: int) -> _Fill:
    def fill(counts: FloatArray, refused: FloatArray) -> FloatArray:
        added: FloatArray = counts + np.eye(counts.shape[-1])[place] * refused[:, np.newaxis]
        return added

    return fill


def _completed(found: ClassShares, refused: FloatArray, fill: _Fill) -> ClassShares:
    """Shares as they would be with the refused images."""
    clear = np.where(found.known, found.clear, 0.0)
    # A prompt of which no image is clear has a score of refused images alone; of one without a label nobody
    # knows whether any is.
    wholly = ~found.known & (refused > 0) & (found.labelled | found.empty)
    counts = np.stack([np.nan_to_num(share.value) for share in found.shares], axis=-1) * clear[:, np.newaxis]
    values = divide(fill(counts, refused), (clear + refused)[:, np.newaxis])
    partly = found.known & (refused > 0)
    shares = [
        _share(share, values[:, place], clear, refused, partly=partly, wholly=wholly)
        for place, share in enumerate(found.shares)
    ]
    return found._replace(shares=shares, known=found.known | wholly)


def _share(
    share: BoundedShares,
    values: FloatArray,
    clear: FloatArray,
    refused: FloatArray,
    *,
    partly: NDArray[np.bool_],
    wholly: NDArray[np.bool_],
) -> BoundedShares:
    """The share among clear and refused images: what was not known before weighs less, and the refused images
    are drawn from the T2I model as the others are."""
    weight = divide(clear, clear + refused) ** 2
    drawn_before, drawn = divide(weight, clear), divide(np.ones_like(clear), clear + refused)

    def spread(p: FloatArray) -> FloatArray:
        within = np.clip(np.nan_to_num(p), 0, 1)
        return within * (1 - within)

    def of(part: FloatArray, further: FloatArray | float, alone: FloatArray | float) -> FloatArray:
        return np.where(wholly, alone, np.where(partly, weight * part + further, part))

    more = np.maximum(drawn * spread(values) - drawn_before * spread(share.value), 0)
    return replace(
        share,
        value=np.where(partly | wholly, values, share.value),
        own_part=of(share.own_part, 0.0, 0.0),
        binomial_part=of(share.binomial_part, drawn - drawn_before, drawn),
        grain=of(share.grain, 0.0, 0.0),
        measured=of(share.measured, more, 0.0),
        freedom=np.where(wholly, np.inf, share.freedom),
        measured_freedom=np.where(wholly, 1.0, share.measured_freedom),
    )


def _extremes(test: ScoreTest, ends: Mapping[str, TestedScores]) -> list[UnadjustedTest]:
    names = ("0", "1") if test.metric == _MEAN else tuple(ends)
    if len(test.t2i_models) == 1:
        return [ends[name].bias(test.metric, *test.t2i_models) for name in names]
    first, second = (
        sorted(names, key=lambda name: ends[name].bias(test.metric, model).value.value)
        for model in test.t2i_models
    )
    return [
        ends[one].difference(test.metric, *test.t2i_models, other=ends[other])
        for one, other in ((first[0], second[-1]), (first[-1], second[0]))
    ]


def _effect(
    test: ScoreTest,
    place: int,
    ends: Sequence[UnadjustedTest],
    p_values: FloatArray,
    refused: tuple[int, ...],
    *,
    alpha: float,
) -> RefusalEffect:
    def verdict(value: float, p_value: float) -> float:
        """0: nothing is beyond chance; else the direction."""
        others = p_values.copy()
        others[place] = p_value
        return float(np.sign(value)) if _adjusted(others)[place] <= alpha else 0.0

    said = verdict(test.value, test.p_value)
    changes = any(verdict(each.value.value, each.p_value) != said for each in ends)
    values = np.array([test.value, *(each.value.value for each in ends)])
    low, high = float(np.fmin.reduce(values)), float(np.fmax.reduce(values))
    return RefusalEffect(low, high, refused, changes and said != 0, changes and said == 0)


def _adjusted(p_values: FloatArray) -> FloatArray:
    """Holm's adjusted p-values; NaN where there is nothing to test."""
    adjusted = np.full(len(p_values), np.nan)
    tested = np.flatnonzero(~np.isnan(p_values))
    order = tested[np.argsort(p_values[tested], kind="stable")]
    steps = p_values[order] * np.arange(len(order), 0, -1)
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1)
    return adjusted
