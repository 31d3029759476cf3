"""The studies that come along: a name in the place of a study file, and a copy of one to edit.

One rule, `study_path`, turns what was given into a file, for the command line and for Python alike. A file of that
name wins over a study that comes along: nobody's own file is passed over in silence.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from detector_bench.atomic_files import write_text
from detector_bench.declarations import read_mapping
from detector_bench.errors import ConfigError, nearest_hint
from detector_bench.installation import resource
from detector_bench.quickstart import build_image_set

_FOLDER = "configs"
_QUICKSTART = "quickstart"
_IMAGES = "images"


@dataclass(frozen=True)
class NamedStudy:
    """A study that comes along with the package.

    Attributes:
        name: what stands in the place of a study file.
        path: its file, inside the installation.
    """

    name: str
    path: Path

    @property
    def about(self) -> str:
        """What it is: the first sentence of the remarks that its file begins with."""
        lines = self.path.read_text(encoding="utf-8").splitlines()
        remarks = []
        for line in lines:
            if not line.startswith("#") or not (text := line.lstrip("#").strip()):
                break
            remarks.append(text)
        return re.split(r"(?<=\.)(?<!al\.)\s", " ".join(remarks), maxsplit=1)[0]

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
    found = (NamedStudy(path.stem, path) for path in sorted(resource(_FOLDER).glob("*.yaml")))
    return {each.name: each for each in found if _is_study(read_mapping(each.path))}


def _is_study(content: Mapping[str, Any]) -> bool:
    return {"image_set", "detectors"} <= content.keys()


def named_study(given: Path | str) -> NamedStudy | None:
    """The study that comes along under this name; None: there is none, or a file of this name wins."""
    return None if Path(given).is_file() else _of_name(given)


def is_passed_over(given: Path | str) -> bool:
    """Whether a study comes along under the name of this file, which wins."""
    return Path(given).is_file() and _of_name(given) is not None


def _of_name(given: Path | str) -> NamedStudy | None:
    text = str(given)
    if Path(text).name != text or Path(text).suffix:
        return None
    # Not by way of all others: a name that is asked for should not be hindered by another's file.
    path = resource(_FOLDER) / f"{text}.yaml"
    return NamedStudy(text, path) if path.is_file() and _is_study(read_mapping(path)) else None


def study_path(given: Path | str) -> Path:
    """The study file that is meant: a file, or a name of a study that comes along; the file wins.

    A name has no folder and no ending: `lyu2025` is one, `./lyu2025` and `lyu2025.yaml` are files. A folder of the
    name, such as a result folder, does not count.

    Raises:
        ConfigError: there is neither.
    """
    path = Path(given)
    if path.is_file():
        return path
    study = _of_name(given)
    if study is not None:
        return study.path
    if path.exists() or path.name != str(given):
        return path  # reading it says what is wrong
    known = named_studies()
    if path.stem in known:
        raise ConfigError(f"there is no file {str(given)!r}; the study that comes along is called {path.stem}")
    if path.suffix:
        return path
    raise ConfigError(
        f"there is no file {str(given)!r}, and no study of this name: {nearest_hint(str(given), known)}"
    )


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
    known = named_studies()
    if name not in known:
        raise ConfigError(f"no study {name!r} comes along: {nearest_hint(name, known)}")
    study = known[name]
    file = Path(f"{name}.yaml") if file is None else file
    if file.suffix not in (".yaml", ".yml"):
        raise ConfigError(f"{str(file)!r} is not the name of a study file (accepted: FILE.yaml)")
    text = study.path.read_text(encoding="utf-8")
    content = read_mapping(study.path)
    beside = dict(_files_beside(content, study.path.parent))
    folder = file.parent
    wanted = {source: folder / _below(given) for given, source in beside.items()}
    images = folder / str(content["image_set"]) if study.makes_images else None
    places = (file, *wanted.values(), *([] if images is None else [images]))
    there = [each for each in places if _differs(each, wanted)]
    if there:
        raise ConfigError(f"{str(there[0])!r} is there already; name another place: studies copy {name} FILE.yaml")
    for given in beside:
        text = text.replace(given, _below(given).as_posix())
    if not study.makes_images:
        text = text.replace(f"image_set: {content['image_set']}", f"image_set: {_IMAGES}")
    # The calls in its remarks are those of the copy.
    text = re.sub(
        rf"(detector-bench \w+ (?:--study )?)(?:configs/)?{re.escape(name)}(?:\.yaml)?(?=\s)",
        rf"\g<1>{file.name}",
        text,
    )
    try:
        for source, target in wanted.items():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
        if images is not None:
            study.build_images(images)
    except OSError as error:
        raise ConfigError(f"cannot write beside {str(file)!r}: {error.strerror or error}") from error
    write_text(file, text)
    return [file, *wanted.values(), *([] if images is None else [images])]


def _differs(target: Path, wanted: Mapping[Path, Path]) -> bool:
    """Whether something else lies there: two copied studies may share a file that they extend."""
    if not target.exists():
        return False
    sources = [source for source, place in wanted.items() if place == target]
    return not (sources and target.is_file() and target.read_bytes() == sources[0].read_bytes())


def _below(given: str) -> PurePosixPath:
    """The place of a file beside the copy: as the study names it, without the way up."""
    return PurePosixPath(*(part for part in PurePosixPath(given).parts if part != ".."))


def _files_beside(value: Any, folder: Path) -> Iterator[tuple[str, Path]]:
    """Files that a study's texts name, as seen from its folder, and those that they extend in turn."""
    if isinstance(value, Mapping):
        value = [item for key, item in value.items() if key != "image_set"]
    if isinstance(value, list):
        for item in value:
            yield from _files_beside(item, folder)
    elif isinstance(value, str) and "/" in value and (found := folder / value).is_file():
        yield value, found
        if found.suffix == ".yaml":
            for given, source in _files_beside(read_mapping(found), found.parent):
                yield (PurePosixPath(value).parent / given).as_posix(), source
