"""What names of image files say, by a pattern such as `{t2i_model}__{word}__{number}.png`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from detector_bench.errors import ConfigError, nearest_hint

FIELDS = ("t2i_model", "prompt", "word", "prompt_id", "category", "image_id", "seed_image_id", "number", "seed")
"""What a pattern may name. `number` and `seed` are digits and tell images of a prompt apart."""

_NUMBERS = ("number", "seed")
_FIELD = re.compile(r"\{([^{}]*)\}")
_SEPARATORS = ("__", "--", "_", "-", "~", "+")


@dataclass(frozen=True)
class NamePattern:
    """A pattern of names or, if it has slashes, of paths below the source.

    `{name}` stands for some characters without a slash, `*` for any of them that mean nothing.

    Attributes:
        text: as somebody wrote it.
    """

    text: str

    def check(self) -> None:
        """Check the pattern.

        Raises:
            ConfigError: an unknown or repeated field, no prompt, or braces that do not close.
        """
        names = self.fields
        for name in names:
            if name not in FIELDS:
                raise ConfigError(f"pattern: unknown field {{{name}}}: {nearest_hint(name, FIELDS)}")
        if twice := [name for name, count in Counter(names).items() if count > 1]:
            raise ConfigError(f"pattern: {{{twice[0]}}} stands there twice (accepted: each field once)")
        if not {"prompt", "word", "prompt_id"} & {*names}:
            raise ConfigError(
                f"pattern: {self.text!r} names no prompt (accepted: {{word}}, {{prompt}} or {{prompt_id}})"
            )
        if re.search(r"[{}]", _FIELD.sub("", self.text)):
            raise ConfigError(f"pattern: {self.text!r} has a brace without its partner")

    @property
    def fields(self) -> list[str]:
        """The fields, in order."""
        return _FIELD.findall(self.text)

    @property
    def is_of_paths(self) -> bool:
        """Whether it is about whole paths below the source, not about file names."""
        return "/" in self.text

    def read(self, name: str, words: Collection[str] = ()) -> dict[str, str] | None:
        """What a name says, by field; None: the pattern does not fit.

        Args:
            name: of the file, or its path if `is_of_paths`.
            words: known words; where a pattern fits in several ways, one whose `{word}` is among them counts.

        Raises:
            AmbiguousNameError: it fits in two ways.
        """
        short, long = (expression.fullmatch(name) for expression in self._expressions)
        if short is None or long is None:
            return None
        found = short.groupdict()
        if found == long.groupdict():
            return found
        if words and "word" in found:
            readings = {match.groupdict().get("word"): match.groupdict() for match in self._by_words(name, words)}
            if len(readings) == 1:
                return next(iter(readings.values()))
        raise AmbiguousNameError(found, long.groupdict())

    def _by_words(self, name: str, words: Collection[str]) -> list[re.Match[str]]:
        """All ways in which the pattern fits with a known word; of words that end alike the longest counts."""
        fitting = [word for word in words if word in name.casefold()]
        longest = [word for word in fitting if not any(word != other and word in other for other in fitting)]
        matches = [re.fullmatch(self._expression("+?", word), name, re.IGNORECASE) for word in longest]
        return [match for match in matches if match is not None]

    @cached_property
    def _expressions(self) -> tuple[re.Pattern[str], re.Pattern[str]]:
        return re.compile(self._expression("+?")), re.compile(self._expression("+"))

    def _expression(self, repeat: str, word: str = "") -> str:
        parts = []
        for number, part in enumerate(_FIELD.split(self.text)):
            if number % 2 == 0:
                parts.append(re.escape(part).replace(r"\*", "[^/]*?"))
            elif part == "word" and word:
                parts.append(f"(?P<word>{re.escape(word)})")
            else:
                signs = r"\d+" if part in _NUMBERS else f"[^/]{repeat}"
                parts.append(f"(?P<{part}>{signs})")
        return "".join(parts)

    def __getstate__(self) -> dict[str, str]:
        return {"text": self.text}


class AmbiguousNameError(Exception):
    """A pattern fits a name in two ways."""

    def __init__(self, first: Mapping[str, str], second: Mapping[str, str]) -> None:
        self.readings = tuple(
            ", ".join(f"{key} {value!r}" for key, value in each.items()) for each in (first, second)
        )
        super().__init__(" or ".join(self.readings))


def guessed_pattern(names: Sequence[str], words: Collection[str] = ()) -> str:
    """A pattern that fits all these file names; empty: none comes to mind. It is proposed, never used.

    Names are cut where all have the same number of parts; digits at the end are a number, the part with the most
    known words is the word, and what is left before it is the T2I model.
    """
    if not names:
        return ""
    stems = [name.rpartition(".")[0] for name in names]
    suffixes = {name.rpartition(".")[2] for name in names}
    suffix = f".{suffixes.pop()}" if len(suffixes) == 1 else ".*"
    for separator in _SEPARATORS:
        rows = [stem.split(separator) for stem in stems]
        if len(rows[0]) < 2 or len({*map(len, rows)}) > 1 or not all(all(row) for row in rows):
            continue
        fields = _fields_of([list(column) for column in zip(*rows, strict=True)], words)
        if fields:
            return separator.join(f"{{{field}}}" if field else "*" for field in fields) + suffix
    return ""


def _fields_of(columns: list[list[str]], words: Collection[str]) -> list[str]:
    fields = [""] * len(columns)
    numbers = [at for at, cells in enumerate(columns) if all(cell.isdigit() for cell in cells)]
    if numbers:
        fields[numbers[-1]] = "number"
    texts = [at for at in range(len(columns)) if at not in numbers]
    if not texts:
        return []
    known = {at: len({cell.casefold() for cell in columns[at]} & {*words}) for at in texts}
    different = {at: len(set(columns[at])) for at in texts}
    word = max(texts, key=lambda at: (known[at], different[at], at))
    fields[word] = "word"
    left = [at for at in texts if at != word]
    if left:
        fields[min(left, key=lambda at: (different[at], at))] = "t2i_model"
    return fields
