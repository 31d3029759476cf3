"""One attribute, or a pair of them, against one reference: distances, what chance gives, a test of each prompt."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from detector_bench.evaluation.intervals import Intervals
from detector_bench.metrics.counts import CountArray, FloatArray, Score, divide
from detector_bench.metrics.representation import (
    kl_divergence,
    kl_divergence_if_reference,
    mean_absolute_deviation,
    mean_absolute_deviation_if_reference,
    p_value,
    pooled_total_variation_if_reference,
    total_variation,
    total_variation_if_reference,
)
from detector_bench.metrics.scopes import mean_over_prompts
from detector_bench.others.judgements import Judgements
from detector_bench.others.representation.groups import Compared
from detector_bench.others.representation.names import (
    CLEAR_SHARE,
    DIFFERING,
    FALSE_DISCOVERY_RATE,
    KL_DIVERGENCE,
    MEAN_ABSOLUTE_DEVIATION,
    P_VALUE,
    POOLED,
    TOTAL_VARIATION,
    if_reference,
)
from detector_bench.others.representation.shares_file import shares_table
from detector_bench.others.score_system import Computed, MetricRows, score_rows

_DISTANCES = {
    TOTAL_VARIATION: (total_variation, total_variation_if_reference),
    KL_DIVERGENCE: (kl_divergence, kl_divergence_if_reference),
    MEAN_ABSOLUTE_DEVIATION: (mean_absolute_deviation, mean_absolute_deviation_if_reference),
}


@dataclass(frozen=True, eq=False)
class Comparison:
    """One attribute, or a pair, against one reference."""

    judgements: Judgements
    """With the attribute or pair among what is judged."""
    compared: Compared
    variant: str
    reference: FloatArray
    """`[prompt, class]`; NaN for a prompt without, or one that states the attribute."""
    features: FloatArray
    """`[judge, image, class]`."""
    shown: CountArray
    """Clear images, `[judge, t2i_model, prompt, class]`."""

    @classmethod
    def of(cls, judgements: Judgements, compared: Compared, variant: str, reference: FloatArray) -> Comparison:
        """Count who shows what."""
        features = compared.shown(judgements)
        shown = np.stack([judgements.sums(each) for each in features])
        judged = {**judgements.judged, compared.name: compared.judged(judgements)}
        return cls(replace(judgements, judged=judged), compared, variant, reference, features, shown)

    @property
    def _has_reference(self) -> NDArray[np.bool_]:
        has: NDArray[np.bool_] = np.logical_not(np.isnan(self.reference).any(axis=-1))
        return has

    def distances(self, intervals: Intervals) -> pd.DataFrame:
        """The distances and shares of clear images with their intervals, and the detectors' deviations."""
        # Around what is infinite there is no interval.
        with np.errstate(invalid="ignore"):
            return score_rows(
                self.judgements, self.features, self._distances, variant=self.variant, intervals=intervals
            )

    def p_values(self) -> FloatArray:
        """Of each prompt, not adjusted, `[judge, t2i_model, prompt]`; NaN for judges that do not judge."""
        judged = np.array(self.judgements.judged[self.compared.name])
        return np.where(judged[:, np.newaxis, np.newaxis], p_value(self.shown, self.reference), np.nan)

    def chance(self, p_values: FloatArray) -> pd.DataFrame:
        """What has no interval: expected distances, and adjusted p-values `[judge, t2i_model, prompt]`."""
        rows, name, clear = MetricRows(self.judgements, variant=self.variant), self.compared.name, self._clear
        computed = [
            each
            for metric, (_, expected) in _DISTANCES.items()
            for each in self._of_prompts_and_mean(if_reference(metric), expected(clear, self.reference), clear)
        ]
        computed.append(Computed(name, if_reference(POOLED), self._pooled_if_reference()))
        of_prompts = Score(p_values, *self._images(clear))
        computed.append(Computed(name, P_VALUE, of_prompts, of_prompts=True))
        differs = np.where(np.isnan(p_values), np.nan, p_values <= FALSE_DISCOVERY_RATE)
        computed.append(Computed(name, DIFFERING, self._mean(differs)))
        for each in computed:
            rows.add(each, None, level=None)
        return rows.table()

    def shares(self, p_values: FloatArray) -> pd.DataFrame:
        """The rows of the file of shares; p-values are adjusted, `[judge, t2i_model, prompt]`."""
        return shares_table(
            self.judgements,
            self.compared,
            variant=self.variant,
            shown=self.shown,
            reference=self.reference,
            p_values=p_values,
        )

    @property
    def _clear(self) -> CountArray:
        clear: CountArray = self.shown.sum(axis=-1)
        return clear

    def _distances(self, sums: FloatArray) -> list[Computed]:
        clear = sums.sum(axis=-1)
        shares = divide(sums, clear[..., np.newaxis])
        is_resample, estimated = sums.ndim > self.shown.ndim, self.judgements.drawn is not None
        computed: list[Computed] = []
        for metric, (distance, _) in _DISTANCES.items():
            value = distance(shares, self.reference)
            if is_resample or estimated:
                # The value itself is infinite then, and has no interval; an estimated share is never quite 0.
                value = np.where(np.isinf(value), np.nan, value)
            deviates = metric == TOTAL_VARIATION
            computed += self._of_prompts_and_mean(metric, value, clear, deviates=deviates)
        computed.append(Computed(self.compared.name, POOLED, self._pooled(sums)))
        if estimated:
            return [*computed, *self._estimated_clear_share(clear)]
        # Wilson's interval needs no resamples.
        return computed if is_resample else [*computed, *self._clear_share()]

    def _of_prompts_and_mean(
        self, metric: str, value: FloatArray, clear: CountArray, *, deviates: bool = False
    ) -> Iterator[Computed]:
        # Its logarithm magnifies what is left of noise: intervals of estimates held the truth too rarely.
        mean = Computed(self.compared.name, metric, self._mean(value), deviates=deviates)
        yield mean._replace(has_estimated_interval=metric != KL_DIVERGENCE)
        yield Computed(self.compared.name, metric, Score(value, *self._images(clear)), of_prompts=True)

    def _images(self, clear: CountArray) -> tuple[CountArray, CountArray]:
        """n and n_left_out of single prompts: clear images with a reference, and all others."""
        counted = np.where(self._has_reference, clear, 0)
        return counted, self.judgements.images - counted

    def _mean(self, value: FloatArray) -> Score:
        """Over prompts with a value; n_left_out counts the other prompts that have images."""
        defined = ~np.isnan(value)
        left_out = (self.judgements.images > 0) & ~defined
        each = Score(value, defined.astype(np.int64), left_out.astype(np.int64))
        return mean_over_prompts(each, self.judgements.scopes)

    def _pooled(self, sums: FloatArray) -> Score:
        scopes = self.judgements.scopes
        counted = np.where(self._has_reference[:, np.newaxis], sums, 0.0)
        clear = counted.sum(axis=-1)
        wanted = clear[..., np.newaxis] * np.nan_to_num(self.reference)
        shown, wanted = (scopes.sums(each, prompt_axis=-2) for each in (counted, wanted))
        n = scopes.sums(clear, prompt_axis=-1)
        value = total_variation(*(divide(each, n[..., np.newaxis]) for each in (shown, wanted)))
        return Score(value, n, scopes.sums(self.judgements.images, prompt_axis=-1) - n)

    def _pooled_if_reference(self) -> Score:
        pooled, scopes = self._pooled(self.shown), self.judgements.scopes
        value = np.full(pooled.value.shape, np.nan)
        models, prompts = len(self.judgements.t2i_models), len(self.judgements.prompt_ids)
        reference = np.broadcast_to(self.reference, (models, *self.reference.shape)).reshape(models * prompts, -1)
        # Which cells a scope adds up, asked of the scopes themselves.
        cells = np.eye(models * prompts, dtype=np.int64).reshape(-1, models, prompts)
        inside = scopes.sums(cells, prompt_axis=-1) > 0
        for judge, model, place in np.ndindex(value.shape):
            kept = inside[:, model, place]
            images = self._clear[judge].reshape(-1)[kept]
            value[judge, model, place] = pooled_total_variation_if_reference(images, reference[kept])
        return pooled._replace(value=value)

    def _estimated_clear_share(self, clear: CountArray) -> Iterator[Computed]:
        scopes = self.judgements.scopes
        images = np.broadcast_to(self.judgements.images, clear.shape)
        for of_prompts in (False, True):
            part, whole = (each if of_prompts else scopes.sums(each, prompt_axis=-1) for each in (clear, images))
            score = Score(divide(part, whole), whole, np.zeros_like(whole))
            yield Computed(self.compared.name, CLEAR_SHARE, score, of_prompts=of_prompts)

    def _clear_share(self) -> Iterator[Computed]:
        known = self.judgements
        without = self.compared.without_verdict(known)[..., np.newaxis] * 1.0
        left_out = np.stack([known.sums(each)[..., 0] for each in without])
        parts = (self._clear, left_out, np.broadcast_to(known.images, left_out.shape))
        for of_prompts in (False, True):
            clear, missing, images = (
                each if of_prompts else known.scopes.sums(each, prompt_axis=-1) for each in parts
            )
            judged = images - missing
            score = Score(divide(clear, judged), judged, missing)
            yield Computed(self.compared.name, CLEAR_SHARE, score, of_prompts=of_prompts, is_share=True)


def adjusted_p_values(p_values: list[FloatArray], *, has_truth: bool) -> list[FloatArray]:
    """Benjamini and Hochberg's adjustment, `[judge, ...]` each: over all that the human labels say, and over all
    that the detectors say together.

    So what the human labels say does not depend on which detectors a study has.

    Args:
        p_values: of prompts, an array for each comparison.
        has_truth: whether the first judge is the human labels.
    """
    families = [slice(0, 1), slice(1, None)] if has_truth else [slice(None)]
    adjusted = [np.empty_like(each) for each in p_values]
    for judges in families:
        flat = _benjamini_hochberg(np.concatenate([each[judges].ravel() for each in p_values]))
        ends = np.cumsum([each[judges].size for each in p_values])[:-1]
        for place, part in zip(adjusted, np.split(flat, ends), strict=True):
            place[judges] = part.reshape(place[judges].shape)
    return adjusted


def _benjamini_hochberg(values: FloatArray) -> FloatArray:
    from scipy.stats import false_discovery_control

    adjusted, known = np.full(values.shape, np.nan), ~np.isnan(values)
    if known.any():
        adjusted[known] = false_discovery_control(values[known])
    return adjusted
