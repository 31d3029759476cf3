"""The ways that go through the runner, interrupted, resumed and from kept stage results; and images to go with."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import fields
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from PIL import Image

from detector_bench.conformance.comparison import Observation, Pixels, StageResult
from detector_bench.dataset import ImageSet
from detector_bench.dataset.decoding import ImageError, decode_image
from detector_bench.dataset.image_folder import ImageFolder, LeavesFolderError
from detector_bench.dataset.image_tree import IMAGE_SUFFIXES
from detector_bench.detectors.base import Detector, Prediction
from detector_bench.errors import ConfigError, RunInterruptedError
from detector_bench.perception.identity import fingerprint
from detector_bench.perception.stage import with_inputs
from detector_bench.quickstart import RECIPES, SamplePictures
from detector_bench.runner.image_reading import hash_files
from detector_bench.runner.run import run_detectors
from detector_bench.runner.run_record import RunProgress, RunRecord
from detector_bench.runner.run_settings import RunSettings
from detector_bench.runner.stage_cache import StageCache
from detector_bench.vocabulary import Status
from detector_bench.vocabulary.columns import IMAGE_COLUMNS, PROMPT_COLUMNS
from detector_bench.weights import WeightsLocator

SAMPLE = (
    "large_smiling_3",
    "large_smiling_5",
    "large_serious_1",
    "large_glasses_5",
    "large_hat_3",
    "large_serious_4",
    "small_smiling_2",
)
"""Faces of several sizes, two people, nobody; each of another width and height than its neighbours."""


def sample_pictures() -> list[Pixels]:
    """Seven pictures of the quickstart.

    Raises:
        MissingExtraError: a package whose pictures are needed is not installed.
    """
    given = SamplePictures()
    return [np.asarray(RECIPES[name](given).convert("RGB")) for name in SAMPLE]


def pictures_in(folder: Path, *, at_most: int) -> list[Pixels]:
    """The first images of a folder and the folders below it, in the order of their paths.

    Raises:
        ConfigError: no image there, or one that cannot be read, as behind a link that leads out of the folder.
    """
    paths = sorted(path for path in folder.rglob("*") if path.suffix.lower() in IMAGE_SUFFIXES and path.is_file())
    if not paths:
        raise ConfigError(f"no images in {str(folder)!r} (accepted: {', '.join(IMAGE_SUFFIXES)})")
    pictures, within = [], ImageFolder(folder)
    for path in paths[:at_most]:
        try:
            with within.open(path.relative_to(folder).as_posix()) as file:
                pictures.append(decode_image(file.read()))
        except LeavesFolderError as error:
            raise ConfigError(f"{path}: {error}; it is read if --allow-root names where it leads") from error
        except (ImageError, OSError) as error:
            raise ConfigError(f"{path}: {error}") from error
    return pictures


_BATCH = 2


def write_image_set(folder: Path, images: dict[str, Pixels]) -> ImageSet:
    """Write images as lossless files, and the tables that an image set needs."""
    (folder / "images").mkdir(parents=True)
    for image_id, pixels in images.items():
        Image.fromarray(pixels).save(folder / "images" / f"{image_id}.png")
    rows = [(image_id, f"images/{image_id}.png", "none", "none") for image_id in images]
    _write_csv(folder / "images.csv", [IMAGE_COLUMNS, *rows])
    _write_csv(folder / "prompts.csv", [PROMPT_COLUMNS, ("none", "none", "none", "none")])
    return ImageSet.load(folder, require_labels=False)


class RunsOfOneSet:
    """Runs of one detector over one image set, which share their kept stage results."""

    def __init__(self, image_set: ImageSet, detector: Detector, folder: Path, *, weights: WeightsLocator) -> None:
        self._image_set = image_set
        self._detector = detector
        self._folder = folder
        self._weights = weights
        self._settings = RunSettings(batch_size=_BATCH, cache_folder=folder / "cache")

    def interrupted_and_resumed(self) -> tuple[Observation, int]:
        """What is stored after a run that was stopped and another, and how many images the other one judged."""
        with suppress(RunInterruptedError):
            self._run("first", stops=True)
        record = self._run("first")
        return Observation(dict(self._stored("first")), dict(self._kept())), record.images_judged

    def from_kept_results(self) -> Observation:
        """The same into another result folder: stages that keep their results do not run."""
        self._run("second")
        return Observation(dict(self._stored("second")), {})

    def _run(self, name: str, *, stops: bool = False) -> RunRecord:
        return run_detectors(
            self._image_set,
            [self._detector],
            self._folder / name,
            weights=self._weights,
            settings=self._settings,
            progress=_StopsAfterABatch() if stops else None,
        )

    def _stored(self, name: str) -> Iterator[tuple[tuple[str, str], Prediction]]:
        columns = [field.name for field in fields(Prediction)]
        for row in pq.read_table(self._folder / name / self._detector.name, columns=columns).to_pylist():
            yield (row["image_id"], row["attribute"]), Prediction(**{**row, "status": Status(row["status"])})

    def _kept(self) -> Iterator[tuple[tuple[str, str], StageResult]]:
        """Results of the stages that keep them, as they come back from the disk."""
        ids = self._image_set.images["image_id"].tolist()
        paths = [self._image_set.image_place(path) for path in self._image_set.images["path"]]
        with closing(StageCache(self._folder / "cache")) as cache:
            contents = hash_files(paths, cache=cache, threads=1)
            for stage in with_inputs(self._detector.stages):
                own = fingerprint(stage, weights=self._weights)
                found = cache.get(own, [content for content in contents if content is not None])
                for image_id, content in zip(ids, contents, strict=True):
                    if content in found:
                        yield (f"{stage.kind}-{own[:8]}", image_id), found[content]


class _StopsAfterABatch:
    """Presses Ctrl-C as soon as something is judged."""

    def update(self, progress: RunProgress) -> None:
        if progress.done > 0:
            raise KeyboardInterrupt


def _write_csv(path: Path, rows: list[tuple[str, ...]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)
