"""How often are sentences about T2I models wrong: that one is biased, or that two differ, where that is not so?

    python benchmarks/audit_comparison.py [--draws N] [--labels N ...] [--worlds NAME ...]

In each world three T2I models have the same shares of classes in every prompt; their images are drawn anew in
each study. That any two are told apart is wrong, in all worlds. In the fair ones, where all prompts show all
classes equally often, it is also wrong that a T2I model is biased towards a class, or that its prompts are not
all balanced. Each is to happen in at most 5 % of studies. Where prompts lean, the last two columns show how often
bias is found.

A last world has one T2I model of three that leans by 0.4 more than the others: how often that is told.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from audit_coverage import partly_labelled
from audit_populations import Floats, with_unclear
from audit_worlds import World, leaning, with_shares
from measuring import machine

from detector_bench.estimation.t2i_model_tests import t2i_model_tests

T2I_MODELS = 3
LEVEL = 0.95
MEAN = "mean_prompt_bias_score"


@dataclass(frozen=True)
class Equals:
    """A world of three T2I models with equal shares, `[prompt, K]`, unless `further` changes the last one's."""

    name: str
    shares: Callable[[], Floats]
    images_per_prompt: int
    labels: tuple[int, ...] = (2, 5)
    further: float = 0.0
    """So much is added to the first class's share in all prompts of the last T2I model, as far as it goes."""

    def world(self) -> World:
        """The world that images are drawn from."""
        shares = self.shares()
        of_models = np.tile(shares, (T2I_MODELS, 1))
        if self.further:
            first = np.minimum(shares[:, 0] + self.further, 1)
            of_models[-len(shares) :] = np.stack([first, 1 - first], axis=1)
        prompts, classes = shares.shape
        return World(
            f"equal T2I models: {self.name}",
            lambda: with_shares(with_unclear(of_models)),
            *(self.images_per_prompt, prompts, T2I_MODELS, classes),
        )


def fair(prompts: int, classes: int) -> Floats:
    """All prompts show all classes equally often."""
    return np.full((prompts, classes), 1 / classes)


WORLDS = (
    Equals("fair, 40 prompts", lambda: fair(40, 2), 20, (2, 5, 20)),
    Equals("fair, 12 prompts", lambda: fair(12, 2), 20, (5, 20)),
    Equals("fair, 100 prompts of 5 images", lambda: fair(100, 2), 5, (1, 5)),
    Equals("fair, 3 classes", lambda: fair(20, 3), 20, (5, 20)),
    Equals("leaning, 40 prompts", lambda: leaning(1, 40, 2), 20, (2, 5, 20)),
    Equals("leaning, 12 prompts", lambda: leaning(1, 12, 2), 30, (5, 30)),
    Equals("leaning, 3 classes", lambda: leaning(1, 40, 3), 20, (5,)),
    Equals("half fair, half one-sided", lambda: np.tile([[0.5, 0.5], [1, 0], [0.5, 0.5], [0, 1]], (10, 1)), 20),
    Equals("one class only", lambda: np.tile([1.0, 0.0], (40, 1)), 20, (5,)),
    Equals("one of three leans by 0.4 more", lambda: fair(12, 2), 30, (5,), further=0.2),
)


def measured(equals: Equals, labels: int, *, draws: int) -> tuple[float, float, float]:
    """Shares of studies in which any two T2I models are told apart, any is called biased towards a class, and any
    is said to have prompts that are not all balanced."""
    world = equals.world()
    said = np.zeros((draws, 3), dtype=bool)
    for draw in range(draws):
        images = partly_labelled(world.draw(draw), labels, np.random.default_rng([labels, draw]))
        found = t2i_model_tests(images, confidence=LEVEL, seed=draw)
        biased = [(each.metric, each.beyond_chance(LEVEL)) for each in found.biases]
        said[draw] = (
            any(each.beyond_chance(LEVEL) for each in found.differences),
            any(beyond for metric, beyond in biased if metric == MEAN),
            any(beyond for metric, beyond in biased if metric != MEAN),
        )
    apart, towards, uneven = said.mean(axis=0)
    return float(apart), float(towards), float(uneven)


def main() -> None:
    """Draw, test, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=200, help="studies of each world")
    parser.add_argument("--labels", type=int, nargs="*", help="labels per prompt; by default each world's own")
    parser.add_argument("--worlds", nargs="*", help="by default all")
    options = parser.parse_args()
    chosen = [each for each in WORLDS if not options.worlds or each.name in options.worlds]
    if not chosen:
        parser.error(f"no such world; there are: {'; '.join(each.name for each in WORLDS)}")
    print(f"{machine()}\n{options.draws} studies each, tests at {LEVEL:g}\n")
    print(
        "| world | labels per prompt | told apart, % | biased towards a class, % | prompts not balanced, % | s |"
    )
    print("|---|---:|---:|---:|---:|---:|")
    for each in chosen:
        for labels in options.labels or each.labels:
            began = time.perf_counter()
            said = measured(each, labels, draws=options.draws)
            seconds = time.perf_counter() - began
            shown = " | ".join(f"{100 * share:.1f}" for share in said)
            print(f"| {each.name} | {labels} | {shown} | {seconds:.0f} |", flush=True)


if __name__ == "__main__":
    main()
