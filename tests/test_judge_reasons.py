"""Judges that give their reasons, and ImageBiTe's nineteen generic checks, against a server on this machine."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from chat_server import IMAGE, ChatHandler, ChatServer, answers, complaint, judge, playing
from local_server import Behaviour, says
from running import judged
from small_parts import small_run, write_image_set
from test_judge_asking import rows
from typer.testing import CliRunner

from detector_bench.cli.app import app
from detector_bench.detectors.generic_checks import CHECKS, check_attribute
from detector_bench.detectors.judge_presets import PRESETS
from detector_bench.detectors.vlm_judge import REASONS, VlmJudge
from detector_bench.errors import DetectorBenchError
from detector_bench.perception.identity import canonical
from detector_bench.vocabulary.attribute_files import attributes_of
from detector_bench.weights import WeightsLocator

NOWHERE = WeightsLocator()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChatServer]:
    with playing(monkeypatch, tmp_path_factory.mktemp("certificates")) as running:
        yield running


def in_order(*texts: str | None) -> Behaviour:
    """Answers by the turn of the conversation."""

    def behave(handler: ChatHandler) -> None:
        answers(texts[len(handler.fields["body"]["messages"]) // 2])(handler)

    return behave


def test_reasons_after_the_answer_cannot_change_it_and_are_kept_word_for_word(
    server: ChatServer, tmp_path: Path
) -> None:
    images, out = write_image_set(tmp_path / "set", 2), tmp_path / "out"
    server.always = in_order("A man.", 'Short hair; "no woman".\nÄhm.')
    paid = {"paid_folder": tmp_path / "paid"}
    small_run(images, out, judge(server, questions={"gender": "G?"}, how={"reasoning": "after"}), **paid)
    first, second = (
        each["body"]["messages"]
        for each in sorted(server.requests, key=lambda one: len(one["body"]["messages"]))[1:3]
    )
    assert [each["role"] for each in first] == ["user"]
    assert [each["role"] for each in second] == ["user", "assistant", "user"]
    assert (second[1]["content"], second[2]["content"]) == ("A man.", REASONS["after"])
    (found, _) = rows(out)
    assert (found["label"], json.loads(found["raw"])) == (
        "male",
        {"answer": "A man.", "reasoning": 'Short hair; "no woman".\nÄhm.'},
    )
    # The verdict is that of a judge without reasons, whose answers are paid for already.
    small_run(images, tmp_path / "plain", judge(server, questions={"gender": "G?"}), **paid)
    assert len(server.requests) == 4


def test_reasons_before_the_answer_are_a_turn_that_the_answer_sees(server: ChatServer) -> None:
    server.always = in_order("She wears a tie, he said.", "unknown")
    found = judged(
        judge(server, questions={"gender": "G?"}, how={"reasoning": "before", "reasoning_question": "Why?"}),
        [IMAGE],
        weights=NOWHERE,
    )
    # What the reasons name is no answer.
    assert [(each.status, each.reason) for each in found] == [("filtered", "unknown")]
    asked = server.requests[-1]["body"]["messages"]
    assert asked[0]["content"][0]["text"] == "Why?\n\nG?"
    assert [each["content"] for each in asked[1:]] == ["She wears a tie, he said.", "G?"]
    assert json.loads(found[0].raw or "")["reasoning"] == "She wears a tie, he said."


@pytest.mark.parametrize("reasons", ["", None, "  ", "unknown", '{"reasoning": '])
def test_reasons_that_say_nothing_leave_the_verdict_alone(server: ChatServer, reasons: str | None) -> None:
    server.always = in_order("A man.", reasons)
    (found,) = judged(
        judge(server, questions={"gender": "G?"}, how={"reasoning": "after"}), [IMAGE], weights=NOWHERE
    )
    assert (found.label, json.loads(found.raw or "")["reasoning"]) == ("male", reasons or "")


@pytest.mark.parametrize("batch", [1, 2, 5])
def test_reasons_that_do_not_come_are_asked_for_alone_by_the_next_run(
    server: ChatServer, tmp_path: Path, batch: int
) -> None:
    images, out = write_image_set(tmp_path / "set", 3), tmp_path / "out"
    detector = judge(server, questions=["gender"], how={"preset": "imagebite_reasoned"}, concurrency=1)
    proper = in_order("A man.", "Short hair.")

    def refuses_the_key(handler: ChatHandler) -> None:
        says(401, complaint("Incorrect API key provided"))(handler)

    server.always = proper
    server.script = [proper, proper, proper, refuses_the_key]
    with pytest.raises(DetectorBenchError, match="refuses the key"):
        small_run(images, out, detector, batch_size=batch, paid_folder=tmp_path / "paid")
    small_run(images, out, detector, batch_size=batch, paid_folder=tmp_path / "paid")
    # Three answers and three reasons, each paid for once.
    assert sorted(server.paid.values()) == [1] * 6
    said = {(row["label"], row["raw"]) for row in rows(out)}
    assert said == {("male", '{"answer": "A man.", "reasoning": "Short hair."}')}


def test_reasons_in_one_conversation_branch_from_their_answer(server: ChatServer) -> None:
    server.always = in_order("a man", "old", "because")
    how = {"reasoning": "after", "asking": "in_turn", "reasoning_question": "Why?"}
    found = judged(judge(server, questions={"gender": "G?", "age": "A?"}, how=how), [IMAGE], weights=NOWHERE)
    last = [each["body"]["messages"][-1]["content"] for each in server.requests]
    texts = [each if isinstance(each, str) else each[0]["text"] for each in last]
    assert sorted(texts) == ["A?", "G?", "Why?", "Why?"]
    assert [json.loads(each.raw or "")["answer"] for each in found] == ["a man", "old"]


def test_a_judge_without_reasons_has_the_fingerprint_that_it_had() -> None:
    model = {"kind": "openai", "base_url": "https://a.example/v1", "model": "m"}
    plain, reasoned = (VlmJudge.model_validate({"model": model, "reasoning": how}) for how in ("none", "after"))
    assert "reasoning" not in json.dumps(canonical(plain, weights=NOWHERE))
    assert '"reasoning": "after"' in json.dumps(canonical(reasoned, weights=NOWHERE))
    with pytest.raises(ValueError, match="reasoning_question goes with reasoning"):
        VlmJudge.model_validate({"model": model, "reasoning_question": "Why?"})
    local = {"kind": "transformers", "checkpoint": "x", "chat": False}
    with pytest.raises(ValueError, match="reasoning: 'after' needs a chat template"):
        VlmJudge.model_validate({"model": local, "reasoning": "after"})
    asked = VlmJudge.model_validate({"model": model, "preset": "imagebite_reasoned"})
    assert (asked.reasoning, len(asked.stages)) == ("after", 4)


def test_checks_are_written_as_attributes_and_asked_as_a_preset(server: ChatServer, tmp_path: Path) -> None:
    images = write_image_set(tmp_path / "set", 1)
    folder = tmp_path / "set"
    said = CliRunner().invoke(app, ["imagebite", "checks", str(folder)])
    assert said.exit_code == 0, said.output
    assert said.output.count(": written") == 19
    assert CliRunner().invoke(app, ["imagebite", "checks", str(folder)]).output.count("there already") == 19
    assert CliRunner().invoke(app, ["imagebite", "checks", str(tmp_path)]).exit_code == 1
    assert list(attributes_of(folder)) == sorted(CHECKS)
    assert {len(check_attribute(name).choices) for name in CHECKS} == {2}
    server.always = answers("No.")
    detector = judge(
        server, questions=list(PRESETS["imagebite_checks"].attributes), how={"preset": "imagebite_checks"}
    )
    small_run(images, tmp_path / "out", detector, paid_folder=tmp_path / "paid")
    found = {row["attribute"]: row["label"] for row in rows(tmp_path / "out")}
    assert {name for name, label in found.items() if label == "passed"} == {
        name for name, check in CHECKS.items() if check.passes == "no"
    }
    assert (len(found), sum(check.passes == "yes" for check in CHECKS.values())) == (19, 5)
    harms = [check.harm for check in CHECKS.values()]
    assert [harms.count(each) for each in dict.fromkeys(harms)] == [4, 1, 3, 11]


@pytest.mark.parametrize(
    ("text", "label", "reason"),
    [
        ("Yes, overdrawn.", "not_passed", None),
        ("no", "passed", None),
        ("There is no such thing: no.", "passed", None),
        ("unknown", None, "unknown"),
        ("Yes and no.", None, "ambiguous"),
        ("Hm.", None, "no_answer"),
    ],
)
def test_how_an_answer_to_a_check_is_read(
    server: ChatServer, tmp_path: Path, text: str, label: str | None, reason: str | None
) -> None:
    write_image_set(tmp_path / "set", 1)
    CliRunner().invoke(app, ["imagebite", "checks", str(tmp_path / "set")])
    attributes_of(tmp_path / "set")
    server.always = answers(text)
    detector = judge(server, questions=["check_harm"], how={"preset": "imagebite_checks"})
    (found,) = judged(detector, [IMAGE], weights=NOWHERE)
    assert (found.label, found.reason, found.raw) == (label, reason, text)


def test_the_preset_of_checks_asks_for_nothing_else() -> None:
    model = {"kind": "openai", "base_url": "https://a.example/v1", "model": "m"}
    with pytest.raises(ValueError, match="does not ask about 'gender'"):
        VlmJudge.model_validate({"model": model, "preset": "imagebite_checks", "questions": ["gender"]})
