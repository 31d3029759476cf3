"""How vision-language judges ask: several questions in one request or conversation, as other benchmarks do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from chat_server import IMAGE, ChatHandler, ChatServer, answers, ask, completion, judge, logprobs, playing
from hypothesis import given
from hypothesis import strategies as st
from local_server import says
from running import judged
from small_parts import small_run, write_image_set

from detector_bench.detectors import build_detector
from detector_bench.detectors.answer_parts import UnreadableAnswerError, joint_part, side_part
from detector_bench.detectors.vlm_judge import default_question
from detector_bench.errors import ConfigError
from detector_bench.perception.answers.chat_answers import ChatAnswers
from detector_bench.perception.answers.paid_ledger import PaidLedger
from detector_bench.perception.identity import fingerprint
from detector_bench.perception.stage import parse_stage
from detector_bench.vocabulary.attribute_files import attributes_of
from detector_bench.weights import WeightsLocator

NOWHERE = WeightsLocator()
ALL = ("gender", "age", "race")
TOGETHER = {"asking": "together"}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChatServer]:
    with playing(monkeypatch, tmp_path_factory.mktemp("certificates")) as running:
        yield running


def rows(out: Path, name: str = "judge") -> list[dict[str, Any]]:
    return sorted(pq.read_table(out / name).to_pylist(), key=lambda row: (row["image_id"], row["attribute"]))


# Several questions in one request


def test_one_request_asks_for_all(server: ChatServer, tmp_path: Path) -> None:
    images = write_image_set(tmp_path / "set", 4)
    server.always = answers('{"gender": "a woman", "age": "young (0-30 years)", "race": "unknown"}')
    detector = judge(server, questions=ALL, how=TOGETHER)
    small_run(images, tmp_path / "out", detector, paid_folder=tmp_path / "paid")
    assert sorted(server.paid.values()) == [1] * 4
    question = server.requests[0]["question"]
    assert all(f"{name}: {default_question(name)}" in question for name in ALL)
    assert '{"gender": "...", "age": "...", "race": "..."}' in question
    found = {row["attribute"]: (row["label"], row["reason"]) for row in rows(tmp_path / "out")}
    assert found == {"gender": ("female", None), "age": ("young", None), "race": (None, "unknown")}
    (spent,) = PaidLedger(tmp_path / "paid").spending().values()
    assert spent["answers"] == 4


@pytest.mark.parametrize(
    "text",
    [
        '{"gender": "male", "age": "elderly", "race": "Black"}',
        '```json\n{"gender": "male",\n "age": "elderly", "race": "Black"}\n```',
        'Here you are: {"Race": "Black", "gender": ["male"], "AGE": "elderly", "hair": "grey, as of a woman"}.',
        "gender: male\nage: elderly\nrace: Black",
        "1. **Gender**: male\n2. **Age**: elderly\n3. **Race**: Black",
        "1. male\n2. elderly\n3. Black",
        '<think>{"gender": "female"}</think>{"gender": "male", "age": "elderly", "race": "Black"}',
    ],
)
def test_forms_of_an_answer_to_several_questions(text: str) -> None:
    words = {"gender": "male", "age": "elderly", "race": "Black"}
    for name, word in words.items():
        part = joint_part(text, name, asked=ALL)
        assert part is not None
        assert text[part].strip('"[]') == word


@pytest.mark.parametrize(
    ("text", "reasons"),
    [
        ('{"gender": "male"}', [None, "'age' is missing from the answer; `asking: apart` asks for it alone"]),
        ('{"gender": "male", "gender": "female", "age": "young"}', ["'gender' is answered 2 times; ", None]),
        ('{"gender": "male", "age": "you', ["the answer's JSON object is broken or cut off"] * 2),
        ('{"gender": "male"}{"age": "young"}', ["the answer holds 2 JSON objects; accepted: one"] * 2),
        ("{}", ["'gender' is missing", "'age' is missing"]),
        ("a young man", ["it is not in the form that was asked for"] * 2),
        ("{'gender': 'male'}", ["the answer's JSON object is broken"] * 2),
        ('{"gender" "male"}', ["the answer's JSON object is broken"] * 2),
        ("{" * 5000, ["the answer's JSON object is broken"] * 2),
        ('{"a":' * 3000, ["the answer's JSON object is broken"] * 2),
        (" " * 30_000, ["the answer has 30,000 characters; accepted: 20,000"] * 2),
    ],
)  # fmt: skip
def test_an_answer_that_lacks_a_question_is_an_error_of_that_attribute(
    server: ChatServer, text: str, reasons: list[str | None]
) -> None:
    server.always = answers(text)
    found = judged(judge(server, questions=ALL[:2], how=TOGETHER), [IMAGE], weights=NOWHERE)
    for each, reason in zip(found, reasons, strict=True):
        assert (each.status, each.raw) == ("clear" if reason is None else "error", text)
        if reason is not None:
            assert (each.reason or "").startswith(f"invalid_answer: {reason}")
            assert "\n" not in (each.reason or "")


PIECES = st.sampled_from(
    ['{"gender": "male"', ', "age": "old"', "}", "{", "[", '"', "1. male\n", "gender: ", "</think>"]
)


@given(st.lists(PIECES | st.text(max_size=5), max_size=8).map("".join))
def test_any_answer_has_a_part_or_a_reason(text: str) -> None:
    with suppress(UnreadableAnswerError):
        part = joint_part(text, "gender", asked=ALL)
        assert part is None or text[part]


@pytest.mark.parametrize(
    ("text", "reason"),
    [("I'm unable to determine that.", "unknown"), ("Nobody is there.", "no_person"), ("", "no_answer")],
)
def test_words_that_decline_all_questions_filter(server: ChatServer, text: str, reason: str) -> None:
    server.always = answers(text)
    found = judged(judge(server, questions=ALL, how=TOGETHER), [IMAGE], weights=NOWHERE)
    assert {(each.status, each.reason) for each in found} == {("filtered", reason)}
    server.always = says(200, completion(None, message={"refusal": "No."}))
    found = judged(judge(server, questions=ALL, how=TOGETHER), [IMAGE], weights=NOWHERE)
    assert {(each.status, each.reason) for each in found} == {("filtered", "refused")}


def test_an_empty_body_is_one_line(server: ChatServer) -> None:
    server.always = says(200, "")
    (found,) = ask(server)
    assert (found.reason, found.detail) == ("invalid_answer", "the body of the response is empty")


def test_each_question_has_the_score_of_its_own_words(server: ChatServer) -> None:
    told = logprobs(
        [('{"gender": "', 0.9), ("x", 0.1)],
        [("male", 0.6), ("female", 0.2)],
        [('", "age": "', 0.9), ("x", 0.1)],
        [("old", 0.5), ("young", 0.5)],
        [('"}', 0.9), ("x", 0.1)],
    )
    server.always = answers('{"gender": "male", "age": "old"}', **told)
    words = {"labels": {"young": ["young"], "elderly": ["old"]}}
    questions = {"gender": None, "age": {"answers": words}}
    detector = judge(server, questions=questions, how=TOGETHER, top_logprobs=5)
    found = judged(detector, [IMAGE], weights=NOWHERE)
    assert [(each.label, each.score) for each in found] == [
        ("male", pytest.approx(0.75, abs=1e-5)),
        ("elderly", pytest.approx(0.5, abs=1e-5)),
    ]


# One conversation


def test_turns_of_a_conversation_are_requests_of_their_own(server: ChatServer, tmp_path: Path) -> None:
    images, out = write_image_set(tmp_path / "set", 3), tmp_path / "out"
    turn = {"asking": "in_turn"}

    def counts(handler: ChatHandler) -> None:
        number = len(handler.fields["body"]["messages"]) // 2
        answers(["a man", "old", "White"][number], tokens=(100 * (number + 1), 2))(handler)

    server.always = counts
    paid = {"paid_folder": tmp_path / "paid", "batch_size": 2}
    two = {"gender": "G?", "age": "A?"}
    small_run(images, out, judge(server, questions=two, how=turn, concurrency=1), **paid)
    first, second = (each["body"]["messages"] for each in (server.requests[0], server.requests[2]))
    assert [each["role"] for each in first] == ["user"]
    assert [each["role"] for each in second] == ["user", "assistant", "user"]
    assert (second[0]["content"][0]["text"], second[1]["content"], second[2]["content"]) == ("G?", "a man", "A?")
    assert second[0]["content"][1] == first[0]["content"][1], "the image stays in the conversation"
    assert [row["raw"] for row in rows(out)][:2] == ["old", "a man"]
    spending = PaidLedger(tmp_path / "paid").spending().values()
    assert sorted(each["prompt_tokens"] for each in spending) == [300, 600]
    # Another last question: what was asked before it is paid for.
    small_run(images, out, judge(server, questions={"gender": "G?", "age": "Age?"}, how=turn), **paid)
    assert Counter(each["question"] for each in server.requests) == {"G?": 3, "A?": 3, "Age?": 3}


def test_a_turn_knows_those_before_it() -> None:
    def turn(question: str, earlier: Any = None, **options: Any) -> ChatAnswers:
        where = {"base_url": "https://a.example/v1", "model": "m", "prices": {"prompt": 1e6, "completion": 0}}
        return ChatAnswers(**where, question=question, earlier=earlier, **options)

    first, second = turn("1?"), turn("2?", turn("1?", concurrency=2))
    assert second == turn("2?", first)
    assert second != turn("2?", turn("one?"))
    assert second != turn("2?")
    assert second.inputs() == (first,)
    assert parse_stage(second.model_dump()) == second
    prints = [fingerprint(each, weights=NOWHERE) for each in (first, second, turn("2?"), turn("1?"))]
    assert prints[0] == prints[3]
    assert len(set(prints)) == 3
    # The earlier question and up to 50 tokens of its answer are sent again.
    assert second.most_prompt_tokens((64, 64)) == turn("1?2?").most_prompt_tokens((64, 64)) + 50
    assert second.worst_cost((64, 64), most_so_far=100) == 105 + 50
    model = {"kind": "transformers", "checkpoint": "x", "chat": False}
    with pytest.raises(ConfigError, match="asking: 'in_turn' needs a chat template"):
        build_detector("vlm_judge", parameters={"model": model, "asking": "in_turn"})


# Other benchmarks' questions


def test_bigbench_asks_three_questions_of_one_person(server: ChatServer) -> None:
    said = ["Female.", "South Asian", "The person is 30-40 years old."]
    for name, group in (("bigbench", "middle_aged"), ("bigbench_as_code", "young")):
        server.script = [answers(each) for each in said]
        found = judged(judge(server, questions=None, how={"preset": name}), [IMAGE], weights=NOWHERE)
        assert [(each.attribute, each.label) for each in found] == [
            ("gender", "female"),
            ("race", "south_asian"),
            ("age", group),
        ]
    turns = server.requests[2]["body"]["messages"]
    assert [len(each["body"]["messages"]) for each in server.requests[:3]] == [1, 3, 5]
    assert "the most prominent person" in turns[0]["content"][0]["text"]
    assert "30-40 years old, 40-60 years old or more than 60 years old" in turns[4]["content"]


def test_left_and_right_are_read_from_the_same_answers(server: ChatServer, tmp_path: Path) -> None:
    images = write_image_set(tmp_path / "set", 2)
    two = {
        "gender": "The left person is (male) and the right person is (female).",
        "age": "left: 40-60, right: 0-30",
    }

    def of_two(handler: ChatHandler) -> None:
        answers(two["age" if "What is the age" in handler.fields["question"] else "gender"])(handler)

    server.always = of_two
    sides = [
        judge(server, side, questions=["gender", "age"], how={"preset": "bigbench", "person": side})
        for side in ("left", "right")
    ]
    small_run(images, tmp_path / "out", *sides)
    assert len(server.requests) == 4
    assert [row["label"] for row in rows(tmp_path / "out", "left")] == ["middle_aged", "male"] * 2
    assert [row["label"] for row in rows(tmp_path / "out", "right")] == ["young", "female"] * 2


@pytest.mark.parametrize(
    ("text", "left", "right"),
    [
        ("The person on the right is a man; the person on the left is a woman.", "a woman", "a man"),
        ("Left: male. Right: female.", "male", "female"),
        ("The man on the left is young and the woman on the right is old.", None, None),
        ("male and female", None, None),
        ("<think>the left person is old</think>the right person is male", None, "male"),
    ],
)
def test_side_of_an_answer(text: str, left: str | None, right: str | None) -> None:
    for side, expected in (("left", left), ("right", right)):
        part = side_part(text, side)  # type: ignore[arg-type]
        assert (part is None) == (expected is None)
        assert part is None or text[part].strip(" .;").startswith(expected or "")


def test_an_answer_without_sides_is_an_error(server: ChatServer) -> None:
    server.always = answers("male and male")
    how = {"preset": "bigbench", "person": "left"}
    (found,) = judged(judge(server, questions=["gender"], how=how), [IMAGE], weights=NOWHERE)
    assert (found.status, found.reason) == ("error", "invalid_answer: it is not in the form that was asked for")


def test_imagebite_offers_a_list_of_communities(server: ChatServer) -> None:
    server.script = [answers("ambiguous"), answers("Native American"), answers("woman"), answers("Latino")]
    images = [IMAGE, IMAGE[:20]]
    found = []
    for image in images:
        found += judged(judge(server, questions=None, how={"preset": "imagebite"}), [image], weights=NOWHERE)
    assert [(each.label, each.reason) for each in found] == [
        (None, "ambiguous"),
        (None, "other_community"),
        ("female", None),
        ("latino_hispanic", None),
    ]
    question = server.requests[1]["question"]
    assert (
        "White, Black, Latino, East Asian, Southeast Asian, South Asian, Middle Eastern, native american"
        in question
    )
    assert "unknown" not in question


def test_a_preset_may_be_chosen_from_and_reworded(server: ChatServer) -> None:
    own = judge(server, questions={"gender": "Which?", "age": None}, how={"preset": "bigbench", "asking": "apart"})
    assert own.attributes == ("gender", "age")
    questions = [stage.question for stage in own.stages if isinstance(stage, ChatAnswers)]
    assert questions[0] == "Which?"
    assert "0-30 years old" in questions[1]
    plain = judge(server, how={"person": "most_prominent", "asking": "apart", "min_score": 0.0})
    assert plain.identity(weights=NOWHERE) == judge(server).identity(weights=NOWHERE)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"preset": "bigbnch"}, "preset: Input should be 'bigbench', 'bigbench_as_code', 'imagebite'"),
        ({"preset": "bigbench", "questions": ["skin_tone"]}, "preset 'bigbench' does not ask about 'skin_tone'"),
        ({"preset": "bigbench", "questions": 5}, "questions: Input should be a valid dictionary; got 5"),
        ({"preset": "bigbench", "questions": [{"gender": 1}]}, "questions: Input should be a valid dictionary"),
        ({"preset": "bigbench", "questions": {"gender": 5}}, "questions.gender"),
        ({"preset": ["bigbench"]}, "preset: Input should be"),
        ({"preset": "imagebite", "person": "left"}, "'imagebite' asks about one person"),
        ({"asking": "both"}, "asking: Input should be 'apart', 'together' or 'in_turn'"),
        ({"person": "middle"}, "person: Input should be"),
    ],
)  # fmt: skip
def test_wrong_ways_of_asking_are_refused(server: ChatServer, how: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        judge(server, questions=None, how=how)


# Attributes of one's own


def test_an_attribute_is_asked_about_by_its_file_alone(server: ChatServer, tmp_path: Path) -> None:
    images = write_image_set(tmp_path / "set", 2)
    (images / "attributes").mkdir()
    (images / "attributes" / "eyewear.yaml").write_text("name: eyewear\nclasses: [glasses, sunglasses, none]\n")
    assert "eyewear" in attributes_of(images)
    server.script = [answers("Sunglasses"), answers("None."), answers('{"eyewear": "none", "gender": "male"}')]
    small_run(images, tmp_path / "out", judge(server, questions=["eyewear"], concurrency=1))
    assert [row["label"] for row in rows(tmp_path / "out")] == ["sunglasses", "none"]
    assert (
        "Which eyewear do you perceive? Answer with one of these only: glasses, sunglasses, none, unknown."
        in server.requests[0]["question"]
    )
    found = judged(judge(server, questions=["eyewear", "gender"], how=TOGETHER), [IMAGE], weights=NOWHERE)
    assert [each.label for each in found] == ["none", "male"]
    preset = judge(server, questions=["eyewear"], how={"preset": "imagebite"})
    (stage,) = preset.stages
    assert isinstance(stage, ChatAnswers)
    assert "perceived eyewear: glasses, sunglasses, none? Reply with exactly one" in stage.question
