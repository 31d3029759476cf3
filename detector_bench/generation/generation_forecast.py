"""What a run of a recipe will take: images, time, money and disk, as far as anybody can know before it."""

from __future__ import annotations

import shutil
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from detector_bench.generation.journal import Journal
from detector_bench.generation.making import ImageSetMaking
from detector_bench.generation.plan import ModelPlan
from detector_bench.generation.standing import Standings

BYTES_OF_A_PIXEL = 1.6
"""Of a PNG of a photograph-like image, about: between 1.2 for smooth and 2.2 for grainy ones."""

_SAMPLED_FILES = 50


class ModelForecast(NamedTuple):
    """What is left to do with one T2I model.

    Attributes:
        t2i_model: its name.
        standings: how many requests stand where.
        images: that this run asks for.
        seconds: of the whole; None: unknown before the first image.
        is_measured: whether seconds and bytes are those of images that it made here.
        cost: the most that it may cost; None: nobody can say.
        currency: of the cost.
        spent: what its requests have cost so far, by currency.
        bytes_of_images: on the disk; None: unknown before the first image.
        bytes_to_download: of weights; None: unknown.
        sends: where prompts and photos go.
        lacks: what is missing on this machine.
    """

    t2i_model: str
    standings: Standings
    images: int
    seconds: float | None
    is_measured: bool
    cost: float | None
    currency: str
    spent: dict[str, float]
    bytes_of_images: float | None
    bytes_to_download: int | None
    sends: tuple[str, ...]
    lacks: tuple[str, ...]


def forecasts(making: ImageSetMaking) -> list[ModelForecast]:
    """What is left to do, T2I model by T2I model. Nothing is loaded or sent, and no weights are downloaded."""
    found = []
    left = making.order.most
    for standing in making.standing():
        images = standing.todo(making.order) if left is None else min(left, standing.todo(making.order))
        left = None if left is None else left - images
        found.append(_forecast(making, standing.plan, standing.standings, standing.spent, images))
    return found


def free_bytes(folder: Path) -> int:
    """What is free on the disk that a folder is to lie on."""
    while not folder.exists():
        folder = folder.parent
    return shutil.disk_usage(folder).free


def _forecast(
    making: ImageSetMaking, plan: ModelPlan, standings: Standings, spent: dict[str, float], images: int
) -> ModelForecast:
    model, place = plan.t2i_model, making.place(plan)
    with making.journal_of(plan) as journal:
        seconds, size = _measured(journal, making.folder)
    is_measured = seconds is not None
    if seconds is None:
        seconds = model.seconds_of_an_image(place)
    if size is None and (pixels := model.pixels_of_an_image(place)):
        size = pixels[0] * pixels[1] * BYTES_OF_A_PIXEL
    worst = next((model.most_it_costs(each) for each in islice(plan.requests(), 1)), None)
    return ModelForecast(
        t2i_model=plan.name,
        standings=standings,
        images=images,
        seconds=None if seconds is None else images * seconds / max(1, model.concurrency),
        is_measured=is_measured,
        cost=0.0 if not model.costs_money else None if worst is None else worst * images,
        currency=model.currency,
        spent=spent,
        bytes_of_images=None if size is None else images * size,
        bytes_to_download=model.bytes_to_download(place),
        sends=tuple(model.sends()),
        lacks=tuple(model.lacks(place)),
    )


def _measured(journal: Journal | None, folder: Path) -> tuple[float | None, float | None]:
    """Seconds and bytes of an image, as those that are there took; None where there are none."""
    if journal is None:
        return None, None
    sizes = []
    for path in journal.latest_paths(_SAMPLED_FILES):
        file = folder / path
        if file.is_file():
            sizes.append(file.stat().st_size)
    return journal.mean_seconds(), sum(sizes) / len(sizes) if sizes else None
