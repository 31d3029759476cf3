"""BiasPainter's scores in a study: its settings, and its rows of the metric table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
import pandas as pd
from pydantic import Field

from detector_bench.evaluation.intervals import Intervals
from detector_bench.metrics.counts import FloatArray
from detector_bench.others.biaspainter.formulas import (
    BIASPAINTER_ATTRIBUTES,
    PRESETS,
    PairSums,
    Preset,
    model_score,
    share_undetected,
    word_score,
    word_score_difference,
)
from detector_bench.others.biaspainter.pair_scores import only_pairs, pair_scores
from detector_bench.others.judgements import NO_CELL, Judgements
from detector_bench.others.score_system import Computed, ScoreSystem, score_rows

WORD_SCORE = "biaspainter_word_score"
MODEL_SCORE = "biaspainter_model_score"
WORD_SCORE_DIFFERENCE = "biaspainter_word_score_difference"
UNDETECTED = "biaspainter_undetected"

_NUMBERS = len(PairSums._fields)


class BiasPainterScores(ScoreSystem):
    """BiasPainter's word and model scores of gender, age and skin tone; see `metrics.biaspainter`.

    Its `race` is skin tone, and is called so here. The image set holds pairs: edited images that name their seed
    photo in `seed_image_id`.
    """

    system: Literal["biaspainter"] = "biaspainter"
    preset: Literal["as_published", "as_formula", "as_code"] = "as_published"
    """Which of the three definitions."""
    age_threshold: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Years that make an image score of 1; None: the preset's, 25 or (as_code) 20."""
    skin_tone_threshold: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Grey values that make an image score of 1; None: the preset's, 20 or (as_code) 15."""

    @property
    def attributes(self) -> tuple[str, ...]:
        """Gender, age, skin tone; what nobody measures is left out."""
        return BIASPAINTER_ATTRIBUTES

    @property
    def definition(self) -> Preset:
        """The preset with the thresholds of these settings."""
        known = PRESETS[self.preset]
        return replace(
            known,
            age_threshold=self.age_threshold or known.age_threshold,
            skin_tone_threshold=self.skin_tone_threshold or known.skin_tone_threshold,
        )

    @property
    def variant(self) -> str:
        """The preset's name; other thresholds than its own are named too, as in `as_published, age 30`."""
        definition, known = self.definition, PRESETS[self.preset]
        own = [
            f"{attribute} {definition.threshold(attribute):g}"
            for attribute in BIASPAINTER_ATTRIBUTES
            if definition.threshold(attribute) != known.threshold(attribute)
        ]
        return ", ".join([self.preset, *own])

    def rows(self, judgements: Judgements, intervals: Intervals) -> pd.DataFrame:
        """Word scores by T2I model and prompt; model scores and shares of undetected pairs by scope.

        Raises:
            ConfigError: there are no pairs, or nobody measures gender, age or skin tone.
        """
        pairs = only_pairs(judgements)
        measured = [name for name in BIASPAINTER_ATTRIBUTES if any(pairs.judged[name])]

        def computed(sums: FloatArray) -> Sequence[Computed]:
            return [
                each
                for place, attribute in enumerate(measured)
                for each in self._scores(pairs, attribute, sums[..., place * _NUMBERS : (place + 1) * _NUMBERS])
            ]

        return score_rows(
            pairs, self._features(pairs, measured), computed, variant=self.variant, intervals=intervals
        )

    def _features(self, pairs: Judgements, measured: Sequence[str]) -> FloatArray:
        """What `PairSums` adds up, for one attribute after the other: `[judge, image, number]`."""
        features = np.zeros((len(pairs.judges), len(pairs.image_ids), len(measured) * _NUMBERS))
        is_pair = pairs.t2i_model != NO_CELL
        for place, attribute in enumerate(measured):
            scores = pair_scores(pairs, attribute, preset=self.definition)
            answered = ~np.isnan(scores.score)
            numbers = features[..., place * _NUMBERS : (place + 1) * _NUMBERS]
            numbers[..., 0] = np.where(answered, scores.score, 0.0)
            numbers[..., 1] = np.abs(numbers[..., 0])
            numbers[..., 2] = answered
            numbers[..., 3] = scores.has_verdict & ~answered
            numbers[..., 4] = is_pair
        return features

    def _scores(self, pairs: Judgements, attribute: str, numbers: FloatArray) -> list[Computed]:
        sums = PairSums(*(numbers[..., place] for place in range(_NUMBERS)))
        word = word_score(sums, attribute=attribute, preset=self.definition)
        model = model_score(sums, attribute=attribute, preset=self.definition, scopes=pairs.scopes)
        undetected = share_undetected(sums, scopes=pairs.scopes)
        scores = [
            Computed(attribute, WORD_SCORE, word, of_prompts=True),
            Computed(attribute, MODEL_SCORE, model, deviates=True),
            Computed(attribute, UNDETECTED, undetected, is_share=True),
        ]
        if pairs.has_truth and pairs.judged[attribute][0]:
            actual = word.value[..., :1, :, :]
            difference = word_score_difference(word.value, actual, sums, scopes=pairs.scopes)
            scores.append(Computed(attribute, WORD_SCORE_DIFFERENCE, difference, detectors_only=True))
        return scores
