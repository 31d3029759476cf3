"""Image sets of the labels that Lyu 2025's authors published: all 6,000, or 2,000 of one T2I model; no images."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

PROMPTS = Path(__file__).parents[1] / "labels/lyu2025/prompts.csv"


def write_image_set(shared: Path, folder: Path, t2i_model: str = "") -> Path:
    """Write images.csv, prompts.csv and labels.csv; `path` is empty, `not_sure` counts as low quality."""
    rows = pd.read_csv(shared / "data/lyu2025_authors/labels.csv.gz", dtype=str, keep_default_na=False)
    rows = rows[rows["t2i_model"] == t2i_model] if t2i_model else rows
    folder.mkdir(parents=True)
    rows.assign(path="")[["image_id", "path", "t2i_model", "prompt_id"]].to_csv(folder / "images.csv", index=False)
    labels = rows.assign(
        annotator="authors", attribute="gender", label=rows["label"].replace("not_sure", "low_quality")
    )
    labels[["image_id", "annotator", "attribute", "label"]].to_csv(folder / "labels.csv", index=False)
    prompts = pd.read_csv(PROMPTS, dtype=str, keep_default_na=False)
    prompts[prompts["prompt_id"].isin(rows["prompt_id"])].to_csv(folder / "prompts.csv", index=False)
    return folder
