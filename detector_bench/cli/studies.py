"""`run`, `evaluate` and `quickstart`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from detector_bench.benchmark import benchmarks
from detector_bench.cli.console import errors, output
from detector_bench.plugins import load_plugins

if TYPE_CHECKING:
    from detector_bench.study import Results, Study

StudyFile = Annotated[
    Path, typer.Argument(metavar="STUDY.yaml", help="The study file; see configs/ for examples.")
]
Out = Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="Result folder; run again to resume.")]
ImageSetOption = Annotated[
    Path | None,
    typer.Option("--image-set", metavar="DIR", help="Use this image set instead of the one in the study file."),
]
NClear = Annotated[
    str | None,
    typer.Option(
        "--n-clear",
        metavar="detector|human",
        help="Denominator of a detector's prompt bias score: its own count of clear images, or the humans'.",
    ),
]
WeightsDir = Annotated[
    Path | None,
    typer.Option("--weights-dir", metavar="DIR", help="Folder with weights files (or DETECTOR_BENCH_WEIGHTS)."),
]
CacheDir = Annotated[
    Path | None,
    typer.Option("--cache-dir", metavar="DIR", help="Folder for stage results (or DETECTOR_BENCH_CACHE)."),
]
NoCache = Annotated[bool, typer.Option("--no-cache", help="Keep no stage results, and use none.")]
Only = Annotated[
    list[str] | None,
    typer.Option("--only", metavar="NAME", help="Of the study's detectors, only this one; may be repeated."),
]
Without = Annotated[
    list[str] | None,
    typer.Option("--without", metavar="NAME", help="Leave this detector of the study out; may be repeated."),
]
Attribute = Annotated[
    list[str] | None,
    typer.Option("--attribute", metavar="NAME", help="Of the study's attributes, only this one; may be repeated."),
]
EstimatedLabels = Annotated[
    str | None,
    typer.Option(
        "--estimated-labels",
        metavar="none|dawid_skene",
        help="In label_doubt.csv, also the numbers by true labels estimated from three or more annotators.",
    ),
]
IntervalsOption = Annotated[
    bool, typer.Option("--intervals", help="Show confidence intervals in the tables; metrics.csv always has them.")
]
Plugins = Annotated[
    list[Path] | None,
    typer.Option(
        "--plugin",
        metavar="FILE.py",
        help="Python file of your own: detectors, metrics, tables, score systems; may be repeated.",
    ),
]


_LONG_TABLES = ("prompt_bias_scores", "confusion", "label_doubt")
"""They have many rows, and stand in files only."""


def run(
    study_file: StudyFile,
    *,
    out: Out,
    image_set: ImageSetOption = None,
    weights_dir: WeightsDir = None,
    cache_dir: CacheDir = None,
    no_cache: NoCache = False,
    n_clear: NClear = None,
    attribute: Attribute = None,
    only: Only = None,
    without: Without = None,
    intervals: IntervalsOption = False,
    estimated_labels: EstimatedLabels = None,
    plugin: Plugins = None,
) -> None:
    """Run a study's detectors over its image set, evaluate them, and print the comparison.

    Interrupted or repeated, it goes on where it was: only images without a verdict, changed images and changed
    detectors are judged.

    Examples: `detector-bench run configs/t2i_portraits.yaml --out results/portraits --weights-dir weights`,
    `detector-bench run configs/lyu2025.yaml --image-set my_images --out results/mine --without facepp`
    """
    study = _load(study_file, image_set=image_set, n_clear=n_clear, plugin=plugin)
    study = study.with_detectors(only=only or (), without=without or ())
    study = study.with_attributes(attribute) if attribute else study
    study = study.with_estimated_labels(estimated_labels) if estimated_labels else study
    _run_and_print(
        study, out, weights_dir=weights_dir, cache_dir=cache_dir, use_cache=not no_cache, intervals=intervals
    )


def evaluate(
    study_file: StudyFile,
    *,
    predictions: Annotated[
        Path, typer.Option("--predictions", metavar="DIR", help="Result folder of a run, or its predictions/.")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="Where metrics and tables are written.")],
    image_set: ImageSetOption = None,
    n_clear: NClear = None,
    allow_incomplete: Annotated[
        bool, typer.Option("--allow-incomplete", help="Leave out images without a prediction, and count them.")
    ] = False,
    attribute: Attribute = None,
    only: Only = None,
    without: Without = None,
    intervals: IntervalsOption = False,
    estimated_labels: EstimatedLabels = None,
    plugin: Plugins = None,
) -> None:
    """Compute metrics and tables from stored predictions; no detector runs.

    Examples: `detector-bench evaluate STUDY.yaml --predictions results/one --out results/two --n-clear human`,
    `detector-bench evaluate STUDY.yaml --predictions results/one --out results/three --intervals`
    """
    study = _load(study_file, image_set=image_set, n_clear=n_clear, plugin=plugin)
    study = study.with_detectors(only=only or (), without=without or ())
    study = study.with_attributes(attribute) if attribute else study
    study = study.with_estimated_labels(estimated_labels) if estimated_labels else study
    result = study.evaluate(predictions, out, allow_incomplete=allow_incomplete, tables_with_intervals=intervals)
    _print(result, ["metrics.csv", "tables/", "run.json"])


def quickstart(
    *,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="Result folder.")] = Path(
        "detector-bench-quickstart"
    ),
    cache_dir: CacheDir = None,
) -> None:
    """Try it out: two detectors on pictures that installed packages carry. No download, under a minute.

    Example: `detector-bench quickstart`
    """
    from detector_bench.installation import resource
    from detector_bench.quickstart import build_image_set
    from detector_bench.study import Study

    image_set = build_image_set(out / "image_set")
    study = Study.from_yaml(resource("configs/quickstart.yaml"), image_set=image_set)
    _run_and_print(study, out, weights_dir=None, cache_dir=cache_dir, use_cache=True)


def _load(study_file: Path, *, image_set: Path | None, n_clear: str | None, plugin: list[Path] | None) -> Study:
    from detector_bench.study import Study

    load_plugins(plugin or [])
    study = Study.from_yaml(study_file, image_set=image_set)
    return study if n_clear is None else study.with_n_clear(n_clear)


def _run_and_print(
    study: Study,
    out: Path,
    *,
    weights_dir: Path | None,
    cache_dir: Path | None,
    use_cache: bool,
    intervals: bool = False,
) -> None:
    from detector_bench.cli.run_progress import RunProgressDisplay

    with RunProgressDisplay(errors) as display:
        result = study.run(
            out,
            weights_dir=weights_dir,
            cache_dir=cache_dir,
            use_cache=use_cache,
            progress=display,
            tables_with_intervals=intervals,
        )
    _print(result, ["metrics.csv", "tables/", "predictions/", "run.json"])


def _print(result: Results, files: Sequence[str]) -> None:
    from detector_bench.tables import to_rich

    long = (*_LONG_TABLES, *(name for each in benchmarks() for name in each.long_tables))
    for table in result.tables.values():
        if not table.name.startswith(long):
            output.print(to_rich(table))
            output.print()
    for name, by_attribute in result.counts.items():
        for attribute, counts in by_attribute.items():
            if counts["error"]:
                images = "1 image" if counts["error"] == 1 else f"{counts['error']:,} images"
                errors.print(
                    f"{name}, {attribute}: {images} ended in an error; "
                    "the column `reason` of its predictions says why",
                    style="yellow",
                    soft_wrap=True,
                )
    for stage, spent in result.spending.items():
        numbers = ", ".join(f"{name.replace('_', ' ')} {_in_words(number)}" for name, number in spent.items())
        errors.print(f"{stage}, so far: {numbers}", highlight=False, soft_wrap=True)
    output.print(
        f"Everything is in [bold]{escape(str(result.folder))}[/bold]: {', '.join(files)}",
        highlight=False,
        soft_wrap=True,
    )


def _in_words(number: float | str) -> str:
    if isinstance(number, str):
        return number
    return f"{number:,}" if float(number).is_integer() else f"{number:,.4f}"
