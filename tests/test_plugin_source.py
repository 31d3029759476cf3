"""The source of what is plugged in belongs to its fingerprint: no verdict of older code is taken for a new one."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pandas as pd
import pytest
from pydantic import BaseModel
from small_parts import ColourDetector, MeanColour, small_run, write_image_set

from detector_bench.detectors import DETECTORS, build_detector
from detector_bench.perception.faces.dlib_faces import DlibHogFaces
from detector_bench.perception.identity import canonical, fingerprint
from detector_bench.perception.stage import STAGES, Frame
from detector_bench.plugins import load_plugins, plugin_files, source_fingerprint
from detector_bench.weights import WeightsLocator

NOWHERE = WeightsLocator(allow_download=False)
SAYS = """
import detector_bench as db

@db.detector({name!r}, attributes=["gender"])
class Says:
    def predict(self, batch):
        return [db.Prediction.clear(image, "gender", {label!r}) for image in batch]
"""
STAGE = """
import detector_bench as db
import numpy as np
{imports}

class Constant(db.Stage):
    kind = "test_constant"
    def load(self, weights):
        return lambda frames: [{{"number": np.array([{number}])}} for frame in frames]

@db.detector({name!r}, attributes=["gender"], stages=[Constant()])
class Reads:
    def predict(self, batch):
        return [
            db.Prediction.clear(image, "gender", "male" if image[Constant()]["number"][0] > 0 else "female")
            for image in batch
        ]
"""
ADDS = """
import sys
from pathlib import Path
sys.path.insert(0, str(Path(__file__).parent))
import beside
import detector_bench as db
from detector_bench.metrics import MetricInfo
from detector_bench.others import Benchmark, register

@db.metric(over="images", definition="a part")
def own_part(counts):
    return counts[..., 0, 0] / 100

db.makes_table("own_table")(lambda numbers: None)
score = MetricInfo(name="own_score", meaning="a score", definition="made up", counted="images")
register(Benchmark(name="own", package=__name__, metrics=[score]))
"""


class Own(BaseModel):
    """A setting of this module."""

    limit: float = 0.5


def written(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def source_of(file: Path, name: str) -> str:
    """The source's hash of a detector, after its file was loaded."""
    load_plugins([file])
    source = DETECTORS.get(name).source
    assert source is not None
    return source


# --- runs


def test_a_changed_plugin_file_is_judged_again_and_an_unchanged_one_is_not(tmp_path: Path) -> None:
    images, out = write_image_set(tmp_path / "images", 5), tmp_path / "out"

    def run(label: str) -> tuple[int, set[str]]:
        load_plugins([written(tmp_path / "says.py", SAYS.format(name="test-says", label=label))])
        record = small_run(images, out, "test-says", "test-colour")
        rows = pd.read_parquet(out / "test-says" / "predictions.parquet")
        return record.images_judged, set(rows["label"])

    assert run("male") == (5, {"male"})
    assert run("male") == (0, {"male"})
    assert run("female") == (5, {"female"})
    assert small_run(images, out, "test-says", "test-colour").images_judged == 0


def test_two_saves_within_a_second_are_two_versions(tmp_path: Path) -> None:
    """As long as each other: Python's own compiled files would take the second for the first."""
    plugin = tmp_path / "quick.py"
    made = []
    for number in (1, 2):
        written(plugin, STAGE.format(name="test-quick", number=number, imports=""))
        os.utime(plugin, (1_700_000_000, 1_700_000_000))
        load_plugins([plugin])
        (stage,) = build_detector("test-quick").stages
        made.append(stage.load(NOWHERE)([Frame("0")])[0]["number"][0])
    assert made == [1, 2]


def test_a_changed_stage_is_computed_again_and_takes_its_detector_along(tmp_path: Path) -> None:
    images, out = write_image_set(tmp_path / "images", 5), tmp_path / "out"

    def run(number: int) -> tuple[dict[str, int], set[str]]:
        text = STAGE.format(name="test-reads", number=number, imports="")
        load_plugins([written(tmp_path / "reads.py", text)])
        record = small_run(images, out, "test-reads")
        return dict(record.images_per_stage), set(pd.read_parquet(out / "test-reads")["label"])

    (first,), labels = run(1)
    assert labels == {"male"}
    (second,), labels = run(-1)
    assert labels == {"female"}
    assert first != second
    # The first version's results are still in the cache.
    assert run(1) == ({}, {"male"})


def test_a_plugin_that_fails_on_the_second_run_loses_nothing(tmp_path: Path) -> None:
    images, out = write_image_set(tmp_path / "images", 5), tmp_path / "out"
    (tmp_path / "study.yaml").write_text("image_set: images\ndetectors: [test-breaks]\n")
    text = SAYS.format(name="test-breaks", label="male")
    plugin = written(tmp_path / "breaks.py", text)
    load_plugins([plugin])
    small_run(images, out / "predictions", "test-breaks")
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}

    written(plugin, "import a_package_that_is_gone\n" + text)
    command = [sys.executable, "-m", "detector_bench", "run", str(tmp_path / "study.yaml"), "--out", str(out)]
    failed = subprocess.run(
        [*command, "--plugin", str(plugin)], capture_output=True, text=True, timeout=60, check=False
    )
    assert failed.returncode == 1
    assert failed.stderr == (
        f"error: --plugin {plugin}, line 1: ModuleNotFoundError: No module named 'a_package_that_is_gone'; "
        "mend it, or install what it needs, and run the same command again: what is stored stays as it is\n"
    )
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before

    load_plugins([written(plugin, text)])
    assert small_run(images, out / "predictions", "test-breaks").images_judged == 0


# --- what counts


def test_what_detector_bench_brings_along_has_a_version_and_no_source() -> None:
    for name in DETECTORS:
        kind = DETECTORS.get(name)
        if kind.factory.__module__.startswith("detector_bench."):
            assert kind.source is None, name
    for name in STAGES:
        stage = STAGES.get(name)
        if stage.__module__.startswith("detector_bench."):
            assert source_fingerprint(stage) is None, name
    assert set(canonical(DlibHogFaces(), weights=NOWHERE)) == {"kind", "version", "parameters", "weights"}
    assert build_detector("test-colour").identity(weights=NOWHERE)["source"] == source_fingerprint(ColourDetector)
    assert canonical(MeanColour(), weights=NOWHERE)["source"] == source_fingerprint(MeanColour)
    # A setting that is no stage, such as a filter of one's own, wherever it stands.
    assert canonical({"filters": [Own()]}, weights=NOWHERE)["filters"][0]["source"] == source_fingerprint(Own)


@pytest.mark.slow
def test_the_record_of_a_file_says_what_it_and_its_imports_add_and_nothing_else(tmp_path: Path) -> None:
    written(tmp_path / "beside.py", SAYS.format(name="test-beside", label="male"))
    file = written(tmp_path / "adds.py", ADDS)
    # In a process of its own, where the file is the first that imports the rooms of the package.
    code = (
        "import sys; from pathlib import Path; from detector_bench.plugins import load_plugins, plugin_files; "
        "load_plugins([Path(sys.argv[1])] * 2); [found] = plugin_files(); print(found.file, found.sha256); "
        "print(found.adds)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(file)], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    first, adds = done.stdout.splitlines()
    assert ast.literal_eval(adds) == {
        "detector": ("test-beside",),
        "metric": ("own_part", "own_score"),
        "table": ("own_table",),
        "score system": ("own",),
    }
    name, source = first.split()
    assert name == "adds.py"
    assert re.fullmatch("[0-9a-f]{64}", source)


def test_a_file_is_recorded_with_the_source_of_its_classes(tmp_path: Path) -> None:
    file = written(tmp_path / "says.py", SAYS.format(name="test-recorded", label="male"))
    assert source_of(file, "test-recorded") == plugin_files()[-1].sha256


def test_where_the_file_lies_and_what_it_is_called_does_not_count(tmp_path: Path) -> None:
    one = source_of(written(tmp_path / "a" / "one.py", SAYS.format(name="test-place", label="male")), "test-place")
    text = SAYS.format(name="test-place-2", label="male")
    assert source_of(written(tmp_path / "b" / "two.py", text), "test-place-2") != one  # another name is other code
    module = written(tmp_path / "c" / "three.py", text)
    assert fingerprint_in_a_process(module, "test-place-2") == source_of(tmp_path / "b" / "two.py", "test-place-2")


@pytest.mark.parametrize(
    ("imports", "changed", "counts"),
    [
        ("import beside", "beside.py", True),
        ("from beside import LIMIT", "beside.py", True),
        ("import first", "second.py", True),  # which `first` imports
        ("def late():\n    from folder.below import LIMIT", "folder/below.py", True),
        ("import folder", "folder/other.py", True),
        ("import beside", "unrelated.py", False),
        ("import numpy", "unrelated.py", False),
    ],
)
def test_modules_that_it_imports_from_beside_it_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, imports: str, changed: str, counts: bool
) -> None:
    written(tmp_path / "first.py", "import second\n")
    below = ("folder/__init__.py", "folder/below.py", "folder/other.py")
    for file in ("beside.py", "second.py", "unrelated.py", *below):
        written(tmp_path / file, "LIMIT = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("beside", "first", "second", "folder", "folder.below"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    detector = f"imports-{tmp_path.name}"
    plugin = written(tmp_path / "plugin.py", STAGE.format(name=detector, number=1, imports=imports))
    before = source_of(plugin, detector), stage_of(detector)
    written(tmp_path / changed, "LIMIT = 2\n")
    after = source_of(plugin, detector), stage_of(detector)
    assert [old != new for old, new in zip(before, after, strict=True)] == [counts, counts]


def stage_of(name: str) -> str:
    (stage,) = build_detector(name).stages
    return fingerprint(stage, weights=NOWHERE)


def test_of_a_package_every_file_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "acme_detectors_of_tests"
    written(package / "__init__.py", "")
    written(package / "limits.py", "LIMIT = 1\n")
    written(package / "nets" / "__init__.py", "")
    written(package / "nets" / "says.py", SAYS.format(name="test-acme", label="male"))
    monkeypatch.syspath_prepend(tmp_path)

    def source() -> str:
        for name in [name for name in sys.modules if name.startswith(package.name)]:
            monkeypatch.delitem(sys.modules, name)
        __import__(f"{package.name}.nets.says")
        found = DETECTORS.get("test-acme").source
        assert found is not None
        return found

    first = source()
    assert source() == first
    written(package / "limits.py", "LIMIT = 2\n")
    assert source() != first
    written(package / "limits.py", "LIMIT = 1\n")
    assert source() == first
    written(tmp_path / "another.py", "")
    assert source() == first


def test_the_source_is_that_of_the_code_that_was_loaded(tmp_path: Path) -> None:
    plugin = written(tmp_path / "loaded.py", STAGE.format(name="test-loaded", number=1, imports=""))
    before = source_of(plugin, "test-loaded"), stage_of("test-loaded")
    written(plugin, STAGE.format(name="test-loaded", number=2, imports=""))
    # Saved, but not loaded: what judges is the old code.
    assert (DETECTORS.get("test-loaded").source, stage_of("test-loaded")) == before
    assert source_of(plugin, "test-loaded") != before[0]


def test_a_notebooks_class_counts_with_its_methods() -> None:
    """Without a file; IPython hands the cells' text to `linecache`, as this does."""
    cell = "class Net:\n    limit = {limit}\n    def predict(self, batch):\n        return {answer}\n"

    def ran(number: int, **words: object) -> type:
        import linecache

        text, name = cell.format(**words), f"<cell {number}>"
        linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
        module = ModuleType("notebook_of_tests")
        sys.modules[module.__name__] = module
        exec(compile(text, name, "exec"), module.__dict__)  # noqa: S102
        found: type = module.__dict__["Net"]
        return found

    first = source_fingerprint(ran(1, limit=1, answer="[]"))
    assert first is not None
    assert source_fingerprint(ran(2, limit=1, answer="[]")) == first
    assert source_fingerprint(ran(3, limit=2, answer="[]")) != first
    assert source_fingerprint(ran(4, limit=1, answer="[1]")) != first


def fingerprint_in_a_process(plugin: Path, name: str) -> str:
    """What another process takes for the source; with other hashes of text, as each has."""
    code = (
        "import sys; from pathlib import Path; from detector_bench.plugins import load_plugins; "
        "from detector_bench.detectors import DETECTORS; load_plugins([Path(sys.argv[1])]); "
        "print(DETECTORS.get(sys.argv[2]).source)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(plugin), name],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONHASHSEED": "7"},
    )
    return done.stdout.strip()
