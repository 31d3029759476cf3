"""What the harness adds to a bare diffusers loop with the same batches, on networks with random weights.

    python benchmarks/diffusers_overhead.py           # tiny networks: batches of 1 and 4
    python benchmarks/diffusers_overhead.py --large   # networks of Stable Diffusion 1.5's size, 256 pixels
    python benchmarks/diffusers_overhead.py --whole   # the command `generate`, against a loop that saves PNGs

Loop and `make` share one open pipeline and take turns, batch for batch; the order changes from round to round.
Of `generate` and the loop beside it, each a process of its own, the time from the first image file to the last
counts: what a process does once does not.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from measuring import REPOSITORY, machine, spread

sys.path.insert(0, str(REPOSITORY / "tests"))

TO_REACH = 1.03
STEPS = 20


def build_large(folder: Path) -> Path:
    """Networks of the size of Stable Diffusion 1.5's, 1.07 billion weights, all random."""
    import torch
    from diffusers import AutoencoderKL, DDIMScheduler, StableDiffusionPipeline, UNet2DConditionModel
    from tiny_pipelines import letters_tokenizer
    from transformers import CLIPTextConfig, CLIPTextModel

    torch.manual_seed(0)
    blocks = {"down_block_types": ("DownEncoderBlock2D",) * 4, "up_block_types": ("UpDecoderBlock2D",) * 4}
    StableDiffusionPipeline(
        vae=AutoencoderKL(
            block_out_channels=(128, 256, 512, 512), layers_per_block=2, latent_channels=4, **blocks
        ),
        text_encoder=CLIPTextModel(
            CLIPTextConfig(hidden_size=768, intermediate_size=3072, num_hidden_layers=12, num_attention_heads=12)
        ),
        tokenizer=letters_tokenizer(longest=77),
        unet=UNet2DConditionModel(sample_size=32, cross_attention_dim=768, attention_head_dim=8),
        scheduler=DDIMScheduler(beta_schedule="scaled_linear", clip_sample=False, steps_offset=1),
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
    ).save_pretrained(folder)
    return folder


def opened(folder: Path, *, batch: int, steps: int) -> Any:
    from detector_bench.generation.diffusers_models import DiffusersModel
    from detector_bench.generation.t2i_models import GenerationPlace
    from detector_bench.weights import WeightsLocator

    model = DiffusersModel(name="m", model=str(folder), steps=steps, images_at_once=batch, batch_on_cpu=batch > 1)
    return model.load(GenerationPlace(weights=WeightsLocator(), folder=folder.parent, device="cpu"))


def bare_loop(pipeline: Any, prompts: list[str], seeds: list[int], steps: int) -> list[Any]:
    import torch

    generators = [torch.Generator("cpu").manual_seed(seed) for seed in seeds]
    found: list[Any] = pipeline(prompts, generator=generators, num_inference_steps=steps).images
    return found


def ratios(folder: Path, *, batch: int, steps: int, rounds: int) -> tuple[list[float], list[float], float]:
    """Wall and processor time of `make` over those of the loop, a round each, and seconds of an image."""
    from detector_bench.generation.image_requests import ImageRequest

    loaded = opened(folder, batch=batch, steps=steps)
    prompts = [f"a photo of a nurse {number}" for number in range(batch)]
    asked = [ImageRequest(str(n), "p", prompt, n, n) for n, prompt in enumerate(prompts)]
    ways: tuple[Callable[[], Any], ...] = (
        lambda: bare_loop(loaded._pipeline, prompts, list(range(batch)), steps),
        lambda: loaded.make(asked),
    )
    for way in ways:
        way()
    wall, processor, per_image = [], [], []
    for number in range(rounds):
        spent: dict[int, tuple[float, float]] = {}
        for place in (0, 1) if number % 2 else (1, 0):
            began = time.perf_counter(), time.process_time()
            ways[place]()
            spent[place] = time.perf_counter() - began[0], time.process_time() - began[1]
        wall.append(spent[1][0] / spent[0][0])
        processor.append(spent[1][1] / spent[0][1])
        per_image.append(spent[0][0] / batch)
    loaded.close()
    return wall, processor, statistics.median(per_image)


LOOP = """
import sys
import torch
from diffusers import StableDiffusionPipeline
folder, out, count, steps = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
pipeline = StableDiffusionPipeline.from_pretrained(folder, use_safetensors=True)
pipeline.set_progress_bar_config(disable=True)
for number in range(count):
    generator = torch.Generator("cpu").manual_seed(number)
    image = pipeline("a photo of a nurse", generator=generator, num_inference_steps=steps).images[0]
    image.save(f"{out}/{number:05d}.png")
"""


def whole(folder: Path, *, images: int, steps: int, rounds: int) -> list[float]:
    """Wall time per image of `generate` over that of the loop, a round each."""

    def by_loop(out: Path) -> list[str]:
        return [sys.executable, "-c", LOOP, str(folder), str(out), str(images), str(steps)]

    def by_command(out: Path) -> list[str]:
        recipe = out / "recipe.yaml"
        (out / "prompts.csv").write_text(
            "prompt_id,category,word,prompt\nnurse,Profession,nurse,a photo of a nurse\n"
        )
        model = {"name": "m", "kind": "diffusers", "model": str(folder), "steps": steps}
        content = {"name": "speed", "prompts": "prompts.csv", "images_per_prompt": images, "models": [model]}
        recipe.write_text(json.dumps(content))  # which is YAML, too
        command = [sys.executable, "-m", "detector_bench", "generate", str(recipe)]
        return [*command, "--out", str(out / "set"), "--device", "cpu"]

    wall = []
    for number in range(rounds):
        ways = (by_loop, by_command) if number % 2 else (by_command, by_loop)
        found = {way: _seconds_between_images(way) for way in ways}
        wall.append(found[by_command] / found[by_loop])
    return wall


def _seconds_between_images(way: Callable[[Path], list[str]]) -> float:
    with tempfile.TemporaryDirectory() as out:
        command = way(Path(out))
        environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
        subprocess.run(command, check=True, capture_output=True, env=environment)
        written = [image.stat().st_mtime for image in Path(out).rglob("*.png")]
    return (max(written) - min(written)) / (len(written) - 1)


def line(what: str, found: list[float]) -> str:
    return f"  {what}: {spread(found)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--whole", action="store_true")
    parser.add_argument("--rounds", type=int, default=None)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = str(arguments.threads)
    import torch
    from tiny_pipelines import stable_diffusion

    torch.set_num_threads(arguments.threads)
    print(machine())
    print(f"to reach: {TO_REACH}; {arguments.threads} threads; median (least to greatest) of the rounds")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "pipeline"
        (build_large if arguments.large else stable_diffusion)(folder)
        steps = 2 if arguments.large else STEPS
        if arguments.whole:
            images = 5 if arguments.large else 110
            wall = whole(folder, images=images, steps=steps, rounds=arguments.rounds or 5)
            print(f"generate / a loop that saves PNG files, {steps} steps")
            print(line("wall", wall))
            return
        for batch in (1, 2) if arguments.large else (1, 4):
            rounds = arguments.rounds or (5 if arguments.large else 60)
            wall, processor, seconds = ratios(folder, batch=batch, steps=steps, rounds=rounds)
            print(
                f"make / bare loop, batches of {batch}, {steps} steps, {seconds:.3f} s an image, {rounds} rounds"
            )
            print(line("wall", wall) + "\n" + line("processor time", processor))


if __name__ == "__main__":
    main()
