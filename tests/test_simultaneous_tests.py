"""Influences against derivatives, and tests of many differences at once."""

from __future__ import annotations

import numpy as np
import pytest
from joint_studies import made_up
from numpy.typing import NDArray
from scipy import stats

from detector_bench import metrics
from detector_bench.evaluation.comparison import ComparisonFamily, Contest
from detector_bench.evaluation.ranking import ranking
from detector_bench.metrics import JointVerdicts, NClear, Scopes
from detector_bench.metrics.bootstrap import Unit
from detector_bench.metrics.influence import Influences, comparable_metrics, metric_values
from detector_bench.metrics.prompt_bias_error import squared_errors
from detector_bench.metrics.simultaneous import Differences, simultaneous_tests

SMOOTH = ("f1", "filter_rate", "accuracy", "precision", "recall")


def compared_value(metric: str, counts: NDArray[np.float64], *, n_clear: NClear) -> NDArray[np.float64]:
    """What influences are the derivatives of."""
    if metric == "model_bias_score_deviation":
        return np.abs(metrics.model_bias_score(counts).value - metrics.model_bias_score_actual(counts).value)
    if metric == "prompt_bias_score_difference":
        return metrics.prompt_bias_score_difference(counts, n_clear=n_clear).value
    return np.asarray(getattr(metrics, metric)(metrics.pool(counts)).value)


@pytest.mark.parametrize("n_clear", ["detector", "human"])
@pytest.mark.parametrize("classes", [2, 3])
def test_influences_are_derivatives(classes: int, n_clear: NClear) -> None:
    # An odd number of images and more than one kind of each, so that no score lies on the kink of a distance.
    joint = made_up(classes=classes, images=29, prompts=3, errors=0.1, seed=classes)
    influences = Influences(joint, n_clear=n_clear)
    step = 1e-6
    for metric in (*SMOOTH, "model_bias_score_deviation", "prompt_bias_score_difference"):
        whole = compared_value(metric, joint.counts(np.ones(joint.images)), n_clear=n_clear)
        moved = []
        for image in range(joint.images):
            weights = np.ones(joint.images)
            weights[image] += step
            moved.append((compared_value(metric, joint.counts(weights), n_clear=n_clear) - whole) / step)
        found = influences.of(metric)
        assert found.value == pytest.approx(whole)
        expected = influences.centred(np.array(moved).T)
        kinks = _at_kinks(joint, metric)
        error = np.abs(found.by_unit - expected)[:, ~kinks]
        assert error.max() < 1e-6, metric


def _at_kinks(joint: JointVerdicts, metric: str) -> NDArray[np.bool_]:
    """Images of prompts in which some share lies exactly where the size of a distance has no slope."""
    if metric in SMOOTH:
        return np.zeros(joint.images, dtype=bool)
    counts = joint.counts()
    classes = joint.classes
    human, kept = counts[..., :classes, :].sum(axis=-1), counts[..., :classes].sum(axis=-2)
    even = [(classes * each == each.sum(axis=-1, keepdims=True)).any(axis=(0, -1)) for each in (human, kept)]
    equal = (human * kept.sum(axis=-1, keepdims=True) == kept * human.sum(axis=-1, keepdims=True)).any(
        axis=(0, -1)
    )
    equal |= (human == kept).any(axis=(0, -1))
    return (even[0] | even[1] | equal).ravel()[joint.pair]


def test_the_squared_error_has_the_jackknifes_influence() -> None:
    joint = made_up(t2i_models=1, prompts=2, images=30, detectors=2, right=0.7, seed=2)
    counts = joint.counts()
    whole = np.nanmean(squared_errors(counts).value, axis=(1, 2))
    found = Influences(joint).of("prompt_bias_error")
    assert found.value == pytest.approx(whole)
    pseudo = []
    for image in range(joint.images):
        weights = np.ones(joint.images)
        weights[image] = 0
        images = int((joint.pair == joint.pair[image]).sum())
        without = np.nanmean(squared_errors(joint.counts(weights)).value, axis=(1, 2))
        pseudo.append((images - 1) / images * (whole - without))
    expected = Influences(joint).centred(np.array(pseudo).T)
    # The same to the first order in 1 / images.
    assert np.corrcoef(found.by_unit.ravel(), expected.ravel())[0, 1] > 0.98
    assert (found.by_unit**2).sum() == pytest.approx((expected**2).sum(), rel=0.15)


@pytest.mark.parametrize("unit", ["image", "prompt"])
def test_values_are_those_of_the_metrics(unit: Unit) -> None:
    joint = made_up(images=20, errors=0.05)
    counts = joint.counts()
    found = metric_values(joint, comparable_metrics(), n_clear="human")
    assert found["prompt_bias_error"] == pytest.approx(metrics.prompt_bias_error(counts, n_clear="human").value)
    for metric in SMOOTH:
        assert found[metric] == pytest.approx(Influences(joint, unit).of(metric).value)


def test_one_difference_of_means_is_a_t_test() -> None:
    # One column of 400 independent numbers: a mean with its standard error.
    random = np.random.default_rng(0)
    numbers = random.normal(0.1, 1, size=400)
    centred = (numbers - numbers.mean()) / 400 * np.sqrt(400 / 399)
    (found,) = simultaneous_tests(
        [Differences(np.array([numbers.mean()]), centred[np.newaxis], np.eye(1))], level=0.95, draws=100_000
    )
    expected = stats.ttest_1samp(numbers, 0)
    assert found.p_value[0] == pytest.approx(expected.pvalue, abs=0.01)
    interval = expected.confidence_interval(0.95)
    assert (found.low[0], found.high[0]) == pytest.approx((interval.low, interval.high), abs=0.005)


def test_independent_differences_are_adjusted_like_sidak() -> None:
    # Ten columns that share no unit: the largest of ten independent statistics.
    random = np.random.default_rng(1)
    columns = np.zeros((10, 40_000))
    for number in range(10):
        own = random.normal(size=4_000)
        columns[number, 4_000 * number : 4_000 * (number + 1)] = own - own.mean()
    errors = np.sqrt((columns**2).sum(axis=1))
    (found,) = simultaneous_tests([Differences(2.5 * errors, columns, np.eye(10))], level=0.95, draws=100_000)
    alone = 2 * stats.norm.sf(2.5)
    assert found.p_value == pytest.approx(1 - (1 - alone) ** 10, abs=0.01)


def test_two_families_are_one() -> None:
    random = np.random.default_rng(2)
    families = [Differences(np.array([0.12]), random.normal(size=(1, 400)) / 400, np.eye(1)) for _ in range(2)]
    alone = simultaneous_tests(families[:1], level=0.95)[0]
    together = simultaneous_tests(families, level=0.95)[0]
    assert together.p_value[0] > 1.5 * alone.p_value[0]
    assert together.high[0] - together.low[0] > alone.high[0] - alone.low[0]


def equal_detectors(seed: int, *, prompts: int, images: int) -> JointVerdicts:
    """Eight detectors of equal quality, who err on the same difficult images more often than chance would."""
    random = np.random.default_rng(seed)
    pair = np.repeat(np.arange(prompts), images)
    truth = (random.random(pair.size) > random.beta(0.6, 0.3, prompts)[pair]).astype(np.int8)
    truth[random.random(pair.size) < 0.14] = 2
    difficulty = random.standard_normal(pair.size)
    verdicts = []
    for _ in range(8):
        score = 0.7 * difficulty + 0.71 * random.standard_normal(pair.size)
        verdict = np.where(score < -1.28, 1 - np.minimum(truth, 1), truth)
        verdict = np.where(random.random(pair.size) < 0.07, 2, verdict)
        undecided = (truth == 2) & (random.random(pair.size) < 0.5)
        verdicts.append(np.where(undecided, random.integers(0, 2, pair.size), verdict))
    scopes = Scopes.of_prompts(["one"] * prompts)
    return JointVerdicts(truth, np.array(verdicts, dtype=np.int8), pair, 1, scopes, 2)


@pytest.mark.slow
@pytest.mark.parametrize(("prompts", "images", "studies"), [(100, 20, 150), (12, 5, 300)])
def test_equal_detectors_are_rarely_told_apart(prompts: int, images: int, studies: int) -> None:
    names = tuple("abcdefgh")
    apart = 0
    for seed in range(studies):
        joint = equal_detectors(seed, prompts=prompts, images=images)
        family = ComparisonFamily.of([Contest(joint, names)], draws=2_000)
        apart += any(each.better_than for metric in family.metrics for each in ranking(family, metric))
    # 5 % and two standard errors of so many studies.
    assert apart / studies <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / studies)
