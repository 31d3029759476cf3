"""CLIP as a classifier: whichever prompt an image is most similar to names its class.

`clip` filters nothing; `clip_prob` filters images without a face and unsure answers; `clip_uncertain` filters with
prompts of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from detector_bench.detectors.base import Card, Prediction, detector, require_classes
from detector_bench.detectors.calibrated import Calibrated
from detector_bench.detectors.filters import FaceFilter, Filter, first_reason
from detector_bench.detectors.reading import UNCERTAIN, ClassReading, NetworkVerdict, verdict_of
from detector_bench.errors import ConfigError
from detector_bench.perception.boxes import Crop
from detector_bench.perception.clip.stages import (
    ClipEncoder,
    ClipImageEmbeddings,
    ClipSimilarities,
    PromptTexts,
    TransformersClip,
)
from detector_bench.perception.faces.small_networks import YuNetFaces
from detector_bench.perception.stage import ADDED_LATER, Arrays, Batch, Frame, Stage, StageField
from detector_bench.vocabulary import ATTRIBUTES

GENDER_PROMPTS: dict[str, PromptTexts] = {"male": "a photo of a male", "female": "a photo of a female"}
"""Lyu 2025, supplementary material, after Cho 2023 and others."""

CLIP_LICENCE = "weights: not stated by their authors; code: MIT (OpenAI's CLIP), Apache-2.0 (transformers)"
CLIP_SOURCE = "https://huggingface.co/openai/clip-vit-large-patch14"
CLIP_HARDWARE = "a GPU; on 2 CPU cores about 1.5 s per image with ViT-L/14"
CLIP_STAGES = (ClipImageEmbeddings(), ClipSimilarities(prompts=tuple(GENDER_PROMPTS.values())))


class PromptsOfClip(Calibrated):
    """What all of CLIP's classifiers are told: which network, which attribute, and a prompt for each class; and
    what their scores are worth."""

    encoder: ClipEncoder = Field(default_factory=TransformersClip)
    attribute: str = "gender"
    prompts: dict[str, PromptTexts] = Field(default_factory=GENDER_PROMPTS.copy, min_length=2)
    """By class of the attribute: a prompt, or several that are averaged (see `ClipSimilarities`); an image that
    the prompt of `uncertain` wins is filtered."""
    templates: tuple[str, ...] = Field(default=(), json_schema_extra=ADDED_LATER)
    """Texts with `{}`, such as `a photo of a {}`: each of a class's prompts is put into each of them. Without
    templates prompts are whole texts."""

    @model_validator(mode="after")
    def _prompts_are_for_classes(self) -> Self:
        check_prompts(self.attribute, self.prompts)
        for template in self.templates:
            if template.count("{}") != 1:
                raise ValueError(f"a template has one `{{}}`, where the prompt goes; got {template!r}")
        return self

    @property
    def texts(self) -> tuple[PromptTexts, ...]:
        """What CLIP reads for each class, in the order of `prompts`: a text, or the texts that are averaged."""
        return tuple(filled(prompts, self.templates) for prompts in self.prompts.values())

    @property
    def attributes(self) -> tuple[str, ...]:
        """The one attribute that the prompts are about."""
        return (self.attribute,)

    def reading(
        self, *, min_score: float = 0.0, activation: Literal["softmax", "sigmoid"] = "softmax"
    ) -> ClassReading:
        """How numbers in the prompts' order become a verdict: the largest wins, of logits or of `sigmoids`."""
        return ClassReading(
            output="logits",
            classes=tuple(self.prompts),
            activation="softmax" if activation == "softmax" else "none",
            min_score=min_score,
            calibration=self.calibration,
            abstain=self.abstain,
        )


@detector(
    "clip",
    attributes=("gender", "age", "race"),
    stages=CLIP_STAGES,
    extra="clip",
    card=Card(
        summary="CLIP ViT-L/14 with one prompt per class, the most similar wins; filters nothing",
        licence=CLIP_LICENCE,
        source=CLIP_SOURCE,
        paper="Radford et al. 2021 (arXiv 2103.00020); as a gender detector in Lyu 2025, supplementary material",
        hardware=CLIP_HARDWARE,
    ),
)
class Clip(PromptsOfClip):
    """Judges an image by the prompt it is most similar to; the score is the softmax over the prompts.

    As Lyu 2025 has it, every image is clear: no filters, the whole image. With `filters`, `crop`, `min_score` and
    a prompt for `uncertain` it is the general form, of which other CLIP detectors are cases.
    """

    crop: Crop = Field(default_factory=Crop)
    filters: tuple[Filter, ...] = ()
    min_score: float = Field(default=0.0, ge=0, le=1)
    """A winner below this probability is `uncertain`: the image is filtered."""
    activation: Literal["softmax", "sigmoid"] = Field(default="softmax", json_schema_extra=ADDED_LATER)
    """What the score is. `softmax` over the prompts: how much better the winner fits than the others. `sigmoid`,
    of networks that were trained with one (SigLIP): how well it fits at all, so that `min_score` filters images
    that fit no prompt. The same prompt wins either way."""

    @property
    def similarities(self) -> ClipSimilarities:
        """The stage that compares images and prompts."""
        return ClipSimilarities(encoder=self.encoder, crop=self.crop, prompts=self.texts)

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The similarities, and what filters, crop and reading need."""
        filters = (each.stage() for each in self.filters)
        calibration = self.calibration_stages(self.attribute)
        return (self.similarities, *filters, *self.crop.inputs(), *calibration)

    def predict(self, batch: Batch) -> Iterator[Prediction]:
        """Judge a batch; see `Predicts.predict`."""
        similarities = self.similarities
        reading = self.reading(min_score=self.min_score, activation=self.activation)
        for frame in batch:
            found = frame[similarities]
            reason = first_reason(self.filters, frame)
            if reason is None and not found:
                reason = self.crop.missing_reason
            if reason is not None:
                yield Prediction.filtered(frame, self.attribute, reason)
            else:
                numbers = found["logits"] if self.activation == "softmax" else sigmoids(found)
                yield prediction_of(frame, self.attribute, verdict_of(reading, frame, self.attribute, numbers))


def filled(prompts: PromptTexts, templates: Sequence[str]) -> PromptTexts:
    """Every prompt in every template; without templates the prompts as they are, a single one as a bare text."""
    each = (prompts,) if isinstance(prompts, str) else prompts
    texts = tuple(template.replace("{}", text) for text in each for template in templates) or each
    return texts[0] if len(texts) == 1 else texts


def check_prompts(attribute: str, prompts: Mapping[str, PromptTexts]) -> None:
    """Check that prompts are for classes of an attribute, or for `uncertain`.

    Raises:
        ValueError: unknown attribute or class, or only one class: then every image shows it.
    """
    require_classes(attribute, ())
    classes = ATTRIBUTES[attribute].classes
    unknown = [label for label in prompts if label not in (*classes, UNCERTAIN)]
    if unknown:
        accepted = ", ".join((*classes, UNCERTAIN))
        raise ValueError(f"a prompt for {unknown[0]!r}, which is no class of {attribute!r} (accepted: {accepted})")
    if len(set(prompts) - {UNCERTAIN}) < 2:
        raise ValueError(f"prompts for at least two classes of {attribute!r} are needed; got {list(prompts)}")


def sigmoids(similarities: Arrays) -> NDArray[np.float64]:
    """The probability of each prompt by itself that it belongs to the image, (prompts,).

    Raises:
        ConfigError: the network was not trained with a sigmoid.
    """
    if "logit_bias" not in similarities:
        raise ConfigError(
            "`activation: sigmoid` needs a network that was trained with one, such as SigLIP; this one has no "
            "logit bias (accepted: softmax)"
        )
    logits = np.asarray(similarities["logits"], np.float64) + float(similarities["logit_bias"])
    # The hyperbolic tangent gives the sigmoid without an overflow on the way.
    return np.asarray((1 + np.tanh(logits / 2)) / 2)


def prediction_of(frame: Frame, attribute: str, verdict: NetworkVerdict) -> Prediction:
    """A clear prediction, or one filtered as `uncertain`."""
    if verdict.uncertain:
        return Prediction.filtered(frame, attribute, UNCERTAIN, score=verdict.score)
    return Prediction.clear(frame, attribute, verdict.label, score=verdict.score, value=verdict.value)


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
class ClipProb(PromptsOfClip):
    """Filters images without a face (`no_face`), then those that CLIP is not sure of (`uncertain`).

    CLIP is sure if the softmax over the prompts reaches 0.90. Known divergence: Lyu 2025 has MediaPipe find faces,
    as does `faces: mediapipe_faces`; the default, YuNet, is light and needs no further package.
    """

    faces: StageField = Field(default_factory=YuNetFaces)
    """The stage that finds faces; any one will do."""
    min_score: float = Field(default=0.9, ge=0, le=1)
    """The probability that the winner must reach."""

    @property
    def steps(self) -> Clip:
        """The same in the general form."""
        return Clip(
            encoder=self.encoder,
            attribute=self.attribute,
            prompts=self.prompts,
            templates=self.templates,
            calibration=self.calibration,
            abstain=self.abstain,
            filters=(FaceFilter(faces=self.faces),),
            min_score=self.min_score,
        )

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The stage that compares images and prompts, and the one that finds faces."""
        return self.steps.stages

    def predict(self, batch: Batch) -> Iterable[Prediction]:
        """Judge a batch; see `Predicts.predict`."""
        return self.steps.predict(batch)


PERSON_PROMPT = "a photo of a person"
OBJECT_PROMPT = "a photo of an object"
UNCERTAIN_PROMPTS: dict[str, PromptTexts] = {
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
class ClipUncertain(PromptsOfClip):
    """Asks CLIP twice (Lyu 2025, supplementary material, after Bansal et al. 2022).

    An image that is less similar to `person_prompt` than to `object_prompt` is filtered (`no_person`). Of the
    other prompts the most similar wins, and `uncertain` filters; the score is the softmax over these alone.
    """

    person_prompt: str = PERSON_PROMPT
    object_prompt: str = OBJECT_PROMPT
    prompts: dict[str, PromptTexts] = Field(default_factory=UNCERTAIN_PROMPTS.copy, min_length=2)
    """By class of the attribute, and for `uncertain`."""

    @property
    def similarities(self) -> ClipSimilarities:
        """The stage that compares images and prompts: person, object, then the classes."""
        prompts = (self.person_prompt, self.object_prompt, *self.texts)
        return ClipSimilarities(encoder=self.encoder, prompts=prompts)

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The stage that compares images and prompts."""
        return (self.similarities, *self.calibration_stages(self.attribute))

    def predict(self, batch: Batch) -> Iterator[Prediction]:
        """Judge a batch; see `Predicts.predict`."""
        similarities, reading = self.similarities, self.reading()
        for frame in batch:
            person, thing, *logits = frame[similarities]["logits"].tolist()
            if person < thing:
                yield Prediction.filtered(frame, self.attribute, "no_person")
            else:
                verdict = verdict_of(reading, frame, self.attribute, np.asarray(logits))
                yield prediction_of(frame, self.attribute, verdict)
