"""A server on this machine that speaks OpenAI's chat completions protocol, well and badly."""

from __future__ import annotations

import base64
import io
import json
import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from local_server import Behaviour, LocalHandler, LocalServer, prepare_environment, says, serving, stop
from PIL import Image
from running import frames_of, noise

from detector_bench.detectors import Detector, build_detector
from detector_bench.detectors.vlm_judge import VlmJudge
from detector_bench.perception.answers.chat_answers import ChatAnswers
from detector_bench.trust import Origin, add_key
from detector_bench.weights import WeightsLocator

NOWHERE = WeightsLocator()
IMAGE = noise(40, 60)
KEY = "sk-0123456789abcdefghijklmnop"
MODEL = "test-model-2026-01-01"


def completion(text: str | None, *, tokens: tuple[int, int] | None = (300, 4), **choice: Any) -> dict[str, Any]:
    """An answer as OpenAI's API reference shows it; `choice` overrides what stands beside the text."""
    message = {"role": "assistant", "content": text, "refusal": None}
    usage = {} if tokens is None else {"usage": {"prompt_tokens": tokens[0], "completion_tokens": tokens[1]}}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "model": MODEL,
        "choices": [{"index": 0, "message": message, "finish_reason": "stop", "logprobs": None, **choice}],
        **usage,
    }


def logprobs(*places: Sequence[tuple[str, float]]) -> dict[str, Any]:
    """What stands beside a text: for each of its tokens, that token and others with their probabilities."""

    def entry(token: str, probability: float) -> dict[str, Any]:
        return {"token": token, "logprob": math.log(probability), "bytes": list(token.encode())}

    content = [{**entry(*place[0]), "top_logprobs": [entry(*each) for each in place]} for place in places]
    return {"logprobs": {"content": content, "refusal": None}}


def complaint(message: str, *, code: str | None = None, kind: str = "invalid_request_error") -> dict[str, Any]:
    """An error as OpenAI's API gives it."""
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


class ChatHandler(LocalHandler):
    def read(self, body: bytes) -> dict[str, Any]:
        sent = json.loads(body)
        text, image = sent["messages"][0]["content"]
        last = sent["messages"][-1]["content"]
        head, _, data = image["image_url"]["url"].partition(",")
        return {
            "path": self.path,
            "headers": dict(self.headers),
            "body": sent,
            "question": last if isinstance(last, str) else text["text"],
            "media_type": head,
            "image": base64.b64decode(data),
            "detail": image["image_url"].get("detail"),
        }


class ChatServer(LocalServer):
    """Answers "male" unless told otherwise."""

    def __init__(self, port: int = 0) -> None:
        super().__init__(ChatHandler, port)
        self.always = answers("male")

    @property
    def base_url(self) -> str:
        return f"{self.address}/v1"


def answers(text: str | None, *, after: float = 0.0, **options: Any) -> Behaviour:
    """A proper answer, which costs money."""

    def behave(handler: ChatHandler) -> None:
        asked = handler.fields
        time.sleep(after)
        with handler.server.lock:
            handler.server.paid[sha256(asked["image"] + asked["question"].encode()).hexdigest()] += 1
        says(200, completion(text, **options))(handler)

    return behave


def sees_red(handler: ChatHandler) -> None:
    """Judges the pictures of `small_parts`: red is male, blue is female, and of green it cannot tell."""
    with Image.open(io.BytesIO(handler.fields["image"])) as opened:
        colour = int(np.asarray(opened.convert("RGB")).mean(axis=(0, 1)).argmax())
    answers(["It is a man.", "I cannot tell.", "It is a woman."][colour])(handler)


@contextmanager
def playing(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Iterator[ChatServer]:
    """A running server, with a key in the environment."""
    prepare_environment(monkeypatch, folder)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    running = ChatServer()
    add_key("OPENAI_API_KEY", Origin.of(running.address))
    thread = serving(running)
    yield running
    stop(running, thread)


def hasty(server: ChatServer, **options: Any) -> dict[str, Any]:
    """An endpoint's parameters with waits that a test can afford."""
    quick = {"requests_per_second": 1000, "first_wait": 0.01, "longest_wait": 2, "timeout": 5, "retries": 3}
    return {"base_url": server.base_url, "model": MODEL, **quick, **options}


def judge(
    server: ChatServer,
    name: str = "judge",
    *,
    questions: Any = ("gender",),
    how: dict[str, Any] | None = None,
    **options: Any,
) -> Detector:
    """A judge; `options` are the model's, `how` the judge's own."""
    assert VlmJudge
    model = {"kind": "openai", **hasty(server, **options)}
    asked = {} if questions is None else {"questions": questions}
    return build_detector("vlm_judge", name=name, parameters={"model": model, **asked, **(how or {})})


def ask(server: ChatServer, *images: Any, question: str = "Who?", **options: Any) -> list[Any]:
    """The stage's results, failures too, by one loaded function."""
    function = ChatAnswers(**hasty(server, **options), question=question).load(NOWHERE)
    return list(function(frames_of(images or (IMAGE,))))
