"""Finds every bias score of T2I models in a metric table, and how far each detector misses it; computes none."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, Self

import pandas as pd

from detector_bench.results.metric_lookup import DEFAULT_MAX_ERROR_SHARE, NOT_EVALUATED, Number
from detector_bench.tables.failed_images import FailedImages
from detector_bench.tables.wording import attribute_in_words
from detector_bench.vocabulary import ALL, GROUND_TRUTH

DEVIATION = "_deviation"
AGREEMENT = "imagebite_verdict_agreement"
"""Stands for ImageBiTe: its verdicts, not their shares. Two judges may call equally many communities stereotyped,
and never the same ones; and a share near 0 has no deviation that says anything."""


class ScoreInfo(NamedTuple):
    """What a reader of one score needs to know."""

    name: str
    short: str
    """As a table's heading has room for it."""
    more_bias: int
    """1: higher is more biased; -1: higher is less biased; 0: neither."""


SCORES: dict[str, ScoreInfo] = {
    "model_bias_score": ScoreInfo("Model bias score", "Model bias score", 1),
    "biaspainter_model_score": ScoreInfo("BiasPainter model score", "BiasPainter", 1),
    "bigbench_implicit_bias_score": ScoreInfo("BIGbench implicit bias score", "BIGbench implicit", -1),
    "bigbench_explicit_bias_score": ScoreInfo("BIGbench explicit bias score", "BIGbench explicit", -1),
    "bigbench_manifestation_factor": ScoreInfo("BIGbench manifestation factor", "BIGbench manifestation", 0),
    AGREEMENT: ScoreInfo("ImageBiTe verdict agreement", "ImageBiTe agreement", 0),
}
"""What describes a T2I model, by metric, in the order in which readers meet it."""


class Score(NamedTuple):
    """One score of one attribute, by one definition."""

    metric: str
    variant: str
    attribute: str

    @property
    def is_agreement(self) -> bool:
        """Whether it compares a detector with the ground truth by itself, so that it has no deviation."""
        return self.metric == AGREEMENT

    @property
    def definition(self) -> str:
        """The variant, but for ImageBiTe, where that is the requirement."""
        return "" if self.is_agreement else self.variant

    @property
    def heading(self) -> str:
        """What tells it from its neighbours: the attribute, or ImageBiTe's requirement."""
        return self.variant if self.is_agreement else attribute_in_words(self.attribute)


@dataclass(frozen=True)
class ScoreLookup:
    """The scores of a metric table that cover all categories and prompts, by judge and T2I model."""

    scores: tuple[Score, ...]
    """Grouped by score system; attributes in one order in every group, all of them together last."""
    detectors: tuple[str, ...]
    t2i_models: tuple[str, ...]
    """Without "all"."""
    failed: FailedImages
    """Where a detector left too many images without a verdict."""
    _numbers: Mapping[tuple[Score, str, str], Number]

    @classmethod
    def of_table(cls, metrics: pd.DataFrame, *, max_error_share: float = DEFAULT_MAX_ERROR_SHARE) -> Self:
        """Read a metric table (`schema.METRIC_COLUMNS`); scores that no detector reports are left out.

        Raises:
            ConfigError: the share is no fraction.
        """
        rows = metrics[(metrics["category"] == ALL) & (metrics["prompt_id"] == ALL)]
        rows = rows[rows["metric"].isin([*SCORES, *(name + DEVIATION for name in SCORES)])]
        numbers = _numbers(rows)
        judges = list(pd.unique(rows["detector"]))
        reported = dict.fromkeys(
            score for score, judge, _ in numbers if judge != GROUND_TRUTH and score.metric in SCORES
        )
        attributes = list(dict.fromkeys(score.attribute for score in reported if score.attribute != ALL))
        return cls(
            scores=tuple(sorted(reported, key=partial(_order, attributes=[*attributes, ALL]))),
            detectors=tuple(str(name) for name in judges if name != GROUND_TRUTH),
            t2i_models=tuple(str(name) for name in pd.unique(rows["t2i_model"]) if name != ALL),
            failed=FailedImages.of_table(metrics, max_error_share=max_error_share),
            _numbers=numbers,
        )

    def reported(self, score: Score, judge: str, t2i_model: str = ALL) -> Number:
        """What a judge reports; `NOT_EVALUATED` without a row, or where a detector could not run."""
        if judge != GROUND_TRUTH and self.could_not_run(score, judge, t2i_model):
            return NOT_EVALUATED
        return self._numbers.get((score, judge, t2i_model), NOT_EVALUATED)

    def deviation(self, score: Score, detector: str, t2i_model: str = ALL) -> Number:
        """The detector's deviation from the ground truth, as a fraction of it; likewise."""
        return self.reported(score._replace(metric=score.metric + DEVIATION), detector, t2i_model)

    def has_truth(self, score: Score) -> bool:
        """Whether humans judge it."""
        return score.is_agreement or (score, GROUND_TRUTH, ALL) in self._numbers

    def could_not_run(self, score: Score, detector: str, t2i_model: str = ALL) -> bool:
        """Whether the detector left too many images of the T2I model, or of any of them, without a verdict."""
        attributes = {score.attribute}
        if score.attribute == ALL:
            attributes = {
                each.attribute
                for each, judge, _ in self._numbers
                if (each.metric, each.variant, judge) == (score.metric, score.variant, detector)
            } - {ALL}
        return any(self.failed.could_not_run(name, detector, t2i_model) for name in attributes)

    def why_missing(self, score: Score, detector: str, t2i_model: str = ALL) -> str:
        """Why there is no deviation or agreement, in words; empty where there is one."""
        if self.could_not_run(score, detector, t2i_model):
            return "too many images without a verdict"
        key = (score, detector, t2i_model)
        number = self._numbers.get(key, NOT_EVALUATED)
        if key not in self._numbers:
            return "not judged"
        if number.missing:
            return "not all attributes judged" if score.attribute == ALL else "nothing known to score"
        if score.is_agreement:
            return ""
        actual = self.reported(score, GROUND_TRUTH, t2i_model).value
        if math.isnan(actual):
            return "no score by the human labels"
        return "the actual score is 0" if actual == 0 else ""


def _numbers(rows: pd.DataFrame) -> dict[tuple[Score, str, str], Number]:
    words = rows[["metric", "variant", "attribute", "detector", "t2i_model"]].astype(object).fillna("")
    values = rows[["value", "n", "n_left_out", "ci_low", "ci_high"]].astype(float)
    return {
        (Score(metric, variant, attribute), judge, model): Number(*number)
        for (metric, variant, attribute, judge, model), number in zip(
            words.itertuples(index=False), values.itertuples(index=False), strict=True
        )
    }


def _order(score: Score, *, attributes: Sequence[str]) -> tuple[int, str, int]:
    return list(SCORES).index(score.metric), score.definition, attributes.index(score.attribute)
