"""Puts the commands together, and turns errors into one line and an exit status."""

from __future__ import annotations

import signal
import sys
from collections.abc import Mapping
from dataclasses import replace
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
    "generate": ".cli.generate:generate",
    "generations": CommandGroup(
        "What became of each request of an image set: all of them, one of them, one made again.",
        {
            "list": ".cli.generations:list_",
            "show": ".cli.generations:show",
            "remake": ".cli.generations:remake",
        },
    ),
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
    "export": CommandGroup(
        "Image sets and studies for other tools: Hugging Face, FiftyOne, COCO, JSON lines. Label Studio's form is "
        "`labels export --format label-studio`.",
        {
            "huggingface": ".cli.export:huggingface",
            "fiftyone": ".cli.export:fiftyone",
            "coco": ".cli.export:coco",
            "jsonl": ".cli.export:jsonl",
        },
    ),
    "card": ".cli.card:card",
    "halves": ".cli.halves:halves",
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
    "taxonomies": ".cli.taxonomies:taxonomies",
    "studies": CommandGroup(
        "The studies that come along: list them, copy one to edit. `studies` alone lists them.",
        {"list": ".cli.named_studies:list_", "copy": ".cli.named_studies:copy"},
        without="list",
    ),
    "recipes": CommandGroup(
        "The recipes that come along: list them, show one in full, copy one to edit. `recipes` alone lists them.",
        {"list": ".cli.recipes:list_", "show": ".cli.recipes:show", "copy": ".cli.recipes:copy"},
        without="list",
    ),
    "detectors": CommandGroup(
        "Detectors: what there are, a new one, one step by step on a picture, and whether one is sound. "
        "`detectors` alone lists them, `detectors NAME` shows one.",
        {
            "list": ".cli.detectors:list_",
            "new": ".cli.detectors_new:new",
            "try": ".cli.detectors_try:try_",
            "check": ".cli.detectors_check:check",
        },
        without="list",
    ),
    "conformance": ".cli.detectors_check:conformance",
    "weights": CommandGroup(
        "Weights files: list them, download them, add those that you have, verify them.",
        {
            "list": ".cli.weights:list_",
            "fetch": ".cli.weights:fetch",
            "add": ".cli.weights_add:add",
            "verify": ".cli.weights:verify",
        },
    ),
    "environments": CommandGroup(
        "Python environments of detectors that run in a process of their own: list, make, remove.",
        {
            "list": ".cli.environments:list_",
            "make": ".cli.environments:make",
            "remove": ".cli.environments:remove",
        },
    ),
    "trust": CommandGroup(
        "What studies of others may do on this machine: keys and their hosts, code, other Pythons.",
        {
            "list": ".cli.trust:list_",
            "key": ".cli.trust:key",
            "host": ".cli.trust:host",
            "code": ".cli.trust:code",
            "python": ".cli.trust:python",
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
        without: the command that is called where the first word is none of them.
        settings: those of Typer.
    """

    def __init__(
        self,
        *,
        declared: Mapping[str, Any] | None = None,
        package: str = "detector_bench",
        without: str = "",
        **settings: Any,
    ) -> None:
        super().__init__(**settings)
        self._without = without
        self._is_whole = declared is None
        self._joined: set[str] = set()
        found = COMMANDS if declared is None else declared
        self._declared = {name: (target, package) for name, target in found.items()}
        # Typer looks for the nearest names here.
        self.commands = dict.fromkeys(self._declared)  # type: ignore[assignment]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        known = {*self._declared, *_HELP["help_option_names"]}
        # A shell that completes the first word may mean either; see `shell_complete`.
        if self._without and (args[0] not in known if args else not ctx.resilient_parsing):
            args = [self._without, *args]
        return super().parse_args(ctx, args)

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        """Its commands, and what the one that may be left out would complete."""
        found = list(super().shell_complete(ctx, incomplete))
        if self._without:
            command = self.get_command(ctx, self._without)
            with command.make_context(self._without, [], parent=ctx, resilient_parsing=True) as own:
                for argument in command.params:
                    if argument.param_type_name == "argument":
                        found += argument.shell_complete(own, incomplete)
                        break
        return found

    def list_commands(self, ctx: object) -> list[str]:  # noqa: ARG002 - as Typer calls it
        if self._is_whole:
            for each in benchmarks():
                if each.package in self._joined:
                    continue
                self._joined.add(each.package)
                for name, target in each.commands.items():
                    present = self._declared.get(name, (None, ""))
                    self._declared[name] = _with_those_of(present, target, each.package)
                    self.commands.setdefault(name, None)  # type: ignore[arg-type]
        return list(self._declared)

    def get_command(self, ctx: object, cmd_name: str) -> Any:
        if cmd_name in self._declared or cmd_name in self.list_commands(ctx):
            if self.commands[cmd_name] is None:
                self.commands[cmd_name] = _made(cmd_name, *self._declared[cmd_name])
            return self.commands[cmd_name]
        return None


def _with_those_of(present: tuple[Any, str], added: Any, package: str) -> tuple[Any, str]:
    """What stands for a name that one more benchmark declares: of two groups, one with the commands of both; else
    what was there first."""
    first, of_first = present
    if first is None:
        return added, package
    if not (isinstance(first, CommandGroup) and isinstance(added, CommandGroup)):
        return present
    commands = {**_absolute(added.commands, package), **_absolute(first.commands, of_first)}
    return replace(first, commands=dict(sorted(commands.items()))), of_first


def _absolute(commands: Mapping[str, Any], package: str) -> dict[str, Any]:
    return {
        name: f"{package}{target}" if isinstance(target, str) and target.startswith(".") else target
        for name, target in commands.items()
    }


def _made(name: str, declared: Any, package: str) -> Any:
    """The command that a function, a target or a group stands for."""
    if isinstance(declared, CommandGroup):
        example = f"detector-bench {name} {next(iter(declared.commands))} --help"
        return _LazyGroup(
            name=name,
            declared=declared.commands,
            package=package,
            without=declared.without,
            help=f"{declared.about}\n\nExample: `{example}`",
            no_args_is_help=not declared.without,
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
