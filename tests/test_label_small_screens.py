"""The desk on phones, its grid, its languages and its accessibility, in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from browser import DESKTOP, chromium, keep_screenshot, opened, overflow
from label_server import label_server, log_rows, portrait_set, shown_image, wait_until_saved
from small_parts import write_image_set

pytest.importorskip("fastapi", reason="needs the extra label")

from labelling_desk import opened_store, served, visit

from detector_bench.labelling.grid import Grid
from detector_bench.labelling.web.desk import Desk
from detector_bench.labelling.web.languages import Words, read_language
from detector_bench.vocabulary import attributes_of

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.slow

PHONES = {"390x844": (390, 844), "360x640": (360, 640)}
BINS = "name: age_bins\nshort: Age\nclasses: [b1, b2, b3, b4, b5, b6, b7, b8, b9]\n"
LAYOUT = """() => {
    const box = (one) => one.getBoundingClientRect();
    const [picture, zoom, stage] = ["#pictures img", "#zoom", "#stage"]
        .map((one) => box(document.querySelector(one)));
    const answers = [...document.querySelectorAll(".choices button, .moves button")]
        .filter((one) => one.checkVisibility({visibilityProperty: true}));
    const panel = document.querySelector(".panel");
    const texts = (wanted) => answers.filter(wanted).map((one) => one.textContent);
    return {
        stage: stage.height / innerHeight,
        isApart: picture.right <= zoom.left,
        below: texts((one) => box(one).bottom > innerHeight + 0.5 || box(one).top < 0),
        small: texts((one) => one.matches(".answer, .minor") && box(one).height < 43.5),
        scrolls: panel.scrollHeight - panel.clientHeight,
        labels: answers.filter((one) => one.matches(".group .answer")).length,
    };
}"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as running:
        yield running


def every_finding(page: Page) -> list[str]:
    """All that axe finds, however small."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="needs axe-playwright-python")
    found = axe.Axe().run(page).response["violations"]
    return [f"{each['id']}: {node['html']}" for each in found for node in each["nodes"]]


@pytest.mark.parametrize("size", PHONES.values(), ids=PHONES)
@pytest.mark.parametrize(
    ("asked", "answers"),
    [(("gender",), 4), (("race",), 9), (("age_bins",), 11), (("gender", "age_bins", "race"), 9)],
    ids=lambda value: "-".join(value) if isinstance(value, tuple) else "",
)
def test_on_a_phone_everything_is_there_without_scrolling(
    browser: Browser, tmp_path: Path, size: tuple[int, int], asked: tuple[str, ...], answers: int
) -> None:
    folder = write_image_set(tmp_path / "images", 4)
    (folder / "attributes").mkdir()
    (folder / "attributes" / "age_bins.yaml").write_text(BINS, encoding="utf-8")
    attributes_of(folder)
    with (
        opened_store(folder, attributes=asked) as store,
        served(store) as address,
        opened(browser, size=size, touch=True) as page,
    ):
        visit(page, address)
        if len(asked) > 1:
            page.get_by_role("button", name="Age", exact=True).click()
        found = page.evaluate(LAYOUT)
        assert found["stage"] >= 0.5
        assert found["isApart"]
        assert (found["below"], found["small"], found["scrolls"]) == ([], [], 0)
        assert found["labels"] == answers
        assert overflow(page) == 0
        assert every_finding(page) == []


def test_on_a_phone_one_question_follows_the_other(browser: Browser, tmp_path: Path) -> None:
    folder = write_image_set(tmp_path / "images", 4)
    with (
        opened_store(folder, attributes=("gender", "age", "race")) as store,
        served(store) as address,
        opened(browser, size=PHONES["360x640"], touch=True) as page,
    ):
        visit(page, address)
        first = shown_image(page)
        page.get_by_role("button", name="Female").tap()
        page.get_by_role("button", name="Elderly").tap()
        page.get_by_role("button", name="East Asian", exact=True).tap()
        page.wait_for_function(f"!document.querySelector('#pictures img').src.endsWith('/{first}')")
        page.locator('#saved[data-state="saved"]').wait_for(state="attached")
        labels = store.labels()
    assert dict(zip(labels["attribute"], labels["label"], strict=True)) == {
        "gender": "female",
        "age": "elderly",
        "race": "east_asian",
    }


def test_a_grid_is_confirmed_and_the_wrong_ones_are_changed(browser: Browser, tmp_path: Path) -> None:
    folder = write_image_set(tmp_path / "images", 12)
    with opened_store(folder) as store:
        ids = [item.item_id for item in store.present_items()]
        grid = Grid(dict.fromkeys(ids, "male"), "faceres", size=6, alone=0)
        with served(store, Desk(("ann", "ben"), grid=grid)) as address, opened(browser) as page:
            page.goto(f"{address}/label/ann")
            page.locator("#grid img").first.wait_for()
            assert page.locator("#grid img").count() == 6
            assert every_finding(page) == []
            page.keyboard.press("ArrowRight")
            page.keyboard.press("f")
            page.get_by_role("button", name="Picture 3: Male, as proposed").click()
            page.get_by_label("Label of Picture 5").select_option(label="Ask me alone")
            page.get_by_role("button", name="Confirm 6 pictures").click()
            page.get_by_text("5 of 12", exact=True).wait_for()
            page.locator("#pictures img").wait_for()  # the one that was to be asked alone
            page.keyboard.press("m")
            page.locator("#grid").get_by_text("Confirm 6 pictures").wait_for()
            page.keyboard.press("Enter")
            page.get_by_role("heading", name="All done").wait_for()
            wait_until_saved(page)
        answers = [one.answer for one in store.answers("ann")]
        order = [item.item_id for item in store.items("ann", 0, 12)]
    given = {answer.item_id: answer for answer in answers}
    assert [given[name].answers["gender"].label for name in order[:3]] == ["male", "female", "female"]
    assert [given[name].asking.proposed for name in order] == ["male"] * 4 + [""] + ["male"] * 7
    assert {given[name].asking.proposed_by for name in order} == {"faceres", ""}


def test_what_is_sent_back_comes_up_again_without_the_former_answer(browser: Browser, tmp_path: Path) -> None:
    folder = write_image_set(tmp_path / "images", 3)
    with opened_store(folder) as store, served(store) as address, opened(browser) as page:
        visit(page, address)
        first = shown_image(page)
        for _ in range(3):
            page.keyboard.press("m")
            page.wait_for_timeout(150)
        page.get_by_role("heading", name="All done").wait_for()
        wait_until_saved(page)
        store.ask_again([first])
        visit(page, address)
        assert shown_image(page) == first
        page.get_by_text("Asked again: judge anew").wait_for()
        assert page.locator('.answer[aria-pressed="true"]').count() == 0
        page.keyboard.press("f")
        page.get_by_role("heading", name="All done").wait_for()
        wait_until_saved(page)
    assert log_rows(folder)["kind"].tolist().count("answer") == 4


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_axe_finds_nothing_at_all_on_any_page(browser: Browser, tmp_path: Path, dark: bool) -> None:
    folder = write_image_set(tmp_path / "images", 6)
    german = Words(read_language("de", image_set=folder), guideline="# Leitfaden\n\nText.")
    with (
        opened_store(folder, attributes=("gender", "age", "race")) as store,
        served(store, Desk(("ann", "ben"), words=german)) as address,
    ):
        for size in (DESKTOP, (1024, 768), *PHONES.values()):
            with opened(browser, size=size, dark=dark, touch=size != DESKTOP) as page:
                for place in ("/", "/agreement", "/adjudication", "/nowhere"):
                    page.goto(f"{address}{place}")
                    page.wait_for_load_state("networkidle")
                    assert every_finding(page) == [], (size, place)
                    assert overflow(page) == 0, (size, place)
                visit(page, address)
                for key in ("", "l", "Escape", "o", "Escape", "g"):
                    if key:
                        page.keyboard.press(key)
                    assert every_finding(page) == [], (size, key)


def test_screenshots_of_phone_grid_and_language(shared: Path, browser: Browser, tmp_path: Path) -> None:
    folder, labels = portrait_set(shared, tmp_path / "portraits", count=24)
    with opened_store(folder) as store:
        grid = Grid({name: labels["ann"][name] for name in labels["ann"]}, "faceres", alone=0)
        with served(store, Desk(("ann", "ben"), grid=grid)) as address, opened(browser) as page:
            page.goto(f"{address}/label/ann")
            page.locator("#grid img").first.wait_for()
            keep_screenshot(page, "labelling-grid", folder=tmp_path)
    several, _ = portrait_set(shared, tmp_path / "several", count=12)
    options = ("--attributes", "gender,age,race", "--language", "es")
    with (
        label_server(several, "ann", options=options) as server,
        opened(browser, size=PHONES["390x844"], touch=True) as page,
    ):
        page.goto(server.links["ann"])
        page.locator("#pictures img").wait_for()
        keep_screenshot(page, "labelling-label-phone", folder=tmp_path)
