"""Reads dlib's own file of its CNN face detector, without dlib and without running anything that is in it.

dlib stores a network as a plain sequence of values, the layer nearest to the image first. Every value has one of
four forms, and every layer's name, sizes and strides are checked against the one network that this is about:

- a whole number: one byte with the count of bytes that follow (its high bit marks a negative number), then the
  bytes, least significant first;
- a real number: mantissa and exponent of 2, as two whole numbers;
- a text: its length, then its bytes;
- a tensor: the whole number 2, four dimensions, then its values as little-endian float32.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from detector_bench.errors import WeightsError

Floats = NDArray[np.float32]


class ConvolutionShape(NamedTuple):
    """Filters, input channels, side of the square filter, stride, and padding on each side."""

    filters: int
    channels: int
    side: int
    stride: int
    padding: int


CONVOLUTIONS = (
    ConvolutionShape(16, 3, 5, 2, 0),
    ConvolutionShape(32, 16, 5, 2, 0),
    ConvolutionShape(32, 32, 5, 2, 0),
    ConvolutionShape(45, 32, 5, 1, 2),
    ConvolutionShape(45, 45, 5, 1, 2),
    ConvolutionShape(45, 45, 5, 1, 2),
    ConvolutionShape(1, 45, 9, 1, 4),
)
"""The detector's layers, first to last. A ReLU follows each but the last."""

_INTEGER_BYTES = 8
_LARGEST_EXPONENT = 1000  # beyond stand the marks that dlib writes for infinities and not-a-number


@dataclass(frozen=True, slots=True)
class Convolution:
    """One layer, with the batch normalisation after it folded in: a float32 correlation plus a bias.

    Attributes:
        shape: its sizes.
        filters: (filters, channels, side, side).
        biases: (filters,).
    """

    shape: ConvolutionShape
    filters: Floats
    biases: Floats


@dataclass(frozen=True, slots=True)
class DetectorWeights:
    """All that dlib's file says about how faces are found.

    Attributes:
        window: width and height of the face window in pixels of a pyramid level.
        mean_colour: red, green, blue that are subtracted before the division by 256.
        overlap_iou: intersection over union above which the weaker of two boxes is dropped.
        overlap_covered: share of either box inside the other above which the weaker one is dropped.
        convolutions: the layers, first to last.
    """

    window: tuple[int, int]
    mean_colour: tuple[float, float, float]
    overlap_iou: float
    overlap_covered: float
    convolutions: tuple[Convolution, ...]


def read_detector(path: Path) -> DetectorWeights:
    """Read `mmod_human_face_detector.dat`.

    Raises:
        WeightsError: the file cannot be read, is damaged, or holds another network.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise WeightsError(f"weights file {str(path)!r} cannot be read: {error}") from error
    return _Reader(content, name=path.name).detector()


class _Reader:
    """Walks through the file once, from its first byte to its last."""

    def __init__(self, content: bytes, *, name: str) -> None:
        self._content = content
        self._name = name
        self._position = 0

    def detector(self) -> DetectorWeights:
        self._expect("the version of the outermost layer", self._integer(), 1)
        self._expect("the outermost layer", self._text(), "loss_mmod_")
        self._expect("the version of the detector's options", self._integer(), 1)
        window = (self._integer(), self._integer())
        self._expect("the face window", window, (80, 80))
        for _ in ("false alarm", "missed face", "match with the truth"):  # of the training alone
            self._real()
        overlap_iou, overlap_covered = self._share(), self._share()
        self._share(), self._share()  # boxes to ignore: of the training alone
        for _ in range(3 * len(CONVOLUTIONS) - 3):
            self._expect("the version of a layer", self._integer(), 2)
        self._expect("the version of the first layer", self._integer(), 3)
        self._expect("the input", self._text(), "input_rgb_image_pyramid")
        mean_colour = (self._real(), self._real(), self._real())
        last = len(CONVOLUTIONS) - 1
        layers = tuple(
            self._convolution(shape, normalised=place < last) for place, shape in enumerate(CONVOLUTIONS)
        )
        if self._position != len(self._content):
            raise self._wrong("the end of the file", f"{len(self._content) - self._position} more bytes", "none")
        return DetectorWeights(window, mean_colour, overlap_iou, overlap_covered, layers)

    def _convolution(self, shape: ConvolutionShape, *, normalised: bool) -> Convolution:
        self._expect("a layer", self._text(), "con_4")
        filters, channels, side, stride, padding = shape
        count = filters * channels * side * side
        values = self._tensor(count + filters)
        sizes = tuple(self._integer() for _ in range(7))
        self._expect("the size of a convolution", sizes, (filters, side, side, stride, stride, padding, padding))
        self._view((filters, channels, side, side))
        self._view((1, filters, 1, 1))
        for _ in range(4):  # learning rates, of the training alone
            self._real()
        self._training_state()
        if shape is CONVOLUTIONS[0]:
            self._expect("the number of samples per image", self._integer(), 1)
        kernel, biases = values[:count].reshape(filters, channels, side, side), values[count:]
        if not normalised:
            return Convolution(shape, kernel.astype(np.float32), biases.astype(np.float32))
        scale, shift = self._normalisation(filters)
        self._expect("a layer", self._text(), "relu_")
        self._training_state()
        folded = kernel * scale[:, None, None, None]
        return Convolution(shape, folded.astype(np.float32), (biases * scale + shift).astype(np.float32))

    def _normalisation(self, filters: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Factor and summand per filter: gamma / sqrt(variance + eps), and beta - mean x factor."""
        self._expect("a layer", self._text(), "bn_con2")
        gamma, beta = np.split(self._tensor(2 * filters), 2)
        self._view((1, filters, 1, 1))
        self._view((1, filters, 1, 1))
        self._tensor(filters)  # mean of the last batch of the training
        self._tensor(filters)  # 1 / standard deviation of that batch
        mean, variance = self._tensor(filters), self._tensor(filters)
        self._integer(), self._integer()  # number of updates and length of the running statistics
        for _ in range(4):  # learning rates
            self._real()
        spread = variance + self._real()
        if spread.min() <= 0:
            raise self._wrong("a running variance", f"{variance.min()}", "more than 0")
        self._training_state()
        factor = gamma / np.sqrt(spread)
        return factor, beta - mean * factor

    def _training_state(self) -> None:
        """Skip three flags, and three tensors that are empty in a finished network."""
        flags = self._take(3, "three flags")
        if not set(flags) <= set(b"01"):
            raise self._wrong("three flags", repr(flags), "0 and 1")
        for _ in range(3):
            self._expect("the version of a tensor", self._integer(), 2)
            self._expect("the shape of an empty tensor", tuple(self._integer() for _ in range(4)), (0, 0, 0, 0))

    def _view(self, sizes: tuple[int, int, int, int]) -> None:
        self._expect("the version of a view", self._integer(), 1)
        self._expect("the shape of a view", tuple(self._integer() for _ in range(4)), sizes)

    def _tensor(self, count: int) -> NDArray[np.float64]:
        self._expect("the version of a tensor", self._integer(), 2)
        sizes = tuple(self._integer() for _ in range(4))
        if min(sizes) < 1 or math.prod(sizes) != count:
            raise self._wrong("the shape of a tensor", f"{sizes}", f"{count} values")
        values = np.frombuffer(self._take(4 * count, "a tensor's values"), "<f4").astype(np.float64)
        if not np.isfinite(values).all():
            raise self._wrong("a value of a tensor", "infinite or not a number", "finite numbers")
        return values

    def _share(self) -> float:
        value = self._real()
        if not 0 <= value <= 1:
            raise self._wrong("an overlap", f"{value}", "0 to 1")
        return value

    def _real(self) -> float:
        mantissa, exponent = self._integer(), self._integer()
        if abs(exponent) > _LARGEST_EXPONENT:
            raise self._wrong("the exponent of a number", f"{exponent}", "a finite number")
        return math.ldexp(mantissa, exponent)

    def _text(self) -> str:
        length = self._integer()
        if not 0 <= length <= 64:
            raise self._wrong("the length of a name", f"{length}", "at most 64")
        return self._take(length, "a name").decode("latin-1")

    def _integer(self) -> int:
        head = self._take(1, "a number")[0]
        count = head & 0x7F
        if not 1 <= count <= _INTEGER_BYTES:
            raise self._wrong("the length of a number", f"{count} bytes", f"1 to {_INTEGER_BYTES}")
        value = int.from_bytes(self._take(count, "a number"), "little")
        return -value if head & 0x80 else value

    def _take(self, count: int, what: str) -> bytes:
        end = self._position + count
        if end > len(self._content):
            raise WeightsError(f"{self._name} is damaged: it ends at byte {len(self._content)}, inside {what}")
        taken = self._content[self._position : end]
        self._position = end
        return taken

    def _expect(self, what: str, value: Any, expected: Any) -> None:
        if value != expected:
            raise self._wrong(what, repr(value), repr(expected))

    def _wrong(self, what: str, value: str, expected: str) -> WeightsError:
        return WeightsError(
            f"{self._name} is not dlib's CNN face detector, or is damaged: before byte {self._position}, {what} "
            f"is {value} (accepted: {expected})"
        )
