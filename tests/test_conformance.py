"""Every stage and detector, on every way that a run can take: the same verdicts."""

from __future__ import annotations

import inspect
import pkgutil
from collections.abc import Iterator
from contextlib import nullcontext
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conformance_cases import CASES, Case, Parts, pictures
from conformance_faults import (
    BatchCentred,
    Draws,
    HashedText,
    Paints,
    RemembersTheFirst,
    SecondCallFails,
    Sound,
)
from running import Pixels, noise

import detector_bench.perception
from detector_bench.conformance import Conformance, Way, check_detector, check_stage
from detector_bench.conformance.comparison import prediction_difference, stage_difference
from detector_bench.detectors import DETECTORS, Detector, Prediction, build_detector
from detector_bench.errors import ConfigError
from detector_bench.perception.stage import STAGES, Frame, Stage, StageFailure, with_inputs
from detector_bench.plugins import load_plugins
from detector_bench.vocabulary import Status

pytestmark = pytest.mark.slow

IN_THIS_PROCESS = tuple(way for way in Way if way is not Way.OTHER_PROCESS)


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Parts]:
    with pytest.MonkeyPatch.context() as patch:
        made = Parts(tmp_path_factory.mktemp("conformance"), lambda: request.getfixturevalue("shared"), patch)
        yield made
        made.give_back()


@pytest.fixture(scope="module")
def images() -> list[Pixels]:
    for package in ("matplotlib", "skimage"):
        pytest.importorskip(package)
    return pictures()


# --- every one has a case


def registered() -> dict[str, type]:
    """All detectors and stages that a study can name, but for those of the tests themselves."""
    installed = {point.name for group in ("detectors", "stages") for point in _entry_points(group)}
    found: dict[str, type] = {name: DETECTORS.get(name).factory for name in DETECTORS}  # type: ignore[misc]
    found.update({name: STAGES.get(name) for name in STAGES})
    return {name: each for name, each in found.items() if _is_built_in(each) or name in installed}


def unregistered() -> dict[str, type]:
    """Stages that only a detector of ours names."""
    for module in pkgutil.walk_packages(detector_bench.perception.__path__, "detector_bench.perception."):
        import_module(module.name)
    known = set(registered().values())
    return {each.__name__: each for each in _below(Stage) if _is_built_in(each) and each not in known}


def _below(parent: type) -> Iterator[type]:
    for each in parent.__subclasses__():
        yield from _below(each)
        if not inspect.isabstract(each) and hasattr(each, "kind"):
            yield each


def _is_built_in(each: type) -> bool:
    return each.__module__.startswith("detector_bench.")


def _entry_points(group: str) -> Any:
    from importlib.metadata import entry_points

    return entry_points(group=f"detector_bench.{group}")


def test_every_registered_stage_and_detector_has_a_case() -> None:
    covered = {name for case in CASES.values() for name in case.covers}
    missing = sorted({*registered(), *unregistered()} - covered)
    assert not missing, f"no case in tests/conformance_cases.py for {', '.join(missing)}"
    assert covered <= {*registered(), *unregistered()}


# --- the cases


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if case.slow else ()) for name, case in CASES.items()]
)
def test_the_same_verdicts_on_every_way(name: str, parts: Parts, images: list[Pixels]) -> None:
    case = CASES[name]
    # Another process imports everything anew, which takes seconds.
    checked(case, parts, images, ways=tuple(Way) if case.slow else IN_THIS_PROCESS)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if not case.slow])
def test_the_same_verdicts_in_another_process(name: str, parts: Parts, images: list[Pixels]) -> None:
    checked(CASES[name], parts, images, ways=(Way.OTHER_PROCESS,))


def checked(case: Case, parts: Parts, images: list[Pixels], *, ways: tuple[Way, ...]) -> None:
    with case.serving(parts) if case.serving else nullcontext({}) as served:
        made = case.make(parts, **served)
        weights = parts.with_shared_weights if case.shared else parts.anywhere
        stages = with_inputs([made] if isinstance(made, Stage) else made.stages)
        ran = {made.kind.name} if isinstance(made, Detector) else set()
        ran |= {stage.kind if stage.kind in STAGES else type(stage).__name__ for stage in stages}
        assert ran == case.covers
        if isinstance(made, Stage):
            found = check_stage(made, images, weights=weights, ways=ways)
        else:
            found = check_detector(made, images, weights=weights, ways=ways)
            assert found.verdicts[Status.CLEAR] > 0, found.verdicts
    assert found.passed, "\n".join(map(str, found.findings))
    assert set(found.ways) == {Way.ONE_BY_ONE, *ways}


# --- that it finds what it is there for


@pytest.fixture(scope="module")
def noises() -> list[Pixels]:
    return [noise(8 + number, 12, seed=number) // (1 + number % 3) for number in range(7)]


def ways_with_findings(found: Conformance) -> set[Way]:
    return {finding.way for finding in found.findings}


@pytest.mark.parametrize(
    ("fault", "found_by", "message"),
    [
        (SecondCallFails(), Way.ONE_BY_ONE, "stage_failed: RuntimeError: generator didn't yield"),
        (BatchCentred(), Way.THREE_BATCHES, "'mean' differs by"),
        (Draws(), Way.OTHER_ORDER, "'mean' differs by"),
        (RemembersTheFirst(), Way.RESUMED, "'mean' differs by"),
        (Paints(), Way.ONE_BY_ONE, "the pixels, which other stages see, too, are changed"),
    ],
    ids=lambda each: each.kind if isinstance(each, Stage) else "",
)
def test_a_fault_of_a_stage_is_found(noises: list[Pixels], fault: Stage, found_by: Way, message: str) -> None:
    found = check_stage(fault, noises, ways=IN_THIS_PROCESS)
    assert found_by in ways_with_findings(found)
    assert any(each.way is found_by and each.message.startswith(message) for each in found.findings)


def test_a_fault_of_a_detector_is_found(noises: list[Pixels]) -> None:
    found = check_detector(build_detector("fault-counts"), noises, ways=IN_THIS_PROCESS)
    assert {Way.THREE_BATCHES, Way.OTHER_ORDER} <= ways_with_findings(found)
    assert any(each.message == "label is 'female', and one by one: 'male'" for each in found.findings)


def test_what_does_not_outlast_being_kept_is_found(noises: list[Pixels]) -> None:
    found = check_detector(build_detector("fault-sums"), noises, ways=IN_THIS_PROCESS)
    assert Way.FROM_KEPT_RESULTS in ways_with_findings(found)
    assert not ways_with_findings(found) & {Way.THREE_BATCHES, Way.OTHER_ORDER}


@pytest.mark.slow
def test_another_process_is_another_process(noises: list[Pixels]) -> None:
    ways = (Way.OTHER_PROCESS,)
    found = check_stage(HashedText(), noises, ways=ways)
    assert {each.place.split(",")[0] for each in found.findings} == {f"image_{number}" for number in range(1, 8)}
    sound = build_detector("sound-colour", name="mine", parameters={"green": 90.0, "further": 1.0})
    found = check_detector(sound, noises, ways=ways)
    assert found.passed, found.findings
    assert found.verdicts[Status.CLEAR]
    assert found.verdicts[Status.FILTERED]


@pytest.mark.slow
def test_a_plugin_file_is_loaded_in_the_other_process(noises: list[Pixels], tmp_path: Path) -> None:
    plugin = tmp_path / "mine.py"
    text = Path(__file__).with_name("conformance_faults.py").read_text().replace("sound-colour", "plugged-colour")
    plugin.write_text(text.replace("fault-", "plugged-"))
    load_plugins([plugin])
    found = check_detector(build_detector("plugged-colour"), noises, ways=(Way.OTHER_PROCESS,))
    assert found.passed, found.findings
    # Changed on the disk, and not loaded here: another stage, by its fingerprint.
    plugin.write_text(plugin.read_text() + "\n# changed\n")
    found = check_detector(build_detector("plugged-colour"), noises, ways=(Way.OTHER_PROCESS,))
    assert [each.message for each in found.findings] == ["it has another fingerprint there"]
    # It no longer imports.
    plugin.write_text("import a_package_that_is_gone\n")
    found = check_detector(build_detector("plugged-colour"), noises, ways=(Way.OTHER_PROCESS,))
    (finding,) = found.findings
    assert "ModuleNotFoundError: No module named 'a_package_that_is_gone'; mend it" in finding.message


def test_too_few_images_are_refused(noises: list[Pixels]) -> None:
    with pytest.raises(ConfigError, match="on at least 6 images; got 5"):
        check_stage(Sound(), noises[:5])


# --- what is the same


def test_arrays_are_the_same_within_the_tolerance() -> None:
    one = {"a": np.array([1.0, 200.0, np.nan]), "b": np.array([1, 2])}
    same = {"a": np.array([1.0, 200.019, np.nan]), "b": np.array([1, 2])}
    assert stage_difference(one, same, tolerance=1e-4) is None
    for other, message in (
        ({"a": np.array([1.0, 200.04, np.nan]), "b": one["b"]}, "'a' differs by 0.0002; accepted: 0.0001"),
        ({"a": np.array([1.0, np.nan, 200.0]), "b": one["b"]}, "'a' differs by inf"),
        ({"a": np.array([1.0, 200.0, np.inf]), "b": one["b"]}, "'a' differs by inf"),
        ({"a": one["a"], "b": np.array([1, 3])}, "'b' differs in 1 of 2 places"),
        ({"a": one["a"], "b": np.array([1.0, 2.0])}, "'b' is float64 [2], and one by one: int64 [2]"),
        ({"a": one["a"], "b": np.array([[1, 2]])}, "'b' is int64 [1, 2], and one by one: int64 [2]"),
        ({"a": one["a"]}, "arrays ['a'], and one by one: ['a', 'b']"),
        (StageFailure("stage_failed", "no"), "stage_failed: no, and one by one: a result"),
    ):
        assert (stage_difference(one, other, tolerance=1e-4) or "").startswith(message)
    empty = {"a": np.zeros((0, 4))}
    assert stage_difference(empty, {"a": np.zeros((0, 4))}, tolerance=0.0) is None


def test_verdicts_are_the_same_within_the_tolerance() -> None:
    frame = Frame("i")
    one = Prediction.clear(frame, "age", "young", score=0.5, value=30.0, raw='{"shares": [0.5, 0.2], "word": "a"}')

    def other(**changes: Any) -> str | None:
        raw = {"score": 0.5, "value": 30.0, "raw": '{"shares": [0.5, 0.2], "word": "a"}', **changes}
        return prediction_difference(one, Prediction.clear(frame, "age", "young", **raw), tolerance=1e-4)

    assert other(score=0.50009, value=30.0029, raw='{"word": "a", "shares": [0.50009, 0.2]}') is None
    assert other(score=0.5002) == "score is 0.5002, and one by one: 0.5"
    assert other(score=None) == "score is None, and one by one: 0.5"
    assert other(value=30.0031) == "value is 30.0031, and one by one: 30.0"
    assert str(other(raw='{"shares": [0.5, 0.21], "word": "a"}')).startswith("raw is")
    assert str(other(raw='{"shares": [0.5], "word": "a"}')).startswith("raw is")
    filtered = Prediction.filtered(frame, "age", "no_face")
    assert str(prediction_difference(one, filtered, tolerance=1)).startswith("status is")
