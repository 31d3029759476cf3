"""Recognises how a table of unknown origin is written: format, separator, encoding, decimal sign."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from detector_bench.errors import ConfigError

FORMATS = {
    ".csv": "csv",
    ".tsv": "csv",
    ".txt": "csv",
    ".tab": "csv",
    ".jsonl": "json lines",
    ".ndjson": "json lines",
    ".json": "json",
    ".xlsx": "excel",
    ".xlsm": "excel",
    ".parquet": "parquet",
}
"""By suffix, how a table is stored; what has none of them is read as text with separators."""

SEPARATORS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
READABLE = "CSV, TSV, JSON, JSON lines, Excel (.xlsx) or Parquet"

_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    # The longer mark comes first: a UTF-32 mark begins with a UTF-16 one.
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
# What tables of labels are really stored in. Among a hundred code pages a short file looks like any of them.
_CODE_PAGES = ["cp1252", "cp1250", "cp1251", "shift_jis", "gb18030", "big5", "euc_jp", "euc_kr", "koi8_r"]
_ROWS_LOOKED_AT = 200
_HEAD = 1 << 16
_FEWEST_ZEROS = 8
"""Of text in UTF-16 with Latin separators at least one byte in so many is 0."""
_COMMA_NUMBER = re.compile(r"[+-]?\d+,\d+")
_GROUPED_NUMBER = re.compile(r"[+-]?\d{1,3}(?:,\d{3})+")
_SEPARATOR_LINE = re.compile(r"sep=(.)\r?\n", re.IGNORECASE)


@dataclass(frozen=True)
class TableOptions:
    """What somebody says about tables that are read; empty: it is recognised.

    Attributes:
        separator: one character, or its word: comma, semicolon, tab, bar.
        encoding: a codec of Python, such as cp1252.
        decimal: `.` or `,`.
        sheet: of a spreadsheet, by name.
    """

    separator: str = ""
    encoding: str = ""
    decimal: str = ""
    sheet: str = ""

    def check(self) -> None:
        """Check them.

        Raises:
            ConfigError: one of them is none.
        """
        if self.separator and len(self.separator_sign) != 1:
            accepted = f"one character, or {', '.join(SEPARATORS.values())}"
            raise ConfigError(f"separator: {self.separator!r} (accepted: {accepted})")
        if self.encoding:
            try:
                codecs.lookup(self.encoding)
            except LookupError:
                accepted = "such as utf-8, cp1252, utf-16 or shift_jis"
                raise ConfigError(f"encoding: {self.encoding!r} is unknown (accepted: {accepted})") from None
        if self.decimal not in ("", ".", ","):
            raise ConfigError(f"decimal: {self.decimal!r} (accepted: . or ,)")

    @property
    def separator_sign(self) -> str:
        """The separator as it stands in a file; empty: it is recognised."""
        named = {name: sign for sign, name in SEPARATORS.items()} | {"\\t": "\t"}
        return named.get(self.separator.lower(), self.separator)


@dataclass(frozen=True)
class TableForm:
    """How a table is written.

    Attributes:
        format: one of `FORMATS`.
        separator: of a text, between its cells.
        encoding: of a text.
        sheet: of a spreadsheet.
        skipped: rows above the header, such as Excel's `sep=;`.
        other_sheets: of a spreadsheet, those with content that are not read, where nobody said which one is.
    """

    format: str
    separator: str = ""
    encoding: str = ""
    sheet: str = ""
    skipped: int = 0
    other_sheets: tuple[str, ...] = ()

    @property
    def left_out(self) -> str:
        """What of the file is not read, and how it would be; empty: nothing."""
        if not self.other_sheets:
            return ""
        others = ", ".join(map(repr, self.other_sheets))
        return f"sheet {self.sheet!r} is read, and not {others} (--excel-sheet NAME reads another)"

    def __str__(self) -> str:
        if self.format == "csv":
            name = SEPARATORS.get(self.separator, repr(self.separator))
            return f"text, separated by {name}, {self.encoding.removesuffix('-sig')}"
        if self.format == "excel":
            return f"Excel, sheet {self.sheet!r}"
        return {"json lines": "JSON lines", "json": "JSON", "parquet": "Parquet"}[self.format]


class UnknownEncodingError(Exception):
    """No encoding fits."""


def format_of(path: Path) -> Literal["csv", "json lines", "json", "excel", "parquet"]:
    """How a file is stored, by its suffix."""
    return FORMATS.get(path.suffix.lower(), "csv")  # type: ignore[return-value]


def encoding_of(content: bytes) -> str:
    """The encoding of a text, as Python calls it.

    UTF-8 counts wherever it fits: no text in another encoding that is not plain ASCII is UTF-8 by chance.

    Raises:
        UnknownEncodingError: none fits.
    """
    for mark, encoding in _MARKS:
        if content.startswith(mark):
            return encoding
    head = content[: _HEAD // 2 * 2]
    # A stray zero byte is a damaged cell, which is reported with its row; in UTF-16 there are many.
    if head.count(0) * _FEWEST_ZEROS > len(head):
        # Of text in UTF-16, mostly the upper bytes are 0.
        return "utf-16-le" if head[1::2].count(0) > head[::2].count(0) else "utf-16-be"
    try:
        content.decode("utf-8")
    except UnicodeDecodeError:
        pass
    else:
        return "utf-8"
    from charset_normalizer import from_bytes  # takes a while to import

    # Only lines that are not ASCII tell encodings apart.
    telling = b"\n".join(line for line in content.splitlines() if not line.isascii())[:_HEAD]
    best = from_bytes(telling, cp_isolation=_CODE_PAGES).best()
    for encoding in ([] if best is None else [best.encoding]) + ["cp1252"]:
        try:
            content.decode(encoding)
        except UnicodeDecodeError:
            continue
        return encoding
    raise UnknownEncodingError


def separator_line(text: str) -> str:
    """The separator that Excel's first line `sep=;` names; empty: there is no such line."""
    found = _SEPARATOR_LINE.match(text)
    return found[1] if found else ""


def separator_of(text: str) -> str:
    """What separates the cells of a text: the sign by which most rows have as many cells as the header.

    Of signs that do equally well the one with more cells counts, then the comma.
    """
    lines = text[:_HEAD]
    if len(text) > _HEAD:
        lines = lines.rpartition("\n")[0] or lines
    best, best_score = ",", (0.0, 0, 0)
    for order, sign in enumerate(SEPARATORS):
        try:
            # `strict` is off: a quotation mark inside of a cell is no reason to take another sign.
            rows = [row for row in csv.reader(io.StringIO(lines, newline=""), delimiter=sign) if row]
        except csv.Error:
            continue
        rows = rows[:_ROWS_LOOKED_AT]
        if not rows or len(rows[0]) < 2:
            continue
        counts = Counter(map(len, rows))
        score = (counts[len(rows[0])] / len(rows), len(rows[0]), -order)
        if score > best_score:
            best, best_score = sign, score
    return best


def decimal_of(cells: Iterable[str]) -> str:
    """The decimal sign of a column of numbers: `,` or `.`; empty: `1,234` may be either number."""
    with_comma = [cell for cell in cells if "," in cell]
    if not with_comma or not all(map(_COMMA_NUMBER.fullmatch, with_comma)):
        return "."
    return "" if all(map(_GROUPED_NUMBER.fullmatch, with_comma)) else ","


def as_plain_number(cell: str, decimal: str) -> str:
    """A number with a point, whatever its decimal sign was; other text as it is."""
    if decimal == ",":
        return cell.replace(",", ".") if _COMMA_NUMBER.fullmatch(cell) else cell
    return cell.replace(",", "") if _GROUPED_NUMBER.fullmatch(cell) else cell
