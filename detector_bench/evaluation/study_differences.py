"""Whether two studies differ, or only look so: paired where they judged the same images, else independent."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa

from detector_bench.errors import DetectorBenchError
from detector_bench.evaluation.comparison import COMPARED_METRICS, ComparisonFamily, Contest
from detector_bench.evaluation.contests import DetectorContest
from detector_bench.evaluation.image_index import LabelledImages
from detector_bench.evaluation.intervals import Intervals
from detector_bench.metrics import NClear


class StudyDifference(NamedTuple):
    """One number of two studies, second minus first."""

    first: float
    second: float
    difference: float
    ci_low: float
    ci_high: float
    """Of the difference; NaN where it cannot be tested."""
    p_value: float
    """NaN where nothing can be tested."""


_NAN = math.nan


def independent_difference(
    first: tuple[float, float, float], second: tuple[float, float, float], *, level: float
) -> StudyDifference:
    """The difference of two independent numbers, from their own intervals.

    Limits by the method of variance estimates recovery: for d = b - a with intervals (la, ua) and (lb, ub),
    d - sqrt((b - lb)^2 + (ua - a)^2) and d + sqrt((ub - b)^2 + (a - la)^2). The p-value is two-sided and normal:
    it is below 1 - level just where the interval leaves out 0.

    Args:
        first: value, lower and upper limit.
        second: the same of the other study.
        level: of the intervals, 0.95 for 95 %.

    Returns:
        NaN for limits and p-value where a number has no interval, or both have one of no length.

    Source: Zou and Donner 2008, "Construction of confidence limits about effect measures"; Newcombe 1998.
    """
    from scipy.stats import norm

    (a, low_a, high_a), (b, low_b, high_b) = first, second
    difference = b - a
    if not all(math.isfinite(each) for each in (*first, *second)):
        return StudyDifference(a, b, difference, _NAN, _NAN, _NAN)
    below, above = math.hypot(b - low_b, high_a - a), math.hypot(high_b - b, a - low_a)
    towards_0 = below if difference > 0 else above
    if towards_0 == 0:
        return StudyDifference(a, b, difference, _NAN, _NAN, _NAN)
    standard_errors = abs(difference) / towards_0 * norm.ppf((1 + level) / 2)
    p_value = float(2 * norm.sf(standard_errors))
    return StudyDifference(a, b, difference, difference - below, difference + above, p_value)


def paired_differences(
    image_set: LabelledImages,
    first: Mapping[str, pa.Table],
    second: Mapping[str, pa.Table],
    *,
    attribute: str,
    intervals: Intervals,
    n_clear: NClear,
    metrics: Sequence[str] = COMPARED_METRICS,
) -> dict[tuple[str, str], StudyDifference]:
    """Each detector against itself in another study of the same images and labels, all tested at once.

    Args:
        image_set: images, prompts and human labels, which both studies share.
        first: predictions by detector, with the columns `contests.CONTEST_COLUMNS`.
        second: those of the other study; detectors that both have are compared.
        attribute: which one.
        intervals: level, seed, and what is drawn.
        n_clear: denominator of prompt bias scores.
        metrics: see `ComparisonFamily`.

    Returns:
        By detector and metric; limits and p-values are adjusted for all of them together. A detector that was not
        judged on the same content is left out.
    """
    contests: dict[str, Contest] = {}
    for name in first:
        if name not in second:
            continue
        versions = {"first": first[name], "second": second[name]}
        try:
            contests[name] = DetectorContest.of(image_set, versions, attribute=attribute).contest
        except DetectorBenchError:
            continue
    if not contests:
        return {}
    family = ComparisonFamily.of(
        list(contests.values()),
        metrics=tuple(metrics),
        unit=intervals.unit,
        seed=intervals.seed,
        level=intervals.level,
        n_clear=n_clear,
    )
    found = {}
    for place, name in enumerate(contests):
        for metric in metrics:
            test = family.test(metric, 1, 0, contest=place)
            p_value = 1.0 if test.difference == 0 and math.isnan(test.p_value) else test.p_value
            found[name, metric] = StudyDifference(
                test.second, test.first, test.difference, test.ci_low, test.ci_high, p_value
            )
    return found


def holm(p_values: Sequence[float]) -> list[float]:
    """P-values adjusted for all of them that are there, by Holm's method; NaN stays NaN.

    Source: Holm 1979, "A simple sequentially rejective multiple test procedure".
    """
    known = sorted((value, place) for place, value in enumerate(p_values) if not math.isnan(value))
    adjusted, highest = [_NAN] * len(p_values), 0.0
    for rank, (value, place) in enumerate(known):
        highest = max(highest, min(1.0, (len(known) - rank) * value))
        adjusted[place] = highest
    return adjusted
