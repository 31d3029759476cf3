"""What a cell of `images.path` may name: a file of the folder, an address, or a part of an archive or table.

    images/0001.png                        a file below the image set's folder
    s3://bucket/images/0001.png            an object; also gs://, hf://, https:// and http://
    shards/000.tar#000123.png              a member of a tar file, there or at an address
    data/part-0.parquet#17                 row 17 (the first is 0) of the only column of images in a Parquet file
    data/part-0.parquet#picture/17         the same of the column `picture`

Nothing here reads anything, and every text that is made to be shown is without secrets.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit

SCHEMES = ("s3", "gs", "hf", "https", "http")
WEB_SCHEMES = ("https", "http")

ADDRESS = r"^[A-Za-z][A-Za-z0-9+.-]+://"
"""Regular expression of a path that is an address; one letter before the colon is a drive."""

SOUND_ADDRESS = r"^(?:s3|gs|hf)://[^/@#?]+/[^#]+$|^https?://[^/@#?\\]+/[^#]*$"
"""Regular expression of an address that is sound for sure; `address_problem` decides about others."""

PART = r"(?i)\.(?:tar|parquet)(?:\?[^#]*)?#|\.(?:tar\.\w+|tgz)#"
"""Regular expression of a path that names a part of a file."""

SOUND_PART = r"(?i)^(?:(?:s3|gs|hf)://[^/@#?]+/)?[^:#?@]+\.(?:tar#.+|parquet#(?:[^#/]+/)?[0-9]+)$"
"""Regular expression of a part that is sound for sure."""

_PART = re.compile(r"(?i)(?P<place>.+?\.(?P<kind>tar|parquet)(?:\?[^#]*)?)#(?P<part>.+)", re.DOTALL)
_COMPRESSED = re.compile(r"(?i).+?\.(?:tar\.\w+|tgz)#")
_USER = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*://)[^\s/@?#]*@")
_QUERY = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*://[^\s?#'\"]*)\?[^\s#'\"]*")
_LONGEST_SENTENCE = 300

PLACES = ", ".join(f"{scheme}://" for scheme in SCHEMES)


@dataclass(frozen=True, slots=True)
class ImageReference:
    """A cell of `images.path`, taken apart.

    Attributes:
        place: the file, as a path below the image set's folder or as an address.
        scheme: of the address, in lower case; "" for a path.
        kind: whether the place is the image itself, or holds it among others.
        part: the member's name, or the row with its column; "" if the place is the image.
    """

    place: str
    scheme: str
    kind: Literal["file", "tar", "parquet"]
    part: str

    @property
    def is_local(self) -> bool:
        """Whether the place lies below the image set's folder."""
        return not self.scheme


def parse_reference(path: str) -> ImageReference:
    """Take a cell of `images.path` apart; nothing is checked."""
    scheme, separator, _ = path.partition("://")
    scheme = scheme.lower() if separator and re.match(ADDRESS, path) else ""
    if found := _PART.fullmatch(path):
        kind: Literal["tar", "parquet"] = "tar" if found["kind"].lower() == "tar" else "parquet"
        return ImageReference(found["place"], scheme, kind, found["part"])
    return ImageReference(path, scheme, "file", "")


def is_file_below(path: str) -> bool:
    """Whether a cell of `images.path` names a file of its own below the image set's folder."""
    reference = parse_reference(path)
    return reference.is_local and reference.kind == "file"


def address_problem(path: str) -> tuple[str, str] | None:
    """What is wrong with an address or the part of a file, and what is accepted; None: nothing.

    A path that is neither is sound here: see `validation.LEAVES_FOLDER`.
    """
    if _COMPRESSED.match(path):
        return "member of a compressed archive, of which nothing can be read alone", "a .tar file"
    reference = parse_reference(path)
    if reference.kind == "parquet" and not reference.part.rpartition("/")[2].isdecimal():
        return "no row of a Parquet file", "FILE.parquet#ROW or FILE.parquet#COLUMN/ROW, counted from 0"
    return None if reference.is_local else _place_problem(reference.place, reference.scheme)


def _place_problem(place: str, scheme: str) -> tuple[str, str] | None:
    if scheme not in SCHEMES:
        return "address of a kind that is not read", f"{PLACES} or a path below the image set's folder"
    try:
        parts = urlsplit(place)
        has_place = bool(parts.netloc) and (parts.port is None or parts.port > 0)
    except ValueError:  # brackets or a port that are none
        has_place = False
    if not has_place or (scheme not in WEB_SCHEMES and not parts.path.strip("/")):
        return "address without a place or a name", f"{scheme}://PLACE/NAME"
    if "@" in parts.netloc:
        accepted = "one without: the store's own library finds them in the environment or in its own files"
        return "address with a user name or password", accepted
    if "#" in place and scheme in WEB_SCHEMES:
        return "address with a # that names no member or row", "%23 where # is part of a name"
    return None


def shown(path: str) -> str:
    """A cell of `images.path` as anybody may see it: without user name, password and query."""
    return without_secrets(path) if "://" in path else path


def without_secrets(text: str) -> str:
    """A text in which no address has a user name, a password or a query any more."""
    return _QUERY.sub(r"\1?(hidden)", _USER.sub(r"\1", text))


def sentence(text: object) -> str:
    """What another program said, fit for a table: one line, not too long, without secrets."""
    line = " ".join(without_secrets(str(text)).split())
    return line if len(line) <= _LONGEST_SENTENCE else line[:_LONGEST_SENTENCE] + "..."
