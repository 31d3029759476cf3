"""`weights list`, `weights verify` and `weights fetch`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import DownloadColumn, Progress, TaskID, TransferSpeedColumn

from detector_bench.cli.console import errors, output, print_record
from detector_bench.errors import ConfigError, WeightsError, nearest_hint

if TYPE_CHECKING:
    from detector_bench.weights import Weights, WeightsLocator

app = typer.Typer(help="Weights files: list them, verify their sha256, download them.", no_args_is_help=True)
StudyOption = Annotated[
    Path | None, typer.Option("--study", metavar="STUDY.yaml", help="Also the weights that this study names.")
]
WeightsDir = Annotated[
    Path | None, typer.Option("--weights-dir", metavar="DIR", help="Folder with weights files.")
]


@app.command("list")
def list_(*, study_file: StudyOption = None, weights_dir: WeightsDir = None) -> None:
    """Show every known weights file: licence, sha256, source, and where it lies on this machine.

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
            "sha256": _pins(file),
        }
        print_record(file.name, facts, good=found is not None)


@app.command()
def verify(
    names: Annotated[list[str] | None, typer.Argument(help="File names; all that are found by default.")] = None,
    *,
    study_file: StudyOption = None,
    weights_dir: WeightsDir = None,
) -> None:
    """Compare weights files with their pinned sha256. Exit status 1 if one differs or a named one is missing.

    Example: `detector-bench weights verify --weights-dir weights`
    """
    files, locator = _known(study_file, weights_dir)
    wrong = 0
    for file in _chosen(files, names):
        found = locator.find(file)
        if found is None:
            wrong += names is not None
            output.print(f"missing   {file.name}", highlight=False)
            continue
        try:
            locator.locate(file)
        except WeightsError as error:
            wrong += 1
            output.print(f"[red]wrong[/red]     {file.name}: {error}", highlight=False, soft_wrap=True)
        else:
            verdict = "right" if file.sha256 else "unpinned"
            output.print(f"{verdict:<9} {file.name} ({found})", highlight=False, soft_wrap=True)
    if wrong:
        raise typer.Exit(1)


@app.command()
def fetch(
    names: Annotated[list[str] | None, typer.Argument(help="File names; by default all.")] = None,
    *,
    study_file: StudyOption = None,
    weights_dir: WeightsDir = None,
) -> None:
    """Download weights into the cache; resumes, and keeps nothing that has not the pinned sha256.

    Example: `detector-bench weights fetch yunet.onnx`
    """
    from detector_bench.weights.locate import missing_message

    files, locator = _known(study_file, weights_dir)
    failed = 0
    with Progress(*Progress.get_default_columns(), DownloadColumn(), TransferSpeedColumn(), console=errors) as bar:
        tasks: dict[str, TaskID] = {}

        def show(name: str, done: int, total: int | None) -> None:
            if name not in tasks:
                tasks[name] = bar.add_task(name, total=total)
            bar.update(tasks[name], completed=done, total=total)

        fetching = locator.reporting(show)
        for file in _chosen(files, names):
            found = locator.find(file)
            if found is None and not file.downloadable:
                if names is not None:
                    failed += 1
                    output.print(missing_message(file), highlight=False, soft_wrap=True)
                continue
            try:
                output.print(f"{file.name}: {fetching.locate(file)}", highlight=False, soft_wrap=True)
            except WeightsError as error:
                failed += 1
                output.print(f"[red]{file.name}[/red]: {error}", highlight=False, soft_wrap=True)
    if failed:
        raise typer.Exit(1)


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
            files.update({file.name: file for file in stage.weights()})
    return files, locator


def _chosen(files: dict[str, Weights], names: list[str] | None) -> list[Weights]:
    for name in names or []:
        if name not in files:
            raise ConfigError(f"unknown weights file {name!r}: {nearest_hint(name, files)}")
    return [files[name] for name in names] if names else list(files.values())


def _pins(file: Weights) -> str:
    if isinstance(file.sha256, str):
        return file.sha256
    return "\n".join(f"{pin} {name}" for name, pin in (file.sha256 or {}).items()) or "not pinned"
