"""`reproduce lyu2025`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from detector_bench.cli import options
from detector_bench.cli.console import command, output
from detector_bench.errors import ConfigError

if TYPE_CHECKING:
    from detector_bench.others.findings import Finding
    from detector_bench.study import Results

GENDER = "gender"


@command
def lyu2025(
    folder: options.MaybeFolder = None,
    *,
    study: Annotated[
        Path | None, typer.Option("--study", metavar="DIR", help="The same as DIR: a result folder to be asked.")
    ] = None,
    out: options.OptionalOut = None,
    image_set: options.ImageSetOption = None,
    n_clear: options.NClear = None,
    seed: options.SeedOption = None,
    allow_incomplete: options.AllowIncomplete = False,
    only_differences: Annotated[
        bool, typer.Option("--only-differences", help="Print only what does not match.")
    ] = False,
) -> None:
    """Ask claim by claim whether Lyu 2025 holds in a study, and put recomputed numbers beside the printed ones.

    Without a study, all that follows from the paper's printed tables is recomputed from them. With the result
    folder of any study of gender, the paper's claims are asked of it one by one: holds, does not hold, open, with
    the intervals of both studies. With the authors' T2I models (sdxl, sd3, dreamlike; detectors named as in
    configs/lyu2025.yaml) Tables 1 to 7 follow.

    Examples: `detector-bench reproduce lyu2025`, `detector-bench reproduce lyu2025 --study results/lyu2025`
    """
    from detector_bench.others.lyu2025.statements import published_findings

    if folder is not None and study is not None:
        raise ConfigError(f"two studies: {str(folder)!r} and --study {str(study)!r}; name one of them")
    folder = folder or study
    shown = _Shown(out, only_differences=only_differences)
    if folder is None:
        caption = "Lyu 2025: published numbers, and the same recomputed from the paper's printed tables."
        shown.show(published_findings(), name="reproduction_of_tables", caption=caption)
        return
    from detector_bench.cli.analyses import opened

    results = opened(folder, image_set=image_set, n_clear=n_clear)
    if GENDER not in results.attributes:
        raise ConfigError(
            f"{str(folder)!r}: Lyu 2025 is about gender, and the study evaluates {', '.join(results.attributes)}"
        )
    _ask_claims(results, out, seed=seed, allow_incomplete=allow_incomplete)
    if n_clear == "detector":
        output.say("The claims of Table 2 are asked with n_clear: human all the same, which its size fits.")
    _put_beside(results, shown, allow_incomplete=allow_incomplete)


def _ask_claims(results: Results, out: Path | None, *, seed: int | None, allow_incomplete: bool) -> None:
    from detector_bench.atomic_files import write_text
    from detector_bench.evaluation.counting import count_verdicts
    from detector_bench.others.lyu2025.claim_tables import (
        PARTS,
        claims_table,
        in_short,
        left_out_notes,
        not_asked_table,
        part_rows,
    )
    from detector_bench.others.lyu2025.study_claims import claims_of_study
    from detector_bench.tables import in_style_of, write_tables

    part = results.of_attribute(GENDER)
    counts = count_verdicts(
        results.image_set, part.predictions, attribute=GENDER, allow_incomplete=allow_incomplete
    )
    judged = claims_of_study(results.image_set, counts, seed=part.intervals.seed if seed is None else seed)
    found = {
        table.name: in_style_of(part.results.study, table)
        for table in (claims_table(judged, notes=left_out_notes(counts)), not_asked_table(judged))
    }
    for table in found.values():
        if table.rows:
            output.table(table)
    for sentence in in_short(judged):
        output.say(sentence)
    if out is not None:
        write_tables(found, out)
        write_text(out / f"{PARTS}.csv", part_rows(judged).to_csv(index=False))


def _put_beside(results: Results, shown: _Shown, *, allow_incomplete: bool) -> None:
    """Tables 1 to 7 beside the study's, if it is about the same T2I models."""
    from detector_bench.evaluation import evaluate
    from detector_bench.others.lyu2025.published import T2I_MODELS, published_tables
    from detector_bench.others.lyu2025.side_by_side import layout_problems, study_findings

    if missing := [name for name in T2I_MODELS if name not in results.of_attribute(GENDER).t2i_models]:
        output.say(f"No numbers are put beside the printed ones: the study has no images of {', '.join(missing)}.")
        return
    used = results.study.n_clear
    metrics = evaluate(
        results.image_set,
        results.of_attribute(GENDER).predictions,
        attributes=[GENDER],
        n_clear=used,
        allow_incomplete=allow_incomplete,
    )
    tables = published_tables()
    shown.show(
        study_findings(tables, results.image_set, metrics),
        name="reproduction_of_study",
        caption="Lyu 2025: published tables, and the same from the study's labels and predictions.",
    )
    for sentence in layout_problems(tables, results.image_set, n_clear=used):
        output.say(sentence)


class _Shown:
    """Writes findings where asked to, and prints them."""

    def __init__(self, out: Path | None, *, only_differences: bool) -> None:
        self._out = out
        self._only_differences = only_differences

    def show(self, findings: Sequence[Finding], *, name: str, caption: str) -> None:
        """Print the table, then what differs."""
        from detector_bench.others.findings import Match, findings_table, in_words, summary
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
