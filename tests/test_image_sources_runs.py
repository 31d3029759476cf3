"""Runs, labelling and reports of image sets whose images lie in tar files, Parquet files and on web servers."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from file_server import FileServer, answers, serving_files
from labelling_desk import client_of, opened_store
from small_parts import forget_calls, small_run, write_image_set
from test_image_sources import write_tar

from detector_bench.dataset import ImageSet, check
from detector_bench.errors import ConfigError
from detector_bench.labelling import RefusedAnswerError
from detector_bench.labelling.label_studio import label_studio_tasks
from detector_bench.site.thumbnails import make_pictures

COUNT = 10


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[FileServer]:
    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.setenv("DETECTOR_BENCH_IMAGE_CACHE", str(tmp_path / "kept"))
    with serving_files() as server:
        yield server


@pytest.fixture
def local(tmp_path: Path) -> Path:
    return write_image_set(tmp_path / "local", COUNT)


def moved(local: Path, folder: Path, paths: list[str]) -> Path:
    """The same image set with other paths."""
    folder.mkdir(exist_ok=True)
    for name in ("prompts.csv", "labels.csv"):
        (folder / name).write_bytes((local / name).read_bytes())
    images = pd.read_csv(local / "images.csv", dtype=str, keep_default_na=False)
    images["path"] = paths
    images.to_csv(folder / "images.csv", index=False, quoting=csv.QUOTE_MINIMAL)
    return folder


def everywhere(local: Path, folder: Path, server: FileServer) -> list[str]:
    """Put the images where each of four kinds of place is used; their paths."""
    files = sorted((local / "images").iterdir())
    folder.mkdir()
    contents = {file.name: file.read_bytes() for file in files}
    write_tar(folder / "a.tar", contents)
    pq.write_table(pa.table({"image": list(contents.values())}), folder / "a.parquet", row_group_size=3)
    server.files |= {f"/{name}": data for name, data in contents.items()}
    server.files["/b.tar"] = (folder / "a.tar").read_bytes()
    kinds = (
        lambda name, number: f"a.tar#{name}",
        lambda name, number: f"a.parquet#{number}",
        lambda name, number: f"{server.address}/{name}?key=0123456789",
        lambda name, number: f"{server.address}/b.tar?key=0123456789#{name}",
    )
    return [kinds[number % 4](name, number) for number, name in enumerate(contents)]


def verdicts(out: Path) -> pd.DataFrame:
    return pq.read_table(out / "predictions" / "test-colour").to_pandas()


def test_verdicts_are_those_of_the_same_images_on_a_disk(local: Path, server: FileServer, tmp_path: Path) -> None:
    paths = everywhere(local, tmp_path / "set", server)
    elsewhere = moved(local, tmp_path / "set", paths)
    small_run(local, tmp_path / "one" / "predictions", "test-colour")
    small_run(elsewhere, tmp_path / "two" / "predictions", "test-colour")
    pd.testing.assert_frame_equal(verdicts(tmp_path / "one"), verdicts(tmp_path / "two"))
    assert check(elsewhere).ok
    assert "0123456789" not in "".join(
        path.read_bytes().decode(errors="replace")
        for path in tmp_path.rglob("*")
        if path.suffix in (".json", ".sqlite")
    )


def test_a_second_run_reads_nothing_and_a_changed_image_is_judged_anew(
    local: Path, server: FileServer, tmp_path: Path
) -> None:
    paths = everywhere(local, tmp_path / "set", server)
    elsewhere = moved(local, tmp_path / "set", paths)
    out = tmp_path / "out" / "predictions"
    small_run(elsewhere, out, "test-colour")
    before = verdicts(tmp_path / "out")
    server.requests.clear()
    forget_calls()
    small_run(elsewhere, out, "test-colour")
    assert server.asked("GET") == []
    name = paths[2].rpartition("/")[2].partition("?")[0]
    server.files[f"/{name}"] = server.files["/" + paths[6].rpartition("/")[2].partition("?")[0]]
    small_run(elsewhere, out, "test-colour")
    after = verdicts(tmp_path / "out")
    different = (before["image_sha256"] != after["image_sha256"]).to_numpy()
    assert different.tolist() == [number == 2 for number in range(COUNT)]


def test_what_cannot_be_read_is_an_error_of_its_own_image_and_is_tried_again(
    local: Path, server: FileServer, tmp_path: Path
) -> None:
    paths = everywhere(local, tmp_path / "set", server)
    paths[0], paths[1] = "gone.tar#a.png", "a.parquet#99"
    refused = paths[2].rpartition("/")[2].partition("?")[0]
    kept = server.files.pop(f"/{refused}")
    elsewhere = moved(local, tmp_path / "set", paths)
    out = tmp_path / "out" / "predictions"
    small_run(elsewhere, out, "test-colour")
    found = verdicts(tmp_path / "out").set_index("image_id")
    assert (
        found["status"].tolist()[:4] == ["error", "error", "error", "clear"] or "error" not in found["status"][3:]
    )
    reasons = found["reason"].tolist()
    assert reasons[0] == "missing_file: gone.tar: no such file"
    assert reasons[1] == "missing_file: a.parquet#99: the file has 10 rows"
    assert reasons[2].startswith("missing_file: http://127.0.0.1")
    assert "0123456789" not in reasons[2]
    assert not any(status == "error" for status in found["status"].tolist()[3:])
    server.files[f"/{refused}"] = kept
    small_run(elsewhere, out, "test-colour")
    assert (verdicts(tmp_path / "out")["status"] == "error").tolist() == [True, True, *[False] * (COUNT - 2)]


def test_an_image_that_changes_while_it_is_read_is_an_error_until_the_next_run(
    local: Path, server: FileServer, tmp_path: Path
) -> None:
    paths = [f"{server.address}/{number}.png" for number in range(COUNT)]
    for number, file in enumerate(sorted((local / "images").iterdir())):
        server.files[f"/{number}.png"] = file.read_bytes()

    def changes(handler: Any) -> None:
        server.files[handler.path] += b"one byte more"
        handler.send_file(with_body=True)

    server.script = [changes]
    elsewhere = moved(local, tmp_path / "set", paths)
    out = tmp_path / "out" / "predictions"
    small_run(elsewhere, out, "test-colour")
    found = verdicts(tmp_path / "out")
    assert (found["status"] == "error").sum() == 1
    assert "it changed after it was listed" in found["reason"][found["status"] == "error"].item()
    small_run(elsewhere, out, "test-colour")
    assert not (verdicts(tmp_path / "out")["status"] == "error").any()


def test_check_says_where_images_cannot_be_read(local: Path, server: FileServer, tmp_path: Path) -> None:
    paths = everywhere(local, tmp_path / "set", server)
    server.files.pop("/" + paths[2].rpartition("/")[2].partition("?")[0])
    paths[0] = "gone.tar#a.png"
    report = check(moved(local, tmp_path / "set", paths))
    assert [problem.row for problem in report.problems] == [2, 4]
    assert "missing image file" in report.problems[0].message
    assert "the server answers 404" in report.problems[1].message
    assert "0123456789" not in str(report.problems)


def test_the_report_shows_images_from_anywhere(local: Path, server: FileServer, tmp_path: Path) -> None:
    paths = everywhere(local, tmp_path / "set", server)
    made = make_pictures((tmp_path / "set").resolve(), paths, tmp_path / "report")
    assert all(each.name for each in made.pictures)
    linked = make_pictures((tmp_path / "set").resolve(), paths, tmp_path / "report", mode="link")
    assert {each.name for each in linked.pictures} == {None}
    assert "nothing can be linked" in linked.pictures[0].problem


def test_the_labelling_desk_shows_images_from_anywhere(local: Path, server: FileServer, tmp_path: Path) -> None:
    paths = everywhere(local, tmp_path / "set", server)
    elsewhere = moved(local, tmp_path / "set", paths)
    contents = [file.read_bytes() for file in sorted((local / "images").iterdir())]
    ids = ImageSet.load(elsewhere).images["image_id"].tolist()
    with opened_store(elsewhere) as store, client_of(store):
        assert [store.image_content(image_id) for image_id in ids] == contents
        hashes = [store.image_sha256(image_id) for image_id in ids]
        assert len(set(hashes)) == COUNT
        server.files.pop("/" + paths[2].rpartition("/")[2].partition("?")[0])
        with pytest.raises(RefusedAnswerError, match="not there, or cannot be asked for"):
            store.image_content(ids[2])
        server.requests.clear()
        assert store.image_sha256(ids[6]) == hashes[6]
        assert server.asked("GET") == [], "an unchanged image is not read again"


def test_label_studio_gets_addresses_and_no_members(local: Path, server: FileServer, tmp_path: Path) -> None:
    paths = everywhere(local, tmp_path / "set", server)
    with (
        opened_store(moved(local, tmp_path / "set", paths)) as store,
        pytest.raises(ConfigError, match="Label Studio cannot show what lies in a file") as caught,
    ):
        label_studio_tasks(store)
    assert "0123456789" not in str(caught.value)
    for number, file in enumerate(sorted((local / "images").iterdir())):
        server.files[f"/{number}.png"] = file.read_bytes()
    addresses = [f"{server.address}/{number}.png" for number in range(COUNT)]
    with opened_store(moved(local, tmp_path / "other", addresses)) as store:
        assert sorted(task["data"]["image"] for task in label_studio_tasks(store)) == sorted(addresses)


def test_an_archive_behind_a_link_out_of_the_folder_is_shown_to_nobody(local: Path, tmp_path: Path) -> None:
    write_tar(tmp_path / "private.tar", {"a.png": b"secret"})
    elsewhere = moved(local, tmp_path / "set", ["a.tar#a.png", *["b.tar#a.png"] * (COUNT - 1)])
    write_tar(elsewhere / "b.tar", {"a.png": b"public"})
    (elsewhere / "a.tar").symlink_to(tmp_path / "private.tar")
    first = ImageSet.load(elsewhere).images["image_id"].iloc[0]
    with opened_store(elsewhere) as store:
        for read in (store.image_content, store.image_sha256):
            with pytest.raises(RefusedAnswerError, match="leaves the folder through a link"):
                read(first)
    (shown, *_) = make_pictures(elsewhere.resolve(), ["a.tar#a.png"], tmp_path / "report").pictures
    assert "leaves the folder through a link" in shown.problem


@pytest.mark.slow
def test_a_server_that_stumbles_costs_no_image(local: Path, server: FileServer, tmp_path: Path) -> None:
    elsewhere = moved(local, tmp_path / "set", everywhere(local, tmp_path / "set", server))
    server.script = [answers(503), answers(503)]
    small_run(elsewhere, tmp_path / "out" / "predictions", "test-colour")
    assert not (verdicts(tmp_path / "out")["status"] == "error").any()
