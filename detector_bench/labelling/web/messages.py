"""What the labelling page sends and gets, as JSON: the store's records, checked on the way in."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any
from urllib.parse import quote

from pydantic import BaseModel, ConfigDict, Field

from detector_bench.labelling import Answer, Asking, Choice, Item, Progress

MOST_ANSWERS = 100
"""Answers in one request: what has gathered while the desk was away comes in several."""

_Id = Annotated[str, Field(min_length=1, max_length=200)]


class _Message(BaseModel):
    model_config = ConfigDict(extra="forbid")


class SentChoice(_Message):
    """An answer to one question; see `Choice`."""

    label: Annotated[str, Field(max_length=100)]
    reason: Annotated[str, Field(max_length=100)] = ""
    note: Annotated[str, Field(max_length=2000)] = ""
    value: float | None = None


class SentAsking(_Message):
    """How an answer was asked for; see `Asking`."""

    language: Annotated[str, Field(max_length=100)] = ""
    wording: Annotated[str, Field(max_length=100)] = ""
    proposed: Annotated[str, Field(max_length=100)] = ""
    proposed_by: Annotated[str, Field(max_length=100)] = ""


class SentAnswer(_Message):
    """An answer to an item; see `Answer`."""

    answer_id: _Id
    item_id: Annotated[str, Field(min_length=1, max_length=4000)]
    answers: Annotated[dict[str, SentChoice], Field(max_length=20)] = {}
    skipped: bool = False
    milliseconds: Annotated[int, Field(ge=0, lt=2**53)] | None = None
    asking: SentAsking = SentAsking()

    def record(self) -> Answer:
        """The same as the store's record."""
        choices = {name: Choice(**choice.model_dump()) for name, choice in self.answers.items()}
        asking = Asking(**self.asking.model_dump())
        return Answer(self.answer_id, self.item_id, choices, self.skipped, self.milliseconds, asking)


class SentAnswers(_Message):
    """What was answered since the last request, oldest first."""

    answers: Annotated[list[SentAnswer], Field(min_length=1, max_length=MOST_ANSWERS)]


class SentUndo(_Message):
    """An answer to take back."""

    undo_id: _Id
    answer_id: _Id | None = None


class SentToken(_Message):
    """A token out of a link."""

    token: Annotated[str, Field(max_length=200)]


def image_address(image_id: str) -> str:
    """Where the browser finds an image."""
    return f"/images/{quote(image_id, safe='')}"


def item_view(item: Item, *, proposed: str = "") -> dict[str, Any]:
    """An item with its pictures' addresses, and the label that is proposed in a grid; "": it is asked alone."""
    return {
        "item_id": item.item_id,
        "position": item.position,
        "pictures": [{"role": role, "src": image_address(image_id)} for role, image_id in item.images],
        "answer": None if item.answer is None else answer_view(item.answer),
        "in_calibration": item.in_calibration,
        "done": item.done,
        "image_changed": item.image_changed,
        "locked": item.locked,
        "problem": item.problem,
        "asked_again": item.asked_again,
        "proposed": proposed,
    }


def answer_view(answer: Answer) -> dict[str, Any]:
    """An annotator's own answer about an item, as the page gets it."""
    return {
        "answer_id": answer.answer_id,
        "answers": {name: asdict(choice) for name, choice in answer.answers.items()},
        "skipped": answer.skipped,
        "proposed": answer.asking.proposed,
    }


def progress_view(progress: Progress) -> dict[str, Any]:
    """How far an annotator is."""
    return asdict(progress)
