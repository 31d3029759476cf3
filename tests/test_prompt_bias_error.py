"""The size-free error of prompt bias scores: by hand, against plain statistics, and in simulated studies."""

from __future__ import annotations

import numpy as np
import pytest
from joint_studies import made_up, of_images
from numpy.typing import NDArray

from detector_bench import metrics
from detector_bench.metrics import NClear, prompt_bias_error, prompt_bias_error_interval
from detector_bench.metrics.prompt_bias_error import squared_errors

GOOD = np.array([[0.96, 0.02, 0.02], [0.02, 0.96, 0.02], [0.2, 0.2, 0.6]])
SYMMETRIC = np.array([[0.8, 0.2, 0.0], [0.2, 0.8, 0.0], [0.3, 0.3, 0.4]])
ONE_SIDED = np.array([[0.95, 0.0, 0.05], [0.2, 0.75, 0.05], [0.2, 0.2, 0.6]])


def simulated(
    share_of_first: NDArray[np.float64], confusion: NDArray[np.float64], *, images: int, studies: int, seed: int
) -> tuple[NDArray[np.int64], float]:
    """Counts of studies of one T2I model `[study, 1, prompt, 4, 4]`, and the population's root mean square."""
    truth = np.stack([share_of_first, 1 - share_of_first, np.full(len(share_of_first), 0.14)], axis=-1)
    truth[:, :2] *= 0.86
    cells = truth[:, :, np.newaxis] * confusion
    drawn = np.random.default_rng(seed).multinomial(
        images, cells.reshape(len(cells), 9), size=(studies, len(cells))
    )
    counts = np.zeros((studies, 1, len(cells), 4, 4), dtype=np.int64)
    counts[:, 0, :, :3, :3] = drawn.reshape(studies, len(cells), 3, 3)
    reported, actual = cells[:, :, :2].sum(axis=1), cells[:, :2].sum(axis=2)
    scores = [(each[:, 0] - each[:, 1]) / each.sum(axis=1) for each in (reported, actual)]
    return counts, float(np.sqrt(np.mean((scores[0] - scores[1]) ** 2)))


def test_by_hand() -> None:
    # Human: m m f f. Detector: m m m f, so 1/2 against 0; d = 1/2.
    joint = of_images([0, 0, 1, 1], [[0, 0, 1, 1]], [0] * 4)
    assert prompt_bias_error(joint.counts()).value == [0]
    joint = of_images([0, 0, 1, 1], [[0, 0, 0, 1]], [0] * 4)
    # Every image adds its (verdict - 1/2 - truth) / 4: -1/8, -1/8, 3/8, -1/8. Squares 12/64, times 4/3: 1/4.
    found = squared_errors(joint.counts()[0, 0, 0])
    assert found.value == pytest.approx(1 / 4 - 1 / 4)
    assert found.variance == pytest.approx(4 * (1 / 4) * (1 / 4) - 2 / 16)
    assert found.variance_at_zero == pytest.approx(2 / 16)


@pytest.mark.parametrize("n_clear", ["detector", "human"])
def test_the_variance_is_the_jackknifes(n_clear: NClear) -> None:
    # For large prompts the sum of squared influences is the jackknife's estimate of the variance of d.
    joint = made_up(t2i_models=1, prompts=1, images=400, detectors=1, right=0.7, seed=3)
    counts = joint.counts()[0]

    def distance(each: NDArray[np.int64]) -> NDArray[np.float64]:
        reported = metrics.prompt_bias_score(each, n_clear=n_clear).value
        return reported - metrics.prompt_bias_score_actual(each).value

    without_one = np.array([distance(counts - one) for one in _each_image(counts)]).ravel()
    images = len(without_one)
    jackknife = (images - 1) / images * np.sum((without_one - without_one.mean()) ** 2)
    squared = distance(counts) ** 2 - squared_errors(counts, n_clear=n_clear).value
    assert float(squared.item()) == pytest.approx(jackknife, rel=0.02)


def _each_image(counts: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    found = []
    for cell in np.argwhere(counts > 0):
        one = np.zeros_like(counts)
        one[tuple(cell)] = 1
        found += [one] * int(counts[tuple(cell)])
    return found


def test_two_classes_written_as_three() -> None:
    # A third class that nobody names leaves twice the squared distances of the shares: d^2 of two classes.
    two = made_up(images=12, seed=5)
    counts = two.counts()
    three = np.zeros((*counts.shape[:-2], 5, 5))
    places = np.array([0, 1, 3, 4])
    three[..., places[:, np.newaxis], places] = counts
    assert prompt_bias_error(three).value == pytest.approx(prompt_bias_error(counts).value)


def test_prompts_that_tell_nothing_are_left_out_and_counted() -> None:
    truth, verdicts = [0, 1, 0, 0, 0, 1, 1], [0, 1, 0, 2, 2, 1, 1]
    joint = of_images(truth, [verdicts], [0, 0, 1, 1, 1, 2, 2], prompts=4)
    found = prompt_bias_error(joint.counts())
    assert (found.n, found.n_left_out) == (2, 1)  # prompt 1 keeps one image only; prompt 3 has none
    nothing = prompt_bias_error(of_images([0, 1], [[2, 2]], [0, 0]).counts())
    assert np.isnan(nothing.value)
    assert (nothing.n, nothing.n_left_out) == (0, 1)


@pytest.mark.parametrize("confusion", [GOOD, SYMMETRIC, ONE_SIDED], ids=["good", "symmetric", "one-sided"])
def test_the_number_of_images_does_not_matter(confusion: NDArray[np.float64]) -> None:
    share = np.random.default_rng(0).beta(0.6, 0.3, size=60)
    for images in (5, 20, 50):
        counts, truth = simulated(share, confusion, images=images, studies=200, seed=images)
        mean = np.nanmean(squared_errors(counts).value)
        published = metrics.prompt_bias_score_difference(counts).value.mean()
        assert mean == pytest.approx(truth**2, abs=0.004), (images, published)


@pytest.mark.parametrize("confusion", [GOOD, SYMMETRIC, ONE_SIDED], ids=["good", "symmetric", "one-sided"])
@pytest.mark.parametrize(("prompts", "images"), [(12, 5), (60, 20)])
def test_the_interval_holds(confusion: NDArray[np.float64], prompts: int, images: int) -> None:
    share = np.random.default_rng(1).beta(0.6, 0.3, size=prompts)
    counts, truth = simulated(share, confusion, images=images, studies=400, seed=7)
    scopes = metrics.Scopes.of_prompts(["one"] * prompts)
    low, high = prompt_bias_error_interval(counts, scopes=scopes, level=0.95)
    below, above = (truth < low[:, 0, 0]).mean(), (truth > high[:, 0, 0]).mean()
    assert below <= 0.045  # 0.025, and two standard errors of 400 studies
    assert above <= 0.06


def test_intervals_over_prompts_are_a_mean_with_its_standard_error() -> None:
    joint = made_up(t2i_models=1, prompts=9, images=30, detectors=1)
    scopes = metrics.Scopes.of_prompts(["one"] * 9)
    terms = squared_errors(joint.counts()).value[0, 0]
    # Student's t with 8 degrees of freedom has 8 / 6 of the normal distribution's variance.
    error = np.std(terms, ddof=1) / np.sqrt(9) * np.sqrt(8 / 6)
    limits = prompt_bias_error_interval(joint.counts(), scopes=scopes, level=0.95, unit="prompt")
    expected = np.sqrt(np.maximum([terms.mean() - 1.959964 * error, max(terms.mean(), 0) + 1.959964 * error], 0))
    assert [limit[0, 0, 0] for limit in limits] == pytest.approx(expected.tolist())


def test_too_few_prompts_say_nothing_about_other_prompts() -> None:
    joint = made_up(t2i_models=1, prompts=5, images=30, detectors=1)
    scopes = metrics.Scopes.of_prompts(["one"] * 5)
    limits = prompt_bias_error_interval(joint.counts(), scopes=scopes, level=0.95, unit="prompt")
    assert np.isnan(limits).all()


def test_a_perfect_detector_is_not_shown_to_be_perfect() -> None:
    joint = made_up(images=10, detectors=1, right=1.0)
    low, high = prompt_bias_error_interval(joint.counts(), scopes=joint.scopes, level=0.95)
    assert prompt_bias_error(joint.counts()).value == [0]
    assert low[0, 0, 0] == 0
    assert 0 < high[0, 0, 0] < 0.2
