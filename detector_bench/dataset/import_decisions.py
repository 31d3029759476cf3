"""What an import cannot know: a question, and the options that answer it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from detector_bench.errors import ConfigError


@dataclass(frozen=True)
class ImportChoice:
    """One answer: what it means, and the options of `import` that give it."""

    text: str
    options: tuple[str, ...]


class UndecidedImportError(ConfigError):
    """Something has to be decided by a person; the message says which options decide.

    Attributes:
        question: what is asked.
        choices: the answers.
    """

    def __init__(self, question: str, choices: Sequence[ImportChoice]) -> None:
        self.question, self.choices = question, tuple(choices)
        said = "; ".join(f"{' '.join(map(shell_word, each.options))}: {each.text}" for each in choices)
        super().__init__(f"{question} (accepted: {said})")


@dataclass
class ImportNews:
    """What an import has to tell besides mistakes.

    Attributes:
        notes: sentences that should be known.
        recognised: what was recognised, for a preview: a name and a text.
        remedies: options with which a refused import would go through.
    """

    notes: list[str] = field(default_factory=list)
    recognised: list[tuple[str, str]] = field(default_factory=list)
    remedies: list[tuple[str, ...]] = field(default_factory=list)

    def remedy(self, *options: str) -> None:
        """Keep options once, in the order in which they were found."""
        if options not in self.remedies:
            self.remedies.append(options)


def shell_word(word: str) -> str:
    """A word of a command line in quotation marks, if a shell asks for them."""
    import shlex

    return shlex.quote(word)
