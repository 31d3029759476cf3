"""An attribute that the package never heard of: its file, and everything that follows from it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml
from chat_server import ChatHandler, ChatServer, hasty, playing, sees_red
from imagebite_parts import expected, stated, written
from small_parts import image_name, write_csv, write_image_set

from detector_bench.dataset import ImageSet, check, import_folder
from detector_bench.detectors.vlm_judge import default_question
from detector_bench.errors import ConfigError, DataError
from detector_bench.labelling import DeskSettings, LabelStore
from detector_bench.others.imagebite.score_system import ImageBiTe
from detector_bench.site import ReportSettings
from detector_bench.study import Results, Study
from detector_bench.vocabulary import ATTRIBUTES, attributes_of, read_attributes, write_attributes
from detector_bench.vocabulary.columns import LABEL_COLUMNS
from detector_bench.vocabulary.taxonomies import own_mapping

CARE = "A covered head says nothing about a faith."


def definition(**own: Any) -> dict[str, Any]:
    classes = [
        {"name": "covered", "hint": "hat, scarf, hood", "key": "c", "answers": ["covered", "hat"]},
        {"name": "uncovered", "answers": ["uncovered", "bare"]},
    ]
    return {"classes": classes, "question": "Is the head covered?", "care": CARE, **own}


def write_definition(folder: Path, file: str, **own: Any) -> Path:
    path = folder / "attributes" / f"{file}.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(definition(**{"name": file, **own}), sort_keys=False), encoding="utf-8")
    return path


def labelled(folder: Path, name: str, count: int = 24, **own: Any) -> Path:
    """The images of `small_parts`: red ones are covered, blue ones are not, green ones cannot be judged."""
    write_image_set(folder, count)
    write_definition(folder, name, **own)
    words = ("covered", "uncovered", "low_quality")
    rows = [(image_name(number), "ann", name, words[number % 3], "") for number in range(count)]
    write_csv(folder / "labels.csv", LABEL_COLUMNS, rows)
    return folder


@pytest.fixture(autouse=True)
def _another_process() -> Iterator[None]:
    """What a process has read once, it knows; these tests stand for one each."""
    known, places = ATTRIBUTES._known, ATTRIBUTES._places
    yield
    ATTRIBUTES._known, ATTRIBUTES._places = known, places


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChatServer]:
    with playing(monkeypatch, tmp_path_factory.mktemp("certificates")) as running:
        yield running


# The file


@pytest.mark.parametrize(
    ("own", "message"),
    [
        ({"name": "gender"}, "name: 'gender' is built in (classes: male, female); accepted: another name"),
        ({"name": "Head cover"}, "name: 'Head cover' is no name; accepted: lower-case letters, digits"),
        ({"name": "all"}, "name: 'all' is reserved; accepted: any name but low_quality, others"),
        ({"classes": ["a", "b", "a"]}, "classes: the class 'a' stands here twice; accepted: each class once"),
        ({"classes": ["a", "low_quality"]}, "classes.1.name: 'low_quality' is reserved"),
        ({"classes": ["a", "filtered"]}, "classes.1.name: 'filtered' is reserved"),
        (
            {"classes": ["a", True]},
            "classes.1: a name, or a mapping with `name`, is expected (yes, no",
        ),
        ({"classes": ["a"]}, "classes: Tuple should have at least 2 items"),
        (
            {"classes": [{"name": "a", "key": "c"}, {"name": "b", "key": "c"}]},
            "classes: the key 'c' stands here twice; accepted: each key once",
        ),
        ({"classes": [{"name": "a", "key": "g"}, "b"]}, "classes.0.key: String should match pattern"),
        ({"classes": [{"name": "a", "hnt": "x"}, "b"]}, "unknown key 'hnt': did you mean 'hint'"),
        ({"kind": "measured"}, "kind is 'measured' and unit is missing; accepted: a unit"),
        ({"unit": {"name": "cm", "lowest": 0, "highest": 9}}, "kind is 'class' and unit is 'cm'"),
        (
            {
                "kind": "measured",
                "unit": {"name": "cm", "lowest": 0, "highest": 9},
                "classes": [{"name": "a", "from": 5}, {"name": "b", "from": 3}],
            },
            "classes begin with `from` 5, 3; accepted: a rising number within the unit's range",
        ),
        ({"reasons": ["blurred"]}, "reasons: 'blurred' is a reason already; accepted: a reason that is new"),
        ({"clases": []}, "unknown key 'clases': did you mean 'classes'"),
    ],
)
def test_a_mistake_is_named_with_file_key_and_what_is_accepted(
    tmp_path: Path, own: dict[str, Any], message: str
) -> None:
    path = write_definition(tmp_path, "wrong", **own)
    with pytest.raises(ConfigError) as caught:
        attributes_of(tmp_path)
    assert str(caught.value).startswith(f"{path}: ")
    assert message in str(caught.value)
    assert "wrong" not in ATTRIBUTES


@pytest.mark.parametrize("text", ["name: one\nname: two\n", "- name\n", "name: [", ""])
def test_a_file_that_is_no_mapping_or_says_a_key_twice_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "wrong.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=re.escape(str(path))):
        read_attributes([path])


def test_all_files_are_read_before_their_mistakes_are_told(tmp_path: Path) -> None:
    write_definition(tmp_path, "wrong_one", classes=["a"])
    write_definition(tmp_path, "wrong_two", kind="nominal")
    report = check(write_image_set(tmp_path / "images", 3))
    assert report.ok
    (tmp_path / "attributes").rename(tmp_path / "images" / "attributes")
    found = [str(problem) for problem in check(tmp_path / "images").problems]
    assert [text.partition(":")[0] for text in found] == [
        "attributes/wrong_one.yaml",
        "attributes/wrong_two.yaml",
    ]


def test_texts_that_are_not_given_follow_from_the_names(tmp_path: Path) -> None:
    path = tmp_path / "glasses.yaml"
    path.write_text("name: eye_wear\nclasses: [no_glasses, sun_glasses]\n", encoding="utf-8")
    known = read_attributes([path])["eye_wear"]
    assert (known.title, known.short, known.words) == ("Perceived eye wear", "Eye wear", "eye wear")
    assert known.question == "Which eye wear do you perceive?"
    assert [(each.text, each.key, each.answers) for each in known.choices] == [
        ("No glasses", "1", ("no glasses",)),
        ("Sun glasses", "2", ("sun glasses",)),
    ]
    assert "Which eye wear do you perceive? Answer with one of these only: no glasses, sun glasses, unknown." in (
        default_question("eye_wear") or ""
    )
    assert own_mapping({"bare": "no_glasses", "shades": "sun_glasses"}).target.attribute == "eye_wear"


def test_what_is_written_is_read_as_the_same(tmp_path: Path) -> None:
    own = {
        "kind": "measured",
        "unit": {"name": "cm", "lowest": 0, "highest": 90},
        "classes": [{"name": "short", "from": 0}, {"name": "long", "from": 20}],
        "reasons": [{"name": "hair_hidden", "hint": "below a hat"}],
        "judge": None,
    }
    write_definition(tmp_path / "one", "hair_length", **own)
    known = attributes_of(tmp_path / "one")
    write_attributes(known.values(), tmp_path / "two")
    assert attributes_of(tmp_path / "two") == known
    assert default_question("hair_length") is None


# Several image sets in one process


def test_a_name_means_one_thing_in_a_process(tmp_path: Path) -> None:
    first = labelled(tmp_path / "first", "head_wear")
    ImageSet.load(first)
    ImageSet.load(labelled(tmp_path / "same", "head_wear"))
    other = labelled(tmp_path / "other", "head_wear", classes=["covered", "uncovered", "half"])
    with pytest.raises(DataError) as caught:
        ImageSet.load(other)
    assert "'head_wear' means something else in" in str(caught.value)
    assert "classes covered, uncovered there, covered, uncovered, half here" in str(caught.value)
    assert ImageSet.load(first).attributes == ("head_wear",)


def test_another_image_sets_attribute_has_no_meaning_here(tmp_path: Path) -> None:
    folder = labelled(tmp_path / "mine", "scarf")
    assert ImageSet.load(folder).attributes == ("scarf",)
    alone = labelled(tmp_path / "alone", "scarf")
    (alone / "attributes" / "scarf.yaml").unlink()
    prompts = pd.read_csv(alone / "prompts.csv").assign(stated_scarf="covered")
    prompts.to_csv(alone / "prompts.csv", index=False)
    with pytest.raises(DataError) as caught:
        ImageSet.load(alone)
    assert "unknown attribute: 'scarf'" in str(caught.value)
    assert "unknown column: 'stated_scarf'" in str(caught.value)


# What follows from it


def test_labels_values_reasons_and_statements_are_checked_by_its_file(tmp_path: Path) -> None:
    folder = labelled(
        tmp_path / "set",
        "hair",
        kind="measured",
        unit={"name": "cm", "lowest": 0, "highest": 90},
        classes=[{"name": "covered", "from": 0}, {"name": "uncovered", "from": 20}],
        reasons=["hair_hidden"],
    )
    labels = pd.read_csv(folder / "labels.csv", keep_default_na=False).assign(value="")
    labels.loc[2, "reason"] = "hair_hidden"
    labels.loc[0, "value"], labels.loc[1, "value"] = "19", "21.5"
    labels.to_csv(folder / "labels.csv", index=False)
    prompts = pd.read_csv(folder / "prompts.csv").assign(stated_hair=["covered", ""])
    prompts.to_csv(folder / "prompts.csv", index=False)
    images = ImageSet.load(folder)
    assert images.measured("hair")["value"].dropna().tolist() == [19, 21.5]
    stated = images.stated("hair")
    assert stated is not None
    assert stated.to_dict() == {"p0": "covered", "p1": ""}
    labels.loc[0, "value"], labels.loc[3, "label"], labels.loc[5, "reason"] = "30", "cover", "hidden"
    labels.to_csv(folder / "labels.csv", index=False)
    prompts.assign(stated_hair="bald").to_csv(folder / "prompts.csv", index=False)
    with pytest.raises(DataError) as caught:
        ImageSet.load(folder)
    for message in (
        "value that contradicts the label 'covered': '30'",
        "unknown label for hair: 'cover' (accepted: covered, uncovered, low_quality, others)",
        "unknown reason for low_quality: 'hidden'",
        "unknown hair class: 'bald'",
    ):
        assert message in str(caught.value)


def test_an_import_brings_the_file_along(tmp_path: Path) -> None:
    origin = write_image_set(tmp_path / "origin", 4)
    for number in range(4):
        target = tmp_path / "tree" / "A" / "nurse" / f"{number}.png"
        target.parent.mkdir(parents=True, exist_ok=True)
        (origin / "images" / f"{image_name(number)}.png").rename(target)
    (tmp_path / "ratings.csv").write_text("file,rating\n0.png,hat\n1.png,uncovered\n", encoding="utf-8")
    made = import_folder(
        tmp_path / "tree",
        tmp_path / "made",
        labels=tmp_path / "ratings.csv",
        mapping={"image_id": "file", "label": "rating"},
        values={"hat": "covered"},
        attribute="cap",
        attribute_files=[write_definition(tmp_path, "cap")],
    )
    assert made.attributes == ("cap",)
    assert made.labels["label"].tolist() == ["covered", "uncovered"]
    assert set(attributes_of(made.root)) == {"cap"}


def test_the_desk_asks_in_the_files_words(tmp_path: Path) -> None:
    pytest.importorskip("fastapi")
    from fastapi.testclient import TestClient

    from detector_bench.labelling.web.app import make_app
    from detector_bench.labelling.web.desk import Desk

    folder = labelled(tmp_path / "set", "hood", reasons=[{"name": "head_cut_off", "text": "Head cut off"}])
    images = ImageSet.load(folder)
    settings = DeskSettings(attributes=("gender", "hood"))
    with LabelStore.open(tmp_path / "s.sqlite", images, settings=settings) as store:
        with TestClient(make_app(store, Desk(("ann",))), base_url="http://127.0.0.1:8765") as browser:
            session = browser.get("/api/ann/session").json()
            item = browser.get("/api/ann/items").json()["items"][0]
            choice = {"label": "low_quality", "reason": "head_cut_off"}
            answer = {"answer_id": "1", "item_id": item["item_id"], "answers": {"hood": choice, "gender": choice}}
            kept = browser.post("/api/ann/answers", json={"answers": [answer]}).json()["results"][0]
            wrong = {**answer, "answer_id": "2", "answers": {"hood": {"label": "capped"}}}
            refused = browser.post("/api/ann/answers", json={"answers": [wrong]}).json()["results"][0]
        given = [(each.question, each.choice.label, each.choice.reason) for each in store.given()]
    question = session["questions"][1]
    assert [question[key] for key in ("title", "text", "care")] == ["Perceived hood", "Is the head covered?", CARE]
    assert [(each["text"], each["hint"], each["key"]) for each in question["choices"]] == [
        ("Covered", "hat, scarf, hood", "c"),
        ("Uncovered", "", "1"),
    ]
    assert session["reasons"][-1] == {"label": "head_cut_off", "text": "Head cut off", "hint": "", "key": "6"}
    assert kept["status"] == "saved"
    assert "accepted: covered, uncovered, low_quality, others" in refused["message"]
    assert given == [("gender", "low_quality", "head_cut_off"), ("hood", "low_quality", "head_cut_off")]


def test_a_store_says_that_its_labels_stood_for_other_classes(tmp_path: Path, monkeypatch: Any) -> None:
    images = ImageSet.load(labelled(tmp_path / "set", "veil"))
    LabelStore.open(tmp_path / "s.sqlite", images, settings=DeskSettings(attributes=("veil",))).close()
    # As another process would, later.
    monkeypatch.setitem(ATTRIBUTES._known, "veil", ATTRIBUTES["gender"].model_copy(update={"name": "veil"}))
    with pytest.raises(ConfigError, match="of 'veil' with the classes covered, uncovered, not male, female"):
        LabelStore.open(tmp_path / "s.sqlite", images)


def sees_hats(handler: ChatHandler) -> None:
    """Asked in the file's words, it calls red covered and blue bare, but errs in a picture."""
    assert "Is there anything on this head?" in handler.fields["question"]
    sees_red(handler)


@pytest.fixture
def study(tmp_path: Path, server: ChatServer) -> Study:
    labelled(
        tmp_path / "set",
        "head_cover",
        judge="Is there anything on this head?",
        ambiguous=["half"],
        classes=[
            {"name": "covered", "key": "c", "answers": ["covered", "a man"]},  # as `sees_red` speaks
            {"name": "uncovered", "answers": ["uncovered", "a woman"]},
        ],
    )
    server.always = sees_hats
    judge = {"kind": "vlm_judge", "model": {"kind": "openai", **hasty(server)}, "questions": ["head_cover"]}
    curt = {**judge, "name": "curt", "questions": {"head_cover": "Is there anything on this head? One word."}}
    content = {"image_set": "set", "attributes": ["head_cover"], "detectors": [{**judge, "name": "judge"}, curt]}
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    return Study.from_yaml(tmp_path / "study.yaml")


@pytest.mark.slow
def test_a_study_from_one_file_to_tables_figures_and_report(study: Study, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    out = tmp_path / "results"
    result = study.run(out, cache_dir=tmp_path / "cache")
    metrics = result.metrics.query("t2i_model == 'all' and category == 'all' and prompt_id == 'all'")
    numbers = metrics[metrics["detector"] == "judge"].set_index("metric")
    assert numbers.loc["accuracy", "value"] == 1
    assert numbers.loc["filter_rate", "value"] == 1
    assert numbers.loc["recall_uncovered", "value"] == 1
    assert 0 < numbers.loc["accuracy", "ci_low"] < 1
    table = next(iter(result.tables.values()))
    assert f"Perceived head cover, as seen in synthetic images; not an identity. {CARE}" in table.all_notes
    # The image set may be gone: the result folder has what it needs, word for word.
    assert attributes_of(out) == attributes_of(tmp_path / "set")
    (tmp_path / "set").rename(tmp_path / "moved")
    opened = Results.open(out)
    assert opened.number("accuracy", detector="judge").value == 1
    written = opened.figures(tmp_path / "figures", only=["filter_plane"], formats=["png"])
    assert "perceived head cover" in (tmp_path / "figures" / "filter_plane.txt").read_text(encoding="utf-8")
    assert len(written.files) == 3
    (tmp_path / "moved").rename(tmp_path / "set")
    assert len(opened.rank("accuracy")["ranking_accuracy"].rows) == 2
    page = opened.report(settings=ReportSettings(pictures="none", figures=False)).page
    text = page.read_text(encoding="utf-8")
    assert "Which detectors of perceived head cover can be trusted?" in text
    assert f"Perceived head cover, as seen in synthetic images; not an identity. {CARE}" in text


def test_imagebite_judges_a_concern_that_is_an_own_attribute(tmp_path: Path) -> None:
    read_attributes([write_definition(tmp_path, "wheel_chair", classes=["wheelchair", "no_wheelchair"])])
    path = written(
        tmp_path, stated("disability", expected("wheelchair", 0.1), expected("none seen", 0.9), name="R")
    )
    settings = ImageBiTe(
        system="imagebite",
        requirements=path,
        concerns={"disability": "wheel_chair"},
        communities={"none seen": "no_wheelchair"},
    )
    (requirement,) = settings.read().requirements
    assert requirement.attribute == "wheel_chair"
    assert [each.meaning.labels for each in requirement.communities] == [("wheelchair",), ("no_wheelchair",)]
    with pytest.raises(DataError, match="no detector here judges it, the requirement is left out: 'disability'"):
        ImageBiTe(system="imagebite", requirements=path).read()


@pytest.mark.slow
def test_changed_classes_ask_for_another_evaluation(study: Study, tmp_path: Path, monkeypatch: Any) -> None:
    study.run(tmp_path / "results", cache_dir=tmp_path / "cache")
    others = ATTRIBUTES["gender"].model_copy(update={"name": "head_cover"})
    write_attributes([others], tmp_path / "set")
    monkeypatch.setitem(ATTRIBUTES._known, "head_cover", others)
    with pytest.raises(ConfigError, match=r"`classes.head_cover` is .*'male'.*computed with .*'covered'"):
        Results.open(tmp_path / "results")
