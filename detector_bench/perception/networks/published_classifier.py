"""What every published classifier becomes, whichever library opens it: labels, and numbers for prepared images."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from pydantic import Field, model_validator

from detector_bench.declarations import Declaration
from detector_bench.errors import ConfigError, WeightsError

Pixels = NDArray[np.uint8]
Prepared = NDArray[np.float32]

_LARGEST_ASPECT = 200
_IMAGENET_MEAN, _IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class OpenedClassifier(NamedTuple):
    """A network ready to run.

    Attributes:
        prepare: from an RGB image, (height, width, 3), of any size to what the network takes of it; several
        threads
            may call it.
        numbers: from at least one prepared image to the network's numbers, (images, labels), float32, before any
            softmax.
    """

    prepare: Callable[[Pixels], Prepared]
    numbers: Callable[[Sequence[Prepared]], NDArray[np.float32]]


class PictureInput(Declaration):
    """How a crop becomes the input of a network whose file does not say it: resized by Pillow (antialiased,
    rounded to 8 bits), scaled to 0 to 1, normalised. By default what torchvision's classifiers were trained
    with."""

    size: int = Field(default=224, ge=1, le=4096)
    """Height and width in pixels."""
    resize: Literal["shorter_side", "squash"] = "shorter_side"
    """`shorter_side` keeps the proportions and cuts the middle out; `squash` shows the whole crop, distorted."""
    shorter_side: int | None = Field(default=None, ge=1, le=4096)
    """What the shorter side becomes before the middle is cut out, such as 256; None: `size`."""
    interpolation: Literal["bilinear", "bicubic"] = "bilinear"
    mean: tuple[float, float, float] = _IMAGENET_MEAN
    """Red, green and blue, on a scale of 0 to 1."""
    std: tuple[float, float, float] = _IMAGENET_STD

    @model_validator(mode="after")
    def _plausible(self) -> PictureInput:
        if 0.0 in self.std:
            raise ValueError("std divides, so it may not be 0")
        if self.shorter_side is not None and (self.resize == "squash" or self.shorter_side < self.size):
            raise ValueError("shorter_side goes with `resize: shorter_side`, and is not below `size`")
        return self

    def prepare(self, image: Pixels) -> Prepared:
        """Turn an RGB image into the network's input, (3, size, size), float32."""
        height, width = image.shape[:2]
        shown = (self.size, self.size)
        if self.resize == "shorter_side":
            short, wanted = min(height, width), self.shorter_side or self.size
            shown = (int(wanted * width / short), int(wanted * height / short))
        resample = Image.Resampling.BICUBIC if self.interpolation == "bicubic" else Image.Resampling.BILINEAR
        resized = np.asarray(Image.fromarray(image).resize(shown, resample))
        left, top = (shown[0] - self.size) // 2, (shown[1] - self.size) // 2
        middle = resized[top : top + self.size, left : left + self.size].transpose(2, 0, 1).astype(np.float32)
        mean, std = (np.asarray(values, np.float32).reshape(3, 1, 1) for values in (self.mean, self.std))
        return np.ascontiguousarray((middle * np.float32(1 / 255) - mean) / std)


def require_resizable(image: Pixels) -> None:
    """Refuse what would not fit into memory once its shorter side is resized.

    Raises:
        ValueError: an image more than 200 times as long as wide.
    """
    height, width = image.shape[:2]
    if max(height, width) > _LARGEST_ASPECT * min(height, width):
        raise ValueError(
            f"the image or crop is {width} pixels wide and {height} high: too narrow to be resized for a network"
        )


def stacked(images: Sequence[Prepared], *, name: str) -> NDArray[np.float32]:
    """Prepared images as one array.

    Raises:
        ConfigError: they differ in size, as where a checkpoint's settings resize nothing.
    """
    shapes = {image.shape for image in images}
    if len(shapes) > 1:
        one, other = sorted(shapes)[:2]
        raise ConfigError(
            f"{name}: its settings make inputs of other sizes of other images ({list(one)}, {list(other)}); a "
            "classifier takes one size"
        )
    return np.stack(images)


def checked_numbers(found: NDArray[Any], *, images: int, name: str) -> NDArray[np.float32]:
    """A network's numbers, if they are one finite row for each image.

    Raises:
        ConfigError: another shape.
        ValueError: numbers that are not finite.
    """
    if found.ndim != 2 or len(found) != images:
        raise ConfigError(
            f"{name}: the network gives numbers of the shape {list(found.shape)} for {images} images; a "
            "classifier gives one row for each, with one number for each label"
        )
    if not np.isfinite(found).all():
        raise ValueError(f"the outputs of {name} hold values that are not finite")
    return np.asarray(found, np.float32)


def checked_labels(labels: Sequence[str], *, name: str) -> tuple[str, ...]:
    """Labels in the order of the network's numbers.

    Raises:
        ConfigError: one stands there twice, so that nobody could tell two numbers apart.
    """
    seen: dict[str, int] = {}
    for number, label in enumerate(labels):
        if label in seen:
            raise ConfigError(
                f"{name}: the label {label!r} stands twice among its labels, at {seen[label]} and {number} "
                "(accepted: each label once; set `labels` of `model` in the order of its numbers)"
            )
        seen[label] = number
    return tuple(labels)


def labels_in(settings: Mapping[str, Any], *, name: str) -> tuple[str, ...]:
    """The labels that a checkpoint's `config.json` names (`id2label`), in the order of the network's numbers.

    Raises:
        WeightsError: they are no labels for the numbers 0, 1, 2 and so on.
        ConfigError: one stands there twice.
    """
    found = settings.get("id2label")
    if found is None:
        # What transformers makes of a checkpoint without names.
        return tuple(f"LABEL_{number}" for number in range(int(settings.get("num_labels", 2))))
    try:
        by_number = {int(number): label for number, label in found.items()}
    except (AttributeError, TypeError, ValueError):
        by_number = {}
    labels = [by_number.get(number) for number in range(len(by_number))]
    texts = [label for label in labels if isinstance(label, str)]
    if not texts or len(texts) != len(labels):
        raise WeightsError(
            f"{name}: id2label in its config.json is {str(found)[:80]!r} (accepted: a label for each of the "
            "numbers 0, 1, 2 and so on)"
        )
    return checked_labels(texts, name=name)
