"""Whole runs that pay, by the command line: killed with requests on the wire, with workers, within a budget."""

from __future__ import annotations

import csv
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from chat_server import ChatHandler, ChatServer, answers, complaint, playing
from local_server import says
from small_parts import write_image_set

from detector_bench.perception.answers.paid_ledger import PaidLedger

STUDY = """\
image_set: set
detectors:
  - kind: vlm_judge
    name: judge
    model:
      {{kind: openai, base_url: "{base_url}", model: m, requests_per_second: 1000, retries: 2, first_wait: 0.01,
        timeout: 5, concurrency: 4, max_tokens: 5{more}}}
"""
PRICES = ", prices: {prompt: 1000, completion: 10000}"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChatServer]:
    with playing(monkeypatch, tmp_path_factory.mktemp("certificates")) as running:
        yield running


def study(folder: Path, server: ChatServer, images: int, *, more: str = PRICES) -> Path:
    write_image_set(folder / "set", images)
    (folder / "study.yaml").write_text(STUDY.format(base_url=server.base_url, more=more))
    return folder


def begun(folder: Path, *options: str) -> subprocess.Popen[str]:
    words = [sys.executable, "-m", "detector_bench", "run", "study.yaml", "--out", "out", *options]
    return subprocess.Popen(
        words, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(os.environ)
    )


def ran(folder: Path, *options: str) -> tuple[int, str]:
    process = begun(folder, *options)
    _, errors = process.communicate(timeout=120)
    return process.returncode, errors


def called(folder: Path, *words: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-m", "detector_bench", *words], cwd=folder, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout, done.stderr


def spending(folder: Path) -> dict[str, Any]:
    (spent,) = json.loads((folder / "out" / "run.json").read_text())["spending"].values()
    return dict(spent)


@pytest.mark.slow
def test_run_json_counts_answers_without_a_cache(server: ChatServer, tmp_path: Path) -> None:
    study(tmp_path, server, 6)
    status, errors = ran(tmp_path, "--no-cache")
    assert status == 0, errors
    told = {"answers": 6, "prompt_tokens": 1800, "completion_tokens": 24, "untold": 0}
    assert spending(tmp_path).items() >= told.items()
    assert spending(tmp_path)["cost"] == spending(tmp_path)["cost_this_session"] == pytest.approx(2.04)
    assert "so far: answers 6" in errors
    ran(tmp_path, "--no-cache")
    assert spending(tmp_path)["cost"] == pytest.approx(2.04)
    assert spending(tmp_path)["cost_this_session"] == 0


@pytest.mark.slow
def test_a_budget_ends_a_run_with_one_line(server: ChatServer, tmp_path: Path) -> None:
    study(tmp_path, server, 12)
    server.always = answers("male", tokens=(3000, 4))
    status, errors = ran(tmp_path, "--no-cache", "--budget", "20")
    assert status == 1
    (line,) = [each for each in errors.splitlines() if "budget" in each]
    assert "the budget of 20.0000 USD is reached: " in line
    assert " images are left" in line
    assert server.paid.total() * 3.04 <= 20
    server.script = [says(429, complaint("Slow down"))]
    status, errors = ran(tmp_path, "--no-cache", "--budget", "50")
    assert status == 0, errors
    assert sorted(server.paid.values()) == [1] * 12


@pytest.mark.slow
def test_a_budget_without_prices_is_refused(server: ChatServer, tmp_path: Path) -> None:
    study(tmp_path, server, 1, more=', allow_http: true, base_url: "http://judge.invalid/v1"')
    text = (tmp_path / "study.yaml").read_text().replace(f'base_url: "{server.base_url}", ', "")
    (tmp_path / "study.yaml").write_text(text)
    status, errors = ran(tmp_path, "--budget", "5")
    assert status == 1
    assert "--budget: the stage 'chat_answers' (m at http://judge.invalid/v1) has no `prices`" in errors
    assert "Traceback" not in errors


@pytest.mark.slow
def test_the_ledger_is_shown_and_exported(server: ChatServer, tmp_path: Path) -> None:
    study(tmp_path, server, 3)
    server.always = answers('a "woman",\nyes')
    ran(tmp_path, "--no-cache")
    status, printed, errors = called(tmp_path, "spending", "out", "--export", "answers.csv")
    assert status == 0, errors
    assert "answers 3, prompt tokens 900, completion tokens 12, untold 0, cost 1.0200, currency USD" in printed
    with (tmp_path / "answers.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["answer"] for row in rows] == ['a "woman",\nyes'] * 3
    assert {row["outcome"] for row in rows} == {"answer"}
    status, _, errors = called(tmp_path, "spending", "out", "--export", "answers.csv")
    assert (status, "add --overwrite" in errors) == (1, True)
    called(tmp_path, "spending", "out", "--export", "answers.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "answers.jsonl").read_text().splitlines()]
    assert {line["image_sha256"] for line in lines} == {row["image_sha256"] for row in rows}
    (path,) = (tmp_path / "out" / "paid").glob("*.jsonl")
    path.write_bytes(path.read_bytes()[:-5])
    status, printed, errors = called(tmp_path, "spending", "out", "--json")
    assert json.loads(printed)["rows"][0]["answers"] == 2
    assert f"{path.name}, line 6: cut off" in errors
    status, printed, _ = called(tmp_path, "spending", "set")
    assert (status, "No paid service was asked" in printed) == (0, True)


@pytest.mark.slow
def test_workers_share_a_budget_and_a_ledger(server: ChatServer, tmp_path: Path) -> None:
    study(tmp_path, server, 40)
    server.always = answers("male", tokens=(3000, 4), after=0.02)
    status, errors = ran(tmp_path, "--no-cache", "--workers", "2", "--shards", "4", "--budget", "40")
    assert status == 1
    assert "the budget of 40.0000 USD is reached" in errors
    assert " images are left" in errors
    assert server.paid.total() >= 1
    assert server.paid.total() * 3.04 <= 40
    status, errors = ran(tmp_path, "--no-cache", "--workers", "2", "--budget", "400")
    assert status == 0, errors
    assert sorted(server.paid.values()) == [1] * 40
    assert spending(tmp_path)["answers"] == 40
    assert spending(tmp_path)["cost"] == pytest.approx(40 * 3.04)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_after_kills_only_what_was_on_the_wire_is_paid_again(
    server: ChatServer, tmp_path: Path, seed: int
) -> None:
    count, sent = 24, []
    study(tmp_path, server, count)
    shared = ("--workers", "2", "--shards", "3") if seed % 2 else ()

    def slowly(handler: ChatHandler) -> None:
        sent.append(time.monotonic())
        answers("male", after=0.05)(handler)

    server.always = slowly
    chance = random.Random(seed)  # noqa: S311
    for _ in range(3):
        sent.clear()
        process = begun(tmp_path, "--no-cache", *shared)
        wanted = chance.randrange(2, 7)
        while len(sent) < wanted and process.poll() is None:
            time.sleep(0.002)
        time.sleep(chance.random() * 0.05)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        time.sleep(1.5 if shared else 0.2)  # workers find out that nobody listens, and store what they have
    status, errors = ran(tmp_path, "--no-cache", *shared)
    assert status == 0, errors
    rows = [
        row for path in (tmp_path / "out/predictions/judge").glob("*") for row in pq.read_table(path).to_pylist()
    ]
    assert [row["label"] for row in rows] == ["male"] * count
    lines = list(PaidLedger(tmp_path / "out" / "paid").lines())
    requests = {line.id: line for line in lines if line.kind == "request"}
    answered = [line.request_sha256 for line in lines if line.kind == "answer"]
    assert len(answered) == len(set(answered)) == count, "no answer that the ledger holds was asked for again"
    lost = set(requests) - {line.id for line in lines if line.kind != "request"}
    failed = {line.id for line in lines if line.kind == "failure" and line.perhaps_paid}
    told = {each for line in requests.values() for each in line.after}
    assert told == lost | failed, "every request that was on the wire is named by the one that follows it"
    extra = server.paid.total() - count
    assert 0 <= extra <= len(told)
    assert spending(tmp_path).get("perhaps_paid", 0) == len(lost | failed)


@pytest.mark.slow
def test_actors_on_ray_write_into_the_result_folder(server: ChatServer, tmp_path: Path) -> None:
    pytest.importorskip("ray")
    study(tmp_path, server, 6)
    server.always = answers("male", tokens=(3000, 4))
    status, errors = ran(tmp_path, "--no-cache", "--engine", "ray", "--workers", "1", "--budget", "15")
    assert (status, "the budget of 15.0000 USD is reached" in errors) == (1, True), errors
    status, errors = ran(tmp_path, "--no-cache", "--engine", "ray", "--workers", "1")
    assert status == 0, errors
    assert sorted(server.paid.values()) == [1] * 6
    assert spending(tmp_path)["cost"] == pytest.approx(6 * 3.04)
