"""Result folders as two studies of the same detectors, of which one says how these err."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from detector_bench.dataset.sample_file import LabelSample, sample_of
from detector_bench.errors import ConfigError
from detector_bench.evaluation.validated_elsewhere import JudgedStudy
from detector_bench.results.finished_study import ResultFolder
from detector_bench.results.run_record import read_run_record

PREDICTION_COLUMNS = ("score",)
"""What is compared beside the verdicts."""


def judged_study(
    results: ResultFolder, sample: LabelSample | None, predictions: Mapping[str, pa.Table]
) -> JudgedStudy:
    """A result folder with the fingerprints that its run recorded."""
    recorded = read_run_record(results.path).get("detectors")
    found = recorded if isinstance(recorded, Mapping) else {}
    fingerprints = {
        name: str(each["fingerprint"])
        for name, each in found.items()
        if name in predictions and isinstance(each, Mapping) and "fingerprint" in each
    }
    return JudgedStudy(results.path.resolve().name, results.image_set, predictions, fingerprints, sample)


def study_validated_on(results: ResultFolder, folder: Path) -> JudgedStudy:
    """The study that says how the detectors of another err.

    Args:
        results: the other.
        folder: its result folder.

    Raises:
        ConfigError: it is no result folder, is the other's own, or is about the same image set; or it defines
            other classes of an attribute.
    """
    if folder.resolve() == results.path.resolve():
        raise ConfigError(
            f"{str(folder)!r} is the study itself: name another one, or estimate with its own labels, without "
            "--validated-on"
        )
    other = ResultFolder.open(folder)
    if other.image_set_folder.resolve() == results.image_set_folder.resolve():
        raise ConfigError(
            f"{str(folder)!r} is about the same image set as {str(results.path)!r}, whose labels say more: "
            "estimate without --validated-on"
        )
    return judged_study(other, sample_of(other.image_set), other.predictions(PREDICTION_COLUMNS))


def attributes_of_both(attributes: Sequence[str], other: JudgedStudy) -> list[str]:
    """The attributes that the other study has labels of.

    Raises:
        ConfigError: it has labels of none of them.
    """
    known = [name for name in attributes if name in other.image_set.attributes]
    if not known:
        raise ConfigError(
            f"no image of {other.name!r} has a label of {', '.join(attributes)}: it validates no detector (it "
            f"has labels of: {', '.join(other.image_set.attributes) or 'nothing'})"
        )
    return known
