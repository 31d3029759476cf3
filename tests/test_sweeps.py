"""Threshold sweeps from stored scores: by hand, and against running the evaluation once for each threshold."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import typer
from stored_study import FAILED, Said, filtered, kept, portraits, predictions_of, write_study
from typer.testing import CliRunner

from detector_bench.cli.analyses import sweep as sweep_command
from detector_bench.dataset import ImageSet
from detector_bench.errors import ConfigError
from detector_bench.evaluation import evaluate
from detector_bench.evaluation.out_of_sample import CHOICE_COLUMNS, threshold_choices
from detector_bench.evaluation.sweeps import (
    SWEEP_COLUMNS,
    even_thresholds,
    first_threshold,
    nearest_thresholds,
    sweep_counts,
    sweep_table,
)
from detector_bench.metrics import METRICS
from detector_bench.tables.comparison_tables import threshold_sweep
from detector_bench.vocabulary import attribute_named

SWEPT = [each.name for each in METRICS.swept_for(attribute_named("gender"))]

PICTURES = [
    *portraits({"male": 2, "female": 2, "low_quality": 2}),
    *portraits({"male": 1, "others": 1}, t2i_model="beta", prompt="gym"),
]
MAN, OTHER_MAN, WOMAN, OTHER_WOMAN, UNCLEAR, OTHER_UNCLEAR, BETA, APART = (each.image_id for each in PICTURES)
VERDICTS = {
    MAN: kept("male", 0.9),
    OTHER_MAN: kept("female", 0.6),
    WOMAN: kept("female", 0.8),
    OTHER_WOMAN: filtered("no_face"),
    UNCLEAR: kept("male", 0.7),
    OTHER_UNCLEAR: filtered("uncertain", 0.55),
    BETA: kept("male", 0.75),
    APART: FAILED,
}
THRESHOLDS = np.array([0.5, 0.6, 0.7, 0.8, 0.95])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sweeps")
    write_study(
        folder, PICTURES, {"nurse": "job", "gym": "place"}, {"swept": VERDICTS, "certain": without_scores()}
    )
    return folder


def without_scores() -> dict[str, Said]:
    return {image: said._replace(score=None) for image, said in VERDICTS.items()}


def swept(folder: Path, verdicts: dict[str, Said], thresholds: np.ndarray = THRESHOLDS) -> pd.DataFrame:
    return sweep_table(counted(folder, verdicts, thresholds))


def counted(folder: Path, verdicts: dict[str, Said], thresholds: np.ndarray = THRESHOLDS):
    table = predictions_of(verdicts, detector="swept")
    return sweep_counts(ImageSet.load(folder / "images"), table, detector="swept", thresholds=thresholds)


def curve(table: pd.DataFrame, metric: str, t2i_model: str = "all") -> list[float]:
    return table.loc[(table["metric"] == metric) & (table["t2i_model"] == t2i_model), "value"].to_list()


def test_by_hand(folder: Path) -> None:
    table = swept(folder, VERDICTS)
    assert tuple(table.columns) == SWEEP_COLUMNS
    # At 0.5 and 0.6 all five images with a class are kept; then those of at least 0.7: 0.9, 0.8, 0.7, 0.75.
    assert curve(table, "images_clear") == [5, 5, 4, 2, 0]
    assert curve(table, "filter_rate") == [0.5, 0.5, 0.5, 1, 1]
    assert curve(table, "recall") == [4 / 5, 4 / 5, 3 / 5, 2 / 5, 0]
    assert curve(table, "accuracy")[:4] == [3 / 4, 3 / 4, 1, 1]
    assert np.isnan(curve(table, "accuracy")[4])
    assert curve(table, "f1") == pytest.approx([8 / 10, 8 / 10, 6 / 9, 4 / 7, 0])
    # By the humans alpha's prompt is balanced: 2 of each. The detector says 2 : 2, 2 : 2, 2 : 1, 1 : 1, nothing.
    assert curve(table, "prompt_bias_score_difference", "alpha")[:4] == pytest.approx([0, 0, 1 / 3, 0])
    assert curve(table, "images_clear", "beta") == [1, 1, 1, 0, 0]
    assert table.loc[table["metric"] == "recall", "n"].to_list()[:5] == [5] * 5


@pytest.mark.parametrize("named", [False, True])
def test_every_threshold_equals_an_evaluation_of_its_own(folder: Path, *, named: bool) -> None:
    verdicts = VERDICTS | {OTHER_UNCLEAR: filtered("uncertain", 0.55, "female" if named else None)}
    table = swept(folder, verdicts)
    image_set = ImageSet.load(folder / "images")
    for threshold in THRESHOLDS:
        at = {image: at_threshold(said, threshold) for image, said in verdicts.items()}
        metrics = evaluate(image_set, {"swept": predictions_of(at, detector="swept")}, attributes=["gender"])
        metrics = metrics[(metrics["detector"] == "swept") & (metrics["category"] == "all")]
        expected = metrics.set_index(["t2i_model", "metric"])["value"]
        ours = table[np.isclose(table["threshold"], threshold)].set_index(["t2i_model", "metric"])["value"]
        for model in ("all", "alpha", "beta"):
            for metric in SWEPT:
                assert ours[model, metric] == pytest.approx(expected[model, metric], nan_ok=True), metric


def at_threshold(said: Said, threshold: float) -> Said:
    if said.label is None or said.score is None or said.status == "error":
        return said
    return kept(said.label) if said.score >= threshold else filtered("uncertain")


def test_what_the_run_itself_filtered_without_a_class_is_unknown_below_its_threshold(folder: Path) -> None:
    found = counted(folder, VERDICTS)
    assert found.known_above == 0.55
    table = sweep_table(found)
    known = table[(table["metric"] == "recall") & (table["t2i_model"] == "all")]["known"].to_list()
    assert known == [False, True, True, True, True]


def test_an_uncertain_class_of_its_own_is_no_threshold(folder: Path) -> None:
    # Uncertain with a higher score than images that were kept: a prompt for "uncertain" has won.
    verdicts = VERDICTS | {OTHER_UNCLEAR: filtered("uncertain", 0.92)}
    assert counted(folder, verdicts).known_above == -np.inf
    assert curve(swept(folder, verdicts), "images_clear") == [5, 5, 4, 2, 0]


def test_a_stored_class_brings_a_filtered_image_back(folder: Path) -> None:
    verdicts = VERDICTS | {OTHER_UNCLEAR: filtered("uncertain", 0.55, "female")}
    found = counted(folder, verdicts)
    assert found.known_above == -np.inf
    assert curve(sweep_table(found), "images_clear") == [6, 5, 4, 2, 0]


def test_kept_without_a_score_is_kept_at_every_threshold_and_said(folder: Path) -> None:
    found = counted(folder, VERDICTS | {MAN: kept("male")})
    assert found.without_score == 1
    assert curve(sweep_table(found), "images_clear") == [5, 5, 4, 2, 1]


def test_a_detector_without_scores_cannot_be_swept(folder: Path) -> None:
    with pytest.raises(ConfigError, match="swept has no stored score for 'gender'"):
        counted(folder, without_scores())


def test_thresholds() -> None:
    assert even_thresholds(steps=4).tolist() == [0, 0.25, 0.5, 0.75, 1]
    assert even_thresholds(first=0.5, last=0.9, steps=4)[3] == 0.8
    assert nearest_thresholds([0.1, 0.2, 0.3]) == [0.1, 0.2, 0.3]
    assert nearest_thresholds(list(range(101)), shown=5) == [0, 25, 50, 75, 100]
    assert nearest_thresholds(list(range(101)), shown=5, always=[30, 75, 200]) == [0, 25, 30, 50, 75, 100]
    for wrong in ({"first": 0.5, "last": 0.5}, {"last": 1.5}, {"steps": 0}):
        with pytest.raises(ConfigError, match=r"accepted: "):
            even_thresholds(**wrong)


def test_table_marks_what_is_unknown_and_no_best_that_is_not_judged_elsewhere(folder: Path) -> None:
    found = counted(folder, VERDICTS)
    for choices in (None, threshold_choices(found)):
        table = threshold_sweep(sweep_table(found), choices)
        assert [row.cells[0].text for row in table.rows] == ["0.500*", "0.600", "0.700", "0.800", "0.950"]
        assert not any(cell.bold for row in table.rows for cell in row.cells)
        assert any(note.startswith("*:") for note in table.notes)
        assert any(note.startswith("-:") for note in table.notes)
    # Two prompts: the best is named, and what is not known about it.
    assert table.notes[0] == (
        "F1 is highest at 0.600: 80.0 % on these prompts, which chose it. What it would be on others is unknown: "
        "2 prompts, where two to choose on and two to judge on are needed."
    )


def test_command(folder: Path, tmp_path: Path) -> None:
    app = typer.Typer()
    app.command()(sweep_command)
    results = str(folder / "results")
    arguments = [results, "--detector", "swept", "--out", str(tmp_path / "curve.csv")]
    answer = CliRunner().invoke(app, [*arguments, "--from", "0.5", "--steps", "50"], env={"COLUMNS": "160"})
    assert answer.exit_code == 0, answer.output
    written = pd.read_csv(tmp_path / "curve.csv")
    assert len(written) == 51 * 3 * len(SWEPT)
    assert curve(written, "images_clear")[20] == 4  # 0.7
    chosen = pd.read_csv(tmp_path / "curve_chosen.csv")
    assert tuple(chosen.columns) == CHOICE_COLUMNS
    assert len(chosen) == sum(METRICS[name].chooses for name in SWEPT) * 3
    assert "where two to choose on and two to judge on are needed" in " ".join(answer.output.split())
    unknown = CliRunner().invoke(app, [results, "--detector", "swpt"])
    assert isinstance(unknown.exception, ConfigError)
    assert "did you mean 'swept'?" in str(unknown.exception)


def test_a_sweep_begins_where_a_threshold_begins_to_filter(folder: Path, tmp_path: Path) -> None:
    # The lowest score beside a class is 0.6; the 0.55 of a filtered image without a class brings nothing back.
    swept_table = predictions_of(VERDICTS, detector="swept")
    assert first_threshold([swept_table], attribute="gender") == 0.6
    low = predictions_of({MAN: kept("male", 0.13)}, detector="low")
    assert first_threshold([swept_table, low], attribute="gender") == 0.1
    assert first_threshold([predictions_of({MAN: kept("male", 1.0)}, detector="sure")], attribute="gender") == 0.95
    assert first_threshold([], attribute="gender") == 0
    app = typer.Typer()
    app.command()(sweep_command)
    results = str(folder / "results")
    arguments = [results, "--detector", "swept", "--out", str(tmp_path / "curve.csv")]
    answer = CliRunner().invoke(app, [*arguments, "--steps", "4"])
    assert answer.exit_code == 0, answer.output
    assert pd.read_csv(tmp_path / "curve.csv")["threshold"].unique().tolist() == [0.6, 0.7, 0.8, 0.9, 1]


def test_a_detector_that_filters_everything_cannot_be_swept(folder: Path) -> None:
    with pytest.raises(ConfigError, match="nothing to sweep"):
        counted(folder, {each.image_id: filtered("no_face") for each in PICTURES})
