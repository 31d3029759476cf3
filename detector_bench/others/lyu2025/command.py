"""`reproduce lyu2025`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from detector_bench.cli import options
from detector_bench.cli.console import command, output

if TYPE_CHECKING:
    from detector_bench.others.lyu2025.findings import Finding


@command
def lyu2025(
    folder: options.MaybeFolder = None,
    *,
    out: options.OptionalOut = None,
    image_set: options.ImageSetOption = None,
    n_clear: options.NClear = None,
    allow_incomplete: options.AllowIncomplete = False,
    only_differences: Annotated[
        bool, typer.Option("--only-differences", help="Print only what does not match.")
    ] = False,
) -> None:
    """Recompute the numbers of Lyu 2025, and print them beside the published ones.

    From the printed tables alone, all that follows from them; with the result folder of a study over the authors'
    labelled images (T2I models sdxl, sd3, dreamlike; detectors named as in configs/lyu2025.yaml), Tables 1 to 7.

    Examples: `detector-bench reproduce lyu2025`, `detector-bench reproduce lyu2025 results/lyu2025`
    """
    from detector_bench.others.lyu2025.statements import published_findings

    shown = _Shown(out, only_differences=only_differences)
    if folder is None:
        caption = "Lyu 2025: published numbers, and the same recomputed from the paper's printed tables."
        shown.show(published_findings(), name="reproduction_of_tables", caption=caption)
        return
    findings, sentences = _of_study(
        folder, image_set=image_set, n_clear=n_clear, allow_incomplete=allow_incomplete
    )
    caption = "Lyu 2025: published tables, and the same from the study's labels and predictions."
    shown.show(findings, name="reproduction_of_study", caption=caption)
    for sentence in sentences:
        output.say(sentence)


def _of_study(
    folder: Path, *, image_set: Path | None, n_clear: str | None, allow_incomplete: bool
) -> tuple[list[Finding], list[str]]:
    from detector_bench.cli.analyses import opened
    from detector_bench.evaluation import evaluate
    from detector_bench.others.lyu2025.findings import published_tables
    from detector_bench.others.lyu2025.side_by_side import layout_problems, study_findings

    results = opened(folder, image_set=image_set, n_clear=n_clear)
    used = results.study.n_clear
    metrics = evaluate(
        results.image_set,
        results.of_attribute("gender").predictions,
        attributes=["gender"],
        n_clear=used,
        allow_incomplete=allow_incomplete,
    )
    tables = published_tables()
    return (
        study_findings(tables, results.image_set, metrics),
        layout_problems(tables, results.image_set, n_clear=used),
    )


class _Shown:
    """Writes findings where asked to, and prints them."""

    def __init__(self, out: Path | None, *, only_differences: bool) -> None:
        self._out = out
        self._only_differences = only_differences

    def show(self, findings: Sequence[Finding], *, name: str, caption: str) -> None:
        """Print the table, then what differs."""
        from detector_bench.others.lyu2025.findings import Match, findings_table, in_words, summary
        from detector_bench.tables import write_tables

        table = findings_table(findings, name=name, caption=caption)
        if self._out is not None:
            write_tables({name: table}, self._out)
        if self._only_differences:
            output.text(summary(findings))
        else:
            output.table(table)
        different = [each for each in findings if each.match in (Match.DIFFERS, Match.UNDEFINED)]
        if different:
            output.text("\n".join(["What does not match:", *(f"- {in_words(finding)}" for finding in different)]))
