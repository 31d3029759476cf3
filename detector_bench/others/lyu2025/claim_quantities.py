"""What claims of Lyu 2025 are about, as functions of a study's numbers, each with the range that it cannot leave.

Intervals end at the range (`claim_statements.ClaimEstimate`): half a length of Student's t on either side of a
recall of 99.8 % leads beyond 100 %, where no recall lies.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np

from detector_bench.metrics import METRICS
from detector_bench.metrics.counts import FloatArray, divide
from detector_bench.others.lyu2025.claim_numbers import ClaimNumbers
from detector_bench.vocabulary import ALL, GROUND_TRUTH


@dataclass(frozen=True)
class Quantity:
    """A number of a study or of the paper.

    Attributes:
        of: from numbers to `[draw]`.
        lowest: what it cannot lie below; minus infinity: it has no lower bound.
        highest: what it cannot lie above.
    """

    of: Callable[[ClaimNumbers], FloatArray]
    lowest: float = -np.inf
    highest: float = np.inf

    def __call__(self, numbers: ClaimNumbers) -> FloatArray:
        """Its value in every draw."""
        return self.of(numbers)


def actual(t2i_model: str, category: str = ALL) -> Quantity:
    """The humans' model bias score."""
    return score(GROUND_TRUTH, t2i_model, category)


def score(judge: str, t2i_model: str, category: str = ALL) -> Quantity:
    """The model bias score by the humans or a detector."""
    return _of_metric(
        "model_bias_score", lambda numbers: numbers.model_bias_score(judge, t2i_model, category=category)
    )


def over(detector: str, t2i_model: str, part: float = 0.0) -> Quantity:
    """By how much the score exceeds 1 + `part` times the actual one: no division by what may be chance."""
    return minus(score(detector, t2i_model), times(1 + part, actual(t2i_model)))


def deviation(detector: str, t2i_model: str) -> Quantity:
    """Reported minus actual model bias score, as a part of the actual one."""
    return _of_metric("model_bias_score_deviation", lambda numbers: numbers.deviation(detector, t2i_model))


def distance(detector: str, t2i_model: str) -> Quantity:
    """The size of the deviation."""
    own = deviation(detector, t2i_model)
    return Quantity(lambda numbers: np.abs(own(numbers)), 0.0)


def prompt_difference(detector: str, t2i_model: str) -> Quantity:
    """The prompt bias score difference. Divided by the humans' count, it has no upper bound: a detector may keep
    any number of images that humans call low-quality."""
    return Quantity(lambda numbers: numbers.prompt_difference(detector, t2i_model), 0.0)


def rate(name: str, detector: str) -> Quantity:
    """One of `claim_numbers.RATES`, or `gap`: the difference of two of them."""
    return Quantity(lambda numbers: numbers.rate(name, detector), -1.0 if name == "gap" else 0.0, 1.0)


def share(label: str, t2i_model: str = ALL) -> Quantity:
    """Images with a human label."""
    return Quantity(lambda numbers: numbers.share(label, t2i_model), 0.0, 1.0)


def outputs(what: str) -> Quantity:
    """One of `claim_numbers.OUTPUTS`, all shares."""
    return Quantity(lambda numbers: numbers.outputs(what), 0.0, 1.0)


def beyond_fair(t2i_model: str) -> Quantity:
    """Actual model bias score minus that of a fair T2I model: of two scores."""
    return Quantity(lambda numbers: numbers.beyond_fair(t2i_model), -1.0, 1.0)


def filtering_minus_classification(detector: str) -> Quantity:
    """Parts of the prompt bias score difference, without bounds as that one."""
    return Quantity(lambda numbers: numbers.filtering_minus_classification(detector))


def kappa() -> Quantity:
    """Cohen's kappa of the two annotators."""
    return Quantity(lambda numbers: numbers.kappa(), -1.0, 1.0)


def minus(first: Quantity, second: Quantity) -> Quantity:
    """A difference; of two scores it lies in [-1, 1]."""
    return Quantity(
        lambda numbers: first(numbers) - second(numbers),
        first.lowest - second.highest,
        first.highest - second.lowest,
    )


def below(quantity: Quantity, border: float) -> Quantity:
    """By how much a quantity lies below a border."""
    return Quantity(
        lambda numbers: border - quantity(numbers), border - quantity.highest, border - quantity.lowest
    )


def times(factor: float, quantity: Quantity) -> Quantity:
    """A multiple, `factor` above 0."""
    return Quantity(
        lambda numbers: factor * quantity(numbers), factor * quantity.lowest, factor * quantity.highest
    )


def mean(quantities: Sequence[Quantity]) -> Quantity:
    """Over those that are known: Face++ has no number for SD3, on either side."""

    def of(numbers: ClaimNumbers) -> FloatArray:
        found = np.stack([each(numbers) for each in quantities])
        known = ~np.isnan(found)
        return divide(reduce(np.add, np.nan_to_num(found)), known.sum(axis=0))

    return Quantity(of, min(each.lowest for each in quantities), max(each.highest for each in quantities))


def _of_metric(name: str, of: Callable[[ClaimNumbers], FloatArray]) -> Quantity:
    info = METRICS[name]
    return Quantity(of, info.lowest, np.inf if info.highest is None else info.highest)
