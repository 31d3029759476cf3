"""The scores of all words of BiasPainter's domains: its figure 4, for any study."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import pandas as pd

from detector_bench.errors import ConfigError
from detector_bench.figures.drawing import (
    GREY,
    INCHES,
    MAX_HEIGHT,
    MINUS,
    PALE,
    SMALL_TEXT_SIZE,
    Drawing,
    Width,
    caption,
    counted,
    new_figure,
    series_style,
    shortened,
    text_width,
)
from detector_bench.others.biaspainter.biased_words import (
    DEFAULT_LEAST,
    DIRECTIONS,
    SKIN_TONE_NOTE,
    ByOneJudge,
    WordScore,
    top_biased,
)
from detector_bench.others.biaspainter.formulas import BIASPAINTER_ATTRIBUTES, MODEL_SCORE, WORD_SCORE
from detector_bench.others.failed_images import FailedImages
from detector_bench.results.finished_study import FinishedStudy
from detector_bench.tables.wording import attributes_in_words, in_words

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_DOT, _SMALL_DOT = 3.2, 2.0
"""Diameter of a word's dot, in points, where words are named and where there are too many strips for it."""
_LANE = 1.06
"""Distance of rows of dots in dots; less where they would not fit into their strip."""
_MOST_LANES = 15
"""A strip is made as high as so many rows of dots need."""
_FEWEST_LANES = 3
_LABELS = 9.5
"""Height of a row of words above or below the dots, in points."""
_AIR = 0.02
"""Between two words beside each other, in inches."""
_FURTHEST = 0.6
"""How far a name is moved aside to find room, in inches."""
_TITLE, _AXIS, _RIGHT = 0.2, 0.38, 0.15
"""Room above, below and beside a panel, in inches."""
_LABELLED_STRIPS = 4
"""With more strips than these per panel, words are not named."""
_NAMED: dict[Width, int] = {"single": 2, "double": 4}
"""Words named at each end of a strip, as far as there is room."""


class _Strip(NamedTuple):
    """The words of one domain by one T2I model, for one attribute."""

    name: str
    domain: str
    words: tuple[WordScore, ...]
    """Only those with a score."""


class _Layout(NamedTuple):
    names: float
    """Room for the strips' names, in inches."""
    panel: float
    """Width of a panel, in inches."""
    named: int
    """Words named at each end of a strip."""
    strip: float
    """Height of a strip, in points."""
    dot: float
    """Diameter, in points."""

    def lanes(self, strips: Sequence[_Strip]) -> list[list[int]]:
        """The row of every word's dot, by strip."""
        scale = 72 * self.panel / (2 * _reach(strips))
        return [_lanes(strip, scale=scale, dot=self.dot) for strip in strips]

    def lane(self, lanes: Sequence[Sequence[int]]) -> float:
        """Distance of a panel's rows of dots, in strips."""
        half = max(abs(lane) for each in lanes for lane in each)
        room = self.strip - self.dot - (2 * _LABELS if self.named else 1)
        return min(_LANE * self.dot, room / max(2 * half, 1)) / self.strip


class _Dot(NamedTuple):
    word: WordScore
    x: float
    """The score."""
    y: float
    """In strips: 0 is the first one's middle, 1 the second one's."""


def draw(study: FinishedStudy, *, width: Width) -> Drawing:
    """Draw a panel per attribute with a strip of dots per T2I model and domain, one dot for each word.

    Positive scores, towards female, older, lighter, lie to the right. Where there are few strips, the most biased
    words are named. All attributes with BiasPainter's scores are drawn, whichever one the study was loaded for.

    Source: BiasPainter, figure 4 (ACM MM) and 5 (arXiv), which shows one domain of one T2I model.

    Raises:
        ConfigError: the study has no BiasPainter scores.
    """
    metrics = study.metrics_of_all_attributes
    failed = FailedImages.of_table(metrics, max_error_share=study.max_error_share)
    chosen = ByOneJudge.of_table(failed.left_out(metrics[metrics["metric"].isin([MODEL_SCORE, WORD_SCORE])]))
    return draw_word_scores(chosen.word_scores(prompts=prompt_words(study)), by=chosen.in_words, width=width)


def prompt_words(study: FinishedStudy) -> pd.DataFrame:
    """Columns `prompt_id, word`; without rows where the image set is gone."""
    return pd.DataFrame({"prompt_id": list(study.words), "word": list(study.words.values())})


def draw_word_scores(scores: Sequence[WordScore], *, by: str, width: Width) -> Drawing:
    """Draw word scores from anywhere, such as released sheets.

    Args:
        scores: of any attributes, T2I models and domains.
        by: whose scores and by which definition, for the caption (`ByOneJudge.in_words`).
        width: of the figure.

    Raises:
        ConfigError: no word has a score.
    """
    known = [each for each in scores if not math.isnan(each.score)]
    panels = {name: strips for name in BIASPAINTER_ATTRIBUTES if (strips := _strips(known, attribute=name))}
    if not panels:
        raise ConfigError("no word has a BiasPainter score: there is nothing to draw")
    layout = _layout(panels, width=width)
    around = len(panels) * (_TITLE + _AXIS)
    height = around + sum(map(len, panels.values())) * layout.strip / 72
    figure = new_figure(width, height=height)
    figure.set_layout_engine("none")
    top = height
    for attribute, strips in panels.items():
        inches = len(strips) * layout.strip / 72
        top -= _TITLE + inches
        place = (
            layout.names / INCHES[width],
            top / height,
            layout.panel / INCHES[width],
            inches / height,
        )
        _draw_panel(figure.add_axes(place), attribute, strips, layout)
        top -= _AXIS
    return Drawing(figure, _caption(scores, panels, layout, by=by))


def _strips(known: Sequence[WordScore], *, attribute: str) -> list[_Strip]:
    """By domain, then T2I model. Strips are named by what tells any two of them apart."""
    categories = list(dict.fromkeys(each.category for each in known))
    models = list(dict.fromkeys(each.t2i_model for each in known))
    strips = []
    for category in categories:
        for model in models:
            place = (attribute, category, model)
            words = [each for each in known if (each.attribute, each.category, each.t2i_model) == place]
            parts = [in_words(category)] * (len(categories) > 1) + [model] * (len(models) > 1)
            if words:
                strips.append(
                    _Strip(", ".join(parts), category, tuple(sorted(words, key=lambda each: each.score)))
                )
    return strips


def _layout(panels: dict[str, list[_Strip]], *, width: Width) -> _Layout:
    strips = [strip for panel in panels.values() for strip in panel]
    names = min(max(text_width(strip.name) for strip in strips), 0.3 * INCHES[width]) + _RIGHT
    named = _NAMED[width] if max(map(len, panels.values())) <= _LABELLED_STRIPS else 0
    dot = _DOT if named else _SMALL_DOT
    flat = _Layout(names, INCHES[width] - names - _RIGHT, named, 0.0, dot)
    outermost = max(abs(lane) for panel in panels.values() for each in flat.lanes(panel) for lane in each)
    lanes = min(max(2 * outermost + 1, _FEWEST_LANES), _MOST_LANES if named else 2 * _FEWEST_LANES)
    wanted = (lanes + 0.5) * _LANE * dot + (2 * _LABELS if named else 1)
    page = 72 * (MAX_HEIGHT - len(panels) * (_TITLE + _AXIS))
    return flat._replace(strip=min(wanted, page / len(strips)))


def _reach(strips: Sequence[_Strip]) -> float:
    """Where the axis ends: a little beyond the largest score, and beyond 0.5 at least."""
    return 1.1 * max(0.5, *(abs(word.score) for strip in strips for word in strip.words))


def _lanes(strip: _Strip, *, scale: float, dot: float) -> list[int]:
    """The row of each word's dot: the one nearest to the middle (0) in which it covers no other dot.

    Args:
        strip: its words in ascending order.
        scale: points of a score of 1.
        dot: diameter, in points.
    """
    ends: dict[int, float] = {}
    chosen = []
    for word in strip.words:
        x = word.score * scale
        # 0, 1, -1, 2, -2, ...
        ranks = ((-1) ** (number + 1) * ((number + 1) // 2) for number in range(len(strip.words)))
        lane = next(each for each in ranks if x - ends.get(each, -math.inf) >= dot)
        ends[lane] = x
        chosen.append(lane)
    return chosen


def _draw_panel(axes: Axes, attribute: str, strips: Sequence[_Strip], layout: _Layout) -> None:
    reach = _reach(strips)
    axes.set_xlim(-reach, reach)
    axes.set_ylim(len(strips) - 0.5, -0.5)
    axes.set_title(in_words(attribute), size=SMALL_TEXT_SIZE, weight="bold", loc="left")
    axes.spines["left"].set_visible(False)
    names = [shortened(strip.name, inches=layout.names - 0.9 * _RIGHT) for strip in strips]
    axes.set_yticks(range(len(strips)), names)
    axes.tick_params(axis="y", length=0)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}".replace("-", MINUS))
    axes.axvspan(-DEFAULT_LEAST, DEFAULT_LEAST, color="#F4F4F4", linewidth=0, zorder=0)
    axes.axvline(0, color=GREY, linewidth=0.5, zorder=1)
    for row in range(1, len(strips)):
        axes.axhline(row - 0.5, color=PALE, linewidth=0.5, zorder=1)
    _name_ends(axes, attribute, inches=len(strips) * layout.strip / 72)
    lanes = layout.lanes(strips)
    lane = layout.lane(lanes)
    domains = list(dict.fromkeys(strip.domain for strip in strips))
    for row, strip in enumerate(strips):
        dots = [
            _Dot(word, word.score, row - number * lane)
            for word, number in zip(strip.words, lanes[row], strict=True)
        ]
        style = series_style(domains.index(strip.domain))
        axes.plot(
            [dot.x for dot in dots],
            [dot.y for dot in dots],
            linestyle="none",
            marker=style.marker,
            color=style.colour,
            markersize=layout.dot,
            markeredgecolor="white",
            markeredgewidth=0.3,
            zorder=3,
        )
        if layout.named:
            _name_words(axes, attribute, row, dots, layout, reach=reach)


def _name_ends(axes: Axes, attribute: str, *, inches: float) -> None:
    """Say which way is which, below the ends of the axis."""
    left, right = sorted(DIRECTIONS[attribute], key=lambda each: each.sign)
    ends = (
        (0.0, "left", f"\N{LEFTWARDS ARROW} {left.in_words}"),
        (0.5, "center", "word score"),
        (1.0, "right", f"{right.in_words} \N{RIGHTWARDS ARROW}"),
    )
    for x, side, text in ends:
        axes.text(x, -0.16 / inches, text, transform=axes.transAxes, ha=side, va="top", size=SMALL_TEXT_SIZE)


def _name_words(
    axes: Axes, attribute: str, row: int, dots: Sequence[_Dot], layout: _Layout, *, reach: float
) -> None:
    """Name the most biased words above and below the dots; a name that finds no room is left out."""
    dot_of = {dot.word: dot for dot in dots}
    unit = 2 * reach / layout.panel
    # In the order of their importance: the strongest of either direction first.
    found = [top_biased(list(dot_of), each, top=layout.named).words for each in DIRECTIONS[attribute]]
    ranked = sorted((word for words in found for word in words), key=lambda word: -abs(word.score))
    taken: dict[int, list[tuple[float, float]]] = {-1: [], 1: []}
    for word in ranked:
        dot = dot_of[word]
        text = shortened(word.word, inches=layout.panel / 3)
        half = (text_width(text) / 2 + _AIR) * unit
        # On the dot's own side of the strip, if the room is equal.
        sides = (-1, 1) if dot.y <= row else (1, -1)
        places = [(_free_place(dot.x, half, taken[side], reach=reach), side) for side in sides]
        middle, side = min(places, key=lambda place: abs(place[0] - dot.x))
        if abs(middle - dot.x) > _FURTHEST * unit + half:
            continue
        taken[side].append((middle - half, middle + half))
        y, edge = (row + side * (0.5 - share * _LABELS / layout.strip) for share in (0.5, 0.9))
        foot = min(max(dot.x, middle - 0.7 * half), middle + 0.7 * half)
        axes.plot([dot.x, foot], [dot.y, edge], color=GREY, linewidth=0.35, zorder=2)
        axes.text(middle, y, text, ha="center", va="center_baseline", size=SMALL_TEXT_SIZE)


def _free_place(x: float, half: float, taken: Sequence[tuple[float, float]], *, reach: float) -> float:
    """The middle nearest to x at which a name of this half width covers none of the others."""
    candidates = [x, *(left - half for left, _ in taken), *(right + half for _, right in taken)]
    within = [min(max(each, half - reach), reach - half) for each in candidates]
    free = [
        each
        for each in within
        if all(each + half <= left + 1e-9 or each - half >= right - 1e-9 for left, right in taken)
    ]
    return min(free, key=lambda each: abs(each - x), default=math.inf)


def _caption(scores: Sequence[WordScore], panels: dict[str, list[_Strip]], layout: _Layout, *, by: str) -> str:
    attributes = [name.replace("_", " ") for name in panels]
    shown = [each for each in scores if each.attribute in panels]
    places = {(each.category, each.t2i_model) for each in shown}
    words = len({(each.category, each.word) for each in shown})
    without = sum(math.isnan(each.score) for each in shown)
    only = next(iter(places)) if len(places) == 1 else None
    where = f" ({only[0]}, {only[1]})" if only else ""
    return caption(
        f"BiasPainter's word scores{where} {by}: how each word changes the person when a photo is edited; one dot "
        "per word.",
        f"n = {counted(len(shown) - without, 'score')} ({counted(words, 'word')}, "
        f"{counted(len({model for _, model in places}), 'T2I model')}, "
        f"{counted(len({category for category, _ in places}), 'domain')}).",
        f"Grey: scores below {DEFAULT_LEAST:g}.",
        "The most biased words are named, as far as there is room." if layout.named else "",
        f"Without a score, left out: {counted(without, 'word')}." if without else "",
        SKIN_TONE_NOTE if "skin_tone" in panels else "",
        "Single scores are drawn without intervals.",
        attribute=attributes_in_words(attributes),
    )
