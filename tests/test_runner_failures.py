"""A failure costs the image it belongs to, never the batch, and what the user must mend stops the run."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow.parquet as pq
import pytest
from small_parts import MeanColour, counted, forget_calls, image_name, images_of, small_run, write_image_set

from detector_bench.detectors import Prediction, build_detector, detector
from detector_bench.errors import ConfigError, DetectorBenchError, MissingExtraError, RunInterruptedError
from detector_bench.perception.stage import Arrays, Batch, Frame, Stage, StageFailure, StageFunction
from detector_bench.runner.execution import StageExecution, each_or_failure
from detector_bench.runner.prediction_store import PredictionStore
from detector_bench.runner.stage_cache import StageCache
from detector_bench.vocabulary import Status
from detector_bench.weights import WeightsLocator

COUNT = 12

behaviour: dict[str, Callable[[Sequence[Frame]], Any]] = {}
"""What the stage and the detector of this file do instead of their work; set by each test."""


class Fragile(Stage):
    """Does what `behaviour["stage"]` says."""

    kind: ClassVar[str] = "test_fragile"
    per_call: int | None = None

    def load(self, weights: WeightsLocator) -> StageFunction:
        behaviour.get("load", lambda _: None)([])
        return behaviour["stage"]


class OneByOne(Fragile):
    """The same, an image per call."""

    kind: ClassVar[str] = "test_one_by_one"
    images_per_call: ClassVar[int | None] = 1


class OnFragile(Stage):
    """Needs the fragile stage."""

    kind: ClassVar[str] = "test_on_fragile"
    needs_pixels: ClassVar[bool] = False

    def inputs(self) -> tuple[Stage, ...]:
        return (Fragile(),)

    def load(self, weights: WeightsLocator) -> StageFunction:
        return counted(self.kind, lambda frame: {"x": frame[Fragile()]["x"]})


class _ClearWhenAsked:
    def predict(self, batch: Batch) -> Iterator[Prediction]:
        for frame in batch:
            yield Prediction.clear(frame, "gender", "male")


@detector("test-fragile", attributes=["gender"], stages=[Fragile()])
class OnFragileStage(_ClearWhenAsked):
    """Reads the fragile stage."""


@detector("test-on-fragile", attributes=["gender"], stages=[OnFragile()])
class OnFragileInput(_ClearWhenAsked):
    """Reads a stage that reads the fragile one."""


@detector("test-one-by-one", attributes=["gender"], stages=[OneByOne()])
class OnOneByOne(_ClearWhenAsked):
    """Reads the stage that is called for each image."""


@detector("test-robust", attributes=["gender"], stages=[MeanColour()])
class Robust(_ClearWhenAsked):
    """Reads a stage that does not fail."""


@detector("test-fragile-detector", attributes=["gender"], stages=[MeanColour()])
class FragileDetector:
    """Does what `behaviour["detector"]` says."""

    def predict(self, batch: Batch) -> Any:
        return behaviour["detector"](list(batch))


def works(frames: Sequence[Frame]) -> list[Arrays]:
    return [{"x": np.ones(1)} for _ in frames]


def fails_on(*names: str, error: Exception) -> Callable[[Sequence[Frame]], list[Arrays]]:
    def stage(frames: Sequence[Frame]) -> list[Arrays]:
        if any(frame.image_id in names for frame in frames):
            raise error
        return works(frames)

    return stage


@pytest.fixture(autouse=True)
def _as_usual() -> None:
    behaviour.clear()
    behaviour["stage"] = works
    forget_calls()


@pytest.fixture
def image_set(tmp_path: Path) -> Path:
    return write_image_set(tmp_path / "images", COUNT)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "predictions"


def stored(out: Path, name: str) -> dict[str, tuple[str, str | None]]:
    rows = pq.read_table(out / name / "predictions.parquet").to_pylist()
    return {row["image_id"]: (row["status"], row["reason"]) for row in rows}


def errors(out: Path, name: str) -> dict[str, str | None]:
    return {image: reason for image, (status, reason) in stored(out, name).items() if status == "error"}


def test_a_stage_that_fails_on_one_image_costs_that_image_only(image_set: Path, out: Path) -> None:
    behaviour["stage"] = fails_on("image_005", error=ValueError("no such\n thing"))
    small_run(image_set, out, "test-fragile", "test-robust", batch_size=8)

    assert errors(out, "test-fragile") == {"image_005": "stage_failed: ValueError: no such thing"}
    assert len(stored(out, "test-fragile")) == COUNT
    assert errors(out, "test-robust") == {}


def test_a_failure_is_inherited_by_the_stages_behind_and_not_computed(image_set: Path, out: Path) -> None:
    behaviour["stage"] = fails_on("image_005", error=ValueError("no"))
    small_run(image_set, out, "test-on-fragile", batch_size=8)

    assert errors(out, "test-on-fragile") == {"image_005": "stage_failed: ValueError: no"}
    assert images_of("test_on_fragile") == [image_name(number) for number in range(COUNT) if number != 5]


def test_failures_are_not_cached_as_answers(image_set: Path, out: Path) -> None:
    behaviour["stage"] = fails_on("image_005", error=ValueError("no"))
    small_run(image_set, out, "test-fragile")
    asked: list[str] = []

    def stage(frames: Sequence[Frame]) -> list[Arrays]:
        asked.extend(frame.image_id for frame in frames)
        return works(frames)

    behaviour["stage"] = stage
    small_run(image_set, out, "test-fragile")
    assert asked == ["image_005"]
    assert errors(out, "test-fragile") == {}


def test_a_stage_may_say_itself_that_it_failed(image_set: Path, out: Path) -> None:
    behaviour["stage"] = lambda frames: [
        StageFailure("no_landmarks", "the face is too small")
        if frame.image_id == "image_002"
        else {"x": np.ones(1)}
        for frame in frames
    ]
    small_run(image_set, out, "test-fragile")
    assert errors(out, "test-fragile") == {"image_002": "no_landmarks: the face is too small"}


def test_want_of_memory_is_met_with_smaller_batches(image_set: Path, out: Path) -> None:
    sizes: list[int] = []

    def stage(frames: Sequence[Frame]) -> list[Arrays]:
        sizes.append(len(frames))
        if len(frames) > 3:
            raise MemoryError
        return works(frames)

    behaviour["stage"] = stage
    small_run(image_set, out, "test-fragile", batch_size=12)
    assert errors(out, "test-fragile") == {}
    assert sizes == [12, 6, 3, 3, 6, 3, 3]


def test_a_failed_call_holds_no_memory_while_its_halves_run() -> None:
    class Large:
        """Stands for an array that the call filled before it failed."""

    held: list[weakref.ref[Large]] = []

    def stage(frames: Sequence[Frame]) -> list[int]:
        assert all(reference() is None for reference in held)
        large = Large()
        held.append(weakref.ref(large))
        if len(frames) > 1:
            raise MemoryError
        return [1]

    frames = [Frame(str(number)) for number in range(4)]

    def unexpected(frame: Frame, error: Exception) -> int:
        raise AssertionError(frame.image_id) from error

    assert each_or_failure(stage, frames, failed=unexpected) == [1, 1, 1, 1]
    assert len(held) == 7


def test_a_stage_that_works_image_by_image_gets_one_at_a_time(image_set: Path, out: Path) -> None:
    sizes: list[int] = []

    def stage(frames: Sequence[Frame]) -> list[Arrays]:
        sizes.append(len(frames))
        return works(frames)

    behaviour["stage"] = stage
    small_run(image_set, out, "test-one-by-one", batch_size=8)
    assert sizes == [1] * COUNT


WRONG_RESULTS: dict[str, tuple[Callable[[Sequence[Frame]], Any], str]] = {
    "one too few": (lambda frames: works(frames)[1:], "ValueError: 0 results for 1 images"),
    "nothing": (lambda frames: None, "TypeError: 'NoneType' object is not iterable"),
    "None": (lambda frames: [None for _ in frames], "a stage gives named arrays for each image; got NoneType"),
    "a list": (lambda frames: [{"x": [1, 2]} for _ in frames], "a stage gives arrays of numbers; 'x' is list"),
    "text": (
        lambda frames: [{"x": np.array(["a"])} for _ in frames],
        "a stage gives arrays of numbers; 'x' is an array of <U1",
    ),
    "objects": (
        lambda frames: [{"x": np.array([None])} for _ in frames],
        "a stage gives arrays of numbers; 'x' is an array of object",
    ),
}


@pytest.mark.parametrize("case", WRONG_RESULTS)
@pytest.mark.parametrize("cached", [True, False])
def test_results_that_are_none_become_errors(image_set: Path, out: Path, case: str, cached: bool) -> None:
    behaviour["stage"], message = WRONG_RESULTS[case]
    settings = {} if cached else {"cache_folder": None}
    small_run(image_set, out, "test-fragile", "test-robust", **settings)

    found = errors(out, "test-fragile")
    assert len(found) == COUNT
    assert all(reason is not None and reason.endswith(message) for reason in found.values())
    assert errors(out, "test-robust") == {}


def test_a_detector_that_fails_on_one_image_costs_that_image_only(image_set: Path, out: Path) -> None:
    def predict(frames: Sequence[Frame]) -> Iterator[Prediction]:
        for frame in frames:
            if frame.image_id == "image_007":
                raise KeyError("gone")
            yield Prediction.clear(frame, "gender", "female")

    behaviour["detector"] = predict
    small_run(image_set, out, "test-fragile-detector", "test-robust", batch_size=8)
    assert errors(out, "test-fragile-detector") == {"image_007": "detector_failed: KeyError: 'gone'"}
    assert errors(out, "test-robust") == {}


def clear(frame: Frame, **more: Any) -> Prediction:
    return Prediction(frame.image_id, "gender", **{"status": Status.CLEAR, "label": "male", **more})


WRONG_PREDICTIONS: dict[str, tuple[Callable[[Frame], list[Any]], str]] = {
    "none": (lambda frame: [], "gave 0 predictions for 1 pairs"),
    "twice": (lambda frame: [clear(frame), clear(frame)], "gave 2 predictions for 1 pairs"),
    "other attribute": (
        lambda frame: [Prediction(frame.image_id, "age", Status.CLEAR, label="young")],
        "not asked for: [('image_000', 'age')]",
    ),
    "other image": (
        lambda frame: [Prediction("elsewhere", "gender", Status.CLEAR, label="male")],
        "not asked for: [('elsewhere', 'gender')]",
    ),
    "unknown class": (
        lambda frame: [clear(frame, label="man")],
        "calls the gender of 'image_000' 'man'; accepted: male, female",
    ),
    "low_quality": (lambda frame: [clear(frame, label="low_quality")], "'low_quality'; accepted: male, female"),
    "no class": (lambda frame: [clear(frame, label=None)], "None; accepted: male, female"),
    "status as text": (
        lambda frame: [clear(frame, status="clear")],
        "status is one of clear, filtered, error; got",
    ),
    "score as text": (lambda frame: [clear(frame, score="0.5")], "score is a number or None; got '0.5'"),
    "value as array": (
        lambda frame: [clear(frame, value=np.ones(1))],
        "value is a number or None; got array([1.])",
    ),
    "reason as number": (lambda frame: [clear(frame, reason=3)], "reason is text or None; got 3"),
    "raw as JSON": (lambda frame: [clear(frame, raw={"a": 1})], "raw is text or None; got {'a': 1}"),
    "a word": (lambda frame: ["male"], "AttributeError: 'str' object has no attribute 'image_id'"),
}


@pytest.mark.parametrize("case", WRONG_PREDICTIONS)
def test_predictions_against_the_contract_become_errors(image_set: Path, out: Path, case: str) -> None:
    wrong, message = WRONG_PREDICTIONS[case]

    def predict(frames: Sequence[Frame]) -> list[Any]:
        return [
            each
            for frame in frames
            for each in (wrong(frame) if frame.image_id == "image_000" else [clear(frame)])
        ]

    behaviour["detector"] = predict
    small_run(image_set, out, "test-fragile-detector")
    found = errors(out, "test-fragile-detector")
    assert list(found) == ["image_000"]
    assert message in (found["image_000"] or "")


def test_numbers_of_numpy_are_numbers(image_set: Path, out: Path) -> None:
    behaviour["detector"] = lambda frames: [
        clear(frame, label=np.str_("male"), score=np.float32(0.25), value=np.int64(40)) for frame in frames
    ]
    small_run(image_set, out, "test-fragile-detector")
    [row, *_] = pq.read_table(out / "test-fragile-detector" / "predictions.parquet").to_pylist()
    assert (row["label"], row["score"], row["value"]) == ("male", 0.25, 40.0)


def test_an_error_that_a_detector_reports_is_tried_again(image_set: Path, out: Path) -> None:
    asked: list[str] = []

    def predict(frames: Sequence[Frame]) -> list[Prediction]:
        asked.extend(frame.image_id for frame in frames)
        return [
            Prediction.error(frame.image_id, "gender", "api_failed: 503")
            if frame.image_id == "image_001"
            else clear(frame)
            for frame in frames
        ]

    behaviour["detector"] = predict
    small_run(image_set, out, "test-fragile-detector")
    assert errors(out, "test-fragile-detector") == {"image_001": "api_failed: 503"}
    asked.clear()
    small_run(image_set, out, "test-fragile-detector")
    assert asked == ["image_001"]


MENDABLE = [
    ConfigError("the network has no input 'x'"),
    MissingExtraError("the package 'cv2' is not installed"),
]


@pytest.mark.parametrize("error", MENDABLE, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("where", ["load", "stage", "detector"])
def test_what_the_user_must_mend_stops_the_run(
    image_set: Path, out: Path, where: str, error: DetectorBenchError
) -> None:
    def fail(_: Sequence[Frame]) -> Any:
        raise error

    behaviour[where] = fail
    name = "test-fragile-detector" if where == "detector" else "test-fragile"
    with pytest.raises(type(error), match=str(error)):
        small_run(image_set, out, name)
    assert not (out / name / "predictions.parquet").exists()
    assert [thread.name for thread in threading.enumerate() if thread.name.startswith(("ahead", "decode"))] == []


def test_what_was_judged_before_the_run_stopped_is_kept(image_set: Path, out: Path) -> None:
    behaviour["stage"] = fails_on("image_009", error=ConfigError("mend me"))
    with pytest.raises(ConfigError, match="mend me"):
        small_run(image_set, out, "test-fragile", batch_size=4)

    behaviour["stage"] = works
    assert small_run(image_set, out, "test-fragile", batch_size=4).images_judged == 4


def test_a_stage_that_cannot_be_loaded_stops_the_run_with_its_own_error(image_set: Path, out: Path) -> None:
    def fail(_: Sequence[Frame]) -> None:
        raise RuntimeError("cuDNN is not what it was")

    behaviour["load"] = fail
    with pytest.raises(RuntimeError, match="cuDNN"):
        small_run(image_set, out, "test-fragile")


@pytest.mark.parametrize("where", ["stage", "detector"])
def test_ctrl_c_keeps_what_is_done_and_the_next_run_goes_on(image_set: Path, out: Path, where: str) -> None:
    asked: list[str] = []

    def interrupted(frames: Sequence[Frame]) -> Any:
        if any(frame.image_id == "image_009" for frame in frames) and not asked.count("image_009"):
            asked.append("image_009")
            raise KeyboardInterrupt
        asked.extend(frame.image_id for frame in frames)
        return works(frames) if where == "stage" else [clear(frame) for frame in frames]

    behaviour[where] = interrupted
    name = "test-fragile-detector" if where == "detector" else "test-fragile"
    message = r"^stopped after 8 of 12 images; nothing is lost: run the same command again to go on$"
    with pytest.raises(RunInterruptedError, match=message):
        small_run(image_set, out, name, "test-robust", batch_size=4)

    record = small_run(image_set, out, name, "test-robust", batch_size=4)
    assert record.images_judged == 4
    assert asked == [*[image_name(number) for number in range(8)], "image_009", *map(image_name, range(8, 12))]
    assert len(stored(out, name)) == len(stored(out, "test-robust")) == COUNT


def test_ctrl_c_between_two_detectors_runs_only_the_second_again(
    image_set: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def predict(frames: Sequence[Frame]) -> list[Prediction]:
        asked.extend(frame.image_id for frame in frames)
        return [clear(frame) for frame in frames]

    behaviour["detector"] = predict
    real = PredictionStore.add
    calls = iter(range(100))

    def add(self: PredictionStore, *args: Any, **options: Any) -> None:
        if next(calls) == 3:  # the second detector's second batch
            raise KeyboardInterrupt
        real(self, *args, **options)

    second = build_detector("test-robust", name="second")
    with monkeypatch.context() as patch:
        patch.setattr(PredictionStore, "add", add)
        with pytest.raises(RunInterruptedError, match="after 4 of 12"):
            small_run(image_set, out, "test-fragile-detector", second, batch_size=4)
    assert small_run(image_set, out, "test-fragile-detector", second, batch_size=4).images_judged == 8

    assert asked == [image_name(number) for number in range(COUNT)], "nothing twice"
    assert len(stored(out, "second")) == COUNT


def test_an_interrupted_stage_keeps_the_images_it_had_done(image_set: Path, out: Path) -> None:
    asked: list[str] = []

    def interrupted(frames: Sequence[Frame]) -> list[Arrays]:
        [frame] = frames
        asked.append(frame.image_id)
        if frame.image_id == "image_006" and asked.count("image_006") == 1:
            raise KeyboardInterrupt
        return works(frames)

    behaviour["stage"] = interrupted
    with pytest.raises(RunInterruptedError):
        small_run(image_set, out, "test-one-by-one", batch_size=12)
    small_run(image_set, out, "test-one-by-one", batch_size=12)

    names = [image_name(number) for number in range(COUNT)]
    assert asked == [*names[:7], *names[6:]], "of a slow stage one image is lost, not the batch"


def test_stages_run_once_for_all_detectors_and_only_where_missing(tmp_path: Path) -> None:
    forget_calls()
    stage = MeanColour()
    execution = StageExecution(
        fingerprints={stage: "f" * 64}, weights=WeightsLocator(), cache=StageCache(tmp_path / "cache")
    )
    frames = [Frame(name, pixels=np.full((2, 2, 3), 9, np.uint8)) for name in "abc"]
    frames[1].results[stage] = {"mean": np.zeros(3)}
    execution.run(frames, sha256=["1", "2", "3"], wanted=[[stage, stage], [stage], []])

    assert images_of("test_mean_colour") == ["a"]
    assert frames[0][stage]["mean"].tolist() == [9.0, 9.0, 9.0]
    assert frames[1][stage]["mean"].tolist() == [0.0, 0.0, 0.0]
    assert stage not in frames[2].results
    assert execution.images == {"test_mean_colour-ffffffff": 1}
