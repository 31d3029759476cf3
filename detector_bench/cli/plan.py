"""`plan`: how many images and labels does a T2I model's score need?"""

from __future__ import annotations

from typing import Annotated

import typer

from detector_bench.cli import options
from detector_bench.cli.analyses import opened, show
from detector_bench.cli.console import command
from detector_bench.cli.estimate import About, Sample, known_about

T2IModels = Annotated[
    list[str] | None, options.t2i_model("--t2i-model", "Only this T2I model; may be repeated. By default all.")
]


@command
def plan(
    folder: options.Folder,
    *,
    score: Annotated[
        str,
        typer.Option(
            "--score",
            metavar="NAME",
            help="model_bias_score, mean_prompt_bias_score, prompt_bias_score (each prompt's) or"
            " label_share_LABEL.",
        ),
    ] = "model_bias_score",
    half_width: options.HalfWidthOption = None,
    t2i_model: T2IModels = None,
    about: About = None,
    validated_on: options.ValidatedOn = None,
    seconds_per_label: Annotated[
        float, typer.Option("--seconds-per-label", metavar="S", help="How long one label takes, for the time.")
    ] = 4.0,
    sample: Sample = None,
    out: options.OptionalOut = None,
    image_set: options.ImageSetOption = None,
    plugin: options.Plugins = None,
    attribute: options.AttributeOption = None,
    level: options.LevelOption = None,
) -> None:
    """How many labels, and images, take a T2I model's score to the half-width that you want? No detector runs.

    After a pilot (5 labels per prompt, say) a forecast; before any label a guess. Tables say how many labels are
    needed with the images at hand and with more, and from labels alone; which prompts they belong to; and how many
    fewer detectors would need. With `--about t2i_model` too few images may be what is lacking. Labels are read
    anew from the image set. `--json` and `--out` also give the half-width at every number of labels
    (label_curves).

    Examples: `detector-bench plan results/one`,
    `detector-bench plan results/one --half-width 0.03 --about t2i_model`,
    `detector-bench plan results/one --score prompt_bias_score --half-width 0.2`,
    `detector-bench plan results/new --validated-on results/one --json`
    """
    results = opened(folder, image_set=image_set, plugin=plugin)
    found = results.plan(
        score,
        half_width=options.checked_half_width(half_width),
        attribute=attribute,
        t2i_models=tuple(t2i_model or ()),
        about=known_about(about),
        level=level,
        sample=sample,
        validated_on=validated_on,
        seconds_per_label=seconds_per_label,
    )
    show(found, out, excerpt=True)
