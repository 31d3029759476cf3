"""What the labels of a sample are worth while people still label: for the desk that `label --results` opens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from detector_bench.dataset import ImageSet
from detector_bench.dataset.sample_file import LabelSample
from detector_bench.errors import ConfigError
from detector_bench.evaluation.image_index import NULL, ImageIndex, IntArray, codes
from detector_bench.evaluation.image_verdicts import ImageVerdicts
from detector_bench.labelling.worth import LabelsWorth
from detector_bench.metrics import FloatArray, concentration_corrected
from detector_bench.metrics.joint_verdicts import Codes
from detector_bench.vocabulary import attribute_named
from detector_bench.vocabulary.columns import SampleDesign

SCORE = "model_bias_score"
LEVEL = 0.95

_FEWEST_LABELS = 2
_HALVINGS = 40


@dataclass(frozen=True, eq=False)
class SampledLabels:
    """The labels of a sample so far, beside what detectors say of all images.

    Attributes:
        truth: `[image]`: position in the attribute's labels, `NULL` where there is none yet.
        verdicts: `[detector, image]`: a class, K filtered, K + 1 none.
        index: T2I model and prompt of each image.
        classes: K.
        probability: `[image]`: of the images in the sample, as it states it; NaN for others.
        cell_probability: `[t2i_model]`: the chance that a prompt's images got a label at all; NaN for T2I models
            that are not in the sample.
        design: how the sample was drawn.
    """

    truth: IntArray
    verdicts: Codes
    index: ImageIndex
    classes: int
    probability: FloatArray
    cell_probability: FloatArray
    design: SampleDesign


@dataclass(frozen=True, eq=False)
class StudyWorth:
    """Says what labels are worth; a `labelling.worth.Worth`.

    Attributes:
        image_set: with or without labels: these are not looked at.
        sample: the images that are labelled. Labels of others have no probability, and do not count.
        predictions: by detector, as `runner.prediction_store.read_predictions` gives them.
        attributes: what is labelled.
        half_width: what is wanted, of a 95 % interval.
    """

    image_set: ImageSet
    sample: LabelSample
    predictions: Mapping[str, pa.Table]
    attributes: Sequence[str]
    half_width: float

    def __call__(self, labels: pd.DataFrame) -> list[LabelsWorth]:
        """See `labelling.worth.Worth`."""
        found = []
        for attribute, verdicts in self._verdicts.items():
            found += worth_of(self._labels_so_far(labels, verdicts), attribute, half_width=self.half_width)
        return found

    @cached_property
    def _verdicts(self) -> dict[str, ImageVerdicts]:
        """By attribute, read once; attributes that no detector judges are left out."""
        index = ImageIndex.of(self.image_set)
        read = {
            name: ImageVerdicts.read(
                self.image_set,
                self.predictions,
                attribute=name,
                index=index,
                allow_incomplete=True,
            )
            for name in self.attributes
        }
        return {name: verdicts for name, verdicts in read.items() if verdicts.has_judged.any()}

    def _labels_so_far(self, labels: pd.DataFrame, verdicts: ImageVerdicts) -> SampledLabels:
        index, attribute = verdicts.index, verdicts.attribute
        drawn = self.sample.positions(self.image_set.images)
        probability = np.full(len(index.cells), np.nan)
        probability[drawn] = self.sample.rows["probability"]
        t2i_model, _ = index.places
        of_cells = np.full(len(index.t2i_models), np.nan)
        of_cells[t2i_model[drawn]] = self.sample.rows["cell_probability"]
        of_attribute = labels[labels["attribute"] == attribute.name]
        truth = np.full(len(index.cells), NULL, dtype=np.int64)
        truth[index.positions(of_attribute["image_id"])] = codes(of_attribute["label"], attribute.labels)
        truth[np.isnan(probability)] = NULL
        return SampledLabels(
            truth=truth,
            verdicts=verdicts.counted,
            index=index,
            classes=len(attribute_named(attribute.name).classes),
            probability=probability,
            cell_probability=of_cells,
            design=self.sample.design,
        )


def worth_of(labels: SampledLabels, attribute: str, *, half_width: float) -> list[LabelsWorth]:
    """What the labels say of each T2I model's model bias score, from the labels alone.

    The estimate is the mean over prompts of `metrics.concentration_corrected`, prompts with fewer than two clear
    labels left out. Its variance is that of the shares of each prompt's classes (delta method), without
    replacement among the prompt's images.

    Raises:
        ConfigError: the sample was drawn with unequal probabilities, which these numbers do not know of.
    """
    if labels.design is SampleDesign.DISAGREEMENT:
        raise ConfigError("labels alone say nothing of a sample that was drawn by disagreement")
    kinds = labels.classes + 2  # and low_quality, others
    counts = labels.index.count((labels.truth, kinds))
    shown = []
    for place, (t2i_model, of_prompts) in enumerate(zip(labels.index.t2i_models, counts, strict=True)):
        if np.isnan(labels.cell_probability[place]):
            continue
        images = of_prompts.sum(axis=-1)
        number = images - of_prompts[:, kinds]
        clear = of_prompts[:, : labels.classes]
        usable = clear.sum(axis=-1) >= _FEWEST_LABELS
        spread = _variance_of_one(clear[usable])
        estimate, width = np.nan, np.nan
        if usable.any():
            estimate = float(concentration_corrected(clear[usable]).mean())
            width = _half_width(spread, number[usable], images[usable])
        more = _more(spread, number[usable], images[usable], target=half_width) if usable.any() else None
        shown.append(
            LabelsWorth(
                *(attribute, t2i_model, SCORE, estimate, width, int(number.sum())),
                more_labels=None if more is None else round(more * (images > 0).sum() / usable.sum()),
                target_half_width=half_width,
            )
        )
    return shown


def _variance_of_one(clear: IntArray) -> FloatArray:
    """`[prompt]`: n times the variance of the concentration of n labels, from clear labels `[prompt, class]`."""
    classes = clear.shape[-1]
    # A part of a label for each class: prompts that show one class only are not known to do so.
    share = (clear + 1 / classes) / (clear.sum(axis=-1, keepdims=True) + 1)
    # Which way each class's share moves the concentration; where all are equal, as if the first one led.
    leads = np.arange(classes) == share.argmax(axis=-1)[:, np.newaxis]
    side = np.where((share > 1 / classes) | leads, 1, -1)
    scatter = 1 - (side * share).sum(axis=-1) ** 2
    n = clear.sum(axis=-1)
    found: FloatArray = (classes / (2 * (classes - 1))) ** 2 * scatter * (n / (n - 1))
    return found


def _half_width(spread: FloatArray, number: NDArray[np.number], images: IntArray) -> float:
    limit = NormalDist().inv_cdf((1 + LEVEL) / 2)
    return float(limit * np.sqrt((spread * (1 / number - 1 / images)).sum()) / len(spread))


def _more(spread: FloatArray, number: IntArray, images: IntArray, *, target: float) -> int:
    """How many more labels, in all prompts alike, take the half-width to the target."""

    def planned(times: float) -> FloatArray:
        found: FloatArray = np.minimum(number * times, images)
        return found

    low, high = 1.0, float((images / number).max())
    if _half_width(spread, number, images) <= target:
        return 0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if _half_width(spread, planned(middle), images) <= target else (middle, high)
    return int(np.ceil((planned(high) - number).sum() - 1e-6))
