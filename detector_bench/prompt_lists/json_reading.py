"""Reads a JSON object from a file, with mistakes reported at their line."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from detector_bench.errors import DataError, Problem


def read_json_object(path: Path) -> dict[str, Any]:
    """Read a JSON file that holds an object. A key that is given twice is a mistake, not an overwritten value.

    Raises:
        DataError: the file cannot be read, is no JSON or no object, or repeats a key.
    """
    repeated: list[str] = []

    def checked(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        repeated.extend(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        return dict(pairs)

    try:
        content = json.loads(path.read_text(encoding="utf-8-sig"), object_pairs_hook=checked)
    except OSError as error:
        reason = error.strerror or str(error)
        raise DataError([Problem(path.name, f"the file cannot be read ({reason})", accepted="JSON")]) from error
    except json.JSONDecodeError as error:
        message = f"cannot be read as JSON ({error.msg})"
        raise DataError([Problem(path.name, message, row=error.lineno, accepted="an object { ... }")]) from error
    except UnicodeDecodeError as error:
        raise DataError([Problem(path.name, "wrong encoding", accepted="UTF-8 text")]) from error
    if not isinstance(content, dict):
        message = "the file holds no object"
        raise DataError([Problem(path.name, message, value=type(content).__name__, accepted="an object { ... }")])
    if repeated:
        raise DataError(
            [Problem(path.name, "duplicate key", column=key, value=key, accepted="each once") for key in repeated]
        )
    return content
