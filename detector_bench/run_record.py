"""`run.json`: what a result rests on, and what each session of a run did."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

from detector_bench.atomic_files import write_text
from detector_bench.dataset import ImageSet
from detector_bench.provenance import environment, peak_memory_mib
from detector_bench.runner.run import RunRecord

_OF_A_SESSION = ("images_judged", "seconds", "seconds_per_stage", "images_per_stage")


def write_run_record(
    path: Path,
    *,
    study: str,
    image_set: ImageSet,
    record: RunRecord,
    counts: dict[str, dict[str, dict[str, int]]],
    began: datetime,
) -> None:
    """Write `run.json`, with the sessions that an earlier one lists and a new one at their end.

    Args:
        path: the file.
        study: the study's name.
        image_set: what was judged.
        record: what the run did, and by which versions.
        counts: images by detector, attribute and status.
        began: when this session began.
    """
    details = asdict(record)
    session = {
        "began": began.isoformat(timespec="seconds"),
        **{name: details.pop(name) for name in _OF_A_SESSION},
        "peak_memory_mib": round(peak_memory_mib(), 1),
    }
    content = {
        "study": study,
        "environment": environment(),
        "seeds": {},  # nothing here is drawn at random
        "image_set": {"name": image_set.name, "fingerprint": image_set.fingerprint(), "images": details["images"]},
        "detectors": {
            name: {
                "fingerprint": details["fingerprints"][name],
                "counts": counts.get(name, {}),
                "identity": identity,
            }
            for name, identity in details["identities"].items()
        },
        "stages": details["stage_fingerprints"],
        "weights": details["weights"],
        "spending": details["spending"],
        "sessions": [*_earlier_sessions(path), session],
    }
    write_text(path, json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def _earlier_sessions(path: Path) -> list[Any]:
    try:
        sessions = json.loads(path.read_text(encoding="utf-8"))["sessions"]
    except (OSError, ValueError, KeyError, TypeError):
        return []
    return sessions if isinstance(sessions, list) else []
