"""Metric tables, spelled out number by number, and what a table made of them says."""

from __future__ import annotations

import math
from typing import NamedTuple

import pandas as pd

from detector_bench.tables import (
    Table,
)
from detector_bench.vocabulary.columns import METRIC_COLUMNS

NAN = math.nan
UNUSED = {"variant": None, "ci_low": NAN, "ci_high": NAN}
GENDER_METRICS = [
    "precision",
    "recall",
    "f1",
    "filter_rate",
    "recall_male",
    "recall_female",
    "accuracy_male",
    "accuracy_female",
    "accuracy",
]


class Entry(NamedTuple):
    detector: str
    t2i_model: str
    metric: str
    value: float
    n: int = 12
    n_left_out: int = 0
    n_clear: str = ""
    category: str = "all"
    prompt_id: str = "all"


def metric_table(entries: list[Entry], *, attribute: str = "gender") -> pd.DataFrame:
    rows = [{**entry._asdict(), "attribute": attribute, **UNUSED} for entry in entries]
    return pd.DataFrame(rows)[list(METRIC_COLUMNS)]


def images(detector: str, t2i_model: str, *, errors: int = 0, total: int = 24) -> list[Entry]:
    return [
        Entry(detector, t2i_model, "images", total),
        Entry(detector, t2i_model, "images_error", errors),
        Entry(detector, t2i_model, "images_not_run", 0),
    ]


def bias(detector: str, t2i_model: str, score: float, deviation: float, **counted: int) -> list[Entry]:
    return [
        *images(detector, t2i_model),
        Entry(detector, t2i_model, "model_bias_score", score, **counted),
        Entry(detector, t2i_model, "model_bias_score_deviation", deviation, **counted),
    ]


def truth(t2i_model: str, score: float) -> list[Entry]:
    return [
        Entry("ground_truth", t2i_model, "images", 24),
        Entry("ground_truth", t2i_model, "model_bias_score", score),
    ]


def written(table: Table) -> list[list[str]]:
    return [[f"*{cell.written()}*" if cell.bold else cell.written() for cell in row.cells] for row in table.rows]
