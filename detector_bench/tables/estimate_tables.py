"""Tables of T2I models' bias over all images, estimated from the labels of some; beside it what else one could
say."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

from detector_bench.tables.building import TableNumbers
from detector_bench.tables.declaration import makes_table
from detector_bench.tables.table import DASH, Cell, Column, Row, Table
from detector_bench.tables.wording import attribute_in_words, in_words, whole
from detector_bench.vocabulary import ALL, LOW_QUALITY, attribute_named
from detector_bench.vocabulary.columns import (
    DETECTOR_ONLY,
    ESTIMATES,
    LABELS_ONLY,
    MISCLASSIFICATION,
    PREDICTION_POWERED,
)

ESTIMATORS = {
    PREDICTION_POWERED: "Labels and all detectors",
    LABELS_ONLY: "Labels alone",
    MISCLASSIFICATION: "{detector}, corrected by its errors",
    DETECTOR_ONLY: "{detector}, as it is",
}
"""What people read for a variant, the one to trust first."""

_SCORES = {"model_bias_score": "Model bias score", "mean_prompt_bias_score": "Mean prompt bias score"}
_OF_PROMPTS = "prompt_bias_score"

_CAPTION = (
    "Bias of perceived {attribute} over all images of each T2I model. Labels and all detectors: prediction- "
    "powered, right on average whatever the detectors' errors. Labels alone: the same without detectors. A "
    "detector corrected by its errors: right only if its errors are the same in all prompts. As it is: its "
    "verdicts taken as true. In brackets: confidence intervals."
)
_PROMPT_CAPTION = (
    "Prompts from the most to the least biased, by labels and all detectors. 1: all clear images show {first}; "
    "-1: all show {second}. In brackets: the confidence interval of each prompt by itself."
)


@makes_table("bias_estimates", needs_labels=False)
def bias_estimates(numbers: TableNumbers) -> Table | None:
    """Each T2I model's bias over all images by every estimator; None where none was made."""
    rows = estimate_rows(numbers.metrics, numbers.attribute)
    if rows.empty or not (rows["variant"] == PREDICTION_POWERED).any():
        return None
    shares = [name for name in dict.fromkeys(rows["metric"]) if str(name).startswith("label_share_")]
    shown = [name for name in _SCORES if (rows["metric"] == name).any()]
    of_scopes = rows[(rows["category"] == ALL) & (rows["prompt_id"] == ALL)]
    t2i_models = [name for name in dict.fromkeys(of_scopes["t2i_model"]) if name != ALL]
    table_rows = []
    for t2i_model in [*t2i_models, *([ALL] if len(t2i_models) > 1 else [])]:
        of_model = of_scopes[of_scopes["t2i_model"] == t2i_model]
        for variant, words in ESTIMATORS.items():
            of_variant = of_model[of_model["variant"] == variant]
            for detector, own in of_variant.groupby("detector", sort=False, observed=True):
                cells = own.set_index("metric")
                name = words.format(detector=detector)
                if not set(shown) & set(cells.index):
                    continue
                table_rows.append(
                    Row(
                        f"{t2i_model}, {name}",
                        (
                            Cell("all T2I models" if t2i_model == ALL else t2i_model, key=t2i_model),
                            Cell(name),
                            *(_cell(cells, metric) for metric in shown),
                            *(_cell(cells, metric, per_cent=True) for metric in shares),
                        ),
                    )
                )
    return Table(
        name="bias_estimates",
        caption=_CAPTION.format(attribute=attribute_in_words(numbers.attribute)),
        attribute=numbers.attribute,
        columns=(
            Column("t2i_model", "T2I model", kind="name"),
            Column("estimator", "Estimated from", kind="name"),
            *(Column(name, _SCORES[name], has_intervals=True) for name in shown),
            *(
                Column(
                    name,
                    _label(name),
                    group="Share (%)",
                    full_heading=f"Share {_label(name)} (%)",
                    has_intervals=True,
                )
                for name in shares
            ),
        ),
        rows=tuple(table_rows),
        notes=("The model bias score is without what chance adds, except for a detector as it is.",),
        grouped=True,
    )


@makes_table("prompt_estimates", needs_labels=False)
def prompt_estimates(numbers: TableNumbers) -> Table | None:
    """Prompts from most to least biased, by labels and all detectors; None where nothing was estimated."""
    rows = estimate_rows(numbers.metrics, numbers.attribute)
    rows = rows[(rows["variant"] == PREDICTION_POWERED) & (rows["metric"] == _OF_PROMPTS)]
    rows = rows[rows["prompt_id"] != ALL]
    if rows.empty:
        return None
    rows = rows.assign(size=rows["value"].abs()).sort_values(
        "size", ascending=False, kind="stable", na_position="last"
    )
    table_rows = []
    for row in rows.to_dict("records"):
        known = not math.isnan(row["value"])
        cell = _number(row["value"], row["ci_low"], row["ci_high"], decimals=2, signed=True)
        table_rows.append(
            Row(
                f"{row['prompt_id']} ({row['t2i_model']})",
                (
                    Cell(numbers.words.get(row["prompt_id"], row["prompt_id"]), key=row["prompt_id"]),
                    Cell(row["t2i_model"]),
                    cell,
                    Cell(whole(float(row["n"])), value=float(row["n"])),
                ),
                () if known else (f"{DASH}: no image of the prompt has a label.",),
            )
        )
    first, second = attribute_named(numbers.attribute).classes[:2]
    return Table(
        name="prompt_estimates",
        caption=_PROMPT_CAPTION.format(first=in_words(first).lower(), second=in_words(second).lower()),
        attribute=numbers.attribute,
        columns=(
            Column("prompt_id", "Prompt", kind="name"),
            Column("t2i_model", "T2I model", kind="name"),
            Column(_OF_PROMPTS, "Prompt bias score", has_intervals=True),
            Column("labels", "Labels"),
        ),
        rows=tuple(table_rows),
    )


def estimate_rows(metrics: pd.DataFrame, attribute: str) -> pd.DataFrame:
    """The rows of a metric table that say something about all images of an attribute."""
    return metrics[metrics["variant"].isin(ESTIMATES) & (metrics["attribute"] == attribute)]


def _cell(cells: pd.DataFrame, metric: str, *, per_cent: bool = False) -> Cell:
    if metric not in cells.index:
        return Cell(DASH, value=math.nan, ci_low=math.nan, ci_high=math.nan)
    row: Any = cells.loc[metric]
    return _number(row["value"], row["ci_low"], row["ci_high"], decimals=1 if per_cent else 3, per_cent=per_cent)


def _number(
    value: float, low: float, high: float, *, decimals: int, per_cent: bool = False, signed: bool = False
) -> Cell:
    if math.isnan(value):
        return Cell(DASH, value=math.nan, ci_low=math.nan, ci_high=math.nan)
    scale = 100 if per_cent else 1
    sign = "+" if signed else ""
    shown = [f"{scale * number:{sign}.{decimals}f}" for number in (value, low, high)]
    between = "" if math.isnan(low) else f"[{shown[1]}, {shown[2]}]"
    return Cell(shown[0], value=value, ci_low=low, ci_high=high, interval_text=between)


def _label(metric: str) -> str:
    label = metric.removeprefix("label_share_")
    return "Low-quality" if label == LOW_QUALITY else in_words(label)
