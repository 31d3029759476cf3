"""Collects every mistake in an image set's files, so that all of them can be reported at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from detector_bench.errors import DataError, Problem

if TYPE_CHECKING:
    from detector_bench.dataset.text_table import TextTable

LISTED_PER_KIND = 20
"""How many mistakes of one kind are listed one by one; the rest are only counted."""

LONGEST_VALUE = 80
"""Longest bad value that is shown whole, in characters."""


def shorten(value: str) -> str:
    """Cut a value to a length that fits in a message; an ellipsis marks the cut."""
    return value if len(value) <= LONGEST_VALUE else value[: LONGEST_VALUE - 1] + "…"


class Findings:
    """The mistakes found so far.

    A mistake that occurs in a million rows is listed `LISTED_PER_KIND` times, then counted in one last entry,
    so the report stays readable and cheap.
    """

    def __init__(self) -> None:
        self._problems: list[Problem] = []

    def __bool__(self) -> bool:
        return bool(self._problems)

    @property
    def problems(self) -> tuple[Problem, ...]:
        """All mistakes, in the order in which they were found."""
        return tuple(self._problems)

    def add(self, problem: Problem) -> None:
        """Keep one mistake."""
        self._problems.append(problem)

    def add_kind(self, problems: Sequence[Problem]) -> None:
        """Keep mistakes of one kind: the first ones in full, the rest as a count."""
        self._problems.extend(problems[:LISTED_PER_KIND])
        if problems:
            self._count_rest(problems[0], len(problems))

    def add_rows(
        self,
        table: TextTable,
        column: str,
        indices: NDArray[np.integer],
        *,
        message: str,
        accepted: str | Callable[[int], str],
    ) -> None:
        """Keep one mistake for each record of `table` in `indices` (0 is the first record).

        `accepted` is a text, or a function from a record's index to its text where that differs.
        """
        listed = [
            Problem(
                file=table.file,
                message=message,
                row=table.row(index),
                column=table.heading(column),
                value=shorten(table.cell(column, index)),
                accepted=accepted if isinstance(accepted, str) else accepted(index),
            )
            for index in indices[:LISTED_PER_KIND].tolist()
        ]
        self._problems.extend(listed)
        if listed:
            self._count_rest(listed[0], len(indices))

    def raise_if_any(self) -> None:
        """Raise them all as one error.

        Raises:
            DataError: at least one mistake was found.
        """
        if self._problems:
            raise DataError(self._problems)

    def _count_rest(self, example: Problem, total: int) -> None:
        rest = total - LISTED_PER_KIND
        if rest > 0:
            message = f"... and {rest:,} more of this kind ({example.message})"
            self._problems.append(Problem(file=example.file, message=message, column=example.column))
