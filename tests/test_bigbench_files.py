"""Reading BIGbench's files, with their mistakes, and the user's own tables, with theirs."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from small_parts import write_csv
from typer.testing import CliRunner

from detector_bench.cli.app import app
from detector_bench.errors import ConfigError, DataError
from detector_bench.others.bigbench.entry import equal_references, read_references
from detector_bench.others.bigbench.own_files import (
    NAME_COLUMNS,
    PAIR_COLUMNS,
    REFERENCE_COLUMNS,
    REQUEST_COLUMNS,
    WEIGHT_COLUMNS,
    read_own_pairs,
    read_own_references,
    read_own_weights,
    read_prompt_names,
    read_requested,
)
from detector_bench.others.bigbench.references import Pair
from detector_bench.prompt_lists import read_prompts

WHOLE_WORDS = "means only the whole word; as a part it is in 2 prompts"


def test_the_released_files_are_read_and_every_mistake_is_reported(shared: Path) -> None:
    references = read_references(shared / "data" / "bigbench")
    assert len(references.shares) == 179 + 24 + 2 * 11
    assert sum(pair.weight for pair in references.pairs) == 112
    assert len(references.pairs) == 36
    # Two people of a picture share its weight.
    assert references.weights["employer_at_left"] == references.weights["employee_at_right"] == 2
    assert references.categories["employee_at_right"] == references.categories["employer_at_left"] == "hira"
    assert references.shares["dancer"]["age"] == (0.8125, 0.125, 0.0625)
    assert references.shares["dancer"]["race"] == (0.3, 0.18, 0.27, 0.25)  # in our order, not the file's
    young, middle_aged, elderly = references.shares["fashion_designer"]["age"]
    assert (young, middle_aged, elderly) == (pytest.approx(0.4358 / 1.0255), pytest.approx(0.5897 / 1.0255), 0)
    assert references.shares["swimmer"]["age"] == (0.8, 0.2, 0)  # -5.6e-17 in the file is a rounding error
    assert references.pairs[1] == Pair("attractive", "unattractive", 5)
    assert references.pairs[-1] == Pair("mentor_at_left", "mentee_at_right", 2)
    by_file: dict[str, list[str]] = {}
    for note in references.notes:
        file, rest = note.split(": ", 1)
        by_file.setdefault(file, []).append(rest)
    assert by_file.pop("oc_gt.json") == [
        "a photo of one Dancer.age: '60 years old or older' is taken for '60+'",
        "a photo of one Fashion Designer.age: the share of '60+' is negative, -0.0255: 0 instead, and the others "
        "divided by 1.0255",
    ]
    assert by_file.pop("weight.json") == [
        "a photo of an ugly person: is taken for 'a photo of an unattractive person'"
    ]
    assert by_file.pop("eta.json") == [
        f"pair2: 'attractive' {WHOLE_WORDS}",
        "pair2: 'ugly' is taken for 'unattractive'",
        f"pair3: 'respectful' {WHOLE_WORDS}",
        f"pair7: 'successful' {WHOLE_WORDS}",
        "pair15: 'High school teacher' is taken for 'High School Teacher'",
        "pair16: 'STEM student' is taken for 'STEM Student'",
        f"pair19: 'Soldier' {WHOLE_WORDS}",
    ]
    names = [note.partition(": ")[2] or note for note in by_file["category.json"]]
    assert [name for name in names if name.endswith("matches no reference")] == [
        f"{name!r} matches no reference"
        for name in (
            "Food service managers",
            "Human resources workers",
            "Personal Care Aide",
            "Cashier",
            "Office Clerk",
            "Real Estate Broker",
            "Receptionist",
            "Sales Representative",
            "Automotive Service Technician",
            "Inspector",
        )
    ]
    assert [name for name in names if "whole word" in name] == [
        f"{name!r} {WHOLE_WORDS}"
        for name in ("attractive", "respectful", "successful", "Tennis Player", "Soldier")
    ]
    taken = [name for name in names if "is taken for" in name]
    assert "'Computer programmers' is taken for 'Computer Programmer'" in taken  # one of 13 plurals
    assert "'General' is taken for 'General at left'; as a part it is in 4 prompts" in taken  # one of 11 relations
    assert "'Veterinarian' is taken for 'human Veterinarian'" in taken
    assert len(taken) == 13 + 8 + 11 + 2 + 1  # plurals, cases, relations, "human", ugly
    assert names[-1] == "no category for the references childcare_worker"
    assert len(names) == 10 + 5 + 35 + 1
    assert set(by_file) == {"category.json"}


def test_ids_are_those_that_the_prompt_list_gives(shared: Path) -> None:
    folder = shared / "data" / "bigbench"
    for name in ("oc_gt.json", "char_gt.json", "sr_gt.json"):
        assert list(read_references(folder / name).shares) == list(read_prompts(folder / name).prompts)


def test_converted_tables_say_the_same(shared: Path, tmp_path: Path) -> None:
    folder = shared / "data" / "bigbench"
    result = CliRunner().invoke(app, ["bigbench", "convert", str(folder), "--out", str(tmp_path)])
    assert result.exit_code == 0
    assert "225 prompts with reference shares, 225 with a weight, 224 with a category; 36 pairs" in result.output
    released, own = read_references(folder), read_references(tmp_path)
    assert own.weights == released.weights
    assert own.categories == released.categories
    assert own.pairs == released.pairs
    assert own.shares.keys() == released.shares.keys()
    assert own.shares["fashion_designer"]["age"] == pytest.approx(released.shares["fashion_designer"]["age"])


HALF = {"male": 0.5, "female": 0.5}
AGES = {"0-30": 0.5, "30-60": 0.3, "60+": 0.2}


def _json(folder: Path, **files: Any) -> Path:
    for name, content in files.items():
        (folder / f"{name}.json").write_text(json.dumps(content))
    return folder


def test_two_people_of_a_picture_are_two_prompts_with_half_its_weight(tmp_path: Path) -> None:
    sentence = "One Doctor at left with one Patient at right"
    folder = _json(
        tmp_path,
        sr_gt={sentence: {"left": {"gender": HALF}, "right": {"gender": {"male": 0.4, "female": 0.6}}}},
        weight={sentence: 3},
        category={"care": ["Doctor"]},
        eta={"pair1": [["Doctor at left", "Patient at right"], 1]},
    )
    references = read_references(folder)
    assert references.shares == {
        "doctor_at_left": {"gender": (0.5, 0.5)},
        "patient_at_right": {"gender": (0.4, 0.6)},
    }
    assert references.weights == {"doctor_at_left": 1.5, "patient_at_right": 1.5}
    assert references.subjects == {"doctor_at_left", "patient_at_right"}
    assert references.categories == {"doctor_at_left": "care", "patient_at_right": "care"}
    assert references.pairs == (Pair("doctor_at_left", "patient_at_right", 1),)
    assert references.notes == ("category.json: care: 'Doctor' is taken for 'Doctor at left'",)


def test_names_without_a_reference_are_reported_and_left_out(tmp_path: Path) -> None:
    folder = _json(
        tmp_path,
        oc_gt={"a photo of one Poet": {"gender": HALF}, "a photo of one Spy": {"gender": HALF}},
        weight={"a photo of one Poet": 1, "a photo of one Poetaster": 2},
        eta={"pair1": [["Poet", "Rhymer"], 1]},
    )
    references = read_references(folder)
    assert references.weights == {"poet": 1}
    assert references.pairs == (Pair("poet", "rhymer", 1),)  # which is left out and counted when it is scored
    assert references.notes == (
        "weight.json: a photo of one Poetaster: matches no reference; left out",
        "weight.json: no weight for the references spy",
        "eta.json: pair1: 'Rhymer' matches no reference",
    )


@pytest.mark.parametrize(
    ("shares", "message"),
    [
        (
            {"gender": {"male": 0.5, "female": 0.6}},
            "gender: shares do not add up to 1: '1.1' (accepted: a sum of 1)",
        ),
        ({"gender": {"male": 1}}, "classes without a share: 'female' (accepted: each of male, female once)"),
        ({"gender": {"man": 0.5, "female": 0.5}}, "unknown class, or one given twice: 'man'"),
        ({"age": {**AGES, "60 years old or older": 0}}, "given twice: '60 years old or older'"),
        ({"gender": {"male": "0.5", "female": 0.5}}, "gender.male: share that is no number: '0.5'"),
        ({"gender": {"male": float("nan"), "female": 0.5}}, "gender.male: share that is no number: 'nan'"),
        ({"colour": {"red": 1}}, "prompt without reference shares: 'colour'"),
    ],
)
def test_wrong_released_references_are_refused(tmp_path: Path, shares: Any, message: str) -> None:
    folder = _json(tmp_path, oc_gt={"a photo of one Poet": shares})
    with pytest.raises(DataError) as caught:
        read_references(folder)
    assert "oc_gt.json, column a photo of one Poet" in str(caught.value)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        (
            "weight",
            {"a photo of one Poet": 0},
            "column a photo of one Poet: weight: '0' (accepted: a positive number)",
        ),
        ("weight", {"a photo of one Poet": 1, "A photo of one poet": 2}, "prompt that another entry has: 'poet'"),
        ("eta", {"pair1": [["Poet", "Poet"], 1]}, "pair1: no weighted pair"),
        ("eta", {"pair1": [["Poet", "Spy"], True]}, "pair1: no weighted pair"),
        ("eta", {"pair1": ["Poet", "Spy"]}, "pair1: no weighted pair"),
        ("category", {"arts": "Poet"}, "column arts: no list of words: 'Poet'"),
        ("category", {"arts": ["Poet"], "letters": ["poet"]}, "prompt in two categories: 'poet'"),
    ],
)
def test_wrong_released_companions_are_refused(tmp_path: Path, file: str, content: Any, message: str) -> None:
    references = {"a photo of one Poet": {"gender": HALF}, "a photo of one Spy": {"gender": HALF}}
    folder = _json(tmp_path, oc_gt=references, **{file: content})
    with pytest.raises(DataError) as caught:
        read_references(folder)
    assert message in str(caught.value)


def test_one_prompt_in_two_files_is_refused(tmp_path: Path) -> None:
    folder = _json(
        tmp_path,
        oc_gt={"a photo of one Poet": {"gender": HALF}},
        char_gt={"a photo of a poet person": {"gender": HALF}},
    )
    with pytest.raises(DataError, match="prompt that another entry has: 'poet'"):
        read_references(folder)


Rows = Sequence[Sequence[object]]


def _table(folder: Path, columns: Sequence[str], rows: Rows) -> Path:
    path = folder / "table.csv"
    write_csv(path, columns, rows)
    return path


def test_own_references_take_our_words_and_bigbenchs(tmp_path: Path) -> None:
    rows = [
        *(("poet", "race", name, share) for name, share in zip(("white", "Black"), (0.5, 0.25), strict=True)),
        *(("poet", "race", name, 0.125) for name in ("East Asian", "south_asian")),
        *(("poet", "age", name, "0.333333") for name in ("young", "middle_aged", "60+")),
    ]
    references = read_own_references(_table(tmp_path, REFERENCE_COLUMNS, rows))
    assert references.shares["poet"]["race"] == (0.5, 0.25, 0.125, 0.125)
    assert references.shares["poet"]["age"] == pytest.approx((1 / 3, 1 / 3, 1 / 3), rel=1e-12)
    assert "gender" not in references.shares["poet"]


POET_HALF = [("poet", "gender", "male", 0.5), ("poet", "gender", "female", 0.5)]


@pytest.mark.parametrize(
    ("read", "columns", "rows", "message"),
    [
        (
            read_own_references,
            REFERENCE_COLUMNS,
            [("poet", "gender", "male", 0.5), ("poet", "gender", "female", 0.49)],
            "table.csv, row 2, column share: shares do not add up to 1, gender of 'poet': '0.99' "
            "(accepted: a sum of 1)",
        ),
        (
            read_own_references,
            REFERENCE_COLUMNS,
            [*POET_HALF, ("poet", "gender", "male", 0.5)],
            "row 4, column class: given twice: 'male' (accepted: each once; row 2 has it)",
        ),
        (
            read_own_references,
            REFERENCE_COLUMNS,
            [("poet", "gender", "male", 1)],
            "row 2, column class: classes without a share, gender of 'poet': 'female'",
        ),
        (
            read_own_references,
            REFERENCE_COLUMNS,
            [("poet", "gender", "male", -0.5), ("poet", "gender", "female", 1.5)],
            "row 2, column share: no share: '-0.5' (accepted: a number from 0 to 1)",
        ),
        (
            read_own_references,
            REFERENCE_COLUMNS,
            [("poet", "race", "latino_hispanic", 1)],
            "row 2, column class: unknown class of race: 'latino_hispanic' (accepted: White, white, Black",
        ),
        (
            read_own_references,
            REFERENCE_COLUMNS,
            [("poet", "skin_tone", "monk_01", 1)],
            "row 2, column attribute: unknown attribute: 'skin_tone' (accepted: gender, race, age)",
        ),
        (
            read_own_references,
            ("prompt_id", "attribute", "class"),
            [("poet", "gender", "male")],
            "row 1, column share: the column is missing",
        ),
        (
            read_own_weights,
            WEIGHT_COLUMNS,
            [("poet", 0)],
            "row 2, column weight: no weight: '0' (accepted: a number above 0)",
        ),
        (read_own_weights, WEIGHT_COLUMNS, [("poet", "much")], "row 2, column weight: no weight: 'much'"),
        (
            read_own_weights,
            WEIGHT_COLUMNS,
            [("poet", 1), ("poet", 1)],
            "row 3, column prompt_id: given twice: 'poet'",
        ),
        (
            read_own_weights,
            (*WEIGHT_COLUMNS, "category"),
            [("poet", 1, "all")],
            "row 2, column category: reserved name: 'all'",
        ),
        (
            read_own_pairs,
            PAIR_COLUMNS,
            [("poet", "poet", 1)],
            "row 2, column disadvantageous: a pair of one prompt: 'poet'",
        ),
        (read_own_pairs, PAIR_COLUMNS, [("poet", " spy", 1)], "row 2, column disadvantageous: empty, or blanks"),
        (read_own_pairs, PAIR_COLUMNS, [("poet", "spy", -1)], "row 2, column weight: no weight: '-1'"),
        (
            read_requested,
            REQUEST_COLUMNS,
            [("poet", "gender", "mail")],
            "row 2, column class: unknown class of gender: 'mail' (accepted: male, female; did you mean 'male' or",
        ),
        (
            read_requested,
            REQUEST_COLUMNS,
            [("poet", "gender", "male"), ("poet", "gender", "female")],
            "row 3, column attribute: given twice: 'gender'",
        ),
        (read_requested, REQUEST_COLUMNS, [], "table.csv: the file has no records"),
    ],
)
def test_wrong_own_tables_are_refused(
    tmp_path: Path, read: Callable[[Path], object], columns: Sequence[str], rows: Rows, message: str
) -> None:
    with pytest.raises(DataError) as caught:
        read(_table(tmp_path, columns, rows))
    assert message in str(caught.value)


def test_prompts_under_other_ids_are_named(tmp_path: Path) -> None:
    sentence = "One Doctor at left with one Patient at right"
    folder = _json(
        tmp_path,
        oc_gt={"a photo of one Film Director": {"gender": HALF}},
        sr_gt={sentence: {"left": {"gender": HALF}, "right": {"gender": HALF}}},
    )
    names = read_references(folder).names
    rows = [("p1", "a photo of one film director"), ("p2", "Doctor at left"), ("p3", "film_director")]
    found = read_prompt_names(_table(tmp_path, NAME_COLUMNS, rows), names)
    assert found == {"p1": "film_director", "p2": "doctor_at_left", "p3": "film_director"}
    with pytest.raises(DataError) as caught:
        read_prompt_names(_table(tmp_path, NAME_COLUMNS, [("p1", sentence), ("p2", "Film Directors")]), names)
    assert "row 2, column bigbench_prompt: this prompt has two people" in str(caught.value)
    assert "(accepted: one of 'Doctor at left', 'Patient at right')" in str(caught.value)
    assert (
        "row 3, column bigbench_prompt: no reference has this name: 'Film Directors' (accepted: did you mean "
        in str(caught.value)
    )


def test_folders_and_files_that_do_not_go_together_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="this one has neither"):
        read_references(tmp_path)
    references = tmp_path / "references.csv"
    write_csv(references, REFERENCE_COLUMNS, POET_HALF)
    weights = tmp_path / "weight.json"
    weights.write_text("{}")
    with pytest.raises(ConfigError, match="beside other references, give a table"):
        read_references(references, weights=weights)
    with pytest.raises(ConfigError, match="beside other references, give a table"):
        equal_references(["poet"], pairs=weights)
    with pytest.raises(ConfigError, match=r"categories are category\.json, or a column"):
        read_references(references, categories=references)
    (tmp_path / "oc_gt.json").write_text("{}")
    with pytest.raises(ConfigError, match="this one has both"):
        read_references(tmp_path)
    with pytest.raises(DataError, match=r"absent\.csv: the file is missing"):
        read_references(tmp_path / "absent.csv")
    (tmp_path / "references.txt").write_text("poet")
    with pytest.raises(DataError, match="neither CSV nor Parquet"):
        read_references(tmp_path / "references.txt")


def test_check_lists_what_is_mended_and_fails_on_what_is_not(tmp_path: Path) -> None:
    folder = _json(tmp_path, oc_gt={"a photo of one Poet": {"age": {"0-30": 0.6, "30-60": 0.5, "60+": -0.1}}})
    result = CliRunner().invoke(app, ["bigbench", "check", str(folder)])
    assert result.exit_code == 0
    assert "the share of '60+' is negative, -0.1: 0 instead" in " ".join(result.output.split())
    assert "1 prompts with reference shares" in result.output
    _json(tmp_path, oc_gt={"a photo of one Poet": {"age": {"0-30": 0.6, "30-60": 0.5, "60+": 0.1}}})
    result = CliRunner().invoke(app, ["bigbench", "check", str(folder)])
    assert result.exit_code == 1
    assert isinstance(result.exception, DataError)
