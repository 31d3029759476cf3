"""How far annotators and detectors agree with each annotator."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pandas as pd

from detector_bench.evaluation.agreement import DEFAULT_MIN_SHARED, DETECTOR_AND_HUMAN
from detector_bench.figures.drawing import (
    INCHES,
    MISSING,
    PALE,
    SMALL_TEXT_SIZE,
    TEXT_SIZE,
    Drawing,
    Width,
    caption,
    new_figure,
    say_instead,
    sequential_colours,
    shortened,
    signed,
    text_width,
)
from detector_bench.figures.panels import draw_cell, write_in_cell
from detector_bench.results.finished_study import FinishedStudy
from detector_bench.results.metric_lookup import NOT_EVALUATED, Number
from detector_bench.vocabulary import ALL, GROUND_TRUTH

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_STATISTIC = "cohen_kappa"
_CELL = 0.36
_WIDEST_CELL = 0.7
_ROW = 0.17
_TITLE = "Cohen's kappa"
_TITLE_HEIGHT = 0.17
_CONSENSUS = "consensus"


def draw(study: FinishedStudy, *, width: Width) -> Drawing:
    """Draw Cohen's kappa of annotators and detectors (rows) with annotators and their consensus (columns).

    A filtered image counts as labelled low-quality; images without a verdict or label are left out of the pair.
    Of many annotators, those with the most images in common with others are shown.
    """
    kappas = _kappas(study.rows("agreement"))
    annotators, hidden = _annotators(kappas, study, room=4 if width == "single" else 12)
    consensus = [GROUND_TRUTH] if any(second == GROUND_TRUTH for _, second in kappas) else []
    columns = [*annotators, *consensus]
    rows = [*(annotators if len(annotators) > 1 else []), *study.detectors]
    names = {name: _shown_name(study, name, width) for name in {*rows, *columns}}
    widest = max([0.0, *(text_width(names[name]) for name in columns)])
    flat = widest < _WIDEST_CELL - 0.04
    head = _TITLE_HEIGHT + (0.2 if flat else widest + 0.1)
    left = max([0.2, *(text_width(names[name]) + 0.1 for name in rows)])
    height = max(0.8, max(1, len(rows)) * _ROW + head + 0.1)
    wanted = max(_CELL, widest + 0.08) if flat else _CELL
    cells = min(wanted * max(1, len(columns)), INCHES[width] - left - 0.1)
    filled = min(INCHES[width], max(left + cells + 0.1, left + text_width(_TITLE, size=TEXT_SIZE) + 0.1))
    figure = new_figure(width, height=height, filled=filled)
    figure.set_layout_engine("none")
    cell = cells / max(1, len(columns))
    axes = figure.add_axes(
        (
            left / filled,
            0.05 / height,
            cells / filled,
            max(1, len(rows)) * _ROW / height,
        )
    )
    if rows and columns:
        _draw_cells(axes, rows, columns, kappas, names)
        figure.text(left / filled, 1 - 0.05 / height, _TITLE, ha="left", va="top", size=TEXT_SIZE)
        axes.tick_params(axis="x", labelrotation=0 if flat and cell > widest else 90)
    else:
        axes.set_axis_off()
        say_instead(axes, "nobody to compare with")
    return Drawing(figure, _caption(study, kappas, hidden))


def _kappas(table: pd.DataFrame) -> dict[tuple[str, str], Number]:
    """By the two raters, detectors first; annotators in both orders."""
    rows = table[
        (table["statistic"] == _STATISTIC)
        & (table["label"] == ALL)
        & (table["t2i_model"] == ALL)
        & (table["category"] == ALL)
    ]
    found = {}
    for row in rows.to_dict("records"):
        number = Number(value=row["value"], n=row["n"], n_left_out=row["n_left_out"])
        found[row["first"], row["second"]] = number
        if row["raters"] != DETECTOR_AND_HUMAN:
            found[row["second"], row["first"]] = number
    return found


def _annotators(
    kappas: dict[tuple[str, str], Number], study: FinishedStudy, *, room: int
) -> tuple[list[str], int]:
    """The annotators to show, and how many there is no room for."""
    images: dict[str, float] = {}
    for (first, second), number in kappas.items():
        if second != GROUND_TRUTH:
            images[second] = max(images.get(second, 0), number.n)
        if first not in study.detectors:
            images[first] = max(images.get(first, 0), number.n)
    most = sorted(images, key=lambda name: (-images[name], name))
    return sorted(most[:room]), max(0, len(most) - room)


def _shown_name(study: FinishedStudy, name: str, width: Width) -> str:
    text = _CONSENSUS if name == GROUND_TRUTH else study.shown(name) if name in study.detectors else name
    return shortened(text, inches=1.0 if width == "single" else 1.6)


def _draw_cells(
    axes: Axes, rows: list[str], columns: list[str], kappas: dict[tuple[str, str], Number], names: dict[str, str]
) -> None:
    colours = sequential_colours()
    axes.set_xlim(-0.5, len(columns) - 0.5)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0, labeltop=True, labelbottom=False)
    axes.set_xticks(range(len(columns)), [names[name] for name in columns])
    axes.set_yticks(range(len(rows)), [names[name] for name in rows])
    for row, first in enumerate(rows):
        for column, second in enumerate(columns):
            value = kappas.get((first, second), NOT_EVALUATED).value
            # Nobody is compared with oneself, nor an annotator with the consensus that it is part of.
            compared = first != second and not (second == GROUND_TRUTH and first in columns)
            colour = PALE if math.isnan(value) else colours(0.9 * max(value, 0.0))
            draw_cell(axes, column, row, colour=colour if compared else "white")
            text = signed(value, decimals=2) if compared else ""
            write_in_cell(
                axes, column, row, text, size=SMALL_TEXT_SIZE, background=colour, muted=math.isnan(value)
            )


def _caption(study: FinishedStudy, kappas: dict[tuple[str, str], Number], hidden: int) -> str:
    sizes = sorted({round(number.n) for number in kappas.values()})
    n = f"n = {sizes[0]:,}" if sizes else ""
    n += f" to {sizes[-1]:,} images" if len(sizes) > 1 else " images" if sizes else ""
    undefined = any(number.missing for number in kappas.values())
    return caption(
        f"Agreement on {study.perceived}: Cohen's kappa of annotators and detectors (rows) with "
        "annotators and their consensus (columns), over all T2I models; 1 is perfect agreement, 0 what chance "
        "gives.",
        f"{n} that both of a pair judged; pairs with fewer than {DEFAULT_MIN_SHARED} are left out."
        if n
        else f"No two raters share {DEFAULT_MIN_SHARED} images.",
        "A filtered image counts as labelled low-quality; errors and missing labels are left out.",
        f"{MISSING}: undefined, only one label was given, or too few images in common." if undefined else "",
        f"Annotators without room: {hidden}." if hidden else "",
        "Drawn without intervals.",
        attribute=study.attribute,
    )
