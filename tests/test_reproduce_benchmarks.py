"""`reproduce bigbench` and `reproduce imagebite`: what follows from printed tables and released files."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from detector_bench.cli.app import app
from detector_bench.errors import ConfigError, DataError
from detector_bench.others.bigbench import reproduction as bigbench
from detector_bench.others.findings import Finding, Match
from detector_bench.others.imagebite import reproduction as imagebite
from detector_bench.others.imagebite.input_file import InputFile


def differing(findings: list[Finding]) -> dict[str, tuple[float, float]]:
    return {each.statement: (each.published, each.recomputed) for each in findings if each.match is Match.DIFFERS}


def test_what_of_bigbenchs_printed_tables_does_not_match_is_just_this() -> None:
    assert differing(bigbench.printed_findings()) == {
        "general T2I models": (7, 8),
        # 50.94 is 163 of 320 images, and no share of 160.
        "images behind a share, the least number that gives all": (160, 320),
        "White: share of women as the nearest share of 320 images, %": (56.28, 56.25),
        # 163 of 320 women without a race, 180 with White, 128, 113 and 70 with the others.
        "races that change the share of women beyond chance": (4, 3),
    }


def test_images_behind_printed_shares() -> None:
    assert bigbench.images_behind([50, 25]) == 4
    assert bigbench.images_behind([33.33, 66.67]) == 3
    assert bigbench.images_behind([12.34, 56.78, 90.12]) == 0


def test_bigbenchs_released_files(shared: Path) -> None:
    prompts = bigbench.ReleasedParts.read(shared / "upstream" / "bigbench")
    assert prompts.references is None
    found = prompts.findings()
    assert {each.statement: each.recomputed for each in found if each.place == "README"} == {
        "prompts on occupation": 35_800,
        "prompts on characteristic": 4_800,
        "prompts on social relation": 6_440,
    }
    assert not differing(found)
    references = bigbench.ReleasedParts.read(shared / "data" / "bigbench")
    assert references.prompts is None
    assert differing(references.findings()) == {
        "references with a category": (225, 224),
        "pairs of prompts whose words are in one sentence each": (36, 32),
    }
    reasons = {each.claim for each in bigbench.out_of_reach(prompts)}
    assert {"reference shares", "categories", "pairs of prompts"} <= reasons
    assert "47,040 prompts" not in reasons


def test_what_a_missing_file_would_say_is_out_of_reach(shared: Path, tmp_path: Path) -> None:
    (tmp_path / "char_gt.json").write_bytes((shared / "data" / "bigbench" / "char_gt.json").read_bytes())
    parts = bigbench.ReleasedParts.read(tmp_path)
    assert [each.statement for each in parts.findings()] == [
        "references of characteristics",
        "people whose reference of race is the same",
    ]
    reasons = {each.claim: each.reason for each in bigbench.out_of_reach(parts)}
    assert reasons["pairs of prompts"] == "give the folder with eta.json"
    assert "reference shares" not in reasons


def test_a_folder_without_bigbenchs_files_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"neither BIGbench's prompt files .* nor its reference files"):
        bigbench.ReleasedParts.read(tmp_path)
    answer = CliRunner().invoke(app, ["reproduce", "bigbench", str(tmp_path)])
    assert "give the folder of its program" in str(answer.exception)


def test_commands_print_verdicts_and_reasons(tmp_path: Path) -> None:
    answer = CliRunner().invoke(app, ["reproduce", "bigbench", "--out", str(tmp_path)])
    assert answer.exit_code == 0, answer.output
    table = (tmp_path / "bigbench_reproduction.csv").read_text(encoding="utf-8")
    assert "cannot be recomputed" in table
    assert "neither its images nor its aligner's answers are released" in answer.output
    answer = CliRunner().invoke(app, ["reproduce", "imagebite", "--only-differences"])
    assert answer.exit_code == 0, answer.output
    assert "published 1, recomputed 2 (here also white" in answer.output


def test_imagebites_running_example_and_released_files(shared: Path) -> None:
    words = "under-represented communities of the janitor's"
    assert differing(imagebite.text_findings()) == {words: (1, 2)}
    found = imagebite.ReleasedExample.find(shared / "upstream" / "imagebite").findings()
    assert differing(found) == {
        'its sentence "a person who works as a janitor" (1: made)': (1, 0),
        "requirements that meet a template": (4, 3),
    }
    assert {each.recomputed for each in found if each.place == "Released program"} == {198, 18_018}


def test_all_ways_to_divide_images() -> None:
    ways = imagebite.ways_to_divide(3, 2)
    assert sorted(map(tuple, ways.tolist())) == [(0, 3), (1, 2), (2, 1), (3, 0)]
    ways = imagebite.ways_to_divide(10, 6)
    assert len(np.unique(ways, axis=0)) == len(ways) == 3003
    assert (ways.sum(axis=1) == 10).all()
    with pytest.raises(ConfigError, match="more than 300,000 ways"):
        imagebite.ways_to_divide(100, 8)


def test_a_mistake_in_the_example_input_is_told(shared: Path, tmp_path: Path) -> None:
    for file in (shared / "data" / "imagebite").iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    example = tmp_path / "input_example.json"
    text = example.read_text(encoding="utf-8")
    example.write_text(text.replace('"stereotyping_threshold": 0.75', '"stereotyping_threshold": 7'))
    with pytest.raises(DataError, match="stereotyping_threshold"):
        imagebite.ReleasedExample.find(tmp_path).findings()
    example.write_text(text.replace('"num_samples": 10', '"num_samples": 90'))
    with pytest.raises(ConfigError, match="num_samples: 90 images of 6 communities"):
        imagebite.ReleasedExample.find(tmp_path).findings()


RELEASED = """
import json, sys
from imagebite.model.test_scenario_model import SensitiveCommunityDistribution
from imagebite.validators.validations import ConcreteValidation

asked = json.load(sys.stdin)
found = []
for counts in asked["ways"]:
    items = [SensitiveCommunityDistribution(*each) for each in asked["expected"]]
    for item, count in zip(items, counts):
        item.actual_occurrences = count
    ConcreteValidation("m", "", "c", items, asked["threshold"])
    found.append([[each.is_stereotyped, each.is_underrepresented, each.is_exnominated] for each in items])
json.dump(found, sys.stdout)
"""


def test_what_is_called_the_released_programs_verdicts_are_its(shared: Path, tmp_path: Path) -> None:
    """Shares on bounds among them, on which it and ours differ."""
    distributions = [
        {"sensitive_community": name, "expected_distribution": share, "delta": delta}
        for name, share, delta in (("man", 0.8, 0.6), ("woman", 0.7, 0.1), ("ambiguous", 0.3, 0.0))
    ]
    requirement = {"name": "R", "rationale": "", "ethical_concern": "gender", "discrimination": "d"}
    stated = requirement | {"stereotyping_threshold": 0.7, "expected_distributions": distributions}
    file = tmp_path / "input.json"
    file.write_text(json.dumps({"requirements": [stated], "ethical_concerns": []}))
    (read,) = InputFile(file).requirements.values()
    ways = imagebite.ways_to_divide(10, 3)
    ours, theirs = imagebite.verdicts_on(read, ways)
    asked = {"ways": ways.tolist(), "expected": [list(each.values()) for each in distributions], "threshold": 0.7}
    run = subprocess.run(
        [sys.executable, "-c", RELEASED],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(shared / "upstream" / "imagebite")},
    )
    assert np.array_equal(np.stack(theirs, axis=-1), np.array(json.loads(run.stdout)))
    assert (ours.under_represented != theirs[1]).any()
