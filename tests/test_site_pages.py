"""What the site is made of: every page has a place in it, no link leads nowhere, the public interface is whole."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "docs"))

from building import api, built, pages, plain_text  # noqa: E402


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pages as Sphinx reads them; a dead link between them is an error."""
    folder = tmp_path_factory.mktemp("site")
    pages.lay_out(ROOT, folder)
    api.write_api(folder / "api.md")
    (folder / "gallery.md").write_text("# Gallery\n")
    return folder


def _listed(tree: Path) -> Iterator[str]:
    for path in tree.rglob("*.md"):
        for listed in re.findall(r"^```\{toctree\}\n(.*?)^```$", path.read_text(), re.DOTALL | re.MULTILINE):
            for line in listed.splitlines():
                if line and not line.startswith(":"):
                    yield (path.parent / f"{line}.md").relative_to(tree).as_posix()


def test_every_page_is_in_a_list_of_pages(tree: Path) -> None:
    found = {path.relative_to(tree).as_posix() for path in tree.rglob("*.md")} - {"index.md"}
    lists = list(_listed(tree))
    assert len(found) > 60
    assert sorted(page for page in found if not any(fnmatch(page, each) for each in lists)) == []
    assert [each for each in lists if not any(fnmatch(page, each) for page in found)] == []


def test_links_out_of_docs_lead_to_where_the_site_has_it(tree: Path) -> None:
    assert "(project/benchmarks.md)" in (tree / "reference.md").read_text()
    assert "(../project/benchmarks.md#measured)" in (tree / "how-to" / "several-gpus.md").read_text()
    assert (tree / "files" / "configs" / "t2i_portraits.yaml").is_file()


def test_a_link_that_leads_nowhere_is_named(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "one.md").write_text("[two](two.md)\n\n```\n[code](is/no/link)\n```\n")
    with pytest.raises(pages.LinkError, match=r"^docs/one\.md: a link to two\.md, which is not there$"):
        pages.lay_out(tmp_path, tmp_path / "tree")


def test_the_public_interface_is_whole(monkeypatch: pytest.MonkeyPatch, tree: Path) -> None:
    assert api.missing() == set()
    told = "".join(path.read_text() for path in (tree / "api").glob("*.md"))
    assert ".. autoclass:: detector_bench.study.Study\n" in told
    # `Results.number` stands in a class that `Results` is made of.
    assert told.count(":inherited-members: BaseModel") == told.count(":members:")
    assert ".. autofunction:: detector_bench.evaluation.evaluate\n" in told or "evaluate" in told
    monkeypatch.setattr("detector_bench.__all__", [*api.detector_bench.__all__, "Newcomer"])
    with pytest.raises(ValueError, match="Newcomer"):
        api.write_api(tree / "again.md")


def test_dead_links_and_what_would_be_fetched_are_found(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text(
        '<h1 id="top">x</h1><a href="two.html#here">2</a><a href="#top">up</a><a href="gone.html">3</a>'
        '<a href="https://example.org">fine</a><script src="https://cdn.example.org/x.js"></script>'
    )
    (tmp_path / "two.html").write_text("<p>nothing here</p>")
    assert built.problems_of(tmp_path) == [
        "index.html: https://cdn.example.org/x.js would be fetched from a network",
        "index.html: a link to gone.html, which is not there",
        "index.html: a link to two.html#here: that page has no such place",
    ]
    assert list(built.addresses_of(tmp_path)) == ["https://example.org"]


def test_pages_are_plain_text_with_a_list(tmp_path: Path) -> None:
    (tmp_path / "markdown" / "how-to").mkdir(parents=True)
    (tmp_path / "site").mkdir()
    (tmp_path / "markdown" / "start.md").write_text("# Start here\n\n[Five](x.md) commands. And more.\n")
    (tmp_path / "markdown" / "how-to" / "x.md").write_text("# How?\n\n```\ncode\n```\n\nSo.\n")
    plain_text.write_plain_text(tmp_path / "markdown", tmp_path / "site")
    said = (tmp_path / "site" / "llms.txt").read_text()
    assert said.startswith("# detector_bench\n\n> ")
    assert "## Start\n\n- [Start here](start.md): Five commands.\n" in said
    assert "- [How?](how-to/x.md): So." in said
    assert (tmp_path / "site" / "llms-full.txt").read_text().count("<!-- ") == 2


def test_built_pages_are_in_no_package() -> None:
    project: Any = __import__("tomllib").loads((ROOT / "pyproject.toml").read_text())
    assert not any(
        each.startswith(("docs", "build"))
        for each in project["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    )
    assert "build/" in (ROOT / ".gitignore").read_text().splitlines()
