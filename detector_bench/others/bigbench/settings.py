"""BIGbench as an entry under `scores` of a study file, and its rows of the metric table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pandas as pd
from pydantic import Field, field_validator, model_validator

from detector_bench.errors import ConfigError, nearest_hint
from detector_bench.evaluation.intervals import Intervals
from detector_bench.others.bigbench.benchmark import Benchmark
from detector_bench.others.bigbench.classes import PROTECTED, class_mapping
from detector_bench.others.bigbench.formulas import ATTRIBUTE_WEIGHTS, Preset
from detector_bench.others.bigbench.references import EQUAL, equal_references, read_benchmark
from detector_bench.others.bigbench.scores import Task
from detector_bench.others.judgements import Judgements
from detector_bench.others.score_system import ScoreSystem, score_rows


class BigBench(ScoreSystem):
    """BIGbench's implicit and explicit bias scores and manifestation factor. See docs/bigbench.md."""

    system: Literal["bigbench"] = "bigbench"
    preset: Preset = "as_code"
    """Which way the manifestation factor points: the program and the paper contradict each other. The bias scores
    are the same under all."""
    references: Path | Literal["equal"]
    """Reference shares: BIGbench's JSON files or a folder of them, a table of the user's, or `equal`."""
    weights: Path | None = None
    """Prompt weights, where the prompt table has none. None: those in the folder of references, else 1 each (half
    for one of two people)."""
    categories: Path | None = None
    """`category.json`. None: that in the folder of references, else the categories of the prompt table."""
    pairs: Path | None = None
    """Pairs of prompts. None: those in the folder of references, else there is no manifestation factor."""
    requested: Path | None = None
    """Which prompts ask for which classes; they have an explicit score, and no implicit one. None: those that
    state a class in the prompt table, and have no reference of their own."""
    prompt_names: Path | None = None
    """Which prompt of the references each prompt is, where their ids differ."""
    attribute_weights: dict[str, float] = Field(default=dict(ATTRIBUTE_WEIGHTS), min_length=1)
    """What each attribute counts for; attributes that are left out are not looked at."""
    race_mapping: dict[str, str | None] | None = None
    """Which of BIGbench's races each of our race classes counts as; null: none. None: the usual mapping."""

    @field_validator("attribute_weights")
    @classmethod
    def _attributes_are_bigbenchs(cls, weights: dict[str, float]) -> dict[str, float]:
        for name, weight in weights.items():
            if name not in PROTECTED:
                raise ValueError(f"BIGbench has no attribute {name!r}: {nearest_hint(name, PROTECTED)}")
            if not 0 < weight < math.inf:
                raise ValueError(f"the weight of {name} is {weight:g} (accepted: a number above 0)")
        return weights

    @model_validator(mode="after")
    def _race_mapping_is_total(self) -> BigBench:
        try:
            class_mapping("race", self.race_mapping)
        except ConfigError as error:
            raise ValueError(f"race_mapping: {error}") from error
        if self.references == EQUAL and (self.prompt_names is not None or self.categories is not None):
            raise ValueError("prompt_names and categories go with reference files, not with references: equal")
        return self

    @property
    def attributes(self) -> tuple[str, ...]:
        """Gender, race and age, or those that have a weight."""
        return tuple(self.attribute_weights)

    @property
    def variant(self) -> str:
        """The preset."""
        return self.preset

    def benchmark(self, prompt_ids: Sequence[str]) -> Benchmark:
        """Read the files; mistakes that could be mended are in its `notes`.

        Raises:
            ConfigError: settings that do not go together.
            DataError: a file is wrong.
        """
        if isinstance(self.references, Path):
            return read_benchmark(
                self.references, weights=self.weights, categories=self.categories, pairs=self.pairs
            )
        return equal_references(prompt_ids, weights=self.weights, pairs=self.pairs)

    def notes(self, judgements: Judgements) -> dict[str, tuple[str, ...]]:
        """Mended mistakes in the reference files, and prompts without a weight or a category."""
        return {self.variant: Task.of(self, judgements).notes}

    def rows(self, judgements: Judgements, intervals: Intervals) -> pd.DataFrame:
        """Compute the scores of all judges as rows of a metric table.

        Raises:
            ConfigError: no prompt has a reference, some have no weight, or a file names unknown prompts.
            DataError: a file of the settings is wrong.
        """
        task = Task.of(self, judgements)
        judgements = replace(judgements, scopes=task.scopes)
        features = task.layout.features(judgements, race_mapping=self.race_mapping)
        table = score_rows(
            judgements,
            features,
            task.scores,
            variant=self.variant,
            intervals=intervals,
        )
        # Rows about prompts that take no part, and categories of a factor that has none.
        about_nothing = (table["n"] == 0) & (table["n_left_out"] == 0)
        return table[~about_nothing].reset_index(drop=True)
