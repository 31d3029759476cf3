"""BLIP-2, asked in words whether the person looks male or female."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field, model_validator

from detector_bench.detectors.answer_reading import GENDER_ANSWERS, AnswerSet, prediction_from, require_classes
from detector_bench.detectors.base import Card, detector
from detector_bench.detectors.prediction import Prediction
from detector_bench.perception.answers.generated_answers import GeneratedAnswers, Generation, answer_of
from detector_bench.perception.stage import Batch, Stage
from detector_bench.weights.catalogue import BLIP2_OPT_2_7B
from detector_bench.weights.checkpoints import CheckpointField

QUESTION = "Question: does the person look like a male or a female? Answer:"
"""Lyu 2025's prompt."""


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
        require_classes("gender", self.answers)
        return self

    @property
    def stage(self) -> GeneratedAnswers:
        """The stage that asks."""
        how = {name: getattr(self, name) for name in Generation.model_fields}
        return GeneratedAnswers(**how, checkpoint=self.checkpoint, question=self.question, chat=False)

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The answers."""
        return (self.stage,)

    def predict(self, batch: Batch) -> Iterator[Prediction]:
        """Judge a batch; see `Predicts.predict`."""
        stage = self.stage
        for frame in batch:
            yield prediction_from(answer_of(frame[stage]), frame, "gender", answers=self.answers)
