"""The files beside an image set's three tables that belong to it, and go where it goes."""

from __future__ import annotations

from pathlib import Path

from detector_bench.dataset.calibration_file import CALIBRATION_FILE
from detector_bench.dataset.pair_sample_file import PAIR_SAMPLE_FILE
from detector_bench.dataset.sample_file import SAMPLE_FILE
from detector_bench.vocabulary.generations import GENERATIONS_FILE

TABLES_BESIDE = (SAMPLE_FILE, CALIBRATION_FILE, PAIR_SAMPLE_FILE, "scenes.csv", "halves.csv")
"""Tables of text about images, by their ids; which requests were made stands in `GENERATIONS_FILE`."""

LICENCE_FILES = ("LICENSE", "LICENSE.md", "LICENSE.txt", "LICENCE", "LICENCE.md", "LICENCE.txt")


def files_beside(folder: Path) -> list[str]:
    """The names of those that are there."""
    return [name for name in (GENERATIONS_FILE, *TABLES_BESIDE, *LICENCE_FILES) if (folder / name).is_file()]
