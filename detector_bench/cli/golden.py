"""`weights verify --run`: does a detector say of some images what its authors' program said?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from detector_bench.cli.console import errors, output
from detector_bench.errors import ConfigError
from detector_bench.installation import resource

if TYPE_CHECKING:
    from detector_bench.conformance.golden import GoldenCheck, GoldenOutputs
    from detector_bench.study_file import DetectorEntry
    from detector_bench.weights import WeightsLocator

_FOLDER = "configs/golden"
TOLERANCE = 1e-3


def verify_outputs(
    name: str, *, study_file: Path | None, weights_dir: Path | None, images: Path | None, golden: Path | None
) -> None:
    """Judge the images of a golden file, tell the largest difference, and exit with 1 if that is too large."""
    from detector_bench.conformance.golden import GoldenOutputs, check_golden
    from detector_bench.detectors import build_detector

    entry, locator = _entry(name, study_file, weights_dir)
    expected = GoldenOutputs.read(golden or _shipped(entry.kind))
    if expected.detector != entry.kind:
        raise ConfigError(f"these golden outputs are of a {expected.detector!r}; {name!r} is a {entry.kind!r}")
    folder = _folder(images, expected)
    detector = build_detector(entry.kind, name=entry.name, parameters={**entry.parameters, **expected.parameters})
    with errors.status("judging"):
        found = check_golden(detector, expected, folder, weights=locator)
    _tell(name, found, expected)
    if not found.passed:
        raise typer.Exit(1)


def write_outputs(
    name: str, path: Path, *, study_file: Path | None, weights_dir: Path | None, images: Path | None
) -> None:
    """Write what a detector says of a folder's images as golden outputs."""
    from detector_bench.conformance.golden import golden_of
    from detector_bench.detectors import build_detector

    if images is None:
        raise ConfigError("--write-golden needs --images: the folder with the images to judge")
    entry, locator = _entry(name, study_file, weights_dir)
    detector = build_detector(entry.kind, name=entry.name, parameters=entry.parameters)
    with errors.status("judging"):
        found = golden_of(detector, _existing(images), tolerance=TOLERANCE, weights=locator)
    found.write(path)
    verdicts = sum(len(image.expected) for image in found.images)
    output.say(f"{path}: {verdicts} verdicts on {len(found.images)} images; tolerance {TOLERANCE:g}")


def _entry(name: str, study_file: Path | None, weights_dir: Path | None) -> tuple[DetectorEntry, WeightsLocator]:
    from detector_bench.detectors import DETECTORS
    from detector_bench.study_configuration import StudyConfiguration
    from detector_bench.study_file import DetectorEntry
    from detector_bench.weights import WeightsLocator

    if study_file is None:
        DETECTORS.get(name)
        return DetectorEntry(name=name, kind=name), WeightsLocator.from_environment(weights_dir=weights_dir)
    study = StudyConfiguration.from_yaml(study_file)
    (entry,) = study.with_detectors(only=[name]).detectors
    return entry, study.locator(weights_dir=weights_dir)


def _shipped(kind: str) -> Path:
    known = {path.stem: path for path in resource(_FOLDER).glob("*.yaml")}
    if kind not in known:
        raise ConfigError(
            f"no golden outputs of a {kind!r} come along (only of: {', '.join(sorted(known))}); name a file with "
            "--golden, or make one with --write-golden"
        )
    return known[kind]


def _folder(images: Path | None, expected: GoldenOutputs) -> Path:
    if images is None:
        raise ConfigError(f"name the folder with the images by --images; they come from {expected.images_from}")
    return _existing(images)


def _existing(folder: Path) -> Path:
    if not folder.is_dir():
        raise ConfigError(f"there is no folder {str(folder)!r}")
    return folder


def _tell(name: str, found: GoldenCheck, expected: GoldenOutputs) -> None:
    number = f"the largest difference is {found.largest:.2g}" if found.numbers else "no number to compare"
    accepted = f"accepted: {found.tolerance:g}"
    if found.passed:
        verdict, text = "right", f"{found.images} images, {found.numbers} numbers; {number} ({accepted})"
    else:
        where = f" ({found.where}; {accepted})" if found.numbers else ""
        verdict, text = "wrong", f"{found.images} images, {found.numbers} numbers; {number}{where}"
        if found.others:
            text += f"; {len(found.others)} others differ, first: {found.others[0]}"
    output.row(
        f"{verdict:<9} {name}: {text}",
        style="" if found.passed else "red",
        table="golden",
        verdict=verdict,
        name=name,
        images=found.images,
        numbers=found.numbers,
        largest=found.largest,
        where=found.where,
        others=list(found.others),
        tolerance=found.tolerance,
        source=expected.source,
    )
