"""Score maps: found where the truth is known, against other programs, judged on prompts that did not fit them."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from pydantic import ValidationError

from detector_bench.estimation.calibration import (
    JudgedScores,
    bins_of,
    brier_losses,
    cross_fitted,
    fitted,
    log_losses,
    losses,
)
from detector_bench.vocabulary.score_maps import Isotonic, Temperature, logits

FloatArray = NDArray[np.float64]


def sigmoid(values: FloatArray) -> FloatArray:
    return np.asarray(1 / (1 + np.exp(-values)))


def overconfident(*, factor: float, images: int = 20_000, prompts: int = 20, seed: int = 0) -> JudgedScores:
    """Verdicts of two classes whose logits are `factor` times as large as they should be."""
    random = np.random.default_rng(seed)
    true = np.abs(random.normal(0, 2, images))
    right = random.random(images) < sigmoid(true)
    return JudgedScores(sigmoid(factor * true), right, np.arange(images) % prompts)


# Fits


@pytest.mark.parametrize("factor", [0.5, 1.0, 3.0])
def test_the_temperature_is_what_logits_were_multiplied_by(factor: float) -> None:
    verdicts = overconfident(factor=factor)
    found = fitted(verdicts, "temperature")
    assert isinstance(found, Temperature)
    assert found.temperature == pytest.approx(factor, rel=0.05)
    own = log_losses(found(verdicts.scores), verdicts.right).mean()
    for other in (0.9, 1.1):
        beside = Temperature(temperature=other * found.temperature)(verdicts.scores)
        assert log_losses(beside, verdicts.right).mean() > own


def test_a_temperature_divides_the_logits_of_a_softmax_over_two_classes() -> None:
    pair = np.array([3.0, -1.5])
    softmax = np.exp(pair) / np.exp(pair).sum()
    warmer = np.exp(pair / 2.5) / np.exp(pair / 2.5).sum()
    assert Temperature(temperature=2.5)(softmax).tolist() == pytest.approx(warmer.tolist())
    sure = Temperature(temperature=2.0)(np.array([0.0, 0.5, 1.0]))
    assert 0 < sure[0] < 0.001
    assert sure[1] == 0.5
    assert 0.999 < sure[2] < 1


def test_an_isotonic_curve_by_hand() -> None:
    scores = np.array([0.5, 0.6, 0.6, 0.7, 0.8, 0.9])
    right = np.array([True, False, True, False, True, True])
    found = fitted(JudgedScores(scores, right, np.arange(6)), "isotonic")
    # 1, 1/2 and 0 fall, and are joined: 2 of 4. Beyond that all are right: 1, kept 1/8 away from it.
    assert isinstance(found, Isotonic)
    assert found.scores == (0.5, 0.7, 0.8, 0.9)
    assert found.shares == (0.5, 0.5, 0.875, 0.875)
    assert found(np.array([0.1, 0.6, 0.75, 0.99])).tolist() == [0.5, 0.5, 0.6875, 0.875]


def test_isotonic_regression_is_scikit_learns() -> None:
    sklearn = pytest.importorskip("sklearn.isotonic")
    verdicts = overconfident(factor=3.0, images=500)
    found = fitted(verdicts, "isotonic")
    edge = 1 / 502
    reference = sklearn.IsotonicRegression(y_min=edge, y_max=1 - edge, out_of_bounds="clip")
    expected = reference.fit(verdicts.scores, verdicts.right).predict(verdicts.scores)
    np.testing.assert_allclose(found(verdicts.scores), expected, atol=1e-9)
    assert isinstance(found, Isotonic)
    assert len(found.scores) < 60, "level stretches are kept as their ends"


def test_verdicts_that_are_all_right_have_finite_maps() -> None:
    sure = JudgedScores(np.array([0.8, 1.0, 0.9]), np.ones(3, dtype=np.bool_), np.arange(3))
    for method in ("temperature", "isotonic"):
        mapped = fitted(sure, method)(np.array([0.0, 0.5, 1.0]))  # type: ignore[arg-type]
        assert ((mapped > 0) & (mapped < 1)).all()
    assert fitted(sure, "isotonic")(np.array([0.8])).tolist() == [0.8]  # 1 - 1 / (3 + 2)


@pytest.mark.parametrize(
    ("scores", "shares", "message"),
    [
        ((0.5, 0.6), (0.5,), "2 scores and 1 shares"),
        ((0.6, 0.5), (0.5, 0.6), "scores rise"),
        ((0.5, 0.6), (0.6, 0.5), "shares never fall"),
        ((0.5, 0.6), (0.5, 1.0), "above 0 and below 1"),
    ],
)
def test_a_curve_that_is_none_is_refused(
    scores: tuple[float, ...], shares: tuple[float, ...], message: str
) -> None:
    with pytest.raises(ValidationError, match=message):
        Isotonic(scores=scores, shares=shares)


# Out of sample


@pytest.mark.parametrize("method", ["temperature", "isotonic"])
def test_an_images_score_is_calibrated_without_its_prompts_labels(method: str) -> None:
    verdicts = overconfident(factor=2.0, images=200, prompts=10)
    folds = np.array([np.arange(10) % 5, np.arange(10) // 2])
    found = cross_fitted(verdicts, method, fold_of_prompt=folds)  # type: ignore[arg-type]
    own = verdicts.prompt == 3
    turned = JudgedScores(verdicts.scores, np.where(own, ~verdicts.right, verdicts.right), verdicts.prompt)
    other = cross_fitted(turned, method, fold_of_prompt=folds)  # type: ignore[arg-type]
    assert found.out_of_sample.shape == (2, 200)
    np.testing.assert_array_equal(found.out_of_sample[:, own], other.out_of_sample[:, own])
    assert not np.array_equal(found.in_sample[own], other.in_sample[own])
    for repeat, fold in enumerate(folds):
        fit = fitted(verdicts.of(fold[verdicts.prompt] != fold[3]), method)  # type: ignore[arg-type]
        np.testing.assert_array_equal(found.out_of_sample[repeat, own], fit(verdicts.scores[own]))


# Losses


def test_losses_by_hand() -> None:
    scores, right = np.array([0.9, 0.8, 0.6, 0.7]), np.array([True, False, True, True])
    verdicts = JudgedScores(scores, right, np.array([0, 0, 2, 2]))
    once = np.ones((1, 2))
    found = losses(scores, verdicts, times=once, prompts=np.array([0, 2]), bins=2)
    assert found.log_loss[0] == pytest.approx(-np.log([0.9, 0.2, 0.6, 0.7]).mean())
    assert found.brier[0] == pytest.approx(np.mean([0.01, 0.64, 0.16, 0.09]))
    # The lower bin: 0.65 on average, 1 right; the upper one: 0.85, 0.5 right.
    assert found.calibration_error[0] == pytest.approx((0.35 + 0.35) / 2)
    drawn = losses(scores, verdicts, times=np.array([[2.0, 0.0]]), prompts=np.array([0, 2]), bins=2)
    assert drawn.brier[0] == pytest.approx(np.mean([0.01, 0.64]))


def test_bins_hold_equally_many_images_and_equal_scores_stay_together() -> None:
    scores = np.linspace(0.5, 1, 40)
    assert np.bincount(bins_of(scores)).tolist() == [4] * 10
    same = np.array([0.5] * 30 + [0.6] * 10)
    assert len(set(bins_of(same)[:30])) == 1
    assert bins_of(np.array([0.7, 0.6]))[0] == 1


def test_calibration_lowers_the_losses_of_an_overconfident_detector_on_other_prompts() -> None:
    verdicts = overconfident(factor=3.0, images=2_000)
    folds = (np.arange(20) % 5)[np.newaxis]
    for method in ("temperature", "isotonic"):
        found = cross_fitted(verdicts, method, fold_of_prompt=folds)  # type: ignore[arg-type]
        before, after = (
            losses(scores, verdicts, times=np.ones((1, 20)), prompts=np.arange(20))
            for scores in (found.uncalibrated, found.out_of_sample)
        )
        assert after.log_loss < 0.8 * before.log_loss
        assert after.brier < before.brier
        assert after.calibration_error < 0.5 * before.calibration_error
    assert brier_losses(np.array([1.0]), np.array([False])).tolist() == [1.0]
    assert logits(np.array([0.5]))[0] == 0
