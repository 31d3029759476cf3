"""The page `docs/import.md`, followed word by word."""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd
import pytest
from guides import DOCS, Guide, blocks_of

from detector_bench.cli.app import COMMANDS
from detector_bench.dataset import ImageSet
from detector_bench.dataset.foreign.name_patterns import FIELDS

PAGE = "import.md"


@pytest.mark.slow
def test_the_page_leads_from_files_to_an_image_set(tmp_path: Path) -> None:
    with Guide(PAGE, tmp_path) as guide:
        guide.follow(until="preview")
        assert "labels" not in guide.said["preview"]
        assert "images.csv (8 rows), prompts.csv (2 rows); 8 image files copied" in guide.said["preview"]
        assert not (tmp_path / "my_images").exists()
        guide.follow(until="import")
        image_set = ImageSet.load(tmp_path / "my_images")
        truth = image_set.truth("gender").set_index("image_id")["label"].dropna().to_dict()
        assert truth == {
            "sdxl__nurse__1": "female",
            "sdxl__nurse__2": "female",
            "sdxl__taxi_driver__1": "male",
            "sd3__nurse__1": "female",
        }
        guide.follow()
    assert "2 labels (0 are there already)" in guide.said["add"]
    assert "No mistakes." in guide.said["check"]
    assert guide.said["in python"] == "8 images\n"
    table = pd.read_csv(tmp_path / "my_images" / "labels.csv")
    assert len(table) == 7 + 2 + 2  # of eight cells of raters one is empty, of four after a discussion two


def test_the_page_names_what_there_is() -> None:
    text = (DOCS / PAGE).read_text(encoding="utf-8")
    assert set(re.findall(r"detector-bench (\w+)", text)) <= COMMANDS.keys()
    assert {f"{{{name}}}" for name in FIELDS} <= set(re.findall(r"\{\w+\}", text))
    assert [each.kind for each in blocks_of(PAGE) if not each.kind] == []
