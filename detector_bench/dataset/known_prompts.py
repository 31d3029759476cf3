"""Prompts that are known by their word, sentence or id, so that a folder's name is enough."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class KnownPrompt:
    """A prompt of a list.

    Attributes:
        list_name: of the list.
        prompt_id: its id there.
        category: its category there.
        word: what was filled into the sentence.
        prompt: the sentence.
    """

    list_name: str
    prompt_id: str
    category: str
    word: str
    prompt: str


@dataclass(frozen=True)
class KnownPrompts:
    """Finds prompts of lists by what folders, file names and tables call them."""

    by_sentence: Mapping[str, KnownPrompt] = field(default_factory=dict)
    by_word: Mapping[str, KnownPrompt] = field(default_factory=dict)

    @classmethod
    def of(cls, prompts: Iterable[KnownPrompt]) -> KnownPrompts:
        """Of lists, the most likely first; a word that a list has twice is known by its sentence alone."""
        by_sentence: dict[str, KnownPrompt] = {}
        by_word: dict[str, KnownPrompt] = {}
        unclear: set[tuple[str, str]] = set()
        for prompt in prompts:
            by_sentence.setdefault(as_words(prompt.prompt), prompt)
            for name in {as_words(prompt.word), as_words(prompt.prompt_id)}:
                other = by_word.setdefault(name, prompt)
                if other is not prompt and other.list_name == prompt.list_name and other.word == prompt.word:
                    unclear.add((name, prompt.list_name))
        for name, list_name in unclear:
            if by_word[name].list_name == list_name:
                del by_word[name]
        by_word.pop("", None)
        by_sentence.pop("", None)
        return cls(by_sentence, by_word)

    def find(self, name: str, sentence: str = "", word: str = "") -> KnownPrompt | None:
        """The prompt that is meant.

        Args:
            name: what a folder or table calls it: a word, an id, or the sentence.
            sentence: what the image was made with, where that is known; another sentence is another prompt.
            word: what was filled into it, where that is known.
        """
        if sentence:
            return self.by_sentence.get(as_words(sentence))
        key = as_words(word or name)
        return self.by_sentence.get(key) or self.by_word.get(key)

    @property
    def words(self) -> frozenset[str]:
        """The words, in lower case, also as file names write them: with _ or - for blanks."""
        plain = {prompt.word.casefold() for prompt in self.by_word.values()}
        return frozenset(word.replace(" ", sign) for word in plain for sign in (" ", "_", "-"))


def as_words(text: str) -> str:
    """A text without what differs between a sentence and a folder's name: case, punctuation, blanks."""
    return " ".join(re.findall(r"\w+", text.casefold().replace("_", " ")))
