"""Tables of a plan: how many labels and images take a T2I model's score to a half-width, of which prompts, and
with which detectors."""

from __future__ import annotations

import math

import pandas as pd

from detector_bench.metrics import LABEL_SHARE
from detector_bench.tables.table import DASH, Cell, Column, Row, Table
from detector_bench.tables.wording import attribute_in_words, fixed, whole
from detector_bench.vocabulary.columns import PREDICTION_POWERED

SCORES_IN_WORDS = {
    "model_bias_score": "model bias score",
    "mean_prompt_bias_score": "mean prompt bias score",
    "prompt_bias_score": "prompt bias score (average over prompts)",
}

_WIDEST = 15
_MINUTES_OF_HOUR = 60
_HOURS_WORTH_SAYING = 2


def score_in_words(score: str) -> str:
    """`model bias score`, `share of low_quality`."""
    return SCORES_IN_WORDS.get(score) or f"share of {score.removeprefix(LABEL_SHARE)}"


def duration(minutes: float) -> str:
    """`12 min`, `3.5 h`."""
    if math.isnan(minutes):
        return DASH
    hours = minutes / _MINUTES_OF_HOUR
    return f"{hours:.1f} h" if hours >= _HOURS_WORTH_SAYING else f"{math.ceil(minutes):.0f} min"


def audit_plan_table(rows: pd.DataFrame, *, attribute: str, level: float, is_guess: bool) -> Table:
    """Labels needed by each estimator and number of images; rows as in
    `evaluation.audit_plan.AUDIT_PLAN_COLUMNS`."""
    score, target = str(rows["score"].iloc[0]), float(rows["target_half_width"].iloc[0])
    made = []
    for row in rows.to_dict("records"):
        words = "Labels and all detectors" if row["variant"] == PREDICTION_POWERED else "Labels alone"
        missing = math.isnan(row["labels_needed"])
        why = f"a label on every image leaves ± {row['least_half_width']:.3f}"
        made.append(
            Row(
                f"{row['t2i_model']}, {words}, {row['images_per_prompt']:,.0f} images per prompt",
                (
                    Cell(row["t2i_model"]),
                    Cell(words, key=row["variant"]),
                    _number(row["images_per_prompt"]),
                    _number(row["labels"]),
                    Cell(fixed(row["half_width"], decimals=3), value=row["half_width"]),
                    _number(row["labels_needed"]),
                    _number(row["more_labels"]),
                    Cell(duration(row["minutes"]), value=row["minutes"]),
                    Cell(fixed(row["if_fair"], decimals=3), value=row["if_fair"]),
                ),
                (f"{DASH}: {why}.",) if missing else (),
            )
        )
    guess = " A guess: no label says yet how much labels vary." if is_guess else ""
    return Table(
        name="audit_plan",
        caption=f"Labels that take the {score_in_words(score)} of perceived {attribute_in_words(attribute)} to"
        f" ± {target:g} ({100 * level:g} % interval).{guess}",
        attribute=attribute,
        columns=(
            Column("t2i_model", "T2I model", kind="name"),
            Column("estimator", "Estimated from", kind="name"),
            Column("images_per_prompt", "Images per prompt"),
            Column("labels", "Labels", group="Now", full_heading="Labels now"),
            Column("half_width", "±", group="Now", full_heading="± now"),
            Column("labels_needed", "Labels", group=f"For ± {target:g}", full_heading="Labels needed"),
            Column("more_labels", "More", group=f"For ± {target:g}", full_heading="More labels"),
            Column("minutes", "Time", group=f"For ± {target:g}", full_heading="Time for them"),
            Column("if_fair", "Score if fair"),
        ),
        rows=tuple(made),
        notes=(
            "Half-widths to come are forecasts: in simulated studies a single one was off by 10 to 16 % on"
            " average, and one in ten by more than a fifth to a third (benchmarks/audit_plan.py).",
            "Score if fair: the model bias score that as many clear images of a perfectly fair T2I model show on"
            " average, by chance alone.",
        ),
        grouped=True,
    )


def prompts_to_label(rows: pd.DataFrame, *, attribute: str, words: dict[str, str], each_by_itself: bool) -> Table:
    """The prompts that need labels most; rows as in `evaluation.audit_plan.PROMPTS_TO_LABEL_COLUMNS`."""
    order = ["half_width"] if each_by_itself else ["more_labels", "half_width"]
    ordered = rows.sort_values(order, ascending=False, kind="stable", na_position="first").head(_WIDEST)
    made = [
        Row(
            f"{row['prompt_id']} ({row['t2i_model']})",
            (
                Cell(words.get(row["prompt_id"], row["prompt_id"]), key=row["prompt_id"]),
                Cell(row["t2i_model"]),
                _number(row["images"]),
                _number(row["labels"]),
                Cell(fixed(row["half_width"], decimals=2), value=row["half_width"]),
                _number(row["labels_needed"]),
                _number(row["more_labels"]),
            ),
            (f"{DASH}: no number of labels takes it there.",) if math.isnan(row["labels_needed"]) else (),
        )
        for row in ordered.to_dict("records")
    ]
    shown = (
        f" The {len(made)} of {len(rows):,} outputs (prompt and T2I model) that need most."
        if len(made) < len(rows)
        else ""
    )
    about = (
        "Labels that each prompt's own bias score needs."
        if each_by_itself
        else "How the labels lie on the prompts: as equal as those at hand allow."
    )
    return Table(
        name="prompts_to_label",
        caption=f"{about}{shown}",
        attribute=attribute,
        columns=(
            Column("prompt_id", "Prompt", kind="name"),
            Column("t2i_model", "T2I model", kind="name"),
            Column("images", "Images"),
            Column("labels", "Labels now"),
            Column("half_width", "± of its score now"),
            Column("labels_needed", "Labels needed"),
            Column("more_labels", "More labels"),
        ),
        rows=tuple(made),
    )


def detectors_worth(rows: pd.DataFrame, *, attribute: str, detectors: tuple[str, ...]) -> Table:
    """What the labels needed would be with fewer detectors; rows as in
    `evaluation.audit_plan.DETECTORS_WORTH_COLUMNS`."""
    made = []
    for row in rows.to_dict("records"):
        chosen = row["detectors"].split(", ")
        gone = [name for name in detectors if name not in chosen]
        words = (
            "all" if not gone else f"all but {gone[0]}" if len(gone) == 1 and len(chosen) > 1 else row["detectors"]
        )
        made.append(
            Row(
                f"{row['t2i_model']}, {words}",
                (
                    Cell(row["t2i_model"]),
                    Cell(words, key=row["detectors"]),
                    Cell(fixed(100 * row["explained"], decimals=0), value=row["explained"]),
                    _number(row["labels_needed"]),
                ),
            )
        )
    return Table(
        name="detectors_worth",
        caption="Labels that the same half-width needs with fewer detectors, in proportion to the variance that"
        " they leave.",
        attribute=attribute,
        columns=(
            Column("t2i_model", "T2I model", kind="name"),
            Column("detectors", "Detectors", kind="name"),
            Column("explained", "Explained (%)"),
            Column("labels_needed", "Labels needed"),
        ),
        rows=tuple(made),
        notes=(
            "Explained: part of the labels' variance within prompts, on prompts that the working model has not"
            " seen; with few labels it is rough, and sets that differ by little are alike.",
        ),
        grouped=True,
    )


def _number(value: float) -> Cell:
    return Cell(DASH if math.isnan(value) else whole(float(value)), value=float(value))
