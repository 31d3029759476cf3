"""Reads a label out of a sentence that a vision-language model gave as its answer. Pure functions."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from functools import cached_property, lru_cache
from itertools import chain
from typing import NamedTuple

from pydantic import Field, field_validator, model_validator

from detector_bench.declarations import Declaration
from detector_bench.detectors.base import Prediction
from detector_bench.perception.stage import Frame
from detector_bench.vocabulary import ATTRIBUTES

NO_ANSWER = "no_answer"
"""The reason for an answer without any of the words that are looked for."""

AMBIGUOUS = "ambiguous"
"""The reason for an answer with the words of several labels."""

UNKNOWN = "unknown"
"""The reason for an answer that says that it cannot be told."""

_NEGATIONS = frozenset(
    "not no neither nor never without isn't aren't wasn't doesn't don't didn't won't cannot can't".split()  # noqa: SIM905
)
_BETWEEN = frozenset(
    "a an any the be is look looks looking like appear appears seem seems to as really clearly".split()  # noqa: SIM905
)
"""Words that a negation reaches across: "does not look like a man"."""

_STOP = "|"
_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)*|[.,;:!?\n|]|\+")
_THINKING = re.compile(r"<think>.*?(?:</think>|\Z)", re.DOTALL | re.IGNORECASE)
_END_OF_THINKING = re.compile(r"\A.*</think>", re.DOTALL | re.IGNORECASE)  # some servers swallow the beginning


WHOLE = slice(None)
"""All of an answer."""


class AnswerReading(NamedTuple):
    """A label, or the reason why the answer gives none; exactly one of the two."""

    label: str | None = None
    reason: str | None = None


class AnswerSet(Declaration):
    """Which words of an answer mean which label, and which mean that there is none.

    Whole words and phrases count, whatever their case, hyphens and punctuation; longer phrases before the shorter
    ones in them, so that "southeast asian" is not "asian". What a model thinks aloud in `<think>` tags does not
    count. A label needs exactly one voice:

    - a phrase from `reasons` anywhere filters with that reason: a model that says "unclear, perhaps a man" has not
      answered;
    - words of several labels ("a man and a woman") filter as `ambiguous`;
    - a word right behind a negation ("not a man") does not count, and does not mean the other label either;
    - no word at all filters as `no_answer`.
    """

    labels: dict[str, tuple[str, ...]] = Field(min_length=1)
    """Words and phrases by label."""
    reasons: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """Words and phrases by the reason for which they filter, the strongest reason first."""

    @field_validator("reasons")
    @classmethod
    def _reasons_are_words(cls, reasons: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
        for reason in reasons:
            if not re.fullmatch(r"[a-z][a-z_]*", reason):
                raise ValueError(f"a reason is one word in snake_case; got {reason!r}")
        return reasons

    @model_validator(mode="after")
    def _each_phrase_has_one_meaning(self) -> AnswerSet:
        taken: dict[str, str] = {}
        for meaning, phrases in chain(self.labels.items(), self.reasons.items()):
            if not phrases:
                raise ValueError(f"{meaning!r} has no words")
            for phrase in phrases:
                plain = _plain(phrase)
                if not plain or _STOP in plain.split():
                    raise ValueError(f"{phrase!r} of {meaning!r} is no word or phrase")
                if taken.setdefault(plain, meaning) != meaning:
                    raise ValueError(f"{phrase!r} means both {taken[plain]!r} and {meaning!r}")
        return self

    @cached_property
    def _label_words(self) -> dict[str, str]:
        return _meanings(self.labels)

    @cached_property
    def _reason_words(self) -> dict[str, str]:
        return _meanings(self.reasons)

    def read(self, answer: str) -> AnswerReading:
        """The label that an answer gives, or why it gives none. Never raises."""
        text = _plain(_END_OF_THINKING.sub("", _THINKING.sub(" ", answer)))
        labels, reasons = self._label_words, self._reason_words
        found: dict[str, None] = {}
        for match in _pattern((*labels, *reasons)).finditer(text):
            if match[0] in reasons or not _negated(text[: match.start()]):
                found[match[0]] = None
        for reason in self.reasons:
            if any(reasons.get(phrase) == reason for phrase in found):
                return AnswerReading(reason=reason)
        named = {labels[phrase] for phrase in found}
        if len(named) == 1:
            return AnswerReading(label=named.pop())
        return AnswerReading(reason=AMBIGUOUS if named else NO_ANSWER)

    def begins_at(self, label: str, text: str) -> int | None:
        """Where in a text the first word or phrase begins that gives a label; None: nowhere."""
        labels, reasons = self._label_words, self._reason_words
        starts: dict[int, int] = {}
        plain = ""
        for match in _WORD.finditer(text.replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")):
            plain += " " if plain else ""
            starts[len(plain)] = match.start()
            plain += " ".join(_plain_words([match[0].casefold()]))
        for match in _pattern((*labels, *reasons)).finditer(plain):
            if labels.get(match[0]) == label and not _negated(plain[: match.start()]):
                return starts.get(match.start())
        return None

    def could_begin(self, text: str) -> frozenset[str]:
        """The labels of which a word or phrase may begin with a text: of all that do, or of the one that it is.

        "fe" begins "female" and no other, " he" is a word although "her" begins with it, and "South" begins
        "South Asian" and "Southeast Asian".
        """
        return _begun(text, self._label_words)

    def could_excuse(self, text: str) -> bool:
        """Whether a word or phrase that filters may begin with a text, and it is no label's word already."""
        return bool(_begun(text, self._reason_words)) and _plain(text) not in self._label_words


def prediction_from(
    answer: str, frame: Frame, attribute: str, *, answers: AnswerSet, within: slice = WHOLE
) -> Prediction:
    """The verdict that an answer, or a part of it, gives on an image; the answer itself is kept as `raw`."""
    label, reason = answers.read(answer[within])
    if label is None:
        return Prediction.filtered(frame, attribute, reason or NO_ANSWER, raw=answer)
    return Prediction.clear(frame, attribute, label, raw=answer)


def _meanings(words: dict[str, tuple[str, ...]]) -> dict[str, str]:
    return {_plain(phrase): meaning for meaning, phrases in words.items() for phrase in phrases}


def _begun(text: str, meanings: dict[str, str]) -> frozenset[str]:
    said = _plain(text)
    if not said:
        return frozenset()
    word = said.rstrip(f" {_STOP}")
    if word in meanings:
        return frozenset({meanings[word]})
    start = said if text[-1].isalnum() else f"{said} "
    return frozenset(meaning for phrase, meaning in meanings.items() if phrase.startswith(start))


@lru_cache(maxsize=256)
def _pattern(phrases: tuple[str, ...]) -> re.Pattern[str]:
    longest_first = sorted(phrases, key=len, reverse=True)
    return re.compile(r"(?<!\S)(?:" + "|".join(map(re.escape, longest_first)) + r")(?!\S)")


def _plain(text: str) -> str:
    """Words in lower case with single spaces between them, and `|` where a clause ends."""
    text = unicodedata.normalize("NFKC", text).casefold().replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")
    return " ".join(_plain_words(_WORD.findall(text)))


def _plain_words(words: Iterable[str]) -> Iterable[str]:
    for word in words:
        if word == "+":
            yield "plus"
        elif not word[0].isalnum():
            yield _STOP
        else:
            yield word.removesuffix("'s")


def _negated(before: str) -> bool:
    for word in reversed(before.split()):
        if word not in _BETWEEN:
            return word in _NEGATIONS
    return False


_UNSURE = (
    "unknown",
    "unclear",
    "unsure",
    "uncertain",
    "undetermined",
    "indeterminate",
    "ambiguous",
    "neither",
    "none",
    "n/a",
    "not clear",
    "not sure",
    "not certain",
    "not visible",
    "not possible",
    "impossible to say",
    "impossible to tell",
    "impossible to determine",
    "hard to say",
    "hard to tell",
    "difficult to say",
    "difficult to tell",
    "difficult to determine",
    "can't tell",
    "can't say",
    "can't see",
    "can't determine",
    "can't identify",
    "cannot tell",
    "cannot say",
    "cannot see",
    "cannot determine",
    "cannot identify",
    "cannot be determined",
    "can't be determined",
    "unable to tell",
    "unable to say",
    "unable to determine",
    "unable to identify",
    "do not know",
    "don't know",
    "not know",
)
_NOBODY = ("nobody", "no one", "no person", "no people", "no human", "no humans")


def default_answers(attribute: str) -> AnswerSet:
    """The words that an attribute's file lists; a bare number of years, or "Asian" alone, is in none of ours.

    A class may take a word that otherwise means that it cannot be told, such as "none" for glasses.
    """
    known = ATTRIBUTES[attribute]
    either = {AMBIGUOUS: known.ambiguous} if known.ambiguous else {}
    taken = {_plain(word) for each in known.choices for word in each.answers}
    nobody, unsure = ([word for word in words if _plain(word) not in taken] for words in (_NOBODY, _UNSURE))
    return AnswerSet(
        labels={each.name: each.answers for each in known.choices},
        reasons={
            **({"no_person": tuple(nobody)} if nobody else {}),
            **either,
            UNKNOWN: (*unsure, *known.unknown),
        },
    )


GENDER_ANSWERS = default_answers("gender")
"""Gender, in words of people."""
