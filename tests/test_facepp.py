"""Face++, played by a real server on this machine that behaves and misbehaves as the API's documentation says."""

from __future__ import annotations

import io
import time
from collections.abc import Iterator
from email.utils import formatdate
from typing import Any

import numpy as np
import pytest
from facepp_server import (
    IMAGE,
    KEY,
    SECRET,
    Server,
    answer,
    ask,
    face,
    facepp,
    faces,
    fails,
    hasty,
    playing,
)
from local_server import Behaviour, garbles, resets, says, stalls
from PIL import Image
from running import found_by, judged, noise, plain

from detector_bench.detectors import build_detector
from detector_bench.errors import ConfigError
from detector_bench.perception.answers.facepp_answers import MOST_BYTES, FaceppAnswers, read_faces
from detector_bench.perception.identity import fingerprint
from detector_bench.perception.stage import StageFailure
from detector_bench.transfers import LONGEST_RETRY_AFTER, retry_after
from detector_bench.weights import WeightsLocator

NOWHERE = WeightsLocator()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with playing(monkeypatch, tmp_path_factory.mktemp("certificates")) as running:
        yield running


def failure(result: Any) -> str:
    assert isinstance(result, StageFailure), result
    return f"{result.reason}: {result.detail}"


def good(result: Any) -> bool:
    return not isinstance(result, StageFailure)


# What is sent, and what is read from the answer


def test_largest_face_is_judged(server: Server) -> None:
    server.always = faces(face(0, 0, 20, 20, "Female", 61), face(30, 5, 40, 45, "Male", 30), face(5, 5, 21, 21))
    gender, age = judged(facepp(server), [IMAGE], weights=NOWHERE)
    assert (gender.status, gender.label, gender.score) == ("clear", "male", None)
    assert (age.status, age.label, age.value) == ("clear", "middle_aged", 30.0)
    assert (
        gender.raw
        == age.raw
        == answer(face(0, 0, 20, 20, "Female", 61), face(30, 5, 40, 45, "Male", 30), face(5, 5, 21, 21))
    )


@pytest.mark.parametrize(("years", "group"), [(0, "young"), (29, "young"), (59, "middle_aged"), (60, "elderly")])
def test_age_groups(server: Server, years: int, group: str) -> None:
    server.always = faces(face(0, 0, 9, 9, "Female", years))
    gender, age = judged(facepp(server), [IMAGE], weights=NOWHERE)
    assert (gender.label, age.label, age.value) == ("female", group, float(years))


def test_image_without_a_face_is_filtered(server: Server) -> None:
    server.always = faces()
    found = judged(facepp(server), [IMAGE], weights=NOWHERE)
    assert [(each.attribute, each.status, each.reason, each.raw) for each in found] == [
        ("gender", "filtered", "no_face", answer()),
        ("age", "filtered", "no_face", answer()),
    ]


@pytest.mark.parametrize("image_format", ["png", "jpeg"])
def test_request_holds_the_image_and_what_is_asked(server: Server, image_format: str) -> None:
    ask(server, IMAGE, image_format=image_format, jpeg_quality=100)
    (fields,) = server.requests
    sent = fields.pop("image_file")
    assert fields == {
        "path": b"/facepp/v3/detect",
        "api_key": KEY.encode(),
        "api_secret": SECRET.encode(),
        "return_attributes": b"gender,age",
    }
    with Image.open(io.BytesIO(sent)) as opened:
        assert opened.format == image_format.upper()
        pixels = np.asarray(opened.convert("RGB"))
    assert pixels.shape == IMAGE.shape
    # Rounding in JPEG's colour space costs up to a few steps, even at its best quality.
    assert np.abs(pixels.astype(int) - IMAGE).max() <= (0 if image_format == "png" else 6)


def test_large_image_is_shrunk_and_its_boxes_are_scaled_back(server: Server) -> None:
    server.always = faces(face(1024, 512, 100, 200))
    (found,) = found_by(FaceppAnswers(**hasty(server)), [plain(9, 9, 9, height=2500, width=5120)], weights=NOWHERE)
    with Image.open(io.BytesIO(server.requests[0]["image_file"])) as opened:
        assert opened.size == (4096, 2000)
    # 5120 / 4096 = 2500 / 2000 = 1.25
    np.testing.assert_allclose(found["corners"], [[1280, 640, 1405, 890]])
    assert found["scores"].shape == (1,)
    assert found["landmarks"].shape == (1, 0, 2)


@pytest.mark.parametrize("image_format", ["png", "jpeg"])
def test_image_of_many_bytes_is_shrunk(image_format: str) -> None:
    stage = FaceppAnswers(image_format=image_format)
    sent = stage.sendable(noise(1400, 1400))
    assert sent is not None
    content, scale = sent
    assert 0.5 * MOST_BYTES < len(content) <= MOST_BYTES
    with Image.open(io.BytesIO(content)) as opened:
        assert scale == (1400 / opened.width, 1400 / opened.height)
        assert scale[0] > 1.05
    assert stage.sendable(noise(1400, 1400)) == sent


def test_image_that_the_api_does_not_take_is_not_sent(server: Server) -> None:
    small, thin = ask(server, noise(47, 200), noise(60, 8192))
    assert failure(small) == "too_small: 200 x 47; the API takes 48 pixels a side"
    assert failure(thin).startswith("too_small: 8192 x 60")
    assert server.requests == []
    assert good(ask(server, noise(48, 48))[0])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<html>busy</html>", "Invalid JSON"),
        ('{"faces": [', "Invalid JSON"),
        ("[]", "Input should be"),
        ('{"request_id": "1"}', "faces: Field required"),
        ('{"faces": [{}]}', "faces.0.face_rectangle: Field required"),
        (answer(face(1, 1, 0, 9)), "faces.0.face_rectangle.width: Input should be greater than 0"),
        (answer(face(1, 1, 9, 9, "male")), "faces.0.attributes.gender.value: Input should be 'Male' or 'Female'"),
        (answer(face(1, 1, 9, 9, age=-1)), "faces.0.attributes.age.value: Input should be greater"),
        (answer(face(1, 1, 9, 9)).replace('"left": 1', '"left": NaN'), "faces.0.face_rectangle.left: "),
    ],
)
def test_what_is_no_answer_is_an_error(server: Server, text: str, message: str) -> None:
    with pytest.raises(ValueError) as raised:  # noqa: PT011 - the text is looked at below
        read_faces(text)
    assert str(raised.value).startswith(message)
    server.always = says(200, text)
    assert failure(ask(server)[0]).startswith(f"invalid_answer: {message}")
    assert len(server.requests) == 1, "perhaps it was paid for: it is not asked for again"


def test_text_that_is_no_text_is_an_error(server: Server) -> None:
    server.always = garbles
    assert failure(ask(server)[0]) == "api_failed: the answer is no text in UTF-8"


def test_only_the_largest_face_needs_attributes(server: Server) -> None:
    small, large = face(0, 0, 9, 9), face(0, 0, 30, 30)
    del small["attributes"]
    assert [(each.gender, each.years) for each in read_faces(answer(small, large))] == [
        (None, None),
        ("female", 25),
    ]
    server.script = [faces(small, large)]
    assert good(ask(server)[0])
    for lost in ("gender", "age"):
        incomplete = face(0, 0, 30, 30)
        del incomplete["attributes"][lost]
        server.script = [faces(incomplete)]
        assert failure(ask(server)[0]) == (
            "invalid_answer: the answer leaves gender or age of the largest face out"
        )


# Trouble that passes


BUSY = "CONCURRENCY_LIMIT_EXCEEDED"


@pytest.mark.parametrize(
    "trouble",
    [
        [fails(403, BUSY), fails(403, BUSY)],
        [fails(500, "INTERNAL_ERROR"), says(502, "<html>bad gateway</html>"), says(503, "")],
        [fails(429, "TOO_MANY")],
        [resets, resets],
        [resets, fails(403, BUSY), fails(500, "INTERNAL_ERROR")],
    ],
)
def test_trouble_that_passes_costs_nothing_but_time(server: Server, trouble: list[Behaviour]) -> None:
    server.script = list(trouble)
    assert good(ask(server)[0])
    assert len(server.requests) == len(trouble) + 1
    assert server.paid.total() == 1


def test_silent_server_is_asked_again(server: Server) -> None:
    server.script = [stalls]
    began = time.monotonic()
    assert good(ask(server, timeout=0.2)[0])
    assert 0.2 <= time.monotonic() - began < 3
    assert len(server.requests) == 2


@pytest.mark.slow
def test_server_says_how_long_to_wait(server: Server) -> None:
    server.script = [fails(429, "TOO_MANY", Retry_After="0.4"), fails(403, BUSY, Retry_After="0.3")]
    assert good(ask(server)[0])
    first, second, third = server.times
    assert 0.4 <= second - first < 2
    assert 0.3 <= third - second < 2


def test_server_that_asks_for_a_long_wait_is_left_alone(server: Server) -> None:
    server.script = [fails(429, "TOO_MANY", Retry_After="3600")]
    began = time.monotonic()
    first, second = ask(server, IMAGE, noise(60, 80, seed=1))
    assert time.monotonic() - began < 2
    for result in (first, second):
        assert failure(result).startswith("api_failed: the API asks to be left alone for another 3,")
    assert len(server.requests) == 1


def test_waits_that_headers_name() -> None:
    assert retry_after({}) == 0
    assert retry_after({"Retry-After": "7"}) == 7
    assert retry_after({"Retry-After": "7", "Retry-After-Ms": "6500"}) == 6.5
    assert retry_after({"Retry-After": "7", "Retry-After-Ms": "soon"}) == 7
    past = formatdate(time.time() - 60, usegmt=True)
    for useless in ("soon", "-3", "-1e400", "nan", "", "Mon, 99 Foo 0000 00:00:00 GMT", past):
        assert retry_after({"Retry-After": useless}) == 0
    for endless in ("1e400", "9" * 5000, "Fri, 31 Dec 9999 23:59:59 GMT"):
        assert retry_after({"Retry-After": endless}) == LONGEST_RETRY_AFTER
    assert 58 < retry_after({"Retry-After": formatdate(time.time() + 60, usegmt=True)}) <= 60


@pytest.mark.slow
def test_waits_grow(server: Server) -> None:
    server.always = fails(500, "INTERNAL_ERROR")
    ask(server, first_wait=0.1)
    # 0.1, 0.2 and 0.4 s, each with up to 0.1 s more by chance
    assert (np.diff(server.times) >= [0.1, 0.2, 0.4]).all()
    assert server.times[-1] - server.times[0] < 2


def test_requests_keep_to_the_rate(server: Server) -> None:
    results = ask(server, *[noise(60, 80, seed=number) for number in range(5)], requests_per_second=20)
    assert all(good(result) for result in results)
    # Four gaps of 1/20 s; the first request may have been slow to arrive.
    assert 0.15 <= server.times[-1] - server.times[0] < 2


# Trouble that does not pass


def test_patience_comes_back_with_the_first_answer(server: Server) -> None:
    server.script = [*[resets] * 4, resets, fails(400, "INVALID_IMAGE_SIZE"), fails(500, "INTERNAL_ERROR")]
    lost, also_lost, refused, found = ask(server, *[noise(60, 80, seed=number) for number in range(4)])
    assert failure(lost).endswith("(after 4 attempts)")
    assert failure(also_lost).endswith("(after 1 attempt)")
    assert failure(refused) == "api_failed: INVALID_IMAGE_SIZE (HTTP 400)"
    assert good(found)


def test_trouble_that_stays_is_an_error_of_the_image(server: Server) -> None:
    server.always = fails(500, "INTERNAL_ERROR")
    assert failure(ask(server)[0]) == "api_failed: INTERNAL_ERROR (HTTP 500) (after 4 attempts)"
    assert len(server.requests) == 4


@pytest.mark.parametrize(
    ("behaviour", "reason"),
    [
        (fails(400, "IMAGE_ERROR_UNSUPPORTED_FORMAT"), "IMAGE_ERROR_UNSUPPORTED_FORMAT (HTTP 400)"),
        (fails(400, "INVALID_IMAGE_SIZE: image_file"), "INVALID_IMAGE_SIZE: image_file (HTTP 400)"),
        (fails(400, "IMAGE_FILE_TOO_LARGE: image_file"), "IMAGE_FILE_TOO_LARGE: image_file (HTTP 400)"),
        (fails(412, "IMAGE_DOWNLOAD_TIMEOUT"), "IMAGE_DOWNLOAD_TIMEOUT (HTTP 412)"),
        (says(413, "Request Entity Too Large"), "Request Entity Too Large (HTTP 413)"),
        (says(403, "<html>no</html>"), "Forbidden (HTTP 403)"),
        (says(302, "", Location="/elsewhere"), "Found (HTTP 302)"),
        (fails(200, "SOMETHING_ODD"), "SOMETHING_ODD (HTTP 200)"),
        (fails(400, "x" * 5000), "x" * 200 + "..."),
    ],
)  # fmt: skip
def test_refused_image_costs_no_other(server: Server, behaviour: Behaviour, reason: str) -> None:
    server.script = [behaviour]
    refused, other = ask(server, IMAGE, noise(60, 80, seed=1))
    assert failure(refused) == f"api_failed: {reason}"
    assert good(other)
    assert {fields["path"] for fields in server.requests} == {b"/facepp/v3/detect"}
    assert len(server.requests) == 2


def test_wrong_endpoint_stops_the_run(server: Server) -> None:
    server.always = fails(404, "API_NOT_FOUND")
    with pytest.raises(ConfigError, match=r"there is no Face\+\+ API at the endpoint http://127.*API_NOT_FOUND"):
        ask(server)


# The declaration


def test_fingerprint_holds_what_decides_an_answer_and_no_more() -> None:
    def of(**options: Any) -> str:
        return fingerprint(FaceppAnswers(**options), weights=NOWHERE)

    pace = {"requests_per_second": 5, "retries": 1, "timeout": 3, "first_wait": 0.5, "longest_wait": 9}
    assert of(**pace) == of()
    assert FaceppAnswers(**pace) == FaceppAnswers()
    decisive: list[dict[str, Any]] = [
        {},
        {"endpoint": "https://api-cn.faceplusplus.com/facepp/v3/detect"},
        {"image_format": "png"},
        {"jpeg_quality": 90},
    ]
    assert len({of(**options) for options in decisive}) == len(decisive)
    assert len({FaceppAnswers(**options) for options in decisive}) == len(decisive)


@pytest.mark.parametrize(
    ("endpoint", "message"),
    [
        ("api-us.faceplusplus.com", "begins with https://"),
        ("http://api-us.faceplusplus.com/facepp/v3/detect", "readable by anyone"),
        ("https://me:word@api-us.faceplusplus.com/", "no user name, query or fragment"),
        ("https://api-us.faceplusplus.com/?api_key=1", "no user name, query or fragment"),
    ],
)
def test_endpoint_that_would_give_the_key_away_is_refused(endpoint: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        build_detector("facepp", parameters={"answers": {"endpoint": endpoint}})
