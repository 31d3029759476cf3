"""Rows of the tests of T2I models: which are biased, and which two differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from detector_bench.estimation import PartlyLabelled
from detector_bench.estimation.t2i_model_tests import t2i_model_tests

BIAS_COLUMNS = (
    *("attribute", "metric", "t2i_model", "value", "ci_low", "ci_high", "chance", "p_value", "p_adjusted"),
    *("beyond_chance", "prompts"),
)
"""A score of one T2I model, about the T2I model and not the images. `ci_low` and `ci_high` belong to the test, so
they are wider than those of the metric table; `chance` is what a T2I model without bias would be estimated to
have on average, of a model bias score; empty where all images have a label."""

DIFFERENCE_COLUMNS = (
    *("attribute", "metric", "first", "second", "first_value", "second_value", "difference", "ci_low", "ci_high"),
    *("p_value", "p_adjusted", "told_apart", "prompts"),
)
"""The score of one T2I model less that of another, over the prompts that both have."""


@dataclass
class T2IModelRows:
    """Rows of both tables, gathered attribute by attribute."""

    _biases: list[dict[str, Any]] = field(default_factory=list)
    _differences: list[dict[str, Any]] = field(default_factory=list)

    def add(
        self, images: PartlyLabelled, attribute: str, t2i_models: Sequence[str], *, level: float, seed: int
    ) -> None:
        """Test the T2I models of one attribute, some of whose images have a label, or all.

        Args:
            images: the attribute's labels and verdicts.
            attribute: its name.
            t2i_models: names, in order.
            level: that all statements of a table about the attribute hold together.
            seed: of what is drawn.
        """
        found = t2i_model_tests(images, confidence=level, seed=seed)
        for each in found.biases:
            self._biases.append(
                {
                    "attribute": attribute,
                    "metric": each.metric,
                    "t2i_model": t2i_models[each.t2i_models[0]],
                    "value": each.value,
                    "ci_low": each.low,
                    "ci_high": each.high,
                    "chance": each.chance,
                    "p_value": each.p_value,
                    "p_adjusted": each.p_adjusted,
                    "beyond_chance": each.beyond_chance(level),
                    "prompts": each.prompts,
                }
            )
        for each in found.differences:
            first, second = (t2i_models[place] for place in each.t2i_models)
            self._differences.append(
                {
                    "attribute": attribute,
                    "metric": each.metric,
                    "first": first,
                    "second": second,
                    "first_value": each.scores[0],
                    "second_value": each.scores[1],
                    "difference": each.value,
                    "ci_low": each.low,
                    "ci_high": each.high,
                    "p_value": each.p_value,
                    "p_adjusted": each.p_adjusted,
                    "told_apart": each.beyond_chance(level),
                    "prompts": each.prompts,
                }
            )

    @property
    def biases(self) -> pd.DataFrame:
        """Columns as in `BIAS_COLUMNS`."""
        return pd.DataFrame(self._biases, columns=list(BIAS_COLUMNS))

    @property
    def differences(self) -> pd.DataFrame:
        """Columns as in `DIFFERENCE_COLUMNS`."""
        return pd.DataFrame(self._differences, columns=list(DIFFERENCE_COLUMNS))
