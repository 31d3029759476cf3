"""Weights of CLIP's three backends: what is read, and what is refused with a line that says why."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from clip_networks import (
    GENDER,
    LOOKS,
    SIDE,
    export_onnx_pair,
    odd_images,
    onnx_encoder,
    save_open_clip,
    save_tokenizer,
    save_transformers_clip,
    write_odd_images,
)
from PIL import Image
from running import judged
from small_parts import small_run

import detector_bench.detectors.clip  # noqa: F401 - importing it registers it
from detector_bench.detectors import Detector, build_detector
from detector_bench.errors import ConfigError, WeightsError
from detector_bench.perception.clip.stages import ClipSimilarities, OnnxClip, OpenClip, TransformersClip
from detector_bench.perception.stage import Frame
from detector_bench.weights import WeightsLocator
from detector_bench.weights.catalogue import CLIP_VIT_LARGE_PATCH14

pytestmark = pytest.mark.slow

ANYWHERE = WeightsLocator(cache=Path("nowhere"))
IMAGES = odd_images()


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    """Several threads make tiny networks wait for each other."""
    torch = pytest.importorskip("torch")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("transformers")
    return save_transformers_clip(tmp_path_factory.mktemp("clip") / "tiny")


@pytest.fixture(scope="module")
def open_clip_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("open_clip")
    return save_open_clip(tmp_path_factory.mktemp("clip") / "tiny")


@pytest.fixture(scope="module")
def onnx_folder(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return export_onnx_pair(checkpoint, tmp_path_factory.mktemp("clip"))


def clip_on(checkpoint: Path) -> Detector:
    encoder = {"checkpoint": str(checkpoint), "precision": "float32", "device": "cpu"}
    return build_detector("clip", parameters={"encoder": encoder})


# Weights: transformers


def copied(checkpoint: Path, folder: Path) -> Path:
    return Path(shutil.copytree(checkpoint, folder))


def with_tensors(folder: Path, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Path:
    """Rewrite the weights of a checkpoint."""
    from safetensors.numpy import load_file, save_file

    save_file(change(load_file(folder / "model.safetensors")), folder / "model.safetensors", {"format": "pt"})
    return folder


def test_a_missing_checkpoint_says_what_to_do(tmp_path: Path) -> None:
    detector = clip_on(tmp_path / "nowhere")
    with pytest.raises(WeightsError, match=r"checkpoint .*nowhere.* not found; put the folder"):
        judged(detector, IMAGES[:1], weights=ANYWHERE)


@pytest.mark.parametrize(
    ("lacking", "part"),
    [("preprocessor_config.json", "CLIPImageProcessorPil"), ("tokenizer.json", "lacks the tokenizer")],
)
def test_a_checkpoint_without_one_of_its_files_is_named(
    checkpoint: Path, tmp_path: Path, lacking: str, part: str
) -> None:
    folder = copied(checkpoint, tmp_path / "tiny")
    for path in folder.glob("tokenizer*" if "tokenizer" in lacking else lacking):
        path.unlink()
    with pytest.raises(WeightsError, match=part):
        judged(clip_on(folder), IMAGES[:1], weights=ANYWHERE)


def test_a_wrong_sha256_stops_the_run(checkpoint: Path, tmp_path: Path) -> None:
    pinned = {"path": str(checkpoint), "sha256": {"model.safetensors": "0" * 64}}
    detector = build_detector("clip", parameters={"encoder": {"checkpoint": pinned}})
    with pytest.raises(WeightsError, match="is not the pinned one"):
        small_run(write_odd_images(tmp_path / "set"), tmp_path / "out", detector, weights=ANYWHERE)


def test_damaged_weights_are_refused(checkpoint: Path, tmp_path: Path) -> None:
    folder = copied(checkpoint, tmp_path / "tiny")
    (folder / "model.safetensors").write_bytes(b"no tensors")
    with pytest.raises(WeightsError, match="CLIPVisionModelWithProjection"):
        TransformersClip(checkpoint=folder).image_encoder(ANYWHERE)


def test_weights_of_another_shape_are_refused(checkpoint: Path, tmp_path: Path) -> None:
    def cut(tensors: dict[str, Any]) -> dict[str, Any]:
        return {**tensors, "visual_projection.weight": tensors["visual_projection.weight"][:8].copy()}

    folder = with_tensors(copied(checkpoint, tmp_path / "tiny"), cut)
    with pytest.raises(WeightsError, match=r"of another shape is .*visual_projection\.weight"):
        TransformersClip(checkpoint=folder).image_encoder(ANYWHERE)


def test_a_tokenizer_of_another_network_is_refused(checkpoint: Path, shared: Path, tmp_path: Path) -> None:
    folder = copied(checkpoint, tmp_path / "tiny")
    for path in folder.glob("tokenizer*"):
        path.unlink()
    for name in ("vocab.json", "merges.txt"):
        shutil.copyfile(shared / "weights" / "clip_tokenizer" / name, folder / name)
    with pytest.raises(WeightsError, match="the tokenizer has 49408 tokens, the network 54"):
        TransformersClip(checkpoint=folder).embed_prompts(GENDER, ANYWHERE)


def test_each_tower_needs_its_own_weights_only(checkpoint: Path, tmp_path: Path) -> None:
    def images_alone(tensors: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in tensors.items() if name.startswith("vis")}

    folder = with_tensors(copied(checkpoint, tmp_path / "tiny"), images_alone)
    half, whole = (TransformersClip(checkpoint=each, precision="float32") for each in (folder, checkpoint))
    np.testing.assert_array_equal(half.image_encoder(ANYWHERE)(IMAGES), whole.image_encoder(ANYWHERE)(IMAGES))
    # transformers itself would fill the missing tower with noise.
    with pytest.raises(WeightsError, match=r"lacks 'text_model\."):
        half.embed_prompts(GENDER, ANYWHERE)


def test_images_on_which_the_network_fails_are_errors(checkpoint: Path, tmp_path: Path) -> None:
    def spoilt(tensors: dict[str, Any]) -> dict[str, Any]:
        return {**tensors, "visual_projection.weight": tensors["visual_projection.weight"] * np.float32(np.nan)}

    folder = with_tensors(copied(checkpoint, tmp_path / "tiny"), spoilt)
    out = tmp_path / "out"
    small_run(write_odd_images(tmp_path / "set"), out, clip_on(folder), weights=ANYWHERE)
    rows = pq.read_table(out / "clip" / "predictions.parquet").to_pylist()
    assert [row["status"] for row in rows] == ["error"] * len(IMAGES)
    assert "not finite" in rows[0]["reason"]


def test_a_text_tower_that_is_not_finite_stops_the_run(checkpoint: Path, tmp_path: Path) -> None:
    def spoilt(tensors: dict[str, Any]) -> dict[str, Any]:
        return {**tensors, "text_projection.weight": tensors["text_projection.weight"] * np.float32(np.inf)}

    folder = with_tensors(copied(checkpoint, tmp_path / "tiny"), spoilt)
    with pytest.raises(WeightsError, match="the text encoder of tiny is damaged"):
        judged(clip_on(folder), IMAGES[:1], weights=ANYWHERE)


def test_a_prompt_that_is_too_long_is_refused(checkpoint: Path) -> None:
    encoder = TransformersClip(checkpoint=checkpoint)
    with pytest.raises(ConfigError, match=r"has 82 tokens; tiny reads 77"):
        encoder.embed_prompts(("short", "a" * 80), ANYWHERE)


def test_a_processor_for_another_size_is_refused(checkpoint: Path, tmp_path: Path) -> None:
    folder = copied(checkpoint, tmp_path / "tiny")
    settings = json.loads((folder / "preprocessor_config.json").read_text())
    settings["crop_size"] = {"height": 24, "width": 24}
    (folder / "preprocessor_config.json").write_text(json.dumps(settings))
    with pytest.raises(ConfigError, match="makes images of 24 x 24 pixels, its network takes 32 x 32"):
        TransformersClip(checkpoint=folder).image_encoder(ANYWHERE)


def test_a_checkpoint_of_another_sort_is_refused(checkpoint: Path, tmp_path: Path) -> None:
    folder = copied(checkpoint, tmp_path / "tiny")
    (folder / "config.json").write_text(json.dumps({"model_type": "bert"}))
    with pytest.raises(ConfigError, match="is a checkpoint of 'bert', not of CLIP"):
        TransformersClip(checkpoint=folder).image_encoder(ANYWHERE)


def test_the_size_of_the_common_space_may_stand_in_one_place_only(checkpoint: Path) -> None:
    settings = json.loads((checkpoint / "config.json").read_text())
    # As saved by transformers: both towers' own setting is not the one that was trained with.
    assert settings["projection_dim"] != settings["vision_config"].get("projection_dim", 512)
    assert TransformersClip(checkpoint=checkpoint).image_encoder(ANYWHERE)(IMAGES[:1]).shape == (1, 16)


def test_the_files_of_the_default_checkpoint_are_enough_and_tokenize_as_clip_does(
    shared: Path, tmp_path: Path
) -> None:
    transformers = pytest.importorskip("transformers")
    tower = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = transformers.CLIPConfig(
        text_config=tower, vision_config={**tower, "image_size": 8, "patch_size": 8}, projection_dim=4
    )
    saved = tmp_path / "saved"
    transformers.CLIPModel(config).save_pretrained(saved)
    transformers.CLIPImageProcessor(size={"shortest_edge": 8}, crop_size=8).save_pretrained(saved)
    for name in ("vocab.json", "merges.txt"):
        shutil.copyfile(shared / "weights" / "clip_tokenizer" / name, saved / name)
    fetched = tmp_path / "fetched"
    fetched.mkdir()
    for name in CLIP_VIT_LARGE_PATCH14.files:
        shutil.copyfile(saved / name, fetched / name)

    tokens = transformers.CLIPTokenizer.from_pretrained(fetched)("a photo of a male")["input_ids"]
    assert tokens == [49406, 320, 1125, 539, 320, 2801, 49407]
    found = TransformersClip(checkpoint=fetched).embed_prompts(GENDER, ANYWHERE)
    assert found.vectors.shape == (2, 4)
    assert found.scale == pytest.approx(np.exp(2.6592), rel=1e-4)


# Weights: open_clip


def test_an_architecture_of_open_clip_with_a_file_of_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_clip = pytest.importorskip("open_clip")
    torch = pytest.importorskip("torch")
    # The smallest of its own architectures takes seconds; a tiny one is added to its list instead.
    settings = tmp_path / "Tiny-CLIP.json"
    folder = save_open_clip(tmp_path / "tiny")
    settings.write_text(json.dumps(json.loads((folder / "open_clip_config.json").read_text())["model_cfg"]))
    monkeypatch.setattr(open_clip.factory, "_MODEL_CONFIG_PATHS", [settings])
    monkeypatch.setattr(open_clip.factory, "_MODEL_CONFIGS", {})
    open_clip.factory._rescan_model_configs()
    reference = open_clip.create_model(f"local-dir:{folder}")
    torch.save({"state_dict": reference.state_dict()}, tmp_path / "tiny.pt")

    encoder = OpenClip(architecture="Tiny-CLIP", weights_file=tmp_path / "tiny.pt", precision="float32")
    same = OpenClip(checkpoint=folder, precision="float32")
    np.testing.assert_allclose(
        encoder.embed_prompts(GENDER, ANYWHERE).vectors, same.embed_prompts(GENDER, ANYWHERE).vectors, atol=1e-6
    )
    assert encoder.image_encoder(ANYWHERE)(IMAGES[:2]).shape == (2, 16)

    with pytest.raises(ConfigError, match="no architecture 'Tiny-CLAP': did you mean 'Tiny-CLIP'"):
        OpenClip(architecture="Tiny-CLAP", weights_file=tmp_path / "tiny.pt").image_encoder(ANYWHERE)
    torch.save({"state_dict": {"visual.proj": reference.visual.proj}}, tmp_path / "part.pt")
    with pytest.raises(WeightsError, match="Missing key"):
        OpenClip(architecture="Tiny-CLIP", weights_file=tmp_path / "part.pt").image_encoder(ANYWHERE)


def test_an_open_clip_folder_is_read_from_its_own_safetensors_alone(
    open_clip_folder: Path, tmp_path: Path
) -> None:
    folder = copied(open_clip_folder, tmp_path / "tiny")
    (folder / "model.safetensors").write_bytes(b"the same network for another library")
    (folder / "open_clip_pytorch_model.bin").write_bytes(b"a pickle")
    found, expected = (
        OpenClip(checkpoint=each).embed_prompts(GENDER, ANYWHERE) for each in (folder, open_clip_folder)
    )
    np.testing.assert_array_equal(found.vectors, expected.vectors)

    (folder / "open_clip_model.safetensors").rename(folder / "other.safetensors")
    with pytest.raises(ConfigError, match=r"holds several \.safetensors files"):
        OpenClip(checkpoint=folder).image_encoder(ANYWHERE)
    (folder / "open_clip_config.json").rename(folder / "config.json")
    with pytest.raises(ConfigError, match=r"lacks open_clip_config\.json"):
        OpenClip(checkpoint=folder).image_encoder(ANYWHERE)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"text_cfg": {"hf_model_name": "bert-base-uncased"}}, "would read 'bert-base-uncased' .* from the hub"),
        ({"vision_cfg": {"timm_model_name": "hf-hub:a/b"}}, "would read 'hf-hub:a/b' .* from the hub"),
        (
            {"text_cfg": {"hf_tokenizer_name": "x", "tokenizer_kwargs": {"trust_remote_code": True}}},
            "tokenizer_kwargs has 'trust_remote_code'",
        ),
    ],
)
def test_an_open_clip_folder_reads_nothing_from_elsewhere(
    open_clip_folder: Path, tmp_path: Path, settings: dict[str, dict[str, Any]], message: str
) -> None:
    path = copied(open_clip_folder, tmp_path / "tiny") / "open_clip_config.json"
    found = json.loads(path.read_text())
    for part, changes in settings.items():
        found["model_cfg"][part].update(changes)
    path.write_text(json.dumps(found))
    with pytest.raises(ConfigError, match=message):
        OpenClip(checkpoint=path.parent).embed_prompts(GENDER, ANYWHERE)


def test_an_architecture_whose_tokenizer_is_on_the_hub_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("open_clip")
    (tmp_path / "own.pt").write_bytes(b"")
    network = OpenClip(architecture="ViT-B-16-SigLIP", weights_file=tmp_path / "own.pt")
    with pytest.raises(ConfigError, match=r"would read 'timm/ViT-B-16-SigLIP' \(text_cfg\.hf_tokenizer"):
        network.embed_prompts(GENDER, ANYWHERE)


def test_a_folder_that_reads_elsewhere_is_refused(checkpoint: Path, tmp_path: Path) -> None:
    folder = copied(checkpoint, tmp_path / "tiny")
    settings = folder / "tokenizer_config.json"
    before = settings.read_text()
    settings.write_text(json.dumps({**json.loads(before), "vocab": "/elsewhere/vocab.json"}))
    with pytest.raises(WeightsError, match=r"tokenizer_config\.json': vocab is the path '/elsewhere/vocab\.json'"):
        TransformersClip(checkpoint=folder).embed_prompts(GENDER, ANYWHERE)
    settings.write_text(before)
    (folder / "adapter_config.json").write_text('{"base_model_name_or_path": "someone/else"}')
    with pytest.raises(WeightsError, match=r"holds adapter_config\.json, changes to another network"):
        TransformersClip(checkpoint=folder).image_encoder(ANYWHERE)


def test_open_clip_says_nothing_about_random_weights(
    open_clip_folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    OpenClip(checkpoint=open_clip_folder).embed_prompts(GENDER, ANYWHERE)
    assert "randomly" not in caplog.text


# Weights: ONNX


def test_a_text_encoder_and_an_image_encoder_of_fixed_sizes(
    checkpoint: Path, onnx_folder: Path, tmp_path: Path
) -> None:
    folder = export_onnx_pair(checkpoint, tmp_path, tokens=60, images=1)
    tokenizer = checkpoint / "tokenizer.json"
    fixed, free = (OnnxClip(**onnx_encoder(each, tokenizer)) for each in (folder, onnx_folder))
    np.testing.assert_allclose(
        fixed.embed_prompts(LOOKS, ANYWHERE).vectors, free.embed_prompts(LOOKS, ANYWHERE).vectors, atol=1e-5
    )
    np.testing.assert_allclose(
        fixed.image_encoder(ANYWHERE)(IMAGES), free.image_encoder(ANYWHERE)(IMAGES), atol=1e-5
    )
    with pytest.raises(ConfigError, match=r"has 72 tokens; text\.onnx reads 60"):
        fixed.embed_prompts(("a" * 70,), ANYWHERE)


def test_squashing_shows_the_whole_image(checkpoint: Path, onnx_folder: Path) -> None:
    settings = {"input": {"size": SIDE, "resize": "squash", "interpolation": "bilinear"}}
    encoder = OnnxClip(**onnx_encoder(onnx_folder, checkpoint / "tokenizer.json", **settings))
    image = IMAGES[0]
    squashed = np.asarray(Image.fromarray(image).resize((SIDE, SIDE), Image.Resampling.BILINEAR))
    embed = encoder.image_encoder(ANYWHERE)
    np.testing.assert_allclose(embed([image]), embed([squashed]), atol=1e-6)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"input": {"size": 24}}, r"image\.onnx takes .* correct input\.size"),
        ({"image_output": "embedded"}, r"has no output 'embedded': did you mean 'embedding'"),
        ({"image_network": "TEXT"}, r"text\.onnx takes tensor\(int64\)"),
        ({"text_network": "IMAGE"}, r"image\.onnx takes \['pixels \(tensor\(float\)\)'\]"),
    ],
)
def test_networks_that_do_not_fit_are_refused(
    checkpoint: Path, onnx_folder: Path, settings: dict[str, Any], message: str
) -> None:
    swapped = {"TEXT": str(onnx_folder / "text.onnx"), "IMAGE": str(onnx_folder / "image.onnx")}
    settings = {key: swapped.get(str(value), value) for key, value in settings.items()}
    detector = build_detector(
        "clip", parameters={"encoder": onnx_encoder(onnx_folder, checkpoint / "tokenizer.json", **settings)}
    )
    with pytest.raises(ConfigError, match=message):
        judged(detector, IMAGES[:1], weights=ANYWHERE)


def test_a_file_that_is_no_tokenizer_is_refused(onnx_folder: Path) -> None:
    encoder = OnnxClip(**onnx_encoder(onnx_folder, onnx_folder / "image.onnx"))
    with pytest.raises(WeightsError, match=r"is no tokenizer\.json"):
        encoder.embed_prompts(GENDER, ANYWHERE)


def test_encoders_of_two_networks_are_told_apart(checkpoint: Path, onnx_folder: Path) -> None:
    encoder = OnnxClip(**onnx_encoder(onnx_folder, checkpoint / "tokenizer.json"))
    stage = ClipSimilarities(encoder=encoder, prompts=GENDER)
    frame = Frame("x", results={stage.embeddings: {"embedding": np.ones(8, np.float32)}})
    with pytest.raises(ConfigError, match="8 dimensions, the text encoder 16"):
        stage.load(ANYWHERE)([frame])


def test_the_onnx_backend_needs_no_pytorch(checkpoint: Path, onnx_folder: Path, tmp_path: Path) -> None:
    encoder = json.dumps(onnx_encoder(onnx_folder, checkpoint / "tokenizer.json"))
    script = (
        "import sys, json\n"
        "sys.modules['torch'] = sys.modules['transformers'] = None\n"
        "import numpy as np\n"
        "from detector_bench.perception.clip.stages import OnnxClip\n"
        "from detector_bench.weights import WeightsLocator\n"
        f"encoder = OnnxClip(**json.loads({encoder!r}))\n"
        "print(encoder.image_encoder(WeightsLocator())([np.zeros((5, 5, 3), np.uint8)]).shape)\n"
        "print(encoder.embed_prompts(('a', 'b'), WeightsLocator()).vectors.shape)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:2] == ["(1, 16)", "(2, 16)"]


def test_the_saved_tokenizer_is_read_as_transformers_reads_it(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    tokenizers = pytest.importorskip("tokenizers")
    path = save_tokenizer(tmp_path)
    ours = tokenizers.Tokenizer.from_file(str(path)).encode("A photo").ids
    assert ours == transformers.CLIPTokenizer.from_pretrained(tmp_path)("A photo")["input_ids"]
