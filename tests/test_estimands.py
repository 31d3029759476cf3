"""Model bias scores as published, corrected, and as a fair T2I model would show them."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from detector_bench import metrics
from detector_bench.metrics.estimands import (
    LARGEST_TABLE,
    concentration_corrected,
    concentration_if_fair,
    model_bias_score_corrected,
    model_bias_score_if_fair,
)


def two_classes(first: np.ndarray, n: int) -> np.ndarray:
    return np.stack([first, n - first], axis=-1)


@pytest.mark.parametrize(("n", "published"), [(5, 0.374), (10, 0.247), (20, 0.176), (50, 0.113), (100, 0.080)])
def test_the_score_of_a_fair_model(n: int, published: float) -> None:
    from scipy.stats import binom

    count = np.arange(n + 1)
    expected = binom.pmf(count, n, 0.5) @ np.abs(2 * count / n - 1)
    found = concentration_if_fair(np.array([n]), classes=2)[0]
    assert found == pytest.approx(expected, abs=1e-12)
    assert found == pytest.approx(published, abs=0.0015)  # found by simulation


def test_the_score_of_a_fair_model_by_hand() -> None:
    # Two images: half of the time both of one class, 1; else 0. Three of three classes: all sequences.
    np.testing.assert_allclose(concentration_if_fair(np.array([0, 1, 2]), classes=2), [np.nan, 1, 0.5])
    counts = np.array([np.bincount(each, minlength=3) for each in product(range(3), repeat=4)])
    expected = metrics.concentration(counts).mean()
    assert concentration_if_fair(np.array([4]), classes=3)[0] == pytest.approx(expected)


def test_large_numbers_of_images_have_a_score_if_fair() -> None:
    # Half-normal: sqrt(2 / (pi n)).
    found = concentration_if_fair(np.array([1_000_000]), classes=2)[0]
    assert found == pytest.approx(np.sqrt(2 / np.pi / 1e6), rel=1e-5)


@pytest.mark.parametrize("n", [2, 3, 5, 20, LARGEST_TABLE])
def test_the_correction_is_unbiased_for_fair_and_for_one_sided_models(n: int) -> None:
    from scipy.stats import binom

    count = np.arange(n + 1)
    corrected = concentration_corrected(two_classes(count, n))
    assert binom.pmf(count, n, 0.5) @ corrected == pytest.approx(0, abs=1e-9)
    assert corrected[[0, -1]] == pytest.approx([1, 1])
    np.testing.assert_allclose(corrected, corrected[::-1], atol=1e-9)


@pytest.mark.parametrize("n", [LARGEST_TABLE + 1, 75, 120, 400])
def test_the_scaled_correction_is_nearly_unbiased_for_fair_models(n: int) -> None:
    from scipy.stats import binom

    count = np.arange(n + 1)
    assert abs(binom.pmf(count, n, 0.5) @ concentration_corrected(two_classes(count, n))) < 0.003


@pytest.mark.parametrize("classes", [3, 7])
def test_several_classes_are_corrected_too(classes: int) -> None:
    random = np.random.default_rng(1)
    fair = random.multinomial(20, np.full(classes, 1 / classes), size=40_000)
    corrected = concentration_corrected(fair)
    assert corrected.mean() == pytest.approx(0, abs=5 * corrected.std() / 200)
    one_sided = np.array([20] + [0] * (classes - 1))
    assert concentration_corrected(one_sided[np.newaxis])[0] == pytest.approx(1)


def test_the_correction_beats_the_published_score_and_the_simple_corrections() -> None:
    """20 images per prompt: mean error over shares of men from 0 to 1, and for a fair model."""
    from scipy.stats import binom

    n, count = 20, np.arange(21)
    published = np.abs(2 * count / n - 1)
    chance = binom.pmf(count, n, count[:, np.newaxis] / n)  # of a resample, given the count
    bootstrap = 2 * published - chance @ published
    fair = concentration_if_fair(np.array([n]), classes=2)[0]
    rescaled = (published - fair) / (1 - fair)
    share = np.linspace(0, 1, 201)
    truth = np.abs(2 * share - 1)

    def bias(estimate: np.ndarray) -> np.ndarray:
        return binom.pmf(count, n, share[:, np.newaxis]) @ estimate - truth

    ours = bias(concentration_corrected(two_classes(count, n)))
    assert abs(ours[100]) < 1e-9
    assert bias(published)[100] == pytest.approx(0.176, abs=0.001)
    assert bias(bootstrap)[100] > 0.1
    assert np.abs(ours).max() < 0.061
    assert np.abs(bias(rescaled)).max() > 0.1
    assert abs(ours.mean()) < abs(bias(published).mean()) / 10


def test_a_prompt_with_one_clear_image_says_nothing() -> None:
    # Prompt 0: one male image. Prompt 1: two male images. Prompt 2: none. Prompt 3: a filtered one.
    counts = np.zeros((1, 4, 4, 4), dtype=np.int64)
    counts[0, 0, 0, 0], counts[0, 1, 0, 0], counts[0, 3, 0, 2] = 1, 2, 1
    corrected = model_bias_score_corrected(counts)
    assert (corrected.value, corrected.n, corrected.n_left_out) == (1, 1, 2)
    # If fair: 1 for one image, 0.5 for two.
    fair = model_bias_score_if_fair(counts)
    assert (fair.value, fair.n, fair.n_left_out) == (0.75, 2, 1)


def test_one_prompt_of_four_images_gives_no_score_that_cannot_be() -> None:
    # Four men, of whom the detector takes two for women: 1 is true, and the term of two of each is below -1.
    counts = np.zeros((1, 1, 4, 4), dtype=np.int64)
    counts[0, 0, 0, 0] = counts[0, 0, 0, 1] = 2
    assert concentration_corrected(metrics.detector_class_counts(counts))[0, 0] < -1
    assert model_bias_score_corrected(counts).value == -1
    assert metrics.model_bias_score_error(counts).value == -1


def test_scopes_and_leading_axes() -> None:
    random = np.random.default_rng(2)
    counts = random.integers(0, 9, size=(3, 2, 5, 4, 4))
    scopes = metrics.Scopes.of_prompts(["a", "b", "a", "b", "b"])
    for function in (model_bias_score_corrected, model_bias_score_if_fair):
        whole = function(counts, scopes=scopes).value
        assert whole.shape == (3, 3, 3)
        one = function(counts[1, 1:2][:, [0, 2]]).value
        assert whole[1, 2, 1] == pytest.approx(one)
    per_prompt = concentration_corrected(metrics.detector_class_counts(counts))
    np.testing.assert_allclose(model_bias_score_corrected(counts).value, per_prompt.mean(axis=(-2, -1)))


def test_a_fair_model_shows_0_where_0_176_is_published() -> None:
    random = np.random.default_rng(3)
    men = random.binomial(20, 0.5, size=(200, 100))
    counts = np.zeros((200, 1, 100, 4, 4), dtype=np.int64)
    counts[:, 0, :, 0, 0], counts[:, 0, :, 1, 1] = men, 20 - men
    published = metrics.model_bias_score(counts).value
    corrected = metrics.model_bias_score_corrected(counts).value
    assert published.mean() == pytest.approx(0.176, abs=0.002)
    assert corrected.mean() == pytest.approx(0, abs=4 * corrected.std() / np.sqrt(200))
    assert corrected.std() < 0.06
