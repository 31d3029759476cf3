"""The resampling room: one way to draw, whatever is added up."""

from __future__ import annotations

import numpy as np
import pytest
from joint_studies import of_images

from detector_bench.metrics.bootstrap import resample
from detector_bench.metrics.resampling import RESAMPLES_PER_BLOCK, ImageSums, Resampler, over_blocks


def test_numbers_of_images_are_drawn_as_verdicts_are() -> None:
    random = np.random.default_rng(3)
    pair = np.repeat(np.arange(6), [4, 7, 4, 0, 9, 4])
    truth = random.integers(0, 2, pair.size)
    joint = of_images(truth.tolist(), [truth.tolist()], pair.tolist(), prompts=6)
    resampler = Resampler(joint, borrow=False)
    numbers = np.stack([truth == 0, truth == 1], axis=-1).astype(float)
    sums = ImageSums(numbers, pair, cells=6)
    for number in (0, 3):
        drawn = resampler.block(number, seed=5).class_counts[:, :, 0]
        np.testing.assert_array_equal(sums.block(number, seed=5)[resampler.pairs], drawn)
        assert not sums.block(number, seed=5)[3].any()


def test_numbers_of_one_image_stay_together_and_photos_without_a_cell_stay_out() -> None:
    cell = np.array([1, -1, 0, 1, 0, 1])
    numbers = np.stack([np.arange(6.0), 2 * np.arange(6.0), np.ones(6)], axis=-1)
    drawn = ImageSums(numbers, cell, cells=3).block(0, seed=1)
    np.testing.assert_array_equal(drawn[:, 1], 2 * drawn[:, 0])
    np.testing.assert_array_equal(drawn[:, 2], np.repeat([[2], [3], [0]], RESAMPLES_PER_BLOCK, axis=1))
    assert set(drawn[0, 0]) == {4.0, 6.0, 8.0}


@pytest.mark.parametrize("resamples", [0, 70])
def test_threads_do_not_change_what_is_drawn(resamples: int) -> None:
    sums = ImageSums(np.random.default_rng(0).random((40, 3)), np.repeat([0, 1], 20), cells=2)
    one, four = (
        over_blocks(lambda number: ({"sum": sums.block(number, seed=2)},), resamples=resamples, threads=threads)
        for threads in (1, 4)
    )
    assert len(one) == len(four) == (resamples > 0)
    for alone, together in zip(one, four, strict=True):
        assert alone["sum"].shape == (2, 3, resamples)
        np.testing.assert_array_equal(alone["sum"], together["sum"])


def test_nothing_to_draw_from() -> None:
    assert not ImageSums(np.ones((2, 1)), np.array([-1, -1]), cells=2).block(0, seed=0).any()
    assert ImageSums(np.ones((0, 1)), np.zeros(0, dtype=np.intp), cells=0).block(0, seed=0).shape[0] == 0


def test_a_prompt_of_more_images_than_are_looked_at_at_once() -> None:
    truth = np.random.default_rng(1).integers(0, 3, 50_001)
    joint = of_images(truth.tolist(), [np.minimum(truth, 1).tolist()], [0] * truth.size)
    shares = resample(joint, resamples=50).detectors["accuracy"][0, 0, 0]
    assert shares.std() < 0.01
    assert shares.mean() == pytest.approx(1, abs=0.01)
