"""True labels as Dawid and Skene's model estimates them, where the labels allow it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from detector_bench.errors import ConfigError
from detector_bench.evaluation.annotators import AnnotatedImages, annotators_labels
from detector_bench.evaluation.counting import ImageIndex, IntArray
from detector_bench.evaluation.encoding import NULL
from detector_bench.metrics.dawid_skene import AnnotatorModel, dawid_skene
from detector_bench.vocabulary import Attribute, attribute_named

LABELS_NEEDED = 3
"""On one image, by different people: with two, many sets of error rates explain the labels equally well."""

FEWEST_IMAGES = 20
"""So many images need three labels or more; and an annotator who labelled fewer shares one confusion matrix with
all others who did: nobody's own error rates can be read off a handful of labels."""


@dataclass(frozen=True, slots=True)
class EstimatedLabels:
    """What the model makes of one attribute's labels.

    Attributes:
        label: the likeliest label of each image, as a position in the attribute's labels; `NULL` where nobody
            labelled it.
        probability: of that label, by the model; NaN where nobody labelled the image.
        model: the model's parameters.
        annotators: everybody with a confusion matrix of their own, in the model's order. If the model has one
            more, it is that of all who labelled too few images.
    """

    label: IntArray
    probability: NDArray[np.float64]
    model: AnnotatorModel
    annotators: tuple[str, ...]


def is_identified(given: Mapping[str, IntArray], index: ImageIndex) -> bool:
    """Whether enough images have three labels or more.

    Args:
        given: by annotator, see `annotators_labels`.
        index: of the image set.
    """
    return _well_labelled(given, index) >= FEWEST_IMAGES


def estimated_labels(
    given: Mapping[str, IntArray], index: ImageIndex, attribute: Attribute
) -> EstimatedLabels | None:
    """Estimate the true label of each image; see `metrics.dawid_skene` for the model and its assumption.

    Labels on photos that were only edited do not take part.

    Args:
        given: by annotator, see `annotators_labels`.
        index: of the image set.
        attribute: which one.

    Returns:
        None where the error rates are not identified (see `is_identified`).
    """
    if not is_identified(given, index):
        return None
    names = list(given)
    labels = np.where(index.counted, np.stack(list(given.values())), NULL)
    has_few = (labels != NULL).sum(axis=1) < FEWEST_IMAGES
    own = [name for name, few in zip(names, has_few, strict=True) if not few]
    place = np.where(has_few, len(own), np.cumsum(~has_few) - 1)
    annotator, image = np.nonzero(labels != NULL)
    model = dawid_skene(
        place[annotator],
        image,
        labels[annotator, image],
        annotators=len(own) + int(has_few.any()),
        images=labels.shape[1],
        labels=len(attribute.labels),
    )
    return EstimatedLabels(
        label=model.label,
        probability=model.posterior.max(axis=-1),
        model=model,
        annotators=tuple(own),
    )


def check_identified(image_set: AnnotatedImages, attributes: Sequence[str]) -> None:
    """Check that the labels of some attribute allow an estimate.

    Raises:
        ConfigError: none of them does; the message says what is missing.
    """
    index = ImageIndex.of(image_set)
    found = []
    for name in attributes:
        given = annotators_labels(image_set, index, attribute_named(name))
        if is_identified(given, index):
            return
        people = "1 person" if len(given) == 1 else f"{len(given)} people"
        found.append(f"{name}: {_well_labelled(given, index)} such images, {people}")
    raise ConfigError(
        f"estimated_labels: dawid_skene needs {FEWEST_IMAGES} images or more that {LABELS_NEEDED} people "
        f"labelled, as the errors of two cannot be told apart ({'; '.join(found)}); have a third person label the "
        "images, or leave the setting out"
    )


def _well_labelled(given: Mapping[str, IntArray], index: ImageIndex) -> int:
    labels = [(each != NULL) & index.counted for each in given.values()]
    return int((np.sum(labels, axis=0) >= LABELS_NEEDED).sum()) if labels else 0
