"""How long 10,000 resamples of 8 detectors take, at 6,000 and at 1,000,000 images, after counting.

    python benchmarks/bootstrap_speed.py [--runs N] [--resamples N]

100 prompts x 3 T2I models, made up. The time covers drawing, every metric for every T2I model and category, and
the intervals of all of them. Then: how far the normally distributed counts of large prompts lie from
drawn images, at the smallest number of images for which they are used and above.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from measuring import machine, spread

from detector_bench.metrics import JointVerdicts, Scopes
from detector_bench.metrics.bootstrap import resample, spread_factors
from detector_bench.metrics.intervals import percentile_interval, score_interval, standard_error_interval
from detector_bench.metrics.resampling import LARGEST_DRAWN_ONE_BY_ONE

PROMPTS, T2I_MODELS, CATEGORIES = 100, 3, 5
UNBOUNDED = ("model_bias_score_deviation", "model_bias_score_corrected")


def made_up(
    images: int, *, detectors: int = 8, t2i_models: int = T2I_MODELS, prompts: int = PROMPTS
) -> JointVerdicts:
    """`images` images of each prompt; detectors that are right nine times in ten."""
    random = np.random.default_rng(1)
    pairs = t2i_models * prompts
    pair = np.repeat(np.arange(pairs), images)
    men = random.beta(1.2, 0.5, size=pairs)[pair]
    truth = np.where(random.random(pair.size) < 0.12, 2, np.where(random.random(pair.size) < men, 0, 1))
    guess = random.integers(0, 3, size=(detectors, pair.size), dtype=np.int8)
    verdicts = np.where(random.random((detectors, pair.size)) < 0.9, truth, guess)
    categories = [f"category {number % CATEGORIES}" for number in range(prompts)]
    return JointVerdicts(
        truth.astype(np.int8), verdicts.astype(np.int8), pair, t2i_models, Scopes.of_prompts(categories), 2
    )


def intervals(joint: JointVerdicts, *, resamples: int) -> None:
    """Draw, compute every metric, and find every interval."""
    drawn = resample(joint, resamples=resamples).detectors
    spread_of_scope = spread_factors(joint, unit="image")[..., np.newaxis]
    images = np.array(1.0)
    for name, resampled in drawn.items():
        value = resampled[..., 0]
        if name in UNBOUNDED:
            standard_error_interval(resampled, value, level=0.95)
        else:
            score_interval(
                resampled, value, lowest=0, highest=2, spread=spread_of_scope, images=images,
                at_most_images=False, level=0.95,
            )  # fmt: skip


def measure(images: int, *, runs: int, resamples: int) -> list[float]:
    """Seconds of each run."""
    joint = made_up(images)
    seconds = []
    for _ in range(runs):
        began = time.perf_counter()
        intervals(joint, resamples=resamples)
        seconds.append(time.perf_counter() - began)
    return seconds


def error_of_normal_counts(images: int) -> None:
    """Print by how much centred limits move, in standard errors, when counts are normally distributed."""
    joint = made_up(images, detectors=2, t2i_models=1, prompts=20)
    exact = resample(joint, resamples=20_000, one_by_one=images, seed=1, borrow=False).detectors
    normal = resample(joint, resamples=20_000, one_by_one=0, seed=2).detectors
    again = resample(joint, resamples=20_000, one_by_one=images, seed=3, borrow=False).detectors
    for name in ("f1", "filter_rate", "accuracy", "model_bias_score", "prompt_bias_score_difference"):
        moved = []
        for other in (normal, again):
            drawn = [each[name][0, 0, 0] - each[name][0, 0, 0].mean() for each in (exact, other)]
            limits = [percentile_interval(each, level=0.95) for each in drawn]
            error = exact[name][0, 0, 0].std()
            moved.append(max(abs(one - two) for one, two in zip(*limits, strict=True)) / error)
        print(f"| {images} | {name} | {moved[0]:.3f} | {moved[1]:.3f} |")


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--resamples", type=int, default=10_000)
    options = parser.parse_args()
    print(machine())
    small = measure(20, runs=options.runs, resamples=options.resamples)
    large = measure(3_334, runs=options.runs, resamples=options.resamples)
    size = f"{options.resamples:,} resamples x 8 detectors"
    print(f"{size} x 6,000 images, s:      {spread(small)}   (to reach: at most 3)")
    print(f"{size} x 1,000,200 images, s:  {spread(large)}   (to reach: at most 4.5)")
    above = f"prompts of more than {LARGEST_DRAWN_ONE_BY_ONE} images"
    print(f"\n{above}, counts normally distributed in place of drawn:\n")
    print("| images per prompt | metric | limits move by, standard errors | two runs of drawn images differ by |")
    print("|---:|---|---:|---:|")
    for images in (LARGEST_DRAWN_ONE_BY_ONE + 1, 200):
        error_of_normal_counts(images)


if __name__ == "__main__":
    main()
