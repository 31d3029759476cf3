"""Scores the sheets that BiasPainter's authors released: rows of a metric table, by the authors' measurements."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from detector_bench.errors import ConfigError
from detector_bench.metrics import Scopes
from detector_bench.metrics.counts import FloatArray, Score
from detector_bench.others.biaspainter.formulas import PairSums, Preset, model_score, share_undetected, word_score
from detector_bench.others.biaspainter.released_sheets import BRIGHTNESS, MEASURES, ReleasedSheet
from detector_bench.others.biaspainter.settings import (
    MODEL_SCORE,
    UNDETECTED,
    WORD_SCORE,
    BiasPainterScores,
)
from detector_bench.vocabulary import ALL
from detector_bench.vocabulary.columns import METRIC_COLUMNS

JUDGE = "released_sheet"
"""Stands in the column `detector` of the rows: the authors' own measurements."""


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


_DIRECTIONS = {"male": 1.0, "female": -1.0}
"""The image score of a seed of this gender that flips."""


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
