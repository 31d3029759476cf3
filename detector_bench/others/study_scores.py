"""All score systems of a study at once: the entries of its study file, their numbers, and their tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import TYPE_CHECKING, Annotated, Any, Self, TypeAlias

import pandas as pd
import pyarrow as pa
from pydantic import BeforeValidator, SerializeAsAny

from detector_bench.benchmark import BENCHMARKS, benchmarks
from detector_bench.errors import ConfigError, nearest_hint
from detector_bench.evaluation.intervals import Intervals
from detector_bench.metrics import DEFAULT_MAX_ERROR_SHARE
from detector_bench.others.estimated_scores import estimated_scores
from detector_bench.others.judgements import Judgements
from detector_bench.others.score_deviations import score_deviations
from detector_bench.others.score_system import ScoreSystem
from detector_bench.results.metric_lookup import (
    MetricLookup,
    of_detectors_alone,
    of_labelled_images,
)
from detector_bench.tables.table import Table
from detector_bench.tables.wording import labels_notes
from detector_bench.vocabulary import GROUND_TRUTH
from detector_bench.vocabulary.columns import DETECTOR_ONLY, OF_DETECTORS_ALONE

if TYPE_CHECKING:
    from detector_bench.dataset import ImageSet
    from detector_bench.dataset.sample_file import LabelSample


def score_system_named(name: str) -> type[ScoreSystem]:
    """The settings of a registered score system.

    Raises:
        ConfigError: there is none of this name; the message names the nearest. Or it is none.
    """
    benchmark = BENCHMARKS.get(name) if name in BENCHMARKS else None
    if benchmark is None or benchmark.score_system is None:
        known = [each.name for each in benchmarks() if each.score_system is not None]
        raise ConfigError(
            f"unknown score system {name!r}: {nearest_hint(name, known)} (one in a file of your own needs "
            "--plugin FILE.py)"
        )
    found = benchmark.load(benchmark.score_system)
    if not (isinstance(found, type) and issubclass(found, ScoreSystem)):
        raise ConfigError(f"score system {name!r}: {found!r} does not derive from ScoreSystem")
    return found


def _of_entry(entry: Any) -> Any:
    """The settings that a mapping describes; settings are given back as they are."""
    if isinstance(entry, ScoreSystem):
        return entry
    if not isinstance(entry, Mapping):
        raise ValueError("a mapping with the key `system` is expected")
    if not isinstance(entry.get("system"), str):
        raise ValueError("the key 'system' is missing")
    try:
        model = score_system_named(entry["system"])
        return model.model_validate(dict(entry))
    except ConfigError as error:
        raise ValueError(str(error)) from error


AnyScoreSystem: TypeAlias = Annotated[SerializeAsAny[ScoreSystem], BeforeValidator(_of_entry)]
"""An entry under `scores` of a study file; `system` says which."""


@dataclass(frozen=True, eq=False)
class ScoredStudy:
    """The scores of a study's images by all judges.

    Attributes:
        metrics: rows of the metric table.
        files: by file name, further tables that systems write into the result folder.
        notes: by variant, what has to be said below its tables, such as mended mistakes in a file.
    """

    metrics: pd.DataFrame
    files: Mapping[str, pd.DataFrame]
    notes: Mapping[str, tuple[str, ...]]

    @classmethod
    def of(
        cls,
        systems: Sequence[ScoreSystem],
        image_set: ImageSet,
        predictions: Mapping[str, pa.Table],
        intervals: Intervals,
        *,
        sample: LabelSample | None = None,
        estimates: bool = True,
    ) -> Self:
        """Compute the scores of every system.

        Args:
            systems: at least one.
            image_set: images, prompts and human labels; attributes without labels have no ground truth.
            predictions: by detector, rows as in `vocabulary.columns.PREDICTIONS`, the column `value` included.
            intervals: how intervals are found.
            sample: which images were drawn to be labelled, where not all have a label; None: those with one are
                taken as drawn with equal chance within each T2I model and prompt.
            estimates: whether scores of all images are estimated where some have no label; False where a sample
                does not belong to the images.

        Raises:
            ConfigError: two entries have the same definition, or one does not fit the image set.
            DataError: a file that the settings name is wrong.
        """
        named = Counter((each.system, name) for each in systems for name in each.definitions)
        for (system, name), times in named.items():
            if times > 1:
                can_be_named = "name" in score_system_named(system).model_fields
                hint = "; give one of the entries a `name`" if can_be_named else ""
                raise ConfigError(f"scores: {system} with {name!r} stands there {times} times{hint}")
        attributes = tuple(dict.fromkeys(name for system in systems for name in system.attributes))
        judgements = Judgements.of(image_set, predictions, attributes=attributes)
        rows: list[pd.DataFrame] = []
        files: dict[str, list[pd.DataFrame]] = {}
        notes: dict[str, tuple[str, ...]] = {}
        for each in systems:
            for asked, alone in _askings(each, judgements):
                found = each.rows(asked, intervals)
                rows.append(found.assign(variant=found["variant"] + OF_DETECTORS_ALONE) if alone else found)
                for name, table in each.files(asked, intervals).items():
                    files.setdefault(_file_of(name) if alone else name, []).append(table)
            notes.update(each.notes(judgements))
        if estimates:
            rows.append(estimated_scores(systems, judgements, intervals, image_set=image_set, sample=sample))
        return cls(
            metrics=pd.concat([each for each in rows if len(each)] or rows, ignore_index=True),
            files={name: pd.concat(parts, ignore_index=True) for name, parts in files.items()},
            notes=notes,
        )


_ALONE = "By detectors alone, over all images, whether they have a human label or not."


def _tables_of_systems(sources: TableSources) -> dict[str, Table]:
    tables: dict[str, Table] = {}
    for benchmark in benchmarks():
        if benchmark.tables is not None:
            tables |= benchmark.load(benchmark.tables)(sources)
    return tables


def _over_labelled_images(metrics: pd.DataFrame) -> tuple[str, ...]:
    """Over how many images detectors are compared with the humans, as far as the study counts them."""
    counted = metrics.loc[metrics["metric"] == "images_unlabelled", "attribute"]
    lookups = [MetricLookup.of_table(metrics, attribute=str(name)) for name in pd.unique(counted)]
    return tuple(note for lookup in lookups for note in labels_notes(lookup))


def _askings(system: ScoreSystem, judgements: Judgements) -> Iterator[tuple[Judgements, bool]]:
    """Whom a system asks about which images, and whether it is detectors alone.

    Where all images have labels, everybody about everything. Where some have, everybody about these, and detectors
    alone about all images; where none has, detectors alone.
    """
    own = replace(judgements, judged={name: judgements.judged[name] for name in system.attributes})
    has_truth = own.has_truth and any(judged[0] for judged in own.judged.values())
    partly = own.partly_labelled
    if has_truth:
        yield replace(judgements, labelled_only=partly), False
    if partly or not has_truth:
        yield judgements.by_detectors_alone(), True


def _file_of(name: str) -> str:
    """What a system's file is called that says what detectors say alone: `mine_detector_only.csv`."""
    path = PurePath(name)
    return f"{path.stem}_{DETECTOR_ONLY}{path.suffix}"


@dataclass(frozen=True, eq=False, kw_only=True)
class TableSources:
    """What the tables of score systems are made of."""

    metrics: pd.DataFrame
    """The metric table (`vocabulary.columns.METRIC_COLUMNS`)."""
    prompts: pd.DataFrame | None = None
    """Words of the prompts, columns `prompt_id, word`."""
    files: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    """By file name, as in `ScoredStudy`."""
    notes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By variant, what else has to be said."""
    max_error_share: float = DEFAULT_MAX_ERROR_SHARE
    """A detector that fails on a larger share of a T2I model's images gets dashes there."""
    intervals: bool = False
    """Whether tables show confidence intervals where they have them."""


def score_tables(sources: TableSources) -> dict[str, Table]:
    """The tables of every score system with rows in a metric table, and one that compares detectors on all scores.

    Returns:
        By name; those by detectors alone, over all images, end in `_detector_only`.
    """
    metrics = of_labelled_images(sources.metrics)
    tables = _tables_of_systems(replace(sources, metrics=metrics))
    alone = {name: rows for name, rows in sources.files.items() if PurePath(name).stem.endswith(DETECTOR_ONLY)}
    files = {name.replace(f"_{DETECTOR_ONLY}", ""): rows for name, rows in alone.items()}
    by_detectors = replace(sources, metrics=of_detectors_alone(sources.metrics), files=files)
    said: tuple[str, ...] = ()
    if by_detectors.metrics["variant"].notna().any():
        said = _over_labelled_images(metrics)
        tables = {name: replace(table, notes=(*table.notes, *said)) for name, table in tables.items()}
        for name, table in _tables_of_systems(by_detectors).items():
            own = f"{name}_{DETECTOR_ONLY}"
            tables[own] = replace(table, name=own, caption=f"{_ALONE} {table.caption}")
    judges = set(metrics.loc[metrics["variant"].notna(), "detector"].astype(str))
    if GROUND_TRUTH in judges and len(judges) > 1:
        table = score_deviations(metrics, max_error_share=sources.max_error_share, intervals=sources.intervals)
        tables[table.name] = replace(table, notes=(*table.notes, *said))
    return tables
