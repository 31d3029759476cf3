"""What a report says about the proof behind its numbers: contradictions on top, what was verified below."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from detector_bench.results.manifest import NAME as RESULTS
from detector_bench.results.manifest import Manifest
from detector_bench.results.verification_record import Outcome, Verification
from detector_bench.sealed import sealed_digest


def proof_content(folder: Path, manifest: Manifest) -> dict[str, Any]:
    """What the page's template shows.

    Args:
        folder: the result folder.
        manifest: its `results.json`.

    Returns:
        `contradictions`, sentences that belong above all numbers; `seal` of `results.json`; `not_compared`, what
        nobody could compare when the numbers were made; `verified`, the record of `detector-bench verify`, or None
        where it was not called since.
    """
    seal = sealed_digest(folder / RESULTS) or ""
    verified = Verification.read(folder, results=seal)
    contradictions = [
        f"The study does not fit the predictions of {name}, and was evaluated all the same: {'; '.join(lines)}."
        for name, lines in manifest.proof.differences.items()
    ]
    images = manifest.proof.images
    if images is not None and images.changed:
        contradictions.append(
            f"{images.changed:,} of {images.same + images.changed:,} images that were compared are not those that "
            "were judged."
        )
    contradictions += [
        f"Verification found a contradiction: {link.says} ({'; '.join(link.problems[:3])})."
        for link in (verified.of(Outcome.FALSE) if verified is not None else ())
    ]
    return {
        "contradictions": contradictions,
        "seal": seal,
        "not_compared": [f"{name}: {'; '.join(lines)}" for name, lines in manifest.proof.not_told.items()],
        "verified": verified,
    }
