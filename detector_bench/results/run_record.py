"""`run.json`: what a result rests on, what each session of a run did, and how the numbers were computed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

from detector_bench.atomic_files import write_text
from detector_bench.dataset import ImageSet
from detector_bench.results.provenance import environment, peak_memory_mib
from detector_bench.runner.run import RunRecord

NAME = "run.json"
EVALUATION = "evaluation"
"""Under this key stand the settings of the evaluation."""

_OF_A_SESSION = ("images_judged", "seconds", "seconds_per_stage", "images_per_stage", "device_per_stage")
_OF_PREDICTIONS = ("stages", "weights", "spending", "sessions")
"""What a record of an evaluation takes over from the record of the run that judged."""

Counts = Mapping[str, Mapping[str, Mapping[str, int]]]
"""Images by detector, attribute and status."""


def read_run_record(folder: Path) -> dict[str, Any]:
    """The content of a result folder's `run.json`; empty where there is none, or it is no record."""
    try:
        record = json.loads((folder / NAME).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return record if isinstance(record, dict) else {}


def write_run_record(
    folder: Path,
    *,
    study: str,
    image_set: ImageSet,
    record: RunRecord,
    counts: Counts,
    began: datetime,
    settings: Mapping[str, Any],
    draws: Mapping[str, Any],
) -> None:
    """Write `run.json`, with the sessions that an earlier one lists and a new one at their end.

    Args:
        folder: the result folder.
        study: the study's name.
        image_set: what was judged.
        record: what the run did, and by which versions.
        counts: images by detector, attribute and status.
        began: when this session began.
        settings: of the evaluation, see `evaluation_settings`.
        draws: what was drawn at random, each with its seed.
    """
    details = asdict(record)
    earlier = read_run_record(folder)
    session = {
        "began": began.isoformat(timespec="seconds"),
        **{name: details.pop(name) for name in _OF_A_SESSION},
        "peak_memory_mib": round(peak_memory_mib(), 1),
    }
    stages = {
        label: {
            "fingerprint": own,
            "precision": details["precision_per_stage"][label],
            "devices": _devices(label, session["device_per_stage"], _mapping(earlier.get("stages"))),
        }
        for label, own in details["stage_fingerprints"].items()
    }
    detectors = {
        name: {
            "fingerprint": details["fingerprints"][name],
            "counts": counts.get(name, {}),
            "identity": identity,
        }
        for name, identity in details["identities"].items()
    }
    content = {
        **_head(study, image_set, settings=settings, draws=draws),
        "detectors": detectors,
        "stages": stages,
        "weights": details["weights"],
        "spending": details["spending"],
        "sessions": [*_sessions(earlier), session],
    }
    _write(folder, content)


def write_evaluation_record(
    folder: Path,
    *,
    study: str,
    image_set: ImageSet,
    predictions: Path,
    place: str,
    counts: Counts,
    settings: Mapping[str, Any],
    draws: Mapping[str, Any],
) -> None:
    """Write `run.json` for numbers that were computed from stored predictions.

    What the run that judged has recorded is taken over, its environment as that of the predictions.

    Args:
        folder: the result folder.
        study: the study's name.
        image_set: whose labels were counted.
        predictions: the folder of the predictions.
        place: that folder as the record names it, as seen from the result folder.
        counts: images by detector, attribute and status.
        settings: of the evaluation, see `evaluation_settings`.
        draws: what was drawn at random, each with its seed.
    """
    judged = read_run_record(predictions.parent)
    # Evaluated a second time, the environment at the top is already that of an evaluation.
    of_run = _mapping(judged.get("predictions")).get("environment") or judged.get("environment")
    known = _mapping(judged.get("detectors"))
    content = {
        **_head(study, image_set, settings=settings, draws=draws),
        "predictions": {"from": place, "environment": of_run},
        "detectors": {name: {**_mapping(known.get(name)), "counts": each} for name, each in counts.items()},
        **{name: judged[name] for name in _OF_PREDICTIONS if name in judged},
    }
    _write(folder, content)


def _head(
    study: str, image_set: ImageSet, *, settings: Mapping[str, Any], draws: Mapping[str, Any]
) -> dict[str, Any]:
    return {
        "study": study,
        "environment": environment(),
        "seeds": dict(draws),
        EVALUATION: dict(settings),
        "image_set": {
            "name": image_set.name,
            "fingerprint": image_set.fingerprint(),
            "images": len(image_set.images),
        },
    }


def _devices(label: str, now: Mapping[str, str], earlier: Mapping[str, Any]) -> list[str]:
    """Where a stage ran in this and earlier sessions; empty where all its results were there already."""
    found = _mapping(earlier.get(label)).get("devices")
    before = [str(device) for device in found] if isinstance(found, list) else []
    return list(dict.fromkeys([*before, *([now[label]] if label in now else [])]))


def _sessions(record: Mapping[str, Any]) -> list[Any]:
    sessions = record.get("sessions")
    return sessions if isinstance(sessions, list) else []


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _write(folder: Path, content: Mapping[str, Any]) -> None:
    write_text(folder / NAME, json.dumps(content, indent=2, ensure_ascii=False) + "\n")
