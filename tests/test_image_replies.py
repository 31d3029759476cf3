"""What comes of each reply of an images API: an image, a refusal, an error, another attempt, or the end."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from image_asking import KEY, USAGE, elsewhere, made, playing, wanted
from image_faults import complains, says, sends, stalls
from image_service import ImageService
from service_pictures import picture

from detector_bench.errors import DetectorBenchError
from detector_bench.generation.image_files import checked
from detector_bench.generation.image_requests import Blocked, Failed, Made
from detector_bench.trust import Origin, add_key


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ImageService]:
    with playing(monkeypatch, tmp_path) as running:
        yield running


REFUSED = {
    "moderation": "moderation_blocked: Your request was rejected by the safety system.",
    "policy": "content_policy_violation: Your request was rejected",
    "no_image": "no_image: ",
    "finish_reason": "content_filter: finish_reason is content_filter",
    "filtered": "content_filter: sexual",
    "filtered_image": "content_filter: sexual",
    "black": "safety_checker: nsfw_content_detected is true",
}


@pytest.mark.parametrize("fault", REFUSED)
def test_refusals_are_blocked_and_asked_once(service: ImageService, fault: str) -> None:
    outcome = made(service, f"fault:{fault}")
    assert isinstance(outcome, Blocked)
    assert outcome.reason.startswith(REFUSED[fault])
    assert len(service.requests) == 1


@pytest.mark.parametrize(
    ("fault", "seconds"), [("busy", 1.0), ("busy_without_date", 0.0), ("overloaded", 0.0), ("broken", 0.0)]
)
def test_busy_services_are_asked_again(service: ImageService, fault: str, seconds: float) -> None:
    assert isinstance(made(service, f"fault:{fault}"), Made)
    first, second = service.requests
    assert second.headers["idempotency-key"] == first.headers["idempotency-key"]
    assert seconds <= service.times[1] - service.times[0] < seconds + 3
    assert service.paid.total() == 1


DOUBTFUL = {
    "gateway": "Bad Gateway (HTTP 502)",
    "cut": "RemoteProtocolError",
    "reset": "ReadError",
    "unreadable": "the reply is no JSON: 'no JSON'",
    "nested": "the reply is no JSON",
    "not_base64": "the image is no base64",
    "html": "the content is a web page",
    "svg": "the content is an SVG drawing",
    "json": "the content is text",
    "bomb": "too_large: 60000 x 60000",
    "huge": "the limit is",
}


@pytest.mark.parametrize("fault", DOUBTFUL)
def test_what_may_be_paid_for_is_not_asked_again(service: ImageService, fault: str) -> None:
    outcome = checked(made(service, f"fault:{fault}"), may_cost=True)
    assert isinstance(outcome, Failed)
    assert DOUBTFUL[fault] in outcome.reason
    assert outcome.may_have_been_paid
    assert (len(service.requests), service.paid.total()) == (1, 1)


def test_time_out_is_not_asked_again_where_it_costs(service: ImageService) -> None:
    outcome = made(service, "fault:stalls", timeout=0.2)
    assert isinstance(outcome, Failed)
    assert (outcome.reason, outcome.may_have_been_paid, service.paid.total()) == ("ReadTimeout", True, 1)
    service.script = [stalls]
    assert isinstance(made(service, timeout=0.2, price=None), Made)
    assert len(service.requests) == 3


def test_trouble_that_stays_is_an_error(service: ImageService) -> None:
    service.script = [complains(500, "oh no", kind="server_error")] * 4
    outcome = made(service)
    assert isinstance(outcome, Failed)
    assert outcome.reason == "oh no (HTTP 500) (after 4 attempts)"
    assert not outcome.may_have_been_paid
    rejected = made(service, "fault:too_long")
    assert isinstance(rejected, Failed)
    assert not rejected.may_have_been_paid


@pytest.mark.parametrize(
    ("behaviour", "message"),
    [
        (complains(401, "Incorrect API key", code="invalid_api_key"), "refuses a request without a key"),
        (complains(429, "You exceeded your quota", code="insufficient_quota"), "You exceeded your quota"),
        (complains(400, "Billing hard limit", code="billing_hard_limit_reached"), "Billing hard limit"),
        (complains(403, "Your resource has been temporarily blocked, see our content policy"), "blocked"),
        (complains(404, "The model 'm' does not exist", code="model_not_found"), "has no such model"),
        (complains(400, "Unknown parameter: 'sede'", code="unknown_parameter", param="sede"), "Unknown parameter"),
        (
            complains(400, "Invalid value: '1x1'", code="invalid_value", param="size"),
            "does not take such requests",
        ),
        (says(422, {"detail": [{"loc": ["body", "size"], "msg": "bad", "type": "x"}]}), "size: bad (HTTP 422)"),
        (says(302, "", Location="https://elsewhere.example/"), "redirects to"),
        (complains(429, "Later", Retry_After="3600"), "asks to be left alone for another 3,600 s"),
    ],
)
def test_what_holds_for_all_requests_ends_the_run(service: ImageService, behaviour: Any, message: str) -> None:
    service.script = [behaviour]
    with pytest.raises(DetectorBenchError, match=message.replace("(", r"\(").replace(")", r"\)")) as raised:
        made(service)
    assert "\n" not in str(raised.value)
    assert len(service.requests) == 1


def test_nobody_there_ends_the_run(service: ImageService) -> None:
    with pytest.raises(
        DetectorBenchError, match=r"Connection refused.*after 3 attempts.*what was made before is kept"
    ):
        made(service, base_url="http://127.0.0.1:9/v1", retries=2)


def test_tokens_are_paid_as_they_are_counted(service: ImageService) -> None:
    service.told = {"usage": USAGE}
    prices = {"text_input": 5, "image_input": 10, "image_output": 40}
    outcome = made(service, price=None, prices=prices)
    assert isinstance(outcome, Made)
    assert outcome.cost == pytest.approx((10 * 5 + 40 * 10 + 200 * 40) / 1e6)
    service.told = {"usage": {"input_tokens": "many"}}
    unknown = made(service, price=None, prices=prices)
    assert isinstance(unknown, Made)
    assert unknown.cost is None
    service.script = [sends("<html>")]
    service.told = {"usage": USAGE}
    lost = checked(made(service, price=None, prices=prices), may_cost=True)
    assert isinstance(lost, Failed)
    assert lost.cost == outcome.cost


def test_most_that_an_image_may_cost() -> None:
    prices = {"text_input": 5, "image_input": 10, "image_output": 40}
    most = elsewhere(prices=prices).most_it_costs(wanted())
    assert most is not None
    assert 6_240 * 40 / 1e6 < most < 0.3
    assert elsewhere(prices=prices, model="gpt-image-2").most_it_costs(wanted()) is None
    bounded = elsewhere(prices={**prices, "most_output_tokens": 10_000}, model="gpt-image-2", edit=True)
    assert (bounded.most_it_costs(wanted()) or 0) > 0.4
    assert elsewhere(price=0.04).most_it_costs(wanted()) == 0.04
    assert elsewhere().most_it_costs(wanted()) is None


# Images that are fetched


def test_image_is_fetched_without_the_key(service: ImageService, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    add_key("OPENAI_API_KEY", Origin.of(service.address))
    outcome = made(service, response_format="url")
    assert isinstance(outcome, Made)
    assert outcome.content == picture(service.requests[0].identity.encode())
    (fetched,) = service.fetched
    assert "authorization" not in fetched
    service.script = [says(200, {"data": [{"url": f"/files/{service.requests[0].identity}.png"}]})]
    relative = made(service)
    assert isinstance(relative, Made)
    assert relative.content == outcome.content


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("http://images.example/1.png", "which is not https://"),
        ("https://127.0.0.1:9/1.png", "in a private network"),
        ("https://[::ffff:169.254.169.254]/latest", "in a private network"),
        ("https://10.0.0.1/1.png", "in a private network"),
        ("https://[2002:7f00:1::]/6to4", "in a private network"),
        ("https://[64:ff9b::a00:1]/translated", "in a private network"),
        ("file:///etc/passwd", "names no address of an image"),
        ("https://a@b@c/", "names no address of an image"),
        ("/files/none.png", "did not come: HTTP 404"),
    ],
)
def test_services_do_not_say_where_this_machine_goes(service: ImageService, url: str, reason: str) -> None:
    service.script = [says(200, {"data": [{"url": url}]})]
    outcome = made(service, retries=1)
    assert isinstance(outcome, Failed)
    assert reason in outcome.reason
    assert outcome.may_have_been_paid


def test_image_may_come_as_a_data_address(service: ImageService) -> None:
    image = picture(b"x")
    packed = base64.b64encode(image).decode()
    service.script = [says(200, {"data": [{"url": f"data:image/png;base64,{packed}"}]})]
    outcome = made(service)
    assert isinstance(outcome, Made)
    assert outcome.content == image


def test_a_service_that_repeats_the_key_tells_nobody(
    service: ImageService, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    add_key("OPENAI_API_KEY", Origin.of(service.address))
    entry = {"b64_json": base64.b64encode(picture(b"x")).decode(), "revised_prompt": f"a photo, Bearer {KEY}"}
    service.script = [
        says(200, {"data": [entry]}, X_Key=KEY),
        complains(400, f"no {KEY}", code="moderation_blocked"),
        complains(400, f"no {KEY}"),
        complains(401, f"no {KEY}"),
    ]
    told = [str(made(service)) for _ in range(3)]
    with pytest.raises(DetectorBenchError) as raised:
        made(service)
    assert "Bearer (hidden)" in told[0]
    assert KEY not in "".join((*told, str(raised.value), caplog.text))
