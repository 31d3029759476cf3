"""Any sets of prompts in place of categories: parts of a study, or one with a prompt left out or drawn twice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from detector_bench.metrics.counts import CountArray, FloatArray
from detector_bench.metrics.scopes import Scopes


@dataclass(frozen=True, slots=True)
class PromptSubsets(Scopes):
    """Scopes that may overlap, so that one call gives a metric for thousands of sets of prompts.

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
