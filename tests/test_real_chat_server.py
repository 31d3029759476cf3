"""Judges behind a real server that we did not write: `transformers serve`, with a tiny LLaVA-NeXT."""

from __future__ import annotations

import logging
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pyarrow.parquet as pq
import pytest
from local_server import prepare_environment
from running import read_image
from small_parts import small_run, write_image_set

from detector_bench.detectors import Detector, build_detector
from detector_bench.installation import is_installed
from detector_bench.perception.answers.generated_answers import GeneratedAnswers, answer_of
from detector_bench.perception.stage import Frame
from detector_bench.weights import WeightsLocator

pytestmark = pytest.mark.slow

NEEDED = ("torch", "torchvision", "transformers", "fastapi", "uvicorn", "openai", "accelerate")
WORDS = {"labels": {"male": ["man", "he", "male"], "female": ["woman", "she", "female"]}}
GENDER = {"question": "male or female ?", "answers": WORDS}
AGE = {"question": "young or old ?", "answers": {"labels": {"young": ["young"], "elderly": ["old"]}}}


class RealServer(NamedTuple):
    """A running server, its log, and the checkpoint that it serves."""

    address: str
    log: Path
    checkpoint: Path

    @property
    def requests(self) -> int:
        return self.log.read_text(encoding="utf-8").count("POST /v1/chat/completions")


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealServer]:
    if lacking := [name for name in NEEDED if not is_installed(name)]:
        pytest.skip(f"transformers serve needs {', '.join(lacking)}, which is not installed (extra dev)")
    from vlm_networks import save_llava_next

    folder = tmp_path_factory.mktemp("server")
    save_llava_next(folder / "llava")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = ["serve", str(folder / "llava"), "--host", "127.0.0.1", "--port", str(port)]
    command = [
        sys.executable,
        "-m",
        "transformers.cli.transformers",
        *words,
        "--device",
        "cpu",
        "--dtype",
        "float32",
    ]
    log = folder / "log.txt"
    with log.open("w") as stream:
        process = subprocess.Popen(
            command, stdout=stream, stderr=subprocess.STDOUT, env={**os.environ, "HF_HUB_OFFLINE": "1"}
        )
    try:
        _wait(f"http://127.0.0.1:{port}/health", process, log)
        yield RealServer(f"http://127.0.0.1:{port}/v1", log, folder / "llava")
    finally:
        process.terminate()
        process.wait(30)


def _wait(address: str, process: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + 120
    while time.monotonic() < until and process.poll() is None:
        try:
            if httpx.get(address, trust_env=False).is_success:
                return
        except httpx.HTTPError:
            time.sleep(0.2)
    pytest.fail(f"transformers serve does not answer: {log.read_text(encoding='utf-8')[-2000:]}")


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    prepare_environment(monkeypatch, tmp_path)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


def judge(real: RealServer, *, questions: Any, how: dict[str, Any] | None = None, **options: Any) -> Detector:
    model = {"kind": "openai", "base_url": real.address, "model": str(real.checkpoint), "image_format": "png"}
    parameters = {"model": {**model, "max_tokens": 6, **options}, "questions": questions, **(how or {})}
    return build_detector("vlm_judge", name="judge", parameters=parameters)


def rows(out: Path) -> list[dict[str, Any]]:
    return sorted(pq.read_table(out / "judge").to_pylist(), key=lambda row: (row["attribute"], row["image_id"]))


def test_it_answers_as_the_network_does_and_is_asked_once(
    real: RealServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    images = write_image_set(tmp_path / "set", 6)
    detector, before = judge(real, questions={"gender": GENDER}, top_logprobs=5), real.requests
    small_run(images, tmp_path / "out", detector, paid_folder=tmp_path / "paid")
    found = rows(tmp_path / "out")
    assert {row["status"] for row in found} <= {"clear", "filtered"}
    small_run(images, tmp_path / "out", detector, paid_folder=tmp_path / "paid")
    small_run(images, tmp_path / "again", detector, cache_folder=tmp_path / "none", paid_folder=tmp_path / "paid")
    assert rows(tmp_path / "again") == found
    assert real.requests == before + 6
    here = GeneratedAnswers(
        checkpoint=str(real.checkpoint),
        # The template's words; the image stands behind the question, as it does in a request.
        question=f"user: {GENDER['question']} <image> assistant:",
        chat=False,
        precision="float32",
        device="cpu",
        max_new_tokens=6,
    )
    frames = [
        Frame(path.stem, pixels=read_image(path)) for path in sorted((tmp_path / "set" / "images").glob("*.png"))
    ]
    expected = [answer_of(each) for each in here.load(WeightsLocator())(frames)]
    assert [row["raw"] for row in found] == expected
    # It ignores the wish for log-probabilities, which each of the two runs that asked or read says once.
    said = [record.getMessage() for record in caplog.records if "log-probabilities" in record.getMessage()]
    assert len(said) == 2
    assert {row["score"] for row in found} == {None}


def test_it_answers_in_turn(real: RealServer, tmp_path: Path) -> None:
    images, before = write_image_set(tmp_path / "set", 4), real.requests
    detector = judge(real, questions={"gender": GENDER, "age": AGE}, how={"asking": "in_turn"}, concurrency=2)
    small_run(images, tmp_path / "out", detector)
    assert real.requests == before + 8
    found = rows(tmp_path / "out")
    assert len(found) == 8
    assert "error" not in {row["status"] for row in found}
    changed = {**AGE, "question": "old or young ?"}
    again = judge(real, questions={"gender": GENDER, "age": changed}, how={"asking": "in_turn"})
    small_run(images, tmp_path / "out", again)
    assert real.requests == before + 12


def test_what_is_no_joint_answer_is_a_row_each(real: RealServer, tmp_path: Path) -> None:
    images, before = write_image_set(tmp_path / "set", 3), real.requests
    together = judge(real, questions={"gender": GENDER, "age": AGE}, how={"asking": "together"})
    small_run(images, tmp_path / "out", together)
    assert real.requests == before + 3
    found = rows(tmp_path / "out")
    assert len(found) == 6
    for row in found:
        assert row["status"] in ("error", "filtered")
        assert row["status"] == "filtered" or row["reason"].startswith("invalid_answer: ")


def test_a_model_that_it_does_not_have_stops_the_run_or_is_an_error_of_each_image(
    real: RealServer, tmp_path: Path
) -> None:
    detector = judge(real, questions={"gender": GENDER}, retries=0)
    parameters = {**detector.settings, "model": {**detector.settings["model"], "model": "nobody/none"}}
    wrong = build_detector("vlm_judge", name="judge", parameters=parameters)
    small_run(write_image_set(tmp_path / "set", 2), tmp_path / "out", wrong)
    assert {row["status"] for row in rows(tmp_path / "out")} == {"error"}
    for row in rows(tmp_path / "out"):
        assert "\n" not in row["reason"]
        assert "nobody/none" in row["reason"], row["reason"]
