"""What goes into the labelling store and what comes out: plain, immutable records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from detector_bench.errors import DetectorBenchError


class RefusedAnswerError(DetectorBenchError):
    """An answer that cannot be kept: an unknown item, label or reason, or text that cannot be stored."""


class AnswerConflictError(DetectorBenchError):
    """An answer that contradicts what is stored: an id used for other content, or a closed calibration round."""


class StoreError(DetectorBenchError):
    """The store's file cannot be used: read-only, damaged, of another version or of another image set."""


@dataclass(frozen=True, slots=True)
class Choice:
    """One person's answer to one question.

    Attributes:
        label: one of the question's labels.
        reason: why it is `low_quality`, one of `LOW_QUALITY_REASONS` or ""; always "" with other labels.
        note: free text; for `others` it becomes the reason in `labels.csv`.
        value: a number beside a class, such as an age in years.
    """

    label: str
    reason: str = ""
    note: str = ""
    value: float | None = None


@dataclass(frozen=True, slots=True)
class Asking:
    """How an answer was asked for.

    Attributes:
        language: of the page, such as "de"; "": not known.
        wording: the id under which the log keeps the question's words (`LabelStore.keep_wording`); "": not known.
        proposed: the label that stood below the picture on a page of many, to be confirmed or changed; "": the
            picture was judged alone, and nothing was proposed.
        proposed_by: who proposed it: a detector, or "most of" several.
    """

    language: str = ""
    wording: str = ""
    proposed: str = ""
    proposed_by: str = ""

    @property
    def in_grid(self) -> bool:
        """Whether the label was confirmed, or changed, on a page of many pictures with proposed labels."""
        return self.proposed != ""


NOT_KNOWN = Asking()
"""Of answers that came from a file, or were given before it was kept how they were asked for."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a client sends at a key press.

    Attributes:
        answer_id: made by the client, unique (a UUID): sending it again changes nothing.
        item_id: what was judged.
        answers: by question; it replaces the annotator's former answer to the item. Questions may be missing: the
            item is done when all are answered.
        skipped: put off; then `answers` is empty.
        milliseconds: from seeing the item to the key press; None if not measured.
        asking: how it was asked for.
    """

    answer_id: str
    item_id: str
    answers: Mapping[str, Choice] = field(default_factory=dict)
    skipped: bool = False
    milliseconds: int | None = None
    asking: Asking = NOT_KNOWN


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    """An answer that counts: the newest of an annotator for an item that was not undone.

    Attributes:
        answer: as it was sent.
        annotator: whose it is.
        sequence: its place in the log; later ones are larger.
        recorded_at: time in UTC, ISO 8601.
        image_changed: whether an image of the item has other content now, or is gone.
    """

    answer: Answer
    annotator: str
    sequence: int
    recorded_at: str
    image_changed: bool


@dataclass(frozen=True, slots=True)
class Item:
    """Something to judge, in an annotator's own order.

    Attributes:
        item_id: the image's id; of a pair, the edited image's id.
        position: 0 is the first; -1: it is not asked of this annotator.
        images: (role, image_id): role `image`, or `seed` and `edited`.
        answer: this annotator's own newest answer or skip; None if there is none.
        in_calibration: whether it belongs to the calibration round.
        done: all questions are answered, on the images as they are now.
        image_changed: the answer was given on other content: the item is to be judged again.
        locked: the calibration round was discussed and closed, so this answer cannot change.
        problem: why an image of it cannot be shown; "" if nothing is known to be wrong.
        asked_again: it was sent back after this answer, which counts until there is another one.
    """

    item_id: str
    position: int
    images: tuple[tuple[str, str], ...]
    answer: Answer | None
    in_calibration: bool
    done: bool
    image_changed: bool
    locked: bool
    problem: str = ""
    asked_again: bool = False


@dataclass(frozen=True, slots=True)
class Progress:
    """How far an annotator is.

    Attributes:
        total: items to judge.
        done: items with all questions answered.
        skipped: items put off, not done.
        calibration_total: items of the calibration round.
        calibration_done: those of them that are done.
        calibration_discussed: whether the calibration round was discussed and closed.
        seconds_per_image: median time per item of the last 50 measured ones; None without any.
        next_position: the first item that is neither done nor skipped, else the first skipped one, else None.
        changed: items that were done, but whose images have changed since; they count as not done.
        again: items that were done and sent back since; they count as not done.
    """

    total: int
    done: int
    skipped: int
    calibration_total: int
    calibration_done: int
    calibration_discussed: bool
    seconds_per_image: float | None
    next_position: int | None
    changed: int = 0
    again: int = 0


@dataclass(frozen=True, slots=True)
class Recorded:
    """What became of an answer.

    Attributes:
        item: the item with its answer as it is stored now, which may be a later one than the answer sent.
        repeated: the same answer had been stored before; nothing changed.
        progress: of the annotator, after it.
    """

    item: Item
    repeated: bool
    progress: Progress


@dataclass(frozen=True, slots=True)
class Undone:
    """What became of an undo.

    Attributes:
        item: the item whose answer was taken back, with the one that counts now; None: nothing was left to undo.
        repeated: the same undo had been stored before; nothing changed.
        progress: of the annotator, after it.
    """

    item: Item | None
    repeated: bool
    progress: Progress


@dataclass(frozen=True, slots=True)
class Decision:
    """What was decided about a disagreement.

    Attributes:
        choice: the adjudicated answer; None: left unresolved, which the consensus rule calls `low_quality`.
        outdated: an annotator's label has changed since it was decided.
        sequence: its place in the log.
        recorded_at: time in UTC, ISO 8601.
    """

    choice: Choice | None
    outdated: bool
    sequence: int
    recorded_at: str


@dataclass(frozen=True, slots=True)
class Disagreement:
    """A question about an item to which annotators gave different labels. Not for annotators who still label.

    Attributes:
        item_id: what was judged.
        images: (role, image_id), as in `Item`.
        question: name of the question.
        choices: by annotator, in alphabetical order.
        decision: None as long as nothing was decided.
    """

    item_id: str
    images: tuple[tuple[str, str], ...]
    question: str
    choices: Mapping[str, Choice]
    decision: Decision | None


@dataclass(frozen=True, slots=True)
class SentBack:
    """What became of a request to label items again.

    Attributes:
        asked: items that are asked again from now on.
        waiting: items that had been sent back before, and wait for an answer still.
        unlabelled: items that nobody who was asked has labelled: they are in the queues as it is.
    """

    asked: int
    waiting: int
    unlabelled: int


class ChangeKind(StrEnum):
    """How an image differs from what the store knows of it."""

    ADDED = "added"
    """New since the store was made; it comes at the end of everybody's order."""
    REMOVED = "removed"
    """No longer in the image set; its answers are kept."""
    MISSING = "missing"
    """Listed in the image set, but the file cannot be read."""
    CHANGED = "changed"
    """Other content than the one that an answer was given on."""


@dataclass(frozen=True, slots=True)
class Change:
    """A difference between the image set and what the store knows of it.

    Attributes:
        image_id: which image.
        kind: what happened.
        answers: how many answers that count rest on former content, or on an image that is gone.
        detail: in words.
    """

    image_id: str
    kind: ChangeKind
    answers: int
    detail: str


@dataclass(frozen=True, slots=True)
class Calibration:
    """The calibration round.

    Attributes:
        total: its items.
        done: by annotator, how many of them are done.
        discussed: closed after discussion: answers to its items cannot change until it is reopened.
    """

    total: int
    done: Mapping[str, int]
    discussed: bool
