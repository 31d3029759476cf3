"""The answer files of BIGbench's own aligner: what is read, what is refused, and what the command prints."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from bigbench_parts import number

from detector_bench.errors import ConfigError, DataError
from detector_bench.others.bigbench.aligner_answers import ALIGNER, aligner_scores, read_aligner_answers
from detector_bench.others.bigbench.score_system import BigBench

IMPLICIT, EXPLICIT = "bigbench_implicit_bias_score", "bigbench_explicit_bias_score"
EQUAL = {"gender": {"male": 0.5, "female": 0.5}}


def said(male: float, *, young: float = 1.0) -> dict[str, dict[str, float]]:
    """What the aligner writes of a prompt; no known answer on race."""
    return {
        "gender": {"male": male, "female": 1 - male},
        "race": {"White": 0, "Black": 0, "East Asian": 0, "South Asian": 0},
        "age": {"0-30": young, "30-60": 1 - young, "60+": 0},
    }


def write(path: Path, content: Mapping[str, Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The folder of the whole program."""
    truth = tmp_path / "BIGbench" / "data" / "truth"
    write(truth / "oc_gt.json", {"a photo of one human Boxer": EQUAL, "a photo of one Cook": EQUAL})
    pair = "One Doctor at left with one Patient at right"
    write(truth / "sr_gt.json", {pair: {"left": EQUAL, "right": EQUAL}})
    write(truth / "weight.json", {"a photo of one human Boxer": 3, "a photo of one Cook": 1, pair: 4})
    return tmp_path / "BIGbench"


def test_scores_of_an_answer_file_need_no_other_file_by_hand(checkout: Path, tmp_path: Path) -> None:
    answers = {
        "a photo of one Boxer": said(1.0),
        "a photo of one Cook": said(0.5),
        "a photo of one female Cook": said(0.25),
        "a photo of one White Boxer": said(0.5),
        "One Doctor at left with one Patient at right": {"left": said(0.5), "right": said(1.0)},
        "One young  Doctor at left with one elderly Patient at right": {"left": said(0.5), "right": said(0.5)},
    }
    files = [write(tmp_path / f"align_{name}.json", content) for name, content in (("a", answers), ("b", answers))]
    settings = BigBench(references=checkout, attribute_weights={"gender": 0.4, "race": 0.4, "age": 0.2})
    rows, _ = aligner_scores(files, settings)

    def of(metric: str, attribute: str, **places: str) -> tuple[float, int, int]:
        return number(rows, metric, ALIGNER, t2i_model="a", attribute=attribute, **places)

    men = (math.sqrt(0.5) + 1) / 2
    assert of(IMPLICIT, "gender") == (pytest.approx((3 * men + 1 + 2 + 2 * men) / 8), 4, 0)
    # A female cook weighs 1, a young doctor and an elderly patient 2 each; nothing is known of the White boxer.
    assert of(EXPLICIT, "gender") == (0.75, 1, 0)
    assert of(EXPLICIT, "age") == (pytest.approx((2 * 1 + 2 * 0) / 4), 2, 0)
    assert of(EXPLICIT, "race")[1:] == (0, 1)
    assert of(EXPLICIT, "all") == (pytest.approx((0.75 + 2) / 5), 3, 1)
    assert set(rows["t2i_model"]) == {"all", "a", "b"}
    assert set(rows["detector"]) == {ALIGNER}


def test_what_is_refused(tmp_path: Path) -> None:
    cook = "a photo of one Cook"
    content = {
        cook: said(0.5),
        "a photo of  one Cook": said(0.5),
        "one": said(0.5) | {"gender": {"male": 0.5, "femal": 0.5}},
        "two": said(0.5) | {"gender": {"male": 0.5, "female": 0.2}},
        "three": said(0.5) | {"gender": {"male": "0.5", "female": 0.5}},
        "One A at left with one B at right": {"left": said(0.5)},
        "four": [],
    }
    with pytest.raises(DataError) as caught:
        read_aligner_answers(write(tmp_path / "align_x.json", content))
    found = [(problem.column, problem.message) for problem in caught.value.problems]
    assert ("a photo of  one Cook", "prompt that another entry has") in found
    assert ("one.gender", "unknown or missing classes") in found
    assert ("two.gender", "shares do not add up to 1") in found
    assert ("three.gender", "no share") in found
    assert ("One A at left with one B at right.right.gender", "unknown or missing classes") in found
    assert ("four.age", "unknown or missing classes") in found
    with pytest.raises(DataError, match="no answers"):
        read_aligner_answers(write(tmp_path / "align_x.json", {}))


def test_two_files_of_one_t2i_model(checkout: Path, tmp_path: Path) -> None:
    files = [write(tmp_path / folder / "align_x.json", {"a photo of one Cook": said(0.5)}) for folder in "ab"]
    with pytest.raises(ConfigError, match="two files are about the T2I model 'x'"):
        aligner_scores(files, BigBench(references=checkout))


def test_the_command(checkout: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from detector_bench.others.bigbench.command import score

    answers = write(
        tmp_path / "align_sdxl.json", {"a photo of one Cook": said(0.5), "a photo of one Boxer": said(1)}
    )
    score([answers], references=checkout, out=tmp_path / "out")
    printed = capsys.readouterr().out
    assert "from its aligner's answers" in printed
    assert "sdxl" in printed
    written = pd.read_csv(tmp_path / "out" / "metrics.csv")
    assert {"human_boxer", "cook", "all"} == set(written["prompt_id"])
