"""CLIP as a pair of ONNX networks: no PyTorch needed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from pydantic import Field, model_validator

from detector_bench.declarations import Declaration
from detector_bench.errors import ConfigError, WeightsError, nearest_hint
from detector_bench.installation import require
from detector_bench.perception.clip.embeddings import (
    ImageEncoder,
    Pixels,
    TextEmbeddings,
    text_embeddings,
    unit_vectors,
)
from detector_bench.perception.networks.onnx_networks import open_session, session_device
from detector_bench.perception.torch_settings import OF_THE_FILE
from detector_bench.weights import Weights, WeightsLocator
from detector_bench.weights.files import WeightsField

_MASK = "attention_mask"
_INTEGERS = {"tensor(int64)": np.int64, "tensor(int32)": np.int32}


class ClipInput(Declaration):
    """How an image becomes the network's input; by default OpenAI's CLIP at 224 pixels.

    Resized by Pillow (antialiased, rounded to 8 bits), as OpenAI's program and transformers' Pillow processor do.
    """

    size: int = Field(default=224, ge=1, le=4096)
    """Height and width in pixels."""
    resize: Literal["shorter_side", "squash"] = "shorter_side"
    """`shorter_side` keeps the proportions and cuts the middle out; `squash` shows the whole image, distorted."""
    interpolation: Literal["bicubic", "bilinear"] = "bicubic"
    mean: tuple[float, float, float] = (0.48145466, 0.4578275, 0.40821073)
    """Red, green and blue, on a scale of 0 to 1."""
    std: tuple[float, float, float] = (0.26862954, 0.26130258, 0.27577711)

    @model_validator(mode="after")
    def _std_divides(self) -> ClipInput:
        if 0.0 in self.std:
            raise ValueError("std divides, so it may not be 0")
        return self

    def prepare(self, image: Pixels) -> NDArray[np.float32]:
        """Turn an RGB image into the network's input, (3, size, size)."""
        height, width = image.shape[:2]
        shown = (self.size, self.size)
        if self.resize == "shorter_side":
            short = min(height, width)
            shown = (int(self.size * width / short), int(self.size * height / short))
        resample = Image.Resampling.BICUBIC if self.interpolation == "bicubic" else Image.Resampling.BILINEAR
        resized = np.asarray(Image.fromarray(image).resize(shown, resample))
        left, top = (shown[0] - self.size) // 2, (shown[1] - self.size) // 2
        middle = resized[top : top + self.size, left : left + self.size].transpose(2, 0, 1).astype(np.float32)
        mean, std = (np.asarray(values, np.float32).reshape(3, 1, 1) for values in (self.mean, self.std))
        return np.asarray((middle * np.float32(1 / 255) - mean) / std)


class OnnxClip(Declaration):
    """An image encoder and a text encoder that were exported from one CLIP network.

    The image encoder takes float32, (N, 3, size, size), and gives (N, dimensions). The text encoder takes token
    ids, (1, tokens) with a free or a fixed number of tokens, and an `attention_mask` if it has such an input.
    Where the number is fixed, the rest is filled up with the prompt's last token, the end of text, beyond which
    CLIP's text encoder does not look.
    """

    extra: ClassVar[str] = "clip-onnx"
    modules: ClassVar[tuple[str, ...]] = ("onnxruntime", "tokenizers")

    backend: Literal["onnx"] = "onnx"
    image_network: WeightsField
    text_network: WeightsField
    tokenizer: WeightsField
    """A `tokenizer.json`, as transformers saves it."""
    image_output: str | None = None
    """Which output holds the projected embedding, such as `image_embeds`; None: the only one."""
    text_output: str | None = None
    """The same of the text encoder, such as `text_embeds`."""
    input: ClipInput = Field(default_factory=ClipInput)
    logit_scale: float = Field(default=100.0, gt=0, le=1000)
    """The factor that turns cosines into logits, which exported networks lack; 100 in OpenAI's."""

    @property
    def precision_taken(self) -> str:
        """The number format that it computes with: that of the files."""
        return OF_THE_FILE

    @property
    def device_taken(self) -> str:
        """Where onnxruntime computes on this machine."""
        return session_device()

    def missing_settings(self) -> tuple[str, ...]:
        """Nothing besides packages and files."""
        return ()

    def weights(self) -> tuple[Weights, ...]:
        """Both networks and the tokenizer."""
        return (self.image_network, self.text_network, self.tokenizer)

    def image_encoder(self, weights: WeightsLocator) -> ImageEncoder[NDArray[np.float32]]:
        """Read the image encoder.

        Raises:
            MissingExtraError, WeightsError: see `Stage.load`.
            ConfigError: its input or output does not fit the configuration.
        """
        path = weights.locate(self.image_network)
        session = open_session(path, extra=self.extra)
        output = _output(session, self.image_output, path, field="image_output")
        entry = _only_input(session, path)
        wanted = [None, 3, self.input.size, self.input.size]
        if entry.type != "tensor(float)" or not _fits(entry.shape, wanted):
            raise ConfigError(
                f"{path.name} takes {entry.type} of the shape {entry.shape}; float32 of the shape "
                f"{['N', *wanted[1:]]} is needed: correct input.size, or export it again"
            )
        fixed = entry.shape[0] if isinstance(entry.shape[0], int) else None
        if fixed not in (None, 1):
            raise ConfigError(
                f"{path.name} takes exactly {fixed} images at once; export it with a free first axis"
            )

        def embed(images: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
            values = np.stack(images)
            step = fixed or len(values)
            parts = [values[start : start + step] for start in range(0, len(values), step)]
            features = [_run(session, output, {entry.name: part}, path) for part in parts]
            return unit_vectors(np.concatenate(features))

        return ImageEncoder(self.input.prepare, embed)

    def embed_prompts(self, prompts: Sequence[str], weights: WeightsLocator) -> TextEmbeddings:
        """Read the text encoder, embed prompts one by one, and forget it again.

        Raises:
            MissingExtraError, WeightsError: see `Stage.load`.
            ConfigError: its inputs or output do not fit, or a prompt is too long.
        """
        tokenizers = require("tokenizers", extra=self.extra)
        path = weights.locate(self.text_network)
        session = open_session(path, extra=self.extra)
        output = _output(session, self.text_output, path, field="text_output")
        tokens_of = _read_tokenizer(tokenizers, weights.locate(self.tokenizer))
        features = [
            _run(session, output, _text_inputs(session, tokens_of.encode(prompt).ids, prompt, path), path)
            for prompt in prompts
        ]
        return text_embeddings(np.concatenate(features), scale=self.logit_scale, source=path.name)


def _read_tokenizer(tokenizers: Any, path: Path) -> Any:
    try:
        tokenizer = tokenizers.Tokenizer.from_file(str(path))
    except Exception as error:  # the compiled module raises bare exceptions
        raise WeightsError(f"{str(path)!r} is no tokenizer.json: {error}") from error
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def _text_inputs(session: Any, tokens: list[int], prompt: str, path: Path) -> dict[str, NDArray[Any]]:
    """The text encoder's inputs for one prompt."""
    inputs = {entry.name: entry for entry in session.get_inputs()}
    names = [name for name in inputs if name != _MASK]
    if len(names) != 1 or any(entry.type not in _INTEGERS for entry in inputs.values()):
        found = [f"{entry.name} ({entry.type})" for entry in inputs.values()]
        raise ConfigError(f"{path.name} takes {found}; one input of token ids, and perhaps {_MASK}, is needed")
    length = inputs[names[0]].shape[-1]
    if isinstance(length, int) and len(tokens) > length:
        raise ConfigError(f"prompt {prompt!r} has {len(tokens)} tokens; {path.name} reads {length}")
    missing = length - len(tokens) if isinstance(length, int) else 0
    values = {names[0]: [*tokens, *tokens[-1:] * missing], _MASK: [1] * len(tokens) + [0] * missing}
    return {name: np.array([values[name]], _INTEGERS[entry.type]) for name, entry in inputs.items()}


def _only_input(session: Any, path: Path) -> Any:
    inputs = session.get_inputs()
    if len(inputs) != 1:
        raise ConfigError(
            f"{path.name} takes {[entry.name for entry in inputs]}; an image encoder takes pixels alone"
        )
    return inputs[0]


def _fits(shape: Sequence[Any], wanted: Sequence[int | None]) -> bool:
    return len(shape) == len(wanted) and all(
        want is None or not isinstance(size, int) or size == want for size, want in zip(shape, wanted, strict=True)
    )


def _output(session: Any, name: str | None, path: Path, *, field: str) -> str:
    known = [entry.name for entry in session.get_outputs()]
    if name is None and len(known) > 1:
        raise ConfigError(f"{path.name} gives {', '.join(known)}: say with {field} which one is the embedding")
    if name is not None and name not in known:
        raise ConfigError(f"{path.name} has no output {name!r}: {nearest_hint(name, known)}")
    return name or str(known[0])


def _run(session: Any, output: str, inputs: dict[str, NDArray[Any]], path: Path) -> NDArray[Any]:
    count = len(next(iter(inputs.values())))
    found = np.asarray(session.run([output], inputs)[0])
    if found.ndim != 2 or len(found) != count:
        raise ConfigError(
            f"{path.name}: output {output!r} has the shape {list(found.shape)} for {count} inputs; an embedding "
            "has one row for each: name the projected output, not the hidden states"
        )
    return found
