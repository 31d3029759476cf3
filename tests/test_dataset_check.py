"""The full check: tables, every image file, and the counts that it reports."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from detector_bench.dataset import check
from detector_bench.dataset.check_report import AttributeSummary
from detector_bench.dataset.many_files import FEWEST_FOR_PROCESSES
from detector_bench.errors import Problem

FILES = FEWEST_FOR_PROCESSES + 1
IMAGE_FILE = "an image file in the image set's folder"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "set"
    (folder / "images").mkdir(parents=True)
    random = np.random.default_rng(0)
    for number in range(1, 6):
        pixels = random.integers(0, 256, size=(40, 30, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / "images" / f"{number}.png")
    (folder / "images.csv").write_text(
        "image_id,path,t2i_model,prompt_id\n"
        + "".join(f"i{n},images/{n}.png,{'sdxl' if n < 4 else 'sd3'},nurse\n" for n in range(1, 6))
    )
    (folder / "prompts.csv").write_text("prompt_id,category,word,prompt\nnurse,profession,nurse,\n")
    (folder / "labels.csv").write_text(
        "image_id,annotator,attribute,label,reason\n"
        "i1,a,gender,male,\ni1,b,gender,male,\n"
        "i2,a,gender,male,\ni2,b,gender,female,\n"
        "i3,a,gender,low_quality,blurred\ni4,b,gender,female,\n"
        "i5,a,age,young,\n"
    )
    return folder


def test_a_sound_set(folder: Path) -> None:
    report = check(folder)
    assert report.ok
    assert (report.n_images, report.n_image_files, report.n_prompts) == (5, 5, 1)
    assert report.t2i_models == ("sd3", "sdxl")
    assert report.annotators == ("a", "b")
    # i1 male; i2 disagreement; i3 low-quality; i4 female.
    gender = AttributeSummary("gender", 6, {"male": 1, "female": 1, "low_quality": 2}, 1)
    assert report.attributes == (gender, AttributeSummary("age", 1, {"young": 1}, 0))
    assert gender.n_images == 4
    assert gender.shares == {"male": 0.25, "female": 0.25, "low_quality": 0.5}
    assert report.summary().splitlines() == [
        "Image set set: 5 images, 1 prompt",
        "  2 T2I models: sd3, sdxl",
        "  2 annotators: a, b",
        "  gender: 6 labels of 4 of 5 images",
        "    consensus: male 1 (25.0%), female 1 (25.0%), low_quality 2 (50.0%)",
        "    low_quality for disagreement: 1",
        "  age: 1 label of 1 of 5 images",
        "    consensus: young 1 (100.0%)",
        "    low_quality for disagreement: 0",
        "  5 image files read",
        "No mistakes.",
    ]


def test_image_files_of_many_kinds(folder: Path) -> None:
    images = folder / "images"
    whole = (images / "1.png").read_bytes()
    (images / "1.png").unlink()
    (images / "2.png").write_bytes(b"")
    (images / "3.png").write_bytes(whole[: len(whole) // 2])
    (images / "4.png").write_text("a page that says: not found")
    report = check(folder)
    assert not report.ok
    found = [(item.file, item.row, item.column, item.value, item.accepted) for item in report.problems]
    assert sorted(found) == [("images.csv", n + 1, "path", f"images/{n}.png", IMAGE_FILE) for n in range(1, 5)]
    kinds = {item.row: item.message.split(" (")[0] for item in report.problems}
    assert kinds == {
        2: "missing image file",
        3: "image cannot be decoded: empty_file",
        4: "image cannot be decoded: truncated",
        5: "image cannot be decoded: not_an_image",
    }
    # The tables are sound, so the labels are still counted.
    assert [item.attribute for item in report.attributes] == ["gender", "age"]
    assert "4 mistakes in the data files:" in report.summary()


def test_tables_and_image_files_are_reported_together(folder: Path) -> None:
    (folder / "images" / "5.png").unlink()
    labels = folder / "labels.csv"
    labels.write_text(labels.read_text().replace("i4,b,gender,female", "i4,b,gender,woman"))
    report = check(folder)
    assert report.problems == (
        Problem(
            "labels.csv", "unknown label for gender", 7, "label", "woman", "male, female, low_quality, others"
        ),
        Problem("images.csv", "missing image file", 6, "path", "images/5.png", IMAGE_FILE),
    )
    assert report.attributes == ()
    assert report.n_images == 5


def test_a_path_out_of_the_folder_is_never_opened(folder: Path) -> None:
    outside = folder.parent / "outside.png"
    (folder / "images" / "1.png").rename(outside)
    images = folder / "images.csv"
    images.write_text(images.read_text().replace("images/1.png", "../outside.png"))
    report = check(folder)
    assert [(item.row, item.message) for item in report.problems] == [(2, "path that leaves the folder")]
    assert report.n_image_files == 4


def test_a_file_named_often_is_decoded_once(folder: Path) -> None:
    images = folder / "images.csv"
    images.write_text(images.read_text() + "".join(f"j{n},images/1.png,sdxl,nurse\n" for n in range(2000)))
    calls: list[tuple[int, int]] = []
    report = check(
        folder, require_labels=False, workers=2, progress=lambda done, total: calls.append((done, total))
    )
    assert report.ok
    assert (report.n_images, report.n_image_files) == (2005, 5)
    assert calls == [(1, 5), (2, 5), (3, 5), (4, 5), (5, 5)]


def test_many_broken_images_of_one_kind_do_not_hide_another(folder: Path) -> None:
    rows = "".join(f"j{n},images/none{n}.png,sdxl,nurse\n" for n in range(1500))
    images = folder / "images.csv"
    images.write_text(images.read_text() + rows)
    (folder / "images" / "5.png").write_bytes(b"")
    report = check(folder, require_labels=False)
    messages = [item.message.split(" (")[0] for item in report.problems]
    assert messages.count("missing image file") == 20
    assert "... and 1,480 more of this kind" in messages
    assert "image cannot be decoded: empty_file" in messages


def test_no_folder(tmp_path: Path) -> None:
    report = check(tmp_path / "nowhere")
    assert [item.message for item in report.problems] == ["no such folder"]
    assert (report.n_images, report.n_prompts, report.attributes) == (0, 0, ())


def test_real_sets(shared: Path) -> None:
    report = check(shared / "data" / "group_scenes")
    assert report.ok
    assert report.n_image_files == 24
    assert report.attributes == (AttributeSummary("gender", 24, {"low_quality": 24}, 0),)


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """So many images that processes look at them; every 300th but the first is broken."""
    folder = tmp_path_factory.mktemp("many")
    (folder / "images").mkdir()
    picture = folder / "images" / "0.png"
    Image.fromarray(np.zeros((2, 2, 3), dtype=np.uint8)).save(picture)
    whole = picture.read_bytes()
    for number in range(1, FILES):
        (folder / "images" / f"{number}.png").write_bytes(whole if number % 300 else whole[:40])
    records = "".join(f"i{number},images/{number}.png,sdxl,nurse\n" for number in range(FILES))
    (folder / "images.csv").write_text("image_id,path,t2i_model,prompt_id\n" + records)
    (folder / "prompts.csv").write_text("prompt_id,category,word,prompt\nnurse,profession,nurse,\n")
    return folder


@pytest.mark.slow
def test_processes_find_what_threads_find_in_the_same_order(many: Path) -> None:
    seen: list[int] = []
    found = check(many, workers=2, in_processes=True, progress=lambda done, _: seen.append(done))
    assert [each.value for each in found.problems] == [f"images/{number}.png" for number in range(300, FILES, 300)]
    assert found == check(many, workers=3)
    assert seen == list(range(1, FILES + 1))


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="asks Linux for a process's children")
@pytest.mark.slow
def test_ctrl_c_while_processes_look_at_images_is_one_word(many: Path) -> None:
    command = [sys.executable, "-m", "detector_bench", "check", str(many)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    while len(children.read_text().split()) < 2:  # one of them keeps the books, and looks at no image
        assert process.poll() is None
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)
    assert process.communicate(timeout=60)[1].strip() == "interrupted"
    assert process.returncode == 130
