"""BiasPainter's check of validity as a table: how often people see what a detector says."""

from __future__ import annotations

from collections.abc import Sequence

from detector_bench.others.biaspainter.biased_words import DIRECTIONS, SKIN_TONE_NOTE
from detector_bench.others.biaspainter.validity import Agreement
from detector_bench.tables.table import Cell, Column, Row, Table
from detector_bench.tables.wording import (
    attribute_in_words,
    attributes_in_words,
    count_cell,
    per_cent_cell,
    with_interval,
)


def validity_accuracies(agreements: Sequence[Agreement], *, detector: str) -> Table:
    """How often people agree with a detector's verdicts on a stratified sample of pairs.

    Source: BiasPainter, RQ2, which reports 90.8 % over all strata.

    Args:
        agreements: as `others.biaspainter.validity.validity` gives them.
        detector: whose verdicts were checked.
    """
    rows = []
    for each in agreements:
        left_out = {"unanswered": each.unanswered, "disputed": each.disputed}
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
