"""The coordinator's pages: how far annotators agree, and what is decided where they do not; and the way out
for the labels."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from fastapi.responses import FileResponse, Response

from detector_bench.labelling import AnswerConflictError, LabelStore, RefusedAnswerError
from detector_bench.labelling.exchange.label_studio import label_studio_tasks
from detector_bench.labelling.exchange.labels_csv import labels_csv
from detector_bench.labelling.web.adjudication_view import (
    AdjudicationView,
    SentCalibration,
    SentDecision,
    SentDecisions,
    decision_view,
)
from detector_bench.labelling.web.agreement_view import AgreementQuery, RecentLabels, agreement_view
from detector_bench.labelling.web.desk import Desk
from detector_bench.labelling.web.messages import SentUndo
from detector_bench.labelling.web.static_files import STATIC


def make_router(store: LabelStore, desk: Desk) -> APIRouter:
    """Make the routes of both pages and of the exports; who may use them is the guard's business."""
    router = APIRouter()
    router.include_router(_agreement_router(store, desk))
    router.include_router(_adjudication_router(store, desk))
    router.include_router(_export_router(store))
    return router


def _agreement_router(store: LabelStore, desk: Desk) -> APIRouter:
    router = APIRouter()
    labels = RecentLabels(store)

    @router.get("/agreement")
    def page() -> FileResponse:
        return FileResponse(STATIC / "agreement.html")

    @router.get("/api/agreement")
    def agreement(query: Annotated[AgreementQuery, Query()]) -> dict[str, Any]:
        return agreement_view(store, labels, query, annotators=desk.annotators)

    @router.post("/api/agreement/calibration")
    def calibration(sent: SentCalibration) -> dict[str, Any]:
        change = store.close_calibration if sent.discussed else store.reopen_calibration
        is_discussed = change(sent.event_id).discussed
        labels.forget()
        return {"discussed": is_discussed}

    return router


def _adjudication_router(store: LabelStore, desk: Desk) -> APIRouter:
    router = APIRouter()
    view = AdjudicationView(store)

    @router.get("/adjudication")
    def page() -> FileResponse:
        return FileResponse(STATIC / "adjudication.html")

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
