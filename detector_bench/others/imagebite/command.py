"""`imagebite`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from detector_bench.cli import options
from detector_bench.cli.console import command, output

if TYPE_CHECKING:
    from detector_bench.errors import Problem
    from detector_bench.others.imagebite.requirements import Requirement


@command
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
        for name, words in options.pairs(community, option="--community", may_be_empty=True).items()
    }
    concerns = options.pairs(concern, option="--concern", may_be_empty=True)
    found = check_requirements(requirements, communities=communities, concerns=concerns)
    for requirement in found.requirements:
        _print_requirement(requirement)
    _print_problems("warning", found.warnings)
    _print_problems("mistake", found.problems)
    if found.problems or not found.requirements:
        raise typer.Exit(1)


def _print_requirement(requirement: Requirement) -> None:
    facts = {"rationale": requirement.rationale, "stereotyped above": f"{requirement.threshold:g}"}
    for community in requirement.communities:
        expected = f"{community.expected:g} \N{PLUS-MINUS SIGN} {community.delta:g}"
        facts[community.name] = f"{expected}: {community.meaning}"
    output.record(
        requirement.name,
        facts,
        table="requirements",
        summary=f"{requirement.ethical_concern}, judged as {requirement.attribute}",
    )


def _print_problems(kind: str, problems: tuple[Problem, ...]) -> None:
    if problems:
        count = len(problems)
        heading = f"{count} {kind}{'' if count == 1 else 's'}:"
        lines = [heading, *(f"  {problem}" for problem in problems)]
        output.row("\n".join(lines), table=f"{kind}s", problems=[str(problem) for problem in problems])
