"""How an image set differs from what the labelling store knows of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from detector_bench.labelling.history import History
from detector_bench.labelling.image_marks import ImageMarks
from detector_bench.labelling.items import DeskItem
from detector_bench.labelling.records import Change, ChangeKind


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
