"""Age and gender of each image's main person by MiVOLO, and what the network sees of that person."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from detector_bench.errors import ConfigError
from detector_bench.installation import require
from detector_bench.perception.boxes import largest
from detector_bench.perception.networks.mivolo_networks import (
    GENDERS,
    MivoloNetwork,
    MivoloNetworkField,
    PackageNetwork,
)
from detector_bench.perception.stage import DESCRIPTIVE, Arrays, Frame, Stage, StageField, StageFunction
from detector_bench.perception.torch_settings import (
    Precision,
    TorchSettings,
    chosen_device,
    chosen_precision,
    exact_convolutions,
)
from detector_bench.perception.yolo import YoloFaces, YoloPersons, letterbox
from detector_bench.trust import ForeignCode
from detector_bench.weights import WeightsLocator
from detector_bench.weights.catalogue import YOLOV8X_PERSONS_AND_FACES

Pixels = NDArray[np.uint8]

_SMALLEST_BODY = 50  # pixels, width and height
_SMALLEST_REST = 0.4  # share of a body crop that is not black
_TO_THE_EDGE = 0.3  # of the body crop's width or height
_SMALLEST_MATCH = 1e-4
_MEAN, _STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class Subject(NamedTuple):
    """The main person's crops, (height, width, 3), RGB. At least one of them is there."""

    body: Pixels | None
    face: Pixels | None


def main_subject(
    pixels: Pixels,
    persons: Arrays,
    faces: Arrays,
    *,
    without_person: Literal["filter", "face"],
    hide_others: bool,
) -> Subject | None:
    """Cut out the largest person and that person's face, as MiVOLO's program does.

    Boxes are cut at whole pixels, rounded towards zero, without the image's last row and column. A body narrower
    or lower than 50 pixels, and one of which less than 40 % is left after others were hidden, counts as missing.

    Args:
        pixels: the image, (height, width, 3), RGB.
        persons: person boxes, see `boxes`.
        faces: face boxes.
        without_person: what to do with an image without a person box: None, or the largest face alone.
        hide_others: black out other persons and all faces in the body crop.

    Returns:
        The crops, or None if neither body nor face can be cut out.
    """
    main = largest(persons)
    if main is None:
        alone = largest(faces) if without_person == "face" else None
        body, face = None, None if alone is None else _cut(pixels, _whole(faces, pixels)[alone])
    else:
        own = face_of(main, persons, faces)
        body = _body(pixels, main, persons, faces, hide_others=hide_others)
        face = None if own is None else _cut(pixels, _whole(faces, pixels)[own])
    return None if body is None and face is None else Subject(body, face)


def face_of(person: int, persons: Arrays, faces: Arrays) -> int | None:
    """Index of the face that belongs to a person; None where none does.

    A face fits a person by the mean of the share of it that lies in the person's box and of the intersection over
    union. Faces go to persons one to one, so that all fit best together: a face that lies in two persons' boxes is
    left to the one who has no other.
    """
    if len(faces["scores"]) == 0:
        return None
    optimize = require("scipy.optimize", extra="mivolo")
    person_boxes, face_boxes = (np.trunc(found["corners"]).astype(np.float64) for found in (persons, faces))
    shared, own, union = _overlaps(person_boxes, face_boxes)
    # A box that rounding has left without an area belongs to nobody.
    fit = (shared / np.maximum(own, 1) + shared / np.maximum(union, 1)) / 2
    rows, columns = optimize.linear_sum_assignment(fit, maximize=True)
    return next(
        (
            int(face)
            for row, face in zip(rows, columns, strict=True)
            if row == person and fit[row, face] > _SMALLEST_MATCH
        ),
        None,
    )


def network_input(cv2: Any, crop: Pixels | None, *, side: int) -> NDArray[np.float32]:
    """Fit a crop into a black square and normalise it as ImageNet's images, (3, side, side); None is all black."""
    square = np.zeros((side, side, 3), np.uint8) if crop is None else letterbox(cv2, crop, side=side, bars=0)[0]
    values = (square / np.float32(255) - np.array(_MEAN, np.float32)) / np.array(_STD, np.float32)
    return np.ascontiguousarray(values.transpose(2, 0, 1))


def _whole(found: Arrays, pixels: Pixels) -> NDArray[np.int64]:
    """Corners in whole pixels inside the image."""
    height, width = pixels.shape[:2]
    return np.trunc(found["corners"]).astype(np.int64).clip(0, [width - 1, height - 1, width - 1, height - 1])


def _cut(pixels: Pixels, corners: NDArray[np.int64]) -> Pixels | None:
    left, top, right, bottom = corners
    crop = pixels[top:bottom, left:right]
    return crop if crop.size else None


def _body(pixels: Pixels, main: int, persons: Arrays, faces: Arrays, *, hide_others: bool) -> Pixels | None:
    boxes = _whole(persons, pixels)
    crop = _cut(pixels, boxes[main])
    if crop is None or min(crop.shape[:2]) < _SMALLEST_BODY:
        return None
    if not hide_others:
        return crop
    crop = crop.copy()
    others = np.delete(boxes, main, axis=0)
    for other in others:
        _black_out(crop, boxes[main], other, to_the_edge=True)
    for face in _whole(faces, pixels):
        _black_out(crop, boxes[main], face, to_the_edge=False)
    return crop if np.count_nonzero(crop) >= _SMALLEST_REST * crop.size else None


def _black_out(crop: Pixels, own: NDArray[np.int64], other: NDArray[np.int64], *, to_the_edge: bool) -> None:
    """Black out another box in a crop; near the crop's edge, also the strip between."""
    height, width = crop.shape[:2]
    left, top = np.maximum(other[:2] - own[:2], 0)
    right, bottom = np.minimum(other[2:] - own[:2], [width, height])
    if left >= right or top >= bottom:
        return
    if to_the_edge:
        top = 0 if top / height < _TO_THE_EDGE else top
        bottom = height if (height - bottom) / height < _TO_THE_EDGE else bottom
        left = 0 if left / width < _TO_THE_EDGE else left
        right = width if (width - right) / width < _TO_THE_EDGE else right
    crop[top:bottom, left:right] = 0


def _overlaps(first: NDArray[Any], second: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Shared area (first, second), the second ones' own areas (second,), and the area of both together."""
    corner = np.maximum(first[:, None, :2], second[None, :, :2])
    shared = (np.minimum(first[:, None, 2:], second[None, :, 2:]) - corner).clip(0).prod(axis=2)
    area_first, area_second = ((boxes[:, 2:] - boxes[:, :2]).prod(axis=1) for boxes in (first, second))
    return shared, area_second, area_first[:, None] + area_second - shared


_CONFIDENCE = 0.4  # of the detector in MiVOLO's program


class MivoloOutputs(TorchSettings, Stage):  # type: ignore[override]
    """MiVOLO (Kuprashevich and Tolstykh 2023) on the largest person of each image.

    The network sees the person's face and body, each fitted into a black square and normalised with ImageNet's
    mean and standard deviation; what is missing is all black. Gives, for an image with such a person,

    - `age`: (1,), years;
    - `gender`: (2,), the probabilities of male and female,

    and no array at all for another.

    Boxes, crops and preparation are those of MiVOLO's program; only that it judges everybody in the image.
    """

    kind: ClassVar[str] = "mivolo_outputs"
    extra: ClassVar[str | None] = "mivolo"

    network: MivoloNetworkField = Field(default_factory=PackageNetwork)
    persons: StageField = YoloPersons(network=YOLOV8X_PERSONS_AND_FACES, confidence=_CONFIDENCE)
    faces: StageField = YoloFaces(network=YOLOV8X_PERSONS_AND_FACES, confidence=_CONFIDENCE)
    without_person: Literal["filter", "face"] = "filter"
    """What to do with an image without a person box: filter it, as in Lyu 2025, or judge the largest face."""
    hide_others: bool = True
    """Black out other persons and all faces, the person's own too, in the body crop, as MiVOLO's program does."""
    precision: Precision = "float32"
    """MiVOLO's program takes float16 on a GPU. bfloat16 moves ages by up to half a year."""
    batch_size: Annotated[int, Field(ge=1, json_schema_extra=DESCRIPTIVE)] = 16
    """How many people the network judges at once."""

    @property
    def modules(self) -> tuple[str, ...]:  # type: ignore[override]
        """The packages that the network's form needs, besides those for cropping."""
        return (*self.network.modules, "cv2", "scipy")

    def missing_settings(self) -> tuple[str, ...]:
        """How to get the package `mivolo`, and a precision that the machine lacks."""
        return (*self.network.missing_settings(), *super().missing_settings())

    def foreign_code(self, weights: WeightsLocator) -> ForeignCode | None:
        """That of a checkpoint."""
        return self.network.foreign_code(weights)

    def load(self, weights: WeightsLocator) -> StageFunction:
        """Read the network; see `Stage.load`."""
        torch, cv2 = require("torch", extra=self.extra), require("cv2", extra=self.extra)
        device = chosen_device(torch, self.device)
        dtype = chosen_precision(torch, self.precision, device=device)
        network = self.network.load(weights, device=device, dtype=dtype)

        def tensor(crops: Sequence[Any]) -> Any:
            values = np.stack([network_input(cv2, crop, side=network.side) for crop in crops])
            return torch.from_numpy(values).to(device, dtype)

        def run(frames: Sequence[Frame]) -> list[Arrays]:
            subjects = [self._subject(frame) for frame in frames]
            people = [subject for subject in subjects if subject is not None]
            rows: list[Arrays] = []
            for start in range(0, len(people), self.batch_size):
                batch = people[start : start + self.batch_size]
                with torch.inference_mode(), exact_convolutions(torch):
                    rows += _rows(
                        network, tensor([each.face for each in batch]), tensor([each.body for each in batch])
                    )
            results = iter(rows)
            return [{} if subject is None else next(results) for subject in subjects]

        return run

    def _subject(self, frame: Frame) -> Subject | None:
        return main_subject(
            frame.pixels,
            frame[self.persons],
            frame[self.faces],
            without_person=self.without_person,
            hide_others=self.hide_others,
        )


def _rows(network: MivoloNetwork, faces: Any, bodies: Any) -> list[Arrays]:
    ages, genders = (values.cpu().numpy() for values in network.judge(faces, bodies))
    if ages.shape != (len(faces),) or genders.shape != (len(faces), len(GENDERS)):
        raise ConfigError(
            f"MiVOLO's network gives ages of the shape {list(ages.shape)} and genders of the shape "
            f"{list(genders.shape)} for {len(faces)} people"
        )
    if not (np.isfinite(ages).all() and np.isfinite(genders).all()):
        raise ValueError("MiVOLO's outputs are not finite")
    return [{"age": ages[row : row + 1], "gender": genders[row]} for row in range(len(faces))]
