"""Does it pay to choose the images to be labelled by what detectors say of them?

    python benchmarks/audit_designs.py [--worlds NAME ...] [--labels N ...] [--draws N]

Draws samples of each design (`estimation.sampling`) from image sets of known labels (`audit_worlds.py`), estimates
from them, and compares with the designs' rmse: equally within prompts; spread over the detectors' verdicts; more
likely where detectors disagree. "Worth" is (rmse of the equal design / rmse)^2: above 1 a design does with fewer
labels.
"""

from __future__ import annotations

import argparse
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from typing import NamedTuple

import numpy as np
import pandas as pd
from audit_coverage import scores_of
from audit_worlds import WORLDS, world_named
from measuring import machine

from detector_bench.estimation import PartlyLabelled, estimate
from detector_bench.estimation.sampling import draw, opinions
from detector_bench.metrics import Scopes
from detector_bench.sample_design import SampleDesign

WORLDS_ASKED = (
    "portraits, 5 detectors, 200 images",
    "portraits, 5 detectors, 50 images",
    "Lyu 2025, FairFace",
    "Lyu 2025, 8 detectors",
    "errors follow the stereotype",
    "filters follow the prompt",
    "one useless among good",
    "one adversarial among good",
)
_ROUNDING = 1e-9


class Task(NamedTuple):
    """Some draws of one world by one design."""

    world: str
    labels: int
    design: SampleDesign
    draws: range


def drawn(task: Task) -> pd.DataFrame:
    """Errors of the estimates of each draw, and whether intervals held the truth."""
    images = world_named(task.world).draw(0)
    counts = images.counts.astype(np.float64)
    sizes = counts.sum(axis=1)
    shares = counts / np.maximum(sizes, 1)[:, np.newaxis]
    truth = scores_of(shares, sizes, t2i_models=images.t2i_models)
    shape = (images.t2i_models, images.prompts)
    said = opinions(images.verdicts, classes=images.classes)
    rows = []
    for number in task.draws:
        labels = task.labels * images.t2i_models * images.prompts
        sample = draw(images.cell, shape=shape, labels=labels, seed=number, design=task.design, said=said)
        truths, chance = np.full(len(images.truth), -1), np.full(len(images.truth), np.nan)
        truths[sample.images] = images.truth[sample.images]
        chance[sample.images] = sample.probability
        given = PartlyLabelled(
            truth=truths,
            verdicts=images.verdicts,
            cell=images.cell,
            t2i_models=images.t2i_models,
            scopes=Scopes.of_prompts(["all of them"] * images.prompts),
            classes=images.classes,
            probability=chance,
            cell_probability=np.ones(images.t2i_models * images.prompts),
        )
        found = estimate(given)
        for score in ("mean_prompt_bias_score", "model_bias_score", "prompt_bias_score"):
            prompts = score == "prompt_bias_score"
            each = found.prompts[score] if prompts else found.scopes[score]
            value, low, high = (part.ravel() if prompts else part[1:, 0] for part in each[:3])
            error, there = value - truth[score], ~np.isnan(value + truth[score])
            held = (low <= truth[score] + _ROUNDING) & (truth[score] <= high + _ROUNDING)
            rows.append((score, (error[there] ** 2).mean(), held[there].mean(), ((high - low) / 2)[there].mean()))
    return pd.DataFrame(rows, columns=["score", "squared_error", "held", "half_width"])


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worlds", nargs="+", choices=[world.name for world in WORLDS], default=WORLDS_ASKED)
    parser.add_argument("--labels", nargs="+", type=int, default=[10], help="per prompt of each T2I model")
    parser.add_argument("--draws", type=int, default=100)
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    print(machine(), f"\n{options.draws} draws each\n")
    print("| world | labels per prompt | score | design | held, % | half-width | rmse | worth |")
    print("|---|---:|---|---|---:|---:|---:|---:|")
    with ProcessPoolExecutor(options.processes) as pool:
        for world, labels in product(options.worlds, options.labels):
            tasks = {
                design: [
                    pool.submit(drawn, Task(world, labels, design, range(first, options.draws, options.processes)))
                    for first in range(options.processes)
                ]
                for design in SampleDesign
            }
            means = {
                design: pd.concat([each.result() for each in of_design]).groupby("score", sort=False).mean()
                for design, of_design in tasks.items()
            }
            equal = means[SampleDesign.EQUAL]
            for score in map(str, equal.index):
                for design, found in means.items():
                    error, held, half = found.loc[score]
                    worth = equal.loc[score, "squared_error"] / error
                    print(
                        f"| {world} | {labels} | {score} | {design.value} | {100 * held:.1f} | {half:.3f} "
                        f"| {error**0.5:.3f} | {worth:.2f} |",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
