"""An audit from end to end in a real browser: unlabelled portraits, a sample, 60 labels by keyboard, the report.

The numbers on the report's page are those that this file computes anew, in plain numpy, from the image set's
tables and the stored predictions alone.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd
import pytest
from browser import chromium, opened
from label_server import label_one, label_server, wait_until_saved
from numpy.typing import NDArray

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.slow
pytest.importorskip("fastapi", reason="needs the extra label")

LABELS = 60
PER_PROMPT = 12
T2I_MODEL = "sd3.5-large-turbo"
NAMES = ("male", "female", "low_quality", "others")
VERDICTS = ("male", "female", "filtered")
FOLDS, PENALTIES, LEAST_EXPLAINED = 10, (0.3, 1, 3, 10, 30, 100), 0.05
CONFIGS = Path(__file__).resolve().parents[1] / "configs" / "detectors"
STUDY = f"""\
image_set: portraits
detectors:
  - {{name: faceres, extends: {CONFIGS}/faceres.yaml, crop: {{boxes: yunet_faces}}}}
  - {{name: ssrnet, extends: {CONFIGS}/ssrnet.yaml, crop: {{boxes: yunet_faces}}}}
"""


class Audited(NamedTuple):
    """A finished audit.

    Attributes:
        folder: with the image set `portraits`, and the results.
        pressed: what was pressed in the desk, by image.
        said: what `estimate --json` says.
        page: the text of the report's pages.
    """

    folder: Path
    pressed: dict[str, str]
    said: pd.DataFrame
    page: str


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as running:
        yield running


def unlabelled_portraits(shared: Path, folder: Path) -> pd.Series:
    """Write the first portraits of each prompt without their labels; give what one annotator said of them."""
    source = shared / "data" / "t2i_portraits"
    images = pd.read_csv(source / "images.csv", dtype=str).groupby("prompt_id").head(PER_PROMPT)
    (folder / "images").mkdir(parents=True)
    for path in images["path"]:
        shutil.copy2(source / path, folder / path)
    images.to_csv(folder / "images.csv", index=False)
    shutil.copy2(source / "prompts.csv", folder)
    labels = pd.read_csv(source / "labels.csv", dtype=str).query("attribute == 'gender' and annotator == 'a'")
    return labels.set_index("image_id")["label"].loc[images["image_id"]]


def command(folder: Path, *arguments: object) -> str:
    """Run a command to its end: what it prints."""
    line = [sys.executable, "-m", "detector_bench", *map(str, arguments)]
    ran = subprocess.run(line, cwd=folder, capture_output=True, text=True, timeout=600, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


@pytest.fixture(scope="module")
def audited(shared: Path, browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Audited:
    folder = tmp_path_factory.mktemp("audit")
    labels = unlabelled_portraits(shared, folder / "portraits").to_dict()
    (folder / "study.yaml").write_text(STUDY)
    weights = ("--weights-dir", shared / "weights")
    command(folder, "run", "study.yaml", "--out", "results", *weights)
    command(folder, "sample", "portraits", "--labels", LABELS)
    with label_server(folder / "portraits", "ann") as server, opened(browser) as page:
        page.goto(server.links["ann"])
        page.locator("#pictures img").wait_for()
        pressed = {image: labels[image] for image in (label_one(page, labels) for _ in range(LABELS))}
        page.get_by_role("heading", name="All done").wait_for()
        wait_until_saved(page)
    command(folder, "labels", "export", "portraits", "--out", "portraits")
    said = json.loads(command(folder, "estimate", "results", "--json"))
    command(folder, "audit", "study.yaml", "--out", "results", *weights)
    with opened(browser) as page:
        page.goto((folder / "results" / "report" / "index.html").as_uri())
        text = page.locator("main").inner_text()
    return Audited(folder, pressed, pd.DataFrame(said["rows"]), text)


class Files(NamedTuple):
    """What lies in the folder, read by pandas alone; arrays have an entry for each image."""

    prompt: NDArray[np.int64]
    label: NDArray[np.int64]
    """Of `NAMES`; -1: none."""
    verdicts: NDArray[np.float64]
    """`[image, detector x verdict]`, 1 or 0."""


def files_of(folder: Path) -> Files:
    images = pd.read_csv(folder / "portraits" / "images.csv", dtype=str).set_index("image_id")
    prompts = list(pd.read_csv(folder / "portraits" / "prompts.csv", dtype=str)["prompt_id"])
    labels = pd.read_csv(folder / "portraits" / "labels.csv", dtype=str).set_index("image_id")["label"]
    columns = []
    for detector in ("faceres", "ssrnet"):
        rows = pd.concat(map(pd.read_parquet, (folder / "results" / "predictions" / detector).glob("*.parquet")))
        rows = rows[rows["attribute"] == "gender"].set_index("image_id").loc[images.index]
        said = np.where(rows["status"] == "clear", rows["label"], rows["status"])
        columns += [(said == verdict).astype(float) for verdict in VERDICTS]
    label = [NAMES.index(labels[image]) if image in labels.index else -1 for image in images.index]
    prompt = [prompts.index(name) for name in images["prompt_id"]]
    return Files(np.array(prompt), np.array(label), np.stack(columns, axis=1))


def shares_of_labels(files: Files) -> NDArray[np.float64]:
    """`[prompt, label]` among the labelled images."""
    return np.stack(
        [
            np.bincount(files.label[(files.prompt == prompt) & (files.label >= 0)], minlength=len(NAMES))
            / ((files.prompt == prompt) & (files.label >= 0)).sum()
            for prompt in np.unique(files.prompt)
        ]
    )


def shares_with_verdicts(files: Files) -> NDArray[np.float64]:
    """`[prompt, label]`: mean prediction of all images, plus the mean error of prediction of the labelled ones.

    The prediction of a prompt's images is a ridge regression of labels on verdicts, and on verdicts times how
    evenly the prompt's classes are spread, within the prompts of the other folds. Penalty and features are those
    that leave the smallest variance in prompts that the regression did not see.
    """
    prompts, labelled = np.unique(files.prompt), files.label >= 0
    plain = files.verdicts
    doubled = np.zeros((len(plain), 2 * plain.shape[1]))
    for prompt in prompts:
        own = plain[files.prompt == prompt]
        classes = own.sum(axis=0).reshape(-1, len(VERDICTS))[:, :2].sum(axis=0)
        evenness = 2 * (1 - ((classes / classes.sum()) ** 2).sum()) - 1
        doubled[files.prompt == prompt] = np.concatenate([own, own * evenness], axis=1)
    outcome = np.eye(len(NAMES))[np.maximum(files.label, 0)]
    deviations = []
    for prompt in prompts:
        own = labelled & (files.prompt == prompt)
        scale = np.sqrt(labelled.sum() / len(prompts) / (own.sum() - 1))
        deviations.append([(part[own] - part[own].mean(axis=0)) * scale for part in (doubled, outcome)])
    fold = np.arange(len(prompts)) % FOLDS
    best = [np.zeros((doubled.shape[1], len(NAMES)))] * FOLDS
    least = (1 - LEAST_EXPLAINED) * sum((label**2).sum() for _, label in deviations)
    for used in (plain.shape[1], doubled.shape[1]):
        for penalty in PENALTIES:
            found = []
            for left_out in range(FOLDS):
                verdicts, labels = zip(
                    *(deviations[place] for place in np.flatnonzero(fold != left_out)), strict=True
                )
                seen, target = np.concatenate(verdicts)[:, :used], np.concatenate(labels)
                slope = np.linalg.solve(seen.T @ seen + penalty * np.eye(used), seen.T @ target)
                found.append(np.concatenate([slope, np.zeros((doubled.shape[1] - used, len(NAMES)))]))
            left = sum(
                ((label - verdict @ found[own]) ** 2).sum()
                for own, (verdict, label) in zip(fold, deviations, strict=True)
            )
            if left < least:
                best, least = found, left
    shares = []
    for place, prompt in enumerate(prompts):
        own = files.prompt == prompt
        predicted = doubled @ best[fold[place]]
        shares.append(predicted[own].mean(axis=0) + (outcome - predicted)[own & labelled].mean(axis=0))
    return np.stack(shares)


def over_all_images(shares: NDArray[np.float64], files: Files) -> NDArray[np.float64]:
    """`[label]`: each prompt counts as its images."""
    images = np.unique(files.prompt, return_counts=True)[1]
    found: NDArray[np.float64] = images @ shares / images.sum()
    return found


def said_of_all(audited: Audited, variant: str) -> dict[str, float]:
    rows = audited.said[(audited.said["variant"] == variant) & (audited.said["detector"] == "ground_truth")]
    rows = rows[(rows["t2i_model"] == T2I_MODEL) & (rows["category"] == "all") & (rows["prompt_id"] == "all")]
    return dict(zip(rows["metric"], rows["value"], strict=True))


def test_the_labels_are_those_that_were_pressed_and_of_the_sample(audited: Audited) -> None:
    sample = pd.read_csv(audited.folder / "portraits" / "sample.csv")
    labels = pd.read_csv(audited.folder / "portraits" / "labels.csv", dtype=str)
    assert dict(zip(labels["image_id"], labels["label"], strict=True)) == audited.pressed
    assert set(sample["image_id"]) == set(audited.pressed)
    files = files_of(audited.folder)
    of_prompt = np.bincount(files.prompt)
    assert sample["probability"].to_numpy() == pytest.approx(5 / of_prompt[prompt_of(audited, sample["image_id"])])


def prompt_of(audited: Audited, images: pd.Series) -> NDArray[np.int64]:
    ids = pd.read_csv(audited.folder / "portraits" / "images.csv", dtype=str)["image_id"]
    return files_of(audited.folder).prompt[pd.Index(ids).get_indexer(images)]


@pytest.mark.parametrize(
    ("variant", "compute"), [("labels_only", shares_of_labels), ("prediction_powered", shares_with_verdicts)]
)
def test_the_shares_are_what_the_files_give(audited: Audited, variant: str, compute: object) -> None:
    files = files_of(audited.folder)
    shares = compute(files)  # type: ignore[operator]
    said, expected = said_of_all(audited, variant), over_all_images(shares, files)
    assert [said[f"label_share_{name}"] for name in NAMES] == pytest.approx(expected, abs=1e-9)
    rows = audited.said[(audited.said["variant"] == variant) & (audited.said["prompt_id"] != "all")]
    table = rows.pivot_table(index="prompt_id", columns="metric", values="value", sort=False)
    of_prompts = table[[f"label_share_{name}" for name in NAMES]].to_numpy()
    assert of_prompts == pytest.approx(np.clip(shares, 0, 1), abs=1e-9)


def test_verdicts_took_part_in_the_estimate(audited: Audited) -> None:
    files = files_of(audited.folder)
    difference = np.abs(shares_with_verdicts(files) - shares_of_labels(files)).mean(axis=0)
    assert (difference[:2] > 0.01).all()


def test_the_page_of_the_report_shows_these_numbers(audited: Audited) -> None:
    files = files_of(audited.folder)
    page = " ".join(audited.page.split())
    for variant, shares in (
        ("prediction_powered", shares_with_verdicts(files)),
        ("labels_only", shares_of_labels(files)),
    ):
        rows = audited.said[(audited.said["variant"] == variant) & (audited.said["t2i_model"] == T2I_MODEL)]
        rows = rows[(rows["category"] == "all") & (rows["prompt_id"] == "all")].set_index("metric")
        for name, share in zip(NAMES, over_all_images(shares, files), strict=True):
            low, high = (100 * rows.loc[f"label_share_{name}", limit] for limit in ("ci_low", "ci_high"))
            assert re.search(rf"{100 * share + 0.0:.1f} ?\[{low:.1f}, {high:.1f}\]", page), (
                name,
                share,
                low,
                high,
            )
    score = said_of_all(audited, "prediction_powered")["model_bias_score"]
    assert f"{score:.3f}" in page
