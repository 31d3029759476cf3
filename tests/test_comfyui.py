"""Images of a ComfyUI server: workflows and their slots, what becomes of requests, servers that fail."""

from __future__ import annotations

import io
import json
import re
import threading
import time
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from comfyui_service import FILES, STALLS, ComfyUIService, comfyui, editing, workflow
from local_server import prepare_environment
from PIL import Image

from detector_bench.errors import ConfigError, DetectorBenchError
from detector_bench.generation import comfyui_server
from detector_bench.generation.comfyui import ComfyUI
from detector_bench.generation.generation_order import GenerationOrder
from detector_bench.generation.image_files import checked
from detector_bench.generation.image_requests import Blocked, Failed, ImageRequest, Made, SeedPhoto
from detector_bench.generation.making import ImageSetMaking
from detector_bench.generation.recipe import read_recipe
from detector_bench.generation.t2i_models import GenerationPlace, T2IModel, build_t2i_model
from detector_bench.trust import Origin, add_key
from detector_bench.weights import WeightsLocator

KEY = "comfy-0123456789abcdef"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ComfyUIService]:
    prepare_environment(monkeypatch, tmp_path)
    with comfyui() as running:
        yield running


def declared(
    folder: Path, nodes: Any = None, *, server: ComfyUIService | None = None, name: str = "flow", **fields: Any
) -> ComfyUI:
    """The T2I model of a workflow that lies in a folder."""
    path = folder / f"{name}.json"
    path.write_text(json.dumps(workflow() if nodes is None else nodes))
    there = {} if server is None else {"base_url": server.address}
    waits = {"first_wait": 0.01, "longest_wait": 0.1, "timeout": 5.0}
    model = build_t2i_model(
        {"kind": "comfyui", "name": name, "workflow": path, **there, **waits, **fields}, place="r"
    )
    assert isinstance(model, ComfyUI)
    return model


def place(folder: Path) -> GenerationPlace:
    return GenerationPlace(weights=WeightsLocator(), folder=folder)


def request(prompt: str = "a nurse", *, seed: int = 7, photo: SeedPhoto | None = None) -> ImageRequest:
    return ImageRequest(f"flow__{prompt.replace(' ', '_')}__{seed:04d}", "nurse", prompt, 0, seed, photo)


def lack(model: T2IModel, folder: Path) -> str:
    """The first thing that is missing."""
    return next(iter(model.lacks(place(folder))))


def outcome(model: T2IModel, folder: Path, asked: ImageRequest | None = None) -> Any:
    loaded = model.load(place(folder))
    try:
        (found,) = loaded.make([asked or request()])
    finally:
        loaded.close()
    return checked(found, may_cost=False)


def test_an_image_comes_as_the_server_saved_it(server: ComfyUIService, tmp_path: Path) -> None:
    model = declared(tmp_path, server=server, steps=4, guidance=1.5, negative_prompt="hats", width=40)
    loaded = model.load(place(tmp_path))
    (made,) = loaded.make([request()])
    loaded.close()
    assert isinstance(made, Made)
    assert made.content in server.files.values()
    (sent,) = server.prompts
    assert (sent["6"]["inputs"]["text"], sent["7"]["inputs"]["text"]) == ("a nurse", "hats")
    assert {key: sent["3"]["inputs"][key] for key in ("seed", "steps", "cfg")} == {
        "seed": 7,
        "steps": 4,
        "cfg": 1.5,
    }
    assert sent["5"]["inputs"] == {"width": 40, "height": 48, "batch_size": 1}
    # What the recipe does not say is recorded as the workflow has it.
    own = {"height": 48, "sampler": "euler", "scheduler": "normal", "4.ckpt_name": FILES[0]}
    assert made.parameters == {**own, "workflow_sha256": model.identity()["workflow"]}
    assert made.seconds == 1.5  # by the server's clock
    assert model.pixels_of_an_image(place(tmp_path)) == (40, 48)
    record = loaded.record
    assert (record.model, record.versions["comfyui"]) == ("flow.json", "0.36.0")
    assert record.device == f"cuda:0 NVIDIA H100 at {server.address}"


def test_the_same_request_gives_the_same_bytes_and_another_seed_others(
    server: ComfyUIService, tmp_path: Path
) -> None:
    model = declared(tmp_path, server=server)
    first = outcome(model, tmp_path)
    server.restart()
    again, other = outcome(model, tmp_path), outcome(model, tmp_path, request(seed=8))
    assert first.content == again.content != other.content


def test_what_the_server_made_before_is_taken_and_what_it_lost_is_made_again(
    server: ComfyUIService, tmp_path: Path
) -> None:
    model = declared(tmp_path, server=server)
    first = outcome(model, tmp_path)
    assert outcome(model, tmp_path).content == first.content
    assert server.executed["SaveImage"] == 1
    server.files.clear()
    pixels = [np.asarray(Image.open(io.BytesIO(each.content))) for each in (first, outcome(model, tmp_path))]
    assert np.array_equal(*pixels)
    assert server.executed == {"SaveImage": 2} | dict.fromkeys(server.executed.keys() - {"SaveImage"}, 1) | {
        "CLIPTextEncode": 2
    }


def test_photos_are_sent_once_and_edited(server: ComfyUIService, tmp_path: Path) -> None:
    Image.new("RGB", (8, 8), "red").save(tmp_path / "face.PNG")
    content = (tmp_path / "face.PNG").read_bytes()
    photo = SeedPhoto("face", tmp_path / "face.PNG", sha256(content).hexdigest())
    model = declared(
        tmp_path, editing(), server=server, slots={"seed_photo": "Seed photo.image"}, values={"3.denoise": 0.6}
    )
    assert model.edits
    loaded = model.load(place(tmp_path))
    assert all(isinstance(*loaded.make([request(seed=seed, photo=photo)]), Made) for seed in (1, 2))
    assert [path for _, path in server.calls].count("/upload/image") == 1
    name = f"{photo.sha256[:32]}.png"
    assert server.files["input", "detector_bench", name] == content
    assert server.prompts[0]["10"]["inputs"]["image"] == f"detector_bench/{name}"
    assert server.prompts[0]["3"]["inputs"]["denoise"] == 0.6
    # Somebody emptied the server's folder: that fails one request, and the next one brings the photo along.
    server.files.clear()
    server.restart()
    (failed,) = loaded.make([request(seed=3, photo=photo)])
    assert "node 10 (LoadImage): Custom validation failed" in failed.reason
    assert isinstance(*loaded.make([request(seed=3, photo=photo)]), Made)
    (tmp_path / "face.PNG").write_bytes(b"another")
    (changed,) = model.load(place(tmp_path)).make([request(seed=4, photo=photo)])
    assert changed.reason == "the seed photo face has changed since the run began"
    loaded.close()


@pytest.mark.parametrize(
    ("prompt", "reason"),
    [
        ("crash", "node 3 (KSampler): RuntimeError: shapes cannot be multiplied"),
        ("interrupt", "somebody interrupted the server while it made the image"),
        ("saves nothing", "node 9 saved no image"),
        ("broken", "what came is no image: not_an_image"),
        ("refused", "node 6 (CLIPTextEncode): Not this text: text"),
    ],
)
def test_what_goes_wrong_with_a_request_is_its_error(
    server: ComfyUIService, tmp_path: Path, prompt: str, reason: str
) -> None:
    loaded = declared(tmp_path, server=server).load(place(tmp_path))
    failed = checked(loaded.make([request(prompt)])[0], may_cost=False)
    assert isinstance(failed, Failed)
    assert failed.reason.startswith(reason)
    assert "\n" not in failed.reason
    assert isinstance(*loaded.make([request()]), Made)
    loaded.close()


def test_a_black_image_is_a_refusal(server: ComfyUIService, tmp_path: Path) -> None:
    blocked = outcome(declared(tmp_path, server=server), tmp_path, request("black"))
    assert isinstance(blocked, Blocked)
    assert blocked.reason.startswith("black_image: ")


@pytest.mark.slow
def test_a_server_that_is_started_anew_forgets_and_is_asked_again(server: ComfyUIService, tmp_path: Path) -> None:
    server.may_run.clear()
    loaded = declared(tmp_path, server=server).load(place(tmp_path))
    found: list[Any] = []
    asking = threading.Thread(target=lambda: found.extend(loaded.make([request()])))
    asking.start()
    _until(lambda: server.prompts)
    server.restart()
    asking.join(10)
    assert found[0].reason.startswith("the server no longer knows the workflow")
    server.may_run.set()
    assert isinstance(*loaded.make([request()]), Made)
    loaded.close()


def test_who_stops_leaves_nothing_behind_at_the_server(server: ComfyUIService, tmp_path: Path) -> None:
    loaded = declared(tmp_path, server=server).load(place(tmp_path))
    found: list[Any] = []
    threads = [
        threading.Thread(target=lambda n=n: found.extend(loaded.make([request("wait", seed=n)]))) for n in range(2)
    ]
    for thread in threads:
        thread.start()
    _until(lambda: server.running and server.pending)
    loaded.close()
    for thread in threads:
        thread.join(10)
    assert [each.reason for each in found] == ["the run was stopped"] * 2
    _until(lambda: not server.running)
    assert (len(server.interrupted), server.pending) == (1, [])


def test_an_image_that_does_not_come_is_given_up(server: ComfyUIService, tmp_path: Path) -> None:
    server.may_run.clear()
    failed = outcome(declared(tmp_path, server=server, deadline=0.2), tmp_path)
    assert failed.reason == "no image after 0 s (`deadline`)"
    assert server.pending == []


@pytest.mark.parametrize("mints_ids", [False, True])
def test_an_answer_that_gets_lost_is_looked_for(server: ComfyUIService, tmp_path: Path, mints_ids: bool) -> None:
    server.mints_ids, server.drops = mints_ids, 1
    model = declared(tmp_path, server=server, price=0.01)
    found = outcome(model, tmp_path)
    if mints_ids:  # then nobody can tell which one it was
        assert isinstance(found, Failed)
        assert found.may_have_been_paid
    else:
        assert isinstance(found, Made)
        assert found.cost == 0.01
    assert len(server.prompts) == 1


def test_a_busy_server_is_asked_again(server: ComfyUIService, tmp_path: Path) -> None:
    loaded = declared(tmp_path, server=server).load(place(tmp_path))
    server.script = {"/prompt": [(429, "", {"Retry-After": "0.01"})], "/view": [(503, "", {})]}
    assert isinstance(*loaded.make([request()]), Made)
    server.script = {"/prompt": [(500, "Internal\nServer Error", {})]}
    (failed,) = loaded.make([request(seed=8)])
    assert failed.reason == "/prompt: Internal Server Error (HTTP 500)"
    loaded.close()


@pytest.mark.slow
def test_answers_that_do_not_come_in_time_or_are_endless_are_given_up(
    server: ComfyUIService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = declared(tmp_path, server=server, timeout=0.4, price=1.0).load(place(tmp_path))
    server.script = {"/history": [STALLS], "/prompt": [STALLS]}
    (lost,) = loaded.make([request()])
    assert lost.reason == "/prompt: OverdueAnswerError: no complete answer after 0 s"
    assert lost.may_have_been_paid
    assert isinstance(*loaded.make([request()]), Made)
    monkeypatch.setattr(comfyui_server, "_LARGEST_IMAGE", 1000)
    (large,) = loaded.make([request(seed=8)])
    assert re.fullmatch(
        r"/view: OversizedAnswerError: an answer of [\d,]+ bytes; the limit is 1,000", large.reason
    )
    loaded.close()


def test_a_server_that_has_gone_ends_the_run(server: ComfyUIService, tmp_path: Path) -> None:
    loaded = declared(tmp_path, server=server, retries=1).load(place(tmp_path))
    server.shutdown()
    server.server_close()
    with pytest.raises(
        DetectorBenchError, match=r"nobody answers at http://127.0.0.1:\d+ any more: /prompt: .*kept"
    ):
        loaded.make([request()])
    loaded.close()


def test_what_would_fail_for_all_requests_ends_the_run(server: ComfyUIService, tmp_path: Path) -> None:
    model = declared(tmp_path, workflow(n3__steps=20_000), server=server)
    with pytest.raises(ConfigError, match=r"does not take the workflow: node 3 \(KSampler\): Value 20000 bigger"):
        outcome(model, tmp_path)
    nodes = workflow(n3__latent_image=["12", 0])
    nodes["12"] = {"class_type": "RepeatLatentBatch", "inputs": {"samples": ["5", 0], "amount": 3}}
    with pytest.raises(ConfigError, match="saves 3 images for one request at node 9"):
        outcome(declared(tmp_path, nodes, server=server), tmp_path)


def test_what_the_server_has_not_is_told_before_anything_is_sent(server: ComfyUIService, tmp_path: Path) -> None:
    nodes = workflow(n4__ckpt_name="sd_xl_bass_1.0.safetensors")
    nodes["8"]["class_type"] = "VAEDecodeTiled"
    model = declared(tmp_path, nodes, server=server, sampler="uni_pc")
    lines = [
        f"the server at {server.address} does not know the node VAEDecodeTiled; install there what brings it",
        f"the server at {server.address} has no 'uni_pc' for 3.sampler_name (KSampler): known: euler, ",
        f"the server at {server.address} has no 'sd_xl_bass_1.0.safetensors' for 4.ckpt_name "
        "(CheckpointLoaderSimple): did you mean 'sd_xl_base_1.0.safetensors'",
    ]
    found = list(model.lacks(place(tmp_path)))
    assert [line[: len(start)] for line, start in zip(found, lines, strict=True)] == lines
    with pytest.raises(ConfigError, match="VAEDecodeTiled"):
        model.load(place(tmp_path))
    assert server.prompts == []


def test_no_server_and_another_server_are_told(server: ComfyUIService, tmp_path: Path) -> None:
    server.script = {
        "/system_stats": [(404, "", {}), (200, "{}", {}), (302, "", {"Location": "http://else.where"})]
    }
    model = declared(tmp_path, server=server)
    assert [*model.lacks(place(tmp_path))] == [
        f"{server.address} is no ComfyUI server: it has no system_stats (HTTP 404)"
    ]
    assert "but not as ComfyUI does" in lack(model, tmp_path)
    assert "redirects to 'http://else.where', where nothing is sent" in lack(model, tmp_path)
    gone = declared(tmp_path, base_url="http://127.0.0.1:9")
    assert lack(gone, tmp_path).startswith("nobody answers at http://127.0.0.1:9 as ComfyUI does: ")


def test_a_key_goes_only_where_it_may_and_shows_nowhere(
    server: ComfyUIService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.key = KEY
    model = declared(tmp_path, server=server, key_variable="MY_COMFY_KEY", key_header="X-API-Key")
    assert "MY_COMFY_KEY is not set" in lack(model, tmp_path)
    monkeypatch.setenv("MY_COMFY_KEY", KEY)
    assert "detector-bench trust key MY_COMFY_KEY" in lack(model, tmp_path)
    assert server.calls == []
    add_key("MY_COMFY_KEY", Origin.of(server.address))
    assert isinstance(outcome(model, tmp_path), Made)
    server.key = "another"
    (line,) = model.lacks(place(tmp_path))
    assert line == f"{server.address} refuses the key in MY_COMFY_KEY (HTTP 401)"
    server.key, server.script = KEY, {"/prompt": [(418, f"your key {KEY} is a teapot", {})]}
    assert outcome(model, tmp_path, request(seed=9)).reason == "/prompt: your key (hidden) is a teapot (HTTP 418)"


def test_other_machines_need_a_permission_and_encryption(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"begins with https://.*`allow_http: true` allows it"):
        declared(tmp_path, base_url="http://gpu.example:8188")
    model = declared(tmp_path, base_url="https://gpu.example:8188", name="far")
    assert [*model.sends()] == ["prompts to the ComfyUI server at https://gpu.example:8188"]
    assert "detector-bench trust host gpu.example:8188" in lack(model, tmp_path)
    assert [*declared(tmp_path).sends()] == []


def test_the_identity_is_that_of_the_content(tmp_path: Path) -> None:
    def identity(nodes: Any = None, **fields: Any) -> dict[str, Any]:
        return declared(tmp_path, nodes, **fields).identity()

    first = identity()
    renamed = workflow(n6__text="another", n3__seed=1, n9__filename_prefix="x", n5__batch_size=2)
    renamed["3"]["_meta"] = {"title": "my sampler"}
    renamed["12"] = {"class_type": "PreviewImage", "inputs": {"images": ["8", 0]}}
    assert identity(renamed, name="elsewhere", base_url="http://localhost:1") == first
    assert identity(workflow(n3__cfg=9)) != first
    assert identity(values={"3.denoise": 0.5}) != first
    assert identity(slots={"seed": "5.width"}) != first
    # What the recipe says counts, and not what it replaces.
    assert (
        identity(workflow(n3__steps=1), steps=9) == identity(workflow(n3__steps=2), steps=9) != identity(steps=8)
    )


@pytest.mark.parametrize(
    ("slots", "line"),
    [
        ({"promt": "6.text"}, "slots: unknown slot 'promt': did you mean 'prompt'"),
        ({"prompt": "6.txt"}, "slots: prompt: node '6' has no input 'txt' (accepted: text, clip)"),
        ({"prompt": "66.text"}, "slots: prompt: there is no node '66' (accepted: 3 (KSampler), "),
        ({"prompt": "text"}, "slots: prompt: 'text' is no place (accepted: NODE.INPUT, such as 6.text)"),
        ({"prompt": "CLIPTextEncode.text"}, "slots: prompt: several nodes are called 'CLIPTextEncode': 6 "),
        ({"prompt": "3.positive"}, "slots: prompt: 3.positive comes from node 6; name the place"),
        (
            {"seed": "6.text"},
            "slots: seed: 6.text holds 'what stood in the page' (accepted: a place that holds a wh",
        ),
        ({"seed": "3.steps", "steps": "3.steps"}, "slots: 3.steps is named as both seed and steps"),
        ({"image": "10"}, "slots: image: there is no node '10'"),
        (
            {"image": "8", "prompt": "9.filename_prefix"},
            "slots: prompt: nothing of node 9 reaches the image that node",
        ),
    ],
)
def test_mistakes_in_slots(tmp_path: Path, slots: dict[str, str], line: str) -> None:
    (told,) = declared(tmp_path, slots=slots).mistakes()
    assert told.startswith(line)


def test_a_parameter_without_a_slot_is_a_mistake(tmp_path: Path) -> None:
    assert [*declared(tmp_path, slots={"image": 9}).mistakes()] == []
    (told,) = declared(tmp_path, precision="float16").mistakes()
    assert told.startswith("precision: no place for it could be found in the workflow; name it, as in `slots: {")
    nodes = workflow()
    del nodes["9"]
    (told,) = declared(tmp_path, nodes).mistakes()
    assert told == "slots: image: no node of the workflow saves an image (expected: SaveImage)"
    (told,) = declared(tmp_path, workflow(n3__seed=["4", 0])).mistakes()
    assert told.startswith("seed: no place for it")
    assert [*declared(tmp_path, values={"3.denoise": "much", "3.x": 1}).mistakes()] == [
        "values: 3.denoise holds '1' (accepted: a place that holds a text)",
        "values: node '3' has no input 'x' (accepted: " + ", ".join(workflow()["3"]["inputs"]) + ")",
    ]


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ('{"nodes": [], "links": []}', "export it in API format: in ComfyUI's menu Workflow, Export (API)"),
        ('{"3": ', ", line 1, column 7: Expecting value"),
        ("[]", "a workflow in API format is expected: a mapping of nodes"),
        ('{"3": {"inputs": {}}}', "node 3: each node of a workflow in API format has class_type and inputs"),
        (
            '{"3": {"class_type": "A", "inputs": {"x": ["4", 0]}}}',
            "node 3: its input x comes from node 4, which is ",
        ),
    ],
)
def test_files_that_are_no_workflow(tmp_path: Path, content: str, line: str) -> None:
    model = declared(tmp_path)
    model.workflow.write_text(content)
    (told,) = model.mistakes()
    assert line in told
    assert str(model.workflow) in told


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    model = declared(tmp_path)
    model.workflow.unlink()
    assert [*model.mistakes()] == [f"workflow: there is no file {str(model.workflow)!r}"]
    with pytest.raises(ConfigError, match="there is no file"):
        model.identity()


def test_places_are_found_through_what_passes_texts_on(tmp_path: Path) -> None:
    """As in workflows for FLUX: no sampler has `positive`, a text goes in twice, the seed is a node of its own."""

    def node(class_type: str, **inputs: Any) -> dict[str, Any]:
        return {"class_type": class_type, "inputs": inputs}

    nodes = {
        "1": node(
            "SamplerCustomAdvanced", noise=["2", 0], guider=["3", 0], sampler=["4", 0], latent_image=["5", 0]
        ),
        "2": node("RandomNoise", noise_seed=["9", 0]),
        "3": node("BasicGuider", model=["6", 0], conditioning=["7", 0]),
        "4": node("KSamplerSelect", sampler_name="euler"),
        "5": node("EmptySD3LatentImage", width=1024, height=768, batch_size=4),
        "6": node("UNETLoader", unet_name="flux1-dev.safetensors"),
        "7": node("FluxGuidance", guidance=3.5, conditioning=["8", 0]),
        "8": node("CLIPTextEncodeFlux", clip_l=["11", 0], t5xxl="a", clip=["6", 1]),
        "9": node("PrimitiveInt", value=5),
        "10": node("SaveImage", filename_prefix="", images=["1", 0]),
        "11": node("PrimitiveString", value="a"),
    }
    model = declared(tmp_path, nodes, guidance=2.0, sampler="heun", height=512)
    assert [*model.mistakes()] == []
    sent = model.read.filled({"prompt": "a nurse", "seed": 8, **model.asked}, prefix="p")
    assert (sent["11"]["inputs"]["value"], sent["8"]["inputs"]["t5xxl"]) == ("a nurse", "a nurse")
    assert (sent["9"]["inputs"]["value"], sent["7"]["inputs"]["guidance"]) == (8, 2.0)
    assert sent["5"]["inputs"] == {"width": 1024, "height": 512, "batch_size": 1}
    (told,) = declared(tmp_path, nodes, negative_prompt="hats").mistakes()
    assert told.startswith("negative_prompt: no place for it")


def test_the_workflows_of_bigbench_are_read(shared: Path, tmp_path: Path) -> None:
    folder = shared / "upstream" / "bigbench" / "data" / "workflow"
    if not folder.is_dir():
        pytest.skip("BIGbench's workflows are not here")
    prompts, seeds, images = {}, {}, {}
    for path in sorted(folder.glob("*.json")):
        model = ComfyUI(name="one", workflow=path)
        assert [*model.mistakes()] == []
        sent = model.read.filled({"prompt": "a nurse", "seed": 8}, prefix="p")
        named = model.read.named
        prompts[path.stem] = [str(each) for each in named.places["prompt"]]
        seeds[path.stem] = [str(each) for each in named.places["seed"]]
        images[path.stem] = named.image
        assert {node["inputs"].get("batch_size", 1) for node in sent.values()} == {1}
    alike = {name: ["6.text"] for name in prompts}
    assert prompts == alike | {"pixart_sigma": ["113.text"]}
    alike = {name: ["3.seed"] for name in prompts}
    assert seeds == alike | {"pixart_sigma": ["155.seed"], "stable_cascade": ["3.seed", "33.seed"]}
    assert images == dict.fromkeys(prompts, "9") | {"pixart_sigma": "66"}
    cascade = ComfyUI(name="one", workflow=folder / "stable_cascade.json", steps=20)
    (told,) = cascade.mistakes()
    assert "several places that could be meant: 3.steps (KSampler), 33.steps (KSampler); name one" in told
    both = ComfyUI(name="one", workflow=cascade.workflow, steps=20, slots={"steps": ["3.steps", "33.steps"]})
    assert [*both.mistakes()] == []
    # Its stages are guided differently, which stays so.
    own = both.read.own_values(both.asked)
    assert (own["guidance 3.cfg"], own["guidance 33.cfg"]) == (4, 1.1)
    assert own["41.ckpt_name"] == "stable_cascade_stage_c.safetensors"


def test_a_recipe_becomes_an_image_set(server: ComfyUIService, tmp_path: Path) -> None:
    """Also when a request is refused, and when the server is started anew between two runs."""
    (tmp_path / "words.csv").write_text("category,word\nthings,nurse\nthings,black\nthings,crash\n")
    (tmp_path / "templates.csv").write_text("category,template\nthings,a photo of [word]\n")
    (tmp_path / "flow.json").write_text(json.dumps(workflow()))
    model = {"name": "flow", "kind": "comfyui", "workflow": "flow.json", "base_url": server.address, "steps": 5}
    recipe = {"name": "small", "prompts": "words.csv", "images_per_prompt": 2, "models": [model]}
    (tmp_path / "recipe.yaml").write_text(json.dumps(recipe))

    def made() -> pd.DataFrame:
        making = ImageSetMaking(read_recipe(tmp_path / "recipe.yaml"), tmp_path / "set", GenerationOrder())
        making.run(lambda _progress: None)
        return pd.read_parquet(tmp_path / "set" / "generations.parquet")

    rows = made()
    assert rows.groupby("prompt_id")["status"].agg(set).to_dict() == {
        "nurse": {"made"},
        "black": {"blocked"},
        "crash": {"error"},
    }
    assert set(rows["image_sha256"].dropna()) <= {sha256(each).hexdigest() for each in server.files.values()}
    told = json.loads(rows.loc[rows["status"] == "made", "parameters"].iloc[0])
    assert (told["steps"], told["guidance"], told["4.ckpt_name"]) == (5, 8, FILES[0])
    asked = len(server.prompts)
    server.restart()
    again = made()
    assert len(server.prompts) == asked + 2  # what failed
    first, second = (table[table["status"] == "made"]["image_sha256"].tolist() for table in (rows, again))
    assert first == second


def _until(happened: Any) -> None:
    until = time.monotonic() + 10
    while not happened():
        assert time.monotonic() < until
        time.sleep(0.005)
