"""Images that are sent back to be labelled again: who is asked, and what counts meanwhile and afterwards."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from labelling_sets import numbered, saying, write_image_set
from typer.testing import CliRunner

from detector_bench.cli.app import app
from detector_bench.errors import ConfigError
from detector_bench.labelling import Choice, DeskSettings, LabelStore, RefusedAnswerError

IDS = numbered(6)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LabelStore]:
    images = write_image_set(tmp_path / "set", IDS)
    settings = DeskSettings(calibration_images=1)
    with LabelStore.open(tmp_path / "set" / "labelling.sqlite", images, settings=settings) as opened:
        yield opened


def said(store: LabelStore, item_id: str, *, independent: bool = False) -> dict[str, str]:
    rows = store.labels(independent=independent)
    rows = rows[rows["image_id"] == item_id]
    return dict(zip(rows["annotator"], rows["label"], strict=True))


def test_a_former_label_counts_until_there_is_another(store: LabelStore) -> None:
    for item_id in IDS:
        store.record("ann", saying(item_id, "male", answer_id=f"a-{item_id}"))
        store.record("ben", saying(item_id, "male", answer_id=f"b-{item_id}"))
    sent = store.ask_again(IDS[:2])
    assert (sent.asked, sent.waiting, sent.unlabelled) == (2, 0, 0)
    assert (store.progress("ann").done, store.progress("ann").again) == (4, 2)
    assert store.item("ann", IDS[0]).asked_again
    assert said(store, IDS[0]) == {"ann": "male", "ben": "male"}
    store.record("ann", saying(IDS[0], "female", answer_id="anew"))
    assert said(store, IDS[0]) == {"ann": "female", "ben": "male"}
    # Agreement is measured on what was said before the image was pointed at.
    assert said(store, IDS[0], independent=True) == {"ann": "male", "ben": "male"}
    assert store.progress("ann").again == 1
    store.undo("ann", "undo")
    assert store.progress("ann").again == 2
    again = store.ask_again(IDS[:3])
    assert (again.asked, again.waiting) == (1, 2)


def test_a_former_decision_counts_until_somebody_answers_anew(store: LabelStore) -> None:
    store.record("ann", saying(IDS[0], "male", answer_id="a"))
    store.record("ben", saying(IDS[0], "female", answer_id="b"))
    store.adjudicate(IDS[0], "gender", Choice("male"), answer_id="d")
    store.ask_again([IDS[0]])
    assert said(store, IDS[0])["adjudicator"] == "male"
    store.record("ann", saying(IDS[0], "female", answer_id="a2"))
    assert said(store, IDS[0]) == {"ann": "female", "ben": "female"}
    store.record("ann", saying(IDS[0], "male", answer_id="a3"))
    assert [one.decision for one in store.disagreements()] == [None]
    store.adjudicate(IDS[0], "gender", Choice("female"), answer_id="d2")
    assert said(store, IDS[0])["adjudicator"] == "female"


def test_only_those_who_are_named_are_asked(store: LabelStore) -> None:
    for name in ("ann", "ben"):
        store.record(name, saying(IDS[0], "male", answer_id=name))
    store.ask_again([IDS[0]], ["ben"])
    assert (store.progress("ann").again, store.progress("ben").again) == (0, 1)
    assert store.ask_again([IDS[1]]).unlabelled == 1
    with pytest.raises(RefusedAnswerError, match="no item 'nowhere'"):
        store.ask_again([IDS[2], "nowhere"])


def test_a_closed_calibration_round_opens_for_what_was_sent_back(store: LabelStore) -> None:
    calibration = next(item.item_id for item in store.present_items() if item.in_calibration)
    store.record("ann", saying(calibration, "male", answer_id="a"))
    store.close_calibration("closed")
    assert store.item("ann", calibration).locked
    store.ask_again([calibration])
    store.record("ann", saying(calibration, "female", answer_id="a2"))
    assert said(store, calibration) == {"ann": "female"}
    assert said(store, calibration, independent=True) == {"ann": "male"}


def test_a_store_of_the_former_format_keeps_its_log(store: LabelStore, tmp_path: Path) -> None:
    store.record("ann", saying(IDS[0], "male", answer_id="a"))
    store.record("ann", saying(IDS[1], "female", answer_id="b"))
    path, image_set = store.path, store.image_set
    store.close()
    with sqlite3.connect(path) as database:
        script = database.execute("SELECT sql FROM sqlite_master WHERE name = 'log'").fetchone()[0]
        former = script.replace(", 'again', 'wording'", "").replace("CREATE TABLE log", "CREATE TABLE former")
        assert former != script
        triggers = [row[0] for row in database.execute("SELECT sql FROM sqlite_master WHERE type = 'trigger'")]
        for name in ("log_keeps_entries", "log_loses_nothing"):
            database.execute(f"DROP TRIGGER {name}")
        database.execute(former)
        database.execute("INSERT INTO former SELECT * FROM log")
        database.execute("DROP TABLE log")
        database.execute("ALTER TABLE former RENAME TO log")
        for trigger in triggers:
            database.execute(trigger)
        database.execute("PRAGMA user_version=1")
        before = database.execute("SELECT * FROM log").fetchall()
        with pytest.raises(sqlite3.IntegrityError, match="CHECK"):
            database.execute("INSERT INTO log VALUES (9, 'x', 'again', 'adjudicator', 'i', '{}', '{}', NULL, '')")
    with LabelStore.open(path, image_set, read_only=True) as old:
        assert said(old, IDS[0]) == {"ann": "male"}
    with LabelStore.open(path, image_set) as opened:
        assert opened.ask_again([IDS[0]]).asked == 1
    with sqlite3.connect(path) as database:
        assert database.execute("SELECT * FROM log").fetchall()[: len(before)] == before
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            database.execute("DELETE FROM log")


def test_the_command_reads_a_list_and_refuses_what_it_does_not_know(store: LabelStore, tmp_path: Path) -> None:
    store.record("ann", saying(IDS[0], "male", answer_id="a"))
    listed = tmp_path / "selected.csv"
    listed.write_text(f"image_id,faceres\n{IDS[0]},female\n{IDS[1]},male\n", encoding="utf-8")

    def send_back(what: str) -> str:
        command = ["label", str(store.image_set.root), "--again", what]
        return CliRunner().invoke(app, command, catch_exceptions=False).output

    assert "1 of 2 images are asked again of everybody who labelled them; 1 have no label yet." in send_back(
        str(listed)
    )
    assert store.progress("ann").again == 1  # a desk that is open takes it up
    with pytest.raises(ConfigError, match=r"no image 'i999'.*nothing was sent back"):
        send_back(f"{IDS[2]},i999")
    listed.write_text("name,label\nx,male\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"the column image_id is missing \(found: name, label\)"):
        send_back(str(listed))
