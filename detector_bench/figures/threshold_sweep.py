"""What each detector would report at other thresholds of its score, and what the best of them does on other
prompts."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import pandas as pd

from detector_bench.evaluation.shared_sweeps import CHOSEN_BY
from detector_bench.figures.drawing import (
    BLACK,
    BLUE,
    GREEN,
    VERMILLION,
    Drawing,
    Width,
    caption,
    counted,
    say_instead,
    verdict_notes,
)
from detector_bench.figures.panels import legend_above, light_grid, name_axes, panel_grid, panel_title
from detector_bench.results.finished_study import FinishedStudy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MARGIN = 0.03
"""Room for a mark at the first threshold, which is often the best."""
_BESIDE = 3.5
"""Points between the mark on the line and what stands beside it."""
_LINES = {
    "recall": ("Recall", BLUE, "-", 1.2),
    "filter_rate": ("Filter rate", VERMILLION, (0, (5, 2)), 1.0),
    CHOSEN_BY: ("Prompt bias score difference", GREEN, (0, (1.2, 1)), 1.4),
}
_HERE: dict[str, Any] = {"marker": "o", "markersize": 3.2, "markeredgewidth": 0.6}
_ELSEWHERE: dict[str, Any] = {"marker": "D", "markersize": 3.0, "markeredgewidth": 0.6, "markerfacecolor": "white"}


class _Swept(NamedTuple):
    """One detector's curves over all T2I models, and its threshold of the least bias error."""

    curves: pd.DataFrame
    """Rows as in `evaluation.sweeps.SWEEP_COLUMNS`."""
    choice: Any
    """A row as in `evaluation.shared_sweeps.SHARED_CHOICE_COLUMNS`."""


def draw(study: FinishedStudy, *, width: Width) -> Drawing:
    """Draw recall, filter rate and prompt bias score difference against the threshold, one panel per detector.

    The threshold of the smallest difference is marked, and beside it what a threshold so chosen gives on prompts
    that did not choose it; neither where the latter is unknown. Lines are pale where a run with that threshold
    could keep more images than the stored scores tell. A line ends where its number does.

    Raises:
        DetectorBenchError: the sweeps of so large a study are computed when they are asked for, and images or
            predictions are not there.
    """
    sweeps, notes = study.once("sweeps", lambda: _sweeps(study))
    columns = 4 if width == "double" else 2 if len(sweeps) <= 6 else 3
    figure, grid = panel_grid(
        width, max(1, len(sweeps)), columns=columns, panel_height=1.35 if columns != 3 else 1.15
    )
    start = _where_something_changes(sweeps)
    for axes, (detector, swept) in zip(grid, sweeps.items(), strict=False):
        _draw_panel(axes, swept, start=start)
        panel_title(axes, study.shown(detector), width=width, columns=min(columns, len(sweeps)))
    grid[0].set_ylim(-0.02, max(1.02, 1.03 * _highest(sweeps)))
    if not sweeps:
        say_instead(grid[0], "no detector keeps images\nwith a score")
    legend_above(figure, _handles(sweeps), width=width)
    name_axes(figure, grid, x="Threshold of the score")
    return Drawing(figure, _caption(study, sweeps, notes))


def _sweeps(study: FinishedStudy) -> tuple[dict[str, _Swept], list[tuple[str, str]]]:
    """The sweep of every detector that has scores, and what has to be said about the others."""
    found, notes = {}, []
    curves, choices = study.rows("sweeps"), study.rows("sweep_choices")
    for detector in study.detectors:
        choice: Any = next(choices[choices["detector"] == detector].itertuples(index=False), None)
        if choice is None:
            notes.append((detector, "no kept image with a score, so nothing to sweep"))
            continue
        found[detector] = _Swept(curves[curves["detector"] == detector], choice)
        if choice.images_without_score:
            kept = f"{counted(choice.images_without_score, 'image')} kept without a score, at every threshold"
            notes.append((detector, kept))
        if choice.reason:
            notes.append((detector, f"the smallest difference on other prompts: {choice.reason}"))
    return found, notes


def _where_something_changes(sweeps: dict[str, _Swept]) -> float | None:
    """The last threshold up to which all lines of all detectors are flat; None where they begin with a change, or
    nothing ever changes."""
    flat, first = [], min([math.inf, *(float(swept.curves["threshold"].min()) for swept in sweeps.values())])
    for swept in sweeps.values():
        curves = swept.curves[swept.curves["metric"].isin(_LINES)]
        values = curves.pivot_table(index="threshold", columns="metric", values="value", dropna=False).sort_index()
        changed = ~(values.eq(values.iloc[0]) | (values.isna() & values.iloc[0].isna())).all(axis=1)
        if changed.any():
            flat.append(float(values.index[int(changed.to_numpy().argmax()) - 1]))
    return min(flat) if flat and min(flat) > first else None


def _highest(sweeps: dict[str, _Swept]) -> float:
    values = [0.0]
    for swept in sweeps.values():
        curves = swept.curves
        values += curves.loc[curves["metric"].isin(_LINES), "value"].to_list()
        values += [swept.choice.other_prompts, swept.choice.ci_high]
    return max(value for value in values if not math.isnan(value))


def _draw_panel(axes: Axes, swept: _Swept, *, start: float | None) -> None:
    from matplotlib.transforms import ScaledTranslation

    light_grid(axes, axis="both")
    axes.locator_params(axis="x", nbins=4)
    axes.locator_params(axis="y", nbins=5, steps=[1, 2, 5, 10])
    axes.xaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_major_formatter("{x:g}")
    axes.margins(x=_MARGIN)
    for metric, (_, colour, line, thick) in _LINES.items():
        rows = swept.curves[swept.curves["metric"] == metric]
        if start is not None:
            rows = rows[rows["threshold"] >= start]
        for known, opacity in ((True, 1.0), (False, 0.35)):
            # The first known threshold belongs to both, so that the line is whole.
            shown = rows["known"] if known else ~rows["known"].shift(1, fill_value=False)
            axes.plot(
                rows["threshold"],
                rows["value"].where(shown),
                color=colour,
                linestyle=line,
                linewidth=thick,
                alpha=opacity,
                clip_on=False,
            )
    choice = swept.choice
    if math.isnan(choice.other_prompts):
        # The best of these prompts is no finding without it.
        return
    axes.plot([choice.threshold], [choice.value], **_HERE, color=_LINES[CHOSEN_BY][1], clip_on=False, zorder=4)
    beside = axes.transData + ScaledTranslation(_BESIDE / 72, 0, axes.figure.dpi_scale_trans)
    others: dict[str, Any] = {"color": BLACK, "clip_on": False, "transform": beside}
    axes.plot([choice.threshold] * 2, [choice.ci_low, choice.ci_high], **others, linewidth=0.8, zorder=3)
    axes.plot([choice.threshold], [choice.other_prompts], **others, **_ELSEWHERE, zorder=3.5)


def _drawn(sweeps: dict[str, _Swept]) -> list[str]:
    """The lines that have a number at any threshold of any detector."""
    curves = [swept.curves for swept in sweeps.values()]
    return [
        metric
        for metric in _LINES
        if any(each.loc[each["metric"] == metric, "value"].notna().any() for each in curves)
    ]


def _handles(sweeps: dict[str, _Swept]) -> list[object]:
    from matplotlib.lines import Line2D

    lines: list[object] = [
        Line2D([], [], color=colour, linestyle=line, linewidth=thick, label=name)
        for metric, (name, colour, line, thick) in _LINES.items()
        if metric in _drawn(sweeps)
    ]
    judged = [swept.choice for swept in sweeps.values() if not math.isnan(swept.choice.other_prompts)]
    if judged:
        bar = "-" if any(not math.isnan(choice.ci_low) for choice in judged) else "none"
        colour = _LINES[CHOSEN_BY][1]
        lines += [
            Line2D([], [], **_HERE, color=colour, linestyle="none", label="Smallest, on these prompts"),
            Line2D([], [], **_ELSEWHERE, color=BLACK, linestyle=bar, label="So chosen, on others"),
        ]
    return lines


def _caption(study: FinishedStudy, sweeps: dict[str, _Swept], notes: list[tuple[str, str]]) -> str:
    absent = [metric for metric in _LINES if metric not in _drawn(sweeps)] if sweeps else []
    pale = any(not swept.curves["known"].all() for swept in sweeps.values())
    judged = any(not math.isnan(swept.choice.other_prompts) for swept in sweeps.values())
    drawn = any(not math.isnan(swept.choice.ci_low) for swept in sweeps.values())
    return caption(
        f"Recall, filter rate and prompt bias score difference on {study.perceived} if each "
        "detector kept only "
        "images with a score of at least the threshold, over all T2I models; from stored scores.",
        f"n = {counted(study.estimate('images_clear').value, 'clear image')}, "
        f"{counted(len(study.prompts) * len(study.t2i_models), 'output')} (prompt and T2I model).",
        "Filled: the smallest difference, at the threshold that these prompts choose. Open, drawn beside it: what "
        "a threshold so chosen gives on prompts that did not choose it (chosen on most of the prompts, counted on "
        "the rest, each part in turn)."
        if judged
        else "",
        f"Bars: {100 * study.intervals.level:g} % intervals, other prompts of the same categories, chosen anew."
        if drawn
        else "",
        f"Below {start:g} nothing changes." if (start := _where_something_changes(sweeps)) is not None else "",
        "Pale: a run with that threshold could keep more images than the stored scores tell." if pale else "",
        "A prompt of which no image is kept leaves the difference, so it rests on fewer prompts at high "
        "thresholds.",
        f"No number, so no line: {', '.join(_LINES[metric][0].lower() for metric in absent)}." if absent else "",
        "Lines are drawn without intervals.",
        attribute=study.attribute,
        notes=[*verdict_notes(study, study.detectors), *notes],
    )
