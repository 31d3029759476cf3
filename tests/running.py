"""Runs stages and detectors on images in the plainest way: the runner without its care for failures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from detector_bench.detectors import Detector, Prediction
from detector_bench.perception.stage import Arrays, Batch, Frame, Stage, with_inputs
from detector_bench.weights import WeightsLocator

Pixels = NDArray[np.uint8]


def plain(*colour: int, height: int = 8, width: int = 8) -> Pixels:
    """An image of one colour."""
    return np.full((height, width, 3), colour, np.uint8)


def noise(height: int, width: int, *, seed: int = 0) -> Pixels:
    """An image of random pixels."""
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def read_image(path: Path) -> Pixels:
    """Decode an image file with Pillow alone."""
    with Image.open(path) as image:
        return np.asarray(image.convert("RGB"))


def portraits(shared: Path, number: int) -> list[Pixels]:
    """The first portraits of the developers' image set."""
    folder = shared / "data" / "t2i_portraits" / "images"
    return [read_image(path) for path in sorted(folder.iterdir())[:number]]


def frames_of(images: Sequence[Pixels]) -> list[Frame]:
    """Frames with the ids "0", "1", ..."""
    return [Frame(str(number), pixels=image) for number, image in enumerate(images)]


def run_stages(stages: Sequence[Stage], frames: Sequence[Frame], *, weights: WeightsLocator) -> None:
    """Run stages and their inputs on all frames at once."""
    for stage in with_inputs(stages):
        for frame, result in zip(frames, stage.load(weights)(frames), strict=True):
            frame.results[stage] = result


def found_by(stage: Stage, images: Sequence[Pixels], *, weights: WeightsLocator) -> list[Arrays]:
    """A stage's results for some images."""
    frames = frames_of(images)
    run_stages([stage], frames, weights=weights)
    return [frame[stage] for frame in frames]


def judged(detector: Detector, images: Sequence[Pixels], *, weights: WeightsLocator) -> list[Prediction]:
    """A detector's predictions for some images, in their order."""
    frames = frames_of(images)
    run_stages(detector.stages, frames, weights=weights)
    return detector.predict(Batch(frames))
