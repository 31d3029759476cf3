"""Who predicts the shards of a job: this process, workers beside it, a Ray cluster, an array of Slurm.

All of them call `Runner.predict`, shard by shard; a shard's lock says who has it, so that a second terminal, or
another scheduler, is one more of them. They differ only in who starts processes. Engines predict; who finds no
shard held by others (`Claimed.held`) writes the results. A worker is `python -P -m detector_bench_next.engines JOB
FIRST`.
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
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from pathlib import Path
from shutil import copyfile, rmtree
from string import Template
from types import FrameType, MappingProxyType
from typing import Any, NamedTuple, NoReturn

from filelock import FileLock

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
_TRIES = 3
_PASSED_ON = ("WEIGHTS", "CACHE", "ALLOWED", "IMAGE_ROOTS")
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
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
        DetectorBenchError: as `Runner.predict`; Interrupted at Ctrl-C or SIGTERM, with all stored.
    """
    return _Claiming(Runner(job), progress).all_from(first, time.time())


def run_here(job: Job, shard: Shard | None = None, progress: Progress | None = None) -> Claimed:
    """Predict in this process: all shards, or the one of `--shard`.

    Raises:
        ConfigError: the folder is cut otherwise, or other versions of the detectors predict in it.
        DetectorBenchError: as `claim`.
    """
    if shard is None:
        return _Claiming(_planned(job), progress).all_from(0, time.time())
    runner = Runner(job)
    _follow_plan(runner, shard)
    claiming = _Claiming(runner, progress, len(runner.images_of(shard)))
    try:
        claiming.predict(shard, wait=_SECONDS_TO_LOOK)
    except Taken:
        return claiming.claimed([shard.number])
    others = (Shard(n, shard.count) for n in range(1, shard.count + 1) if n != shard.number)
    return claiming.claimed(other.number for other in others if not runner.complete(other))


def run_local(job: Job, workers: int, progress: Progress | None = None) -> Claimed:
    """Predict by worker processes of this machine, each with its share of the cores, or one GPU.

    Raises:
        DetectorBenchError: as `claim`; what a worker met, or all of them died.
    """
    runner, workers = _planned(job), min(workers, job.shards)
    with _packed(job, threads=job.threads or max(1, available_cores() // workers)) as file:
        crew, told, tries = _Crew(file, len(runner.image_set.images)), list[dict[str, Any]](), 0
        with ThreadPoolExecutor(workers) as pool:
            try:
                calls = {pool.submit(crew.work, n, n * job.shards // workers) for n in range(workers)}
                while calls:
                    ended, calls = wait(calls, timeout=0.5, return_when=FIRST_COMPLETED)
                    told += [call.result() for call in ended]
                    if progress:
                        progress(*crew.counts())
                    if any("problem" in message for message in told):  # it would be the same with every shard
                        break
                    # Shards of one that died are free, and others take them; behind the last one somebody looks.
                    died = sum("died" in message for message in told)
                    if not calls and tries < died <= _TRIES and any("claimed" in message for message in told):
                        tries, calls = died, {pool.submit(crew.work, 0, 0)}
            except KeyboardInterrupt:
                raise _interrupted(*crew.counts()[:2]) from None
            finally:
                crew.end()
        return _outcome(told, f"{workers} worker processes")


def run_ray(job: Job, workers: int, address: str = "") -> Claimed:
    """Predict by tasks of Ray, each with a GPU where the cluster has some, and its share of the cores.

    All nodes must see the result folder, the image set and the weights under the same paths. `address` is `auto`,
    `ray://HOST:PORT` or `HOST:PORT`; empty, it starts a cluster here for the time of the call.

    Raises:
        MissingExtraError, ConfigError: Ray is not installed, or there is no cluster.
        DetectorBenchError: as `claim`; what a task met, or all of them died.
    """
    ray = require("ray", "ray")
    runner = _planned(job)
    with _cluster(ray, address):
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        cores = [int(node.get("CPU", 0)) for node in nodes]
        threads = max(1, min(sum(cores) // workers, max(cores)))
        names = [*_THREADS, *(name for d in runner.detectors for name in d.variables())]
        given = {
            name: text for name, text in os.environ.items() if name.startswith("DETECTOR_BENCH_") or name in names
        }
        task = ray.remote(
            num_cpus=threads,
            num_gpus=int(any(node.get("GPU") for node in nodes)),
            max_retries=_TRIES,
            runtime_env={"env_vars": given | dict.fromkeys(_THREADS, str(threads))},
        )(_ray_task)
        with _packed(job, threads=threads) as file:
            tasks = [task.remote(str(file), n * job.shards // workers, str(Path.cwd())) for n in range(workers)]
            told, waiting = [], tasks
            try:
                while waiting:
                    ready, waiting = ray.wait(waiting, timeout=1.0)
                    try:
                        told += ray.get(ready)
                    except ray.exceptions.RayError as error:
                        told.append({"died": _first_line(error)})
            except KeyboardInterrupt:
                for each in waiting:
                    ray.cancel(each)  # an interruption there, which stores
                ray.wait(waiting, num_returns=len(waiting), timeout=_SECONDS_TO_END)
                raise Interrupted("stopped; nothing is lost: run the same command again to go on") from None
            return _outcome(told, f"{workers} tasks of Ray")


def slurm_script(job: Job, words: Sequence[str], file: Path) -> Path:
    """Write a script for Slurm: an array of which each task predicts one shard.

    The folder of its logs is made now, since Slurm wants it to be there. No key of a service stands in the script.
    `words` are those of the command behind the program's name, without `--shard`: `run`, `study.yaml`, ...

    Raises:
        ConfigError: a word that a line cannot hold.
    """
    given = {f"DETECTOR_BENCH_{n}": os.environ.get(f"DETECTOR_BENCH_{n}", "") for n in _PASSED_ON}
    given = {name: text for name, text in given.items() if text}
    logs, folder = job.out / "logs", Path.cwd()
    for text in (*words, str(logs), str(file), str(folder), *given.values()):
        if not text.isprintable():  # behind a line break a comment is over, and what follows would be a command
            raise ConfigError(f"--slurm: {text!r} cannot stand in a script (accepted: printable characters)")
    if job.shards > 1_000:
        _log.warning("%d tasks: many clusters take array indices up to 1,000 (MaxArraySize)", job.shards)
    logs.mkdir(parents=True, exist_ok=True)
    program = f"exec {shlex.quote(sys.executable)} -P -m {(__package__ or '').partition('.')[0]}"
    options = (f"\\\n    {shlex.quote(word)}" if word.startswith("--") else shlex.quote(word) for word in words)
    script = Template(Path(__file__).with_name("slurm.sh").read_text(encoding="utf-8")).substitute(
        script=shlex.quote(str(file)),
        out=shlex.quote(str(job.out)),
        name=re.sub(r"[^A-Za-z0-9_.-]+", "-", f"detector-bench-{job.out.resolve().name}"),
        shards=job.shards,
        at_once=min(16, job.shards),
        logs=_slurm_value(str(logs).replace("%", "%%") + "/shard-%a.log"),
        folder=_slurm_value(str(folder)),
        exports="".join(f"export {name}={shlex.quote(text)}\n" for name, text in given.items()),
        command=" ".join([program, *options, f'\\\n    --shard "$SLURM_ARRAY_TASK_ID/{job.shards}"']),
    )
    write_text(file, script)
    return file


@contextmanager
def stop_politely() -> Iterator[None]:
    """Treat SIGTERM like Ctrl-C: what is predicted is stored first. A second Ctrl-C ends the process at once.

    Schedulers repeat SIGTERM, so behind a first one both are ignored. A SIGINT that was ignored stays ignored.
    """

    def stop(number: int, _: FrameType | None) -> NoReturn:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGINT, end_at_once if number == signal.SIGINT else signal.SIG_IGN)
        raise KeyboardInterrupt

    def end_at_once(number: int, _: FrameType | None) -> NoReturn:
        os.write(2, b"interrupted\n")
        os._exit(128 + number)  # as shells count

    with _signals_as_before():
        if threading.current_thread() is threading.main_thread():  # no other hears of signals
            signal.signal(signal.SIGTERM, stop)
            if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
                signal.signal(signal.SIGINT, stop)
        yield


@contextmanager
def _signals_as_before() -> Iterator[None]:
    held: dict[int, Any] = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in held.items():
            if signal.getsignal(number) is not handler:
                signal.signal(number, handler or signal.SIG_DFL)


class _Claiming:
    """A runner on its way over several shards."""

    def __init__(self, runner: Runner, progress: Progress | None, images: int | None = None) -> None:
        self.runner, self.progress = runner, progress
        self.images = len(runner.image_set.images) if images is None else images
        self.done = self.from_cache = 0
        self.known: dict[int, int] = {}
        """Images that needed no prediction when this process came to their shard."""

    @property
    def total(self) -> int:
        return self.images - sum(self.known.values())

    def all_from(self, first: int, since: float) -> Claimed:
        count = self.runner.job.shards
        held, changed = self._look([(first + n) % count + 1 for n in range(count)], since), time.monotonic()
        while held and time.monotonic() - changed < _SECONDS_TO_LOOK:
            time.sleep(0.1)
            if (left := self._look(held, since)) != held:
                held, changed = left, time.monotonic()
        return self.claimed(held)

    def predict(self, shard: Shard, *, wait: float = 0, since: float | None = None) -> None:
        done, from_cache = self.done, self.from_cache

        def tell(own: int, todo: int, kept: int) -> None:
            self.known[shard.number] = len(self.runner.images_of(shard)) - todo
            self.done, self.from_cache = done + own, from_cache + kept
            if self.progress:
                self.progress(self.done, self.total, self.from_cache)

        try:
            self.runner.predict(shard, tell, wait=wait, since=since)
        except KeyboardInterrupt:
            raise _interrupted(self.done, self.total) from None

    def claimed(self, held: Iterable[int]) -> Claimed:
        return Claimed(self.done, tuple(sorted(held)), dict(self.runner.left_out), self.from_cache)

    def _look(self, numbers: Sequence[int], since: float) -> list[int]:
        """Predict shards; those that other processes hold come back."""
        held = []
        for number in numbers:
            try:
                self.predict(Shard(number, self.runner.job.shards), since=since)
            except Taken:
                held.append(number)
        return held


def _interrupted(done: int, total: int) -> Interrupted:
    told = f"stopped after {done:,} of {total:,} images"
    return Interrupted(f"{told}; nothing is lost: run the same command again to go on")


def _planned(job: Job) -> Runner:
    runner = Runner(job)
    Plan(job.shards, runner.fingerprints).write(runner.folder)
    return runner


def _follow_plan(runner: Runner, shard: Shard) -> None:
    """Refuse another cut than the folder's, and other versions; in a new folder, note what is predicted."""
    plan = Plan.read(runner.folder)  # without the lock: a thousand tasks may begin at once
    if plan is None:
        (runner.folder / "_locks").mkdir(parents=True, exist_ok=True)
        with FileLock(runner.folder / "_locks" / "plan.lock", timeout=300):
            plan = Plan.read(runner.folder) or Plan(shard.count, runner.fingerprints)
            plan.write(runner.folder)
    if plan.shards != shard.count:
        raise ConfigError(
            f"--shard {shard.number}/{shard.count}: the folder is cut into {plan.shards} shards; name another "
            "--out (the cache has the stage results)"
        )
    _require_versions(runner, plan)


def _require_versions(runner: Runner, plan: Plan) -> None:
    for name, own in runner.fingerprints.items():
        if (planned := plan.detectors.get(name, own)) != own:
            raise ConfigError(
                f"detector {name!r}: version {planned[:12]} predicts in this folder, and here is {own[:12]} "
                "(other settings, weights or plugins): run without --shard to go on with it, or name another --out"
            )


# Workers


def _work(file: str, first: int, tell: Callable[[_Claiming], None] | None = None) -> dict[str, Any]:
    """Outcome of claiming shards in a process that was started for it, as plain data."""
    began = Path(file).stat().st_mtime
    try:
        runner = Runner(Job.model_validate_json(Path(file).read_bytes()))
        _require_versions(runner, Plan.read(runner.folder) or Plan(runner.job.shards, {}))
        claiming = _Claiming(runner, lambda *_: tell(claiming) if tell else None)
        return {"claimed": list(claiming.all_from(first, began))}
    except DetectorBenchError as error:
        return {"problem": str(error), "kind": type(error).__name__}


def _outcome(told: Sequence[Mapping[str, Any]], who: str) -> Claimed:
    """What several processes say together; raises what one of them met, or that all died."""
    for message in told:
        if "problem" in message and message["kind"] != "Interrupted":
            kind = getattr(errors, message["kind"], DetectorBenchError)
            raise (DetectorBenchError if kind is errors.DataError else kind)(message["problem"])
    all_ = [Claimed(*message["claimed"]) for message in told if "claimed" in message]
    if not all_:
        last = next((message["died"] for message in reversed(told) if "died" in message), "interrupted")
        remedy = "what was predicted is stored: run the same command again to go on"
        raise DetectorBenchError(f"{who} died, the last {last}; is there memory enough for so many? {remedy}")
    held = set.intersection(*(set(one.held) for one in all_))  # what one of them finds done is done
    left_out = {name: lacks for one in all_ for name, lacks in one.left_out.items()}
    predicted, from_cache = sum(one.predicted for one in all_), sum(one.from_cache for one in all_)
    return Claimed(predicted, tuple(sorted(held)), left_out, from_cache)


@contextmanager
def _packed(job: Job, *, threads: int) -> Iterator[Path]:
    """Job file with copies of the plugins in the result folder, which nodes see; it stays as it is meanwhile."""
    folder = job.out.absolute() / "_job" / f"{socket.gethostname()}-{os.getpid()}"
    known, copies = {name: p for p in plugins() for name in (p.file, str(p.path))}, []
    try:
        # A copy of a plugin is not loaded again: then the first one stands for it.
        for number, plugin in enumerate(known.get(str(p.resolve())) or known[p.name] for p in job.plugins):
            for name, source in plugin.files.items():
                place = folder / f"plugin-{number}" / name
                place.parent.mkdir(parents=True, exist_ok=True)
                copyfile(source, place)
            copies.append(folder / f"plugin-{number}" / plugin.path.name)
        places = ("image_set", "out", "weights_dir", "cache_dir")
        absolute = {name: own.absolute() for name in places if (own := getattr(job, name)) is not None}
        full = job.model_copy(update={**absolute, "plugins": tuple(copies), "threads": threads})
        write_text(folder / "job.json", full.model_dump_json(indent=1) + "\n")
        yield folder / "job.json"
    finally:
        rmtree(folder, ignore_errors=True)
        with suppress(OSError):
            folder.parent.rmdir()


class _Crew:
    """Worker processes of one run, and how far they are."""

    def __init__(self, file: Path, images: int) -> None:
        self._file, self._images = file, images
        self._processes: list[subprocess.Popen[str]] = []
        self._told: dict[int, tuple[int, int, dict[str, int]]] = {}
        self._environment = dict(os.environ) | dict.fromkeys(
            _THREADS, str(json.loads(file.read_text())["threads"])
        )
        root = Path(__file__).parents[1]
        if root.name not in ("site-packages", "dist-packages"):  # a checkout that is not installed
            paths = [str(root), os.environ.get("PYTHONPATH", "")]
            self._environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
        self._gpus = _gpus()

    def work(self, place: int, first: int) -> dict[str, Any]:
        """Start a worker and listen to it; its last words, or how it died."""
        gpu = {"CUDA_VISIBLE_DEVICES": self._gpus[place % len(self._gpus)]} if self._gpus else {}
        # Without the working folder among the places of modules: it may be a stranger's. Ctrl-C comes to this
        # process, which lets the workers end.
        command = [sys.executable, "-P", "-m", "detector_bench_next.engines", str(self._file), str(first)]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        process = subprocess.Popen(command, **pipes, env=self._environment | gpu, start_new_session=True)  # noqa: S603
        self._processes.append(process)
        for line in process.stdout or ():
            with suppress(ValueError):  # the last line of one that was killed
                message: dict[str, Any] = json.loads(line)
                if "done" not in message:
                    return message
                self._told[process.pid] = message["done"], message["from_cache"], message["known"]
        code = process.wait()
        return {"died": f"by signal {signal.Signals(-code).name}" if code < 0 else f"with status {code}"}

    def counts(self) -> tuple[int, int, int]:
        """Images done, images to do, done from the cache."""
        told = list(self._told.values())
        known = {shard: images for _, _, own in reversed(told) for shard, images in own.items()}
        total = self._images - sum(known.values())
        return sum(done for done, _, _ in told), total, sum(kept for _, kept, _ in told)

    def end(self) -> None:
        """Let workers that are still there store what they have, and end."""
        for process in self._processes:
            process.terminate()
        until = time.monotonic() + _SECONDS_TO_END
        for process in self._processes:
            try:
                process.wait(timeout=max(0.0, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()


def _gpus() -> list[str]:
    """NVIDIA GPUs that this process may use, as CUDA_VISIBLE_DEVICES names them; an empty one means none."""
    given = os.environ.get("CUDA_VISIBLE_DEVICES")
    if given is not None:
        return [name.strip() for name in given.split(",") if name.strip()]
    try:
        listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=20, check=True)  # noqa: S607
    except (OSError, subprocess.SubprocessError):
        return []
    return [str(n) for n, line in enumerate(listed.stdout.splitlines()) if line.startswith("GPU ")]


def _main(file: str, first: str) -> None:
    """A worker: claims shards; its standard output is lines of JSON for its parent alone."""
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as parent:
        os.dup2(2, 1)  # what libraries print goes to the standard error

        def say(**message: Any) -> None:
            parent.write(json.dumps(message) + "\n")
            parent.flush()

        def tell(claiming: _Claiming) -> None:
            say(done=claiming.done, from_cache=claiming.from_cache, known=claiming.known)

        # A stop may come at any line: what was predicted is stored, and nobody waits for a word about it.
        with suppress(KeyboardInterrupt, BrokenPipeError), stop_politely():
            threading.Thread(target=_stop_with_parent, daemon=True).start()
            say(**_work(file, int(first), tell))


def _stop_with_parent() -> None:
    while os.read(0, 1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


# Ray


def _ray_task(file: str, first: int, folder: str) -> dict[str, Any]:
    with suppress(OSError):  # relative paths in a study start there
        os.chdir(folder)
    return _work(file, first)


@contextmanager
def _cluster(ray: Any, address: str) -> Iterator[None]:
    """A connection to Ray, or a small cluster on this machine for as long as the block takes."""
    if ray.is_initialized():
        yield
        return
    asked = os.environ.get("RAY_ADDRESS", address) if address == "auto" else address
    options: dict[str, Any] = {"log_to_driver": False, "configure_logging": False, "logging_level": "ERROR"}
    options |= {} if address else {"num_cpus": available_cores(), "include_dashboard": False}
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    logging.getLogger("ray").setLevel(logging.ERROR)
    try:
        if asked not in ("", "auto"):  # whether anybody listens: Ray itself would try for many minutes
            host, _, port = asked.removeprefix("ray://").rpartition(":")
            socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()
        with _signals_as_before():  # Ray ends the process at SIGTERM; without "local" RAY_ADDRESS would count
            ray.init(address or "local", **options)
    except Exception as error:  # it raises what its parts raise
        place = f"--address {address}" if address else "--engine ray"
        accepted = "accepted: auto, ray://HOST:PORT, HOST:PORT"
        raise ConfigError(f"{place}: no Ray cluster: {_first_line(error)} ({accepted})") from error
    try:
        yield
    finally:
        ray.shutdown()


def _first_line(error: BaseException) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


def _slurm_value(path: str) -> str:
    """A path as Slurm reads it in an option of a script."""
    text = path.replace("\\", "\\\\").replace('"', '\\"')
    return text if re.fullmatch(r"[\w@+=:,./%-]+", text) else f'"{text}"'


if __name__ == "__main__":
    _main(*sys.argv[1:])
