"""All score systems of a study at once: the entries of its study file, their numbers, and their tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Self, TypeAlias

import pandas as pd
import pyarrow as pa
from pydantic import BeforeValidator, SerializeAsAny

from detector_bench.benchmark import BENCHMARKS, benchmarks
from detector_bench.errors import ConfigError, nearest_hint
from detector_bench.evaluation.intervals import Intervals
from detector_bench.others.judgements import Judgements
from detector_bench.others.score_deviations import score_deviations
from detector_bench.others.score_system import ScoreSystem
from detector_bench.results.metric_lookup import DEFAULT_MAX_ERROR_SHARE
from detector_bench.tables.table import Table
from detector_bench.vocabulary import GROUND_TRUTH

if TYPE_CHECKING:
    from detector_bench.dataset import ImageSet


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
    ) -> Self:
        """Compute the scores of every system.

        Args:
            systems: at least one.
            image_set: images, prompts and human labels; attributes without labels have no ground truth.
            predictions: by detector, rows as in `vocabulary.columns.PREDICTIONS`, the column `value` included.
            intervals: how intervals are found.

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
        rows = [system.rows(judgements, intervals) for system in systems]
        files: dict[str, list[pd.DataFrame]] = {}
        notes: dict[str, tuple[str, ...]] = {}
        for each in systems:
            for name, table in each.files(judgements, intervals).items():
                files.setdefault(name, []).append(table)
            notes.update(each.notes(judgements))
        return cls(
            metrics=pd.concat(rows, ignore_index=True),
            files={name: pd.concat(parts, ignore_index=True) for name, parts in files.items()},
            notes=notes,
        )


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
        By name.
    """
    tables: dict[str, Table] = {}
    for benchmark in benchmarks():
        if benchmark.tables is not None:
            tables |= benchmark.load(benchmark.tables)(sources)
    metrics = sources.metrics
    judges = set(metrics.loc[metrics["variant"].notna(), "detector"].astype(str))
    if GROUND_TRUTH in judges and len(judges) > 1:
        tables["score_deviations"] = score_deviations(
            metrics, max_error_share=sources.max_error_share, intervals=sources.intervals
        )
    return tables
