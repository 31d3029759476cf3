"""The labelling store's file and the images that it is about: what it opens, refuses and notices."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from labelling_sets import numbered, saying, write_image_set

from detector_bench.dataset import ImageSet
from detector_bench.errors import ConfigError
from detector_bench.labelling import (
    Answer,
    ChangeKind,
    DeskSettings,
    LabelStore,
    RefusedAnswerError,
    StoreError,
)


@pytest.fixture
def image_set(tmp_path: Path) -> ImageSet:
    return write_image_set(tmp_path / "set", numbered(20))


@pytest.fixture
def store(image_set: ImageSet) -> Iterator[LabelStore]:
    with LabelStore.open(image_set.root / "s.sqlite", image_set) as opened:
        yield opened


def reopened(store: LabelStore) -> LabelStore:
    store.close()
    return LabelStore.open(store.path, ImageSet.load(store.image_set.root, require_labels=False))


def given(store: LabelStore, annotator: str) -> dict[str, str]:
    rows = store.labels()
    rows = rows[rows["annotator"] == annotator]
    return dict(zip(rows["image_id"], rows["label"], strict=True))


def filled(path: Path, image_set: ImageSet) -> Path:
    """A store with an answer to every image, closed."""
    with LabelStore.open(path, image_set) as store:
        for item in numbered(20):
            store.record("ann", saying(item, "male"))
    return path


class TestOpening:
    def test_settings_are_decided_when_the_store_is_made(self, image_set: ImageSet, tmp_path: Path) -> None:
        path = tmp_path / "s.sqlite"
        made = DeskSettings(attributes=("gender", "age"), seed=3)
        LabelStore.open(path, image_set, settings=made).close()
        with LabelStore.open(path, image_set) as store:
            assert store.settings == made
            assert [question.name for question in store.questions] == ["gender", "age"]
        message = r"was made with attributes \['gender', 'age'\], not \['gender'\]; seed 3, not 4.*--store"
        with pytest.raises(ConfigError, match=message):
            LabelStore.open(path, image_set, settings=DeskSettings(seed=4))

    @pytest.mark.parametrize(
        ("version", "message"),
        [(3, r"the format 3 of a newer detector_bench.*reads format 2"), (0, "the format 0 of an older")],
    )
    def test_another_version_is_refused(
        self, image_set: ImageSet, tmp_path: Path, version: int, message: str
    ) -> None:
        path = filled(tmp_path / "s.sqlite", image_set)
        with sqlite3.connect(path) as other:
            other.execute(f"PRAGMA user_version={version}")
        content = path.read_bytes()
        with pytest.raises(StoreError, match=message):
            LabelStore.open(path, image_set)
        assert path.read_bytes() == content

    def test_other_files_are_refused_and_left_alone(self, image_set: ImageSet, tmp_path: Path) -> None:
        text, database = tmp_path / "notes.txt", tmp_path / "other.sqlite"
        text.write_text("my notes\n" * 200)
        with sqlite3.connect(database) as other:
            other.execute("CREATE TABLE log (entry TEXT)")
        for path, message in ((text, "no SQLite file, or it is damaged"), (database, "no labelling store")):
            with pytest.raises(StoreError, match=message):
                LabelStore.open(path, image_set)
        assert text.read_text() == "my notes\n" * 200
        with sqlite3.connect(database) as other:
            assert other.execute("SELECT name FROM sqlite_master").fetchall() == [("log",)]

    def test_an_empty_file_becomes_a_store(self, image_set: ImageSet, tmp_path: Path) -> None:
        # What is left of a store whose making was killed before its one transaction was through.
        (tmp_path / "s.sqlite").touch()
        with LabelStore.open(tmp_path / "s.sqlite", image_set) as store:
            assert store.progress("ann").total == 20

    def test_two_processes_may_make_it_at_once(self, image_set: ImageSet, tmp_path: Path) -> None:
        other = sqlite3.connect(tmp_path / "s.sqlite", isolation_level=None, check_same_thread=False)
        other.execute("BEGIN EXCLUSIVE")  # as the other process does while it makes the file a write-ahead one
        release = threading.Timer(0.3, lambda: other.execute("ROLLBACK"))
        release.start()
        with LabelStore.open(tmp_path / "s.sqlite", image_set) as store:
            assert store.progress("ann").total == 20
        release.join()
        other.close()

    def test_a_damaged_file_is_refused(self, image_set: ImageSet, tmp_path: Path) -> None:
        path = filled(tmp_path / "s.sqlite", image_set)
        content = bytearray(path.read_bytes())
        content[4096 : len(content) - 4096] = b"\xa5" * (len(content) - 8192)
        path.write_bytes(content)
        with pytest.raises(StoreError, match="damaged"):
            LabelStore.open(path, image_set)

    def test_a_missing_file_is_not_made_to_be_read(self, image_set: ImageSet, tmp_path: Path) -> None:
        with pytest.raises(StoreError, match="is missing"):
            LabelStore.open(tmp_path / "s.sqlite", image_set, read_only=True)
        assert not (tmp_path / "s.sqlite").exists()

    def test_a_store_of_another_image_set_is_refused(self, image_set: ImageSet, tmp_path: Path) -> None:
        path = filled(tmp_path / "s.sqlite", image_set)
        other = write_image_set(tmp_path / "other", [f"x{number}" for number in range(20)])
        with pytest.raises(
            StoreError, match=r"made for 'set', and of the 20 images that it knows, 0 are in 'other'"
        ):
            LabelStore.open(path, other)
        same_names = write_image_set(tmp_path / "namesakes", numbered(20))
        for name in numbered(20)[:11]:
            (same_names.root / "images" / f"{name}.png").write_bytes(b"a picture of another size")
        with pytest.raises(StoreError, match=r"of the 20 images that it knows, 9 are in 'namesakes'"):
            LabelStore.open(path, same_names)
        with LabelStore.open(path, same_names, accept_changes=True) as store:
            assert store.progress("ann").done == 9

    def test_an_image_set_may_move(self, image_set: ImageSet, tmp_path: Path) -> None:
        filled(image_set.root / "s.sqlite", image_set)
        moved = Path(shutil.move(image_set.root, tmp_path / "elsewhere"))
        with LabelStore.open(moved / "s.sqlite", ImageSet.load(moved, require_labels=False)) as store:
            assert store.progress("ann").done == 20


class TestReadingOnly:
    def test_nothing_is_written(self, image_set: ImageSet, tmp_path: Path) -> None:
        path = filled(tmp_path / "s.sqlite", image_set)
        content = path.read_bytes()
        more = write_image_set(image_set.root, [*numbered(20), "new"])
        with LabelStore.open(path, more, read_only=True) as store:
            assert store.progress("ann").done == 20
            assert [(c.image_id, c.kind) for c in store.changes()] == [("new", ChangeKind.ADDED)]
            with pytest.raises(StoreError, match="opened only to be read"):
                store.record("ann", saying("i001", "female"))
        assert path.read_bytes() == content

    def test_images_that_another_process_has_read_are_not_read_again(
        self, image_set: ImageSet, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for file in (image_set.root / "images").iterdir():
            os.utime(file, (1_700_000_000, 1_700_000_000))  # a file just written is not relied on
        path = image_set.root / "s.sqlite"
        with LabelStore.open(path, image_set) as writer, LabelStore.open(path, image_set) as reader:
            for item in numbered(20):
                writer.record("ann", saying(item, "male"))
            monkeypatch.setattr(Path, "read_bytes", lambda path: pytest.fail(f"{path} was read"))
            assert len(reader.labels()) == 20

    def test_it_follows_a_writer(self, store: LabelStore) -> None:
        with LabelStore.open(store.path, store.image_set, read_only=True) as reader:
            before = reader.version()
            store.record("ann", saying("i001", "male"))
            assert reader.version() > before
            assert given(reader, "ann") == {"i001": "male"}


@contextmanager
def nobody() -> Iterator[None]:
    """Be a user who may read the test's files and not write them."""
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs to become a user who may not write")
class TestReadOnlyDisk:
    @pytest.fixture
    def folder(self) -> Iterator[Path]:
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            folder.chmod(0o755)
            filled(folder / "s.sqlite", write_image_set(folder, numbered(20)))
            yield folder

    def test_a_store_that_cannot_be_written_says_so_in_a_line(self, folder: Path) -> None:
        image_set = ImageSet.load(folder, require_labels=False)
        with nobody(), pytest.raises(StoreError) as caught:
            LabelStore.open(folder / "s.sqlite", image_set)
        assert "cannot be used: it can only be read: make the file and its folder writable" in str(caught.value)
        assert "\n" not in str(caught.value)

    def test_it_can_be_read(self, folder: Path) -> None:
        image_set = ImageSet.load(folder, require_labels=False)
        with nobody(), LabelStore.open(folder / "s.sqlite", image_set, read_only=True) as store:
            assert store.progress("ann").done == 20

    def test_a_store_that_cannot_be_made_says_so_in_a_line(self, folder: Path) -> None:
        image_set = ImageSet.load(folder, require_labels=False)
        with nobody(), pytest.raises(StoreError) as caught:
            LabelStore.open(folder / "new.sqlite", image_set)
        assert "cannot be opened or made" in str(caught.value)
        assert "\n" not in str(caught.value)


class TestTroubleWhileOpen:
    def test_a_file_that_was_moved_takes_no_more_answers(self, store: LabelStore) -> None:
        store.record("ann", saying("i001", "male"))
        store.path.rename(store.path.with_name("backup.sqlite"))
        with pytest.raises(StoreError, match="moved, deleted or replaced while it was open"):
            store.record("ann", saying("i002", "male"))
        store.path.with_name("backup.sqlite").rename(store.path)
        assert store.record("ann", saying("i002", "male")).progress.done == 2

    def test_a_full_disk_loses_only_the_answer_that_it_refuses(self, store: LabelStore) -> None:
        store.record("ann", saying("i001", "male"))
        pages = store._opened.database.read("PRAGMA page_count")[0][0]
        store._opened.database.read(f"PRAGMA max_page_count={pages}")
        long = [saying("i002", "others", answer_id=str(number), note="x" * 2000) for number in range(100)]
        kept = 0

        def answer_until_full() -> None:
            nonlocal kept
            for answer in long:
                store.record("ann", answer)
                kept += 1

        with pytest.raises(StoreError, match="the disk is full; nothing of the last answer was kept"):
            answer_until_full()
        assert store.version() == kept + 1
        store._opened.database.read("PRAGMA max_page_count=1000000")
        assert not store.record("ann", long[kept]).repeated
        with sqlite3.connect(store.path) as other:
            assert other.execute("SELECT count(*) FROM log").fetchone() == (kept + 2,)

    def test_it_does_not_wait_for_ever_for_another_program(self, store: LabelStore) -> None:
        store._opened.database.read("PRAGMA busy_timeout=50")
        other = sqlite3.connect(store.path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match="another program has kept it locked"):
            store.record("ann", saying("i001", "male"))
        other.execute("ROLLBACK")
        other.close()
        assert not store.record("ann", saying("i001", "male")).repeated

    def test_a_closed_store_says_so(self, store: LabelStore) -> None:
        store.close()
        with pytest.raises(StoreError, match="is closed"):
            store.progress("ann")


class TestChangedImages:
    def test_an_answer_on_other_content_is_kept_flagged_and_asked_again(self, store: LabelStore) -> None:
        for item in ("i001", "i002"):
            store.record("ann", saying(item, "male"))
        store.record("ben", saying("i001", "female", answer_id="b"))
        (store.image_set.root / "images" / "i001.png").write_bytes(b"another picture")
        again = reopened(store)
        assert [(c.image_id, c.kind, c.answers) for c in again.changes()] == [("i001", ChangeKind.CHANGED, 2)]
        item = again.item("ann", "i001")
        assert (item.image_changed, item.done, item.answer) == (True, False, saying("i001", "male"))
        progress = again.progress("ann")
        assert (progress.done, progress.changed) == (1, 1)
        assert given(again, "ann") == {"i002": "male"}
        assert again.disagreements() == []
        assert len(again.labels(include_changed=True)) == 3
        assert again.record("ann", saying("i001", "female", answer_id="new")).item.done
        assert given(again, "ann") == {"i001": "female", "i002": "male"}
        again.close()

    def test_a_change_while_the_store_is_open_is_noticed_by_the_next_answer(self, store: LabelStore) -> None:
        store.record("ann", saying("i001", "male"))
        (store.image_set.root / "images" / "i001.png").write_bytes(b"another picture")
        store.record("ben", saying("i001", "male", answer_id="b"))
        assert store.item("ann", "i001").image_changed
        assert not store.item("ben", "i001").image_changed

    def test_a_file_that_was_only_touched_is_the_same_image(self, store: LabelStore) -> None:
        store.record("ann", saying("i001", "male"))
        path = store.image_set.root / "images" / "i001.png"
        content = path.read_bytes()
        path.unlink()
        path.write_bytes(content)
        again = reopened(store)
        assert again.changes() == []
        assert given(again, "ann") == {"i001": "male"}

    def test_an_image_that_vanished_cannot_be_judged_and_may_come_back(self, store: LabelStore) -> None:
        store.record("ann", saying("i001", "male"))
        path = store.image_set.root / "images" / "i001.png"
        content = path.read_bytes()
        path.unlink()
        with pytest.raises(RefusedAnswerError, match="image 'i001' cannot be shown: missing image file"):
            store.record("ben", saying("i001", "male", answer_id="b"))
        assert store.item("ben", "i001").problem == "missing image file"
        assert (store.progress("ann").done, store.progress("ann").changed) == (0, 1)
        assert store.record("ann", saying("i001", "male")).repeated  # a late repeat asks for no image
        assert store.record("ben", Answer("s", "i001", skipped=True)).progress.skipped == 1
        assert [(c.image_id, c.kind, c.answers) for c in store.changes()] == [("i001", ChangeKind.MISSING, 1)]
        assert store.labels().empty
        path.write_bytes(content)
        assert store.changes() == []
        assert given(store, "ann") == {"i001": "male"}
        assert store.item("ann", "i001").done

    def test_a_pair_with_another_seed_is_another_pair(self, tmp_path: Path) -> None:
        image_set = write_image_set(tmp_path / "pairs", numbered(4), pairs=True)
        path = tmp_path / "p.sqlite"
        with LabelStore.open(path, image_set, settings=DeskSettings(task="pairs")) as store:
            store.record("ann", saying("i001", "older", question="age_change"))
        image_set.images.loc[image_set.images["image_id"] == "i001", "seed_image_id"] = "seed_i002"
        with LabelStore.open(path, image_set) as store:
            assert store.item("ann", "i001").images == (("seed", "seed_i002"), ("edited", "i001"))
            assert store.item("ann", "i001").image_changed
            assert store.labels().empty

    def test_a_link_out_of_the_folder_is_not_followed(self, tmp_path: Path) -> None:
        write_image_set(tmp_path / "set", numbered(3))
        (tmp_path / "secret.txt").write_text("secret")
        (tmp_path / "set" / "images" / "i001.png").unlink()
        (tmp_path / "set" / "images" / "i001.png").symlink_to(tmp_path / "secret.txt")
        image_set = ImageSet.load(tmp_path / "set", require_labels=False)
        with LabelStore.open(tmp_path / "s.sqlite", image_set) as store:
            for read in (store.image_content, store.image_sha256):
                with pytest.raises(RefusedAnswerError, match="leaves the folder through a link"):
                    read("i001")
            with pytest.raises(RefusedAnswerError, match="no image 'i009'"):
                store.image_content("i009")
            assert store.image_content("i000") == b"picture of i000"
