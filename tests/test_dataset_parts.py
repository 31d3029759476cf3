"""A table of an image set that lies in several files of a folder, as Spark and others write them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from damaged_set import problems_of, write_sound

from detector_bench.dataset import ImageSet
from detector_bench.vocabulary.columns import IMAGE_COLUMNS


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_sound(tmp_path / "set")


ROWS = (("i1", "1.png", "m", "nurse"), ("i2", "2.png", "m", "nurse"), ("i3", "3.png", "n", "nurse"))


def write(folder: Path, parts: dict[str, dict[str, list[str]]], stem: str = "images") -> None:
    (folder / f"{stem}.csv").unlink()
    parted = folder / f"{stem}.parquet"
    parted.mkdir()
    (parted / "_SUCCESS").touch()
    (parted / "_metadata.parquet").write_bytes(b"not ours")
    for name, columns in parts.items():
        pq.write_table(pa.table(columns), parted / f"{name}.parquet")


def part(*rows: tuple[str, ...], columns: tuple[str, ...] = IMAGE_COLUMNS) -> dict[str, list[str]]:
    return {name: [row[place] for row in rows] for place, name in enumerate(columns)}


def test_they_are_one_table_in_the_order_of_their_names(folder: Path) -> None:
    whole = part(*ROWS)
    write(folder, {"part-1": part(*ROWS[:2]), "part-0": part(ROWS[2])})
    images = ImageSet.load(folder).images
    assert images["image_id"].tolist() == ["i3", "i1", "i2"]
    assert images["t2i_model"].tolist() == ["n", "m", "m"]
    shutil.rmtree(folder / "images.parquet")
    pq.write_table(pa.table({name: [cells[2], *cells[:2]] for name, cells in whole.items()}),
                   folder / "images.parquet")  # fmt: skip
    assert ImageSet.load(folder).images.equals(images)


def test_a_column_that_some_lack_is_empty_there(folder: Path) -> None:
    columns = ("image_id", "annotator", "attribute", "label")
    said = {"one": part(("i1", "a", "gender", "male"), columns=columns)}
    said["two"] = part(("i3", "b", "gender", "low_quality", "ambiguous"), columns=(*columns, "reason"))
    write(folder, said, stem="labels")
    image_set = ImageSet.load(folder)
    assert image_set.labels["reason"].tolist() == ["", "ambiguous"]
    assert image_set.labels["image_id"].tolist() == ["i1", "i3"]
    assert image_set.truth("gender")["label"].fillna("").tolist() == ["male", "", "low_quality"]


def test_mistakes_name_the_file_and_its_row(folder: Path) -> None:
    bad = ("i1", "../4.png", "n", "cook")
    write(folder, {"a": part(*ROWS), "b": part(("i4", "4.png", "n", "nurse"), bad)})
    found = {(each.file, each.row, each.column): each for each in problems_of(folder)}
    place = "images.parquet/b.parquet", 3
    assert set(found) == {(*place, "image_id"), (*place, "path"), (*place, "prompt_id")}
    accepted = "one that no other row has; row 2 of images.parquet/a.parquet has it"
    assert found[*place, "image_id"].accepted == accepted


def test_each_file_needs_the_columns(folder: Path) -> None:
    write(folder, {"a": part(*ROWS), "b": {"image_id": ["i4"]}})
    files = {(each.file, each.message, each.column) for each in problems_of(folder)}
    missing = {
        ("images.parquet/b.parquet", "the column is missing", name) for name in IMAGE_COLUMNS if name != "image_id"
    }
    assert missing <= files


def test_a_folder_without_a_file(folder: Path) -> None:
    write(folder, {})
    assert [str(each) for each in problems_of(folder)][:1] == [
        "images.parquet: the folder holds no .parquet file (accepted: a file, or .parquet files in it)"
    ]
