"""Cuts pictures of two people into their halves, and checks that each half shows one person.

What came of a picture stands in a journal, a line for each, as soon as its halves are on the disk: a run that was
cut off goes on there, and looks at no picture twice.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from detector_bench.atomic_files import replacing
from detector_bench.dataset.decoding import ImageError, decode_image
from detector_bench.errors import ConfigError
from detector_bench.generation.people import CutRule, PeopleError, PeopleFinder, on_each_side, where_to_cut
from detector_bench.generation.scenes import SIDES

JOURNAL_FILE = "halves.jsonl"
PICTURES_AT_ONCE = 16
"""So many pictures are in memory at most."""


class HalfVerdict(StrEnum):
    """What a half shows."""

    ONE_PERSON = "one_person"
    NOBODY = "nobody"
    SEVERAL_PEOPLE = "several_people"
    ERROR = "error"
    """Nobody could look: the picture cannot be read, or the stage failed on it."""


@dataclass(frozen=True, slots=True)
class ScenePicture:
    """A picture of two people, and what its halves are called.

    Attributes:
        image_id: of the picture.
        path: as in `images.path`.
        files: of its halves, left and right, below the new image set.
    """

    image_id: str
    path: str
    files: tuple[str, str]


@dataclass(frozen=True, slots=True)
class Half:
    """What came of one half.

    Attributes:
        verdict: what it shows.
        people: how many: those found in it, or those of the whole picture that reach into it, whichever are more;
            None after an error.
        sha256: of its file; None: there is none.
    """

    verdict: HalfVerdict
    people: int | None = None
    sha256: str | None = None


@dataclass(frozen=True, slots=True)
class CutPicture:
    """What came of one picture.

    Attributes:
        image_id: of the picture.
        sha256: of its file; None if that could not be read.
        left: its left half.
        right: its right half.
        cut_at: the column of pixels with which the right half begins; None after an error.
        cut: whether that is the middle, or between the people.
        reason: of an error.
    """

    image_id: str
    sha256: str | None
    left: Half
    right: Half
    cut_at: int | None = None
    cut: str = ""
    reason: str = ""

    @property
    def halves(self) -> tuple[Half, Half]:
        """Left and right."""
        return self.left, self.right


@dataclass(frozen=True)
class Cutter:
    """Cuts pictures, and writes their halves as PNG.

    Attributes:
        finder: finds the people.
        rule: where to cut.
        keep_all: whether halves are written that do not show exactly one person.
        read: the content of an image by its cell of `images.path`.
        out: the folder of the new image set.
    """

    finder: PeopleFinder
    rule: CutRule
    keep_all: bool
    read: Callable[[str], bytes]
    out: Path

    def cut(self, picture: ScenePicture, known: CutPicture | None = None) -> CutPicture:
        """Cut a picture; what is known of it stays if its file and its halves are what they were."""
        try:
            content = self.read(picture.path)
        except ImageError as error:
            return _error(picture, None, f"{error.reason}: {error.detail}")
        sha256 = hashlib.sha256(content).hexdigest()
        if known is not None and known.sha256 == sha256 and self._is_there(picture, known):
            return known
        try:
            pixels = decode_image(content)
            if pixels.shape[1] < len(SIDES):
                return _error(picture, sha256, "too_narrow: a picture of one pixel has no halves")
            return self._cut(picture, sha256, pixels)
        except ImageError as error:
            return _error(picture, sha256, f"{error.reason}: {error.detail}")
        except PeopleError as error:
            return _error(picture, sha256, str(error))

    def _cut(self, picture: ScenePicture, sha256: str, pixels: NDArray[np.uint8]) -> CutPicture:
        (whole,) = self.finder.people(self.finder.boxes(pixels))
        cut = where_to_cut(pixels.shape[1], whole, rule=self.rule)
        parts = np.ascontiguousarray(pixels[:, : cut.at]), np.ascontiguousarray(pixels[:, cut.at :])
        counted = self.finder.people([found for part in parts for found in self.finder.boxes(part)])
        # Half a face is hardly found: whom the cut goes through counts on both sides.
        seen = on_each_side(whole, cut.at)
        halves = []
        for part, here, before, file in zip(parts, counted, seen, picture.files, strict=True):
            people = max(len(here), before)
            verdict = _VERDICTS.get(people, HalfVerdict.SEVERAL_PEOPLE)
            kept = self.keep_all or verdict is HalfVerdict.ONE_PERSON
            written = _write_png(self.out / file, part) if kept else None
            halves.append(Half(verdict, people, written))
        left, right = halves
        return CutPicture(picture.image_id, sha256, left, right, cut.at, cut.how)

    def _is_there(self, picture: ScenePicture, known: CutPicture) -> bool:
        return all(
            half.sha256 is None or (self.out / file).is_file()
            for half, file in zip(known.halves, picture.files, strict=True)
        )


_VERDICTS = {0: HalfVerdict.NOBODY, 1: HalfVerdict.ONE_PERSON}


def cut_all(cutter: Cutter, pictures: Sequence[ScenePicture], *, settings: str) -> Iterator[CutPicture]:
    """Cut all pictures in their order, going on where the folder's journal ends.

    Args:
        cutter: what is done.
        pictures: all of the image set.
        settings: what decides the halves, in one line; the journal of other settings is refused.

    Yields:
        What came of each, once it is in the journal.

    Raises:
        ConfigError: the folder has halves that were cut by other settings.
    """
    journal = cutter.out / JOURNAL_FILE
    known = _read_journal(journal, settings)
    threads = min(4, os.cpu_count() or 1) if cutter.finder.threads_may_share else 1
    with journal.open("a", encoding="utf-8", newline="\n") as stream, ThreadPoolExecutor(threads) as pool:
        for start in range(0, len(pictures), PICTURES_AT_ONCE):
            group = pictures[start : start + PICTURES_AT_ONCE]
            for found in pool.map(lambda each: cutter.cut(each, known.get(each.image_id)), group):
                if not journal.stat().st_size:
                    _append(stream, {"settings": settings})
                if known.get(found.image_id) != found:
                    _append(stream, asdict(found))
                yield found


def _read_journal(path: Path, settings: str) -> dict[str, CutPicture]:
    """What is known, by image; a line that was cut off is taken away, and its picture is looked at again."""
    if not path.is_file():
        return {}
    content = path.read_bytes()
    whole = content[: content.rfind(b"\n") + 1]
    if whole != content:
        with path.open("r+b") as stream:
            stream.truncate(len(whole))
    lines = [json.loads(line) for line in whole.decode("utf-8").splitlines()]
    if lines and lines[0] != {"settings": settings}:
        raise ConfigError(
            f"{path.parent}: its halves were cut by other settings, {lines[0].get('settings')!r}; these are "
            f"{settings!r} (accepted: the same settings, or another --out)"
        )
    found = (_cut_picture(line) for line in lines[1:])
    return {each.image_id: each for each in found}


def _cut_picture(line: dict[str, Any]) -> CutPicture:
    sides = {side: Half(**(line[side] | {"verdict": HalfVerdict(line[side]["verdict"])})) for side in SIDES}
    return CutPicture(**(line | sides))


def _append(stream: Any, line: dict[str, Any]) -> None:
    stream.write(json.dumps(line, ensure_ascii=False) + "\n")
    stream.flush()
    os.fsync(stream.fileno())


def _error(picture: ScenePicture, sha256: str | None, reason: str) -> CutPicture:
    half = Half(HalfVerdict.ERROR)
    return CutPicture(picture.image_id, sha256, half, half, reason=" ".join(reason.split()))


def _write_png(path: Path, pixels: NDArray[np.uint8]) -> str:
    with replacing(path) as temporary:
        Image.fromarray(pixels).save(temporary, "PNG")
        return hashlib.sha256(temporary.read_bytes()).hexdigest()
