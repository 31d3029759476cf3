"""`estimate`: how biased is this T2I model, with the labels that there are?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, cast, get_args

import typer

from detector_bench.cli import options
from detector_bench.cli.analyses import opened, show
from detector_bench.cli.console import command
from detector_bench.errors import ConfigError

_About = Literal["images", "t2i_model"]

About = Annotated[
    str | None,
    typer.Option(
        "--about",
        metavar="images|t2i_model",
        help="What is estimated: what the labels of all these images would say, or what the T2I model would "
        "show with endlessly many images of these prompts; by default as the study says.",
    ),
]
Sample = Annotated[
    Path | None,
    typer.Option(
        "--sample",
        metavar="FILE",
        help="The images that were drawn to be labelled; by default sample.csv in the image set's folder.",
    ),
]


@command
def estimate(
    folder: options.Folder,
    *,
    about: About = None,
    sample: Sample = None,
    validated_on: options.ValidatedOn = None,
    out: options.OptionalOut = None,
    image_set: options.ImageSetOption = None,
    plugin: options.Plugins = None,
    attribute: options.AttributeOption = None,
    level: options.LevelOption = None,
) -> None:
    """How biased is each T2I model over all of its images, with the labels of some? No detector runs.

    Shares of the labels, prompt bias scores and model bias scores from all detectors' verdicts and the labels of a
    sample (prediction-powered: right on average whatever the detectors' errors); beside them what labels alone
    say, and each detector as it is. Labels are read anew from the image set, so this can be asked while people
    label. `metrics.csv` gets the same rows from `evaluate`.

    Without labels, --validated-on takes over from another study how often the detectors give each verdict to
    images with each human label. That is an assumption, tested as far as it can be; a warning says where the
    detectors meet other images here than there.

    Examples: `detector-bench estimate results/one`, `detector-bench estimate results/one --about t2i_model
    --json`, `detector-bench estimate results/new --validated-on results/one`
    """
    results = opened(folder, image_set=image_set, plugin=plugin)
    found = results.estimate(
        attribute=attribute, about=known_about(about), level=level, sample=sample, validated_on=validated_on
    )
    show(found, out, excerpt=True)


def known_about(about: str | None) -> _About | None:
    """What is estimated, checked."""
    if about is not None and about not in get_args(_About):
        raise ConfigError(f"--about: {about!r} (accepted: {', '.join(get_args(_About))})")
    return cast("_About | None", about)
