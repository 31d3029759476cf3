"""Permissions of this machine's user: which key goes to which host, which hosts get images, which files may run.

Studies may come from strangers, so none of them can allow anything. Permissions stand in `--allow TEXT` of one
call, in the user's own `allowed.yaml` (`keys: {VARIABLE: [https://host]}`, `hosts: []`, `code: [sha256]`), or are
built in for the keys of well-known services. Every refusal is one line with the option and the line of YAML that
would allow it.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

from platformdirs import user_config_path
from pydantic import BaseModel, ConfigDict, ValidationError

from detector_bench_next.errors import ConfigError
from detector_bench_next.files import read_yaml, sha256_file

VARIABLE = "DETECTOR_BENCH_ALLOWED"
_FACEPP = ("https://api-us.faceplusplus.com", "https://api-cn.faceplusplus.com")
_BUILT_IN = [(name, host) for name in ("FACEPP_API_KEY", "FACEPP_API_SECRET") for host in _FACEPP]
_BUILT_IN += [("OPENAI_API_KEY", "https://api.openai.com")]
_LOOPBACK = ("127.0.0.1", "::1", "localhost")
_PORTS = {"https": 443, "http": 80}


def origin(url: str) -> str:
    """Scheme, host and port of an address, as `https://host` or `http://host:8000`; equal origins are one server.

    Without a scheme it is https, on this machine http. A ConfigError refuses what is no host, and what httpx and
    urllib read differently, which is a trick.
    """
    import httpx

    text = url.strip()
    if "://" not in text:
        loopback = (urlsplit(f"https://{text}").hostname or "") in _LOOPBACK
        text = f"{'http' if loopback else 'https'}://{text}"
    try:
        sent, checked = httpx.URL(text), urlsplit(text)
        host, default = sent.raw_host.decode("ascii"), _PORTS[sent.scheme]
        same = (checked.hostname or "").lower() in (sent.host, host)
        same &= (checked.port or default) == (sent.port or default)
        same &= text.isprintable() and "\\" not in text and not sent.userinfo
        same &= re.fullmatch(r"[a-z0-9._-]+|[0-9a-f:.]+", host) is not None
    except (httpx.InvalidURL, ValueError, KeyError):
        same = False
    if not same:
        raise ConfigError(f"{url!r} is no host: write HOST, HOST:PORT or https://HOST:PORT, without a user name")
    name = f"[{host}]" if ":" in host else host
    return f"{sent.scheme}://{name}" + (f":{sent.port}" if sent.port not in (None, default) else "")


def is_loopback(url: str) -> bool:
    """True for an address of this machine; since any of its users may listen there, keys need a permission."""
    return urlsplit(origin(url)).hostname in _LOOPBACK


class _File(BaseModel):
    """The user's allowed.yaml."""

    model_config = ConfigDict(extra="forbid")
    keys: dict[str, list[str]] = {}
    hosts: list[str] = []
    code: list[str] = []


class Allowed:
    """Permissions of one call: `texts` are `VARIABLE=HOST`, `HOST` or a file.

    A ConfigError refuses a text of another form, and a file of permissions that cannot be read.
    """

    def __init__(self, texts: Sequence[str] = ()) -> None:
        file = _file()
        try:
            own = _File.model_validate((read_yaml(file) if file.is_file() else None) or {})
        except ValidationError:
            accepted = "keys: {VARIABLE: [https://host]}, hosts: [https://host], code: [sha256]"
            raise ConfigError(f"{file}: accepted: {accepted}") from None
        files = [text for text in texts if Path(text).is_file()]
        rest = [text.partition("=") for text in texts if text not in files]
        pairs = [(name, host) for name, hosts in own.keys.items() for host in hosts]
        pairs += [(name, host) for name, equals, host in rest if equals]
        if not all(re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) for name, _ in pairs):  # it may be the key itself
            raise ConfigError("--allow KEY=HOST: the name of an environment variable is expected, not a key")
        hosts = [*own.hosts, *(text for text, equals, _ in rest if not equals)]
        self._keys = {*_BUILT_IN, *((name, _whole_host(host)) for name, host in pairs)}
        self._hosts = {*(host for _, host in self._keys), *map(_whole_host, hosts)}
        self._code = {*own.code, *(sha256_file(Path(script)) for script in files)}

    def key(self, variable: str, url: str) -> str | None:
        """Value of an environment variable for a host that it may be sent to; None: it is not set.

        A ConfigError, which does not show it, if it may not be sent there.
        """
        value, to = os.environ.get(variable, "").strip(), origin(url)
        if value and (variable, to) not in self._keys:
            remedy = f"--allow {variable}={to}, or `keys: {{{variable}: [{to}]}}` in {_file()}"
            raise ConfigError(f"the key {variable} is not sent to {to} without your leave: {remedy}")
        return value or None

    def images(self, url: str) -> None:
        """Permit images to be sent to a host: this machine, one that is allowed, or one that may have a key.

        A ConfigError if nobody allowed it.
        """
        to = origin(url)
        if not (is_loopback(to) or to in self._hosts):
            remedy = f"--allow {to}, or `hosts: [{to}]` in {_file()}"
            raise ConfigError(f"images are not sent to {to} without your leave: {remedy}")

    def code(self, path: Path) -> bytes:
        """Content of a file that may run; a ConfigError if it cannot be read, or nobody allowed this content."""
        try:
            content = path.read_bytes()
        except OSError as error:
            raise ConfigError(f"{path}: {error.strerror}") from None
        if (sha256 := hashlib.sha256(content).hexdigest()) not in self._code:
            remedy = f"--allow {path}, or `code: [{sha256}]` in {_file()}"
            raise ConfigError(f"{path} would run with your rights; read it, then: {remedy}")
        return content


def _file() -> Path:
    named = os.environ.get(VARIABLE)
    return Path(named).expanduser() if named else user_config_path("detector_bench") / "allowed.yaml"


def _whole_host(text: str) -> str:
    """An origin; a path behind it would promise more than is held."""
    rest = urlsplit(text if "://" in text else f"https://{text}")
    if rest.path.strip("/") or rest.query or rest.fragment:
        raise ConfigError(f"--allow {text!r}: is no file here, and no host (a permission holds for a whole one)")
    return origin(text)
