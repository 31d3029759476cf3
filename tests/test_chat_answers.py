"""The stage `chat_answers`, asked on a real server on this machine that behaves and misbehaves."""

from __future__ import annotations

import io
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from chat_server import IMAGE, KEY, MODEL, ChatServer, answers, ask, complaint, completion, hasty, judge, playing
from local_server import Behaviour, garbles, resets, says, serving, stalls, stop
from PIL import Image
from running import frames_of, noise, plain

from detector_bench.errors import ConfigError, DetectorBenchError
from detector_bench.perception.answers.chat_answers import ChatAnswers, TokenPrices, TokenUse, token_use
from detector_bench.perception.answers.generated_answers import answer_of
from detector_bench.perception.identity import fingerprint
from detector_bench.perception.stage import StageFailure
from detector_bench.trust import Origin, add_key
from detector_bench.weights import WeightsFile, WeightsLocator
from detector_bench.weights.download import download

NOWHERE = WeightsLocator()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChatServer]:
    with playing(monkeypatch, tmp_path_factory.mktemp("certificates")) as running:
        yield running


def failure(result: Any) -> str:
    assert isinstance(result, StageFailure), result
    return f"{result.reason}: {result.detail}"


def said(result: Any) -> str:
    assert not isinstance(result, StageFailure), result
    return answer_of(result)


# What is sent, and what comes back


def test_request_is_a_chat_completion_with_the_image_inside(server: ChatServer) -> None:
    ask(server, image_format="png", question="Male or female?", seed=7, detail="low", request_fields={"top_k": 1})
    (request,) = server.requests
    assert request["path"] == "/v1/chat/completions"
    assert request["headers"]["Authorization"] == f"Bearer {KEY}"
    assert request["question"] == "Male or female?"
    assert (request["media_type"], request["detail"]) == ("data:image/png;base64", "low")
    with Image.open(io.BytesIO(request["image"])) as opened:
        assert (np.asarray(opened) == IMAGE).all()
    body = request["body"]
    assert [message["role"] for message in body.pop("messages")] == ["user"]
    assert body == {"model": MODEL, "temperature": 0.0, "max_tokens": 50, "seed": 7, "top_k": 1}


def test_fields_that_are_null_are_left_out(server: ChatServer) -> None:
    ask(server, temperature=None, max_tokens=None, request_fields={"max_completion_tokens": 2000})
    assert set(server.requests[0]["body"]) == {"model", "messages", "max_completion_tokens"}
    assert server.requests[0]["detail"] is None


@pytest.mark.parametrize(
    ("options", "size"),
    [({}, (1024, 256)), ({"longest_side": 64}, (64, 16)), ({"longest_side": None}, (2048, 512))],
)
def test_large_image_is_shrunk(server: ChatServer, options: dict[str, Any], size: tuple[int, int]) -> None:
    ask(server, plain(90, 20, 200, height=512, width=2048), **options)
    with Image.open(io.BytesIO(server.requests[0]["image"])) as opened:
        assert (opened.format, opened.size) == ("JPEG", size)
        assert np.abs(np.asarray(opened).mean(axis=(0, 1)) - (90, 20, 200)).max() < 3


def test_answer_is_kept_as_it_came(server: ChatServer) -> None:
    text = " It's a \N{WOMAN}\n\nwoman. "
    parts = [{"type": "text", "text": "It's a"}, {"type": "text", "text": " man"}]
    server.script = [answers(text), says(200, completion("", message={"content": parts})), answers("")]
    first, second, empty = ask(server, IMAGE, noise(40, 60, seed=1), noise(40, 60, seed=2))
    assert [said(first), said(second), said(empty)] == [text, "It's a man", ""]
    assert (first["refused"], first["tokens"].tolist()) == (0, [300, 4])


@pytest.mark.parametrize(
    "answer",
    [
        completion(None, message={"content": None, "refusal": "I can't judge people."}),
        completion("I can't judge people.", finish_reason="content_filter"),
    ],
)
def test_refusal_is_an_answer(server: ChatServer, answer: dict[str, Any]) -> None:
    server.always = says(200, answer)
    (found,) = ask(server)
    assert (said(found), found["refused"]) == ("I can't judge people.", 1)


@pytest.mark.parametrize(
    ("behaviour", "message"),
    [
        (says(200, "<html>busy</html>"), "Invalid JSON"),
        (says(200, '{"choices": ['), "Invalid JSON"),
        (says(200, {"object": "chat.completion"}), "choices: Field required"),
        (says(200, {"choices": []}), "choices: List should have at least 1 item"),
        (says(200, {"choices": [{"index": 0}]}), "choices.0.message: Field required"),
        (says(200, completion(None, message={"content": 5})), "choices.0.message.content"),
        (says(200, completion("", finish_reason="length")), "the answer ended before its first word"),
        (garbles, "Invalid JSON"),
    ],
)
def test_what_is_no_answer_is_an_error(server: ChatServer, behaviour: Behaviour, message: str) -> None:
    server.script = [behaviour]
    lost, other = ask(server, IMAGE, noise(40, 60, seed=1))
    assert failure(lost).startswith(f"invalid_answer: {message}")
    assert said(other) == "male"
    assert len(server.requests) == 2, "perhaps it was paid for: it is not asked for again"


# Trouble that passes


@pytest.mark.parametrize(
    "trouble",
    [
        [says(429, complaint("Rate limit reached", code="rate_limit_exceeded"))] * 3,
        [says(500, complaint("The server had an error")), says(502, "<html>bad gateway</html>"), says(529, "")],
        [says(408, ""), says(409, ""), resets],
        [stalls],
    ],
)
def test_trouble_that_passes_costs_nothing_but_time(server: ChatServer, trouble: list[Behaviour]) -> None:
    server.script = list(trouble)
    assert said(ask(server, timeout=0.3)[0]) == "male"
    assert len(server.requests) == len(trouble) + 1
    assert server.paid.total() == 1


def test_server_says_how_long_to_wait(server: ChatServer) -> None:
    server.script = [says(429, complaint("Slow down"), Retry_After="0.4")]
    assert said(ask(server)[0]) == "male"
    assert 0.4 <= server.times[1] - server.times[0] < 3


def test_trouble_that_stays_is_an_error_of_the_image(server: ChatServer) -> None:
    server.script = [says(500, complaint("oh no"))] * 4
    lost, other = ask(server, IMAGE, noise(40, 60, seed=1))
    assert failure(lost) == "api_failed: oh no (HTTP 500) (after 4 attempts)"
    assert said(other) == "male"


@pytest.mark.parametrize(
    ("behaviour", "reason"),
    [
        (says(400, complaint("Not this one.", code="content_policy_violation")), "Not this one. (HTTP 400)"),
        (says(413, "Request Entity Too Large"), "Request Entity Too Large (HTTP 413)"),
        (says(400, {"object": "error", "message": "No images", "code": 400}), "No images (HTTP 400)"),
        (says(422, {"error": "no such thing"}), "no such thing (HTTP 422)"),
        (says(400, {"detail": "Another model."}), "Another model. (HTTP 400)"),
        (says(422, {"detail": [{"loc": ["body"]}]}), "Unprocessable Entity (HTTP 422)"),
    ],
)  # fmt: skip
def test_refused_image_costs_no_other(server: ChatServer, behaviour: Behaviour, reason: str) -> None:
    server.script = [behaviour]
    refused, other = ask(server, IMAGE, noise(40, 60, seed=1))
    assert failure(refused) == f"api_failed: {reason}"
    assert said(other) == "male"


# Trouble that would meet every image


@pytest.mark.parametrize(
    ("behaviour", "message"),
    [
        (says(401, complaint("Wrong", code="invalid_api_key")), "refuses the key in OPENAI_API_KEY: Wrong"),
        (says(403, "<html>no</html>"), "refuses the key in OPENAI_API_KEY: Forbidden"),
        (says(402, complaint("Insufficient Balance")), "refuses the key in OPENAI_API_KEY: Insufficient Balance"),
        (says(429, complaint("You exceeded your quota", code="insufficient_quota")), "You exceeded your quota"),
        (says(404, complaint("No model `x`", code="model_not_found")), "has no such model.*No model `x`"),
        (says(405, ""), "is no chat completions API"),
        (says(400, complaint("No seed!", code="unsupported_parameter")), "does not take such requests: No seed!"),
        (says(308, "", Location="/elsewhere"), "redirects to '/elsewhere', where no key is sent"),
    ],
)  # fmt: skip
def test_trouble_of_every_image_stops_the_run(server: ChatServer, behaviour: Behaviour, message: str) -> None:
    server.script = [answers("male"), behaviour]
    with pytest.raises(DetectorBenchError, match=message) as raised:
        ask(server, IMAGE, noise(40, 60, seed=1), noise(40, 60, seed=2))
    assert "\n" not in str(raised.value)
    assert len(server.requests) == 2
    assert raised.value.__cause__ is raised.value.__context__ is None


def test_server_that_is_not_there_stops_the_run(server: ChatServer) -> None:
    server.socket.close()
    with pytest.raises(DetectorBenchError, match=r"nobody answers at .*ConnectError.* \(after 2 attempts\)"):
        ask(server, retries=1)


# Several at once


def test_several_threads_share_one_pace_and_pay_once(server: ChatServer) -> None:
    server.always = answers("female", after=0.3)
    images = [noise(40, 60, seed=number) for number in (0, 1, 2, 3, 0, 1)]
    function = ChatAnswers(**hasty(server, requests_per_second=20), question="Who?").load(NOWHERE)
    with ThreadPoolExecutor(6) as pool:
        results = list(pool.map(lambda frame: function([frame])[0], frames_of(images)))
    assert [said(result) for result in results] == ["female"] * 6
    assert sorted(server.paid.values()) == [1] * 4
    assert server.most_at_once >= 3
    # Three gaps of 1/20 s; the first request may have been slow to arrive.
    assert server.times[-1] - server.times[0] >= 0.08


# The declaration


def test_only_others_are_spared(server: ChatServer) -> None:
    def most(**options: Any) -> float:
        return ChatAnswers(**{"model": "m", "question": "?", **options}).pace.requests_per_second

    assert most(base_url=server.base_url) == float("inf")
    assert most(base_url="https://a.example/v1") == 10
    assert most(base_url=server.base_url, requests_per_second=2) == 2


def test_fingerprint_holds_what_decides_an_answer_and_no_more() -> None:
    def stage(**options: Any) -> ChatAnswers:
        return ChatAnswers(**{"base_url": "https://a.example/v1", "model": "m", "question": "?", **options})

    pace = {"requests_per_second": 5, "retries": 1, "timeout": 3, "first_wait": 0.5, "longest_wait": 9}
    others = {
        "concurrency": 9,
        "key_variable": "OTHER",
        "allow_http": True,
        "prices": {"prompt": 1, "completion": 2},
    }
    assert stage(**pace, **others) == stage(base_url="https://a.example/v1/")
    decisive: list[dict[str, Any]] = [
        {},
        {"base_url": "https://b.example/v1"},
        {"model": "n"},
        {"question": "??"},
        {"temperature": 1},
        {"max_tokens": 9},
        {"seed": 1},
        {"request_fields": {"top_p": 0.5}},
        {"image_format": "png"},
        {"jpeg_quality": 90},
        {"longest_side": 512},
        {"detail": "low"},
    ]
    assert len({stage(**options) for options in decisive}) == len(decisive)
    assert len({fingerprint(stage(**options), weights=NOWHERE) for options in decisive}) == len(decisive)
    assert fingerprint(stage(**pace, **others), weights=NOWHERE) == fingerprint(stage(), weights=NOWHERE)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"base_url": "api.example/v1"}, "begins with https://"),
        ({"base_url": "http://api.example/v1"}, "readable by anyone .`allow_http: true` allows it"),
        ({"base_url": "https://me:word@api.example/v1"}, "no user name, query or fragment"),
        ({"base_url": "https://api.example/v1?key=1"}, "no user name, query or fragment"),
        ({"base_url": "https://[api"}, "begins with https://"),
        ({"base_url": "https://api.example:port/v1"}, "begins with https://"),
        ({"request_fields": {"stream": True}}, "'stream' is not set by request_fields"),
        ({"modle": "x"}, "unknown key 'modle': did you mean 'model'"),
        ({"key_variable": "sk-1234"}, "key_variable"),
    ],
)
def test_wrong_settings_are_refused(server: ChatServer, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as raised:
        judge(server, **options)
    assert "word" not in str(raised.value)


def test_plain_http_needs_a_word() -> None:
    options = {"base_url": "http://10.0.0.5:8000/v1", "model": "m", "question": "?"}
    assert ChatAnswers(**options, allow_http=True).base_url == "http://10.0.0.5:8000/v1"
    assert ChatAnswers(**{**options, "base_url": "http://localhost:11434/v1"}).base_url.endswith("11434/v1")


def test_key_is_needed_only_elsewhere(server: ChatServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    assert said(ask(server)[0]) == "male"
    assert "Authorization" not in server.requests[0]["headers"]
    far = ChatAnswers(base_url="https://a.example/v1", model="m", question="?", key_variable="FAR_KEY")
    (line,) = far.missing_settings()
    assert line.startswith(
        "the environment variable FAR_KEY is not set; set it to the key for https://a.example/v1"
    )
    with pytest.raises(ConfigError, match="FAR_KEY is not set"):
        far.load(NOWHERE)
    (line,) = far.model_copy(update={"key_variable": None}).missing_settings()
    assert line.startswith("images may not be sent to https://a.example")
    monkeypatch.setenv("FAR_KEY", "two words")
    add_key("FAR_KEY", Origin.of("a.example"))
    assert far.missing_settings() == far.model_copy(update={"key_variable": None}).missing_settings() == ()
    with pytest.raises(ConfigError, match="FAR_KEY holds no key") as raised:
        far.load(NOWHERE)
    assert "two words" not in str(raised.value)


# What it cost


def test_token_use_adds_up(server: ChatServer) -> None:
    server.script = [answers("a", tokens=(300, 4)), answers("b", tokens=None), answers("c", tokens=(700, 1))]
    use = token_use(ask(server, *[noise(40, 60, seed=number) for number in range(3)]))
    assert use == TokenUse(answers=3, prompt_tokens=1000, completion_tokens=5, untold=1)
    # 1000 x 2.5 / 10^6 + 5 x 10 / 10^6
    assert use.cost(TokenPrices(prompt=2.5, completion=10)) == pytest.approx(0.00255)
    assert token_use([]) == TokenUse(0, 0, 0, 0)


# What the environment says of proxies and certificates


def test_what_is_meant_for_this_machine_goes_through_no_proxy(
    server: ChatServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy = ChatServer()
    thread = serving(proxy)
    monkeypatch.delenv("NO_PROXY")
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, proxy.address)
    try:
        (answer,) = ask(server)
    finally:
        stop(proxy, thread)
    assert bytes(answer["answer"]) == b"male"
    assert (len(server.requests), proxy.requests) == (1, [])


@pytest.mark.parametrize(
    ("variable", "value", "why"),
    [
        ("ALL_PROXY", "socks5://user:hunter22@proxy.example", r"pip install 'httpx\[socks\]'"),
        ("HTTPS_PROXY", "http://user:hunter22@proxy.example:port", "InvalidURL"),
        ("ALL_PROXY", "gopher://user:hunter22@proxy.example", "ValueError"),
        ("SSL_CERT_FILE", "/no/such/file.pem", "No such file"),
    ],
)
def test_an_environment_that_allows_no_connection_stops_the_run_with_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, variable: str, value: str, why: str
) -> None:
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv(variable, value)
    stage = ChatAnswers(base_url="https://api.openai.com/v1", model=MODEL, question="?")
    with pytest.raises(
        ConfigError, match=rf"no connection can be made, because of .*{variable}.*: .*{why}"
    ) as found:
        stage.load(NOWHERE)
    assert "hunter22" not in str(found.value)
    file = WeightsFile(path="a.onnx", url="https://files.example/a.onnx", sha256="0" * 64)
    with pytest.raises(ConfigError, match="no connection can be made"):
        download(file, tmp_path)
