"""A labelling desk for tests: its app in this process, or as a command that is watched to its end."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import httpx
from fastapi.testclient import TestClient
from label_server import LabelServer, shown_image, wait_for_another

from detector_bench.dataset import ImageSet
from detector_bench.labelling import DeskSettings, LabelStore
from detector_bench.labelling.web.app import make_app
from detector_bench.labelling.web.desk import Desk
from detector_bench.labelling.web.server import listen, make_server
from detector_bench.labelling.worth import Worth

if TYPE_CHECKING:
    from playwright.sync_api import Page

HERE = "http://127.0.0.1:8765"
SECRET = "a secret of the tests, long enough"  # noqa: S105


@contextmanager
def opened_store(folder: Path, **settings: Any) -> Iterator[LabelStore]:
    images = ImageSet.load(folder, require_labels=False)
    chosen = DeskSettings(**{"calibration_images": 0, **settings})
    with LabelStore.open(folder / "labelling.sqlite", images, settings=chosen) as store:
        yield store


def client_of(store: LabelStore, desk: Desk | None = None, **options: Any) -> TestClient:
    return TestClient(make_app(store, desk or Desk(("ann", "ben"))), base_url=HERE, **options)


def answer(item_id: str, label: str = "male", *, answer_id: str | None = None, **more: Any) -> dict[str, Any]:
    """What the page sends for one answer about gender."""
    choices = {"gender": {"label": label, **more}}
    return {"answer_id": answer_id or str(uuid4()), "item_id": item_id, "answers": choices}


@contextmanager
def served(
    store: LabelStore, desk: Desk | None = None, worth: Worth | None = None, **options: Any
) -> Iterator[str]:
    """A real server in a thread of this process; gives its address. `options` are limits and TLS."""
    server = make_server(make_app(store, desk or Desk(("ann", "ben")), worth=worth), **options)
    with listen("127.0.0.1", 0) as listening:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        try:
            scheme = "https" if options.get("tls") else "http"
            yield f"{scheme}://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(10)


def interrupted(server: LabelServer) -> tuple[int, str]:
    """End a desk as Ctrl-C does; gives its exit status and its last words."""
    process = server._process
    assert process is not None
    process.send_signal(signal.SIGINT)
    words, errors = process.communicate(timeout=30)
    return process.returncode, words + errors


def items_of(server: LabelServer, annotator: str = "ann") -> list[dict[str, Any]]:
    """What the desk says about the annotator's items."""
    reply = httpx.get(f"{server.address}/api/{annotator}/items?first=0&count=200")
    items: list[dict[str, Any]] = reply.json()["items"]
    return items


def visit(page: Page, address: str, annotator: str = "ann") -> None:
    page.goto(f"{address}/label/{annotator}")
    page.locator("#pictures img, #notice .card").first.wait_for()


def press(page: Page, *keys: str) -> str:
    """Press keys that lead to another picture; gives the image that they were about."""
    image = shown_image(page)
    for key in keys:
        page.keyboard.press(key)
    wait_for_another(page, image)
    return image


def labels_of(store: LabelStore, annotator: str = "ann") -> dict[str, str]:
    """The labels of gender that count, by image; skips have none."""
    found = [stored.answer for stored in store.answers(annotator)]
    return {one.item_id: one.answers["gender"].label for one in found if "gender" in one.answers}


def eventually(found: Callable[[], Any], wanted: Any) -> None:
    """Wait until something is so; fail with what it is instead."""
    deadline = time.monotonic() + 10
    while found() != wanted and time.monotonic() < deadline:
        time.sleep(0.05)
    assert found() == wanted
