"""A finished figure with its caption, and one look for every figure: sizes, fonts, colours, markers, hatches.

Files are equal each time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, get_args

from detector_bench.atomic_files import replacing
from detector_bench.installation import require
from detector_bench.metrics.bootstrap import Unit
from detector_bench.results.finished_study import FinishedStudy
from detector_bench.results.metric_lookup import Number
from detector_bench.tables.table import ethics_note, with_names

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure

Width: TypeAlias = Literal["single", "double"]
Format: TypeAlias = Literal["pdf", "png", "svg"]

WIDTHS: tuple[Width, ...] = get_args(Width)
FORMATS: tuple[Format, ...] = get_args(Format)
INCHES: dict[Width, float] = {"single": 3.3, "double": 7.0}
"""Width of a figure: a column, or a page of two columns."""

MAX_HEIGHT = 9.2
"""Height of a full page, in inches."""

TEXT_SIZE = 7.0
SMALL_TEXT_SIZE = 6.0
"""Points. Nothing is printed smaller."""

# Okabe and Ito's colours, told apart with any common colour vision.
BLACK = "#000000"
ORANGE = "#E69F00"
SKY = "#56B4E9"
GREEN = "#009E73"
BLUE = "#0072B2"
VERMILLION = "#D55E00"
PURPLE = "#CC79A7"
GREY = "#8C8C8C"
PALE = "#E8E8E8"
"""Places without a number, and lines behind the data."""

_SERIES_COLOURS = (BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY, BLACK)
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
_HATCHES = ("", "////", "....", "xxxx", "\\\\\\\\", "++++", "oo", "--")
_LINES: tuple[Any, ...] = (
    "-",
    (0, (4, 1.5)),
    (0, (1, 1)),
    (0, (5, 1, 1, 1)),
    (0, (2, 2)),
    (0, (6, 1, 1, 1, 1, 1)),
)

MISSING = "\N{EN DASH}"
"""Stands where there is no number."""

MINUS = "\N{MINUS SIGN}"

_SETTINGS: dict[str, Any] = {
    "font.family": "DejaVu Sans",  # comes with matplotlib, so figures are the same on every machine
    "font.size": TEXT_SIZE,
    "axes.labelsize": TEXT_SIZE,
    "axes.titlesize": TEXT_SIZE,
    "axes.titlepad": 3.0,
    "axes.labelpad": 2.5,
    "xtick.labelsize": SMALL_TEXT_SIZE,
    "ytick.labelsize": SMALL_TEXT_SIZE,
    "legend.fontsize": SMALL_TEXT_SIZE,
    "legend.frameon": False,
    "legend.handlelength": 1.6,
    "legend.handletextpad": 0.5,
    "legend.columnspacing": 1.2,
    "legend.borderpad": 0.2,
    "axes.linewidth": 0.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "grid.color": PALE,
    "grid.linewidth": 0.5,
    "xtick.major.width": 0.5,
    "ytick.major.width": 0.5,
    "xtick.major.size": 2.0,
    "ytick.major.size": 2.0,
    "xtick.major.pad": 2.0,
    "ytick.major.pad": 2.0,
    "lines.linewidth": 1.0,
    "lines.markersize": 3.5,
    "patch.linewidth": 0.5,
    "hatch.linewidth": 0.4,
    "figure.constrained_layout.use": True,
    "figure.constrained_layout.w_pad": 0.04,
    "figure.constrained_layout.h_pad": 0.03,
    "figure.dpi": 300,
    "savefig.dpi": 300,  # as above: letters get another width with other dots, and the layout knows this one
    "pdf.fonttype": 42,  # TrueType: fonts are embedded as fonts, and text can be searched
    "ps.fonttype": 42,
    "svg.hashsalt": "detector_bench",
    "svg.fonttype": "path",
    "text.parse_math": False,  # a dollar sign in a name is a dollar sign
}

# The time of writing and the library's version are no part of a figure.
_METADATA: dict[Format, dict[str, None]] = {
    "pdf": {"CreationDate": None, "Producer": None, "Creator": None},
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": None},
}


class SeriesStyle(NamedTuple):
    """How one of several series looks; colour, marker, hatch and line each tell it apart by themselves."""

    colour: str
    marker: str
    hatch: str
    line: Any


def series_style(index: int) -> SeriesStyle:
    """The look of the series with this number, 0 first; the first 56 differ in colour or marker."""
    cycle = index // len(_SERIES_COLOURS)
    return SeriesStyle(
        _SERIES_COLOURS[index % len(_SERIES_COLOURS)],
        _MARKERS[(index + cycle) % len(_MARKERS)],
        _HATCHES[(index + cycle) % len(_HATCHES)],
        _LINES[(index + cycle) % len(_LINES)],
    )


@contextmanager
def paper_style() -> Iterator[None]:
    """Draw and save with the house's settings, whatever the user's own are.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    matplotlib = require("matplotlib", extra="figures")
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_SETTINGS)
        yield


def new_figure(width: Width, *, height: float, filled: float | None = None) -> Figure:
    """An empty figure, which belongs to no window and no global state.

    Args:
        width: a column, or a page of two columns.
        height: in inches; cut to a page.
        filled: how much of the width there is something to draw in, in inches: what is small is printed small, and
            does not float in an empty column. None: all of it.
    """
    from matplotlib.figure import Figure

    return Figure(figsize=(min(INCHES[width], filled or INCHES[width]), min(height, MAX_HEIGHT)))


def diverging_colours(low: str = BLUE, high: str = VERMILLION) -> Colormap:
    """White in the middle; both ends are equally dark, so in grey the printed signs tell them apart."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("diverging", [low, "#FFFFFF", high])


def sequential_colours(high: str = BLUE) -> Colormap:
    """From white to one colour."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("sequential", ["#FFFFFF", high])


def text_colour(background: Any) -> str:
    """Black or white, whichever is easier to read on a colour, given in any form that matplotlib knows."""
    from matplotlib.colors import to_rgb

    red, green, blue = (_linear(channel) for channel in to_rgb(background))
    return "white" if 0.2126 * red + 0.7152 * green + 0.0722 * blue < 0.25 else "black"


def _linear(channel: float) -> float:
    """A colour channel of sRGB as an amount of light."""
    return channel / 12.92 if channel <= 0.04045 else ((channel + 0.055) / 1.055) ** 2.4


@cache
def text_width(text: str, *, size: float = SMALL_TEXT_SIZE) -> float:
    """How wide a line of text is when drawn, in inches."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextToPath

    if not text:
        return 0.0
    width, _, _ = TextToPath().get_text_width_height_descent(
        text, FontProperties(family=_SETTINGS["font.family"], size=size), ismath=False
    )
    return float(width) / 72


def shortened(name: str, *, inches: float, size: float = SMALL_TEXT_SIZE) -> str:
    """Take letters out of the middle of a name until it fits; its beginning and end tell names apart best."""
    if text_width(name, size=size) <= inches:
        return name
    for kept in range(len(name) - 1, 2, -1):
        tail = kept // 2
        text = f"{name[: kept - tail]}\N{HORIZONTAL ELLIPSIS}{name[len(name) - tail :]}"
        if text_width(text, size=size) <= inches:
            return text
    return name[:1] + "\N{HORIZONTAL ELLIPSIS}"


def signed(value: float, *, decimals: int) -> str:
    """A number with a true minus sign; a dash where there is none."""
    if math.isnan(value):
        return MISSING
    text = f"{value:.{decimals}f}"
    return text.removeprefix("-") if float(text) == 0 else text.replace("-", MINUS)


def frame(axes: Axes) -> None:
    """Draw all four sides, as maps and planes want it."""
    axes.spines[["top", "right"]].set_visible(True)


def say_instead(axes: Axes, text: str) -> None:
    """Write into an empty panel why it is empty."""
    axes.text(
        0.5, 0.5, text, transform=axes.transAxes, ha="center", va="center", color="#404040", size=SMALL_TEXT_SIZE
    )


def save(figure: Figure, path: Path) -> None:
    """Write a figure in the format of the path's ending; equal figures give equal bytes.

    Raises:
        DetectorBenchError: the disk is full, read-only or the like.
    """
    kind: Any = path.suffix.removeprefix(".")
    dpi = figure.dpi
    with paper_style(), replacing(path) as temporary:
        # The canvas itself: `savefig` would draw everything once more before, to lay out what is laid out already.
        try:
            _print(figure, temporary, kind)
        finally:
            figure.dpi = dpi  # PDF and SVG leave their own


def _print(figure: Figure, path: Path, kind: Format) -> None:
    if kind == "pdf":
        from matplotlib.backends.backend_pdf import FigureCanvasPdf

        FigureCanvasPdf(figure).print_pdf(path, metadata=_METADATA[kind])
    elif kind == "svg":
        from matplotlib.backends.backend_svg import FigureCanvasSVG

        FigureCanvasSVG(figure).print_svg(path, metadata=_METADATA[kind])
    else:
        from matplotlib.backends.backend_agg import FigureCanvasAgg

        FigureCanvasAgg(figure).print_png(path, metadata=_METADATA[kind])


@dataclass(frozen=True)
class Drawing:
    """A figure that is ready to be saved, and the text that belongs below it."""

    figure: Figure
    caption: str
    """One paragraph: what is shown, n, intervals, what is left out, and what the numbers are not."""


def with_display_names(drawing: Drawing, names: Mapping[str, str]) -> Drawing:
    """The drawing with other names for detectors and T2I models, before it is laid out.

    A text that is a display name already stays as it is.

    Args:
        drawing: a finished one.
        names: what to write, by plain name.
    """
    from matplotlib.text import Text
    from matplotlib.ticker import FixedFormatter, FuncFormatter

    if not names:
        return drawing
    for text in drawing.figure.findobj(Text):
        text.set_text(_named(text.get_text(), names))
    for axes in drawing.figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            # The words of an axis are asked for anew whenever it is drawn.
            words = axis.get_major_formatter()
            if isinstance(words, FuncFormatter | FixedFormatter):
                axis.set_major_formatter(partial(_named_word, words, names))
    return Drawing(drawing.figure, with_names(drawing.caption, names))


def _named_word(words: Callable[[float, int], str], names: Mapping[str, str], place: float, position: int) -> str:
    return _named(words(place, position), names)


def _named(text: str, names: Mapping[str, str]) -> str:
    return text if text in names.values() else with_names(text, names)


def caption(*sentences: str, attribute: str, notes: Iterable[tuple[str, str]] = ()) -> str:
    """Put a caption together.

    Args:
        sentences: what is shown, n and intervals; empty ones are left out.
        attribute: one of the vocabulary's, such as gender.
        notes: pairs of a name and what has to be said about it; equal notes are said once, with all names.
    """
    names_of_note: dict[str, list[str]] = {}
    for name, note in notes:
        names = names_of_note.setdefault(note, [])
        if name and name not in names:
            names.append(name)
    parts = [sentence for sentence in sentences if sentence]
    parts += [f"{', '.join(names)}: {note}." if names else f"{note}." for note, names in names_of_note.items()]
    return " ".join([*parts, ethics_note(attribute)]) + "\n"


def interval_sentence(
    study: FinishedStudy, shown: Iterable[Number], *, drawn_as: str = "Bars", of_scores: bool = False
) -> str:
    """Say what the intervals are, and on how many numbers they are missing.

    Args:
        study: whose settings say how the intervals were found.
        shown: the numbers of the figure.
        drawn_as: what stands for an interval in the figure.
        of_scores: whether the numbers are scores of other benchmarks, for which images are drawn and percentiles
            taken whatever the study says.
    """
    present = [number for number in shown if not number.missing]
    without = sum(not number.has_interval for number in present)
    if without == len(present):
        return "The metric table holds no intervals for these numbers." if present else ""
    exception = f"; {without} of {len(present)} numbers have none" if without else ""
    return f"{drawn_as}: {_interval_method(study, of_scores=of_scores)}{exception}."


def label_doubt_sentence(study: FinishedStudy) -> str:
    """Say what the pale bars are; nothing where there are none."""
    if not study.label_doubt.by_labels:
        return ""
    return (
        "Pale bars: from the lowest to the highest value by the consensus, by each annotator alone, and on the "
        "images on which all annotators agree."
    )


_METHODS = {"score": "Wilson's by the effective number of images", "percentile": "percentiles", "bca": "BCa"}


def _interval_method(study: FinishedStudy, *, of_scores: bool) -> str:
    settings = study.intervals
    if of_scores:
        settings = settings.model_copy(update={"unit": "image", "method": "percentile"})
    level, images = f"{100 * settings.level:g} % intervals of the metric table", study.lookup.images
    if resamples := settings.resamples_for(round(images)):
        return f"{level} ({_METHODS[settings.method]}, {resamples:,} resamples of {drawn(settings.unit)})"
    return f"{level} (Wilson's)"


def drawn(unit: Unit) -> str:
    """What a resample draws, in words."""
    return {"image": "images within each prompt", "prompt": "prompts within each category"}[unit]


def verdict_notes(study: FinishedStudy, detectors: Sequence[str]) -> list[tuple[str, str]]:
    """On which images detectors gave no verdict, for the caption."""
    return [
        (detector, note)
        for detector in detectors
        for note in study.lookup.no_verdict_notes(detector, study.t2i_models)
    ]


def left_out_notes(numbers: Iterable[tuple[str, Number]], *, what: str) -> list[tuple[str, str]]:
    """How much each named number leaves out; nothing about those that leave nothing out."""
    return [
        (name, f"{number.n_left_out:.0f} of {number.n + number.n_left_out:.0f} {what}")
        for name, number in numbers
        if number.n_left_out > 0
    ]


def counted(count: float, thing: str) -> str:
    """A count with its noun, in the plural where needed: `1 image`, `6,000 images`."""
    return f"{count:,.0f} {thing}" if count == 1 else f"{count:,.0f} {thing}s"
