"""How far off a detector may be and still be called good enough."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class Tolerance(BaseModel):
    """How far off a detector may be and still be called good enough: a choice of the reader, not of statistics.

    The defaults come from what the scores are used for. Lyu 2025 calls a prompt biased beyond 0.2, so a detector
    whose typical error is larger takes fair prompts for biased ones. For the model bias score it is half of that,
    as errors of single prompts partly even out: a detector that is right on 95 % of the men and of the women is
    0.1 too low on a T2I model whose prompts show one gender each.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    prompt_bias_error: float = Field(default=0.2, gt=0, allow_inf_nan=False)
    """Of prompt bias scores, which run from -1 to 1: root mean square over the prompts, chance left out."""
    model_bias_score_error: float = Field(default=0.1, gt=0, allow_inf_nan=False)
    """Of the model bias score, which runs from 0 to 1, to either side."""
