"""What the error browser knows about every image: columns in the order of the image set, in script files.

Words are written as codes, numbers as bytes: a page on a disk may load a script, and no other file.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from detector_bench.atomic_files import write_text
from detector_bench.dataset import ImageSet
from detector_bench.dataset.consensus import ADJUDICATOR
from detector_bench.dataset.image_paths import shown
from detector_bench.dataset.image_references import SEED_COLUMN
from detector_bench.evaluation.image_index import NULL
from detector_bench.evaluation.image_verdicts import ImageVerdicts
from detector_bench.vocabulary import LOW_QUALITY, Attribute
from detector_bench.vocabulary.columns import VALUE_COLUMN

Column: TypeAlias = dict[str, Any]
"""JSON data. Words: `{"words": [...], "codes": NUMBERS}`, where the largest number of the type stands for an empty
cell. Numbers: `{"type": "u1", "bytes": BASE64}`, little-endian; types as in numpy, without the byte order."""


def numbers(values: NDArray[Any], kind: str) -> Column:
    """A column of numbers.

    Args:
        values: one for each image, say.
        kind: numpy's name of the type without byte order: u1, u2, u4, i2 or f4.
    """
    data = np.ascontiguousarray(values, dtype=f"<{kind}").tobytes()
    return {"type": kind, "bytes": base64.b64encode(data).decode("ascii")}


def codes(values: NDArray[Any], *, words: int) -> Column:
    """A column of positions in a list of words, in the smallest type; negative ones become its largest number."""
    kind = "u1" if words < 0xFF else "u2" if words < 0xFFFF else "u4"
    largest = int(np.iinfo(f"<{kind}").max)
    return numbers(np.where(values < 0, largest, values), kind)


def coded(column: Any, *, words: Sequence[str] | None = None) -> Column:
    """A column of words, each distinct one stored once; empty cells and texts are no words.

    Args:
        column: pandas, Arrow or Python sequence of texts and None.
        words: the words in a fixed order, which must hold all that occur; None: in the order of appearance.
    """
    array = (
        column
        if isinstance(column, pa.Array | pa.ChunkedArray)
        else pa.array(column, pa.string(), from_pandas=True)
    )
    array = array.cast(pa.string())
    array = pc.if_else(pc.equal(array, ""), pa.scalar(None, pa.string()), array)
    known = [word for word in pc.unique(array).to_pylist() if word is not None] if words is None else list(words)
    found = pc.index_in(array, value_set=pa.array(known, pa.string()))
    # An empty cell would be found as a null among the words, if they had one.
    positions = found.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    return {"words": known, "codes": codes(positions, words=len(known))}


def write_data(path: Path, name: str, content: Mapping[str, Any]) -> None:
    """Write a script that hands data over to the page: `detectorBenchReport.add(name, content)`.

    A page that is opened from a disk may not fetch files, but it may load scripts. All text is escaped to ASCII,
    so that no character set and no line separator can make it anything but data.

    Raises:
        DetectorBenchError: the disk is full, read-only or the like.
    """
    data = json.dumps(content, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    # Parsed as JSON, not read as a program: faster for large texts, and `__proto__` is a key like any other.
    text = json.dumps(data, ensure_ascii=True)
    write_text(path, f"window.detectorBenchReport.add({json.dumps(name)}, {text});\n")


PREDICTION_COLUMNS = ("reason", "score", "value", "raw", "image_sha256")
"""What is read of stored predictions besides image, attribute, status and label."""

COUNTED_COLUMNS = ("reason",)
"""What is read of those that are only counted."""

Codes = NDArray[np.integer]


@dataclass(frozen=True, eq=False)
class Truth:
    """The human labels of one attribute."""

    attribute: Attribute
    label: Codes
    """`[image]`: position in `attribute.labels`; `NULL` where there is none."""
    reason: pd.Series
    """`[image]`: the consensus's reason, "" where there is none."""

    @classmethod
    def of(cls, image_set: ImageSet, found: ImageVerdicts) -> Truth:
        """The consensus of the annotators."""
        return cls(found.attribute, found.truth, image_set.truth(found.attribute.name)["reason"])

    @property
    def is_clear(self) -> NDArray[np.bool_]:
        """Images that humans gave a class."""
        return (self.label >= 0) & (self.label < len(self.attribute.classes))

    @property
    def is_low_quality(self) -> NDArray[np.bool_]:
        """Images that humans called low-quality."""
        return np.equal(self.label, self.attribute.labels.index(LOW_QUALITY))

    def as_columns(self) -> dict[str, Any]:
        """The data of the page."""
        return {
            "name": self.attribute.name,
            "classes": list(self.attribute.classes),
            "labels": list(self.attribute.labels),
            "truth": codes(self.label, words=len(self.attribute.labels)),
            "reason": coded(self.reason),
        }


@dataclass(frozen=True, eq=False)
class DetectorVerdicts:
    """One detector's verdicts on one attribute; every array is `[image]`."""

    detector: str
    verdict: Codes
    """A class; K: filtered, K + 1: error, K + 2: never judged."""
    named: Codes
    """The class that is stored beside a verdict that is not clear; `NULL` where there is none."""
    score: NDArray[np.float64]
    value: NDArray[np.float64]
    reason: pa.ChunkedArray
    raw: pa.ChunkedArray
    image_sha256: pa.ChunkedArray

    @classmethod
    def of_detectors(cls, found: ImageVerdicts) -> tuple[DetectorVerdicts, ...]:
        """Those of every detector that judged an image.

        What counting does not need stays empty where the predictions lack it: scores, values, raw answers, sha256.
        """
        never_run = len(found.attribute.classes) + 2
        verdicts = np.where(found.verdicts == NULL, np.int8(never_run), found.verdicts)
        named = np.where(found.clear, NULL, found.named)

        def of_detector(place: int) -> DetectorVerdicts:
            present = found.predictions[found.detectors[place]].column_names
            nothing = pa.chunked_array([pa.nulls(len(found.truth), pa.string())])
            score, value = (
                _floats(found.column(name, place))
                if name in present
                else np.broadcast_to(np.nan, found.truth.shape)
                for name in ("score", "value")
            )
            reason, raw, sha256 = (
                found.column(name, place) if name in present else nothing
                for name in ("reason", "raw", "image_sha256")
            )
            return cls(found.detectors[place], verdicts[place], named[place], score, value, reason, raw, sha256)

        return tuple(of_detector(place) for place, judged in enumerate(found.has_judged) if judged)

    def as_columns(self, *, classes: int) -> dict[str, Any]:
        """The data of the page, without the raw answers; columns in which nothing stands are None."""
        return {
            "detector": self.detector,
            "verdict": codes(self.verdict, words=classes + 3),
            "named": None if (self.named == NULL).all() else codes(self.named, words=classes),
            "score": None if np.isnan(self.score).all() else numbers(self.score, "f4"),
            "value": None if np.isnan(self.value).all() else numbers(self.value, "f4"),
            "reason": coded(self.reason),
        }


def _floats(column: pa.ChunkedArray) -> NDArray[np.float64]:
    found: NDArray[np.float64] = column.cast(pa.float64()).to_numpy()
    return found


def image_columns(image_set: ImageSet) -> dict[str, Any]:
    """Ids, T2I models, prompts, seeds of edited images, and every annotator's labels."""
    images, prompts = image_set.images, image_set.prompts
    prompt_ids = tuple(prompts["prompt_id"])
    return {
        "images": len(images),
        "image_id": list(images["image_id"]),
        "path": [shown(path) for path in images["path"]],
        "t2i_model": coded(images["t2i_model"]),
        "prompt": codes(pd.Index(prompt_ids).get_indexer(pd.Index(images["prompt_id"])), words=len(prompt_ids)),
        "seed": coded(images[SEED_COLUMN]) if SEED_COLUMN in images else None,
        "prompts": {name: list(prompts[name]) for name in ("prompt_id", "category", "word", "prompt")},
        "labels": _label_columns(image_set),
    }


def _label_columns(image_set: ImageSet) -> dict[str, Column]:
    """A row for each annotator's label, sorted by image."""
    labels = image_set.labels
    position = pd.Index(image_set.images["image_id"]).get_indexer(pd.Index(labels["image_id"]))
    order = np.argsort(position, kind="stable")
    order = order[position[order] >= 0]
    names = ("annotator", "attribute", "label", "reason", VALUE_COLUMN)
    words = {name: coded(labels[name].iloc[order]) for name in names}
    return {"image": numbers(position[order], "u4"), **words}


def annotators_disagree(image_set: ImageSet, attribute: str) -> NDArray[np.int8]:
    """For each image: 1 where annotators gave different labels, 0 where they agree, -1 for fewer than two."""
    labels = image_set.labels
    labels = labels[(labels["attribute"] == attribute) & (labels["annotator"] != ADJUDICATOR)]
    groups = labels.groupby("image_id", sort=False)
    summary = pd.DataFrame({"annotators": groups["annotator"].nunique(), "labels": groups["label"].nunique()})
    summary = summary.reindex(image_set.images["image_id"])
    several = (summary["annotators"].fillna(0) > 1).to_numpy()
    return np.where(several, (summary["labels"].fillna(0) > 1).to_numpy(), -1).astype(np.int8)


def changed_images(verdicts: Sequence[DetectorVerdicts], sha256: Sequence[str | None]) -> NDArray[np.bool_]:
    """Images whose file is another one now than when some detector judged it; False where either is not known."""
    now = pa.chunked_array([pa.array(sha256, pa.string())])
    changed = np.zeros(len(sha256), dtype=bool)
    for each in verdicts:
        differs = pc.not_equal(each.image_sha256.cast(pa.string()), now).fill_null(False)  # noqa: FBT003
        changed |= differs.to_numpy(zero_copy_only=False)
    return changed


def raw_answers(verdicts: Mapping[str, Sequence[DetectorVerdicts]]) -> dict[str, Any]:
    """The detectors' answers before they were parsed, for those that keep them; by attribute, then detector."""
    return {
        "answers": [
            {"attribute": attribute, "detector": each.detector, "raw": coded(each.raw)}
            for attribute, of_attribute in verdicts.items()
            for each in of_attribute
            if each.raw.null_count < len(each.raw)
        ]
    }
