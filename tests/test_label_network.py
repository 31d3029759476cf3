"""The desk on a network that is not kind: too long, too slow and too many; TLS, and who is told the tokens."""

from __future__ import annotations

import asyncio
import os
import pty
import shutil
import socket
import ssl
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from certificates import Certificate, make_certificate
from small_parts import image_name, write_image_set

from detector_bench.errors import ConfigError
from detector_bench.labelling import LabelStore

pytest.importorskip("fastapi", reason="needs the extra label")

from label_server import label_server
from labelling_desk import SECRET, answer, client_of, eventually, interrupted, opened_store, served
from starlette.types import Message, Receive, Scope, Send

from detector_bench.labelling.web.connections import ConnectionLimits, raise_file_limit
from detector_bench.labelling.web.desk import Desk, Tokens
from detector_bench.labelling.web.security import LARGEST_BODY, LARGEST_BODY_OF_STRANGERS
from detector_bench.labelling.web.server import listen, make_server
from detector_bench.labelling.web.tls import server_context

pytestmark = pytest.mark.slow

ITEM = image_name(0)
WITH_TOKENS = Desk(("ann", "ben"), secret=SECRET, asks_token=True)
JSON = "Host: localhost\r\nContent-Type: application/json\r\n"
HASTY = ConnectionLimits(20, 20, seconds_to_send=0.3, seconds_idle=0.3)
PATIENT = ConnectionLimits(20, 20, seconds_to_send=60, seconds_idle=60)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LabelStore]:
    with opened_store(write_image_set(tmp_path / "images", 4)) as opened:
        yield opened


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return make_certificate(tmp_path_factory.mktemp("tls"))


def line_to(address: str, *, source: str = "127.0.0.1") -> socket.socket:
    """A connection that nothing was sent on."""
    port = urlsplit(address).port
    assert port is not None
    return socket.create_connection(("127.0.0.1", port), timeout=20, source_address=(source, 0))


def end_of(wire: socket.socket) -> bytes:
    """Everything that comes until the desk closes; fails if it never does."""
    found = b""
    try:
        while part := wire.recv(65536):
            found += part
    except ConnectionResetError:
        pass
    return found


def status_of(reply: bytes) -> int:
    return int(reply.split(b" ", 2)[1])


# Too long


def test_a_request_that_says_in_two_ways_how_long_it_is_is_refused(store: LabelStore) -> None:
    for desk in (WITH_TOKENS, Desk(("ann",))):
        with served(store, desk) as address, line_to(address) as wire:
            head = f"POST /api/sign-in HTTP/1.1\r\n{JSON}Content-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n"
            wire.sendall(head.encode() + b"10000\r\n" + b" " * 0x10000 + b"\r\n")
            reply = end_of(wire)
            assert status_of(reply) == 400
            assert b"in two ways" in reply


def test_without_sign_in_only_little_is_read(store: LabelStore) -> None:
    client = client_of(store, WITH_TOKENS)
    json = {"content-type": "application/json"}
    fits = b'{"token": "wrong"}'.ljust(LARGEST_BODY_OF_STRANGERS)
    assert client.post("/api/sign-in", content=fits, headers=json).status_code == 401
    assert client.post("/api/sign-in", content=fits + b" ", headers=json).status_code == 413
    assert client.request("GET", "/", content=b"x", headers=json).status_code == 400


@pytest.mark.parametrize(("path", "most"), [("/api/sign-in", LARGEST_BODY_OF_STRANGERS), ("/any", LARGEST_BODY)])
def test_what_arrives_is_counted_whatever_was_announced(store: LabelStore, path: str, most: int) -> None:
    """A server that believes less than ours, or reads framing otherwise, changes nothing."""
    from detector_bench.labelling.web.security import Guard

    sent: list[Message] = []
    taken = 0

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        raise AssertionError("a request that is too large went through")

    async def receive() -> Message:
        nonlocal taken
        taken += 1024
        return {"type": "http.request", "body": b" " * 1024, "more_body": taken < 2 * LARGEST_BODY}

    async def send(message: Message) -> None:
        sent.append(message)

    headers = {"host": "localhost", "content-type": "application/json", "content-length": "10"}
    scope = {
        "type": "http",
        "method": "POST",
        "path": path,
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
    }
    asyncio.run(Guard(app, desk=Desk(("ann",)))(scope, receive, send))
    assert sent[0]["status"] == 413
    assert (b"connection", b"close") in sent[0]["headers"]
    assert taken == most + 1024  # and no more was asked for


# Too slow


SLOW = {
    "nothing": b"",
    "half a header": b"GET / HTTP/1.1\r\nHost: local",
    "half a body": f"POST /api/sign-in HTTP/1.1\r\n{JSON}Content-Length: 99\r\n\r\n{{".encode(),
    "an answered request": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
}


@pytest.mark.parametrize("begun", SLOW.values(), ids=SLOW)
def test_who_does_not_go_on_is_disconnected(store: LabelStore, begun: bytes) -> None:
    with served(store, WITH_TOKENS, limits=HASTY) as address, line_to(address) as wire:
        wire.sendall(begun)
        end_of(wire)


def test_a_rested_connection_has_no_longer_for_its_next_header(store: LabelStore) -> None:
    limits = ConnectionLimits(20, 20, seconds_to_send=0.3, seconds_idle=60)
    with served(store, WITH_TOKENS, limits=limits) as address, line_to(address) as wire:
        wire.sendall(SLOW["an answered request"])
        assert status_of(wire.recv(65536)) == 401
        wire.sendall(SLOW["half a header"])
        end_of(wire)


def test_who_sends_byte_by_byte_gets_no_more_time(store: LabelStore) -> None:
    with served(store, WITH_TOKENS, limits=HASTY) as address, line_to(address) as wire:
        sent = 0
        while sent < 600 and is_open(wire):
            with suppress(OSError):
                wire.sendall(b"G")
            sent += 1
            time.sleep(0.05)
        assert sent < 600


def test_who_does_not_take_an_answer_is_disconnected(tmp_path: Path) -> None:
    """Several pictures of some megabytes are more than the system keeps for a client that does not read."""
    sent = threading.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        try:
            for _ in range(64):
                await send({"type": "http.response.body", "body": b" " * 2**20, "more_body": True})
        finally:
            sent.set()

    with running(app, limits=HASTY) as address, line_to(address) as wire:
        wire.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert sent.wait(20)


def test_who_begins_no_tls_is_disconnected(store: LabelStore, certificate: Certificate) -> None:
    tls = server_context(*certificate)
    with served(store, WITH_TOKENS, limits=HASTY, tls=tls) as address, ExitStack() as stack:
        silent, plain = (stack.enter_context(line_to(address)) for _ in range(2))
        plain.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b"HTTP" not in end_of(silent) + end_of(plain)
        assert httpx.get(address, verify=certificate.trusting).status_code == 401


# Too many


@contextmanager
def running(app: object, *, limits: ConnectionLimits) -> Iterator[str]:
    """Any app behind the desk's door."""
    server = make_server(app, limits=limits)  # type: ignore[arg-type]
    with listen("127.0.0.1", 0) as listening:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(10)


def is_open(wire: socket.socket) -> bool:
    wire.setblocking(False)
    try:
        return wire.recv(1) != b""
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        wire.settimeout(20)


@pytest.mark.parametrize("encrypted", [False, True], ids=["plain", "tls"])
def test_half_open_connections_keep_nobody_out(
    store: LabelStore, certificate: Certificate, encrypted: bool
) -> None:
    """From one address, as behind a proxy: five times as many as there is room for."""
    tls = server_context(*certificate) if encrypted else None
    with served(store, limits=PATIENT, tls=tls) as address, ExitStack() as stack:
        trust = certificate.trusting if encrypted else True
        at_work = stack.enter_context(httpx.Client(base_url=address, verify=trust))
        assert at_work.get("/api/ann/session").status_code == 200
        (inner,) = at_work._transport._pool.connections  # type: ignore[attr-defined]
        flood = [stack.enter_context(line_to(address)) for _ in range(100)]
        for number in range(10):
            sent = {"answers": [answer(ITEM, answer_id=f"a{number}")]}
            reply = httpx.post(f"{address}/api/ben/answers", json=sent, verify=trust)
            assert reply.json()["results"][0]["status"] == "saved"
        eventually(lambda: sum(map(is_open, flood)) < PATIENT.in_all, wanted=True)
        # Who was let in before was not pushed out by those who never said anything.
        assert at_work.get("/api/ann/session").status_code == 200
        assert at_work._transport._pool.connections == [inner]  # type: ignore[attr-defined]


def test_one_address_does_not_push_out_another(store: LabelStore) -> None:
    limits = ConnectionLimits(20, 5, seconds_to_send=60, seconds_idle=60)
    with served(store, limits=limits) as address, ExitStack() as stack:
        quiet = stack.enter_context(line_to(address, source="127.0.0.2"))
        flood = [stack.enter_context(line_to(address, source="127.0.0.3")) for _ in range(50)]
        eventually(lambda: sum(map(is_open, flood)), 5)
        assert [is_open(wire) for wire in flood[-5:]] == [True] * 5
        assert is_open(quiet)


def test_only_where_the_desk_is_at_work_for_all_nobody_else_gets_in() -> None:
    at_work, go_on = threading.Event(), threading.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        at_work.set()
        while not go_on.is_set():
            await asyncio.sleep(0.01)
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    one = ConnectionLimits(1, 1, seconds_to_send=60, seconds_idle=60)
    with running(app, limits=one) as address, line_to(address) as first:
        first.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert at_work.wait(10)
        with line_to(address) as second:
            assert end_of(second) == b""
        go_on.set()
        assert status_of(first.recv(65536)) == 204


def test_limits_stay_below_the_files_that_the_system_allows() -> None:
    wanted = ConnectionLimits(1000, 600)
    assert wanted.within(5000) == wanted
    assert wanted.within(300) == ConnectionLimits(300, 300)
    with pytest.raises(ConfigError, match="too few files, by 7"):
        wanted.within(-6)
    with pytest.raises(ConfigError, match="above zero"):
        ConnectionLimits(0)
    assert raise_file_limit(64) == 64


def test_a_low_limit_on_files_is_raised_and_said_where_it_cannot_be(tmp_path: Path) -> None:
    folder = write_image_set(tmp_path / "images", 2)
    command = f"{sys.executable} -m detector_bench label {folder} --annotator ann --port 0 --no-browser"
    for soft, hard, wanted in ((256, 4096, ""), (256, 600, "At most 216 connections at once, not 1,024")):
        limits = f"ulimit -Sn {soft} && ulimit -Hn {hard} && exec {command}"
        with subprocess.Popen(
            ["bash", "-c", limits], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            assert any(line.startswith("Stop with") for line in process.stdout)
            process.send_signal(2)
            assert process.communicate(timeout=30)[1].strip().startswith(wanted)
            assert process.returncode in (0, 130)  # interrupted at work, or just before


# TLS


def test_the_desk_encrypts_and_its_cookie_goes_nowhere_else(
    tmp_path: Path, certificate: Certificate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DETECTOR_BENCH_LABEL_SECRET", SECRET)
    folder = write_image_set(tmp_path / "images", 2)
    files = ("--certificate", str(certificate.certificate), "--key", str(certificate.key))
    with (
        label_server(folder, "ann", options=("--host", "0.0.0.0", *files)) as server,  # noqa: S104
        httpx.Client(base_url=server.address, verify=certificate.trusting) as client,
    ):
        assert server.links["ann"].startswith("https://")
        reply = client.post("/api/sign-in", json={"token": Tokens(("ann",), SECRET).of("ann")})
        assert reply.status_code == 200
        assert "Secure" in reply.headers["set-cookie"]
        assert client.get("/api/ann/session").status_code == 200
        with pytest.raises(httpx.HTTPError):
            httpx.get(server.address.replace("https:", "http:"))


def test_keys_that_others_can_read_or_that_do_not_fit_are_refused(
    tmp_path: Path, certificate: Certificate
) -> None:
    key = Path(shutil.copy(certificate.key, tmp_path / "key.pem"))
    for mode in (0o604, 0o640, 0o666):
        key.chmod(mode)
        with pytest.raises(ConfigError, match=f"others can read .*mode {mode:o}.*chmod 600"):
            server_context(certificate.certificate, key)
    key.chmod(0o600)
    assert server_context(certificate.certificate, key).minimum_version == ssl.TLSVersion.TLSv1_2
    other = make_certificate(tmp_path, name="other")
    with pytest.raises(ConfigError, match="belong together"):
        server_context(certificate.certificate, other.key)
    with pytest.raises(ConfigError, match="belong together"):
        server_context(other.key, other.key)
    locked = make_certificate(tmp_path, name="locked", passphrase=b"open sesame")
    with pytest.raises(ConfigError, match="has a passphrase"):
        server_context(*locked)
    with pytest.raises(ConfigError, match="answers https"):
        Desk(("ann",), public_url="http://desk.example", encrypts=True)


CADDY = """{
    admin off
    auto_https off
}
https://localhost:%(port)s {
    tls %(certificate)s %(key)s
    reverse_proxy 127.0.0.1:%(desk)s
}
"""


def test_the_documented_proxy_works(
    tmp_path: Path, certificate: Certificate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Caddy in front of the desk, as docs/labelling.md says, here with a certificate of its own."""
    caddy = os.environ.get("DETECTOR_BENCH_CADDY") or shutil.which("caddy")
    if caddy is None:
        pytest.skip("there is no Caddy here (install it, or set DETECTOR_BENCH_CADDY)")
    recipe = (Path(__file__).parents[1] / "docs" / "labelling.md").read_text(encoding="utf-8")
    assert "reverse_proxy 127.0.0.1:8765" in recipe
    monkeypatch.setenv("DETECTOR_BENCH_LABEL_SECRET", SECRET)
    folder = write_image_set(tmp_path / "images", 2)
    with listen("127.0.0.1", 0) as free:
        port = free.getsockname()[1]
    public = f"https://localhost:{port}"
    with label_server(folder, "ann", options=("--public-url", public)) as server:
        (kept,) = folder.glob("*-links-*.txt")
        desk = kept.stem.rpartition("-")[2]
        settings = tmp_path / "Caddyfile"
        files = {"port": port, "desk": desk, "certificate": certificate.certificate, "key": certificate.key}
        settings.write_text(CADDY % files)
        proxy = subprocess.Popen(
            [caddy, "run", "--config", str(settings), "--adapter", "caddyfile"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "HOME": str(tmp_path)},
        )
        try:
            with httpx.Client(base_url=public, verify=certificate.trusting) as client:
                eventually(lambda: answers(client), wanted=True)
                token = server.links["ann"].partition("#token=")[2]
                own = {"origin": public, "sec-fetch-site": "same-origin"}
                reply = client.post("/api/sign-in", json={"token": token}, headers=own)
                assert reply.status_code == 200
                assert "Secure" in reply.headers["set-cookie"]
                sent = {"answers": [answer(ITEM)]}
                assert client.post("/api/ann/answers", json=sent, headers=own).status_code == 200
                elsewhere = {"origin": "https://evil.example"}
                assert client.post("/api/ann/answers", json=sent, headers=elsewhere).status_code == 403
        finally:
            proxy.terminate()
            proxy.wait(20)


def answers(client: httpx.Client) -> bool:
    try:
        return client.get("/").status_code == 401
    except httpx.HTTPError:
        return False


# Tokens


def test_on_this_machine_too_a_token_can_be_asked_for_and_no_log_gets_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DETECTOR_BENCH_LABEL_SECRET", SECRET)
    tokens = Tokens(("ann",), SECRET)
    folder = write_image_set(tmp_path / "images", 2)
    log = tmp_path / "desk.log"
    with label_server(folder, "ann", options=("--token", "--log", str(log))) as server:
        (kept,) = folder.glob("*-links-*.txt")
        assert stat.S_IMODE(kept.stat().st_mode) == 0o600
        assert server.links["ann"].endswith(f"#token={tokens.of('ann')}")
        assert httpx.get(f"{server.address}/label/ann").status_code == 401
        with httpx.Client(base_url=server.address) as client:
            assert client.post("/api/sign-in", json={"token": tokens.of("ann")}).status_code == 200
            assert client.get("/label/ann").status_code == 200
            assert client.get("/agreement").status_code == 403
        said = "\n".join(server.said) + interrupted(server)[1] + log.read_text(encoding="utf-8")
    assert "Links with tokens are in" in said
    assert tokens.of("ann") not in said
    assert tokens.of(None) not in said
    assert not kept.exists()


def test_a_links_file_that_somebody_put_there_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from detector_bench.labelling.web.links import write_links

    theirs, kept = tmp_path / "theirs.txt", tmp_path / "links.txt"
    theirs.write_text("")
    kept.symlink_to(theirs)
    write_links(kept, {"ann": "http://here"})
    assert theirs.read_text() == ""
    assert kept.read_text() == "  ann  http://here\n"
    monkeypatch.setattr(os, "fstat", lambda _: os.stat_result((stat.S_IFREG | 0o644, *[0] * 9)))
    with pytest.raises(ConfigError, match="others could read them"):
        write_links(kept, {"ann": "http://here"})
    assert not kept.exists()


def test_a_terminal_shows_the_links(tmp_path: Path) -> None:
    folder = write_image_set(tmp_path / "images", 2)
    command = [sys.executable, "-m", "detector_bench", "label", str(folder)]
    ours, theirs = pty.openpty()
    options = ["--annotator", "ann", "--port", "0", "--no-browser", "--token"]
    with subprocess.Popen([*command, *options], stdout=theirs, stderr=subprocess.PIPE) as process:
        os.close(theirs)
        shown, ends = "", time.monotonic() + 60
        while "Stop with" not in shown and time.monotonic() < ends:
            shown += os.read(ours, 4096).decode()
        kept = list(folder.glob("*-links-*"))
        process.send_signal(2)
        process.communicate(timeout=30)
    assert kept == []
    os.close(ours)
    assert shown.count("#token=") == 2
