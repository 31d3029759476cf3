"""A small image set, and functions that damage it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

from detector_bench.dataset import ImageSet
from detector_bench.errors import DataError, Problem

IMAGES = """\
image_id,path,t2i_model,prompt_id
i1,images/1.png,sdxl,nurse
i2,images/2.png,sdxl,pilot
i3,images/3.png,sd3,nurse
"""
PROMPTS = """\
prompt_id,category,word,prompt
nurse,profession,nurse,"a photo of a nurse, smiling"
pilot,profession,pilot,
"""
LABELS = """\
image_id,annotator,attribute,label,reason
i1,a,gender,female,
i1,b,gender,female,
i2,a,gender,male,
i2,b,gender,low_quality,blurred
i3,a,gender,others,long free text
i3,a,age,young,
"""
GENDER_LABELS = "male, female, low_quality, others"
ATTRIBUTE_NAMES = "gender, age, race, skin_tone"
BELOW = "a path below the image set's folder, with / between its parts and without .."
IMAGE_FILE = "an image file in the image set's folder"


def write_sound(folder: Path) -> Path:
    """Write the image set, without a mistake, into a folder that is not there yet."""
    (folder / "images").mkdir(parents=True)
    for number in (1, 2, 3):
        Image.new("RGB", (4, 4)).save(folder / "images" / f"{number}.png")
    (folder / "images.csv").write_text(IMAGES, encoding="utf-8")
    (folder / "prompts.csv").write_text(PROMPTS, encoding="utf-8")
    (folder / "labels.csv").write_text(LABELS, encoding="utf-8")
    return folder


def problems_of(folder: Path, **options: bool) -> list[Problem]:
    with pytest.raises(DataError) as caught:
        ImageSet.load(folder, **options)
    for problem in caught.value.problems:
        assert str(problem) in str(caught.value)
    return list(caught.value.problems)


def replace(name: str, old: str, new: str) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        text = (folder / name).read_text(encoding="utf-8")
        assert text.count(old) == 1, "the damage must hit exactly one place"
        (folder / name).write_text(text.replace(old, new), encoding="utf-8")

    return damage


def append(name: str, line: str) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        with (folder / name).open("a", encoding="utf-8") as file:
            file.write(line + "\n")

    return damage
