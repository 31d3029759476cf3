"""What a detector's scores are worth: fitted on a result folder's labels, written for use in other studies."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self, get_args

import pandas as pd

from detector_bench.errors import ConfigError, nearest_hint
from detector_bench.estimation.calibration import fitted
from detector_bench.evaluation.calibrations import calibration_rows, promise_rows
from detector_bench.evaluation.judged_scores import ScoredImages
from detector_bench.perception.calibration import (
    AttributeCalibration,
    CalibrationFile,
    FittedOn,
    PromisedThreshold,
    ScoreCalibration,
)
from detector_bench.results.finished_study import FinishedStudy, ResultFolder
from detector_bench.sealed import digest_of
from detector_bench.study_calibration_notes import fitted_prompt, identities_of, stages_in
from detector_bench.study_questions import ResultTables
from detector_bench.tables import Table
from detector_bench.tables.calibration_tables import calibration_table, promise_table
from detector_bench.vocabulary.score_maps import SURE, Method

_COLUMNS = ("reason", "score")


def calibrate(
    results: ResultFolder,
    detector: str,
    *,
    attributes: Sequence[str],
    method: Method,
    confidence: float,
    level: float | None = None,
    seed: int | None = None,
) -> tuple[ResultTables, CalibrationFile]:
    """Fit a detector's scores on the labels of a study; see `Results.calibrate`.

    Args:
        results: the study.
        detector: one of its detectors.
        attributes: which ones; those without a human label, or a score, are told and left out.
        method: see `estimation.calibration.fitted`.
        confidence: of each promise.
        level: of the intervals; None: the study's.
        seed: of folds and resamples; None: the study's.

    Raises:
        ConfigError: an unknown method or confidence, scores that are calibrated already, or nothing to fit.
    """
    _check(method, confidence)
    identities = identities_of(results.predictions_folder / detector)
    if any(stage.get("kind") == ScoreCalibration.kind for identity in identities for stage in stages_in(identity)):
        raise ConfigError(f"{detector!r} is calibrated already: fit on the detector without `calibration`")
    fits: list[_Fit] = []
    notes: list[str] = []
    for attribute in attributes:
        part = results.of_attribute(attribute)
        try:
            fit = _Fit.of(part, detector, method=method, confidence=confidence, level=level, seed=seed)
        except ConfigError as error:
            notes.append(f"left out: {error}")
            continue
        fits.append(fit)
        notes += _left_out(fit.scored, detector, attribute)
    if not fits:
        raise ConfigError("\n".join(note.removeprefix("left out: ") for note in notes))
    file = CalibrationFile(
        fitted_on=_fitted_on(results, detector, fits, identities),
        attributes={fit.attribute: fit.calibration for fit in fits},
    )
    return _answer(results, fits, tuple(notes)), file


@dataclass(frozen=True, eq=False)
class _Fit:
    """What was found for one attribute."""

    attribute: str
    scored: ScoredImages
    calibration: AttributeCalibration
    losses: pd.DataFrame
    promised: pd.DataFrame
    tables: tuple[Table, ...]

    @classmethod
    def of(
        cls,
        part: FinishedStudy,
        detector: str,
        *,
        method: Method,
        confidence: float,
        level: float | None,
        seed: int | None,
    ) -> Self:
        """Fit it."""
        attribute = part.attribute
        level = part.intervals.level if level is None else level
        scored = _scored(part, detector, method)
        losses = calibration_rows(
            scored,
            detector=detector,
            attribute=attribute,
            method=method,
            level=level,
            seed=part.intervals.seed if seed is None else seed,
        )
        promised = promise_rows(scored.verdicts, detector=detector, attribute=attribute, confidence=confidence)
        tables = (
            calibration_table(losses, attribute=attribute, level=level),
            promise_table(promised, attribute=attribute, confidence=confidence),
        )
        calibration = _of_attribute(scored, method, promised, confidence)
        return cls(attribute, scored, calibration, losses, promised, tables)


def _answer(results: ResultFolder, fits: Sequence[_Fit], notes: tuple[str, ...]) -> ResultTables:
    tables = [table for fit in fits for table in fit.tables]
    if len(fits) > 1:
        tables = [replace(table, name=f"{table.name}_{table.attribute}") for table in tables]
    numbers = {
        "calibration": pd.concat([fit.losses for fit in fits]),
        "promised_errors": pd.concat([fit.promised for fit in fits]),
    }
    return ResultTables.of(results.study, *tables, numbers=numbers, notes=notes)


def _check(method: str, confidence: float) -> None:
    if method not in get_args(Method):
        raise ConfigError(f"--method {method!r}: {nearest_hint(method, get_args(Method))}")
    if not 0 < confidence < 1:
        raise ConfigError(f"--confidence {confidence:g} (accepted: between 0 and 1, such as 0.95)")


def _scored(part: FinishedStudy, detector: str, method: Method) -> ScoredImages:
    part.need_labels()
    if method == "temperature" and len(part.classes) > 2:
        raise ConfigError(
            f"{part.attribute} has {len(part.classes)} classes, and only the winner's score is stored: no "
            "temperature can be fitted; say --method isotonic"
        )
    table = part.results.predictions(_COLUMNS)[detector]
    return ScoredImages.of(part.image_set, table, detector=detector, attribute=part.attribute)


def _of_attribute(
    scored: ScoredImages, method: Method, promised: pd.DataFrame, confidence: float
) -> AttributeCalibration:
    return AttributeCalibration(
        score_map=fitted(scored.verdicts, method),
        images=len(scored.verdicts),
        confidence=confidence,
        promises=tuple(
            PromisedThreshold(
                unit=row["unit"],
                error=row["error"],
                threshold=None if math.isnan(row["threshold"]) else row["threshold"],
            )
            for row in promised.to_dict("records")
        ),
    )


def _left_out(scored: ScoredImages, detector: str, attribute: str) -> Iterator[str]:
    """A line for each sort of images that says nothing about the scores."""
    sorts = {
        "which humans call no class": scored.unclear,
        "which it filtered": scored.filtered,
        "kept without a score": scored.without_score,
        "without a verdict": scored.failed,
    }
    told = ", ".join(f"{count:,} {words}" for words, count in sorts.items() if count)
    if told:
        yield f"{detector}, {attribute}: left out of the fit are images {told}."
    if scored.at_the_ends:
        yield (
            f"{detector}, {attribute}: {scored.at_the_ends:,} of {len(scored.verdicts):,} scores are 0 or 1, and "
            f"count as {SURE:g} away from it: log loss and temperature depend on it, the Brier score does "
            "not."
        )
    if scored.uncertain:
        yield (
            f"{detector}, {attribute}: {scored.uncertain:,} images of a class were filtered as uncertain, and "
            "what the detector took them for is not stored: the fit knows higher scores only. Without min_score "
            "it would know all."
        )


def _fitted_on(
    results: ResultFolder, detector: str, fits: Sequence[_Fit], identities: Sequence[Mapping[str, Any]]
) -> FittedOn:
    prompts = {fit.scored.index.prompt_ids[place] for fit in fits for place in fit.scored.verdicts.prompts}
    texts = dict(zip(results.image_set.prompts["prompt_id"], results.image_set.prompts["prompt"], strict=True))
    stages = {digest_of(stage) for identity in identities for stage in stages_in(identity)}
    return FittedOn(
        image_set=str(results.manifest.image_set["name"]),
        images_sha256=str(results.manifest.image_set["fingerprint"]),
        detector=detector,
        stages=tuple(sorted(stages)),
        prompts=tuple(fitted_prompt(name, texts.get(name)) for name in sorted(prompts)),
    )
