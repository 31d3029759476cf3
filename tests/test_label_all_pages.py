"""The desk's pages in a real browser: hostile text stays text, tokens, accessibility, and how they look."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from uuid import uuid4

import pandas as pd
import pytest
from browser import (
    DESKTOP,
    TABLET_TALL,
    TABLET_WIDE,
    chromium,
    keep_screenshot,
    opened,
    overflow,
    serious_findings,
)
from label_server import LabelServer, label_server, portrait_set, press_label, wait_until_saved
from small_parts import image_name, write_csv, write_image_set

from detector_bench.dataset import ImageSet
from detector_bench.labelling import Answer, Choice, DeskSettings, LabelStore
from detector_bench.vocabulary.columns import IMAGE_COLUMNS, PROMPT_COLUMNS

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.slow
pytest.importorskip("fastapi", reason="needs the extra label")

SCRIPT = "<script>alert(1)</script><img src=x onerror=alert(2)>"
NAME = "<img src=x onerror=alert(3)>"
COUNT = 6
SIZES = {"desktop": DESKTOP, "tablet": TABLET_WIDE, "tablet-upright": TABLET_TALL}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as running:
        yield running


def record(folder: Path, settings: DeskSettings, given: dict[str, list[dict[str, Choice]]]) -> None:
    """Put answers into an image set's store, by annotator, in the order of the images."""
    images = ImageSet.load(folder, require_labels=False)
    with LabelStore.open(folder / "labelling.sqlite", images, settings=settings) as store:
        for annotator, choices in given.items():
            for image_id, answers in zip(images.images["image_id"], choices, strict=False):
                store.record(annotator, Answer(str(uuid4()), str(image_id), answers, milliseconds=1800))


# Hostile text


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabelServer]:
    """A desk at which names, notes, prompts, T2I models, categories and the guideline hold HTML and scripts."""
    folder = write_image_set(tmp_path_factory.mktemp("hostile") / SCRIPT.replace("/", ""), COUNT)
    rows = [(f"{image_name(at)}{SCRIPT}", f"images/{image_name(at)}.png", SCRIPT, SCRIPT) for at in range(COUNT)]
    write_csv(folder / "images.csv", IMAGE_COLUMNS, rows)
    write_csv(folder / "prompts.csv", PROMPT_COLUMNS, [(SCRIPT, SCRIPT, SCRIPT, SCRIPT)])
    (folder / "labels.csv").unlink()
    (folder.parent / "guideline.md").write_text(f"# {SCRIPT}\n\n{SCRIPT} [{SCRIPT}](javascript:alert(4))\n")
    male, other = Choice("male", note=SCRIPT), Choice("others", note=SCRIPT)
    given = {NAME: [{"gender": other}] * (COUNT - 2), "ben": [{"gender": male}] * (COUNT - 2)}
    record(folder, DeskSettings(calibration_images=0), given)
    options = ("--guidelines", str(folder.parent / "guideline.md"))
    with label_server(folder, NAME, "ben", options=options) as server:
        yield server


def assert_only_text(page: Page) -> None:
    assert page.locator('img[src="x"], script:not([src]), [onerror], a[href^="javascript"]').count() == 0


def test_notes_and_names_are_text_on_the_labelling_page(hostile: LabelServer, browser: Browser) -> None:
    with opened(browser) as page:
        page.goto(hostile.address)
        page.get_by_role("link", name=NAME).click()
        page.locator("#pictures img").wait_for()
        assert page.locator("#annotator").inner_text().endswith(NAME)
        press_label(page, "others", note=SCRIPT)
        wait_until_saved(page)
        page.keyboard.press("ArrowLeft")
        page.get_by_text(SCRIPT).first.wait_for()
        page.keyboard.press("g")
        page.locator("#guidelines").get_by_text(SCRIPT).first.wait_for()
        assert_only_text(page)


def test_notes_and_names_are_text_on_the_review_pages(hostile: LabelServer, browser: Browser) -> None:
    with opened(browser) as page:
        page.goto(f"{hostile.address}/agreement")
        page.locator('#live[data-state="live"]').wait_for()
        assert NAME in page.locator("#annotators").inner_text()
        assert SCRIPT in page.locator("#scopes").inner_text()
        assert NAME in page.locator("#confusion caption").inner_text()
        assert_only_text(page)
        page.goto(f"{hostile.address}/adjudication")
        page.locator("#pictures img").wait_for()
        said = page.locator(".said").inner_text()
        assert NAME in said
        assert said.count(SCRIPT) == 2
        page.get_by_label("T2I model").select_option(SCRIPT)
        assert page.evaluate("new URLSearchParams(location.search).get('t2i_model')") == SCRIPT
        page.keyboard.press("t")
        page.keyboard.type(SCRIPT)
        page.keyboard.press("Enter")
        page.keyboard.press("4")
        page.keyboard.press("Enter")
        wait_until_saved(page)
        page.keyboard.press("ArrowLeft")
        page.get_by_text(f"Decided: Other: {SCRIPT}").wait_for()
        assert_only_text(page)


# Tokens


def test_each_link_opens_only_what_it_is_for(browser: Browser, tmp_path: Path) -> None:
    folder = write_image_set(tmp_path / "images", COUNT)
    with label_server(folder, "ann", "ben", options=("--host", "0.0.0.0", "--in-the-clear")) as server:  # noqa: S104 - with tokens
        token = {name: link.partition("#token=")[2] for name, link in server.links.items()}
        assert len(set(token.values())) == 3
        with opened(browser) as page:
            page.goto(f"{server.address}/label/ann")
            page.get_by_role("heading", name="Open your link").wait_for()
            page.goto(f"{server.address}/label/ann#token={'0' * 40}")
            page.reload()
            page.get_by_role("heading", name="Open your link").wait_for()
            assert page.locator("#pictures img").count() == 0
        with opened(browser) as page:
            page.goto(f"{server.address}/label/ann#token={token['ann']}")
            page.locator("#pictures img").wait_for()
            assert "token" not in page.url
            for place in ("/label/ben", "/agreement", "/adjudication"):
                page.goto(f"{server.address}{place}")
                page.get_by_text("This is not for ann.").wait_for()
        with opened(browser) as page:
            page.goto(f"{server.address}/agreement#token={token['agreement']}")
            page.locator('#live[data-state="live"]').wait_for()
            page.goto(f"{server.address}/label/ann")
            page.get_by_text("This is not for coordinator.").wait_for()
        server.stop()


# Everybody can use them, and how they look


class Desks(NamedTuple):
    """Two desks over the same portraits: one at which people are at work, one at which they are through."""

    at_work: LabelServer
    finished: LabelServer


@pytest.fixture(scope="module")
def desks(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desks]:
    notes = {0: "the camera hides half of the face", 3: "hair and clothes point both ways"}
    servers = []
    with ExitStack() as stack:
        for name, done in (("at work", 20), ("finished", 60)):
            folder, labels = portrait_set(shared, tmp_path_factory.mktemp(name) / "t2i_portraits", count=60)
            given = {
                annotator: [
                    {"gender": Choice(label, "ambiguous" * (label == "low_quality"), notes.get(at % 7, ""))}
                    for at, label in enumerate(of_images.values())
                ]
                for annotator, of_images in labels.items()
            }
            record(folder, DeskSettings(), {annotator: each[:done] for annotator, each in given.items()})
            servers.append(stack.enter_context(label_server(folder, "ann", "ben")))
        yield Desks(*servers)


def visit(page: Page, desks: Desks, place: str) -> None:
    """Open a page that shows something, and wait until it does."""
    server = desks.finished if place in ("/agreement", "/adjudication") else desks.at_work
    page.goto(f"{server.address}{place}")
    if place == "/agreement":
        page.locator('#live[data-state="live"]').wait_for()
    elif place in ("/adjudication", "/label/ann"):
        page.locator("#pictures img").wait_for()


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
def test_axe_finds_nothing_serious(desks: Desks, browser: Browser, size: tuple[int, int], dark: bool) -> None:
    with opened(browser, size=size, dark=dark, touch=size != DESKTOP) as page:
        for place in ("/", "/label/ann", "/agreement", "/adjudication", "/nowhere"):
            visit(page, desks, place)
            assert serious_findings(page) == [], place
            assert overflow(page) == 0, place
        states = {
            "/label/ann": ("l", "Escape", "o", "Escape", "g"),
            "/adjudication": ("3", "Escape", "t", "Escape", "?"),
        }
        for place, keys in states.items():
            visit(page, desks, place)
            for key in keys:
                page.keyboard.press(key)
                if key != "Escape":
                    assert serious_findings(page) == [], f"{place} after {key}"


def test_every_control_is_large_enough_for_a_finger(desks: Desks, browser: Browser) -> None:
    with opened(browser, size=TABLET_TALL, touch=True) as page:
        for place in ("/", "/label/ann", "/agreement", "/adjudication"):
            visit(page, desks, place)
            small = page.evaluate(
                """() => [...document.querySelectorAll("button, select, .button, label.switch")]
                    .filter((one) => one.checkVisibility({visibilityProperty: true}) && !one.closest("dialog"))
                    .map((one) => [one.textContent.trim(), one.getBoundingClientRect()])
                    .filter(([, box]) => box.width > 0 && (box.height < 44 || box.width < 44))
                    .map(([text, box]) => `${text}: ${box.width} x ${box.height}`)"""
            )
            assert small == [], place


def test_the_keyboard_reaches_everything_and_the_focus_is_seen(desks: Desks, browser: Browser) -> None:
    with opened(browser) as page:
        for place in ("/label/ann", "/agreement", "/adjudication"):
            visit(page, desks, place)
            seen = set()
            for _ in range(40):
                page.keyboard.press("Tab")
                found = page.evaluate(
                    """() => {
                        const one = document.activeElement;
                        const style = getComputedStyle(one);
                        return [one === document.body ? "" : one.outerHTML, style.outlineStyle];
                    }"""
                )
                if found[0]:
                    assert found[1] != "none", found[0]
                    seen.add(found[0])
            wanted = page.evaluate(
                """() => [...document.querySelectorAll("a[href], button, select, input")]
                    .filter((one) => one.checkVisibility({visibilityProperty: true}) && !one.disabled)
                    .map((one) => one.outerHTML)"""
            )
            assert set(wanted) - seen == set()


@pytest.mark.parametrize("name", SIZES)
def test_screenshots_of_the_desk(desks: Desks, browser: Browser, tmp_path: Path, name: str) -> None:
    with opened(browser, size=SIZES[name], touch=name != "desktop") as page:
        for page_name, place in {
            "label": "/label/ann",
            "agreement": "/agreement",
            "adjudication": "/adjudication",
        }.items():
            visit(page, desks, place)
            is_long = place == "/agreement" and name == "desktop"
            kept = keep_screenshot(page, f"labelling-{page_name}-{name}", folder=tmp_path, full_page=is_long)
            assert kept.stat().st_size < 200_000


def test_screenshot_in_the_dark(desks: Desks, browser: Browser, tmp_path: Path) -> None:
    with opened(browser, dark=True) as page:
        visit(page, desks, "/adjudication")
        keep_screenshot(page, "labelling-adjudication-dark", folder=tmp_path)


def test_screenshots_of_other_tasks(shared: Path, browser: Browser, tmp_path: Path) -> None:
    several, _ = portrait_set(shared, tmp_path / "several", count=12)
    with (
        label_server(several, "ann", options=("--attributes", "gender,age,race")) as server,
        opened(browser) as page,
    ):
        page.goto(server.links["ann"])
        page.locator("#pictures img").first.wait_for()
        page.keyboard.press("m")
        assert serious_findings(page) == []
        keep_screenshot(page, "labelling-label-three-questions", folder=tmp_path)
    pairs = pair_set(shared, tmp_path / "pairs")
    with label_server(pairs, "ann", options=("--task", "pairs")) as server, opened(browser) as page:
        page.goto(server.links["ann"])
        page.locator("#pictures img").first.wait_for()
        page.keyboard.press("4")
        assert serious_findings(page) == []
        keep_screenshot(page, "labelling-label-pairs", folder=tmp_path)


def pair_set(shared: Path, folder: Path) -> Path:
    """Twelve portraits, of which the last six count as edited from the first six."""
    pairs, _ = portrait_set(shared, folder, count=12)
    images = pd.read_csv(pairs / "images.csv", dtype=str)
    images["seed_image_id"] = [""] * 6 + list(images["image_id"][:6])
    images.to_csv(pairs / "images.csv", index=False)
    return pairs


def test_pairs_are_decided_question_by_question(shared: Path, browser: Browser, tmp_path: Path) -> None:
    folder = pair_set(shared, tmp_path / "pairs")
    images = ImageSet.load(folder, require_labels=False)
    edited = str(images.images["image_id"].iloc[-1])
    settings = DeskSettings(task="pairs", calibration_images=0)
    with LabelStore.open(folder / "labelling-pairs.sqlite", images, settings=settings) as store:
        for annotator, age, skin in (("ann", "older", "lighter"), ("ben", "same", "darker")):
            answers = {"age_change": Choice(age), "skin_tone_change": Choice(skin)}
            store.record(annotator, Answer(str(uuid4()), edited, answers))
    options = ("--task", "pairs", "--calibration", "0")
    with label_server(folder, "ann", "ben", options=options) as server, opened(browser) as page:
        page.goto(f"{server.address}/adjudication")
        page.get_by_text("0 of 2 decided").wait_for()
        page.locator("#pictures img").last.wait_for()
        assert page.locator("#pictures img").count() == 2
        assert serious_findings(page) == []
        page.get_by_label("Question").focus()
        page.get_by_label("Question").select_option("skin_tone_change")
        page.get_by_text("0 of 1 decided").wait_for()
        page.keyboard.press("2")  # belongs to the filter, as long as it has the focus
        page.get_by_text("0 of 1 decided").wait_for()
        page.keyboard.press("Escape")
        page.keyboard.press("2")
        page.get_by_role("heading", name="Every disagreement is decided").wait_for()
        page.get_by_label("Question").select_option("all")
        page.get_by_text("1 of 2 decided").wait_for()
        page.keyboard.press("x")
        wait_until_saved(page)
    with LabelStore.open(folder / "labelling-pairs.sqlite", images, read_only=True) as store:
        decided = {one.question: one.decision for one in store.disagreements()}
    assert decided["skin_tone_change"] is not None
    assert decided["skin_tone_change"].choice == Choice("darker")
    assert decided["age_change"] is not None
    assert decided["age_change"].choice is None
