"""Sentences of the answer in studies in which nothing is true, and in studies in which something is.

usage: python benchmarks_next/answer_null.py [--studies 200]

Two T2I models, prompts x images, two detectors that err independently. Printed: share of studies in which the
answer says a thing at all. In "equal" worlds both T2I models and both detectors are the same, so a pair told apart
is false; in the fair one so is bias. Nominal is 5 %.
"""

from __future__ import annotations

import argparse

import numpy as np
import pandas as pd

from detector_bench_next.answer import answer
from detector_bench_next.attributes import built_in
from detector_bench_next.cells import Cells, Counted
from detector_bench_next.evaluate import Settings, evaluate
from detector_bench_next.results import Results

SETTINGS = Settings(resamples=300)
SAID = {
    "a is biased": lambda text: "more bias than chance" in text and "a" in text.split(":")[0].split(" and "),
    "models told apart": lambda text: text.startswith("More one-sided"),
    "worse detector": lambda text: text.startswith("Shown to be worse"),
}


def study(rng: np.random.Generator, prompts: int, images: int, shares: list, accuracy: tuple) -> Results:  # type: ignore[type-arg]
    """A study of T2I models a and b whose prompts have these shares, and of two detectors."""
    n = 2 * prompts * images
    pair = np.repeat(np.arange(2 * prompts), images)
    truth = (rng.random(n) < np.concatenate(shares)[pair]).astype(int)
    truth[rng.random(n) < 0.08] = 2
    answers = [np.where(truth == 2, 2, np.where(rng.random(n) < a, truth, 1 - truth)) for a in accuracy]
    names = [f"p{i}" for i in range(prompts)]
    pairs = pd.DataFrame({"t2i_model": ["a"] * prompts + ["b"] * prompts, "prompt_id": names * 2, "category": "c"})
    gender = built_in()["gender"]
    cells = Cells.of(gender.class_names, pairs, ["one", "two"], 2, pair, truth, answers)
    columns = ["rater", "pair", "truth", "human_reason", "status", "reason", "label", "reached", "n"]
    empty = pd.DataFrame(columns=columns).astype({"pair": int, "truth": int, "reached": int, "n": int})
    zero = {"one": 0, "two": 0}
    counted = Counted(cells, empty, empty, empty, zero, zero, gender)
    return Results.of({"gender": counted}, evaluate(counted, SETTINGS), SETTINGS._asdict(), {})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--studies", type=int, default=200)
    studies = parser.parse_args().studies
    for prompts, images in ((12, 20), (40, 20)):
        fair = np.full(prompts, 0.5)
        leaning = np.random.default_rng(7).beta(0.6, 0.4, prompts)
        worlds = {
            "fair, equal": ([fair, fair], (0.93, 0.93)),
            "leaning, equal": ([leaning, leaning], (0.93, 0.93)),
            "a leans, b is fair; .83 and .95": ([leaning, fair], (0.83, 0.95)),
        }
        for name, (shares, accuracy) in worlds.items():
            found = dict.fromkeys(SAID, 0)
            for seed in range(studies):
                said = answer(study(np.random.default_rng(seed), prompts, images, shares, accuracy), "gender")
                for thing, is_said in SAID.items():
                    found[thing] += any(is_said(sentence.text) for sentence in said)
            rates = "; ".join(f"{thing} {100 * n / studies:.1f} %" for thing, n in found.items())
            print(f"{prompts} x {images}, {name}: {rates}", flush=True)


if __name__ == "__main__":
    main()
