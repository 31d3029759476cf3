"""The labels of crowd workers that the developers have, as an image set without image files."""

from __future__ import annotations

from pathlib import Path

import pandas as pd


def write_crowd_labels(shared: Path, folder: Path) -> pd.DataFrame:
    """Write EntiGen's images as an image set: three of 287 workers labelled each of 1,152 images.

    What is neither male nor female counts as low-quality.

    Returns:
        One row per label, with the columns of all three tables.
    """
    rated = pd.read_csv(shared / "data" / "entigen" / "annotations.csv")
    rated["label"] = rated["gender"].where(rated["gender"].isin(["male", "female"]), "low_quality")
    rated["image_id"] = [f"e{code:04d}" for code in pd.factorize(rated["image"])[0]]
    rated["prompt_id"] = [f"p{code:02d}" for code in pd.factorize(rated["prompt"])[0]]
    rated["category"] = rated["image"].str.extract(r"amazonaws\.com/([^/]+)/")[0]
    rated = rated.assign(path=rated["image_id"] + ".jpg", word="person", attribute="gender", reason="")
    images = rated.drop_duplicates("image_id")
    images[["image_id", "path", "t2i_model", "prompt_id"]].to_csv(folder / "images.csv", index=False)
    prompts = rated.drop_duplicates("prompt_id")
    prompts[["prompt_id", "category", "word", "prompt"]].to_csv(folder / "prompts.csv", index=False)
    label_columns = ["image_id", "annotator", "attribute", "label", "reason"]
    rated[label_columns].to_csv(folder / "labels.csv", index=False)
    return rated
