"""What a number covers: one T2I model or all of them, one prompt category or all of them; with sums and means."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from detector_bench.metrics.counts import CountArray, FloatArray, Score, count_images, divide


@dataclass(frozen=True, slots=True)
class Scopes:
    """The categories of the prompts, so that one call gives a metric for every T2I model and category.

    Results bear two axes in place of `t2i_model, prompt`: T2I models, then categories, both with "all" at
    position 0. So `[..., 0, 0]` covers everything, and `[..., 1 + i, 1 + j]` T2I model i in category j.
    """

    categories: tuple[str, ...]
    category_of_prompt: NDArray[np.intp]

    @classmethod
    def of_prompts(cls, category_of_prompt: Sequence[str]) -> Scopes:
        """Build from each prompt's category name; categories keep the order of first appearance."""
        categories = tuple(dict.fromkeys(category_of_prompt))
        position = {category: index for index, category in enumerate(categories)}
        positions = np.array([position[category] for category in category_of_prompt], dtype=np.intp)
        return cls(categories, positions)

    @property
    def category_words(self) -> NDArray[np.object_]:
        """`[prompt]`: the name of each prompt's category."""
        return np.array(self.categories, dtype=object)[self.category_of_prompt]

    def sums(self, values: CountArray, *, prompt_axis: int) -> CountArray:
        """Add up over the prompts of each scope.

        Args:
            values: `[..., t2i_model, prompt, ...]`.
            prompt_axis: which axis is the prompt, counted from the end (negative).

        Returns:
            The same axes, `t2i_model` now of length 1 + T2I models and `prompt` of length 1 + categories.
        """
        order = np.argsort(self.category_of_prompt, kind="stable")
        prompts_of_category = np.bincount(self.category_of_prompt, minlength=len(self.categories))
        filled = np.flatnonzero(prompts_of_category)
        starts = (np.cumsum(prompts_of_category) - prompts_of_category)[filled]
        shape = list(values.shape)
        shape[prompt_axis] = len(self.categories)
        per_category = np.zeros(shape, dtype=np.result_type(values, np.int64))
        # A view with the categories first, so that those without a prompt keep their 0.
        np.moveaxis(per_category, prompt_axis, 0)[filled] = np.moveaxis(
            np.add.reduceat(np.take(values, order, axis=prompt_axis), starts, axis=prompt_axis),
            prompt_axis,
            0,
        )
        return _with_total_first(_with_total_first(per_category, prompt_axis), prompt_axis - 1)


@dataclass(frozen=True, slots=True)
class LayeredScopes(Scopes):
    """Scopes of several levels, such as categories and the groups that they belong to.

    A prompt is in at most one scope of each level, and may be in none; all prompts are in the total. `categories`
    are the scopes of all levels, one level after the other.
    """

    membership: NDArray[np.bool_]
    """Whether a prompt is in a scope, `[scope, prompt]`."""
    words: tuple[str, ...]
    """What stands as category in the rows of single prompts."""

    @classmethod
    def of_levels(cls, *levels: Sequence[str], otherwise: Sequence[str]) -> LayeredScopes:
        """Build from each level's name of every prompt, "" where it is in no scope of the level.

        Args:
            levels: `[prompt]` each; the first one in which a prompt has a name gives the word for its rows.
            otherwise: that word for prompts that are in no scope.
        """
        names = tuple(dict.fromkeys(name for level in levels for name in level if name))
        membership = np.array(
            [[name in of_prompt for of_prompt in zip(*levels, strict=True)] for name in names], dtype=np.bool_
        ).reshape(len(names), len(otherwise))
        words = tuple(
            next((name for name in of_prompt if name), word)
            for *of_prompt, word in zip(*levels, otherwise, strict=True)
        )
        first = np.where(membership.any(axis=0), membership.argmax(axis=0), -1) if names else -1
        return cls(names, np.broadcast_to(first, len(otherwise)).astype(np.intp), membership, words)

    @property
    def category_words(self) -> NDArray[np.object_]:
        """`[prompt]`: the name of the first scope that each prompt is in."""
        return np.array(self.words, dtype=object)

    def sums(self, values: CountArray, *, prompt_axis: int) -> CountArray:
        """As `Scopes.sums`; the total is that of all prompts, whether or not they are in a scope."""
        last = np.moveaxis(values, prompt_axis, -1)
        total = last.sum(axis=-1, keepdims=True)
        of_scopes = last @ self.membership.T.astype(total.dtype)
        together = np.moveaxis(np.concatenate([total, of_scopes], axis=-1), -1, prompt_axis)
        return _with_total_first(together, prompt_axis - 1)


@dataclass(frozen=True, slots=True)
class PromptSubsets(Scopes):
    """Any sets of prompts in place of categories: parts of a study, or one with a prompt left out or drawn twice.

    They may overlap, so that one call gives a metric for thousands of sets of prompts.

    Results bear the axes `1, subset` in place of `t2i_model, prompt`: all T2I models together, then the sets.
    """

    weights: FloatArray
    """How often each prompt is in each set, `[subset, prompt]`."""

    @classmethod
    def of_weights(cls, weights: FloatArray) -> Self:
        """Build from how often each prompt is in each set, `[subset, prompt]`."""
        return cls(("",), np.zeros(weights.shape[1], dtype=np.intp), weights)

    def sums(self, values: CountArray, *, prompt_axis: int) -> CountArray:
        """Add up over the T2I models and the prompts of each set.

        Args:
            values: `[..., t2i_model, prompt, ...]`.
            prompt_axis: which axis is the prompt, counted from the end (negative).
        """
        by_prompt = np.moveaxis(values.sum(axis=prompt_axis - 1, keepdims=True), prompt_axis, -1)
        by_subset: CountArray = np.moveaxis(np.tensordot(by_prompt, self.weights, (-1, -1)), -1, prompt_axis)
        return by_subset


def _with_total_first(values: CountArray, axis: int) -> CountArray:
    return np.concatenate([values.sum(axis=axis, keepdims=True), values], axis=axis)


def pool(counts: CountArray, *, scopes: Scopes | None = None) -> CountArray:
    """Add up the counts of all prompts and T2I models, for metrics over images.

    Args:
        counts: `[..., t2i_model, prompt, truth, verdict]`.
        scopes: None for everything at once, else one array for each T2I model and category.

    Returns:
        `[..., truth, verdict]`, or with scopes `[..., 1 + T2I models, 1 + categories, truth, verdict]`.
    """
    if scopes is None:
        pooled: CountArray = counts.sum(axis=(-4, -3))
        return pooled
    return scopes.sums(counts, prompt_axis=-3)


def one_prompt_each(value: FloatArray, counts: CountArray) -> Score:
    """Terms of a mean over prompts: n and n_left_out say whether a prompt with images has a value."""
    defined = ~np.isnan(value)
    left_out = (count_images(counts) > 0) & ~defined
    return Score(value, defined.astype(np.int64), left_out.astype(np.int64))


def mean_over_prompts(per_prompt: Score, scopes: Scopes | None) -> Score:
    """Mean of the values that are there, over all T2I models and prompts, or those of each scope."""
    # A plain sum of the defined terms and their number, so that any scope is one more sum.
    terms = np.where(np.isnan(per_prompt.value), 0.0, per_prompt.value)
    parts = (terms, per_prompt.n, per_prompt.n_left_out)
    if scopes is None:
        total, n, left_out = (part.sum(axis=(-2, -1)) for part in parts)
    else:
        total, n, left_out = (scopes.sums(part, prompt_axis=-1) for part in parts)
    return Score(divide(total, n), n, left_out)
