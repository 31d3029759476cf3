"""Two detectors on the same images."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from joint_studies import made_up, of_images
from stored_pair import write_study
from typer.testing import CliRunner

from detector_bench.cli.app import app
from detector_bench.errors import DetectorBenchError
from detector_bench.evaluation.comparison import (
    CLASSIFICATION_RIGHT,
    COMPARED_METRICS,
    FILTERING_RIGHT,
    ComparisonFamily,
    Contest,
    PairedTest,
    check_same_images,
    images_judged_differently,
)
from detector_bench.metrics import JointVerdicts
from detector_bench.metrics.bootstrap import Unit
from detector_bench.tables import Cell, Column, Row, Table, to_csv, to_latex, to_markdown
from detector_bench.tables.comparison_tables import comparison, images_judged_rightly
from detector_bench.tables.wording import deviating_score_cell, per_cent_cell, score_cell, with_interval


def family_of(joint: JointVerdicts, *, unit: Unit = "image", level: float = 0.95) -> ComparisonFamily:
    names = tuple(f"detector {number}" for number in range(joint.detectors))
    return ComparisonFamily.of([Contest(joint, names)], unit=unit, level=level)


def compared(joint: JointVerdicts, *, unit: Unit = "image") -> dict[str, PairedTest]:
    family = family_of(joint, unit=unit)
    return {metric: family.test(metric, 0, 1) for metric in family.metrics}


def test_mcnemar_by_hand() -> None:
    # truth: 4 male, 2 female, 3 low-quality, 1 others; the last image has no verdict by the second detector.
    truth = [0, 0, 0, 0, 1, 1, 2, 2, 2, 3, 0]
    first = [0, 0, 0, 2, 1, 0, 2, 2, 0, 0, 0]
    second = [0, 1, 2, 2, 0, 1, 2, 0, 0, 2, 3]
    filtering, classes = images_judged_differently(of_images(truth, [first, second], [0] * 11), 0, 1)
    assert (filtering.share, classes.share) == (FILTERING_RIGHT, CLASSIFICATION_RIGHT)
    # Right: first all of the nine but the 4th and 9th; second all but the 3rd, 4th, 8th and 9th.
    assert (filtering.only_first, filtering.only_second) == (2, 0)
    assert (filtering.first, filtering.second) == pytest.approx((7 / 9, 5 / 9))
    assert filtering.p_value == pytest.approx(0.5)  # two of two on one side: 2 * 0.5 ** 2
    # Kept by both: images 1, 2, 5, 6.
    assert (classes.first, classes.second) == pytest.approx((3 / 4, 2 / 4))
    assert (classes.only_first, classes.only_second) == (2, 1)
    assert classes.p_value == pytest.approx(1.0)


def test_mcnemar_is_the_binomial_test() -> None:
    from scipy.stats import binomtest

    for test in images_judged_differently(made_up(images=60), 0, 1):
        expected = binomtest(test.only_first, test.only_first + test.only_second).pvalue
        assert test.p_value == pytest.approx(expected)


def of_two(one: JointVerdicts, other: JointVerdicts) -> JointVerdicts:
    """The first detector of one study and the first of another on the images of the first."""
    verdicts = np.stack([one.verdicts[0], other.verdicts[0]])
    return JointVerdicts(one.truth, verdicts, one.pair, one.t2i_models, one.scopes, one.classes)


def test_a_better_detector_is_found_and_differences_have_intervals() -> None:
    joint = made_up(images=60, right=0.95)
    worse = made_up(images=60, right=0.5)
    np.testing.assert_array_equal(joint.pair, worse.pair)
    found = compared(of_two(joint, worse))
    for name in ("f1", "accuracy", "filter_rate"):
        test = found[name]
        assert test.ci_low < test.difference < test.ci_high
        assert test.difference == pytest.approx(test.first - test.second)
        assert test.ci_low > 0
        assert test.told_apart
    error = found["prompt_bias_error"]
    assert error.difference == pytest.approx(error.first - error.second)
    assert error.ci_low < error.difference < error.ci_high


def test_the_deviation_is_compared_by_its_size() -> None:
    # Actual: 1/2 in both prompts. One detector reports 1/4 on average, the other 1.
    joint = of_images([0, 0, 0, 1] * 2, [[0, 0, 0, 1, 0, 0, 1, 1], [0] * 8], [0] * 4 + [1] * 4, prompts=2)
    test = compared(joint)["model_bias_score_deviation"]
    assert (test.first, test.second) == pytest.approx((-0.5, 1.0))
    assert test.difference == pytest.approx(-0.5)


def test_the_order_of_the_two_does_not_matter() -> None:
    family = family_of(made_up(images=30, detectors=3))
    for metric in family.metrics:
        one, other = family.test(metric, 0, 2), family.test(metric, 2, 0)
        assert one.difference == pytest.approx(-other.difference, nan_ok=True)
        assert (one.ci_low, one.ci_high) == pytest.approx((-other.ci_high, -other.ci_low), nan_ok=True)
        assert one.p_value == other.p_value


def test_told_apart_means_that_the_interval_does_not_hold_zero() -> None:
    joint = of_two(made_up(images=40, right=0.9), made_up(images=40, right=0.8))
    told = 0
    for level in (0.5, 0.9, 0.95, 0.99):
        family = family_of(joint, level=level)
        for metric in family.metrics:
            test = family.test(metric, 0, 1)
            assert test.told_apart == (not test.ci_low <= 0 <= test.ci_high)
            assert test.told_apart == (test.p_value < 1 - level)
            told += test.told_apart
    assert 0 < told < 20


def test_equal_detectors_are_equal() -> None:
    for test in compared(made_up(images=80).of_detectors([0, 0])).values():
        assert test.difference == 0
        assert test.p_value == 1
        assert not test.told_apart
        assert math.isnan(test.ci_low)


@pytest.mark.parametrize("unit", ["image", "prompt"])
def test_a_detector_that_filters_everything_can_be_compared(unit: Unit) -> None:
    joint = of_images([0, 1, 2, 2, 0, 1], [[0, 1, 2, 0, 1, 1], [2] * 6], [0, 0, 0, 1, 1, 1], prompts=2)
    found = compared(joint, unit=unit)
    assert math.isnan(found["accuracy"].p_value)
    assert math.isnan(found["accuracy"].ci_low)
    images = images_judged_differently(joint, 0, 1)
    assert math.isnan(images[1].p_value)
    assert found["filter_rate"].second == 1
    metrics = comparison(list(found.values()), "a", "b", attribute="gender", level=0.95)
    counts = images_judged_rightly(images, "a", "b", attribute="gender")
    for render in (to_csv, to_markdown, to_latex):
        assert "nan" not in render(metrics) + render(counts)


def test_only_low_quality_images_leave_the_filter_rate() -> None:
    found = compared(of_images([2] * 8, [[2, 2, 2, 0] * 2, [2, 0, 0, 0] * 2], [0] * 8))
    assert found["filter_rate"].difference == pytest.approx(0.5)
    assert all(math.isnan(found[name].difference) for name in ("accuracy", "model_bias_score_deviation"))


def table_of(images: list[str], contents: list[str | None]) -> pa.Table:
    attribute = pa.array(["gender"] * len(images))
    return pa.table({"image_id": images, "attribute": attribute, "image_sha256": pa.array(contents, pa.string())})


def test_different_images_are_refused() -> None:
    tables = {"a": table_of(["i", "j"], ["1", "2"]), "b": table_of(["j", "k"], ["2", "3"])}
    with pytest.raises(DetectorBenchError, match=r"1 only by a, 1 only by b, such as 'i'"):
        check_same_images("a", "b", tables, attribute="gender")


def test_changed_contents_are_refused_and_unread_images_are_not() -> None:
    tables = {"a": table_of(["i", "j", "k"], ["1", "2", None]), "b": table_of(["k", "j", "i"], ["9", "5", "1"])}
    with pytest.raises(DetectorBenchError, match=r"1 files? had other contents, such as 'j'"):
        check_same_images("a", "b", tables, attribute="gender")
    tables["b"] = table_of(["k", "j", "i"], ["9", "2", "1"])
    check_same_images("a", "b", tables, attribute="gender")


def test_intervals_in_cells() -> None:
    share = with_interval(per_cent_cell(0.91504, bold=True), 0.8823, 0.93951, per_cent=True)
    assert share.written() == "91.5 [88.2, 94.0]"
    score = with_interval(deviating_score_cell(0.658, -0.0626), 0.6418, 0.6746)
    assert score.written() == "0.658 [0.642, 0.675] (6.26 % ↓)"
    assert with_interval(score_cell(0.5), math.nan, math.nan).written() == "0.500"
    assert with_interval(score_cell(math.nan), 0.1, 0.2).written() == "-"
    negative = with_interval(score_cell(-0.1), -0.25, 0.05)
    table = Table(
        name="t",
        caption="c",
        attribute="gender",
        columns=(Column("detector", "Detector", kind="name"), Column("x", "X", has_intervals=True)),
        rows=(Row("a-1", (Cell("a-1"), negative)), Row("b", (Cell("b"), with_interval(score_cell(1.0), 0.5, 1)))),
    )
    assert "a-1 & $-$0.100 {[}$-$0.250, 0.050{]}" in to_latex(table)
    assert to_csv(table).splitlines()[:2] == ["detector,x,x_ci_low,x_ci_high,note", "a-1,-0.1,-0.25,0.05,"]
    assert "| a-1 | -0.100 \\[-0.250, 0.050\\] |" in to_markdown(table)


# The command.


def invoke(*arguments: object) -> str:
    result = CliRunner(env={"COLUMNS": "200"}).invoke(app, [str(each) for each in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.slow
def test_compare_prints_and_writes_a_table(tmp_path: Path) -> None:
    write_study(tmp_path)
    invoke("evaluate", tmp_path)
    arguments = ("compare", tmp_path, "good", "poor")
    printed = invoke(*arguments, "--out", tmp_path)
    assert "Filter rate" in printed
    assert "3 pairs of 3 detectors, 5 metrics" in printed
    written = (tmp_path / "tables" / "comparison.csv").read_text(encoding="utf-8")
    assert written.splitlines()[0].startswith("metric,first,second,difference,difference_ci_low")
    assert [line.split(",")[0] for line in written.splitlines()[1:]] == list(COMPARED_METRICS)
    counts = (tmp_path / "tables" / "images_judged_rightly.csv").read_text(encoding="utf-8").splitlines()
    assert counts[0] == "share,first,second,only_first,only_second,p_value,note"
    assert {path.suffix for path in (tmp_path / "tables").glob("comparison.*")} == {".csv", ".md", ".tex"}
    again = invoke(*arguments)
    assert again == printed


@pytest.mark.slow
def test_compare_refuses(tmp_path: Path) -> None:
    write_study(tmp_path)
    invoke("evaluate", tmp_path)
    arguments = ("compare", tmp_path)
    with pytest.raises(DetectorBenchError, match="did you mean 'good'"):
        invoke(*arguments, "god", "poor")
    with pytest.raises(DetectorBenchError, match="cannot be compared with itself"):
        invoke(*arguments, "good", "good")
    with pytest.raises(DetectorBenchError, match="unit: Input should be 'image' or 'prompt'"):
        invoke(*arguments, "good", "poor", "--unit", "model")
    with pytest.raises(DetectorBenchError, match="level: "):
        invoke(*arguments, "good", "poor", "--level", 2)
    write_study(tmp_path, changed="poor")
    invoke("evaluate", tmp_path, "--changed-inputs", "--allow-unproved")
    with pytest.raises(DetectorBenchError, match="other contents"):
        invoke(*arguments, "good", "poor")


@pytest.mark.slow
def test_evaluate_shows_intervals_where_asked(tmp_path: Path) -> None:
    write_study(tmp_path)
    invoke("evaluate", tmp_path, "--out", tmp_path / "plain")
    shown = invoke("evaluate", tmp_path, "--out", tmp_path / "shown", "--intervals")
    table = (tmp_path / "plain" / "tables" / "filtering_and_accuracy.md").read_text(encoding="utf-8")
    assert "[" not in table
    assert "In brackets: confidence interval." in shown
    for folder in ("plain", "shown"):
        text = (tmp_path / folder / "metrics.csv").read_text(encoding="utf-8").splitlines()
        place = text[0].split(",").index("ci_low")
        accuracy = next(line for line in text if ",all,all,all,accuracy," in line)
        assert 0 < float(accuracy.split(",")[place]) < float(accuracy.split(",")[place + 1]) <= 1
    header = (tmp_path / "shown" / "tables" / "filtering_and_accuracy.csv").read_text().splitlines()[0]
    assert header.startswith("detector,precision,precision_ci_low,precision_ci_high,recall,")
    assert (tmp_path / "shown" / "tables" / "model_bias_estimates.tex").exists()
    assert not (tmp_path / "plain" / "tables" / "model_bias_estimates.tex").exists()
