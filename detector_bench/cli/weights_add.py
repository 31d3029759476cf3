"""`weights add`: files that the user has, recognised and put where they are found."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from detector_bench.cli import options
from detector_bench.cli.console import command, output
from detector_bench.errors import DetectorBenchError, WeightsError

if TYPE_CHECKING:
    from detector_bench.weights import Weights, WeightsLocator
    from detector_bench.weights.recognition import Recognised


@command
def add(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Files, or folders with a checkpoint.")],
    *,
    known_name: Annotated[
        str | None, typer.Option("--as", metavar="NAME", help="What it is, where its content does not tell.")
    ] = None,
    link: Annotated[bool, typer.Option("--link", help="Link to the files in place of copying them.")] = False,
    weights_dir: options.WeightsDir = None,
) -> None:
    """Recognise files of weights by what they hold, and put them where they are found.

    A file is known by its sha256, or by the names and shapes of its tensors, whatever it is called; nothing of it
    is run. It goes into --weights-dir, else into the first folder of DETECTOR_BENCH_WEIGHTS, else into the cache.
    What is not known is described and left alone. Exit status 1 if a file was not added.

    Examples: `detector-bench weights add ~/Downloads/fairface_alldata_20191111.pt`,
    `detector-bench weights add fair.pt --as res34_fair_align_multi_7_20190809.pt --weights-dir weights`
    """
    from detector_bench.weights import WeightsLocator
    from detector_bench.weights.recognition import recognise

    locator = WeightsLocator.from_environment(weights_dir=weights_dir)
    added: list[Weights] = []
    for path in files:
        try:
            found = recognise(path)
            if (file := _meant(found, path, known_name)) is not None:
                _put(path, file, locator, link=link, what=found.what)
                added.append(file)
        except WeightsError as error:
            _tell("failed", path, str(error), style="red")
    if added:
        _tell_detectors(added, locator)
    if len(added) < len(files):
        raise typer.Exit(1)


def _meant(found: Recognised, path: Path, known_name: str | None) -> Weights | None:
    """What a file is added as; None, and a line, where it is not."""
    names = [each.name for each in found.meant]
    if known_name is not None:
        chosen = [each for each in found.meant if known_name == each.name]
        if not chosen:
            may_be = f"may be {' or '.join(names)}" if names else "is none of the known files"
            raise WeightsError(f"it is {found.what}: it {may_be}, not {known_name!r}")
        return chosen[0]
    if len(names) == 1:
        return found.meant[0]
    if names:
        _tell("not added", path, f"{found.what}; say which it is: --as {' or --as '.join(names)}")
    else:
        _tell("unknown", path, f"{found.what}; not added: a study can name it as it is")
    return None


def _put(path: Path, file: Weights, locator: WeightsLocator, *, link: bool, what: str) -> None:
    from detector_bench.weights.adding import place_of, put

    place = place_of(file, path, locator.folders[0] if locator.folders else locator.cache)
    is_new = put(path, place, link=link)
    _tell("added" if is_new else "here", path, f"{what}: {place}")
    if (wrong := locator.lacking(file)) is not None:
        _tell("but", path, wrong)


def _tell_detectors(added: list[Weights], locator: WeightsLocator) -> None:
    """Which registered detectors read what was added, and what each of them still lacks."""
    from detector_bench.detectors import DETECTORS, build_detector
    from detector_bench.perception.stage import with_inputs
    from detector_bench.runner.readiness import lacking

    for name in DETECTORS.names():
        try:
            if DETECTORS.get(name).needs_parameters:
                continue
            detector = build_detector(name)
        except DetectorBenchError:
            continue  # broken or without its packages: `detectors` says so
        weights = [file for stage in with_inputs(detector.stages) for file in stage.weights()]
        if not any(file in added for file in weights):
            continue
        missing = lacking(detector, weights=locator)
        absent = dict.fromkeys(file.name for file in weights if locator.find(file) is None)
        if not missing and absent:
            missing = [f"first: detector-bench weights fetch {' '.join(absent)}"]
        verdict = "not yet" if missing else "ready"
        details = "; ".join(missing) or "its packages and weights are here"
        text = f"{verdict:<9} {name}: {details}"
        output.row(text, table="detectors", verdict=verdict, name=name, details=details)


def _tell(verdict: str, path: Path, details: str, *, style: str = "") -> None:
    text = f"{verdict:<9} {path}: {details}"
    output.row(text, style=style, table="added", verdict=verdict, file=str(path), details=details)
