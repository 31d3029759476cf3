"""Program code that studies and checkpoints bring: what belongs to it, and whether the user has allowed that."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from shutil import copy
from tempfile import TemporaryDirectory

from detector_bench.errors import ConfigError
from detector_bench.trust.this_process import granted

_OF_CHECKPOINT = "the program code of checkpoint"


@dataclass(frozen=True)
class ForeignCode:
    """Code that a checkpoint brings, or a script that a study names.

    Attributes:
        name: of the checkpoint or script.
        folder: where it lies; None: it is not on this machine. Or the one file that is a program, such as a script
            or a network in TorchScript.
        what: in words.
    """

    name: str
    folder: Path | None
    what: str = _OF_CHECKPOINT

    @property
    def sha256(self) -> str:
        """Over its program files.

        Raises:
            ConfigError: it has none, or one cannot be read.
        """
        if self.folder is None:
            raise ConfigError(f"checkpoint {self.name!r} is not on this machine")
        return _sha256_at(self.folder)

    def refusal(self) -> str | None:
        """One line, with the command that allows it; None: the user has allowed code of this content.

        Raises:
            ConfigError: a file cannot be read.
        """
        if self.folder is None:
            return None  # that it is missing is told elsewhere
        return _refusal(self.name, self.folder, self.sha256, what=self.what)

    @property
    def kind(self) -> str:
        """What it is, in the words of a list."""
        return "code of a checkpoint"

    @property
    def content(self) -> str:
        """What its permission is about.

        Raises:
            ConfigError: it is not here, or cannot be read.
        """
        return "not here" if self.folder is None else f"sha256 {self.sha256}"

    @property
    def allowed(self) -> str:
        """By what it may run, or why not.

        Raises:
            ConfigError: a file cannot be read.
        """
        if self.folder is None:
            return "only code that is here can be allowed"
        return self.refusal() or "by detector-bench trust code"


def code_refusal(name: str, path: Path, *, what: str) -> str | None:
    """One line, with the command that allows it; None: the user has allowed a file or folder of this content.

    Raises:
        ConfigError: it cannot be read.
    """
    return _refusal(name, path, _sha256_at(path), what=what)


def _sha256_at(path: Path) -> str:
    """As `code_sha256` of `program_files`, of a single file without holding it in memory."""
    if not path.is_file():
        return code_sha256(program_files(path))
    try:
        with path.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise ConfigError(f"{str(path)!r} cannot be read: {error}") from error
    return _sha256_of_lines({path.name: digest})


def _refusal(name: str, folder: Path, sha256: str, *, what: str = _OF_CHECKPOINT) -> str | None:
    allowed = granted()
    if allowed.allows_code(sha256):
        return None
    known = any(each.name in (name, folder.name) for each in allowed.code)
    state = "has changed since it was allowed" if known else "is not allowed on this machine"
    return (
        f"{what} {name!r} (sha256 {sha256[:16]}...) {state}; it would run with your "
        f"rights. Read it, then: detector-bench trust code {shlex.quote(str(folder))}"
    )


def program_files(folder: Path) -> dict[str, bytes]:
    """The content of all Python files in a folder and below, by their paths there; of a single file its own.

    Raises:
        ConfigError: there is none, or one cannot be read.
    """
    try:
        if folder.is_file():
            return {folder.name: folder.read_bytes()}
        paths = [path for path in sorted(folder.rglob("*.py")) if path.is_file()]
        found = {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}
    except OSError as error:
        raise ConfigError(f"the program code in {str(folder)!r} cannot be read: {error}") from error
    if not found:
        raise ConfigError(f"{str(folder)!r} holds no program code: no file ends with .py")
    return found


def code_sha256(files: Mapping[str, bytes]) -> str:
    """One sha256 over program files: over the lines `SHA256  PATH` that sha256sum prints, sorted by path."""
    return _sha256_of_lines({path: hashlib.sha256(content).hexdigest() for path, content in files.items()})


def _sha256_of_lines(digests: Mapping[str, str]) -> str:
    lines = [f"{digest}  {path}\n" for path, digest in sorted(digests.items())]
    return hashlib.sha256("".join(lines).encode("utf-8", "surrogateescape")).hexdigest()


def allowed_bytes(name: str, path: Path, *, what: str = _OF_CHECKPOINT) -> bytes:
    """The content of a file that is a program, if the user has allowed just this content.

    The file is read once: `code_refusal` tells before a run, this is for who runs it.

    Raises:
        ConfigError: it is not allowed, or cannot be read.
    """
    files = program_files(path)
    if (refusal := _refusal(name, path, code_sha256(files), what=what)) is not None:
        raise ConfigError(refusal)
    return files[path.name]


@contextmanager
def allowed_copy(name: str, folder: Path) -> Iterator[Path]:
    """A checkpoint whose code the user has allowed, in a folder in which nobody else can change it meanwhile.

    Program files and settings are copied, large files are links. The copy is called by the content of its code,
    for transformers keeps what it imports by the name of the folder.

    Raises:
        ConfigError: the code is not allowed, or cannot be read.
    """
    files = program_files(folder)
    sha256 = code_sha256(files)
    if (refusal := _refusal(name, folder, sha256)) is not None:
        raise ConfigError(refusal)
    with TemporaryDirectory(prefix="detector-bench-") as parent:
        copied = Path(parent) / f"code_{sha256[:16]}"
        try:
            for name_in_it, content in files.items():
                (copied / name_in_it).parent.mkdir(parents=True, exist_ok=True)
                (copied / name_in_it).write_bytes(content)
            for path in folder.iterdir():
                if path.suffix == ".json":
                    copy(path, copied)
                elif path.is_file() and path.suffix != ".py":
                    (copied / path.name).symlink_to(path.resolve())
        except OSError as error:
            raise ConfigError(f"checkpoint {name!r} cannot be copied: {error}") from error
        yield copied
