"""BiasPainter's scores, of a study and of the sheets that its authors released, as rows of the metric table."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import Field

from detector_bench.errors import ConfigError
from detector_bench.evaluation.intervals import Intervals
from detector_bench.metrics import Scopes
from detector_bench.metrics.counts import FloatArray, Score
from detector_bench.others.biaspainter.formulas import (
    BIASPAINTER_ATTRIBUTES,
    MODEL_SCORE,
    PRESETS,
    UNDETECTED,
    WORD_SCORE,
    WORD_SCORE_DIFFERENCE,
    PairSums,
    Preset,
    gender_image_score,
    measured_image_score,
    model_score,
    share_undetected,
    word_score,
    word_score_difference,
)
from detector_bench.others.biaspainter.released_sheets import BRIGHTNESS, MEASURES, ReleasedSheet
from detector_bench.others.judgements import NO_CELL, NO_VERDICT, Judgements
from detector_bench.others.score_system import Computed, ScoreSystem, score_rows
from detector_bench.vocabulary import ALL, ATTRIBUTES
from detector_bench.vocabulary.columns import METRIC_COLUMNS

_NUMBERS = len(PairSums._fields)

JUDGE = "released_sheet"
"""Stands in the column `detector` of the rows: the authors' own measurements."""

_DIRECTIONS = {"male": 1.0, "female": -1.0}
"""The image score of a seed of this gender that flips."""


class BiasPainterScores(ScoreSystem):
    """BiasPainter's word and model scores of gender, age and skin tone; see `formulas`.

    Its `race` is skin tone, and is called so here. The image set holds pairs: edited images that name their seed
    photo in `seed_image_id`.
    """

    system: Literal["biaspainter"] = "biaspainter"
    preset: Literal["as_published", "as_formula", "as_code"] = "as_published"
    """Which definition of the scores: the paper's tables, its formula, or its program."""
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
            counts = _pairs_asked(pairs, attribute)
            numbers = features[..., place * _NUMBERS : (place + 1) * _NUMBERS]
            numbers[..., 0] = np.where(answered, scores.score, 0.0)
            numbers[..., 1] = np.abs(numbers[..., 0])
            numbers[..., 2] = answered
            numbers[..., 3] = scores.has_verdict & ~answered
            numbers[..., 4] = is_pair
            numbers *= counts[:, np.newaxis]
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


@dataclass(frozen=True, eq=False)
class PairScores:
    """The image scores of one attribute by every judge; images that are no edited ones have none."""

    score: FloatArray
    """`[judge, image]`; NaN without an answer for both photos."""
    has_verdict: NDArray[np.bool_]
    """`[judge, image]`: whether the judge looked at both photos, with or without an answer."""


def _pairs_asked(pairs: Judgements, attribute: str) -> NDArray[np.bool_]:
    """`[image]`: whether both photos of a pair count."""
    asked = pairs.asked(attribute)
    return asked & np.where(pairs.seed == NO_CELL, asked, asked[pairs.seed])


def only_pairs(judgements: Judgements) -> Judgements:
    """The same judgements, in which only edited images belong to a T2I model and prompt.

    Which judge measures an attribute is corrected too: one that names age groups and gives no years does not
    measure age here, and the human labels are a ground truth of age and skin tone only where they hold measured
    values.

    Raises:
        ConfigError: no image was edited from another one, or nobody measures any of the attributes.
    """
    edited = (judgements.seed != NO_CELL) & (judgements.t2i_model != NO_CELL)
    if not edited.any():
        raise ConfigError(
            "BiasPainter scores edited photos, and no image of this image set names its seed photo: images.csv "
            "needs the column seed_image_id (docs/biaspainter.md)"
        )
    judged = {**judgements.judged, **{name: _measures(judgements, name) for name in BIASPAINTER_ATTRIBUTES}}
    if not any(any(judged[name]) for name in BIASPAINTER_ATTRIBUTES):
        raise ConfigError(
            "BiasPainter scores: neither the labels nor a detector give gender, age in years, or a skin tone value"
        )
    return replace(
        judgements,
        t2i_model=np.where(edited, judgements.t2i_model, NO_CELL),
        prompt=np.where(edited, judgements.prompt, NO_CELL),
        judged=judged,
        drawn=None if judgements.drawn is None else judgements.drawn.of_pairs(judgements.seed),
    )


def pair_scores(judgements: Judgements, attribute: str, *, preset: Preset) -> PairScores:
    """Compute every judge's image scores of an attribute.

    Args:
        judgements: answers about seeds and edited images.
        attribute: gender, age or skin_tone.
        preset: its thresholds count.
    """
    edited = np.flatnonzero((judgements.seed != NO_CELL) & (judgements.t2i_model != NO_CELL))
    seed = judgements.seed[edited]
    labels = judgements.labels[attribute]
    looked_at = labels != NO_VERDICT
    if ATTRIBUTES[attribute].unit is None:
        found = gender_image_score(labels[:, seed], labels[:, edited])
    else:
        values = judgements.values[attribute]  # noqa: PD011 - a mapping of arrays
        found = measured_image_score(values[:, seed], values[:, edited], threshold=preset.threshold(attribute))
        # Clear, but without its number: that is no judgement that nobody was to be seen.
        looked_at = looked_at & ((labels < 0) | ~np.isnan(values))
    score = np.full(labels.shape, np.nan)
    has_verdict = np.zeros(labels.shape, dtype=bool)
    score[:, edited] = found
    has_verdict[:, edited] = looked_at[:, seed] & looked_at[:, edited]
    return PairScores(score, has_verdict)


def _measures(judgements: Judgements, attribute: str) -> tuple[bool, ...]:
    if attribute not in judgements.judged:
        return (False,) * len(judgements.judges)
    judged = np.array(judgements.judged[attribute])
    if ATTRIBUTES[attribute].unit is not None:
        judged &= ~np.isnan(judgements.values[attribute]).all(axis=1)  # noqa: PD011
    return tuple(judged.tolist())


def sheet_rows(
    sheets: Sequence[ReleasedSheet],
    *,
    t2i_model: str,
    settings: BiasPainterScores,
    seed_genders: Mapping[int, str] | None = None,
    seed_brightness: Mapping[int, float] | None = None,
) -> pd.DataFrame:
    """Word and model scores of released sheets as rows of a metric table; a sheet is a category.

    Args:
        sheets: of one T2I model.
        t2i_model: its name.
        settings: the definition.
        seed_genders: whom each seed shows. The sheets tell that a gender flipped, but not which way: without this
            there are no word scores of gender, and no model score of gender under `as_formula` (NaN).
        seed_brightness: the skin tone of each seed, 0 to 255; only a sheet of `face_brightness` needs it.

    Raises:
        ConfigError: a seed without a gender or brightness that a sheet needs, or two sheets of one name.
    """
    names = [sheet.domain for sheet in sheets]
    if repeated := [name for name in names if names.count(name) > 1]:
        raise ConfigError(f"two sheets are called {repeated[0]!r}: the name of the file is the domain")
    rows = []
    preset = settings.definition
    for sheet in sheets:
        scopes = Scopes.of_prompts([sheet.domain] * len(sheet.words))
        for measure in sheet.measured:
            attribute = MEASURES[measure].attribute
            sums = _sums(sheet, measure, preset, seed_genders, seed_brightness)
            place = {"attribute": attribute, "t2i_model": t2i_model, "category": sheet.domain}
            score = word_score(sums, attribute=attribute, preset=preset)
            rows += [
                {**place, "prompt_id": str(word), "metric": WORD_SCORE, **_numbers(score, (0, column))}
                for column, word in enumerate(sheet.words)
            ]
            model = model_score(sums, attribute=attribute, preset=preset, scopes=scopes)
            undetected = share_undetected(sums, scopes=scopes)
            for name, whole in ((MODEL_SCORE, model), (UNDETECTED, undetected)):
                rows.append({**place, "prompt_id": ALL, "metric": name, **_numbers(whole, (1, 1))})
    common = {
        "detector": JUDGE,
        "n_clear": None,
        "variant": settings.variant,
        "ci_low": math.nan,
        "ci_high": math.nan,
    }
    return pd.DataFrame([{**common, **row} for row in rows], columns=list(METRIC_COLUMNS))


def _sums(
    sheet: ReleasedSheet,
    measure: str,
    preset: Preset,
    seed_genders: Mapping[int, str] | None,
    seed_brightness: Mapping[int, float] | None,
) -> PairSums:
    """`[1, word]`."""
    values, attribute = sheet.measured[measure], MEASURES[measure].attribute
    if measure == BRIGHTNESS:
        values = values - _of_seeds(sheet, seed_brightness)
    scores = 1 - values if attribute == "gender" else values / preset.threshold(attribute)
    measured = ~np.isin(sheet.words, sheet.unmeasured[measure])
    has_verdict = np.broadcast_to(measured, scores.shape)
    sums = PairSums.of_scores(scores[:, np.newaxis], has_verdict[:, np.newaxis], axis=0)
    if attribute != "gender":
        return sums
    if seed_genders is None:
        return sums._replace(change=np.full_like(sums.change, np.nan))
    if unknown := [seed for seed in sheet.seeds if seed not in seed_genders]:
        raise ConfigError(f"sheet {sheet.domain!r}: no gender is given for seed {unknown[0]}")
    direction = np.array([_DIRECTIONS[seed_genders[seed]] for seed in sheet.seeds])[:, np.newaxis]
    return sums._replace(change=np.nansum(scores * direction, axis=0)[np.newaxis])


def _of_seeds(sheet: ReleasedSheet, seed_brightness: Mapping[int, float] | None) -> FloatArray:
    """`[seed, 1]`."""
    if seed_brightness is None:
        raise ConfigError(
            f"sheet {sheet.domain!r}: {BRIGHTNESS} is the skin tone of the edited photos, not its change; "
            f"name the seed photos' in a file with the columns seed_index, {BRIGHTNESS} (--seed-brightness)"
        )
    if unknown := [seed for seed in sheet.seeds if seed not in seed_brightness]:
        raise ConfigError(f"sheet {sheet.domain!r}: no {BRIGHTNESS} is given for seed {unknown[0]}")
    return np.array([seed_brightness[seed] for seed in sheet.seeds])[:, np.newaxis]


def _numbers(score: Score, place: tuple[int, int]) -> dict[str, float]:
    counts = {name: int(getattr(score, name)[place]) for name in ("n", "n_left_out")}
    return {"value": float(score.value[place]), **counts}
