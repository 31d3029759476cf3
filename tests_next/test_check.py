"""The check of an image set: counts, shares of the consensus, all mistakes, and every image file."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from PIL import Image

from detector_bench_next.convert.checking import FEWEST_FOR_PROCESSES, check
from detector_bench_next.dataset import ImageSet
from detector_bench_next.errors import ImageError
from tests_next.studies import write_image_set

LFS = "version https://git-lfs.github.com/spec/v1\noid sha256:" + "0" * 63 + "7\nsize 48213\n"


def places(folder: Path, **options: bool) -> list[tuple[str, int | None, str | None]]:
    problems = check(folder, **options).problems
    assert all(p.column == "path" and p.accepted for p in problems if p.row is not None)
    return [(p.message.removeprefix("image file: ").split(" (")[0], p.row, p.value) for p in problems]


def edit(folder: Path, name: str, old: str, new: str) -> None:
    path = folder / f"{name}.csv"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def test_a_sound_set(tmp_path: Path) -> None:
    folder = write_image_set(tmp_path / "set", t2i_models=("sdxl", "sd3"), prompts=1, images=2)
    rows = ["sdxl_p0_0,a,male", "sdxl_p0_0,b,male", "sdxl_p0_1,a,male", "sdxl_p0_1,b,female", "sd3_p0_0,b,female"]
    lines = [f"{image},{who},gender,{label}" for image, who, label in (row.split(",") for row in rows)]
    (folder / "labels.csv").write_text("\n".join(["image_id,annotator,attribute,label", *lines]))
    assert check(folder).passed
    assert check(folder).text().splitlines() == [
        "Image set set: 4 images, 1 prompt",
        "  2 T2I models: sd3, sdxl",
        "  2 annotators: a, b",
        "  gender: 5 labels of 3 of 4 images",
        "    consensus: male 1 (33.3%), female 1 (33.3%), low_quality 1 (33.3%)",
        "    low_quality for disagreement: 1",
        "  4 image files read",
        "No mistakes.",
    ]
    (folder / "labels.csv").unlink()
    assert "no image has a label yet" in check(folder).text()
    assert "no such folder" in check(tmp_path / "nowhere").text()


def test_the_text_is_the_old_one(shared: Path) -> None:
    golden = shared / "design" / "golden" / "ground" / "shared_sets.json"
    if not golden.is_file():
        pytest.skip(f"the goldens of the old package are not there: {golden}")
    for name, facts in json.loads(golden.read_text()).items():
        assert check(shared / "data" / name).text() == facts["check"]


def test_files_of_many_kinds(tmp_path: Path) -> None:
    folder = write_image_set(tmp_path / "set", images=6, prompts=1)
    images = sorted((folder / "images").iterdir())
    whole = images[5].read_bytes()
    images[0].unlink()
    images[1].write_bytes(b"")
    images[2].write_bytes(whole[: len(whole) // 2])
    images[3].write_text(LFS)
    images[4].unlink()
    images[4].mkdir()
    reasons = ["missing_file", "empty_file", "damaged", "not_an_image", "not_a_file"]
    assert sorted(places(folder)) == sorted(
        (reason, row, f"images/{images[row - 2].name}") for row, reason in enumerate(reasons, 2)
    )
    found = check(folder)
    assert not found.passed
    assert found.counts["labels"]["gender"]["labels"] == 6  # the tables are sound
    assert "git lfs pull" in found.text()
    assert check(folder, tables=True).passed
    assert "files" not in check(folder, tables=True).counts


def test_a_pointer_in_the_place_of_labels(tmp_path: Path) -> None:
    folder = write_image_set(tmp_path / "set", images=1, prompts=1)
    (folder / "labels.csv").write_text(LFS)
    (problem,) = check(folder).problems
    assert (problem.file, problem.row) == ("labels.csv", None)
    assert "git lfs pull" in str(problem)


def test_tables_and_files_are_told_together_and_each_file_once(tmp_path: Path) -> None:
    folder = write_image_set(tmp_path / "set", images=3, prompts=1)
    rows = "".join(f"j{n},images/sd_p0_1.png,sd,p0\n" for n in range(50))
    edit(folder, "images", "sd_p0_0,images/sd_p0_0.png", "sd_p0_0,../outside.png")
    with (folder / "images.csv").open("a") as file:
        file.write(rows + "k,,sd,p0\n" + "".join(f"l{n},images/none{n}.png,sd,p0\n" for n in range(30)))
    (folder / "images" / "sd_p0_1.png").write_bytes(b"")
    calls: list[tuple[int, int]] = []
    found = check(folder, progress=lambda done, total, _: calls.append((done, total)))
    messages = [p.message for p in found.problems]
    assert [p.row for p in found.problems if "leaves the folder" in p.message] == [2]
    assert [p.row for p in found.problems if "empty_file" in p.message] == [3]
    assert sum("missing_file (" in message for message in messages) == 20
    assert sum("10 more" in message for message in messages) == 1
    assert calls == [(done, 32) for done in range(1, 33)]
    assert found.counts["not_at_hand"] == 1
    assert found.counts["labels"] == {}
    assert (found.counts["images"], found.counts["prompts"]) == (84, 1)


@pytest.mark.parametrize("allowed", [False, True])
def test_links_are_judged_as_a_run_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, allowed: bool) -> None:
    folder = write_image_set(tmp_path / "set", images=2, prompts=1)
    (folder / "images").rename(tmp_path / "elsewhere")
    (folder / "images").symlink_to(tmp_path / "elsewhere")
    if allowed:
        monkeypatch.setenv("DETECTOR_BENCH_IMAGE_ROOTS", str(tmp_path / "elsewhere"))
    assert [reason for reason, *_ in places(folder)] == ([] if allowed else ["outside_folder"] * 2)
    image_set = ImageSet.load(folder)
    if allowed:
        assert image_set.store.read(image_set.images["path"][0])
    else:
        with pytest.raises(ImageError, match="outside_folder"):
            image_set.store.read(image_set.images["path"][0])


def test_edited_photos_values_and_statements(tmp_path: Path) -> None:
    folder = tmp_path / "set"
    folder.mkdir()
    (folder / "images.csv").write_text(
        "image_id,path,t2i_model,prompt_id,seed_image_id\ntom,,,,\ne1,,sd,p,tom\ne2,,sd,p,tom\n"
    )
    (folder / "prompts.csv").write_text("prompt_id,category,word,prompt,stated_gender\np,c,w,,male\n")
    (folder / "labels.csv").write_text(
        "image_id,annotator,attribute,label,value\ntom,a,age,young,25\ne1,a,age,young,\ne2,a,age,elderly,70\n"
    )
    text = check(folder).text()
    for line in (
        "  1 T2I model: sd",
        "  2 edited images of 1 photo",
        "  prompts that state an attribute: gender 1",
        "    consensus: young 2 (66.7%), elderly 1 (33.3%)",
        "    measured: 2 values, agreed on for 2 images",
        "  3 images not at hand: only stored predictions can be used",
        "  0 image files read",
        "No mistakes.",
    ):
        assert line in text.splitlines()


def write_many(folder: Path, files: int) -> Path:
    """So many images that processes decode them; every 100th but the first is cut."""
    (folder / "images").mkdir(parents=True)
    picture = folder / "images" / "0.png"
    Image.new("RGB", (2, 2)).save(picture)
    whole = picture.read_bytes()
    for number in range(1, files):
        (folder / "images" / f"{number}.png").write_bytes(whole if number % 100 else whole[:40])
    rows = "".join(f"i{number},images/{number}.png,sdxl,nurse\n" for number in range(files))
    (folder / "images.csv").write_text("image_id,path,t2i_model,prompt_id\n" + rows)
    (folder / "prompts.csv").write_text("prompt_id,category,word,prompt\nnurse,profession,nurse,\n")
    return folder


@pytest.mark.slow
def test_processes_find_the_same_in_the_same_order(tmp_path: Path) -> None:
    folder = write_many(tmp_path / "set", FEWEST_FOR_PROCESSES + 1)
    expected = [
        ("damaged", number + 2, f"images/{number}.png") for number in range(100, FEWEST_FOR_PROCESSES + 1, 100)
    ]
    assert places(folder) == expected
    command = [sys.executable, "-m", "detector_bench_next", "check", str(folder)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert ended.stdout.splitlines()[-1].startswith("images.csv, row 502")


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="asks Linux for a process's children")
@pytest.mark.slow
def test_ctrl_c_is_one_word(tmp_path: Path) -> None:
    folder = write_many(tmp_path / "set", 20_000)
    command = [sys.executable, "-m", "detector_bench_next", "check", str(folder)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    while len(children.read_text().split()) < 2:  # one of them keeps the books, and decodes nothing
        assert process.poll() is None
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)
    assert process.communicate(timeout=60)[1].strip().splitlines()[-1] == "interrupted"
    assert process.returncode == 130
