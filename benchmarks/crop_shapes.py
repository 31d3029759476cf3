"""How much of the face does CLIP see, when it is shown a person's box?

    python benchmarks/crop_shapes.py [--images N] [--networks]

CLIP's own preparation resizes the shorter side and keeps the square in the middle; a person who stands upright
has a box much higher than wide. On the developers' portraits and group scenes: the largest person (YOLOv8n, int8,
boxes that overlap by half are one person), and in that box the largest face (YuNet). For each shape of the crop:
the share of the face's area that is left in the 224 x 224 pixels that CLIP sees, and how high and wide a whole
face is there.

`--networks`: what shapes and mirror images do to three small networks for gender on the portraits: accuracy and
log loss over the images that humans call male or female. They are no CLIP: they resize any crop to a square
themselves, so that `as_is` and `squashed` differ by rounding.
"""

from __future__ import annotations

import argparse
import csv
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import yaml
from measuring import REPOSITORY, machine, shared_folder
from PIL import Image

from detector_bench.estimation.calibration import log_losses
from detector_bench.evaluation.judged_scores import ScoredImages
from detector_bench.perception.boxes import Crop, boxes, largest
from detector_bench.perception.faces.small_networks import YuNetFaces
from detector_bench.perception.stage import Arrays, Frame
from detector_bench.perception.yolo import YoloPersons
from detector_bench.study import Study
from detector_bench.weights import WeightsLocator

SIDE = 224
TALL = 1.5
"""A box is called tall from this height in widths on."""

FACES = YuNetFaces()
PERSONS = YoloPersons(overlap_threshold=0.5)


class Box(NamedTuple):
    """Corners in pixels."""

    left: float
    top: float
    right: float
    bottom: float

    @property
    def width(self) -> float:
        return max(self.right - self.left, 0.0)

    @property
    def height(self) -> float:
        return max(self.bottom - self.top, 0.0)

    def within(self, other: Box) -> Box:
        left, top = max(self.left, other.left), max(self.top, other.top)
        return Box(left, top, min(self.right, other.right), min(self.bottom, other.bottom))

    def share_in(self, other: Box) -> float:
        """The share of this box's area that lies in another."""
        inside = self.within(other)
        return inside.width * inside.height / (self.width * self.height)


class Seen(NamedTuple):
    """What is left of a face: the share of its area, and the height and width of all of it in CLIP's pixels."""

    share: float
    height: float
    width: float


def in_the_middle(region: Box, face: Box) -> Seen:
    """`as_is`: the shorter side becomes 224 pixels, and the square in the middle is kept."""
    side = min(region.width, region.height)
    x, y = (region.left + region.right) / 2, (region.top + region.bottom) / 2
    middle = Box(x - side / 2, y - side / 2, x + side / 2, y + side / 2)
    return Seen(face.share_in(middle), face.height * SIDE / side, face.width * SIDE / side)


def padded(region: Box, face: Box) -> Seen:
    """`padded`: the longer side becomes 224 pixels, and nothing is cut."""
    scale = SIDE / max(region.width, region.height)
    return Seen(face.share_in(region), face.height * scale, face.width * scale)


def squashed(region: Box, face: Box) -> Seen:
    """`squashed`: each side becomes 224 pixels."""
    return Seen(face.share_in(region), face.height * SIDE / region.height, face.width * SIDE / region.width)


SHAPES = {"as_is": in_the_middle, "padded": padded, "squashed": squashed}


def found_in(image_set: Path, *, images: int | None) -> Iterator[tuple[Box, Box]]:
    """The region that CLIP-Enhance cuts out, and the largest face whose middle lies in it."""
    weights = WeightsLocator(folders=(shared_folder() / "weights",), cache=Path("nowhere"))
    stages = {stage: stage.load(weights) for stage in (FACES, PERSONS.all_boxes, PERSONS)}
    rows = list(csv.DictReader((image_set / "images.csv").open(encoding="utf-8")))[:images]
    for row in rows:
        with Image.open(image_set / row["path"]) as image:
            frame = Frame(row["image_id"], pixels=np.asarray(image.convert("RGB")))
        for stage, run in stages.items():
            frame.results[stage] = next(iter(run([frame])))
        corners = Crop(boxes=PERSONS).corners(frame[PERSONS])
        if corners is None:
            continue
        height, width = frame.pixels.shape[:2]
        region = Box(*corners).within(Box(0, 0, width, height))
        face = face_in(region, frame[FACES])
        if face is not None:
            yield region, face


def face_in(region: Box, found: Arrays) -> Box | None:
    """The largest face whose middle lies in the region."""
    corners = np.asarray(found["corners"], np.float64)
    middles = (corners[:, :2] + corners[:, 2:]) / 2
    inside = ((middles > region[:2]) & (middles < region[2:])).all(axis=1)
    index = largest(boxes(corners[inside], np.asarray(found["scores"])[inside]))
    return None if index is None else Box(*corners[inside][index])


def show(name: str, pairs: list[tuple[Box, Box]]) -> None:
    """Print one row for each shape."""
    print(f"\n{name}: {len(pairs)} images with a person and a face")
    print(f"{'shape':10}{'half lost':>10}{'10 % lost':>10}{'least':>8}{'mean':>8}{'height':>8}{'width':>8}")
    for shape, see in SHAPES.items():
        seen = np.array([see(*pair) for pair in pairs]).reshape(-1, 3)
        share, height, width = seen.T
        row = [f"{(share < 0.5).sum():10}{(share < 0.9).sum():10}"]
        if len(seen):
            row.append(f"{share.min():8.2f}{share.mean():8.3f}{np.median(height):8.0f}{np.median(width):8.0f}")
        print(f"{shape:10}{''.join(row)}")


STEPS: dict[str, dict[str, str]] = {
    "as_is": {},
    "squashed": {"shape": "squashed"},
    "padded-black": {"shape": "padded"},
    "padded-mean": {"shape": "padded", "fill": "mean"},
    "padded-edge": {"shape": "padded", "fill": "edge"},
    "mirrored-too": {"views": "as_is_and_mirrored"},
}


def networks() -> None:
    """Print what each step does to each network on faces and on persons."""
    shared, configs = shared_folder(), REPOSITORY / "configs" / "detectors"
    boxes = {"face": "yunet_faces", "person": {"kind": "yolo_persons", "overlap_threshold": 0.5}}
    detectors = [
        {"name": f"{name}-{seen}-{step}", "extends": str(configs / f"{name}.yaml")}
        | {"crop": {"boxes": boxes[seen], "without_box": "whole_image", **settings}}
        for name in ("faceres", "gear", "ssrnet")
        for seen in boxes
        for step, settings in STEPS.items()
    ]
    study = {"image_set": str(shared / "data" / "t2i_portraits"), "detectors": detectors, "attributes": ["gender"]}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "study.yaml"
        file.write_text(yaml.safe_dump(study))
        results = Study.from_yaml(file).run(
            Path(folder) / "out", weights_dir=shared / "weights", cache_dir=Path(folder) / "cache"
        )
        stored = results.reader.predictions(("reason", "score"))
        print(f"\n{'network, crop, step':36}{'images':>8}{'accuracy':>10}{'log loss':>10}")
        for name, table in stored.items():
            found = ScoredImages.of(results.image_set, table, detector=name, attribute="gender").verdicts
            loss = log_losses(found.scores, found.right).mean()
            print(f"{name:36}{len(found):8}{100 * found.right.mean():10.1f}{loss:10.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, help="of each image set; by default all")
    parser.add_argument("--networks", action="store_true", help="verdicts in place of faces")
    asked = parser.parse_args()
    print(machine())
    if asked.networks:
        networks()
        return
    print(
        "half lost, 10 % lost: images of whose face less than 0.5 or 0.9 is left; height, width: medians in pixels"
    )
    for name in ("t2i_portraits", "group_scenes"):
        pairs = list(found_in(shared_folder() / "data" / name, images=asked.images))
        show(f"{name}, all", pairs)
        show(f"{name}, tall", [pair for pair in pairs if pair[0].height >= TALL * pair[0].width])


if __name__ == "__main__":
    main()
