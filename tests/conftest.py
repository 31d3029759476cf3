"""Fixtures that several test files share."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
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


@pytest.fixture(scope="session", autouse=True)
def _ctrl_c_is_heard() -> Iterator[None]:
    """Hear SIGINT, which a shell has what it starts in the background ignore, and all that this starts in turn."""
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.SIG_IGN:
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="module", autouse=True)
def _attributes_of_its_own() -> Iterator[None]:
    """Forget what attributes a file's tests made known: a name means one thing as long as a process lives."""
    from detector_bench.vocabulary import ATTRIBUTES

    before = dict(ATTRIBUTES._known), dict(ATTRIBUTES._places)
    yield
    for now, then in zip((ATTRIBUTES._known, ATTRIBUTES._places), before, strict=True):
        now.clear()
        now.update(then)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep tests out of the user's cache and away from the user's weights folder."""
    cache = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("DETECTOR_BENCH_CACHE", str(cache))
    monkeypatch.setenv("DETECTOR_BENCH_ENVIRONMENTS", str(cache / "environments"))
    monkeypatch.delenv("DETECTOR_BENCH_WEIGHTS", raising=False)


@pytest.fixture(scope="session", autouse=True)
def _own_permissions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What the user of this machine allows is no matter of tests; those of services bind their keys themselves."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DETECTOR_BENCH_TRUST", str(tmp_path_factory.mktemp("trust") / "trust.yaml"))
        yield


@pytest.fixture(scope="session", autouse=True)
def _no_waiting_for_the_disk() -> Iterator[None]:
    """Leave writing to the disk to the system: no test cuts the power, and each wait is longer than most tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _descriptor: None)
        yield


@pytest.fixture(autouse=True)
def _own_plugin_files() -> Iterator[None]:
    """A plugin file that a test loads is no plugin of the next one: its workers would look for the file."""
    from detector_bench import plugins

    before = dict(plugins._LOADED)
    yield
    plugins._LOADED.clear()
    plugins._LOADED.update(before)


@pytest.fixture
def command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Callable[..., tuple[int, str, str]]]:
    """Run the command line in this process: exit status, standard output, standard error."""
    from detector_bench.cli.app import main

    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setenv("COLUMNS", "200")

    def run(*arguments: str | Path) -> tuple[int, str, str]:
        # What tests have plugged in stays in this process, and cannot be loaded together in a fresh one.
        monkeypatch.setattr("os.cpu_count", lambda: 1)
        monkeypatch.setattr(sys, "argv", ["detector-bench", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        captured = capsys.readouterr()
        return int(ended.value.code or 0), captured.out, captured.err

    yield run
    signal.signal(signal.SIGTERM, before)
