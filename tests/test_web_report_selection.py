"""What a reader takes out of the report's images: the selection as CSV, and a list of images to label again."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import chromium
from web_report_study import write_study

from detector_bench.cli.label_again import read_ids
from detector_bench.dataset.consensus import consensus
from detector_bench.site import ReportSettings
from detector_bench.study import Results

pytest.importorskip("playwright")
from playwright.sync_api import Browser, Page, expect

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


def downloaded(page: Page, name: str, folder: Path) -> Path:
    with page.expect_download() as waiting:
        page.get_by_role("button", name=name).click()
    path = folder / waiting.value.suggested_filename
    waiting.value.save_as(path)
    return path


def test_the_selection_and_the_list_to_label_again(browser: Browser, tmp_path: Path) -> None:
    results = Results.open(write_study(tmp_path / "study"))
    folder = results.report(settings=ReportSettings(figures=False)).page.parent
    page = browser.new_page(accept_downloads=True)
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.goto(f"{folder.resolve().as_uri()}/images.html")
    page.get_by_role("checkbox").first.check()
    shown = [card.get_attribute("data-image") for card in page.locator(".card").all()]
    text = downloaded(page, "Download these images", tmp_path).read_text(encoding="utf-8")
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [row["image_id"] for row in rows] == shown
    assert 0 < len(rows) < len(results.image_set.images)
    label = next(name for name in rows[0] if name.startswith("label_"))
    truth = consensus(results.image_set.labels).set_index(["attribute", "image_id"])["label"]
    for row in rows:
        assert row[label] == truth.get((label.removeprefix("label_"), row["image_id"]), "")
    page.locator(".card").first.click()
    button = page.get_by_role("button", name="Label again")
    button.click()
    expect(button).to_have_attribute("aria-pressed", "true")
    page.keyboard.press("Escape")
    expect(page.get_by_text("1 image to label again")).to_be_visible()
    assert page.locator("#again-command").input_value() == "detector-bench label IMAGE_SET --again label_again.csv"
    assert read_ids(str(downloaded(page, "Download the list", tmp_path))) == [shown[0]]
    page.get_by_role("button", name="Forget the list").click()
    expect(page.get_by_text("to label again")).to_be_hidden()
    page.close()
    assert faults == []
