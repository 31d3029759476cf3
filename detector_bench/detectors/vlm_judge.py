"""Vision-language models as detectors: any one (`vlm_judge`), and BLIP-2 as Lyu 2025 asks it (`blip2`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, model_validator

from detector_bench.declarations import Declaration
from detector_bench.detectors.answer_reading import (
    GENDER_ANSWERS,
    AnswerSet,
    default_answers,
    prediction_from,
)
from detector_bench.detectors.base import Card, Prediction, detector, require_classes
from detector_bench.errors import nearest_hint
from detector_bench.perception.answers.chat_answers import ChatAnswers, was_refused
from detector_bench.perception.answers.chat_endpoint import ChatEndpoint
from detector_bench.perception.answers.generated_answers import GeneratedAnswers, Generation, answer_of
from detector_bench.perception.stage import Batch, Frame, Stage
from detector_bench.vocabulary import ATTRIBUTES
from detector_bench.weights.catalogue import BLIP2_OPT_2_7B
from detector_bench.weights.files import CheckpointField

REFUSED = "refused"
"""The reason for an image that the model, or a filter before it, declined to judge."""


def default_question(attribute: str) -> str | None:
    """What is asked about an attribute: what is perceived, never who somebody is. None: the study words it."""
    known = ATTRIBUTES[attribute]
    if known.judge is None:
        return None
    offered = ", ".join(each.offered for each in known.choices)
    return (
        f"Look at the most prominent person in this image. {known.judge or known.question} Answer with "
        f"one of these only: {offered}, unknown. Say unknown if nobody is to be seen or it cannot be told."
    )


class OpenAiModel(ChatEndpoint):
    """A model behind a server that speaks OpenAI's chat completions protocol: hosted, vLLM, Ollama."""

    kind: Literal["openai"]

    def asking(self, question: str) -> ChatAnswers:
        """The stage that asks a question."""
        how = {name: getattr(self, name) for name in ChatEndpoint.model_fields}
        return ChatAnswers(**how, question=question)


class TransformersModel(Generation):
    """An image-text-to-text checkpoint of transformers on this machine."""

    kind: Literal["transformers"]
    checkpoint: CheckpointField
    chat: bool = True
    """Put the question into the checkpoint's chat template; see `GeneratedAnswers`."""

    def asking(self, question: str) -> GeneratedAnswers:
        """The stage that asks a question."""
        how = {name: getattr(self, name) for name in Generation.model_fields}
        return GeneratedAnswers(**how, checkpoint=self.checkpoint, question=question, chat=self.chat)


class JudgeQuestion(Declaration):
    """What is asked about an attribute, and how the answer is read."""

    kind: ClassVar[str] = "Question"  # its name in fingerprints, under which predictions are stored
    question: str = Field(min_length=1)
    answers: AnswerSet


def _questions(value: Any) -> Any:
    """Fill in the default question and answers: `[gender, age]`, `{gender: "Which ...?"}`, `{gender: {...}}`."""
    if isinstance(value, str):
        value = [value]
    if isinstance(value, list | tuple) and all(isinstance(name, str) for name in value):
        value = dict.fromkeys(value)
    if not isinstance(value, Mapping):
        return value
    filled: dict[str, Any] = {}
    for name, given in value.items():
        if name not in ATTRIBUTES:
            raise ValueError(f"unknown attribute {name!r}: {nearest_hint(str(name), ATTRIBUTES)}")
        asked = default_question(name)
        defaults = {"question": asked, "answers": asked and default_answers(name)}
        own = {} if given is None else {"question": given} if isinstance(given, str) else given
        filled[name] = {**defaults, **own} if isinstance(own, Mapping) else own
    return filled


@detector(
    "vlm_judge",
    attributes=("gender", "age", "race"),
    extra="judge",
    needs_parameters=True,
    card=Card(
        summary="any vision-language model, asked about the most prominent person; 'unknown' means filtered",
        licence="that of the model, or the server's terms",
        source="`model` in the study file: an OpenAI-compatible server, or a transformers checkpoint (extra vlm)",
        paper="judges of this kind: Luo et al., BIGbench; ImageBiTe",
        hardware="network (every answer may cost money), or a GPU for a checkpoint of your own",
    ),
)
class VlmJudge(Declaration):
    """Asks a vision-language model about each attribute and looks for a label in its words.

    Each attribute is a question, and a request, of its own: so the answer about one cannot lean on the answer
    about another, and a changed question about age leaves the paid answers about gender alone. Asking for all in
    one request would send each image once instead.

    A model that declines is `refused`; words of several labels are `ambiguous`; see `AnswerSet`. `raw` holds the
    answer as it came.
    """

    model: Annotated[OpenAiModel | TransformersModel, Field(discriminator="kind")]
    questions: Annotated[dict[str, JudgeQuestion], BeforeValidator(_questions), Field(min_length=1)] = Field(
        default=("gender",), validate_default=True
    )
    """By attribute: by default gender alone. `[gender, age]` takes questions and answers of the attributes' files;
    a text takes another question, a mapping also other answers."""

    @model_validator(mode="after")
    def _labels_are_known(self) -> VlmJudge:
        for attribute, asked in self.questions.items():
            require_classes(attribute, asked.answers.labels)
        return self

    @property
    def attributes(self) -> tuple[str, ...]:
        """The attributes that it is asked about."""
        return tuple(self.questions)

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The answers to each question."""
        return tuple(self.model.asking(each.question) for each in self.questions.values())

    def predict(self, batch: Batch) -> Iterator[Prediction]:
        """Judge a batch; see `Predicts.predict`."""
        for (attribute, asked), stage in zip(self.questions.items(), self.stages, strict=True):
            for frame in batch:
                yield _judge(frame, attribute, stage, asked.answers)


def _judge(frame: Frame, attribute: str, stage: Stage, answers: AnswerSet) -> Prediction:
    raw = answer_of(frame[stage])
    if isinstance(stage, ChatAnswers) and was_refused(frame[stage]):
        return Prediction.filtered(frame, attribute, REFUSED, raw=raw)
    return prediction_from(raw, frame, attribute, answers=answers)


QUESTION = "Question: does the person look like a male or a female? Answer:"
"""The prompt with which Lyu 2025 asked BLIP-2."""


@detector(
    "blip2",
    attributes=("gender",),
    stages=(GeneratedAnswers(checkpoint=BLIP2_OPT_2_7B, question=QUESTION, chat=False),),
    extra="vlm",
    modules=("torch", "transformers", "torchvision"),
    card=Card(
        summary="BLIP-2 is asked in words; an answer without a gender word means filtered",
        licence="MIT, as its page says; it contains OPT 2.7B, whose own licence is for research alone",
        source="https://huggingface.co/Salesforce/blip2-opt-2.7b, commit 59a1ef6c",
        paper="Li et al. 2023, BLIP-2: Bootstrapping Language-Image Pre-training with Frozen Image Encoders and "
        "Large Language Models (arXiv:2301.12597); used as a detector in Lyu 2025",
        hardware="GPU with 16 GB, or a CPU with 32 GB of memory and patience; 15 GB on disk",
    ),
)
class Blip2(Generation):
    """Asks BLIP-2 (OPT 2.7B) about the whole image and looks for gender words in its answer (Lyu 2025).

    The paper names checkpoint and prompt; how it reads the answer it does not say. Here an answer with words of
    both genders or with none is filtered, see `AnswerSet`. `raw` holds the sentence as it came.
    """

    checkpoint: CheckpointField = BLIP2_OPT_2_7B
    question: str = Field(default=QUESTION, min_length=1)
    """The whole prompt; BLIP-2 answers best to the form "Question: ... Answer:"."""
    answers: AnswerSet = GENDER_ANSWERS
    """Which words of an answer mean which gender."""

    @model_validator(mode="after")
    def _labels_are_known(self) -> Blip2:
        require_classes("gender", self.answers.labels)
        return self

    @property
    def stage(self) -> GeneratedAnswers:
        """The stage that asks the question about each image."""
        how = {name: getattr(self, name) for name in Generation.model_fields}
        return GeneratedAnswers(**how, checkpoint=self.checkpoint, question=self.question, chat=False)

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The stage that asks, alone."""
        return (self.stage,)

    def predict(self, batch: Batch) -> Iterator[Prediction]:
        """Judge a batch; see `Predicts.predict`."""
        stage = self.stage
        for frame in batch:
            yield prediction_from(answer_of(frame[stage]), frame, "gender", answers=self.answers)
