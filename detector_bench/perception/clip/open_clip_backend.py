"""CLIP through the package open_clip."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from detector_bench.errors import ConfigError, WeightsError, nearest_hint
from detector_bench.installation import require
from detector_bench.perception.checkpoint_or_file import CheckpointOrFile
from detector_bench.perception.clip.embeddings import (
    ImageEncoder,
    TextEmbeddings,
    text_embeddings,
    unit_vectors,
)
from detector_bench.perception.torch_settings import (
    Precision,
    chosen_device,
    chosen_precision,
    exact_convolutions,
    on_device,
    quicken_products,
    shorten_products,
)
from detector_bench.perception.transformers_checkpoints import require_whole
from detector_bench.weights import WeightsLocator
from detector_bench.weights.files import CheckpointField

_SETTINGS = "open_clip_config.json"
_PREFERRED_WEIGHTS = "open_clip_model.safetensors"
_TOKENIZER = ("text_cfg", "hf_tokenizer_name", ("",))
_ELSEWHERE: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("text_cfg", "hf_model_name", ("",)),
    ("vision_cfg", "timm_model_name", ("hf-hub:", "hf_hub:", "local-dir:")),
)
"""Settings that name what lies elsewhere: their place, and how such a name begins."""
_TOKENIZER_SETTINGS = ("clean", "strip_sep_token")
_TEXT_PARTS = ("transformer", "token_embedding", "text", "text_decoder")


class OpenClip(CheckpointOrFile):
    """A network of open_clip: a `checkpoint`, or an `architecture` with its `weights_file`.

    All of it comes from there: an architecture whose tokenizer open_clip would read from the hub (SigLIP's,
    CLIPA's) needs a checkpoint, which holds it; a network whose text tower is another one of the hub
    (`hf_model_name`) is refused.

    Images are prepared by the network's own transform, prompts by its own tokenizer, which cuts off what is too
    long. Prompts are always embedded on the CPU in float32. For OpenAI's weights, take an architecture whose name
    ends in `-quickgelu`.
    """

    extra: ClassVar[str] = "open-clip"
    modules: ClassVar[tuple[str, ...]] = ("torch", "open_clip")

    backend: Literal["open_clip"] = "open_clip"
    checkpoint: CheckpointField | None = None
    """A folder with `open_clip_config.json` and `open_clip_model.safetensors`, or its name on the hub. Beside
    safetensors files of other names, no other weights are read."""
    architecture: str | None = None
    """A name that `open_clip.list_models()` gives, such as `ViT-B-32`."""
    precision: Precision = "auto"
    """The number format of the image tower; the text tower computes in float32."""

    def image_encoder(self, weights: WeightsLocator) -> ImageEncoder[Any]:
        """Read the network, and keep its image tower.

        Raises:
            MissingExtraError, WeightsError: see `Stage.load`.
            ConfigError: an unknown architecture, or a folder without its settings.
        """
        torch, library = (require(name, extra=self.extra) for name in self.modules)
        transforms = require("open_clip.transform", extra=self.extra)
        device = chosen_device(torch, self.device)
        dtype = chosen_precision(torch, self.precision, device=device)
        model = self._read(library, weights)
        for part in _TEXT_PARTS:
            if hasattr(model, part):
                setattr(model, part, None)
        model = model.to(device)
        quicken_products(torch, model, device=device, dtype=dtype)
        computing = shorten_products(torch, model, dtype)
        settings = transforms.PreprocessCfg(**model.visual.preprocess_cfg)
        transform = transforms.image_transform_v2(settings, is_train=False)

        def embed(images: Sequence[Any]) -> NDArray[np.float32]:
            with torch.inference_mode(), computing(), exact_convolutions(torch):
                features = model.encode_image(on_device(torch, np.stack(images), device))
                return unit_vectors(features.float().cpu().numpy())

        return ImageEncoder(lambda image: transform(Image.fromarray(image)).numpy(), embed)

    def embed_prompts(self, prompts: Sequence[str], weights: WeightsLocator) -> TextEmbeddings:
        """Read the network, embed prompts, and forget it again; see `image_encoder` for what it raises."""
        torch, library = (require(name, extra=self.extra) for name in self.modules)
        model = self._read(library, weights)
        through_transformers = bool(self._settings(library, weights).get(_TOKENIZER[1]))
        try:
            # Else transformers would ask at the terminal whether to run code that the folder brings.
            limits = {"trust_remote_code": False} if through_transformers else {}
            tokenizer = library.get_tokenizer(self._name(weights), **limits)
        except Exception as error:  # transformers, which reads some tokenizers, raises many sorts
            raise WeightsError(f"open_clip cannot read the tokenizer of {self.source.name}: {error}") from error
        with torch.inference_mode():
            features = model.encode_text(tokenizer(list(prompts)))
            scale = float(model.logit_scale.double().exp())
            learnt = getattr(model, "logit_bias", None)
            bias = None if learnt is None else float(learnt.double())
        return text_embeddings(features.numpy(), scale=scale, source=self.source.name, bias=bias)

    def _name(self, weights: WeightsLocator) -> str:
        """What open_clip calls the network."""
        if self.checkpoint is None:
            return str(self.architecture)
        return f"local-dir:{weights.locate(self.checkpoint)}"

    def _read(self, library: Any, weights: WeightsLocator) -> Any:
        known = library.list_models()
        if self.architecture is not None and self.architecture not in known:
            raise ConfigError(
                f"open_clip has no architecture {self.architecture!r}: {nearest_hint(self.architecture, known)}"
            )
        file = self._weights_in(weights)
        self._settings(library, weights)
        try:
            # Left to itself, open_clip might take other weights in the folder, or the text tower's from the hub.
            with _without_warnings():
                model = library.create_model(
                    self._name(weights),
                    load_weights=False,
                    pretrained_text=False,
                    precision="fp32",
                    device="cpu",
                )
            library.load_checkpoint(model, str(file), weights_only=True)
        except Exception as error:  # open_clip, torch and safetensors raise many sorts
            raise WeightsError(f"open_clip cannot read {str(file)!r}: {error}") from error
        return model.eval()

    def _settings(self, library: Any, weights: WeightsLocator) -> Mapping[str, Any]:
        """How the network is built, if nothing of it is to be read from elsewhere.

        Raises:
            ConfigError: open_clip would read a tokenizer or another network's settings from the hub.
            WeightsError: the checkpoint's settings cannot be read.
        """
        elsewhere = _ELSEWHERE
        if self.checkpoint is None:
            found = library.get_model_config(self.architecture)
            elsewhere += (_TOKENIZER,)  # a checkpoint's tokenizer is read from its folder, whatever it is called
        else:
            path = weights.locate(self.checkpoint) / _SETTINGS
            require_whole(path.parent)
            try:
                found = json.loads(path.read_text(encoding="utf-8"))["model_cfg"]
            except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
                raise WeightsError(f"{str(path)!r} cannot be read as settings of open_clip: {error!r}") from error
        for part, key, marks in elsewhere:
            name = _mapping(_mapping(found).get(part)).get(key)
            if isinstance(name, str) and name and name.startswith(marks):
                raise ConfigError(
                    f"open_clip would read {name!r} ({part}.{key} of {self.architecture or self.source.name}) "
                    "from the hub, of whatever version: take a network whose checkpoint holds all of it"
                )
        text = _mapping(_mapping(found).get("text_cfg"))
        for key in _mapping(text.get("tokenizer_kwargs")):
            if key not in _TOKENIZER_SETTINGS:
                raise ConfigError(
                    f"{self.source.name}: text_cfg.tokenizer_kwargs has {str(key)[:40]!r} (accepted: "
                    f"{', '.join(_TOKENIZER_SETTINGS)})"
                )
        return text

    def _weights_in(self, weights: WeightsLocator) -> Path:
        if self.checkpoint is None:
            return weights.locate(self.source)
        folder = weights.locate(self.checkpoint)
        found = {path.name: path for path in self.checkpoint.found_in(folder)}
        if _SETTINGS not in found:
            raise ConfigError(f"{str(folder)!r} is no checkpoint of open_clip: it lacks {_SETTINGS}")
        candidates = [path for name, path in found.items() if name.endswith(".safetensors")]
        if _PREFERRED_WEIGHTS in found or len(candidates) > 1:
            candidates = [path for path in candidates if path.name == _PREFERRED_WEIGHTS]
        if not candidates:
            raise ConfigError(
                f"{str(folder)!r} holds several .safetensors files, none of them {_PREFERRED_WEIGHTS}: name the "
                "right one in the checkpoint's `files`, beside '*.json' and '*.txt'"
            )
        return candidates[0]


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


@contextmanager
def _without_warnings() -> Iterator[None]:
    """Without open_clip's warning that the network is random, as it is for a moment."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)
