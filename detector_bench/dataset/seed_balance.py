"""Whether the photos that are edited are as many of each group: scores of edits weigh groups as they are there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from detector_bench.dataset.image_references import SEED_COLUMN
from detector_bench.dataset.image_set import ImageSet
from detector_bench.vocabulary import ATTRIBUTES

_WANTED = (("gender",), ("age",), ("race", "skin_tone"))
"""What seeds are to be balanced by; of several, the first that has labels."""

_ALL_CLASSES = ("gender", "age")
"""Without seeds of one of these classes, a change in one direction cannot be seen at all."""


@dataclass(frozen=True)
class SeedBalance:
    """How many seed photos there are of each perceived group, by the human labels.

    Attributes:
        n_seeds: how many there are.
        counts: by attribute and class, how many; attributes that no seed has a label of are not there.
        without_class: by attribute, how many have no label, or one that is no class, such as low quality.
        groups: by the classes of all attributes of `counts`, how many seeds; seeds that lack one are left out.
    """

    n_seeds: int
    counts: Mapping[str, Mapping[str, int]]
    without_class: Mapping[str, int]
    groups: Mapping[tuple[str, ...], int]

    @property
    def unbalanced(self) -> tuple[str, ...]:
        """Attributes of whose classes there are not equally many seeds, or that have one class alone."""
        return tuple(
            name for name, found in self.counts.items() if len(set(found.values())) > 1 or len(found) == 1
        )

    def lines(self) -> Iterator[str]:
        """What a reader of scores of the edits should know, a line each."""
        if not self.counts:
            yield (
                f"{_seeds(self.n_seeds)} without labels: whether their groups are balanced cannot be checked "
                "(gender, age, and race or skin tone; labels of the photos would tell)"
            )
            return
        for name, found in self.counts.items():
            shown = ", ".join(f"{each} {count:,}" for each, count in found.items())
            without = self.without_class[name]
            more = f"; without a class: {without:,}" if without else ""
            state = "not balanced" if name in self.unbalanced else "balanced"
            yield f"seed photos by {name}: {shown}{more}: {state}"
        unknown = [" or ".join(names) for names in _WANTED if not any(name in self.counts for name in names)]
        if unknown:
            wanted = " and of ".join(unknown)
            yield f"seed photos have no labels of {wanted}: whether they are balanced by it cannot be checked"
        if len(self.counts) > 1:
            yield self._crossed()
        if self.unbalanced:
            yield (
                "scores of edited photos weigh groups as they are among the seeds, and a score that takes half of "
                "the seeds to be women is wrong for others"
            )

    def _crossed(self) -> str:
        possible = prod(len(found) for found in self.counts.values())
        names = " x ".join(self.counts)
        if not self.groups:
            return f"no seed photo has a class of each of {names}"
        fewest, most = min(self.groups.values()), max(self.groups.values())
        each = f"{fewest:,} in each" if fewest == most else f"{fewest:,} to {most:,} in each"
        return f"seed photos by {names}: {len(self.groups):,} of {possible:,} groups, {each}"


def seed_balance(image_set: ImageSet, seeds: Sequence[int] | NDArray[np.integer] | None = None) -> SeedBalance:
    """Count the seeds' groups by the annotators' consensus.

    Args:
        image_set: that has the seeds and their labels.
        seeds: positions of the seeds among its images; None: all images that others were edited from.
    """
    rows = seed_positions(image_set) if seeds is None else np.asarray(seeds, dtype=np.intp)
    counts: dict[str, dict[str, int]] = {}
    without, columns = {}, []
    for name in _labelled(image_set, rows):
        attribute = ATTRIBUTES[name]
        labels = image_set.truth(name)["label"].to_numpy()[rows]
        classes = [each if each in attribute.classes else "" for each in labels]
        found = Counter(classes)
        without[name] = found.pop("", 0)
        kept = [each for each in attribute.classes if each in found or name in _ALL_CLASSES]
        counts[name] = {each: found[each] for each in kept}
        columns.append(classes)
    groups = Counter(group for group in zip(*columns, strict=True) if all(group))
    return SeedBalance(len(rows), counts, without, dict(groups))


def seed_positions(image_set: ImageSet) -> NDArray[np.intp]:
    """Where the photos stand that others were edited from, among the images; none where nothing was edited."""
    images = image_set.table("images")
    if not images.has(SEED_COLUMN):
        return np.empty(0, dtype=np.intp)
    named = [text for text in images.encoded(SEED_COLUMN).texts if text]
    return np.sort(image_set.image_ids.positions(named)).astype(np.intp)


def photo_positions(image_set: ImageSet) -> NDArray[np.intp]:
    """Where the photos stand that no T2I model made; all images, if every one is by a T2I model."""
    without = image_set.table("images").records_with("t2i_model", lambda name: not name)
    return without if len(without) else np.arange(len(image_set.image_ids), dtype=np.intp)


def _labelled(image_set: ImageSet, rows: NDArray[np.intp]) -> Iterator[str]:
    for names in _WANTED:
        for name in names:
            if name in image_set.attributes and image_set.truth(name)["label"].notna().to_numpy()[rows].any():
                yield name
                break


def _seeds(number: int) -> str:
    return "1 seed photo" if number == 1 else f"{number:,} seed photos"
