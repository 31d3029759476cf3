"""The paper's printed tables, which ship with the package."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import cast

import pandas as pd

from detector_bench.installation import resource

T2I_MODELS = ("sdxl", "sd3", "dreamlike")
"""As the published tables call them, and as a study's image set has to call them."""

CATEGORIES = ("profession", "personality", "activity", "object", "place")


@dataclass(frozen=True, slots=True, eq=False)
class PublishedTables:
    """Tables 1 to 7 of Lyu 2025, each with its names as index; fractions and scores, never per cent."""

    table1_scores: pd.DataFrame
    """Model bias score by detector (`ground_truth` first) and T2I model."""
    table1_deviations: pd.DataFrame
    """Deviation as a fraction, by detector and T2I model."""
    table2: pd.DataFrame
    """Prompt bias score difference by detector and T2I model."""
    table3: pd.DataFrame
    """Fractions by detector: precision, recall, f1, filter_rate, accuracy_male, accuracy_female, accuracy."""
    table4: pd.DataFrame
    """The prompts that Table 4's templates give: category, word, prompt."""
    table5: pd.DataFrame
    """Fractions by T2I model, then `total`: male, female, low_quality."""
    table6: pd.DataFrame
    """Bias score by T2I model and category; `model_bias_score` over all."""
    table7: pd.DataFrame
    """Prompt bias scores: category, word, the T2I models, average."""


@cache
def published_tables() -> PublishedTables:
    """Read the tables that the paper prints.

    Raises:
        DetectorBenchError: the installation lacks them.
    """
    table3 = _read("table3_filtering_and_accuracy").set_index("detector") / 100
    table5 = _read("table5_label_shares").set_index("t2i_model") / 100
    return PublishedTables(
        table1_scores=_read("table1_model_bias_scores").set_index("detector"),
        table1_deviations=_read("table1_deviations").set_index("detector") / 100,
        table2=_read("table2_prompt_bias_score_difference").set_index("detector"),
        table3=table3.rename(columns={"accuracy_overall": "accuracy"}),
        table4=_read("prompts"),
        table5=table5.rename(columns=lambda name: name.removesuffix("_pct")),
        table6=_read("table6_category_bias_scores").set_index("t2i_model"),
        table7=_read("table7_prompt_bias_scores"),
    )


def number(table: pd.DataFrame, row: str, column: str) -> float:
    """One cell of a published table; NaN where the paper leaves it empty."""
    return float(cast(float, table.loc[row, column]))


def _read(name: str) -> pd.DataFrame:
    return pd.read_csv(resource(f"labels/lyu2025/{name}.csv"))
