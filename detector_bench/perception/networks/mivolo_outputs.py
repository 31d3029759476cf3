"""Age and gender of each image's main person, by MiVOLO."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from detector_bench.errors import ConfigError
from detector_bench.extras import require
from detector_bench.perception.networks.mivolo_crops import Subject, main_subject, network_input
from detector_bench.perception.networks.mivolo_networks import (
    GENDERS,
    MivoloNetwork,
    MivoloNetworkField,
    PackageNetwork,
)
from detector_bench.perception.stage import DESCRIPTIVE, Arrays, Frame, Stage, StageField, StageFunction
from detector_bench.perception.torch_settings import (
    Precision,
    TorchSettings,
    chosen_device,
    chosen_precision,
    exact_convolutions,
)
from detector_bench.perception.yolo.faces import YoloFaces
from detector_bench.perception.yolo.persons import YoloPersons
from detector_bench.weights import Weights, WeightsLocator
from detector_bench.weights.catalogue import YOLOV8X_PERSONS_AND_FACES

_CONFIDENCE = 0.4  # of the detector in MiVOLO's program


class MivoloOutputs(TorchSettings, Stage):  # type: ignore[override]
    """MiVOLO (Kuprashevich and Tolstykh 2023) on the largest person of each image.

    The network sees the person's face and body, each fitted into a black square and normalised with ImageNet's
    mean and standard deviation; what is missing is all black. Gives, for an image with such a person,

    - `age`: (1,), years;
    - `gender`: (2,), the probabilities of male and female,

    and no array at all for another.

    Boxes, crops and preparation are those of MiVOLO's program; only that it judges everybody in the image.
    """

    kind: ClassVar[str] = "mivolo_outputs"
    extra: ClassVar[str | None] = "mivolo"

    network: MivoloNetworkField = Field(default_factory=PackageNetwork)
    persons: StageField = YoloPersons(network=YOLOV8X_PERSONS_AND_FACES, confidence=_CONFIDENCE)
    faces: StageField = YoloFaces(network=YOLOV8X_PERSONS_AND_FACES, confidence=_CONFIDENCE)
    without_person: Literal["filter", "face"] = "filter"
    """What to do with an image without a person box: filter it, as in Lyu 2025, or judge the largest face."""
    hide_others: bool = True
    """Black out other persons and all faces, the person's own too, in the body crop, as MiVOLO's program does."""
    precision: Precision = "float32"
    """MiVOLO's program takes float16 on a GPU. bfloat16 moves ages by up to half a year."""
    batch_size: Annotated[int, Field(ge=1, json_schema_extra=DESCRIPTIVE)] = 16
    """People at once."""

    @property
    def modules(self) -> tuple[str, ...]:  # type: ignore[override]
        """The packages that the network's form needs, besides those for cropping."""
        return (*self.network.modules, "cv2", "scipy")

    def missing_settings(self) -> tuple[str, ...]:
        """How to get the package `mivolo`, and a precision that the machine lacks."""
        return (*self.network.missing_settings(), *super().missing_settings())

    def inputs(self) -> tuple[Stage, ...]:
        """The person and the face boxes."""
        return (self.persons, self.faces)

    def weights(self) -> tuple[Weights, ...]:
        """The network's."""
        return self.network.weights()

    def load(self, weights: WeightsLocator) -> StageFunction:
        """Read the network; see `Stage.load`."""
        torch, cv2 = require("torch", extra=self.extra), require("cv2", extra=self.extra)
        device = chosen_device(torch, self.device)
        dtype = chosen_precision(torch, self.precision, device=device)
        network = self.network.load(weights, device=device, dtype=dtype)

        def tensor(crops: Sequence[Any]) -> Any:
            values = np.stack([network_input(cv2, crop, side=network.side) for crop in crops])
            return torch.from_numpy(values).to(device, dtype)

        def run(frames: Sequence[Frame]) -> list[Arrays]:
            subjects = [self._subject(frame) for frame in frames]
            people = [subject for subject in subjects if subject is not None]
            rows: list[Arrays] = []
            for start in range(0, len(people), self.batch_size):
                batch = people[start : start + self.batch_size]
                with torch.inference_mode(), exact_convolutions(torch):
                    rows += _rows(
                        network, tensor([each.face for each in batch]), tensor([each.body for each in batch])
                    )
            results = iter(rows)
            return [{} if subject is None else next(results) for subject in subjects]

        return run

    def _subject(self, frame: Frame) -> Subject | None:
        return main_subject(
            frame.pixels,
            frame[self.persons],
            frame[self.faces],
            without_person=self.without_person,
            hide_others=self.hide_others,
        )


def _rows(network: MivoloNetwork, faces: Any, bodies: Any) -> list[Arrays]:
    ages, genders = (values.cpu().numpy() for values in network.judge(faces, bodies))
    if ages.shape != (len(faces),) or genders.shape != (len(faces), len(GENDERS)):
        raise ConfigError(
            f"MiVOLO's network gives ages of the shape {list(ages.shape)} and genders of the shape "
            f"{list(genders.shape)} for {len(faces)} people"
        )
    if not (np.isfinite(ages).all() and np.isfinite(genders).all()):
        raise ValueError("MiVOLO's outputs are not finite")
    return [{"age": ages[row : row + 1], "gender": genders[row]} for row in range(len(faces))]
