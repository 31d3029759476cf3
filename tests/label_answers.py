"""What two people say about small pictures, for tests of agreement and adjudication."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import numpy as np
from small_parts import image_name, write_image_set

from detector_bench.dataset import ImageSet
from detector_bench.labelling import Answer, Choice, DeskSettings, LabelStore

COUNT = 24
CALIBRATION = 3
M, F, L, O = (Choice(label) for label in ("male", "female", "low_quality", "others"))  # noqa: E741


@contextmanager
def store_in(folder: Path) -> Iterator[LabelStore]:
    """An empty store of a small image set."""
    images = ImageSet.load(write_image_set(folder / "images", COUNT), require_labels=False)
    settings = DeskSettings(calibration_images=CALIBRATION)
    with LabelStore.open(folder / "labels.sqlite", images, settings=settings) as opened:
        yield opened


def record(store: LabelStore, annotator: str, choices: Mapping[int, Choice]) -> None:
    """Put somebody's answers into the store, by the number of the image."""
    for number, choice in choices.items():
        store.record(annotator, Answer(str(uuid4()), image_name(number), {"gender": choice}))


def labels_at_random(*, seed: int, noise: float) -> list[dict[int, Choice]]:
    """What two people say who both see a third opinion, through noise."""
    random = np.random.default_rng(seed)
    seen = random.integers(0, 3, COUNT)
    said = [np.where(random.random(COUNT) < noise, random.integers(0, 4, COUNT), seen) for _ in range(2)]
    return [{number: (M, F, L, O)[code] for number, code in enumerate(codes)} for codes in said]
