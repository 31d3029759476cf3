"""Filtering, accuracy and bias error of one detector at many thresholds, from its stored scores; nothing runs
again.

At a threshold t the detector keeps an image that has a class and a score of at least t, and filters it otherwise.
An image that the run filtered comes back only if its class is stored beside its score, which the built-in
detectors do not do: `Prediction.filtered` holds a score but no class. So below the threshold that the run itself
used, the sweep knows less than a run would show. `Sweep.known_above` says where that begins.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from detector_bench.errors import ConfigError
from detector_bench.evaluation.image_index import NULL, IntArray, LabelledImages
from detector_bench.evaluation.image_verdicts import ImageVerdicts, rows_of_attribute
from detector_bench.metrics import METRICS, NClear, Scopes
from detector_bench.vocabulary import ALL, Attribute

SWEEP_COLUMNS = (
    "detector",
    "attribute",
    "t2i_model",
    "threshold",
    "known",
    "metric",
    "n_clear",
    "value",
    "n",
    "n_left_out",
)
"""One row per number; `known` is False where a run with that threshold could keep more images than the sweep
can."""

_UNCERTAIN = "uncertain"


@dataclass(frozen=True, slots=True)
class Sweep:
    """One detector's counts at every threshold."""

    detector: str
    attribute: Attribute
    t2i_models: tuple[str, ...]
    thresholds: NDArray[np.float64]
    """The thresholds that were tried, in ascending order."""
    counts: IntArray
    """Images at each threshold, `[threshold, t2i_model, prompt, truth, verdict]`."""
    category_of_prompt: NDArray[np.intp]
    known_above: float
    """Thresholds up to this one leave out images that a run would keep; -inf: all thresholds are known."""
    without_score: int
    """Labelled images that the detector kept without a score: they stay kept at every threshold."""


def even_thresholds(*, first: float = 0.0, last: float = 1.0, steps: int = 100) -> NDArray[np.float64]:
    """`steps` + 1 thresholds at equal distances.

    Raises:
        ConfigError: they do not lie in ascending order within 0 and 1, or there is no step.
    """
    if not 0 <= first < last <= 1:
        raise ConfigError(f"thresholds from {first} to {last} (accepted: 0 to 1, ascending)")
    if steps < 1:
        raise ConfigError(f"steps: {steps} (accepted: 1 or more)")
    # Rounded, so that 0.9 is the 0.9 that a study file says.
    return np.round(np.linspace(first, last, steps + 1), 12)


def first_threshold(tables: Iterable[pa.Table], *, attribute: str) -> float:
    """The highest of 0, 0.05, 0.1, ..., 0.95 at which detectors keep all that has a class: where a sweep begins.

    A softmax over two classes says nothing below 0.5; all curves are flat up to there.

    Args:
        tables: detectors' predictions, with the column `score`.
        attribute: which one.
    """
    steps = 20
    lowest = []
    for table in tables:
        rows = rows_of_attribute(table, attribute)
        scores = rows["score"].to_numpy(zero_copy_only=False)[rows["label"].is_valid().to_numpy()]
        lowest += [float(scores[~np.isnan(scores)].min(initial=1.0))]
    return min(max(math.floor(steps * min(lowest, default=0.0)), 0), steps - 1) / steps


def sweep_counts(
    image_set: LabelledImages,
    table: pa.Table,
    *,
    detector: str,
    attribute: str = "gender",
    thresholds: NDArray[np.float64],
    allow_incomplete: bool = False,
) -> Sweep:
    """Count a detector's verdicts at every threshold.

    Args:
        image_set: images, prompts and human labels.
        table: its predictions, with the columns `reason` and `score`.
        detector: its name.
        attribute: which one.
        thresholds: in ascending order.
        allow_incomplete: leave images without a prediction out instead of raising.

    Raises:
        ConfigError: the detector stores no score, or does not judge the attribute.
        DataError, IncompletePredictionsError: as in `count_verdicts`.
    """
    found = ImageVerdicts.read(
        image_set, {detector: table}, attribute=attribute, allow_incomplete=allow_incomplete
    )
    if not found.has_judged.any():
        raise ConfigError(f"{detector} does not judge {attribute!r}")
    score = found.numbers("score")[0]
    if not (found.clear[0] & ~np.isnan(score)).any():
        raise ConfigError(f"{detector} has no stored score for {attribute!r}: there is nothing to sweep")
    return Sweep(
        detector=detector,
        attribute=found.attribute,
        t2i_models=found.index.t2i_models,
        thresholds=thresholds,
        counts=_counts(found, score, thresholds),
        category_of_prompt=found.index.scopes.category_of_prompt,
        known_above=_known_above(found, score),
        without_score=int((found.clear[0] & np.isnan(score) & found.labelled).sum()),
    )


def sweep_table(sweep: Sweep, *, n_clear: NClear = "detector") -> pd.DataFrame:
    """The metrics at every threshold, for all T2I models together and for each.

    Returns:
        Columns as in `SWEEP_COLUMNS`, by T2I model, metric and threshold.
    """
    scopes = Scopes(("",), np.zeros(sweep.counts.shape[2], dtype=np.intp))
    t2i_models = np.array([ALL, *sweep.t2i_models])
    shape = (len(sweep.thresholds), len(t2i_models))
    blocks = []
    swept = METRICS.swept_for(sweep.attribute)
    for metric in swept:
        score = metric.scores(sweep.counts, scopes=scopes, n_clear=n_clear)
        threshold, model = np.indices(shape)
        numbers = {name: getattr(score, name)[..., 0].ravel() for name in ("value", "n", "n_left_out")}
        words = {
            "detector": sweep.detector,
            "attribute": sweep.attribute.name,
            "metric": metric.name,
            "n_clear": n_clear if metric.depends_on_n_clear else "",
        }
        at = sweep.thresholds[threshold.ravel()]
        places = {"t2i_model": t2i_models[model.ravel()], "threshold": at, "known": at > sweep.known_above}
        blocks.append(pd.DataFrame(places | numbers).assign(**words))
    table = pd.concat(blocks, ignore_index=True)
    model_order = {name: position for position, name in enumerate(t2i_models)}
    metric_order = {name: position for position, name in enumerate(each.name for each in swept)}
    order = np.lexsort(
        (table["threshold"], table["metric"].map(metric_order), table["t2i_model"].map(model_order))
    )
    return table.loc[order, list(SWEEP_COLUMNS)].reset_index(drop=True)


def _counts(found: ImageVerdicts, score: NDArray[np.float64], thresholds: NDArray[np.float64]) -> IntArray:
    """Cumulative counts over how many thresholds an image reaches."""
    if np.any(np.diff(thresholds) <= 0):
        raise ValueError("thresholds must ascend")
    (clear,), (filtered,), (label,), index = found.clear, found.filtered, found.named, found.index
    classes, labels, steps = len(found.attribute.classes), len(found.attribute.labels), len(thresholds)
    # How many thresholds keep the image: of an image without a score all of them, if the run kept it.
    reached = np.searchsorted(thresholds, np.nan_to_num(score, nan=-np.inf), side="right")
    reached = np.where(clear & np.isnan(score), steps, reached)
    can_be_kept = (clear | filtered) & (label != NULL)
    brought_back = filtered & np.isnan(score)
    reached = np.where(can_be_kept & ~brought_back, reached, 0)
    by_reach = index.count(
        (found.truth, labels), (np.where(can_be_kept, label, NULL), classes), (reached, steps + 1)
    )[..., :labels, :classes, : steps + 1]
    # Threshold number i keeps the images that reach more than i of them.
    kept = np.moveaxis(by_reach[..., ::-1].cumsum(axis=-1)[..., ::-1][..., 1:], -1, 0)
    judged = index.count((found.truth, labels), (found.counted[0], labels))[..., :labels, :labels]
    counts = np.zeros((steps, *judged.shape), dtype=np.int64)
    counts[..., :classes] = kept
    counts[..., classes] = judged[..., :-1].sum(axis=-1) - kept.sum(axis=-1)
    counts[..., -1] = judged[..., -1]
    return counts


def _known_above(found: ImageVerdicts, score: NDArray[np.float64]) -> float:
    """The highest score that the run's own threshold filtered.

    An image was filtered by the threshold if its reason is `uncertain` and its score lies below that of every
    image that was kept. Others are uncertain for another reason, as with a prompt for "uncertain", and no
    threshold brings them back.
    """
    reason, reasons = found.reasons(0)
    if _UNCERTAIN not in reasons:
        return -np.inf
    uncertain = found.filtered[0] & (reason == reasons.index(_UNCERTAIN)) & (found.named[0] == NULL)
    scores = score[uncertain & ~np.isnan(score)]
    scores = scores[scores < np.nanmin(score[found.clear[0]])]
    return float(scores.max()) if scores.size else -np.inf


def nearest_thresholds(
    thresholds: Sequence[float], *, shown: int = 21, always: Iterable[float] = ()
) -> list[float]:
    """At most `shown` of the thresholds, evenly picked, the first and the last included; and those of `always`."""
    if len(thresholds) <= shown:
        return list(thresholds)
    picked = np.unique(np.linspace(0, len(thresholds) - 1, shown).round().astype(int))
    return sorted({thresholds[position] for position in picked} | (set(always) & set(thresholds)))
