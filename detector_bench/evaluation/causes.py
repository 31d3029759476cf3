"""Causes of detectors' errors, laid out as long tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from detector_bench.evaluation.cause_intervals import gap_interval, part_intervals
from detector_bench.evaluation.counting import (
    Counts,
    ImageIndex,
    IntArray,
    LabelledImages,
    count_attribute,
    human_label_codes,
)
from detector_bench.evaluation.encoding import NULL
from detector_bench.evaluation.image_verdicts import ImageVerdicts, first_words, image_verdicts
from detector_bench.evaluation.intervals import Intervals
from detector_bench.metrics import NClear, count_images, images_without_verdict, pool
from detector_bench.metrics.cause_tests import beyond_chance
from detector_bench.metrics.causes import (
    PARTS,
    ErrorParts,
    ReplacedScores,
    accuracy_gap,
    prompts_behind,
    replaced_scores,
)
from detector_bench.metrics.classification import accuracy_per_class
from detector_bench.metrics.joint_verdicts import Codes
from detector_bench.vocabulary import ALL, Status

_LIMITS = ("ci_low", "ci_high")
_BEYOND_CHANCE = "beyond_chance"
_NUMBER = ("value", *_LIMITS, "n", "n_left_out")

CAUSE_COLUMNS = (
    "detector",
    "attribute",
    "t2i_model",
    "category",
    "error_metric",
    "n_clear",
    *PARTS,
    *(f"{part}_{limit}" for part in PARTS for limit in _LIMITS),
    *(f"{part}_{_BEYOND_CHANCE}" for part in PARTS),
    "n",
    "n_left_out",
    "images",
    "images_without_verdict",
)
"""One row per detector, scope and kind of bias error; see `metrics.causes.ErrorParts`. `n_clear` is empty
where it does not matter; limits are NaN where there is no interval. `<part>_beyond_chance`: whether the interval
leaves 0 out; of a prompt bias score difference, which chance alone makes larger than 0, whether
`metrics.cause_tests` finds more than that. Never without an interval."""

GAP_COLUMNS = ("detector", "attribute", "t2i_model", "category", *_NUMBER)

OUTCOME_COLUMNS = (
    "detector",
    "attribute",
    "t2i_model",
    "category",
    "human_label",
    "human_reason",
    "status",
    "detector_reason",
    "images",
)
"""Labelled images by what the human and what the detector said, each with its reason ("" where none is stored)."""

_NEEDS_N_CLEAR = "prompt_bias_score_difference"

DEFAULT_INTERVALS = Intervals()

PREDICTION_COLUMNS = ("reason", "score")
"""What `read_predictions` has to read for the functions of this module."""


def causes(
    image_set: LabelledImages,
    predictions: Mapping[str, pa.Table],
    *,
    attribute: str = "gender",
    n_clear: NClear = "detector",
    allow_incomplete: bool = False,
    intervals: Intervals = DEFAULT_INTERVALS,
) -> pd.DataFrame:
    """Split every detector's bias errors into a filtering and a classification part.

    Args:
        image_set: images, prompts and human labels.
        predictions: by detector, with the columns `reason` and `score`.
        attribute: which one.
        n_clear: see `metrics.prompt_bias_score`.
        allow_incomplete: leave images without a prediction out instead of raising.
        intervals: how confidence intervals are found; those of the study give `error` the interval of the metric
            table.

    Returns:
        Columns as in `CAUSE_COLUMNS`: everything, each T2I model, each category, and each T2I model and category
        that has labelled images. A detector that does not judge the attribute has no row.

    Raises:
        ConfigError, DataError, IncompletePredictionsError: as in `count_verdicts`.
    """
    index = ImageIndex.of(image_set)
    counts = count_attribute(image_set, index, predictions, attribute=attribute, allow_incomplete=allow_incomplete)
    named, filtered = _filtered_classes(image_set, index, predictions, counts)
    scores = replaced_scores(counts.verdicts, n_clear=n_clear, filtered_classes=filtered, scopes=counts.scopes)
    behind = prompts_behind(counts.verdicts, n_clear=n_clear, scopes=counts.scopes)
    pooled = pool(counts.verdicts, scopes=counts.scopes)
    images = {"images": count_images(pooled), "images_without_verdict": images_without_verdict(pooled)}
    limits = part_intervals(counts, named, _detectors_last(scores), settings=intervals, n_clear=n_clear)
    tested = beyond_chance(
        counts.verdicts, n_clear=n_clear, filtered_classes=filtered, scopes=counts.scopes, level=intervals.level
    )
    scopes = _FilledScopes(counts)
    blocks = []
    for place, detector in enumerate(counts.detectors):
        for error, values in scores.errors.items():
            parts = ErrorParts.of_errors(values[:, place])._asdict()
            numbers = parts | {"n": behind[error].n[place], "n_left_out": behind[error].n_left_out[place]}
            numbers |= {name: counted[place] for name, counted in images.items()}
            numbers |= {f"{part}_{_BEYOND_CHANCE}": np.zeros(parts["error"].shape, dtype=bool) for part in PARTS}
            for part, interval in limits.get(error, {}).items():
                low, high = (limit[..., place] for limit in interval)
                more = (low > 0) | (high < 0)
                if error == _NEEDS_N_CLEAR:
                    more = getattr(tested, part)[place] & ~np.isnan(low)
                numbers |= {f"{part}_ci_low": low, f"{part}_ci_high": high, f"{part}_{_BEYOND_CHANCE}": more}
            words = {"error_metric": error, "n_clear": n_clear if error == _NEEDS_N_CLEAR else ""}
            blocks.append(scopes.rows(detector, numbers, **words))
    return _joined(blocks, CAUSE_COLUMNS)


def accuracy_gaps(
    image_set: LabelledImages,
    predictions: Mapping[str, pa.Table],
    *,
    attribute: str = "gender",
    allow_incomplete: bool = False,
    intervals: Intervals = DEFAULT_INTERVALS,
) -> pd.DataFrame:
    """Every detector's `accuracy_gap`, in the scopes of `causes`.

    Returns:
        Columns as in `GAP_COLUMNS`.
    """
    index = ImageIndex.of(image_set)
    counts = count_attribute(image_set, index, predictions, attribute=attribute, allow_incomplete=allow_incomplete)
    pooled = pool(counts.verdicts, scopes=counts.scopes)
    gap, accuracies = accuracy_gap(pooled), accuracy_per_class(pooled).value
    interval = gap_interval(
        counts, np.moveaxis(gap.value, 0, -1), np.moveaxis(accuracies, 0, -2), settings=intervals
    )
    scopes = _FilledScopes(counts)
    blocks = []
    for place, detector in enumerate(counts.detectors):
        numbers = {name: values[place] for name, values in gap._asdict().items()}
        numbers |= {name: limit[..., place] for name, limit in zip(_LIMITS, interval, strict=True)}
        blocks.append(scopes.rows(detector, numbers))
    return _joined(blocks, GAP_COLUMNS)


def filter_outcomes(
    image_set: LabelledImages,
    predictions: Mapping[str, pa.Table],
    *,
    attribute: str = "gender",
    allow_incomplete: bool = False,
) -> pd.DataFrame:
    """Count labelled images by human label and reason, and by the detector's status and reason.

    With it, filtering errors are broken down: clear images lost by the detector's reason, low-quality images kept
    by the human's reason.

    Returns:
        Columns as in `OUTCOME_COLUMNS`; only combinations that occur.
    """
    index = ImageIndex.of(image_set)
    truth = image_set.truth(attribute) if attribute in image_set.attributes else pd.DataFrame()
    has_reasons = "reason" in truth.columns
    human_reason, human_reasons = first_words(truth["reason"]) if has_reasons else (None, ())
    blocks = []
    for each in _judged(image_set, index, predictions, attribute=attribute, allow_incomplete=allow_incomplete):
        labelled = each.truth != NULL
        prompts = len(index.prompt_ids)
        status = np.maximum(each.verdict - len(each.attribute.classes) + 1, 0)
        columns = {
            "t2i_model": (index.cells // prompts, index.t2i_models),
            "category": (index.scopes.category_of_prompt[index.cells % prompts], index.scopes.categories),
            "human_label": (each.truth, each.attribute.labels),
            "human_reason": (
                np.full(len(each.truth), NULL) if human_reason is None else human_reason,
                human_reasons,
            ),
            "status": (status, tuple(Status)),
            "detector_reason": (each.reason, each.reasons),
        }
        rows = {name: np.array([*words, ""])[code[labelled]] for name, (code, words) in columns.items()}
        counted = pd.DataFrame(rows).value_counts(sort=False).rename("images").reset_index()
        blocks.append(counted.assign(detector=each.detector, attribute=attribute))
    return _joined(blocks, OUTCOME_COLUMNS)


def _filtered_classes(
    image_set: LabelledImages, index: ImageIndex, predictions: Mapping[str, pa.Table], counts: Counts
) -> tuple[Codes, IntArray]:
    """The classes that are stored with filtered images.

    Returns:
        Of every labelled image, `[detector, image]`, `NULL` where none is stored or the image is not filtered; and
        how many human-clear images have one, by true and stored class, `[detector, t2i_model, prompt, K, K]`.
    """
    kind, classes = counts.attribute, len(counts.attribute.classes)
    truth = np.where(index.counted, human_label_codes(image_set, index, kind), NULL)
    of_images = np.full((len(counts.detectors), len(truth)), NULL, dtype=np.int8)
    images = np.zeros((len(counts.detectors), *index.shape, classes, classes), dtype=np.int64)
    for place, detector in enumerate(counts.detectors):
        each = image_verdicts(
            image_set, index, predictions[detector], detector=detector, attribute=kind.name, allow_incomplete=True
        )
        if each is not None:
            of_images[place] = np.where(each.filtered, each.label, NULL)
            known = (truth >= 0) & (truth < classes) & (of_images[place] != NULL)
            codes = (np.where(known, code, NULL) for code in (truth, of_images[place]))
            counted = index.count(*((code, classes) for code in codes))
            images[place] = counted[..., :classes, :classes]
    return of_images[:, truth != NULL], images


def _detectors_last(scores: ReplacedScores) -> ReplacedScores:
    """`[replacement, detector, 1 + T2I models, 1 + categories]` with the detectors behind the scopes."""
    return ReplacedScores(
        np.moveaxis(scores.model_bias_score, 1, -1),
        np.moveaxis(scores.model_bias_score_actual, 0, -1),
        np.moveaxis(scores.prompt_bias_score_difference, 1, -1),
    )


def _judged(
    image_set: LabelledImages,
    index: ImageIndex,
    predictions: Mapping[str, pa.Table],
    *,
    attribute: str,
    allow_incomplete: bool,
) -> Iterator[ImageVerdicts]:
    for detector, table in predictions.items():
        found = image_verdicts(
            image_set, index, table, detector=detector, attribute=attribute, allow_incomplete=allow_incomplete
        )
        if found is not None:
            yield found


class _FilledScopes:
    """The scopes with labelled images: everything, T2I models, categories, T2I models by category."""

    def __init__(self, counts: Counts) -> None:
        filled = counts.scopes.sums(counts.human.sum(axis=-1), prompt_axis=-1) > 0
        t2i_model, category = np.nonzero(filled)
        order = np.lexsort((category, t2i_model, (t2i_model > 0) + 2 * (category > 0)))
        self._place = (t2i_model[order], category[order])
        self._names = (np.array([ALL, *counts.t2i_models]), np.array([ALL, *counts.scopes.categories]))
        self._attribute = counts.attribute.name

    def rows(self, detector: str, numbers: Mapping[str, NDArray[Any]], **words: str) -> pd.DataFrame:
        """A row for each scope, of numbers `[1 + T2I models, 1 + categories]`."""
        model, category = (names[code] for names, code in zip(self._names, self._place, strict=True))
        frame = pd.DataFrame({"t2i_model": model, "category": category})
        values = {name: array[self._place] for name, array in numbers.items()}
        return frame.assign(detector=detector, attribute=self._attribute, **words, **values)


def _joined(blocks: Sequence[pd.DataFrame], columns: Sequence[str]) -> pd.DataFrame:
    if not blocks:
        return pd.DataFrame({name: [] for name in columns})
    # Columns that no block has, as limits without resamples, are empty.
    return pd.concat(blocks, ignore_index=True).reindex(columns=list(columns))
