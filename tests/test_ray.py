"""A study on Ray ends with the bytes of one process, whoever dies on the way; faults are said in one line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from small_parts import forget_calls, stage_calls, write_image_set

from detector_bench import plugins
from detector_bench.dataset.image_folder import ROOTS_VARIABLE
from detector_bench.errors import ConfigError, DetectorBenchError
from detector_bench.plugins import PluginFile, load_plugins
from detector_bench.runner.run_record import RunProgress
from detector_bench.runner.shard_ledger import ShardLedger, ShardState
from detector_bench.study import Results, Study
from detector_bench.study_ray import node_job
from detector_bench.study_ray.nodes import NodeJudge, NodeProblem
from detector_bench.study_session import RunOrder, session_of

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="finds processes as Linux shows them"),
]

COUNT = 80
PLUGIN = Path(__file__).resolve().with_name("small_parts.py")
STUDY = """\
image_set: images
batch_size: 4
detectors:
  - {kind: test-colour, seconds: 0.02}
  - test-brightness
  - test-age-and-gender
"""


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("study")
    images = write_image_set(folder / "images", COUNT)
    (images / "images" / "image_011.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    (images / "images" / "image_030.png").unlink()
    (folder / "study.yaml").write_text(STUDY)
    return folder


@pytest.fixture(scope="module")
def undisturbed(study: Path) -> Path:
    """The results of one process."""
    Study.from_yaml(study / "study.yaml").run(study / "undisturbed", cache_dir=study / "undisturbed-cache")
    return study / "undisturbed"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A Ray of two cores that this process is connected to: nodes read the images; their folder of weights."""
    weights = tmp_path_factory.mktemp("weights-of-nodes")
    ray = pytest.importorskip("ray")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("DETECTOR_BENCH_WEIGHTS", str(weights))
        patch.setenv("PYTHONPATH", os.pathsep.join([str(PLUGIN.parents[1]), str(PLUGIN.parent)]))
        # It is imported here, and a plugin there: in one process its detectors cannot be registered twice.
        source = plugins._source_of_files(plugins._with_imports_beside(PLUGIN))
        patch.setattr(plugins, "_LOADED", {PLUGIN: PluginFile(PLUGIN.name, source, {})})
        ray.init(
            "local",
            num_cpus=2,
            include_dashboard=False,
            log_to_driver=False,
            logging_level="ERROR",
            object_store_memory=100_000_000,
        )
        yield weights
        ray.shutdown()


def start(study: Path, out: str, *more: str) -> subprocess.Popen[str]:
    """Run the study on a Ray of its own in a process of its own, with a cache of its own."""
    command = [sys.executable, "-m", "detector_bench", "run", str(study / "study.yaml"), "--out", str(study / out)]
    command += ["--cache-dir", str(study / f"{out}-cache"), "--plugin", str(PLUGIN), "--engine", "ray", *more]
    environment = {**os.environ, "TEST_FLUSH_EVERY_BATCH": "1"}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def wait_for_parts(process: subprocess.Popen[str], out: Path) -> None:
    end = time.monotonic() + 120
    while time.monotonic() < end and process.poll() is None and not any(out.rglob("part-000004.parquet")):
        time.sleep(0.01)


def judging_processes(root: int) -> list[int]:
    """The actors' processes below a process."""
    parents, actors = {}, []
    for folder in Path("/proc").iterdir():
        try:
            parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            if (folder / "cmdline").read_bytes().startswith(b"ray::NodeJudge"):
                actors.append(int(folder.name))
        except (ValueError, OSError):
            continue

    def below(process: int) -> bool:
        return process == root or (process in parents and below(parents[process]))

    return [each for each in actors if below(each)]


def assert_same_results(out: Path, undisturbed: Path) -> None:
    for name in ("metrics.csv", "metrics.parquet", "study.yaml"):
        assert (out / name).read_bytes() == (undisturbed / name).read_bytes(), name
    for file in sorted(undisturbed.glob("predictions/*/predictions.parquet")):
        own = pq.read_table(out / file.relative_to(undisturbed))
        assert own.equals(pq.read_table(file), check_metadata=True), file


class _Watcher:
    """Calls a function when so many images are judged."""

    def __init__(self, call: Callable[[], object], *, after: int) -> None:
        self._call = call
        self._after = after

    def update(self, progress: RunProgress) -> None:
        if self._after and progress.done >= self._after:
            self._after = 0
            self._call()


@pytest.mark.usefixtures("cluster")
def test_verdicts_and_stage_results_are_those_of_one_process(study: Path, undisturbed: Path) -> None:
    loaded = Study.from_yaml(study / "study.yaml")
    loaded.run(study / "actors", cache_dir=study / "actors-cache", engine="ray", workers=2, shards=1)
    assert_same_results(study / "actors", undisturbed)
    session = json.loads((study / "actors" / "run.json").read_text())["sessions"][-1]
    judged = {name.rpartition("-")[0]: images for name, images in session["images_per_stage"].items()}
    assert session["images_judged"] == COUNT
    assert set(judged.values()) == {COUNT - 2}, "each sound image once"

    # What the actors computed lies in the cache of this process.
    forget_calls()
    loaded.run(study / "again", cache_dir=study / "actors-cache")
    assert not stage_calls
    assert_same_results(study / "again", undisturbed)

    # And what is in the cache is not computed by them. There is room for two; others would come with more nodes.
    loaded.run(study / "cached", cache_dir=study / "actors-cache", engine="ray", workers=5, shards=1)
    session = json.loads((study / "cached" / "run.json").read_text())["sessions"][-1]
    assert session["images_per_stage"] == {}
    assert_same_results(study / "cached", undisturbed)


@pytest.mark.usefixtures("cluster")
def test_actors_that_are_killed_are_replaced_and_nothing_is_lost(study: Path, undisturbed: Path) -> None:
    randomness = np.random.default_rng(4)
    killed: list[int] = []
    stop = threading.Event()

    def kill_again_and_again() -> None:
        while not stop.wait(randomness.uniform(0.3, 2.0)) and len(killed) < 5:
            found = judging_processes(os.getpid())
            if found:
                killed.append(int(randomness.choice(found)))
                os.kill(killed[-1], signal.SIGKILL)

    thread = threading.Thread(target=kill_again_and_again)
    watcher = _Watcher(thread.start, after=1)
    slow = study / "slow.yaml"
    slow.write_text(STUDY.replace("0.02", "0.25"))
    Study.from_yaml(slow).run(
        study / "killed", use_cache=False, engine="ray", workers=2, shards=3, progress=watcher
    )
    stop.set()
    thread.join()
    assert len(killed) >= 2
    assert (study / "killed" / "metrics.csv").read_bytes() == (undisturbed / "metrics.csv").read_bytes()


FATAL = """
import os, pathlib
import detector_bench as db
from detector_bench.perception.stage import Stage

@db.detector("test-fatal", attributes=["gender"], needs_pixels=True)
class Fatal:
    def predict(self, batch):
        for frame in batch:
            if frame.image_id == "image_007" and pathlib.Path({switch!r}).exists():
                os._exit(3)
            yield db.Prediction.clear(frame, "gender", "male" if frame.pixels.mean() > 80 else "female")
"""


@pytest.mark.usefixtures("cluster")
def test_a_shard_at_which_workers_die_is_given_up_and_the_others_are_done(study: Path, tmp_path: Path) -> None:
    switch = tmp_path / "switch"
    (tmp_path / "fatal.py").write_text(FATAL.format(switch=str(switch)))
    load_plugins([tmp_path / "fatal.py"])
    fatal = Study(image_set=study / "images", detectors=["test-fatal"], batch_size=4)
    switch.touch()
    with pytest.raises(DetectorBenchError) as problem:
        fatal.run(tmp_path / "out", use_cache=False, engine="ray", workers=2, shards=4)
    message = str(problem.value)
    assert message.startswith("1 of 4 shards are not done; shard ")
    assert "5 workers died, perhaps for want of memory" in message
    assert "\n" not in message
    states = [each.state for each in ShardLedger(tmp_path / "out" / "predictions").states()]
    assert sorted(states) == [ShardState.DONE] * 3 + [ShardState.FAILED]

    switch.unlink()
    fatal.run(tmp_path / "out", use_cache=False, engine="ray", workers=2)
    fatal.run(tmp_path / "here", use_cache=False)
    assert (tmp_path / "out" / "metrics.csv").read_bytes() == (tmp_path / "here" / "metrics.csv").read_bytes()


@pytest.mark.usefixtures("cluster")
def test_images_that_only_this_process_sees_are_read_by_it(
    study: Path, undisturbed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ROOTS_VARIABLE, str(study / "images"))
    hidden = study / "hidden"
    (hidden / "images").mkdir(parents=True)
    for path in (study / "images").glob("*.csv"):
        (hidden / path.name).write_bytes(path.read_bytes())
    with ExitStack() as files:
        for path in sorted((study / "images" / "images").iterdir()):
            file = files.enter_context(path.open("rb"))
            # A link that every process follows to a file of its own, or to none.
            (hidden / "images" / path.name).symlink_to(f"/proc/self/fd/{file.fileno()}")
        Study.from_yaml(study / "study.yaml", image_set=hidden).run(
            study / "from-here", use_cache=False, engine="ray", workers=2, shards=1
        )
    assert (study / "from-here" / "metrics.csv").read_bytes() == (undisturbed / "metrics.csv").read_bytes()


def test_a_node_with_other_weights_is_refused_in_one_line(
    cluster: Path, study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (cluster / "factor.txt").write_text("2.0")
    (tmp_path / "factor.txt").write_text("1.0")
    monkeypatch.setenv("DETECTOR_BENCH_WEIGHTS", str(tmp_path))
    weighted = Study(image_set=study / "images", detectors=[{"kind": "test-weighted", "factor": "factor.txt"}])
    with pytest.raises(ConfigError) as refused:
        weighted.run(tmp_path / "out", use_cache=False, engine="ray", workers=1)
    assert "detector 'test-weighted' is another version there (" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_node_with_another_package_is_refused_in_one_line(study: Path, tmp_path: Path) -> None:
    loaded = Study.from_yaml(study / "study.yaml")
    order = RunOrder(engine="ray", use_cache=False)
    _, session = session_of(loaded, tmp_path, order)
    job = replace(node_job(loaded, order, session, threads=1), plugins=())  # it is imported already
    assert NodeJudge().prepare(job) is None
    problem = NodeJudge().prepare(replace(job, package="0.0.1"))
    assert isinstance(problem, NodeProblem)
    assert "and 0.0.1 here" in problem.message
    assert "\n" not in problem.message


def test_keys_of_services_travel_and_are_not_shown(
    study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FACEPP_API_KEY", "key-of-a-test")
    monkeypatch.setenv("FACEPP_API_SECRET", "secret-of-a-test")
    asking = Study(image_set=study / "images", detectors=["facepp"])
    order = RunOrder(engine="ray", use_cache=False)
    _, session = session_of(asking, tmp_path, order)
    job = node_job(asking, order, session, threads=1)
    assert job.environment == {"FACEPP_API_KEY": "key-of-a-test", "FACEPP_API_SECRET": "secret-of-a-test"}
    assert "of-a-test" not in repr(job)


@pytest.mark.parametrize("name", ["SIGKILL", "SIGINT"])
def test_a_run_that_ends_early_goes_on_where_it_was(study: Path, undisturbed: Path, name: str) -> None:
    process = start(study, name, "--workers", "2", "--shards", "1")
    wait_for_parts(process, study / name)
    process.send_signal(getattr(signal, name))
    _, errors = process.communicate(timeout=120)
    if name == "SIGINT":
        assert process.returncode == 130
        assert errors.strip().splitlines()[-1].startswith("interrupted: stopped after ")
        assert "Traceback" not in errors
    else:
        assert process.returncode == -signal.SIGKILL

    again = start(study, name, "--workers", "2")
    _, errors = again.communicate(timeout=120)
    assert again.returncode == 0, errors
    assert json.loads((study / name / "run.json").read_text())["sessions"][-1]["images_judged"] < COUNT
    assert_same_results(study / name, undisturbed)


def test_a_finished_run_asks_nobody(tmp_path: Path) -> None:
    small = Study(image_set=write_image_set(tmp_path / "images", 6), detectors=["test-colour"])
    small.run(tmp_path / "out", use_cache=False)
    small.run(tmp_path / "out", use_cache=False, engine="ray", address="127.0.0.1:1")
    with pytest.raises(ConfigError, match=r"--address 127\.0\.0\.1:1: no Ray cluster: .*refused"):
        small.run(tmp_path / "other", use_cache=False, engine="ray", address="127.0.0.1:1")
    with pytest.raises(ConfigError, match=r"expected auto, ray://HOST:PORT or HOST:PORT"):
        small.run(tmp_path / "other", use_cache=False, engine="ray", address="nowhere")


def test_options_that_do_not_fit_and_a_missing_package_are_named_in_one_line(
    study: Path, command: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    basic = ("run", study / "study.yaml", "--out", study / "refused")
    for options, line in (
        (("--engine", "sparks"), "error: --engine 'sparks': expected processes or ray"),
        (("--address", "auto"), "error: --address names a Ray cluster: add --engine ray"),
    ):
        assert command(*basic, *options) == (1, "", f"{line}\n")
    monkeypatch.setitem(sys.modules, "ray", None)
    status, _, errors = command(*basic, "--engine", "ray")
    assert (status, errors) == (
        1,
        "error: the package 'ray' is not installed; pip install 'detector-bench[ray]'\n",
    )


@pytest.mark.usefixtures("cluster")
def test_portraits_are_judged_as_by_one_process(shared: Path, tmp_path: Path) -> None:
    loaded = Study.from_yaml(Path(__file__).parents[1] / "configs" / "t2i_portraits.yaml").with_detectors(
        only=["faceres-yunet"]
    )
    portraits = Study(image_set=shared / "data" / "t2i_portraits", detectors=list(loaded.detectors))

    def results(name: str, **settings: Any) -> Results:
        return portraits.run(tmp_path / name, weights_dir=shared / "weights", use_cache=False, **settings)

    results("one")
    results("actors", engine="ray", workers=2)
    assert (tmp_path / "one" / "metrics.csv").read_bytes() == (tmp_path / "actors" / "metrics.csv").read_bytes()
