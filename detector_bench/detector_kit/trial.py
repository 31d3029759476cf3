"""One detector on single pictures, step by step: what each stage made of them, and how long it took."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from detector_bench.dataset.decoding import ImageError, decode_image, read_image_file
from detector_bench.detectors.base import Detector, Prediction
from detector_bench.perception.identity import fingerprint
from detector_bench.perception.stage import (
    Arrays,
    Frame,
    Stage,
    StageFailure,
    StageResult,
    text_in,
    with_inputs,
)
from detector_bench.runner.execution import StageExecution, errors_for, judge
from detector_bench.runner.readiness import require_ready
from detector_bench.runner.stage_cache import StageCache
from detector_bench.vocabulary import Status
from detector_bench.weights import WeightsLocator

Pixels = NDArray[np.uint8]

_BOXES = {"corners", "scores"}
_MOST_NUMBERS = 12
"""Of an array that is shown number by number."""


@dataclass(frozen=True)
class Step:
    """What one stage made of a picture.

    Attributes:
        stage: its declaration.
        label: its name, with a number where a detector has several of a kind.
        result: its arrays, or why there are none.
        milliseconds: of the call, without loading.
        seen: what it cuts out of the picture for its network, each (height, width, 3), RGB; mostly one, none where
            it cuts nothing.
    """

    stage: Stage
    label: str
    result: StageResult
    milliseconds: float
    seen: tuple[Pixels, ...] = ()

    @property
    def boxes(self) -> Arrays | None:
        """The arrays of `perception.boxes`, if it gives boxes."""
        found = self.result
        return None if isinstance(found, StageFailure) or not found.keys() >= _BOXES else found

    @property
    def landmarks(self) -> NDArray[Any]:
        """Points of faces among its arrays, (faces, points, 2), x and y in pixels; empty where there are none."""
        found = {} if isinstance(self.result, StageFailure) else self.result
        points = found.get("landmarks")
        is_such = points is not None and points.ndim == _POINTS and points.shape[-1] == 2
        return np.asarray(points) if is_such else np.zeros((0, 0, 2))

    @property
    def chip(self) -> Pixels | None:
        """A cut-out face among its arrays, (height, width, 3)."""
        found = {} if isinstance(self.result, StageFailure) else self.result
        chip = found.get("chip")
        return chip if chip is not None and chip.ndim == _PICTURE and chip.dtype == np.uint8 else None

    @property
    def in_short(self) -> str:
        """Its result in a line: boxes and small arrays number by number, large ones by their shape."""
        found = self.result
        if isinstance(found, StageFailure):
            return f"failed: {found.reason}: {found.detail}"
        if self.boxes is not None:
            return _boxes_in_short(found)
        if not found:
            return "nothing: there was no crop"
        names = _names_of(self.stage)
        return "; ".join(f"{name} {_in_short(array, names)}" for name, array in found.items())


_PICTURE = 3
"""Axes of a picture."""

_POINTS = 3
"""Axes of the points of several faces."""


class FilterSaid(NamedTuple):
    """One filter of a detector, and why it throws the picture out; None keeps it."""

    name: str
    reason: str | None


@dataclass(frozen=True)
class Trial:
    """A detector on one picture.

    Attributes:
        name: of the picture.
        detector: the detector's name.
        pixels: the picture, (height, width, 3), RGB; None: it could not be read.
        steps: its stages, inputs first.
        filters: its filters, as far as it declares them.
        predictions: one for each attribute.
        milliseconds: that the detector itself took, from the stages' results to the verdicts.
        loading: seconds that loading took before this picture, by the steps' labels.
    """

    name: str
    detector: str
    pixels: Pixels | None
    steps: tuple[Step, ...]
    filters: tuple[FilterSaid, ...]
    predictions: tuple[Prediction, ...]
    milliseconds: float = 0.0
    loading: Mapping[str, float] = field(default_factory=dict)

    @property
    def total_milliseconds(self) -> float:
        """All steps and the verdict, without loading."""
        return sum(step.milliseconds for step in self.steps) + self.milliseconds


class TryOut:
    """A detector whose stages are loaded once, and tried on one picture after the other. Nothing is kept.

    Args:
        detector: from `build_detector`.
        weights: where weights are found; None looks where the command line does.

    Raises:
        MissingExtraError, ConfigError, WeightsError: the detector cannot run on this machine.
    """

    def __init__(self, detector: Detector, *, weights: WeightsLocator | None = None) -> None:
        weights = WeightsLocator.from_environment() if weights is None else weights
        self.detector = detector
        self._stages = with_inputs(detector.stages)
        require_ready(self._stages, weights=weights)
        self._labels = _labels(self._stages)
        self._cache = StageCache(None)
        fingerprints = {stage: fingerprint(stage, weights=weights) for stage in self._stages}
        self._execution = StageExecution(fingerprints=fingerprints, weights=weights, cache=self._cache)

    def file(self, path: Path) -> Trial:
        """Try a picture's file; one that cannot be read has an error for a verdict."""
        try:
            pixels = decode_image(read_image_file(path))
        except ImageError as error:
            errors = errors_for(self.detector, path.name, str(error))
            return Trial(str(path), self.detector.name, None, (), (), tuple(errors))
        return self.pixels(pixels, name=str(path))

    def pixels(self, pixels: Pixels, *, name: str = "picture") -> Trial:
        """Try a decoded picture, (height, width, 3), RGB, 0 to 255."""
        frame = Frame(Path(name).name, pixels=pixels)
        steps, loading = [], {}
        for stage in self._stages:
            label = self._labels[stage]
            before, loaded = self._seconds(stage), self._seconds(stage, " (loading)")
            self._execution.run([frame], sha256=[None], wanted=[[stage]])
            spent = self._seconds(stage) - before
            if (loads := self._seconds(stage, " (loading)") - loaded) > 0:
                loading[label] = loads
            steps.append(Step(stage, label, frame.results[stage], 1000 * spent, _seen_by(stage, frame)))
        began = time.perf_counter()
        predictions = judge(self.detector, [frame])
        spent = time.perf_counter() - began
        filters = tuple(_filters(self.detector, frame))
        return Trial(
            name, self.detector.name, pixels, tuple(steps), filters, tuple(predictions), 1000 * spent, loading
        )

    def _seconds(self, stage: Stage, what: str = "") -> float:
        return self._execution.seconds.get(f"{self._execution.label(stage)}{what}", 0.0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._cache.close()


def try_detector(
    detector: Detector, images: Iterable[Path | str | Pixels], *, weights: WeightsLocator | None = None
) -> list[Trial]:
    """Try a detector on pictures, files or pixels, and keep every step; see `TryOut`.

    Raises:
        MissingExtraError, ConfigError, WeightsError: the detector cannot run on this machine.
    """
    with TryOut(detector, weights=weights) as trying:
        return [
            trying.file(Path(each))
            if isinstance(each, str | Path)
            else trying.pixels(each, name=f"picture {number}")
            for number, each in enumerate(images, start=1)
        ]


def _labels(stages: Sequence[Stage]) -> dict[Stage, str]:
    kinds = [stage.kind for stage in stages]
    seen: dict[str, int] = {}
    labels = {}
    for stage in stages:
        seen[stage.kind] = number = seen.get(stage.kind, 0) + 1
        labels[stage] = stage.kind if kinds.count(stage.kind) == 1 else f"{stage.kind} ({number})"
    return labels


def _seen_by(stage: Stage, frame: Frame) -> tuple[Pixels, ...]:
    """What a stage with a crop cuts out of the picture; nothing where it or a step before it failed."""
    crop = getattr(stage, "crop", None)
    # A crop that can show several views of its region says so as `seen`.
    cut = getattr(crop, "seen", None) or getattr(crop, "cut", None)
    if not callable(cut) or not stage.needs_pixels or isinstance(frame.results.get(stage), StageFailure):
        return ()
    try:
        found = cut(frame)
    except (LookupError, TypeError):  # a plugged-in stage whose `crop` is something else
        return ()
    regions = found if isinstance(found, tuple) else (found,)
    return tuple(each for each in regions if isinstance(each, np.ndarray))


def _filters(detector: Detector, frame: Frame) -> Iterator[FilterSaid]:
    judges = {id(part): part for part in detector.parts.values()}.values() or [detector]
    for each in judges:
        # A composition, as CLIP-Enhance is one, says as `steps` what it is made of.
        filters = getattr(getattr(each.implementation, "steps", each.implementation), "filters", ())
        for one in filters if isinstance(filters, tuple) else ():
            reason = getattr(one, "reason", None)
            if not callable(reason) or any(
                isinstance(frame.results.get(stage), StageFailure | None) for stage in [one.stage()]
            ):
                continue
            yield FilterSaid(f"{one.kind} ({one.stage().kind})", reason(frame))


def _names_of(stage: Stage) -> tuple[str, ...]:
    prompts = getattr(stage, "prompts", ())
    return prompts if isinstance(prompts, tuple) else ()


def _boxes_in_short(found: Arrays) -> str:
    count = len(found["scores"])
    if count == 0:
        return "no box"
    sizes = [f"{right - left:.0f} x {bottom - top:.0f}" for left, top, right, bottom in found["corners"]]
    shown = [f"{size} ({score:.3g})" for size, score in zip(sizes, found["scores"], strict=True)]
    more = f" and {count - _MOST_BOXES} more" if count > _MOST_BOXES else ""
    return f"{count} {'box' if count == 1 else 'boxes'}: {', '.join(shown[:_MOST_BOXES])}{more}"


_MOST_BOXES = 4


def _in_short(array: NDArray[Any], names: Sequence[str]) -> str:
    if array.dtype == np.uint8 and array.ndim == 1 and array.size > 1:
        return repr(text_in(array)) if _is_text(array) else f"{array.size} bytes"
    if array.size == 0:
        return "none"
    if array.ndim == _ROWS and len(array) <= _MOST_BOXES and array.shape[1] > 1:
        return " | ".join(_row_in_short(row, names) for row in array)
    return _row_in_short(array, names)


_ROWS = 2
"""Axes of an array with a row for each face."""


def _row_in_short(array: NDArray[Any], names: Sequence[str]) -> str:
    flat = array.reshape(-1)
    if names and flat.size == len(names):
        return ", ".join(f"{name!r} {_number(value)}" for name, value in zip(names, flat, strict=True))
    if flat.size <= _MOST_NUMBERS:
        return ", ".join(_number(value) for value in flat)
    shape = " x ".join(map(str, array.shape))
    if array.dtype.kind not in "fiu":
        return f"{shape} {array.dtype}"
    # Probabilities of many ages or words: which is the largest is what they say.
    where = f", the largest at place {flat.argmax() + 1}" if array.ndim == 1 else ""
    return f"{shape} numbers from {_number(flat.min())} to {_number(flat.max())}{where}"


def _number(value: Any) -> str:
    return f"{float(value):.4g}"


def _is_text(array: NDArray[Any]) -> bool:
    try:
        text_in(array)
    except UnicodeDecodeError:
        return False
    return True


_YEARS = "age"
"""The attribute whose values are years."""


def said(prediction: Prediction) -> str:
    """A verdict in words: `male (0.93)`, `young (27.1 years)`, `filtered: no_face`, `error: ...`."""
    if prediction.status is Status.CLEAR:
        facts = [] if prediction.score is None else [f"{prediction.score:.2f}"]
        unit = " years" if prediction.attribute == _YEARS else ""
        facts += [] if prediction.value is None else [f"{prediction.value:.1f}{unit}"]
        return f"{prediction.label} ({', '.join(facts)})" if facts else str(prediction.label)
    return f"{prediction.status.value}: {prediction.reason}"
