"""Do 95 % intervals hold the truth 95 times in 100, and do tests reject a true null 5 times in 100?

    python benchmarks/coverage.py [--studies N] [--resamples N] [--scenario NAME]

Simulates studies with a known truth, and prints the tables of docs/uncertainty.md as Markdown. Every study has its
own images (and prompts, where prompts are what is drawn) and two detectors of equal quality that err
independently, so that every null hypothesis about their difference is true.
"""

from __future__ import annotations

import argparse
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from measuring import machine
from numpy.typing import NDArray

from detector_bench import metrics
from detector_bench.evaluation.comparison import COMPARED_METRICS, compare_detectors, scope_values
from detector_bench.metrics import JointVerdicts, Scopes
from detector_bench.metrics.bootstrap import Unit, leave_one_prompt_out, resample
from detector_bench.metrics.intervals import bca_interval, percentile_interval
from detector_bench.metrics.jackknife import acceleration_of_images, acceleration_of_prompts
from detector_bench.metrics.sampling_distribution import sampling_distribution, spread_factors
from detector_bench.resources import resource

SHARES = ("f1", "filter_rate", "accuracy")
DISTANCES = (
    "prompt_bias_score_difference",
    "model_bias_score",
    "model_bias_score_corrected",
    "model_bias_score_deviation",
)
REPORTED = (*SHARES, *DISTANCES)
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
    """Shares of men: `table7` (as published), `fair` (one half), or `random` (new prompts in every study)."""
    unit: Unit = "image"
    recall: float = 0.97
    filter_rate: float = 0.8
    accuracy: float = 0.95


SCENARIOS = (
    Scenario("as in Lyu 2025", 3, 100, 20, "table7"),
    Scenario("one small T2I model", 1, 20, 20, "table7"),
    Scenario("fair T2I model", 1, 100, 20, "fair"),
    Scenario("large prompts", 1, 30, 150, "table7"),
    Scenario("weak detectors", 1, 50, 20, "table7", recall=0.6, filter_rate=0.4, accuracy=0.8),
    Scenario("new prompts", 3, 60, 20, "random", unit="prompt"),
)


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


def simulate(scenario: Scenario, random: np.random.Generator) -> JointVerdicts:
    """A study with two detectors of equal quality; how hard a prompt is differs between prompts, not studies."""
    men = shares_of_men(scenario, random)
    pairs = men.size
    fixed = np.random.default_rng(7) if scenario.unit == "image" else random
    hard = fixed.normal(0, 0.5, size=pairs)
    low_quality = 1 / (1 + np.exp(1.9 - 0.8 * hard))
    pair = np.repeat(np.arange(pairs), scenario.images)
    size = pair.size
    truth = np.where(
        random.random(size) < low_quality[pair], 2, np.where(random.random(size) < men.ravel()[pair], 0, 1)
    )

    def chance(base: float) -> NDArray[np.float64]:
        return (1 / (1 + np.exp(-np.log(base / (1 - base)) + hard)))[pair]

    verdicts = []
    for _ in range(2):
        kept = random.random(size) < np.where(
            truth == 2, 1 - chance(scenario.filter_rate), chance(scenario.recall)
        )
        right = random.random(size) < chance(scenario.accuracy)
        named = np.where(truth == 2, random.random(size) < 0.5, np.where(right, truth, 1 - truth))
        verdicts.append(np.where(kept, named, 2))
    categories = ["first" if number % 2 else "second" for number in range(scenario.prompts)]
    return JointVerdicts(
        truth.astype(np.int8), np.array(verdicts, dtype=np.int8), pair, scenario.t2i_models,
        Scopes.of_prompts(categories), 2,
    )  # fmt: skip


def values_of(joint: JointVerdicts) -> dict[str, float]:
    """The first detector's metrics over all images."""
    counts = joint.counts()
    found = {name: float(value[0]) for name, value in scope_values(joint, n_clear="detector").items()}
    found["model_bias_score_corrected"] = float(metrics.model_bias_score_corrected(counts).value[0])
    return found


def intervals_of(joint: JointVerdicts, *, unit: Unit, resamples: int, seed: int) -> Limits:
    """By metric and method: `plain` percentiles, `ours` (centred and stretched), `bca`."""
    drawn = resample(joint, resamples=resamples, unit=unit, seed=seed, threads=1).detectors
    without = leave_one_prompt_out(joint).detectors if unit == "prompt" else {}
    counts = joint.counts()
    values = {name: np.array([value]) for name, value in values_of(joint).items()}
    first = {name: drawn[name][0, 0, :1] for name in values}
    spread = spread_factors(joint, unit=unit)[0, 0]
    scatter = sampling_distribution(first, values, spread=spread, unit=unit)
    found = {}
    for name in REPORTED:
        found[name, "plain"] = percentile_interval(first[name], level=LEVEL)
        found[name, "ours"] = percentile_interval(scatter[name], level=LEVEL)
        acceleration = np.zeros(1)
        if unit == "prompt":
            acceleration = acceleration_of_prompts(without[name][0, 0, :1], scopes=joint.scopes)
        elif name in SHARES:
            function = getattr(metrics, name)
            acceleration = acceleration_of_images(counts, lambda c, f=function: f(c).value, scopes=joint.scopes)[
                0, 0, :1
            ]
        found[name, "bca"] = bca_interval(first[name], values[name], acceleration, level=LEVEL)
    return {key: (float(low[0]), float(high[0])) for key, (low, high) in found.items()}


class Study(NamedTuple):
    """What one simulated study found."""

    intervals: Limits
    p_values: dict[str, float]


def one_study(task: tuple[Scenario, int, int]) -> Study:
    """Simulate and evaluate one study."""
    scenario, number, resamples = task
    joint = simulate(scenario, np.random.default_rng([number, 1]))
    tests = compare_detectors(joint, 0, 1, resamples=resamples, unit=scenario.unit, seed=number)
    return Study(
        intervals_of(joint, unit=scenario.unit, resamples=resamples, seed=number),
        {test.metric: test.p_value for test in tests},
    )


def truths(scenario: Scenario) -> tuple[dict[str, float], dict[str, float]]:
    """Expectation of every metric over studies of this size, and its limit for endlessly many images."""

    def mean(studied: Scenario, *, studies: int, stream: int) -> dict[str, float]:
        values = [
            values_of(simulate(studied, np.random.default_rng([number, stream]))) for number in range(studies)
        ]
        return {name: float(np.mean([value[name] for value in values])) for name in values[0]}

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
        f"{resamples} resamples, unit {scenario.unit}; {time.perf_counter() - began:.0f} s\n"
    )
    print(f"| {' | '.join(HEADINGS)} |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|")
    for name in REPORTED:
        cells = [covered([each.intervals[name, method] for each in found], expected[name]) for method in METHODS]
        cells.append(covered([each.intervals[name, "ours"] for each in found], limit[name]))
        p_values = np.array([each.p_values.get(name, np.nan) for each in found])
        cells.append(f"{100 * np.mean(p_values < 1 - LEVEL):.1f}" if name in COMPARED_METRICS else "")
        print(f"| {name} | {expected[name]:.4f} | {limit[name]:.4f} | {' | '.join(cells)} |")
    for name in ("filtering_right", "classification_right"):
        p_values = np.array([each.p_values[name] for each in found])
        print(f"| {name} (McNemar) | | | | | | | {100 * np.mean(p_values < 1 - LEVEL):.1f} |", flush=True)


def main() -> None:
    """Simulate, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--studies", type=int, default=400)
    parser.add_argument("--resamples", type=int, default=1000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--scenario", choices=[scenario.name for scenario in SCENARIOS])
    options = parser.parse_args()
    print(machine())
    for scenario in SCENARIOS:
        if options.scenario in (None, scenario.name):
            report(scenario, studies=options.studies, resamples=options.resamples, workers=options.workers)


if __name__ == "__main__":
    main()
