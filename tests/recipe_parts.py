"""T2I models for tests of recipes: one that paints, one that repaints photos; and recipes written as files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import yaml
from PIL import Image

from detector_bench.generation.image_requests import Blocked, ImageRequest, Made, Outcome
from detector_bench.generation.t2i_models import GenerationPlace, ModelRecord, T2IModel, t2i_model
from detector_bench.prompt_lists import KEEP_ATTRIBUTES

MAN, WOMAN = (200, 40, 40), (40, 40, 200)
"""Colours that the detector `test-colour` calls so."""


@t2i_model("test-painting")
class Painting(T2IModel):
    """Paints one colour."""

    summary: ClassVar[str] = "paints one colour"

    colours: Path | None = None
    most_steps: int = 100

    def mistakes(self) -> Iterable[str]:
        if self.steps is not None and self.steps > self.most_steps:
            yield f"steps: {self.steps} (accepted: at most {self.most_steps})"

    def load(self, place: GenerationPlace) -> Loaded:
        return Loaded()


@t2i_model("test-repainting")
class Repainting(T2IModel):
    """Makes women of men and men of women where a nurse is asked for, but not if told to leave people alone."""

    strength: float = 1.0

    @property
    def edits(self) -> bool:
        return True

    def load(self, place: GenerationPlace) -> Loaded:
        return Loaded()


class Loaded:
    record = ModelRecord(model="test")

    def make(self, requests: Sequence[ImageRequest]) -> Sequence[Outcome]:
        return [_made(request) for request in requests]

    def close(self) -> None:
        pass


def _made(request: ImageRequest) -> Outcome:
    if request.seed_photo is None:
        return Made(content=Image.new("RGB", (8, 8), MAN), seconds=0.0)
    if "refused" in request.seed_photo.image_id:
        return Blocked(reason="moderation_blocked", seconds=0.0)
    red, green, blue = Image.open(request.seed_photo.path).convert("RGB").split()
    turned = "nurse" in request.prompt and KEEP_ATTRIBUTES not in request.prompt
    return Made(content=Image.merge("RGB", (blue, green, red) if turned else (red, green, blue)), seconds=0.0)


def write_recipe(path: Path, **changes: Any) -> Path:
    """A recipe of a painting model; what is None is left out."""
    content: dict[str, Any] = {
        "name": "test",
        "prompts": "lyu2025",
        "images_per_prompt": 2,
        "models": [{"name": "painter", "kind": "test-painting"}],
    } | changes
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump({key: value for key, value in content.items() if value is not None}))
    return path


def write_photos(folder: Path, photos: Mapping[str, tuple[int, int, int]]) -> Path:
    """Photos of one colour each, by file name."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, colour in photos.items():
        Image.new("RGB", (12, 12), colour).save(folder / name)
    return folder
