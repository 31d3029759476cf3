"""The labelling desk's interface: sessions, items, answers and undo, pictures, and the server around them."""

from __future__ import annotations

import io
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import numpy as np
import pytest
from PIL import Image
from small_parts import image_name, picture, write_image_set, write_tables

from detector_bench.dataset.decoding import decode_image
from detector_bench.errors import ConfigError
from detector_bench.labelling import LabelStore, StoreError, Task
from detector_bench.labelling.questions import Question, questions_of

pytest.importorskip("fastapi", reason="needs the extra label")

from fastapi.testclient import TestClient
from label_server import label_server
from labelling_desk import answer, client_of, interrupted, items_of, opened_store

from detector_bench.labelling.web.desk import Desk
from detector_bench.labelling.web.messages import MOST_ANSWERS
from detector_bench.labelling.web.server import listen
from detector_bench.labelling.web.wording import question_view, reason_views
from detector_bench.vocabulary.attributes import CLASS_KEYS

COUNT = 8


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_image_set(tmp_path / "images", COUNT)


@pytest.fixture
def store(folder: Path) -> Iterator[LabelStore]:
    with opened_store(folder, attributes=("gender", "age"), calibration_images=1) as opened:
        yield opened


@pytest.fixture
def client(store: LabelStore) -> TestClient:
    return client_of(store)


def post(client: TestClient, *answers: dict[str, Any], annotator: str = "ann") -> dict[str, Any]:
    reply = client.post(f"/api/{annotator}/answers", json={"answers": list(answers)})
    assert reply.status_code == 200, reply.text
    body: dict[str, Any] = reply.json()
    return body


# The session and the items


def test_the_session_holds_what_the_page_needs(store: LabelStore) -> None:
    client = client_of(store, Desk(("ann",), guidelines="# Guide"))
    session = client.get("/api/ann/session").json()
    assert [question["name"] for question in session["questions"]] == ["gender", "age"]
    assert session["questions"][0]["choices"][0] == {
        "label": "male",
        "text": "Male",
        "hint": "",
        "key": "m",
        "colour": "",
    }
    assert [reason["key"] for reason in session["reasons"]] == ["1", "2", "3", "4", "5"]
    assert session["guidelines"] == "# Guide"
    assert session["progress"]["total"] == COUNT
    assert session["progress"]["calibration_total"] == 1
    assert str(store.path.parent) not in client.get("/api/ann/session").text


def test_items_say_nothing_of_prompt_and_model(client: TestClient) -> None:
    reply = client.get("/api/ann/items?first=0&count=200")
    items = reply.json()["items"]
    assert sorted(item["item_id"] for item in items) == [image_name(n) for n in range(COUNT)]
    assert [item["position"] for item in items] == list(range(COUNT))
    assert items[0]["in_calibration"]
    assert set(items[0]) == {
        *(
            "item_id",
            "position",
            "pictures",
            "answer",
            "in_calibration",
            "done",
            "image_changed",
            "locked",
            "problem",
            "asked_again",
            "proposed",
        )
    }
    assert items[0]["proposed"] == ""
    assert items[0]["pictures"] == [{"role": "image", "src": f"/images/{items[0]['item_id']}"}]
    other = client.get("/api/ben/items?first=0&count=200").json()["items"]
    assert [item["item_id"] for item in other] != [item["item_id"] for item in items]


@pytest.mark.parametrize("query", ["first=-1", "count=0", "count=201", "first=x"])
def test_wrong_ranges_are_refused_in_words(client: TestClient, query: str) -> None:
    reply = client.get(f"/api/ann/items?{query}")
    assert reply.status_code == 422
    assert query.partition("=")[0] in reply.json()["error"]["message"]


def test_everybody_takes_their_own_name(store: LabelStore) -> None:
    alone = client_of(store, Desk(("änne b",)))
    assert alone.get("/", follow_redirects=False).headers["location"] == "/label/%C3%A4nne%20b"
    assert alone.get("/label/%C3%A4nne%20b").status_code == 200
    both = client_of(store)
    assert both.get("/").status_code == 200
    assert [one["name"] for one in both.get("/api/desk").json()["annotators"]] == ["ann", "ben"]


# Answers


def test_an_answer_is_kept_once_and_can_be_taken_back(store: LabelStore, client: TestClient) -> None:
    sent = answer(image_name(0), "female", answer_id="a1")
    first, again = post(client, sent), post(client, sent)
    assert first["results"][0]["status"] == "saved"
    assert again["results"][0]["status"] == "repeated"
    assert len(store.answers("ann")) == 1
    assert not first["results"][0]["item"]["done"]  # age is still open
    both = {**sent, "answer_id": "a2", "answers": {**sent["answers"], "age": {"label": "young"}}}
    assert post(client, both)["progress"]["done"] == 1
    undone = client.post("/api/ann/undo", json={"undo_id": "u1", "answer_id": "a2"}).json()
    assert undone["item"]["answer"]["answers"].keys() == {"gender"}
    assert undone["progress"]["done"] == 0
    assert client.get("/api/ben/items?count=200").json()["progress"]["done"] == 0


def test_a_refused_answer_keeps_no_other_out(store: LabelStore, client: TestClient) -> None:
    reply = post(
        client, answer("none"), answer(image_name(1), "blue"), answer(image_name(2)), answer(image_name(3))
    )
    assert [result["status"] for result in reply["results"]] == ["refused", "refused", "saved", "saved"]
    assert "'none'" in reply["results"][0]["message"]
    assert "blue" in reply["results"][1]["message"]
    assert {stored.answer.item_id for stored in store.answers("ann")} == {image_name(2), image_name(3)}


def test_what_is_no_answer_is_refused(client: TestClient) -> None:
    good = answer(image_name(0))
    wrong: list[dict[str, Any]] = [
        {"answers": []},
        {"answers": [good] * (MOST_ANSWERS + 1)},
        {"answers": [{**good, "annotator": "ben"}]},
        {"answers": [{**good, "answer_id": ""}]},
        {"answers": [{**good, "milliseconds": -1}]},
        {"answers": [{"answer_id": "a"}]},
        {},
    ]
    for body in wrong:
        assert client.post("/api/ann/answers", json=body).status_code == 422
    broken = client.post("/api/ann/answers", content=b'{"answers"', headers={"content-type": "application/json"})
    assert broken.status_code == 422
    assert client.post("/api/ann/undo", json={"undo_id": "u", "answer_id": "unknown"}).status_code == 422


def test_a_closed_calibration_round_is_a_conflict(store: LabelStore, client: TestClient) -> None:
    item = client.get("/api/ann/items").json()["items"][0]["item_id"]
    post(client, answer(item, answer_id="a1"))
    store.close_calibration("closed")
    assert post(client, answer(item, "female"))["results"][0]["status"] == "refused"
    assert client.post("/api/ann/undo", json={"undo_id": "u1", "answer_id": "a1"}).status_code == 409
    assert client.get("/api/ann/items").json()["items"][0]["locked"]


def test_a_disk_that_fails_is_said_so_that_the_page_tries_again(
    store: LabelStore, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise StoreError("the disk is full")

    monkeypatch.setattr(store, "record", fail)
    reply = client.post("/api/ann/answers", json={"answers": [answer(image_name(0))]})
    assert reply.status_code == 503
    assert reply.json()["error"]["message"] == "the disk is full"


# Keys


def keys_of(question: Question, task: Task) -> list[str]:
    return [choice["key"] for choice in question_view(question, task=task)["choices"]]


def test_no_two_answers_share_a_key() -> None:
    """But for digits, which answer the marked question."""
    of = {name: keys_of(question, Task.IMAGES) for name, question in questions_of(Task.IMAGES).items()}
    assert of["gender"] == ["m", "f"]
    assert of["age"] == ["y", "i", "e"]
    assert of["race"] == list("1234567")
    assert of["skin_tone"] == list("1234567890")
    every = [key for keys in of.values() for key in keys]
    letters = [key for key in every if not key.isdigit()]
    assert len(set(letters)) == len(letters)
    assert {*every, *(reason["key"] for reason in reason_views())} <= {*CLASS_KEYS}
    assert not {*"glnosuz?+-"} & {*CLASS_KEYS}  # the page's commands
    for question in questions_of(Task.PAIRS).values():
        assert keys_of(question, Task.PAIRS) == ["1", "2", "3", "4"][: len(question.classes)]


# Pictures


def encoded(image: Image.Image, image_format: str, **options: Any) -> bytes:
    stream = io.BytesIO()
    image.save(stream, image_format, **options)
    return stream.getvalue()


def served(folder: Path, **files: bytes) -> Iterator[TestClient]:
    for name, content in files.items():
        (folder / "images" / name).write_bytes(content)
    write_tables(folder, range(COUNT), extra=[(name, f"images/{name}") for name in files])
    with opened_store(folder) as store:
        yield client_of(store)


def test_a_picture_comes_as_it_is_and_only_once(folder: Path, client: TestClient) -> None:
    file = folder / "images" / f"{image_name(0)}.png"
    first = client.get(f"/images/{image_name(0)}")
    assert first.content == file.read_bytes()
    assert first.headers["content-type"] == "image/png"
    assert first.headers["cache-control"] == "private, no-cache"
    known = {"if-none-match": first.headers["etag"]}
    again = client.get(f"/images/{image_name(0)}", headers=known)
    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["etag"] == first.headers["etag"]
    picture(0, seed=1).save(file)
    changed = client.get(f"/images/{image_name(0)}", headers=known)
    assert changed.status_code == 200
    assert changed.headers["etag"] != first.headers["etag"]


def test_what_browsers_cannot_show_is_converted(folder: Path) -> None:
    one, two = picture(0), picture(1)
    files = {
        "scan.tif": encoded(one, "TIFF"),
        "moving.gif": encoded(one, "GIF", save_all=True, append_images=[two]),
        "moving.png": encoded(one, "PNG", save_all=True, append_images=[two]),
        "moving.webp": encoded(one, "WEBP", save_all=True, append_images=[two], lossless=True),
        "still.webp": encoded(one, "WEBP", lossless=True),
        "still.jpg": encoded(one, "JPEG"),
    }
    for client in served(folder, **files):
        for name, content in files.items():
            reply = client.get(f"/images/{name}")
            is_still = name.startswith("still")
            assert reply.headers["content-type"] == (
                {"still.webp": "image/webp", "still.jpg": "image/jpeg"}[name] if is_still else "image/png"
            )
            assert not getattr(Image.open(io.BytesIO(reply.content)), "is_animated", False)
            assert np.array_equal(decode_image(reply.content), decode_image(content)), name


def test_what_nobody_can_show_gives_its_reason(folder: Path) -> None:
    whole = encoded(picture(0, size=(200, 200)), "JPEG")
    files = {"cut.jpg": whole[: len(whole) // 2], "empty.jpg": b"", "text.jpg": b"this is a text and no picture"}
    for client in served(folder, **files, gone=b"x"):
        (folder / "images" / "gone").unlink()
        reasons = {}
        for name in (*files, "gone", "never_listed"):
            reply = client.get(f"/images/{name}")
            assert reply.status_code == 422
            reasons[name] = reply.json()["error"]["reason"]
            assert str(folder) not in reply.text
        assert reasons == {
            "cut.jpg": "truncated",
            "empty.jpg": "empty_file",
            "text.jpg": "not_an_image",
            "gone": "not_there",
            "never_listed": "not_there",
        }
        assert "its file ends early" in client.get("/images/cut.jpg").json()["error"]["message"]


def test_a_picture_scaled_down(folder: Path) -> None:
    for client in served(folder, wide=encoded(picture(0, size=(400, 100)), "PNG")):
        small, whole = client.get("/images/wide?width=200"), client.get("/images/wide")
        assert Image.open(io.BytesIO(small.content)).size == (200, 50)
        assert small.headers["etag"] != whole.headers["etag"]
        assert Image.open(io.BytesIO(client.get("/images/wide?width=4096").content)).size == (400, 100)
        for wrong in ("0", "100000", "x"):
            assert client.get(f"/images/wide?width={wrong}").status_code == 422


@pytest.mark.slow
def test_ids_with_odd_characters_are_found(folder: Path) -> None:
    names = {"a/b c.png": "odd.png", "ü?#&%2f.png": "odder.png"}
    for file in names.values():
        picture(0).save(folder / "images" / file)
    write_tables(folder, range(2), extra=[(name, f"images/{file}") for name, file in names.items()])
    with label_server(folder, "ann") as server:  # the test client decodes addresses twice
        for item in items_of(server):
            assert httpx.get(server.address + item["pictures"][0]["src"]).status_code == 200, item


# The server


def test_a_port_in_use_is_one_clear_line() -> None:
    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=f"port {port} is in use.*--port 0") as caught:
            listen("127.0.0.1", port)
        assert "\n" not in str(caught.value)
    listen("127.0.0.1", port).close()
    with pytest.raises(ConfigError, match=r"cannot listen on 203\.0\.113\.7"):
        listen("203.0.113.7", 0)
    if os.geteuid() != 0:
        with pytest.raises(ConfigError, match="above 1023"):
            listen("127.0.0.1", 80)


@pytest.mark.slow
def test_a_real_server_from_start_to_ctrl_c(folder: Path) -> None:
    with label_server(folder, "ann", "ben") as server:
        assert list(server.links) == ["ann", "ben", "agreement"]
        first = items_of(server)[0]["item_id"]
        sent = {"answers": [answer(first, answer_id="a1")]}
        assert httpx.post(f"{server.address}/api/ann/answers", json=sent).status_code == 200
        shown = httpx.get(f"{server.address}/images/{first}")
        assert shown.headers["content-type"] == "image/png"
        assert "server" not in shown.headers
        server.kill()
        before = server.address
        server.start()  # on the same port, at once
        assert server.address == before
        again = httpx.post(f"{server.address}/api/ann/answers", json=sent).json()
        assert again["results"][0]["status"] == "repeated"
        assert [item["item_id"] for item in items_of(server) if item["done"]] == [first]
        with socket.create_connection(("127.0.0.1", urlsplit(server.address).port)):  # an idle visitor
            status, words = interrupted(server)
        assert status == 0
        assert "Stopped. Every answer" in words
        assert "Traceback" not in words


@pytest.mark.slow
def test_settings_are_kept_in_the_store_and_the_guideline_is_there(folder: Path) -> None:
    with label_server(
        folder, "ann", options=("--attributes", "age", "--calibration", "0", "--seed", "5")
    ) as server:
        order = [item["item_id"] for item in items_of(server)]
    with label_server(folder, "ann") as server:
        assert [item["item_id"] for item in items_of(server)] == order
        session = httpx.get(f"{server.address}/api/ann/session").json()
        assert [question["name"] for question in session["questions"]] == ["age"]
        assert "what you perceive is nobody's identity" in session["guidelines"]


COMMAND_MISTAKES = {
    "nobody": (["--guidelines", "none.md"], "none.md cannot be read"),
    "question": (["--attributes", "gender,hair"], "unknown question 'hair'"),
    "task": (["--task", "films"], "'films'"),
    "host": (["--host", "203.0.113.7", "--in-the-clear"], "cannot listen"),
    "in the clear": (["--host", "0.0.0.0"], "without encryption; accepted: --certificate"),  # noqa: S104
    "in the clear behind a proxy": (["--public-url", "http://desk.example"], "without encryption"),
    "half of TLS": (["--certificate", "none.pem"], "name both"),
    "no certificate": (["--certificate", "none.pem", "--key", "none.pem"], "none.pem' cannot be read"),
    "name": (["--annotator", "a/b"], "no slash"),
    "address": (["--public-url", "desk"], "public address 'desk'"),
    "pairs": (["--task", "pairs"], "seed_image_id"),
}


@pytest.mark.parametrize(("options", "message"), COMMAND_MISTAKES.values(), ids=COMMAND_MISTAKES)
def test_mistakes_on_the_command_line(folder: Path, options: list[str], message: str) -> None:
    import typer
    from typer.testing import CliRunner

    from detector_bench.cli.label import label

    app = typer.Typer()
    app.command()(label)
    result = CliRunner().invoke(app, [str(folder), "--annotator", "ann", "--port", "0", "--no-browser", *options])
    if result.exit_code == 2:  # what Typer itself refuses
        assert message in result.output
    else:
        assert isinstance(result.exception, ConfigError), result.output
        assert message in str(result.exception)
    assert list(folder.glob("*.sqlite*")) == []
