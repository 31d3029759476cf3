"""How many images there are, and what the human labels and the verdicts of a detector say about them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from detector_bench.metrics.catalogue import LABEL, METRICS, Better, MetricInfo, register_metrics
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
from detector_bench.metrics.declaration import metric

NamedScores = list[tuple[str, Score]]

LABEL_SHARE = "label_share_"
"""Begins the names of the shares of human labels."""

_OTHERS = -1
_EXACT = "a number of these very images"


def _add(name: str, meaning: str, definition: str, *, better: Better = "none") -> None:
    about = MetricInfo(
        name=name, meaning=meaning, definition=definition, better=better, kind="count", counted="images"
    )
    register_metrics(replace(about, section="Images", highest=None, no_interval=_EXACT))


_add("images", "human-labelled images", "images with a human label of the attribute")
_add(
    "images_unlabelled", "images without a human label, left out", "images without a human label of the attribute"
)
_add(
    "images_others",
    "images with the human label 'others'",
    "images labelled `others`; they are in no other metric but a detector's bias scores",
)


@metric(
    over="images",
    section="Images",
    rows=(),
    highest=None,
    better="none",
    kind="count",
    no_interval=_EXACT,
    swept=1,
)
def images_clear(counts: CountArray) -> Score:
    """Labelled images judged clear: images with the verdict `clear`; of the human labels: with a class.

    `Score.n` is all images. They describe the images, so no direction is better.
    """
    return _number_of(detector_class_counts(counts).sum(axis=-1), among=count_images(counts))


_add("images_filtered", "labelled images filtered out", "images with the verdict `filtered`")
_add(
    "images_error",
    "labelled images on which the detector failed",
    "images with the verdict `error`",
    better="lower",
)
_add(
    "images_not_run",
    "labelled images without a prediction",
    "labelled images that have no row in the predictions",
    better="lower",
)


@metric(
    f"{LABEL_SHARE}{LABEL}",
    over="images",
    share=True,
    section="Images",
    rows=(),
    better="none",
    left_out="images without a human label",
)
def label_shares(counts: CountArray) -> Score:
    """Share of one human label: images with the label / labelled images.

    `[..., K + 2]`, in the order of the truth axis. In [0, 1], they sum to 1; they describe the images, so no
    direction is better (Lyu 2025, Table 5). What the detector said does not matter here, and so nothing is
    left out.
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
        *METRICS[f"{LABEL_SHARE}{LABEL}"].named(shares._replace(n_left_out=left_out), labels),
    ]


def _number_of(images: CountArray, *, among: CountArray) -> Score:
    return Score(images.astype(np.float64), among, np.zeros_like(among))
