"""`compare` and `rank`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from detector_bench.cli.console import output
from detector_bench.cli.stored_predictions import (
    AllowIncomplete,
    AttributeOption,
    Predictions,
    predictions_folder,
)
from detector_bench.cli.studies import ImageSetOption, NClear, StudyFile
from detector_bench.errors import ConfigError, nearest_hint

if TYPE_CHECKING:
    import pyarrow as pa

    from detector_bench.metrics import JointVerdicts
    from detector_bench.metrics.bootstrap import Unit
    from detector_bench.report import Table
    from detector_bench.study import Study

Resamples = Annotated[int, typer.Option("--resamples", min=100, help="How many resamples the bootstrap draws.")]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Of the random numbers; equal seeds give equal tables.")]
UnitOption = Annotated[
    str,
    typer.Option(
        "--unit",
        metavar="image|prompt",
        help="What is drawn: other images of these prompts, or other prompts of these categories.",
    ),
]
Level = Annotated[float, typer.Option("--level", help="Of the intervals; tests reject below 1 minus it.")]
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
    image_set: ImageSetOption = None,
    attribute: AttributeOption = None,
    n_clear: NClear = None,
    resamples: Resamples = 10_000,
    unit: UnitOption = "image",
    seed: Seed = 0,
    level: Level = 0.95,
    allow_incomplete: AllowIncomplete = False,
) -> None:
    """Is A better than B on the same images, or does it only look so? No detector runs.

    McNemar's exact test on images judged rightly (filtering, class), a paired bootstrap of F1, filter rate,
    accuracy and both bias errors, and Holm's adjustment for the seven tests. Refuses to compare detectors that
    were judged on different images.

    Examples: `detector-bench compare STUDY.yaml --predictions results/one fairface clip_enhance`,
    `detector-bench compare STUDY.yaml --predictions results/one fairface clip_enhance --unit prompt --out
    results/one`
    """
    from detector_bench.evaluation.comparison import check_same_images, compare_detectors
    from detector_bench.report.comparison_tables import comparison

    if first == second:
        raise ConfigError(f"{first!r} cannot be compared with itself")
    study = _study(study_file, image_set=image_set, n_clear=n_clear)
    attribute = attribute or study.attributes[0]
    tables = _stored(predictions, [first, second])
    check_same_images(first, second, tables, attribute=attribute)
    joint, _ = _joint(study, tables, attribute=attribute, allow_incomplete=allow_incomplete)
    tests = compare_detectors(
        joint, 0, 1, resamples=resamples, unit=_unit(unit), seed=seed, level=_level(level), n_clear=study.n_clear
    )
    about = _about(joint, unit=unit, resamples=resamples, seed=seed)
    _show(comparison(tests, first, second, attribute=attribute, level=level, about=about), out)


def rank(
    study_file: StudyFile,
    *,
    predictions: Predictions,
    by: Annotated[
        list[str] | None,
        typer.Option(
            "--by",
            metavar="METRIC",
            help="Rank by this metric; repeated: by the mean rank. By default f1, accuracy and both bias errors.",
        ),
    ] = None,
    out: TableFolder = None,
    image_set: ImageSetOption = None,
    attribute: AttributeOption = None,
    n_clear: NClear = None,
    resamples: Resamples = 10_000,
    unit: UnitOption = "image",
    seed: Seed = 0,
    level: Level = 0.95,
    allow_incomplete: AllowIncomplete = False,
) -> None:
    """Put a study's detectors in order, and say how sure that order is. No detector runs.

    Each rank has an interval, each detector a probability of being the best, and detectors that cannot be told
    apart share a letter.

    Examples: `detector-bench rank STUDY.yaml --predictions results/one`,
    `detector-bench rank STUDY.yaml --predictions results/one --by prompt_bias_score_difference --out results/one`
    """
    from detector_bench.evaluation.comparison import check_same_images
    from detector_bench.evaluation.ranking import RANKED_METRICS, rank_detectors
    from detector_bench.report.comparison_tables import ranking

    study = _study(study_file, image_set=image_set, n_clear=n_clear)
    attribute = attribute or study.attributes[0]
    tables = _stored(predictions, [entry.name for entry in study.detectors])
    judging = [name for name, table in tables.items() if attribute in table["attribute"].unique().to_pylist()]
    for name in judging[1:]:
        check_same_images(judging[0], name, tables, attribute=attribute)
    joint, names = _joint(study, tables, attribute=attribute, allow_incomplete=allow_incomplete)
    metrics = tuple(dict.fromkeys(by or RANKED_METRICS))
    ranked = rank_detectors(
        joint,
        names,
        metrics=metrics,
        resamples=resamples,
        unit=_unit(unit),
        seed=seed,
        level=_level(level),
        n_clear=study.n_clear,
    )
    about = _about(joint, unit=unit, resamples=resamples, seed=seed)
    _show(ranking(ranked, metrics=metrics, attribute=attribute, level=level, about=about), out)


def _study(study_file: Path, *, image_set: Path | None, n_clear: str | None) -> Study:
    from detector_bench.study import Study

    study = Study.from_yaml(study_file, image_set=image_set)
    return study if n_clear is None else study.with_n_clear(n_clear)


def _stored(folder: Path, names: list[str]) -> dict[str, pa.Table]:
    from detector_bench.evaluation import read_predictions

    stored = read_predictions(predictions_folder(folder), also=["image_sha256"])
    for name in names:
        if name not in stored:
            raise ConfigError(f"{str(folder)!r} holds no predictions of {name!r}: {nearest_hint(name, stored)}")
    return {name: stored[name] for name in names}


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


def _about(joint: JointVerdicts, *, unit: str, resamples: int, seed: int) -> str:
    drawn = "images within prompts" if unit == "image" else "prompts within categories"
    return f"{joint.images:,} labelled images; {resamples:,} resamples of {drawn}, seed {seed}."


def _show(table: Table, out: Path | None) -> None:
    from detector_bench.report import to_rich, write_tables

    output.print(to_rich(table))
    if out is not None:
        write_tables({table.name: table}, out / "tables")
