"""Datasheets and model cards: numbers of the tables alone, and a mark wherever only people know."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from generation_rows import requests_for, write_generations
from guides import block
from small_parts import write_csv
from stored_study import FAILED, Picture, filtered, kept, portraits, write_pictures, write_study

from detector_bench.dataset import ImageSet
from detector_bench.errors import ConfigError
from detector_bench.exports.card_text import TO_FILL_IN
from detector_bench.exports.datasheet import datasheet
from detector_bench.exports.model_card import model_card
from detector_bench.exports.set_facts import ImageSetFacts
from detector_bench.study import Results
from detector_bench.tables.table import DASH


def sheet_of(folder: Path) -> str:
    return datasheet(ImageSetFacts.of(ImageSet.load(folder)))


def cells(text: str, first: str) -> list[str]:
    """The cells of the table row that begins so, without the first one."""
    (line,) = [line for line in text.splitlines() if line.startswith(f"| {first} |")]
    return [cell.strip() for cell in line.strip("|").split("|")][1:]


def section(text: str, heading: str) -> str:
    return text.split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]


def test_a_datasheet_counts_what_is_there(tmp_path: Path) -> None:
    pictures = [
        *(Picture(f"m{number}", "alpha", "nurse", ("male", "male")) for number in range(3)),
        Picture("f", "alpha", "nurse", ("female", "female")),
        Picture("d", "alpha", "gym", ("male", "female")),
        Picture("o", "beta", "gym", ("others", "others")),
        Picture("none", "beta", "gym", ()),
    ]
    folder = write_pictures(tmp_path / "set", pictures, {"nurse": "work", "gym": "place"})
    write_generations(folder, requests_for(pictures, {("alpha", "nurse"): {"blocked": 5, "error": 2}}))
    sheet = sheet_of(folder)
    assert cells(sheet, "work") == ["1", "4", "0"]
    assert cells(sheet, "place") == ["1", "1", "2"]
    labelled = section(sheet, "Who labelled, and how far they agree").splitlines()
    (row,) = [line for line in labelled if line.startswith("| gender | 2 |")]
    assert row == "| gender | 2 | 6 | 1 | 6 | 1 | 0 |"
    said = section(sheet, "What the labels say").split("Perceived age")[0]
    # Over all, alpha, beta; Wilson's interval at 95 % of 3 of 6 is 0.188 to 0.812.
    assert cells(said, "`male`")[0] == "50.0 [18.8, 81.2] %"
    assert cells(said, "`others`")[2] == "100.0 [20.7, 100.0] %"
    assert cells(section(sheet, "How the images were made"), "alpha") == [
        "5",
        "5",
        "2",
        "0",
        "50.0 [23.7, 76.3] %",
    ]
    missing = section(sheet, "What is missing")
    assert "1 of 7 images have no label of perceived gender" in missing
    assert "Requests without an image, alpha: 5 blocked, 2 error" in missing
    assert "They are not an identity" in sheet


def test_what_nobody_wrote_down_is_unknown(tmp_path: Path) -> None:
    folder = write_pictures(tmp_path / "set", [Picture("a", "alpha", "nurse", ("male",))], {"nurse": "work"})
    sheet = sheet_of(folder)
    assert "no `generations.parquet`" in section(sheet, "How the images were made")
    for heading in ("Why it was made", "Licence and upkeep"):
        assert all(TO_FILL_IN in line for line in section(sheet, heading).splitlines() if line)
    assert "labelled by one annotator alone" in section(sheet, "What is missing")


def test_text_of_a_data_set_stays_text(tmp_path: Path) -> None:
    folder = write_pictures(tmp_path / "set", [Picture("a", "al|pha<b>", "n", ("male",))], {"n": "[x](y)\u202e"})
    sheet = sheet_of(folder)
    assert "al\\|pha&lt;b&gt;" in sheet
    assert "<b>" not in sheet
    assert "\\[x\\](y)" in sheet


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    pictures = [
        *portraits({"male": 6, "female": 6, "low_quality": 3}),
        *portraits({"male": 5, "female": 4, "others": 2}, t2i_model="beta", prompt="gym"),
    ]
    good = {each.image_id: _right(each.labels[0]) for each in pictures} | {pictures[0].image_id: filtered()}
    poor = {each.image_id: kept("male", 0.7) for each in pictures} | {pictures[1].image_id: FAILED}
    folder = tmp_path_factory.mktemp("cards")
    prompts = {"nurse": "work", "gym": "place"}
    return write_study(folder, pictures, prompts, {"good": good, "poor": poor}, intervals="score")


def _right(label: str) -> object:
    return filtered("no_face") if label == "low_quality" else kept("male" if label == "others" else label, 0.9)


@pytest.mark.parametrize("detector", ["good", "poor"])
def test_every_number_of_a_model_card_is_a_row(results: Results, detector: str) -> None:
    card = model_card(results.reader, detector)
    metrics = pd.read_csv(results.reader.path / "metrics.csv", keep_default_na=False, dtype="str")
    own = metrics.query("category == 'all' and prompt_id == 'all' and variant == ''")
    own = own[(own["detector"] == detector) & own["n_clear"].isin(["", "detector"])].set_index(
        ["metric", "t2i_model"]
    )
    rows = re.findall(r"^\| `(\w+)` \| .*$", card, re.MULTILINE)
    assert {"accuracy", "accuracy_male", "recall_female", "filter_rate", "images_error", "prompt_bias_error"} <= {
        *rows
    }
    for name in rows:
        for model, cell in zip(("alpha", "beta", "all"), cells(card, f"`{name}`")[1:], strict=True):
            row = own.loc[name, model]
            value, low, high = (float(row[key]) if row[key] else None for key in ("value", "ci_low", "ci_high"))
            if value is None:
                assert cell == DASH
                continue
            count = name.startswith("images")
            share = cell.endswith("%") or " % " in cell
            factor, decimals = (1, 0) if count else (100, 1) if share else (1, 3)
            numbers = [float(each) for each in re.findall(r"-?\d+(?:\.\d+)?", cell.split("(n")[0])]
            wanted = [value] if low is None else [value, low, high]
            assert numbers == pytest.approx(
                [factor * each for each in wanted if each is not None], abs=0.6 / 10**decimals
            )
            assert count or f"(n {int(float(row['n'])):,}" in cell


def test_a_model_card_says_what_failed_and_what_is_unknown(results: Results) -> None:
    card = model_card(results.reader, "poor")
    assert "images left out, error: 1 of 15 (alpha)" in section(card, "To be careful about")
    assert "`others` 7.7" in section(card, "What was varied")  # 2 of 26
    # These predictions were written by hand: no run says what judged.
    for heading in ("What it is", "Calibration", "Weights"):
        assert TO_FILL_IN in section(card, heading)
    with pytest.raises(ConfigError, match=r"no detector 'god'.*good"):
        model_card(results.reader, "god")


def test_a_datasheet_of_a_study_tells_the_study_s_intervals(results: Results) -> None:
    sheet = datasheet(ImageSetFacts.of(results.reader.image_set, results.reader))
    stored = results.of_attribute("gender").lookup.number("label_share_male", detector="ground_truth")
    low, high = (f"{100 * each:.1f}" for each in (stored.ci_low, stored.ci_high))
    assert (
        f"{100 * stored.value:.1f} [{low}, {high}] %" in cells(section(sheet, "What the labels say"), "`male`")[0]
    )
    assert "as the study's metrics.csv says" in sheet


def test_a_table_of_one_annotator_and_an_adjudicator(tmp_path: Path) -> None:
    folder = write_pictures(tmp_path / "set", portraits({"male": 2}), {"nurse": "work"})
    rows = [(f"alpha_nurse_00{n}", name, "gender", "male", "") for n in (0, 1) for name in ("ann", "adjudicator")]
    write_csv(folder / "labels.csv", ("image_id", "annotator", "attribute", "label", "reason"), rows)
    assert "| gender | 1 | 2 | 0 | 0 | 0 | 2 |" in sheet_of(folder)


def test_what_trackers_log_are_the_study_s_rows(results: Results) -> None:
    known: dict[str, Any] = {}
    exec(block("experiment-trackers.md", "file", "rows.py"), known)  # noqa: S102 - as a reader of the page does
    rows = known["rows_to_log"](str(results.reader.path))
    assert set(rows["detector"]) == {"good", "poor"}
    assert not rows.duplicated(["detector", "name"]).any()
    (value,) = rows.query("detector == 'good' and name == 'accuracy/all'")["value"]
    assert value == results.of_attribute("gender").number("accuracy", detector="good").value
