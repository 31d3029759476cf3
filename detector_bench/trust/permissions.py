"""The file in which a user keeps what is allowed on this machine: read strictly, written whole or not at all."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import yaml
from platformdirs import user_config_path
from pydantic import BeforeValidator, Field, ValidationError, field_serializer, field_validator

from detector_bench.atomic_files import write_text
from detector_bench.declarations import Declaration, read_mapping
from detector_bench.errors import ConfigError, config_error_from, nearest_hint
from detector_bench.trust.origins import Origin

TRUST_VARIABLE = "DETECTOR_BENCH_TRUST"
VARIABLE = r"^[A-Za-z_][A-Za-z0-9_]*$"
"""Regular expression of an environment variable's name."""

_HEADING = """\
# What detector-bench may do on this machine for studies that come from anywhere. `detector-bench trust` writes it.
"""


def _origins(value: Any) -> Any:
    if not isinstance(value, list | tuple):
        raise ValueError("a list of hosts is expected")
    if wrong := [each for each in value if not isinstance(each, str | Origin)]:
        raise ValueError(f"{wrong[0]!r} is no host")
    return tuple(dict.fromkeys(each if isinstance(each, Origin) else Origin.of_host(each) for each in value))


Origins = Annotated[tuple[Origin, ...], BeforeValidator(_origins)]


class AllowedCode(Declaration):
    """Program code that a checkpoint brings, allowed as it was when it was looked at."""

    name: str = Field(min_length=1)
    """What the folder was called; for people, the content decides."""
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    """Over all its program files; see `code_sha256`."""


class Permissions(Declaration):
    """What a user allows."""

    keys: dict[str, Origins] = Field(default_factory=dict)
    """By environment variable, the hosts that its value may be sent to; images may go there, too."""
    hosts: Origins = ()
    """Hosts that images may be sent to without a key."""
    code: tuple[AllowedCode, ...] = ()
    """Code of checkpoints, and scripts, that may run."""
    interpreters: tuple[str, ...] = ()
    """Pythons of other environments that studies may start, by their absolute paths."""

    @field_validator("keys")
    @classmethod
    def _variables(cls, keys: Mapping[str, Any]) -> Mapping[str, Any]:
        for name in keys:
            require_variable(name)
        return keys

    @field_serializer("keys")
    def _keys_as_text(self, keys: Mapping[str, tuple[Origin, ...]]) -> dict[str, list[str]]:
        return {name: [str(each) for each in hosts] for name, hosts in keys.items()}

    @field_serializer("hosts")
    def _hosts_as_text(self, hosts: tuple[Origin, ...]) -> list[str]:
        return [str(each) for each in hosts]

    def joined(self, other: Permissions) -> Permissions:
        """What either allows."""
        keys = {
            name: tuple(dict.fromkeys((*self.keys.get(name, ()), *other.keys.get(name, ()))))
            for name in dict.fromkeys((*self.keys, *other.keys))
        }
        hosts = tuple(dict.fromkeys((*self.hosts, *other.hosts)))
        return Permissions(
            keys=keys,
            hosts=hosts,
            code=tuple(dict.fromkeys((*self.code, *other.code))),
            interpreters=tuple(dict.fromkeys((*self.interpreters, *other.interpreters))),
        )

    def allows_key(self, variable: str, origin: Origin) -> bool:
        """Whether a variable's value may be sent to a host."""
        return origin in self.keys.get(variable, ())

    def allows_images(self, origin: Origin) -> bool:
        """Whether images may be sent to a host."""
        return origin in self.hosts or any(origin in hosts for hosts in self.keys.values())

    def allows_code(self, sha256: str) -> bool:
        """Whether code of this content may run."""
        return any(each.sha256 == sha256 for each in self.code)


def add_interpreter(path: Path) -> None:
    """Allow that studies start the Python at an absolute path, from now on."""
    _write(read_permissions().joined(Permissions(interpreters=(str(path),))), None)


def require_variable(name: str) -> None:
    """Check the name of an environment variable.

    Raises:
        ValueError: it can be none, as a key that was written in its place.
    """
    import re

    if not re.fullmatch(VARIABLE, name):
        # It is not repeated: it may be the key itself.
        raise ValueError("the name of an environment variable is expected (letters, digits, _), not a key")


def trust_file() -> Path:
    """`DETECTOR_BENCH_TRUST`, or `trust.yaml` in the user's configuration folder."""
    named = os.environ.get(TRUST_VARIABLE)
    return Path(named).expanduser() if named else user_config_path("detector_bench") / "trust.yaml"


def read_permissions(path: Path | None = None) -> Permissions:
    """Read what is allowed; a file that is not there allows nothing.

    Raises:
        ConfigError: it cannot be read, says something else, or anybody on this machine may write to it.
    """
    path = trust_file() if path is None else path
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return Permissions()
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    if not stat.S_ISREG(mode):
        raise ConfigError(f"{path}: is no file")
    if mode & stat.S_IWOTH:
        raise ConfigError(
            f"{path}: every user of this machine may write to it, and so allow what they like: chmod o-w"
        )
    content = read_mapping(path, keys="`keys`, `hosts`, `code` and `interpreters`") if path.stat().st_size else {}
    try:
        return Permissions.model_validate(content)
    except ValidationError as error:
        raise config_error_from(error, place=str(path), model=Permissions) from error


def add_key(variable: str, origin: Origin, *, path: Path | None = None) -> None:
    """Allow that a variable's value is sent to a host, from now on."""
    _write(read_permissions(path).joined(Permissions(keys={variable: (origin,)})), path)


def add_host(origin: Origin, *, path: Path | None = None) -> None:
    """Allow that images are sent to a host without a key, from now on."""
    _write(read_permissions(path).joined(Permissions(hosts=(origin,))), path)


def add_code(code: AllowedCode, *, path: Path | None = None) -> None:
    """Allow that program code of this content runs, from now on."""
    _write(read_permissions(path).joined(Permissions(code=(code,))), path)


def remove(name: str, host: Origin | None = None, *, path: Path | None = None) -> int:
    """Take permissions back.

    Args:
        name: a variable, a host, or of code the name or the first 8 or more digits of the sha256.
        host: of a variable, this host alone.
        path: the file; None: `trust_file`.

    Returns:
        How many were taken back.

    Raises:
        ConfigError: there is none of this name.
    """
    before = read_permissions(path)
    keys = {
        variable: tuple(each for each in hosts if variable != name or (host is not None and each != host))
        for variable, hosts in before.keys.items()
    }
    hosts, code, interpreters = before.hosts, before.code, before.interpreters
    if host is None:
        hosts = tuple(each for each in hosts if name not in (str(each), each.host))
        code = tuple(each for each in code if not _names(name, each))
        interpreters = tuple(each for each in interpreters if each != name)
    after = Permissions(
        keys={each: found for each, found in keys.items() if found},
        hosts=hosts,
        code=code,
        interpreters=interpreters,
    )
    taken = _count(before) - _count(after)
    if not taken:
        named = (each.name for each in before.code)
        known = [*before.keys, *map(str, before.hosts), *named, *before.interpreters]
        raise ConfigError(f"nothing of the name {name!r} is allowed here: {nearest_hint(name, known)}")
    _write(after, path)
    return taken


_FEWEST_DIGITS = 8


def _names(text: str, code: AllowedCode) -> bool:
    return text == code.name or (len(text) >= _FEWEST_DIGITS and code.sha256.startswith(text.lower()))


def _count(found: Permissions) -> int:
    of_keys = sum(map(len, found.keys.values()))
    return of_keys + len(found.hosts) + len(found.code) + len(found.interpreters)


def _write(found: Permissions, path: Path | None) -> None:
    # Where the file is a link, as people have who keep their settings elsewhere, what it points to is written.
    path = (trust_file() if path is None else path).resolve()
    content = {name: value for name, value in found.model_dump(mode="json").items() if value}
    text = yaml.safe_dump(content, sort_keys=False, allow_unicode=True) if content else ""
    write_text(path, _HEADING + text if text else "")
