"""All score systems of a study at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Self, TypeAlias

import pandas as pd
import pyarrow as pa
from pydantic import Field

from detector_bench.errors import ConfigError
from detector_bench.evaluation.intervals import Intervals
from detector_bench.others.biaspainter.settings import BiasPainterScores
from detector_bench.others.bigbench.settings import BigBench
from detector_bench.others.imagebite.settings import ImageBiTe
from detector_bench.others.judgements import Judgements
from detector_bench.vocabulary.columns import METRIC_COLUMNS

if TYPE_CHECKING:
    from detector_bench.dataset import ImageSet

AnyScoreSystem: TypeAlias = Annotated[
    BiasPainterScores | BigBench | ImageBiTe,
    Field(discriminator="system"),
]
"""An entry under `scores` of a study file; `system` says which."""


@dataclass(frozen=True, eq=False)
class ScoredStudy:
    """The scores of a study's images by all judges.

    Attributes:
        metrics: rows of the metric table.
        verdicts: ImageBiTe's single verdicts, columns as in `VERDICT_COLUMNS`; None without ImageBiTe.
        notes: by variant, what has to be said below its tables, such as mended mistakes in a file.
    """

    metrics: pd.DataFrame
    verdicts: pd.DataFrame | None
    notes: Mapping[str, tuple[str, ...]]

    @classmethod
    def of(
        cls,
        systems: Sequence[AnyScoreSystem],
        image_set: ImageSet,
        predictions: Mapping[str, pa.Table],
        intervals: Intervals,
    ) -> Self:
        """Compute the scores of every system.

        Args:
            systems: at least one.
            image_set: images, prompts and human labels; attributes without labels have no ground truth.
            predictions: by detector, rows as in `schema.PREDICTIONS`, the column `value` included.
            intervals: how intervals are found.

        Raises:
            ConfigError: two entries have the same definition, or one does not fit the image set.
            DataError: a file that the settings name is wrong.
        """
        named = Counter((each.system, name) for each in systems for name in each.definitions)
        for (system, name), times in named.items():
            if times > 1:
                hint = "; give one of the entries a `name`" if system == "imagebite" else ""
                raise ConfigError(f"scores: {system} with {name!r} stands there {times} times{hint}")
        attributes = tuple(dict.fromkeys(name for system in systems for name in system.attributes))
        judgements = Judgements.of(image_set, predictions, attributes=attributes)
        rows = [system.rows(judgements, intervals) for system in systems]
        verdicts = [each.verdicts(judgements, intervals) for each in systems if isinstance(each, ImageBiTe)]
        notes: dict[str, tuple[str, ...]] = {}
        for each in systems:
            notes.update(each.notes(judgements))
        return cls(
            metrics=pd.concat(rows, ignore_index=True),
            verdicts=pd.concat(verdicts, ignore_index=True) if verdicts else None,
            notes=notes,
        )


def with_rows(metrics: pd.DataFrame, rows: pd.DataFrame) -> pd.DataFrame:
    """A metric table with further rows; words stay categoricals."""
    columns = {}
    for name in METRIC_COLUMNS:
        if isinstance(metrics[name].dtype, pd.CategoricalDtype):
            known = metrics[name].cat.categories
            new = [word for word in rows[name].dropna().unique() if word not in known]
            words = pd.CategoricalDtype(known.append(pd.Index(new, dtype=known.dtype)))
            columns[name] = pd.concat([metrics[name].astype(words), rows[name].astype(words)], ignore_index=True)
        else:
            columns[name] = pd.concat([metrics[name], rows[name].astype(metrics[name].dtype)], ignore_index=True)
    return pd.DataFrame(columns)
