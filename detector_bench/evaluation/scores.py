"""Which metrics stand in a metric table, and their values for many detectors and cells at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from detector_bench.evaluation.counting import Counts
from detector_bench.metrics import METRICS, CountArray, NClear, human_as_detector, pool
from detector_bench.metrics.image_counts import NamedScores, label_numbers, verdict_numbers

PromptCells = tuple[NDArray[np.intp], NDArray[np.intp]]
"""Positions on the axes t2i_model and prompt of the cells that have images."""


class ScoreTable(NamedTuple):
    """Named scores side by side: arrays `[detector, ..., metric]`."""

    metrics: tuple[str, ...]
    value: NDArray[np.float64]
    n: NDArray[np.int64]
    n_left_out: NDArray[np.int64]
    ci_low: NDArray[np.float64]
    ci_high: NDArray[np.float64]
    """NaN where there is no interval."""

    @classmethod
    def of_scores(cls, named: NamedScores) -> ScoreTable:
        """Put scores of one shape side by side, without intervals."""
        values = np.stack([score.value for _, score in named], axis=-1)
        return cls(
            tuple(name for name, _ in named),
            values,
            np.stack([score.n for _, score in named], axis=-1).astype(np.int64),
            np.stack([score.n_left_out for _, score in named], axis=-1).astype(np.int64),
            np.full(values.shape, np.nan),
            np.full(values.shape, np.nan),
        )

    def at(self, place: tuple[Any, ...]) -> ScoreTable:
        """The same metrics in some cells only; `place` indexes the axes before the last."""
        names, *arrays = self
        return ScoreTable(names, *(array[place] for array in arrays))

    def of_metrics(self, names: Sequence[str]) -> ScoreTable:
        """The same cells with some of the metrics only, in their order here."""
        kept = [place for place, name in enumerate(self.metrics) if name in names]
        known = tuple(self.metrics[place] for place in kept)
        return self.at((..., kept))._replace(metrics=known)

    def beside(self, other: ScoreTable) -> ScoreTable:
        """These metrics, then those of a table of the same detectors and cells."""
        arrays = (np.concatenate(pair, axis=-1) for pair in zip(self[1:], other[1:], strict=True))
        return ScoreTable(self.metrics + other.metrics, *arrays)


def detector_scope_scores(counts: Counts, *, n_clear: NClear) -> ScoreTable:
    """Detectors' metrics for every scope: `[detector, 1 + T2I models, 1 + categories, metric]`."""
    verdicts, scopes = _laid_out_for_sums(counts.verdicts), counts.scopes
    pooled = pool(verdicts, scopes=scopes)
    named = verdict_numbers(pooled, scopes.sums(counts.not_run, prompt_axis=-1))
    for info in METRICS.with_rows("scopes", counts.attribute):
        score = info.scores(verdicts, scopes=scopes, n_clear=n_clear, pooled=pooled)
        named += info.named(score, info.words(counts.attribute))
    return ScoreTable.of_scores(named)


def detector_prompt_scores(counts: Counts, *, at: PromptCells, n_clear: NClear) -> ScoreTable:
    """Detectors' metrics for some prompts of some T2I models: `[detector, cell, metric]`."""
    verdicts = _laid_out_for_sums(counts.verdicts[:, *at])
    named = verdict_numbers(verdicts, counts.not_run[:, *at])
    for info in METRICS.with_rows("prompts", counts.attribute):
        named += info.named(info.prompt_scores(verdicts, n_clear=n_clear), info.words(counts.attribute))
    return ScoreTable.of_scores(named)


def human_scope_scores(counts: Counts, *, n_clear: NClear = "detector") -> ScoreTable:
    """The human labels' metrics for every scope: `[1, 1 + T2I models, 1 + categories, metric]`."""
    human, scopes = human_as_detector(counts.human)[np.newaxis], counts.scopes
    unlabelled = scopes.sums(counts.unlabelled, prompt_axis=-1)[np.newaxis]
    named = label_numbers(pool(human, scopes=scopes), unlabelled, counts.attribute.labels)
    for info in METRICS.with_rows("human", counts.attribute):
        score = info.scores(human, scopes=scopes, n_clear=n_clear)
        named += info.named(score, info.words(counts.attribute))
    return ScoreTable.of_scores(named)


def human_prompt_scores(counts: Counts, *, at: PromptCells, n_clear: NClear = "detector") -> ScoreTable:
    """The human labels' metrics for some prompts of some T2I models: `[1, cell, metric]`."""
    human = human_as_detector(counts.human[at])[np.newaxis]
    unlabelled = counts.unlabelled[at][np.newaxis]
    named = label_numbers(human, unlabelled, counts.attribute.labels)
    for info in METRICS.with_rows("prompts", counts.attribute):
        if info.actual_of:
            score = info.prompt_scores(human, n_clear=n_clear)
            named.append((info.actual_of, score._replace(n_left_out=unlabelled)))
    return ScoreTable.of_scores(named)


def _laid_out_for_sums(counts: CountArray) -> CountArray:
    """The same array, in memory so that adding up truths or verdicts runs over long rows, not four numbers."""
    ends, fronts = (-2, -1), (0, 1)
    return np.moveaxis(np.ascontiguousarray(np.moveaxis(counts, ends, fronts)), fronts, ends)
