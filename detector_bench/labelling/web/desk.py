"""What a labelling desk is told when it opens: who labels, after which guideline, and who may come in."""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import socket
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import quote, urlsplit

from jinja2 import Environment, PackageLoader

from detector_bench.errors import ConfigError, nearest_hint
from detector_bench.labelling.grid import Grid
from detector_bench.labelling.web.languages import Words
from detector_bench.labelling.writing import annotator_name

SECRET_VARIABLE = "DETECTOR_BENCH_LABEL_SECRET"  # noqa: S105 - the variable's name
SHORTEST_SECRET = 16

_EVERY_ADDRESS = ("0.0.0.0", "::", "")  # noqa: S104 - compared, not bound

RESERVED_NAMES = frozenset({"coordinator", "desk", "sign-in", "agreement", "adjudication"})
"""Names that no annotator may bear: they mean something else, or stand in an address where a name stands."""


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody who was let in: an annotator, or the coordinator, who sees what all annotators said."""

    name: str
    is_coordinator: bool = False


class Tokens:
    """One token per person, derived from one secret: with the same secret, links stay good after a restart.

    Args:
        annotators: their names.
        secret: at least 16 characters; None: made up, good until the desk closes.

    Raises:
        ConfigError: the secret is too short.
    """

    def __init__(self, annotators: Collection[str], secret: str | None) -> None:
        if secret is not None and len(secret) < SHORTEST_SECRET:
            raise ConfigError(
                f"{SECRET_VARIABLE} has {len(secret)} characters; at least {SHORTEST_SECRET} are needed"
            )
        self._secret = (secret or secrets.token_urlsafe(32)).encode()
        self._people = {self._digest(f"annotator {name}"): Person(name) for name in annotators}
        self._coordinator = self._digest("coordinator")
        self._people[self._coordinator] = Person("coordinator", is_coordinator=True)
        # Cookies do not know ports: two desks on one machine must not overwrite each other's.
        self.cookie = f"labelling_desk_{self._digest('cookie')[:10]}"

    def of(self, annotator: str | None) -> str:
        """The token of an annotator, or (None) of the coordinator."""
        return self._coordinator if annotator is None else self._digest(f"annotator {annotator}")

    def person(self, token: str) -> Person | None:
        """Whose token this is; the time it takes says nothing about the token."""
        given, found = token.encode(), None
        for known, person in self._people.items():
            if hmac.compare_digest(known.encode(), given):
                found = person
        return found

    def _digest(self, purpose: str) -> str:
        return hmac.new(self._secret, purpose.encode(), hashlib.sha256).hexdigest()[:40]


@dataclass(frozen=True)
class Desk:
    """A labelling desk that is about to open.

    Attributes:
        annotators: who labels here.
        guidelines: the guideline's text, in simple Markdown, for everybody; "": the one of each language.
        words: the language, and questions of one's own, for everybody who has none of their own.
        words_of: the same by annotator.
        grid: pages of many pictures with proposed labels; None: one picture at a time.
        host: the address that the server is bound to.
        port: its port.
        public_url: the address that annotators use where it is another one, behind a proxy for instance.
        secret: what tokens are derived from; None: made up.
        asks_token: whether people on this machine need a token, too; those on others always do.
        encrypts: whether the server itself speaks TLS.
    """

    annotators: tuple[str, ...]
    guidelines: str = ""
    words: Words = field(default_factory=Words)
    words_of: Mapping[str, Words] = field(default_factory=dict)
    grid: Grid | None = None
    host: str = "127.0.0.1"
    port: int = 8765
    public_url: str | None = None
    secret: str | None = None
    asks_token: bool = False
    encrypts: bool = False

    def __post_init__(self) -> None:
        if not self.annotators:
            raise ConfigError("nobody to label: name at least one annotator")
        for name in self.annotators:
            _check_name(name)
        for name in self.words_of:
            if name not in self.annotators:
                raise ConfigError(f"a language is given for {name!r}: {nearest_hint(name, self.annotators)}")
        if len(set(self.annotators)) != len(self.annotators):
            raise ConfigError(f"an annotator is named twice: {', '.join(self.annotators)}")
        if self.public_url is not None:
            parts = urlsplit(self.public_url)
            if parts.scheme not in ("http", "https") or not parts.hostname or parts.path not in ("", "/"):
                raise ConfigError(
                    f"public address {self.public_url!r}: give it as https://name or http://name:port"
                )
            if self.encrypts and parts.scheme == "http":
                raise ConfigError(
                    f"public address {self.public_url!r}: with a certificate the desk answers https:// only"
                )

    @property
    def is_local(self) -> bool:
        """Whether only people on this machine can reach the desk."""
        return self.public_url is None and self._listens_here

    @property
    def _listens_here(self) -> bool:
        return self.host == "localhost" or _is_loopback(self.host)

    @property
    def is_readable_on_the_way(self) -> bool:
        """Whether tokens and answers cross a network without TLS."""
        return not self.encrypts and (not self._listens_here or (self.public_url or "").startswith("http:"))

    @cached_property
    def tokens(self) -> Tokens | None:
        """The tokens; None: none is asked for."""
        return Tokens(self.annotators, self.secret) if self.asks_token or not self.is_local else None

    @property
    def address(self) -> str:
        """The desk's address, without a path."""
        if self.public_url is not None:
            return self.public_url.rstrip("/")
        host = _own_address() if self.host in _EVERY_ADDRESS else self.host
        scheme = "https" if self.encrypts else "http"
        return f"{scheme}://{f'[{host}]' if ':' in host else host}:{self.port}"

    def words_for(self, annotator: str | None) -> Words:
        """What an annotator, or (None) the coordinator, reads."""
        return self.words_of.get(annotator or "", self.words)

    def guideline_for(self, annotator: str) -> str:
        """An annotator's guideline."""
        return self.guidelines or self.words_for(annotator).guideline

    def link(self, annotator: str | None) -> str:
        """The link for an annotator, or (None) for the coordinator.

        A token stands behind `#`: browsers do not send that part, so no log of a server or proxy holds it.
        """
        token = "" if self.tokens is None else f"#token={self.tokens.of(annotator)}"
        return f"{self.address}{page_of(annotator)}{token}"

    def knows_host(self, header: str) -> bool:
        """Whether a `Host` header names this desk.

        Another name means that somebody's web page points a name of its own at this machine (DNS rebinding). That
        cannot be done with a plain IP address: where a token is asked for, any is accepted.
        """
        name = _host_name(header)
        if name is None:
            return False
        if name in self._host_names:
            return True
        return _is_loopback(name) or (not self.is_local and _is_ip_address(name))

    @cached_property
    def _host_names(self) -> frozenset[str]:
        names = {"localhost", self.host.lower()}
        if not self.is_local:
            names |= {socket.gethostname().lower(), socket.getfqdn().lower()}
        if self.public_url is not None:
            names.add((urlsplit(self.public_url).hostname or "").lower())
        return frozenset(names - {""})


def page_of(annotator: str | None) -> str:
    """The path of an annotator's page, or (None) of the coordinator's."""
    return "/agreement" if annotator is None else f"/label/{quote(annotator, safe='')}"


def _check_name(name: str) -> None:
    if annotator_name(name) != name:
        raise ConfigError(f"annotator {name!r}: write it in composed letters (Unicode NFC)")
    if "/" in name or "\\" in name or set(name) == {"."}:
        raise ConfigError(f"annotator {name!r}: no slash, and not only dots, as the name stands in an address")
    if name.lower() in RESERVED_NAMES:
        raise ConfigError(f"annotator {name!r}: the name is reserved, as {', '.join(sorted(RESERVED_NAMES))} are")


def _own_address() -> str:
    """The address under which other machines in the network most likely reach this one."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing: it only asks which way packets would go
        except OSError:
            return socket.gethostname()
        return str(probe.getsockname()[0])


def _host_name(header: str) -> str | None:
    try:
        parts = urlsplit(f"//{header}")
        _ = parts.port  # raises if it is no number
    except ValueError:
        return None
    if parts.username is not None or parts.path or parts.query or parts.fragment:
        return None
    return parts.hostname


def _is_ip_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _is_loopback(name: str) -> bool:
    return _is_ip_address(name) and ip_address(name).is_loopback


STATIC = Path(__file__).parent / "static"
"""Where the desk's scripts and styles lie."""


def page(name: str, *, words: Words | None = None, **values: str) -> str:
    """One of the desk's pages as HTML; values are escaped.

    Args:
        name: a template: "home", "label", "agreement", "adjudication", "sign-in" or "message".
        words: in which language; None: in English.
        values: what the template shows.
    """
    words = words or Words()
    texts = {english: text for english, text in words.language.texts.items() if text}
    return (
        _pages()
        .get_template(f"{name}.html")
        .render(t=words.text, language=words.language.language, texts=json.dumps(texts) if texts else "", **values)
    )


@cache
def _pages() -> Environment:
    return Environment(loader=PackageLoader("detector_bench.labelling.web"), autoescape=True, trim_blocks=True)
