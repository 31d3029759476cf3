"""What is generated for a list of prompts, and two people who are one picture."""

from __future__ import annotations

from pathlib import Path

import pytest

from detector_bench.generation.scenes import prompt_table_of_scenes, scenes_of, scenes_table
from detector_bench.prompt_lists import Prompt, PromptList, read_prompts

TWO = "One {}Doctor at left with one {}Patient at right"


def written(folder: Path) -> PromptList:
    """A cook; a doctor with a patient, both with two scenes; the same with a gender each."""
    lines = [
        '--prompt "a photo of one Cook, at work"',
        *(f'--prompt "{TWO.format("", "")}, {place}"' for place in ("at work", "at home")),
        f'--prompt "{TWO.format("male ", "female ")}, at work"',
        f'--prompt "{TWO.format("male ", "male ")}, at work"',
    ]
    (folder / "prompts.txt").write_text("\n".join(lines), encoding="utf-8")
    return read_prompts(folder / "prompts.txt")


def test_two_people_are_one_scene_with_all_wordings(tmp_path: Path) -> None:
    scenes = {scene.prompt_id: scene for scene in scenes_of(written(tmp_path))}
    assert list(scenes) == [
        "cook",
        "doctor_with_patient",
        "male_doctor_with_male_patient",
        "male_doctor_with_female_patient",
    ]
    assert scenes["cook"].subjects == ()
    both = scenes["doctor_with_patient"]
    assert [(each.side, each.prompt_id) for each in both.subjects] == [
        ("left", "doctor_at_left"),
        ("right", "patient_at_right"),
    ]
    assert both.wordings == tuple(f"{TWO.format('', '')}, {place}" for place in ("at work", "at home"))
    assert [each.prompt_id for each in scenes["male_doctor_with_female_patient"].subjects] == [
        "male_doctor_at_left_2",
        "female_patient_at_right",
    ]


def test_the_tables_of_a_set_with_scenes(tmp_path: Path) -> None:
    prompts = written(tmp_path)
    weights = {"cook": 1.0, "doctor_at_left": 2.0, "patient_at_right": 2.0}
    weighed = PromptList.of(
        "list",
        [
            Prompt(
                each.category, each.word, each.text, stated=each.stated, base=each.base, weight=weights.get(key)
            )
            for key, each in prompts.prompts.items()
        ],
    )
    table = prompt_table_of_scenes(weighed).set_index("prompt_id")
    mixed, same = table.loc["male_doctor_with_female_patient"], table.loc["male_doctor_with_male_patient"]
    assert (mixed["stated_gender"], mixed["stated_age"], same["stated_gender"]) == ("partly", "", "male")
    assert (mixed["base_prompt_id"], mixed["weight"]) == ("doctor_with_patient", "")
    assert table.loc["doctor_with_patient", "weight"] == "4"
    people = scenes_table(weighed).set_index(["scene_prompt_id", "side"])
    left, right = people.loc["male_doctor_with_female_patient"].to_dict("records")
    assert (left["prompt_id"], left["stated_gender"], left["base_prompt_id"]) == (
        "male_doctor_at_left_2",
        "male",
        "doctor_at_left",
    )
    assert (right["stated_gender"], right["base_prompt_id"]) == ("female", "patient_at_right")
    assert scenes_table(PromptList.of("list", [Prompt("job", "cook", "a cook")])).empty


@pytest.mark.parametrize(
    "words", [("Doctor at left",), ("Doctor at left", "Nurse at left"), ("A at left", "B at right", "C at right")]
)
def test_rows_that_are_no_pair_stay_as_they_are(words: tuple[str, ...]) -> None:
    made = PromptList.of("list", [Prompt("job", word, "one sentence") for word in words])
    assert [scene.subjects for scene in scenes_of(made)] == [()] * len(words)


def test_the_id_of_a_scene_is_no_other_prompts() -> None:
    sides = [Prompt("job", f"{name} at {side}", "x") for name, side in (("A", "left"), ("B", "right"))]
    made = PromptList.of("list", [*sides, Prompt("job", "A with B", "y")])
    assert [scene.prompt_id for scene in scenes_of(made)] == ["a_with_b_2", "a_with_b"]
