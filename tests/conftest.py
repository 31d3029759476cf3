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


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep tests out of the user's cache and away from the user's weights folder."""
    monkeypatch.setenv("DETECTOR_BENCH_CACHE", str(tmp_path_factory.mktemp("cache")))
    monkeypatch.delenv("DETECTOR_BENCH_WEIGHTS", raising=False)
