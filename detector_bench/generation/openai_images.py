"""T2I models behind servers that speak OpenAI's Images API: OpenAI, vLLM-Omni, SGLang and others.

What a reply means:

| reply | here |
|---|---|
| 200 with an image | made; the bytes are kept as they came |
| 200 without an image, or with one that a filter or safety checker names | blocked |
| an error with a code of the moderation | blocked |
| 200 with anything else, a lost connection, a time-out, 502, 504 | an error; it may have been paid for |
| 401, 403: the key; 402 or a quota: the money; 404, 405: address or model's name | the run ends |
| 400 and 422 for a field that all requests have | the run ends |
| 408, 409, 425, 429, 503; other 5xx with an error in the protocol's form; no connection | asked again |
| 400, 413, 422, ... | an error |

Where nothing is paid for (on this machine, without prices), a time-out and a lost connection are asked again, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from math import inf
from typing import Any, ClassVar, Literal
from urllib.parse import urlsplit

from pydantic import Field, JsonValue

from detector_bench.errors import ConfigError
from detector_bench.generation.image_prices import ImageTokenPrices
from detector_bench.generation.image_requests import ImageRequest
from detector_bench.generation.openai_image_client import ImageEndpoint, LoadedOpenAIImages
from detector_bench.generation.t2i_models import GenerationPlace, LoadedT2IModel, T2IModel, t2i_model
from detector_bench.installation import is_installed, missing_message, require
from detector_bench.perception.answers.openai_servers import OpenAIServer
from detector_bench.perception.answers.service_addresses import is_on_this_machine
from detector_bench.perception.answers.service_requests import Pace
from detector_bench.perception.answers.service_settings import PaceSettings
from detector_bench.perception.stage import DESCRIPTIVE
from detector_bench.trust import Sending, unset

_REQUESTS_PER_SECOND = 5.0
_HOSTS_OF_OPENAI = ("api.openai.com", ".openai.azure.com")
_GPT_IMAGE = ("gpt-image", "chatgpt-image")
_SIZES = {
    "gpt-image-1": ("1024x1024", "1536x1024", "1024x1536"),
    "dall-e-3": ("1024x1024", "1792x1024", "1024x1792"),
    "dall-e-2": ("256x256", "512x512", "1024x1024"),
}
_STEP, _LONGEST_SIDE, _MOST_RATIO = 16, 3840, 3
"""Of the sizes of gpt-image-2."""
_QUALITIES = {
    "gpt-image": ("low", "medium", "high", "auto"),
    "dall-e-3": ("standard", "hd", "auto"),
    "dall-e-2": ("standard", "auto"),
}
_MOST_TOKENS = {"gpt-image-1": 6_300}
"""Above the output tokens of the dearest size and quality, by the beginning of a model's name."""


@t2i_model("openai")
class OpenAIImages(T2IModel, PaceSettings, OpenAIServer):
    """A T2I model behind a server that speaks OpenAI's Images API.

    `steps`, `guidance` and `negative_prompt` are sent as `num_inference_steps`, `guidance_scale` and
    `negative_prompt`, which vLLM-Omni and SGLang take and OpenAI does not. Scheduler and precision are set where
    such a server is started.
    """

    own_fields: ClassVar[tuple[str, ...]] = (
        *("model", "prompt", "image", "n", "size", "stream"),
        *("response_format", "output_format", "quality"),
    )

    extra: ClassVar[str | None] = "image-services"
    summary: ClassVar[str] = "a server that speaks OpenAI's Images API: OpenAI, vLLM-Omni, SGLang, ..."

    base_url: str = Field(json_schema_extra=DESCRIPTIVE)
    """The address up to `/v1`: `https://api.openai.com/v1`, `http://localhost:8000/v1` (vLLM-Omni)."""
    edit: bool = False
    """Edit seed photos (`/images/edits`) instead of making images of the prompt alone."""
    quality: str | None = Field(default=None, min_length=1)
    """As the model calls it: `low`, `medium`, `high` (gpt-image), `standard`, `hd` (dall-e-3)."""
    output_format: Literal["png", "jpeg", "webp"] | None = None
    """Of the file; dall-e models take none."""
    response_format: Literal["auto", "b64_json", "url"] | None = "auto"
    """How the image comes: in the reply or by an address; auto: in the reply; null sends none. gpt-image models
    take none, and always reply with the image."""
    seed_field: str | None = Field(default="auto", min_length=1)
    """The request's field for the seed; null sends none; auto: `seed`, and none to OpenAI, which takes none: its
    images cannot be made again."""
    requests_at_once: int = Field(default=4, ge=1, le=256, json_schema_extra=DESCRIPTIVE)
    """Requests on the way at the same time."""
    requests_per_second: float | None = Field(  # type: ignore[assignment]
        default=None, gt=0, json_schema_extra=DESCRIPTIVE
    )
    """The most requests that are sent in a second; by default 5, and without a limit on this machine."""
    timeout: float = Field(default=300.0, gt=0, json_schema_extra=DESCRIPTIVE)
    """Seconds without a sign of life after which a request is given up: a service says nothing while it works."""
    deadline: float = Field(default=900.0, gt=0, json_schema_extra=DESCRIPTIVE)
    """Seconds after which a request is given up, also if a byte comes now and then."""
    retries: int = Field(default=8, ge=0, json_schema_extra=DESCRIPTIVE)
    """Further attempts while the service is busy, failing or out of reach; the waits sum up to 4 minutes."""
    prices: ImageTokenPrices | None = Field(default=None, json_schema_extra=DESCRIPTIVE)
    """What tokens cost, for services that count them; `price` is for those that charge by image."""

    @property
    def edits(self) -> bool:
        """Whether it edits photos."""
        return self.edit

    @property
    def concurrency(self) -> int:
        """How many threads call at the same time."""
        return self.requests_at_once

    @property
    def costs_money(self) -> bool:
        """Whether images may cost money: elsewhere always, on this machine where it has prices."""
        return self.price is not None or self.prices is not None or not is_on_this_machine(self.base_url)

    @property
    def pace(self) -> Pace:
        """How often and how patiently the server is asked."""
        limit = self.requests_per_second
        if limit is None:
            limit = inf if is_on_this_machine(self.base_url) else _REQUESTS_PER_SECOND
        return replace(super().pace, requests_per_second=limit)

    @property
    def host(self) -> str:
        """Of the server, in lower case."""
        return (urlsplit(self.base_url).hostname or "").lower()

    @property
    def is_openai(self) -> bool:
        """Whether it is OpenAI's own service, or the one of Azure."""
        return self.host.endswith(_HOSTS_OF_OPENAI)

    @property
    def seed_name(self) -> str | None:
        """The field in which the seed is sent; None: it is not sent."""
        if self.seed_field != "auto":
            return self.seed_field
        return None if self.is_openai else "seed"

    def identity(self) -> dict[str, Any]:
        """All of the declaration that decides an image; see `T2IModel.identity`.

        Of the address the host counts: under the same name another service may offer another model. A server on
        this machine is the same whatever its port.
        """
        service = "this machine" if is_on_this_machine(self.base_url) else self.host
        return {**super().identity(), "service": service, "seed_name": self.seed_name}

    def most_it_costs(self, request: ImageRequest) -> float | None:
        """The most that one image may cost; None: nobody can say."""
        if self.prices is None:
            return self.price
        prices = self.prices
        if prices.most_output_tokens is None:
            most = next((most for name, most in _MOST_TOKENS.items() if self.model.startswith(name)), None)
            prices = prices.model_copy(update={"most_output_tokens": most})
        return prices.most(request.prompt, edits=self.edit)

    def body(self, request: ImageRequest) -> dict[str, JsonValue]:
        """The fields of a request, all but the photo."""
        form = self.response_format
        if form == "auto":
            form = None if self.model.startswith(_GPT_IMAGE) else "b64_json"
        size = None if self.width is None or self.height is None else f"{self.width}x{self.height}"
        fields: dict[str, JsonValue] = {
            "model": self.model,
            "prompt": request.prompt,
            "n": 1,
            "size": size,
            "quality": self.quality,
            "output_format": self.output_format,
            "response_format": form,
            "num_inference_steps": self.steps,
            "guidance_scale": self.guidance,
            "negative_prompt": self.negative_prompt,
        }
        if self.seed_name is not None:
            fields[self.seed_name] = request.seed
        return {**{name: value for name, value in fields.items() if value is not None}, **self.request_fields}

    def mistakes(self) -> Iterable[str]:
        """What is wrong with the declaration, a line each; see `T2IModel.mistakes`."""
        if (self.width is None) != (self.height is None):
            yield "width and height go together: `size` is WIDTHxHEIGHT (accepted: both, or neither)"
        if self.price is not None and self.prices is not None:
            yield "price is for services that charge by image, prices for those that charge by token; give one"
        for name in ("scheduler", "precision"):
            if getattr(self, name) is not None:
                yield f"{name}: no server takes it in a request; it is set where the server is started"
        if self.seed_name is not None and self.seed_name in {*self.own_fields, *self.request_fields}:
            yield f"seed_field: the field {self.seed_name!r} holds something else already"
        if self.is_openai:
            yield from self._mistakes_at_openai()

    def _mistakes_at_openai(self) -> Iterable[str]:
        for name in ("steps", "guidance", "negative_prompt"):
            if getattr(self, name) is not None:
                yield f"{name}: {self.host} does not take it; servers such as vLLM-Omni and SGLang do"
        if self.seed_name is not None:
            yield f"seed_field: {self.host} takes no seed (accepted: null)"
        size = f"{self.width}x{self.height}"
        sizes = _of(_SIZES, self.model)
        if self.width is not None and self.height is not None:
            if sizes and size not in sizes:
                yield f"width and height: {self.model} makes no image of {size} (accepted: {', '.join(sizes)})"
            if self.model.startswith("gpt-image-2") and not _is_free_size(self.width, self.height):
                yield (
                    f"width and height: {self.model} makes no image of {size} (accepted: multiples of "
                    f"{_STEP}, at most {_LONGEST_SIDE:,}, neither more than {_MOST_RATIO} times the other)"
                )
        qualities = _of(_QUALITIES, self.model)
        if self.quality is not None and qualities and self.quality not in qualities:
            yield f"quality: {self.model} has no {self.quality!r} (accepted: {', '.join(qualities)})"
        if self.model.startswith(_GPT_IMAGE) and self.response_format not in ("auto", None):
            yield f"response_format: {self.model} takes none (accepted: auto, null)"
        if self.model.startswith("dall-e") and self.output_format is not None:
            yield f"output_format: {self.model} takes none (accepted: null)"
        if self.edit and self.model.startswith("dall-e-3"):
            yield f"edit: {self.model} edits no photos (accepted: dall-e-2, gpt-image models)"

    def sending(self) -> Sending:
        """What goes where, for the user's permission."""
        what = "prompts and photos" if self.edit else "prompts"
        return Sending(self.base_url, self.key_variables, what, what)

    def sends(self) -> Iterable[str]:
        """Where prompts and photos go, and with which key."""
        what = "prompts and photos, as their files are," if self.edit else "prompts"
        key = ""
        if self.key_variable is not None:
            state = "not set" if unset(self.key_variable) else "set"
            key = f", with the key in {self.key_variable} ({state})"
        return (f"{what} to {self.base_url}{key}",)

    def lacks(self, place: GenerationPlace) -> Iterable[str]:  # noqa: ARG002
        """The package, the key, and the user's permission to send it; see `T2IModel.lacks`."""
        if not is_installed("tenacity"):
            yield missing_message("tenacity", extra=self.extra)
        yield from self.lacks_to_send(self.sending())

    def load(self, place: GenerationPlace) -> LoadedT2IModel:  # noqa: ARG002
        """Read the key and get ready to send; nobody is asked yet; see `T2IModel.load`."""
        require("tenacity", extra=self.extra)
        if missing := [*self.mistakes(), *self.lacks_to_send(self.sending())]:
            raise ConfigError("\n".join(missing))
        endpoint = ImageEndpoint(
            base_url=self.base_url,
            model=self.model,
            edits=self.edit,
            key=self.key(),
            key_variable=self.key_variable,
            pace=self.pace,
            at_once=self.requests_at_once,
            costs_money=self.costs_money,
            price=self.price,
            prices=self.prices,
            seed_name=self.seed_name,
            body=self.body,
        )
        return LoadedOpenAIImages(endpoint)


def _is_free_size(width: int, height: int) -> bool:
    """Whether gpt-image-2 makes images of this size."""
    longest, shortest = max(width, height), min(width, height)
    return width % _STEP == height % _STEP == 0 and longest <= min(_LONGEST_SIDE, _MOST_RATIO * shortest)


def _of(table: Mapping[str, tuple[str, ...]], model: str) -> tuple[str, ...]:
    return next((found for name, found in table.items() if model.startswith(name)), ())
