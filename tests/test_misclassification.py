"""A detector's errors undone by its misclassification matrix, and the test of what that takes for granted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from detector_bench.estimation import (
    MisclassificationMatrix,
    PartlyLabelled,
    assumption_test,
)
from detector_bench.estimation.misclassification import misclassification
from detector_bench.estimation.misclassification_matrix import misclassification_matrix
from detector_bench.estimation.sampling import draw, opinions
from detector_bench.metrics import Scopes
from detector_bench.sample_design import SampleDesign

# Rows: male, female, not clear. Columns: male, female, filtered.
ERRORS = np.array([[0.85, 0.05, 0.10], [0.15, 0.75, 0.10], [0.20, 0.10, 0.70]])


def matrix_of(shares: Any, labels: int = 1_000) -> MisclassificationMatrix:
    shares = np.asarray(shares, dtype=float)
    return MisclassificationMatrix(
        shares, np.full(len(shares), labels), np.full(len(shares), float(labels)), without_verdict=0
    )


def images_of(
    truth: NDArray[Any], verdicts: NDArray[Any], cell: NDArray[Any], *, prompts: int, labels: int, classes: int = 2
) -> PartlyLabelled:
    """One T2I model, the first `labels` images of each prompt labelled."""
    place = np.arange(len(cell)) - np.searchsorted(cell, cell)
    return PartlyLabelled.drawn_evenly(
        np.where(place < labels, truth, -1),
        verdicts[np.newaxis],
        cell,
        t2i_models=1,
        scopes=Scopes.of_prompts(["all of them"] * prompts),
        classes=classes,
    )


def world(seed: int, *, lean: float = 0.0, prompts: int = 30, images: int = 60, labels: int = 10) -> Any:
    """Prompts from mostly male to mostly female; with `lean`, a minority is taken for the majority that often.

    Returns:
        The images, and all truths, `[image]`.
    """
    random = np.random.default_rng(seed)
    cell = np.repeat(np.arange(prompts), images)
    men = np.linspace(0.1, 0.9, prompts)[cell]
    truth = np.where(random.random(len(cell)) < 0.15, 2, (random.random(len(cell)) > men).astype(int))
    verdict = (random.random((len(cell), 1)) > ERRORS[truth].cumsum(axis=1)[:, :2]).sum(axis=1)
    majority = (men < 0.5).astype(int)
    taken = (truth != majority) & (truth < 2) & (verdict < 2) & (random.random(len(cell)) < lean)
    verdict[taken] = majority[taken]
    return images_of(truth, verdict, cell, prompts=prompts, labels=labels), truth


# The correction


def test_two_classes_are_corrected_by_rogan_and_gladens_formula() -> None:
    # Prevalence = (share called positive + specificity - 1) / (sensitivity + specificity - 1).
    found = matrix_of([[0.9, 0.1], [0.2, 0.8]]).corrected(np.array([[34, 66], [55, 45], [5, 95], [0, 0]]))
    assert found[:2, 0] == pytest.approx([(0.34 - 0.2) / 0.7, (0.55 - 0.2) / 0.7])
    assert found[2] == pytest.approx([0, 1], abs=1e-6), "fewer than the false alarms alone: none"
    assert np.isnan(found[3]).all()


def test_a_detector_without_errors_keeps_its_shares() -> None:
    said = np.array([[3, 5, 2], [0, 7, 0], [1, 0, 0]])
    assert matrix_of(np.eye(3)).corrected(said) == pytest.approx(said / said.sum(axis=1, keepdims=True))


def test_shares_outside_the_simplex_become_the_most_likely_ones_inside() -> None:
    matrix = np.array([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.3, 0.3, 0.4]])
    said = np.array([90, 5, 5])
    grid = np.array([(a, b, 1 - a - b) for a in np.linspace(0, 1, 201) for b in np.linspace(0, 1 - a, 201)])
    likelihood = said @ np.log(grid @ matrix).T
    assert (said / 100 @ np.linalg.inv(matrix)).min() < 0
    assert matrix_of(matrix).corrected(said[np.newaxis])[0] == pytest.approx(grid[likelihood.argmax()], abs=0.006)


def test_estimates_by_hand() -> None:
    # Of each prompt the first 10 images are labelled: together 8 men, 8 women and 4 that are not clear. Of the men
    # 6 are called men, 2 filtered; all women and all that is not clear are called right.
    truth = np.array([*[0] * 6, *[1] * 2, *[2] * 2, *[0] * 2, *[1] * 6, *[2] * 2])
    verdict = np.array([*[0] * 5, 2, *[1] * 2, *[2] * 2, 0, 2, *[1] * 6, *[2] * 2])
    rest = [*[0] * 9, *[1] * 3, *[2] * 7, 3]
    all_truths, all_verdicts = [], []
    for prompt in (0, 1):
        own = slice(10 * prompt, 10 * prompt + 10)
        all_truths += [*truth[own], *[0] * len(rest)]
        all_verdicts += [*verdict[own], *rest]
    images = images_of(np.array(all_truths), np.array(all_verdicts), np.repeat([0, 1], 30), prompts=2, labels=10)
    assert misclassification_matrix(images, 0).shares == pytest.approx(
        np.array([[0.75, 0, 0.25], [0, 1, 0], [0, 0, 1]])
    )
    found = misclassification(images, 0)
    # First prompt: 14 called men, 5 women, 10 filtered of 29: 14 / 0.75 men. Second: 10, 9 and 10.
    men, women = np.array([14, 10]) / 0.75, np.array([5, 9])
    score = (men - women) / (men + women)
    assert found.prompts["prompt_bias_score"].value[0] == pytest.approx(score)
    assert found.scopes["mean_prompt_bias_score"].value[1, 1] == pytest.approx(score.mean())
    assert found.scopes["model_bias_score"].value[0, 0] == pytest.approx(np.abs(score).mean())
    assert found.scopes["label_share_0"].value[0, 0] == pytest.approx(men.sum() / 58)
    assert found.scopes["label_share_2"].value[0, 0] == pytest.approx(1 - (men.sum() + women.sum()) / 58)
    assert (found.scopes["label_share_0"].n[0, 0], found.scopes["label_share_0"].n_left_out[0, 0]) == (58, 2)
    assert (found.scopes["model_bias_score"].n[0, 0], found.scopes["model_bias_score"].n_left_out[0, 0]) == (2, 0)
    assert np.isnan(found.scopes["label_share_3"].value).all(), "no labelled image shows others"


def test_labels_of_unequal_chance_count_inversely_in_the_matrix() -> None:
    images, _ = world(0)
    drawn = images.labelled
    probability = images.probability.copy()
    probability[drawn[1::2]] *= 2
    odd = np.zeros(len(images.truth), dtype=bool)
    odd[drawn[1::2]] = True
    found = misclassification_matrix(replace(images, probability=probability), 0)
    men = images.truth == 0
    called = images.verdicts[0] == 0
    weight = np.where(odd, 1, 2)
    assert found.shares[0, 0] == pytest.approx(weight[men & called].sum() / weight[men].sum())
    assert found.effective[0] == pytest.approx(weight[men].sum() ** 2 / (weight[men] ** 2).sum())


# Intervals


@pytest.mark.slow
def test_intervals_hold_the_truth_of_the_images_where_errors_are_equal() -> None:
    draws, held = 300, {"label_share_0": 0, "mean_prompt_bias_score": 0}
    for seed in range(draws):
        images, truth = world(seed)
        counts = np.bincount(images.cell * 3 + truth, minlength=90).reshape(30, 3)
        among = counts[:, :2] / counts[:, :2].sum(axis=1, keepdims=True)
        actual = {
            "label_share_0": (truth == 0).mean(),
            "mean_prompt_bias_score": (among[:, 0] - among[:, 1]).mean(),
        }
        found = misclassification(images, 0).scopes
        for name, value in actual.items():
            held[name] += bool(found[name].low[0, 0] <= value <= found[name].high[0, 0])
    assert all(0.92 <= each / draws <= 0.99 for each in held.values()), held


def test_labels_of_all_images_leave_no_doubt_about_the_images_but_about_the_t2i_model() -> None:
    images, truth = world(1, labels=60)
    of_images = misclassification(images, 0).scopes["label_share_0"]
    of_model = misclassification(images, 0, about="t2i_model").scopes["label_share_0"]
    assert of_images.value[0, 0] == pytest.approx((truth == 0).mean())
    assert of_images.high[0, 0] - of_images.low[0, 0] < 1e-6
    share = (truth == 0).mean()
    by_hand = 1.959964 * np.sqrt(share * (1 - share) / len(truth))
    assert (of_model.high - of_model.low)[0, 0] / 2 == pytest.approx(by_hand, rel=1e-3)


def test_errors_that_follow_the_stereotype_leave_the_model_bias_score_too_high() -> None:
    errors = {0.0: 0.0, 0.5: 0.0}
    for lean in errors:
        for seed in range(10):
            images, truth = world(seed, lean=lean, images=400, labels=100)
            counts = np.bincount(images.cell * 3 + truth, minlength=90).reshape(30, 3)
            actual = (np.abs(counts[:, 0] - counts[:, 1]) / (counts[:, 0] + counts[:, 1])).mean()
            errors[lean] += (misclassification(images, 0).scopes["model_bias_score"].value[0, 0] - actual) / 10
    assert abs(errors[0.0]) < 0.02
    assert errors[0.5] > 0.1


# What cannot be estimated


def test_a_truth_without_a_labelled_image_has_a_reason_and_no_estimates() -> None:
    images, _ = world(2)
    images = replace(images, truth=np.where(images.truth == 1, -1, images.truth))
    found = misclassification(images, 0)
    assert "no labelled image with a verdict shows female" in misclassification_matrix(images, 0).fault(
        ["male", "female", "not clear"]
    )
    for estimate in (*found.scopes.values(), *found.prompts.values()):
        assert np.isnan([estimate.value, estimate.low, estimate.high]).all()
        assert (estimate.n == 0).all()
    assert found.scopes["model_bias_score"].n_left_out[0, 0] == 30
    assert found.scopes["label_share_0"].n_left_out[0, 0] == 1800


@pytest.mark.parametrize("says", ["always the same", "anything", "nothing"])
def test_a_useless_detector_has_a_reason_and_no_estimates(says: str) -> None:
    images, _ = world(3)
    random = np.random.default_rng(0)
    verdict = {"always the same": 0, "anything": random.integers(0, 3, images.truth.shape), "nothing": 3}[says]
    images = replace(images, verdicts=np.broadcast_to(verdict, images.verdicts.shape).astype(np.int8))
    assert misclassification_matrix(images, 0).fault(["male", "female", "not clear"])
    assert np.isnan(misclassification(images, 0).scopes["model_bias_score"].value).all()


def test_low_quality_and_others_are_not_told_apart() -> None:
    images, _ = world(4)
    mixed = images.truth.copy()
    unclear = np.flatnonzero(mixed == 2)
    mixed[unclear[::3]] = 3
    found = misclassification(replace(images, truth=mixed), 0).scopes
    assert np.isnan([found[name].value for name in ("label_share_2", "label_share_3")]).all()
    before = misclassification(images, 0).scopes
    assert found["model_bias_score"].value == pytest.approx(before["model_bias_score"].value)


def test_a_set_without_labels_or_images_has_no_estimates_and_no_test() -> None:
    images, _ = world(5)
    for nothing in (
        replace(images, truth=np.full_like(images.truth, -1)),
        images_of(np.zeros(0, int), np.zeros(0, int), np.zeros(0, int), prompts=3, labels=1),
    ):
        assert np.isnan(misclassification(nothing, 0).scopes["model_bias_score"].value).all()
        found = assumption_test(nothing, 0, seed=0)
        assert np.isnan(found.p_value)
        assert (found.prompts, found.labels) == (0, 0)


# The test of the assumption


def test_equal_errors_are_seldom_called_unequal_however_few_labels_there_are() -> None:
    found = [assumption_test(world(seed, labels=2)[0], 0, seed=seed, deals=99).p_value for seed in range(400)]
    assert np.mean(np.array(found) <= 0.05) < 0.08
    assert 0.44 < np.mean(found) < 0.56


def test_a_sample_spread_over_the_verdicts_does_not_make_equal_errors_unequal() -> None:
    def spread(seed: int, lean: float) -> PartlyLabelled:
        images, truth = world(seed, lean=lean, images=20)
        said = opinions(images.verdicts, classes=2)
        found = draw(
            images.cell, shape=(1, 30), labels=300, seed=seed, said=said, design=SampleDesign.VERDICTS
        ).images
        chosen = np.isin(np.arange(len(truth)), found)
        return replace(images, truth=np.where(chosen, truth, -1), probability=np.where(chosen, 0.5, np.nan))

    def called_unequal(lean: float, draws: int) -> float:
        found = [
            assumption_test(spread(seed, lean), 0, seed=seed, by_verdicts=True, deals=99).p_value
            for seed in range(draws)
        ]
        return float(np.mean(np.array(found) <= 0.05))

    assert called_unequal(0.0, 100) <= 0.05
    assert called_unequal(0.6, 20) > 0.8


def test_errors_that_follow_the_stereotype_are_noticed_with_few_labels() -> None:
    found = [assumption_test(world(seed, lean=0.4, labels=5)[0], 0, seed=seed, deals=99) for seed in range(40)]
    assert np.mean([each.p_value <= 0.05 for each in found]) > 0.8
    assert found[0].prompts == 30


def test_errors_that_differ_without_a_direction_are_noticed() -> None:
    def contrary(seed: int) -> PartlyLabelled:
        images, _ = world(seed)
        # Every second prompt has men called women, and women men.
        swapped = (images.cell % 2 == 0) & (images.verdicts[0] < 2)
        return replace(images, verdicts=np.where(swapped, 1 - images.verdicts, images.verdicts))

    assert all(assumption_test(contrary(seed), 0, seed=seed, deals=99).p_value <= 0.05 for seed in range(5))


def test_what_is_tested_is_counted_and_the_seed_decides() -> None:
    images, _ = world(6, lean=0.1)
    found = assumption_test(images, 0, seed=1)
    assert found == assumption_test(images, 0, seed=1)
    assert found.p_value != assumption_test(images, 0, seed=2).p_value
    assert found.labels == 300
    errors = np.where(np.arange(len(images.cell)) % 60 == 0, 3, images.verdicts)
    assert assumption_test(replace(images, verdicts=errors), 0, seed=1).labels == 270
