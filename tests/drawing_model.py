"""A T2I model for tests: it draws noise from the seed, and does what the prompt says. A plugin file of its own."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from pydantic import Field

from detector_bench.errors import ConfigError
from detector_bench.generation.image_requests import Blocked, Failed, ImageRequest, Made, Outcome, Waiting
from detector_bench.generation.t2i_models import GenerationPlace, ModelRecord, T2IModel, t2i_model
from detector_bench.perception.stage import DESCRIPTIVE

SIDE = 16


@t2i_model("drawing")
class Drawing(T2IModel):
    """Prompts with certain words are refused, fail or come out black; all others are drawn."""

    images_at_once: int = Field(default=1, json_schema_extra=DESCRIPTIVE)
    threads: int = Field(default=1, json_schema_extra=DESCRIPTIVE)
    log: str | None = Field(default=None, json_schema_extra=DESCRIPTIVE)
    """A file that gets a line for each image that is drawn."""
    pause: float = Field(default=0.0, json_schema_extra=DESCRIPTIVE)
    network: str = Field(default="one", json_schema_extra=DESCRIPTIVE)

    @property
    def batch_size(self) -> int:
        return self.images_at_once

    @property
    def concurrency(self) -> int:
        return self.threads

    def load(self, place: GenerationPlace) -> LoadedDrawing:
        return LoadedDrawing(self)


class LoadedDrawing:
    def __init__(self, model: Drawing) -> None:
        self._model = model
        self.record = ModelRecord(
            model="drawing", sha256=model.network * 8, versions={"drawing": "1"}, device="cpu"
        )

    def make(self, requests: Sequence[ImageRequest]) -> Sequence[Outcome]:
        time.sleep(self._model.pause)
        return [self._drawn(request) for request in requests]

    def close(self) -> None:
        pass

    def _drawn(self, request: ImageRequest) -> Outcome:
        for word, outcome in self._special(request).items():
            if word in request.prompt:
                if isinstance(outcome, BaseException):
                    raise outcome
                return outcome
        generator = np.random.default_rng(request.seed)
        pixels = generator.integers(0, 256, (SIDE, SIDE, 3), dtype=np.uint8)
        if self._model.log is not None:
            with Path(self._model.log).open("a") as log:
                log.write(f"{request.image_id}\n")
                log.flush()
                os.fsync(log.fileno())
        return Made(content=Image.fromarray(pixels), seconds=0.5, cost=self._model.price)

    def _special(self, request: ImageRequest) -> dict[str, Outcome | BaseException]:
        return {
            "refused": Blocked(reason="moderation_blocked: no", seconds=0.1),
            "failing": Failed(reason="no luck", seconds=0.1),
            "lost": Failed(reason="time-out", seconds=0.1, may_have_been_paid=True),
            "black": Made(content=Image.new("RGB", (SIDE, SIDE)), seconds=0.1),
            "text": Made(content=b"<html>not an image</html>", seconds=0.1),
            "gif": Made(content=GIF, seconds=0.1),
            "crash": ValueError(f"{request.prompt} cannot\nbe drawn"),
            "hopeless": ConfigError("the service is closed"),
            "stop": KeyboardInterrupt(),
            "later": Waiting(),
            "half letter": Made(
                content=Image.new("RGB", (SIDE, SIDE), "red"), seconds=0.1, revised_prompt="a \ud83d"
            ),
            **_WRONG,
        }


RED = Image.new("RGB", (SIDE, SIDE), "red")
_WRONG: dict[str, Any] = {
    "no outcome": None,
    "no image": Made(content=np.zeros((SIDE, SIDE, 3)), seconds=0.1),  # type: ignore[arg-type]
    "odd parameter": Made(content=RED, seconds=0.1, parameters=[1]),  # type: ignore[arg-type]
    "odd cost": Made(content=RED, seconds=0.1, cost=float("nan")),
    "odd reason": Blocked(reason=7, seconds=0.1),  # type: ignore[arg-type]
}
"""What a T2I model should never give."""


def _gif() -> bytes:
    import io

    stream = io.BytesIO()
    Image.new("RGB", (SIDE, SIDE), "red").save(stream, format="GIF")
    return stream.getvalue()


GIF = _gif()
