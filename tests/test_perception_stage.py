"""Stages: declarations that are shared when they are equal, and fingerprints that change when results may."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from pydantic import BaseModel, ValidationError
from running import plain

from detector_bench.errors import ConfigError, WeightsError
from detector_bench.perception.boxes import Crop, boxes
from detector_bench.perception.faces.dlib_faces import DlibCnnFaces, DlibHogFaces
from detector_bench.perception.faces.small_networks import YuNetFaces
from detector_bench.perception.identity import canonical, fingerprint
from detector_bench.perception.networks.age_and_gender_networks import AgeAndGenderNetworks
from detector_bench.perception.networks.onnx_networks import OnnxInput, OnnxOutputs
from detector_bench.perception.stage import (
    Arrays,
    Batch,
    Frame,
    Stage,
    StageFailure,
    StageField,
    StageFunction,
    with_inputs,
)
from detector_bench.perception.yolo import YoloPersons
from detector_bench.plugins import source_fingerprint
from detector_bench.weights import WeightsFile, WeightsLocator

SHA256 = hashlib.sha256(b"one").hexdigest()
OTHER_SHA256 = hashlib.sha256(b"two").hexdigest()
NOWHERE = WeightsLocator(cache=Path("nowhere"))


class Doubled(Stage):
    """A stage of a test."""

    kind: ClassVar[str] = "doubled"

    factor: float = 2.0
    options: tuple[str, ...] = ()

    def load(self, weights: WeightsLocator) -> StageFunction:
        def run(frames: Any) -> list[Arrays]:
            return [{"value": frame.pixels * self.factor} for frame in frames]

        return run


def network(file: WeightsFile | str, **settings: Any) -> OnnxOutputs:
    return OnnxOutputs.model_validate({"network": file, "input": {"size": [8, 8]}, "outputs": ["o"], **settings})


def prints(*stages: Stage, weights: WeightsLocator = NOWHERE) -> list[str]:
    return [fingerprint(stage, weights=weights) for stage in stages]


# Sharing


def test_equal_declarations_are_one_stage() -> None:
    first = network({"path": "net.onnx", "sha256": SHA256}, crop={"boxes": {"kind": "dlib_hog_faces"}})
    second = OnnxOutputs(
        network=WeightsFile(path="/elsewhere/copy.onnx", sha256=SHA256, licence="MIT", source="a page"),
        input=OnnxInput(size=(8, 8)),
        crop=Crop(boxes=DlibHogFaces(upsample=0)),
        outputs=("o",),
    )
    assert first == second
    assert hash(first) == hash(second)
    assert len({first, second}) == 1
    assert with_inputs([first, second]) == [DlibHogFaces(), first]
    frame = Frame("one", results={first: {"o": np.array([1.0])}})
    assert frame[second]["o"] == [1]


def test_stages_of_different_kinds_are_different() -> None:
    class Tripled(Doubled):
        kind: ClassVar[str] = "tripled"

    assert Tripled() != Doubled()
    assert len({Tripled(), Doubled(), Doubled(factor=2)}) == 2


def test_inputs_come_before_their_users_and_each_once() -> None:
    faces, cnn = DlibHogFaces(), DlibCnnFaces()
    networks = AgeAndGenderNetworks(faces=faces)
    crop = network("net.onnx", crop={"boxes": faces})
    assert with_inputs([networks, crop, faces, cnn, networks]) == [faces, networks, crop, cnn]
    assert with_inputs([]) == []


# Fingerprints


def test_inputs_and_weights_are_a_stages_fields_unless_it_says_otherwise() -> None:
    file = WeightsFile(path="net.onnx", sha256=SHA256)
    on_faces = network(file, crop={"boxes": "yunet_faces"})
    assert on_faces.inputs() == (YuNetFaces(),), "handed on by the crop, which is no stage"
    assert on_faces.weights() == (file,), "those of its input are its input's"
    assert network(file).inputs() == ()
    both = AgeAndGenderNetworks()
    assert both.inputs() == (both.faces,)
    assert both.weights() == (both.gender_network, both.age_network, both.landmarks)
    assert YoloPersons().weights() == ()
    assert [stage.weights() for stage in YoloPersons().inputs()] == [(YoloPersons().network,)]


def test_fingerprint_changes_with_every_parameter() -> None:
    stages = [
        DlibHogFaces(),
        DlibHogFaces(upsample=1),
        DlibHogFaces(threshold=0.1),
        DlibCnnFaces(),
        DlibCnnFaces(upsample=1),
        YuNetFaces(),
        YuNetFaces(score_threshold=0.8),
        YuNetFaces(overlap_threshold=0.4),
        YuNetFaces(longest_side=None),
        YoloPersons(),
        YoloPersons(confidence=0.3),
        YoloPersons(overlap_threshold=0.5),
        YoloPersons(image_size=320),
        Doubled(),
        Doubled(options=("a", "b")),
        Doubled(options=("b", "a")),
    ]
    assert len(set(prints(*stages))) == len(stages)


def test_fingerprint_changes_with_nested_parameters() -> None:
    file = {"path": "net.onnx", "sha256": SHA256}
    stages = [
        network(file),
        network(file, input={"size": [8, 8], "mean": [0.5]}),
        network(file, input={"size": [8, 8], "colour": "BGR"}),
        network(file, outputs=["other"]),
        network(file, crop={"boxes": "dlib_hog_faces"}),
        network(file, crop={"boxes": "dlib_hog_faces", "margin": 1.2}),
        network(file, crop={"boxes": "yunet_faces"}),
        network(file, crop={"boxes": {"kind": "yunet_faces", "score_threshold": 0.8}}),
        network({"path": "net.onnx", "sha256": OTHER_SHA256}),
        AgeAndGenderNetworks(),
        AgeAndGenderNetworks(faces=DlibHogFaces(upsample=1)),
        AgeAndGenderNetworks(faces=YuNetFaces()),
        AgeAndGenderNetworks(age_network=WeightsFile(path="a", sha256=SHA256)),
    ]
    assert len(set(prints(*stages))) == len(stages)


def test_fingerprint_changes_with_the_version_of_the_stage_or_of_its_input(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stages = (DlibHogFaces(), AgeAndGenderNetworks(), DlibCnnFaces())
    before = prints(*stages)
    monkeypatch.setattr(DlibHogFaces, "version", 2)
    after = prints(*stages)
    assert [one != other for one, other in zip(before, after, strict=True)] == [True, True, False]


def test_fingerprint_does_not_change_with_what_is_said_about_weights() -> None:
    files = [
        {"path": "net.onnx", "sha256": SHA256},
        {"path": "/elsewhere/copy.onnx", "sha256": SHA256.upper()},
        {
            "path": "net.onnx",
            "sha256": SHA256,
            "licence": "MIT",
            "source": "a page",
            "url": "https://example.org/n",
        },
        {"path": "net.onnx", "sha256": SHA256, "package": "p", "package_path": "n", "package_extra": "dlib"},
    ]
    assert len(set(prints(*map(network, files)))) == 1


def test_fingerprint_of_weights_without_a_pin_is_that_of_their_content(tmp_path: Path) -> None:
    for name, content in [("a.onnx", b"one"), ("b.onnx", b"one"), ("c.onnx", b"two")]:
        (tmp_path / name).write_bytes(content)
    locator = WeightsLocator(folders=(tmp_path,), cache=tmp_path / "cache")
    files = ["a.onnx", "b.onnx", "c.onnx", {"path": "a.onnx", "sha256": SHA256}]
    first, same, other, pinned = prints(*map(network, files), weights=locator)
    assert first == same == pinned != other
    (tmp_path / "a.onnx").write_bytes(b"two, and longer")
    assert prints(network("a.onnx"), weights=locator) != [first]
    with pytest.raises(WeightsError, match=r"'d\.onnx' not found"):
        prints(network("d.onnx"), weights=locator)


def test_fingerprints_are_the_same_in_every_process() -> None:
    # Worked out with `hashlib` from the JSON text by hand; stored predictions and caches rely on it.
    text = '{"kind":"dlib_hog_faces","parameters":{"threshold":0.0,"upsample":1},"version":1,"weights":[]}'
    assert prints(DlibHogFaces(upsample=1)) == [hashlib.sha256(text.encode()).hexdigest()]
    plugged_in = (
        '{"inputs":[],"kind":"doubled","parameters":{"factor":2.0,"options":["a"]},'
        f'"source":"{source_fingerprint(Doubled)}","version":1,"weights":[]}}'
    )
    assert prints(Doubled(options=("a",))) == [hashlib.sha256(plugged_in.encode()).hexdigest()]


def test_parameters_become_plain_data() -> None:
    value = {
        "stage": Doubled(),
        "list": [1, 2.5, None, True, "text"],
        "file": WeightsFile(path="n", sha256=SHA256),
    }
    assert canonical(value, weights=NOWHERE) == {
        "stage": {
            "kind": "doubled",
            "version": 1,
            "parameters": {"factor": 2.0, "options": []},
            "weights": [],
            "source": source_fingerprint(Doubled),
            "inputs": [],
        },
        "list": [1, 2.5, None, True, "text"],
        "file": {"weights": SHA256},
    }
    for wrong in (Path("folder"), {1, 2}, np.float32(1)):
        with pytest.raises(ConfigError, match=f"type {type(wrong).__name__} cannot be part of a fingerprint"):
            canonical({"wrong": wrong}, weights=NOWHERE)


# In a configuration


class Configured(BaseModel):
    """Something with a stage in its configuration."""

    stage: StageField


def test_stage_in_a_configuration() -> None:
    for written in ("yunet_faces", {"kind": "yunet_faces"}, YuNetFaces()):
        assert Configured.model_validate({"stage": written}).stage == YuNetFaces()
    written = {"kind": "yunet_faces", "score_threshold": 0.8}
    assert Configured.model_validate({"stage": written}).stage == YuNetFaces(score_threshold=0.8)


@pytest.mark.parametrize(
    "stage", [DlibHogFaces(upsample=1), YuNetFaces(longest_side=None), YoloPersons(confidence=0.5)]
)
def test_stage_survives_being_written_and_read(stage: Stage) -> None:
    dumped = Configured(stage=stage).model_dump(mode="json")
    assert dumped["stage"]["kind"] == stage.kind
    assert Configured.model_validate(dumped).stage == stage


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("yunet", "unknown stage 'yunet': did you mean 'yunet_faces'"),
        ({"score_threshold": 0.8}, "a stage is its name, or a mapping with its name as `kind`"),
        (None, "a stage is its name"),
        (
            {"kind": "yunet_faces", "score_threshold": 7},
            "score_threshold: Input should be less than or equal to 1; got 7",
        ),
        ({"kind": "dlib_hog_faces", "upsampel": 1}, "unknown key 'upsampel': did you mean 'upsample'"),
    ],
)
def test_wrong_stages_are_refused(written: object, message: str) -> None:
    with pytest.raises(ValidationError) as raised:
        Configured.model_validate({"stage": written})
    assert message in str(raised.value)


# Frames


def test_frame_gives_results_of_declared_stages_only() -> None:
    frame = Frame(
        "one", results={DlibHogFaces(): boxes([], []), YuNetFaces(): StageFailure("stage_failed", "why")}
    )
    assert len(frame[DlibHogFaces()]["scores"]) == 0
    with pytest.raises(LookupError, match="'dlib_hog_faces' with these parameters was not declared"):
        frame[DlibHogFaces(upsample=1)]
    with pytest.raises(LookupError, match="'yunet_faces' failed on this image: stage_failed"):
        frame[YuNetFaces()]
    with pytest.raises(LookupError, match="declare needs_pixels=True"):
        _ = frame.pixels


def test_batch_lists_a_stages_results() -> None:
    frames = [Frame(str(k), pixels=plain(k, k, k), results={Doubled(): {"value": np.array(k)}}) for k in range(3)]
    batch = Batch(frames)
    assert [result["value"].item() for result in batch[Doubled()]] == [0, 1, 2]
    assert (len(batch), list(batch), batch[1]) == (3, frames, frames[1])
