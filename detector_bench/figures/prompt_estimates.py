"""Prompts from the most to the least biased, estimated over all images from labels and detectors."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from detector_bench.errors import ConfigError
from detector_bench.figures.drawing import (
    BLUE,
    GREY,
    INCHES,
    MAX_HEIGHT,
    MINUS,
    MISSING,
    SMALL_TEXT_SIZE,
    Drawing,
    Width,
    caption,
    counted,
    new_figure,
    say_instead,
    shortened,
)
from detector_bench.figures.panels import legend_above, light_grid, name_axes
from detector_bench.results.finished_study import FinishedStudy
from detector_bench.results.metric_lookup import Number, number_of
from detector_bench.tables.wording import label_in_words
from detector_bench.vocabulary import ALL
from detector_bench.vocabulary.columns import LABELS_ONLY, PREDICTION_POWERED

if TYPE_CHECKING:
    from matplotlib.axes import Axes

METRIC = "prompt_bias_score"
_ROW = 0.15
_TIGHTEST_ROW = 0.12
_BESIDE_ROWS = 0.25
"""For the title and the numbers below a panel."""
_MOST_ROWS = 50
"""So many prompts of a T2I model fit on a page, if it has no other below it."""


class _Row(NamedTuple):
    prompt: str
    number: Number
    alone: Number
    """From the labels alone."""


def has_prompt_estimates(study: FinishedStudy) -> bool:
    """Whether any prompt's score was estimated: of two classes, where some images have a label and others none."""
    metrics = study.metrics
    return bool(((metrics["metric"] == METRIC) & (metrics["variant"] == PREDICTION_POWERED)).any())


def draw(study: FinishedStudy, *, width: Width) -> Drawing:
    """Draw each prompt's bias score with its interval, a panel for each T2I model; in grey what labels alone say.

    Raises:
        ConfigError: nothing was estimated.
    """
    if not has_prompt_estimates(study):
        raise ConfigError(f"no prompt bias score of {study.perceived} was estimated")
    rows = {model: _rows(study, model) for model in study.t2i_models}
    columns, lines = _places(len(rows), width)
    shown = {model: each[: _rows_with_room(len(rows), width)] for model, each in rows.items()}
    most = max(len(each) for each in shown.values())
    height = min(_ROW * max(most, 3) + _BESIDE_ROWS, _height_of_panel(lines))
    figure = new_figure(width, height=lines * height + 0.5)
    grid = list(figure.subplots(lines, columns, squeeze=False, sharex=True).ravel())
    for axes in grid[len(shown) :]:
        axes.remove()
    grid = grid[: len(shown)]
    for axes in grid:
        axes.tick_params(labelbottom=True)
    room = 0.3 * INCHES[width] / columns
    for axes, (model, each) in zip(grid, shown.items(), strict=False):
        _draw_panel(axes, each, words=study.words, room=room)
        if len(shown) > 1:
            axes.set_title(
                shortened(study.shown(model), inches=0.6 * INCHES[width] / columns), size=SMALL_TEXT_SIZE
            )
    first, second = (label_in_words(name, in_sentence=True) for name in study.classes[:2])
    name_axes(figure, grid, x=f"Prompt bias score\n← {second}      {first} →")
    _legend(figure, width=width)
    return Drawing(figure, _caption(study, rows))


def _places(panels: int, width: Width) -> tuple[int, int]:
    """Columns and lines of panels."""
    columns = min(panels, 3 if width == "double" else 1)
    return columns, -(-panels // columns)


def _height_of_panel(lines: int) -> float:
    return (MAX_HEIGHT - 1) / lines


def _rows_with_room(panels: int, width: Width) -> int:
    """How many prompts of each T2I model can be read on one page."""
    _, lines = _places(panels, width)
    return max(1, min(_MOST_ROWS, int((_height_of_panel(lines) - _BESIDE_ROWS) / _TIGHTEST_ROW)))


def _rows(study: FinishedStudy, t2i_model: str) -> list[_Row]:
    metrics = study.metrics
    own = metrics[
        (metrics["metric"] == METRIC) & (metrics["t2i_model"] == t2i_model) & (metrics["prompt_id"] != ALL)
    ]
    numbers = {
        variant: {str(row["prompt_id"]): number_of(row) for _, row in own[own["variant"] == variant].iterrows()}
        for variant in (PREDICTION_POWERED, LABELS_ONLY)
    }
    alone = numbers[LABELS_ONLY]
    found = [
        _Row(prompt, number, alone.get(prompt, Number())) for prompt, number in numbers[PREDICTION_POWERED].items()
    ]
    # The order of the table: sizes, and prompts of which nothing is known last.
    return sorted(
        found, key=lambda row: -math.inf if math.isnan(row.number.value) else abs(row.number.value), reverse=True
    )


def _draw_panel(axes: Axes, rows: list[_Row], *, words: Mapping[str, str], room: float) -> None:
    light_grid(axes)
    axes.axvline(0, color="black", linewidth=0.6, zorder=1)
    for y, row in enumerate(rows):
        _draw_mark(axes, row.alone, y=y + 0.22, colour=GREY, marker="D", size=5)
        _draw_mark(axes, row.number, y=y - 0.1, colour=BLUE, marker="o", size=11)
        if row.number.missing:
            axes.annotate(f"{MISSING} no label", (0.02, y), size=SMALL_TEXT_SIZE, va="center", color=GREY)
    if not rows:
        say_instead(axes, "no image")
    axes.set_yticks(range(len(rows)), [shortened(words.get(row.prompt, row.prompt), inches=room) for row in rows])
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xlim(-1.05, 1.05)
    axes.set_xticks([-1, -0.5, 0, 0.5, 1], [f"{MINUS}1", f"{MINUS}0.5", "0", "0.5", "1"])


def _draw_mark(axes: Axes, number: Number, *, y: float, colour: str, marker: str, size: float) -> None:
    if number.missing:
        return
    if number.has_interval:
        axes.plot(
            [number.ci_low, number.ci_high], [y, y], color=colour, linewidth=0.9, solid_capstyle="butt", zorder=2
        )
    # An estimate can leave the scale by as much as it is uncertain; its mark then stands at the end.
    axes.scatter(
        [max(-1.0, min(1.0, number.value))], [y], s=size, color=colour, marker=marker, linewidths=0, zorder=3
    )


def _legend(figure, *, width: Width) -> None:  # type: ignore[no-untyped-def]
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], color=BLUE, marker="o", markersize=3.3, linewidth=0.9, label="labels and all detectors"),
        Line2D([], [], color=GREY, marker="D", markersize=2.3, linewidth=0.9, label="labels alone"),
    ]
    legend_above(figure, handles, width=width)


def _caption(study: FinishedStudy, rows: dict[str, list[_Row]]) -> str:
    first, second = (label_in_words(name, in_sentence=True) for name in study.classes[:2])
    level = study.results.settings.estimates.level
    labels = sum(row.number.n for each in rows.values() for row in each)
    most = max(len(each) for each in rows.values())
    return caption(
        f"Prompt bias scores of {study.perceived} over all images, from the most to the least biased prompt: 1,"
        f" all clear images show {first}; {MINUS}1, all show {second}.",
        "Blue: estimated from the human labels and the verdicts of all detectors (prediction-powered). Grey: from"
        " the labels alone.",
        f"Lines: {100 * level:g} % confidence intervals, each of its prompt by itself, so that of many prompts"
        " some lie wrong.",
        f"n = {counted(labels, 'label')}, {counted(most, 'prompt')}.",
        _left_out(most, panels=len(rows)),
        attribute=study.attribute,
    )


def _left_out(most: int, *, panels: int) -> str:
    """Which prompts are not shown; one caption belongs to both widths."""
    column, page = (_rows_with_room(panels, width) for width in ("single", "double"))
    if most <= column:
        return ""
    beside = "" if column == page else f" (in the figure of double width: {min(page, most)})"
    return f"Of the {most:,} prompts the {column} most biased{beside} are shown; the table has all."
