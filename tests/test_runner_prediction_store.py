"""Predictions on disk: whole files only, each image and attribute once, whatever the moment of a crash."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from detector_bench.detectors.base import Prediction
from detector_bench.errors import DetectorBenchError
from detector_bench.runner import prediction_store
from detector_bench.runner.prediction_store import FINGERPRINT_KEY, IDENTITY_KEY, PredictionStore
from detector_bench.vocabulary import Status
from detector_bench.vocabulary.columns import PREDICTIONS

IDS = pa.array(["a", "b", "c", "d"])


def store_in(folder: Path, *, fingerprint: str = "f1") -> PredictionStore:
    return PredictionStore(folder / "mine", detector="mine", fingerprint=fingerprint, identity={"kind": "test"})


def clear(image: str, label: str = "male", **more: Any) -> Prediction:
    return Prediction(image, "gender", Status.CLEAR, label=label, **more)


def error(image: str, reason: str = "truncated: half of it") -> Prediction:
    return Prediction.error(image, "gender", reason)


def write_part(
    folder: Path, rows: Mapping[str, tuple[Prediction, str | None]], *, fingerprint: str = "f1"
) -> None:
    """Write one part: by image id, the prediction and the content it is about."""
    store = store_in(folder, fingerprint=fingerprint)
    store.add([prediction for prediction, _ in rows.values()], sha256={key: sha for key, (_, sha) in rows.items()})
    store.flush()


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "mine").iterdir())


def joined(folder: Path) -> list[tuple[str, str, str | None]]:
    table = pq.read_table(folder / "mine" / "predictions.parquet")
    return [(row["image_id"], row["status"], row["label"]) for row in table.to_pylist()]


def test_rows_reach_the_disk_with_a_flush_and_are_complete(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    store.add([clear("a", score=0.5, value=2.0, raw="{}"), error("b")], sha256={"a": "s", "b": None})
    assert store.pending == 2
    assert files(tmp_path) == []
    store.flush()
    store.flush()

    assert store.pending == 0
    assert files(tmp_path) == ["part-000001.parquet"]
    table = pq.read_table(tmp_path / "mine" / "part-000001.parquet")
    assert table.schema.equals(PREDICTIONS)
    nothing = dict.fromkeys(("reason", "label", "score", "value", "raw", "image_sha256"))
    common = {**nothing, "detector": "mine", "attribute": "gender"}
    sound = {"status": "clear", "label": "male", "score": 0.5, "value": 2.0, "raw": "{}", "image_sha256": "s"}
    assert table.to_pylist() == [
        {**common, "image_id": "a", **sound},
        {**common, "image_id": "b", "status": "error", "reason": "truncated: half of it"},
    ]


def test_files_carry_fingerprint_and_identity(tmp_path: Path) -> None:
    write_part(tmp_path, {"a": (clear("a"), "s")})
    store_in(tmp_path).join(IDS)
    metadata = pq.read_schema(tmp_path / "mine" / "predictions.parquet").metadata

    assert metadata[FINGERPRINT_KEY] == b"f1"
    assert json.loads(metadata[IDENTITY_KEY]) == {"kind": "test"}


def test_parts_are_joined_in_the_image_sets_order_and_removed(tmp_path: Path) -> None:
    write_part(tmp_path, {"c": (clear("c"), "3"), "a": (clear("a", "female"), "1")})
    write_part(tmp_path, {"x": (clear("x"), "9"), "b": (error("b"), "2")})
    store_in(tmp_path).join(IDS)

    assert files(tmp_path) == ["predictions.parquet"]
    assert joined(tmp_path) == [("a", "clear", "female"), ("b", "error", None), ("c", "clear", "male")]


def test_joining_again_writes_nothing(tmp_path: Path) -> None:
    write_part(tmp_path, {"a": (clear("a"), "1")})
    store_in(tmp_path).join(IDS)
    path = tmp_path / "mine" / "predictions.parquet"
    before = path.stat()
    store_in(tmp_path).join(IDS, sha256={"a": "1"})

    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_the_order_follows_the_image_set(tmp_path: Path) -> None:
    write_part(tmp_path, {"a": (clear("a"), "1"), "b": (clear("b"), "2")})
    store_in(tmp_path).join(IDS)
    store_in(tmp_path).join(pa.array(["b", "a"]))

    assert [image for image, _, _ in joined(tmp_path)] == ["b", "a"]


def test_no_rows_at_all_give_an_empty_file_with_all_columns(tmp_path: Path) -> None:
    store_in(tmp_path).join(IDS)
    table = pq.read_table(tmp_path / "mine" / "predictions.parquet")

    assert table.num_rows == 0
    assert table.schema.equals(PREDICTIONS)


def test_rows_about_another_content_are_dropped_and_errors_without_content_stay(tmp_path: Path) -> None:
    rows = {"a": (clear("a"), "old"), "b": (clear("b"), "2"), "c": (error("c"), None), "d": (clear("d"), "4")}
    write_part(tmp_path, rows)
    store_in(tmp_path).join(IDS, sha256={"a": "new", "b": "2", "c": None, "d": None})

    assert [image for image, _, _ in joined(tmp_path)] == ["b", "c"]


NEWER = {
    "a newer verdict wins": ([(clear("a", "male"), "1"), (clear("a", "female"), "1")], ("clear", "female")),
    "a verdict beats a later error": ([(clear("a", "male"), "1"), (error("a"), "1")], ("clear", "male")),
    "a verdict replaces an error": ([(error("a"), "1"), (clear("a", "male"), "1")], ("clear", "male")),
    "a newer error wins": ([(error("a", "missing_file"), None), (error("a"), None)], ("error", None)),
}


@pytest.mark.parametrize("case", NEWER)
@pytest.mark.parametrize("join_between", [False, True])
def test_of_repeated_rows_one_stays(tmp_path: Path, case: str, join_between: bool) -> None:
    versions, expected = NEWER[case]
    for version in versions:
        write_part(tmp_path, {"a": version})
        if join_between:
            store_in(tmp_path).join(IDS)
    store_in(tmp_path).join(IDS)

    assert joined(tmp_path) == [("a", *expected)]
    if case == "a newer error wins":
        [row] = pq.read_table(tmp_path / "mine" / "predictions.parquet").to_pylist()
        assert row["reason"] == "truncated: half of it"


def test_part_ten_is_newer_than_part_nine_and_a_million_than_both(tmp_path: Path) -> None:
    for _ in range(9):
        write_part(tmp_path, {"a": (clear("a", "male"), "1")})
    write_part(tmp_path, {"a": (clear("a", "female"), "1")})
    assert store_in(tmp_path).finished()["label"].to_pylist() == ["female"]

    folder = tmp_path / "mine"
    (folder / "part-000001.parquet").rename(folder / "part-1000000.parquet")
    assert store_in(tmp_path).finished()["label"].to_pylist() == ["male"]
    write_part(tmp_path, {"a": (clear("a", "female"), "1")})
    assert (folder / "part-1000001.parquet").exists()


def test_finished_rows_leave_errors_out_and_are_there_once(tmp_path: Path) -> None:
    write_part(tmp_path, {"a": (clear("a"), "1"), "b": (error("b"), "2")})
    write_part(
        tmp_path, {"a": (clear("a"), "1"), "c": (Prediction("c", "gender", Status.FILTERED, reason="x"), "3")}
    )

    finished = store_in(tmp_path).finished()
    assert sorted(finished["image_id"].to_pylist()) == ["a", "c"]


def test_rows_of_another_version_do_not_count_and_go_when_told(tmp_path: Path) -> None:
    write_part(tmp_path, {"a": (clear("a"), "1")}, fingerprint="old")
    store_in(tmp_path, fingerprint="old").join(IDS)
    write_part(tmp_path, {"b": (clear("b"), "2")}, fingerprint="old")
    write_part(tmp_path, {"c": (clear("c"), "3")})
    assert files(tmp_path) == ["part-000001.parquet", "part-000002.parquet", "predictions.parquet"]

    store = store_in(tmp_path)
    assert store.finished()["image_id"].to_pylist() == ["c"]
    store.discard_other_versions()
    assert files(tmp_path) == ["part-000002.parquet"]


def test_files_of_others_in_the_folder_are_left_alone(tmp_path: Path) -> None:
    write_part(tmp_path, {"a": (clear("a"), "1")})
    for name in ("notes.txt", "part-of-something.parquet"):
        (tmp_path / "mine" / name).write_text("mine")
    store = store_in(tmp_path)
    store.discard_other_versions()
    store.add([clear("b")], sha256={"b": "2"})
    store.join(IDS)

    assert files(tmp_path) == ["notes.txt", "part-of-something.parquet", "predictions.parquet"]


class Crash(BaseException):
    """The process ends here, as far as the code can tell."""


def crash_at(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, *, call: int) -> None:
    """Let the given call (1 is the first) of a function crash before it does anything."""
    real: Callable[..., Any] = getattr(owner, name)
    calls = itertools.count(1)

    def crashing(*args: Any, **options: Any) -> Any:
        if next(calls) == call:
            raise Crash
        return real(*args, **options)

    monkeypatch.setattr(owner, name, crashing)


def test_a_crash_while_writing_leaves_the_old_file_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_part(tmp_path, {"a": (clear("a"), "1")})
    store_in(tmp_path).join(IDS)
    write_part(tmp_path, {"b": (clear("b"), "2")})
    with monkeypatch.context() as patch:
        crash_at(patch, Path, "replace", call=1)
        with pytest.raises(Crash):
            store_in(tmp_path).join(IDS)

    assert joined(tmp_path) == [("a", "clear", "male")]
    store_in(tmp_path).join(IDS)
    assert joined(tmp_path) == [("a", "clear", "male"), ("b", "clear", "male")]


def test_what_a_killed_writer_left_is_swept_away(tmp_path: Path) -> None:
    write_part(tmp_path, {"a": (clear("a"), "1")})
    (tmp_path / "mine" / ".part-000002.parquet.123.tmp").write_bytes(b"PAR1 half of it")
    store_in(tmp_path)

    assert files(tmp_path) == ["part-000001.parquet"]


@pytest.mark.parametrize("call", [1, 2, 3])
def test_a_crash_between_joining_and_removing_parts_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: int
) -> None:
    # Image a: an error, then a verdict about one content, then one about another. b: judged once, in the middle.
    write_part(tmp_path, {"a": (error("a"), None), "c": (clear("c"), "3")})
    write_part(tmp_path, {"a": (clear("a", "male"), "old"), "b": (clear("b"), "2")})
    write_part(tmp_path, {"a": (clear("a", "female"), "new")})
    contents = {"a": "new", "b": "2", "c": "3"}
    with monkeypatch.context() as patch:
        # Each unlink of a part, after the one of the temporary file, which is gone already then.
        crash_at(patch, Path, "unlink", call=1 + call)
        with pytest.raises(Crash):
            store_in(tmp_path).join(IDS, sha256=contents)
    expected = [("a", "clear", "female"), ("b", "clear", "male"), ("c", "clear", "male")]
    assert joined(tmp_path) == expected
    assert len(files(tmp_path)) == 1 + 3 - (call - 1)

    finished = store_in(tmp_path).finished()
    known = dict(zip(finished["image_id"].to_pylist(), finished["image_sha256"].to_pylist(), strict=True))
    assert known == contents, "nothing is judged again"
    store_in(tmp_path).join(IDS, sha256=contents)
    assert joined(tmp_path) == expected
    assert files(tmp_path) == ["predictions.parquet"]


def test_an_interruption_right_after_writing_a_part_repeats_rows_but_not_in_the_end(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    rows = [clear("a"), clear("b")]
    store.add(rows, sha256={"a": "1", "b": "2"})
    store.flush()
    store.add(rows, sha256={"a": "1", "b": "2"})  # as if the interruption had kept them from being forgotten
    store.join(IDS)

    assert joined(tmp_path) == [("a", "clear", "male"), ("b", "clear", "male")]


@pytest.mark.parametrize("content", [b"", b"no parquet", b"PAR1" + b"\0" * 40 + b"PAR1"])
@pytest.mark.parametrize("name", ["predictions.parquet", "part-000001.parquet"])
def test_an_unreadable_file_is_one_message_with_its_name_and_the_remedy(
    tmp_path: Path, name: str, content: bytes
) -> None:
    store = store_in(tmp_path)
    (tmp_path / "mine" / name).write_bytes(content)
    for action in (store.finished, store.discard_other_versions, lambda: store.join(IDS)):
        with pytest.raises(DetectorBenchError, match=rf"{name}' cannot be read: .*; run the study again"):
            action()


def test_a_file_with_other_columns_is_one_message(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    table = pa.table({"image_id": ["a"]}).replace_schema_metadata({FINGERPRINT_KEY: b"f1"})
    pq.write_table(table, tmp_path / "mine" / "predictions.parquet")

    with pytest.raises(DetectorBenchError, match="its columns are image_id instead of the expected ones"):
        store.finished()


def test_a_full_disk_is_one_message_and_loses_no_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = store_in(tmp_path)
    store.add([clear("a")], sha256={"a": "1"})

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(prediction_store.pq, "write_table", full)
        with pytest.raises(DetectorBenchError, match=r"cannot write '.*part-000001\.parquet': .*No space left"):
            store.flush()
    store.flush()
    assert store.finished()["image_id"].to_pylist() == ["a"]


def test_reasons_are_one_line_of_bounded_length_and_text_that_can_be_stored(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    pages = "detector_failed: RuntimeError:\n  first line\n\n" + "x" * 5000
    store.add([error("a", pages), clear("b", raw='"\ud83d" said the API')], sha256={"a": "1", "b": "2"})
    store.flush()
    [first, second] = pq.read_table(tmp_path / "mine" / "part-000001.parquet").to_pylist()

    assert first["reason"].startswith("detector_failed: RuntimeError: first line xxx")
    assert first["reason"].endswith("x...")
    assert len(first["reason"]) == 500
    assert second["raw"] == '"?" said the API'


def test_a_folder_named_like_a_partition_adds_no_column(tmp_path: Path) -> None:
    folder = tmp_path / "seed=3" / "threshold=0.5"
    write_part(folder, {"a": (clear("a"), "1")})
    store_in(folder).join(IDS)

    assert store_in(folder).finished().column_names == PREDICTIONS.names
