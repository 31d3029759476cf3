"""Which T2I models are biased, which two differ: by hand where all images have a label, and wrong rarely."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from detector_bench.estimation import PartlyLabelled
from detector_bench.estimation.t2i_model_tests import ScoreTest, t2i_model_tests
from detector_bench.metrics import Scopes

MEAN, SCORE = "mean_prompt_bias_score", "model_bias_score"


def of_counts(counts: np.ndarray) -> PartlyLabelled:
    """All images labelled; counts of men and women, `[t2i_model, prompt, class]`, and no detector."""
    models, prompts, _ = counts.shape
    cells = np.repeat(np.arange(models * prompts), counts.reshape(-1, 2).sum(axis=1))
    truth = np.concatenate([np.repeat([0, 1], each) for each in counts.reshape(-1, 2)])
    return PartlyLabelled.drawn_evenly(
        truth,
        np.zeros((0, len(truth)), dtype=np.int8),
        cells,
        t2i_models=models,
        scopes=Scopes.of_prompts(["c"] * prompts),
        classes=2,
    )


def one(tests: tuple[ScoreTest, ...], metric: str, *models: int) -> ScoreTest:
    return next(each for each in tests if (each.metric, each.t2i_models) == (metric, models))


def test_a_difference_of_mean_scores_is_welchs_test_over_the_prompts_that_both_have() -> None:
    counts = np.array([[[8, 2], [7, 3], [5, 5], [9, 1]], [[3, 7], [5, 5], [4, 6], [0, 0]]])
    tests = t2i_model_tests(of_counts(counts)).differences
    found, other = one(tests, MEAN, 0, 1), one(tests, SCORE, 0, 1)
    men = counts[:, :3, 0] / 10  # the second T2I model has no image of the last prompt
    variances = men * (1 - men) / 9 * (1 + 1 / 20)
    assert found.scores == pytest.approx(2 * men.mean(axis=1) - 1)
    assert found.value == pytest.approx(2 * (men[0] - men[1]).mean())
    assert found.prompts == 3
    error = 2 * np.sqrt(variances.sum()) / 3
    freedom = variances.sum() ** 2 / (variances**2 / 9).sum()
    assert found.p_value == pytest.approx(2 * stats.t.sf(found.value / error, freedom))
    # Of two differences the smaller p-value is doubled, and the other one is at least as large as that.
    first, second = sorted([found, other], key=lambda each: each.p_value)
    assert first.p_adjusted == pytest.approx(2 * first.p_value)
    assert second.p_adjusted == pytest.approx(max(2 * first.p_value, second.p_value))
    level = 0.05 if first is other and first.p_adjusted <= 0.05 else 0.05 / 2
    half = stats.t.isf(level / 2, freedom) * error
    assert (found.low, found.high) == pytest.approx((found.value - half, found.value + half))
    assert found.beyond_chance(0.95) == (found.low > 0)


def test_an_interval_leaves_out_0_exactly_where_the_test_says_so() -> None:
    random = np.random.default_rng(5)
    for lean in (0.0, 0.05, 0.1, 0.2):
        men = random.binomial(12, np.array([0.5, 0.5 + lean, 0.5 - lean])[:, np.newaxis], size=(3, 8))
        found = t2i_model_tests(of_counts(np.stack([men, 12 - men], axis=-1)))
        for each in (*found.differences, *(test for test in found.biases if test.metric == MEAN)):
            assert each.beyond_chance(0.95) == (not each.low <= 0 <= each.high)


@pytest.mark.slow
def test_fair_t2i_models_are_seldom_called_biased_and_a_one_sided_one_always() -> None:
    random = np.random.default_rng(6)
    wrong = np.zeros((60, 3), dtype=bool)
    for study in wrong:
        men = random.binomial(20, 0.5, size=(2, 15))
        found = t2i_model_tests(of_counts(np.stack([men, 20 - men], axis=-1)))
        study[0] = any(each.beyond_chance(0.95) for each in found.differences)
        study[1] = any(each.beyond_chance(0.95) for each in found.biases if each.metric == MEAN)
        study[2] = any(each.beyond_chance(0.95) for each in found.biases if each.metric == SCORE)
    # 5 % of 60 studies are 3; more than 7 would happen once in a hundred times.
    assert (wrong.sum(axis=0) <= 7).all()
    men = random.binomial(20, 0.9, size=(2, 15))
    found = t2i_model_tests(of_counts(np.stack([men, 20 - men], axis=-1)))
    assert all(each.beyond_chance(0.95) for each in found.biases)


def test_prompts_that_are_uneven_to_both_sides_are_not_balanced_though_their_mean_is() -> None:
    men = np.array([[18, 2] * 6])
    found = t2i_model_tests(of_counts(np.stack([men, 20 - men], axis=-1)))
    assert not one(found.biases, MEAN, 0).beyond_chance(0.95)
    assert one(found.biases, SCORE, 0).beyond_chance(0.95)


def test_one_image_of_each_prompt_does_not_make_a_score_certain() -> None:
    men = np.random.default_rng(7).binomial(1, 0.5, size=(1, 40))
    found = one(t2i_model_tests(of_counts(np.stack([men, 1 - men], axis=-1))).biases, MEAN, 0)
    assert found.high - found.low > 0.5
