"""How a vision-language model behind an OpenAI-compatible server is reached and asked."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import Literal

from pydantic import Field, JsonValue, field_validator, model_validator

from detector_bench.perception.answers.prices import TokenPrices, most_completion_tokens
from detector_bench.perception.answers.service_requests import (
    Pace,
    ServiceSettings,
    is_on_this_machine,
    require_safe_address,
)
from detector_bench.perception.answers.token_choices import TopLogprobs
from detector_bench.perception.stage import DESCRIPTIVE

_OWN_FIELDS = ("model", "messages", "stream", "n", "temperature", "max_tokens", "seed")
_REQUESTS_PER_SECOND = 10.0


class ChatEndpoint(ServiceSettings):
    """A model behind a server that speaks OpenAI's chat completions protocol, and how it is asked."""

    base_url: str
    """The address up to `/v1`: `https://api.openai.com/v1`, `http://localhost:8000/v1` (vLLM),
    `http://localhost:11434/v1` (Ollama)."""
    model: str = Field(min_length=1)
    """The model's name on that server; a dated one where there is one, for it may not change."""
    key_variable: str | None = Field(
        default="OPENAI_API_KEY", pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", json_schema_extra=DESCRIPTIVE
    )
    """The environment variable with the key; null sends none. On this machine it need not be set."""
    allow_http: bool = Field(default=False, json_schema_extra=DESCRIPTIVE)
    """Also to other machines without encryption: whoever is on the way can read key and images."""
    temperature: float | None = Field(default=0.0, ge=0)
    """0 asks for the likeliest answer; null leaves it out, for models that take none."""
    max_tokens: int | None = Field(default=50, ge=1)
    """An answer is cut off after so many tokens; null leaves it out. A model that thinks first needs many more."""
    seed: int | None = None
    """For servers that take one; makes a repeated answer likelier, but not certain."""
    request_fields: dict[str, JsonValue] = Field(default_factory=dict)
    """Further fields of the request, such as `{max_completion_tokens: 2000, reasoning_effort: low}`."""
    longest_side: int | None = Field(default=1024, ge=32)
    """Larger images are shrunk to so many pixels, for servers charge by size; null sends them as they are."""
    detail: Literal["low", "high", "auto"] | None = None
    """How closely the model looks, where the server offers the choice; decides what an image costs there."""
    concurrency: int = Field(default=4, ge=1, le=256, json_schema_extra=DESCRIPTIVE)
    """Requests on the way at the same time; never more than a run's `batch_size`."""
    requests_per_second: float | None = Field(  # type: ignore[assignment]
        default=None, gt=0, json_schema_extra=DESCRIPTIVE
    )
    """The most requests that are sent in a second; by default 10, and without a limit on this machine."""
    top_logprobs: TopLogprobs = None
    """Ask for the log-probabilities of so many tokens at each place of the answer (most servers allow 20): a
    verdict then has a score. None: ask for none."""
    prices: TokenPrices | None = Field(default=None, json_schema_extra=DESCRIPTIVE)
    """What tokens cost there, so that a run can say what it cost."""

    @property
    def costs_money(self) -> bool:
        """Whether answers may cost money: elsewhere always, on this machine where it has prices."""
        return self.prices is not None or not is_on_this_machine(self.base_url)

    @property
    def pace(self) -> Pace:
        """How often and how patiently the server is asked."""
        limit = self.requests_per_second
        if limit is None:
            limit = inf if is_on_this_machine(self.base_url) else _REQUESTS_PER_SECOND
        return replace(super().pace, requests_per_second=limit)

    @field_validator("base_url")
    @classmethod
    def _without_last_slash(cls, base_url: str) -> str:
        return base_url.rstrip("/")

    @field_validator("request_fields")
    @classmethod
    def _only_further_fields(cls, fields: dict[str, JsonValue]) -> dict[str, JsonValue]:
        for name in fields:
            if name in _OWN_FIELDS:
                raise ValueError(f"{name!r} is not set by request_fields (never: {', '.join(_OWN_FIELDS)})")
        return fields

    @model_validator(mode="after")
    def _address_is_safe(self) -> ChatEndpoint:
        try:
            require_safe_address(self.base_url, allow_http=self.allow_http)
        except ValueError as error:
            remedy = "" if self.allow_http else " (`allow_http: true` allows it)"
            raise ValueError(f"base_url: {error}{remedy if 'readable' in str(error) else ''}") from None
        return self

    @property
    def most_answer_tokens(self) -> int | None:
        """How many tokens an answer may have; None: there is no limit."""
        set_here = {} if self.max_tokens is None else {"max_tokens": self.max_tokens}
        return most_completion_tokens({**set_here, **self.request_fields})
