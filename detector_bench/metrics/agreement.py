"""How far people, or a detector and a person, agree on labels, beyond what chance would give.

Cohen's kappa is scikit-learn's, Fleiss' kappa statsmodels'. Krippendorff's alpha is computed here, for nominal
labels: the library for it is GPL-licensed. All are 1 for full agreement, 0 for as much as chance gives, negative
for less; higher is better. They are undefined (NaN) where everybody gave one and the same label: then chance
explains everything. Images with fewer than two labels say nothing about agreement; `Score.n_left_out` counts them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from detector_bench.metrics.counts import CountArray, Score, divide


def percent_agreement(label_counts: CountArray) -> Score:
    """Share of the pairs of labels of one image that are equal, over all images: [0, 1].

    Args:
        label_counts: how many annotators gave each label, `[image, label]`.

    Returns:
        One number; n counts the images with two labels or more.
    """
    used = _pairable(label_counts)
    labels = used.sum(axis=-1)
    equal = (used * (used - 1)).sum()
    return _score(divide(equal, (labels * (labels - 1)).sum()), label_counts, used)


def cohen_kappa(contingency: CountArray) -> Score:
    """Cohen's kappa of two raters (Cohen 1960), by scikit-learn.

    Args:
        contingency: images by the label of the first and of the second, `[label, label]`.

    Returns:
        One number; n counts the images that both labelled.
    """
    from sklearn.metrics import cohen_kappa_score

    first, second = np.nonzero(contingency)
    images = contingency.sum()
    value = np.nan
    if np.unique(np.concatenate([first, second])).size > 1:
        value = cohen_kappa_score(first, second, sample_weight=contingency[first, second])
    return Score(np.asarray(value, dtype=np.float64), np.asarray(images), np.zeros_like(images))


def fleiss_kappa(label_counts: CountArray) -> Score:
    """Fleiss' kappa (Fleiss 1971), by statsmodels.

    It needs the same number of labels for every image: of all such numbers from two upwards, the one that most
    images have is taken (the larger one of equals); other images are left out. Which annotator gave a label does
    not matter.

    Args:
        label_counts: how many annotators gave each label, `[image, label]`.

    Returns:
        One number; n counts the images used.
    """
    from statsmodels.stats.inter_rater import fleiss_kappa as of_statsmodels

    used = _pairable(label_counts)
    labels = used.sum(axis=-1)
    if labels.size:
        images_with = np.bincount(labels)
        used = used[labels == np.flatnonzero(images_with == images_with.max()).max()]
    one_label = (used.sum(axis=0) > 0).sum() < 2
    value = np.nan if one_label else of_statsmodels(used)
    return _score(np.asarray(value, dtype=np.float64), label_counts, used)


def krippendorff_alpha(label_counts: CountArray) -> Score:
    """Krippendorff's alpha for nominal labels; any number of annotators, labels may be missing.

    1 - observed / expected disagreement. An image with m labels contributes its ordered pairs of labels, each with
    weight 1 / (m - 1); expected disagreement is that of pairs drawn from all n labels without putting back.
    Source: Krippendorff 2011, "Computing Krippendorff's Alpha-Reliability", sections C and D.

    Args:
        label_counts: how many annotators gave each label, `[image, label]`.

    Returns:
        One number; n counts the images with two labels or more.
    """
    used = _pairable(label_counts)
    labels = used.sum(axis=-1, keepdims=True)
    total = used.sum()
    of_label = used.sum(axis=0)
    equal = divide(used * (used - 1), labels - 1).sum()
    value = 1 - divide((total - 1) * (total - equal), total * total - (of_label * of_label).sum())
    return _score(value, label_counts, used)


def label_counts(given: Sequence[NDArray[np.integer]], *, labels: int) -> CountArray:
    """How many annotators gave each label, `[image, label]`.

    Args:
        given: by annotator, the position of each image's label; -1 where there is none.
        labels: how many there are.
    """
    counts = np.zeros((len(given[0]), labels + 1), dtype=np.int64)
    for of_images in given:
        counts[np.arange(len(counts)), of_images] += 1  # an image without a label is counted in the last place
    return counts[:, :labels]


def contingency(first: NDArray[np.integer], second: NDArray[np.integer], *, labels: int) -> CountArray:
    """Images by the label of one rater (rows) and of another (columns), positions as in `label_counts`.

    Images without a label by one of them are in no cell.
    """
    both = (first >= 0) & (second >= 0)
    return np.bincount(first[both] * labels + second[both], minlength=labels * labels).reshape(labels, labels)


def one_against_rest(counts: CountArray, *, label: int, axes: tuple[int, ...] = (-1,)) -> CountArray:
    """Counts in which only one label and all the others together are told apart: those axes become 2 long."""
    for axis in axes:
        chosen = np.take(counts, [label], axis=axis)
        counts = np.concatenate([counts.sum(axis=axis, keepdims=True) - chosen, chosen], axis=axis)
    return counts


def _pairable(label_counts: CountArray) -> CountArray:
    used: CountArray = label_counts[label_counts.sum(axis=-1) > 1]
    return used


def _score(value: CountArray, label_counts: CountArray, used: CountArray) -> Score:
    return Score(np.asarray(value), np.asarray(len(used)), np.asarray(len(label_counts) - len(used)))
