"""A list of prompts, the prompt table that is made of it, and checks that all lists share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Container, Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from detector_bench.dataset.image_tree import slug
from detector_bench.dataset.text_table import Findings, shorten
from detector_bench.errors import ConfigError, DataError, Problem, nearest_hint
from detector_bench.json_text import JsonMistake, read_json
from detector_bench.limited_text import no_text_in
from detector_bench.vocabulary import ALL
from detector_bench.vocabulary.columns import BASE_PROMPT_COLUMN, PROMPT_COLUMNS, WEIGHT_COLUMN, stated_columns

KEEP_ATTRIBUTES = "Leave the person's gender, skin tone and age exactly as they are."
"""Suffix that asks an image editor to change nothing that BiasPainter measures (its mitigation); our wording."""


WORDING_COLUMNS = ("prompt_id", "number", "wording")
"""Of the file that keeps the wordings of a prompt table's prompts: one row per wording."""

LONGEST_ID = 100
"""Characters of a prompt's own word that its id has: ids are names of files, too."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """One sentence for a T2I model.

    Attributes:
        category: what kind of word it was made with, such as "profession".
        word: what was filled into the template.
        text: the sentence.
        concerns: ImageBiTe's ethical concerns that the prompt leaves open, so that images of it can be judged
            for them; empty for other lists.
        stated: by attribute what the prompt states, a word of `vocabulary.Attribute.statements` or "" where it is
            left open; attributes of which the list does not know it are not there.
        base: category, word and text of the same prompt without what it states; it need not be in the list.
        weight: what the prompt counts for; None: as much as its base prompt, or nothing is known.
        wordings: the sentences that T2I models get for it, where there are several: each goes on from `text` in
            another way; empty: they get `text` alone.
        prompt_id: that the prompt has where it comes from; empty: it gets one.
        base_id: the `prompt_id` of `base`, where that comes from the same table.
    """

    category: str
    word: str
    text: str
    concerns: frozenset[str] = frozenset()
    stated: Mapping[str, str] = field(default_factory=dict, hash=False)
    base: tuple[str, str, str] | None = None
    weight: float | None = None
    wordings: tuple[str, ...] = ()
    prompt_id: str = ""
    base_id: str = ""

    @property
    def key(self) -> tuple[str, str, str]:
        """What other prompts name it by as their base."""
        return self.category, self.word, self.text


@dataclass(frozen=True)
class PromptList:
    """Prompts with their ids, and what the reader of the list should know about them.

    Ids are readable and never depend on filters or suffixes: the word's slug, and a number only where an earlier
    prompt has the same; prompts that come with an id keep it.
    """

    name: str
    prompts: dict[str, Prompt]
    notes: tuple[str, ...] = ()
    bases: Mapping[str, str] = field(default_factory=dict)
    """By prompt id that of the base prompt, for those whose base prompt is in the list."""

    @classmethod
    def of(cls, name: str, prompts: Iterable[Prompt], *, notes: Iterable[str] = ()) -> PromptList:
        """Give every prompt its id.

        Raises:
            ConfigError: two prompts come with the same id.
        """
        listed = list(prompts)
        own = Counter(prompt.prompt_id for prompt in listed if prompt.prompt_id)
        if repeated := [prompt_id for prompt_id, count in own.items() if count > 1]:
            raise ConfigError(f"{name}: two prompts have the prompt_id {repeated[0]!r} (accepted: each id once)")
        numbered: dict[str, Prompt] = {}
        taken = {ALL, *own}
        for prompt in listed:
            prompt_id = prompt.prompt_id or unused_id(prompt.word, taken)
            taken.add(prompt_id)
            numbered[prompt_id] = prompt
        first: dict[tuple[str, str, str], str] = {}
        for prompt_id, prompt in numbered.items():
            first.setdefault(prompt.key, prompt_id)
        bases = {}
        for prompt_id, prompt in numbered.items():
            if prompt.base_id in numbered:
                bases[prompt_id] = prompt.base_id
            elif prompt.base in first:
                bases[prompt_id] = first[prompt.base]
        return cls(name, numbered, tuple(notes), bases)

    def weight_of(self, prompt_id: str) -> float | None:
        """A prompt's weight, or that of its base prompt, or else of that one's; None: there is none."""
        weight = self.prompts[prompt_id].weight
        while weight is None and prompt_id in self.bases:
            prompt_id = self.bases[prompt_id]
            weight = self.prompts[prompt_id].weight
        return weight

    def restricted(self, *, categories: Collection[str] = (), concern: str | None = None) -> PromptList:
        """Only prompts of these categories, and only those that leave an ethical concern open.

        A prompt whose base prompt is not among them gets its weight, and no base.

        Raises:
            ConfigError: a category or concern that no prompt has; the message names the nearest.
        """
        known = self.counts()
        for category in categories:
            if category not in known:
                raise ConfigError(f"no category {category!r} in {self.name}: {nearest_hint(category, known)}")
        concerns = {each for prompt in self.prompts.values() for each in prompt.concerns}
        if concern is not None and concern not in concerns:
            raise ConfigError(f"no prompt of {self.name} is about {concern!r}: {nearest_hint(concern, concerns)}")
        kept = {
            prompt_id: prompt
            for prompt_id, prompt in self.prompts.items()
            if (not categories or prompt.category in categories)
            and (concern is None or concern in prompt.concerns)
        }
        if not kept:
            raise ConfigError(f"no prompt of {self.name} is of {', '.join(categories)} and about {concern!r}")
        kept = {
            prompt_id: prompt
            if self.bases.get(prompt_id) in kept
            else replace(prompt, weight=self.weight_of(prompt_id))
            for prompt_id, prompt in kept.items()
        }
        bases = {key: base for key, base in self.bases.items() if key in kept and base in kept}
        lost = sum(key in kept for key in self.bases) - len(bases)
        notes = (f"Prompts whose base prompt is not selected, without it: {lost:,}.",) if lost else ()
        return replace(self, prompts=kept, bases=bases, notes=(*self.notes, *notes))

    def with_suffix(self, suffix: str) -> PromptList:
        """The same prompts, each followed by a text.

        A suffix that begins with a capital is a sentence of its own, and the prompt gets a full stop if it has
        none. Any other continues the prompt's sentence, in place of its full stop.

        Raises:
            ConfigError: the suffix is empty or has a line break.
        """
        text = suffix.strip()
        if not text or no_text_in(text):
            raise ConfigError(f"a suffix is one line of text; got {suffix!r}")
        return replace(
            self,
            prompts={
                prompt_id: replace(
                    prompt,
                    text=_joined(prompt.text, text),
                    wordings=tuple(_joined(each, text) for each in prompt.wordings),
                )
                for prompt_id, prompt in self.prompts.items()
            },
        )

    def counts(self) -> dict[str, int]:
        """How many prompts each category has, in order of appearance."""
        return dict(Counter(prompt.category for prompt in self.prompts.values()))

    def repeated_texts(self) -> int:
        """How many prompts have the sentence of an earlier prompt of another category."""
        first: dict[str, str] = {}
        return sum(
            first.setdefault(prompt.text, prompt.category) != prompt.category for prompt in self.prompts.values()
        )

    def table(self) -> pd.DataFrame:
        """The prompt table of an image set: `prompt_id, category, word, prompt`, and what else the list knows.

        A column `stated_*` for each attribute of which it knows what prompts state, `base_prompt_id` and `weight`
        if any prompt has one (see `schema`).

        Raises:
            ConfigError: some prompts have a weight, and others none.
        """
        rows = [(key, prompt.category, prompt.word, prompt.text) for key, prompt in self.prompts.items()]
        table = pd.DataFrame(rows, columns=list(PROMPT_COLUMNS), dtype="str")
        for attribute, column in stated_columns().items():
            if any(attribute in prompt.stated for prompt in self.prompts.values()):
                table[column] = [prompt.stated.get(attribute, "") for prompt in self.prompts.values()]
        if self.bases:
            table[BASE_PROMPT_COLUMN] = [self.bases.get(prompt_id, "") for prompt_id in self.prompts]
        if any(prompt.weight is not None for prompt in self.prompts.values()):
            without = [prompt_id for prompt_id in self.prompts if self.weight_of(prompt_id) is None]
            if without:
                raise ConfigError(
                    f"{len(without):,} of {len(self.prompts):,} prompts of {self.name} have no weight, the first "
                    f"is {without[0]!r} (accepted: weights for all prompts, as --weights names them, or for none)"
                )
            weights = (prompt.weight for prompt in self.prompts.values())
            table[WEIGHT_COLUMN] = ["" if weight is None else f"{weight:.12g}" for weight in weights]
        return table

    def wording_table(self) -> pd.DataFrame:
        """All wordings of the prompts that have several: `prompt_id, number, wording`, numbers from 0."""
        rows = [
            (prompt_id, str(number), wording)
            for prompt_id, prompt in self.prompts.items()
            for number, wording in enumerate(prompt.wordings)
        ]
        return pd.DataFrame(rows, columns=list(WORDING_COLUMNS), dtype="str")

    def csv(self) -> str:
        """The prompt table as the text of a CSV file."""
        return self.table().to_csv(index=False, lineterminator="\n")


def unused_id(word: str, taken: Container[str]) -> str:
    """The id of a prompt by its word: its slug, and a number where that is taken."""
    base = slug(word).casefold()[:LONGEST_ID].rstrip("_-.") or "prompt"
    prompt_id, number = base, 2
    while prompt_id in taken:
        prompt_id, number = f"{base}_{number}", number + 1
    return prompt_id


def _joined(prompt: str, suffix: str) -> str:
    if suffix[0].isupper():
        return f"{prompt}{'' if prompt[-1] in '.!?' else '.'} {suffix}"
    return f"{prompt.rstrip('.')}{'' if suffix[0] in ',;:' else ' '}{suffix}"


_LARGEST_BYTES = 50_000_000


def read_json_object(path: Path) -> dict[str, Any]:
    """Read a JSON file that holds an object. A key that is given twice is a mistake, not an overwritten value.

    Raises:
        DataError: the file cannot be read, is no JSON or no object, or repeats a key.
    """
    repeated: list[str] = []

    def checked(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        repeated.extend(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        return dict(pairs)

    try:
        content = read_json(path, pairs=checked, largest=_LARGEST_BYTES)
    except OSError as error:
        reason = error.strerror or str(error)
        raise DataError([Problem(path.name, f"the file cannot be read ({reason})", accepted="JSON")]) from error
    except JsonMistake as error:
        message = f"cannot be read as JSON ({error})"
        raise DataError([Problem(path.name, message, row=error.line, accepted="an object { ... }")]) from error
    if not isinstance(content, dict):
        message = "the file holds no object"
        raise DataError([Problem(path.name, message, value=type(content).__name__, accepted="an object { ... }")])
    if repeated:
        raise DataError(
            [Problem(path.name, "duplicate key", column=key, value=key, accepted="each once") for key in repeated]
        )
    return content


class ListCell(NamedTuple):
    """A text and where it stands; `row` is None in a JSON file, where `column` is the path of keys."""

    file: str
    row: int | None
    column: str
    text: str

    def problem(self, message: str, *, accepted: str, value: str | None = None) -> Problem:
        """A mistake in this cell; `value` is the bad part where the whole would say less."""
        shown = shorten(self.text if value is None else value)
        return Problem(self.file, message, self.row, self.column, shown, accepted)


ONE_LINE = "text without line breaks, tabs, NUL, or marks that turn the direction of writing"
"""What the sentence of a prompt is."""


def check_text(cell: ListCell, findings: Findings) -> bool:
    """Report an empty text, blanks around it, and control characters; True if it is fine."""
    if not cell.text.strip():
        findings.add(cell.problem("empty text", accepted="some text"))
    elif found := no_text_in(cell.text):
        findings.add(cell.problem(f"control character {found}", accepted=ONE_LINE))
    elif cell.text != cell.text.strip():
        findings.add(cell.problem("blanks around the text", accepted=repr(cell.text.strip())))
    else:
        return True
    return False


def report_repeats(cells: Iterable[tuple[Hashable, ListCell]], findings: Findings, *, what: str) -> None:
    """Report every cell whose key an earlier one has."""
    first: dict[Hashable, ListCell] = {}
    repeats = []
    for key, cell in cells:
        if key in first:
            place = f"row {first[key].row}" if first[key].row is not None else first[key].column
            repeats.append(cell.problem(f"duplicate {what}", accepted=f"each once; {place} has it"))
        first.setdefault(key, cell)
    findings.add_kind(repeats)
