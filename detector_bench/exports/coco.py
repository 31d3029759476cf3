"""An image set or a finished study in the COCO format: boxes that stages found, labels as attributes of images.

The keys are those of COCO's detection format; `attributes`, `labels`, `verdicts`, `detectors` and the like are
ours beside them, and readers of COCO leave them alone.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from detector_bench import __version__
from detector_bench.atomic_files import write_text
from detector_bench.dataset import ImageSet
from detector_bench.exports.boxes import BoxedImage, BoxSource, boxed_images
from detector_bench.exports.card_text import plural
from detector_bench.exports.carried_images import Link, Progress, bring_images, carried_names, check_carried
from detector_bench.exports.export_folder import WrittenExport, export_folder

COCO_FILE = "annotations.json"


def export_coco(
    image_set: ImageSet,
    out: Path,
    *,
    source: BoxSource | None = None,
    link: Link | None = None,
    fetch: bool = False,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> WrittenExport:
    """Write a folder with `annotations.json` and the images, whole or not at all.

    A category is a stage that finds boxes, such as `yunet_faces`; a box says which detectors read it. Boxes are
    those of the stage cache: where it was cleared, or holds other images, there are none.

    Args:
        image_set: images, prompts and labels.
        out: the folder.
        source: of verdicts and boxes.
        link: how image files come; None: copied, unless that takes much room.
        fetch: bring images from addresses; else they are named by `coco_url`.
        overwrite: replace an earlier export.
        progress: is told how many images are done, of how many.

    Raises:
        ConfigError, DataError, DetectorBenchError: as for `export_hugging_face`.
    """
    carried = carried_names(image_set, fetch=fetch)
    link = check_carried(image_set, link=link)
    decisive = {"image_set": image_set.name, "fingerprint": image_set.fingerprint(), "link": link}
    with export_folder(out, form="coco", facts=decisive, apart_from=image_set.root, overwrite=overwrite) as folder:
        bring_images(image_set, carried, folder, link=link, progress=progress)
        laid_out = _LaidOut()
        for image in boxed_images(image_set, carried, source, progress):
            laid_out.add(image)
        content = {
            "info": {"description": image_set.name, "contributor": f"detector_bench {__version__}"},
            "licenses": [],
            "images": laid_out.images,
            "annotations": laid_out.annotations,
            "categories": [
                {"id": number, "name": stage, "supercategory": "box"}
                for stage, number in laid_out.categories.items()
            ],
        }
        write_text(folder / COCO_FILE, json.dumps(content, ensure_ascii=False, indent=1) + "\n")
    return WrittenExport(len(laid_out.images), tuple(laid_out.notes(source)))


class _LaidOut:
    def __init__(self) -> None:
        self.images: list[dict[str, Any]] = []
        self.annotations: list[dict[str, Any]] = []
        self.categories: dict[str, int] = {}

    def add(self, image: BoxedImage) -> None:
        """Add an image and its boxes; numbers begin with 1."""
        record, number = image.record, len(self.images) + 1
        entry: dict[str, Any] = {"id": number, "file_name": image.name}
        if "://" in image.name:
            entry["coco_url"] = image.name
        if image.size is not None:
            entry["width"], entry["height"] = image.size
        attributes = {name: said["label"] for name, said in record.consensus.items()}
        entry |= {**record.facts, "attributes": attributes, "labels": record.labels}
        if record.verdicts:
            entry["verdicts"] = record.verdicts
        self.images.append(entry)
        for box in image.boxes:
            category = self.categories.setdefault(box.stage, len(self.categories) + 1)
            self.annotations.append(
                {
                    "id": len(self.annotations) + 1,
                    "image_id": number,
                    "category_id": category,
                    "bbox": [round(each, 2) for each in (box.left, box.top, box.width, box.height)],
                    "area": round(box.width * box.height, 2),
                    "iscrowd": 0,
                    "score": round(box.score, 6),
                    "detectors": list(box.detectors),
                }
            )

    def notes(self, source: BoxSource | None) -> list[str]:
        """What has to be said about boxes and sizes."""
        found = len({each["image_id"] for each in self.annotations})
        notes = []
        if source is None:
            notes.append(
                "there are no boxes: an image set has none; a result folder in its place brings those of its run"
            )
        else:
            notes.append(f"{len(self.annotations):,} boxes on {found:,} of {len(self.images):,} images")
            if not found:
                notes.append("no boxes are stored: the stage cache lies elsewhere (--cache-dir), or was not kept")
        if unknown := sum("width" not in each for each in self.images):
            notes.append(f"without a size: {plural(unknown, 'image')} that cannot be decoded, or lie at addresses")
        return notes
