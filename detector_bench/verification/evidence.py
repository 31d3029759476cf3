"""The links to what was judged and what judged it: images, weights, and verdicts that come out again."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from detector_bench.dataset import ImageSet
from detector_bench.dataset.image_paths import shown
from detector_bench.detectors.base import Detector, Prediction
from detector_bench.errors import DetectorBenchError, MissingExtraError, WeightsError
from detector_bench.perception.stage import Stage, with_inputs
from detector_bench.results.manifest import Manifest
from detector_bench.results.run_record import environment, read_run_record
from detector_bench.results.verification_record import Link, Outcome
from detector_bench.runner.image_reading import ImageFile, hash_files
from detector_bench.runner.judging import BatchJudge
from detector_bench.runner.loading import loaded_batches
from detector_bench.runner.run_settings import RunSettings
from detector_bench.runner.stage_cache import StageCache
from detector_bench.runner.stored_predictions import StoredPredictions
from detector_bench.study_configuration import StudyConfiguration
from detector_bench.study_proof import judged_contents
from detector_bench.verification.files import link
from detector_bench.weights import WeightsLocator

SCORE_TOLERANCE = 1e-4


def detectors(differences: Mapping[str, Sequence[str]], not_told: Mapping[str, Sequence[str]], names: int) -> Link:
    """Whether the study's detectors are those that judged, as `study_proof` compared them."""
    problems = [f"{name}: {line}" for name, lines in differences.items() for line in lines]
    if problems:
        return link("detectors", Outcome.FALSE, "other detectors judged than the study says", problems)
    untold = [f"{name}: {line}" for name, lines in not_told.items() for line in lines]
    says = f"{names:,} detectors are, setting for setting, those that judged"
    if names == 1:
        says = "the detector is, setting for setting, the one that judged"
    if untold:
        return link("detectors", Outcome.OPEN, f"{says}, as far as it can be told", untold)
    return link("detectors", Outcome.PROVED, says)


def weights(study: StudyConfiguration, manifest: Manifest, locator: WeightsLocator) -> Link:
    """Whether the weights here, with all that lies beside them, are those that judged: equal fingerprints."""
    proved, problems, missing = 0, [], []
    for detector in study.build_detectors():
        files = manifest.proof.predictions.get(detector.name)
        judged = None if files is None else files.fingerprint
        try:
            own = BatchJudge([detector], weights=locator).detector_fingerprints[detector.name]
            for stage in with_inputs(detector.stages):
                for file in stage.weights():
                    locator.locate(file)
        except (WeightsError, MissingExtraError) as error:
            missing.append(f"{detector.name}: {str(error).splitlines()[0]}")
            continue
        if judged is None:
            missing.append(f"{detector.name}: its predictions do not say what made them")
        elif own == judged:
            proved += 1
        else:
            problems.append(
                f"{detector.name}: the weights, or what its settings stand for on this machine, are others"
            )
    says = f"{proved:,} of {len(study.detectors):,} detectors have the weights that judged"
    if problems:
        return link("weights", Outcome.FALSE, says, problems)
    return link("weights", Outcome.OPEN if missing else Outcome.PROVED, says, missing)


def images(image_set: ImageSet, stored: StoredPredictions, names: Sequence[str]) -> Link:
    """Whether every image has the content that was judged, by every detector."""
    judged = judged_contents(stored, names)
    ids = list(judged)
    places = _places(image_set, ids)
    there = [image_id for image_id in ids if image_id in places]
    now = hash_files([places[each] for each in there], cache=StageCache(None), threads=os.cpu_count() or 1)
    gone = len(ids) - len(there) + sum(sha256 is None for sha256 in now)
    problems = [
        f"{image_id}: not the image that was judged"
        for image_id, sha256 in zip(there, now, strict=True)
        if sha256 is not None and judged[image_id] != {sha256}
    ]
    says = f"{len(ids) - gone - len(problems):,} of {len(ids):,} images have the content that was judged"
    if problems:
        return link("images", Outcome.FALSE, says, problems)
    if not ids:
        return link("images", Outcome.OPEN, "the predictions do not say which content was judged")
    if gone:
        return link("images", Outcome.OPEN, f"{says}; {gone:,} are not there, or cannot be read")
    return link("images", Outcome.PROVED, says)


def _places(image_set: ImageSet, image_ids: Sequence[str]) -> dict[str, Any]:
    wanted = set(image_ids)
    images = image_set.table("images").data.select(["image_id", "path"])
    rows = zip(images["image_id"].cast(pa.string()).to_pylist(), images["path"].to_pylist(), strict=True)
    return {image_id: image_set.image_place(path) for image_id, path in rows if image_id in wanted}


def judged_again(
    study: StudyConfiguration,
    image_set: ImageSet,
    stored: StoredPredictions,
    locator: WeightsLocator,
    *,
    number: int,
    seed: int,
    folder: Path,
) -> Link:
    """Judge some images again, without any kept result, and compare with the stored verdicts.

    Detectors that ask a service are left out: an answer costs, and need not come again.
    """
    asked = [each for each in study.build_detectors() if not _asks_a_service(each)]
    left_out = [entry.name for entry in study.detectors if entry.name not in {each.name for each in asked}]
    rng = np.random.default_rng(seed)
    table = image_set.table("images").data.select(["image_id", "path"])
    rows = np.sort(rng.permutation(table.num_rows)[:number])
    chosen = [(table["image_id"][int(row)].as_py(), table["path"][int(row)].as_py()) for row in rows]
    same, differences, missing = 0, [], []
    for detector in asked:
        try:
            again = _verdicts_again(detector, image_set, chosen, study, locator)
        except DetectorBenchError as error:
            missing.append(f"{detector.name}: {str(error).splitlines()[0]}")
            continue
        before = _stored_verdicts(stored, detector.name, [image_id for image_id, _ in chosen])
        for key, verdict in again.items():
            if key in before and _agree(verdict, before[key]):
                same += 1
            else:
                differences.append(
                    f"{detector.name}, {key[0]}, {key[1]}: {_brief(before.get(key))}, now {_brief(verdict)}"
                )
    missing += [f"{name}: asks a service, and was not asked again" for name in left_out]
    says = (
        f"{same:,} of {same + len(differences):,} verdicts on {len(chosen):,} images, drawn with seed {seed}, "
        "come out again"
    )
    if differences:
        return link("judged again", Outcome.FALSE, says, [*differences, *_other_versions(folder)])
    if missing or not same:
        return link("judged again", Outcome.OPEN, says, missing)
    return link("judged again", Outcome.PROVED, says)


class _Verdict(NamedTuple):
    status: str
    label: str | None
    score: float | None
    value: float | None
    """Of attributes with a unit."""


def _asks_a_service(detector: Detector) -> bool:
    return any(
        stage.sends() is not None or type(stage).spending is not Stage.spending
        for stage in with_inputs(detector.stages)
    )


def _verdicts_again(
    detector: Detector,
    image_set: ImageSet,
    chosen: Sequence[tuple[str, str]],
    study: StudyConfiguration,
    locator: WeightsLocator,
) -> dict[tuple[str, str], _Verdict]:
    judge = BatchJudge([detector], weights=locator)
    files = [ImageFile(each, image_set.image_place(path), shown(path), (0,)) for each, path in chosen]
    judge.require_ready(files)
    settings = RunSettings(batch_size=study.batch_size, max_pixels=study.max_pixels, cache_folder=None)
    cache = StageCache(None)
    judge.execution.cache = cache
    found: dict[tuple[str, str], _Verdict] = {}
    with closing(loaded_batches(files, cache=cache, rules=judge.loading_rules(settings))) as batches:
        for batch in batches:
            for each in _flat(judge.judge(batch)):
                found[each.image_id, each.attribute] = _Verdict(
                    each.status.value, each.label, each.score, each.value
                )
    return found


def _flat(predictions: Sequence[Sequence[Prediction]]) -> Iterator[Prediction]:
    for of_detector in predictions:
        yield from of_detector


def _stored_verdicts(
    stored: StoredPredictions, detector: str, image_ids: Sequence[str]
) -> dict[tuple[str, str], _Verdict]:
    problems: list[Any] = []
    table = StoredPredictions(stored.folder, also=("score", "value")).read(
        detector, problems, of_images=pa.array(image_ids, pa.string())
    )
    columns = [table[name].to_pylist() for name in ("image_id", "attribute", *_Verdict._fields)]
    return {
        (image_id, attribute): _Verdict(*verdict) for image_id, attribute, *verdict in zip(*columns, strict=True)
    }


def _agree(one: _Verdict, other: _Verdict) -> bool:
    if one[:2] != other[:2]:
        return False
    return _near(one.score, other.score) and _near(one.value, other.value)


def _near(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is other
    # Values have a unit, in which they may be large.
    return math.isclose(one, other, rel_tol=SCORE_TOLERANCE, abs_tol=SCORE_TOLERANCE)


def _brief(verdict: _Verdict | None) -> str:
    if verdict is None:
        return "no verdict"
    said = verdict.label or verdict.status
    numbers = [f"{name} {number:.4f}" for name, number in verdict._asdict().items() if isinstance(number, float)]
    return f"{said} ({', '.join(numbers)})" if numbers else said


def _other_versions(folder: Path) -> list[str]:
    """Packages whose version is another one than when the images were judged."""
    then = read_run_record(folder).get("environment", {}).get("packages", {})
    now = environment()["packages"]
    return [
        f"{name} was {version} and is {now.get(name, 'not there')}"
        for name, version in then.items()
        if now.get(name) != version
    ]
