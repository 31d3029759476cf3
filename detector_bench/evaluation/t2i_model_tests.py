"""Rows of the tests of T2I models: which are biased, and which two differ."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from detector_bench.estimation import PartlyLabelled
from detector_bench.estimation.refusal_effects import RefusalEffect, refusal_effects
from detector_bench.estimation.t2i_model_tests import T2IModelTests, t2i_model_tests

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

REFUSAL_EFFECT_COLUMNS = (
    *("attribute", "metric", "first", "second", "refused", "refused_by_second"),
    *("if_refused_low", "if_refused_high", "could_explain", "could_hide"),
)
"""What refused requests could have made of a row of the other two tables; without a row, nothing was refused.
`second` is empty for the score of one T2I model. `refused` is empty where nothing is known of a T2I model's
requests; the test is then asked as if it had refused nothing. The score, or the difference, would have been
estimated between `if_refused_low` and `if_refused_high`; `could_explain`: what is said to be beyond chance might
not be, or be the other way round; `could_hide`: something might be beyond chance where nothing is said to be."""


@dataclass
class T2IModelRows:
    """Rows of both tables, gathered attribute by attribute."""

    _biases: list[dict[str, Any]] = field(default_factory=list)
    _differences: list[dict[str, Any]] = field(default_factory=list)
    _effects: list[dict[str, Any]] = field(default_factory=list)

    def add(
        self,
        images: PartlyLabelled,
        attribute: str,
        t2i_models: Sequence[str],
        *,
        level: float,
        seed: int,
        refused: NDArray[np.int64] | None = None,
        known: Collection[str] | None = None,
    ) -> None:
        """Test the T2I models of one attribute, some of whose images have a label, or all.

        Args:
            images: the attribute's labels and verdicts.
            attribute: its name.
            t2i_models: names, in order.
            level: that all statements of a table about the attribute hold together.
            seed: of what is drawn.
            refused: requests, `[t2i_model, prompt]`; None: nothing is known of any.
            known: T2I models whose requests are known; None: all. Of the others `refused` has 0, and rows NaN.
        """
        found = t2i_model_tests(images, confidence=level, seed=seed)
        if refused is not None:
            effects = refusal_effects(images, refused, found, confidence=level, seed=seed)
            names = t2i_models if known is None else known
            self._add_effects(found, effects, attribute, t2i_models, names)
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

    def _add_effects(
        self,
        tests: T2IModelTests,
        effects: tuple[Sequence[RefusalEffect | None], ...],
        attribute: str,
        t2i_models: Sequence[str],
        known: Collection[str],
    ) -> None:
        for family, of_family in zip((tests.biases, tests.differences), effects, strict=True):
            for test, effect in zip(family, of_family, strict=True):
                if effect is None:
                    continue
                names = [t2i_models[place] for place in test.t2i_models]
                numbers = zip(names, effect.refused, strict=True)
                refused = [float(number) if name in known else np.nan for name, number in numbers]
                self._effects.append(
                    {
                        "attribute": attribute,
                        "metric": test.metric,
                        "first": names[0],
                        "second": names[1] if len(names) > 1 else "",
                        "refused": refused[0],
                        "refused_by_second": refused[1] if len(names) > 1 else np.nan,
                        "if_refused_low": effect.low,
                        "if_refused_high": effect.high,
                        "could_explain": effect.could_explain,
                        "could_hide": effect.could_hide,
                    }
                )

    @property
    def refusal_effects(self) -> pd.DataFrame:
        """Columns as in `REFUSAL_EFFECT_COLUMNS`."""
        return pd.DataFrame(self._effects, columns=list(REFUSAL_EFFECT_COLUMNS))

    @property
    def biases(self) -> pd.DataFrame:
        """Columns as in `BIAS_COLUMNS`."""
        return pd.DataFrame(self._biases, columns=list(BIAS_COLUMNS))

    @property
    def differences(self) -> pd.DataFrame:
        """Columns as in `DIFFERENCE_COLUMNS`."""
        return pd.DataFrame(self._differences, columns=list(DIFFERENCE_COLUMNS))
