"""Only what is missing runs: pairs of image content and detector version without a verdict."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from small_parts import (
    forget_calls,
    image_name,
    images_of,
    picture,
    small_run,
    stages_loaded,
    write_image_set,
    write_tables,
)

from detector_bench.detectors import build_detector
from detector_bench.errors import ConfigError, DetectorBenchError, WeightsError
from detector_bench.runner.stage_cache import StageCache
from detector_bench.weights import WeightsLocator

COUNT = 10
ALL = [image_name(number) for number in range(COUNT)]


@pytest.fixture
def image_set(tmp_path: Path) -> Path:
    forget_calls()
    return write_image_set(tmp_path / "images", COUNT)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "predictions"


def rows(out: Path, detector: str) -> list[dict[str, Any]]:
    [path] = (out / detector).glob("*")
    found: list[dict[str, Any]] = pq.read_table(path).to_pylist()
    return found


def verdicts(out: Path, detector: str) -> dict[str, tuple[str, str | None]]:
    return {row["image_id"]: (row["status"], row["label"]) for row in rows(out, detector)}


def rewrite_in_disguise(path: Path, content: bytes) -> None:
    """Replace the content by another of the same size, and set the modification time back to what it was."""
    before = path.stat()
    assert len(content) == before.st_size
    with path.open("r+b") as file:
        file.write(content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)


def bmp(number: int, *, seed: int = 0) -> bytes:
    """A picture in a format in which equal size means equal file size."""
    import io

    file = io.BytesIO()
    picture(number, seed=seed).save(file, "BMP")
    return file.getvalue()


def wait_until_settled(paths: list[Path]) -> None:
    """Let the cache remember the files' hashes, which it does once their last change lies 2 seconds back."""
    latest = max(path.stat().st_ctime_ns for path in paths)
    time.sleep(max(0.0, 2.05 - (time.time_ns() - latest) / 1e9))


def test_the_first_run_judges_every_image_once_and_right(image_set: Path, out: Path) -> None:
    record = small_run(image_set, out, "test-colour")

    assert images_of("test_mean_colour") == ALL
    expected = [("clear", "male"), ("clear", "female"), ("filtered", None)]
    assert verdicts(out, "test-colour") == {name: expected[number % 3] for number, name in enumerate(ALL)}
    assert record.images == record.images_judged == COUNT
    assert list(record.images_per_stage.values()) == [COUNT]


def test_a_second_run_does_nothing_and_loads_no_stage(image_set: Path, out: Path) -> None:
    small_run(image_set, out, "test-colour")
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*.parquet")}
    forget_calls()

    record = small_run(image_set, out, "test-colour")

    assert not stages_loaded
    assert record.images_judged == 0
    assert {path: path.stat().st_mtime_ns for path in out.rglob("*.parquet")} == before, "nothing was written"


def test_a_changed_parameter_runs_only_that_detector_again(image_set: Path, out: Path) -> None:
    small_run(image_set, out, "test-colour", "test-brightness")
    forget_calls()
    untouched = (out / "test-brightness" / "predictions.parquet").read_bytes()

    louder = build_detector("test-colour", parameters={"gain": 0.5})
    record = small_run(image_set, out, louder, "test-brightness")

    assert images_of("test_mean_colour") == ALL
    assert images_of("test_brightness") == []
    assert record.images_judged == COUNT
    assert (out / "test-brightness" / "predictions.parquet").read_bytes() == untouched


def test_a_changed_threshold_is_answered_from_cached_stages(image_set: Path, out: Path) -> None:
    small_run(image_set, out, "test-colour")
    forget_calls()

    small_run(image_set, out, build_detector("test-colour", parameters={"green": 255}))

    assert not stages_loaded
    assert [status for status, _ in verdicts(out, "test-colour").values()] == ["clear"] * COUNT


def test_changed_weights_run_again_and_a_renamed_file_does_not(image_set: Path, out: Path) -> None:
    weights = image_set.parent
    (weights / "one.txt").write_text("1.0")
    locator = WeightsLocator(folders=(weights,))
    first = build_detector("test-weighted", parameters={"factor": "one.txt"})
    small_run(image_set, out, first, weights=locator)
    forget_calls()

    (weights / "one.txt").rename(weights / "uno.txt")
    renamed = build_detector("test-weighted", parameters={"factor": "uno.txt"})
    assert small_run(image_set, out, renamed, weights=locator).images_judged == 0

    (weights / "uno.txt").write_text("0.1")
    assert small_run(image_set, out, renamed, weights=locator).images_judged == COUNT
    assert images_of("test_weighted") == ALL
    assert [status for status, _ in verdicts(out, "test-weighted").values()] == ["clear"] * COUNT


@pytest.mark.parametrize("cached", [True, False])
def test_a_changed_image_runs_alone(image_set: Path, out: Path, cached: bool) -> None:
    settings = {} if cached else {"cache_folder": None}
    small_run(image_set, out, "test-colour", **settings)
    forget_calls()

    picture(2, seed=1).save(image_set / "images" / "image_001.png")
    record = small_run(image_set, out, "test-colour", **settings)

    assert images_of("test_mean_colour") == ["image_001"]
    assert record.images_judged == 1
    assert verdicts(out, "test-colour")["image_001"] == ("filtered", None)
    assert len(rows(out, "test-colour")) == COUNT


@pytest.mark.slow
def test_a_change_of_content_under_the_same_size_and_time_is_seen(image_set: Path, out: Path) -> None:
    files = [image_set / "images" / f"{name}.png" for name in ALL]
    for number, path in enumerate(files):
        path.write_bytes(bmp(number))
        os.utime(path, (1_700_000_000, 1_700_000_000))
    wait_until_settled(files)
    small_run(image_set, out, "test-colour")
    cache = StageCache(out.parent / "cache")
    assert None not in cache.known_sha256(files), "the run relied on file times, so that this test means something"
    cache.close()
    forget_calls()

    rewrite_in_disguise(files[4], bmp(4, seed=1))
    record = small_run(image_set, out, "test-colour")

    assert images_of("test_mean_colour") == ["image_004"]
    assert record.images_judged == 1


def test_a_touched_or_copied_image_with_the_same_content_does_not_run(image_set: Path, out: Path) -> None:
    small_run(image_set, out, "test-colour")
    forget_calls()

    (image_set / "images" / "image_003.png").touch()
    copied = image_set / "images" / "image_005.png"
    content = copied.read_bytes()
    copied.unlink()
    copied.write_bytes(content)

    assert small_run(image_set, out, "test-colour").images_judged == 0
    assert not stages_loaded


def test_a_new_detector_runs_alone_and_shares_cached_stages(image_set: Path, out: Path) -> None:
    small_run(image_set, out, "test-colour")
    forget_calls()

    record = small_run(image_set, out, "test-colour", "test-brightness")

    assert record.images_judged == COUNT
    assert images_of("test_mean_colour") == [], "its result was cached"
    assert images_of("test_brightness") == ALL


def test_a_detector_under_another_name_is_another_detector(image_set: Path, out: Path) -> None:
    small_run(image_set, out, "test-colour")
    twin = build_detector("test-colour", name="twin")

    assert small_run(image_set, out, "test-colour", twin).images_judged == COUNT
    assert verdicts(out, "twin") == verdicts(out, "test-colour")
    assert {row["detector"] for row in rows(out, "twin")} == {"twin"}


def test_rows_of_removed_images_disappear_and_come_back_from_the_cache(image_set: Path, out: Path) -> None:
    small_run(image_set, out, "test-colour")
    kept = [1, 3, 4, 8]
    write_tables(image_set, kept)
    small_run(image_set, out, "test-colour")
    assert [row["image_id"] for row in rows(out, "test-colour")] == [image_name(number) for number in kept]

    forget_calls()
    write_tables(image_set, range(COUNT))
    record = small_run(image_set, out, "test-colour")
    assert record.images_judged == COUNT - len(kept)
    assert not stages_loaded
    assert [row["image_id"] for row in rows(out, "test-colour")] == ALL


def test_new_images_run_alone_and_the_rows_are_in_the_order_of_the_table(image_set: Path, out: Path) -> None:
    write_tables(image_set, [8, 2, 5])
    small_run(image_set, out, "test-colour")
    forget_calls()

    write_tables(image_set, [9, 8, 0, 2, 5])
    small_run(image_set, out, "test-colour")

    assert images_of("test_mean_colour") == ["image_000", "image_009"]
    ids = [row["image_id"] for row in rows(out, "test-colour")]
    assert ids == [image_name(number) for number in (9, 8, 0, 2, 5)]


@pytest.mark.parametrize("damage", ["missing", "truncated"])
def test_errors_are_tried_again_and_replaced_once_the_image_is_repaired(
    image_set: Path, out: Path, damage: str
) -> None:
    broken = image_set / "images" / "image_006.png"
    sound = broken.read_bytes()
    if damage == "missing":
        broken.unlink()
    else:
        broken.write_bytes(sound[: len(sound) // 2])
    small_run(image_set, out, "test-colour")
    before = verdicts(out, "test-colour")
    assert before["image_006"] == ("error", None)
    assert sum(status == "error" for status, _ in before.values()) == 1

    forget_calls()
    assert small_run(image_set, out, "test-colour").images_judged == 1, "an error is no verdict: it is tried again"
    assert verdicts(out, "test-colour") == before
    assert images_of("test_mean_colour") == []

    broken.write_bytes(sound)
    assert small_run(image_set, out, "test-colour").images_judged == 1
    assert images_of("test_mean_colour") == ["image_006"]
    assert verdicts(out, "test-colour")["image_006"] == ("clear", "male")
    assert len(rows(out, "test-colour")) == COUNT


def test_an_error_of_another_kind_replaces_the_earlier_one(image_set: Path, out: Path) -> None:
    broken = image_set / "images" / "image_006.png"
    broken.unlink()
    small_run(image_set, out, "test-colour")
    broken.write_bytes(b"")
    small_run(image_set, out, "test-colour")

    [row] = [row for row in rows(out, "test-colour") if row["image_id"] == "image_006"]
    assert row["reason"].startswith("empty_file")


def test_a_verdict_disappears_when_its_image_does(image_set: Path, out: Path) -> None:
    small_run(image_set, out, "test-colour")
    (image_set / "images" / "image_000.png").unlink()
    small_run(image_set, out, "test-colour")

    [row] = [row for row in rows(out, "test-colour") if row["image_id"] == "image_000"]
    assert row["status"] == "error"
    assert row["reason"] == "missing_file: images/image_000.png: no such file"
    assert row["image_sha256"] is None


def test_each_attribute_has_a_row_and_half_an_answer_is_none(image_set: Path, out: Path) -> None:
    small_run(image_set, out, "test-age-and-gender")
    assert [(row["image_id"], row["attribute"]) for row in rows(out, "test-age-and-gender")] == [
        (name, attribute) for name in ALL for attribute in ("age", "gender")
    ]
    path = out / "test-age-and-gender" / "predictions.parquet"
    table = pq.read_table(path)
    pq.write_table(table.slice(1), path)
    (out / "shards" / "00001-of-00001.json").unlink()  # which knows the file as it was

    assert small_run(image_set, out, "test-age-and-gender").images_judged == 1
    assert len(rows(out, "test-age-and-gender")) == 2 * COUNT


def test_pinned_weights_may_be_gone_when_nothing_is_left_to_do(image_set: Path, out: Path) -> None:
    weights = image_set.parent / "factor.txt"
    weights.write_text("1.0")
    from detector_bench.weights.files import sha256_of

    pinned = build_detector(
        "test-weighted", parameters={"factor": {"path": "factor.txt", "sha256": sha256_of(weights)}}
    )
    small_run(image_set, out, pinned)
    weights.unlink()
    assert small_run(image_set, out, pinned).images_judged == 0

    picture(7, seed=3).save(image_set / "images" / "image_007.png")
    stored = (out / "test-weighted" / "predictions.parquet").read_bytes()
    with pytest.raises(WeightsError, match=r"'factor\.txt' not found"):
        small_run(image_set, out, pinned)
    assert (out / "test-weighted" / "predictions.parquet").read_bytes() == stored


def test_weights_without_a_pin_are_always_needed_as_their_content_is_the_version(
    image_set: Path, out: Path
) -> None:
    weights = image_set.parent / "factor.txt"
    weights.write_text("1.0")
    unpinned = build_detector("test-weighted", parameters={"factor": "factor.txt"})
    small_run(image_set, out, unpinned)
    weights.unlink()

    with pytest.raises(WeightsError, match=r"'factor\.txt' not found"):
        small_run(image_set, out, unpinned)


def test_predictions_of_another_version_stay_until_the_new_one_can_run(image_set: Path, out: Path) -> None:
    small_run(image_set, out, build_detector("test-colour", name="mine"))
    stored = (out / "mine" / "predictions.parquet").read_bytes()
    unready = build_detector(
        "test-weighted", name="mine", parameters={"factor": {"path": "none.txt", "sha256": "0" * 64}}
    )

    with pytest.raises(WeightsError):
        small_run(image_set, out, unready)
    assert (out / "mine" / "predictions.parquet").read_bytes() == stored


def test_two_detectors_with_one_name_are_refused(image_set: Path, out: Path) -> None:
    with pytest.raises(ConfigError, match="several detectors have the name 'test-colour'"):
        small_run(image_set, out, "test-colour", "test-colour")
    assert not out.exists()


def test_a_results_folder_that_cannot_be_written_is_one_message(image_set: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(DetectorBenchError, match=r"cannot write to .*file"):
        small_run(image_set, tmp_path / "file" / "predictions", "test-colour")


def test_fingerprints_cover_weights_content_and_parameters_but_no_paths(image_set: Path, out: Path) -> None:
    folder = image_set.parent
    (folder / "a.txt").write_text("1.0")
    (folder / "b.txt").write_text("1.0")
    detectors = [
        build_detector("test-weighted", name=name, parameters={"factor": str(folder / f"{name}.txt")})
        for name in ("a", "b")
    ]
    record = small_run(image_set, out, *detectors)

    assert record.fingerprints["a"] == record.fingerprints["b"]
    assert str(folder) not in json.dumps(record.identities)
