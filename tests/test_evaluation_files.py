"""Prediction files in, metric files out."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from detector_bench.dataset import ImageSet
from detector_bench.errors import DataError, DetectorBenchError
from detector_bench.evaluation import evaluate, read_predictions
from detector_bench.results.long_tables import read_long_table, write_long_table
from detector_bench.vocabulary.columns import METRIC_COLUMNS, PREDICTIONS


def predictions(detector: str, *images: str, label: str = "male") -> pa.Table:
    rows = [
        dict.fromkeys(PREDICTIONS.names)
        | {"image_id": image, "detector": detector, "attribute": "gender", "status": "clear", "label": label}
        for image in images
    ]
    return pa.Table.from_pylist(rows, schema=PREDICTIONS)


def write(table: pa.Table, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path)


def test_parts_of_a_detector_are_joined(tmp_path: Path) -> None:
    write(predictions("b", "i3"), tmp_path / "b" / "part-2.parquet")
    write(predictions("b", "i1", "i2", label="female"), tmp_path / "b" / "part-1.parquet")
    write(predictions("a", "i1"), tmp_path / "a" / "predictions.parquet")
    (tmp_path / "b" / "part-3.parquet.tmp").write_text("half written")
    (tmp_path / "notes.txt").write_text("not a detector")
    (tmp_path / ".cache").mkdir()
    found = read_predictions(tmp_path)
    assert list(found) == ["a", "b"]
    assert found["b"].column_names == ["image_id", "attribute", "status", "label"]
    rows = zip(found["b"]["image_id"].to_pylist(), found["b"]["label"].to_pylist(), strict=True)
    assert sorted(rows) == [("i1", "female"), ("i2", "female"), ("i3", "male")]


def test_of_rows_that_an_interrupted_run_repeats_the_newest_verdict_counts(tmp_path: Path) -> None:
    failed = predictions("b", "i3").to_pandas()
    failed["status"], failed["label"], failed["reason"] = "error", None, "truncated: ..."
    write(predictions("b", "i1", "i2"), tmp_path / "b" / "predictions.parquet")
    write(predictions("b", "i2", "i3", label="female"), tmp_path / "b" / "part-000002.parquet")
    write(pa.Table.from_pandas(failed, schema=PREDICTIONS), tmp_path / "b" / "part-000010.parquet")
    found = read_predictions(tmp_path)["b"]
    rows = zip(found["image_id"].to_pylist(), found["label"].to_pylist(), strict=True)
    assert sorted(rows) == [("i1", "male"), ("i2", "female"), ("i3", "female")]


def test_of_a_result_folder_the_predictions_are_read_and_nothing_else(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write(predictions(name, "i1"), tmp_path / "predictions" / name / "predictions.parquet")
    (tmp_path / "predictions" / "never-judged").mkdir()
    for name in ("figures", "report", "tables"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "all.csv").write_text("value\n1\n")
    (tmp_path / "metrics.parquet").write_bytes(b"no prediction")
    assert list(read_predictions(tmp_path)) == list(read_predictions(tmp_path / "predictions")) == ["a", "b"]


def test_a_result_folder_without_predictions_is_refused(tmp_path: Path) -> None:
    for name in ("figures", "report", "tables", "predictions"):
        (tmp_path / name).mkdir()
    with pytest.raises(DetectorBenchError) as raised:
        read_predictions(tmp_path)
    assert str(raised.value) == (
        f"no predictions in {str(tmp_path)!r}: expected a folder for each detector, with .parquet files, as "
        "`detector-bench run` writes them"
    )


def test_a_detector_may_be_called_predictions(tmp_path: Path) -> None:
    for name in ("a", "predictions"):
        write(predictions(name, "i1"), tmp_path / "predictions" / name / "predictions.parquet")
    for folder in (tmp_path, tmp_path / "predictions"):
        assert list(read_predictions(folder)) == ["a", "predictions"]


@pytest.mark.parametrize("folder", [".", "missing"])
def test_no_predictions_at_all(tmp_path: Path, folder: str) -> None:
    with pytest.raises(DetectorBenchError, match="no predictions in"):
        read_predictions(tmp_path / folder)


def test_bad_files_are_reported_together(tmp_path: Path) -> None:
    write(predictions("a", "i1"), tmp_path / "renamed" / "p.parquet")
    write(predictions("b", "i1").drop_columns(["status"]), tmp_path / "b" / "p.parquet")
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "p.parquet").write_bytes(b"PAR1 cut off")
    with pytest.raises(DataError) as caught:
        read_predictions(tmp_path)
    messages = [str(problem) for problem in caught.value.problems]
    assert messages[0].startswith("b/p.parquet: column status is missing (accepted: image_id, detector,")
    assert messages[1].startswith("c/p.parquet: cannot be read (")
    assert messages[2] == "renamed/p.parquet, column detector: rows of another detector: 'a' (accepted: renamed)"


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """An image set and predictions as files: 2 nurses and, with awkward names, a driver."""
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "images.csv").write_text(
        "image_id,path,t2i_model,prompt_id\n"
        'i1,1.png,alpha,nurse\ni2,2.png,alpha,nurse\ni3,3.png,"alpha, ""turbo""",driver\n'
    )
    (tmp_path / "set" / "prompts.csv").write_text(
        "prompt_id,category,word,prompt\nnurse,job,nurse,a nurse\ndriver,job,driver,a driver\n"
    )
    (tmp_path / "set" / "labels.csv").write_text(
        "image_id,annotator,attribute,label,reason\n"
        "i1,a,gender,male,\ni2,a,gender,female,\ni3,a,gender,low_quality,no_person\n"
    )
    write(predictions("net", "i1", "i2", "i3"), tmp_path / "predictions" / "net" / "predictions.parquet")
    return tmp_path


def test_from_files_to_files(study: Path) -> None:
    metrics = evaluate(ImageSet.load(study / "set"), read_predictions(study / "predictions"))
    write_long_table("metrics", metrics, study / "out" / "deep")
    from_csv = pd.read_csv(study / "out" / "deep" / "metrics.csv")
    from_parquet = pd.read_parquet(study / "out" / "deep" / "metrics.parquet")
    for read_back in (from_csv, from_parquet):
        assert tuple(read_back.columns) == METRIC_COLUMNS
        # Not approximately: floats come back bit for bit.
        np.testing.assert_array_equal(read_back["value"], metrics["value"])
        assert read_back["n_left_out"].tolist() == metrics["n_left_out"].tolist()
        for name in ("detector", "t2i_model", "prompt_id", "metric"):
            assert read_back[name].astype(str).tolist() == metrics[name].astype(str).tolist()
        assert read_back["n_clear"].isna().tolist() == metrics["n_clear"].isna().tolist()
        assert read_back["variant"].isna().all()
    assert 'alpha, "turbo"' in set(from_csv["t2i_model"])
    overall = from_csv[(from_csv["t2i_model"] == "all") & (from_csv["category"] == "all")]
    net = overall[overall["detector"] == "net"].set_index("metric")["value"]
    assert net["accuracy"] == 1 / 2
    assert net["precision"] == 2 / 3
    assert net["filter_rate"] == 0
    assert sorted(path.name for path in (study / "out" / "deep").iterdir()) == ["metrics.csv", "metrics.parquet"]


def test_a_long_table_is_read_as_it_was_written(tmp_path: Path) -> None:
    rows = pd.DataFrame([dict.fromkeys(METRIC_COLUMNS)] * 3).assign(
        detector=["null", "NA", 'a, "b"\nc'],
        variant=["as_code", None, None],
        value=[0.1 + 0.2, float("nan"), 1e-17],
        n=[1, 2, 3],
    )
    for column in ("ci_low", "ci_high", "n_left_out"):
        rows[column] = float("nan")
    for column in ("attribute", "t2i_model", "category", "prompt_id", "metric"):
        rows[column] = "all"
    assert write_long_table("metrics", rows, tmp_path) == {"metrics.parquet": 3, "metrics.csv": 3}
    found = read_long_table(tmp_path / "metrics.csv")
    pd.testing.assert_frame_equal(found, rows.astype(found.dtypes), check_exact=True)
    assert write_long_table("metrics", rows.head(0), tmp_path) == {}
    assert list(tmp_path.iterdir()) == []


def test_plain_names_are_not_quoted(tmp_path: Path) -> None:
    columns: dict[str, list[object]] = {name: ["x"] for name in METRIC_COLUMNS}
    columns |= {"value": [0.1], "ci_low": [np.nan], "ci_high": [np.nan], "n": [3], "n_left_out": [0]}
    columns["n_clear"] = columns["variant"] = [None]
    write_long_table("metrics", pd.DataFrame(columns), tmp_path)
    header, line = (tmp_path / "metrics.csv").read_text().splitlines()
    assert header == ",".join(METRIC_COLUMNS)
    assert line == "x,x,x,x,x,x,,,0.1,,,3,0"


def test_a_failed_write_leaves_the_old_files_alone(study: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    metrics = evaluate(ImageSet.load(study / "set"), read_predictions(study / "predictions"))
    write_long_table("metrics", metrics, study)
    before = (study / "metrics.csv").read_bytes()
    names = {path.name for path in study.iterdir()}

    class FullDisk(nullcontext[None]):
        def __init__(self, path: Path, *_: object, **__: object) -> None:
            super().__init__()
            self.path = path

        def __enter__(self) -> Any:
            return self

        def write_table(self, _: pa.Table) -> None:
            Path(self.path).write_text("half")
            raise OSError("disk full")

    monkeypatch.setattr("pyarrow.csv.CSVWriter", FullDisk)
    with pytest.raises(DetectorBenchError, match="disk full"):
        write_long_table("metrics", metrics.head(3), study)
    assert (study / "metrics.csv").read_bytes() == before
    assert {path.name for path in study.iterdir()} == names
