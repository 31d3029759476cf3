"""The picture of a search: the best on some prompts are not the best on others, and what the choice is worth."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from detector_bench.atomic_files import write_text
from detector_bench.figures.drawing import (
    BLUE,
    GREY,
    INCHES,
    SMALL_TEXT_SIZE,
    VERMILLION,
    Drawing,
    caption,
    counted,
    frame,
    new_figure,
    paper_style,
    save,
    shortened,
)
from detector_bench.search.findings import BEST_SINGLE, SearchFindings, error_in_words

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NAME = "search_figure"

_AS_LOOKED = "where chosen"
_DARK = "#404040"


def write_figure(found: SearchFindings, out: Path) -> list[str]:
    """Draw and write the figure as PDF and PNG, with its caption; the names of the files.

    Raises:
        MissingExtraError: matplotlib is not installed.
        DetectorBenchError: the disk is full, read-only or the like.
    """
    with paper_style():
        drawing = draw(found)
        names = [f"{NAME}.pdf", f"{NAME}.png", f"{NAME}.txt"]
        for name in names[:2]:
            save(drawing.figure, out / name)
    write_text(out / names[2], drawing.caption)
    return names


def draw(found: SearchFindings) -> Drawing:
    """Left: all compositions on two halves of the prompts. Right: errors where chosen, and on other prompts."""
    others = len(found.contests)
    figure = new_figure("double", height=max(2.6, 1.5 + 0.34 * (others + 1)))
    left, right = figure.subplots(1, 2, width_ratios=[1, 1.25])
    _draw_halves(left, found)
    _draw_worth(right, found)
    return Drawing(figure, _caption(found))


def _draw_halves(axes: Axes, found: SearchFindings) -> None:
    one, other = found.halves
    there, elsewhere = found.halves_chosen
    everything = np.concatenate([one, other, there, elsewhere])
    everything = everything[np.isfinite(everything)]
    # A few hopeless compositions must not squeeze all others into a corner.
    hopeful = np.concatenate([np.quantile(everything, [0.98]), elsewhere[np.isfinite(elsewhere)]])
    top = float(hopeful.max()) * 1.06 or 1.0
    frame(axes)
    axes.plot([0, top], [0, top], color=GREY, linewidth=0.6, zorder=1)
    axes.plot(
        one,
        other,
        ".",
        color="#B5B5B5",
        markersize=2.6,
        markeredgewidth=0,
        zorder=2,
        label="each composition, one split",
        rasterized=len(one) > 3_000,
    )
    axes.plot(
        there,
        elsewhere,
        "o",
        color=VERMILLION,
        markersize=2.8,
        markerfacecolor="none",
        markeredgewidth=0.6,
        zorder=3,
        label=f"the best on one half, {counted(len(there), 'split')}",
    )
    axes.set(xlim=(-0.02 * top, top), ylim=(-0.02 * top, top), aspect="equal")
    axes.set_xlabel("Error on the half that chooses")
    axes.set_ylabel("Error on the other half")
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=1)


def _draw_worth(axes: Axes, found: SearchFindings) -> None:
    rows: list[tuple[str, float, Any]] = [
        ("The search", found.winner_where_chosen, found.expected),
        *(
            (
                f"{_capital(each.name)}",
                found.single_where_chosen if each.name == BEST_SINGLE else np.nan,
                each.other,
            )
            for each in found.contests
        ),
    ]
    for place, (_, where_chosen, estimate) in enumerate(rows):
        colour = VERMILLION if place == 0 else BLUE
        low, value, high = (found.shown(each) for each in (estimate.low, estimate.value, estimate.high))
        axes.plot([low, high], [place, place], color=colour, linewidth=1.4, solid_capstyle="butt")
        axes.plot([value], [place], "o", color=colour, markersize=4.5)
        if not np.isnan(where_chosen):
            axes.plot(
                [found.shown(where_chosen)], [place], "D", color=colour, markerfacecolor="white", markersize=4.2
            )
    below = [found.winner, *(found.single if each.name == BEST_SINGLE else "" for each in found.contests)]
    names = [
        name + (f"\n{shortened(of, inches=0.24 * INCHES['double'], size=SMALL_TEXT_SIZE)}" if of else "")
        for (name, _, _), of in zip(rows, below, strict=True)
    ]
    axes.set_yticks(range(len(rows)), names)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xlim(left=0)
    axes.grid(axis="x")
    axes.set_xlabel(f"{_capital(error_in_words(found.settings))}")
    from matplotlib.lines import Line2D

    handles = [
        Line2D(
            [],
            [],
            color=_DARK,
            marker="D",
            markerfacecolor="white",
            linestyle="none",
            markersize=4.2,
            label="on the prompts that chose it",
        ),
        Line2D(
            [],
            [],
            color=_DARK,
            marker="o",
            linewidth=1.4,
            markersize=4.5,
            label="on prompts that did not choose it",
        ),
    ]
    axes.legend(handles=handles, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=1)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _caption(found: SearchFindings) -> str:
    repeats, parts = found.chosen.choice.shape
    return caption(
        f"A search among {counted(len(found.rows), 'composition')}, chosen by {error_in_words(found.settings)}; "
        f"{counted(found.images, 'labelled image')} of {counted(found.prompts, 'prompt')}.",
        f"Left{', without ensembles' if found.settings.ensembles else ''}: the error of each composition that "
        f"competes on two halves of the prompts (one split), and of the best on one half "
        f"({counted(len(found.halves_chosen[0]), 'split')}): above the line it did worse where it was not chosen.",
        f"Right: errors where chosen (on all prompts), and on prompts that did not choose ({repeats:,} repeats of "
        f"{parts} parts), with {found.level:.0%} intervals for other prompts of the same categories.",
        attribute=found.attribute,
    )
