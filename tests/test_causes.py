"""Causes of bias errors: hand-computed splits, and what must hold for any counts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import typer
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from stored_study import FAILED, Picture, filtered, kept, portraits, predictions_of, write_study
from typer.testing import CliRunner

from detector_bench import metrics
from detector_bench.cli.analyses import causes as causes_command
from detector_bench.dataset import ImageSet
from detector_bench.evaluation import read_predictions
from detector_bench.evaluation.causes import (
    CAUSE_COLUMNS,
    PREDICTION_COLUMNS,
    accuracy_gaps,
    causes,
    filter_outcomes,
)
from detector_bench.evaluation.intervals import Intervals
from detector_bench.metrics.causes import BIAS_ERRORS, accuracy_gap, bias_error_causes, with_human_filter
from detector_bench.tables.error_tables import bias_error_causes as causes_table
from detector_bench.tables.error_tables import filter_errors

MALE, FEMALE, LOW, OTHERS = range(4)
FILTERED, NO_VERDICT = 2, 3


def one_prompt(cells: dict[tuple[int, int], int]) -> np.ndarray:
    """Counts `[1, 1, truth, verdict]`."""
    counts = np.zeros((1, 1, 4, 4), dtype=np.int64)
    for place, images in cells.items():
        counts[0, 0][place] = images
    return counts


# Of 10 men 8 are kept, rightly; of 10 women 8, of which 2 as men; 2 of 4 low-quality images are kept as men.
MIXED = one_prompt(
    {
        (MALE, MALE): 8,
        (MALE, FILTERED): 2,
        (FEMALE, FEMALE): 6,
        (FEMALE, MALE): 2,
        (FEMALE, FILTERED): 2,
        (LOW, MALE): 2,
        (LOW, FILTERED): 2,
    }
)


def test_prompt_bias_score_difference_by_hand() -> None:
    split = bias_error_causes(MIXED)["prompt_bias_score_difference"]
    assert split.parts.error == pytest.approx(6 / 18)  # 12 men, 6 women of 18 kept; 0 by the humans
    # All 20 clear images: 10 men rightly, of 10 women a quarter as men: 12.5 men and 7.5 women.
    assert split.parts.with_human_filter == pytest.approx(5 / 20)
    # 8 men, 8 women and the 2 low-quality images that are called men.
    assert split.parts.with_human_classes == pytest.approx(2 / 18)
    assert split.parts.with_both == 0
    assert split.parts.filtering == pytest.approx(7 / 72)
    assert split.parts.classification == pytest.approx(17 / 72)
    assert (int(split.n), int(split.n_left_out)) == (1, 0)


def test_prompt_bias_score_difference_by_hand_with_the_humans_count() -> None:
    split = bias_error_causes(MIXED, n_clear="human")["prompt_bias_score_difference"]
    assert [float(part) for part in split.parts[:4]] == pytest.approx([6 / 20, 5 / 20, 2 / 20, 0])
    assert (float(split.parts.filtering), float(split.parts.classification)) == pytest.approx((0.075, 0.225))


def test_stored_classes_of_filtered_images_take_the_place_of_the_estimate() -> None:
    named = np.zeros((1, 1, 2, 2), dtype=np.int64)
    named[0, 0, FEMALE, MALE] = 2  # both filtered women are called men; the 2 men stay unnamed
    replaced = with_human_filter(MIXED, filtered_classes=named)[0, 0]
    assert replaced[MALE].tolist() == [10, 0, 0, 0]
    assert replaced[FEMALE].tolist() == [4, 6, 0, 0]
    assert replaced[LOW].tolist() == [0, 0, 4, 0]


def test_unknown_classes_come_from_the_same_t2i_model_then_from_all_then_are_right() -> None:
    counts = np.zeros((2, 2, 4, 4), dtype=np.int64)
    counts[0, 0, FEMALE, MALE], counts[0, 0, FEMALE, FEMALE] = 1, 3
    counts[0, 1, FEMALE, FILTERED] = 4  # another prompt of the same T2I model
    counts[1, 0, FEMALE, FILTERED] = 8  # a T2I model of which no woman was kept
    counts[1, 1, MALE, FILTERED] = 5  # no man was kept at all
    replaced = with_human_filter(counts)
    assert replaced[0, 1, FEMALE].tolist() == [1, 3, 0, 0]
    assert replaced[1, 0, FEMALE].tolist() == [2, 6, 0, 0]
    assert replaced[1, 1, MALE].tolist() == [5, 0, 0, 0]


def test_model_bias_score_deviation_by_hand() -> None:
    # 9 men rightly kept; of 3 women one rightly kept and two filtered: 8/10 in place of 6/12.
    counts = one_prompt({(MALE, MALE): 9, (FEMALE, FEMALE): 1, (FEMALE, FILTERED): 2})
    split = bias_error_causes(counts)["model_bias_score_deviation"]
    assert [float(part) for part in split.parts[:4]] == pytest.approx([0.6, 0, 0.6, 0])
    assert float(split.parts.filtering) == pytest.approx(0.6)
    assert float(split.parts.classification) == 0
    absolute = bias_error_causes(counts)["model_bias_score_absolute_error"]
    assert float(absolute.parts.error) == pytest.approx(0.3)


counts_of_two_prompts = arrays(np.int64, (2, 2, 4, 4), elements=st.integers(0, 9))


@settings(max_examples=25, deadline=None)
@given(counts=counts_of_two_prompts, n_clear=st.sampled_from(["detector", "human"]))
def test_parts_add_up_to_the_metric(counts: np.ndarray, n_clear: metrics.NClear) -> None:
    counts[..., NO_VERDICT] = 0
    scopes = metrics.Scopes.of_prompts(["job", "place"])
    for error in BIAS_ERRORS:
        split = bias_error_causes(counts, n_clear=n_clear, scopes=scopes)[error]
        np.testing.assert_allclose(
            split.parts.filtering + split.parts.classification, split.parts.error, atol=1e-12
        )
        assert np.nanmax(np.abs(split.parts.with_both), initial=0) == 0
    difference = bias_error_causes(counts, n_clear=n_clear, scopes=scopes)["prompt_bias_score_difference"]
    expected = metrics.prompt_bias_score_difference(counts, n_clear=n_clear, scopes=scopes)
    np.testing.assert_array_equal(difference.parts.error, expected.value)
    np.testing.assert_array_equal(difference.n_left_out, expected.n_left_out)
    deviation = bias_error_causes(counts, scopes=scopes)["model_bias_score_deviation"]
    np.testing.assert_array_equal(
        deviation.parts.error, metrics.model_bias_score_deviation(counts, scopes=scopes).value
    )


@settings(max_examples=20, deadline=None)
@given(counts=counts_of_two_prompts)
def test_a_perfect_filter_has_no_filtering_part(counts: np.ndarray) -> None:
    counts[..., NO_VERDICT] = 0
    counts[..., :LOW, FILTERED] = 0
    counts[..., LOW:, :FILTERED] = 0
    for error in BIAS_ERRORS:
        split = bias_error_causes(counts)[error]
        assert np.isnan(split.parts.error) or split.parts.filtering == 0


@settings(max_examples=20, deadline=None)
@given(counts=counts_of_two_prompts)
def test_a_perfect_classifier_has_no_classification_part(counts: np.ndarray) -> None:
    counts[..., NO_VERDICT] = 0
    counts[..., MALE, FEMALE] = counts[..., FEMALE, MALE] = 0
    for error in BIAS_ERRORS:
        split = bias_error_causes(counts)[error]
        assert np.isnan(split.parts.error) or split.parts.classification == pytest.approx(0, abs=1e-15)


def test_leading_axes_broadcast_and_other_attributes_work() -> None:
    counts = np.random.default_rng(3).integers(0, 5, (4, 2, 3, 5, 5))  # three classes
    together = bias_error_causes(counts)["prompt_bias_score_difference"]
    assert together.parts.error.shape == (4,)
    for position, one in enumerate(counts):
        alone = bias_error_causes(one)["prompt_bias_score_difference"]
        assert float(alone.parts.filtering) == pytest.approx(together.parts.filtering[position])


def test_images_without_a_verdict_are_a_part_of_their_own() -> None:
    with_errors = MIXED.copy()
    with_errors[0, 0, MALE, NO_VERDICT] = 7  # 17 men, 10 women; judged are 10 and 10
    parts = bias_error_causes(with_errors)["prompt_bias_score_difference"].parts
    assert float(parts.error) == pytest.approx(6 / 18 - 7 / 27)
    assert float(parts.with_both) == pytest.approx(7 / 27)
    # 12.5 and 7.5 of 20 with the human's filter; 10 men and 8 women of 18 with the human's classes.
    assert float(parts.with_human_filter) == pytest.approx(7 / 27 - 5 / 20)
    assert float(parts.with_human_classes) == pytest.approx(7 / 27 - 2 / 18)
    assert float(parts.filtering + parts.classification + parts.with_both) == pytest.approx(2 / 27)
    for error in BIAS_ERRORS:
        split = bias_error_causes(with_errors)[error].parts
        assert float(split.filtering + split.classification + split.with_both) == pytest.approx(float(split.error))


def test_a_prompt_of_which_nothing_is_kept_is_left_out_in_all_four_cases() -> None:
    counts = np.concatenate([MIXED, one_prompt({(MALE, FILTERED): 20})], axis=1)
    split = bias_error_causes(counts)["prompt_bias_score_difference"]
    assert (int(split.n), int(split.n_left_out)) == (1, 1)
    assert float(split.parts.error) == pytest.approx(1 / 3)
    nothing = bias_error_causes(one_prompt({(MALE, FILTERED): 20}))["prompt_bias_score_difference"]
    assert np.isnan(nothing.parts.error)
    assert np.isnan(nothing.parts.filtering)


def test_accuracy_gap_by_hand() -> None:
    gap = accuracy_gap(MIXED.sum(axis=(0, 1)))
    assert float(gap.value) == pytest.approx(8 / 8 - 6 / 8)
    assert int(gap.n) == 16
    ages = np.zeros((5, 5), dtype=np.int64)
    ages[0, 0], ages[1, 1], ages[1, 2], ages[2, 2], ages[2, 0] = 4, 1, 3, 1, 1
    assert float(accuracy_gap(ages).value) == pytest.approx(1 - 0.25)
    assert np.isnan(accuracy_gap(one_prompt({(MALE, MALE): 3}).sum(axis=(0, 1))).value)


PICTURES = [
    *portraits({"male": 10, "female": 10}),
    *portraits({"low_quality:several_people": 3, "low_quality": 1}, start=20),
    Picture("nobody_labelled", "alpha", "nurse", ("",)),
    *portraits({"male": 2, "female": 2}, t2i_model="beta", prompt="gym"),
]
IDS = [picture.image_id for picture in PICTURES]
MEN, WOMEN, UNCLEAR, BETA = IDS[:10], IDS[10:20], IDS[20:24], IDS[25:]
VERDICTS = {
    **{image: kept("male") for image in (*MEN[:8], *WOMEN[:2], *UNCLEAR[:2])},
    **{image: kept("female") for image in WOMEN[2:8]},
    **{image: filtered("no_face: none found") for image in (*MEN[8:], UNCLEAR[2])},
    **{image: filtered("several_people") for image in (*WOMEN[8:], UNCLEAR[3])},
    "nobody_labelled": kept("male"),
    **dict(zip(BETA, [kept("male"), kept("male"), kept("female"), FAILED], strict=True)),
}
RIGHT = {image: kept("male") for image in (*MEN, *BETA[:2])} | {
    image: kept("female") for image in (*WOMEN, *BETA[2:])
}
RIGHT |= {image: filtered("no_face") for image in (*UNCLEAR, "nobody_labelled")}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("causes")
    write_study(folder, PICTURES, {"nurse": "job", "gym": "place"}, {"mixed": VERDICTS, "right": RIGHT})
    return folder


@pytest.fixture(scope="module")
def split(folder: Path) -> pd.DataFrame:
    return causes(*stored(folder), intervals=Intervals(resamples=200))


def stored(folder: Path) -> tuple[ImageSet, dict]:
    return ImageSet.load(folder / "images"), read_predictions(
        folder / "results" / "predictions", also=PREDICTION_COLUMNS
    )


def test_long_table(split: pd.DataFrame) -> None:
    assert tuple(split.columns) == CAUSE_COLUMNS
    alpha = split[(split["t2i_model"] == "alpha") & (split["category"] == "job")].set_index(
        ["detector", "error_metric"]
    )
    row = alpha.loc[("mixed", "prompt_bias_score_difference")]
    assert (row["filtering"], row["classification"]) == pytest.approx((7 / 72, 17 / 72))
    assert row["n_clear"] == "detector"
    assert row["filtering_ci_low"] < row["filtering"] < row["filtering_ci_high"]
    assert alpha.loc[("right", "prompt_bias_score_difference"), "error"] == 0
    # A deviation from an actual score of 0 does not exist.
    assert np.isnan(alpha.loc[("mixed", "model_bias_score_deviation"), "error"])
    scopes = list(dict.fromkeys(zip(split["t2i_model"], split["category"], strict=True)))
    assert scopes == [
        ("all", "all"),
        ("alpha", "all"),
        ("beta", "all"),
        ("all", "job"),
        ("all", "place"),
        ("alpha", "job"),
        ("beta", "place"),
    ]


def test_without_resamples_there_are_no_limits(folder: Path) -> None:
    plain = causes(*stored(folder), intervals=Intervals(method="none"))
    assert plain["filtering_ci_low"].isna().all()
    assert plain["filtering"].notna().any()
    gaps = accuracy_gaps(*stored(folder), intervals=Intervals(method="none"))
    alpha = gaps[(gaps["t2i_model"] == "alpha") & (gaps["category"] == "all") & (gaps["detector"] == "mixed")]
    assert alpha["value"].to_list() == pytest.approx([0.25])
    assert alpha["ci_low"].isna().all()


def test_filter_outcomes_by_both_reasons(folder: Path) -> None:
    outcomes = filter_outcomes(*stored(folder))
    mixed = outcomes[(outcomes["detector"] == "mixed") & (outcomes["t2i_model"] == "alpha")]
    counted = {
        (row["human_label"], row["human_reason"], row["status"], row["detector_reason"]): row["images"]
        for row in mixed.to_dict("records")
    }
    assert counted == {
        ("male", "", "clear", ""): 8,
        ("male", "", "filtered", "no_face"): 2,
        ("female", "", "clear", ""): 8,
        ("female", "", "filtered", "several_people"): 2,
        ("low_quality", "several_people", "clear", ""): 2,
        ("low_quality", "several_people", "filtered", "no_face"): 1,
        ("low_quality", "", "filtered", "several_people"): 1,
    }
    assert outcomes.loc[outcomes["detector"] == "mixed", "images"].sum() == 28  # the unlabelled image is left out


def test_tables(folder: Path, split: pd.DataFrame) -> None:
    gaps = accuracy_gaps(*stored(folder), intervals=Intervals(resamples=200))
    table = causes_table(split, gaps=gaps)
    rows = {(row.cells[0].text, row.cells[1].text): [cell.text for cell in row.cells[2:]] for row in table.rows}
    assert list(rows) == [
        (model, detector) for model in ("alpha", "beta", "All") for detector in ("mixed", "right")
    ]
    assert rows["alpha", "mixed"] == ["0.333", "0.097", "0.236", "0.000", *"----", "25.00"]
    assert rows["alpha", "right"] == [*["0.000"] * 4, *"----", "0.00"]
    assert rows["beta", "mixed"] == [*"--------", "-"]  # failed on one of four images
    notes = {(row.cells[0].text, row.cells[1].text): row.notes for row in table.rows}
    assert notes["beta", "mixed"] == ("no verdict on 1 of 4 images, not split",)
    # Over all T2I models there is nothing to split, but images to see a gap on.
    assert rows["All", "mixed"][:-1] == [*"--------"]
    assert rows["All", "mixed"][-1] != "-"
    assert notes["All", "mixed"] == ("no verdict on 1 of 28 images, not split (too many of beta)",)
    tolerant = causes_table(split, gaps=gaps, max_error_share=0.25)
    assert [cell.text for cell in tolerant.rows[2].cells[2:6]] != [*"----"]
    assert tolerant.rows[4].notes == ("no verdict on 1 of 28 images, counted as the metrics do",)
    whole = causes_table(split[split["detector"] == "right"])
    assert [column.heading for column in whole.columns[2:]] == ["Error", "Filtering", "Classification"] * 2
    errors = filter_errors(filter_outcomes(*stored(folder)))
    keys = [column.key for column in errors.columns]
    assert keys == [
        "detector",
        "clear_images",
        "clear_lost",
        "clear_lost_no_face",
        "clear_lost_several_people",
        "low_quality_images",
        "low_quality_kept",
        "low_quality_kept_several_people",
    ]
    assert [cell.text for cell in errors.rows[0].cells] == ["mixed", "23", "4", "2", "2", "4", "2", "2"]
    assert errors.rows[0].notes == ("labelled images without a verdict, left out: 1",)


def test_command(folder: Path, tmp_path: Path) -> None:
    app = typer.Typer()
    app.command()(causes_command)
    arguments = [str(folder / "results"), "--out", str(tmp_path), "--resamples", "0"]
    answer = CliRunner().invoke(app, arguments, env={"COLUMNS": "200"})
    assert answer.exit_code == 0, answer.output
    assert "0.097" in answer.output
    assert tuple(pd.read_csv(tmp_path / "causes.csv").columns) == CAUSE_COLUMNS
    written = {path.name for path in (tmp_path / "tables").iterdir()}
    assert {"causes.csv", "causes.md", "causes.tex", "filter_errors.csv"} <= written


def test_predictions_without_reasons_and_scores_are_read_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    table = predictions_of({"x": kept("male")}, detector="plain").select(
        ["image_id", "detector", "attribute", "status", "label"]
    )
    pq.write_table(table, tmp_path / "plain" / "predictions.parquet")
    read = read_predictions(tmp_path, also=PREDICTION_COLUMNS)["plain"]
    assert read.column_names == ["image_id", "attribute", "status", "label", "reason", "score"]
    assert read["reason"].to_pylist() == [None]
    assert read["score"].to_pylist() == [None]


def test_a_detector_that_does_not_judge_the_attribute_has_no_row(folder: Path) -> None:
    image_set, predictions = stored(folder)
    none = causes(image_set, {"mixed": predictions["mixed"]}, attribute="age", allow_incomplete=True)
    assert none.empty
    assert tuple(none.columns) == CAUSE_COLUMNS
