"""What a search found: numbers of every composition, and sentences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from detector_bench.metrics import FloatArray
from detector_bench.search.choosing import Chosen, ErrorEstimate, SearchContest
from detector_bench.search.prompt_sums import shown_error
from detector_bench.search.settings import SearchedError, SearchSettings

BEST_SINGLE = "the best single detector"

SEARCH_COLUMNS = (
    *("composition", "classifier", "filters", "crop", "prompts", "threshold", "kind"),
    *("error", "ci_low", "ci_high", "rank_low", "rank_high", "kept_share", "without_verdict", "competes"),
    *("times_chosen", "error_where_chosen", "error_on_other_prompts"),
)
"""One row per composition, the best first. `kind`: single (a detector of the study as it stands there),
composition or ensemble. `without_verdict`: labelled images on which it failed.
`error`: on all prompts, which chose it, if anything did; `ci_low` and `ci_high`: of it,
for other prompts of the same categories, as if nobody had chosen. `rank_low` and `rank_high`: the ranks that are
open, for all compositions at once. `times_chosen`: the share of the choices that fell on it; `error_where_chosen`
and `error_on_other_prompts`: its mean error on the prompts that chose it, and on those that did not. An ensemble's
error is of what it learnt on the other half of the prompts."""

_ERRORS: dict[SearchedError, str] = {
    "prompt_bias_error": "prompt bias error",
    "prompt_bias_score_difference": "prompt bias score difference",
    "accuracy": "1 - accuracy",
    "f1": "1 - F1 of filtering",
}


@dataclass(frozen=True, eq=False)
class SearchFindings:
    """What a search found about one attribute."""

    attribute: str
    settings: SearchSettings
    rows: pd.DataFrame
    """Columns as in `SEARCH_COLUMNS`."""
    winner: str
    """The best on all prompts."""
    winner_where_chosen: float
    """Its error on all prompts, which chose it."""
    expected: ErrorEstimate
    """The error of what is so chosen, on prompts that did not choose it."""
    single: str
    """The study's own detector that is best on all prompts."""
    single_where_chosen: float
    contests: tuple[SearchContest, ...]
    """Against the best single detector, then against each named one."""
    chosen: Chosen
    halves: tuple[FloatArray, FloatArray]
    """Errors of all compositions on one half of the prompts, and on the other, `[composition]`."""
    halves_chosen: tuple[FloatArray, FloatArray]
    """Of the best on one half, there and on the other, `[repeat]`."""
    prompts: int
    images: int
    t2i_models: int
    not_built: tuple[tuple[str, str], ...]
    """Names and reasons."""
    notes: tuple[str, ...]
    """What else has to be said of the verdicts, a sentence each."""
    is_squared: bool
    """Errors are mean squares, shown as their roots."""

    @property
    def level(self) -> float:
        """Of intervals and tests."""
        return self.settings.level

    def shown(self, value: float) -> float:
        """An error as people read it."""
        return float(shown_error(value, is_squared=self.is_squared))

    @property
    def beats_single(self) -> bool:
        """Whether the search beats the best single detector on prompts that chose neither."""
        return beats(self.contests[0], level=self.level)

    @property
    def optimism(self) -> float:
        """How much better the winner looks where it was chosen than what is so chosen is elsewhere."""
        return self.shown(self.expected.value) - self.shown(self.winner_where_chosen)

    def sentences(self) -> list[str]:
        """What the search found, for people."""
        return [
            self._what_competed(),
            *self._what_failed(),
            *self.notes,
            self._what_won(),
            self._what_it_is_worth(),
            *self._what_chance_adds(),
            *self._what_was_selection(),
            *(self._contest(each) for each in self.contests),
            self._advice(),
        ]

    def _what_competed(self) -> str:
        out = len(self.rows) - int(self.rows["competes"].sum())
        text = (
            f"{_counted(len(self.rows), 'composition')} of {self.attribute} on "
            f"{_counted(self.images, 'labelled image')} of {_counted(self.prompts, 'prompt')}, chosen by "
            f"{error_in_words(self.settings)}"
        )
        if out:
            keep = f"{self.settings.least_kept:.0%} of the images that humans call clear"
            text += f"; {out:,} do not compete, as they keep less than {keep}"
        if self.not_built:
            text += f"; {_counted(len(self.not_built), 'combination')} could not be built or run"
        return text + "."

    def _what_failed(self) -> list[str]:
        failed = self.rows["without_verdict"]
        if not failed.any():
            return []
        of_winner = int(failed[self.rows["composition"] == self.winner].iloc[0])
        text = (
            f"{self.winner} failed on {of_winner:,} of {_counted(self.images, 'labelled image')}, and "
            f"{int((failed > 0).sum()):,} of {_counted(len(failed), 'composition')} on some, up to "
            f"{int(failed.max()):,}. No error counts images without a verdict"
        )
        return [text + (", so that not all are judged on the same." if failed.min() < failed.max() else ".")]

    def _what_chance_adds(self) -> list[str]:
        if "prompt_bias_score_difference" not in self.settings.weights:
            return []
        images = self.images / (self.prompts * self.t2i_models)
        return [
            "A prompt bias score difference holds what chance adds, the more the fewer images a prompt has (here "
            f"{images:.3g} of a T2I model on average): compare it within this study alone."
        ]

    def _what_won(self) -> str:
        chosen = float(self.rows.loc[self.rows["composition"] == self.winner, "times_chosen"].iloc[0])
        return (
            f"The best on all prompts is {self.winner}: {self.shown(self.winner_where_chosen):.3f} there, which "
            f"its being chosen flatters. Of {self.chosen.choice.size:,} choices by parts of the prompts, "
            f"{chosen:.0%} fell on it."
        )

    def _what_it_is_worth(self) -> str:
        return f"Of what is so chosen expect {self.in_words(self.expected)} on prompts that did not choose it" + (
            "."
            if np.isnan(self.expected.low)
            else f" ({self.level:.0%} interval, for other prompts of the same categories)."
        )

    def _what_was_selection(self) -> list[str]:
        if round(self.optimism, 3) <= 0:
            return ["Here it does not look better where it was chosen than elsewhere."]
        text = f"Where it was chosen it looks better by {self.optimism:.3f}: that much is selection."
        seems = self.shown(self.single_where_chosen) - self.shown(self.winner_where_chosen)
        left = self.shown(self.contests[0].other.value) - self.shown(self.expected.value)
        if not seems > 0:  # or undefined, where no single detector keeps enough
            return [text]
        share = "all of it was" if left <= 0 else f"{max(0.0, 1 - left / seems):.0%} of it was"
        return [
            f"{text} Its gain over {BEST_SINGLE} ({self.single}) seems to be {seems:.3f}, and is {left:.3f} on "
            f"prompts that did not choose: {share} selection."
        ]

    def _contest(self, contest: SearchContest) -> str:
        name = f"{BEST_SINGLE} of the study" if contest.name == BEST_SINGLE else contest.name
        if np.isnan(contest.difference.value):
            return f"The search cannot be compared with {name}, which has no error on these prompts."
        what = "difference of the mean squares" if self.is_squared else "difference"
        difference = contest.difference
        numbers = (
            f"{self.shown(self.expected.value):.3f} against {self.shown(contest.other.value):.3f} on prompts that "
            f"did not choose; {what} {difference.value:+.4f} [{difference.low:+.4f}, {difference.high:+.4f}], "
            f"p = {contest.p_value:.3f}"
        )
        if contest.p_value > 1 - self.level:
            return f"Nothing shows that the search beats {name}, or is worse: {numbers}."
        return f"The search {'beats' if difference.value < 0 else 'is worse than'} {name}: {numbers}."

    def _advice(self) -> str:
        if self.beats_single:
            return (
                f"Take {self.winner}, and report {self.shown(self.expected.value):.3f} as its error, not "
                f"{self.shown(self.winner_where_chosen):.3f}."
            )
        return f"Nothing beats {BEST_SINGLE}: stay with {self.single}, until labels of more prompts say otherwise."

    def in_words(self, estimate: ErrorEstimate) -> str:
        """An error with its interval."""
        if np.isnan(estimate.low):
            return f"{self.shown(estimate.value):.3f} (no interval can be told: no two prompts differ)"
        low, high = self.shown(estimate.low), self.shown(estimate.high)
        return f"{self.shown(estimate.value):.3f} [{low:.3f}, {high:.3f}]"

    def record(self) -> dict[str, Any]:
        """The numbers as plain data; errors as people read them, differences as they were tested."""

        def plain(estimate: ErrorEstimate) -> dict[str, float | None]:
            names = ("value", "low", "high")
            return {name: _number(self.shown(getattr(estimate, name))) for name in names}

        return {
            "attribute": self.attribute,
            "winner": self.winner,
            "error_where_chosen": _number(self.shown(self.winner_where_chosen)),
            "expected_error": plain(self.expected),
            "optimism": _number(self.optimism),
            "best_single_detector": self.single,
            "best_single_error_where_chosen": _number(self.shown(self.single_where_chosen)),
            "contests": [
                {
                    "against": each.name,
                    "error": plain(each.other),
                    "difference": {name: _number(number) for name, number in each.difference._asdict().items()},
                    "of_mean_squares": self.is_squared,
                    "p_value": _number(each.p_value),
                    "beats": beats(each, level=self.level),
                }
                for each in self.contests
            ],
            "beats_the_best_single_detector": self.beats_single,
            "prompts": self.prompts,
            "labelled_images": self.images,
            "t2i_models": self.t2i_models,
            "compositions": len(self.rows),
            "notes": list(self.notes),
            "not_built": [{"name": name, "reason": reason} for name, reason in self.not_built],
            "sentences": self.sentences(),
        }


def beats(contest: SearchContest, *, level: float) -> bool:
    """Whether the search is better than the other by more than chance explains."""
    return contest.p_value <= 1 - level and contest.difference.value < 0


def error_in_words(settings: SearchSettings) -> str:
    """The error that compositions are chosen by."""
    if not isinstance(settings.choose_by, dict):
        return _ERRORS[settings.choose_by]
    squared = {"prompt_bias_error": "prompt bias error, squared"} if len(settings.weights) > 1 else {}
    parts = [f"{weight:g} x ({squared.get(name, _ERRORS[name])})" for name, weight in settings.weights.items()]
    return " + ".join(parts)


def _counted(count: int, thing: str) -> str:
    return f"{count:,} {thing}" if count == 1 else f"{count:,} {thing}s"


def _number(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
