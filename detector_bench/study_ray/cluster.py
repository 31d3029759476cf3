"""The Ray cluster of a run: one that is there already, or a small one on this machine that ends with the run."""

from __future__ import annotations

import logging
import os
import signal
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from threading import current_thread, main_thread
from types import ModuleType
from typing import Any, NamedTuple

from detector_bench.errors import ConfigError
from detector_bench.installation import require
from detector_bench.runner.run_settings import available_cores

_SECONDS_FOR_AN_ANSWER = 10.0

_OBJECT_STORE = 512 * 1024**2
"""Bytes that a cluster of our own keeps encoded images in, on their way to who judges them."""


class Share(NamedTuple):
    """What each worker asks a cluster for.

    Attributes:
        workers: how many there may be.
        gpus: of each.
        cpus: of each.
        threads: how many cores each computes with.
    """

    workers: int
    gpus: float
    cpus: float
    threads: int


class RayCluster:
    """A connection to Ray.

    Args:
        address: of a cluster that runs: `auto`, `ray://host:10001` or `host:6379`. None starts one here, or takes
            what this process is connected to already.

    Attributes:
        ray: the package.
        is_own: whether the cluster was started here, for this run alone.

    Raises:
        MissingExtraError: Ray is not installed.
    """

    def __init__(self, address: str | None) -> None:
        self.ray: ModuleType = require("ray", extra="ray")
        self.is_own = address is None and not self.ray.is_initialized()
        self._address = address
        self._opened = False
        self._variables: list[str] = []

    def open(self) -> None:
        """Connect, or start.

        Raises:
            ConfigError: nobody answers at the address, or Ray cannot start here; one line.
        """
        try:
            if self._address is not None:
                _require_answer(self._address)
        except (OSError, ValueError) as error:
            raise ConfigError(f"--address {self._address}: no Ray cluster: {_first_line(error)}") from error
        if self.ray.is_initialized():
            if self._address is not None:
                raise ConfigError("this process is connected to a Ray cluster already: leave out the address")
            return
        self._set("RAY_USAGE_STATS_ENABLED", "0")
        logging.getLogger("ray").setLevel(logging.ERROR)
        quiet: dict[str, Any] = {"log_to_driver": False, "configure_logging": False, "logging_level": "ERROR"}
        own: dict[str, Any] = {
            "num_cpus": available_cores(),
            "include_dashboard": False,
            "object_store_memory": _OBJECT_STORE,
        }
        try:
            self._opened = True  # also of what an interruption leaves half started
            with _signals_as_before():
                # Without an address RAY_ADDRESS would name another cluster.
                self.ray.init(self._address or "local", **quiet, **(own if self.is_own else {}))
        except Exception as error:  # it raises what its parts raise
            self.close()
            what = "Ray cannot be started here" if self.is_own else f"--address {self._address}: no Ray cluster"
            raise ConfigError(f"{what}: {_first_line(error)}") from error

    def close(self) -> None:
        """End the connection, and the cluster if it was started here."""
        if self._opened:
            self.ray.shutdown()
            self._opened = False
        self._reset()

    def share(self, workers: int | None, threads: int | None) -> Share:
        """What to ask for: a GPU each where there are some, else a share of the cores.

        Args:
            workers: how many were asked for; None: one per GPU, or one per node.
            threads: how many cores each may compute with; None: its share.
        """
        nodes = [node["Resources"] for node in self.ray.nodes() if node["Alive"]]
        gpus = sum(node.get("GPU", 0.0) for node in nodes)
        cpus = sum(node.get("CPU", 0.0) for node in nodes)
        if gpus:
            workers = workers or int(gpus)
            by_gpu = min(node.get("CPU", 1.0) / node["GPU"] for node in nodes if node.get("GPU"))
            # In a cluster that grows, each waits for a GPU of its own.
            share = min(1.0, gpus / workers) if self.is_own else 1.0
            return Share(workers, share, _whole(by_gpu * share), threads or max(1, int(by_gpu * share)))
        workers = workers or max(1, sum(node.get("CPU", 0.0) > 0 for node in nodes))
        largest = max((node.get("CPU", 0.0) for node in nodes), default=0.0)
        part = min(cpus / workers, largest) if cpus else 1.0
        if not self.is_own:
            part = max(1.0, part)
        return Share(workers, 0.0, _whole(part), threads or max(1, int(part)))

    def _set(self, name: str, value: str) -> None:
        if name not in os.environ:
            self._variables.append(name)
            os.environ[name] = value

    def _reset(self) -> None:
        for name in self._variables:
            os.environ.pop(name, None)
        self._variables.clear()


def _require_answer(address: str) -> None:
    """Ask whether anybody listens: Ray itself would try for many minutes.

    Raises:
        OSError: nobody does.
        ValueError: it is no address.
    """
    if address == "auto":
        address = os.environ.get("RAY_ADDRESS") or "auto"
    if address != "auto":
        host, _, port = address.removeprefix("ray://").rpartition(":")
        if not host or not port.isdigit():
            raise ValueError("expected auto, ray://HOST:PORT or HOST:PORT")
        socket.create_connection((host.strip("[]"), int(port)), timeout=_SECONDS_FOR_AN_ANSWER).close()


def _whole(cpus: float) -> float:
    """Ray takes whole numbers, and shares of one."""
    return float(int(cpus)) if cpus >= 1 else cpus


@contextmanager
def _signals_as_before() -> Iterator[None]:
    """Ray ends the process at SIGTERM; here it is an interruption like Ctrl-C."""
    if current_thread() is not main_thread():  # no other hears of signals
        yield
        return
    held: Mapping[int, Any] = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in held.items():
            if signal.getsignal(number) is not handler:
                signal.signal(number, handler)


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
