"""The studies that come along: a name in the place of a study file, and a copy of one to edit."""

from __future__ import annotations

from pathlib import Path

from detector_bench.declarations import read_mapping
from detector_bench.errors import ConfigError
from detector_bench.named_files import NamedFile, NamedFiles, copy_named
from detector_bench.quickstart import build_image_set

_STUDIES = NamedFiles("study", "configs", ("image_set", "detectors"))
_QUICKSTART = "quickstart"
_IMAGES = "images"


class NamedStudy(NamedFile):
    """A study that comes along with the package."""

    @property
    def makes_images(self) -> bool:
        """Whether its images are made on the spot; of others they are to be named."""
        return self.name == _QUICKSTART

    def build_images(self, folder: Path) -> Path:
        """Make its image set in a folder, and return that.

        Raises:
            ConfigError: it brings none.
            MissingExtraError: a package whose pictures are needed is not installed.
        """
        if not self.makes_images:
            raise ConfigError(self.lacks_images)
        return build_image_set(folder)

    @property
    def lacks_images(self) -> str:
        """One line for whoever runs it without images."""
        made = "; detector_bench.build_image_set makes its own" if self.makes_images else ", it brings none"
        return (
            f"the study {self.name!r} needs images{made}: say with --image-set DIR which ones it is to judge (in "
            "Python: image_set=)"
        )


def named_studies() -> dict[str, NamedStudy]:
    """By name, all studies that come along."""
    return {name: NamedStudy(each.name, each.path) for name, each in _STUDIES.all().items()}


def named_study(given: Path | str) -> NamedStudy | None:
    """The study that comes along under this name; None: there is none, or a file of this name wins."""
    found = None if Path(given).is_file() else _STUDIES.of_name(given)
    return None if found is None else NamedStudy(found.name, found.path)


def is_passed_over(given: Path | str) -> bool:
    """Whether a study comes along under the name of this file, which wins."""
    return Path(given).is_file() and _STUDIES.of_name(given) is not None


def study_path(given: Path | str) -> Path:
    """The study file that is meant: a file, or a name of a study that comes along; see `NamedFiles.path_of`.

    Raises:
        ConfigError: there is neither.
    """
    return _STUDIES.path_of(given)


def copy_study(name: str, file: Path | None = None) -> list[Path]:
    """Write a study that comes along, to be edited, with all that it needs to work where it lies.

    Files that it extends or reads lie beside the copy, below the folders that it names; its images are called
    `images`, but for those of the quickstart, which are made.

    Args:
        name: of the study.
        file: where to; by default `NAME.yaml` in the working directory.

    Returns:
        What was written, the study file first.

    Raises:
        ConfigError: no such study, or something of it is there already: then nothing is written.
        MissingExtraError: a package whose pictures the quickstart needs is not installed.
    """
    study = NamedStudy(name, _STUDIES.required(name).path)
    images = str(read_mapping(study.path)["image_set"])
    return copy_named(
        study,
        file,
        what="study",
        call="studies copy",
        not_beside=["image_set"],
        edited=lambda text: (
            text if study.makes_images else text.replace(f"image_set: {images}", f"image_set: {_IMAGES}")
        ),
        made={Path(images): study.build_images} if study.makes_images else None,
    )
