"""Whether one detector is better than another on the same images, or only looks so.

All differences that are looked at together (pairs of detectors, metrics, T2I models, attributes) are one family,
tested at once by `metrics.simultaneous`. What `compare`, `rank`, the report and its letters say are readings of
such a family, so that they cannot contradict each other, and the chance that any of them is wrong stays at
1 - level.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from detector_bench.errors import ConfigError, DetectorBenchError
from detector_bench.evaluation.image_verdicts import rows_of_attribute
from detector_bench.metrics import METRICS, JointVerdicts, NClear
from detector_bench.metrics.bootstrap import Unit
from detector_bench.metrics.counts import FloatArray
from detector_bench.metrics.influence import TESTED_OTHERWISE, Influences, comparable_metrics, metric_values
from detector_bench.metrics.simultaneous import DRAWS, Differences, SimultaneousTests, simultaneous_tests

COMPARED_METRICS = METRICS.built_in("compared")
"""What detectors are compared and ranked by unless other metrics are named."""

FILTERING_RIGHT = "filtering_right"
"""Share of the images, clear or low-quality to the human, that a detector keeps or filters as the human does."""

CLASSIFICATION_RIGHT = "classification_right"
"""Share of right classes among the images that the human and both detectors call clear."""


class Contest(NamedTuple):
    """Detectors that have judged the same images."""

    joint: JointVerdicts
    detectors: tuple[str, ...]
    """Their names, in the order of `joint`."""


class PairedTest(NamedTuple):
    """One comparison of two detectors by one metric, tested with all others of its family."""

    metric: str
    """Name of the metric that the two are compared by."""
    first: float
    """The first detector's value of the metric."""
    second: float
    difference: float
    """First minus second, of the deviation the sizes; NaN where one of them has no value."""
    ci_low: float
    ci_high: float
    """Simultaneous interval of the difference: those of all tests of the family hold together at its level. Within
    what two values in the metric's range can differ by."""
    p_value: float
    """Adjusted for all tests of the family; NaN where nothing can be compared."""
    told_apart: bool
    """Whether the p-value lies below 1 - level, which is to say that the interval does not hold 0."""


class PairedImages(NamedTuple):
    """Images that two detectors judge differently, and McNemar's exact test of them alone."""

    share: str
    """What is judged rightly: `FILTERING_RIGHT` or `CLASSIFICATION_RIGHT`."""
    first: float
    """The first detector's share; NaN without an image."""
    second: float
    only_first: int
    """Images that only the first detector judges rightly."""
    only_second: int
    p_value: float
    """Two-sided, as if this were the only test in the world; NaN without an image."""


@dataclass(frozen=True, eq=False)
class ComparisonFamily:
    """Every difference between detectors that is looked at together, tested at once."""

    contests: tuple[Contest, ...]
    metrics: tuple[str, ...]
    level: float
    values: tuple[Mapping[str, FloatArray], ...]
    """By contest and metric, the detectors' values, `[detector]`."""
    tests: tuple[SimultaneousTests, ...]
    """By contest; tests by metric, then by pair of detectors."""

    @classmethod
    def of(
        cls,
        contests: Sequence[Contest],
        *,
        metrics: Sequence[str] = COMPARED_METRICS,
        unit: Unit = "image",
        seed: int = 0,
        level: float = 0.95,
        n_clear: NClear = "detector",
        draws: int = DRAWS,
    ) -> Self:
        """Test all pairs of detectors of all contests by all metrics.

        Args:
            contests: images with the verdicts of all detectors; those of one T2I model or attribute, say.
            metrics: some of `metrics.influence.comparable_metrics()`.
            unit: see `metrics.bootstrap`.
            seed: of the draws of the largest difference.
            level: that all intervals hold together, 0.95 for 95 %.
            n_clear: denominator of prompt bias scores.
            draws: how many.

        Raises:
            ConfigError: a metric that detectors cannot be compared by.
        """
        accepted = comparable_metrics()
        for name in metrics:
            if name not in accepted:
                raise ConfigError(f"cannot compare or rank by {name!r} (accepted: {', '.join(accepted)})")
        prepared = [_prepared(each, tuple(metrics), unit=unit, n_clear=n_clear) for each in contests]
        return cls(
            tuple(contests),
            tuple(metrics),
            level,
            tuple(each.values for each in prepared),
            tuple(
                simultaneous_tests([each.differences for each in prepared], level=level, seed=seed, draws=draws)
            ),
        )

    @property
    def size(self) -> int:
        """How many differences are tested together."""
        return sum(int((~np.isnan(each.p_value)).sum()) for each in self.tests)

    def test(self, metric: str, first: int, second: int, *, contest: int = 0) -> PairedTest:
        """Compare two detectors by one metric.

        Args:
            metric: one of the family's.
            first: position of one detector.
            second: position of the other.
            contest: which one.
        """
        pair, sign = (min(first, second), max(first, second)), 1 if first < second else -1
        place, tests = self._place(metric, pair, contest), self.tests[contest]
        own, other = (float(self.values[contest][metric][each]) for each in (first, second))
        difference, scale = _shown(metric, own, other, sign * (tests.low[place] + tests.high[place]) / 2)
        info = METRICS[metric]
        farthest = np.inf if info.highest is None else info.highest - info.lowest
        limits = sorted(float(sign * scale * limit[place]) for limit in (tests.low, tests.high))
        low, high = (float(np.clip(limit, -farthest, farthest)) for limit in limits)
        p_value = float(tests.p_value[place])
        return PairedTest(metric, own, other, difference, low, high, p_value, p_value < 1 - self.level)

    def better(self, metric: str, *, contest: int = 0) -> NDArray[np.bool_]:
        """Which detector is shown to be better than which: `[detector, detector]`, rows than columns."""
        number, tests = len(self.contests[contest].detectors), self.tests[contest]
        found = np.zeros((number, number), dtype=bool)
        for pair in _pairs(number):
            place = self._place(metric, pair, contest)
            if tests.p_value[place] < 1 - self.level:
                first_is_higher = tests.low[place] + tests.high[place] > 0
                found[pair if first_is_higher == (METRICS[metric].better == "higher") else pair[::-1]] = True
        return found

    def _place(self, metric: str, pair: tuple[int, int], contest: int) -> int:
        """Of a test among the contest's."""
        pairs = _pairs(len(self.contests[contest].detectors))
        return self.metrics.index(metric) * len(pairs) + pairs.index(pair)


def images_judged_differently(joint: JointVerdicts, first: int, second: int) -> list[PairedImages]:
    """McNemar's exact tests of two detectors, of filtering and of classes.

    They ask whether the images that only one detector judges rightly could as well have been judged by the other,
    images being independent. They know of no other pair and no other metric, so no verdict rests on them.

    Args:
        joint: truth and verdicts.
        first: position of one detector.
        second: position of the other.
    """
    both = joint.of_detectors([first, second])
    return [
        _mcnemar(FILTERING_RIGHT, *_filtering_right(both)),
        _mcnemar(CLASSIFICATION_RIGHT, *_classification_right(both)),
    ]


def check_same_images(first: str, second: str, tables: dict[str, pa.Table], *, attribute: str) -> None:
    """Check that two detectors have judged the same images, and that these were the same files.

    Args:
        first: a detector's name.
        second: another's.
        tables: their predictions, with image_id, attribute and image_sha256.
        attribute: the one that is compared.

    Raises:
        DetectorBenchError: image ids or contents differ.
    """
    contents = [_contents(tables[name], attribute) for name in (first, second)]
    ones, others = (set(each) for each in contents)
    if ones != others:
        lonely = sorted(ones ^ others)[0]
        raise DetectorBenchError(
            f"{first} and {second} were not judged on the same images: {len(ones - others):,} only by {first}, "
            f"{len(others - ones):,} only by {second}, such as {lonely!r}; run both over the same image set"
        )
    changed = [
        image
        for image, content in contents[0].items()
        if content is not None and contents[1][image] is not None and content != contents[1][image]
    ]
    if changed:
        raise DetectorBenchError(
            f"{first} and {second} were not judged on the same images: {len(changed):,} files had other contents, "
            f"such as {changed[0]!r}; run `detector-bench run` again, it judges changed images anew"
        )


def _contents(table: pa.Table, attribute: str) -> dict[str, str | None]:
    rows = rows_of_attribute(table, attribute)
    return dict(zip(rows["image_id"].to_pylist(), rows["image_sha256"].to_pylist(), strict=True))


def _filtering_right(joint: JointVerdicts) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which images are judged rightly, `[2, image]`; and which count: all but `others` and those without
    verdict."""
    kept = joint.verdicts < joint.classes
    right = kept == (joint.truth < joint.classes)
    counted = (joint.truth <= joint.classes) & (joint.verdicts <= joint.classes).all(axis=0)
    return right, counted


def _classification_right(joint: JointVerdicts) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """The same for classes: images that are clear to the human and to both."""
    right = joint.verdicts == joint.truth
    counted = (joint.truth < joint.classes) & (joint.verdicts < joint.classes).all(axis=0)
    return right, counted


def _mcnemar(share: str, right: NDArray[np.bool_], counted: NDArray[np.bool_]) -> PairedImages:
    from statsmodels.stats.contingency_tables import mcnemar

    one, other = right[:, counted]
    only_one, only_other = int((one & ~other).sum()), int((other & ~one).sum())
    first, second = (float(each.mean()) if each.size else np.nan for each in (one, other))
    table = [[int((one & other).sum()), only_one], [only_other, int((~one & ~other).sum())]]
    p_value = min(float(mcnemar(table, exact=True).pvalue), 1.0) if one.size else np.nan
    return PairedImages(share, first, second, only_one, only_other, p_value)


class _Prepared(NamedTuple):
    """One contest, ready to be tested."""

    values: Mapping[str, FloatArray]
    differences: Differences


def _prepared(contest: Contest, names: tuple[str, ...], *, unit: Unit, n_clear: NClear) -> _Prepared:
    from scipy.linalg import block_diag

    influences = Influences(contest.joint, unit, n_clear)
    found = [influences.of(name) for name in names]
    detectors, pairs = np.eye(len(contest.detectors)), np.array(_pairs(len(contest.detectors)), dtype=np.intp)
    one_metric = detectors[pairs.reshape(-1, 2)[:, 0]] - detectors[pairs.reshape(-1, 2)[:, 1]]
    differences = Differences(
        np.concatenate([_apart(each.value, pairs) for each in found]),
        np.concatenate([each.by_unit for each in found]),
        # Each metric's differences are made of its own columns.
        block_diag(*[one_metric] * len(names)),
    )
    return _Prepared(metric_values(contest.joint, names, n_clear=n_clear), differences)


def _apart(values: FloatArray, pairs: NDArray[np.intp]) -> FloatArray:
    difference: FloatArray = values[pairs.reshape(-1, 2)[:, 0]] - values[pairs.reshape(-1, 2)[:, 1]]
    return difference


def _pairs(detectors: int) -> list[tuple[int, int]]:
    return list(combinations(range(detectors), 2))


def _shown(metric: str, first: float, second: float, compared: float) -> tuple[float, float]:
    """The difference in the metric's own unit, and what brings the tested one to it.

    The prompt bias error is tested by its square, the deviation by the distance of the scores; between two equal
    errors of 0 there is no scale.
    """
    difference = abs(first) - abs(second) if METRICS[metric].better == "closest to zero" else first - second
    if metric in TESTED_OTHERWISE:
        return difference, difference / compared if abs(difference) > 0 and compared else np.nan
    return difference, 1.0
