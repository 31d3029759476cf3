"""dlib's CNN face detector re-expressed, against dlib itself: the same decisions and boxes, and how much faster.

The figures to reach: the same face / no-face decision on 99.5 % of the images; boxes with an overlap (intersection
over union) of at least 0.95, and scores within 0.02, on 99 % of the faces, where a face that only one of the two
finds counts as missed; at 480 pixels at least 20 times faster on 2 cores; at 800 pixels with `--upsample 1` at
most 1.5 s per image.

    python benchmarks/dlib_cnn_faces.py --images 20 --upsample 0
    python benchmarks/dlib_cnn_faces.py --images 10 --upsample 1 --longest-side 800 --kind dlib_cnn_torch_faces

The images are spread evenly over the developers' portraits and group scenes. dlib and its counterpart take turns,
image by image. dlib takes 1.4 s per image of 480 pixels, so that `--reference FOLDER` keeps what it found, and its
seconds, for the next time.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np
from measuring import machine, shared_folder, spread
from numpy.typing import NDArray
from PIL import Image

from detector_bench.perception.faces.dlib_cnn_stages import DlibCnnOnnxFaces, DlibCnnTorchFaces
from detector_bench.perception.faces.dlib_faces import DlibCnnFaces
from detector_bench.perception.stage import Frame, StageFunction
from detector_bench.weights import WeightsLocator

KINDS = {stage.kind: stage for stage in (DlibCnnOnnxFaces, DlibCnnTorchFaces)}
LEAST_OVERLAP = 0.95
LARGEST_SCORE_DIFFERENCE = 0.02


def chosen_images(count: int, *, longest_side: int) -> list[NDArray[np.uint8]]:
    """Images spread evenly over both image sets; with `longest_side`, resized to it."""
    folders = [shared_folder() / "data" / name / "images" for name in ("t2i_portraits", "group_scenes")]
    paths = [path for folder in folders for path in sorted(folder.iterdir())]
    count = min(count, len(paths))
    images = []
    for number in range(count):
        with Image.open(paths[number * len(paths) // count]) as image:
            pixels = image.convert("RGB")
        if longest_side:
            scale = longest_side / max(pixels.size)
            width, height = (round(side * scale) for side in pixels.size)
            pixels = pixels.resize((width, height), Image.Resampling.BILINEAR)
        images.append(np.asarray(pixels))
    return images


def timed(detect: StageFunction, pixels: NDArray[np.uint8]) -> tuple[list[list[float]], float]:
    """The faces, as rows of left, top, right, bottom and score, and the seconds."""
    began = time.perf_counter()
    (found,) = detect([Frame("image", pixels=pixels)])
    seconds = time.perf_counter() - began
    return np.column_stack([found["corners"], found["scores"]]).tolist(), seconds  # type: ignore[index]


def timed_or_kept(
    detect: StageFunction, pixels: NDArray[np.uint8], *, upsample: int, folder: Path | None
) -> tuple[list[list[float]], float]:
    """As `timed`, from the folder where it was kept."""
    if folder is None:
        return timed(detect, pixels)
    name = hashlib.sha256(pixels.tobytes()).hexdigest()[:32]
    file = folder / f"{name}_{pixels.shape[1]}x{pixels.shape[0]}_{upsample}.json"
    if not file.exists():
        folder.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(timed(detect, pixels)))
    faces, seconds = json.loads(file.read_text())
    return faces, seconds


def overlap(one: list[float], other: list[float]) -> float:
    """Intersection over union."""
    width = min(one[2], other[2]) - max(one[0], other[0])
    height = min(one[3], other[3]) - max(one[1], other[1])
    shared = max(width, 0) * max(height, 0)
    both = sum((box[2] - box[0]) * (box[3] - box[1]) for box in (one, other))
    return shared / (both - shared)


def compared(theirs: list[list[float]], ours: list[list[float]]) -> list[tuple[float, float]]:
    """Overlap and score difference for each face of either; (0, infinity) where the other has none left."""
    left, pairs = list(ours), []
    for face in theirs:
        best = max(left, key=lambda other: overlap(face, other), default=None)
        if best is None or overlap(face, best) == 0:
            pairs.append((0.0, float("inf")))
            continue
        left.remove(best)
        pairs.append((overlap(face, best), abs(face[4] - best[4])))
    return pairs + [(0.0, float("inf"))] * len(left)


def report(theirs: list[Any], ours: list[Any]) -> None:
    """Print shares, seconds and their ratio."""
    same = [bool(one) == bool(other) for (one, _), (other, _) in zip(theirs, ours, strict=True)]
    pairs = [pair for (one, _), (other, _) in zip(theirs, ours, strict=True) for pair in compared(one, other)]
    print(f"images with the same decision: {sum(same)} of {len(same)}, {np.mean(same):.2%} (at least 99.5 %)")
    print(f"  with a face, by dlib: {sum(bool(one) for one, _ in theirs)}")
    if pairs:
        overlaps, differences = np.array(pairs).T
        for what, good in (
            ("an overlap of 0.95 or more", overlaps >= LEAST_OVERLAP),
            ("a score within 0.02", differences <= LARGEST_SCORE_DIFFERENCE),
        ):
            print(f"faces with {what}: {good.sum()} of {len(good)}, {good.mean():.2%} (at least 99 %)")
        print(f"  least overlap {overlaps.min():.4f}, greatest difference of scores {differences.max():.6f}")
    slow, fast = [seconds for _, seconds in theirs], [seconds for _, seconds in ours]
    print(f"dlib, seconds per image: {spread(slow)}")
    print(f"ours, seconds per image: {spread(fast)}")
    print(f"times faster, of the medians: {statistics.median(slow) / statistics.median(fast):.1f}")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=20)
    parser.add_argument("--upsample", type=int, default=0)
    parser.add_argument(
        "--longest-side", type=int, default=0, help="resize to this; by default nothing is resized"
    )
    parser.add_argument("--kind", choices=KINDS, default=DlibCnnOnnxFaces.kind, help="what to compare with dlib")
    parser.add_argument("--reference", type=Path, help="a folder to keep dlib's results in")
    arguments = parser.parse_args()

    images = chosen_images(arguments.images, longest_side=arguments.longest_side)
    weights = WeightsLocator()
    dlibs = DlibCnnFaces(upsample=arguments.upsample).load(weights)
    others = KINDS[arguments.kind](upsample=arguments.upsample).load(weights)
    timed(others, images[0])  # the first call of a network also allocates its memory
    theirs, ours = [], []
    for pixels in images:
        theirs.append(timed_or_kept(dlibs, pixels, upsample=arguments.upsample, folder=arguments.reference))
        ours.append(timed(others, pixels))
    print(machine())
    print(f"{len(images)} images, upsample {arguments.upsample}, {arguments.kind}")
    report(theirs, ours)


if __name__ == "__main__":
    main()
