"""The ledger of paid answers: written around each request, read after any crash; and the budget that it holds."""

from __future__ import annotations

import base64
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import facepp_server
import pyarrow.parquet as pq
import pytest
from chat_server import ChatHandler, ChatServer, answers, complaint, judge, playing, sees_red
from local_server import garbles, resets, says, stalls
from running import noise
from small_parts import small_run, write_image_set

from detector_bench.errors import ConfigError, DetectorBenchError
from detector_bench.perception.answers.budget import Budget, BudgetReachedError
from detector_bench.perception.answers.ledger_index import Asked
from detector_bench.perception.answers.ledger_lines import LedgerFile, LedgerLine, PaidAnswer, unsealed
from detector_bench.perception.answers.paid_ledger import PaidLedger
from detector_bench.perception.answers.prices import TokenPrices
from torture.disks import small_disk

ASKED = Asked("r" * 64, "i" * 64, (8, 8))
PRICES = {"prompt": 1000, "completion": 10_000}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChatServer]:
    with playing(monkeypatch, tmp_path_factory.mktemp("certificates")) as running:
        yield running


def lines_of(folder: Path) -> list[LedgerLine]:
    return list(PaidLedger(folder).lines())


def paid_run(images: Path, out: Path, *detectors: Any, **settings: Any) -> Any:
    """A run without a cache, with a ledger beside the predictions."""
    settings = {"cache_folder": None, "paid_folder": out / "paid", **settings}
    return small_run(images, out / "predictions", *detectors, **settings)


def verdicts(out: Path) -> list[Any]:
    rows = pq.read_table(out / "predictions" / "judge").to_pylist()
    return [(row["image_id"], row["status"], row["label"], row["reason"], row["raw"]) for row in rows]


def forget_verdicts(out: Path) -> None:
    shutil.rmtree(out / "predictions")


# What is written, and when


def test_a_request_is_on_the_disk_before_it_is_sent(server: ChatServer, tmp_path: Path) -> None:
    seen: list[LedgerLine] = []

    def looks(handler: ChatHandler) -> None:
        seen.extend(lines_of(tmp_path / "out" / "paid"))
        answers("male")(handler)

    server.always = looks
    paid_run(write_image_set(tmp_path / "set", 1), tmp_path / "out", judge(server, prices=PRICES))
    (request,) = seen
    assert (request.kind, request.service, request.model) == ("request", server.base_url, "test-model-2026-01-01")
    assert request.worst is not None
    (row,) = pq.read_table(tmp_path / "out" / "predictions" / "judge").to_pylist()
    assert request.image_sha256 == row["image_sha256"]
    _, answer = lines_of(tmp_path / "out" / "paid")
    assert (answer.id, answer.answer) == (request.id, PaidAnswer("male", False, 300, 4))
    assert answer.cost == pytest.approx(300 * 1000 / 1e6 + 4 * 10_000 / 1e6)


def test_neither_image_nor_key_is_in_the_ledger(server: ChatServer, tmp_path: Path) -> None:
    paid_run(write_image_set(tmp_path / "set", 3), tmp_path / "out", judge(server))
    text = b"".join(path.read_bytes() for path in (tmp_path / "out" / "paid").iterdir())
    assert server.requests[0]["headers"]["Authorization"].removeprefix("Bearer ").encode() not in text
    for request in server.requests:
        assert base64.b64encode(request["image"])[20:60] not in text


def test_without_cache_and_verdicts_nothing_is_asked_again(server: ChatServer, tmp_path: Path) -> None:
    images, out = write_image_set(tmp_path / "set", 6), tmp_path / "out"
    server.always = sees_red
    paid_run(images, out, judge(server, concurrency=3))
    before = verdicts(out)
    forget_verdicts(out)
    record = paid_run(images, out, judge(server, concurrency=2))
    assert verdicts(out) == before
    assert sorted(server.paid.values()) == [1] * 6
    (spent,) = record.spending.values()
    assert (spent["answers"], spent["answers_this_session"], spent["prompt_tokens"]) == (6, 0, 1800)


def test_an_image_that_is_packed_otherwise_today_is_the_same_image(server: ChatServer, tmp_path: Path) -> None:
    ledger = PaidLedger(tmp_path)
    stage = ledger.of_stage(
        stage="s", fingerprint="f", service="a", model="m", prices=None, may_cost=True, counts_tokens=True
    )
    entry = stage.entry(ASKED)
    entry.send()
    entry.answered(PaidAnswer("male"))
    again = Asked("other" * 10, ASKED.image_sha256, (8, 8))
    assert stage.answer(again) == PaidAnswer("male")
    assert PaidLedger(tmp_path).answer("a", again, fingerprint="f") == PaidAnswer("male")
    assert PaidLedger(tmp_path).answer("a", again, fingerprint="another stage") is None


def test_words_that_no_table_can_hold_come_back_as_they_were(tmp_path: Path) -> None:
    text = 'a "quoted"\n\ud800 \N{WOMAN}\x00'
    ledger = PaidLedger(tmp_path)
    stage = ledger.of_stage(
        stage="s", fingerprint="f", service="a", model=None, prices=None, may_cost=True, counts_tokens=False
    )
    entry = stage.entry(ASKED)
    entry.send()
    entry.answered(PaidAnswer(text))
    assert PaidLedger(tmp_path).answer("a", ASKED, fingerprint="") == PaidAnswer(text)


def test_what_fails_says_whether_it_may_have_been_paid_for(server: ChatServer, tmp_path: Path) -> None:
    server.script = [says(500, complaint("oh")), stalls, resets, answers("male"), garbles, answers("female")]
    images = write_image_set(tmp_path / "set", 2)
    paid_run(images, tmp_path / "out", judge(server, concurrency=1, timeout=0.2))
    found = lines_of(tmp_path / "out" / "paid")
    failures = [(line.status, line.perhaps_paid) for line in found if line.kind == "failure"]
    assert failures == [(500, False), (None, True), (None, True), (200, True)]
    requests = [line for line in found if line.kind == "request"]
    assert [len(line.after) for line in requests] == [0, 0, 1, 2, 0]
    assert requests[3].after == (requests[1].id, requests[2].id)
    record = paid_run(images, tmp_path / "out", judge(server, concurrency=1))
    (spent,) = record.spending.values()
    assert (spent["answers"], spent["requests_without_answer"], spent["perhaps_paid"]) == (2, 4, 3)
    assert spent["perhaps_paid_twice"] == 3


def test_a_ledger_that_cannot_be_written_stops_before_anything_is_sent(server: ChatServer, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "paid").write_text("a file in the place of the folder")
    with pytest.raises(DetectorBenchError, match=r"ledger of paid answers .* cannot be written"):
        paid_run(write_image_set(tmp_path / "set", 2), tmp_path / "out", judge(server))
    assert server.requests == []


def test_face_answers_are_kept_word_for_word(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with facepp_server.playing(monkeypatch, tmp_path) as api:
        detector = facepp_server.facepp(api, prices={"call": 0.5, "currency": "CNY"})
        images = write_image_set(tmp_path / "set", 0)
        from PIL import Image
        from small_parts import write_tables

        for number in range(3):
            Image.fromarray(noise(60, 60, seed=number)).save(images / "images" / f"image_{number:03d}.png")
        write_tables(images, range(3))
        api.script = [api.always, says(200, '{"faces": [{"face_rectangle": {}}]}'), api.always]
        for _ in range(2):
            record = paid_run(images, tmp_path / "out", detector)
        forget_verdicts(tmp_path / "out")
        record = paid_run(images, tmp_path / "out", detector)
        assert sorted(api.paid.values()) == [1] * 3
    (spent,) = record.spending.values()
    told = {"answers": 3, "cost": 1.5, "currency": "CNY", "requests_without_answer": 1, "perhaps_paid": 1}
    now = {"answers_this_session": 0, "cost_this_session": 0.0}
    assert spent == {**told, "perhaps_paid_twice": 1, **now}


# What a crash leaves


def written(folder: Path, count: int = 3) -> Path:
    ledger = PaidLedger(folder)
    for number in range(count):
        stage = ledger.of_stage(
            stage="s", fingerprint="f", service="a", model=None, prices=None, may_cost=True, counts_tokens=True
        )
        entry = stage.entry(Asked(f"{number}", f"image {number}", (8, 8)))
        entry.send()
        entry.answered(PaidAnswer(f"answer {number}", False, 10, 1))
    (path,) = folder.glob("*.jsonl")
    return path


@pytest.mark.slow
def test_a_ledger_that_is_cut_at_any_byte_keeps_all_whole_lines(tmp_path: Path) -> None:
    path = written(tmp_path)
    whole = path.read_bytes()
    ends = [0, *(place + 1 for place, byte in enumerate(whole) if byte == ord("\n"))]
    for length in range(ends[-4], len(whole) + 1):
        path.write_bytes(whole[:length])
        ledger = PaidLedger(tmp_path)
        lines = sum(end <= length for end in ends[1:])
        answered = sum((number + 1) * 2 <= lines for number in range(3))
        spent = ledger.spending()["s"]
        assert spent["answers"] == answered
        assert spent.get("perhaps_paid", 0) == lines - 2 * answered
        cut = length not in ends
        assert [each.line for each in ledger.damaged] == [lines + 1] * cut
        known = [ledger.answer("a", Asked(f"{number}", None, (8, 8)), fingerprint="f") for number in range(3)]
        assert [each is not None for each in known] == [number < answered for number in range(3)]


@pytest.mark.slow
def test_a_flipped_bit_anywhere_costs_its_line_and_is_named(tmp_path: Path) -> None:
    path = written(tmp_path, 2)
    whole = path.read_bytes()
    intact = whole.splitlines()
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << place % 8]) + whole[place + 1 :])
        file = LedgerFile(path)
        found = list(file.news())
        assert found, place
        assert file.damaged or file.cut_off, place
        assert all(any(line == unsealed(text) for text in intact) for line in found), place


@pytest.mark.parametrize(
    "text", [b"\x00" * 500, b"{}\n" * 3, b"[" * 100_000 + b"\n", b'{"kind":"request"}\n', b"\n\n", b"\xff\xfe\n"]
)
def test_a_file_that_is_no_ledger_is_named_and_counts_as_empty(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "strange.jsonl").write_bytes(text)
    ledger = PaidLedger(tmp_path)
    assert ledger.spending() == {}
    assert ledger.damaged
    assert all(str(each).startswith("strange.jsonl, line ") for each in ledger.damaged)


def test_what_another_process_was_told_meanwhile_is_known(tmp_path: Path) -> None:
    mine = PaidLedger(tmp_path)
    assert mine.answer("a", Asked("1", None, (8, 8)), fingerprint="f") is None
    written(tmp_path)
    assert mine.answer("a", Asked("1", None, (8, 8)), fingerprint="f") == PaidAnswer("answer 1", False, 10, 1)


# A budget


def cost_of(server: ChatServer) -> float:
    return sum(server.paid.values()) * (3000 * 1000 + 4 * 10_000) / 1e6


@pytest.mark.parametrize("concurrency", [1, 4])
def test_a_budget_is_never_passed_and_what_is_there_is_kept(
    server: ChatServer, tmp_path: Path, concurrency: int
) -> None:
    images, out = write_image_set(tmp_path / "set", 30), tmp_path / "out"
    detector = judge(server, concurrency=concurrency, prices=PRICES, max_tokens=5)
    server.always = answers("male", after=0.02, tokens=(3000, 4))
    # Before the first answer tells what an image costs, a bound of some ten thousand tokens counts: 10.5 USD.
    budget = 18.0
    with pytest.raises(DetectorBenchError, match=r"budget of .* is reached: .* spent.*images are left"):
        paid_run(images, out, detector, budget=budget)
    assert 1 <= server.paid.total() < 30
    assert cost_of(server) <= budget
    before = server.paid.total()
    with pytest.raises(DetectorBenchError, match="is reached"):
        paid_run(images, out, detector, budget=budget)
    assert server.paid.total() == before, "what the folder holds counts"
    record = paid_run(images, out, detector, budget=200)
    assert sorted(server.paid.values()) == [1] * 30
    (spent,) = record.spending.values()
    assert spent["cost"] == pytest.approx(cost_of(server))
    assert spent["cost_this_session"] == pytest.approx((30 - before) * 3.04)


def test_requests_that_may_have_been_paid_for_count_as_spent(server: ChatServer, tmp_path: Path) -> None:
    images, out = write_image_set(tmp_path / "set", 2), tmp_path / "out"
    detector = judge(server, concurrency=1, prices=PRICES, max_tokens=5, timeout=0.1, retries=3)
    server.always = stalls
    with pytest.raises(DetectorBenchError, match=r"0.0000 USD spent and .* USD in doubt"):
        paid_run(images, out, detector, budget=25)
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"base_url": "https://a.example/v1"}, "has no `prices`"),
        ({"prices": PRICES, "max_tokens": None}, "sets no limit to an answer's tokens"),
    ],
)
def test_a_budget_needs_to_know_what_an_answer_may_cost(
    server: ChatServer, tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    images = write_image_set(tmp_path / "set", 1)
    with pytest.raises(ConfigError, match=f"--budget: the stage 'chat_answers' .*{message}") as raised:
        paid_run(images, tmp_path / "out", judge(server, **options), budget=5)
    assert "\n" not in str(raised.value)
    assert server.requests == []


def test_a_budget_is_in_one_currency(server: ChatServer, tmp_path: Path) -> None:
    detectors = [judge(server, name, model=name, prices={**PRICES, "currency": name}) for name in ("EUR", "USD")]
    with pytest.raises(ConfigError, match="prices in EUR and USD"):
        paid_run(write_image_set(tmp_path / "set", 1), tmp_path / "out", *detectors, budget=5)


def test_a_free_service_needs_no_price(server: ChatServer, tmp_path: Path) -> None:
    paid_run(write_image_set(tmp_path / "set", 2), tmp_path / "out", judge(server), budget=0)
    assert server.paid.total() == 2


def test_sums_of_tokens_do_not_overflow(server: ChatServer, tmp_path: Path) -> None:
    server.script = [
        answers("male", tokens=(10**9, 10**9)),
        answers("male", tokens=(10**30, -1)),
        answers("male", tokens=(float("nan"), float("inf"))),  # type: ignore[arg-type]
        answers("male", tokens=("12", [1])),  # type: ignore[arg-type]
        answers("male", tokens=(7.0, True)),  # type: ignore[arg-type]
    ]
    images = write_image_set(tmp_path / "set", 6)
    record = paid_run(
        images, tmp_path / "out", judge(server, concurrency=1, prices=TokenPrices(prompt=1, completion=1))
    )
    (spent,) = record.spending.values()
    assert (spent["answers"], spent["untold"]) == (6, 4)
    assert spent["prompt_tokens"] == 10**9 + 7 + 300
    assert {status for _, status, *_ in verdicts(tmp_path / "out")} == {"clear"}


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        '{"choices": [{"message": {"content": "male", "extra": ' + "[" * 5000 + "]" * 5000 + "}}]}",
        '{"choices": ' + "9" * 100_000 + "}",
        '{"choices": [{"message": {"content": "\\ud800"}}]}',
        '{"choices": NaN}',
        '{"error": {"message": "\\ud800"}}',
    ],
)
def test_strange_json_is_an_error_row_with_its_reason(server: ChatServer, tmp_path: Path, text: str) -> None:
    server.script = [says(200, text), says(400, text)]
    paid_run(write_image_set(tmp_path / "set", 3), tmp_path / "out", judge(server, concurrency=1))
    first, second, third = verdicts(tmp_path / "out")
    assert (first[1], second[1], third[1]) == ("error", "error", "clear")
    assert first[3].startswith("invalid_answer: ")
    assert second[3].startswith("api_failed: ")


def test_a_row_of_the_ledger_has_its_checksum_as_its_last_key(tmp_path: Path) -> None:
    for text in written(tmp_path).read_text().splitlines():
        assert list(json.loads(text))[-1] == "check"
    assert os.access(tmp_path, os.R_OK)


def test_answers_that_are_on_the_way_when_the_disk_fills_are_kept(server: ChatServer, tmp_path: Path) -> None:
    images = write_image_set(tmp_path / "set", 8)
    with small_disk(4_000) as disk:
        if disk is None:
            pytest.skip("no small disk can be mounted here")
        out = disk / "out"

        def fills(handler: ChatHandler) -> None:
            with server.lock:
                filled = disk / "filled"
                if server.most_at_once == 4 and not filled.exists():
                    with suppress(OSError), filled.open("wb", buffering=0) as file:
                        while True:
                            file.write(bytes(4096))
            answers("male " * 200, after=0.1)(handler)

        server.always = fills
        with pytest.raises(DetectorBenchError, match="cannot"):  # the ledger or the predictions, which comes first
            paid_run(images, out, judge(server, concurrency=4))
        assert 4 <= server.paid.total() < 8
        (disk / "filled").unlink()
        server.always = answers("male")
        paid_run(images, out, judge(server, concurrency=4))
        assert sorted(server.paid.values()) == [1] * 8


def test_answers_of_a_stage_without_prices_count_against_a_later_budget(tmp_path: Path) -> None:
    before = PaidLedger(tmp_path)
    stage = before.of_stage(
        stage="s-1", fingerprint="1", service="a", model="m", prices=None, may_cost=True, counts_tokens=True
    )
    entry = stage.entry(ASKED)
    entry.send()
    entry.answered(PaidAnswer("male", False, 300, 4))
    ledger = PaidLedger(tmp_path, budget=Budget(1.5, "USD"), prices={"2": TokenPrices(**PRICES)})
    other = ledger.of_stage(
        stage="s-2",
        fingerprint="2",
        service="a",
        model="m",
        prices=TokenPrices(**PRICES),
        may_cost=True,
        counts_tokens=True,
    )
    with pytest.raises(BudgetReachedError, match=r"0.0000 USD spent and 1.0000 USD in doubt"):
        other.entry(Asked("q" * 64, None, (8, 8)), worst=lambda: 1.0).send()
