"""`sweep`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from detector_bench.cli.console import output
from detector_bench.cli.stored_predictions import AllowIncomplete, AttributeOption, Predictions, open_study
from detector_bench.cli.studies import ImageSetOption, NClear, Plugins, StudyFile
from detector_bench.plugins import load_plugins

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
        typer.Option(
            "--out",
            "-o",
            metavar="FILE.csv",
            help="Also write every threshold to this file, and the chosen ones to FILE_chosen.csv.",
        ),
    ] = None,
    first: Annotated[
        float | None, typer.Option("--from", help="Lowest threshold; by default where it begins to filter.")
    ] = None,
    last: Annotated[float, typer.Option("--to", help="Highest threshold.")] = 1.0,
    steps: Annotated[int, typer.Option("--steps", help="Steps from the lowest to the highest.")] = 100,
    plugin: Plugins = None,
    image_set: ImageSetOption = None,
    attribute: AttributeOption = None,
    n_clear: NClear = None,
    allow_incomplete: AllowIncomplete = False,
) -> None:
    """Show what a detector would report at other thresholds of its score; no detector runs.

    The best threshold is chosen by these images, so it looks better than it is. What one so chosen does on prompts
    that did not choose it stands beside it.

    Example: `detector-bench sweep STUDY.yaml --predictions results/one --detector clip --out clip.csv`
    """
    from detector_bench.atomic_files import write_text
    from detector_bench.evaluation.causes import PREDICTION_COLUMNS
    from detector_bench.evaluation.out_of_sample import threshold_choices
    from detector_bench.evaluation.sweeps import even_thresholds, first_threshold, sweep_counts, sweep_table

    load_plugins(plugin or [])
    opened = open_study(
        study_file,
        predictions,
        image_set=image_set,
        n_clear=n_clear,
        attribute=attribute,
        only=detector,
        columns=PREDICTION_COLUMNS,
    )
    table = opened.predictions[detector]
    if first is None:
        # `--to` alone may lie below it.
        first = min(first_threshold([table], attribute=opened.attribute), max(last - 0.05, 0))
    thresholds = even_thresholds(first=first, last=last, steps=steps)
    swept = sweep_counts(
        opened.image_set,
        table,
        detector=detector,
        attribute=opened.attribute,
        thresholds=thresholds,
        allow_incomplete=allow_incomplete,
    )
    numbers = sweep_table(swept, n_clear=opened.study.n_clear)
    intervals = opened.study.intervals
    choices = threshold_choices(swept, n_clear=opened.study.n_clear, seed=intervals.seed, level=intervals.level)
    if out is not None:
        write_text(out, numbers.to_csv(index=False))
        write_text(out.with_stem(f"{out.stem}_chosen"), choices.to_csv(index=False))
    _print(swept, numbers, choices, level=intervals.level)


def _print(swept: Sweep, numbers: pd.DataFrame, choices: pd.DataFrame, *, level: float) -> None:
    from detector_bench.evaluation.sweeps import nearest_thresholds
    from detector_bench.tables import to_rich
    from detector_bench.tables.comparison_tables import chosen_thresholds, threshold_sweep
    from detector_bench.vocabulary import ALL

    chosen = choices.loc[choices["t2i_model"] == ALL, "threshold"]
    shown = nearest_thresholds(swept.thresholds.tolist(), always=chosen.dropna())
    output.print(to_rich(threshold_sweep(numbers, choices, thresholds=shown)))
    output.print()
    output.print(to_rich(chosen_thresholds(choices, level=level)))
    if swept.without_score:
        images = "1 image" if swept.without_score == 1 else f"{swept.without_score:,} images"
        output.print(f"{images} kept without a score: kept at every threshold.", highlight=False)
