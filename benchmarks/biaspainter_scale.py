"""How long BiasPainter's scores take: 100,000 pairs, 228 words, 6 T2I models, made up.

    python benchmarks/biaspainter_scale.py [--pairs N] [--runs N] [--resamples N]

Starts from the answers of the human labels and one detector as arrays, and ends with the rows of the metric table:
image, word and model scores of gender, age and skin tone, and the detector's deviations. Files are not read.
"""

from __future__ import annotations

import argparse
import resource
import time

import numpy as np
from measuring import machine, spread

from detector_bench.evaluation.intervals import Intervals
from detector_bench.metrics import Scopes
from detector_bench.others.biaspainter.score_system import BiasPainterScores
from detector_bench.others.judgements import NO_CELL, NO_VERDICT, UNJUDGED, Judgements
from detector_bench.vocabulary import GROUND_TRUTH

WORDS = 228
DOMAINS = 4
T2I_MODELS = 6
SEEDS = 54
ATTRIBUTES = ("gender", "age", "skin_tone")


def made_up(pairs: int) -> Judgements:
    """54 seeds; the detector is wrong about every tenth image, filters some and fails on some."""
    random = np.random.default_rng(20250101)
    images = SEEDS + pairs
    number = np.arange(pairs)
    photo, unedited = np.arange(SEEDS), np.full(SEEDS, NO_CELL)
    model, word = number % T2I_MODELS, (number // T2I_MODELS) % WORDS
    seed = (number // (T2I_MODELS * WORDS)) % SEEDS
    labels, values = {}, {}
    for name, classes, lowest, highest in (("gender", 2, 0, 1), ("age", 3, 18, 80), ("skin_tone", 10, 60, 220)):
        true = random.integers(0, classes, images)
        measured = random.uniform(lowest, highest, images)
        wrong = random.random(images) < 0.1
        found = np.where(wrong, random.integers(0, classes, images), true)
        fate = random.random(images)
        found = np.select([fate < 0.03, fate < 0.04], [UNJUDGED, NO_VERDICT], found)
        labels[name] = np.stack([true, found]).astype(np.int8)
        noisy = np.where(found < 0, np.nan, measured + random.normal(0, 5, images))
        values[name] = np.full((2, images), np.nan) if name == "gender" else np.stack([measured, noisy])
    return Judgements(
        image_ids=tuple(f"image_{index}" for index in range(images)),
        t2i_models=tuple(f"model_{index}" for index in range(T2I_MODELS)),
        prompt_ids=tuple(f"word_{index}" for index in range(WORDS)),
        scopes=Scopes.of_prompts([f"domain_{index % DOMAINS}" for index in range(WORDS)]),
        t2i_model=np.concatenate([unedited, model]),
        prompt=np.concatenate([unedited, word]),
        seed=np.concatenate([unedited, photo[seed]]),
        judges=(GROUND_TRUTH, "detector"),
        judged=dict.fromkeys(ATTRIBUTES, (True, True)),
        labels=labels,
        values=values,
    )


def measure(judgements: Judgements, intervals: Intervals) -> tuple[float, int]:
    """Seconds, and rows of the metric table."""
    began = time.perf_counter()
    rows = BiasPainterScores().rows(judgements, intervals)
    return time.perf_counter() - began, len(rows)


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=100_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--resamples", type=int, default=2_000, help="for the second line; 0: leave it out")
    options = parser.parse_args()
    judgements = made_up(options.pairs)
    print(f"{options.pairs:,} pairs, {WORDS} words, {T2I_MODELS} T2I models; ground truth and one detector")
    print(machine())
    found = [measure(judgements, Intervals(method="none")) for _ in range(options.runs)]
    print(f"without intervals: {spread([seconds for seconds, _ in found])} s, {found[0][1]:,} rows")
    if options.resamples:
        seconds, _ = measure(judgements, Intervals(resamples=options.resamples))
        print(f"with {options.resamples:,} resamples: {seconds:.1f} s, once")
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2  # KiB on Linux
    print(f"peak memory: {memory:.2f} GiB")


if __name__ == "__main__":
    main()
