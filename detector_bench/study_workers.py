"""Processes on this machine that judge the shards of one study, each with its share of cores or its own GPU.

The parent hands out shards and the workers tell how they get on: lines of JSON each way. A worker keeps its loaded
networks from shard to shard. One that ends without a word is replaced, and its shard is judged by another.
"""

from __future__ import annotations

import _thread
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, Queue
from typing import Any, TextIO

from detector_bench.errors import (
    ConfigError,
    DetectorBenchError,
    MissingExtraError,
    RunInterruptedError,
    WeightsError,
)
from detector_bench.interruption import listen_for_stop
from detector_bench.perception.answers.budget import BudgetReachedError
from detector_bench.plugins import load_plugins, plugin_paths
from detector_bench.runner.run import RunSession
from detector_bench.runner.run_record import ProgressListener, RunProgress, RunRecord, SilentListener
from detector_bench.runner.shard_ledger import ShardTakenError
from detector_bench.runner.shards import Shard
from detector_bench.study_configuration import StudyConfiguration
from detector_bench.study_session import RunOrder, session_of
from detector_bench.trust import granted_as_text, take_over

_MOST_TRIES = 3
"""A shard at which so many workers have died is given up: it is not by chance."""

_SECONDS_BETWEEN_LINES = 0.5
_SECONDS_TO_END = 60.0
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def run_with_workers(
    study: StudyConfiguration,
    out: Path,
    order: RunOrder,
    *,
    session: RunSession,
    progress: ProgressListener | None = None,
) -> RunRecord:
    """Judge what is missing in all shards by `order.processes` processes.

    Args:
        study: is handed to the workers as a file; plugin files are loaded there again.
        out: the result folder.
        order: what is asked for.
        session: decides on the layout; judges nothing here.
        progress: is told now and then.

    Returns:
        The versions that judged; what each session did stands in the shards' manifests.

    Raises:
        RunInterruptedError: Ctrl-C; what was done is stored.
        DetectorBenchError: what a worker met that the user can mend, or a shard at which workers die.
    """
    shards = Shard.all(session.decide_layout())
    state = RunProgress(total=session.images, shards=len(shards))
    with tempfile.TemporaryDirectory(prefix="detector-bench-") as folder:
        study.write(Path(folder))
        crew = _Crew(
            study_file=Path(folder) / "study.yaml",
            out=out,
            order=order.model_copy(
                update={"workers": 1, "threads": order.cores_each, "session": session.settings.session}
            ),
            shards=deque(shards),
        )
        listener = progress or SilentListener()
        listener.update(state)
        try:
            with session.telling_what_is_left():
                crew.work(order.processes, state, listener)
        except KeyboardInterrupt:
            raise RunInterruptedError(
                f"stopped after {state.done:,} of {state.total - state.reused:,} images; nothing is lost: "
                "run the same command again to go on"
            ) from None
        finally:
            crew.end()
    if crew.given_up:
        first = min(crew.given_up)
        for shard, reason in crew.given_up.items():
            session.ledger.fail(shard, reason)
        raise DetectorBenchError(
            f"{len(crew.given_up)} of {len(shards)} shards are not done; shard {first}: {crew.given_up[first]}. "
            "All else is stored: run the same command again to go on"
        )
    session.run_left(crew.taken, state=state, progress=listener)
    return session.described()


@dataclass
class _Worker:
    process: subprocess.Popen[str]
    place: int
    shard: Shard | None = None
    told: RunProgress = field(default_factory=lambda: RunProgress(total=0))


@dataclass
class _Crew:
    """The workers of a run, and the shards that are left."""

    study_file: Path
    out: Path
    order: RunOrder
    shards: deque[Shard]
    given_up: dict[Shard, str] = field(default_factory=dict)
    taken: list[Shard] = field(default_factory=list)
    _tries: Counter[Shard] = field(default_factory=Counter)
    _workers: list[_Worker] = field(default_factory=list)
    _gone: list[RunProgress] = field(default_factory=list)
    _heard: Queue[tuple[_Worker, dict[str, Any] | None]] = field(default_factory=Queue)
    _problem: DetectorBenchError | None = None
    _early: int = 0

    def work(self, workers: int, state: RunProgress, progress: ProgressListener) -> None:
        for place in range(min(workers, len(self.shards))):
            self._start(place)
        while self._workers:
            try:
                worker, message = self._heard.get(timeout=0.5)
            except Empty:
                continue
            if message is None:
                self._lost(worker)
            else:
                self._take(worker, message)
            self._add_up(state)
            progress.update(state)
        if self._problem is not None:
            raise self._problem
        if self.shards:
            raise DetectorBenchError(
                f"worker processes ended before {len(self.shards)} shards were judged; all else is stored: run "
                "the same command again to go on"
            )

    def end(self) -> None:
        """Let workers that are still there come to an end: without their input they store what they have."""
        for worker in self._workers:
            _close(worker.process)
        until = time.monotonic() + _SECONDS_TO_END
        for worker in self._workers:
            try:
                worker.process.wait(timeout=max(0.0, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                worker.process.kill()

    def _start(self, place: int) -> None:
        job = {
            "study": str(self.study_file.resolve()),
            "out": str(self.out.resolve()),
            "order": self.order.model_dump(mode="json"),
            "plugins": [str(path) for path in plugin_paths()],
            "allowed": granted_as_text(),
        }
        process = subprocess.Popen(  # noqa: S603
            # Without the working directory among the places that modules are taken from: it may be a stranger's.
            [sys.executable, "-P", "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=_environment(place, threads=self.order.threads or 1),
            start_new_session=True,  # Ctrl-C comes to the parent, which lets the workers end
        )
        worker = _Worker(process, place)
        self._workers.append(worker)
        _send(process, job)
        threading.Thread(target=self._listen, args=(worker,), daemon=True).start()

    def _listen(self, worker: _Worker) -> None:
        assert worker.process.stdout is not None  # noqa: S101 - it was asked for
        for line in worker.process.stdout:
            with suppress(ValueError):  # the last line of one that was killed
                self._heard.put((worker, json.loads(line)))
        worker.process.wait()
        self._heard.put((worker, None))

    def _take(self, worker: _Worker, message: Mapping[str, Any]) -> None:
        if "progress" in message:
            worker.told = RunProgress.of_data(message["progress"])
            return
        if "problem" in message:
            # The user has to mend it, and it would be the same with every shard.
            kind = _PROBLEMS.get(message["kind"], DetectorBenchError)
            self._problem = self._problem or kind(message["problem"])
            self.shards.clear()
        elif message.get("taken"):
            self.taken.append(worker.shard or Shard())
        worker.shard = None
        if self.shards:
            worker.shard = self.shards.popleft()
            _send(worker.process, {"shard": str(worker.shard)})
        else:
            _close(worker.process)

    def _lost(self, worker: _Worker) -> None:
        self._workers.remove(worker)
        self._gone.append(worker.told)
        if worker.shard is None:
            if self.shards:
                self._restart(worker)
            return
        self._tries[worker.shard] += 1
        if self._tries[worker.shard] >= _MOST_TRIES:
            self.given_up[worker.shard] = (
                f"{_MOST_TRIES} processes died on it, the last {_how(worker.process)}; is there memory enough for "
                "so many workers?"
            )
        else:
            self.shards.appendleft(worker.shard)
        if self.shards and self._problem is None:
            self._start(worker.place)

    def _restart(self, worker: _Worker) -> None:
        """In place of one that died before it had a shard."""
        self._early += 1
        if self._early < _MOST_TRIES:
            self._start(worker.place)
        elif not self._workers:
            self._problem = DetectorBenchError(f"worker processes end at once, the last {_how(worker.process)}")

    def _add_up(self, state: RunProgress) -> None:
        told = [*self._gone, *(worker.told for worker in self._workers)]
        for name in ("reused", "done", "from_cache", "shards_done", "damaged", "damaged_results"):
            setattr(state, name, sum(getattr(each, name) for each in told))
        state.counts, state.spent = {}, {}
        for each in told:
            for detector, counts in each.counts.items():
                state.counts.setdefault(detector, Counter()).update(counts)
            for currency, amount in each.spent.items():
                state.spent[currency] = state.spent.get(currency, 0.0) + amount


def _environment(place: int, *, threads: int) -> dict[str, str]:
    """A worker's environment: its share of cores, and its GPU where there are several."""
    found = dict(os.environ) | {name: str(threads) for name in _THREAD_VARIABLES}
    devices = _gpus()
    if devices:
        found["CUDA_VISIBLE_DEVICES"] = devices[place % len(devices)]
    return found


def _gpus() -> list[str]:
    """The NVIDIA GPUs that this process may use, as `CUDA_VISIBLE_DEVICES` names them; empty without any."""
    given = os.environ.get("CUDA_VISIBLE_DEVICES")
    if given is not None:
        return [each.strip() for each in given.split(",") if each.strip()]
    try:
        command = ["nvidia-smi", "-L"]
        listed = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return []
    return [str(number) for number, line in enumerate(listed.stdout.splitlines()) if line.startswith("GPU ")]


def _send(process: subprocess.Popen[str], message: Mapping[str, Any]) -> None:
    assert process.stdin is not None  # noqa: S101 - it was asked for
    with suppress(OSError):  # it is gone, and will be missed where its messages are read
        process.stdin.write(json.dumps(message) + "\n")
        process.stdin.flush()


def _close(process: subprocess.Popen[str]) -> None:
    if process.stdin is not None:
        with suppress(OSError):
            process.stdin.close()


def _how(process: subprocess.Popen[str]) -> str:
    code = process.returncode
    if code is not None and code < 0:
        return f"by signal {signal.Signals(-code).name}"
    return f"with status {code}"


_PROBLEMS: Mapping[str, type[DetectorBenchError]] = {
    kind.__name__: kind for kind in (BudgetReachedError, ConfigError, MissingExtraError, WeightsError)
}
"""What a worker tells of, so that its parent can act on it as if it had judged itself."""


class _Teller:
    """Sends a worker's progress to its parent, now and then; as a `ProgressListener`."""

    def __init__(self, parent: TextIO) -> None:
        self._parent = parent
        self._last = 0.0

    def update(self, progress: RunProgress) -> None:
        if time.monotonic() - self._last >= _SECONDS_BETWEEN_LINES:
            self.say(progress=progress.as_data())
            self._last = time.monotonic()

    def say(self, **message: Any) -> None:
        self._parent.write(json.dumps(message) + "\n")
        self._parent.flush()


def main() -> None:
    """A worker's work: read the job, then judge shard after shard until the input ends."""
    # Who stops a job often tells each of its processes; the parent then closes this one's input, too.
    listen_for_stop()
    # A stop may come at any line: what was judged is stored, and nobody waits for a word about it.
    with suppress(KeyboardInterrupt, BrokenPipeError), _own_output() as parent:
        _work(_Teller(parent), _Orders())


def _work(teller: _Teller, orders: _Orders) -> None:
    try:
        job = orders.next()
        if job is None:
            return
        take_over(job["allowed"])
        load_plugins([Path(path) for path in job["plugins"]])
        order = RunOrder.model_validate(job["order"])
        _, session = session_of(StudyConfiguration.from_yaml(job["study"]), Path(job["out"]), order)
        teller.say(ready=True)
        state = RunProgress(total=0)
        while (message := orders.next()) is not None:
            shard = Shard.parse(message["shard"])
            try:
                session.run_shard(shard, state=state, progress=teller)
                teller.say(progress=state.as_data())
                teller.say(done=str(shard))
            except ShardTakenError:
                teller.say(taken=str(shard))
    except (RunInterruptedError, BrokenPipeError):
        return  # the parent is gone, or does not want any more; what was judged is stored
    except DetectorBenchError as error:
        with suppress(OSError):
            teller.say(problem=str(error), kind=type(error).__name__)


class _Orders:
    """Lines from the parent. When they end while a shard is being judged, the work is interrupted and stored."""

    def __init__(self) -> None:
        self._queue: Queue[dict[str, Any] | None] = Queue()
        self._waiting = False
        threading.Thread(target=self._read, daemon=True).start()

    def next(self) -> dict[str, Any] | None:
        self._waiting = True
        message = self._queue.get()
        self._waiting = False
        return message

    def _read(self) -> None:
        for line in sys.stdin:
            self._queue.put(json.loads(line))
        self._queue.put(None)
        if not self._waiting:
            _thread.interrupt_main()


@contextmanager
def _own_output() -> Iterator[TextIO]:
    """The standard output for the parent alone: what libraries print goes to the standard error."""
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as parent:
        os.dup2(2, 1)
        yield parent


if __name__ == "__main__":
    main()
