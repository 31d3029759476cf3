"""Reads networks and processors from checkpoint folders with transformers: quietly, and safely."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from detector_bench.errors import WeightsError


def from_folder(cls: Any, folder: Path, **settings: Any) -> Any:
    """`cls.from_pretrained` of a folder on this machine.

    Raises:
        WeightsError: transformers cannot read it.
    """
    try:
        return cls.from_pretrained(folder, local_files_only=True, **settings)
    except Exception as error:  # transformers and safetensors raise many sorts
        raise WeightsError(f"transformers cannot read {cls.__name__} from {str(folder)!r}: {error}") from error


@contextmanager
def silenced(transformers: Any) -> Iterator[None]:
    """Without transformers' progress bars and its reports about weights; callers check those themselves."""
    log = transformers.logging
    level, bars = log.get_verbosity(), log.is_progress_bar_enabled()
    log.set_verbosity_error()
    log.disable_progress_bar()
    try:
        yield
    finally:
        log.set_verbosity(level)
        if bars:
            log.enable_progress_bar()
