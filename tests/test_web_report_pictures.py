"""Pictures of a report: small, large, blurred, linked or none; made once, and never from outside the image set."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote

import numpy as np
import pytest
from PIL import Image
from web_report_study import picture

from detector_bench.errors import ConfigError, DetectorBenchError
from detector_bench.site.thumbnails import ReportPictures, make_pictures

NAMES = ("one.png", "two.jpg", "a <b> & c.png")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "images"
    folder.mkdir()
    for number, name in enumerate(NAMES):
        picture(number, (640, 480)).save(folder / name)
    return folder.resolve()


def files(out: Path) -> dict[str, int]:
    """Every file below a folder with the time of its last change."""
    return {
        path.relative_to(out).as_posix(): path.stat().st_mtime_ns
        for path in sorted(out.rglob("*"))
        if path.is_file()
    }


def small_file(out: Path, pictures: ReportPictures, position: int) -> Path:
    return out / pictures.small / f"{pictures.pictures[position].name}.webp"


def test_copies_are_small_and_large_and_keep_their_proportions(root: Path, tmp_path: Path) -> None:
    made = make_pictures(root, NAMES, tmp_path / "out", mode="copy", large_side=320)
    assert [(each.width, each.height) for each in made.pictures] == [(640, 480)] * 3
    with Image.open(small_file(tmp_path / "out", made, 0)) as small:
        assert small.size == (200, 150)
    with Image.open(tmp_path / "out" / made.large / f"{made.pictures[0].name}.webp") as large:
        assert large.size == (320, 240)
    assert len(files(tmp_path / "out")) == 6


def test_small_images_are_not_enlarged_and_upright(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # turn by 90 degrees to see it upright
    exif[0x010E] = "secret words"
    picture(1, (40, 20)).save(tmp_path / "turned.jpg", exif=exif)
    made = make_pictures(tmp_path.resolve(), ["turned.jpg"], tmp_path / "out")
    assert (made.pictures[0].width, made.pictures[0].height) == (20, 40)
    file = small_file(tmp_path / "out", made, 0)
    with Image.open(file) as small:
        assert small.size == (20, 40)
        assert not small.getexif()
    assert b"secret words" not in file.read_bytes()


def test_a_second_report_makes_nothing_anew_and_one_new_image_costs_one(root: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    make_pictures(root, NAMES[:2], out)
    before = files(out)
    make_pictures(root, NAMES[:2], out)
    assert files(out) == before
    again = make_pictures(root, NAMES, out)
    after = files(out)
    assert before.items() <= after.items()
    assert len(after) == len(before) + 2
    assert (again.pictures[0].width, again.pictures[0].height) == (640, 480)


def test_a_changed_image_gets_a_new_picture_and_the_old_one_goes(root: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    before = make_pictures(root, NAMES, out)
    picture(99, (640, 480)).save(root / "one.png")
    after = make_pictures(root, NAMES, out)
    assert after.pictures[0].name != before.pictures[0].name
    assert after.pictures[1] == before.pictures[1]
    assert not small_file(out, before, 0).exists()
    assert len(files(out)) == 6


def test_half_a_file_of_a_killed_report_is_made_again(root: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    made = make_pictures(root, NAMES, out)
    small_file(out, made, 0).write_bytes(b"")
    make_pictures(root, NAMES, out)
    with Image.open(small_file(out, made, 0)) as small:
        assert small.size == (200, 150)


def test_images_of_one_content_share_their_files(root: Path, tmp_path: Path) -> None:
    (root / "copy.png").write_bytes((root / "one.png").read_bytes())
    made = make_pictures(root, ["one.png", "copy.png", "one.png"], tmp_path / "out")
    assert made.pictures[0] == made.pictures[1] == made.pictures[2]
    assert len(files(tmp_path / "out")) == 2


def test_blurred_pictures_hold_no_detail(tmp_path: Path) -> None:
    board = np.kron(np.indices((32, 32)).sum(axis=0) % 2, np.ones((16, 16))) * 255
    Image.fromarray(board.astype(np.uint8)).save(tmp_path / "board.png")
    made = make_pictures(tmp_path.resolve(), ["board.png"], tmp_path / "out", mode="blur")
    assert made.large == ""
    with Image.open(small_file(tmp_path / "out", made, 0)) as small:
        grey = np.asarray(small.convert("L"), dtype=float)
    # The squares were black and white; 12 of 200 pixels at the border are left out of the comparison.
    assert grey[12:-12, 12:-12].std() < 8
    assert len(files(tmp_path / "out")) == 1


def test_a_report_without_images_keeps_none_of_an_earlier_one(root: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    make_pictures(root, NAMES, out)
    made = make_pictures(root, NAMES, out, mode="blur")
    assert {path.split("/")[1] for path in files(out)} == {"blur-200"}
    assert len(files(out)) == 3
    none = make_pictures(root, NAMES, out, mode="none")
    assert files(out) == {}
    assert not (out / "thumbnails").exists()
    assert [each.name for each in none.pictures] == [None] * 3
    assert made.pictures[0].name is not None


def test_no_file_is_read_where_images_are_left_out(tmp_path: Path) -> None:
    made = make_pictures(tmp_path / "gone", ["gone.png"], tmp_path / "out", mode="none")
    assert made.pictures[0].problem == ""


def test_links_are_relative_and_escaped(root: Path, tmp_path: Path) -> None:
    out = tmp_path / "deep" / "out"
    out.mkdir(parents=True)
    made = make_pictures(root, NAMES, out, mode="link")
    address = made.pictures[2].name
    assert address is not None
    assert not set(address) & set('<> "&')
    assert (out / unquote(address)).resolve() == root / NAMES[2]
    assert files(out) == {}


@pytest.mark.parametrize("mode", ["copy", "blur", "link"])
def test_what_lies_outside_the_image_set_is_refused(root: Path, tmp_path: Path, mode: str) -> None:
    secret = tmp_path / "secret.png"
    picture(7).save(secret)
    (root / "link.png").symlink_to(secret)
    (root / "folder").symlink_to(tmp_path)
    paths = ["link.png", "folder/secret.png"]
    made = make_pictures(root, paths, tmp_path / "out", mode=mode)  # type: ignore[arg-type]
    assert [each.name for each in made.pictures] == [None, None]
    assert all("leaves the folder" in each.problem for each in made.pictures)
    assert not (tmp_path / "out").exists() or files(tmp_path / "out") == {}


def test_a_broken_image_gets_a_reason_that_names_no_folder(root: Path, tmp_path: Path) -> None:
    (root / "broken.png").write_bytes((root / "one.png").read_bytes()[:2000])
    (root / "text.png").write_bytes(b"only some words, and more of them")
    (root / "empty.png").write_bytes(b"")
    paths = ["broken.png", "text.png", "empty.png", "gone.png", "one.png"]
    made = make_pictures(root, paths, tmp_path / "out")
    problems = [each.problem for each in made.pictures]
    assert [problem.partition(":")[0] for problem in problems] == [
        "truncated",
        "not_an_image",
        "empty_file",
        "missing image file",
        "",
    ]
    assert not any(str(tmp_path) in problem for problem in problems)
    assert made.pictures[0].sha256 is not None


def test_too_many_pixels_are_a_placeholder(root: Path, tmp_path: Path) -> None:
    made = make_pictures(root, NAMES[:1], tmp_path / "out", max_pixels=1000)
    assert made.pictures[0].problem.startswith("too_large")


def test_progress_counts_every_file(root: Path, tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    make_pictures(root, NAMES, tmp_path / "out", progress=lambda done, total: seen.append((done, total)))
    assert seen == [(1, 3), (2, 3), (3, 3)]


def test_unknown_modes_and_sizes_are_refused(root: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="copy, blur, link, none"):
        make_pictures(root, NAMES, tmp_path / "out", mode="sharp")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="0 to 8192"):
        make_pictures(root, NAMES, tmp_path / "out", large_side=-1)


def test_a_disk_that_cannot_be_written_is_named(root: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thumbnails").write_text("a file where the folder should be")
    with pytest.raises(DetectorBenchError, match="cannot write"):
        make_pictures(root, NAMES, tmp_path / "out")
