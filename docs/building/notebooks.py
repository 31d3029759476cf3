"""Executes the notebooks whose code has changed, side by side, and keeps their outputs for Sphinx.

Sphinx itself would execute them one after the other. It is a program of its own, as kernels inherit its
environment: `python docs/building/notebooks.py PAGES CACHE`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from jupyter_cache import get_cache
from jupyter_cache.base import CacheBundleIn
from jupyter_cache.executors.utils import ExecutionResult, single_nb_execution
from myst_nb.core.read import read_myst_markdown_notebook

BEGINNING = "---\nfile_format: mystnb\n"
SECONDS = 120
"""The longest that a cell may take."""


def notebooks(pages: Path) -> Iterator[Path]:
    """The pages below a folder that are notebooks."""
    for path in sorted(pages.rglob("*.md")):
        with path.open(encoding="utf-8") as file:
            if file.read(len(BEGINNING)) == BEGINNING:
                yield path


def execute_changed(pages: Path, cache_folder: Path) -> list[str]:
    """Execute what the cache has no outputs of: what went wrong, a text for each notebook that failed."""
    cache = get_cache(str(cache_folder))
    changed = {}
    for path in notebooks(pages):
        book = read_myst_markdown_notebook(path.read_text(encoding="utf-8"))
        try:
            cache.match_cache_notebook(book)
        except KeyError:
            changed[path] = book
    if not changed:
        return []
    with ThreadPoolExecutor(len(changed)) as threads:
        results = list(threads.map(_executed, changed.values()))
    wrong = []
    for path, result in zip(changed, results, strict=True):
        if result.err is not None:
            wrong.append(f"{path.relative_to(pages)}: {result.exc_string}")
            continue
        done = CacheBundleIn(result.nb, str(path), data={"execution_seconds": result.time})
        cache.cache_notebook_bundle(done, check_validity=False, overwrite=True)
    return wrong


def _executed(book: Any) -> ExecutionResult:
    """Run one notebook in an empty folder."""
    with TemporaryDirectory() as folder:
        return single_nb_execution(book, cwd=folder, timeout=SECONDS, allow_errors=False, startup_timeout=SECONDS)


if __name__ == "__main__":
    if problems := execute_changed(Path(sys.argv[1]), Path(sys.argv[2])):
        sys.exit("\n\n".join(problems))
