"""One look for every figure: sizes, fonts, colours, captions, and files that are equal to the byte each time.

A figure belongs to no window and no global state: it is drawn on a `matplotlib.figure.Figure` inside `paper()`,
laid out once, and printed by its canvas, so that nothing of the user's own settings and no date reaches the file.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import pandas as pd

from detector_bench_next.attributes import Attribute
from detector_bench_next.errors import require
from detector_bench_next.files import replacing
from detector_bench_next.tables import renamed

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Width = Literal["single", "double"]
Format = Literal["pdf", "png", "svg"]
WIDTHS: tuple[Width, ...] = get_args(Width)
FORMATS: tuple[Format, ...] = get_args(Format)
INCHES: dict[Width, float] = {"single": 3.3, "double": 7.0}
"""Width of a column, and of a page of two columns."""
MAX_HEIGHT = 9.2
"""Height of a full page, in inches."""
TEXT, SMALL = 7.0, 6.0
"""Points; nothing is printed smaller than `SMALL`."""

# Okabe and Ito's colours, told apart with any common colour vision.
BLACK, ORANGE, SKY, GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"
BLUE, VERMILLION, PURPLE = "#0072B2", "#D55E00", "#CC79A7"
PALE, BAND, GREY = "#E8E8E8", "#F4F4F4", "#606060"
SERIES = (BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY, BLACK)
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
HATCHES = ("", "////", "....", "xxxx", "\\\\\\\\")
MISSING, MINUS = "\N{EN DASH}", "\N{MINUS SIGN}"

_STYLE = Path(__file__).with_name("paper.mplstyle")
_METADATA: dict[str, dict[str, None]] = {  # the time of writing and the library's version are no part of a figure
    "pdf": {"CreationDate": None, "Producer": None, "Creator": None},
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": None},
}


class Drawn(NamedTuple):
    """A figure, the paragraph that belongs below it, and the numbers that it shows."""

    figure: Figure
    caption: str
    data: pd.DataFrame


@contextmanager
def paper() -> Iterator[None]:
    """Draw with the settings of this page, whatever the user's own are.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    matplotlib = require("matplotlib", "figures")
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(matplotlib.rc_params_from_file(_STYLE, use_default_template=False))
        yield


def new_figure(width: Width, height: float, *, filled: float | None = None) -> Figure:
    """An empty figure of a width, cut to the height of a page.

    Args:
        width: a column, or a page of two columns.
        height: in inches.
        filled: inches that there is something to draw in: what is small does not float in an empty column.
    """
    from matplotlib.figure import Figure

    return Figure(figsize=(min(INCHES[width], filled or INCHES[width]), min(height, MAX_HEIGHT)))


@cache
def text_width(text: str, size: float = SMALL) -> float:
    """Width of a line of text, in inches."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextToPath

    if not text:
        return 0.0
    font = FontProperties(family="DejaVu Sans", size=size)
    return float(TextToPath().get_text_width_height_descent(text, font, ismath=False)[0]) / 72


def shortened(name: str, inches: float, size: float = SMALL) -> str:
    """Take letters out of the middle of a name until it fits: its beginning and end tell names apart best."""
    if text_width(name, size) <= inches:
        return name
    for kept in range(len(name) - 1, 2, -1):
        tail = kept // 2
        text = f"{name[: kept - tail]}\N{HORIZONTAL ELLIPSIS}{name[len(name) - tail :]}"
        if text_width(text, size) <= inches:
            return text
    return name[:1] + "\N{HORIZONTAL ELLIPSIS}"


def signed(value: float, decimals: int) -> str:
    """A number with a true minus sign; a dash where there is none."""
    if math.isnan(value):
        return MISSING
    text = f"{value:.{decimals}f}"
    return text.removeprefix("-") if float(text) == 0 else text.replace("-", MINUS)


def text_colour(background: Any) -> str:
    """Black or white, whichever is easier to read on a colour."""
    from matplotlib.colors import to_rgb

    light = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(background)]
    return "white" if 0.2126 * light[0] + 0.7152 * light[1] + 0.0722 * light[2] < 0.25 else "black"


def say_instead(axes: Axes, text: str) -> None:
    """Write into an empty panel why it is empty."""
    axes.text(0.5, 0.5, text, transform=axes.transAxes, ha="center", va="center", color=GREY, size=SMALL)


def counted(count: float, thing: str) -> str:
    """A count with its noun: `1 image`, `6,000 images`."""
    return f"{count:,.0f} {thing}" if count == 1 else f"{count:,.0f} {thing}s"


def caption(attribute: Attribute, *sentences: str, notes: Iterable[tuple[str, str]] = ()) -> str:
    """One paragraph: the sentences that are not empty, notes, and what the numbers are not.

    Args:
        attribute: the perceived one.
        sentences: what is shown, n and intervals.
        notes: pairs of a name and what has to be said about it; equal notes are said once, with all names.
    """
    names_of: dict[str, list[str]] = {}
    for name, note in notes:
        names_of.setdefault(note, []).append(name)
    said = [f"{', '.join(dict.fromkeys(names))}: {note}." for note, names in names_of.items()]
    care = f"Perceived {attribute.words}, as seen in synthetic images; not an identity. {attribute.care}".strip()
    return " ".join([*filter(None, sentences), *said, care]) + "\n"


def with_display_names(drawn: Drawn, names: Mapping[str, str]) -> Drawn:
    """The same figure with other names of detectors and T2I models, before it is laid out."""
    if not names:
        return drawn
    from matplotlib.text import Text
    from matplotlib.ticker import FixedFormatter

    for text in drawn.figure.findobj(Text):
        text.set_text(renamed(text.get_text(), names))
    for axes in drawn.figure.axes:
        for axis in (axes.xaxis, axes.yaxis):  # the words of an axis are asked for anew whenever it is drawn
            words = axis.get_major_formatter()
            if isinstance(words, FixedFormatter):
                axis.set_major_formatter(FixedFormatter([renamed(word, names) for word in words.seq]))
    return drawn._replace(caption=renamed(drawn.caption, names))


def save(figure: Figure, path: Path) -> None:
    """Write a figure in the format of the path's suffix; equal figures give equal bytes."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.backends.backend_pdf import FigureCanvasPdf
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    kind, dpi = path.suffix.removeprefix("."), figure.dpi
    canvas = {"pdf": FigureCanvasPdf, "png": FigureCanvasAgg, "svg": FigureCanvasSVG}[kind](figure)
    with paper(), replacing(path) as place:
        try:  # the canvas itself: `savefig` would lay out anew what is laid out already
            getattr(canvas, f"print_{kind}")(place, metadata=_METADATA[kind])
        finally:
            figure.dpi = dpi  # PDF and SVG leave their own
