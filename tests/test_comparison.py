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
    CLASSIFICATION,
    COMPARED_METRICS,
    FILTERING,
    PairedTest,
    bootstrap_p_value,
    check_same_images,
    compare_detectors,
    holm,
)
from detector_bench.report import Cell, Column, Row, Table, to_csv, to_latex, to_markdown
from detector_bench.report.comparison_tables import comparison
from detector_bench.report.wording import deviating_score_cell, per_cent_cell, score_cell, with_interval


def by_metric(tests: list[PairedTest]) -> dict[str, PairedTest]:
    return {test.metric: test for test in tests}


def test_mcnemar_by_hand() -> None:
    # truth: 4 male, 2 female, 3 low-quality, 1 others; the last image has no verdict by the second detector.
    truth = [0, 0, 0, 0, 1, 1, 2, 2, 2, 3, 0]
    first = [0, 0, 0, 2, 1, 0, 2, 2, 0, 0, 0]
    second = [0, 1, 2, 2, 0, 1, 2, 0, 0, 2, 3]
    found = by_metric(compare_detectors(of_images(truth, [first, second], [0] * 11), 0, 1, resamples=200))
    filtering = found[FILTERING]
    # Right: first all of the nine but the 4th and 9th; second all but the 3rd, 4th, 8th and 9th.
    assert (filtering.only_first, filtering.only_second) == (2, 0)
    assert (filtering.first, filtering.second) == pytest.approx((7 / 9, 5 / 9))
    assert filtering.p_value == pytest.approx(0.5)  # two of two on one side: 2 * 0.5 ** 2
    classes = found[CLASSIFICATION]
    # Kept by both: images 1, 2, 5, 6.
    assert (classes.first, classes.second) == pytest.approx((3 / 4, 2 / 4))
    assert (classes.only_first, classes.only_second) == (2, 1)
    assert classes.p_value == pytest.approx(1.0)


def test_mcnemar_is_the_binomial_test() -> None:
    from scipy.stats import binomtest

    test = compare_detectors(made_up(images=60), 0, 1, resamples=100)[0]
    expected = binomtest(test.only_first, test.only_first + test.only_second).pvalue
    assert test.p_value == pytest.approx(expected)


def test_a_better_detector_is_found_and_differences_have_intervals() -> None:
    joint = made_up(images=60, right=0.95)
    worse = made_up(images=60, right=0.5)
    np.testing.assert_array_equal(joint.pair, worse.pair)
    mixed = of_two(joint, worse)
    found = by_metric(compare_detectors(mixed, 0, 1, resamples=500))
    for name in ("f1", "accuracy", "filter_rate"):
        test = found[name]
        assert test.ci_low < test.difference < test.ci_high
        assert test.difference == pytest.approx(test.first - test.second)
        assert test.ci_low > 0
        assert test.p_value == pytest.approx(1 / 501)
    assert found["prompt_bias_score_difference"].difference < 0


def of_two(one, other):  # type: ignore[no-untyped-def]
    """The first detector of one study and the first of another on the images of the first."""
    from detector_bench.metrics import JointVerdicts

    verdicts = np.stack([one.verdicts[0], other.verdicts[0]])
    return JointVerdicts(one.truth, verdicts, one.pair, one.t2i_models, one.scopes, one.classes)


def test_equal_detectors_are_equal() -> None:
    joint = made_up(images=20).of_detectors([0, 0])
    for test in compare_detectors(joint, 0, 1, resamples=200):
        assert test.difference == 0
        assert test.p_value == pytest.approx(1)
        assert test.p_holm == pytest.approx(1)


def test_the_bootstrap_p_value_by_hand() -> None:
    differences = np.array([1.0, 2.0, 3.0, 4.0, 5.0, np.nan])
    # Around their mean of 3: two of five lie 2 or more away.
    assert bootstrap_p_value(differences, 2.0) == pytest.approx((1 + 2) / (1 + 5))
    assert bootstrap_p_value(differences, -2.0) == pytest.approx((1 + 2) / (1 + 5))
    assert math.isnan(bootstrap_p_value(differences, math.nan))
    assert math.isnan(bootstrap_p_value(np.array([np.nan]), 1.0))


def test_holm_by_hand() -> None:
    assert holm([0.01, math.nan, 0.04, 0.03]) == pytest.approx([0.03, math.nan, 0.06, 0.06], nan_ok=True)
    assert math.isnan(holm([math.nan])[0])


@pytest.mark.parametrize("unit", ["image", "prompt"])
def test_a_detector_that_filters_everything_can_be_compared(unit) -> None:  # type: ignore[no-untyped-def]
    joint = of_images([0, 1, 2, 2, 0, 1], [[0, 1, 2, 0, 1, 1], [2] * 6], [0, 0, 0, 1, 1, 1], prompts=2)
    found = by_metric(compare_detectors(joint, 0, 1, resamples=200, unit=unit))
    assert math.isnan(found["accuracy"].p_value)
    assert math.isnan(found["accuracy"].ci_low)
    assert math.isnan(found[CLASSIFICATION].p_value)
    assert found["filter_rate"].second == 1
    table = comparison(list(found.values()), "a", "b", attribute="gender", level=0.95)
    for render in (to_csv, to_markdown, to_latex):
        assert "nan" not in render(table)


def test_only_low_quality_images_leave_the_filter_rate() -> None:
    found = by_metric(
        compare_detectors(of_images([2] * 8, [[2, 2, 2, 0] * 2, [2, 0, 0, 0] * 2], [0] * 8), 0, 1, resamples=300)
    )
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


def test_every_metric_of_the_comparison_is_tested_once() -> None:
    tests = compare_detectors(made_up(images=10), 0, 1, resamples=100)
    assert [test.metric for test in tests] == [FILTERING, CLASSIFICATION, *COMPARED_METRICS]


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


def test_compare_prints_and_writes_a_table(tmp_path: Path) -> None:
    study = write_study(tmp_path)
    arguments = ("compare", study, "--predictions", tmp_path, "good", "poor", "--resamples", 300)
    printed = invoke(*arguments, "--out", tmp_path)
    assert "Filter rate" in printed
    assert "(Holm)" in printed
    written = (tmp_path / "tables" / "comparison.csv").read_text(encoding="utf-8")
    assert written.splitlines()[0].startswith("metric,first,second,difference,difference_ci_low")
    assert len(written.splitlines()) == 8
    assert {path.suffix for path in (tmp_path / "tables").glob("comparison.*")} == {".csv", ".md", ".tex"}
    again = invoke(*arguments)
    assert again == printed


def test_compare_refuses(tmp_path: Path) -> None:
    study = write_study(tmp_path)
    arguments = ("compare", study, "--predictions", tmp_path)
    with pytest.raises(DetectorBenchError, match="did you mean 'good'"):
        invoke(*arguments, "god", "poor")
    with pytest.raises(DetectorBenchError, match="cannot be compared with itself"):
        invoke(*arguments, "good", "good")
    with pytest.raises(DetectorBenchError, match=r"--unit: 'model' \(accepted: image, prompt\)"):
        invoke(*arguments, "good", "poor", "--unit", "model")
    with pytest.raises(DetectorBenchError, match="--level: 2"):
        invoke(*arguments, "good", "poor", "--level", 2)
    write_study(tmp_path, changed="poor")
    with pytest.raises(DetectorBenchError, match="other contents"):
        invoke(*arguments, "good", "poor")


def test_evaluate_shows_intervals_where_asked(tmp_path: Path) -> None:
    study = write_study(tmp_path)
    plain = invoke("evaluate", study, "--predictions", tmp_path, "--out", tmp_path / "plain")
    shown = invoke("evaluate", study, "--predictions", tmp_path, "--out", tmp_path / "shown", "--intervals")
    assert "[" not in plain.replace("[bold]", "")
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
