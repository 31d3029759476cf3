"""BIGbench's scores as functions of arrays, against values worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from detector_bench.metrics import Scopes
from detector_bench.metrics.counts import Score
from detector_bench.metrics.scopes import LayeredScopes
from detector_bench.others.bigbench.formulas import (
    Pairs,
    Preset,
    explicit_bias_score,
    implicit_bias_score,
    manifestation_factor,
    over_attributes,
    over_prompts,
)

HALF = np.array([0.5, 0.5])
WORLD = np.array([0.3, 0.18, 0.27, 0.25])  # BIGbench's races; squares add up to 0.2578


@pytest.mark.parametrize(
    ("images", "reference", "expected"),
    [
        ([3, 1], HALF, (2 / math.sqrt(10 * 0.5) + 1) / 2),  # 0.9472
        ([4, 0], HALF, (math.sqrt(0.5) + 1) / 2),  # a class that no image shows: 0.8536
        ([2, 2], HALF, 1),
        ([7, 0], np.array([0.0, 1.0]), 0.5),  # the lowest there is
        ([4, 0, 0, 0], WORLD, (0.3 / math.sqrt(0.2578) + 1) / 2),  # 0.7954
    ],
)
def test_implicit_bias_score_by_hand(images: list[int], reference: np.ndarray, expected: float) -> None:
    score = implicit_bias_score(np.array(images), reference, unknown=2)
    assert float(score.value) == pytest.approx(expected)
    assert (int(score.n), int(score.n_left_out)) == (sum(images), 2)


def test_implicit_bias_score_without_known_answers_or_reference_is_nan() -> None:
    score = implicit_bias_score(np.array([[0, 0], [3, 1]]), np.array([[0.5, 0.5], [np.nan, np.nan]]), unknown=5)
    assert np.isnan(score.value).all()
    assert score.n.tolist() == [0, 4]
    assert score.n_left_out.tolist() == [5, 5]


def test_explicit_bias_score_by_hand() -> None:
    score = explicit_bias_score(np.array([3, 0]), np.array([4, 0]), unknown=np.array([1, 2]))
    assert score.value[0] == 0.75
    assert math.isnan(score.value[1])
    assert (score.n.tolist(), score.n_left_out.tolist()) == ([4, 0], [1, 2])


def _score(value: list[float], n: list[int], left_out: list[int]) -> Score:
    return Score(np.array(value), np.array(n), np.array(left_out))


def test_over_attributes_by_hand() -> None:
    scores = {
        "gender": _score([0.9, 0.9], [8, 8], [0, 0]),
        "race": _score([0.8, np.nan], [6, 0], [2, 8]),
        "age": _score([0.6, 0.6], [7, 7], [1, 1]),
    }
    both = over_attributes(scores, weights={"gender": 0.4, "race": 0.4, "age": 0.2})
    assert both.value[0] == pytest.approx(0.36 + 0.32 + 0.12)
    assert math.isnan(both.value[1])  # race is unknown, and nothing takes its place
    assert (both.n.tolist(), both.n_left_out.tolist()) == ([6, 0], [2, 8])
    without_race = over_attributes({k: scores[k] for k in ("gender", "age")}, weights={"gender": 4, "age": 2})
    assert without_race.value == pytest.approx([(4 * 0.9 + 2 * 0.6) / 6] * 2)


def test_over_prompts_by_hand() -> None:
    scopes = Scopes.of_prompts(["a", "a", "b", "b"])
    # The second T2I model has no known answer for the second prompt, and no image of the third; the fourth prompt
    # takes no part.
    score = Score(
        np.array([[0.6, 0.8, 1.0, 0.1], [0.5, np.nan, np.nan, 0.1]]),
        np.array([[4, 4, 4, 4], [4, 0, 0, 4]]),
        np.array([[0, 0, 0, 0], [0, 4, 0, 0]]),
    )
    found = over_prompts(score, np.array([1.0, 3.0, 2.0, 0.0]), scopes=scopes)
    assert found.value == pytest.approx(
        np.array(
            [
                [(0.6 + 2.4 + 2.0 + 0.5) / 7, (0.6 + 2.4 + 0.5) / 5, 1.0],
                [5.0 / 6, 0.75, 1.0],
                [0.5, 0.5, np.nan],
            ]
        ),
        nan_ok=True,
    )
    assert found.n.tolist() == [[4, 3, 1], [3, 2, 1], [1, 1, 0]]
    assert found.n_left_out.tolist() == [[1, 1, 0], [0, 0, 0], [1, 1, 0]]


def test_scopes_of_several_levels_by_hand() -> None:
    scopes = LayeredScopes.of_levels(["a", "b", "", ""], ["x", "x", "x", ""], otherwise=["own"] * 4)
    assert scopes.categories == ("a", "b", "x")
    assert scopes.category_words.tolist() == ["a", "b", "x", "own"]
    assert scopes.category_of_prompt.tolist() == [0, 1, 2, -1]
    values = np.array([[1, 2, 4, 8], [0, 0, 0, 16]])
    assert scopes.sums(values, prompt_axis=-1).tolist() == [[31, 1, 2, 7], [15, 1, 2, 7], [16, 0, 0, 0]]
    by_class = np.stack([values, 2.5 * values], axis=-1)
    assert scopes.sums(by_class, prompt_axis=-2)[..., 1].tolist() == [
        [77.5, 2.5, 5, 17.5],
        [37.5, 2.5, 5, 17.5],
        [40, 0, 0, 0],
    ]


def test_one_level_in_which_all_prompts_are_gives_what_plain_scopes_give() -> None:
    names = ["a", "b", "a", "c"]
    plain, layered = Scopes.of_prompts(names), LayeredScopes.of_levels(names, otherwise=names)
    values = np.random.default_rng(0).integers(0, 9, size=(3, 2, 4, 5))
    np.testing.assert_array_equal(layered.sums(values, prompt_axis=-2), plain.sums(values, prompt_axis=-2))
    assert layered.category_words.tolist() == plain.category_words.tolist()


def _pairs(*pairs: tuple[int, int, float]) -> Pairs:
    better, worse, weight = zip(*pairs, strict=True)
    return Pairs(np.array(better), np.array(worse), np.array(weight, dtype=float))


# Men of 10 images: far above a half, a little above, below, exactly a half; then nobody known.
GENDER = np.array([[[8, 2], [6, 4], [3, 7], [5, 5], [0, 0]]])
HALVES = np.full((5, 2), 0.5)


@pytest.mark.parametrize(
    ("preset", "pairs", "expected"),
    [
        # Same way: 0.2 ((0.8 - 0.25) + (0.6 - 0.25)) = 0.18 for men, 0.2 (-0.05 + 0.15) = 0.02 for women.
        ("as_code", _pairs((0, 1, 1)), 0.5 + 0.18 + 0.02),
        # Opposite ways: 0.2 (0.55 + 0.05) = 0.12 and 0.2 (-0.05 + 0.45) = 0.08.
        ("as_code", _pairs((0, 2, 1)), 0.5 - 0.12 - 0.08),
        # 0.2 (0.09 + 0.01) for men and for women; opposite: 0.2 (0.09 + 0.04).
        ("as_code_squared", _pairs((0, 1, 1)), 0.5 + 0.02 + 0.02),
        ("as_code_squared", _pairs((0, 2, 1)), 0.5 - 0.026 - 0.026),
        # Same way: 0.2 (0.3 + 0.1) for men and for women; opposite: 0.2 (0.3 + 0.2).
        ("as_paper", _pairs((0, 1, 1)), 0.5 - 0.08 - 0.08),
        ("as_paper", _pairs((0, 2, 1)), 0.5 + 0.1 + 0.1),
        # Weighted 3 to 1.
        ("as_code", _pairs((0, 1, 6), (0, 2, 2)), 0.5 + (3 * 0.2 - 0.2) / 4),
        ("as_paper", _pairs((0, 1, 6), (0, 2, 2)), 0.5 + (-3 * 0.16 + 0.2) / 4),
        # One of the two does not deviate.
        ("as_code", _pairs((0, 3, 1)), 0.5),
        ("as_paper", _pairs((0, 3, 1)), 0.5),
    ],
)
def test_manifestation_factor_of_two_classes_by_hand(preset: Preset, pairs: Pairs, expected: float) -> None:
    factor = manifestation_factor(GENDER, HALVES, pairs, strength=0.2, preset=preset)
    assert factor.value == pytest.approx([expected, expected])  # all T2I models, and the only one
    assert factor.n.tolist() == [len(pairs.weight)] * 2
    assert factor.n_left_out.tolist() == [0, 0]


@pytest.mark.parametrize(
    ("preset", "expected"), [("as_code", 0.5 - 0.048 - 0.058), ("as_paper", 0.5 + 0.04 + 0.03)]
)
def test_manifestation_factor_of_three_classes_by_hand(preset: Preset, expected: float) -> None:
    # Young and middle-aged deviate opposite ways, the elderly of the second prompt not at all:
    # 0.1 (0.6 + 0.2 - 2 * 0.16) and 0.1 (0.3 + 0.6 - 2 * 0.16); 0.1 (0.2 + 0.2) and 0.1 (0.1 + 0.2).
    ages = np.array([[[6, 3, 1], [2, 6, 2]]])
    reference = np.array([[0.4, 0.4, 0.2]] * 2)
    factor = manifestation_factor(ages, reference, _pairs((0, 1, 1)), strength=0.1, preset=preset)
    assert factor.value == pytest.approx([expected, expected])


def test_manifestation_factor_leaves_pairs_out_and_counts_them() -> None:
    second = np.array([[[8, 2], [0, 0], [3, 7], [5, 5], [0, 0]]])
    pairs = _pairs((0, 1, 1), (0, 2, 1), (0, 4, 9), (-1, 0, 9))
    factor = manifestation_factor(np.concatenate([GENDER, second]), HALVES, pairs, strength=0.2, preset="as_paper")
    assert factor.value == pytest.approx([0.5 + (-0.16 + 0.2 + 0.2) / 3, 0.5 + (-0.16 + 0.2) / 2, 0.5 + 0.2])
    assert factor.n.tolist() == [3, 2, 1]
    assert factor.n_left_out.tolist() == [5, 2, 3]
    # By the program such a pair counts as 0.5, with its weight: 20 for each T2I model.
    by_program = manifestation_factor(
        np.concatenate([GENDER, second]), HALVES, pairs, strength=0.2, preset="as_code_squared"
    )
    assert by_program.value == pytest.approx(
        [0.5 + (0.04 - 0.052 - 0.052) / 40, 0.5 - 0.012 / 20, 0.5 - 0.052 / 20]
    )
    assert by_program.n_left_out.tolist() == factor.n_left_out.tolist()
    none = manifestation_factor(GENDER, HALVES, _pairs((0, 4, 1)), strength=0.2, preset="as_code")
    assert np.isnan(none.value).all()


def test_manifestation_factor_needs_references_of_both_prompts() -> None:
    reference = HALVES.copy()
    reference[1] = np.nan
    factor = manifestation_factor(GENDER, reference, _pairs((0, 1, 1)), strength=0.2, preset="as_code")
    assert np.isnan(factor.value).all()
    assert factor.n_left_out.tolist() == [1, 1]


@pytest.mark.parametrize("preset", ["as_code", "as_code_squared", "as_paper"])
def test_leading_axes_broadcast(preset: Preset) -> None:
    random = np.random.default_rng(0)
    images = random.integers(0, 5, size=(3, 2, 2, 6, 4))  # resample, judge, T2I model, prompt, class
    images[0, 0, 0, 0] = 0
    reference = random.dirichlet([1] * 4, size=6)
    scopes = Scopes.of_prompts(["a", "b", "a", "b", "a", "b"])
    weight = random.uniform(0.5, 5, size=6)
    pairs = _pairs((0, 1, 1), (2, 3, 2), (4, 5, 3))

    def all_of(counts: np.ndarray) -> list[np.ndarray]:
        score = implicit_bias_score(counts, reference, unknown=1)
        of_scopes = over_prompts(score, weight, scopes=scopes)
        factor = manifestation_factor(counts, reference, pairs, strength=0.2, preset=preset)
        return [np.asarray(part) for part in (*score, *of_scopes, *factor)]

    together = all_of(images)
    for place in np.ndindex(3, 2):
        for whole, alone in zip(together, all_of(images[place]), strict=True):
            assert whole[place] == pytest.approx(alone, nan_ok=True)
