"""Do 95 % intervals of BiasPainter's, BIGbench's and ImageBiTe's scores hold the truth 95 times in 100?

    python benchmarks/score_coverage.py [--studies N] [--resamples N] [--scenario NAME]

Simulates studies with a known truth, gives them to the score systems as a study does, and prints the table of
docs/uncertainty.md as Markdown. The truth is each score's mean over studies of the same size; prompts stay, images
are new in every study. BiasPainter's seed photos, and what the detector says about them, stay too, or are new.
"""

from __future__ import annotations

import argparse
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd
from measuring import machine
from numpy.typing import NDArray

from detector_bench.evaluation.intervals import Intervals
from detector_bench.installation import resource
from detector_bench.metrics import Scopes
from detector_bench.others.biaspainter.score_system import BiasPainterScores
from detector_bench.others.bigbench.score_system import BigBench
from detector_bench.others.imagebite.score_system import ImageBiTe
from detector_bench.others.judgements import NO_CELL, UNJUDGED, Judgements
from detector_bench.vocabulary import ALL, GROUND_TRUTH

DETECTOR = "detector"
WEIGHTS = {"gender": (0.65, 0.35), "race": (0.5, 0.12, 0.1, 0.08, 0.05, 0.08, 0.07), "age": (0.4, 0.45, 0.15)}
RIGHT = {"gender": 0.92, "race": 0.75, "age": 0.85}
KEEPS = 0.95
CLEAR = 0.9
"""Share of images that a human can judge."""
SCORES = (
    "bigbench_implicit_bias_score",
    "imagebite_stereotyped",
    "imagebite_under_represented",
    "imagebite_ex_nominated",
    "imagebite_verdict_agreement",
    "biaspainter_model_score",
)


@dataclass(frozen=True)
class Scenario:
    """What is simulated: one T2I model."""

    name: str
    prompts: int
    images: int
    """Of each prompt; with pairs, the number of seed photos."""
    pairs: bool = False
    new_seeds: bool = False
    """Whether every study has its own seed photos."""


SCENARIOS = (
    Scenario("images, 30 x 20", 30, 20),
    Scenario("images, 12 x 32", 12, 32),
    Scenario("images, 30 x 5", 30, 5),
    Scenario("pairs, 40 words x 18 seeds", 40, 18, pairs=True),
    Scenario("pairs, 10 words x 18 seeds", 10, 18, pairs=True),
    Scenario("pairs, 40 words x 18 new seeds", 40, 18, pairs=True, new_seeds=True),
)


def of_images(scenario: Scenario, random: np.random.Generator) -> Judgements:
    """Human labels and a detector's answers; how often a prompt shows which class is the same in every study."""
    fixed = np.random.default_rng(7)
    prompt = np.repeat(np.arange(scenario.prompts), scenario.images)
    labels = {}
    for attribute, weights in WEIGHTS.items():
        shares = fixed.dirichlet(3 * np.array(weights), size=scenario.prompts)
        classes = len(weights)
        draw = random.random(prompt.size)[:, np.newaxis]
        truth = (draw >= shares.cumsum(axis=1)[prompt, :-1]).sum(axis=1)
        other = (truth + random.integers(1, classes, prompt.size)) % classes
        said = np.where(random.random(prompt.size) < RIGHT[attribute], truth, other)
        kept = random.random(prompt.size) < KEEPS
        clear = random.random(prompt.size) < CLEAR
        labels[attribute] = np.stack([np.where(clear, truth, UNJUDGED), np.where(kept, said, UNJUDGED)])
    nothing = {name: np.full(each.shape, np.nan) for name, each in labels.items()}
    return judgements(scenario.prompts, prompt, np.full(prompt.size, NO_CELL), labels, nothing)


def of_pairs(scenario: Scenario, random: np.random.Generator) -> Judgements:
    """Seed photos first; words change gender and age, and some seeds are changed more easily than others."""
    fixed = np.random.default_rng(7)
    flip = fixed.beta(1, 3, size=scenario.prompts)
    towards_female = fixed.random(scenario.prompts)
    older = fixed.normal(3, 12, size=scenario.prompts)
    of_seeds = random if scenario.new_seeds else np.random.default_rng(8)
    seeds = scenario.images
    gender = np.arange(seeds) % 2
    years = of_seeds.uniform(20, 70, seeds)
    easy = of_seeds.normal(0, 4, seeds)
    seen_years = years + of_seeds.normal(0, 6, seeds)
    seen_gender = np.where(of_seeds.random(seeds) < RIGHT["gender"], gender, 1 - gender)
    prompt = np.repeat(np.arange(scenario.prompts), seeds)
    seed = np.tile(np.arange(seeds), scenario.prompts)
    to_female = towards_female[prompt] > 0.5
    changes = (random.random(prompt.size) < flip[prompt]) & (to_female == (gender[seed] == 0))
    edited_gender = np.where(changes, 1 - gender[seed], gender[seed])
    edited_years = np.clip(years[seed] + older[prompt] + easy[seed] + random.normal(0, 8, prompt.size), 0, 120)
    said_gender = np.where(random.random(prompt.size) < RIGHT["gender"], edited_gender, 1 - edited_gender)
    said_years = np.clip(edited_years + random.normal(0, 6, prompt.size), 0, 120)
    kept, clear = random.random(prompt.size) < KEEPS, random.random(prompt.size) < CLEAR

    def joined(of_seed: NDArray[np.floating], edited: NDArray[np.floating], known: NDArray[np.bool_]) -> NDArray:
        return np.concatenate([of_seed, np.where(known, edited, np.nan)])

    gender_rows = np.stack([joined(gender, edited_gender, clear), joined(seen_gender, said_gender, kept)])
    year_rows = np.stack([joined(years, edited_years, clear), joined(seen_years, said_years, kept)])
    labels = {
        "gender": np.where(np.isnan(gender_rows), UNJUDGED, gender_rows),
        "age": np.where(np.isnan(year_rows), UNJUDGED, 1),
    }
    values = {"gender": np.full(gender_rows.shape, np.nan), "age": year_rows}
    nowhere = np.full(seeds, NO_CELL)
    return judgements(
        scenario.prompts, np.concatenate([nowhere, prompt]), np.concatenate([nowhere, seed]), labels, values
    )


def judgements(
    prompts: int,
    prompt: NDArray[np.intp],
    seed: NDArray[np.intp],
    labels: dict[str, NDArray],
    values: dict[str, NDArray],
) -> Judgements:
    """By a human and a detector, of one T2I model."""
    return Judgements(
        image_ids=tuple(map(str, range(prompt.size))),
        t2i_models=("model",),
        prompt_ids=tuple(f"p{number}" for number in range(prompts)),
        scopes=Scopes.of_prompts(["all words"] * prompts),
        t2i_model=np.where(prompt == NO_CELL, NO_CELL, 0),
        prompt=prompt,
        seed=seed,
        judges=(GROUND_TRUTH, DETECTOR),
        judged=dict.fromkeys(labels, (True, True)),
        labels={name: each.astype(np.int8) for name, each in labels.items()},
        values=values,
    )


def scored(scenario: Scenario, number: int, *, resamples: int) -> pd.DataFrame:
    """Simulate a study and compute its scores of all images: value and interval, by score."""
    stream = 1 if resamples else 2
    random = np.random.default_rng([number, stream])
    intervals = (
        Intervals(method="percentile", resamples=resamples, seed=number) if resamples else Intervals(method="none")
    )
    if scenario.pairs:
        made = of_pairs(scenario, random)
        systems = [BiasPainterScores(preset=preset) for preset in ("as_published", "as_formula")]
    else:
        made = of_images(scenario, random)
        file = resource("labels/imagebite/input.json")
        systems = [BigBench(references="equal"), ImageBiTe(system="imagebite", requirements=file)]
    rows = pd.concat([system.rows(made, intervals) for system in systems])
    wanted = [*SCORES, *(f"{name}_deviation" for name in SCORES)]
    rows = rows[rows["metric"].isin(wanted) & (rows["category"] == ALL) & (rows["prompt_id"] == ALL)]
    rows = rows[rows["t2i_model"] == ALL]
    return rows.set_index(["metric", "variant", "attribute", "detector"])[["value", "ci_low", "ci_high"]]


def report(scenario: Scenario, *, studies: int, resamples: int, workers: int) -> None:
    """Simulate and print one scenario."""
    began = time.perf_counter()
    with ProcessPoolExecutor(workers) as pool:
        truths = list(pool.map(partial(scored, scenario, resamples=0), range(5 * studies), chunksize=8))
        found = list(pool.map(partial(scored, scenario, resamples=resamples), range(studies), chunksize=4))
    values = np.array([each["value"].to_numpy() for each in truths])
    low, high = (np.array([each[name].to_numpy() for each in found]) for name in ("ci_low", "ci_high"))
    print(f"\n### {scenario.name}\n")
    print(
        f"{studies} studies, {resamples} resamples; the truth from {5 * studies} more; "
        f"{time.perf_counter() - began:.0f} s\n"
    )
    print("| score | attribute | judge | mean | interval holds it | too high | too low | no interval |")
    print("|---|---|---|---:|---:|---:|---:|---:|")
    for place, (metric, variant, attribute, judge) in enumerate(found[0].index):
        mean = float(np.nanmean(values[:, place]))
        missing = np.isnan(low[:, place])
        above, below = low[~missing, place] > mean, high[~missing, place] < mean
        shares = (
            [1 - above.mean() - below.mean(), above.mean(), below.mean()] if not missing.all() else [np.nan] * 3
        )
        cells = [f"{100 * share:.1f}" for share in (*shares, missing.mean())]
        print(f"| {metric}, {variant} | {attribute} | {judge} | {mean:.4f} | {' | '.join(cells)} |", flush=True)


def main() -> None:
    """Simulate, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--studies", type=int, default=200)
    parser.add_argument("--resamples", type=int, default=1000)
    parser.add_argument("--scenario", choices=[each.name for each in SCENARIOS])
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    print(machine())
    for scenario in SCENARIOS:
        if options.scenario in (None, scenario.name):
            report(scenario, studies=options.studies, resamples=options.resamples, workers=options.workers)


if __name__ == "__main__":
    main()
