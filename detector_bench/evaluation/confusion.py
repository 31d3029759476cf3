"""Confusion matrices: how many images with each human label got each verdict, as a long table."""

from __future__ import annotations

import numpy as np
import pandas as pd

from detector_bench.evaluation.counting import Counts
from detector_bench.metrics import pool
from detector_bench.vocabulary import ALL, Status
from detector_bench.vocabulary.columns import CONFUSION_COLUMNS

NO_VERDICT = "no_verdict"
"""In place of a verdict: the detector failed on the image, or never ran on it."""


def confusion_table(counts: Counts) -> pd.DataFrame:
    """The confusion matrices of one attribute, for every detector, T2I model and category.

    Args:
        counts: of the attribute. Images without a human label are not in it.

    Returns:
        Columns as in `schema.CONFUSION_COLUMNS`, words as categoricals. Rows come by detector, T2I model and
        category ("all" first), human label and verdict; human labels without an image have none.
    """
    pooled = pool(counts.verdicts, scopes=counts.scopes)
    detector, t2i_model, category, label = np.nonzero(pooled.sum(axis=-1))
    words = {
        "detector": (detector, counts.detectors),
        "attribute": (np.zeros_like(detector), (counts.attribute.name,)),
        "t2i_model": (t2i_model, (ALL, *counts.t2i_models)),
        "category": (category, (ALL, *counts.scopes.categories)),
        "human_label": (label, counts.attribute.labels),
    }
    verdicts = (*counts.attribute.classes, Status.FILTERED.value, NO_VERDICT)
    columns = {
        name: _categorical(np.repeat(codes, len(verdicts)), known) for name, (codes, known) in words.items()
    }
    columns["verdict"] = _categorical(np.tile(np.arange(len(verdicts)), detector.size), verdicts)
    images = pooled[detector, t2i_model, category, label].ravel()
    return pd.DataFrame(columns | {"images": images})[list(CONFUSION_COLUMNS)]


def _categorical(codes: np.ndarray, known: tuple[str, ...]) -> pd.Categorical:
    return pd.Categorical.from_codes(codes, pd.Index(known, dtype="str"))
