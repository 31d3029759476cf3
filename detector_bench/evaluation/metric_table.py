"""Builds the long metric table, column by column: one row per number; and the confusion matrices behind it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, get_args

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from detector_bench.errors import ConfigError
from detector_bench.evaluation.counting import Counts
from detector_bench.evaluation.image_index import ImageIndex, LabelledImages
from detector_bench.evaluation.image_verdicts import ImageVerdicts, check_names
from detector_bench.evaluation.intervals import Intervals, IntervalScores
from detector_bench.evaluation.measured_values import MeasuredValues
from detector_bench.evaluation.scores import (
    ScoreTable,
    detector_prompt_scores,
    detector_scope_scores,
    human_prompt_scores,
    human_scope_scores,
)
from detector_bench.metrics import METRICS, NClear, pool
from detector_bench.vocabulary import ALL, GROUND_TRUTH, Status
from detector_bench.vocabulary.columns import CONFUSION_COLUMNS, METRIC_COLUMNS

IntArray = NDArray[np.int64]

_WORD_COLUMNS = ("detector", "attribute", "t2i_model", "category", "prompt_id", "metric", "n_clear", "variant")
_NUMBER_COLUMNS = ("value", "ci_low", "ci_high", "n", "n_left_out")
_BOTH_DEFINITIONS = get_args(NClear)
_MISSING = -1
"""Code of a missing word."""

NO_VERDICT = "no_verdict"
"""In place of a verdict: the detector failed on the image, or never ran on it."""


class Evaluation(NamedTuple):
    """What comes of comparing detectors with the human labels."""

    metrics: pd.DataFrame
    """The metric table, columns as in `vocabulary.columns.METRIC_COLUMNS`."""
    confusion: pd.DataFrame
    """Images by label and verdict, columns as in `vocabulary.columns.CONFUSION_COLUMNS`."""


class Cells(NamedTuple):
    """What the rows of one level cover, as codes; code 0 is "all"."""

    t2i_model: IntArray
    category: IntArray
    prompt: IntArray


def evaluate(
    image_set: LabelledImages,
    predictions: Mapping[str, pa.Table],
    *,
    attributes: Sequence[str] | None = None,
    n_clear: NClear = "detector",
    allow_incomplete: bool = False,
    intervals: Intervals | None = None,
) -> pd.DataFrame:
    """Compare detectors with the human labels: the metric table of `evaluate_with_confusion`, which says how."""
    return evaluate_with_confusion(
        image_set,
        predictions,
        attributes=attributes,
        n_clear=n_clear,
        allow_incomplete=allow_incomplete,
        intervals=intervals,
    ).metrics


def evaluate_with_confusion(
    image_set: LabelledImages,
    predictions: Mapping[str, pa.Table],
    *,
    attributes: Sequence[str] | None = None,
    n_clear: NClear = "detector",
    allow_incomplete: bool = False,
    intervals: Intervals | None = None,
) -> Evaluation:
    """Compare detectors with the human labels.

    The human labels stand in the table as the detector `ground_truth`. Images without a human label for the
    attribute are left out and counted in the metric `images_unlabelled`. Numbers that cover several prompts or T2I
    models pool the images (filtering, accuracy, counts), or average over all pairs of T2I model and prompt (bias
    scores). Detectors that do not judge an attribute have no rows for it. Balanced and alignment accuracy and the
    precision of each class have no rows for single prompts. Errors of measured values, such as ages in years, have
    rows where the image set has measured values of the attribute.

    Rows come by attribute; then by level: everything, each T2I model, each category, each T2I model and
    category, each T2I model and prompt; then by detector (ground truth first, then as in `predictions`); then by
    T2I model (order of first appearance in `images`), category (of first appearance in `prompts`) and prompt (as
    in `prompts`); then by metric. Where there is no image, there is no row. The order of the rows in a detector's
    predictions does not matter.

    Args:
        image_set: images, prompts and human labels.
        predictions: by detector, rows as in `vocabulary.columns.PREDICTIONS`; the column `value` is needed for
            measured values only.
        attributes: which ones; None for all that have human labels.
        n_clear: whose count of clear images is the denominator of a detector's prompt bias score.
        allow_incomplete: leave images without a prediction out of a detector's numbers, instead of raising; they
            are in the metric `images_not_run` and in n_left_out.
        intervals: how ci_low and ci_high are found; None leaves them NaN.

    Returns:
        The metric table: words are categoricals; n_clear is missing for the metrics that it does not alter,
        variant for all; value is NaN where a denominator is empty, ci_low and ci_high where there is no interval.
        And the confusion matrices of every attribute, detector, T2I model and category, in the same order.

    Raises:
        ConfigError: an attribute without labels, a reserved detector name, or an unknown n_clear.
        DataError: predictions that contradict the image set or the attribute's classes.
        IncompletePredictionsError: a labelled image without a prediction.
    """
    if n_clear not in _BOTH_DEFINITIONS:
        raise ConfigError(f"n_clear: {n_clear!r} (accepted: {', '.join(_BOTH_DEFINITIONS)})")
    chosen = list(image_set.attributes if attributes is None else attributes)
    check_names(image_set, predictions, attributes=chosen)
    index = ImageIndex.of(image_set)
    rows = _Rows(index, attributes=chosen, detectors=list(predictions), n_clear=n_clear)
    intervals = intervals or Intervals(method="none")
    confusion = []
    for attribute in chosen:
        verdicts = ImageVerdicts.read(
            image_set, predictions, attribute=attribute, index=index, allow_incomplete=allow_incomplete
        )
        counts = Counts.of(verdicts)
        measured = MeasuredValues.of_verdicts(image_set, verdicts, intervals=intervals)
        _add_attribute(rows, counts, measured, n_clear=n_clear, intervals=intervals)
        confusion.append(confusion_table(counts))
    return Evaluation(rows.table(), pd.concat(confusion, ignore_index=True))


def _add_attribute(
    rows: _Rows, counts: Counts, measured: MeasuredValues | None, *, n_clear: NClear, intervals: Intervals
) -> None:
    attribute = counts.attribute.name
    images = counts.human.sum(axis=-1) + counts.unlabelled
    t2i_model, prompt = np.nonzero(images)
    at = (t2i_model, prompt)
    with ThreadPoolExecutor(1) as beside:
        drawing = beside.submit(IntervalScores.of_counts, counts, intervals, n_clear=n_clear)
        human = human_scope_scores(counts, n_clear=n_clear)
        detectors = detector_scope_scores(counts, n_clear=n_clear)
        human_prompts = human_prompt_scores(counts, at=at, n_clear=n_clear)
        detector_prompts = detector_prompt_scores(counts, at=at, n_clear=n_clear)
    doubt = drawing.result()
    human, detectors = doubt.of_human(human), doubt.of_detectors(detectors)
    if measured is not None:
        detectors = detectors.beside(measured.scope_scores())
    for cells in _scope_levels(counts.scopes.sums(images, prompt_axis=-1)):
        chosen = (slice(None), cells.t2i_model, cells.category)
        rows.add(human.at(chosen), cells, attribute=attribute, detectors=[GROUND_TRUTH])
        rows.add(detectors.at(chosen), cells, attribute=attribute, detectors=counts.detectors)
    cells = Cells(1 + t2i_model, 1 + counts.scopes.category_of_prompt[prompt], 1 + prompt)
    human_prompts = doubt.of_human_prompts(human_prompts, at=at)
    detector_prompts = doubt.of_detector_prompts(detector_prompts, at=at)
    if measured is not None:
        detector_prompts = detector_prompts.beside(measured.prompt_scores(at=at))
    rows.add(human_prompts, cells, attribute=attribute, detectors=[GROUND_TRUTH])
    rows.add(detector_prompts, cells, attribute=attribute, detectors=counts.detectors)


def confusion_table(counts: Counts) -> pd.DataFrame:
    """The confusion matrices of one attribute, for every detector, T2I model and category.

    Args:
        counts: of the attribute. Images without a human label are not in it.

    Returns:
        Columns as in `vocabulary.columns.CONFUSION_COLUMNS`, words as categoricals. Rows come by detector, T2I
        model and category ("all" first), human label and verdict; human labels without an image have none.
    """
    pooled = pool(counts.verdicts, scopes=counts.scopes)
    detector, t2i_model, category, label = np.nonzero(pooled.sum(axis=-1))
    words = {
        "detector": (detector, counts.detectors),
        "attribute": (np.zeros_like(detector), (counts.attribute.name,)),
        "t2i_model": (t2i_model, (ALL, *counts.t2i_models)),
        "category": (category, (ALL, *counts.scopes.categories)),
        "human_label": (label, counts.attribute.labels),
    }
    verdicts = (*counts.attribute.classes, Status.FILTERED.value, NO_VERDICT)
    columns = {
        name: _categorical(np.repeat(codes, len(verdicts)), known) for name, (codes, known) in words.items()
    }
    columns["verdict"] = _categorical(np.tile(np.arange(len(verdicts)), detector.size), verdicts)
    images = pooled[detector, t2i_model, category, label].ravel()
    return pd.DataFrame(columns | {"images": images})[list(CONFUSION_COLUMNS)]


def _categorical(codes: np.ndarray, known: tuple[str, ...]) -> pd.Categorical:
    return pd.Categorical.from_codes(codes, pd.Index(known, dtype="str"))


def _scope_levels(images: IntArray) -> list[Cells]:
    """Everything, T2I models, categories, T2I models x categories: the cells of each level that have images."""
    one, rest = slice(0, 1), slice(1, None)
    levels = []
    for models, categories in ((one, one), (rest, one), (one, rest), (rest, rest)):
        filled = np.zeros(images.shape, dtype=bool)
        filled[models, categories] = images[models, categories] > 0
        model, category = np.nonzero(filled)
        levels.append(Cells(model, category, np.zeros_like(model)))
    return levels


class _Rows:
    """Collects blocks of rows as codes and numbers; words are attached once, at the end."""

    def __init__(
        self, index: ImageIndex, *, attributes: Sequence[str], detectors: Sequence[str], n_clear: NClear
    ) -> None:
        self._words: dict[str, list[str]] = {
            "detector": [GROUND_TRUTH, *detectors],
            "attribute": list(attributes),
            "t2i_model": [ALL, *index.t2i_models],
            "category": [ALL, *index.scopes.categories],
            "prompt_id": [ALL, *index.prompt_ids],
            "metric": [],
            "n_clear": list(_BOTH_DEFINITIONS),
            "variant": [],
        }
        self._n_clear = n_clear
        self._blocks: dict[str, list[NDArray[np.generic]]] = {
            name: [] for name in (*_WORD_COLUMNS, *_NUMBER_COLUMNS)
        }

    def add(self, scores: ScoreTable, cells: Cells, *, attribute: str, detectors: Sequence[str]) -> None:
        """Add one row per detector, cell and metric; the numbers are `[detector, cell, metric]`."""
        shape = scores.value.shape
        metrics = [self._metric_code(name) for name in scores.metrics]
        altered = [
            detectors != [GROUND_TRUTH] and name in METRICS and METRICS[name].depends_on_n_clear
            for name in scores.metrics
        ]
        detector = [self._words["detector"].index(name) for name in detectors]
        columns = {
            "detector": np.array(detector, dtype=np.int32)[:, np.newaxis, np.newaxis],
            "attribute": np.int32(self._words["attribute"].index(attribute)),
            "t2i_model": cells.t2i_model[:, np.newaxis],
            "category": cells.category[:, np.newaxis],
            "prompt_id": cells.prompt[:, np.newaxis],
            "metric": np.array(metrics),
            "n_clear": np.where(altered, _BOTH_DEFINITIONS.index(self._n_clear), _MISSING),
            "variant": np.int32(_MISSING),
        }
        for name, codes in columns.items():
            self._blocks[name].append(np.broadcast_to(np.asarray(codes, dtype=np.int32), shape).ravel())
        for name in _NUMBER_COLUMNS:
            self._blocks[name].append(getattr(scores, name).ravel())

    def table(self) -> pd.DataFrame:
        """The rows added so far, as a metric table; they are let go, as there can be millions."""
        joined = {name: np.concatenate(self._blocks.pop(name)) for name in list(self._blocks)}
        words = {
            name: pd.Categorical.from_codes(
                joined[name].astype(np.int32, copy=False), pd.Index(self._words[name], dtype="str")
            )
            for name in _WORD_COLUMNS
        }
        numbers = {name: joined[name] for name in _NUMBER_COLUMNS}
        columns = words | numbers
        return pd.DataFrame({name: columns[name] for name in METRIC_COLUMNS}, copy=False)

    def _metric_code(self, name: str) -> int:
        names = self._words["metric"]
        if name not in names:
            names.append(name)
        return names.index(name)
