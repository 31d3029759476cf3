"""Damaged image sets: every mistake is reported, at its place, with the bad value and what is accepted."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from detector_bench.dataset import ImageSet, check
from detector_bench.errors import DataError, Problem

IMAGES = """\
image_id,path,t2i_model,prompt_id
i1,images/1.png,sdxl,nurse
i2,images/2.png,sdxl,pilot
i3,images/3.png,sd3,nurse
"""
PROMPTS = """\
prompt_id,category,word,prompt
nurse,profession,nurse,"a photo of a nurse, smiling"
pilot,profession,pilot,
"""
LABELS = """\
image_id,annotator,attribute,label,reason
i1,a,gender,female,
i1,b,gender,female,
i2,a,gender,male,
i2,b,gender,low_quality,blurred
i3,a,gender,others,long free text
i3,a,age,young,
"""
GENDER_LABELS = "male, female, low_quality, others"
ATTRIBUTE_NAMES = "gender, age, race, skin_tone"
BELOW = "a path below the image set's folder, with / between its parts and without .."
IMAGE_FILE = "an image file in the image set's folder"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "set"
    (folder / "images").mkdir(parents=True)
    for number in (1, 2, 3):
        Image.new("RGB", (4, 4)).save(folder / "images" / f"{number}.png")
    (folder / "images.csv").write_text(IMAGES, encoding="utf-8")
    (folder / "prompts.csv").write_text(PROMPTS, encoding="utf-8")
    (folder / "labels.csv").write_text(LABELS, encoding="utf-8")
    return folder


def problems_of(folder: Path, **options: bool) -> list[Problem]:
    with pytest.raises(DataError) as caught:
        ImageSet.load(folder, **options)
    for problem in caught.value.problems:
        assert str(problem) in str(caught.value)
    return list(caught.value.problems)


def replace(name: str, old: str, new: str) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        text = (folder / name).read_text(encoding="utf-8")
        assert text.count(old) == 1, "the damage must hit exactly one place"
        (folder / name).write_text(text.replace(old, new), encoding="utf-8")

    return damage


def append(name: str, line: str) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        with (folder / name).open("a", encoding="utf-8") as file:
            file.write(line + "\n")

    return damage


CASES: dict[str, tuple[Callable[[Path], None], list[Problem]]] = {
    "unknown label": (
        replace("labels.csv", "i2,a,gender,male,", "i2,a,gender,man,"),
        [Problem("labels.csv", "unknown label for gender", 4, "label", "man", GENDER_LABELS)],
    ),
    "label of another attribute": (
        replace("labels.csv", "i3,a,age,young,", "i3,a,age,female,"),
        [
            Problem(
                "labels.csv",
                "unknown label for age",
                7,
                "label",
                "female",
                "young, middle_aged, elderly, low_quality, others",
            )
        ],
    ),
    "label with a capital and a blank": (
        replace("labels.csv", "i2,a,gender,male,", "i2,a,gender, Male,"),
        [Problem("labels.csv", "unknown label for gender", 4, "label", " Male", GENDER_LABELS)],
    ),
    "unknown attribute": (
        replace("labels.csv", "i3,a,age,young,", "i3,a,hair,young,"),
        [Problem("labels.csv", "unknown attribute", 7, "attribute", "hair", ATTRIBUTE_NAMES)],
    ),
    "unknown reason": (
        replace("labels.csv", "low_quality,blurred", "low_quality,ugly"),
        [
            Problem(
                "labels.csv",
                "unknown reason for low_quality",
                5,
                "reason",
                "ugly",
                "several_people, no_person, face_not_visible, blurred, ambiguous, or nothing",
            )
        ],
    ),
    "label for an unknown image": (
        append("labels.csv", "i9,a,gender,male,"),
        [
            Problem(
                "labels.csv",
                "label for an unknown image",
                8,
                "image_id",
                "i9",
                "an image_id that images.csv lists",
            )
        ],
    ),
    "image without any label": (
        append("images.csv", "i4,images/3.png,sd3,pilot"),
        [
            Problem(
                "images.csv",
                "image without any label",
                5,
                "image_id",
                "i4",
                "at least one row for it in labels.csv",
            )
        ],
    ),
    "duplicate label": (
        append("labels.csv", "i1,a,gender,female,"),
        [
            Problem(
                "labels.csv",
                "duplicate label",
                8,
                "label",
                "female",
                "one label per image, annotator and attribute; row 2 says 'female'",
            )
        ],
    ),
    "contradicting label": (
        append("labels.csv", "i1,b,gender,male,"),
        [
            Problem(
                "labels.csv",
                "label that contradicts an earlier one of the same annotator",
                8,
                "label",
                "male",
                "one label per image, annotator and attribute; row 3 says 'female'",
            )
        ],
    ),
    "empty label": (
        replace("labels.csv", "i2,a,gender,male,", "i2,a,gender,,"),
        [Problem("labels.csv", "empty cell", 4, "label", "", GENDER_LABELS)],
    ),
    "empty attribute": (
        replace("labels.csv", "i3,a,age,young,", "i3,a,,young,"),
        [Problem("labels.csv", "empty cell", 7, "attribute", "", ATTRIBUTE_NAMES)],
    ),
    "empty image id of a label": (
        append("labels.csv", ",a,gender,male,"),
        [Problem("labels.csv", "empty cell", 8, "image_id", "", "some text")],
    ),
    "blank word": (
        replace("prompts.csv", "pilot,profession,pilot,", "pilot,profession,  ,"),
        [Problem("prompts.csv", "empty cell", 3, "word", "  ", "some text")],
    ),
    "reserved annotator": (
        append("labels.csv", "i1,consensus,gender,female,"),
        [
            Problem(
                "labels.csv",
                "reserved name",
                8,
                "annotator",
                "consensus",
                "any name but 'consensus', 'all_agree', 'dawid_skene'",
            )
        ],
    ),
    "reserved T2I model": (
        replace("images.csv", "2.png,sdxl", "2.png,all"),
        [Problem("images.csv", "reserved name", 3, "t2i_model", "all", "any name but 'all'")],
    ),
    "reserved category": (
        replace("prompts.csv", "pilot,profession", "pilot,all"),
        [Problem("prompts.csv", "reserved name", 3, "category", "all", "any name but 'all'")],
    ),
    "duplicate image": (
        append("images.csv", "i2,images/2.png,sdxl,pilot"),
        [
            Problem(
                "images.csv",
                "duplicate image_id",
                5,
                "image_id",
                "i2",
                "one that no other row has; row 3 has it",
            )
        ],
    ),
    "duplicate prompt": (
        append("prompts.csv", "nurse,profession,nurse,"),
        [
            Problem(
                "prompts.csv",
                "duplicate prompt_id",
                4,
                "prompt_id",
                "nurse",
                "one that no other row has; row 2 has it",
            )
        ],
    ),
    "unknown prompt": (
        replace("images.csv", "i2,images/2.png,sdxl,pilot", "i2,images/2.png,sdxl,pilots"),
        [
            Problem(
                "images.csv",
                "prompt_id that prompts.csv does not list",
                3,
                "prompt_id",
                "pilots",
                "did you mean 'pilot'?",
            )
        ],
    ),
    "path climbs out": (
        replace("images.csv", "images/2.png", "images/../../2.png"),
        [Problem("images.csv", "path that leaves the folder", 3, "path", "images/../../2.png", BELOW)],
    ),
    "absolute path": (
        replace("images.csv", "images/2.png", "/etc/passwd"),
        [Problem("images.csv", "path that leaves the folder", 3, "path", "/etc/passwd", BELOW)],
    ),
    "drive letter": (
        replace("images.csv", "images/2.png", "C:/2.png"),
        [Problem("images.csv", "path that leaves the folder", 3, "path", "C:/2.png", BELOW)],
    ),
    "backslashes": (
        replace("images.csv", "images/2.png", "images\\2.png"),
        [Problem("images.csv", "path that leaves the folder", 3, "path", "images\\2.png", BELOW)],
    ),
    "blanks around an id": (
        replace("images.csv", "i2,images", "i2 ,images"),
        [Problem("images.csv", "blanks around the text", 3, "image_id", "i2 ", "'i2'")],
    ),
    "NUL in an id": (
        replace("labels.csv", "i2,a,gender", "i2,a\0,gender"),
        [
            Problem(
                "labels.csv",
                "control character",
                4,
                "annotator",
                "a\0",
                "text without line breaks, tabs or NUL",
            )
        ],
    ),
    "row too long": (
        replace("labels.csv", "i2,a,gender,male,", "i2,a,gender,male,,x"),
        [
            Problem(
                "labels.csv",
                "row has 6 cells",
                4,
                None,
                "i2,a,gender,male,,x",
                "5 cells; a cell with a comma or a line break stands in quotation marks",
            )
        ],
    ),
    "row too short": (
        replace("images.csv", "i2,images/2.png,sdxl,pilot", "i2"),
        [
            Problem(
                "images.csv",
                "row has 1 cell",
                3,
                None,
                "i2",
                "4 cells; a cell with a comma or a line break stands in quotation marks",
            )
        ],
    ),
    "quotation mark never closed, last cell": (
        replace("labels.csv", "i3,a,gender,others,long", 'i3,a,gender,others,"long'),
        [
            Problem(
                "labels.csv",
                "a quotation mark is opened and never closed, so the rest of the file is one cell",
                6,
                "reason",
                "long free text\ni3,a,age,young,",
                "quotation marks in pairs",
            )
        ],
    ),
    "quotation mark never closed, middle cell": (
        replace("labels.csv", "i3,a,gender,others", 'i3,a,"gender,others'),
        [
            Problem(
                "labels.csv",
                "a quotation mark is opened and never closed, so the rest of the file is one cell",
                6,
                None,
                'i3,a,"gender,others,long free text\ni3,a,age,young,',
                "quotation marks in pairs",
            )
        ],
    ),
    "missing column": (
        replace("prompts.csv", "prompt_id,category,word,prompt", "prompt_id,kind,word,prompt"),
        [Problem("prompts.csv", "the column is missing", 1, "category", None, "prompt_id,category,word,prompt")],
    ),
    "column almost right": (
        replace("labels.csv", "label,reason", "Lable,reason"),
        [
            Problem(
                "labels.csv",
                "the column is missing; did you mean 'label'? The header says",
                1,
                "label",
                "Lable",
                "image_id,annotator,attribute,label",
            )
        ],
    ),
    "column twice": (
        replace("prompts.csv", "prompt_id,category,word,prompt", "prompt_id,category,word,word,prompt"),
        [
            Problem("prompts.csv", "column name used twice", 1, "word", "word", "each name once"),
            # The records have one cell less than this header.
            *(
                Problem(
                    "prompts.csv",
                    "row has 4 cells",
                    row,
                    None,
                    text,
                    "5 cells; a cell with a comma or a line break stands in quotation marks",
                )
                for row, text in (
                    (2, 'nurse,profession,nurse,"a photo of a nurse, smiling"'),
                    (3, "pilot,profession,pilot,"),
                )
            ),
            Problem("prompts.csv", "the file has no records", accepted="at least one row below the header"),
        ],
    ),
    "no records": (
        lambda folder: (folder / "labels.csv").write_text(LABELS.splitlines()[0] + "\n"),
        [Problem("labels.csv", "the file has no records", accepted="at least one row below the header")],
    ),
    "header without a line end": (
        lambda folder: (folder / "labels.csv").write_text(LABELS.splitlines()[0]),
        [Problem("labels.csv", "the file has no records", accepted="at least one row below the header")],
    ),
    "empty file": (
        lambda folder: (folder / "labels.csv").write_bytes(b""),
        [Problem("labels.csv", "the file is empty", accepted="a header row and records")],
    ),
    "missing file": (
        lambda folder: (folder / "labels.csv").unlink(),
        [Problem("labels.csv", "the file is missing", accepted="labels.csv or labels.parquet in {folder}")],
    ),
    "both formats": (
        lambda folder: pd.read_csv(folder / "prompts.csv").to_parquet(folder / "prompts.parquet"),
        [
            Problem(
                "prompts.csv",
                "prompts.parquet lies beside it, so it is unclear which of the two counts",
                accepted="either prompts.csv or prompts.parquet",
            )
        ],
    ),
    "semicolons": (
        lambda folder: (folder / "labels.csv").write_text(LABELS.replace(",", ";")),
        [
            Problem(
                "labels.csv",
                "the header has none of the columns that this file needs (its names are not separated by commas)",
                1,
                None,
                "image_id;annotator;attribute;label;reason",
                "image_id,annotator,attribute,label",
            )
        ],
    ),
    "UTF-16": (
        lambda folder: (folder / "labels.csv").write_bytes(LABELS.encode("utf-16")),
        [Problem("labels.csv", "wrong encoding", None, None, "UTF-16", "UTF-8 text")],
    ),
    "Latin-1": (
        lambda folder: (folder / "labels.csv").write_bytes(
            LABELS.replace("long free", "déjà vu").encode("latin-1")
        ),
        [
            Problem(
                "labels.csv",
                "wrong encoding: text is not UTF-8 (first at byte {byte} of the file)",
                6,
                "reason",
                "d\N{REPLACEMENT CHARACTER}j\N{REPLACEMENT CHARACTER} vu text",
                "UTF-8 text",
            )
        ],
    ),
    "not Parquet": (
        lambda folder: (folder / "labels.csv").rename(folder / "labels.parquet"),
        [
            Problem(
                "labels.parquet",
                "cannot be read as Parquet (Parquet magic bytes not found in footer. Either the file is corrupted "
                "or this is not a parquet file.)",
                accepted="a whole Parquet file",
            )
        ],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_single_mistake_is_reported_alone(folder: Path, case: str) -> None:
    damage, expected = CASES[case]
    ImageSet.load(folder, check_files=True)  # sound before the damage
    damage(folder)
    byte = str(LABELS.encode().index(b"long free") + 1)
    expected = [
        Problem(
            item.file,
            item.message.replace("{byte}", byte),
            item.row,
            item.column,
            item.value,
            item.accepted.replace("{folder}", str(folder)) if item.accepted else None,
        )
        for item in expected
    ]
    assert problems_of(folder) == expected


def test_message_shows_file_row_column_value_and_accepted(folder: Path) -> None:
    replace("labels.csv", "i2,a,gender,male,", "i2,a,gender,man,")(folder)
    with pytest.raises(DataError) as caught:
        ImageSet.load(folder)
    assert str(caught.value) == (
        "1 mistake in the data files:\n"
        "  labels.csv, row 4, column label: unknown label for gender: 'man' "
        "(accepted: male, female, low_quality, others)"
    )


def test_mistakes_in_all_files_are_reported_at_once(folder: Path) -> None:
    replace("images.csv", "i1,images/1.png", "i1,../1.png")(folder)
    replace("images.csv", "i2,images/2.png,sdxl,pilot", "i2,images/2.png,sdxl,astronaut")(folder)
    append("images.csv", "i4,images/3.png,,nurse")(folder)
    append("prompts.csv", "nurse,profession,nurse,")(folder)
    replace("labels.csv", "i1,a,gender,female", "i1,a,gendre,female")(folder)
    replace("labels.csv", "i2,a,gender,male", "i2,a,gender,M")(folder)
    append("labels.csv", "nobody,a,gender,male,")(folder)
    found = {(problem.file, problem.row, problem.column, problem.value) for problem in problems_of(folder)}
    assert found == {
        ("images.csv", 2, "path", "../1.png"),
        ("images.csv", 3, "prompt_id", "astronaut"),
        ("images.csv", 5, "t2i_model", ""),
        ("images.csv", 5, "image_id", "i4"),
        ("prompts.csv", 4, "prompt_id", "nurse"),
        ("labels.csv", 2, "attribute", "gendre"),
        ("labels.csv", 4, "label", "M"),
        ("labels.csv", 8, "image_id", "nobody"),
    }


def test_a_mistake_in_every_row_is_listed_twenty_times_and_counted(folder: Path) -> None:
    labels = "".join(f"i1,annotator{number},gender,man,\n" for number in range(1000))
    (folder / "labels.csv").write_text(LABELS + labels)
    problems = problems_of(folder)
    assert len(problems) == 21
    assert [problem.row for problem in problems[:20]] == list(range(8, 28))
    assert problems[20] == Problem(
        "labels.csv", "... and 980 more of this kind (unknown label for gender)", column="label"
    )


def test_a_long_bad_value_is_cut(folder: Path) -> None:
    replace("labels.csv", "i2,a,gender,male,", f"i2,a,gender,{'m' * 5000},")(folder)
    (problem,) = problems_of(folder)
    assert problem.value == "m" * 79 + "…"


def test_rows_are_counted_past_blank_lines_line_breaks_in_cells_and_ragged_rows(folder: Path) -> None:
    (folder / "labels.csv").write_text(
        "image_id,annotator,attribute,label,reason\n"  # 1
        "\n"  # 2
        'i1,a,gender,others,"two\nlines"\n'  # 3
        "i2,a,gender\n"  # 4: ragged
        ",,,,\n"  # 5: blank
        "i2,a,gender,man,\n"  # 6
        "i3,a,gender,female,\n\n"  # 7, 8
        "i3,b,gender,woman,\n\n"  # 9, 10
    )
    found = [(problem.row, problem.value) for problem in problems_of(folder)]
    assert found == [(4, "i2,a,gender"), (6, "man"), (9, "woman")]


def test_what_refers_to_a_ragged_row_is_not_a_mistake_too(folder: Path) -> None:
    replace("images.csv", "i2,images/2.png,sdxl,pilot", "i2,images/2.png,sdxl,pilot,x,y")(folder)
    replace("prompts.csv", "pilot,profession,pilot,", "pilot,profession")(folder)
    assert [(problem.file, problem.row) for problem in problems_of(folder)] == [
        ("images.csv", 3),
        ("prompts.csv", 3),
    ]


def test_many_ragged_rows_keep_their_numbers_in_a_large_file(folder: Path) -> None:
    lines = [f"i1,annotator{number},gender,female," for number in range(300_000)]
    for position in (5, 150_000, 299_999):
        lines[position] = "i1,ragged"
    lines[250_000] = "i1,other,gender,man,"
    (folder / "labels.csv").write_text(LABELS + "\n".join(lines) + "\n")
    # Seven rows stand above the first of these lines, and rows count from 1.
    found = [(problem.row, problem.value) for problem in problems_of(folder)]
    assert found == [
        (13, "i1,ragged"),
        (150_008, "i1,ragged"),
        (300_007, "i1,ragged"),
        (250_008, "man"),
    ]


def test_a_large_file_of_ragged_rows_is_given_up_soon(folder: Path) -> None:
    (folder / "labels.csv").write_text(LABELS + "i1,a,gender\n" * 300_000)
    problems = problems_of(folder)
    assert [problem.row for problem in problems[:20]] == list(range(8, 28))
    assert [(problem.file, problem.message) for problem in problems[20:]] == [
        ("labels.csv", "... and 99,980 more of this kind (row has 3 cells)"),
        ("labels.csv", "100,000 such rows: the rest of the file was not checked"),
    ]


@pytest.mark.parametrize("file", ["images.csv", "prompts.csv", "labels.csv"])
def test_a_folder_in_a_files_place(folder: Path, file: str) -> None:
    (folder / file).unlink()
    (folder / file).mkdir()
    assert problems_of(folder) == [Problem(file, "it is not a file", accepted="a CSV or Parquet file")]


def test_no_folder(tmp_path: Path) -> None:
    assert [(problem.file, problem.message) for problem in problems_of(tmp_path / "nowhere")] == [
        (str(tmp_path / "nowhere"), "no such folder")
    ]


def test_three_missing_files_are_three_mistakes(tmp_path: Path) -> None:
    assert [problem.file for problem in problems_of(tmp_path)] == ["images.csv", "prompts.csv", "labels.csv"]


class TestParquet:
    def write(self, folder: Path, columns: dict[str, pa.Array]) -> None:
        (folder / "labels.csv").unlink()
        pq.write_table(pa.table(columns), folder / "labels.parquet")

    def columns(self) -> dict[str, pa.Array]:
        return {
            "image_id": pa.array(["i1", "i2", "i3"]),
            "annotator": pa.array([1, 1, 1]),
            "attribute": pa.array(["gender"] * 3).dictionary_encode(),
            "label": pa.array(["male", "female", "others"], pa.large_string()),
        }

    def test_whole_numbers_and_categories_are_text(self, folder: Path) -> None:
        self.write(folder, self.columns())
        labels = ImageSet.load(folder).labels
        assert labels["annotator"].tolist() == ["1", "1", "1"]
        assert labels["attribute"].tolist() == ["gender"] * 3
        assert labels["reason"].tolist() == ["", "", ""]

    def test_wrong_type(self, folder: Path) -> None:
        self.write(folder, {**self.columns(), "annotator": pa.array([1.5, 2.5, 3.5])})
        assert problems_of(folder) == [
            Problem("labels.parquet", "wrong column type", None, "annotator", "double", "text or whole numbers")
        ]

    def test_other_columns_may_have_any_type(self, folder: Path) -> None:
        self.write(folder, {**self.columns(), "seconds": pa.array([1.5, 2.5, 3.5])})
        assert "seconds" not in ImageSet.load(folder).labels

    def test_missing_value_is_an_empty_cell(self, folder: Path) -> None:
        self.write(folder, {**self.columns(), "label": pa.array(["male", None, "others"])})
        assert problems_of(folder) == [Problem("labels.parquet", "empty cell", 3, "label", "", GENDER_LABELS)]

    def test_row_numbers_count_a_header_as_in_csv(self, folder: Path) -> None:
        self.write(folder, {**self.columns(), "label": pa.array(["male", "female", "man"])})
        assert problems_of(folder) == [
            Problem("labels.parquet", "unknown label for gender", 4, "label", "man", GENDER_LABELS)
        ]


class TestImageFiles:
    def test_missing_files_are_only_looked_for_when_asked(self, folder: Path) -> None:
        (folder / "images" / "2.png").unlink()
        ImageSet.load(folder)
        assert problems_of(folder, check_files=True) == [
            Problem("images.csv", "missing image file", 3, "path", "images/2.png", IMAGE_FILE)
        ]

    def test_folder_for_a_file(self, folder: Path) -> None:
        replace("images.csv", "images/2.png", "images")(folder)
        assert problems_of(folder, check_files=True) == [
            Problem("images.csv", "path of a folder, not of an image file", 3, "path", "images", IMAGE_FILE)
        ]

    @pytest.mark.parametrize("link", ["images/2.png", "images"])
    def test_link_that_leads_out(self, folder: Path, link: str) -> None:
        outside = folder.parent / "outside"
        (folder / link).rename(outside)
        (folder / link).symlink_to(outside)
        problems = problems_of(folder, check_files=True)
        assert {problem.message for problem in problems} == {"path that leaves the folder through a link"}
        assert [problem.row for problem in problems] == ([3] if link == "images/2.png" else [2, 3, 4])

    def test_link_that_stays_inside(self, folder: Path) -> None:
        (folder / "images").rename(folder / "elsewhere")
        (folder / "images").symlink_to(folder / "elsewhere")
        (folder / "images" / "2.png").unlink()
        (folder / "images" / "2.png").symlink_to("1.png")
        assert len(ImageSet.load(folder, check_files=True).images) == 3

    def test_link_to_itself_and_pipe(self, folder: Path) -> None:
        for number in (1, 2):
            (folder / "images" / f"{number}.png").unlink()
        (folder / "images" / "1.png").symlink_to("1.png")
        os.mkfifo(folder / "images" / "2.png")
        messages = [(problem.row, problem.message) for problem in problems_of(folder, check_files=True)]
        assert messages == [
            (2, "image file cannot be read (Too many levels of symbolic links)"),
            (3, "path of something that is not a regular file"),
        ]

    def test_a_file_that_many_rows_name_is_one_mistake(self, folder: Path) -> None:
        (folder / "images" / "3.png").unlink()
        for number in range(4, 40):
            append("images.csv", f"i{number},images/3.png,sd3,pilot")(folder)
        problems = problems_of(folder, check_files=True)
        assert [problem.row for problem in problems if problem.message == "missing image file"] == [4]


class TestUnlabelledImages:
    def test_allowed_when_labels_are_not_required(self, folder: Path) -> None:
        append("images.csv", "i4,images/3.png,sd3,pilot")(folder)
        assert len(ImageSet.load(folder, require_labels=False).images) == 4

    @pytest.mark.parametrize("content", [None, "image_id,annotator,attribute,label\n"])
    def test_no_labels_at_all(self, folder: Path, content: str | None) -> None:
        (folder / "labels.csv").unlink()
        if content is not None:
            (folder / "labels.csv").write_text(content)
        image_set = ImageSet.load(folder, require_labels=False)
        assert image_set.labels.columns.tolist() == [
            "image_id",
            "annotator",
            "attribute",
            "label",
            "reason",
            "value",
        ]
        assert len(image_set.labels) == 0
        assert image_set.attributes == ()
        assert image_set.truth("gender")["label"].isna().tolist() == [True, True, True]

    def test_labels_that_are_there_are_still_checked(self, folder: Path) -> None:
        replace("labels.csv", "i2,a,gender,male,", "i2,a,gender,man,")(folder)
        assert [problem.value for problem in problems_of(folder, require_labels=False)] == ["man"]


def test_damage_at_any_byte_gives_a_data_error_or_a_sound_set(folder: Path) -> None:
    """Each file cut, and with bytes put in or overwritten, at many places."""
    outcomes = Counter[bool]()
    for file in ("images.csv", "prompts.csv", "labels.csv"):
        whole = (folder / file).read_bytes()
        for position in range(0, len(whole), 11):
            for damaged in (
                whole[:position],
                whole[:position] + b'"' + whole[position:],
                whole[:position] + b"\xff\x00" + whole[position + 2 :],
                whole[:position] + b"\r\n\n," + whole[position:],
            ):
                (folder / file).write_bytes(damaged)
                report = check(folder)
                outcomes[report.ok] += 1
                assert all(problem.accepted for problem in report.problems if "... and" not in problem.message)
        (folder / file).write_bytes(whole)
    assert check(folder).ok
    assert outcomes[False] > 100
    assert outcomes[True] > 0
