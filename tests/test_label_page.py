"""The labelling page in a real browser: keys, what is shown when, and that no answer is lost or doubled."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from browser import TABLET_TALL, chromium, opened
from label_server import shown_image, wait_for_another, wait_until_saved
from small_parts import image_name, write_csv, write_image_set, write_tables

from detector_bench.dataset.image_set import SEED_COLUMN
from detector_bench.labelling import Answer, Choice, LabelStore
from detector_bench.vocabulary.columns import IMAGE_COLUMNS

pytest.importorskip("fastapi", reason="needs the extra label")

from labelling_desk import eventually, labels_of, opened_store, press, served, visit

from detector_bench.labelling.web.desk import Desk

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Route

pytestmark = pytest.mark.slow

COUNT = 16
POSTS = re.compile(r".*/api/ann/(answers|undo)$")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as running:
        yield running


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_image_set(tmp_path / "images", COUNT)


@pytest.fixture
def store(folder: Path) -> Iterator[LabelStore]:
    with opened_store(folder) as opened_one:
        yield opened_one


@pytest.fixture
def address(store: LabelStore) -> Iterator[str]:
    with served(store, Desk(("ann", "ben"), guidelines="# Guide\n\n**Look** first.")) as found:
        yield found


@pytest.fixture
def page(browser: Browser, address: str) -> Iterator[Page]:
    with opened(browser) as shown:
        visit(shown, address)
        yield shown


def test_one_question(page: Page, store: LabelStore) -> None:
    given = {press(page, "m"): "male", press(page, "f"): "female", press(page, "l", "3"): "low_quality"}
    other = shown_image(page)
    page.keyboard.press("o")
    page.keyboard.type("neither: m f l")
    page.keyboard.press("Enter")
    wait_for_another(page, other)
    skipped = press(page, "s")
    wait_until_saved(page)
    assert labels_of(store) == given | {other: "others"}
    choices = {stored.answer.item_id: stored.answer for stored in store.answers("ann")}
    assert choices[list(given)[2]].answers["gender"].reason == "face_not_visible"
    assert choices[other].answers["gender"].note == "neither: m f l"
    assert choices[skipped].skipped
    assert all(0 < (answer.milliseconds or 0) < 60_000 for answer in choices.values())
    assert page.locator("#progress-done").inner_text() == f"4 of {COUNT}, 1 skipped"


def test_undo_and_second_thoughts(page: Page, store: LabelStore) -> None:
    first, second = press(page, "m"), press(page, "m")
    third = shown_image(page)
    page.keyboard.press("Control+z")
    wait_for_another(page, third)
    assert shown_image(page) == second
    press(page, "f")
    assert shown_image(page) == third
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    assert shown_image(page) == first
    assert page.get_by_role("button", name="Male", exact=True).get_attribute("aria-pressed") == "true"
    press(page, "l", "Enter")
    assert shown_image(page) == third  # back to where one was
    page.keyboard.press("ArrowRight")
    assert shown_image(page) == third  # no picture is left out unseen
    wait_until_saved(page)
    assert labels_of(store) == {first: "low_quality", second: "female"}
    page.reload()
    page.locator("#pictures img").wait_for()
    page.keyboard.press("u")  # what an earlier page did can be taken back, too
    wait_for_another(page, third)
    assert shown_image(page) == first
    wait_until_saved(page)
    assert labels_of(store) == {first: "male", second: "female"}


def test_several_questions_in_any_order(folder: Path, browser: Browser) -> None:
    with (
        opened_store(folder, attributes=("gender", "age", "race", "skin_tone")) as store,
        served(store) as address,
        opened(browser) as page,
    ):
        visit(page, address)
        first = shown_image(page)
        for key in ("4", "f", "u", "m"):
            page.keyboard.press(key)
        assert shown_image(page) == first
        wait_until_saved(page)
        assert set(store.answers("ann")[0].answer.answers) == {"gender", "race"}  # each key press is kept
        page.keyboard.press("i")
        page.keyboard.press("0")  # a digit answers the marked question
        wait_for_another(page, first)
        second = press(page, "y", "l", "1")
        wait_until_saved(page)
        said = {stored.answer.item_id: stored.answer.answers for stored in store.answers("ann")}
        assert {name: choice.label for name, choice in said[first].items()} == {
            "gender": "male",
            "age": "middle_aged",
            "race": "east_asian",
            "skin_tone": "monk_10",
        }
        several = Choice("low_quality", "several_people")
        assert said[second] == {"gender": several, "age": Choice("young"), "race": several, "skin_tone": several}


def test_pairs(folder: Path, browser: Browser) -> None:
    rows = [
        (image_name(n), f"images/{image_name(n)}.png", "A", "p0", "" if n < 8 else image_name(n - 8))
        for n in range(16)
    ]
    write_csv(folder / "images.csv", (*IMAGE_COLUMNS, SEED_COLUMN), rows)
    with opened_store(folder, task="pairs") as store, served(store) as address, opened(browser) as page:
        visit(page, address)
        sources = [image.get_attribute("alt") for image in page.locator("#pictures img").all()]
        assert sources == ["Person 1, Pair 1", "Person 2, Pair 1"]
        first = shown_image(page)
        for key in ("2", "1", "3"):
            page.keyboard.press(key)
        wait_for_another(page, first)
        wait_until_saved(page)
        said = {name: choice.label for name, choice in store.answers("ann")[0].answer.answers.items()}
        assert said == {"gender_change": "male_female", "age_change": "older", "skin_tone_change": "same"}


def test_guidelines_and_the_switch_for_keys(page: Page, store: LabelStore) -> None:
    page.keyboard.press("?")
    assert page.locator("#guidelines strong").inner_text() == "Look"
    page.keyboard.press("m")  # behind the dialog nothing is answered
    page.get_by_label("Use single keys").uncheck()
    page.keyboard.press("Escape")
    page.keyboard.press("m")
    page.reload()
    page.locator("#pictures img").wait_for()
    page.keyboard.press("m")
    image = shown_image(page)
    page.get_by_role("button", name="Female").click()
    wait_for_another(page, image)
    wait_until_saved(page)
    assert labels_of(store) == {image: "female"}


def test_zoom(page: Page) -> None:
    level = page.locator("#zoom-level")

    def transform() -> str:
        return str(page.locator("#pictures img").evaluate("image => image.style.transform"))

    page.keyboard.press("z")
    assert level.inner_text() == "250 %"
    assert transform() == "translate(-75%, -75%) scale(2.5)"  # around the middle
    page.keyboard.press("Shift+ArrowRight")
    assert transform() == "translate(-95%, -75%) scale(2.5)"
    box = page.locator("#stage").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] / 2 + 4000, box["y"] + box["height"] / 2)
    page.mouse.up()
    assert transform() == "translate(0%, -75%) scale(2.5)"  # not beyond the edge
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.wheel(0, -300)
    eventually(level.inner_text, f"{round(250 * 2.718281828**0.45)} %")
    press(page, "m")
    assert level.inner_text() == "Fit"


def test_two_fingers_zoom_and_one_moves(browser: Browser, address: str) -> None:
    with opened(browser, size=TABLET_TALL, touch=True) as page:
        visit(page, address)
        wire = page.context.new_cdp_session(page)

        def touch(kind: str, *points: tuple[int, int]) -> None:
            fingers = [{"x": x, "y": y, "id": number} for number, (x, y) in enumerate(points)]
            wire.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": fingers})

        touch("touchStart", (380, 300), (440, 300))
        for spread in range(10, 70, 10):
            touch("touchMove", (380 - spread, 300), (440 + spread, 300))
        touch("touchEnd")
        eventually(page.locator("#zoom-level").inner_text, "300 %")  # 60 pixels apart, then 180
        before = page.locator("#pictures img").evaluate("image => image.style.transform")
        touch("touchStart", (400, 300))
        touch("touchMove", (300, 300))
        touch("touchEnd")
        eventually(
            lambda: page.locator("#pictures img").evaluate("image => image.style.transform") != before, wanted=True
        )


def test_the_next_pictures_are_there_before_they_are_needed(
    browser: Browser, address: str, store: LabelStore
) -> None:
    with opened(browser) as page:
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url.rpartition("/images/")[2]))
        visit(page, address)
        order = [item.item_id for item in store.items("ann", 0, 20)]
        eventually(lambda: set(order[:6]) <= set(asked), wanted=True)
        page.route("**/images/**", lambda route: route.abort())  # what comes now is not fetched any more
        for image in order[:6]:
            assert press(page, "m") == image
        assert all(asked.count(image) == 1 for image in order[:6])


def test_what_was_not_seen_is_not_answered(browser: Browser, address: str, store: LabelStore) -> None:
    with opened(browser) as page:
        held: list[Route] = []
        page.route("**/images/**", lambda route: route.continue_() if held is None else held.append(route))
        page.goto(f"{address}/label/ann")
        page.get_by_text("on its way").wait_for()
        page.keyboard.press("m")
        page.keyboard.press("s")
        held, waiting = None, held  # type: ignore[assignment]
        for route in waiting:
            route.continue_()
        page.locator("#pictures img").wait_for()
        assert store.answers("ann") == []
        first = press(page, "f")
        wait_until_saved(page)
        assert labels_of(store) == {first: "female"}


def test_pictures_that_cannot_be_shown(browser: Browser, tmp_path: Path) -> None:
    folder = write_image_set(tmp_path / "images", 1)
    (folder / "images" / "text.png").write_text("this is no picture at all")
    write_tables(folder, range(1), extra=[("text", "images/text.png"), ("gone", "images/gone.png")])
    with opened_store(folder) as store, served(store) as address, opened(browser) as page:
        page.goto(f"{address}/label/ann")
        page.locator("#pictures img, .cannot-show").first.wait_for()
        reason = page.locator(".cannot-show")
        for item in store.items("ann", 0, 3):
            if item.item_id == image_name(0):
                page.locator("#pictures img").wait_for()
                page.keyboard.press("m")
            elif item.item_id == "text":
                reason.get_by_text("its file holds no image").wait_for()
                page.keyboard.press("m")
                reason.get_by_text("its file holds no image").wait_for()
                page.keyboard.press("l")
                page.keyboard.press("2")
            else:
                reason.get_by_text("missing image file").wait_for()
                page.keyboard.press("l")
                reason.get_by_text("missing image file").wait_for()
                page.keyboard.press("s")
        page.get_by_role("heading", name="You have seen every picture").wait_for()
        wait_until_saved(page)
        assert labels_of(store) == {image_name(0): "male", "text": "low_quality"}


def test_calibration_the_end_and_what_was_skipped(folder: Path, browser: Browser) -> None:
    with opened_store(folder, calibration_images=2) as store, served(store) as address, opened(browser) as page:
        visit(page, address)
        assert page.locator(".where").inner_text() == "Picture 1 of 2 in the calibration round"
        skipped = press(page, "s")
        press(page, "m")
        page.get_by_role("heading", name="The calibration round is over").wait_for()
        page.keyboard.press("m")  # a notice is no picture
        page.reload()
        page.get_by_role("heading", name="The calibration round is over").wait_for()
        page.keyboard.press("Enter")
        page.locator("#pictures img").wait_for()
        for _ in range(COUNT - 2):
            press(page, "f")
        page.get_by_role("heading", name="You have seen every picture").wait_for()
        page.keyboard.press("Enter")
        page.locator("#pictures img").wait_for()
        assert press(page, "m") == skipped
        page.get_by_role("heading", name="All done").wait_for()
        wait_until_saved(page)
        assert len(labels_of(store)) == COUNT
        store.close_calibration("closed")
        page.reload()
        page.get_by_role("heading", name="All done").wait_for()


# Nothing is lost, nothing is doubled


def test_answers_wait_for_a_desk_that_is_away_even_over_a_reload(page: Page, store: LabelStore) -> None:
    page.route(POSTS, lambda route: route.abort())
    given = [press(page, "m"), press(page, "f"), press(page, "m")]
    last = shown_image(page)
    page.keyboard.press("u")
    wait_for_another(page, last)
    page.get_by_text("Not saved yet: 4 answers.").wait_for()
    page.reload()
    page.locator("#pictures img").wait_for()
    assert shown_image(page) == given[2]  # what is waiting counts already
    assert labels_of(store) == {}
    page.unroute(POSTS)
    wait_until_saved(page)
    assert labels_of(store) == {given[0]: "male", given[1]: "female"}
    assert page.locator("#banner").is_hidden()
    assert page.evaluate("Object.keys(localStorage).length") == 0


def test_an_answer_whose_confirmation_is_lost_is_kept_once(page: Page, store: LabelStore) -> None:
    def lose_the_reply(route: Route) -> None:
        route.fetch()
        route.abort()

    page.route(POSTS, lose_the_reply, times=1)
    first = press(page, "m")
    page.locator('#saved[data-state="waiting"]').wait_for()
    wait_until_saved(page)
    assert labels_of(store) == {first: "male"}
    assert store.progress("ann").done == 1
    assert len(store.answers("ann")) == 1


def test_a_full_disk_is_told_and_survived(page: Page, store: LabelStore) -> None:
    said = '{"error": {"message": "the disk is full"}}'
    page.route(POSTS, lambda route: route.fulfill(status=503, body=said, content_type="application/json"))
    first = press(page, "m")
    page.get_by_text("the disk is full").wait_for()
    page.unroute(POSTS)
    page.get_by_role("button", name="Try now").click()
    wait_until_saved(page)
    assert labels_of(store) == {first: "male"}


def test_a_refused_answer_is_told_and_asked_again(page: Page, store: LabelStore) -> None:
    first = shown_image(page)
    body = {"results": [{"status": "refused", "message": "not like this", "item": None}], "progress": None}

    def refuse(route: Route) -> None:
        sent = route.request.post_data_json
        body["results"][0]["answer_id"] = sent["answers"][0]["answer_id"]  # type: ignore[index]
        route.fulfill(json=body)

    page.route(POSTS, refuse, times=1)
    press(page, "m")
    page.get_by_text("An answer was not taken: not like this").wait_for()
    page.get_by_role("button", name="Close").first.click()
    for _ in range(COUNT - 1):
        press(page, "f")
    eventually(lambda: shown_image(page), first)
    press(page, "f")
    page.get_by_role("heading", name="All done").wait_for()
    assert len(labels_of(store)) == COUNT


def test_two_tabs_follow_each_other(page: Page, address: str, store: LabelStore) -> None:
    other = page.context.new_page()
    visit(other, address)
    assert shown_image(other) == shown_image(page)
    given = {press(page, "m"): "male"}
    eventually(lambda: shown_image(other), shown_image(page))
    given[press(other, "f")] = "female"
    for one, another in ((page, other), (other, page)):
        eventually(lambda: shown_image(page), shown_image(other))
        given[press(one, "m")] = "male"
        eventually(lambda: shown_image(another), shown_image(one))  # noqa: B023 - called at once
    for tab in (page, other):
        wait_until_saved(tab)
        eventually(tab.locator("#progress-done").inner_text, f"4 of {COUNT}")
    assert labels_of(store) == given
    assert len({stored.answer.answer_id for stored in store.answers("ann")}) == 4


def test_another_device_is_followed(page: Page, store: LabelStore) -> None:
    first, second, third = [item.item_id for item in store.items("ann", 0, 3)]
    for image in (first, second):
        store.record("ann", Answer(f"elsewhere {image}", image, {"gender": Choice("female")}))
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")  # one comes back to this window
    eventually(lambda: shown_image(page), third)
    assert page.locator("#progress-done").inner_text() == f"2 of {COUNT}"
