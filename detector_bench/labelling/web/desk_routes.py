"""The way in: the first page, tokens, and the pictures."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import FileResponse, JSONResponse, RedirectResponse, Response
from starlette.exceptions import HTTPException

from detector_bench.labelling.web.desk import page_of
from detector_bench.labelling.web.messages import SentToken
from detector_bench.labelling.web.parts import TheDesk, ThePerson, ThePictures, TheStore
from detector_bench.labelling.web.pictures import NARROWEST, WIDEST, PictureError
from detector_bench.labelling.web.security import REVIEW_PAGES, SIGN_IN, error_body, keep_token
from detector_bench.labelling.web.static_files import STATIC

router = APIRouter()


@router.get("/")
def _start(desk: TheDesk, person: ThePerson) -> Response:
    if person is not None:
        return RedirectResponse(page_of(None if person.is_coordinator else person.name))
    if len(desk.annotators) == 1:
        return RedirectResponse(page_of(desk.annotators[0]))
    return FileResponse(STATIC / "home.html")


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
