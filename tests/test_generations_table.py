"""`generations.parquet` of an image set: counted in pieces; every mistake in its place; against images.csv."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from damaged_set import write_sound
from generation_rows import request, write_generations

from detector_bench.dataset import ImageSet, check
from detector_bench.dataset.generations import STATUSES, read_generations
from detector_bench.errors import DataError
from detector_bench.vocabulary.generations import GENERATIONS, GENERATIONS_FILE

Rows = list[dict[str, Any]]


def sound_rows() -> Rows:
    """What made the images of `damaged_set`, and more that gave none."""
    return [
        request("i1", "sdxl", "nurse", "made"),
        request("i2", "sdxl", "pilot", "made"),
        request("i3", "sd3", "nurse", "made"),
        request("b1", "sdxl", "nurse", "blocked", reason="safety_checker"),
        request("b2", "sdxl", "nurse", "blocked", reason="safety_checker"),
        request("e1", "sd3", "pilot", "error", reason="timeout"),
        request("w1", "sd3", "pilot", "waiting"),
        # What the recipe no longer makes: the same image by other parameters, a prompt that is gone.
        request("i1", "sdxl", "nurse", "blocked", in_recipe=False),
        request("old", "dreamlike", "astronaut", "made", in_recipe=False),
    ]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_sound(tmp_path / "set")


def read(folder: Path) -> Any:
    return read_generations(ImageSet.load(folder))


def test_requests_are_counted_by_t2i_model_prompt_and_status(folder: Path) -> None:
    write_generations(folder, sound_rows())
    found = read(folder)
    assert found.t2i_models == ("sdxl", "sd3")
    assert found.prompt_ids == ("nurse", "pilot")
    assert [each.value for each in STATUSES] == ["made", "blocked", "error", "waiting"]
    assert found.counts.tolist() == [[[1, 2, 0, 0], [1, 0, 0, 0]], [[1, 0, 0, 0], [0, 0, 1, 1]]]
    assert found.not_in_recipe == 2
    assert found.table.values.tolist()[:2] == [["sdxl", "nurse", "made", 1], ["sdxl", "nurse", "blocked", 2]]


def test_a_set_without_the_file_knows_nothing_of_requests(folder: Path) -> None:
    assert read(folder) is None
    report = check(folder)
    assert report.ok
    assert report.requests == {}
    assert "request" not in report.summary()


def test_check_says_how_many_requests_came_to_what(folder: Path) -> None:
    write_generations(folder, sound_rows())
    report = check(folder)
    assert report.ok, report.summary()
    assert "  7 requests to T2I models: 3 made, 2 blocked, 1 error, 1 waiting\n" in report.summary()


Damage = Callable[[Rows], None]


def changed(place: int, **cells: Any) -> Damage:
    def damage(rows: Rows) -> None:
        rows[place] |= cells

    return damage


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (
            changed(3, status="refused"),
            "row 5, column status: unknown status: 'refused' (accepted: made, blocked, error, waiting)",
        ),
        (
            changed(4, prompt_id="chef"),
            "row 6, column prompt_id: unknown prompt: 'chef' (accepted: a prompt_id of prompts.csv, which has 2)",
        ),
        (
            changed(5, image_id="b1"),
            "row 7, column image_id: image listed twice: 'b1' (accepted: each image once)",
        ),
        (changed(5, t2i_model=""), "row 7, column t2i_model: empty cell: '' (accepted: some text)"),
    ],
)
def test_a_wrong_row_is_named(folder: Path, damage: Damage, said: str) -> None:
    rows = sound_rows()
    damage(rows)
    write_generations(folder, rows)
    with pytest.raises(DataError) as caught:
        read(folder)
    assert [str(each) for each in caught.value.problems] == [f"{GENERATIONS_FILE}, {said}"]
    assert not check(folder).ok


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (
            changed(3, status="made"),
            f"{GENERATIONS_FILE}, row 5, column image_id: a request made this image, and it is not there: 'b1'",
        ),
        (
            changed(0, prompt_id="pilot"),
            f"{GENERATIONS_FILE}, row 2, column image_id: a request made this image, and it is not there: 'i1'",
        ),
        (
            changed(2, status="blocked"),
            f"{GENERATIONS_FILE}, row 4, column image_id: a request without an image has one: 'i3'",
        ),
        (
            changed(1, image_id="i9", status="error"),
            "images.csv, row 3, column image_id: no request made this image",
        ),
    ],
)
def test_check_tells_where_requests_and_images_contradict_each_other(
    folder: Path, damage: Damage, said: str
) -> None:
    rows = sound_rows()
    damage(rows)
    write_generations(folder, rows)
    assert said in check(folder).summary()
    assert read(folder) is not None  # numbers of requests do not need the images


def test_a_million_wrong_rows_are_listed_briefly(folder: Path) -> None:
    write_generations(folder, [request(f"x{number}", "sdxl", "nurse", "lost") for number in range(70_000)])
    with pytest.raises(DataError) as caught:
        read(folder)
    assert len(caught.value.problems) == 21
    assert str(caught.value.problems[-1]).endswith("... and 69,980 more of this kind (unknown status)")


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-200])


def _of_other_columns(columns: Mapping[str, Any]) -> Callable[[Path], None]:
    return lambda path: pq.write_table(pa.table(columns), path)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (_cut, "cannot be read as Parquet"),
        (_of_other_columns({"image_id": ["a"]}), "row 1, column t2i_model: the column is missing"),
        (
            _of_other_columns(
                {"image_id": ["a"], "t2i_model": ["b"], "prompt_id": [1], "status": ["made"], "in_recipe": [True]}
            ),
            "column prompt_id: wrong column type: 'int64' (accepted: string)",
        ),
    ],
)
def test_a_damaged_file_is_refused(folder: Path, damage: Callable[[Path], None], said: str) -> None:
    damage(write_generations(folder, sound_rows()))
    with pytest.raises(DataError, match=GENERATIONS_FILE) as caught:
        read(folder)
    assert said in str(caught.value)
    assert said in check(folder).summary()


def test_many_requests_are_counted_in_pieces(folder: Path) -> None:
    count = 150_000
    words = {"t2i_model": ["sdxl"] * count, "prompt_id": ["nurse", "pilot"] * (count // 2)}
    status = np.array(["made", "blocked"])[(np.arange(count) % 5 == 0).astype(int)]
    ids = [f"image_{number}" for number in range(count)]
    columns = words | {"image_id": ids, "status": status, "in_recipe": [True] * count}
    schema = pa.schema([GENERATIONS.field(name) for name in columns])
    pq.write_table(pa.table(columns, schema=schema), folder / GENERATIONS_FILE)
    assert read(folder).counts.sum(axis=(0, 1)).tolist() == [120_000, 30_000, 0, 0]
