"""What the labelling store keeps, counts and refuses; its file is in test_labelling_files.py."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from labelling_sets import numbered, saying, write_image_set

from detector_bench.dataset import ImageSet, consensus
from detector_bench.errors import ConfigError
from detector_bench.labelling import (
    Answer,
    AnswerConflictError,
    Choice,
    DeskSettings,
    LabelStore,
    RefusedAnswerError,
)


@pytest.fixture
def image_set(tmp_path: Path) -> ImageSet:
    return write_image_set(tmp_path, numbered(20))


@pytest.fixture
def store(image_set: ImageSet) -> Iterator[LabelStore]:
    with LabelStore.open(image_set.root / "s.sqlite", image_set) as opened:
        yield opened


def reopened(store: LabelStore) -> LabelStore:
    store.close()
    return LabelStore.open(store.path, ImageSet.load(store.image_set.root, require_labels=False))


def log_size(store: LabelStore) -> int:
    with sqlite3.connect(store.path) as connection:
        return int(connection.execute("SELECT count(*) FROM log").fetchone()[0])


def given(store: LabelStore, annotator: str) -> dict[str, str]:
    rows = store.labels()
    rows = rows[rows["annotator"] == annotator]
    return dict(zip(rows["image_id"], rows["label"], strict=True))


class TestAnswers:
    def test_an_answer_counts_at_once_and_after_opening_again(self, store: LabelStore) -> None:
        recorded = store.record("ann", saying("i004", "low_quality", reason="blurred"))
        assert (recorded.repeated, recorded.item.done, recorded.progress.done) == (False, True, 1)
        again = reopened(store)
        item = again.item("ann", "i004")
        assert item.answer is not None
        assert item.answer.answers == {"gender": Choice("low_quality", reason="blurred")}
        assert again.item_at("ann", item.position) == item
        assert again.labels().to_dict("records") == [
            {
                "image_id": "i004",
                "annotator": "ann",
                "attribute": "gender",
                "label": "low_quality",
                "reason": "blurred",
            }
        ]
        again.close()

    def test_sending_it_again_changes_nothing(self, store: LabelStore) -> None:
        store.record("ann", saying("i004", "male"))
        repeated = store.record("ann", saying("i004", "male"))
        assert (repeated.repeated, repeated.progress.done, log_size(store)) == (True, 1, 1)
        assert reopened(store).record("ann", saying("i004", "male")).repeated

    def test_a_late_repeat_does_not_overrule_a_newer_answer(self, store: LabelStore) -> None:
        store.record("ann", saying("i004", "male"))
        store.record("ann", saying("i004", "female"))
        late = store.record("ann", saying("i004", "male"))
        assert late.repeated
        assert late.item.answer == saying("i004", "female")
        assert given(store, "ann") == {"i004": "female"}

    @pytest.mark.parametrize(
        ("annotator", "answer"),
        [
            ("ann", saying("i004", "female", answer_id="x")),
            ("ann", saying("i005", "male", answer_id="x")),
            ("ben", saying("i004", "male", answer_id="x")),
            ("ann", Answer("x", "i004", {"gender": Choice("male")}, milliseconds=7)),
        ],
        ids=["label", "item", "annotator", "time"],
    )
    def test_an_id_that_was_used_for_something_else_is_refused(
        self, store: LabelStore, annotator: str, answer: Answer
    ) -> None:
        store.record("ann", saying("i004", "male", answer_id="x"))
        with pytest.raises(AnswerConflictError, match="'x' belongs to another answer"):
            store.record(annotator, answer)
        assert log_size(store) == 1
        assert given(store, "ann") == {"i004": "male"}

    def test_the_newest_answer_counts_and_the_log_keeps_all(self, store: LabelStore) -> None:
        for label in ("male", "female", "others"):
            store.record("ann", saying("i004", label))
        assert given(store, "ann") == {"i004": "others"}
        assert store.progress("ann").done == 1
        assert log_size(store) == 3
        with sqlite3.connect(store.path) as connection:
            for statement in ("DELETE FROM log", "UPDATE log SET annotator = 'ben'"):
                with pytest.raises(sqlite3.IntegrityError, match="append-only"):
                    connection.execute(statement)

    def test_the_note_of_others_is_its_reason(self, store: LabelStore) -> None:
        store.record("ann", saying("i004", "others", note='  "non-binary", says the sign\n'))
        store.record("ann", saying("i005", "male", note="a hat"))
        assert store.labels()["reason"].tolist() == ['"non-binary", says the sign', ""]

    def test_a_skip_is_put_off_to_the_end(self, store: LabelStore) -> None:
        order = [item.item_id for item in store.items("ann", 0, 20)]
        store.record("ann", Answer("s", order[0], skipped=True))
        assert (store.progress("ann").skipped, store.progress("ann").next_position) == (1, 1)
        for name in order[1:]:
            store.record("ann", saying(name, "male"))
        assert store.progress("ann").next_position == 0
        store.record("ann", saying(order[0], "female"))
        progress = store.progress("ann")
        assert (progress.done, progress.skipped, progress.next_position) == (20, 0, None)

    def test_skipping_an_answered_image_takes_its_label_away(self, store: LabelStore) -> None:
        store.record("ann", saying("i004", "male"))
        store.record("ann", Answer("s", "i004", skipped=True))
        assert store.labels().empty
        assert store.progress("ann").done == 0

    def test_an_item_is_done_when_all_questions_are_answered(self, image_set: ImageSet) -> None:
        settings = DeskSettings(attributes=("gender", "age"))
        with LabelStore.open(image_set.root / "two.sqlite", image_set, settings=settings) as store:
            assert not store.record("ann", saying("i004", "male")).item.done
            both = {"gender": Choice("male"), "age": Choice("elderly", value=71)}
            assert store.record("ann", Answer("b", "i004", both)).item.done
            table = store.labels()
            assert table[["attribute", "label", "value"]].to_numpy().tolist() == [
                ["gender", "male", ""],
                ["age", "elderly", "71"],
            ]
            store.undo("ann", "u")
            assert store.labels()["attribute"].tolist() == ["gender"]

    def test_pace_is_the_median_time_per_image(self, store: LabelStore) -> None:
        assert store.progress("ann").seconds_per_image is None
        # The second key press at i001 has its whole time; the times are 4, 2.5 and 1 s, and one was not measured.
        for number, (item, time) in enumerate(
            [("i001", 3000), ("i001", 4000), ("i002", 2500), ("i003", 1000), ("i004", None)]
        ):
            store.record("ann", Answer(f"a{number}", item, {"gender": Choice("male")}, milliseconds=time))
        assert store.progress("ann").seconds_per_image == 2.5

    def test_many_threads_share_a_store(self, store: LabelStore) -> None:
        def label(name: str) -> None:
            for item in numbered(20):
                store.record(name, saying(item, "male", answer_id=f"{name}-{item}"))

        names = [f"annotator {number}" for number in range(8)]
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(label, names))
        assert store.annotators() == names
        assert log_size(store) == 160
        assert len(store.labels().drop_duplicates(["image_id", "annotator"])) == 160


class TestBlindness:
    def test_annotators_get_nothing_of_each_other(self, store: LabelStore) -> None:
        before = store.items("ben", 0, 20), store.progress("ben")
        store.record("ann", saying("i004", "male", note="secret"))
        store.record("ann", Answer("s", "i005", skipped=True))
        assert (store.items("ben", 0, 20), store.progress("ben")) == before
        assert store.answers("ben") == []
        recorded = store.record("ben", saying("i004", "female", answer_id="b"))
        assert "secret" not in repr((recorded, store.items("ben", 0, 20), store.undo("ben", "u")))


class TestUndo:
    def test_the_answer_before_counts_again(self, store: LabelStore) -> None:
        store.record("ann", saying("i004", "male"))
        store.record("ann", saying("i004", "female"))
        undone = store.undo("ann", "u1")
        assert undone.item is not None
        assert undone.item.answer == saying("i004", "male")
        assert given(store, "ann") == {"i004": "male"}
        second = store.undo("ann", "u2")
        assert second.item is not None
        assert (second.item.answer, second.progress.done) == (None, 0)
        assert store.undo("ann", "u3").item is None
        assert log_size(store) == 5  # it is a row, not a deletion

    def test_sending_it_again_undoes_no_second_answer(self, store: LabelStore) -> None:
        store.record("ann", saying("i004", "male"))
        store.record("ann", saying("i005", "male"))
        first, again = store.undo("ann", "u"), store.undo("ann", "u")
        assert (first.repeated, again.repeated) == (False, True)
        assert first.item == again.item
        assert given(reopened(store), "ann") == {"i004": "male"}

    def test_one_that_found_nothing_does_not_strike_later(self, store: LabelStore) -> None:
        assert store.undo("ann", "u").item is None
        store.record("ann", saying("i004", "male"))
        assert store.undo("ann", "u").item is None
        assert given(store, "ann") == {"i004": "male"}

    def test_a_given_answer_can_be_undone_by_its_owner_once(self, store: LabelStore) -> None:
        store.record("ann", saying("i004", "male", answer_id="a"))
        store.record("ann", saying("i005", "female"))
        with pytest.raises(RefusedAnswerError, match="ben has no answer 'a'"):
            store.undo("ben", "u", answer_id="a")
        store.undo("ann", "u", answer_id="a")
        assert given(store, "ann") == {"i005": "female"}
        with pytest.raises(RefusedAnswerError, match="ann has no answer 'a'"):
            store.undo("ann", "v", answer_id="a")


class TestRefusals:
    @pytest.mark.parametrize(
        ("answer", "message"),
        [
            (saying("nowhere", "male"), "no item 'nowhere'"),
            (saying("i001", "young", question="age"), "unknown question 'age'"),
            (saying("i001", "man"), r"unknown label 'man' \(accepted: male, female, low_quality, others\)"),
            (saying("i001", "low_quality", reason="dark"), "unknown reason 'dark'.*several_people"),
            (saying("i001", "male", reason="blurred"), "unknown reason 'blurred'.*belong to low_quality"),
            (saying("i001", "others", note="x" * 2001), "the note is too long"),
            (saying("i001", "others", note="\ud800"), "cannot be stored"),
            (saying("i001", "others", note="a\0b"), "cannot be stored"),
            (Answer("a", "i001", {"gender": Choice("male", value=3)}), "'male' takes no number"),
            (Answer("a", "i001"), "the answer is empty"),
            (Answer("a", "i001", {"gender": Choice("male")}, skipped=True), "skipped and answered at once"),
            (Answer("a", "i001", {"gender": Choice("male")}, milliseconds=-1), "milliseconds is -1"),
            (saying("i001", "male", answer_id="a\nb"), "not accepted"),
            (Answer("", "i001", {"gender": Choice("male")}), "not accepted"),
        ],
    )
    def test_answers(self, store: LabelStore, answer: Answer, message: str) -> None:
        with pytest.raises(RefusedAnswerError, match=message):
            store.record("ann", answer)
        assert log_size(store) == 0

    @pytest.mark.parametrize("value", [-1, 120.5, float("nan")])
    def test_ages_out_of_range(self, image_set: ImageSet, value: float) -> None:
        settings = DeskSettings(attributes=("age",))
        with LabelStore.open(image_set.root / "age.sqlite", image_set, settings=settings) as store:
            answer = Answer("a", "i001", {"age": Choice("young", value=value)})
            with pytest.raises(RefusedAnswerError, match=r"the number is .* \(accepted: 0 to 120\)"):
                store.record("ann", answer)

    @pytest.mark.parametrize("name", ["", " ", " ann", "adjudicator", "Consensus", "a\tb", "x" * 101, "\ud800"])
    def test_names(self, store: LabelStore, name: str) -> None:
        with pytest.raises(ConfigError, match=r"annotator .*accepted: a name such as 'ann'"):
            store.items(name, 0, 1)


class TestCalibration:
    def test_answers_are_locked_by_the_discussion_and_revised_after_it_is_reopened(
        self, store: LabelStore
    ) -> None:
        first, second = (item.item_id for item in store.items("ann", 0, 2))  # the whole round of 20 images
        store.record("ann", saying(first, "male"))
        assert store.calibration().done == {"ann": 1}
        closed = store.close_calibration("c1")
        assert (closed.total, closed.discussed, store.progress("ann").calibration_discussed) == (2, True, True)
        assert store.item("ann", first).locked
        for attempt in (
            lambda: store.record("ann", saying(first, "female")),
            lambda: store.undo("ann", "u"),
        ):
            with pytest.raises(AnswerConflictError, match=r"calibration round.*reopened"):
                attempt()
        assert store.record("ann", saying(first, "male")).repeated  # a late repeat is no revision
        store.record("ann", saying(second, "male"))  # who comes late may still answer
        assert not store.reopen_calibration("c2").discussed
        store.record("ann", saying(first, "female"))
        again = reopened(store)
        assert given(again, "ann") == {first: "female", second: "male"}
        # What people said on their own is what they said before the first discussion.
        independent = again.labels(independent=True)
        assert independent[["image_id", "label"]].to_numpy().tolist() == [[first, "male"]]

    def test_marking_it_again_changes_nothing(self, store: LabelStore) -> None:
        store.close_calibration("c")
        store.reopen_calibration("r")
        assert not store.close_calibration("c").discussed
        with pytest.raises(AnswerConflictError):
            store.reopen_calibration("c")


class TestDisagreements:
    def test_they_are_found_decided_and_taken_back(self, store: LabelStore) -> None:
        for name, labels in {"ann": "mmlo", "ben": "mflm"}.items():
            for item, letter in zip(numbered(4), labels, strict=True):
                label = {"m": "male", "f": "female", "l": "low_quality", "o": "others"}[letter]
                reason = "blurred" if (name, label) == ("ann", "low_quality") else ""
                store.record(name, saying(item, label, answer_id=f"{name}{item}", reason=reason))
        found = store.disagreements()  # another reason for low_quality is none
        assert [one.item_id for one in found] == ["i001", "i003"]
        assert found[0].choices == {"ann": Choice("male"), "ben": Choice("female")}
        assert found[0].decision is None

        decision = store.adjudicate("i001", "gender", Choice("female"), answer_id="d1")
        assert decision.choice == Choice("female")
        assert store.adjudicate("i003", "gender", None, answer_id="d2").choice is None
        agreed = consensus(store.labels()).set_index("image_id")
        assert agreed["label"].to_dict() == {
            "i000": "male",
            "i001": "female",
            "i002": "low_quality",
            "i003": "low_quality",
        }
        assert agreed["reason"].to_dict()["i003"] == "disagreement"
        assert "adjudicator" not in set(store.labels(independent=True)["annotator"])
        assert store.annotators() == ["ann", "ben"]

        assert store.undo_adjudication("u", answer_id="d1") == "i001"
        assert [one.decision is None for one in store.disagreements()] == [True, False]
        assert store.undo_adjudication("v") == "i003"
        assert store.undo_adjudication("w") is None

    def test_a_label_that_changes_later_makes_the_decision_outdated(self, store: LabelStore) -> None:
        store.record("ann", saying("i001", "male"))
        store.record("ben", saying("i001", "female"))
        store.adjudicate("i001", "gender", Choice("male"), answer_id="d")
        store.record("ben", saying("i001", "others"))
        decision = store.disagreements()[0].decision
        assert decision is not None
        assert decision.outdated
        store.adjudicate("i001", "gender", Choice("others", note="as the sign says"), answer_id="d2")
        decision = reopened(store).disagreements()[0].decision
        assert decision is not None
        assert (decision.outdated, decision.choice) == (False, Choice("others", note="as the sign says"))

    def test_what_one_person_said_is_no_disagreement(self, store: LabelStore) -> None:
        store.record("ann", saying("i001", "male"))
        with pytest.raises(RefusedAnswerError, match="fewer than two annotators"):
            store.adjudicate("i001", "gender", Choice("male"), answer_id="d")
        with pytest.raises(RefusedAnswerError, match="unknown label 'man'"):
            store.adjudicate("i001", "gender", Choice("man"), answer_id="d")
