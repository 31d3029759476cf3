"""The guideline of a desk: what holds for every question, a section for each attribute, and how to proceed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from detector_bench.errors import ConfigError
from detector_bench.labelling.questions import Question, Task
from detector_bench.labelling.web.languages import ENGLISH, Words
from detector_bench.labelling.web.wording import question_view
from detector_bench.vocabulary import ATTRIBUTES

FOLDER = "guidelines"
"""Where an image set has guidelines of its own: `ATTRIBUTE.md`, or `ATTRIBUTE.LANGUAGE.md`."""

LARGEST = 1_000_000
"""Bytes of a guideline."""

_BUILT_IN = Path(__file__).with_name("guidelines")


def guideline_for(questions: Sequence[Question], *, task: Task, words: Words, image_set: Path) -> str:
    """The guideline of some questions, in simple Markdown and as far as possible in the language of `words`.

    For each attribute, the first of these counts: `guidelines/ATTRIBUTE.LANGUAGE.md` and `guidelines/ATTRIBUTE.md`
    in the image set, `guideline` in the attribute's own file, the built-in text, a list of the answers.

    Raises:
        ConfigError: a file that cannot be read.
    """
    language = words.language.language
    if task is Task.PAIRS:
        return _built_in("pairs", language)
    sections = [_section(question, words=words, image_set=image_set) for question in questions]
    return "\n".join([_built_in("first", language), *sections, _built_in("last", language)])


def read_guideline(path: Path) -> str:
    """A guideline out of a file.

    Raises:
        ConfigError: it cannot be read, or is too large.
    """
    try:
        if path.stat().st_size > LARGEST:
            raise ConfigError(f"the guideline {path} is larger than {LARGEST:,} bytes")
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"the guideline {path} cannot be read: {getattr(error, 'strerror', None) or error}"
        ) from error


def _section(question: Question, *, words: Words, image_set: Path) -> str:
    name, language = question.name, words.language.language
    for file in (f"{name}.{language}.md", f"{name}.md"):
        if (path := image_set / FOLDER / file).exists():
            return read_guideline(path)
    if ATTRIBUTES[name].guideline:
        return ATTRIBUTES[name].guideline
    if name in ATTRIBUTES.built_in:
        return _built_in(name, language)
    return "\n".join(_answers(question, words))


def _answers(question: Question, words: Words) -> Iterator[str]:
    """What can be said of an attribute that nobody has written a guideline for."""
    view = question_view(question, task=Task.IMAGES, words=words)
    yield f"## {view['title']}\n\n{view['text']}\n"
    for choice in view["choices"]:
        yield f"- *{choice['text']}*{': ' if choice['hint'] else ''}{choice['hint']}"
    yield ""


def _built_in(name: str, language: str) -> str:
    for code in (language, language.partition("-")[0], ENGLISH):
        if (path := _BUILT_IN / code / f"{name}.md").exists():
            return path.read_text(encoding="utf-8")
    raise AssertionError(name)
