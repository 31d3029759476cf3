"""A detector that reads one stage, so that a stage can go wherever a detector goes."""

from __future__ import annotations

from detector_bench.detectors.base import Detector, DetectorType
from detector_bench.detectors.prediction import Prediction
from detector_bench.perception.stage import Batch, Stage
from detector_bench.vocabulary import ATTRIBUTES

_ATTRIBUTE = ATTRIBUTES.built_in[0]


class StageReader:
    """Gives the same verdict on every image: what counts is the stage's result."""

    def predict(self, batch: Batch) -> list[Prediction]:
        """See `Predicts.predict`."""
        return [Prediction.filtered(image, _ATTRIBUTE, "not_judged") for image in batch]


_TYPE = DetectorType(name="stage_reader", factory=StageReader, attributes=(_ATTRIBUTE,))


def reader_of(stage: Stage) -> Detector:
    """The detector that reads a stage."""
    return Detector(
        name="stage_reader",
        kind=_TYPE,
        attributes=_TYPE.attributes,
        stages=(stage,),
        parameters={},
        implementation=StageReader(),
    )
