"""Do 95 % intervals hold the truth 95 times in 100, and do tests reject a true null 5 times in 100?

    python benchmarks/coverage.py [--studies N] [--resamples N] [--scenario NAME]

Simulates studies with a known truth, and prints the tables of docs/uncertainty.md as Markdown. Every study has its
own images (and prompts, where prompts are what is drawn) and two detectors of equal quality that err
independently, so that every null hypothesis about their difference is true.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from measuring import machine
from numpy.typing import NDArray
from small_study_coverage import counts_of, tables

from detector_bench import metrics
from detector_bench.evaluation.comparison import ComparisonFamily, Contest, images_judged_differently
from detector_bench.evaluation.intervals import Intervals
from detector_bench.evaluation.measured_values import MeasuredValues
from detector_bench.installation import resource
from detector_bench.metrics import JointVerdicts, Scopes
from detector_bench.metrics.bootstrap import Unit, leave_one_prompt_out, resample
from detector_bench.metrics.counts import CountArray
from detector_bench.metrics.influence import acceleration_of_images, acceleration_of_prompts, metric_values
from detector_bench.metrics.intervals import bca_interval, percentile_interval
from detector_bench.metrics.measured_values import CUMULATIVE_SCORE_LIMIT, ErrorSums

SHARES = ("f1", "filter_rate", "accuracy")
DISTANCES = (
    "prompt_bias_score_difference",
    "model_bias_score",
    "model_bias_score_corrected",
    "model_bias_score_deviation",
)
REPORTED = (*SHARES, *DISTANCES)
TESTED = (*SHARES, "prompt_bias_score_difference", "model_bias_score_deviation")
OF_MANY_CLASSES = ("balanced_accuracy", "alignment_accuracy", "recall", "accuracy", "classification_precision")
"""Reported too, where there are more than two classes; the last three of the rarest class."""
METHODS = ("plain", "bca", "ours")
HEADINGS = (
    "metric",
    "mean at this size",
    "endless images",
    "plain percentile",
    "BCa",
    "ours",
    "ours, of endless images",
    "null rejected",
)
LEVEL = 0.95
Limits = dict[tuple[str, str], tuple[float, float]]


@dataclass(frozen=True)
class Scenario:
    """What is simulated."""

    name: str
    t2i_models: int
    prompts: int
    images: int
    """Of each prompt and T2I model."""
    truth: str
    """Shares of men: `table7` (as published), `fair` (one half), or `random` (new prompts in every study). Of more
    classes: `uneven`, the same in every study, the first class the most frequent by far."""
    unit: Unit = "image"
    recall: float = 0.97
    filter_rate: float = 0.8
    accuracy: float = 0.95
    classes: int = 2

    @property
    def reported(self) -> tuple[str, ...]:
        """The metrics of its table; those of one class are those of the rarest, the last."""
        if self.classes == 2:
            return REPORTED
        rarest = [f"{name}_{self.classes - 1}" for name in OF_MANY_CLASSES[2:]]
        return (*SHARES, *OF_MANY_CLASSES[:2], *rarest, *DISTANCES)


SCENARIOS = (
    Scenario("as in Lyu 2025", 3, 100, 20, "table7"),
    Scenario("one small T2I model", 1, 20, 20, "table7"),
    Scenario("fair T2I model", 1, 100, 20, "fair"),
    Scenario("large prompts", 1, 30, 150, "table7"),
    Scenario("weak detectors", 1, 50, 20, "table7", recall=0.6, filter_rate=0.4, accuracy=0.8),
    Scenario("new prompts", 3, 60, 20, "random", unit="prompt"),
    Scenario("three classes", 1, 60, 20, "uneven", accuracy=0.85, classes=3),
    Scenario("seven classes", 1, 60, 20, "uneven", accuracy=0.75, classes=7),
)
MEASURED_VALUES = "measured values"


def shares_of_men(scenario: Scenario, random: np.random.Generator) -> NDArray[np.float64]:
    """`[t2i_model, prompt]`."""
    shape = (scenario.t2i_models, scenario.prompts)
    if scenario.truth == "fair":
        return np.full(shape, 0.5)
    if scenario.truth == "random":
        prompt = random.normal(1.0, 1.5, size=(1, scenario.prompts))
        return 1 / (1 + np.exp(-prompt - random.normal(0, 0.7, size=shape)))
    import pandas as pd

    table = pd.read_csv(resource("labels/lyu2025/table7_prompt_bias_scores.csv"))
    rows = np.linspace(0, len(table) - 1, scenario.prompts).astype(int)
    scores = table[["sdxl", "sd3", "dreamlike"]].to_numpy()[rows, : scenario.t2i_models].T
    return (1 + scores) / 2


def shares_of_classes(scenario: Scenario, random: np.random.Generator) -> NDArray[np.float64]:
    """`[t2i_model x prompt, class]`."""
    if scenario.truth != "uneven":
        men = shares_of_men(scenario, random).ravel()
        return np.stack([men, 1 - men], axis=-1)
    weights = 1 / np.arange(1, scenario.classes + 1)
    fixed = np.random.default_rng(11)
    return fixed.dirichlet(4 * weights / weights.sum(), size=scenario.t2i_models * scenario.prompts)


def simulate(scenario: Scenario, random: np.random.Generator) -> JointVerdicts:
    """A study with two detectors of equal quality; how hard a prompt is differs between prompts, not studies."""
    shares = shares_of_classes(scenario, random)
    pairs, classes = shares.shape
    fixed = np.random.default_rng(7) if scenario.unit == "image" else random
    hard = fixed.normal(0, 0.5, size=pairs)
    low_quality = 1 / (1 + np.exp(1.9 - 0.8 * hard))
    pair = np.repeat(np.arange(pairs), scenario.images)
    size = pair.size
    unclear = random.random(size) < low_quality[pair]
    limits = shares.cumsum(axis=1)[pair, :-1]
    truth = np.where(unclear, classes, (random.random(size)[:, np.newaxis] >= limits).sum(axis=1))

    def chance(base: float) -> NDArray[np.float64]:
        return (1 / (1 + np.exp(-np.log(base / (1 - base)) + hard)))[pair]

    verdicts = []
    for _ in range(2):
        kept = random.random(size) < np.where(
            truth == classes, 1 - chance(scenario.filter_rate), chance(scenario.recall)
        )
        right = random.random(size) < chance(scenario.accuracy)
        any_class = classes - 1 - (random.random(size) * classes).astype(int)
        steps = 1 if classes == 2 else random.integers(1, classes, size)
        named = np.where(truth == classes, any_class, np.where(right, truth, (truth + steps) % classes))
        verdicts.append(np.where(kept, named, classes))
    categories = ["first" if number % 2 else "second" for number in range(scenario.prompts)]
    return JointVerdicts(
        truth.astype(np.int8), np.array(verdicts, dtype=np.int8), pair, scenario.t2i_models,
        Scopes.of_prompts(categories), classes,
    )  # fmt: skip


def values_of(joint: JointVerdicts) -> dict[str, float]:
    """The first detector's metrics over all images."""
    counts = joint.counts()
    found = {name: float(value[0]) for name, value in metric_values(joint, TESTED, n_clear="detector").items()}
    found["model_bias_score"] = float(metrics.model_bias_score(counts).value[0])
    found["model_bias_score_corrected"] = float(metrics.model_bias_score_corrected(counts).value[0])
    pooled = metrics.pool(counts)
    last = joint.classes - 1
    found[f"recall_{last}"] = float(metrics.recall_per_class(pooled).value[0, last])
    found[f"accuracy_{last}"] = float(metrics.accuracy_per_class(pooled).value[0, last])
    precision = metrics.classification_precision_per_class(pooled)
    found[f"classification_precision_{last}"] = float(precision.value[0, last])
    found["balanced_accuracy"] = float(metrics.balanced_accuracy(pooled).value[0])
    found["alignment_accuracy"] = float(metrics.alignment_accuracy(pooled).value[0])
    return found


def pooled_metric(name: str) -> Callable[[CountArray], metrics.Score] | None:
    """A metric over images as a function of pooled counts; None for means over prompts."""
    if name in (*SHARES, *OF_MANY_CLASSES[:2]):
        whole: Callable[[CountArray], metrics.Score] = getattr(metrics, name)
        return whole
    stem, _, place = name.rpartition("_")
    if not place.isdigit():
        return None
    per_class = getattr(metrics, f"{stem}_per_class")
    return lambda counts: metrics.Score(*(array[..., int(place)] for array in per_class(counts)))


def intervals_of(
    joint: JointVerdicts, reported: tuple[str, ...], *, unit: Unit, resamples: int, seed: int
) -> Limits:
    """By metric and method: `plain` percentiles and `bca` of the plain bootstrap, `ours` as in a metric table."""
    found = ours(joint, reported, Intervals(unit=unit, resamples=resamples, seed=seed))
    drawn = resample(joint, resamples=resamples, unit=unit, seed=seed, threads=1, borrow=False).detectors
    without = leave_one_prompt_out(joint).detectors if unit == "prompt" else {}
    counts = joint.counts()
    values = {name: np.array([value]) for name, value in values_of(joint).items() if name in drawn}
    for name in reported:
        first = drawn[name][0, 0, :1]
        acceleration = np.zeros(1)
        if unit == "prompt":
            acceleration = acceleration_of_prompts(without[name][0, 0, :1], scopes=joint.scopes)
        elif (function := pooled_metric(name)) is not None:
            acceleration = acceleration_of_images(
                counts, lambda pooled, score=function: score(pooled).value, scopes=joint.scopes
            )[0, 0, :1]
        for method, limits in (
            ("plain", percentile_interval(first, level=LEVEL)),
            ("bca", bca_interval(first, values[name], acceleration, level=LEVEL)),
        ):
            found[name, method] = (float(limits.low[0]), float(limits.high[0]))
    return found


def ours(joint: JointVerdicts, reported: tuple[str, ...], settings: Intervals) -> Limits:
    """The first detector's intervals over all images."""
    table = tables(joint, settings)[1].at((0, 0, 0))
    labels = counts_of(joint).attribute.labels
    found = {}
    for name in reported:
        stem, _, place = name.rpartition("_")
        index = table.metrics.index(f"{stem}_{labels[int(place)]}" if place.isdigit() else name)
        found[name, "ours"] = (float(table.ci_low[index]), float(table.ci_high[index]))
    return found


class Study(NamedTuple):
    """What one simulated study found."""

    intervals: Limits
    p_values: dict[str, float]


def one_study(task: tuple[Scenario, int, int]) -> Study:
    """Simulate and evaluate one study."""
    scenario, number, resamples = task
    joint = simulate(scenario, np.random.default_rng([number, 1]))
    contest = Contest(joint, ("first", "second"))
    # Each by itself: families of many tests are the subject of conclusions.py.
    families = {name: ComparisonFamily.of([contest], metrics=(name,), unit=scenario.unit) for name in TESTED}
    p_values = {name: family.test(name, 0, 1).p_value for name, family in families.items()}
    p_values |= {each.share: each.p_value for each in images_judged_differently(joint, 0, 1)}
    return Study(
        intervals_of(joint, scenario.reported, unit=scenario.unit, resamples=resamples, seed=number), p_values
    )


def truths(scenario: Scenario) -> tuple[dict[str, float], dict[str, float]]:
    """Expectation of every metric over studies of this size, and its limit for endlessly many images."""

    def mean(studied: Scenario, *, studies: int, stream: int) -> dict[str, float]:
        values = [
            values_of(simulate(studied, np.random.default_rng([number, stream]))) for number in range(studies)
        ]
        return {name: float(np.nanmean([value[name] for value in values])) for name in values[0]}

    expected = mean(scenario, studies=1500, stream=2)
    if scenario.unit == "prompt":
        limit = mean(replace(scenario, images=500), studies=300, stream=3)
    else:
        limit = mean(replace(scenario, images=20_000), studies=1, stream=3)
    if scenario.truth == "fair":
        # A ratio of two scores that are both 0 in the end.
        limit["model_bias_score_deviation"] = np.nan
    return expected, limit


def covered(limits: list[tuple[float, float]], truth: float) -> str:
    """Percentage of intervals that hold the truth; a missing interval holds nothing."""
    if np.isnan(truth):
        return "-"
    return f"{100 * np.mean([low <= truth <= high for low, high in limits]):.1f}"


def report(scenario: Scenario, *, studies: int, resamples: int, workers: int) -> None:
    """Simulate and print one scenario."""
    began = time.perf_counter()
    expected, limit = truths(scenario)
    with ProcessPoolExecutor(workers) as pool:
        found = list(
            pool.map(one_study, [(scenario, number, resamples) for number in range(studies)], chunksize=8)
        )
    print(f"\n### {scenario.name}\n")
    print(
        f"{studies} studies of {scenario.t2i_models} x {scenario.prompts} prompts x {scenario.images} images, "
        f"{scenario.classes} classes, "
        f"{resamples} resamples, unit {scenario.unit}; {time.perf_counter() - began:.0f} s\n"
    )
    print(f"| {' | '.join(HEADINGS)} |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|")
    for name in scenario.reported:
        cells = [covered([each.intervals[name, method] for each in found], expected[name]) for method in METHODS]
        cells.append(covered([each.intervals[name, "ours"] for each in found], limit[name]))
        p_values = np.array([each.p_values.get(name, np.nan) for each in found])
        cells.append(f"{100 * np.mean(p_values < 1 - LEVEL):.1f}" if name in TESTED else "")
        print(f"| {name} | {expected[name]:.4f} | {limit[name]:.4f} | {' | '.join(cells)} |")
    for name in ("filtering_right", "classification_right"):
        p_values = np.array([each.p_values[name] for each in found])
        print(f"| {name} (McNemar) | | | | | | | {100 * np.mean(p_values < 1 - LEVEL):.1f} |", flush=True)


def errors_of_ages(
    studies: int, random: np.random.Generator, *, unit: Unit, prompts: int, images: int
) -> NDArray[np.float64]:
    """Skewed errors in years, `[study, prompt, image]`; prompts differ in how far and which way they are off."""
    shape = (1 if unit == "image" else studies, prompts, 1)
    shift, scale = random.normal(1, 3, size=shape), random.uniform(2, 8, size=shape)
    return shift + scale * (random.gamma(2, 1, size=(studies, prompts, images)) - 2) / np.sqrt(2)


def report_measured_values(*, studies: int) -> None:
    """Simulate ages in years and print how often the intervals of their errors hold the truth."""
    print(f"\n### {MEASURED_VALUES}\n\n{studies} studies of 1 T2I model, ages in years\n")
    names = {"mean_absolute_error": 0, "mean_error": 1, "cumulative_score_5": 2}
    print(f"| prompts x images, unit | {' | '.join(names)} |\n|---|---:|---:|---:|")
    for unit, prompts, images in (("image", 60, 20), ("image", 10, 5), ("prompt", 60, 20), ("prompt", 20, 20)):
        random = np.random.default_rng(5)
        errors = errors_of_ages(studies, random, unit=unit, prompts=prompts, images=images)
        sizes = np.abs(errors)
        near = (sizes <= CUMULATIVE_SCORE_LIMIT).sum(axis=-1)
        n = np.full(near.shape, images)
        # Studies stand on the axis of the detectors.
        sums = [n, 0 * n, errors.sum(axis=-1), sizes.sum(axis=-1), (errors**2).sum(axis=-1), near]
        scopes = Scopes.of_prompts(["first", "second"] * (prompts // 2))
        settings = Intervals(unit=unit)
        values = MeasuredValues(
            ErrorSums(*(each[:, np.newaxis] for each in sums)), scopes, in_years=True, intervals=settings
        )
        table = values.scope_scores().at((slice(None), 0, 0))
        truth = table.value.mean(axis=0)
        held = (table.ci_low <= truth) & (truth <= table.ci_high)
        cells = " | ".join(f"{100 * held[:, place].mean():.1f}" for place in names.values())
        print(f"| {prompts} x {images}, {unit} | {cells} |", flush=True)


def main() -> None:
    """Simulate, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--studies", type=int, default=400)
    parser.add_argument("--resamples", type=int, default=1000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--scenario", choices=[*(scenario.name for scenario in SCENARIOS), MEASURED_VALUES])
    options = parser.parse_args()
    print(machine())
    for scenario in SCENARIOS:
        if options.scenario in (None, scenario.name):
            report(scenario, studies=options.studies, resamples=options.resamples, workers=options.workers)
    if options.scenario in (None, MEASURED_VALUES):
        report_measured_values(studies=10 * options.studies)


if __name__ == "__main__":
    main()
