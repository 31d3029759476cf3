"""What annotators' pages ask and tell: the way in, tokens and pictures; items, answers and undo."""

from __future__ import annotations

import hashlib
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.exceptions import HTTPException

from detector_bench.labelling import AnswerConflictError, Item, LabelStore, RefusedAnswerError
from detector_bench.labelling.progress import NOT_ASKED
from detector_bench.labelling.web.desk import Desk, Person, page, page_of
from detector_bench.labelling.web.messages import (
    SentAnswer,
    SentAnswers,
    SentToken,
    SentUndo,
    item_view,
    progress_view,
)
from detector_bench.labelling.web.pictures import NARROWEST, WIDEST, PictureError, Pictures
from detector_bench.labelling.web.security import REVIEW_PAGES, SIGN_IN, error_body, keep_token
from detector_bench.labelling.web.wording import question_view, reason_views, wording_of


def _the_store(request: Request) -> LabelStore:
    store: LabelStore = request.app.state.store
    return store


def _the_desk(request: Request) -> Desk:
    desk: Desk = request.app.state.desk
    return desk


def _the_pictures(request: Request) -> Pictures:
    pictures: Pictures = request.app.state.pictures
    return pictures


def _the_person(request: Request) -> Person | None:
    person: Person | None = request.state.person
    return person


def known_annotator(annotator: str, request: Request) -> str:
    """The name, if it is one of an annotator who labels here; else the answer is 404."""
    if annotator not in _the_desk(request).annotators:
        raise HTTPException(HTTPStatus.NOT_FOUND, f"Nobody called {annotator!r} labels at this desk.")
    return annotator


TheStore = Annotated[LabelStore, Depends(_the_store)]
TheDesk = Annotated[Desk, Depends(_the_desk)]
ThePictures = Annotated[Pictures, Depends(_the_pictures)]
ThePerson = Annotated[Person | None, Depends(_the_person)]
"""Who was let in; None where no token is asked for."""
AnnotatorName = Annotated[str, Depends(known_annotator)]
"""The annotator whose name stands in the address, and who labels here."""


router = APIRouter()


@router.get("/")
def _start(desk: TheDesk, person: ThePerson) -> Response:
    if person is not None:
        return RedirectResponse(page_of(None if person.is_coordinator else person.name))
    if len(desk.annotators) == 1:
        return RedirectResponse(page_of(desk.annotators[0]))
    return HTMLResponse(page("home", words=desk.words))


@router.get("/api/desk")
def _desk(desk: TheDesk, store: TheStore, person: ThePerson) -> dict[str, Any]:
    names = desk.annotators if person is None else () if person.is_coordinator else (person.name,)
    may_review = person is None or person.is_coordinator
    return {
        "image_set": store.image_set.name,
        "annotators": [{"name": name, "page": page_of(name)} for name in names],
        "pages": [*map(page_of, names), *(REVIEW_PAGES if may_review else ())],
        "may_review": may_review,
    }


@router.post(SIGN_IN)
def _sign_in(desk: TheDesk, sent: SentToken) -> JSONResponse:
    person = None if desk.tokens is None else desk.tokens.person(sent.token)
    if desk.tokens is None or person is None:
        raise HTTPException(HTTPStatus.UNAUTHORIZED, "This token is not one of this desk's.")
    response = JSONResponse({"page": page_of(None if person.is_coordinator else person.name)})
    keep_token(response, name=desk.tokens.cookie, token=sent.token, secure=desk.address.startswith("https:"))
    return response


@router.get("/images/{image_id:path}")
def _image(
    image_id: str,
    request: Request,
    pictures: ThePictures,
    width: Annotated[int | None, Query(ge=NARROWEST, le=WIDEST)] = None,
) -> Response:
    known = request.headers.get("if-none-match", "")
    try:
        picture = pictures.picture(image_id, width=width, known_etags=known)
    except PictureError as error:
        body = error_body(str(error), reason=error.reason)
        return JSONResponse(body, status_code=HTTPStatus.UNPROCESSABLE_ENTITY)
    headers = {"ETag": picture.etag, "Cache-Control": "private, no-cache"}
    if picture.content is None:
        return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
    return Response(picture.content, media_type=picture.media_type, headers=headers)


MOST_ITEMS = 200
"""Items in one answer; the page asks for the next ones in time."""


@router.get("/label/{annotator}")
def _page(annotator: AnnotatorName, desk: TheDesk) -> HTMLResponse:
    return HTMLResponse(page("label", words=desk.words_for(annotator)))


@router.get("/api/{annotator}/session")
def _session(annotator: AnnotatorName, store: TheStore, desk: TheDesk, person: ThePerson) -> dict[str, Any]:
    task, words = store.settings.task, desk.words_for(annotator)
    order = {name: place for place, name in enumerate(words.own)}
    asked = sorted(store.questions, key=lambda question: order.get(question.name, len(order)))
    return {
        "annotator": annotator,
        "image_set": store.image_set.name,
        "store": hashlib.sha256(str(store.path.resolve()).encode()).hexdigest()[:16],
        "task": task.value,
        "questions": [question_view(one, task=task, words=words, offered_only=True) for one in asked],
        "reasons": reason_views(store.questions, words=words),
        "guidelines": desk.guideline_for(annotator),
        "language": words.language.language,
        "wording": store.keep_wording(wording_of(asked, task=task, words=words)),
        "grid": None if desk.grid is None else {"size": desk.grid.size, "proposed_by": desk.grid.proposed_by},
        "may_review": person is None,
        "progress": progress_view(store.progress(annotator)),
    }


@router.get("/api/{annotator}/items")
def _items(
    annotator: AnnotatorName,
    store: TheStore,
    desk: TheDesk,
    first: Annotated[int, Query(ge=0)] = 0,
    count: Annotated[int, Query(ge=1, le=MOST_ITEMS)] = 50,
) -> dict[str, Any]:
    found = store.items(annotator, first, count)
    views = [_item_view(item, desk) for item in found]
    return {"items": views, "progress": progress_view(store.progress(annotator))}


@router.post("/api/{annotator}/answers")
def _answers(annotator: AnnotatorName, store: TheStore, desk: TheDesk, sent: SentAnswers) -> dict[str, Any]:
    results = [_recorded(store, desk, annotator, answer) for answer in sent.answers]
    return {"results": results, "progress": progress_view(store.progress(annotator))}


@router.post("/api/{annotator}/undo")
def _undo(annotator: AnnotatorName, store: TheStore, desk: TheDesk, sent: SentUndo) -> dict[str, Any]:
    undone = store.undo(annotator, sent.undo_id, answer_id=sent.answer_id)
    item = None if undone.item is None else _item_view(undone.item, desk)
    return {"item": item, "progress": progress_view(undone.progress)}


def _item_view(item: Item, desk: Desk) -> dict[str, Any]:
    return item_view(item, proposed="" if desk.grid is None else desk.grid.proposal(item))


def _recorded(store: LabelStore, desk: Desk, annotator: str, sent: SentAnswer) -> dict[str, Any]:
    """Keep one answer of several: one that is refused keeps nobody from storing the others."""
    try:
        recorded = store.record(annotator, sent.record())
    except (RefusedAnswerError, AnswerConflictError) as error:
        return {"answer_id": sent.answer_id, "status": "refused", "message": str(error), "item": None}
    status = "repeated" if recorded.repeated else "saved"
    # What a page sends that was open before the desk's sample changed is kept; the page of now has no place for
    # it.
    item = None if recorded.item.position == NOT_ASKED else _item_view(recorded.item, desk)
    return {"answer_id": sent.answer_id, "status": status, "message": "", "item": item}
