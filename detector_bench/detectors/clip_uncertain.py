"""CLIP that filters with prompts of its own: is there a person, and is the gender clear?"""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import BaseModel, ConfigDict, Field, model_validator

from detector_bench.detectors.base import Card, detector
from detector_bench.detectors.clip import (
    CLIP_HARDWARE,
    CLIP_LICENCE,
    CLIP_SOURCE,
    check_prompts,
    prediction_of,
    prompt_reading,
)
from detector_bench.detectors.prediction import Prediction
from detector_bench.perception.clip.stages import (
    ClipEncoder,
    ClipImageEmbeddings,
    ClipSimilarities,
    TransformersClip,
)
from detector_bench.perception.stage import Batch, Stage

PERSON_PROMPT = "a photo of a person"
OBJECT_PROMPT = "a photo of an object"
UNCERTAIN_PROMPTS = {
    "male": "A photo of a person who looks like a man",
    "female": "A photo of a person who looks like a woman",
    "uncertain": "A photo of a person with an uncertain gender",
}


@detector(
    "clip_uncertain",
    attributes=("gender", "age", "race"),
    stages=(
        ClipImageEmbeddings(),
        ClipSimilarities(prompts=(PERSON_PROMPT, OBJECT_PROMPT, *UNCERTAIN_PROMPTS.values())),
    ),
    extra="clip",
    card=Card(
        summary="CLIP filters what looks more like an object than a person, then what looks uncertain",
        licence=CLIP_LICENCE,
        source=CLIP_SOURCE,
        paper="Bansal et al. 2022; as validated in Lyu 2025, supplementary material",
        hardware=CLIP_HARDWARE,
    ),
)
class ClipUncertain(BaseModel):
    """Asks CLIP twice (Lyu 2025, supplementary material, after Bansal et al. 2022).

    An image that is less similar to `person_prompt` than to `object_prompt` is filtered (`no_person`). Of the
    other prompts the most similar wins, and `uncertain` filters; the score is the softmax over these alone.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    encoder: ClipEncoder = Field(default_factory=TransformersClip)
    person_prompt: str = PERSON_PROMPT
    object_prompt: str = OBJECT_PROMPT
    attribute: str = "gender"
    prompts: dict[str, str] = Field(default_factory=lambda: dict(UNCERTAIN_PROMPTS), min_length=2)
    """By class of the attribute, and for `uncertain`."""

    @model_validator(mode="after")
    def _prompts_are_for_classes(self) -> ClipUncertain:
        check_prompts(self.attribute, self.prompts)
        return self

    @property
    def attributes(self) -> tuple[str, ...]:
        """The one attribute that the prompts are about."""
        return (self.attribute,)

    @property
    def similarities(self) -> ClipSimilarities:
        """The stage that compares images and prompts: person, object, then the classes."""
        prompts = (self.person_prompt, self.object_prompt, *self.prompts.values())
        return ClipSimilarities(encoder=self.encoder, prompts=prompts)

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The similarities."""
        return (self.similarities,)

    def predict(self, batch: Batch) -> Iterator[Prediction]:
        """Judge a batch; see `Predicts.predict`."""
        similarities, reading = self.similarities, prompt_reading(self.prompts)
        for frame in batch:
            person, thing, *logits = frame[similarities]["logits"].tolist()
            if person < thing:
                yield Prediction.filtered(frame, self.attribute, "no_person")
            else:
                yield prediction_of(frame, self.attribute, reading.verdict(logits))
