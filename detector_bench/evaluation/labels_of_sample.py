"""The labels of a sample beside the verdicts of all detectors, and what has to be said of what rests on them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from detector_bench.dataset.sample_file import LabelSample
from detector_bench.estimation import UNLABELLED, PartlyLabelled
from detector_bench.estimation.images_set_apart import chances_of_sample, labels_that_count
from detector_bench.evaluation.image_index import AnnotatedImages, ImageIndex, number_of_annotators
from detector_bench.evaluation.image_verdicts import ImageVerdicts
from detector_bench.sample_design import SampleDesign
from detector_bench.vocabulary import LOW_QUALITY, Attribute

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]

_FEW_LABELS = 5
"""Of a prompt, below which intervals of simulated studies held the truth less often than they say."""

_ROUNDING = 1e-9


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
    altered: int
    """Cells of which the sample lists more or fewer images than its probabilities say."""
    annotators: int
    """How many people's labels are used."""
    by_verdicts: bool
    """Whether the sample was spread over the detectors' verdicts within each cell."""
    set_apart: int = 0
    """Images of the calibration, which the sample does not speak for."""
    set_apart_idle: int = 0
    """Labels of images of the calibration that are not used, as no other image of their cell is labelled."""
    set_apart_missing: int = 0
    """Images of the calibration that have no label yet: the sample speaks for them, too."""

    @classmethod
    def of(cls, found: ImageVerdicts, image_set: AnnotatedImages, sample: LabelSample | None) -> LabelsOfSample:
        """Put labels, verdicts and chances side by side.

        Of a sample that is not labelled to its end, the labelled images are taken as a random part of it, as the
        desk asks for them in random order.
        """
        counted = found.index.counted
        # Of millions of images a second copy is a good part of the memory.
        places = slice(None) if counted.all() else np.flatnonzero(counted)
        cell, truth = found.index.cells[places], found.truth[places].astype(np.int64)
        cells = len(found.index.t2i_models) * len(found.index.prompt_ids)
        sampled, outside, missing, altered = None, 0, 0, 0
        apart, idle, without_label = np.zeros(len(truth), dtype=np.bool_), 0, 0
        probability = np.broadcast_to(np.nan, len(truth))
        of_cells = np.ones(cells)
        if sample is not None:
            chance = np.full(len(found.truth), np.nan)
            drawn = sample.positions(image_set.images)
            chance[drawn] = sample.rows["probability"]
            chance = chance[places]
            in_sample = ~np.isnan(chance)
            apart = _set_apart(sample, image_set, len(found.truth))[places]
            outside = int(((truth != UNLABELLED) & ~in_sample & ~apart).sum())
            truth[~in_sample & ~apart] = UNLABELLED
            without_label = int((apart & (truth == UNLABELLED)).sum())
            counts = labels_that_count(truth != UNLABELLED, apart, cell, cells=cells)
            idle = int(((truth != UNLABELLED) & ~counts).sum())
            truth[~counts] = UNLABELLED
            if sample.drawn:
                sampled, missing = int(in_sample.sum()), int((in_sample & (truth == UNLABELLED)).sum())
            finished = np.bincount(cell[counts & ~apart], minlength=cells)
            in_cell = np.bincount(cell[in_sample], minlength=cells)
            if sample.design is SampleDesign.DISAGREEMENT:
                probability = chances_of_sample(chance, in_sample, counts, apart, cell, cells=cells)
            else:
                altered = _altered(cell[~apart], chance[~apart], in_cell)
            of_cells = _of_cells(found, sample, drawn, finished=finished > 0, in_sample=in_cell > 0)
        labelled = truth != UNLABELLED
        if sample is None or sample.design is not SampleDesign.DISAGREEMENT:
            probability = np.broadcast_to(1.0, len(truth))
            if not labelled.all():
                # An image of the calibration that has no label yet is one of those that the sample speaks for.
                certain = labelled & apart
                images = np.bincount(cell[~certain], minlength=cells)
                labels = np.bincount(cell[labelled & ~certain], minlength=cells)
                probability = np.where(certain, 1.0, (labels / np.maximum(images, 1))[cell])
        images_and_labels = PartlyLabelled(
            truth=truth,
            verdicts=found.counted[:, places],
            cell=cell,
            t2i_models=len(found.index.t2i_models),
            scopes=found.index.scopes,
            classes=len(found.attribute.classes),
            probability=probability if labelled.all() else np.where(labelled, probability, np.nan),
            cell_probability=of_cells,
        )
        used = np.zeros(len(counted), dtype=np.bool_)
        used[places] = labelled
        return cls(
            images_and_labels,
            found.attribute,
            found.index,
            found.detectors,
            sampled,
            outside,
            missing,
            altered,
            annotators=number_of_annotators(image_set, found.index, found.attribute, used),
            by_verdicts=sample is not None and sample.design is SampleDesign.VERDICTS,
            set_apart=int(apart.sum()),
            set_apart_idle=idle,
            set_apart_missing=without_label,
        )

    @property
    def any_label(self) -> bool:
        """Whether there is a label to begin with."""
        return bool((self.images.truth != UNLABELLED).any())

    @property
    def any_clear(self) -> bool:
        """Whether a class is among the labels."""
        truth = self.images.truth
        return bool(((truth != UNLABELLED) & (truth < self.images.classes)).any())

    @property
    def complete(self) -> bool:
        """Whether every image has a label."""
        return self.images.complete

    def notes(self) -> list[str]:
        """What is left out, and what the estimates rest on."""
        labels, images = len(self.images.labelled), len(self.images.truth)
        verb = "speaks" if labels == 1 else "speak"
        speak = f"{_many(labels, 'label')} of {self.attribute.name} {verb} for {images:,} images"
        drawn = "." if self.sampled is None else f"; drawn to be labelled: {_many(self.sampled, 'image')}."
        parts = (self._sample(), self._without_labels(), self._few_labels(), self._labels(), self._verdicts())
        return [speak + drawn, *(said for part in parts for said in part)]

    def _sample(self) -> Iterator[str]:
        if self.sampled is None and not self.complete:
            yield "No sample says how they were chosen: they are taken as drawn at random within each prompt."
        if self.altered:
            yield (
                f"In {self._prompts(self.altered)} the sample lists more or fewer images than its probabilities "
                "say: it was changed by hand, and what is estimated may be wrong."
            )
        if self.outside:
            yield f"{_many(self.outside, 'labelled image')} outside of the sample: labels left out."
        if self.set_apart:
            yield from self._calibration()
        if self.missing:
            yield (
                f"{_many(self.missing, 'image')} of the sample without a label yet: the others are taken as a "
                "random part of it."
            )
        labelled = self._of_models(self.images.labels_of_cell > 0)
        drawn = self._of_models((self.images.cell_probability < 1) & (self.images.images_of_cell > 0))
        for name, found, of in zip(self.index.t2i_models, labelled, drawn, strict=True):
            if found and of:
                yield f"{name}: {found:,} of {of:,} prompts were drawn, and speak for all of them."

    def _calibration(self) -> Iterator[str]:
        used = self.set_apart - self.set_apart_missing - self.set_apart_idle
        yield f"{_many(used, 'label')} of the calibration among them: each counts for its own image alone."
        if self.set_apart_missing:
            yield f"{_many(self.set_apart_missing, 'image')} of the calibration without a label yet."
        if self.set_apart_idle:
            yield (
                f"{_many(self.set_apart_idle, 'label')} of the calibration left out: no other image of the same "
                "T2I model and prompt is labelled."
            )

    def _without_labels(self) -> Iterator[str]:
        images = self.images
        labelled = self._of_models(images.labels_of_cell > 0)
        there = self._of_models(images.images_of_cell > 0)
        for name, found, of in zip(self.index.t2i_models, labelled, there, strict=True):
            if of and not found:
                yield f"No image of {name} has a label: nothing is said of it, and rows of all leave it out."
        wanted = (
            (images.images_of_cell > 0) & (images.cell_probability == 1) & np.repeat(labelled > 0, images.prompts)
        )
        without = int((wanted & (images.labels_of_cell == 0)).sum())
        if without:
            yield (
                f"{without:,} of {self._prompts(int(wanted.sum()))} without a label: nothing is said of them, and "
                "means over prompts leave them out."
            )

    def _few_labels(self) -> Iterator[str]:
        labels = self.images.labels_of_cell
        few = int(((labels > 0) & (labels < np.minimum(_FEW_LABELS, self.images.images_of_cell))).sum())
        if few:
            yield f"{self._prompts(few)} with fewer than {_FEW_LABELS} labels: rough intervals."

    def _labels(self) -> Iterator[str]:
        images = self.images
        truth, cell = images.truth[images.labelled], images.cell[images.labelled]
        if self.annotators == 1:
            yield "All labels are one annotator's: what others would have said is not known."
        if len(np.unique(truth)) == 1 and len(truth) < len(images.truth):
            yield (
                f"All labels are {self.attribute.labels[truth[0]]}: how images vary, and what the detectors are "
                "worth, they do not say."
            )
        if not self.any_clear:
            yield "No labelled image is clear: there is no bias score."
            return
        clear = np.bincount(cell, truth < images.classes, images.cells)
        none = int(((images.labels_of_cell > 0) & (clear == 0)).sum())
        if none:
            yield (
                f"{self._prompts(none)} without a clear labelled image (most are {LOW_QUALITY}): no bias score, "
                "and means over prompts leave them out."
            )

    def _verdicts(self) -> Iterator[str]:
        lacks = self.images.verdicts > self.images.classes
        if lacks.all():
            yield f"No detector has a verdict on {self.attribute.name}: the labels stand alone."
            return
        for detector, lacking in zip(self.detectors, lacks, strict=True):
            number = int(lacking[self.images.labelled].sum())
            if lacking.all():
                yield f"{detector} has no verdict on any image: it says nothing."
            elif number:
                without = _many(number, "labelled image")
                yield f"{detector} has no verdict on {without}: it says nothing of them."

    def _prompts(self, number: int) -> str:
        return _many(number, "prompt") + (" of the T2I models" if self.images.t2i_models > 1 else "")

    def _of_models(self, of_cell: NDArray[np.bool_]) -> IntArray:
        number: IntArray = of_cell.reshape(self.images.t2i_models, -1).sum(axis=1)
        return number


def _many(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def _set_apart(sample: LabelSample, image_set: AnnotatedImages, images: int) -> NDArray[np.bool_]:
    """`[image]`: whether it was set apart for the calibration."""
    if not sample.calibration:
        return np.zeros(images, dtype=np.bool_)
    found: NDArray[np.bool_] = image_set.images["image_id"].isin(sample.calibration).to_numpy()
    return found


def _altered(cell: NDArray[np.integer[Any]], chance: FloatArray, in_cell: IntArray) -> int:
    """How many cells do not have as many images in the sample as their equal chances say."""
    listed = ~np.isnan(chance)
    images = np.bincount(cell, minlength=len(in_cell))
    differs = np.abs(chance[listed] - (in_cell / np.maximum(images, 1))[cell[listed]]) > _ROUNDING
    return len(np.unique(cell[listed][differs]))


def _of_cells(
    found: ImageVerdicts,
    sample: LabelSample,
    drawn: IntArray,
    *,
    finished: NDArray[np.bool_],
    in_sample: NDArray[np.bool_],
) -> FloatArray:
    """`[cell]`: the chance to have got a label by now; 1 where the sample has all cells of a T2I model, and for
    T2I models that are not in it."""
    t2i_model, _ = found.index.places
    chances = np.ones(len(found.index.t2i_models))
    chances[t2i_model[drawn]] = sample.rows["cell_probability"]
    begun, listed = (part.reshape(len(chances), -1).sum(axis=1) for part in (finished, in_sample))
    chances = np.where(chances < 1, chances * begun / np.maximum(listed, 1), chances)
    return np.repeat(chances, len(found.index.prompt_ids))
