"""Plans for more labels: by hand, and followed in the mind."""

from __future__ import annotations

import numpy as np
import pytest

from detector_bench.evaluation.more_labels import MOST_TIMES, Tolerance, more_labels
from detector_bench.metrics import CountArray, Scopes, prompt_bias_error_interval
from detector_bench.metrics.estimands import model_bias_score_error_bias
from detector_bench.metrics.intervals import Interval
from detector_bench.metrics.prompt_bias_error import squared_errors

WITHIN = Interval(np.array(-0.01), np.array(0.01))
EDGES = Tolerance(prompt_bias_error=0.2, model_bias_score_error=0.05)
PERFECT = Interval(np.array(0.0), np.array(0.01))


def perfect(*, prompts: int, images: int) -> CountArray:
    """A detector that is right on all of many men and women."""
    counts = np.zeros((prompts, 4, 4), dtype=np.int64)
    counts[:, 0, 0] = images // 2
    counts[:, 1, 1] = images - images // 2
    return counts


def one_sided(*, prompts: int, images: int, wrong: int) -> CountArray:
    counts = perfect(prompts=prompts, images=images)
    counts[:, 1, 1] -= wrong
    counts[:, 1, 0] += wrong
    return counts


def interval(counts: CountArray) -> Interval:
    scopes = Scopes.of_prompts(["one"] * len(counts))
    found = prompt_bias_error_interval(counts[np.newaxis], scopes=scopes, level=0.95)
    return Interval(*(limit[0, 0] for limit in found))


def test_the_error_of_the_model_bias_score_by_hand() -> None:
    # No prompt bias error, so no bias either. An interval of 0.02 +- 0.06 has to shrink so that 1.96 + 0.84
    # standard errors fit between 0.02 and 0.05: (0.06 / 1.96 * 2.80 / 0.03)^2 = 8.17 times the images.
    counts = perfect(prompts=10, images=20)
    found = more_labels(
        counts,
        prompt_bias_error=PERFECT,
        model_bias_score_error=Interval(np.array(-0.04), np.array(0.08)),
        tolerance=EDGES,
    )
    assert found is not None
    times = (0.06 / 1.959964 * (1.959964 + 0.841621) / 0.03) ** 2
    assert found.by_prompt.tolist() == pytest.approx([20 * (times - 1)] * 10, abs=1.1)


def test_nothing_is_planned_where_nothing_is_open() -> None:
    counts = perfect(prompts=10, images=20)
    for settled in (WITHIN, Interval(np.array(0.06), np.array(0.09))):
        assert not more_labels(counts, prompt_bias_error=PERFECT, model_bias_score_error=settled, tolerance=EDGES)


def test_an_error_at_the_edge_has_no_plan() -> None:
    at_edge = Interval(np.array(0.02), np.array(0.08))
    counts = perfect(prompts=10, images=20)
    assert not more_labels(counts, prompt_bias_error=PERFECT, model_bias_score_error=at_edge, tolerance=EDGES)


@pytest.mark.parametrize(("edge", "planned"), [(0.05, False), (0.07, True)])
def test_the_bias_of_corrected_scores_has_to_shrink_too(edge: float, planned: bool) -> None:
    # 3 of 50 women taken for men in fair prompts, an error of the model bias score of 0.02 +- 0.07.
    counts = one_sided(prompts=400, images=100, wrong=3)
    scopes = Scopes.of_prompts([""] * 400)

    def bias(times: float) -> float:
        return float(model_bias_score_error_bias(counts[np.newaxis], scopes=scopes, times=times)[0, 0])

    found = more_labels(
        counts,
        prompt_bias_error=interval(counts),
        model_bias_score_error=Interval(np.array(-0.05), np.array(0.09)),
        tolerance=Tolerance(model_bias_score_error=edge),
    )
    assert (bias(1) < edge - 0.02) == planned
    if not planned:
        assert found is None
        return
    assert found is not None
    scatter = (0.07 - bias(1)) * (1.959964 + 0.841621) / 1.959964
    times = 1 + found.by_prompt[0] / 100
    for factor, enough in ((1.0, True), (0.95, False)):
        assert (scatter / np.sqrt(factor * times) + bias(factor * times) <= edge - 0.02) == enough


@pytest.mark.parametrize("wrong", [4, 6, 7, 9, 11])
@pytest.mark.parametrize("prompts", [12, 60])
def test_a_plan_that_is_followed_settles_what_seems_so(wrong: int, prompts: int) -> None:
    """If further images are as those at hand, the interval ends on one side, with room for chance."""
    tolerance = Tolerance(prompt_bias_error=0.25, model_bias_score_error=1.0)
    counts = one_sided(prompts=prompts, images=60, wrong=wrong)
    before = interval(counts)
    plan = more_labels(counts, prompt_bias_error=before, model_bias_score_error=WITHIN, tolerance=tolerance)
    if not before.low <= tolerance.prompt_bias_error < before.high:
        assert plan is None
        return
    value = np.sqrt(np.maximum(np.nanmean(squared_errors(counts).value), 0))
    if plan is None:
        assert abs(value - tolerance.prompt_bias_error) < 0.02
        return
    assert 0 < plan.images <= MOST_TIMES * counts.sum()
    times = (plan.by_prompt + 60) / 60
    followed = np.rint(counts * times[:, np.newaxis, np.newaxis]).astype(np.int64)
    after = interval(followed)
    assert not after.low <= tolerance.prompt_bias_error < after.high
    assert (after.high < tolerance.prompt_bias_error) == (value < tolerance.prompt_bias_error)


def test_images_go_where_they_help_most() -> None:
    # Four prompts whose errors go either way, and many in which every verdict is right.
    counts = perfect(prompts=40, images=20)
    counts[:4, 0, 0] -= 4
    counts[:4, 0, 1] += 4
    counts[:4, 1, 1] -= 4
    counts[:4, 1, 0] += 4
    before = interval(counts)
    tolerance = Tolerance(prompt_bias_error=0.09)
    assert before.low <= 0.09 < before.high
    plan = more_labels(counts, prompt_bias_error=before, model_bias_score_error=WITHIN, tolerance=tolerance)
    assert plan is not None
    assert plan.by_prompt[:4].min() > 10 * plan.by_prompt[4:].max()
