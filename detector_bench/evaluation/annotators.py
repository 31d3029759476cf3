"""Every annotator's own labels, image by image."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import pandas as pd
import pyarrow as pa

from detector_bench.dataset.consensus import ADJUDICATOR
from detector_bench.evaluation.counting import ImageIndex, IntArray, LabelledImages
from detector_bench.evaluation.encoding import NULL, codes
from detector_bench.vocabulary import Attribute


class AnnotatedImages(LabelledImages, Protocol):
    """An image set with every annotator's labels."""

    @property
    def labels(self) -> pd.DataFrame:
        """One row per image, annotator and attribute: image_id, annotator, attribute, label."""


def annotators_labels(image_set: AnnotatedImages, index: ImageIndex, attribute: Attribute) -> dict[str, IntArray]:
    """Every annotator's label of each image, as people gave them on their own.

    The adjudicator, who has seen the others' labels, is no annotator here.

    Args:
        image_set: images and labels.
        index: of the image set.
        attribute: which one.

    Returns:
        By annotator, in alphabetical order: the position of each image's label in `attribute.labels`, in the order
        of the images, seeds included; `NULL` where there is none.
    """
    labels = image_set.labels
    labels = labels[(labels["attribute"] == attribute.name) & (labels["annotator"] != ADJUDICATOR)]
    names = sorted(labels["annotator"].unique())
    annotator = codes(labels["annotator"], names)
    position = index.positions(pa.chunked_array([pa.array(labels["image_id"], pa.string())]))
    given = np.full((len(names), len(index.cells)), NULL, dtype=np.int64)
    given[annotator, position] = codes(labels["label"], attribute.labels)
    return dict(zip(names, given, strict=True))
