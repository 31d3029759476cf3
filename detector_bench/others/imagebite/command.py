"""`imagebite`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from detector_bench.cli.console import output, print_record

if TYPE_CHECKING:
    from detector_bench.errors import Problem
    from detector_bench.others.imagebite.requirements import Requirement

app = typer.Typer(
    help="ImageBiTe's requirements.\n\nExample: `detector-bench imagebite check input.json`",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)


@app.callback()
def _imagebite() -> None:
    pass


@app.command("check")
def check(
    requirements: Annotated[Path, typer.Argument(metavar="INPUT.json", help="ImageBiTe's input file.")],
    *,
    community: Annotated[
        list[str] | None,
        typer.Option(
            "--community",
            metavar="NAME=CLASSES",
            help="Classes that stand for a community, with commas between, `others`, or nothing; may be repeated.",
        ),
    ] = None,
    concern: Annotated[
        list[str] | None,
        typer.Option(
            "--concern", metavar="NAME=ATTRIBUTE", help="Our attribute of an ethical concern; may be repeated."
        ),
    ] = None,
) -> None:
    """Show what an input file asks for as it is understood here, and every mistake in it.

    Exit status 1 if there is a mistake, or nothing that a detector could judge.

    Example: `detector-bench imagebite check input.json --community ambiguous=others`
    """
    from detector_bench.others.imagebite.requirements import check_requirements

    communities = {
        name: tuple(word.strip() for word in words.split(",") if word.strip())
        for name, words in (_pair(text, "--community") for text in community or ())
    }
    concerns = dict(_pair(text, "--concern") for text in concern or ())
    found = check_requirements(requirements, communities=communities, concerns=concerns)
    for requirement in found.requirements:
        _print_requirement(requirement)
    _print_problems("warning", found.warnings)
    _print_problems("mistake", found.problems)
    if found.problems or not found.requirements:
        raise typer.Exit(1)


def _pair(text: str, option: str) -> tuple[str, str]:
    from detector_bench.errors import ConfigError

    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise ConfigError(f"{option}: {text!r} (accepted: NAME=VALUE)")
    return name.strip(), value.strip()


def _print_requirement(requirement: Requirement) -> None:
    facts = {"rationale": requirement.rationale, "stereotyped above": f"{requirement.threshold:g}"}
    for community in requirement.communities:
        expected = f"{community.expected:g} \N{PLUS-MINUS SIGN} {community.delta:g}"
        facts[community.name] = f"{expected}: {community.meaning}"
    print_record(
        requirement.name, facts, summary=f"{requirement.ethical_concern}, judged as {requirement.attribute}"
    )


def _print_problems(kind: str, problems: tuple[Problem, ...]) -> None:
    if problems:
        count = len(problems)
        heading = f"{count} {kind}{'' if count == 1 else 's'}:"
        lines = [heading, *(f"  {problem}" for problem in problems)]
        output.print("\n".join(lines), markup=False, highlight=False, soft_wrap=True)
