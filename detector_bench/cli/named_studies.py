"""`studies`: those that come along, and a copy of one to edit."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from detector_bench.cli import options
from detector_bench.cli.chosen_detector import studied
from detector_bench.cli.completion import complete_studies
from detector_bench.cli.console import command, output
from detector_bench.errors import DetectorBenchError

if TYPE_CHECKING:
    from detector_bench.named_studies import NamedStudy


@command
def list_(*, weights_dir: options.WeightsDir = None) -> None:
    """List the studies that come along: what each is, its attributes and detectors, and which of these are ready.

    Their names stand in the place of a study file: `run lyu2025 --image-set my_images --out results/mine`. A file
    of the same name wins. The word `list` may be left out.

    Examples: `detector-bench studies`, `detector-bench studies list --weights-dir weights`
    """
    from detector_bench.named_studies import named_studies

    for study in named_studies().values():
        _print(study, weights_dir)


def _print(study: NamedStudy, weights_dir: Path | None) -> None:
    from detector_bench.runner.readiness import detector_readiness

    try:
        found, locator = studied(study.path, weights_dir=weights_dir)
        ready = {each.name: detector_readiness(each, weights=locator) for each in found.build_detectors()}
    except DetectorBenchError as error:
        output.record(study.name, {"problem": str(error)}, table="studies", summary=study.about, good=False)
        return
    here = [name for name, each in ready.items() if each.ready]
    fetched = [name for name, each in ready.items() if not each.lacking and each.to_fetch]
    lacking = [name for name, each in ready.items() if each.lacking]
    call = (
        f"detector-bench run {study.name}"
        + ("" if study.makes_images else " --image-set my_images")
        + " --out results"
    )
    facts = {
        "attributes": ", ".join(found.attributes),
        "detectors": ", ".join(ready),
        "ready": ", ".join(here) or "none",
        "to fetch": ", ".join(fetched),
        "lacking": ", ".join(lacking),
        "images": "made when it runs" if study.makes_images else "yours: --image-set DIR",
        "run": call,
    }
    output.record(study.name, facts, table="studies", summary=study.about, good=len(here) == len(ready))


@command
def copy(
    name: Annotated[
        str,
        typer.Argument(metavar="NAME", help="A study that comes along.", autocompletion=complete_studies),
    ],
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE.yaml", help="Where to; by default NAME.yaml, here.")
    ] = None,
) -> None:
    """Write a study that comes along, to edit it: the file, what it extends, and what it reads.

    It works where it lies. Refuses to write over anything.

    Examples: `detector-bench studies copy lyu2025`, `detector-bench studies copy quickstart mine/first.yaml`
    """
    from detector_bench.named_studies import copy_study, named_studies

    first, *others = copy_study(name, file)
    output.row(f"Wrote {first}", table="files", file=first)
    for each in others:
        output.row(f"Wrote {each}", table="files", file=each)
    if not named_studies()[name].makes_images:
        output.say("Its images: write their folder behind `image_set`, or name it with --image-set.")
