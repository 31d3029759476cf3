"""Whole runs on Face++: nothing is paid for twice, and the key gets nowhere."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import pyarrow.parquet as pq
import pytest
from facepp_server import IMAGE, KEY, SECRET, Handler, Server, answer, ask, face, facepp, fails, hasty, playing
from local_server import Behaviour, pulls_the_plug, resets, says, serving, stalls, stop
from running import noise
from small_parts import image_name, picture, small_run, write_tables

from detector_bench.errors import ConfigError, DetectorBenchError, RunInterruptedError
from detector_bench.perception.answers.facepp_answers import FaceppAnswers
from detector_bench.perception.answers.facepp_client import Credentials
from detector_bench.runner.readiness import lacking
from detector_bench.weights import WeightsLocator

pytestmark = pytest.mark.slow

NOWHERE = WeightsLocator()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with playing(monkeypatch, tmp_path_factory.mktemp("certificates")) as running:
        yield running


# Whole runs: nothing is paid for twice


def image_set(folder: Path, count: int) -> Path:
    """Images that the API would take, in a folder with tables."""
    images = folder / "images"
    (images / "images").mkdir(parents=True)
    for number in range(count):
        path = images / "images" / f"{image_name(number)}.png"
        picture(number, size=(64, 56)).save(path)
        os.utime(path, (1_700_000_000, 1_700_000_000))
    write_tables(images, range(count))
    return images


def rows(out: Path, name: str = "facepp") -> list[dict[str, Any]]:
    return sorted(pq.read_table(out / name).to_pylist(), key=lambda row: (row["image_id"], row["attribute"]))


def statuses(out: Path) -> Counter[str]:
    return Counter(row["status"] for row in rows(out))


def test_run_and_run_again(server: Server, tmp_path: Path) -> None:
    images, out = image_set(tmp_path, 6), tmp_path / "out"
    small_run(images, out, facepp(server))
    assert statuses(out) == {"clear": 12}
    small_run(images, out, facepp(server))
    small_run(images, tmp_path / "other", facepp(server, "another", requests_per_second=500, retries=0))
    assert sorted(server.paid.values()) == [1] * 6
    assert {row["label"] for row in rows(tmp_path / "other", "another")} == {"female", "young"}


def test_detectors_that_differ_in_pace_share_what_is_paid(server: Server, tmp_path: Path) -> None:
    images = image_set(tmp_path, 5)
    small_run(images, tmp_path / "out", facepp(server), facepp(server, "slow", requests_per_second=50, timeout=9))
    assert sorted(server.paid.values()) == [1] * 5


def test_same_image_twice_is_paid_once(server: Server) -> None:
    first, _, again = ask(server, IMAGE, noise(60, 80, seed=1), IMAGE)
    assert (first["answer"] == again["answer"]).all()
    assert len(server.requests) == 2


def test_failed_answer_is_not_kept(server: Server, tmp_path: Path) -> None:
    images, out = image_set(tmp_path, 4), tmp_path / "out"
    server.script = [server.always, fails(400, "INVALID_IMAGE_SIZE: image_file"), says(200, "{")]
    small_run(images, out, facepp(server))
    assert statuses(out) == {"clear": 4, "error": 4}
    reasons = {row["image_id"]: row["reason"] for row in rows(out) if row["status"] == "error"}
    assert reasons[image_name(1)] == "api_failed: INVALID_IMAGE_SIZE: image_file (HTTP 400)"
    assert reasons[image_name(2)].startswith("invalid_answer: Invalid JSON")
    small_run(images, out, facepp(server))
    assert statuses(out) == {"clear": 8}
    assert sorted(server.paid.values()) == [1] * 4


def test_interrupted_run_goes_on_without_paying_again(server: Server, tmp_path: Path) -> None:
    images, out = image_set(tmp_path, 8), tmp_path / "out"

    def interrupts(handler: Handler) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        stalls(handler)

    server.script = [*[server.always] * 5, interrupts]
    with pytest.raises(RunInterruptedError):
        small_run(images, out, facepp(server), batch_size=8)
    server.released.set()
    assert server.paid.total() == 5
    small_run(images, out, facepp(server), batch_size=8)
    assert statuses(out) == {"clear": 16}
    assert sorted(server.paid.values()) == [1] * 8


def test_network_that_goes_down_in_the_middle(server: Server, tmp_path: Path) -> None:
    images, out = image_set(tmp_path, 9), tmp_path / "out"
    port = server.server_address[1]
    detector = facepp(server, retries=2)

    server.script = [*[server.always] * 3, pulls_the_plug]
    began = time.monotonic()
    small_run(images, out, detector)
    assert time.monotonic() - began < 3
    assert statuses(out) == {"clear": 6, "error": 12}
    reasons = {row["image_id"]: row["reason"] for row in rows(out) if row["status"] == "error"}
    assert reasons[image_name(3)].endswith("Connection refused (after 3 attempts)")
    # While nobody answers at all, one attempt is enough to see it.
    assert reasons[image_name(4)].endswith("Connection refused (after 1 attempt)")
    assert all(reason.startswith("api_failed: ConnectError: ") for reason in reasons.values())
    later = Server(port)
    thread = serving(later)
    try:
        small_run(images, out, detector)
    finally:
        stop(later, thread)
    assert statuses(out) == {"clear": 18}
    assert sorted((server.paid + later.paid).values()) == [1] * 9
    assert len(later.requests) == 6


@pytest.mark.parametrize(
    ("behaviour", "reason"),
    [
        (fails(401, "AUTHENTICATION_ERROR"), "AUTHENTICATION_ERROR (HTTP 401)"),
        (fails(403, "AUTHORIZATION_ERROR: Denied by Admin"), "AUTHORIZATION_ERROR: Denied by Admin (HTTP 403)"),
        (says(401, f"who is {KEY}?"), "Unauthorized (HTTP 401)"),
        (fails(401, f"AUTHENTICATION_ERROR {KEY} {SECRET}"), "AUTHENTICATION_ERROR (hidden) (hidden) (HTTP 401)"),
    ],
)
def test_refused_key_stops_the_run(server: Server, tmp_path: Path, behaviour: Behaviour, reason: str) -> None:
    images = image_set(tmp_path, 4)
    server.script = [server.always, server.always, behaviour]
    with pytest.raises(DetectorBenchError) as raised:
        small_run(images, tmp_path / "out", facepp(server))
    assert str(raised.value).startswith(
        f"Face++ refuses the key in FACEPP_API_KEY and FACEPP_API_SECRET: {reason}; "
    )
    assert len(server.requests) == 3
    small_run(images, tmp_path / "out", facepp(server))
    assert sorted(server.paid.values()) == [1, 1, 1, 1]


# Key and secret


@pytest.mark.parametrize("name", ["FACEPP_API_KEY", "FACEPP_API_SECRET"])
@pytest.mark.parametrize("value", [None, "  "])
def test_missing_key_is_named_before_anything_is_done(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str | None
) -> None:
    if value is None:
        monkeypatch.delenv(name)
    else:
        monkeypatch.setenv(name, value)
    (line,) = lacking(facepp(server), weights=NOWHERE)
    assert line.startswith(f"the environment variable {name} is not set; set it to the API ")
    for attempt in (
        lambda: small_run(image_set(tmp_path, 2), tmp_path / "out", facepp(server)),
        lambda: FaceppAnswers(**hasty(server)).load(NOWHERE),
    ):
        with pytest.raises(ConfigError) as raised:
            attempt()
        assert str(raised.value) == line
    assert server.requests == []


def test_ready_with_both(server: Server) -> None:
    assert lacking(facepp(server), weights=NOWHERE) == []


def holding_the_key(folder: Path) -> list[Path]:
    return [
        path
        for path in folder.rglob("*")
        if path.is_file() and any(secret.encode() in path.read_bytes() for secret in (KEY, SECRET))
    ]


def tells_everything(handler: Handler) -> None:
    """Repeats the request's own fields, in answers, in errors and in the status line."""
    said = f"{handler.fields['api_key'].decode()} {handler.fields['api_secret'].decode()}"
    turn = len(handler.server.requests) % 4
    if turn == 0:
        handler.reply(200, answer({**face(1, 1, 9, 9), "face_token": said}))
    elif turn == 1:
        fails(400, f"BAD_ARGUMENTS: {said}")(handler)
    elif turn == 2:
        handler.reply(200, f'{{"faces": [{{"face_rectangle": "{said}"}}]}}')
    else:
        handler.send_response(418, said)
        handler.send_header("Content-Length", "0")
        handler.end_headers()


STUDY = """\
image_set: images
detectors:
  - kind: facepp
    answers: {{endpoint: "{endpoint}", requests_per_second: 1000, retries: 2, first_wait: 0.01, timeout: 2}}
"""


@pytest.mark.parametrize("end", ["well", "refused", "crash"])
def test_key_gets_nowhere(server: Server, tmp_path: Path, end: str) -> None:
    image_set(tmp_path, 6)
    (tmp_path / "study.yaml").write_text(STUDY.format(endpoint=server.endpoint))
    server.always = tells_everything
    said = f"{KEY} {SECRET}"
    if end == "refused":
        server.script = [resets, fails(500, said), fails(429, said), fails(401, f"AUTHENTICATION_ERROR: {said}")]
    # A plain Python program shows the whole chain of exceptions; "crash" lets one fall out of the client itself.
    code = f"""
        import logging, sys
        from pathlib import Path
        logging.basicConfig(level=logging.DEBUG)
        from detector_bench.perception.answers import facepp_client
        from detector_bench.study import Study
        if {end == "crash"!r}:
            facepp_client._error_message = lambda response: 1 / 0
        study = Study.from_yaml(Path("study.yaml"))
        print(study, study.build_detectors())
        study.run(Path("out"))
    """
    environment = {**os.environ, "DETECTOR_BENCH_CACHE": str(tmp_path / "cache")}
    done = subprocess.run(
        [sys.executable, "-c", dedent(code)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ("refuses the key" in done.stderr) == (end == "refused"), done.stderr
    assert "POST" in done.stderr, "httpx's own log is part of what is looked through"
    assert server.requests
    for secret in (KEY, SECRET):
        assert secret not in done.stdout + done.stderr
    assert list(tmp_path.rglob("stages.sqlite"))
    assert holding_the_key(tmp_path) == []
    if end == "well":
        assert list(tmp_path.rglob("run.json"))
        told = [row["raw"] or row["reason"] for row in rows(tmp_path / "out" / "predictions")]
        assert any("(hidden) (hidden)" in text for text in told)


def test_key_is_not_in_logs_or_chains_of_exceptions(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    server.script = [resets, stalls, fails(500, KEY), fails(401, SECRET)]
    with pytest.raises(DetectorBenchError) as raised:
        ask(server, timeout=0.2)
    assert raised.value.__context__ is None
    assert raised.value.__cause__ is None
    assert caplog.text
    for secret in (KEY, SECRET):
        assert secret not in caplog.text + repr(raised.value)
        assert secret not in repr(own := Credentials.from_environment(server.endpoint)) + repr(own.secrets)


def test_key_is_no_part_of_the_fingerprint(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    before = facepp(server).identity(weights=NOWHERE)
    monkeypatch.setenv("FACEPP_API_KEY", "another-key-altogether")
    assert facepp(server).identity(weights=NOWHERE) == before
    assert KEY not in json.dumps(before)
    assert server.endpoint in json.dumps(before)
