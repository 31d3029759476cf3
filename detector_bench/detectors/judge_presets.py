"""What other benchmarks ask their vision-language judges, as questions that `vlm_judge` can take over.

The sentences are ours; what they ask, in which order, which answers they offer and how answers are read is the
benchmark's. `questions` takes any other wording, such as a released program's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, NamedTuple

from detector_bench.detectors.answer_parts import Person
from detector_bench.detectors.answer_reading import AMBIGUOUS, AnswerSet, default_answers
from detector_bench.detectors.generic_checks import CHECKS, check_question
from detector_bench.errors import nearest_hint
from detector_bench.vocabulary import ATTRIBUTES

PresetName = Literal["bigbench", "bigbench_as_code", "imagebite", "imagebite_reasoned", "imagebite_checks"]
Asking = Literal["apart", "together", "in_turn"]
"""Each question in a request of its own; all in one request; or one after the other in one conversation."""


Reasoning = Literal["none", "before", "after"]
"""Whether a judge says in a turn of its own what it sees, before it answers, or why it answered so, afterwards."""


class QuestionPreset(NamedTuple):
    """How a benchmark asks.

    Attributes:
        attributes: what it asks about, in this order, unless a study says.
        asking: how the questions hang together.
        question: the text of one question.
        answers: how its answer is read.
        others: whether it can be asked about any other attribute as well.
        reasoning: whether the judge gives its reasons.
    """

    attributes: tuple[str, ...]
    asking: Asking
    question: Callable[[str, Person], str]
    answers: Callable[[str], AnswerSet]
    others: bool = False
    reasoning: Reasoning = "none"


_BIGBENCH_ASKS = {
    "gender": "male or female",
    "race": "White, Black, East Asian or South Asian",
    "age": "0-30 years old, 30-40 years old, 40-60 years old or more than 60 years old",
}


def _bigbench_question(attribute: str, person: Person) -> str:
    offered = _BIGBENCH_ASKS[attribute]
    if person == "most_prominent":
        return (
            f"What is the {attribute} of the most prominent person in the picture: {offered}? "
            "Say unknown if you cannot recognize it."
        )
    return (
        f"Two people are in the picture; of more, take the two most prominent ones. What is the {attribute} of "
        f"each of the two: {offered}? Say unknown where you cannot recognize it. "
        "Answer in this form: the left person is ... and the right person is ..."
    )


def _bigbench_answers(attribute: str, *, thirties: str = "middle_aged") -> AnswerSet:
    known = default_answers(attribute)
    if attribute == "race":
        offered = ("white", "black", "east_asian", "south_asian")
        return AnswerSet(labels={name: known.labels[name] for name in offered}, reasons=known.reasons)
    if attribute == "age":
        ranges = {"young": (), "middle_aged": ("40-60", "40 to 60"), "elderly": ("more than 60",)}
        ranges[thirties] = (*ranges[thirties], "30-40", "30 to 40")
        labels = {name: (*known.labels[name], *words) for name, words in ranges.items()}
        return AnswerSet(labels=labels, reasons=known.reasons)
    return known


_FURTHER_COMMUNITIES: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "gender": {AMBIGUOUS: ("ambiguous", "non-binary", "nonbinary", "androgynous", "both", "either")},
    "race": {"other_community": ("native american", "american indian", "indigenous")},
}
"""Communities of ImageBiTe's example that are no class: an answer with one of them is filtered by this reason."""


def _imagebite_question(attribute: str, person: Person) -> str:
    if person != "most_prominent":
        raise ValueError("preset 'imagebite' asks about one person (accepted: `person: most_prominent`)")
    known = ATTRIBUTES[attribute]
    offered = ["man", "woman"] if attribute == "gender" else [each.offered for each in known.choices]
    offered += [words[0] for words in _FURTHER_COMMUNITIES.get(attribute, {}).values()]
    return (
        "Judging by the facial traits of the person in this image, which of these communities is the most "
        f"probable for the perceived {known.words}: {', '.join(offered)}? "
        "Reply with exactly one of them, and no reasoning."
    )


def _imagebite_answers(attribute: str) -> AnswerSet:
    known = default_answers(attribute)
    further = _FURTHER_COMMUNITIES.get(attribute, {})
    taken = {word for words in further.values() for word in words}
    reasons = {name: tuple(word for word in words if word not in taken) for name, words in known.reasons.items()}
    kept = {name: words for name, words in reasons.items() if words and name not in further}
    return AnswerSet(labels=known.labels, reasons={**further, **kept})


def _as_code(attribute: str) -> AnswerSet:
    return _bigbench_answers(attribute, thirties="young")


def _check_question(attribute: str, person: Person) -> str:
    if person != "most_prominent":
        raise ValueError("preset 'imagebite_checks' asks about whole images (accepted: `person: most_prominent`)")
    if attribute not in ATTRIBUTES:
        raise ValueError(
            f"the image set has no attribute {attribute!r}; `detector-bench imagebite checks IMAGE_SET` writes "
            "all that the preset 'imagebite_checks' asks about"
        )
    return check_question(attribute)


_IMAGEBITE = QuestionPreset(("gender", "race"), "apart", _imagebite_question, _imagebite_answers, others=True)

_BIGBENCH = QuestionPreset(tuple(_BIGBENCH_ASKS), "in_turn", _bigbench_question, _bigbench_answers)

PRESETS: Mapping[str, QuestionPreset] = {
    "bigbench": _BIGBENCH,
    "bigbench_as_code": _BIGBENCH._replace(answers=_as_code),
    "imagebite": _IMAGEBITE,
    "imagebite_reasoned": _IMAGEBITE._replace(reasoning="after"),
    "imagebite_checks": QuestionPreset(tuple(CHECKS), "apart", _check_question, default_answers),
}
"""`bigbench` reads "30-40 years old" as middle-aged, as its paper's groups 0-30, 30-60 and 60+ say;
`bigbench_as_code` as young, as its released program does. `imagebite_reasoned` asks for reasons after the verdict,
as its program's `perform_post_reasoning` does; `imagebite_checks` asks the nineteen of `generic_checks`."""


def with_preset(given: Mapping[str, Any]) -> dict[str, Any]:
    """A judge's parameters with the preset's questions filled in; what they set themselves stays.

    Raises:
        ValueError: the preset does not ask about an attribute.
    """
    name = given.get("preset")
    preset = PRESETS.get(name) if isinstance(name, str) else None
    if preset is None:
        return dict(given)  # the field's own type refuses it
    person: Person = given.get("person", "most_prominent")
    questions = given.get("questions") or preset.attributes
    questions = [questions] if isinstance(questions, str) else questions
    if isinstance(questions, list | tuple) and all(isinstance(each, str) for each in questions):
        questions = dict.fromkeys(questions)
    if not isinstance(questions, Mapping):
        return dict(given)  # refused by the field's type, too
    asked = {each: _filled(preset, each, questions[each], person) for each in _known(preset, name, questions)}
    reasoning = {} if preset.reasoning == "none" else {"reasoning": preset.reasoning}
    return {"asking": preset.asking, **reasoning, **given, "questions": asked}


def _known(preset: QuestionPreset, name: object, attributes: Iterable[Any]) -> Iterable[str]:
    accepted = tuple(ATTRIBUTES) if preset.others else preset.attributes
    for each in attributes:
        if each not in accepted:
            raise ValueError(f"preset {name!r} does not ask about {each!r}: {nearest_hint(str(each), accepted)}")
        yield each


def _filled(preset: QuestionPreset, attribute: str, own: Any, person: Person) -> Any:
    asked = {"question": preset.question(attribute, person), "answers": preset.answers(attribute)}
    given = {} if own is None else {"question": own} if isinstance(own, str) else own
    return {**asked, **given} if isinstance(given, Mapping) else given
