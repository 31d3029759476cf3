"""Environments with real packages, for tests of what cannot be installed beside this project's own."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from detector_bench.errors import DetectorBenchError
from detector_bench.isolated.environments import ENVIRONMENTS_VARIABLE, Environment

KEPT = "DETECTOR_BENCH_TEST_ENVIRONMENTS"
"""Where they are kept; by default in the system's folder of temporary files, for the next run of the tests."""


def environment_of(patch: pytest.MonkeyPatch, *requirements: str) -> Environment:
    """An environment with these packages; where they cannot be fetched, the test is skipped and says why.

    Until `patch` is undone, environments lie where those of tests are kept.
    """
    folder = os.environ.get(KEPT) or Path(tempfile.gettempdir()) / f"detector-bench-environments-{os.getuid()}"
    patch.setenv(ENVIRONMENTS_VARIABLE, str(folder))
    made = Environment(requirements)
    try:
        made.make()
    except DetectorBenchError as error:
        pytest.skip(str(error))
    return made


def packages_of(made: Environment) -> Path:
    """The folder that its packages lie in."""
    (found,) = made.folder.glob("lib/python*/site-packages")
    return found
