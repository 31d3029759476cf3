"""Counted studies for tests of numbers: the golden ones, and small ones written as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from detector_bench_next.attributes import built_in
from detector_bench_next.cells import Cells, Counted, count
from detector_bench_next.dataset import ImageSet
from detector_bench_next.evaluate import Settings, evaluate
from detector_bench_next.predictions import SCHEMA, Predictions
from detector_bench_next.results import Results

HOSTILE = ("keeps_all", "strict", "silent_on_sd3", "no_age")
POINTS = Settings(resamples=0)


def write_predictions(folder: Path, rows: Sequence[Mapping[str, Any]], shards: int = 1) -> Predictions:
    """Write rows as predictions of their detectors; row i goes into shard i modulo `shards`."""
    for name in dict.fromkeys(row["detector"] for row in rows):
        own = [{"attribute": "gender", "status": "clear", **row} for row in rows if row["detector"] == name]
        for i in range(shards):
            (folder / name).mkdir(parents=True, exist_ok=True)
            part = pa.Table.from_pylist(
                [{c: r.get(c) for c in SCHEMA.names} for r in own[i::shards]], schema=SCHEMA
            )
            pq.write_table(part, folder / name / f"{i + 1:05d}-of-{shards:05d}.parquet")
    return Predictions(folder)


def small_set(
    folder: Path, images: Sequence[str], labels: Sequence[str] = (), prompts: Sequence[str] = ()
) -> ImageSet:
    """Image set of lines: image,model,prompt[,seed]; image,annotator,label[,reason]; prompt,category."""
    columns = ["image_id", "t2i_model", "prompt_id", "seed_image_id"]
    frame = pd.DataFrame([(*line.split(","), "")[:4] for line in images], columns=columns)
    named = list(dict.fromkeys(p for p in frame["prompt_id"] if p))
    rows = [line.split(",") for line in prompts or [f"{name},all of it" for name in named]]
    told = pd.DataFrame(
        [[p, c, f"word {p}", ""] for p, c in rows], columns=["prompt_id", "category", "word", "prompt"]
    )
    said = [(*line.split(","), "")[:4] for line in labels]
    given = pd.DataFrame(said, columns=["image_id", "annotator", "label", "reason"]).assign(attribute="gender")
    return ImageSet.from_frames(folder, frame.assign(path=""), told, given if labels else None)


def count_small(
    folder: Path,
    images: Sequence[str],
    labels: Sequence[str],
    rows: Sequence[Mapping[str, Any]],
    detectors: Sequence[str] = ("d",),
    prompts: Sequence[str] = (),
    shards: int = 1,
    sample: pd.DataFrame | None = None,
) -> Counted:
    """Counts of gender of an image set of lines and of rows of predictions."""
    predictions = write_predictions(folder / "predictions", rows, shards)
    return count(small_set(folder, images, labels, prompts), predictions, built_in()["gender"], detectors, sample)


def cells_of(table: Any, classes: Sequence[str] = ("male", "female"), detector: str = "d") -> Cells:
    """Cells of one detector from counts `[pair][truth][answer]`, K+3 codes each."""
    counts = np.asarray(table)
    pair, truth, answer = (np.repeat(x.ravel(), counts.ravel()) for x in np.indices(counts.shape))
    pairs = pd.DataFrame({"t2i_model": "m", "prompt_id": [f"p{i}" for i in range(len(counts))], "category": "c"})
    return Cells.of(classes, pairs, [detector], 1, pair, truth, [answer])


def counted_of(cells: Cells, attribute: str = "gender") -> Counted:
    """Counts without reasons, scores and values."""
    columns = ["rater", "pair", "truth", "human_reason", "status", "reason", "label", "reached", "n"]
    empty = pd.DataFrame(columns=columns).astype({"pair": int, "truth": int, "reached": int, "n": int})
    zero = dict.fromkeys(cells.raters[: cells.detectors], 0)
    return Counted(cells, empty, empty, empty, zero, zero, built_in()[attribute])


@cache
def hostile(shared: Path) -> dict[str, Counted]:
    """The made-up study with everything that goes wrong, by attribute."""
    place = shared / "design/golden/numbers/study"
    image_set, predictions = ImageSet.load(place / "image_set"), Predictions(place / "predictions")
    return {a: count(image_set, predictions, image_set.attributes[a], HOSTILE) for a in ("gender", "age")}


@cache
def portraits(shared: Path, folder: Path, *detectors: str) -> dict[str, Counted]:
    """The 384 portraits with stored predictions, by attribute."""
    rows = pq.read_table(shared / "design/golden/numbers/t2i_portraits_predictions.parquet")
    names = list(dict.fromkeys(rows["detector"].to_pylist()))
    for name in names:
        (folder / name).mkdir(parents=True, exist_ok=True)
        pq.write_table(rows.filter(pc.equal(rows["detector"], name)), folder / name / "00001-of-00001.parquet")
    image_set = ImageSet.load(shared / "data/t2i_portraits")
    chosen, known = list(detectors or names), image_set.attributes
    return {a: count(image_set, Predictions(folder), known[a], chosen) for a in ("gender", "age", "race")}


def results_of(counted: Mapping[str, Counted], settings: Settings = POINTS, **study: Any) -> Results:
    """Results in memory."""
    frames = [evaluate(own, settings) for own in counted.values()]
    tables = {name: pd.concat([own[name] for own in frames], ignore_index=True) for name in frames[0]}
    return Results.of(counted, tables, settings._asdict(), {"schema": 1, "study": study})
