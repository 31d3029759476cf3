"""Asks every address that the built site links to: `python docs/check_external_links.py`.

Exit status 1 if any does not answer. It is no part of the build, which needs no network.
"""

from __future__ import annotations

import argparse
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
from building.built import addresses_of

_ANSWERED_TO_PEOPLE = {401, 403, 405, 429}
"""A server that does not like to be asked by a program is there."""


def problem_of(address: str, *, timeout: float) -> str:
    """Empty, or why the address does not answer."""
    try:
        reply = httpx.get(address, timeout=timeout, follow_redirects=True)
    except httpx.HTTPError as error:
        return f"{type(error).__name__}: {error}"
    return "" if reply.is_success or reply.status_code in _ANSWERED_TO_PEOPLE else f"status {reply.status_code}"


def main() -> None:
    """Ask all addresses, and print those that do not answer with the pages that link to them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    site = Path(__file__).resolve().parents[1] / "build" / "site" / "html"
    parser.add_argument("site", type=Path, nargs="?", default=site, help="the folder that `make docs` built")
    parser.add_argument("--timeout", type=float, default=20.0, help="seconds")
    asked = parser.parse_args()
    addresses = addresses_of(asked.site)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda address: problem_of(address, timeout=asked.timeout), addresses))
    dead = [(address, problem) for address, problem in zip(addresses, found, strict=True) if problem]
    for address, problem in dead:
        print(f"{address}: {problem} ({', '.join(addresses[address])})")  # noqa: T201
    print(f"{len(addresses)} addresses, {len(dead)} without an answer")  # noqa: T201
    sys.exit(1 if dead else 0)


if __name__ == "__main__":
    main()
