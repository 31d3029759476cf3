"""The study's tables, sorted by the page on which they stand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from detector_bench.errors import DetectorBenchError
from detector_bench.evaluation.intervals import Intervals
from detector_bench.others.study_scores import ScoredStudy
from detector_bench.others.study_tables import score_tables
from detector_bench.site.report_study import ReportStudy
from detector_bench.study_run import has_intervals, stored_tables
from detector_bench.tables import Table


class TableSets(NamedTuple):
    """Tables by attribute, those over all attributes with the first one; and those of other benchmarks' scores."""

    by_attribute: dict[str, list[Table]]
    of_other_scores: list[Table]
    missing: list[str]
    """Why scores of other benchmarks have no tables; empty where there are none to have any."""


def table_sets(study: ReportStudy) -> TableSets:
    """Build the tables from the long ones, with intervals where there are any."""
    names = [part.name for part in study.parts]
    prompts = None if study.image_set is None else study.image_set.prompts
    by_attribute: dict[str, list[Table]] = {name: [] for name in names}
    for name, table in stored_tables(study.results, prompts=prompts).items():
        by_attribute[_attribute_of(name, names)].append(table)
    scores, missing = _score_tables(study)
    return TableSets(by_attribute, scores, missing)


def _attribute_of(table: str, attributes: Sequence[str]) -> str:
    """The attribute that a table's name ends in; the first attribute's tables have plain names."""
    return next((name for name in attributes[1:] if table.endswith(f"_{name}")), attributes[0])


def _score_tables(study: ReportStudy) -> tuple[list[Table], list[str]]:
    if not study.configuration.scores:
        return [], []
    if study.image_set is None:
        return [], [f"The scores of other benchmarks have no tables: {study.missing}"]
    try:
        # Their numbers stand in the metric table; what is formed anew is what else their tables need.
        predictions = study.results.predictions(("value",))
        scored = ScoredStudy.of(study.configuration.scores, study.image_set, predictions, Intervals(method="none"))
        tables = score_tables(
            study.first.metrics_of_all_attributes,
            verdicts=scored.verdicts,
            notes=scored.notes,
            prompts=study.image_set.prompts,
            max_error_share=study.first.max_error_share,
            intervals=has_intervals(study.first.metrics_of_all_attributes),
        )
    except DetectorBenchError as error:
        return [], [f"The scores of other benchmarks have no tables: {error}"]
    return list(tables.values()), []
