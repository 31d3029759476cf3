"""`sample`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple, cast

import typer

from detector_bench.cli import options
from detector_bench.cli.console import command, output
from detector_bench.errors import ConfigError
from detector_bench.sample_design import SampleDesign

if TYPE_CHECKING:
    from detector_bench.dataset import ImageSet
    from detector_bench.dataset.sample_file import LabelSample
    from detector_bench.evaluation.label_sample import ToBeLabelled


@command(reads_images=True)
def sample(
    image_set: options.ImageSetFolder,
    *,
    labels: Annotated[
        int | None, typer.Option("--labels", metavar="N", min=1, help="How many images to draw.")
    ] = None,
    calibration: Annotated[
        int | None,
        typer.Option(
            "--calibration",
            metavar="N",
            min=1,
            help="Draw N images on which annotators agree on a standard first.",
        ),
    ] = None,
    design: Annotated[
        SampleDesign | None,
        typer.Option(
            "--design",
            help="How to draw among a prompt's images; the last two need --results. By default equal, or as in "
            "--add-to; for --calibration with --results disagreement.",
        ),
    ] = None,
    results: options.Verdicts = None,
    attribute: options.Attribute = "gender",
    t2i_model: Annotated[
        list[str] | None,
        typer.Option("--t2i-model", metavar="NAME", help="Only images of this T2I model; may be repeated."),
    ] = None,
    seed: options.Seed = 0,
    add_to: Annotated[
        Path | None,
        typer.Option("--add-to", metavar="FILE", help="Draw N more images for this sample, which keeps its own."),
    ] = None,
    out: options.OptionalOut = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", "--force", help="Replace what exists.")] = False,
) -> None:
    """Draw the images to be labelled, at random and with known probabilities, so that few labels speak for all.

    Labels are spread equally over T2I models and prompts. Among the images of a prompt, `equal` takes any,
    `verdicts` gives each pattern of the detectors' verdicts its share, and `disagreement` prefers images that
    detectors differ on. The sample lies in the image set, where `label` finds it. Once it turns out to be too
    small, --add-to draws further images, so that no label is lost; a sample by disagreement cannot grow.

    --calibration draws the images that everybody labels first and discusses, until there is a standard. Before
    a sample they are set apart, so that it is drawn from the others; after it they are drawn among its images.
    Either way what is estimated stays right.

    Examples: `detector-bench sample my_images --calibration 150`,
    `detector-bench sample my_images --labels 200`,
    `detector-bench sample my_images --labels 200 --design verdicts --results results/one`,
    `detector-bench sample my_images --labels 117 --add-to my_images/sample.csv`
    """
    from detector_bench.dataset import ImageSet
    from detector_bench.evaluation.label_sample import ToBeLabelled
    from detector_bench.runner.stored_predictions import read_predictions
    from detector_bench.vocabulary import attribute_named

    if (labels is None) == (calibration is None):
        raise ConfigError(
            "--labels draws a sample, and --calibration what is labelled before it: name one of them"
        )
    images = ImageSet.load(image_set, require_labels=False)
    attribute_named(attribute)
    drawing = _Drawing(
        ToBeLabelled(images, attribute, {} if results is None else read_predictions(results)),
        design,
        seed,
        tuple(t2i_model or ()),
        overwrite,
    )
    if labels is not None:
        drawing.sample(labels, add_to=add_to, out=out)
        return
    if add_to is not None or out is not None:
        raise ConfigError(
            "a calibration lies in the image set, where `label` and `sample` find it, and does not grow: leave "
            "out --out and --add-to"
        )
    drawing.calibration(cast("int", calibration))


class _Drawing(NamedTuple):
    """What was asked for besides the number of images."""

    images: ToBeLabelled
    design: SampleDesign | None
    seed: int
    t2i_models: tuple[str, ...]
    overwrite: bool

    def sample(self, labels: int, *, add_to: Path | None, out: Path | None) -> None:
        """Draw a sample, or more of it."""
        from detector_bench.dataset.calibration_file import read_calibration
        from detector_bench.dataset.sample_file import SAMPLE_FILE, read_sample, write_sample

        images = self.images.image_set
        file = add_to or images.root / SAMPLE_FILE
        if out is not None:
            file = options.file_in(out, SAMPLE_FILE)
        if file.exists() and not self.overwrite and file != add_to:
            raise ConfigError(
                f"{str(file)!r} exists, and people may have labelled a part of it; add images with --add-to "
                f"{file}, name another file with --out, or replace it with --overwrite"
            )
        before = None if add_to is None else read_sample(add_to, images)
        drawn = self.images.sample(
            labels,
            design=self.design,
            seed=self.seed,
            t2i_models=self.t2i_models,
            growing=before,
            calibration=read_calibration(images),
        )
        write_sample(file, drawn, images)
        _print_spread(drawn, images)
        grew = "" if before is None else f", {len(before.rows):,} of them drawn before"
        apart = f"; besides the {len(drawn.calibration):,} of the calibration" if drawn.calibration else ""
        output.say(
            f"{file}: {len(drawn.rows):,} images{grew}; design {drawn.design.value}, seed {self.seed}{apart}"
        )
        named = "" if file == images.root / SAMPLE_FILE else f" --sample {file}"
        output.say(f"Next: detector-bench label {images.root}{named} --annotator NAME")

    def calibration(self, number: int) -> None:
        """Draw what is labelled first: of an image set with a sample among its images."""
        from detector_bench.dataset.calibration_file import CALIBRATION_FILE
        from detector_bench.dataset.sample_file import found_sample, read_sample, write_sample

        images = self.images.image_set
        file = images.root / CALIBRATION_FILE
        if file.exists() and not self.overwrite:
            raise ConfigError(
                f"{str(file)!r} exists, and people may have labelled a part of it; replace it with --overwrite"
            )
        path = found_sample(images.root)
        before = None if path is None else read_sample(path, images)
        drawn = self.images.calibration(
            number, design=self.design, seed=self.seed, t2i_models=self.t2i_models, sample=before
        )
        write_sample(file, drawn, images)
        _print_spread(drawn, images)
        place = "set apart from all others" if before is None else "among the images of the sample"
        output.say(f"{file}: {number:,} images, {place}; design {drawn.design.value}, seed {self.seed}")
        output.say(
            f"Next: detector-bench label {images.root} --annotator NAME --annotator NAME; when all have labelled "
            f"them, detector-bench labels agreement {images.root} --calibration says what to discuss"
        )


def _print_spread(drawn: LabelSample, images: ImageSet) -> None:
    """How many images of each T2I model, and of each of its prompts, are in the sample."""
    made = images.images[images.images["t2i_model"] != ""]
    chosen = made["image_id"].isin(drawn.image_ids)
    for name, of_model in made.groupby("t2i_model", sort=False):
        by_prompt = chosen[of_model.index].groupby(of_model["prompt_id"]).sum()
        least, most, number = int(by_prompt.min()), int(by_prompt.max()), int(by_prompt.sum())
        each = f"{least:,}" if least == most else f"{least:,} to {most:,}"
        output.row(
            f"{name}: {number:,} of {len(of_model):,} images, {each} of each of {len(by_prompt):,} prompts",
            table="sample",
            t2i_model=name,
            labels=number,
            images=len(of_model),
            prompts=len(by_prompt),
            prompts_drawn=int((by_prompt > 0).sum()),
            fewest_of_a_prompt=least,
            most_of_a_prompt=most,
        )
