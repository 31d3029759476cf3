"""Ranks of the detectors with their doubt."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from detector_bench.evaluation.ranking import RANKED_METRICS, RankedDetector, rank_detectors
from detector_bench.figures.drawing import Drawing, caption, counted, verdict_notes
from detector_bench.figures.finished_study import FinishedStudy
from detector_bench.figures.panels import light_grid, name_rows
from detector_bench.figures.style import BLUE, SKY, SMALL_TEXT_SIZE, Width, new_figure, say_instead

if TYPE_CHECKING:
    from matplotlib.axes import Axes

RESAMPLES = 10_000
"""As many as `rank_detectors` takes: with fewer, Holm's adjustment over many pairs can tell nobody apart."""

_RESAMPLES_OF_HALF = 2_000


def draw(study: FinishedStudy, *, width: Width) -> Drawing:
    """Draw each detector's mean rank by the four ranked metrics, best first.

    Dot: the rank; thick bar: half of the resamples, thin bar: 95 % of them. At the right: the probability of
    being the
    best, and letters that detectors share if they cannot be told apart. Computed from the stored predictions with
    `evaluation.ranking`, since ranks are not in the metric table.

    Raises:
        DetectorBenchError: the image set or the predictions are not there.
    """
    ranked, half = study.once("ranks", lambda: _ranked(study))
    figure = new_figure(width, height=max(1, len(ranked)) * 0.16 + 0.75)
    axes = figure.subplots()
    light_grid(axes)
    name_rows(axes, [each.detector for each in ranked], width=width)
    if ranked:
        axes.set_xlim(0.5, len(ranked) + 0.5)
        for row, each in enumerate(ranked):
            _draw_row(axes, each, half[each.detector], row=row)
        _write_headings(axes)
    else:
        say_instead(axes, "no detector judges this attribute")
    step = 1 if width == "double" or len(ranked) <= 10 else 2
    axes.set_xticks(range(1, len(ranked) + 1, step))
    axes.set_xlabel("Rank (1: best)")
    return Drawing(figure, _caption(study))


def _ranked(study: FinishedStudy) -> tuple[list[RankedDetector], dict[str, RankedDetector]]:
    """The ranking with 95 % intervals, and by name the same with 50 % intervals."""
    joint, names = study.counts.joint, study.counts.detectors
    if not names or not joint.images:
        return [], {}
    n_clear = study.lookup.n_clear
    ranked = rank_detectors(joint, names, resamples=RESAMPLES, n_clear=n_clear)
    half = rank_detectors(joint, names, resamples=_RESAMPLES_OF_HALF, level=0.5, n_clear=n_clear)
    return ranked, {each.detector: each for each in half}


def _draw_row(axes: Axes, each: RankedDetector, half: RankedDetector, *, row: int) -> None:
    axes.plot([each.rank_low, each.rank_high], [row, row], color=BLUE, linewidth=0.8, zorder=2)
    axes.plot(
        [half.rank_low, half.rank_high], [row, row], color=SKY, linewidth=3.2, solid_capstyle="butt", zorder=2
    )
    axes.plot(
        [each.rank], [row], "o", color=BLUE, markeredgecolor="white", markeredgewidth=0.4, markersize=4, zorder=3
    )
    best = f"{each.probability_best:.2f}"
    if 0 < each.probability_best < 0.005:
        best = "<0.01"
    beside = axes.get_yaxis_transform()
    _write(axes, best, (1, row), beside, points=(26, 0), align="right")
    _write(axes, each.groups, (1, row), beside, points=(34, 0), align="left")


def _write_headings(axes: Axes) -> None:
    _write(axes, "P(best)", (1, 1), axes.transAxes, points=(26, 5), align="right")
    _write(axes, "group", (1, 1), axes.transAxes, points=(34, 5), align="left")


def _write(
    axes: Axes,
    text: str,
    place: tuple[float, float],
    coordinates: Any,
    *,
    points: tuple[float, float],
    align: Literal["left", "right"],
) -> None:
    axes.annotate(
        text,
        place,
        xycoords=coordinates,
        xytext=points,
        textcoords="offset points",
        ha=align,
        va="center_baseline",
        size=SMALL_TEXT_SIZE,
        annotation_clip=False,
    )


def _caption(study: FinishedStudy) -> str:
    metrics = ", ".join(name.replace("_", " ") for name in RANKED_METRICS)
    images = int(study.counts.human.sum())
    return caption(
        f"Detectors of perceived {study.attribute} ranked by the mean of their ranks by {metrics}, over all T2I "
        "models.",
        f"n = {counted(images, 'labelled image')}, {counted(len(study.prompts), 'prompt')}.",
        f"Dot: rank; thin and thick bar: the middle 95 % of {RESAMPLES:,} and the middle 50 % of "
        f"{_RESAMPLES_OF_HALF:,} bootstrap resamples of images within each prompt, the same for all detectors.",
        "P(best): share of the resamples in which the detector is first. Detectors that share a group letter "
        "cannot be told apart at 5 % (paired bootstrap, Holm's adjustment over all pairs).",
        "A detector without a value comes last.",
        attribute=study.attribute,
        notes=verdict_notes(study, study.detectors),
    )
