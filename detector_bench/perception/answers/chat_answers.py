"""What a vision-language model behind an OpenAI-compatible server answers: asked once, kept as it came."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from math import ceil, isfinite
from threading import Lock
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, JsonValue, field_validator, model_validator

from detector_bench.errors import ConfigError
from detector_bench.installation import require
from detector_bench.perception.answers.chat_client import ChatClient
from detector_bench.perception.answers.ledger_index import Asked
from detector_bench.perception.answers.ledger_lines import MOST_TOKENS, PaidAnswer
from detector_bench.perception.answers.paid_ledger import PaidLedger
from detector_bench.perception.answers.prices import (
    LIMITS_OF_ANSWERS,
    TokenPrices,
    most_completion_tokens,
    most_prompt_tokens,
)
from detector_bench.perception.answers.service_requests import (
    RequestFailure,
    ServiceSettings,
    encoded,
    image_form,
    is_on_this_machine,
    require_safe_address,
)
from detector_bench.perception.stage import (
    DESCRIPTIVE,
    Arrays,
    Frame,
    Stage,
    StageFailure,
    StageFunction,
    text_array,
)
from detector_bench.trust import Sending, key_from_environment, refusals, unset
from detector_bench.weights import WeightsLocator

_OWN_FIELDS = ("model", "messages", "stream", "n", "temperature", "max_tokens", "seed")


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
    concurrency: int = Field(default=4, ge=1, le=64, json_schema_extra=DESCRIPTIVE)
    """Requests on the way at the same time."""
    prices: TokenPrices | None = Field(default=None, json_schema_extra=DESCRIPTIVE)
    """What tokens cost there, so that a run can say what it cost."""

    @property
    def costs_money(self) -> bool:
        """Whether answers may cost money: elsewhere always, on this machine where it has prices."""
        return self.prices is not None or not is_on_this_machine(self.base_url)

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


class ChatAnswers(ChatEndpoint, Stage):
    """The answer of a vision-language model behind an OpenAI-compatible server to one question about an image.

    Gives `answer`, the text in UTF-8 as uint8 of shape (bytes,); `refused`, 1 where the model or a content filter
    declined and `answer` holds what was said instead; and `tokens`, float64 of shape (2,): those of question and
    image, and those of the answer, NaN where the server does not say.

    The image travels inside the request, as JPEG or PNG made from the decoded pixels: upright, and on white where
    it is transparent, as every other detector and the annotators see it. Answers that are none, and those that
    never came, are failures: not kept, and asked for again when a run is repeated.

    The key comes from an environment variable and goes nowhere but into the requests, and only to a host that the
    user has bound it to (see `trust`). Declarations that differ
    only in pace, key or price are equal: they share answers that are paid for.
    """

    kind: ClassVar[str] = "chat_answers"
    extra: ClassVar[str | None] = "judge"
    modules: ClassVar[tuple[str, ...]] = ("tenacity",)
    images_per_call: ClassVar[int | None] = 1
    device_taken: ClassVar[str] = "a service"

    question: str = Field(min_length=1)

    @property
    def calls_at_once(self) -> int:
        """How many images may be asked about at the same time: the function is made for several threads."""
        return self.concurrency

    def sends(self) -> Sending:
        """To the server, with the key if there is one."""
        shrunk = "" if self.longest_side is None else f", at most {self.longest_side} pixels a side"
        form = f"the question and the image as {image_form(self)}{shrunk}"
        return Sending(self.base_url, () if self.key_variable is None else (self.key_variable,), form)

    def missing_settings(self) -> tuple[str, ...]:
        """The key, where one is needed and not set, and the user's permission to send it and the images there."""
        if self.key_variable is None or not unset(self.key_variable) or is_on_this_machine(self.base_url):
            return refusals(self.sends())
        return (
            f"the environment variable {self.key_variable} is not set; set it to the key for {self.base_url}, "
            "or set `key_variable: null` if none is needed",
        )

    def load(self, weights: WeightsLocator) -> StageFunction:  # noqa: ARG002
        """Read the key and open a connection; see `Stage.load`."""
        require("tenacity", extra=self.extra)
        if missing := self.missing_settings():
            raise ConfigError("\n".join(missing))
        key = None if self.key_variable is None else key_from_environment(self.key_variable, self.base_url)
        if key is not None and not (key.isascii() and key.isprintable() and " " not in key):
            raise ConfigError(f"the environment variable {self.key_variable} holds no key: keys are plain letters")
        client = ChatClient(self.base_url, key=key, key_variable=self.key_variable, pace=self.pace)
        return ChatQuestions(self, client)

    def lacks_for_budget(self) -> str | None:
        """What has to be set before a budget can hold; None: nothing."""
        if not self.costs_money or (self.prices is not None and self._limits_answers()):
            return None
        if self.prices is None:
            return "has no `prices`: {prompt: ..., completion: ...}, what a million tokens cost"
        return f"sets no limit to an answer's tokens (`{'`, `'.join(LIMITS_OF_ANSWERS)}`)"

    def _limits_answers(self) -> bool:
        set_here = {} if self.max_tokens is None else {"max_tokens": self.max_tokens}
        return most_completion_tokens({**set_here, **self.request_fields}) is not None

    def spending(self, results: Iterable[Arrays]) -> Mapping[str, float | str]:
        """Answers and tokens, and their cost if there are prices; see `token_use`."""
        use = token_use(results)
        priced = {} if self.prices is None else {"cost": use.cost(self.prices), "currency": self.prices.currency}
        return {**use._asdict(), **priced}

    def request(self, pixels: NDArray[np.uint8]) -> dict[str, Any]:
        """The body of the request about an image, (height, width, 3)."""
        return self.sized_request(pixels)[0]

    def sized_request(self, pixels: NDArray[np.uint8]) -> tuple[dict[str, Any], tuple[int, int]]:
        """The body of the request about an image, (height, width, 3), and the image's width and height in it."""
        height, width = pixels.shape[:2]
        shrink = min(1.0, (self.longest_side or max(height, width)) / max(height, width))
        size = (max(round(width * shrink), 1), max(round(height * shrink), 1))
        image = encoded(pixels, image_format=self.image_format, jpeg_quality=self.jpeg_quality, size=size)
        link = {"url": f"data:image/{self.image_format};base64,{base64.b64encode(image).decode()}"}
        if self.detail is not None:
            link["detail"] = self.detail
        content = [{"type": "text", "text": self.question}, {"type": "image_url", "image_url": link}]
        optional = {"temperature": self.temperature, "max_tokens": self.max_tokens, "seed": self.seed}
        body: dict[str, Any] = {
            "model": self.model,
            "messages": [{"role": "user", "content": content}],
            **{name: value for name, value in optional.items() if value is not None},
            **self.request_fields,
        }
        return body, size


class ChatQuestions:
    """A loaded `ChatAnswers`. What stands in the ledger is not asked for again.

    Args:
        stage: what is asked, and where.
        client: the connection.
    """

    def __init__(self, stage: ChatAnswers, client: ChatClient) -> None:
        self._stage = stage
        self._client = client
        # The same image twice waits for the first answer.
        self._waiting: dict[str, Lock] = {}
        self.take_ledger(PaidLedger(None), stage=stage.kind, fingerprint="")

    def take_ledger(self, ledger: PaidLedger, *, stage: str, fingerprint: str) -> None:
        """See `TakesLedger`."""
        own = self._stage
        self._ledger = ledger.of_stage(
            stage=stage,
            fingerprint=fingerprint,
            service=own.base_url,
            model=own.model,
            prices=own.prices,
            may_cost=own.costs_money,
            counts_tokens=True,
        )

    def __call__(self, frames: Sequence[Frame]) -> list[Arrays | StageFailure]:
        """See `StageFunction`."""
        return [self._ask(frame) for frame in frames]

    def _ask(self, frame: Frame) -> Arrays | StageFailure:
        request, size = self._stage.sized_request(frame.pixels)
        content = hashlib.sha256(json.dumps(request).encode()).hexdigest()
        asked = Asked(content, frame.sha256, size)
        with self._waiting.setdefault(content, Lock()):
            answer = self._ledger.answer(asked)
            if answer is None:
                entry = self._ledger.entry(asked, worst=lambda: self._worst(request, size))
                try:
                    answer = self._client.complete(request, entry=entry)
                except RequestFailure as failure:
                    return StageFailure("api_failed", str(failure))
                except ValueError as error:
                    return StageFailure("invalid_answer", str(error))
        return _arrays(answer)

    def _worst(self, request: Mapping[str, Any], size: tuple[int, int]) -> float | None:
        """The most that a request may cost; None without prices, or without a limit."""
        prices, completion = self._stage.prices, most_completion_tokens(request)
        if prices is None or completion is None:
            return None
        known = self._ledger.most_prompt_tokens(size)
        prompt = most_prompt_tokens(self._stage.question, size) if known is None else ceil(known * _CAUTION)
        return prices.of_tokens(prompt, completion)


_CAUTION = 1.05
"""An image of the same size with the same question costs as many tokens, but for what a server adds."""


def _arrays(answer: PaidAnswer) -> Arrays:
    tokens = [answer.prompt_tokens, answer.completion_tokens]
    return {
        "answer": text_array(answer.text),
        "refused": np.array(answer.refused, np.uint8),
        "tokens": np.array([np.nan if each is None else each for each in tokens], np.float64),
    }


class TokenUse(NamedTuple):
    """What answers cost, as far as the server said so.

    Attributes:
        answers: how many there are.
        prompt_tokens: those of questions and images.
        completion_tokens: those of the answers.
        untold: answers whose tokens the server did not count; their cost is missing from the sums.
    """

    answers: int
    prompt_tokens: int
    completion_tokens: int
    untold: int

    def cost(self, prices: TokenPrices) -> float:
        """The sum in the currency of the prices."""
        return prices.of_tokens(self.prompt_tokens, self.completion_tokens)


def token_use(results: Iterable[Arrays]) -> TokenUse:
    """Add up what results of `ChatAnswers` cost, those that the cache kept from earlier runs as well."""
    answers = untold = 0
    prompt = completion = 0
    for result in results:
        told = [float(each) for each in np.asarray(result["tokens"]).reshape(-1)[:2]]
        counted = [isfinite(each) and 0 <= each <= MOST_TOKENS for each in told]
        answers += 1
        untold += not all(counted)
        prompt += int(told[0]) if counted[0] else 0
        completion += int(told[1]) if counted[1] else 0
    return TokenUse(answers, prompt, completion, untold)


def was_refused(result: Arrays) -> bool:
    """Whether the model declined to answer."""
    return bool(result["refused"])
