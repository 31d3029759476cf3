"""What all requests to servers that speak one of OpenAI's protocols share: address, key, and how they complain."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from pydantic import Field, JsonValue, field_validator

from detector_bench.errors import ConfigError, DetectorBenchError
from detector_bench.perception.answers.service_addresses import ServiceAddress, is_on_this_machine
from detector_bench.perception.stage import DESCRIPTIVE
from detector_bench.trust import Sending, key_from_environment, refusals, unset

if TYPE_CHECKING:
    import httpx

_BUSY = frozenset(
    {
        HTTPStatus.REQUEST_TIMEOUT,
        HTTPStatus.CONFLICT,
        HTTPStatus.TOO_EARLY,
        HTTPStatus.TOO_MANY_REQUESTS,
    }
)
_DENIED = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.PAYMENT_REQUIRED, HTTPStatus.FORBIDDEN})
_NOT_THERE = frozenset({HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED})
_NO_MONEY = frozenset({"insufficient_quota", "billing_hard_limit_reached", "billing_not_active"})
_WRONG_REQUEST = frozenset(
    {"unsupported_parameter", "unknown_parameter", "unsupported_value", "model_not_found", "invalid_model"}
)


class OpenAIServer(ServiceAddress):
    """Where a model is asked, and with which key."""

    own_fields: ClassVar[tuple[str, ...]] = ()
    """Fields of a request that declarations set by keys of their own."""

    base_url: str
    """The address up to `/v1`: `https://api.openai.com/v1`, `http://localhost:8000/v1` (vLLM),
    `http://localhost:11434/v1` (Ollama)."""
    model: str = Field(min_length=1)
    """The model's name on that server; a dated one where there is one, for it may not change."""
    key_variable: str | None = Field(
        default="OPENAI_API_KEY", pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", json_schema_extra=DESCRIPTIVE
    )
    """The environment variable with the key; null sends none. On this machine it need not be set."""
    request_fields: dict[str, JsonValue] = Field(default_factory=dict)
    """Further fields of the request, such as `{max_completion_tokens: 2000, reasoning_effort: low}` of a chat, or
    `{background: opaque, moderation: low}` of an image."""

    @field_validator("request_fields")
    @classmethod
    def _only_further_fields(cls, fields: dict[str, JsonValue]) -> dict[str, JsonValue]:
        for name in fields:
            if name in cls.own_fields:
                raise ValueError(f"{name!r} is not set by request_fields (never: {', '.join(cls.own_fields)})")
        return fields

    @property
    def key_variables(self) -> tuple[str, ...]:
        """The variables whose values are sent along, where they are set."""
        return () if self.key_variable is None else (self.key_variable,)

    def lacks_to_send(self, sending: Sending) -> tuple[str, ...]:
        """The key, where one is needed and not set, and the user's permission to send it and the rest there."""
        if self.key_variable is None or not unset(self.key_variable) or is_on_this_machine(self.base_url):
            return refusals(sending)
        return (
            f"the environment variable {self.key_variable} is not set; set it to the key for {self.base_url}, "
            "or set `key_variable: null` if none is needed",
        )

    def key(self) -> str | None:
        """The key, as far as it may be sent to the address.

        Raises:
            ConfigError: it may not, or it is none.
        """
        key = None if self.key_variable is None else key_from_environment(self.key_variable, self.base_url)
        if key is not None and not (key.isascii() and key.isprintable() and " " not in key):
            raise ConfigError(f"the environment variable {self.key_variable} holds no key: keys are plain letters")
        return key


class Complaint(NamedTuple):
    """What a response says that is no answer.

    Attributes:
        message: for people.
        codes: the words by which it names its cause.
        field: of the request that it is about, where it says so.
        in_form: whether it is an error as the protocol has it, not a page of something in between.
    """

    message: str
    codes: frozenset[str]
    field: str | None = None
    in_form: bool = False

    @property
    def wants_another_request(self) -> bool:
        """Whether no request of this form would do."""
        return bool(self.codes & _WRONG_REQUEST)


def complaint_in(response: httpx.Response) -> Complaint:
    """Read the body of a response that is no answer; it may be anything."""
    try:
        content: Any = json.loads(response.content)
    except (ValueError, RecursionError):  # also no text at all
        content = None
    found = content.get("error", content) if isinstance(content, Mapping) else None
    if isinstance(found, str):
        return Complaint(found, frozenset())
    if not isinstance(found, Mapping):
        return Complaint(response.reason_phrase or "no message", frozenset())
    message = found.get("message", found.get("detail"))  # the latter by servers made with FastAPI
    field = found.get("param")
    if isinstance(message, list) and message and isinstance(message[0], Mapping):
        place, said = message[0].get("loc"), message[0].get("msg")
        field = place[-1] if isinstance(place, list) and place else None
        message = f"{field}: {said}" if isinstance(field, str) and isinstance(said, str) else None
    shown = message if isinstance(message, str) else response.reason_phrase or "no message"
    field = field if isinstance(field, str) else None
    return Complaint(shown, frozenset(_codes(found)), field, in_form=isinstance(message, str))


def _codes(error: Mapping[Any, Any]) -> Iterator[str]:
    inner = error.get("inner_error", error.get("innererror"))  # Azure's
    for part in (error, inner):
        if isinstance(part, Mapping):
            yield from (value for name in ("code", "type") if isinstance(value := part.get(name), str))


def asks_for_patience(status: int) -> bool:
    """Whether a status says that the same request may go better later, and that nothing came of this one."""
    return status in _BUSY


@dataclass(frozen=True)
class HopelessAnswers:
    """Tells responses that end a run, for no request would go better, from those about one request.

    Attributes:
        base_url: for messages.
        key_shown: the key, in words.
        protocol: what the server was taken for.
        kept: what is left of the work so far, and what helps.
        shown: makes a service's words fit for a message.
    """

    base_url: str
    key_shown: str
    protocol: str
    kept: str
    shown: Callable[[str], str]

    def end(self, response: httpx.Response, complaint: Complaint, reason: str) -> None:
        """Raise if there is no hope for any request.

        Raises:
            DetectorBenchError: key or money are refused.
            ConfigError: the address, the model's name or a field of all requests is wrong.
        """
        status = response.status_code
        if status in _DENIED or complaint.codes & _NO_MONEY:
            raise DetectorBenchError(f"{self.base_url} refuses {self.key_shown}: {reason}; {self.kept}")
        if status in _NOT_THERE:
            raise ConfigError(f"{self.base_url} has no such model, or is no {self.protocol}: {reason}")
        if response.is_redirect:
            target = self.shown(response.headers["Location"])
            raise ConfigError(f"{self.base_url} redirects to {target!r}, where no key is sent: {reason}")
        if complaint.wants_another_request:
            raise ConfigError(f"{self.base_url} does not take such requests: {reason}")


def key_shown(key: str | None, variable: str | None) -> str:
    """A key in words, for messages."""
    return f"the key in {variable}" if key is not None else "a request without a key"
