"""What the adjudication page is sent and sends: disagreements, and what was decided about them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from detector_bench.labelling import Choice, Decision, Disagreement, LabelStore
from detector_bench.labelling.web.messages import MOST_ANSWERS, SentChoice, image_address
from detector_bench.labelling.web.wording import label_texts, question_view, reason_views
from detector_bench.vocabulary import ATTRIBUTES, LOW_QUALITY, OTHERS

_DIGITS = 9

_Id = Annotated[str, Field(min_length=1, max_length=100)]


class SentDecision(BaseModel):
    """What was decided about one question of one item; without a choice it stays unresolved."""

    model_config = ConfigDict(extra="forbid")

    answer_id: _Id
    item_id: Annotated[str, Field(min_length=1, max_length=4000)]
    question: Annotated[str, Field(max_length=100)]
    choice: SentChoice | None
    milliseconds: Annotated[int, Field(ge=0, lt=2**53)] | None = None

    def decided(self) -> Choice | None:
        """The same as the store's record."""
        return None if self.choice is None else Choice(**self.choice.model_dump())


class SentDecisions(BaseModel):
    """What was decided since the last request, oldest first."""

    model_config = ConfigDict(extra="forbid")

    answers: Annotated[list[SentDecision], Field(min_length=1, max_length=MOST_ANSWERS)]


class SentCalibration(BaseModel):
    """Whether the calibration round was discussed; false opens it again."""

    model_config = ConfigDict(extra="forbid")

    event_id: _Id
    discussed: bool


class AdjudicationView:
    """Everything that the page shows. It depends on the image set as it was when the store was opened."""

    def __init__(self, store: LabelStore) -> None:
        self._store = store
        images, prompts = store.image_set.images, store.image_set.prompts
        self._t2i_model = dict(zip(images["image_id"], images["t2i_model"], strict=True))
        category_of = dict(zip(prompts["prompt_id"], prompts["category"], strict=True))
        self._category = dict(zip(images["image_id"], images["prompt_id"].map(category_of), strict=True))
        task = store.settings.task
        self._texts = {question.name: label_texts(question, task=task) for question in store.questions}
        self._questions = []
        for question in store.questions:
            view = question_view(question, task=task)
            colours = {choice["label"]: choice["colour"] for choice in view["choices"]}
            choices = [
                {"label": label, "text": text, "key": _key(label, number), "colour": colours.get(label, "")}
                for number, (label, text) in enumerate(self._texts[question.name].items(), start=1)
            ]
            kind = ATTRIBUTES.get(question.name)
            unit = "" if kind is None or kind.unit is None else kind.unit.name
            self._questions.append({**view, "choices": choices, "unit": unit})

    def everything(self, *, annotators: Sequence[str], with_names: bool) -> dict[str, Any]:
        """All disagreements, in the image set's order, with the words that belong to them.

        Args:
            annotators: who labels at this desk.
            with_names: say whose label is whose; otherwise annotators are letters, dealt anew for each item.
        """
        store = self._store
        progress = [store.progress(name) for name in annotators]
        return {
            "image_set": store.image_set.name,
            "store": hashlib.sha256(str(store.path.resolve()).encode()).hexdigest()[:16],
            "task": store.settings.task.value,
            "questions": self._questions,
            "reasons": reason_views(store.questions),
            "with_names": with_names,
            "items_left": [one.total - one.done for one in progress],
            "calibration_total": progress[0].calibration_total,
            "disagreements": [
                {
                    **self._disagreement(one, with_names=with_names),
                    "in_calibration": store.item(annotators[0], one.item_id).in_calibration,
                }
                for one in store.disagreements()
            ],
        }

    def _disagreement(self, found: Disagreement, *, with_names: bool) -> dict[str, Any]:
        texts = self._texts[found.question]
        given = {choice.label for choice in found.choices.values()}
        kind = [label for label in texts if label in given]
        return {
            "item_id": found.item_id,
            "question": found.question,
            "pictures": [{"role": role, "src": image_address(image_id)} for role, image_id in found.images],
            "t2i_model": self._t2i_model[found.item_id],
            "category": self._category[found.item_id],
            "kind": " / ".join(texts[label] for label in kind),
            "choices": _choices(found.item_id, found.choices, with_names=with_names),
            "decision": None if found.decision is None else decision_view(found.decision),
        }


def decision_view(decision: Decision) -> dict[str, Any]:
    """A decision; `choice` is None where it was left unresolved."""
    return {
        "choice": None if decision.choice is None else asdict(decision.choice),
        "outdated": decision.outdated,
    }


def _key(label: str, number: int) -> str:
    """The key of an answer: its number, as far as there are digits."""
    if number <= _DIGITS:
        return str(number)
    return {LOW_QUALITY: "l", OTHERS: "o"}.get(label, str(number % 10))


def _choices(item_id: str, choices: Mapping[str, Choice], *, with_names: bool) -> list[dict[str, Any]]:
    names = list(choices)
    if with_names:
        return [{"name": name, **asdict(choices[name])} for name in names]
    dealt = sorted(names, key=lambda name: hashlib.sha256(f"{item_id}|{name}".encode()).digest())
    return [
        {"name": f"Annotator {chr(ord('A') + position)}", **asdict(choices[name])}
        for position, name in enumerate(dealt)
    ]
