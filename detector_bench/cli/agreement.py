"""`agreement`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from detector_bench.cli.console import output

if TYPE_CHECKING:
    import pandas as pd


def agreement(
    image_set: Annotated[Path, typer.Argument(metavar="IMAGE_SET", help="Folder with images.csv, ...")],
    *,
    predictions: Annotated[
        Path | None,
        typer.Option(
            "--predictions", metavar="DIR", help="Result folder: compare its detectors with each human, too."
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FILE.csv", help="Also write every number to this file."),
    ] = None,
    attribute: Annotated[str, typer.Option("--attribute", help="gender, age, race or skin_tone.")] = "gender",
    min_shared: Annotated[
        int, typer.Option("--min-shared", help="Leave out pairs with fewer images in common.")
    ] = 10,
) -> None:
    """Measure how far annotators agree, and each detector with each of them: Cohen, Fleiss, Krippendorff.

    Examples: `detector-bench agreement my_images`,
    `detector-bench agreement my_images --predictions results/mine --out agreement.csv`
    """
    from detector_bench.atomic_files import write_text
    from detector_bench.dataset import ImageSet
    from detector_bench.evaluation import read_predictions
    from detector_bench.evaluation.agreement import agreement as measure
    from detector_bench.evaluation.causes import PREDICTION_COLUMNS

    stored = None if predictions is None else read_predictions(predictions, also=PREDICTION_COLUMNS)
    numbers = measure(
        ImageSet.load(image_set, require_labels=False), stored, attribute=attribute, min_shared=min_shared
    )
    if out is not None:
        write_text(out, numbers.to_csv(index=False))
    _print(numbers, attribute=attribute, min_shared=min_shared)


def _print(numbers: pd.DataFrame, *, attribute: str, min_shared: int) -> None:
    from detector_bench.tables import to_rich
    from detector_bench.tables.label_tables import annotator_agreement, pair_agreement

    for table in (annotator_agreement(numbers, attribute=attribute), pair_agreement(numbers, attribute=attribute)):
        if table.rows:
            output.print(to_rich(table))
            output.print()
    if numbers.empty:
        output.print(f"No two raters of {attribute} share {min_shared} images: there is nothing to compare.")
    else:
        output.print(f"Two raters have a row if they share {min_shared} images or more.", highlight=False)
