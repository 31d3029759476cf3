"""Asks a server that speaks OpenAI's Images API, once for every image, and says what became of it."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from detector_bench.dataset.decoding import ImageError, image_format, read_image_file
from detector_bench.errors import DetectorBenchError
from detector_bench.generation.fetched_images import FetchedImages, NotFetchedError
from detector_bench.generation.image_prices import ImageTokenPrices
from detector_bench.generation.image_replies import (
    MOST_IMAGE_BYTES,
    MOST_REPLY_BYTES,
    ImageReply,
    read_image_reply,
    refusal_in,
)
from detector_bench.generation.image_requests import Blocked, Failed, ImageRequest, Made, Outcome, SeedPhoto
from detector_bench.generation.t2i_models import ModelRecord
from detector_bench.perception.answers.openai_servers import (
    Complaint,
    HopelessAnswers,
    asks_for_patience,
    complaint_in,
    key_shown,
)
from detector_bench.perception.answers.service_addresses import Secrets
from detector_bench.perception.answers.service_requests import Pace, PacedRequests, RequestFailure, ServiceGone

if TYPE_CHECKING:
    import httpx

_KEPT = "what was made before is kept: mend it and run the same command again"
_GATEWAY_LOST_IT = frozenset({HTTPStatus.BAD_GATEWAY, HTTPStatus.GATEWAY_TIMEOUT})
_OF_ONE_REQUEST = frozenset({"prompt", "image", "image[]", "mask", "seed"})
_LONGEST_IDLE = 4.0
"""Seconds: servers close idle connections after five or more, and one that is closed while a request sets out
would leave in doubt whether that was paid for."""
_MOST_PHOTO_BYTES = 50 * 1024**2
_MEDIA_TYPES = {"PNG": "image/png", "JPEG": "image/jpeg", "WEBP": "image/webp"}


@dataclass(frozen=True)
class ImageEndpoint:
    """Where and how images are asked for.

    Attributes:
        base_url: the address up to `/v1`.
        model: its name there.
        edits: whether photos are edited.
        key: sent as a bearer token; None sends none. It does not show when this is printed.
        key_variable: where the key came from, for messages.
        pace: how often and how patiently to ask.
        at_once: requests on the way at the same time.
        costs_money: whether a request may be charged for; then none is sent twice in doubt.
        price: of an image; None: not known, or charged by tokens.
        prices: of tokens.
        seed_name: the field of the body that holds the seed; None: it is not sent.
        body: the fields of a request, all but the photo.
    """

    base_url: str
    model: str
    edits: bool
    key: str | None = field(repr=False)
    key_variable: str | None
    pace: Pace
    at_once: int
    costs_money: bool
    price: float | None
    prices: ImageTokenPrices | None
    seed_name: str | None
    body: Callable[[ImageRequest], dict[str, Any]]


class LoadedOpenAIImages:
    """A connection to one server; several threads may share it."""

    def __init__(self, endpoint: ImageEndpoint) -> None:
        import httpx  # every recipe reads this module, and not each asks a service

        self._endpoint = endpoint
        self._authorization = {} if endpoint.key is None else {"Authorization": f"Bearer {endpoint.key}"}
        self._secrets = Secrets(() if endpoint.key is None else (endpoint.key,))
        self._run = uuid4().hex
        self._requests = PacedRequests(
            f"{endpoint.base_url}/images/{'edits' if endpoint.edits else 'generations'}",
            pace=endpoint.pace,
            secrets=self._secrets,
            most_bytes=MOST_REPLY_BYTES,
            again_in_doubt=not endpoint.costs_money,
            limits=httpx.Limits(
                max_connections=endpoint.at_once,
                max_keepalive_connections=endpoint.at_once,
                keepalive_expiry=_LONGEST_IDLE,
            ),
        )
        self._hopeless = HopelessAnswers(
            endpoint.base_url,
            key_shown(endpoint.key, endpoint.key_variable),
            "images API",
            _KEPT,
            self._requests.shown,
        )
        self._files = FetchedImages(endpoint.base_url, pace=endpoint.pace)

    @property
    def record(self) -> ModelRecord:
        """The model's name there, and the address; services say no more."""
        return ModelRecord(model=self._endpoint.model, device=self._endpoint.base_url)

    def make(self, requests: Sequence[ImageRequest]) -> Sequence[Outcome]:
        """One outcome for each request; see `LoadedT2IModel.make`.

        Raises:
            DetectorBenchError: no request would go better.
        """
        return [self._make_one(request) for request in requests]

    def close(self) -> None:
        """Close all connections."""
        self._requests.close()
        self._files.close()

    def _make_one(self, request: ImageRequest) -> Outcome:
        began = time.monotonic()
        try:
            reply = self._requests.ask(self._reply_in, **self._sent(request))
            content = self._content_of(reply)
        except ServiceGone as gone:
            reason = f"{self._endpoint.base_url}: {gone}; {_KEPT}"
        except _PaidFailure as failure:
            return self._failed(str(failure), began, paid=True, reply=failure.reply)
        except RequestFailure as failure:
            return self._failed(str(failure), began, paid=failure.perhaps_paid)
        else:
            return self._outcome(reply, content, time.monotonic() - began)
        # Behind the handler, so that no traceback leads to frames that hold the key.
        raise DetectorBenchError(reason)

    def _sent(self, request: ImageRequest) -> dict[str, Any]:
        """What `httpx` takes."""
        body = self._endpoint.body(request)
        # One for all attempts at this image, and another in the next run, which wants another image.
        told = json.dumps([self._run, request.image_id, body], sort_keys=True)
        headers = {**self._authorization, "Idempotency-Key": hashlib.sha256(told.encode()).hexdigest()}
        if not self._endpoint.edits:
            return {"json": body, "headers": headers}
        if request.seed_photo is None:
            raise RequestFailure("there is no photo to edit")
        fields = {name: _form_text(value) for name, value in body.items()}
        return {"data": fields, "files": {"image": _photo(request.seed_photo)}, "headers": headers}

    def _reply_in(self, response: httpx.Response) -> ImageReply:
        status = response.status_code
        if status == HTTPStatus.OK:
            try:
                return read_image_reply(response.content)
            except ValueError as error:
                reason = self._requests.shown(str(error))
            raise RequestFailure(reason, perhaps_paid=True)
        complaint = complaint_in(response)
        reason = self._requests.shown(f"{complaint.message} (HTTP {status})")
        code = refusal_in(complaint) if response.is_client_error else None
        if code is not None:
            return ImageReply(refusal=f"{code}: {reason}")
        self._hopeless.end(response, complaint, reason)
        if self._concerns_all(complaint):
            raise DetectorBenchError(f"{self._endpoint.base_url} does not take such requests: {reason}; {_KEPT}")
        if asks_for_patience(status) or (response.is_server_error and self._nothing_came_of(status, complaint)):
            raise self._requests.busy(response, reason)
        raise RequestFailure(reason, perhaps_paid=not response.is_client_error)

    def _concerns_all(self, complaint: Complaint) -> bool:
        """Whether a complaint is about a field that all requests have with the same value."""
        return complaint.field is not None and complaint.field not in _OF_ONE_REQUEST

    def _nothing_came_of(self, status: int, complaint: Complaint) -> bool:
        """Whether a server's error may be asked about again: it was too busy to begin, or says itself that it
        failed; a gateway that lost its server does not know what that went on to do."""
        if not self._endpoint.costs_money or status == HTTPStatus.SERVICE_UNAVAILABLE:
            return True
        return complaint.in_form and status not in _GATEWAY_LOST_IT

    def _content_of(self, reply: ImageReply) -> bytes:
        """The image of a reply; empty: it has none."""
        if reply.refusal is not None:
            return b""
        content = reply.content
        if content is None:
            try:
                content = self._files.fetch(reply.url or "")
            except NotFetchedError as error:
                raise _PaidFailure(self._requests.shown(str(error)), reply) from None
        if len(content) > MOST_IMAGE_BYTES:
            raise _PaidFailure(f"an image of {len(content):,} bytes; the limit is {MOST_IMAGE_BYTES:,}", reply)
        return content

    def _outcome(self, reply: ImageReply, content: bytes, seconds: float) -> Outcome:
        revised = None if reply.revised_prompt is None else self._secrets.hidden_in(reply.revised_prompt)
        if reply.refusal is not None:
            cost = self._cost_of_tokens(reply)
            return Blocked(
                reason=self._requests.shown(reply.refusal), seconds=seconds, revised_prompt=revised, cost=cost
            )
        cost = self._endpoint.price if self._endpoint.prices is None else self._cost_of_tokens(reply)
        told = {**reply.parameters, "seed_field": self._endpoint.seed_name or "none"}
        return Made(content=content, seconds=seconds, revised_prompt=revised, cost=cost, parameters=told)

    def _failed(self, reason: str, began: float, *, paid: bool, reply: ImageReply | None = None) -> Failed:
        cost = None if reply is None else self._cost_of_tokens(reply)
        paid = paid and self._endpoint.costs_money
        return Failed(reason=reason, seconds=time.monotonic() - began, may_have_been_paid=paid, cost=cost)

    def _cost_of_tokens(self, reply: ImageReply) -> float | None:
        prices = self._endpoint.prices
        return None if prices is None or reply.usage is None else prices.cost(reply.usage)


class _PaidFailure(Exception):  # noqa: N818 - a reason for an error row
    """A reply came, and no image of it can be kept."""

    def __init__(self, reason: str, reply: ImageReply) -> None:
        super().__init__(reason)
        self.reply = reply


def _form_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _photo(photo: SeedPhoto) -> tuple[str, bytes, str]:
    """Name, content and media type of a photo as a form takes it: the file as it is.

    Raises:
        RequestFailure: it cannot be read, is another one than it was, or of a format that services do not take.
    """
    try:
        content = read_image_file(photo.path, max_bytes=_MOST_PHOTO_BYTES)
        kind = image_format(content)
    except ImageError as error:
        raise RequestFailure(f"the seed photo: {error}") from None
    if hashlib.sha256(content).hexdigest() != photo.sha256:
        raise RequestFailure(f"the seed photo {photo.image_id} is another one than when the run began")
    if kind not in _MEDIA_TYPES:
        raise RequestFailure(f"the seed photo has the format {kind} (accepted: {', '.join(_MEDIA_TYPES)})")
    return f"photo.{kind.lower()}", content, _MEDIA_TYPES[kind]
