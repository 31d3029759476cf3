"""Nothing that is published names a machine: no file but the local ones says where anything lies."""

from __future__ import annotations

import getpass
import json
import re
import shutil
import socket
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import yaml
from PIL import Image
from small_parts import forget_calls, stages_loaded, write_csv, write_image_set

from detector_bench.dataset.published_text import without_folders
from detector_bench.detectors import Prediction, detector
from detector_bench.errors import ConfigError
from detector_bench.perception.stage import Batch
from detector_bench.results.local_paths import NAME, is_local
from detector_bench.site import ReportSettings
from detector_bench.study import Results, Study
from detector_bench.verification import VerificationOrder, pack_folder, verify_folder

pytestmark = pytest.mark.slow

MARKER = "hidden-away"
Call = Callable[..., tuple[int, str, str]]
COUNT = 24


@detector("test-tells-where", attributes=["gender"])
class TellsWhere:
    """Fails as libraries do: with the path of what it could not read."""

    def predict(self, batch: Batch) -> Iterator[Prediction]:
        raise OSError(f"cannot open {Path.home()}/nets/net.bin or '/mnt/{MARKER} disk/net.bin'")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's folder that tells who it is, and all that a study needs in it."""
    home = tmp_path / f"home-{MARKER}"
    for name in ("study", "nets", "tables", "cache"):
        (home / f"{name}-{MARKER}").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("LOGNAME", f"user-{MARKER}")
    images = write_image_set(home / f"sets-{MARKER}" / "pictures", COUNT)
    (images / "images" / "image_003.png").unlink()
    (images / "images" / "image_004.png").write_bytes(b"no picture")
    (images / "images" / "image_005.png").unlink()
    (images / "images" / "image_005.png").symlink_to(home / f"study-{MARKER}" / "study.yaml")
    (home / f"nets-{MARKER}" / "factor.txt").write_text("1.0")
    write_csv(
        home / f"tables-{MARKER}" / "labour.csv",
        ("word", "category", "attribute", "class", "share"),
        [
            (word, "", "gender", *each)
            for word in ("nurse", "cup")
            for each in (("male", "0.3"), ("female", "0.7"))
        ],
    )
    study = {
        "image_set": f"../sets-{MARKER}/pictures",
        "detectors": [
            "test-colour",
            "test-tells-where",
            {"kind": "test-weighted", "name": "beside", "factor": f"../nets-{MARKER}/factor.txt"},
            {"kind": "test-weighted", "name": "absolute", "factor": str(home / f"nets-{MARKER}" / "factor.txt")},
        ],
        "scores": [
            {
                "system": "representation",
                "shares_of": ["gender"],
                "references": f"../tables-{MARKER}/labour.csv",
            }
        ],
    }
    (home / f"study-{MARKER}" / "study.yaml").write_text(yaml.safe_dump(study))
    return home


def texts_of(file: Path) -> Iterator[bytes]:
    """What stands in a file, also where it is compressed."""
    content = file.read_bytes()
    yield content
    if file.suffix == ".pdf":
        for stream in re.findall(rb"stream\r?\n(.*?)endstream", content, re.DOTALL):
            try:
                yield zlib.decompress(stream)
            except zlib.error:
                yield stream
    elif file.suffix == ".png":
        with Image.open(file) as picture:
            yield repr(picture.info).encode()
    elif file.suffix == ".parquet":
        table = pq.read_table(file)
        yield repr((table.schema.metadata, table.to_pylist())).encode()


def published(folder: Path) -> list[Path]:
    files = [file for file in folder.rglob("*") if file.is_file()]
    return [file for file in files if not is_local(file.relative_to(folder).as_posix())]


def names_of_this_machine(home: Path) -> list[str]:
    own = [socket.gethostname(), socket.gethostname().partition(".")[0], getpass.getuser()]
    return [MARKER, str(home.parent), *(name for name in own if len(name) > 4)]


def assert_nothing_is_named(folder: Path, home: Path) -> None:
    for file in published(folder):
        for text in texts_of(file):
            told = [name for name in names_of_this_machine(home) if name.encode() in text]
            assert told == [], file


def test_no_published_file_says_where_anything_lies(home: Path) -> None:
    out = home / f"study-{MARKER}" / "results"
    cache = home / f"cache-{MARKER}"
    study = Study.from_yaml(home / f"study-{MARKER}" / "study.yaml")
    results = study.run(out, cache_dir=cache)
    stored = pq.read_table(out / "predictions" / "test-tells-where" / "predictions.parquet")
    reasons = " ".join(str(each) for each in stored["reason"].to_pylist())
    assert "missing_file: images/image_003.png" in reasons
    assert "outside_folder: images/image_005.png" in reasons
    assert "detector_failed: OSError: cannot open net.bin or 'net.bin'" in reasons
    results.figures()
    # The boxes of the report's pictures cannot be read, and the page says so.
    for file in cache.glob("*.sqlite"):
        file.write_bytes(b"no database" * 100)
    results.report(settings=ReportSettings(cache_folder=cache))
    assert (
        "No boxes are drawn: the stage cache &#39;stages.sqlite&#39;"
        in (out / "report" / "index.html").read_text()
    )
    study.evaluate(out, home / "again")
    assert json.loads((home / "again" / "results.json").read_bytes())["predictions"] == "results/predictions"
    assert_nothing_is_named(home / "again", home)
    verify_folder(out, VerificationOrder(study.image_set, cache, 2)).write(out / "verification.json")
    pack_folder(out, home / "pack.zip", image_set=study.image_set)
    with zipfile.ZipFile(home / "pack.zip") as pack:
        pack.extractall(home / "unpacked")
    assert not (home / "unpacked" / "results" / NAME).exists()
    assert_nothing_is_named(home / "unpacked", home)
    assert_nothing_is_named(out, home)


def test_without_labels_the_report_says_what_to_do_and_not_where(home: Path) -> None:
    (home / f"sets-{MARKER}" / "pictures" / "labels.csv").unlink()
    out = home / f"study-{MARKER}" / "results"
    Study(image_set=home / f"sets-{MARKER}" / "pictures", detectors=["test-colour"]).run(out).report()
    assert "detector-bench sample pictures" in (out / "report" / "index.html").read_text()
    shutil.rmtree(home / f"sets-{MARKER}")
    Results.open(out).report()
    assert "There are no images" in (out / "report" / "index.html").read_text()
    assert_nothing_is_named(out, home)


def test_a_run_from_the_command_line_leaves_its_call_in_a_local_file(home: Path, command: Call) -> None:
    out = home / f"study-{MARKER}" / "results"
    study = {"image_set": str(home / f"sets-{MARKER}" / "pictures"), "detectors": ["test-colour"]}
    (home / "one.yaml").write_text(yaml.safe_dump(study))
    assert command("run", home / "one.yaml", "--out", out, "--cache-dir", home / "cache")[0] == 0
    told = {file for file in out.rglob("*") if file.is_file() and MARKER.encode() in file.read_bytes()}
    assert {file.name for file in told} == {NAME, "call.json"}
    assert not told & set(published(out))


def test_a_result_folder_finds_what_its_files_only_name(home: Path) -> None:
    out = home / f"study-{MARKER}" / "results"
    first = Study.from_yaml(home / f"study-{MARKER}" / "study.yaml").run(out, use_cache=False)
    written = yaml.safe_load((out / "study.yaml").read_text())
    assert written["image_set"] == "pictures"
    assert [each.get("factor") for each in written["detectors"]] == [None, None, "factor.txt", "factor.txt"]
    assert written["scores"][0]["references"] == "labour.csv"
    forget_calls()
    again = Study.from_yaml(out / "study.yaml").run(out, use_cache=False)
    assert again.metrics.equals(first.metrics)
    assert not stages_loaded
    assert yaml.safe_load((out / "study.yaml").read_text()) == written
    home.rename(home.parent / "moved")
    moved = Results.open(home.parent / "moved" / f"study-{MARKER}" / "results")
    assert len(moved.reader.image_set.images) == COUNT


def test_numbers_of_other_predictions_find_them_and_name_them(home: Path) -> None:
    study = Study.from_yaml(home / f"study-{MARKER}" / "study.yaml")
    study.run(home / "one", use_cache=False)
    study.evaluate(home / "one", home / "two")
    assert set(Results.open(home / "two").reader.predictions()) == {
        "test-colour",
        "test-tells-where",
        "beside",
        "absolute",
    }


def test_weights_of_one_name_keep_apart(home: Path) -> None:
    for number in (1, 2):
        (home / f"net{number}").mkdir()
        (home / f"net{number}" / "factor.txt").write_text(f"{number}.0")
    entries = [
        {"kind": "test-weighted", "name": f"n{number}", "factor": str(home / f"net{number}" / "factor.txt")}
        for number in (1, 2)
    ]
    study = Study(image_set=home / f"sets-{MARKER}" / "pictures", detectors=entries)
    study.write(home / "out")
    written = yaml.safe_load((home / "out" / "study.yaml").read_text())
    assert [each["factor"] for each in written["detectors"]] == ["factor.txt", "net2/factor.txt"]
    again = Study.from_yaml(home / "out" / "study.yaml")
    weights = again.locator(allow_download=False)
    found = [weights.find(file) for each in again.build_detectors() for file in each.stages[0].weights()]
    assert [path and path.read_text() for path in found] == ["1.0", "2.0"]


def test_a_study_file_taken_out_of_a_result_folder_asks_for_its_image_set(home: Path, command: Call) -> None:
    images = home / f"sets-{MARKER}" / "pictures"
    Study(image_set=images, detectors=["test-colour"]).run(home / "out", use_cache=False)
    shutil.copy(home / "out" / "study.yaml", home / "taken.yaml")
    with pytest.raises(ConfigError, match=r"taken\.yaml: image_set: there is no folder .*--image-set DIR"):
        Study.from_yaml(home / "taken.yaml").run(home / "other", use_cache=False)
    (home / "out" / NAME).unlink()  # as in a folder that was published
    status, _, said = command("evaluate", home / "out")
    assert (status, said.count("\n"), "--image-set DIR" in said) == (1, 1, True)
    assert command("evaluate", home / "out", "--image-set", images)[0] == 0
    assert (home / "out" / NAME).is_file()


def test_what_lies_in_the_result_folder_is_named_as_it_lies_there(tmp_path: Path) -> None:
    write_image_set(tmp_path / "out" / "image_set", 6)
    Study(image_set=tmp_path / "out" / "image_set", detectors=["test-colour"]).run(
        tmp_path / "out", use_cache=False
    )
    assert yaml.safe_load((tmp_path / "out" / "study.yaml").read_text())["image_set"] == "image_set"
    assert not (tmp_path / "out" / NAME).exists()


def test_a_folder_of_before_that_names_paths_opens(home: Path) -> None:
    images = home / f"sets-{MARKER}" / "pictures"
    Study(image_set=images, detectors=["test-colour"]).run(home / "out", use_cache=False)
    (home / "out" / NAME).unlink()
    text = (home / "out" / "study.yaml").read_text()
    before = text.replace("image_set: pictures", f"image_set: ../sets-{MARKER}/pictures")
    assert before != text
    (home / "out" / "study.yaml").write_text(before)
    assert len(Results.open(home / "out").reader.image_set.images) == COUNT


def test_a_damaged_local_file_is_one_line(tmp_path: Path) -> None:
    write_image_set(tmp_path / "images", 6)
    Study(image_set=tmp_path / "images", detectors=["test-colour"]).run(tmp_path / "out", use_cache=False)
    for content in (b"{", b"[]", b'{"image_set": 3}', b"\xff"):
        (tmp_path / "out" / NAME).write_bytes(content)
        with pytest.raises(ConfigError, match=rf"{NAME}: cannot be read .*--image-set DIR") as caught:
            Results.open(tmp_path / "out")
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("said", "published_as"),
    [
        ("cannot open /home/alice/nets/net.onnx: no such file", "cannot open net.onnx: no such file"),
        ("[Errno 2] No such file: '/data/my disk/a b.png'", "[Errno 2] No such file: 'a b.png'"),
        ('File "/usr/lib/python3/site.py", line 3', 'File "site.py", line 3'),
        ("https://example.org/a/b.png answers 500", "https://example.org/a/b.png answers 500"),
        ("images/a.png: and/or 3/4, a / b", "images/a.png: and/or 3/4, a / b"),
        ("~/nets/net.onnx", "net.onnx"),
        (r"C:\Users\alice\net.onnx is broken", "net.onnx is broken"),
        ("the folder /home/alice/nets/", "the folder ~"),
    ],
)
def test_folders_of_a_message_are_left_out(said: str, published_as: str) -> None:
    assert without_folders(said) == published_as
