"""What every CLIP encoder gives: unit vectors for images and prompts. Shared by the backends."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from detector_bench.errors import WeightsError
from detector_bench.perception.cores import threads_per_call

Pixels = NDArray[np.uint8]

R = TypeVar("R")

_LARGEST_ASPECT = 200
_THREADS = min(8, os.cpu_count() or 1)


class ImageEncoder(Generic[R]):
    """Turns at least one RGB image, (height, width, 3), of any size, into unit vectors, (images, dimensions).

    Args:
        prepare: resizes and cuts one image; several threads may call it.
        embed: turns prepared images into unit vectors.
    """

    def __init__(
        self, prepare: Callable[[Pixels], R], embed: Callable[[Sequence[R]], NDArray[np.float32]]
    ) -> None:
        self._prepare = prepare
        self.embed = embed

    def prepare(self, image: Pixels) -> R:
        """The image as `embed` takes it.

        Raises:
            ValueError: an image is more than 200 times as long as wide: resized by its shorter side, as CLIP does
                it, it would not fit into memory.
        """
        height, width = image.shape[:2]
        if max(height, width) > _LARGEST_ASPECT * min(height, width):
            raise ValueError(
                f"the image or crop is {width} pixels wide and {height} high: too narrow to be resized for CLIP"
            )
        return self._prepare(image)

    def __call__(self, images: Sequence[Pixels]) -> NDArray[np.float32]:
        """Prepare and embed."""
        return self.embed(self.prepared(images))

    def prepared(self, images: Sequence[Pixels]) -> list[R]:
        """Prepare images in a few threads, where more than one is allowed: resizing would keep a GPU waiting."""
        threads = min(_THREADS, threads_per_call() or _THREADS)
        if len(images) <= 1 or threads == 1:
            return [self.prepare(image) for image in images]
        with ThreadPoolExecutor(threads) as pool:
            return list(pool.map(self.prepare, images))


class TextEmbeddings(NamedTuple):
    """What the text encoder makes of some prompts.

    Attributes:
        vectors: (prompts, dimensions), each of length 1.
        scale: the learnt factor that turns cosines into logits; about 100 in published networks.
        bias: what is added to logits before a sigmoid, of networks that were trained with one, such as SigLIP;
        None:
            the network knows no sigmoid.
    """

    vectors: NDArray[np.float32]
    scale: float
    bias: float | None = None


def unit_vectors(features: Any) -> NDArray[np.float32]:
    """Bring each row to length 1, as float32.

    Raises:
        ValueError: a row holds numbers that are not finite, or only zeros.
    """
    features = np.asarray(features, np.float32)
    if not np.isfinite(features).all():
        raise ValueError("the encoder gives values that are not finite")
    lengths = np.linalg.norm(features, axis=1, keepdims=True)
    if not lengths.all():
        raise ValueError("the encoder gives zeros only")
    return np.asarray(features / lengths, np.float32)


def mean_direction(vectors: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
    """The mean of unit vectors, brought to length 1 again: (dimensions,).

    Raises:
        ValueError: they cancel each other out.
    """
    mean = np.mean(np.asarray(vectors, np.float64), axis=0, keepdims=True)
    return np.asarray(unit_vectors(mean)[0])


def text_embeddings(features: Any, *, scale: float, source: str, bias: float | None = None) -> TextEmbeddings:
    """Put the text encoder's features into the common form.

    Raises:
        WeightsError: features or scale are not finite; prompts do not depend on images, so the weights are wrong.
    """
    try:
        vectors = unit_vectors(features)
    except ValueError as error:
        raise WeightsError(f"the text encoder of {source} is damaged: {error}") from error
    if not np.isfinite(scale):
        raise WeightsError(f"the logit scale of {source} is not finite")
    if bias is not None and not np.isfinite(bias):
        raise WeightsError(f"the logit bias of {source} is not finite")
    return TextEmbeddings(vectors, scale, bias)
