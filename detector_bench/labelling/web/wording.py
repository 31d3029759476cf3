"""The words and keys of the labelling page: what each label is called, and which key gives it.

What attributes and their classes are called stands in their files; a language or questions of one's own may say it
otherwise. Labels of gender and age have a letter of their own, so that they can be given in any order. A key that
several questions have (race and skin tone, or the questions about a pair, have digits) answers the one that is
marked.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from detector_bench.labelling import Question, Task
from detector_bench.labelling.web.languages import AnswerWords, Words
from detector_bench.vocabulary import ATTRIBUTES, LOW_QUALITY, LOW_QUALITY_REASONS, OTHERS
from detector_bench.vocabulary.attributes import CLASS_KEYS

_PAIR_TITLES = {
    "gender_change": ("Gender of both", "Genders"),
    "age_change": ("Age", "Age of person 2"),
    "skin_tone_change": ("Skin tone", "Skin of person 2"),
}
_PAIR_LABELS = {
    "gender_change": {
        "male_male": "Both male",
        "male_female": "Male, then female",
        "female_male": "Female, then male",
        "female_female": "Both female",
    },
    "age_change": {"older": "Older", "younger": "Younger", "same": "No significant difference"},
    "skin_tone_change": {"lighter": "Lighter", "darker": "Darker", "same": "No significant difference"},
}
_REASONS = {
    "several_people": ("Several people", "and it is open who is meant"),
    "no_person": ("No person", "an object, an animal, a landscape"),
    "face_not_visible": ("Face not visible", "from behind, cut off, covered, in the dark"),
    "blurred": ("Blurred", "too blurred, too small or too distorted"),
    "ambiguous": ("Ambiguous", "the face is visible, and still one cannot tell"),
}
ENGLISH_WORDS = Words()


def question_view(
    question: Question, *, task: Task, words: Words = ENGLISH_WORDS, offered_only: bool = False
) -> dict[str, Any]:
    """A question for the page: `name, title, short, text, care`; `choices`: `label, text, hint, key, colour`.

    With `offered_only`, the answers are those that a question of one's own offers, in its order.
    """
    view = _english_view(question, task=task)
    layers = words.layers(question.name)
    for name, own_name in (("text", "question"), ("title", "title"), ("short", "short"), ("care", "care")):
        view[name] = next((text for each in layers if (text := getattr(each, own_name))), view[name])
    choices = {choice["label"]: choice for choice in view["choices"]}
    for layer in reversed(layers):
        for label, own in layer.classes.items():
            if label in choices:
                choices[label] = choices[label] | _said(own)
    view["choices"] = list(choices.values())
    order = words.own[question.name].labels if question.name in words.own else []
    if offered_only and order:
        view["choices"] = _numbered([choices[label] for label in order])
    return view


def _english_view(question: Question, *, task: Task) -> dict[str, Any]:
    view: dict[str, Any] = {"name": question.name, "text": question.text}
    if task is Task.IMAGES:
        attribute = ATTRIBUTES[question.name]
        choices = [
            {"label": each.name, "text": each.text, "hint": each.hint, "key": each.key, "colour": each.colour}
            for each in attribute.choices
        ]
        texts = {"title": attribute.title, "short": attribute.short, "care": attribute.care}
        return {**view, **texts, "choices": choices}
    title, short = _PAIR_TITLES[question.name]
    choices = [
        {"label": label, "text": _PAIR_LABELS[question.name][label], "hint": "", "key": str(number), "colour": ""}
        for number, label in enumerate(question.classes, start=1)
    ]
    return {**view, "title": title, "short": short, "care": "", "choices": choices}


def _said(own: AnswerWords) -> dict[str, str]:
    text = {"text": own.text} if own.text else {}
    return text | ({} if own.hint is None else {"hint": own.hint})


def _numbered(choices: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Digits count the answers as they stand; letters stay with their class."""
    if not all(choice["key"].isdigit() for choice in choices):
        return list(choices)
    return [{**choice, "key": key} for choice, key in zip(choices, CLASS_KEYS, strict=False)]


def label_texts(question: Question, *, task: Task, words: Words = ENGLISH_WORDS) -> dict[str, str]:
    """What every label of a question is called, in the question's order."""
    choices = question_view(question, task=task, words=words)["choices"]
    names = {str(choice["label"]): str(choice["text"]) for choice in choices}
    return names | {LOW_QUALITY: words.text("Low quality"), OTHERS: words.text("Other")}


def reason_views(questions: Iterable[Question] = (), *, words: Words = ENGLISH_WORDS) -> list[dict[str, str]]:
    """The reasons for low quality that these questions take, in order, as the page shows them: `label, text, hint,
    key`."""
    own = {each.name: (each.text, each.hint) for known in ATTRIBUTES.values() for each in known.reasons}
    names = dict.fromkeys(name for question in questions for name in question.reasons) or LOW_QUALITY_REASONS
    return [
        {"label": name, "text": text, "hint": hint, "key": key} | _said(words.language.reasons.get(name, _NOTHING))
        for key, name in zip(CLASS_KEYS, names, strict=False)
        for text, hint in [{**own, **_REASONS}[name]]
    ]


_NOTHING = AnswerWords()


def wording_of(questions: Iterable[Question], *, task: Task, words: Words) -> dict[str, Any]:
    """What annotators are asked, as the store keeps it: the language, and each question with its answers."""
    asked = [question_view(question, task=task, words=words, offered_only=True) for question in questions]
    return {
        "language": words.language.language,
        "questions": [
            {
                "name": view["name"],
                "text": view["text"],
                "answers": {choice["label"]: choice["text"] for choice in view["choices"]},
            }
            for view in asked
        ],
    }
