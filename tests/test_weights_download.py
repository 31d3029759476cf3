"""Downloads, from a real server on this machine that misbehaves on demand."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from textwrap import dedent
from typing import Any

import numpy as np
import pytest

from detector_bench.errors import WeightsError
from detector_bench.weights import WeightsFile, WeightsLocator
from detector_bench.weights.download import download

CONTENT = np.random.default_rng(2).bytes(300_000)
SHA256 = hashlib.sha256(CONTENT).hexdigest()


class Server(ThreadingHTTPServer):
    """Serves `CONTENT`; how well, the first part of the path says. Keeps what it was asked for."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.requests: list[tuple[str, str | None]] = []
        self.released = threading.Event()

    def url(self, behaviour: str) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/{behaviour}/net.onnx"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        behaviour = self.path.split("/")[1]
        wanted = self.headers.get("Range")
        before = sum(path == self.path for path, _ in self.server.requests)
        self.server.requests.append((self.path, wanted))
        start = int(wanted.removeprefix("bytes=").removesuffix("-")) if wanted else 0
        getattr(self, behaviour)(start, before)

    def good(self, start: int, before: int) -> None:
        if start >= len(CONTENT):
            self.reply(416, b"")
        else:
            self.reply(206 if start else 200, CONTENT[start:])

    def broken(self, start: int, before: int) -> None:
        """Breaks the connection half-way on the first request."""
        if before == 0:
            self.reply(200, CONTENT[:200_000], length=len(CONTENT))
            self.close_connection = True
        else:
            self.good(start, before)

    def without_ranges(self, start: int, before: int) -> None:
        if before == 0:
            self.broken(start, before)
        else:
            self.reply(200, CONTENT)

    def wrong(self, start: int, before: int) -> None:
        content = b"<html>please log in</html>"
        self.reply(206 if start else 200, content[start:])

    def missing(self, start: int, before: int) -> None:
        self.reply(404, b"nothing here")

    def failing(self, start: int, before: int) -> None:
        self.reply(500, b"out of order")

    def moved(self, start: int, before: int) -> None:
        self.reply(302, b"", headers={"Location": "/good/net.onnx"})

    def circling(self, start: int, before: int) -> None:
        self.reply(302, b"", headers={"Location": self.path})

    def stalling(self, start: int, before: int) -> None:
        """Sends the beginning, and then nothing more."""
        self.reply(200, CONTENT[:1000], length=len(CONTENT))
        self.wfile.flush()
        self.server.released.wait(20)
        self.close_connection = True

    def slow(self, start: int, before: int) -> None:
        time.sleep(0.5)
        self.good(start, before)

    def compressing(self, start: int, before: int) -> None:
        """Compresses whatever it is asked for, unless it is asked not to."""
        assert self.headers["Accept-Encoding"] == "identity"
        self.good(start, before)

    def reply(
        self, status: int, content: bytes, *, length: int | None = None, headers: dict[str, str] | None = None
    ) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(content) if length is None else length))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Keep quiet."""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with Server() as serving:
        thread = threading.Thread(target=serving.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield serving
        serving.released.set()
        serving.shutdown()
        thread.join()


def described(url: str, *, sha256: str = SHA256) -> WeightsFile:
    return WeightsFile(path="net.onnx", sha256=sha256, url=url)


def left_in(folder: Path) -> set[str]:
    return {path.name for path in folder.rglob("*") if path.is_file() and path.suffix != ".lock"}


def test_download_is_verified_and_reported(server: Server, tmp_path: Path) -> None:
    seen: list[tuple[int, int | None]] = []
    path = download(
        described(server.url("good")), tmp_path / "new/folder", progress=lambda done, of: seen.append((done, of))
    )
    assert path == tmp_path / "new/folder/net.onnx"
    assert path.read_bytes() == CONTENT
    assert left_in(tmp_path) == {"net.onnx"}
    assert seen[-1] == (300_000, 300_000)
    assert [done for done, _ in seen] == sorted({done for done, _ in seen})


def test_file_that_is_there_is_not_downloaded_again(server: Server, tmp_path: Path) -> None:
    file = described(server.url("good"))
    download(file, tmp_path)
    download(file, tmp_path)
    assert len(server.requests) == 1


def test_wrong_file_of_that_name_is_replaced(server: Server, tmp_path: Path) -> None:
    (tmp_path / "net.onnx").write_bytes(b"an older version")
    assert download(described(server.url("good")), tmp_path).read_bytes() == CONTENT


def test_broken_download_is_taken_up_where_it_stopped(server: Server, tmp_path: Path) -> None:
    file = described(server.url("broken"))
    with pytest.raises(WeightsError, match="run it again to go on where it stopped"):
        download(file, tmp_path)
    (partial,) = left_in(tmp_path)
    assert partial.endswith(".partial")
    assert (tmp_path / partial).stat().st_size == 200_000
    seen: list[tuple[int, int | None]] = []
    assert download(file, tmp_path, progress=lambda done, of: seen.append((done, of))).read_bytes() == CONTENT
    assert [wanted for _, wanted in server.requests] == [None, "bytes=200000-"]
    assert seen[0][0] > 200_000
    assert seen[-1] == (300_000, 300_000)
    assert left_in(tmp_path) == {"net.onnx"}


def test_server_without_ranges_sends_all_of_it_again(server: Server, tmp_path: Path) -> None:
    file = described(server.url("without_ranges"))
    with pytest.raises(WeightsError):
        download(file, tmp_path)
    assert download(file, tmp_path).read_bytes() == CONTENT


@pytest.mark.parametrize(
    "beginning", [CONTENT, b"x" * 1000, CONTENT + b"too much"], ids=["complete", "wrong", "too long"]
)
def test_whatever_lies_there_the_result_is_right(server: Server, tmp_path: Path, beginning: bytes) -> None:
    file = described(server.url("broken"))
    with pytest.raises(WeightsError):
        download(file, tmp_path)
    (partial,) = left_in(tmp_path)
    (tmp_path / partial).write_bytes(beginning)
    assert download(file, tmp_path).read_bytes() == CONTENT
    assert left_in(tmp_path) == {"net.onnx"}


@pytest.mark.parametrize("lies_there", [b"", b"<html>"])
def test_nothing_is_kept_of_a_wrong_file(server: Server, tmp_path: Path, lies_there: bytes) -> None:
    file = described(server.url("wrong"))
    (tmp_path / f"net.onnx.{SHA256[:16]}.partial").write_bytes(lies_there)
    actual = hashlib.sha256(b"<html>please log in</html>").hexdigest()
    with pytest.raises(WeightsError) as raised:
        download(file, tmp_path)
    assert str(raised.value) == (
        f"{file.url} delivered another file than the pinned one: sha256 {actual}, expected {SHA256}; "
        "nothing was kept"
    )
    assert left_in(tmp_path) == set()


@pytest.mark.parametrize(
    ("behaviour", "message"),
    [("missing", "the server answers 404 Not Found"), ("failing", "the server answers 500 Internal Server Error")],
)
def test_answer_of_a_failing_server_is_passed_on(
    server: Server, tmp_path: Path, behaviour: str, message: str
) -> None:
    file = described(server.url(behaviour))
    with pytest.raises(WeightsError) as raised:
        download(file, tmp_path)
    assert str(raised.value) == f"{file.url}: {message}"
    assert left_in(tmp_path) == set()


@pytest.mark.slow
def test_redirects_are_followed_to_their_end(server: Server, tmp_path: Path) -> None:
    assert download(described(server.url("moved")), tmp_path).read_bytes() == CONTENT
    with pytest.raises(WeightsError, match="TooManyRedirects"):
        download(described(server.url("circling")), tmp_path / "other")


def test_silent_server_does_not_hold_the_program_up(server: Server, tmp_path: Path) -> None:
    began = time.monotonic()
    with pytest.raises(WeightsError, match="ReadTimeout"):
        download(described(server.url("stalling")), tmp_path, timeout=0.3)
    assert time.monotonic() - began < 5
    (partial,) = left_in(tmp_path)
    assert (tmp_path / partial).read_bytes() == CONTENT[:1000]


def test_content_is_asked_for_as_it_is(server: Server, tmp_path: Path) -> None:
    assert download(described(server.url("compressing")), tmp_path).read_bytes() == CONTENT


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:9/net.onnx", "http://[::1/net.onnx", "nonsense", "ftp://127.0.0.1/net.onnx"]
)
def test_unusable_address_is_an_error_for_the_user(tmp_path: Path, url: str) -> None:
    with pytest.raises(WeightsError) as raised:
        download(described(url), tmp_path, timeout=2)
    assert str(raised.value).startswith(f"{url}: ")


def test_folder_that_cannot_be_made_is_an_error_for_the_user(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(WeightsError, match=r"cannot store '.*net\.onnx'"):
        download(described(server.url("good")), tmp_path / "file")


@pytest.mark.parametrize("facts", [{"url": "http://127.0.0.1:9/net.onnx"}, {"sha256": SHA256}])
def test_only_a_pinned_file_with_an_address_is_downloaded(tmp_path: Path, facts: dict[str, str]) -> None:
    with pytest.raises(WeightsError, match=r"'net\.onnx' has no URL with a pinned sha256"):
        download(WeightsFile.model_validate({"path": "net.onnx", **facts}), tmp_path)


# Several at once


def test_threads_that_want_the_same_file_download_it_once(server: Server, tmp_path: Path) -> None:
    file = described(server.url("slow"))
    with ThreadPoolExecutor(4) as pool:
        paths = list(pool.map(lambda _: download(file, tmp_path), range(4)))
    assert {path.read_bytes() for path in paths} == {CONTENT}
    assert len(server.requests) == 1


@pytest.mark.slow
def test_processes_that_want_the_same_file_download_it_once(server: Server, tmp_path: Path) -> None:
    code = f"""
        from pathlib import Path
        from detector_bench.weights import WeightsFile
        from detector_bench.weights.download import download
        file = WeightsFile(path="net.onnx", sha256={SHA256!r}, url={server.url("slow")!r})
        print(len(download(file, Path({str(tmp_path)!r})).read_bytes()))
    """
    processes = [
        subprocess.Popen([sys.executable, "-c", dedent(code)], stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]
    assert [process.communicate(timeout=30)[0] for process in processes] == ["300000\n", "300000\n"]
    assert len(server.requests) == 1


# Through the locator


def test_locator_downloads_into_the_cache_last_of_all(server: Server, tmp_path: Path) -> None:
    seen: list[tuple[str, int, int | None]] = []
    file = described(server.url("good"))
    cache = tmp_path / "cache"
    locator = WeightsLocator(cache=cache).reporting(lambda *state: seen.append(state))
    found = locator.locate(file)
    assert found.is_relative_to(cache)
    assert found.name == "net.onnx"
    assert seen[-1] == ("net.onnx", 300_000, 300_000)
    assert locator.find(file) == found
    assert locator.locate(file) == found
    assert len(server.requests) == 1
    (tmp_path / "net.onnx").write_bytes(CONTENT)
    nearer = WeightsLocator(folders=(tmp_path,), cache=cache)
    assert nearer.locate(file) == tmp_path / "net.onnx"


def test_downloads_of_one_name_do_not_get_into_each_others_way(server: Server, tmp_path: Path) -> None:
    # Many published networks are called model.onnx.
    other = b"<html>please log in</html>"
    locator = WeightsLocator(cache=tmp_path)
    first = locator.locate(described(server.url("good")))
    second = locator.locate(described(server.url("wrong"), sha256=hashlib.sha256(other).hexdigest()))
    assert (first.read_bytes(), second.read_bytes()) == (CONTENT, other)
    assert locator.locate(described(server.url("good"))) == first


def test_locator_that_may_not_download_does_not(server: Server, tmp_path: Path) -> None:
    locator = WeightsLocator(cache=tmp_path, allow_download=False)
    with pytest.raises(WeightsError, match=r"not found; detector-bench weights fetch net\.onnx"):
        locator.locate(described(server.url("good")))
    assert server.requests == []
