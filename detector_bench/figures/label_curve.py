"""How wide the interval of each T2I model's score is by the number of labels: what there is, and what is
foretold."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pandas as pd

from detector_bench.errors import ConfigError
from detector_bench.evaluation.audit_plan import AuditPlanner, PlanSettings, all_t2i_models
from detector_bench.figures.drawing import (
    BLUE,
    INCHES,
    VERMILLION,
    Drawing,
    Width,
    caption,
    counted,
    text_width,
)
from detector_bench.figures.panels import legend_above, light_grid, name_axes, panel_grid, panel_title
from detector_bench.results.finished_study import FinishedStudy
from detector_bench.results.labels_so_far import labels_so_far
from detector_bench.vocabulary.columns import LABELS_ONLY, PREDICTION_POWERED

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LINES: dict[str, tuple[str, str, Any]] = {
    PREDICTION_POWERED: ("Labels and all detectors", BLUE, "-"),
    LABELS_ONLY: ("Labels alone", VERMILLION, (0, (4, 1.5))),
}
_TICKS = (
    (1, 1.5, 2, 3, 4, 5, 6, 8),
    (1, 1.5, 2, 3, 5, 7),
    (1, 2, 3, 5),
    (1, 2, 5),
    (1, 3),
    (1,),
)
"""Of each power of ten: as many as there is room for, each kind evenly spread on a logarithmic axis."""
_MOST_TICKS = 6
_BETWEEN_TICKS = 0.08
"""Between two numbers below the axis, in inches."""


def draw(study: FinishedStudy, *, width: Width) -> Drawing:
    """Draw half-width against labels, one panel per T2I model; a mark is what the labels at hand give.

    Raises:
        ConfigError: no detector judges the attribute.
        DetectorBenchError: images or predictions are not there.
    """
    curves, is_guess = study.once("label_curve", lambda: _curves(study))
    models = list(dict.fromkeys(curves["t2i_model"]))
    columns = min(len(models), 3 if width == "double" else 2)
    figure, grid = panel_grid(width, len(models), columns=columns, panel_height=1.7)
    for axes, model in zip(grid, models, strict=True):
        _draw_panel(axes, curves[curves["t2i_model"] == model])
        if len(models) > 1:
            panel_title(axes, study.shown(model), width=width, columns=columns)
    # Where all labels are known, nothing is left to be in doubt about, and half the length is 0.
    grid[0].set_ylim(0, 1.06 * float(curves["half_width"].max()) or 1)
    grid[0].locator_params(axis="y", nbins=6)
    _name_labels(grid[0], curves, room=(INCHES[width] - 0.45) / columns - 0.15)
    legend_above(figure, _handles(), width=width)
    name_axes(figure, grid, x="Labels of the T2I model", y="Half-width")
    return Drawing(figure, _caption(study, curves, is_guess=is_guess))


def _curves(study: FinishedStudy) -> tuple[pd.DataFrame, bool]:
    labels = labels_so_far(study.results, study.attribute)
    if not labels.detectors:
        raise ConfigError(f"no detector judges {study.attribute}: there is nothing to plan with")
    settings = study.results.settings.estimates
    planner = AuditPlanner(labels, PlanSettings(about=settings.about, level=settings.level, seed=settings.seed))
    return planner.curves(all_t2i_models(labels)), planner.is_guess


def _draw_panel(axes: Axes, rows: pd.DataFrame) -> None:
    light_grid(axes, axis="both")
    axes.set_xscale("log")
    for variant, (_, colour, line) in _LINES.items():
        shown = rows[rows["variant"] == variant]
        now, later = shown[shown["is_now"]], shown[~shown["is_now"]]
        axes.plot(later["labels"], later["half_width"], color=colour, linestyle=line, linewidth=1.2, clip_on=False)
        # What is measured and what is foretold belong together, but are no one line.
        first = pd.concat([now, later.head(1)])
        axes.plot(first["labels"], first["half_width"], ":", color=colour, linewidth=0.7, clip_on=False)
        axes.plot(now["labels"], now["half_width"], "o", color=colour, markersize=3.5, clip_on=False, zorder=3)


def _name_labels(axes: Axes, curves: pd.DataFrame, *, room: float) -> None:
    least, most = float(curves["labels"].min()), float(curves["labels"].max())
    if least == most:
        least, most = least / 2, most * 2
    axes.set_xlim(least / 1.05, most * 1.05)
    ticks = label_ticks(least, most, room=room)
    axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
    axes.set_xticks([], minor=True)


def label_ticks(least: float, most: float, *, room: float) -> list[int]:
    """Round numbers of labels to name on a logarithmic axis, as many as stand beside each other.

    Args:
        least: where the axis begins, above 0.
        most: where it ends.
        room: how long it is, in inches.
    """
    inches = room / math.log(most / least)
    powers = range(math.floor(math.log10(least)), math.ceil(math.log10(most)) + 1)
    for steps in _TICKS:
        numbers = [step * 10**power for power in powers for step in steps]
        ticks = [int(each) for each in numbers if least <= each <= most and each == int(each)]
        if len(ticks) <= _MOST_TICKS and _stand_apart(ticks, inches):
            break
    while len(ticks) > 2 and not _stand_apart(ticks, inches):
        ticks = ticks[::2]
    return ticks if len(ticks) > 1 else [math.ceil(least), math.floor(most)]


def _stand_apart(ticks: list[int], inches: float) -> bool:
    return all(
        inches * math.log(after / before) >= (_tick_width(before) + _tick_width(after)) / 2 + _BETWEEN_TICKS
        for before, after in pairwise(ticks)
    )


def _tick_width(tick: int) -> float:
    return text_width(f"{tick:,}")


def _handles() -> list[object]:
    from matplotlib.lines import Line2D

    lines: list[object] = [
        Line2D([], [], color=colour, linestyle=line, linewidth=1.2, label=name)
        for name, colour, line in _LINES.values()
    ]
    return [
        *lines,
        Line2D([], [], color="#404040", marker="o", linestyle="none", markersize=3.5, label="Labels at hand"),
    ]


def _caption(study: FinishedStudy, curves: pd.DataFrame, *, is_guess: bool) -> str:
    settings = study.results.settings.estimates
    now = curves[curves["is_now"] & (curves["variant"] == PREDICTION_POWERED)]
    known = ", ".join(f"{row.t2i_model} {row.labels:,}" for row in now.itertuples(index=False))
    of = "the images of the set" if settings.about == "images" else "the T2I model, with endlessly many images"
    at_hand = f"n = {counted(len(study.prompts), 'prompt')} for each T2I model; labels at hand: {known}."
    guess = (
        "A guess: no label says yet how much labels vary, and detectors are taken to be worth nothing, so that"
        " both lines are one."
    )
    forecast = (
        "Marks: the labels at hand, dotted to the first forecast. Lines: forecasts, with labels spread as equally"
        " over the prompts as possible; in simulated studies a single one was off by 10 to 17 % on average."
    )
    return caption(
        f"Half the length of the {100 * settings.level:g} % interval of the model bias score of {study.perceived},"
        f" about {of}, by the number of labels.",
        at_hand if known else "",
        guess if is_guess else forecast,
        attribute=study.attribute,
    )
