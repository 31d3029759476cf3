"""What a vision-language model behind an OpenAI-compatible server answers: asked once, kept as it came."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Mapping
from threading import Lock
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, JsonValue, field_validator, model_validator

from detector_bench.declarations import Declaration
from detector_bench.errors import ConfigError
from detector_bench.installation import require
from detector_bench.perception.answers.chat_client import ChatClient
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


class TokenPrices(Declaration):
    """What a million tokens cost."""

    prompt: float = Field(ge=0)
    completion: float = Field(ge=0)
    currency: str = "USD"


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
        # The cache knows nothing yet of what is on the way: the same image twice waits for the first answer.
        paid: dict[str, Arrays] = {}
        waiting: dict[str, Lock] = {}

        def ask(frame: Frame) -> Arrays | StageFailure:
            request = self.request(frame.pixels)
            content = hashlib.sha256(json.dumps(request).encode()).hexdigest()
            with waiting.setdefault(content, Lock()):
                if content not in paid:
                    try:
                        answer = client.complete(request)
                    except RequestFailure as failure:
                        return StageFailure("api_failed", str(failure))
                    except ValueError as error:
                        return StageFailure("invalid_answer", str(error))
                    tokens = [answer.prompt_tokens, answer.completion_tokens]
                    paid[content] = {
                        "answer": text_array(answer.text),
                        "refused": np.array(answer.refused, np.uint8),
                        "tokens": np.array([np.nan if each is None else each for each in tokens], np.float64),
                    }
                return paid[content]

        return lambda frames: [ask(frame) for frame in frames]

    def spending(self, results: Iterable[Arrays]) -> Mapping[str, float | str]:
        """Answers and tokens, and their cost if there are prices; see `token_use`."""
        use = token_use(results)
        priced = {} if self.prices is None else {"cost": use.cost(self.prices), "currency": self.prices.currency}
        return {**use._asdict(), **priced}

    def request(self, pixels: NDArray[np.uint8]) -> dict[str, Any]:
        """The body of the request about an image, (height, width, 3)."""
        height, width = pixels.shape[:2]
        shrink = min(1.0, (self.longest_side or max(height, width)) / max(height, width))
        size = (max(round(width * shrink), 1), max(round(height * shrink), 1))
        image = encoded(pixels, image_format=self.image_format, jpeg_quality=self.jpeg_quality, size=size)
        link = {"url": f"data:image/{self.image_format};base64,{base64.b64encode(image).decode()}"}
        if self.detail is not None:
            link["detail"] = self.detail
        content = [{"type": "text", "text": self.question}, {"type": "image_url", "image_url": link}]
        optional = {"temperature": self.temperature, "max_tokens": self.max_tokens, "seed": self.seed}
        return {
            "model": self.model,
            "messages": [{"role": "user", "content": content}],
            **{name: value for name, value in optional.items() if value is not None},
            **self.request_fields,
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
        return (self.prompt_tokens * prices.prompt + self.completion_tokens * prices.completion) / 1e6


def token_use(results: Iterable[Arrays]) -> TokenUse:
    """Add up what results of `ChatAnswers` cost, those that the cache kept from earlier runs as well."""
    tokens = np.array([result["tokens"] for result in results], np.float64).reshape(-1, 2)
    prompt, completion = np.nansum(tokens, axis=0)
    return TokenUse(len(tokens), int(prompt), int(completion), int(np.isnan(tokens).any(axis=1).sum()))


def was_refused(result: Arrays) -> bool:
    """Whether the model declined to answer."""
    return bool(result["refused"])
