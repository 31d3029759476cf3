"""Asks a vision-language network on this machine one question about each image."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from pydantic import BeforeValidator, Field, model_validator

from detector_bench.errors import ConfigError
from detector_bench.installation import require
from detector_bench.perception.answers.generated_tokens import TokenWatch, places_of
from detector_bench.perception.answers.token_choices import Place, TopLogprobs, places_arrays
from detector_bench.perception.stage import (
    ADDED_LATER,
    DESCRIPTIVE,
    Arrays,
    Frame,
    Stage,
    StageFunction,
    parse_stage,
    text_array,
    text_in,
)
from detector_bench.perception.torch_settings import (
    Precision,
    TorchSettings,
    chosen_device,
    chosen_precision,
    exact_convolutions,
)
from detector_bench.perception.transformers_checkpoints import from_folder, whole_network
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
    top_logprobs: TopLogprobs = None
    """Keep the log-probabilities of so many tokens at each place of the answer: a verdict then has a score."""


def _earlier(value: Any) -> Any:
    return value if value is None else parse_stage(value)


class GeneratedAnswers(Generation, Stage):  # type: ignore[override]
    """The answer of a transformers image-text-to-text network (BLIP-2, LLaVA, Qwen-VL, ...) to a question.

    Gives `answer`, the text in UTF-8 as uint8 of shape (bytes,): what the network generated, without the question
    and special tokens, otherwise as it came (see `answer_of`). Always the likeliest token (greedy), so that the
    same image gets the same answer. Images are prepared by the checkpoint's own processor, in its Pillow form
    where there is one. Stages with the same network and other questions share it in memory. With `top_logprobs`
    also `token_texts` and `token_logprobs`, see `token_choices.places_arrays`: the probabilities by which tokens
    were chosen, after penalties that the network's generation settings may hold.

    With `earlier` the question follows others, and the answers that they got, in one conversation.
    """

    kind: ClassVar[str] = "generated_answers"
    extra: ClassVar[str | None] = "vlm"
    modules: ClassVar[tuple[str, ...]] = ("torch", "transformers", "torchvision")

    checkpoint: CheckpointField
    question: str = Field(min_length=1)
    """With `chat: false`, the whole prompt, with the checkpoint's own mark for the image if it needs one."""
    chat: bool = True
    """Put the question into the checkpoint's chat template, as a user's message that begins with the image."""
    earlier: Annotated[GeneratedAnswers | None, BeforeValidator(_earlier)] = Field(
        default=None, json_schema_extra=ADDED_LATER
    )
    """The turn of the conversation before this one."""

    @model_validator(mode="after")
    def _conversations_are_chats(self) -> GeneratedAnswers:
        if self.earlier is not None and not self.chat:
            raise ValueError("a question that follows others needs a chat template (`chat: true`)")
        return self

    @property
    def turns(self) -> tuple[GeneratedAnswers, ...]:
        """The conversation's stages, this one last."""
        return (self,) if self.earlier is None else (*self.earlier.turns, self)

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
        *before, _ = self.turns
        questions = [turn.question for turn in self.turns]
        network.require_prompt(Dialogue(questions, ["male"] * len(before)), chat=self.chat)

        def answer(frames: Sequence[Frame]) -> list[Arrays]:
            said = [[answer_of(frame[turn]) for turn in before] for frame in frames]
            found = network.answers(
                [frame.pixels for frame in frames],
                dialogues=[Dialogue(questions, each) for each in said],
                chat=self.chat,
                max_new_tokens=self.max_new_tokens,
                top_logprobs=self.top_logprobs,
            )
            scored = self.top_logprobs is not None
            return [
                {"answer": text_array(text), **(places_arrays(places) if scored else {})} for text, places in found
            ]

        return answer


class Dialogue(NamedTuple):
    """What is said about an image: questions, and the answers to all of them but the last."""

    questions: Sequence[str]
    answers: Sequence[str]

    def messages(self, picture: Image.Image) -> list[dict[str, Any]]:
        """As a chat template takes it; the image comes before the first question."""
        first, *others = ({"type": "text", "text": question} for question in self.questions)
        found = [{"role": "user", "content": [{"type": "image", "image": picture}, first]}]
        for answer, question in zip(self.answers, others, strict=True):
            found += [
                {"role": "assistant", "content": [{"type": "text", "text": answer}]},
                {"role": "user", "content": [question]},
            ]
        return found


def answer_of(result: Arrays) -> str:
    """The text in a result of `GeneratedAnswers` or `ChatAnswers`."""
    return text_in(result["answer"])


class _Network:
    """A loaded network with its processor."""

    def __init__(self, folder: Path, *, device: str, dtype: Any, extra: str | None) -> None:
        transformers = require("transformers", extra=extra)
        self._torch = require("torch", extra=extra)
        self._device, self._dtype, self._name = device, dtype, folder.name
        model = whole_network(
            transformers,
            transformers.AutoModelForImageTextToText,
            folder,
            what="vision-language model",
            dtype=dtype,
            trust_remote_code=False,
        )
        self._model = model.to(device)
        self._processor = from_folder(transformers.AutoProcessor, folder, trust_remote_code=False, backend="pil")
        tokenizer = getattr(self._processor, "tokenizer", None)
        if tokenizer is None:
            raise ConfigError(f"checkpoint {self._name}: its processor has no tokenizer, so it cannot be asked")
        # A shorter prompt is filled up in front: the answer follows the last token of the prompt.
        tokenizer.padding_side = "left"
        if tokenizer.pad_token is None:
            tokenizer.pad_token = tokenizer.eos_token

    def require_prompt(self, dialogue: Dialogue, *, chat: bool) -> None:
        """Try a prompt on a grey image.

        Raises:
            ConfigError: it does not fit the processor, or has no place for the image. Some networks answer such a
                prompt just as readily, and have not seen the image.
        """
        if chat and not self._processor.chat_template:
            raise ConfigError(f"checkpoint {self._name} has no chat template: set `chat: false`")
        try:
            tokens = self._inputs([Image.new("RGB", (64, 64), "grey")], [dialogue], chat=chat)["input_ids"]
            mark = getattr(self._model.config, "image_token_id", None)
            if mark is not None and not (tokens == mark).any():
                raise ValueError(
                    f"it has no place for the image (token {mark}); the checkpoint's mark for images is "
                    "missing, or its processor_config.json is out of date"
                )
        except Exception as error:  # processors and templates raise many sorts
            raise ConfigError(f"checkpoint {self._name} takes no such prompt: {error}") from error

    def answers(
        self,
        images: Sequence[NDArray[np.uint8]],
        *,
        dialogues: Sequence[Dialogue],
        chat: bool,
        max_new_tokens: int,
        top_logprobs: int | None = None,
    ) -> list[tuple[str, tuple[Place, ...]]]:
        """One answer for each image, with the tokens that might have stood at its places if they are asked for.

        Raises:
            ValueError: the network gave numbers that are not finite.
        """
        inputs = self._inputs([Image.fromarray(image) for image in images], dialogues, chat=chat)
        inputs = inputs.to(self._device, self._dtype)
        watch = TokenWatch(self._torch, most=top_logprobs)
        with self._torch.inference_mode(), exact_convolutions(self._torch):
            tokens = self._model.generate(
                **inputs, do_sample=False, num_beams=1, max_new_tokens=max_new_tokens, logits_processor=[watch]
            )
        watch.require_finite()
        answers = tokens[:, watch.prompt :]
        texts = list(self._processor.batch_decode(answers, skip_special_tokens=True))
        if top_logprobs is None:
            return [(text, ()) for text in texts]
        end = self._model.generation_config.eos_token_id
        ends = set(end) if isinstance(end, list) else {end}
        return list(zip(texts, places_of(answers, watch, self._processor.tokenizer, ends=ends), strict=True))

    def _inputs(self, pictures: Sequence[Image.Image], dialogues: Sequence[Dialogue], *, chat: bool) -> Any:
        if not chat:
            questions = [each.questions[-1] for each in dialogues]
            return self._processor(images=list(pictures), text=questions, padding=True, return_tensors="pt")
        conversations = [dialogue.messages(picture) for dialogue, picture in zip(dialogues, pictures, strict=True)]
        return self._processor.apply_chat_template(
            conversations,
            add_generation_prompt=True,
            tokenize=True,
            return_dict=True,
            return_tensors="pt",
            processor_kwargs={"padding": True},
        )


_NETWORKS: WeakValueDictionary[tuple[Path, str, str, Any], _Network] = WeakValueDictionary()


def _shared_network(folder: Path, *, content: str, device: str, dtype: Any, extra: str | None) -> _Network:
    # Several questions to one network would else take several times its memory.
    key = (folder.resolve(), content, device, dtype)
    network = _NETWORKS.get(key)
    if network is None:
        network = _NETWORKS[key] = _Network(folder, device=device, dtype=dtype, extra=extra)
    return network
