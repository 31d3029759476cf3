"""Word scores out of a metric table, and which words are the most biased ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pandas as pd

from detector_bench.errors import ConfigError, nearest_hint
from detector_bench.others.biaspainter.formulas import BIASPAINTER_ATTRIBUTES, MODEL_SCORE, WORD_SCORE
from detector_bench.vocabulary import GROUND_TRUTH

DEFAULT_LEAST = 0.2
"""A word whose score is smaller is not called biased: as far as BiasPainter's validity check calls a pair
unchanged. The paper does not say which words its table leaves out; the smallest one in it is 0.19."""


class Direction(NamedTuple):
    """One of the two ways in which an attribute can change."""

    name: str
    in_words: str
    sign: int


DIRECTIONS: dict[str, tuple[Direction, Direction]] = {
    "gender": (
        Direction("male_to_female", "male to female", 1),
        Direction("female_to_male", "female to male", -1),
    ),
    "age": (Direction("older", "older", 1), Direction("younger", "younger", -1)),
    "skin_tone": (Direction("darker", "darker", -1), Direction("lighter", "lighter", 1)),
}
"""In the order of the paper's table."""

SKIN_TONE_NOTE = (
    "Skin tone is what BiasPainter calls race: the mean grey value of the facial skin. It is not race, and "
    "nobody's race can be read off it."
)


@dataclass(frozen=True, slots=True)
class WordScore:
    """The score of one word, for one T2I model."""

    attribute: str
    t2i_model: str
    category: str
    prompt_id: str
    word: str
    score: float
    """The word's score; NaN where no pair has an answer."""


@dataclass(frozen=True, slots=True)
class ByOneJudge:
    """BiasPainter's rows of a metric table that follow one judge and one definition."""

    judge: str
    """A detector's name, `ground_truth`, or `released_sheet`."""
    variant: str
    rows: pd.DataFrame

    @classmethod
    def of_table(
        cls,
        metrics: pd.DataFrame,
        *,
        judge: str | None = None,
        variant: str | None = None,
        attribute: str | None = None,
    ) -> ByOneJudge:
        """Take one judge's rows of a metric table.

        Args:
            metrics: a metric table (`vocabulary.columns.METRIC_COLUMNS`).
            judge: None: who scores most attributes, the ground truth before the detectors; attributes without any
                number do not count.
            variant: as in the column of that name; None: the first one in the table.
            attribute: if no judge is named, one who scores this attribute.

        Raises:
            ConfigError: the table has no BiasPainter scores, or none of this judge or variant.
        """
        rows = metrics[metrics["metric"].isin([WORD_SCORE, MODEL_SCORE])]
        if rows.empty:
            raise ConfigError(
                "there are no BiasPainter scores in this metric table: the study file needs `scores: "
                "[{system: biaspainter}]` (docs/biaspainter.md)"
            )
        variant = _chosen(rows, "variant", variant)
        rows = rows[rows["variant"] == variant]
        if judge is None:
            wanted = rows if attribute is None else rows[rows["attribute"] == attribute]
            has_number = wanted["value"].notna()
            scored = {
                name: wanted[(wanted["detector"] == name) & has_number]["attribute"].nunique()
                for name in pd.unique(wanted["detector"])
            }
            # Of equals the first in the table, which begins with the ground truth.
            judge = max(scored, key=lambda name: scored[name], default=None)
        judge = _chosen(rows, "detector", judge)
        return cls(judge, variant, rows[rows["detector"] == judge])

    @property
    def attributes(self) -> tuple[str, ...]:
        """Those that the judge scores, in the order of BiasPainter's tables."""
        found = set(self.rows["attribute"])
        return tuple(name for name in BIASPAINTER_ATTRIBUTES if name in found)

    @property
    def in_words(self) -> str:
        """For captions: whose scores they are, by which definition."""
        whose = {GROUND_TRUTH: "the human labels", "released_sheet": "the released sheets"}.get(
            self.judge, f"the detector {self.judge}"
        )
        return f"by {whose} ({self.variant})"

    def word_scores(self, *, prompts: pd.DataFrame | None = None) -> list[WordScore]:
        """Every word's scores, in the order of the metric table.

        Args:
            prompts: columns `prompt_id, word`; a prompt without a word is called by its id.
        """
        words = {}
        if prompts is not None:
            words = dict(zip(prompts["prompt_id"], prompts["word"], strict=True))
        rows = self.rows[self.rows["metric"] == WORD_SCORE]
        columns = [rows[name].astype(object) for name in ("attribute", "t2i_model", "category", "prompt_id")]
        return [
            WordScore(attribute, model, category, prompt_id, words.get(prompt_id) or prompt_id, float(value))
            for attribute, model, category, prompt_id, value in zip(*columns, rows["value"], strict=True)
        ]


class TopWords(NamedTuple):
    """The most biased words in one direction."""

    words: tuple[WordScore, ...]
    """The strongest first; fewer than asked for where no further word is biased."""
    tied: tuple[WordScore, ...]
    """Left out, though their score equals the last one's."""


def top_biased(
    scores: Sequence[WordScore], direction: Direction, *, top: int = 3, least: float = DEFAULT_LEAST
) -> TopWords:
    """Choose the most biased words; of equal ones those first in the alphabet, and says which it left out.

    Args:
        scores: of one attribute, T2I model and domain.
        direction: which way.
        top: how many, at least 1.
        least: words with a smaller score are not biased; above 0.

    Raises:
        ConfigError: top or least are out of range.
    """
    if top < 1:
        raise ConfigError(f"top: {top} (accepted: 1 or more)")
    if not 0 < least < math.inf:
        raise ConfigError(f"least: {least} (accepted: a number above 0)")
    biased = sorted(
        (each for each in scores if direction.sign * each.score >= least),
        key=lambda each: (-direction.sign * round(each.score, 9), each.word.casefold(), each.prompt_id),
    )
    shown, rest = biased[:top], biased[top:]
    # Sums of equal parts in another order may differ in their last digits.
    tied = [each for each in rest if abs(each.score - shown[-1].score) < 1e-9]
    return TopWords(tuple(shown), tuple(tied))


def _chosen(rows: pd.DataFrame, column: str, name: str | None) -> str:
    known = [str(each) for each in pd.unique(rows[column])]
    if name is None:
        return known[0]
    if name not in known:
        raise ConfigError(f"no BiasPainter scores of {column} {name!r}: {nearest_hint(name, known)}")
    return name
