"""What has to be said of calibrated detectors: where their calibration comes from, beside where it is used."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pandas as pd

from detector_bench.dataset.published_text import without_folders
from detector_bench.detectors.base import build_detector
from detector_bench.errors import DetectorBenchError
from detector_bench.perception.calibration import CalibrationFile, FittedPrompt, ScoreCalibration
from detector_bench.runner.prediction_store import prediction_files, written_maker
from detector_bench.sealed import digest_of
from detector_bench.study_configuration import StudyConfiguration


def calibration_notes(study: StudyConfiguration, predictions: Path, prompts: pd.DataFrame) -> tuple[str, ...]:
    """Prompts that a calibration was fitted on, and calibrations of other stages: a line each.

    Args:
        study: its detectors.
        predictions: the folder of their stored predictions.
        prompts: columns `prompt_id, prompt`, of the image set.
    """
    notes: list[str] = []
    for name, stage in _calibrations(study):
        try:
            file = CalibrationFile.read(study.locator(allow_download=False).locate(stage.file))
        except DetectorBenchError as error:
            why = without_folders(str(error).splitlines()[0])
            notes.append(f"{name}: whether its calibration was fitted on these prompts cannot be told ({why})")
        else:
            notes += _notes_on(name, stage, file, prompts, identities_of(predictions / name))
    return tuple(dict.fromkeys(notes))


def _calibrations(study: StudyConfiguration) -> Iterator[tuple[str, ScoreCalibration]]:
    """Each detector's name with each calibration that it reads; a detector that cannot be built has none."""
    for entry in study.detectors:
        with suppress(DetectorBenchError):
            detector = build_detector(entry.kind, name=entry.name, parameters=entry.parameters)
            yield from ((entry.name, stage) for stage in detector.stages if isinstance(stage, ScoreCalibration))


def _notes_on(
    name: str,
    stage: ScoreCalibration,
    file: CalibrationFile,
    prompts: pd.DataFrame,
    identities: Sequence[Mapping[str, Any]],
) -> Iterator[str]:
    origin = f"{stage.file.name}, fitted on {file.fitted_on.image_set!r}"
    here = [fitted_prompt(row["prompt_id"], row["prompt"]) for row in prompts.to_dict("records")]
    known = [each for each in here if any(each.is_same(fit) for fit in file.fitted_on.prompts)]
    if known:
        yield (
            f"{name}: {len(known):,} of {len(here):,} prompts are among those that its calibration ({origin}) was "
            f"fitted on, the first is {known[0].prompt_id!r}: on them its scores and promises look better than "
            "they are"
        )
    stages = {digest_of(each) for identity in identities for each in stages_in(identity)}
    if identities and not set(file.fitted_on.stages) <= stages:
        yield (
            f"{name}: its calibration ({origin}) is that of {file.fitted_on.detector!r}, whose stages are not "
            "those here: scores of another network, crop or filter are worth something else"
        )


def fitted_prompt(prompt_id: str, text: Any) -> FittedPrompt:
    """A prompt of an image set as calibration files have it; its text may be missing."""
    return FittedPrompt(prompt_id=prompt_id, prompt=text if isinstance(text, str) else "")


def identities_of(predictions: Path) -> list[Mapping[str, Any]]:
    """What made a detector's stored predictions, each version once; none of files that do not say it."""
    found = [written_maker(path).identity for path in prediction_files(predictions)]
    return list({digest_of(each): each for each in found if isinstance(each, Mapping)}.values())


def stages_in(identity: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The identities of the stages that a detector reads, of a composite judge those of its parts."""
    yield from identity.get("stages", ())
    for part in identity.get("parts", {}).values():
        yield from stages_in(part)
