"""An image set or a finished study as a FiftyOne dataset on disk, with labels, verdicts and boxes.

The form is FiftyOne's plain one: `samples.json` with a sample per image, from which it finds the fields itself, so
that no version's own records are imitated. Read with FiftyOne 1.22.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from detector_bench import __version__
from detector_bench.atomic_files import write_text
from detector_bench.dataset import ImageSet
from detector_bench.exports.boxes import BoxedImage, BoxSource, boxed_images
from detector_bench.exports.carried_images import (
    Link,
    Progress,
    bring_images,
    carried_names,
    check_carried,
    refuse_addresses,
)
from detector_bench.exports.export_folder import WrittenExport, export_folder
from detector_bench.vocabulary import Status

SAMPLES_FILE = "samples.json"
METADATA_FILE = "metadata.json"
TRUTH = "ground_truth_"
LABELS = "labels_"
BOXES = "boxes_"
"""Begin the names of fields; a detector's field is its own name and the attribute's."""

_DETAILS = ("reason", "value", "raw")


def export_fiftyone(
    image_set: ImageSet,
    out: Path,
    *,
    source: BoxSource | None = None,
    link: Link | None = None,
    fetch: bool = False,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> WrittenExport:
    """Write the dataset's folder, whole or not at all.

    A sample has the consensus as `ground_truth_<attribute>`, every annotator's labels as `labels_<attribute>`, a
    detector's verdict as `<detector>_<attribute>` and boxes as `boxes_<stage>`. A verdict's label is the class of
    a clear image, else `filtered` or `error`; its `status` says which of the three it is.

    Args:
        image_set: images, prompts and labels.
        out: the folder.
        source: of verdicts and boxes.
        link: how image files come; None: copied, unless that takes much room.
        fetch: bring images from addresses.
        overwrite: replace an earlier export.
        progress: is told how many images are done, of how many.

    Raises:
        ConfigError, DataError, DetectorBenchError: as for `export_hugging_face`.
    """
    carried = carried_names(image_set, fetch=fetch)
    refuse_addresses(carried, form="FiftyOne")
    link = check_carried(image_set, link=link)
    decisive = {"image_set": image_set.name, "fingerprint": image_set.fingerprint(), "link": link}
    with export_folder(
        out, form="fiftyone", facts=decisive, apart_from=image_set.root, overwrite=overwrite
    ) as folder:
        bring_images(image_set, carried, folder, link=link, progress=progress)
        names = _FieldNames()
        samples = [_sample(image, names) for image in boxed_images(image_set, carried, source, progress)]
        about = {
            "name": image_set.name,
            "media_type": "image",
            "info": {"exported_by": f"detector_bench {__version__}"},
        }
        write_text(folder / METADATA_FILE, json.dumps(about, ensure_ascii=False, indent=1) + "\n")
        write_text(folder / SAMPLES_FILE, json.dumps({"samples": samples}, ensure_ascii=False) + "\n")
    notes = (
        []
        if source is None or names.has_boxes
        else ["no boxes are stored: the stage cache lies elsewhere (--cache-dir), or was not kept"]
    )
    return WrittenExport(len(samples), tuple(notes))


class _FieldNames:
    """Names of fields: letters, digits and underscores, and one for each thing."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}
        self.has_boxes = False

    def of(self, *parts: str) -> str:
        """The name of the field for these parts."""
        whole = "\0".join(parts)
        if whole not in self._known:
            name = re.sub(r"\W", "_", "".join(parts), flags=re.ASCII)
            while name in self._known.values():
                name += "_"
            self._known[whole] = name
        return self._known[whole]


def _sample(image: BoxedImage, names: _FieldNames) -> dict[str, Any]:
    record = image.record
    sample: dict[str, Any] = {"filepath": image.name, "tags": [], **record.facts}
    if image.size is not None:
        sample["metadata"] = {"_cls": "ImageMetadata", "width": image.size[0], "height": image.size[1]}
    for attribute, said in record.consensus.items():
        sample[names.of(TRUTH, attribute)] = _classification(**said)
    given: dict[str, list[dict[str, Any]]] = {}
    for label in record.labels:
        facts = {name: value for name, value in label.items() if name != "attribute"}
        given.setdefault(names.of(LABELS, label["attribute"]), []).append(_classification(**facts))
    sample |= {name: {"_cls": "Classifications", "classifications": each} for name, each in given.items()}
    for verdict in record.verdicts:
        status = verdict["status"]
        details = {name: verdict[name] for name in _DETAILS if name in verdict}
        if "score" in verdict:
            details["confidence"] = verdict["score"]
        if status != Status.CLEAR and "label" in verdict:
            details["class_beside"] = verdict["label"]
        label = verdict["label"] if status == Status.CLEAR else status
        field = names.of(verdict["detector"], "_", verdict["attribute"])
        sample[field] = _classification(label=label, status=status, **details)
    return sample | _boxes(image, names)


def _classification(**facts: Any) -> dict[str, Any]:
    return {"_cls": "Classification", **facts}


def _boxes(image: BoxedImage, names: _FieldNames) -> dict[str, Any]:
    found: dict[str, list[dict[str, Any]]] = {}
    width, height = image.size or (1, 1)
    for box in image.boxes:
        place = [box.left / width, box.top / height, box.width / width, box.height / height]
        detection = {
            "_cls": "Detection",
            "label": box.stage,
            "bounding_box": place,
            "confidence": box.score,
            "detectors": list(box.detectors),
        }
        found.setdefault(names.of(BOXES, box.stage), []).append(detection)
        names.has_boxes = True
    return {name: {"_cls": "Detections", "detections": each} for name, each in found.items()}
