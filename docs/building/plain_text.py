"""The same pages as plain Markdown beside the HTML, and their list in the form of llmstxt.org."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

ABOUT = (
    "Checks whether a gender, age or race detector can be trusted to measure the bias of a text-to-image (T2I) "
    "model: "
    "runs detectors over human-labelled image sets, tells filtering from classification, and compares bias scores."
)
SECTIONS = {
    "Start": ("index", "start", "faq"),
    "Tutorials": ("tutorials",),
    "How to": ("how-to",),
    "Reference": ("reference", "metrics", "glossary", "commands", "python", "installing", "gallery", "api"),
    "Project": ("project",),
}
"""Which pages stand under which heading, by the name of the page or of its folder; guides are the rest."""
OTHERS = "Guides"


def write_plain_text(markdown: Path, site: Path) -> None:
    """Copy every page of the folder `markdown` into the site, and write `llms.txt` and `llms-full.txt`."""
    pages = {path.relative_to(markdown).as_posix(): path for path in sorted(markdown.rglob("*.md"))}
    sections: dict[str, list[str]] = {title: [] for title in ("Start", "Tutorials", "How to", OTHERS)}
    full = []
    for name, path in pages.items():
        text = path.read_text(encoding="utf-8")
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, site / name)
        first = name.removesuffix(".md").split("/")[0]
        title = next((title for title, names in SECTIONS.items() if first in names), OTHERS)
        sections.setdefault(title, []).append(f"- [{_title(text) or name}]({name}){_about(text)}")
        full.append(f"<!-- {name} -->\n\n{text.strip()}\n")
    listed = "\n\n".join(f"## {title}\n\n" + "\n".join(lines) for title, lines in sections.items() if lines)
    (site / "llms.txt").write_text(f"# detector_bench\n\n> {ABOUT}\n\n{listed}\n", encoding="utf-8")
    (site / "llms-full.txt").write_text("\n\n".join(full), encoding="utf-8")


def _title(text: str) -> str:
    found = re.search(r"^# (.+)$", text, re.MULTILINE)
    return found[1].replace("`", "") if found else ""


def _about(text: str) -> str:
    """The first sentence of a page."""
    for part in text.split("\n\n"):
        line = " ".join(part.split())
        if re.match(r"[A-Za-z*\[]|`[^`]", line):
            line = re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", line).replace("**", "")
            return ": " + re.split(r"(?<=[.?!]) (?=[A-Z`])", line, maxsplit=1)[0][:240]
    return ""
