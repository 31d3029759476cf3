"""Did this study make these predictions, of these images? Asked before numbers are made of stored predictions."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from detector_bench.dataset import ImageSet
from detector_bench.dataset.image_sources import LocalImage
from detector_bench.dataset.published_text import without_folders
from detector_bench.detectors.base import build_detector
from detector_bench.errors import DetectorBenchError
from detector_bench.perception.identity import NOT_TOLD
from detector_bench.results.proof import ImagesCompared, JudgedFiles
from detector_bench.runner.image_reading import hash_files
from detector_bench.runner.prediction_store import written_maker
from detector_bench.runner.stage_cache import StageCache, default_cache_folder
from detector_bench.runner.stored_predictions import StoredPredictions, sha256_of_file
from detector_bench.study_configuration import StudyConfiguration

MOST_COMPARED = 20_000
"""Images whose content an evaluation compares; of more, so many are drawn. `verify` compares all of them."""

_SHOWN = 3
_NO_IDENTITY = "its files do not say what made them"


class UnprovedError(DetectorBenchError):
    """Stored predictions are not what the study, or the image set, says."""


@dataclass
class StudyComparison:
    """A study and stored predictions, side by side; its fields are those of `Proof`.

    Attributes:
        predictions: by detector, the files and the version that made them.
        differences: by detector, what does not fit, a line each.
        not_told: by detector, what could not be compared.
    """

    predictions: dict[str, JudgedFiles] = field(default_factory=dict)
    differences: dict[str, tuple[str, ...]] = field(default_factory=dict)
    not_told: dict[str, tuple[str, ...]] = field(default_factory=dict)


def compare_with_study(study: StudyConfiguration, stored: StoredPredictions) -> StudyComparison:
    """Compare what a study says of its detectors with what their stored predictions say of themselves.

    No weights file is read: unpinned weights, and settings that depend on the machine, are left out and named.

    Args:
        study: its detectors are among the stored ones.
        stored: the predictions.
    """
    found = StudyComparison()
    for entry in study.detectors:
        name = entry.name
        differences: list[str] = []
        not_told: list[str] = []
        identities: dict[str | None, Any] = {}
        for path in stored.files(name):
            fingerprint, identity, damage = written_maker(path)
            identities[fingerprint] = identity
            differences += [f"{path.name}: {damage}"] * bool(damage)
        known = {fingerprint: identity for fingerprint, identity in identities.items() if fingerprint is not None}
        if len(identities) > 1:
            differences.append(f"they are of {len(identities)} versions of the detector")
        if not known:
            not_told.append(_NO_IDENTITY)
        for identity in known.values():
            try:
                detector = build_detector(entry.kind, name=name, parameters=entry.parameters)
            except DetectorBenchError as error:
                why = without_folders(str(error).splitlines()[0])
                not_told.append(f"the study's detector is not there to be compared ({why})")
                break
            unlike, untold = unlike_parts(detector.identity(weights=None), identity)
            differences += unlike
            not_told += untold
        found.predictions[name] = _judged_files(stored, name, identities)
        if differences:
            found.differences[name] = tuple(dict.fromkeys(differences))
        if not_told:
            found.not_told[name] = tuple(dict.fromkeys(not_told))
    return found


def judged_files(stored: StoredPredictions, detectors: Sequence[str]) -> dict[str, JudgedFiles]:
    """The files of detectors that have just judged, by detector."""
    found = {}
    for name in detectors:
        written = {fingerprint: None for path in stored.files(name) for fingerprint in [written_maker(path)[0]]}
        found[name] = _judged_files(stored, name, written)
    return found


def _judged_files(stored: StoredPredictions, name: str, identities: Mapping[str | None, Any]) -> JudgedFiles:
    files = {path.name: sha256_of_file(path) or "" for path in stored.files(name)}
    own = next(iter(identities)) if len(identities) == 1 else None
    return JudgedFiles(fingerprint=own, files=dict(sorted(files.items())))


def refuse_differences(differences: Mapping[str, Sequence[str]], *, judged: Path) -> None:
    """Refuse predictions that the study did not make.

    Raises:
        UnprovedError: there is a difference.
    """
    lines = [f"  {name}: {_some(found)}" for name, found in differences.items()]
    if lines:
        raise UnprovedError(
            "\n".join(
                [
                    f"{str(judged)!r} was not made by this study:",
                    *lines,
                    "  Run the study, name the one that made them with --study, or say --allow-unproved: the "
                    "numbers are made all the same, and the results say what does not fit",
                ]
            )
        )


def _some(lines: Sequence[str]) -> str:
    rest = len(lines) - _SHOWN
    return "; ".join(lines[:_SHOWN]) + (f"; and {rest} more" if rest > 0 else "")


def unlike_parts(declared: Any, made: Any, place: tuple[str, ...] = ()) -> tuple[list[str], list[str]]:
    """Compare two identities of a detector part by part.

    Returns:
        Differences, and the names of what is not told: a line each, every part named once.
    """
    pairs: list[tuple[str, Any, Any]]
    if isinstance(declared, str) and isinstance(made, Mapping) and made.keys() == {"pinned", "found"}:
        # A checkpoint, of which the study pins a part.
        pairs = [("pinned", declared, made["pinned"]), ("found", NOT_TOLD, made["found"])]
    elif isinstance(declared, Mapping) and isinstance(made, Mapping):
        pairs = [(str(key), declared.get(key), made.get(key)) for key in dict.fromkeys([*declared, *made])]
    elif isinstance(declared, list) and isinstance(made, list) and len(declared) == len(made):
        pairs = [(str(number), one, other) for number, (one, other) in enumerate(zip(declared, made, strict=True))]
    elif declared == NOT_TOLD:
        return [], [f"{_named(place)} was not compared"]
    elif declared == made:
        return [], []
    else:
        return [f"{_named(place)} is {_brief(declared)} in the study, {_brief(made)} in what made them"], []
    differences: list[str] = []
    not_told: list[str] = []
    for key, one, other in pairs:
        unlike, untold = unlike_parts(one, other, (*place, key))
        differences += unlike
        not_told += untold
    return list(dict.fromkeys(differences)), list(dict.fromkeys(not_told))


def _named(place: Sequence[str]) -> str:
    shown = [part for part in place if part != "parameters" and not part.isdecimal()]
    return ".".join(shown) or "the detector"


def _brief(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else text[:57] + "..."


def compare_images(
    image_set: ImageSet, stored: StoredPredictions, detectors: Sequence[str]
) -> tuple[ImagesCompared, list[str]]:
    """Compare images with the content that verdicts are about.

    Images at addresses are not fetched. Of more than `MOST_COMPARED` images some are drawn, by a fixed seed.

    Returns:
        What was found, and the ids of the images that are others now.
    """
    judged = judged_contents(stored, detectors, most=MOST_COMPARED)
    paths = _local_images(image_set, judged)
    cache_folder = default_cache_folder()
    with closing(StageCache(cache_folder if _usable(cache_folder) else None)) as cache:
        now = hash_files(list(paths.values()), cache=cache, threads=os.cpu_count() or 1)
    changed = [
        image_id
        for image_id, sha256 in zip(paths, now, strict=True)
        if sha256 is not None and judged[image_id] != {sha256}
    ]
    there = sum(sha256 is not None for sha256 in now)
    found = ImagesCompared(
        of=len(image_set.image_ids),
        same=there - len(changed),
        changed=len(changed),
        not_there=len(judged) - there,
    )
    return found, changed


def refuse_changed_images(changed: Sequence[str]) -> None:
    """Refuse numbers about images that are not those that were judged.

    Raises:
        UnprovedError: there is one.
    """
    if changed:
        shown = ", ".join(repr(image_id) for image_id in changed[:_SHOWN])
        several = f"{len(changed):,} images are not those that were"
        what = "1 image is not the one that was" if len(changed) == 1 else several
        raise UnprovedError(
            f"{what} judged ({shown}{', ...' if len(changed) > _SHOWN else ''}): run the study again, or say "
            "--allow-unproved"
        )


def _usable(folder: Path) -> bool:
    return folder.is_dir() and os.access(folder, os.W_OK)


def judged_contents(
    stored: StoredPredictions, detectors: Sequence[str], *, most: int | None = None
) -> dict[str, set[str]]:
    """The sha256 of what was judged, by image: several where detectors judged different contents.

    Args:
        stored: the predictions.
        detectors: whose.
        most: so many rows of each detector are drawn, by a fixed seed; None: all rows count.
    """
    found: dict[str, set[str]] = {}
    for name in detectors:
        random, left, problems = np.random.default_rng(0), most, list[Any]()
        pieces = stored.pieces(name, ("image_id", "image_sha256"), problems)
        for number in range(len(pieces)) if left is None else random.permutation(len(pieces)):
            if left == 0:
                break
            table = pieces[int(number)].read(problems)
            if left is not None:
                drawn = random.permutation(table.num_rows)[:left]
                table, left = table.take(pa.array(np.sort(drawn))), left - len(drawn)
            ids, contents = table["image_id"].to_pylist(), table["image_sha256"].to_pylist()
            for image_id, sha256 in zip(ids, contents, strict=True):
                if sha256:
                    found.setdefault(image_id, set()).add(sha256)
    return found


def _local_images(image_set: ImageSet, image_ids: Mapping[str, Any]) -> dict[str, LocalImage]:
    images = image_set.table("images").data.select(["image_id", "path"])
    wanted = pc.is_in(images["image_id"].cast(pa.string()), pa.array(list(image_ids), pa.string()))
    found = images.filter(wanted)
    places = {
        image_id: image_set.image_place(path)
        for image_id, path in zip(found["image_id"].to_pylist(), found["path"].to_pylist(), strict=True)
    }
    return {image_id: place for image_id, place in places.items() if isinstance(place, LocalImage)}
