"""Filtering and accuracy agree with scikit-learn on whatever images there are."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, f1_score, precision_score, recall_score

from detector_bench import metrics

pytestmark = [
    pytest.mark.filterwarnings("error"),
    # What an earlier test left to the garbage collector is that test's own matter.
    pytest.mark.filterwarnings("default::pytest.PytestUnraisableExceptionWarning"),
]


@st.composite
def judged_images(draw: st.DrawFn) -> tuple[int, np.ndarray, np.ndarray]:
    """Number of classes; truth code and verdict code of each image."""
    classes = draw(st.sampled_from([2, 3, 7, 10]))
    code = st.integers(0, classes + 1)
    images = draw(st.lists(st.tuples(code, code), max_size=60))
    truth, verdict = np.array(images, dtype=np.int64).reshape(-1, 2).T
    return classes, truth, verdict


def tally(classes: int, truth: np.ndarray, verdict: np.ndarray) -> np.ndarray:
    counts = np.zeros((classes + 2, classes + 2), dtype=np.int64)
    np.add.at(counts, (truth, verdict), 1)
    return counts


def same(value: float | np.ndarray, expected: float) -> bool:
    return float(value) == pytest.approx(expected, nan_ok=True)


@given(judged_images())
@settings(max_examples=50, deadline=None)
def test_filtering(images: tuple[int, np.ndarray, np.ndarray]) -> None:
    classes, truth, verdict = images
    counts = tally(classes, truth, verdict)
    low_quality_or_clear, answered = truth <= classes, verdict <= classes
    used = low_quality_or_clear & answered
    clear, kept = truth[used] < classes, verdict[used] < classes
    undefined = {"zero_division": math.nan}
    if used.any():
        assert same(metrics.precision(counts).value, precision_score(clear, kept, **undefined))
        assert same(metrics.recall(counts).value, recall_score(clear, kept, **undefined))
        assert same(metrics.f1(counts).value, f1_score(clear, kept, **undefined))
        assert same(metrics.filter_rate(counts).value, recall_score(clear, kept, pos_label=False, **undefined))
    assert int(metrics.precision(counts).n_left_out) == int((low_quality_or_clear & ~answered).sum())
    for index in range(classes):
        of_class = truth[used] == index
        if of_class.any():
            expected = recall_score(clear[of_class], kept[of_class])
            assert same(metrics.recall_per_class(counts).value[index], expected)
        else:
            assert math.isnan(metrics.recall_per_class(counts).value[index])


@given(judged_images())
@settings(max_examples=50, deadline=None)
def test_accuracy(images: tuple[int, np.ndarray, np.ndarray]) -> None:
    classes, truth, verdict = images
    counts = tally(classes, truth, verdict)
    both_clear = (truth < classes) & (verdict < classes)
    human, detector = truth[both_clear], verdict[both_clear]
    if not both_clear.any():
        assert math.isnan(metrics.accuracy(counts).value)
        return
    assert same(metrics.accuracy(counts).value, accuracy_score(human, detector))
    # Accuracy among one human class is that class's recall in the multiclass sense.
    per_class = recall_score(human, detector, labels=range(classes), average=None, zero_division=math.nan)
    np.testing.assert_allclose(metrics.accuracy_per_class(counts).value, per_class)
    precision = precision_score(human, detector, labels=range(classes), average=None, zero_division=math.nan)
    np.testing.assert_allclose(metrics.classification_precision_per_class(counts).value, precision)
    # scikit-learn's balanced accuracy, which warns of classes that only the detector names.
    present = np.unique(human)
    balanced = recall_score(human, detector, labels=present, average="macro")
    assert same(metrics.balanced_accuracy(counts).value, balanced)
    assert int(metrics.balanced_accuracy(counts).n) == len(present)
    # An answer for every image: filtered is a class that no human names.
    answered = (truth < classes) & (verdict <= classes)
    assert same(metrics.alignment_accuracy(counts).value, accuracy_score(truth[answered], verdict[answered]))
    assert int(metrics.alignment_accuracy(counts).n_left_out) == int(
        ((truth < classes) & (verdict > classes)).sum()
    )
