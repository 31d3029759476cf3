"""Fixtures of detector tests: places of weights, and pictures."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from detector_bench_next.detector import Frame, Pixels
from detector_bench_next.weights import Where


@pytest.fixture(scope="session")
def where() -> Where:
    """The developers' weights, where they are; what is missing is told by `lacks`."""
    named = os.environ.get("DETECTOR_BENCH_SHARED")
    folder = (Path(named) if named else Path(__file__).resolve().parents[3] / "shared") / "weights"
    return Where([folder] if folder.is_dir() else [], download=False)


def framed(pixels: Pixels, image_id: str = "x") -> Frame:
    """A frame whose pixels nobody can write to, as a run has them."""
    frozen = np.ascontiguousarray(pixels)
    frozen.flags.writeable = False
    return Frame(image_id, pixels=frozen, sha256=f"sha of {image_id}")


@pytest.fixture(scope="session")
def pictures() -> dict[str, Pixels]:
    """A face that scikit-image carries, and odd pictures without one."""
    data = pytest.importorskip("skimage.data")
    noise = np.random.default_rng(0).integers(0, 256, (60, 90, 3), np.uint8)
    return {
        "face": data.astronaut()[:256, 96:352].copy(),
        "noise": noise,
        "small": noise[:8, :8],
        "narrow": noise[:3, :].repeat(2, axis=1),
    }
