"""Predictions read piece by piece give what they give as tables, however they are cut into files."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from stored_study import FAILED, Picture, Said, filtered, kept, predictions_of, write_pictures

from detector_bench.dataset import ImageSet
from detector_bench.errors import DataError, DetectorBenchError, IncompletePredictionsError
from detector_bench.evaluation import evaluate, read_predictions
from detector_bench.evaluation.coded_predictions import CodedPredictions
from detector_bench.evaluation.image_index import NULL, ImageIndex
from detector_bench.evaluation.image_verdicts import ImageVerdicts
from detector_bench.runner.stored_predictions import StoredPredictions
from detector_bench.vocabulary.columns import PREDICTIONS

NUMBER = 40
LABELS = ("male", "female", "low_quality", "others", "")
SAID = (kept("male", 0.9), kept("female", 0.8), filtered(), FAILED)


def said(detector: int) -> dict[str, Said]:
    """What a detector says of each image; the second one has not seen the last image."""
    ids = [f"i{number:02d}" for number in range(NUMBER - detector)]
    return {image_id: SAID[(number * (detector + 3)) % 4] for number, image_id in enumerate(ids)}


TABLES = {f"net{number}": predictions_of(said(number), detector=f"net{number}") for number in range(2)}


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> ImageSet:
    pictures = [
        Picture(f"i{number:02d}", "alpha" if number % 3 else "beta", "nurse" if number % 2 else "cook",
                (LABELS[number % 5],))
        for number in range(NUMBER)
    ]  # fmt: skip
    folder = write_pictures(tmp_path_factory.mktemp("coded") / "images", pictures, {"nurse": "job", "cook": "job"})
    return ImageSet.load(folder)


def with_ages(table: pa.Table) -> pa.Table:
    """The same rows, and each image's age behind them."""
    rows = [
        row | {"attribute": "age", "status": "clear", "label": "young", "value": 20.0 + place}
        for place, row in enumerate(table.to_pylist())
    ]
    both = [row | {"detector": "both"} for row in table.to_pylist() + rows]
    both.sort(key=lambda row: (row["image_id"], row["attribute"]))
    return pa.Table.from_pylist(both, schema=PREDICTIONS)


def in_one_file(folder: Path, table: pa.Table) -> None:
    pq.write_table(table, folder / "predictions.parquet")


def in_small_row_groups(folder: Path, table: pa.Table) -> None:
    pq.write_table(table, folder / "predictions.parquet", row_group_size=7)


def in_shards(folder: Path, table: pa.Table) -> None:
    shard = np.array([hash_of(image_id) % 3 for image_id in table["image_id"].to_pylist()])
    for number in range(3):
        own = table.filter(pa.array(shard == number))
        pq.write_table(own, folder / f"shard-{number + 1:05d}-of-00003.parquet", row_group_size=5)
    layout = folder.parent / "shards" / "layout.json"
    layout.parent.mkdir(exist_ok=True)
    layout.write_text('{"shards": 3}')


def hash_of(image_id: str) -> int:
    return sum(image_id.encode())


def shuffled(folder: Path, table: pa.Table) -> None:
    order = np.random.default_rng(len(folder.name)).permutation(len(table))
    pq.write_table(table.take(pa.array(order)), folder / "predictions.parquet", row_group_size=9)


def cut_short(folder: Path, table: pa.Table) -> None:
    """A run was interrupted: what stands in a later part is newer."""
    failed = table.set_column(3, "status", pa.array(["error"] * len(table)))
    failed = failed.set_column(5, "label", pa.nulls(len(table), pa.string()))
    pq.write_table(failed.slice(0, 25).cast(PREDICTIONS), folder / "part-000001.parquet")
    pq.write_table(table, folder / "part-000002.parquet")


CUT = [in_one_file, in_small_row_groups, in_shards, shuffled, cut_short]


def store(
    folder: Path, tables: dict[str, pa.Table], write: Callable[[Path, pa.Table], None] = in_one_file
) -> Path:
    for name, table in tables.items():
        (folder / name).mkdir(parents=True)
        write(folder / name, table)
    return folder


def coded(images: ImageSet, folder: Path, *attributes: str) -> CodedPredictions:
    stored = StoredPredictions(folder)
    return CodedPredictions(
        ImageIndex.of(images), stored, detectors=list(stored), attributes=attributes or ("gender",)
    )


def raised(read: Callable[[], object]) -> str:
    with pytest.raises(DetectorBenchError) as caught:
        read()
    return str(caught.value)


@pytest.mark.parametrize("write", CUT)
def test_numbers_do_not_depend_on_how_predictions_are_cut(
    images: ImageSet, tmp_path: Path, write: Callable[[Path, pa.Table], None]
) -> None:
    expected = evaluate(images, TABLES, allow_incomplete=True)
    predictions = coded(images, store(tmp_path, TABLES, write))
    found = evaluate(images, predictions, allow_incomplete=True)
    pd.testing.assert_frame_equal(found, expected)
    # i00 to i03 by the first detector, and by the second, which goes through the verdicts in other steps.
    verdicts = ImageVerdicts.read(images, predictions, attribute="gender", allow_incomplete=True).verdicts
    assert verdicts[:, :4].tolist() == [[0, 3, 2, 1], [0, 0, 0, 0]]
    assert verdicts[:, -1].tolist() == [1, NULL]
    assert predictions.status_counts["net0"] == {"gender": {"clear": 20, "filtered": 10, "error": 10}}
    assert predictions.status_counts["net1"] == {"gender": {"clear": 39, "filtered": 0, "error": 0}}


@pytest.mark.parametrize("write", [in_one_file, in_shards, shuffled])
def test_attributes_and_columns_are_kept_apart(
    images: ImageSet, tmp_path: Path, write: Callable[[Path, pa.Table], None]
) -> None:
    predictions = coded(
        images, store(tmp_path, {"both": with_ages(TABLES["net0"])} | TABLES, write), "gender", "age"
    )
    ages = ImageVerdicts.read(images, predictions, attribute="age", allow_incomplete=True)
    assert ages.detectors == ("both",)
    assert (ages.verdicts == 0).all()
    np.testing.assert_array_equal(ages.numbers_of("value", 0), 20.0 + np.arange(NUMBER))
    genders = ImageVerdicts.read(images, predictions, attribute="gender", allow_incomplete=True)
    assert genders.detectors == ("both", "net0", "net1")
    np.testing.assert_array_equal(genders.verdicts[0], genders.verdicts[1])
    assert np.isnan(genders.numbers_of("value", 0)).all()
    np.testing.assert_array_equal(genders.numbers_of("score", 1)[:4], [0.9, np.nan, np.nan, 0.8])
    assert predictions.judged_attributes == {"gender", "age"}


WRONG = {
    "an unknown image": ("image_id", 3, "stranger"),
    "an image twice": ("image_id", 39, "i07"),
    "an unknown status": ("status", 5, "maybe"),
    "a clear image without a class": ("label", 0, None),
    "a class of another attribute": ("label", 0, "young"),
}


@pytest.mark.parametrize("write", [in_one_file, in_small_row_groups, in_shards])
@pytest.mark.parametrize("fault", WRONG)
def test_mistakes_are_said_as_of_a_table(
    images: ImageSet, tmp_path: Path, fault: str, write: Callable[[Path, pa.Table], None]
) -> None:
    column, row, value = WRONG[fault]
    rows = TABLES["net0"].to_pylist()
    rows[row][column] = value
    tables = TABLES | {"net0": pa.Table.from_pylist(rows, schema=PREDICTIONS)}
    folder = store(tmp_path, tables, write)
    expected = raised(lambda: evaluate(images, tables, allow_incomplete=True))
    assert raised(lambda: evaluate(images, coded(images, folder), allow_incomplete=True)) == expected
    assert "predictions of net0" in expected


def test_many_mistakes_in_many_pieces_are_listed_twenty_times_then_counted(
    images: ImageSet, tmp_path: Path
) -> None:
    rows = [row | {"image_id": f"x{row['image_id']}"} for row in TABLES["net0"].to_pylist()]
    tables = {"net0": pa.Table.from_pylist(rows, schema=PREDICTIONS)}
    message = raised(lambda: evaluate(images, coded(images, store(tmp_path, tables, in_small_row_groups))))
    assert message == raised(lambda: evaluate(images, tables))
    assert message.count("not an image of the set") == 21
    assert "... and 20 more of this kind" in message


def with_contents(table: pa.Table, contents: list[str | None]) -> pa.Table:
    column = table.schema.get_field_index("image_sha256")
    return table.set_column(column, "image_sha256", pa.array(contents, pa.string()))


@pytest.mark.parametrize("write", [in_one_file, in_shards, shuffled])
def test_detectors_that_judged_other_files_are_told_apart(
    images: ImageSet, tmp_path: Path, write: Callable[[Path, pa.Table], None]
) -> None:
    table, known = TABLES["net0"], [f"{number:064x}" for number in range(NUMBER)]
    contents = {
        "one": known,
        "unread": [None, *known[1:]],
        "changed": [*known[:-1], known[0]],
    }
    tables = {
        name: with_contents(pa.Table.from_pylist([row | {"detector": name} for row in table.to_pylist()],
                                                 schema=PREDICTIONS), held)
        for name, held in contents.items()
    }  # fmt: skip
    stored = StoredPredictions(store(tmp_path, tables | {"net1": TABLES["net1"]}, write), also=["image_sha256"])
    predictions = CodedPredictions(
        ImageIndex.of(images), stored, detectors=["one", "unread", "changed", "net1"], attributes=["gender"]
    )
    same = {name: predictions.evidently_same_images("one", name, "gender") for name in predictions}
    assert same == {"one": True, "unread": True, "changed": False, "net1": False}


def test_a_repetition_in_another_file_is_noticed(images: ImageSet, tmp_path: Path) -> None:
    folder = store(tmp_path, TABLES)
    shutil.copy(folder / "net0" / "predictions.parquet", folder / "net0" / "once-more.parquet")
    with pytest.raises(DataError) as caught:
        evaluate(images, coded(images, folder))
    problems = caught.value.problems
    assert len(problems) == 21
    assert problems[0].message == "predicted more than once for gender"
    assert "20 more" in problems[-1].message


def test_what_is_missing_is_said(images: ImageSet, tmp_path: Path) -> None:
    with pytest.raises(IncompletePredictionsError, match=r"net1: 1 of 40 images .* the first is 'i39'"):
        evaluate(images, coded(images, store(tmp_path, TABLES, in_shards)))


def test_faults_of_all_files_come_at_once_and_as_of_tables(images: ImageSet, tmp_path: Path) -> None:
    folder = store(tmp_path, TABLES)
    shutil.copy(folder / "net0" / "predictions.parquet", folder / "net1" / "other.parquet")
    pq.write_table(TABLES["net0"].drop_columns(["status"]), folder / "net0" / "predictions.parquet")
    (folder / "net0" / "rest.parquet").write_text("no table")
    message = raised(lambda: evaluate(images, coded(images, folder)))
    assert sorted(message.splitlines()) == sorted(raised(lambda: read_predictions(folder)).splitlines())
    for place in ("net0/predictions.parquet", "net0/rest.parquet", "net1/other.parquet"):
        assert place in message
