"""The study's figures as vector files with their captions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from detector_bench.errors import DetectorBenchError, MissingExtraError
from detector_bench.figures import FinishedStudy, figures_of, known_figures, write_figures

_SIZE = re.compile(
    r'<svg[^>]*?\swidth="([\d.]+)pt"[^>]*?\sheight="([\d.]+)pt"|<svg[^>]*?\sheight="([\d.]+)pt"[^>]*?\swidth="([\d.]+)pt"'
)


@dataclass(frozen=True, slots=True)
class DrawnFigure:
    """A figure of the report."""

    name: str
    about: str
    href: str
    caption: str
    width: int
    """Its proportions, in points."""
    height: int


def draw_figures(
    study: FinishedStudy, out: Path, *, place: str, workers: int = 1
) -> tuple[list[DrawnFigure], list[str]]:
    """Draw all figures of an attribute that the study can have.

    Args:
        study: a finished study.
        out: the report's folder.
        place: the figures' folder, relative to it.
        workers: see `write_figures`.

    Returns:
        The figures, and why others are missing, a sentence each.
    """
    try:
        names = figures_of(study)
        written = write_figures(
            study, out / place, names=names, widths=("double",), formats=("svg",), workers=workers
        )
    except MissingExtraError as error:
        return [], [f"There are no figures: {error}."]
    except DetectorBenchError as error:
        return [], [f"There are no figures: {error}"]
    drawn = [_drawn(name, out, place) for name in names if name not in written.not_drawn]
    return drawn, _in_sentences(written.not_drawn)


def _drawn(name: str, out: Path, place: str) -> DrawnFigure:
    file = f"{name}_double.svg"
    with (out / place / file).open(encoding="utf-8") as stream:
        found = _SIZE.search(stream.read(2000))
    numbers = [float(each) for each in found.groups() if each] if found else [504.0, 300.0]
    width, height = numbers if found is None or found[1] else reversed(numbers)
    about = known_figures()[name].partition(" (")[0]
    caption = (out / place / f"{name}.txt").read_text(encoding="utf-8").strip()
    return DrawnFigure(
        name, about[:1].upper() + about[1:], f"{place}/{file}", caption, round(width), round(height)
    )


def _in_sentences(not_drawn: Mapping[str, str]) -> list[str]:
    """Why figures are missing, those with the same reason together."""
    names: dict[str, list[str]] = {}
    for name, reason in not_drawn.items():
        names.setdefault(reason, []).append(known_figures()[name])
    return [
        f"Not drawn: {'; '.join(figures)}. {reason[:1].upper()}{reason[1:]}{'' if reason.endswith('.') else '.'}"
        for reason, figures in names.items()
    ]
