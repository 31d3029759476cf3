"""What image files say about their own making: texts that ComfyUI and Automatic1111 put into them.

Automatic1111 (and its forks) writes `parameters`: the prompt, a line `Negative prompt: ...`, a line of settings
such as `Steps: 20, Seed: 5, Model: sd_xl_base_1.0`; JPEG and WebP have the same text as the EXIF comment. ComfyUI
writes the graph that it executed as JSON under `prompt`: nodes by id, each with its class and inputs, of which a
list `[id, output]` is a link.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_SETTINGS = re.compile(r"\s*([\w .\-/]+):\s*(\"(?:\\.|[^\\\"])*\"|[^,]*)(?:,|$)")
_USER_COMMENT, _EXIF = 0x9286, 0x8769
_LONGEST = 1 << 24
_TEXT_INPUTS = ("text", "text_g", "clip_l", "t5xxl", "prompt", "string", "value", "positive")
_MODEL_INPUTS = ("ckpt_name", "unet_name", "model_name", "pretrained_model_name_or_path")
_SEED_INPUTS = ("seed", "noise_seed")
_DEEPEST = 50


@dataclass(frozen=True, slots=True)
class ImageTexts:
    """What a file says; empty where it does not.

    Attributes:
        program: Automatic1111 or ComfyUI.
        prompt: the sentence.
        t2i_model: the checkpoint's name, without its suffix.
        seed: of the random numbers.
    """

    program: str
    prompt: str
    t2i_model: str = ""
    seed: str = ""


def read_image_texts(path: Path) -> ImageTexts | None:
    """What an image file says about its making; None: nothing, or nothing that is known here."""
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(path) as image:
            texts = {
                name: text for name, text in image.info.items() if isinstance(text, str) and len(text) < _LONGEST
            }
            if image.format != "PNG":
                comment = image.getexif().get_ifd(_EXIF).get(_USER_COMMENT)
                if comment:
                    texts.setdefault("parameters", _comment(comment))
            elif not {"parameters", "prompt"} & texts.keys():
                image.load()  # texts may stand behind the pixels
                texts = {name: text for name, text in image.info.items() if isinstance(text, str)}
    except (UnidentifiedImageError, OSError, ValueError, SyntaxError, Image.DecompressionBombError):
        return None  # `check` says what is wrong with the image
    if "parameters" in texts:
        return read_parameters(texts["parameters"])
    return read_comfyui(texts["prompt"]) if "prompt" in texts else None


def read_parameters(text: str) -> ImageTexts | None:
    """Automatic1111's text."""
    lines = text.strip().splitlines()
    settings: dict[str, str] = {}
    if lines and re.search(r"\bSteps: \d+", lines[-1]):
        settings = {name.strip(): value.strip().strip('"') for name, value in _SETTINGS.findall(lines.pop())}
    positive = []
    for line in lines:
        if line.startswith("Negative prompt:"):
            break
        positive.append(line)
    prompt = " ".join(" ".join(positive).split())
    if not prompt:
        return None
    return ImageTexts("Automatic1111", prompt, settings.get("Model", ""), settings.get("Seed", ""))


def read_comfyui(text: str) -> ImageTexts | None:
    """ComfyUI's graph; a text that is no graph counts as the prompt itself."""
    from detector_bench.json_text import JsonMistake, parse_json

    try:
        graph = parse_json(text)
    except JsonMistake:
        return ImageTexts("text", " ".join(text.split())) if text.strip() and text.strip()[0] not in "{[" else None
    if not isinstance(graph, Mapping):
        return None
    nodes = {str(name): node for name, node in graph.items() if isinstance(node, Mapping)}
    for node in nodes.values():
        inputs = node.get("inputs")
        if isinstance(inputs, Mapping) and ("positive" in inputs or "guider" in inputs):
            start = "positive" if "positive" in inputs else "guider"
            prompt = _followed(nodes, inputs[start], (*_TEXT_INPUTS, "conditioning"), 0)
            if prompt:
                model = _found(nodes, _MODEL_INPUTS)
                seed = _followed(
                    nodes, next((inputs[k] for k in _SEED_INPUTS if k in inputs), ""), _SEED_INPUTS, 0
                )
                seed = seed or _found(nodes, _SEED_INPUTS)
                return ImageTexts("ComfyUI", " ".join(prompt.split()), _model_name(model), seed)
    return None


def _followed(nodes: Mapping[str, Any], value: object, inputs: tuple[str, ...], depth: int) -> str:
    """A text, or that of the node that a link leads to."""
    if isinstance(value, str | int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, list) or not value or depth > _DEEPEST:
        return ""
    node = nodes.get(str(value[0]), {})
    given = node.get("inputs", {}) if isinstance(node, Mapping) else {}
    if not isinstance(given, Mapping):
        return ""
    for name in inputs:
        if name in given and (found := _followed(nodes, given[name], inputs, depth + 1)):
            return found
    return ""


def _found(nodes: Mapping[str, Any], inputs: tuple[str, ...]) -> str:
    """An input that is the same wherever it is given; several values are none."""
    values = {
        str(node["inputs"][name])
        for node in nodes.values()
        if isinstance(node.get("inputs"), Mapping)
        for name in inputs
        if isinstance(node["inputs"].get(name), str | int)
    }
    return values.pop() if len(values) == 1 else ""


def _model_name(file: str) -> str:
    name = re.split(r"[\\/]", file)[-1]
    return re.sub(r"\.(?:safetensors|ckpt|gguf|sft|pth?)$", "", name)


def _comment(value: object) -> str:
    if isinstance(value, str):
        return value
    content = bytes(value) if isinstance(value, bytes | bytearray) else json.dumps(value).encode()
    code, text = content[:8], content[8:]
    if code == b"UNICODE\0":
        # The standard leaves the order of bytes open; of English text in UTF-16 one byte in two is 0.
        order = "utf-16-be" if text[::2].count(0) > text[1::2].count(0) else "utf-16-le"
        return text.decode(order, errors="replace")
    return text.decode("utf-8", errors="replace") if code == b"ASCII\0\0\0" else content.decode(errors="replace")
