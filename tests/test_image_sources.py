"""Images in tar files and Parquet files, the copies of distant ones, and what a path may name."""

from __future__ import annotations

import copy
import io
import os
import sys
import tarfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from detector_bench.dataset import ImageSet
from detector_bench.dataset.decoding import ImageError
from detector_bench.dataset.image_paths import address_problem, shown, without_secrets
from detector_bench.dataset.image_sources import ImageSources
from detector_bench.dataset.image_sources.local_copies import LocalCopies
from detector_bench.errors import DataError, MissingExtraError

PICTURES = {f"{number:06d}.png": bytes([number]) * (700 + number) for number in range(1, 12)}


def write_tar(path: Path, members: dict[str, bytes], *, format: int = tarfile.PAX_FORMAT) -> None:  # noqa: A002
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w", format=format) as archive:
        for name, data in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))


def error_of(sources: ImageSources, path: str, **given: object) -> ImageError:
    with pytest.raises(ImageError) as caught:
        sources.read(path, **given)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)
    return caught.value


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "set").mkdir()
    return tmp_path / "set"


@pytest.fixture
def sources(root: Path, tmp_path: Path) -> ImageSources:
    return ImageSources(root, folder=tmp_path / "kept")


class TestTarFiles:
    @pytest.mark.parametrize("format", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
    def test_members_are_read_by_name(self, root: Path, sources: ImageSources, format: int) -> None:  # noqa: A002
        members = PICTURES | {"deep/" * 15 + "a name with blanks and ü.png": b"long", "./here.png": b"here"}
        if format != tarfile.USTAR_FORMAT:
            members["x" * 120 + ".png"] = b"longest"
        write_tar(root / "shards" / "000.tar", members, format=format)
        for name, data in members.items():
            assert sources.read(f"shards/000.tar#{name}") == data
        assert sources.read("shards/000.tar#here.png") == b"here"

    def test_an_archive_is_indexed_once_for_all_threads_and_processes(
        self, root: Path, tmp_path: Path, sources: ImageSources, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write_tar(root / "a.tar", PICTURES)
        opened = []
        real = tarfile.open
        monkeypatch.setattr(tarfile, "open", lambda *args, **named: opened.append(1) or real(*args, **named))
        paths = [f"a.tar#{name}" for name in PICTURES]
        with ThreadPoolExecutor(8) as pool:
            assert list(pool.map(sources.read, paths)) == list(PICTURES.values())
        assert len(opened) == 1
        assert copy.deepcopy(sources) is copy.deepcopy(sources), "connections would be made anew for each task"
        assert [copy.deepcopy(sources).read(path) for path in paths] == list(PICTURES.values())
        assert len(opened) == 1, "the index was not kept"

    def test_no_member_name_reaches_the_disk(self, root: Path, tmp_path: Path, sources: ImageSources) -> None:
        (tmp_path / "secret.png").write_bytes(b"secret")
        names = ["../secret.png", str(tmp_path / "secret.png")]
        write_tar(root / "a.tar", {names[0]: b"in the archive"})
        before = sorted(tmp_path.rglob("*"))
        assert sources.read(f"a.tar#{names[0]}") == b"in the archive"
        assert error_of(sources, f"a.tar#{names[1]}").reason == "missing_file"
        assert [path for path in sorted(tmp_path.rglob("*")) if "kept" not in path.parts] == before

    def test_links_and_folders_in_an_archive_are_no_images(self, root: Path, sources: ImageSources) -> None:
        with tarfile.open(root / "a.tar", "w") as archive:
            for name, kind in (
                ("link.png", tarfile.SYMTYPE),
                ("hard.png", tarfile.LNKTYPE),
                ("d", tarfile.DIRTYPE),
            ):
                member = tarfile.TarInfo(name)
                member.type, member.linkname = kind, "/etc/passwd"
                archive.addfile(member)
            archive.addfile(tarfile.TarInfo("empty.png"))
        for name in ("link.png", "hard.png", "d"):
            assert error_of(sources, f"a.tar#{name}").reason == "missing_file"
        assert error_of(sources, "a.tar#empty.png").reason == "empty_file"

    def test_an_archive_that_changed_after_it_was_listed_is_an_error_until_it_is_listed_again(
        self, root: Path, sources: ImageSources
    ) -> None:
        write_tar(root / "a.tar", PICTURES)
        path = "a.tar#000003.png"
        (mark,) = sources.marks([path])
        assert sources.read(path, mark=mark) == PICTURES["000003.png"]
        write_tar(root / "b.tar", {"000003.png": b"another picture"})
        (root / "b.tar").replace(root / "a.tar")
        assert error_of(sources, path, mark=mark).reason == "changed"
        assert sources.read(path) == b"another picture"

    def test_an_index_beside_the_archive_is_used_and_verified(self, root: Path, sources: ImageSources) -> None:
        write_tar(root / "a.tar", PICTURES)
        write_tar(root / "b.tar", {"other.png": b"1", **PICTURES})
        with tarfile.open(root / "a.tar") as archive:
            lines = [f"png {member.offset_data} {member.size} {member.name}" for member in archive]
        for name in ("a", "b"):
            (root / f"{name}.idx").write_text("\n".join([f"v1.2 {len(lines)}", *lines[:5]]) + "\n")
        assert sources.read("a.tar#000005.png") == PICTURES["000005.png"]
        assert error_of(sources, "a.tar#000006.png").reason == "missing_file", "the index was not used"
        assert error_of(sources, "b.tar#000005.png").reason == "changed"

    def test_a_damaged_archive_is_one_line_for_each_image(self, root: Path, sources: ImageSources) -> None:
        write_tar(root / "whole.tar", PICTURES)
        whole = (root / "whole.tar").read_bytes()
        (root / "cut.tar").write_bytes(whole[:3000])
        (root / "text.tar").write_text("no archive " * 100)
        (root / "zeros.tar").write_bytes(bytes(10240))
        for name in ("cut", "text", "zeros"):
            assert error_of(sources, f"{name}.tar#000011.png").reason == "corrupt"
        assert error_of(sources, "gone.tar#000011.png").reason == "missing_file"
        os.mkfifo(root / "pipe.tar")
        assert error_of(sources, "pipe.tar#1.png").reason in ("not_a_file", "corrupt")

    def test_a_large_member_is_refused_before_it_is_read(self, root: Path, sources: ImageSources) -> None:
        write_tar(root / "a.tar", {"1.png": bytes(2000)})
        assert error_of(sources, "a.tar#1.png", max_bytes=1999).reason == "too_large"
        assert sources.read("a.tar#1.png", max_bytes=2000) == bytes(2000)


class TestParquetFiles:
    @pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary(), "struct"])
    def test_rows_are_read_by_number_in_any_order(self, root: Path, sources: ImageSources, kind: object) -> None:
        cells = list(PICTURES.values())
        if kind == "struct":
            image = pa.array([{"bytes": each, "path": "../../x.png"} for each in cells])
        else:
            image = pa.array(cells, kind)
        pq.write_table(pa.table({"id": range(len(cells)), "image": image}), root / "a.parquet", row_group_size=4)
        for row in (0, 1, 10, 3, 4, 9, 0):
            assert sources.read(f"a.parquet#{row}") == cells[row]
            assert sources.read(f"a.parquet#image/{row}") == cells[row]

    def test_rows_in_order_are_read_once_and_little_is_held(
        self, root: Path, sources: ImageSources, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        cells = [os.urandom(100_000) for _ in range(300)]
        pq.write_table(pa.table({"image": cells}), root / "a.parquet", row_group_size=20)
        read = []
        local = sources.local
        real = local.read
        monkeypatch.setattr(
            local,
            "read",
            lambda *args, **named: read.append(named["end"] - named["start"]) or real(*args, **named),
        )
        before = pa.total_allocated_bytes()
        with ThreadPoolExecutor(4) as pool:
            for start in range(0, 300, 16):
                rows = range(start, min(start + 16, 300))
                assert (
                    list(pool.map(lambda row: sources.read(f"a.parquet#{row}"), rows)) == cells[start : start + 16]
                )
        assert sum(read) < 1.2 * sum(map(len, cells))
        assert pa.total_allocated_bytes() - before < 15_000_000, "a row group takes 2 MB, the whole column 30 MB"

    def test_what_a_row_lacks_is_said(self, root: Path, sources: ImageSources) -> None:
        image = pa.array([{"bytes": None, "path": "x.png"}, None, {"bytes": b"", "path": None}])
        pq.write_table(pa.table({"image": image, "id": ["a", "b", "c"]}), root / "a.parquet")
        pq.write_table(pa.table({"one": [b"1"], "two": [b"2"]}), root / "two.parquet")
        (root / "text.parquet").write_text("no table")
        for path, reason, said in (
            ("a.parquet#0", "missing_file", "no bytes"),
            ("a.parquet#1", "missing_file", "no bytes"),
            ("a.parquet#2", "empty_file", ""),
            ("a.parquet#3", "missing_file", "the file has 3 rows"),
            ("a.parquet#id/0", "missing_file", "there are: image"),
            ("two.parquet#0", "missing_file", "there are: one, two"),
            ("two.parquet#two/0", None, ""),
            ("text.parquet#0", "corrupt", ""),
            ("gone.parquet#0", "missing_file", ""),
        ):
            if reason is None:
                assert sources.read(path) == b"2"
                continue
            error = error_of(sources, path)
            assert (error.reason, said in error.detail) == (reason, True), error

    def test_a_file_that_changes_between_two_rows_is_an_error(self, root: Path, sources: ImageSources) -> None:
        pictures = {"image": [os.urandom(2_000_000) for _ in range(9)]}
        pq.write_table(pa.table(pictures), root / "a.parquet", row_group_size=1)
        (mark,) = sources.marks(["a.parquet#0"])
        sources.read("a.parquet#0", mark=mark)
        pictures["image"][0] = pictures["image"][1]
        pq.write_table(pa.table(pictures), root / "a.parquet", row_group_size=1)
        assert error_of(sources, "a.parquet#8", mark=mark).reason == "changed"


class TestLocalFiles:
    def test_files_are_read_and_marked_as_they_are(self, root: Path, sources: ImageSources) -> None:
        (root / "a#1.png").write_bytes(b"one")
        assert sources.read("a#1.png") == b"one"
        first, gone = sources.marks(["a#1.png", "gone.png"])
        assert gone is None
        assert first == sources.marks(["a#1.png"])[0]
        (root / "a#1.png").write_bytes(b"two")
        assert first != sources.marks(["a#1.png"])[0]

    def test_messages_do_not_tell_where_the_image_set_lies(self, root: Path, sources: ImageSources) -> None:
        for path in ("gone.png", "gone.tar#1.png", "gone.parquet#1"):
            error = error_of(sources, path)
            assert error.reason == "missing_file"
            assert str(root) not in error.detail


class TestCopies:
    def test_the_longest_unused_copies_go_when_the_size_is_reached(self, tmp_path: Path) -> None:
        copies = LocalCopies(tmp_path, 10_000)
        for number in range(8):
            copies.put(f"s3://b/{number}", "mark", bytes(1000))
            os.utime(next(file for file in tmp_path.glob("??/*") if file.stat().st_mtime > 1e9), (number, number))
        assert copies.get("s3://b/0", "mark") == bytes(1000), "used just now"
        for number in range(8, 12):
            copies.put(f"s3://b/{number}", "mark", bytes(1000))
        assert sum(file.stat().st_size for file in tmp_path.glob("??/*")) <= 10_000
        kept = [number for number in range(12) if copies.get(f"s3://b/{number}", "mark") is not None]
        assert kept[0] == 0
        assert kept[-4:] == [8, 9, 10, 11]

    def test_a_copy_of_other_content_or_a_damaged_one_is_none(self, tmp_path: Path) -> None:
        copies = LocalCopies(tmp_path, 10_000)
        copies.put("s3://b/a", "mark", b"data")
        assert copies.get("s3://b/a", "other mark") is None
        (file,) = tmp_path.glob("??/*")
        file.write_bytes(file.read_bytes()[:-1])
        assert copies.get("s3://b/a", "mark") is None
        assert not file.exists()

    def test_a_disk_that_takes_nothing_costs_only_the_copies(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        (tmp_path / "file").write_text("in the way")
        copies = LocalCopies(tmp_path / "file", 10_000)
        copies.put("s3://b/a", "mark", b"data")
        copies.put("s3://b/b", "mark", b"data")
        assert copies.get("s3://b/a", "mark") is None
        assert len(caplog.records) == 1


class TestAddresses:
    @pytest.mark.parametrize(
        ("path", "said"),
        [
            ("file:///etc/passwd", "of a kind that is not read"),
            ("ftp://host/a.png", "of a kind that is not read"),
            ("memory://a.png", "of a kind that is not read"),
            ("https://user:pass@host/a.png", "user name or password"),
            ("s3://key:secret@bucket/a.png", "user name or password"),
            ("s3://bucket", "without a place or a name"),
            ("https:///a.png", "without a place or a name"),
            ("https://[host/a.png", "without a place or a name"),
            ("https://host/a.png#b", "names no member"),
            ("a.tar.gz#b.png", "compressed"),
            ("s3://bucket/a.tgz#b.png", "compressed"),
            ("a.parquet#last", "no row"),
        ],
    )
    def test_what_cannot_be_read_is_refused(self, path: str, said: str) -> None:
        problem = address_problem(path)
        assert problem is not None
        assert said in problem[0]

    @pytest.mark.parametrize(
        "path",
        [
            "images/a.png",
            "s3://bucket/a#1.png",
            "gs://bucket/deep/a.png",
            "hf://datasets/owner/name@main/data/part-0.parquet#image/3",
            "https://host/a%231.png?version=2",
            "https://host/000.tar?X-Amz-Signature=1#a.png",
            "shards/000.tar#a#b.png",
        ],
    )
    def test_what_can_be_read_is_sound(self, path: str) -> None:
        assert address_problem(path) is None

    def test_an_image_set_says_what_is_wrong_with_its_paths(self, root: Path) -> None:
        paths = ["a.png", "s3://b/c.png", "d.tar#e.png", "f.parquet#g", "file:///etc/passwd", "d.tar#../../x"]
        paths += [
            "https://me:secret@host/a.png?sig=secret",
            "x.tgz#a",
            "s3://b/x.parquet#1",
            "https://h/x.tar?k=1#a",
        ]
        rows = [f"i{number},{path},m,p" for number, path in enumerate(paths)]
        (root / "images.csv").write_text("\n".join(["image_id,path,t2i_model,prompt_id", *rows]))
        (root / "prompts.csv").write_text("prompt_id,category,word,prompt\np,c,w,a p\n")
        with pytest.raises(DataError) as caught:
            ImageSet.load(root)
        assert sorted(problem.row or 0 for problem in caught.value.problems) == [5, 6, 7, 8, 9]
        assert "secret" not in str(caught.value)

    def test_secrets_are_shown_to_nobody(self) -> None:
        assert shown("https://host/a.png?X-Amz-Signature=0123") == "https://host/a.png?(hidden)"
        assert shown("https://host/a.tar?sig=0123#1.png") == "https://host/a.tar?(hidden)#1.png"
        assert shown("images/why?.png") == "images/why?.png"
        assert "abc" not in without_secrets("GET https://me:abc@host/x failed, see 'http://h/y?token=abc'")


def test_a_package_that_is_missing_is_one_line_that_says_what_to_install(
    sources: ImageSources, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "s3fs", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'detector-bench\[remote\]'"):
        sources.read("s3://bucket/a.png")
