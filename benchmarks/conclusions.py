"""How often is a conclusion wrong? Studies in which nothing is different, and studies in which something is.

    python benchmarks/conclusions.py [--part PART] [--studies N] [--workers N] [--scenario NAME]

Simulates studies, and counts what `compare`, `rank`, `causes` and the report's verdicts say about them. Prints the
tables that docs/uncertainty.md shows. `benchmarks/sweep_selection.py` does the same for `sweep`.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from measuring import machine, spread
from scipy.optimize import brentq
from simulated_detectors import (
    Detector,
    Floats,
    model_bias_score_difference,
    population_errors,
    shares_of_men,
    simulate,
    simulated,
)
from verdict_conclusions import report_causes, report_labels, report_verdicts

from detector_bench.evaluation.comparison import COMPARED_METRICS, ComparisonFamily, Contest
from detector_bench.evaluation.ranking import ranking
from detector_bench.metrics.influence import comparable_metrics

NAMES = tuple("abcdefgh")
RANKS = ", ranks"
DRAWS = 2_000
"""Of the largest difference, fewer than a study takes, so that thousands of studies can be simulated."""

SYMMETRIC = Detector((0.95, 0.95), (0.06, 0.06))
LOSES_WOMEN = Detector((0.97, 0.85), (0.02, 0.05))
LOW_RECALL = Detector((0.6, 0.6), (0.08, 0.08), keeps=0.1)
KINDS = {"symmetric errors": SYMMETRIC, "loses women": LOSES_WOMEN, "low recall": LOW_RECALL}


@dataclass(frozen=True)
class RankScenario:
    """Eight detectors that are equal, by some metrics at least."""

    name: str
    truth: str
    prompts: int
    images: int
    detectors: tuple[Detector, ...]
    metrics: tuple[str, ...] = comparable_metrics()
    """Each is tested by itself; all of `COMPARED_METRICS` together, too, where all of them are here."""

    @property
    def men(self) -> Floats:
        """Share of men by prompt."""
        return shares_of_men(self.truth, self.prompts)


def rank_scenarios() -> list[RankScenario]:
    """Detectors that are exchangeable, and others that share one metric only."""
    found = [
        RankScenario(f"{kind}, {truth}", truth, 100, 20, (detector,) * 8)
        for truth in ("fair", "lyu")
        for kind, detector in KINDS.items()
    ]
    found += [
        RankScenario(f"{kind}, small, {truth}", truth, 12, 5, (detector,) * 8)
        for truth in ("fair", "lyu")
        for kind, detector in KINDS.items()
    ]
    found += [_other_filters(), _over_and_under()]
    return found + [_equal_prompt_errors(truth) for truth in ("fair", "lyu")]


def _other_filters() -> RankScenario:
    recalls = ((0.97, 0.97), (0.7, 0.95), (0.95, 0.7), (0.6, 0.6))
    detectors = tuple(Detector(recall, (0.06, 0.06)) for recall in recalls for _ in range(2))
    return RankScenario("same accuracy, other filters", "lyu", 100, 20, detectors, ("accuracy",))


def _over_and_under() -> RankScenario:
    """Four detectors that lose women and overestimate the bias, four whose errors hide as much of it."""
    men = shares_of_men("lyu", 100)
    over = Detector((0.95, 0.6), (0.01, 0.01), keeps=0.1)

    def together(wrong: float) -> float:
        under = Detector((0.95, 0.95), (wrong, wrong), keeps=0.1)
        return sum(model_bias_score_difference(each, men, 20) for each in (over, under))

    wrong = float(brentq(together, 0.001, 0.3))
    under = Detector((0.95, 0.95), (wrong, wrong), keeps=0.1)
    return RankScenario(
        "over- and underestimated alike", "lyu", 100, 20, (over, under) * 4, ("model_bias_score_deviation",)
    )


def _equal_prompt_errors(truth: str) -> RankScenario:
    men = shares_of_men(truth, 100)
    losing = Detector((0.95, 0.8), (0.02, 0.02), keeps=0.1)
    wanted = population_errors(losing, men).prompt_bias_error

    def one_sided(wrong: float) -> Detector:
        return Detector((0.95, 0.95), (0.0, wrong), keeps=0.1)

    def beyond(wrong: float) -> float:
        return population_errors(one_sided(wrong), men).prompt_bias_error - wanted

    other = one_sided(float(brentq(beyond, 0.0, 0.9)))
    return RankScenario(
        f"same prompt bias error, {truth}", truth, 100, 20, (losing, other) * 4, ("prompt_bias_error",)
    )


def one_ranking(seed: np.random.SeedSequence, scenario: RankScenario) -> dict[str, bool]:
    """Whether any two detectors are told apart, by family; and whether each may have any rank."""
    random = np.random.default_rng(seed)
    joint = simulate(scenario.detectors, scenario.men, images=scenario.images, random=random)
    families: dict[str, tuple[str, ...]] = {name: (name,) for name in scenario.metrics}
    if set(COMPARED_METRICS) <= set(scenario.metrics):
        families["all five"] = COMPARED_METRICS
    found = {}
    for name, metrics in families.items():
        family = ComparisonFamily.of([Contest(joint, NAMES)], metrics=metrics, draws=DRAWS)
        rankings = [ranking(family, metric) for metric in metrics]
        found[name] = any(each.better_than for ranked in rankings for each in ranked)
        ranks = [(each.rank_low, each.rank_high) for ranked in rankings for each in ranked if each.groups]
        found[name + RANKS] = all(low == 1 and high == len(ranked) for ranked in rankings for low, high in ranks)
    return found


def report_ranks(arguments: argparse.Namespace) -> None:
    """How often equal detectors are told apart."""
    print(f"\n## Equal detectors, {arguments.studies} studies: any two of eight told apart, %\n", flush=True)
    for scenario in rank_scenarios():
        if not arguments.scenario or arguments.scenario in scenario.name:
            studies = simulated(
                partial(one_ranking, scenario=scenario), studies=arguments.studies, workers=arguments.workers
            )
            names = [name for name in studies[0] if not name.endswith(RANKS)]
            apart = [f"{name} {100 * np.mean([each[name] for each in studies]):.1f}" for name in names]
            held = min(np.mean([each[name + RANKS] for each in studies]) for name in names)
            print(
                f"**{scenario.name}**: {', '.join(apart)}; all ranks held in {100 * held:.1f} or more", flush=True
            )


def one_large_difference(seed: np.random.SeedSequence) -> dict[str, float]:
    """Two detectors of accuracy 93.7 and 83.2 % on 384 images of 12 prompts; the family of five metrics."""
    detectors = tuple(Detector((0.95, 0.95), (1 - accuracy,) * 2) for accuracy in (0.937, 0.832))
    joint = simulate(detectors, shares_of_men("lyu", 12), images=32, random=np.random.default_rng(seed))
    family = ComparisonFamily.of([Contest(joint, NAMES[:2])], draws=DRAWS)
    return {name: family.test(name, 0, 1).told_apart for name in COMPARED_METRICS}


def report_power(arguments: argparse.Namespace) -> None:
    """How often a large difference is found."""
    print(f"\n## Accuracy 93.7 and 83.2 % on 384 images, {arguments.studies} studies: told apart, %\n")
    studies = simulated(one_large_difference, studies=arguments.studies, workers=arguments.workers)
    for name in COMPARED_METRICS:
        print(f"{name} {100 * np.mean([each[name] for each in studies]):.1f}", flush=True)


def report_speed(_: argparse.Namespace) -> None:
    """What `rank` takes beyond loading: 8 detectors, 6,000 images, five metrics."""
    joint = simulate((SYMMETRIC,) * 8, shares_of_men("lyu", 100), images=60, random=np.random.default_rng(0))
    clock, processor = [], []
    for _round in range(7):
        began, began_to_work = time.perf_counter(), time.process_time()
        family = ComparisonFamily.of([Contest(joint, NAMES)])
        for name in COMPARED_METRICS:
            ranking(family, name)
        clock.append(time.perf_counter() - began)
        processor.append(time.process_time() - began_to_work)
    print(f"\n## Ranking 8 detectors on {joint.images:,} images, s: {spread(clock)} by the clock,", end=" ")
    print(f"{spread(processor)} of processor time; the first includes imports", flush=True)


PARTS: dict[str, Callable[[argparse.Namespace], None]] = {
    "ranks": report_ranks,
    "power": report_power,
    "speed": report_speed,
    "verdicts": report_verdicts,
    "labels": report_labels,
    "causes": report_causes,
}


def main() -> None:
    """Simulate, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=[*PARTS], help="one of the questions; all, if left out")
    parser.add_argument("--studies", type=int, default=1_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--scenario", default="", help="only those whose name contains this")
    arguments = parser.parse_args()
    print(machine())
    for name, part in PARTS.items():
        if arguments.part in (None, name):
            part(arguments)


if __name__ == "__main__":
    main()
