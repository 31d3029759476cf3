"""`compare`, `rank`, `causes`, `sweep` and `agreement`: what is asked of a finished study."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from detector_bench.cli import options
from detector_bench.cli.console import command, output
from detector_bench.errors import ConfigError
from detector_bench.plugins import load_plugins

if TYPE_CHECKING:
    from detector_bench.metrics.bootstrap import Unit as BootstrapUnit
    from detector_bench.study import Results
    from detector_bench.study_questions import ResultTables


@command
def compare(
    folder: options.Folder,
    first: options.FirstDetector = None,
    second: options.SecondDetector = None,
    *,
    baseline: options.Baseline = None,
    out: options.OptionalOut = None,
    image_set: options.ImageSetOption = None,
    plugin: options.Plugins = None,
    attribute: options.AttributeOption = None,
    n_clear: options.NClear = None,
    unit: options.Unit = None,
    seed: options.SeedOption = None,
    level: options.LevelOption = None,
) -> None:
    """Is A better than B on the same images, or does it only look so? No detector runs.

    F1, filter rate, accuracy and both bias errors, with simultaneous intervals and p-values: they are adjusted
    for these five metrics and for all pairs of the study's detectors, as `rank` adjusts them, so the two commands
    cannot contradict each other. Below them the images that only one of the two judges rightly. Refuses to
    compare detectors that were judged on different images. Without B, or with --baseline A, every other detector
    is compared with A.

    Examples: `detector-bench compare results/one fairface clip_enhance`,
    `detector-bench compare results/one --baseline fairface --unit prompt --out results/one`
    """
    one = first or baseline
    if one is None or (first and baseline):
        raise ConfigError("name the detector that is compared: A (with B, or with all others), or --baseline A")
    results = opened(folder, image_set=image_set, n_clear=n_clear, plugin=plugin)
    show(
        results.compare(
            one, second, attribute=attribute, unit=cast("BootstrapUnit | None", unit), seed=seed, level=level
        ),
        out,
    )


@command
def rank(
    folder: options.Folder,
    *,
    by: options.By = None,
    out: options.OptionalOut = None,
    image_set: options.ImageSetOption = None,
    plugin: options.Plugins = None,
    attribute: options.AttributeOption = None,
    n_clear: options.NClear = None,
    unit: options.Unit = None,
    seed: options.SeedOption = None,
    level: options.LevelOption = None,
) -> None:
    """Put a study's detectors in order by each metric, and say how sure that order is. No detector runs.

    In brackets the ranks that the images leave open; detectors that cannot be told apart share a letter. All pairs
    and metrics of the command are tested together, so that all of its ranks hold in 95 % of studies.

    Examples: `detector-bench rank results/one`,
    `detector-bench rank results/one --by prompt_bias_error --out results/one`
    """
    results = opened(folder, image_set=image_set, n_clear=n_clear, plugin=plugin)
    show(
        results.rank(by, attribute=attribute, unit=cast("BootstrapUnit | None", unit), seed=seed, level=level), out
    )


@command
def causes(
    folder: options.Folder,
    *,
    out: options.OptionalOut = None,
    image_set: options.ImageSetOption = None,
    plugin: options.Plugins = None,
    attribute: options.AttributeOption = None,
    n_clear: options.NClear = None,
    resamples: Annotated[
        int | None,
        typer.Option("--resamples", min=0, help="For confidence intervals; 0: none; by default the study's."),
    ] = None,
) -> None:
    """Split each detector's bias error into a filtering and a classification part; no detector runs.

    Filtering errors are broken down by reason: what the detector says of clear images that it filtered, and what
    the humans say of low-quality images that it kept. Confidence intervals are found as the study says.

    Example: `detector-bench causes results/one --out results/one`
    """
    results = opened(folder, image_set=image_set, n_clear=n_clear, plugin=plugin)
    show(results.causes(attribute=attribute, resamples=resamples), out, excerpt=True)


@command
def sweep(
    folder: options.Folder,
    *,
    detector: options.Detector,
    first: Annotated[
        float | None, typer.Option("--from", help="Lowest threshold; by default where it begins to filter.")
    ] = None,
    last: Annotated[float, typer.Option("--to", help="Highest threshold.")] = 1.0,
    steps: Annotated[int, typer.Option("--steps", help="Steps from the lowest to the highest.")] = 100,
    out: options.OptionalOut = None,
    image_set: options.ImageSetOption = None,
    plugin: options.Plugins = None,
    attribute: options.AttributeOption = None,
    n_clear: options.NClear = None,
) -> None:
    """Show what a detector would report at other thresholds of its score; no detector runs.

    The best threshold is chosen by these images, so it looks better than it is. What one so chosen does on prompts
    that did not choose it stands beside it. With --out, every threshold comes into sweep_NAME.csv, and the chosen
    ones into sweep_chosen_NAME.csv; an --out that ends in .csv is taken for the first file itself.

    Example: `detector-bench sweep results/one --detector clip --out results/one`
    """
    results = opened(folder, image_set=image_set, n_clear=n_clear, plugin=plugin)
    output.warn(*results.reader.manifest.plugins_left_out())
    found = results.sweep(detector, attribute=attribute, first=first, last=last, steps=steps)
    show(found, out, ending=f"_{detector}", excerpt=True)


@command
def agreement(
    folder: options.Folder,
    *,
    out: options.OptionalOut = None,
    image_set: options.ImageSetOption = None,
    plugin: options.Plugins = None,
    attribute: options.AttributeOption = None,
    min_shared: Annotated[
        int, typer.Option("--min-shared", help="Leave out pairs with fewer images in common.")
    ] = 10,
) -> None:
    """Measure how far annotators agree, and each detector with each of them: Cohen, Fleiss, Krippendorff.

    Kappa and alpha come with intervals. DIR may also be an image set, for its annotators alone; of labels that are
    still in the labelling desk, `labels agreement` tells. With --out, every number comes into agreement.csv; an
    --out that ends in .csv is taken for the file itself.

    Examples: `detector-bench agreement results/mine --out results/mine`, `detector-bench agreement my_images`
    """
    from detector_bench.study_agreement import annotators_agreement

    if _is_image_set(folder):
        found = annotators_agreement(folder, attribute=attribute, min_shared=min_shared)
    else:
        found = opened(folder, image_set=image_set, plugin=plugin).agreement(
            attribute=attribute, min_shared=min_shared
        )
    show(found, out, excerpt=True)


def _is_image_set(folder: Path) -> bool:
    return not (folder / "study.yaml").is_file() and any(folder.glob("images.*"))


def opened(
    folder: Path, *, image_set: Path | None, n_clear: str | None = None, plugin: list[Path] | None = None
) -> Results:
    """Open a result folder, with what was asked for in the place of the study's own."""
    from detector_bench.study import Results

    load_plugins(plugin or [])
    results = Results.open(folder, image_set=image_set)
    if image_set is None and not results.study.image_set.is_dir():
        raise ConfigError(
            f"{folder / 'study.yaml'}: there is no image set {str(results.study.image_set)!r} any more; say with "
            "--image-set where it is"
        )
    return results if n_clear is None else results.with_n_clear(n_clear)


def show(found: ResultTables, out: Path | None, *, ending: str = "", excerpt: bool = False) -> None:
    """Print what was found, and write it; long tables that a result folder has of its own stay as they are."""
    from detector_bench.atomic_files import write_text
    from detector_bench.results.long_tables import LONG_TABLES
    from detector_bench.results.manifest import NAME
    from detector_bench.tables import write_tables

    output.answer(found, excerpt=excerpt)
    if out is None:
        return
    if out.suffix == ".csv" and not out.is_dir() and found.numbers:
        first = next(iter(found.numbers))
        files = {out.with_stem(name.replace(first, out.stem, 1)): name for name in found.numbers}
    else:
        tables = {
            f"{name}{ending}": replace(table, name=f"{name}{ending}") for name, table in found.tables.items()
        }
        write_tables(tables, out / "tables")
        own = LONG_TABLES if (out / NAME).is_file() else ()
        files = {out / f"{name}{ending}.csv": name for name in found.numbers if name not in own}
    for file, name in files.items():
        write_text(file, found.numbers[name].to_csv(index=False))
