"""How sure a vision-language model is of the label that it gave: pure functions of its tokens' probabilities."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import accumulate
from math import exp, isnan

from detector_bench.detectors.answer_reading import WHOLE, AnswerSet
from detector_bench.perception.answers.token_choices import Place


def label_score(
    label: str,
    places: Sequence[Place],
    *,
    answers: AnswerSet,
    part_of: Callable[[str], slice | None] = lambda text: WHOLE,  # noqa: ARG005
) -> float | None:
    """The probability of a label among all labels, where the answer says it.

    At the token with which the label's word begins (the answer's first, if it is one word), the probabilities of
    all tokens that begin a word of the same label are added up (" Male", "male", "M", " man") and divided by those
    of the tokens that begin a word of any label. What may begin a word for "cannot be told" ("un") is in neither
    sum.

    A token with which words of several labels begin ("South" of "South Asian" and "Southeast Asian") counts for
    the one that goes on from it in the answer, by its share among the tokens that follow. One that was not chosen
    tells nothing of how it would go on, and counts for no label, which makes the score a lower bound.

    Args:
        label: what the answer gives.
        places: of the answer; see `token_choices.Place`.
        answers: the words of the labels.
        part_of: finds the part of the answer that is about the label; None: there is no such part.

    Returns:
        A number in [0, 1]; None where the tokens do not say the label, or where their probabilities are not told:
        no place has a score that knows the chosen token alone.
    """
    texts = [place[0].text for place in places]
    said = "".join(texts)
    part = part_of(said)
    if part is None:
        return None
    offset, end, _ = part.indices(len(said))
    found = answers.begins_at(label, said[offset:end])
    if found is None:
        return None
    start = found + offset
    ends = list(accumulate(len(text) for text in texts))
    first = next(number for number, each in enumerate(ends) if each > start)
    return _share(label, places[first:], answers, before="")


def _share(label: str, places: Sequence[Place], answers: AnswerSet, *, before: str) -> float | None:
    """The label's share at the first of these places, where `before` is what its word begins with already."""
    if not places or len(places[0]) < 2 or any(isnan(each.logprob) for each in places[0]):
        return None
    chosen, *others = places[0]
    own: dict[str, float] = defaultdict(float)
    shared = 0.0
    for each in others:
        begun = answers.could_begin(before + each.text)
        if answers.could_excuse(before + each.text):
            continue
        if len(begun) == 1:
            own[next(iter(begun))] += exp(each.logprob)
        elif begun:
            shared += exp(each.logprob)
    begun, probability = answers.could_begin(before + chosen.text), exp(chosen.logprob)
    mine = own[label]
    if begun == {label}:
        mine += probability
    elif label in begun:
        rest = _share(label, places[1:], answers, before=before + chosen.text)
        if rest is None:
            return None
        mine += probability * rest
    else:
        return None
    total = sum(own.values()) + shared + probability
    return min(mine / total, 1.0) if total > 0 else None
