"""`imagebite check`, `imagebite checks` and `reproduce imagebite`."""

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


@command
def checks(
    image_set: Annotated[Path, typer.Argument(metavar="IMAGE_SET", help="Folder with images.csv.")],
) -> None:
    """Write ImageBiTe's nineteen generic checks into an image set, as attributes of its own: passed or not passed.

    A judge answers them with `preset: imagebite_checks`, annotators in the desk. Files that are there stay as they
    are.

    Example: `detector-bench imagebite checks my_images`
    """
    from detector_bench.others.imagebite.generic_checks import CHECKS, write_checks

    written = write_checks(image_set)
    for check_name in CHECKS:
        state = "written" if check_name in written else "there already"
        output.row(f"{check_name}: {state}", table="checks", name=check_name, written=check_name in written)


@command
def reproduce(
    folder: Annotated[
        Path | None,
        typer.Argument(metavar="FOLDER", help="ImageBiTe's program, or its templates and example input."),
    ] = None,
    *,
    only_differences: Annotated[
        bool, typer.Option("--only-differences", help="Print only what does not match.")
    ] = False,
    out: options.OptionalOut = None,
) -> None:
    """Recompute what can be recomputed of ImageBiTe, and say of the rest why it cannot.

    From its text alone, its running example; with the folder of its program, its templates, and its verdicts on
    every way in which the images of its example input can turn out, beside ours.

    Examples: `detector-bench reproduce imagebite`, `detector-bench reproduce imagebite ImageBiTe`
    """
    from detector_bench.cli.claims import show_claims
    from detector_bench.others.imagebite.reproduction import ReleasedExample, out_of_reach, text_findings
    from detector_bench.others.recomputed import claims_table

    findings = text_findings()
    if folder is not None:
        findings += ReleasedExample.find(folder).findings()
    table = claims_table(
        findings,
        out_of_reach(has_folder=folder is not None),
        name="imagebite_reproduction",
        caption="ImageBiTe: published numbers, and what follows from its text"
        + ("." if folder is None else " and its released files."),
        attribute="gender, race and age",
    )
    show_claims(table, findings, only_differences=only_differences, out=out)
