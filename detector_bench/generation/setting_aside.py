"""Sets images aside whose requests are made anew, and says where they lie."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from detector_bench.errors import DetectorBenchError
from detector_bench.generation.journal import SET_ASIDE, Journal, Known
from detector_bench.generation.plan import PlannedRequest
from detector_bench.vocabulary.generations import GenerationStatus


def set_aside(folder: Path, known: Known) -> Path:
    """Where an image lies once it is set aside, for its request is made anew."""
    path = Path(known.path or "")
    return folder / SET_ASIDE / path.parent.name / f"{(known.image_sha256 or '')[:12]}_{path.name}"


def move_aside(journal: Journal, requests: Sequence[PlannedRequest], folder: Path) -> int:
    """Set aside the images and refusals of those requests that are others now: they stay in
    `generation/replaced/`, and so do their rows.

    Returns:
        How many files were moved.
    """
    moved: dict[str, str] = {}
    now = {each.request.image_id: each.sha256 for each in requests}
    changed = {
        image_id: known
        for image_id, known in journal.known(list(now)).items()
        if known.status in (GenerationStatus.MADE, GenerationStatus.BLOCKED)
        and known.request_sha256 != now[image_id]
    }
    for image_id, known in changed.items():
        if known.path is None or known.image_sha256 is None or not (folder / known.path).is_file():
            continue
        aside = set_aside(folder, known)
        try:
            aside.parent.mkdir(parents=True, exist_ok=True)
            (folder / known.path).replace(aside)
        except OSError as error:
            raise DetectorBenchError(f"cannot move {str(folder / known.path)!r}: {error}") from error
        moved[image_id] = aside.relative_to(folder).as_posix()
    if changed:
        journal.replace(list(changed), moved=moved)
    return len(moved)
