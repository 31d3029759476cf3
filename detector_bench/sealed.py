"""JSON records that know their own sha256, so that a damaged one is never taken for what was written."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from detector_bench.atomic_files import write_text

SEAL = "seal"
"""The key of a record that holds the sha256 of all its other keys."""


class DamagedRecordError(ValueError):
    """A record is not as it was written."""


def digest_of(content: Any) -> str:
    """The sha256 of plain data; spaces, line breaks and the order of keys have no influence."""
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def seal_of(content: Mapping[str, Any]) -> str:
    """The sha256 of a record's content, its seal left out."""
    return digest_of({key: value for key, value in content.items() if key != SEAL})


def write_sealed(path: Path, content: Mapping[str, Any]) -> None:
    """Write plain data as a JSON file with its seal, whole or not at all.

    Raises:
        DetectorBenchError: the disk is full, read-only or the like.
    """
    # What is sealed is what a reader will find: keys are text by then, and a tuple is a list.
    plain = json.loads(json.dumps(content))
    write_text(path, json.dumps({**plain, SEAL: seal_of(plain)}, indent=2, ensure_ascii=False) + "\n")


def sealed_digest(path: Path) -> str | None:
    """The seal of a file that `write_sealed` wrote, if its content fits it; None of one that was never sealed.

    Raises:
        OSError, DamagedRecordError: as `read_sealed`.
    """
    read_sealed(path)
    found = json.loads(path.read_bytes()).get(SEAL)
    return None if found is None else str(found)


def read_sealed(path: Path) -> dict[str, Any]:
    """Read a JSON file that `write_sealed` wrote, without its seal; one that was never sealed is taken as it is.

    Raises:
        OSError: there is no such file, or it cannot be read.
        DamagedRecordError: it is no JSON object, or its content is not what was sealed.
    """
    try:
        content = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise DamagedRecordError(f"it is no JSON ({str(error).splitlines()[0]})") from error
    if not isinstance(content, dict):
        raise DamagedRecordError("it is no JSON object")
    sealed = content.pop(SEAL, None)
    if sealed is not None and sealed != seal_of(content):
        raise DamagedRecordError("it is not as it was written: its seal does not fit")
    return content
