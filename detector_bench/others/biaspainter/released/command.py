"""`reproduce biaspainter`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from detector_bench.cli import options
from detector_bench.cli.console import command, output
from detector_bench.errors import ConfigError, nearest_hint
from detector_bench.others.biaspainter.command import chosen_settings, show_tables

if TYPE_CHECKING:
    from detector_bench.others.findings import Finding


@command
def biaspainter(
    folders: Annotated[list[Path], typer.Argument(metavar="FOLDERS...", help="Folders with the released sheets.")],
    *,
    preset: Annotated[
        str | None,
        typer.Option("--preset", help="as_published, as_formula or as_code; by default one after the other."),
    ] = None,
    seeds: Annotated[
        str | None,
        typer.Option(
            "--measured",
            metavar="HOW",
            help="By which measurement of the seeds' brightness skin tone is scored: \"authors' file\", "
            '"with JPEG" or "without JPEG"; by default the first of these that is there.',
        ),
    ] = None,
    t2i_model: Annotated[
        str, typer.Option("--t2i-model", help="Whose the sheets are whose names do not say it.")
    ] = "sd1_5",
    only_differences: Annotated[
        bool, typer.Option("--only-differences", help="Print only what does not match.")
    ] = False,
    out: options.OptionalOut = None,
) -> None:
    """Recompute BiasPainter's scores from the sheets that its authors released, and print them beside the
    published ones.

    The folders hold the sheets as they were released (sd15_age_behavior.xlsx and the like; spreadsheets need the
    extra `excel`), or as long CSV files (activity.csv, activity_face_brightness.csv). Skin tone needs the seeds'
    brightness: race_original.csv, or seeds.csv. Where there are several measurements of it, a table says what each
    makes of the paper's conclusion.

    Example: `detector-bench reproduce biaspainter released_sheets released_seeds`
    """
    from detector_bench.others.biaspainter.formulas import PRESETS
    from detector_bench.others.biaspainter.released.folder import read_released_folders
    from detector_bench.others.biaspainter.released.side_by_side import not_compared, score_findings, scores_of
    from detector_bench.others.biaspainter.released.skin_tone_artefact import artefact_sentences, artefact_tables

    chosen = list(PRESETS) if preset is None else [preset]
    definitions = [chosen_settings(name, None, None) for name in chosen]
    found = read_released_folders(folders, t2i_model=t2i_model)
    if seeds is not None and seeds not in found.seeds:
        raise ConfigError(f"no brightness of the seeds {seeds!r}: {nearest_hint(seeds, list(found.seeds))}")
    measured = seeds or next(iter(found.seeds), None)
    for settings in definitions:
        scores = scores_of(found, settings, seeds=measured)
        _show_findings(
            score_findings(scores), settings.preset, seeds=measured, only_differences=only_differences, out=out
        )
    for sentence in not_compared(scores):
        output.say(sentence)
    for name in dict.fromkeys(each.t2i_model for each in found.sheets):
        if tables := artefact_tables(found, t2i_model=name):
            show_tables(tables, out)
            for sentence in artefact_sentences(found, t2i_model=name):
                output.say(sentence)
    if measured is None:
        output.say("No scores of skin tone: no brightness of the seeds (race_original.csv or seeds.csv) is here.")
    for note in found.notes:
        output.say(note)


def _show_findings(
    findings: list[Finding], preset: str, *, seeds: str | None, only_differences: bool, out: Path | None
) -> None:
    from dataclasses import replace

    from detector_bench.others.findings import Match, findings_table, in_words, summary
    from detector_bench.tables import write_tables

    by = "" if seeds is None else f" Seeds' brightness: {seeds}."
    caption = f"BiasPainter: published scores, and the same from the released sheets by {preset}.{by}"
    table = replace(
        findings_table(findings, name=f"biaspainter_reproduction_{preset}", caption=caption),
        attribute="gender, age and skin tone",
    )
    if out is not None:
        write_tables({table.name: table}, out)
    if not only_differences:
        output.table(table)
        return
    output.text(f"{preset}: {summary(findings)}")
    for each in findings:
        if each.match in (Match.DIFFERS, Match.UNDEFINED):
            output.text(f"- {in_words(each)}")
