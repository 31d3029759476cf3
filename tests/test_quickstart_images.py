"""The embedded default image set: whole, labelled, the same every time, and telling detectors apart."""

from __future__ import annotations

import csv
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from detector_bench import quickstart
from detector_bench.dataset.decoding import decode_image, read_image_file
from detector_bench.errors import DetectorBenchError, MissingExtraError
from detector_bench.installation import resource
from detector_bench.vocabulary import ATTRIBUTES, LOW_QUALITY, LOW_QUALITY_REASONS
from detector_bench.vocabulary.columns import IMAGE_COLUMNS, LABEL_COLUMNS, PROMPT_COLUMNS

PACKAGES = ("matplotlib", "skimage", "sklearn")

needs_packages = pytest.mark.skipif(
    not all(find_spec(package) for package in PACKAGES),
    reason="the packages that carry the pictures are not installed (extra quickstart)",
)


@pytest.fixture(scope="module")
def image_set(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return quickstart.build_image_set(tmp_path_factory.mktemp("quickstart") / "not_there_yet")


def rows(table: str, columns: tuple[str, ...]) -> list[dict[str, str]]:
    with resource(f"labels/quickstart/{table}").open(encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file)
        assert tuple(reader.fieldnames or ()) == columns
        return list(reader)


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_tables_agree_with_the_recipes() -> None:
    images = rows("images.csv", IMAGE_COLUMNS)
    prompts = {row["prompt_id"]: row["category"] for row in rows("prompts.csv", PROMPT_COLUMNS)}
    assert [row["image_id"] for row in images] == list(quickstart.RECIPES)
    assert {row["prompt_id"] for row in images} == set(prompts)
    assert sorted(prompts.values()) == ["expression", "expression", "object", "object"]
    for row in images:
        size, prompt_id, _ = row["image_id"].split("_")
        assert row["path"] == f"images/{row['image_id']}.png"
        assert row["prompt_id"] == prompt_id
        assert row["t2i_model"] == {"large": "photographs", "small": "photographs_small"}[size]


def test_every_image_has_one_label_and_every_kind_occurs() -> None:
    labels = rows("labels.csv", LABEL_COLUMNS)
    assert [row["image_id"] for row in labels] == list(quickstart.RECIPES)
    assert {(row["annotator"], row["attribute"]) for row in labels} == {("authors", "gender")}
    assert {row["label"] for row in labels} == {*ATTRIBUTES["gender"].classes, LOW_QUALITY}
    assert {row["reason"] for row in labels if row["label"] == LOW_QUALITY} == set(LOW_QUALITY_REASONS)
    assert {row["reason"] for row in labels if row["label"] != LOW_QUALITY} == {""}


def test_each_prompt_of_each_t2i_model_has_a_clear_image() -> None:
    """Otherwise the actual bias scores of the default study would have holes."""
    label_of = {row["image_id"]: row["label"] for row in rows("labels.csv", LABEL_COLUMNS)}
    clear = {
        (row["t2i_model"], row["prompt_id"])
        for row in rows("images.csv", IMAGE_COLUMNS)
        if label_of[row["image_id"]] != LOW_QUALITY
    }
    assert len(clear) == 2 * 4


@needs_packages
def test_built_images_are_small_rgb_pictures(image_set: Path) -> None:
    for row in rows("images.csv", IMAGE_COLUMNS):
        pixels = decode_image(read_image_file(image_set / row["path"]))
        assert max(pixels.shape[:2]) <= quickstart.LONGEST_SIDE
        assert min(pixels.shape[:2]) >= 150
        assert pixels.std() > 3
    assert len(list((image_set / "images").iterdir())) == len(quickstart.RECIPES)


@pytest.mark.slow
@needs_packages
def test_building_twice_gives_the_same_bytes(image_set: Path, tmp_path: Path) -> None:
    first = files_of(image_set)
    assert files_of(quickstart.build_image_set(tmp_path)) == first
    (tmp_path / "labels.csv").write_text("spoilt", encoding="utf-8")
    assert files_of(quickstart.build_image_set(tmp_path)) == first
    assert first["labels.csv"] == resource("labels/quickstart/labels.csv").read_bytes()


@needs_packages
def test_the_heavy_packages_are_not_imported(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from detector_bench.quickstart import build_image_set;"
        f"build_image_set(Path(sys.argv[1])); print(sorted({set(PACKAGES)!r} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_missing_package_is_named_in_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(quickstart, "find_spec", lambda _name: None)
    with pytest.raises(MissingExtraError) as caught:
        quickstart.build_image_set(tmp_path)
    assert "pip install 'detector-bench[quickstart]'" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_package_without_its_pictures_is_said_to_lack_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quickstart, "find_spec", lambda _name: find_spec("json"))
    with pytest.raises(MissingExtraError, match="without its sample picture"):
        _ = quickstart.SamplePictures().astronaut


def test_derived_pictures_are_what_they_are_called() -> None:
    left = Image.new("RGB", (4, 6), (255, 0, 0))
    right = Image.new("RGB", (2, 3), (0, 0, 255))
    joined = np.asarray(quickstart.side_by_side(left, right))
    assert joined.shape == (6, 6, 3)
    assert joined[:, :4].tolist() == [[[255, 0, 0]] * 4] * 6
    assert joined[3:, 4:].tolist() == [[[0, 0, 255]] * 2] * 3
    assert joined[:3, 4:].tolist() == [[[128, 128, 128]] * 2] * 3
    assert quickstart.without_head(joined_image := Image.fromarray(joined), above=2).size == (6, 4)
    assert quickstart.scaled(joined_image, width=3).size == (3, 3)


@pytest.fixture(scope="module")
def hog() -> Any:
    dlib = pytest.importorskip("dlib", reason="dlib is not installed (extra dlib)")
    return dlib.get_frontal_face_detector()


@needs_packages
@pytest.mark.parametrize(
    ("image_id", "without_upsampling", "with_upsampling"),
    [
        ("large_smiling_1", 1, 1),  # a clear portrait
        ("large_smiling_3", 1, 2),  # doubled in size, the helmet looks like a face too
        ("large_smiling_5", 2, 2),  # two people of the same size
        ("large_serious_4", 0, 0),  # seen from the side
        ("large_serious_5", 0, 1),  # the helmet again: nobody's face is there
        ("large_glasses_4", 1, 1),  # found in spite of the blur
        ("large_glasses_5", 0, 0),  # coffee
        ("small_smiling_1", 0, 1),  # a face of 60 pixels
        ("small_smiling_5", 1, 2),  # the second person is seen only when doubled
        ("small_serious_3", 0, 0),  # upside down
    ],
)
def test_hog_faces_differ_where_the_default_study_needs_it(
    image_set: Path, hog: Any, image_id: str, without_upsampling: int, with_upsampling: int
) -> None:
    pixels = decode_image(read_image_file(image_set / "images" / f"{image_id}.png"))
    assert [len(hog(pixels, upsample)) for upsample in (0, 1)] == [without_upsampling, with_upsampling]


def test_missing_resource_is_named() -> None:
    with pytest.raises(DetectorBenchError, match=r"labels/nothing\.csv is missing"):
        resource("labels/nothing.csv")
