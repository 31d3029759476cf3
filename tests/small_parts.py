"""Small image sets, stages and detectors that are quick and real; also a plugin file for the command line.

An image is a red, blue or green rectangle with some noise, so that the mean colour tells what it shows: red stands
for male, blue for female, green for low-quality.
"""

from __future__ import annotations

import csv
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from PIL import Image
from pydantic import BaseModel, ConfigDict

import detector_bench.runner.shard_run as run_module
from detector_bench.dataset import ImageSet
from detector_bench.detectors import Detector, Prediction, build_detector, detector
from detector_bench.perception.stage import STAGES, Arrays, Batch, Frame, Stage, StageFunction
from detector_bench.runner.run import run_detectors
from detector_bench.runner.run_record import RunRecord
from detector_bench.runner.run_settings import RunSettings
from detector_bench.vocabulary.columns import IMAGE_COLUMNS, LABEL_COLUMNS, PROMPT_COLUMNS
from detector_bench.weights import WeightsLocator
from detector_bench.weights.files import WeightsField

COLOURS = ((200, 40, 40), (40, 40, 200), (40, 200, 40))
LABELS = ("male", "female", "low_quality")

stage_calls: Counter[tuple[str, str]] = Counter()
"""How often a stage ran on an image, by (kind, image_id)."""

stages_loaded: Counter[str] = Counter()


def images_of(kind: str) -> list[str]:
    """The images that a stage ran on since `forget_calls`, with repeats, in alphabetical order."""
    return sorted(image for (stage, image), count in stage_calls.items() if stage == kind for _ in range(count))


def forget_calls() -> None:
    stage_calls.clear()
    stages_loaded.clear()


def picture(number: int, *, size: tuple[int, int] = (24, 20), seed: int = 0) -> Image.Image:
    """Width and height in `size`; the colour follows from the number, the noise from number and seed."""
    width, height = size
    noise = np.random.default_rng([number, seed]).integers(-20, 21, (height, width, 3))
    return Image.fromarray((np.array(COLOURS[number % 3]) + noise).clip(0, 255).astype(np.uint8))


def image_name(number: int) -> str:
    return f"image_{number:03d}"


def write_image_set(folder: Path, count: int, *, settled: bool = True) -> Path:
    """Write images and tables: two T2I models by turns, two prompts, one annotator.

    Args:
        folder: created.
        count: number of images.
        settled: give the files a modification time that lies back, as those of any real image set.
    """
    (folder / "images").mkdir(parents=True)
    for number in range(count):
        path = folder / "images" / f"{image_name(number)}.png"
        picture(number).save(path)
        if settled:
            os.utime(path, (1_700_000_000, 1_700_000_000))
    write_tables(folder, range(count))
    return folder


def write_tables(folder: Path, numbers: Iterable[int], *, extra: Sequence[tuple[str, str]] = ()) -> None:
    """Write images.csv, prompts.csv and labels.csv; `extra` are further images: id and path."""
    listed = [(image_name(number), f"images/{image_name(number)}.png", number) for number in numbers]
    listed += [(image_id, path, 0) for image_id, path in extra]
    write_csv(
        folder / "images.csv",
        IMAGE_COLUMNS,
        [(image_id, path, "AB"[number % 2], f"p{number // 2 % 2}") for image_id, path, number in listed],
    )
    prompts = [("p0", "profession", "nurse", "a photo of a nurse"), ("p1", "object", "cup", "a photo with a cup")]
    write_csv(folder / "prompts.csv", PROMPT_COLUMNS, prompts)
    labels = [(image_id, "ann", "gender", LABELS[number % 3], "") for image_id, _, number in listed]
    write_csv(folder / "labels.csv", LABEL_COLUMNS, labels)


def write_csv(path: Path, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


def counted(kind: str, function: Callable[[Frame], Arrays]) -> StageFunction:
    """A stage function that works image by image and notes each one."""

    def run(frames: Sequence[Frame]) -> list[Arrays]:
        results = []
        for frame in frames:
            stage_calls[kind, frame.image_id] += 1
            results.append(function(frame))
        return results

    stages_loaded[kind] += 1
    return run


class MeanColour(Stage):
    """The mean of red, green and blue, times `gain`: `mean`, shape (3,)."""

    kind: ClassVar[str] = "test_mean_colour"
    gain: float = 1.0
    seconds: float = 0.0
    """How long it takes over an image."""

    def load(self, weights: WeightsLocator) -> StageFunction:
        def mean(frame: Frame) -> Arrays:
            if self.seconds:
                time.sleep(self.seconds)
            return {"mean": frame.pixels.mean(axis=(0, 1)) * self.gain}

        return counted(self.kind, mean)


class Brightness(Stage):
    """The mean of the mean colour: `value`, shape (1,). Needs another stage, and no pixels."""

    kind: ClassVar[str] = "test_brightness"
    needs_pixels: ClassVar[bool] = False
    colour: MeanColour = MeanColour()

    def load(self, weights: WeightsLocator) -> StageFunction:
        return counted(self.kind, lambda frame: {"value": frame[self.colour]["mean"].mean(keepdims=True)})


class Weighted(Stage):
    """The mean colour times a number that stands in a weights file: `mean`, shape (3,)."""

    kind: ClassVar[str] = "test_weighted"
    factor: WeightsField

    def load(self, weights: WeightsLocator) -> StageFunction:
        factor = float(weights.locate(self.factor).read_text())
        return counted(self.kind, lambda frame: {"mean": frame.pixels.mean(axis=(0, 1)) * factor})


for _stage in (MeanColour, Brightness, Weighted):
    if _stage.kind not in STAGES:
        STAGES.register(_stage.kind, _stage)


def verdict(frame: Frame, mean: Any, *, green: float) -> Prediction:
    """Filtered if there is more green than `green`; otherwise male if red outweighs blue."""
    if mean[1] > green:
        return Prediction.filtered(frame, "gender", "green", score=float(mean[1]) / 255)
    return Prediction.clear(frame, "gender", "male" if mean[0] > mean[2] else "female", score=0.75)


class _Parameters(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


@detector("test-colour", attributes=["gender"])
class ColourDetector(_Parameters):
    """Judges by the mean colour."""

    green: float = 120.0
    gain: float = 1.0
    seconds: float = 0.0

    @property
    def stages(self) -> tuple[Stage, ...]:
        return (MeanColour(gain=self.gain, seconds=self.seconds),)

    def predict(self, batch: Batch) -> Iterator[Prediction]:
        for frame in batch:
            yield verdict(frame, frame[self.stages[0]]["mean"], green=self.green)


@detector("test-brightness", attributes=["gender"], stages=[Brightness()])
class BrightnessDetector:
    """Calls bright images female."""

    def __init__(self, *, threshold: float = 100.0) -> None:
        self.threshold = threshold

    def predict(self, batch: Batch) -> Iterator[Prediction]:
        for frame in batch:
            bright = float(frame[Brightness()]["value"][0]) > self.threshold
            yield Prediction.clear(frame, "gender", "female" if bright else "male")


@detector("test-weighted", attributes=["gender"], needs_parameters=True)
class WeightedDetector(_Parameters):
    """Judges by the mean colour times a number from a weights file."""

    factor: WeightsField
    green: float = 120.0

    @property
    def stages(self) -> tuple[Stage, ...]:
        return (Weighted(factor=self.factor),)

    def predict(self, batch: Batch) -> Iterator[Prediction]:
        for frame in batch:
            yield verdict(frame, frame[self.stages[0]]["mean"], green=self.green)


@detector("test-age-and-gender", attributes=["gender", "age"], stages=[MeanColour()])
class TwoAttributes:
    """Judges two attributes."""

    def predict(self, batch: Batch) -> Iterator[Prediction]:
        for frame in batch:
            yield Prediction.clear(frame, "age", "young", value=20.0)
            yield verdict(frame, frame[MeanColour()]["mean"], green=120.0)


def small_run(
    image_set: Path,
    out: Path,
    *detectors: Detector | str,
    weights: WeightsLocator | None = None,
    **settings: Any,
) -> RunRecord:
    """Run detectors (or registered names) over a folder, with a stage cache beside the results."""
    settings = {"cache_folder": out.parent / "cache", "batch_size": 4, **settings}
    built = [build_detector(each) if isinstance(each, str) else each for each in detectors]
    locator = weights or WeightsLocator(folders=(image_set.parent,))
    return run_detectors(ImageSet.load(image_set), built, out, weights=locator, settings=RunSettings(**settings))


if os.environ.get("TEST_FLUSH_EVERY_BATCH"):  # as a plugin, in a process of its own
    run_module._SECONDS_BETWEEN_FLUSHES = 0.0
