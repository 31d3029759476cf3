"""Our verdicts beside those of ImageBiTe's released program, on made-up answers.

The released classes that hold requirements and judge counted answers run as they are, in a process of their own.
The rest of the program calls services, for images and for what they show.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
from imagebite_parts import expected, judged, stated, written

from detector_bench.evaluation.intervals import Intervals
from detector_bench.others.imagebite.score_system import ImageBiTe

REQUIREMENTS, PROMPTS = 60, 20
WORDS = {
    "man": ("male",),
    "woman": ("female",),
    "white": ("white",),
    "black": ("black",),
    "latin": ("latino_hispanic",),
    "asian": ("east_asian", "southeast_asian", "south_asian"),
    "young": ("young",),
    "elderly": ("elderly",),
}
COMMUNITIES = {
    "gender": ("man", "woman"),
    "race": ("white", "black", "latin", "asian"),
    "age": ("young", "elderly"),
}
CONCERNS = {"gender": "gender", "race": "ethnicity", "age": "age"}
FLAGS = {
    "is_underrepresented": "under_represented",
    "is_exnominated": "ex_nominated",
    "is_stereotyped": "stereotyped",
}

RELEASED = """
import json, sys
from imagebite import utils
from imagebite.model.test_scenario_model import EthicalRequirement, SensitiveCommunityDistribution
from imagebite.validators.validations import ConcreteValidation

found = []
for case in json.load(sys.stdin):
    requirement = EthicalRequirement("REQ", "", "underrepresentation", case["concern"], case["threshold"])
    for each in case["expected"]:
        requirement.add_expected_distribution(SensitiveCommunityDistribution(*each))
    distributions = requirement.expected_distributions
    for answer in case["answers"]:
        for item in distributions:
            item.actual_occurrences += item.sensitive_community == utils.normalize_and_case_string(answer)
    threshold = requirement.stereotyping_threshold
    judged = ConcreteValidation("sdxl", "", requirement.ethical_concern, distributions, threshold)
    found.append([
        [each.sensitive_community, each.actual_distribution]
        + [each.is_underrepresented, each.is_exnominated, each.is_stereotyped]
        for each in judged.sensitive_communities_distribution
    ])
json.dump(found, sys.stdout)
"""


class Case(NamedTuple):
    """A requirement, and what images of each prompt show: communities, `others` or `filtered`."""

    attribute: str
    requirement: dict[str, Any]
    answers: list[list[str]]


def made_up_cases(*, seed: int) -> list[Case]:
    """Shares, tolerances and thresholds in steps of 0.05, so that many a share of 1 to 20 images is on a bound."""
    random = np.random.default_rng(seed)
    cases = []
    for _ in range(REQUIREMENTS):
        attribute = str(random.choice(list(COMMUNITIES)))
        names = COMMUNITIES[attribute]
        shares = (expected(name, random.integers(0, 17) / 20, random.integers(0, 9) / 20) for name in names)
        requirement = stated(CONCERNS[attribute], *shares, threshold=random.integers(8, 21) / 20, name="REQ")
        answers = []
        for _ in range(PROMPTS):
            weights = random.dirichlet(np.full(len(names) + 2, 0.4))
            images = random.choice([1, 4, 5, 10, 20])
            answers.append(random.choice([*names, "others", "filtered"], size=images, p=weights).tolist())
        cases.append(Case(attribute, requirement, answers))
    return cases


def released_verdicts(cases: list[Case], upstream: Path) -> pd.DataFrame:
    questions = [
        {
            "concern": case.requirement["ethical_concern"],
            "threshold": case.requirement["stereotyping_threshold"],
            "expected": [list(each.values()) for each in case.requirement["expected_distributions"]],
            # As GPT-4o writes them.
            "answers": [f"'{answer.capitalize()}'." for answer in answers],
        }
        for case in cases
        for answers in case.answers
    ]
    run = subprocess.run(
        [sys.executable, "-c", RELEASED],
        input=json.dumps(questions),
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(upstream)},
    )
    rows = [
        (number // PROMPTS, f"p{number % PROMPTS}", *each)
        for number, prompt in enumerate(json.loads(run.stdout))
        for each in prompt
    ]
    return pd.DataFrame(rows, columns=["case", "prompt_id", "community", "actual", *FLAGS])


def our_verdicts(cases: list[Case], folder: Path) -> pd.DataFrame:
    random = np.random.default_rng(0)
    tables = []
    for number, case in enumerate(cases):
        cells = [("sdxl", f"p{prompt}") for prompt, answers in enumerate(case.answers) for _ in answers]
        # A detector gives classes: any of a community's own.
        labels = [random.choice(WORDS.get(answer, (answer,))) for answers in case.answers for answer in answers]
        judgements = judged(case.attribute, {"ground_truth": labels}, cells=cells)
        system = ImageBiTe(system="imagebite", requirements=written(folder, case.requirement))
        tables.append(system.verdicts(judgements, Intervals(method="none")).assign(case=number))
    return pd.concat(tables, ignore_index=True)


@pytest.fixture(scope="module")
def both(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    """All verdicts of both, a row per requirement, prompt and community."""
    upstream = shared / "upstream" / "imagebite"
    if not upstream.is_dir():
        pytest.skip(f"ImageBiTe's released program is not in {upstream}")
    cases = made_up_cases(seed=11)
    released = released_verdicts(cases, upstream)
    ours = our_verdicts(cases, tmp_path_factory.mktemp("imagebite"))
    joined = ours.merge(released, on=["case", "prompt_id", "community"], validate="one_to_one")
    assert len(joined) == len(ours) == len(released)
    return joined


@pytest.mark.slow
def test_shares_are_equal_and_without_an_answer_neither_says_anything(both: pd.DataFrame) -> None:
    nobody = both["images_identified"] == 0
    assert nobody.sum() > 50
    assert (both["share"] - both["actual"])[~nobody].abs().max() < 1e-12
    assert not both.loc[nobody, list(FLAGS)].any(axis=None)
    assert both.loc[nobody, list(FLAGS.values())].isna().all(axis=None)


def test_verdicts_are_equal_but_on_a_bound(both: pd.DataFrame) -> None:
    """The one difference: to a computer 0.8 - 0.6 is more than 0.2, and the released program goes by that."""
    known = both[both["images_identified"] > 0]
    assert len(known) > 2000
    distances = {
        "is_underrepresented": (known["share"] - (known["expected"] - known["delta"])).abs(),
        "is_exnominated": pd.Series(np.inf, index=known.index),
        "is_stereotyped": (known["share"] - known["threshold"]).abs(),
    }
    for theirs, name in FLAGS.items():
        ours = known[name].astype(bool)
        differ = ours != known[theirs]
        assert (distances[theirs][differ] < 1e-12).all(), name
        # There, a share on a bound is neither below nor above it here.
        assert not ours[differ].any(), name
        assert ours.sum() > 100, name
    differ = known["under_represented"].astype(bool) != known["is_underrepresented"]
    assert 0 < differ.sum() < 0.02 * len(known)
