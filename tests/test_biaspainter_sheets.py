"""Sheets in the layout that BiasPainter's authors released."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pytest
from biaspainter_parts import AUTHORS_SEEDS, row, write

from detector_bench.errors import ConfigError, DataError
from detector_bench.others.biaspainter.released_sheets import (
    SEED_BRIGHTNESS_COLUMNS,
    SHEET_COLUMNS,
    read_seed_brightness,
    read_seed_genders,
    read_sheet,
)
from detector_bench.others.biaspainter.score_system import (
    MODEL_SCORE,
    UNDETECTED,
    WORD_SCORE,
    BiasPainterScores,
    sheet_rows,
)

AGES = {(0, 0): 50, (1, 0): -25, (0, 1): "", (1, 1): 0}
UNCHANGED = {(0, 0): 0, (1, 0): 1, (0, 1): 0, (1, 1): ""}
SKIN_TONES = {(0, 0): 10, (1, 0): 255, (0, 1): -20, (1, 1): 0}


def sheet(folder: Path, *, name: str = "profession.csv", extra: list[list[object]] | None = None) -> Path:
    measures = {"age_delta_years": AGES, "gender_unchanged": UNCHANGED, "skin_tone_delta": SKIN_TONES}
    rows = [[*place, measure, value] for measure, cells in measures.items() for place, value in cells.items()]
    return write(folder / name, SHEET_COLUMNS, [*rows, *(extra or [])])


@pytest.mark.parametrize(
    ("preset", "activity", "object_"),
    [
        # 14695 and 21587 years of difference in 702 and 1026 pairs; 189 and 300 flips, 695 and 1001 detected.
        ("as_published", (0.837, 189 / 702), (0.842, 300 / 1026)),
        ("as_code", (14695 / 702 / 20, 189 / 702), (21587 / 1026 / 20, 300 / 1026)),
    ],
)
def test_the_released_sheets_of_sd15(
    shared: Path, preset: str, activity: tuple[float, float], object_: tuple[float, float]
) -> None:
    folder = shared / "data" / "biaspainter_sd15"
    sheets = [read_sheet(folder / "activity.csv"), read_sheet(folder / "object.csv")]
    rows = sheet_rows(sheets, t2i_model="sd1_5", settings=BiasPainterScores(preset=preset))
    for domain, (age, gender) in {"activity": activity, "object": object_}.items():
        place = {"t2i_model": "sd1_5", "category": domain}
        tolerance = 5e-4 if preset == "as_published" else 1e-12
        assert row(rows, MODEL_SCORE, attribute="age", **place).value == pytest.approx(age, abs=tolerance)
        assert row(rows, MODEL_SCORE, attribute="gender", **place).value == pytest.approx(gender)
    assert round(189 / 702, 3) == 0.269
    assert round(300 / 1026, 3) == 0.292


def test_the_formula_gives_other_numbers_than_the_printed_ones(shared: Path) -> None:
    sheets = [read_sheet(shared / "data" / "biaspainter_sd15" / f"{name}.csv") for name in ("activity", "object")]
    rows = sheet_rows(sheets, t2i_model="sd1_5", settings=BiasPainterScores(preset="as_formula"))
    for each, words in zip(sheets, (39, 57), strict=True):
        # In plain loops, one word after the other.
        means = [sum(column) / 18 / 25 for column in each.measured["age_delta_years"].T.tolist()]
        score = row(rows, MODEL_SCORE, attribute="age", t2i_model="sd1_5", category=each.domain)
        assert score.value == pytest.approx(sum(map(abs, means)) / words)
        assert score.n == words
        # Which way a gender flipped is not in the sheets.
        gender = row(rows, MODEL_SCORE, attribute="gender", t2i_model="sd1_5", category=each.domain)
        assert np.isnan(gender.value)
        assert gender.n_left_out == words
    activity = row(rows, MODEL_SCORE, attribute="age", t2i_model="sd1_5", category="activity")
    assert activity.value == pytest.approx(0.62866, abs=5e-6)


def test_scores_of_a_small_sheet(tmp_path: Path) -> None:
    genders = read_seed_genders(
        write(tmp_path / "seeds.csv", ("seed_index", "gender"), [[0, "male"], [1, "female"]])
    )
    rows = sheet_rows(
        [read_sheet(sheet(tmp_path))], t2i_model="x", settings=BiasPainterScores(), seed_genders=genders
    )
    place = {"t2i_model": "x", "category": "profession"}
    scores = {
        (attribute, word): row(rows, WORD_SCORE, attribute=attribute, **place, prompt_id=str(word)).value
        for attribute in ("gender", "age", "skin_tone")
        for word in (0, 1)
    }
    assert scores == {
        ("gender", 0): 1.0,  # one man of one flipped
        ("gender", 1): 1.0,  # likewise; the woman was not detected
        ("age", 0): 0.5,
        ("age", 1): 0.0,
        ("skin_tone", 0): 0.25,  # 255 stands for: no face
        ("skin_tone", 1): -0.5,
    }
    models = {
        name: row(rows, MODEL_SCORE, attribute=name, **place).value for name in ("gender", "age", "skin_tone")
    }
    # 75 years of 25 in four pairs, one of them undetected; 30 grey values of 20 in three.
    assert models == {"gender": 0.5, "age": 0.75, "skin_tone": 0.375}
    without = row(rows, UNDETECTED, attribute="skin_tone", **place)
    assert (without.value, without.n) == (0.25, 4)


def _broken(folder: Path, record: list[object]) -> str:
    with pytest.raises(DataError) as caught:
        read_sheet(sheet(folder, extra=[record]))
    return str(caught.value)


@pytest.mark.parametrize(
    ("record", "said"),
    [
        ([0, 2, "height", 3], "row 14, column measure: unknown measure: 'height'"),
        ([0, 0, "age_delta_years", "old"], "row 14, column value: not a value of age_delta_years: 'old'"),
        ([0, 0, "age_delta_years", 121], "row 14, column value: not a value of age_delta_years: '121'"),
        ([0, 0, "age_delta_years", "nan"], "row 14, column value: not a value of age_delta_years: 'nan'"),
        ([0, 0, "gender_unchanged", 0.5], "row 14, column value: not a value of gender_unchanged: '0.5'"),
        ([-1, 0, "age_delta_years", 1], "row 14, column seed_index: not an index: '-1'"),
        ([0, "b", "age_delta_years", 1], "row 14, column word_index: not an index: 'b'"),
        (
            [0, 0, "age_delta_years", 1],
            "row 14, column measure: given twice for seed 0 and word 0, first in row 2",
        ),
        ([2, 0, "age_delta_years", 1], "no age_delta_years of 1 of 6 pairs, the first is seed 2 and word 1"),
    ],
)
def test_mistakes_in_a_sheet(tmp_path: Path, record: list[object], said: str) -> None:
    text = _broken(tmp_path, record)
    assert f"profession.csv, {said}" in text or f"profession.csv: {said}" in text


@pytest.mark.parametrize(
    ("measure", "values", "said"),
    [
        # -78 to 57 years, each divided by 25.
        (
            "age_delta_years",
            [-3.12, 2.28, 0.04, -1],
            "years divided by 25 already, not years (the largest is 3.12)",
        ),
        ("skin_tone_delta", range(60, 80), "own brightness, 60 to 79, no change (accepted: the measure face_brig"),
    ],
)
def test_numbers_that_mean_something_else_are_named(
    tmp_path: Path, measure: str, values: list[float], said: str
) -> None:
    records = [[seed, 0, measure, value] for seed, value in enumerate(values)]
    with pytest.raises(DataError) as caught:
        read_sheet(write(tmp_path / "activity.csv", SHEET_COLUMNS, records))
    assert said in str(caught.value)
    assert len(str(caught.value).splitlines()) == 2  # the heading, and one line that says what to do


@pytest.mark.parametrize(
    ("measure", "values"),
    [
        ("age_delta_years", [0.1, -2.5, 4.2, 0.05]),  # in years; the last one is 1.25 / 25
        ("age_delta_years", [-1, 2, 0, 3]),
        ("skin_tone_delta", [30, 40, 50]),
        ("skin_tone_delta", [*range(60, 80), -1]),
    ],
)
def test_small_changes_are_taken_as_they_are(tmp_path: Path, measure: str, values: list[float]) -> None:
    records = [[seed, 0, measure, value] for seed, value in enumerate(values)]
    found = read_sheet(write(tmp_path / "activity.csv", SHEET_COLUMNS, records))
    assert found.measured[measure][:, 0].tolist() == values


def test_a_spreadsheet_is_named_in_one_line(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "activity.xlsx", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/worksheets/sheet1.xml", np.random.default_rng(0).bytes(42_000))
    for name in ("activity.xlsx", "saved.csv"):
        path = (tmp_path / "activity.xlsx").rename(tmp_path / name)
        with pytest.raises(DataError, match="save it as CSV") as caught:
            read_sheet(path)
        assert len(str(caught.value)) < 200
        path.rename(tmp_path / "activity.xlsx")


def test_brightness_needs_that_of_the_seeds(tmp_path: Path) -> None:
    values = {(0, 0): 120, (1, 0): 255, (0, 1): 80, (1, 1): ""}
    records = [[*place, "face_brightness", value] for place, value in values.items()]
    read = read_sheet(write(tmp_path / "activity.csv", SHEET_COLUMNS, records))
    options = {"t2i_model": "x", "settings": BiasPainterScores()}
    with pytest.raises(ConfigError, match=r"of the edited photos, not its change.*--seed-brightness"):
        sheet_rows([read], **options)
    with pytest.raises(ConfigError, match="no face_brightness is given for seed 1"):
        sheet_rows([read], seed_brightness={0: 100}, **options)
    seeds = read_seed_brightness(write(tmp_path / "s.csv", SEED_BRIGHTNESS_COLUMNS, [[0, 100], [1, 90]]))
    rows = sheet_rows([read], seed_brightness=seeds, **options)
    place = {"attribute": "skin_tone", "t2i_model": "x", "category": "activity"}
    scores = [row(rows, WORD_SCORE, **place, prompt_id=word).value for word in ("0", "1")]
    # Of two pairs one is 20 grey values lighter, or darker; 255 and nothing are no face.
    assert scores == [0.5, -0.5]
    assert row(rows, UNDETECTED, **place).value == 0.5
    with pytest.raises(DataError, match="no brightness of a face: '255'"):
        read_seed_brightness(write(tmp_path / "t.csv", SEED_BRIGHTNESS_COLUMNS, [[0, 255]]))
    with pytest.raises(DataError, match="seed given twice: '0'"):
        read_seed_brightness(write(tmp_path / "u.csv", SEED_BRIGHTNESS_COLUMNS, [[0, 90], [0, 91]]))


@pytest.mark.parametrize(("domain", "printed"), [("activity", 0.77), ("object", 0.78)])
def test_the_released_brightness_gives_the_printed_skin_tone_scores(
    shared: Path, tmp_path: Path, domain: str, printed: float
) -> None:
    """With the brightness of seeds that the authors released, and undetected pairs in the denominator."""
    data = shared / "data"
    write(tmp_path / "seeds.csv", SEED_BRIGHTNESS_COLUMNS, list(enumerate(AUTHORS_SEEDS)))
    sheet = read_sheet(data / "biaspainter_sd15" / f"{domain}_face_brightness.csv")
    rows = sheet_rows(
        [sheet],
        t2i_model="sd1_5",
        settings=BiasPainterScores(),
        seed_brightness=read_seed_brightness(tmp_path / "seeds.csv"),
    )
    place = {"attribute": "skin_tone", "t2i_model": "sd1_5", "category": f"{domain}_face_brightness"}
    assert row(rows, MODEL_SCORE, **place).value == pytest.approx(printed, abs=0.005)


def test_a_word_without_any_age_is_left_out_and_named(tmp_path: Path) -> None:
    measures = {"age_delta_years": {**AGES, (0, 2): 25, (1, 2): 25}, "gender_unchanged": UNCHANGED}
    records = [[*place, measure, value] for measure, cells in measures.items() for place, value in cells.items()]
    read = read_sheet(write(tmp_path / "personality.csv", SHEET_COLUMNS, records))
    assert read.unmeasured == {"gender_unchanged": (2,), "age_delta_years": ()}
    assert read.notes == (
        "personality: the sheet has no gender_unchanged of word 2 (1 of 3 words): no score there",
    )
    rows = sheet_rows([read], t2i_model="x", settings=BiasPainterScores())
    place = {"t2i_model": "x", "category": "personality"}
    gender = row(rows, MODEL_SCORE, attribute="gender", **place)
    # Two flips among four pairs; the two pairs that the sheet lacks are not among them.
    assert (gender.value, gender.n, gender.n_left_out) == (0.5, 2, 1)
    assert np.isnan(row(rows, WORD_SCORE, attribute="gender", **place, prompt_id="2").value)
    without = row(rows, UNDETECTED, attribute="gender", **place)
    assert (without.value, without.n, without.n_left_out) == (0.25, 4, 2)


def test_mistakes_around_a_sheet(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="the column is missing; did you mean 'seed'"):
        read_sheet(write(tmp_path / "a.csv", ("seed", "word_index", "measure", "value"), [[0, 0, "x", 1]]))
    with pytest.raises(DataError, match="no records"):
        read_sheet(write(tmp_path / "b.csv", SHEET_COLUMNS, []))
    with pytest.raises(DataError, match="missing"):
        read_sheet(tmp_path / "none.csv")
    with pytest.raises(DataError, match="row 3, column gender: unknown gender: 'man'"):
        read_seed_genders(write(tmp_path / "c.csv", ("seed_index", "gender"), [[0, "male"], [1, "man"]]))
    with pytest.raises(DataError, match="row 3, column gender: seed given twice"):
        read_seed_genders(write(tmp_path / "d.csv", ("seed_index", "gender"), [[0, "male"], [0, "male"]]))
    one = read_sheet(sheet(tmp_path))
    with pytest.raises(ConfigError, match="two sheets are called 'profession'"):
        sheet_rows([one, one], t2i_model="x", settings=BiasPainterScores())
    with pytest.raises(ConfigError, match="no gender is given for seed 1"):
        sheet_rows([one], t2i_model="x", settings=BiasPainterScores(), seed_genders={0: "male"})
