"""The data scripts behind the page of images."""

from __future__ import annotations

from typing import Any

import numpy as np

from detector_bench.site.boxes import StoredBoxes, box_columns
from detector_bench.site.column_files import coded, numbers, write_data
from detector_bench.site.folder import ReportFolder
from detector_bench.site.image_columns import (
    annotators_disagree,
    changed_images,
    image_columns,
    raw_answers,
)
from detector_bench.site.report_study import ReportStudy
from detector_bench.site.thumbnails import Pictures

_LIBRARY = ("store", "columns", "words", "dataset", "state", "filtering", "searching", "dom", "pictures", "grid")
_PAGE = ("matrix", "panel", "toolbar", "boxes", "detail")
SCRIPTS = (*_LIBRARY, *_PAGE, "browser", "tables", "folds")
"""Names of all script files in `static/`."""


def write_browser_data(
    folder: ReportFolder, study: ReportStudy, pictures: Pictures, boxes: list[StoredBoxes]
) -> tuple[list[str], int]:
    """Write the columns that the page of images reads.

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


def _picture_columns(pictures: Pictures, changed: Any) -> dict[str, Any]:
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
