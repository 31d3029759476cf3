"""What request handlers are given: the store, the desk, and who is asking."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated

from fastapi import Depends, Request
from starlette.exceptions import HTTPException

from detector_bench.labelling import LabelStore
from detector_bench.labelling.web.desk import Desk, Person
from detector_bench.labelling.web.pictures import Pictures


def _store(request: Request) -> LabelStore:
    store: LabelStore = request.app.state.store
    return store


def _desk(request: Request) -> Desk:
    desk: Desk = request.app.state.desk
    return desk


def _pictures(request: Request) -> Pictures:
    pictures: Pictures = request.app.state.pictures
    return pictures


def _person(request: Request) -> Person | None:
    person: Person | None = request.state.person
    return person


def known_annotator(annotator: str, request: Request) -> str:
    """The name, if it is one of an annotator who labels here; else the answer is 404."""
    if annotator not in _desk(request).annotators:
        raise HTTPException(HTTPStatus.NOT_FOUND, f"Nobody called {annotator!r} labels at this desk.")
    return annotator


TheStore = Annotated[LabelStore, Depends(_store)]
TheDesk = Annotated[Desk, Depends(_desk)]
ThePictures = Annotated[Pictures, Depends(_pictures)]
ThePerson = Annotated[Person | None, Depends(_person)]
"""Who was let in; None where no token is asked for."""
AnnotatorName = Annotated[str, Depends(known_annotator)]
"""The annotator whose name stands in the address, and who labels here."""
