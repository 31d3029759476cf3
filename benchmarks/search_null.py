"""Does `search` say "beats" where nothing is better, find what is better, and promise what the winner keeps?

    python benchmarks/search_null.py [--studies N] [--world NAME] [--prompts N]

Simulates studies of 8 detectors at 6 thresholds whose errors follow the difficulty of the image, searches each as
`detector-bench search` does, and counts what it says. What a winner is worth is counted on 4,000 fresh prompts.
Prints the tables that docs/search.md shows.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # one process per core does better than threads of each

import numpy as np
from measuring import machine
from numpy.typing import NDArray
from scipy import stats

from detector_bench.search.choosing import Chooser, scatter
from detector_bench.search.prompt_sums import PromptSums
from detector_bench.search.settings import SearchedError

DETECTORS = 8
THRESHOLDS = (0.0, 0.2, 0.3, 0.4, 0.5, 0.6)
FRESH = 4_000
BLOCK = 200


@dataclass(frozen=True)
class World:
    """What is simulated.

    Attributes:
        name: of the row.
        kind: `alike`: every composition is as good as any other, and detectors share the difficulty of images;
            `own luck`: the same without anything shared; `useful`: thresholds and detectors differ, and the best
            is no single detector; `better`: as `alike`, but one composition is truly better.
        by: the error that chooses.
    """

    name: str
    kind: str
    by: SearchedError = "prompt_bias_error"


WORLDS = tuple(
    World(f"{kind}, by {by.replace('_', ' ')}", kind, by)
    for kind in ("alike", "own luck", "useful", "better")
    for by in ("prompt_bias_error", "prompt_bias_score_difference", "accuracy", "f1")
)


def simulate(world: World, prompts: int, images: int, random: np.random.Generator) -> PromptSums:
    """Sums of all compositions; the first ones are the single detectors, at the lowest threshold."""
    blocks = [
        PromptSums.of_counts(_counts(world, some, images, random), {world.by: 1.0}, n_clear="detector")
        for some in (BLOCK,) * (prompts // BLOCK) + ((prompts % BLOCK,) if prompts % BLOCK else ())
    ]
    first = blocks[0]
    if len(blocks) == 1:
        return first
    ratios = {
        name: type(ratio)(
            *(
                np.concatenate([getattr(each.ratios[name], part) for each in blocks], axis=1)
                for part in ratio._fields
            )
        )
        for name, ratio in first.ratios.items()
    }
    kept = type(first.kept)(
        *(np.concatenate([getattr(each.kept, part) for each in blocks], axis=1) for part in first.kept._fields)
    )
    return PromptSums(first.weights, ratios, kept)


def _counts(world: World, prompts: int, images: int, random: np.random.Generator) -> NDArray[np.int64]:
    shape = (prompts, images)
    share = 1 / (1 + np.exp(-random.normal(0.5, 1.5, prompts)))
    clear = random.random(shape) < 0.85
    truth = np.where(clear, random.random(shape) >= share[:, np.newaxis], 2)
    hard = random.normal(0, 1, shape) + random.normal(0, 0.5, (prompts, 1))
    lean = random.normal(0, 1, (prompts, 1))
    found = []
    for threshold in range(len(THRESHOLDS)):
        for detector in range(DETECTORS):
            own = random.normal(0, 1, shape)
            shared = 0.0 if world.kind == "own luck" else hard
            if world.kind == "useful":
                # Some detectors are better than others, and surer where they are right.
                level = 1.0 + 0.25 * detector
                ease = level - shared - 0.5 * own
                right = random.random(shape) < 1 / (1 + np.exp(-ease - 0.4 * detector / DETECTORS * lean))
                score = 1 / (1 + np.exp(-(ease + np.where(clear, 0.6, -0.6) + random.normal(0, 1, shape))))
                kept = score >= THRESHOLDS[threshold]
            else:
                better = 1.2 if world.kind == "better" and (detector, threshold) == (2, 3) else 0.0
                of_prompt = random.normal(0, 0.7, (prompts, 1))
                right = random.random(shape) < 1 / (1 + np.exp(-(1.6 + 1.5 * better - shared - of_prompt)))
                kept = random.random(shape) < np.where(clear, 0.85 + 0.08 * better, 0.4 - 0.15 * better)
            named = np.where(clear, np.where(right, truth, 1 - truth), random.random(shape) < 0.5)
            verdict = np.where(kept, named, 2).astype(np.intp)
            cell = (np.arange(prompts)[:, np.newaxis] * 4 + truth.astype(np.intp)) * 4 + verdict
            found.append(np.bincount(cell.ravel(), minlength=prompts * 16).reshape(1, prompts, 4, 4))
    return np.stack(found)


class Told(NamedTuple):
    """One study."""

    beats: bool
    worse: bool
    beats_by_less: bool
    """With the variance times 1 + 1 / (parts - 1)."""
    apart_by_means: bool
    """Better or worse, by the scatter of the prompts' mean errors over the repeats."""
    found: bool
    """Whether the winner is the truly better one."""
    seems: float
    expected: float
    error: float
    true: float
    """Of the winner, on fresh prompts."""
    of_procedure: float
    """Mean on fresh prompts of what the parts of the prompts chose."""
    holds: bool
    single: float
    """The best single detector's, on fresh prompts."""


def one_study(
    seed: np.random.SeedSequence,
    world: World,
    *,
    prompts: int,
    images: int,
    fresh: NDArray[np.float64],
    repeats: int,
) -> Told:
    """Search one study."""
    random = np.random.default_rng(seed)
    sums = simulate(world, prompts, images, random)
    chooser = Chooser(sums, np.zeros(prompts, dtype=np.intp), least_kept=0.3, repeats=repeats)
    dealt = chooser.dealt()
    singles = np.arange(DETECTORS)
    chosen, single = chooser.chosen(dealt), chooser.chosen(dealt, among=singles)
    best, best_single = chooser.on_all_prompts(), chooser.on_all_prompts(among=singles)
    expected = chooser.estimate(chosen.judged)
    (contest,) = chooser.contests(chosen.judged, [("single", single.judged, chooser.factor)])
    significant = contest.p_value <= 0.05
    # Two other ways to the standard error, which docs/search.md tells of.
    influences = chosen.judged.influences() - single.judged.influences()
    category = np.zeros(prompts, dtype=np.intp)
    edge = float(stats.t.isf(0.025, prompts - 1))
    fewer = contest.difference.error * np.sqrt((1 + 1 / (chooser.parts_used - 1)) / chooser.factor)
    of_means = float(np.sqrt(scatter(influences.mean(axis=0), category)[0]))
    return Told(
        significant and contest.difference.value < 0,
        significant and contest.difference.value > 0,
        -contest.difference.value > edge * fewer > 0,
        abs(contest.difference.value) > edge * of_means > 0,
        best.choice == 3 * DETECTORS + 2,
        best.value,
        expected.value,
        expected.error,
        float(fresh[best.choice]),
        float(fresh[chosen.choice].mean()),
        expected.low <= fresh[best.choice] <= expected.high,
        float(fresh[best_single.choice]),
    )


def row(world: World, told: Sequence[Told]) -> str:
    """One line of a table."""
    found = Told(*(np.array(each, dtype=np.float64) for each in zip(*told, strict=True)))  # type: ignore[arg-type]
    cells = [
        world.name,
        f"{100 * found.beats.mean():.1f}",  # type: ignore[attr-defined]
        f"{100 * found.worse.mean():.1f}",  # type: ignore[attr-defined]
        f"{100 * np.mean(found.beats_by_less):.1f}",
        f"{100 * np.mean(found.apart_by_means):.1f}",
        f"{100 * found.found.mean():.0f}" if world.kind == "better" else "",  # type: ignore[attr-defined]
        *(
            f"{np.mean(each):.4f}"
            for each in (found.seems, found.expected, found.of_procedure, found.true, found.single)
        ),
        f"{100 * found.holds.mean():.1f}",  # type: ignore[attr-defined]
        f"{100 * np.mean(np.abs(np.asarray(found.expected) - found.true) <= found.error):.0f}",
    ]
    return "| " + " | ".join(cells) + " |"


HEADINGS = (
    "world",
    '"beats", %',
    '"worse", %',
    '"beats" with 1 / (parts - 1), %',
    "apart by mean errors, %",
    "better one found, %",
    "error where chosen",
    "expected",
    "fresh prompts, what parts chose",
    "fresh prompts, the winner",
    "fresh prompts, best single",
    "95 % interval holds the winner's, %",
    "within one standard error, %",
)


def main() -> None:
    """Run the worlds, and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--studies", type=int, default=400)
    parser.add_argument("--world", default="", help="only those whose name contains this")
    parser.add_argument("--prompts", type=int, default=40)
    parser.add_argument("--images", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=20)
    arguments = parser.parse_args()
    print(machine())
    print(f"\n{arguments.prompts} prompts x {arguments.images} images, {arguments.studies} studies\n")
    print("| " + " | ".join(HEADINGS) + " |")
    print("|---|" + "---:|" * (len(HEADINGS) - 1))
    started = time.perf_counter()
    for number, world in enumerate(WORLDS):
        if arguments.world not in world.name:
            continue
        everyone = np.ones((1, FRESH))
        fresh = simulate(world, FRESH, arguments.images, np.random.default_rng(number)).errors(everyone)[:, 0]
        if world.kind in ("alike", "own luck"):
            fresh = np.full_like(fresh, fresh.mean())  # all are equal; what differs is chance
        study = partial(
            one_study,
            world=world,
            prompts=arguments.prompts,
            images=arguments.images,
            fresh=fresh,
            repeats=arguments.repeats,
        )
        seeds = np.random.SeedSequence(number).spawn(arguments.studies)
        with ProcessPoolExecutor(2) as workers:
            told = list(workers.map(study, seeds, chunksize=10))
        print(row(world, told), flush=True)
    print(f"\n{time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main()
