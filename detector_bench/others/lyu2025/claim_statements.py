"""What a claim says, as inequalities between numbers that can be tested, and what a study says about them.

- `Above`: a number lies above a border: an order, a sign, a size.
- `Near`: the study's number lies within a tolerance of the paper's (of the range of several of the paper's).
- `All`, `Any`: of several of these.

Each statement has two p-values: one against "it is false", by which it may be said to hold, one against "it is
true", by which it may be said not to hold. So what is open stays open: no evidence against a claim is no evidence
for it. Of `All` the first is the largest of the parts' (intersection-union: nothing to adjust), the second the
smallest times the number of parts (Bonferroni); of `Any` the other way round.

A number divided by its standard error follows Student's t. The standard error is the scatter of resamples
(`claim_draws`); of `Near` it has the paper's part in it, since the two studies are independent.

Intervals end where the number itself can go no further: at 0 and 1 for shares and bias scores, at -1 and 1 for
differences of two (`claim_quantities.Quantity`). What is cut off holds no possible value, so that an interval
holds the true one as often as before. No verdict rests on it: tests know the number and its error alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from detector_bench.metrics.counts import FloatArray
from detector_bench.others.lyu2025.claim_numbers import ClaimNumbers, CountedNumbers
from detector_bench.others.lyu2025.claim_quantities import Quantity

FREEDOM = 100
"""Degrees of freedom: standard errors come from some hundred resamples, and from studies of few hundred images."""

_LEVEL = 0.95


class ClaimEstimate(NamedTuple):
    """A number with its standard error; both NaN where there is none."""

    value: float
    error: float
    lowest: float = -np.inf
    """What no such number lies below: 0 of a share, -1 of the difference of two."""
    highest: float = np.inf
    """What no such number lies above."""

    @property
    def interval(self) -> tuple[float, float]:
        """For this number alone, 95 %, cut to what such a number can be."""
        from scipy import stats

        half = float(stats.t.isf((1 - _LEVEL) / 2, FREEDOM)) * self.error
        low, high = (float(np.clip(self.value + side, self.lowest, self.highest)) for side in (-half, half))
        return low, high


class Sides(NamedTuple):
    """Numbers of the study, and of the paper: printed, with simulated scatter."""

    study: CountedNumbers | None
    """None: the paper's own numbers are asked."""
    printed: ClaimNumbers
    paper: CountedNumbers


class Part(NamedTuple):
    """One inequality of a claim, tested."""

    what: str
    study: ClaimEstimate
    paper: ClaimEstimate
    """NaN where the paper prints no such number."""
    border: str
    """What the study's number is held against, in words."""
    p_holds: float
    """Against "it is false"."""
    p_fails: float
    """Against "it is true"."""
    unit: str = ""
    """`%` where numbers are shown in per cent."""


class Tested(NamedTuple):
    """A statement tested, with its parts."""

    p_holds: float
    p_fails: float
    parts: tuple[Part, ...]
    hinge: Part | None
    """The part that `p_holds` is that of."""
    refuting: Part | None
    """The part that `p_fails` is that of."""

    @classmethod
    def of(cls, part: Part) -> Tested:
        """Of one inequality."""
        return cls(part.p_holds, part.p_fails, (part,), part, part)


NOTHING = Tested(np.nan, np.nan, (), None, None)
"""Of a statement none of whose numbers the study has."""


class Statement(Protocol):
    """Something that can be tested."""

    def test(self, sides: Sides) -> Tested:
        """Ask it of a study."""
        ...


@dataclass(frozen=True)
class Above:
    """A quantity lies above a border.

    Attributes:
        what: the quantity in words.
        quantity: the quantity.
        border: which it is said to exceed.
        unit: `%` to show it in per cent.
    """

    what: str
    quantity: Quantity
    border: float = 0.0
    unit: str = ""

    def test(self, sides: Sides) -> Tested:
        """See `Statement`."""
        study = _asked(sides, self.quantity)
        paper = of_paper(sides, self.quantity)
        if np.isnan(study.value):
            return NOTHING
        p_holds = _upper_tail(study.value - self.border, study.error)
        p_fails = _upper_tail(self.border - study.value, study.error)
        words = f"> {_shown(self.border, self.unit)}"
        return Tested.of(Part(self.what, study, paper, words, p_holds, p_fails, self.unit))


@dataclass(frozen=True)
class Near:
    """A quantity of the study lies within a tolerance of the paper's.

    Attributes:
        what: the quantity in words.
        quantity: of the study.
        of_paper: the paper's; of several, the range that they span.
        tolerance: how far off it may be.
        unit: `%` to show it in per cent.
    """

    what: str
    quantity: Quantity
    of_paper: tuple[Quantity, ...]
    tolerance: float
    unit: str = ""

    def test(self, sides: Sides) -> Tested:
        """See `Statement`."""
        study = _asked(sides, self.quantity)
        papers = [each for each in (of_paper(sides, one) for one in self.of_paper) if not np.isnan(each.value)]
        if np.isnan(study.value) or not papers or sides.study is None:
            return NOTHING
        lowest, highest = min(papers), max(papers)
        below, above = study.value - lowest.value, study.value - highest.value
        # What no draw moved has an unknown scatter, not none.
        own_error = study.error if study.error > 0 else np.nan
        low_error, high_error = (float(np.hypot(own_error, each.error)) for each in (lowest, highest))
        p_holds = max(
            _upper_tail(self.tolerance + below, low_error), _upper_tail(self.tolerance - above, high_error)
        )
        fails = [_upper_tail(-below - self.tolerance, low_error), _upper_tail(above - self.tolerance, high_error)]
        # One of the two sides can be false at a time, as long as the tolerance is wider than the doubt.
        p_fails = min(1.0, 2 * min(fails))
        words = f"{_range_in_words(papers, self.unit)} ± {_shown(self.tolerance, self.unit)}"
        paper = lowest if len(papers) == 1 else ClaimEstimate(np.nan, np.nan)
        return Tested.of(Part(self.what, study, paper, words, p_holds, p_fails, self.unit))


@dataclass(frozen=True)
class AllOf:
    """Every one of several statements."""

    of: tuple[Statement, ...]

    def test(self, sides: Sides) -> Tested:
        """See `Statement`."""
        found = _known(self.of, sides)
        if not found:
            return NOTHING
        weakest, refuting = max(found, key=_holds), min(found, key=_fails)
        fails = min(1.0, len(found) * refuting.p_fails)
        return Tested(weakest.p_holds, fails, _parts_of(found), weakest.hinge, refuting.refuting)


@dataclass(frozen=True)
class AnyOf:
    """At least one of several statements."""

    of: tuple[Statement, ...]

    def test(self, sides: Sides) -> Tested:
        """See `Statement`."""
        found = _known(self.of, sides)
        if not found:
            return NOTHING
        strongest, refuting = min(found, key=_holds), max(found, key=_fails)
        holds = min(1.0, len(found) * strongest.p_holds)
        return Tested(holds, refuting.p_fails, _parts_of(found), strongest.hinge, refuting.refuting)


def of_paper(sides: Sides, quantity: Quantity) -> ClaimEstimate:
    """The printed number, with the scatter of the simulated studies."""
    try:
        printed, drawn = float(quantity(sides.printed)[0]), quantity(sides.paper)
    except (ValueError, KeyError):  # detectors, T2I models or categories that the paper does not have
        return ClaimEstimate(np.nan, np.nan)
    if np.isnan(printed):
        return ClaimEstimate(np.nan, np.nan)
    return ClaimEstimate(printed, _error(drawn[1:]), quantity.lowest, quantity.highest)


def _asked(sides: Sides, quantity: Quantity) -> ClaimEstimate:
    if sides.study is None:
        return of_paper(sides, quantity)
    drawn = quantity(sides.study)
    return ClaimEstimate(float(drawn[0]), _error(drawn[1:]), quantity.lowest, quantity.highest)


def _known(statements: Sequence[Statement], sides: Sides) -> list[Tested]:
    tested = [each.test(sides) for each in statements]
    return [each for each in tested if each.parts]


def _parts_of(found: Sequence[Tested]) -> tuple[Part, ...]:
    return tuple(part for each in found for part in each.parts)


def _holds(tested: Tested) -> float:
    return tested.p_holds


def _fails(tested: Tested) -> float:
    return tested.p_fails


def _error(drawn: FloatArray) -> float:
    known = drawn[~np.isnan(drawn)]
    return float(np.std(known, ddof=1)) if known.size > 1 else np.nan


def _upper_tail(distance: float, error: float) -> float:
    """Chance of a number so far above its border; 1 where nothing is known about its scatter."""
    from scipy import stats

    if np.isnan(error) or error <= 0:
        return 1.0
    return float(stats.t.sf(distance / error, FREEDOM))


def _range_in_words(papers: Sequence[ClaimEstimate], unit: str) -> str:
    low, high = min(papers).value, max(papers).value
    return _shown(low, unit) if len(papers) == 1 else f"{_shown(low, unit)} to {_shown(high, unit)}"


def _shown(value: float, unit: str) -> str:
    return f"{100 * value:.4g} %" if unit else f"{value:.4g}"
