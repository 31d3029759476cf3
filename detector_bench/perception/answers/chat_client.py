"""Asks any server that speaks OpenAI's chat completions protocol: hosted models, vLLM, Ollama, llama.cpp.

What a response means:

| status | here |
|---|---|
| 200 with an answer, a refusal by the model, or one cut off by a content filter | a result |
| 200 with anything else | an error of this image; not asked again, for it may have been paid for |
| 401, 403: the key; 402, or `insufficient_quota`: the money | the run stops |
| 404, 405, redirects: the address or the model's name | the run stops |
| 400 and the like for a request field that the model does not know | the run stops |
| 408, 409, 425, 429, 5xx, a lost connection, a timeout | asked again |
| 400, 413, 422, ... | an error of this image |

If nobody at all answers the first request, the run stops as well; later, that is an error of the image.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Any

import httpx
from pydantic import BaseModel, BeforeValidator, Field, ValidationError

from detector_bench.errors import DetectorBenchError
from detector_bench.perception.answers.ledger_lines import PaidAnswer, counted_tokens
from detector_bench.perception.answers.openai_servers import (
    HopelessAnswers,
    asks_for_patience,
    complaint_in,
    key_shown,
)
from detector_bench.perception.answers.service_addresses import Secrets
from detector_bench.perception.answers.service_requests import Pace, PacedRequests, RequestFailure
from detector_bench.perception.answers.token_choices import Place, places_told

if TYPE_CHECKING:
    from detector_bench.perception.answers.paid_ledger import LedgerEntry

_KEPT = "what was judged before is kept: mend it and run the same command again"


class _Part(BaseModel):
    text: str = ""


class _Message(BaseModel):
    content: str | list[_Part] | None = None
    refusal: str | None = None


class _Choice(BaseModel):
    message: _Message
    finish_reason: str | None = None
    logprobs: Any = None
    """Read by itself: a server that gives nonsense for it has answered all the same."""


_MOST_CHOICES = 50

_Tokens = Annotated[int | None, BeforeValidator(counted_tokens)]
"""A server that counts nonsense has answered all the same."""


class _Usage(BaseModel):
    prompt_tokens: _Tokens = None
    completion_tokens: _Tokens = None


class _Response(BaseModel):
    choices: list[_Choice] = Field(min_length=1)
    usage: _Usage | None = None


def read_completion(content: bytes) -> PaidAnswer:
    """Read the body of a response with status 200.

    Raises:
        ValueError: it is no chat completion, it is empty, or it ended before the first word.
    """
    if not content.strip():
        raise ValueError("the body of the response is empty")
    try:
        response = _Response.model_validate_json(content)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        problem = ValueError(f"{place + ': ' if place else ''}{first['msg']}")
    else:
        return _completion(response.choices[0], response.usage or _Usage())
    raise problem


def _completion(choice: _Choice, usage: _Usage) -> PaidAnswer:
    found = choice.message.content
    text = found if isinstance(found, str) else "".join(part.text for part in found or ())
    if choice.finish_reason == "length" and not text:
        raise ValueError("the answer ended before its first word; allow it more tokens (max_tokens)")
    refused = choice.message.refusal is not None or choice.finish_reason == "content_filter"
    counted = usage.prompt_tokens, usage.completion_tokens
    places = places_told(choice.logprobs, most=_MOST_CHOICES)
    return PaidAnswer(choice.message.refusal or text, refused, *counted, places)


class ChatClient:
    """A connection to one server; several threads may share it.

    Args:
        base_url: the address up to `/v1`.
        key: sent as a bearer token; None sends none.
        key_variable: where the key came from, for messages.
        pace: how often and how patiently to ask.
    """

    def __init__(self, base_url: str, *, key: str | None, key_variable: str | None, pace: Pace) -> None:
        self._base_url = base_url
        self._headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        self._secrets = Secrets(() if key is None else (key,))
        self._requests = PacedRequests(f"{base_url}/chat/completions", pace=pace, secrets=self._secrets)
        self._hopeless = HopelessAnswers(
            base_url, key_shown(key, key_variable), "chat completions API", _KEPT, self._requests.shown
        )

    def complete(self, request: Mapping[str, Any], *, entry: LedgerEntry | None = None) -> PaidAnswer:
        """Ask once; see `PacedRequests.ask`.

        Args:
            request: the body, without `stream`.
            entry: where attempts and answer are recorded.

        Raises:
            RequestFailure: there is no answer about this image.
            ValueError: the answer is none.
            DetectorBenchError: there would be none about any image.
        """
        try:
            return self._requests.ask(
                self._completion_in,
                entry=entry,
                as_paid=lambda answer: answer,
                json=dict(request),
                headers=self._headers,
            )
        except RequestFailure as failure:
            if self._requests.ever_reached:
                raise
            reason = str(failure)
        raise DetectorBenchError(f"nobody answers at {self._base_url}: {reason}; {_KEPT}")

    def _completion_in(self, response: httpx.Response) -> PaidAnswer:
        status = response.status_code
        complaint = complaint_in(response)
        reason = self._requests.shown(f"{complaint.message} (HTTP {status})")
        self._hopeless.end(response, complaint, reason)
        if asks_for_patience(status) or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            raise self._requests.busy(response, reason)
        if status != HTTPStatus.OK:
            raise RequestFailure(reason)
        found = read_completion(response.content)
        places = () if self._tells_a_secret(found.places) else found.places
        return found._replace(text=self._secrets.hidden_in(found.text), places=places)

    def _tells_a_secret(self, places: Sequence[Place]) -> bool:
        """Whether the tokens spell one, together or alone."""
        said = "".join(place[0].text for place in places)
        texts = (said, *(choice.text for place in places for choice in place))
        return any(self._secrets.hidden_in(text) != text for text in texts)
