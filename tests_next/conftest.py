"""Fixtures that several test files share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from detector_bench_next.registry import load_plugin
from tests_next.studies import PLUGIN

load_plugin(PLUGIN)  # once for all tests of a process: `shade` is one thing, however a test comes to it


@pytest.fixture(scope="session")
def shared() -> Path:
    """Data and weights that developers and continuous integration have, and users have not."""
    named = os.environ.get("DETECTOR_BENCH_SHARED")
    folder = Path(named) if named else Path(__file__).resolve().parents[2] / "shared"
    if not (folder / "data").is_dir():
        pytest.skip(f"the developers' data folder {folder} is not here (set DETECTOR_BENCH_SHARED)")
    return folder
