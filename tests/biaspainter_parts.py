"""A small image set of edited photos whose scores can be worked out by hand.

Seeds: two men, two women. T2I model A edits each with `nurse` and `pilot`, model B with `nurse` alone.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd
import pyarrow as pa

from detector_bench.dataset import ImageSet
from detector_bench.others.judgements import Judgements
from detector_bench.vocabulary.columns import PREDICTIONS

AUTHORS_SEEDS = (
    *(128.7971648, 137.3898155, 115.8959051, 139.6173628, 126.627428, 118.4370757),
    *(92.48995022, 89.79118055, 120.4127654, 114.8020838, 95.79102756, 95.44190512),
    *(146.8203504, 141.9611145, 155.7500165, 95.39025904, 93.76476313, 153.0039832),
)
"""The file of the seeds' brightness that the authors released, race_original.csv."""

SEEDS = {"s0": "male", "s1": "male", "s2": "female", "s3": "female"}

HUMAN = {
    ("A", "nurse"): ("female", "female", "female", "low_quality"),
    ("A", "pilot"): ("male", "male", "male", "female"),
    ("B", "nurse"): ("male", "male", "male", "male"),
}
"""Gender of the image made from each seed."""

DETECTED = {
    ("A", "nurse"): ("female", "male", "female", "female"),
    ("A", "pilot"): ("male", "male", "error", "female"),
    ("B", "nurse"): ("male", "male", "male", "male"),
}

YEARS = {
    ("A", "nurse"): (55.0, 30.0, 5.0, None),
    ("A", "pilot"): (30.0, 40.0, 30.0, 30.0),
    ("B", "nurse"): (80.0, 80.0, 30.0, 30.0),
}
"""The detector's ages; every seed is 30, and None is filtered."""

WORDS = {"nurse": "p0", "pilot": "p1"}


def image_id(model: str, word: str, seed: str) -> str:
    return f"{model}_{word}_{seed}"


def write_image_set(folder: Path, *, human_age: float | None = None) -> Path:
    """Write the three tables; there are no image files. `human_age` is everybody's age by the humans."""
    images = [[seed, f"photos/{seed}.png", "", "", ""] for seed in SEEDS]
    labels: list[list[object]] = [[seed, "anna", "gender", gender, ""] for seed, gender in SEEDS.items()]
    for (model, word), genders in HUMAN.items():
        for seed, gender in zip(SEEDS, genders, strict=True):
            name = image_id(model, word, seed)
            images.append([name, f"edited/{name}.png", model, WORDS[word], seed])
            labels.append([name, "anna", "gender", gender, ""])
    if human_age is not None:
        labels += [[name, "anna", "age", "middle_aged", human_age] for name, *_ in images]
    prompts = [[prompt, "profession", word, f"a person who is a {word}"] for word, prompt in WORDS.items()]
    write(folder / "images.csv", ["image_id", "path", "t2i_model", "prompt_id", "seed_image_id"], images)
    write(folder / "prompts.csv", ["prompt_id", "category", "word", "prompt"], prompts)
    write(folder / "labels.csv", ["image_id", "annotator", "attribute", "label", "value"], labels)
    return folder


def predictions(detector: str = "d") -> pa.Table:
    """The detector's rows on gender and age."""
    rows = []
    for seed, gender in SEEDS.items():
        rows += [_row(detector, seed, "gender", gender), _row(detector, seed, "age", "middle_aged", 30.0)]
    for (model, word), genders in DETECTED.items():
        for seed, gender, years in zip(SEEDS, genders, YEARS[model, word], strict=True):
            name = image_id(model, word, seed)
            rows.append(_row(detector, name, "gender", gender))
            rows.append(_row(detector, name, "age", "filtered" if years is None else "middle_aged", years))
    return pa.Table.from_pylist(rows, schema=PREDICTIONS)


def judgements(folder: Path, *, detectors: Sequence[str] = ("d",), human_age: float | None = None) -> Judgements:
    image_set = ImageSet.load(write_image_set(folder, human_age=human_age))
    tables = {name: predictions(name) for name in detectors}
    return Judgements.of(image_set, tables, attributes=("gender", "age", "skin_tone"))


def row(rows: pd.DataFrame, metric: str, **place: str) -> pd.Series:
    """The one row of a metric at a place; what is not named is "all"."""
    wanted = {"t2i_model": "all", "category": "all", "prompt_id": "all", "metric": metric, **place}
    found = rows
    for column, value in wanted.items():
        found = found[found[column] == value]
    assert len(found) == 1, (wanted, len(found))
    return found.iloc[0]


def write(path: Path, header: Sequence[str], rows: Sequence[Sequence[object]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(rows)
    return path


def _row(detector: str, name: str, attribute: str, label: str, value: float | None = None) -> Mapping[str, object]:
    status = label if label in ("filtered", "error") else "clear"
    return {
        "image_id": name,
        "detector": detector,
        "attribute": attribute,
        "status": status,
        "reason": None if status == "clear" else "no_face",
        "label": label if status == "clear" else None,
        "value": value,
    }
