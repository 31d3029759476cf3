"""The words and keys of the labelling page: what each label is called, and which key gives it.

Labels of gender and age have a letter of their own, so that they can be given in any order. Where several
questions have digits (race and skin tone, or the questions about a pair), a digit answers the one that is marked.
"""

from __future__ import annotations

from typing import Any

from detector_bench.labelling import Question, Task
from detector_bench.vocabulary import LOW_QUALITY, LOW_QUALITY_REASONS, OTHERS
from detector_bench.vocabulary.monk_scale import MONK_SHADES

COMMAND_KEYS = frozenset("glnosuz?+-")
"""Keys that do something other than choosing a class; no label may have one of them."""

_TITLES = {
    "gender": "Perceived gender",
    "age": "Perceived age group",
    "race": "Perceived race",
    "skin_tone": "Perceived skin tone",
    "gender_change": "Gender of both",
    "age_change": "Age",
    "skin_tone_change": "Skin tone",
}

_SHORT_TITLES = {
    "gender": "Gender",
    "age": "Age group",
    "race": "Race",
    "skin_tone": "Skin tone",
    "gender_change": "Genders",
    "age_change": "Age of person 2",
    "skin_tone_change": "Skin of person 2",
}

# Label: its name on the button, what helps to decide, and its key.
_IMAGE_LABELS = {
    "gender": {"male": ("Male", "", "m"), "female": ("Female", "", "f")},
    "age": {
        "young": ("Young", "under 30", "y"),
        "middle_aged": ("Middle-aged", "30 to 60", "i"),
        "elderly": ("Elderly", "over 60", "e"),
    },
    "race": {
        "white": ("White", "", "1"),
        "black": ("Black", "", "2"),
        "latino_hispanic": ("Latino or Hispanic", "", "3"),
        "east_asian": ("East Asian", "", "4"),
        "southeast_asian": ("Southeast Asian", "", "5"),
        "south_asian": ("South Asian", "", "6"),
        "middle_eastern": ("Middle Eastern", "", "7"),
    },
    "skin_tone": {
        label: (f"Monk {shade}", "", str(shade % 10)) for shade, label in enumerate(MONK_SHADES, start=1)
    },
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
    """A question for the page: `name, title, short, text`, and `choices`: `label, text, hint, key, colour`."""
    choices = []
    for number, label in enumerate(question.classes, start=1):
        plain = label.replace("_", " ").capitalize()
        if task is Task.IMAGES:
            text, hint, key = _IMAGE_LABELS.get(question.name, {}).get(label, (plain, "", str(number)))
        else:
            text, hint, key = _PAIR_LABELS.get(question.name, {}).get(label, plain), "", str(number)
        colour = "".join(f"{part:02x}" for part in MONK_SHADES.get(label, ()))
        choices.append(
            {"label": label, "text": text, "hint": hint, "key": key, "colour": f"#{colour}" if colour else ""}
        )
    title = _TITLES.get(question.name, question.name.replace("_", " ").capitalize())
    short = _SHORT_TITLES.get(question.name, title)
    return {"name": question.name, "title": title, "short": short, "text": question.text, "choices": choices}


def reason_views() -> list[dict[str, str]]:
    """The reasons for low quality, in order, as the page shows them: `label, text, hint, key`."""
    return [
        {"label": name, "text": text, "hint": hint, "key": str(number)}
        for number, name in enumerate(LOW_QUALITY_REASONS, start=1)
        for text, hint in [_REASONS.get(name, (name.replace("_", " ").capitalize(), ""))]
    ]


def label_texts(question: Question, *, task: Task) -> dict[str, str]:
    """Labels and their names, in the question's order."""
    choices = question_view(question, task=task)["choices"]
    names = {str(choice["label"]): str(choice["text"]) for choice in choices}
    return names | {LOW_QUALITY: "Low quality", OTHERS: "Other"}
