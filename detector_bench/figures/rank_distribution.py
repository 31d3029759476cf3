"""Ranks of the detectors with what the images leave open."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from detector_bench.evaluation.comparison import COMPARED_METRICS
from detector_bench.evaluation.contests import ranked_detectors
from detector_bench.evaluation.ranking import RankedDetector
from detector_bench.figures.drawing import (
    BLUE,
    SKY,
    SMALL_TEXT_SIZE,
    Drawing,
    Width,
    caption,
    counted,
    new_figure,
    say_instead,
    verdict_notes,
)
from detector_bench.figures.panels import light_grid, name_rows
from detector_bench.results.finished_study import FinishedStudy
from detector_bench.tables.wording import metric_in_words
from detector_bench.vocabulary import ALL

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_METRICS: dict[Width, tuple[str, ...]] = {
    "single": ("f1", "accuracy", "prompt_bias_error"),
    "double": COMPARED_METRICS,
}
"""In a column there is room for one metric each of filter, class and bias, below one another."""

_HEIGHT_OF_ROW, _HEIGHT_OF_REST = 0.16, 0.62


def draw(study: FinishedStudy, *, width: Width) -> Drawing:
    """Draw each detector's rank by every compared metric; in a single column by one of filter, class and bias
    each.

    Dot: the rank; bar: the ranks that the images leave open. At the right of a panel, letters that detectors share
    if they cannot be told apart. Detectors stand in the order of their prompt bias error.
    """
    ranked = _ranked(study)
    names = [each.detector for each in ranked.get("prompt_bias_error", [])]
    if not names:
        figure = new_figure(width, height=_HEIGHT_OF_ROW + _HEIGHT_OF_REST)
        why = "could run on all T2I models" if study.detectors else "judges this attribute"
        say_instead(figure.subplots(), f"no detector {why}")
        return Drawing(figure, _caption(study, width=width))
    shown = _METRICS[width]
    rows, columns = (len(shown), 1) if width == "single" else (1, len(shown))
    figure = new_figure(width, height=rows * (len(names) * _HEIGHT_OF_ROW + _HEIGHT_OF_REST))
    panels = figure.subplots(rows, columns, squeeze=False, sharex=True).ravel()
    for number, (axes, metric) in enumerate(zip(panels, shown, strict=True)):
        _draw_panel(axes, ranked[metric], names, title=metric_in_words(metric))
        name_rows(axes, [study.shown(name) for name in names], width=width)
        axes.tick_params(labelleft=width == "single" or number == 0)
    for axes in panels if width == "double" else panels[-1:]:
        axes.set_xlabel("Rank (1: best)")
    return Drawing(figure, _caption(study, width=width))


def _ranked(study: FinishedStudy) -> dict[str, list[RankedDetector]]:
    """The ranking by each metric."""
    rows = study.rows("ranks")
    of_all = rows[rows["t2i_model"] == ALL]
    return {str(metric): ranked_detectors(own) for metric, own in of_all.groupby("metric", sort=False)}


def _draw_panel(axes: Axes, ranked: Sequence[RankedDetector], names: Sequence[str], *, title: str) -> None:
    light_grid(axes)
    axes.set_title(title, size=SMALL_TEXT_SIZE)
    axes.set_xlim(0.5, len(names) + 0.5)
    axes.set_xticks(range(1, len(names) + 1, 1 if len(names) <= 10 else 2))
    beside = axes.get_yaxis_transform()
    for each in ranked:
        row = names.index(each.detector)
        axes.plot(
            [each.rank_low, each.rank_high], [row, row], color=SKY, linewidth=3.2, solid_capstyle="butt", zorder=2
        )
        axes.plot(
            [each.rank],
            [row],
            "o",
            color=BLUE,
            markeredgecolor="white",
            markeredgewidth=0.4,
            markersize=4,
            zorder=3,
        )
        axes.annotate(
            each.groups,
            (1, row),
            xycoords=beside,
            xytext=(3, 0),
            textcoords="offset points",
            ha="left",
            va="center_baseline",
            size=SMALL_TEXT_SIZE,
            annotation_clip=False,
        )


def _caption(study: FinishedStudy, *, width: Width) -> str:
    images, level = round(study.estimate("images").value), 100 * study.intervals.level
    could_be = (
        "images of the same prompts" if study.intervals.unit == "image" else "prompts of the same categories"
    )
    return caption(
        f"Detectors of {study.perceived} ranked by {len(_METRICS[width])} metrics, over all T2I models.",
        f"n = {counted(images, 'labelled image')}, {counted(len(study.prompts), 'prompt')}.",
        f"Dot: rank; bar: the ranks that other {could_be} leave open, all of them together at {level:g} % (max-t "
        f"tests of all pairs of detectors by {len(COMPARED_METRICS)} metrics at once).",
        "Detectors that share a letter cannot be told apart by that metric.",
        "A detector without a value comes last.",
        attribute=study.attribute,
        notes=[
            *verdict_notes(study, study.detectors),
            *((name, "not ranked") for name in study.detectors if study.lookup.could_not_run(name)),
        ],
    )
