"""What hangs on BiasPainter's thresholds, 25 years and 20 grey values: its ablation study, for any study.

Word and model scores of age and skin tone are changes divided by a threshold. So another threshold multiplies all
of an attribute's scores by one factor: within an attribute, the order of words and of T2I models stays as it is.
What does change is how many words are called biased, the average over attributes, and with it the order of T2I
models by that average. Gender has no threshold.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import pandas as pd

from detector_bench.errors import ConfigError
from detector_bench.figures.drawing import (
    SMALL_TEXT_SIZE,
    Drawing,
    Width,
    caption,
    counted,
    frame,
    new_figure,
    series_style,
)
from detector_bench.metrics import DEFAULT_MAX_ERROR_SHARE
from detector_bench.others.biaspainter.biased_words import (
    DEFAULT_LEAST,
    DIRECTIONS,
    SKIN_TONE_NOTE,
    ByOneJudge,
)
from detector_bench.others.biaspainter.formulas import (
    MODEL_SCORE,
    PRESETS,
    WORD_SCORE,
    Preset,
)
from detector_bench.others.failed_images import FailedImages
from detector_bench.results.finished_study import FinishedStudy
from detector_bench.tables.table import Cell, Column, Row, Table
from detector_bench.tables.wording import attribute_in_words, attributes_in_words, count_cell, in_words, score_cell
from detector_bench.vocabulary import ALL

THRESHOLDS: dict[str, tuple[float, ...]] = {"age": (15, 20, 25, 30, 35), "skin_tone": (10, 15, 20, 25, 30)}
"""Those that are compared unless others are named: around the paper's 25 years and 20 grey values."""

_UNITS = {"age": "years", "skin_tone": "grey values"}


class AblationRow(NamedTuple):
    """One T2I model's numbers at one threshold of one attribute; those of the other attributes stay."""

    attribute: str
    threshold: float
    t2i_model: str
    score: float
    """The attribute's model score, the mean over domains."""
    words: int
    """Those with a score."""
    biased: tuple[int, int]
    """How many of them are called biased in either direction, in the order of `DIRECTIONS`."""
    average: float
    """The mean of the model scores of all attributes."""
    rank: float
    """By that average, 1: the most biased T2I model; equal ones share the mean of their ranks."""


def threshold_ablation(
    metrics: pd.DataFrame,
    *,
    thresholds: Mapping[str, Sequence[float]] | None = None,
    judge: str | None = None,
    variant: str | None = None,
    least: float = DEFAULT_LEAST,
    max_error_share: float = DEFAULT_MAX_ERROR_SHARE,
) -> list[AblationRow]:
    """Scale the scores of a metric table to other thresholds.

    Args:
        metrics: a metric table with BiasPainter's rows.
        thresholds: by attribute, age in years and skin_tone in grey values; None: `THRESHOLDS`.
        judge: whose scores; None: who scores most attributes, the ground truth first.
        variant: which definition; None: the table's first.
        least: words with a smaller score are not called biased.
        max_error_share: a detector that fails on a larger share of a T2I model's images has no scores there.

    Raises:
        ConfigError: no such scores, a threshold that is not above 0, or neither age nor skin tone is scored.
    """
    wanted = THRESHOLDS if thresholds is None else thresholds
    for attribute, values in wanted.items():
        if attribute not in _UNITS:
            raise ConfigError(f"{attribute!r} has no threshold (accepted: {', '.join(_UNITS)})")
        if wrong := [value for value in values if not 0 < value < math.inf]:
            raise ConfigError(f"threshold of {attribute}: {wrong[0]:g} (accepted: numbers above 0)")
    failed = FailedImages.of_table(metrics, max_error_share=max_error_share)
    rows = failed.left_out(metrics[metrics["metric"].isin([MODEL_SCORE, WORD_SCORE])])
    chosen = ByOneJudge.of_table(rows, judge=judge, variant=variant)
    preset = definition_of(chosen.variant)
    scores = _model_scores(chosen)
    words = [each for each in chosen.word_scores() if not math.isnan(each.score)]
    found = []
    for attribute in (name for name in wanted if name in chosen.attributes):
        for threshold in wanted[attribute]:
            factor = preset.threshold(attribute) / threshold
            averages = {model: _average(of_model, attribute, factor) for model, of_model in scores.items()}
            ranks = pd.Series(averages).rank(ascending=False)
            for model, of_model in scores.items():
                own = [w.score * factor for w in words if (w.attribute, w.t2i_model) == (attribute, model)]
                signs = [direction.sign for direction in DIRECTIONS[attribute]]
                first, second = (sum(sign * score >= least for score in own) for sign in signs)
                place = (attribute, float(threshold), model, factor * of_model.get(attribute, math.nan))
                found.append(AblationRow(*place, len(own), (first, second), averages[model], float(ranks[model])))
    if not found:
        raise ConfigError(f"neither age nor skin tone is scored {chosen.in_words}: no threshold counts")
    return found


def definition_of(variant: str) -> Preset:
    """The preset that a variant names, with the thresholds that it names besides, as in `as_published, age 30`.

    Raises:
        ConfigError: it begins with no preset.
    """
    name, *own = variant.split(", ")
    if name not in PRESETS:
        raise ConfigError(f"the variant {variant!r} names no preset (accepted: {', '.join(PRESETS)})")
    preset = PRESETS[name]
    named = dict(each.rpartition(" ")[::2] for each in own)
    return replace(
        preset,
        age_threshold=float(named.get("age", preset.age_threshold)),
        skin_tone_threshold=float(named.get("skin_tone", preset.skin_tone_threshold)),
    )


def _model_scores(chosen: ByOneJudge) -> dict[str, dict[str, float]]:
    """By T2I model and attribute, the mean over domains."""
    rows = chosen.rows
    rows = rows[(rows["metric"] == MODEL_SCORE) & (rows["t2i_model"] != ALL) & (rows["category"] != ALL)]
    found: dict[str, dict[str, list[float]]] = {}
    for model, attribute, value in zip(rows["t2i_model"], rows["attribute"], rows["value"], strict=True):
        found.setdefault(str(model), {}).setdefault(str(attribute), []).append(float(value))
    return {
        model: {attribute: math.fsum(values) / len(values) for attribute, values in each.items()}
        for model, each in found.items()
    }


def _average(scores: Mapping[str, float], attribute: str, factor: float) -> float:
    values = [value * factor if name == attribute else value for name, value in scores.items()]
    return math.fsum(values) / len(values)


def ablation_table(rows: Sequence[AblationRow], *, by: str, least: float = DEFAULT_LEAST) -> Table:
    """The ablation as a table, a block for each attribute and threshold.

    Args:
        rows: as `threshold_ablation` gives them.
        by: whose scores and by which definition.
        least: what a word needs to be called biased.
    """
    lines = []
    for each in rows:
        names = (
            attribute_in_words(each.attribute),
            f"{each.threshold:g} {_UNITS[each.attribute]}",
            each.t2i_model,
        )
        cells = (
            *(Cell(name) for name in names),
            score_cell(each.score, decimals=2),
            count_cell(each.words),
            *(count_cell(number) for number in each.biased),
            score_cell(each.average, decimals=2),
            Cell("-" if math.isnan(each.rank) else f"{each.rank:g}", value=each.rank),
        )
        lines.append(Row(", ".join(names), cells))
    attributes = list(dict.fromkeys(each.attribute for each in rows))
    directions = "; ".join(
        f"{attribute_in_words(name)}: {', '.join(each.in_words for each in DIRECTIONS[name])}"
        for name in attributes
    )
    return Table(
        name="biaspainter_thresholds",
        caption=(
            f"BiasPainter's scores {by} at other thresholds: a change of so much scores 1. A word is biased "
            f"at a score of {least:g}; the average is over all attributes, rank 1 the most biased T2I model by it."
        ),
        attribute=attributes_in_words(attributes),
        columns=(
            Column("attribute", "Attribute", kind="name"),
            Column("threshold", "Threshold", kind="name"),
            Column("t2i_model", "T2I model", kind="name"),
            Column("score", "Score"),
            Column("words", "Words"),
            Column("biased_first", "First", "Biased words", "Biased words, first direction"),
            Column("biased_second", "Second", "Biased words", "Biased words, second direction"),
            Column("average", "Average"),
            Column("rank", "Rank"),
        ),
        rows=tuple(lines),
        notes=(
            f"First and second direction: {directions}.",
            "A threshold multiplies all scores of its attribute alike: within an attribute, the order of words "
            "and of T2I models is the same at every threshold.",
            *((SKIN_TONE_NOTE,) if "skin_tone" in attributes else ()),
        ),
        grouped=True,
    )


def draw(study: FinishedStudy, *, width: Width) -> Drawing:
    """Draw, by threshold, the share of words called biased and the average score, a line for each T2I model.

    Source: BiasPainter, section 3.5.1, which puts its ablation of thresholds into a supplement.

    Raises:
        ConfigError: the study has no BiasPainter scores of age or skin tone.
    """
    metrics = study.metrics_of_all_attributes
    rows = threshold_ablation(metrics, max_error_share=study.max_error_share)
    chosen = ByOneJudge.of_table(metrics[metrics["metric"].isin([MODEL_SCORE, WORD_SCORE])])
    attributes = list(dict.fromkeys(each.attribute for each in rows))
    models = list(dict.fromkeys(each.t2i_model for each in rows))
    preset = definition_of(chosen.variant)
    figure = new_figure(width, height=3.6 if width == "double" else 3.2)
    panels = figure.subplots(2, len(attributes), squeeze=False, sharex="col", sharey="row")
    for column, attribute in enumerate(attributes):
        for place, model in enumerate(models):
            own = [each for each in rows if (each.attribute, each.t2i_model) == (attribute, model)]
            style = series_style(place)
            shares = [100 * sum(each.biased) / each.words if each.words else math.nan for each in own]
            thresholds = [each.threshold for each in own]
            for axes, values in zip(panels[:, column], (shares, [each.average for each in own]), strict=True):
                look = {"color": style.colour, "marker": style.marker, "linestyle": style.line}
                axes.plot(thresholds, values, markersize=3.5, linewidth=1, label=model, **look)
        for axes in panels[:, column]:
            frame(axes)
            axes.axvline(preset.threshold(attribute), color="#BBBBBB", linewidth=0.6, zorder=0)
            axes.set_xticks(sorted({each.threshold for each in rows if each.attribute == attribute}))
            axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        panels[0, column].set_title(in_words(attribute), size=SMALL_TEXT_SIZE, weight="bold", loc="left")
        panels[1, column].set_xlabel(f"threshold ({_UNITS[attribute]})")
    # Panels of a row share their axis, whose end is known only now.
    panels[0, 0].set_ylim(0, 104)
    panels[1, 0].set_ylim(0, 1.08 * max((each.average for each in rows if each.average > 0), default=1))
    panels[0, 0].set_ylabel("words called biased (%)")
    panels[1, 0].set_ylabel("average score")
    if len(models) > 1:
        panels[0, -1].legend(loc="best", fontsize=SMALL_TEXT_SIZE)
    words = max(each.words for each in rows)
    scored = attributes_in_words([name.replace("_", " ") for name in chosen.attributes])
    return Drawing(
        figure,
        caption(
            f"BiasPainter's conclusions {chosen.in_words} by the change that scores 1: words with a score of "
            f"{DEFAULT_LEAST:g} or more in either direction, and the mean of the model scores of {scored}.",
            f"n = up to {counted(words, 'word')} and {counted(len(models), 'T2I model')}.",
            "Grey line: the threshold of the study.",
            SKIN_TONE_NOTE if "skin_tone" in attributes else "",
            "Drawn without intervals.",
            attribute=attributes_in_words(attributes),
        ),
    )
