"""CITATION.cff, CONTRIBUTING.md, the paper and the glossary say what is so: versions, links and names."""

from __future__ import annotations

import re
import tomllib
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml

import detector_bench

ROOT = Path(__file__).resolve().parents[1]
GLOSSARY = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")


def project() -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return found


def test_the_citation_is_that_of_this_version() -> None:
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert cited["cff-version"] == "1.2.0"
    assert {"message", "title", "authors"} <= set(cited)
    assert cited["version"] == detector_bench.__version__
    assert cited["title"] == detector_bench.__name__
    assert cited["authors"] == project()["authors"]
    assert cited["keywords"] == project()["keywords"]
    assert cited["license"] == project()["license"]
    assert (ROOT / "LICENSE").read_text(encoding="utf-8").startswith(f"{cited['license']} License")
    for reference in cited["references"]:
        assert {"type", "title", "authors"} <= set(reference)
        assert re.fullmatch(r"10\.\d{4,9}/\S+", reference["doi"])


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "SECURITY.md", "docs/glossary.md", "paper_figures/README.md"])
def test_links_lead_somewhere(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    links = [link for link in re.findall(r"\]\(([^)]+)\)", text) if "://" not in link]
    assert not [link for link in links if not ((ROOT / page).parent / link).exists()]


def test_the_paper_cites_what_its_bibliography_holds_and_has_the_length_that_is_asked() -> None:
    text = (ROOT / "paper" / "paper.md").read_text(encoding="utf-8")
    _, header, body = text.split("---\n", 2)
    bibliography = (ROOT / "paper" / "paper.bib").read_text(encoding="utf-8")
    entries_of = re.findall(r"^@\w+\{(\w+),", bibliography, re.MULTILINE)
    assert len(set(entries_of)) == len(entries_of)
    assert set(re.findall(r"@(\w+)", body)) == set(entries_of)
    assert {"title", "tags", "authors", "affiliations", "date", "bibliography"} <= set(yaml.safe_load(header))
    asked = ["Summary", "Statement of need", "State of the field", "Software design", "Research impact statement"]
    asked += ["AI usage disclosure", "References"]
    assert set(asked) <= set(re.findall(r"^# (.+)$", body, re.MULTILINE))
    assert 750 <= len(body.split()) <= 1750


def test_the_checklist_of_the_paper_names_files_that_there_are() -> None:
    text = (ROOT / "paper" / "checklist.md").read_text(encoding="utf-8")
    named = re.findall(r"`([\w./]+(?:\.\w+|/))`", text)
    assert len(named) > 15
    assert not [name for name in named if not ((ROOT / name).exists() or (ROOT / "paper" / name).exists())]


def test_a_hosted_service_runs_what_everybody_can_run() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8"))
    steps = workflow["jobs"]["run"]["steps"]
    assert [step["run"] for step in steps if "run" in step] == ["bash .ci/run"]
    asked = project()["requires-python"].removeprefix(">=")
    assert asked in workflow["jobs"]["run"]["strategy"]["matrix"]["python"]


@pytest.mark.parametrize("form", ["addition", "defect", "wrong_number"])
def test_issue_forms_ask_what_they_may(form: str) -> None:
    found = yaml.safe_load((ROOT / ".github" / "ISSUE_TEMPLATE" / f"{form}.yml").read_text(encoding="utf-8"))
    assert {"name", "description", "body"} <= set(found)
    fields = found["body"]
    assert len({field["id"] for field in fields}) == len(fields)
    assert {field["type"] for field in fields} <= {"input", "textarea", "dropdown", "checkboxes"}
    assert all(field["attributes"]["label"] for field in fields)


def test_the_container_installs_extras_that_there_are() -> None:
    text = (ROOT / "Containerfile").read_text(encoding="utf-8")
    (extras,) = re.findall(r"^ARG EXTRAS=(\S+)$", text, re.MULTILINE)
    assert set(extras.split(",")) <= set(project()["optional-dependencies"])
    assert not {"yolo", "ultralytics"} & set(extras.split(","))


def test_the_commands_of_contributing_are_in_the_makefile() -> None:
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    asked = re.findall(r"\bmake (\w+)\b", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))
    assert asked
    assert set(asked) <= targets


def entries() -> list[tuple[str, str]]:
    """Every term of the glossary with a name in the code."""
    rows = re.findall(r"^\| (.+?) \| .+ \| (.+?) \|$", GLOSSARY, re.MULTILINE)
    return [(term, name) for term, names in rows for name in re.findall(r"`([^`]+)`", names)]


def test_a_term_stands_in_the_glossary_once() -> None:
    terms = re.findall(r"^\| ([^|]+?) \|", GLOSSARY, re.MULTILINE)
    singles = [each for term in terms if term not in ("term", "---") for each in term.split(", ")]
    assert len(singles) > 60
    assert len(set(singles)) == len(singles)


@pytest.mark.parametrize(("term", "name"), entries())
def test_what_the_glossary_names_is_there(term: str, name: str) -> None:
    assert term
    if "." in name and not name.endswith((".csv", ".json")):
        assert found(name) is not None
    elif (ROOT / "detector_bench" / name).is_dir():
        import_module(f"detector_bench.{name}")
    else:  # a metric, a column, a label or a file, which the other pages speak of, too
        pages = [*(ROOT / "docs").glob("*.md"), ROOT / "README.md"]
        assert any(
            f"`{name}`" in page.read_text(encoding="utf-8") for page in pages if page.name != "glossary.md"
        ) or (name in (ROOT / "README.md").read_text(encoding="utf-8"))


def found(name: str) -> Any:
    """What a dotted name below `detector_bench` stands for: a module, or something in one."""
    parts = name.split(".")
    for depth in range(len(parts), 0, -1):
        try:
            value: Any = import_module(".".join(["detector_bench", *parts[:depth]]))
        except ModuleNotFoundError:
            continue
        for part in parts[depth:]:
            value = getattr(value, part, None) if part not in getattr(value, "__annotations__", {}) else part
        return value
    return None
