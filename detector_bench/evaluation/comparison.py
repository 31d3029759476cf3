"""Whether one detector is better than another on the same images, or only looks so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from detector_bench import metrics
from detector_bench.errors import DetectorBenchError
from detector_bench.evaluation.counting import rows_of_attribute
from detector_bench.metrics import JointVerdicts, NClear
from detector_bench.metrics.bootstrap import Unit, resample
from detector_bench.metrics.counts import FloatArray
from detector_bench.metrics.intervals import percentile_interval
from detector_bench.metrics.sampling_distribution import sampling_distribution, spread_factors

COMPARED_METRICS = (
    "f1",
    "filter_rate",
    "accuracy",
    "model_bias_score_deviation",
    "prompt_bias_score_difference",
)
"""Each is tested by a paired bootstrap."""

FILTERING, CLASSIFICATION = "filtering_right", "classification_right"
"""The shares of images judged rightly, tested by McNemar's exact test."""


class PairedTest(NamedTuple):
    """One comparison of two detectors."""

    metric: str
    """A metric, or `FILTERING` or `CLASSIFICATION`."""
    test: str
    """`McNemar` or `bootstrap`."""
    first: float
    """The first detector's value."""
    second: float
    difference: float
    """First minus second; NaN where one of them has no value."""
    ci_low: float
    ci_high: float
    """Interval of the difference; NaN for McNemar's test, which has none."""
    only_first: int
    """Images that only the first detector judged rightly; -1 for the bootstrap, where no image is right or
    wrong."""
    only_second: int
    p_value: float
    """Two-sided, as if this were the only test; NaN where nothing can be compared."""
    p_holm: float
    """Adjusted for all tests of the comparison (Holm 1979)."""


def compare_detectors(
    joint: JointVerdicts,
    first: int,
    second: int,
    *,
    resamples: int = 10_000,
    unit: Unit = "image",
    seed: int = 0,
    level: float = 0.95,
    n_clear: NClear = "detector",
) -> list[PairedTest]:
    """Compare two detectors on the same images, in seven ways.

    McNemar's exact test asks whether the images that only one detector judges rightly could as well have been
    judged by the other: for filtering (clear images kept, low-quality ones filtered), and for classification
    (over human-clear images that both keep, so that no detector profits from filtering the hard ones). The paired
    bootstrap gives the difference of metrics an interval, and a p-value: the share of resamples whose difference
    lies at least as far from the mean resample as 0 lies from the difference found. With fewer images that both
    have judged than two, or a metric that one of them lacks, there is no test.

    Args:
        joint: truth and verdicts.
        first: position of one detector.
        second: position of the other.
        resamples: how many; the smallest possible p-value is 1 / (resamples + 1).
        unit: see `metrics.bootstrap`; McNemar's test always takes images as independent.
        seed: of the random numbers.
        level: 0.95 for 95 % intervals.
        n_clear: denominator of prompt bias scores.
    """
    both = joint.of_detectors([first, second])
    tests = [_mcnemar(FILTERING, *_filtering_right(both)), _mcnemar(CLASSIFICATION, *_classification_right(both))]
    values = scope_values(both, n_clear=n_clear)
    scatter = scattered(both, values, resamples=resamples, unit=unit, seed=seed, n_clear=n_clear)
    tests += [_bootstrap(name, values[name], scatter[name], level=level) for name in COMPARED_METRICS]
    adjusted = holm([test.p_value for test in tests])
    return [test._replace(p_holm=p) for test, p in zip(tests, adjusted, strict=True)]


def scope_values(joint: JointVerdicts, *, n_clear: NClear) -> dict[str, FloatArray]:
    """The metrics that can be compared over all images, as they are: `[detector]`."""
    counts = joint.counts()
    pooled = metrics.pool(counts)
    scores = {name: getattr(metrics, name)(pooled) for name in ("precision", "recall", "f1", "filter_rate")}
    scores["accuracy"] = metrics.accuracy(pooled)
    scores["model_bias_score"] = metrics.model_bias_score(counts)
    scores["model_bias_score_actual"] = metrics.model_bias_score_actual(counts)
    scores["model_bias_score_deviation"] = metrics.model_bias_score_deviation(counts)
    scores["prompt_bias_score_difference"] = metrics.prompt_bias_score_difference(counts, n_clear=n_clear)
    return {name: score.value for name, score in scores.items()}


def scattered(
    joint: JointVerdicts,
    values: Mapping[str, FloatArray],
    *,
    resamples: int,
    unit: Unit,
    seed: int,
    n_clear: NClear,
) -> dict[str, FloatArray]:
    """How the metrics over all images scatter, jointly for all detectors: `[detector, resample]`."""
    drawn = resample(joint, resamples=resamples, unit=unit, seed=seed, n_clear=n_clear).detectors
    everything = {name: drawn[name][0, 0] for name in values}
    return sampling_distribution(everything, values, spread=spread_factors(joint, unit=unit)[0, 0], unit=unit)


def bootstrap_p_value(differences: FloatArray, observed: float) -> float:
    """Share of resamples that lie as far from their mean as 0 from the observed difference, or farther.

    Args:
        differences: of each resample; undefined ones are left out.
        observed: the difference found. NaN gives NaN.
    """
    defined = differences[~np.isnan(differences)]
    if np.isnan(observed) or not defined.size:
        return np.nan
    # A little slack, so that rounding does not separate equal differences.
    as_far = np.abs(defined - defined.mean()) >= abs(observed) - 1e-9
    return float((1 + as_far.sum()) / (1 + defined.size))


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's adjustment over the tests that could be made; NaN stays NaN."""
    from statsmodels.stats.multitest import multipletests

    adjusted = np.full(len(p_values), np.nan)
    made = ~np.isnan(p_values)
    if made.any():
        adjusted[made] = multipletests(np.asarray(p_values)[made], method="holm")[1]
    return [float(p) for p in adjusted]


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
    right = joint.verdicts == joint.truth
    counted = (joint.truth < joint.classes) & (joint.verdicts < joint.classes).all(axis=0)
    return right, counted


def _mcnemar(name: str, right: NDArray[np.bool_], counted: NDArray[np.bool_]) -> PairedTest:
    from statsmodels.stats.contingency_tables import mcnemar

    one, other = right[:, counted]
    only_one, only_other = int((one & ~other).sum()), int((other & ~one).sum())
    share, other_share = (float(each.mean()) if each.size else np.nan for each in (one, other))
    table = [[int((one & other).sum()), only_one], [only_other, int((~one & ~other).sum())]]
    p_value = float(mcnemar(table, exact=True).pvalue) if one.size else np.nan
    return PairedTest(
        name, "McNemar", share, other_share, share - other_share, np.nan, np.nan, only_one, only_other,
        min(p_value, 1.0), np.nan,
    )  # fmt: skip


def _bootstrap(name: str, values: FloatArray, scatter: FloatArray, *, level: float) -> PairedTest:
    first, second = (float(value) for value in values)
    differences = scatter[0] - scatter[1]
    interval = percentile_interval(differences, level=level)
    observed = first - second
    p_value = bootstrap_p_value(differences, observed)
    low, high = (float(limit) if np.isfinite(observed) else np.nan for limit in interval)
    return PairedTest(name, "bootstrap", first, second, observed, low, high, -1, -1, p_value, np.nan)
