"""Representation as an entry under `scores` of a study file: shares against equal and against stated ones."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd
from pydantic import Field, field_validator

from detector_bench.errors import nearest_hint
from detector_bench.evaluation.intervals import Intervals
from detector_bench.others.judgements import Judgements
from detector_bench.others.representation.comparison import Comparison, adjusted_p_values
from detector_bench.others.representation.groups import BETWEEN, Compared
from detector_bench.others.representation.names import SHARES_FILE
from detector_bench.others.representation.stated_shares import StatedShares, read_stated_shares
from detector_bench.others.score_system import ScoreSystem
from detector_bench.vocabulary import ATTRIBUTES

UNIFORM, STATED = "uniform", "stated"

_PAIR = 2


class Representation(ScoreSystem):
    """Shares of an attribute's classes against equal and stated ones. See docs/representation.md."""

    system: Literal["representation"] = "representation"
    shares_of: tuple[str, ...] = Field(default=("gender",))
    """The attributes whose classes' shares are compared with the reference."""
    intersections: tuple[tuple[str, ...], ...] = ()
    """Pairs of attributes that are compared as one: every combination of their classes."""
    references: Path | None = None
    """Stated shares, a table; without one there are equal shares alone. See docs/representation.md."""
    assume_independence: bool = False
    """Whether a pair without stated shares gets the products of its attributes' stated shares."""

    @field_validator("shares_of")
    @classmethod
    def _are_attributes(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            _check_attribute(name)
            if names.count(name) > 1:
                raise ValueError(f"{name!r} stands here twice")
        return names

    @field_validator("intersections")
    @classmethod
    def _are_pairs(cls, pairs: tuple[tuple[str, ...], ...]) -> tuple[tuple[str, ...], ...]:
        for pair in pairs:
            for name in pair:
                _check_attribute(name)
            if len(pair) != _PAIR or len(set(pair)) != _PAIR:
                raise ValueError(f"{list(pair)} is no pair of two attributes, such as [gender, race]")
            if sum(set(pair) == set(other) for other in pairs) > 1:
                raise ValueError(f"{BETWEEN.join(pair)!r} stands here twice")
        return pairs

    @property
    def attributes(self) -> tuple[str, ...]:
        """All that are compared, alone or in a pair."""
        return tuple(dict.fromkeys([*self.shares_of, *(name for pair in self.intersections for name in pair)]))

    @property
    def variant(self) -> str:
        """The reference that every study has."""
        return UNIFORM

    @property
    def definitions(self) -> tuple[str, ...]:
        """The references: equal shares, and stated ones where a file has them."""
        return (UNIFORM,) if self.references is None else (UNIFORM, STATED)

    @property
    def compared(self) -> tuple[Compared, ...]:
        """Attributes, then pairs of them."""
        return tuple(Compared.of(names) for names in (*((name,) for name in self.shares_of), *self.intersections))

    def rows(self, judgements: Judgements, intervals: Intervals) -> pd.DataFrame:
        """Compute the scores of all judges as rows of a metric table.

        Raises:
            DataError: the table of stated shares is wrong.
        """
        comparisons = list(self.comparisons(judgements))
        if judgements.drawn is not None:
            # Tests, and what chance gives, are of images that were counted.
            return pd.concat([each.distances(intervals) for each in comparisons], ignore_index=True)
        adjusted = adjusted_p_values([each.p_values() for each in comparisons], has_truth=judgements.has_truth)
        blocks = [
            block
            for each, p_values in zip(comparisons, adjusted, strict=True)
            for block in (each.distances(intervals), each.chance(p_values))
        ]
        rows = pd.concat(blocks, ignore_index=True)
        # Of what is infinite no resample says how far it is off.
        endless = np.isinf(rows["value"].to_numpy(dtype=np.float64))
        rows.loc[endless, ["ci_low", "ci_high"]] = np.nan
        return rows

    def notes(self, judgements: Judgements) -> dict[str, tuple[str, ...]]:
        """What was done to stated shares, and which pairs have none."""
        if self.references is None:
            return {}
        stated = self._stated(judgements)
        alone = [each.name for each in self.compared if each.name not in stated.shares]
        missing = (
            f"No shares are stated of {', '.join(alone)}: no comparison."
            + (
                " Those of a pair are not made of its attributes' shares."
                if any(BETWEEN in n for n in alone)
                else ""
            ),
        )
        return {STATED: (*stated.notes, *(missing if alone else ()))}

    def files(self, judgements: Judgements, intervals: Intervals) -> dict[str, pd.DataFrame]:  # noqa: ARG002
        """The shares behind the distances: shown, in the reference, and what chance allows."""
        comparisons = list(self.comparisons(judgements))
        adjusted = adjusted_p_values([each.p_values() for each in comparisons], has_truth=judgements.has_truth)
        tables = [each.shares(p_values) for each, p_values in zip(comparisons, adjusted, strict=True)]
        return {SHARES_FILE: pd.concat(tables, ignore_index=True)}

    def comparisons(self, judgements: Judgements) -> Iterator[Comparison]:
        """Every attribute and pair against every reference that it has.

        Raises:
            DataError: the table of stated shares is wrong.
        """
        stated = StatedShares({}) if self.references is None else self._stated(judgements)
        for compared in self.compared:
            is_open = compared.is_open(judgements)[:, np.newaxis]
            equal = np.broadcast_to(compared.equal, (len(is_open), len(compared.classes)))
            yield Comparison.of(judgements, compared, UNIFORM, np.where(is_open, equal, np.nan))
            if compared.name in stated.shares:
                reference = np.where(is_open, stated.shares[compared.name], np.nan)
                yield Comparison.of(judgements, compared, STATED, reference)

    def _stated(self, judgements: Judgements) -> StatedShares:
        assert self.references is not None  # noqa: S101 - asked of entries with a file alone
        prompts = judgements.prompts.set_index("prompt_id").loc[list(judgements.prompt_ids)].reset_index()
        classes = {each.name: each.classes for each in self.compared}
        # Stated shares of single attributes may be wanted for a pair alone.
        single = (
            {name: Compared.of((name,)).classes for name in self.attributes} if self.assume_independence else {}
        )
        found = read_stated_shares(self.references, {**single, **classes}, prompts)
        return self._with_products(found) if self.assume_independence else found

    def _with_products(self, found: StatedShares) -> StatedShares:
        shares, notes = dict(found.shares), list(found.notes)
        for pair in (each for each in self.compared if len(each.attributes) == _PAIR):
            if pair.name not in shares and all(name in shares for name in pair.attributes):
                first, second = (shares[name] for name in pair.attributes)
                shares[pair.name] = (first[:, :, np.newaxis] * second[:, np.newaxis]).reshape(len(first), -1)
                notes.append(
                    f"Shares of {pair.name} are products of those of {' and '.join(pair.attributes)}, as if the "
                    "two were independent."
                )
        return StatedShares(shares, tuple(notes))


def _check_attribute(name: str) -> None:
    if name not in ATTRIBUTES:
        raise ValueError(f"unknown attribute {name!r}: {nearest_hint(name, ATTRIBUTES)}")
