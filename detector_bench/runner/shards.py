"""Shards: the parts of an image set that a run judges one after another, or many processes at the same time.

An image's shard follows from its id alone, so that every machine cuts the same set in the same way.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from typing import Self

import numpy as np
from numpy.typing import NDArray

from detector_bench.errors import ConfigError

IMAGES_PER_SHARD = 20_000
"""A run without other orders cuts larger image sets into shards of about this size: its memory does not grow."""

SHARDS_PER_WORKER = 4
"""With several workers there are at least so many shards for each of them: none waits long for the last."""

MOST_SHARDS = 99_999

_TEXT = re.compile(r"(\d{1,5})/(\d{1,5})")


@dataclass(frozen=True, order=True, slots=True)
class Shard:
    """One of `count` parts of an image set; `number` runs from 1."""

    count: int = 1
    number: int = 1

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `3/16`, the third of sixteen.

        Raises:
            ConfigError: it has another form, or there is no such shard.
        """
        match = _TEXT.fullmatch(text.strip())
        if match is None or not 1 <= int(match[1]) <= int(match[2]):
            raise ConfigError(
                f"--shard {text!r}: expected NUMBER/SHARDS, such as 3/16, with a number from 1 to 16"
            )
        return cls(count=int(match[2]), number=int(match[1]))

    @classmethod
    def all(cls, count: int) -> list[Self]:
        """All shards of a set that is cut into `count`."""
        return [cls(count=count, number=number) for number in range(1, count + 1)]

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"

    @property
    def name(self) -> str:
        """What its files are called: `00003-of-00016`."""
        return f"{self.number:05d}-of-{self.count:05d}"

    @property
    def joined_name(self) -> str:
        """The file that a detector's finished verdicts on this shard stand in."""
        return "predictions.parquet" if self.count == 1 else f"shard-{self.name}.parquet"

    def part_name(self, number: int) -> str:
        """The file of a part that is written while the shard is judged."""
        return f"{'' if self.count == 1 else f'shard-{self.name}.'}part-{number:06d}.parquet"


def shard_numbers(image_ids: Iterable[str], count: int) -> NDArray[np.int32]:
    """The shard of each image, 1 to `count`: the first eight bytes of its id's sha256, modulo `count`, plus 1."""
    if count == 1:
        return np.ones(sum(1 for _ in image_ids), dtype=np.int32)
    heads = b"".join(sha256(image_id.encode()).digest()[:8] for image_id in image_ids)
    return (np.frombuffer(heads, ">u8") % np.uint64(count)).astype(np.int32) + 1


def sensible_count(images: int, *, workers: int = 1) -> int:
    """Into how many shards an image set is cut where nobody says it."""
    by_size = math.ceil(images / IMAGES_PER_SHARD)
    by_workers = SHARDS_PER_WORKER * workers if workers > 1 else 1
    return max(1, min(MOST_SHARDS, max(by_size, by_workers)))


_FILE = re.compile(r"(?:shard-(\d{5})-of-(\d{5})(?:\.part-\d+)?|predictions|part-\d+)\.parquet")


def shard_of_file(name: str) -> Shard | None:
    """The shard that a prediction file of a run belongs to; None for a file by another name."""
    match = _FILE.fullmatch(name)
    if match is None:
        return None
    return Shard() if match[1] is None else Shard(count=int(match[2]), number=int(match[1]))


def ranges(numbers: Iterable[int]) -> str:
    """Numbers as an array job takes them: `1-3,7`."""
    found: list[list[int]] = []
    for number in sorted(set(numbers)):
        if found and number == found[-1][1] + 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in found)
