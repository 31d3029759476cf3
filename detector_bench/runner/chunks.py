"""Chunks: images and what came out of them, on their way between the process that stores and those that judge.

Encoded bytes go one way; predictions, as an Arrow table, and small arrays come back. No pixels travel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from detector_bench.detectors.base import Prediction
from detector_bench.perception.stage import Arrays, Stage, StageFailure
from detector_bench.runner.image_reading import ImageFile, LoadedImage
from detector_bench.vocabulary import Status

StageResults = dict[str, dict[str, Arrays]]
"""By fingerprint of the stage, then by sha256 of the image."""

Encoded = NDArray[np.uint8]
"""The bytes of an image file; shape (bytes,)."""


class ChunkImage(NamedTuple):
    """An image of a chunk, read already.

    Attributes:
        image_id: its id.
        shown_path: how messages call the place where it lies.
        detectors: which ones want it, by number.
        sha256: of its content; None where it could not be read.
        error: why it could not.
        data: its place among the bytes that come with the chunk; None where nothing needs its pixels.
    """

    image_id: str
    shown_path: str
    detectors: tuple[int, ...]
    sha256: str | None
    error: str | None
    data: int | None


@dataclass(frozen=True)
class Chunk:
    """Images to be judged together.

    Attributes:
        images: at least one.
        known: stage results that are kept already.
        left: how many images there are to judge from this chunk on.
    """

    images: tuple[ChunkImage, ...]
    known: StageResults
    left: int

    @classmethod
    def of_images(
        cls, images: Sequence[LoadedImage], places: Sequence[int | None], keys: Mapping[Stage, str], *, left: int
    ) -> Chunk:
        """A chunk of images and the places of their bytes; `keys` are the stages' fingerprints."""
        known: StageResults = {}
        for image in images:
            for stage, arrays in image.cached.items():
                if image.sha256 is not None and not isinstance(arrays, StageFailure):
                    known.setdefault(keys[stage], {})[image.sha256] = arrays
        listed = [
            ChunkImage(
                each.file.image_id, each.file.shown_path, each.file.detectors, each.sha256, each.error, place
            )
            for each, place in zip(images, places, strict=True)
        ]
        return cls(tuple(listed), known, left)

    def loaded(self, data: Sequence[Encoded], stages: Mapping[str, Stage]) -> list[LoadedImage]:
        """The images as the loader has them; `stages` are those that may be known, by fingerprint."""
        found = []
        for each in self.images:
            file = ImageFile(each.image_id, Path(each.shown_path), each.shown_path, each.detectors)
            image = LoadedImage(file, sha256=each.sha256, error=each.error)
            image.data = None if each.data is None else data[each.data].tobytes()
            if each.sha256 is not None:
                image.cached = {
                    stages[key]: _writable(results[each.sha256])
                    for key, results in self.known.items()
                    if each.sha256 in results
                }
            found.append(image)
        return found


@dataclass(frozen=True)
class JudgedChunk:
    """What came out for a chunk.

    Attributes:
        predictions: see `predictions_table`.
        results: stage results that were computed for it, and not given before.
        seconds: what each stage took since the chunk before, by label; loading counts too.
        images: on how many images each stage ran since then.
        spent: what these seconds, those of reading and decoding included, went into.
        devices: where the stages that ran compute, by label.
        layouts: how their work is laid on the cores.
    """

    predictions: pa.Table
    results: StageResults
    seconds: Mapping[str, float] = field(default_factory=dict)
    images: Mapping[str, int] = field(default_factory=dict)
    spent: Mapping[str, float] = field(default_factory=dict)
    devices: Mapping[str, str] = field(default_factory=dict)
    layouts: Mapping[str, dict[str, int | bool | None]] = field(default_factory=dict)


_TABLE = pa.schema(
    [
        pa.field("detector", pa.int32()),
        pa.field("image", pa.int32()),
        # Answers may hold what is no Unicode; whoever stores them deals with that.
        *(pa.field(name, pa.large_binary()) for name in ("attribute", "status", "reason", "label", "raw")),
        pa.field("score", pa.float64()),
        pa.field("value", pa.float64()),
    ]
)


def predictions_table(chunk: Chunk, predictions: Sequence[Sequence[Prediction]]) -> pa.Table:
    """Predictions of each detector as one table; detector and image by their numbers in the order of the chunk."""
    numbers = {each.image_id: number for number, each in enumerate(chunk.images)}
    rows = [
        {
            "detector": detector,
            "image": numbers[each.image_id],
            "attribute": _encoded(each.attribute),
            "status": _encoded(each.status.value),
            "reason": _encoded(each.reason),
            "label": _encoded(each.label),
            "raw": _encoded(each.raw),
            "score": None if each.score is None else float(each.score),
            "value": None if each.value is None else float(each.value),
        }
        for detector, found in enumerate(predictions)
        for each in found
    ]
    return pa.Table.from_pylist(rows, schema=_TABLE)


def predictions_in(table: pa.Table, image_ids: Sequence[str], *, detectors: int) -> list[list[Prediction]]:
    """What `predictions_table` was given, of so many detectors."""
    found: list[list[Prediction]] = [[] for _ in range(detectors)]
    for row in table.to_pylist():
        prediction = Prediction(
            image_ids[row["image"]],
            row["attribute"].decode(errors=_ANYTHING),
            Status(row["status"].decode()),
            reason=_decoded(row["reason"]),
            label=_decoded(row["label"]),
            score=row["score"],
            value=row["value"],
            raw=_decoded(row["raw"]),
        )
        found[row["detector"]].append(prediction)
    return found


def _writable(arrays: Arrays) -> Arrays:
    """As the cache gives them: what comes from another process may lie in memory that several share."""
    return {name: np.array(array) for name, array in arrays.items()}


_ANYTHING = "surrogatepass"


def _encoded(text: str | None) -> bytes | None:
    return None if text is None else text.encode(errors=_ANYTHING)


def _decoded(text: bytes | None) -> str | None:
    return None if text is None else text.decode(errors=_ANYTHING)
