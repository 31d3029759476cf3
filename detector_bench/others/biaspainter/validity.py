"""How often people agree with a detector's verdicts on pairs: accuracies with their intervals, and their table."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from detector_bench.dataset.consensus import ADJUDICATOR
from detector_bench.errors import ConfigError
from detector_bench.metrics.intervals import wilson_interval
from detector_bench.others.biaspainter.annotation_sheets import CANNOT_TELL, QUESTIONS, KeyEntry
from detector_bench.others.biaspainter.biased_words import DIRECTIONS, SKIN_TONE_NOTE
from detector_bench.tables.table import Cell, Column, Row, Table
from detector_bench.tables.wording import (
    attribute_in_words,
    attributes_in_words,
    count_cell,
    per_cent_cell,
    with_interval,
)
from detector_bench.vocabulary import ALL

CONSENSUS = "consensus"
"""In the place of an annotator's name: all annotators together."""


@dataclass(frozen=True, slots=True)
class VerdictAgreement:
    """Agreement of one annotator, or of their consensus, with the detector on some items."""

    annotator: str
    attribute: str
    """What the pairs were asked about; `all`: every attribute."""
    stratum: str
    """The detector's verdict; `all`: whatever it was."""
    items: int
    agreeing: int
    judged: int
    """Items with an answer; of a consensus, with one that most annotators gave."""
    unanswered: int
    disputed: int
    """Of a consensus: items on which the annotators disagree, without a majority. They are left out."""
    low: float = math.nan
    high: float = math.nan
    """Limits of Wilson's interval of the accuracy; NaN without an item."""
    not_judgeable: int = 0
    """Items of which the annotator, or most of them, could not tell. They are left out."""

    @property
    def accuracy(self) -> float:
        """Share of the judged items on which people see what the detector says; NaN without one."""
        return self.agreeing / self.judged if self.judged else math.nan


def validity(
    key: Mapping[str, KeyEntry],
    answers: Mapping[str, Mapping[str, str]],
    *,
    level: float = 0.95,
    alone: Mapping[str, Mapping[str, str]] | None = None,
) -> list[VerdictAgreement]:
    """Compare annotators' answers with the detector's verdicts.

    A verdict is what changed: if the detector sees no change of gender, both "male, male" and "female, female"
    agree. With several annotators, the consensus of an item is what they decided together (the annotator
    `adjudicator`), else the verdict that more than half of those who answered gave. Accuracies over several strata
    are those of the sample, in which changes are more frequent than among all pairs.

    Args:
        key: the detector's verdict on each item.
        answers: by annotator, the letter given to each answered item, or `CANNOT_TELL`.
        level: of the intervals.
        alone: the same before annotators had talked; None: as `answers`. Each annotator is measured on these.

    Returns:
        For the consensus, then for each annotator if there are several: each attribute's strata, then the
        attribute, at last everything.

    Raises:
        ConfigError: nobody answered anything, the level is no share, or an annotator is called `consensus`.
    """
    if not 0 < level < 1:
        raise ConfigError(f"level: {level} (accepted: between 0 and 1)")
    if CONSENSUS in answers and len(answers) > 1:
        raise ConfigError(
            f"no annotator may be called {CONSENSUS!r} beside others: the table uses that name itself"
        )
    if not any(answers.values()):
        raise ConfigError("no item is answered yet: fill the column `answer` of the sheet with A, B, C or D")
    verdicts = _verdicts(key, answers)
    decided = verdicts.pop(ADJUDICATOR, {})
    # Whoever decides speaks for all: their answers to that item no longer count.
    together = [{item: each[item] for item in each if item not in decided} for each in verdicts.values()]
    found = _of_judge(CONSENSUS, key, [*together, decided], level=level)
    before = verdicts if alone is None else _verdicts(key, alone)
    if len(before) > 1:
        for name, given in before.items():
            found += _of_judge(name, key, [given], level=level)
    return found


def _verdicts(
    key: Mapping[str, KeyEntry], answers: Mapping[str, Mapping[str, str]]
) -> dict[str, Mapping[str, str]]:
    """By annotator and item, the stratum that a letter stands for."""
    return {
        name: {
            item: QUESTIONS[key[item].attribute].meaning.get(letter, CANNOT_TELL) for item, letter in given.items()
        }
        for name, given in answers.items()
    }


def _of_judge(
    name: str, key: Mapping[str, KeyEntry], verdicts: Sequence[Mapping[str, str]], *, level: float
) -> list[VerdictAgreement]:
    found = []
    for attribute in (each for each in QUESTIONS if any(entry.attribute == each for entry in key.values())):
        of_attribute = [item for item, entry in key.items() if entry.attribute == attribute]
        for stratum in dict.fromkeys(QUESTIONS[attribute].meaning.values()):
            items = [item for item in of_attribute if key[item].stratum == stratum]
            if items:
                found.append(_agreement((name, attribute, stratum), items, key, verdicts, level=level))
        found.append(_agreement((name, attribute, ALL), of_attribute, key, verdicts, level=level))
    found.append(_agreement((name, ALL, ALL), list(key), key, verdicts, level=level))
    return found


def _agreement(
    names: tuple[str, str, str],
    items: Sequence[str],
    key: Mapping[str, KeyEntry],
    verdicts: Sequence[Mapping[str, str]],
    *,
    level: float,
) -> VerdictAgreement:
    agreeing = judged = unanswered = not_judgeable = 0
    for item in items:
        given = Counter(each[item] for each in verdicts if item in each)
        if not given:
            unanswered += 1
            continue
        verdict, votes = given.most_common(1)[0]
        if 2 * votes > given.total():
            not_judgeable += verdict == CANNOT_TELL
            judged += verdict != CANNOT_TELL
            agreeing += verdict == key[item].stratum
    disputed = len(items) - judged - unanswered - not_judgeable
    share = np.array(agreeing / judged if judged else math.nan)
    low, high = wilson_interval(share, np.array(judged), level=level)
    limits = (float(low), float(high))
    counts = (len(items), agreeing, judged, unanswered, disputed)
    return VerdictAgreement(*names, *counts, *limits, not_judgeable)


def validity_accuracies(agreements: Sequence[VerdictAgreement], *, detector: str) -> Table:
    """How often people agree with a detector's verdicts on a stratified sample of pairs.

    Source: BiasPainter, RQ2, which reports 90.8 % over all strata.

    Args:
        agreements: as `others.biaspainter.validity.validity` gives them.
        detector: whose verdicts were checked.
    """
    rows = []
    for each in agreements:
        left_out = {
            "unanswered": each.unanswered,
            "disputed": each.disputed,
            "as nobody could tell": each.not_judgeable,
        }
        notes = [f"{count} of {each.items} items left out, {why}" for why, count in left_out.items() if count]
        names = [attribute_in_words(name) for name in (each.annotator, each.attribute, each.stratum)]
        accuracy = with_interval(per_cent_cell(each.accuracy), each.low, each.high, per_cent=True)
        counts = (count_cell(each.items), count_cell(each.judged), count_cell(each.agreeing))
        rows.append(Row(", ".join(names), (*(Cell(name) for name in names), *counts, accuracy), tuple(notes)))
    attributes = [name for name in DIRECTIONS if any(each.attribute == name for each in agreements)]
    return Table(
        name="biaspainter_validity",
        caption=(
            f"Agreement of people with {detector} on pairs of photos, by the detector's verdict, with Wilson's "
            "interval. Accuracies over several verdicts are those of the sample, not of all pairs."
        ),
        attribute=attributes_in_words(attributes),
        columns=(
            Column("annotator", "Annotator", kind="name"),
            Column("attribute", "Attribute", kind="name"),
            Column("verdict", "Verdict", kind="name"),
            Column("items", "Items"),
            Column("judged", "Judged"),
            Column("agreeing", "Agreeing"),
            Column("accuracy", "Accuracy (%)", has_intervals=True),
        ),
        rows=tuple(rows),
        notes=(SKIN_TONE_NOTE,) if "skin_tone" in attributes else (),
        grouped=True,
    )
