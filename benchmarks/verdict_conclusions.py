"""How often verdicts of the report, its plans for more labels, and causes are wrong: parts of `conclusions.py`."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np
from simulated_detectors import Detector, Floats, population_errors, shares_of_men, simulate, simulated

from detector_bench.evaluation.counting import Counts
from detector_bench.evaluation.intervals import Intervals, IntervalScores
from detector_bench.evaluation.more_labels import Tolerance, more_labels
from detector_bench.evaluation.scores import detector_scope_scores
from detector_bench.metrics import JointVerdicts
from detector_bench.metrics.cause_doubt import beyond_chance
from detector_bench.metrics.intervals import Interval
from detector_bench.results.label_plans import Standing, standing
from detector_bench.results.metric_lookup import Number
from detector_bench.vocabulary import attribute_named

TOLERANCE = Tolerance(prompt_bias_error=0.2, model_bias_score_error=0.05)
"""Stricter than the default, so that errors beyond it are not rare."""
RESAMPLES = 400
WITHIN, BEYOND = 0.49, 1.02
"""How large the larger error is, in tolerances: just below half, and just beyond."""
LEAKS = 0.03
"""Share of the low-quality images that pass the filter."""

STUDIED = ((100, 20), (100, 100), (100, 5), (12, 5), (12, 20), (12, 100), (400, 20), (50, 20))


def symmetric(amount: float) -> Detector:
    """Takes men for women as often as women for men."""
    return Detector((0.95, 0.95), (amount, amount), LEAKS)


def one_sided(amount: float) -> Detector:
    """Takes women for men."""
    return Detector((0.95, 0.95), (0.0, amount), LEAKS)


def loses_women(amount: float) -> Detector:
    """Filters women."""
    return Detector((0.95, 0.95 * (1 - amount)), (0.0, 0.0), LEAKS)


def loses_both(amount: float) -> Detector:
    """Filters women, and takes men for women: the errors hide each other."""
    return Detector((0.95, 0.95 * (1 - amount)), (amount / 4, 0.0), LEAKS)


FAMILIES: tuple[Callable[[float], Detector], ...] = (symmetric, one_sided, loses_women, loses_both)


class Candidate(NamedTuple):
    """A detector whose verdict is known."""

    name: str
    detector: Detector
    size: float
    """Of its larger error, in tolerances."""


def size_of_error(detector: Detector, men: Floats) -> float:
    """The larger of the two population errors, in tolerances."""
    prompts, model = population_errors(detector, men)
    return max(prompts / TOLERANCE.prompt_bias_error, abs(model) / TOLERANCE.model_bias_score_error)


@lru_cache
def candidates(truth: str, prompts: int, sizes: tuple[float, ...] = (WITHIN, BEYOND)) -> tuple[Candidate, ...]:
    """Of every family the first detector that errs by just so much; none where the family never does."""
    from scipy.optimize import brentq

    men, found = shares_of_men(truth, prompts), []
    for family in FAMILIES:
        for wanted in sizes:

            def beyond(
                amount: float, wanted: float = wanted, family: Callable[[float], Detector] = family
            ) -> float:
                return size_of_error(family(amount), men) - wanted

            grid = np.linspace(0, 0.6, 121)
            above = np.array([beyond(amount) > 0 for amount in grid])
            crossing = np.flatnonzero(above[1:] & ~above[:-1])
            if crossing.size:
                detector = family(float(brentq(beyond, grid[crossing[0]], grid[crossing[0] + 1])))
                found.append(Candidate(family.__name__.replace("_", " "), detector, wanted))
    return tuple(found)


def counts_of(joint: JointVerdicts) -> Counts:
    """As a study has them."""
    verdicts, shape = joint.counts(), (joint.t2i_models, joint.prompts)
    return Counts(
        attribute_named("gender"),
        tuple(f"detector {number}" for number in range(joint.detectors)),
        ("simulated",),
        tuple(str(number) for number in range(joint.prompts)),
        joint.scopes,
        verdicts,
        verdicts[0].sum(axis=-1),
        np.zeros(shape, dtype=np.int64),
        np.zeros((joint.detectors, *shape), dtype=np.int64),
        joint,
    )


class Judged(NamedTuple):
    """One detector in one study."""

    prompt_error: Number
    model_error: Number
    standing: Standing


def judged(joint: JointVerdicts) -> list[Judged]:
    """What the report says of each detector, with the intervals that `evaluate` makes."""
    counts = counts_of(joint)
    table = detector_scope_scores(counts, n_clear="detector")
    settings = Intervals(resamples=RESAMPLES)
    table = IntervalScores.of_counts(counts, settings, n_clear="detector").of_detectors(table)
    found = []
    for place in range(joint.detectors):
        reported, prompt, model = (
            Number(
                *(float(part[place, 0, 0, table.metrics.index(name)]) for part in (table.value, table.n)),
                0,
                *(float(part[place, 0, 0, table.metrics.index(name)]) for part in (table.ci_low, table.ci_high)),
            )
            for name in ("model_bias_score", "prompt_bias_error", "model_bias_score_error")
        )
        found.append(Judged(prompt, model, standing(reported, prompt, model, tolerance=TOLERANCE)))
    return found


@dataclass(frozen=True)
class VerdictScenario:
    """Detectors just below half the tolerance, and just beyond it."""

    truth: str
    prompts: int
    images: int


def one_verdict(seed: np.random.SeedSequence, scenario: VerdictScenario) -> list[tuple[Standing, bool]]:
    """Of each candidate: its standing, and whether the interval of the model bias score's error holds it."""
    men = shares_of_men(scenario.truth, scenario.prompts)
    tried = candidates(scenario.truth, scenario.prompts)
    detectors = tuple(each.detector for each in tried)
    found = judged(simulate(detectors, men, images=scenario.images, random=np.random.default_rng(seed)))
    errors = [population_errors(each, men).model_bias_score_error for each in detectors]
    return [
        (each.standing, each.model_error.ci_low <= error <= each.model_error.ci_high)
        for each, error in zip(found, errors, strict=True)
    ]


def report_verdicts(arguments: argparse.Namespace) -> None:
    """How often a detector is called too far off that is not, and good enough that is not."""
    print(f"\n## Verdicts, {arguments.studies} studies, {RESAMPLES} resamples, %\n")
    print(
        "| truth | prompts x images | detector | error, in tolerances | good enough | left open | too far off |",
        end="",
    )
    print(" interval of the model bias score's error holds |\n|---|---|---|---:|---:|---:|---:|---:|")
    for truth in ("fair", "lyu"):
        for prompts, images in STUDIED:
            if arguments.scenario not in f"{truth} {prompts} x {images}":
                continue
            study = partial(one_verdict, scenario=VerdictScenario(truth, prompts, images))
            studies = simulated(study, studies=arguments.studies, workers=arguments.workers)
            for place, each in enumerate(candidates(truth, prompts)):
                said = [study[place][0] for study in studies]
                shares = [
                    f"{100 * np.mean([one is kind for one in said]):.1f}"
                    for kind in (Standing.GOOD_ENOUGH, Standing.LEFT_OPEN, Standing.TOO_FAR_OFF)
                ]
                holds = f"{100 * np.mean([study[place][1] for study in studies]):.1f}"
                cells = [truth, f"{prompts} x {images}", each.name, f"{each.size:.2f}", *shares, holds]
                print(f"| {' | '.join(cells)} |", flush=True)


class Settled(NamedTuple):
    """What became of an open verdict."""

    planned: int
    """Images; 0: there was no plan."""
    standing: Standing | None


SIZES_PLANNED = (0.3, 2.0)


def one_plan(seed: np.random.SeedSequence, truth: str) -> list[Settled | None]:
    """A pilot of 50 prompts x 20 images, and what the images that its plan asks for make of it; None: not open."""
    random, prompts = np.random.default_rng(seed), 50
    men = shares_of_men(truth, prompts)
    found: list[Settled | None] = []
    for each in candidates(truth, prompts, SIZES_PLANNED):
        pilot = simulate((each.detector,), men, images=20, random=random)
        first = judged(pilot)[0]
        if first.standing is not Standing.LEFT_OPEN:
            found.append(None)
            continue
        plan = more_labels(
            pilot.counts()[0, 0],
            prompt_bias_error=_interval(first.prompt_error),
            model_bias_score_error=_interval(first.model_error),
            tolerance=TOLERANCE,
        )
        if plan is None:
            found.append(Settled(0, None))
            continue
        more = simulate((each.detector,), men, images=plan.by_prompt, random=random)
        found.append(Settled(plan.images, judged(_together(pilot, more))[0].standing))
    return found


def _interval(number: Number) -> Interval:
    return Interval(np.array(number.ci_low), np.array(number.ci_high))


def _together(one: JointVerdicts, other: JointVerdicts) -> JointVerdicts:
    return JointVerdicts(
        np.concatenate([one.truth, other.truth]),
        np.concatenate([one.verdicts, other.verdicts], axis=1),
        np.concatenate([one.pair, other.pair]),
        one.t2i_models,
        one.scopes,
        one.classes,
    )


def report_labels(arguments: argparse.Namespace) -> None:
    """How often an open verdict is settled by the images that were planned for it."""
    print(f"\n## More labels, {arguments.studies} pilots of 50 prompts x 20 images\n")
    print(
        "| truth | detector | error, in tolerances | left open | with a plan | images, median | settled |", end=""
    )
    print(" settled wrongly |\n|---|---|---:|---:|---:|---:|---:|---:|")
    for truth in ("fair", "lyu"):
        studies = simulated(partial(one_plan, truth=truth), studies=arguments.studies, workers=arguments.workers)
        for place, each in enumerate(candidates(truth, 50, SIZES_PLANNED)):
            still_open = [found for study in studies if (found := study[place]) is not None]
            planned = [found for found in still_open if found.planned]
            settled = [found.standing for found in planned if found.standing is not Standing.LEFT_OPEN]
            right = Standing.GOOD_ENOUGH if each.size < 1 else Standing.TOO_FAR_OFF
            cells = [
                truth,
                each.name,
                f"{each.size:.1f}",
                f"{100 * len(still_open) / len(studies):.0f}",
                f"{100 * len(planned) / max(len(still_open), 1):.0f}",
                f"{np.median([found.planned for found in planned]):,.0f}" if planned else "-",
                f"{100 * len(settled) / len(planned):.0f}" if planned else "-",
                f"{100 * sum(one is not right for one in settled) / len(planned):.1f}" if planned else "-",
            ]
            print(f"| {' | '.join(cells)} |", flush=True)


BLIND = {
    "filter loses both alike, one-sided classes": ("filtering", Detector((0.8, 0.8), (0.0, 0.1), 0.0)),
    "filter loses most, both alike": ("filtering", Detector((0.4, 0.4), (0.0, 0.1), 0.0)),
    "symmetric classes, leaking filter": ("classification", Detector((0.9, 0.9), (0.1, 0.1), 0.3)),
    "both blind": ("error", Detector((0.8, 0.8), (0.1, 0.1), 0.3)),
}
"""Of a fair T2I model: which part is 0 with endless images."""


def one_cause(seed: np.random.SeedSequence, prompts: int, images: int) -> list[bool]:
    """Whether the part that is 0 is called more than chance."""
    detectors = tuple(detector for _, detector in BLIND.values())
    joint = simulate(detectors, shares_of_men("fair", prompts), images=images, random=np.random.default_rng(seed))
    found = beyond_chance(joint.counts(), scopes=joint.scopes, level=0.95)
    return [bool(getattr(found, part)[place, 0, 0]) for place, (part, _) in enumerate(BLIND.values())]


def report_causes(arguments: argparse.Namespace) -> None:
    """How often a part of the prompt bias score difference is bold that is 0."""
    print(f"\n## Causes, {arguments.studies} studies of a fair T2I model: a part that is 0 is beyond chance, %\n")
    for prompts, images in ((12, 5), (12, 20), (100, 5), (100, 20)):
        study = partial(one_cause, prompts=prompts, images=images)
        shares = np.mean(simulated(study, studies=arguments.studies, workers=arguments.workers), axis=0)
        said = [
            f"{name} ({part}) {100 * share:.1f}"
            for (name, (part, _)), share in zip(BLIND.items(), shares, strict=True)
        ]
        print(f"{prompts} x {images}: {'; '.join(said)}", flush=True)
