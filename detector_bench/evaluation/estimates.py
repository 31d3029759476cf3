"""Bias over all images of a set from the labels of some: rows of the variants `prediction_powered` and
`labels_only`.

The rows stand under the detector `ground_truth`, as they say what the human labels of all images would say. How
far each detector's verdicts helped stands in rows of its own (`explained_variance`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from detector_bench.dataset.generations import Generations
from detector_bench.dataset.sample_file import LabelSample
from detector_bench.estimation import Estimate, Estimates, estimate
from detector_bench.estimation.equal_errors import assumption_test
from detector_bench.estimation.misclassification import misclassification
from detector_bench.estimation.misclassification_matrix import misclassification_matrix
from detector_bench.evaluation.detectors_alone import add_detectors_alone
from detector_bench.evaluation.image_index import AnnotatedImages, ImageIndex
from detector_bench.evaluation.image_verdicts import ImageVerdicts
from detector_bench.evaluation.intervals import Intervals
from detector_bench.evaluation.labels_of_sample import LabelsOfSample
from detector_bench.evaluation.refusals import refused_requests
from detector_bench.evaluation.row_blocks import Cells, RowBlocks, scope_levels
from detector_bench.evaluation.scores import ScoreTable
from detector_bench.evaluation.t2i_model_tests import T2IModelRows
from detector_bench.metrics import LABEL_SHARE
from detector_bench.vocabulary import GROUND_TRUTH, Attribute
from detector_bench.vocabulary.columns import LABELS_ONLY, METRIC_COLUMNS, MISCLASSIFICATION, PREDICTION_POWERED

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]


_NOT_CLEAR = "what is not clear"
_DEALS = 199
"""Of the test whether errors are equal in all prompts."""


class EstimateSettings(BaseModel):
    """How bias over all images is estimated from the labels of some."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    about: Literal["images", "t2i_model"] = "images"
    """images: what the labels of all images of the set would say. t2i_model: what the T2I models would show with
    endlessly many images of the same prompts; its intervals are wider."""
    level: float = Field(default=0.95, gt=0, lt=1)
    """Of the intervals."""
    seed: int = Field(default=0, ge=0)
    """Of the studies that are drawn for the interval of the model bias score."""


@dataclass(frozen=True)
class EstimatedBias:
    """What is estimated of all images."""

    rows: pd.DataFrame
    """Columns as in `vocabulary.columns.METRIC_COLUMNS`."""
    notes: dict[str, tuple[str, ...]]
    """By attribute: what is left out of the estimates, and what they rest on, a sentence each."""
    tests: T2IModelRows = field(default_factory=T2IModelRows)
    """Which T2I models are biased, and which two differ; also of attributes of which every image has a label."""

    @classmethod
    def none(cls, notes: Mapping[str, tuple[str, ...]]) -> EstimatedBias:
        """Nothing is estimated, and why."""
        return cls(pd.DataFrame(columns=list(METRIC_COLUMNS)), dict(notes))

    def beside(self, other: EstimatedBias) -> EstimatedBias:
        """The rows and sentences of both."""
        rows = [each.rows for each in (self, other) if len(each.rows)]
        notes = {name: self.notes.get(name, ()) + other.notes.get(name, ()) for name in (self.notes | other.notes)}
        return EstimatedBias(pd.concat(rows, ignore_index=True) if rows else self.rows, notes)


def estimate_bias(
    image_set: AnnotatedImages,
    predictions: Mapping[str, pa.Table],
    *,
    attributes: Sequence[str],
    sample: LabelSample | None,
    settings: EstimateSettings,
    complete: bool = False,
    detectors_alone: Intervals | None = None,
    generations: Generations | None = None,
) -> EstimatedBias:
    """Estimate shares of labels and bias scores over all images of every T2I model.

    Args:
        image_set: images, prompts and the human labels that there are.
        predictions: by detector, rows as in `vocabulary.columns.PREDICTIONS`.
        attributes: those without a single label are left out, and those of which every image has one.
        sample: the images that were drawn to be labelled, and how; None: labelled images are taken as drawn at
            random within each prompt.
        settings: what the estimates are about.
        complete: also of attributes of which every image has a label.
        detectors_alone: how intervals of the rows `detector_only` are found; None: without these rows, which the
            evaluation makes by itself.
        generations: the requests behind the images; None: nothing is known of what was refused.
    """
    index = ImageIndex.shared(image_set, predictions)
    rows = RowBlocks(index, attributes=list(attributes), detectors=list(predictions), n_clear="detector")
    notes, tests = {}, T2IModelRows()
    for attribute in attributes:
        found = ImageVerdicts.read(image_set, predictions, attribute=attribute, index=index, allow_incomplete=True)
        labels = LabelsOfSample.of(found, image_set, sample)
        if labels.any_clear:
            names = found.index.t2i_models
            refused = None if generations is None else refused_requests(generations, found.index)
            known = None if generations is None else generations.t2i_models
            tests.add(
                labels.images,
                attribute,
                names,
                level=settings.level,
                seed=settings.seed,
                refused=refused,
                known=known,
            )
        if not labels.any_label or (labels.complete and not complete):
            continue
        for variant, use_detectors in ((PREDICTION_POWERED, True), (LABELS_ONLY, False)):
            estimates = estimate(
                labels.images,
                about=settings.about,
                confidence=settings.level,
                use_detectors=use_detectors,
                seed=settings.seed,
            )
            add_estimates(
                rows, estimates if labels.any_clear else _shares_alone(estimates), labels, found, variant
            )
            if use_detectors:
                _add_numbers(rows, "explained_variance", estimates.explained, labels, variant)
        faults = _add_misclassification(rows, labels, found, settings) if labels.any_clear else []
        if detectors_alone is not None:
            add_detectors_alone(rows, found, intervals=detectors_alone)
        notes[attribute] = (*labels.notes(), *faults)
    return replace(EstimatedBias(rows.table(), notes) if notes else EstimatedBias.none({}), tests=tests)


def add_estimates(
    rows: RowBlocks,
    estimates: Estimates,
    labels: LabelsOfSample,
    found: ImageVerdicts,
    variant: str,
    *,
    detector: str = GROUND_TRUTH,
) -> None:
    """Add the rows of all scopes and prompts."""
    images = labels.images.images_of_cell.reshape(labels.images.t2i_models, -1)
    scopes = _table(estimates.scopes, labels.attribute)
    name, whose = labels.attribute.name, [detector]
    for cells in scope_levels(found.index.scopes.sums(images, prompt_axis=-1)):
        rows.add(
            scopes.at((slice(None), cells.t2i_model, cells.category)),
            cells,
            attribute=name,
            detectors=whose,
            variant=variant,
        )
    t2i_model, prompt = np.nonzero(images)
    cells = Cells(1 + t2i_model, 1 + found.index.scopes.category_of_prompt[prompt], 1 + prompt)
    rows.add(
        _table(estimates.prompts, labels.attribute).at((slice(None), t2i_model, prompt)),
        cells,
        attribute=name,
        detectors=whose,
        variant=variant,
    )


def _shares_alone(estimates: Estimates) -> Estimates:
    """Without bias scores, which are about clear images."""

    def shares(named: Mapping[str, Estimate]) -> dict[str, Estimate]:
        return {
            name: each
            if name.startswith(LABEL_SHARE)
            else Estimate(
                *(np.full_like(each.value, np.nan),) * 3, np.zeros_like(each.n), each.n + each.n_left_out
            )
            for name, each in named.items()
        }

    return replace(estimates, scopes=shares(estimates.scopes), prompts=shares(estimates.prompts))


def _add_misclassification(
    rows: RowBlocks, labels: LabelsOfSample, found: ImageVerdicts, settings: EstimateSettings
) -> list[str]:
    """What each detector says once its errors are undone, and whether these are equal in all prompts.

    Returns:
        Of which detectors nothing can be undone, and why.
    """
    faults, images = [], labels.images
    p_values = np.full(len(labels.detectors), np.nan)
    for place, detector in enumerate(labels.detectors):
        if fault := misclassification_matrix(images, place).fault((*labels.attribute.classes, _NOT_CLEAR)):
            faults.append(f"{detector} cannot be corrected by its errors: {fault}.")
            continue
        estimates = misclassification(images, place, about=settings.about, confidence=settings.level)
        add_estimates(rows, estimates, labels, found, MISCLASSIFICATION, detector=detector)
        tested = assumption_test(images, place, seed=settings.seed, by_verdicts=labels.by_verdicts, deals=_DEALS)
        p_values[place] = tested.p_value
    _add_numbers(rows, "misclassification_p_value", p_values, labels, MISCLASSIFICATION)
    return faults


def _add_numbers(rows: RowBlocks, metric: str, values: FloatArray, labels: LabelsOfSample, variant: str) -> None:
    """One number for each detector, over everything."""
    if not labels.detectors:
        return
    shape = (len(labels.detectors), 1, 1)
    none, number = np.full(shape, np.nan), len(labels.images.labelled)
    others = np.full(shape, len(labels.images.truth) - number)
    table = ScoreTable((metric,), values.reshape(shape), np.full(shape, number), others, none, none)
    everything = Cells(*(np.zeros(1, dtype=np.int64) for _ in range(3)))
    rows.add(table, everything, attribute=labels.attribute.name, detectors=labels.detectors, variant=variant)


def _table(named: Mapping[str, Estimate], attribute: Attribute) -> ScoreTable:
    """One detector's (the ground truth's) scores side by side, labels by their names."""
    of_labels = {f"{LABEL_SHARE}{place}": f"{LABEL_SHARE}{label}" for place, label in enumerate(attribute.labels)}
    names = [of_labels.get(name, name) for name in named]
    value, low, high, n, left_out = (
        np.stack(arrays, axis=-1)[np.newaxis] for arrays in zip(*named.values(), strict=True)
    )
    return ScoreTable(tuple(names), value, n, left_out, low, high)
