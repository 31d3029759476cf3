"""Metrics of small count arrays, each expected number worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from detector_bench import metrics
from detector_bench.metrics import Score

pytestmark = [
    pytest.mark.filterwarnings("error"),
    # What an earlier test left to the garbage collector is that test's own matter.
    pytest.mark.filterwarnings("default::pytest.PytestUnraisableExceptionWarning"),
]

# truth and verdict codes for gender
MALE, FEMALE, LOW_QUALITY, OTHERS = range(4)
FILTERED, NO_VERDICT = 2, 3

NURSE, DRIVER, GHOST, UNUSED = range(4)

# 12 images of one T2I model: (prompt, what the human says, what the detector says).
IMAGES = [
    (NURSE, MALE, MALE),
    (NURSE, MALE, MALE),
    (NURSE, MALE, FEMALE),
    (NURSE, FEMALE, FEMALE),
    (NURSE, LOW_QUALITY, MALE),
    (NURSE, OTHERS, MALE),
    (DRIVER, FEMALE, MALE),
    (DRIVER, FEMALE, FILTERED),
    (DRIVER, LOW_QUALITY, FEMALE),
    (DRIVER, LOW_QUALITY, NO_VERDICT),
    (GHOST, MALE, FILTERED),  # the detector keeps nothing of this prompt
    (GHOST, LOW_QUALITY, FILTERED),
]


@pytest.fixture
def counts() -> np.ndarray:
    """`[t2i_model, prompt, truth, verdict]`, 1 x 4 x 4 x 4; the last prompt has no image at all."""
    array = np.zeros((1, 4, 4, 4), dtype=np.int64)
    for prompt, truth, verdict in IMAGES:
        array[0, prompt, truth, verdict] += 1
    return array


def single(score: Score) -> tuple[float, int, int]:
    assert score.value.shape == score.n.shape == score.n_left_out.shape == ()
    return float(score.value), int(score.n), int(score.n_left_out)


def test_every_cell_of_clear_and_low_quality_against_verdicts_occurs(counts: np.ndarray) -> None:
    assert counts.sum() == 12
    pooled = metrics.pool(counts)
    assert (pooled[:3, :3] > 0).all()
    assert pooled[OTHERS].sum() == 1
    assert pooled[:, NO_VERDICT].sum() == 1


def test_filtering(counts: np.ndarray) -> None:
    pooled = metrics.pool(counts)
    # Kept of the 7 clear images: 4 nurses and a driver; kept of the 4 low-quality ones: a nurse and a driver,
    # while one ghost is filtered and one driver has no verdict. The image labelled others takes no part.
    confusion = metrics.filter_confusion(pooled)
    assert tuple(int(part) for part in confusion) == (5, 2, 2, 1, 0, 1)
    assert single(metrics.precision(pooled)) == (pytest.approx(5 / 7), 7, 1)
    assert single(metrics.recall(pooled)) == (pytest.approx(5 / 7), 7, 0)
    assert single(metrics.f1(pooled)) == (pytest.approx(10 / 14), 9, 1)  # 2 * 5 / (2 * 5 + 2 + 2)
    assert single(metrics.filter_rate(pooled)) == (pytest.approx(1 / 3), 3, 1)
    per_class = metrics.recall_per_class(pooled)
    assert per_class.value.tolist() == pytest.approx([3 / 4, 2 / 3])
    assert per_class.n.tolist() == [4, 3]
    assert per_class.n_left_out.tolist() == [0, 0]


def test_classification(counts: np.ndarray) -> None:
    pooled = metrics.pool(counts)
    # Clear to both: 3 male nurses (2 right), a female nurse (right), a female driver (wrong).
    assert single(metrics.accuracy(pooled)) == (pytest.approx(3 / 5), 5, 0)
    per_class = metrics.accuracy_per_class(pooled)
    assert per_class.value.tolist() == pytest.approx([2 / 3, 1 / 2])
    assert per_class.n.tolist() == [3, 2]


def test_an_error_on_a_clear_image_is_left_out_not_filtered() -> None:
    counts = np.zeros((4, 4), dtype=np.int64)
    counts[MALE, MALE] = 3
    counts[MALE, NO_VERDICT] = 2
    assert single(metrics.recall(counts)) == (1.0, 3, 2)
    assert single(metrics.accuracy(counts)) == (1.0, 3, 2)
    assert metrics.recall_per_class(counts).n_left_out.tolist() == [2, 0]
    assert metrics.accuracy_per_class(counts).n_left_out.tolist() == [2, 0]
    assert single(metrics.precision(counts)) == (1.0, 3, 2)


def test_label_shares(counts: np.ndarray) -> None:
    shares = metrics.label_shares(metrics.pool(counts))
    assert shares.value.tolist() == pytest.approx([4 / 12, 3 / 12, 4 / 12, 1 / 12])
    assert shares.n.tolist() == [12, 12, 12, 12]


def test_prompt_bias_scores_with_the_detectors_count(counts: np.ndarray) -> None:
    score = metrics.prompt_bias_score(counts)
    # Nurse: 4 images called male (a low-quality one and one of others among them), 2 female.
    # Driver: 1 male, 1 female. Ghost: none kept. Unused: no image.
    np.testing.assert_allclose(score.value, [[2 / 6, 0, math.nan, math.nan]])
    assert score.n.tolist() == [[6, 2, 0, 0]]
    assert score.n_left_out.tolist() == [[0, 1, 0, 0]]


def test_prompt_bias_scores_with_the_human_count(counts: np.ndarray) -> None:
    score = metrics.prompt_bias_score(counts, n_clear="human")
    # Humans see 4 clear nurses, 2 drivers, 1 ghost; keeping no ghost is a true 0.
    np.testing.assert_allclose(score.value, [[2 / 4, 0, 0, math.nan]])
    assert score.n.tolist() == [[4, 2, 1, 0]]


def test_a_prompt_of_errors_only_has_no_score_with_either_count() -> None:
    counts = np.zeros((4, 4), dtype=np.int64)
    counts[MALE, NO_VERDICT] = 5
    assert math.isnan(metrics.prompt_bias_score(counts, n_clear="detector").value)
    assert math.isnan(metrics.prompt_bias_score(counts, n_clear="human").value)
    assert float(metrics.prompt_bias_score_actual(counts).value) == 1


def test_actual_prompt_bias_scores(counts: np.ndarray) -> None:
    # Nurse: 3 men, 1 woman; driver: 2 women; ghost: 1 man.
    np.testing.assert_allclose(metrics.prompt_bias_score_actual(counts).value, [[1 / 2, -1, 1, math.nan]])


def test_model_bias_scores(counts: np.ndarray) -> None:
    # Detector: nurse |4 - 2| / 6, driver 0, ghost left out; the prompt without an image is not even left out.
    assert single(metrics.model_bias_score(counts)) == (pytest.approx((1 / 3 + 0) / 2), 2, 1)
    # Human: 1/2, 1 and 1.
    assert single(metrics.model_bias_score_actual(counts)) == (pytest.approx(5 / 6), 3, 0)
    # (1/6 - 5/6) / (5/6)
    assert single(metrics.model_bias_score_deviation(counts)) == (pytest.approx(-4 / 5), 2, 1)


def test_prompt_bias_score_difference(counts: np.ndarray) -> None:
    # Nurse |1/3 - 1/2|, driver |0 + 1|, ghost has no detector's score.
    assert single(metrics.prompt_bias_score_difference(counts)) == (pytest.approx((1 / 6 + 1) / 2), 2, 1)
    # Nurse |1/2 - 1/2|, driver |0 + 1|, ghost |0 - 1|.
    assert single(metrics.prompt_bias_score_difference(counts, n_clear="human")) == (pytest.approx(2 / 3), 3, 0)


def test_a_prompt_without_a_human_clear_image_is_left_out_of_the_difference() -> None:
    counts = np.zeros((1, 2, 4, 4), dtype=np.int64)
    counts[0, 0, MALE, MALE] = 1
    counts[0, 1, LOW_QUALITY, MALE] = 1
    assert single(metrics.prompt_bias_score_difference(counts)) == (0.0, 1, 1)
    assert single(metrics.prompt_bias_score_difference(counts, n_clear="human")) == (0.0, 1, 1)
    assert single(metrics.model_bias_score(counts)) == (1.0, 2, 0)
    assert single(metrics.model_bias_score_actual(counts)) == (1.0, 1, 1)


def test_deviation_from_an_actual_score_of_zero_is_undefined() -> None:
    counts = np.zeros((1, 1, 4, 4), dtype=np.int64)
    counts[0, 0, MALE, MALE] = counts[0, 0, FEMALE, FILTERED] = 5
    assert float(metrics.model_bias_score(counts).value) == 1
    assert float(metrics.model_bias_score_actual(counts).value) == 0
    assert math.isnan(metrics.model_bias_score_deviation(counts).value)


def test_no_image_gives_nan_without_a_warning() -> None:
    counts = np.zeros((2, 3, 4, 4), dtype=np.int64)
    pooled = metrics.pool(counts)
    for metric in (metrics.precision, metrics.recall, metrics.f1, metrics.filter_rate, metrics.accuracy):
        value, n, left_out = single(metric(pooled))
        assert math.isnan(value)
        assert (n, left_out) == (0, 0)
    for metric in (metrics.model_bias_score, metrics.model_bias_score_actual, metrics.model_bias_score_deviation):
        value, n, left_out = single(metric(counts))
        assert math.isnan(value)
        assert (n, left_out) == (0, 0)
    assert np.isnan(metrics.label_shares(pooled).value).all()


def test_a_filter_that_prefers_one_gender_distorts_the_bias_even_with_perfect_classes() -> None:
    """90 % of the women and 66 % of the men kept, every kept image named rightly."""
    counts = np.zeros((1, 2, 4, 4), dtype=np.int64)
    # Prompt 0: 150 men, 100 women, actual score 50/250 = 1/5; kept 99 and 90, reported 9/189 = 1/21.
    counts[0, 0, MALE, [MALE, FILTERED]] = 99, 51
    counts[0, 0, FEMALE, [FEMALE, FILTERED]] = 90, 10
    assert single(metrics.model_bias_score_deviation(counts))[0] == pytest.approx((1 / 21) / (1 / 5) - 1)  # -76 %
    # Prompt 1 alone: 100 men, 150 women, actual score 1/5 too; kept 66 and 135, reported 69/201.
    counts[0, 1, MALE, [MALE, FILTERED]] = 66, 34
    counts[0, 1, FEMALE, [FEMALE, FILTERED]] = 135, 15
    other_way = counts[:, 1:]
    assert single(metrics.model_bias_score_deviation(other_way))[0] == pytest.approx(
        (69 / 201) / (1 / 5) - 1
    )  # +72 %
    assert float(metrics.accuracy(metrics.pool(counts)).value) == 1
    assert metrics.recall_per_class(metrics.pool(counts)).value.tolist() == pytest.approx([0.66, 0.90])


class TestThreeClasses:
    """Young, middle-aged, elderly; verdict 3 is filtered, 4 is no verdict."""

    @pytest.fixture
    def counts(self) -> np.ndarray:
        """One prompt: 4 young images (1 called middle-aged), 2 middle-aged (1 filtered), 2 elderly (right)."""
        array = np.zeros((1, 1, 5, 5), dtype=np.int64)
        array[0, 0, 0, [0, 1]] = 3, 1
        array[0, 0, 1, [1, 3]] = 1, 1
        array[0, 0, 2, 2] = 2
        return array

    def test_images(self, counts: np.ndarray) -> None:
        pooled = metrics.pool(counts)
        assert float(metrics.recall(pooled).value) == pytest.approx(7 / 8)
        assert metrics.recall_per_class(pooled).value.tolist() == pytest.approx([1, 1 / 2, 1])
        assert float(metrics.accuracy(pooled).value) == pytest.approx(6 / 7)
        assert metrics.accuracy_per_class(pooled).value.tolist() == pytest.approx([3 / 4, 1, 1])

    def test_bias(self, counts: np.ndarray) -> None:
        # Detector: 3, 2, 2 of 7. |3/7 - 1/3| + 2 |2/7 - 1/3| = 2/21 + 2/21; over 2 (1 - 1/3) = 4/3: 1/7.
        assert single(metrics.model_bias_score(counts)) == (pytest.approx(1 / 7), 1, 0)
        # Human: 4, 2, 2 of 8. |1/2 - 1/3| + 2 |1/4 - 1/3| = 1/3; over 4/3: 1/4.
        assert single(metrics.model_bias_score_actual(counts)) == (pytest.approx(1 / 4), 1, 0)
        assert single(metrics.model_bias_score_deviation(counts)) == (pytest.approx(-3 / 7), 1, 0)

    def test_difference(self, counts: np.ndarray) -> None:
        # |3/7 - 4/8| + 2 |2/7 - 2/8| = 1/14 + 1/14.
        assert single(metrics.prompt_bias_score_difference(counts)) == (pytest.approx(1 / 7), 1, 0)
        # |3/8 - 4/8| + 0 + 0.
        human = metrics.prompt_bias_score_difference(counts, n_clear="human")
        assert single(human) == (pytest.approx(1 / 8), 1, 0)

    def test_no_signed_score(self, counts: np.ndarray) -> None:
        assert np.isnan(metrics.prompt_bias_score(counts).value).all()
        assert np.isnan(metrics.prompt_bias_score_actual(counts).value).all()

    def test_concentration_by_hand(self) -> None:
        # Shares 3/4, 1/4, 0: 5/12 + 1/12 + 4/12 = 10/12, over 4/3.
        assert float(metrics.concentration(np.array([3, 1, 0]))) == pytest.approx(5 / 8)
        assert float(metrics.concentration(np.array([2, 2, 2]))) == 0
        assert float(metrics.concentration(np.array([0, 7, 0]))) == 1
        assert math.isnan(metrics.concentration(np.array([0, 0, 0])))


def test_concentration_of_two_classes_is_the_papers_formula() -> None:
    men, women = np.meshgrid(np.arange(21), np.arange(21))
    some = men + women > 0
    expected = np.abs(men - women)[some] / (men + women)[some]
    assert (metrics.concentration(np.stack([men, women], axis=-1)[some]) == expected).all()


def test_difference_of_two_classes_is_the_sum_over_the_classes() -> None:
    """The generalisation, sum of |share - share|, equals formula 3 for two classes."""
    random = np.random.default_rng(7)
    counts = random.integers(0, 5, size=(50, 4, 4))
    detector, human = counts[..., :2].sum(axis=-2), counts[..., :2, :].sum(axis=-1)
    shares = detector / detector.sum(axis=-1, keepdims=True), human / human.sum(axis=-1, keepdims=True)
    expected = np.abs(shares[0] - shares[1]).sum(axis=-1)
    np.testing.assert_allclose(metrics.prompt_bias_score_error(counts).value, expected)


@pytest.mark.parametrize("shape", [(4,), (4, 5), (3, 3), (2, 5, 4)])
def test_arrays_without_truth_and_verdict_axes_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"K \+ 2"):
        metrics.precision(np.zeros(shape))


def test_unknown_n_clear_is_refused(counts: np.ndarray) -> None:
    with pytest.raises(ValueError, match=r"n_clear: 'humans'.*detector, human"):
        metrics.prompt_bias_score(counts, n_clear="humans")  # type: ignore[arg-type]
