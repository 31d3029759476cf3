"""Which metrics stand in a metric table, and their values for many detectors and cells at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from detector_bench import metrics
from detector_bench.evaluation.counting import Counts
from detector_bench.metrics import CountArray, NClear, Score
from detector_bench.metrics.bias import SIGNED_CLASSES
from detector_bench.vocabulary import Attribute

PromptCells = tuple[NDArray[np.intp], NDArray[np.intp]]
"""Positions on the axes t2i_model and prompt of the cells that have images."""

_OTHERS = -1


class ScoreTable(NamedTuple):
    """Named scores side by side: arrays `[detector, ..., metric]`."""

    metrics: tuple[str, ...]
    value: NDArray[np.float64]
    n: NDArray[np.int64]
    n_left_out: NDArray[np.int64]
    ci_low: NDArray[np.float64]
    ci_high: NDArray[np.float64]
    """NaN where there is no interval."""

    @classmethod
    def of_scores(cls, named: _NamedScores) -> ScoreTable:
        """Put scores of one shape side by side, without intervals."""
        values = np.stack([score.value for _, score in named], axis=-1)
        return cls(
            tuple(name for name, _ in named),
            values,
            np.stack([score.n for _, score in named], axis=-1).astype(np.int64),
            np.stack([score.n_left_out for _, score in named], axis=-1).astype(np.int64),
            np.full(values.shape, np.nan),
            np.full(values.shape, np.nan),
        )

    def at(self, place: tuple[Any, ...]) -> ScoreTable:
        """The same metrics in some cells only; `place` indexes all axes but the last."""
        names, *arrays = self
        return ScoreTable(names, *(array[place] for array in arrays))

    def beside(self, other: ScoreTable) -> ScoreTable:
        """These metrics, then those of a table of the same detectors and cells."""
        arrays = (np.concatenate(pair, axis=-1) for pair in zip(self[1:], other[1:], strict=True))
        return ScoreTable(self.metrics + other.metrics, *arrays)


_NamedScores: TypeAlias = list[tuple[str, Score]]


def detector_scope_scores(counts: Counts, *, n_clear: NClear) -> ScoreTable:
    """Detectors' metrics for every scope: `[detector, 1 + T2I models, 1 + categories, metric]`."""
    verdicts, scopes = _laid_out_for_sums(counts.verdicts), counts.scopes
    pooled = metrics.pool(verdicts, scopes=scopes)
    not_run = scopes.sums(counts.not_run, prompt_axis=-1)
    return ScoreTable.of_scores(
        [
            *_image_counts(pooled, not_run),
            *_filtering_and_accuracy(pooled, counts.attribute),
            *_classification(pooled, counts.attribute),
            ("model_bias_score", metrics.model_bias_score(verdicts, scopes=scopes)),
            ("model_bias_score_actual", metrics.model_bias_score_actual(verdicts, scopes=scopes)),
            ("model_bias_score_deviation", metrics.model_bias_score_deviation(verdicts, scopes=scopes)),
            ("model_bias_score_corrected", metrics.model_bias_score_corrected(verdicts, scopes=scopes)),
            ("model_bias_score_if_fair", metrics.model_bias_score_if_fair(verdicts, scopes=scopes)),
            ("model_bias_score_error", metrics.model_bias_score_error(verdicts, scopes=scopes)),
            (
                "prompt_bias_score_difference",
                metrics.prompt_bias_score_difference(verdicts, n_clear=n_clear, scopes=scopes),
            ),
            ("prompt_bias_error", metrics.prompt_bias_error(verdicts, n_clear=n_clear, scopes=scopes)),
        ]
    )


def detector_prompt_scores(counts: Counts, *, at: PromptCells, n_clear: NClear) -> ScoreTable:
    """Detectors' metrics for some prompts of some T2I models: `[detector, cell, metric]`."""
    verdicts = _laid_out_for_sums(counts.verdicts[:, *at])
    named = [
        *_image_counts(verdicts, counts.not_run[:, *at]),
        *_filtering_and_accuracy(verdicts, counts.attribute),
    ]
    if len(counts.attribute.classes) == SIGNED_CLASSES:
        named += [
            ("prompt_bias_score", metrics.prompt_bias_score(verdicts, n_clear=n_clear)),
            ("prompt_bias_score_actual", metrics.prompt_bias_score_actual(verdicts)),
        ]
    named.append(("prompt_bias_score_difference", metrics.prompt_bias_score_error(verdicts, n_clear=n_clear)))
    return ScoreTable.of_scores(named)


def human_scope_scores(counts: Counts) -> ScoreTable:
    """The human labels' metrics for every scope: `[1, 1 + T2I models, 1 + categories, metric]`."""
    human = metrics.human_as_detector(counts.human)[np.newaxis]
    scopes = counts.scopes
    unlabelled = scopes.sums(counts.unlabelled, prompt_axis=-1)[np.newaxis]
    return ScoreTable.of_scores(
        [
            *_label_counts(metrics.pool(human, scopes=scopes), unlabelled, counts.attribute),
            ("model_bias_score", metrics.model_bias_score(human, scopes=scopes)),
            ("model_bias_score_corrected", metrics.model_bias_score_corrected(human, scopes=scopes)),
            ("model_bias_score_if_fair", metrics.model_bias_score_if_fair(human, scopes=scopes)),
        ]
    )


def human_prompt_scores(counts: Counts, *, at: PromptCells) -> ScoreTable:
    """The human labels' metrics for some prompts of some T2I models: `[1, cell, metric]`."""
    human = metrics.human_as_detector(counts.human[at])[np.newaxis]
    unlabelled = counts.unlabelled[at][np.newaxis]
    named = _label_counts(human, unlabelled, counts.attribute)
    if len(counts.attribute.classes) == SIGNED_CLASSES:
        score = metrics.prompt_bias_score_actual(human)
        named.append(("prompt_bias_score", score._replace(n_left_out=unlabelled)))
    return ScoreTable.of_scores(named)


def _laid_out_for_sums(counts: CountArray) -> CountArray:
    """The same array, in memory so that adding up truths or verdicts runs over long rows, not four numbers."""
    ends, fronts = (-2, -1), (0, 1)
    return np.moveaxis(np.ascontiguousarray(np.moveaxis(counts, ends, fronts)), fronts, ends)


def _image_counts(counts: CountArray, not_run: CountArray) -> _NamedScores:
    images = metrics.count_images(counts)
    clear = metrics.detector_class_counts(counts).sum(axis=-1)
    without_verdict = metrics.images_without_verdict(counts)
    return [
        ("images", _number_of(images, among=images)),
        ("images_clear", _number_of(clear, among=images)),
        ("images_filtered", _number_of(images - clear - without_verdict, among=images)),
        ("images_error", _number_of(without_verdict - not_run, among=images)),
        ("images_not_run", _number_of(not_run, among=images)),
    ]


def _label_counts(counts: CountArray, unlabelled: CountArray, attribute: Attribute) -> _NamedScores:
    images = metrics.count_images(counts)
    clear = metrics.human_class_counts(counts).sum(axis=-1)
    others = counts[..., _OTHERS, :].sum(axis=-1)
    shares = metrics.label_shares(counts)
    left_out = np.broadcast_to(unlabelled[..., np.newaxis], shares.n.shape)
    return [
        ("images", _number_of(images, among=images)),
        ("images_unlabelled", _number_of(unlabelled, among=images + unlabelled)),
        ("images_clear", _number_of(clear, among=images)),
        ("images_others", _number_of(others, among=images)),
        *_one_each("label_share", shares._replace(n_left_out=left_out), attribute.labels),
    ]


def _filtering_and_accuracy(counts: CountArray, attribute: Attribute) -> _NamedScores:
    return [
        ("precision", metrics.precision(counts)),
        ("recall", metrics.recall(counts)),
        *_one_each("recall", metrics.recall_per_class(counts), attribute.classes),
        ("f1", metrics.f1(counts)),
        ("filter_rate", metrics.filter_rate(counts)),
        ("accuracy", metrics.accuracy(counts)),
        *_one_each("accuracy", metrics.accuracy_per_class(counts), attribute.classes),
    ]


def _classification(counts: CountArray, attribute: Attribute) -> _NamedScores:
    return [
        *_one_each(
            "classification_precision", metrics.classification_precision_per_class(counts), attribute.classes
        ),
        ("balanced_accuracy", metrics.balanced_accuracy(counts)),
        ("alignment_accuracy", metrics.alignment_accuracy(counts)),
    ]


def _one_each(name: str, score: Score, words: Sequence[str]) -> _NamedScores:
    return [(f"{name}_{word}", Score(*(array[..., index] for array in score))) for index, word in enumerate(words)]


def _number_of(images: CountArray, *, among: CountArray) -> Score:
    return Score(images.astype(np.float64), among, np.zeros_like(among))
