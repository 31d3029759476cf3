"""Leading axes, scopes and weights: computing together equals computing one by one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from detector_bench import metrics
from detector_bench.metrics import Scopes, Score

pytestmark = [
    pytest.mark.filterwarnings("error"),
    # What an earlier test left to the garbage collector is that test's own matter.
    pytest.mark.filterwarnings("default::pytest.PytestUnraisableExceptionWarning"),
]

PER_ARRAY = [
    metrics.precision,
    metrics.recall,
    metrics.recall_per_class,
    metrics.f1,
    metrics.filter_rate,
    metrics.accuracy,
    metrics.accuracy_per_class,
    metrics.classification_precision_per_class,
    metrics.balanced_accuracy,
    metrics.alignment_accuracy,
    metrics.label_shares,
    metrics.prompt_bias_score,
    metrics.prompt_bias_score_actual,
    metrics.prompt_bias_score_error,
]
OVER_PROMPTS = [
    metrics.model_bias_score,
    metrics.model_bias_score_actual,
    metrics.model_bias_score_deviation,
    metrics.prompt_bias_score_difference,
]
CATEGORIES = ("job", "place", "job", "thing", "place", "job")


def sparse_counts(*, classes: int, leading: tuple[int, ...] = (2, 3)) -> np.ndarray:
    """Mostly empty cells, so that empty denominators and empty prompts occur."""
    random = np.random.default_rng(classes)
    shape = (*leading, 2, len(CATEGORIES), classes + 2, classes + 2)
    counts = random.integers(1, 6, size=shape) * (random.random(shape) < 0.1)
    counts[..., 1, 4, :, :] = 0
    return counts


def assert_same(together: Score, one: Score) -> None:
    for got, expected in zip(together, one, strict=True):
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("metric", PER_ARRAY + OVER_PROMPTS)
@pytest.mark.parametrize("classes", [2, 3, 7, 10])
def test_stacked_equals_one_by_one(metric: Callable[..., Score], classes: int) -> None:
    counts = sparse_counts(classes=classes)
    together = metric(counts)
    for first, second in np.ndindex(2, 3):
        assert_same(Score(*(array[first, second] for array in together)), metric(counts[first, second]))


@pytest.mark.parametrize("metric", OVER_PROMPTS)
@pytest.mark.parametrize("classes", [2, 3, 7, 10])
def test_scopes_equal_the_metric_of_the_chosen_prompts(metric: Callable[..., Score], classes: int) -> None:
    counts = sparse_counts(classes=classes)
    scopes = Scopes.of_prompts(CATEGORIES)
    assert scopes.categories == ("job", "place", "thing")
    by_scope = metric(counts, scopes=scopes)
    assert by_scope.value.shape == (2, 3, 1 + 2, 1 + 3)
    for model, category in np.ndindex(3, 4):
        models = [0, 1] if model == 0 else [model - 1]
        prompts = [i for i, name in enumerate(CATEGORIES) if category in (0, 1 + scopes.categories.index(name))]
        expected = metric(counts[:, :, models][:, :, :, prompts])
        np.testing.assert_allclose(by_scope.value[:, :, model, category], expected.value, rtol=1e-12)
        np.testing.assert_array_equal(by_scope.n[:, :, model, category], expected.n)
        np.testing.assert_array_equal(by_scope.n_left_out[:, :, model, category], expected.n_left_out)


def test_pooled_counts_of_scopes_add_up() -> None:
    counts = sparse_counts(classes=2)
    pooled = metrics.pool(counts, scopes=Scopes.of_prompts(CATEGORIES))
    assert pooled.shape == (2, 3, 3, 4, 4, 4)
    np.testing.assert_array_equal(pooled[:, :, 0, 0], metrics.pool(counts))
    np.testing.assert_array_equal(pooled[:, :, 2, 2], counts[:, :, 1, [1, 4]].sum(axis=2))
    assert pooled.dtype == counts.dtype


def test_a_category_without_prompts_adds_nothing() -> None:
    counts = sparse_counts(classes=2)
    with_gap = Scopes(("empty", "job", "other"), np.array([1, 2, 1, 1, 2, 1]))
    pooled = metrics.pool(counts, scopes=with_gap)
    assert not pooled[:, :, :, 1].any()
    np.testing.assert_array_equal(pooled[:, :, 1, 3], counts[:, :, 0, [1, 4]].sum(axis=2))
    assert np.isnan(metrics.model_bias_score(counts, scopes=with_gap).value[:, :, :, 1]).all()


@pytest.mark.parametrize("metric", PER_ARRAY + OVER_PROMPTS)
@pytest.mark.parametrize("classes", [2, 3, 7, 10])
def test_weights_change_nothing_but_the_scale(metric: Callable[..., Score], classes: int) -> None:
    counts = sparse_counts(classes=classes)
    whole, halved = metric(counts), metric(counts * 0.5)
    np.testing.assert_allclose(halved.value, whole.value)


def test_human_labels_as_a_detector_are_always_right() -> None:
    human = np.array([[[3, 1, 2, 1], [0, 2, 0, 0]]])
    counts = metrics.human_as_detector(human)
    np.testing.assert_array_equal(counts[0, 0], [[3, 0, 0, 0], [0, 1, 0, 0], [0, 0, 2, 0], [0, 0, 1, 0]])
    np.testing.assert_array_equal(counts.sum(axis=-1), human)
    pooled = metrics.pool(counts)
    for metric in (metrics.precision, metrics.recall, metrics.filter_rate, metrics.accuracy):
        assert float(metric(pooled).value) == 1
    assert float(metrics.prompt_bias_score_difference(counts).value) == 0
