"""Each single mistake in an image set is reported alone: its place, the bad value, and what is accepted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from damaged_set import (
    ATTRIBUTE_NAMES,
    BELOW,
    GENDER_LABELS,
    LABELS,
    append,
    problems_of,
    replace,
    write_sound,
)

from detector_bench.dataset import ImageSet
from detector_bench.errors import Problem


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_sound(tmp_path / "set")


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
    assert problems_of(folder, require_labels=True) == expected
