"""YAML, JSON and TIFF that somebody may have written to do harm, or by accident: one line says what is wrong."""

from __future__ import annotations

import ctypes
import io
import json
import threading
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, _imaging

from detector_bench.dataset import import_folder, tiff_complaints
from detector_bench.dataset.decoding import ImageError, decode_image
from detector_bench.declarations import read_mapping
from detector_bench.errors import ConfigError, DetectorBenchError
from detector_bench.json_text import JsonMistake, parse_json, read_json
from detector_bench.limited_text import check_path


def bomb(levels: int) -> str:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, levels)]
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 2026-02-30", ", line 1, column 4: '2026-02-30' is no date that there is"),
        ("a: 1\nb: 0x_", ", line 2, column 4: '0x_' is no whole number"),
        ("a: !!bool maybe", ", line 1, column 4: 'maybe' is neither true nor false"),
        ("a: " + "9" * 5_000, ", line 1, column 4: a number of more than 300 digits"),
        ("a: " + "1:" * 400 + "1", ", line 1, column 4: a number of more than 300 digits"),
        ("a: " + "[" * 500, ", line 1, column 63: lists and mappings are nested deeper than 60"),
        ("a: &a [1, *a]", ", line 1, column 11: the alias *a stands within what it is an alias of"),
        ('a: "x\\0"', ", line 1, column 4: the text 'x\\x00' holds a control character, U+0000"),
        ('a: "\\e[31m"', ", line 1, column 4: the text '\\x1b[31m' holds a control character, U+001B"),
        ('a: "\\ud800"', ", line 1, column 4: the text '\\ud800' holds half a surrogate pair, U+D800"),
        ("a: !!set {b}", ", line 1, column 4: the tag !!set has no meaning here"),
        ("a: !!timestamp soon", ", line 1, column 4: 'soon' is no date that there is"),
        ("x" * 1_001 + ": 1", ", line 1, column 1: a key of more than 1,000 characters"),
        (bomb(12), ", line 6, column 15: more than 200,000 values, with what aliases stand for"),
        ("a: " + "x" * 2_000_000, ": cannot be read: the file is larger than 2 MB"),
    ],
)
def test_hostile_yaml_is_one_line_with_its_place(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "study.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as raised:
        read_mapping(path)
    assert str(raised.value) == f"{path}{message}"


def test_a_nesting_that_the_parser_itself_refuses_is_one_line_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "study.yaml"
    path.write_text("a: " + "[" * 5_000)
    with pytest.raises(ConfigError) as raised:
        read_mapping(path)
    assert str(raised.value).startswith(f"{path}, line 1, column ")
    assert "\n" not in str(raised.value)


def test_aliases_and_merged_mappings_of_good_files_are_read(tmp_path: Path) -> None:
    path = tmp_path / "study.yaml"
    path.write_text("base: &b {x: 1, y: 2}\nown: {<<: *b, y: 3}\nagain: *b\ntext: 'tab\there, 😀'\n")
    base = {"x": 1, "y": 2}
    assert read_mapping(path) == {"base": base, "own": {"x": 1, "y": 3}, "again": base, "text": "tab\there, 😀"}


@pytest.mark.parametrize(
    ("text", "message", "place"),
    [
        ("[" * 100, "lists and objects are nested deeper than 60", ""),
        ('["a", ' + "9" * 5_000 + "]", "a number of more than 300 digits", ""),
        ('{"a": ["\\ud800"]}', "the text '\\ud800' holds half a surrogate pair, U+D800", ""),
        ('{"a\\u0000": 1}', "the text 'a\\x00' holds a control character, U+0000", ""),
        ('{"a":\n nothing}', "Expecting value", ", line 2, column 2"),
    ],
)
def test_hostile_json_is_one_line(text: str, message: str, place: str) -> None:
    with pytest.raises(JsonMistake) as raised:
        parse_json(text)
    assert (str(raised.value), raised.value.place) == (message, place)


def test_good_json_is_read_as_it_is(tmp_path: Path) -> None:
    content = {"a": ["[[[", '"]', "\\", "😀", 1.5, None, True], "b": {"c": "tab\t"}}
    path = tmp_path / "good.json"
    path.write_text("\ufeff" + json.dumps(content), encoding="utf-8")
    assert read_json(path) == content
    with pytest.raises(JsonMistake, match="larger than 0 MB"):
        read_json(path, largest=5)


def test_a_path_that_no_file_system_takes_is_refused() -> None:
    assert check_path("a/b.onnx") == "a/b.onnx"
    with pytest.raises(ValueError, match="is too long"):
        check_path("x" * 256 + "/b")


def test_what_libtiff_finds_is_the_images_error_and_nothing_is_printed(capfd: pytest.CaptureFixture[str]) -> None:
    pixels = np.random.default_rng(0).integers(0, 2, (40, 48), dtype=np.uint8) * 255
    file = io.BytesIO()
    Image.fromarray(pixels).convert("1").save(file, "TIFF", compression="group4")
    content = bytearray(file.getvalue())
    decode_image(bytes(content))
    for position in range(20, 60):
        content[position] ^= 0x5A
    with pytest.raises(ImageError, match="corrupt: TIFF: "):
        decode_image(bytes(content))
    decode_image(file.getvalue())
    assert capfd.readouterr().err == ""


def test_libtiff_calls_what_lives_as_long_as_it_does() -> None:
    """Threads may come first at the same time: libtiff must not be left with a function that was freed."""
    library = ctypes.CDLL(_imaging.__file__)
    library.TIFFSetErrorHandler.restype = ctypes.c_void_p
    start = threading.Barrier(8, action=tiff_complaints._listening.cache_clear)

    def listen() -> None:
        for _ in range(20):
            start.wait(30)
            tiff_complaints.listen_to_libtiff()

    threads = [threading.Thread(target=listen) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lasting = ctypes.cast(tiff_complaints._NOTING, ctypes.c_void_p).value
    assert library.TIFFSetErrorHandler(tiff_complaints._NOTING) == lasting


def test_a_disk_that_refuses_ends_an_import_with_a_line(tmp_path: Path) -> None:
    picture = tmp_path / "tree" / "model" / "prompt" / "1.png"
    picture.parent.mkdir(parents=True)
    Image.new("RGB", (4, 4)).save(picture)
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "images").write_text("a file where a folder is needed")
    with pytest.raises(
        DetectorBenchError, match=r"cannot write '.*images/model/prompt': .*; what was written stays"
    ):
        import_folder(tmp_path / "tree", tmp_path / "set")
