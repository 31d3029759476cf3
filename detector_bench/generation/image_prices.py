"""What images of services cost, by the tokens that they count."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Self

from pydantic import Field

from detector_bench.declarations import Declaration
from detector_bench.perception.answers.ledger_lines import counted_tokens

_TOKENS_OF_A_REQUEST = 1_000
_TOKENS_OF_A_PHOTO = 20_000


class ImageUsage(NamedTuple):
    """Tokens that a service counted for one image."""

    text_input: int
    image_input: int
    text_output: int
    image_output: int

    @classmethod
    def of(cls, usage: Any) -> Self | None:
        """Read `usage` of a reply; None where it does not say what is charged."""
        if not isinstance(usage, Mapping):
            return None
        whole = [counted_tokens(usage.get(name)) for name in ("input_tokens", "output_tokens")]
        if whole[0] is None or whole[1] is None:
            return None
        told_in, told_out = (usage.get(f"{name}_tokens_details") for name in ("input", "output"))
        image_input = _part(told_in, "image_tokens", whole[0])
        text_output = _part(told_out, "text_tokens", whole[1])
        return cls(whole[0] - image_input, image_input, text_output, whole[1] - text_output)


def _part(details: Any, name: str, whole: int) -> int:
    found = counted_tokens(details.get(name)) if isinstance(details, Mapping) else None
    return min(found or 0, whole)


class ImageTokenPrices(Declaration):
    """What a million tokens cost, in the currency of the T2I model."""

    text_input: float = Field(ge=0, allow_inf_nan=False)
    """Of the prompt."""
    image_input: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    """Of a photo that is edited."""
    image_output: float = Field(ge=0, allow_inf_nan=False)
    """Of the image."""
    text_output: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """Of what the model writes for itself, where the service counts that; None: as `image_output`."""
    most_output_tokens: int | None = Field(default=None, ge=1)
    """The most that one image takes, for budgets: gpt-image-1 takes 6,240 for 1536x1024 at high quality."""

    def cost(self, usage: ImageUsage) -> float:
        """Of one image."""
        text_output = self.image_output if self.text_output is None else self.text_output
        return (
            usage.text_input * self.text_input
            + usage.image_input * self.image_input
            + usage.text_output * text_output
            + usage.image_output * self.image_output
        ) / 1e6

    def most(self, prompt: str, *, edits: bool) -> float | None:
        """A bound for an image that nobody has counted yet; None: nothing bounds its tokens.

        A token holds a byte of text at least. For photos it is above what hosted models charged in 2025.
        """
        if self.most_output_tokens is None:
            return None
        text = len(prompt.encode(errors="replace")) + _TOKENS_OF_A_REQUEST
        dearest = max(self.image_output, self.text_output or 0.0)
        photo = _TOKENS_OF_A_PHOTO * self.image_input if edits else 0.0
        return (text * self.text_input + photo + self.most_output_tokens * dearest) / 1e6
