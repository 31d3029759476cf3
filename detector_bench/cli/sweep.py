"""`sweep`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from detector_bench.cli.console import output
from detector_bench.cli.stored_predictions import AllowIncomplete, AttributeOption, Predictions, open_study
from detector_bench.cli.studies import ImageSetOption, NClear, StudyFile

if TYPE_CHECKING:
    import pandas as pd

    from detector_bench.evaluation.sweeps import Sweep


def sweep(
    study_file: StudyFile,
    *,
    predictions: Predictions,
    detector: Annotated[str, typer.Option("--detector", metavar="NAME", help="A detector of the study.")],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FILE.csv", help="Also write every threshold to this file."),
    ] = None,
    first: Annotated[float, typer.Option("--from", help="Lowest threshold.")] = 0.0,
    last: Annotated[float, typer.Option("--to", help="Highest threshold.")] = 1.0,
    steps: Annotated[int, typer.Option("--steps", help="Steps from the lowest to the highest.")] = 100,
    image_set: ImageSetOption = None,
    attribute: AttributeOption = None,
    n_clear: NClear = None,
    allow_incomplete: AllowIncomplete = False,
) -> None:
    """Show what a detector would report at other thresholds of its score; no detector runs.

    Example: `detector-bench sweep STUDY.yaml --predictions results/one --detector clip --from 0.5 --out clip.csv`
    """
    from detector_bench.atomic_files import write_text
    from detector_bench.evaluation.causes import PREDICTION_COLUMNS
    from detector_bench.evaluation.sweeps import even_thresholds, sweep_counts, sweep_table

    thresholds = even_thresholds(first=first, last=last, steps=steps)
    opened = open_study(
        study_file,
        predictions,
        image_set=image_set,
        n_clear=n_clear,
        attribute=attribute,
        only=detector,
        columns=PREDICTION_COLUMNS,
    )
    swept = sweep_counts(
        opened.image_set,
        opened.predictions[detector],
        detector=detector,
        attribute=opened.attribute,
        thresholds=thresholds,
        allow_incomplete=allow_incomplete,
    )
    numbers = sweep_table(swept, n_clear=opened.study.n_clear)
    if out is not None:
        write_text(out, numbers.to_csv(index=False))
    _print(swept, numbers)


def _print(swept: Sweep, numbers: pd.DataFrame) -> None:
    from detector_bench.evaluation.sweeps import nearest_thresholds
    from detector_bench.report import to_rich
    from detector_bench.report.sweep_tables import threshold_sweep

    shown = nearest_thresholds(swept.thresholds.tolist())
    output.print(to_rich(threshold_sweep(numbers, thresholds=shown)))
    if swept.without_score:
        images = "1 image" if swept.without_score == 1 else f"{swept.without_score:,} images"
        output.print(f"{images} kept without a score: kept at every threshold.", highlight=False)
