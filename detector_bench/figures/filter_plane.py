"""The filter plane: how many clear images each detector keeps, and how many low-quality ones it filters out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from detector_bench.figures.drawing import (
    BLUE,
    INCHES,
    MISSING,
    PALE,
    SMALL_TEXT_SIZE,
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
from detector_bench.figures.label_places import Box, place_labels
from detector_bench.results.finished_study import FinishedStudy
from detector_bench.results.metric_lookup import Number
from detector_bench.vocabulary import LOW_QUALITY

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_LEVELS = (0.9, 0.8, 0.95, 0.7, 0.6, 0.98, 0.5, 0.99, 0.97, 0.96, 0.4, 0.3, 0.995, 0.93, 0.85)
"""Of F1, the most wanted first: lines that lie too close to others are left out."""
_LEVELS_APART = 0.11
"""Inches."""
_SIZE: dict[Width, tuple[float, float]] = {"single": (2.4, 2.4), "double": (3.3, 2.6)}
"""Width and height of the plane, in inches."""

_LEFT = 0.42
_RIGHT = 0.36
_LINE = 0.125
"""Of a list of detectors, in inches."""

_FAR = 0.11
"""A label that stands further from its point than this, in inches, gets a line to it."""

_AIR = 0.05
"""Room around the points, as a share of the plane, so that those on its edge are whole."""

_LEAST_SPAN = 0.1
"""The plane is zoomed in no further."""

_SAME = 0.02
"""Points that are nearer to each other than this, in inches, are one spot."""

_MARK = 0.035
"""Radius of a mark with some air, in inches."""


class _Plane(NamedTuple):
    """The part of the plane that is drawn."""

    across: tuple[float, float]
    """Filter rates."""
    up: tuple[float, float]
    """Recalls."""
    width: float
    height: float
    """In inches."""

    def inches(self, point: _Point) -> tuple[float, float]:
        """Where a point lies, from the lower left corner."""
        shares = (_share(point.filter_rate.value, self.across), _share(point.recall.value, self.up))
        return shares[0] * self.width, shares[1] * self.height


def _share(value: float, ends: tuple[float, float]) -> float:
    return (value - ends[0]) / (ends[1] - ends[0])


class _Point(NamedTuple):
    number: int
    """As in a legend, 1 first."""
    name: str
    """For people."""
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

    The best corner is the upper right one. The plane is zoomed to where the detectors are, and each has its name
    beside it; where there is no room for names, numbers and a legend. F1 depends on the share of clear images; its
    lines are drawn for the share in this study. A detector without one of the two coordinates is listed without a
    point.
    """
    points = [
        _Point(
            number,
            study.shown(detector),
            detector,
            study.estimate("recall", detector=detector),
            study.estimate("filter_rate", detector=detector),
        )
        for number, detector in enumerate(study.detectors, start=1)
    ]
    clear, low_quality = clear_and_low_quality(study)
    shown = [point for point in points if not point.missing]
    plane = _zoomed(shown, width)
    spots = _spots(shown, plane)
    places = _places(plane, spots, numbered=False)
    if numbered := not _stand_free(plane, spots, places):
        places = _places(plane, spots, numbered=True)
    below = [point for point in points if numbered or point.missing] if width == "single" else []
    columns = 1 if len(below) <= 1 else 2
    legend_height = math.ceil(len(below) / columns) * _LINE + 0.1 if below else 0.0
    height = max(plane.height + 0.46 + legend_height, len(points) * _LINE + 0.35 if width == "double" else 0)
    figure = new_figure(width, height=height)
    figure.set_layout_engine("none")
    rectangle = (_LEFT / INCHES[width], 1 - (plane.height + 0.06) / height)
    axes = figure.add_axes((*rectangle, plane.width / INCHES[width], plane.height / height))
    _draw_plane(axes, plane, share=clear / (clear + low_quality) if shown else math.nan)
    for point in shown:
        _draw_point(axes, point)
    _draw_labels(axes, spots, plane, places, numbered=numbered)
    if not shown:
        say_instead(axes, "no detector has both\na recall and a filter rate")
    if width == "double":
        _draw_table(figure, study, points, left=_LEFT + plane.width + _RIGHT + 0.25, numbered=numbered)
    else:
        _draw_legend(figure, below, top=height - plane.height - 0.52, columns=columns, numbered=numbered)
    return Drawing(figure, _caption(study, points, plane, clear=clear, low_quality=low_quality))


def _zoomed(points: Sequence[_Point], width: Width) -> _Plane:
    """The part of the plane in which the points lie with their intervals."""
    sides = _SIZE[width]
    across, up = (
        _span([end for number in numbers for end in (number.value, number.ci_low, number.ci_high)])
        for numbers in ([point.filter_rate for point in points], [point.recall for point in points])
    )
    return _Plane(across, up, *sides)


def _span(values: Sequence[float]) -> tuple[float, float]:
    """The ends of an axis that shows these values; all of it, from 0 to 1, without any."""
    known = [value for value in values if not math.isnan(value)]
    low, high = (max(0.0, min(known)), min(1.0, max(known))) if known else (0.0, 1.0)
    if high - low < _LEAST_SPAN:
        middle = min(max((low + high) / 2, _LEAST_SPAN / 2), 1 - _LEAST_SPAN / 2)
        low, high = middle - _LEAST_SPAN / 2, middle + _LEAST_SPAN / 2
    air = _AIR * (high - low) / (1 - 2 * _AIR)
    return low - air, high + air


class _Spot(NamedTuple):
    """A place of the plane, and the detectors that it belongs to: several that filter alike share their label."""

    place: tuple[float, float]
    """In inches, see `_Plane.inches`."""
    points: list[_Point]

    def lines(self, *, numbered: bool) -> list[str]:
        """The label."""
        if numbered:
            return [", ".join(str(point.number) for point in self.points)]
        return [point.name for point in self.points]

    def size(self, *, numbered: bool) -> tuple[float, float]:
        """Width and height of the label, in inches."""
        lines = self.lines(numbered=numbered)
        return max(text_width(line) for line in lines) + 0.04, len(lines) * (_LINE - 0.02) + 0.01


def _spots(points: Sequence[_Point], plane: _Plane) -> list[_Spot]:
    spots: list[_Spot] = []
    for point in points:
        place = plane.inches(point)
        same = next((spot for spot in spots if math.dist(spot.place, place) < _SAME), None)
        if same is None:
            spots.append(_Spot(place, [point]))
        else:
            same.points.append(point)
    return spots


def _places(plane: _Plane, spots: Sequence[_Spot], *, numbered: bool) -> list[tuple[float, float]]:
    """The centres of the labels."""
    sizes = [spot.size(numbered=numbered) for spot in spots]
    inches = [spot.place for spot in spots]
    bars = [bar for spot in spots for bar in _bars(plane, spot.points[0])]
    return place_labels(inches, sizes, width=plane.width, height=plane.height, clearance=_MARK, bars=bars)


def _bars(plane: _Plane, point: _Point) -> list[Box]:
    """A point's intervals as thin rectangles, in inches."""
    (x, y), thin = plane.inches(point), 0.005
    bars = []
    if point.filter_rate.has_interval:
        ends = [
            plane.width * _share(end, plane.across)
            for end in (point.filter_rate.ci_low, point.filter_rate.ci_high)
        ]
        bars.append(Box(sum(ends) / 2, y, (ends[1] - ends[0]) / 2, thin))
    if point.recall.has_interval:
        low, high = (_share(end, plane.up) for end in (point.recall.ci_low, point.recall.ci_high))
        bars.append(Box(x, plane.height * (low + high) / 2, thin, plane.height * (high - low) / 2))
    return bars


def _stand_free(plane: _Plane, spots: Sequence[_Spot], places: Sequence[tuple[float, float]]) -> bool:
    """Whether there was room for all names."""
    boxes = [_label_box(spot, place, numbered=False) for spot, place in zip(spots, places, strict=True)]
    marks = [Box(*spot.place, 0.02, 0.02) for spot in spots]
    covered = any(box.overlap(other) for index, box in enumerate(boxes) for other in (*boxes[:index], *marks))
    return not covered and not any(box.outside(plane.width, plane.height) for box in boxes)


def _label_box(spot: _Spot, place: tuple[float, float], *, numbered: bool) -> Box:
    width, height = spot.size(numbered=numbered)
    return Box(*place, width / 2 - 0.005, height / 2 - 0.005)


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


def _draw_plane(axes: Axes, plane: _Plane, *, share: float) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axes.set_xlim(plane.across)
    axes.set_ylim(plane.up)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
        axis.set_major_formatter(
            FuncFormatter(lambda value, _: f"{100 * value:.3g}" if -1e-9 < value < 1 + 1e-9 else "")
        )
    axes.set_xlabel("Filter rate (%): low-quality images filtered out")
    axes.set_ylabel("Recall (%): clear images kept")
    frame(axes)
    if not 0 < share <= 1:
        return
    low, high = plane.up
    ends = {
        level: [recall_for(level, filter_rate=each, share=share) for each in plane.across] for level in _LEVELS
    }
    drawn: list[float] = []
    for level, (_, right) in ends.items():
        place = plane.height * _share(right, plane.up)
        if not low < right < min(high, 1.0) or any(abs(place - other) < _LEVELS_APART for other in drawn):
            continue
        drawn.append(place)
        line = axes.plot(plane.across, ends[level], color=PALE, linewidth=0.7, zorder=0)[0]
        line.set_clip_path(_up_to_whole_recall(axes, plane))
        axes.annotate(
            f"F1 {100 * level:g}",
            (plane.across[1], ends[level][1]),
            xytext=(3, 0),
            textcoords="offset points",
            va="center",
            size=SMALL_TEXT_SIZE,
            color="#606060",
            annotation_clip=False,
        )


def _up_to_whole_recall(axes: Axes, plane: _Plane) -> Any:
    from matplotlib.patches import Rectangle

    left, right = plane.across
    return Rectangle((left, plane.up[0]), right - left, 1 - plane.up[0], transform=axes.transData)


def _draw_point(axes: Axes, point: _Point) -> None:
    across, up = point.filter_rate, point.recall
    bar: dict[str, Any] = {"color": BLUE, "linewidth": 0.6, "alpha": 0.6, "zorder": 2}
    if across.has_interval:
        axes.plot([across.ci_low, across.ci_high], [up.value, up.value], **bar)
    if up.has_interval:
        axes.plot([across.value, across.value], [up.ci_low, up.ci_high], **bar)
    axes.plot([across.value], [up.value], marker="o", color=BLUE, markersize=3.4, zorder=3, clip_on=False)


def _draw_labels(
    axes: Axes, spots: Sequence[_Spot], plane: _Plane, places: Sequence[tuple[float, float]], *, numbered: bool
) -> None:
    from matplotlib.patheffects import withStroke

    to_axes = axes.transAxes
    for spot, label in zip(spots, places, strict=True):
        axes.text(
            label[0] / plane.width,
            label[1] / plane.height,
            "\n".join(spot.lines(numbered=numbered)),
            ha="center",
            va="center",
            size=SMALL_TEXT_SIZE,
            linespacing=1.1,
            zorder=4,
            transform=to_axes,
            path_effects=[withStroke(linewidth=1.5, foreground="white")],  # interrupts lines behind it
        )
        box = _label_box(spot, label, numbered=numbered)
        nearest = (
            min(max(spot.place[0], box.x - box.half_width), box.x + box.half_width),
            min(max(spot.place[1], box.y - box.half_height), box.y + box.half_height),
        )
        if math.dist(spot.place, nearest) > _FAR:
            line = [(x / plane.width, y / plane.height) for x, y in (nearest, spot.place)]
            axes.plot(*zip(*line, strict=True), color="#606060", linewidth=0.4, zorder=1.5, transform=to_axes)


def _draw_legend(figure: Figure, points: list[_Point], *, top: float, columns: int, numbered: bool) -> None:
    width, height = figure.get_size_inches()
    rows = math.ceil(len(points) / columns)
    for index, point in enumerate(points):
        column, row = divmod(index, rows)
        left, y = 0.08 + column * width / columns, top - row * _LINE
        number = str(point.number) if numbered else MISSING
        figure.text((left + 0.14) / width, y / height, number, size=SMALL_TEXT_SIZE, ha="right", va="center")
        name = point.name + (f" (no {point.missing})" if point.missing else "")
        name = shortened(name, inches=width / columns - 0.3)
        figure.text((left + 0.2) / width, y / height, name, size=SMALL_TEXT_SIZE, va="center")


def _draw_table(
    figure: Figure, study: FinishedStudy, points: list[_Point], *, left: float, numbered: bool
) -> None:
    """Every detector with its numbers: there is room for them beside the plane."""
    width, height = figure.get_size_inches()
    names = left + (0.2 if numbered else 0.0)
    right = [width - 1.3, width - 0.52, width - 0.08]
    headings = ["Recall (%)", "Filter rate (%)", "F1 (%)"]
    for place, heading in zip(right, headings, strict=True):
        figure.text(place / width, 1 - 0.1 / height, heading, size=SMALL_TEXT_SIZE, ha="right", va="center")
    for row, point in enumerate(points):
        f1 = study.estimate("f1", detector=point.detector)
        y = 1 - (0.1 + (row + 1.2) * _LINE) / height
        numbers = [signed(100 * each.value, decimals=1) for each in (point.recall, point.filter_rate, f1)]
        for place, text in zip(right, numbers, strict=True):
            figure.text(place / width, y, text, size=SMALL_TEXT_SIZE, ha="right", va="center")
        if numbered:
            figure.text((left + 0.14) / width, y, str(point.number), size=SMALL_TEXT_SIZE, ha="right", va="center")
        name = shortened(point.name, inches=right[0] - names - 0.45)
        figure.text(names / width, y, name, size=SMALL_TEXT_SIZE, va="center")


def _why_no_f1(*, clear: float, low_quality: float) -> str:
    if not clear:
        return "no image is clear"
    return "no detector has both a recall and a filter rate" if low_quality else "no image is low-quality"


def _caption(
    study: FinishedStudy, points: list[_Point], plane: _Plane, *, clear: float, low_quality: float
) -> str:
    total = clear + low_quality
    shared = len(_spots([point for point in points if not point.missing], plane)) < sum(
        not point.missing for point in points
    )
    whole = all(low <= 0 and high >= 1 for low, high in (plane.across, plane.up))
    return caption(
        f"Filtering by {study.perceived}: recall (share of human-clear images kept) against filter rate "
        "(share of human-low-quality images filtered out), over all T2I models; the upper right corner is best."
        + (" Names below each other belong to one point." if shared else "")
        + ("" if whole else " Axes begin and end where the detectors are."),
        "Grey: lines of equal F1, which depends on the share of clear images; drawn for this study's "
        f"{100 * clear / total:.1f} % ({clear:,.0f} of {total:,.0f} clear or low-quality images)."
        if clear and low_quality and any(not point.missing for point in points)
        else f"F1 is not drawn: {_why_no_f1(clear=clear, low_quality=low_quality)}.",
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
