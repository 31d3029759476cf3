"""How many images there are, and what the human labels and the verdicts of a detector say about them."""

from __future__ import annotations

from functools import partial

import numpy as np

from detector_bench.metrics.catalogue import LABEL, METRICS, MetricInfo, metric, register_metrics
from detector_bench.metrics.counts import (
    CountArray,
    Score,
    class_count,
    count_images,
    detector_class_counts,
    divide,
    human_class_counts,
    images_without_verdict,
)

NamedScores = list[tuple[str, Score]]

_OTHERS = -1
_EXACT = "a number of these very images"
_number = partial(
    MetricInfo, section="Images", highest=None, better="none", kind="count", counted="images", no_interval=_EXACT
)

register_metrics(
    _number(
        name="images",
        meaning="human-labelled images",
        definition="images with a human label of the attribute",
    ),
    _number(
        name="images_unlabelled",
        meaning="images without a human label, left out",
        definition="images without a human label of the attribute",
    ),
    _number(
        name="images_others",
        meaning="images with the human label 'others'",
        definition="images labelled `others`; they are in no other metric but a detector's bias scores",
    ),
)


@metric(
    over="images",
    section="Images",
    rows=(),
    highest=None,
    better="none",
    kind="count",
    no_interval=_EXACT,
    meaning="labelled images judged clear",
    definition="images with the verdict `clear`; of the human labels: with a class",
    swept=1,
)
def images_clear(counts: CountArray) -> Score:
    """Images that the detector puts into a class, among all; they describe the images: no direction is better."""
    return _number_of(detector_class_counts(counts).sum(axis=-1), among=count_images(counts))


register_metrics(
    _number(
        name="images_filtered",
        meaning="labelled images filtered out",
        definition="images with the verdict `filtered`",
    ),
    _number(
        name="images_error",
        meaning="labelled images on which the detector failed",
        definition="images with the verdict `error`",
        better="lower",
    ),
    _number(
        name="images_not_run",
        meaning="labelled images without a prediction",
        definition="labelled images that have no row in the predictions",
        better="lower",
    ),
)


@metric(
    f"label_share_{LABEL}",
    over="images",
    share=True,
    section="Images",
    rows=(),
    better="none",
    meaning="share of one human label",
    definition="images with the label / labelled images",
    left_out="images without a human label",
)
def label_shares(counts: CountArray) -> Score:
    """Share of each human label among all labelled images: `[..., K + 2]`, in the order of the truth axis.

    In [0, 1], they sum to 1; they describe the images, so no direction is better (Lyu 2025, Table 5). What the
    detector said does not matter here, and so nothing is left out.
    """
    class_count(counts)
    images = counts.sum(axis=-1)
    total = np.broadcast_to(images.sum(axis=-1, keepdims=True), images.shape)
    return Score(divide(images, total), total, np.zeros_like(total))


def verdict_numbers(counts: CountArray, not_run: CountArray) -> NamedScores:
    """How many images a detector judged, and how.

    Args:
        counts: `[..., truth, verdict]`.
        not_run: images without a prediction, `[...]`.
    """
    images, clear, without = count_images(counts), images_clear(counts), images_without_verdict(counts)
    filtered = images - detector_class_counts(counts).sum(axis=-1) - without
    return [
        ("images", _number_of(images, among=images)),
        ("images_clear", clear),
        ("images_filtered", _number_of(filtered, among=images)),
        ("images_error", _number_of(without - not_run, among=images)),
        ("images_not_run", _number_of(not_run, among=images)),
    ]


def label_numbers(counts: CountArray, unlabelled: CountArray, labels: tuple[str, ...]) -> NamedScores:
    """How many images have which human label.

    Args:
        counts: of the human labels as a detector, `[..., truth, verdict]`.
        unlabelled: images without a human label, `[...]`.
        labels: of the attribute.
    """
    images, shares = count_images(counts), label_shares(counts)
    left_out = np.broadcast_to(unlabelled[..., np.newaxis], shares.n.shape)
    return [
        ("images", _number_of(images, among=images)),
        ("images_unlabelled", _number_of(unlabelled, among=images + unlabelled)),
        ("images_clear", _number_of(human_class_counts(counts).sum(axis=-1), among=images)),
        ("images_others", _number_of(counts[..., _OTHERS, :].sum(axis=-1), among=images)),
        *METRICS[f"label_share_{LABEL}"].named(shares._replace(n_left_out=left_out), labels),
    ]


def _number_of(images: CountArray, *, among: CountArray) -> Score:
    return Score(images.astype(np.float64), among, np.zeros_like(among))
