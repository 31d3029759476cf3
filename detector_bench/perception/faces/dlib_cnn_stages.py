"""dlib's CNN face detector without dlib: the same boxes, in a twentieth of the time on a CPU."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from detector_bench.perception.boxes import boxes
from detector_bench.perception.faces.dlib_cnn_network import FaceNetwork, OnnxFaceNetwork, TorchFaceNetwork
from detector_bench.perception.faces.dlib_cnn_pyramid import find_boxes, plan_pyramid
from detector_bench.perception.faces.dlib_cnn_weights import DetectorWeights, read_detector
from detector_bench.perception.faces.dlib_resizing import LongestSide, double, resize_to_longest, scaled
from detector_bench.perception.networks.onnx_networks import session_device
from detector_bench.perception.stage import Arrays, Frame, Stage, StageFunction
from detector_bench.perception.torch_settings import Device, device_name
from detector_bench.weights import WeightsLocator
from detector_bench.weights.catalogue import DLIB_CNN_FACES
from detector_bench.weights.files import WeightsField

_SMALLEST_SIDE = 32  # pixels, after doubling; dlib itself fails below


class _RebuiltDlibCnn(Stage):
    """What both forms of the network share: dlib's weights, pyramid, thresholds and suppression of overlaps."""

    precision_taken: ClassVar[str] = "float32"

    upsample: int = Field(default=0, ge=0, le=3)
    """How many times the image is doubled in size first, to find smaller faces."""
    longest_side: LongestSide = None
    network: WeightsField = DLIB_CNN_FACES

    @abstractmethod
    def _face_network(self, detector: DetectorWeights) -> FaceNetwork:
        """The network, ready to compute."""

    def load(self, weights: WeightsLocator) -> StageFunction:
        """Read the network; see `Stage.load`."""
        detector = read_detector(weights.locate(self.network))
        network = self._face_network(detector)

        def detect(frames: Sequence[Frame]) -> list[Arrays]:
            images = [resize_to_longest(frame.pixels, self.longest_side) for frame in frames]
            results = [boxes([], []) for _ in frames]
            for places in _by_size(images):
                height, width = images[places[0]].shape[:2]
                if min(height, width) * 2**self.upsample < _SMALLEST_SIDE:
                    continue
                enlarged = [_enlarged(images[place], self.upsample) for place in places]
                height, width = enlarged[0].shape[:2]
                pyramid = plan_pyramid(width=width, height=height)
                for place, scores in zip(places, network.scores(enlarged, pyramid), strict=True):
                    corners, found = find_boxes(scores, pyramid, detector, upsample=self.upsample)
                    back = scaled(corners, seen=images[place], wanted=frames[place].pixels)
                    results[place] = boxes(back, found)
            return results

        return detect


class DlibCnnOnnxFaces(_RebuiltDlibCnn):
    """dlib's CNN face detector through onnxruntime.

    dlib's own weights file, tiled pyramid, thresholds and suppression of overlaps: boxes and scores are those of
    `dlib_cnn_faces`, up to rounding, and dlib need not be installed. An image that is less than 32 pixels high or
    wide (after doubling) has no face. Scores above 0 are faces; clear faces score about 1.
    """

    kind: ClassVar[str] = "dlib_cnn_onnx_faces"
    extra: ClassVar[str | None] = "onnx"
    modules: ClassVar[tuple[str, ...]] = ("onnx", "onnxruntime")
    images_per_call: ClassVar[int | None] = 8

    @property
    def device_taken(self) -> str:  # type: ignore[override]
        """Where onnxruntime runs the network."""
        return session_device()

    def _face_network(self, detector: DetectorWeights) -> FaceNetwork:
        return OnnxFaceNetwork(detector, extra=self.extra)


class DlibCnnTorchFaces(_RebuiltDlibCnn):
    """dlib's CNN face detector through PyTorch, on a GPU or a CPU; see `DlibCnnOnnxFaces`.

    Images of one size go through together, as many as fit into a fixed number of pixels.
    """

    kind: ClassVar[str] = "dlib_cnn_torch_faces"
    extra: ClassVar[str | None] = "torch"
    modules: ClassVar[tuple[str, ...]] = ("torch",)

    device: Device = "auto"

    @property
    def device_taken(self) -> str:  # type: ignore[override]
        """Where PyTorch runs the network."""
        return device_name(self.device)

    def _face_network(self, detector: DetectorWeights) -> FaceNetwork:
        return TorchFaceNetwork(detector, device=self.device, extra=self.extra)


def _by_size(images: Sequence[NDArray[np.uint8]]) -> list[list[int]]:
    """Which images have the same size."""
    found: dict[tuple[int, ...], list[int]] = {}
    for place, image in enumerate(images):
        found.setdefault(image.shape, []).append(place)
    return list(found.values())


def _enlarged(pixels: NDArray[np.uint8], times: int) -> NDArray[np.uint8]:
    for _ in range(times):
        pixels = double(pixels)
    return pixels
