"""The desk with a sample: only its images are asked for, shared out with an overlap; and what the labels are
worth."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from labelling_sets import numbered, saying, write_image_set
from stored_study import kept, predictions_of, write_predictions

from detector_bench.dataset import ImageSet
from detector_bench.dataset.consensus import consensus
from detector_bench.dataset.sample_file import write_sample
from detector_bench.errors import ConfigError, DetectorBenchError
from detector_bench.evaluation.estimates import EstimateSettings, estimate_bias
from detector_bench.evaluation.label_sample import ToBeLabelled
from detector_bench.labelling import Answer, Assignment, DeskSettings, LabelStore
from detector_bench.labelling.worth import LabelsWorth, WorthSoFar
from detector_bench.sample_design import SampleDesign
from detector_bench.study_worth import StudyWorth

COUNT = 60
SAMPLE = numbered(COUNT)[:30]
PEOPLE = ("ann", "ben", "cem")


@pytest.fixture
def images(tmp_path: Path) -> ImageSet:
    return write_image_set(tmp_path / "set", numbered(COUNT))


def desk(
    images: ImageSet, ids: list[str] | None = SAMPLE, overlap: float = 1.0, calibration: int = 0, **more: Any
) -> LabelStore:
    asked = None if ids is None else frozenset(ids)
    return LabelStore.open(
        images.root / "labelling.sqlite",
        images,
        settings=DeskSettings(calibration_images=calibration),
        assignment=Assignment(asked, **{"annotators": PEOPLE, "overlap": overlap, **more}),
    )


def asked(store: LabelStore, annotator: str) -> list[str]:
    return [item.item_id for item in store.items(annotator, 0, 1000)]


# What is asked for


def test_only_images_of_the_sample_are_asked_for(images: ImageSet) -> None:
    with desk(images, None) as store:
        everything = asked(store, "ann")
        store.record("ann", saying("i050", "male"))
        store.record("ann", saying("i003", "female"))
    with desk(images) as store:
        # In the order that they had, and what was labelled outside of the sample is kept and not asked for again.
        assert asked(store, "ann") == [image for image in everything if image in SAMPLE]
        progress = store.progress("ann")
        assert (progress.total, progress.done) == (30, 1)
        assert set(store.labels()["image_id"]) == {"i003", "i050"}
        # An answer of a page that was open before is kept, too.
        assert store.record("ann", saying("i051", "male")).item.position == -1
        assert len(store.labels()) == 3
        # Undo takes back what the annotator sees: i051 and i050 are none of it.
        undone = store.undo("ann", "u1").item
        assert undone is not None
        assert undone.item_id == "i003"
        assert store.undo("ann", "u2").item is None
        assert set(store.labels()["image_id"]) == {"i050", "i051"}


def test_a_sample_without_an_image_of_the_desk_is_refused(images: ImageSet) -> None:
    with pytest.raises(ConfigError, match="nothing to label"):
        desk(images, ["another"])
    with pytest.raises(ConfigError, match=r"the overlap is 1.5 \(accepted: a share, 0 to 1\)"):
        Assignment(overlap=1.5)


def test_three_annotators_share_the_sample_evenly_with_an_overlap(images: ImageSet) -> None:
    with desk(images, overlap=0.2) as store:
        shares = {name: set(asked(store, name)) for name in PEOPLE}
        shared = set.intersection(*shares.values())
        assert len(shared) == 6
        assert [len(ids) for ids in shares.values()] == [14, 14, 14]
        assert set.union(*shares.values()) == set(SAMPLE)
        assert sum(len(ids - shared) for ids in shares.values()) == 24  # nobody else sees the rest
        for number, item in enumerate(sorted(shares["ben"])):
            store.record("ben", saying(item, "male" if number % 2 else "female"))
    with desk(images, overlap=0.2) as store:
        assert {name: set(asked(store, name)) for name in PEOPLE} == shares
        assert store.progress("ben").done == 14


def test_a_larger_sample_and_another_annotator_cost_no_label(images: ImageSet) -> None:
    with desk(images, overlap=0.2) as store:
        for name in PEOPLE[:2]:
            for item in asked(store, name):
                store.record(name, saying(item, "male", answer_id=f"{name}{item}"))
        shared = store.shares.of_everybody
        done = {name: set(asked(store, name)) for name in PEOPLE[:2]}
    with desk(images, numbered(COUNT), overlap=0.2, annotators=(*PEOPLE, "dan")) as store:
        alone = {name: done[name] - shared - store.shares.of_everybody for name in done}
        assert alone["ann"]
        for name, ids in alone.items():
            assert ids <= set(asked(store, name))
            assert not ids & {
                image for other in (*PEOPLE, "dan") if other != name for image in asked(store, other)
            }
        assert {image for name in (*PEOPLE, "dan") for image in asked(store, name)} == set(numbered(COUNT))


def test_the_calibration_round_is_drawn_from_the_sample_and_seen_by_everybody(images: ImageSet) -> None:
    with desk(images, overlap=0, calibration=5) as store:
        calibration = [item.item_id for item in store.items("ann", 0, 99) if item.in_calibration]
        assert len(calibration) == 3  # a tenth of the sample
        assert set(calibration) <= set(asked(store, "ben")) & set(asked(store, "cem")) & set(SAMPLE)
        assert store.calibration().total == 3
        assert [len(asked(store, name)) for name in PEOPLE] == [12, 12, 12]


# What labels are worth


def some_worth(labels: int, more: int | None, estimate: float = 0.312, half: float = 0.084) -> LabelsWorth:
    return LabelsWorth("gender", "sd35", "model_bias_score", estimate, half, labels, more, 0.05)


def eventually(found: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + 10
    while not (said := found()) and time.monotonic() < deadline:
        time.sleep(0.01)
    return said


def test_the_agreement_page_says_what_the_labels_are_worth_and_annotators_pages_do_not(images: ImageSet) -> None:
    pytest.importorskip("fastapi", reason="needs the extra label")
    from fastapi.testclient import TestClient

    from detector_bench.labelling.web.app import make_app
    from detector_bench.labelling.web.desk import Desk

    def worth(labels: pd.DataFrame) -> list[LabelsWorth]:
        assert list(labels.columns) == ["image_id", "attribute", "label"]
        return [some_worth(len(labels), 117), some_worth(1, 0), some_worth(2, None), some_worth(3, 5, math.nan)]

    with desk(images) as store:
        store.record("ann", saying("i003", "female"))
        plain = TestClient(make_app(store, Desk(PEOPLE)), base_url="http://127.0.0.1:8765")
        assert plain.get("/api/agreement").json()["worth"] is None
        client = TestClient(make_app(store, Desk(PEOPLE), worth=worth), base_url="http://127.0.0.1:8765")
        first = client.get("/api/agreement").json()["worth"]
        assert first == {"lines": [], "problem": "It cannot be said yet: it is being worked out."}
        assert eventually(lambda: client.get("/api/agreement").json()["worth"]["lines"]) == [
            "Model bias score of sd35: 0.31 ± 0.08 with 1 label; 117 more for ± 0.05",
            "Model bias score of sd35: 0.31 ± 0.08 with 1 label; ± 0.05 is reached",
            "Model bias score of sd35: 0.31 ± 0.08 with 2 labels; how many more for ± 0.05 cannot be said yet",
            "Model bias score of sd35: cannot be said yet with 3 labels",
        ]
        for page in ("/api/ann/session", "/api/ann/items", "/api/adjudication", "/api/desk", "/label/ann"):
            assert "bias score" not in client.get(page).text.lower()


def test_nobody_waits_for_the_worth_and_it_is_worked_out_only_for_new_labels(images: ImageSet) -> None:
    calls: list[int] = []

    def slow(labels: pd.DataFrame) -> list[LabelsWorth]:
        time.sleep(0.3)
        calls.append(len(labels))
        return [some_worth(len(labels), 1)]

    with desk(images) as store:
        store.record("ann", saying("i003", "female"))
        so_far = WorthSoFar(store, slow, shortest_rest=0)
        started = time.monotonic()
        for number in range(5):
            so_far.now()
            store.record("ann", saying(f"i01{number}", "male"))
        assert time.monotonic() - started < 0.25
        assert eventually(lambda: so_far.now().found)
        so_far.now()
        assert len(calls) == 1  # ten times as long as it took is rested
        rested = WorthSoFar(store, slow, shortest_rest=0)
        rested._work()
        rested._work()
        assert calls[1:] == [6]  # no label is new


def test_what_goes_wrong_is_said_and_logged_and_keeps_nobody_from_labelling(
    images: ImageSet, caplog: pytest.LogCaptureFixture
) -> None:
    def refuses(_: pd.DataFrame) -> list[LabelsWorth]:
        raise DetectorBenchError("no label\nof any prompt")

    def breaks(_: pd.DataFrame) -> list[LabelsWorth]:
        raise ZeroDivisionError

    with desk(images) as store, caplog.at_level(logging.WARNING):
        store.record("ann", saying("i003", "female"))
        for worth, why in (
            (refuses, "no label of any prompt"),
            (breaks, "an unexpected error (ZeroDivisionError)"),
        ):
            so_far = WorthSoFar(store, worth)
            so_far._work()
            assert why in so_far.now().problem
        assert store.record("ann", Answer("x", "i004", saying("i004", "male").answers)).progress.done == 2
    assert "no label" in caplog.text
    assert "ZeroDivisionError" in caplog.text


def sampled(images: ImageSet, labels: int, design: SampleDesign = SampleDesign.EQUAL) -> StudyWorth:
    said = {name: kept("male") for name in numbered(COUNT)}
    predictions = {"one": predictions_of(said, detector="one")}
    sample = ToBeLabelled(images, "gender", predictions).sample(labels, design=design)
    return StudyWorth(images, sample, predictions, ("gender", "age"), half_width=0.1)


def labelled(ids: list[str], *, women: int) -> pd.DataFrame:
    """Of every `women` images one is a woman's."""
    rows = [(name, "a", "gender", "male" if number % women else "female", "") for number, name in enumerate(ids)]
    return consensus(pd.DataFrame(rows, columns=["image_id", "annotator", "attribute", "label", "reason"]))


def test_the_worth_of_labels_is_the_estimate_of_the_same_labels_and_the_forecast_of_a_plan(
    images: ImageSet,
) -> None:
    study = sampled(images, 36)  # 6 of the 10 images of each of 6 cells
    labels = labelled(study.sample.image_ids, women=3)
    outside = [name for name in numbered(COUNT) if name not in study.sample.image_ids]
    found = study(pd.concat([labels, labelled(outside, women=1)]))  # these have no probability, and do not count
    assert [(one.t2i_model, one.labels, one.attribute) for one in found] == [
        ("sdxl", 18, "gender"),
        ("sd3", 18, "gender"),
    ]
    set_of_labels = replace(images, labels=labels.assign(annotator="a", reason="", value=np.nan))
    rows = estimate_bias(
        set_of_labels, study.predictions, attributes=["gender"], sample=study.sample, settings=EstimateSettings()
    ).rows
    rows = rows[(rows["metric"] == "model_bias_score") & (rows["variant"] == "prediction_powered")]
    for one in found:
        row = rows[(rows["t2i_model"] == one.t2i_model) & (rows["category"] == "all")].iloc[0]
        assert one.estimate == pytest.approx(row["value"])
        assert one.half_width == pytest.approx((row["ci_high"] - row["ci_low"]) / 2)
        assert one.more_labels is not None
        assert 0 < one.more_labels <= 12
    wide = StudyWorth(images, study.sample, study.predictions, ("gender",), half_width=one.half_width + 0.2)
    assert [one.more_labels for one in wide(labels)] == [0, 0]


def test_nothing_is_claimed_of_too_few_labels_and_chances_of_a_sample_by_disagreement_count(
    images: ImageSet,
) -> None:
    study = sampled(images, 36)
    found = study(labelled(study.sample.image_ids[:1], women=2))
    assert [math.isnan(one.estimate) and one.more_labels is None for one in found] == [True, True]
    unequal = sampled(images, 36, SampleDesign.DISAGREEMENT)
    assert all(one.half_width > 0 for one in unequal(labelled(unequal.sample.image_ids, women=2)))


# The command


@pytest.mark.slow
def test_the_command_finds_the_sample_and_says_so(images: ImageSet, tmp_path: Path) -> None:
    pytest.importorskip("fastapi", reason="needs the extra label")
    from label_server import label_server
    from labelling_desk import items_of

    sample = ToBeLabelled(images, "gender", {}).sample(20)
    write_sample(images.root / "sample.csv", sample, images)
    said = {name: kept("male") for name in numbered(COUNT)}
    results = write_predictions(tmp_path / "results", {"one": said})
    options = ("--overlap", "0.5", "--calibration", "0", "--results", str(results), "--half-width", "0.1")
    with label_server(images.root, "ann", "ben", options=options) as server:
        shares = [{item["item_id"] for item in items_of(server, name)} for name in ("ann", "ben")]
        assert shares[0] | shares[1] == set(sample.image_ids)
        assert [len(ids) for ids in shares] == [15, 15]
    with label_server(images.root, "ann", options=("--all-images", "--calibration", "0")) as server:
        assert len(items_of(server)) == COUNT


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--sample", "x.csv", "--all-images"), "--sample asks for some images and --all-images for all"),
        (("--half-width", "0.1"), "--half-width needs what detectors say"),
        (("--half-width", "-1"), r"--half-width -1 \(accepted: above 0, at most 1\)"),
        (("--results", "x"), "--results says what a sample's labels are worth: draw one"),
        (("--sample", "x.csv"), "there is no sample 'x.csv'"),
    ],
)
def test_options_that_contradict_each_other(images: ImageSet, options: tuple[str, ...], message: str) -> None:
    pytest.importorskip("fastapi", reason="needs the extra label")
    from typer.testing import CliRunner

    from detector_bench.cli.app import app

    result = CliRunner().invoke(app, ["label", str(images.root), "-a", "ann", "--no-browser", *options])
    assert isinstance(result.exception, ConfigError)
    with pytest.raises(ConfigError, match=message):
        raise result.exception


@pytest.mark.slow
def test_a_share_is_labelled_by_keyboard_and_its_worth_is_seen_on_the_agreement_page_alone(tmp_path: Path) -> None:
    pytest.importorskip("fastapi", reason="needs the extra label")
    from browser import chromium, opened, overflow, serious_findings
    from label_server import label_server, press_label, shown_image, wait_for_another, wait_until_saved
    from small_parts import picture

    images = write_image_set(tmp_path / "set", numbered(COUNT))
    for number, name in enumerate(numbered(COUNT)):
        picture(number).save(images.root / "images" / f"{name}.png")
    said = {name: kept("male") for name in numbered(COUNT)}
    results = write_predictions(tmp_path / "results", {"one": said})
    sample = ToBeLabelled(images, "gender", {}).sample(30)
    write_sample(images.root / "sample.csv", sample, images)
    options = ("--overlap", "0.2", "--calibration", "0", "--results", str(results))
    with (
        label_server(images.root, "ann", "ben", options=options) as server,
        chromium() as browser,
        opened(browser) as page,
    ):
        page.goto(f"{server.address}/label/ann")
        page.locator("#pictures img").first.wait_for()
        seen = set()
        for number in range(18):  # 6 of everybody, and half of the other 24
            image = shown_image(page)
            seen.add(image)
            press_label(page, "female" if number % 3 else "male")
            wait_for_another(page, image)
        assert page.locator("#notice").is_visible()
        assert len(seen) == 18
        assert seen <= set(sample.image_ids)
        assert "bias score" not in page.content().lower()
        wait_until_saved(page)
        page.goto(f"{server.address}/agreement")
        # A first answer may be of a moment before the last key.
        page.get_by_text("Model bias score of sdxl:").wait_for(timeout=20_000)
        lines = page.locator("#worth-lines li").all_inner_texts()
        assert sum(int(line.split(" with ")[1].split()[0]) for line in lines) == 18
        assert "18 of 18" in page.locator("#annotators").inner_text()
        assert serious_findings(page) == []
        assert overflow(page) == 0
