"""A finished study as a report needs it: numbers, images, verdicts; what is missing is said, not raised."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Self

import pandas as pd
import pyarrow as pa

from detector_bench.dataset import ImageSet
from detector_bench.errors import ConfigError, DetectorBenchError
from detector_bench.evaluation import read_predictions
from detector_bench.evaluation.tolerance import Tolerance
from detector_bench.results.finished_study import FinishedStudy
from detector_bench.site.error_counts import Judged
from detector_bench.site.image_columns import PREDICTION_COLUMNS, DetectorVerdicts, Truth


@dataclass(frozen=True, eq=False)
class AttributePart:
    """One attribute of a study."""

    study: FinishedStudy
    judged: Judged | None
    """Truth and verdicts image by image; None where image set or predictions are not there."""

    @property
    def name(self) -> str:
        """The attribute's name."""
        return self.study.attribute

    @property
    def words(self) -> str:
        """The attribute's name for people."""
        return self.name.replace("_", " ")


@dataclass(frozen=True, eq=False)
class ReportStudy:
    """A result folder, with its attributes in the study's order."""

    folder: Path
    parts: tuple[AttributePart, ...]
    image_set: ImageSet | None
    missing: str
    """Why there are no images; empty where there are."""
    stored: Mapping[str, pa.Table] = field(default_factory=dict)
    """The detectors' predictions with `PREDICTION_COLUMNS`, in the study's order."""

    @classmethod
    def load(cls, folder: Path, *, image_set: Path | None = None) -> Self:
        """Read a result folder, and the image set and predictions behind it where they are still there.

        Args:
            folder: of `detector-bench run` or `evaluate`.
            image_set: takes the place of the study's.

        Raises:
            ConfigError: no metrics there, or those of an older version.
            DetectorBenchError: the image set was named, and cannot be read.
        """
        try:
            first = _moved(FinishedStudy.load(folder), image_set)
        except ValueError as error:
            raise ConfigError(f"{str(folder)!r}: {error}; evaluate the study again") from error
        names = first.study.attributes if first.study else tuple(_attributes(folder, first))
        studies = [first, *(_moved(FinishedStudy.load(folder, attribute=name), image_set) for name in names[1:])]
        try:
            images = first.image_set
            stored = read_predictions(folder, also=PREDICTION_COLUMNS)
        except DetectorBenchError as error:
            if image_set is not None:
                raise
            return cls(folder, tuple(AttributePart(each, None) for each in studies), None, str(error))
        parts = tuple(_part(each, images, stored) for each in studies)
        entries = [entry.name for entry in first.study.detectors] if first.study else list(stored)
        return cls(folder, parts, images, "", {name: stored[name] for name in entries if name in stored})

    @property
    def first(self) -> FinishedStudy:
        """The study's main attribute."""
        return self.parts[0].study

    @property
    def name(self) -> str:
        """The study's name; that of its folder where it has none."""
        study = self.first.study
        named = study is not None and study.name != type(study).model_fields["name"].default
        return study.name if study is not None and named else self.folder.resolve().name

    @property
    def question(self) -> str:
        """What the study asks; empty where it does not say."""
        return self.first.study.question if self.first.study else ""

    @property
    def by_whom(self) -> str:
        """Who made the study and when, as far as it says."""
        study = self.first.study
        return ", ".join(each for each in (study.author, study.date) if each) if study else ""

    @property
    def tolerance(self) -> Tolerance:
        """How far off a detector may be and still be called good enough."""
        return self.first.study.tolerance if self.first.study else Tolerance()

    @cached_property
    def judged_sha256(self) -> list[str | None]:
        """Content of each image when it was judged, as far as any detector says."""
        found = pd.Series([None] * (0 if self.image_set is None else len(self.image_set.images)), dtype=object)
        for part in self.parts:
            for each in part.judged.verdicts if part.judged else ():
                found = found.where(found.notna(), pd.Series(each.image_sha256.to_pylist(), dtype=object))
        return [each if isinstance(each, str) else None for each in found]


def _moved(study: FinishedStudy, image_set: Path | None) -> FinishedStudy:
    if image_set is None or study.study is None:
        return study
    return replace(study, study=study.study.model_copy(update={"image_set": image_set}))


def _attributes(folder: Path, first: FinishedStudy) -> Sequence[str]:
    # Without a study file the metric table alone knows them.
    path = folder / "metrics.parquet"
    column = (
        pd.read_parquet(path, columns=["attribute"])
        if path.is_file()
        else pd.read_csv(folder / "metrics.csv", usecols=["attribute"])
    )
    names = [str(name) for name in pd.unique(column["attribute"])]
    return [first.attribute, *(name for name in names if name != first.attribute)]


def _part(study: FinishedStudy, image_set: ImageSet, stored: Mapping[str, pa.Table]) -> AttributePart:
    truth = Truth.of(image_set, study.attribute)
    ids = pd.Index(image_set.images["image_id"])
    laid_out = [
        DetectorVerdicts.of(ids, stored[name], detector=name, attribute=truth.attribute)
        for name in study.detectors
        if name in stored
    ]
    return AttributePart(study, Judged(truth, tuple(each for each in laid_out if each is not None)))
