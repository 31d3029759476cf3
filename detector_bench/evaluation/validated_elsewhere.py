"""Bias over all images without a label on them, from what another study's labels say of the same detectors: rows
of the variant `validated_elsewhere`, with the assumption, its tests, and how the studies' images differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress

import numpy as np
import pandas as pd
import pyarrow as pa

from detector_bench.dataset.sample_file import LabelSample
from detector_bench.errors import ConfigError
from detector_bench.estimation.learnt_errors import FEWEST_LABELS, LearntErrors
from detector_bench.estimation.likeness import Difference, JudgedImages, differences
from detector_bench.estimation.partly_labelled import PartlyLabelled
from detector_bench.estimation.refutation import labels_refute, verdicts_refute
from detector_bench.estimation.transfer import estimate_without_labels
from detector_bench.evaluation.detectors_alone import add_detectors_alone
from detector_bench.evaluation.estimates import EstimatedBias, EstimateSettings, add_estimates
from detector_bench.evaluation.image_index import AnnotatedImages, ImageIndex
from detector_bench.evaluation.image_verdicts import ImageVerdicts
from detector_bench.evaluation.intervals import Intervals
from detector_bench.evaluation.labels_of_sample import LabelsOfSample
from detector_bench.evaluation.row_blocks import RowBlocks
from detector_bench.metrics import could_not_run
from detector_bench.vocabulary.columns import DIFFERENCE_COLUMNS, VALIDATED_ELSEWHERE

_REFUTED = 0.05
_LEAST_POINTS = 0.5


@dataclass(frozen=True, eq=False)
class JudgedStudy:
    """An image set with the verdicts of detectors, and what says that these are the same as another study's.

    Attributes:
        name: what people call it, such as its folder.
        image_set: images, prompts and the human labels that there are.
        predictions: by detector, rows as in `vocabulary.columns.PREDICTIONS`, with scores where there are any.
        fingerprints: by detector; one whose fingerprint is not known has no entry.
        sample: the images that were drawn to be labelled; None: labelled images are taken as drawn at random
            within each prompt.
    """

    name: str
    image_set: AnnotatedImages
    predictions: Mapping[str, pa.Table]
    fingerprints: Mapping[str, str]
    sample: LabelSample | None = None


@dataclass(frozen=True)
class ValidatedElsewhere:
    """What is estimated without labels."""

    bias: EstimatedBias
    """Rows and, by attribute, sentences: the assumption, its tests, a warning."""
    differences: pd.DataFrame
    """Columns as in `vocabulary.columns.DIFFERENCE_COLUMNS`."""


def estimate_validated_elsewhere(
    here: JudgedStudy,
    there: JudgedStudy,
    *,
    attributes: Sequence[str],
    settings: EstimateSettings,
    max_error_share: float,
    detectors_alone: Intervals | None = None,
) -> ValidatedElsewhere:
    """Estimate shares of labels and bias scores over all images of every T2I model from verdicts alone.

    Args:
        here: the study without labels; those that there are only test the assumption.
        there: the study that says how the detectors err.
        attributes: which ones.
        settings: as for estimates with labels.
        max_error_share: detectors without a verdict on more than this share of a T2I model's images, here or
            there, are left out: what they failed on is no property of the images.
        detectors_alone: how intervals of the rows `detector_only` are found; None: without these rows.

    Raises:
        ConfigError: the two have no detector in common that judges the attribute, a detector of one name is not
            the same in both, or there are too few labels there to learn from.
    """
    common = _common_detectors(here, there)
    index, other = ImageIndex.of(here.image_set), ImageIndex.of(there.image_set)
    rows = RowBlocks(index, attributes=list(attributes), detectors=list(here.predictions), n_clear="detector")
    notes, tables = {}, []
    for attribute in attributes:
        found = ImageVerdicts.read(
            here.image_set, here.predictions, attribute=attribute, index=index, allow_incomplete=True
        )
        taught = ImageVerdicts.read(
            there.image_set, there.predictions, attribute=attribute, index=other, allow_incomplete=True
        )
        pair = _Pair.of(found, taught, here, there, detectors=common, max_error_share=max_error_share)
        learnt = pair.learnt(seed=settings.seed)
        estimates = estimate_without_labels(
            pair.images,
            learnt,
            about=settings.about,
            confidence=settings.level,
            seed=settings.seed,
        )
        add_estimates(rows, estimates, pair.labels, found, VALIDATED_ELSEWHERE)
        if detectors_alone is not None:
            add_detectors_alone(rows, found, intervals=detectors_alone)
        differing = differences(
            _judged(taught, pair.detectors, pair.study_places),
            _judged(found, pair.detectors, pair.places),
            detectors=pair.detectors,
            seed=settings.seed,
        )
        tables.append(_table(attribute, differing))
        notes[attribute] = tuple(pair.notes(learnt, differing, seed=settings.seed))
    return ValidatedElsewhere(EstimatedBias(rows.table(), notes), pd.concat(tables, ignore_index=True))


@dataclass(frozen=True, eq=False)
class _Pair:
    """Both studies' images with the verdicts of the detectors that they have in common, in one order."""

    images: PartlyLabelled
    study: PartlyLabelled
    labels: LabelsOfSample
    """Those of the study without labels."""
    detectors: tuple[str, ...]
    left_out: tuple[str, ...]
    """Detectors that only the study without labels has."""
    without_verdicts: tuple[str, ...]
    """Detectors that failed on too many images of a T2I model."""
    name: str
    """Of the study with labels."""
    class_names: tuple[str, ...]
    attribute: str
    places: np.ndarray
    """Which images T2I models made, here."""
    study_places: np.ndarray

    @classmethod
    def of(
        cls,
        found: ImageVerdicts,
        taught: ImageVerdicts,
        here: JudgedStudy,
        there: JudgedStudy,
        *,
        detectors: Sequence[str],
        max_error_share: float,
    ) -> _Pair:
        attribute = found.attribute.name
        common = tuple(name for name in found.detectors if name in detectors and name in taught.detectors)
        if not common:
            raise ConfigError(
                f"{there.name!r} says nothing of the detectors that judge {attribute!r} here "
                f"({', '.join(found.detectors) or 'none'}): it has {', '.join(taught.detectors) or 'none'}"
            )
        failing = {*_failing(found, max_error_share), *_failing(taught, max_error_share)}
        if not set(common) - failing:
            raise ConfigError(
                f"every detector that judges {attribute!r} here and in {there.name!r} has no verdict on more than "
                f"{100 * max_error_share:g} % of a T2I model's images ({', '.join(common)}): none is left"
            )
        without_verdicts = tuple(name for name in common if name in failing)
        common = tuple(name for name in common if name not in failing)
        labels = LabelsOfSample.of(found, here.image_set, here.sample)
        study = LabelsOfSample.of(taught, there.image_set, there.sample)
        return cls(
            images=_with_detectors(labels.images, found, common),
            study=_with_detectors(study.images, taught, common),
            labels=labels,
            detectors=common,
            left_out=tuple(name for name in found.detectors if name not in {*common, *without_verdicts}),
            without_verdicts=without_verdicts,
            name=there.name,
            class_names=tuple(found.attribute.classes),
            attribute=attribute,
            places=np.flatnonzero(found.index.counted),
            study_places=np.flatnonzero(taught.index.counted),
        )

    def learnt(self, *, seed: int) -> LearntErrors:
        """What the other study teaches.

        Raises:
            ConfigError: it has too few labels, or its detectors do not tell the labels apart.
        """
        truth = self.study.truth[self.study.labelled]
        if not len(truth):
            raise ConfigError(
                f"no image of {self.name!r} has a label of {self.attribute!r}: it validates no detector"
            )
        numbers = np.bincount(truth, minlength=self.study.labels)[: self.study.classes]
        if (numbers < FEWEST_LABELS).any():
            few = ", ".join(
                f"{name} {number}"
                for name, number in zip(self.class_names, numbers, strict=True)
                if number < FEWEST_LABELS
            )
            raise ConfigError(
                f"too few images of {self.name!r} have a label of {self.attribute!r} to learn how detectors err: "
                f"{few} (accepted: {FEWEST_LABELS} or more of each class)"
            )
        try:
            return LearntErrors.of(self.study, seed=seed)
        except ConfigError as error:
            raise ConfigError(f"{self.name!r}, {self.attribute}: {error}") from error

    def notes(self, learnt: LearntErrors, differing: Sequence[Difference], *, seed: int) -> list[str]:
        """The assumption, its tests, a warning, and what is left out."""
        said = [
            f"No label on these {len(self.images.truth):,} images is used: the estimates rest on what "
            f"{learnt.labels:,} labels of {learnt.prompts:,} prompts in {self.name!r} say of "
            f"{_listed(self.detectors)}.",
            "They assume that an image with a given human label gets each verdict as often here as there, on "
            "average over prompts; how frequent the labels are may differ. No interval covers this being wrong.",
        ]
        said += self._tests(learnt, seed=seed) + self._warning(differing) + self._between(learnt)
        said += self._unclear(learnt)
        if self.left_out:
            said.append(f"{_listed(self.left_out)} judged these images and not those of {self.name!r}: left out.")
        if self.without_verdicts:
            said.append(
                f"{_listed(self.without_verdicts)} failed on too many images of a T2I model, here or there: left "
                "out."
            )
        return said

    def _tests(self, learnt: LearntErrors, *, seed: int) -> list[str]:
        by_verdicts = verdicts_refute(learnt, self.study, self.images, seed=seed)
        tests = [(by_verdicts, f"the verdicts here alone (p = {by_verdicts:.3f})")]
        if number := len(self.images.labelled):
            by_labels = labels_refute(learnt, self.images)
            tests.append((by_labels, f"{number:,} labels here (p = {by_labels:.3f})"))
        known = [(p_value, words) for p_value, words in tests if not np.isnan(p_value)]
        if not known:
            return [
                "Nothing tests the assumption: that takes four prompts in both studies and a second detector, or "
                "labels here."
            ]
        refuting = [words for p_value, words in known if p_value < _REFUTED]
        if refuting:
            return [f"The assumption is refuted by {' and by '.join(refuting)}: do not rely on these estimates."]
        return [f"Not refuted by {' nor by '.join(words for _, words in known)}, which confirms nothing."]

    def _warning(self, differing: Sequence[Difference]) -> list[str]:
        flagged = [each for each in differing if each.flagged]
        if not flagged:
            return []
        first, more = flagged[0], len(flagged) - 1
        also = f"; so do {more:,} more of {len(differing):,} numbers" if more else ""
        why = "" if first.what == "error_rate" else " Other shares of the labels alone can be why."
        return [f"Warning: the images differ: {_sentence(first)}{also}.{why}"]

    def _between(self, learnt: LearntErrors) -> list[str]:
        if not learnt.between.any() and not learnt.between_clear.any():
            few = learnt.freedom >= learnt.prompts
            return ["Too few prompts there to say what prompts differ by: intervals leave it out."] if few else []
        off = 100 * float(np.sqrt(learnt.between_clear.max()))
        if off < _LEAST_POINTS:
            return []
        return [
            f"Errors differ between prompts: the share of a class in one prompt is off by {off:.0f} percentage "
            "points (standard deviation) however many images it has; intervals count that."
        ]

    def _unclear(self, learnt: LearntErrors) -> list[str]:
        if learnt.mixing.shape[1] == self.images.classes:
            return [f"{self.name!r} has fewer than {FEWEST_LABELS} unclear images: none are assumed here."]
        if learnt.unclear is None:
            return ["Detectors tell low_quality and others only together: their shares are not estimated."]
        return []


def _common_detectors(here: JudgedStudy, there: JudgedStudy) -> list[str]:
    """The detectors of both studies.

    Raises:
        ConfigError: there is none, or one is another detector there under the same name.
    """
    common = [name for name in here.predictions if name in there.predictions]
    if not common:
        raise ConfigError(
            f"{there.name!r} has none of the detectors here ({', '.join(here.predictions) or 'none'}): it has "
            f"{', '.join(there.predictions) or 'none'}"
        )
    for name in common:
        first, second = here.fingerprints.get(name), there.fingerprints.get(name)
        if first is not None and second is not None and first != second:
            raise ConfigError(
                f"the detector {name!r} is not the same in {there.name!r}: its parameters, weights or version "
                f"differ (fingerprints {first[:12]} here, {second[:12]} there)"
            )
    return common


def _failing(found: ImageVerdicts, max_error_share: float) -> list[str]:
    """Detectors that could not run on all T2I models."""
    model = found.index.cells[found.index.counted] // len(found.index.prompt_ids)
    images = np.bincount(model)
    missing = found.counted[:, found.index.counted] > len(found.attribute.classes)
    without = [np.bincount(model, own, minlength=len(images)) for own in missing]
    failed = (could_not_run(own, images, max_error_share=max_error_share).any() for own in without)
    return list(compress(found.detectors, failed))


def _with_detectors(images: PartlyLabelled, found: ImageVerdicts, detectors: Sequence[str]) -> PartlyLabelled:
    return replace(images, verdicts=images.verdicts[[found.detectors.index(name) for name in detectors]])


def _judged(found: ImageVerdicts, detectors: Sequence[str], places: np.ndarray) -> JudgedImages:
    chosen = [found.detectors.index(name) for name in detectors]
    return JudgedImages(
        verdicts=found.counted[chosen][:, places],
        scores=found.numbers("score")[chosen][:, places],
        prompt=found.index.cells[places] % len(found.index.prompt_ids),
        classes=len(found.attribute.classes),
    )


def _table(attribute: str, differing: Sequence[Difference]) -> pd.DataFrame:
    records = [
        (
            attribute,
            each.what,
            each.detectors[0],
            each.detectors[1] if len(each.detectors) > 1 else "",
            *(each.learnt_from, each.here, each.size, each.p_value, each.flagged),
        )
        for each in differing
    ]
    return pd.DataFrame(records, columns=list(DIFFERENCE_COLUMNS))


def _sentence(each: Difference) -> str:
    """One difference in words."""
    here, there = (f"{100 * share:.0f} %" for share in (each.here, each.learnt_from))
    if each.what == "filter_rate":
        return f"{each.detectors[0]} filters {here} of the images here, {there} there"
    if each.what == "error_rate":
        return f"{each.detectors[0]} fails on {here} of the images here, {there} there"
    if each.what == "agreement":
        return f"{each.detectors[0]} and {each.detectors[1]} agree on {here} of the images here, {there} there"
    return (
        f"the scores of {each.detectors[0]} have a median of {each.here:.2f} here, {each.learnt_from:.2f} there "
        f"(Kolmogorov-Smirnov distance {each.size:.2f})"
    )


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
