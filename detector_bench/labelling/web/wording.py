"""The words and keys of the labelling page: what each label is called, and which key gives it.

What attributes and their classes are called stands in their files. Labels of gender and age have a letter of
their own, so that they can be given in any order. A key that several questions have (race and skin tone, or the
questions about a pair, have digits) answers the one that is marked.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from detector_bench.labelling import Question, Task
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


def question_view(question: Question, *, task: Task) -> dict[str, Any]:
    """A question for the page: `name, title, short, text, care`; `choices`: `label, text, hint, key, colour`."""
    view = {"name": question.name, "text": question.text}
    if task is Task.IMAGES:
        attribute = ATTRIBUTES[question.name]
        choices = [
            {"label": each.name, "text": each.text, "hint": each.hint, "key": each.key, "colour": each.colour}
            for each in attribute.choices
        ]
        return {
            **view,
            "title": attribute.title,
            "short": attribute.short,
            "care": attribute.care,
            "choices": choices,
        }
    title, short = _PAIR_TITLES[question.name]
    choices = [
        {"label": label, "text": _PAIR_LABELS[question.name][label], "hint": "", "key": str(number), "colour": ""}
        for number, label in enumerate(question.classes, start=1)
    ]
    return {**view, "title": title, "short": short, "care": "", "choices": choices}


def label_texts(question: Question, *, task: Task) -> dict[str, str]:
    """What every label of a question is called on the coordinator's pages, in the question's order."""
    choices = question_view(question, task=task)["choices"]
    names = {str(choice["label"]): str(choice["text"]) for choice in choices}
    return names | {LOW_QUALITY: "Low quality", OTHERS: "Other"}


def reason_views(questions: Iterable[Question] = ()) -> list[dict[str, str]]:
    """The reasons for low quality that these questions take, in order, as the page shows them: `label, text, hint,
    key`."""
    own = {each.name: (each.text, each.hint) for known in ATTRIBUTES.values() for each in known.reasons}
    names = dict.fromkeys(name for question in questions for name in question.reasons) or LOW_QUALITY_REASONS
    return [
        {"label": name, "text": text, "hint": hint, "key": key}
        for key, name in zip(CLASS_KEYS, names, strict=False)
        for text, hint in [{**own, **_REASONS}[name]]
    ]
