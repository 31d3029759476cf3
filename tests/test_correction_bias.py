"""The bias that corrected scores keep, against its exact value."""

from __future__ import annotations

import numpy as np
import pytest
from joint_studies import made_up
from numpy.typing import NDArray
from scipy.stats import binom

from detector_bench.metrics import CountArray, Scopes
from detector_bench.metrics.estimands import concentration_corrected, model_bias_score_error_bias, slopes_of_bias


def exact_bias(share: float, images: int) -> float:
    """Of the corrected score of one prompt of two classes."""
    count = np.arange(images + 1)
    estimate = concentration_corrected(np.stack([count, images - count], axis=-1))
    return float(binom.pmf(count, images, share) @ estimate - abs(2 * share - 1))


def one_sided(men: NDArray[np.int64], taken_for_men: NDArray[np.int64], *, images: int) -> CountArray:
    """Counts of one T2I model, `[1, prompt, 4, 4]`, of a detector that takes some women for men."""
    counts = np.zeros((1, len(men), 4, 4), dtype=np.int64)
    counts[0, :, 0, 0] = men
    counts[0, :, 1, 0] = taken_for_men
    counts[0, :, 1, 1] = images - men - taken_for_men
    return counts


@pytest.mark.parametrize("images", [10, 20, 50, 100])
@pytest.mark.parametrize("wrong", [0.06, 0.12])
def test_the_bound_holds_for_fair_prompts(images: int, wrong: float) -> None:
    prompts, random = 2_000, np.random.default_rng(images)
    men = random.binomial(images, 0.5, prompts)
    counts = one_sided(men, random.binomial(images - men, wrong), images=images)
    bias = exact_bias(0.5 + wrong / 2, images) - exact_bias(0.5, images)
    bound = model_bias_score_error_bias(counts, scopes=Scopes.of_prompts(["one"] * prompts))[0, 0]
    assert -bias > 0.01
    # A third of the prompts look one-sided by chance, which brings the bound down to the bias. No bias is larger
    # than the distance of the scores, 2 * wrong / 2.
    assert -bias <= 1.1 * bound
    assert bound <= 1.2 * wrong


def test_by_hand_for_two_images() -> None:
    # Of two images the corrected score is 1, 1 or -1 by 2, 0 or 1 men: unbiased at p = 1/2 and 1, and
    # 1 - 4 p (1 - p) in between, so b(p) = (2p - 1)^2 - |2p - 1|.
    assert exact_bias(0.75, 2) == pytest.approx(0.25 - 0.5)
    counts = one_sided(np.array([1]), np.array([0]), images=2)[0]
    # One man of two is within one standard error of shares with 4 p (1 - p) >= exp(-1/2); of their chords over 0.1
    # that from the kink is the steepest: |0.1^2 - 0.1| / 0.1.
    assert slopes_of_bias(counts, distance=np.array(0.1))[0] == pytest.approx(0.9, abs=0.01)


def test_prompts_that_are_clearly_one_sided_need_no_bound() -> None:
    images = 100
    fair, clear = (one_sided(np.array([number]), np.array([3]), images=images) for number in (50, 85))
    distance = np.array(0.06)
    assert slopes_of_bias(clear, distance=distance)[0, 0] < 0.15 * slopes_of_bias(fair, distance=distance)[0, 0]


def test_a_perfect_detector_and_empty_prompts_have_none() -> None:
    joint = made_up(right=1.0, prompts=6)
    assert model_bias_score_error_bias(joint.counts(), scopes=joint.scopes).max() == 0
    nothing = np.zeros((1, 1, 6, 4, 4), dtype=np.int64)
    assert model_bias_score_error_bias(nothing, scopes=joint.scopes).max() == 0


def test_more_images_leave_less() -> None:
    joint = made_up(images=20, prompts=30, detectors=1, right=0.7)
    bounds = [
        model_bias_score_error_bias(joint.counts(), scopes=joint.scopes, times=t)[0, 0, 0] for t in (1, 4, 20)
    ]
    assert bounds[0] > bounds[1] > bounds[2] > 0
