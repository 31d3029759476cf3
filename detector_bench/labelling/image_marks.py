"""What an image's file is like now, so that an answer given on other content is noticed; and what changed."""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from detector_bench.dataset.decoding import ImageError
from detector_bench.dataset.image_paths import is_file_below
from detector_bench.dataset.image_sources import ContentMark, ImageSources
from detector_bench.dataset.text_table import shorten
from detector_bench.dataset.validation import FileInspector
from detector_bench.labelling.history import History
from detector_bench.labelling.items import DeskItem
from detector_bench.labelling.records import Change, ChangeKind, RefusedAnswerError

# A file changed within the clock's resolution of being hashed could change again and look the same.
_SETTLING_NANOSECONDS = 2_000_000_000


class Mark(NamedTuple):
    """What the store remembers of an image's file.

    Attributes:
        path: below the image set's folder.
        size: in bytes; None: it could not be read.
        modified: time of the last change in nanoseconds; None: too fresh to be relied on.
        sha256: of the content; None: nobody has asked yet.
    """

    path: str
    size: int | None
    modified: int | None
    sha256: str | None


class Look(NamedTuple):
    """A file as the operating system describes it; both are None if it cannot be read, and `fault` says why."""

    size: int | None
    modified: int | None
    fault: str = ""


class ImageMarks:
    """The image files of an image set: what is known of them, and what they are like now.

    Args:
        root: the image set's folder, with links resolved.
        paths: the path of each image below it.
        known: what the store remembers.
        ask: gives what the store remembers of an image by now: another process may have learned more.
    """

    def __init__(
        self,
        root: Path,
        paths: Mapping[str, str],
        known: Mapping[str, Mark],
        *,
        ask: Callable[[str], Mark | None],
    ) -> None:
        self._root = root
        self._sources = ImageSources(root)
        self._paths = paths
        self._marks = dict(known)
        self._ask = ask
        self._looks: dict[str, Look] = {}
        self._faults: dict[str, str] = {}
        self._lock = threading.Lock()
        self._unsaved: dict[str, Mark] = {}
        self.generation = 0
        """Grows whenever an image turns out to be another one, to be gone, or to be back."""

    def survey(self) -> None:
        """Look at every file, without reading any."""
        inspector = FileInspector(self._root)
        elsewhere = [path for path in self._paths.values() if not is_file_below(path)]
        marks = dict(zip(elsewhere, self._sources.marks(elsewhere), strict=True))
        looks = {
            name: _distant_look(path, marks[path], inspector)
            if path in marks
            else _look(self._root, path, inspector)
            for name, path in self._paths.items()
        }
        with self._lock:
            self._looks = looks
            faults = {name: look.fault for name, look in looks.items() if look.fault}
            self.generation += faults.keys() != self._faults.keys()
            self._faults = faults

    def kept(self) -> tuple[int, int]:
        """How many images are remembered, and how many of them the survey found, with a file of that size."""
        found = (
            (mark, look)
            for name, mark in self._marks.items()
            if (look := self._looks.get(name)) and not look.fault
        )
        return len(self._marks), sum(mark.size in (None, look.size) for mark, look in found)

    def adopt(self, *, progress: Callable[[int, int], None] | None = None) -> None:
        """Remember what the survey found; files that were hashed before and look different now are read again."""
        touched = []
        with self._lock:
            for name, look in self._looks.items():
                mark = self._marks.get(name)
                if mark is None or mark.sha256 is None:
                    self._remember(name, Mark(self._paths[name], look.size, look.modified, None))
                elif not look.fault and not self._is_current(name, mark, look):
                    touched.append(name)
        for done, name in enumerate(touched):
            if progress is not None:
                progress(done, len(touched))
            with suppress(RefusedAnswerError):  # gone since the survey; `sha256` has noted it
                self.sha256(name)

    def fault(self, image_id: str) -> str:
        """Why the file could not be read when it was last looked at, or ""."""
        return self._faults.get(image_id, "")

    def content(self, image_id: str) -> bytes:
        """The content of the image's file.

        Raises:
            RefusedAnswerError: no such image, or its file is missing, no file, or outside the folder.
            ImageError: it is there, and cannot be read.
        """
        self._found(image_id)
        return self._sources.read(self._paths[image_id])

    def _found(self, image_id: str) -> Look:
        path = self._paths.get(image_id)
        if path is None:
            raise RefusedAnswerError(f"there is no image {shorten(image_id)!r} in this image set")
        look = self._look_now(path)
        with self._lock:
            self.generation += bool(look.fault) != (image_id in self._faults)
            self._faults.pop(image_id, None)
            if look.fault:
                self._faults[image_id] = look.fault
                raise RefusedAnswerError(f"image {image_id!r} cannot be shown: {look.fault}")
        return look

    def _look_now(self, path: str) -> Look:
        inspector = FileInspector(self._root)
        if is_file_below(path):
            return _look(self._root, path, inspector)
        return _distant_look(path, self._sources.marks([path])[0], inspector)

    def sha256(self, image_id: str) -> str:
        """The hash of the image's content as it is now; a file that has not changed is not read again.

        Raises:
            RefusedAnswerError: as in `content`, or it cannot be read.
        """
        look = self._found(image_id)
        try:
            return self._sha256(image_id, look)
        except ImageError as error:
            raise RefusedAnswerError(f"image {image_id!r} cannot be shown: {error.detail}") from error

    def shows(self, image_id: str, sha256: str) -> bool:
        """Whether an image still has the content that somebody judged, as far as was noticed."""
        mark = self._marks.get(image_id)
        if mark is None or image_id not in self._paths or image_id in self._faults:
            return False
        if mark.sha256 == sha256:
            return True
        # Perhaps it changed since this process looked at it, and another process saw it as it is now.
        try:
            return self.sha256(image_id) == sha256
        except RefusedAnswerError:
            return False

    def unsaved(self) -> dict[str, Mark]:
        """What was learned since `saved` was told last."""
        with self._lock:
            return dict(self._unsaved)

    def saved(self, marks: Mapping[str, Mark]) -> None:
        """Say that these are stored."""
        with self._lock:
            for name, mark in marks.items():
                if self._unsaved.get(name) == mark:
                    del self._unsaved[name]

    def _sha256(self, image_id: str, look: Look) -> str:
        mark = self._marks.get(image_id)
        if not self._is_current(image_id, mark, look):
            mark = self._ask(image_id)
        if mark is not None and mark.sha256 is not None and self._is_current(image_id, mark, look):
            with self._lock:
                self._remember(image_id, mark)
            return mark.sha256
        digest = hashlib.sha256(self._sources.read(self._paths[image_id])).hexdigest()
        is_settled = look.modified is not None and time.time_ns() - look.modified > _SETTLING_NANOSECONDS
        modified = look.modified if is_settled else None
        with self._lock:
            self._remember(image_id, Mark(self._paths[image_id], look.size, modified, digest))
        return digest

    def _is_current(self, image_id: str, mark: Mark | None, look: Look) -> bool:
        if mark is None or mark.sha256 is None or mark.modified is None:
            return False
        return (mark.path, mark.size, mark.modified) == (self._paths[image_id], look.size, look.modified)

    def _remember(self, image_id: str, mark: Mark) -> None:
        former = self._marks.get(image_id)
        if former != mark:
            self.generation += former is not None and former.sha256 not in (None, mark.sha256)
            self._marks[image_id] = mark
            self._unsaved[image_id] = mark


def _look(root: Path, path: str, inspector: FileInspector) -> Look:
    fault = inspector.fault(path)
    if fault is None:
        try:
            status = os.stat(os.path.join(root, path))  # noqa: PTH116, PTH118 - 10,000 path objects would be slow
        except OSError as error:
            fault = error.strerror or str(error)
        else:
            return Look(status.st_size, status.st_mtime_ns)
    return Look(None, None, fault)


def _distant_look(path: str, mark: ContentMark | None, inspector: FileInspector) -> Look:
    """Of an image elsewhere, a number that its content mark becomes stands for the time of the last change."""
    fault = inspector.fault(path)
    if fault is not None or mark is None:
        return Look(None, None, fault or "image that is not there, or cannot be asked for")
    if mark.text is None:
        return Look(mark.size, None)
    return Look(mark.size, int.from_bytes(hashlib.sha256(mark.text.encode()).digest()[:6], "big"))


def changes(
    known: Mapping[str, DeskItem],
    present: Sequence[DeskItem],
    unknown: Sequence[str],
    *,
    history: History,
    marks: ImageMarks,
) -> Iterator[Change]:
    """Added, removed, missing and changed images, in that order.

    Args:
        known: everything the store knows.
        present: those of them that are in the image set.
        unknown: items in the image set that the store does not know.
        history: the entries.
        marks: the image files, just looked at.
    """
    answers, changed = _judged_images(history, marks)
    listed = {image_id for item in present for _, image_id in item.images}
    for item_id in unknown:
        yield Change(item_id, ChangeKind.ADDED, 0, "not in the store, which was opened only to be read")
    for item in present:
        if item.batch > 0:
            yield Change(item.item_id, ChangeKind.ADDED, 0, "added after the store was made; it comes at the end")
    there = {item.item_id for item in present}
    for item in known.values():
        if item.item_id not in there:
            count = answers[item.images[-1][1]]
            yield Change(item.item_id, ChangeKind.REMOVED, count, "no longer in the image set")
    for image_id in sorted(listed):
        if fault := marks.fault(image_id):
            yield Change(image_id, ChangeKind.MISSING, answers[image_id], fault)
        elif changed[image_id]:
            yield Change(
                image_id, ChangeKind.CHANGED, changed[image_id], "other content than the one that was judged"
            )


def _judged_images(history: History, marks: ImageMarks) -> tuple[Counter[str], Counter[str]]:
    """By image: how many answers that count rest on it, and how many of them on other content."""
    answers: Counter[str] = Counter()
    changed: Counter[str] = Counter()
    for annotator in history.annotators():
        for entry in history.counting(annotator):
            for image_id, sha256 in entry.seen.get("sha256", {}).items():
                answers[image_id] += 1
                changed[image_id] += not marks.shows(image_id, sha256)
    return answers, changed
