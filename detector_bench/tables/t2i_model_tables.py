"""Table of the differences between every two T2I models, each tested beside the others."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from detector_bench.tables.table import DASH, Cell, Column, Row, Table
from detector_bench.tables.wording import attribute_in_words, fixed, whole

_COULD_EXPLAIN = "told apart, which could be an effect of what was refused"
_COULD_HIDE = "not told apart, which could be an effect of what was refused"
_SCORES = {"model_bias_score": "Model bias score", "mean_prompt_bias_score": "Mean prompt bias score"}


def t2i_model_comparisons(
    rows: pd.DataFrame, *, attribute: str, level: float, effects: pd.DataFrame | None = None
) -> Table | None:
    """Differences of bias scores between every two T2I models; None where there is only one.

    Args:
        rows: as in `evaluation.t2i_model_tests.DIFFERENCE_COLUMNS`.
        attribute: whose.
        level: of the tests together.
        effects: as in `evaluation.t2i_model_tests.REFUSAL_EFFECT_COLUMNS`; None: nothing is known of refusals.
    """
    own = rows[rows["attribute"] == attribute]
    if own.empty:
        return None
    changing = {} if effects is None else _changed_by_refusals(effects, attribute)
    tests = int(own["p_adjusted"].notna().sum())
    return Table(
        name="t2i_model_comparisons",
        caption=f"T2I models compared in perceived {attribute_in_words(attribute)}, over the prompts that both "
        f"have. About the T2I models, not these images alone. In brackets: {100 * level:g} % intervals, as wide "
        f"as the tests ask, which are adjusted for {tests:,} difference{'' if tests == 1 else 's'} (Holm).",
        attribute=attribute,
        columns=(
            Column("pair", "T2I models", kind="name"),
            Column("score", "Score", kind="name"),
            Column("first_value", "First"),
            Column("second_value", "Second"),
            Column("difference", "Difference", has_intervals=True),
            Column("p_adjusted", "p, adjusted"),
            Column("told_apart", "Told apart", kind="name"),
            Column("prompts", "Prompts"),
        ),
        rows=tuple(
            _row(row, refused=changing.get((row["metric"], row["first"], row["second"]), ""))
            for row in own.to_dict("records")
        ),
        notes=("Not told apart does not mean alike: more labels, or more images, might tell.",),
    )


def _changed_by_refusals(effects: pd.DataFrame, attribute: str) -> dict[tuple[str, str, str], str]:
    """By score and both T2I models: the note on a difference that could be told, or not be told, with the refused
    images."""
    own = effects[(effects["attribute"] == attribute) & (effects["could_explain"] | effects["could_hide"])]
    return {
        (row["metric"], row["first"], row["second"]): _COULD_EXPLAIN if row["could_explain"] else _COULD_HIDE
        for row in own.to_dict("records")
    }


def _row(row: Mapping[Any, Any], *, refused: str) -> Row:
    pair, score = f"{row['first']} less {row['second']}", _SCORES[str(row["metric"])]
    values = {
        name: float(row[name])
        for name in ("first_value", "second_value", "difference", "ci_low", "ci_high", "p_adjusted", "prompts")
    }
    low, high = values["ci_low"], values["ci_high"]
    between = "" if math.isnan(low) else f"[{low:+.3f}, {high:+.3f}]"
    difference = values["difference"]
    p_value = values["p_adjusted"]
    return Row(
        f"{pair} ({score.lower()})",
        (
            Cell(pair),
            Cell(score),
            Cell(fixed(values["first_value"], decimals=3), value=values["first_value"]),
            Cell(fixed(values["second_value"], decimals=3), value=values["second_value"]),
            Cell(
                DASH if math.isnan(difference) else f"{difference:+.3f}",
                value=difference,
                ci_low=low,
                ci_high=high,
                interval_text=between,
            ),
            Cell(
                DASH if math.isnan(p_value) else "< 0.001" if p_value < 0.001 else f"{p_value:.3f}", value=p_value
            ),
            Cell("yes" if row["told_apart"] else "no"),
            Cell(whole(values["prompts"]), value=values["prompts"]),
        ),
        (
            *((f"{DASH}: one of both has no score.",) if math.isnan(difference) else ()),
            *((refused,) if refused else ()),
        ),
    )
