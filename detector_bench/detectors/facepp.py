"""The commercial Face++ API as a detector."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from detector_bench.declarations import Declaration
from detector_bench.detectors.base import Card, Prediction, detector
from detector_bench.detectors.reading import age_group
from detector_bench.perception.answers.facepp_answers import FaceppAnswers, answer_text, read_faces
from detector_bench.perception.boxes import largest
from detector_bench.perception.stage import Batch, Stage


@detector(
    "facepp",
    attributes=("gender", "age"),
    stages=(FaceppAnswers(),),
    extra="facepp",
    modules=("tenacity",),
    card=Card(
        summary="the commercial Face++ Detect API, to which every image is sent; no face means filtered",
        licence="commercial API; terms of Face++",
        source="https://console.faceplusplus.com/documents/5679127; key and secret in FACEPP_API_KEY and "
        "FACEPP_API_SECRET",
        paper="none by its makers; validated in Lyu 2025",
        hardware="network",
    ),
)
class Facepp(Declaration):
    """Judges the largest face that Face++ finds in an image, by the gender and age that it gives (Lyu 2025).

    A request without a proper answer is an error, never a filtered image. The API names no probability, so there
    are no scores; `raw` holds its whole answer. Age groups are cut at 30 and 60 years, as in BIGbench.
    """

    answers: FaceppAnswers = Field(default_factory=FaceppAnswers)
    """The endpoint, how images are sent, and how often."""

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The stage that asks the API."""
        return (self.answers,)

    def predict(self, batch: Batch) -> Iterator[Prediction]:
        """Judge a batch; see `Predicts.predict`."""
        for frame in batch:
            found = frame[self.answers]
            raw = answer_text(found)
            number = largest(found)
            if number is None:
                yield Prediction.filtered(frame, "gender", "no_face", raw=raw)
                yield Prediction.filtered(frame, "age", "no_face", raw=raw)
                continue
            face = read_faces(raw)[number]
            if face.gender is None or face.years is None:
                raise ValueError("the answer leaves gender or age of the largest face out")
            group = age_group(face.years, groups=("young", "middle_aged", "elderly"), bounds=(30.0, 60.0))
            yield Prediction.clear(frame, "gender", face.gender, raw=raw)
            yield Prediction.clear(frame, "age", group, value=face.years, raw=raw)
