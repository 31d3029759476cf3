"""The rules that names and answers must keep before they are stored."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Mapping

from detector_bench.dataset.consensus import ADJUDICATOR, RESERVED_ANNOTATORS
from detector_bench.dataset.findings import shorten
from detector_bench.errors import ConfigError, nearest_hint
from detector_bench.labelling.questions import Question
from detector_bench.labelling.records import Answer, Choice, RefusedAnswerError
from detector_bench.vocabulary import ALL, GROUND_TRUTH, LOW_QUALITY

RESERVED_NAMES = (ADJUDICATOR, *RESERVED_ANNOTATORS, GROUND_TRUTH, ALL)
LONGEST_NAME = 100
LONGEST_NOTE = 2000
_LONGEST_ID = 100
_LONGEST_MILLISECONDS = 2**42


def annotator_name(name: str) -> str:
    """The name as it is stored: the same letters are the same name, however they were typed.

    Raises:
        ConfigError: an empty, too long or reserved name, or one with control characters or blanks around it.
    """
    normal = unicodedata.normalize("NFC", name)
    fault = ""
    if not normal.strip():
        fault = "it is empty"
    elif normal != normal.strip():
        fault = "there are blanks around it"
    elif not _is_storable(normal) or any(unicodedata.category(letter) == "Cc" for letter in normal):
        fault = "it has a character that cannot be stored"
    elif len(normal) > LONGEST_NAME:
        fault = f"it is longer than {LONGEST_NAME} characters"
    elif normal.casefold() in RESERVED_NAMES:
        fault = "the name is reserved"
    if fault:
        raise ConfigError(f"annotator {shorten(name)!r}: {fault} (accepted: a name such as 'ann')")
    return normal


def check_id(given: str) -> None:
    """Check an id that a client made.

    Raises:
        RefusedAnswerError: it is no short, printable text.
    """
    if not 0 < len(given) <= _LONGEST_ID or not given.isprintable() or not _is_storable(given):
        raise RefusedAnswerError(f"the id {shorten(given)!r} is not accepted (accepted: a UUID)")


def checked_answer(answer: Answer, questions: Mapping[str, Question]) -> Answer:
    """An answer as it is stored, its notes without blanks around them.

    Raises:
        RefusedAnswerError: an unknown question or label, a reason or value that does not belong there, an empty
            answer, or a skip that says something.
    """
    check_id(answer.answer_id)
    checked_time(answer.milliseconds)
    if answer.skipped and answer.answers:
        raise RefusedAnswerError(
            f"item {answer.item_id!r} is skipped and answered at once (accepted: one of both)"
        )
    if not answer.skipped and not answer.answers:
        accepted = ", ".join(questions)
        raise RefusedAnswerError(f"item {answer.item_id!r}: the answer is empty (accepted: {accepted}, or a skip)")
    choices = {}
    for name in answer.answers:
        if name not in questions:
            raise RefusedAnswerError(f"unknown question {shorten(name)!r}: {nearest_hint(name, questions)}")
    # In the order of the questions, so that an equal answer is the same text in the log.
    for name, question in questions.items():
        if name in answer.answers:
            choices[name] = checked_choice(answer.answers[name], question)
    return Answer(answer.answer_id, answer.item_id, choices, answer.skipped, answer.milliseconds)


def checked_time(milliseconds: int | None) -> int | None:
    """How long an answer took, as it is stored.

    Raises:
        RefusedAnswerError: less than nothing, or longer than anybody lives.
    """
    if milliseconds is not None and not 0 <= milliseconds < _LONGEST_MILLISECONDS:
        raise RefusedAnswerError(f"milliseconds is {milliseconds} (accepted: 0 or more)")
    return milliseconds


def checked_choice(choice: Choice, question: Question) -> Choice:
    """A choice as it is stored.

    Raises:
        RefusedAnswerError: an unknown label or reason, a value out of range, or a note that cannot be stored.
    """
    if choice.label not in question.labels:
        accepted = ", ".join(question.labels)
        raise RefusedAnswerError(
            f"{question.name}: unknown label {shorten(choice.label)!r} (accepted: {accepted})"
        )
    reasons = question.reasons if choice.label == LOW_QUALITY else ()
    if choice.reason and choice.reason not in reasons:
        accepted = ", ".join(reasons) + ", or nothing" if reasons else f"none; reasons belong to {LOW_QUALITY}"
        raise RefusedAnswerError(
            f"{question.name}: unknown reason {shorten(choice.reason)!r} (accepted: {accepted})"
        )
    note = choice.note.strip()
    if len(note) > LONGEST_NOTE or "\0" in note or not _is_storable(note):
        raise RefusedAnswerError(
            f"{question.name}: the note is too long or holds a character that cannot be stored"
        )
    return Choice(choice.label, choice.reason, note, _checked_value(choice, question))


def _checked_value(choice: Choice, question: Question) -> float | None:
    if choice.value is None:
        return None
    if question.value_range is None or choice.label not in question.classes:
        raise RefusedAnswerError(f"{question.name}: {choice.label!r} takes no number; got {choice.value}")
    lowest, highest = question.value_range
    if not math.isfinite(choice.value) or not lowest <= choice.value <= highest:
        raise RefusedAnswerError(
            f"{question.name}: the number is {choice.value} (accepted: {lowest:g} to {highest:g})"
        )
    return float(choice.value)


def _is_storable(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:  # half of a surrogate pair, which JSON can smuggle in
        return False
    return True
