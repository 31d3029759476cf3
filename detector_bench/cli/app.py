"""Puts the commands together, and turns errors into one line and an exit status."""

from __future__ import annotations

import signal
import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from detector_bench import __version__
from detector_bench.benchmark import CommandGroup, benchmarks
from detector_bench.cli.console import complain
from detector_bench.errors import DetectorBenchError, RunInterruptedError
from detector_bench.interruption import listen_for_stop

EXIT_MISTAKE = 1
EXIT_INTERRUPTED = 128 + signal.SIGINT
EXIT_STATUS = (
    "Exit status: 0 if all went well; 1 for a mistake that one line tells, or if a check finds something wrong; "
    "2 for a wrong call; 130 if interrupted, with everything kept that was done."
)


COMMANDS: dict[str, str | CommandGroup] = {
    "audit": ".cli.audit:audit",
    "run": ".cli.studies:run",
    "shards": ".cli.shards:shards",
    "spending": ".cli.spending:spending",
    "evaluate": ".cli.studies:evaluate",
    "estimate": ".cli.estimate:estimate",
    "plan": ".cli.plan:plan",
    "compare": ".cli.analyses:compare",
    "rank": ".cli.analyses:rank",
    "causes": ".cli.analyses:causes",
    "sweep": ".cli.analyses:sweep",
    "calibrate": ".cli.calibrate:calibrate",
    "agreement": ".cli.analyses:agreement",
    "search": ".cli.search:search",
    "figures": ".cli.publishing:figures",
    "report": ".cli.publishing:report",
    "verify": ".cli.proof:verify",
    "pack": ".cli.proof:pack",
    "quickstart": ".cli.studies:quickstart",
    "check": ".cli.image_sets:check",
    "import": ".cli.image_sets:import_",
    "sample": ".cli.sample:sample",
    "label": ".cli.label:label",
    "labels": CommandGroup(
        "Labels of the labelling desk: export, import, agreement of its annotators.",
        {
            "export": ".cli.labels:export",
            "import": ".cli.labels:import_",
            "agreement": ".cli.labels:agreement",
        },
    ),
    "prompts": ".cli.prompts:prompts",
    "taxonomies": ".cli.detectors:taxonomies",
    "detectors": ".cli.detectors:detectors",
    "conformance": ".cli.detectors:conformance",
    "weights": CommandGroup(
        "Weights files: list them, download them, add those that you have, verify them.",
        {
            "list": ".cli.weights:list_",
            "fetch": ".cli.weights:fetch",
            "add": ".cli.weights_add:add",
            "verify": ".cli.weights:verify",
        },
    ),
    "trust": CommandGroup(
        "What studies of others may do on this machine: keys and their hosts, code of checkpoints.",
        {
            "list": ".cli.trust:list_",
            "key": ".cli.trust:key",
            "host": ".cli.trust:host",
            "code": ".cli.trust:code",
            "remove": ".cli.trust:remove",
        },
    ),
}
"""All but those that other benchmarks bring along."""

_HELP = {"help_option_names": ["-h", "--help"]}


class _LazyGroup(TyperGroup):
    """A group of commands whose modules are imported when they are asked for.

    Args:
        declared: commands by name; None: all that there are.
        package: what targets that begin with a dot begin with.
        settings: those of Typer.
    """

    def __init__(
        self, *, declared: Mapping[str, Any] | None = None, package: str = "detector_bench", **settings: Any
    ) -> None:
        super().__init__(**settings)
        self._is_whole = declared is None
        found = COMMANDS if declared is None else declared
        self._declared = {name: (target, package) for name, target in found.items()}
        # Typer looks for the nearest names here.
        self.commands = dict.fromkeys(self._declared)  # type: ignore[assignment]

    def list_commands(self, ctx: object) -> list[str]:  # noqa: ARG002 - as Typer calls it
        if self._is_whole:
            for each in benchmarks():
                for name, target in each.commands.items():
                    self._declared.setdefault(name, (target, each.package))
                    self.commands.setdefault(name, None)  # type: ignore[arg-type]
        return list(self._declared)

    def get_command(self, ctx: object, cmd_name: str) -> Any:
        if cmd_name in self._declared or cmd_name in self.list_commands(ctx):
            if self.commands[cmd_name] is None:
                self.commands[cmd_name] = _made(cmd_name, *self._declared[cmd_name])
            return self.commands[cmd_name]
        return None


def _made(name: str, declared: Any, package: str) -> Any:
    """The command that a function, a target or a group stands for."""
    if isinstance(declared, CommandGroup):
        example = f"detector-bench {name} {next(iter(declared.commands))} --help"
        return _LazyGroup(
            name=name,
            declared=declared.commands,
            package=package,
            help=f"{declared.about}\n\nExample: `{example}`",
            no_args_is_help=True,
            rich_markup_mode="markdown",
            context_settings=_HELP,
        )
    if isinstance(declared, str):
        module, _, function = declared.partition(":")
        declared = getattr(import_module(module, package), function)
    alone = typer.Typer(add_completion=False, rich_markup_mode="markdown", context_settings=_HELP)
    alone.command(name)(declared)
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
    listen_for_stop()
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
