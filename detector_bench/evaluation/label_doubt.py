"""The headline numbers by other labels than the consensus: how much of them depends on who labelled."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from detector_bench.dataset.consensus import ALL_AGREE, DAWID_SKENE
from detector_bench.evaluation.annotators import AnnotatedImages, annotators_labels
from detector_bench.evaluation.counting import ImageIndex, IntArray
from detector_bench.evaluation.encoding import NULL
from detector_bench.evaluation.estimated_labels import check_identified, estimated_labels
from detector_bench.evaluation.intervals import Intervals
from detector_bench.evaluation.metric_table import evaluate
from detector_bench.metrics import NClear
from detector_bench.metrics.headline import HEADLINE_METRICS
from detector_bench.vocabulary import ALL, Attribute, attribute_named
from detector_bench.vocabulary.columns import LABEL_DOUBT_COLUMNS

Estimate: TypeAlias = Literal["none", "dawid_skene"]
"""How true labels are estimated from the annotators'; none: they are not."""

FEWEST_ANNOTATORS = 2
"""With one annotator nobody knows how much depends on who labelled."""

MIN_SHARE = 0.9
"""An annotator who labelled a smaller share of the labelled images has no numbers: they would differ from the
consensus's by the images as much as by the labels."""

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
    - `dawid_skene`, if asked for: the likeliest true label, see `evaluation.estimated_labels`.

    None of them is the truth, and neither is the consensus, whose numbers are the metric table's. The adjudicator
    is no annotator here. An attribute has rows where at least two people labelled one image.

    Args:
        image_set: images, prompts and every annotator's labels.
        predictions: by detector, rows as in `schema.PREDICTIONS`.
        attributes: which ones; None for all that have human labels.
        n_clear, allow_incomplete: as in `evaluate`.
        intervals: how ci_low and ci_high are found; None leaves them NaN.
        estimate: whether to add numbers by estimated labels.
        min_share: annotators who labelled a smaller share of the images that anybody labelled have no rows.

    Returns:
        Columns `schema.LABEL_DOUBT_COLUMNS`: for every other truth the rows of the metric table that cover all
        categories and prompts, everything and each T2I model; of the metrics `HEADLINE_METRICS`, and `images`,
        `images_error` and `images_not_run`. By attribute, then annotator (by name), then as in the metric table.

    Raises:
        ConfigError, DataError, IncompletePredictionsError: as in `evaluate`; ConfigError also where labels are to
            be estimated and no attribute's labels allow it.
    """
    chosen = list(image_set.attributes if attributes is None else attributes)
    if estimate == DAWID_SKENE:
        check_identified(image_set, chosen)
    index = ImageIndex.of(image_set)
    drawn = intervals.model_copy(update={"prompts": False}) if intervals is not None else None
    tables = []
    for name in chosen:
        kind = attribute_named(name)
        for labelled_by, truth in other_truths(image_set, index, kind, estimate=estimate, min_share=min_share):
            metrics = evaluate(
                _OtherTruth(image_set.images, image_set.prompts, kind, truth),
                predictions,
                attributes=[name],
                n_clear=n_clear,
                allow_incomplete=allow_incomplete,
                intervals=drawn,
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
        yield DAWID_SKENE, estimated.label


def _agreed(given: IntArray) -> IntArray:
    """The label of each image on which at least two people agree and nobody differs; `NULL` for all others."""
    labels = (given != NULL).sum(axis=0)
    highest = given.max(axis=0)
    alike = ((given == NULL) | (given == highest)).all(axis=0)
    return np.where(alike & (labels >= FEWEST_ANNOTATORS), highest, NULL)


@dataclass(frozen=True, slots=True)
class _OtherTruth:
    """An image set in which somebody else's labels are the truth."""

    images: pd.DataFrame
    prompts: pd.DataFrame
    kind: Attribute
    label: NDArray[np.int64]

    @property
    def attributes(self) -> Sequence[str]:
        return (self.kind.name,)

    def truth(self, attribute: str) -> pd.DataFrame:
        assert attribute == self.kind.name  # noqa: S101 - it is the only one
        # NULL is the code that pandas has for a missing word.
        label = pd.Categorical.from_codes(self.label, pd.Index(self.kind.labels, dtype="str"))
        return pd.DataFrame({"image_id": self.images["image_id"].array, "label": label})


def _headline(metrics: pd.DataFrame) -> pd.DataFrame:
    everywhere = (metrics["category"] == ALL) & (metrics["prompt_id"] == ALL)
    rows = metrics[everywhere & metrics["metric"].isin([*HEADLINE_METRICS, *_COUNTS])]
    # Categories differ between annotators, whose tables are joined.
    words = rows.select_dtypes("category").columns
    return rows.astype(dict.fromkeys(words, "str"))
