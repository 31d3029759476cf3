"""Languages, questions of one's own and guidelines of the labelling desk."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from labelling_sets import numbered, write_image_set
from web_texts import texts_of_the_pages

pytest.importorskip("fastapi", reason="needs the extra label")

from labelling_desk import client_of

from detector_bench.errors import ConfigError
from detector_bench.labelling import DeskSettings, LabelStore, Question, Task
from detector_bench.labelling.questions import questions_of
from detector_bench.labelling.web.desk import Desk
from detector_bench.labelling.web.guidelines import guideline_for
from detector_bench.labelling.web.languages import Words, all_texts, check_labels, read_language, read_questions
from detector_bench.labelling.web.wording import question_view, reason_views
from detector_bench.vocabulary import ATTRIBUTES

HERE = Path(__file__)
LANGUAGES = ("de", "es")
OWN = """\
questions:
  - name: race
    question: {en: Who is it?, de: Wer ist das?}
    classes: [south_asian, {white: Pale}, {black: {de: Dunkel}}]
  - name: gender
"""


def test_every_text_of_the_pages_can_be_translated_and_no_other_is() -> None:
    assert texts_of_the_pages() == set(all_texts())


@pytest.mark.parametrize("code", LANGUAGES)
def test_a_translation_is_whole(code: str) -> None:
    language = read_language(code, image_set=HERE.parent)
    assert language.missing() == []
    assert set(language.texts) == set(all_texts())
    assert set(language.reasons) == {each["label"] for each in reason_views()}
    for question in [*questions_of(Task.PAIRS).values(), *(each for each in _built_in())]:
        words = language.questions[question.name]
        assert all((words.question, words.title, words.short))
        if question.name != "skin_tone":  # its shades have numbers
            assert set(words.classes) == set(question.classes), question.name


def _built_in() -> list[Question]:
    return [questions_of(Task.IMAGES)[name] for name in ATTRIBUTES.built_in]


@pytest.mark.parametrize("code", ["en", *LANGUAGES])
def test_each_attribute_has_a_guideline_that_names_its_answers_as_the_buttons_do(code: str) -> None:
    words = Words(read_language(code, image_set=HERE.parent))
    for question in _built_in():
        text = guideline_for([question], task=Task.IMAGES, words=words, image_set=HERE.parent)
        assert text.count("\n# ") == 0
        assert text.startswith("# ")
        if question.name == "skin_tone":
            continue
        for choice in question_view(question, task=Task.IMAGES, words=words)["choices"]:
            assert choice["text"].lower() in text.lower(), (question.name, choice["text"])


def test_an_image_set_brings_texts_of_its_own(tmp_path: Path) -> None:
    images = write_image_set(tmp_path / "set", numbered(2))
    (images.root / "guidelines").mkdir()
    (images.root / "guidelines" / "gender.md").write_text("## Ours\n", encoding="utf-8")
    (images.root / "guidelines" / "gender.de.md").write_text("## Unseres\n", encoding="utf-8")
    (images.root / "desk_texts").mkdir()
    (images.root / "desk_texts" / "nl.yaml").write_text(
        "language: nl\nname: Nederlands\ntexts: {Skip: Overslaan}\n", encoding="utf-8"
    )
    (images.root / "desk_texts" / "de.yaml").write_text(
        "language: de\ntexts: {Skip: Weglassen}\n", encoding="utf-8"
    )
    german, dutch = (read_language(code, image_set=images.root) for code in ("de", "nl"))
    assert (german.texts["Skip"], german.texts["Undo"], german.missing()) == ("Weglassen", "Rückgängig", [])
    assert len(dutch.missing()) == len(all_texts()) - 1
    gender = questions_of(Task.IMAGES)["gender"]
    for language, title in ((german, "## Unseres"), (dutch, "## Ours")):
        text = guideline_for([gender], task=Task.IMAGES, words=Words(language), image_set=images.root)
        assert title in text
    with pytest.raises(ConfigError, match=r"unknown language 'fr'.*desk_texts/fr\.yaml"):
        read_language("fr", image_set=images.root)
    (tmp_path / "x.yaml").write_text(
        "language: nl\ntexts: {'{n} of {total}': '{n} van alles'}\n", encoding="utf-8"
    )
    with pytest.raises(ConfigError, match=r"has the places \{n\}; accepted: \{n\}, \{total\}"):
        read_language(str(tmp_path / "x.yaml"), image_set=images.root)


def test_own_questions_change_what_is_read_and_not_what_is_stored(tmp_path: Path) -> None:
    file = tmp_path / "questions.yaml"
    file.write_text(OWN, encoding="utf-8")
    own = read_questions(file)
    images = write_image_set(tmp_path / "set", numbered(2))
    settings = DeskSettings(attributes=("gender", "race"), calibration_images=0)
    german = Words(read_language("de", image_set=images.root), own)
    desk = Desk(("ann", "ben"), words=Words(own=own), words_of={"ben": german})
    with LabelStore.open(tmp_path / "s.sqlite", images, settings=settings) as store:
        client = client_of(store, desk)
        ann, ben = (client.get(f"/api/{name}/session").json() for name in ("ann", "ben"))
        assert [question["name"] for question in ann["questions"]] == ["race", "gender"]
        race = ann["questions"][0]
        assert race["text"] == "Who is it?"
        assert [(each["label"], each["text"], each["key"]) for each in race["choices"]] == [
            ("south_asian", "South Asian", "1"),
            ("white", "Pale", "2"),
            ("black", "Black", "3"),
        ]
        assert [each["text"] for each in ben["questions"][0]["choices"]] == ["Südasiatisch", "Pale", "Dunkel"]
        assert ben["questions"][0]["text"] == "Wer ist das?"
        sent = {
            "answer_id": "1",
            "item_id": "i000",
            "answers": {"race": {"label": "white"}, "gender": {"label": "female"}},
            "asking": {"language": ben["language"], "wording": ben["wording"]},
        }
        assert client.post("/api/ben/answers", json={"answers": [sent]}).json()["results"][0]["status"] == "saved"
        asking = store.answers("ben")[0].answer.asking
        asked = store.wordings()[asking.wording]
        assert sorted(store.labels()["label"]) == ["female", "white"]
    assert asking.language == "de"
    assert asked["questions"][0]["text"] == "Wer ist das?"
    assert list(asked["questions"][0]["answers"]) == ["south_asian", "white", "black"]
    page = client.get("/label/ben").text
    assert re.search(r'<html lang="de">', page)
    assert "Auslassen" in page


def test_questions_that_cannot_be_asked_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "questions.yaml"
    classes = {"gender": ("male", "female")}
    for text, message in (
        ("questions: []", "questions"),
        ("questions: [{name: gender}, {name: gender}]", "one stands there twice"),
    ):
        file.write_text(text, encoding="utf-8")
        with pytest.raises(ConfigError, match=message):
            read_questions(file)
    for text, message in (
        ("questions: [{name: gendre}]", "unknown question 'gendre'.*gender"),
        (
            "questions: [{name: gender, classes: [male, femal]}]",
            r"unknown label 'femal' \(accepted: male, female\)",
        ),
        ("questions: [{name: gender, classes: [male]}]", "two labels or more"),
    ):
        file.write_text(text, encoding="utf-8")
        with pytest.raises(ConfigError, match=message):
            check_labels(read_questions(file).values(), classes, place=file)


@pytest.mark.parametrize(
    ("refused", "said"),
    [
        (["--questions", "own.yaml"], "gender"),
        (["--grid", "4", "--propose", "nowhere"], "nowhere"),
    ],
)
def test_what_is_refused_leaves_no_store_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: list[str], said: str
) -> None:
    from typer.testing import CliRunner

    from detector_bench.cli.app import app

    write_image_set(tmp_path / "images", numbered(2))
    (tmp_path / "own.yaml").write_text("questions:\n  - {name: gender, classes: [dog]}\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, ["label", "images", "--port", "0", "--annotator", "ann", *refused])
    assert result.exit_code == 1
    assert said in str(result.exception)
    assert not list((tmp_path / "images").glob("labelling*"))
