"""How often do the intervals of 12 prompts with 5 images each hold the truth? Of every metric, in every scope.

    python benchmarks/small_study_coverage.py [--sets N] [--studies N] [--resamples N] [--method M] [--unit U]

Simulates studies with a known truth and reads the intervals that a metric table would show, over everything and
over categories of 4 prompts. With `unit: image` a scenario is several sets of prompts, each the same in all its
studies; with `unit: prompt` every study has prompts of its own. The truth is the mean over many more studies.

Studies of one T2I model stand side by side as the T2I models of one large study: resamples and intervals of T2I
models do not depend on each other, and all are found at once.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import NamedTuple, get_args

import numpy as np
import pandas as pd
from measuring import machine
from numpy.typing import NDArray

from detector_bench.evaluation.counting import Counts
from detector_bench.evaluation.intervals import Intervals, IntervalScores
from detector_bench.evaluation.scores import ScoreTable, detector_scope_scores, human_scope_scores
from detector_bench.installation import resource
from detector_bench.metrics import JointVerdicts, Scopes, metric_info
from detector_bench.metrics.bootstrap import Method, Unit
from detector_bench.vocabulary import ATTRIBUTES

PROMPTS, IMAGES, CATEGORIES = 12, 5, 3
STUDIES_FOR_TRUTH = 1_000
SLACK = 1e-9
"""So that rounding does not push a truth of exactly 1 out of its interval."""


@dataclass(frozen=True)
class Scenario:
    """What is simulated."""

    truth: str
    """Shares of men: `fair`: one half; `lyu2025`: as published for SDXL; `mixed`: Beta(0.6, 0.6); `one-sided`:
    Beta(30, 1), so 97 % on average; `polarised`: Beta(20, 0.5) of either gender."""
    detector: str
    """`filters`: recall 0.97, filter rate 0.8, accuracy 0.95 at a prompt of medium difficulty; `keeps everything`:
    1, 0, 0.95; `weak`: 0.6, 0.4, 0.8."""
    t2i_models: int = 1

    @property
    def name(self) -> str:
        models = f", {self.t2i_models} T2I models" if self.t2i_models > 1 else ""
        return f"{self.truth}, {self.detector}{models}"


SCENARIOS = (
    *(Scenario(truth, "filters") for truth in ("fair", "lyu2025", "mixed", "one-sided", "polarised")),
    Scenario("mixed", "keeps everything"),
    Scenario("mixed", "weak"),
    Scenario("mixed", "filters", t2i_models=3),
)
QUALITIES = {"filters": (0.97, 0.8, 0.95), "keeps everything": (1.0, 0.0, 0.95), "weak": (0.6, 0.4, 0.8)}


def shares_of_men(truth: str, random: np.random.Generator) -> NDArray[np.float64]:
    """`[prompt]`."""
    if truth == "fair":
        return np.full(PROMPTS, 0.5)
    if truth == "lyu2025":
        scores = pd.read_csv(resource("labels/lyu2025/table7_prompt_bias_scores.csv"))["sdxl"].to_numpy()
        return (1 + random.choice(scores, PROMPTS)) / 2
    if truth == "mixed":
        return random.beta(0.6, 0.6, PROMPTS)
    if truth == "one-sided":
        return random.beta(30, 1, PROMPTS)
    share = random.beta(20, 0.5, PROMPTS)
    return np.where(random.random(PROMPTS) < 0.5, share, 1 - share)


class Made(NamedTuple):
    """What stays the same from study to study: `[t2i_model x prompt]`."""

    men: NDArray[np.float64]
    difficulty: NDArray[np.float64]


def made_up(scenario: Scenario, random: np.random.Generator) -> Made:
    """Prompts of one study; T2I models share their difficulty."""
    men = [shares_of_men(scenario.truth, random) for _ in range(scenario.t2i_models)]
    return Made(np.concatenate(men), np.tile(random.normal(0, 0.5, PROMPTS), scenario.t2i_models))


def simulate(scenario: Scenario, prompts: list[Made], random: np.random.Generator) -> JointVerdicts:
    """One study for each element of `prompts`, whose T2I models stand behind each other."""
    men, difficulty = (np.concatenate(each) for each in zip(*prompts, strict=True))
    pair = np.repeat(np.arange(men.size), IMAGES)
    size = pair.size

    def chance(base: float) -> NDArray[np.float64]:
        if base in (0, 1):
            return np.full(size, base)
        return (1 / (1 + np.exp(-np.log(base / (1 - base)) + difficulty)))[pair]

    unclear = random.random(size) < (1 / (1 + np.exp(1.9 - 0.8 * difficulty)))[pair]
    gender = (random.random(size) >= men[pair]).astype(np.int8)
    truth = np.where(unclear, 2, gender)
    truth = np.where(random.random(size) < 0.02, 3, truth)
    recall, filter_rate, accuracy = (chance(quality) for quality in QUALITIES[scenario.detector])
    kept = random.random(size) < np.where(truth >= 2, 1 - filter_rate, recall)
    right = random.random(size) < np.where(truth >= 2, 0.5, accuracy)
    verdicts = np.where(kept, np.where(right, gender, 1 - gender), 2)
    return JointVerdicts(
        truth.astype(np.int8),
        verdicts[np.newaxis].astype(np.int8),
        pair,
        men.size // PROMPTS,
        Scopes.of_prompts([f"category {number % CATEGORIES}" for number in range(PROMPTS)]),
        2,
    )


def counts_of(joint: JointVerdicts) -> Counts:
    """As the evaluation of a study counts, for an attribute with as many classes."""
    labels = joint.classes + 2
    human = np.zeros((joint.t2i_models, joint.prompts, labels), dtype=np.int64)
    np.add.at(human.reshape(-1, labels), (joint.pair, joint.truth), 1)
    nothing = np.zeros(human.shape[:-1], dtype=np.int64)
    return Counts(
        attribute=next(each for each in ATTRIBUTES.values() if len(each.classes) == joint.classes),
        detectors=tuple(f"detector {number}" for number in range(joint.detectors)),
        t2i_models=tuple(map(str, range(joint.t2i_models))),
        prompt_ids=tuple(map(str, range(joint.prompts))),
        scopes=joint.scopes,
        verdicts=joint.counts().astype(np.int64),
        human=human,
        unlabelled=nothing,
        not_run=np.zeros((joint.detectors, *nothing.shape), dtype=np.int64),
        joint=joint,
    )


def tables(joint: JointVerdicts, settings: Intervals | None) -> list[ScoreTable]:
    """Of the human and of the detectors, `[judge, 1 + T2I models, 1 + categories, metric]`.

    Args:
        joint: truth and verdicts.
        settings: None: without intervals.
    """
    counts = counts_of(joint)
    human, detectors = human_scope_scores(counts), detector_scope_scores(counts, n_clear="detector")
    if settings is None:
        return [human, detectors]
    doubt = IntervalScores.of_counts(counts, settings, n_clear="detector")
    return [doubt.of_human(human), doubt.of_detectors(detectors)]


def evaluated(scenario: Scenario, joint: JointVerdicts, settings: Intervals | None) -> list[ScoreTable]:
    """The same with studies on the axis of T2I models: over all of theirs, where they have several."""
    if scenario.t2i_models == 1:
        return [table.at((slice(None), slice(1, None))) for table in tables(joint, settings)]
    found = []
    pairs = scenario.t2i_models * PROMPTS
    for study in range(joint.t2i_models // scenario.t2i_models):
        chosen = slice(study * pairs * IMAGES, (study + 1) * pairs * IMAGES)
        one = JointVerdicts(
            joint.truth[chosen], joint.verdicts[:, chosen], joint.pair[chosen] - study * pairs,
            scenario.t2i_models, joint.scopes, joint.classes,
        )  # fmt: skip
        found.append([table.at((slice(None), slice(0, 1))) for table in tables(one, settings)])
    return [side_by_side(parts) for parts in zip(*found, strict=True)]


def side_by_side(studies: tuple[ScoreTable, ...]) -> ScoreTable:
    """Join studies on the second axis."""
    arrays = zip(*(study[1:] for study in studies), strict=True)
    return ScoreTable(studies[0].metrics, *(np.concatenate(each, axis=1) for each in arrays))


@dataclass
class Tally:
    """Of one metric in one kind of scope."""

    held: int = 0
    shown: int = 0
    values: int = 0

    def add(self, table: ScoreTable, place: int, truth: NDArray[np.float64], scopes: slice) -> None:
        """Count studies whose interval holds the truth, `[1, 1 + categories]`."""
        low, value, high = (each[0, :, scopes, place] for each in (table.ci_low, table.value, table.ci_high))
        held = (low <= truth[:, scopes] + SLACK) & (truth[:, scopes] - SLACK <= high)
        self.held += int(held.sum())
        self.shown += int((~np.isnan(low)).sum())
        self.values += int((~np.isnan(value)).sum())

    def __str__(self) -> str:
        if not self.shown:
            return "none"
        refused = 100 * (1 - self.shown / self.values)
        return f"{100 * self.held / self.shown:.1f}" + (f" ({refused:.0f} % none)" if refused >= 1 else "")


def coverage(
    scenario: Scenario, settings: Intervals, *, sets: int, studies: int
) -> dict[tuple[str, str, str], Tally]:
    """By judge, metric and scope."""
    tallies: dict[tuple[str, str, str], Tally] = {}
    new_prompts = settings.unit == "prompt"
    for number in range(1 if new_prompts else sets):
        of_set = np.random.default_rng([number, 1])
        many = studies * (sets if new_prompts else 1)

        def prompts(count: int, random: np.random.Generator) -> list[Made]:
            if new_prompts:
                return [made_up(scenario, random) for _ in range(count)]
            return [made_up(scenario, random)] * count

        fixed = prompts(STUDIES_FOR_TRUTH * (3 if new_prompts else 1), of_set)
        truths = evaluated(scenario, simulate(scenario, fixed, np.random.default_rng([number, 2])), None)
        shown = prompts(many, np.random.default_rng([number, 4])) if new_prompts else fixed[:1] * many
        joint = simulate(scenario, shown, np.random.default_rng([number, 3]))
        drawn = evaluated(scenario, joint, settings.model_copy(update={"seed": number}))
        for judge, truth, table in zip(("human", "detector"), truths, drawn, strict=True):
            for place, metric in enumerate(table.metrics):
                if metric_info(metric).kind == "count" or metric == "model_bias_score_if_fair":
                    continue
                mean = np.nanmean(truth.value[..., place], axis=1)
                for scope, chosen in (("all", slice(0, 1)), ("category", slice(1, None))):
                    tally = tallies.setdefault((judge, metric, scope), Tally())
                    tally.add(table, place, mean, chosen)
    return tallies


def main() -> None:
    """Simulate, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", type=int, default=8, help="of prompts, with unit image")
    parser.add_argument("--studies", type=int, default=60, help="of each set")
    parser.add_argument("--resamples", type=int, default=500)
    parser.add_argument("--method", choices=[each for each in get_args(Method) if each != "none"], default="score")
    parser.add_argument("--unit", choices=get_args(Unit), default="image")
    options = parser.parse_args()
    print(machine())
    settings = Intervals(method=options.method, unit=options.unit, resamples=options.resamples)
    print(
        f"\n{PROMPTS} prompts x {IMAGES} images, {options.sets * options.studies} studies of each scenario, "
        f"{options.resamples} resamples, method {options.method}, unit {options.unit}"
    )
    found = [
        coverage(each, settings, sets=options.sets, studies=options.studies)
        for each in SCENARIOS
        if each.t2i_models == 1 or options.unit == "image"
    ]
    for scope in ("all", "category"):
        print(f"\n| {scope} | {' | '.join(each.name for each, _ in zip(SCENARIOS, found, strict=False))} |")
        print(f"|---|{'---:|' * len(found)}")
        for judge, metric, place in found[0]:
            if place == scope:
                cells = " | ".join(str(each[judge, metric, place]) for each in found)
                print(f"| {metric}, {judge} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
