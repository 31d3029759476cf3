"""Does `plan` foretell the half-width that comes out? Predicted over actual, less 1, in worlds with known truth.

    python benchmarks/audit_plan.py [--worlds NAME ...] [--draws N] [--first-draw N] [--csv FILE]

A pilot is labelled; the half-width of a larger study is foretold; then a larger study of the same images is drawn
and estimated. Prints mean and standard deviation over draws by world, and how far off one forecast is on average.
A world's T2I models count together.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from audit_coverage import partly_labelled
from audit_worlds import WORLDS, World, world_named
from measuring import machine

from detector_bench.estimation import About
from detector_bench.estimation.planning import HalfWidths

if TYPE_CHECKING:
    from collections.abc import Iterator

STEPS = ((5, 10), (5, 20), (2, 6))
"""Labels per prompt of the pilot and of the study; the last one (200 to 600 labels of 100 prompts) only where
there are 40 prompts or more."""

SCORES = ("model_bias_score", "mean_prompt_bias_score", "prompt_bias_score", "label_share_0")
TARGET = 0.15


def forecasts(world: World, pilot: int, study: int, *, draws: range, about: About) -> Iterator[dict[str, object]]:
    """Rows of predicted and actual half-widths."""
    for draw in draws:
        images = world.draw(2 * (draw // 1000) + draw % 2)
        known = HalfWidths.of(partly_labelled(images, pilot, np.random.default_rng([1, draw])), about=about)
        larger = partly_labelled(images, study, np.random.default_rng([2, draw]))
        actual = HalfWidths.of(larger, about=about)
        for score in SCORES[: 4 if world.classes == 2 else 1]:
            for model in range(1, world.t2i_models + 1):
                labels = actual.labels_now(model)
                yield {
                    "world": world.name,
                    "pilot": pilot,
                    "study": study,
                    "about": about,
                    "score": score,
                    "t2i_model": model,
                    "draw": draw,
                    "now": known.now(score, model),
                    "predicted": known.at(score, labels, model),
                    "actual": actual.now(score, model),
                }


def report(rows: pd.DataFrame) -> None:
    """Print mean and standard deviation of predicted / actual - 1."""
    rows = rows.assign(off=rows["predicted"] / rows["actual"] - 1)
    print("| world | labels per prompt | score | mean | sd | one forecast is off by | half-width |")
    print("|---|---|---|---:|---:|---:|---:|")
    keys = ["world", "pilot", "study", "score"]
    for (world, pilot, study, score), group in rows.groupby(keys, sort=False):
        off = group.groupby("draw")["off"].mean()
        print(
            f"| {world} | {pilot} to {study} | {score} | {100 * off.mean():+.0f} % | {100 * off.std():.0f} % "
            f"| {100 * off.abs().mean():.0f} % | {group['actual'].mean():.3f} |",
            flush=True,
        )


def verdict(rows: pd.DataFrame) -> None:
    """Print over all worlds."""
    rows = rows.assign(off=rows["predicted"] / rows["actual"] - 1)
    means = rows.groupby(["pilot", "study", "score", "world"], sort=False)["off"].mean()
    print("\n| labels per prompt | score | worlds | mean of worlds | mean size | within 15 % | worst |")
    print("|---|---|---:|---:|---:|---:|---|")
    for (pilot, study, score), group in means.groupby(["pilot", "study", "score"], sort=False):
        worst = group.abs().idxmax()
        print(
            f"| {pilot} to {study} | {score} | {len(group)} | {100 * group.mean():+.0f} % "
            f"| {100 * group.abs().mean():.0f} % | {int((group.abs() <= TARGET).sum())} "
            f"| {worst[-1]}: {100 * group[worst]:+.0f} % |"
        )


def main() -> None:
    """Draw, forecast, compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worlds", nargs="+", metavar="NAME", default=[world.name for world in WORLDS])
    parser.add_argument("--draws", type=int, default=8)
    parser.add_argument("--first-draw", type=int, default=0, help="1000 and above: other image sets, too")
    parser.add_argument("--about", choices=("images", "t2i_model"), default="images")
    parser.add_argument("--csv", type=Path)
    arguments = parser.parse_args()
    print(f"{machine()}\n")
    found = []
    for name in arguments.worlds:
        world = world_named(name)
        for pilot, study in STEPS:
            if study >= world.images_per_prompt or (pilot == 2 and world.prompts < 40):
                continue
            draws = range(arguments.first_draw, arguments.first_draw + arguments.draws)
            rows = pd.DataFrame(forecasts(world, pilot, study, draws=draws, about=arguments.about))
            report(rows)
            found.append(rows)
    rows = pd.concat(found, ignore_index=True)
    verdict(rows)
    if arguments.csv is not None:
        rows.to_csv(arguments.csv, index=False)


if __name__ == "__main__":
    main()
