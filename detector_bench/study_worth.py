"""What the labels of a sample are worth while people still label: for the desk that `label --results` opens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pandas as pd
import pyarrow as pa

from detector_bench.dataset import ImageSet
from detector_bench.dataset.sample_file import LabelSample
from detector_bench.estimation.planning import HalfWidths
from detector_bench.evaluation.audit_plan import says_enough
from detector_bench.evaluation.image_index import NULL, ImageIndex, codes
from detector_bench.evaluation.image_verdicts import ImageVerdicts
from detector_bench.evaluation.labels_of_sample import LabelsOfSample
from detector_bench.labelling.worth import LabelsWorth

SCORE = "model_bias_score"
LEVEL = 0.95


@dataclass(frozen=True, eq=False)
class StudyWorth:
    """Says what labels are worth; a `labelling.worth.Worth`.

    Attributes:
        image_set: with or without labels: these are not looked at.
        sample: the images that are labelled. Labels of others have no probability, and do not count.
        predictions: by detector, as `runner.stored_predictions.read_predictions` gives them.
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
        for verdicts in self._verdicts.values():
            so_far = LabelsOfSample.of(self._labelled(verdicts, labels), self.image_set, self.sample)
            found += worth_of(so_far, self._t2i_models(verdicts), half_width=self.half_width)
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

    def _labelled(self, verdicts: ImageVerdicts, labels: pd.DataFrame) -> ImageVerdicts:
        index, attribute = verdicts.index, verdicts.attribute
        of_attribute = labels[labels["attribute"] == attribute.name]
        truth = np.full(len(index.cells), NULL, dtype=np.int8)
        truth[index.positions(of_attribute["image_id"])] = codes(of_attribute["label"], attribute.labels)
        return replace(verdicts, truth=truth)

    def _t2i_models(self, verdicts: ImageVerdicts) -> list[str]:
        """Those that the sample is of."""
        index = verdicts.index
        drawn = np.unique(index.places[0][self.sample.positions(self.image_set.images)])
        return [name for place, name in enumerate(index.t2i_models) if place in drawn]


def worth_of(labels: LabelsOfSample, t2i_models: Sequence[str], *, half_width: float) -> list[LabelsWorth]:
    """What the labels say of each T2I model's model bias score, with all detectors' verdicts.

    The estimate is that of `estimation.estimate`, with its 95 % interval; the labels that are wanting are a
    forecast (`estimation.planning`), and nothing is said of them, nor of the score, while too few prompts have
    two labels.

    Args:
        labels: of the sample so far.
        t2i_models: which ones.
        half_width: what is wanted.
    """
    forecast = HalfWidths.of(labels.images, confidence=LEVEL) if says_enough(labels) else None
    shown = []
    for name in t2i_models:
        model = labels.index.t2i_models.index(name) + 1
        estimate, width, more = np.nan, np.nan, None
        number = int(labels.images.labels_of_cell.reshape(labels.images.t2i_models, -1)[model - 1].sum())
        if forecast is not None and number:
            estimate, width = forecast.estimate(SCORE, model)
            needed = forecast.labels_needed(SCORE, half_width, model).labels if width > half_width else number
            more = None if needed is None else max(needed - number, 0)
        shown.append(
            LabelsWorth(
                *(labels.attribute.name, name, SCORE, estimate, width, number),
                more_labels=more,
                target_half_width=half_width,
            )
        )
    return shown
