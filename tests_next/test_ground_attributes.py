"""Attributes, taxonomies and mappings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from detector_bench_next import attributes
from detector_bench_next.attributes import Attribute, built_in, mapping, pair_attributes, read_attributes
from detector_bench_next.errors import ConfigError


def test_built_in_texts_are_the_golden_ones(shared: Path) -> None:
    golden = json.loads((shared / "design/golden/ground/attributes.json").read_text())
    assert {name: own.model_dump(mode="json", by_alias=True) for name, own in built_in().items()} == golden
    assert list(built_in()) == ["gender", "age", "race", "skin_tone"]


def test_taxonomies_mappings_and_all_ways_are_the_golden_ones(shared: Path) -> None:
    golden = json.loads((shared / "design/golden/ground/taxonomies.json").read_text())
    found = {
        name: {"attribute": t.attribute, "classes": list(t.classes), "years": t.years and list(t.years)}
        for name, t in attributes.taxonomies().items()
    }
    assert found == golden["taxonomies"]
    assert list(attributes.mappings()) == list(golden["mappings"])
    for name, own in attributes.mappings().items():
        told = {"source": own.source.name, "target": own.target.name, "table": own.table}
        assert told == {key: golden["mappings"][name][key] for key in told}
        assert list(own.table) == list(own.source.classes)
    for name, table in golden["ways"].items():
        assert mapping(*name.split(" -> ")).table == table
    for name in golden["no_way"]:
        with pytest.raises(ConfigError, match="no mapping from"):
            mapping(*name.split(" -> "))


def test_codes_are_positions_among_the_labels() -> None:
    gender = built_in()["gender"]
    assert gender.labels == ("male", "female", attributes.LOW_QUALITY, attributes.OTHERS)
    assert gender.statements == ("male", "female", attributes.OTHERS, "partly")
    for own in (*built_in().values(), *pair_attributes().values()):
        assert own.labels.index(attributes.LOW_QUALITY) == own.low_quality == own.filtered == len(own.classes)
        assert own.labels.index(attributes.OTHERS) == own.others == own.error
        assert own.unlabelled == own.not_run == len(own.labels)


def test_pair_attributes_say_what_no_change_is() -> None:
    classes = {name: own.class_names for name, own in pair_attributes().items()}
    assert classes == {
        "gender_change": ("male_male", "male_female", "female_male", "female_female"),
        "age_change": ("older", "younger", "same"),
        "skin_tone_change": ("lighter", "darker", "same"),
    }
    assert {name for own in classes.values() for name in own} >= set(attributes.UNCHANGED)
    assert [own.key for own in pair_attributes()["gender_change"].classes] == list("1234")
    many = Attribute.model_validate({"name": "many", "classes": [f"c{n}" for n in range(len(attributes.KEYS))]})
    assert "".join(own.key for own in many.classes) == attributes.KEYS


def _write(folder: Path, **texts: str) -> Path:
    (folder / "attributes").mkdir(exist_ok=True)
    for name, text in texts.items():
        (folder / "attributes" / f"{name}.yaml").write_text(text, encoding="utf-8")
    return folder


def test_own_attributes_get_their_texts_from_their_names(tmp_path: Path) -> None:
    text = "name: head_wear\nclasses: [broad_hat, {name: bare, key: b, text: None at all}]\nreasons: [cropped]\n"
    found = read_attributes(_write(tmp_path, x=text))
    own = found["head_wear"]
    assert list(found) == [*built_in(), "head_wear"]
    assert (own.words, own.title, own.short) == ("head wear", "Perceived head wear", "Head wear")
    assert own.question == "Which head wear do you perceive?"
    assert [(c.text, c.key, c.offered, c.answers) for c in own.classes] == [
        ("Broad hat", "1", "broad hat", ("broad hat",)),
        ("None at all", "b", "bare", ("bare",)),
    ]
    assert attributes.reasons(found.values()) == (*attributes.REASONS, "cropped")
    attributes.write_attributes(found.values(), tmp_path / "copy")
    assert [path.name for path in (tmp_path / "copy/attributes").iterdir()] == ["head_wear.yaml"]
    assert read_attributes(tmp_path / "copy") == found
    assert read_attributes(tmp_path / "nowhere") == built_in()


def _own(**fields: Any) -> str:
    return json.dumps({"name": "smile", "classes": ["broad", "none"], **fields})


_CM, _RANGES = {"name": "cm", "lowest": 0, "highest": 9}, [{"name": "a", "from": 3}, {"name": "b", "from": 2}]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (_own(name="gender"), "name: 'gender' is built in"),
        (_own(name="Smile"), "name: 'Smile' is no name; accepted: a letter, then"),
        (_own(name="average"), "name: 'average' is reserved"),
        (_own(name=7), "name: "),
        (_own(classes=["one"]), "classes: "),
        (_own(classes=["unknown", "none"]), "'unknown' is reserved"),
        (_own(classes=["a", "a"]), "the class 'a' stands here twice"),
        (_own(classes=["a", {"name": "b", "key": "x"}]), "classes.1.key: "),
        (_own(classes=[{"name": "a", "key": "q"}, {"name": "b", "key": "q"}]), "the key 'q' stands here twice"),
        ("name: smile\nclasses: [yes, no]\n", "need quotes); got True"),
        ("name: smile\nclasses: [012, 1]\n", "need quotes); got 10"),
        (_own(questio="?"), "unknown key 'questio': did you mean 'question'"),
        (_own(classes=["a", {"name": "b", "txt": "B"}]), "classes.1.txt: unknown key 'txt': did you mean 'text'?"),
        (_own(reasons=["blurred"]), "the reason 'blurred' stands here twice"),
        (_own(kind="measured"), "kind is 'measured' and unit is missing"),
        (_own(unit=_CM), "kind is 'class' and unit is 'cm'"),
        (_own(classes=_RANGES[::-1]), "accepted: a rising number"),
        (_own(kind="measured", unit=_CM, classes=_RANGES), "classes begin with `from` 3, 2; accepted"),
        ("- smile\n", "a mapping with `name` and `classes` is expected"),
        ("classes: [a, b]\n", "name: is missing"),
    ],
)
def test_mistakes_of_own_attributes(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(ConfigError) as raised:
        read_attributes(_write(tmp_path, smile=text))
    assert str(tmp_path / "attributes" / "smile.yaml") in str(raised.value)
    assert told in str(raised.value)


def test_all_files_are_read_before_mistakes_are_told(tmp_path: Path) -> None:
    folder = _write(tmp_path, a=_own(), b=_own(), c="name: [", d=_own(name="x y"), e=_own(name="fine"))
    with pytest.raises(ConfigError) as raised:
        read_attributes(folder)
    lines = str(raised.value).splitlines()
    assert [Path(line.partition(".yaml")[0]).name for line in lines] == ["b", "c", "d"]
    assert "defined by a file beside it, too" in lines[0]


def test_of_two_mappings_the_first_is_the_default_and_ways_lead_through_ours() -> None:
    first, _ = (own for own in attributes.mappings().values() if own.source.name == "fairface_race4")
    assert mapping("fairface_race4", "race") == first
    ages = mapping("fairface_age9", "bigbench_age3").table
    assert (ages["30-39"], ages["20-29"]) == ("30-60", "0-30")
    assert mapping("gear_age7", "age").table["26-30"] == "young"  # its bins hold their end
    assert mapping("age", "age").table["young"] == "young"
