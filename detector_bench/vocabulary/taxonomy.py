"""What a taxonomy is, and what a mapping from one to another does to labels and probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from detector_bench.declarations import Declaration
from detector_bench.errors import ConfigError, nearest_hint
from detector_bench.vocabulary import ATTRIBUTES

OUTSIDE = -1
"""The position of a label that has no class in the target taxonomy."""

_DESCRIPTIVE: dict[str, Any] = {
    "descriptive": True
}  # words about a table decide no verdict: no part of a fingerprint


class Taxonomy(Declaration):
    """The classes into which one detector, data set or benchmark sorts people, in its own words and order.

    Raises:
        pydantic.ValidationError: an unknown attribute, a class twice, or years that do not fit the classes.
    """

    name: str = Field(json_schema_extra=_DESCRIPTIVE)
    attribute: str
    """Which of our attributes the classes are about."""
    classes: tuple[str, ...] = Field(min_length=1)
    source: str = Field(json_schema_extra=_DESCRIPTIVE)
    """Who uses these classes."""
    years: tuple[float, ...] | None = None
    """Of ages: a number of years that stands for each class, the middle of its whole years. For a class without an
    end ("70+") it is a decision. None: the classes are no ages, or no such numbers are known."""

    @model_validator(mode="after")
    def _consistent(self) -> Taxonomy:
        if self.attribute not in ATTRIBUTES:
            raise ValueError(f"unknown attribute {self.attribute!r}: {nearest_hint(self.attribute, ATTRIBUTES)}")
        for label in self.classes:
            if self.classes.count(label) > 1:
                raise ValueError(f"taxonomy {self.name!r} has the class {label!r} twice")
        if self.years is not None and (
            len(self.years) != len(self.classes) or any(a >= b for a, b in pairwise(self.years))
        ):
            raise ValueError(
                f"taxonomy {self.name!r}: years are one rising number for each of {len(self.classes)} classes; "
                f"got {list(self.years)}"
            )
        return self

    def codes(self, labels: Sequence[str | None]) -> NDArray[np.int64]:
        """The position of each label among the classes; None is `OUTSIDE`.

        Raises:
            ConfigError: a label that is no class of this taxonomy.
        """
        position: dict[str | None, int] = {None: OUTSIDE, **{label: at for at, label in enumerate(self.classes)}}
        try:
            return np.array([position[label] for label in labels], np.int64)
        except KeyError as error:
            label = str(error.args[0])
            raise ConfigError(
                f"{label!r} is no class of {self.name!r}: {nearest_hint(label, self.classes)}"
            ) from None


class SharesByClass(NamedTuple):
    """Probabilities, shares or counts after a mapping; together they add up to what they were before."""

    inside: NDArray[np.float64]
    """By target class, `[..., T]`."""
    outside: NDArray[np.float64]
    """Of the classes that have no target, `[...]`."""


class Mapping(Declaration):
    """What each class of one taxonomy means in another.

    Total: every source class has an entry, so that nothing is dropped without somebody having written that down.

    Raises:
        pydantic.ValidationError: taxonomies of two attributes, a source class without an entry, an entry for no
            source class, or a target that does not exist; all that is wrong with the table at once.
    """

    name: str = Field(json_schema_extra=_DESCRIPTIVE)
    source: Taxonomy
    target: Taxonomy
    table: dict[str, str | None]
    """By source class, the target class; None: outside, there is no such class."""
    loses: str = Field(json_schema_extra=_DESCRIPTIVE)
    """One sentence: what is lost, merged or decided on the way."""

    @model_validator(mode="after")
    def _total(self) -> Mapping:
        place = f"mapping {self.name!r}"
        if self.source.attribute != self.target.attribute:
            raise ValueError(
                f"{place}: {self.source.name!r} is about {self.source.attribute}, "
                f"{self.target.name!r} about {self.target.attribute}"
            )
        mistakes = [
            f"{label!r} is no class of {self.source.name!r}: {nearest_hint(label, self.source.classes)}"
            for label in self.table
            if label not in self.source.classes
        ]
        if missing := [label for label in self.source.classes if label not in self.table]:
            mistakes.append(f"{self.source.name!r} has classes without an entry: {', '.join(map(repr, missing))}")
        known = self.target.classes
        mistakes += [
            f"{label!r} of {word!r} is no class of {self.target.name!r}: {nearest_hint(label, known)}"
            for word, label in self.table.items()
            if label is not None and label not in known
        ]
        if mistakes:
            raise ValueError(f"{place}: " + "; ".join(mistakes))
        return self

    @property
    def labels(self) -> tuple[str | None, ...]:
        """The target class of each source class, in the source's order."""
        return tuple(self.table[label] for label in self.source.classes)

    @property
    def positions(self) -> NDArray[np.int64]:
        """The position of each source class's target, `(source classes,)`; `OUTSIDE` where there is none."""
        return self.target.codes(self.labels)

    @property
    def outside(self) -> tuple[str, ...]:
        """Source classes without a target."""
        return tuple(label for label in self.source.classes if self.table[label] is None)

    @property
    def unreached(self) -> tuple[str, ...]:
        """Target classes that no source class means: their share is 0 whatever the images show."""
        return tuple(label for label in self.target.classes if label not in self.labels)

    def apply(self, codes: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
        """Positions among the source classes become positions among the target classes.

        Args:
            codes: of any shape; `OUTSIDE` stays outside.

        Raises:
            ConfigError: a position that the source does not have.
        """
        codes = np.asarray(codes)
        if codes.size and (codes.min() < OUTSIDE or codes.max() >= len(self.source.classes)):
            raise ConfigError(
                f"mapping {self.name!r}: class codes run from {OUTSIDE} to {len(self.source.classes) - 1}; "
                f"got {codes.min()} to {codes.max()}"
            )
        # Position -1 picks the entry behind the last class.
        positions: NDArray[np.int64] = np.append(self.positions, OUTSIDE)
        targets: NDArray[np.int64] = positions[codes]
        return targets

    def probabilities(self, shares: NDArray[Any]) -> SharesByClass:
        """Add up the source classes that mean the same.

        Args:
            shares: `[..., source classes]`: probabilities, shares or counts.

        Returns:
            `[..., target classes]`, and what lies outside, `[...]`.

        Raises:
            ConfigError: another number of classes.
        """
        shares = np.asarray(shares, np.float64)
        classes = len(self.source.classes)
        if shares.shape[-1:] != (classes,):
            raise ConfigError(
                f"mapping {self.name!r}: the last axis has one number for each of {classes} classes; "
                f"got shape {shares.shape}"
            )
        sums = np.zeros((*shares.shape[:-1], len(self.target.classes) + 1))
        # One by one, not by a matrix product: NaN in one class must not spread to the others.
        for at, position in enumerate(self.positions):
            sums[..., position] += shares[..., at]
        return SharesByClass(sums[..., :-1], sums[..., -1])

    def compose(self, following: Mapping) -> Mapping:
        """This mapping, then another one; what is outside after the first stays outside.

        Raises:
            ConfigError: the other one does not begin where this one ends.
        """
        if self.target != following.source:
            raise ConfigError(
                f"mapping {self.name!r} ends in {self.target.name!r}, but {following.name!r} begins with "
                f"{following.source.name!r}"
            )
        steps = {
            label: None if target is None else following.table[target] for label, target in self.table.items()
        }
        return Mapping(
            name=f"{self.source.name}_to_{following.target.name}",
            source=self.source,
            target=following.target,
            table=steps,
            loses=f"{self.loses} Then: {following.loses}",
        )

    def __hash__(self) -> int:
        return hash((self.name, self.source, self.target, self.labels))
