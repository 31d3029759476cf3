"""The detectors in order for every T2I model, by both bias errors."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from detector_bench.evaluation.counting import Counts
from detector_bench.evaluation.ranking import RankedDetector, rank_detectors
from detector_bench.metrics import JointVerdicts
from detector_bench.report.metric_lookup import MetricLookup
from detector_bench.web_report.verdict import RANKED_BY

RESAMPLES = 10_000
"""With fewer, Holm's adjustment over many pairs can tell nobody apart."""

_MOST_IMAGES = 200_000
"""Above it the metric table draws no resamples either, so that a report is written in minutes."""


def ranks_by_t2i_model(
    counts: Counts, lookup: MetricLookup, *, resamples: int = RESAMPLES, level: float = 0.95
) -> Mapping[str, list[RankedDetector]]:
    """Rank the detectors of each T2I model by the mean of their ranks by both bias errors.

    Detectors that could not run on a T2I model are left out there. A T2I model with fewer than two detectors, or
    more than 200,000 images, has no ranking.

    Args:
        counts: the verdicts on one attribute.
        lookup: the same attribute's rows of the metric table.
        resamples: how many.
        level: 0.95 tells detectors apart at 5 %.
    """
    ranks = {}
    for position, model in enumerate(counts.t2i_models):
        able = [
            number
            for number, name in enumerate(counts.detectors)
            if name in lookup.detectors and not lookup.could_not_run(name, model)
        ]
        joint = _of_t2i_model(counts.joint, position)
        if len(able) > 1 and 0 < joint.images <= _MOST_IMAGES:
            ranks[model] = rank_detectors(
                joint.of_detectors(able),
                [counts.detectors[number] for number in able],
                metrics=RANKED_BY,
                resamples=resamples,
                level=level,
                n_clear=lookup.n_clear,
            )
    return ranks


def _of_t2i_model(joint: JointVerdicts, position: int) -> JointVerdicts:
    own = joint.pair // joint.prompts == position
    return JointVerdicts(
        truth=joint.truth[own],
        verdicts=np.ascontiguousarray(joint.verdicts[:, own]),
        pair=joint.pair[own] - position * joint.prompts,
        t2i_models=1,
        scopes=joint.scopes,
        classes=joint.classes,
    )
