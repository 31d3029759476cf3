"""The filter plane: how many clear images each detector keeps, and how many low-quality ones it filters out.

Labels stand beside their points so that none covers another; the same points give the same places.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from detector_bench.figures.drawing import (
    BLUE,
    DENSE_TEXT_SIZE,
    INCHES,
    PALE,
    SMALL_TEXT_SIZE,
    TEXT_SIZE,
    Drawing,
    Width,
    caption,
    counted,
    frame,
    interval_sentence,
    new_figure,
    say_instead,
    shortened,
    signed,
    text_width,
    verdict_notes,
)
from detector_bench.results.finished_study import FinishedStudy
from detector_bench.results.metric_lookup import Number
from detector_bench.vocabulary import LOW_QUALITY

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


class Box(NamedTuple):
    """A rectangle by its centre and half its size."""

    x: float
    y: float
    half_width: float
    half_height: float

    def overlap(self, other: Box) -> float:
        """Area that two rectangles share; 0 if they only touch."""
        width = self.half_width + other.half_width - abs(self.x - other.x)
        height = self.half_height + other.half_height - abs(self.y - other.y)
        return max(width, 0.0) * max(height, 0.0)

    def outside(self, width: float, height: float) -> float:
        """How far it sticks out of the rectangle from (0, 0) to (width, height)."""
        return (
            max(0.0, self.half_width - self.x)
            + max(0.0, self.x + self.half_width - width)
            + max(0.0, self.half_height - self.y)
            + max(0.0, self.y + self.half_height - height)
        )


_DIRECTIONS = 16
_DOUBT = 1e-4
"""What it costs to stand nearer to another point than to one's own: less than to cover anything."""

_DISTANCES = (1.0, 1.6, 2.3, 3.1, 4.0, 5.0, 6.2, 7.5, 9.0, 11.0)


def place_labels(
    points: Sequence[tuple[float, float]],
    sizes: Sequence[tuple[float, float]],
    *,
    width: float,
    height: float,
    clearance: float,
) -> list[tuple[float, float]]:
    """Choose the centre of each point's label.

    Labels are placed one by one, the most crowded point first, each at the nearest of 160 places around its point
    that covers no point, no label and no edge of the area, and is nearer to its own point than to others; where
    there is none, at the one with the least of these faults, covering being the worst.

    Args:
        points: x and y of each point, in any unit of length.
        sizes: width and height of each label, in the same unit.
        width: of the area, from x = 0.
        height: of the area, from y = 0.
        clearance: radius of a point's mark, with some air.

    Returns:
        x and y of each label's centre, in the order of the points.
    """
    marks = [Box(x, y, clearance, clearance) for x, y in points]
    placed: dict[int, Box] = {}
    for index in sorted(range(len(points)), key=lambda each: (-_crowd(points, each), points[each], each)):
        (x, y), (label_width, label_height) = points[index], sizes[index]
        best: tuple[float, Box] | None = None
        for distance in _DISTANCES:
            for direction in range(_DIRECTIONS):
                # The first choice is above and to the right.
                angle = math.pi / 4 + 2 * math.pi * direction / _DIRECTIONS
                # On the sides of a rectangle, so that the first ring just touches the mark.
                reach = distance / max(abs(math.cos(angle)), abs(math.sin(angle)))
                candidate = Box(
                    x + math.cos(angle) * (clearance + label_width / 2) * reach,
                    y + math.sin(angle) * (clearance + label_height / 2) * reach,
                    label_width / 2,
                    label_height / 2,
                )
                cost = 1000 * candidate.outside(width, height)
                cost += sum(candidate.overlap(mark) for mark in marks)
                cost += 3 * sum(candidate.overlap(other) for other in placed.values())
                cost += _DOUBT * sum(_nearer(candidate, other, to=(x, y)) for other in points)
                if best is None or cost < best[0] - 1e-12:
                    best = (cost, candidate)
            if best is not None and best[0] <= 1e-12:
                break
        assert best is not None  # noqa: S101 - there is always a candidate
        placed[index] = best[1]
    return [(placed[index].x, placed[index].y) for index in range(len(points))]


def _nearer(label: Box, other: tuple[float, float], *, to: tuple[float, float]) -> bool:
    """Whether a label's centre lies nearer to another point than to its own."""
    own = math.dist((label.x, label.y), to)
    return other != to and math.dist((label.x, label.y), other) < own


def _crowd(points: Sequence[tuple[float, float]], index: int) -> float:
    """How crowded it is around a point: the sum over all points of 1 / (1 + distance)."""
    return math.fsum(1 / (1 + math.dist(points[index], other)) for other in points)


_LEVELS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98)
_SIDE = 2.55
"""Of the plane, in inches."""

_LEFT = 0.42
_LINE = 0.125
"""Of the legend, in inches."""

_FAR = 0.13
"""A number that stands further from its point than this, in inches, gets a line to it."""

_AIR = 0.03
"""Room around the plane from 0 to 1, so that points on its edge are whole."""


class _Point(NamedTuple):
    number: int
    """As in the legend, 1 first."""
    detector: str
    recall: Number
    filter_rate: Number

    @property
    def missing(self) -> str:
        """Which coordinate there is none of; empty if both are there."""
        names = {"recall": self.recall, "filter rate": self.filter_rate}
        return " and ".join(name for name, number in names.items() if number.missing)


def draw(study: FinishedStudy, *, width: Width) -> Drawing:
    """Draw recall against filter rate, over all T2I models, with lines of equal F1.

    The best corner is the upper right one. F1 depends on the share of clear images; its lines are drawn for the
    share
    in this study. A detector without one of the two coordinates is listed without a point.
    """
    points = [
        _Point(
            number,
            detector,
            study.estimate("recall", detector=detector),
            study.estimate("filter_rate", detector=detector),
        )
        for number, detector in enumerate(study.detectors, start=1)
    ]
    clear, low_quality = clear_and_low_quality(study)
    side = _SIDE
    columns = 1 if width == "double" or len(points) == 1 else 2
    legend_height = 0.0 if width == "double" else math.ceil(len(points) / columns) * _LINE + 0.1
    height = max(side + 0.42 + legend_height, len(points) * _LINE + 0.35 if width == "double" else 0)
    figure = new_figure(width, height=height)
    figure.set_layout_engine("none")
    axes = figure.add_axes(
        (_LEFT / INCHES[width], 1 - (side + 0.04) / height, side / INCHES[width], side / height)
    )
    _draw_plane(axes, share=clear / (clear + low_quality) if clear + low_quality else math.nan)
    shown = [point for point in points if not point.missing]
    _draw_points(axes, shown, side=side)
    if not shown:
        say_instead(axes, "no detector has both\na recall and a filter rate")
    if width == "double":
        _draw_table(figure, study, points, height=height)
    else:
        _draw_legend(figure, points, top=height - side - 0.5, height=height, columns=columns)
    return Drawing(figure, _caption(study, points, clear=clear, low_quality=low_quality))


def clear_and_low_quality(study: FinishedStudy) -> tuple[float, float]:
    """How many images the humans call clear, and how many low-quality."""
    clear = study.estimate("images_clear").value
    share = study.estimate(f"label_share_{LOW_QUALITY}")
    low_quality = 0.0 if share.missing else round(share.value * share.n)
    return (0.0 if math.isnan(clear) else clear), low_quality


def recall_for(level: float, *, filter_rate: float, share: float) -> float:
    """The recall at which a filter's F1 reaches a level; above 1 it is out of reach.

    With the share c of clear images, the filter rate f and the recall r: precision = r c / (r c + (1 - f)(1 -
    c)), so
    F1 = 2 r c / (r c + (1 - f)(1 - c) + c). Lines of equal F1 are straight, and meet f = 1 at F1 / (2 - F1) for
    any c.

    Args:
        level: F1.
        filter_rate: f, share of low-quality images filtered out.
        share: c, from 0 to 1, above 0.
    """
    return level * ((1 - filter_rate) * (1 - share) + share) / (share * (2 - level))


def _draw_plane(axes: Axes, *, share: float) -> None:
    axes.set_xlim(-_AIR, 1 + _AIR)
    axes.set_ylim(-_AIR, 1 + _AIR)
    ticks = [0, 0.2, 0.4, 0.6, 0.8, 1]
    axes.set_xticks(ticks, [f"{100 * tick:.0f}" for tick in ticks])
    axes.set_yticks(ticks, [f"{100 * tick:.0f}" for tick in ticks])
    axes.set_xlabel("Filter rate (%): low-quality images filtered out")
    axes.set_ylabel("Recall (%): clear images kept")
    frame(axes)
    if not 0 < share <= 1:
        return
    for level in _LEVELS:
        ends = [(filter_rate, recall_for(level, filter_rate=filter_rate, share=share)) for filter_rate in (0, 1)]
        line = axes.plot(*zip(*ends, strict=True), color=PALE, linewidth=0.7, zorder=0)[0]
        line.set_clip_path(_unit_square(axes))
        axes.annotate(
            f"F1 {100 * level:.0f}",
            (1 + _AIR, ends[1][1]),
            xytext=(3, 0),
            textcoords="offset points",
            va="center",
            size=DENSE_TEXT_SIZE,
            color="#606060",
            annotation_clip=False,
        )


def _unit_square(axes: Axes) -> Any:
    from matplotlib.patches import Rectangle

    return Rectangle((0, 0), 1 + _AIR, 1, transform=axes.transData)


def _draw_points(axes: Axes, points: list[_Point], *, side: float) -> None:
    from matplotlib.patheffects import withStroke

    scale = side / (1 + 2 * _AIR)
    for point in points:
        across, up = point.filter_rate, point.recall
        if across.has_interval:
            axes.plot(
                [across.ci_low, across.ci_high],
                [up.value, up.value],
                color=BLUE,
                linewidth=0.6,
                alpha=0.6,
                zorder=2,
            )
        if up.has_interval:
            axes.plot(
                [across.value, across.value],
                [up.ci_low, up.ci_high],
                color=BLUE,
                linewidth=0.6,
                alpha=0.6,
                zorder=2,
            )
        axes.plot(
            [across.value],
            [up.value],
            marker="o",
            color=BLUE,
            markersize=3.4,
            markeredgecolor="white",
            markeredgewidth=0.4,
            zorder=3,
        )
    inches = [((point.filter_rate.value + _AIR) * scale, (point.recall.value + _AIR) * scale) for point in points]
    sizes = [(text_width(str(point.number), size=TEXT_SIZE) + 0.03, 0.1) for point in points]
    places = place_labels(inches, sizes, width=side, height=side, clearance=0.035)
    for point, place, label in zip(points, inches, places, strict=True):
        axes.text(
            label[0] / scale - _AIR,
            label[1] / scale - _AIR,
            str(point.number),
            ha="center",
            va="center",
            size=TEXT_SIZE,
            zorder=4,
            path_effects=[withStroke(linewidth=1.5, foreground="white")],  # interrupts lines behind it
        )
        distance = math.dist(place, label)
        crowded = any(math.dist(other, label) < 1.6 * distance for other in inches if other != place)
        if distance > _FAR or crowded:
            start = _towards(label, place, 0.065 / distance)
            line = [(x / scale - _AIR, y / scale - _AIR) for x, y in (start, place)]
            axes.plot(*zip(*line, strict=True), color="#303030", linewidth=0.4, zorder=1.5)


def _towards(start: tuple[float, float], end: tuple[float, float], share: float) -> tuple[float, float]:
    """The point that lies a share of the way from one point to another."""
    share = min(share, 1.0)
    return start[0] + share * (end[0] - start[0]), start[1] + share * (end[1] - start[1])


def _draw_legend(figure: Figure, points: list[_Point], *, top: float, height: float, columns: int) -> None:
    width = INCHES["single"]
    rows = math.ceil(len(points) / columns)
    for index, point in enumerate(points):
        column, row = divmod(index, rows)
        left, y = 0.08 + column * width / columns, top - row * _LINE
        figure.text(
            (left + 0.14) / width, y / height, str(point.number), size=SMALL_TEXT_SIZE, ha="right", va="center"
        )
        name = point.detector + (f" (no {point.missing})" if point.missing else "")
        name = shortened(name, inches=width / columns - 0.3)
        figure.text((left + 0.2) / width, y / height, name, size=SMALL_TEXT_SIZE, va="center")


def _draw_table(figure: Figure, study: FinishedStudy, points: list[_Point], *, height: float) -> None:
    """The legend with its numbers: there is room for them beside the plane."""
    width = INCHES["double"]
    left = _LEFT + _SIDE + 0.45
    right = [left + 0.14, left + 2.05, left + 2.8, left + 3.3]
    headings = ["", "Recall (%)", "Filter rate (%)", "F1 (%)"]
    for place, heading in zip(right, headings, strict=True):
        figure.text(place / width, 1 - 0.1 / height, heading, size=SMALL_TEXT_SIZE, ha="right", va="center")
    for row, point in enumerate(points):
        f1 = study.estimate("f1", detector=point.detector)
        y = 1 - (0.1 + (row + 1.2) * _LINE) / height
        numbers = [signed(100 * each.value, decimals=1) for each in (point.recall, point.filter_rate, f1)]
        for place, text in zip(right, [str(point.number), *numbers], strict=True):
            figure.text(place / width, y, text, size=SMALL_TEXT_SIZE, ha="right", va="center")
        name = shortened(point.detector, inches=1.2)
        figure.text((left + 0.2) / width, y, name, size=SMALL_TEXT_SIZE, va="center")


def _caption(study: FinishedStudy, points: list[_Point], *, clear: float, low_quality: float) -> str:
    total = clear + low_quality
    return caption(
        f"Filtering by {study.perceived}: recall (share of human-clear images kept) against filter rate "
        "(share of human-low-quality images filtered out), over all T2I models; the upper right corner is best.",
        "Grey: lines of equal F1, which depends on the share of clear images; drawn for this study's "
        f"{100 * clear / total:.1f} % ({clear:,.0f} of {total:,.0f} clear or low-quality images)."
        if clear
        else "F1 is not drawn: no image is clear.",
        f"n = {counted(clear, 'clear image')} for recall, {counted(low_quality, 'low-quality image')} for "
        "filter rate.",
        "No image is low-quality, so there is no filter rate." if not low_quality else "",
        interval_sentence(study, [number for point in points for number in (point.recall, point.filter_rate)]),
        attribute=study.attribute,
        notes=[
            *verdict_notes(study, study.detectors),
            *((point.detector, f"not in the plane, no {point.missing}") for point in points if point.missing),
        ],
    )
