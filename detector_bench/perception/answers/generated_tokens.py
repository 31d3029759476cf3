"""What a network that generates an answer might have said instead, token by token."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from typing import Any

from detector_bench.perception.answers.token_choices import (
    Place,
    TokenChoice,
    log_probability,
    place_of,
    without_thoughts,
)


class TokenWatch:
    """Looks on while tokens are generated, and changes nothing.

    Args:
        torch: the module.
        most: how many of the likeliest tokens are kept at each place; None: none.

    Attributes:
        prompt: how many tokens of the prompt stand before the answer; some networks repeat it, some do not.
        likeliest: for each place, the tokens' numbers and their log-probabilities, both (images, most).
    """

    def __init__(self, torch: Any, *, most: int | None = None) -> None:
        self._torch = torch
        self._most = most
        self._broken: Any = None
        self.prompt = 0
        self.likeliest: list[tuple[Any, Any]] = []

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        """See `transformers.LogitsProcessor`; scores are (images, tokens)."""
        # Tokens that are ruled out score minus infinity, which is as it should be.
        broken = (self._torch.isnan(scores) | (scores == float("inf"))).any()
        if self._broken is None:
            self.prompt, self._broken = input_ids.shape[-1], broken
        else:
            self._broken = self._broken | broken
        if self._most is not None:
            logs = scores.float().log_softmax(-1)
            found = logs.topk(min(self._most, logs.shape[-1]), dim=-1)
            self.likeliest.append((found.indices, found.values))
        return scores

    def require_finite(self) -> None:
        """Refuse tokens that were chosen among numbers that are none."""
        if self._broken is not None and bool(self._broken):
            raise ValueError("the network's output holds values that are not finite")


def places_of(answers: Any, watch: TokenWatch, tokenizer: Any, *, ends: Container[int]) -> list[tuple[Place, ...]]:
    """The places of each answer.

    Args:
        answers: the tokens' numbers, (images, places), filled up behind an answer's end.
        watch: what was kept of them.
        tokenizer: of the network. A token reads as what it adds to the text before it, blanks included.
        ends: the tokens that end an answer.
    """
    kept = [(numbers.tolist(), logs.tolist()) for numbers, logs in watch.likeliest]
    found = []
    for image, tokens in enumerate(answers.tolist()):
        said = tokens[: len(kept)]
        end = next((number for number, token in enumerate(said) if token in ends), len(said))
        likeliest = [(numbers[image], logs[image]) for numbers, logs in kept[:end]]
        found.append(without_thoughts(_places(said[:end], likeliest, tokenizer)))
    return found


def _places(
    said: Sequence[int], likeliest: Sequence[tuple[Sequence[int], Sequence[float]]], tokenizer: Any
) -> Iterator[Place]:
    before = ""
    for place, (token, (numbers, logs)) in enumerate(zip(said, likeliest, strict=True)):
        known = {token: float("nan"), **dict(zip(numbers, logs, strict=True))}
        # Read together with what stands before them, or the blanks between words are lost.
        texts = tokenizer.batch_decode([[*said[:place], each] for each in known], skip_special_tokens=True)
        choices = [
            TokenChoice(text[len(before) :] if text.startswith(before) else "", log_probability(number))
            for text, number in zip(texts, known.values(), strict=True)
        ]
        yield place_of(choices[0], choices[1:], most=len(choices))
        before = texts[0]
