"""BiasPainter's released sheets beside its printed numbers, and what two JPEG files do to its skin tones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from biaspainter_parts import AUTHORS_SEEDS, write
from typer.testing import CliRunner, Result

from detector_bench.cli.app import app
from detector_bench.errors import ConfigError, DataError, DetectorBenchError
from detector_bench.others.biaspainter.released.folder import (
    AUTHORS_FILE,
    WITH_JPEG,
    WITHOUT_JPEG,
    read_released_folders,
)
from detector_bench.others.biaspainter.released.published import (
    SEED_NAMES,
    printed_model_scores,
    printed_words,
    released_words,
    seed_genders,
)
from detector_bench.others.biaspainter.released.side_by_side import brightness_changes, score_findings, scores_of
from detector_bench.others.biaspainter.released.skin_tone_artefact import (
    artefact_sentences,
    artefact_tables,
    mean_change,
)
from detector_bench.others.biaspainter.score_system import BiasPainterScores


def run(*arguments: object) -> Result:
    result = CliRunner().invoke(app, ["reproduce", *map(str, arguments)], env={"COLUMNS": "160"})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def released(shared: Path) -> list[Path]:
    return [shared / "data" / "biaspainter_sd15", shared / "data" / "biaspainter_skin"]


def test_what_ships_is_what_the_papers_print(shared: Path) -> None:
    own = pd.read_csv(shared / "data" / "published" / "biaspainter_table3_model_scores.csv")
    printed = {(each.t2i_model, each.category, each.attribute): each.score for each in printed_model_scores()}
    assert len(printed) == 72
    for row in own.to_dict("records"):
        for attribute, name in {"gender": "gender", "age": "age", "skin_tone": "race"}.items():
            assert printed[row["t2i_model"], row["domain"], attribute] == row[name]


def test_words_are_in_the_order_of_the_sheets() -> None:
    words = released_words()
    assert {name: len(each) for name, each in words.items()} == {
        "activity": 39,
        "object": 57,
        "personality": 70,
        "profession": 62,
    }
    for each in words.values():
        named = [word.casefold() for word in each if word]
        assert named == sorted(named)
        assert len(set(named)) == len(named)
    for printed in printed_words():
        assert printed.word.casefold() in [word.casefold() for word in words[printed.category]], printed
    assert sorted(SEED_NAMES, key=str.casefold) == list(SEED_NAMES)
    assert [seed_genders()[index] for index in (0, 2, 3, 5, 6)] == ["female", "female", "male", "male", "female"]


def test_the_released_sheets_beside_the_printed_numbers(shared: Path) -> None:
    found = read_released_folders(released(shared))
    findings = score_findings(scores_of(found, BiasPainterScores(), seeds=WITH_JPEG))
    matches = {each.statement: str(each.match) for each in findings}
    assert len(findings) == 23
    differing = {statement for statement, match in matches.items() if match == "differs"}
    # All of gender and age that can be named are the same but one; skin tone hangs on how seeds were measured.
    assert {each for each in differing if "race" not in each} == {"object: gender of supercar"}
    assert matches["activity: gender of cooking"] == matches["sd1_5, activity: age"] == "same"


def test_the_authors_own_brightness_of_seeds_gives_printed_words(shared: Path, tmp_path: Path) -> None:
    (tmp_path / "race_original.csv").write_text("\n".join(map(str, AUTHORS_SEEDS)), encoding="utf-8")
    found = read_released_folders([*released(shared), tmp_path])
    assert list(found.seeds) == [AUTHORS_FILE, WITH_JPEG, WITHOUT_JPEG]
    findings = score_findings(scores_of(found, BiasPainterScores(), seeds=AUTHORS_FILE))
    # Two model scores and six words; those of perfume and tissue have undetected pairs.
    skin_tones = [str(each.match) for each in findings if "skin tone" in each.statement]
    assert skin_tones == ["same"] * 8
    table = artefact_tables(found, t2i_model="sd1_5")["biaspainter_skin_tone_scores_sd1_5"]
    scores = {(row.cells[0].text, row.cells[1].text): row.cells[3].value for row in table.rows}
    assert round(scores["activity", "in the denominator"], 3) == 0.769
    assert round(scores["object", "in the denominator"], 3) == 0.776
    assert round(scores["activity", "left out"], 3) == 0.811


def test_without_the_files_the_conclusion_is_another_one(shared: Path) -> None:
    found = read_released_folders(released(shared))
    table = artefact_tables(found, t2i_model="sd1_5")["biaspainter_skin_tone_conclusion_sd1_5"]
    rows = {row.cells[0].text: [cell.text for cell in row.cells[2:6]] for row in table.rows}
    assert rows[WITH_JPEG] == ["+9.5", "lighter", "14", "18"]
    assert rows[WITHOUT_JPEG] == ["-2.5", "open", "6", "18"]
    assert [row.cells[2].interval_text for row in table.rows] == ["[2.2, 16.8]", "[-6.9, 1.9]"]
    shown = artefact_sentences(found, t2i_model="sd1_5")
    assert "18 seeds are 12.0 grey values darker on average, 57.1 at most" in shown[0]
    assert [each.split(",")[0].split(":")[0] for each in shown] == ["Shown", "Shown", "Inferred"]


def test_two_conclusions_are_none_where_the_seeds_measurements_do_not_differ(shared: Path) -> None:
    found = read_released_folders(released(shared))
    ((first, activity), (second, objects)) = brightness_changes(found, found.seeds[WITHOUT_JPEG])
    assert (first.category, second.category) == ("activity", "object")
    # As if all people were made darker by one grey value: the interval is that of nothing else.
    means = np.nanmean(np.concatenate([activity, objects], axis=1), axis=1)
    found.seeds[WITH_JPEG] = found.seeds[WITHOUT_JPEG] + means + 1
    table = artefact_tables(found, t2i_model="sd1_5")["biaspainter_skin_tone_conclusion_sd1_5"]
    assert {row.cells[3].text for row in table.rows} == {"darker", "open"}
    assert not any("hangs on" in each for each in artefact_sentences(found, t2i_model="sd1_5"))


def test_a_mean_change_is_one_of_seeds() -> None:
    """By hand: means 4, 6 and 8; Student's quantile for two degrees of freedom is 4.3027."""
    changes = np.array([[3, 5, np.nan], [6, 6, 6], [8, np.nan, np.nan], [np.nan, np.nan, np.nan]])
    found = mean_change(changes)
    assert (found.mean, found.seeds, found.lighter) == (6, 3, 3)
    assert found.high - found.mean == pytest.approx(4.3027 * 2 / np.sqrt(3), abs=1e-3)
    assert found.conclusion == "lighter"
    assert mean_change(-changes).conclusion == "darker"
    assert mean_change(np.full((3, 2), np.nan)).conclusion == "open"


def test_where_nothing_changes_a_conclusion_is_rare() -> None:
    """Seeds are off by 15 grey values each, all of their photos alike: of 100 studies, five say something."""
    random = np.random.default_rng(0)
    said = 0
    for _ in range(1000):
        changes = random.normal(0, 15, (18, 1)) + random.normal(0, 10, (18, 20))
        said += mean_change(changes).conclusion != "open"
    assert said == pytest.approx(50, abs=21)  # three standard deviations


def spreadsheet(path: Path, cells: list[list[object]]) -> Path:
    pytest.importorskip("openpyxl")
    pd.DataFrame(cells).to_excel(path, header=False, index=False)
    return path


def test_spreadsheets_as_they_were_released(tmp_path: Path) -> None:
    ages = [[seed - 9 + 2 * word for word in range(39)] for seed in range(18)]
    ages[0][0] = None
    flips = [[(seed + word) % 2 == 0 for word in range(39)] for seed in range(18)]
    tones = [[100.5 + seed for _ in range(39)] for seed in range(18)]
    tones[1][2] = 255
    for name, cells in {"age": ages, "gender": flips, "race": tones}.items():
        spreadsheet(tmp_path / f"sdxl_{name}_behavior.xlsx", cells)
    (tmp_path / "race_original.csv").write_text("\n".join(str(100.5 - seed) for seed in range(18)))
    (tmp_path / "notes.csv").write_text("a\n1\n")
    found = read_released_folders([tmp_path])
    assert found.notes == ("Not read, as they are no sheets: notes.csv.",)
    measured = {name: grid for each in found.sheets for name, grid in each.sheet.measured.items()}
    assert {each.t2i_model for each in found.sheets} == {"sdxl"}
    assert np.isnan(measured["age_delta_years"][0, 0])
    assert measured["age_delta_years"][1, 1] == -6
    assert measured["gender_unchanged"][0, :3].tolist() == [1, 0, 1]
    assert np.isnan(measured["face_brightness"][1, 2])
    scores = {
        name: value
        for each in scores_of(found, BiasPainterScores(preset="as_formula"), seeds=AUTHORS_FILE)
        for name, value in each.model_scores().items()
    }
    assert scores["skin_tone"] == pytest.approx(np.mean([17, *([17] * 37), 17 + 15 / 17]) / 20, abs=1e-9)


def test_a_long_spreadsheet_and_one_that_lacks_a_word(tmp_path: Path) -> None:
    header = ["seed_index", "word_index", "measure", "value"]
    rows = [[seed, word, "age_delta_years", 25] for seed in range(2) for word in (0, 2)]
    spreadsheet(tmp_path / "activity.xlsx", [header, *rows])
    lacking = [[1.0] * 69 for _ in range(18)]
    write(tmp_path / "sd15_age_personality.csv", [str(each) for each in lacking[0]], lacking[1:])
    found = read_released_folders([tmp_path])
    long, wide = found.sheets
    assert long.words == ("bathing", "buying")
    assert wide.words == ("",) * 69
    assert "age_delta_years of 1 of 70 words is not in the sheet" in found.notes[-1]
    findings = score_findings(scores_of(found, BiasPainterScores(), seeds=None))
    place = {each.statement: each for each in findings}
    assert place["sd1_5, personality: age"].recomputed == pytest.approx(1 / 25)
    assert str(place["personality: age of brave"].match) == "undefined"


@pytest.mark.parametrize(
    ("name", "cells", "said"),
    [
        ("sd15_age_behavior.csv", [["1"] * 39] * 17, "sd15_age_behavior.csv: 17 rows"),
        ("sd15_age_behavior.csv", [["1"] * 40] * 18, "40 columns"),
        ("sd15_age_behavior.csv", [["old"] + ["1"] * 38] * 18, "row 1, column word 0: not a value of age_delta"),
        ("sd15_gender_item.csv", [["maybe"] + ["TRUE"] * 56] * 18, "not a value of gender_unchanged: 'maybe'"),
        ("race_original.csv", [["300"]] * 18, "no brightness of each seed"),
        ("seeds.csv", [["seed_index", "tone"], ["0", "1"]], "a column is missing"),
        ("seeds.csv", [["seed_index", "face_brightness"], ["0", "100"]], "not the 18 seeds"),
        (
            "activity.csv",
            [["seed_index", "word_index", "value"], ["0", "0", "1"]],
            "measure: the column is missing",
        ),
        ("else.csv", [["1"]], "no released sheet in"),
        ("seeds.csv", [], "seeds.csv cannot be read as a table"),
        ("race_original.csv", [["a", "b"], ["1", "2", "3"]], "race_original.csv cannot be read as a table"),
        ("seeds.csv", [["seed_index", "face_brightness"], ["x", "100"]], "not the 18 seeds"),
    ],
)
def test_mistakes_in_a_folder(tmp_path: Path, name: str, cells: list[list[str]], said: str) -> None:
    (tmp_path / name).write_text("\n".join(",".join(row) for row in cells), encoding="utf-8")
    with pytest.raises((DataError, ConfigError)) as caught:
        read_released_folders([tmp_path])
    assert said in str(caught.value)


def test_a_sheet_that_is_there_twice_is_refused(shared: Path) -> None:
    folder = shared / "data" / "biaspainter_sd15"
    with pytest.raises(ConfigError, match="two sheets have the gender_unchanged of activity by sd1_5"):
        read_released_folders([folder, folder])


def test_damaged_files_are_told_in_a_line(tmp_path: Path) -> None:
    (tmp_path / "sd15_age_behavior.xlsx").write_bytes(b"PK\x03\x04 no spreadsheet")
    with pytest.raises(DetectorBenchError, match=r"sd15_age_behavior\.xlsx cannot be read as a table"):
        read_released_folders([tmp_path])
    with pytest.raises(ConfigError, match="is no folder"):
        read_released_folders([tmp_path / "sd15_age_behavior.xlsx"])


def test_the_command(shared: Path, tmp_path: Path) -> None:
    said = run("biaspainter", *released(shared), "--preset", "as_published", "--out", tmp_path / "out").stdout
    assert "23 published numbers: 14 the same, 9 different." in said
    assert "66 of the 72 model scores" in said
    assert "Inferred, not shown" in " ".join(said.split())
    table = pd.read_csv(tmp_path / "out" / "biaspainter_skin_tone_conclusion_sd1_5.csv")
    assert table["change_ci_low"].round(1).tolist() == [2.2, -6.9]
    assert table["conclusion"].tolist() == ["lighter", "open"]
    short = run("biaspainter", *released(shared), "--only-differences").stdout
    assert "as_formula: 23 published numbers" in short
    with pytest.raises(ConfigError, match="no brightness of the seeds 'jpeg'"):
        run("biaspainter", *released(shared), "--measured", "jpeg")
    # One group of commands, though several benchmarks bring commands for it.
    assert run("lyu2025", "--only-differences").exit_code == 0
    assert {"biaspainter", "lyu2025"} <= set(run("--help").stdout.split())
