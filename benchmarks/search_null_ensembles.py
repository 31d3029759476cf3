"""Does `search` say "beats" of ensembles where voting is of no use?

    python benchmarks/search_null_ensembles.py [--studies N] [--prompts N] [--images N] [--repeats N]

8 detectors at 6 thresholds each judge every image, and every image is clear. Some images all of them get right,
some all get wrong, and of the others each names the right class in half of the cases, whatever the others name,
and with a score that says nothing. So a majority, any weights and any stacking are right as often as one detector
alone: in truth nothing is better than anything else. Ensembles of 3 by all three rules take part; members,
weights and coefficients are learnt as `detector-bench search` learns them. Prints the table of docs/search.md.
"""

from __future__ import annotations

import argparse
import os
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import NamedTuple

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # one process per core does better than threads of each

import numpy as np
from measuring import machine

from detector_bench.search.choosing import Chooser
from detector_bench.search.ensembles import Ensembles
from detector_bench.search.prompt_sums import PromptSums
from detector_bench.search.settings import SearchedEnsemble, SearchedError
from detector_bench.search.verdicts import LabelledVerdicts

DETECTORS, THRESHOLDS = 8, 6
ERRORS: tuple[SearchedError, ...] = ("prompt_bias_score_difference", "prompt_bias_error", "accuracy")
ASKED = tuple(SearchedEnsemble(kind=kind) for kind in ("majority", "weighted", "stacking"))
FRESH = 400


class Told(NamedTuple):
    """One study."""

    beats: bool
    worse: bool
    ensembles: float
    """The share of the choices that fell on ensembles."""
    seems: float
    expected: float
    holds: bool
    """Whether the interval holds the error that everything truly has."""


def simulate(prompts: int, images: int, compositions: int, random: np.random.Generator) -> LabelledVerdicts:
    """A study's labels and what each composition says."""
    prompt = np.repeat(np.arange(prompts), images)
    share = 1 / (1 + np.exp(-random.normal(0.5, 1.5, prompts)))
    truth = (random.random(len(prompt)) >= share[prompt]).astype(np.int8)
    # Prompts differ in how many images all get wrong.
    wrong = 0.15 / (1 + np.exp(-random.normal(0, 1, prompts)))[prompt]
    state = random.random(len(prompt))
    tossed = random.random((compositions, len(prompt))) < 0.5
    right = (state >= wrong) & (tossed | (state >= wrong + 0.3))
    return LabelledVerdicts(
        verdicts=np.where(right, truth, 1 - truth).astype(np.int8),
        scores=random.uniform(0.5, 1, right.shape),
        truth=truth,
        prompt=prompt,
        t2i_model=np.zeros(len(prompt), dtype=np.intp),
        category_of_prompt=np.zeros(prompts, dtype=np.intp),
        prompt_ids=tuple(f"p{number}" for number in range(prompts)),
        t2i_models=("A",),
        classes=2,
    )


def sums_of(verdicts: LabelledVerdicts, by: SearchedError) -> PromptSums:
    """Of all compositions, each as it is."""
    return PromptSums.of_counts(verdicts.counts(verdicts.verdicts), {by: 1.0}, n_clear="detector")


def one_study(
    seed: np.random.SeedSequence, by: SearchedError, *, prompts: int, images: int, true: float, repeats: int
) -> Told:
    """Search one study."""
    compositions = DETECTORS * THRESHOLDS
    verdicts = simulate(prompts, images, compositions, np.random.default_rng(seed))
    learns = Ensembles(
        asked=ASKED,
        verdicts=verdicts,
        detector=np.arange(compositions),
        threshold=np.full(compositions, np.nan),
        classifier=np.arange(compositions) % DETECTORS,
        weights={by: 1.0},
        n_clear="detector",
    )
    chooser = Chooser(sums_of(verdicts, by), verdicts.category_of_prompt, least_kept=0.5, repeats=repeats)
    dealt = chooser.dealt()
    chosen = chooser.chosen(dealt, learns=learns)
    single = chooser.chosen(dealt, among=np.arange(DETECTORS))
    expected = chooser.estimate(chosen.judged)
    (contest,) = chooser.contests(chosen.judged, [("single", single.judged, chooser.factor)])
    significant = contest.p_value <= 0.05
    return Told(
        significant and contest.difference.value < 0,
        significant and contest.difference.value > 0,
        float((chosen.choice >= compositions).mean()),
        chooser.on_all_prompts(learns=learns).value,
        expected.value,
        expected.low <= true <= expected.high,
    )


def main() -> None:
    """Simulate, and print a line for each error."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--studies", type=int, default=200)
    parser.add_argument("--prompts", type=int, default=12)
    parser.add_argument("--images", type=int, default=32)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--processes", type=int, default=2)
    arguments = parser.parse_args()
    print(machine())
    print(f"\n{arguments.prompts} prompts x {arguments.images} images, {arguments.studies} studies\n")
    print(
        '| chosen by | "beats", % | "worse", % | choices that fall on ensembles, % | where chosen | expected '
        "| true, of everything | interval holds, % |"
    )
    print("|---|" + "---:|" * 7)
    started = time.perf_counter()
    for number, by in enumerate(ERRORS):
        fresh = sums_of(simulate(FRESH, arguments.images, 40, np.random.default_rng(number)), by)
        true = float(fresh.errors(np.ones((1, FRESH))).mean())  # all are equal; what differs is chance
        study = partial(
            one_study,
            by=by,
            prompts=arguments.prompts,
            images=arguments.images,
            true=true,
            repeats=arguments.repeats,
        )
        with ProcessPoolExecutor(arguments.processes) as workers:
            told = list(workers.map(study, np.random.SeedSequence(number).spawn(arguments.studies), chunksize=5))
        beats, worse, ensembles, seems, expected, holds = np.array(told, dtype=np.float64).mean(axis=0)
        print(
            f"| {by.replace('_', ' ')} | {100 * beats:.1f} | {100 * worse:.1f} | {100 * ensembles:.0f} "
            f"| {seems:.4f} | {expected:.4f} | {true:.4f} | {100 * holds:.1f} |",
            flush=True,
        )
    print(f"\n{time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main()
