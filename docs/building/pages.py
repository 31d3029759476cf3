"""Lays out the tree that Sphinx reads: the pages of `docs/`, those that lie elsewhere in the repository, files.

On a code host every page works where it lies; here links that lead out of `docs/` lead to where the tree has it.
"""

from __future__ import annotations

import posixpath
import re
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath

ELSEWHERE = {
    "ARCHITECTURE.md": "project/architecture.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "CHANGELOG.md": "project/changelog.md",
    "SECURITY.md": "project/security.md",
    "CODE_OF_CONDUCT.md": "project/conduct.md",
    "benchmarks/README.md": "project/benchmarks.md",
    "paper_figures/README.md": "project/paper-figures.md",
    "labels/README.md": "project/labels.md",
}
"""Pages of the repository outside `docs/`, and where the site has them; what `labels/` says lies below it."""

RENAMED = {"docs/search.md": "best-composition.md"}
"""A page whose name Sphinx keeps for its own search."""

README = "README.md"
_COMMANDS = re.compile(r"^```\n(?=(?:detector-bench|python|pip|make|git|sbatch|cd|export) )", re.MULTILINE)
_FENCED = re.compile(r"(^ *(?P<fence>`{3,}|:{3,}).*?^ *(?P=fence) *$)", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"(?P<before>!?\[[^\]]*\]\()(?P<target>[^)\s]+)(?P<after>\))")


class LinkError(Exception):
    """A link to what is not there."""


def pages(root: Path) -> dict[str, str]:
    """Where each page of the repository is on the site: `docs/audit.md` is `audit.md`."""
    docs = root / "docs"
    own = {f"docs/{name}": name for name in sorted(_below(docs, "*.md")) if not name.startswith("building/")}
    readmes = [f"labels/{name}" for name in sorted(_below(root / "labels", "*.md"))]
    labels = {name: f"project/labels/{name.removeprefix('labels/').replace('/README', '')}" for name in readmes}
    own |= {name: place for name, place in RENAMED.items() if name in own}
    return own | labels | {name: place for name, place in ELSEWHERE.items() if (root / name).is_file()}


def _below(folder: Path, pattern: str) -> Iterator[str]:
    yield from (path.relative_to(folder).as_posix() for path in folder.rglob(pattern))


def lay_out(root: Path, tree: Path) -> dict[str, str]:
    """Write all pages into an empty tree; files that they link to lie in `tree/files`.

    Returns:
        `pages`.

    Raises:
        LinkError: pages link to what the repository does not have.
    """
    places = pages(root)
    wrong: list[str] = []
    for name, place in places.items():
        text = (root / name).read_text(encoding="utf-8")

        def led(target: str, name: str = name) -> str:
            try:
                return _led(root, tree, places, name=name, target=target)
            except LinkError as error:
                wrong.append(f"{name}: {error}")
                return target

        _write(tree / place, with_links(coloured(_without_empty_globs(text, places.values())), led))
    for folder in ("images", "_static", "_templates"):
        if (root / "docs" / folder).is_dir():
            shutil.copytree(root / "docs" / folder, tree / folder, dirs_exist_ok=True)
    if wrong:
        raise LinkError("\n".join(wrong))
    return places


def _without_empty_globs(text: str, places: Collection[str]) -> str:
    """A page without those patterns in its lists of pages that match none, which Sphinx would warn of."""

    def matches(pattern: str) -> bool:
        return any(fnmatch(place, f"{pattern}.md") for place in places)

    def kept(block: re.Match[str]) -> str:
        lines = block[0].splitlines(keepends=True)
        return "".join(line for line in lines if not re.search(r"[*\[]", line) or matches(line.strip()))

    return re.sub(r"^```\{toctree\}\n.*?^```$", kept, text, flags=re.DOTALL | re.MULTILINE)


def coloured(text: str) -> str:
    """Blocks of commands, which our pages leave without a language, in the colours of a shell."""
    return _COMMANDS.sub("```bash\n", text)


def with_links(text: str, led: Callable[[str], str]) -> str:
    """A page with other targets of links, outside its blocks of code."""
    parts = _FENCED.split(text)
    # Of three parts each, the second is a block and the third its fence.
    for number in range(0, len(parts), 3):
        parts[number] = _LINK.sub(lambda link: link["before"] + led(link["target"]) + link["after"], parts[number])
    return "".join(part for number, part in enumerate(parts) if number % 3 != 2)


def _led(root: Path, tree: Path, places: Mapping[str, str], *, name: str, target: str) -> str:
    """Where a link of the page `name` leads in the tree."""
    place = places[name]
    path, mark, anchor = target.partition("#")
    if not path or re.match(r"[a-z]+:", path) or path.startswith("<"):
        return target
    there = posixpath.normpath(posixpath.join(posixpath.dirname(name), path))
    if there == README:
        found = "index.md"
    elif there in places:
        found = places[there]
    elif f"{there}/README.md" in places:
        found = places[f"{there}/README.md"]
    elif there.startswith("docs/") and (root / there).is_file():
        found = there.removeprefix("docs/")
    elif (root / there).is_file():
        found = f"files/{there}"
        (tree / found).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(root / there, tree / found)
    elif there.startswith("docs/") and there.removeprefix("docs/") in GENERATED:
        found = there.removeprefix("docs/")
    else:
        raise LinkError(f"a link to {target}, which is not there")
    here = str(PurePosixPath(place).parent)
    return posixpath.relpath(found, here) + mark + anchor


GENERATED = ("gallery.md", "api.md")
"""Pages that are written when the site is built."""


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
