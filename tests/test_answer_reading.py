"""Labels read out of sentences."""

from __future__ import annotations

import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from detector_bench.detectors.answer_reading import GENDER_ANSWERS, AnswerReading, AnswerSet, default_answers
from detector_bench.vocabulary import ATTRIBUTES

ANSWERS = {name: default_answers(name) for name in ("gender", "age", "race")}


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        ("a man", "male"),
        ("it's a woman", "female"),
        ("It\N{RIGHT SINGLE QUOTATION MARK}s a woman", "female"),
        ("male.", "male"),
        ("Female\n", "female"),
        (" MALE!!", "male"),
        ("she", "female"),
        ("He's smiling", "male"),
        ("boy", "male"),
        ("lady", "female"),
        ("The person looks like a male", "male"),
        ("a woman's face", "female"),
        ("**Male**", "male"),
        ('{"gender": "female"}', "female"),
        ("'man'", "male"),
        ("\N{FULLWIDTH LATIN SMALL LETTER M}an", "male"),
        ("female female female", "female"),
        ("no, it's a man", "male"),
        ("not a man but a woman", "female"),
        ("<think>A man? No: long hair.</think>\nFemale", "female"),
        ("long hair, so no man</think> Female", "female"),
    ],
)
def test_gender_of_an_answer(answer: str, found: str) -> None:
    assert GENDER_ANSWERS.read(answer) == AnswerReading(label=found)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("", "no_answer"),
        ("   \n", "no_answer"),
        ("no", "no_answer"),
        ("a person in a kitchen", "no_answer"),
        ("human", "no_answer"),  # "man" and "he" are no words of it
        ("the other one", "no_answer"),
        ("womanly", "no_answer"),
        ("not a man", "no_answer"),
        ("The person does not look like a man.", "no_answer"),
        ("It isn't a woman", "no_answer"),
        ("<think>perhaps a man", "no_answer"),
        ("both", "ambiguous"),
        ("Either.", "ambiguous"),
        ("a man and a woman", "ambiguous"),
        ("male/female", "ambiguous"),
        ("a woman and her husband", "ambiguous"),
        ("unknown", "unknown"),
        ("Unclear, perhaps a man", "unknown"),
        ("neither male nor female", "unknown"),
        ("I can\N{RIGHT SINGLE QUOTATION MARK}t tell whether it is a man or a woman", "unknown"),
        ("It is hard to say.", "unknown"),
        ("non-binary", "unknown"),
        ("N/A", "unknown"),
        ("There is no person in this image", "no_person"),
        ("nobody", "no_person"),
    ],
)
def test_answers_without_a_gender(answer: str, reason: str) -> None:
    assert GENDER_ANSWERS.read(answer) == AnswerReading(reason=reason)


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        ("young", ("young", None)),
        ("Young (0-30 years)", ("young", None)),
        ("0\N{EN DASH}30", ("young", None)),
        ("a teenager", ("young", None)),
        ("middle-aged", ("middle_aged", None)),
        ("Middle_aged", ("middle_aged", None)),
        ("30-60", ("middle_aged", None)),
        ("Elderly (60+ years)", ("elderly", None)),
        ("60+", ("elderly", None)),
        ("60 or older", ("elderly", None)),
        ("a man of 25 years, not old", (None, "no_answer")),
        ("60", (None, "no_answer")),
        ("a young woman and an elderly man", (None, "ambiguous")),
        ("unknown", (None, "unknown")),
    ],
)
def test_age_of_an_answer(answer: str, found: tuple[str | None, str | None]) -> None:
    assert ANSWERS["age"].read(answer) == found


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        ("White", ("white", None)),
        ("Caucasian.", ("white", None)),
        ("African American", ("black", None)),
        ("North African", ("middle_eastern", None)),
        ("Middle-Eastern", ("middle_eastern", None)),
        ("Latino/Hispanic", ("latino_hispanic", None)),
        ("East Asian", ("east_asian", None)),
        ("east_asian", ("east_asian", None)),
        ("Southeast Asian", ("southeast_asian", None)),
        ("South-East Asian", ("southeast_asian", None)),
        ("South Asian (Indian)", ("south_asian", None)),
        ("American Indian", (None, "unknown")),
        ("Asian", (None, "no_answer")),
        ("East Asian or Southeast Asian", (None, "ambiguous")),
        ("mixed", (None, "ambiguous")),
    ],
)
def test_race_of_an_answer(answer: str, found: tuple[str | None, str | None]) -> None:
    assert ANSWERS["race"].read(answer) == found


@pytest.mark.parametrize("attribute", list(ANSWERS))
def test_every_class_can_be_answered_by_its_own_name(attribute: str) -> None:
    assert set(ANSWERS[attribute].labels) == set(ATTRIBUTES[attribute].classes)
    for label in ATTRIBUTES[attribute].classes:
        assert label == "latino_hispanic" or ANSWERS[attribute].read(label).label == label


def test_every_phrase_means_what_it_stands_for() -> None:
    for answers in ANSWERS.values():
        for label, phrases in answers.labels.items():
            for phrase in phrases:
                assert answers.read(f"It is {phrase.upper()}.") == AnswerReading(label=label)
        for reason, phrases in answers.reasons.items():
            for phrase in phrases:
                assert answers.read(phrase) == AnswerReading(reason=reason)


def test_own_answers() -> None:
    letters = AnswerSet(
        labels={"male": ("m",), "female": ("f", "a woman")},
        reasons={"several_people": ("a group",), "other": ("x",)},
    )
    assert letters.read("M") == ("male", None)
    assert letters.read("I'm sure: A woman") == ("female", None)
    assert letters.read("x: a group, m") == (None, "several_people")
    assert letters.read("unknown") == (None, "no_answer")


@pytest.mark.parametrize(
    ("labels", "reasons", "message"),
    [
        ({}, {}, "at least 1 item"),
        ({"male": ()}, {}, "'male' has no words"),
        ({"male": ("man", "...")}, {}, "is no word or phrase"),
        ({"male": ("man. he",)}, {}, "is no word or phrase"),
        ({"male": ("Man",), "female": ("man!"[:3],)}, {}, "means both 'male' and 'female'"),
        ({"male": ("middle-aged",)}, {"unknown": ("Middle aged",)}, "means both 'male' and 'unknown'"),
        ({"male": ("man",)}, {"Not known": ("x",)}, "one word in snake_case"),
    ],
)
def test_answers_that_make_no_sense(
    labels: dict[str, tuple[str]], reasons: dict[str, tuple[str]], message: str
) -> None:
    with pytest.raises(ValidationError, match=message):
        AnswerSet(labels=labels, reasons=reasons)


WORDS = st.sampled_from(
    [
        *("a", "the", "man", "woman", "male", "female", "he", "her", "not", "no", "unknown", "both", "neither"),
        *("can't", "tell", "<think>", "</think>", ".", ",", "-", "white", "young", "middle-aged", "30-60", "60+"),
        *("east", "southeast", "asian"),
    ]
)
SENTENCES = st.one_of(st.text(), st.lists(WORDS, max_size=12).map(" ".join))


@settings(deadline=None, max_examples=60)
@given(SENTENCES, st.sampled_from(sorted(ANSWERS)))
def test_any_text_gives_a_label_or_a_reason(answer: str, attribute: str) -> None:
    label, reason = ANSWERS[attribute].read(answer)
    assert (label is None) != (reason is None)
    assert label is None or label in ATTRIBUTES[attribute].classes


@settings(deadline=None, max_examples=60)
@given(
    st.lists(WORDS, max_size=12).map(" ".join), st.text(string.punctuation.replace("+", "") + " \n", max_size=5)
)
def test_case_and_punctuation_around_an_answer_change_nothing(answer: str, around: str) -> None:
    around = around.replace("<", "").replace(">", "")
    for answers in ANSWERS.values():
        assert answers.read(answer.upper()) == answers.read(answer)
        assert answers.read(f"{around} {answer} {around}") == answers.read(answer)


@settings(deadline=None, max_examples=60)
@given(SENTENCES)
def test_words_of_both_genders_never_give_one(answer: str) -> None:
    assert GENDER_ANSWERS.read(f"man. {answer} <think></think> . woman").label != "male"
    assert GENDER_ANSWERS.read(f"woman. {answer} <think></think> . man").label != "female"
