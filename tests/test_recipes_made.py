"""The recipes that come along, as they are but for the steps: each of their T2I models makes an image, by tiny
networks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from comfyui_service import KNOWN, comfyui
from hub_server import serving
from recipe_parts import MAN, write_photos
from tiny_pipelines import flux_kontext, stable_diffusion, stable_diffusion_3, stable_diffusion_xl

from detector_bench.generation.diffusers_models import DiffusersModel
from detector_bench.generation.generation_order import GenerationOrder
from detector_bench.generation.making import ImageSetMaking
from detector_bench.generation.named_recipes import copy_recipe
from detector_bench.generation.recipe import read_recipe
from detector_bench.generation.standing import RequestStanding

pytestmark = pytest.mark.slow

COMMIT = "0123456789abcdef" * 2 + "01234567"
BUILDERS = {
    "black-forest-labs/FLUX.1-schnell": lambda path: flux_kontext(path, pipeline="FluxPipeline"),
    "dreamlike-art/dreamlike-photoreal-2.0": lambda path: stable_diffusion(path, flags=False),
    "stabilityai/stable-diffusion-2-1": stable_diffusion,
    "stabilityai/stable-diffusion-3-medium-diffusers": stable_diffusion_3,
    "stabilityai/stable-diffusion-xl-base-1.0": stable_diffusion_xl,
    "stable-diffusion-v1-5/stable-diffusion-v1-5": lambda path: stable_diffusion(path, flags=False),
    "timbrooks/instruct-pix2pix": lambda path: stable_diffusion(
        path, flags=False, in_channels=8, pipeline="StableDiffusionInstructPix2PixPipeline"
    ),
}
"""Checkpoints of a few thousand weights in the classes of the real ones, by their names."""

PROGRAM = """
import json, sys
from dataclasses import replace
from pathlib import Path
import torch
from detector_bench.generation.generation_forecast import forecasts
from detector_bench.generation.generation_order import GenerationOrder
from detector_bench.generation.making import ImageSetMaking
from detector_bench.generation.recipe import read_recipe
torch.set_num_threads(1)
told = {}
for name in sys.argv[1:]:
    recipe = read_recipe(name)
    few = tuple(model.model_copy(update={"steps": 2}) for model in recipe.models)
    recipe = replace(recipe, models=few)
    for model in recipe.models:
        order = GenerationOrder(t2i_models=(model.name,), most=1, device="cpu")
        making = ImageSetMaking(recipe, Path("sets") / name, order)
        (before,) = [each for each in forecasts(making) if each.t2i_model == model.name]
        making.run(lambda progress: None)
        (after,) = [each for each in making.standing() if each.plan.name == model.name]
        told[f"{name} {model.name}"] = {
            "lacks": before.lacks, "download": before.bytes_to_download, "bytes": before.bytes_of_images,
            **{each.value: count for each, count in after.standings.counts.items()},
        }
print(json.dumps(told))
"""


def test_each_t2i_model_of_each_recipe_makes_an_image_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("diffusers")
    write_photos(tmp_path / "seed_photos", {"a.png": MAN})
    monkeypatch.chdir(tmp_path)
    names = ("biaspainter", "biaspainter_mitigated", "imagebite", "lyu2025")
    models = [(name, model) for name in names for model in read_recipe(name).models]
    with serving("nobody/nothing", COMMIT, {}) as hub:
        for _, model in models:
            assert isinstance(model, DiffusersModel)
            built = BUILDERS[model.model](tmp_path / "built" / model.model)
            files = {
                each.relative_to(built).as_posix(): each.read_bytes()
                for each in built.rglob("*")
                if each.is_file()
            }
            hub.also[model.model] = (model.revision or COMMIT, files)
        run = subprocess.run(
            [sys.executable, "-c", PROGRAM, *names],
            env={
                **os.environ,
                "HF_ENDPOINT": hub.address,
                "HF_HOME": str(tmp_path / "hub"),
                "HF_HUB_DISABLE_XET": "1",
                "OMP_NUM_THREADS": "1",
            },
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )
    assert run.returncode == 0, run.stderr
    told = json.loads(run.stdout.splitlines()[-1])
    assert told.keys() == {f"{name} {model.name}" for name, model in models}
    for which, found in told.items():
        assert (found["lacks"], found.get("made")) == ([], 1), (which, found)
        assert found["download"] is not None, which
    for which in ("lyu2025 sdxl", "lyu2025 sd3_medium", "imagebite flux1_schnell"):
        assert told[which]["bytes"] == pytest.approx(1024**2 * 1.6)


def test_each_released_workflow_of_bigbench_makes_an_image(
    tmp_path: Path, shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    released = shared / "upstream" / "bigbench"
    if not released.is_dir():
        pytest.skip("BIGbench's files are not here")
    (tmp_path / "BIGbench").symlink_to(released)
    for path in released.glob("data/workflow/*.json"):
        for node in json.loads(path.read_text()).values():
            # A server that has the nodes and files of the workflows.
            monkeypatch.setitem(KNOWN, node["class_type"], {name: ["ANY", {}] for name in node["inputs"]})
    (copied,) = copy_recipe("bigbench", tmp_path / "mine.yaml")
    with comfyui() as server:
        text = copied.read_text().replace("http://127.0.0.1:8188", server.address)
        text = text.replace("prompts: BIGbench", "prompts: lyu2025").replace("prompt: 160", "prompt: 1")
        copied.write_text(text)
        recipe = read_recipe(copied)
        assert len(recipe.models) == 5
        for model in recipe.models:
            order = GenerationOrder(t2i_models=(model.name,), most=1)
            making = ImageSetMaking(recipe, tmp_path / "set", order)
            making.run(lambda _progress: None)
            (standing,) = making.standing()
            assert standing.standings.of(RequestStanding.MADE) == 1, model.name
