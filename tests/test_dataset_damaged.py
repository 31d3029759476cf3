"""Damaged image sets: many mistakes at once, damaged files, files and labels that are not there."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from damaged_set import (
    GENDER_LABELS,
    IMAGE_FILE,
    LABELS,
    append,
    problems_of,
    replace,
    write_sound,
)

from detector_bench.dataset import ImageSet, check
from detector_bench.errors import DataError, Problem


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_sound(tmp_path / "set")


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


@pytest.mark.slow
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


@pytest.mark.slow
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


def test_each_missing_file_is_a_mistake_but_labels(tmp_path: Path) -> None:
    assert [problem.file for problem in problems_of(tmp_path)] == ["images.csv", "prompts.csv"]
    every = ["images.csv", "prompts.csv", "labels.csv"]
    assert [problem.file for problem in problems_of(tmp_path, require_labels=True)] == every


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
        assert all("--allow-root" in problem.accepted for problem in problems)

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


@pytest.mark.slow
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
