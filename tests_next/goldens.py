"""Rows of the new package in the columns and order of the old package's goldens; see `golden/detectors` of the
shared data.

`python -m tests_next.goldens SHARED OUT [NAME ...]` writes OUT/NAME.csv. Tests take every n-th image. A golden
is a function of (shared, step) that gives its rows; its header stands in `COLUMNS`.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from detector_bench_next.detector import Detector, Frame, Stage, ask, build, compute, with_inputs
from detector_bench_next.detectors.boxes import Crop
from detector_bench_next.study import Study
from detector_bench_next.weights import Where

Rows = Iterator[list[Any]]
COLUMNS = {
    "boxes": ["stage", "image", "box", "left", "top", "right", "bottom", "score"],
    "crops": ["sort", "image", "size", "sha256"],
    "portraits": ["detector", "image_id", "attribute", "status", "label", "reason", "score", "value", "raw"],
}


def images(shared: Path, name: str) -> list[Path]:
    """Files of an image set, sorted."""
    return sorted((shared / "data" / name / "images").iterdir())


def frames(stages: Iterable[Stage], paths: Iterable[Path], shared: Path) -> Iterator[Frame]:
    """Images with the results of stages and their inputs."""
    order, where = with_inputs(stages), Where((shared / "weights",))
    functions = {stage: stage.load(where) for stage in order}
    for path in paths:
        frame = Frame(path.stem, pixels=np.asarray(Image.open(path).convert("RGB")))
        compute([frame], order, functions)
        yield frame


def boxes(shared: Path, step: int) -> Rows:
    """Boxes of face and person stages."""
    persons = {"kind": "yolo_persons", "network": "yolov8n_int8.onnx", "overlap_threshold": 0.5}
    quick = {"yunet": "yunet_faces", "hog": "dlib_hog_faces", "hog_up1": {"kind": "dlib_hog_faces", "upsample": 1}}
    large = {"kind": "dlib_cnn_faces", "longest_side": 800, "upsample": 1}
    portraits, scenes = images(shared, "t2i_portraits"), images(shared, "group_scenes")
    for kinds, paths in (
        ({**quick, "yolov8n_int8_0.5": persons}, portraits[::4] + scenes),
        ({"dlib_cnn_800_up1": large, "dlib_cnn": "dlib_cnn_faces"}, portraits[::48] + scenes[::6]),
    ):
        stages = {name: build("stage", entry) for name, entry in kinds.items()}
        for frame in frames(stages.values(), paths[::step], shared):
            for name, stage in stages.items():
                found = frame[stage]
                rows = zip(found["corners"].tolist(), found["scores"].tolist(), strict=True)
                for number, (corners, score) in enumerate(rows):
                    yield [name, frame.image_id, number, *corners, score]
                if not len(found["scores"]):
                    yield [name, frame.image_id, *[""] * 6]


def crops(shared: Path, step: int) -> Rows:
    """Digests of crops: equal to the last grey level."""
    persons = {"kind": "yolo_persons", "network": "yolov8n_int8.onnx", "overlap_threshold": 0.5}
    faces = "yunet_faces"
    entries: dict[str, dict[str, Any]] = {
        "person": {"boxes": persons},
        "face_1.2": {"boxes": faces, "margin": 1.2},
        "face_1.6_black_square": {"boxes": faces, "margin": 1.6, "square": True, "outside": "black"},
        "person_padded_mean": {"boxes": persons, "shape": "padded", "fill": "mean"},
        "person_squashed": {"boxes": persons, "shape": "squashed", "without_box": "whole_image"},
    }
    sorts = {name: Crop.model_validate(entry) for name, entry in entries.items()}
    stages = [stage for crop in sorts.values() for stage in crop.stages()]
    paths = images(shared, "t2i_portraits")[::16] + images(shared, "group_scenes")
    for frame in frames(stages, paths[::step], shared):
        for name, crop in sorts.items():
            found = next(iter(crop.seen(frame)), None)
            yield [name, frame.image_id, *_digest(found)]


def _digest(pixels: Any) -> list[str]:
    if pixels is None:
        return ["", ""]
    content = hashlib.sha256(np.ascontiguousarray(pixels).tobytes()).hexdigest()
    return ["x".join(map(str, pixels.shape[:2])), content[:16]]


def portraits(shared: Path, step: int) -> Rows:
    """Predictions of the study `t2i_portraits`."""
    study = Study.open(
        Path(__file__).parents[1] / "configs_next/t2i_portraits.yaml", shared / "data/t2i_portraits"
    )
    yield from predictions([build("detector", entry) for entry in study.detectors], shared, step)


def predictions(detectors: Sequence[Detector], shared: Path, step: int) -> Rows:
    """Predictions of detectors on the portraits, detector by detector."""
    stages = [stage for detector in detectors for stage in detector.stages()]
    rows = []
    for frame in frames(stages, images(shared, "t2i_portraits")[::step], shared):
        for number, detector in enumerate(detectors):
            own = [row._replace(status=row.status.value) for row in ask(detector, [frame])]
            rows += [(number, detector.name, row) for row in own]
    for _, name, row in sorted(rows, key=lambda own: (own[0], own[2].image_id, own[2].attribute)):
        texts = [row.image_id, row.attribute, row.status, row.label, row.reason, row.score, row.value, row.raw]
        yield [name, *("" if text is None else text for text in texts)]


GOLDENS: dict[str, Callable[[Path, int], Rows]] = {"boxes": boxes, "crops": crops, "portraits": portraits}


def golden(shared: Path, name: str) -> list[list[str]]:
    """Rows of a golden without its header."""
    with gzip.open(shared / "design/golden/detectors" / f"{name}.csv.gz", "rt", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    assert header == COLUMNS[name]
    return rows


def main(shared: Path, out: Path, *names: str) -> None:
    """Write goldens, all or some."""
    for name in names or GOLDENS:
        with (out / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([COLUMNS[name], *GOLDENS[name](shared, 1)])


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:3]), *sys.argv[3:])
