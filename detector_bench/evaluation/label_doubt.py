"""The headline numbers by other labels than the consensus: how much of them depends on who labelled."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from detector_bench.dataset.consensus import ALL_AGREE, DAWID_SKENE
from detector_bench.errors import ConfigError
from detector_bench.evaluation.image_index import (
    NULL,
    AnnotatedImages,
    ImageIndex,
    IntArray,
    annotators,
    annotators_labels,
)
from detector_bench.evaluation.intervals import Intervals
from detector_bench.evaluation.metric_table import evaluate
from detector_bench.metrics import HEADLINE_METRICS, NClear
from detector_bench.metrics.agreement import AnnotatorModel, dawid_skene
from detector_bench.vocabulary import ALL, Attribute, attribute_named
from detector_bench.vocabulary.columns import LABEL_DOUBT_COLUMNS

Estimate: TypeAlias = Literal["none", "dawid_skene"]
"""How true labels are estimated from the annotators'; none: they are not."""

FEWEST_ANNOTATORS = 2
"""With one annotator nobody knows how much depends on who labelled."""

MIN_SHARE = 0.9
"""An annotator who labelled a smaller share of the labelled images has no numbers: they would differ from the
consensus's by the images as much as by the labels."""

LABELS_NEEDED = 3
"""On one image, by different people: with two, many sets of error rates explain the labels equally well."""

FEWEST_IMAGES = 20
"""So many images need three labels or more; and an annotator who labelled fewer shares one confusion matrix with
all others who did: nobody's own error rates can be read off a handful of labels."""

_COUNTS = ("images", "images_error", "images_not_run")
"""How many images a number rests on, and what a reader needs to see that a detector could not run."""


def label_doubt(
    image_set: AnnotatedImages,
    predictions: Mapping[str, pa.Table],
    *,
    attributes: Sequence[str] | None = None,
    n_clear: NClear = "detector",
    allow_incomplete: bool = False,
    intervals: Intervals | None = None,
    estimate: Estimate = "none",
    min_share: float = MIN_SHARE,
) -> pd.DataFrame:
    """Compute the headline metrics once for each annotator's labels, and once where all annotators agree.

    Every number is the metric table's own, of the same predictions with another truth:

    - an annotator's name: that person's labels alone, on the images that he or she labelled. `low_quality` is what
      this person called low-quality, not what two people could not agree on.
    - `all_agree`: the images that at least two people labelled, all of them alike. These are the easy ones, so
      detectors look better on them; where an adjudicator had to decide, they did not agree.
    - `dawid_skene`, if asked for: the likeliest true label, see `estimated_labels`.

    None of them is the truth, and neither is the consensus, whose numbers are the metric table's. The adjudicator
    is no annotator here. An attribute has rows where at least two people labelled one image.

    Args:
        image_set: images, prompts and every annotator's labels.
        predictions: by detector, rows as in `vocabulary.columns.PREDICTIONS`.
        attributes: which ones; None for all that have human labels.
        n_clear, allow_incomplete: as in `evaluate`.
        intervals: how ci_low and ci_high are found; None leaves them NaN.
        estimate: whether to add numbers by estimated labels.
        min_share: annotators who labelled a smaller share of the images that anybody labelled have no rows.

    Returns:
        Columns `vocabulary.columns.LABEL_DOUBT_COLUMNS`: for every other truth the rows of the metric table that
        cover all categories and prompts, everything and each T2I model; of the metrics `HEADLINE_METRICS`, and
        `images`, `images_error` and `images_not_run`. By attribute, then annotator (by name), then as in the
        metric table.

    Raises:
        ConfigError, DataError, IncompletePredictionsError: as in `evaluate`; ConfigError also where labels are to
            be estimated and no attribute's labels allow it.
    """
    chosen = list(image_set.attributes if attributes is None else attributes)
    if estimate == DAWID_SKENE:
        check_identified(image_set, chosen)
    if len(annotators(image_set)) < FEWEST_ANNOTATORS:
        return pd.DataFrame(columns=list(LABEL_DOUBT_COLUMNS))
    index = ImageIndex.shared(image_set, predictions)
    drawn = intervals.model_copy(update={"prompts": False}) if intervals is not None else None
    tables = []
    for name in chosen:
        kind = attribute_named(name)
        for labelled_by, truth in other_truths(image_set, index, kind, estimate=estimate, min_share=min_share):
            metrics = evaluate(
                _OtherTruth(image_set, index, kind, truth),
                predictions,
                attributes=[name],
                n_clear=n_clear,
                allow_incomplete=allow_incomplete,
                intervals=drawn,
                detectors_alone=False,
            )
            tables.append(_headline(metrics).assign(labelled_by=labelled_by))
    if not tables:
        return pd.DataFrame(columns=list(LABEL_DOUBT_COLUMNS))
    return pd.concat(tables, ignore_index=True)[list(LABEL_DOUBT_COLUMNS)]


def other_truths(
    image_set: AnnotatedImages,
    index: ImageIndex,
    attribute: Attribute,
    *,
    estimate: Estimate = "none",
    min_share: float = MIN_SHARE,
) -> Iterator[tuple[str, IntArray]]:
    """The labels that could stand in place of the consensus, as `label_doubt` describes them.

    Yields:
        What they are called in the column `labelled_by`, and the position of each image's label in
        `attribute.labels`; `NULL` where there is none.
    """
    given = annotators_labels(image_set, index, attribute)
    together = np.stack(list(given.values())) if given else np.zeros((0, len(index.cells)), dtype=np.int64)
    labels_of_image = ((together != NULL) & index.counted).sum(axis=0)
    if not (labels_of_image >= FEWEST_ANNOTATORS).any():
        return
    labelled = (labels_of_image > 0).sum()
    for name, truth in given.items():
        if ((truth != NULL) & index.counted).sum() >= min_share * labelled:
            yield name, truth
    yield ALL_AGREE, _agreed(together)
    if estimate == DAWID_SKENE and (estimated := estimated_labels(given, index, attribute)) is not None:
        yield DAWID_SKENE, estimated.model.label


def _agreed(given: IntArray) -> IntArray:
    """The label of each image on which at least two people agree and nobody differs; `NULL` for all others."""
    labels = (given != NULL).sum(axis=0)
    highest = given.max(axis=0)
    alike = ((given == NULL) | (given == highest)).all(axis=0)
    return np.where(alike & (labels >= FEWEST_ANNOTATORS), highest, NULL)


@dataclass(frozen=True, slots=True)
class _OtherTruth:
    """An image set in which somebody else's labels are the truth."""

    labelled: AnnotatedImages
    index: ImageIndex
    kind: Attribute
    label: IntArray

    @property
    def images(self) -> pd.DataFrame:
        return self.labelled.images

    @property
    def prompts(self) -> pd.DataFrame:
        return self.labelled.prompts

    @property
    def attributes(self) -> Sequence[str]:
        return (self.kind.name,)

    def truth(self, attribute: str) -> pd.DataFrame:
        assert attribute == self.kind.name  # noqa: S101 - it is the only one
        # NULL is the code that pandas has for a missing word.
        label = pd.Categorical.from_codes(self.label_codes(self.kind), pd.Index(self.kind.labels, dtype="str"))
        return pd.DataFrame({"image_id": self.images["image_id"].array, "label": label})

    def label_codes(self, attribute: Attribute) -> NDArray[np.int8]:
        assert attribute.name == self.kind.name  # noqa: S101 - it is the only one
        return self.label.astype(np.int8)


def _headline(metrics: pd.DataFrame) -> pd.DataFrame:
    everywhere = (metrics["category"] == ALL) & (metrics["prompt_id"] == ALL)
    rows = metrics[everywhere & metrics["metric"].isin([*HEADLINE_METRICS, *_COUNTS])]
    # Categories differ between annotators, whose tables are joined.
    words = rows.select_dtypes("category").columns
    return rows.astype(dict.fromkeys(words, "str"))


class EstimatedLabels(NamedTuple):
    """What the model makes of one attribute's labels."""

    model: AnnotatorModel
    annotators: tuple[str, ...]
    """Everybody with a confusion matrix of their own, in the model's order. If the model has one more, it is that
    of all who labelled too few images."""


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
        None where the error rates are not identified: too few images have three labels or more.
    """
    if _well_labelled(given, index) < FEWEST_IMAGES:
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
    return EstimatedLabels(model, tuple(own))


def check_identified(image_set: AnnotatedImages, attributes: Sequence[str]) -> None:
    """Check that the labels of some attribute allow an estimate.

    Raises:
        ConfigError: none of them does; the message says what is missing.
    """
    index = ImageIndex.of(image_set)
    found = []
    for name in attributes:
        given = annotators_labels(image_set, index, attribute_named(name))
        if (labelled := _well_labelled(given, index)) >= FEWEST_IMAGES:
            return
        people = "1 person" if len(given) == 1 else f"{len(given)} people"
        found.append(f"{name}: {labelled} such images, {people}")
    raise ConfigError(
        f"estimated_labels: dawid_skene needs {FEWEST_IMAGES} images or more that {LABELS_NEEDED} people "
        f"labelled, as the errors of two cannot be told apart ({'; '.join(found)}); have a third person label the "
        "images, or leave the setting out"
    )


def _well_labelled(given: Mapping[str, IntArray], index: ImageIndex) -> int:
    labels = [(each != NULL) & index.counted for each in given.values()]
    return int((np.sum(labels, axis=0) >= LABELS_NEEDED).sum()) if labels else 0
