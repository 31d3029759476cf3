"""Few prompts with few images: what is borrowed, the score interval by hand, and intervals that hold."""

from __future__ import annotations

import numpy as np
import pytest
from joint_studies import of_images
from statsmodels.stats.proportion import proportion_confint
from test_bootstrap import counts_of

from detector_bench.evaluation.intervals import Intervals, IntervalScores
from detector_bench.evaluation.scores import (
    ScoreTable,
    detector_prompt_scores,
    detector_scope_scores,
    human_prompt_scores,
    human_scope_scores,
)
from detector_bench.metrics import JointVerdicts, Scopes
from detector_bench.metrics.bootstrap import resample, sampling_distribution
from detector_bench.metrics.intervals import (
    Interval,
    correlation_of,
    interval_of_mean,
    interval_of_ratio,
    percentile_interval,
    score_interval,
    wilson_interval,
)
from detector_bench.tables.table import Cell, Column, Row, Table
from detector_bench.tables.wording import with_interval

pytestmark = pytest.mark.filterwarnings("error")

NAN = float("nan")
PROMPTS, IMAGES = 12, 5


def test_a_prompt_borrows_one_image_by_hand() -> None:
    # Prompt 0: 4 men; prompt 1: 4 women. One draw in 5 is borrowed, half of these from the other prompt.
    joint = of_images([0] * 4 + [1] * 4, [[0] * 4 + [1] * 4], [0] * 4 + [1] * 4, prompts=2)
    drawn = resample(joint, resamples=10_000, seed=1, prompts=True)
    scores = drawn.prompts["prompt_bias_score"][:, 0]
    women = (1 - scores[0]) / 2  # share of the first prompt
    chance = 1 / 5 * 1 / 2
    assert women.mean() == pytest.approx(chance, abs=0.008)
    assert women.var() == pytest.approx(chance * (1 - chance) / 4, rel=0.1)
    assert np.all(
        resample(joint, resamples=50, borrow=False, prompts=True).prompts["prompt_bias_score"][0, 0] == 1
    )
    # Detector and human are drawn together: the detector stays right.
    assert np.all(drawn.detectors["accuracy"] == 1)


def test_images_are_borrowed_within_the_t2i_model() -> None:
    joint = JointVerdicts(
        np.array([0, 0, 0, 0, 1, 1, 1, 1], dtype=np.int8),
        np.array([[0, 0, 0, 0, 1, 1, 1, 1]], dtype=np.int8),
        np.array([0, 0, 1, 1, 2, 2, 3, 3]),
        2,
        Scopes.of_prompts(["first", "second"]),
        2,
    )
    scores = resample(joint, resamples=500, prompts=True).prompts["prompt_bias_score"][:, 0]
    assert np.all(scores[:2] == 1)
    assert np.all(scores[2:] == -1)


def score(resampled: list[float], value: float, **changed: object) -> tuple[float, float]:
    settings = {
        "lowest": 0.0, "highest": 1.0, "spread": np.array(1.0), "images": np.array(40.0), "at_most_images": False,
        "level": 0.95,
    } | changed  # fmt: skip
    limits = score_interval(np.array(resampled), np.array(value), **settings)
    return float(limits.low), float(limits.high)


def test_score_interval_by_hand() -> None:
    # Mean 0.5, sum of squares 0.2, divided by 23 - 3: variance 0.01, so 0.25 / 0.01 = 25 images.
    resampled = [0.4] * 10 + [0.6] * 10 + [0.5] * 3
    assert score(resampled, 0.5) == pytest.approx(proportion_confint(12.5, 25, method="wilson"))
    # On a range of 2 from -1 the value -0.2 is a share of 0.4; twice the spread leaves a quarter of the images.
    shifted = [2 * each - 1 for each in resampled]
    low, high = proportion_confint(0.4 * 6.25, 6.25, method="wilson")
    found = score(shifted, -0.2, lowest=-1.0, highest=1.0, spread=np.array(2.0))
    assert found == pytest.approx((2 * low - 1, 2 * high - 1))
    # Where prompts are drawn, the images at hand are the most that there can be.
    capped = score(resampled, 0.5, at_most_images=True, images=np.array(10.0))
    assert capped == pytest.approx(proportion_confint(5, 10, method="wilson"))


def test_score_interval_where_resamples_say_nothing() -> None:
    assert score([1.0] * 30, 1.0) == pytest.approx(proportion_confint(40, 40, method="wilson"))
    assert np.isnan(score([0.4] * 30, 0.4)).all()
    assert np.isnan(score([NAN] * 16 + [0.4, 0.6] * 7, 0.5)).all()
    assert np.isnan(score([0.4, 0.6] * 15, 0.5, spread=np.array(NAN))).all()
    assert np.isnan(score([1.0] * 30, 1.0, spread=np.array(NAN))).all()
    assert np.isnan(score([0.4, 0.6] * 15, 1.2)).all()


def test_many_images_give_the_interval_of_the_standard_error() -> None:
    random = np.random.default_rng(1)
    low, high = score(list(random.normal(0.3, 0.002, 4000)), 0.3)
    assert (low, high) == pytest.approx((0.3 - 1.96 * 0.002, 0.3 + 1.96 * 0.002), abs=1e-4)


def test_ratio_of_two_numbers() -> None:
    # Independent, with symmetric limits: Fieller's theorem, (ab +- sqrt(a2 b2 - (a2 - s2)(b2 - t2))) / (b2 - t2),
    # with the half-widths s = 0.5 and t = 0.4 of a = 3 and b = 2.
    root = np.sqrt(36 - (9 - 0.25) * (4 - 0.16))
    both = [np.array(each) for each in (3.0, 2.0)]
    limits = [Interval(np.array(2.5), np.array(3.5)), Interval(np.array(1.6), np.array(2.4))]
    found = interval_of_ratio(*both, of_numerator=limits[0], of_denominator=limits[1], correlation=np.array(0.0))
    assert (float(found.low), float(found.high)) == pytest.approx(((6 - root) / 3.84, (6 + root) / 3.84))
    # The same number twice has a ratio of 1.
    same = interval_of_ratio(
        both[0], both[0], of_numerator=limits[0], of_denominator=limits[0], correlation=np.array(1.0)
    )
    assert (float(same.low), float(same.high)) == pytest.approx((1, 1))
    # A denominator that could as well be 0, or twice as large.
    for wide in (Interval(np.array(0.0), np.array(2.4)), Interval(np.array(1.0), np.array(4.0))):
        none = interval_of_ratio(*both, of_numerator=limits[0], of_denominator=wide, correlation=np.array(0.0))
        assert np.isnan([none.low, none.high]).all()


def test_mean_of_intervals_leaves_out_what_is_undefined() -> None:
    values = np.array([0.9, 0.5, NAN])
    found = interval_of_mean(values, Interval(np.array([0.6, 0.1, NAN]), np.array([1.0, 0.9, NAN])))
    assert float(found.low) == pytest.approx(0.7 - np.hypot(0.3, 0.4) / 2)
    assert float(found.high) == pytest.approx(0.7 + np.hypot(0.1, 0.4) / 2)


def test_correlation_leaves_out_what_is_undefined() -> None:
    random = np.random.default_rng(2)
    one = random.normal(size=200)
    other = one + random.normal(size=200)
    expected = np.corrcoef(one, other)[0, 1]
    gap = np.array([NAN])
    found = correlation_of(np.concatenate([one, gap, gap + 1]), np.concatenate([other, gap + 1, gap]))
    assert float(found) == pytest.approx(expected)
    assert float(correlation_of(np.ones(5), np.arange(5.0))) == 0


def many_studies(studies: int) -> JointVerdicts:
    """One study in each T2I model: 12 prompts x 5 images, and a detector that is right 9 times in 10."""
    random = np.random.default_rng(3)
    men = np.tile([0.02, 0.1, 0.2, 0.35, 0.5, 0.6, 0.75, 0.85, 0.9, 0.95, 0.98, 1.0], studies)
    pair = np.repeat(np.arange(studies * PROMPTS), IMAGES)
    truth = (random.random(pair.size) >= men[pair]).astype(np.int8)
    wrong = random.random(pair.size) < 0.1
    scopes = Scopes.of_prompts([f"category {number % 3}" for number in range(PROMPTS)])
    return JointVerdicts(
        truth, np.where(wrong, 1 - truth, truth)[np.newaxis].astype(np.int8), pair, studies, scopes, 2
    )


def held(scores: ScoreTable, name: str, truth: float) -> float:
    """Share of the studies whose interval holds the truth."""
    index = scores.metrics.index(name)
    low, high = scores.ci_low[0, 1:, 0, index], scores.ci_high[0, 1:, 0, index]
    assert not np.isnan(low).any()
    return float(((low <= truth) & (truth <= high)).mean())


@pytest.mark.slow
def test_intervals_of_twelve_prompts_with_five_images_hold() -> None:
    joint = many_studies(200)
    counts = counts_of(joint)
    doubt = IntervalScores.of_counts(counts, Intervals(resamples=400, seed=4), n_clear="detector")
    human = doubt.of_human(human_scope_scores(counts))
    detectors = doubt.of_detectors(detector_scope_scores(counts, n_clear="detector"))
    expected = counts_of(many_studies(2000))
    truths = [human_scope_scores(expected), detector_scope_scores(expected, n_clear="detector")]
    names = ("model_bias_score", "model_bias_score_deviation", "prompt_bias_score_difference", "accuracy")
    for name in names:
        truth = truths[1].value[0, 1:, 0, truths[1].metrics.index(name)].mean()
        assert 0.92 <= held(detectors, name, truth) <= 0.99, name
    index = human.metrics.index("model_bias_score")
    truth = truths[0].value[0, 1:, 0, index].mean()
    assert 0.92 <= held(human, "model_bias_score", truth) <= 0.99
    # The plain bootstrap, centred, with the lost degrees of freedom given back, was the way before.
    plain = resample(joint, resamples=400, seed=4, borrow=False).human["model_bias_score"][1:, 0, 0]
    value = human.value[0, 1:, 0, index]
    spread = np.array(np.sqrt(IMAGES / (IMAGES - 1)))
    moved = sampling_distribution({"it": plain}, {"it": value}, spread=spread, unit="image")["it"]
    low, high = percentile_interval(moved, level=0.95)
    assert ((low <= truth) & (truth <= high)).mean() < 0.91


def test_a_table_says_why_a_number_stands_alone() -> None:
    columns = (Column("name", "Name", kind="name"), Column("score", "Score", has_intervals=True))

    def table(limits: list[tuple[float, float]]) -> Table:
        rows = tuple(
            Row(f"row {number}", (Cell(f"row {number}"), with_interval(Cell("0.5", 0.5), *limit)))
            for number, limit in enumerate(limits)
        )
        return Table("scores", "Scores.", "gender", columns, rows)

    some = table([(0.4, 0.6), (NAN, NAN)])
    assert [note for note in some.all_notes if "Where there is no interval" in note]
    for alike in (table([(0.4, 0.6)]), table([(NAN, NAN)])):
        assert alike.all_notes == (alike.ethics_note,)


def test_four_prompts_do_not_speak_for_others() -> None:
    counts = counts_of(many_studies(2))
    doubt = IntervalScores.of_counts(counts, Intervals(resamples=400, unit="prompt"), n_clear="detector")
    scores = doubt.of_detectors(detector_scope_scores(counts, n_clear="detector"))
    place = {name: index for index, name in enumerate(scores.metrics)}
    chosen = [place[name] for name in ("accuracy", "model_bias_score", "prompt_bias_score_difference")]
    assert np.isnan(scores.ci_low[..., 1:, chosen]).all()
    assert not np.isnan(scores.ci_low[..., 0, chosen]).any()
    # 5 clear images of a prompt: the corrected score jumps.
    assert np.isnan(scores.ci_low[..., place["model_bias_score_corrected"]]).all()


@pytest.mark.parametrize("method", ["percentile", "bca"])
@pytest.mark.parametrize("unit", ["image", "prompt"])
def test_percentiles_of_few_images_are_refused(method: str, unit: str) -> None:
    counts = counts_of(many_studies(7))  # 420 images in all, 60 of each T2I model
    settings = Intervals(resamples=400, method=method, unit=unit)
    scores = IntervalScores.of_counts(counts, settings, n_clear="detector").of_detectors(
        detector_scope_scores(counts, n_clear="detector")
    )
    index = scores.metrics.index("model_bias_score")
    assert np.isnan(scores.ci_low[0, 1:, 0, index]).all()
    assert np.isnan(scores.ci_low[0, 0, 0, index]) == (unit == "prompt")


def test_single_prompts_have_wilsons_interval_on_the_scale_of_scores() -> None:
    counts = counts_of(many_studies(1))
    settings = Intervals(resamples=400, prompts=True)
    doubt = IntervalScores.of_counts(counts, settings, n_clear="detector")
    at = (np.zeros(PROMPTS, dtype=np.intp), np.arange(PROMPTS))
    human = doubt.of_human_prompts(human_prompt_scores(counts, at=at), at=at)
    index = human.metrics.index("prompt_bias_score")
    value = human.value[0, :, index]
    expected = wilson_interval((value + 1) / 2, np.full(PROMPTS, IMAGES), level=0.95)
    np.testing.assert_allclose(human.ci_low[0, :, index], 2 * expected.low - 1)
    np.testing.assert_allclose(human.ci_high[0, :, index], 2 * expected.high - 1)
    detectors = doubt.of_detector_prompts(detector_prompt_scores(counts, at=at, n_clear="detector"), at=at)
    index = detectors.metrics.index("prompt_bias_score_difference")
    low, value, high = (each[0, :, index] for each in (detectors.ci_low, detectors.value, detectors.ci_high))
    assert np.all((low <= value) & (value < high))
