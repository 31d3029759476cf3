"""What tests of detectors share: images, one stage on images, weights that packages carry."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from detector_bench_next.detector import Arrays, Frame, Pixels, Stage, compute, with_inputs
from detector_bench_next.weights import Where

HERE = Where(download=False)


def noise(height: int, width: int) -> Pixels:
    return np.random.default_rng(0).integers(0, 256, (height, width, 3), np.uint8)


def plain(*colour: int, height: int = 64, width: int = 64) -> Pixels:
    return np.full((height, width, 3), colour, np.uint8)


def read(path: Path, side: int = 0) -> Pixels:
    with Image.open(path) as image:
        own = image.convert("RGB")
        if side:
            own.thumbnail((side, side))
        return np.asarray(own)


def results(stage: Stage, images: Iterable[Pixels], where: Where = HERE, batch: int = 100) -> list[Arrays]:
    """Results of a stage on images, in batches; a failed image fails the test."""
    order = with_inputs([stage])
    functions = {own: own.load(where) for own in order}
    frames = [Frame(str(number), pixels=pixels) for number, pixels in enumerate(images)]
    for at in range(0, len(frames), batch):
        compute(frames[at : at + batch], order, functions)
    return [frame[stage] for frame in frames]


def files(shared: Path, name: str, step: int) -> Sequence[Path]:
    return sorted((shared / "data" / name / "images").iterdir())[::step]
