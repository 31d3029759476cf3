"""One shard in one process: what is predicted, what is kept, what a failure costs, in which threads stages run."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import pyarrow.parquet as pq
import pytest
from filelock import FileLock
from PIL import Image

from detector_bench_next import runner as runner_module
from detector_bench_next.detector import (
    Arrays,
    Detector,
    Failure,
    Frame,
    Prediction,
    Stage,
    StageField,
    WeightsField,
)
from detector_bench_next.engines import run_here
from detector_bench_next.errors import ConfigError, DetectorBenchError, Interrupted, WeightsError
from detector_bench_next.files import packaged, read_yaml
from detector_bench_next.images import ImageStore
from detector_bench_next.predictions import Shard
from detector_bench_next.registry import register
from detector_bench_next.runner import Job, Runner, Taken
from detector_bench_next.weights import Where
from tests_next.studies import PLUGIN, write_image_set

ONE = Shard(1, 1)


class World:
    """What test stages do, and what they saw."""

    def __init__(self) -> None:
        self.do: Callable[[str, list[Frame]], Any] = lambda name, frames: None
        self.loads: list[str] = []
        self.calls: list[tuple[str, list[str], str]] = []  # stage, images, thread
        self.at_once: Counter[str] = Counter()
        self.most: Counter[str] = Counter()

    def images(self, name: str) -> list[str]:
        return [image for own, images, _ in self.calls if own == name for image in images]

    def threads(self, *names: str) -> set[str]:
        return {thread for own, _, thread in self.calls if own in names}


WORLD = World()
LOCK = threading.Lock()


@register("stage", "probe")
class Probe(Stage):
    """Mean grey level; `do` may fail first."""

    name: str = "probe"
    weights_file: WeightsField | None = None
    behind: StageField | None = None

    def load(self, where: Where) -> Callable[[Sequence[Frame]], list[Any]]:
        WORLD.loads.append(self.name)
        for weights in self.weights():
            where.locate(weights)
        if self.name == "cannot load":
            raise RuntimeError("no such device")

        def run(frames: Sequence[Frame]) -> list[Any]:
            with LOCK:
                WORLD.calls.append((self.name, [f.image_id for f in frames], threading.current_thread().name))
                WORLD.at_once[self.name] += 1
                WORLD.most[self.name] = max(WORLD.most[self.name], WORLD.at_once[self.name])
            try:
                own = WORLD.do(self.name, list(frames))
                time.sleep(0.001)
            finally:
                with LOCK:
                    WORLD.at_once[self.name] -= 1
            return own if own is not None else [grey(self, frame) for frame in frames]

        return run


def grey(stage: Probe, frame: Frame) -> Arrays:
    if frame.prepared.get(stage) is not None:
        return {"grey": frame.prepared[stage]}
    before = 0.0 if stage.behind is None else frame[stage.behind]["grey"][0] * 0
    return {"grey": np.array([frame.pixels.mean() if stage.needs_pixels else 1.0]) + before}


@register("stage", "safe_probe")
class SafeProbe(Probe):
    threadsafe: ClassVar[bool] = True


Place = Literal["cpu", "gpu", "service", "process"]


@register("stage", "gpu_probe")
class GpuProbe(Probe):
    place: ClassVar[Place] = "gpu"


@register("stage", "prepared_probe")
class PreparedProbe(GpuProbe):
    def load(self, where: Where) -> Any:
        run = super().load(where)

        class Loaded:
            def __call__(self, frames: Sequence[Frame]) -> list[Any]:
                assert all(frame.pixels.size == 0 for frame in frames)  # they went when everything was prepared
                return run(frames)

            def prepare(self, frame: Frame) -> Any:
                with LOCK:
                    WORLD.calls.append(("prepare", [frame.image_id], threading.current_thread().name))
                return np.array([frame.pixels.mean()])

        return Loaded()


@register("stage", "service_probe")
class ServiceProbe(SafeProbe):
    place: ClassVar[Place] = "service"
    calls_at_once: ClassVar[int] = 3


@register("detector", "greyish", attributes=("gender",))
class Greyish(Detector):
    """Bright images are female, by the grey level of a probe."""

    probe: StageField = Probe()
    above: float = 140.0

    def predict(self, frames: Sequence[Frame]) -> Iterator[Prediction]:
        assert threading.current_thread() is threading.main_thread()
        for frame in frames:
            level = float(frame[self.probe]["grey"][0])
            yield Prediction.clear(frame, "gender", "female" if level > self.above else "male", score=level / 255)


@pytest.fixture(autouse=True)
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    WORLD.__init__()  # type: ignore[misc]
    return WORLD


@pytest.fixture
def images(tmp_path: Path) -> Path:
    return write_image_set(tmp_path / "set", images=10, prompts=2)


def job(images: Path, *detectors: dict[str, Any], **fields: Any) -> Job:
    entries = [{"kind": "greyish", "name": f"d{n}", **d} for n, d in enumerate(detectors or [{}])]
    fields = {"out": images.parent / "out", "threads": 2, **fields}
    return Job(image_set=images, detectors=tuple(entries), **fields)


def rows(order: Job, name: str = "d0") -> list[dict[str, Any]]:
    [path] = (order.out / "predictions" / name).iterdir()
    assert path.name == "00001-of-00001.parquet"
    return list(pq.read_table(path, partitioning=None).to_pylist())


def content(order: Job) -> dict[str, bytes]:
    files = sorted((order.out / "predictions").glob("[!_]*/*"))
    return {f"{path.parent.name}/{path.name}": path.read_bytes() for path in files}


def test_every_image_is_predicted_once_and_a_second_run_loads_nothing(images: Path, world: World) -> None:
    order = job(images)
    told: list[tuple[int, int, int]] = []
    assert run_here(order, progress=lambda *n: told.append(n)).predicted == 20
    assert (told[0], told[-1]) == ((0, 20, 0), (20, 20, 0))
    found = rows(order)
    assert [row["image_id"] for row in found] == [line.split(",")[0] for line in text(images)[1:]]
    assert all(
        row["status"] == "clear" and row["detector"] == "d0" and len(row["image_sha256"]) == 64 for row in found
    )
    before = content(order)
    assert run_here(order).predicted == 0
    assert world.loads == ["probe"]
    assert content(order) == before
    assert len((order.out / "predictions" / "_log" / "00001-of-00001.jsonl").read_text().splitlines()) == 1


def text(images: Path, name: str = "images.csv") -> list[str]:
    return (images / name).read_text().splitlines()


def damage(images: Path) -> dict[str, str]:
    """Six images with something wrong, and the reason of each."""
    lines = text(images)
    wrong = {
        "damaged": lambda path: path.write_bytes(path.read_bytes()[:60]),
        "not_an_image": lambda path: path.write_text("x" * 50),
        "missing_file": lambda path: path.unlink(),
        "empty_file": lambda path: path.write_bytes(b""),
        "too_large": lambda path: Image.new("RGB", (300, 300)).save(path),
    }
    reasons = {}
    for line, (reason, do) in zip(lines[1:], wrong.items(), strict=False):
        do(images / line.split(",")[1])
        reasons[line.split(",")[0]] = reason
    name = lines[7].split(",")[0]
    lines[7] = lines[7].replace(lines[7].split(",")[1], "")
    (images / "images.csv").write_text("\n".join(lines) + "\n")
    return reasons | {name: "not_at_hand"}


def test_images_that_cannot_be_read_are_errors_with_a_reason_and_tried_again(images: Path, world: World) -> None:
    reasons = damage(images)
    order = job(images, max_pixels=50_000)
    assert run_here(order).predicted == 20
    found = {row["image_id"]: row for row in rows(order)}
    assert {i: row["reason"].split(":")[0] for i, row in found.items() if row["status"] == "error"} == reasons
    assert sum(row["status"] == "clear" for row in found.values()) == 14
    assert str(images) not in json.dumps(list(found.values()))
    before = content(order)
    assert run_here(order).predicted == 5  # what is not at hand will not come by trying
    assert content(order) == before
    assert len(world.images("probe")) == 14


def test_a_changed_image_runs_alone_and_a_touched_one_does_not(images: Path, world: World) -> None:
    order = job(images, cache_dir=images.parent / "cache")
    run_here(order)
    world.calls.clear()
    first, second = (images / line.split(",")[1] for line in text(images)[1:3])
    Image.new("RGB", (16, 16), (250, 250, 250)).save(first)
    second.write_bytes(second.read_bytes())
    assert run_here(order).predicted == 1
    assert world.images("probe") == [first.stem]
    assert rows(order)[0]["label"] == "female"


def test_kept_results_need_neither_stages_nor_files(images: Path, world: World, monkeypatch: Any) -> None:
    cached = {"cache_dir": images.parent / "cache"}
    run_here(job(images, **cached))
    before = content(job(images))
    time.sleep(2.1)  # a file that changed just now proves nothing
    assert run_here(job(images, out=images.parent / "second", **cached)).from_cache == 20  # remembers contents
    monkeypatch.setattr(ImageStore, "read", None)
    third = job(images, {"above": 100.0}, out=images.parent / "third", **cached)
    told: list[tuple[int, int, int]] = []
    assert run_here(third, progress=lambda *n: told.append(n)).from_cache == 20
    assert told[-1] == (20, 20, 20)
    assert world.loads == ["probe"]
    assert content(job(images, out=images.parent / "second")) == before
    [line] = (third.out / "predictions" / "_log" / "00001-of-00001.jsonl").read_text().splitlines()
    session = json.loads(line)
    assert (session["images"], session["from_cache"], session["stages"][0]["from_cache"]) == (20, 20, 20)
    assert str(images.parent) not in line


def test_an_equal_stage_runs_once_and_a_new_detector_alone(images: Path, world: World) -> None:
    run_here(job(images, {}, {"above": 100.0}))
    assert len(world.images("probe")) == 20
    before = content(job(images))
    world.calls.clear()
    assert run_here(job(images, {}, {"above": 100.0}, {"probe": {"kind": "probe", "name": "new"}})).predicted == 20
    assert (world.images("probe"), len(world.images("new"))) == ([], 20)
    assert {name: data for name, data in content(job(images)).items() if name[:2] != "d2"} == before


FAILURES = {
    "raises": lambda frames: 1 / 0,
    "says so": lambda frames: [Failure("stage_failed: too dark")] * len(frames),
    "one result too few": lambda frames: [],
    "no mapping": lambda frames: [3.0] * len(frames),
    "texts": lambda frames: [{"grey": np.array(["x"])}] * len(frames),
}


@pytest.mark.parametrize("case", FAILURES)
def test_a_failure_costs_its_image_is_inherited_and_not_kept(images: Path, world: World, case: str) -> None:
    bad = text(images)[3].split(",")[0]
    world.do = lambda name, frames: (
        FAILURES[case](frames) if name == "probe" and frames[0].image_id == bad else None
    )
    behind = {"probe": {"kind": "probe", "name": "behind", "behind": "probe"}}
    order = job(
        images, {}, behind, {"probe": {"kind": "probe", "name": "other"}}, cache_dir=images.parent / "cache"
    )
    run_here(order)
    for name, errors in (("d0", [bad]), ("d1", [bad]), ("d2", [])):
        assert [row["image_id"] for row in rows(order, name) if row["status"] == "error"] == errors
    assert rows(order)[2]["reason"].startswith("stage_failed: ")
    assert bad not in world.images("behind")
    world.do = lambda name, frames: None
    assert run_here(order).predicted == 1  # tried again, as failures are never kept
    assert {row["status"] for row in rows(order)} == {"clear"}


def test_what_fails_beside_others_is_tried_once_more_alone(images: Path, world: World) -> None:
    failed: set[str] = set()

    def short_of_memory(name: str, frames: list[Frame]) -> None:
        if not {frame.image_id for frame in frames} <= failed:
            failed.update(frame.image_id for frame in frames)
            raise MemoryError

    world.do = short_of_memory
    order = job(images, {"probe": "safe_probe"})
    run_here(order)
    assert {row["status"] for row in rows(order)} == {"clear"}
    assert max(Counter(world.images("probe")).values()) == 2


def test_what_the_user_must_mend_stops_the_run_and_keeps_what_was_done(images: Path, world: World) -> None:
    def no_key(name: str, frames: list[Frame]) -> None:
        if frames[0].image_id == "sd_p1_5":
            raise ConfigError("the key is wrong")

    world.do = no_key
    order = job(images, batch_size=4, threads=1)
    with pytest.raises(ConfigError, match="the key is wrong"):
        run_here(order)
    assert [path.name for path in (order.out / "predictions" / "d0").iterdir()] == [
        "00001-of-00001.part-000001.parquet"
    ]
    world.do = lambda name, frames: None
    world.calls.clear()
    assert run_here(order).predicted == len(world.images("probe")) == 8
    assert len(rows(order)) == 20


@pytest.mark.parametrize("threads", [1, 2])
def test_ctrl_c_keeps_what_is_done_and_the_bytes_come_out_the_same(images: Path, threads: int) -> None:
    whole = job(images, out=images.parent / "whole", batch_size=4)
    run_here(whole)
    order = job(images, batch_size=4, threads=threads)

    def stop(done: int, total: int, _: int) -> None:
        if done == 12:
            raise KeyboardInterrupt

    with pytest.raises(Interrupted, match="stopped after 12 of 20 images; nothing is lost: run the same command"):
        run_here(order, progress=stop)
    assert not [t for t in threading.enumerate() if t.name.startswith("images")]
    assert run_here(order).predicted == 8
    assert content(order) == content(whole)


def test_a_stage_that_cannot_be_loaded_fails_on_its_images_or_stops_all(images: Path) -> None:
    broken = {"probe": {"kind": "probe", "name": "cannot load"}}
    order = job(images, {}, broken)
    run_here(order)
    assert {row["reason"] for row in rows(order, "d1")} == {
        "stage_failed: stage 'probe' cannot be loaded: RuntimeError: no such device"
    }
    assert {row["status"] for row in rows(order)} == {"clear"}
    with pytest.raises(DetectorBenchError, match="stage 'probe' cannot be loaded: RuntimeError: no such device"):
        run_here(job(images, broken, out=images.parent / "second"))


def with_weights(path: str, **fields: str) -> dict[str, Any]:
    return {"probe": {"kind": "probe", "weights_file": {"path": path, **fields}}}


def test_a_detector_that_is_not_ready_is_left_out_with_a_line(images: Path, world: World) -> None:
    order = job(images, {}, with_weights("a.onnx"), with_weights("b.onnx", sha256="0" * 64))
    claimed = run_here(order)
    assert claimed.predicted == 20
    assert list(claimed.left_out) == ["d1", "d2"]
    assert all(line.startswith("weights ") and "\n" not in line for line in claimed.left_out.values())
    assert [path.name for path in (order.out / "predictions").glob("[!_]*")] == ["d0"]
    with pytest.raises(DetectorBenchError, match=r"(?s)d0 is not ready: weights 'a.*d1 is not ready: weights 'b"):
        run_here(job(images, with_weights("a.onnx"), with_weights("b.onnx", sha256="0" * 64)))


def test_who_has_predicted_all_needs_no_pinned_weights_and_old_rows_survive(images: Path, tmp_path: Path) -> None:
    file = tmp_path / "a.onnx"
    file.write_bytes(b"one")
    pin = "7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed"
    pinned = job(images, with_weights(str(file), sha256=pin))
    assert run_here(pinned).predicted == 20
    before = content(pinned)
    file.unlink()
    assert run_here(pinned) == (0, (), {}, 0)
    changed = with_weights(str(file), sha256=pin) | {"above": 100.0}
    with pytest.raises(DetectorBenchError, match="d0 is not ready"):  # another version, which cannot start
        run_here(job(images, changed))
    file.write_bytes(b"two")
    with pytest.raises(DetectorBenchError, match=r"d0 is not ready.*not the pinned"):
        run_here(job(images, changed))
    assert content(pinned) == before
    unpinned = job(images, with_weights(str(file)))
    assert run_here(unpinned).predicted == 20
    file.unlink()
    with pytest.raises(DetectorBenchError, match="d0 is not ready"):  # the content is the version
        run_here(unpinned)


def test_weights_that_change_while_they_are_loaded_stop_the_run(images: Path, monkeypatch: Any) -> None:
    file = images / "a.onnx"
    file.write_bytes(b"one")
    load = Probe.load

    def slow_load(self: Probe, where: Where) -> Any:
        file.write_bytes(b"two")
        return load(self, where)

    monkeypatch.setattr(Probe, "load", slow_load)
    with pytest.raises(WeightsError, match="have changed since this run began: run it again"):
        run_here(job(images, with_weights(str(file))))


def test_threads_of_stages(images: Path, world: World) -> None:
    kinds = ("probe", "safe_probe", "gpu_probe", "service_probe")
    probes = [{"probe": {"kind": kind, "name": kind}} for kind in kinds]
    behind = {"probe": {"kind": "probe", "name": "behind", "behind": probes[2]["probe"]}}
    order = job(images, *probes, behind, threads=4, batch_size=8)
    first = {"probe": {"kind": "prepared_probe", "name": "prepared"}}
    run_here(job(images, first, threads=4, batch_size=8, out=images.parent / "prepared"))
    run_here(order)
    scores = [{row["score"] for row in rows(order, f"d{n}")} for n in range(5)]
    assert scores == [{row["score"] for row in rows(job(images, out=images.parent / "prepared"))}] * 5
    sizes = {kind: [len(own) for name, own, _ in world.calls if name == kind] for kind in (*kinds, "prepared")}
    assert sizes["gpu_probe"] == sizes["prepared"] == [8, 8, 4]
    assert set(sizes["probe"] + sizes["safe_probe"] + sizes["service_probe"]) == {1}
    main = {threading.main_thread().name}
    assert world.threads("gpu_probe", "prepared", "behind") == main
    assert not main & world.threads("prepare", "probe", "safe_probe", "service_probe")
    assert len(world.threads("prepare", "safe_probe")) > 1
    assert world.most["probe"] == 1
    assert 1 < world.most["service_probe"] <= 3


def test_networks_of_50_mb_get_4_images_a_call(images: Path, world: World, monkeypatch: Any) -> None:
    (images / "a.onnx").write_bytes(b"large")
    monkeypatch.setattr(runner_module, "LARGE_WEIGHTS", 5)
    run_here(job(images, with_weights(str(images / "a.onnx"))))
    assert {len(own) for _, own, _ in world.calls} == {4}


def test_pixels_are_bounded_and_nobody_waits_for_ever(images: Path, world: World, monkeypatch: Any) -> None:
    monkeypatch.setattr(runner_module, "PIXELS_OF_A_BATCH", 3 * 256)
    monkeypatch.setattr(runner_module, "PIXELS_PER_CORE", 1)
    alive: list[int] = []
    held: dict[str, Frame] = {}

    def count(name: str, frames: list[Frame]) -> None:
        with LOCK:
            held.update({frame.image_id: frame for frame in frames})
            alive.append(sum(frame.pixels.size > 0 for frame in held.values()))

    world.do = count
    probes = [{"probe": {"kind": kind, "name": kind}} for kind in ("safe_probe", "gpu_probe")]
    order = job(images, *probes, threads=4, batch_size=16)
    run_here(order)
    assert [len(own) for name, own, _ in world.calls if name == "gpu_probe"] == [3] * 6 + [2]
    assert max(alive) <= 3 + 1 + 4  # a batch, the first in line, and what is in work
    assert len(rows(order, "d1")) == 20


def test_a_lock_is_what_holds_a_shard_not_its_file(images: Path) -> None:
    order = job(images)
    locks = order.out / "predictions" / "_locks"
    locks.mkdir(parents=True)
    (locks / "00001-of-00001.lock").write_text("")
    other = Runner(order)
    with (
        FileLock(locks / "00001-of-00001.lock"),
        pytest.raises(Taken, match="shard 1 of 1 is with another process"),
    ):
        other.predict(ONE)
    assert not other.complete(ONE)
    assert other.predict(ONE) == 20
    assert other.complete(ONE)


def test_predictions_that_exist_need_no_image(images: Path) -> None:
    damage(images)
    names = [line.split(",")[0] for line in text(images)[1:]]
    (images / "theirs.csv").write_text("image_id,answer\n" + "".join(f"{name},male\n" for name in names))
    theirs = {"kind": "table", "file": str(images / "theirs.csv"), "columns": {"gender": "answer"}}
    order = job(images, theirs)
    assert run_here(order).predicted == 20
    assert {row["status"] for row in rows(order)} == {"clear"}
    assert sum(row["image_sha256"] is None for row in rows(order)) == 3
    assert run_here(order).predicted == 0


def test_two_regions_of_a_file_are_two_contents(tmp_path: Path) -> None:
    images = write_image_set(tmp_path / "set", images=2, prompts=1)
    halves = np.zeros((16, 16, 3), np.uint8)
    halves[:, 8:] = 200
    Image.fromarray(halves).save(images / "images" / "sd_p0_0.png")
    (images / "images.csv").write_text(
        "image_id,path,t2i_model,prompt_id,region\n"
        "sd_p0_0,images/sd_p0_0.png,sd,p0,left\nsd_p0_1,images/sd_p0_0.png,sd,p0,right\n"
    )
    order = job(images, cache_dir=tmp_path / "cache")
    run_here(order)
    left, right = rows(order)
    assert (left["score"], right["score"]) == (0.0, 200 / 255)
    assert left["image_sha256"] != right["image_sha256"]


def test_a_job_is_plain_data(images: Path) -> None:
    order = job(images, {"kind": "shade"}, plugins=(PLUGIN,), allow=("KEY=host",), budget=1.5)
    assert Job.model_validate_json(order.model_dump_json()) == order
    assert run_here(order).predicted == 20


@pytest.mark.slow
def test_faceres_and_ssrnet_say_what_they_said(shared: Path, tmp_path: Path) -> None:
    entries = []
    for name in ("faceres", "ssrnet"):
        entry = read_yaml(packaged("configs/detectors", name))
        entries.append({**entry, "name": f"{name}-yunet", "crop": {**entry["crop"], "boxes": "yunet_faces"}})
    weights, images = shared / "weights", shared / "data" / "t2i_portraits"
    order = Job(image_set=images, detectors=tuple(entries), out=tmp_path / "out", weights_dir=weights)
    assert run_here(order).predicted == 384
    compare = shared / "design" / "golden" / "run" / "compare.py"
    command = [sys.executable, str(compare), "predictions", str(order.out)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
