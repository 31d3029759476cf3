"""What holds for all guides `docs/add-*.md`: every block of code says how a test executes it, and a test does."""

from __future__ import annotations

from pathlib import Path

import pytest
from guides import DOCS, KINDS, blocks_of

GUIDES = sorted(path.name for path in DOCS.glob("add-*.md"))


def test_there_is_a_guide_for_each_recipe_of_contributing() -> None:
    contributing = (DOCS.parent / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert len(GUIDES) >= 5
    assert [page for page in GUIDES if f"(docs/{page})" not in contributing] == []


@pytest.mark.parametrize("page", GUIDES)
def test_every_block_is_marked_and_followed(page: str) -> None:
    text = (DOCS / page).read_text(encoding="utf-8")
    blocks = blocks_of(page)
    assert len(blocks) == text.count("```") / 2, "a block is not closed, or stands inside a list"
    assert len(blocks) == text.count("<!-- ")
    assert [each.text for each in blocks if each.kind not in KINDS] == []
    names = [(each.kind, each.name) for each in blocks]
    assert len(set(names)) == len(names)
    subject = page.removeprefix("add-").removeprefix("an-").removeprefix("a-").removesuffix(".md")
    test = Path(__file__).with_name(f"test_guide_{subject.replace('-', '_')}.py")
    assert f"executed by `tests/{test.name}`" in " ".join(text.split())
    followed = test.read_text(encoding="utf-8")
    assert f'"{page}"' in followed
    assert ".follow()" in followed, "to the end of the page"
    for each in blocks:
        if each.kind == "excerpt":
            asked = (
                "entry_points(PAGE)" if each.name == "entry point" else f'block(PAGE, "excerpt", "{each.name}")'
            )
            assert asked in followed
