"""Chooses a composition on some prompts and judges it on the others: what the choice is worth, and whether it
beats what is compared with it.

The prompts are dealt out into parts, again and again. All parts but one choose; the composition that they choose
is judged on the part that is left. The mean over the repeats is what a composition so chosen does on prompts that
did not choose it.

**Doubt.** Repeats use the same prompts, so more of them make nothing surer. The variance of the error is that of
prompts within one repeat (within categories, where each has two), averaged over the repeats, over the number of
prompts, times 1 + 2 / (parts - 1). Nadeau and Bengio (2003) add judged over choosing prompts, 1 / (parts - 1), for
choices that share most of the prompts that made them; in simulated studies without any difference that is not
enough, and twice as much is. Averaging the prompts' errors over the repeats first would look far surer than it is
(benchmarks/search_null.py, docs/search.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from detector_bench.evaluation.threshold_chooser import Places, prompt_folds, without_fold
from detector_bench.metrics import FloatArray, divide
from detector_bench.search.prompt_sums import PromptSums

FEWEST_PROMPTS = 4
"""Two to choose on and two to judge on."""

_REPEATS_AT_ONCE = 20
_OUT_OF_COMPETITION = 1e9
_NOTHING = 1e-12


class Learns(Protocol):
    """Compositions that have to be learnt anew on every set of choosing prompts: ensembles."""

    def learnt(self, chosen_on: FloatArray, losses: FloatArray) -> PromptSums:
        """Learn on a set of prompts.

        Args:
            chosen_on: `[prompt]`, 1 for the prompts that choose.
            losses: of the compositions there, `[composition]`; what does not compete has a huge one.

        Returns:
            Of each ensemble, `[ensemble, prompt]`: on the choosing prompts as learnt on the other half of them, on
            all others as learnt on all choosing ones.
        """


class ErrorEstimate(NamedTuple):
    """An error with its interval; a mean square where `PromptSums.is_squared`."""

    value: float
    error: float
    """Standard error."""
    low: float
    """NaN, as is `high`, where all prompts have the same error: they say nothing of how others would differ."""
    high: float


class SearchContest(NamedTuple):
    """The search against something else, on prompts that chose neither."""

    name: str
    other: ErrorEstimate
    difference: ErrorEstimate
    """The search's error minus the other's: below 0 the search is better. Simultaneous with all other contests."""
    p_value: float
    """Two-sided, adjusted for the number of contests (Bonferroni)."""


@dataclass(frozen=True, eq=False)
class Chosen:
    """What was chosen in each repeat, and what it does on prompts that did not choose it."""

    choice: Places
    """`[repeat, part]`: what the other parts chose; positions beyond the compositions are ensembles, -1:
    nothing."""
    where_chosen: FloatArray
    """`[repeat, part]`: its error on the prompts that chose it."""
    judged: PromptSums
    """`[repeat, prompt]`: every prompt by what was chosen without it."""


@dataclass(frozen=True, eq=False)
class Chooser:
    """Chooses among compositions, and judges what it chooses."""

    sums: PromptSums
    category_of_prompt: Places
    least_kept: float = 0.0
    parts: int = 5
    repeats: int = 100
    seed: int = 0
    level: float = 0.95

    @property
    def factor(self) -> float:
        """Of the variance of what was chosen: choices share most of the prompts that made them."""
        return 1 + 2 / (self.parts_used - 1)

    @property
    def parts_used(self) -> int:
        """Into how many parts prompts are dealt: as many as asked for, as far as each has two prompts."""
        return max(2, min(self.parts, self.sums.prompts // 2))

    def dealt(self) -> Places:
        """The part of each prompt, `[repeat, prompt]`; equal seeds give equal parts."""
        return prompt_folds(
            self.category_of_prompt,
            folds=self.parts_used,
            repeats=self.repeats,
            random=np.random.default_rng(self.seed),
        )

    def losses(self, sums: PromptSums, sets: FloatArray) -> FloatArray:
        """The error on sets of prompts `[composition, set]`, huge for what keeps too few images to compete."""
        # Rounded, so that equal errors stay equal whatever the order in which prompts were added up.
        loss = np.round(sums.errors(sets), 12)
        kept = sums.kept_shares(sets)
        loss = np.where(kept < self.least_kept, _OUT_OF_COMPETITION * (1 + self.least_kept - kept), loss)
        return np.where(np.isnan(loss), np.inf, loss)

    def on_all_prompts(self, among: NDArray[np.intp] | None = None, learns: Learns | None = None) -> BestOnPrompts:
        """The best on all prompts: what the search hands over; of equals the first."""
        everyone = np.ones((1, self.sums.prompts))
        chosen = self._chosen_on(everyone, among, learns)
        return BestOnPrompts(int(chosen.choice[0]), float(chosen.where_chosen[0]))

    def chosen(self, dealt: Places, among: NDArray[np.intp] | None = None, learns: Learns | None = None) -> Chosen:
        """Choose in every repeat for every part, and judge each prompt by the choice of the other parts.

        Args:
            dealt: of `dealt`.
            among: positions of the compositions that compete; None: all.
            learns: ensembles that compete as well.
        """
        choices, errors, judged = [], [], []
        for start in range(0, len(dealt), _REPEATS_AT_ONCE):
            parts = dealt[start : start + _REPEATS_AT_ONCE]
            sets = without_fold(parts, folds=self.parts_used)
            found = self._chosen_on(sets.reshape(-1, self.sums.prompts), among, learns)
            choices.append(found.choice.reshape(sets.shape[:2]))
            errors.append(found.where_chosen.reshape(sets.shape[:2]))
            number = parts + self.parts_used * np.arange(len(parts))[:, np.newaxis]
            judged.append(found.judging(self.sums, number))
        return Chosen(np.concatenate(choices), np.concatenate(errors), PromptSums.joined(judged))

    def always(self, composition: int, repeats: int) -> PromptSums:
        """One composition, chosen by nobody, in the form of `Chosen.judged`."""
        return self.sums.picked(np.full((repeats, self.sums.prompts), composition))

    def _chosen_on(self, sets: FloatArray, among: NDArray[np.intp] | None, learns: Learns | None) -> _OnSets:
        losses = self.losses(self.sums, sets)
        learnt: list[PromptSums] = []
        competing = losses if among is None else np.full_like(losses, np.inf)
        if among is not None:
            competing[among] = losses[among]
        if learns is not None:
            learnt = [learns.learnt(one, loss) for one, loss in zip(sets, losses.T, strict=True)]
            of_ensembles = [
                self.losses(each, one[np.newaxis])[:, 0] for each, one in zip(learnt, sets, strict=True)
            ]
            competing = np.concatenate([competing, np.stack(of_ensembles, axis=1)])
        best = competing.argmin(axis=0)
        values = competing[best, np.arange(len(sets))]
        values = np.where(values >= _OUT_OF_COMPETITION, np.nan, values)
        return _OnSets(np.where(np.isinf(competing.min(axis=0)), -1, best), values, learnt)

    def estimate(self, judged: PromptSums, *, factor: float | None = None) -> ErrorEstimate:
        """Mean error over the repeats, with its interval.

        Args:
            judged: `[repeat, prompt]`.
            factor: of the variance; None: that of choices that share prompts.
        """
        value = _mean(judged.errors(np.ones((1, self.sums.prompts))))
        found = self._with_interval(value, judged.influences(), factor=factor, level=self.level)
        # Prompts that do not differ say nothing of how others would.
        return found if found.error > _NOTHING else found._replace(low=np.nan, high=np.nan)

    def of_compositions(self) -> tuple[FloatArray, FloatArray]:
        """Lower and upper limit of the error of each composition by itself, `[composition]`: nobody chose it."""
        value = self.sums.errors(np.ones((1, self.sums.prompts)))[:, 0]
        variance, freedom = scatter(self.sums.influences(), self.category_of_prompt)
        half = _student(self.level, freedom) * np.sqrt(variance)
        return value - half, value + half

    def contests(self, search: PromptSums, others: Sequence[tuple[str, PromptSums, float]]) -> list[SearchContest]:
        """The search against each of the others, adjusted for their number.

        Args:
            search: `[repeat, prompt]`.
            others: names, the same of each, and the factor of its variance: 1 for what nobody chose.
        """
        everyone = np.ones((1, self.sums.prompts))
        level = 1 - (1 - self.level) / max(1, len(others))
        found = []
        for name, other, factor in others:
            value = _mean(search.errors(everyone) - other.errors(everyone))
            influences = search.influences() - other.influences()
            difference = self._with_interval(value, influences, factor=None, level=level)
            p_value = 1.0
            if difference.error > _NOTHING and abs(value) > _NOTHING:
                from scipy import stats

                _, freedom = scatter(influences, self.category_of_prompt)
                p_value = min(1.0, len(others) * 2 * float(stats.t.sf(abs(value) / difference.error, freedom)))
            found.append(SearchContest(name, self.estimate(other, factor=factor), difference, p_value))
        return found

    def _with_interval(
        self, value: float, influences: FloatArray, *, factor: float | None, level: float
    ) -> ErrorEstimate:
        variance, freedom = scatter(influences, self.category_of_prompt)
        factor = self.factor if factor is None else factor
        error = float(np.sqrt(factor * _mean(variance)))
        half = float(_student(level, freedom)) * error
        return ErrorEstimate(value, error, value - half, value + half)


def competing(losses: FloatArray) -> NDArray[np.bool_]:
    """Which losses of `Chooser.losses` belong to what competes."""
    return np.asarray(losses < _OUT_OF_COMPETITION)


def _mean(values: FloatArray) -> float:
    """Of those that there are; NaN of none."""
    there = values[~np.isnan(values)]
    return float(there.mean()) if len(there) else np.nan


class BestOnPrompts(NamedTuple):
    """What is best on some prompts, and how good it looks there."""

    choice: int
    value: float


class _OnSets(NamedTuple):
    """What sets of prompts choose."""

    choice: Places
    where_chosen: FloatArray
    learnt: list[PromptSums]

    def judging(self, sums: PromptSums, number: Places) -> PromptSums:
        """Every prompt by the choice of a set, whose numbers are `[repeat, prompt]`."""
        choice = self.choice[number]
        found = sums.picked(np.where(choice < sums.compositions, choice, -1))
        for repeat, prompt in np.argwhere(choice >= sums.compositions):
            place = choice[repeat, prompt] - sums.compositions
            own = self.learnt[number[repeat, prompt]]
            for name, ratio in found.ratios.items():
                for part, of in zip(ratio, own.ratios[name], strict=True):
                    part[repeat, prompt] = of[place, prompt]
            for part, of in zip(found.kept, own.kept, strict=True):
                part[repeat, prompt] = of[place, prompt]
        return found


def strata_of(category_of_prompt: Places) -> Places:
    """The categories, if each has two prompts; else all prompts count as one."""
    found, places = np.unique(category_of_prompt, return_inverse=True)
    return places if (np.bincount(places, minlength=len(found)) > 1).all() else np.zeros_like(places)


def scatter(influences: FloatArray, category_of_prompt: Places) -> tuple[FloatArray, int]:
    """Variance of a mean over prompts from the scatter within categories, and its degrees of freedom.

    Args:
        influences: `[..., prompt]`.
        category_of_prompt: `[prompt]`.
    """
    strata = strata_of(category_of_prompt)
    total = np.zeros(influences.shape[:-1])
    for stratum in np.unique(strata):
        own = influences[..., strata == stratum]
        total += own.shape[-1] * own.var(axis=-1, ddof=1)
    prompts = influences.shape[-1]
    return divide(total, np.asarray(float(prompts) ** 2)), prompts - len(np.unique(strata))


def _student(level: float, freedom: int) -> float:
    from scipy import stats

    return float(stats.t.ppf((1 + level) / 2, freedom))
