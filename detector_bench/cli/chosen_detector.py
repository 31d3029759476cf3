"""The one detector that a command is about: registered, of a study, or described in a file of its own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from detector_bench.cli.console import output

if TYPE_CHECKING:
    from detector_bench.detectors.base import Detector
    from detector_bench.study_configuration import StudyConfiguration
    from detector_bench.weights import WeightsLocator


def chosen(name: str, *, study_file: Path | None, weights_dir: Path | None) -> tuple[Detector, WeightsLocator]:
    """The detector, and where its weights are looked for.

    Args:
        name: a registered name; of a detector of the study; or a YAML file that describes one detector.
        study_file: a study file, or the name of a study that comes along.
        weights_dir: as `--weights-dir`.

    Raises:
        ConfigError: there is no such detector, or its parameters are wrong.
    """
    from detector_bench.detector_kit import described_detector, is_description
    from detector_bench.detectors import build_detector
    from detector_bench.weights import WeightsLocator

    if study_file is not None:
        study, locator = studied(study_file, weights_dir=weights_dir)
        (entry,) = study.with_detectors(only=[name]).detectors
        # Not all of the study's: what one of the others lacks does not matter here.
        return build_detector(entry.kind, name=entry.name, parameters=entry.parameters), locator
    if is_description(name):
        beside = WeightsLocator.from_environment(weights_dir=weights_dir, beside=Path(name).parent)
        return described_detector(Path(name)), beside
    return build_detector(name), WeightsLocator.from_environment(weights_dir=weights_dir)


def say_what_is_fetched(detector: Detector, weights: WeightsLocator) -> None:
    """Say what is about to be downloaded, and how much, before that begins."""
    from detector_bench.runner.readiness import detector_readiness

    found = detector_readiness(detector, weights=weights)
    if found.to_fetch and not found.lacking:
        output.warn(f"{detector.name}: {found}", style="")


def studied(study_file: Path, *, weights_dir: Path | None) -> tuple[StudyConfiguration, WeightsLocator]:
    """A study, and where its weights are looked for.

    Raises:
        ConfigError: the study file is missing or wrong.
    """
    # Not `Study`: evaluation and tables take as long to import as all else here.
    from detector_bench.study_configuration import StudyConfiguration

    say_if_passed_over(study_file)
    study = StudyConfiguration.from_yaml(study_file)
    return study, study.locator(weights_dir=weights_dir)


def say_if_passed_over(study_file: Path) -> None:
    """Say that a file was taken where a study of its name comes along, too."""
    from detector_bench.named_studies import is_passed_over

    if is_passed_over(study_file):
        output.warn(
            f"{str(study_file)!r} is a file here and a study that comes along: the file is taken; from another "
            "folder the name means the study",
            style="",
        )
