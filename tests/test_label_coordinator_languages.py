"""The coordinator's pages in other languages than English: whole, and with room for long words."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
import pytest
import yaml
from browser import DESKTOP, chromium, opened, overflow, serious_findings
from label_answers import labels_at_random, record
from small_parts import write_image_set

pytest.importorskip("fastapi", reason="needs the extra label")

from labelling_desk import opened_store, served

from detector_bench.labelling import Answer, Asking, Choice, LabelStore
from detector_bench.labelling.web.desk import Desk
from detector_bench.labelling.web.languages import Words, all_texts, read_language
from detector_bench.labelling.worth import LabelsWorth

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.slow

PHONE = (390, 844)
PLACES = ("/agreement", "/adjudication")
DATA = {"ann", "ben", "cem", "images", "A", "B", "profession", "object", "labels.csv", "Label", "Studio", "JSON"}
"""What stands on the pages in no language: names of people, of the image set and of its parts."""

SHOWN = """() => {
    const said = [document.title];
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node !== null; node = walker.nextNode()) {
        if (!node.parentElement.closest("kbd, script, noscript")) said.push(node.textContent);
    }
    for (const one of document.querySelectorAll("[aria-label], [title]")) {
        said.push(one.getAttribute("aria-label") ?? "", one.getAttribute("title") ?? "");
    }
    return said.map((text) => text.trim()).filter((text) => text !== "");
}"""
CUT = """() => [...document.querySelectorAll(
        "h1, h2, h3, button, .button, .places a, th, dt, dd, select, .saved, .live")]
    .filter((one) => one.checkVisibility({visibilityProperty: true}))
    .filter((one) => getComputedStyle(one).display !== "inline" && one.scrollWidth > one.clientWidth + 1)
    .map((one) => `${one.tagName} ${one.textContent}`)"""
OUTSIDE = """() => [...document.querySelectorAll(
        "h1, h2, h3, p, button, .button, select, .places a, .saved, .live")]
    .filter((one) => one.checkVisibility({visibilityProperty: true}))
    .filter((one) => one.closest(".wide, .skip-link, .filter-bar") === null)
    .map((one) => [one, one.getBoundingClientRect()])
    .filter(([one, box]) => box.right > innerWidth + 1 || box.left < -1)
    .map(([one]) => `${one.tagName} ${one.textContent}`)"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as running:
        yield running


def fill(store: LabelStore) -> None:
    """Answers of two people, some of them proposed in a grid, so that every part of both pages is shown."""
    ann, ben = labels_at_random(seed=7, noise=0.4)
    ben[0], ann[0] = Choice("low_quality", "blurred"), Choice("male", note="ok")
    record(store, "ann", {number: choice for number, choice in ann.items() if number < 20})
    record(store, "ben", {number: choice for number, choice in ben.items() if number < 20})
    for name, given in (("ann", ann), ("ben", ben)):
        for item in store.items(name, 0, 100):
            number = int(item.item_id[-3:])
            if number >= 20 and not item.in_calibration:
                asking = Asking(proposed="male", proposed_by="clip")
                store.record(
                    name, Answer(f"{name}{number}", item.item_id, {"gender": given[number]}, asking=asking)
                )


def some_worth(labels: pd.DataFrame) -> list[LabelsWorth]:
    """One T2I model in each state that the page has a sentence for."""
    states = ((0.312, 0.084, 117), (0.2, 0.04, 0), (0.2, 0.04, None), (math.nan, math.nan, None))
    return [
        LabelsWorth("gender", "A", "model_bias_score", estimate, half, len(labels), more, 0.05)
        for estimate, half, more in states
    ]


def marked(folder: Path) -> Path:
    """A language in which everything that is translated stands between marks."""
    german = read_language("de", image_set=folder)
    content = {
        "language": "qaa",
        "name": "«Marked»",
        "texts": {text: f"«{text.replace(' ', '_')}»" for text in all_texts()},
        "questions": {
            name: {
                **{part: f"«{part} of it»" for part in ("question", "title", "short")},
                "classes": {label: f"«{label} of it»" for label in words.classes},
            }
            for name, words in german.questions.items()
        },
        "reasons": {name: {"text": f"«{name} of it»", "hint": "«hint»"} for name in german.reasons},
    }
    path = folder.parent / "qaa.yaml"
    path.write_text(yaml.safe_dump(content, allow_unicode=True), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = write_image_set(tmp_path_factory.mktemp("desk") / "images", 24)
    with opened_store(made, calibration_images=3) as store:
        fill(store)
    return made


@contextmanager
def desk_in(language: str, folder: Path) -> Iterator[str]:
    """A desk at which everybody reads a language; gives its address."""
    words = Words(read_language(language, image_set=folder))
    desk = Desk(("ann", "ben", "cem"), words=words)
    with opened_store(folder, calibration_images=3) as store, served(store, desk, some_worth) as address:
        yield address


def visit(page: Page, address: str, place: str) -> None:
    page.goto(f"{address}{place}")
    if place == "/agreement":
        page.locator('#live[data-state="live"]').wait_for()
        page.locator("#worth-lines li").first.wait_for()
    else:
        page.locator("#pictures img").wait_for()


def every_text(page: Page, address: str) -> list[str]:
    """What stands on the coordinator's pages, in each of their states."""
    said = []
    for place in PLACES:
        visit(page, address, place)
        said += page.evaluate(SHOWN)
    for keys in (["l"], ["Escape", "t"], ["Escape", "o"], ["Escape", "?"]):
        for key in keys:
            page.keyboard.press(key)
        said += page.evaluate(SHOWN)
    page.keyboard.press("Escape")
    page.goto(f"{address}/adjudication?names=hidden&show=unresolved")
    page.locator("#notice h1").wait_for()
    return said + page.evaluate(SHOWN)


def test_whatever_the_coordinator_reads_is_in_the_catalogue(browser: Browser, folder: Path) -> None:
    with desk_in(str(marked(folder)), folder) as address, opened(browser) as page:
        left = set()
        for text in every_text(page, address):
            rest = text
            while (shorter := re.sub("«[^«»]*»", " ", rest)) != rest:
                rest = shorter
            words = {word.strip(".,:;()") for word in re.split(r"\s+", rest)}
            left |= {word for word in words if re.search("[A-Za-z]", word)}
    assert left <= DATA


def test_german_leaves_no_english_and_fits_on_desktop_and_phone(browser: Browser, folder: Path) -> None:
    texts = read_language("de", image_set=folder).texts
    same = {text for text, translated in texts.items() if text == translated}
    english = [re.compile(re.sub(r"\\{[a-z_]+\\}", ".+", re.escape(text))) for text in texts if text not in same]
    with desk_in("de", folder) as address:
        for size in (DESKTOP, PHONE):
            with opened(browser, size=size, touch=size == PHONE) as page:
                for place in PLACES:
                    visit(page, address, place)
                    assert page.evaluate("document.documentElement.lang") == "de"
                    assert overflow(page) == 0, (place, size)
                    assert page.evaluate(CUT) == [], (place, size)
                    assert page.evaluate(OUTSIDE) == [], (place, size)
                    if size == PHONE:
                        assert serious_findings(page) == [], place
        with opened(browser) as page:
            said = set(every_text(page, address)) - set(texts.values()) - DATA
    assert len(said) > 20
    assert [text for text in said if any(one.fullmatch(text) for one in english)] == []
