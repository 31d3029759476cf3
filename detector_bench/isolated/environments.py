"""Python environments of detectors: in the user's cache, named by what they are made of, whole or made anew.

Making one installs packages, which is running their code. So nothing makes one but a user who says so
(`detector-bench environments make`); a study can only name what is to be there.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from platformdirs import user_cache_path

from detector_bench.atomic_files import write_text
from detector_bench.errors import ConfigError, DetectorBenchError, nearest_hint
from detector_bench.sealed import digest_of

ENVIRONMENTS_VARIABLE = "DETECTOR_BENCH_ENVIRONMENTS"
OWN_VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
PYTHON_VERSION = r"^3\.\d{1,2}$"
"""Regular expression of a Python version as studies name it."""

_MARK = "environment.json"
_REFUSED = ("-r", "--requirement", "-c", "--constraint", "-e", "--editable", "-f", "--find-links")
_NAME = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:\[[^\]]*\])?\s*(?:==\s*([^\s;,*]+)\s*(?:;.*)?$)?")
_SECONDS_TO_ANSWER = 60
_SHORTEST_ID = 4


def environments_folder() -> Path:
    """`DETECTOR_BENCH_ENVIRONMENTS`, or `environments` in the user's cache folder."""
    named = os.environ.get(ENVIRONMENTS_VARIABLE)
    return Path(named).expanduser() if named else user_cache_path("detector_bench") / "environments"


def requirement_lines(text: str) -> tuple[str, ...]:
    """The requirements in the text of a requirements file, without comments and empty lines."""
    lines = (re.sub(r"(^|\s)#.*", "", line).strip() for line in text.replace("\\\n", " ").splitlines())
    return tuple(line for line in lines if line)


def check_requirements(lines: Iterable[str]) -> tuple[str, ...]:
    """Refuse lines that stand for something of this machine, whose content would not count.

    Raises:
        ValueError: such a line, or none at all.
    """
    found = tuple(line.strip() for line in lines)
    for line in found:
        if not line or not line.isprintable():
            raise ValueError(f"a requirement is one line such as numpy<2; got {line!r}")
        if _of_this_machine(line):
            raise ValueError(f"requirement {line!r} names a file of this machine (accepted: what pip fetches)")
    if not found:
        raise ValueError("at least one requirement is needed")
    return found


def _of_this_machine(line: str) -> bool:
    """Whether pip would read a file or folder of this machine for it."""
    word = re.split(r"[\s=]", line, maxsplit=1)[0]
    if line.startswith("-"):
        # pip takes a short option with its value in one word, and a long one by its beginning.
        begun = word.startswith("--") and any(each.startswith(word) for each in _REFUSED)
        return begun or word[:2] in _REFUSED or "file:" in line.lower()
    if "file:" in line.lower() or re.search(r"@\s*[./~]", line):
        return True
    named = re.split(r"[;@\[<>=!~\s]", line, maxsplit=1)[0]
    return line.startswith((".", "~")) or "/" in named.partition("://")[0] or "\\" in named


def package_pins(lines: Iterable[str]) -> dict[str, str | None]:
    """The packages that requirements name, each with the version that it is pinned to (`==`), if it is."""
    found: dict[str, str | None] = {}
    for line in lines:
        if not line.startswith("-") and (match := _NAME.match(line)):
            found[match[1]] = match[2]
    return found


@dataclass(frozen=True)
class Environment:
    """What an environment is made of.

    Attributes:
        requirements: one a line, as pip reads them.
        python_version: `3.10`.
    """

    requirements: tuple[str, ...]
    python_version: str = OWN_VERSION

    @property
    def sha256(self) -> str:
        """Over requirements, in their order, and Python version."""
        return digest_of({"requirements": list(self.requirements), "python": self.python_version})

    @property
    def id(self) -> str:
        """What its folder is called."""
        return self.sha256[:16]

    @property
    def folder(self) -> Path:
        """Where it lies, or would."""
        return environments_folder() / self.id

    @property
    def is_made(self) -> bool:
        """Whether it is there, whole."""
        return (self.folder / _MARK).is_file() and interpreter_in(self.folder) is not None

    @property
    def interpreter(self) -> Path:
        """Its Python.

        Raises:
            ConfigError: it is not made.
        """
        found = interpreter_in(self.folder) if self.is_made else None
        if found is None:
            raise ConfigError(self.missing_message())
        return found

    def missing_message(self) -> str:
        """One line that says how to make it."""
        own = "" if self.python_version == OWN_VERSION else f" --python-version {self.python_version}"
        return (
            f"the environment {self.id} ({', '.join(self.requirements)}; Python {self.python_version}) is not "
            "made on this machine. Installing packages runs their code with your rights; if you want it: "
            f"detector-bench environments make {shlex.join(self.requirements)}{own}"
        )

    def make(self, tell: Callable[[str], None] = lambda _: None) -> bool:
        """Make it, unless it is there; several processes may ask at once.

        Args:
            tell: is told each step, in words.

        Returns:
            Whether it was made now.

        Raises:
            ConfigError: no such Python, or packages that cannot be installed; the installer's words in one line.
        """
        from filelock import FileLock

        root = environments_folder()
        try:
            root.mkdir(parents=True, exist_ok=True)
            with FileLock(root / f"{self.id}.lock"):
                if self.is_made:
                    return False
                # Without the mark it is what a making left that did not come to its end.
                shutil.rmtree(self.folder, ignore_errors=True)
                self._make(tell)
                return True
        except OSError as error:
            raise DetectorBenchError(f"cannot write {str(root)!r}: {error}") from error

    def _make(self, tell: Callable[[str], None]) -> None:
        log = environments_folder() / f"{self.id}.log"
        uv = shutil.which("uv")
        with log.open("wb") as stream:
            if uv is None:
                base = _python_of_version(self.python_version)
                tell(f"making an environment of Python {self.python_version} with venv and pip")
                self._call([base, "-m", "venv", str(self.folder)], stream, log)
                install = [str(interpreter_in(self.folder)), "-m", "pip", "install", "--disable-pip-version-check"]
            else:
                tell(f"making an environment of Python {self.python_version} with uv")
                self._call([uv, "venv", "--python", self.python_version, str(self.folder)], stream, log)
                install = [uv, "pip", "install", "--python", str(interpreter_in(self.folder))]
            listed = self.folder / "requirements.txt"
            listed.write_text("".join(f"{line}\n" for line in self.requirements), encoding="utf-8")
            tell(f"installing {', '.join(self.requirements)}")
            self._call([*install, "-r", str(listed)], stream, log)
        mark = {
            "requirements": list(self.requirements),
            "python_version": self.python_version,
            "made_by": "venv and pip" if uv is None else "uv",
            **_described(self.folder),
        }
        write_text(self.folder / _MARK, json.dumps(mark, indent=2) + "\n")
        log.unlink(missing_ok=True)

    def _call(self, command: list[str], stream: Any, log: Path) -> None:
        done = subprocess.run(  # noqa: S603
            command,
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            env=_plain_variables(),
            check=False,
        )
        if done.returncode != 0:
            stream.flush()
            raise ConfigError(
                f"the environment of {', '.join(self.requirements)} (Python {self.python_version}) cannot be "
                f"made: {_complaint(log)} (all of it: {log})"
            )


def interpreter_in(place: Path) -> Path | None:
    """The interpreter of an environment's folder, or the interpreter itself; None: there is none.

    A link stays one: by where it lies Python knows its environment.
    """
    places = [place, place / "bin" / "python", place / "Scripts" / "python.exe"]
    found = next((each for each in places if each.is_file()), None)
    return None if found is None else Path(os.path.abspath(found))  # noqa: PTH100 - which would follow links


def published_place(interpreter: Path) -> Path:
    """What stands for an interpreter where its place is written down: the environment's folder, if it has one."""
    folder = interpreter.parent.parent
    return folder if (folder / "pyvenv.cfg").is_file() else interpreter


@dataclass(frozen=True)
class MadeEnvironment:
    """One that is there.

    Attributes:
        folder: where it lies; its name is its id.
        mark: what was written down when it was made.
    """

    folder: Path
    mark: dict[str, Any]

    @property
    def bytes(self) -> int:
        """What its files take."""
        return sum(each.lstat().st_size for each in self.folder.rglob("*") if not each.is_dir())


def made_environments() -> Iterator[MadeEnvironment]:
    """The whole ones, by id."""
    root = environments_folder()
    for folder in sorted(root.iterdir()) if root.is_dir() else []:
        with suppress(OSError, ValueError):
            yield MadeEnvironment(folder, json.loads((folder / _MARK).read_bytes()))


def remove_environment(name: str) -> MadeEnvironment:
    """Remove the environment whose id begins so, and all its files.

    Raises:
        ConfigError: none or several of them do.
        DetectorBenchError: files cannot be removed.
    """
    from filelock import FileLock

    made = list(made_environments())
    found = [each for each in made if len(name) >= _SHORTEST_ID and each.folder.name.startswith(name)]
    if len(found) != 1:
        known = [each.folder.name for each in made]
        why = "several environments begin so" if found else nearest_hint(name, known)
        raise ConfigError(f"no environment {name!r} here: {why}")
    folder = found[0].folder
    try:
        with FileLock(folder.with_name(f"{folder.name}.lock")):
            (folder / _MARK).unlink(missing_ok=True)  # first, so that half of it is not taken for the whole
            shutil.rmtree(folder)
    except OSError as error:
        raise DetectorBenchError(f"cannot remove {str(folder)!r}: {error}") from error
    return found[0]


def _python_of_version(version: str) -> str:
    if version == OWN_VERSION:
        return sys.executable
    found = shutil.which(f"python{version}")
    if found is not None and _answers(found) == version:
        return found
    raise ConfigError(
        f"there is no Python {version} on this machine: install it so that python{version} is found, or install "
        "uv, which fetches one"
    )


def _answers(python: str) -> str | None:
    command = [python, "-I", "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS_TO_ANSWER, check=True)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


_LISTING = """
import json, platform
from importlib import metadata
named = [(each.metadata["Name"], each.version) for each in metadata.distributions()]
packages = {name: version for name, version in named if name}
print(json.dumps({"python": platform.python_version(), "packages": packages}))
"""


def _described(folder: Path) -> dict[str, Any]:
    command = [str(interpreter_in(folder)), "-I", "-c", _LISTING]
    try:
        done = subprocess.run(command, capture_output=True, timeout=_SECONDS_TO_ANSWER, check=True)  # noqa: S603
        found: dict[str, Any] = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise ConfigError(f"the environment's own Python does not answer: {error}") from error
    return {"python": found["python"], "packages": dict(sorted(found["packages"].items()))}


def _plain_variables() -> dict[str, str]:
    """This process's environment, less what would lead another Python to this one's packages."""
    own = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "__PYVENV_LAUNCHER__")
    return {name: value for name, value in os.environ.items() if name not in own}


_CORNER = "\u2570\u2500\u25b6> "
_CAUSE = "cause: "
"""What versions of uv put before the reason of an error."""


def _complaint(log: Path) -> str:
    """The line of an installer's output that says what went wrong: its first error, or its last words."""
    with log.open("rb") as stream:
        stream.seek(max(0, stream.seek(0, os.SEEK_END) - 100_000))
        lines = [line.strip() for line in stream.read().decode("utf-8", "replace").splitlines() if line.strip()]
    # What a program that the installer calls dies of says more than the installer does.
    fatal = [line for line in lines if line.lower().startswith("fatal:")]
    errors = [number for number, line in enumerate(lines) if line.lower().startswith(("error", "\u00d7 "))]
    if fatal or not errors:
        return (fatal or lines or ["it says nothing"])[-1][:300]
    found = lines[errors[0]]
    behind = lines[errors[0] + 1 :][:1]
    if behind and behind[0].startswith((_CORNER[0], _CAUSE)):
        found = f"{found}: {behind[0].lstrip(_CORNER).removeprefix(_CAUSE)}"
    return found[:300]
