"""The study's tables, sorted by the page on which they stand, and its figures as vector files with captions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from detector_bench.dataset.published_text import without_folders
from detector_bench.errors import DetectorBenchError, MissingExtraError
from detector_bench.figures import FinishedStudy, figures_of, known_figures, write_figures
from detector_bench.figures.figure_files import OF_IMAGES
from detector_bench.site.report_study import ReportStudy
from detector_bench.study_results import stored_score_tables, stored_tables
from detector_bench.tables import Table


class TableSets(NamedTuple):
    """Tables by attribute, those over all attributes with the first one; and those of other benchmarks' scores."""

    by_attribute: dict[str, list[Table]]
    of_other_scores: list[Table]


def table_sets(study: ReportStudy) -> TableSets:
    """Build the tables from the long ones, with intervals where there are any; prompts have words if they are
    there."""
    names = [part.name for part in study.parts]
    prompts = None if study.image_set is None else study.image_set.prompts
    by_attribute: dict[str, list[Table]] = {name: [] for name in names}
    for table in stored_tables(study.results, prompts=prompts).values():
        # A table over all attributes stands with the first one's.
        by_attribute[table.attribute if table.attribute in names else names[0]].append(table)
    return TableSets(by_attribute, list(stored_score_tables(study.results, prompts=prompts).values()))


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
    """With `height` the proportions, in points."""
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
        names = tuple(name for name in figures_of(study) if name not in OF_IMAGES)
        written = write_figures(
            study, out / place, names=names, widths=("double",), formats=("svg",), workers=workers
        )
    except MissingExtraError as error:
        return [], [f"There are no figures: {without_folders(str(error))}."]
    except DetectorBenchError as error:
        return [], [f"There are no figures: {without_folders(str(error))}"]
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
