"""Files that come along and have a name, such as studies and recipes: the name stands in the place of a file.

One rule, `NamedFiles.path_of`, turns what was given into a file, for the command line and for Python alike. A file
of that name wins over one that comes along: nobody's own file is passed over in silence.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from detector_bench.atomic_files import write_text
from detector_bench.declarations import read_mapping
from detector_bench.errors import ConfigError, nearest_hint
from detector_bench.installation import resource


@dataclass(frozen=True)
class NamedFile:
    """A file that comes along with the package.

    Attributes:
        name: what stands in the place of a file.
        path: the file, inside the installation.
    """

    name: str
    path: Path

    @property
    def about(self) -> str:
        """What it is: the first sentence of the remarks that it begins with."""
        lines = self.path.read_text(encoding="utf-8").splitlines()
        remarks = []
        for line in lines:
            if not line.startswith("#") or not (text := line.lstrip("#").strip()):
                break
            remarks.append(text)
        return re.split(r"(?<=\.)(?<!al\.)\s", " ".join(remarks), maxsplit=1)[0]


@dataclass(frozen=True)
class NamedFiles:
    """Files of one sort that come along.

    Attributes:
        what: one of them, for messages ("study").
        folder: where they lie, as `resource` takes it.
        keys: that a file has which is one of them.
    """

    what: str
    folder: str
    keys: Collection[str]

    def all(self) -> dict[str, NamedFile]:
        """By name, all that come along."""
        found = (NamedFile(path.stem, path) for path in sorted(resource(self.folder).glob("*.yaml")))
        return {each.name: each for each in found if self._is_one(each.path)}

    def of_name(self, given: Path | str) -> NamedFile | None:
        """The one that comes along under a name, which has no folder and no ending; None: there is none."""
        text = str(given)
        if Path(text).name != text or Path(text).suffix:
            return None
        # Not by way of all others: a name that is asked for should not be hindered by another's file.
        path = resource(self.folder) / f"{text}.yaml"
        return NamedFile(text, path) if path.is_file() and self._is_one(path) else None

    def path_of(self, given: Path | str) -> Path:
        """The file that is meant: a file, or a name of one that comes along; the file wins.

        A name has no folder and no ending: `lyu2025` is one, `./lyu2025` and `lyu2025.yaml` are files. A folder of
        the name, such as a result folder, does not count.

        Raises:
            ConfigError: there is neither.
        """
        path = Path(given)
        if path.is_file():
            return path
        named = self.of_name(given)
        if named is not None:
            return named.path
        if path.exists() or path.name != str(given):
            return path  # reading it says what is wrong
        known = self.all()
        if path.stem in known:
            raise ConfigError(
                f"there is no file {str(given)!r}; the {self.what} that comes along is called {path.stem}"
            )
        if path.suffix:
            return path
        raise ConfigError(
            f"there is no file {str(given)!r}, and no {self.what} of this name: {nearest_hint(str(given), known)}"
        )

    def required(self, name: str) -> NamedFile:
        """The one of a name.

        Raises:
            ConfigError: there is none; the message names the nearest.
        """
        known = self.all()
        if name not in known:
            raise ConfigError(f"no {self.what} {name!r} comes along: {nearest_hint(name, known)}")
        return known[name]

    def _is_one(self, path: Path) -> bool:
        return set(self.keys) <= read_mapping(path).keys()


def copy_named(
    named: NamedFile,
    file: Path | None,
    *,
    what: str,
    call: str,
    not_beside: Collection[str] = (),
    edited: Callable[[str], str] = lambda text: text,
    made: Mapping[Path, Callable[[Path], object]] | None = None,
) -> list[Path]:
    """Write a file that comes along, to be edited, with the files that it names, so that it works where it lies.

    Files that it extends or reads lie beside the copy, below the folders that it names.

    Args:
        named: what is copied.
        file: where to; None: `NAME.yaml` in the working directory.
        what: the file is, for messages ("study").
        call: of the command, for messages ("studies copy").
        not_beside: keys whose texts name no file that is copied.
        edited: makes the copy's text of the file's.
        made: by place beside the copy, what else is made there.

    Returns:
        What was written, the copy itself first.

    Raises:
        ConfigError: something of it is there already, and nothing is written; or it cannot be written.
    """
    file = Path(f"{named.name}.yaml") if file is None else file
    made = {file.parent / place: make for place, make in (made or {}).items()}
    if file.suffix not in (".yaml", ".yml"):
        raise ConfigError(f"{str(file)!r} is not the name of a {what} file (accepted: FILE.yaml)")
    content = {key: value for key, value in read_mapping(named.path).items() if key not in not_beside}
    beside = dict(_files_beside(content, named.path.parent))
    wanted = {source: file.parent / _below(given) for given, source in beside.items()}
    there = [each for each in (file, *wanted.values(), *made) if _differs(each, wanted)]
    if there:
        raise ConfigError(f"{str(there[0])!r} is there already; name another place: {call} {named.name} FILE.yaml")
    text = named.path.read_text(encoding="utf-8")
    for given in beside:
        text = text.replace(given, _below(given).as_posix())
    # The calls in its remarks are those of the copy.
    text = re.sub(
        rf"(detector-bench \w+ (?:--study )?)(?:configs/)?{re.escape(named.name)}(?:\.yaml)?(?=\s)",
        rf"\g<1>{file.name}",
        edited(text),
    )
    try:
        for source, target in wanted.items():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
        for place, make in made.items():
            make(place)
    except OSError as error:
        raise ConfigError(f"cannot write beside {str(file)!r}: {error.strerror or error}") from error
    write_text(file, text)
    return [file, *wanted.values(), *made]


def _differs(target: Path, wanted: Mapping[Path, Path]) -> bool:
    """Whether something else lies there: two copied files may share one that they extend."""
    if not target.exists():
        return False
    sources = [source for source, place in wanted.items() if place == target]
    return not (sources and target.is_file() and target.read_bytes() == sources[0].read_bytes())


def _below(given: str) -> PurePosixPath:
    """The place of a file beside the copy: as it is named, without the way up."""
    return PurePosixPath(*(part for part in PurePosixPath(given).parts if part != ".."))


def _files_beside(value: Any, folder: Path) -> Iterator[tuple[str, Path]]:
    """Files that texts name, as seen from a folder, and those that they extend in turn."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from _files_beside(item, folder)
    elif isinstance(value, str) and "/" in value and (found := folder / value).is_file():
        yield value, found
        if found.suffix == ".yaml":
            for given, source in _files_beside(read_mapping(found), found.parent):
                yield (PurePosixPath(value).parent / given).as_posix(), source
