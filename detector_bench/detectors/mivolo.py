"""MiVOLO: gender and age from face and body."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from pydantic import Field, model_validator

from detector_bench.detectors.base import Card, Prediction, detector
from detector_bench.detectors.reading import AgeReading, ClassReading, age_group
from detector_bench.perception.networks.mivolo_networks import GENDERS, INSTALL, MivoloNetworkField, PackageNetwork
from detector_bench.perception.networks.mivolo_outputs import MivoloOutputs
from detector_bench.perception.stage import Arrays, Batch, Frame, Stage, StageField
from detector_bench.perception.torch_settings import Precision, TorchSettings

_BOXES = MivoloOutputs.model_fields
_GENDER = ClassReading(output="gender", classes=GENDERS)


@detector(
    "mivolo",
    attributes=("gender", "age"),
    stages=(MivoloOutputs(),),
    extra="mivolo",
    card=Card(
        summary="MiVOLO: person and face boxes (YOLOv8x), then one transformer for gender and age",
        licence="code Apache-2.0 (its setup.py says CC BY-SA 4.0); weights not stated (IMDB-clean) or "
        "Apache-2.0 (v2); YOLOv8x AGPL-3.0",
        source="https://github.com/WildChlamydia/MiVOLO, on no package registry: " + INSTALL,
        paper="Kuprashevich and Tolstykh 2023, MiVOLO: Multi-input Transformer for Age and Gender Estimation "
        "(arXiv 2307.04616)",
        hardware="27 million parameters, and YOLOv8x with 68 million: GPU; a CPU takes seconds for an image",
    ),
)
class Mivolo(TorchSettings):
    """YOLOv8x finds persons and faces; MiVOLO judges the largest person; no person, no verdict (`no_person`).

    The network comes from the package `mivolo` with its authors' IMDB-clean file, as in Lyu 2025, or from a
    checkpoint with its own code (`network: {backend: transformers, run_checkpoint_code: true}`; the risk: see
    `CheckpointNetwork`). A gender's score is its probability; an age has years and no probability.
    """

    network: MivoloNetworkField = Field(default_factory=PackageNetwork)
    persons: StageField = _BOXES["persons"].default
    """Person boxes; with faces from the same YOLO network, both come from one run."""
    faces: StageField = _BOXES["faces"].default
    """The stage that gives the face boxes."""
    without_person: Literal["filter", "face"] = "filter"
    """`face` judges the largest face where there is no person box; without one, too, the image is filtered."""
    hide_others: bool = True
    """Black out other persons and all faces in the body crop; see `MivoloOutputs`."""
    precision: Precision = "float32"
    groups: tuple[str, ...] = AgeReading.model_fields["groups"].default
    bounds: tuple[float, ...] = AgeReading.model_fields["bounds"].default
    """Ages at which the next group begins (BIGbench: 0-30, 30-60, 60+)."""

    @model_validator(mode="after")
    def _groups_fit(self) -> Mivolo:
        AgeReading(output="age", groups=self.groups, bounds=self.bounds)
        return self

    @property
    def outputs(self) -> MivoloOutputs:
        """The stage that runs the network."""
        return MivoloOutputs(**{name: getattr(self, name) for name in _BOXES if name in type(self).model_fields})

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The stage that runs the network."""
        return (self.outputs,)

    def predict(self, batch: Batch) -> Iterator[Prediction]:
        """Judge a batch; see `Predicts.predict`."""
        stage = self.outputs
        for frame in batch:
            yield from self._judge(frame, frame[stage])

    def _judge(self, frame: Frame, outputs: Arrays) -> Iterator[Prediction]:
        if not outputs:
            for attribute in ("gender", "age"):
                yield Prediction.filtered(frame, attribute, "no_person")
            return
        gender: Any = _GENDER.verdict(outputs["gender"])
        yield Prediction.clear(frame, "gender", gender.label, score=gender.score)
        years = float(outputs["age"][0])
        group = age_group(years, groups=self.groups, bounds=self.bounds)
        yield Prediction.clear(frame, "age", group, value=years)
