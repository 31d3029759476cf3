"""What `label` asks about the network: addresses, tokens, TLS, limits; and whom it tells the links."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from detector_bench.cli.console import output
from detector_bench.errors import ConfigError

if TYPE_CHECKING:
    from ssl import SSLContext

    from detector_bench.labelling import LabelStore
    from detector_bench.labelling.web.connections import ConnectionLimits
    from detector_bench.labelling.web.desk import Desk

_PANEL = "Network"

Host = Annotated[
    str,
    typer.Option(
        "--host",
        rich_help_panel=_PANEL,
        help="Address to listen at; 0.0.0.0 lets other machines in, with a token each and with TLS.",
    ),
]
Port = Annotated[
    int, typer.Option("--port", rich_help_panel=_PANEL, min=0, max=65535, help="0: any that is free.")
]
PublicUrl = Annotated[
    str | None,
    typer.Option(
        "--public-url",
        rich_help_panel=_PANEL,
        metavar="URL",
        help="What annotators open, if it is another address: a proxy's, or with the certificate's name.",
    ),
]
Token = Annotated[
    bool,
    typer.Option(
        "--token",
        rich_help_panel=_PANEL,
        help="Ask people on this machine for a token, too: for a machine where others can log in.",
    ),
]
Certificate = Annotated[
    Path | None,
    typer.Option(
        "--certificate",
        rich_help_panel=_PANEL,
        metavar="FILE.pem",
        help="Encrypt with TLS: the certificate, and behind it those of who signed it. Needs --key.",
    ),
]
Key = Annotated[
    Path | None,
    typer.Option(
        "--key", rich_help_panel=_PANEL, metavar="FILE.pem", help="Its key; nobody else may read the file."
    ),
]
InTheClear = Annotated[
    bool,
    typer.Option(
        "--in-the-clear",
        rich_help_panel=_PANEL,
        help="Let other machines in without TLS: whoever is on the way reads tokens and answers.",
    ),
]
MostConnections = Annotated[
    int,
    typer.Option(
        "--connections",
        rich_help_panel=_PANEL,
        metavar="N",
        min=1,
        help="Connections at once. For one more, the one goes that has waited longest.",
    ),
]
MostPerAddress = Annotated[
    int,
    typer.Option(
        "--connections-per-address",
        rich_help_panel=_PANEL,
        metavar="N",
        min=1,
        help="The same for one address; behind a proxy everybody has the proxy's.",
    ),
]
SecondsToSend = Annotated[
    float,
    typer.Option(
        "--seconds-to-send",
        rich_help_panel=_PANEL,
        min=1,
        help="For the headers of a request, and as long for what it takes along.",
    ),
]
SecondsIdle = Annotated[
    float,
    typer.Option(
        "--seconds-idle",
        rich_help_panel=_PANEL,
        min=1,
        help="How long a connection may rest between two requests.",
    ),
]


def encryption(desk: Desk, certificate: Path | None, key: Path | None, *, in_the_clear: bool) -> SSLContext | None:
    """What encrypts; None: nothing does, and either nothing needs it or it was said that it shall be so.

    Raises:
        ConfigError: the files cannot be used, or other machines would come without encryption.
    """
    from detector_bench.labelling.web.tls import server_context

    if certificate is not None and key is not None:
        return server_context(certificate, key)
    if certificate is not None or key is not None:
        raise ConfigError("--certificate and --key belong together: name both")
    if desk.is_readable_on_the_way and not in_the_clear:
        raise ConfigError(
            "other machines would send tokens and answers without encryption; accepted: --certificate FILE.pem "
            "and --key FILE.pem, or --host 127.0.0.1 and a proxy with TLS (--public-url https://NAME), or, in a "
            "network where nobody else can listen, --in-the-clear"
        )
    return None


def within_files(limits: ConnectionLimits) -> ConnectionLimits:
    """As many connections as the system's limit on open files allows, which is raised if it may be."""
    from detector_bench.labelling.web.connections import raise_file_limit
    from detector_bench.labelling.web.server import FILES_BESIDE

    possible = limits.within(raise_file_limit(limits.in_all + FILES_BESIDE) - FILES_BESIDE)
    if possible.in_all < limits.in_all:
        output.warn(
            f"At most {possible.in_all:,} connections at once, not {limits.in_all:,}: the system allows this "
            "process no more files (`ulimit -n`)."
        )
    return possible


@contextmanager
def shown_links(desk: Desk, store: LabelStore) -> Iterator[None]:
    """Say where the desk is. Tokens go to a terminal, or to a file of the owner that goes with the desk."""
    from detector_bench.labelling.web.links import write_links

    output.text(f"The labelling desk for {store.image_set.name} is open. Answers go to {store.path}")
    shared = len(store.shares.of_everybody)
    if any(store.shares.of.get(name) for name in desk.annotators):
        images = ", ".join(f"{name} {store.progress(name).total:,}" for name in desk.annotators)
        output.say(f"{shared:,} images are shown to everybody, the others to one annotator each: {images} in all.")
    links = {**{name: desk.link(name) for name in desk.annotators}, "agreement": desk.link(None)}
    kept = None
    # A redirected output is a log, and logs are read by others, and kept.
    if desk.tokens is not None and not sys.stdout.isatty():
        kept = store.path.with_name(f"{store.path.stem}-links-{desk.port}.txt")
        write_links(kept, links)
        output.text(f"It listens at {desk.address}")
        output.text(f"Links with tokens are in {kept}, which only you can read.")
    else:
        width = max(map(len, links))
        for name, link in links.items():
            output.text(f"  {name:<{width}}  {link}")
    if desk.tokens is not None:
        output.text(
            "Each link holds a token: give everybody only their own, and keep the agreement's to yourself."
        )
    if desk.is_readable_on_the_way:
        output.warn("What is sent is not encrypted: whoever is on the way reads tokens and answers.")
    output.text("Stop with Ctrl-C.")
    try:
        yield
    finally:
        if kept is not None:
            with suppress(OSError):
                kept.unlink()
