"""Sentences with numbers in them, in the language of whoever reads them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

_PLACE = re.compile(r"\{([a-z_0-9]+)\}")
_SWAPPED = str.maketrans(",.", ".,")


@dataclass(frozen=True)
class Sentences:
    """Says things in a language; without texts, in English.

    Attributes:
        texts: by English text, the translation.
        has_decimal_comma: numbers are written 1.234,5 in the language, and not 1,234.5.
    """

    texts: Mapping[str, str] = field(default_factory=dict)
    has_decimal_comma: bool = False

    def say(self, english: str, **values: str | int) -> str:
        """A text with its places filled; whole numbers are written with marks between thousands."""
        text = self.texts.get(english) or english
        return _PLACE.sub(lambda found: self._written(values.get(found[1], found[0])), text)

    def say_of(self, number: int, one: str, many: str, **values: str | int) -> str:
        """One of two texts by a number, which stands in it as `{n}`."""
        return self.say(one if number == 1 else many, n=number, **values)

    def number(self, value: float, *, decimals: int = 2) -> str:
        """A number with so many decimals, and a true minus sign."""
        text = f"{abs(value):.{decimals}f}"
        sign = "\N{MINUS SIGN}" if value < 0 and float(text) else ""
        return sign + self._marked(text)

    def _written(self, value: str | int) -> str:
        return value if isinstance(value, str) else self._marked(f"{value:,}")

    def _marked(self, text: str) -> str:
        return text.translate(_SWAPPED) if self.has_decimal_comma else text


IN_ENGLISH = Sentences()
