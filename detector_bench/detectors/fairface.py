"""FairFace: gender, age and race of the largest face."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from detector_bench.detectors.base import Card, Prediction, detector
from detector_bench.detectors.filters import Filter, first_reason
from detector_bench.detectors.reading import NetworkVerdict, read_words, softmax
from detector_bench.perception.faces.aligned_faces import AlignedFaces
from detector_bench.perception.faces.dlib_cnn_stages import DlibCnnOnnxFaces
from detector_bench.perception.faces.dlib_resizing import LongestSide
from detector_bench.perception.networks.fairface_outputs import FairfaceOutputs
from detector_bench.perception.stage import ADDED_LATER, Batch, Stage, StageField
from detector_bench.perception.torch_settings import Precision, TorchSettings
from detector_bench.vocabulary.taxonomies import Mapping, mapping_named
from detector_bench.weights.catalogue import FAIRFACE_RACE4, FAIRFACE_RACE7
from detector_bench.weights.files import WeightsField


class OutputPart(NamedTuple):
    """One attribute in the network's output: where it begins, and what FairFace's words in their order mean."""

    first: int
    mapping: Mapping


GENDER = OutputPart(7, mapping_named("fairface_gender2_to_gender"))
AGE = OutputPart(9, mapping_named("fairface_age9_to_age"))
RACE7 = OutputPart(0, mapping_named("fairface_race7_to_race"))
RACE4 = {
    "east_asian": OutputPart(0, mapping_named("fairface_race4_to_race")),
    "southeast_asian": OutputPart(0, mapping_named("fairface_race4_to_race_asian_as_southeast_asian")),
}
"""By what "Asian" is counted as."""


@detector(
    "fairface",
    attributes=("gender", "age", "race"),
    stages=(FairfaceOutputs(),),
    extra="fairface",
    modules=("dlib",),
    version=2,  # an age has years beside its group
    card=Card(
        summary="dlib's CNN faces, aligned, and FairFace's ResNet-34: gender, 3 age groups, 7 or 4 races",
        licence="CC-BY-4.0 (stated for the data; none is stated for the weights); dlib's networks CC0-1.0",
        source="https://github.com/dchen236/FairFace",
        paper="Kärkkäinen and Joo, FairFace, arXiv:1908.04913; validated in Lyu 2025",
        hardware="CPU, about 1.3 s per image on 2 cores, nearly all for dlib's faces; faster on a GPU",
    ),
)
class Fairface(TorchSettings):
    """Judges one face per image as FairFace's published program does.

    The image is resized to a longer side of 800 pixels; dlib's CNN finds faces, upsampled once; the largest one is
    aligned and cut out at 300 pixels (padding 0.25); one pass of the ResNet-34 gives gender, age and race, with a
    softmax over each of the three. No face means `no_face`.

    The label is that of FairFace's likeliest word; the score is the probability of that label. For age, the label
    is the group of the likeliest of nine bins (0-29 young, 30-59 middle-aged, 60 and over elderly), and the score
    adds up the bins of that group: where another group adds up to more, it can lie below one half. The value is
    what the bins average to in years, coarse as they are (75 stands for "70+"). `raw` keeps FairFace's words and
    their probabilities. `AlignedFaces` tells where the program and this detector differ.

    With `races: 4`, race alone is read from the four-race network, gender and age from the seven-race one, as the
    authors' program does: two passes. Both fields may name one file; then it is a single pass.
    """

    faces: StageField = Field(default_factory=lambda: DlibCnnOnnxFaces(upsample=1, longest_side=800))
    longest_side: LongestSide = 800
    """The longer side of the image that the face is cut from."""
    face: Literal["largest", "surest"] = "largest"
    """Which of several faces is judged."""
    chips: StageField | None = Field(default=None, json_schema_extra=ADDED_LATER)
    """The stage that cuts faces out, in place of the three fields above: `whole_image` for images of faces that
    are cut out and aligned already."""
    races: Literal[7, 4] = 7
    network: WeightsField = FAIRFACE_RACE7
    """Gender and age are read from it, and with `races: 7` race."""
    race_network: WeightsField | None = None
    """With `races: 4`, the network that race is read from; by default the authors' four-race file."""
    asian_as: Literal["east_asian", "southeast_asian"] = "east_asian"
    """With `races: 4`: the class that "Asian" is counted as. FairFace means East and Southeast Asian by it, so
    people from the other of the two regions get a wrong label; with `races: 7` the two are apart."""
    precision: Precision = "float32"
    filters: tuple[Filter, ...] = ()

    @property
    def through_torch(self) -> bool:
        """Whether a network is a file of PyTorch."""
        return self.outputs.through_torch or self.race_outputs.through_torch

    def _outputs(self, network: WeightsField) -> FairfaceOutputs:
        aligned = AlignedFaces(faces=self.faces, longest_side=self.longest_side, face=self.face)
        chips = aligned if self.chips is None else self.chips
        return FairfaceOutputs(chips=chips, network=network, precision=self.precision, device=self.device)

    @property
    def outputs(self) -> FairfaceOutputs:
        """The stage that gender and age are read from."""
        return self._outputs(self.network)

    @property
    def race_outputs(self) -> FairfaceOutputs:
        """The stage that race is read from."""
        return self.outputs if self.races == 7 else self._outputs(self.race_network or FAIRFACE_RACE4)

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The networks, and what the filters read."""
        return (self.outputs, self.race_outputs, *(each.stage() for each in self.filters))

    def predict(self, batch: Batch) -> Iterator[Prediction]:
        """Judge a batch; see `Predicts.predict`."""
        outputs, race_outputs = self.outputs, self.race_outputs
        questions = (
            ("gender", outputs, GENDER),
            ("age", outputs, AGE),
            ("race", race_outputs, RACE7 if self.races == 7 else RACE4[self.asian_as]),
        )
        for frame in batch:
            for attribute, stage, answers in questions:
                logits = frame[stage].get("logits")
                reason = "no_face" if logits is None else first_reason(self.filters, frame)
                if logits is None or reason is not None:
                    yield Prediction.filtered(frame, attribute, reason or "no_face")
                    continue
                found = read_answer(logits, answers)
                yield Prediction.clear(
                    frame, attribute, found.label, score=found.score, value=found.value, raw=found.raw
                )


def read_answer(logits: NDArray[np.float32], answers: OutputPart) -> NetworkVerdict:
    """Read one attribute from the network's output, shape (18,): the class of the likeliest word.

    Every word of FairFace has a class of ours, so there is always a label.
    """
    mapping = answers.mapping
    shares = softmax(logits[answers.first : answers.first + len(mapping.labels)].astype(np.float64))
    found = read_words(shares, mapping)
    years = mapping.source.years
    return found if years is None else found._replace(value=float(shares @ np.asarray(years)))
