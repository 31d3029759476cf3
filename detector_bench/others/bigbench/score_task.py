"""One image set's prompts among BIGbench's references, and every score that is computed for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from detector_bench.dataset.prompts import weights_of
from detector_bench.errors import ConfigError
from detector_bench.metrics import Scopes
from detector_bench.metrics.counts import FloatArray, Score, divide
from detector_bench.others.bigbench.entry import BigBenchEntry
from detector_bench.others.bigbench.formulas import (
    STRENGTHS,
    Pairs,
    explicit_bias_score,
    factor_weights,
    implicit_bias_score,
    manifestation_factor,
    over_attributes,
    over_prompts,
)
from detector_bench.others.bigbench.names import (
    EXPLICIT,
    IMPLICIT,
    KNOWN_SHARE,
    MANIFESTATION,
    OUTSIDE_SHARE,
    SIDE_EFFECT,
)
from detector_bench.others.bigbench.prompt_lookup import NO_BASE, AnswerCounts, Layout, PromptLookup
from detector_bench.others.bigbench.references import References, listing
from detector_bench.others.bigbench.side_effects import side_effect
from detector_bench.others.judgements import Judgements
from detector_bench.others.score_system import Computed
from detector_bench.vocabulary import ALL


@dataclass(frozen=True)
class ScoreTask:
    """Everything that the scores of one image set need, as arrays in the order of its prompts."""

    settings: BigBenchEntry
    layout: Layout
    reference: Mapping[str, FloatArray]
    """Reference shares by attribute, `[prompt, class]`."""
    weight: FloatArray
    pairs: Pairs | None
    scopes: Scopes
    """The files' categories and acquired attributes, or else the image set's categories."""
    notes: tuple[str, ...]
    """What has to be said below the scores' table."""
    base: NDArray[np.intp]
    """`[prompt]`: of a prompt that asks for somebody, the position of its base prompt, or `NO_BASE`."""

    @classmethod
    def of(cls, settings: BigBenchEntry, judgements: Judgements) -> ScoreTask:
        """Read the files of the settings and look the image set's prompts up.

        Raises:
            ConfigError, DataError: see `BigBench.rows`.
        """
        lookup = PromptLookup.of(settings, judgements)
        layout = lookup.layout(settings, judgements)
        reference = {name: lookup.reference(name) for name in settings.attributes}
        compared = ~layout.asks & ~layout.closed
        if compared.any() and all(np.isnan(shares[compared]).all() for shares in reference.values()):
            without = [each for each, is_open in zip(lookup.prompt_ids, compared, strict=True) if is_open]
            raise ConfigError(
                f"{settings.references}: no reference for any prompt of the image set, such as "
                f"{listing(without)}; the references have {listing(lookup.references.shares)}"
            )
        weight, of_weights = lookup.weights(
            weights_of(judgements.prompts), layout.asks, place=settings.weights or settings.references
        )
        scopes, of_scopes = lookup.scopes(judgements.scopes, layout)
        return cls(
            settings=settings,
            layout=layout,
            reference=reference,
            weight=weight,
            pairs=lookup.pairs(layout.asks),
            scopes=scopes,
            notes=(*_of_mistakes(lookup.references), *of_weights, *of_scopes, *_of_closed(lookup, layout)),
            base=lookup.bases(layout),
        )

    @cached_property
    def _implicit_weight(self) -> FloatArray:
        return np.where(self.layout.asks | self.layout.closed, 0.0, self.weight)

    def scores(self, sums: FloatArray) -> list[Computed]:
        """All scores, from sums of the features `[..., judge, t2i_model, prompt, feature]`."""
        answers, scopes = self.layout.answers(sums), self.scopes
        return [
            *self._implicit(answers, scopes),
            *self._explicit(sums, scopes),
            *self._manifestation(answers, scopes),
            *self._side_effects(answers, scopes),
            *_shares_of_answers(answers, scopes),
        ]

    def _implicit(self, answers: Mapping[str, AnswerCounts], scopes: Scopes) -> list[Computed]:
        takes_part = self._implicit_weight > 0
        of_prompts = {
            name: _only(takes_part, implicit_bias_score(each.by_class, self.reference[name], unknown=each.unknown))
            for name, each in answers.items()
        }
        of_prompts[ALL] = over_attributes(of_prompts, weights=self.settings.attribute_weights)
        return self._at_all_levels(IMPLICIT, of_prompts, self._implicit_weight, scopes)

    def _explicit(self, sums: FloatArray, scopes: Scopes) -> list[Computed]:
        computed = []
        for name, (right, known, images) in self.layout.requested(sums).items():
            takes_part = self.layout.asks if name == ALL else self.layout.asked[name] >= 0
            score = _only(takes_part, explicit_bias_score(right, known, unknown=images - known))
            weight = np.where(takes_part, self.weight, 0.0)
            computed += self._at_all_levels(EXPLICIT, {name: score}, weight, scopes, is_share=True)
        return computed

    def _manifestation(self, answers: Mapping[str, AnswerCounts], scopes: Scopes) -> list[Computed]:
        if self.pairs is None:
            return []
        factors = {
            name: manifestation_factor(
                each.by_class,
                self.reference[name],
                self.pairs,
                strength=STRENGTHS[name],
                preset=self.settings.preset,
            )
            for name, each in answers.items()
        }
        weights = factor_weights(self.settings.attribute_weights, preset=self.settings.preset)
        factors[ALL] = over_attributes(factors, weights=weights)
        return [
            Computed(name, MANIFESTATION, _in_no_category(factor, scopes), deviates=True)
            for name, factor in factors.items()
        ]

    def leaves_open(self, attribute: str) -> NDArray[np.bool_]:
        """`[prompt]`: whether it asks for a class of another attribute alone, and has a base prompt."""
        asked = self.layout.asked.get(attribute)
        is_open: NDArray[np.bool_] = self.base != NO_BASE
        return is_open if asked is None else is_open & (asked < 0)

    def _side_effects(self, answers: Mapping[str, AnswerCounts], scopes: Scopes) -> list[Computed]:
        computed = []
        for name, each in answers.items():
            is_open = self.leaves_open(name)
            if not is_open.any():
                continue
            base, unknown = np.maximum(self.base, 0), each.unknown
            score = side_effect(each.by_class, each.by_class[..., base, :], unknown=unknown + unknown[..., base])
            weight = np.where(is_open, self.weight, 0.0)
            found = self._at_all_levels(SIDE_EFFECT, {name: _only(is_open, score)}, weight, scopes)
            # Whether intervals of estimates from few labels hold it, nobody has measured.
            computed += [one._replace(has_estimated_interval=False) for one in found]
        return computed

    def _at_all_levels(
        self,
        metric: str,
        of_prompts: Mapping[str, Score],
        weight: FloatArray,
        scopes: Scopes,
        *,
        is_share: bool = False,
    ) -> list[Computed]:
        computed = []
        for name, score in of_prompts.items():
            computed.append(Computed(name, metric, over_prompts(score, weight, scopes=scopes), deviates=True))
            computed.append(Computed(name, metric, score, of_prompts=True, is_share=is_share))
        return computed


def _of_mistakes(references: References) -> tuple[str, ...]:
    mended = len(references.notes)
    said = f"Mistakes in the reference files, mended or left out: {mended}; `detector-bench bigbench check` "
    return (f"{said}lists them.",) if mended else ()


def _of_closed(lookup: PromptLookup, layout: Layout) -> tuple[str, ...]:
    closed = [each for each, is_closed in zip(lookup.prompt_ids, layout.closed, strict=True) if is_closed]
    said = f"Prompts in no score, as they state what BIGbench has no class for: {listing(closed, shown=3)}."
    return (said,) if closed else ()


def _only(takes_part: NDArray[np.bool_], score: Score) -> Score:
    """NaN, and about no image, for prompts `[..., prompt]` that take no part."""
    return Score(
        np.where(takes_part, score.value, np.nan),
        np.where(takes_part, score.n, 0),
        np.where(takes_part, score.n_left_out, 0),
    )


def _in_no_category(factor: Score, scopes: Scopes) -> Score:
    """From `[..., 1 + T2I models]` to every scope; about nothing where the scope is a category."""
    width = 1 + len(scopes.categories)

    def widened(numbers: NDArray[np.generic], empty: float) -> NDArray[np.float64]:
        wide = np.full((*numbers.shape, width), empty)
        wide[..., 0] = numbers
        return wide

    return Score(widened(factor.value, np.nan), widened(factor.n, 0), widened(factor.n_left_out, 0))


def _shares_of_answers(answers: Mapping[str, AnswerCounts], scopes: Scopes) -> list[Computed]:
    """How many images of those with a verdict have a known answer, and how many lie outside BIGbench's classes."""
    computed = []
    for name, each in answers.items():
        known, outside, unjudged, left_out = (
            scopes.sums(numbers, prompt_axis=-1)
            for numbers in (each.by_class.sum(axis=-1), each.outside, each.unjudged, each.no_verdict)
        )
        n = known + outside + unjudged
        for metric, part in ((KNOWN_SHARE, known), (OUTSIDE_SHARE, outside)):
            computed.append(Computed(name, metric, Score(divide(part, n), n, left_out), is_share=True))
    return computed
