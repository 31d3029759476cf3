"""Which images are drawn to be labelled: spread over cells, and with exactly the probabilities that are stated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from detector_bench.errors import ConfigError
from detector_bench.estimation.sampling import (
    LEAST_SIZE,
    NO_CELL,
    Draw,
    draw,
    opinions,
    proportional,
    systematic,
)
from detector_bench.sample_design import SampleDesign

DRAWS = 8_000
CELLS = np.repeat([0, 1, 2, 3, 4, 5], [7, 3, 12, 5, 1, 9])
SHAPE = (2, 3)
# Three detectors, two classes: 0, 1, filtered 2, no verdict 3.
VERDICTS = np.random.default_rng(4).choice(4, size=(3, len(CELLS)), p=[0.4, 0.3, 0.2, 0.1])
SAID = opinions(VERDICTS, classes=2)


def drawn(seed: int = 0, cell: NDArray[Any] = CELLS, **settings: Any) -> Draw:
    return draw(cell, shape=SHAPE, **{"labels": 17, "said": SAID, "seed": seed, **settings})


def per_cell(found: Draw, cell: NDArray[Any] = CELLS) -> list[int]:
    return np.bincount(cell[found.images], minlength=6).tolist()


def weights_over_draws(draws: Callable[[int], Draw], *, count: int = DRAWS) -> NDArray[Any]:
    """`[image]`: the mean over many draws of 1 / probability where the image is drawn, and 0 elsewhere."""
    total = np.zeros(len(CELLS))
    for seed in range(count):
        found = draws(seed)
        total[found.images] += 1 / (found.probability * found.cell_probability)
    return total / count


# Exact probabilities


@pytest.mark.parametrize("design", list(SampleDesign))
@pytest.mark.parametrize("labels", [4, 17])
@pytest.mark.slow
def test_every_image_is_drawn_with_the_stated_probability(design: SampleDesign, labels: int) -> None:
    # Mean weights of 1 say it whatever was left to chance: the number of labels of a cell, the cells themselves.
    mean = weights_over_draws(lambda seed: drawn(seed, labels=labels, design=design), count=DRAWS // 2)
    least = min(drawn(seed, labels=labels, design=design).probability.min() for seed in range(50))
    cell = drawn(0, labels=labels, design=design).cell_probability.min()
    error = np.sqrt((1 / (least * cell) - 1) / (DRAWS // 2))
    assert np.abs(mean - 1).max() < 4.5 * error + 1e-12


@pytest.mark.slow
def test_frequencies_by_disagreement_are_the_stated_probabilities() -> None:
    # 12 labels in one cell of 37: their number is not left to chance, so the probabilities are the same each time.
    one_cell = np.zeros(len(CELLS), dtype=np.int64)
    times, stated = np.zeros(len(CELLS)), np.zeros(len(CELLS))
    for seed in range(DRAWS):
        found = draw(one_cell, shape=(1, 1), labels=12, design=SampleDesign.DISAGREEMENT, said=SAID, seed=seed)
        times[found.images] += 1
        stated[found.images] = found.probability
        assert len(found.images) == 12
    by_hand = LEAST_SIZE + SAID.disagreement
    assert stated == pytest.approx(12 * by_hand / by_hand.sum())
    assert np.abs((times / DRAWS - stated) / np.sqrt(stated * (1 - stated) / DRAWS)).max() < 4


@pytest.mark.parametrize("design", [SampleDesign.EQUAL, SampleDesign.VERDICTS])
@pytest.mark.slow
def test_a_sample_that_grew_has_the_probabilities_of_the_whole(design: SampleDesign) -> None:
    def grown(seed: int) -> Draw:
        first = drawn(seed, labels=4, design=design)  # fewer than cells, then more of them, then more than cells
        already = np.zeros(len(CELLS), dtype=np.bool_)
        already[first.images] = True
        second = drawn(seed, labels=1, design=design, already=already)
        already[second.images] = True
        third = drawn(seed, labels=12, design=design, already=already)
        assert set(first.images) < set(second.images) < set(third.images)
        assert len(third.images) == 17
        return third

    equal = [(number / size) for number, size in zip(per_cell(grown(3)), np.bincount(CELLS), strict=True)]
    assert grown(3).probability == pytest.approx(np.repeat(equal, np.bincount(CELLS))[grown(3).images])
    assert np.abs(weights_over_draws(grown, count=DRAWS // 2) - 1).max() < 0.12


def test_no_probability_is_near_zero_or_above_one() -> None:
    sizes = np.array([LEAST_SIZE, 1 + LEAST_SIZE, LEAST_SIZE, LEAST_SIZE])
    # In proportion, the second would have 2 * 1.25 / 2 = 1.25; so it is certain, and the rest share one label.
    assert proportional(sizes, number=2) == pytest.approx([1 / 3, 1, 1 / 3, 1 / 3])
    assert proportional(sizes, number=4).tolist() == [1, 1, 1, 1]
    found = drawn(design=SampleDesign.DISAGREEMENT, labels=36)
    assert found.probability.max() <= 1
    assert len(found.images) == 36


def test_a_systematic_draw_takes_exactly_as_many_as_the_probabilities_add_up_to() -> None:
    random = np.random.default_rng(1)
    for start in (0.0, 0.3, 1 - 2.0**-53):
        chance = proportional(random.uniform(0.25, 1.25, 101), number=37)
        taken = systematic(chance, start=start)
        assert len(np.unique(taken)) == 37
    assert systematic(np.full(10, 0.5), start=0.4).tolist() == [0, 2, 4, 6, 8]


# Across cells


def test_labels_are_spread_equally_and_small_cells_give_all_they_have() -> None:
    # 17 labels on cells of 7, 3, 12, 5, 1, 9 images: one of them gives all it has, the others 3 or 4.
    for seed in range(200):
        numbers = per_cell(drawn(seed))
        assert sum(numbers) == 17
        assert numbers[4] == 1
        assert numbers[1] == 3
        assert set(numbers) <= {1, 3, 4}
    assert per_cell(drawn(labels=37)) == np.bincount(CELLS).tolist()
    # What is left over is in another place each time.
    assert len({tuple(per_cell(drawn(seed))) for seed in range(50)}) == 4


def test_with_fewer_labels_than_cells_every_t2i_model_gets_an_equal_part() -> None:
    found = drawn(labels=4)
    assert sorted(per_cell(found)[:3]) == sorted(per_cell(found)[3:]) == [0, 1, 1]
    assert found.cell_probability == pytest.approx([2 / 3] * 4)
    assert drawn(labels=6).cell_probability.tolist() == [1] * 6
    uneven = {tuple(np.add.reduceat(per_cell(drawn(seed, labels=5)), [0, 3])) for seed in range(40)}
    assert uneven == {(2, 3), (3, 2)}


def test_images_of_no_t2i_model_and_of_others_are_not_drawn() -> None:
    cell = np.where(np.arange(len(CELLS)) % 2, NO_CELL, CELLS)
    assert not (drawn(cell=cell).images % 2).any()
    found = drawn(labels=8, of_models=np.array([False, True]))
    assert per_cell(found)[:3] == [0, 0, 0]
    with pytest.raises(ConfigError, match=r"^20 labels \(accepted: 1 to 19, the images that are left\)$"):
        drawn(cell=cell, labels=20)
    with pytest.raises(ConfigError, match=r"^0 labels \(accepted: 1 to 37"):
        drawn(labels=0)


# Within cells


def test_each_pattern_of_verdicts_has_its_share() -> None:
    # 40 images that say male unanimously, 40 female, 20 filtered; of 20 draws each gets its exact part.
    verdicts = np.repeat([0, 1, 2], [40, 40, 20])[np.newaxis].repeat(3, axis=0)
    verdicts = verdicts[:, np.random.default_rng(0).permutation(100)]
    said = opinions(verdicts, classes=2)
    cell = np.zeros(100, dtype=np.int64)
    for seed in range(100):
        found = draw(cell, shape=(1, 1), labels=20, seed=seed, design=SampleDesign.VERDICTS, said=said)
        assert np.bincount(said.majority[found.images]).tolist() == [8, 8, 4]


def test_what_most_detectors_say_and_how_many_do_not() -> None:
    said = opinions(np.array([[0, 1, 2, 3, 3], [0, 0, 2, 3, 1], [1, 1, 0, 3, 3]]), classes=2)
    assert said.majority.tolist() == [0, 1, 2, 3, 1]
    assert said.disagreement == pytest.approx([1 / 3, 1 / 3, 1 / 3, 1, 2 / 3])


def test_the_seed_decides_and_is_what_it_was_when_this_was_written() -> None:
    # Written down once: another draw, by a new numpy for instance, would be another sample under the same seed.
    assert drawn(labels=8).images.tolist() == drawn(labels=8).images.tolist()
    assert drawn(labels=8).images.tolist() != drawn(1, labels=8).images.tolist()
    assert drawn(labels=8).images.tolist() == [1, 5, 7, 14, 22, 27, 33, 35]
