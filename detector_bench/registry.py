"""One registry for everything that can be plugged in by name: a decorator, a lazy target, or an entry point."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Generic, TypeVar, cast

from detector_bench.errors import ConfigError, nearest_hint

T = TypeVar("T")


class Registry(Generic[T]):
    """Names for things of one sort.

    An entry is the thing itself, a target `"package.module:attribute"` that is imported when it is first asked
    for, or an entry point of an installed package in `entry_point_group`. A name is taken once: a second
    registration of a different thing raises, whichever way it comes.

    Args:
        what: what is registered, for messages ("detector", "stage").
        entry_point_group: the entry point group that other packages use, if they may add entries.
        adapt: turns what a target or entry point yields into an entry, and raises ConfigError if it can't.
    """

    def __init__(
        self,
        what: str,
        *,
        entry_point_group: str | None = None,
        adapt: Callable[[Any], T] | None = None,
    ) -> None:
        self._what = what
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
        if taken is not None and taken != entry and not _same_target(taken, entry):
            raise ConfigError(f"{self._what} {name!r} is registered twice: {taken!r} and {entry!r}")
        self._entries[name] = entry

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
            raise ConfigError(f"unknown {self._what} {name!r}: {nearest_hint(name, self._entries)}")
        entry = self._entries[name]
        if isinstance(entry, str | EntryPoint):
            entry = self._import(name, entry)
            self._entries[name] = entry
        return entry

    def names(self) -> list[str]:
        """All registered names, sorted."""
        self._scan()
        return sorted(self._entries)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def __contains__(self, name: object) -> bool:
        self._scan()
        return name in self._entries

    def _scan(self) -> None:
        if self._scanned:
            return
        self._scanned = True
        for point in entry_points(group=str(self._group)):
            taken = self._entries.get(point.name)
            if taken is not None and not _same_target(taken, point.value):
                raise ConfigError(
                    f"{self._what} {point.name!r} of the package {_package_of(point)} is registered already"
                )
            self._entries[point.name] = point

    def _import(self, name: str, target: str | EntryPoint) -> T:
        value = target if isinstance(target, str) else target.value
        module_name, _, attribute = value.partition(":")
        # The module's own decorator may register the same name while it is imported: make room for it.
        del self._entries[name]
        try:
            found = getattr(import_module(module_name), attribute)
        except (ImportError, AttributeError) as error:
            self._entries[name] = target
            raise ConfigError(
                f"{self._what} {name!r} cannot be loaded from {value!r}: {type(error).__name__}: {error}"
            ) from error
        registered = self._entries.get(name)
        if registered is not None:
            return cast("T", registered)
        return cast("T", found) if self._adapt is None else self._adapt(found)


def _same_target(taken: object, entry: object) -> bool:
    value = taken.value if isinstance(taken, EntryPoint) else taken
    if isinstance(value, str) or isinstance(entry, str):
        return _target_of(value) == _target_of(entry)
    return False


def _target_of(entry: object) -> str:
    if isinstance(entry, str):
        return entry
    factory = getattr(entry, "factory", entry)
    return f"{getattr(factory, '__module__', '')}:{getattr(factory, '__qualname__', '')}"


def _package_of(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else "?"
