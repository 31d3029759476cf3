"""A forecast says what its sample supports, and what it measures leaves no trace."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from small_parts import forget_calls, image_name, stage_calls, write_image_set, write_tables

from detector_bench.errors import ConfigError
from detector_bench.runner.forecast import (
    UNREADABLE,
    Forecast,
    ImageKind,
    MeasuredPace,
    Range,
    Sampled,
    forecast,
    kind_of,
)
from detector_bench.study import Study
from detector_bench.study_forecast import forecast_study
from detector_bench.study_session import RunOrder

COUNT = 60
PNG, JPEG = kind_of("PNG", 1024, 1024), kind_of("JPEG", 300, 300)

Call = Callable[..., tuple[int, str, str]]


def test_kinds_are_formats_and_classes_of_size() -> None:
    assert ImageKind("PNG", "up to 4 megapixels") == PNG
    assert str(JPEG) == "JPEG, up to 0.1 megapixel"
    assert kind_of("PNG", 1000, 1000).size == "up to 1 megapixel"
    assert kind_of("PNG", 9000, 9000).size == "above 16 megapixels"
    assert str(UNREADABLE) == "unreadable"


def test_the_time_is_the_sum_over_kinds_and_its_range_is_by_hand() -> None:
    paces = {PNG: MeasuredPace(20, [0.09, 0.10, 0.11, 0.10]), JPEG: MeasuredPace(20, [0.02, 0.02])}
    found = forecast(Sampled(left=1000, looked_at={PNG: 600, JPEG: 400}, paces=paces, loading=3.0), workers=2)
    assert found.judging.middle == pytest.approx(600 * 0.10 + 400 * 0.02)
    half_width = 600 * 3.1824 * statistics.stdev([0.09, 0.10, 0.11, 0.10]) / 2
    assert found.judging.high - found.judging.middle == pytest.approx(half_width, rel=1e-4)
    assert found.seconds == pytest.approx([each / 2 + 3 for each in found.judging])


def test_shares_that_are_estimated_widen_the_range() -> None:
    paces = {PNG: MeasuredPace(20, [0.1, 0.1]), JPEG: MeasuredPace(20, [0.02, 0.02])}
    known = forecast(Sampled(left=1000, looked_at={PNG: 600, JPEG: 400}, paces=paces))
    estimated = forecast(Sampled(left=100_000, looked_at={PNG: 600, JPEG: 400}, paces=paces))
    assert known.judging.low == known.judging.middle
    # A share of 0.6 of 1,000: plus or minus 1.96 x root of 0.24 / 1000, of a difference of 0.08 s.
    expected = 100_000 * 0.08 * 1.96 * math.sqrt(0.24 / 1000 * 0.99)
    assert estimated.judging.high - estimated.judging.middle == pytest.approx(expected)


def test_ranges_hold_the_truth_about_as_often_as_they_say() -> None:
    randomness = np.random.default_rng(3)
    held = 0
    for _ in range(1000):
        batches = randomness.lognormal(0.0, 0.5, (5, 4)).mean(axis=1)
        found = forecast(
            Sampled(left=5000, looked_at={PNG: 1000}, paces={PNG: MeasuredPace(20, batches.tolist())})
        )
        held += found.judging.low <= 5000 * math.exp(0.125) <= found.judging.high
    assert 900 <= held <= 980


def test_a_machine_that_is_slow_for_a_while_widens_the_range() -> None:
    steady = [0.1, 0.2] * 30
    in_turns = [0.1] * 30 + [0.2] * 30
    assert MeasuredPace(240, in_turns).mean == pytest.approx(MeasuredPace(240, steady).mean)
    assert MeasuredPace(240, in_turns).half_width > 5 * MeasuredPace(240, steady).half_width


def test_one_batch_says_little_and_no_images_need_no_time() -> None:
    assert MeasuredPace(3, [0.5]).half_width == 0.5
    nothing = forecast(Sampled(left=0, looked_at={}, paces={}, loading=9.0))
    assert (nothing.seconds, nothing.processes_for(60)) == (Range(0.0, 0.0, 0.0), 1)


def test_processes_for_an_evening() -> None:
    found = Forecast(Sampled(left=1, looked_at={}, paces={}, loading=10.0), Range(990.0, 900.0, 1100.0))
    assert [found.processes_for(seconds) for seconds in (1000, 999, 505, 10, 5)] == [1, 2, 2, None, None]
    assert found.processes_for(1000, judging=1100.0) == 2


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    images = write_image_set(tmp_path / "images", COUNT)
    for number in range(0, COUNT, 2):
        Image.new("RGB", (400, 300)).save(images / "images" / f"{image_name(number)}.png", "JPEG")
    (images / "images" / f"{image_name(5)}.png").write_bytes(b"no image")
    (tmp_path / "study.yaml").write_text(
        "image_set: images\ndetectors: [{kind: test-colour, seconds: 0.004}, test-age-and-gender]\n"
    )
    forget_calls()
    return tmp_path


@pytest.mark.slow
def test_a_dry_run_leaves_no_trace(folder: Path, command: Call) -> None:
    before = sorted(folder.rglob("*"))
    options = ["--out", folder / "out", "--cache-dir", folder / "cache", "--dry-run"]
    status, printed, errors = command("run", folder / "study.yaml", *options, "--json")
    assert status == 0, errors
    assert sorted(folder.rglob("*")) == before
    rows = json.loads(printed)["rows"]
    kinds = {row["kind"]: row for row in rows if row["table"] == "kinds"}
    assert {kind: (row["images"], row["measured"]) for kind, row in kinds.items()} == {
        "JPEG, up to 0.25 megapixel": (30, 20),
        "PNG, up to 0.1 megapixel": (29, 20),
        "unreadable": (1, 1),
    }
    (found,) = [row for row in rows if row["table"] == "forecast"]
    assert found["images"] == COUNT
    assert found["seconds"] > COUNT / 2 * 0.004 / 64
    assert found["seconds_low"] <= found["seconds"] <= found["seconds_high"]
    assert 0 < found["prediction_bytes"] < 100_000
    assert found["stage_result_bytes"] > 0
    assert found["processes_for_an_evening"] == 1

    _, printed, _ = command("run", folder / "study.yaml", *options, "--workers", "2")
    assert "60 images take 2 workers with 1 core" in printed or "2 cores" in printed


@pytest.mark.slow
def test_only_what_is_left_is_measured_and_the_folder_stays_as_it_is(folder: Path) -> None:
    study = Study.from_yaml(folder / "study.yaml")
    write_tables(folder / "images", range(40))
    study.run(folder / "out", shards=3, use_cache=False)
    write_tables(folder / "images", range(COUNT))
    before = {path: path.read_bytes() for path in (folder / "out").rglob("*") if path.is_file()}
    forget_calls()
    found = forecast_study(study, folder / "out", RunOrder(use_cache=False))
    # One image of the finished ones is no image, and tried again each time.
    assert found.sampled.left == COUNT - 40 + 1
    assert {image for _, image in stage_calls} <= {image_name(number) for number in range(40, COUNT)}
    assert {path: path.read_bytes() for path in (folder / "out").rglob("*") if path.is_file()} == before

    other = study.with_detectors(only=["test-age-and-gender"], without=())
    assert forecast_study(other, folder / "out", RunOrder(use_cache=False)).sampled.left == COUNT - 40 + 1
    study.run(folder / "out", use_cache=False)
    again = forecast_study(study, folder / "out", RunOrder(use_cache=False))
    assert again.sampled.left == 1


def test_a_service_is_not_asked_for_a_forecast(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FACEPP_API_KEY", "key")
    monkeypatch.setenv("FACEPP_API_SECRET", "secret")
    study = Study(image_set=folder / "images", detectors=["test-colour", "facepp"])
    with pytest.raises(ConfigError, match=r"'facepp' asks a service, and nothing is sent .* --without facepp"):
        forecast_study(study, folder / "out", RunOrder())
