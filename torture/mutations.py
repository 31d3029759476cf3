"""Ways to spoil a file: bytes flipped, cut and inserted, tokens swapped, values replaced by nasty ones."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator, Sequence
from datetime import date
from typing import Any

import numpy as np

Path = tuple[str | int, ...]
"""Keys and positions that lead to a value in plain data."""

NASTY_TEXTS = (
    "",
    " ",
    "a\0b",
    "\x1b[31mred\x1b[0m",
    "\ud800",
    "../../../etc/passwd",
    "/dev/zero",
    "/",
    ".",
    "~",
    "CON",
    "a/b",
    "-rf",
    "=1+1",
    "<script>alert(1)</script>",
    "%s%n{0}{x}",
    "[bold]x[/bold]",
    "[/]",
    "é" * 300,
    "x" * 5_000,
    "\u202eevil",
    "\ufeff",
    "null",
    "true",
    "1e999",
    "nan",
    "9" * 400,
    "line\nbreak",
    "file:///etc/passwd",
    "https://127.0.0.1:9/x",
    "s3://",
    "hf://a",
    "a.tar#../x",
)
NASTY_NUMBERS = (
    *(0, -1, 1, 2**31, 2**63, -(2**63) - 1, 10**30, 10**299),
    *(0.0, -0.0, 0.5, 1.5, -1e308, 1e308, 5e-324, float("inf"), float("-inf"), float("nan")),
)
NASTY: tuple[Any, ...] = (
    *(*NASTY_TEXTS, *NASTY_NUMBERS),
    *(None, True, False, [], {}, [[]], [None], [1, 2, 3], ["a", "a"], {"a": 1}, {"": None}, {1: 2}, {None: None}),
    *(["x"] * 3_000, {f"k{number}": number for number in range(2_000)}, date(1, 1, 1)),
)
"""What nobody expects in a key's place."""

NASTY_YAML = (
    *("2026-02-30", "0x_", "!!bool maybe", "9" * 5_000, "[" * 5_000, "{" * 500, "&a [*a]", "*nowhere", "<<: [1]"),
    *('"\\0"', '"\\ud800"', '"\\x1b[2J"', "!!python/object/apply:os.system [id]", "!!binary aGk=", "!!set {a}"),
    *("1:1:1:1:1:1:1:1", "0b", "0o9", ".inf", "-.nan", "1_000_000", "!!int x", "!!float y", "!!timestamp z", "~"),
    *("? a", "- ", "|", ">9", "%TAG", "---", "...", "@", "`", "\t", "'", '"', "2026-13-45T99:99:99Z", "0.1.2"),
    *("!!omap [a: 1]", "!!pairs [a: 1]", "!!null x", "!!map x", "!!seq x", "!!str [a]", "!<tag> x", "! x"),
    *("&a {b: &c [x, x, x], d: [*c, *c]}", "0x" + "f" * 400, "1e400", "1.0e+400", "=", "<<", "+.INF"),
)
"""Scalars and fragments that parsers have stumbled over."""


NASTY_JSON = (
    *(
        "9" * 5_000,
        "-" + "9" * 400,
        "1e999",
        "NaN",
        "Infinity",
        "[" * 3_000,
        '{"a":' * 3_000,
        '"\\ud800"',
        '"\\u0000"',
    ),
    *(
        "null",
        "{}",
        "[]",
        '""',
        "true",
        "'",
        "//",
        "\x00",
        '{"a": 1, "a": 2}',
        "01",
        "1.",
        ".5",
        '"\\x"',
        "\ufeff",
    ),
)


def bomb(rng: np.random.Generator) -> str:
    """Aliases of aliases: a few lines that stand for very many values, or mappings merged again and again."""
    width, height = int(rng.integers(2, 12)), int(rng.integers(3, 30))
    if rng.random() < 0.5:
        lines = [f"b0: &b0 [{', '.join(['x'] * width)}]"]
        lines += [f"b{n}: &b{n} [{', '.join([f'*b{n - 1}'] * width)}]" for n in range(1, height)]
    else:
        lines = ["b0: &b0 {x: 1}"]
        lines += [f"b{n}: &b{n} {{<<: [{', '.join([f'*b{n - 1}'] * width)}], y{n}: 1}}" for n in range(1, height)]
    return "\n".join(lines) + "\n"


def places(content: Any, above: Path = ()) -> Iterator[Path]:
    """Every value in plain data, by the keys that lead to it; the whole is ()."""
    yield above
    inner = (
        content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ()
    )
    for key, value in inner:
        yield from places(value, (*above, key))


def at(content: Any, place: Path) -> Any:
    """The value at a place."""
    for key in place:
        content = content[key]
    return content


def replaced(content: Any, place: Path, value: Any) -> Any:
    """A copy of plain data with another value in one place."""
    if not place:
        return value
    key, rest = place[0], place[1:]
    copy = dict(content) if isinstance(content, dict) else list(content)
    copy[key] = replaced(copy[key], rest, value)
    return copy


def without(content: Any, place: Path) -> Any:
    """A copy of plain data that lacks one place."""
    if not place:
        return None
    above = at(content, place[:-1])
    copy = dict(above) if isinstance(above, dict) else list(above)
    del copy[place[-1]]
    return replaced(content, place[:-1], copy)


def renamed(content: Any, place: Path, name: Any) -> Any:
    """A copy of plain data in which the last key of a place is another."""
    above = at(content, place[:-1])
    if not isinstance(above, dict):
        return content
    return replaced(
        content, place[:-1], {name if key == place[-1] else key: value for key, value in above.items()}
    )


def spoil(content: Any, rng: np.random.Generator, *, number: int | None = None) -> tuple[Any, str]:
    """Plain data with one value replaced, removed, doubled, renamed or swapped, and what was done.

    Args:
        content: lists, mappings and scalars.
        rng: draws what is not decided by `number`.
        number: goes through all pairs of a place and a nasty value in turn, so that each is met once.
    """
    found = [place for place in places(content) if place]
    place = found[int(rng.integers(len(found)))] if number is None else found[number % len(found)]
    kind = rng.random()
    if kind < 0.7 or number is not None:
        value = pick(_of_a_kind(at(content, place)) if rng.random() < 0.6 else NASTY, rng)
        return replaced(content, place, value), f"{dotted(place)} = {short(value)}"
    if kind < 0.8:
        return without(content, place), f"{dotted(place)} removed"
    if kind < 0.9:
        name = pick([*NASTY_TEXTS, 1, None, 2.5, True], rng)
        return renamed(content, place, name), f"{dotted(place)} renamed {short(name)}"
    other = found[int(rng.integers(len(found)))]
    return replaced(content, place, at(content, other)), f"{dotted(place)} = that of {dotted(other)}"


def _of_a_kind(value: Any) -> Sequence[Any]:
    """Nasty values of a value's own type, which come further before they are refused."""
    if isinstance(value, bool):
        return (not value,)
    if isinstance(value, int | float):
        return NASTY_NUMBERS
    if isinstance(value, str):
        return NASTY_TEXTS
    return [each for each in NASTY if isinstance(each, type(value))] or NASTY


def pick(values: Sequence[Any], rng: np.random.Generator) -> Any:
    """One of some values, unchanged (NumPy would turn them into an array)."""
    return values[int(rng.integers(len(values)))]


def dotted(place: Path) -> str:
    """A place as people write it."""
    return ".".join(map(str, place))


def short(value: Any) -> str:
    """A value in a few characters."""
    return ascii(value)[:80]


def spoiled_table(content: bytes, rng: np.random.Generator) -> tuple[bytes, str]:
    """A CSV file with a cell, a header, a column or a row spoilt, and what was done."""
    rows = list(csv.reader(io.StringIO(content.decode())))
    row, column = int(rng.integers(len(rows))), int(rng.integers(len(rows[0])))
    kind = int(rng.integers(8))
    if kind < 4:
        value = str(pick([*NASTY_TEXTS, *NASTY_NUMBERS, '"', ",", "\n", "0x10", "1_0", "٣", "1,5", " 1 "], rng))
        note = f"row {row}, column {column} = {short(value)}"
        rows[row][column] = value
    elif kind == 4:
        for each in rows:
            del each[column]
        note = f"column {column} removed"
    elif kind == 5:
        rows = [[*each, each[column]] for each in rows]
        note = f"column {column} doubled"
    elif kind == 6:
        rows[row] = rows[row] + rows[row] if rng.random() < 0.5 else rows[row][:column]
        note = f"row {row} of another length"
    else:
        rows = rows[:row] + rows[row : row + 1] * int(rng.integers(0, 40)) + rows[row + 1 :]
        note = f"row {row} removed or repeated"
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerows(rows)
    return file.getvalue().encode("utf-8", "surrogatepass"), note


def spoiled_json(content: bytes, rng: np.random.Generator) -> tuple[bytes, str]:
    """A JSON file with a value, a key or its text spoilt, and what was done."""
    kind = rng.random()
    if kind < 0.65:
        spoilt, note = spoil(json.loads(content), rng)
        return json.dumps(spoilt, default=str).encode(), note
    if kind < 0.8:
        text, note = swapped_tokens(content.decode(), rng, NASTY_JSON)
        return text.encode("utf-8", "surrogatepass"), note
    return spoiled_bytes(content, rng)


def spoiled_file(name: str, content: bytes, rng: np.random.Generator) -> tuple[bytes, str]:
    """A file of any kind, spoilt by what its ending says it holds."""
    if rng.random() < 0.25 or name.endswith((".parquet", ".onnx")):
        return spoiled_bytes(content, rng)
    if name.endswith(".json"):
        return spoiled_json(content, rng)
    return spoiled_table(content, rng) if name.endswith(".csv") else spoiled_bytes(content, rng)


def spoiled_bytes(content: bytes, rng: np.random.Generator) -> tuple[bytes, str]:
    """Bytes with some flipped, cut off, inserted, removed, doubled or exchanged, and what was done."""
    size = max(len(content), 1)
    start = int(rng.integers(size))
    length = int(rng.integers(1, 1 + min(size, int(2 ** rng.integers(0, 12)))))
    kind = int(rng.integers(7))
    if kind == 0:
        changed = bytearray(content)
        for _ in range(int(2 ** rng.integers(0, 6))):
            changed[int(rng.integers(size))] ^= 1 << int(rng.integers(8))
        return bytes(changed), "bits flipped"
    if kind == 1:
        return content[:start], f"cut at byte {start}"
    if kind == 2:
        return content[:start] + rng.bytes(length) + content[start:], f"{length} random bytes at {start}"
    if kind == 3:
        return content[:start] + content[start + length :], f"{length} bytes gone at {start}"
    if kind == 4:
        return content[:start] + content[start : start + length] * 3 + content[
            start + length :
        ], f"tripled at {start}"
    if kind == 5:
        return content[:start] + b"\0" * length + content[start + length :], f"{length} zeros at {start}"
    encoding = ("utf-16", "utf-8-sig", "latin-1", "utf-32")[int(rng.integers(4))]
    return content.decode("latin-1").encode(encoding), f"as {encoding}"


def swapped_tokens(text: str, rng: np.random.Generator, fragments: Sequence[str] = NASTY_YAML) -> tuple[str, str]:
    """Text with two of its tokens exchanged, one repeated, or one replaced by a fragment, and what was done."""
    tokens = re.findall(r"\w+|\s+|[^\w\s]", text)
    first, second = (int(rng.integers(len(tokens))) for _ in range(2))
    kind = int(rng.integers(4))
    if kind == 0:
        tokens[first], tokens[second] = tokens[second], tokens[first]
        note = f"{tokens[first]!r} and {tokens[second]!r} exchanged"
    elif kind == 1:
        tokens[first] = tokens[first] * int(2 ** rng.integers(1, 14))
        note = f"{tokens[first][:20]!r} repeated"
    else:
        words = [position for position, token in enumerate(tokens) if token.strip()]
        first = words[int(rng.integers(len(words)))]
        fragment = pick(fragments, rng)
        note = f"{tokens[first]!r} = {short(fragment)}"
        tokens[first] = fragment
    return "".join(tokens), note
