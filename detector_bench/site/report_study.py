"""A finished study as a report needs it: numbers, images, verdicts; what is missing is said, not raised."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from detector_bench.dataset import SEED_COLUMN, ImageSet
from detector_bench.dataset.published_text import without_folders
from detector_bench.errors import DetectorBenchError
from detector_bench.evaluation.image_verdicts import ImageVerdicts
from detector_bench.results.finished_study import FinishedStudy, ResultFolder
from detector_bench.site.error_counts import Judged
from detector_bench.site.image_columns import COUNTED_COLUMNS, PREDICTION_COLUMNS, DetectorVerdicts, Truth
from detector_bench.study_configuration import StudyConfiguration
from detector_bench.tables.wording import attribute_in_words

MOST_IMAGES = 20_000
"""Of more images, the browser shows a random sample: a page of all would take minutes to open."""

SAMPLE_SEED = 0


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
    sampled: Self | None = None
    """The same study of those images alone that the image browser shows; None: it shows all."""

    @classmethod
    def of(
        cls, results: ResultFolder, configuration: StudyConfiguration, *, most_images: int = MOST_IMAGES
    ) -> Self:
        """Lay the images and predictions behind a result folder out, where they are still there.

        Args:
            results: the result folder.
            configuration: its study.
            most_images: how many images the image browser shows; of more, a random sample.

        Raises:
            DetectorBenchError: the image set was named, and cannot be read.
        """
        studies = [results.of_attribute(name) for name in results.settings.attributes]
        try:
            images = results.image_set
            if len(images.images) > most_images:
                shown = _sample(images, most_images)
                stored = results.predictions(COUNTED_COLUMNS)
                of_shown = results.predictions(
                    PREDICTION_COLUMNS, of_images=pa.array(shown.images["image_id"], pa.string())
                )
            else:
                shown, of_shown = None, {}
                stored = results.predictions(PREDICTION_COLUMNS)
        except DetectorBenchError as error:
            if results.own_image_set is not None:
                raise
            missing = without_folders(str(error))
            parts = tuple(AttributePart(each, None) for each in studies)
            return cls(results, configuration, parts, None, missing)
        whole = cls(results, configuration, tuple(_part(each, images, stored) for each in studies), images, "")
        if shown is None:
            return whole
        parts = tuple(_part(each, shown, of_shown) for each in studies)
        return replace(whole, sampled=cls(results, configuration, parts, shown, ""))

    @property
    def browsed(self) -> Self:
        """What the image browser shows: all images, or a sample."""
        return self if self.sampled is None else self.sampled

    @property
    def sample_words(self) -> str:
        """That the image browser shows a sample, and which; empty where it shows all images."""
        if self.image_set is None or self.sampled is None or self.sampled.image_set is None:
            return ""
        images = self.image_set.images
        shown = self.sampled.image_set.images
        return (
            f"The image browser shows a random sample of {len(shown):,} of the {len(images):,} images (seed "
            f"{SAMPLE_SEED}) and counts these alone; all other numbers of this report are of all images."
        )

    @property
    def first(self) -> FinishedStudy:
        """The study's main attribute."""
        return self.parts[0].study

    @property
    def name(self) -> str:
        """The study's name; that of its image set where it has none."""
        return name_of_study(self.results)

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


def name_of_study(results: ResultFolder) -> str:
    """What a study is called: its name; that of its image set where it has none."""
    name = str(results.study.get("name") or "")
    named = name and name != StudyConfiguration.model_fields["name"].default
    return name if named else results.image_set_folder.resolve().name or results.path.resolve().name


def _sample(image_set: ImageSet, size: int) -> ImageSet:
    """A random sample of the images, in their order, with the photos that they were edited from."""
    images = image_set.images
    chosen = np.zeros(len(images), dtype=bool)
    chosen[np.random.default_rng(SAMPLE_SEED).choice(len(images), size=size, replace=False)] = True
    if SEED_COLUMN in images:
        chosen |= _is_any_of(images["image_id"], images.loc[chosen, SEED_COLUMN])
    kept = images[chosen].reset_index(drop=True)
    labels = image_set.labels
    of_kept = labels[_is_any_of(labels["image_id"], kept["image_id"])].reset_index(drop=True)
    return ImageSet(image_set.root, kept, image_set.prompts, of_kept)


def _is_any_of(ids: pd.Series, wanted: pd.Series) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = ids.isin(wanted).to_numpy(dtype=bool)
    return found


def _part(study: FinishedStudy, image_set: ImageSet, stored: Mapping[str, pa.Table]) -> AttributePart:
    predictions = {name: stored[name] for name in study.detectors if name in stored}
    found = ImageVerdicts.read(image_set, predictions, attribute=study.attribute, allow_incomplete=True)
    return AttributePart(study, Judged(Truth.of(image_set, found), DetectorVerdicts.of_detectors(found)))
