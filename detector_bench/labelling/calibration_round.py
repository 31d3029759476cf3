"""What a calibration round says: how far people agree before they discuss it, answer by answer; on what not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from detector_bench.labelling.agreement_numbers import NO_LABEL, Agreement, agreement_of
from detector_bench.labelling.label_table import GivenLabel
from detector_bench.labelling.questions import Question
from detector_bench.labelling.records import Choice
from detector_bench.labelling.store import LabelStore
from detector_bench.vocabulary import ALL, LOW_QUALITY

UNRESOLVED = "unresolved"
"""What was decided where people could not agree: the consensus is `low_quality`."""


class AnswerAgreement(NamedTuple):
    """How far all annotators agree on one answer, against all others.

    Attributes:
        label: the label; "all": over all labels.
        reason: of `low_quality`; "": whichever.
        agreement: Cohen's kappa of two annotators, Fleiss' of more, and the like.
        said_by_any: images of which at least one annotator said it.
        said_by_all: images of which all who labelled them said it, two or more.
    """

    label: str
    reason: str
    agreement: Agreement
    said_by_any: int
    said_by_all: int


class ToDiscuss(NamedTuple):
    """An image of the round about which people differ now.

    Attributes:
        image_id: of a pair, the edited image's.
        question: about what.
        choices: by annotator, in alphabetical order.
        differs_in: `label`, or `reason` where all give the label `low_quality`.
        decided: the label that was decided, or `unresolved`; "": nothing yet. Reasons are only talked about.
    """

    image_id: str
    question: str
    choices: Mapping[str, Choice]
    differs_in: str
    decided: str


def answers_in_calibration(given: Sequence[GivenLabel], question: Question) -> list[AnswerAgreement]:
    """Agreement in the calibration round: over all labels, on each label, and on each reason that anybody gave.

    Args:
        given: as people said it on their own, see `LabelStore.given(independent=True)`.
        question: which one.

    Returns:
        Nothing where fewer than two people have labelled an image of the round.
    """
    of_round = [one for one in given if one.item.in_calibration and one.question == question.name]
    people = sorted({one.annotator for one in of_round})
    if len(people) < 2:
        return []
    row = {item_id: place for place, item_id in enumerate(dict.fromkeys(one.item.item_id for one in of_round))}
    answers = [(label, "") for label in question.labels]
    answers += [(LOW_QUALITY, reason) for reason in question.reasons]
    label_code, reason_code = (np.full((len(people), len(row)), NO_LABEL) for _ in range(2))
    for one in of_round:
        place = people.index(one.annotator), row[one.item.item_id]
        label_code[place] = answers.index((one.choice.label, ""))
        reason_code[place] = answers.index((one.choice.label, one.choice.reason))
    found = [
        AnswerAgreement(ALL, "", agreement_of(list(label_code), labels=len(question.labels)), *_said(label_code))
    ]
    for code, (label, reason) in enumerate(answers):
        given_codes = reason_code if reason else label_code
        if (given_codes == code).any():
            found.append(
                _on_one_answer(label, reason, np.where(given_codes == NO_LABEL, NO_LABEL, given_codes == code))
            )
    return found


def _on_one_answer(label: str, reason: str, said: NDArray[np.int64]) -> AnswerAgreement:
    """Of `[annotator, image]`: 1 where it was said, 0 where another answer was, `NO_LABEL` without one."""
    several = (said != NO_LABEL).sum(axis=0) > 1
    every = several & ((said == 1) | (said == NO_LABEL)).all(axis=0)
    by_any = int((said == 1).any(axis=0).sum())
    return AnswerAgreement(label, reason, agreement_of(list(said), labels=2), by_any, int(every.sum()))


def _said(codes: NDArray[np.int64]) -> tuple[int, int]:
    """Images with any label, and those on which two or more people gave the same one."""
    labels = (codes != NO_LABEL).sum(axis=0)
    highest, lowest = codes.max(axis=0), np.where(codes == NO_LABEL, codes.max(initial=0), codes).min(axis=0)
    return int((labels > 0).sum()), int(((labels > 1) & (highest == lowest)).sum())


def to_discuss(store: LabelStore) -> list[ToDiscuss]:
    """The images of the calibration round about which people differ now, those with different labels first."""
    of_round = {item.item_id for item in store.present_items() if item.in_calibration}
    found = []
    for one in store.disagreements():
        if one.item_id in of_round:
            decided = one.decision is not None and not one.decision.outdated
            choice = one.decision.choice if one.decision is not None else None
            label = (choice.label if choice else UNRESOLVED) if decided else ""
            found.append(ToDiscuss(one.item_id, one.question, one.choices, "label", label))
    return found + _different_reasons(store, of_round)


def _different_reasons(store: LabelStore, of_round: set[str]) -> list[ToDiscuss]:
    said: dict[tuple[str, str], dict[str, Choice]] = {}
    for answer in store.answers(None):
        if answer.answer.item_id in of_round and not answer.image_changed:
            for question, choice in answer.answer.answers.items():
                said.setdefault((answer.answer.item_id, question), {})[answer.annotator] = choice
    return [
        ToDiscuss(item_id, question, dict(sorted(choices.items())), "reason", "")
        for (item_id, question), choices in said.items()
        if {choice.label for choice in choices.values()} == {LOW_QUALITY}
        and len({choice.reason for choice in choices.values()}) > 1
    ]
