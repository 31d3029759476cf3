"""What a built site must not have: links inside it that lead nowhere, and what is fetched from elsewhere."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

_LOADED = {"script": "src", "img": "src", "link": "href", "source": "src", "iframe": "src"}
"""What a browser fetches by itself."""
_NOT_LOADED = {"canonical", "search", "next", "prev", "index", "author", "help", "top", "up"}


class _Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: set[str] = set()
        self.loaded: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self.ids |= {found[name] for name in ("id", "name") if name in found}
        if tag == "a" and "href" in found:
            self.links.add(found["href"])
        if tag in _LOADED and _LOADED[tag] in found and found.get("rel", "") not in _NOT_LOADED:
            self.loaded.add(found[_LOADED[tag]])


def problems_of(site: Path) -> list[str]:
    """Dead links, and what would be fetched from a network, one line each."""

    @cache
    def page(path: Path) -> _Page:
        return _Page(path.read_text(encoding="utf-8"))

    return [line for path in _pages(site) for line in _of_page(site, path, page)]


def _pages(site: Path) -> list[Path]:
    """All pages; what the theme keeps among its own files is none."""
    return [path for path in sorted(site.rglob("*.html")) if "_static" not in path.relative_to(site).parts]


def _of_page(site: Path, path: Path, page: object) -> Iterator[str]:
    here = path.relative_to(site)
    found = page(path)  # type: ignore[operator]
    for address in sorted(found.loaded):
        if urlsplit(address).scheme in ("http", "https") or address.startswith("//"):
            yield f"{here}: {address} would be fetched from a network"
    for address in sorted(found.loaded | found.links):
        parts = urlsplit(address)
        if parts.scheme or parts.netloc:
            continue
        there = site / posixpath.normpath(posixpath.join(here.parent.as_posix(), unquote(parts.path) or here.name))
        if there.is_dir():
            there /= "index.html"
        if not there.is_file():
            yield f"{here}: a link to {address}, which is not there"
        elif parts.fragment and there.suffix == ".html" and unquote(parts.fragment) not in page(there).ids:  # type: ignore[operator]
            yield f"{here}: a link to {address}: that page has no such place"


def addresses_of(site: Path) -> dict[str, list[str]]:
    """Every address on a network that a page links to, with the pages."""
    found: dict[str, list[str]] = {}
    for path in _pages(site):
        for address in sorted(_Page(path.read_text(encoding="utf-8")).links):
            if re.match(r"https?://", address):
                found.setdefault(address, []).append(path.relative_to(site).as_posix())
    return found
