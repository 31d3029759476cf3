"""Builds the long metric table, column by column: one row per number; and the confusion matrices behind it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, get_args

import numpy as np
import pandas as pd
import pyarrow as pa

from detector_bench.errors import ConfigError
from detector_bench.evaluation.coded_predictions import CodedPredictions
from detector_bench.evaluation.counting import Counts
from detector_bench.evaluation.detectors_alone import add_detectors_alone
from detector_bench.evaluation.image_index import ImageIndex, LabelledImages, words_in_order
from detector_bench.evaluation.image_verdicts import ImageVerdicts, check_names
from detector_bench.evaluation.intervals import Intervals, IntervalScores
from detector_bench.evaluation.measured_values import MeasuredValues
from detector_bench.evaluation.row_blocks import Cells, RowBlocks, scope_levels
from detector_bench.evaluation.scores import (
    detector_prompt_scores,
    detector_scope_scores,
    human_prompt_scores,
    human_scope_scores,
)
from detector_bench.metrics import NClear, pool
from detector_bench.vocabulary import ALL, ATTRIBUTES, GROUND_TRUTH, Status, attribute_named
from detector_bench.vocabulary.columns import CONFUSION_COLUMNS, METRIC_COLUMNS

_BOTH_DEFINITIONS = get_args(NClear)

_COUNTS = ("images", "images_unlabelled")
"""All that there is to say of the human labels where there is none."""

NO_VERDICT = "no_verdict"
"""In place of a verdict: the detector failed on the image, or never ran on it."""


class Evaluation(NamedTuple):
    """What comes of comparing detectors with the human labels."""

    metrics: pd.DataFrame
    """The metric table, columns as in `vocabulary.columns.METRIC_COLUMNS`."""
    confusion: pd.DataFrame
    """Images by label and verdict, columns as in `vocabulary.columns.CONFUSION_COLUMNS`."""


def evaluate(
    image_set: LabelledImages,
    predictions: Mapping[str, pa.Table],
    *,
    attributes: Sequence[str] | None = None,
    n_clear: NClear = "detector",
    allow_incomplete: bool = False,
    intervals: Intervals | None = None,
    detectors_alone: bool = True,
) -> pd.DataFrame:
    """Compare detectors with the human labels: the metric table of `evaluate_with_confusion`, which says how."""
    return evaluate_with_confusion(
        image_set,
        predictions,
        attributes=attributes,
        n_clear=n_clear,
        allow_incomplete=allow_incomplete,
        intervals=intervals,
        detectors_alone=detectors_alone,
    ).metrics


def evaluate_with_confusion(
    image_set: LabelledImages,
    predictions: Mapping[str, pa.Table],
    *,
    attributes: Sequence[str] | None = None,
    n_clear: NClear = "detector",
    allow_incomplete: bool = False,
    intervals: Intervals | None = None,
    detectors_alone: bool = True,
) -> Evaluation:
    """Compare detectors with the human labels, and say what detectors make of all images.

    The human labels stand in the table as the detector `ground_truth`. Images without a human label for the
    attribute are in no comparison with the humans, and counted in the metric `images_unlabelled`. Where there are
    any, each detector also has rows of the variant `detector_only`: its scores over all images that T2I models
    made (see `detectors_alone`). An attribute without any label has these rows, and the counts of its images.
    Numbers that cover several prompts or T2I models pool the images (filtering, accuracy, counts), or average over
    all pairs of T2I model and prompt (bias scores). Detectors that do not judge an attribute have no rows for it.
    Balanced and alignment accuracy and the precision of each class have no rows for single prompts. Errors of
    measured values, such as ages in years, have rows where the image set has measured values of the attribute.

    Rows come by attribute; then by level: everything, each T2I model, each category, each T2I model and
    category, each T2I model and prompt; then by detector (ground truth first, then as in `predictions`); then by
    T2I model (order of first appearance in `images`), category (of first appearance in `prompts`) and prompt (as
    in `prompts`); then by metric. Those of the variant `detector_only` follow, in the same order. Where there is
    no image, there is no row. The order of the rows in a detector's predictions does not matter.

    Args:
        image_set: images, prompts and human labels.
        predictions: by detector, rows as in `vocabulary.columns.PREDICTIONS`; the column `value` is needed for
            measured values only.
        attributes: which ones; None for all that have human labels, or, without any label, that detectors judge.
        n_clear: whose count of clear images is the denominator of a detector's prompt bias score.
        allow_incomplete: leave images without a prediction out of a detector's numbers, instead of raising; they
            are in the metric `images_not_run` and in n_left_out.
        intervals: how ci_low and ci_high are found; None leaves them NaN.
        detectors_alone: False: no rows of the variant `detector_only`.

    Returns:
        The metric table: words are categoricals; n_clear is missing for the metrics that it does not alter,
        variant for all that rest on labelled images; value is NaN where a denominator is empty, ci_low and ci_high
        where there is no interval. And the confusion matrices of every attribute, detector, T2I model and
        category, in the same order.

    Raises:
        ConfigError: an attribute that nobody has labelled and no detector judges, a reserved detector name, or an
            unknown n_clear.
        DataError: predictions that contradict the image set or the attribute's classes.
        IncompletePredictionsError: an image without a prediction.
    """
    if n_clear not in _BOTH_DEFINITIONS:
        raise ConfigError(f"n_clear: {n_clear!r} (accepted: {', '.join(_BOTH_DEFINITIONS)})")
    check_names(predictions)
    chosen = _chosen(image_set, predictions, attributes)
    index = ImageIndex.shared(image_set, predictions)
    rows = RowBlocks(index, attributes=chosen, detectors=list(predictions), n_clear=n_clear)
    intervals = intervals or Intervals(method="none")
    confusion = []
    for attribute in chosen:
        verdicts = ImageVerdicts.read(
            image_set, predictions, attribute=attribute, index=index, allow_incomplete=allow_incomplete
        )
        counts = Counts.of(verdicts)
        measured = MeasuredValues.of_verdicts(image_set, verdicts, intervals=intervals)
        if counts.joint.images or not detectors_alone:
            _add_attribute(rows, counts, measured, n_clear=n_clear, intervals=intervals)
        else:
            _add_counts(rows, counts)
        if detectors_alone and counts.unlabelled.any():
            add_detectors_alone(rows, verdicts, intervals=intervals)
        confusion.append(confusion_table(counts))
    return Evaluation(rows.table(), pd.concat(confusion, ignore_index=True))


def _chosen(
    image_set: LabelledImages, predictions: Mapping[str, pa.Table], attributes: Sequence[str] | None
) -> list[str]:
    if isinstance(predictions, CodedPredictions):
        judged = set(predictions.judged_attributes)
    else:
        judged = {word for table in predictions.values() for word in words_in_order(table["attribute"])}
    known = image_set.attributes or [name for name in ATTRIBUTES if name in judged]
    chosen = list(known if attributes is None else attributes)
    for name in chosen:
        attribute_named(name)
        if name not in image_set.attributes and name not in judged:
            labelled = ", ".join(image_set.attributes) or "none"
            raise ConfigError(
                f"nothing to evaluate of {name!r}: no image has a label of it (labelled: {labelled}), and no "
                "detector judges it"
            )
    if not chosen:
        raise ConfigError("nothing to evaluate: no image has a label, and there is no prediction")
    return chosen


def _add_attribute(
    rows: RowBlocks, counts: Counts, measured: MeasuredValues | None, *, n_clear: NClear, intervals: Intervals
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
    for cells in scope_levels(counts.scopes.sums(images, prompt_axis=-1)):
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


def _add_counts(rows: RowBlocks, counts: Counts) -> None:
    """How many images there are of an attribute without a label: nothing is compared, and nothing is the truth."""
    attribute, detectors = counts.attribute.name, [GROUND_TRUTH]
    t2i_model, prompt = np.nonzero(counts.unlabelled)
    human = human_scope_scores(counts).of_metrics(_COUNTS)
    for cells in scope_levels(counts.scopes.sums(counts.unlabelled, prompt_axis=-1)):
        place = (slice(None), cells.t2i_model, cells.category)
        rows.add(human.at(place), cells, attribute=attribute, detectors=detectors)
    cells = Cells(1 + t2i_model, 1 + counts.scopes.category_of_prompt[prompt], 1 + prompt)
    human = human_prompt_scores(counts, at=(t2i_model, prompt)).of_metrics(_COUNTS)
    rows.add(human, cells, attribute=attribute, detectors=detectors)


def with_rows(metrics: pd.DataFrame, rows: pd.DataFrame) -> pd.DataFrame:
    """A metric table with further rows; words stay categoricals."""
    columns = {}
    for name in METRIC_COLUMNS:
        if isinstance(metrics[name].dtype, pd.CategoricalDtype):
            known = metrics[name].cat.categories
            new = [word for word in rows[name].dropna().unique() if word not in known]
            words = pd.CategoricalDtype(known.append(pd.Index(new, dtype=known.dtype)))
            columns[name] = pd.concat([metrics[name].astype(words), rows[name].astype(words)], ignore_index=True)
        else:
            columns[name] = pd.concat([metrics[name], rows[name].astype(metrics[name].dtype)], ignore_index=True)
    return pd.DataFrame(columns)


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
