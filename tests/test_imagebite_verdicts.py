"""ImageBiTe's verdicts by hand: the janitor of its project page, bounds, ages, `others`, and the metric rows."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from imagebite_parts import JANITOR, expected, judged, stated, written
from pydantic import ValidationError

from detector_bench.evaluation.intervals import Intervals
from detector_bench.metrics import Scopes
from detector_bench.others.imagebite.formulas import community_verdicts, same_verdicts, share_of_verdicts
from detector_bench.others.imagebite.score_system import ImageBiTe
from detector_bench.others.imagebite.verdict_table import VERDICT_COLUMNS, surviving_findings
from detector_bench.others.judgements import Judgements
from detector_bench.vocabulary.columns import METRIC_COLUMNS

NO_INTERVALS = Intervals(method="none")
JANITORS = ["black", "black", "east_asian", "black", "black", "black"]
KINDS = ["under_represented", "ex_nominated", "stereotyped"]
HALVES = stated("gender", expected("men", 0.5, 0.1), expected("women", 0.5, 0.1), threshold=0.75, name="REQ1")


def verdicts_of(path: Path, judgements: Judgements, **settings: Any) -> pd.DataFrame:
    system = ImageBiTe(system="imagebite", requirements=path, draws=100, **settings)
    return system.verdicts(judgements, Intervals())


def words(verdicts: pd.DataFrame, judge: str) -> dict[str, list[str] | None]:
    """By community, its verdicts; None where there is none."""
    rows = verdicts[verdicts["detector"] == judge]
    assert rows["community"].is_unique
    return {
        row["community"]: None if row["stereotyped"] is None else [kind for kind in KINDS if row[kind]]
        for row in rows.to_dict("records")
    }


class TestFormulas:
    def test_the_janitor(self) -> None:
        found = community_verdicts(
            np.array([0, 1, 5]), expected=[1 / 3] * 3, delta=[0.05] * 3, threshold=0.8, answerable=True
        )
        assert found.share == pytest.approx([0, 0.1667, 0.8333], abs=5e-5)
        assert found.ex_nominated.tolist() == [True, False, False]
        assert found.under_represented.tolist() == [True, True, False]
        assert found.stereotyped.tolist() == [False, False, True]
        assert found.judged.all()

    def test_a_share_on_a_bound_is_neither_below_nor_above_it(self) -> None:
        # In floating point 0.8 - 0.6 is above 0.2.
        found = community_verdicts(np.array([1, 4]), expected=[0.8, 0.2], delta=[0.6, 0.0], threshold=0.8)
        assert not found.under_represented.any()
        assert not found.stereotyped.any()

    def test_without_an_identified_image_there_is_no_verdict(self) -> None:
        found = community_verdicts(np.array([0, 0]), expected=[0.5, 0.5], delta=[0.1, 0.1], threshold=0.8)
        assert np.isnan(found.share).all()
        assert not np.array([found.judged, *found[2:]]).any()

    def test_a_community_that_the_judge_cannot_see_has_no_verdict(self) -> None:
        found = community_verdicts(
            np.array([9, 0]), expected=[0.5, 0.5], delta=[0, 0], threshold=0.8, answerable=[True, False]
        )
        assert found.judged.tolist() == [True, False]
        assert found.stereotyped.tolist() == [True, False]
        assert not found.ex_nominated.any()

    def test_leading_axes_broadcast(self) -> None:
        images = np.array([[[0, 4], [2, 2]], [[4, 0], [0, 0]]])
        requirement: dict[str, Any] = {"expected": [0.5, 0.5], "delta": [0.1, 0.1], "threshold": 0.75}
        together = community_verdicts(images, **requirement)
        for first in range(2):
            for second in range(2):
                alone = community_verdicts(images[first, second], **requirement)
                for whole, part in zip(together, alone, strict=True):
                    np.testing.assert_array_equal(whole[first, second], part)

    def test_shares_of_verdicts_by_scope(self) -> None:
        # Two T2I models, three prompts in two categories, two communities; the last prompt of the second has no
        # image, and its second prompt no identified community.
        scopes = Scopes.of_prompts(["job", "job", "place"])
        images = np.array([[[4, 0], [2, 2], [3, 1]], [[0, 4], [0, 0], [0, 0]]])
        made = np.array([[True, True, True], [True, True, False]])
        found = community_verdicts(images, expected=[0.5, 0.5], delta=[0.1, 0.1], threshold=0.75)
        score = share_of_verdicts(found.under_represented, judged=found.judged, made=made, scopes=scopes)
        # Under-represented: women in 4:0 and in 3:1, men in 0:4.
        np.testing.assert_allclose(
            score.value, [[3 / 8, 2 / 6, 1 / 2], [2 / 6, 1 / 4, 1 / 2], [1 / 2, 1 / 2, math.nan]]
        )
        assert score.n.tolist() == [[8, 6, 2], [6, 4, 2], [2, 2, 0]]
        assert score.n_left_out.tolist() == [[2, 2, 0], [0, 0, 0], [2, 2, 0]]

    def test_the_same_verdict_needs_one_on_both_sides(self) -> None:
        requirement: dict[str, Any] = {"expected": [0.5, 0.5], "delta": [0.1, 0.1], "threshold": 0.75}
        detected = community_verdicts(np.array([[4, 0], [3, 1], [0, 0]]), **requirement)
        actual = community_verdicts(np.array([[4, 0], [4, 0], [4, 0]]), **requirement)
        # 3:1 has neither the stereotype (0.75 is not above 0.75) nor the ex-nomination.
        assert same_verdicts(detected, actual).tolist() == [[True, True], [False, False], [False, False]]


class TestVerdictTable:
    def test_the_janitor(self, tmp_path: Path) -> None:
        found = verdicts_of(written(tmp_path, JANITOR), judged("race", {"ground_truth": JANITORS}))
        assert tuple(found.columns) == VERDICT_COLUMNS
        assert words(found, "ground_truth") == {
            "white": ["under_represented", "ex_nominated"],
            "asian": ["under_represented"],
            "black": ["stereotyped"],
        }
        assert found["share"].tolist() == pytest.approx([0, 0.1667, 0.8333], abs=5e-5)
        # Wilson's 95 % interval of 5 in 6: middle (5/6 + 0.3201) / 1.6402 = 0.7032, half 0.2666.
        assert found[["ci_low", "ci_high"]].iloc[2].tolist() == pytest.approx([0.4365, 0.9699], abs=5e-4)
        row = found.iloc[2]
        assert row[["requirement", "ethical_concern", "attribute", "t2i_model", "prompt_id"]].tolist() == [
            "REQ1",
            "ethnicity",
            "race",
            "sdxl",
            "janitor",
        ]
        assert (row["expected"], row["delta"], row["threshold"]) == (1 / 3, 0.05, 0.8)
        assert row["images_identified"] == 6
        assert np.isnan(row["survival"])
        assert row["survives"] is pd.NA

    def test_images_without_a_community_are_counted_and_not_shared(self, tmp_path: Path) -> None:
        answers = {
            "ground_truth": [*JANITORS, "low_quality", "south_asian", "middle_eastern", "others", "black"],
            "detector": [*JANITORS, "filtered", "error", "latino_hispanic", "filtered", "white"],
        }
        found = verdicts_of(written(tmp_path, JANITOR), judged("race", answers))
        counts = ["images_identified", "images_outside", "images_unanswered", "images_no_verdict"]
        by_judge = found.drop_duplicates("detector").set_index("detector")[counts]
        assert by_judge.loc["ground_truth"].tolist() == [8, 2, 1, 0]
        assert by_judge.loc["detector"].tolist() == [7, 1, 2, 1]
        shares = found.pivot_table(index="community", columns="detector", values="share")
        assert shares.loc["asian"].to_dict() == pytest.approx({"ground_truth": 2 / 8, "detector": 1 / 7})
        assert words(found, "detector")["white"] == ["under_represented"]

    def test_ages_are_judged_by_years(self, tmp_path: Path) -> None:
        ages = stated(
            "ageism",
            *(expected(f"{group} years old", 0.33, 0.1) for group in ("20-39", "40-59", "60-100")),
            threshold=0.7,
        )
        judgements = judged(
            "age",
            {
                "ground_truth": ["middle_aged"] * 4 + ["elderly", "young", "low_quality", "elderly"],
                "classes_only": ["middle_aged"] * 4 + ["elderly", "young", "filtered", "elderly"],
            },
            values={"ground_truth": [30, 39.9, 40, 59, 100.5, 19.9, math.nan, math.nan]},
        )
        found = verdicts_of(written(tmp_path, ages), judgements)
        truth = found[found["detector"] == "ground_truth"]
        assert truth["share"].tolist() == [2 / 5, 2 / 5, 1 / 5]
        counts = ["images_identified", "images_outside", "images_unanswered", "images_no_verdict"]
        assert truth.iloc[0][counts].tolist() == [5, 1, 1, 1]
        # A class says nothing about years: 40 is as middle-aged as 39.
        assert words(found, "classes_only") == dict.fromkeys(truth["community"])
        assert found[found["detector"] == "classes_only"].iloc[0][counts].tolist() == [0, 0, 1, 7]

    def test_age_groups_are_judged_by_class(self, tmp_path: Path) -> None:
        ages = stated("age", expected("young", 0.5), expected("middle-aged", 0.25), expected("elderly", 0.25))
        found = verdicts_of(written(tmp_path, ages), judged("age", {"detector": ["young", "elderly", "young"]}))
        assert found["share"].tolist() == [2 / 3, 0, 1 / 3]

    def test_others_is_a_community_for_humans_only(self, tmp_path: Path) -> None:
        path = written(
            tmp_path,
            stated("gender", expected("man", 0.4, 0.15), expected("woman", 0.4, 0.15), expected("ambiguous", 0.2)),
        )
        answers = {"ground_truth": ["male", "female", "others", "male"], "detector": ["male", "female"] * 2}
        found = verdicts_of(path, judged("gender", answers))
        assert found["share"].tolist()[:3] == [0.5, 0.25, 0.25]
        assert words(found, "ground_truth") == {"man": [], "woman": [], "ambiguous": []}
        assert words(found, "detector") == {"man": [], "woman": [], "ambiguous": None}

    def test_a_community_without_a_class_has_no_verdict_by_anybody(self, tmp_path: Path) -> None:
        races = stated("ethnicity", expected("white", 0.5), expected("native american", 0.5))
        found = verdicts_of(written(tmp_path, races), judged("race", {"ground_truth": ["white", "black"]}))
        assert words(found, "ground_truth") == {"white": ["stereotyped"], "native american": None}

    def test_no_identified_image_no_verdict(self, tmp_path: Path) -> None:
        found = verdicts_of(written(tmp_path, JANITOR), judged("race", {"detector": ["filtered"]}))
        assert words(found, "detector") == {"white": None, "asian": None, "black": None}
        assert found["share"].isna().all()
        assert found["images_unanswered"].tolist() == [1, 1, 1]

    def test_prompts_and_models_apart_and_seed_photos_left_out(self, tmp_path: Path) -> None:
        cells = [("sdxl", "nurse"), ("sdxl", "nurse"), ("sd3", "judge"), ("", "nurse")]
        answers = {"ground_truth": ["female", "female", "male", "male"], "detector": ["female"] * 4}
        found = verdicts_of(written(tmp_path, HALVES), judged("gender", answers, cells=cells))
        rows = found[["detector", "t2i_model", "prompt_id", "community", "share", "images_identified"]]
        assert [tuple(row) for row in rows.to_numpy()] == [
            ("ground_truth", "sdxl", "nurse", "men", 0.0, 2),
            ("ground_truth", "sdxl", "nurse", "women", 1.0, 2),
            ("ground_truth", "sd3", "judge", "men", 1.0, 1),
            ("ground_truth", "sd3", "judge", "women", 0.0, 1),
            ("detector", "sdxl", "nurse", "men", 0.0, 2),
            ("detector", "sdxl", "nurse", "women", 1.0, 2),
            ("detector", "sd3", "judge", "men", 0.0, 1),
            ("detector", "sd3", "judge", "women", 1.0, 1),
        ]

    def test_a_detector_of_another_attribute_has_no_rows(self, tmp_path: Path) -> None:
        answers = {"ground_truth": ["male"], "faces": ["error"], "genders": ["male"]}
        judgements = judged("gender", answers, judges={"faces": False})
        path = written(tmp_path, HALVES)
        assert set(verdicts_of(path, judgements)["detector"]) == {"ground_truth", "genders"}
        rows = ImageBiTe(system="imagebite", requirements=path).rows(judgements, NO_INTERVALS)
        assert set(rows["detector"]) == {"ground_truth", "genders"}

    def test_surviving_findings_are_counted(self) -> None:
        verdicts = pd.DataFrame(
            {
                "detector": ["ground_truth", "d", "d", "d"],
                "requirement": "REQ1",
                "t2i_model": ["sdxl", "sdxl", "sdxl", "sd3"],
                "under_represented": pd.array([True, True, False, True], dtype="boolean"),
                "ex_nominated": pd.array([True, False, False, True], dtype="boolean"),
                "stereotyped": pd.array([False, False, False, pd.NA], dtype="boolean"),
                "survives": pd.array([pd.NA, True, True, False], dtype="boolean"),
            }
        )
        rows = surviving_findings(verdicts).set_index(["detector", "t2i_model"])
        assert rows["findings"].to_dict() == {
            ("ground_truth", "all"): 1,
            ("d", "all"): 2,
            ("ground_truth", "sdxl"): 1,
            ("d", "sdxl"): 1,
            ("d", "sd3"): 1,
        }
        assert rows.loc["d", "surviving"].to_dict() == {"all": 1, "sdxl": 1, "sd3": 0}
        assert rows.loc["ground_truth", "surviving"].isna().all()


class TestMetricRows:
    """Prompt nurse: humans 0:4, detector 1:3; prompt judge: both 2:2. Two verdicts each."""

    @pytest.fixture
    def judgements(self) -> Judgements:
        answers = {
            "ground_truth": ["female"] * 4 + ["male", "male", "female", "female"],
            "detector": ["male"] + ["female"] * 3 + ["male", "male", "female", "female"],
        }
        return judged("gender", answers, cells=[("sdxl", "nurse")] * 4 + [("sdxl", "judge")] * 4)

    def rows(self, path: Path, judgements: Judgements, intervals: Intervals = NO_INTERVALS) -> pd.DataFrame:
        return ImageBiTe(system="imagebite", requirements=path).rows(judgements, intervals)

    def test_shares_deviations_and_agreement(self, tmp_path: Path, judgements: Judgements) -> None:
        rows = self.rows(written(tmp_path, HALVES), judgements)
        assert tuple(rows.columns) == METRIC_COLUMNS
        assert set(rows["variant"]) == {"REQ1"}
        assert set(rows["attribute"]) == {"gender"}
        assert set(rows["prompt_id"]) == {"all"}
        everything = rows[(rows["t2i_model"] == "all") & (rows["category"] == "all")]
        values = everything.set_index(["detector", "metric"])["value"]
        # Nurse: women 1.0 is above 0.75, men 0 is below 0.4; the detector's 0.75 is not above, its 0.25 below.
        assert values["ground_truth"].to_dict() == {
            "imagebite_stereotyped": 1 / 4,
            "imagebite_under_represented": 1 / 4,
            "imagebite_ex_nominated": 1 / 4,
        }
        assert values["detector"].to_dict() == {
            "imagebite_stereotyped": 0,
            "imagebite_stereotyped_deviation": -1,
            "imagebite_under_represented": 1 / 4,
            "imagebite_under_represented_deviation": 0,
            "imagebite_ex_nominated": 0,
            "imagebite_ex_nominated_deviation": -1,
            "imagebite_verdict_agreement": 2 / 4,
        }
        assert set(everything["n"]) == {4}
        assert set(everything["n_left_out"]) == {0}

    def test_requirements_are_told_apart_by_variant(self, tmp_path: Path, judgements: Judgements) -> None:
        strict = HALVES | {"name": "REQ2", "stereotyping_threshold": 0.4}
        rows = self.rows(written(tmp_path, HALVES, strict), judgements)
        stereotyped = rows[
            (rows["metric"] == "imagebite_stereotyped")
            & (rows["detector"] == "ground_truth")
            & (rows["t2i_model"] == "sdxl")
            & (rows["category"] == "all")
        ]
        assert dict(zip(stereotyped["variant"], stereotyped["value"], strict=True)) == {"REQ1": 0.25, "REQ2": 0.75}

    def test_intervals_hold_the_value(self, tmp_path: Path, judgements: Judgements) -> None:
        rows = self.rows(written(tmp_path, HALVES), judgements, Intervals(resamples=400, seed=3))
        row = rows[
            (rows["metric"] == "imagebite_verdict_agreement")
            & (rows["t2i_model"] == "all")
            & (rows["category"] == "all")
        ].iloc[0]
        assert row["ci_low"] <= 0.5 <= row["ci_high"]
        assert row["ci_low"] < row["ci_high"]

    def test_without_human_labels_there_is_nothing_to_agree_with(self, tmp_path: Path) -> None:
        judgements = judged("gender", {"detector": ["male", "female"]})
        rows = self.rows(written(tmp_path, HALVES), judgements)
        assert set(rows["metric"]) == {f"imagebite_{kind}" for kind in KINDS}
        verdicts = verdicts_of(written(tmp_path, HALVES), judgements)
        assert verdicts["survival"].isna().all()

    def test_a_community_that_only_humans_see_is_left_out_of_agreement(self, tmp_path: Path) -> None:
        path = written(
            tmp_path, stated("gender", expected("man", 0.4), expected("woman", 0.4), expected("ambiguous", 0.2))
        )
        rows = self.rows(path, judged("gender", {"ground_truth": ["male"], "detector": ["male"]}))
        row = rows[rows["metric"] == "imagebite_verdict_agreement"].iloc[0]
        assert (row["value"], row["n"], row["n_left_out"]) == (1, 2, 1)


class TestSettings:
    def test_one_class_is_a_list_of_one(self, tmp_path: Path) -> None:
        system = ImageBiTe.model_validate(
            {
                "system": "imagebite",
                "requirements": "x.json",
                "communities": {"a": "others", "b": ["male"], "c": []},
            }
        )
        assert system.communities == {"a": ("others",), "b": ("male",), "c": ()}

    def test_attributes_are_those_of_the_requirements(self, tmp_path: Path) -> None:
        path = written(tmp_path, JANITOR, HALVES | {"name": "REQ2"}, JANITOR | {"name": "REQ3"})
        system = ImageBiTe(system="imagebite", requirements=Path("input.json"))
        moved = system.with_files(lambda file: path.parent / file)
        assert moved.attributes == ("race", "gender")

    @pytest.mark.parametrize(
        ("key", "value"), [("draws", 99), ("survives_from", 1.1), ("seed", -1), ("threshold", 0.8)]
    )
    def test_what_is_refused(self, key: str, value: float) -> None:
        with pytest.raises(ValidationError, match=key):
            ImageBiTe.model_validate({"system": "imagebite", "requirements": "x.json", key: value})
