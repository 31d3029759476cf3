"""What of a paper can be recomputed, and what cannot: one table, claim by claim."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from detector_bench.others.findings import Finding, findings_table
from detector_bench.tables.table import DASH, Cell, Row, Table

CANNOT = "cannot be recomputed"
"""The verdict on a claim whose data nobody has published, or that are not in the folder."""


class OutOfReach(NamedTuple):
    """A claim of a paper that cannot be recomputed."""

    place: str
    claim: str
    reason: str
    """Why, as it stands inside a sentence."""


def claims_table(
    findings: Sequence[Finding],
    out_of_reach: Sequence[OutOfReach],
    *,
    name: str,
    caption: str,
    attribute: str = "gender, race and age",
) -> Table:
    """Numbers beside the published ones, then what cannot be recomputed, with the reason in the notes.

    Args:
        findings: what was recomputed.
        out_of_reach: what was not.
        name: of the table, and of its files.
        caption: of the table.
        attribute: what the paper is about, in words.
    """
    table = replace(findings_table(findings, name=name, caption=caption), attribute=attribute)
    further = tuple(
        Row(
            f"{each.place}, {each.claim}",
            (
                Cell(each.place),
                Cell(each.claim),
                Cell(CANNOT),
                Cell(DASH, float("nan")),
                Cell(DASH, float("nan")),
            ),
        )
        for each in out_of_reach
    )
    reasons = tuple(f"{each.place}, {each.claim}: {each.reason}." for each in out_of_reach)
    counted = (f"{len(out_of_reach)} claims cannot be recomputed.",) if out_of_reach else ()
    return replace(
        table,
        rows=(*table.rows, *further),
        notes=(*table.notes[:1], *counted, *table.notes[1:], *reasons),
    )
