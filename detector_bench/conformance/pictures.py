"""Images to check conformance on: pictures that installed packages carry, or a folder's."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from detector_bench.conformance.observation import Pixels
from detector_bench.dataset.image_tree import IMAGE_SUFFIXES
from detector_bench.errors import ConfigError
from detector_bench.perception.decoding import ImageError, decode_image
from detector_bench.quickstart import RECIPES, SamplePictures

SAMPLE = (
    "large_smiling_3",
    "large_smiling_5",
    "large_serious_1",
    "large_glasses_5",
    "large_hat_3",
    "large_serious_4",
    "small_smiling_2",
)
"""Faces of several sizes, two people, nobody; each of another width and height than its neighbours."""


def sample_pictures() -> list[Pixels]:
    """Seven pictures of the quickstart.

    Raises:
        MissingExtraError: a package whose pictures are needed is not installed.
    """
    given = SamplePictures()
    return [np.asarray(RECIPES[name](given).convert("RGB")) for name in SAMPLE]


def pictures_in(folder: Path, *, at_most: int) -> list[Pixels]:
    """The first images of a folder and the folders below it, in the order of their paths.

    Raises:
        ConfigError: no image there, or one that cannot be read.
    """
    paths = sorted(path for path in folder.rglob("*") if path.suffix.lower() in IMAGE_SUFFIXES and path.is_file())
    if not paths:
        raise ConfigError(f"no images in {str(folder)!r} (accepted: {', '.join(IMAGE_SUFFIXES)})")
    pictures = []
    for path in paths[:at_most]:
        try:
            pictures.append(decode_image(path.read_bytes()))
        except (ImageError, OSError) as error:
            raise ConfigError(f"{path}: {error}") from error
    return pictures
