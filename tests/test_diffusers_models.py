"""Pipelines of diffusers as T2I models, tried with random weights in the classes that real checkpoints name."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hub_server import serving
from PIL import Image
from tiny_pipelines import (
    LONGEST_PROMPT,
    SIZE,
    change_settings,
    flux_kontext,
    stable_diffusion,
    stable_diffusion_3,
    stable_diffusion_xl,
)

from detector_bench.errors import ConfigError, WeightsError
from detector_bench.generation.diffusers_models import DiffusersModel
from detector_bench.generation.image_requests import Blocked, Failed, ImageRequest, Made, Outcome, SeedPhoto
from detector_bench.generation.t2i_models import GenerationPlace, build_t2i_model
from detector_bench.weights import WeightsLocator

# The import of diffusers alone takes seconds, and so does asking for it by importing it.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("diffusers") is None, reason="diffusers is not installed"),
]

PROMPT = "a nurse"
LETTERS_READ = LONGEST_PROMPT - 2


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a recipe, with tiny pipelines beside it."""
    made = tmp_path_factory.mktemp("recipe")
    stable_diffusion(made / "plain")
    return made


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Networks this small take no turns; threads that wait for each other take long on a busy machine."""
    torch = pytest.importorskip("torch")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def model(name: str, **fields: Any) -> DiffusersModel:
    entry = {"name": "tiny", "kind": "diffusers", "model": name, "steps": 2, **fields}
    found = build_t2i_model(entry, place="recipe")
    assert isinstance(found, DiffusersModel)
    return found


def place(folder: Path, **fields: Any) -> GenerationPlace:
    weights = WeightsLocator(beside=folder, allow_download=False)
    return GenerationPlace(weights=weights, folder=folder / "set", device="cpu", **fields)


def requests(count: int, *, prompt: str = PROMPT, photo: Path | None = None) -> list[ImageRequest]:
    seed_photo = None if photo is None else SeedPhoto(photo.stem, photo, "0" * 64)
    return [ImageRequest(f"image-{n}", "p", f"{prompt}{n or ''}", n, 1000 + n, seed_photo) for n in range(count)]


def made(folder: Path, name: str, asked: Sequence[ImageRequest], **fields: Any) -> list[Outcome]:
    loaded = model(name, **fields).load(place(folder))
    try:
        return loaded.make(asked)
    finally:
        loaded.close()


def pixels(outcome: Outcome) -> np.ndarray[Any, Any]:
    assert isinstance(outcome, Made), outcome
    assert isinstance(outcome.content, Image.Image)
    return np.asarray(outcome.content).astype(int)


def put_photo(path: Path, *, width: int = 90, height: int = 70) -> Path:
    numbers = np.random.default_rng(width).integers(0, 256, (height, width, 3), dtype=np.uint8)
    Image.fromarray(numbers).save(path)
    return path


def test_an_image_of_a_batch_is_byte_for_byte_the_image_alone(folder: Path) -> None:
    asked = requests(6)
    loaded = model("plain", images_at_once=4).load(place(folder))
    alone = [pixels(loaded.make([each])[0]) for each in asked]
    for size in (1, 2, 3, 5, 6):
        batches = [loaded.make(asked[start : start + size]) for start in range(0, 6, size)]
        for wanted, outcome in zip(alone, [each for batch in batches for each in batch], strict=True):
            assert np.array_equal(pixels(outcome), wanted), size
    assert len({each.tobytes() for each in alone}) == 6, "each seed is another image"


def test_images_computed_together_differ_by_rounding_and_follow_their_own_seeds(folder: Path) -> None:
    asked = requests(4)
    alone = [pixels(each) for each in made(folder, "plain", asked)]
    together = made(folder, "plain", asked[::-1], batch_on_cpu=True, images_at_once=4)[::-1]
    assert all(np.abs(pixels(one) - other).max() <= 1 for one, other in zip(together, alone, strict=True))
    assert np.abs(alone[0] - alone[1]).max() > 5


def test_what_is_left_to_the_pipeline_is_told(folder: Path) -> None:
    loaded = model("plain", steps=None, scheduler="EulerDiscreteScheduler", guidance=3).load(place(folder))
    (outcome,) = loaded.make(requests(1))
    assert isinstance(outcome, Made)
    assert outcome.parameters == {
        "eta": 0.0,
        "guidance": 3.0,
        "guidance_rescale": 0.0,
        "height": SIZE,
        "pipeline": "StableDiffusionPipeline",
        "precision": "float32",
        "safety_checker": "none",
        "scheduler": "EulerDiscreteScheduler",
        "steps": 50,
        "width": SIZE,
    }
    record = loaded.record
    assert (record.model, record.revision) == ("plain", None)
    assert re.fullmatch(r"cpu \([^,]+, threads: 1\)", str(record.device)), "how sums are split decides last bits"
    assert {"diffusers", "torch", "transformers", "safetensors"} <= set(record.versions)
    assert record.sha256 is not None


def test_the_sha256_follows_what_the_pipeline_reads_and_nothing_else(folder: Path) -> None:
    own = stable_diffusion(folder / "counted")
    locator = WeightsLocator(beside=folder, allow_download=False)
    before = locator.content_sha256(model("counted").checkpoint)
    (own / "README.md").write_text("nothing that counts")
    (own / "unet" / "diffusion_pytorch_model.bin").write_bytes(b"a pickle beside the safe weights")
    (own / "old").mkdir()
    (own / "old" / "model.safetensors").write_bytes(b"no part of the pipeline")
    assert locator.content_sha256(model("counted").checkpoint) == before
    change_settings(own, "scheduler/scheduler_config.json", beta_end=0.013)
    assert locator.content_sha256(model("counted").checkpoint) != before


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({"width": 60, "height": 64}, r"cannot make 60 pixels \(accepted: multiples of 8, such as 56 or 64\)"),
        ({"call": {"strength": 0.5}}, "StableDiffusionPipeline takes no 'strength'"),
        ({"call": {"guidance_scale": 3}}, "guidance_scale has a place of its own: the key guidance"),
        ({"call": {"prompt_embeds": "x"}}, "takes no 'prompt_embeds'"),
        ({"negative_prompt": "x", "guidance": 1}, "negative_prompt has no effect"),
        ({"scheduler": "EulerDiscreteSchedule"}, "no scheduler 'EulerDiscreteSchedule': did you mean"),
        ({"scheduler": "FlowMatchEulerDiscreteScheduler"}, "does not go with this checkpoint's DDIMScheduler"),
        ({"scheduler": "DPMSolverSDEScheduler"}, "no image could be made again"),
        ({"scheduler_settings": {"use_karras_sigmas": True}}, "DDIMScheduler takes no 'use_karras_sigmas'"),
        ({"pipeline": "StableDiffusionXLPipelin"}, "did you mean 'StableDiffusionXLPipeline'"),
        ({"pipeline": "FluxPipeline"}, "needs text_encoder_2, tokenizer_2, transformer, which 'plain' does not"),
        ({"task": "inpainting"}, "needs a `mask`"),
        ({"mask": "plain"}, "StableDiffusionPipeline takes no mask"),
        ({"pipeline": "StableDiffusionImg2ImgPipeline", "task": "text-to-image"}, "`task: image-to-image`"),
        ({"task": "image-to-image", "call": {"strength": 0.3}}, "takes 2 steps x strength 0.3"),
        ({"safety_checker": "keep"}, "has none to keep"),
        ({"precision": "float16"}, "'float16' needs a GPU"),
        ({"variant": "fp17"}, None),
    ],
    ids=str,
)  # fmt: skip
def test_a_contradiction_is_said_before_anything_is_made(
    folder: Path, fields: dict[str, Any], line: str | None
) -> None:
    wrong = model("plain", **fields)
    if line is None:  # a part without the variant is read without it
        assert not list(wrong.lacks(place(folder)))
        return
    told = "\n".join(wrong.lacks(place(folder)))
    assert re.search(line, told), told
    with pytest.raises(ConfigError, match=line):
        wrong.load(place(folder))


def test_one_side_alone_is_no_size() -> None:
    with pytest.raises(ConfigError, match="width and height belong together"):
        model("plain", width=64)


def test_a_whole_path_is_looked_at_with_the_declaration(folder: Path) -> None:
    wrong = model(str(folder / "plain"), width=60, height=64)
    assert [line.split(":")[0] for line in wrong.mistakes()] == ["width"]


def take_out_a_tensor(own: Path) -> None:
    from safetensors.numpy import load_file, save_file

    path = own / "unet" / "diffusion_pytorch_model.safetensors"
    tensors = load_file(path)
    tensors.pop("conv_in.weight")
    save_file(tensors, path, {"format": "pt"})


def leave_pickles(own: Path) -> None:
    path = own / "unet" / "diffusion_pytorch_model.safetensors"
    path.rename(path.with_suffix(".bin"))


def name_own_code(own: Path) -> None:
    (own / "mine.py").write_text("raise SystemExit('code of a checkpoint ran')")
    change_settings(own, "model_index.json", _class_name=["mine", "Pipeline"])


def name_own_part(own: Path) -> None:
    (own / "unet" / "mine.py").write_text("raise SystemExit('code of a checkpoint ran')")
    change_settings(own, "model_index.json", unet=["mine", "Network"])


def only_half_precision(own: Path) -> None:
    path = own / "vae" / "diffusion_pytorch_model.safetensors"
    path.rename(path.with_name("diffusion_pytorch_model.fp16.safetensors"))


def lose_a_shard(own: Path) -> None:
    path = own / "vae" / "diffusion_pytorch_model.safetensors"
    path.rename(path.with_name("diffusion_pytorch_model-00001-of-00002.safetensors"))
    parts = {"a": "diffusion_pytorch_model-00002-of-00002.safetensors"}
    path.with_name("diffusion_pytorch_model.safetensors.index.json").write_text(json.dumps({"weight_map": parts}))
    others = {"a": "diffusion_pytorch_model.fp16-00001-of-00002.safetensors"}  # nobody asked for this variant
    path.with_name("diffusion_pytorch_model.safetensors.index.fp16.json").write_text(
        json.dumps({"weight_map": others})
    )


def fetch_attention(own: Path) -> None:
    change_settings(own, "text_encoder/config.json", _attn_implementation="someone/kernel")


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (take_out_a_tensor, "'unet' is no whole UNet2DConditionModel: it lacks 'conv_in.weight'"),
        (leave_pickles, "'unet' has no .safetensors; diffusion_pytorch_model.bin is a pickle"),
        (name_own_code, "code that a checkpoint brings along is not run"),
        (name_own_part, "its part 'unet' is mine.Network, code that the checkpoint brings along"),
        (only_half_precision, r"'vae' has weights only as a variant: set `variant` \(accepted: fp16\)"),
        (lose_a_shard, "'vae' lacks diffusion_pytorch_model-00002-of-00002.safetensors"),
        (fetch_attention, "computed by the program 'someone/kernel'"),
    ],
)
def test_a_checkpoint_that_is_not_whole_or_not_safe_is_refused_in_a_line(
    tmp_path: Path, change: Callable[[Path], None], line: str
) -> None:
    change(stable_diffusion(tmp_path / "own"))
    with pytest.raises((WeightsError, ConfigError), match=line):
        model("own").load(place(tmp_path))


def test_a_variant_is_taken_where_a_part_has_it(tmp_path: Path) -> None:
    only_half_precision(stable_diffusion(tmp_path / "own"))
    (outcome,) = made(tmp_path, "own", requests(1), variant="fp16")
    assert isinstance(outcome, Made)


def test_a_flagged_image_is_blocked_unless_the_checker_is_off(tmp_path: Path) -> None:
    stable_diffusion(tmp_path / "strict", flags=True)
    stable_diffusion(tmp_path / "mild", flags=False)
    blocked = made(tmp_path, "strict", requests(2), safety_checker="keep")
    assert [type(each) for each in blocked] == [Blocked, Blocked]
    assert {each.reason for each in blocked if isinstance(each, Blocked)} == {"safety_checker"}
    (mild,) = made(tmp_path, "mild", requests(1))
    (off,) = made(tmp_path, "strict", requests(1), safety_checker="off")
    assert isinstance(mild, Made)
    assert isinstance(off, Made)
    assert (mild.parameters["safety_checker"], off.parameters["safety_checker"]) == ("on", "off")
    assert np.array_equal(pixels(mild), pixels(off))


def test_an_image_that_is_black_by_overflow_is_an_error_and_no_refusal(tmp_path: Path) -> None:
    from safetensors.numpy import load_file, save_file

    own = stable_diffusion(tmp_path / "own", flags=False)
    path = own / "vae" / "diffusion_pytorch_model.safetensors"
    tensors = load_file(path)
    tensors["decoder.conv_out.bias"] = np.full_like(tensors["decoder.conv_out.bias"], np.nan)
    save_file(tensors, path, {"format": "pt"})
    with np.errstate(invalid="ignore"):
        (outcome,) = made(tmp_path, "own", requests(1))
    assert isinstance(outcome, Failed)
    assert outcome.reason.startswith("black_image: every pixel is black, and the safety checker saw nothing")


def test_the_end_of_a_prompt_that_is_not_read_is_told(folder: Path) -> None:
    read, unread = "a" * LETTERS_READ, " and the rest"
    tiny = model("plain")
    short, long = made(folder, "plain", [*requests(1, prompt=read), *requests(1, prompt=read + unread)])
    assert isinstance(short, Made)
    assert isinstance(long, Made)
    assert short.prompt_cut is None
    assert long.prompt_cut == unread.lstrip()
    assert list(tiny.prompts_cut(place(folder), [read, read + unread])) == [(read + unread, unread.lstrip())]
    (empty,) = made(folder, "plain", requests(1, prompt="  "))
    assert isinstance(empty, Failed)
    assert empty.reason.startswith("empty_prompt")


def test_what_one_of_three_text_encoders_reads_is_not_cut(tmp_path: Path) -> None:
    stable_diffusion_3(tmp_path / "three")
    prompt = "a" * LETTERS_READ + "bcd"
    (outcome,) = made(tmp_path, "three", requests(1, prompt=prompt))
    assert isinstance(outcome, Made)
    assert outcome.prompt_cut is None
    partly = json.loads(str(outcome.parameters["prompt_read_in_part"]))
    assert partly == {"tokenizer": "bcd", "tokenizer_2": "bcd"}
    (shorter,) = made(tmp_path, "three", requests(1, prompt=prompt), call={"max_sequence_length": 26})
    assert isinstance(shorter, Made)
    assert shorter.prompt_cut == "d", "a mark at the end and the space before the word take two places"


KINDS: dict[str, tuple[Callable[[Path], Path], dict[str, Any], tuple[int, int]]] = {
    "StableDiffusionXLPipeline": (stable_diffusion_xl, {}, (SIZE, SIZE)),
    "StableDiffusion3Pipeline": (stable_diffusion_3, {"height": 48, "width": 32}, (32, 48)),
    "FluxPipeline": (
        lambda path: flux_kontext(path, pipeline="FluxPipeline"),
        {"height": 32, "width": 48},
        (48, 32),
    ),
    "StableDiffusionImg2ImgPipeline": (stable_diffusion, {"task": "image-to-image"}, (88, 64)),
    "StableDiffusionXLImg2ImgPipeline": (
        stable_diffusion_xl,
        {"task": "image-to-image", "call": {"strength": 0.6}, "width": 64, "height": 32},
        (64, 32),
    ),
    "StableDiffusionInpaintPipeline": (
        lambda path: stable_diffusion(path, in_channels=9, pipeline="StableDiffusionInpaintPipeline"),
        {"task": "inpainting", "mask": "masks", "width": 88, "height": 64},
        (88, 64),
    ),
    "StableDiffusionInstructPix2PixPipeline": (
        lambda path: stable_diffusion(path, in_channels=8, pipeline="StableDiffusionInstructPix2PixPipeline"),
        {"task": "image-to-image", "call": {"image_guidance_scale": 1.2}},
        (88, 64),
    ),
    "FluxKontextPipeline": (
        flux_kontext,
        {"pipeline": "FluxKontextPipeline", "width": 64, "height": 32},
        (64, 32),
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_pipeline_makes_or_edits(tmp_path: Path, kind: str) -> None:
    build, fields, size = KINDS[kind]
    build(tmp_path / "own")
    (tmp_path / "masks").mkdir()
    left = Image.fromarray(np.uint8(np.indices((70, 90))[1] < 45) * np.uint8(255))
    left.save(tmp_path / "masks" / "face.png")
    tiny = model("own", **fields)
    photo = put_photo(tmp_path / "face.png") if tiny.edits else None
    loaded = tiny.load(place(tmp_path))
    first, second = loaded.make(requests(2, photo=photo))
    assert isinstance(first, Made)
    assert isinstance(first.content, Image.Image)
    assert (first.content.size, first.parameters["pipeline"]) == (size, kind)
    assert not np.array_equal(pixels(first), pixels(second))
    again = model("own", **fields, images_at_once=2, batch_on_cpu=True).load(place(tmp_path))
    together = again.make(requests(2, photo=photo))
    assert max(np.abs(pixels(a) - pixels(b)).max() for a, b in zip(together, (first, second), strict=True)) <= 1


def test_a_photo_that_cannot_be_read_fails_alone_and_sizes_need_not_agree(folder: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.png"
    broken.write_bytes(b"\x89PNG\r\n\x1a\n and no more")
    photos = [put_photo(tmp_path / "a.png"), broken, put_photo(tmp_path / "b.png", width=40, height=48)]
    asked = [
        ImageRequest(f"image-{n}", "p", PROMPT, 0, n, SeedPhoto(photo.stem, photo, "0" * 64))
        for n, photo in enumerate(photos)
    ]
    one, failed, two = made(folder, "plain", asked, task="image-to-image", batch_on_cpu=True, images_at_once=3)
    assert isinstance(failed, Failed)
    assert failed.reason.startswith("photo_unreadable: broken.png: ")
    assert pixels(one).shape == (64, 88, 3)
    assert pixels(two).shape == (48, 40, 3)


def test_a_mask_of_a_photo_is_looked_for_by_its_name(folder: Path, tmp_path: Path) -> None:
    (folder / "masks").mkdir()
    tiny = model("plain", task="inpainting", mask="masks").load(place(folder))
    with pytest.raises(ConfigError, match="'masks' has no mask of the photo 'face'"):
        tiny.make(requests(1, photo=put_photo(tmp_path / "face.png")))


def test_who_has_no_gpu_is_told_how_long_an_image_takes(folder: Path) -> None:
    seconds = model("plain", steps=10_000, width=1024, height=1024).seconds_of_an_image(place(folder))
    quick = model("plain").seconds_of_an_image(place(folder))
    assert seconds is not None
    assert quick is not None
    # 5000 times the steps, 256 times the pixels; the machine's rate is tried once.
    assert seconds == pytest.approx(quick * 5000 * 256)
    told: list[str] = []
    model("plain", steps=10_000, width=8192, height=8192).load(place(folder, report=told.append)).close()
    assert re.fullmatch(r"tiny: no GPU is used, and an image takes about [\d,]+ s here .*", told[0])


REAL = {
    "stabilityai/stable-diffusion-xl-base-1.0": ("StableDiffusionXLPipeline", stable_diffusion_xl),
    "stabilityai/stable-diffusion-3-medium-diffusers": ("StableDiffusion3Pipeline", stable_diffusion_3),
    "dreamlike-art/dreamlike-photoreal-2.0": (
        "StableDiffusionPipeline",
        lambda path: stable_diffusion(path, flags=False),
    ),
}
COMMIT = "0123456789abcdef" * 2 + "01234567"

PROGRAM = """
import json, sys
from pathlib import Path
from detector_bench.errors import DetectorBenchError
from detector_bench.generation.diffusers_models import DiffusersModel
from detector_bench.generation.image_requests import ImageRequest
from detector_bench.generation.t2i_models import GenerationPlace
from detector_bench.weights import WeightsLocator
from detector_bench.weights.revisions import RevisionLock
folder = Path(sys.argv[1])
place = GenerationPlace(
    weights=WeightsLocator(beside=folder, revisions=RevisionLock([folder / "recipe.lock.yaml"])),
    folder=folder, device="cpu",
)
model = DiffusersModel(name="tiny", steps=2, **json.loads(sys.argv[2]))
told = {"lacks": list(model.lacks(place)), "bytes": model.bytes_to_download(place)}
told |= {"size": model.pixels_of_an_image(place), "seconds": model.seconds_of_an_image(place)}
told["is_here"] = place.weights.find(model.checkpoint) is not None
try:
    loaded = model.load(place)
    (outcome,) = loaded.make([ImageRequest("i", "p", "a nurse", 0, 1)])
    told |= {"revision": loaded.record.revision, "model": loaded.record.model, **outcome.parameters}
    told["bytes_left"] = model.bytes_to_download(place)
    told["seconds_here"] = model.seconds_of_an_image(place)
except DetectorBenchError as error:
    told["error"] = str(error)
print(json.dumps(told))
"""


def told_by_hub(folder: Path, address: str, **fields: Any) -> dict[str, Any]:
    """In a process of its own, because the hub's address is read when its package is imported."""
    environment = {
        **os.environ,
        "HF_ENDPOINT": address,
        "HF_HOME": str(folder / "hub"),
        "HF_HUB_DISABLE_XET": "1",
    }
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(folder), json.dumps(fields)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert run.returncode == 0, run.stderr
    found: dict[str, Any] = json.loads(run.stdout.splitlines()[-1])
    return {**found, "warnings": run.stderr}


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", REAL)
def test_a_real_checkpoints_pipeline_loads_by_its_name_at_a_pinned_commit(tmp_path: Path, name: str) -> None:
    kind, build = REAL[name]
    safe = files_of(build(tmp_path / "built"))
    others = {
        "README.md": b"words",
        "whole.safetensors": b"x" * 1000,
        "unet/diffusion_pytorch_model.bin": b"a pickle",
        "vae/diffusion_pytorch_model.fp16.safetensors": b"another variant",
        "vae_old/config.json": b"{}",
        "code.py": b"raise SystemExit('must not come')",
    }
    home = tmp_path / "recipe"
    home.mkdir()
    with serving(name, COMMIT, {**safe, **others}) as hub:
        told = told_by_hub(home, hub.address, model=name)
        assert {hub.files[each] for each in hub.asked} == set(safe.values()), "equal files come once"
        assert set(hub.asked) <= set(safe)
        assert told["lacks"] == []
        assert told["bytes"] == sum(map(len, safe.values()))
        assert told["bytes_left"] == 0
        assert told["size"] == [SIZE, SIZE], "as the settings say, before the weights are here"
        assert (told["is_here"], told["seconds"]) == (False, told["seconds_here"])
        assert (told["model"], told["revision"], told["pipeline"]) == (name, COMMIT, kind)
        hub.revision = "f" * 40  # the branch moves on; the recipe stays where it was
        assert told_by_hub(home, hub.address, model=name)["revision"] == COMMIT
    assert COMMIT in (home / "recipe.lock.yaml").read_text()


def test_a_licence_that_is_not_accepted_is_said_before_the_download_with_its_page(tmp_path: Path) -> None:
    name = "stabilityai/stable-diffusion-3-medium-diffusers"
    with serving(name, COMMIT, files_of(stable_diffusion(tmp_path / "built"))) as hub:
        hub.refusal = (403, "GatedRepo")
        told = told_by_hub(tmp_path, hub.address, model=name)
        page = f"{hub.address}/{name}"
        assert hub.asked == []
    (lacks,) = told["lacks"]
    assert lacks == told["error"]
    assert lacks.startswith(f"{name!r} is gated: accept its terms at {page}, then log in")
    assert told["bytes"] is None


def test_a_repository_of_pickles_is_refused_before_the_download(tmp_path: Path) -> None:
    files = files_of(stable_diffusion(tmp_path / "built"))
    files["unet/diffusion_pytorch_model.bin"] = files.pop("unet/diffusion_pytorch_model.safetensors")
    with serving("someone/old", COMMIT, files) as hub:
        told = told_by_hub(tmp_path, hub.address, model="someone/old")
        assert hub.asked == ["model_index.json"]
    assert "'unet' has no .safetensors; diffusion_pytorch_model.bin is a pickle" in told["error"]
    assert "nothing was downloaded" in told["error"]


def test_a_hub_that_is_out_of_reach_is_asked_once_and_is_what_is_missing(tmp_path: Path) -> None:
    name = "stabilityai/stable-diffusion-3-medium-diffusers"
    told = told_by_hub(tmp_path, "http://127.0.0.1:1", model=name, revision=COMMIT)
    (lacks,) = told["lacks"]
    assert lacks == told["error"]
    assert lacks.startswith(f"{name!r} is not on this machine, and the Hugging Face hub cannot be asked (Connect")
    assert (told["bytes"], told["size"], told["seconds"]) == (None, None, None)
    assert "Retrying" not in told["warnings"]


def test_a_repository_without_an_index_is_no_pipeline(tmp_path: Path) -> None:
    name = "stabilityai/stable-diffusion-3-medium"
    with serving(name, COMMIT, {"sd3_medium.safetensors": b"all in one"}) as hub:
        told = told_by_hub(tmp_path, hub.address, model=name)
        assert hub.asked == []
    assert "has no model_index.json" in told["error"]
    assert "ends in -diffusers" in told["error"]
