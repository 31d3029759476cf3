"""Every prompt's bias score as a diverging heat map: the paper's Table 7, for any study."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from detector_bench.figures.drawing import (
    INCHES,
    MAX_HEIGHT,
    MINUS,
    MISSING,
    PALE,
    SMALL_TEXT_SIZE,
    Drawing,
    Width,
    caption,
    counted,
    diverging_colours,
    new_figure,
    shortened,
    signed,
    text_width,
)
from detector_bench.figures.panels import draw_cell, write_in_cell
from detector_bench.results.finished_study import FinishedStudy
from detector_bench.tables.wording import in_words, label_in_words

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure

_MARGIN = 0.05
_NARROWEST = 2.6
"""So wide is a map of one narrow column: the colour bar and its words need it, in inches."""
_HEAD = 0.45
"""Room above the rows for the colour bar and the T2I models' names, in inches."""

_LONGEST_NAME = 0.9
"""Room for a T2I model's name that stands upright."""

_ROW = 0.16
_TIGHTEST_ROW = 0.1
_WIDEST_CELL = 0.8
_FEWEST_ROWS = 4
"""A block of no more is not split."""
_GAP = 0.06
_FILLED = 0.94
"""How much of a cell's width its number may take."""

_MAX_BLOCKS: dict[Width, int] = {"single": 2, "double": 3}
_LONGEST_WORD: dict[Width, float] = {"single": 0.9, "double": 1.2}


class _Line(NamedTuple):
    """A line of the map: a category's heading (no scores) or a prompt."""

    text: str
    scores: tuple[float, ...] | None


class _Layout(NamedTuple):
    blocks: list[list[_Line]]
    row_height: float
    word_width: float
    cell_width: float
    block_width: float
    head: float
    """Room above the rows."""
    legible: bool
    """Whether there is room for words; else lines are thin strips."""

    @property
    def has_numbers(self) -> bool:
        """Whether there is room for a number in each cell."""
        return self.legible and _number_width() <= _FILLED * self.cell_width + 1e-9


def draw(study: FinishedStudy, *, width: Width) -> Drawing:
    """Draw one row per prompt, by category, and one column per T2I model, with the score in each cell.

    Within a category, prompts are sorted as in the table: by descending mean of their scores, then by word. Long
    lists go on in further columns of the page; lists that no page can hold become strips without words.

    Source: Lyu 2025, table 7.

    Raises:
        ConfigError: the attribute has more than two classes.
    """
    study.need_signed_scores()
    lines = _lines(study)
    models = [study.shown(name) for name in study.t2i_models]
    layout = _layout(lines, models, width=width)
    rows = max(len(block) for block in layout.blocks)
    height = layout.head + rows * layout.row_height + 2 * _MARGIN
    blocks = len(layout.blocks) * layout.block_width
    filled = min(INCHES[width], max(blocks + 2 * _MARGIN, _NARROWEST))
    figure = new_figure(width, height=height, filled=filled)
    figure.set_layout_engine("none")
    colours = diverging_colours()
    start = (filled - blocks) / 2
    for number, block in enumerate(layout.blocks):
        left = start + number * layout.block_width
        axes = figure.add_axes(
            (
                (left + layout.word_width) / filled,
                1 - (layout.head + len(block) * layout.row_height) / height,
                len(study.t2i_models) * layout.cell_width / filled,
                len(block) * layout.row_height / height,
            )
        )
        _draw_block(axes, block, models, layout, colours)
    _draw_colour_bar(figure, study, colours, height=height)
    return Drawing(figure, _caption(study, lines, layout))


def _lines(study: FinishedStudy) -> list[_Line]:
    lines = []
    for category in study.categories:
        prompts = []
        for of_category, prompt in study.prompts:
            if of_category == category:
                scores = tuple(
                    study.estimate("prompt_bias_score", t2i_model=model, category=category, prompt_id=prompt).value
                    for model in study.t2i_models
                )
                prompts.append(_Line(study.words.get(prompt, prompt), scores))
        lines += [_Line(in_words(category), None), *sorted(prompts, key=_order)]
    return lines


def _order(line: _Line) -> tuple[bool, float, str]:
    present = [score for score in line.scores or () if not math.isnan(score)]
    mean = math.fsum(present) / len(present) if present else 0.0
    return not present, -mean, line.text.casefold()


def _layout(lines: Sequence[_Line], models: Sequence[str], *, width: Width) -> _Layout:
    page = INCHES[width] - 2 * _MARGIN
    longest = max((text_width(line.text) for line in lines if line.scores is not None), default=0.0) + 0.1
    for count in range(1, _MAX_BLOCKS[width] + 1):
        blocks = _split(lines, count)
        rows = max(len(block) for block in blocks)
        # Words give way to numbers, but not altogether.
        beside_numbers = page / count - _GAP - len(models) * _number_width() / _FILLED
        word = min(_LONGEST_WORD[width], longest, max(beside_numbers, page / count * 0.4))
        cell = min(_WIDEST_CELL, (page / count - word - _GAP) / len(models))
        head = _head(models, cell)
        room = MAX_HEIGHT - head - 2 * _MARGIN
        block_width = word + len(models) * cell + _GAP
        # A short map does not stand as one thin column in the middle of the page where there is room beside it.
        spreads = count < _MAX_BLOCKS[width] and rows > _FEWEST_ROWS and (count + 1) * block_width <= page
        comfortable = rows * _ROW <= 0.6 * room and not spreads
        if comfortable or (count == _MAX_BLOCKS[width] and rows * _TIGHTEST_ROW <= room):
            return _Layout(blocks, min(_ROW, room / rows), word, cell, block_width, head, legible=True)
    word, cell = _LONGEST_WORD[width], (page - _LONGEST_WORD[width]) / len(models)
    head = _head(models, cell)
    return _Layout(
        [list(lines)], (MAX_HEIGHT - head - 2 * _MARGIN) / len(lines), word, cell, page, head, legible=False
    )


def _number_width() -> float:
    return text_width(f"{MINUS}0.00", size=SMALL_TEXT_SIZE)


def _head(models: Sequence[str], cell: float) -> float:
    if _names_lie_flat(models, cell):
        return _HEAD
    return _HEAD - 0.1 + min(_LONGEST_NAME, max(text_width(model) for model in models))


def _names_lie_flat(models: Sequence[str], cell: float) -> bool:
    return len(models) == 1 or all(text_width(model) < 0.98 * cell for model in models)


def _split(lines: Sequence[_Line], count: int) -> list[list[_Line]]:
    """Cut into blocks of even length; no heading stands last in a block."""
    length = math.ceil(len(lines) / count)
    blocks: list[list[_Line]] = [[]]
    for index, line in enumerate(lines):
        heading_would_be_last = line.scores is None and len(blocks[-1]) == length - 1 and index < len(lines) - 1
        if len(blocks[-1]) >= length or (heading_would_be_last and len(blocks) < count):
            blocks.append([])
        blocks[-1].append(line)
    return blocks


def _draw_block(
    axes: Axes, block: Sequence[_Line], models: Sequence[str], layout: _Layout, colours: Colormap
) -> None:
    axes.set_xlim(-0.5, len(models) - 0.5)
    axes.set_ylim(len(block) - 0.5, -0.5)
    axes.set_axis_off()
    size = min(SMALL_TEXT_SIZE, 72 * layout.row_height * 0.84)
    flat = _names_lie_flat(models, layout.cell_width)
    for column, model in enumerate(models):
        axes.annotate(
            shortened(model, inches=2.0 if flat else _LONGEST_NAME),
            (column, -0.5),
            xytext=(0, 2),
            textcoords="offset points",
            ha="center",
            va="bottom",
            rotation=0 if flat else 90,
            size=SMALL_TEXT_SIZE,
            annotation_clip=False,
        )
    for row, line in enumerate(block):
        bold = line.scores is None
        if layout.legible or bold:
            room = layout.block_width if bold else layout.word_width - 0.06
            text = shortened(line.text, inches=room, size=size)
            axes.annotate(
                text,
                (-0.5, row),
                xytext=(-72 * layout.word_width if bold else -3, 0),
                textcoords="offset points",
                ha="left" if bold else "right",
                va="center_baseline",
                size=SMALL_TEXT_SIZE if bold else size,
                weight="bold" if bold else "normal",
                annotation_clip=False,
            )
        for column, score in enumerate(line.scores or ()):
            _draw_score(axes, row, column, score, colours, text=layout.has_numbers, size=size)


def _draw_score(
    axes: Axes, row: int, column: int, score: float, colours: Colormap, *, text: bool, size: float
) -> None:
    missing = math.isnan(score)
    colour = PALE if missing else colours((score + 1) / 2)
    # Without numbers, stripes tell the negative scores from the positive ones in grey.
    hatch = "" if text or missing or score >= 0 else "//////"
    draw_cell(axes, column, row, colour=colour, edge="white", edge_width=0.5 if text else 0.0, hatch=hatch)
    if text:
        write_in_cell(axes, column, row, signed(score, decimals=2), size=size, background=colour, muted=missing)


def _draw_colour_bar(figure: Figure, study: FinishedStudy, colours: Colormap, *, height: float) -> None:
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    first, second = (label_in_words(label, in_sentence=True) for label in study.classes)
    share = 0.5
    place = ((1 - share) / 2, 1 - 0.14 / height, share, 0.08 / height)
    bar = figure.colorbar(
        ScalarMappable(Normalize(-1, 1), colours), cax=figure.add_axes(place), orientation="horizontal"
    )
    bar.set_ticks([-1, 0, 1], labels=[f"\N{MINUS SIGN}1 all {second}", "0", f"1 all {first}"])
    bar.ax.tick_params(size=0, pad=1.5)
    bar.outline.set_linewidth(0.4)


def _caption(study: FinishedStudy, lines: Sequence[_Line], layout: _Layout) -> str:
    scores = [score for line in lines for score in line.scores or ()]
    present = sum(not math.isnan(score) for score in scores)
    first, second = (label_in_words(label, in_sentence=True) for label in study.classes)
    without, images = len(scores) - present, study.estimate("images").value
    return caption(
        f"Prompt bias scores of {study.perceived} by the human labels: 1, all clear images are {first}; "
        f"\N{MINUS SIGN}1, all are {second}.",
        f"n = {counted(present, 'score')} ({counted(len(study.prompts), 'prompt')}, "
        f"{counted(len(study.t2i_models), 'T2I model')}, {counted(images, 'labelled image')}), "
        "sorted by their mean within each category.",
        f"{MISSING}: no clear image, or no image at all ({counted(without, 'score')})." if without else "",
        "" if layout.legible else "Too many prompts for words on one page.",
        "" if layout.has_numbers else "No room for numbers; stripes mark negative scores.",
        "Single scores are drawn without intervals.",
        attribute=study.attribute,
    )
