"""`environments list`, `environments make` and `environments remove`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from detector_bench.cli.console import command, output
from detector_bench.errors import ConfigError
from detector_bench.isolated.adapters import ADAPTERS
from detector_bench.isolated.environments import (
    OWN_VERSION,
    PYTHON_VERSION,
    Environment,
    check_requirements,
    environments_folder,
    made_environments,
    remove_environment,
    requirement_lines,
)


@command
def list_() -> None:
    """The Python environments that are made on this machine, and the adapters that have one to be made.

    Example: `detector-bench environments list`
    """
    made = {each.folder.name: each for each in made_environments()}
    names = {adapter.environment.id: name for name, adapter in ADAPTERS.items()}
    for name, found in made.items():
        requirements = ", ".join(found.mark.get("requirements", []))
        python, size = found.mark.get("python", ""), found.bytes
        text = f"{name}  Python {python}, {size / 1e6:,.0f} MB: {requirements}"
        facts: dict[str, Any] = {
            "id": name,
            "made": True,
            "python": python,
            "bytes": size,
            "requirements": requirements,
        }
        output.row(text, table="environments", adapter=names.get(name, ""), **facts)
    for adapter in ADAPTERS.values():
        environment = adapter.environment
        if environment.id not in made:
            requirements = ", ".join(environment.requirements)
            text = f"{environment.id}  not made; detector-bench environments make {adapter.name}: {requirements}"
            facts = {"id": environment.id, "made": False, "python": environment.python_version, "bytes": 0}
            output.row(text, table="environments", adapter=adapter.name, **facts, requirements=requirements)
    output.say(f"Environments lie in {environments_folder()}.")


@command
def make(
    requirements: Annotated[
        list[str],
        typer.Argument(
            metavar="REQUIREMENT...",
            help=f"Packages as pip reads them, a requirements file (.txt), or an adapter: {', '.join(ADAPTERS)}.",
        ),
    ],
    python_version: Annotated[
        str | None,
        typer.Option("--python-version", metavar="VERSION", help="Such as 3.10; by default this Python's own."),
    ] = None,
) -> None:
    """Make a Python environment for detectors that run in a process of their own, unless it is there already.

    Packages are installed with uv where it is found, else with venv and pip, into the user's cache folder; that
    runs code of the packages with your rights. A study that names the same requirements, in the same order, then
    runs with it, without a network.

    Examples: `detector-bench environments make deepface`,
    `detector-bench environments make 'numpy<2' onnxruntime==1.17.3 --python-version 3.11`
    """
    environment = _environment(requirements, python_version)
    made = environment.make(output.say)
    state = "made" if made else "there already"
    text = f"{environment.id}  {state}: {', '.join(environment.requirements)}"
    facts: dict[str, Any] = {"id": environment.id, "made_now": made, "python": environment.python_version}
    output.row(text, table="environments", **facts, folder=str(environment.folder))


def _environment(given: list[str], version: str | None) -> Environment:
    import re

    if version is not None and not re.fullmatch(PYTHON_VERSION, version):
        raise ConfigError(f"--python-version: {version!r} is no version (accepted: such as 3.10)")
    if len(given) == 1 and given[0] in ADAPTERS:
        adapter = ADAPTERS[given[0]]
        return Environment(adapter.requirements, version or adapter.python_version)
    place = "requirements"
    try:
        if len(given) == 1 and given[0].endswith(".txt"):
            place = given[0]
            given = list(requirement_lines(Path(place).read_text(encoding="utf-8")))
        return Environment(check_requirements(given), version or OWN_VERSION)
    except (OSError, ValueError) as error:
        raise ConfigError(f"{place}: {error}") from error


@command
def remove(
    name: Annotated[str, typer.Argument(metavar="ID", help="The beginning of its id, as `list` shows it.")],
) -> None:
    """Remove an environment with all its packages.

    Example: `detector-bench environments remove 3f9c`
    """
    found = remove_environment(name)
    requirements = ", ".join(found.mark.get("requirements", []))
    output.row(f"{found.folder.name} is removed: {requirements}", table="environments", id=found.folder.name)
