"""Detected against actual prompt bias scores, one panel for each detector and one mark for each output."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from detector_bench.figures.drawing import (
    INCHES,
    MINUS,
    MISSING,
    SMALL_TEXT_SIZE,
    Drawing,
    Width,
    caption,
    counted,
    frame,
    interval_sentence,
    say_instead,
    series_style,
    shortened,
    verdict_notes,
)
from detector_bench.figures.panels import name_axes, panel_grid, t2i_model_legend, why_missing
from detector_bench.results.finished_study import FinishedStudy
from detector_bench.results.metric_lookup import Number
from detector_bench.vocabulary import ALL

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_METRIC = "prompt_bias_score_difference"
_AIR = 0.07
"""Beyond the ends of the scale, so that marks there are whole."""

_FEW = 60
"""Marks of so few outputs are larger."""

_MANY_IN_ONE_PLACE = 10
"""From so many marks on top of each other at an end of the diagonal on, their number is written in the panel."""


_NUMBER_WIDE = 0.6
"""Of such a number, as a share of the panel."""


class _Pairs(NamedTuple):
    by_model: dict[str, list[tuple[float, float]]]
    """Actual and detected score of each output, by T2I model."""
    without: int
    """Outputs without an actual or a detected score."""

    @property
    def everything(self) -> list[tuple[float, float]]:
        """Of all T2I models."""
        return [pair for pairs in self.by_model.values() for pair in pairs]


def draw(study: FinishedStudy, *, width: Width) -> Drawing:
    """Draw one mark for each output (prompt and T2I model): across the actual score, up the detected one.

    On the diagonal the detector is right. Marks are translucent, so that places with many are darker; where ten or
    more coincide at an end of the diagonal, their number is written in the panel. Below the name: the mean
    distance and its interval.

    Raises:
        ConfigError: the attribute has more than two classes.
    """
    study.need_signed_scores()
    pairs = {detector: _pairs(study, detector) for detector in study.detectors}
    columns = 4 if width == "double" else 2 if len(pairs) <= 10 else 3
    panel = {("double", 4): 1.85, ("single", 2): 1.72, ("single", 3): 1.25}[width, columns]
    figure, grid = panel_grid(width, max(1, len(pairs)), columns=columns, panel_height=panel, other_height=0.55)
    reach = max([1.0, *(abs(seen) for each in pairs.values() for _, seen in each.everything)]) + _AIR
    numbers: list[tuple[str, Number]] = []
    for axes, (detector, each) in zip(grid, pairs.items(), strict=False):
        number = study.estimate(_METRIC, detector=detector)
        numbers.append((detector, number))
        _draw_panel(axes, each, reach=reach)
        reason = why_missing(study, detector, ALL) if number.missing else ""
        _title(
            axes,
            study.shown(detector),
            number,
            reason=reason,
            inches=0.85 * INCHES[width] / min(columns, len(pairs)),
        )
    if not pairs:
        say_instead(grid[0], "no detector judges this attribute")
    elif len(study.t2i_models) > 1:
        t2i_model_legend(figure, [study.shown(name) for name in study.t2i_models], width=width, lines=False)
    name_axes(figure, grid, x="Actual prompt bias score", y="Detected prompt bias score")
    return Drawing(figure, _caption(study, numbers, pairs))


def _pairs(study: FinishedStudy, detector: str) -> _Pairs:
    by_model: dict[str, list[tuple[float, float]]] = {model: [] for model in study.t2i_models}
    without = 0
    for model in study.t2i_models:
        for category, prompt in study.prompts:
            place = {"t2i_model": model, "category": category, "prompt_id": prompt}
            true = study.estimate("prompt_bias_score", **place).value
            seen = study.estimate("prompt_bias_score", detector=detector, **place).value
            if math.isnan(true) or math.isnan(seen):
                without += 1
            else:
                by_model[model].append((true, seen))
    return _Pairs(by_model, without)


def _draw_panel(axes: Axes, pairs: _Pairs, *, reach: float) -> None:
    from matplotlib.patheffects import withStroke

    axes.set_xlim(-1 - _AIR, 1 + _AIR)
    axes.set_ylim(-reach, reach)
    axes.set_xticks([-1, 0, 1], [f"{MINUS}1", "0", "1"])
    axes.set_yticks([-1, 0, 1], [f"{MINUS}1", "0", "1"])
    axes.set_aspect("equal")
    frame(axes)
    every = pairs.everything
    if not every:
        say_instead(axes, "no output\nhas both scores")
        return
    axes.plot([-1, 1], [-1, 1], color="#606060", linewidth=0.5, linestyle=(0, (4, 2)), zorder=1)
    for index, scores in enumerate(pairs.by_model.values()):
        style = series_style(index)
        axes.scatter(
            [true for true, _ in scores],
            [seen for _, seen in scores],
            s=13 if len(every) <= _FEW else 7,
            marker=style.marker,
            color=style.colour,
            alpha=0.8 if len(every) <= _FEW else 0.45,
            linewidths=0,
            zorder=2,
        )
    taken: list[tuple[float, float]] = []
    for end, marks in _crowds(every):
        x, y = _free_place(every, end, reach=reach, taken=taken)
        taken.append((x, y))
        axes.text(
            x,
            y,
            f"{marks} at ({end}, {end})".replace("-", MINUS),
            transform=axes.transAxes,
            size=SMALL_TEXT_SIZE,
            zorder=3,
            ha="right" if x > 0.5 else "left",
            va="center",
            path_effects=[withStroke(linewidth=1.5, foreground="white")],
        )


def _free_place(
    every: list[tuple[float, float]], end: int, *, reach: float, taken: list[tuple[float, float]]
) -> tuple[float, float]:
    """Where a number covers the fewest marks, as shares of the panel: the corners far from the diagonal first."""
    right, left = (
        [(0.96, 0.09 + 0.1 * step) for step in range(4)],
        [(0.04, 0.91 - 0.1 * step) for step in range(4)],
    )
    places = [place for place in (right + left if end > 0 else left + right) if place not in taken]
    marks = [((true + 1 + _AIR) / (2 + 2 * _AIR), (seen + reach) / (2 * reach)) for true, seen in every]
    return min(
        places,
        key=lambda place: sum(abs(x - place[0]) < _NUMBER_WIDE and abs(y - place[1]) < 0.07 for x, y in marks),
    )


def _where_marks_are(pairs: _Pairs) -> str:
    """Which T2I models a panel shows, where it does not show all."""
    shown = [model for model, scores in pairs.by_model.items() if scores]
    return "" if len(shown) in (0, len(pairs.by_model)) else f"; marks of {', '.join(shown)} alone"


def _crowds(every: list[tuple[float, float]]) -> Iterator[tuple[int, int]]:
    """Of -1 and 1 those where many outputs have both scores: the end, and how many."""
    for end in (-1, 1):
        marks = sum(true == seen == end for true, seen in every)
        if marks >= _MANY_IN_ONE_PLACE:
            yield end, marks


def _title(axes: Axes, detector: str, number: Number, *, reason: str, inches: float) -> None:
    text = f"{MISSING} {reason}" if number.missing else f"{number.value:.3f}"
    if number.has_interval:
        text += f" ({number.ci_low:.3f}{MISSING}{number.ci_high:.3f})"
    axes.set_title(f"{shortened(detector, inches=inches)}\n{text}", size=SMALL_TEXT_SIZE, linespacing=1.1)


def _caption(study: FinishedStudy, numbers: list[tuple[str, Number]], pairs: dict[str, _Pairs]) -> str:
    outputs = len(study.prompts) * len(study.t2i_models)
    keeps = {"detector": "the images that the detector keeps", "human": "the images that the humans call clear"}
    crowded = any(True for each in pairs.values() for _ in _crowds(each.everything))
    return caption(
        f"Prompt bias scores of {study.perceived} as each detector reports them, against those by the human "
        "labels; on the dashed line they are equal.",
        f"One mark for each prompt of each T2I model, n = {counted(outputs, 'output')} "
        f"({counted(len(study.prompts), 'prompt')}, {counted(len(study.t2i_models), 'T2I model')}); darker where "
        "marks coincide." + (" Numbers: how many marks coincide at an end of the diagonal." if crowded else ""),
        "Below each name: prompt bias score difference (mean distance); a detector's score is divided by "
        f"{keeps[study.lookup.n_clear]}.",
        interval_sentence(study, [number for _, number in numbers], drawn_as="In parentheses"),
        attribute=study.attribute,
        notes=[
            *verdict_notes(study, study.detectors),
            *(
                (name, f"{each.without} of {outputs} outputs without a score left out{_where_marks_are(each)}")
                for name, each in pairs.items()
                if each.without
            ),
        ],
    )
