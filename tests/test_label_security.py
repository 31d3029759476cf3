"""Who and what the labelling desk lets in: addresses, sites, tokens, paths; and that names are only ever text."""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from small_parts import image_name, picture, write_image_set, write_tables

from detector_bench.errors import ConfigError
from detector_bench.labelling import LabelStore

pytest.importorskip("fastapi", reason="needs the extra label")

from fastapi.testclient import TestClient
from label_server import LabelServer, label_server
from labelling_desk import HERE, SECRET, answer, client_of, interrupted, opened_store

from detector_bench.labelling.web.desk import Desk, Tokens
from detector_bench.labelling.web.security import HEADERS, LARGEST_BODY

COUNT = 6
ITEM = image_name(0)
OPEN = Desk(("ann", "ben"), host="0.0.0.0", port=8765, secret=SECRET)  # noqa: S104
SCRIPT = "<script>alert(1)</script>"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LabelStore]:
    with opened_store(write_image_set(tmp_path / "images", COUNT)) as opened:
        yield opened


@pytest.fixture
def client(store: LabelStore) -> TestClient:
    return client_of(store)


def signed_in(store: LabelStore, person: str | None) -> TestClient:
    client = client_of(store, OPEN)
    assert OPEN.tokens is not None
    assert client.post("/api/sign-in", json={"token": OPEN.tokens.of(person)}).status_code == 200
    return client


ANSWERS_OF_ALL_KINDS = {
    "page": ("GET", "/label/ann", 200),
    "script": ("GET", "/static/label.js", 200),
    "interface": ("GET", "/api/ann/session", 200),
    "picture": ("GET", f"/images/{ITEM}", 200),
    "way on": ("GET", "/", 200),
    "no such picture": ("GET", "/images/none", 422),
    "no such page": ("GET", "/none", 404),
    "no such script": ("GET", "/static/none.js", 404),
    "nobody": ("GET", "/label/eve", 404),
    "wrong method": ("DELETE", "/api/ann/answers", 415),
    "wrong parameter": ("GET", "/api/ann/items?count=many", 422),
}


@pytest.mark.parametrize(("method", "path", "status"), ANSWERS_OF_ALL_KINDS.values(), ids=ANSWERS_OF_ALL_KINDS)
def test_every_answer_carries_the_headers(client: TestClient, method: str, path: str, status: int) -> None:
    reply = client.request(method, path)
    assert reply.status_code == status
    assert {name: reply.headers[name] for name in HEADERS} == dict(HEADERS)
    policy = reply.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
    assert (
        "require-trusted-types-for 'script'; trusted-types 'none'" in policy
    )  # no text becomes HTML by a mistake
    assert "unsafe" not in policy


def test_a_mistake_in_the_desk_says_nothing_of_itself(
    store: LabelStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("inner secret")

    monkeypatch.setattr(store, "progress", fail)
    reply = client_of(store).get("/api/ann/session")
    assert reply.status_code == 500
    assert "inner secret" not in reply.text
    assert "inner secret" in caplog.text
    assert reply.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("host", ["127.0.0.1:8765", "localhost:9", "[::1]:8765", "LOCALHOST"])
def test_own_addresses_are_known(client: TestClient, host: str) -> None:
    assert client.get("/api/desk", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example", "127.0.0.1.evil.example:8765", "192.168.0.7:8765", "localhost@evil.example", "", "a:b"],
)
def test_another_name_that_points_here_is_refused(client: TestClient, host: str) -> None:
    assert client.get("/api/desk", headers={"host": host}).status_code == 421
    assert client.post("/api/ann/answers", json={}, headers={"host": host}).status_code == 421


def test_a_desk_for_other_machines_knows_its_names_and_plain_addresses(store: LabelStore) -> None:
    for host in ("192.168.0.7:8765", socket.gethostname(), "[fd00::7]:8765"):
        assert client_of(store, OPEN).get("/", headers={"host": host}).status_code == 401
    assert client_of(store, OPEN).get("/", headers={"host": "evil.example"}).status_code == 421
    named = Desk(("ann",), public_url="https://desk.example")
    assert client_of(store, named).get("/", headers={"host": "desk.example"}).status_code == 401


CROSS_SITE = {
    "other origin": {"origin": "https://evil.example"},
    "same host, other port": {"origin": "http://127.0.0.1:9999"},
    "sandboxed": {"origin": "null"},
    "another site": {"sec-fetch-site": "cross-site"},
    "another port of this machine": {"sec-fetch-site": "same-site"},
}


@pytest.mark.parametrize("headers", CROSS_SITE.values(), ids=CROSS_SITE)
def test_posts_of_other_sites_are_refused(store: LabelStore, client: TestClient, headers: dict[str, str]) -> None:
    body = {"answers": [answer(ITEM)]}
    assert client.post("/api/ann/answers", json=body, headers=headers).status_code == 403
    assert store.progress("ann").done == 0
    own = {"origin": HERE, "sec-fetch-site": "same-origin"}
    assert client.post("/api/ann/answers", json=body, headers=own).status_code == 200
    assert store.progress("ann").done == 1


def test_a_proxy_may_hand_on_another_host(store: LabelStore) -> None:
    desk = Desk(("ann",), public_url="https://desk.example", secret=SECRET)
    assert desk.tokens is not None
    sent = {"token": desk.tokens.of("ann")}
    for origin, status in (("https://desk.example", 200), ("https://evil.example", 403)):
        reply = client_of(store, desk).post("/api/sign-in", json=sent, headers={"origin": origin})
        assert reply.status_code == status


@pytest.mark.parametrize(
    "content_type",
    [
        None,
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data",
        "text/plain; application/json",
    ],
)
def test_what_a_form_can_send_is_refused(store: LabelStore, client: TestClient, content_type: str | None) -> None:
    headers = {} if content_type is None else {"content-type": content_type}
    body = b'{"answers": [{"answer_id": "x", "item_id": "image_000", "skipped": true}]}'
    assert client.post("/api/ann/answers", content=body, headers=headers).status_code == 415
    assert store.progress("ann").skipped == 0


def test_requests_without_an_end_or_too_long_are_refused(client: TestClient) -> None:
    json = {"content-type": "application/json"}
    assert client.post("/api/ann/answers", content=iter([b"{}"]), headers=json).status_code == 411
    assert client.post("/api/ann/answers", content=b" " * (LARGEST_BODY + 1), headers=json).status_code == 413


def test_other_sites_may_link_but_not_embed_or_read(client: TestClient) -> None:
    link = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
    embedded = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors", "sec-fetch-dest": "image"}
    framed = {**link, "sec-fetch-dest": "iframe"}
    assert client.get("/label/ann", headers=link).status_code == 200
    assert client.get("/label/ann", headers=framed).status_code == 403
    for headers in (link, embedded, {"sec-fetch-site": "same-site"}):
        assert client.get(f"/images/{ITEM}", headers=headers).status_code == 403
        assert client.get("/api/ann/items", headers=headers).status_code == 403


def test_without_a_token_only_the_way_in_is_open(store: LabelStore) -> None:
    assert OPEN.tokens is not None
    client = client_of(store, OPEN)
    for path in ("/", "/label/ann", "/agreement"):
        page = client.get(path)
        assert page.status_code == 401
        assert 'id="sign-in"' in page.text
    for path in ("/api/ann/session", "/api/desk", "/api/agreement", f"/images/{ITEM}", "/export/labels.csv"):
        assert client.get(path).status_code == 401
    assert client.post("/api/ann/answers", json={"answers": [answer(ITEM)]}).status_code == 401
    assert client.get("/static/sign-in.js").status_code == 200
    for token in ("", "wrong", "ä", Tokens(("ann",), "another secret, long enough").of("ann")):
        assert client.post("/api/sign-in", json={"token": token}).status_code == 401
        cookie = f"{OPEN.tokens.cookie}={token}".encode()
        assert client.get("/api/ann/session", headers={"cookie": cookie}).status_code == 401
    assert store.progress("ann").done == 0


def test_a_token_opens_ones_own_pages_and_no_others(store: LabelStore) -> None:
    ben = signed_in(store, "ben")
    assert ben.post("/api/ben/answers", json={"answers": [answer(ITEM, note=SCRIPT)]}).status_code == 200
    ann = signed_in(store, "ann")
    for path in ("/label/ann", "/api/ann/session", "/api/ann/items", f"/images/{ITEM}"):
        assert ann.get(path).status_code == 200
    others = ("/label/ben", "/api/ben/session", "/api/ben/items", "/agreement", "/api/agreement", "/adjudication")
    for path in (
        *others,
        "/api/adjudication",
        "/export/labels.csv",
        "/export/label-studio.json",
        "/api/ann/../ben/items",
    ):
        assert ann.get(path).status_code in (403, 404), path
    for action in ("answers", "undo"):
        assert ann.post(f"/api/ben/{action}", json={}).status_code == 403
    assert store.progress("ben").done == 1
    seen = ann.get("/api/ann/items").text + ann.get("/api/ann/session").text + ann.get("/api/desk").text
    assert "ben" not in seen
    assert "alert" not in seen


def test_the_coordinator_reviews_and_does_not_label(store: LabelStore) -> None:
    coordinator = signed_in(store, None)
    assert coordinator.get("/agreement").status_code == 200
    assert coordinator.get("/api/agreement").status_code == 200
    assert coordinator.get("/label/ann").status_code == 403
    assert coordinator.post("/api/ann/answers", json={"answers": [answer(ITEM)]}).status_code == 403


def test_the_cookie_is_out_of_reach(store: LabelStore) -> None:
    assert OPEN.tokens is not None
    sent = {"token": OPEN.tokens.of("ann")}
    plain = client_of(store, OPEN).post("/api/sign-in", json=sent).headers["set-cookie"]
    assert "HttpOnly" in plain
    assert "samesite=strict" in plain.lower()
    assert "Secure" not in plain
    safe = Desk(("ann",), public_url="https://desk.example", secret=SECRET)
    here = {"host": "desk.example"}
    assert "Secure" in client_of(store, safe).post("/api/sign-in", json=sent, headers=here).headers["set-cookie"]


def test_tokens_hang_on_person_and_secret() -> None:
    one, again, other = (Tokens(("ann", "ben"), secret) for secret in (SECRET, SECRET, None))
    assert one.of("ann") == again.of("ann")
    assert len({one.of("ann"), one.of("ben"), one.of(None), other.of("ann")}) == 4
    assert len(one.of("ann")) == 40
    assert one.cookie != other.cookie
    with pytest.raises(ConfigError, match="at least 16"):
        Tokens(("ann",), "short")


@pytest.mark.slow
def test_no_log_line_holds_a_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A real server, whose own log would hold addresses; the links are printed once, on purpose."""
    monkeypatch.setenv("DETECTOR_BENCH_LABEL_SECRET", SECRET)
    token = Tokens(("ann",), SECRET).of("ann")
    folder = write_image_set(tmp_path / "images", 2)
    with label_server(folder, "ann", options=("--host", "0.0.0.0", "--in-the-clear")) as server:  # noqa: S104
        assert server.links["ann"].endswith(f"/label/ann#token={token}")
        with httpx.Client(base_url=server.address) as client:
            assert client.get(f"/label/ann?token={token}").status_code == 401
            assert client.post("/api/sign-in", json={"token": token}).status_code == 200
            assert client.get("/api/ann/session").status_code == 200
            json = {"content-type": "application/json"}
            assert client.post("/api/sign-in", content=b"{" + token.encode(), headers=json).status_code == 422
            assert client.get(f"/images/{token}").status_code == 422
        status, words = interrupted(server)
    assert status == 0
    assert "Stopped" in words
    assert token not in words


def raw(server: LabelServer, target: str) -> bytes:
    """A request as no proper client makes it: with this very target."""
    with socket.create_connection(("127.0.0.1", urlsplit(server.address).port), timeout=5) as wire:
        wire.sendall(f"GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        return b"".join(iter(lambda: wire.recv(65536), b""))


@pytest.mark.parametrize(
    "name",
    ["../labels.csv", "..%2Flabels.csv", "%2e%2e/labels.csv", "images.csv", "%2Fetc%2Fpasswd", "C:%5Cx", "a%00b"],
)
def test_only_ids_of_the_image_set_are_pictures(client: TestClient, name: str) -> None:
    reply = client.get(f"/images/{name}")
    assert reply.status_code in (404, 422)
    assert b"image_id" not in reply.content
    assert b"root:" not in reply.content


@pytest.mark.slow
def test_paths_that_climb_are_refused_on_the_wire(tmp_path: Path) -> None:
    with label_server(write_image_set(tmp_path / "images", 2), "ann") as server:
        for target in ("/images/../images.csv", "/static/../app.py", "/static/%2e%2e/app.py", "/../../etc/passwd"):
            reply = raw(server, target)
            assert reply.split(b" ", 2)[1] in (b"404", b"422"), target
            assert b"import" not in reply.partition(b"\r\n\r\n")[2]


def test_a_link_that_leaves_the_image_set_is_no_picture(tmp_path: Path) -> None:
    outside = tmp_path / "outside.png"
    picture(1).save(outside)
    folder = write_image_set(tmp_path / "images", 2)
    (folder / "images" / "link.png").symlink_to(outside)
    (folder / "images" / "inner.png").symlink_to(folder / "images" / f"{image_name(0)}.png")
    write_tables(folder, range(2), extra=[("link", "images/link.png"), ("inner", "images/inner.png")])
    with opened_store(folder) as store:
        client = client_of(store)
        refused = client.get("/images/link")
        assert refused.status_code == 422
        assert str(tmp_path) not in refused.text
        assert client.get("/images/inner").status_code == 200


def test_names_are_text_on_every_page(store: LabelStore, client: TestClient) -> None:
    for path in (f"/label/{SCRIPT}", f"/nowhere/{SCRIPT}", f"/api/{SCRIPT}/session"):
        reply = client.get(path)
        assert reply.status_code == 404
        assert "<script>alert" not in reply.text or reply.headers["content-type"] == "application/json"
    named = client_of(store, Desk((SCRIPT.replace("/", "|"), "ben")))
    assert named.get("/api/desk").headers["content-type"] == "application/json"
    assert "alert" not in named.get("/").text


@pytest.mark.parametrize(
    "wrong",
    [
        {"annotators": ()},
        {"annotators": ("ann", "ann")},
        {"annotators": ("a/b",)},
        {"annotators": ("..",)},
        {"annotators": (" ann",)},
        {"annotators": ("Agreement",)},
        {"annotators": ("adjudicator",)},
        {"annotators": ("ann",), "public_url": "desk.example"},
        {"annotators": ("ann",), "public_url": "https://desk.example/path"},
    ],
)
def test_a_desk_that_cannot_work_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        Desk(**wrong)


def test_nothing_of_the_guard_is_logged_as_an_error(client: TestClient, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        client.get("/api/desk", headers={"host": "evil.example"})
    assert caplog.records == []
