"""The links with tokens: who may see them."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from detector_bench.errors import ConfigError


def write_links(path: Path, links: Mapping[str, str]) -> None:
    """Write links to a file that only its owner can read, in the place of an earlier one.

    Raises:
        ConfigError: it cannot be written, or would be open to others, as on a disk that knows no owners.
    """
    width = max(map(len, links))
    text = "".join(f"  {name:<{width}}  {link}\n" for name, link in links.items())
    try:
        path.unlink(missing_ok=True)
        # Made anew and never followed: a file that somebody put there before would be theirs to read.
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            if os.name == "posix" and stat.S_IMODE(os.fstat(descriptor).st_mode) & 0o077:
                raise ConfigError(
                    f"the links hold tokens, and others could read them in {str(path)!r}: start the desk on a "
                    "terminal, which shows them, or keep the store (--store FILE) on a disk with permissions"
                )
            file.write(text)
    except ConfigError:
        with suppress(OSError):
            path.unlink()
        raise
    except OSError as error:
        raise ConfigError(f"the links cannot be written to {str(path)!r}: {error.strerror}") from error
