"""Grids of panels, and rows of detectors with their marks: what several figures are made of."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from detector_bench.figures.drawing import (
    INCHES,
    MISSING,
    PALE,
    SMALL_TEXT_SIZE,
    SeriesStyle,
    Width,
    new_figure,
    series_style,
    shortened,
    text_colour,
    text_width,
)
from detector_bench.results.finished_study import FinishedStudy
from detector_bench.results.metric_lookup import Number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from detector_bench.results.metric_lookup import Band

_BAND = "#F4F4F4"
"""Behind every other row."""
_LONGEST_NAME: dict[Width, float] = {"single": 0.85, "double": 1.4}
"""Room for a detector's name beside a panel, in inches."""


def panel_grid(
    width: Width, count: int, *, columns: int, panel_height: float, other_height: float = 0.5
) -> tuple[Figure, list[Axes]]:
    """A figure with `count` panels that share both axes.

    Args:
        width: of the figure.
        count: of panels, at least 1.
        columns: at most so many side by side.
        panel_height: of one panel with its title, in inches.
        other_height: room for labels and legend, in inches.
    """
    columns = min(columns, count)
    rows = math.ceil(count / columns)
    figure = new_figure(width, height=rows * panel_height + other_height)
    grid = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
    panels = list(grid.ravel())
    for axes in panels[count:]:
        axes.remove()
    for axes in panels[max(0, count - columns) : count]:
        axes.tick_params(labelbottom=True)
        if panels.index(axes) < columns * (rows - 1):
            # Its labels hang into the empty place below, and must not push the rows apart.
            axes.xaxis.set_in_layout(False)
    return figure, panels[:count]


def panel_title(axes: Axes, name: str, *, width: Width, columns: int) -> None:
    """Name a panel, as far as there is room."""
    axes.set_title(
        shortened(name, inches=0.85 * INCHES[width] / columns, size=SMALL_TEXT_SIZE), size=SMALL_TEXT_SIZE
    )


def name_axes(figure: Figure, panels: Sequence[Axes], *, x: str, y: str = "") -> None:
    """Name the axes that all panels share, once."""
    if len(panels) == 1:
        panels[0].set_xlabel(x)
        panels[0].set_ylabel(y)
        return
    figure.supxlabel(x, size="medium")
    if y:
        figure.supylabel(y, size="medium")


def name_rows(axes: Axes, names: Sequence[str], *, width: Width) -> None:
    """Lay detectors out from top to bottom by display name, row 0 first, with a pale band behind every other
    one."""
    axes.set_yticks(range(len(names)), [shortened(name, inches=_LONGEST_NAME[width]) for name in names])
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    for row in range(1, len(names), 2):
        axes.axhspan(row - 0.5, row + 0.5, color=_BAND, linewidth=0, zorder=0)


def row_height(series: int) -> float:
    """Inches that a row with so many marks below each other needs."""
    return max(0.15, 0.07 * series + 0.04)


def places_in_row(series: int) -> list[float]:
    """Where in a row the marks of its series stand, from -0.5 to 0.5."""
    step = 0.8 / max(series, 1)
    return [(index - (series - 1) / 2) * min(step, 0.25) for index in range(series)]


def draw_mark(axes: Axes, number: Number, *, y: float, style: SeriesStyle, scale: float = 1.0) -> None:
    """Draw a number with its interval; nothing where there is none."""
    if number.missing:
        return
    if number.has_interval:
        axes.plot(
            [number.ci_low * scale, number.ci_high * scale],
            [y, y],
            color=style.colour,
            linewidth=0.8,
            solid_capstyle="butt",
            zorder=2,
        )
    axes.plot(
        [number.value * scale],
        [y],
        marker=style.marker,
        color=style.colour,
        markersize=3.4,
        markeredgecolor="white",
        markeredgewidth=0.3,
        linestyle="none",
        zorder=3,
        clip_on=False,
    )


def draw_band(axes: Axes, band: Band, *, y: float, style: SeriesStyle, scale: float = 1.0) -> None:
    """Draw the numbers that other labels would give as a pale bar behind a mark; nothing where there are none."""
    axes.plot(
        [band.low * scale, band.high * scale],
        [y, y],
        color=style.colour,
        alpha=0.25,
        linewidth=4.0,
        solid_capstyle="butt",
        zorder=1.5,
    )


def mark_missing(axes: Axes, reasons: Sequence[str], *, row: int) -> None:
    """Say at the left edge of a row why its numbers are missing.

    Args:
        axes: the panel.
        reasons: one for each series, "" where there is a number.
        row: of the detector.
    """
    together = len(set(reasons)) == 1
    lines = [(reasons[0], 0.0, "#404040")] if together else []
    if not together:
        places = places_in_row(len(reasons))
        lines = [(text, places[index], series_style(index).colour) for index, text in enumerate(reasons)]
    for text, offset, colour in lines:
        if text:
            axes.text(
                0.02,
                row + offset,
                f"{MISSING} {text}",
                transform=axes.get_yaxis_transform(),
                color=colour,
                size=SMALL_TEXT_SIZE,
                va="center_baseline",
                zorder=4,
                bbox={"facecolor": "white" if row % 2 == 0 else _BAND, "edgecolor": "none", "pad": 0.4},
            )


def why_missing(study: FinishedStudy, detector: str, t2i_model: str) -> str:
    """Why a detector has no bias score on a T2I model, in two words."""
    if study.lookup.could_not_run(detector, t2i_model):
        return "errors"
    kept = study.estimate("images_clear", detector=detector, t2i_model=t2i_model)
    return "no image kept" if kept.value == 0 else "undefined"


def t2i_model_legend(figure: Figure, names: Sequence[str], *, width: Width, lines: bool = True) -> None:
    """Say above the panels which mark is which T2I model, by their display names; `lines` where marks have
    intervals."""
    from matplotlib.lines import Line2D

    handles = []
    for index, shown in enumerate(names):
        style = series_style(index)
        name = shortened(shown, inches=INCHES[width] * 0.6)
        handles.append(
            Line2D(
                [],
                [],
                color=style.colour,
                marker=style.marker,
                markersize=3.8,
                linewidth=0.8 if lines else 0,
                label=name,
            )
        )
    legend_above(figure, handles, width=width)


def legend_above(figure: Figure, handles: Sequence[Any], *, width: Width) -> None:
    """A legend above all panels, in as many columns as there is room for."""
    widths = [text_width(handle.get_label()) + 0.4 for handle in handles]
    for columns in range(len(handles), 0, -1):
        rows = math.ceil(len(handles) / columns)
        # Entries go down the columns, each of which is as wide as its widest.
        taken = sum(max(widths[start : start + rows]) for start in range(0, len(widths), rows))
        if taken <= 0.97 * INCHES[width] or columns == 1:
            figure.legend(handles=handles, loc="outside upper center", ncols=columns)
            return


def draw_cell(
    axes: Axes,
    column: int,
    row: int,
    *,
    colour: Any,
    edge: str = "#BBBBBB",
    edge_width: float = 0.4,
    hatch: str = "",
) -> None:
    """Colour one cell of a matrix; cells are 1 wide and high, and (0, 0) is the centre of the first."""
    from matplotlib.patches import Rectangle

    cell = Rectangle(
        (column - 0.5, row - 0.5),
        1,
        1,
        facecolor=colour,
        edgecolor=edge,
        linewidth=edge_width,
        hatch=hatch or None,
    )
    cell.set_in_layout(False)  # it never leaves its panel
    axes.add_artist(cell)


def write_in_cell(
    axes: Axes, column: int, row: float, text: str, *, size: float, background: Any, muted: bool = False
) -> None:
    """Write into a cell, in black or white; `muted` is for places without a number."""
    axes.text(
        column,
        row,
        text,
        ha="center",
        va="center_baseline",
        size=size,
        color="#404040" if muted else text_colour(background),
        clip_on=True,  # so that layout need not look at it
    )


def light_grid(axes: Axes, *, axis: Literal["x", "y", "both"] = "x") -> None:
    """Pale lines to read values by."""
    axes.grid(axis=axis, color=PALE, linewidth=0.5)
