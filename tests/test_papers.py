"""docs/papers.md and its four tables: what they name is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import typer

from detector_bench.cli.app import app
from detector_bench.detectors.judge_presets import PRESETS
from detector_bench.figures.figure_files import known_figures
from detector_bench.metrics.catalogue import METRICS

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGES = [DOCS / "papers.md", *sorted((DOCS / "papers").glob("*.md"))]
_COMMAND = re.compile(r"`detector-bench ([a-z0-9 -]+)")
_LINK = re.compile(r"\]\(([^)#\s]+)?(?:#([^)\s]+))?\)")


def commands_named(text: str) -> set[str]:
    return {" ".join(each.split()) for each in _COMMAND.findall(text)}


def is_a_command(words: str) -> bool:
    """Whether the words, as far as they are commands and not arguments, lead to one that can be called."""
    found = typer.main.get_command(app)
    for word in words.split():
        known = getattr(found, "get_command", None)
        if known is None:
            return True
        below = known(None, word)
        if below is None:
            return False
        found = below
    return not hasattr(found, "list_commands") or "list" in found.list_commands(None)


def anchors(page: Path) -> set[str]:
    """Those that headings get: small letters, blanks as hyphens, other marks left out."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", each.lower()).replace(" ", "-") for each in headings}


def test_there_is_a_table_for_every_paper() -> None:
    linked = set(re.findall(r"\(papers/([a-z0-9]+)\.md\)", PAGES[0].read_text(encoding="utf-8")))
    assert linked == {"lyu2025", "biaspainter", "bigbench", "imagebite"}
    assert {each.stem for each in PAGES[1:]} == linked


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_command_is_one(page: Path) -> None:
    named = commands_named(page.read_text(encoding="utf-8"))
    assert named
    assert [words for words in sorted(named) if not is_a_command(words)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_file_and_heading_that_is_linked_exists(page: Path) -> None:
    missing = []
    for file, heading in _LINK.findall(page.read_text(encoding="utf-8")):
        if file.startswith(("http://", "https://")):
            continue
        target = (page.parent / file).resolve() if file else page
        if not target.exists() or (heading and heading not in anchors(target)):
            missing.append(f"{file}#{heading}")
    assert missing == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_metric_figure_and_preset_that_is_named_exists(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    wrong = [name for name in re.findall(r"[Mm]etrics? `([a-z0-9_]+)`", text) if name not in METRICS]
    wrong += [name for name in re.findall(r"[Ff]igures? `([a-z0-9_]+)`", text) if name not in known_figures()]
    wrong += [name for name in re.findall(r"`preset: ([a-z0-9_]+)`", text) if name not in _presets()]
    assert wrong == []


def _presets() -> set[str]:
    """Of judges, and of score systems."""
    return {*PRESETS, "as_published", "as_formula", "as_code", "as_code_squared", "as_paper"}


def test_words_that_are_no_command_are_seen() -> None:
    assert commands_named("`detector-bench reproduce bigbench FOLDER`") == {"reproduce bigbench"}
    assert is_a_command("labels export")
    assert not is_a_command("reproduce nothing")
    assert not is_a_command("reproduce")
