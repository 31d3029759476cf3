"""A finished study as a report needs it: numbers, images, verdicts; what is missing is said, not raised."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import pandas as pd
import pyarrow as pa

from detector_bench.dataset import ImageSet
from detector_bench.errors import DetectorBenchError
from detector_bench.evaluation.image_verdicts import ImageVerdicts
from detector_bench.results.finished_study import FinishedStudy, ResultFolder
from detector_bench.site.error_counts import Judged
from detector_bench.site.image_columns import PREDICTION_COLUMNS, DetectorVerdicts, Truth
from detector_bench.study_configuration import StudyConfiguration
from detector_bench.tables.wording import attribute_in_words


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
        return attribute_in_words(self.name)


@dataclass(frozen=True, eq=False)
class ReportStudy:
    """A result folder with its study, and its attributes in the study's order."""

    results: ResultFolder
    configuration: StudyConfiguration
    parts: tuple[AttributePart, ...]
    image_set: ImageSet | None
    missing: str
    """Why there are no images; empty where there are."""

    @classmethod
    def of(cls, results: ResultFolder, configuration: StudyConfiguration) -> Self:
        """Lay the images and predictions behind a result folder out, where they are still there.

        Raises:
            DetectorBenchError: the image set was named, and cannot be read.
        """
        studies = [results.of_attribute(name) for name in results.settings.attributes]
        try:
            images = results.image_set
            stored = results.predictions(PREDICTION_COLUMNS)
        except DetectorBenchError as error:
            if results.own_image_set is not None:
                raise
            return cls(
                results, configuration, tuple(AttributePart(each, None) for each in studies), None, str(error)
            )
        return cls(results, configuration, tuple(_part(each, images, stored) for each in studies), images, "")

    @property
    def first(self) -> FinishedStudy:
        """The study's main attribute."""
        return self.parts[0].study

    @property
    def name(self) -> str:
        """The study's name; that of its folder where it has none."""
        named = self.configuration.name != type(self.configuration).model_fields["name"].default
        return self.configuration.name if named else self.results.path.resolve().name

    @property
    def by_whom(self) -> str:
        """Who made the study and when, as far as it says."""
        return ", ".join(each for each in (self.configuration.author, self.configuration.date) if each)

    @cached_property
    def judged_sha256(self) -> list[str | None]:
        """Content of each image when it was judged, as far as any detector says."""
        found = pd.Series([None] * (0 if self.image_set is None else len(self.image_set.images)), dtype=object)
        for part in self.parts:
            for each in part.judged.verdicts if part.judged else ():
                found = found.where(found.notna(), pd.Series(each.image_sha256.to_pylist(), dtype=object))
        return [each if isinstance(each, str) else None for each in found]


def _part(study: FinishedStudy, image_set: ImageSet, stored: Mapping[str, pa.Table]) -> AttributePart:
    predictions = {name: stored[name] for name in study.detectors if name in stored}
    found = ImageVerdicts.read(image_set, predictions, attribute=study.attribute, allow_incomplete=True)
    return AttributePart(study, Judged(Truth.of(image_set, found), DetectorVerdicts.of_detectors(found)))
