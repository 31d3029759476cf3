"""`causes`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from detector_bench.cli.console import output
from detector_bench.cli.stored_predictions import (
    AllowIncomplete,
    AttributeOption,
    OpenedStudy,
    Predictions,
    open_study,
)
from detector_bench.cli.studies import ImageSetOption, NClear, StudyFile

if TYPE_CHECKING:
    import pandas as pd


def causes(
    study_file: StudyFile,
    *,
    predictions: Predictions,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="DIR", help="Also write tables and numbers here.")
    ] = None,
    image_set: ImageSetOption = None,
    attribute: AttributeOption = None,
    n_clear: NClear = None,
    resamples: Annotated[
        int | None,
        typer.Option("--resamples", min=0, help="For confidence intervals; 0: none; by default the study's."),
    ] = None,
    allow_incomplete: AllowIncomplete = False,
) -> None:
    """Split each detector's bias error into a filtering and a classification part; no detector runs.

    Filtering errors are broken down by reason: what the detector says of clear images that it filtered, and what
    the humans say of low-quality images that it kept. Confidence intervals are found as the study says.

    Example: `detector-bench causes STUDY.yaml --predictions results/one --out results/one`
    """
    from detector_bench.atomic_files import write_text
    from detector_bench.evaluation.causes import PREDICTION_COLUMNS
    from detector_bench.tables import to_rich, write_tables
    from detector_bench.tables.error_tables import bias_error_causes, filter_errors

    opened = open_study(
        study_file,
        predictions,
        image_set=image_set,
        n_clear=n_clear,
        attribute=attribute,
        columns=PREDICTION_COLUMNS,
    )
    numbers = _numbers(opened, resamples=resamples, allow_incomplete=allow_incomplete)
    tables = [
        bias_error_causes(
            numbers["causes"],
            attribute=opened.attribute,
            gaps=numbers["accuracy_gaps"],
            max_error_share=opened.study.max_error_share,
        ),
        filter_errors(numbers["filter_outcomes"], attribute=opened.attribute),
    ]
    if out is not None:
        write_tables({table.name: table for table in tables}, out / "tables")
        for name, frame in numbers.items():
            write_text(out / f"{name}.csv", frame.to_csv(index=False))
    for table in tables:
        output.print(to_rich(table))
        output.print()


def _numbers(opened: OpenedStudy, *, resamples: int | None, allow_incomplete: bool) -> dict[str, pd.DataFrame]:
    """The long tables, by the name of their file."""
    from detector_bench.evaluation import causes as evaluation

    judged = (opened.image_set, opened.predictions)
    settings: dict[str, Any] = {"attribute": opened.attribute, "allow_incomplete": allow_incomplete}
    intervals = opened.study.intervals.with_resamples(resamples)
    return {
        "causes": evaluation.causes(*judged, n_clear=opened.study.n_clear, intervals=intervals, **settings),
        "accuracy_gaps": evaluation.accuracy_gaps(*judged, intervals=intervals, **settings),
        "filter_outcomes": evaluation.filter_outcomes(*judged, **settings),
    }
