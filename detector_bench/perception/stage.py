"""Stages: named, versioned, deterministic functions from images to a result worth sharing."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from pydantic import (
    BeforeValidator,
    JsonValue,
    SerializeAsAny,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
)

from detector_bench.declarations import Declaration
from detector_bench.errors import ConfigError, config_error_from
from detector_bench.plugins import source_fingerprint
from detector_bench.registry import Registry
from detector_bench.trust import ForeignCode, Sending
from detector_bench.weights import Checkpoint, Weights, WeightsFile, WeightsLocator, described

Arrays = Mapping[str, NDArray[Any]]
"""The result of one stage for one image: named arrays. Each stage's docstring says which."""


@dataclass(frozen=True, slots=True)
class StageFailure:
    """A stage could not handle an image. The detectors that need the stage report an error row."""

    reason: str
    detail: str = ""


StageResult = Arrays | StageFailure
"""What a stage makes of one image."""


class Frame:
    """One image on its way through stages and detectors.

    `frame[stage]` is that stage's result for this image.

    Attributes:
        image_id: the id in the image set.
        results: results so far, by stage.
        prepared: what loaded stages made of the image ahead of their networks; see `PreparesAhead`.
        sha256: of the image's file, where it is known.
    """

    __slots__ = ("_pixels", "image_id", "prepared", "results", "sha256")

    def __init__(
        self,
        image_id: str,
        *,
        pixels: NDArray[np.uint8] | None = None,
        results: dict[Stage, Arrays | StageFailure] | None = None,
        prepared: dict[Stage, Any] | None = None,
        sha256: str | None = None,
    ) -> None:
        self.image_id = image_id
        self.sha256 = sha256
        self.prepared: dict[Stage, Any] = {} if prepared is None else prepared
        self.results: dict[Stage, Arrays | StageFailure] = {} if results is None else results
        self._pixels = pixels

    @property
    def pixels(self) -> NDArray[np.uint8]:
        """The decoded image, (height, width, 3), RGB, 0 to 255."""
        if self._pixels is None:
            raise LookupError("this detector did not ask for pixels: declare needs_pixels=True")
        return self._pixels

    def __getitem__(self, stage: Stage) -> Arrays:
        result = self.results.get(stage)
        if result is None:
            raise LookupError(f"stage {stage.kind!r} with these parameters was not declared by the detector")
        if isinstance(result, StageFailure):
            raise LookupError(f"stage {stage.kind!r} failed on this image: {result.reason}")
        return result


class Batch(Sequence[Frame]):
    """Several images at once; `batch[stage]` lists that stage's result for each of them."""

    def __init__(self, frames: Sequence[Frame]) -> None:
        self._frames = frames

    def __len__(self) -> int:
        return len(self._frames)

    def __iter__(self) -> Iterator[Frame]:
        return iter(self._frames)

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, Stage):
            return [frame[key] for frame in self._frames]
        return self._frames[key]


DESCRIPTIVE: dict[str, JsonValue] = {"descriptive": True}
"""As a field's `json_schema_extra`: the field says how work is done and decides no result: it is no part of a
fingerprint."""

ADDED_LATER: dict[str, JsonValue] = {"added_later": True}
"""As a field's `json_schema_extra`: the field came when results had been stored without it. It is part of a
fingerprint only where it is not its default, which stands for what was done before there was the field."""

StageFunction = Callable[[Sequence[Frame]], Sequence["Arrays | StageFailure"]]
"""A loaded stage: one result for each frame, in their order."""


@runtime_checkable
class PreparesAhead(Protocol):
    """A loaded stage whose work on an image begins without its network, such as resizing.

    Where the network computes on a GPU, a run lets other threads do this part ahead. What comes of it stands in
    `Frame.prepared`, and pixels that nobody else needs are gone when the function is called.
    """

    def prepare(self, frame: Frame) -> Any:
        """What the function puts into the network for an image; several threads may call it."""

    def __call__(self, frames: Sequence[Frame]) -> Sequence[Arrays | StageFailure]:
        """See `StageFunction`."""


class Stage(Declaration, ABC):
    """The declaration of a stage: its parameters. Equal declarations share one computation.

    Subclasses set the class variables, add their parameters as fields and write `load`.

    Attributes:
        kind: the name in study files.
        version: raised whenever the same input could give another result.
        extra: the extra of detector-bench that the stage needs.
        modules: what must be importable for the stage to run.
        images_per_call: how many images `load`'s function gets at once; None means the whole batch. Slow
            stages set 1, so that an interruption loses one image and not a batch.
        lanes: whether several threads may call the function at the same time, each with frames of its own. On a
            CPU a run then computes many images at once, one thread each: faster than threads within a call.
        cached: whether results are worth keeping on disk.
        needs_pixels: whether the function reads `frame.pixels`.
        precision_taken: the number format that it computes with on this machine, for the record of a run.
        device_taken: where it computes on this machine, for the record of a run; asked once it is loaded.
    """

    kind: ClassVar[str]
    version: ClassVar[int] = 1
    extra: ClassVar[str | None] = None
    modules: ClassVar[tuple[str, ...]] = ()
    images_per_call: ClassVar[int | None] = None
    lanes: ClassVar[bool] = False
    cached: ClassVar[bool] = True
    needs_pixels: ClassVar[bool] = True
    precision_taken: ClassVar[str] = "not stated"
    device_taken: ClassVar[str] = "not stated"

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        """Remember the source of a stage that is plugged in, as it is now."""
        super().__pydantic_init_subclass__(**kwargs)
        source_fingerprint(cls)

    @model_serializer(mode="wrap")
    def _with_kind(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {"kind": self.kind, **dump(self)}

    def inputs(self) -> tuple[Stage, ...]:
        """The stages whose results this one needs: by default those among its fields, in their order.

        A field that is no stage and has `inputs` of its own, such as a `Crop`, hands on those.
        """
        found: list[Stage] = []
        for _, value in self:
            if isinstance(value, Stage):
                found.append(value)
            elif callable(getattr(value, "inputs", None)):
                found += value.inputs()
        return tuple(found)

    def weights(self) -> tuple[Weights, ...]:
        """The weights that this stage itself reads: by default the files and checkpoints among its fields.

        A field that is no stage and has `weights` of its own, such as a CLIP encoder, hands on those. A file has
        what the catalogue knows of it, such as where it can be fetched.
        """
        found: list[Weights] = []
        for _, value in self:
            if isinstance(value, WeightsFile):
                found.append(described(value))
            elif isinstance(value, Checkpoint):
                found.append(value)
            elif not isinstance(value, Stage) and callable(getattr(value, "weights", None)):
                found += value.weights()
        return tuple(found)

    def missing_settings(self) -> tuple[str, ...]:
        """What the stage needs from the environment or the machine and does not find there, a line each."""
        return ()

    def mistakes(self, weights: WeightsLocator) -> tuple[str, ...]:  # noqa: ARG002
        """Where its parameters contradict its weights, a line each; asked before any image is judged.

        Nothing is downloaded for it, and no network is loaded: what needs that is told by `load`.
        """
        return ()

    def sends(self) -> Sending | None:
        """Where it sends images, and with which keys; None: nowhere."""
        return None

    def environment_variables(self) -> tuple[str, ...]:
        """The variables that hold its keys, for a process on another machine that computes it."""
        sending = self.sends()
        return () if sending is None else sending.variables

    def foreign_code(self, weights: WeightsLocator) -> ForeignCode | None:  # noqa: ARG002
        """Program code that its weights bring, and that loading them runs; None: there is none."""
        return None

    def programs(self) -> tuple[str, ...]:
        """Paths of programs here that it starts; they decide no result, and are published by name alone."""
        return ()

    @property
    def calls_at_once(self) -> int:
        """How many calls of the function may run at the same time, in threads: for what waits on a network."""
        return 1

    def spending(self, results: Iterable[Arrays]) -> Mapping[str, float | str]:  # noqa: ARG002
        """What results cost, named numbers for the record of a run; empty where nothing is paid or counted."""
        return {}

    @abstractmethod
    def load(self, weights: WeightsLocator) -> StageFunction:
        """Read the weights and return the function that does the work.

        Raises:
            MissingExtraError: an optional package is not installed.
            WeightsError: a weights file is missing or wrong.
            ConfigError: the parameters do not fit the weights.
        """


def _as_stage(name: str, found: Any) -> type[Stage]:
    if not (isinstance(found, type) and issubclass(found, Stage)):
        raise ConfigError(f"{found!r} is not a stage: it does not derive from Stage")
    if getattr(found, "kind", None) != name:
        raise ConfigError(f"{found!r} is registered as stage {name!r}, but it lacks `kind = {name!r}`")
    return found


STAGES: Registry[type[Stage]] = Registry("stage", entry_point_group="detector_bench.stages", adapt=_as_stage)
for _name, _target in {
    "dlib_hog_faces": "detector_bench.perception.faces.dlib_faces:DlibHogFaces",
    "dlib_cnn_faces": "detector_bench.perception.faces.dlib_faces:DlibCnnFaces",
    "dlib_cnn_onnx_faces": "detector_bench.perception.faces.dlib_cnn_stages:DlibCnnOnnxFaces",
    "dlib_cnn_torch_faces": "detector_bench.perception.faces.dlib_cnn_stages:DlibCnnTorchFaces",
    "yunet_faces": "detector_bench.perception.faces.small_networks:YuNetFaces",
    "yolo_boxes": "detector_bench.perception.yolo:YoloBoxes",
    "yolo_persons": "detector_bench.perception.yolo:YoloPersons",
    "yolo_faces": "detector_bench.perception.yolo:YoloFaces",
    "mivolo_outputs": "detector_bench.perception.networks.mivolo_outputs:MivoloOutputs",
    "mediapipe_faces": "detector_bench.perception.faces.small_networks:MediapipeFaces",
    "dlib_landmarks": "detector_bench.perception.faces.dlib_faces:DlibLandmarks",
    "skin_tones": "detector_bench.perception.skin_tones:SkinTones",
    "whole_image": "detector_bench.perception.faces.whole_image:WholeImage",
    "aligned_faces": "detector_bench.perception.faces.aligned_faces:AlignedFaces",
    "classifier_classes": "detector_bench.perception.networks.published_outputs:ClassifierClasses",
    "classifier_outputs": "detector_bench.perception.networks.published_outputs:ClassifierOutputs",
    "isolated_outputs": "detector_bench.perception.networks.isolated_outputs:IsolatedOutputs",
    "fairface_outputs": "detector_bench.perception.networks.fairface_outputs:FairfaceOutputs",
    "clip_image_embeddings": "detector_bench.perception.clip.stages:ClipImageEmbeddings",
    "clip_similarities": "detector_bench.perception.clip.stages:ClipSimilarities",
    "score_calibration": "detector_bench.perception.calibration:ScoreCalibration",
    "generated_answers": "detector_bench.perception.answers.generated_answers:GeneratedAnswers",
    "chat_answers": "detector_bench.perception.answers.chat_answers:ChatAnswers",
    "facepp_answers": "detector_bench.perception.answers.facepp_answers:FaceppAnswers",
}.items():
    STAGES.register(_name, _target)


def parse_stage(value: Any) -> Any:
    """Build a stage from its name, or from a mapping with its name as `kind`; a stage is given back as it is.

    Raises:
        ValueError: an unknown name, or parameters that do not fit.
    """
    if isinstance(value, Stage):
        return value
    if isinstance(value, str):
        value = {"kind": value}
    if not isinstance(value, Mapping) or not isinstance(value.get("kind"), str):
        raise ValueError("a stage is its name, or a mapping with its name as `kind`")
    name = value["kind"]
    try:
        model = STAGES.get(name)
        return model.model_validate({key: item for key, item in value.items() if key != "kind"})
    except ValidationError as error:
        raise ValueError(str(config_error_from(error, place=f"stage {name!r}", model=model))) from error
    except ConfigError as error:
        raise ValueError(str(error)) from error


StageField = Annotated[SerializeAsAny[Stage], BeforeValidator(parse_stage)]
"""A stage in a configuration: `yunet_faces`, or `{kind: yunet_faces, score_threshold: 0.8}`."""


def with_inputs(stages: Iterable[Stage], *, present: Container[Stage] = ()) -> list[Stage]:
    """All stages that must run for the given ones, themselves included, each once, inputs before their users.

    Args:
        stages: what is wanted.
        present: stages whose results are there already: neither they nor their inputs need to run.
    """
    ordered: dict[Stage, None] = {}

    def visit(stage: Stage) -> None:
        if stage in present or stage in ordered:
            return
        for needed in stage.inputs():
            visit(needed)
        ordered.setdefault(stage)

    for stage in stages:
        visit(stage)
    return list(ordered)


def text_array(text: str) -> NDArray[np.uint8]:
    """The text in UTF-8, shape (bytes,).

    Half of a surrogate pair, which no UTF-8 can hold, becomes a question mark.
    """
    return np.frombuffer(text.encode(errors="replace"), np.uint8)


def text_in(array: NDArray[np.uint8]) -> str:
    """The text that `text_array` was given."""
    return np.asarray(array, np.uint8).tobytes().decode()
