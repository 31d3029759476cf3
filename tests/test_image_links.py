"""Links in an image set: what leads out of it is read by no command, unless the user allowed where it leads."""

from __future__ import annotations

import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from labelling_desk import opened_store
from small_parts import small_run, write_image_set
from test_array_job import detector_bench
from test_image_sources import write_tar
from test_image_sources_runs import moved, verdicts

from detector_bench.conformance import pictures_in
from detector_bench.dataset import check, import_folder
from detector_bench.dataset.image_folder import ROOTS_VARIABLE, ImageFolder, LeavesFolderError, allowing
from detector_bench.errors import ConfigError, DataError
from detector_bench.labelling import RefusedAnswerError
from detector_bench.runner.run_call import remembered_call
from detector_bench.runner.shard_ledger import ShardLedger
from detector_bench.site.thumbnails import make_pictures
from detector_bench.study import Study
from detector_bench.verification import pack_folder

COUNT = 6
PLUGIN = Path(__file__).parent / "small_parts.py"
Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def private(tmp_path: Path) -> Path:
    """A folder beside the image set, whose pictures are nobody's business."""
    folder = write_image_set(tmp_path / "private", COUNT)
    contents = {file.name: file.read_bytes() for file in sorted((folder / "images").iterdir())}
    write_tar(folder / "some.tar", contents)
    pq.write_table(pa.table({"image": list(contents.values())}), folder / "some.parquet")
    return folder


def link_to_a_file(folder: Path, private: Path) -> str:
    (folder / "images" / "link.png").symlink_to(private / "images" / "image_000.png")
    return "images/link.png"


def relative_link(folder: Path, private: Path) -> str:
    (folder / "images" / "link.png").symlink_to("../../private/images/image_000.png")
    return "images/link.png"


def link_to_a_link(folder: Path, private: Path) -> str:
    (folder / "second.png").symlink_to(private / "images" / "image_000.png")
    (folder / "images" / "link.png").symlink_to("../second.png")
    return "images/link.png"


def linked_folder(folder: Path, private: Path) -> str:
    (folder / "linked").symlink_to(private / "images")
    return "linked/image_000.png"


def link_in_the_middle(folder: Path, private: Path) -> str:
    (folder / "a").mkdir()
    (folder / "a" / "b").symlink_to(private)
    return "a/b/images/image_000.png"


def linked_tar(folder: Path, private: Path) -> str:
    (folder / "some.tar").symlink_to(private / "some.tar")
    return "some.tar#image_000.png"


def linked_parquet(folder: Path, private: Path) -> str:
    (folder / "some.parquet").symlink_to(private / "some.parquet")
    return "some.parquet#0"


LINKS = (
    link_to_a_file,
    relative_link,
    link_to_a_link,
    linked_folder,
    link_in_the_middle,
    linked_tar,
    linked_parquet,
)


@pytest.fixture(params=LINKS, ids=lambda make: make.__name__)
def leading_out(tmp_path: Path, private: Path, request: pytest.FixtureRequest) -> tuple[Path, str]:
    """An image set whose first image lies elsewhere, and its path."""
    local = write_image_set(tmp_path / "set", COUNT)
    path = request.param(local, private)
    names = [f"images/{file.name}" for file in sorted((private / "images").iterdir())]
    return moved(local, local, [path, *names[1:]]), path


def test_what_leads_out_is_refused_everywhere_alike(leading_out: tuple[Path, str], tmp_path: Path) -> None:
    folder, path = leading_out
    (problem,) = check(folder).problems
    assert (problem.file, problem.row, problem.column, problem.value) == ("images.csv", 2, "path", path)
    assert problem.message == "path that leaves the folder through a link"
    assert (problem.accepted or "").endswith(f"below a folder that --allow-root or {ROOTS_VARIABLE} names")
    small_run(folder, tmp_path / "out" / "predictions", "test-colour")
    found = verdicts(tmp_path / "out")
    assert found["status"].tolist()[:2] == ["error", "clear"]
    assert found["reason"][0].startswith(f"outside_folder: {path.partition('#')[0]}: path that leaves the folder")
    assert str(tmp_path) not in found["reason"][0]
    assert found["image_sha256"].isna().tolist() == [True, *[False] * (COUNT - 1)]
    with (
        opened_store(folder) as store,
        pytest.raises(RefusedAnswerError, match="leaves the folder through a link"),
    ):
        store.image_content("image_000")
    for mode in ("copy", "link"):
        shown = make_pictures(folder.resolve(), [path], tmp_path / mode, mode=mode).pictures[0]
        assert "leaves the folder through a link" in shown.problem


def test_a_folder_that_is_allowed_is_read_everywhere(leading_out: tuple[Path, str], tmp_path: Path) -> None:
    folder, path = leading_out
    with allowing([tmp_path / "private"]):
        assert check(folder).ok
        small_run(folder, tmp_path / "out" / "predictions", "test-colour")
        with opened_store(folder) as store:
            assert store.image_content("image_000")
        assert not make_pictures(folder.resolve(), [path], tmp_path / "report").pictures[0].problem
    assert not (verdicts(tmp_path / "out")["status"] == "error").any()
    assert not check(folder).ok


def test_links_that_stay_inside_are_followed(tmp_path: Path) -> None:
    folder = write_image_set(tmp_path / "set", COUNT)
    (folder / "images").rename(folder / "elsewhere")
    (folder / "images").symlink_to("elsewhere")
    (folder / "elsewhere" / "image_001.png").unlink()
    (folder / "elsewhere" / "image_001.png").symlink_to(folder.resolve() / "elsewhere" / "image_000.png")
    (tmp_path / "set-too").symlink_to(folder)
    assert check(tmp_path / "set-too").ok
    small_run(tmp_path / "set-too", tmp_path / "out" / "predictions", "test-colour")
    assert not (verdicts(tmp_path / "out")["status"] == "error").any()


def test_a_folder_beside_the_allowed_one_is_not_allowed(tmp_path: Path) -> None:
    for name in ("set", "allowed", "allowed-not"):
        (tmp_path / name).mkdir()
    (tmp_path / "allowed-not" / "a.png").write_bytes(b"private")
    (tmp_path / "set" / "a.png").symlink_to(tmp_path / "allowed-not" / "a.png")
    with allowing([tmp_path / "allowed"]), pytest.raises(LeavesFolderError):
        ImageFolder(tmp_path / "set").open("a.png")


def test_a_folder_that_becomes_a_link_after_it_was_looked_at_is_not_followed(tmp_path: Path) -> None:
    for name in ("set/images", "private"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "a.png").write_bytes(name.encode())
    inside = ImageFolder(tmp_path / "set")
    with inside.open("images/a.png") as file:
        assert file.read() == b"set/images"
    shutil.rmtree(tmp_path / "set" / "images")
    (tmp_path / "set" / "images").symlink_to(tmp_path / "private")
    if not Path("/proc/self/fd").exists():
        pytest.skip("this system does not tell where an open file lies")
    with pytest.raises(LeavesFolderError):
        inside.open("images/a.png")


def test_a_folder_that_moves_within_the_image_set_is_found_again(tmp_path: Path) -> None:
    (tmp_path / "first").mkdir()
    (tmp_path / "first" / "a.png").write_bytes(b"a")
    (tmp_path / "images").symlink_to("first")
    inside = ImageFolder(tmp_path)
    inside.find("images/a.png")
    (tmp_path / "first").rename(tmp_path / "second")
    (tmp_path / "images").unlink()
    (tmp_path / "images").symlink_to("second")
    assert inside.find("images/a.png")[0] == str(tmp_path.resolve() / "second" / "a.png")


def test_what_is_allowed_goes_along_to_other_machines(tmp_path: Path, private: Path) -> None:
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "a.tar").symlink_to(private / "some.tar")
    with allowing([private]):
        sent = pickle.dumps(ImageFolder(tmp_path / "set"))
    assert ROOTS_VARIABLE not in os.environ
    assert pickle.loads(sent).find("a.tar")[0] == str(private.resolve() / "some.tar")  # noqa: S301 - our own


@pytest.mark.parametrize("value", ["nowhere", "/nowhere/at/all"])
def test_a_wrong_folder_in_the_variable_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv(ROOTS_VARIABLE, value)
    with pytest.raises(ConfigError, match=f"^{ROOTS_VARIABLE}: .*{value}") as caught:
        ImageFolder(tmp_path)
    assert "\n" not in str(caught.value)


@pytest.mark.slow
def test_commands_workers_and_tasks_know_what_is_allowed(
    tmp_path: Path, private: Path, command: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_image_set(tmp_path / "set", COUNT)
    shutil.rmtree(folder / "images")
    (folder / "images").symlink_to(private / "images")
    (tmp_path / "study.yaml").write_text("image_set: set\ndetectors: [test-colour]\n")
    monkeypatch.chdir(tmp_path)
    assert command("check", "set")[0] == 1
    assert command("check", "set", "--allow-root", "private")[0] == 0
    status, _, said = command("check", "set", "--allow-root", "nowhere")
    assert (status, said.strip()) == (1, "error: --allow-root: there is no folder 'nowhere'")
    workers = ("--plugin", str(PLUGIN), "--workers", "2", "--shards", "2", "--no-cache")
    # A process of its own, as its workers load the plugin anew.
    detector_bench("run", "study.yaml", "--out", "out", *workers, "--allow-root", "private")
    stored = pd.concat(
        pq.read_table(file).to_pandas() for file in (tmp_path / "out" / "predictions").rglob("*.parquet")
    )
    assert len(stored) == COUNT
    assert not (stored["status"] == "error").any()
    call = remembered_call(ShardLedger(tmp_path / "out" / "predictions"))
    assert call is not None
    assert call.words[-2:] == ("--allow-root", str(private.resolve()))


def test_an_import_brings_nothing_from_outside_and_puts_nothing_there(tmp_path: Path, private: Path) -> None:
    tree = tmp_path / "tree" / "model" / "nurse"
    tree.mkdir(parents=True)
    picture = private / "images" / "image_000.png"
    shutil.copy(picture, tree / "own.png")
    (tree / "linked.png").symlink_to(picture)
    with pytest.raises(DataError, match=r"model/nurse/linked\.png: path that leaves the folder through a link"):
        import_folder(tmp_path / "tree", tmp_path / "made")
    assert not (tmp_path / "made").exists()
    with allowing([private]):
        assert len(import_folder(tmp_path / "tree", tmp_path / "made").images) == 2
    (tree / "linked.png").unlink()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "images").symlink_to(private)
    with pytest.raises(DataError, match="folder that is a link out of the image set"):
        import_folder(tmp_path / "tree", tmp_path / "other")
    assert not (private / "model").exists()


def test_conformance_reads_no_picture_from_outside(tmp_path: Path, private: Path) -> None:
    folder = write_image_set(tmp_path / "set", COUNT)
    link_to_a_file(folder, private)
    with pytest.raises(ConfigError, match=r"link\.png: path that leaves the folder .*--allow-root"):
        pictures_in(folder, at_most=12)
    with allowing([private]):
        assert len(pictures_in(folder, at_most=12)) == COUNT + 1


@pytest.mark.slow
def test_evaluate_compares_images_and_a_pack_takes_none_from_outside(tmp_path: Path, private: Path) -> None:
    folder = write_image_set(tmp_path / "set", COUNT)
    study = Study(image_set=folder, detectors=["test-colour"])
    results = study.run(tmp_path / "out", use_cache=False)
    assert study.evaluate(tmp_path / "out", tmp_path / "again").reader.manifest.proof.images.same == COUNT
    (folder / "images" / "image_000.png").unlink()
    (folder / "images" / "image_000.png").symlink_to(private / "images" / "image_001.png")
    packed = pack_folder(results.folder, tmp_path / "pack.zip", image_set=folder, with_images=True)
    assert (packed["images"], packed["images left out"]) == (COUNT - 1, 1)
    (folder / "sample.csv").symlink_to(private / "labels.csv")
    with pytest.raises(ConfigError, match=r"sample\.csv: path that leaves the folder through a link"):
        pack_folder(results.folder, tmp_path / "pack.zip", image_set=folder)
