"""The labelling page, and what it asks and tells: items, answers, undo."""

from __future__ import annotations

import hashlib
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query
from fastapi.responses import FileResponse

from detector_bench.labelling import AnswerConflictError, LabelStore, RefusedAnswerError
from detector_bench.labelling.web.messages import SentAnswer, SentAnswers, SentUndo, item_view, progress_view
from detector_bench.labelling.web.parts import AnnotatorName, TheDesk, ThePerson, TheStore, known_annotator
from detector_bench.labelling.web.static_files import STATIC
from detector_bench.labelling.web.wording import question_view, reason_views

MOST_ITEMS = 200
"""Items in one answer; the page asks for the next ones in time."""

router = APIRouter()


@router.get("/label/{annotator}", dependencies=[Depends(known_annotator)])
def _page() -> FileResponse:
    return FileResponse(STATIC / "label.html")


@router.get("/api/{annotator}/session")
def _session(annotator: AnnotatorName, store: TheStore, desk: TheDesk, person: ThePerson) -> dict[str, Any]:
    task = store.settings.task
    return {
        "annotator": annotator,
        "image_set": store.image_set.name,
        "store": hashlib.sha256(str(store.path.resolve()).encode()).hexdigest()[:16],
        "task": task.value,
        "questions": [question_view(question, task=task) for question in store.questions],
        "reasons": reason_views(store.questions),
        "guidelines": desk.guidelines,
        "may_review": person is None,
        "progress": progress_view(store.progress(annotator)),
    }


@router.get("/api/{annotator}/items")
def _items(
    annotator: AnnotatorName,
    store: TheStore,
    first: Annotated[int, Query(ge=0)] = 0,
    count: Annotated[int, Query(ge=1, le=MOST_ITEMS)] = 50,
) -> dict[str, Any]:
    found = store.items(annotator, first, count)
    return {"items": [item_view(item) for item in found], "progress": progress_view(store.progress(annotator))}


@router.post("/api/{annotator}/answers")
def _answers(annotator: AnnotatorName, store: TheStore, sent: SentAnswers) -> dict[str, Any]:
    results = [_recorded(store, annotator, answer) for answer in sent.answers]
    return {"results": results, "progress": progress_view(store.progress(annotator))}


@router.post("/api/{annotator}/undo")
def _undo(annotator: AnnotatorName, store: TheStore, sent: SentUndo) -> dict[str, Any]:
    undone = store.undo(annotator, sent.undo_id, answer_id=sent.answer_id)
    item = None if undone.item is None else item_view(undone.item)
    return {"item": item, "progress": progress_view(undone.progress)}


def _recorded(store: LabelStore, annotator: str, sent: SentAnswer) -> dict[str, Any]:
    """Keep one answer of several: one that is refused keeps nobody from storing the others."""
    try:
        recorded = store.record(annotator, sent.record())
    except (RefusedAnswerError, AnswerConflictError) as error:
        return {"answer_id": sent.answer_id, "status": "refused", "message": str(error), "item": None}
    status = "repeated" if recorded.repeated else "saved"
    return {"answer_id": sent.answer_id, "status": status, "message": "", "item": item_view(recorded.item)}
