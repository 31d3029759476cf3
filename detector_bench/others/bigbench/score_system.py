"""BIGbench's scores of one image set, as rows of a metric table."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

from detector_bench.evaluation.intervals import Intervals
from detector_bench.others.bigbench.entry import BigBenchEntry
from detector_bench.others.bigbench.score_task import ScoreTask
from detector_bench.others.bigbench.side_effect_rows import SideEffectRows
from detector_bench.others.judgements import Judgements
from detector_bench.others.score_system import score_rows


class BigBench(BigBenchEntry):
    """BIGbench's implicit and explicit bias scores and manifestation factor. See docs/bigbench.md."""

    def notes(self, judgements: Judgements) -> dict[str, tuple[str, ...]]:
        """Mended mistakes in the reference files, and prompts without a weight or a category."""
        return {self.variant: ScoreTask.of(self, judgements).notes}

    def files(self, judgements: Judgements, intervals: Intervals) -> dict[str, pd.DataFrame]:
        """What asking for a class does to the shares of the others: of each prompt, and on average."""
        task = ScoreTask.of(self, judgements)
        if not any(task.leaves_open(name).any() for name in self.attributes):
            return {}
        judgements = replace(judgements, scopes=task.scopes)
        features = task.layout.features(judgements, race_mapping=self.race_mapping)
        return SideEffectRows.of(task, judgements, features).files(level=intervals.level)

    def rows(self, judgements: Judgements, intervals: Intervals) -> pd.DataFrame:
        """Compute the scores of all judges as rows of a metric table.

        Raises:
            ConfigError: no prompt has a reference, some have no weight, or a file names unknown prompts.
            DataError: a file of the settings is wrong.
        """
        task = ScoreTask.of(self, judgements)
        judgements = replace(judgements, scopes=task.scopes)
        features = task.layout.features(judgements, race_mapping=self.race_mapping)
        table = score_rows(
            judgements,
            features,
            task.scores,
            variant=self.variant,
            intervals=intervals,
        )
        if judgements.drawn is None:
            table = pd.concat([table, SideEffectRows.of(task, judgements, features).chance()], ignore_index=True)
        # Rows about prompts that take no part, and categories of a factor that has none.
        about_nothing = (table["n"] == 0) & (table["n_left_out"] == 0)
        return table[~about_nothing].reset_index(drop=True)
