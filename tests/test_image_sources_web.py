"""Images on web servers: parts, changes, transfers that break off, and what nobody may see."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from file_server import FileServer, answers, breaks_off, hangs_up, serving_files
from test_image_sources import PICTURES, error_of, write_tar

from detector_bench.dataset.image_sources import ImageSources, web_files
from detector_bench.dataset.image_sources.patience import Patience
from detector_bench.dataset.image_sources.web_files import WebFiles

PICTURE = os.urandom(5000)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[FileServer]:
    monkeypatch.setenv("NO_PROXY", "*")
    with serving_files() as server:
        server.files["/a.png"] = PICTURE
        yield server


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ImageSources:
    quick = Patience(attempts=3, first_wait=0.001, timeout=5)
    monkeypatch.setattr("detector_bench.dataset.image_sources.sources.WebFiles", lambda: WebFiles(quick))
    return ImageSources(tmp_path, folder=tmp_path / "kept", copies=1_000_000)


@pytest.mark.parametrize("trouble", [answers(503), answers(429, Retry_After="0"), breaks_off, hangs_up])
def test_a_server_that_fails_twice_is_asked_a_third_time(
    server: FileServer, sources: ImageSources, trouble: object
) -> None:
    server.script = [trouble, trouble]  # type: ignore[list-item]
    assert sources.read(f"{server.address}/a.png") == PICTURE
    assert len(server.asked("GET")) == 3


@pytest.mark.parametrize(
    ("trouble", "reason", "requests"),
    [
        (breaks_off, "truncated_transfer", 3),
        (answers(503), "unreachable", 3),
        (answers(403), "no_permission", 1),
        (answers(404), "missing_file", 1),
        (answers(418), "unreadable", 1),
    ],
)
def test_what_does_not_pass_becomes_an_error_with_its_reason(
    server: FileServer, sources: ImageSources, trouble: object, reason: str, requests: int
) -> None:
    server.script = [trouble] * 9  # type: ignore[list-item]
    error = error_of(sources, f"{server.address}/a.png?key=0123456789")
    assert error.reason == reason
    assert len(server.asked("GET")) == requests
    assert "0123456789" not in error.detail
    assert "/a.png?(hidden)" in error.detail


def test_without_anybody_there_only_the_first_image_is_asked_for_again(
    server: FileServer, sources: ImageSources
) -> None:
    with serving_files() as gone:
        address = gone.address
    first, second = (error_of(sources, f"{address}/{name}.png") for name in "ab")
    assert (first.reason, second.reason) == ("unreachable", "unreachable")
    assert first.detail.endswith("(after 3 attempts)")
    assert second.detail.endswith("(after 1 attempt)")
    assert sources.read(f"{server.address}/a.png") == PICTURE, "another server is another matter"


def test_a_file_that_changed_since_it_was_listed_is_an_error(server: FileServer, sources: ImageSources) -> None:
    address = f"{server.address}/a.png"
    (mark,) = sources.marks([address])
    server.files["/a.png"] = PICTURE[::-1]
    assert error_of(sources, address, mark=mark).reason == "changed"
    assert sources.read(address) == PICTURE[::-1]


def test_an_unchanged_file_is_downloaded_once(server: FileServer, sources: ImageSources, tmp_path: Path) -> None:
    address = f"{server.address}/a.png"
    marks = sources.marks([address])
    assert sources.read(address, mark=marks[0]) == sources.read(address) == PICTURE
    assert ImageSources(tmp_path, folder=tmp_path / "kept").marks([address]) == marks
    assert ImageSources(tmp_path, folder=tmp_path / "kept").read(address) == PICTURE
    assert len(server.asked("GET")) == 1


@pytest.mark.parametrize("missing", ["has_tags", "has_head"])
def test_what_cannot_be_marked_is_read_each_time(server: FileServer, sources: ImageSources, missing: str) -> None:
    setattr(server, missing, False)
    address = f"{server.address}/a.png"
    (mark,) = sources.marks([address])
    assert mark is not None
    assert mark.text is None
    assert [sources.read(address, mark=mark) for _ in range(2)] == [PICTURE] * 2
    assert len(server.asked("GET")) == 2


def test_a_large_file_is_refused_while_it_comes(server: FileServer, sources: ImageSources) -> None:
    server.has_head = False
    address = f"{server.address}/a.png"
    assert error_of(sources, address, max_bytes=4999).reason == "too_large"
    assert sources.read(address, max_bytes=5000) == PICTURE


class TestParts:
    def test_members_and_rows_are_read_without_the_rest(
        self, server: FileServer, sources: ImageSources, tmp_path: Path
    ) -> None:
        pictures = PICTURES | {f"large{number}.png": os.urandom(1_500_000) for number in range(4)}
        write_tar(tmp_path / "made.tar", pictures)
        pq.write_table(pa.table({"image": list(pictures.values())}), tmp_path / "made.parquet", row_group_size=1)
        for kind in ("tar", "parquet"):
            server.files[f"/a.{kind}"] = (tmp_path / f"made.{kind}").read_bytes()
        paths = [f"{server.address}/a.tar?key=0#{name}" for name in pictures]
        paths += [f"{server.address}/a.parquet?key=0#{row}" for row in range(len(pictures))]
        with ThreadPoolExecutor(8) as pool:
            assert list(pool.map(sources.read, paths)) == [*pictures.values()] * 2
        server.requests.clear()
        unkept = ImageSources(tmp_path, folder=tmp_path / "kept", copies=0)
        assert unkept.read(paths[12]) == pictures["large1.png"]
        ranges = [headers["Range"] for method, _, headers in server.requests if method == "GET"]
        assert len(ranges) == 1, "the index was kept, so one request brings the member"

    def test_a_server_without_parts_is_an_error_for_members_and_none_for_files(
        self, server: FileServer, sources: ImageSources, tmp_path: Path
    ) -> None:
        server.has_parts = False
        write_tar(tmp_path / "made.tar", PICTURES)
        server.files["/a.tar"] = (tmp_path / "made.tar").read_bytes()
        assert error_of(sources, f"{server.address}/a.tar#000001.png").reason == "no_ranges"
        assert sources.read(f"{server.address}/a.png") == PICTURE

    def test_an_archive_that_was_replaced_is_an_error_until_it_is_listed_again(
        self, server: FileServer, sources: ImageSources, tmp_path: Path
    ) -> None:
        write_tar(tmp_path / "made.tar", PICTURES)
        server.files["/a.tar"] = (tmp_path / "made.tar").read_bytes()
        path = f"{server.address}/a.tar#000001.png"
        (mark,) = sources.marks([path])
        assert sources.read(path, mark=mark) == PICTURES["000001.png"]
        write_tar(tmp_path / "made.tar", {**PICTURES, "000002.png": b"x"})
        server.files["/a.tar"] = (tmp_path / "made.tar").read_bytes()
        other = path.replace("01.png", "02.png")
        assert error_of(sources, other, mark=mark).reason == "changed"
        assert sources.read(other) == b"x"


def test_nothing_that_is_logged_holds_a_query(
    server: FileServer, sources: ImageSources, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    sources.read(f"{server.address}/a.png?X-Amz-Signature=0123456789")
    assert "a.png" in caplog.text
    assert "0123456789" not in caplog.text


def test_user_name_and_password_come_from_netrc_and_go_nowhere_else(
    server: FileServer, sources: ImageSources, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password secret\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    elsewhere = server.address.replace("127.0.0.1", "localhost")
    server.script = [answers(302, Location=f"{elsewhere}/a.png")]
    assert sources.read(f"{server.address}/a.png") == PICTURE
    sent = [headers.get("Authorization") for method, _, headers in server.requests if method == "GET"]
    assert sent[0] is not None
    assert sent[1] is None


def test_the_login_of_netrc_for_any_server_goes_to_none(
    server: FileServer, sources: ImageSources, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "netrc").write_text("machine a.example login me password a\ndefault login me password secret\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    assert sources.read(f"{server.address}/a.png") == PICTURE
    assert [headers.get("Authorization") for _, _, headers in server.requests] == [None] * len(server.requests)


def test_a_server_that_sends_a_byte_now_and_then_does_not_hold_the_run(
    server: FileServer, sources: ImageSources, monkeypatch: pytest.MonkeyPatch
) -> None:
    def drips(handler: object) -> None:
        handler.send_response(200)  # type: ignore[attr-defined]
        handler.send_header("Content-Length", "100")  # type: ignore[attr-defined]
        handler.end_headers()  # type: ignore[attr-defined]
        for _ in range(100):
            handler.wfile.write(b"x")  # type: ignore[attr-defined]
            handler.wfile.flush()  # type: ignore[attr-defined]
            time.sleep(0.02)

    monkeypatch.setattr(web_files, "_LONGEST_TRANSFER", 0.1)
    server.script, server.has_head = [drips], False
    assert error_of(sources, f"{server.address}/a.png").reason == "unreachable"
