"""Fixtures that several test files share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def shared() -> Path:
    """Data and weights that developers and continuous integration have, and users have not."""
    named = os.environ.get("DETECTOR_BENCH_SHARED")
    folder = Path(named) if named else Path(__file__).resolve().parents[2] / "shared"
    if not (folder / "data").is_dir():
        pytest.skip(f"the developers' data folder {folder} is not here (set DETECTOR_BENCH_SHARED)")
    return folder
