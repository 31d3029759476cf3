"""Every image with all that is known about it: its prompt, all labels, the consensus, every detector's verdict."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from detector_bench.dataset import SEED_COLUMN, ImageSet
from detector_bench.results.finished_study import ResultFolder
from detector_bench.vocabulary.columns import PREDICTIONS

_IMAGES_AT_ONCE = 10_000
_LABEL_FIELDS = ("annotator", "attribute", "label", "reason", "value")
_VERDICT_FIELDS = ("detector", *(name for name in PREDICTIONS.names if name not in ("image_id", "detector")))


@dataclass(frozen=True)
class ImageRecord:
    """One image; empty facts are not in the mappings.

    Attributes:
        position: of the image in the image set.
        path: the cell of `images.path`, which may be an address with secrets.
        facts: its id, T2I model, prompt and the like.
        labels: every label as it was given.
        consensus: by attribute, the label, and the reason if there is one.
        verdicts: every detector's on every attribute, as stored.
    """

    position: int
    path: str
    facts: dict[str, str]
    labels: list[dict[str, Any]] = field(default_factory=list)
    consensus: dict[str, dict[str, str]] = field(default_factory=dict)
    verdicts: list[dict[str, Any]] = field(default_factory=list)


def verdict_tables(results: ResultFolder) -> Mapping[str, pa.Table]:
    """The stored predictions of the study's detectors with all their columns.

    Raises:
        DetectorBenchError: they are not there.
    """
    known = ("image_id", "attribute", "status", "label", "detector")
    return results.predictions(tuple(name for name in PREDICTIONS.names if name not in known))


def judged_content(image_set: ImageSet, verdicts: Mapping[str, pa.Table]) -> list[str | None]:
    """The sha256 of each image as it was judged, as far as any detector says."""
    found: NDArray[np.object_] = np.full(len(image_set.image_ids), None, dtype=object)
    for table in verdicts.values():
        if "image_sha256" in table.column_names:
            at = image_set.image_ids.positions(table["image_id"].cast(pa.large_string()))
            said = table["image_sha256"].to_pandas().to_numpy(dtype=object)
            use = (at >= 0) & pd.notna(said)
            found[at[use]] = said[use]
    return [each if isinstance(each, str) else None for each in found]


def image_records(image_set: ImageSet, verdicts: Mapping[str, pa.Table] | None = None) -> Iterator[ImageRecord]:
    """All images in the order of the set; a part of them at a time is in memory as Python's own objects.

    Args:
        image_set: images, prompts and labels.
        verdicts: by detector, as `verdict_tables` gives them.
    """
    parts = _Parts(image_set, verdicts or {})
    for begin in range(0, len(image_set.image_ids), _IMAGES_AT_ONCE):
        yield from parts.records(begin, min(begin + _IMAGES_AT_ONCE, len(image_set.image_ids)))


class _Parts:
    """Tables sorted by image, so that those of some images are one slice."""

    def __init__(self, image_set: ImageSet, verdicts: Mapping[str, pa.Table]) -> None:
        self._images = image_set.images
        self._prompts = image_set.prompts.drop_duplicates("prompt_id").set_index("prompt_id").to_dict("index")
        at = image_set.image_of_label
        order = np.argsort(at, kind="stable")
        self._labels, self._image_of_label = image_set.labels.iloc[order], at[order]
        self._truth = {name: image_set.truth(name) for name in image_set.attributes}
        self._verdicts = {name: _by_image(image_set, table) for name, table in verdicts.items()}

    def records(self, begin: int, end: int) -> Iterator[ImageRecord]:
        made = [
            ImageRecord(begin + number, row["path"], self._facts(row))
            for number, row in enumerate(self._images.iloc[begin:end].to_dict("records"))
        ]
        part = slice(*np.searchsorted(self._image_of_label, [begin, end]))
        for at, row in zip(self._image_of_label[part], self._labels.iloc[part].to_dict("records"), strict=True):
            made[at - begin].labels.append(_filled(row, _LABEL_FIELDS))
        for attribute, truth in self._truth.items():
            rows = truth.iloc[begin:end]
            for record, label, reason in zip(made, rows["label"], rows["reason"], strict=True):
                if isinstance(label, str):
                    record.consensus[attribute] = {"label": label} | ({"reason": reason} if reason else {})
        for detector, (table, position) in self._verdicts.items():
            first, last = np.searchsorted(position, [begin, end])
            rows = table.slice(first, last - first).to_pylist()
            for at, row in zip(position[first:last], rows, strict=True):
                made[at - begin].verdicts.append(_filled({**row, "detector": detector}, _VERDICT_FIELDS))
        yield from made

    def _facts(self, row: Mapping[Any, Any]) -> dict[str, str]:
        prompt = self._prompts.get(row["prompt_id"], {})
        found = {name: row.get(name, "") for name in ("image_id", "t2i_model", "prompt_id", SEED_COLUMN)}
        found |= {str(name): str(text) for name, text in prompt.items() if isinstance(text, str)}
        return {name: text for name, text in found.items() if text}


def _by_image(image_set: ImageSet, table: pa.Table) -> tuple[pa.Table, NDArray[np.int64]]:
    position = image_set.image_ids.positions(table["image_id"].cast(pa.large_string()))
    order = np.argsort(position, kind="stable")
    order = order[position[order] >= 0]
    return table.take(pa.array(order)), position[order]


def _filled(row: Mapping[Any, Any], names: Sequence[str]) -> dict[str, Any]:
    """What a row says, without empty cells; a number that is none is empty."""
    return {
        name: row[name]
        for name in names
        if row.get(name) not in (None, "") and not (isinstance(row[name], float) and math.isnan(row[name]))
    }
