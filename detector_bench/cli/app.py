"""Puts the commands together, and turns errors into one line and an exit status."""

from __future__ import annotations

import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from detector_bench import __version__
from detector_bench.cli.console import complain
from detector_bench.errors import DetectorBenchError, RunInterruptedError

EXIT_MISTAKE = 1
EXIT_INTERRUPTED = 128 + signal.SIGINT
EXIT_STATUS = (
    "Exit status: 0 if all went well; 1 for a mistake that one line tells, or if a check finds something wrong; "
    "2 for a wrong call; 130 if interrupted, with everything kept that was done."
)


@dataclass(frozen=True)
class CommandGroup:
    """Commands below a word of their own."""

    help: str
    commands: Mapping[str, str]
    """Where the function of each is: `module:function`, seen from `detector_bench`."""


COMMANDS: dict[str, str | CommandGroup] = {
    "run": "cli.studies:run",
    "evaluate": "cli.studies:evaluate",
    "compare": "cli.analyses:compare",
    "rank": "cli.analyses:rank",
    "causes": "cli.analyses:causes",
    "sweep": "cli.analyses:sweep",
    "agreement": "cli.analyses:agreement",
    "figures": "cli.publishing:figures",
    "report": "cli.publishing:report",
    "reproduce": CommandGroup(
        "Recompute a paper's numbers, and print them beside the published ones.",
        {"lyu2025": "others.lyu2025.command:lyu2025"},
    ),
    "quickstart": "cli.studies:quickstart",
    "check": "cli.image_sets:check",
    "import": "cli.image_sets:import_",
    "label": "cli.label:label",
    "labels": CommandGroup(
        "Labels of the labelling desk: export, import, agreement of its annotators.",
        {
            "export": "cli.labels:export",
            "import": "cli.labels:import_",
            "agreement": "cli.labels:agreement",
        },
    ),
    "prompts": "cli.prompts:prompts",
    "taxonomies": "cli.detectors:taxonomies",
    "detectors": "cli.detectors:detectors",
    "conformance": "cli.detectors:conformance",
    "weights": CommandGroup(
        "Weights files: list them, verify their sha256, download them.",
        {"list": "cli.weights:list_", "verify": "cli.weights:verify", "fetch": "cli.weights:fetch"},
    ),
    "biaspainter": CommandGroup(
        "BiasPainter: what editing a photo does to gender, age and skin tone. What it calls race is skin tone, "
        "which is not race. The scores of a study come with `scores: [{system: biaspainter}]` in its study file.",
        {name: f"others.biaspainter.command:{name}" for name in ("sheets", "sample", "validity", "mitigation")},
    ),
    "bigbench": CommandGroup(
        "BIGbench's reference files: check them, write them as tables.",
        {name: f"others.bigbench.command:{name}" for name in ("check", "convert")},
    ),
    "imagebite": CommandGroup("ImageBiTe's requirements.", {"check": "others.imagebite.command:check"}),
}


_HELP = {"help_option_names": ["-h", "--help"]}


class _LazyGroup(TyperGroup):
    """A group of commands whose modules are imported when they are asked for."""

    def __init__(self, *, declared: Mapping[str, str | CommandGroup] = COMMANDS, **settings: Any) -> None:
        super().__init__(**settings)
        self.declared = declared
        # Typer looks for the nearest names here.
        self.commands = dict.fromkeys(declared)  # type: ignore[assignment]

    def list_commands(self, ctx: object) -> list[str]:  # noqa: ARG002 - as Typer calls it
        return list(self.declared)

    def get_command(self, ctx: object, cmd_name: str) -> Any:  # noqa: ARG002 - as Typer calls it
        if cmd_name in self.declared and self.commands[cmd_name] is None:
            self.commands[cmd_name] = _made(cmd_name, self.declared[cmd_name])
        return self.commands.get(cmd_name)


def _made(name: str, declared: str | CommandGroup) -> Any:
    """The command that a place or a group stands for."""
    if isinstance(declared, CommandGroup):
        example = f"detector-bench {name} {next(iter(declared.commands))} --help"
        return _LazyGroup(
            name=name,
            declared=declared.commands,
            help=f"{declared.help}\n\nExample: `{example}`",
            no_args_is_help=True,
            rich_markup_mode="markdown",
            context_settings=_HELP,
        )
    module, _, function = declared.partition(":")
    alone = typer.Typer(add_completion=False, rich_markup_mode="markdown", context_settings=_HELP)
    alone.command(name)(getattr(import_module(f"detector_bench.{module}"), function))
    return typer.main.get_command(alone)


app = typer.Typer(
    name="detector-bench",
    cls=_LazyGroup,
    help="Can a gender, age or race detector be trusted to measure the bias of a text-to-image model?",
    epilog=EXIT_STATUS,
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings=_HELP,
)


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
        complain("interrupted", str(error))
        sys.exit(EXIT_INTERRUPTED)
    except DetectorBenchError as error:
        complain("error", str(error))
        sys.exit(EXIT_MISTAKE)
    except KeyboardInterrupt:
        complain("interrupted")
        sys.exit(EXIT_INTERRUPTED)
    except SystemExit as stop:
        # What typer makes of Ctrl-C, without a word.
        if stop.code == EXIT_INTERRUPTED:
            complain("interrupted")
        raise
