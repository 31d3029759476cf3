"""Taxonomies and mappings: every table written out by hand, and what happens to labels and probabilities."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from pydantic import BaseModel, ConfigDict, ValidationError
from typer.testing import CliRunner

from detector_bench.cli.taxonomies import taxonomies as taxonomies_command
from detector_bench.errors import ConfigError
from detector_bench.perception.identity import canonical
from detector_bench.vocabulary import ATTRIBUTES
from detector_bench.vocabulary.taxonomies import (
    MAPPINGS,
    OURS,
    TAXONOMIES,
    Mapping,
    MappingField,
    Taxonomy,
    mapping,
    mapping_named,
    own_mapping,
    taxonomy_named,
)
from detector_bench.weights import WeightsLocator

TABLES: dict[str, dict[str, str | None]] = {
    "fairface_gender2_to_gender": {"Male": "male", "Female": "female"},
    "fairface_age9_to_age": {
        "0-2": "young",
        "3-9": "young",
        "10-19": "young",
        "20-29": "young",
        "30-39": "middle_aged",
        "40-49": "middle_aged",
        "50-59": "middle_aged",
        "60-69": "elderly",
        "70+": "elderly",
    },
    "fairface_race7_to_race": {
        "White": "white",
        "Black": "black",
        "Latino_Hispanic": "latino_hispanic",
        "East Asian": "east_asian",
        "Southeast Asian": "southeast_asian",
        "Indian": "south_asian",
        "Middle Eastern": "middle_eastern",
    },
    "fairface_race4_to_race": {
        "White": "white",
        "Black": "black",
        "Asian": "east_asian",
        "Indian": "south_asian",
    },
    "fairface_race4_to_race_asian_as_southeast_asian": {
        "White": "white",
        "Black": "black",
        "Asian": "southeast_asian",
        "Indian": "south_asian",
    },
    "gear_age7_to_age": {
        "below_20": "young",
        "21-25": "young",
        "26-30": "young",
        "31-40": "middle_aged",
        "41-50": "middle_aged",
        "51-60": "middle_aged",
        "above_60": "elderly",
    },
    "gear_race5_to_race": {
        "white": "white",
        "black": "black",
        "asian": "east_asian",
        "indian": "south_asian",
        "other": None,
    },
    "bigbench_race4_to_race": {
        "White": "white",
        "Black": "black",
        "East Asian": "east_asian",
        "South Asian": "south_asian",
    },
    "bigbench_age3_to_age": {"0-30": "young", "30-60": "middle_aged", "60+": "elderly"},
    "imagebite_ethnicity5_to_race": {
        "white": "white",
        "asian": "east_asian",
        "black": "black",
        "latin": "latino_hispanic",
        "middle eastern": "middle_eastern",
    },
    "imagebite_gender3_to_gender": {"man": "male", "woman": "female", "non-binary": None},
    "biaspainter_race3_to_race": {"white": "white", "black": "black", "east asian": "east_asian"},
    "age_to_bigbench_age3": {"young": "0-30", "middle_aged": "30-60", "elderly": "60+"},
    "race_to_bigbench_race4": {
        "white": "White",
        "black": "Black",
        "latino_hispanic": None,
        "east_asian": "East Asian",
        "southeast_asian": "East Asian",
        "south_asian": "South Asian",
        "middle_eastern": None,
    },
    "race_to_imagebite_ethnicity5": {
        "white": "white",
        "black": "black",
        "latino_hispanic": "latin",
        "east_asian": "asian",
        "southeast_asian": "asian",
        "south_asian": "asian",
        "middle_eastern": "middle eastern",
    },
    "race_to_biaspainter_race3": {
        "white": "white",
        "black": "black",
        "latino_hispanic": None,
        "east_asian": "east asian",
        "southeast_asian": "east asian",
        "south_asian": None,
        "middle_eastern": None,
    },
    "gender_to_imagebite_gender3": {"male": "man", "female": "woman"},
}

LETTERS = Taxonomy(name="letters", attribute="gender", classes=("a", "b", "c"), source="a test")
SHAPES = Taxonomy(name="shapes", attribute="gender", classes=("round", "square"), source="a test")


def letters_to_shapes(**changed: str | None) -> dict[str, Any]:
    table = {"a": "round", "b": "square", "c": None} | changed
    return {"name": "tried", "source": LETTERS, "target": SHAPES, "table": table, "loses": "c"}


# What comes with the project


def test_every_table_is_what_was_decided() -> None:
    assert {name: dict(each.table) for name, each in MAPPINGS.items()} == TABLES


def test_ours_are_the_vocabulary() -> None:
    assert {name: each.classes for name, each in OURS.items()} == {n: a.classes for n, a in ATTRIBUTES.items()}


def test_bins_have_the_middle_of_their_whole_years() -> None:
    for name in ("fairface_age9", "gear_age7"):
        taxonomy = TAXONOMIES[name]
        for label, years in zip(taxonomy.classes, taxonomy.years or (), strict=True):
            first, dash, last = label.partition("-")
            if dash:
                assert years == (int(first) + int(last)) / 2, label
    assert (TAXONOMIES["gear_age7"].years or ())[::6] == (15, 65)
    assert (TAXONOMIES["fairface_age9"].years or ())[-1] == 75


def test_what_cannot_occur_is_told() -> None:
    assert mapping_named("gender_to_imagebite_gender3").unreached == ("non-binary",)
    assert mapping_named("gear_race5_to_race").unreached == (
        "latino_hispanic",
        "southeast_asian",
        "middle_eastern",
    )
    assert mapping_named("race_to_bigbench_race4").outside == ("latino_hispanic", "middle_eastern")
    for each in MAPPINGS.values():
        for label in each.outside:
            assert label in each.loses, f"{each.name} does not say that it loses {label}"


def test_documentation_shows_every_table_and_every_loss() -> None:
    page = (Path(__file__).resolve().parents[1] / "docs" / "taxonomies.md").read_text()
    flat = " ".join(page.split())
    for each in MAPPINGS.values():
        assert f"`{each.name}`" in flat
        assert each.loses in flat, each.name
        for word, label in each.table.items():
            assert f"{word} → {label or 'outside'}" in flat, (each.name, word)


# Refusals


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"attribute": "gendr"}, "unknown attribute 'gendr': did you mean 'gender'"),
        ({"classes": ("a", "b", "a")}, "taxonomy 'letters' has the class 'a' twice"),
        ({"years": (1, 2)}, "years are one rising number for each of 3 classes; got [1.0, 2.0]"),
        ({"years": (1, 3, 2)}, "years are one rising number for each of 3 classes; got [1.0, 3.0, 2.0]"),
    ],
)
def test_taxonomy_that_contradicts_itself(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError) as raised:
        Taxonomy(**{**LETTERS.model_dump(), **wrong})
    assert message in str(raised.value)


def test_mapping_between_taxonomies_that_do_not_match_says_all_that_is_wrong() -> None:
    wrong = letters_to_shapes(a="rond", d="square")
    del wrong["table"]["b"]
    with pytest.raises(ValidationError) as raised:
        Mapping(**wrong)
    for part in (
        "mapping 'tried': 'd' is no class of 'letters'",
        "'letters' has classes without an entry: 'b'",
        "'rond' of 'a' is no class of 'shapes': did you mean 'round'?",
    ):
        assert part in str(raised.value)


def test_mapping_across_attributes_is_refused() -> None:
    with pytest.raises(ValidationError, match="'letters' is about gender, 'race' about race"):
        Mapping(**{**letters_to_shapes(), "target": OURS["race"]})


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: taxonomy_named("fairface_race5"),
            "unknown taxonomy 'fairface_race5': did you mean 'fairface_race",
        ),
        (lambda: mapping_named("race_to_bigbench"), "did you mean 'race_to_bigbench_race4'"),
        (lambda: mapping("race", "bigbench"), "unknown taxonomy 'bigbench'"),
        (
            lambda: mapping("age", "imagebite_gender3"),
            "no mapping from 'age' (age) to 'imagebite_gender3' (gender); from 'age' there is one to: bigbench",
        ),
        (lambda: mapping("age", "gear_age7"), "no mapping from 'age' (age) to 'gear_age7' (age)"),
        (lambda: OURS["race"].codes(["white", "Whyte"]), "'Whyte' is no class of 'race': did you mean 'white'?"),
        (lambda: own_mapping({"x": None}), "at least one class of ours; all of its entries are null"),
        (lambda: own_mapping({"x": "whit"}), "'whit' is no class of ours: did you mean 'white'"),
        (lambda: own_mapping({"x": "white", "y": "male"}), "'male' of 'y' is no class of 'race'"),
        (lambda: own_mapping({20: "young"}), "numbers, yes and no need quotes"),  # type: ignore[dict-item]
        (
            lambda: own_mapping({"white": "White"}, source=OURS["race"], target=TAXONOMIES["bigbench_race4"]),
            "'race' has classes without an entry: 'black', 'latino_hispanic', 'east_asian'",
        ),
    ],
)
def test_message_says_what_is_wrong_and_what_is_known(call: Any, message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        call()
    assert message in str(raised.value)


# What a mapping does


def test_codes_become_positions_in_the_target() -> None:
    tried = Mapping(**letters_to_shapes())
    assert tried.apply(np.array([[0, 1], [2, -1]])).tolist() == [[0, 1], [-1, -1]]
    assert tried.apply(np.array([], np.int64)).tolist() == []
    assert tried.apply(LETTERS.codes(["b", None, "a", "c"])).tolist() == [1, -1, 0, -1]
    for wrong in (3, -2):
        with pytest.raises(ConfigError, match=f"class codes run from -1 to 2; got {wrong}"):
            tried.apply(np.array([wrong]))


def test_probabilities_add_up_inside_and_outside() -> None:
    tried = Mapping(**letters_to_shapes(b="round"))
    inside, outside = tried.probabilities(np.array([[0.5, 0.25, 0.25], [0.0, 0.0, 1.0], [1.0, 2.0, 5.0]]))
    assert inside.tolist() == [[0.75, 0.0], [0.0, 0.0], [3.0, 0.0]]
    assert outside.tolist() == [0.25, 1.0, 5.0]
    with pytest.raises(ConfigError, match=r"one number for each of 3 classes; got shape \(2,\)"):
        tried.probabilities(np.array([0.5, 0.5]))


@pytest.mark.parametrize("name", MAPPINGS)
def test_no_probability_is_lost(name: str) -> None:
    each = MAPPINGS[name]
    shares = np.random.default_rng(0).dirichlet(np.ones(len(each.source.classes)), size=(4, 5))
    inside, outside = each.probabilities(shares)
    assert inside.shape == (4, 5, len(each.target.classes))
    np.testing.assert_allclose(inside.sum(axis=-1) + outside, 1.0)


def test_an_unknown_share_stays_where_it_is() -> None:
    inside, outside = Mapping(**letters_to_shapes()).probabilities(np.array([np.nan, 0.5, 0.5]))
    np.testing.assert_equal(inside, [np.nan, 0.5])
    assert outside == 0.5


def test_composition_goes_through_both_tables() -> None:
    found = mapping_named("fairface_race7_to_race").compose(mapping_named("race_to_bigbench_race4"))
    expected = {
        "White": "White",
        "Black": "Black",
        "Latino_Hispanic": None,
        "East Asian": "East Asian",
        "Southeast Asian": "East Asian",
        "Indian": "South Asian",
        "Middle Eastern": None,
    }
    assert dict(found.table) == expected
    assert found == mapping("fairface_race7", "bigbench_race4")
    assert "all of South Asia" in found.loses
    assert "leave the denominator" in found.loses
    # gear's "other" is outside after the first step, and stays there.
    assert mapping("gear_race5", "imagebite_ethnicity5").labels == ("white", "black", "asian", "asian", None)


def test_composition_of_mappings_that_do_not_meet_is_refused() -> None:
    with pytest.raises(
        ConfigError, match=r"ends in 'race', but 'fairface_age9_to_age' begins with 'fairface_age9'"
    ):
        mapping_named("gear_race5_to_race").compose(mapping_named("fairface_age9_to_age"))


def test_to_itself_nothing_changes() -> None:
    assert mapping("race", "race").apply(np.arange(-1, 7)).tolist() == list(range(-1, 7))


# In a configuration


class Settings(BaseModel):
    model_config = ConfigDict(frozen=True)
    words: MappingField


def words(value: Any) -> Mapping:
    return Settings.model_validate({"words": value}).words


def test_a_configuration_names_a_taxonomy_or_a_mapping_or_writes_one() -> None:
    assert words("gear_race5") == mapping("gear_race5", "race")
    southeast = "fairface_race4_to_race_asian_as_southeast_asian"
    assert words(southeast) == mapping_named(southeast)
    own = words({"w": "white", "none": None, "b": "black"})
    assert (own.source.classes, own.target, own.labels) == (
        ("w", "none", "b"),
        OURS["race"],
        ("white", None, "black"),
    )


@pytest.mark.parametrize("value", ["gear_race5", {"w": "white", "none": None}])
def test_a_configuration_can_be_written_and_read_again(value: Any) -> None:
    written = Settings.model_validate({"words": value}).model_dump(mode="json")
    assert words(written["words"]) == words(value)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("gear_race", "unknown taxonomy or mapping 'gear_race': did you mean 'gear_race5'"),
        ({"w": "wite"}, "'wite' is no class of ours: did you mean 'white'"),
        (["white"], r"a mapping is a taxonomy's name, a mapping's name, or \{word: class or null\}"),
    ],
)
def test_a_wrong_configuration_is_refused(value: Any, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        words(value)


def test_another_table_is_another_fingerprint_and_other_words_about_it_are_not() -> None:
    def reduced(each: Mapping) -> Any:
        return canonical(Settings(words=each), weights=WeightsLocator(cache=Path("nowhere")))

    tried = Mapping(**letters_to_shapes())
    renamed = Mapping(**{**letters_to_shapes(), "loses": "nothing much", "name": "other"})
    assert reduced(tried) == reduced(renamed)
    assert reduced(tried) != reduced(Mapping(**letters_to_shapes(c="round")))


# The command


def shown(*arguments: str) -> str:
    app = typer.Typer()
    app.command()(taxonomies_command)
    result = CliRunner(env={"COLUMNS": "200"}).invoke(app, list(arguments), catch_exceptions=False)
    return " ".join(result.stdout.split())


def test_the_command_lists_and_shows() -> None:
    everything = shown()
    for name in TAXONOMIES:
        assert name in everything
    race = shown("gear_race5")
    assert "asian east_asian" in race
    assert "other outside: it has no class" in race
    assert "never occurs latino_hispanic, southeast_asian, middle_eastern" in race
    assert mapping_named("race_to_bigbench_race4").loses in shown("race_to_bigbench_race4")
    with pytest.raises(ConfigError, match="unknown taxonomy or mapping 'gear_rac': did you mean 'gear_race5'"):
        shown("gear_rac")
