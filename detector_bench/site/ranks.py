"""The detectors of every T2I model and attribute in order, all tests of the report made at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from detector_bench.evaluation.comparison import ComparisonFamily, Contest
from detector_bench.evaluation.counting import Counts
from detector_bench.evaluation.ranking import RankedDetector, ranking
from detector_bench.metrics import JointVerdicts
from detector_bench.site.report_study import ReportStudy
from detector_bench.site.verdict import PROMPT_ERROR
from detector_bench.tables.metric_lookup import MetricLookup

_MOST_IMAGES = 200_000
"""Above it the metric table draws no resamples either, so that a report is written in minutes."""


@dataclass(frozen=True, slots=True)
class ReportRanks:
    """The rankings of a report."""

    by_place: Mapping[tuple[str, str], Sequence[RankedDetector]] = field(default_factory=dict)
    """By attribute and T2I model."""
    tests: int = 0
    """How many pairs of detectors were tested together."""

    def of_attribute(self, attribute: str) -> dict[str, Sequence[RankedDetector]]:
        """By T2I model."""
        return {model: ranked for (name, model), ranked in self.by_place.items() if name == attribute}


def ranks_of_report(study: ReportStudy) -> ReportRanks:
    """Rank the detectors of each T2I model and attribute by their prompt bias error.

    All pairs of all pages are one family of tests, with unit, seed and level of the study's intervals. Detectors
    that could not run on a T2I model are left out there. A T2I model with fewer than two detectors, or more than
    200,000 images, has no ranking.
    """
    places: list[tuple[str, str]] = []
    contests: list[Contest] = []
    for part in study.parts:
        if part.judged is None:
            continue
        for model, contest in _contests(part.study.counts, part.study.lookup):
            places.append((part.name, model))
            contests.append(contest)
    if not contests:
        return ReportRanks()
    intervals = study.first.intervals
    family = ComparisonFamily.of(
        contests,
        metrics=(PROMPT_ERROR,),
        unit=intervals.unit,
        seed=intervals.seed,
        level=intervals.level,
        n_clear=study.first.lookup.n_clear,
    )
    ranked = {place: ranking(family, PROMPT_ERROR, contest=number) for number, place in enumerate(places)}
    return ReportRanks(ranked, family.size)


def _contests(counts: Counts, lookup: MetricLookup) -> list[tuple[str, Contest]]:
    found = []
    for position, model in enumerate(counts.t2i_models):
        able = [
            number
            for number, name in enumerate(counts.detectors)
            if name in lookup.detectors and not lookup.could_not_run(name, model)
        ]
        joint = _of_t2i_model(counts.joint, position)
        if len(able) > 1 and 0 < joint.images <= _MOST_IMAGES:
            names = tuple(counts.detectors[number] for number in able)
            found.append((model, Contest(joint.of_detectors(able), names)))
    return found


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
