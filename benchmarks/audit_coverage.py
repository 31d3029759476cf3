"""How good are estimates of a T2I model's bias from few labels, and do their intervals hold the truth?

    python benchmarks/audit_coverage.py [--worlds NAME ...] [--labels N ...] [--draws N] [--csv FILE]

Estimates what `audit_worlds.py` knows, again and again, in two ways:

- about the **images**: an image set stays, and only the images to be labelled are drawn anew. The truth is what
  the labels of all its images say. Several sets take turns, so that none of them decides.
- about the **T2I model**: every draw has new images, too. The truth is the population's.

Prints, for each world and number of labels, how often 95 % intervals hold the truth, how wide they are against
those of labels alone, and how many labels the verdicts are worth: (rmse of labels alone / rmse)^2. Prompts count
together, as an average. A CSV has every number by T2I model, score and estimator.
"""

from __future__ import annotations

import argparse
import time
import zlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, fields
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
import pandas as pd
from audit_populations import Floats, WorldImages
from audit_worlds import WORLDS, World, world_named
from measuring import machine

from detector_bench.metrics import Scopes

if TYPE_CHECKING:
    from detector_bench.estimation import PartlyLabelled

About = Literal["images", "t2i_model"]
ABOUT: tuple[About, ...] = ("images", "t2i_model")
VARIANTS = ("labels_only", "prediction_powered")
LEVEL = 0.95
ROUNDING = 1e-9
"""Of numbers that were added up in another order: of images that all have a label limits are the truth itself."""
PER_TASK = 10
"""Draws that a process does at a time."""

_SAMPLES, _IMAGES = 1, 1_000_000
"""Of random numbers: the stream that says which images are labelled, and the first image set that is drawn anew,
far from those that stay (0, 1, ...)."""


class Estimates(NamedTuple):
    """A score with its interval: `[t2i_model]`, or `[cell]` if it is a prompt's."""

    value: Floats
    low: Floats
    high: Floats


def estimates_of(images: PartlyLabelled, about: About) -> dict[tuple[str, str], Estimates]:
    """Ask the estimator: by variant and score, as `scores_of` names the scores.

    What it does not give is in no table.
    """
    from detector_bench.estimation import estimate

    names = dict(enumerate([*map(str, range(images.classes)), "low_quality", "others"]))
    found = {}
    for variant in VARIANTS:
        estimates = estimate(images, about=about, confidence=LEVEL, use_detectors=variant != "labels_only")
        for metric, each in estimates.scopes.items():
            name = metric
            if metric.startswith("label_share_"):
                name = f"share_{names[int(metric.removeprefix('label_share_'))]}"
            found[variant, name] = Estimates(*(array[1:, 0] for array in each[:3]))
        if "prompt_bias_score" in estimates.prompts:
            of_prompts = estimates.prompts["prompt_bias_score"]
            found[variant, "prompt_bias_score"] = Estimates(*(array.ravel() for array in of_prompts[:3]))
    return found


def partly_labelled(images: WorldImages, labels: float, random: np.random.Generator) -> PartlyLabelled:
    """Label some of the images: equally many of each prompt, at random; all of a prompt that has no more.

    Args:
        images: of the world.
        labels: per prompt of each T2I model. What a whole number leaves over goes to prompts at random.
        random: of the sample.
    """
    from detector_bench.estimation import PartlyLabelled

    cells = images.t2i_models * images.prompts
    whole = int(labels)
    further = round((labels - whole) * images.prompts)
    quota = np.full((images.t2i_models, images.prompts), whole)
    for of_model in quota:
        of_model[random.permutation(images.prompts)[:further]] += 1
    sizes = np.bincount(images.cell, minlength=cells)
    drawn = np.minimum(quota.ravel(), sizes)
    order = np.lexsort((random.random(len(images.cell)), images.cell))
    place = np.empty_like(order)
    place[order] = np.arange(len(order)) - (np.cumsum(sizes) - sizes)[images.cell[order]]
    chosen = place < drawn[images.cell]
    return PartlyLabelled(
        truth=np.where(chosen, images.truth, -1).astype(np.int64),
        verdicts=images.verdicts,
        cell=images.cell,
        t2i_models=images.t2i_models,
        scopes=Scopes.of_prompts(["all of them"] * images.prompts),
        classes=images.classes,
        probability=np.where(chosen, (drawn / np.maximum(sizes, 1))[images.cell], np.nan),
        cell_probability=np.full(cells, 1.0 if whole else further / images.prompts),
    )


def scores_of(shares: Floats, sizes: Floats, *, t2i_models: int) -> dict[str, Floats]:
    """The scores that are estimated, of the shares of the labels in each cell, `[cell, K + 2]`.

    Args:
        shares: those of the images or of the population.
        sizes: images of each cell, `[cell]`; they weigh the shares of labels, while scores are means over prompts.
        t2i_models: how many.

    Returns:
        `share_<label>`, `mean_prompt_bias_score` (two classes) and `model_bias_score`, `[t2i_model]`;
        `prompt_bias_score` (two classes) and `prompt_term`, a prompt's term of the model bias score, `[cell]`: NaN
        for a prompt without a clear image, which no mean counts.
    """
    classes = shares.shape[1] - 2
    weights = sizes.reshape(t2i_models, -1, 1)
    pooled = (weights * shares.reshape(t2i_models, -1, classes + 2)).sum(axis=1) / weights.sum(axis=1)
    names = (*range(classes), "low_quality", "others")
    found = {f"share_{name}": pooled[:, place] for place, name in enumerate(names)}
    clear = shares[:, :classes].sum(axis=1, keepdims=True)
    among = np.divide(shares[:, :classes], clear, out=np.full((len(shares), classes), np.nan), where=clear > 0)
    term = np.abs(among - 1 / classes).sum(axis=1) / (2 * (1 - 1 / classes))
    found |= {"prompt_term": term, "model_bias_score": np.nanmean(term.reshape(t2i_models, -1), axis=1)}
    if classes == 2:
        score = among[:, 0] - among[:, 1]
        found["prompt_bias_score"] = score
        found["mean_prompt_bias_score"] = np.nanmean(score.reshape(t2i_models, -1), axis=1)
    return found


def truth_of(images: WorldImages, about: About) -> dict[str, Floats]:
    """What the estimates should be."""
    counts = images.counts.astype(np.float64)
    sizes = counts.sum(axis=1)
    shares = images.shares if about == "t2i_model" else counts / np.maximum(sizes, 1)[:, np.newaxis]
    return scores_of(shares, sizes, t2i_models=images.t2i_models)


@dataclass
class Tally:
    """What many draws found about one score, by one estimator: sums, `[t2i_model]`."""

    truths: Floats
    """How often there was a truth to be found: draws, or draws x prompts."""
    intervals: Floats
    """How often there was an estimate with an interval, both finite."""
    truth: Floats
    """Sum of the truths of these."""
    held: Floats
    too_low: Floats
    """Intervals that lie below the truth."""
    half_width: Floats
    error: Floats
    squared_error: Floats

    @classmethod
    def of(cls, found: Estimates, truth: Floats, *, t2i_models: int) -> Tally:
        """One draw."""
        defined = ~np.isnan(truth)
        there = defined & np.isfinite(found.value) & np.isfinite(found.low) & np.isfinite(found.high)
        value, low, high = (np.where(there, each, 0.0) for each in found)
        error = value - truth
        parts = (
            defined,
            there,
            np.where(there, truth, 0),
            there & (low <= truth + ROUNDING) & (truth <= high + ROUNDING),
            there & (high < truth),
            (high - low) / 2,
            np.where(there, error, 0),
            np.where(there, error**2, 0),
        )
        return cls(*(part.astype(np.float64).reshape(t2i_models, -1).sum(axis=1) for part in parts))

    def __add__(self, other: Tally) -> Tally:
        """Both together."""
        return Tally(*(getattr(self, each.name) + getattr(other, each.name) for each in fields(self)))


Tallies = dict[tuple[str, str], Tally]


class Task(NamedTuple):
    """Some draws of one world."""

    world: str
    labels: float
    about: About
    draws: range
    image_sets: int


@lru_cache(maxsize=16)
def _staying(world: str, number: int) -> WorldImages:
    return world_named(world).draw(number)


def tallied(task: Task) -> Tallies:
    """Draw, estimate and compare."""
    total: Tallies = {}
    stream = zlib.crc32(f"{task.world}, {task.labels}, {task.about}".encode())
    for draw in task.draws:
        if task.about == "images":
            images = _staying(task.world, draw % task.image_sets)
        else:
            images = world_named(task.world).draw(_IMAGES + draw)
        sample = partly_labelled(images, task.labels, np.random.default_rng([stream, _SAMPLES, draw]))
        truth = truth_of(images, task.about)
        for (variant, score), found in estimates_of(sample, task.about).items():
            if score in truth:
                tally = Tally.of(found, truth[score], t2i_models=images.t2i_models)
                total[variant, score] = total[variant, score] + tally if (variant, score) in total else tally
    return total


def together(found: Sequence[Tallies]) -> Tallies:
    """Add up what several tasks found."""
    total: Tallies = {}
    for each in found:
        for key, tally in each.items():
            total[key] = total[key] + tally if key in total else tally
    return total


def rows_of(
    world: World, labels: float, about: About, found: Tallies, *, draws: int
) -> Iterator[dict[str, object]]:
    """Rows of the CSV: one for each T2I model, score and estimator."""
    for (variant, score), tally in found.items():
        alone = found.get(("labels_only", score))
        for model in range(world.t2i_models):
            intervals = tally.intervals[model]

            def mean(part: Floats, number: float = intervals, place: int = model) -> float:
                return float(part[place] / number) if number else float("nan")

            row: dict[str, object] = {
                "world": world.name,
                "prompts": world.prompts,
                "images_per_prompt": world.images_per_prompt,
                "classes": world.classes,
                "labels_per_prompt": labels,
                "about": about,
                "t2i_model": model,
                "score": score,
                "variant": variant,
                "draws": draws,
                "truths": int(tally.truths[model]),
                "without_interval": int(tally.truths[model] - intervals),
                "truth": mean(tally.truth),
                "coverage": mean(tally.held),
                "too_low": mean(tally.too_low),
                "half_width": mean(tally.half_width),
                "bias": mean(tally.error),
                "rmse": mean(tally.squared_error) ** 0.5,
            }
            if alone is not None and intervals and alone.intervals[model]:
                row["width_ratio"] = _ratio(
                    mean(tally.half_width), alone.half_width[model] / alone.intervals[model]
                )
                squared = alone.squared_error[model] / alone.intervals[model]
                row["worth_labels"] = _ratio(squared, mean(tally.squared_error))
            yield row


def _ratio(above: float, below: float) -> float:
    return float(above / below) if below > 0 else float("nan")


def averaged(rows: pd.DataFrame) -> pd.DataFrame:
    """Means over T2I models, with the estimators side by side: `[score; (number, variant)]`."""
    return rows.pivot_table(
        index="score",
        columns="variant",
        values=["coverage", "half_width", "bias", "rmse", "width_ratio", "worth_labels", "without_interval"],
        aggfunc="mean",
        sort=False,
    )


def report(rows: pd.DataFrame) -> None:
    """Print one world at one number of labels."""
    found = averaged(rows)
    first, second = VARIANTS

    def cell(number: str, variant: str, score: str, form: str) -> str:
        place = (number, variant)
        value = found.loc[score, place] if place in found.columns else np.nan
        return "-" if np.isnan(value) else format(100 * value if form.endswith("%") else value, form.rstrip("%"))

    heads = (
        "score",
        "held: labels alone",
        "with verdicts",
        "half-width",
        "with",
        "ratio",
        "bias",
        "with",
        "rmse",
        "with",
    )
    print(f"| {' | '.join((*heads, 'worth x labels', 'no interval'))} |\n|---|{'---:|' * 11}")
    for score in map(str, found.index):
        cells = [
            *(cell("coverage", variant, score, ".1f%") for variant in VARIANTS),
            *(cell("half_width", variant, score, ".3f") for variant in VARIANTS),
            cell("width_ratio", second, score, ".2f"),
            *(cell("bias", variant, score, "+.3f") for variant in VARIANTS),
            *(cell("rmse", variant, score, ".3f") for variant in VARIANTS),
            cell("worth_labels", second, score, ".1f"),
            cell("without_interval", second if ("bias", second) in found.columns else first, score, ".0f"),
        ]
        print(f"| {score} | {' | '.join(cells)} |", flush=True)


def verdict(rows: pd.DataFrame) -> None:
    """Print the least and greatest coverage and ratio of all worlds, by target, number of labels and score.

    Of the shares the worst label of each world counts. A label that no image of the world has is left out.
    """
    print("\n### All worlds: least and greatest\n")
    print(
        "| labels per prompt, score, of the | variant | worlds | held, % | lowest in | width ratio | widest in |"
    )
    print("|---|---|---:|---:|---|---:|---|")
    shares = rows["score"].str.startswith("share_")
    counted = rows[~shares | (rows["truth"] > 0)]
    by_score = ["about", "labels_per_prompt", "variant", "world", "score"]
    means = counted.groupby(by_score, sort=False)[["coverage", "width_ratio"]].mean().reset_index()
    means["score"] = means["score"].where(~means["score"].str.startswith("share_"), "shares")
    for key, group in means.groupby(["about", "labels_per_prompt", "score", "variant"], sort=False):
        about, labels, score, variant = key
        by_world = group.set_index("world")
        held, ratio = by_world["coverage"].dropna(), by_world["width_ratio"].dropna()
        if held.empty:
            continue
        widths = f"{ratio.min():.2f} to {ratio.max():.2f} | {ratio.idxmax()}" if len(ratio) else "- | -"
        print(
            f"| {labels:g}, {score}, {about} | {variant} | {held.index.nunique()} "
            f"| {100 * held.min():.1f} to {100 * held.max():.1f} | {held.idxmin()} | {widths} |"
        )


def main() -> None:
    """Draw, estimate, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worlds", nargs="+", metavar="NAME", help="parts of names; all without it")
    parser.add_argument(
        "--labels", nargs="+", type=float, metavar="N", help="per prompt, in place of each world's own"
    )
    parser.add_argument("--about", nargs="+", choices=ABOUT, default=ABOUT)
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--image-sets", type=int, default=4, help="that take turns, where image sets stay")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--csv", type=Path)
    options = parser.parse_args()
    chosen = [each for each in WORLDS if not options.worlds or any(part in each.name for part in options.worlds)]
    if not chosen:
        parser.error(f"no world is called so; there are: {'; '.join(each.name for each in WORLDS)}")
    print(f"{machine()}\n{options.draws} draws each")
    rows: list[dict[str, object]] = []
    with ProcessPoolExecutor(options.processes) as pool:
        for world in chosen:
            for labels, about in product(options.labels or world.labels_per_prompt, options.about):
                began = time.perf_counter()
                parts = [
                    range(start, min(start + PER_TASK, options.draws))
                    for start in range(0, options.draws, PER_TASK)
                ]
                tasks = [Task(world.name, labels, about, part, options.image_sets) for part in parts]
                found = together(list(pool.map(tallied, tasks)))
                new = list(rows_of(world, labels, about, found, draws=options.draws))
                rows += new
                seconds = time.perf_counter() - began
                print(f"\n### {world.name}: {labels:g} labels per prompt, about the {about} ({seconds:.0f} s)\n")
                report(pd.DataFrame(new))
                if options.csv:
                    pd.DataFrame(rows).to_csv(options.csv, index=False)
    verdict(pd.DataFrame(rows))


if __name__ == "__main__":
    main()
