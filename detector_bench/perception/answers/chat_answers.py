"""What a vision-language model behind an OpenAI-compatible server answers: asked once, kept as it came."""

from __future__ import annotations

import base64
import hashlib
import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from math import ceil, isfinite
from threading import Lock
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field

from detector_bench.errors import ConfigError
from detector_bench.installation import require
from detector_bench.perception.answers.chat_client import ChatClient
from detector_bench.perception.answers.chat_endpoint import ChatEndpoint
from detector_bench.perception.answers.ledger_index import Asked
from detector_bench.perception.answers.ledger_lines import MOST_TOKENS, PaidAnswer
from detector_bench.perception.answers.paid_ledger import PaidLedger
from detector_bench.perception.answers.prices import (
    LIMITS_OF_ANSWERS,
    TokenPrices,
    most_prompt_tokens,
)
from detector_bench.perception.answers.service_requests import RequestFailure
from detector_bench.perception.answers.service_settings import encoded, image_form
from detector_bench.perception.answers.token_choices import places_arrays
from detector_bench.perception.stage import (
    ADDED_LATER,
    Arrays,
    Frame,
    Stage,
    StageFailure,
    StageFunction,
    parse_stage,
    text_array,
    text_in,
)
from detector_bench.trust import Sending
from detector_bench.weights import WeightsLocator

logger = logging.getLogger(__name__)


def _earlier(value: Any) -> Any:
    return value if value is None else parse_stage(value)


class ChatAnswers(ChatEndpoint, Stage):
    """The answer of a vision-language model behind an OpenAI-compatible server to one question about an image.

    Gives `answer`, the text in UTF-8 as uint8 of shape (bytes,); `refused`, 1 where the model or a content filter
    declined and `answer` holds what was said instead; and `tokens`, float64 of shape (2,): those of question and
    image, and those of the answer, NaN where the server does not say. With `top_logprobs` also `token_texts`
    and `token_logprobs`, see `token_choices.places_arrays`; both empty where the server gives none.

    With `earlier` the question follows others in one conversation: the image, their questions and the answers that
    they got are sent before it. Each turn is a stage and a request of its own, so that every answer is kept and a
    changed last question leaves those before it paid for.

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
    earlier: Annotated[ChatAnswers | None, BeforeValidator(_earlier)] = Field(
        default=None, json_schema_extra=ADDED_LATER
    )
    """The turn of the conversation before this one."""

    @property
    def turns(self) -> tuple[ChatAnswers, ...]:
        """The conversation's stages, this one last."""
        return (self,) if self.earlier is None else (*self.earlier.turns, self)

    @property
    def calls_at_once(self) -> int:
        """How many images may be asked about at the same time: the function is made for several threads."""
        return self.concurrency

    def sends(self) -> Sending:
        """To the server, with the key if there is one."""
        shrunk = "" if self.longest_side is None else f", at most {self.longest_side} pixels a side"
        said = "the question" if self.earlier is None else "the questions, the answers before"
        form = f"{said} and the image as {image_form(self)}{shrunk}"
        return Sending(self.base_url, self.key_variables, form)

    def missing_settings(self) -> tuple[str, ...]:
        """The key, where one is needed and not set, and the user's permission to send it and the images there."""
        return self.lacks_to_send(self.sends())

    def load(self, weights: WeightsLocator) -> StageFunction:  # noqa: ARG002
        """Read the key and open a connection; see `Stage.load`."""
        require("tenacity", extra=self.extra)
        if missing := self.missing_settings():
            raise ConfigError("\n".join(missing))
        client = ChatClient(self.base_url, key=self.key(), key_variable=self.key_variable, pace=self.pace)
        return ChatQuestions(self, client)

    def lacks_for_budget(self) -> str | None:
        """What has to be set before a budget can hold; None: nothing."""
        if not self.costs_money or (self.prices is not None and self.most_answer_tokens is not None):
            return None
        if self.prices is None:
            return "has no `prices`: {prompt: ..., completion: ...}, what a million tokens cost"
        return f"sets no limit to an answer's tokens (`{'`, `'.join(LIMITS_OF_ANSWERS)}`)"

    def spending(self, results: Iterable[Arrays]) -> Mapping[str, float | str]:
        """Answers and tokens, and their cost if there are prices; see `token_use`."""
        use = token_use(results)
        priced = {} if self.prices is None else {"cost": use.cost(self.prices), "currency": self.prices.currency}
        return {**use._asdict(), **priced}

    def most_prompt_tokens(self, size: tuple[int, int]) -> int:
        """A bound for what is sent about an image of this width and height, that nobody has counted yet."""
        asked = "".join(turn.question for turn in self.turns)
        return most_prompt_tokens(asked, size) + self._most_said_before()

    def _most_said_before(self) -> int:
        return sum(turn.most_answer_tokens or 0 for turn in self.turns[:-1])

    def worst_cost(self, size: tuple[int, int], *, most_so_far: int | None) -> float | None:
        """The most that a request may cost; None without prices, or without a limit.

        Args:
            size: width and height of the image as it is sent.
            most_so_far: the most tokens that the stage's requests with an image of this size have cost.
        """
        if self.prices is None or self.most_answer_tokens is None:
            return None
        if most_so_far is None:
            asked = self.most_prompt_tokens(size)
        else:
            asked = ceil(most_so_far * _CAUTION) + self._most_said_before()
        return self.prices.of_tokens(asked, self.most_answer_tokens)

    def request(self, pixels: NDArray[np.uint8]) -> dict[str, Any]:
        """The body of the request about an image, (height, width, 3)."""
        return self.sized_request(pixels)[0]

    def sized_request(
        self, pixels: NDArray[np.uint8], *, answers: Sequence[str] = ()
    ) -> tuple[dict[str, Any], tuple[int, int]]:
        """The body of the request about an image, (height, width, 3), and the image's width and height in it.

        Args:
            pixels: RGB.
            answers: what was answered in the conversation's earlier turns.
        """
        height, width = pixels.shape[:2]
        shrink = min(1.0, (self.longest_side or max(height, width)) / max(height, width))
        size = (max(round(width * shrink), 1), max(round(height * shrink), 1))
        image = encoded(pixels, image_format=self.image_format, jpeg_quality=self.jpeg_quality, size=size)
        link = {"url": f"data:image/{self.image_format};base64,{base64.b64encode(image).decode()}"}
        if self.detail is not None:
            link["detail"] = self.detail
        first, *others = (turn.question for turn in self.turns)
        content = [{"type": "text", "text": first}, {"type": "image_url", "image_url": link}]
        messages: list[dict[str, Any]] = [{"role": "user", "content": content}]
        for answer, question in zip(answers, others, strict=True):
            messages += [{"role": "assistant", "content": answer}, {"role": "user", "content": question}]
        optional = {"temperature": self.temperature, "max_tokens": self.max_tokens, "seed": self.seed}
        if self.top_logprobs is not None:
            optional |= {"logprobs": True, "top_logprobs": self.top_logprobs}
        body: dict[str, Any] = {
            "model": self.model,
            "messages": messages,
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
        self._saying = Lock()
        self._no_scores_said = False
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
        before = [text_in(frame[turn]["answer"]) for turn in self._stage.turns[:-1]]
        request, size = self._stage.sized_request(frame.pixels, answers=before)
        content = hashlib.sha256(json.dumps(request).encode()).hexdigest()
        asked = Asked(content, frame.sha256, size)
        with self._waiting.setdefault(content, Lock()):
            answer = self._ledger.answer(asked)
            if answer is None:
                entry = self._ledger.entry(asked, worst=lambda: self._worst(size))
                try:
                    answer = self._client.complete(request, entry=entry)
                except RequestFailure as failure:
                    return StageFailure("api_failed", str(failure))
                except ValueError as error:
                    return StageFailure("invalid_answer", str(error))
        return self._arrays(answer)

    def _worst(self, size: tuple[int, int]) -> float | None:
        return self._stage.worst_cost(size, most_so_far=self._ledger.most_prompt_tokens(size))

    def _arrays(self, answer: PaidAnswer) -> Arrays:
        tokens = [answer.prompt_tokens, answer.completion_tokens]
        found: dict[str, NDArray[Any]] = {
            "answer": text_array(answer.text),
            "refused": np.array(answer.refused, np.uint8),
            "tokens": np.array([np.nan if each is None else each for each in tokens], np.float64),
        }
        if self._stage.top_logprobs is None:
            return found
        if not answer.places and not answer.refused:
            self._say_that_there_are_no_scores()
        return found | places_arrays(answer.places)

    def _say_that_there_are_no_scores(self) -> None:
        with self._saying:
            said, self._no_scores_said = self._no_scores_said, True
        if not said:
            server = f"{self._stage.base_url} (model {self._stage.model})"
            logger.warning("%s gives no log-probabilities: its verdicts have no score", server)


_CAUTION = 1.05
"""An image of the same size with the same question costs as many tokens, but for what a server adds."""


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
