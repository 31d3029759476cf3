"""`halves`."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from detector_bench.cli import options
from detector_bench.cli.console import command, output
from detector_bench.errors import ConfigError
from detector_bench.plugins import load_plugins


@command(reads_images=True)
def halves(
    image_set: options.ImageSetFolder,
    *,
    out: options.Out,
    people: Annotated[
        str,
        typer.Option(
            "--people",
            metavar="STAGE",
            help="What finds the people: a stage that gives boxes of faces or persons, such as dlib_hog_faces, "
            "yolo_persons or '{kind: yunet_faces, score_threshold: 0.8}'.",
        ),
    ] = "yunet_faces",
    cut: Annotated[
        str,
        typer.Option(
            "--cut",
            metavar="between|middle",
            help="Between two people where the middle does not separate them, or always in the middle.",
        ),
    ] = "between",
    smallest: Annotated[
        float,
        typer.Option(
            "--smallest",
            metavar="SHARE",
            min=0,
            max=1,
            help="A box is a person if it has this share of the area of the picture's largest.",
        ),
    ] = 0.1,
    keep_all: Annotated[
        bool, typer.Option("--keep-all", help="Keep halves that show nobody or several people as images, too.")
    ] = False,
    weights_dir: options.WeightsDir = None,
    plugin: options.Plugins = None,
) -> None:
    """Cut pictures of two people into their halves, and check that each half shows one person.

    The image set's scenes.csv, which `generate` writes, says which prompts are about two people, and which prompt
    each half has. The new folder is an image set of halves and of all other images; its halves.csv lists every
    half with what it shows, and those with nobody or several people are no images of it. Called again after an
    interruption, it goes on.

    Examples: `detector-bench halves my_images --out my_halves`,
    `detector-bench halves my_images --out my_halves --people yolo_persons --keep-all`
    """
    from detector_bench.cli.console import errors
    from detector_bench.generation.halved_set import HALVES_FILE, HalvesSettings, halve_image_set
    from detector_bench.generation.halves import HalfVerdict
    from detector_bench.perception.stage import parse_stage
    from detector_bench.weights import WeightsLocator
    from detector_bench.yaml_text import YamlMistake, parse_yaml

    load_plugins(plugin or [])
    rules: dict[str, Literal["between", "middle"]] = {"between": "between", "middle": "middle"}
    if cut not in rules:
        raise ConfigError(f"--cut {cut} (accepted: between, middle)")
    try:
        stage = parse_stage(parse_yaml(people))
    except (ValueError, YamlMistake) as error:
        raise ConfigError(f"--people {people}: {error}") from error
    settings = HalvesSettings(people=stage, rule=rules[cut], smallest=smallest, keep_all=keep_all)
    weights = WeightsLocator.from_environment(weights_dir=weights_dir)
    with errors.status("cutting pictures") as status:
        done = halve_image_set(
            image_set,
            out,
            settings,
            weights=weights,
            progress=lambda number, total: status.update(f"cutting pictures: {number:,} of {total:,}"),
        )
    verdicts = {verdict.value: done.verdicts[verdict] for verdict in HalfVerdict}
    said = ", ".join(f"{verdict} {number:,}" for verdict, number in verdicts.items())
    output.row(
        f"{done.pictures:,} pictures of two people, {done.between:,} of them cut between the two; halves: {said}",
        table="halves",
        pictures=done.pictures,
        between=done.between,
        verdicts=verdicts,
        carried=done.carried,
        images=done.images,
    )
    output.say(f"{out}: {done.images:,} images, {done.carried:,} of them uncut; {HALVES_FILE} lists every half")
    if done.labels_left:
        output.warn(f"{done.labels_left:,} labels of pictures of two people are left out: they are about no half")
