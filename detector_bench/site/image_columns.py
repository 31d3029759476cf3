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
from detector_bench.dataset.image_references import SEED_COLUMN
from detector_bench.vocabulary import LOW_QUALITY, Attribute, Status, attribute_named
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

Codes = NDArray[np.int64]
NONE = -1


@dataclass(frozen=True, eq=False)
class Truth:
    """The human labels of one attribute."""

    attribute: Attribute
    label: Codes
    """`[image]`: position in `attribute.labels`; `NONE` where there is none."""
    reason: pd.Series
    """`[image]`: the consensus's reason, "" where there is none."""

    @classmethod
    def of(cls, image_set: ImageSet, attribute: str) -> Truth:
        """Derive the consensus of the annotators."""
        kind, decided = attribute_named(attribute), image_set.truth(attribute)
        return cls(kind, _positions(decided["label"], kind.labels), decided["reason"])

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
    """The class that is stored beside a verdict that is not clear; `NONE` where there is none."""
    score: NDArray[np.float64]
    value: NDArray[np.float64]
    reason: pa.ChunkedArray
    raw: pa.ChunkedArray
    image_sha256: pa.ChunkedArray

    @classmethod
    def of(
        cls, images: pd.Index[Any], table: pa.Table, *, detector: str, attribute: Attribute
    ) -> DetectorVerdicts | None:
        """Lay a detector's predictions out by image; None if it does not judge the attribute.

        Args:
            images: the image ids in the order of the image set.
            table: rows as `read_predictions` gives them, with `PREDICTION_COLUMNS`.
            detector: its name.
            attribute: which one.
        """
        rows = table.filter(pc.equal(table["attribute"].cast(pa.string()), attribute.name))
        if rows.num_rows == 0:
            return None
        row_of_image = pd.Index(rows["image_id"].to_pandas()).get_indexer(images)
        rows = rows.take(pa.array(np.where(row_of_image < 0, 0, row_of_image)))
        absent = row_of_image < 0
        status = _positions(rows["status"].cast(pa.string()).to_pandas(), tuple(Status))
        label = _positions(rows["label"].cast(pa.string()).to_pandas(), attribute.classes)
        beyond = len(attribute.classes)
        unclear = np.where(status == _FILTERED, beyond, beyond + 1)
        verdict = np.where(status == _CLEAR, label, unclear)
        return cls(
            detector,
            verdict=np.where(absent, beyond + 2, verdict),
            named=np.where(absent | (status == _CLEAR), NONE, label),
            score=_where_present(rows["score"], absent),
            value=_where_present(rows["value"], absent),
            **{name: _blanked(rows[name], absent) for name in ("reason", "raw", "image_sha256")},
        )

    def as_columns(self, *, classes: int) -> dict[str, Any]:
        """The data of the page, without the raw answers; columns in which nothing stands are None."""
        return {
            "detector": self.detector,
            "verdict": codes(self.verdict, words=classes + 3),
            "named": None if (self.named == NONE).all() else codes(self.named, words=classes),
            "score": None if np.isnan(self.score).all() else numbers(self.score, "f4"),
            "value": None if np.isnan(self.value).all() else numbers(self.value, "f4"),
            "reason": coded(self.reason),
        }


_CLEAR, _FILTERED = list(Status).index(Status.CLEAR), list(Status).index(Status.FILTERED)


def image_columns(image_set: ImageSet) -> dict[str, Any]:
    """Ids, T2I models, prompts, seeds of edited images, and every annotator's labels."""
    images, prompts = image_set.images, image_set.prompts
    prompt_ids = tuple(prompts["prompt_id"])
    return {
        "images": len(images),
        "image_id": list(images["image_id"]),
        "path": list(images["path"]),
        "t2i_model": coded(images["t2i_model"]),
        "prompt": codes(_positions(images["prompt_id"], prompt_ids), words=len(prompt_ids)),
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


def _positions(words: Any, known: Sequence[str]) -> Codes:
    """Position of each word in `known`; `NONE` for an empty cell."""
    found = pd.Index([str(word) for word in known]).get_indexer(pd.Index(words))
    return found.astype(np.int64)


def _where_present(column: pa.ChunkedArray, absent: NDArray[np.bool_]) -> NDArray[np.float64]:
    values = column.cast(pa.float64()).to_numpy(zero_copy_only=False).astype(np.float64)
    return np.where(absent, np.nan, values)


def _blanked(column: pa.ChunkedArray, absent: NDArray[np.bool_]) -> pa.ChunkedArray:
    return pc.if_else(pa.array(absent), pa.scalar(None, pa.string()), column.cast(pa.string()))
