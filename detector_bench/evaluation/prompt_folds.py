"""Parts of a study's prompts: what is chosen on some of them is judged on the others."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from detector_bench.metrics import FloatArray

Places = NDArray[np.intp]


def prompt_folds(category_of_prompt: Places, *, folds: int, repeats: int, random: np.random.Generator) -> Places:
    """Deal prompts out at random, again and again, into parts that have equally many of each category.

    All images of a prompt, by all T2I models, go together. Parts differ by at most one prompt in a category and
    in all, since a category goes on where the one before it ended.

    Returns:
        The part of each prompt, `[repeat, prompt]`.
    """
    prompts = len(category_of_prompt)
    dealt = np.empty((repeats, prompts), dtype=np.intp)
    for repeat in range(repeats):
        # Shuffled first, so that categories (in order, as the sort is stable) hold their prompts in random order.
        shuffled = random.permutation(prompts)
        order = shuffled[np.argsort(category_of_prompt[shuffled], kind="stable")]
        dealt[repeat, order] = np.arange(prompts) % folds
    return dealt


def without_fold(fold_of_prompt: Places, *, folds: int) -> FloatArray:
    """Which prompts are left to choose on when a part is held out, as 0 or 1.

    Args:
        fold_of_prompt: `[repeat, prompt]`.
        folds: how many parts there are.

    Returns:
        `[repeat, fold, prompt]`.
    """
    chosen_on: FloatArray = (fold_of_prompt[:, np.newaxis, :] != np.arange(folds)[:, np.newaxis]).astype(
        np.float64
    )
    return chosen_on


def drawn_prompts(category_of_prompt: Places, *, random: np.random.Generator) -> Places:
    """As many prompts as there are, drawn with replacement within each category."""
    drawn = np.empty_like(category_of_prompt)
    for category in np.unique(category_of_prompt):
        members = np.flatnonzero(category_of_prompt == category)
        drawn[members] = random.choice(members, size=members.size)
    return drawn
