"""How good are estimates of a study without labels, from detectors' errors learnt in another?

    python benchmarks/audit_transfer.py [--worlds NAME ...] [--labels N] [--draws N] [--parts estimates tests]

Divides every world of `audit_worlds.py` that is named into the study that teaches, of which N images per prompt
are labelled, and the one that is estimated: half of the prompts each (`prompts`), or one T2I model each with the
same prompts (`T2I models`). Prints how often 95 % intervals hold what all labels would say, how wide they are and
how far off the estimates are: with what prompts differ by, and as if errors were the same in all prompts. Then
how often the tests refute the assumption and how often a warning comes up: for these divisions, and where in the
second study one detector, or all of them, err in another way.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd
from audit_coverage import LEVEL, partly_labelled, truth_of
from audit_populations import Integers, WorldImages
from audit_worlds import World, world_named
from measuring import machine

from detector_bench.errors import ConfigError
from detector_bench.estimation import PartlyLabelled
from detector_bench.estimation.learnt_errors import LearntErrors
from detector_bench.estimation.likeness import JudgedImages, differences
from detector_bench.estimation.refutation import labels_refute, verdicts_refute
from detector_bench.estimation.transfer import estimate_without_labels

Division = Literal["prompts", "T2I models"]
Spoilt = Literal["", "one detector filters more", "one detector leans", "all detectors lean"]

WORLDS = (
    "portraits, 5 detectors, 200 images",
    "Lyu 2025, 8 detectors",
    "Lyu 2025, FairFace",
    "errors follow the stereotype",
    "errors follow the stereotype, 5 classes",
    "filters follow the class",
    "filters follow the prompt",
    "filters follow the prompt, 3 classes",
    "one adversarial among good",
    "fair T2I model",
    "half fair, half one-sided",
    "40 % low-quality",
    "10 % others",
    "7 classes",
)
SPOILT: tuple[Spoilt, ...] = ("", "one detector filters more", "one detector leans", "all detectors lean")
SPOILT_WORLDS = ("Lyu 2025, 8 detectors", "filters follow the class")
PARTS = ("estimates", "tests")
SCORES = ("share_0", "mean_prompt_bias_score", "model_bias_score", "prompt_bias_score")
_FIRST_IMAGES = 1_000
_PART = 0.2


def part_of(images: WorldImages, prompts: Integers, t2i_model: int) -> WorldImages:
    """The images of one T2I model and some of the prompts."""
    prompt = images.cell % images.prompts
    kept = np.isin(prompt, prompts) & (images.cell // images.prompts == t2i_model)
    return replace(
        images,
        truth=images.truth[kept],
        verdicts=images.verdicts[:, kept],
        cell=np.searchsorted(prompts, prompt[kept]),
        shares=images.shares[t2i_model * images.prompts + prompts],
        t2i_models=1,
        prompts=len(prompts),
    )


def spoilt(images: WorldImages, how: Spoilt, random: np.random.Generator) -> WorldImages:
    """The same images with other errors on a fifth of them: those of the second class are taken for the first."""
    if not how:
        return images
    verdicts = images.verdicts.copy()
    hit = random.random(len(images.truth)) < _PART
    if how == "one detector filters more":
        verdicts[0, hit] = images.classes
    else:
        detectors = slice(0, 1) if how == "one detector leans" else slice(None)
        taken = verdicts[detectors]
        taken[(taken == 1) & hit & (images.truth == 1)] = 0
    return replace(images, verdicts=verdicts)


def divided(world: World, draw: int, division: Division) -> tuple[WorldImages, WorldImages, np.random.Generator]:
    """The study that teaches, and the one that is estimated."""
    images, random = world.draw(_FIRST_IMAGES + draw), np.random.default_rng([draw, 5])
    order = random.permutation(world.prompts)
    half = world.prompts // 2
    if division == "prompts":
        return part_of(images, np.sort(order[:half]), 0), part_of(images, np.sort(order[half:]), 0), random
    return part_of(images, np.arange(world.prompts), 0), part_of(images, np.arange(world.prompts), 1), random


def estimated(draw: int, *, world: str, division: Division, labels: int) -> list[dict[str, object]]:
    """One draw: a row for each score, with and without what prompts differ by."""
    there, here, random = divided(world_named(world), draw, division)
    study, images = partly_labelled(there, labels, random), partly_labelled(here, 0, random)
    try:
        learnt = LearntErrors.of(study, seed=draw)
    except ConfigError:
        return [{"world": world, "division": division, "refused": 1.0}]
    truth = truth_of(here, "images")
    rows: list[dict[str, object]] = [{"world": world, "division": division, "refused": 0.0}]
    for between in (True, False):
        found = estimate_without_labels(images, learnt, confidence=LEVEL, between_prompts=between, seed=draw)
        of_scores = {name.replace("label_share_", "share_"): each for name, each in found.scopes.items()}
        for score in SCORES:
            each = found.prompts.get(score) if score == "prompt_bias_score" else of_scores.get(score)
            if each is None:
                continue
            value, low, high = (
                array.ravel() if score == "prompt_bias_score" else array[1:, 0] for array in each[:3]
            )
            known = ~np.isnan(truth[score]) & ~np.isnan(value)
            error = (value - truth[score])[known]
            held = ((low <= truth[score]) & (truth[score] <= high))[known]
            rows.append(
                {
                    "world": world,
                    "division": division,
                    "score": score,
                    "between_prompts": between,
                    "bias": error.mean(),
                    "squared_error": (error**2).mean(),
                    "held": held.mean(),
                    "half_width": ((high - low) / 2)[known].mean(),
                }
            )
    return rows


def tested(draw: int, *, world: str, division: Division, labels: int, how: Spoilt) -> list[dict[str, object]]:
    """One draw: what the tests say, and whether there is a warning."""
    there, here, random = divided(world_named(world), draw, division)
    here = spoilt(here, how, random)
    study, images = partly_labelled(there, labels, random), partly_labelled(here, 1, random)
    try:
        learnt = LearntErrors.of(study, seed=draw)
    except ConfigError:
        return []
    compared = differences(_judged(study, random), _judged(images, random), detectors=here.detectors, seed=draw)
    return [
        {
            "world": world,
            "division": division,
            "errors here": how or "as there",
            "refuted by verdicts": _refuted(verdicts_refute(learnt, study, images, seed=draw)),
            "refuted by a label per prompt": _refuted(labels_refute(learnt, images)),
            "warning": any(each.flagged for each in compared),
        }
    ]


def _refuted(p_value: float) -> float:
    """1 or 0; NaN where nothing could be tested."""
    return p_value if np.isnan(p_value) else float(p_value < 1 - LEVEL)


def _judged(images: PartlyLabelled, random: np.random.Generator) -> JudgedImages:
    scores = random.beta(5, 2, size=images.verdicts.shape)
    return JudgedImages(images.verdicts, scores, images.cell % images.prompts, images.classes)


def report(rows: pd.DataFrame) -> None:
    """Print a line for each world, division and score."""
    for (world, division), group in rows.groupby(["world", "division"], sort=False):
        refused = 100 * group["refused"].mean()
        means = group.groupby(["score", "between_prompts"])[["held", "half_width", "bias", "squared_error"]].mean()
        for score in SCORES:
            if (score, True) not in means.index:
                continue
            held, half_width, bias, squared_error = means.xs((score, True)).to_numpy()
            alike = means.xs((score, False)).to_numpy()[0]
            print(
                f"| {world}, {division} | {refused:.0f} | {score} | {100 * held:.1f} | {100 * alike:.1f} "
                f"| {half_width:.3f} | {bias:+.3f} | {squared_error**0.5:.3f} |",
                flush=True,
            )


def report_tests(rows: pd.DataFrame) -> None:
    """Print how often the assumption is refuted, and how often there is a warning."""
    for key, group in rows.groupby(["world", "division", "errors here"], sort=False):
        shares = 100 * group[["refuted by verdicts", "refuted by a label per prompt", "warning"]].mean()
        place = ", ".join(str(each) for each in key)
        shown = " | ".join("-" if np.isnan(share) else f"{share:.0f}" for share in shares)
        print(f"| {place} | {len(group)} | {shown} |", flush=True)


def divisions(world: World) -> Iterator[Division]:
    """How a world can be divided."""
    yield "prompts"
    if world.t2i_models > 1:
        yield "T2I models"


def main() -> None:
    """Draw, estimate, test and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worlds", nargs="+", default=WORLDS, metavar="NAME")
    parser.add_argument("--labels", type=int, default=20, help="per prompt of the study that teaches")
    parser.add_argument("--draws", type=int, default=100)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--first", type=int, default=0, help="number of the first draw; others are other images")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--csv", type=Path, help="of every estimate")
    options = parser.parse_args()
    print(f"{machine()}\n{options.draws} draws each, {options.labels} labels per prompt there\n", flush=True)
    chosen = [(name, division) for name in options.worlds for division in divisions(world_named(name))]
    with ProcessPoolExecutor(options.processes) as pool:

        def rows(
            what: Callable[..., list[dict[str, object]]], name: str, division: Division, **also: str
        ) -> pd.DataFrame:
            given = partial(what, world=name, division=division, labels=options.labels, **also)
            parts = pool.map(given, range(options.first, options.first + options.draws), chunksize=5)
            return pd.DataFrame([row for part in parts for row in part])

        if "estimates" in options.parts:
            print(
                "| world, divided by | refused, % | score | held, % | prompts alike | half-width | bias | rmse |"
            )
            print("|---|---:|---|---:|---:|---:|---:|---:|", flush=True)
            found = []
            for name, division in chosen:
                found.append(rows(estimated, name, division))
                report(found[-1])
            if options.csv:
                pd.concat(found).to_csv(options.csv, index=False)
        if "tests" in options.parts:
            print("\n| world, divided by, errors here | draws | refuted by verdicts, % | by labels | warning |")
            print("|---|---:|---:|---:|---:|", flush=True)
            for name, division in chosen:
                for how in SPOILT if name in SPOILT_WORLDS else SPOILT[:1]:
                    report_tests(rows(tested, name, division, how=how))


if __name__ == "__main__":
    main()
