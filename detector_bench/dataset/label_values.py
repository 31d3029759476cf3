"""Numbers that annotators give beside a class, such as an age in years: their rules, and the annotators' mean."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from detector_bench.dataset.consensus import ADJUDICATOR
from detector_bench.dataset.findings import Findings
from detector_bench.dataset.text_table import TextTable, trimmed, true_indices
from detector_bench.results.schema import VALUE_COLUMN
from detector_bench.vocabulary import Attribute, Unit

_NUMBER = r"^-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?$"


def as_numbers(cells: Any) -> NDArray[np.float64]:
    """A chunked pyarrow column of text as numbers; NaN for an empty cell, and for one that is no number."""
    cells = trimmed(cells)
    texts = pc.if_else(pc.match_substring_regex(cells, _NUMBER), cells, pa.scalar(None, cells.type))
    numbers: NDArray[np.float64] = texts.cast(pa.float64()).to_numpy()
    return numbers


def check_values(labels: TextTable, findings: Findings, known: Mapping[str, Attribute]) -> None:
    """Report values that their attribute cannot have, and values that do not fit their label."""
    if not labels.has(VALUE_COLUMN, "attribute", "label"):
        return
    given = true_indices(pc.not_equal(trimmed(labels.column(VALUE_COLUMN)), ""))
    if len(given) == 0:
        return
    numbers = as_numbers(labels.column(VALUE_COLUMN).take(pa.array(given)))
    attributes = labels.encoded("attribute")
    for name, attribute in known.items():
        if name not in attributes.texts:
            continue
        of_attribute = attributes.codes[given] == attributes.texts.index(name)
        records = given[of_attribute]
        if attribute.unit is None:
            measured = ", ".join(each.name for each in known.values() if each.unit is not None)
            findings.add_rows(
                labels,
                VALUE_COLUMN,
                records,
                message=f"{name} has no measured value",
                accepted=f"an empty cell; a number may stand beside {measured}",
            )
        else:
            values = _Values(labels, records, numbers[of_attribute], findings)
            values.check(attribute, attribute.unit)


@dataclass(frozen=True, eq=False)
class _Values:
    """The values given for one attribute: which records of the labels they stand in, and the numbers."""

    labels: TextTable
    records: NDArray[np.intp]
    numbers: NDArray[np.float64]
    findings: Findings

    def check(self, attribute: Attribute, unit: Unit) -> None:
        """Report what is no number, out of range, beside no class, or beside the wrong one: the first of these."""
        in_range = f"a number from {unit.lowest:g} to {unit.highest:g} ({unit.name}), or an empty cell"
        is_number = ~np.isnan(self.numbers)
        is_inside = is_number & (unit.lowest <= self.numbers) & (self.numbers <= unit.highest)
        self._report(~is_number, f"{attribute.name} that is not a number", in_range)
        self._report(is_number & ~is_inside, f"{attribute.name} out of range", in_range)
        label = self._label_positions(attribute)
        for position in range(len(attribute.classes), len(attribute.labels)):
            self._report(
                is_inside & (label == position),
                f"value beside the label {attribute.labels[position]!r}",
                f"an empty cell, or a label among {', '.join(attribute.classes)}",
            )
        starts = np.array(attribute.starts)
        fitting = np.searchsorted(starts, self.numbers, side="right") - 1
        for position, start in enumerate(starts):
            is_last = position + 1 == len(starts)
            end = f"{unit.highest:g}" if is_last else f"below {starts[position + 1]:g}"
            self._report(
                is_inside & (label == position) & (fitting != position),
                f"value that contradicts the label {attribute.classes[position]!r}",
                f"{start:g} to {end} ({unit.name}), or the label of that value",
            )

    def _report(self, is_wrong: NDArray[np.bool_], message: str, accepted: str) -> None:
        self.findings.add_rows(
            self.labels, VALUE_COLUMN, self.records[is_wrong], message=message, accepted=accepted
        )

    def _label_positions(self, attribute: Attribute) -> NDArray[np.int64]:
        """Position of each record's label in `attribute.labels`, or -1 for an unknown one."""
        encoded = self.labels.encoded("label")
        known = {name: position for position, name in enumerate(attribute.labels)}
        positions = np.array([known.get(text, -1) for text in encoded.texts], dtype=np.int64)
        found: NDArray[np.int64] = positions[encoded.codes[self.records]]
        return found


def agreed_values(
    labels: pd.DataFrame, *, group: NDArray[np.int64], consensus: pd.Series[str]
) -> NDArray[np.float64]:
    """One value per group (an image): the adjudicator's, else the mean of those who gave the agreed label.

    Args:
        labels: columns `annotator`, `label` and `value`, the value as text or "".
        group: for each row, the number of its group.
        consensus: the agreed label of each group.

    Returns:
        One number per group; NaN where nobody who gave the agreed label gave a value too.
    """
    values = as_numbers(pa.chunked_array(pa.array(labels[VALUE_COLUMN], pa.large_string())))
    counts = ~np.isnan(values) & (labels["label"].to_numpy() == consensus.to_numpy()[group])
    by_adjudicator = counts & (labels["annotator"] == ADJUDICATOR).to_numpy(dtype=bool)
    decided = np.zeros(len(consensus), dtype=bool)
    decided[group[by_adjudicator]] = True
    counts &= by_adjudicator | ~decided[group]
    # In ascending order, so that the order of the rows has no influence, not even in the last digit.
    rows = np.flatnonzero(counts)
    rows = rows[np.argsort(values[rows], kind="stable")]
    n = np.bincount(group[rows], minlength=len(consensus))
    total = np.bincount(group[rows], weights=values[rows], minlength=len(consensus))
    mean: NDArray[np.float64] = np.divide(total, n, out=np.full(len(consensus), np.nan), where=n > 0)
    return mean
