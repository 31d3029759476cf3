"""Builds the site: `python docs/build_site.py`, then open build/site/html/index.html.

No network is used, and a warning is an error. Every page is also there as plain Markdown beside it (`audit.html`,
`audit.md`); `llms.txt` lists them, `llms-full.txt` holds all of them.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from building.api import write_api
from building.built import problems_of
from building.gallery import write_gallery
from building.pages import LinkError, lay_out
from building.plain_text import write_plain_text

ROOT = Path(__file__).resolve().parents[1]


def main() -> None:
    """Lay out the pages, execute notebooks, draw the gallery, call Sphinx twice, and look at what came out."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "site", help="made anew but for its cache")
    parser.add_argument(
        "--cold", action="store_true", help="execute every notebook, also those that did not change"
    )
    asked = parser.parse_args()
    out = asked.out.resolve()
    tree, cache = out / "pages", out / "cache"
    for folder in (
        tree,
        out / "gallery",
        out / "html",
        out / "markdown",
        out / "doctrees",
        *([cache] if asked.cold else []),
    ):
        shutil.rmtree(folder, ignore_errors=True)
    # Nothing of what is computed here, for the gallery, is anybody else's.
    os.environ["DETECTOR_BENCH_CACHE"] = str(cache / "stages")
    try:
        _timed("pages", lambda: lay_out(ROOT, tree))
    except LinkError as error:
        sys.exit(f"links that lead nowhere:\n{error}")
    write_api(tree / "api.md")
    with _environment_of_notebooks(cache / "notebooks") as environment:
        _timed("notebooks and gallery", lambda: _compute(tree, out, environment))
        _timed("html", lambda: _sphinx("html", tree, out, environment))
        _timed("plain text", lambda: _sphinx("markdown", tree, out, environment))
    write_plain_text(out / "markdown", out / "html")
    if problems := problems_of(out / "html"):
        sys.exit("\n".join(problems))
    pages = len([*(out / "html").rglob("*.html")])
    print(f"{pages} pages: {out / 'html' / 'index.html'}")  # noqa: T201


def _timed(what: str, do: Callable[[], object]) -> None:
    begun = time.monotonic()
    do()
    print(f"{what}: {time.monotonic() - begun:.0f} s", flush=True)  # noqa: T201


@contextmanager
def _environment_of_notebooks(kept: Path) -> Iterator[dict[str, str]]:
    """The environment of Sphinx, and of the kernels of notebooks, whose outputs are kept in a folder."""
    with TemporaryDirectory() as stores, TemporaryDirectory() as settings:
        startup = Path(settings) / "profile_default" / "startup"
        startup.mkdir(parents=True)
        shutil.copyfile(ROOT / "docs" / "building" / "bash_cells.py", startup / "00-bash-cells.py")
        # Kernels tell that this machine could listen to them; nothing that they say here is secret.
        (startup.parent / "ipython_kernel_config.py").write_text("get_config().IPKernelApp.log_level = 40\n")
        yield {
            **os.environ,
            "DETECTOR_BENCH_NOTEBOOK_CACHE": str(kept),
            # What notebooks compute is theirs alone; the commands in them are those of this Python.
            "DETECTOR_BENCH_CACHE": stores,
            "IPYTHONDIR": settings,
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]),
            "COLUMNS": "110",
            "NO_COLOR": "1",
        }


def _compute(tree: Path, out: Path, environment: dict[str, str]) -> None:
    """Execute the notebooks, and draw the gallery meanwhile."""
    program = ROOT / "docs" / "building" / "notebooks.py"
    kept = environment["DETECTOR_BENCH_NOTEBOOK_CACHE"]
    with subprocess.Popen([sys.executable, str(program), str(tree), kept], env=environment) as notebooks:
        write_gallery(tree, out / "gallery")
    if notebooks.returncode:
        sys.exit("notebooks: the lines above say what is wrong")


def _sphinx(builder: str, tree: Path, out: Path, environment: dict[str, str]) -> None:
    """Both builders share what was read; a page that no other page links to is a warning, which ends the build."""
    # The plain text has no cards and no hints under words, which its writer would warn of.
    strictness = ["-W", "--keep-going", "-q"] if builder == "html" else ["-Q"]
    arguments = ["-b", builder, "-c", str(ROOT / "docs"), "-d", str(out / "doctrees"), *strictness]
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", *arguments, str(tree), str(out / builder)], env=environment, check=False
    )
    if done.returncode:
        sys.exit(f"{builder}: the lines above say what is wrong")


if __name__ == "__main__":
    main()
