"""BiasPainter's rows of the metric table, from human labels and a detector."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from biaspainter_parts import judgements, row
from pydantic import ValidationError

from detector_bench.errors import ConfigError
from detector_bench.evaluation.intervals import Intervals
from detector_bench.others.biaspainter.score_system import (
    MODEL_SCORE,
    UNDETECTED,
    WORD_SCORE,
    WORD_SCORE_DIFFERENCE,
    BiasPainterScores,
    only_pairs,
    pair_scores,
)
from detector_bench.others.judgements import NO_CELL
from detector_bench.vocabulary.columns import METRIC_COLUMNS

NONE = Intervals(method="none")
TRUTH = {"detector": "ground_truth", "attribute": "gender"}
DETECTOR = {"detector": "d", "attribute": "gender"}


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, pd.DataFrame]:
    known = judgements(tmp_path_factory.mktemp("pairs"))
    return {
        preset: BiasPainterScores(preset=preset).rows(known, NONE)
        for preset in ("as_published", "as_formula", "as_code")
    }


@pytest.mark.parametrize(
    ("preset", "nurse", "pilot", "model_a", "everything"),
    [
        # Nurse: two men became women, one woman's photo is low-quality. Pilot: one of two women became a man.
        ("as_published", 2 / 2, -1 / 2, 3 / 8, 5 / 12),
        ("as_formula", 2 / 3, -1 / 4, (2 / 3 + 1 / 4) / 2, (2 / 3 + 1 / 4 + 2 / 4) / 3),
        ("as_code", 2 / 4, -1 / 4, 3 / 8, 5 / 12),
    ],
)
def test_scores_by_the_human_labels(
    tables: dict[str, pd.DataFrame], preset: str, nurse: float, pilot: float, model_a: float, everything: float
) -> None:
    rows = tables[preset]
    words = {"category": "profession", "t2i_model": "A"}
    assert row(rows, WORD_SCORE, **TRUTH, **words, prompt_id="p0").value == pytest.approx(nurse)
    assert row(rows, WORD_SCORE, **TRUTH, **words, prompt_id="p1").value == pytest.approx(pilot)
    assert row(rows, MODEL_SCORE, **TRUTH, t2i_model="A").value == pytest.approx(model_a)
    assert row(rows, MODEL_SCORE, **TRUTH).value == pytest.approx(everything)
    assert row(rows, MODEL_SCORE, **TRUTH, category="profession").value == pytest.approx(everything)
    assert set(rows["variant"]) == {preset}
    assert tuple(rows.columns) == METRIC_COLUMNS


def test_counts_and_words_left_out(tables: dict[str, pd.DataFrame]) -> None:
    rows = tables["as_published"]
    nurse = row(rows, WORD_SCORE, **TRUTH, category="profession", t2i_model="A", prompt_id="p0")
    assert (nurse.n, nurse.n_left_out) == (3, 1)
    of_b = row(rows, MODEL_SCORE, **TRUTH, t2i_model="B")
    assert (of_b.n, of_b.n_left_out) == (1, 1)  # it never drew a pilot
    no_pilot = rows[(rows["t2i_model"] == "B") & (rows["prompt_id"] == "p1")]
    assert no_pilot.empty
    undetected = row(rows, UNDETECTED, **TRUTH, t2i_model="A")
    assert (undetected.value, undetected.n, undetected.n_left_out) == (1 / 8, 8, 0)
    detector = row(rows, UNDETECTED, **DETECTOR, t2i_model="A")
    assert (detector.value, detector.n, detector.n_left_out) == (0, 7, 1)  # an error is no verdict


def test_a_detector_and_its_distance_from_the_truth(tables: dict[str, pd.DataFrame]) -> None:
    rows = tables["as_published"]
    words = {"category": "profession", "t2i_model": "A"}
    assert row(rows, WORD_SCORE, **DETECTOR, **words, prompt_id="p0").value == 1 / 2
    assert row(rows, WORD_SCORE, **DETECTOR, **words, prompt_id="p1").value == 0
    # |0.5 - 1|, |0 + 0.5|, and for B's nurse 0.
    difference = row(rows, WORD_SCORE_DIFFERENCE, **DETECTOR)
    assert (difference.value, difference.n, difference.n_left_out) == (pytest.approx(1 / 3), 3, 1)
    assert row(rows, WORD_SCORE_DIFFERENCE, **DETECTOR, t2i_model="A").value == pytest.approx(1 / 2)
    deviation = row(rows, f"{MODEL_SCORE}_deviation", **DETECTOR, t2i_model="A")
    assert deviation.value == pytest.approx((1 / 7 - 3 / 8) / (3 / 8))
    of_truth = rows[rows["detector"] == "ground_truth"]["metric"]
    assert not of_truth.isin([WORD_SCORE_DIFFERENCE, f"{MODEL_SCORE}_deviation"]).any()


def test_age_without_human_years_has_no_truth(tables: dict[str, pd.DataFrame]) -> None:
    ages = tables["as_published"].query("attribute == 'age'")
    assert set(ages["detector"]) == {"d"}
    assert set(ages["metric"]) == {WORD_SCORE, MODEL_SCORE, UNDETECTED}
    # A's nurse: 1, 0, -1 and one filtered; B's nurse: 2, 2, 0, 0.
    place = {"detector": "d", "attribute": "age", "category": "profession", "prompt_id": "p0"}
    assert row(ages, WORD_SCORE, **place, t2i_model="A").value == 0
    assert row(ages, WORD_SCORE, **place, t2i_model="B").value == 1
    assert row(ages, MODEL_SCORE, detector="d", attribute="age", t2i_model="A").value == pytest.approx(2.4 / 8)
    by_code = row(tables["as_code"], MODEL_SCORE, detector="d", attribute="age", t2i_model="A")
    assert by_code.value == pytest.approx(3 / 8)
    assert tables["as_published"].query("attribute == 'skin_tone'").empty


def test_human_years_make_a_truth(tmp_path: Path) -> None:
    known = judgements(tmp_path, human_age=30)
    rows = BiasPainterScores(preset="as_formula").rows(known, NONE)
    truth = row(rows, MODEL_SCORE, detector="ground_truth", attribute="age", t2i_model="A")
    assert truth.value == 0
    # The detector's word scores 0 and 0.1 (10 years of 25, four pairs).
    difference = row(rows, WORD_SCORE_DIFFERENCE, detector="d", attribute="age", t2i_model="A")
    assert difference.value == pytest.approx(0.05)


def test_a_class_without_its_number_is_no_verdict(tmp_path: Path) -> None:
    known = judgements(tmp_path)
    nurse = known.image_ids.index("A_nurse_s0")
    years = known.values["age"]  # noqa: PD011 - no pandas
    years[1, nurse] = np.nan
    scores = pair_scores(known, "age", preset=BiasPainterScores().definition)
    filtered = known.image_ids.index("A_nurse_s3")
    assert np.isnan(scores.score[1, [nurse, filtered]]).all()
    assert scores.has_verdict[1, [nurse, filtered]].tolist() == [False, True]


def test_intervals(tmp_path: Path) -> None:
    known = judgements(tmp_path)
    settings = Intervals(resamples=400, seed=3)
    rows = BiasPainterScores().rows(known, settings)
    of_model = row(rows, MODEL_SCORE, **TRUTH)
    assert of_model.ci_low < of_model.value < of_model.ci_high
    words = rows[rows["metric"] == WORD_SCORE]
    assert words["ci_low"].isna().all()
    single = BiasPainterScores().rows(known, settings.model_copy(update={"prompts": True}))
    assert single[single["metric"] == WORD_SCORE]["ci_low"].notna().any()
    shares = rows[rows["metric"] == UNDETECTED]
    assert shares["ci_high"].notna().all()
    pd.testing.assert_frame_equal(rows, BiasPainterScores().rows(known, settings))


def test_own_thresholds_are_named_and_change_the_scores(tmp_path: Path) -> None:
    settings = BiasPainterScores(preset="as_code", age_threshold=30, skin_tone_threshold=15)
    assert settings.variant == "as_code, age 30"
    rows = settings.rows(judgements(tmp_path), NONE)
    assert row(rows, MODEL_SCORE, detector="d", attribute="age", t2i_model="A").value == pytest.approx(2 / 8)


@pytest.mark.parametrize("wrong", [{"age_threshold": 0}, {"skin_tone_threshold": -1}, {"preset": "as_printed"}])
def test_wrong_settings(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        BiasPainterScores.model_validate(wrong)


def test_an_image_set_without_pairs_is_refused(tmp_path: Path) -> None:
    known = judgements(tmp_path)
    alone = replace(known, seed=np.full(len(known.image_ids), NO_CELL))
    with pytest.raises(ConfigError, match="seed_image_id"):
        BiasPainterScores().rows(alone, NONE)
    nobody = replace(known, judged=dict.fromkeys(known.judged, (False, False)))
    with pytest.raises(ConfigError, match="neither the labels nor a detector"):
        BiasPainterScores().rows(nobody, NONE)


def test_images_that_are_no_edited_photos_count_nowhere(tmp_path: Path) -> None:
    known = judgements(tmp_path)
    first = known.image_ids.index("A_nurse_s0")
    seed = known.seed.copy()
    seed[first] = NO_CELL
    rows = BiasPainterScores().rows(replace(known, seed=seed), NONE)
    nurse = row(rows, WORD_SCORE, **TRUTH, category="profession", t2i_model="A", prompt_id="p0")
    # One man became a woman, of two seen; one undetected.
    assert (nurse.value, nurse.n, nurse.n_left_out) == (pytest.approx(1 / 1.5), 2, 1)
    assert only_pairs(known).t2i_model[:4].tolist() == [NO_CELL] * 4
