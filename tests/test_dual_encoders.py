"""SigLIP, SigLIP 2 and other pairs of encoders behind `kind: clip`, against transformers' own classes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from clip_networks import GENDER, SIDE, odd_images, save_open_clip, save_siglip, save_transformers_clip
from running import found_by, judged

from detector_bench.detectors import build_detector
from detector_bench.errors import ConfigError, WeightsError
from detector_bench.perception.clip.stages import ClipSimilarities
from detector_bench.weights import WeightsLocator

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

ANYWHERE = WeightsLocator(cache=Path("nowhere"), allow_download=False)
CLOSE = {"rtol": 1e-3, "atol": 2e-4}


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def save_chinese_clip(folder: Path) -> Path:
    """A pair of encoders whose text encoder is a BERT, with an attention mask."""
    torch.manual_seed(3)
    size = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *sorted(set(" ".join(GENDER).split()))]
    text = {**size, "vocab_size": len(words), "max_position_embeddings": 20, "initializer_range": 0.5}
    vision = {**size, "image_size": SIDE, "patch_size": 8, "initializer_factor": 8.0}
    config = transformers.ChineseCLIPConfig(text_config=text, vision_config=vision, projection_dim=16)
    transformers.ChineseCLIPModel(config).save_pretrained(folder)
    transformers.BertTokenizer(vocab={word: at for at, word in enumerate(words)}).save_pretrained(folder)
    size = {"height": SIDE, "width": SIDE}
    transformers.ChineseCLIPImageProcessorPil(size=size, crop_size=size).save_pretrained(folder)
    return folder


def encoder(folder: Path) -> dict[str, Any]:
    return {"checkpoint": str(folder), "precision": "float32", "device": "cpu"}


def logits_of_transformers(folder: Path, *, filled_up: bool) -> np.ndarray:
    """By image, the logits of the gender prompts, as transformers' own whole network gives them."""
    model = transformers.AutoModel.from_pretrained(folder).eval()
    processor = transformers.AutoImageProcessor.from_pretrained(folder, backend="pil")
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    texts = tokenizer(list(GENDER), padding=True, return_tensors="pt")
    if filled_up:
        padded = tokenizer(list(GENDER), padding="max_length", max_length=64, return_tensors="pt")
        texts = {"input_ids": padded["input_ids"]}
    shapes = {"input_data_format": "channels_last", "return_tensors": "pt"}
    with torch.inference_mode():
        rows = [model(**texts, **processor(image, **shapes)).logits_per_image for image in odd_images()]
    return np.concatenate([row.numpy() for row in rows])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("save", "filled_up"),
    [
        (save_siglip, True),
        (lambda folder: save_siglip(folder, patches=True), True),
        (save_chinese_clip, False),
    ],
    ids=["siglip", "siglip2 of patches", "chinese clip"],
)
def test_logits_are_those_of_transformers_own_network(save: Any, filled_up: bool, tmp_path: Path) -> None:
    folder = save(tmp_path / "network")
    wanted = logits_of_transformers(folder, filled_up=filled_up)
    found = found_by(ClipSimilarities(encoder=encoder(folder), prompts=GENDER), odd_images(), weights=ANYWHERE)
    bias = np.float32(-3 if filled_up else 0)
    np.testing.assert_allclose([each["logits"] + bias for each in found], wanted, **CLOSE)
    assert [float(each.get("logit_bias", 0)) for each in found] == [bias] * len(found)
    assert np.ptp(wanted) > 0.1, "the network tells the images apart"


def verdicts(folder: Path, **settings: Any) -> list[tuple[str, str | None, float]]:
    made = build_detector("clip", name="tried", parameters={"encoder": encoder(folder), **settings})
    found = judged(made, odd_images(), weights=ANYWHERE)
    return [(each.status.value, each.label or each.reason, round(each.score or 0, 6)) for each in found]


def test_softmax_over_prompts_unless_the_sigmoid_is_asked_for(tmp_path: Path) -> None:
    folder = save_siglip(tmp_path / "network")
    logits = logits_of_transformers(folder, filled_up=True).astype(np.float64)
    labels = [["male", "female"][at] for at in logits.argmax(1)]
    relative = np.exp(logits.max(1)) / np.exp(logits).sum(1)
    absolute = 1 / (1 + np.exp(-logits.max(1)))
    for scores, settings in ((relative, {}), (absolute, {"activation": "sigmoid"})):
        found = verdicts(folder, **settings)
        assert [each[:2] for each in found] == [("clear", label) for label in labels]
        np.testing.assert_allclose([each[2] for each in found], scores, **CLOSE)
    assert absolute.max() < 0.5 < relative.min()
    fits = float(np.median(absolute))
    kept = [each[0] == "clear" for each in verdicts(folder, activation="sigmoid", min_score=fits)]
    assert kept == (absolute >= fits).tolist()


def test_prompts_in_capitals_are_those_in_lower_case(tmp_path: Path) -> None:
    folder = save_siglip(tmp_path / "network")
    loud = {"male": "A PHOTO of a male", "female": "a photo of a FEMALE"}
    assert verdicts(folder, prompts=loud) == verdicts(folder)


@pytest.mark.parametrize("save", [save_transformers_clip, save_open_clip])
def test_a_network_without_a_sigmoid_says_so(save: Any, tmp_path: Path) -> None:
    if save is save_open_clip:
        pytest.importorskip("open_clip")
    folder = save(tmp_path / "network")
    named = {"backend": "open_clip" if save is save_open_clip else "transformers", **encoder(folder)}
    made = build_detector("clip", parameters={"encoder": named, "activation": "sigmoid"})
    with pytest.raises(ConfigError, match=r"needs a network that was trained with one, such as SigLIP"):
        judged(made, odd_images()[:1], weights=ANYWHERE)


def test_open_clips_siglip_has_its_bias(tmp_path: Path) -> None:
    pytest.importorskip("open_clip")
    import json

    from safetensors.torch import load_file, save_file

    folder = save_open_clip(tmp_path / "network")
    path = folder / "open_clip_config.json"
    settings = json.loads(path.read_text())
    settings["model_cfg"] |= {"init_logit_bias": -10}
    path.write_text(json.dumps(settings))
    tensors = load_file(folder / "open_clip_model.safetensors")
    save_file({**tensors, "logit_bias": torch.tensor(-4.0)}, folder / "open_clip_model.safetensors")
    named = {"backend": "open_clip", **encoder(folder)}
    (found,) = found_by(ClipSimilarities(encoder=named, prompts=GENDER), odd_images()[:1], weights=ANYWHERE)
    assert float(found["logit_bias"]) == -4


def _without_the_vision_part(folder: Path) -> None:
    from safetensors.torch import load_file, save_file

    tensors = load_file(folder / "model.safetensors")
    kept = {name: each for name, each in tensors.items() if "vision" not in name}
    save_file(kept, folder / "model.safetensors", metadata={"format": "pt"})


def _without_a_tokenizer(folder: Path) -> None:
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (folder / name).unlink()


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (_without_the_vision_part, "no whole checkpoint of siglip: it lacks 'vision_model"),
        (_without_a_tokenizer, "lacks the tokenizer"),
    ],
)
def test_a_checkpoint_that_lacks_a_part_is_refused(damage: Any, said: str, tmp_path: Path) -> None:
    folder = save_siglip(tmp_path / "network")
    damage(folder)
    with pytest.raises(WeightsError, match=said):
        verdicts(folder)


def test_a_prompt_that_is_too_long_is_refused(tmp_path: Path) -> None:
    folder = save_siglip(tmp_path / "network")
    with pytest.raises(ConfigError, match=r"has 70 tokens; network reads 64"):
        verdicts(folder, prompts={"male": "a" * 70, "female": "b"})
