"""In which words the desk asks: `--language`, `--questions` and `--guidelines`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from detector_bench.cli.console import output
from detector_bench.errors import ConfigError

if TYPE_CHECKING:
    from detector_bench.labelling import DeskSettings
    from detector_bench.labelling.web.languages import OwnQuestion, Words

Languages = Annotated[
    list[str] | None,
    typer.Option(
        "--language",
        metavar="[NAME=]CODE|FILE",
        help="Language of the desk, or of one annotator: de, es, en, one of IMAGE_SET/desk_texts, or a YAML file.",
    ),
]
Questions = Annotated[
    Path | None,
    typer.Option("--questions", metavar="FILE.yaml", help="Questions in your own order and words."),
]
Guidelines = Annotated[
    Path | None,
    typer.Option(
        "--guidelines",
        metavar="FILE.md",
        help="Your guideline, in simple Markdown; by default one for each attribute.",
    ),
]


@dataclass(frozen=True)
class DeskWords:
    """What was given on the command line, read.

    Attributes:
        words: for everybody who has none of their own.
        words_of: by annotator.
        guideline: of one's own, for everybody; "": there is none.
        place: the file of questions; None: there is none.
    """

    words: Words
    words_of: Mapping[str, Words]
    guideline: str
    place: Path | None

    def attributes(self) -> tuple[str, ...]:
        """The questions of one's own, in their order; a new store asks these."""
        return tuple(self.words.own)

    def of(self, settings: DeskSettings, *, image_set: Path) -> DeskWords:
        """The same with guidelines for what a store asks.

        Raises:
            ConfigError: questions that the store does not ask, or labels that they do not have; a guideline of the
                image set that cannot be read.
        """
        from detector_bench.labelling.web.guidelines import guideline_for
        from detector_bench.labelling.web.languages import check_labels

        classes = {question.name: question.classes for question in settings.questions}
        if self.place is not None:
            check_labels(self.words.own.values(), classes, place=self.place)

        def guided(words: Words) -> Words:
            asked = settings.questions
            text = guideline_for(asked, task=settings.task, words=words, image_set=image_set)
            return replace(words, guideline=text)

        return replace(
            self, words=guided(self.words), words_of={name: guided(each) for name, each in self.words_of.items()}
        )


def read_words(
    languages: Sequence[str], questions: Path | None, guidelines: Path | None, *, image_set: Path
) -> DeskWords:
    """Read languages, questions and guideline.

    Raises:
        ConfigError: what cannot be read, or a language given twice for the same people.
    """
    from detector_bench.labelling.web.guidelines import read_guideline
    from detector_bench.labelling.web.languages import Words, read_language, read_questions

    own: dict[str, OwnQuestion] = {} if questions is None else read_questions(questions)
    given: dict[str, Words] = {}
    for each in languages:
        name, _, code = each.rpartition("=")
        if name in given:
            raise ConfigError(f"--language {each}: given twice for {name or 'everybody'}")
        language = read_language(code, image_set=image_set)
        if missing := language.missing():
            output.warn(
                f"{language.name or language.language}: {len(missing):,} texts are not translated and shown in "
                f"English, such as {missing[0]!r}"
            )
        given[name] = Words(language, own)
    everybody = given.pop("", Words(own=own))
    return DeskWords(everybody, given, "" if guidelines is None else read_guideline(guidelines), questions)
