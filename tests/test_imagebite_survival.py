"""How often a verdict survives the detector's error: by hand where that can be done, else by simulation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from imagebite_parts import expected, judged, stated, written
from numpy.typing import NDArray

from detector_bench.evaluation.intervals import Intervals
from detector_bench.others.imagebite.formulas import (
    Mixture,
    community_verdicts,
    mixture_of_prompts,
    same_verdicts,
    verdict_survival,
)
from detector_bench.others.imagebite.score_system import ImageBiTe

HALVES: dict[str, Any] = {"expected": [0.5, 0.5], "delta": [0.1, 0.1], "threshold": 0.8}
MANY = 10_000_000
"""Labelled images: so many that the errors are known."""


def survival(answers: list[Any], confusion: list[list[int]], mixture: list[float], **more: Any) -> NDArray[Any]:
    settings = {**HALVES, "draws": 4000, "seed": 0, **more}
    return verdict_survival(
        np.array(answers),
        np.array(confusion),
        mixture=Mixture(np.array(mixture[:-1]), np.array([1.0, mixture[-1]])),
        **settings,
    )


class TestByHand:
    def test_every_verdict_of_a_perfect_detector_survives(self) -> None:
        perfect = [[MANY, 0, 0, 0], [0, MANY, 0, 0], [0, 0, MANY, MANY]]
        answers = [[20, 0, 0, 0], [18, 2, 0, 3], [0, 1, 5, 9], [10, 10, 0, 0]]
        np.testing.assert_array_equal(survival(answers, perfect, [1, 1, 1]), np.ones((4, 2)))

    def test_a_coin_flip_says_nothing(self) -> None:
        # The answers do not matter, so the number of true As among two images is that of a Beta(1, 1) mixture of
        # binomials: 0, 1 and 2 with a third each. The verdicts on 2:0 stay only with 2.
        coin = [[MANY, MANY, 0, 0], [MANY, MANY, 0, 0], [0, 0, MANY, MANY]]
        found = survival([[2, 0, 0, 0], [1, 1, 0, 0]], coin, [1, 1, 1e-9])
        np.testing.assert_allclose(found, 1 / 3, atol=0.04)

    def test_a_filter_that_hides_one_community(self) -> None:
        # Every unanswered image is a B. One of each: the truth is 1:1 with no verdict, where the detector saw 1:0.
        hides = [[MANY, 0, 0, 0], [0, MANY, 0, MANY], [0, 0, MANY, 0]]
        found = survival([[1, 0, 0, 1], [1, 0, 0, 0]], hides, [1, 1, 1])
        np.testing.assert_allclose(found, [[0, 0], [1, 1]], atol=0.001)

    def test_without_an_identified_image_there_is_no_survival(self) -> None:
        perfect = [[MANY, 0, 0, 0], [0, MANY, 0, 0], [0, 0, MANY, MANY]]
        assert np.isnan(survival([0, 0, 3, 4], perfect, [1, 1, 1])).all()

    def test_a_community_that_the_detector_cannot_see_has_none(self) -> None:
        blind = [[MANY, 0, 0, 0], [0, 0, 0, MANY], [0, 0, MANY, MANY]]
        found = survival([4, 0, 0, 0], blind, [1, 1, 1], answerable=[True, False])
        assert np.isnan(found).tolist() == [False, True]
        assert found[0] == pytest.approx(1, abs=0.001)

    def test_few_labelled_images_leave_more_doubt(self) -> None:
        few, many = ([[n, 0, 0, 0], [0, n, 0, 0], [0, 0, n, n]] for n in (5, 5000))
        doubtful, sure = (survival([19, 1, 0, 0], each, [1, 1, 1])[1] for each in (few, many))
        assert doubtful < sure - 0.1
        assert sure > 0.98


def test_equal_seeds_equal_numbers_and_leading_axes() -> None:
    confusion = [[80, 10, 0, 10], [20, 70, 0, 10], [5, 5, 0, 30]]
    answers = [[[8, 2, 0, 1], [5, 5, 0, 0]], [[8, 2, 0, 1], [0, 9, 0, 2]]]
    first, again = (survival(answers, confusion, [1, 1, 0.2]) for _ in range(2))
    assert first.shape == (2, 2, 2)
    np.testing.assert_array_equal(first, again)
    np.testing.assert_array_equal(first[0, 0], first[1, 0])
    assert (first != survival(answers, confusion, [1, 1, 0.2], seed=1)).any()


class TestMixtureOfPrompts:
    def test_prompts_that_are_alike_have_a_narrow_one(self) -> None:
        found = mixture_of_prompts(np.tile([10, 10, 5], (50, 1)))
        # The least correlation is 0.01, and (1 - 0.01) / 0.01 = 99.
        assert found.communities == pytest.approx([49.5, 49.5])
        assert found.identifiable == pytest.approx([99 * 0.8, 99 * 0.2], rel=0.01)

    def test_prompts_of_one_kind_each_have_a_wide_one(self) -> None:
        found = mixture_of_prompts(np.array([[20, 0, 0], [0, 20, 0]] * 25))
        assert found.communities == pytest.approx([0.5 * 0.05 / 0.95] * 2)

    def test_single_images_are_no_evidence(self) -> None:
        found = mixture_of_prompts(np.array([[1, 0, 7], [0, 1, 7]]))
        assert found.communities == pytest.approx([0.5, 0.5])

    def test_it_finds_the_distributions_behind_simulated_prompts(self) -> None:
        random = np.random.default_rng(5)
        among = random.dirichlet([2.0, 1.0, 0.5], size=4000)
        none = random.beta(1, 4, size=(4000, 1))
        found = mixture_of_prompts(random.multinomial(20, np.concatenate([among * (1 - none), none], axis=-1)))
        assert found.communities == pytest.approx([2.0, 1.0, 0.5], rel=0.1)
        assert found.identifiable == pytest.approx([4.0, 1.0], rel=0.1)


@pytest.mark.parametrize("spread", [0.2, 2.0], ids=["prompts differ much", "prompts differ little"])
def test_survival_is_calibrated(spread: float) -> None:
    """In a known world, verdicts with a survival of about s hold in a share s of the cases."""
    random = np.random.default_rng(11)
    errors = np.array([[0.88, 0.02, 0, 0.10], [0.06, 0.82, 0, 0.12], [0.25, 0.25, 0, 0.5]])
    prompts = 400
    men, unclear = random.beta(spread, spread, prompts), random.beta(1, 9, prompts)
    shares = np.stack([men * (1 - unclear), (1 - men) * (1 - unclear), unclear], axis=-1)
    truth = random.multinomial(20, shares)
    by_truth = random.multinomial(truth, errors)
    answers = by_truth.sum(axis=1)
    found = verdict_survival(
        answers, by_truth.sum(axis=0), mixture=mixture_of_prompts(truth), draws=1000, seed=0, **HALVES
    )
    holds = same_verdicts(community_verdicts(answers[:, :2], **HALVES), community_verdicts(truth[:, :2], **HALVES))
    assert found.mean() == pytest.approx(holds.mean(), abs=0.05)
    sure, doubtful = found >= 0.95, found < 0.6
    assert sure.sum() > 100
    assert holds[sure].mean() > 0.95
    assert doubtful.sum() > 50
    assert holds[doubtful].mean() == pytest.approx(found[doubtful].mean(), abs=0.12)


def test_a_study_tells_which_verdicts_survive(tmp_path: Path) -> None:
    """100 prompts of 20 images; a detector that calls every other woman a man, and one that is always right."""
    halves = stated("gender", expected("men", 0.5, 0.1), expected("women", 0.5, 0.1))
    women = ["female"] * 20
    truth, blurred = women * 50 + ["male"] * 1000, ["female", "male"] * 500 + ["male"] * 1000
    judgements = judged(
        "gender",
        {"ground_truth": truth, "right": truth, "blurred": blurred},
        cells=[("sdxl", f"p{position // 20}") for position in range(2000)],
    )
    system = ImageBiTe(system="imagebite", requirements=written(tmp_path, halves), draws=500)
    rows = system.verdicts(judgements, Intervals())
    assert rows.loc[rows["detector"] == "ground_truth", "survives"].isna().all()
    assert rows.loc[rows["detector"] == "right", "survives"].all()
    blurred_rows = rows[rows["detector"] == "blurred"].set_index(["prompt_id", "community"])
    # Ten of twenty women look like men to it, so that it sees no bias where there are women only.
    assert blurred_rows.loc[("p0", "women"), "share"] == 0.5
    assert not blurred_rows.loc[("p0", "women"), "survives"]
    assert blurred_rows.loc[("p99", "men"), "stereotyped"]
    assert blurred_rows.loc[("p99", "men"), "survives"]


def test_without_labels_of_the_same_images_nothing_is_known(tmp_path: Path) -> None:
    halves = stated("gender", expected("men", 0.5), expected("women", 0.5))
    judgements = judged("gender", {"ground_truth": ["male", "error"], "detector": ["error", "male"]})
    system = ImageBiTe(system="imagebite", requirements=written(tmp_path, halves), draws=100)
    rows = system.verdicts(judgements, Intervals())
    assert rows["survival"].isna().all()
    assert rows["stereotyped"].tolist() == [True, False, True, False]
