"""Vision-language models as detectors: any one (`vlm_judge`), and BLIP-2 as Lyu 2025 asks it (`blip2`)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

from pydantic import BeforeValidator, Field, model_validator

from detector_bench.declarations import Declaration
from detector_bench.detectors.answer_parts import (
    Person,
    UnreadableAnswerError,
    joint_part,
    joint_question,
    side_part,
)
from detector_bench.detectors.answer_reading import (
    AMBIGUOUS,
    GENDER_ANSWERS,
    NO_ANSWER,
    WHOLE,
    AnswerSet,
    default_answers,
    prediction_from,
)
from detector_bench.detectors.answer_scores import label_score
from detector_bench.detectors.base import Card, Prediction, detector, require_classes
from detector_bench.detectors.judge_presets import Asking, PresetName, Reasoning, with_preset
from detector_bench.detectors.reading import UNCERTAIN
from detector_bench.errors import nearest_hint
from detector_bench.perception.answers.chat_answers import ChatAnswers, was_refused
from detector_bench.perception.answers.chat_endpoint import ChatEndpoint
from detector_bench.perception.answers.generated_answers import GeneratedAnswers, Generation, answer_of
from detector_bench.perception.answers.token_choices import places_in
from detector_bench.perception.stage import ADDED_LATER, DESCRIPTIVE, Arrays, Batch, Frame, Stage
from detector_bench.vocabulary import ATTRIBUTES, Status
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


REASONS: Mapping[Reasoning, str] = {
    "before": "Before you answer: describe in a few sentences what of the picture tells about the following, and "
    "what speaks against it. Do not answer yet.",
    "after": "Why did you answer so? Name in a few sentences what in the picture you went by.",
}
"""What a judge is asked about its reasons; before the answer, the question itself follows."""


class OpenAiModel(ChatEndpoint):
    """A model behind a server that speaks OpenAI's chat completions protocol: hosted, vLLM, Ollama."""

    kind: Literal["openai"]

    def asking(self, question: str, *, earlier: Stage | None = None) -> ChatAnswers:
        """The stage that asks a question, behind those of an earlier turn."""
        how = {name: getattr(self, name) for name in ChatEndpoint.model_fields}
        return ChatAnswers(**how, question=question, earlier=earlier)


class TransformersModel(Generation):
    """An image-text-to-text checkpoint of transformers on this machine."""

    kind: Literal["transformers"]
    checkpoint: CheckpointField
    chat: bool = True
    """Put the question into the checkpoint's chat template; see `GeneratedAnswers`."""

    def asking(self, question: str, *, earlier: Stage | None = None) -> GeneratedAnswers:
        """The stage that asks a question, behind those of an earlier turn."""
        how = {name: getattr(self, name) for name in Generation.model_fields}
        asked = {"checkpoint": self.checkpoint, "question": question, "chat": self.chat}
        return GeneratedAnswers(**how, **asked, earlier=earlier)


class _Turns(NamedTuple):
    """What a judge is asked about one attribute."""

    answer: Stage
    reasons: Stage | None


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
    about another, and a changed question about age leaves the paid answers about gender alone. `asking: together`
    asks for all in one request, and sends each image once; `in_turn` in one conversation, as BIGbench does.

    With `reasoning` it also says what it sees, in a turn before the answer, or why it answered so, in one behind.

    A model that declines is `refused`; words of several labels are `ambiguous`; see `AnswerSet`. `raw` holds the
    answer as it came. With `top_logprobs` in `model` a clear verdict has a score, see `answer_scores`.
    """

    model: Annotated[OpenAiModel | TransformersModel, Field(discriminator="kind")]
    questions: Annotated[dict[str, JudgeQuestion], BeforeValidator(_questions), Field(min_length=1)] = Field(
        default=("gender",), validate_default=True
    )
    """By attribute: by default gender alone. `[gender, age]` takes questions and answers of the attributes' files;
    a text takes another question, a mapping also other answers."""
    preset: PresetName | None = Field(default=None, json_schema_extra=DESCRIPTIVE)
    """Take over a benchmark's questions and how it asks; `questions` may choose among them and reword them."""
    asking: Asking = Field(default="apart", json_schema_extra=ADDED_LATER)
    """Each question in a request of its own, all `together` in one, or `in_turn` in one conversation."""
    reasoning: Reasoning = Field(default="none", json_schema_extra=ADDED_LATER)
    """`before` the answer, which may then rest on it, or `after` it, which cannot change it; a request each. `raw`
    then holds both, word for word, as JSON: {"answer": ..., "reasoning": ...}."""
    reasoning_question: str | None = Field(default=None, min_length=1, json_schema_extra=ADDED_LATER)
    """What is asked about the reasons; None: see `REASONS`."""
    person: Person = Field(default="most_prominent", json_schema_extra=ADDED_LATER)
    """Of an answer about two people ("the left person is ... and the right person is ..."), whose part counts."""
    fails_without_score: ClassVar[bool] = True
    """Once there is a threshold."""
    min_score: float = Field(default=0.0, ge=0, le=1, json_schema_extra=ADDED_LATER)
    """A label with a lower score is `uncertain`: the image is filtered. A label without one is an error then."""

    @model_validator(mode="before")
    @classmethod
    def _with_preset(cls, given: Any) -> Any:
        return with_preset(given) if isinstance(given, Mapping) else given

    @model_validator(mode="after")
    def _labels_are_known(self) -> VlmJudge:
        for attribute, asked in self.questions.items():
            require_classes(attribute, asked.answers.labels)
        return self

    @model_validator(mode="after")
    def _conversations_are_chats(self) -> VlmJudge:
        if isinstance(self.model, TransformersModel) and not self.model.chat:
            for key, value, alone in (("asking", self.asking, "in_turn"), ("reasoning", self.reasoning, None)):
                if value == alone or (alone is None and value != "none"):
                    raise ValueError(f"{key}: {value!r} needs a chat template (model.chat: true)")
        if self.reasoning_question is not None and self.reasoning == "none":
            raise ValueError("reasoning_question goes with reasoning: before, or after")
        return self

    @model_validator(mode="after")
    def _scores_are_asked_for(self) -> VlmJudge:
        require_scores(self.min_score, self.model)
        return self

    @property
    def attributes(self) -> tuple[str, ...]:
        """The attributes that it is asked about."""
        return tuple(self.questions)

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The answers to each question, and the reasons; of questions that are asked together there is one."""
        turns = [stage for asked in self._turns_of.values() for stage in (asked.reasons, asked.answer)]
        return tuple(dict.fromkeys(stage for stage in turns if stage is not None))

    @property
    def _turns_of(self) -> dict[str, _Turns]:
        texts = {attribute: each.question for attribute, each in self.questions.items()}
        if self.asking == "together":
            return dict.fromkeys(texts, self._turns(joint_question(texts), None))
        found: dict[str, _Turns] = {}
        earlier: Stage | None = None
        for attribute, text in texts.items():
            found[attribute] = self._turns(text, earlier)
            earlier = found[attribute].answer if self.asking == "in_turn" else None
        return found

    def _turns(self, question: str, earlier: Stage | None) -> _Turns:
        asked = self.reasoning_question or REASONS.get(self.reasoning, "")
        if self.reasoning == "before":
            reasons = self.model.asking(f"{asked}\n\n{question}", earlier=earlier)
            return _Turns(self.model.asking(question, earlier=reasons), reasons)
        answer = self.model.asking(question, earlier=earlier)
        return _Turns(answer, self.model.asking(asked, earlier=answer) if self.reasoning == "after" else None)

    def predict(self, batch: Batch) -> Iterator[Prediction]:
        """Judge a batch; see `Predicts.predict`."""
        for attribute, turns in self._turns_of.items():
            for frame in batch:
                found = self._verdict(frame, attribute, turns.answer)
                if turns.reasons is not None:
                    said = {"answer": answer_of(frame[turns.answer]), "reasoning": answer_of(frame[turns.reasons])}
                    found = replace(found, raw=json.dumps(said, ensure_ascii=False))
                yield found

    def _verdict(self, frame: Frame, attribute: str, stage: Stage) -> Prediction:
        raw = answer_of(frame[stage])
        if isinstance(stage, ChatAnswers) and was_refused(frame[stage]):
            return Prediction.filtered(frame, attribute, REFUSED, raw=raw)
        answers = self.questions[attribute].answers
        try:
            part = self._part_of(raw, attribute)
        except UnreadableAnswerError as error:
            return _unreadable(frame, attribute, raw, str(error))
        if part is None:
            return self._verdict_on_words(frame, attribute, raw)
        found = prediction_from(raw, frame, attribute, answers=answers, within=part)

        def part_of(said: str) -> slice | None:
            try:
                return self._part_of(said, attribute)
            except UnreadableAnswerError:
                return None

        return scored(
            found, frame[stage], answers=answers, part_of=part_of, min_score=self.min_score, asked=self._scores
        )

    @property
    def _scores(self) -> bool:
        return self.model.top_logprobs is not None

    def _part_of(self, text: str, attribute: str) -> slice | None:
        """The part of an answer about an attribute of the person; None: it does not say which part that is."""
        part: slice | None = WHOLE
        if self.asking == "together":
            part = joint_part(text, attribute, asked=self.attributes)
        if part is None or self.person == "most_prominent":
            return part
        offset = part.start or 0
        side = side_part(text[part], self.person)
        return None if side is None else slice(side.start + offset, side.stop + offset)

    def _verdict_on_words(self, frame: Frame, attribute: str, raw: str) -> Prediction:
        """An answer that is not in the form that was asked for may still say that it cannot be told."""
        label, reason = self.questions[attribute].answers.read(raw)
        if label is None and reason not in (None, AMBIGUOUS):
            return Prediction.filtered(frame, attribute, reason or NO_ANSWER, raw=raw)
        return _unreadable(frame, attribute, raw, "it is not in the form that was asked for")


def _unreadable(frame: Frame, attribute: str, raw: str, why: str) -> Prediction:
    return Prediction(frame.image_id, attribute, Status.ERROR, reason=f"invalid_answer: {why}", raw=raw)


def require_scores(min_score: float, model: ChatEndpoint | Generation) -> None:
    """Check that scores are asked for where verdicts depend on them.

    Raises:
        ValueError: they are not.
    """
    if min_score > 0 and model.top_logprobs is None:
        raise ValueError(
            f"min_score: {min_score:g} needs scores; set `top_logprobs: 20` (of `model`, where there is one)"
        )


def scored(
    found: Prediction,
    result: Arrays,
    *,
    answers: AnswerSet,
    min_score: float,
    asked: bool,
    part_of: Callable[[str], slice | None] = lambda text: WHOLE,  # noqa: ARG005
) -> Prediction:
    """A verdict with its score, if scores are asked for; filtered where that is too low."""
    if not asked or found.label is None:
        return found
    score = label_score(found.label, places_in(result), answers=answers, part_of=part_of)
    if score is None and min_score > 0:
        reason = "no_score: no log-probabilities came with the answer, or none for its words"
        return replace(found, status=Status.ERROR, label=None, reason=reason)
    if score is not None and score < min_score:
        return replace(found, status=Status.FILTERED, label=None, reason=UNCERTAIN, score=score)
    return replace(found, score=score)


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
    fails_without_score: ClassVar[bool] = True
    """Once there is a threshold."""
    min_score: float = Field(default=0.0, ge=0, le=1, json_schema_extra=ADDED_LATER)
    """A label with a lower score is `uncertain`: the image is filtered; needs `top_logprobs`."""

    @model_validator(mode="after")
    def _labels_are_known(self) -> Blip2:
        require_classes("gender", self.answers.labels)
        require_scores(self.min_score, self)
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
            found = prediction_from(answer_of(frame[stage]), frame, "gender", answers=self.answers)
            asked = self.top_logprobs is not None
            yield scored(found, frame[stage], answers=self.answers, min_score=self.min_score, asked=asked)
