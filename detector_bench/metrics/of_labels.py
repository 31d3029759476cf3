"""Metrics of plain labels, one for each image: `accuracy(y_true, y_pred)` and the like.

>>> y_true = ["male", "female", "female", "low_quality", "others"]
>>> y_pred = ["male", "male", "female", "filtered", "female"]
>>> filter_rate(y_true, y_pred), accuracy(y_true, y_pred)
(1.0, 0.6666666666666666)
>>> model_bias_score(y_true, y_pred, groups=["nurse", "nurse", "chef", "chef", "chef"])
1.0

They are the functions of counts (`detector_bench.metrics`) for those who have two lists, and mean the same:

- `y_true`: what a human says: a class, `low_quality`, `others` (outside the classes), or None: not labelled, so
  left out.
- `y_pred`: what a detector says: a class, `filtered` (or `low_quality`): not clear, or None: no verdict. Another
  human's labels may stand here, too; their `others` counts as not clear.
- `classes`: all classes of the attribute in order; None: those of the built-in attribute that has all the classes
  found, or else the classes found in alphabetical order. It decides which class a positive prompt bias score is
  for (the first), and how many classes a model bias score reckons with.

Lists, arrays and pandas Series serve; NaN is None. Values are fractions or scores, NaN where a denominator is
empty. The metric table of `evaluate` has intervals and numbers of images, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from detector_bench.metrics import bias, classification, filtering
from detector_bench.metrics.catalogue import NClear
from detector_bench.metrics.counts import CountArray, Score
from detector_bench.metrics.scopes import Scopes
from detector_bench.vocabulary import ATTRIBUTES, LOW_QUALITY, OTHERS, Status

Labels: TypeAlias = Sequence[Any] | pd.Series | np.ndarray
"""A label, or None, for each image."""

_NOT_CLEAR = (LOW_QUALITY, Status.FILTERED.value, OTHERS)


def precision(y_true: Labels, y_pred: Labels, *, classes: Sequence[str] | None = None) -> float:
    """Share of clear images among those that the detector keeps; see `filtering.precision`."""
    return _of_images(filtering.precision, y_true, y_pred, classes)


def recall(y_true: Labels, y_pred: Labels, *, classes: Sequence[str] | None = None) -> float:
    """Share of clear images that the detector keeps; see `filtering.recall`."""
    return _of_images(filtering.recall, y_true, y_pred, classes)


def f1(y_true: Labels, y_pred: Labels, *, classes: Sequence[str] | None = None) -> float:
    """Harmonic mean of precision and recall of filtering; see `filtering.f1`."""
    return _of_images(filtering.f1, y_true, y_pred, classes)


def filter_rate(y_true: Labels, y_pred: Labels, *, classes: Sequence[str] | None = None) -> float:
    """Share of low-quality images that the detector filters out; see `filtering.filter_rate`."""
    return _of_images(filtering.filter_rate, y_true, y_pred, classes)


def accuracy(y_true: Labels, y_pred: Labels, *, classes: Sequence[str] | None = None) -> float:
    """Share of right classes among the images that both call clear; see `classification.accuracy`."""
    return _of_images(classification.accuracy, y_true, y_pred, classes)


def balanced_accuracy(y_true: Labels, y_pred: Labels, *, classes: Sequence[str] | None = None) -> float:
    """Mean of the classes' accuracies; see `classification.balanced_accuracy`."""
    return _of_images(classification.balanced_accuracy, y_true, y_pred, classes)


def model_bias_score(
    y_true: Labels, y_pred: Labels, *, groups: Labels, classes: Sequence[str] | None = None
) -> float:
    """How biased a T2I model looks to a detector, 0 to 1; with `y_true` in place of `y_pred`, how biased it is.

    Args:
        y_true: human labels; images without one are left out.
        y_pred: the detector's labels.
        groups: the prompt of each image.
        classes: see the module.
    """
    return _of_prompts(bias.model_bias_score, y_true, y_pred, groups, classes)


def model_bias_score_deviation(
    y_true: Labels, y_pred: Labels, *, groups: Labels, classes: Sequence[str] | None = None
) -> float:
    """How far the reported model bias score lies from the actual one, as a signed fraction of it."""
    return _of_prompts(bias.model_bias_score_deviation, y_true, y_pred, groups, classes)


def prompt_bias_scores(
    y_true: Labels,
    y_pred: Labels,
    *,
    groups: Labels,
    n_clear: NClear = "detector",
    classes: Sequence[str] | None = None,
) -> pd.Series:
    """The detector's score of each prompt, from -1 (all of the second class) to 1 (all of the first).

    Args:
        y_true: human labels; images without one are left out.
        y_pred: the detector's labels.
        groups: the prompt of each image.
        n_clear: whose count of clear images is the denominator, "detector" or "human".
        classes: see the module; two of them.

    Returns:
        By prompt, in the order of its first image; NaN where no image is clear.
    """
    counts, prompts = count_labels(y_true, y_pred, groups=groups, classes=classes)
    return pd.Series(bias.prompt_bias_score(counts, n_clear=n_clear).value, index=prompts, dtype=float)


def prompt_bias_score_difference(
    y_true: Labels,
    y_pred: Labels,
    *,
    groups: Labels,
    n_clear: NClear = "detector",
    classes: Sequence[str] | None = None,
) -> float:
    """Mean distance of the detector's prompt bias scores from the actual ones; see `prompt_bias_scores`."""

    def difference(counts: CountArray, *, scopes: Scopes) -> Score:
        return bias.prompt_bias_score_difference(counts, n_clear=n_clear, scopes=scopes)

    return _of_prompts(difference, y_true, y_pred, groups, classes)


def count_labels(
    y_true: Labels, y_pred: Labels, *, groups: Labels | None = None, classes: Sequence[str] | None = None
) -> tuple[CountArray, pd.Index[Any]]:
    """Count labels as every function of `detector_bench.metrics` wants them.

    Args:
        y_true: human labels.
        y_pred: a detector's labels.
        groups: the prompt of each image; None: all of one prompt.
        classes: see the module.

    Returns:
        Counts `[prompt, truth, verdict]`, and the prompts in the order of their first image.

    Raises:
        ValueError: the sequences differ in length, hold a word that is no label, or name only one class.
    """
    truth, verdict = (pd.Series(list(labels), dtype=object) for labels in (y_true, y_pred))
    group = pd.Series("" if groups is None else list(groups), index=truth.index if groups is None else None)
    if not len(truth) == len(verdict) == len(group):
        raise ValueError(f"{len(truth)} true labels, {len(verdict)} predicted ones and {len(group)} groups")
    found = {str(name) for labels in (truth, verdict) for name in labels.dropna().unique()}
    known = list(_classes(found - {*_NOT_CLEAR}) if classes is None else classes)
    labelled = truth.notna().to_numpy()
    truth_code = _codes(truth[labelled], {**_positions(known), LOW_QUALITY: len(known), OTHERS: len(known) + 1})
    verdicts = {**_positions(known), **dict.fromkeys(_NOT_CLEAR, len(known))}
    verdict_code = _codes(verdict[labelled], verdicts).fillna(len(known) + 1)
    group_code, prompts = pd.factorize(group[labelled])
    counts = np.zeros((len(prompts), len(known) + 2, len(known) + 2), dtype=np.int64)
    np.add.at(counts, (group_code, truth_code.to_numpy(dtype=int), verdict_code.to_numpy(dtype=int)), 1)
    return counts, pd.Index(prompts)


def _positions(known: Sequence[str]) -> dict[str, int]:
    return {name: position for position, name in enumerate(known)}


def _classes(found: set[str]) -> Sequence[str]:
    for attribute in ATTRIBUTES.values():
        if found <= {*attribute.classes}:
            return attribute.classes
    if len(found) < 2:
        raise ValueError(f"the class {found.pop()!r} alone is no attribute: name all of them with `classes`")
    return sorted(found)


def _codes(labels: pd.Series, known: dict[str, int]) -> pd.Series:
    unknown = [str(name) for name in labels.dropna().unique() if name not in known]
    if unknown:
        raise ValueError(f"unknown label {unknown[0]!r} (accepted: {', '.join(known)}, None)")
    return labels.map(known)


def _of_images(
    metric: Callable[[CountArray], Score], y_true: Labels, y_pred: Labels, classes: Sequence[str] | None
) -> float:
    counts, _ = count_labels(y_true, y_pred, classes=classes)
    return float(metric(counts.sum(axis=0)).value)


def _of_prompts(
    metric: Callable[..., Score], y_true: Labels, y_pred: Labels, groups: Labels, classes: Sequence[str] | None
) -> float:
    counts, prompts = count_labels(y_true, y_pred, groups=groups, classes=classes)
    return float(metric(counts[np.newaxis], scopes=Scopes.of_prompts([""] * len(prompts))).value[0, 0])
