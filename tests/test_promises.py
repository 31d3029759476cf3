"""Thresholds that promise an error: exact tests of images, tests of whole prompts, and how often both err."""

from __future__ import annotations

import numpy as np
import pytest
from statsmodels.stats.proportion import proportion_confint

from detector_bench.estimation.calibration import JudgedScores
from detector_bench.estimation.promises import ERRORS, STARTS, THRESHOLDS, promises


def verdicts(
    *, wrong: float, prompts: int, likeness: str = "none", images: int = 10, seed: int = 0
) -> JudgedScores:
    """Verdicts whose scores say nothing; of whole prompts all are wrong, or none."""
    random = np.random.default_rng(seed)
    prompt = np.repeat(np.arange(prompts), images)
    mistaken = random.random(prompts)[prompt] if likeness == "whole prompts" else random.random(len(prompt))
    return JudgedScores(random.uniform(0.5, 1, len(prompt)), mistaken >= wrong, prompt)


def threshold(found: JudgedScores, error: float, unit: str) -> float | None:
    [promise] = promises(found, unit=unit, confidence=0.95, errors=(error,))  # type: ignore[arg-type]
    return promise.threshold


def test_of_images_a_threshold_is_promised_where_the_exact_limit_lies_below_the_error() -> None:
    """Clopper and Pearson's upper limit, with the risk shared among the sequences."""
    found = verdicts(wrong=0.03, prompts=40)
    level = 2 * 0.05 / len(STARTS)  # a one-sided limit
    for error in (0.03, 0.05, 0.1):
        lowest = threshold(found, error, "image")
        for start in STARTS:
            limits = []
            for each in THRESHOLDS[1 / (1 + np.exp(-start)) + 1e-5 >= THRESHOLDS][::-1]:
                kept = found.scores >= each
                wrong = int((~found.right[kept]).sum())
                limits.append((each, proportion_confint(wrong, kept.sum(), alpha=level, method="beta")[1]))
            below = [each for each, limit in limits if limit <= error]
            # From the start downwards, as long as every limit lies below.
            walked = [each for number, each in enumerate(below) if limits[number][0] == each]
            if walked:
                assert lowest is not None
                assert lowest <= walked[-1]
                assert lowest in THRESHOLDS
    assert threshold(found, 0.1, "image") == 0
    assert threshold(found, 0.01, "image") is None


def test_larger_errors_never_need_higher_thresholds_and_say_what_they_keep() -> None:
    found = verdicts(wrong=0.03, prompts=300)
    for unit in ("prompt", "image"):
        made = promises(found, unit=unit, confidence=0.95)  # type: ignore[arg-type]
        assert [each.error for each in made] == list(ERRORS)
        lowest = [2.0 if each.threshold is None else each.threshold for each in made]
        assert lowest == sorted(lowest, reverse=True)
        last = made[-1]
        assert (last.threshold, last.kept) == (0.0, 1.0)
        assert last.wrong == pytest.approx((~found.right).mean())
        assert made[0].threshold is None
        assert made[0].kept == 0
        assert np.isnan(made[0].wrong)


def test_more_images_of_the_same_prompts_promise_more_about_images_and_nothing_about_other_prompts() -> None:
    few = JudgedScores(np.full(40, 0.995), np.ones(40, dtype=np.bool_), np.arange(40))
    many = JudgedScores(*(np.repeat(each, 50) for each in (few.scores, few.right, few.prompt)))
    assert threshold(few, 0.05, "image") is None
    assert threshold(many, 0.05, "image") == 0
    assert threshold(few, 0.05, "prompt") is None
    assert threshold(many, 0.05, "prompt") is None
    assert threshold(few, 0.1, "prompt") == threshold(many, 0.1, "prompt") == 0


def test_a_prompt_that_is_wrong_as_a_whole_counts_once_for_other_prompts() -> None:
    prompt = np.repeat(np.arange(100), 20)
    scattered = JudgedScores(np.full(2000, 0.995), np.arange(2000) % 20 != 0, prompt)
    together = JudgedScores(np.full(2000, 0.995), prompt >= 5, prompt)
    assert scattered.right.sum() == together.right.sum()
    assert threshold(scattered, 0.1, "image") == threshold(together, 0.1, "image") == 0
    assert threshold(scattered, 0.1, "prompt") == 0
    assert threshold(together, 0.1, "prompt") is None
    assert threshold(together, 0.2, "prompt") == 0


@pytest.mark.parametrize(
    ("likeness", "unit"), [("none", "image"), ("none", "prompt"), ("whole prompts", "prompt")]
)
def test_a_false_promise_is_made_in_at_most_5_per_cent_of_studies(likeness: str, unit: str) -> None:
    """Of all verdicts, 10.1 % are wrong, whatever their score: no threshold may be promised for 10 %."""
    studies = 300
    broken = sum(
        threshold(verdicts(wrong=0.101, prompts=60, likeness=likeness, seed=seed), 0.1, unit) is not None
        for seed in range(studies)
    )
    # Three standard errors above what is promised.
    assert broken / studies <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / studies)


def test_where_whole_prompts_are_wrong_a_promise_about_images_says_nothing_about_other_prompts() -> None:
    settings = {"wrong": 0.101, "prompts": 60, "likeness": "whole prompts", "images": 40}
    found = [verdicts(**settings, seed=seed) for seed in range(100)]  # type: ignore[arg-type]
    assert np.mean([threshold(each, 0.1, "image") is not None for each in found]) > 0.2
