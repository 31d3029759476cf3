"""One registry for everything that can be plugged in by name: a decorator, a lazy target, or an entry point."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Generic, NamedTuple, TypeVar, cast

from detector_bench.errors import ConfigError, DetectorBenchError, nearest_hint

T = TypeVar("T")


class Registration(NamedTuple):
    """One thing that was registered by name."""

    what: str
    """Its sort, such as metric or detector."""
    name: str
    module: str
    """The module that was being executed, and so brought it; not always the one that defines it."""


REGISTRATIONS: list[Registration] = []
"""All that was registered in this process, in order; entry points are not among it."""


class Registry(Generic[T]):
    """Names for things of one sort.

    An entry is the thing itself, a target `"package.module:attribute"` that is imported when it is first asked
    for, or an entry point of an installed package in `entry_point_group`. A name is taken once: a second
    registration of a different thing raises, whichever way it comes. The same definition may come again, as it
    does when a notebook's cell runs twice: then the newer one counts.

    Args:
        what: what is registered, for messages ("detector", "stage").
        elsewhere: what else may be the matter with an unknown name, for its message.
        entry_point_group: the entry point group that other packages use, if they may add entries.
        adapt: turns a name and what its target or entry point yields into an entry, and raises ConfigError if
            it can't.
    """

    def __init__(
        self,
        what: str,
        *,
        elsewhere: str = "",
        entry_point_group: str | None = None,
        adapt: Callable[[str, Any], T] | None = None,
    ) -> None:
        self._what = what
        self._elsewhere = elsewhere and f" ({elsewhere})"
        self._adapt = adapt
        self._group = entry_point_group
        self._entries: dict[str, T | str | EntryPoint] = {}
        self._scanned = entry_point_group is None

    def register(self, name: str, entry: T | str) -> None:
        """Give `entry` (the thing, or `"package.module:attribute"`) a name.

        Raises:
            ConfigError: the name is taken by something else.
        """
        taken = self._entries.get(name)
        if taken is not None and not _same_definition(taken, entry):
            raise self._registered_twice(name, taken, entry)
        if taken is None or not isinstance(entry, str):
            self._entries[name] = entry
        REGISTRATIONS.append(Registration(self._what, name, _executed_module()))

    def _registered_twice(self, name: str, first: object, second: object) -> ConfigError:
        return ConfigError(
            f"{self._what} {name!r} is registered twice: as {_shown(first)} and as {_shown(second)} "
            "(accepted: a name of its own for each)"
        )

    def decorator(self, name: str) -> Callable[[T], T]:
        """Return a decorator that registers what it decorates."""

        def decorate(entry: T) -> T:
            self.register(name, entry)
            return entry

        return decorate

    def get(self, name: str) -> T:
        """Return the thing behind a name, importing it if need be.

        Raises:
            ConfigError: the name is unknown (the nearest known names are listed), or its import fails.
        """
        self._scan()
        if name not in self._entries:
            hint = nearest_hint(name, self._entries) + self._elsewhere
            raise ConfigError(f"unknown {self._what} {name!r}: {hint}")
        entry = self._entries[name]
        if isinstance(entry, str | EntryPoint):
            entry = self._import(name, entry)
            self._entries[name] = entry
        return entry

    def names(self) -> list[str]:
        """All registered names in alphabetical order, those of other packages included."""
        self._scan()
        return sorted(self._entries)

    def loaded(self) -> list[T]:
        """The things that are here already, in the order in which they were registered."""
        return [entry for entry in self._entries.values() if not isinstance(entry, str | EntryPoint)]

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def __contains__(self, name: object) -> bool:
        self._scan()
        return name in self._entries

    def _scan(self) -> None:
        if self._scanned:
            return
        for point in entry_points(group=str(self._group)):
            taken = self._entries.get(point.name)
            if taken is None:
                self._entries[point.name] = point
            elif not _same_definition(taken, point):
                raise self._registered_twice(point.name, taken, point)
        self._scanned = True

    def _import(self, name: str, target: str | EntryPoint) -> T:
        point = target if isinstance(target, EntryPoint) else EntryPoint(name, target, "")
        # The module's own decorator may register the same name while it is imported: make room for it.
        del self._entries[name]
        try:
            if not point.value.partition(":")[2]:
                raise ConfigError(f"{self._what} {name!r}: a target is 'module:attribute'; got {_shown(target)}")
            found = point.load()
            registered = self._entries.get(name)
            if registered is not None:
                return cast("T", registered)
            return cast("T", found) if self._adapt is None else self._adapt(name, found)
        except DetectorBenchError:
            raise
        except Exception as error:
            why = " ".join(f"{type(error).__name__}: {error}".split())
            raise ConfigError(
                f"{self._what} {name!r} cannot be loaded from {_shown(target)}: {why}; mend or reinstall it, "
                "and run the same command again: what is stored stays as it is"
            ) from error
        finally:
            self._entries.setdefault(name, target)


def _same_definition(taken: object, entry: object) -> bool:
    if type(taken) is type(entry) and taken == entry:
        return True
    module, attribute = _definition(taken)
    other_module, other_attribute = _definition(entry)
    if not attribute or attribute != other_attribute:
        return False
    if module == other_module:
        # What a function defines anew each time it is called are different things under one name.
        return "<locals>" not in attribute
    # A package may name a class where it re-exports it: the target is not where the class is defined.
    lazy = isinstance(taken, str | EntryPoint) != isinstance(entry, str | EntryPoint)
    return lazy and module.partition(".")[0] == other_module.partition(".")[0]


def _executed_module() -> str:
    """The innermost module whose own lines, not those of a function in it, are being executed."""
    frame = sys._getframe(1)
    while frame.f_code.co_name != "<module>" and frame.f_back is not None:
        frame = frame.f_back
    return str(frame.f_globals.get("__name__", ""))


def _definition(entry: object) -> tuple[str, str]:
    """Module and attribute that a thing is defined as, or that a target points to."""
    entry = getattr(entry, "defined_as", entry)
    if isinstance(entry, str | EntryPoint):
        module, _, attribute = (entry if isinstance(entry, str) else entry.value).partition(":")
        return module.strip(), attribute.partition("[")[0].strip()
    made = getattr(entry, "factory", None) or getattr(entry, "function", None) or entry
    return getattr(made, "__module__", ""), getattr(made, "__qualname__", "")


def _shown(entry: object) -> str:
    target = ":".join(_definition(entry))
    if isinstance(entry, EntryPoint) and entry.dist is not None:
        return f"{target!r} (package {entry.dist.name})"
    return repr(target) if target != ":" else repr(entry)
