"""Shares against a reference: formulas against enumeration and scipy, stated shares as a table, whole studies."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binomtest, entropy, multinomial
from small_parts import write_csv
from test_study_scores import GENDERS, RACES, SAYS, Written, number, write_images, write_predictions

from detector_bench.errors import DataError, DetectorBenchError
from detector_bench.figures.figure_files import draw_figure, figures_of
from detector_bench.metrics.representation import (
    class_p_values,
    expected_limits,
    kl_divergence,
    kl_divergence_if_reference,
    mean_absolute_deviation,
    p_value,
    pooled_total_variation_if_reference,
    total_variation,
    total_variation_if_reference,
)
from detector_bench.others.representation.comparison import adjusted_p_values
from detector_bench.others.representation.stated_shares import read_stated_shares
from detector_bench.results.finished_study import FinishedStudy
from detector_bench.vocabulary import ATTRIBUTES

TV, KL = "representation_total_variation", "representation_kl_divergence"
STATED = {"system": "representation", "shares_of": ["gender"], "references": "labour.csv"}
RACE_CLASSES = ATTRIBUTES["race"].classes
HEADER = ("word", "category", "attribute", "class", "share")
PROMPTS = pd.DataFrame(
    {"prompt_id": ["nurse", "judge"], "category": ["care", "law"], "word": ["nurse", "judge"], "prompt": ["", ""]}
)
GENDER = {"gender": ("male", "female")}


def test_distances_are_those_of_the_textbook_and_of_scipy() -> None:
    shown, reference = np.array([0.5, 0.3, 0.2, 0.0]), np.array([0.25, 0.25, 0.25, 0.25])
    assert total_variation(shown, reference) == pytest.approx(0.3)
    assert mean_absolute_deviation(shown, reference) == pytest.approx(np.abs(shown - 0.25).mean())
    assert kl_divergence(shown, reference) == pytest.approx(entropy(shown, reference))
    # The reverse direction shows what the reference never has.
    assert kl_divergence(reference, shown) == math.inf
    assert math.isnan(kl_divergence(np.array([math.nan, 1.0]), np.array([0.5, 0.5])))
    # An estimate may lie below 0.
    assert kl_divergence(np.array([1.02, -0.02]), np.array([0.5, 0.5])) == pytest.approx(1.02 * math.log(2.04))


def test_what_chance_gives_is_the_mean_over_all_outcomes() -> None:
    reference, n = np.array([0.6, 0.3, 0.1]), 6
    outcomes = [x for x in itertools.product(range(n + 1), repeat=3) if sum(x) == n]
    weight = np.array([multinomial.pmf(x, n, reference) for x in outcomes])
    shares = np.array(outcomes) / n
    images = np.array([0, n])
    expected = weight @ total_variation(shares, reference)
    np.testing.assert_allclose(total_variation_if_reference(images, reference), [math.nan, expected])
    expected = weight @ kl_divergence(shares, reference)
    np.testing.assert_allclose(kl_divergence_if_reference(images, reference), [math.nan, expected])


def test_pooled_prompts_of_different_references_are_no_single_binomial() -> None:
    images, reference = np.array([3, 2]), np.array([[0.5, 0.5], [0.9, 0.1]])
    wanted = images @ reference / 5
    expected = sum(
        multinomial.pmf([a, 3 - a], 3, reference[0])
        * multinomial.pmf([b, 2 - b], 2, reference[1])
        * total_variation(np.array([a + b, 5 - a - b]) / 5, wanted)
        for a in range(4)
        for b in range(3)
    )
    assert pooled_total_variation_if_reference(images, reference) == pytest.approx(expected)
    # Where the normal distribution takes over, nothing jumps.
    below, above = (pooled_total_variation_if_reference(images * by, reference) for by in (399, 401))
    assert above / below == pytest.approx(math.sqrt(399 / 401), rel=1e-3)


def test_a_prompt_is_tested_class_by_class_and_exactly() -> None:
    equal = np.array([0.5, 0.5])
    assert p_value(np.array([9, 3]), equal) == pytest.approx(binomtest(9, 12, 0.5).pvalue)
    third = np.full(3, 1 / 3)
    tails = [2 * binomtest(9, 12, 1 / 3, alternative="greater").pvalue]
    assert class_p_values(np.array([9, 2, 1]), third)[0] == pytest.approx(tails[0])
    assert p_value(np.array([9, 2, 1]), third) == pytest.approx(3 * tails[0])
    without_third = np.array([0.9, 0.1, 0.0])
    assert p_value(np.array([9, 1, 1]), without_third) == 0
    assert p_value(np.array([9, 1, 0]), without_third) == 1
    assert math.isnan(p_value(np.array([0, 0]), equal))


def test_the_test_keeps_its_level_whatever_the_reference() -> None:
    for reference in (np.array([0.5, 0.5]), np.array([0.62, 0.2, 0.1, 0.05, 0.03])):
        outcomes = [x for x in itertools.product(range(9), repeat=len(reference)) if sum(x) == 8]
        weight = np.array([multinomial.pmf(x, 8, reference) for x in outcomes])
        values = p_value(np.array(outcomes), reference)
        assert all(weight[values <= level].sum() <= level for level in (0.01, 0.05, 0.2))


def test_chance_has_limits_in_shares() -> None:
    low, high = expected_limits(np.array([12, 0]), np.array(0.5))
    np.testing.assert_allclose(low, [3 / 12, math.nan])
    np.testing.assert_allclose(high, [9 / 12, math.nan])


def test_human_labels_are_adjusted_without_the_detectors() -> None:
    first, second = np.array([[0.01], [0.5], [0.001]]), np.array([[0.04], [0.5], [0.9]])
    adjusted = adjusted_p_values([first, second], has_truth=True)
    np.testing.assert_allclose(np.concatenate(adjusted, axis=1)[0], [0.02, 0.04])
    np.testing.assert_allclose(np.concatenate(adjusted, axis=1)[2, 0], 0.004)


def stated(folder: Path, rows: Sequence[Sequence[object]], header: Sequence[str] = HEADER) -> Path:
    write_csv(folder / "labour.csv", header, rows)
    return folder / "labour.csv"


def pair(key: str, name: str, male: float, female: float) -> list[tuple[object, ...]]:
    keys = (name, "") if key == "word" else ("", name)
    return [(*keys, "gender", "male", male), (*keys, "gender", "female", female)]


def test_the_closest_stated_share_wins(tmp_path: Path) -> None:
    path = stated(tmp_path, [*pair("word", "nurse", 0.13, 0.87), *pair("category", "all", 0.53, 0.47)])
    found = read_stated_shares(path, GENDER, PROMPTS)
    np.testing.assert_allclose(found.shares["gender"], [[0.13, 0.87], [0.53, 0.47]])
    path = stated(tmp_path, [*pair("category", "law", 0.53, 0.467), *pair("category", "all", 0.5, 0.5)])
    found = read_stated_shares(path, GENDER, PROMPTS)
    np.testing.assert_allclose(found.shares["gender"], [[0.5, 0.5], [0.53 / 0.997, 0.467 / 0.997]])
    assert found.notes == ("labour.csv: 1 of 2 sets of shares add up to 0.997; each was divided by its sum.",)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (pair("word", "nurs", 0.5, 0.5), "row 2, column word: no prompt has this word: 'nurs' (accepted: did you"),
        (pair("word", "nurse", 0.5, 0.4), "do not add up to 1: '0.9' (accepted: 1, give or take 0.005)"),
        (
            pair("word", "nurse", 13, 87),
            "row 2, column share: no share: '13' (accepted: a number from 0 to 1, not",
        ),
        (
            pair("word", "nurse", 1.0, 0.0)[:1],
            "'nurse': classes without a share: 'female' (accepted: a row for each",
        ),
        ([("nurse", "", "gender", "man", 1)], "row 2, column class: unknown class of gender: 'man'"),
        ([("nurse", "", "age", "young", 1)], "row 2, column attribute: attribute that is not compared: 'age'"),
        (
            [("nurse", "care", "gender", "male", 1)],
            "for which prompts?: 'nurse, care' (accepted: one of word, cat",
        ),
        ([("", "", "gender", "male", 1)], "row 2, column word: for which prompts?: ''"),
        (
            [*pair("word", "nurse", 0.5, 0.5), *pair("word", "nurse", 0.5, 0.5)],
            "row 4, column class: stated twice for word 'nurse': 'male' (accepted: once; row 2 has it)",
        ),
    ],
)
def test_a_mistake_in_stated_shares_is_named(
    tmp_path: Path, rows: Sequence[Sequence[object]], message: str
) -> None:
    with pytest.raises(DataError) as raised:
        read_stated_shares(stated(tmp_path, rows), GENDER, PROMPTS)
    assert message in str(raised.value)


def test_a_table_of_stated_shares_says_for_which_prompts(tmp_path: Path) -> None:
    path = stated(tmp_path, [("gender", "male", 1)], ("attribute", "class", "share"))
    with pytest.raises(
        DataError, match=r"no column says for which prompts .accepted: one or more of prompt_id, word"
    ):
        read_stated_shares(path, GENDER, PROMPTS)
    with pytest.raises(DataError, match=r"none.csv: the file is missing"):
        read_stated_shares(tmp_path / "none.csv", GENDER, PROMPTS)


def study(tmp_path: Path, *, names: Sequence[str] = ("perfect", "half", "shaky")) -> Written:
    """Nurses are 1 man and 3 women, judges 4 men; races, too, for the human labels and one detector."""
    write_images(tmp_path / "images", {"gender": GENDERS, "race": [*RACES[:7], "low_quality"]})
    write_predictions(tmp_path / "results", SAYS)
    return Written(tmp_path, names=names)


def value(metrics: pd.DataFrame, metric: str, variant: str, **words: str) -> tuple[float, float, float]:
    return number(metrics, metric, variant=variant, **words)


def test_a_study_against_equal_and_stated_shares(tmp_path: Path) -> None:
    written = study(tmp_path)
    stated(tmp_path, pair("word", "nurse", 0.25, 0.75))
    result = written.evaluated(STATED)
    metrics = result.metrics
    assert value(metrics, TV, "uniform", prompt_id="nurse") == (0.25, 4, 0)
    assert value(metrics, TV, "uniform") == (pytest.approx((0.25 + 0.5) / 2), 2, 0)
    # E|X - 2| of four images is 3/4, so a quarter of it and a half.
    assert value(metrics, f"{TV}_if_reference", "uniform")[0] == pytest.approx(0.75 / 4)
    # Of the judges nothing is stated.
    assert value(metrics, TV, "stated") == (0, 1, 1)
    assert value(metrics, KL, "stated") == (0, 1, 1)
    assert value(metrics, f"{TV}_deviation", "uniform", detector="half")[0] == pytest.approx(-1 / 3)
    # Five of eight images are men; a nurse and a judge are no clear images of the third detector.
    assert value(metrics, "representation_pooled_total_variation", "uniform") == (pytest.approx(1 / 8), 8, 0)
    assert value(metrics, TV, "uniform", detector="shaky", prompt_id="nurse") == (0.5, 3, 1)
    assert value(metrics, "representation_clear_share", "uniform", detector="shaky") == (6 / 7, 7, 1)
    assert value(metrics, "representation_p_value", "uniform", prompt_id="judge")[0] == pytest.approx(3 * 2 / 16)
    assert value(metrics, "representation_differing_prompts", "uniform") == (0, 2, 0)
    table = result.tables["representation_stated"]
    assert any("prompts left out, no clear image, no reference" in note for note in table.all_notes)
    assert {"total variation, stated"} <= {
        column.group.lower() for column in result.tables["score_deviations"].columns
    }


def test_a_class_that_the_reference_does_not_have_is_infinite_and_said(tmp_path: Path) -> None:
    written = study(tmp_path, names=("perfect",))
    stated(tmp_path, [*pair("word", "nurse", 0, 1), *pair("word", "judge", 0.5, 0.5)])
    result = written.evaluated(STATED, intervals={"method": "percentile", "resamples": 200})
    row = result.metrics.query(f"metric == '{KL}' and variant == 'stated' and prompt_id == 'all'").iloc[0]
    assert row["value"] == math.inf
    assert math.isnan(row["ci_low"])
    assert value(result.metrics, "representation_p_value", "stated", prompt_id="nurse")[0] == 0
    table = result.tables["representation_stated"]
    assert "infinite" in table.rows[0].cells[5].text
    assert any("a class is shown whose reference share is 0" in note for note in table.all_notes)
    # Read back as it was written.
    assert np.isinf(pd.read_csv(tmp_path / "results" / "metrics.csv")["value"]).any()


def test_a_pair_counts_images_that_are_clear_in_both(tmp_path: Path) -> None:
    written = study(tmp_path)
    entry = {"system": "representation", "shares_of": ["gender"], "intersections": [["gender", "race"]]}
    metrics = written.evaluated(entry).metrics
    words = {"attribute": "gender x race"}
    # Judges: three white men, and a fourth without a race.
    assert value(metrics, TV, "uniform", prompt_id="judge", **words) == (pytest.approx(13 / 14), 3, 1)
    assert value(metrics, "representation_clear_share", "uniform", **words) == (7 / 8, 8, 0)
    assert set(metrics.loc[metrics["attribute"] == "gender x race", "detector"]) == {"ground_truth", "half"}


@pytest.mark.slow
def test_pairs_are_products_only_when_asked_for(tmp_path: Path) -> None:
    written = study(tmp_path)
    races = [("", "all", "race", name, 1.0 if name == "white" else 0.0) for name in RACE_CLASSES]
    stated(tmp_path, [*pair("category", "all", 0.5, 0.5), *races])
    entry = {**STATED, "shares_of": ["gender", "race"], "intersections": [["gender", "race"]]}
    alone = written.evaluated(entry)
    pairs = alone.metrics.query("attribute == 'gender x race' and metric == @TV")
    assert set(pairs["variant"]) == {"uniform"}
    assert any("No shares are stated of gender x race" in n for n in alone.tables["representation_stated"].notes)
    asked = written.evaluated({**entry, "assume_independence": True}, out="products")
    found = value(asked.metrics, TV, "stated", prompt_id="nurse", attribute="gender x race")
    # Shown: black women 1/4, white women 2/4, a black man 1/4; wanted: half white men, half white women.
    assert found == (pytest.approx(0.5), 4, 0)


def test_prompts_that_state_the_attribute_are_left_out_and_counted(tmp_path: Path) -> None:
    written = study(tmp_path, names=("perfect",))
    prompts = [("nurse", "care", "nurse", "a nurse", ""), ("judge", "law", "judge", "a male judge", "male")]
    header = ("prompt_id", "category", "word", "prompt", "stated_gender")
    write_csv(tmp_path / "images" / "prompts.csv", header, prompts)
    metrics = written.evaluated({"system": "representation"}).metrics
    assert value(metrics, TV, "uniform") == (0.25, 1, 1)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"shares_of": ["gendr"]}, "unknown attribute 'gendr': did you mean 'gender'"),
        ({"intersections": [["gender"]]}, "is no pair of two attributes, such as [gender, race]"),
        ({"intersections": [["gender", "race"], ["race", "gender"]]}, "'gender x race' stands here twice"),
        ({"reference": "x.csv"}, "unknown key 'reference': did you mean 'references'"),
    ],
)
def test_a_mistake_in_the_entry_is_named(tmp_path: Path, entry: dict[str, object], message: str) -> None:
    with pytest.raises(DetectorBenchError) as raised:
        study(tmp_path).study({"system": "representation", **entry})
    assert message in str(raised.value)


@pytest.mark.slow
def test_the_figure_is_drawn_of_attributes_and_pairs(tmp_path: Path) -> None:
    written = study(tmp_path)
    written.evaluated({"system": "representation", "intersections": [["gender", "race"]]}, out="out")
    for attribute, panels in (("gender", 1), ("gender x race", 14)):
        finished = FinishedStudy.load(tmp_path / "out", attribute=attribute)
        assert "representation" in figures_of(finished)
        drawing = draw_figure(finished, "representation", width="double")
        assert sum(axes.get_visible() for axes in drawing.figure.axes) == panels
        assert f"perceived {attribute} among the clear images" in drawing.caption
