"""The detector `vlm_judge` in whole runs: its verdicts, what is paid, and that the key gets nowhere."""

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
from chat_server import (
    IMAGE,
    KEY,
    ChatHandler,
    ChatServer,
    answers,
    ask,
    complaint,
    completion,
    judge,
    playing,
    sees_red,
)
from local_server import Behaviour, pulls_the_plug, resets, says, serving, stalls, stop
from running import judged
from small_parts import small_run, write_image_set

from detector_bench.detectors import build_detector
from detector_bench.detectors.vlm_judge import default_question
from detector_bench.errors import ConfigError, DetectorBenchError, RunInterruptedError
from detector_bench.perception.answers.chat_answers import ChatAnswers, token_use
from detector_bench.perception.identity import fingerprint
from detector_bench.runner.readiness import lacking
from detector_bench.runner.stage_cache import StageCache
from detector_bench.weights import WeightsLocator

NOWHERE = WeightsLocator()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChatServer]:
    with playing(monkeypatch, tmp_path_factory.mktemp("certificates")) as running:
        yield running


def rows(out: Path, name: str = "judge") -> list[dict[str, Any]]:
    return sorted(pq.read_table(out / name).to_pylist(), key=lambda row: (row["image_id"], row["attribute"]))


def statuses(out: Path) -> Counter[str]:
    return Counter(row["status"] for row in rows(out))


# Verdicts


def test_three_attributes_are_three_questions(server: ChatServer) -> None:
    def knows(handler: ChatHandler) -> None:
        question = handler.fields["question"]
        answers("East Asian" if "groups" in question else "young" if "How old" in question else "a woman")(handler)

    server.always = knows
    found = judged(judge(server, questions=["gender", "age", "race"]), [IMAGE], weights=NOWHERE)
    assert [(each.attribute, each.label, each.raw, each.score) for each in found] == [
        ("gender", "female", "a woman", None),
        ("age", "young", "young", None),
        ("race", "east_asian", "East Asian", None),
    ]
    asked = [request["question"] for request in server.requests]
    assert asked == [default_question(name) for name in ("gender", "age", "race")]
    for question in asked:
        assert "the most prominent person" in question
        assert "unknown" in question


@pytest.mark.parametrize(
    ("behaviour", "reason", "raw"),
    [
        (answers("Unknown."), "unknown", "Unknown."),
        (answers("a man and a woman"), "ambiguous", "a man and a woman"),
        (answers("Nobody is there"), "no_person", "Nobody is there"),
        (answers("A cat!"), "no_answer", "A cat!"),
        (says(200, completion(None, message={"refusal": "Not a man I judge."})), "refused", "Not a man I judge."),
    ],
)
def test_answer_without_a_label_filters(server: ChatServer, behaviour: Behaviour, reason: str, raw: str) -> None:
    server.always = behaviour
    (found,) = judged(judge(server), [IMAGE], weights=NOWHERE)
    assert (found.status, found.reason, found.label, found.raw) == ("filtered", reason, None, raw)


def test_own_questions_and_answers(server: ChatServer) -> None:
    own = {"labels": {"male": ["m"], "female": ["f"]}}
    detector = judge(server, questions={"gender": {"question": "M or F?", "answers": own}, "age": "Young or old?"})
    server.script = [answers("F"), answers("elderly")]
    found = judged(detector, [IMAGE], weights=NOWHERE)
    assert [(each.attribute, each.label) for each in found] == [("gender", "female"), ("age", "elderly")]
    assert [request["question"] for request in server.requests] == ["M or F?", "Young or old?"]
    assert judge(server).attributes == ("gender",)


@pytest.mark.parametrize(
    ("questions", "message"),
    [
        (["gendre"], "unknown attribute 'gendre': did you mean 'gender'"),
        ([], "at least 1 item"),
        (5, "questions"),
        ({"gender": {"question": ""}}, "questions.gender.question"),
        ({"gender": {"answers": {"labels": {"man": ["man"]}}}}, "unknown class 'man' of 'gender'"),
        ({"gender": {"answer": {}}}, "unknown key 'answer': did you mean 'answers'"),
    ],
)
def test_wrong_questions_are_refused(server: ChatServer, questions: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        judge(server, questions=questions)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (None, "model: is missing"),
        ({"base_url": "https://a.example/v1", "model": "m"}, "the key 'kind' is missing"),
        ({"kind": "openia"}, "'openai', 'transformers'"),
        ({"kind": "transformers"}, "checkpoint: is missing"),
    ],
)
def test_a_model_must_be_named(model: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        build_detector("vlm_judge", parameters={} if model is None else {"model": model})


# Whole runs: nothing is paid for twice


def test_run_and_run_again(server: ChatServer, tmp_path: Path) -> None:
    images, out = write_image_set(tmp_path / "set", 6), tmp_path / "out"
    server.always = sees_red
    small_run(images, out, judge(server))
    small_run(images, out, judge(server))
    small_run(images, tmp_path / "other", judge(server, "other", concurrency=1, retries=0, prices=None))
    assert [row["label"] or row["reason"] for row in rows(out)] == ["male", "female", "unknown"] * 2
    assert rows(out)[0]["raw"] == "It is a man."
    assert sorted(server.paid.values()) == [1] * 6


def test_another_question_about_age_leaves_the_answers_about_gender(server: ChatServer, tmp_path: Path) -> None:
    images, out = write_image_set(tmp_path / "set", 4), tmp_path / "out"
    server.always = answers("female, young")
    small_run(images, out, judge(server, questions=["gender", "age"]))
    assert len(server.requests) == 8
    small_run(images, out, judge(server, questions={"gender": None, "age": "How old?"}))
    assert Counter(request["question"] for request in server.requests[8:]) == {"How old?": 4}
    stored = {"labels": {"young": ["young"]}, "reasons": {"unknown": ["female"]}}
    small_run(images, out, judge(server, questions={"age": {"question": "How old?", "answers": stored}}))
    assert len(server.requests) == 12
    assert {row["reason"] for row in rows(out)} == {"unknown"}


@pytest.mark.slow
def test_requests_run_at_the_same_time(server: ChatServer, tmp_path: Path) -> None:
    images = write_image_set(tmp_path / "set", 12)
    server.always = answers("male", after=0.1)
    small_run(images, tmp_path / "out", judge(server, concurrency=3), batch_size=12)
    assert server.most_at_once == 3
    assert statuses(tmp_path / "out") == {"clear": 12}
    small_run(images, tmp_path / "single", judge(server, "single", concurrency=1, model="another"), batch_size=12)
    assert rows(tmp_path / "out")[0]["label"] == rows(tmp_path / "single", "single")[0]["label"]


def test_failed_answer_is_not_kept(server: ChatServer, tmp_path: Path) -> None:
    images, out = write_image_set(tmp_path / "set", 4), tmp_path / "out"
    detector = judge(server, concurrency=1)
    server.script = [answers("male"), says(400, complaint("bad image")), says(200, "{")]
    small_run(images, out, detector)
    assert [row["status"] for row in rows(out)] == ["clear", "error", "error", "clear"]
    assert rows(out)[1]["reason"] == "api_failed: bad image (HTTP 400)"
    assert rows(out)[2]["reason"].startswith("invalid_answer: Invalid JSON")
    small_run(images, out, detector)
    assert statuses(out) == {"clear": 4}
    assert sorted(server.paid.values()) == [1] * 4


@pytest.mark.parametrize("concurrency", [1, 3])
def test_network_that_goes_down_in_the_middle(server: ChatServer, tmp_path: Path, concurrency: int) -> None:
    images, out = write_image_set(tmp_path / "set", 9), tmp_path / "out"
    detector = judge(server, concurrency=concurrency, retries=2)
    server.script = [*[server.always] * 3, pulls_the_plug]
    port = server.server_address[1]
    small_run(images, out, detector, batch_size=9)
    assert statuses(out)["error"] >= 3
    assert all(row["reason"].startswith("api_failed: ") for row in rows(out) if row["status"] == "error")
    paid_before = server.paid.total()
    assert statuses(out)["clear"] == paid_before >= 3
    later = ChatServer(port)
    thread = serving(later)
    try:
        small_run(images, out, detector, batch_size=9)
    finally:
        stop(later, thread)
    assert statuses(out) == {"clear": 9}
    assert sorted((server.paid + later.paid).values()) == [1] * 9
    assert len(later.requests) == 9 - paid_before


@pytest.mark.slow
@pytest.mark.parametrize("concurrency", [1, 4])
def test_interrupted_run_goes_on_without_paying_again(
    server: ChatServer, tmp_path: Path, concurrency: int
) -> None:
    number = 20  # on a busy machine the interruption is heard late
    images, out = write_image_set(tmp_path / "set", number), tmp_path / "out"

    def interrupts(handler: ChatHandler) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        answers("male", after=0.2)(handler)

    server.always = answers("male", after=0.05)
    server.script = [*[server.always] * 3, interrupts]
    with pytest.raises(RunInterruptedError):
        small_run(images, out, judge(server, concurrency=concurrency), batch_size=number)
    time.sleep(0.3)  # the answer that was on its way
    assert 3 <= server.paid.total() < number
    small_run(images, out, judge(server, concurrency=concurrency), batch_size=number)
    assert statuses(out) == {"clear": number}
    # With a single request at a time, the one that is interrupted is lost.
    assert sorted(server.paid.values()) == ([1] * (number - 1) + [2] if concurrency == 1 else [1] * number)


@pytest.mark.parametrize("concurrency", [1, 4])
@pytest.mark.slow
def test_refused_key_stops_the_run_and_loses_nothing(server: ChatServer, tmp_path: Path, concurrency: int) -> None:
    images, out = write_image_set(tmp_path / "set", 8), tmp_path / "out"
    detector = judge(server, concurrency=concurrency)
    server.always = answers("male", after=0.1)
    server.script = [server.always, server.always, says(401, complaint("Incorrect API key provided"))]
    with pytest.raises(DetectorBenchError, match="refuses the key in OPENAI_API_KEY: Incorrect API key"):
        small_run(images, out, detector, batch_size=8)
    assert len(server.requests) < 8
    small_run(images, out, detector, batch_size=8)
    assert statuses(out) == {"clear": 8}
    assert sorted(server.paid.values()) == [1] * 8


def test_missing_key_is_named_before_anything_is_done(
    server: ChatServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    far = judge(server, base_url="https://a.example/v1", questions=["gender", "age"])
    (line,) = lacking(far, weights=NOWHERE)
    assert line.startswith("the environment variable OPENAI_API_KEY is not set")
    with pytest.raises(ConfigError, match="OPENAI_API_KEY is not set"):
        small_run(write_image_set(tmp_path / "set", 2), tmp_path / "out", far)
    assert lacking(judge(server), weights=NOWHERE) == []


def test_what_other_folders_paid_for_is_told_apart(server: ChatServer, tmp_path: Path) -> None:
    images, detector = write_image_set(tmp_path / "set", 6), judge(server)
    server.script = [answers("male", tokens=(100, 2))] * 2
    server.always = answers("male", tokens=(1000, 10))
    small_run(images, tmp_path / "out", detector, paid_folder=tmp_path / "paid")
    record = small_run(images, tmp_path / "out", detector, paid_folder=tmp_path / "paid")
    (spent,) = record.spending.values()
    told = {"answers": 6, "prompt_tokens": 4200, "completion_tokens": 44, "untold": 0}
    assert spent == {**told, "answers_this_session": 0}
    record = small_run(images, tmp_path / "other", detector, paid_folder=tmp_path / "other_paid")
    assert list(record.spending.values()) == [{f"{name}_of_other_runs": each for name, each in told.items()}]
    (stage,) = detector.stages
    assert isinstance(stage, ChatAnswers)
    contents = [row["image_sha256"] for row in rows(tmp_path / "out")]
    stored = StageCache(tmp_path / "cache").get(fingerprint(stage, weights=NOWHERE), contents)
    use = token_use(stored.values())
    assert (use.answers, use.prompt_tokens, use.completion_tokens, use.untold) == (6, 4200, 44, 0)


# The key


def holding_the_key(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]


def tells_everything(handler: ChatHandler) -> None:
    """Repeats the key in answers, in errors and in the status line."""
    said = handler.fields["headers"]["Authorization"]
    turn = len(handler.server.requests) % 4
    if turn == 0:
        answers(f"male {said}")(handler)
    elif turn == 1:
        says(400, complaint(f"bad {said}"))(handler)
    elif turn == 2:
        says(200, f'{{"choices": [{{"message": "{said}"}}]}}')(handler)
    else:
        handler.send_response(418, said)
        handler.send_header("Content-Length", "0")
        handler.end_headers()


STUDY = """\
image_set: set
detectors:
  - kind: vlm_judge
    name: judge
    model:
      {{kind: openai, base_url: "{base_url}", model: m, retries: 2, first_wait: 0.01, timeout: 2, concurrency: 2}}
"""


@pytest.mark.parametrize("end", ["well", "crash"])
@pytest.mark.slow
def test_key_gets_nowhere(server: ChatServer, tmp_path: Path, end: str) -> None:
    write_image_set(tmp_path / "set", 8)
    (tmp_path / "study.yaml").write_text(STUDY.format(base_url=server.base_url))
    server.always = tells_everything
    # A plain Python program shows the whole chain of exceptions; "crash" lets one fall out of the client itself.
    code = f"""
        import logging
        from pathlib import Path
        logging.basicConfig(level=logging.DEBUG)
        import detector_bench.detectors.vlm_judge
        from detector_bench.perception.answers import chat_client
        from detector_bench.study import Study
        if {end == "crash"!r}:
            def crash(response):
                raise chat_client.DetectorBenchError("out of the client")
            chat_client.complaint_in = crash
        study = Study.from_yaml(Path("study.yaml"))
        print(study, study.build_detectors())
        study.run(Path("out"))
    """
    done = subprocess.run(
        [sys.executable, "-c", dedent(code)],
        cwd=tmp_path,
        env={**os.environ, "DETECTOR_BENCH_CACHE": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ("DetectorBenchError: out of the client" in done.stderr) == (end == "crash"), done.stderr
    assert "POST" in done.stderr, "httpx's own log is part of what is looked through"
    assert server.requests
    assert KEY not in done.stdout + done.stderr
    assert list(tmp_path.rglob("stages.sqlite"))
    assert holding_the_key(tmp_path) == []
    if end == "well":
        told = [row["raw"] or row["reason"] for row in rows(tmp_path / "out" / "predictions")]
        assert {"male Bearer (hidden)", "api_failed: bad Bearer (hidden) (HTTP 400)"} <= set(told)


def test_key_is_not_in_logs_or_chains_of_exceptions(server: ChatServer, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    server.script = [resets, stalls, says(500, KEY), says(401, complaint(KEY))]
    with pytest.raises(DetectorBenchError) as raised:
        ask(server, timeout=0.2)
    assert raised.value.__context__ is raised.value.__cause__ is None
    assert caplog.text
    assert KEY not in caplog.text + repr(raised.value)


def test_key_is_no_part_of_the_fingerprint(server: ChatServer, monkeypatch: pytest.MonkeyPatch) -> None:
    before = judge(server).identity(weights=NOWHERE)
    monkeypatch.setenv("OPENAI_API_KEY", "another-key-altogether")
    assert judge(server).identity(weights=NOWHERE) == before
    assert KEY not in json.dumps(before)
    assert server.base_url in json.dumps(before)
