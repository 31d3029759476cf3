"""Images in stores of objects: an S3 server on this machine, and servers that fail as real ones do."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from file_server import FileServer, answers, breaks_off, serving_files
from test_image_sources import PICTURES, error_of, write_tar

from detector_bench.dataset.image_sources import ImageSources, object_stores
from detector_bench.dataset.image_sources.object_stores import ObjectStore
from detector_bench.dataset.image_sources.patience import Patience

pytestmark = pytest.mark.slow

pytest.importorskip("moto")
s3fs = pytest.importorskip("s3fs")

KEYS = {
    "AWS_ACCESS_KEY_ID": "public-name",
    "AWS_SECRET_ACCESS_KEY": "the-secret-key",
    "AWS_DEFAULT_REGION": "us-east-1",
}


@pytest.fixture(scope="module")
def bucket() -> Iterator[Any]:
    """A running S3 server with an empty bucket named `bucket`; the file system writes there."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    address = f"http://{host}:{port}"
    system = s3fs.S3FileSystem(
        key="public-name",
        secret="the-secret-key",  # noqa: S106 - of a server that asks nobody
        endpoint_url=address,
        use_listings_cache=False,
        skip_instance_cache=True,
    )
    system.mkdir("bucket")
    system.pipe("bucket/other/there", b"1")
    system.address = address
    yield system
    server.stop()


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in os.environ if name.startswith(("AWS_", "FSSPEC_", "HF_"))]:
        monkeypatch.delenv(name)
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("NO_PROXY", "*")
    s3fs.S3FileSystem.clear_instance_cache()


@pytest.fixture
def sources(bucket: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ImageSources:
    monkeypatch.setenv("AWS_ENDPOINT_URL", bucket.address)
    return quick_sources(tmp_path, monkeypatch)


def quick_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ImageSources:
    quick = Patience(attempts=3, first_wait=0.001)
    monkeypatch.setattr(
        "detector_bench.dataset.image_sources.sources.ObjectStore", lambda scheme: ObjectStore(scheme, quick)
    )
    return ImageSources(tmp_path, folder=tmp_path / "kept", copies=0)


def test_objects_members_and_rows_are_read(bucket: Any, sources: ImageSources, tmp_path: Path) -> None:
    write_tar(tmp_path / "a.tar", PICTURES)
    pq.write_table(pa.table({"image": list(PICTURES.values())}), tmp_path / "a.parquet", row_group_size=2)
    bucket.pipe({f"bucket/read/{name}": data for name, data in PICTURES.items()})
    bucket.pipe({f"bucket/read/a.{kind}": (tmp_path / f"a.{kind}").read_bytes() for kind in ("tar", "parquet")})
    paths = [f"s3://bucket/read/{name}" for name in PICTURES]
    paths += [f"s3://bucket/read/a.tar#{name}" for name in PICTURES]
    paths += [f"s3://bucket/read/a.parquet#{row}" for row in range(len(PICTURES))]
    marks = sources.marks(paths)
    with ThreadPoolExecutor(8) as pool:
        read = list(pool.map(lambda path, mark: sources.read(path, mark=mark), paths, marks))
    assert read == list(PICTURES.values()) * 3


def test_a_folder_is_listed_as_a_whole_and_says_the_same_as_each_object(
    bucket: Any, sources: ImageSources, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket.pipe({f"bucket/many/{number}.png": bytes([number]) for number in range(40)})
    paths = [f"s3://bucket/many/{number}.png" for number in range(40)]
    monkeypatch.setattr(object_stores, "LISTED_FROM", 40)
    with monkeypatch.context() as patch:
        patch.setattr(ObjectStore, "mark", None)  # nothing is asked for one by one
        listed = sources.marks([*paths, "s3://bucket/many/gone.png"])
    assert listed[-1] is None
    assert len({mark.text for mark in listed if mark is not None}) == 40
    assert [sources.marks([path])[0] for path in paths[:3]] == listed[:3]


def test_what_is_not_there_or_not_allowed_is_said_of_each_image(bucket: Any, sources: ImageSources) -> None:
    assert error_of(sources, "s3://bucket/none.png").reason == "missing_file"
    assert error_of(sources, "s3://no-such-bucket/a.png").reason == "missing_file"
    assert error_of(sources, "s3://bucket/other").reason == "not_a_file"
    assert error_of(sources, "s3://bucket/none.tar#a.png").reason == "missing_file"
    assert error_of(sources, "s3://bucket/other/there", max_bytes=0).reason == "too_large"
    try:
        # From here on the server looks at credentials, and knows nobody.
        httpx.post(f"{bucket.address}/moto-api/reset-auth", content=b"0")
        error = error_of(sources, "s3://bucket/other/there")
        assert sources.marks(["s3://bucket/other/there"]) == [None]
    finally:
        httpx.post(f"{bucket.address}/moto-api/reset-auth", content=b"Infinity")
    assert error.reason == "no_permission"
    assert "the-secret-key" not in error.detail


def test_without_credentials_the_error_says_so(
    bucket: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.setenv("AWS_ENDPOINT_URL", bucket.address)
    error = error_of(quick_sources(tmp_path, monkeypatch), "s3://bucket/other/there")
    assert error.reason == "no_permission"
    assert "credentials" in error.detail


def test_an_object_that_changed_after_it_was_listed_is_an_error(
    bucket: Any, sources: ImageSources, tmp_path: Path
) -> None:
    write_tar(tmp_path / "a.tar", PICTURES)
    bucket.pipe({"bucket/change/a.png": b"before", "bucket/change/a.tar": (tmp_path / "a.tar").read_bytes()})
    paths = ["s3://bucket/change/a.png", "s3://bucket/change/a.tar#000001.png"]
    marks = sources.marks(paths)
    write_tar(tmp_path / "a.tar", {name: data[::-1] + b"!" for name, data in PICTURES.items()})
    bucket.pipe({"bucket/change/a.png": b"and after", "bucket/change/a.tar": (tmp_path / "a.tar").read_bytes()})
    for path, mark in zip(paths, marks, strict=True):
        assert error_of(sources, path, mark=mark).reason == "changed"
        assert sources.read(path)
        assert sources.marks([path]) != [mark]


class TestUnreliableStores:
    @pytest.fixture
    def server(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[FileServer]:
        with serving_files() as server:
            server.files["/bucket/a.png"] = b"a picture of some length"
            monkeypatch.setenv("AWS_ENDPOINT_URL", server.address)
            yield server

    def test_what_passes_is_asked_for_again(
        self, server: FileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        server.script = [answers(503), breaks_off]
        assert quick_sources(tmp_path, monkeypatch).read("s3://bucket/a.png") == b"a picture of some length"
        assert len(server.asked("GET")) == 3

    def test_a_transfer_that_always_breaks_off_is_an_error(
        self, server: FileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(s3fs.S3FileSystem, "retries", 1)
        server.script = [breaks_off] * 100
        assert error_of(quick_sources(tmp_path, monkeypatch), "s3://bucket/a.png").reason == "truncated_transfer"

    def test_with_nobody_there_only_the_first_image_is_waited_for(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with serving_files() as gone:
            monkeypatch.setenv("AWS_ENDPOINT_URL", gone.address)
        sources = quick_sources(tmp_path, monkeypatch)
        first, second = (error_of(sources, f"s3://bucket/{name}.png") for name in "ab")
        assert (first.reason, second.reason) == ("unreachable", "unreachable")
        assert first.detail.endswith("(after 3 attempts)")
        assert second.detail.endswith("(after 1 attempt)")


class GoogleServer(FileServer):
    """The two addresses of Google's JSON interface that reading needs."""

    def answer(self, handler: Any) -> bool:
        path = urlsplit(handler.path).path
        found = re.fullmatch(r"(/download)?/storage/v1/b/([^/]+)/o/(.+)", path)
        if found is None:
            return False
        name = f"/{found[2]}/{unquote(found[3])}"
        data = self.files.get(name)
        if data is None:
            handler.send_json(404, {"error": {"code": 404, "message": "No such object"}})
        elif "media" in parse_qs(urlsplit(handler.path).query).get("alt", []):
            handler.path = name
            return False
        else:
            tag = hashlib.md5(data).hexdigest()  # noqa: S324 - a name, no secret
            listed = {"name": name.split("/", 2)[2], "bucket": found[2], "size": str(len(data)), "etag": tag}
            handler.send_json(200, {"kind": "storage#object", "generation": "1", **listed})
        return True


def test_objects_at_google_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gcsfs = pytest.importorskip("gcsfs")
    gcsfs.GCSFileSystem.clear_instance_cache()
    with serving_files(GoogleServer()) as server:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", server.address)
        monkeypatch.setenv("FSSPEC_GS_TOKEN", "anon")
        monkeypatch.setenv("FSSPEC_GCS_TOKEN", "anon")
        write_tar(tmp_path / "a.tar", PICTURES)
        server.files = {"/bucket/a/b.png": b"picture", "/bucket/a.tar": (tmp_path / "a.tar").read_bytes()}
        sources = quick_sources(tmp_path, monkeypatch)
        assert sources.read("gs://bucket/a/b.png") == b"picture"
        assert sources.read("gs://bucket/a.tar#000003.png") == PICTURES["000003.png"]
        (mark,) = sources.marks(["gs://bucket/a/b.png"])
        assert mark is not None
        server.files["/bucket/a/b.png"] = b"other"
        assert error_of(sources, "gs://bucket/a/b.png", mark=mark).reason == "changed"
        assert error_of(sources, "gs://bucket/a/none.png").reason == "missing_file"


class HubServer(FileServer):
    """The addresses of the Hugging Face Hub that reading a data set's files needs."""

    revision = "0123456789" * 4

    def answer(self, handler: Any) -> bool:
        path = unquote(urlsplit(handler.path).path)
        for revision in ("main", self.revision):
            tree = f"/api/datasets/owner/name/tree/{revision}"
            if path == tree or path.startswith(f"{tree}/"):
                handler.send_json(200, [self._listed(name) for name in sorted(self.files)])
                return True
            if path in ("/api/datasets/owner/name", f"/api/datasets/owner/name/revision/{revision}"):
                handler.send_json(200, {"id": "owner/name", "sha": self.revision, "siblings": []})
                return True
            if path == f"/api/datasets/owner/name/paths-info/{revision}":
                body = handler.rfile.read(int(handler.headers["Content-Length"]))
                names = parse_qs(body.decode()).get("paths") or json.loads(body)["paths"]
                names = [names] if isinstance(names, str) else names
                handler.send_json(200, [self._listed(f"/{name}") for name in names if f"/{name}" in self.files])
                return True
            resolved = f"/datasets/owner/name/resolve/{revision}/"
            if path.startswith(resolved):
                handler.path = "/" + path.removeprefix(resolved)
                return False
        return False

    def _listed(self, name: str) -> dict[str, Any]:
        data = self.files[name]
        return {"type": "file", "path": name[1:], "size": len(data), "oid": hashlib.sha1(data).hexdigest()}  # noqa: S324


HUB_PROGRAM = """
import sys
from pathlib import Path
from detector_bench.dataset.decoding import ImageError
from detector_bench.dataset.image_sources import ImageSources, object_stores

sources = ImageSources(Path(sys.argv[1]), folder=Path(sys.argv[1]) / "kept", copies=0)
row = "hf://datasets/owner/name/data/a.parquet#2"
(mark,) = sources.marks([row])
print(mark.text is not None, sources.read(row, mark=mark)[:3], sources.read("hf://datasets/owner/name@main/b.png"))
try:
    sources.read("hf://datasets/owner/name/none.png")
except ImageError as error:
    print(error.reason)
"""


def test_rows_of_a_data_set_on_the_hub_are_read(tmp_path: Path) -> None:
    pytest.importorskip("huggingface_hub")
    cells = [{"bytes": data, "path": None} for data in PICTURES.values()]
    pq.write_table(pa.table({"image": cells}), tmp_path / "a.parquet")
    with serving_files(HubServer()) as server:
        server.files = {"/data/a.parquet": (tmp_path / "a.parquet").read_bytes(), "/b.png": b"picture"}
        # The library looks for the address of the Hub when it is imported.
        environment = {**os.environ, "HF_ENDPOINT": server.address, "HF_HOME": str(tmp_path / "hub")}
        ended = subprocess.run(
            [sys.executable, "-c", HUB_PROGRAM, str(tmp_path)],
            env=environment,
            check=True,
            capture_output=True,
            text=True,
            timeout=60,
        )
    assert ended.stdout.splitlines() == [f"True {PICTURES['000003.png'][:3]!r} b'picture'", "missing_file"]
