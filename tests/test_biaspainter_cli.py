"""`detector-bench biaspainter` from the command line, on files."""

from __future__ import annotations

import csv
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest
from biaspainter_parts import judgements, predictions, write
from result_folders import write_result_folder
from typer.testing import CliRunner, Result

from detector_bench.cli.app import app
from detector_bench.errors import ConfigError
from detector_bench.evaluation.intervals import Intervals
from detector_bench.others.biaspainter.score_system import BiasPainterScores


def run(*arguments: object) -> Result:
    result = CliRunner().invoke(app, ["biaspainter", *map(str, arguments)], env={"COLUMNS": "160"})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


@pytest.fixture
def result_folder(tmp_path: Path) -> Path:
    """A result folder with an image set of pairs beside it."""
    known = judgements(tmp_path / "pairs")
    folder = tmp_path / "result"
    (folder / "predictions" / "d").mkdir(parents=True)
    pq.write_table(predictions(), folder / "predictions" / "d" / "part.parquet")
    # The detector fails on one pair of eight.
    rows = BiasPainterScores().rows(known, Intervals(method="none"))
    write_result_folder(folder, rows, image_set="../pairs", max_error_share=0.2)
    return folder


def test_sample_then_validity(result_folder: Path, tmp_path: Path) -> None:
    sheet, key = tmp_path / "sheet.csv", tmp_path / "key.csv"
    options = ["--detector", "d", "--sheet", sheet, "--key", key, "--seed", 1, "--changed", 2, "--unchanged", 1]
    said = run("sample", result_folder, *options).stdout
    # One and two changes of gender, two of age, and one unchanged of each.
    assert f"{sheet}: 7 items" in said
    assert "fewer than asked for: age, younger: all 0 pairs (asked for: 2)" in said
    rows = list(csv.DictReader(sheet.open(encoding="utf-8")))
    assert all((tmp_path / row["person_1"]).parent == tmp_path / "pairs" / "photos" for row in rows)
    filled = write(tmp_path / "anna.csv", ("item", "answer"), [[row["item"], "C"] for row in rows])
    said = run("validity", key, filled, "--out", tmp_path / "out").stdout
    assert "consensus" in said
    records = pd.read_csv(tmp_path / "out" / "biaspainter_validity.csv")
    everything = records[(records["attribute"] == "all") & (records["verdict"] == "all")].iloc[0]
    # C: female to male, right twice; or no difference in age, right once.
    assert (everything["agreeing"], everything["judged"]) == (3, 7)
    with pytest.raises(ConfigError, match="may hold answers"):
        run("sample", result_folder, *options)
    with pytest.raises(ConfigError, match="no detector 'e'"):
        run("sample", result_folder, *options[2:], "--detector", "e", "--overwrite")


def test_mitigation_between_two_models_of_one_study(result_folder: Path, tmp_path: Path) -> None:
    options = ["--before-model", "A", "--after-model", "B", "--judge", "ground_truth", "--out", tmp_path / "out"]
    said = run("mitigation", result_folder, *options).stdout
    assert "by the human labels (as_published)" in " ".join(said.split())
    table = pd.read_csv(tmp_path / "out" / "biaspainter_mitigation.csv")
    assert table["word"].tolist()[:2] == ["nurse", "pilot"]
    assert table["before"].tolist()[:2] == [1.0, -0.5]
    assert table["after"].tolist()[0] == -1.0
    assert pd.isna(table["after"].tolist()[1])
    with pytest.raises(ConfigError, match="name a second result folder"):
        run("mitigation", result_folder)
    with pytest.raises(ConfigError, match="several T2I models, choose with --before-model: A, B"):
        run("mitigation", result_folder, result_folder)
    with pytest.raises(ConfigError, match="no T2I model 'C'"):
        run("mitigation", result_folder, "--before-model", "C", "--after-model", "A")


def test_sheets(tmp_path: Path) -> None:
    rows = [[seed, 0, "gender_unchanged", seed] for seed in (0, 1)]
    rows += [[seed, 0, "age_delta_years", 50] for seed in (0, 1)]
    sheet = write(tmp_path / "object.csv", ("seed_index", "word_index", "measure", "value"), rows)
    said = run("sheets", sheet, "--t2i-model", "sd", "--out", tmp_path / "out").stdout
    assert "No word scores of gender" in said
    table = pd.read_csv(tmp_path / "out" / "biaspainter_model_scores.csv")
    assert table.loc[0, ["gender", "age"]].tolist() == [0.5, 2.0]
    assert (tmp_path / "out" / "biaspainter_top_words_age.tex").is_file()
    genders = write(tmp_path / "seeds.csv", ("seed_index", "gender"), [[0, "male"], [1, "female"]])
    said = run("sheets", sheet, "--seed-genders", genders, "--age-threshold", 10).stdout
    assert "as_published, age 10" in said
    assert "5.00" in said
    with pytest.raises(ConfigError, match="age_threshold: Input should be greater than 0"):
        run("sheets", sheet, "--age-threshold", 0)
    with pytest.raises(ConfigError, match=r"preset: .*got 'printed'"):
        run("sheets", sheet, "--preset", "printed")


def test_figure_of_a_finished_study(result_folder: Path) -> None:
    pytest.importorskip("matplotlib")
    from detector_bench.figures.drawing import paper_style
    from detector_bench.others.biaspainter.word_score_figure import draw
    from detector_bench.results.finished_study import FinishedStudy

    with paper_style():
        drawing = draw(FinishedStudy.load(result_folder), width="double")
    assert [axes.get_title(loc="left") for axes in drawing.figure.axes] == ["Gender", "Age"]
    assert "by the detector d (as_published)" in drawing.caption
    assert "n = 6 scores (2 words, 2 T2I models, 1 domain)" in drawing.caption


def test_help_has_examples() -> None:
    for command in ("sheets", "sample", "validity", "mitigation"):
        assert f"detector-bench biaspainter {command}" in run(command, "--help").stdout.replace("\n", " ")
