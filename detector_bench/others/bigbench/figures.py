"""BIGbench's figures for any study: its scores level by level, and what asking for a class moves besides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd

from detector_bench.errors import ConfigError
from detector_bench.figures.drawing import (
    GREY,
    PALE,
    SMALL_TEXT_SIZE,
    Drawing,
    Width,
    caption,
    counted,
    interval_sentence,
    new_figure,
    series_style,
)
from detector_bench.others.bigbench.level_tables import ScoredPart, levels_of
from detector_bench.others.bigbench.names import EXPLICIT, FALSE_DISCOVERY_RATE, IMPLICIT
from detector_bench.others.bigbench.prompt_lookup import ACQUIRED_ATTRIBUTE, ASKED_FOR, class_in_words, class_names
from detector_bench.others.bigbench.references import PROTECTED
from detector_bench.others.bigbench.side_effect_rows import MEANS_FILE
from detector_bench.others.failed_images import FailedImages
from detector_bench.results.finished_study import FinishedStudy
from detector_bench.results.metric_lookup import Number, of_detectors_alone, of_labelled_images
from detector_bench.tables.wording import attributes_in_words, in_words
from detector_bench.vocabulary import ALL, GROUND_TRUTH
from detector_bench.vocabulary.columns import DETECTOR_ONLY

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_TITLES = {IMPLICIT: "implicit bias score (%)", EXPLICIT: "explicit bias score (%)"}
_LEAST, _PER_MODEL, _AROUND, _LEGEND = 0.14, 0.07, 0.5, 0.22
"""Height of a row, what each T2I model adds to it, the panels' frame, and a line of names, in inches."""
_MOST_PANELS: dict[Width, int] = {"single": 2, "double": 4}
_PER_LINE: dict[Width, int] = {"single": 3, "double": 6}
_LEVEL = ("attribute", "category")
_NUMBERS = ("value", "ci_low", "ci_high")
_GAP = 0.4
"""Between groups of rows, in rows."""


class _Place(NamedTuple):
    """A row of a panel."""

    attribute: str
    category: str
    words: str
    y: float


def draw_levels(study: FinishedStudy, *, width: Width) -> Drawing:
    """Draw a panel for the implicit and one for the explicit score, a dot per T2I model: over all, by protected
    attribute, by acquired attribute, and the explicit ones by the class that is asked for.

    By the human labels where there are some, else by the first detector. All attributes are drawn, whichever one
    the study was loaded for.

    Source: BIGbench, figure 4, parts A to D.

    Raises:
        ConfigError: the study has no BIGbench scores.
    """
    for chosen in (of_labelled_images, of_detectors_alone):
        metrics = chosen(study.metrics_of_all_attributes)
        rows = metrics[metrics["metric"].isin(_TITLES) & (metrics["prompt_id"] == ALL)]
        if not rows.empty:
            break
    if rows.empty:
        raise ConfigError("this study has no BIGbench scores: `scores: [{system: bigbench, references: ...}]`")
    # The bias scores are the same under every preset.
    rows = rows[rows["variant"] == rows["variant"].iloc[0]]
    judges = list(dict.fromkeys(rows["detector"].astype(str)))
    judge = GROUND_TRUTH if GROUND_TRUTH in judges else judges[0]
    rows = FailedImages.of_table(metrics, max_error_share=study.max_error_share).left_out(rows)
    rows = rows[(rows["detector"] == judge) & ~rows["value"].isna()]
    models = [name for name in dict.fromkeys(rows["t2i_model"].astype(str)) if name != ALL]
    panels = [metric for metric in _TITLES if (rows["metric"] == metric).any()]
    if not panels or not models:
        raise ConfigError("no T2I model has a BIGbench score: there is nothing to draw")
    # Beside each other panels share their rows; below each other each has its own.
    beside = width == "double"
    of_panels = [_places(rows if beside else rows[rows["metric"] == metric]) for metric in panels]
    across = len(panels) if beside else 1
    heights = [_AROUND + (_LEAST + _PER_MODEL * len(models)) * len(places) for places in of_panels][::across]
    lines = -(-len(models) // _PER_LINE[width])
    figure = new_figure(width, height=sum(heights) + _LEGEND * lines)
    grid = figure.subplots(
        len(heights), across, squeeze=False, sharey=beside, gridspec_kw={"height_ratios": heights}
    )
    for axes, metric, places in zip(grid.flat, panels, of_panels, strict=True):
        _draw_panel(axes, rows[rows["metric"] == metric], places, models)
        axes.set_xlabel(_TITLES[metric], size=SMALL_TEXT_SIZE)
    _legend(figure, models, width=width)
    shown = [
        Number(*each) for each in rows[["value", "n", "n_left_out", "ci_low", "ci_high"]].itertuples(index=False)
    ]
    by = "the human labels" if judge == GROUND_TRUTH else judge
    attributes = [name for name in dict.fromkeys(rows["attribute"].astype(str)) if name != ALL]
    said = caption(
        f"BIGbench's scores of {counted(len(models), 'T2I model')} by {by}: over all, by perceived "
        f"{attributes_in_words(attributes)}, by acquired attribute, and the explicit ones by the class that a "
        "prompt asks for.",
        "Implicit: closeness to the reference shares, 50 to 100; explicit: images that show who is asked for; "
        "higher is less biased. The two cannot be compared with each other.",
        interval_sentence(study, shown, of_scores=True),
        attribute=attributes[0] if attributes else study.attribute,
    )
    return Drawing(figure, said)


def _places(rows: pd.DataFrame) -> list[_Place]:
    """What each row of a panel shows: over all, then by protected, by acquired attribute, by class asked for."""
    there = set(zip(*(rows[name].astype(str) for name in _LEVEL), strict=True))
    levels = [
        dict.fromkeys(
            (level.category, _plain(level))
            for metric in _TITLES
            for level in levels_of(rows, metric, suffix=suffix)
        )
        for suffix in (ACQUIRED_ATTRIBUTE, ASKED_FOR)
    ]
    groups = [
        [(ALL, ALL, "all")],
        [(name, ALL, in_words(name).lower()) for name in PROTECTED],
        *([(ALL, category, words) for category, words in level] for level in levels),
    ]
    found_places: list[_Place] = []
    y = -_GAP
    for group in groups:
        kept = [each for each in group if each[:2] in there]
        y += _GAP if kept else 0.0
        for attribute, category, words in kept:
            found_places.append(_Place(attribute, category, words, y))
            y += 1
    return found_places


def _plain(level: ScoredPart) -> str:
    ending = ASKED_FOR.removeprefix("{}")
    if level.category.endswith(ending):
        return class_in_words(level.category.removesuffix(ending))
    return level.words.lower()


def _draw_panel(axes: Axes, rows: pd.DataFrame, places: Sequence[_Place], models: Sequence[str]) -> None:
    numbers = rows.set_index([rows[name].astype(str) for name in ("t2i_model", *_LEVEL)])
    for number, model in enumerate(models):
        style = series_style(number)
        there = [each for each in places if (model, each.attribute, each.category) in numbers.index]
        if not there:
            continue
        keys = pd.MultiIndex.from_tuples([(model, each.attribute, each.category) for each in there])
        chosen = numbers.reindex(keys)
        value, low, high = (
            100 * chosen[name].to_numpy(dtype=np.float64) for name in ("value", "ci_low", "ci_high")
        )
        y = [each.y + 0.7 * ((number + 0.5) / len(models) - 0.5) for each in there]
        axes.hlines(y, low, high, color=style.colour, linewidth=0.7, zorder=2)
        axes.plot(value, y, style.marker, color=style.colour, markersize=2.8, zorder=3)
    shown = set(zip(*(rows[name].astype(str) for name in _LEVEL), strict=True))
    for each in places:
        if (each.attribute, each.category) in shown:
            axes.axhline(each.y, color=PALE, linewidth=0.4, zorder=0)
    axes.set_yticks([each.y for each in places], [each.words for each in places])
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(places[-1].y + 0.6, -0.6)


def _legend(figure: Figure, models: Sequence[str], *, width: Width) -> None:
    from matplotlib.lines import Line2D

    if len(models) < 2:
        return
    styles = [series_style(number) for number in range(len(models))]
    marks = [
        Line2D([], [], linestyle="", marker=style.marker, color=style.colour, markersize=3.5) for style in styles
    ]
    figure.legend(marks, models, loc="outside upper center", ncols=min(_PER_LINE[width], len(models)))


def draw_side_effects(study: FinishedStudy, *, width: Width) -> Drawing:
    """Draw a panel for each class and a row for each class of another attribute that prompts ask for: by how many
    points asking moves the class's share, on average over prompts, a mark per T2I model.

    An attribute of two classes has one panel, as the second one's shift is the reverse. By the human labels where
    there are some, else by the first detector.

    Source: BIGbench, Table 5, which has one prompt of one T2I model.

    Raises:
        ConfigError: no prompt that asks for somebody has a base prompt.
    """
    files = study.results.score_files
    means = files.get(MEANS_FILE, files.get(MEANS_FILE.replace(".csv", f"_{DETECTOR_ONLY}.csv")))
    if means is None or means.empty:
        raise ConfigError("no prompt of this study asks for somebody and has a base prompt: no effect of asking")
    judges = list(dict.fromkeys(means["detector"]))
    judge = GROUND_TRUTH if GROUND_TRUTH in judges else judges[0]
    means = means[(means["detector"] == judge) & (means["variant"] == means["variant"].iloc[0])]
    models = [name for name in dict.fromkeys(means["t2i_model"].astype(str)) if name != ALL]
    means = means[means["t2i_model"] != ALL]
    asked = [each for name in PROTECTED for each in class_names(name) if each in set(means["asked"])]
    panels = [
        (name, label)
        for name in PROTECTED
        if (means["attribute"] == name).any()
        for label in (class_names(name)[1:] if len(class_names(name)) == 2 else class_names(name))
    ]
    across = min(_MOST_PANELS[width], len(panels))
    down = -(-len(panels) // across)
    row = _LEAST + _PER_MODEL * len(models) / 2
    lines = -(-len(models) // _PER_LINE[width]) if len(models) > 1 else 0
    figure = new_figure(width, height=down * (_AROUND + row * len(asked)) + _LEGEND * (lines + 1))
    grid = figure.subplots(down, across, sharex=True, sharey=True, squeeze=False)
    for number, axes in enumerate(grid.flat):
        if number >= len(panels):
            axes.set_visible(False)
            continue
        attribute, label = panels[number]
        chosen = means[(means["attribute"] == attribute) & (means["class"] == label)]
        _draw_shifts(axes, chosen, asked, models)
        axes.set_title(f"{class_in_words(label)} ({attributes_in_words([attribute])})", size=SMALL_TEXT_SIZE)
        axes.tick_params(axis="x", labelbottom=number + across >= len(panels))
    grid[0, 0].set_yticks(range(len(asked)), [class_in_words(each) for each in asked])
    grid[0, 0].set_ylim(len(asked) - 0.4, -0.6)
    figure.supylabel("asked for", size=SMALL_TEXT_SIZE)
    figure.supxlabel("change of the share of images (percentage points)", size=SMALL_TEXT_SIZE)
    _legend(figure, models, width=width)
    return Drawing(figure, _caption_of_shifts(means, judge))


def _draw_shifts(axes: Axes, rows: pd.DataFrame, asked: Sequence[str], models: Sequence[str]) -> None:
    axes.axvline(0, color=GREY, linewidth=0.6, zorder=1)
    for row in range(len(asked)):
        axes.axhline(row, color=PALE, linewidth=0.4, zorder=0)
    for number, model in enumerate(models):
        style, of_model = series_style(number), rows[rows["t2i_model"] == model]
        y = np.array([asked.index(each) for each in of_model["asked"]])
        y = y + 0.7 * ((number + 0.5) / len(models) - 0.5)
        low, high, shift = (100 * of_model[name].to_numpy() for name in ("ci_low", "ci_high", "shift"))
        axes.hlines(y, low, high, color=style.colour, linewidth=0.7, zorder=2)
        by_humans = of_model["detector"].to_numpy() == GROUND_TRUTH
        found = by_humans & (of_model["p_value"].to_numpy() <= FALSE_DISCOVERY_RATE)
        for chosen, fill in ((found, style.colour), (~found, "white")):
            axes.plot(
                shift[chosen],
                y[chosen],
                style.marker,
                color=style.colour,
                markerfacecolor=fill,
                markersize=3.0,
                zorder=3,
            )


def _caption_of_shifts(means: pd.DataFrame, judge: str) -> str:
    by = "the human labels" if judge == GROUND_TRUTH else judge
    attributes = list(dict.fromkeys(means["attribute"]))
    prompts = means["prompts"]
    counts = f"{prompts.min()}" if prompts.min() == prompts.max() else f"{prompts.min()} to {prompts.max()}"
    return caption(
        "By how much asking for a class (rows) changes the share of images that show a class of another attribute "
        f"(panels), against the same prompts without it, by {by}: weighted mean over {counts} prompts of each T2I "
        "model.",
        "Bars: 95 % confidence interval of the mean over these prompts, images taken as independent.",
        f"Filled: beyond chance (false discovery rate {100 * FALSE_DISCOVERY_RATE:g} %, adjusted for all tests, "
        "also those of single prompts); open: of which that cannot be said."
        if judge == GROUND_TRUTH
        else "None is filled: what a detector gets wrong about one group alone looks like an effect of asking.",
        attribute=attributes[0],
    )
