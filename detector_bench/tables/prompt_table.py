"""The table of every prompt's bias score: the paper's Table 7, for any study."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import pandas as pd

from detector_bench.tables.metric_lookup import MetricLookup, rows_of_attribute
from detector_bench.tables.table import Cell, Column, Row, Table
from detector_bench.tables.wording import attribute_in_words, in_words, score_cell
from detector_bench.vocabulary import ALL, GROUND_TRUTH

_ScoresByModel = Mapping[str, float]


def prompt_bias_scores(
    metrics: pd.DataFrame, *, attribute: str = "gender", prompts: pd.DataFrame | None = None
) -> Table:
    """The paper's Table 7: the actual prompt bias score of every prompt and T2I model, and their average.

    1: all clear images show the attribute's first class (male); -1: all show the second. Within a category,
    prompts are sorted by descending average, then by word. The average is the plain mean of the row's scores,
    over the T2I models that have one; with a single T2I model there is no average. Attributes of more than two
    classes have no signed score: their table has no rows, and says so.

    Args:
        metrics: a metric table (`schema.METRIC_COLUMNS`).
        attribute: one of the vocabulary's, such as gender.
        prompts: columns `prompt_id, word`; where it is missing or a word is empty, the prompt's id is shown.

    Raises:
        ConfigError: no metrics of this attribute.
    """
    lookup = MetricLookup.of_table(metrics, attribute=attribute)
    scores = _actual_scores(metrics, attribute=attribute)
    words = _words(prompts)
    models = lookup.t2i_models
    rows = [
        _row(category, words.get(prompt_id, prompt_id), scores[category, prompt_id], models)
        for category, prompt_id in _in_order_of_the_paper(scores, words)
    ]
    caption = f"Prompt bias scores of perceived {attribute_in_words(attribute)} by the human labels"
    if rows:
        first, second = (in_words(label).lower() for label in lookup.classes)
        caption += f": 1, all clear images are {first}; \N{MINUS SIGN}1, all are {second}"
    return Table(
        name="prompt_bias_scores",
        caption=f"{caption}.",
        attribute=attribute,
        columns=(
            Column("category", "Category", kind="name"),
            Column("word", "Word", kind="name"),
            *(Column(model, model) for model in models),
            *((Column("average", "Average"),) if len(models) > 1 else ()),
        ),
        rows=tuple(rows),
        notes=() if rows else ("Only attributes of two classes have a signed score.",),
        grouped=True,
    )


def _actual_scores(metrics: pd.DataFrame, *, attribute: str) -> dict[tuple[str, str], dict[str, float]]:
    """By category and prompt, then by T2I model, in the order of the metric table."""
    rows = rows_of_attribute(metrics, attribute=attribute)
    rows = rows[
        (rows["detector"] == GROUND_TRUTH)
        & (rows["metric"] == "prompt_bias_score")
        & (rows["t2i_model"] != ALL)
        & (rows["prompt_id"] != ALL)
    ]
    scores: dict[tuple[str, str], dict[str, float]] = {}
    for category, prompt_id, model, value in zip(
        rows["category"], rows["prompt_id"], rows["t2i_model"], rows["value"].astype(float), strict=True
    ):
        scores.setdefault((category, prompt_id), {})[model] = value
    return scores


def _row(category: str, word: str, scores: _ScoresByModel, models: Sequence[str]) -> Row:
    values = [scores.get(model, math.nan) for model in models]
    shown = [*values, _mean(values)] if len(models) > 1 else values
    without = {
        "no clear image": [model for model, value in scores.items() if math.isnan(value)],
        "no image": [model for model in models if model not in scores],
    }
    notes = [f"{what} ({', '.join(where)})" for what, where in without.items() if where]
    cells = (Cell(category), Cell(word), *(score_cell(value, decimals=2) for value in shown))
    return Row(word, cells, tuple(notes))


def _in_order_of_the_paper(
    scores: Mapping[tuple[str, str], _ScoresByModel], words: Mapping[str, str]
) -> list[tuple[str, str]]:
    categories = list(dict.fromkeys(category for category, _ in scores))

    def order(prompt: tuple[str, str]) -> tuple[int, bool, float, str, str]:
        category, prompt_id = prompt
        average = _mean(list(scores[prompt].values()))
        word = words.get(prompt_id, prompt_id)
        missing = math.isnan(average)
        return categories.index(category), missing, 0.0 if missing else -average, word.casefold(), prompt_id

    return sorted(scores, key=order)


def _words(prompts: pd.DataFrame | None) -> dict[str, str]:
    if prompts is None:
        return {}
    pairs = zip(prompts["prompt_id"], prompts["word"], strict=True)
    return {prompt_id: word for prompt_id, word in pairs if isinstance(word, str) and word}


def _mean(values: Sequence[float]) -> float:
    present = [value for value in values if not math.isnan(value)]
    return math.fsum(present) / len(present) if present else math.nan
