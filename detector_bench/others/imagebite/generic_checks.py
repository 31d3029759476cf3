"""ImageBiTe's generic checks in an image set: an attribute of its own each."""

from __future__ import annotations

from pathlib import Path

from detector_bench.detectors.generic_checks import CHECKS, check_attribute
from detector_bench.errors import ConfigError
from detector_bench.vocabulary.attribute_files import ATTRIBUTE_FOLDER, write_attributes

__all__ = ["CHECKS", "write_checks"]


def write_checks(image_set: Path) -> tuple[str, ...]:
    """Write `attributes/check_*.yaml` into an image set; files that are there stay as they are.

    Returns:
        The names of the attributes that were written.

    Raises:
        ConfigError: there is no such folder, or no image set in it.
    """
    tables = ("images.csv", "images.parquet", "images")
    if not any((image_set / name).exists() for name in tables):
        raise ConfigError(f"{image_set}: no image set: there is no images.csv in it")
    folder = image_set / ATTRIBUTE_FOLDER
    missing = tuple(name for name in CHECKS if not (folder / f"{name}.yaml").exists())
    write_attributes((check_attribute(name) for name in missing), image_set)
    return missing
