"""Who predicts the shards of a job: this process, workers beside it, a Ray cluster, an array of Slurm.

All of them call `Runner.predict`, shard by shard; a shard's lock says who has it, so that a second terminal, or
another scheduler, is one more of them. They differ only in who starts processes. Engines predict; who finds no
shard held by others (`Claimed.held`) writes the results. A worker is `python -P -m detector_bench_next.engines
JOB FIRST`.
"""

from __future__ import annotations

import json
import logging
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import Empty, Queue
from shutil import copyfile, rmtree
from types import FrameType, MappingProxyType
from typing import Any, NamedTuple, NoReturn, TextIO

from filelock import FileLock, Timeout

from detector_bench_next import errors
from detector_bench_next.errors import ConfigError, DetectorBenchError, Interrupted, require
from detector_bench_next.files import write_text
from detector_bench_next.predictions import Plan, Shard
from detector_bench_next.registry import plugins
from detector_bench_next.runner import Job, Progress, Runner, Taken, available_cores

__all__ = [
    "Claimed",
    "available_cores",
    "claim",
    "run_here",
    "run_local",
    "run_ray",
    "slurm_script",
    "stop_politely",
]

_SECONDS_TO_LOOK = 2.0
"""A lock may be held by one who only looks."""
_SECONDS_TO_END = 60.0
_SECONDS_BETWEEN_LINES = 0.5
_SECONDS_FOR_PLAN = 300.0
_TRIES = 3
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
_PASSED_ON = (
    "DETECTOR_BENCH_WEIGHTS",
    "DETECTOR_BENCH_CACHE",
    "DETECTOR_BENCH_ALLOWED",
    "DETECTOR_BENCH_IMAGE_ROOTS",
)
_TASKS_AT_ONCE, _MOST_TASKS = 16, 1_000
_log = logging.getLogger(__name__)


class Claimed(NamedTuple):
    """Outcome of going over the shards of a job."""

    predicted: int
    """Images that were predicted."""
    held: tuple[int, ...]
    """Shards that other processes hold; after `--shard`, all that are not done."""
    left_out: Mapping[str, str] = MappingProxyType({})
    """What detectors lack that were left out, by name."""
    from_cache: int = 0
    """Predicted images whose stages were all in the cache."""


def claim(job: Job, first: int = 0, progress: Progress | None = None) -> Claimed:
    """Predict all shards that no other process has, from `first` on, until all are done or held.

    Raises:
        DetectorBenchError: as `Runner.predict`.
    """
    return _claim(_told(Runner(job), progress), first, time.time())


def run_here(job: Job, shard: Shard | None = None, progress: Progress | None = None) -> Claimed:
    """Predict in this process: all shards, or one.

    Args:
        job: what is predicted.
        shard: the one shard of `--shard`.
        progress: callback, called after every batch.

    Raises:
        ConfigError: the folder is cut otherwise, or other versions of the detectors predict in it.
        Interrupted: Ctrl-C or SIGTERM; what was predicted is stored.
        DetectorBenchError: as `Runner.predict`.
    """
    runner = Runner(job)
    if shard is None:
        Plan(job.shards, runner.fingerprints).write(runner.folder)
        return _claim(_told(runner, progress), 0, time.time())
    _follow_plan(runner, shard)
    told = _Told(runner, progress, len(runner.images_of(shard)))
    with told.interruptions():
        try:
            told.predict(shard, wait=_SECONDS_TO_LOOK)
        except Taken:
            return Claimed(0, (shard.number,), runner.left_out)
        others = (Shard(n, shard.count) for n in range(1, shard.count + 1) if n != shard.number)
        return told.claimed(other.number for other in others if not runner.complete(other))


def run_local(job: Job, workers: int, progress: Progress | None = None) -> Claimed:
    """Predict by worker processes of this machine, each with its share of the cores, or one GPU.

    Args:
        job: what is predicted.
        workers: number of processes.
        progress: callback, called about twice a second.

    Raises:
        Interrupted: Ctrl-C or SIGTERM; what was predicted is stored.
        DetectorBenchError: what a worker met that the user must mend; or all of them died.
    """
    runner = Runner(job)
    Plan(job.shards, runner.fingerprints).write(runner.folder)
    with _packed(job, threads=job.threads or max(1, available_cores() // workers)) as file:
        crew = _Crew(file, job.shards, len(runner.image_set.images), progress)
        try:
            return crew.work(min(workers, job.shards))
        except KeyboardInterrupt:
            raise _interrupted(*crew.counts()[:2]) from None
        finally:
            crew.end()


def run_ray(job: Job, workers: int, address: str = "") -> Claimed:
    """Predict by tasks of Ray, each with a GPU where the cluster has some, else its share of the cores.

    All nodes must see the result folder, the image set and the weights under the same paths.

    Args:
        job: what is predicted.
        workers: number of tasks.
        address: `auto`, `ray://HOST:PORT` or `HOST:PORT`; empty starts a cluster on this machine for this call.

    Raises:
        MissingExtraError: Ray is not installed.
        ConfigError: there is no cluster.
        Interrupted: Ctrl-C or SIGTERM; what was predicted is stored.
        DetectorBenchError: what a task met that the user must mend; or all of them died.
    """
    ray = require("ray", "ray")
    runner = Runner(job)
    Plan(job.shards, runner.fingerprints).write(runner.folder)
    with _cluster(ray, address):
        cpus, gpus, threads = _share(ray, workers, own=not address)
        names = {*_THREADS, *(name for d in runner.detectors for name in d.variables())}
        given = {
            name: text for name, text in os.environ.items() if name.startswith("DETECTOR_BENCH_") or name in names
        }
        variables = given | dict.fromkeys(_THREADS, str(threads))
        options = {"num_cpus": cpus, "num_gpus": gpus, "max_retries": 3, "runtime_env": {"env_vars": variables}}
        with _packed(job, threads=threads) as file:
            task = ray.remote(**options)(_ray_task)
            tasks = [task.remote(str(file), n * job.shards // workers, str(Path.cwd())) for n in range(workers)]
            return _gathered(ray, tasks)


def slurm_script(job: Job, words: Sequence[str], file: Path) -> Path:
    """Write a script for Slurm: an array of which each task predicts one shard.

    The folder of its logs is made now, since Slurm wants it to be there. No key of a service stands in the script.

    Args:
        job: gives the result folder and the number of shards.
        words: the command behind the program's name, without `--shard`: `run`, `study.yaml`, `--out`, ...
        file: the script.

    Raises:
        ConfigError: a word that a line cannot hold.
    """
    given = {name: os.environ[name] for name in _PASSED_ON if os.environ.get(name)}
    for text in (*words, str(job.out), str(file), str(Path.cwd()), *given.values()):
        if not text.isprintable():  # behind a line break a comment is over, and what follows would be a command
            raise ConfigError(f"--slurm: {text!r} cannot stand in a script (accepted: printable characters)")
    if job.shards > _MOST_TASKS:
        _log.warning("%s tasks: many clusters take array indices up to 1,000 (MaxArraySize)", f"{job.shards:,}")
    (job.out / "logs").mkdir(parents=True, exist_ok=True)
    lines: list[list[str]] = [[]]
    for word in words:
        if word.startswith("--"):
            lines.append([])
        lines[-1].append(shlex.quote(word))
    first, *options = [" ".join(line) for line in lines]
    program = f"exec {shlex.quote(sys.executable)} -P -m {__name__.partition('.')[0]} {first}"
    write_text(
        file,
        _SCRIPT.format(
            script=shlex.quote(str(file)),
            out=shlex.quote(str(job.out)),
            name=re.sub(r"[^A-Za-z0-9_.-]+", "-", f"detector-bench-{job.out.resolve().name}"),
            shards=job.shards,
            at_once=min(_TASKS_AT_ONCE, job.shards),
            logs=_slurm_value(str(job.out / "logs").replace("%", "%%") + "/shard-%a.log"),
            folder=_slurm_value(str(Path.cwd())),
            exports="".join(f"export {name}={shlex.quote(value)}\n" for name, value in given.items()),
            command=" \\\n    ".join([program, *options, f'--shard "$SLURM_ARRAY_TASK_ID/{job.shards}"']),
        ),
    )
    return file


@contextmanager
def stop_politely() -> Iterator[None]:
    """Treat SIGTERM like Ctrl-C: what is predicted is stored first. A second Ctrl-C ends the process at once.

    Schedulers repeat SIGTERM, so behind a first one both are ignored. A SIGINT that was ignored stays ignored.
    """
    if threading.current_thread() is not threading.main_thread():  # no other hears of signals
        yield
        return

    def stop(number: int, _: FrameType | None) -> NoReturn:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGINT, _end_at_once if number == signal.SIGINT else signal.SIG_IGN)
        raise KeyboardInterrupt

    with _signals_as_before():
        signal.signal(signal.SIGTERM, stop)
        if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
            signal.signal(signal.SIGINT, stop)
        yield


def _end_at_once(number: int, _: FrameType | None) -> NoReturn:
    os.write(2, b"interrupted\n")
    os._exit(128 + number)  # as shells count


@contextmanager
def _signals_as_before() -> Iterator[None]:
    held: dict[int, Any] = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in held.items():
            if threading.current_thread() is threading.main_thread() and signal.getsignal(number) is not handler:
                signal.signal(number, handler or signal.SIG_DFL)


# One process


def _claim(told: _Told, first: int, since: float) -> Claimed:
    count = told.shards

    def look(numbers: Sequence[int]) -> list[int]:
        held = []
        for number in numbers:
            try:
                told.predict(Shard(number, count), since=since)
            except Taken:
                held.append(number)
        return held

    with told.interruptions():
        held, changed = look([(first + n) % count + 1 for n in range(count)]), time.monotonic()
        while held and time.monotonic() - changed < _SECONDS_TO_LOOK:
            time.sleep(0.1)
            if (left := look(held)) != held:
                held, changed = left, time.monotonic()
    return told.claimed(held)


def _told(runner: Runner, progress: Progress | None) -> _Told:
    return _Told(runner, progress, len(runner.image_set.images))


class _Told:
    """Runner with its progress over several shards."""

    def __init__(self, runner: Runner, progress: Progress | None, images: int) -> None:
        self._runner, self._progress, self._images = runner, progress, images
        self.shards = runner.job.shards
        self.done = self.from_cache = 0
        self.known: dict[int, int] = {}
        """Images that needed no prediction when this process came to their shard."""

    @property
    def total(self) -> int:
        return self._images - sum(self.known.values())

    def predict(self, shard: Shard, *, wait: float = 0, since: float | None = None) -> None:
        done, from_cache = self.done, self.from_cache

        def tell(own: int, todo: int, kept: int) -> None:
            self.known[shard.number] = len(self._runner.images_of(shard)) - todo
            self.done, self.from_cache = done + own, from_cache + kept
            if self._progress:
                self._progress(self.done, self.total, self.from_cache)

        self._runner.predict(shard, tell, wait=wait, since=since)

    def claimed(self, held: Iterable[int]) -> Claimed:
        return Claimed(self.done, tuple(sorted(held)), dict(self._runner.left_out), self.from_cache)

    @contextmanager
    def interruptions(self) -> Iterator[None]:
        try:
            yield
        except KeyboardInterrupt:
            raise _interrupted(self.done, self.total) from None


def _interrupted(done: int, total: int) -> Interrupted:
    return Interrupted(
        f"stopped after {done:,} of {total:,} images; nothing is lost: run the same command again to go on"
    )


def _follow_plan(runner: Runner, shard: Shard) -> None:
    """Note what this process predicts in a new folder; refuse another cut than the folder's, and other versions.

    Raises:
        ConfigError: with both numbers, or the first digits of both fingerprints.
    """
    plan = Plan.read(runner.folder)  # without the lock: a thousand tasks may begin at once
    if plan is None or not runner.fingerprints.keys() <= plan.detectors.keys():
        (runner.folder / "_locks").mkdir(parents=True, exist_ok=True)
        try:
            with FileLock(runner.folder / "_locks" / "plan.lock", timeout=_SECONDS_FOR_PLAN):
                known = Plan.read(runner.folder) or Plan(shard.count, {})
                plan = Plan(known.shards, {**runner.fingerprints, **known.detectors})
                plan.write(runner.folder)
        except Timeout:
            raise DetectorBenchError(
                "predictions/_locks/plan.lock is held by another process for minutes"
            ) from None
    if plan.shards != shard.count:
        raise ConfigError(
            f"--shard {shard.number}/{shard.count}: the folder is cut into {plan.shards} shards; name another "
            "--out (the cache has the stage results)"
        )
    _require_versions(runner, plan, "run without --shard to predict with this version, or name another --out")


def _require_versions(runner: Runner, plan: Plan, remedy: str) -> None:
    for name, own in runner.fingerprints.items():
        if (theirs := plan.detectors.get(name, own)) != own:
            raise ConfigError(
                f"detector {name!r}: version {theirs[:12]} predicts in this folder, and here is {own[:12]} (other "
                f"settings, weights or plugins): {remedy}"
            )


# Workers


def _work(file: str, first: int, tell: Callable[[_Told], None] | None = None) -> dict[str, Any]:
    """Outcome of `claim` in a process that was started for it, as plain data."""
    began = Path(file).stat().st_mtime
    try:
        runner = Runner(Job.model_validate_json(Path(file).read_bytes()))
        plan = Plan.read(runner.folder) or Plan(runner.job.shards, {})
        _require_versions(runner, plan, "run the same command again")
        told = _Told(runner, lambda *_: tell(told) if tell else None, len(runner.image_set.images))
        return {"claimed": list(_claim(told, first, began))}
    except Interrupted:
        return {}
    except DetectorBenchError as error:
        return {"problem": str(error), "kind": type(error).__name__}


def _outcome(told: Sequence[Mapping[str, Any]], died: str) -> Claimed:
    """What several processes say together, the last one last.

    Raises:
        DetectorBenchError: the first mistake that one of them met; or none of them came to an end.
    """
    for message in told:
        if "problem" in message:
            kind = getattr(errors, message["kind"], DetectorBenchError)
            raise (DetectorBenchError if kind is errors.DataError else kind)(message["problem"])
    all_ = [Claimed(*message["claimed"]) for message in told if "claimed" in message]
    if not all_:
        raise DetectorBenchError(
            f"{died}; is there memory enough for so many? What was predicted is stored: "
            "run the same command again to go on"
        )
    left_out = {name: lacks for one in all_ for name, lacks in one.left_out.items()}
    predicted, from_cache = sum(one.predicted for one in all_), sum(one.from_cache for one in all_)
    return Claimed(predicted, tuple(all_[-1].held), left_out, from_cache)


@contextmanager
def _packed(job: Job, *, threads: int) -> Iterator[Path]:
    """Job file with copies of the plugins in the result folder, which nodes see; it stays as it is meanwhile."""
    folder = job.out.absolute() / "_job" / f"{socket.gethostname()}-{os.getpid()}"
    known = {plugin.path: plugin for plugin in plugins()}
    copies = []
    try:
        for number, path in enumerate(job.plugins):
            plugin = known[path.resolve()]
            for name, file in plugin.files.items():
                place = folder / f"plugin-{number}" / name
                place.parent.mkdir(parents=True, exist_ok=True)
                copyfile(file, place)
            copies.append(folder / f"plugin-{number}" / plugin.path.name)
        places = {name: place.absolute() for name in _PLACES if (place := getattr(job, name)) is not None}
        full = job.model_copy(update={**places, "plugins": tuple(copies), "threads": threads})
        write_text(folder / "job.json", full.model_dump_json(indent=1) + "\n")
        yield folder / "job.json"
    finally:
        rmtree(folder, ignore_errors=True)
        with suppress(OSError):
            folder.parent.rmdir()


_PLACES = ("image_set", "out", "weights_dir", "cache_dir")


class _Worker:
    """A worker process, how far it is, and what it said last."""

    def __init__(self, process: subprocess.Popen[str], place: int) -> None:
        self.process, self.place = process, place
        self.done = self.from_cache = 0
        self.outcome: dict[str, Any] = {}


class _Crew:
    """Worker processes of one run."""

    def __init__(self, file: Path, shards: int, images: int, progress: Progress | None) -> None:
        self._file, self._shards, self._images, self._progress = file, shards, images, progress
        self._known: dict[str, int] = {}
        self._workers: list[_Worker] = []
        self._ended: list[_Worker] = []
        self._heard: Queue[tuple[_Worker, dict[str, Any] | None]] = Queue()

    def work(self, workers: int) -> Claimed:
        for place in range(workers):
            self._start(place, workers)
        died = tries = 0
        while self._workers:
            with suppress(Empty):
                worker, message = self._heard.get(timeout=0.5)
                if message is None:
                    self._workers.remove(worker)
                    self._ended.append(worker)
                    died += not worker.outcome
                elif "done" in message:
                    worker.done, worker.from_cache = message["done"], message["from_cache"]
                    self._known = message["known"] | self._known
                else:
                    worker.outcome = message
                    worker.done, _, _, worker.from_cache = message.get("claimed", (worker.done, (), {}, 0))
                    if "problem" in message:  # it would be the same with every shard
                        break
            if self._progress:
                self._progress(*self.counts())
            # Shards of one that died are free, and others take them; behind the last one somebody looks once more.
            if not self._workers and died and tries < _TRIES and any(w.outcome for w in self._ended):
                died, tries = 0, tries + 1
                self._start(worker.place, workers)
        last = self._ended[-1].process if self._ended else None
        told = [worker.outcome for worker in (*self._ended, *self._workers)]
        return _outcome(told, f"{workers} worker processes died, the last {_how(last)}")

    def counts(self) -> tuple[int, int, int]:
        """Images done, images to do, done from the cache; of all workers."""
        workers = (*self._ended, *self._workers)
        total = self._images - sum(self._known.values())
        return sum(w.done for w in workers), total, sum(w.from_cache for w in workers)

    def end(self) -> None:
        """Let workers that are still there store what they have, and end."""
        for worker in self._workers:
            worker.process.terminate()
        until = time.monotonic() + _SECONDS_TO_END
        for worker in self._workers:
            try:
                worker.process.wait(timeout=max(0.0, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                worker.process.kill()

    def _start(self, place: int, workers: int) -> None:
        first = place * self._shards // workers
        # Without the working folder among the places of modules: it may be a stranger's.
        command = [
            sys.executable,
            "-P",
            "-m",
            __spec__.name if __spec__ else __name__,
            str(self._file),
            str(first),
        ]
        process = subprocess.Popen(  # noqa: S603
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=_environment(self._file, place),
            start_new_session=True,  # Ctrl-C comes to the parent, which lets the workers end
        )
        worker = _Worker(process, place)
        self._workers.append(worker)
        threading.Thread(target=self._listen, args=(worker,), daemon=True).start()

    def _listen(self, worker: _Worker) -> None:
        assert worker.process.stdout is not None  # noqa: S101 - it was asked for
        for line in worker.process.stdout:
            with suppress(ValueError):  # the last line of one that was killed
                self._heard.put((worker, json.loads(line)))
        worker.process.wait()
        self._heard.put((worker, None))


def _environment(file: Path, place: int) -> dict[str, str]:
    """A worker's environment, which counts before numpy is imported: threads, and its GPU."""
    found = dict(os.environ) | dict.fromkeys(_THREADS, str(json.loads(file.read_text())["threads"]))
    root = Path(__file__).parents[1]
    if root.name not in ("site-packages", "dist-packages"):  # a checkout that is not installed
        found["PYTHONPATH"] = os.pathsep.join([str(root), *filter(None, [os.environ.get("PYTHONPATH")])])
    if gpus := _gpus():
        found["CUDA_VISIBLE_DEVICES"] = gpus[place % len(gpus)]
    return found


def _gpus() -> list[str]:
    """NVIDIA GPUs that this process may use, as CUDA_VISIBLE_DEVICES names them."""
    given = os.environ.get("CUDA_VISIBLE_DEVICES")
    if given is not None:
        return [name.strip() for name in given.split(",") if name.strip()]
    try:
        command = ["nvidia-smi", "-L"]
        listed = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return []
    return [str(n) for n, line in enumerate(listed.stdout.splitlines()) if line.startswith("GPU ")]


def _how(process: subprocess.Popen[str] | None) -> str:
    code = process.returncode if process else None
    if code is not None and code < 0:
        return f"by signal {signal.Signals(-code).name}"
    return f"with status {code}"


def _main(file: str, first: str) -> None:
    """A worker: predicts what it can claim; its standard output is lines of JSON for its parent."""
    # A stop may come at any line: what was predicted is stored, and nobody waits for a word about it.
    with suppress(KeyboardInterrupt, BrokenPipeError), _own_output() as parent, stop_politely():
        threading.Thread(target=_stop_with_parent, daemon=True).start()
        last = 0.0

        def tell(**message: Any) -> None:
            parent.write(json.dumps(message) + "\n")
            parent.flush()

        def progress(told: _Told) -> None:
            nonlocal last
            if told.done == told.total or time.monotonic() - last >= _SECONDS_BETWEEN_LINES:
                last = time.monotonic()
                tell(done=told.done, from_cache=told.from_cache, known=told.known)

        tell(**_work(file, int(first), progress))


def _stop_with_parent() -> None:
    """Stop this process when its standard input ends: then its parent is gone."""
    while os.read(0, 1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


@contextmanager
def _own_output() -> Iterator[TextIO]:
    """The standard output for the parent alone: what libraries print goes to the standard error."""
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as parent:
        os.dup2(2, 1)
        yield parent


# Ray


def _ray_task(file: str, first: int, folder: str) -> dict[str, Any]:
    with suppress(OSError):  # relative paths in a study start there
        os.chdir(folder)
    return _work(file, first)


def _gathered(ray: Any, tasks: list[Any]) -> Claimed:
    told, waiting, died = [], list(tasks), ""
    try:
        while waiting:
            ready, waiting = ray.wait(waiting, timeout=1.0)
            for task in ready:
                try:
                    told.append(ray.get(task))
                except ray.exceptions.RayError as error:
                    died = _first_line(error)
    except KeyboardInterrupt:
        for task in waiting:
            ray.cancel(task)  # an interruption there, which stores
        ray.wait(waiting, num_returns=len(waiting), timeout=_SECONDS_TO_END)
        raise Interrupted("stopped; nothing is lost: run the same command again to go on") from None
    return _outcome(told, f"{len(tasks)} tasks of Ray died, the last: {died}")


@contextmanager
def _cluster(ray: Any, address: str) -> Iterator[None]:
    """A connection to Ray, or a small cluster on this machine for as long as the block takes."""
    if address:
        _require_answer(address)
    quiet: dict[str, Any] = {"log_to_driver": False, "configure_logging": False, "logging_level": "ERROR"}
    own = {} if address else {"num_cpus": available_cores(), "include_dashboard": False}
    logging.getLogger("ray").setLevel(logging.ERROR)
    before = os.environ.get("RAY_USAGE_STATS_ENABLED")
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    is_new = not ray.is_initialized()
    try:
        if is_new:
            with _signals_as_before():  # Ray ends the process at SIGTERM
                ray.init(address or "local", **quiet, **own)  # without "local" RAY_ADDRESS would name another one
        yield
    except (ConnectionError, RuntimeError, TimeoutError, ValueError) as error:
        raise ConfigError(f"--engine ray: no cluster: {_first_line(error)}") from error
    finally:
        if is_new:
            ray.shutdown()
        if before is None:
            os.environ.pop("RAY_USAGE_STATS_ENABLED", None)


def _require_answer(address: str) -> None:
    """Ask whether anybody listens: Ray itself would try for many minutes."""
    if address == "auto":
        address = os.environ.get("RAY_ADDRESS") or "auto"
    if address != "auto":
        host, _, port = address.removeprefix("ray://").rpartition(":")
        if not host or not port.isdigit():
            raise ConfigError(f"--address {address!r}: expected auto, ray://HOST:PORT or HOST:PORT")
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()
        except OSError as error:
            raise ConfigError(f"--address {address}: no Ray cluster: {_first_line(error)}") from None


def _share(ray: Any, workers: int, *, own: bool) -> tuple[float, float, int]:
    """CPUs and GPUs that each task asks for, and the threads that it computes with."""
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    gpus, cpus = (sum(node.get(kind, 0.0) for node in nodes) for kind in ("GPU", "CPU"))
    if gpus:
        each = min(1.0, gpus / workers) if own else 1.0  # in a cluster that grows each waits for one of its own
        part = min(node.get("CPU", 1.0) / node["GPU"] for node in nodes if node.get("GPU")) * each
    else:
        each, part = 0.0, min(cpus / workers, max((node.get("CPU", 0.0) for node in nodes), default=1.0))
        part = part if own else max(1.0, part)
    # Ray takes whole numbers, and shares of one.
    return (float(int(part)) if part >= 1 else part), each, max(1, int(part))


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


# Slurm

_SCRIPT = """\
#!/bin/bash
# Predicts an image set in {shards:,} tasks, each a shard of it. Written by detector-bench; change what you like,
# but not the number of shards.
#
#   sbatch {script}
#       submits it. The task that ends last writes the results: nothing else need be submitted.
#   detector-bench show {out} shards
#       says what is done and which tasks to submit again:
#   sbatch --array=3,7-9 {script}
#
# A task that was killed, preempted or ran out of time goes on where it was when it is submitted again.

#SBATCH --job-name={name}
# Tasks 1 to {shards}, at most {at_once} at the same time.
#SBATCH --array=1-{shards}%{at_once}
#SBATCH --cpus-per-task=4
#SBATCH --mem=8G
# A GPU for each task, and where your cluster wants them a limit of time, a partition, an account: take one # away.
##SBATCH --gpus=1
##SBATCH --time=04:00:00
##SBATCH --partition=NAME
##SBATCH --account=NAME
# A log for each shard; further tries are appended.
#SBATCH --output={logs}
#SBATCH --open-mode=append
# Begin again what was preempted or whose machine failed; tell the task two minutes before its time is over.
#SBATCH --requeue
#SBATCH --signal=B:TERM@120
#SBATCH --chdir={folder}

set -euo pipefail

# Keys of services are not written here: they come from the environment in which you call sbatch.
{exports}
# `exec`: the program itself hears when Slurm stops the task, and stores what is done.
{command}
"""


def _slurm_value(path: str) -> str:
    """A path as Slurm reads it in an option of a script."""
    text = path.replace("\\", "\\\\").replace('"', '\\"')
    return text if re.fullmatch(r"[\w@+=:,./%-]+", text) else f'"{text}"'


if __name__ == "__main__":
    _main(*sys.argv[1:])
