"""Recipes whose images come from a service: paid for once, over several runs, whatever goes wrong."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml
from image_asking import KEY, USAGE, playing
from image_faults import complains, stalls
from image_service import ImageService

from detector_bench.errors import DetectorBenchError
from detector_bench.generation.generation_order import GenerationOrder
from detector_bench.generation.making import ImageSetMaking
from detector_bench.generation.recipe import read_recipe
from detector_bench.trust import Origin, add_key


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ImageService]:
    with playing(monkeypatch, tmp_path) as running:
        yield running


def run(service: ImageService, folder: Path, *words: str, images: int = 2, **options: Any) -> pd.DataFrame:
    """Make the images of a recipe with one prompt for each word; gives the rows of its requests."""
    order = {name: options.pop(name) for name in ("ask_again", "budget") if name in options}
    quick = {
        "first_wait": 0.01,
        "longest_wait": 1,
        "timeout": 5,
        "retries": 2,
        "price": 0.04,
        "requests_at_once": 3,
    }
    model = {
        "name": "m",
        "kind": "openai",
        "model": "m-1",
        "base_url": f"{service.address}/v1",
        **quick,
        **options,
    }
    (folder / "words.csv").write_text("category,word\n" + "".join(f"c,{word}\n" for word in words))
    (folder / "templates.csv").write_text("category,template\nc,a photo of [word]\n")
    recipe = {"name": "small", "prompts": "words.csv", "images_per_prompt": images, "models": [model]}
    (folder / "recipe.yaml").write_text(yaml.safe_dump(recipe))
    making = ImageSetMaking(read_recipe(folder / "recipe.yaml"), folder / "set", GenerationOrder(**order))
    making.run(lambda _progress: None)
    return rows(folder)


def rows(folder: Path) -> pd.DataFrame:
    return pd.read_parquet(folder / "set" / "generations.parquet").set_index("image_id", drop=False)


def test_every_request_has_its_row_and_is_paid_for_once(service: ImageService, tmp_path: Path) -> None:
    service.c2pa, service.revises, service.told = True, True, {"quality": "low", "usage": USAGE}
    words = ("nurse", "fault:moderation", "fault:no_image", "fault:cut", "fault:html", "fault:busy_without_date")
    found = run(service, tmp_path, *words)
    told = found.groupby("prompt")["status"].agg(list).to_dict()
    assert told == {
        "a photo of nurse": ["made", "made"],
        "a photo of fault:moderation": ["blocked", "blocked"],
        "a photo of fault:no_image": ["blocked", "blocked"],
        "a photo of fault:cut": ["error", "error"],
        "a photo of fault:html": ["error", "error"],
        "a photo of fault:busy_without_date": ["made", "made"],
    }
    made = found[found["status"] == "made"]
    assert set(made["provenance"]) == {"c2pa"}
    assert set(made["cost"]) == {0.04}
    assert all(made["revised_prompt"] == made["prompt"] + ", in detail")
    for image_id, row in made.iterrows():
        content = (tmp_path / "set" / "images" / "m" / row["prompt_id"] / f"{row['number']:04d}.png").read_bytes()
        assert hashlib.sha256(content).hexdigest() == row["image_sha256"], image_id
    assert list(found["may_have_been_paid"]) == list(found["status"] == "error")
    asked = service.asked.total()
    assert service.counts()["most_paid_of_one"] == 1

    again = run(service, tmp_path, *words)
    pd.testing.assert_frame_equal(again, found)
    assert service.asked.total() == asked, "what is settled, refused or may be paid for is not asked for again"
    run(service, tmp_path, *words, ask_again=True)
    assert service.asked.total() == asked + 4


def test_a_wrong_key_costs_no_request(
    service: ImageService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    add_key("OPENAI_API_KEY", Origin.of(service.address))
    service.key = "another"
    with pytest.raises(DetectorBenchError, match="refuses the key in OPENAI_API_KEY"):
        run(service, tmp_path, "nurse", "pilot")
    before = rows(tmp_path)
    assert not before["may_have_been_paid"].any()
    assert KEY not in before.to_string()
    service.key = KEY
    assert set(run(service, tmp_path, "nurse", "pilot")["status"]) == {"made"}
    assert service.paid.total() == 4


def test_a_budget_holds_with_what_is_in_doubt(service: ImageService, tmp_path: Path) -> None:
    service.script = [stalls]
    with pytest.raises(DetectorBenchError, match=r"the budget of .* is reached"):
        run(service, tmp_path, "nurse", images=9, budget=0.2, timeout=0.3)
    assert service.paid.total() == 5
    found = rows(tmp_path)
    assert found["status"].value_counts().to_dict() == {"made": 4, "waiting": 4, "error": 1}


def test_a_quota_that_runs_out_keeps_what_was_made(service: ImageService, tmp_path: Path) -> None:
    quota = complains(429, "You exceeded your current quota", code="insufficient_quota", kind="insufficient_quota")
    run(service, tmp_path, "nurse")
    service.script = [quota] * 3
    with pytest.raises(DetectorBenchError, match="exceeded your current quota"):
        run(service, tmp_path, "nurse", images=6)
    found = run(service, tmp_path, "nurse", images=6)
    assert (set(found["status"]), len(found), service.paid.total()) == ({"made"}, 6, 6)
