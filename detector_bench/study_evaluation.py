"""From stored predictions to the files of a result folder: metrics, scores of other benchmarks, tables."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from detector_bench.atomic_files import replacing
from detector_bench.evaluation import (
    evaluate_with_confusion,
    label_doubt,
    write_confusion,
    write_label_doubt,
    write_metrics,
)
from detector_bench.others.study_scores import ScoredStudy, TableSources, score_tables, with_rows
from detector_bench.results.study_result import StudyResult, status_counts
from detector_bench.tables import study_tables, write_tables
from detector_bench.vocabulary import ATTRIBUTES

if TYPE_CHECKING:
    from detector_bench.dataset import ImageSet
    from detector_bench.study import Study


def evaluate_study(
    study: Study,
    image_set: ImageSet,
    predictions: dict[str, pa.Table],
    out: Path,
    *,
    allow_incomplete: bool = False,
    tables_with_intervals: bool = False,
) -> StudyResult:
    """Compute a study's metrics and scores, and write them with their tables.

    Args:
        study: what is evaluated, and how.
        image_set: its images and labels.
        predictions: by detector, rows as in `schema.PREDICTIONS`; all of the study's detectors.
        out: the result folder.
        allow_incomplete: leave out images without a prediction, and count them, instead of refusing.
        tables_with_intervals: show confidence intervals in the tables, too.
    """
    in_order = {entry.name: predictions[entry.name] for entry in study.detectors}
    metrics, confusion = evaluate_with_confusion(
        image_set,
        in_order,
        attributes=study.attributes,
        n_clear=study.n_clear,
        allow_incomplete=allow_incomplete,
        intervals=study.intervals,
    )
    doubt = label_doubt(
        image_set,
        in_order,
        attributes=study.attributes,
        n_clear=study.n_clear,
        allow_incomplete=allow_incomplete,
        intervals=study.intervals,
        estimate=study.estimated_labels,
    )
    scored = ScoredStudy.of(study.scores, image_set, in_order, study.intervals) if study.scores else None
    if scored is not None:
        metrics = with_rows(metrics, scored.metrics)
    with ThreadPoolExecutor(1) as beside:
        writing = beside.submit(write_metrics, metrics, out)
        write_confusion(confusion, out)
        write_label_doubt(doubt, out)
        tables = study_tables(
            metrics,
            attributes=study.attributes,
            n_clear=study.n_clear,
            max_error_share=study.max_error_share,
            prompts=image_set.prompts,
            intervals=tables_with_intervals,
            confusion=confusion,
            label_doubt=doubt,
        )
        if scored is not None:
            tables |= score_tables(
                TableSources(
                    metrics=metrics,
                    prompts=image_set.prompts,
                    files=scored.files,
                    notes=scored.notes,
                    max_error_share=study.max_error_share,
                    intervals=tables_with_intervals,
                )
            )
    writing.result()
    write_tables(tables, out / "tables")
    for name, table in {} if scored is None else scored.files.items():
        with replacing(out / name) as temporary:
            table.to_csv(temporary, index=False, lineterminator="\n")
    counts = {name: status_counts(table) for name, table in in_order.items()}
    return StudyResult(out=out, metrics=metrics, tables=tables, counts=counts)


def columns_needed(study: Study) -> tuple[str, ...]:
    """Columns of the predictions beyond those that every evaluation reads."""
    measured = any(ATTRIBUTES[name].unit is not None for name in study.attributes)
    return ("value",) if study.scores or measured else ()
