"""BIGbench's scores of one image set: its prompts among the references, and what is computed for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from detector_bench.errors import ConfigError, nearest_hint
from detector_bench.metrics import Scopes
from detector_bench.metrics.bigbench import (
    STRENGTHS,
    Pairs,
    explicit_bias_score,
    implicit_bias_score,
    manifestation_factor,
    over_attributes,
    over_prompts,
)
from detector_bench.metrics.counts import FloatArray, Score, divide
from detector_bench.score_systems.base import Computed
from detector_bench.score_systems.bigbench.answers import NOT_ASKED, Answers, Layout
from detector_bench.score_systems.bigbench.benchmark import Benchmark, listing
from detector_bench.score_systems.bigbench.classes import PROTECTED
from detector_bench.score_systems.bigbench.own_files import read_prompt_names, read_requested
from detector_bench.score_systems.judgements import Judgements
from detector_bench.vocabulary import ALL

if TYPE_CHECKING:
    from detector_bench.score_systems.bigbench.settings import BigBench

IMPLICIT = "bigbench_implicit_bias_score"
EXPLICIT = "bigbench_explicit_bias_score"
MANIFESTATION = "bigbench_manifestation_factor"
KNOWN_SHARE = "bigbench_known_share"
OUTSIDE_SHARE = "bigbench_outside_share"


class _Positions(NamedTuple):
    """Each prompt of the image set among the references."""

    prompt_ids: Sequence[str]
    name_of: Mapping[str, str]
    """By the image set's id, the references' id, where they differ."""

    def find(self, table: Mapping[str, object], prompt_id: str) -> str | None:
        """The id under which a table has a prompt."""
        return next((name for name in (prompt_id, self.name_of.get(prompt_id)) if name in table), None)


@dataclass(frozen=True)
class Task:
    """Everything that the scores of one image set need, as arrays in the order of its prompts."""

    settings: BigBench
    layout: Layout
    reference: Mapping[str, FloatArray]
    """By attribute, `[prompt, class]`."""
    weight: FloatArray
    pairs: Pairs | None
    categories: Scopes | None
    """In place of the image set's own, where the files have categories."""

    @classmethod
    def of(cls, settings: BigBench, judgements: Judgements) -> Task:
        """Read the files of the settings and look the image set's prompts up.

        Raises:
            ConfigError, DataError: see `BigBench.rows`.
        """
        prompt_ids = judgements.prompt_ids
        benchmark = settings.benchmark(prompt_ids)
        names = {}
        if settings.prompt_names is not None:
            names = read_prompt_names(settings.prompt_names, benchmark.names)
            _check_known(names, prompt_ids, place=settings.prompt_names)
        positions = _Positions(prompt_ids, names)
        layout = _layout(settings, prompt_ids)
        asks = layout.asks if layout.asked else np.zeros(len(prompt_ids), dtype=np.bool_)
        reference = {name: _reference(positions, benchmark, name) for name in settings.attributes}
        if not asks.all() and all(np.isnan(shares[~asks]).all() for shares in reference.values()):
            raise ConfigError(
                f"{settings.references}: no reference for any prompt of the image set, such as "
                f"{listing(each for each, asked in zip(prompt_ids, asks, strict=True) if not asked)}; "
                f"the references have {listing(benchmark.shares)}"
            )
        return cls(
            settings=settings,
            layout=layout,
            reference=reference,
            weight=_weights(positions, benchmark, asks, place=settings.weights or settings.references),
            pairs=_pairs(positions, benchmark, asks),
            categories=_categories(positions, benchmark, judgements.scopes),
        )

    @cached_property
    def _implicit_weight(self) -> FloatArray:
        return np.where(self.layout.asks, 0.0, self.weight) if self.layout.asked else self.weight

    def scores(self, sums: FloatArray, scopes: Scopes) -> list[Computed]:
        """All scores, from sums of the features `[..., judge, t2i_model, prompt, feature]`."""
        answers = self.layout.answers(sums)
        return [
            *self._implicit(answers, scopes),
            *self._explicit(sums, answers, scopes),
            *self._manifestation(answers, scopes),
            *_shares_of_answers(answers, scopes),
        ]

    def _implicit(self, answers: Mapping[str, Answers], scopes: Scopes) -> list[Computed]:
        takes_part = self._implicit_weight > 0
        of_prompts = {
            name: _only(takes_part, implicit_bias_score(each.by_class, self.reference[name], unknown=each.unknown))
            for name, each in answers.items()
        }
        return self._at_all_levels(IMPLICIT, self._with_all(of_prompts), self._implicit_weight, scopes)

    def _explicit(self, sums: FloatArray, answers: Mapping[str, Answers], scopes: Scopes) -> list[Computed]:
        computed = []
        some = next(iter(answers.values()))
        images = some.by_class.sum(axis=-1) + some.unknown
        for name, (right, known) in self.layout.requested(sums).items():
            takes_part = self.layout.asks if name == ALL else self.layout.asked[name] >= 0
            score = _only(takes_part, explicit_bias_score(right, known, unknown=images - known))
            weight = np.where(takes_part, self.weight, 0.0)
            computed += self._at_all_levels(EXPLICIT, {name: score}, weight, scopes, is_share=True)
        return computed

    def _manifestation(self, answers: Mapping[str, Answers], scopes: Scopes) -> list[Computed]:
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
        return [
            Computed(name, MANIFESTATION, _in_no_category(factor, scopes), deviates=True)
            for name, factor in self._with_all(factors).items()
        ]

    def _with_all(self, scores: Mapping[str, Score]) -> dict[str, Score]:
        return {**scores, ALL: over_attributes(scores, weights=self.settings.attribute_weights)}

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


def _layout(settings: BigBench, prompt_ids: Sequence[str]) -> Layout:
    if settings.requested is None:
        return Layout(settings.attributes, {})
    requested = read_requested(settings.requested)
    _check_known(requested, prompt_ids, place=settings.requested)
    of_attribute: dict[str, NDArray[np.intp]] = {}
    for row, prompt_id in enumerate(prompt_ids):
        for attribute, position in requested.get(prompt_id, {}).items():
            if attribute not in settings.attributes:
                raise ConfigError(
                    f"{settings.requested}: {prompt_id!r} asks for {attribute}, which attribute_weights leaves out"
                )
            asked = of_attribute.setdefault(attribute, np.full(len(prompt_ids), NOT_ASKED, dtype=np.intp))
            asked[row] = position
    in_order = {name: of_attribute[name] for name in settings.attributes if name in of_attribute}
    return Layout(settings.attributes, in_order)


def _check_known(found: Mapping[str, object], prompt_ids: Sequence[str], *, place: Path) -> None:
    known = set(prompt_ids)
    if unknown := [each for each in found if each not in known]:
        raise ConfigError(
            f"{place}: the image set has no prompt {unknown[0]!r}: {nearest_hint(unknown[0], known)}"
            + (f" ({len(unknown) - 1} more are unknown)" if len(unknown) > 1 else "")
        )


def _reference(positions: _Positions, benchmark: Benchmark, attribute: str) -> FloatArray:
    reference = np.full((len(positions.prompt_ids), len(PROTECTED[attribute].classes)), np.nan)
    for row, prompt_id in enumerate(positions.prompt_ids):
        found = positions.find(benchmark.shares, prompt_id)
        if found is not None and attribute in benchmark.shares[found]:
            reference[row] = benchmark.shares[found][attribute]
    return reference


def _weights(
    positions: _Positions, benchmark: Benchmark, asks: NDArray[np.bool_], *, place: Path | str
) -> FloatArray:
    """1 where there is no file, or no reference that could be weighted; of two people in a picture half each."""
    weight = np.ones(len(positions.prompt_ids))
    lacking: dict[bool, list[str]] = {True: [], False: []}
    for row, prompt_id in enumerate(positions.prompt_ids):
        found = positions.find(benchmark.weights, prompt_id)
        reference = positions.find(benchmark.shares, prompt_id)
        if found is not None:
            weight[row] = benchmark.weights[found]
        elif benchmark.weights and (asks[row] or reference is not None):
            lacking[bool(asks[row])].append(prompt_id)
        elif reference in benchmark.subjects:
            weight[row] = 0.5
    # Weights are made for the prompts of the references; prompts that ask for a class may all have none.
    if len(lacking[True]) == int(asks.sum()):
        lacking[True] = []
    if missing := [*lacking[False], *lacking[True]]:
        raise ConfigError(f"{place}: no weight for prompts of the image set: {listing(missing)}")
    return weight


def _pairs(positions: _Positions, benchmark: Benchmark, asks: NDArray[np.bool_]) -> Pairs | None:
    if not benchmark.pairs:
        return None
    row_of: dict[str, int] = {}
    for row, prompt_id in enumerate(positions.prompt_ids):
        name = positions.name_of.get(prompt_id, prompt_id)
        if asks[row]:
            continue
        if name in row_of:
            raise ConfigError(
                f"the prompts {positions.prompt_ids[row_of[name]]!r} and {prompt_id!r} are both {name!r} of the "
                "references: give their images one prompt_id"
            )
        row_of[name] = row
    return Pairs(
        np.array([row_of.get(pair.advantageous, -1) for pair in benchmark.pairs], dtype=np.intp),
        np.array([row_of.get(pair.disadvantageous, -1) for pair in benchmark.pairs], dtype=np.intp),
        np.array([pair.weight for pair in benchmark.pairs]),
    )


def _categories(positions: _Positions, benchmark: Benchmark, scopes: Scopes) -> Scopes | None:
    if not benchmark.categories:
        return None
    own = [scopes.categories[place] for place in scopes.category_of_prompt]
    found = (positions.find(benchmark.categories, prompt_id) for prompt_id in positions.prompt_ids)
    return Scopes.of_prompts(
        [benchmark.categories[name] if name is not None else mine for name, mine in zip(found, own, strict=True)]
    )


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


def _shares_of_answers(answers: Mapping[str, Answers], scopes: Scopes) -> list[Computed]:
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
