"""Model bias scores of each T2I model and category: by the human labels, and as detectors report them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from detector_bench.figures.drawing import (
    MAX_HEIGHT,
    Drawing,
    Width,
    caption,
    counted,
    interval_sentence,
    left_out_notes,
    series_style,
    verdict_notes,
)
from detector_bench.figures.panels import (
    draw_mark,
    light_grid,
    mark_missing,
    name_axes,
    name_rows,
    panel_grid,
    panel_title,
    places_in_row,
    row_height,
    t2i_model_legend,
    why_missing,
)
from detector_bench.results.finished_study import FinishedStudy
from detector_bench.results.metric_lookup import Number
from detector_bench.tables.wording import in_words
from detector_bench.vocabulary import ALL, GROUND_TRUTH

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLUMNS: dict[Width, int] = {"single": 2, "double": 6}
_TIGHTEST_ROW = 0.045
"""Inches for each mark in a row."""


def draw(study: FinishedStudy, *, width: Width) -> Drawing:
    """Draw one panel for all prompts and one for each category; a row is a detector, a mark a T2I model.

    The ground truth is the first row, and a thin line down from each of its marks. Where no image has a human
    label, the detectors alone have rows, over all images.
    """
    if has_truth := study.lookup.has_labels:
        raters = (GROUND_TRUTH, *study.detectors)
    else:
        study = study.by_detectors_alone()
        raters = study.detectors
    scopes = [ALL, *study.categories] if len(study.categories) > 1 else [ALL]
    columns = min(_COLUMNS[width], len(scopes))
    # Rows give way before categories do.
    least = len(raters) * _TIGHTEST_ROW * len(study.t2i_models) + 0.3
    panel_rows = max(1, min(math.ceil(len(scopes) / columns), int((MAX_HEIGHT - 0.6) / least)))
    height = min(len(raters) * row_height(len(study.t2i_models)) + 0.3, (MAX_HEIGHT - 0.6) / panel_rows)
    fitting = panel_rows * columns
    shown = scopes[:fitting]
    figure, panels = panel_grid(width, len(shown), columns=columns, panel_height=height)
    numbers: list[tuple[str, Number]] = []
    for axes, category in zip(panels, shown, strict=True):
        numbers += _draw_panel(axes, study, raters, category)
        if len(shown) > 1:
            title = "All prompts" if category == ALL else in_words(category)
            panel_title(axes, title, width=width, columns=columns)
    for axes in panels:
        name_rows(axes, [study.shown(name) for name in raters], width=width)
    t2i_model_legend(figure, [study.shown(name) for name in study.t2i_models], width=width)
    name_axes(figure, panels, x="Model bias score")
    hidden = [in_words(name).lower() for name in scopes[fitting:]]
    return Drawing(figure, _caption(study, numbers, hidden, has_truth=has_truth))


def _draw_panel(
    axes: Axes, study: FinishedStudy, raters: tuple[str, ...], category: str
) -> list[tuple[str, Number]]:
    axes.set_xlim(0, 1)
    axes.set_xticks([0, 0.5, 1], ["0", "0.5", "1"])
    light_grid(axes)
    numbers = []
    models = study.t2i_models
    reasons = [[""] * len(models) for _ in raters]
    for index, (model, offset) in enumerate(zip(models, places_in_row(len(models)), strict=True)):
        style = series_style(index)
        for row, rater in enumerate(raters):
            number = study.estimate("model_bias_score", detector=rater, t2i_model=model, category=category)
            numbers.append((f"{study.shown(rater)} on {study.shown(model)}" if category == ALL else "", number))
            draw_mark(axes, number, y=row + offset, style=style)
            if number.missing:
                reasons[row][index] = _reason(study, rater, model)
        truth = study.estimate("model_bias_score", t2i_model=model, category=category).value
        if not math.isnan(truth):
            axes.plot(
                [truth, truth],
                [offset, len(raters) - 0.5],
                color=style.colour,
                linestyle=style.line,
                linewidth=0.5,
                zorder=1,
            )
    for row, reason in enumerate(reasons):
        mark_missing(axes, reason, row=row)
    return numbers


def _reason(study: FinishedStudy, rater: str, model: str) -> str:
    return "no clear image" if rater == GROUND_TRUTH else why_missing(study, rater, model)


def _caption(
    study: FinishedStudy, numbers: list[tuple[str, Number]], hidden: list[str], *, has_truth: bool
) -> str:
    if has_truth:
        rows = "First row and thin lines: the human labels; other rows: as each detector reports it."
        images = counted(study.lookup.images, "labelled image")
    else:
        rows = "Rows: as each detector reports it. No image has a human label to compare it with."
        images = counted(study.lookup.images, "image")
    overall = [(name, number) for name, number in numbers if name]
    return caption(
        f"Model bias score of {study.perceived}: mean over prompts of the distance from equal classes, "
        "0 (balanced) to 1 (one class only).",
        rows,
        f"n = {counted(len(study.prompts), 'prompt')} for each of {counted(len(study.t2i_models), 'T2I model')}, "
        f"{images}.",
        f"Categories without room: {', '.join(hidden)}." if hidden else "",
        interval_sentence(study, [number for _, number in numbers]),
        attribute=study.attribute,
        notes=[
            *verdict_notes(study, study.detectors),
            *left_out_notes(overall, what="prompts left out, no clear image"),
        ],
    )
