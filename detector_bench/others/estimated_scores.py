"""Scores of other benchmarks over all images, where only some have a human label: estimates of what the labels of
all would give, from the labels that there are and all detectors' verdicts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from detector_bench.evaluation.intervals import Intervals
from detector_bench.others.judgements import NO_CELL, NO_VERDICT, DrawnLabels, Judgements
from detector_bench.others.score_system import ScoreSystem
from detector_bench.vocabulary.columns import METRIC_COLUMNS

if TYPE_CHECKING:
    from detector_bench.dataset import ImageSet
    from detector_bench.dataset.sample_file import LabelSample

ESTIMATED = {"prediction_powered": True, "labels_only": False}
"""What ends the variant of an estimate, as in `as_code, prediction_powered`, and whether detectors help it."""


def estimated_scores(
    systems: Sequence[ScoreSystem],
    judgements: Judgements,
    intervals: Intervals,
    *,
    image_set: ImageSet | None = None,
    sample: LabelSample | None = None,
    complete: bool = False,
) -> pd.DataFrame:
    """Estimate every system's scores of all images, by the detectors and the labels, and by the labels alone.

    An image counts as labelled if it has every label that the system needs and that any image has; an edited photo
    for BiasPainter, if its seed photo has them, too.

    Args:
        systems: whose scores.
        judgements: of all images, by the humans first.
        intervals: whether there are any, their level, and the seed of the noise that is drawn.
        image_set: what the judgements are about; asked for the places of a sample alone.
        sample: which images were drawn to be labelled, and with what chance; labels of others are not used. None:
            labelled images are taken as drawn with equal chance within each T2I model and prompt.
        complete: also of systems that miss no label.

    Returns:
        Rows of the ground truth, columns as in `METRIC_COLUMNS`; none where no image is labelled.
    """
    probability, apart = None, None
    if sample is not None and image_set is not None:
        probability = np.full(len(judgements.image_ids), np.nan)
        probability[sample.positions(image_set.images)] = sample.rows["probability"]
        apart = np.isin(np.array(judgements.image_ids), np.array(sample.calibration))
        probability[apart] = 1
    blocks = [
        found.assign(variant=found["variant"] + f", {word}")
        for system in systems
        for word, asked in _asked(system, judgements, probability, apart, complete=complete)
        for found in [system.rows(asked, intervals)]
    ]
    if not blocks:
        return pd.DataFrame({name: [] for name in METRIC_COLUMNS})
    return pd.concat(blocks, ignore_index=True)


def _asked(
    system: ScoreSystem,
    judgements: Judgements,
    probability: NDArray[np.float64] | None,
    apart: NDArray[np.bool_] | None,
    *,
    complete: bool,
) -> Iterator[tuple[str, Judgements]]:
    known = [name for name in system.attributes if judgements.has_truth and judgements.judged[name][0]]
    made = judgements.t2i_model != NO_CELL
    if not known:
        return
    labelled = np.logical_and.reduce([judgements.labels[name][0] != NO_VERDICT for name in known])
    usable = labelled if probability is None else labelled & ~np.isnan(probability)
    if not (usable & made).any() or (labelled[made].all() and not complete):
        return
    for word, use_detectors in ESTIMATED.items():
        drawn = DrawnLabels(labelled, probability, use_detectors, apart)
        yield word, replace(judgements, labelled_only=False, drawn=drawn)
