"""A study that is killed or interrupted again and again ends with the bytes of one that was left in peace."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from small_parts import write_image_set

COUNT = 60
PLUGIN = Path(__file__).with_name("small_parts.py")
STUDY = """\
image_set: images
batch_size: 4
detectors:
  - {kind: test-colour, seconds: 0.02}
  - test-brightness
  - test-age-and-gender
"""

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kill")
    images = write_image_set(folder / "images", COUNT)
    (images / "images" / "image_011.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    (folder / "study.yaml").write_text(STUDY)
    return folder


@pytest.fixture(scope="module")
def undisturbed(study: Path) -> Path:
    process = start(study, "undisturbed")
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    return study / "undisturbed"


def start(study: Path, out: str, *, cache: str | None = None) -> subprocess.Popen[str]:
    """Run the study in a process of its own, with a cache of its own, writing a part after every batch."""
    command = [sys.executable, "-m", "detector_bench", "run", str(study / "study.yaml"), "--out", str(study / out)]
    command += ["--cache-dir", str(study / (cache or f"{out}-cache")), "--plugin", str(PLUGIN)]
    environment = {**os.environ, "TEST_FLUSH_EVERY_BATCH": "1"}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def wait_until_it_works(process: subprocess.Popen[str], out: Path) -> None:
    """Wait until this process has taken the result folder's lock."""
    end = time.monotonic() + 30
    while time.monotonic() < end and process.poll() is None:
        descriptors = Path(f"/proc/{process.pid}/fd")
        lock = out / "predictions" / ".lock"
        if not descriptors.is_dir():  # elsewhere than on Linux
            time.sleep(1.5)
            return
        try:
            if any(link.readlink() == lock for link in descriptors.iterdir()):
                return
        except OSError:
            pass
        time.sleep(0.005)


def wait_for_a_part(process: subprocess.Popen[str], out: Path) -> None:
    end = time.monotonic() + 30
    while time.monotonic() < end and process.poll() is None and not any(out.rglob("part-*.parquet")):
        time.sleep(0.005)


def whole_files(out: Path) -> list[Path]:
    """Every file that a reader would take for a result."""
    files = [path for path in out.rglob("*") if path.is_file() and path.suffix != ".lock"]
    return [path for path in files if not path.name.startswith(".")]


def run_with_kills(study: Path, out: str, *, kills: int, seed: int) -> int:
    """Kill the study at random moments until it was killed so often; return how often that was in its midst."""
    randomness = np.random.default_rng(seed)
    killed = in_its_midst = 0
    for _ in range(5 * kills):
        process = start(study, out)
        wait_until_it_works(process, study / out)
        if killed == 0:
            wait_for_a_part(process, study / out)
        time.sleep(randomness.uniform(0.0, 0.5))
        process.kill()
        process.communicate(timeout=30)
        if process.returncode != -signal.SIGKILL:
            continue  # it was quicker
        killed += 1
        in_its_midst += any((study / out).rglob("part-*.parquet"))
        for path in whole_files(study / out):
            if path.suffix == ".parquet":
                pq.read_table(path)
            elif path.suffix == ".json":
                json.loads(path.read_text())
            else:
                assert path.read_text().endswith("\n")
        if killed == kills:
            return in_its_midst
    raise AssertionError("it could not be killed often enough")


def stored(out: Path) -> dict[str, list[dict[str, object]]]:
    folders = sorted(path for path in (out / "predictions").glob("*/") if path.name != "shards")
    assert [sorted(path.name for path in folder.iterdir()) for folder in folders] == [["predictions.parquet"]] * 3
    return {folder.name: pq.read_table(folder / "predictions.parquet").to_pylist() for folder in folders}


def assert_same_results(out: Path, undisturbed: Path) -> None:
    for name in ("metrics.csv", "metrics.parquet", "study.yaml"):
        assert (out / name).read_bytes() == (undisturbed / name).read_bytes(), name
    tables = sorted(path.relative_to(undisturbed) for path in (undisturbed / "tables").iterdir())
    assert tables
    for table in tables:
        assert (out / table).read_bytes() == (undisturbed / table).read_bytes(), table
    predictions = stored(out)
    assert predictions == stored(undisturbed)
    for rows in predictions.values():
        keys = [(row["image_id"], row["attribute"]) for row in rows]
        assert len(keys) == len(set(keys))
        assert len({image for image, _ in keys}) == COUNT


def finish(study: Path, out: str) -> str:
    process = start(study, out)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    return errors


@pytest.mark.slow
def test_killed_twice_and_run_again_the_results_are_the_same_bytes(study: Path, undisturbed: Path) -> None:
    assert run_with_kills(study, "twice", kills=2, seed=3) >= 1
    finish(study, "twice")
    assert_same_results(study / "twice", undisturbed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_killed_ten_times_and_run_again_the_results_are_the_same_bytes(
    study: Path, undisturbed: Path, seed: int
) -> None:
    out = f"ten-times-{seed}"
    assert run_with_kills(study, out, kills=10, seed=seed) >= 1
    finish(study, out)
    assert_same_results(study / out, undisturbed)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_stopped_politely_it_says_so_and_goes_on_next_time(study: Path, undisturbed: Path, name: str) -> None:
    process = start(study, name)
    wait_for_a_part(process, study / name)
    process.send_signal(getattr(signal, name))
    output, errors = process.communicate(timeout=30)

    assert process.returncode == 130
    assert output == ""
    message = errors.strip().splitlines()[-1]
    done = int(message.removeprefix("interrupted: stopped after ").split(" ")[0])
    assert message == (
        f"interrupted: stopped after {done} of 60 images; nothing is lost: run the same command again to go on"
    )
    assert 0 < done < COUNT
    assert "Traceback" not in errors

    # One of the images is the damaged one, which is tried again.
    again = finish(study, name)
    record = json.loads((study / name / "run.json").read_text())
    judged = record["sessions"][-1]["images_judged"]
    assert judged in (COUNT - done, COUNT - done + 1)
    assert f"{COUNT - judged} of {COUNT} images are judged already" in again
    assert_same_results(study / name, undisturbed)


@pytest.mark.slow
def test_two_studies_at_once_share_a_cache(study: Path, undisturbed: Path) -> None:
    processes = [start(study, out, cache="shared-cache") for out in ("left", "right")]
    errors = [process.communicate(timeout=60)[1] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], errors
    for out in ("left", "right"):
        assert_same_results(study / out, undisturbed)


@pytest.mark.slow
def test_a_second_run_into_the_same_folder_is_refused_and_does_no_harm(study: Path, undisturbed: Path) -> None:
    first = start(study, "contested")
    wait_until_it_works(first, study / "contested")
    second = start(study, "contested")
    _, refusal = second.communicate(timeout=60)
    _, errors = first.communicate(timeout=60)
    assert first.returncode == 0, errors
    if second.returncode != 0:  # on a slow machine it comes late, and finds all done
        assert second.returncode == 1
        assert refusal == f"error: another run writes to '{study / 'contested' / 'predictions'}' right now\n"
    assert_same_results(study / "contested", undisturbed)
