"""Asks a vision-language network on this machine one question about each image."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from pydantic import Field

from detector_bench.errors import ConfigError, WeightsError
from detector_bench.installation import require
from detector_bench.perception.stage import DESCRIPTIVE, Arrays, Frame, Stage, StageFunction, text_array, text_in
from detector_bench.perception.torch_settings import (
    Precision,
    TorchSettings,
    chosen_device,
    chosen_precision,
    exact_convolutions,
    from_folder,
    silenced,
)
from detector_bench.weights import WeightsLocator
from detector_bench.weights.files import CheckpointField


class Generation(TorchSettings):
    """How a network generates its answers."""

    precision: Precision = "auto"
    """With 16 bits, images that share a batch can tip a word that is on the verge."""
    max_new_tokens: int = Field(default=20, ge=1)
    """An answer is cut off after so many tokens."""
    batch_size: int = Field(default=8, ge=1, json_schema_extra=DESCRIPTIVE)
    """Images that go through the network together; their answers are kept at once."""


class GeneratedAnswers(Generation, Stage):  # type: ignore[override]
    """The answer of a transformers image-text-to-text network (BLIP-2, LLaVA, Qwen-VL, ...) to a question.

    Gives `answer`, the text in UTF-8 as uint8 of shape (bytes,): what the network generated, without the question
    and special tokens, otherwise as it came (see `answer_of`). Always the likeliest token (greedy), so that the
    same image gets the same answer. Images are prepared by the checkpoint's own processor, in its Pillow form
    where there is one. Stages with the same network and other questions share it in memory.
    """

    kind: ClassVar[str] = "generated_answers"
    extra: ClassVar[str | None] = "vlm"
    modules: ClassVar[tuple[str, ...]] = ("torch", "transformers", "torchvision")

    checkpoint: CheckpointField
    question: str = Field(min_length=1)
    """With `chat: false`, the whole prompt, with the checkpoint's own mark for the image if it needs one."""
    chat: bool = True
    """Put the question into the checkpoint's chat template, as a user's message that begins with the image."""

    @property
    def images_per_call(self) -> int:  # type: ignore[override]
        """A batch of the network, so that each batch's answers are kept at once."""
        return self.batch_size

    def load(self, weights: WeightsLocator) -> StageFunction:
        """Read network and processor; see `Stage.load`."""
        torch = require("torch", extra=self.extra)
        device = chosen_device(torch, self.device)
        dtype = chosen_precision(torch, self.precision, device=device)
        network = _shared_network(
            weights.locate(self.checkpoint),
            content=weights.content_sha256(self.checkpoint),
            device=device,
            dtype=dtype,
            extra=self.extra,
        )
        network.require_prompt(self.question, chat=self.chat)

        def answer(frames: Sequence[Frame]) -> list[Arrays]:
            texts = network.answers(
                [frame.pixels for frame in frames],
                question=self.question,
                chat=self.chat,
                max_new_tokens=self.max_new_tokens,
            )
            return [{"answer": text_array(text)} for text in texts]

        return answer


def answer_of(result: Arrays) -> str:
    """The text in a result of `GeneratedAnswers` or `ChatAnswers`."""
    return text_in(result["answer"])


class _Network:
    """A loaded network with its processor."""

    def __init__(self, folder: Path, *, device: str, dtype: Any, extra: str | None) -> None:
        transformers = require("transformers", extra=extra)
        self._torch = require("torch", extra=extra)
        self._device, self._dtype, self._name = device, dtype, folder.name
        with silenced(transformers):
            model, found = from_folder(
                transformers.AutoModelForImageTextToText,
                folder,
                dtype=dtype,
                use_safetensors=True,
                trust_remote_code=False,
                output_loading_info=True,
            )
        if found["missing_keys"]:
            first = sorted(found["missing_keys"])[0]
            raise WeightsError(f"{str(folder)!r} is no complete {type(model).__name__}: it lacks {first!r}")
        self._model = model.to(device).eval()
        self._processor = from_folder(transformers.AutoProcessor, folder, trust_remote_code=False, backend="pil")
        tokenizer = getattr(self._processor, "tokenizer", None)
        if tokenizer is None:
            raise ConfigError(f"checkpoint {self._name}: its processor has no tokenizer, so it cannot be asked")
        # A shorter prompt is filled up in front: the answer follows the last token of the prompt.
        tokenizer.padding_side = "left"
        if tokenizer.pad_token is None:
            tokenizer.pad_token = tokenizer.eos_token

    def require_prompt(self, question: str, *, chat: bool) -> None:
        """Try a prompt on a grey image.

        Raises:
            ConfigError: it does not fit the processor, or has no place for the image. Some networks answer such a
                prompt just as readily, and have not seen the image.
        """
        if chat and not self._processor.chat_template:
            raise ConfigError(f"checkpoint {self._name} has no chat template: set `chat: false`")
        try:
            tokens = self._inputs([Image.new("RGB", (64, 64), "grey")], question, chat=chat)["input_ids"]
            mark = getattr(self._model.config, "image_token_id", None)
            if mark is not None and not (tokens == mark).any():
                raise ValueError(
                    f"it has no place for the image (token {mark}); the checkpoint's mark for images is "
                    "missing, or its processor_config.json is out of date"
                )
        except Exception as error:  # processors and templates raise many sorts
            raise ConfigError(f"checkpoint {self._name} takes no such prompt: {error}") from error

    def answers(
        self, images: Sequence[NDArray[np.uint8]], *, question: str, chat: bool, max_new_tokens: int
    ) -> list[str]:
        """One answer for each image.

        Raises:
            ValueError: the network gave numbers that are not finite.
        """
        inputs = self._inputs([Image.fromarray(image) for image in images], question, chat=chat)
        inputs = inputs.to(self._device, self._dtype)
        watch = _Watch(self._torch)
        with self._torch.inference_mode(), exact_convolutions(self._torch):
            tokens = self._model.generate(
                **inputs, do_sample=False, num_beams=1, max_new_tokens=max_new_tokens, logits_processor=[watch]
            )
        watch.require_finite()
        return list(self._processor.batch_decode(tokens[:, watch.prompt :], skip_special_tokens=True))

    def _inputs(self, pictures: Sequence[Image.Image], question: str, *, chat: bool) -> Any:
        if not chat:
            questions = [question] * len(pictures)
            return self._processor(images=list(pictures), text=questions, padding=True, return_tensors="pt")
        asked = {"type": "text", "text": question}
        conversations = [
            [{"role": "user", "content": [{"type": "image", "image": picture}, asked]}] for picture in pictures
        ]
        return self._processor.apply_chat_template(
            conversations,
            add_generation_prompt=True,
            tokenize=True,
            return_dict=True,
            return_tensors="pt",
            processor_kwargs={"padding": True},
        )


class _Watch:
    """Looks on while tokens are generated, and changes nothing.

    Attributes:
        prompt: how many tokens of the prompt stand before the answer; some networks repeat it, some do not.
    """

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._broken: Any = None
        self.prompt = 0

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        # Tokens that are ruled out score minus infinity, which is as it should be.
        broken = (self._torch.isnan(scores) | (scores == float("inf"))).any()
        if self._broken is None:
            self.prompt, self._broken = input_ids.shape[-1], broken
        else:
            self._broken = self._broken | broken
        return scores

    def require_finite(self) -> None:
        """Refuse tokens that were chosen among numbers that are none."""
        if self._broken is not None and bool(self._broken):
            raise ValueError("the network's output holds values that are not finite")


_NETWORKS: WeakValueDictionary[tuple[Path, str, str, Any], _Network] = WeakValueDictionary()


def _shared_network(folder: Path, *, content: str, device: str, dtype: Any, extra: str | None) -> _Network:
    # Several questions to one network would else take several times its memory.
    key = (folder.resolve(), content, device, dtype)
    network = _NETWORKS.get(key)
    if network is None:
        network = _NETWORKS[key] = _Network(folder, device=device, dtype=dtype, extra=extra)
    return network
