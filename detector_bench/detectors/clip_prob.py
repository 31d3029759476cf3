"""CLIP with two filters: no face, and too little confidence."""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import BaseModel, ConfigDict, Field, model_validator

from detector_bench.detectors.base import Card, detector
from detector_bench.detectors.clip import (
    CLIP_HARDWARE,
    CLIP_LICENCE,
    CLIP_SOURCE,
    CLIP_STAGES,
    GENDER_PROMPTS,
    Clip,
    check_prompts,
)
from detector_bench.detectors.filters import FaceFilter
from detector_bench.detectors.prediction import Prediction
from detector_bench.perception.clip.stages import ClipEncoder, TransformersClip
from detector_bench.perception.faces.yunet import YuNetFaces
from detector_bench.perception.stage import Batch, Stage, StageField


@detector(
    "clip_prob",
    attributes=("gender", "age", "race"),
    stages=(*CLIP_STAGES, YuNetFaces()),
    extra="clip",
    card=Card(
        summary="a face must be found, and CLIP must be sure of one of two prompts (0.90), else filtered",
        licence=CLIP_LICENCE,
        source=CLIP_SOURCE,
        paper="Seshadri et al. 2023; as validated in Lyu 2025, supplementary material",
        hardware=CLIP_HARDWARE,
    ),
)
class ClipProb(BaseModel):
    """Filters images without a face (`no_face`), then those that CLIP is not sure of (`uncertain`).

    CLIP is sure if the softmax over the prompts reaches 0.90. Known divergence: Lyu 2025 has MediaPipe find faces,
    as does `faces: mediapipe_faces`; the default, YuNet, is light and needs no further package.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    encoder: ClipEncoder = Field(default_factory=TransformersClip)
    faces: StageField = Field(default_factory=YuNetFaces)
    """Any face stage."""
    attribute: str = "gender"
    prompts: dict[str, str] = Field(default_factory=lambda: dict(GENDER_PROMPTS), min_length=2)
    """By class of the attribute."""
    min_score: float = Field(default=0.9, ge=0, le=1)
    """The probability that the winner must reach."""

    @model_validator(mode="after")
    def _prompts_are_for_classes(self) -> ClipProb:
        check_prompts(self.attribute, self.prompts)
        return self

    @property
    def steps(self) -> Clip:
        """The same in the general form."""
        return Clip(
            encoder=self.encoder,
            attribute=self.attribute,
            prompts=self.prompts,
            filters=(FaceFilter(faces=self.faces),),
            min_score=self.min_score,
        )

    @property
    def attributes(self) -> tuple[str, ...]:
        """The one attribute that the prompts are about."""
        return (self.attribute,)

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The similarities and the faces."""
        return self.steps.stages

    def predict(self, batch: Batch) -> Iterable[Prediction]:
        """Judge a batch; see `Predicts.predict`."""
        return self.steps.predict(batch)
