"""`search`: the best composition of filter, crop, classifier, prompts and threshold, and what the choice is
worth."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from detector_bench.cli import options
from detector_bench.cli.console import command, errors, output
from detector_bench.cli.studies import loaded
from detector_bench.errors import ConfigError
from detector_bench.plugins import load_plugins

_FIGURE = "search_figure.pdf"
_FILES = ("search.csv", "search.json", "search.md", "winner.yaml", _FIGURE, "run.json")


@command(reads_images=True)
def search(
    study_file: options.StudyFile,
    *,
    out: options.Out,
    section: Annotated[
        Path | None,
        typer.Option(
            "--section", metavar="FILE.yaml", help="What is combined, in place of the study's section `search`."
        ),
    ] = None,
    write_winner: Annotated[
        Path | None,
        typer.Option("--write-winner", metavar="FILE.yaml", help="Write the winner as a study that `run` takes."),
    ] = None,
    choose_by: Annotated[
        str | None,
        typer.Option(
            "--choose-by",
            metavar="ERROR",
            help="The error to make small: prompt_bias_score_difference, prompt_bias_error, accuracy (what it"
            " lacks to 1) or f1 (likewise).",
        ),
    ] = None,
    repeats: Annotated[
        int | None, typer.Option("--repeats", metavar="N", min=1, help="How often prompts are dealt anew.")
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", metavar="N", min=1, help="The most compositions that are accepted.")
    ] = None,
    attribute: options.AttributeOption = None,
    seed: options.SeedOption = None,
    level: options.LevelOption = None,
    image_set: options.ImageSetOption = None,
    weights_dir: options.WeightsDir = None,
    cache_dir: options.CacheDir = None,
    no_cache: options.NoCache = False,
    budget: options.BudgetOption = None,
    only: options.Only = None,
    without: options.Without = None,
    plugin: options.Plugins = None,
    allow_key: options.AllowKey = None,
    allow_host: options.AllowHost = None,
) -> None:
    """Search the best composition of filter, crop, classifier, prompts and threshold, and judge the choice.

    The best of many looks better than it is. So some prompts choose, the others judge, again and again; the
    command says what to expect of the winner where it was not chosen, how much of its gain was selection, and
    whether it beats the best single detector of the study. Stages run once; repeated, the command goes on where it
    was.

    Without a section `search` in the study it combines the study's detectors with all filters that one of them
    has, and with thresholds from 0.5 to 0.95.

    Examples: `detector-bench search configs/t2i_portraits.yaml --out results/search --weights-dir weights`,
    `detector-bench search my_study.yaml --out results/search --section parts.yaml --write-winner best.yaml`,
    `detector-bench search my_study.yaml --out results/search --choose-by accuracy --repeats 200`
    """
    from detector_bench.cli.progress import RunProgressDisplay
    from detector_bench.search.files import best_rows
    from detector_bench.study_search import search_settings
    from detector_bench.trust import allow_for_this_process

    allow_for_this_process(keys=allow_key or (), hosts=allow_host or ())
    if write_winner is not None and any(_same(write_winner, each) for each in (study_file, section)):
        raise ConfigError(
            f"--write-winner {str(write_winner)!r} would overwrite what is searched: name another file"
        )
    load_plugins(plugin or [])
    study = loaded(study_file, image_set=image_set).with_detectors(only=only or (), without=without or ())
    settings = search_settings(
        study,
        section,
        attribute=attribute,
        choose_by=choose_by,
        repeats=repeats,
        limit=limit,
        seed=seed,
        level=level,
    )
    with RunProgressDisplay(errors) as display:
        found = study.search(
            out,
            settings=settings,
            weights_dir=weights_dir,
            cache_dir=cache_dir,
            use_cache=not no_cache,
            budget=budget,
            progress=display,
        )
    output.grid(best_rows(found.findings))
    output.rows("search", found.table.to_dict("records"))
    for name, reason in found.findings.not_built[:10]:
        output.warn(f"{name}: {reason}")
    if len(found.findings.not_built) > 10:
        output.warn(f"... and {len(found.findings.not_built) - 10:,} more, in search.md")
    for sentence in found.sentences:
        output.say(sentence)
    if write_winner is not None:
        found.write_winner(write_winner)
        output.say(f"The winner is in {write_winner}: detector-bench run {write_winner} --out DIR")
    files = [name for name in _FILES if (found.folder / name).exists()]
    if _FIGURE not in files:
        output.warn(f"without matplotlib there is no {_FIGURE}: install detector-bench[figures]")
    output.say(f"Everything is in {found.folder}: {', '.join(files)}")


def _same(written: Path, read: Path | None) -> bool:
    return read is not None and written.exists() and read.exists() and written.samefile(read)
