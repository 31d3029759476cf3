"""Parts that several figures are made of: numbers found by name, grids of panels, forests, heat maps.

A figure takes finished rows and computes nothing. `Numbers` finds the rows of one attribute; `forest` draws values
with their intervals from top to bottom, `heat` a table of coloured cells.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import cycle
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
import pandas as pd

from detector_bench_next.attributes import ALL, GROUND_TRUTH, Attribute
from detector_bench_next.errors import ConfigError
from detector_bench_next.evaluate import DETECTOR_ONLY
from detector_bench_next.figures.style import (
    BAND,
    BLUE,
    GREY,
    INCHES,
    MARKERS,
    MISSING,
    PALE,
    SERIES,
    SMALL,
    Drawn,
    Width,
    new_figure,
    shortened,
    text_colour,
    text_width,
)
from detector_bench_next.registry import register
from detector_bench_next.results import Results

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_F = TypeVar("_F", bound=Callable[..., Drawn])
_LONGEST: dict[Width, float] = {"single": 0.85, "double": 1.4}
"""Room for a name beside a panel, in inches."""


def figure(name: str, *, about: str, needs: str = "") -> Callable[[_F], _F]:
    """Register a function of results, attribute and width as a figure.

    Args:
        name: in commands and file names.
        about: a line for lists.
        needs: "labels": it is left out where no image has one.
    """

    def add(function: _F) -> _F:
        register("figure", name, function, about=about, needs=needs)
        return function

    return add


class Number(NamedTuple):
    """A value with its interval, what it rests on and what it leaves out; NaN where there is none."""

    value: float = math.nan
    low: float = math.nan
    high: float = math.nan
    n: float = 0
    left_out: float = 0

    @property
    def there(self) -> bool:
        """There is a value."""
        return not math.isnan(self.value)

    def times(self, scale: float) -> Number:
        """The same in another unit."""
        return self._replace(value=self.value * scale, low=self.low * scale, high=self.high * scale)


class Numbers:
    """Metric rows of one attribute, found by metric, detector and scope."""

    def __init__(self, results: Results, attribute: Attribute) -> None:
        self.results, self.attribute = results, attribute
        cells = results.cells(attribute.name)
        self.detectors = list(cells.raters[: cells.detectors])
        pairs = cells.pairs[["t2i_model", "category", "prompt_id"]].astype("str")
        self.models = list(dict.fromkeys(pairs["t2i_model"]))
        self.prompts = list(dict.fromkeys(zip(pairs["category"], pairs["prompt_id"], strict=True)))
        self.labelled = bool((cells.truth < len(cells.classes) + 2).any())

    def of(
        self,
        metric: str,
        detector: str = GROUND_TRUTH,
        t2i_model: str = ALL,
        category: str = ALL,
        prompt_id: str = ALL,
    ) -> Number:
        """The number of one row, without labels of the detector alone; all NaN where there is no such row."""
        where = {"attribute": self.attribute.name, "detector": detector, "t2i_model": t2i_model}
        where["variant"] = "" if self.labelled else DETECTOR_ONLY
        row = self.results.row(metric, **where, category=category, prompt_id=prompt_id)
        return Number(*(row[c] for c in ("value", "ci_low", "ci_high", "n", "n_left_out"))) if row else Number()

    def table(self, name: str, **where: str) -> pd.DataFrame:
        """Rows of a long table about this attribute."""
        found = self.results.table(name)
        for column, word in {"attribute": self.attribute.name, **where}.items():
            found = found[(found[column].astype("str") == word).to_numpy()]
        return found

    def two_classes(self) -> tuple[str, str]:
        """Words of both classes, the first one counted upwards.

        Raises:
            ConfigError: the attribute has more than two.
        """
        words = [in_sentence(c.text) for c in self.attribute.classes]
        if len(words) != 2:
            raise ConfigError(
                f"a signed bias score needs two classes; {self.attribute.name} has {len(words)}: figure shares"
            )
        return words[0], words[1]

    def intervals(self, shown: Sequence[Number], drawn_as: str = "Bars") -> str:
        """A sentence that says what the intervals are, and on how many numbers they are missing."""
        present = [number for number in shown if number.there]
        without = sum(math.isnan(number.low) for number in present)
        if not present or without == len(present):
            return "These numbers have no intervals." if present else ""
        settings = self.results.settings
        missing = f"; {without} of {len(present)} numbers have none" if without else ""
        return (
            f"{drawn_as}: {100 * settings['level']:g} % intervals for other images of these prompts "
            f"({settings['resamples']:,} resamples){missing}."
        )


def in_sentence(text: str) -> str:
    """A class's text without its capital, unless it is the name of a group of people (`Latino or Hispanic`)."""
    return text if any(word[:1].isupper() for word in text.split()[1:]) else text[:1].lower() + text[1:]


def left_out(named: Mapping[str, Number], things: str) -> list[tuple[str, str]]:
    """Notes on how much each named number leaves out."""
    return [
        (name, f"{number.left_out:.0f} of {number.n + number.left_out:.0f} {things} left out")
        for name, number in named.items()
        if number.left_out > 0
    ]


def panels(
    width: Width, count: int, *, columns: int, height: float, other: float = 0.5, sharex: bool = True
) -> tuple[Figure, list[Axes]]:
    """A figure with `count` panels that share their axes.

    Args:
        width: of the figure.
        count: of panels, at least 1; `columns` side by side.
        columns: at most so many.
        height: of one panel with its title, in inches; `other` is room for labels and legend.
        other: in inches.
        sharex: the horizontal axis is shared, too.
    """
    filled = INCHES["single"] if count == 1 and columns > 1 else None
    columns = min(columns, count)
    rows = math.ceil(count / columns)
    figure = new_figure(width, rows * height + other, filled=filled)
    grid = list(figure.subplots(rows, columns, squeeze=False, sharex=sharex, sharey=True).ravel())
    for axes in grid[count:]:
        axes.remove()
    for place in range(max(0, count - columns), count):
        grid[place].tick_params(labelbottom=True)
        if place < columns * (rows - 1):  # its labels hang into an empty place and must not push the rows apart
            grid[place].xaxis.set_in_layout(False)
    return figure, grid[:count]


def title(axes: Axes, name: str, width: Width, columns: int) -> None:
    """Name a panel, as far as there is room."""
    axes.set_title(shortened(name, 0.85 * INCHES[width] / columns), size=SMALL)


def name_axes(figure: Figure, grid: Sequence[Axes], x: str, y: str = "") -> None:
    """Name the axes that all panels share, once."""
    if len(grid) == 1:
        grid[0].set_xlabel(x)
        grid[0].set_ylabel(y)
        return
    figure.supxlabel(x, size="medium")
    if y:
        figure.supylabel(y, size="medium")


def legend_above(figure: Figure, handles: Sequence[Any], width: Width) -> None:
    """Lay a legend out above all panels, in as many columns as there is room for."""
    widest = max(text_width(handle.get_label()) for handle in handles) + 0.35
    columns = max(1, min(len(handles), int((INCHES[width] - 0.1) / widest)))
    figure.legend(handles=handles, loc="outside upper center", ncols=columns)


def series_handles(names: Sequence[str]) -> list[Any]:
    """Marks of a legend, one for each series."""
    from matplotlib.lines import Line2D

    looks = zip(names, cycle(SERIES), cycle(MARKERS), strict=False)
    return [Line2D([], [], color=c, marker=m, markersize=3.4, ls="", label=name) for name, c, m in looks]


def name_rows(axes: Axes, names: Sequence[str], width: Width) -> None:
    """Lay rows out from top to bottom, row 0 first, with a pale band behind every other one."""
    axes.set_yticks(range(len(names)), [shortened(name, _LONGEST[width]) for name in names])
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    for row in range(1, len(names), 2):
        axes.axhspan(row - 0.5, row + 0.5, color=BAND, linewidth=0, zorder=0)


def forest(
    axes: Axes,
    rows: Sequence[Sequence[Number]],
    *,
    pale: Sequence[tuple[float, float]] = (),
    chance: Sequence[float] = (),
    missing: str = "no score",
) -> None:
    """Values with their intervals, row by row; the numbers of one row are series below each other.

    Args:
        axes: the panel; `name_rows` lays its rows out.
        rows: numbers [row][series].
        pale: by row, the ends of a broad pale bar behind the mark.
        chance: by row, the place of a short upright line: what no bias at all would show.
        missing: written where a row has no number at all.
    """
    for y, row in enumerate(rows):
        for i, number in enumerate(row):
            at = y + (i - (len(row) - 1) / 2) * min(0.8 / len(row), 0.25)
            line: dict[str, Any] = {"color": SERIES[i % len(SERIES)], "clip_on": False}
            if not math.isnan(number.low):
                axes.plot([number.low, number.high], [at, at], lw=0.9, solid_capstyle="butt", zorder=2, **line)
            mark: dict[str, Any] = {"marker": MARKERS[i % len(MARKERS)], "ms": 3.4, "mec": "white", "mew": 0.3}
            axes.plot([number.value], [at], ls="none", zorder=3, **mark, **line)
        if not any(number.there for number in row):
            axes.text(0.01, y, missing, transform=axes.get_yaxis_transform(), size=SMALL, va="center", color=GREY)
    for y, (low, high) in enumerate(pale):
        axes.plot([low, high], [y, y], color=BLUE, alpha=0.25, lw=4, solid_capstyle="butt", zorder=1.5)
    for y, at in enumerate(chance):
        axes.plot([at, at], [y - 0.34, y + 0.34], color=SERIES[1], lw=1.3, zorder=2.5)


def cut_to(axes: Axes, values: Sequence[float], *, keep: Sequence[float] = ()) -> None:
    """Limit the horizontal axis to the data and the places that must stay, with a little air."""
    known = [v for v in (*values, *keep) if not math.isnan(v)]
    low, high = (min(known), max(known)) if known else (0.0, 1.0)
    air = 0.04 * (high - low) or 0.05
    axes.set_xlim(low - air, high + air)


def percent(axes: Axes, axis: str = "x") -> None:
    """Print the shares of an axis in per cent."""
    from matplotlib.ticker import FuncFormatter

    getattr(axes, f"{axis}axis").set_major_formatter(
        FuncFormatter(lambda value, _: f"{100 * value:.3g}".replace("-", "\N{MINUS SIGN}"))
    )


def heat(
    axes: Axes,
    values: np.ndarray,
    *,
    rows: Sequence[str],
    columns: Sequence[str],
    colours: Any,
    limits: tuple[float, float],
    words: Callable[[float], str],
    upright: bool = False,
) -> None:
    """Coloured cells with their numbers; a dash on pale grey where there is none.

    Args:
        axes: the panel.
        values: [row, column].
        rows, columns: their names.
        colours: a colour map.
        limits: values of its ends.
        words: text of a value.
        upright: names of the columns stand upright.
    """
    shown = np.ma.masked_invalid(values)
    colours = colours.with_extremes(bad=PALE)
    axes.imshow(shown, cmap=colours, vmin=limits[0], vmax=limits[1], aspect="auto", interpolation="nearest")
    axes.set_xticks(range(len(columns)), columns, rotation=90 if upright else 0)
    axes.set_yticks(range(len(rows)), rows)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    span = (limits[1] - limits[0]) or 1
    for (row, column), value in np.ndenumerate(values):
        none = math.isnan(value)
        background = PALE if none else colours((value - limits[0]) / span)
        text, colour = MISSING if none else words(value), text_colour(background)
        axes.text(column, row, text, ha="center", va="center", size=SMALL, color=colour)


def map_of(low: str, high: str) -> Any:
    """A colour map from one colour over white to another, or from white to one."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("own", [low, "#FFFFFF", high] if low != "#FFFFFF" else [low, high])


def as_data(rows: Mapping[Any, Number], columns: Sequence[str]) -> pd.DataFrame:
    """The numbers of a figure as a table, for the file beside it."""
    return pd.DataFrame([(*key, *number) for key, number in rows.items()], columns=[*columns, *Number._fields])
