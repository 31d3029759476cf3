"""Whom every prompt shows: shares of the classes, the reference, and what chance allows around it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from detector_bench.errors import ConfigError
from detector_bench.figures.drawing import (
    BLUE,
    INCHES,
    MAX_HEIGHT,
    PALE,
    SMALL_TEXT_SIZE,
    VERMILLION,
    Drawing,
    Width,
    caption,
    counted,
    new_figure,
    shortened,
)
from detector_bench.others.representation.names import FALSE_DISCOVERY_RATE, SHARES_FILE
from detector_bench.results.finished_study import FinishedStudy
from detector_bench.tables.wording import attribute_in_words
from detector_bench.vocabulary import GROUND_TRUTH

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_ROW = 0.135
"""Height of a prompt, in inches."""
_HEAD, _FOOT = 0.35, 0.42
_NAMES: dict[Width, float] = {"single": 0.8, "double": 1.25}
_MOST_PANELS: dict[Width, int] = {"single": 3, "double": 7}
"""Classes side by side; further ones stand below them."""
_BAND = "#BDBDBD"


def draw(study: FinishedStudy, *, width: Width) -> Drawing:
    """Draw a panel for each class with a row for each prompt and T2I model: share, reference, expected range.

    Of the study's attribute, against the stated shares where there are some, else equal ones; by the human labels
    where there are some, else by the first detector. An attribute of two classes has one panel, as the second
    one's shares are the rest. Prompts that do not fit on a page are those that differ least surely.

    Raises:
        ConfigError: the study has no representation scores of any attribute.
    """
    shares = _chosen(study)
    attribute, variant = str(shares["attribute"].iloc[0]), str(shares["variant"].iloc[0])
    judge = str(shares["detector"].iloc[0])
    classes = list(dict.fromkeys(shares["class"]))
    panels = classes[:1] if len(classes) == 2 else classes
    across = min(_MOST_PANELS[width], len(panels))
    down = -(-len(panels) // across)
    room = int(((MAX_HEIGHT - _FOOT) / down - _HEAD) / _ROW)
    places, left = _places(shares, most=room, first=classes[0])
    figure = new_figure(width, height=down * (_HEAD + _ROW * max(len(places), 2)) + _FOOT)
    grid = figure.subplots(down, across, sharey=True, sharex=True, squeeze=False)
    names = _row_names(study, places, width=width)
    for number, axes in enumerate(grid.flat):
        if number >= len(panels):
            axes.set_visible(False)
            continue
        label = panels[number]
        _draw_class(axes, shares[shares["class"] == label], places)
        room_of_title = (INCHES[width] - _NAMES[width]) / across - 0.04
        title = [
            shortened(line, inches=room_of_title) for line in _in_words(label).replace(" x ", " x\n").split("\n")
        ]
        axes.set_title("\n".join(title), size=SMALL_TEXT_SIZE)
        axes.set_yticks(range(len(places)), names)
        axes.tick_params(axis="y", length=0, labelleft=number % across == 0)
        # A column whose last panel lies above an empty place keeps its numbers.
        axes.tick_params(axis="x", labelbottom=number + across >= len(panels))
    grid[0, 0].set_ylim(len(places) - 0.4, -0.6)
    grid[0, 0].set_xlim(-0.03, 1.03)
    grid[0, 0].set_xticks([0, 0.5, 1], ["0", "50", "100"])
    said = f"share of clear images (%), perceived {_in_words(attribute)}"
    figure.supxlabel(said if width == "double" else "share of clear images (%)", size=SMALL_TEXT_SIZE)
    return Drawing(figure, _caption(shares, places, left, (attribute, variant, judge), panels))


def _chosen(study: FinishedStudy) -> pd.DataFrame:
    """The rows of one attribute, reference and judge."""
    table = study.results.score_files.get(SHARES_FILE)
    if table is None or table.empty:
        raise ConfigError("this study has no representation scores: `scores: [{system: representation}]`")
    there = list(dict.fromkeys(table["attribute"]))
    table = table[table["attribute"] == (study.attribute if study.attribute in there else there[0])]
    variants = list(dict.fromkeys(table["variant"]))
    table = table[table["variant"] == variants[-1]]
    judges = list(dict.fromkeys(table["detector"]))
    chosen: pd.DataFrame = table[table["detector"] == (GROUND_TRUTH if GROUND_TRUTH in judges else judges[0])]
    return chosen


def _places(shares: pd.DataFrame, *, most: int, first: str) -> tuple[list[tuple[str, str]], int]:
    """T2I model and prompt of each row, by the share of the first class; and how many rows have no room."""
    rows = shares[(shares["class"] == first) & (shares["n"] > 0)]
    kept = rows.sort_values("p_value", kind="stable").head(most)
    kept = kept.sort_values(["share", "prompt_id"], ascending=[False, True], kind="stable")
    order = {model: number for number, model in enumerate(dict.fromkeys(shares["t2i_model"]))}
    pairs = list(zip(kept["t2i_model"].astype(str), kept["prompt_id"].astype(str), strict=True))
    return sorted(pairs, key=lambda pair: order[pair[0]]), len(rows) - len(kept)


def _row_names(study: FinishedStudy, places: Sequence[tuple[str, str]], *, width: Width) -> list[str]:
    several = len({model for model, _ in places}) > 1
    names = []
    for model, prompt_id in places:
        word = study.words.get(prompt_id, prompt_id)
        names.append(shortened(f"{word} ({model})" if several else word, inches=_NAMES[width]))
    return names


def _draw_class(axes: Axes, shares: pd.DataFrame, places: Sequence[tuple[str, str]]) -> None:
    rows = shares.set_index(["t2i_model", "prompt_id"]).loc[list(places)]
    y = np.arange(len(places))
    low, high, reference = (rows[name].to_numpy() for name in ("expected_low", "expected_high", "reference"))
    axes.hlines(y, 0, 1, color=PALE, linewidth=0.4, zorder=0)
    axes.barh(y, high - low, left=low, height=0.62, color=_BAND, linewidth=0, zorder=1)
    axes.vlines(reference, y - 0.36, y + 0.36, color="black", linewidth=0.8, zorder=2)
    differs = rows["p_value"].to_numpy() <= FALSE_DISCOVERY_RATE
    share = rows["share"].to_numpy()
    axes.plot(share[differs], y[differs], "D", color=VERMILLION, markersize=3.2, zorder=3)
    axes.plot(share[~differs], y[~differs], "o", markerfacecolor="white", color=BLUE, markersize=3.2, zorder=3)


def _caption(
    shares: pd.DataFrame,
    places: Sequence[tuple[str, str]],
    left: int,
    about: tuple[str, str, str],
    panels: Sequence[str],
) -> str:
    attribute, variant, judge = about
    reference = "the stated share" if variant == "stated" else "equal shares"
    by = "the human labels" if judge == GROUND_TRUTH else judge
    n = shares.drop_duplicates(["t2i_model", "prompt_id"])["n"]
    empty = int((n == 0).sum())
    return caption(
        f"Shares of the classes of perceived {_in_words(attribute)} among the clear images of each prompt, by {by}"
        f" ({counted(float(n.sum()), 'clear image')}, {counted(len(places), 'row')})."
        + (f" Shown: {_in_words(panels[0])}." if len(panels) == 1 else ""),
        f"Line: {reference}. Grey: where 95 % of the shares of a T2I model lie that shows exactly the reference "
        "in as many images.",
        f"Diamonds: prompts that differ from the reference beyond chance (false discovery rate "
        f"{100 * FALSE_DISCOVERY_RATE:g} % over all prompts, attributes and references); circles: prompts of "
        "which that cannot be said.",
        f"Without room, those that differ least surely: {counted(left, 'row')}." if left else "",
        f"Left out, no clear image: {counted(empty, 'prompt')}." if empty else "",
        attribute=attribute,
    )


def _in_words(name: str) -> str:
    return " x ".join(attribute_in_words(part) for part in name.split(" x "))
