"""Image set of the quickstart, made without a download out of pictures that installed packages carry.

matplotlib, scikit-image and scikit-learn bring a few photographs along as sample data. They stand in for images of
a T2I model, so that everything can be tried at once; nothing can be learnt from them about any T2I model. Pictures
that are hard for a detector are derived from them: people side by side, a head cut off, a blur. Labels, prompts,
origins and licences lie in `labels/quickstart/`.
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

from detector_bench_next.errors import MissingExtraError
from detector_bench_next.files import packaged

_LONGEST_SIDE = 512
_GREY = (128, 128, 128)
_INSTALL = "pip install 'detector-bench[quickstart]'"


def build_image_set(folder: Path) -> Path:
    """Write images.csv, prompts.csv, labels.csv and 36 pictures of at most 512 pixels; return the folder.

    The same packages give the same bytes every time. Files that are there already are overwritten.

    Raises:
        MissingExtraError: a package whose pictures are needed is not installed, or lacks them.
    """
    pictures = _Pictures()
    (folder / "images").mkdir(parents=True, exist_ok=True)
    for image_id, draw in _RECIPES.items():
        draw(pictures).save(folder / "images" / f"{image_id}.png")
    for table in ("images.csv", "prompts.csv", "labels.csv"):
        shutil.copyfile(packaged("labels/quickstart", table), folder / table)
    return folder


class _Pictures:
    """Pictures that other packages install, as RGB images. The packages themselves are not imported."""

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
        # [picture, 25, 25], grey from 0 to 1; the first hundred are faces.
        faces: NDArray[np.float64] = np.load(_sample_file("skimage", "data/lfw_subset.npy"))
        return faces

    def face(self, number: int, *, width: int = 200, canvas: int = 320) -> Image.Image:
        """One of the hundred faces, enlarged, in the middle of a grey square: face detectors need the margin."""
        tiny = Image.fromarray(np.rint(self._faces[number] * 255).astype(np.uint8))
        picture = Image.new("RGB", (canvas, canvas), _GREY)
        margin = (canvas - width) // 2
        picture.paste(tiny.resize((width, width), Image.Resampling.BICUBIC), (margin, margin))
        return picture

    def small_face(self, number: int, *, width: int = 60) -> Image.Image:
        """A face too small for dlib's HOG detector unless the image is doubled in size first."""
        return self.face(number, width=width, canvas=192)

    def thing(self, package: str, path: str) -> Image.Image:
        """A picture without people."""
        return ImageOps.contain(_read(package, path), (_LONGEST_SIDE, _LONGEST_SIDE))


def _side_by_side(left: Image.Image, right: Image.Image) -> Image.Image:
    """Two pictures on one line, grey above the lower one."""
    joined = Image.new("RGB", (left.width + right.width, max(left.height, right.height)), _GREY)
    joined.paste(left, (0, joined.height - left.height))
    joined.paste(right, (left.width, joined.height - right.height))
    return joined


def _without_head(picture: Image.Image, *, above: int) -> Image.Image:
    return picture.crop((0, above, *picture.size))


def _blurred(picture: Image.Image, *, radius: float) -> Image.Image:
    return picture.filter(ImageFilter.GaussianBlur(radius))


def _scaled(picture: Image.Image, *, width: int) -> Image.Image:
    return picture.resize((width, round(picture.height * width / picture.width)), Image.Resampling.LANCZOS)


_RECIPES: dict[str, Callable[[_Pictures], Image.Image]] = {
    "large_smiling_1": lambda p: p.face(52),
    "large_smiling_2": lambda p: p.face(91),
    "large_smiling_3": lambda p: p.astronaut,
    "large_smiling_4": lambda p: p.face(23),
    "large_smiling_5": lambda p: _side_by_side(*(p.face(number, width=180, canvas=240) for number in (93, 15))),
    "large_smiling_6": lambda p: p.face(96),
    "large_serious_1": lambda p: p.face(46),
    "large_serious_2": lambda p: p.face(3),
    "large_serious_3": lambda p: p.face(80),
    "large_serious_4": lambda p: p.photographer,
    "large_serious_5": lambda p: _without_head(p.astronaut, above=190),
    "large_glasses_1": lambda p: _scaled(p.admiral, width=420),
    "large_glasses_2": lambda p: p.face(25),
    "large_glasses_3": lambda p: p.face(34),
    "large_glasses_4": lambda p: _blurred(p.face(81), radius=9),
    "large_glasses_5": lambda p: p.thing("skimage", "data/coffee.png"),
    "large_hat_1": lambda p: p.face(17),
    "large_hat_2": lambda p: p.face(12),
    "large_hat_3": lambda p: ImageOps.mirror(p.admiral.crop((60, 0, 460, 380))),
    "large_hat_4": lambda p: _side_by_side(_scaled(p.admiral, width=256), p.face(17, width=170, canvas=220)),
    "large_hat_5": lambda p: _without_head(p.admiral, above=330),
    "small_smiling_1": lambda p: p.small_face(93),
    "small_smiling_2": lambda p: p.small_face(53, width=96),
    "small_smiling_3": lambda p: p.small_face(31),
    "small_smiling_4": lambda p: p.small_face(11),
    "small_smiling_5": lambda p: _side_by_side(p.small_face(94, width=70), p.small_face(24, width=70)),
    "small_serious_1": lambda p: p.small_face(99),
    "small_serious_2": lambda p: p.small_face(41, width=96),
    "small_serious_3": lambda p: ImageOps.flip(p.small_face(66, width=96)),
    "small_serious_4": lambda p: _blurred(p.small_face(57), radius=7),
    "small_glasses_1": lambda p: p.small_face(58),
    "small_glasses_2": lambda p: p.small_face(35, width=96),
    "small_glasses_3": lambda p: p.thing("sklearn", "datasets/images/flower.jpg"),
    "small_hat_1": lambda p: ImageOps.mirror(p.small_face(17)),
    "small_hat_2": lambda p: _scaled(p.admiral, width=192),
    "small_hat_3": lambda p: p.thing("skimage", "data/rocket.jpg"),
}
"""Drawing of each image by its id; `large_` are of the category `photographs`, `small_` of `photographs_small`."""


def _sample_file(package: str, path: str) -> Path:
    if (spec := find_spec(package)) is None or spec.origin is None:
        raise MissingExtraError(f"the package {package!r} is not installed: {_INSTALL}")
    file = Path(spec.origin).parent / path
    if not file.is_file():  # some Linux distributions pack the sample data apart
        told = f"without its sample picture {path}; in a fresh virtual environment: {_INSTALL}"
        raise MissingExtraError(f"the package {package!r} was installed {told}")
    return file


def _read(package: str, path: str) -> Image.Image:
    with Image.open(_sample_file(package, path)) as image:
        return image.convert("RGB")
