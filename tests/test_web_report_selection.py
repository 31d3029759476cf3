"""What a reader takes out of the report's images: the selection as CSV, and a list of images to label again."""

from __future__ import annotations

import csv
import io
import string
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest
from browser import chromium
from web_report_study import Shown, write_study

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


def test_the_selection_says_the_same_to_pandas(browser: Browser, tmp_path: Path) -> None:
    odd = ['one, two; "three"', '=HYPERLINK("http://x","y")', "'=1", "-1", "+1", "@SUM(A1)", "it's", "NA", "007"]
    odd += ["\u05d0\u05d1 \u2067x\u2069", "a\u2028b", string.punctuation]
    images = [
        Shown(f"{text} {number}", text, f"p{number}", ("male", "male"), "male", "female")
        for number, text in enumerate(odd)
    ]
    words = {f"p{number}": text for number, text in enumerate(odd)}
    results = Results.open(write_study(tmp_path / "study", images=images, words=words))
    folder = results.report(settings=ReportSettings(figures=False, pictures="none")).page.parent
    page = browser.new_page(accept_downloads=True)
    page.goto(f"{folder.resolve().as_uri()}/images.html")
    rows = pd.read_csv(downloaded(page, "Download these images", tmp_path), dtype=str, keep_default_na=False)
    page.close()
    rows = rows.set_index("image_id").loc[[each.image_id for each in images]]
    assert len(rows) == len(images)
    assert (rows.loc[['=HYPERLINK("http://x","y") 1'], "word"] == '\'=HYPERLINK("http://x","y")').all()
    for column in ("t2i_model", "word"):
        # One apostrophe stands before what a spreadsheet would compute; without it, all is as it was.
        assert rows[column].str.replace(r"^'('*[=+\-@])", r"\1", regex=True).tolist() == odd
    assert set(rows["good"]) == {"male"}
    assert set(rows["poor"]) == {"female"}
