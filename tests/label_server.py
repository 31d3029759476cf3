"""A labelling desk in a process of its own, and somebody who labels with the keyboard."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

import pandas as pd
from browser import KEEP_SCREENSHOTS
from PIL import Image, ImageFilter

if TYPE_CHECKING:
    from playwright.sync_api import Page

SECONDS_TO_START = 60
CHOICE_KEYS = {"male": "m", "female": "f", "low_quality": "l", "others": "o"}


@dataclass
class LabelServer:
    """`detector-bench label` over an image set.

    Attributes:
        folder: the image set.
        annotators: who labels.
        options: further options.
        address: where it listens, after `start`.
        links: what it gave out for everybody, and for "agreement".
        said: what it printed until it was open.
    """

    folder: Path
    annotators: tuple[str, ...]
    options: tuple[str, ...] = ()
    address: str = ""
    links: dict[str, str] = field(default_factory=dict)
    said: list[str] = field(default_factory=list)
    _process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Start it; after a kill, at the port that it had."""
        port = str(urlsplit(self.address).port or 0)
        command = [
            sys.executable,
            "-m",
            "detector_bench",
            "label",
            str(self.folder),
            "--no-browser",
            "--port",
            port,
        ]
        for name in self.annotators:
            command += ["--annotator", name]
        self._process = subprocess.Popen(
            [*command, *self.options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=dict(os.environ),
        )
        self.said = said = self._listen()
        for line in said:
            if line.startswith("Links with tokens are in "):
                kept = line.removeprefix("Links with tokens are in ").partition(", which only you")[0]
                said = Path(kept).read_text(encoding="utf-8").splitlines()
        self.links = {
            line.rsplit(maxsplit=1)[0].strip(): line.rsplit(maxsplit=1)[1] for line in said if "http" in line
        }
        parts = urlsplit(self.links["agreement"])
        self.address = f"{parts.scheme}://127.0.0.1:{parts.port}"

    def kill(self) -> None:
        """End it as a power cut would."""
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(timeout=30)

    def stop(self) -> str:
        """End it as Ctrl-C does; gives what it said on standard error."""
        assert self._process is not None
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
        try:
            _, errors = self._process.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            raise
        return errors

    def _listen(self) -> list[str]:
        assert self._process is not None
        assert self._process.stdout is not None
        lines: list[str] = []
        started = time.monotonic()
        while time.monotonic() - started < SECONDS_TO_START:
            line = self._process.stdout.readline()
            if not line:
                break
            lines.append(line.rstrip("\n"))
            if line.startswith("Stop with"):
                return lines
        self._process.kill()
        raise AssertionError(f"the desk did not open: {lines} {self._process.communicate()[1]}")


@contextmanager
def label_server(folder: Path, *annotators: str, options: tuple[str, ...] = ()) -> Iterator[LabelServer]:
    """A desk that is open until the block ends."""
    server = LabelServer(folder, annotators, options)
    server.start()
    try:
        yield server
    finally:
        server.stop()


def portrait_set(shared: Path, folder: Path, *, count: int) -> tuple[Path, dict[str, dict[str, str]]]:
    """The developers' portraits without labels, beside what two annotators said of their gender.

    Of the portraits that they disagree on, the first eight are in it.
    """
    source = shared / "data" / "t2i_portraits"
    labels = pd.read_csv(source / "labels.csv", dtype=str, keep_default_na=False)
    gender = by_annotator(labels[labels["attribute"] == "gender"])
    differ = gender.index[gender["a"] != gender["b"]][:8]
    same = gender.index[gender["a"] == gender["b"]][: count - len(differ)]
    images = pd.read_csv(source / "images.csv", dtype=str)
    images = images[images["image_id"].isin([*differ, *same])]
    assert len(images) == count
    (folder / "images").mkdir(parents=True)
    for path in images["path"]:
        if os.environ.get(KEEP_SCREENSHOTS):
            # The documentation shows the desk; the developers' pictures stay with the developers.
            Image.open(source / path).filter(ImageFilter.GaussianBlur(18)).save(folder / path)
        else:
            shutil.copy2(source / path, folder / path)
    images.to_csv(folder / "images.csv", index=False)
    shutil.copy(source / "prompts.csv", folder / "prompts.csv")
    chosen = gender.loc[images["image_id"]]
    return folder, {"ann": chosen["a"].to_dict(), "ben": chosen["b"].to_dict()}


def by_annotator(labels: pd.DataFrame) -> pd.DataFrame:
    """Labels with a row for each image and a column for each annotator."""
    return labels.pivot_table(index="image_id", columns="annotator", values="label", aggfunc="first")


def shown_image(page: Page) -> str:
    """The id of the picture on the labelling page."""
    source = page.locator("#pictures img").first.get_attribute("src")
    assert source is not None
    return unquote(urlsplit(source).path.removeprefix("/images/"))


def wait_for_another(page: Page, before: str) -> None:
    """Wait until another picture, or a card, stands there."""
    page.wait_for_function(
        """before => {
            const image = document.querySelector("#pictures img");
            return !document.getElementById("notice").hidden
                || (image !== null && !decodeURIComponent(image.src).endsWith(`/images/${before}`));
        }""",
        arg=before,
    )


def press_label(page: Page, label: str, *, reason: str = "1", note: str = "") -> None:
    """Give a label with the keyboard alone."""
    page.keyboard.press(CHOICE_KEYS[label])
    if label == "low_quality":
        page.keyboard.press(reason)
    elif label == "others":
        page.keyboard.type(note)
        page.keyboard.press("Enter")


def label_one(page: Page, labels: Mapping[str, str]) -> str:
    """Label the picture that is shown, and wait for the next; past the card that ends the calibration round."""
    if page.locator("#notice").is_visible():
        page.keyboard.press("Enter")  # its first button has the focus
        page.locator("#notice").wait_for(state="hidden")
    image = shown_image(page)
    press_label(page, labels[image])
    wait_for_another(page, image)
    return image


def wait_until_saved(page: Page) -> None:
    """Wait until the desk has confirmed every answer."""
    page.locator('#saved[data-state="saved"]').wait_for()


def log_rows(folder: Path) -> pd.DataFrame:
    """The store's log, row by row, read past everything that the desk does."""
    with sqlite3.connect(f"file:{folder / 'labelling.sqlite'}?mode=ro", uri=True) as connection:
        return pd.read_sql_query("SELECT entry_id, kind, annotator, item_id FROM log", connection)
