"""Log-probabilities of an answer's tokens: what a server or a network says it might have said instead."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from math import isfinite, nan
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from detector_bench.perception.stage import ADDED_LATER, Arrays, text_array, text_in

TopLogprobs = Annotated[int | None, Field(ge=2, le=50, json_schema_extra=ADDED_LATER)]
"""How many of the likeliest tokens are asked for at each place of an answer; None: none, and no score."""

_MOST_PLACES = 256
_IMPOSSIBLE = -9999.0
"""What servers write for a probability of zero, as JSON has no infinity."""
_ROUNDING = 1e-3
_DIGITS = 6  # so that ledger and cache keep the same numbers
_END_OF_THINKING = "</think>"


class TokenChoice(NamedTuple):
    """A token that may stand at a place of an answer.

    Attributes:
        text: as it reads, with the blank before it.
        logprob: natural logarithm of its probability there, at most 0; NaN where what was given is none.
    """

    text: str
    logprob: float


Place = tuple[TokenChoice, ...]
"""The tokens that might have stood at a place of an answer; the first is the one that does."""


def place_of(chosen: TokenChoice, others: Iterable[TokenChoice], *, most: int) -> Place:
    """A place with the token that stands there and at most so many others; the chosen one may be among them."""
    rest = [each for each in others if each.text != chosen.text]
    return (chosen, *rest[:most])


def log_probability(given: Any) -> float:
    """A log-probability to six digits: NaN for what is none, -9999 for that of something impossible."""
    if isinstance(given, bool) or not isinstance(given, int | float):
        return nan
    if not given <= _ROUNDING:  # also of NaN; a whole number may be larger than any float
        return nan
    return round(min(0.0, float(max(given, _IMPOSSIBLE))), _DIGITS)


def places_told(logprobs: Any, *, most: int) -> tuple[Place, ...]:
    """The places of an answer in the form of OpenAI's chat completions (`choices[].logprobs`).

    Nothing is an error here, for the answer itself is paid for: what cannot be read gives no places. Of a model
    that thinks aloud only the places after its thoughts are kept, and the last 256 of a very long answer.

    Args:
        logprobs: as decoded from JSON.
        most: of other tokens at a place.
    """
    content = logprobs.get("content") if isinstance(logprobs, Mapping) else None
    places: list[Place] = []
    for entry in content if isinstance(content, list) else ():
        chosen = _choice(entry)
        if chosen is None:
            return ()
        others = entry.get("top_logprobs")
        read = [_choice(each) for each in others] if isinstance(others, list) else []
        places.append(place_of(chosen, [each for each in read if each is not None], most=most))
    return without_thoughts(places)


def _choice(entry: Any) -> TokenChoice | None:
    if not isinstance(entry, Mapping) or not isinstance(text := entry.get("token"), str):
        return None
    # Some servers give the tokenizer's own marks for blanks and line feeds.
    for mark, meaning in (("\u0120", " "), ("\u2581", " "), ("\u010a", "\n")):
        text = text.replace(mark, meaning)
    return TokenChoice(text, log_probability(entry.get("logprob")))


def without_thoughts(places: Iterable[Place]) -> tuple[Place, ...]:
    """The places after what a model thinks aloud, and of them the last 256."""
    kept: list[Place] = []
    said = ""
    for place in places:
        kept.append(place)
        said += place[0].text
        if said.rstrip().endswith(_END_OF_THINKING):
            kept.clear()
    return tuple(kept[-_MOST_PLACES:])


def plain_places(places: Iterable[Place]) -> list[list[tuple[str, float | None]]]:
    """Places as JSON takes them; see `places_from`."""
    return [[(text, number if isfinite(number) else None) for text, number in each] for each in places]


def places_from(data: Any) -> tuple[Place, ...]:
    """Read `plain_places`; what is none gives no places."""
    try:
        return tuple(
            tuple(TokenChoice(str(text), log_probability(number)) for text, number in place)
            for place in data or ()
            if place
        )
    except (TypeError, ValueError):
        return ()


def places_arrays(places: Iterable[Place]) -> dict[str, NDArray[Any]]:
    """Places as a stage keeps them.

    `token_texts`: JSON in UTF-8, uint8 of shape (bytes,), a list of texts for each place. `token_logprobs`:
    float64 of shape (texts,), the log-probabilities of all of them in this order.
    """
    kept = list(places)
    texts = [[each.text for each in place] for place in kept]
    logprobs = [each.logprob for place in kept for each in place]
    return {"token_texts": text_array(json.dumps(texts)), "token_logprobs": np.array(logprobs, np.float64)}


def places_in(result: Arrays) -> tuple[Place, ...]:
    """The places that a stage's result holds, see `places_arrays`; none if it was not asked for them."""
    if "token_texts" not in result:
        return ()
    logprobs = iter(np.asarray(result["token_logprobs"], np.float64).tolist())
    return tuple(
        tuple(TokenChoice(text, next(logprobs)) for text in place)
        for place in json.loads(text_in(result["token_texts"]))
    )
