"""On a CPU an image goes from decoding to its last stage in one thread; what suits the cores is tried out."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import numpy as np
import pyarrow.parquet as pq
import pytest
from running import portraits
from small_parts import image_name, small_run, write_image_set

from detector_bench.detectors import Prediction, detector
from detector_bench.errors import ConfigError, WeightsError
from detector_bench.perception.boxes import Crop
from detector_bench.perception.cores import computing_with, libraries_as_before, threads_per_call
from detector_bench.perception.faces.small_networks import YuNetFaces
from detector_bench.perception.networks.onnx_networks import OnnxInput, OnnxOutputs
from detector_bench.perception.stage import Arrays, Batch, Frame, Stage, StageFunction, with_inputs
from detector_bench.runner import lanes as lanes_module
from detector_bench.runner import loading
from detector_bench.runner.ahead import ahead
from detector_bench.runner.execution import StageExecution
from detector_bench.runner.image_reading import ImageFile, LoadingRules
from detector_bench.runner.lanes import StageLayout
from detector_bench.runner.loading import loaded_batches
from detector_bench.runner.stage_cache import StageCache
from detector_bench.runner.time_spent import REST, waited_for
from detector_bench.weights import WeightsFile, WeightsLocator

COUNT = 10
THREADS = 2

behaviour: dict[str, Callable[[Frame], Any]] = {}
calls: list[tuple[str, str, int, int | None]] = []
"""Name of a thread, image, images in the call, threads that it may use."""


class InLane(Stage):
    """Notes who calls it."""

    kind: ClassVar[str] = "test_in_lane"
    lanes: ClassVar[bool] = True
    device_taken: ClassVar[str] = "cpu"

    def load(self, weights: WeightsLocator) -> StageFunction:
        def run(frames: Sequence[Frame]) -> list[Arrays]:
            for frame in frames:
                calls.append((threading.current_thread().name, frame.image_id, len(frames), threads_per_call()))
                behaviour.get("in_lane", lambda _: None)(frame)
            return [{"mean": frame.pixels.mean(axis=(0, 1))} for frame in frames]

        return run


class AfterLane(InLane):
    """Needs the result of the other, and the pixels."""

    kind: ClassVar[str] = "test_after_lane"

    def inputs(self) -> tuple[Stage, ...]:
        return (InLane(),)

    def load(self, weights: WeightsLocator) -> StageFunction:
        return lambda frames: [{"x": frame[InLane()]["mean"] + frame.pixels[0, 0]} for frame in frames]


class Together(InLane):
    """Wants the whole batch, and both others first."""

    kind: ClassVar[str] = "test_together"
    lanes: ClassVar[bool] = False

    def inputs(self) -> tuple[Stage, ...]:
        return (AfterLane(),)


class OnGpu(InLane):
    """Says that it computes on a GPU, and resizes an image ahead of that."""

    kind: ClassVar[str] = "test_on_gpu"
    device_taken: ClassVar[str] = "cuda (none)"

    def load(self, weights: WeightsLocator) -> StageFunction:
        return _Resizing()


class _Resizing:
    def prepare(self, frame: Frame) -> Any:
        behaviour.get("prepare", lambda _: None)(frame)
        calls.append((threading.current_thread().name, frame.image_id, 0, threads_per_call()))
        return frame.pixels[0, 0].astype(float)

    def __call__(self, frames: Sequence[Frame]) -> list[Arrays]:
        calls.append((threading.current_thread().name, "", len(frames), threads_per_call()))
        return [{"x": frame.prepared.get(OnGpu(), np.full(3, -1.0))} for frame in frames]


class _Clear:
    def predict(self, batch: Batch) -> Iterator[Prediction]:
        for frame in batch:
            yield Prediction.clear(frame, "gender", "male")


@detector("test-after-lane", attributes=["gender"], stages=[AfterLane()])
class OnLanes(_Clear):
    """All its stages run in lanes."""


@detector("test-together", attributes=["gender"], stages=[Together()])
class OnBoth(_Clear):
    """Its last stage does not."""


@pytest.fixture(autouse=True)
def nothing_noted() -> None:
    behaviour.clear()
    calls.clear()


@pytest.fixture
def image_set(tmp_path: Path) -> Path:
    return write_image_set(tmp_path / "set", COUNT)


def reasons(out: Path, name: str) -> dict[str, str | None]:
    table = pq.read_table(out / name / "predictions.parquet")
    return dict(zip(table["image_id"].to_pylist(), table["reason"].to_pylist(), strict=True))


def test_an_image_stays_in_one_thread_and_its_results_are_kept(image_set: Path, tmp_path: Path) -> None:
    record = small_run(image_set, tmp_path / "out", "test-after-lane", threads=THREADS)

    assert sorted(image for _, image, _, _ in calls) == [image_name(number) for number in range(COUNT)]
    assert {(name[: len("decode")], size, threads) for name, _, size, threads in calls} == {("decode", 1, 1)}
    assert record.images_per_stage.keys() == record.seconds_per_stage.keys() - {
        name for name in record.seconds_per_stage if name.endswith("(loading)")
    }
    assert set(record.images_per_stage.values()) == {COUNT}
    again = small_run(image_set, tmp_path / "again", "test-after-lane", threads=THREADS)
    assert again.images_per_stage == {}
    assert len(calls) == COUNT


def test_pixels_are_dropped_as_soon_as_no_stage_needs_them(image_set: Path, tmp_path: Path) -> None:
    for wanted, kept in ((AfterLane(), False), (Together(), True)):
        for batch in _batches(image_set, wanted):
            assert [image.pixels is not None for image in batch] == [kept] * len(batch)
            assert all({InLane(), AfterLane()} == set(image.cached) for image in batch)


def test_a_stage_for_whole_batches_comes_after_the_lanes(image_set: Path, tmp_path: Path) -> None:
    small_run(image_set, tmp_path / "out", "test-together", threads=THREADS, batch_size=COUNT)
    of_lanes = [each for each in calls if each[2] == 1]
    of_batches = [each for each in calls if each[2] == COUNT]
    assert (len(of_lanes), len(of_batches)) == (COUNT, COUNT)
    assert {threads for *_, threads in of_batches} == {THREADS}


def test_images_of_a_gpu_are_resized_ahead_and_their_pixels_dropped(image_set: Path) -> None:
    def fails(frame: Frame) -> None:
        if frame.image_id == image_name(3):
            raise ValueError("too narrow")

    behaviour["prepare"] = fails
    execution = _execution(OnGpu())
    [batch] = _batches(image_set, OnGpu(), execution)
    assert {name[: len("decode")] for name, *_ in calls} == {"decode"}
    # What failed is left to the function, which sees the pixels.
    assert [image.pixels is not None for image in batch] == [number == 3 for number in range(COUNT)]

    frames = [image.frame() for image in batch]
    execution.run(frames, sha256=[None] * COUNT, wanted=[[OnGpu()]] * COUNT)
    assert calls[-1][2] == COUNT, "all in one call"
    assert [frame[OnGpu()]["x"].min() >= 0 for frame in frames] == [number != 3 for number in range(COUNT)]


def test_without_a_loader_the_lanes_are_threads_of_a_batch() -> None:
    execution = _execution(InLane())
    frames = [Frame(str(number), pixels=np.full((4, 4, 3), number, np.uint8)) for number in range(COUNT)]
    execution.run(frames, sha256=[None] * COUNT, wanted=[[InLane()]] * COUNT)
    assert [frame[InLane()]["mean"][0] for frame in frames] == list(range(COUNT))
    assert {(size, threads) for _, _, size, threads in calls} == {(1, 1)}
    assert threading.current_thread().name not in {name for name, *_ in calls}


def test_what_fails_in_a_lane_costs_its_image(image_set: Path, tmp_path: Path) -> None:
    def fails(frame: Frame) -> None:
        if frame.image_id == image_name(3):
            raise ZeroDivisionError("no")

    behaviour["in_lane"] = fails
    small_run(image_set, tmp_path / "out", "test-after-lane", threads=THREADS)
    found = reasons(tmp_path / "out", "test-after-lane")
    assert [name for name, reason in found.items() if reason] == [image_name(3)]
    assert found[image_name(3)] == "stage_failed: ZeroDivisionError: no"

    behaviour["in_lane"] = lambda _: (_ for _ in ()).throw(ConfigError("mend this"))
    with pytest.raises(ConfigError, match="mend this"):
        small_run(image_set, tmp_path / "other", "test-after-lane", cache_folder=None)


def test_an_image_that_fails_beside_others_is_tried_alone(image_set: Path, tmp_path: Path) -> None:
    first = threading.Event()

    def once(_: Frame) -> None:
        if not first.is_set():
            first.set()
            raise MemoryError

    behaviour["in_lane"] = once
    small_run(image_set, tmp_path / "out", "test-after-lane", threads=THREADS)
    assert not any(reasons(tmp_path / "out", "test-after-lane").values())


def test_closing_begins_no_further_image(image_set: Path) -> None:
    entered, go_on = threading.Event(), threading.Event()

    def waits(_: Frame) -> None:
        entered.set()
        go_on.wait(10)

    behaviour["in_lane"] = waits
    batches = _batches(image_set, AfterLane())
    with closing(ahead(batches)) as waiting:
        threading.Thread(target=lambda: (entered.wait(10), batches.cancel(), go_on.set()), daemon=True).start()
        list(waiting)
    assert len(calls) <= THREADS, "those that were under way"


# --- the trial


class Weighted(InLane):
    """A network whose calls take a time that `costs` says."""

    kind: ClassVar[str] = "test_weighted_lane"
    network: WeightsFile = WeightsFile(path="numbers.bin")

    def load(self, weights: WeightsLocator) -> StageFunction:
        threads = threads_per_call()

        def run(frames: Sequence[Frame]) -> list[Arrays]:
            clock.now += costs["call"] / (threads or 1) + costs["image"] * len(frames) / (
                costs["speed"] ** (threads == THREADS)
            )
            return [{"mean": np.zeros(3)} for _ in frames]

        return run


costs: dict[str, float] = {}


class _Clock:
    """Stands in for the module `time`, for all threads: one goes on while the others wait."""

    now = 0.0

    def process_time(self) -> float:
        return self.now

    perf_counter = monotonic = process_time


clock = _Clock()


@pytest.mark.parametrize(
    ("cost", "expected"),
    [
        # Seconds of a call, seconds of an image, and how much faster an image is with all threads.
        ((0.0, 1.0, 1.5), StageLayout(THREADS, 1, 1, tried=True)),
        ((1.0, 0.2, 1.5), StageLayout(THREADS, 1, 4, tried=True)),
        ((0.0, 1.0, 4.0), StageLayout(1, THREADS, 4, tried=True)),
        ((0.0, 0.0001, 9.0), StageLayout(THREADS, 1, 1, tried=True)),  # so quick that it does not matter
    ],
)
def test_the_trial_takes_what_is_clearly_quicker(
    cost: tuple[float, float, float], expected: StageLayout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lanes_module, "time", clock)
    monkeypatch.setattr(loading, "FEWEST_IMAGES", COUNT)
    monkeypatch.setattr(lanes_module, "_SMALL_WEIGHTS", 1)
    costs.update(zip(("call", "image", "speed"), cost, strict=True))
    (tmp_path / "numbers.bin").write_bytes(b"1")
    stage = Weighted()
    image_set = write_image_set(tmp_path / "set", COUNT)
    execution = _execution(stage, WeightsLocator(folders=(tmp_path,)))
    images = [image for batch in _batches(image_set, stage, execution) for image in batch]
    assert execution.layouts() == {execution.label(stage): expected.as_data()}
    in_lanes = expected.threads_per_call == 1
    assert all((stage in image.cached) for image in images) or not in_lanes
    assert execution.images[execution.label(stage)] <= COUNT, "what the trial computed again counts once"


def test_a_short_run_and_one_core_try_nothing_out(tmp_path: Path) -> None:
    (tmp_path / "numbers.bin").write_bytes(b"1")
    costs.update(call=0.0, image=1.0, speed=4.0)
    execution = _execution(Weighted(), WeightsLocator(folders=(tmp_path,)))
    list(_batches(write_image_set(tmp_path / "set", COUNT), Weighted(), execution))
    assert list(execution.layouts().values()) == [StageLayout(THREADS, 1, 1).as_data()]


def test_weights_that_change_before_they_are_read_stop_the_run(tmp_path: Path) -> None:
    path = tmp_path / "numbers.bin"
    path.write_bytes(b"1")
    execution = _execution(Weighted(), WeightsLocator(folders=(tmp_path,)))
    path.write_bytes(b"2")
    with pytest.raises(WeightsError, match=r"weights 'numbers\.bin' have changed since this run began"):
        list(_batches(write_image_set(tmp_path / "set", COUNT), Weighted(), execution))


def test_layouts_change_no_verdict(shared: Path) -> None:
    crop = Crop(boxes=YuNetFaces(), margin=1.2)
    size = OnnxInput(size=(224, 224), layout="NHWC")
    outputs = ("gender_pred_Sigmoid_0",)
    stage = OnnxOutputs(network="faceres.onnx", input=size, crop=crop, outputs=outputs)
    weights = WeightsLocator(folders=(shared / "weights",), cache=Path("nowhere"))
    found = []
    for threads, together in ((1, 1), (1, 4), (2, 8)):
        frames = [Frame(str(number), pixels=image) for number, image in enumerate(portraits(shared, 8))]
        with computing_with(threads):
            for each in (YuNetFaces(), stage):
                function = each.load(weights)
                for start in range(0, len(frames), together):
                    part = frames[start : start + together]
                    for frame, result in zip(part, function(part), strict=True):
                        frame.results[each] = result
        found.append([frame[stage][outputs[0]] for frame in frames if frame[stage]])
    for other in found[1:]:
        np.testing.assert_allclose(found[0], other, rtol=0, atol=1e-5)


def test_what_a_run_waited_for_adds_up_to_its_time() -> None:
    found = waited_for(10.0, beside={"decoding": 2.0, "faces": 6.0}, main={"clip": 3.0, "faces": 0.5}, waiting=4.0)
    assert found == {"faces": 3.5, "clip": 3.0, REST: 2.5, "decoding": 1.0}
    assert waited_for(1.0, beside={}, main={}, waiting=0.4) == {REST: 1.0}


def _execution(stage: Stage, weights: WeightsLocator | None = None) -> StageExecution:
    fingerprints = {
        each: str(number) * 64 for number, each in enumerate((InLane(), AfterLane(), Together(), stage))
    }
    return StageExecution(
        fingerprints=fingerprints, weights=weights or WeightsLocator(), cache=StageCache(None), threads=THREADS
    )


def _batches(image_set: Path, stage: Stage, execution: StageExecution | None = None) -> Any:

    execution = execution or _execution(stage)
    files = [ImageFile(path.stem, path, path.name, (0,)) for path in sorted((image_set / "images").iterdir())]
    rules = LoadingRules(
        wanted=lambda _: with_inputs([stage]),
        needs_decoding=lambda image: any(each.needs_pixels for each in with_inputs([stage], present=image.cached)),
        fingerprints=dict.fromkeys(with_inputs([stage]), "f" * 64),
        batch_size=COUNT,
        max_pixels=10**7,
        threads=THREADS,
        execution=execution,
    )

    return loaded_batches(files, cache=StageCache(None), rules=rules)


def test_a_library_that_another_thread_is_importing_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("cv2", "torch"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    with libraries_as_before(), computing_with(1):
        assert threads_per_call() == 1
