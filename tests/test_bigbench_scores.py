"""BIGbench's scores of an image set: metric rows by human labels and detectors, and their table."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from bigbench_parts import judged, number
from pydantic import ValidationError
from small_parts import write_csv

from detector_bench.errors import ConfigError
from detector_bench.evaluation.intervals import Intervals
from detector_bench.others.bigbench.score_system import BigBench
from detector_bench.others.bigbench.tables import bigbench_scores, bigbench_tables
from detector_bench.others.study_scores import TableSources
from detector_bench.vocabulary import ATTRIBUTES
from detector_bench.vocabulary.columns import METRIC_COLUMNS

NO_INTERVALS = Intervals(method="none")
IMPLICIT, EXPLICIT = "bigbench_implicit_bias_score", "bigbench_explicit_bias_score"
FACTOR = "bigbench_manifestation_factor"


def cosine_score(*shares: float, reference: Sequence[float]) -> float:
    product = sum(p * g for p, g in zip(shares, reference, strict=True))
    return (product / math.hypot(*shares) / math.hypot(*reference) + 1) / 2


THREE_TO_ONE = cosine_score(3, 1, reference=(1, 1))
ALL_MEN = (math.sqrt(0.5) + 1) / 2
PLACES = [
    *[("alpha", "nurse")] * 6,
    *[("alpha", "surgeon")] * 4,
    *[("alpha", "judge")] * 2,
    ("", ""),  # a seed photo is no output of a T2I model
]
CATEGORIES = {"nurse": "care", "surgeon": "care", "judge": "law", "unseen": "law"}
TRUTH = {"gender": ["male", "male", "male", "female", "?", "others", *["male"] * 4, "?", "-", "male"]}
DETECTOR = {
    "gender": ["male", "male", "female", "female", "?", "-", *["male"] * 3, "female", *["male"] * 2, "male"]
}
SOLO = {"gender": 1.0}


def write_tables(folder: Path, **tables: Sequence[Sequence[object]]) -> dict[str, Path]:
    headers = {
        "references": ("prompt_id", "attribute", "class", "share"),
        "weights": ("prompt_id", "weight", "category"),
        "pairs": ("advantageous", "disadvantageous", "weight"),
        "requested": ("prompt_id", "attribute", "class"),
        "prompt_names": ("prompt_id", "bigbench_prompt"),
    }
    for name, rows in tables.items():
        write_csv(folder / f"{name}.csv", headers[name], rows)
    return {name: folder / f"{name}.csv" for name in tables}


def test_implicit_scores_leave_unknown_answers_out_and_count_them() -> None:
    judgements = judged(PLACES, {"ground_truth": TRUTH, "d": DETECTOR}, categories=CATEGORIES)
    rows = BigBench(references="equal", attribute_weights=SOLO).rows(judgements, NO_INTERVALS)
    assert list(rows.columns) == list(METRIC_COLUMNS)
    assert set(rows["variant"]) == {"as_code"}
    assert number(rows, IMPLICIT, t2i_model="alpha", prompt_id="nurse") == (pytest.approx(THREE_TO_ONE), 4, 2)
    assert number(rows, IMPLICIT, t2i_model="alpha", prompt_id="surgeon") == (pytest.approx(ALL_MEN), 4, 0)
    value, *counted = number(rows, IMPLICIT, t2i_model="alpha", prompt_id="judge")
    assert math.isnan(value)
    assert counted == [0, 2]
    mean = (THREE_TO_ONE + ALL_MEN) / 2
    assert number(rows, IMPLICIT) == (pytest.approx(mean), 2, 1)  # of three prompts with images
    assert number(rows, IMPLICIT, attribute="all", category="care") == (pytest.approx(mean), 2, 0)
    assert number(rows, IMPLICIT, "d", t2i_model="alpha", prompt_id="nurse") == (1, 4, 2)
    detected = (1 + THREE_TO_ONE + ALL_MEN) / 3
    assert number(rows, IMPLICIT, "d") == (pytest.approx(detected), 3, 0)
    assert number(rows, f"{IMPLICIT}_deviation", "d")[0] == pytest.approx((detected - mean) / mean)
    assert number(rows, "bigbench_known_share") == (pytest.approx(8 / 11), 11, 1)
    assert "unseen" not in set(rows["prompt_id"])
    assert not (rows["metric"] == FACTOR).any()


def test_weights_categories_and_references_come_from_tables(tmp_path: Path) -> None:
    files = write_tables(
        tmp_path,
        references=[
            *[(prompt, "gender", label, 0.5) for prompt in ("nurse", "elsewhere") for label in ("male", "female")],
            ("surgeon", "gender", "male", 1),
            ("surgeon", "gender", "female", 0),
        ],
        weights=[("nurse", 3, "ward"), ("surgeon", 1, "")],
    )
    judgements = judged(PLACES, {"ground_truth": TRUTH}, categories=CATEGORIES)
    rows = BigBench(**files, attribute_weights=SOLO).rows(judgements, NO_INTERVALS)
    assert number(rows, IMPLICIT) == (pytest.approx((3 * THREE_TO_ONE + 1) / 4), 2, 1)  # `judge` has no reference
    assert number(rows, IMPLICIT, category="ward") == (pytest.approx(THREE_TO_ONE), 1, 0)
    # The surgeon is in none of the files' categories: a row of one prompt beside them would be no category.
    assert "care" not in set(rows.loc[rows["prompt_id"] == "all", "category"])
    assert number(rows, IMPLICIT, t2i_model="alpha", prompt_id="surgeon", category="care")[0] == 1
    only_references = BigBench(references=files["references"], attribute_weights=SOLO)
    assert number(only_references.rows(judgements, NO_INTERVALS), IMPLICIT)[0] == pytest.approx(
        (THREE_TO_ONE + 1) / 2
    )


RACES = ["white", "white", "latino_hispanic", "southeast_asian"]


@pytest.mark.parametrize(
    ("changed", "expected", "n", "outside"),
    [({}, cosine_score(2, 0, 1, 0, reference=[1] * 4), 3, 1), ({"southeast_asian": None}, 0.75, 2, 2)],
)
def test_races_outside_bigbenchs_four_leave_the_denominator(
    changed: dict[str, str | None], expected: float, n: int, outside: int
) -> None:
    usual: dict[str, str | None] = dict.fromkeys(ATTRIBUTES["race"].classes) | {
        "white": "White",
        "black": "Black",
        "east_asian": "East Asian",
        "southeast_asian": "East Asian",
        "south_asian": "South Asian",
    }
    judgements = judged([("alpha", "nurse")] * 4, {"ground_truth": {"race": RACES}}, categories={"nurse": "care"})
    settings = BigBench(
        references="equal", attribute_weights={"race": 1}, race_mapping=(usual | changed) if changed else None
    )
    rows = settings.rows(judgements, NO_INTERVALS)
    assert number(rows, IMPLICIT, attribute="race", t2i_model="alpha", prompt_id="nurse") == (
        pytest.approx(expected),
        n,
        outside,
    )
    assert number(rows, "bigbench_outside_share", attribute="race") == (outside / 4, 4, 0)


def test_over_attributes_and_a_detector_that_judges_only_gender() -> None:
    people = {
        "gender": ["male", "male", "female", "female"],
        "race": ["white"] * 4,
        "age": ["young", "young", "middle_aged", "elderly"],
    }
    judgements = judged(
        [("alpha", "nurse")] * 4,
        {"ground_truth": people, "d": {"gender": ["male"] * 4}},
        categories={"nurse": "care"},
    )
    rows = BigBench(references="equal").rows(judgements, NO_INTERVALS)
    age = cosine_score(2, 1, 1, reference=[1] * 3)
    assert number(rows, IMPLICIT, attribute="all")[0] == pytest.approx(0.4 * 1 + 0.4 * 0.75 + 0.2 * age)
    assert number(rows, IMPLICIT, "d") == (pytest.approx(ALL_MEN), 1, 0)
    value, n, left_out = number(rows, IMPLICIT, "d", attribute="all")
    assert (math.isnan(value), n, left_out) == (True, 0, 1)
    assert set(rows.loc[rows["detector"] == "d", "attribute"]) == {"gender", "all"}


def test_explicit_scores_by_hand(tmp_path: Path) -> None:
    asked = [("her", "gender", "female"), ("her", "race", "east_asian"), ("him", "gender", "male")]
    files = write_tables(tmp_path, requested=asked, weights=[("her", 3, ""), ("him", 1, ""), ("nurse", 9, "")])
    people = {
        "gender": ["female", "female", "male", "female", "female", "male", "male", "?", "male"],
        "race": ["east_asian", "white", "southeast_asian", "?", "latino_hispanic", *["white"] * 4],
    }
    places = [*[("alpha", "her")] * 5, *[("alpha", "him")] * 3, ("alpha", "nurse")]
    judgements = judged(places, {"ground_truth": people}, categories={"her": "a", "him": "a", "nurse": "b"})
    settings = BigBench(references="equal", attribute_weights={"gender": 0.4, "race": 0.4}, **files)
    rows = settings.rows(judgements, NO_INTERVALS)
    at = {"t2i_model": "alpha", "prompt_id": "her"}
    assert number(rows, EXPLICIT, attribute="gender", **at) == (4 / 5, 5, 0)
    assert number(rows, EXPLICIT, attribute="race", **at) == (pytest.approx(2 / 3), 3, 2)
    assert number(rows, EXPLICIT, attribute="all", **at) == (pytest.approx(1 / 3), 3, 2)
    assert number(rows, EXPLICIT, attribute="all") == (pytest.approx((3 * (1 / 3) + 1 * 1) / 4), 2, 0)
    assert number(rows, EXPLICIT, attribute="gender") == (pytest.approx((3 * 0.8 + 1) / 4), 2, 0)
    assert number(rows, EXPLICIT, attribute="race") == (pytest.approx(2 / 3), 1, 0)
    # Prompts that ask for somebody have no implicit score, others no explicit one.
    of_prompts = rows[rows["prompt_id"] != "all"]
    assert set(of_prompts.loc[of_prompts["metric"] == IMPLICIT, "prompt_id"]) == {"nurse"}
    assert set(of_prompts.loc[of_prompts["metric"] == EXPLICIT, "prompt_id"]) == {"her", "him"}
    assert "b" not in set(rows.loc[rows["metric"] == EXPLICIT, "category"])


def two_people(folder: Path) -> Path:
    """References and weights of a nurse (1), and of a general beside a soldier (4), whose reference is a woman."""
    sentence = "One General at left with one Soldier at right"
    half, woman = {"male": 0.5, "female": 0.5}, {"male": 0, "female": 1}
    content: dict[str, Any] = {
        "oc_gt": {"a photo of one Nurse": {"gender": half}},
        "sr_gt": {sentence: {"left": {"gender": half}, "right": {"gender": woman}}},
        "weight": {"a photo of one Nurse": 1, sentence: 4},
        "category": {"ranks": ["General"]},
        "eta": {"pair1": [["General at left", "Soldier at right"], 2], "pair2": [["Surgeon", "Nurse"], 1]},
    }
    for name, each in content.items():
        (folder / f"{name}.json").write_text(json.dumps(each))
    return folder


TWO_PLACES = [
    *[("alpha", "nurse")] * 2,
    *[("alpha", "general_at_left")] * 4,
    *[("alpha", "soldier_at_right")] * 4,
]
TWO_PROMPTS = dict.fromkeys(["nurse", "general_at_left", "soldier_at_right"], "people")
GENDERS = ["male", "female", *["male"] * 4, *["female"] * 4]


def test_two_people_of_a_picture_weigh_as_one_prompt(tmp_path: Path) -> None:
    folder = two_people(tmp_path)
    judgements = judged(TWO_PLACES, {"ground_truth": {"gender": GENDERS}}, categories=TWO_PROMPTS)
    rows = BigBench(references=folder, attribute_weights=SOLO).rows(judgements, NO_INTERVALS)
    of_two = (ALL_MEN + 1) / 2
    assert number(rows, IMPLICIT, category="ranks") == (pytest.approx(of_two), 2, 0)
    assert number(rows, IMPLICIT) == (pytest.approx((1 * 1 + 4 * of_two) / 5), 3, 0)
    # Without weights each picture counts once.
    (folder / "weight.json").unlink()
    rows = BigBench(references=folder, attribute_weights=SOLO).rows(judgements, NO_INTERVALS)
    assert number(rows, IMPLICIT)[0] == pytest.approx((1 + of_two) / 2)


def test_manifestation_factor_of_both_presets(tmp_path: Path) -> None:
    # General: all men where half are expected; soldier: half men where none are expected: both above.
    genders = [*GENDERS[:6], "male", "male", "female", "female"]
    folder = two_people(tmp_path)
    judgements = judged(
        TWO_PLACES, {"ground_truth": {"gender": genders}, "d": {"gender": GENDERS}}, categories=TWO_PROMPTS
    )
    # 0.2 ((1 - 0.25) + (0.5 - 0)) for men and 0.2 ((0 - 0.25) + (0.5 - 1)) for women, in two of three parts, as
    # the absent pair counts as 0.5; 0.2 (0.25 + 0.25) for each, likewise; 0.2 (0.5 + 0.5) for each.
    for preset, expected in (
        ("as_code", 0.5 + (0.25 - 0.15) * 2 / 3),
        ("as_code_squared", 0.5 + (0.1 + 0.1) * 2 / 3),
        ("as_paper", 0.5 - 0.2 - 0.2),
    ):
        rows = BigBench(preset=preset, references=folder, attribute_weights=SOLO).rows(judgements, NO_INTERVALS)
        assert set(rows["variant"]) == {preset}
        assert number(rows, FACTOR) == (pytest.approx(expected), 1, 1)  # there is no surgeon
        assert number(rows, FACTOR, attribute="all", t2i_model="alpha") == (pytest.approx(expected), 1, 1)
        # The detector's soldiers are as expected, so nothing moves.
        assert number(rows, FACTOR, "d") == (0.5, 1, 1)
        assert number(rows, f"{FACTOR}_deviation", "d")[0] == pytest.approx((0.5 - expected) / expected)
        factors = rows[rows["metric"].str.startswith(FACTOR)]
        assert set(factors["category"]) == {"all"}
        assert set(factors["prompt_id"]) == {"all"}


def test_the_factor_over_all_attributes_gives_each_a_third_by_the_program(tmp_path: Path) -> None:
    half, even = {"male": 0.5, "female": 0.5}, dict.fromkeys(("0-30", "30-60", "60+"), 1 / 3)
    people = ("a photo of one Nurse", "a photo of one Surgeon")
    (tmp_path / "oc_gt.json").write_text(json.dumps({each: {"gender": half, "age": even} for each in people}))
    (tmp_path / "eta.json").write_text(json.dumps({"pair1": [["Surgeon", "Nurse"], 2]}))
    places = [*[("alpha", "nurse")] * 2, *[("alpha", "surgeon")] * 2]
    said = {"gender": ["male"] * 4, "age": ["young", "middle_aged"] * 2}
    judgements = judged(places, {"ground_truth": said}, categories=dict.fromkeys(("nurse", "surgeon"), "a"))
    # Gender: 0.2 (0.75 + 0.75 - 0.25 - 0.25). Age: 0.1 (2 (1/2 - 1/9) + 2 (1/2 - 1/9) - 2 / 9).
    gender, age = 0.2, 0.1 * (4 * (1 / 2 - 1 / 9) - 2 / 9)
    for preset, weights in (("as_code", (1 / 2, 1 / 2)), ("as_paper", (2 / 3, 1 / 3))):
        settings = BigBench(preset=preset, references=tmp_path, attribute_weights={"gender": 0.4, "age": 0.2})
        rows = settings.rows(judgements, NO_INTERVALS)
        of_all = number(rows, FACTOR, attribute="all")[0]
        alone = [number(rows, FACTOR, attribute=name)[0] for name in ("gender", "age")]
        assert of_all == pytest.approx(sum(w * f for w, f in zip(weights, alone, strict=True)))
        if preset == "as_code":
            assert alone == pytest.approx([0.5 + gender, 0.5 + age])


def test_prompts_under_other_ids(tmp_path: Path) -> None:
    folder = two_people(tmp_path)
    names = [("p1", "Nurse"), ("p2", "General at left"), ("p3", "Soldier at right")]
    files = write_tables(tmp_path, prompt_names=names)
    own = dict(zip(TWO_PROMPTS, ("p1", "p2", "p3"), strict=True))
    said = {"ground_truth": {"gender": GENDERS}}
    renamed = judged(
        [(model, own[prompt]) for model, prompt in TWO_PLACES],
        said,
        categories=dict.fromkeys(own.values(), "people"),
    )
    rows = BigBench(references=folder, attribute_weights=SOLO, **files).rows(renamed, NO_INTERVALS)
    plain = judged(TWO_PLACES, said, categories=TWO_PROMPTS)
    same = BigBench(references=folder, attribute_weights=SOLO).rows(plain, NO_INTERVALS)
    assert rows["value"].to_numpy() == pytest.approx(same["value"].to_numpy(), nan_ok=True)
    assert rows["n_left_out"].tolist() == same["n_left_out"].tolist()
    write_tables(tmp_path, prompt_names=[("p1", "Nurse"), ("p2", "Nurse")])
    with pytest.raises(ConfigError, match="'p1' and 'p2' are both 'nurse' of the references"):
        BigBench(references=folder, attribute_weights=SOLO, **files).rows(renamed, NO_INTERVALS)


def test_intervals_surround_values_and_are_repeatable(tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    places = [("alpha", prompt) for prompt in ("nurse", "surgeon") for _ in range(40)]
    genders = np.where(random.random(80) < 0.7, "male", "female").tolist()
    asked = write_tables(tmp_path, requested=[("surgeon", "gender", "male")])
    judgements = judged(
        places,
        {"ground_truth": {"gender": genders}, "same": {"gender": genders}},
        categories=dict.fromkeys(("nurse", "surgeon"), "care"),
    )
    settings = BigBench(references="equal", attribute_weights=SOLO, **asked)
    intervals = Intervals(resamples=400, prompts=True)
    rows = settings.rows(judgements, intervals)
    scored = rows[rows["metric"].isin([IMPLICIT, EXPLICIT])]
    assert (scored["ci_low"] < scored["value"]).all()
    assert (scored["value"] < scored["ci_high"]).all()
    # The same resamples for every judge: equal answers deviate by nothing in each of them, so nothing scatters.
    deviations = rows[rows["metric"].str.endswith("_deviation")]
    assert len(deviations) == 20  # two metrics of gender and all: at four scopes, and explicit at that of men
    assert (deviations["value"] == 0).all()
    assert deviations[["ci_low", "ci_high"]].isna().all(axis=None)
    pd.testing.assert_frame_equal(rows, settings.rows(judgements, intervals))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({}, "references"),
        ({"references": "equal", "preset": "as_published"}, "as_code"),
        ({"references": "equal", "attribute_weights": {"skin_tone": 1}}, "BIGbench has no attribute 'skin_tone'"),
        ({"references": "equal", "attribute_weights": {"age": 0}}, "the weight of age is 0"),
        ({"references": "equal", "attribute_weights": {}}, "at least 1 item"),
        (
            {"references": "equal", "race_mapping": {"white": "White"}},
            "'race' has classes without an entry: 'black'",
        ),
        (
            {"references": "equal", "race_mapping": dict.fromkeys(ATTRIBUTES["race"].classes, "Asian")},
            "'Asian' of 'white' is no class of 'bigbench_race4'",
        ),
        ({"references": "equal", "prompt_names": "names.csv"}, "go with reference files"),
        ({"references": "equal", "treshold": 1}, "Extra inputs"),
    ],
)
def test_wrong_settings_are_refused(content: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError) as caught:
        BigBench.model_validate(content)
    assert message in str(caught.value)


HALVES = [(prompt, "gender", label, 0.5) for prompt in ("nurse", "surgeon") for label in ("male", "female")]


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        (
            {"references": [("poet", *row[1:]) for row in HALVES[:2]]},
            "no reference for any prompt of the image set, such as nurse, surgeon, judge, unseen; the references "
            "have poet",
        ),
        ({"references": HALVES, "weights": [("nurse", 1, "")]}, "no weight for prompts of the image set: surgeon"),
        (
            {"references": HALVES, "requested": [("nurze", "gender", "male")]},
            "the image set has no prompt 'nurze': did you mean 'nurse' or 'surgeon'?",
        ),
        (
            {"references": HALVES, "requested": [("nurse", "age", "young")]},
            "'nurse' asks for age, which attribute_weights leaves out",
        ),
        (
            {"references": HALVES, "prompt_names": [("p1", "nurse")]},
            "the image set has no prompt 'p1'",
        ),
    ],
)
def test_settings_that_do_not_fit_the_image_set_are_refused(
    tmp_path: Path, tables: dict[str, Any], message: str
) -> None:
    judgements = judged(PLACES, {"ground_truth": TRUTH}, categories=CATEGORIES)
    settings = BigBench(**write_tables(tmp_path, **tables), attribute_weights=SOLO)
    with pytest.raises(ConfigError) as caught:
        settings.rows(judgements, NO_INTERVALS)
    assert message in str(caught.value)


def test_files_move_with_the_settings() -> None:
    settings = BigBench.model_validate({"references": "gt", "requested": "asked.csv"})
    assert settings.references == Path("gt")
    moved = settings.with_files(lambda path: Path("elsewhere") / path)
    assert moved.model_dump()["references"] == Path("elsewhere/gt")
    assert moved.model_dump()["requested"] == Path("elsewhere/asked.csv")
    equal = BigBench(references="equal")
    assert equal.with_files(lambda path: Path("elsewhere") / path) == equal


def test_table_in_per_cent(tmp_path: Path) -> None:
    races = ["white", "white", "latino_hispanic", "south_asian", *["white"] * 6]
    truth = {"gender": GENDERS, "race": races}
    close = {"gender": [*GENDERS[:5], "female", *GENDERS[6:]], "race": ["white"] * 10}
    judgements = judged(
        TWO_PLACES,
        {"ground_truth": truth, "close": close, "far": {"gender": ["male"] * 9 + ["-"]}},
        categories=TWO_PROMPTS,
    )
    pairs = write_tables(tmp_path, pairs=[("general_at_left", "soldier_at_right", 1), ("surgeon", "nurse", 1)])
    settings = BigBench(preset="as_paper", references="equal", attribute_weights={"gender": 1, "race": 1}, **pairs)
    rows = settings.rows(judgements, Intervals(resamples=400))
    table = bigbench_tables(TableSources(metrics=rows, notes={"as_paper": ("From a test.",)}))[
        "bigbench_scores_as_paper"
    ]
    assert [column.key for column in table.columns] == [
        "t2i_model",
        "detector",
        f"{IMPLICIT}_gender",
        f"{IMPLICIT}_race",
        f"{IMPLICIT}_all",
        FACTOR,
    ]
    assert [row.name for row in table.rows] == ["Ground truth (alpha)", "close (alpha)", "far (alpha)"]
    truth_row, close_row, far_row = ([cell.text for cell in row.cells] for row in table.rows)
    gender, race = (1 + 2 * ALL_MEN) / 3, (0.75 + cosine_score(2, 0, 0, 1, reference=[1] * 4) + 0.75) / 3
    assert truth_row[:4] == ["alpha", "Ground truth", f"{100 * gender:.2f}", f"{100 * race:.2f}"]
    assert truth_row[4] == f"{100 * (gender + race) / 2:.2f}"
    # Gender: opposite ways, 0.2 (0.5 + 0.5) for both classes. Race, general 2/3 white, 1/3 South Asian, soldier
    # all white: the same way but for South Asian (1/12 above, 1/4 below):
    # -0.2 (5/12 + 3/4 + 4 * 1/4) + 0.2 (1/12 + 1/4).
    factor = ((0.5 + 0.4) + (0.5 - 0.2 * (26 / 12) + 0.2 * (4 / 12))) / 2
    assert truth_row[5] == f"{100 * factor:.2f}"
    assert close_row[2] == f"{100 * (1 + THREE_TO_ONE + ALL_MEN) / 3:.2f}"
    assert far_row[3:] == ["-", "-", "-"]
    assert [row.cells[2].bold for row in table.rows] == [False, True, False]
    assert "as BIGbench's text has it: LOW" in table.caption
    assert "From a test." in table.all_notes
    notes = "\n".join(table.all_notes)
    assert "Ground truth (alpha): 10.0 % of the images left out, race outside BIGbench's classes" in notes
    assert "manifestation factor: pairs left out" in notes
    assert "far (alpha): images without a verdict on gender: 1 of 10" in notes
    with_intervals = bigbench_scores(rows, variant="as_paper", intervals=True)
    assert with_intervals.rows[0].cells[2].interval_text.startswith("[")
    with pytest.raises(ConfigError, match="no BIGbench scores of the variant 'as_code'"):
        bigbench_scores(rows, variant="as_code")
