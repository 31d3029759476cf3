"""Declares tables, and keeps the register of all that a study has: those of this package and of plugins."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, Protocol, TypeVar, cast

import pandas as pd

from detector_bench.errors import ConfigError
from detector_bench.registry import Registry
from detector_bench.results.metric_lookup import no_labels
from detector_bench.tables.building import TableLayout, TableNumbers
from detector_bench.tables.table import Table


class MakesTable(Protocol):
    """A registered table: of numbers it makes a table, or None where they are not the ones it needs."""

    def of(self, numbers: TableNumbers) -> Table | None:
        """Build the table of one attribute."""


@dataclass(frozen=True, kw_only=True)
class TableDeclaration(TableLayout):
    """A table of metrics, declared. Called with a metric table it builds a `Table`; it computes no statistic."""

    when: Callable[[TableNumbers], bool] = lambda _: True
    """Whether a study has this table."""
    needs_labels: bool = True
    """Whether it compares with the humans: then it is left out where no image has a label, and says how many
    have where some have none."""
    finish: Callable[[Table, TableNumbers], Table] = lambda table, _: table
    """Adds what no declaration can say."""
    declared_in: str = ""
    """Name of the module that declares it, for messages."""

    @property
    def factory(self) -> object:
        """What the registry takes for the definition: a notebook's cell that runs again replaces its table."""
        return SimpleNamespace(__module__=self.declared_in, __qualname__=self.name)

    def __call__(self, metrics: pd.DataFrame, **settings: Any) -> Table:
        """Build the table; `TableNumbers.of_table` says which settings there are.

        Raises:
            ConfigError: no metrics of this attribute, or none of those that the table needs.
        """
        numbers = TableNumbers.of_table(metrics, **settings)
        table = self.of(numbers)
        if table is None and self.needs_labels and not numbers.lookup.has_labels:
            raise ConfigError(no_labels(numbers.attribute))
        if table is None:
            raise ConfigError(f"this study has no numbers for the table {self.name} of {numbers.attribute}")
        return table

    def of(self, numbers: TableNumbers) -> Table | None:
        """Build the table of one attribute; None where the study has none."""
        if self.needs_labels and not numbers.lookup.has_labels:
            return None
        table = self.finish(self.build(numbers), numbers) if self.when(numbers) else None
        return _with_labels_said(table, numbers) if self.needs_labels else table


def _with_labels_said(table: Table | None, numbers: TableNumbers) -> Table | None:
    """The table with the number of images that it rests on below it, where some have no label."""
    if table is None or not numbers.labels_notes:
        return table
    return replace(table, notes=(*table.notes, *numbers.labels_notes))


def _as_table(name: str, found: Any) -> MakesTable:
    if not hasattr(found, "of"):
        raise ConfigError(f"table {name!r}: what `declare_table` gives is expected; got {type(found).__name__}")
    return cast("MakesTable", found)


TABLES: Registry[MakesTable] = Registry("table", entry_point_group="detector_bench.tables", adapt=_as_table)
"""All tables of a study, by name; see `study_tables` for their order."""


def declare_table(**fields: Any) -> TableDeclaration:
    """Add a table to every study's: it is written, shown in the report and listed like the built-in ones.

    Args:
        fields: those of `TableDeclaration`.

    Raises:
        ConfigError: a metric or dimension that there is not, or a name that another table has.
    """
    declaration = TableDeclaration(**fields, declared_in=sys._getframe(1).f_globals.get("__name__", ""))
    TABLES.register(declaration.name, declaration)
    return declaration


@dataclass(frozen=True)
class _MadeTable:
    """A table that a function makes."""

    name: str
    factory: Callable[[TableNumbers], Table | None]
    needs_labels: bool

    def of(self, numbers: TableNumbers) -> Table | None:
        if not self.needs_labels:
            return self.factory(numbers)
        return _with_labels_said(self.factory(numbers), numbers) if numbers.lookup.has_labels else None


_Maker = TypeVar("_Maker", bound=Callable[[TableNumbers], Table | None])


def makes_table(name: str, *, needs_labels: bool = True) -> Callable[[_Maker], _Maker]:
    """Return a decorator that adds a table made by a function, for what no declaration can say.

    Args:
        name: the table's; the function takes `TableNumbers` and returns a `Table`, or None where a study has none.
        needs_labels: see `TableDeclaration`.

    Raises:
        ConfigError: another table has the name.
    """

    def register(make: _Maker) -> _Maker:
        TABLES.register(name, _MadeTable(name, make, needs_labels))
        return make

    return register
