"""Scores of vision-language judges, from the log-probabilities that servers give."""

from __future__ import annotations

import logging
import math
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from chat_server import IMAGE, KEY, ChatServer, answers, ask, completion, judge, logprobs, playing
from hypothesis import given
from hypothesis import strategies as st
from local_server import says
from running import judged
from small_parts import small_run, write_image_set

from detector_bench.detectors.answer_reading import GENDER_ANSWERS, default_answers
from detector_bench.detectors.answer_scores import label_score
from detector_bench.errors import ConfigError
from detector_bench.perception.answers.token_choices import TokenChoice, places_told
from detector_bench.weights import WeightsLocator

NOWHERE = WeightsLocator()
RACES = default_answers("race")
SURE = logprobs([(" Male", 0.6), ("male", 0.1), (" Fem", 0.2), (" un", 0.1)])


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChatServer]:
    with playing(monkeypatch, tmp_path_factory.mktemp("certificates")) as running:
        yield running


def places(*told: list[tuple[str, float]]) -> list[tuple[TokenChoice, ...]]:
    return [tuple(TokenChoice(text, math.log(number)) for text, number in place) for place in told]


SOUTH = [("South", 0.6), ("White", 0.2), ("East", 0.1)]


@pytest.mark.parametrize(
    ("label", "told", "answer_set", "score"),
    [
        # (0.6 + 0.1) / (0.6 + 0.1 + 0.2): "un" is no label's
        ("male", [[(" Male", 0.6), ("male", 0.1), (" Fem", 0.2), (" un", 0.1)]], GENDER_ANSWERS, 7 / 9),
        # inside a sentence: at the word that gives the label
        ("male", [[("It's a", 0.9), ("x", 0.1)], [(" man", 0.6), (" woman", 0.2)]], GENDER_ANSWERS, 0.75),
        # "not a woman" does not count
        ("male", [[("not a woman, ", 0.9), ("x", 0.1)], [("man", 0.3), ("she", 0.1)]], GENDER_ANSWERS, 0.75),
        # a word in several tokens, in quotes
        ("female", [[('"', 0.9), ("M", 0.1)], [("fe", 0.8), ("M", 0.2)], [("male", 1)]], GENDER_ANSWERS, 0.8),
        # "South" begins two labels: 0.6 x 0.7 / (0.6 + 0.2 + 0.1)
        ("southeast_asian", [SOUTH, [("east", 0.7), (" Asian", 0.3)], [(" Asian", 1)]], RACES, 0.6 * 0.7 / 0.9),
        # "South" that was not chosen counts for neither: 0.3 / (0.3 + 0.5)
        ("south_asian", [[("South Asian", 0.3), ("South", 0.5)]], RACES, 0.375),
        ("south_asian", [SOUTH], RACES, None),
        ("male", [[("male", 0.9)]], GENDER_ANSWERS, None),
        ("male", [[("fine", 0.9), ("male", 0.1)]], GENDER_ANSWERS, None),
        ("male", [], GENDER_ANSWERS, None),
    ],
)  # fmt: skip
def test_score_is_the_labels_share(label: str, told: Any, answer_set: Any, score: float | None) -> None:
    found = label_score(label, places(*told), answers=answer_set)
    assert found == (score if score is None else pytest.approx(score, rel=1e-9))


SYLLABLES = st.sampled_from(
    [" Male", "fe", "male", "he", "r", "South", " Asian", "east", '"', ".", "", "un", "not "]
)
PLACES = st.lists(st.lists(st.tuples(SYLLABLES, st.floats(-30, 0)), min_size=1, max_size=4), max_size=6)


@given(PLACES)
def test_a_score_is_a_probability_or_none(given_places: Any) -> None:
    made = [tuple(TokenChoice(*each) for each in place) for place in given_places]
    for answer_set in (GENDER_ANSWERS, RACES):
        for label in answer_set.labels:
            score = label_score(label, made, answers=answer_set)
            assert score is None or 0 <= score <= 1


def test_server_is_asked_for_them_and_the_verdict_has_a_score(server: ChatServer) -> None:
    server.always = answers(" Male", **SURE)
    (found,) = judged(judge(server, top_logprobs=20), [IMAGE], weights=NOWHERE)
    assert (found.label, found.score) == ("male", pytest.approx(7 / 9, abs=1e-5))
    assert {name: server.requests[0]["body"][name] for name in ("logprobs", "top_logprobs")} == {
        "logprobs": True,
        "top_logprobs": 20,
    }
    judged(judge(server), [IMAGE], weights=NOWHERE)
    assert not {"logprobs", "top_logprobs"} & set(server.requests[1]["body"])


def test_a_low_score_is_uncertain(server: ChatServer) -> None:
    server.always = answers(" Male", **SURE)
    (found,) = judged(judge(server, top_logprobs=20, how={"min_score": 0.8}), [IMAGE], weights=NOWHERE)
    assert (found.status, found.reason, found.label) == ("filtered", "uncertain", None)
    assert found.score == pytest.approx(7 / 9, abs=1e-5)
    with pytest.raises(ConfigError, match=r"min_score: 0\.8 needs scores; set `top_logprobs: 20`"):
        judge(server, how={"min_score": 0.8})


def bad(text: Any = "male", logprob: Any = -0.1, others: Any = ()) -> dict[str, Any]:
    entry = {"token": text, "logprob": logprob, "top_logprobs": list(others)}
    return {"logprobs": {"content": [entry]}}


OTHER = {"token": "female", "logprob": -2.0}


@pytest.mark.parametrize(
    "told",
    [
        {"logprobs": None},
        {"logprobs": "none"},
        {"logprobs": {"content": 5}},
        {"logprobs": {"content": [5]}},
        bad(text=5, others=[OTHER]),
        bad(logprob=math.nan, others=[OTHER]),
        bad(logprob=math.inf, others=[OTHER]),
        bad(logprob=None, others=[OTHER]),
        bad(logprob=3.0, others=[OTHER]),
        bad(others=[{**OTHER, "logprob": math.nan}]),
        bad(others=[]),
        bad(others="all"),
        bad(text="\ufffd", others=[OTHER]),
    ],
)
def test_log_probabilities_that_are_none_give_no_score(
    server: ChatServer, caplog: pytest.LogCaptureFixture, told: dict[str, Any]
) -> None:
    caplog.set_level(logging.WARNING)
    server.always = says(200, completion("male", **told))
    images = [IMAGE, IMAGE[:20]]
    for found in judged(judge(server, top_logprobs=5), images, weights=NOWHERE):
        assert (found.label, found.score) == ("male", None)
    said = [record.getMessage() for record in caplog.records]
    assert all("gives no log-probabilities: its verdicts have no score" in each for each in said)
    assert len(said) <= 1
    for found in judged(judge(server, top_logprobs=5, how={"min_score": 0.5}), images, weights=NOWHERE):
        assert (found.status, found.raw) == ("error", "male")
        assert (found.reason or "").startswith("no_score: no log-probabilities")


def test_impossible_tokens_count_as_impossible(server: ChatServer) -> None:
    server.always = says(200, completion("male", **bad(logprob=0.0, others=[{**OTHER, "logprob": -math.inf}])))
    (found,) = judged(judge(server, top_logprobs=5), [IMAGE], weights=NOWHERE)
    assert (found.label, found.score) == ("male", 1.0)


def test_scores_are_paid_for_once(server: ChatServer, tmp_path: Path) -> None:
    images, detector = write_image_set(tmp_path / "set", 3), judge(server, top_logprobs=20)
    server.always = answers(" Male", **SURE)
    small_run(images, tmp_path / "out", detector, paid_folder=tmp_path / "paid")
    shutil.rmtree(tmp_path / "cache")
    small_run(images, tmp_path / "again", detector, paid_folder=tmp_path / "paid")
    assert sorted(server.paid.values()) == [1] * 3
    scores = [pq.read_table(tmp_path / name / "judge")["score"].to_pylist() for name in ("out", "again")]
    assert scores[0] == scores[1] == [pytest.approx(7 / 9, abs=1e-5)] * 3


def test_thoughts_are_left_out_and_marks_of_tokenizers_read() -> None:
    tokens = ["<think>", "man", "</think>", "\u0120woman"]
    content = [{"token": each, "logprob": -0.1, "top_logprobs": [OTHER]} for each in tokens]
    (place,) = places_told({"content": content}, most=5)
    assert [each.text for each in place] == [" woman", "female"]


@pytest.mark.parametrize(("given", "read"), [(10**400, math.nan), (-(10**400), -9999.0), (math.nan, math.nan)])
def test_a_log_probability_that_no_float_holds_costs_no_answer(given: float, read: float) -> None:
    """The answer is paid for by then."""
    ((found,),) = places_told({"content": [{"token": "A", "logprob": given}]}, most=5)
    assert found == TokenChoice("A", pytest.approx(read, nan_ok=True))


def test_tokens_that_spell_the_key_are_not_kept(server: ChatServer) -> None:
    spelt = logprobs(*[[(KEY[start : start + 5], 0.9), ("x", 0.1)] for start in range(0, len(KEY), 5)])
    server.script = [answers("male", **spelt), answers("male", **logprobs([("male", 0.5), (KEY, 0.5)]))]
    for found in ask(server, IMAGE, IMAGE[:20], top_logprobs=5):
        assert (bytes(found["token_texts"]), len(found["token_logprobs"])) == (b"[]", 0)
