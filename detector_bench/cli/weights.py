"""`weights list`, `weights verify` and `weights fetch`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import DownloadColumn, Progress, TaskID, TransferSpeedColumn

from detector_bench.cli import options
from detector_bench.cli.chosen_detector import studied
from detector_bench.cli.console import command, errors, output
from detector_bench.errors import ConfigError, WeightsError, nearest_hint

if TYPE_CHECKING:
    from detector_bench.weights import Weights, WeightsLocator


@command
def list_(*, study_file: options.StudyOption = None, weights_dir: options.WeightsDir = None) -> None:
    """Show every known weights file: licence, sha256, source, and where it lies on this machine.

    Of a network with side files, and of a checkpoint, every file that counts, pinned or as it was found.

    Examples: `detector-bench weights list --weights-dir weights`, `detector-bench weights list --study lyu2025`
    """
    from detector_bench.weights.locate import missing_message

    files, locator = _known(study_file, weights_dir)
    for file in files.values():
        found = locator.find(file)
        facts = {
            "found": str(found) if found is not None else f"no: {missing_message(file)}",
            "licence": file.licence,
            "source": file.source,
            "sha256": _pins(file),
        }
        if found is not None and (unpinned := _unpinned(file, found, locator)):
            facts["not pinned"] = "\n".join(unpinned)
        output.record(file.name, facts, table="weights", good=found is not None)


@command
def verify(
    names: Annotated[list[str] | None, typer.Argument(help="File names; all that are found by default.")] = None,
    *,
    study_file: options.StudyOption = None,
    weights_dir: options.WeightsDir = None,
) -> None:
    """Compare weights files with their pinned sha256. Exit status 1 if one differs or a named one is missing.

    Side files of a network, and files of a checkpoint, are compared one by one; what is not pinned of a checkpoint
    in the Hugging Face hub's cache, with the names that the cache has for content.

    Example: `detector-bench weights verify --weights-dir weights`
    """
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
        list[str] | None, typer.Argument(help="Names; by default all single files, or all that the study needs.")
    ] = None,
    *,
    study_file: options.StudyOption = None,
    weights_dir: options.WeightsDir = None,
) -> None:
    """Download weights into the cache; resumes, and keeps nothing that has not the pinned sha256.

    Checkpoints from the Hugging Face hub, which have gigabytes, come only by name or with a study.

    Examples: `detector-bench weights fetch yunet.onnx`,
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

    if not file.downloadable and locator.find(file) is None:
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
    from detector_bench.weights import CATALOGUE, WeightsLocator

    files: dict[str, Weights] = dict(CATALOGUE)
    locator = WeightsLocator.from_environment(weights_dir=weights_dir)
    if study_file is not None:
        study, locator = studied(study_file, weights_dir=weights_dir)
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
    for name in names or []:
        if name not in files:
            raise ConfigError(f"unknown weights file {name!r}: {nearest_hint(name, files)}")
    return [files[name] for name in names] if names else list(files.values())


def _pins(file: Weights) -> str:
    if isinstance(file.sha256, str) and len(file.pins) == 1:
        return file.sha256
    return "\n".join(f"{pin} {name}" for name, pin in file.pins.items()) or "not pinned"


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
