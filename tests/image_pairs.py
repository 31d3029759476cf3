"""A small image set of seeds and images edited from them, and what is said of damage to it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

from detector_bench.dataset import ImageSet
from detector_bench.errors import DataError

# Two photos; three images edited from them; an image that a T2I model made, and another edited from that one.
IMAGES = """\
image_id,path,t2i_model,prompt_id,seed_image_id
tom,seeds/tom.png,,,
ann,seeds/ann.png,,,
e1,images/1.png,sd15,nurse,tom
e2,images/2.png,sd15,nurse,ann
e3,images/3.png,sd15,pilot,tom
m1,images/4.png,sdxl,pilot,
m2,images/5.png,sdxl,nurse,m1
"""
PROMPTS = "prompt_id,category,word,prompt\nnurse,profession,nurse,\npilot,profession,pilot,\n"
LABELS = """\
image_id,annotator,attribute,label,reason,value
tom,a,gender,male,,
ann,a,gender,female,,
e1,a,gender,female,,
e2,a,gender,female,,
e3,a,gender,male,,
m1,a,gender,male,,
m2,a,gender,low_quality,blurred,
tom,a,age,young,,25
tom,b,age,young,,28
"""
AN_AGE = "(accepted: a number from 0 to 120 (years), or an empty cell)"


def picture(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (4, 4), (len(path.name), 0, 0)).save(path)


def write_pairs(folder: Path) -> Path:
    """Write the image set into a folder that is not there yet."""
    for name in ("seeds/tom", "seeds/ann", *(f"images/{number}" for number in range(1, 6))):
        picture(folder / f"{name}.png")
    for name, text in (("images", IMAGES), ("prompts", PROMPTS), ("labels", LABELS)):
        (folder / f"{name}.csv").write_text(text)
    return folder


def replace(folder: Path, name: str, *changes: tuple[str, str]) -> None:
    text = (folder / name).read_text()
    for old, new in changes:
        assert text.count(old) == 1, "the change must hit exactly one place"
        text = text.replace(old, new)
    (folder / name).write_text(text)


def mistakes(call: Callable[[], object]) -> list[str]:
    with pytest.raises(DataError) as caught:
        call()
    return [str(problem) for problem in caught.value.problems]


def damaged(folder: Path, name: str, *changes: tuple[str, str]) -> list[str]:
    replace(folder, name, *changes)
    return mistakes(lambda: ImageSet.load(folder))
