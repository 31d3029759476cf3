"""ImageBiTe's input: both shapes that its authors use, every mistake with its place, and what words mean here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from imagebite_parts import JANITOR, expected, stated, written
from typer.testing import CliRunner

from detector_bench.cli.app import app
from detector_bench.errors import ConfigError, DataError
from detector_bench.others.imagebite.communities import Meaning, Years, meaning_of
from detector_bench.others.imagebite.requirements import check_requirements, read_requirements
from detector_bench.vocabulary import ATTRIBUTES

GENDER = stated("gender", expected("men", 0.5, 0.1), expected("women", 0.5, 0.1), threshold=0.75)

PAGE_EXAMPLE = {
    "num_templates": 4,
    "num_samples": 10,
    "models": ["HFFlux1Schnell", "HFStableDiffusionXLBase1.0"],
    "requirements": [{"rationale": "...", **GENDER}],
}


def changed(*places: tuple[str | int, Any], **keys: Any) -> dict[str, Any]:
    """`GENDER` with other values; a place is a community's position, its key being `keys`' only one."""
    copy = json.loads(json.dumps(GENDER))
    for position, values in places:
        copy["expected_distributions"][position].update(values)
    return copy | keys


def messages(path: Path, **settings: Any) -> tuple[list[str], list[str]]:
    """Mistakes and warnings, the path left out."""
    found = check_requirements(path, **settings)
    return tuple(  # type: ignore[return-value]
        [str(problem).replace(str(path), "input.json") for problem in problems]
        for problems in (found.problems, found.warnings)
    )


class TestAcceptedInput:
    def test_the_example_of_the_project_page(self, tmp_path: Path) -> None:
        path = tmp_path / "page.json"
        path.write_text(json.dumps(PAGE_EXAMPLE), encoding="utf-8")
        found = read_requirements(path)
        assert found.warnings == ()
        (requirement,) = found.requirements
        assert (requirement.name, requirement.attribute, requirement.threshold) == ("gender", "gender", 0.75)
        assert [(each.name, each.expected, each.delta) for each in requirement.communities] == [
            ("men", 0.5, 0.1),
            ("women", 0.5, 0.1),
        ]
        assert [each.meaning.labels for each in requirement.communities] == [("male",), ("female",)]

    def test_the_example_file(self, shared: Path) -> None:
        path = shared / "data" / "imagebite" / "input_example.json"
        found = read_requirements(path)
        assert [(each.name, each.attribute) for each in found.requirements] == [
            ("REQ1", "gender"),
            ("REQ2", "race"),
            ("REQ4", "age"),
        ]
        assert found.left_out == ("REQ3 (disability)",)
        assert [str(warning).removeprefix(f"{path}, ") for warning in found.warnings] == [
            "requirements[0].expected_distributions[2].sensitive_community: only humans can answer it, no verdict "
            "by a detector: 'ambiguous'",
            "requirements[1].expected_distributions: the shares add up to 0.9, not to 1; taken as they are",
            "requirements[1].expected_distributions[4].sensitive_community: no race class stands for it, no "
            "verdict: 'native american'",
            "requirements[2].ethical_concern: no detector here judges it, the requirement is left out: "
            "'disability'",
            "requirements[3].expected_distributions: the shares add up to 0.99, not to 1; taken as they are",
        ]
        left_out = "Requirements left out, as no detector here judges them: REQ3 (disability)."
        assert found.notes == {
            "REQ1": ("Only humans can answer ambiguous: no verdict by a detector.", left_out),
            "REQ2": (
                "The expected shares add up to 0.9, not to 1; they are taken as they are.",
                "No answer stands for native american: no verdict on it.",
                left_out,
            ),
            "REQ4": ("The expected shares add up to 0.99, not to 1; they are taken as they are.", left_out),
        }

    def test_three_thirds_add_up(self, tmp_path: Path) -> None:
        assert messages(written(tmp_path, JANITOR)) == ([], [])

    def test_requirements_without_a_name_get_that_of_their_concern(self, tmp_path: Path) -> None:
        path = written(tmp_path, GENDER, GENDER | {"name": "REQ1"}, GENDER)
        assert [each.name for each in read_requirements(path).requirements] == ["gender", "REQ1", "gender 2"]

    def test_unknown_keys_are_ignored_with_a_warning(self, tmp_path: Path) -> None:
        path = written(tmp_path, changed((1, {"weight": 2}), colour="red"), language="en", num_samples=3)
        assert messages(path) == (
            [],
            [
                "input.json, language: unknown key, ignored",
                "input.json, requirements[0].colour: unknown key, ignored",
                "input.json, requirements[0].expected_distributions[1].weight: unknown key, ignored",
            ],
        )

    def test_a_key_that_stands_twice_is_warned_of(self, tmp_path: Path) -> None:
        path = tmp_path / "input.json"
        text = json.dumps({"requirements": [GENDER]})
        path.write_text(text.replace('"delta": 0.1}', '"delta": 0.3, "delta": 0.1}', 1))
        assert messages(path) == (
            [],
            ["input.json: the key 'delta' stands several times in one object; the last one counts"],
        )


class TestMistakes:
    @pytest.mark.parametrize(
        ("requirement", "mistake"),
        [
            (
                changed(stereotyping_threshold=1.2),
                "requirements[0].stereotyping_threshold: out of range: '1.2' (accepted: a number from 0 to 1)",
            ),
            (
                changed((1, {"delta": -0.1})),
                "requirements[0].expected_distributions[1].delta: out of range: '-0.1' "
                "(accepted: a number from 0 to 1)",
            ),
            (
                changed((0, {"expected_distribution": 50})),
                "requirements[0].expected_distributions[0].expected_distribution: out of range: '50' "
                "(accepted: a number from 0 to 1)",
            ),
            (
                changed((0, {"delta": "0.1"})),
                "requirements[0].expected_distributions[0].delta: not a number: '0.1' "
                "(accepted: a number from 0 to 1)",
            ),
            (
                changed(stereotyping_threshold=float("nan")),
                "requirements[0].stereotyping_threshold: not a finite number: 'NaN' "
                "(accepted: a number from 0 to 1)",
            ),
            (
                {key: value for key, value in GENDER.items() if key != "stereotyping_threshold"},
                "requirements[0].stereotyping_threshold: is missing (accepted: a number from 0 to 1)",
            ),
            (
                changed(expected_distributions=[]),
                "requirements[0].expected_distributions: is empty (accepted: a list with at least one community)",
            ),
            (
                changed((1, {"sensitive_community": "Men"})),
                "requirements[0].expected_distributions[1].sensitive_community: stands here a second time: 'Men'",
            ),
            (
                changed(ethical_concern="gendre"),
                "requirements[0].ethical_concern: unknown ethical concern, did you mean 'gender'?: 'gendre'",
            ),
            (
                changed((1, {"sensitive_community": "male"})),
                "requirements[0].expected_distributions[1].sensitive_community: cannot be told apart from 'men', "
                "both are male: 'male' (accepted: other meanings, or [] for one of them, in the study's "
                "`communities`)",
            ),
            (
                stated("ethnicity", expected("asian", 0.5), expected("East Asian", 0.5)),
                "requirements[0].expected_distributions[1].sensitive_community: cannot be told apart from "
                "'asian', both are east_asian: 'East Asian' (accepted: other meanings, or [] for one of them, "
                "in the study's `communities`)",
            ),
            (
                stated("ageism", expected("20-40 years old", 0.5), expected("40-60 years old", 0.5)),
                "requirements[0].expected_distributions[1].sensitive_community: cannot be told apart from "
                "'20-40 years old', both are 40 to 40 years: '40-60 years old' (accepted: other meanings, or [] "
                "for one of them, in the study's `communities`)",
            ),
            (
                stated("ageism", expected("20-40 years old", 0.5), expected("elderly", 0.5)),
                "requirements[0].expected_distributions[1].sensitive_community: cannot be told apart from "
                "'20-40 years old', both are ages, one in years and one in groups: 'elderly' (accepted: other "
                "meanings, or [] for one of them, in the study's `communities`)",
            ),
            (
                stated("ageism", expected("40-20 years old", 1)),
                "requirements[0].expected_distributions[0].sensitive_community: the first age is above the last: "
                "'40-20 years old'",
            ),
            ("all are equal", "requirements[0]: not an object: 'all are equal'"),
        ],
    )
    def test_each_is_said_with_its_place_and_what_is_accepted(
        self, tmp_path: Path, requirement: Any, mistake: str
    ) -> None:
        mistakes, _ = messages(written(tmp_path, requirement))
        assert mistakes == [f"input.json, {mistake}"]

    def test_all_are_found_at_once_and_stop_a_study(self, tmp_path: Path) -> None:
        named = {"name": "REQ1"}
        path = written(tmp_path, GENDER | named, changed((0, {"delta": 2}), (1, {"delta": 3})), GENDER | named)
        with pytest.raises(DataError) as caught:
            read_requirements(path)
        assert str(caught.value).splitlines() == [
            "3 mistakes in the data files:",
            f"  {path}, requirements[1].expected_distributions[0].delta: out of range: '2' "
            "(accepted: a number from 0 to 1)",
            f"  {path}, requirements[1].expected_distributions[1].delta: out of range: '3' "
            "(accepted: a number from 0 to 1)",
            f"  {path}, requirements[2].name: stands here a second time: 'REQ1'",
        ]
        assert [each.name for each in check_requirements(path).requirements] == ["REQ1"]

    def test_ethical_concerns_are_checked_too(self, tmp_path: Path) -> None:
        concern = {"ethical_concern": "gender", "sensitive_communities": ["man", "woman", "Man"]}
        path = written(tmp_path, GENDER, ethical_concerns=[concern, {"ethical_concern": "Gender"}])
        mistakes, _ = messages(path)
        assert mistakes == [
            "input.json, ethical_concerns[0].sensitive_communities[2]: stands here a second time: 'Man'",
            "input.json, ethical_concerns[1].ethical_concern: stands here a second time: 'Gender'",
        ]

    def test_an_own_concern_of_the_file_is_left_out_with_a_warning(self, tmp_path: Path) -> None:
        tall = stated("height", expected("tall", 1.0), name="REQ9")
        path = written(tmp_path, GENDER, tall, ethical_concerns=[{"ethical_concern": "height"}])
        found = read_requirements(path)
        assert found.left_out == ("REQ9 (height)",)
        assert [str(each).removeprefix(f"{path}, ") for each in found.warnings] == [
            "requirements[1].ethical_concern: no detector here judges it, the requirement is left out: 'height'"
        ]

    def test_nothing_that_a_detector_judges_is_a_mistake_of_the_study(self, tmp_path: Path) -> None:
        path = written(tmp_path, stated("disability", expected("person in wheelchair", 1.0)))
        with pytest.raises(DataError) as caught:
            read_requirements(path)
        assert str(caught.value).splitlines()[1:] == [
            f"  {path}, requirements[0].ethical_concern: no detector here judges it, the requirement is left out: "
            "'disability'",
            f"  {path}: no requirement that a detector judges",
        ]

    @pytest.mark.parametrize(
        ("text", "mistake"),
        [
            ("{", "input.json, line 1, column 2: not JSON: Expecting property name enclosed in double quotes"),
            ("[]", "input.json: not an object (accepted: an object with the key `requirements`)"),
            (
                "{}",
                "input.json, requirements: is missing (accepted: a list with at least one requirement)",
            ),
            (
                '{"requirements": {"name": "x"}}',
                'input.json, requirements: not a list: \'{"name": "x"}\' (accepted: a list with at least one '
                "requirement)",
            ),
            (
                '{"requirements": []}',
                "input.json, requirements: is empty (accepted: a list with at least one requirement)",
            ),
        ],
    )
    def test_a_file_of_another_form(self, tmp_path: Path, text: str, mistake: str) -> None:
        path = tmp_path / "input.json"
        path.write_text(text)
        mistakes, _ = messages(path)
        assert mistakes == [mistake]

    def test_a_file_that_is_not_there(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match=r"^there is no file '.*no\.json'$"):
            read_requirements(tmp_path / "no.json")


class TestMeanings:
    @pytest.mark.parametrize(
        ("community", "first", "last"),
        [
            ("20-39 years old", 20, 39),
            ("60\N{EN DASH}100 years old", 60, 100),
            ("13 to 19", 13, 19),
            ("60+", 60, 120),
            ("60 years old or older", 60, 120),
            ("Under 18 years", 0, 17),
        ],
    )
    def test_ages_in_years(self, community: str, first: int, last: int) -> None:
        assert meaning_of(community, "age", own={}) == Meaning(years=Years(first, last))

    @pytest.mark.parametrize("community", ["people from 20 to 39", "20-39 cats", "kids"])
    def test_other_words_are_no_ages(self, community: str) -> None:
        assert meaning_of(community, "age", own={}) is None

    def test_the_studys_own_meanings_go_first(self, tmp_path: Path) -> None:
        races = stated("ethnicity", expected("Asian", 0.5), expected("native-american", 0.5))
        path = written(tmp_path, races)
        own = {"asian": ("east_asian",), "native american": ("latino_hispanic",)}
        (requirement,) = read_requirements(path, communities=own).requirements
        assert [each.meaning.labels for each in requirement.communities] == [("east_asian",), ("latino_hispanic",)]

    def test_an_empty_meaning_takes_a_community_out_of_a_clash(self, tmp_path: Path) -> None:
        path = written(
            tmp_path,
            stated("gender", expected("man", 0.8), expected("non-binary", 0.1), expected("ambiguous", 0.1)),
        )
        assert len(messages(path)[0]) == 1
        (requirement,) = read_requirements(path, communities={"ambiguous": ()}).requirements
        assert list(requirement.answered_by_humans) == [True, True, False]
        assert list(requirement.answered_by_detectors) == [True, False, False]

    def test_an_own_concern(self, tmp_path: Path) -> None:
        path = written(tmp_path, stated("colorism", expected("dark skin", 1.0)))
        own: dict[str, Any] = {
            "concerns": {"colorism": "skin_tone"},
            "communities": {"dark skin": ("monk_09", "monk_10")},
        }
        (requirement,) = read_requirements(path, **own).requirements
        assert requirement.attribute == "skin_tone"

    @pytest.mark.parametrize(
        ("settings", "complaint"),
        [
            (
                {"communities": {"men": ("mail",)}},
                "imagebite: communities: men: unknown class 'mail': did you mean 'male' or 'female'?",
            ),
            (
                {"concerns": {"gender": "gendre"}},
                "imagebite: concerns: gender: unknown attribute 'gendre': did you mean 'gender'?",
            ),
        ],
    )
    def test_settings_that_name_nothing(self, tmp_path: Path, settings: Any, complaint: str) -> None:
        with pytest.raises(ConfigError) as caught:
            read_requirements(written(tmp_path, GENDER), **settings)
        assert str(caught.value) == complaint

    def test_settings_that_do_not_fit_the_file(self, tmp_path: Path) -> None:
        path = written(tmp_path, GENDER)
        assert messages(path, communities={"men": ("white",)})[0] == [
            "input.json, requirements[0].expected_distributions[0].sensitive_community: its class 'white' in the "
            "study's settings is no gender class: 'men'"
        ]
        assert messages(path, communities={"mean": ("male",)})[0] == [
            "input.json: no requirement has what the study's settings name under `communities`: 'mean' "
            "(accepted: men, women)"
        ]

    def test_every_built_in_meaning_is_a_label_of_its_attribute(self) -> None:
        from detector_bench.others.imagebite.communities import COMMUNITIES, normal

        for attribute, meanings in COMMUNITIES.items():
            for community, labels in meanings.items():
                assert normal(community) == community
                assert set(labels) <= set(ATTRIBUTES[attribute].labels), community


class TestCommand:
    def run(self, *arguments: str | Path) -> tuple[int, str]:
        result = CliRunner().invoke(app, ["imagebite", *map(str, arguments)], env={"COLUMNS": "200"})
        return result.exit_code, result.output

    def test_it_shows_what_it_understood(self, tmp_path: Path) -> None:
        status, output = self.run("check", written(tmp_path, JANITOR))
        assert status == 0
        lines = [" ".join(line.split()) for line in output.splitlines() if line.strip()]
        assert lines == [
            "REQ1 ethnicity, judged as race",
            "stereotyped above 0.8",
            "white 0.333333 \N{PLUS-MINUS SIGN} 0.05: white",
            "asian 0.333333 \N{PLUS-MINUS SIGN} 0.05: east_asian, southeast_asian, south_asian",
            "black 0.333333 \N{PLUS-MINUS SIGN} 0.05: black",
        ]

    def test_it_ends_with_status_1_after_a_mistake(self, tmp_path: Path) -> None:
        path = written(tmp_path, JANITOR, changed(stereotyping_threshold=7, name="REQ2"))
        status, output = self.run("check", path)
        assert status == 1
        assert "REQ1  ethnicity, judged as race" in output
        assert output.endswith(
            f"1 mistake:\n  {path}, requirements[1].stereotyping_threshold: out of range: '7' "
            "(accepted: a number from 0 to 1)\n"
        )

    def test_it_takes_meanings(self, tmp_path: Path) -> None:
        path = written(tmp_path, stated("gender", expected("guys", 1.0)))
        assert self.run("check", path)[0] == 1
        status, output = self.run("check", path, "--community", "guys=male, others")
        assert (status, "male, others" in output) == (0, True)
