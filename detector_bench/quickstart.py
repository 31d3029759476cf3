"""The embedded default image set: no download, made out of pictures that installed packages carry.

matplotlib, scikit-image and scikit-learn bring a few photographs along as sample data. They stand in for T2I
output here, so that the tool can be tried out at once; nothing can be learnt from them about any T2I model.
Pictures that are hard for a detector are derived from them: people side by side, a head cut off, a blur. The
recipes are below, the labels in `labels/quickstart/`, with the origin and licence of every picture.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageFilter, ImageOps

from detector_bench.errors import MissingExtraError
from detector_bench.installation import missing_message, resource

LONGEST_SIDE = 512
"""No picture is larger than this, in pixels."""

_TABLES = ("images.csv", "prompts.csv", "labels.csv")
_GREY = (128, 128, 128)


def build_image_set(destination: Path | str) -> Path:
    """Write the image set: `images.csv`, `prompts.csv`, `labels.csv` and `images/*.png`.

    The same packages give the same bytes every time; files that are there already are overwritten.

    Returns:
        The folder, `destination`.

    Raises:
        MissingExtraError: a package whose pictures are needed is not installed, or lacks them.
        DetectorBenchError: the labels are missing from this installation.
    """
    destination = Path(destination)
    pictures = SamplePictures()
    (destination / "images").mkdir(parents=True, exist_ok=True)
    for image_id, draw in RECIPES.items():
        draw(pictures).save(destination / "images" / f"{image_id}.png")
    for table in _TABLES:
        shutil.copyfile(resource(f"labels/quickstart/{table}"), destination / table)
    return destination


class SamplePictures:
    """The pictures that other packages install, as RGB images. The packages themselves are not imported."""

    @cached_property
    def admiral(self) -> Image.Image:
        """A woman in a naval uniform with cap and glasses, 512 x 600."""
        return _read("matplotlib", "mpl-data/sample_data/grace_hopper.jpg")

    @cached_property
    def astronaut(self) -> Image.Image:
        """A smiling woman in a space suit, 512 x 512."""
        return _read("skimage", "data/astronaut.png")

    @cached_property
    def photographer(self) -> Image.Image:
        """A man from the side, behind a camera on a tripod, 512 x 512."""
        return _read("skimage", "data/camera.png")

    @cached_property
    def _faces(self) -> NDArray[np.float64]:
        # (200, 25, 25), grey from 0 to 1; the first hundred are faces.
        faces: NDArray[np.float64] = np.load(_sample_file("skimage", "data/lfw_subset.npy"))
        return faces

    def face(self, number: int, *, width: int = 200, canvas: int = 320) -> Image.Image:
        """Enlarge one of the hundred 25 x 25 faces, and centre it on a plain square.

        The margin is there for the detectors: they look for a head with something around it.
        """
        tiny = Image.fromarray(np.rint(self._faces[number] * 255).astype(np.uint8))
        picture = Image.new("RGB", (canvas, canvas), _GREY)
        margin = (canvas - width) // 2
        picture.paste(tiny.resize((width, width), Image.Resampling.BICUBIC), (margin, margin))
        return picture

    def small_face(self, number: int, *, width: int = 60) -> Image.Image:
        """A face too small for dlib's HOG detector unless the image is doubled in size first."""
        return self.face(number, width=width, canvas=192)

    def thing(self, package: str, path: str) -> Image.Image:
        """A picture without people, at most `LONGEST_SIDE` pixels."""
        return ImageOps.contain(_read(package, path), (LONGEST_SIDE, LONGEST_SIDE))


def side_by_side(left: Image.Image, right: Image.Image) -> Image.Image:
    """Join two pictures, bottoms aligned, grey above the lower one."""
    joined = Image.new("RGB", (left.width + right.width, max(left.height, right.height)), _GREY)
    joined.paste(left, (0, joined.height - left.height))
    joined.paste(right, (left.width, joined.height - right.height))
    return joined


def without_head(picture: Image.Image, *, above: int) -> Image.Image:
    """Cut off everything above a pixel row."""
    return picture.crop((0, above, picture.width, picture.height))


def blurred(picture: Image.Image, *, radius: float) -> Image.Image:
    """Blur until a face is a smudge; `radius` in pixels."""
    return picture.filter(ImageFilter.GaussianBlur(radius))


def scaled(picture: Image.Image, *, width: int) -> Image.Image:
    """Resize to a width in pixels, keeping the shape."""
    height = round(picture.height * width / picture.width)
    return picture.resize((width, height), Image.Resampling.LANCZOS)


RECIPES: dict[str, Callable[[SamplePictures], Image.Image]] = {
    "large_smiling_1": lambda given: given.face(52),
    "large_smiling_2": lambda given: given.face(91),
    "large_smiling_3": lambda given: given.astronaut,
    "large_smiling_4": lambda given: given.face(23),
    "large_smiling_5": lambda given: side_by_side(
        given.face(93, width=180, canvas=240), given.face(15, width=180, canvas=240)
    ),
    "large_smiling_6": lambda given: given.face(96),
    "large_serious_1": lambda given: given.face(46),
    "large_serious_2": lambda given: given.face(3),
    "large_serious_3": lambda given: given.face(80),
    "large_serious_4": lambda given: given.photographer,
    "large_serious_5": lambda given: without_head(given.astronaut, above=190),
    "large_glasses_1": lambda given: scaled(given.admiral, width=420),
    "large_glasses_2": lambda given: given.face(25),
    "large_glasses_3": lambda given: given.face(34),
    "large_glasses_4": lambda given: blurred(given.face(81), radius=9),
    "large_glasses_5": lambda given: given.thing("skimage", "data/coffee.png"),
    "large_hat_1": lambda given: given.face(17),
    "large_hat_2": lambda given: given.face(12),
    "large_hat_3": lambda given: ImageOps.mirror(given.admiral.crop((60, 0, 460, 380))),
    "large_hat_4": lambda given: side_by_side(
        scaled(given.admiral, width=256), given.face(17, width=170, canvas=220)
    ),
    "large_hat_5": lambda given: without_head(given.admiral, above=330),
    "small_smiling_1": lambda given: given.small_face(93),
    "small_smiling_2": lambda given: given.small_face(53, width=96),
    "small_smiling_3": lambda given: given.small_face(31),
    "small_smiling_4": lambda given: given.small_face(11),
    "small_smiling_5": lambda given: side_by_side(given.small_face(94, width=70), given.small_face(24, width=70)),
    "small_serious_1": lambda given: given.small_face(99),
    "small_serious_2": lambda given: given.small_face(41, width=96),
    "small_serious_3": lambda given: ImageOps.flip(given.small_face(66, width=96)),
    "small_serious_4": lambda given: blurred(given.small_face(57), radius=7),
    "small_glasses_1": lambda given: given.small_face(58),
    "small_glasses_2": lambda given: given.small_face(35, width=96),
    "small_glasses_3": lambda given: given.thing("sklearn", "datasets/images/flower.jpg"),
    "small_hat_1": lambda given: ImageOps.mirror(given.small_face(17)),
    "small_hat_2": lambda given: scaled(given.admiral, width=192),
    "small_hat_3": lambda given: given.thing("skimage", "data/rocket.jpg"),
}
"""How each image is made, by image_id; `large_` belongs to `photographs`, `small_` to `photographs_small`."""


def _sample_file(package: str, path: str) -> Path:
    """Find a file inside an installed package without importing the package."""
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise MissingExtraError(missing_message(package, extra="quickstart"))
    file = Path(spec.origin).parent / path
    if not file.is_file():
        # Some Linux distributions pack the sample data apart.
        raise MissingExtraError(
            f"the package {package!r} was installed without its sample picture {path}; "
            "in a fresh virtual environment: pip install 'detector-bench[quickstart]'"
        )
    return file


def _read(package: str, path: str) -> Image.Image:
    with Image.open(_sample_file(package, path)) as image:
        return image.convert("RGB")
