"""The data scripts behind the page of images, with the boxes of stage results that are at hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from detector_bench.detectors.base import Detector, build_detector
from detector_bench.errors import DetectorBenchError
from detector_bench.perception.identity import fingerprint
from detector_bench.perception.stage import Arrays, Frame, Stage, with_inputs
from detector_bench.runner.stage_cache import StageCache
from detector_bench.site.image_columns import (
    annotators_disagree,
    changed_images,
    coded,
    image_columns,
    numbers,
    raw_answers,
    write_data,
)
from detector_bench.site.pages import ReportFolder
from detector_bench.site.report_study import ReportStudy
from detector_bench.site.thumbnails import ReportPictures
from detector_bench.study_configuration import StudyConfiguration
from detector_bench.weights import WeightsLocator

_CORNERS = "corners"


@dataclass(frozen=True)
class StoredBoxes:
    """What one stage found, and the detectors that read it."""

    stage: str
    """The stage's name, such as `yunet_faces`."""
    detectors: tuple[str, ...]
    of_image: tuple[Arrays | None, ...]
    """In the order of the image set; None where no result is stored."""


def stored_boxes(
    study: StudyConfiguration, cache_folder: Path, sha256: Sequence[str | None], *, weights_dir: Path | None = None
) -> list[StoredBoxes]:
    """Find the boxes that the study's detectors looked at, as far as the stage cache holds them.

    A detector that cannot be built here (its plugin is absent, say), and a stage whose weights are neither pinned
    nor there, have no boxes.

    Args:
        study: the study.
        cache_folder: where stage results are kept; may be missing.
        sha256: content of each image as it was judged; None where it is not known.
        weights_dir: a folder with weights files, for those without a pin.

    Raises:
        DetectorBenchError: the cache is damaged.
    """
    if not (cache_folder / "stages.sqlite").is_file():
        return []
    locator = study.locator(weights_dir=weights_dir, allow_download=False)
    readers: dict[Stage, list[str]] = {}
    for detector in _buildable(study):
        for stage in _shown(detector):
            readers.setdefault(stage, []).append(detector.name)
    cache = StageCache(cache_folder)
    try:
        found = [
            StoredBoxes(stage.kind, tuple(names), results)
            for stage, names in readers.items()
            if (results := _results(stage, sha256, cache=cache, locator=locator)) is not None
        ]
    finally:
        cache.close()
    return found


def box_columns(found: Sequence[StoredBoxes]) -> dict[str, Any]:
    """The data of the page: for each stage, where each image's boxes begin, their corners and scores."""
    return {"stages": [_columns(each) for each in found]}


def _columns(boxes: StoredBoxes) -> dict[str, Any]:
    corners = [_corners(each) for each in boxes.of_image]
    scores = [np.zeros(0) if each is None else np.asarray(each["scores"]) for each in boxes.of_image]
    starts = np.concatenate([[0], np.cumsum([len(each) for each in corners])])
    whole = np.concatenate([np.zeros((0, 4)), *corners]).round().clip(-(2**15), 2**15 - 1)
    return {
        "stage": boxes.stage,
        "detectors": list(boxes.detectors),
        "looked": numbers(np.array([each is not None for each in boxes.of_image]), "u1"),
        "starts": numbers(starts, "u4"),
        "corners": numbers(whole, "i2"),
        "scores": numbers(np.concatenate([np.zeros(0), *scores]), "f4"),
    }


def _corners(arrays: Arrays | None) -> Any:
    return np.zeros((0, 4)) if arrays is None else np.nan_to_num(np.asarray(arrays[_CORNERS], dtype=float))


def _buildable(study: StudyConfiguration) -> list[Detector]:
    built = []
    for entry in study.detectors:
        try:
            built.append(build_detector(entry.kind, name=entry.name, parameters=entry.parameters))
        except DetectorBenchError:
            continue
    return built


def _shown(detector: Detector) -> list[Stage]:
    """Stages whose boxes a detector may have used; a view stands for the stage that it picks boxes out of."""
    stages = with_inputs(detector.stages)
    behind = {source for stage in stages if _is_view(stage) for source in stage.inputs()}
    return [stage for stage in stages if stage not in behind]


def _is_view(stage: Stage) -> bool:
    """Whether a stage only picks from another one's result: it looks at no pixel and reads no weights."""
    return not (stage.cached or stage.needs_pixels or stage.weights()) and len(stage.inputs()) == 1


def _results(
    stage: Stage, sha256: Sequence[str | None], *, cache: StageCache, locator: WeightsLocator
) -> tuple[Arrays | None, ...] | None:
    """A stage's boxes by image; None where none are stored, or its results are no boxes."""
    source = stage.inputs()[0] if _is_view(stage) else stage
    known = list(dict.fromkeys(each for each in sha256 if each is not None))
    try:
        own = fingerprint(source, weights=locator)
        # One image tells whether results are boxes, before thousands of embeddings are read.
        first = next((found for image in known if (found := cache.get(own, [image]))), None)
        if first is None or _CORNERS not in next(iter(first.values())):
            return None
        stored: Mapping[str, Arrays] = cache.get(own, known)
        if source is not stage:
            pick = stage.load(locator)
            frames = {image: Frame(image, results={source: arrays}) for image, arrays in stored.items()}
            picked = pick(list(frames.values()))
            stored = {image: each for image, each in zip(frames, picked, strict=True) if isinstance(each, Mapping)}
    except DetectorBenchError:
        return None
    return tuple(None if image is None else stored.get(image) for image in sha256)


_LIBRARY = ("store", "columns", "words", "dataset", "state", "filtering", "searching", "dom", "pictures", "grid")
_PAGE = ("matrix", "panel", "toolbar", "boxes", "detail")
SCRIPTS = (*_LIBRARY, *_PAGE, "browser", "tables", "folds")
"""Names of all script files in `static/`."""


def write_browser_data(
    folder: ReportFolder, study: ReportStudy, pictures: ReportPictures, boxes: list[StoredBoxes]
) -> tuple[list[str], int]:
    """Write the columns that the page of images reads.

    Args:
        folder: of the report.
        study: with those images alone that the page shows.
        pictures: of these images.
        boxes: over these images.

    Returns:
        The page's scripts in the order in which they must run, and how many images changed since they were judged.
    """
    images = study.image_set
    assert images is not None  # noqa: S101 - there is no page of images without them
    parts = [part for part in study.parts if part.judged is not None]
    verdicts = {part.name: part.judged.verdicts for part in parts if part.judged}
    changed = changed_images(
        [each for of_attribute in verdicts.values() for each in of_attribute],
        [each.sha256 for each in pictures.pictures],
    )
    data: dict[str, dict[str, Any]] = {
        "study": {"name": study.name, "attributes": list(verdicts)},
        "images": {**image_columns(images), "pictures": _picture_columns(pictures, changed)},
    }
    for part in parts:
        if part.judged is not None:
            data[f"attribute-{part.name}"] = {
                **part.judged.truth.as_columns(),
                "annotators": numbers(annotators_disagree(images, part.name).astype(np.uint8), "u1"),
                "detectors": [each.as_columns(classes=part.judged.classes) for each in part.judged.verdicts],
            }
    first = [f"data/{name}.js" for name in data]
    data |= {"boxes": box_columns(boxes), "answers": raw_answers(verdicts)}
    for name, content in data.items():
        write_data(folder / f"data/{name}.js", name, content)
    assets = [f"assets/{name}.js" for name in (*_LIBRARY, *_PAGE)]
    return [*assets, *first, "assets/browser.js", "data/boxes.js", "data/answers.js"], int(changed.sum())


def _picture_columns(pictures: ReportPictures, changed: Any) -> dict[str, Any]:
    found = pictures.pictures
    return {
        "mode": pictures.mode,
        "small": pictures.small,
        "large": pictures.large,
        "name": [each.name for each in found],
        "width": numbers(np.array([each.width for each in found]), "u4"),
        "height": numbers(np.array([each.height for each in found]), "u4"),
        "problem": coded([each.problem for each in found]),
        "changed": numbers(changed, "u1"),
    }
