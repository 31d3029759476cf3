"""Tables of the labelling desk's calibration round: how far people agree on each answer, and what to discuss."""

from __future__ import annotations

import math
from collections.abc import Sequence

from detector_bench.labelling.calibration_round import AnswerAgreement, ToDiscuss
from detector_bench.labelling.records import Choice
from detector_bench.tables.table import Cell, Column, Row, Table
from detector_bench.tables.wording import (
    attribute_in_words,
    count_cell,
    in_words,
    label_in_words,
    number_cell,
    per_cent_cell,
)
from detector_bench.vocabulary import ALL

_SHOWN = 60


def calibration_agreement(
    answers: Sequence[AnswerAgreement], *, attribute: str, annotators: Sequence[str]
) -> Table:
    """Agreement before the discussion: over all labels, on each label, and on each reason of `low_quality`.

    Args:
        answers: in the order in which they are to be read.
        attribute: what was asked for.
        annotators: who labelled the round.
    """
    rows = []
    for each in answers:
        found = each.agreement
        name = "all labels" if each.label == ALL else label_in_words(each.reason or each.label)
        kind = "reason" if each.reason else "label"
        kappa = number_cell(found.kappa, kind="score", limits=(found.low, found.high))
        cells = (Cell(kind), Cell(name), kappa, per_cent_cell(found.percent))
        counts = (each.said_by_any, each.said_by_all, found.images)
        rows.append(Row(name, (*cells, *(count_cell(float(number)) for number in counts))))
    undefined = any(math.isnan(each.agreement.kappa) for each in answers)
    return Table(
        name="calibration_agreement",
        caption=(
            f"Agreement in the calibration round on perceived {attribute_in_words(attribute)}, before it was "
            f"discussed, of {', '.join(annotators)}. A label or a reason against all other answers. κ: Cohen's of "
            "two annotators, Fleiss' of more. In brackets: 95 % interval."
        ),
        attribute=attribute,
        columns=(
            Column("kind", "Answer", kind="name"),
            Column("name", "Name", kind="name"),
            Column("kappa", "κ", has_intervals=True),
            Column("percent_agreement", "Agreement (%)"),
            Column("said_by_any", "Said by any"),
            Column("said_by_all", "Said by all"),
            Column("images", "Images"),
        ),
        rows=tuple(rows),
        notes=("κ is undefined where only one answer was given.",) if undefined else (),
        grouped=True,
    )


def images_to_discuss(images: Sequence[ToDiscuss], *, attribute: str) -> Table:
    """The images about which people differ, with what everybody says.

    Args:
        images: of one attribute.
        attribute: which.
    """
    rows = []
    for each in images[:_SHOWN]:
        said = "; ".join(f"{name}: {answer_in_words(choice)}" for name, choice in each.choices.items())
        decided = (
            label_in_words(each.decided, in_sentence=True)
            if each.decided
            else "open"
            if each.differs_in == "label"
            else ""
        )
        rows.append(Row(each.image_id, tuple(map(Cell, (each.image_id, each.differs_in, said, decided)))))
    left = len(images) - len(rows)
    return Table(
        name="images_to_discuss",
        caption=f"Images of the calibration round on whose {attribute_in_words(attribute)} people differ.",
        attribute=attribute,
        columns=(
            Column("image_id", "Image", kind="name"),
            Column("differs_in", "Differ in", kind="name"),
            Column("answers", "Answers", kind="name"),
            Column("decided", "Decided", kind="name"),
        ),
        rows=tuple(rows),
        notes=(f"{left:,} more are in the file that --out writes, and in --json.",) if left > 0 else (),
    )


def answer_in_words(choice: Choice) -> str:
    """A label with its reason and note."""
    reason = in_words(choice.reason).lower() if choice.reason else ""
    added = ", ".join(text for text in (reason, choice.note) if text)
    return label_in_words(choice.label, in_sentence=True) + (f" ({added})" if added else "")
