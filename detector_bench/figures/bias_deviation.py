"""Forest plot: how far each detector's model bias score lies from the actual one, with intervals."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from detector_bench.figures.drawing import (
    MISSING,
    SMALL_TEXT_SIZE,
    Drawing,
    Width,
    caption,
    counted,
    interval_sentence,
    label_doubt_sentence,
    left_out_notes,
    new_figure,
    say_instead,
    series_style,
    signed,
    text_width,
    verdict_notes,
)
from detector_bench.figures.panels import (
    draw_band,
    draw_mark,
    light_grid,
    mark_missing,
    name_rows,
    places_in_row,
    t2i_model_legend,
    why_missing,
)
from detector_bench.results.finished_study import FinishedStudy
from detector_bench.results.metric_lookup import Number

if TYPE_CHECKING:
    from matplotlib.axes import Axes

METRIC = "model_bias_score_deviation"
_LEAST_SIDE = 0.65
"""Of the longer side of the axis, seen from 0, the shorter one has at least so much."""


def draw(study: FinishedStudy, *, width: Width) -> Drawing:
    """Draw the deviation in per cent of the actual score: left of 0 underestimated, right of it overestimated.

    A row is a detector, a mark a T2I model; the numbers stand at the right.
    """
    models, detectors = study.t2i_models, study.detectors
    figure = new_figure(width, height=max(1, len(detectors)) * max(0.16, 0.112 * len(models) + 0.02) + 0.75)
    axes = figure.subplots()
    numbers: list[tuple[str, Number]] = []
    light_grid(axes)
    name_rows(axes, [study.shown(name) for name in detectors], width=width)
    axes.axvline(0, color="black", linewidth=0.6, zorder=1)
    reasons = [[""] * len(models) for _ in detectors]
    written: list[tuple[float, str, str]] = []
    for index, (model, offset) in enumerate(zip(models, places_in_row(len(models)), strict=True)):
        style = series_style(index)
        for row, detector in enumerate(detectors):
            number = study.estimate(METRIC, detector=detector, t2i_model=model)
            numbers.append((f"{detector} on {model}", number))
            if not number.missing:
                band = study.label_doubt_band(METRIC, detector=detector, t2i_model=model)
                draw_band(axes, band, y=row + offset, style=style, scale=100)
            draw_mark(axes, number, y=row + offset, style=style, scale=100)
            if number.missing:
                reasons[row][index] = _reason(study, detector, model)
            written.append((row + offset, _in_words(number, width=width), style.colour))
    for row, reason in enumerate(reasons):
        mark_missing(axes, reason, row=row)
    _write_column(axes, written, size=SMALL_TEXT_SIZE)
    if not detectors:
        say_instead(axes, "no detector judges this attribute")
    elif all(number.missing for _, number in numbers):
        axes.set_xlim(-100, 100)
    else:
        _leave_room_on_both_sides(axes)
    _point_away_from_0(axes)
    axes.set_xlabel("Deviation from the actual model bias score (%)", labelpad=10)
    t2i_model_legend(figure, [study.shown(name) for name in models], width=width)
    return Drawing(figure, _caption(study, numbers))


def _leave_room_on_both_sides(axes: Axes) -> None:
    """Let 0 lie so far from both ends that what each side means can be written below it."""
    axes.margins(x=0.08)
    low, high = axes.get_xlim()
    low, high = min(low, 0.0), max(high, 0.0)
    axes.set_xlim(min(low, -_LEAST_SIDE * high), max(high, -_LEAST_SIDE * low))


def _point_away_from_0(axes: Axes) -> None:
    for side, text in ((-1, "\N{LEFTWARDS ARROW} underestimates"), (1, "overestimates \N{RIGHTWARDS ARROW}")):
        axes.annotate(
            text,
            (0, 0),
            xycoords=axes.get_xaxis_transform(),
            xytext=(4 * side, -12),
            textcoords="offset points",
            ha="right" if side < 0 else "left",
            va="top",
            size=SMALL_TEXT_SIZE,
            annotation_clip=False,
        )


def _write_column(axes: Axes, lines: list[tuple[float, str, str]], *, size: float) -> None:
    """Write numbers at the right of the panel, so that their last digits stand below each other."""
    widest = max((text_width(text, size=size) for _, text, _ in lines), default=0.0)
    for y, text, colour in lines:
        axes.annotate(
            text,
            (1, y),
            xycoords=axes.get_yaxis_transform(),
            xytext=(72 * widest + 4, 0),
            textcoords="offset points",
            ha="right",
            va="center_baseline",
            size=size,
            color=colour,
            annotation_clip=False,
        )


def _reason(study: FinishedStudy, detector: str, model: str) -> str:
    actual = study.estimate("model_bias_score", t2i_model=model).value
    if math.isnan(actual):
        return "no actual score"
    return "actual score is 0" if actual == 0 else why_missing(study, detector, model)


def _in_words(number: Number, *, width: Width) -> str:
    if number.missing:
        return MISSING
    value = signed(100 * number.value, decimals=1)
    if width == "single" or not number.has_interval:
        return value
    return f"{value} ({signed(100 * number.ci_low, decimals=1)} to {signed(100 * number.ci_high, decimals=1)})"


def _caption(study: FinishedStudy, numbers: list[tuple[str, Number]]) -> str:
    return caption(
        f"Deviation of each detector's model bias score of {study.perceived} from the score by "
        "the human "
        "labels, in per cent of the latter.",
        f"n = {counted(len(study.prompts), 'prompt')} for each of {counted(len(study.t2i_models), 'T2I model')}, "
        f"{counted(study.estimate('images').value, 'labelled image')}.",
        interval_sentence(study, [number for _, number in numbers]),
        label_doubt_sentence(study),
        attribute=study.attribute,
        notes=[
            *verdict_notes(study, study.detectors),
            *left_out_notes(numbers, what="prompts left out, no image kept"),
        ],
    )
