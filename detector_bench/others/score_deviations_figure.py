"""Which detector can be trusted for which score: how far every detector misses every score, as a heat map."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

from detector_bench.benchmark import ScoreInfo
from detector_bench.errors import ConfigError
from detector_bench.figures.drawing import (
    INCHES,
    MAX_HEIGHT,
    MISSING,
    PALE,
    SMALL_TEXT_SIZE,
    Drawing,
    Width,
    caption,
    counted,
    diverging_colours,
    interval_sentence,
    new_figure,
    sequential_colours,
    shortened,
    signed,
    text_colour,
    text_width,
)
from detector_bench.figures.panels import draw_cell
from detector_bench.others.score_deviations import ReportedScore, ScoreLookup
from detector_bench.results.finished_study import FinishedStudy
from detector_bench.results.metric_lookup import Number
from detector_bench.tables.table import DASH
from detector_bench.tables.wording import attribute_in_words, fixed
from detector_bench.vocabulary import ALL, GROUND_TRUTH

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MARGIN = 0.05
_BAR = 0.29
"""Room above the columns' names for the colour bar, in inches."""
_FLAT_NAMES, _LONGEST_NAME = 0.14, 0.9
"""Height of the columns' names, flat and at most upright."""
_LONGEST_ROW_NAME: dict[Width, float] = {"single": 0.75, "double": 1.4}
_ACTUAL = 0.36
"""Width of the column of actual scores."""
_ROW, _ROW_WITH_INTERVAL = 0.16, 0.25
_WIDEST_CELL = 1.0
_NUMBER_SIZE = SMALL_TEXT_SIZE
_FILLED = 0.86
"""How much of a cell's width its number may take; bold ones take more."""
_FULL = 0.5
"""A deviation from which on a cell has its full colour."""
_TICKS = (-0.5, -0.1, -0.02, 0.0, 0.02, 0.1, 0.5)
_UNSIGNED = "#4D4D4D"

_DIRECTIONS = {1: " (higher: more biased)", -1: " (higher: less biased)", 0: ""}


class _Line(NamedTuple):
    """A line of the map: a score system's heading (no score), or a score."""

    text: str
    score: ReportedScore | None


class _Layout(NamedTuple):
    names: float
    """Room for the rows' names, in inches, without the actual scores."""
    cell: float
    row: float
    head: float
    """Room above the rows."""
    flat: bool
    """Whether the columns' names lie flat."""
    intervals: bool
    decimals: int | None
    """Of the numbers; None: there is no room for numbers."""


_Numbers = Mapping[tuple[ReportedScore, str], Number]
"""By score and detector: the deviation, or the share of differing verdicts."""


def draw(study: FinishedStudy, *, width: Width) -> Drawing:
    """Draw a row per score, by score system, and a column per detector, for all T2I models together.

    A cell holds (reported - actual) / actual in per cent. Red: the detector makes T2I models look more biased than
    they are, blue: less; so a BIGbench score that is reported too high is blue. Grey: scores that have no such
    direction. An agreement's cells (ImageBiTe has verdicts, not scores) hold the percentage of verdicts that are
    not the ground truth's. All attributes are drawn, whichever one the study was loaded for.

    Raises:
        ConfigError: there is no score with a ground truth and a detector.
    """
    lookup = ScoreLookup.of_table(study.metrics_of_all_attributes, max_error_share=study.max_error_share)
    scores = [score for score in lookup.scores if lookup.has_truth(score)]
    if not scores:
        raise ConfigError(
            "no score in this study has both a ground truth and a detector: there is nothing to draw"
        )
    lines = _lines(scores)
    numbers = {(score, name): _missed(lookup, score, name) for score in scores for name in lookup.detectors}
    names = [study.shown(name) for name in lookup.detectors]
    layout = _layout(lines, names, list(numbers.values()), width=width)
    height = layout.head + len(lines) * layout.row + 2 * _MARGIN
    figure = new_figure(width, height=height)
    figure.set_layout_engine("none")
    beside, cells = layout.names + _ACTUAL, len(lookup.detectors) * layout.cell
    left = (INCHES[width] - beside - cells) / 2 + beside
    place = (left / INCHES[width], _MARGIN / height, cells / INCHES[width], len(lines) * layout.row / height)
    axes = figure.add_axes(place)
    _draw_map(axes, lines, lookup, numbers, layout)
    _name_columns(axes, names, layout)
    _draw_colour_bar(figure, width=width, height=height)
    return Drawing(figure, _caption(study, lookup, numbers, layout))


def _lines(scores: Sequence[ReportedScore]) -> list[_Line]:
    lines = []
    for (info, definition), group in groupby(scores, key=lambda score: (score.info, score.definition)):
        lines.append(_Line(_heading(info, definition), None))
        lines += [_Line(score.heading, score) for score in group]
    return lines


def _heading(info: ScoreInfo, definition: str) -> str:
    if info.is_agreement:
        return info.disagreement
    return ", ".join(word for word in (info.name, definition) if word) + _DIRECTIONS[info.more_bias]


def _missed(lookup: ScoreLookup, score: ReportedScore, detector: str) -> Number:
    """0 where the detector is right."""
    if not score.info.is_agreement:
        return lookup.deviation(score, detector)
    same = lookup.reported(score, detector)
    return replace(same, value=1 - same.value, ci_low=1 - same.ci_high, ci_high=1 - same.ci_low)


def _layout(
    lines: Sequence[_Line], detectors: Sequence[str], numbers: Sequence[Number], *, width: Width
) -> _Layout:
    page = INCHES[width] - 2 * _MARGIN
    longest = max(text_width(line.text) for line in lines if line.score) + 0.08
    names = min(longest, _LONGEST_ROW_NAME[width])
    cell = min(_WIDEST_CELL, (page - names - _ACTUAL) / len(detectors))

    def fit(texts: Iterable[str], *, size: float) -> bool:
        return all(text_width(text, size=size) <= _FILLED * cell for text in texts)

    decimals = next(
        (each for each in (1, 0) if fit((_in_words(number.value, each) for number in numbers), size=_NUMBER_SIZE)),
        None,
    )
    ranges = [_range_in_words(number) for number in numbers]
    intervals = decimals == 1 and any(ranges) and fit(ranges, size=SMALL_TEXT_SIZE)
    flat = all(text_width(name) <= 0.98 * cell for name in detectors)
    upright = min(_LONGEST_NAME, max(text_width(name) for name in detectors)) + 0.04
    head = _BAR + (_FLAT_NAMES if flat else upright)
    room = (MAX_HEIGHT - head - 2 * _MARGIN) / len(lines)
    intervals = intervals and room >= _ROW_WITH_INTERVAL
    row = min(room, _ROW_WITH_INTERVAL if intervals else _ROW)
    return _Layout(names, cell, row, head, flat, intervals, decimals)


def _in_words(value: float, decimals: int, *, plus: str = "+") -> str:
    """A fraction in per cent; `plus` stands before numbers above 0."""
    text = signed(100 * value, decimals=decimals)
    return f"{plus}{text}" if value > 0 and float(text) > 0 else text


def _range_in_words(number: Number, *, plus: str = "+") -> str:
    if number.missing or not number.has_interval:
        return ""
    return f"{_in_words(number.ci_low, 1, plus=plus)} to {_in_words(number.ci_high, 1, plus=plus)}"


def _draw_map(axes: Axes, lines: Sequence[_Line], lookup: ScoreLookup, numbers: _Numbers, layout: _Layout) -> None:
    axes.set_xlim(-0.5, len(lookup.detectors) - 0.5)
    axes.set_ylim(len(lines) - 0.5, -0.5)
    axes.set_axis_off()
    size = min(SMALL_TEXT_SIZE, 72 * layout.row * 0.84)
    write = partial(
        axes.annotate, textcoords="offset points", va="center_baseline", size=size, annotation_clip=False
    )
    block = layout.names + _ACTUAL + len(lookup.detectors) * layout.cell
    for row, line in enumerate(lines):
        if line.score is None:
            text = shortened(line.text, inches=block, size=size)
            left = -72 * (layout.names + _ACTUAL)
            write(text, (-0.5, row), xytext=(left, 0), ha="left", weight="bold")
            continue
        name = shortened(line.text, inches=layout.names, size=size)
        write(name, (-0.5, row), xytext=(-72 * _ACTUAL, 0), ha="right")
        if not line.score.info.is_agreement:
            actual = fixed(lookup.reported(line.score, GROUND_TRUTH).value, decimals=3).replace(DASH, MISSING)
            write(actual, (-0.5, row), xytext=(-4, 0), ha="right", color="#404040")
        for column, detector in enumerate(lookup.detectors):
            _draw_number(axes, (column, row), line.score, numbers[line.score, detector], layout)


def _name_columns(axes: Axes, detectors: Sequence[str], layout: _Layout) -> None:
    write = partial(
        axes.annotate,
        textcoords="offset points",
        va="bottom",
        size=SMALL_TEXT_SIZE,
        annotation_clip=False,
    )
    write("actual", (-0.5, -0.5), xytext=(-4, 2), ha="right", color="#404040")
    for column, detector in enumerate(detectors):
        name = detector if layout.flat else shortened(detector, inches=_LONGEST_NAME)
        write(name, (column, -0.5), xytext=(0, 2), ha="center", rotation=0 if layout.flat else 90)


def _draw_number(
    axes: Axes, place: tuple[int, int], score: ReportedScore, number: Number, layout: _Layout
) -> None:
    """Colour the cell at (column, row), and write into it as much as there is room for."""
    column, row = place
    colour = _colour(score, number)
    # Without numbers, stripes tell the negative ones from the positive ones in grey.
    hatch = "//////" if layout.decimals is None and number.value < 0 else ""
    draw_cell(axes, column, row, colour=colour, edge="white", edge_width=0.5, hatch=hatch)
    if layout.decimals is None and not number.missing:
        return
    decimals, plus = layout.decimals or 0, "" if score.info.is_agreement else "+"
    words = _in_words(number.value, decimals, plus=plus)
    shown = _range_in_words(number, plus=plus) if layout.intervals else ""
    write = partial(
        axes.text,
        column,
        ha="center",
        va="center_baseline",
        color="#404040" if number.missing else text_colour(colour),
        clip_on=True,
    )
    size = min(_NUMBER_SIZE, 72 * layout.row * 0.83)
    weight = "bold" if _is_beyond_chance(score, number) else "normal"
    write(row - (0.2 if shown else 0), words, size=size, weight=weight)
    if shown:
        write(row + 0.26, shown, size=SMALL_TEXT_SIZE)


def _is_beyond_chance(score: ReportedScore, number: Number) -> bool:
    return not score.info.is_agreement and number.has_interval and (number.ci_low > 0 or number.ci_high < 0)


def _colour(score: ReportedScore, number: Number) -> Any:
    if number.missing:
        return PALE
    strength = _strength(number.value)
    direction = score.info.more_bias
    if direction == 0:
        return sequential_colours(_UNSIGNED)(abs(strength))
    return diverging_colours()((1 + direction * strength) / 2)


def _strength(deviation: float) -> float:
    """From -1 to 1. The root lets small deviations be seen beside large ones."""
    return math.copysign(min(1.0, math.sqrt(abs(deviation) / _FULL)), deviation)


def _draw_colour_bar(figure: Figure, *, width: Width, height: float) -> None:
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    share = 0.5 if width == "single" else 0.36
    place = ((1 - share) / 2, 1 - 0.13 / height, share, 0.08 / height)
    bar = figure.colorbar(
        ScalarMappable(Normalize(-1, 1), diverging_colours()), cax=figure.add_axes(place), orientation="horizontal"
    )
    bar.set_ticks([_strength(tick) for tick in _TICKS], labels=[f"{100 * abs(tick):g}" for tick in _TICKS])
    bar.ax.tick_params(size=0, pad=1.5)
    bar.outline.set_linewidth(0.4)
    for x, side, text in ((-0.02, "right", "looks less biased"), (1.02, "left", "looks more biased")):
        bar.ax.text(x, 0.5, text, transform=bar.ax.transAxes, ha=side, va="center_baseline", size=SMALL_TEXT_SIZE)


def _caption(study: FinishedStudy, lookup: ScoreLookup, numbers: _Numbers, layout: _Layout) -> str:
    scores = list(dict.fromkeys(score for score, _ in numbers))
    attributes = dict.fromkeys(attribute_in_words(each.attribute) for each in scores if each.attribute != ALL)
    infos = list(dict.fromkeys(score.info for score in scores))
    undirected = [info.name for info in infos if info.more_bias == 0]
    untold = [f"{each.info.name}, {each.heading}" for each in lookup.scores if each not in scores]
    return caption(
        "How far each detector misses each bias score: its deviation (reported \N{MINUS SIGN} actual) / actual in "
        "per cent, all T2I models together; 0 is right.",
        "Red: T2I models look more biased than they are, blue: less; full colour from 50 %.",
        f"Grey: no such direction ({', '.join(undirected)})." if undirected else "",
        *(info.figure_note for info in sorted(infos, key=lambda info: not info.is_agreement)),
        f"n = {counted(len(lookup.t2i_models), 'T2I model')}, "
        f"{counted(study.estimate('images').value, 'labelled image')}.",
        interval_sentence(
            study, numbers.values(), drawn_as="Bold: 0 lies outside the interval. Intervals", of_scores=True
        ),
        "" if layout.decimals is not None else "No room for numbers; stripes mark negative deviations.",
        f"Without human labels, not shown: {'; '.join(untold)}." if untold else "",
        attribute=", ".join(attributes),
        notes=_dashes(lookup, scores),
    )


def _dashes(lookup: ScoreLookup, scores: Sequence[ReportedScore]) -> list[tuple[str, str]]:
    """Why there is no number, by detector."""
    notes = []
    for detector in lookup.detectors:
        places: dict[str, list[str]] = {}
        for score in scores:
            if reason := lookup.why_missing(score, detector):
                heading = "all" if score.attribute == ALL else attribute_in_words(score.attribute)
                name = f"{score.info.name}, {score.heading}"
                places.setdefault(reason, []).append(heading if reason == "not judged" else name)
        for reason, where in places.items():
            notes.append((detector, f"{MISSING} {reason} ({'; '.join(dict.fromkeys(where))})"))
    return notes
