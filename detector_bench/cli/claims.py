"""What commands that recompute a paper print and write."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from detector_bench.cli.console import output

if TYPE_CHECKING:
    from detector_bench.others.findings import Finding
    from detector_bench.tables import Table


def show_claims(table: Table, findings: Sequence[Finding], *, only_differences: bool, out: Path | None) -> None:
    """Print the table of claims, or what of it does not match; write it where asked to.

    Args:
        table: of `recomputed.claims_table`.
        findings: those in it.
        only_differences: print only what does not match.
        out: the folder for the table's files.
    """
    from detector_bench.others.findings import Match, in_words, summary
    from detector_bench.tables import write_tables

    if out is not None:
        write_tables({table.name: table}, out)
    if only_differences:
        output.text(summary(findings))
    else:
        output.table(table)
    different = [each for each in findings if each.match in (Match.DIFFERS, Match.UNDEFINED)]
    if different:
        output.text("\n".join(["What does not match:", *(f"- {in_words(finding)}" for finding in different)]))
    if out is not None:
        output.say(f"{out / table.name}.csv and the like: {len(table.rows):,} claims")
