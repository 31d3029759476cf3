"""A detector that a YAML file of its own describes: the mapping that may stand in a study, too."""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from detector_bench.declarations import read_mapping
from detector_bench.detectors.base import Detector, build_detector
from detector_bench.errors import ConfigError, config_error_from
from detector_bench.study_file import DetectorEntry, resolve_detector

_ENDINGS = (".yaml", ".yml")


def is_description(name: str) -> bool:
    """Whether this names a file that describes a detector, and not a registered detector."""
    return Path(name).suffix in _ENDINGS


def described_detector(file: Path) -> Detector:
    """Build the detector that a file describes; without a `name` it is called as the file is.

    Raises:
        ConfigError: no such file, a study in its place, or parameters that do not fit.
    """
    content = read_mapping(file, keys="`kind`")
    if "detectors" in content:
        raise ConfigError(f"{file} is a study: give the name of one of its detectors, and --study {file}")
    full = resolve_detector({"name": file.stem, **content}, folder=file.parent, place=str(file))
    try:
        entry = DetectorEntry.model_validate(full)
    except ValidationError as error:
        raise config_error_from(error, place=str(file), model=DetectorEntry) from error
    try:
        return build_detector(entry.kind, name=entry.name, parameters=entry.parameters)
    except ConfigError as error:
        raise ConfigError("\n".join(f"{file}: {line}" for line in str(error).splitlines())) from error
