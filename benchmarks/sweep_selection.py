"""A threshold is chosen as the best of many: what does it look like here, and what does it do on other prompts?

    python benchmarks/sweep_selection.py [--studies N] [--resamples N] [--scenario NAME]

Simulates studies of one detector with a score, chooses a threshold by each rule of `sweep`, and counts what the
chosen one does on as many fresh prompts of the same categories. Prints the tables that docs/uncertainty.md shows.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from measuring import machine
from numpy.typing import NDArray

from detector_bench.evaluation.out_of_sample import REPEATS, threshold_choices
from detector_bench.evaluation.sweeps import Sweep
from detector_bench.evaluation.threshold_chooser import ThresholdChooser
from detector_bench.metrics import METRICS
from detector_bench.vocabulary import ALL, attribute_named

HEADINGS = (
    "chosen by",
    "here",
    "`sweep`: other prompts",
    "fresh prompts",
    "`sweep` minus fresh, of equally hard prompts",
    "held-out images counted together",
    "lowest threshold, fresh prompts",
    "interval holds the mean on fresh prompts, %",
)
IMAGES = 20
THRESHOLDS = 20
CLEAR = 0.85
LEVEL = 0.95


@dataclass(frozen=True)
class Scenario:
    """What is simulated."""

    name: str
    kind: str
    """`alike`: every threshold keeps a random part of equal size, so none is better. `no information`: the score
    is a random number. `informative`: hard and low-quality images have low scores."""
    prompts: int
    categories: int = 1
    """With several, prompts of one are biased alike, and hard alike."""


SCENARIOS = (
    Scenario("all thresholds alike, 12 prompts", "alike", 12),
    Scenario("all thresholds alike, 40 prompts", "alike", 40),
    Scenario("a score without information, 40 prompts", "no information", 40),
    Scenario("an informative score, 12 prompts", "informative", 12),
    Scenario("an informative score, 40 prompts", "informative", 40),
    Scenario("an informative score, 40 prompts in 4 categories that differ", "informative", 40, 4),
)


def simulate(scenario: Scenario, random: np.random.Generator) -> Sweep:
    """A study of one detector, counted at every threshold."""
    shape = (scenario.prompts, IMAGES)
    category = np.arange(scenario.prompts) % scenario.categories
    # Categories are the same in every study; prompts within them are not.
    of_category = np.linspace(-1, 1, scenario.categories) if scenario.categories > 1 else np.zeros(1)
    share = 1 / (1 + np.exp(-random.normal(0.8 + 1.5 * of_category[category], 1.5)))
    hard = random.normal(of_category[category], 0.5)[:, np.newaxis]
    clear = random.random(shape) < CLEAR
    truth = np.where(clear, random.random(shape) >= share[:, np.newaxis], 2)
    ease = random.normal(size=shape) - 0.7 * hard
    if scenario.kind == "informative":
        right = random.random(shape) < 1 / (1 + np.exp(-(1.8 + 1.5 * ease)))
        score = 1 / (1 + np.exp(-(ease + np.where(clear, 1.2, -1.2) + random.normal(0, 0.7, shape))))
    else:
        right = random.random(shape) < 1 / (1 + np.exp(hard - 2.2))
        score = random.random(shape)
    named = np.where(clear, np.where(right, truth, 1 - truth), random.random(shape) < 0.5)
    thresholds = np.linspace(0, 0.95, THRESHOLDS)
    if scenario.kind == "alike":
        kept = random.random((THRESHOLDS, *shape)) < np.where(clear, 0.8, 0.4)
    else:
        kept = score >= thresholds[:, np.newaxis, np.newaxis]
    verdict = np.where(kept, named, 2)
    place = np.arange(THRESHOLDS * scenario.prompts).reshape(THRESHOLDS, scenario.prompts, 1)
    counts = np.bincount(((place * 4 + truth) * 4 + verdict).ravel(), minlength=place.size * 16)
    return Sweep(
        detector="simulated",
        attribute=attribute_named("gender"),
        t2i_models=("simulated",),
        thresholds=thresholds,
        counts=counts.reshape(THRESHOLDS, 1, scenario.prompts, 4, 4),
        category_of_prompt=category,
        known_above=-np.inf,
        without_score=0,
    )


class Found(NamedTuple):
    """One study, one rule."""

    here: float
    other_prompts: float
    fresh: float
    together: float
    lowest: float
    any_here: float
    """Mean over all thresholds, of squares if the metric is signed: on average as on fresh prompts."""
    any_fresh: float
    ci_low: float
    ci_high: float


def one_study(seed: np.random.SeedSequence, scenario: Scenario, *, resamples: int) -> dict[str, Found]:
    """What each rule chooses, and what that does on fresh prompts."""
    random = np.random.default_rng(seed)
    study, fresh = simulate(scenario, random), simulate(scenario, random)
    choices = threshold_choices(study, t2i_models=[ALL], seed=1, level=LEVEL, resamples=resamples)
    found = {}
    for choice in choices.itertuples(index=False):
        metric = METRICS[choice.chosen_by]
        everyone = np.ones((1, scenario.prompts))
        there = ThresholdChooser.of_sweep(fresh, metric, n_clear="detector").values(everyone)[0]
        chooser = ThresholdChooser.of_sweep(study, metric, n_clear="detector")
        here = chooser.values(everyone)[0]
        power = 2 if chooser.signed else 1
        fold = chooser.dealt(repeats=REPEATS, random=random)
        found[metric.name] = Found(
            choice.value,
            choice.other_prompts,
            there[list(study.thresholds).index(choice.threshold)],
            chooser.held_out(fold, chooser.chosen(fold)),
            there[0],
            float(np.nanmean(here**power)),
            float(np.nanmean(there**power)),
            choice.ci_low,
            choice.ci_high,
        )
    return found


def row(metric: str, studies: Iterable[Found]) -> list[str]:
    """One line of a table; of signed metrics the roots of mean squares."""
    found = Found(*(np.array(values) for values in zip(*studies, strict=True)))
    signed = METRICS[metric].better == "closest to zero"

    def mean(values: NDArray[np.float64]) -> float:
        return float(np.sqrt(np.nanmean(values**2)) if signed else np.nanmean(values))

    here, ours, fresh, together, lowest = (mean(values) for values in found[:5])
    power = 2 if signed else 1
    # How hard this study's prompts are at any threshold, and the fresh ones, is chance that both sides share.
    difference = found.other_prompts**power - found.any_here - (found.fresh**power - found.any_fresh)
    # From mean squares to their roots.
    difference = difference / (ours + fresh if signed else 1)
    off, error = np.nanmean(difference), np.nanstd(difference) / np.sqrt(len(difference))
    holds = (found.ci_low <= fresh) & (fresh <= found.ci_high)
    cover = "-" if np.isnan(found.ci_low).all() else f"{100 * holds[~np.isnan(found.ci_low)].mean():.1f}"
    name = f"{metric.replace('_', ' ')}{' (root mean square)' if signed else ''}"
    numbers = [f"{value:.4f}" for value in (here, ours, fresh)]
    return [name, *numbers, f"{off:+.4f} (s. e. {error:.4f})", f"{together:.4f}", f"{lowest:.4f}", cover]


def main() -> None:
    """Run the scenarios, and print a table for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--studies", type=int, default=1_000)
    parser.add_argument("--resamples", type=int, default=100)
    parser.add_argument("--scenario", help="only those whose name contains this")
    arguments = parser.parse_args()
    print(machine())
    for number, scenario in enumerate(SCENARIOS):
        if arguments.scenario and arguments.scenario not in scenario.name:
            continue
        start = time.perf_counter()
        seeds = np.random.SeedSequence(number).spawn(arguments.studies)
        study = partial(one_study, scenario=scenario, resamples=arguments.resamples)
        with ProcessPoolExecutor() as workers:
            studies = list(workers.map(study, seeds, chunksize=5))
        print(f"\n**{scenario.name}**: {arguments.studies} studies, {time.perf_counter() - start:.0f} s\n")
        print("| " + " | ".join(HEADINGS) + " |")
        print("|---|" + "---:|" * (len(HEADINGS) - 1))
        for metric in (each.name for each in METRICS.swept_for(attribute_named("gender")) if each.chooses):
            print("| " + " | ".join(row(metric, [each[metric] for each in studies])) + " |", flush=True)


if __name__ == "__main__":
    main()
