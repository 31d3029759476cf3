"""`compare` and `rank`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypedDict

import typer

from detector_bench.cli.console import output
from detector_bench.cli.stored_predictions import (
    AllowIncomplete,
    AttributeOption,
    Predictions,
)
from detector_bench.cli.studies import ImageSetOption, NClear, Plugins, StudyFile
from detector_bench.errors import ConfigError, DetectorBenchError, nearest_hint
from detector_bench.plugins import load_plugins

if TYPE_CHECKING:
    import pyarrow as pa

    from detector_bench.evaluation import ComparisonFamily
    from detector_bench.metrics import JointVerdicts
    from detector_bench.metrics.bootstrap import Unit
    from detector_bench.study import Study
    from detector_bench.tables import Table

Seed = Annotated[
    int | None,
    typer.Option(
        "--seed", min=0, help="Of the random numbers; equal seeds give equal tables. By default the study's."
    ),
]
UnitOption = Annotated[
    str | None,
    typer.Option(
        "--unit",
        metavar="image|prompt",
        help="What else could have been: other images of these prompts, or other prompts of these categories. By "
        "default as the study's intervals say.",
    ),
]
Level = Annotated[
    float | None,
    typer.Option(
        "--level",
        help="That all intervals of the command hold together, 0.95 for 95 %. By default the study's.",
    ),
]
TableFolder = Annotated[
    Path | None, typer.Option("--out", "-o", metavar="DIR", help="Also write the table to DIR/tables.")
]


def compare(
    study_file: StudyFile,
    first: Annotated[str, typer.Argument(metavar="A", help="A detector's name.")],
    second: Annotated[str, typer.Argument(metavar="B", help="Another detector's name.")],
    *,
    predictions: Predictions,
    out: TableFolder = None,
    plugin: Plugins = None,
    image_set: ImageSetOption = None,
    attribute: AttributeOption = None,
    n_clear: NClear = None,
    unit: UnitOption = None,
    seed: Seed = None,
    level: Level = None,
    allow_incomplete: AllowIncomplete = False,
) -> None:
    """Is A better than B on the same images, or does it only look so? No detector runs.

    F1, filter rate, accuracy and both bias errors, with simultaneous intervals and p-values: they are adjusted
    for these five metrics and for all pairs of the study's detectors, as `rank` adjusts them, so the two commands
    cannot contradict each other. Below them the images that only one of the two judges rightly. Refuses to
    compare detectors that were judged on different images.

    Examples: `detector-bench compare STUDY.yaml --predictions results/one fairface clip_enhance`,
    `detector-bench compare STUDY.yaml --predictions results/one fairface clip_enhance --unit prompt --out
    results/one`
    """
    from detector_bench.evaluation.comparison import (
        ComparisonFamily,
        Contest,
        check_same_images,
        images_judged_differently,
    )
    from detector_bench.tables.comparison_tables import comparison, images_judged_rightly

    if first == second:
        raise ConfigError(f"{first!r} cannot be compared with itself")
    load_plugins(plugin or [])
    study = _study(study_file, image_set=image_set, n_clear=n_clear)
    attribute = attribute or study.attributes[0]
    settings = _settings(study, unit=unit, seed=seed, level=level)
    tables = _stored(predictions, [first, second], others=[entry.name for entry in study.detectors])
    check_same_images(first, second, tables, attribute=attribute)
    tables, left_out = _on_the_same_images(tables, first, attribute=attribute)
    joint, names = _joint(study, tables, attribute=attribute, allow_incomplete=allow_incomplete)
    for name in (first, second):
        if name not in names:
            raise ConfigError(f"{name} does not judge {attribute}: nothing to compare")
    family = ComparisonFamily.of([Contest(joint, names)], **settings, n_clear=study.n_clear)
    pair = (names.index(first), names.index(second))
    about = _about(family, **settings, left_out=left_out)
    tests = [family.test(metric, *pair) for metric in family.metrics]
    _show(comparison(tests, first, second, attribute=attribute, level=family.level, about=about), out)
    images = images_judged_differently(joint, *pair)
    _show(images_judged_rightly(images, first, second, attribute=attribute), out)


def rank(
    study_file: StudyFile,
    *,
    predictions: Predictions,
    by: Annotated[
        list[str] | None,
        typer.Option(
            "--by",
            metavar="METRIC",
            help="Rank by this metric; may be repeated. By default by five: f1, filter_rate, accuracy and both "
            "bias errors.",
        ),
    ] = None,
    out: TableFolder = None,
    plugin: Plugins = None,
    image_set: ImageSetOption = None,
    attribute: AttributeOption = None,
    n_clear: NClear = None,
    unit: UnitOption = None,
    seed: Seed = None,
    level: Level = None,
    allow_incomplete: AllowIncomplete = False,
) -> None:
    """Put a study's detectors in order by each metric, and say how sure that order is. No detector runs.

    In brackets the ranks that the images leave open; detectors that cannot be told apart share a letter. All pairs
    and metrics of the command are tested together, so that all of its ranks hold in 95 % of studies.

    Examples: `detector-bench rank STUDY.yaml --predictions results/one`,
    `detector-bench rank STUDY.yaml --predictions results/one --by prompt_bias_error --out results/one`
    """
    from detector_bench.evaluation.comparison import COMPARED_METRICS, ComparisonFamily, Contest
    from detector_bench.evaluation.ranking import ranking
    from detector_bench.tables.comparison_tables import ranking_table

    load_plugins(plugin or [])
    study = _study(study_file, image_set=image_set, n_clear=n_clear)
    attribute = attribute or study.attributes[0]
    settings = _settings(study, unit=unit, seed=seed, level=level)
    tables = _stored(predictions, [entry.name for entry in study.detectors])
    judging = [name for name, table in tables.items() if attribute in table["attribute"].unique().to_pylist()]
    left_out: list[str] = []
    if judging:
        tables, left_out = _on_the_same_images(tables, judging[0], attribute=attribute, refuse=True)
    joint, names = _joint(study, tables, attribute=attribute, allow_incomplete=allow_incomplete)
    family = ComparisonFamily.of(
        [Contest(joint, names)],
        metrics=tuple(dict.fromkeys(by or COMPARED_METRICS)),
        **settings,
        n_clear=study.n_clear,
    )
    about = _about(family, **settings, left_out=left_out)
    for metric in family.metrics:
        ranked = ranking(family, metric)
        _show(ranking_table(ranked, metric=metric, attribute=attribute, level=family.level, about=about), out)


def _study(study_file: Path, *, image_set: Path | None, n_clear: str | None) -> Study:
    from detector_bench.study import Study

    study = Study.from_yaml(study_file, image_set=image_set)
    return study if n_clear is None else study.with_n_clear(n_clear)


def _stored(folder: Path, names: list[str], *, others: list[str] | None = None) -> dict[str, pa.Table]:
    """Predictions of all these detectors, and of others where there are any."""
    from detector_bench.evaluation import read_predictions

    stored = read_predictions(folder, also=["image_sha256"])
    for name in names:
        if name not in stored:
            raise ConfigError(f"{str(folder)!r} holds no predictions of {name!r}: {nearest_hint(name, stored)}")
    wanted = dict.fromkeys([*(others or []), *names])
    return {name: stored[name] for name in wanted if name in stored}


def _on_the_same_images(
    tables: dict[str, pa.Table], first: str, *, attribute: str, refuse: bool = False
) -> tuple[dict[str, pa.Table], list[str]]:
    """The detectors judged on the images of one of them, and the names of those that were judged on others."""
    from detector_bench.evaluation.comparison import check_same_images

    left_out = []
    for name, table in tables.items():
        if attribute not in table["attribute"].unique().to_pylist():
            continue
        try:
            check_same_images(first, name, tables, attribute=attribute)
        except DetectorBenchError:
            if refuse:
                raise
            left_out.append(name)
    return {name: table for name, table in tables.items() if name not in left_out}, left_out


def _joint(
    study: Study, tables: dict[str, pa.Table], *, attribute: str, allow_incomplete: bool
) -> tuple[JointVerdicts, tuple[str, ...]]:
    from detector_bench.dataset import ImageSet
    from detector_bench.evaluation import count_verdicts

    counts = count_verdicts(
        ImageSet.load(study.image_set), tables, attribute=attribute, allow_incomplete=allow_incomplete
    )
    silent = [name for name in tables if name not in counts.detectors]
    if silent and len(counts.detectors) < 2:
        raise ConfigError(f"{', '.join(silent)} does not judge {attribute}: nothing to compare")
    return counts.joint, counts.detectors


class _Settings(TypedDict):
    unit: Unit
    seed: int
    level: float


def _settings(study: Study, *, unit: str | None, seed: int | None, level: float | None) -> _Settings:
    """Those of the study's intervals, with what was asked for in their place."""
    own = study.intervals
    return {
        "unit": own.unit if unit is None else _unit(unit),
        "seed": own.seed if seed is None else seed,
        "level": own.level if level is None else _level(level),
    }


def _unit(name: str) -> Unit:
    if name == "image":
        return "image"
    if name == "prompt":
        return "prompt"
    raise ConfigError(f"--unit: {name!r} (accepted: image, prompt)")


def _level(level: float) -> float:
    if not 0 < level < 1:
        raise ConfigError(f"--level: {level} (accepted: between 0 and 1, such as 0.95)")
    return level


def _about(family: ComparisonFamily, *, unit: Unit, seed: int, level: float, left_out: list[str]) -> str:
    joint, names = family.contests[0]
    pairs = len(names) * (len(names) - 1) // 2
    could_be = "other images of the same prompts" if unit == "image" else "other prompts of the same categories"
    about = (
        f"{joint.images:,} labelled images. {family.size:,} tests at once: {pairs} "
        f"{'pair' if pairs == 1 else 'pairs'} of {len(names)} detectors, {len(family.metrics)} "
        f"{'metric' if len(family.metrics) == 1 else 'metrics'}. What could have come out otherwise: {could_be}. "
        f"All hold together at {100 * level:g} %. Seed {seed}."
    )
    return f"{about} Not among them, as judged on other images: {', '.join(left_out)}." if left_out else about


def _show(table: Table, out: Path | None) -> None:
    from detector_bench.tables import to_rich, write_tables

    output.print(to_rich(table))
    if out is not None:
        write_tables({table.name: table}, out / "tables")
