"""Images at addresses: a web server and an S3 server that run here, with all that goes wrong on the way."""

from __future__ import annotations

import hashlib
import http.server
import logging
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from detector_bench_next.errors import ImageError, MissingExtraError
from detector_bench_next.images import ImageStore
from tests_next.test_ground_images import picture, reason

PICTURE = picture()


class _Handler(http.server.BaseHTTPRequestHandler):
    """Paths say what happens; `server.files` holds what can be had, `server.asked` what was asked for."""

    server: Any

    def do_GET(self) -> None:
        path, asked = self.path.partition("?")[0], self.server.asked
        asked[self.command, path] += 1
        self.server.logins.append(self.headers.get("Authorization"))
        data, status, headers = self.server.files.get(path, PICTURE), 200, {}
        if path != "/untold.png":
            cut = path == "/cut.png" or (path == "/cut_once.png" and asked[self.command, path] == 1)
            headers = {"ETag": hashlib.sha256(data).hexdigest(), "Content-Length": str(len(data) + 10 * cut)}
        if path == "/nohead.png" and self.command == "HEAD":
            status = 501
        if path.startswith("/status/"):
            status = int(path.split("/")[2])
        if path == "/busy.png" and asked[self.command, path] < 3:
            status = 503
        if path == "/moved.png":
            status, headers["Location"] = 302, "/a.png"
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(data)

    do_HEAD = do_GET

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


@pytest.fixture
def web(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    for name in ("DETECTOR_BENCH_IMAGE_CACHE", "http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as made:
        server: Any = made
        server.files, server.asked, server.logins = {}, Counter(), []
        server.at = f"http://127.0.0.1:{server.server_port}"
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield server
        server.shutdown()


def test_files_on_a_web_server(web: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = ImageStore(tmp_path)
    web.files["/empty.png"] = b""
    for name in ("a", "moved", "nohead", "busy", "untold", "cut_once"):
        assert store.read(f"{web.at}/{name}.png?sig=SECRET") == PICTURE, name
    cases = {"/status/404": "missing_file", "/status/410": "missing_file", "/status/403": "no_permission"}
    cases |= {"/status/401": "no_permission", "/status/400": "unreadable", "/empty.png": "empty_file"}
    for path, wanted in cases.items():
        with pytest.raises(ImageError) as raised:
            store.read(f"{web.at}{path}?sig=SECRET")
        assert raised.value.reason == wanted
        assert "SECRET" not in str(raised.value)
        assert web.asked["GET", path] == 1
    for name in ("a", "untold"):
        assert reason(store.read, f"{web.at}/{name}.png", 20) == "too_large"
    monkeypatch.setitem(sys.modules, "s3fs", None)
    with pytest.raises(MissingExtraError, match=r"detector-bench\[remote\]"):
        store.read("s3://bucket/a.png")


def test_stamps_follow_the_content_and_copies_are_kept_by_them(
    web: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, names = ImageStore(tmp_path), ("a.png", "nohead.png", "untold.png", "status/404", "a.png")
    first = store.stamps([f"{web.at}/{name}" for name in names])
    assert [bool(stamp) for stamp in first] == [True, False, False, False, True]
    assert web.asked["HEAD", "/a.png"] == 1
    monkeypatch.setenv("DETECTOR_BENCH_IMAGE_CACHE", str(tmp_path / "cache"))
    for number in (1, 2):
        web.files["/a.png"] = picture(number)
        for _ in range(2):
            store = ImageStore(tmp_path)
            assert store.stamps([f"{web.at}/a.png"]) not in ([first[0]], [None])
            assert store.read(f"{web.at}/a.png") == picture(number)
            assert store.read(f"{web.at}/untold.png") == PICTURE
        assert web.asked["GET", "/a.png"] == number
    assert web.asked["GET", "/untold.png"] == 4


def test_rows_of_parquet_at_an_address_cost_one_transfer(web: Any, tmp_path: Path) -> None:
    sink = BytesIO()
    pq.write_table(pa.table({"image": [picture(n) for n in range(1, 9)]}), sink)
    web.files["/b.parquet"], store = sink.getvalue(), ImageStore(tmp_path)
    assert [store.read(f"{web.at}/b.parquet?x=1#{row}") for row in range(8)] == [picture(n) for n in range(1, 9)]
    assert reason(store.read, f"{web.at}/b.parquet?x=1#8") == "missing_file"
    assert web.asked["GET", "/b.parquet"] == 1
    assert store.read(f"{web.at}/a.png") == PICTURE


def test_no_login_of_netrc_is_sent_and_no_secret_is_logged(
    web: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / ".netrc").write_text(
        "default login kim password secret\nmachine 127.0.0.1 login kim password secret\n"
    )
    (tmp_path / ".netrc").chmod(0o600)
    monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
    monkeypatch.setenv("HOME", str(tmp_path))
    with caplog.at_level(logging.INFO):
        ImageStore(tmp_path).read(f"{web.at}/a.png?sig=SECRET")
    assert web.logins == [None]
    assert "SECRET" not in caplog.text


@pytest.mark.slow
def test_only_the_first_image_waits_where_nobody_is(web: Any, tmp_path: Path) -> None:
    store = ImageStore(tmp_path)
    for path in ("/status/500", "/cut.png"):
        assert reason(store.read, f"{web.at}{path}") == "unreachable"
        assert web.asked["GET", path] == 5
    seconds = []
    for path in ("a", "b", "c"):
        began = time.monotonic()
        assert reason(store.read, f"http://127.0.0.1:9/{path}.png") == "unreachable"
        seconds.append(time.monotonic() - began)
    assert seconds[0] > 7
    assert max(seconds[1:]) < 1


@pytest.mark.slow
def test_objects_in_s3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = pytest.importorskip("moto.server").ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    boto3 = pytest.importorskip("boto3")
    pytest.importorskip("s3fs")
    server.start()
    host, port = server.get_host_and_port()
    for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY"):
        monkeypatch.setenv(f"AWS_{name}", "x")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
    client = boto3.client("s3")
    client.create_bucket(Bucket="pics")

    def put(key: str, data: bytes) -> str:
        client.put_object(Bucket="pics", Key=key, Body=data)
        return f"s3://pics/{key}"

    paths = [put(f"m/p/{n}.PNG", picture(n)) for n in range(1, 4)]
    empty, other = put("m/p/empty.png", b""), put("m/notes.txt", b"x")
    store = ImageStore(tmp_path)
    assert [store.read(path) for path in paths] == [picture(n) for n in range(1, 4)]
    first = store.stamps([*paths, "s3://pics/m/p/9.png"])
    assert [bool(stamp) for stamp in first] == [True, True, True, False]
    put("m/p/1.PNG", picture(11))
    put("m/p/2.PNG", picture(2))
    second = store.stamps(paths)
    assert (second[0] != first[0], second[1:]) == (True, first[1:3])
    assert store.read(paths[0]) == picture(11)
    cases = {"s3://pics/m/p/9.png": "missing_file", "s3://other/a.png": "missing_file", empty: "empty_file"}
    for path, wanted in {**cases, "s3://pics/m/p": "not_a_file"}.items():
        assert reason(store.read, path) == wanted, path
    assert reason(store.read, other, 0) == "too_large"
    sink = BytesIO()
    pq.write_table(pa.table({"image": [picture(5)]}), sink)
    assert store.read(put("b.parquet", sink.getvalue()) + "#image/0") == picture(5)
    server.stop()
    for tries in (5, 1):
        with pytest.raises(ImageError, match=rf"unreachable: s3://pics/.*\(tries: {tries}\)"):
            store.read(paths[2])
