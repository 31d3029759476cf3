"""`detector-bench conformance`: in a process of its own, on a sound detector and on one that is not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image
from running import noise

pytestmark = pytest.mark.slow
PLUGIN = Path(__file__).with_name("conformance_faults.py")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pictures")
    for number in range(7):
        Image.fromarray(noise(10 + number, 12, seed=number)).save(folder / f"{number}.png")
    return folder


def conformance(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "detector_bench", "conformance", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_a_sound_detector_passes(folder: Path) -> None:
    done = conformance("sound-colour", "--plugin", PLUGIN, "--images", folder)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "sound-colour on 7 images; one by one: 7 clear, 0 filtered, 0 error"
    assert len(lines) == 7
    assert all(line.endswith(": the same") for line in lines[1:])


def test_one_that_counts_does_not(folder: Path) -> None:
    done = conformance("fault-counts", "--plugin", PLUGIN, "--images", folder)
    assert done.returncode == 1
    assert "  one by one: the same\n" in done.stdout
    assert "    image_2, gender: label is 'female', and one by one: 'male'\n" in done.stdout
    assert "Traceback" not in done.stderr


def test_of_a_study_with_its_parameters(folder: Path, tmp_path: Path) -> None:
    detectors = "[{kind: sound-colour, name: never-clear, green: -1.0}]"
    (tmp_path / "study.yaml").write_text(f"image_set: images\ndetectors: {detectors}\n")
    study = ["--study", tmp_path / "study.yaml", "--plugin", PLUGIN]
    done = conformance("never-clear", *study, "--images", folder, "--most", "6")
    assert done.returncode == 0, done.stderr
    assert "on 6 images; one by one: 0 clear, 6 filtered, 0 error" in done.stdout
    assert "no image was clear, so that nothing was checked behind the filter" in done.stderr
    assert "no detector 'unknown' in this study" in conformance("unknown", *study).stderr


def test_a_folder_without_images(tmp_path: Path) -> None:
    done = conformance("sound-colour", "--plugin", PLUGIN, "--images", tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith(f"error: no images in {str(tmp_path)!r}")
