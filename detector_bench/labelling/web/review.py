"""The coordinator's pages: how far annotators agree, and what is decided where they do not; and the way out
for the labels.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from fastapi.responses import HTMLResponse, Response
from pydantic import BaseModel, ConfigDict, Field

from detector_bench.labelling import (
    AnswerConflictError,
    Choice,
    Decision,
    Disagreement,
    LabelStore,
    RefusedAnswerError,
)
from detector_bench.labelling.label_studio import label_studio_tasks
from detector_bench.labelling.labels_csv import labels_csv
from detector_bench.labelling.web.agreement_view import AgreementQuery, RecentLabels, agreement_view
from detector_bench.labelling.web.desk import Desk, page
from detector_bench.labelling.web.languages import Words
from detector_bench.labelling.web.messages import MOST_ANSWERS, SentChoice, SentUndo, image_address
from detector_bench.labelling.web.wording import label_texts, question_view, reason_views
from detector_bench.labelling.web.worth_view import worth_view
from detector_bench.labelling.worth import Worth, WorthSoFar
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

    def __init__(self, store: LabelStore, words: Words) -> None:
        self._store = store
        self._words = words
        images, prompts = store.image_set.images, store.image_set.prompts
        self._t2i_model = dict(zip(images["image_id"], images["t2i_model"], strict=True))
        category_of = dict(zip(prompts["prompt_id"], prompts["category"], strict=True))
        self._category = dict(zip(images["image_id"], images["prompt_id"].map(category_of), strict=True))
        task = store.settings.task
        self._texts = {one.name: label_texts(one, task=task, words=words) for one in store.questions}
        self._questions = []
        for question in store.questions:
            view = question_view(question, task=task, words=words)
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
            "reasons": reason_views(store.questions, words=self._words),
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
            "choices": self._choices(found.item_id, found.choices, with_names=with_names),
            "decision": None if found.decision is None else decision_view(found.decision),
        }

    def _choices(self, item_id: str, choices: Mapping[str, Choice], *, with_names: bool) -> list[dict[str, Any]]:
        names = list(choices)
        if with_names:
            return [{"name": name, **asdict(choices[name])} for name in names]
        dealt = sorted(names, key=lambda name: hashlib.sha256(f"{item_id}|{name}".encode()).digest())
        say = self._words.sentences.say
        return [
            {"name": say("Annotator {letter}", letter=chr(ord("A") + position)), **asdict(choices[name])}
            for position, name in enumerate(dealt)
        ]


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


def make_router(store: LabelStore, desk: Desk, worth: Worth | None = None) -> APIRouter:
    """Make the routes of both pages and of the exports; who may use them is the guard's business."""
    router = APIRouter()
    router.include_router(_agreement_router(store, desk, worth))
    router.include_router(_adjudication_router(store, desk))
    router.include_router(_export_router(store))
    return router


def _agreement_router(store: LabelStore, desk: Desk, worth: Worth | None) -> APIRouter:
    router = APIRouter()
    labels = RecentLabels(store)
    worth_so_far = None if worth is None else WorthSoFar(store, worth)

    @router.get("/agreement")
    def whole_page() -> HTMLResponse:
        return HTMLResponse(page("agreement", words=desk.words))

    @router.get("/api/agreement")
    def agreement(query: Annotated[AgreementQuery, Query()]) -> dict[str, Any]:
        view = agreement_view(store, labels, query, annotators=desk.annotators, words=desk.words)
        # Here and nowhere else: annotators who see the score that their labels make are led by it.
        shown = (
            None
            if worth_so_far is None
            else worth_view(worth_so_far.now(), attribute=view["question"], sentences=desk.words.sentences)
        )
        return {**view, "worth": shown}

    @router.post("/api/agreement/calibration")
    def calibration(sent: SentCalibration) -> dict[str, Any]:
        change = store.close_calibration if sent.discussed else store.reopen_calibration
        is_discussed = change(sent.event_id).discussed
        labels.forget()
        return {"discussed": is_discussed}

    return router


def _adjudication_router(store: LabelStore, desk: Desk) -> APIRouter:
    router = APIRouter()
    view = AdjudicationView(store, desk.words)

    @router.get("/adjudication")
    def whole_page() -> HTMLResponse:
        return HTMLResponse(page("adjudication", words=desk.words))

    @router.get("/api/adjudication")
    def disagreements(names: Annotated[Literal["shown", "hidden"], Query()] = "shown") -> dict[str, Any]:
        return view.everything(annotators=desk.annotators, with_names=names == "shown")

    @router.post("/api/adjudication/answers")
    def decide(sent: SentDecisions) -> dict[str, Any]:
        return {"results": [_decided(store, decision) for decision in sent.answers]}

    @router.post("/api/adjudication/undo")
    def undo(sent: SentUndo) -> dict[str, Any]:
        item_id = store.undo_adjudication(sent.undo_id, answer_id=sent.answer_id)
        return {"item": None if item_id is None else {"item_id": item_id}}

    return router


def _export_router(store: LabelStore) -> APIRouter:
    router = APIRouter(prefix="/export")

    @router.get("/labels.csv")
    def as_csv() -> Response:
        return _file(labels_csv(store), name="labels.csv", kind="text/csv; charset=utf-8")

    @router.get("/label-studio.json")
    def as_label_studio() -> Response:
        tasks = json.dumps(label_studio_tasks(store), ensure_ascii=False, indent=1)
        return _file(tasks, name="label-studio.json", kind="application/json")

    return router


def _file(text: str, *, name: str, kind: str) -> Response:
    """A file to be kept, not shown."""
    return Response(text, media_type=kind, headers={"Content-Disposition": f'attachment; filename="{name}"'})


def _decided(store: LabelStore, sent: SentDecision) -> dict[str, Any]:
    """Keep one decision of several: one that is refused keeps nobody from storing the others."""
    try:
        decision = store.adjudicate(
            sent.item_id,
            sent.question,
            sent.decided(),
            answer_id=sent.answer_id,
            milliseconds=sent.milliseconds,
        )
    except (RefusedAnswerError, AnswerConflictError) as error:
        return {"answer_id": sent.answer_id, "status": "refused", "message": str(error), "item": None}
    item = {"item_id": sent.item_id, "question": sent.question, "decision": decision_view(decision)}
    return {"answer_id": sent.answer_id, "status": "saved", "message": "", "item": item}
