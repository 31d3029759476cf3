"""A published number beside the same one recomputed, whichever paper printed it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from detector_bench.tables.table import Cell, Column, Row, Table
from detector_bench.tables.wording import fixed

_FLOAT_NOISE = 1e-9


class Match(StrEnum):
    """How a recomputed number compares with the published one."""

    SAME = "same"
    WITHIN_ROUNDING = "within rounding"
    DIFFERS = "differs"
    UNDEFINED = "undefined"


_COUNTED = {
    Match.SAME: "the same",
    Match.WITHIN_ROUNDING: "equal within rounding",
    Match.DIFFERS: "different",
    Match.UNDEFINED: "undefined",
}


@dataclass(frozen=True, slots=True)
class Finding:
    """A published number, the recomputed one, and how much of a difference rounding explains."""

    place: str
    """Where the number is printed: a table, or a section of the text."""
    statement: str
    published: float
    recomputed: float
    decimals: int
    """How many decimals the paper prints."""
    rounding: float = 0.0
    """How far the recomputed number may be off because what it is computed from was printed rounded."""
    note: str = ""
    """What to make of a difference, or how a statement was understood."""

    @property
    def match(self) -> Match:
        """Same, if the recomputed number would be printed as the published one; else by size of the difference."""
        if math.isnan(self.recomputed):
            return Match.UNDEFINED
        difference = abs(self.recomputed - self.published)
        half_a_digit = 0.5 * 10.0**-self.decimals
        if difference <= half_a_digit + _FLOAT_NOISE:
            return Match.SAME
        if difference <= half_a_digit + self.rounding + _FLOAT_NOISE:
            return Match.WITHIN_ROUNDING
        return Match.DIFFERS


def findings_table(findings: Sequence[Finding], *, name: str, caption: str) -> Table:
    """Findings as a table, with a note on how many are the same."""
    rows = []
    for finding in findings:
        cells = (
            Cell(finding.place),
            Cell(finding.statement),
            Cell(str(finding.match), bold=finding.match is Match.DIFFERS),
            Cell(fixed(finding.published, decimals=finding.decimals), value=finding.published),
            Cell(_with_another_digit(finding), value=finding.recomputed),
        )
        rows.append(Row(f"{finding.place}, {finding.statement}", cells))
    return Table(
        name=name,
        caption=caption,
        attribute="gender",
        columns=(
            Column("place", "Place", kind="name"),
            Column("statement", "What", kind="name"),
            Column("verdict", "Verdict", kind="name"),
            Column("published", "Published"),
            Column("recomputed", "Recomputed"),
        ),
        rows=tuple(rows),
        notes=(
            summary(findings),
            *(f"{each.place}, {each.statement}: {each.note}." for each in findings if each.note),
        ),
        grouped=True,
    )


def in_words(finding: Finding) -> str:
    """A finding as a line of text: place, statement, both numbers, and the note."""
    published = fixed(finding.published, decimals=finding.decimals)
    note = f" ({finding.note})" if finding.note else ""
    recomputed = _with_another_digit(finding)
    return f"{finding.place}, {finding.statement}: published {published}, recomputed {recomputed}{note}"


def _with_another_digit(finding: Finding) -> str:
    """The recomputed number; where it is not the same, one decimal more than printed shows why."""
    printed = fixed(finding.recomputed, decimals=finding.decimals)
    if finding.match in (Match.SAME, Match.UNDEFINED):
        return printed
    longer = fixed(finding.recomputed, decimals=finding.decimals + 1)
    return printed if float(longer) == float(printed) else longer


def summary(findings: Sequence[Finding]) -> str:
    """One sentence: how many numbers are the same, within rounding, and different."""
    matches = [finding.match for finding in findings]
    parts = [f"{matches.count(match)} {_COUNTED[match]}" for match in Match if match in matches]
    return (
        f"{len(findings)} published numbers: {', '.join(parts)}." if parts else "No published number to compare."
    )
