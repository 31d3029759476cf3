"""The bootstrap distribution of every metric, for every scope and all detectors at once.

Two questions, two units:

- `"image"`: what if the T2I models had made other images from the same prompts? Images are drawn with replacement
  within every prompt of every T2I model.
- `"prompt"`: what if other prompts of the same categories had been chosen? Prompts are drawn with replacement
  within their category, each with all its images by all T2I models. Their scores differ by the chance of their
  images already, so images are not drawn a second time: that would count the same noise twice.

A resample is the same for all detectors, so that differences between them are paired.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from detector_bench import metrics
from detector_bench.metrics.bias import NClear
from detector_bench.metrics.bias_terms import BiasTerms
from detector_bench.metrics.counts import CountArray, FloatArray, divide
from detector_bench.metrics.estimands import LARGEST_TABLE
from detector_bench.metrics.joint_verdicts import JointVerdicts
from detector_bench.metrics.resampling import (
    LARGEST_DRAWN_ONE_BY_ONE,
    RESAMPLES_PER_BLOCK,
    Resampler,
)

Unit: TypeAlias = Literal["image", "prompt"]

_Values = dict[str, FloatArray]


class Resampled(NamedTuple):
    """Every metric in every resample."""

    detectors: Mapping[str, FloatArray]
    """By metric: `[1 + T2I models, 1 + categories, detector, resample]`; position 0 of the scopes is "all"."""
    human: Mapping[str, FloatArray]
    """By metric of the human labels: `[1 + T2I models, 1 + categories, 1, resample]`."""
    prompts: Mapping[str, FloatArray]
    """By metric of single prompts: `[pair, 1 + detector, resample]`, the human first; empty unless asked for."""
    pairs: NDArray[np.intp]
    """Position of each pair in the flattened table `[t2i_model, prompt]`."""


def resample(
    joint: JointVerdicts,
    *,
    resamples: int = 2_000,
    unit: Unit = "image",
    seed: int = 0,
    n_clear: NClear = "detector",
    prompts: bool = False,
    one_by_one: int = LARGEST_DRAWN_ONE_BY_ONE,
    threads: int | None = None,
) -> Resampled:
    """Draw resamples and compute every metric in each.

    The same seed gives the same numbers with any number of threads, the first resamples of a longer series are
    those of a shorter one, and a further detector leaves what is drawn one by one as it was.

    Args:
        joint: truth and verdicts of every labelled image.
        resamples: how many.
        unit: what is drawn; see the module.
        seed: of the random numbers.
        n_clear: denominator of detectors' prompt bias scores.
        prompts: also keep the scores of single prompts (`unit="image"` only).
        one_by_one: prompts of a T2I model with more images get normally distributed counts; see `Resampler`.
        threads: how many work at once; None: as many as there are processors.
    """
    # The matrices are small: threads of the linear algebra library would only wait for each other.
    with threadpool_limits(1, user_api="blas"):
        return _resample(
            joint,
            Resampler(joint, count_verdicts=n_clear == "human", one_by_one=one_by_one),
            resamples=resamples,
            unit=unit,
            seed=seed,
            n_clear=n_clear,
            prompts=prompts,
            threads=threads or os.cpu_count() or 1,
        )


def _resample(
    joint: JointVerdicts,
    resampler: Resampler,
    *,
    resamples: int,
    unit: Unit,
    seed: int,
    n_clear: NClear,
    prompts: bool,
    threads: int,
) -> Resampled:
    evaluation = _Evaluation(joint, resampler, n_clear=n_clear)

    unchanged = evaluation.unchanged() if unit == "prompt" else None

    def block(number: int) -> tuple[_Values, _Values, _Values]:
        if unchanged is not None:
            return evaluation.with_prompt_weights(unchanged, _prompt_weights(joint, number, seed=seed))
        return evaluation.of_block(number, seed=seed, prompts=prompts)

    count = -(-resamples // RESAMPLES_PER_BLOCK)
    collected = _Collected(resamples)
    with ThreadPoolExecutor(threads) as pool:
        for number, values in enumerate(pool.map(block, range(count))):
            collected.put(number * RESAMPLES_PER_BLOCK, values)
    detectors, human, single = collected.arrays
    return Resampled(detectors, human, single, resampler.pairs)


def leave_one_prompt_out(joint: JointVerdicts, *, n_clear: NClear = "detector") -> Resampled:
    """Every metric without one prompt: the axis `resample` is the prompt that is left out."""
    resampler = Resampler(joint, count_verdicts=n_clear == "human")
    evaluation = _Evaluation(joint, resampler, n_clear=n_clear)
    weights = 1 - np.eye(joint.prompts, dtype=np.float32)
    detectors, human, single = evaluation.with_prompt_weights(evaluation.unchanged(), weights)
    return Resampled(detectors, human, single, resampler.pairs)


class _Collected:
    """Puts the values of blocks into arrays of the whole length."""

    def __init__(self, resamples: int) -> None:
        self._resamples = resamples
        self.arrays: tuple[_Values, _Values, _Values] = ({}, {}, {})

    def put(self, start: int, values: Iterable[_Values]) -> None:
        for kept, named in zip(self.arrays, values, strict=True):
            for name, value in named.items():
                if name not in kept:
                    kept[name] = np.empty((*value.shape[:-1], self._resamples), dtype=value.dtype)
                room = kept[name][..., start : start + value.shape[-1]]
                room[...] = value[..., : room.shape[-1]]


def _prompt_weights(joint: JointVerdicts, number: int, *, seed: int) -> NDArray[np.float32]:
    """How often each prompt is drawn: `[prompt, resample]`. Prompts without images take no part."""
    stream = np.random.Generator(np.random.SFC64(np.random.SeedSequence(seed, spawn_key=(number,))))
    weights = np.zeros((joint.prompts, RESAMPLES_PER_BLOCK), dtype=np.float32)
    has_images = np.bincount(joint.pair % max(joint.prompts, 1), minlength=joint.prompts) > 0
    for category in range(len(joint.scopes.categories)):
        members = np.flatnonzero((joint.scopes.category_of_prompt == category) & has_images)
        if members.size:
            equal = np.full(members.size, 1 / members.size)
            weights[members] = stream.multinomial(members.size, equal, size=RESAMPLES_PER_BLOCK).T
    return weights


@dataclass(frozen=True, slots=True)
class _Evaluation:
    """From sums to metrics."""

    joint: JointVerdicts
    resampler: Resampler
    n_clear: NClear

    def of_block(self, number: int, *, seed: int, prompts: bool) -> tuple[_Values, _Values, _Values]:
        sums = self.resampler.block(number, seed=seed)
        terms = BiasTerms(sums.class_counts, sums.verdicts, drawn=self.resampler.drawn, n_clear=self.n_clear)
        blocks = {name: self._over_pairs(each) for name, each in terms.sums()}
        single = terms.prompt_scores() if prompts else {}
        return (*self._metrics(self._to_scopes(sums.pooled), blocks), single)

    def unchanged(self) -> tuple[CountArray, dict[str, CountArray]]:
        """Kinds and terms of every pair as it is, `[pair, ...]`: what prompts carry with them when they are
        drawn."""
        sums = self.resampler.unchanged()
        small = sums.class_counts.sum(axis=1).max(axis=(-2, -1)) <= LARGEST_TABLE
        terms = BiasTerms(sums.class_counts, sums.verdicts, drawn=small, n_clear=self.n_clear)
        return sums.pooled[..., 0], {name: each[..., 0] for name, each in terms.sums()}

    def with_prompt_weights(
        self, unchanged: tuple[CountArray, dict[str, CountArray]], weights: NDArray[np.float32]
    ) -> tuple[_Values, _Values, _Values]:
        """The metrics of drawn prompts; `weights` say how often each is drawn, `[prompt, resample]`."""
        weight_of_pair = weights[self.resampler.pairs % self.joint.prompts]

        def weighted(values: CountArray) -> CountArray:
            parts = np.zeros((self._blocks, *values.shape[1:], weights.shape[-1]))
            for block in np.unique(self.resampler.blocks):
                chosen = self.resampler.blocks == block
                parts[block] = np.tensordot(values[chosen], weight_of_pair[chosen], axes=(0, 0))
            return parts

        kinds, terms = unchanged
        blocks = {name: weighted(each) for name, each in terms.items()}
        return (*self._metrics(self._to_scopes(weighted(kinds)), blocks), {})

    @property
    def _blocks(self) -> int:
        return self.joint.t2i_models * len(self.joint.scopes.categories)

    def _over_pairs(self, values: CountArray) -> CountArray:
        """Add up over the pairs of each block: `[pair, ...]` to `[block, ...]`."""
        filled, starts = np.unique(self.resampler.blocks, return_index=True)
        total = np.zeros((self._blocks, *values.shape[1:]))
        if filled.size:
            total[filled] = np.add.reduceat(values, starts, axis=0)
        return total

    def _to_scopes(self, blocks: CountArray) -> CountArray:
        """`[t2i_model x category, ...]` to `[1 + T2I models, 1 + categories, ...]`."""
        values = blocks.reshape(self.joint.t2i_models, len(self.joint.scopes.categories), *blocks.shape[1:])
        values = np.concatenate([values.sum(axis=1, keepdims=True), values], axis=1)
        total: CountArray = np.concatenate([values.sum(axis=0, keepdims=True), values], axis=0)
        return total

    def _metrics(self, pooled: CountArray, blocks: Mapping[str, CountArray]) -> tuple[_Values, _Values]:
        detectors = _over_images(self.resampler.kinds.counts(pooled))
        means: _Values = {}
        for name in ("model_bias_score", "model_bias_score_corrected", "prompt_bias_score_difference"):
            sums = self._to_scopes(blocks[name])
            defined = self._to_scopes(blocks[f"{name} n"])
            means[name] = divide(sums, defined)
        human = {
            f"label_share_{index}": share
            for index, share in enumerate(_label_shares(self.resampler.kinds.label_counts(pooled)))
        }
        scores, corrected = means["model_bias_score"], means["model_bias_score_corrected"]
        human |= {"model_bias_score": scores[..., :1, :], "model_bias_score_corrected": corrected[..., :1, :]}
        actual = np.broadcast_to(scores[..., :1, :], scores[..., 1:, :].shape)
        detectors |= {
            "model_bias_score": scores[..., 1:, :],
            "model_bias_score_corrected": corrected[..., 1:, :],
            "model_bias_score_actual": actual,
            "model_bias_score_deviation": divide(scores[..., 1:, :] - actual, actual),
            "prompt_bias_score_difference": means["prompt_bias_score_difference"],
        }
        return detectors, human


def _over_images(counts: CountArray) -> _Values:
    values = {
        "precision": metrics.precision(counts).value,
        "recall": metrics.recall(counts).value,
        "f1": metrics.f1(counts).value,
        "filter_rate": metrics.filter_rate(counts).value,
        "accuracy": metrics.accuracy(counts).value,
        "balanced_accuracy": metrics.balanced_accuracy(counts).value,
        "alignment_accuracy": metrics.alignment_accuracy(counts).value,
    }
    for name, score in (
        ("recall", metrics.recall_per_class(counts)),
        ("accuracy", metrics.accuracy_per_class(counts)),
        ("classification_precision", metrics.classification_precision_per_class(counts)),
    ):
        for index in range(score.value.shape[-1]):
            values[f"{name}_{index}"] = score.value[..., index]
    return values


def _label_shares(labels: CountArray) -> list[FloatArray]:
    """One array for each human label, of counts `[..., label, resample]`."""
    total = labels.sum(axis=-2)
    return [divide(labels[..., index, :], total)[..., np.newaxis, :] for index in range(labels.shape[-2])]
