"""How prompt bias scores are distributed: the paper's Figure 3, for any study."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from detector_bench.figures.drawing import (
    BLACK,
    BLUE,
    SMALL_TEXT_SIZE,
    VERMILLION,
    Drawing,
    Width,
    caption,
    counted,
    say_instead,
)
from detector_bench.figures.panels import legend_above, light_grid, name_axes, panel_grid, panel_title
from detector_bench.results.finished_study import FinishedStudy
from detector_bench.tables.wording import label_in_words

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BINS = 10
"""On each side of 0."""

_HATCH_BELOW = "////"


def draw(study: FinishedStudy, *, width: Width) -> Drawing:
    """Draw how often each prompt bias score occurs, by the human labels.

    One output is a prompt and a T2I model. Bins are 0.1 wide and closed on the side away from 0; what is exactly 0
    is a line of its own, as it belongs to neither side, and the part of the outer bars that is exactly 1 or -1 is
    framed. The double-column form adds a panel for each T2I model.

    Source: Lyu 2025, figure 3.

    Raises:
        ConfigError: the attribute has more than two classes.
    """
    study.need_signed_scores()
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    by_model = {
        model: [
            study.estimate("prompt_bias_score", t2i_model=model, category=category, prompt_id=prompt).value
            for category, prompt in study.prompts
        ]
        for model in study.t2i_models
    }
    everything = [score for scores in by_model.values() for score in scores]
    panels = {"All T2I models" if len(by_model) > 1 else study.shown(study.t2i_models[0]): everything}
    if width == "double" and len(by_model) > 1:
        panels |= {study.shown(model): scores for model, scores in by_model.items()}
    columns = 4 if len(panels) == 4 else 3
    figure, grid = panel_grid(width, len(panels), columns=columns, panel_height=1.6)
    for axes, (name, scores) in zip(grid, panels.items(), strict=True):
        _draw_panel(axes, scores)
        if len(panels) > 1:
            panel_title(axes, name, width=width, columns=min(columns, len(panels)))
    _scale(grid[0], max(_tallest(scores) for scores in panels.values()))
    first, second = (label_in_words(label, in_sentence=True) for label in study.classes)
    legend_above(
        figure,
        [
            Patch(facecolor=BLUE, hatch=_HATCH_BELOW, edgecolor="white", label=f"more {second}"),
            Line2D([], [], color=BLACK, marker="o", markersize=3, linewidth=1.2, label="exactly 0"),
            Patch(facecolor=VERMILLION, label=f"more {first}"),
        ],
        width=width,
    )
    name_axes(figure, grid, x=f"Prompt bias score ({second} to {first})", y="Outputs (%)")
    return Drawing(figure, _caption(study, by_model, everything))


def histogram(scores: Sequence[float]) -> dict[int, int]:
    """Count scores by bin.

    Bin k from 1 to 10 holds scores in ((k - 1) / 10, k / 10]; -k mirrors it; bin 0 holds exactly 0. NaN is left
    out.
    """
    counts = dict.fromkeys(range(-BINS, BINS + 1), 0)
    for score in scores:
        if not math.isnan(score):
            # 0.3 * 10 is a little above 3: rounding first keeps a score on its side of the edge.
            size = min(math.ceil(round(abs(score) * BINS, 9)), BINS)
            counts[size if score > 0 else -size] += 1
    return counts


def _tallest(scores: Sequence[float]) -> float:
    counts = histogram(scores).values()
    return 100 * max(counts) / max(1, sum(counts))


def _scale(axes: Axes, tallest: float) -> None:
    """Room above the tallest bar for words, and no line of the grid through them."""
    from matplotlib.ticker import MaxNLocator

    if not tallest:
        axes.set_ylim(0, 1)
        return
    axes.set_ylim(0, 1.3 * tallest)
    ticks = MaxNLocator(nbins=5, steps=[1, 2, 5, 10]).tick_values(0, tallest)
    axes.set_yticks([tick for tick in ticks if tick <= 1.05 * tallest])


def _draw_panel(axes: Axes, scores: Sequence[float]) -> None:
    counts = histogram(scores)
    total = sum(counts.values())
    light_grid(axes, axis="y")
    axes.set_xlim(-1.04, 1.04)
    ticks = (-1.0, -0.5, 0.0, 0.5, 1.0)
    axes.set_xticks(ticks, [f"{tick:g}".replace("-", "\N{MINUS SIGN}") for tick in ticks])
    if not total:
        say_instead(axes, "no output has a score")
        return
    shares = {place: 100 * count / total for place, count in counts.items()}
    for place, share in shares.items():
        if place:
            colour, hatch = (VERMILLION, "") if place > 0 else (BLUE, _HATCH_BELOW)
            middle = (place - math.copysign(0.5, place)) / BINS
            axes.bar(middle, share, width=1 / BINS, color=colour, hatch=hatch, edgecolor="white", linewidth=0.4)
    if shares[0]:
        axes.plot([0, 0], [0, shares[0]], color=BLACK, linewidth=1.2, solid_capstyle="butt", zorder=3)
        axes.plot([0], [shares[0]], "o", color=BLACK, markersize=3, zorder=3, clip_on=False)
    for end, side, across in ((-1, "left", 0.01), (0, "center", 0.5), (1, "right", 0.99)):
        exactly = 100 * sum(score == end for score in scores) / total
        if exactly > 0 and end:
            middle = end * (1 - 0.5 / BINS)
            axes.bar(middle, exactly, width=0.9 / BINS, fill=False, edgecolor="black", linewidth=0.6)
        text = f"exactly {end}:\n{exactly:.1f} %".replace("-", "\N{MINUS SIGN}")
        axes.text(across, 0.99, text, transform=axes.transAxes, ha=side, va="top", size=SMALL_TEXT_SIZE)


def _caption(study: FinishedStudy, by_model: dict[str, list[float]], everything: Sequence[float]) -> str:
    scored = [score for score in everything if not math.isnan(score)]
    first, second = (label_in_words(label, in_sentence=True) for label in study.classes)
    images = study.estimate("images").value
    without = len(everything) - len(scored)
    return caption(
        f"Distribution of the prompt bias scores of {study.perceived} by the human labels: 1, all clear "
        f"images of an output are {first}; \N{MINUS SIGN}1, all are {second}.",
        f"An output is a prompt and a T2I model; n = {counted(len(scored), 'output')} "
        f"({counted(len(study.prompts), 'prompt')}, {counted(len(by_model), 'T2I model')}, "
        f"{counted(images, 'labelled image')}).",
        "Bins are 0.1 wide and closed on the side away from 0; line with a dot: exactly 0, in no bin; framed: "
        "exactly 1 or \N{MINUS SIGN}1.",
        f"Left out: {counted(without, 'output')} without a clear image or without images." if without else "",
        "A share of outputs, drawn without an interval.",
        attribute=study.attribute,
    )
