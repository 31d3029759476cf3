"""What programs and libraries said, fit to be published: without the folders of this machine."""

from __future__ import annotations

import os
import re
from functools import lru_cache
from pathlib import Path

_QUOTED = re.compile(r"""(['"])(?:~|[A-Za-z]:)?[/\\][^'"\n]*[/\\]([^'"/\\\n]*)\1""")
"""A path in quotation marks, which may hold blanks."""

_PLAIN = re.compile(
    r"""(?<![\w/\\.:~<-])(?:~[\w.-]*|[A-Za-z]:)?[/\\](?:[^\s/\\'"`,;:()<>\[\]]+[/\\]+)+([^\s/\\'"`,;:()<>\[\]]*)"""
)
"""An absolute path of at least one folder and a name; no address, and nothing that stands behind a word."""


def without_folders(text: str) -> str:
    """A text in which absolute paths are the names of their files; addresses on the web stay as they are.

    Folders have names of users, institutes and disks in them, which are nobody's business in a published table.
    """
    for folder in _own_folders():
        text = re.sub(rf"{re.escape(folder)}(?![\w.-])", "~", text)
    return _PLAIN.sub(_name_of, _QUOTED.sub(r"\1\2\1", text))


def _name_of(found: re.Match[str]) -> str:
    return found[1] or "~"


@lru_cache(maxsize=1)
def _own_folders() -> tuple[str, ...]:
    """The user's folder, which a path can end with."""
    try:
        home = str(Path.home())
    except RuntimeError:  # there is no such user
        return ()
    return (home,) if home.count(os.sep) > 1 else ()
