"""What there is to judge, which part of it everybody judges first, and each annotator's own random order."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from detector_bench.dataset import SEED_COLUMN, ImageSet
from detector_bench.errors import ConfigError
from detector_bench.labelling.questions import DeskSettings, Task


class DeskItem(NamedTuple):
    """Something to judge, as the store knows it.

    Attributes:
        item_id: the image's id; of a pair, the edited image's id.
        images: (role, image_id).
        batch: 0: there when the store was made; every later batch comes after the ones before it.
        in_calibration: whether everybody judges it first.
    """

    item_id: str
    images: tuple[tuple[str, str], ...]
    batch: int = 0
    in_calibration: bool = False


def items_in(image_set: ImageSet, task: Task) -> list[DeskItem]:
    """What a task finds in an image set, in file order.

    Raises:
        ConfigError: no image names a seed image, or a seed image that it names is not there.
    """
    ids = [str(name) for name in image_set.images["image_id"]]
    if task is Task.IMAGES:
        return [DeskItem(name, (("image", name),)) for name in ids]
    seeds = image_set.images[SEED_COLUMN] if SEED_COLUMN in image_set.images else [""] * len(ids)
    known = set(ids)
    pairs = [(name, str(seed)) for name, seed in zip(ids, seeds, strict=True) if seed]
    if not pairs:
        raise ConfigError(
            f"{image_set.root}: there are no pairs to judge; accepted: images.csv with a column {SEED_COLUMN} "
            "that names, for an edited image, the image that it was made from"
        )
    for name, seed in pairs:
        if seed not in known:
            raise ConfigError(f"images.csv: image {name!r} names the seed image {seed!r}, which is not listed")
    return [DeskItem(name, (("seed", seed), ("edited", name))) for name, seed in pairs]


def new_items(
    present: Sequence[DeskItem],
    known: Mapping[str, DeskItem],
    settings: DeskSettings,
    *,
    asked: Collection[str] | None = None,
    calibration: Collection[str] | None = None,
) -> list[DeskItem]:
    """The items that the store does not know yet, as the batch that they become.

    The calibration round is the one that is named, or drawn from the first batch, by the seed alone, whatever the
    order of the files; where only some items are asked for, among these.
    """
    added = [item for item in present if item.item_id not in known]
    batch = 1 + max((item.batch for item in known.values()), default=-1)
    chosen = set(calibration or ())
    if batch == 0 and calibration is None:
        ids = sorted(item.item_id for item in added if asked is None or item.item_id in asked)
        drawn = _permutation(len(ids), f"{settings.seed}|calibration")[: settings.calibration_size(len(ids))]
        chosen = {ids[index] for index in drawn.tolist()}
    return [DeskItem(item.item_id, item.images, batch, item.item_id in chosen) for item in added]


def order_for(annotator: str, items: Sequence[DeskItem], *, seed: int) -> list[DeskItem]:
    """An annotator's own order: the calibration round, then batch after batch, each at random.

    It depends on the seed, the name and the items that each batch was made of, and on nothing else; so it is the
    same in every process, and items that are left out later do not move the others.

    Args:
        annotator: the name.
        items: everything that the store knows, also what is no longer there.
        seed: the store's.
    """
    ordered: list[DeskItem] = []
    for batch in sorted({item.batch for item in items}):
        members = sorted((item for item in items if item.batch == batch), key=lambda item: item.item_id)
        order = _permutation(len(members), f"{seed}|order|{batch}|{annotator}")
        ordered += [members[index] for index in order.tolist()]
    return sorted(ordered, key=lambda item: not item.in_calibration)


def images_text(item: DeskItem) -> str:
    """An item's images as the store keeps them."""
    return json.dumps(item.images, ensure_ascii=False)


def item_from(item_id: str, images: str, batch: int, in_calibration: int) -> DeskItem:
    """Read an item as the store keeps it."""
    return DeskItem(
        item_id, tuple((role, image_id) for role, image_id in json.loads(images)), batch, bool(in_calibration)
    )


def _permutation(length: int, name: str) -> NDArray[np.intp]:
    words = np.frombuffer(hashlib.sha256(name.encode()).digest(), dtype="<u4")
    # numpy promises the same raw numbers in every version, and does not promise that of `Generator.permutation`.
    keys = np.random.PCG64(np.random.SeedSequence(words.tolist())).random_raw(length)
    return np.argsort(keys, kind="stable")
