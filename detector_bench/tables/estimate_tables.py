"""Tables of T2I models' bias over all images, estimated from the labels of some; beside it what else one could
say."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

from detector_bench.metrics import LABEL_SHARE
from detector_bench.tables.building import TableNumbers
from detector_bench.tables.declaration import makes_table
from detector_bench.tables.table import DASH, Cell, Column, Row, Table
from detector_bench.tables.wording import attribute_in_words, label_in_words, whole
from detector_bench.vocabulary import ALL, attribute_named
from detector_bench.vocabulary.columns import (
    DETECTOR_ONLY,
    ESTIMATES,
    LABELS_ONLY,
    MISCLASSIFICATION,
    PREDICTION_POWERED,
    VALIDATED_ELSEWHERE,
)

ESTIMATORS = {
    PREDICTION_POWERED: "Labels and all detectors",
    LABELS_ONLY: "Labels alone",
    VALIDATED_ELSEWHERE: "All detectors, by their errors elsewhere",
    MISCLASSIFICATION: "{detector}, corrected by its errors",
    DETECTOR_ONLY: "{detector}, as it is",
}
"""What people read for a variant, the one to trust first."""

_SCORES = {"model_bias_score": "Model bias score", "mean_prompt_bias_score": "Mean prompt bias score"}
_OF_PROMPTS = "prompt_bias_score"

_CAPTION = (
    "Bias of perceived {attribute} over all images of each T2I model. Labels and all detectors: "
    "prediction-powered, right on average whatever the detectors' errors. Labels alone: the same without "
    "detectors. A detector corrected by its errors: right only if its errors are the same in all prompts. As "
    "it is: its verdicts taken as true. In brackets: confidence intervals."
)
_CAPTION_ELSEWHERE = (
    "Bias of perceived {attribute} over all images of each T2I model. By their errors elsewhere: from the "
    "verdicts alone, right only if detectors err on these images as on the labelled ones of another study; no "
    "interval covers that. A detector as it is: its verdicts taken as true. In brackets: confidence intervals."
)
_PROMPT_CAPTION = (
    "Prompts from the most to the least biased, by {by}. 1: all clear images show {first}; "
    "-1: all show {second}. In brackets: the confidence interval of each prompt by itself."
)
_DIFFERING = {
    "filter_rate": "Filtered, of the images with a verdict",
    "error_rate": "Errors, of all images",
    "agreement": "Same verdict",
    "score": "Median score",
}
_SIDES = ("value_there", "value_here", "difference")
_DIFFERENCES_CAPTION = (
    "Detectors on the images of the study that they are validated on (there) and on these (here). Shares; of "
    "scores the medians, with the Kolmogorov-Smirnov distance as the difference. p: the chance of a difference as "
    "certain as this anywhere in the table, were the images alike; prompts are the unit. Other shares of the "
    "classes alone make differences, too."
)
_BY = {
    PREDICTION_POWERED: "labels and all detectors",
    VALIDATED_ELSEWHERE: "all detectors and their errors in another study",
}
_RESTS_ON = {PREDICTION_POWERED: "Labels", VALIDATED_ELSEWHERE: "Verdicts"}
"""What `n` counts in the rows of a prompt."""


@makes_table("bias_estimates", needs_labels=False)
def bias_estimates(numbers: TableNumbers) -> Table | None:
    """Each T2I model's bias over all images by every estimator; None where none was made."""
    rows = estimate_rows(numbers.metrics, numbers.attribute)
    if _leading(rows) is None:
        return None
    shares = [name for name in dict.fromkeys(rows["metric"]) if str(name).startswith(LABEL_SHARE)]
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
        caption=(_CAPTION if _leading(rows) == PREDICTION_POWERED else _CAPTION_ELSEWHERE).format(
            attribute=attribute_in_words(numbers.attribute)
        ),
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
        notes=("Model bias scores from labels are without what few labels add by chance, by a detector not.",),
        grouped=True,
    )


@makes_table("prompt_estimates", needs_labels=False)
def prompt_estimates(numbers: TableNumbers) -> Table | None:
    """Prompts from most to least biased, by labels and all detectors, or without labels by the detectors' errors
    elsewhere; None where nothing was estimated."""
    rows = estimate_rows(numbers.metrics, numbers.attribute)
    leading = _leading(rows) or ""
    rows = rows[(rows["variant"] == leading) & (rows["metric"] == _OF_PROMPTS)]
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
                () if known else (f"{DASH}: no image of the prompt has a {_RESTS_ON[leading].lower()[:-1]}.",),
            )
        )
    first, second = attribute_named(numbers.attribute).classes[:2]
    return Table(
        name="prompt_estimates",
        caption=_PROMPT_CAPTION.format(
            by=_BY[leading],
            first=label_in_words(first, in_sentence=True),
            second=label_in_words(second, in_sentence=True),
        ),
        attribute=numbers.attribute,
        columns=(
            Column("prompt_id", "Prompt", kind="name"),
            Column("t2i_model", "T2I model", kind="name"),
            Column(_OF_PROMPTS, "Prompt bias score", has_intervals=True),
            Column("labels", _RESTS_ON[leading]),
        ),
        rows=tuple(table_rows),
    )


def study_differences(rows: pd.DataFrame) -> Table:
    """What detectors say of the images of two studies, the differences that matter first.

    Args:
        rows: columns as in `vocabulary.columns.DIFFERENCE_COLUMNS`.
    """
    table_rows = []
    for row in rows.to_dict("records"):
        names = [name for name in (row["detector"], row["other_detector"]) if name]
        what = _DIFFERING[row["what"]]
        table_rows.append(
            Row(
                f"{row['attribute']}, {what}, {' and '.join(names)}",
                (
                    Cell(what, key=row["what"]),
                    Cell(" and ".join(names)),
                    *(_number(row[name], math.nan, math.nan, decimals=3) for name in _SIDES),
                    _number(row["p_value"], math.nan, math.nan, decimals=3),
                    Cell("yes" if row["flagged"] else "no"),
                ),
            )
        )
    return Table(
        name="study_differences",
        caption=_DIFFERENCES_CAPTION,
        attribute=str(rows["attribute"].iloc[0]),
        columns=(
            Column("what", "Number", kind="name"),
            Column("detectors", "Detectors", kind="name"),
            Column("value_there", "There"),
            Column("value_here", "Here"),
            Column("difference", "Difference"),
            Column("p_value", "p"),
            Column("flagged", "Beyond chance, and large", kind="name"),
        ),
        rows=tuple(table_rows),
    )


def _leading(rows: pd.DataFrame) -> str | None:
    """The variant to trust first of those that there are; None: neither."""
    return next((each for each in _BY if (rows["variant"] == each).any()), None)


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
    label = metric.removeprefix(LABEL_SHARE)
    return label_in_words(label)
