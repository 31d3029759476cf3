"""Bias over all images of a set from the labels of some: rows of the variants `prediction_powered` and
`labels_only`.

The rows stand under the detector `ground_truth`, as they say what the human labels of all images would say. How
far each detector's verdicts helped stands in rows of its own (`explained_variance`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from detector_bench.dataset.sample_file import LabelSample
from detector_bench.estimation import UNLABELLED, Estimate, Estimates, PartlyLabelled, estimate
from detector_bench.evaluation.detectors_alone import add_detectors_alone
from detector_bench.evaluation.image_index import ImageIndex, LabelledImages
from detector_bench.evaluation.image_verdicts import ImageVerdicts
from detector_bench.evaluation.intervals import Intervals
from detector_bench.evaluation.row_blocks import Cells, RowBlocks, scope_levels
from detector_bench.evaluation.scores import ScoreTable
from detector_bench.vocabulary import GROUND_TRUTH, LOW_QUALITY, Attribute
from detector_bench.vocabulary.columns import LABELS_ONLY, METRIC_COLUMNS, PREDICTION_POWERED, SampleDesign

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]

_FEW_LABELS = 5
"""Of a prompt, below which intervals of simulated studies held the truth less often than they say."""

_SHARE = "label_share_"


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
    image_set: LabelledImages,
    predictions: Mapping[str, pa.Table],
    *,
    attributes: Sequence[str],
    sample: LabelSample | None,
    settings: EstimateSettings,
    complete: bool = False,
    detectors_alone: Intervals | None = None,
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
    """
    index = ImageIndex.of(image_set)
    rows = RowBlocks(index, attributes=list(attributes), detectors=list(predictions), n_clear="detector")
    notes = {}
    for attribute in attributes:
        found = ImageVerdicts.read(image_set, predictions, attribute=attribute, index=index, allow_incomplete=True)
        labels = LabelsOfSample.of(found, image_set, sample)
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
            add_estimates(rows, estimates, labels, found, variant)
            if use_detectors:
                _add_explained(rows, estimates, labels)
        if detectors_alone is not None:
            add_detectors_alone(rows, found, intervals=detectors_alone)
        notes[attribute] = tuple(labels.notes())
    return EstimatedBias(rows.table(), notes) if notes else EstimatedBias.none({})


@dataclass(frozen=True, eq=False)
class LabelsOfSample:
    """The labels whose chance to be there is known, beside the verdicts of all detectors."""

    images: PartlyLabelled
    """Of the images that T2I models made."""
    attribute: Attribute
    index: ImageIndex
    detectors: tuple[str, ...]
    sampled: int | None
    """Images that were drawn; None: no sample is known."""
    outside: int
    """Labelled images that are not in the sample: their chance is unknown, and their labels are not used."""
    missing: int
    """Images of the sample that have no label yet."""

    @classmethod
    def of(cls, found: ImageVerdicts, image_set: LabelledImages, sample: LabelSample | None) -> LabelsOfSample:
        """Put labels, verdicts and chances side by side.

        Of a sample that is not labelled to its end, the labelled images are taken as a random part of it, as the
        desk asks for them in random order.
        """
        counted = found.index.counted
        places = np.flatnonzero(counted)
        cell, truth = found.index.cells[places], found.truth[places].copy()
        cells = len(found.index.t2i_models) * len(found.index.prompt_ids)
        sampled, outside, missing = None, 0, 0
        probability = np.full(len(places), np.nan)
        of_cells = np.ones(cells)
        if sample is not None:
            chance = np.full(len(found.truth), np.nan)
            drawn = sample.positions(image_set.images)
            chance[drawn] = sample.rows["probability"]
            chance = chance[places]
            in_sample = ~np.isnan(chance)
            outside = int(((truth != UNLABELLED) & ~in_sample).sum())
            truth[~in_sample] = UNLABELLED
            sampled, missing = int(in_sample.sum()), int((in_sample & (truth == UNLABELLED)).sum())
            finished = np.bincount(cell[truth != UNLABELLED], minlength=cells)
            in_cell = np.bincount(cell[in_sample], minlength=cells)
            if sample.design is SampleDesign.DISAGREEMENT:
                probability = chance * (finished / np.maximum(in_cell, 1))[cell]
            of_models = _of_t2i_models(found, sample, drawn)
            of_cells = np.repeat(of_models, len(found.index.prompt_ids))
        labelled = truth != UNLABELLED
        if sample is None or sample.design is not SampleDesign.DISAGREEMENT:
            images, labels = np.bincount(cell, minlength=cells), np.bincount(cell[labelled], minlength=cells)
            probability = (labels / np.maximum(images, 1))[cell]
        images_and_labels = PartlyLabelled(
            truth=truth,
            verdicts=found.counted[:, places],
            cell=cell,
            t2i_models=len(found.index.t2i_models),
            scopes=found.index.scopes,
            classes=len(found.attribute.classes),
            probability=np.where(labelled, probability, np.nan),
            cell_probability=of_cells,
        )
        return cls(images_and_labels, found.attribute, found.index, found.detectors, sampled, outside, missing)

    @property
    def any_label(self) -> bool:
        """Whether there is a label to begin with."""
        return bool(len(self.images.labelled))

    @property
    def complete(self) -> bool:
        """Whether every image has a label."""
        return len(self.images.labelled) == len(self.images.truth)

    def notes(self) -> list[str]:
        """What is left out, and what the estimates rest on."""
        images, name = self.images, self.attribute.name
        labels, cells = len(images.labelled), images.images_of_cell > 0
        said = [
            f"{labels:,} labels of {name} speak for {len(images.truth):,} images"
            + ("." if self.sampled is None else f"; {self.sampled:,} images were drawn to be labelled.")
        ]
        if self.sampled is None:
            said.append(
                "No sample says how they were chosen: they are taken as drawn at random within each prompt."
            )
        if self.outside:
            said.append(f"{self.outside:,} labelled images are not in the sample: their labels are left out.")
        if self.missing:
            said.append(f"{self.missing:,} images of the sample have no label yet.")
        without = int((cells & (images.labels_of_cell == 0) & (images.cell_probability == 1)).sum())
        if without:
            said.append(
                f"{without:,} of {int(cells.sum()):,} prompts of the T2I models have no label: nothing is said of "
                "them, and means over prompts leave them out."
            )
        few = (images.labels_of_cell > 0) & (
            images.labels_of_cell < np.minimum(_FEW_LABELS, images.images_of_cell)
        )
        if few.any():
            said.append(
                f"{int(few.sum()):,} prompts have fewer than {_FEW_LABELS} labels: their intervals are rough."
            )
        said += self._low_quality() + self._without_verdicts()
        return said

    def _low_quality(self) -> list[str]:
        truth = self.images.truth[self.images.labelled]
        clear = np.bincount(self.images.cell[self.images.labelled], truth < self.images.classes, self.images.cells)
        none = int(((self.images.labels_of_cell > 0) & (clear == 0)).sum())
        if not none:
            return []
        return [
            f"In {none:,} prompts no labelled image is clear (most are {LOW_QUALITY}): their bias scores rest on "
            "the detectors and the other prompts."
        ]

    def _without_verdicts(self) -> list[str]:
        lacking = (self.images.verdicts[:, self.images.labelled] > self.images.classes).sum(axis=1)
        return [
            f"{detector} has no verdict on {int(number):,} labelled images: there it says nothing."
            for detector, number in zip(self.detectors, lacking, strict=True)
            if number
        ]


def _of_t2i_models(found: ImageVerdicts, sample: LabelSample, drawn: IntArray) -> FloatArray:
    """`[t2i_model]`: the chance of a prompt to get a label; 1 for T2I models that are not in the sample."""
    t2i_model, _ = found.index.places
    chances = np.ones(len(found.index.t2i_models))
    chances[t2i_model[drawn]] = sample.rows["cell_probability"]
    return chances


def add_estimates(
    rows: RowBlocks, estimates: Estimates, labels: LabelsOfSample, found: ImageVerdicts, variant: str
) -> None:
    """Add the rows of all scopes and prompts."""
    images = labels.images.images_of_cell.reshape(labels.images.t2i_models, -1)
    scopes = _table(estimates.scopes, labels.attribute)
    name, whose = labels.attribute.name, [GROUND_TRUTH]
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


def _add_explained(rows: RowBlocks, estimates: Estimates, labels: LabelsOfSample) -> None:
    if not labels.detectors:
        return
    shape = (len(labels.detectors), 1, 1)
    none, number = np.full(shape, np.nan), len(labels.images.labelled)
    table = ScoreTable(
        ("explained_variance",),
        estimates.explained.reshape(shape),
        np.full(shape, number),
        np.full(shape, len(labels.images.truth) - number),
        none,
        none,
    )
    everything = Cells(*(np.zeros(1, dtype=np.int64) for _ in range(3)))
    rows.add(
        table, everything, attribute=labels.attribute.name, detectors=labels.detectors, variant=PREDICTION_POWERED
    )


def _table(named: Mapping[str, Estimate], attribute: Attribute) -> ScoreTable:
    """One detector's (the ground truth's) scores side by side, labels by their names."""
    names = [
        f"{_SHARE}{attribute.labels[int(name.removeprefix(_SHARE))]}" if name.startswith(_SHARE) else name
        for name in named
    ]
    value, low, high, n, left_out = (
        np.stack(arrays, axis=-1)[np.newaxis] for arrays in zip(*named.values(), strict=True)
    )
    return ScoreTable(tuple(names), value, n, left_out, low, high)
