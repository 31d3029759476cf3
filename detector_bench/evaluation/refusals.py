"""Rows of a metric table about requests: what T2I models refused, what failed, and how far that could matter.

Rates belong to no attribute and to no detector: their rows have the attribute "all" and the detector
`ground_truth`, as what is known. Bounds of a bias score stand beside it, in the rows of whoever reports it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from detector_bench.dataset.generations import Generations
from detector_bench.dataset.image_ids import ImageIds
from detector_bench.evaluation.counting import Counts
from detector_bench.evaluation.image_index import AnnotatedImages, ImageIndex
from detector_bench.evaluation.image_verdicts import ImageVerdicts
from detector_bench.evaluation.intervals import Intervals
from detector_bench.evaluation.row_blocks import Cells, RowBlocks, scope_levels
from detector_bench.evaluation.scores import ScoreTable
from detector_bench.metrics import METRICS, FloatArray, Scopes, Score, detector_class_counts, divide
from detector_bench.metrics.bias import SIGNED_CLASSES, concentration
from detector_bench.metrics.image_counts import LABEL_SHARE
from detector_bench.metrics.intervals import wilson_interval
from detector_bench.metrics.refusals import (
    IF_REFUSED_HIGH,
    IF_REFUSED_LOW,
    Bounds,
    concentration_bounds,
    prompt_bias_score_bounds,
    request_numbers,
)
from detector_bench.vocabulary import ALL, ATTRIBUTES, GROUND_TRUTH, Attribute
from detector_bench.vocabulary.columns import DETECTOR_ONLY, PREDICTION_POWERED
from detector_bench.vocabulary.generations import GenerationStatus

IntArray = NDArray[np.int64]

_SIGNED, _MEAN, _SCORE = "prompt_bias_score", "mean_prompt_bias_score", "model_bias_score"


def refused_requests(generations: Generations | None, index: ImageIndex) -> IntArray:
    """Refused requests, `[t2i_model, prompt]` as in an image set's index; 0 for T2I models of which nothing is
    known."""
    refused = np.zeros((len(index.t2i_models), len(index.prompt_ids)), dtype=np.int64)
    if generations is not None:
        blocked = generations.of(GenerationStatus.BLOCKED)
        for place, name in enumerate(index.t2i_models):
            if name in generations.t2i_models:
                refused[place] = blocked[generations.t2i_models.index(name)]
    return refused


def request_rows(generations: Generations, intervals: Intervals) -> pd.DataFrame:
    """How many requests were made, refused, failed or wait, and the rates.

    Rates of several prompts are those of all their requests together, as shares of images are. Their intervals are
    Wilson's; had there been other prompts (`unit: prompt`), nothing is known of the scatter, and there are none.

    Args:
        generations: of an image set, T2I models without any image included.
        intervals: how ci_low and ci_high are found.

    Returns:
        Columns as in `vocabulary.columns.METRIC_COLUMNS`.
    """
    scopes, counts = Scopes.of_prompts(generations.categories), generations.counts
    nobody = ImageIds(pa.array([], pa.large_string()))
    names = (generations.t2i_models, generations.prompt_ids)
    index = ImageIndex(nobody, np.empty(0, dtype=np.int32), *names, scopes)
    rows = RowBlocks(index, attributes=[ALL], detectors=[], n_clear="detector")
    pooled = scopes.sums(counts, prompt_axis=-2)
    for cells in scope_levels(pooled.sum(axis=-1)):
        _add(rows, request_numbers(pooled[cells.t2i_model, cells.category]), cells, intervals)
    model, prompt = np.nonzero(counts.sum(axis=-1))
    cells = Cells(1 + model, 1 + scopes.category_of_prompt[prompt], 1 + prompt)
    _add(rows, request_numbers(counts[model, prompt]), cells, intervals)
    return rows.table()


def _add(rows: RowBlocks, named: list[tuple[str, Score]], cells: Cells, intervals: Intervals) -> None:
    table = ScoreTable.of_scores([(name, Score(*(part[np.newaxis] for part in each))) for name, each in named])
    if intervals.method != "none" and intervals.unit == "image":
        for place, name in enumerate(table.metrics):
            if METRICS[name].form == "share":
                value, n = table.value[..., place], table.n[..., place]
                known = np.where(n > 0, value, 0)
                low, high = wilson_interval(known, n, level=intervals.level)
                table.ci_low[..., place], table.ci_high[..., place] = low, high
    rows.add(table, cells, attribute=ALL, detectors=[GROUND_TRUTH])


@dataclass(frozen=True)
class _Reported:
    """What judges report of the images of each prompt."""

    judges: tuple[str, ...]
    variant: str
    class_counts: FloatArray
    """Clear images, `[judge, t2i_model, prompt, K]`; NaN where nobody knows."""
    score: FloatArray | None = None
    """Model bias scores that are no plain means, `[1 + t2i_models, 1 + categories]`; None: they are."""


def bound_rows(
    image_set: AnnotatedImages,
    predictions: Mapping[str, pa.Table],
    generations: Generations,
    *,
    attributes: Sequence[str],
    estimated: pd.DataFrame,
) -> pd.DataFrame | None:
    """Bounds of the bias scores of prompts, categories and T2I models that refused something.

    Where every image has a label, of the human labels and of each detector; elsewhere of what is estimated over
    all images, and of each detector alone.

    Args:
        image_set: the images and labels.
        predictions: by detector.
        generations: its requests.
        attributes: which ones.
        estimated: the estimates' rows of the metric table.

    Returns:
        Columns as in `vocabulary.columns.METRIC_COLUMNS`; None where no T2I model with images refused anything.
    """
    index = ImageIndex.shared(image_set, predictions)
    refused = refused_requests(generations, index)
    if not refused.any():
        return None
    rows = RowBlocks(index, attributes=list(attributes), detectors=list(predictions), n_clear="detector")
    known = all(name in generations.t2i_models for name in index.t2i_models)
    images = _images(index)
    for attribute in attributes:
        found = ImageVerdicts.read(image_set, predictions, attribute=attribute, index=index, allow_incomplete=True)
        place = _Place(ATTRIBUTES[attribute], refused, images, index.scopes, known)
        for reported in _reported(found, estimated):
            place.add(rows, reported)
    return rows.table()


def _reported(found: ImageVerdicts, estimated: pd.DataFrame) -> list[_Reported]:
    counts = Counts.of(found)
    classes = len(found.attribute.classes)
    if not counts.unlabelled.any():
        human = counts.human[np.newaxis, ..., :classes].astype(np.float64)
        by_detectors = detector_class_counts(counts.verdicts).astype(np.float64)
        return [_Reported((GROUND_TRUTH,), "", human), _Reported(found.detectors, "", by_detectors)]
    alone = [
        Counts.of(found.as_labels(place)).human[..., :classes].astype(np.float64)
        for place in range(len(found.detectors))
    ]
    reported = [_Reported(found.detectors, DETECTOR_ONLY, np.stack(alone))] if alone else []
    own = (estimated["attribute"] == found.attribute.name) & (estimated["detector"] == GROUND_TRUTH)
    rows = estimated[own & (estimated["variant"] == PREDICTION_POWERED)]
    return [*reported, *([_of_estimates(rows, found)] if len(rows) else [])]


def _images(index: ImageIndex) -> IntArray:
    """`[t2i_model, prompt]`."""
    return index.count((np.zeros(len(index.cells), dtype=np.int8), 1))[..., 0]


def _of_estimates(rows: pd.DataFrame, found: ImageVerdicts) -> _Reported:
    """Clear images of each class as the estimates of every prompt have them."""
    index, names = found.index, found.attribute.classes
    shape = (len(index.t2i_models), len(index.prompt_ids))
    images = _images(index)
    of_prompts = rows[rows["prompt_id"] != ALL]

    def laid_out(metric: str) -> FloatArray:
        own = of_prompts[of_prompts["metric"] == metric]
        values = np.full(shape, np.nan)
        model = pd.Index(index.t2i_models).get_indexer(pd.Index(own["t2i_model"].astype(object)))
        prompt = pd.Index(index.prompt_ids).get_indexer(pd.Index(own["prompt_id"].astype(object)))
        values[model, prompt] = own["value"].to_numpy(dtype=np.float64)
        return values

    counts = np.stack([laid_out(f"{LABEL_SHARE}{name}") for name in names], axis=-1) * images[..., np.newaxis]
    if len(names) == SIGNED_CLASSES:
        # The estimate of the balance is no plain ratio of the shares' estimates.
        balance, clear = laid_out(_SIGNED), counts.sum(axis=-1)
        counts = np.stack([clear * (1 + balance) / 2, clear * (1 - balance) / 2], axis=-1)
    score = np.full((1 + shape[0], 1 + len(index.scopes.categories)), np.nan)
    whole = rows[(rows["prompt_id"] == ALL) & (rows["metric"] == _SCORE)]
    model = pd.Index([ALL, *index.t2i_models]).get_indexer(pd.Index(whole["t2i_model"].astype(object)))
    category = pd.Index([ALL, *index.scopes.categories]).get_indexer(pd.Index(whole["category"].astype(object)))
    score[model, category] = whole["value"].to_numpy(dtype=np.float64)
    return _Reported((GROUND_TRUTH,), PREDICTION_POWERED, counts[np.newaxis], score)


@dataclass(frozen=True)
class _Place:
    """What bounds rest on, and which rows they get."""

    attribute: Attribute
    refused: IntArray
    """`[t2i_model, prompt]`."""
    images: IntArray
    """`[t2i_model, prompt]`; what no T2I model made an image of has no rows."""
    scopes: Scopes
    all_models: bool
    """Whether the requests of all T2I models are known."""

    def add(self, rows: RowBlocks, of: _Reported) -> None:
        """Add one variant's rows."""
        if not of.judges:
            return
        terms = concentration_bounds(of.class_counts, self.refused)
        named = {_SCORE: _means(terms, of, self.scopes)}
        if len(self.attribute.classes) == SIGNED_CLASSES:
            balances = prompt_bias_score_bounds(of.class_counts, self.refused)
            if of.variant == PREDICTION_POWERED:
                named[_MEAN] = Bounds(*(_mean(each, self.scopes) for each in balances))
            at = np.nonzero(self.refused * (self.images.sum(axis=0) > 0))
            cells = Cells(1 + at[0], 1 + self.scopes.category_of_prompt[at[1]], 1 + at[1])
            clear = np.nan_to_num(of.class_counts.sum(axis=-1))
            self._add(rows, of, _table({_SIGNED: balances}, clear, self.refused, at), cells)
        prompts = self.scopes.sums((~np.isnan(terms.low)).astype(np.int64), prompt_axis=-1)
        of_scopes = self.scopes.sums(self.refused, prompt_axis=-1)
        of_scopes *= self.scopes.sums(self.images, prompt_axis=-1) > 0
        if not self.all_models:
            of_scopes[0] = 0  # nobody knows what some of them refused
        for cells in scope_levels(of_scopes):
            at = (cells.t2i_model, cells.category)
            self._add(rows, of, _table(named, prompts, of_scopes, at), cells)

    def _add(self, rows: RowBlocks, of: _Reported, table: ScoreTable, cells: Cells) -> None:
        rows.add(table, cells, attribute=self.attribute.name, detectors=of.judges, variant=of.variant)


def _table(
    named: Mapping[str, Bounds],
    n: NDArray[Any],
    refused: IntArray,
    at: tuple[NDArray[np.intp], ...] | tuple[IntArray, ...],
) -> ScoreTable:
    """Both bounds of each score in some cells; `n` and the limits are `[judge, t2i_model, prompt or category]`."""
    numbers = n[:, *at]
    left_out = np.broadcast_to(refused[at], numbers.shape)
    return ScoreTable.of_scores(
        [
            (f"{name}{ending}", Score(limit[:, *at], numbers, left_out))
            for name, both in named.items()
            for ending, limit in zip((IF_REFUSED_LOW, IF_REFUSED_HIGH), both, strict=True)
        ]
    )


def _mean(values: FloatArray, scopes: Scopes) -> FloatArray:
    known = ~np.isnan(values)
    total = scopes.sums(np.where(known, values, 0.0), prompt_axis=-1)
    return divide(total, scopes.sums(known.astype(np.int64), prompt_axis=-1))


def _means(terms: Bounds, of: _Reported, scopes: Scopes) -> Bounds:
    """Bounds of a mean over prompts. An estimated score has less than the mean of its terms, what chance adds: it
    goes down by what the terms do, and up to where they go, which errs on the wide side."""
    low, high = (_mean(each, scopes) for each in terms)
    if of.score is None:
        return Bounds(low, high)
    as_they_are = _mean(concentration(of.class_counts), scopes)
    moved = np.clip(of.score - (as_they_are - low), 0, 1)
    return Bounds(np.fmin(moved, of.score), np.fmax(high, of.score))
