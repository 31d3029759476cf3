"""The contract: every kind and stage keeps it, and failures, fingerprints and mistakes are as promised."""

from __future__ import annotations

import gc
import json
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from pydantic import Field

from detector_bench_next import registry
from detector_bench_next.attributes import Attribute, Status, built_in
from detector_bench_next.cache import StageCache
from detector_bench_next.detector import (
    Arrays,
    Detector,
    Failure,
    Frame,
    Pixels,
    Prediction,
    Stage,
    StageField,
    Stages,
    WeightsField,
    ask,
    build,
    compute,
    fingerprint,
    halved,
    identity,
    with_inputs,
)
from detector_bench_next.errors import ConfigError
from detector_bench_next.registry import load_plugin
from detector_bench_next.study import Study, named_studies
from detector_bench_next.weights import Where
from tests_next.detectors.conftest import framed
from tests_next.studies import PLUGIN

GEAR = {
    "model": "gear.onnx",
    "input": {"size": [198, 198], "layout": "NHWC", "scale": 1 / 255},
    "crop": {"boxes": "yunet_faces"},
    "outputs": {"gender": {"output": "gender_output", "classes": ["male", "female"]}},
}
ENTRIES: dict[str, dict[str, Any]] = {
    "image_classifier": GEAR,
    "ensemble": {"members": [{"kind": "image_classifier", **GEAR}, {"kind": "image_classifier", **GEAR}]},
    "aligned_faces": {"faces": "dlib_hog_faces", "longest_side": 400},
    "table": {"file": "predictions.csv", "columns": {"gender": "gender"}},
}
"""Fields of kinds and stages that have none by default, or quicker ones."""


# Every kind and stage


@pytest.mark.parametrize("kind", sorted(registry.BUILT_IN["stage"]))
def test_every_stage_keeps_the_contract(
    kind: str, where: Where, pictures: dict[str, Pixels], tmp_path: Path
) -> None:
    entry = {"kind": kind, **ENTRIES.get(kind, {})}
    stage: Stage = build("stage", entry)
    assert stage == build("stage", entry)
    assert hash(stage) == hash(build("stage", entry))
    assert stage.kind == kind
    assert stage.__doc__
    if lacking := [line for own in with_inputs([stage]) for line in own.lacks(where)]:
        pytest.skip(lacking[0])
    functions = {own: own.load(where) for own in with_inputs([stage])}

    def results(frames: list[Frame]) -> list[Arrays | Failure]:
        compute(frames, functions, functions)
        return [frame.results[stage] for frame in frames]

    together = results([framed(p, name) for name, p in pictures.items()])
    apart = [results([framed(p, name)])[0] for name, p in reversed(pictures.items())][::-1]
    assert results([]) == []
    for name, one, other in zip(pictures, together, apart, strict=True):
        assert isinstance(one, dict), f"{name}: {one}"
        assert isinstance(other, dict), f"{name}: {other}"
        assert one.keys() == other.keys()
        for array in one:
            np.testing.assert_allclose(one[array], other[array], rtol=1e-4, atol=1e-4, err_msg=f"{name}, {array}")
            assert one[array].base is None or one[array].base.size <= one[array].size, "a view keeps its batch"
    cache, print_of = StageCache(tmp_path), fingerprint(stage, where)
    cache.put(print_of, {name: one for name, one in zip(pictures, together, strict=True) if isinstance(one, dict)})
    kept = StageCache(tmp_path).get(print_of, list(pictures))
    for name, one in zip(pictures, together, strict=True):
        assert isinstance(one, dict)
        assert {n: a.tobytes() for n, a in kept[name].items()} == {n: a.tobytes() for n, a in one.items()}


@pytest.mark.parametrize("kind", sorted(registry.BUILT_IN["detector"]))
def test_every_detector_keeps_the_contract(
    kind: str, where: Where, pictures: dict[str, Pixels], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "predictions.csv").write_text("image_id,gender\nface,male\n", encoding="utf-8")
    entry = {"kind": kind, **ENTRIES.get(kind, {})}
    detector: Detector = build("detector", entry)
    assert detector.name == kind
    assert detector.attributes
    assert set(detector.attributes) <= set(built_in())
    assert detector == build("detector", entry)
    assert {"licence", "source"} <= registry.find("detector", kind).facts["card"].keys()
    assert json.loads(json.dumps(identity(detector))) == identity(detector)
    with pytest.raises(ConfigError, match=r"unknown key 'nmae': did you mean 'name'"):
        build("detector", {**entry, "nmae": "x"})
    if lacking := detector.lacks(where):
        pytest.skip(lacking[0])
    if to := detector.sends():
        pytest.skip(f"it sends images to {to}")
    stages = Stages([detector], where)
    together = stages.predict([framed(p, name) for name, p in pictures.items()])
    apart = [row for name, p in pictures.items() for row in stages.predict([framed(p, name)])]
    assert [(r.image_id, r.attribute) for r in together] == [(n, a) for n in pictures for a in detector.attributes]
    for one, other in zip(together, apart, strict=True):
        assert one[:4] == other[:4]
        assert one.reason == other.reason
        assert one.status is not Status.ERROR or kind == "table", one.reason
        assert one.score == pytest.approx(other.score, abs=1e-4)
    if not detector.needs_image:
        return
    unread = Frame("gone")
    unread.error = "missing_file: x.png"
    assert {(r.status, r.reason) for r in stages.predict([unread])} == {(Status.ERROR, "missing_file: x.png")}


@pytest.mark.parametrize("name", sorted(named_studies()))
def test_every_shipped_study_builds(name: str) -> None:
    try:
        study = Study.open(name)
    except ConfigError as error:
        if "unknown detector" not in str(error):
            raise
        pytest.skip(str(error).splitlines()[0])
    detectors = study.build_detectors()
    assert [detector.name for detector in detectors] == [entry["name"] for entry in study.detectors]
    assert len({detector.key for detector in detectors}) == len(detectors)


# A stage and detectors for what follows


class Grey(Stage):
    kind: ClassVar[str] = "grey"
    threshold: float = 0.0
    table: dict[str, str] = Field(default_factory=dict)
    network: WeightsField | None = None
    precision: str = "auto"
    batch: int = 1
    describes: ClassVar[tuple[str, ...]] = ("batch",)

    def taken(self) -> dict[str, str]:
        return {"precision": "float32"} if self.precision == "auto" else {}

    def load(self, where: Where) -> Callable[[Sequence[Frame]], list[Arrays | Failure]]:
        return lambda frames: [{"grey": np.array([f.pixels.mean()])} for f in frames]


class ByGrey(Detector):
    kind: ClassVar[str] = "by_grey"
    grey: StageField = Grey()
    said: tuple[Any, ...] = ()

    @property
    def attributes(self) -> tuple[str, ...]:
        return ("gender",)

    def predict(self, frames: Sequence[Frame]) -> list[Prediction]:
        rows = [Prediction.clear(f, "gender", "male", score=float(f[self.grey]["grey"][0]) / 255) for f in frames]
        return [row for own in rows for row in (self.said[0](own) if self.said else [own])]


def frames_of(*greys: int) -> list[Frame]:
    return [framed(np.full((4, 4, 3), grey, np.uint8), f"g{grey}") for grey in greys]


# Equality, fingerprints, identity


A, B = ({"path": path, "sha256": path[0] * 64} for path in ("a.onnx", "b.onnx"))
PAIRS = [
    (Grey(), Grey(threshold=0.0), True),
    (Grey(batch=1), Grey(batch=9), True),
    (Grey(network=A), Grey(network={**A, "path": "moved.onnx"}), True),
    (Grey(), Grey(threshold=0.1), False),
    (Grey(table={"a": "male", "b": "female"}), Grey(table={"b": "female", "a": "male"}), False),
    (Grey(network=A), Grey(network=B), False),
    (Grey(), Grey(threshold=0.1).model_copy(update={"precision": "bfloat16", "threshold": 0.0}), False),
]


@pytest.mark.parametrize(("one", "other", "same"), PAIRS)
def test_what_decides_a_result_makes_equality_hash_and_fingerprint(one: Grey, other: Grey, same: bool) -> None:
    assert (one == other) is same
    assert len({one, other}) == 2 - same
    assert (fingerprint(one, Where()) == fingerprint(other, Where())) is same


def test_auto_counts_as_what_it_became_and_names_tell_detectors_apart() -> None:
    assert fingerprint(Grey(), Where()) == fingerprint(Grey(precision="float32"), Where())
    one, other = ByGrey(name="a"), ByGrey(name="b")
    assert one != other
    assert fingerprint(one, Where()) == fingerprint(other, Where())
    assert identity(one)["fields"]["grey"]["fields"] == {"precision": "(not told)"}


def test_weights_count_by_content_also_as_a_default(tmp_path: Path) -> None:
    (tmp_path / "a.onnx").write_bytes(b"1")
    stage, where = Grey(network={"path": "a.onnx"}), Where(beside=tmp_path)
    first = fingerprint(stage, where)
    (tmp_path / "a.onnx").rename(tmp_path / "b.onnx")
    assert fingerprint(Grey(network={"path": "b.onnx"}), where) == first, "the place does not count"
    (tmp_path / "a.onnx").write_bytes(b"2")
    assert fingerprint(stage, where) != first
    assert identity(ByGrey(grey=stage))["fields"]["grey"]["fields"]["network"] == "(not told)"
    yunet = build("stage", "yunet_faces")
    assert yunet.network.sha256 in yunet.key, "a new pin in the catalogue is another stage"


def test_built_stages_plugins_and_own_attributes_count() -> None:
    detector = build("detector", {"kind": "image_classifier", **GEAR})
    assert identity(detector)["stages"][0]["version"] == type(detector.network).version
    load_plugin(PLUGIN)
    shade = build("detector", "shade")
    source = registry.source_of(type(shade))
    assert source
    assert identity(shade)["source"] == identity(shade)["fields"]["grey"]["source"] == source
    hat = {"kind": "table", "file": "x.csv", "columns": {"hat": "hat"}}
    known = [{**built_in(), "hat": Attribute(name="hat", classes=("yes_hat", own))} for own in ("no_hat", "cap")]
    assert identity(build("detector", hat, known[0])) != identity(build("detector", hat, known[1]))
    with pytest.raises(ConfigError, match=r"unknown 'hat'"):
        build("detector", hat)


# Failures


def test_a_failure_costs_its_own_image() -> None:
    def call(frames: list[Frame]) -> list[str]:
        if any(frame.image_id == "g7" for frame in frames):
            raise RuntimeError("no\nsevens")
        return [frame.image_id for frame in frames]

    found = halved(call, frames_of(5, 6, 7, 8), lambda f, why: f"{f.image_id}: {why}")
    assert found == ["g5", "g6", "g7: RuntimeError: no sevens", "g8"]
    assert halved(lambda frames: np.concatenate([]), [], lambda f, why: why) == []
    with pytest.raises(ConfigError):
        halved(lambda frames: (_ for _ in ()).throw(ConfigError("mend it")), frames_of(1), lambda f, why: why)


def test_halving_lets_go_of_what_the_failed_call_held() -> None:
    held: list[weakref.ref[Any]] = []
    alive: list[int] = []

    def call(frames: list[Frame]) -> list[int]:
        alive.append(sum(ref() is not None for ref in held))
        large = {1, 2, 3}
        held.append(weakref.ref(large))
        return [1 // (2 - len(frames))]  # fails for two

    gc.disable()
    try:
        assert halved(call, frames_of(1, 2), lambda f, why: 0) == [1, 1]
    finally:
        gc.enable()
    assert alive == [0, 0, 0]


WRONG_RESULTS = [[1.5], [{"a": [1]}], [{"a": np.array(["x"])}], [{"a": np.array([None])}], [{1: np.ones(1)}], []]


@pytest.mark.parametrize("wrong", WRONG_RESULTS)
def test_a_wrong_result_is_a_failure_and_inherited(wrong: Any) -> None:
    detector, frames, kept = ByGrey(), frames_of(9), []
    compute(frames, [detector.grey], {detector.grey: lambda frames: wrong}, lambda *own: kept.append(own))
    (row,) = ask(detector, frames)
    assert row.status is Status.ERROR
    assert (row.reason or "").startswith("stage_failed: ")
    assert kept == [], "failures are not kept"


WRONG_ROWS: list[Callable[[Prediction], list[Any]]] = [
    lambda row: [],
    lambda row: [row, row],
    lambda row: [row._replace(attribute="age")],
    lambda row: [row._replace(image_id="other")],
    lambda row: [row._replace(label="man")],
    lambda row: [row._replace(label=None)],
    lambda row: [row._replace(status="perhaps")],
    lambda row: [row._replace(status=Status.FILTERED)],
    lambda row: [row._replace(score="high")],
    lambda row: [row._replace(raw={"a": 1})],
    lambda row: [None],
]


@pytest.mark.parametrize("wrong", WRONG_ROWS)
def test_a_wrong_prediction_is_that_images_error(wrong: Callable[[Prediction], list[Any]]) -> None:
    def sometimes(row: Prediction) -> list[Any]:
        return wrong(row) if row.score == 0 else [row._replace(score=np.float32(row.score or 0))]

    detector, frames = ByGrey(said=(sometimes,)), frames_of(3, 0, 5)
    compute(frames, [detector.grey], {detector.grey: detector.grey.load(Where())})
    rows = ask(detector, frames)
    assert [row.status for row in rows] == [Status.CLEAR, Status.ERROR, Status.CLEAR]
    assert (rows[1].reason or "").startswith("detector_failed: ")
    assert type(rows[0].score) is float


def test_stages_are_loaded_once_and_kept_results_are_not_made_again(tmp_path: Path) -> None:
    calls: list[str] = []

    class Counted(Grey):
        kind: ClassVar[str] = "counted"

        def load(self, where: Where) -> Callable[[Sequence[Frame]], list[Arrays | Failure]]:
            calls.append("load")
            return super().load(where)

    detectors = [ByGrey(name=name, grey=Counted()) for name in ("a", "b")]
    first = Stages(detectors, Where(), StageCache(tmp_path)).predict(frames_of(*range(40)))
    again = Stages(detectors, Where(), StageCache(tmp_path)).predict(frames_of(*range(40)))
    assert calls == ["load"]
    assert first == again
    assert len(first) == 80
    assert [row.image_id for row in first[:40]] == [f"g{n}" for n in range(40)]


def test_parts_answer_for_what_they_hold() -> None:
    detector = build("detector", {"kind": "ensemble", **ENTRIES["ensemble"]})
    assert [stage.kind for stage in with_inputs(detector.stages())] == ["yunet_faces", "onnx_outputs"]
    assert [w.name for w in detector.weights()] == ["gear.onnx"]
    lines = detector.lacks(Where(download=False))
    assert len(lines) == len(set(lines))
    assert any("gear.onnx" in line for line in lines)
    assert detector.sends() is None
    assert detector.variables() == ()


MISTAKES = [
    ({"kind": "image_clasifier"}, r"unknown detector 'image_clasifier': did you mean 'image_classifier'"),
    ({"kind": None, "name": "x"}, r"detector 'x': `kind` is missing: .*image_classifier"),
    ({"crop": {"boxes": "yunet_face"}}, r"crop.boxes: unknown stage 'yunet_face': did you mean 'yunet_faces'"),
    (
        {"crop": {"boxes": {"kind": "yunet_faces", "score": 1}}},
        r"crop.boxes: stage 'yunet_faces': .*unknown key 'score'",
    ),
    ({"crop": {"boxes": 7}}, r"crop.boxes: a stage is its kind, or a mapping with its `kind`"),
    ({"crop": {"margin": 2}}, r"crop: `margin`, .* need `boxes`"),
    ({"outputs": {"gender": "geer_age7"}}, r"unknown taxonomy 'geer_age7': did you mean 'gear_age7'"),
    ({"outputs": {"gender": ["male", "femal"]}}, r"gender: 'femal' means 'femal', .* did you mean 'female'"),
    ({"outputs": {"gendr": ["male", "female"]}}, r"gendr: unknown attribute: did you mean 'gender'"),
    (
        {"outputs": {"gender": {"classes": ["male", "female"], "otherwise": "male"}}},
        r"outputs.gender.*`otherwise` is for a network with one number",
    ),
    ({"outputs": {"gender": {"classes": ["male"]}}}, r"one class alone: name the other as `otherwise`"),
    ({"outputs": {"age": {"bounds": [60, 30]}}}, r"outputs.age.*`bounds` must rise"),
    ({"outputs": {"gender": {}}}, r"gender: `bounds` has 0 ages for 2 classes of gender"),
    ({"outputs": {"gender": {"clases": ["a"]}}}, r"outputs.gender.*unknown key 'clases'"),
    ({"outputs": {}}, r"outputs: .*at least 1"),
    ({"filters": [{"kind": "faces"}]}, r"filters.0: .*'face'.*'single_subject'"),
    ({"input": {"std": [0]}}, r"input: `std` divides, so it may not be 0"),
    ({"model": "resnet.pt"}, r"`model` is FILE.onnx; got 'resnet.pt'"),
    ({"model": {"path": "gear.onnx", "sha256": "abc"}}, r"model.sha256: .*got 'abc'"),
    ({"name": "a b"}, r"name: .*got 'a b'"),
]


@pytest.mark.parametrize(("changed", "told"), MISTAKES)
def test_a_mistake_is_one_line_with_what_is_accepted(changed: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told) as caught:
        build("detector", {"kind": "image_classifier", **GEAR, **changed})
    assert len(str(caught.value).splitlines()) == 1
    assert len(str(caught.value)) < 500
