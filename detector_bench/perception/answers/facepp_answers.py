"""What the Face++ Detect API says about each image: asked once, kept as it came, read by pure functions."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, Field, FiniteFloat, ValidationError, field_validator

from detector_bench.installation import require
from detector_bench.perception.answers.facepp_client import (
    KEY_VARIABLE,
    SECRET_VARIABLE,
    Credentials,
    FaceppClient,
    missing_credentials,
)
from detector_bench.perception.answers.ledger_index import Asked
from detector_bench.perception.answers.paid_ledger import PaidLedger
from detector_bench.perception.answers.prices import CallPrice
from detector_bench.perception.answers.service_addresses import is_on_this_machine, require_safe_address
from detector_bench.perception.answers.service_requests import RequestFailure
from detector_bench.perception.answers.service_settings import ImageFormat, ServiceSettings, encoded, image_form
from detector_bench.perception.boxes import boxes, largest
from detector_bench.perception.stage import (
    DESCRIPTIVE,
    Arrays,
    Frame,
    Stage,
    StageFailure,
    StageFunction,
    text_array,
    text_in,
)
from detector_bench.trust import Sending, refusals
from detector_bench.weights import WeightsLocator

SHORTEST_SIDE = 48
LONGEST_SIDE = 4096
MOST_BYTES = 1_990_000
"""The API's limit of 2 MB holds for the whole request; the rest is for its other fields."""


class FaceppFace(NamedTuple):
    """One face of an answer: its box in pixels of the image that was sent, its gender, and its age in years.

    Gender and age are None where the answer has none: the API describes at most five faces of an image.
    """

    corners: tuple[float, float, float, float]
    gender: Literal["male", "female"] | None
    years: float | None


class _Rectangle(BaseModel):
    left: FiniteFloat
    top: FiniteFloat
    width: FiniteFloat = Field(gt=0)
    height: FiniteFloat = Field(gt=0)


class _Gender(BaseModel):
    value: Literal["Male", "Female"]


class _Age(BaseModel):
    value: FiniteFloat = Field(ge=0)


class _Attributes(BaseModel):
    gender: _Gender | None = None
    age: _Age | None = None


class _Face(BaseModel):
    face_rectangle: _Rectangle
    attributes: _Attributes = _Attributes()


class _Answer(BaseModel):
    faces: list[_Face]


def read_faces(answer: str) -> list[FaceppFace]:
    """Read the faces of an answer, in its order.

    Args:
        answer: JSON text, as the Detect API v3 gives it.

    Raises:
        ValueError: it is not such an answer.
    """
    try:
        faces = _Answer.model_validate_json(answer).faces
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        problem = ValueError(f"{place + ': ' if place else ''}{first['msg']}")
    else:
        return [_face(found.face_rectangle, found.attributes) for found in faces]
    raise problem


def _face(box: _Rectangle, attributes: _Attributes) -> FaceppFace:
    gender: Literal["male", "female"] | None = None
    if attributes.gender is not None:
        gender = "male" if attributes.gender.value == "Male" else "female"
    return FaceppFace(
        corners=(box.left, box.top, box.left + box.width, box.top + box.height),
        gender=gender,
        years=None if attributes.age is None else attributes.age.value,
    )


def answer_text(result: Arrays) -> str:
    """The answer in a result of `FaceppAnswers`, as the API gave it."""
    return text_in(result["answer"])


class FaceppAnswers(ServiceSettings, Stage):
    """The answer of the Face++ Detect API v3 (Megvii, https://console.faceplusplus.com/documents/5679127).

    Gives `answer`, the JSON text in UTF-8 as uint8 of shape (bytes,), and the face boxes in it as every box stage
    does (see `boxes`), in pixels of the decoded image. The API gives no confidence: all scores are 1.

    The image is sent as PNG or JPEG made from the decoded pixels; one that is over the documented limits (4096
    pixels a side, 2 MB a request) is shrunk. Below 48 pixels a side the API takes none: reason `too_small`, and
    nothing is asked. Only an answer that says gender and age of the largest face, or finds none, is a result;
    everything else is a failure, which is not kept and is tried again when a run is repeated.

    Key and secret come from the environment (`FACEPP_API_KEY`, `FACEPP_API_SECRET`) and go nowhere but into the
    requests. Declarations that differ only in pace are equal: they share answers that are paid for.
    """

    kind: ClassVar[str] = "facepp_answers"
    extra: ClassVar[str | None] = "facepp"
    modules: ClassVar[tuple[str, ...]] = ("tenacity",)
    images_per_call: ClassVar[int | None] = 1
    device_taken: ClassVar[str] = "a service"

    endpoint: str = "https://api-us.faceplusplus.com/facepp/v3/detect"
    """Address of the Detect API; api-cn instead of api-us for accounts of the Chinese console."""
    image_format: ImageFormat = "jpeg"
    """PNG is exact, and leaves more images to be shrunk below 2 MB."""
    requests_per_second: float = Field(default=1.0, gt=0, json_schema_extra=DESCRIPTIVE)
    """The most requests that are sent in a second; what the key has paid for."""
    timeout: float = Field(default=30.0, gt=0, json_schema_extra=DESCRIPTIVE)
    """Seconds without a sign of life after which an attempt is given up."""

    deadline: float = Field(default=120.0, gt=0, json_schema_extra=DESCRIPTIVE)
    """Seconds after which an attempt is given up, also if a byte comes now and then."""
    prices: CallPrice | None = Field(default=None, json_schema_extra=DESCRIPTIVE)
    """What an answer costs, as `{call: 0.0005, currency: USD}`, so that a run can say what it cost."""

    @property
    def costs_money(self) -> bool:
        """Whether answers may cost money: elsewhere always, on this machine where it has prices."""
        return self.prices is not None or not is_on_this_machine(self.endpoint)

    def lacks_for_budget(self) -> str | None:
        """What has to be set before a budget can hold; None: nothing."""
        missing = self.costs_money and self.prices is None
        return "has no `prices`: {call: ...}, what an answer costs" if missing else None

    @field_validator("endpoint")
    @classmethod
    def _carries_no_secret(cls, endpoint: str) -> str:
        require_safe_address(endpoint)
        return endpoint

    def sends(self) -> Sending:
        """To the Detect API, with key and secret."""
        form = f"the image as {image_form(self)}, at most {LONGEST_SIDE} pixels a side"
        return Sending(self.endpoint, (KEY_VARIABLE, SECRET_VARIABLE), form)

    def missing_settings(self) -> tuple[str, ...]:
        """Key and secret, where they are not set, and the user's permission to send them to another host."""
        return missing_credentials() or refusals(self.sends())

    def load(self, weights: WeightsLocator) -> StageFunction:  # noqa: ARG002
        """Read key and secret and open a connection; see `Stage.load`."""
        require("tenacity", extra=self.extra)
        client = FaceppClient(self.endpoint, Credentials.from_environment(self.endpoint), pace=self.pace)
        return FaceppQuestions(self, client)

    def sendable(self, pixels: NDArray[np.uint8]) -> tuple[bytes, tuple[float, float]] | None:
        """Encode an image within the API's limits.

        Returns:
            The file's content, and the factors from its pixels to those of the image, across and down; None if a
            side would be below 48 pixels.
        """
        height, width = pixels.shape[:2]
        shrink = min(1.0, LONGEST_SIDE / max(height, width))
        while True:
            size = (round(width * shrink), round(height * shrink))
            if min(size) < SHORTEST_SIDE:
                return None
            content = encoded(pixels, image_format=self.image_format, jpeg_quality=self.jpeg_quality, size=size)
            if len(content) <= MOST_BYTES:
                return content, (width / size[0], height / size[1])
            # Bytes grow about with the area; a little more than that, so that few attempts are needed.
            shrink *= 0.97 * (MOST_BYTES / len(content)) ** 0.5


class FaceppQuestions:
    """A loaded `FaceppAnswers`. What stands in the ledger is not asked for again.

    Args:
        stage: what is asked, and where.
        client: the connection.
    """

    def __init__(self, stage: FaceppAnswers, client: FaceppClient) -> None:
        self._stage = stage
        self._client = client
        self.take_ledger(PaidLedger(None), stage=stage.kind, fingerprint="")

    def take_ledger(self, ledger: PaidLedger, *, stage: str, fingerprint: str) -> None:
        """See `TakesLedger`."""
        self._ledger = ledger.of_stage(
            stage=stage,
            fingerprint=fingerprint,
            service=self._stage.endpoint,
            model=None,
            prices=self._stage.prices,
            may_cost=self._stage.costs_money,
            counts_tokens=False,
        )

    def __call__(self, frames: Sequence[Frame]) -> list[Arrays | StageFailure]:
        """See `StageFunction`."""
        return [self._ask(frame) for frame in frames]

    def _price(self) -> float | None:
        return None if self._stage.prices is None else self._stage.prices.call

    def _ask(self, frame: Frame) -> Arrays | StageFailure:
        stage, sent = self._stage, self._stage.sendable(frame.pixels)
        height, width = frame.pixels.shape[:2]
        if sent is None:
            return StageFailure("too_small", f"{width} x {height}; the API takes {SHORTEST_SIDE} pixels a side")
        image, scale = sent
        size = (round(width / scale[0]), round(height / scale[1]))
        asked = Asked(hashlib.sha256(image).hexdigest(), frame.sha256, size)
        known = self._ledger.answer(asked)
        try:
            answer = (
                known.text
                if known is not None
                else self._client.detect(
                    image,
                    media_type=f"image/{stage.image_format}",
                    require_complete=lambda text: _result(text, scale=scale),
                    entry=self._ledger.entry(asked, worst=self._price),
                )
            )
            return _result(answer, scale=scale)
        except RequestFailure as failure:
            return StageFailure("api_failed", str(failure))
        except ValueError as error:
            return StageFailure("invalid_answer", str(error))


def _result(answer: str, *, scale: Sequence[float]) -> Arrays:
    """The arrays of a complete answer.

    Raises:
        ValueError: it is no answer, or it leaves gender or age of the largest face out.
    """
    faces = read_faces(answer)
    corners = np.array([face.corners for face in faces], dtype=np.float64).reshape(-1, 4) * (*scale, *scale)
    found = boxes(corners, np.ones(len(faces)))
    judged = largest(found)
    if judged is not None and (faces[judged].gender is None or faces[judged].years is None):
        raise ValueError("the answer leaves gender or age of the largest face out")
    return {"answer": text_array(answer), **found}
