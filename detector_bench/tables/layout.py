"""Makes a table fit a page or a terminal: breaks long headings, and wide tables into blocks of columns."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from detector_bench.tables.table import Column, Table


@dataclass(frozen=True, slots=True)
class Heading:
    """One heading of the upper header row: `span` neighbouring columns share it. Empty text: none of them do."""

    text: str
    start: int
    span: int


def group_headings(columns: Sequence[Column]) -> tuple[Heading, ...]:
    """The upper header row of a table; empty where no column has a group."""
    if not any(column.group for column in columns):
        return ()
    headings: list[Heading] = []
    for index, column in enumerate(columns):
        if headings and headings[-1].text == column.group:
            headings[-1] = Heading(column.group, headings[-1].start, headings[-1].span + 1)
        else:
            headings.append(Heading(column.group, index, 1))
    return tuple(headings)


def column_blocks(
    table: Table, *, width_of: Callable[[int], float], available: float
) -> tuple[tuple[int, ...], ...]:
    """Choose which columns stand side by side; every block begins with the columns of names.

    Columns of one group stay together, unless the group alone is too wide. Blocks are filled evenly where that
    fits. A block holds at least one column of numbers, however narrow the page is.

    Args:
        table: what is to be laid out.
        width_of: how much room the column with this index takes, its distance to the next one included.
        available: how much room there is, in the same unit.

    Returns:
        Column indices of each block; a single block where everything fits.
    """
    names = [index for index, column in enumerate(table.columns) if column.kind == "name"]
    room = available - sum(width_of(index) for index in names)
    pieces = [
        piece
        for together in _inseparable(table.columns, names)
        for piece in ([together] if _width(together, width_of) <= room else [[index] for index in together])
    ]
    blocks = _filled(pieces, width_of=width_of, room=room)
    if len(blocks) > 1:
        fair_share = math.ceil(len(pieces) / len(blocks))
        even = [
            [index for piece in pieces[start : start + fair_share] for index in piece]
            for start in range(0, len(pieces), fair_share)
        ]
        if all(_width(block, width_of) <= room for block in even):
            blocks = even
    return tuple((*names, *block) for block in blocks) or (tuple(names),)


def heading_lines(heading: str, *, width: int) -> list[str]:
    """Break a heading after spaces, hyphens, underscores and slashes, so that it fits above narrow numbers.

    Args:
        heading: the text; a part that cannot be broken stays whole.
        width: characters of a line, where breaking can reach that.

    Returns:
        At least one line, without outer spaces.
    """
    lines = [""]
    for part in re.findall(r"[^-_/ ]*[-_/ ]*", heading):
        if lines[-1] and len((lines[-1] + part).rstrip()) > width:
            lines.append("")
        lines[-1] += part
    return [line.strip() for line in lines if line.strip()] or [""]


def _inseparable(columns: Sequence[Column], names: Sequence[int]) -> list[list[int]]:
    """The columns of numbers, those of one group as one."""
    groups = group_headings(columns)
    if not groups:
        return [[index] for index in range(len(columns)) if index not in names]
    spans = [(list(range(group.start, group.start + group.span)), group.text) for group in groups]
    pieces = [[span] if text else [[index] for index in span] for span, text in spans]
    return [piece for several in pieces for piece in several if piece[0] not in names]


def _filled(pieces: Sequence[list[int]], *, width_of: Callable[[int], float], room: float) -> list[list[int]]:
    blocks: list[list[int]] = []
    taken = math.inf
    for piece in pieces:
        width = _width(piece, width_of)
        if taken + width > room:
            blocks.append([])
            taken = 0.0
        blocks[-1] += piece
        taken += width
    return blocks


def _width(columns: Sequence[int], width_of: Callable[[int], float]) -> float:
    return sum(width_of(index) for index in columns)
