"""The words of the desk's pages: English, translations as data, and questions of one's own."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError, field_validator, model_validator

from detector_bench.declarations import Declaration, read_mapping
from detector_bench.errors import ConfigError, config_error_from, nearest_hint
from detector_bench.labelling.sentences import Sentences

ENGLISH = "en"
FOLDER = "desk_texts"
"""Where an image set has languages of its own, a YAML file each, named by the language."""

_BUILT_IN = Path(__file__).with_name("languages")
_CODE = re.compile(r"[a-z]{2,3}(-[A-Za-z0-9]{2,8})*")
_PLACE = re.compile(r"\{[a-z_]+\}")


class AnswerWords(Declaration):
    """What an answer is called, and what helps to decide; "" stands for the English words."""

    text: str = ""
    hint: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, value: Any) -> Any:
        return {"text": value} if isinstance(value, str) else value


class QuestionWords(Declaration):
    """The words of one question; "" stands for the English ones.

    Attributes:
        question: what annotators are asked.
        title: what is judged, as a heading: "Perceived age group".
        short: the same where there is little room.
        care: what the answer is not.
        classes: by label, the words of the answer.
    """

    question: str = ""
    title: str = ""
    short: str = ""
    care: str = ""
    classes: dict[str, AnswerWords] = Field(default_factory=dict)


class DeskLanguage(Declaration):
    """A language of the desk, as its file says it.

    Attributes:
        language: its code, as in HTML: "de", "pt-BR".
        name: what it calls itself.
        texts: by English text, the translation; places such as `{n}` stand in both.
        questions: by attribute, or by question about a pair.
        reasons: by reason for low quality.
        decimal: the mark before decimals.
    """

    language: str
    name: str = ""
    decimal: Literal[".", ","] = "."
    texts: dict[str, str] = Field(default_factory=dict)
    questions: dict[str, QuestionWords] = Field(default_factory=dict)
    reasons: dict[str, AnswerWords] = Field(default_factory=dict)

    @field_validator("language")
    @classmethod
    def _is_a_code(cls, code: str) -> str:
        if not _CODE.fullmatch(code):
            raise ValueError(f"{code!r} is no code of a language; accepted: such as de, or pt-BR")
        return code

    @field_validator("texts")
    @classmethod
    def _keeps_places(cls, texts: dict[str, str]) -> dict[str, str]:
        for english, text in texts.items():
            wanted, found = set(_PLACE.findall(english)), set(_PLACE.findall(text))
            if wanted != found:
                said = ", ".join(sorted(wanted)) or "none"
                raise ValueError(f"{text!r} has the places {', '.join(sorted(found)) or 'none'}; accepted: {said}")
        return texts

    def missing(self) -> list[str]:
        """The texts that are not translated, and are shown in English."""
        return [] if self.language == ENGLISH else [text for text in all_texts() if not self.texts.get(text)]


class OwnQuestion(Declaration):
    """A question in one's own words.

    Attributes:
        name: the attribute, or the question about a pair.
        question, title, short, care: by language, or for all languages; "" stands for the built-in words.
        classes: the answers that are offered, in this order, each a label or `label: words`; empty: all.
    """

    name: str
    question: str | dict[str, str] = ""
    title: str | dict[str, str] = ""
    short: str | dict[str, str] = ""
    care: str | dict[str, str] = ""
    classes: tuple[str | dict[str, str | dict[str, str]], ...] = ()

    @property
    def labels(self) -> list[str]:
        """The labels of the answers that are offered; empty: all."""
        return [each if isinstance(each, str) else next(iter(each)) for each in self.classes]

    def words(self, language: str) -> QuestionWords:
        """Its own words in a language."""
        texts = {name: _in(getattr(self, name), language) for name in ("question", "title", "short", "care")}
        own = [each for each in self.classes if isinstance(each, dict)]
        answers = {label: AnswerWords(text=_in(text, language)) for each in own for label, text in each.items()}
        return QuestionWords(**texts, classes=answers)


class OwnQuestions(Declaration):
    """A file of questions: in which order, in which words, with which answers."""

    questions: tuple[OwnQuestion, ...] = Field(min_length=1)


@dataclass(frozen=True)
class Words:
    """What somebody reads at the desk.

    Attributes:
        language: the language.
        own: by question, its own words.
        guideline: in simple Markdown; "" where the desk has one for everybody.
    """

    language: DeskLanguage = field(default_factory=lambda: DeskLanguage(language=ENGLISH, name="English"))
    own: Mapping[str, OwnQuestion] = field(default_factory=dict)
    guideline: str = ""

    def text(self, english: str) -> str:
        """One of the desk's texts."""
        return self.language.texts.get(english) or english

    @property
    def sentences(self) -> Sentences:
        """The language's sentences with numbers in them."""
        return Sentences(self.language.texts, has_decimal_comma=self.language.decimal == ",")

    def layers(self, name: str) -> list[QuestionWords]:
        """The words of a question, those that go before others first."""
        own = [self.own[name].words(self.language.language)] if name in self.own else []
        return [*own, self.language.questions.get(name, QuestionWords())]


def read_language(given: str, *, image_set: Path) -> DeskLanguage:
    """A language by its code, from the image set or of the desk's own, or by its file.

    What a file leaves out is taken from the desk's own translation, and then from English.

    Raises:
        ConfigError: no such language or file, or a file with a mistake.
    """
    path = Path(given)
    if path.suffix in (".yaml", ".yml"):
        return _with_built_in(_read(path))
    own = {file.stem: file for file in sorted((image_set / FOLDER).glob("*.y*ml"))}
    if given in own:
        found = _read(own[given])
        if found.language != given:
            raise ConfigError(
                f"{own[given]}: language: {found.language!r} (accepted: {given}, as the file's name)"
            )
        return _with_built_in(found)
    if given not in (known := _built_in()):
        raise ConfigError(
            f"unknown language {given!r}: {nearest_hint(given, [*known, *own])}; a file {FOLDER}/{given}.yaml in "
            "the image set adds it"
        )
    return known[given]


def read_questions(path: Path) -> dict[str, OwnQuestion]:
    """Questions of one's own, by name, in their order.

    Raises:
        ConfigError: no such file, a mistake in it, or a question twice.
    """
    try:
        found = OwnQuestions.model_validate(read_mapping(path, keys="`questions`")).questions
    except ValidationError as error:
        raise config_error_from(error, place=str(path), model=OwnQuestions) from error
    names = [each.name for each in found]
    if len(set(names)) < len(names):
        raise ConfigError(f"{path}: questions: one stands there twice: {', '.join(names)}")
    return {each.name: each for each in found}


def check_labels(own: Iterable[OwnQuestion], known: Mapping[str, tuple[str, ...]], *, place: Path) -> None:
    """Check that questions offer only labels that their attribute has; `known`: classes by question.

    Raises:
        ConfigError: an unknown question or label, fewer than two answers, or one twice.
    """
    for question in own:
        if question.name not in known:
            raise ConfigError(
                f"{place}: name: unknown question {question.name!r}: {nearest_hint(question.name, known)}"
            )
        labels, classes = question.labels, known[question.name]
        if unknown := [label for label in labels if label not in classes]:
            raise ConfigError(
                f"{place}: {question.name}: classes: unknown label {unknown[0]!r} (accepted: {', '.join(classes)})"
            )
        if labels and len(set(labels)) != max(2, len(labels)):
            raise ConfigError(
                f"{place}: {question.name}: classes: {', '.join(labels)} (accepted: two labels or more, each once)"
            )


@cache
def all_texts() -> tuple[str, ...]:
    """Every text of the pages that can be translated, in English."""
    return tuple(_read(_BUILT_IN / "en.yaml").texts)


@cache
def _built_in() -> dict[str, DeskLanguage]:
    found = [_read(path) for path in sorted(_BUILT_IN.glob("*.yaml"))]
    return {each.language: each for each in found}


def _with_built_in(own: DeskLanguage) -> DeskLanguage:
    below = _built_in().get(own.language)
    if below is None:
        return own
    return own.model_copy(
        update={
            "name": own.name or below.name,
            "decimal": own.decimal if "decimal" in own.model_fields_set else below.decimal,
            "texts": {**below.texts, **own.texts},
            "questions": {**below.questions, **own.questions},
            "reasons": {**below.reasons, **own.reasons},
        }
    )


def _read(path: Path) -> DeskLanguage:
    try:
        return DeskLanguage.model_validate(read_mapping(path, keys="`language` and `texts`"))
    except ValidationError as error:
        raise config_error_from(error, place=str(path), model=DeskLanguage) from error


def _in(text: str | Mapping[str, str], language: str) -> str:
    return text if isinstance(text, str) else text.get(language, "")
