"""Pictures with the boxes that a study's detectors looked at, in the picture's own pixels."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from detector_bench.dataset import ImageSet
from detector_bench.dataset.decoding import ImageError, image_size
from detector_bench.exports.carried_images import CarriedImages, Progress, read_carried
from detector_bench.exports.image_records import ImageRecord, image_records, judged_content, verdict_tables
from detector_bench.results.finished_study import ResultFolder
from detector_bench.site.browser_data import StoredBoxes, stored_boxes
from detector_bench.study_configuration import StudyConfiguration


class ShownBox(NamedTuple):
    """A box of one image: left, top, width and height in pixels of the upright picture, cut off at its edges."""

    stage: str
    detectors: tuple[str, ...]
    left: float
    top: float
    width: float
    height: float
    score: float


@dataclass(frozen=True)
class BoxSource:
    """Where a study's verdicts and boxes come from."""

    results: ResultFolder
    configuration: StudyConfiguration
    cache_folder: Path
    weights_dir: Path | None = None


@dataclass(frozen=True)
class BoxedImage:
    """An image of an export with what detectors found on it.

    Attributes:
        record: what is known about it.
        name: its path in the export, or its address.
        size: width and height in pixels of the upright picture; None where the file cannot be decoded, or lies at
            an address and was not read.
        boxes: those that are stored.
    """

    record: ImageRecord
    name: str
    size: tuple[int, int] | None
    boxes: tuple[ShownBox, ...] = ()


def boxed_images(
    image_set: ImageSet, carried: CarriedImages, source: BoxSource | None, progress: Progress | None = None
) -> Iterator[BoxedImage]:
    """All images of an export, in the order of the set.

    Raises:
        DetectorBenchError: an image file, the predictions or the cache cannot be read.
    """
    verdicts, boxes = None, None
    if source is not None:
        verdicts = verdict_tables(source.results)
        judged = judged_content(image_set, verdicts)
        boxes = BoxesOfStudy(source.configuration, source.cache_folder, judged, weights_dir=source.weights_dir)
    for number, record in enumerate(image_records(image_set, verdicts)):
        name = carried.names[number]
        yield _boxed(image_set, record, name, boxes)
        if progress is not None:
            progress(number + 1, len(carried.names))


def _boxed(image_set: ImageSet, record: ImageRecord, name: str, boxes: BoxesOfStudy | None) -> BoxedImage:
    if "://" in name:
        return BoxedImage(record, name, None)
    data = read_carried(image_set, record.path)
    try:
        width, height = image_size(data, upright=True)
    except ImageError:
        return BoxedImage(record, name, None)
    if boxes is None:
        return BoxedImage(record, name, (width, height))
    sha256 = hashlib.sha256(data).hexdigest()
    found = boxes.of_image(record.position, sha256=sha256, width=width, height=height)
    return BoxedImage(record, name, (width, height), tuple(found))


class BoxesOfStudy:
    """What the stage cache holds of a study's boxes; without a cache, none.

    Args:
        configuration: the study.
        cache_folder: where stage results are.
        sha256: content of each image as it was judged.
        weights_dir: a folder with weights files, for those without a pin.

    Raises:
        DetectorBenchError: the cache is damaged.
    """

    def __init__(
        self,
        configuration: StudyConfiguration,
        cache_folder: Path,
        sha256: Sequence[str | None],
        *,
        weights_dir: Path | None = None,
    ) -> None:
        self._found: list[StoredBoxes] = stored_boxes(configuration, cache_folder, sha256, weights_dir=weights_dir)
        self._sha256 = sha256

    def of_image(self, position: int, *, sha256: str, width: int, height: int) -> list[ShownBox]:
        """The boxes of an image; none where it holds something else now than when it was judged.

        Args:
            position: of the image in the set.
            sha256: of its content now.
            width, height: of the upright picture.
        """
        if self._sha256[position] != sha256:
            return []
        boxes = []
        for each in self._found:
            arrays = each.of_image[position]
            if arrays is None:
                continue
            corners = np.nan_to_num(np.asarray(arrays["corners"], dtype=float)).reshape(-1, 4)
            corners = corners.clip(0, [width, height, width, height])
            for (left, top, right, bottom), score in zip(corners, np.asarray(arrays["scores"]), strict=True):
                place = (float(left), float(top), float(right - left), float(bottom - top))
                boxes.append(ShownBox(each.stage, each.detectors, *place, float(score)))
        return boxes
