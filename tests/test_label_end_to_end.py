"""The labelling desk in a real browser, from end to end: two people label and decide, and a detector is judged."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from uuid import uuid4

import pandas as pd
import pytest
from browser import chromium, opened
from label_server import (
    LabelServer,
    by_annotator,
    label_one,
    label_server,
    log_rows,
    portrait_set,
    press_label,
    shown_image,
    wait_for_another,
    wait_until_saved,
)
from sklearn.metrics import cohen_kappa_score

from detector_bench.dataset import ImageSet
from detector_bench.labelling import Answer, Choice, DeskSettings, LabelStore

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.slow
pytest.importorskip("fastapi", reason="needs the extra label")

COUNT = 60
CALIBRATION = 6
STUDY = """\
image_set: portraits
detectors:
  - {name: faceres-yunet, extends: CONFIGS/detectors/faceres.yaml, crop: {boxes: yunet_faces}}
"""
CONFIGS = Path(__file__).resolve().parents[1] / "configs"


class Labelled(NamedTuple):
    """Two people's finished labels.

    Attributes:
        folder: the image set, with its store.
        labels: what each of them pressed, by annotator and image.
    """

    folder: Path
    labels: dict[str, dict[str, str]]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as running:
        yield running


@pytest.fixture(scope="module")
def labelled(shared: Path, browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Labelled:
    """Two annotators, each with a server, label all portraits by turns; one reloads, one's server is killed."""
    folder, labels = portrait_set(shared, tmp_path_factory.mktemp("end_to_end") / "portraits", count=COUNT)
    with (
        label_server(folder, "ann") as first,
        label_server(folder, "ben") as second,
        opened(browser) as ann,
        opened(browser) as ben,
    ):
        ann.goto(first.links["ann"])
        ben.goto(second.links["ben"])
        for page in (ann, ben):
            page.locator("#pictures img").wait_for()
        orders: dict[str, list[str]] = {"ann": [], "ben": []}
        for turn in range(COUNT):
            if turn == 20:
                undo_a_mistake(ann, labels["ann"])
            if turn == 31:
                ann.reload()
                ann.locator("#pictures img").wait_for()
            orders["ann"].append(label_one(ann, labels["ann"]))
            if turn == 25:
                orders["ben"] += label_through_a_crash(ben, second, labels["ben"])
            elif len(orders["ben"]) < COUNT:
                orders["ben"].append(label_one(ben, labels["ben"]))
        for page in (ann, ben):
            page.get_by_role("heading", name="All done").wait_for()
            wait_until_saved(page)
    assert sorted(orders["ann"]) == sorted(orders["ben"]) == sorted(labels["ann"])
    assert set(orders["ann"][:CALIBRATION]) == set(orders["ben"][:CALIBRATION])
    assert orders["ann"][CALIBRATION:] != orders["ben"][CALIBRATION:]
    return Labelled(folder, labels)


def undo_a_mistake(page: Page, labels: dict[str, str]) -> None:
    """Press the wrong key, and take it back."""
    image = shown_image(page)
    press_label(page, "female" if labels[image] == "male" else "male")
    wait_for_another(page, image)
    other = shown_image(page)
    page.keyboard.press("u")
    wait_for_another(page, other)
    assert shown_image(page) == image


def label_through_a_crash(page: Page, server: LabelServer, labels: dict[str, str]) -> list[str]:
    """Label on while the server is killed and away; it comes back, and everything is saved."""
    images = [shown_image(page)]
    press_label(page, labels[images[0]])
    server.kill()
    wait_for_another(page, images[0])
    images += [label_one(page, labels) for _ in range(3)]
    page.locator('#saved[data-state="waiting"]').wait_for()
    server.start()
    wait_until_saved(page)
    return images


def exported(page: Page, server: LabelServer, folder: Path) -> pd.DataFrame:
    """The labels as the agreement page hands them out, put into the image set."""
    page.goto(f"{server.address}/agreement")
    with page.expect_download() as download:
        page.get_by_role("link", name="labels.csv").click()
    download.value.save_as(folder / "labels.csv")
    return pd.read_csv(folder / "labels.csv", dtype=str, keep_default_na=False)


def test_nothing_is_lost_and_nothing_doubled(labelled: Labelled) -> None:
    rows = log_rows(labelled.folder)
    assert rows["entry_id"].is_unique
    answers = rows[rows["kind"] == "answer"].groupby("annotator")["item_id"]
    assert answers.count().to_dict() == {"ann": COUNT + 1, "ben": COUNT}  # with the mistake
    assert answers.nunique().to_dict() == {"ann": COUNT, "ben": COUNT}
    assert list(rows.loc[rows["kind"] == "undo", "annotator"]) == ["ann"]


def test_agreement_is_that_of_the_exported_labels(labelled: Labelled, browser: Browser) -> None:
    with label_server(labelled.folder, "ann", "ben") as server, opened(browser) as page:
        table = exported(page, server, labelled.folder)
        given = by_annotator(table)
        assert given["ann"].to_dict() == labelled.labels["ann"]
        assert given["ben"].to_dict() == labelled.labels["ben"]
        kappa = cohen_kappa_score(given["ann"], given["ben"])
        page.locator('#live[data-state="live"]').wait_for()
        text = page.locator("#verdict-text").inner_text()
        assert f"On {COUNT} pictures that both labelled" in text
        assert f"Cohen's kappa is {kappa:.2f} (95" in text
        same = (given["ann"] == given["ben"]).sum()
        on_diagonal = page.locator("#confusion td.same").all_inner_texts()
        assert sum(map(int, on_diagonal)) == same
        assert page.locator("#rounds tbody tr").count() == 2
        page.get_by_label("Part").select_option("after")
        page.get_by_text(f"On {COUNT - CALIBRATION} pictures that both labelled").wait_for()


def test_agreement_follows_the_labelling_live(shared: Path, browser: Browser, tmp_path: Path) -> None:
    folder, labels = portrait_set(shared, tmp_path / "portraits", count=12)
    with (
        label_server(folder, "ann", "ben", options=("--calibration", "0")) as server,
        opened(browser) as page,
        opened(browser) as watching,
    ):
        watching.goto(f"{server.address}/agreement")
        watching.get_by_role("heading", name="Nothing to compare yet").wait_for()
        for name in ("ann", "ben"):
            page.goto(server.links[name])
            page.locator("#pictures img").wait_for()
            for _ in range(12):
                label_one(page, labels[name])
            wait_until_saved(page)
        watching.get_by_text("On 12 pictures that both labelled").wait_for(timeout=15_000)


def test_disagreements_are_decided_and_a_detector_is_judged(
    labelled: Labelled, browser: Browser, shared: Path
) -> None:
    labels = labelled.labels
    differ = [image for image, label in labels["ann"].items() if labels["ben"][image] != label]
    assert len(differ) == 8
    with label_server(labelled.folder, "ann", "ben") as server, opened(browser) as page:
        page.goto(f"{server.address}/adjudication")
        decided = decide_all(page, count=len(differ))
        assert list(decided) == differ
        table = exported(page, server, labelled.folder)
    rows = log_rows(labelled.folder)
    assert (rows["kind"] == "decision").sum() == len(differ) + 2  # one taken back, one decided anew
    truth = ImageSet.load(labelled.folder).truth("gender").set_index("image_id")
    assert {image: tuple(truth.loc[image]) for image in differ} == decided
    agreed = [image for image in labels["ann"] if image not in differ]
    assert truth.loc[agreed, "label"].to_dict() == {image: labels["ann"][image] for image in agreed}
    assert len(table) == 2 * COUNT + len(differ) - 1
    judge_a_detector(labelled.folder, truth["label"], shared)


def decide_all(page: Page, *, count: int) -> dict[str, tuple[str, str]]:
    """Decide every disagreement with the keyboard; gives the label and reason that each must have now."""
    progress = page.locator("#progress-done")
    page.locator("#pictures img").wait_for()
    assert progress.inner_text() == f"0 of {count} decided"
    assert page.locator(".said-by").count() == 2
    decided: dict[str, tuple[str, str]] = {}

    def press(*keys: str, label: str, reason: str = "") -> None:
        image = shown_image(page)
        for key in keys:
            page.keyboard.press(key)
        wait_for_another(page, image)
        decided[image] = (label, reason)

    press("1", label="male")
    press("x", label="low_quality", reason="disagreement")
    press("3", "1", label="low_quality", reason="several_people")
    undone = list(decided)[-1]
    other = shown_image(page)
    page.keyboard.press("u")
    wait_for_another(page, other)
    assert shown_image(page) == undone
    press("2", label="female")
    page.reload()
    page.locator("#pictures img").wait_for()
    assert progress.inner_text() == f"3 of {count} decided"
    for _ in range(count - 3):
        press("2", label="female")
    page.get_by_role("heading", name="Every disagreement is decided").wait_for()
    assert progress.inner_text() == f"{count} of {count} decided"
    page.keyboard.press("ArrowLeft")
    page.get_by_text("Decided: Female").wait_for()
    page.keyboard.press("1")  # decided ones can be decided anew
    page.get_by_text("Decided: Male").wait_for()
    decided[shown_image(page)] = ("male", "")
    wait_until_saved(page)
    return decided


def test_decisions_wait_in_the_browser_while_the_desk_is_away(
    shared: Path, browser: Browser, tmp_path: Path
) -> None:
    folder, labels = portrait_set(shared, tmp_path / "portraits", count=12)
    record(folder, labels)
    with label_server(folder, "ann", "ben") as server, opened(browser) as page:
        page.route("**/api/adjudication/answers", lambda route: route.abort())
        page.goto(f"{server.address}/adjudication")
        page.locator("#pictures img").wait_for()
        page.keyboard.press("1")
        page.get_by_text("1 not saved").wait_for()
        page.reload()
        page.get_by_text("1 of 8 decided").wait_for()
        assert (log_rows(folder)["kind"] == "decision").sum() == 0
        page.keyboard.press("2")
        page.keyboard.press("u")
        page.unroute("**/api/adjudication/answers")
        page.reload()
        page.get_by_text("1 of 8 decided").wait_for()
        wait_until_saved(page)
        assert list(log_rows(folder)["kind"])[-3:] == ["decision", "decision", "undo"]


def record(folder: Path, labels: dict[str, dict[str, str]]) -> None:
    """Put labels into an image set's store, without a calibration round."""
    images = ImageSet.load(folder, require_labels=False)
    settings = DeskSettings(calibration_images=0)
    with LabelStore.open(folder / "labelling.sqlite", images, settings=settings) as store:
        for annotator, of_images in labels.items():
            for image_id, label in of_images.items():
                store.record(annotator, Answer(str(uuid4()), image_id, {"gender": Choice(label)}))


def judge_a_detector(folder: Path, truth: pd.Series, shared: Path) -> None:
    """Run a detector over the labelled set; its accuracy is that of its stored predictions on those labels."""
    (folder.parent / "study.yaml").write_text(STUDY.replace("CONFIGS", str(CONFIGS)))
    study, out = folder.parent / "study.yaml", folder.parent / "out"
    command = [
        sys.executable,
        "-m",
        "detector_bench",
        "run",
        study,
        "--out",
        out,
        "--weights-dir",
        shared / "weights",
    ]
    ran = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=300, check=False)
    assert ran.returncode == 0, ran.stderr
    predictions = pd.concat(map(pd.read_parquet, (out / "predictions").rglob("*.parquet"))).set_index("image_id")
    predictions = predictions[predictions["attribute"] == "gender"]
    clear = predictions[predictions["status"] == "clear"].join(truth.rename("truth"))
    clear = clear[clear["truth"].isin(["male", "female"])]
    metrics = pd.read_csv(out / "metrics.csv")
    place = ["detector", "attribute", "t2i_model", "category", "metric"]
    accuracy = metrics.set_index(place).loc[("faceres-yunet", "gender", "all", "all", "accuracy")]
    assert accuracy["n"] == len(clear) > COUNT / 2
    assert accuracy["value"] == pytest.approx((clear["label"] == clear["truth"]).mean())
