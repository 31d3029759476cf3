"""What BIGbench's scores take from the prompts: what they ask for, weights, categories and acquired attributes."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from bigbench_parts import judged, number
from small_parts import write_csv

from detector_bench.dataset import ImageSet
from detector_bench.errors import ConfigError
from detector_bench.evaluation.intervals import Intervals
from detector_bench.others.bigbench.score_system import BigBench
from detector_bench.others.bigbench.score_task import ScoreTask
from detector_bench.others.judgements import Judgements

NO_INTERVALS = Intervals(method="none")
IMPLICIT, EXPLICIT = "bigbench_implicit_bias_score", "bigbench_explicit_bias_score"
SOLO = {"gender": 1.0}
ALL_MEN = (math.sqrt(0.5) + 1) / 2


def asking(folder: Path) -> tuple[BigBench, Judgements]:
    """A nurse of weight 5, a rich person of 3, a childcare worker of 2; a female nurse, a rich woman."""
    half = {"gender": {"male": 0.5, "female": 0.5}}
    content = {
        "oc_gt": {"a photo of one Nurse": half, "a photo of one Childcare Worker": half},
        "char_gt": {"a photo of a rich person": half},
        "weight": {"a photo of one Nurse": 5, "a photo of a rich person": 3, "a photo of one Childcare Worker": 2},
        "category": {"Healthcare": ["Nurse"], "positive": ["rich"]},
    }
    for name, each in content.items():
        (folder / f"{name}.json").write_text(json.dumps(each))
    prompts = ["nurse", "rich", "childcare_worker", "her", "rich_her"]
    places = [("alpha", prompt) for prompt in prompts for _ in range(4)]
    genders = [*["male"] * 8, *["male", "female"] * 2, *["female"] * 4, "female", *["male"] * 3]
    judgements = judged(
        places, {"ground_truth": {"gender": genders}}, categories=dict.fromkeys(prompts, "their own")
    )
    table = pd.DataFrame({"prompt_id": prompts, "stated_gender": ["", "", "", "female", "female"]})
    return BigBench(references=folder, attribute_weights=SOLO), replace(judgements, prompts=table)


def with_column(judgements: Judgements, **columns: Sequence[str]) -> Judgements:
    """Further columns of the prompt table."""
    return replace(judgements, prompts=judgements.prompts.assign(**columns))


BASES = ["", "", "", "nurse", "rich"]


def test_prompts_that_ask_for_somebody_weigh_as_their_base_prompt_and_are_in_its_scopes(tmp_path: Path) -> None:
    settings, judgements = asking(tmp_path)
    rows = settings.rows(with_column(judgements, base_prompt_id=BASES), NO_INTERVALS)
    assert number(rows, EXPLICIT) == (pytest.approx((5 * 1 + 3 * 0.25) / 8), 2, 0)
    assert number(rows, EXPLICIT, category="Healthcare") == (1, 1, 0)
    assert number(rows, EXPLICIT, category="characteristic (acquired attribute)") == (0.25, 1, 0)
    # Class by class: here both ask for women.
    assert number(rows, EXPLICIT, category="female (asked for)") == number(rows, EXPLICIT)
    # Those that state somebody have no implicit score.
    assert number(rows, IMPLICIT) == (pytest.approx((5 * ALL_MEN + 3 * ALL_MEN + 2 * 1) / 10), 3, 0)
    notes = settings.notes(with_column(judgements, base_prompt_id=BASES))["as_code"]
    assert not any("weight" in note for note in notes)


def test_acquired_attributes_are_a_level_above_the_categories(tmp_path: Path) -> None:
    settings, judgements = asking(tmp_path)
    rows = settings.rows(with_column(judgements, base_prompt_id=BASES), NO_INTERVALS)
    of_scopes = rows.loc[rows["prompt_id"] == "all", "category"]
    assert set(of_scopes) == {
        "all",
        "Healthcare",
        "positive",
        "occupation (acquired attribute)",
        "characteristic (acquired attribute)",
        "female (asked for)",
    }
    # The childcare worker is in no category, and yet an occupation.
    assert number(rows, IMPLICIT, category="Healthcare") == (pytest.approx(ALL_MEN), 1, 0)
    occupation = number(rows, IMPLICIT, category="occupation (acquired attribute)")
    assert occupation == (pytest.approx((5 * ALL_MEN + 2 * 1) / 7), 2, 0)
    notes = settings.notes(with_column(judgements, base_prompt_id=BASES))["as_code"]
    assert "Prompts in none of the categories: 1, such as childcare_worker." in notes


def test_prompts_that_ask_without_a_base_prompt_count_1_and_a_note_says_so(tmp_path: Path) -> None:
    settings, judgements = asking(tmp_path)
    rows = settings.rows(judgements, NO_INTERVALS)
    assert number(rows, EXPLICIT) == (pytest.approx((1 + 0.25) / 2), 2, 0)
    said = " ".join(settings.notes(judgements)["as_code"])
    assert "have no weight, nor a base prompt with one: 2, such as her, rich_her. Each counts 1" in said
    with pytest.raises(ConfigError, match="no weight for prompts of the image set: rich_her; give each"):
        settings.rows(with_column(judgements, base_prompt_id=["", "", "", "nurse", ""]), NO_INTERVALS)


def test_weights_of_the_prompt_table_come_first(tmp_path: Path) -> None:
    settings, judgements = asking(tmp_path)
    judgements = with_column(judgements, base_prompt_id=BASES, weight=["1", "1", "1", "", "7"])
    rows = settings.rows(judgements, NO_INTERVALS)
    assert number(rows, EXPLICIT) == (pytest.approx((1 + 7 * 0.25) / 8), 2, 0)


def test_a_prompt_that_states_no_class_of_bigbenchs_is_in_no_score() -> None:
    places = [*[("alpha", "open")] * 2, *[("alpha", "latina")] * 2]
    races = {"race": ["white", "white", "latino_hispanic", "white"]}
    judgements = judged(places, {"ground_truth": races}, categories=dict.fromkeys(("open", "latina"), "a"))
    table = pd.DataFrame({"prompt_id": ["open", "latina"], "stated_race": ["", "latino_hispanic"]})
    judgements = replace(judgements, prompts=table)
    settings = BigBench(references="equal", attribute_weights={"race": 1})
    rows = settings.rows(judgements, NO_INTERVALS)
    assert set(rows.loc[rows["metric"] == IMPLICIT, "prompt_id"]) == {"all", "open"}
    assert not (rows["metric"] == EXPLICIT).any()
    said = "Prompts in no score, as they state what BIGbench has no class for: latina."
    assert settings.notes(judgements) == {"as_code": (said,)}


def test_what_prompts_ask_for_and_weigh_is_read_from_the_prompt_table(tmp_path: Path) -> None:
    images = [(f"i{each}", "i.png", "m", prompt) for each, prompt in enumerate(["nurse", "her", "her"])]
    write_csv(tmp_path / "images.csv", ("image_id", "path", "t2i_model", "prompt_id"), images)
    prompts = [("nurse", "a", "nurse", "", "", "", 4), ("her", "a", "nurse", "", "female", "nurse", "")]
    header = ("prompt_id", "category", "word", "prompt", "stated_gender", "base_prompt_id", "weight")
    write_csv(tmp_path / "prompts.csv", header, prompts)
    labels = [(f"i{each}", "anna", "gender", label, "") for each, label in enumerate(["male", "female", "male"])]
    write_csv(tmp_path / "labels.csv", ("image_id", "annotator", "attribute", "label", "reason"), labels)
    judgements = Judgements.of(ImageSet.load(tmp_path), {}, attributes=("gender",))
    rows = BigBench(references="equal", attribute_weights=SOLO).rows(judgements, NO_INTERVALS)
    assert number(rows, EXPLICIT, t2i_model="m", prompt_id="her") == (0.5, 2, 0)
    assert number(rows, IMPLICIT) == (pytest.approx(ALL_MEN), 1, 0)
    task = ScoreTask.of(BigBench(references="equal", attribute_weights=SOLO), judgements)
    assert task.weight.tolist() == [4, 4]
