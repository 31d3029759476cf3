"""Many processes on one result folder: the same bytes however they share it, are killed, or are stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from random import Random
from typing import Any

import pytest
from filelock import FileLock

from detector_bench_next import engines
from detector_bench_next.engines import available_cores, run_here, run_local, run_ray, slurm_script, stop_politely
from detector_bench_next.errors import ConfigError, DetectorBenchError
from detector_bench_next.predictions import Plan, Shard
from detector_bench_next.registry import load_plugin
from detector_bench_next.runner import Job
from tests_next.studies import PLUGIN, write_image_set

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")

Bytes = dict[str, bytes]
IMAGES = 40
RUN = """
import sys, time
from pathlib import Path
from detector_bench_next import engines, runner
from detector_bench_next.errors import DetectorBenchError
from detector_bench_next.predictions import Shard
runner.SECONDS_BETWEEN_PARTS = 0.0
job = runner.Job.model_validate_json(Path(sys.argv[1]).read_bytes())
try:
    with engines.stop_politely():
        if sys.argv[2].isdigit():
            print(engines.run_local(job, int(sys.argv[2])).predicted)
        else:
            print(engines.run_here(job, Shard.parse(sys.argv[2]) if "/" in sys.argv[2] else None).predicted)
except DetectorBenchError as error:
    sys.exit(f"{type(error).__name__}: {error}")
"""
DEADLY = """
import os, signal
from pathlib import Path
from detector_bench_next.registry import find, register
MeanGrey = find("stage", "mean_grey").thing
@register("stage", "deadly")
class Deadly(MeanGrey):
    times: int = 1
    def load(self, where):
        grey = super().load(where)
        def run(frames):
            folder = Path(os.environ["DETECTOR_BENCH_DEADLY"])
            if len(list(folder.glob("died-*"))) < self.times and "_7" in frames[0].image_id:
                (folder / f"died-{os.getpid()}").touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return grey(frames)
        return run
"""


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_image_set(tmp_path_factory.mktemp("engines") / "set", images=IMAGES // 2, prompts=2)
    (folder / "images" / "sd_p1_3.png").write_bytes(b"\x89PNG\r\n\x1a\n")  # an error in each run, tried once
    load_plugin(PLUGIN)
    return folder


def job(images: Path, out: Path, *, seconds: float = 0.0, shards: int = 4, **fields: Any) -> Job:
    slow = {"kind": "shade", "name": "slow", "grey": {"kind": "mean_grey", "seconds": seconds}}
    detectors = ({"kind": "shade", "name": "shade"}, slow | {"bright_above": 100.0})
    fields = {"detectors": detectors, "plugins": (PLUGIN,), "threads": 1, "batch_size": 4, **fields}
    return Job(image_set=images, out=out, shards=shards, **fields)


def start(order: Job, how: str = "all") -> subprocess.Popen[str]:
    order.out.mkdir(parents=True, exist_ok=True)
    file = order.out.with_suffix(".json")
    file.write_text(order.model_dump_json())
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen([sys.executable, "-c", RUN, str(file), how], text=True, **pipes)  # type: ignore[call-overload,no-any-return]


def end(process: subprocess.Popen[str]) -> tuple[int, str]:
    output, errors = process.communicate(timeout=120)
    return process.returncode, output + errors


def content(order: Job) -> Bytes:
    files = sorted((order.out / "predictions").glob("[!_]*/*"))
    assert all(path.suffix == ".parquet" for path in files)
    return {f"{path.parent.name}/{path.name}": path.read_bytes() for path in files}


@pytest.fixture(scope="module")
def whole(images: Path) -> Bytes:
    order = job(images, images.parent / "whole")
    assert run_here(order).predicted == IMAGES
    assert len(content(order)) == 8
    return content(order)


def test_shards_one_by_one_and_workers_give_the_same_bytes(images: Path, tmp_path: Path, whole: Bytes) -> None:
    one_by_one = job(images, tmp_path / "shards")
    held = [run_here(one_by_one, Shard(number, 4)).held for number in (2, 4, 1, 3)]
    assert held == [(1, 3, 4), (1, 3), (3,), ()]
    assert content(one_by_one) == whole

    told: list[tuple[int, int, int]] = []
    beside = job(images, tmp_path / "workers", cache_dir=tmp_path / "cache")
    claimed = run_local(beside, 2, lambda *n: told.append(n))
    assert claimed == (IMAGES, (), {}, 0)  # the broken image once, whoever looked at its shard
    assert told[-1] == (IMAGES, IMAGES, 0)
    assert content(beside) == whole
    assert not (beside.out / "_job").exists()
    assert Plan.read(beside.out / "predictions") == Plan.read(images.parent / "whole" / "predictions")


def test_killed_at_random_the_bytes_are_the_same(images: Path, tmp_path: Path, whole: Bytes) -> None:
    order, random, in_its_midst = job(images, tmp_path / "out", seconds=0.01), Random(1), 0  # noqa: S311 - moments
    for kill in range(2):
        process = start(order)
        before = len(list((order.out / "predictions").glob("[!_]*/*")))
        until = time.monotonic() + 30
        while len(list((order.out / "predictions").glob("[!_]*/*"))) <= before and time.monotonic() < until:
            time.sleep(0.005)
        time.sleep(random.uniform(0, 0.1) * (kill > 0))
        process.kill()
        process.communicate()
        in_its_midst += any((order.out / "predictions").glob("*/*.part-*"))
    assert in_its_midst
    assert end(start(order))[0] == 0
    assert content(order) == whole


@pytest.mark.slow
def test_three_processes_at_once_share_a_folder(images: Path, tmp_path: Path, whole: Bytes) -> None:
    order = job(images, tmp_path / "out", seconds=0.02, cache_dir=tmp_path / "cache")
    ended = [end(process) for process in [start(order) for _ in range(3)]]
    assert [code for code, _ in ended] == [0, 0, 0], ended
    assert sum(int(said) for _, said in ended) == IMAGES
    assert content(order) == whole


@pytest.mark.slow
def test_tasks_of_ray_give_the_same_bytes(images: Path, tmp_path: Path, whole: Bytes) -> None:
    pytest.importorskip("ray")
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    order = job(images, tmp_path / "out")
    assert run_ray(order, 2) == (IMAGES, (), {}, 0)
    assert content(order) == whole
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == handlers
    with pytest.raises(ConfigError, match="--address localhost:1: no Ray cluster"):
        run_ray(order, 2, "localhost:1")


def deadly(images: Path, tmp_path: Path, times: int) -> Job:
    plugin = images.parent / "deadly_plugin.py"
    plugin.write_text(DEADLY)
    load_plugin(plugin)
    os.environ["DETECTOR_BENCH_DEADLY"] = str(tmp_path)
    detector = {"kind": "shade", "grey": {"kind": "deadly", "times": times}}
    return job(images, tmp_path / "out", detectors=(detector,), plugins=(PLUGIN, plugin))


@pytest.mark.slow
def test_a_worker_that_dies_is_made_up_for_by_the_others(images: Path, tmp_path: Path) -> None:
    order = deadly(images, tmp_path, times=1)
    claimed = run_local(order, 2)
    assert claimed.held == ()
    assert len(list(tmp_path.glob("died-*"))) == 1
    assert len(content(order)) == 4


@pytest.mark.slow
def test_workers_that_all_die_are_one_line(images: Path, tmp_path: Path) -> None:
    with pytest.raises(
        DetectorBenchError, match=r"2 worker processes died, the last by signal SIGKILL; .* run the same"
    ):
        run_local(deadly(images, tmp_path, times=9), 2)


def test_what_a_worker_meets_is_one_line_of_its_kind(images: Path, tmp_path: Path, monkeypatch: Any) -> None:
    order = job(images, tmp_path / "out")
    monkeypatch.setattr(engines, "_planned", engines.Runner)
    Plan(4, {"shade": "0" * 64}).write(order.out / "predictions")
    with pytest.raises(
        ConfigError, match="detector 'shade': version 000000000000 predicts in this folder, and here is"
    ):
        run_local(order, 2)


def test_one_shard_refuses_another_cut_and_other_versions(images: Path, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(engines, "_SECONDS_TO_LOOK", 0.2)
    order = job(images, tmp_path / "out")
    run_here(order, Shard(1, 4))
    with pytest.raises(ConfigError, match="--shard 1/5: the folder is cut into 4 shards; name another"):
        run_here(order.model_copy(update={"shards": 5}), Shard(1, 5))
    other = job(images, tmp_path / "out", detectors=({"kind": "shade", "name": "shade", "bright_above": 90.0},))
    with pytest.raises(ConfigError, match="detector 'shade': version"):
        run_here(other, Shard(2, 4))
    assert run_here(other).predicted == IMAGES  # a plain run writes the plan anew
    with FileLock(order.out / "predictions" / "_locks" / "00002-of-00004.lock"):
        assert run_here(other, Shard(2, 4)).held == (2,)
        assert run_here(other).held == (2,)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["all", "2"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_stopped_politely_it_stores(images: Path, tmp_path: Path, whole: Bytes, number: int, how: str) -> None:
    order = job(images, tmp_path / "out", seconds=0.05)
    process = start(order, how)
    while not any((order.out / "predictions").glob("*/*.parquet")) and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(number)
    code, said = end(process)
    assert code == 1
    assert "Interrupted: stopped after " in said
    assert "nothing is lost: run the same command again to go on" in said
    assert "Traceback" not in said
    assert not list(order.out.rglob("*.tmp"))
    assert end(start(order))[0] == 0
    assert content(order) == whole


@pytest.mark.slow
def test_workers_end_with_their_parent_and_store(images: Path, tmp_path: Path) -> None:
    order = job(images, tmp_path / "out", seconds=0.3)
    process = start(order, "2")
    while len(list((order.out / "predictions" / "_locks").glob("*-of-*"))) < 2:
        time.sleep(0.02)
    time.sleep(2)
    process.kill()
    process.communicate()
    until = time.monotonic() + 20
    locks = [FileLock(path) for path in (order.out / "predictions" / "_locks").glob("*-of-*")]
    for lock in locks:
        lock.acquire(timeout=until - time.monotonic())
        lock.release()
    assert any((order.out / "predictions").glob("*/*.parquet"))


def test_signals_interrupt_once_and_are_given_back() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with pytest.raises(KeyboardInterrupt), stop_politely():
        os.kill(os.getpid(), signal.SIGTERM)
    with stop_politely():
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGTERM)
        for number in (signal.SIGTERM, signal.SIGINT):  # schedulers repeat
            os.kill(os.getpid(), number)
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with stop_politely():
            os.kill(os.getpid(), signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before[0])
    thread = threading.Thread(target=lambda: stop_politely().__enter__())
    thread.start()
    thread.join()


def test_a_second_ctrl_c_ends_at_once() -> None:
    code = """
import os, signal, time
from detector_bench_next.engines import stop_politely
with stop_politely():
    try:
        os.kill(os.getpid(), signal.SIGINT)
    finally:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(60)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=50, check=False)
    assert (done.returncode, done.stderr) == (130, "interrupted\n")


def test_a_script_for_slurm(images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DETECTOR_BENCH_WEIGHTS", "/w it")
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    out = tmp_path / "50% of it"
    file = slurm_script(
        job(images, out), ["run", "my study.yaml", "--out", str(out), "--no-cache"], tmp_path / "a.sh"
    )
    text = file.read_text()
    assert subprocess.run(["bash", "-n", str(file)], check=False).returncode == 0
    for line in (
        "#SBATCH --array=1-4%4",
        "#SBATCH --requeue",
        "#SBATCH --open-mode=append",
        "#SBATCH --signal=B:TERM@120",
    ):
        assert f"\n{line}\n" in text
    assert f'#SBATCH --output="{tmp_path}/50%% of it/logs/shard-%a.log"' in text
    assert "\nexport DETECTOR_BENCH_WEIGHTS='/w it'\n" in text
    assert "secret" not in text
    assert (out / "logs").is_dir()
    command = text[text.index("exec ") + 5 :].replace(sys.executable, "printf '%s|'")
    told = subprocess.run(
        ["bash", "-c", command], env={"SLURM_ARRAY_TASK_ID": "3"}, capture_output=True, check=True
    )
    words = ["-P", "-m", "detector_bench_next", "run", "my study.yaml", "--out", str(out), "--no-cache"]
    assert told.stdout.decode().split("|")[:-1] == [*words, "--shard", "3/4"]
    with pytest.raises(ConfigError, match="cannot stand in a script"):
        slurm_script(job(images, out), ["run", "a\nb"], file)


def test_cores_are_those_of_this_process_and_of_the_task(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLURM_CPUS_PER_TASK", raising=False)
    assert available_cores() == len(os.sched_getaffinity(0))
    monkeypatch.setenv("SLURM_CPUS_PER_TASK", "1")
    assert available_cores() == 1
