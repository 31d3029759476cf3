"""What answers of services cost, and the most that one may cost."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import Any, Protocol

from pydantic import Field

from detector_bench.declarations import Declaration
from detector_bench.perception.answers.ledger_lines import PaidAnswer


class Prices(Protocol):
    """How a service charges."""

    @property
    def currency(self) -> str:
        """Of all amounts."""

    def cost(self, answer: PaidAnswer) -> float | None:
        """Of an answer; None where the service did not say what it charges for."""


class TokenPrices(Declaration):
    """What a million tokens cost."""

    prompt: float = Field(ge=0, allow_inf_nan=False)
    completion: float = Field(ge=0, allow_inf_nan=False)
    currency: str = Field(default="USD", min_length=1, max_length=20)

    def of_tokens(self, prompt: int, completion: int) -> float:
        """The sum in the currency of the prices."""
        return (prompt * self.prompt + completion * self.completion) / 1e6

    def cost(self, answer: PaidAnswer) -> float | None:
        """Of an answer; None where its tokens were not counted."""
        if answer.prompt_tokens is None or answer.completion_tokens is None:
            return None
        return self.of_tokens(answer.prompt_tokens, answer.completion_tokens)


class CallPrice(Declaration):
    """What every answer costs, whatever is in it."""

    call: float = Field(ge=0, allow_inf_nan=False)
    currency: str = Field(default="USD", min_length=1, max_length=20)

    def cost(self, answer: PaidAnswer) -> float | None:  # noqa: ARG002
        """The same for all."""
        return self.call


_TOKENS_OF_A_REQUEST = 4_000
_SIDE_OF_A_TILE = 512
_TOKENS_OF_A_TILE = 6_000

LIMITS_OF_ANSWERS = ("max_tokens", "max_completion_tokens", "max_output_tokens")
"""Fields of a request that limit the answer's tokens."""


def most_prompt_tokens(question: str, size: tuple[int, int]) -> int:
    """A bound for the tokens of a question and an image that nobody has counted yet.

    A token holds a byte of text at least. For images it is above what hosted models charged in 2025, the dearest
    of which took 2,833 tokens for every image and 5,667 for each of its squares of 512 pixels.

    Args:
        question: the text.
        size: width and height of the image as it is sent.
    """
    tiles = ceil(size[0] / _SIDE_OF_A_TILE) * ceil(size[1] / _SIDE_OF_A_TILE)
    return len(question.encode(errors="replace")) + _TOKENS_OF_A_REQUEST + tiles * _TOKENS_OF_A_TILE


def most_completion_tokens(request: Mapping[str, Any]) -> int | None:
    """How many tokens a request allows its answer; None if it sets no limit."""
    limits = [request[name] for name in LIMITS_OF_ANSWERS if name in request]
    numbers = [each for each in limits if isinstance(each, int) and not isinstance(each, bool) and each >= 0]
    return max(numbers) if numbers else None
