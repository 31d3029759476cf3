"""What does undoing a detector's errors by its misclassification matrix give, and are unequal errors noticed?

    python benchmarks/audit_misclassification.py [--draws N] [--worlds NAME ...]

In worlds of known truth (`audit_worlds.py`), with a new image set and new labels for every draw and for up to
three detectors of each world. Two tables:

- **estimates** of the bias scores of the images: how often 95 % intervals hold the truth, and the bias. Where
  errors are equal in all prompts, intervals of the mean prompt bias score should hold it in 95 %. Detectors
  without an estimate (their matrix cannot be inverted, or a truth has no label) are counted;
- **the test** of equal errors at 5 %: how often it calls them unequal, by the way in which labels were drawn;
  beside it the permutation test on Pearson's chi-squares alone.
"""

from __future__ import annotations

import argparse
import time
from itertools import product

import numpy as np
from audit_coverage import truth_of
from audit_populations import Floats, WorldImages
from audit_worlds import WORLDS, World
from measuring import machine

from detector_bench.estimation import PartlyLabelled, assumption_test
from detector_bench.estimation.misclassification import misclassification
from detector_bench.estimation.misclassification_matrix import verdicts_by_truth
from detector_bench.estimation.sampling import draw, opinions
from detector_bench.metrics import Scopes
from detector_bench.sample_design import SampleDesign

EQUAL = ("Lyu 2025, 8 detectors", "40 % low-quality", "fair T2I model, large", "7 classes", "no useful detector")
UNEQUAL = (
    "errors follow the stereotype",
    "errors follow the stereotype, 5 classes",
    "filters follow the prompt",
    "one adversarial",
)
LABELS = (2, 5, 10)
LEVEL = 0.05
DEALS = 199
MOST_DETECTORS = 3
SCORES = ("mean_prompt_bias_score", "model_bias_score")


def labelled(images: WorldImages, labels: int, design: SampleDesign, seed: int) -> PartlyLabelled:
    """Label so many images of each prompt, drawn as the command `sample` draws them."""
    found = draw(
        images.cell,
        shape=(images.t2i_models, images.prompts),
        labels=labels * images.t2i_models * images.prompts,
        seed=seed,
        design=design,
        said=opinions(images.verdicts, classes=images.classes),
    )
    truth, probability = np.full(len(images.cell), -1), np.full(len(images.cell), np.nan)
    truth[found.images], probability[found.images] = images.truth[found.images], found.probability
    cells = images.t2i_models * images.prompts
    scopes = Scopes.of_prompts(["all of them"] * images.prompts)
    return PartlyLabelled(
        truth, images.verdicts, images.cell, images.t2i_models, scopes, images.classes, probability, np.ones(cells)
    )


def detectors_of(images: WorldImages) -> list[int]:
    """Positions of up to three detectors, the last ones: of Lyu 2025 those with a filter."""
    return list(range(len(images.detectors)))[-MOST_DETECTORS:]


def by_chi_square(images: PartlyLabelled, detector: int, *, seed: int) -> float:
    """P-value of the permutation test on the sum of Pearson's chi-squares alone."""
    from scipy.stats import random_table

    random = np.random.default_rng(seed)
    place, truth, verdict = verdicts_by_truth(images, detector)
    total: Floats = np.zeros(1 + DEALS)
    for each in np.unique(truth):
        of_truth = truth == each
        _, cell = np.unique(images.cell[place[of_truth]], return_inverse=True)
        _, said = np.unique(verdict[of_truth], return_inverse=True)
        table = np.zeros((cell.max() + 1, said.max() + 1), dtype=np.int64)
        np.add.at(table, (cell, said), 1)
        of_cell, of_verdict = table.sum(axis=1), table.sum(axis=0)
        drawn = random_table.rvs(of_cell, of_verdict, size=DEALS, random_state=random)
        expected = np.outer(of_cell, of_verdict) / of_cell.sum()
        total += ((np.concatenate([table[np.newaxis], drawn]) - expected) ** 2 / expected).sum(axis=(1, 2))
    return float((1 + (total[1:] >= total[0] - 1e-9).sum()) / (1 + DEALS))


def print_estimates(world: World, labels: int, draws: int) -> None:
    """One row: coverage, bias and half-width of both scores of each T2I model."""
    held: dict[str, list[Floats]] = {score: [] for score in SCORES}
    tried = without = 0
    for seed in range(draws):
        images = world.draw(seed)
        truths = truth_of(images, "images")
        sample = labelled(images, labels, SampleDesign.EQUAL, seed)
        for detector in detectors_of(images):
            found = misclassification(sample, detector).scopes
            tried += 1
            if np.isnan(found["model_bias_score"].value[0, 0]):
                without += 1
                continue
            for score in SCORES:
                if score in found:
                    value, low, high = (each[1:, 0] for each in found[score][:3])
                    truth = truths[score]
                    inside = (low <= truth) & (truth <= high)
                    held[score].append(np.stack([inside, value - truth, (high - low) / 2]))
    cells = []
    for score in SCORES:
        if held[score]:
            coverage, bias, half = np.concatenate(held[score], axis=1).mean(axis=1)
            cells.append(f"{100 * coverage:.1f} | {bias:+.3f} | {half:.3f}")
        else:
            cells.append("- | - | -")
    print(f"| {world.name} | {labels} | {without} of {tried} | {' | '.join(cells)} |", flush=True)


def print_test(world: World, labels: int, design: SampleDesign, draws: int) -> None:
    """One row: how often errors are called unequal."""
    both, alone = [], []
    by_verdicts = design is SampleDesign.VERDICTS
    for seed in range(draws):
        images = world.draw(seed)
        sample = labelled(images, labels, design, seed)
        for detector in detectors_of(images):
            both.append(assumption_test(sample, detector, seed=seed, by_verdicts=by_verdicts, deals=DEALS).p_value)
            alone.append(by_chi_square(sample, detector, seed=seed))
    rejected, of_chi_square = (100 * np.mean(np.array(each) <= LEVEL) for each in (both, alone))
    print(
        f"| {world.name} | {labels} | {design.value} | {len(both)} | {rejected:.1f} | {of_chi_square:.1f} |",
        flush=True,
    )


def main() -> None:
    """Draw, estimate, test, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=100)
    parser.add_argument("--worlds", nargs="+", metavar="NAME", help="parts of names; all of the two lists without")
    options = parser.parse_args()
    worlds = [
        world
        for name in (*EQUAL, *UNEQUAL)
        for world in WORLDS
        if world.name == name and (not options.worlds or any(part in name for part in options.worlds))
    ]
    began = time.perf_counter()
    print(f"{machine()}\n{options.draws} draws each\n")
    print(
        "| world | labels per prompt | without estimates | mean prompt bias score: held, % | bias | half-width ",
        end="",
    )
    print("| model bias score: held, % | bias | half-width |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|")
    for world, labels in product(worlds, LABELS):
        print_estimates(world, labels, options.draws)
    print("\n| world | labels per prompt | drawn | tests | called unequal, % | by chi-squares alone, % |")
    print("|---|---:|---|---:|---:|---:|")
    for world, design in product(worlds, SampleDesign):
        for labels in LABELS if design is SampleDesign.EQUAL else LABELS[-1:]:
            print_test(world, labels, design, options.draws)
    print(f"\n{time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
