"""What a study found."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd
import pyarrow as pa

from detector_bench.tables import Table, to_html
from detector_bench.vocabulary import Status

_SHOWN_IN_NOTEBOOKS = (
    "filtering_and_accuracy",
    "model_bias_scores",
    "prompt_bias_score_difference",
    "bias_errors",
)


@dataclass(frozen=True, repr=False)
class StudyResult:
    """What a study found. In a notebook it shows its tables.

    Attributes:
        out: the result folder.
        metrics: the long metric table, one row per number.
        tables: the paper's tables, by name.
        counts: images by detector, attribute and status (clear, filtered, error).
        spending: by stage, what answers of paid services cost, those of earlier runs included.
    """

    out: Path
    metrics: pd.DataFrame
    tables: dict[str, Table]
    counts: dict[str, dict[str, dict[str, int]]] = field(default_factory=dict)
    spending: dict[str, dict[str, float | str]] = field(default_factory=dict)

    def __repr__(self) -> str:
        tables = ", ".join(self.tables)
        return f"StudyResult(out={str(self.out)!r}, metrics: {len(self.metrics):,} rows, tables: {tables})"

    def _repr_html_(self) -> str:
        return "\n".join(to_html(self.tables[name]) for name in _SHOWN_IN_NOTEBOOKS)


def status_counts(table: pa.Table) -> dict[str, dict[str, int]]:
    """Count a detector's predictions by attribute and status; every status is there, with 0 if need be."""
    counts: dict[str, dict[str, int]] = {}
    grouped = table.group_by(["attribute", "status"]).aggregate([([], "count_all")])
    for row in grouped.to_pylist():
        counts.setdefault(row["attribute"], {})[row["status"]] = row["count_all"]
    return {
        attribute: {status: found.get(status, 0) for status in map(str, Status)}
        for attribute, found in sorted(counts.items())
    }
