"""How a vision-language model behind an OpenAI-compatible server is reached and asked."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import ClassVar, Literal

from pydantic import Field

from detector_bench.perception.answers.openai_servers import OpenAIServer
from detector_bench.perception.answers.prices import TokenPrices, most_completion_tokens
from detector_bench.perception.answers.service_addresses import is_on_this_machine
from detector_bench.perception.answers.service_requests import Pace
from detector_bench.perception.answers.service_settings import ServiceSettings
from detector_bench.perception.answers.token_choices import TopLogprobs
from detector_bench.perception.stage import DESCRIPTIVE

_REQUESTS_PER_SECOND = 10.0


class ChatEndpoint(ServiceSettings, OpenAIServer):
    """A model behind a server that speaks OpenAI's chat completions protocol, and how it is asked."""

    own_fields: ClassVar[tuple[str, ...]] = (
        *("model", "messages", "stream", "n"),
        *("temperature", "max_tokens", "seed"),
    )

    temperature: float | None = Field(default=0.0, ge=0)
    """0 asks for the likeliest answer; null leaves it out, for models that take none."""
    max_tokens: int | None = Field(default=50, ge=1)
    """An answer is cut off after so many tokens; null leaves it out. A model that thinks first needs many more."""
    seed: int | None = None
    """For servers that take one; makes a repeated answer likelier, but not certain."""
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

    @property
    def most_answer_tokens(self) -> int | None:
        """How many tokens an answer may have; None: there is no limit."""
        set_here = {} if self.max_tokens is None else {"max_tokens": self.max_tokens}
        return most_completion_tokens({**set_here, **self.request_fields})
