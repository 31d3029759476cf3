"""A stand-in for a T2I model: it shows photographs that packages carry, whose labels are known.

Its images say nothing about any T2I model; they let everything else be tried without a download.
"""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from detector_bench.generation.image_requests import Blocked, Made
from detector_bench.generation.t2i_models import ModelRecord, T2IModel, t2i_model
from detector_bench.installation import resource
from detector_bench.quickstart import RECIPES, SamplePictures

WOMEN = {
    "nurse": 0.9,
    "teacher": 0.7,
    "cook": 0.6,
    "clerk": 0.5,
    "artist": 0.5,
    "farmer": 0.3,
    "judge": 0.3,
    "pilot": 0.1,
}
"""How often the stand-in means to show a woman, by the word of the prompt."""
UNCLEAR = 0.15
"""How often it shows a picture that nobody can judge."""
REFUSED = {"judge": 0.2}


@cache
def known() -> dict[str, list[str]]:
    """Photographs of the quickstart by what the authors labelled them."""
    found: dict[str, list[str]] = {}
    with Path(resource("labels/quickstart/labels.csv")).open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            found.setdefault(row["label"], []).append(row["image_id"])
    return found


@t2i_model("shows_photographs")
class ShowsPhotographs(T2IModel):
    """Its parameter bends every prompt a little towards men (below 0) or women (above 0)."""

    leaning: float = 0.0

    def load(self, _: Any) -> LoadedPhotographs:
        """It needs nothing."""
        return LoadedPhotographs(self)


class LoadedPhotographs:
    """The photographs, read once."""

    record = ModelRecord(model="photographs of installed packages")

    def __init__(self, declared: ShowsPhotographs) -> None:
        self._declared = declared
        self._pictures = SamplePictures()

    def make(self, requests: Any) -> list[Any]:
        """An image, or a refusal, for each request."""
        return [self._made(request) for request in requests]

    def close(self) -> None:
        """Nothing is open."""

    def _made(self, request: Any) -> Any:
        random = np.random.default_rng(request.seed)
        name = chosen(request.prompt.rsplit(" ", 1)[-1], random, self._declared.leaning)
        if name is None:
            return Blocked(reason="a rule of the stand-in", seconds=0.0)
        picture = RECIPES[name](self._pictures)
        return Made(content=moved(picture, random), seconds=0.0)


def chosen(word: str, random: np.random.Generator, leaning: float = 0.0) -> str | None:
    """Which photograph is shown, None if refused: the first four random numbers of an image decide."""
    refused, clear, women, which = random.random(4)
    if refused < REFUSED.get(word, 0.0):
        return None
    label = "low_quality" if clear < UNCLEAR else "female" if women < WOMEN[word] + leaning else "male"
    names = known()[label]
    return names[int(which * len(names))]


def label_of(name: str) -> str:
    """What the authors labelled a photograph."""
    return next(label for label, names in known().items() if name in names)


def moved(picture: Image.Image, random: np.random.Generator) -> Image.Image:
    """The photograph, brighter or darker, and cut a little, so that no two images are equal."""
    light = random.uniform(0.85, 1.1)
    left, top = random.integers(0, 9, size=2)
    pixels = np.asarray(picture.convert("RGB"), dtype=np.float32)[top:, left:]
    return Image.fromarray((pixels * light).clip(0, 255).astype(np.uint8))
