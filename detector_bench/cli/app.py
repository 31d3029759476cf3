"""Puts the commands together, and turns errors into one line and an exit status."""

from __future__ import annotations

import signal
import sys
from typing import Annotated

import typer

from detector_bench import __version__
from detector_bench.benchmark import benchmarks
from detector_bench.cli import (
    EXIT_INTERRUPTED,
    agreement,
    causes,
    comparisons,
    conformance,
    detectors,
    figures,
    image_sets,
    label,
    labels,
    prompts,
    report,
    studies,
    sweep,
    taxonomies,
    weights,
)
from detector_bench.cli.console import errors
from detector_bench.errors import DetectorBenchError, RunInterruptedError

EXIT_MISTAKE = 1

app = typer.Typer(
    name="detector-bench",
    help="Can a gender, age or race detector be trusted to measure the bias of a text-to-image model?",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("run")(studies.run)
app.command("evaluate")(studies.evaluate)
app.command("compare")(comparisons.compare)
app.command("rank")(comparisons.rank)
app.command("causes")(causes.causes)
app.command("sweep")(sweep.sweep)
app.command("agreement")(agreement.agreement)
app.command("figures")(figures.figures)
app.command("report")(report.report)
app.command("quickstart")(studies.quickstart)
app.command("check")(image_sets.check)
app.command("import")(image_sets.import_)
app.command("label")(label.label)
app.command("prompts")(prompts.prompts)
app.command("taxonomies")(taxonomies.taxonomies)
app.command("detectors")(detectors.detectors)
app.command("conformance")(conformance.conformance)
for _benchmark in benchmarks():
    for _name, _target in _benchmark.commands.items():
        _command = _benchmark.load(_target)
        if isinstance(_command, typer.Typer):
            app.add_typer(_command, name=_name)
        else:
            app.command(_name)(_command)
app.add_typer(labels.app, name="labels")
app.add_typer(weights.app, name="weights")


def _show_version(value: bool) -> None:  # noqa: FBT001 - typer calls it with the option's value
    if value:
        typer.echo(f"detector-bench {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    *,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and stop.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line; exit status 0 if all went well, 1 for a mistake, 130 if interrupted."""
    # A job scheduler's stop is treated like Ctrl-C: finish writing, and say how to go on.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        app()
    except RunInterruptedError as error:
        errors.print("[yellow]interrupted:[/yellow] ", end="")
        errors.print(str(error), markup=False, highlight=False, soft_wrap=True)
        sys.exit(EXIT_INTERRUPTED)
    except DetectorBenchError as error:
        errors.print("[red]error:[/red] ", end="")
        errors.print(str(error), markup=False, highlight=False, soft_wrap=True)
        sys.exit(EXIT_MISTAKE)
    except KeyboardInterrupt:
        errors.print("[yellow]interrupted[/yellow]")
        sys.exit(EXIT_INTERRUPTED)
    except SystemExit as stop:
        # What typer makes of Ctrl-C, without a word.
        if stop.code == EXIT_INTERRUPTED:
            errors.print("[yellow]interrupted[/yellow]")
        raise
