"""`calibrate`: what are a detector's scores worth, and which errors can it promise?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, cast

import typer

from detector_bench.cli import options
from detector_bench.cli.analyses import opened, show
from detector_bench.cli.console import command, output

if TYPE_CHECKING:
    from detector_bench.vocabulary.score_maps import Method


@command
def calibrate(
    folder: options.Folder,
    *,
    detector: options.Detector,
    method: Annotated[
        str,
        typer.Option(
            "--method",
            metavar="temperature|isotonic",
            help="One number, for attributes of two classes; or a rising curve, which needs more labels.",
        ),
    ] = "temperature",
    confidence: Annotated[
        float, typer.Option("--confidence", help="With which each promised error holds, such as 0.95 for 95 %.")
    ] = 0.95,
    out: options.Out,
    image_set: options.ImageSetOption = None,
    plugin: options.Plugins = None,
    attribute: options.AttributeOption = None,
    seed: options.SeedOption = None,
    level: options.LevelOption = None,
) -> None:
    """Turn a detector's scores into probabilities, and find what it may promise by abstaining. No detector runs.

    Fitted on the images with a human label. Log loss, Brier score and expected calibration error, before and
    after, also on prompts that did not fit the calibration. Then the lowest scores that promise an error: of the
    verdicts that are kept, at most 5 % are wrong, say. Everything comes into calibration_NAME.json, which a
    detector of another study names as `calibration`; an --out that ends in .json is taken for that file itself.

    Examples: `detector-bench calibrate results/one --detector clip --out results/one`,
    `detector-bench calibrate results/one --detector clip --attribute age --method isotonic --out ages.json`
    """
    results = opened(folder, image_set=image_set, plugin=plugin)
    alone = out.suffix == ".json" and not out.is_dir()
    file = out if alone else out / f"calibration_{detector}.json"
    found = results.calibrate(
        detector,
        attribute=attribute,
        method=cast("Method", method),
        confidence=confidence,
        seed=seed,
        level=level,
        file=file,
    )
    show(found, None if alone else out, ending=f"_{detector}")
    output.say(f"The calibration is in {file}")
