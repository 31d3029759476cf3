"""`reproduce`."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from detector_bench.cli.console import output
from detector_bench.cli.stored_predictions import AllowIncomplete, open_study
from detector_bench.cli.studies import ImageSetOption, NClear
from detector_bench.errors import ConfigError

if TYPE_CHECKING:
    from detector_bench.others.lyu2025.findings import Finding


class Paper(StrEnum):
    """The papers whose numbers can be recomputed."""

    LYU2025 = "lyu2025"


def reproduce(
    paper: Annotated[Paper, typer.Argument(help="Which paper.")] = Paper.LYU2025,  # noqa: ARG001 - one so far
    *,
    study_file: Annotated[
        Path | None,
        typer.Option(
            "--study", metavar="STUDY.yaml", help="A study over the paper's images: compare its tables, too."
        ),
    ] = None,
    predictions: Annotated[
        Path | None, typer.Option("--predictions", metavar="DIR", help="Result folder of that study.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="DIR", help="Also write the comparison as CSV, Markdown, LaTeX."),
    ] = None,
    image_set: ImageSetOption = None,
    n_clear: NClear = None,
    allow_incomplete: AllowIncomplete = False,
    only_differences: Annotated[
        bool, typer.Option("--only-differences", help="Print only what does not match.")
    ] = False,
) -> None:
    """Recompute a paper's numbers, and print them beside the published ones.

    From the printed tables alone, all that follows from them; with a study over the authors' labelled images (T2I
    models sdxl, sd3, dreamlike; detectors named as in configs/lyu2025.yaml), Tables 1 to 7.

    Examples: `detector-bench reproduce lyu2025`,
    `detector-bench reproduce lyu2025 --study results/lyu2025/study.yaml --predictions results/lyu2025`
    """
    from detector_bench.others.lyu2025.statements import published_findings

    if (study_file is None) != (predictions is None):
        raise ConfigError("--study and --predictions belong together")
    shown = _Shown(out, only_differences=only_differences)
    if study_file is None or predictions is None:
        caption = "Lyu 2025: published numbers, and the same recomputed from the paper's printed tables."
        shown.show(published_findings(), name="reproduction_of_tables", caption=caption)
        return
    findings, sentences = _of_study(
        study_file, predictions, image_set=image_set, n_clear=n_clear, allow_incomplete=allow_incomplete
    )
    caption = "Lyu 2025: published tables, and the same from the study's labels and predictions."
    shown.show(findings, name="reproduction_of_study", caption=caption)
    for sentence in sentences:
        output.print(sentence, markup=False, highlight=False, soft_wrap=True)


def _of_study(
    study_file: Path, predictions: Path, *, image_set: Path | None, n_clear: str | None, allow_incomplete: bool
) -> tuple[list[Finding], list[str]]:
    from detector_bench.evaluation import evaluate
    from detector_bench.others.lyu2025.findings import published_tables
    from detector_bench.others.lyu2025.side_by_side import layout_problems, study_findings

    opened = open_study(study_file, predictions, image_set=image_set, n_clear=n_clear, attribute="gender")
    n_clear_used = opened.study.n_clear
    metrics = evaluate(
        opened.image_set,
        opened.predictions,
        attributes=["gender"],
        n_clear=n_clear_used,
        allow_incomplete=allow_incomplete,
    )
    tables = published_tables()
    return (
        study_findings(tables, opened.image_set, metrics),
        layout_problems(tables, opened.image_set, n_clear=n_clear_used),
    )


class _Shown:
    """Writes findings where asked to, and prints them."""

    def __init__(self, out: Path | None, *, only_differences: bool) -> None:
        self._out = out
        self._only_differences = only_differences

    def show(self, findings: Sequence[Finding], *, name: str, caption: str) -> None:
        """Print the table, then what differs."""
        from detector_bench.others.lyu2025.findings import Match, findings_table, in_words, summary
        from detector_bench.tables import to_rich, write_tables

        if self._out is not None:
            write_tables({name: findings_table(findings, name=name, caption=caption)}, self._out)
        if not self._only_differences:
            output.print(to_rich(findings_table(findings, name=name, caption=caption)))
            output.print()
        else:
            output.print(summary(findings), highlight=False)
        different = [each for each in findings if each.match in (Match.DIFFERS, Match.UNDEFINED)]
        if different:
            output.print("What does not match:", style="bold")
            for finding in different:
                output.print(f"- {in_words(finding)}", markup=False, highlight=False, soft_wrap=True)
