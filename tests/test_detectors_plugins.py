"""Python files named on the command line, and packages that are missing or broken."""

from __future__ import annotations

import sys
from pathlib import Path
from textwrap import dedent

import pytest

from detector_bench.detectors import DETECTORS, build_detector
from detector_bench.errors import ConfigError, MissingExtraError
from detector_bench.installation import is_installed, missing_message, require
from detector_bench.plugins import load_plugins


def plugin(path: Path, name: str, *, body: str = "return []") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        dedent(f"""
            from detector_bench.detectors import detector

            @detector({name!r}, attributes=["gender"])
            class Net:
                def predict(self, batch):
                    {body}
        """)
    )
    return path


def test_plugin_registers_its_detectors(tmp_path: Path) -> None:
    load_plugins(
        [plugin(tmp_path / "one.py", "tried-plugin-one"), plugin(tmp_path / "two.py", "tried-plugin-two")]
    )
    assert build_detector("tried-plugin-one").attributes == ("gender",)
    assert "tried-plugin-two" in DETECTORS


def test_plugin_may_be_named_twice(tmp_path: Path) -> None:
    file = plugin(tmp_path / "twice.py", "tried-plugin-twice")
    load_plugins([file, file])
    load_plugins([tmp_path / "." / "twice.py"])
    assert "tried-plugin-twice" in DETECTORS


def test_files_of_one_name_are_different_plugins(tmp_path: Path) -> None:
    first = plugin(tmp_path / "a/mine.py", "tried-plugin-mine")
    second = plugin(tmp_path / "b/mine.py", "tried-plugin-mine")
    load_plugins([first])
    with pytest.raises(ConfigError, match="detector 'tried-plugin-mine' is registered twice"):
        load_plugins([second])


@pytest.mark.parametrize(
    ("code", "line", "message"),
    [
        ("import no_such_package", 1, "ModuleNotFoundError: No module named 'no_such_package'"),
        ("def half():\n    return 1 / 0\n\nhalf()", 2, "ZeroDivisionError: division by zero"),
        ("# a class\nclass Net(:", 2, "SyntaxError: invalid syntax"),
        ("raise ValueError('two\\nlines')", 1, "ValueError: two lines"),
        ("import sys\nsys.exit('no arguments')", 2, "SystemExit: no arguments"),
        (
            "import detector_bench as db\n\n@db.detector('tried-gendre', attributes=['gendre'])\nclass A: ...",
            3,
            "detector 'tried-gendre': unknown attribute 'gendre': did you mean 'gender'?",
        ),
    ],
)
def test_failing_plugin_is_named_with_the_line_and_what_to_do(
    tmp_path: Path, code: str, line: int, message: str
) -> None:
    (tmp_path / "failing.py").write_text(code)
    before = set(sys.modules)
    with pytest.raises(ConfigError) as raised:
        load_plugins([tmp_path / "failing.py"])
    assert str(raised.value) == (
        f"--plugin {tmp_path / 'failing.py'}, line {line}: {message}; mend it, or install what it needs, and run "
        "the same command again: what is stored stays as it is"
    )
    assert not any("plugin_failing" in name for name in set(sys.modules) - before)


def test_what_is_no_python_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("")
    for path in (tmp_path / "absent.py", tmp_path / "notes.txt", tmp_path):
        with pytest.raises(ConfigError, match=r"^--plugin: '.*' is not a Python file$"):
            load_plugins([path])


# Optional packages


def test_installed_package_is_imported() -> None:
    import json

    assert require("json", extra="dlib") is json
    assert is_installed("json")
    assert is_installed("xml.etree")


def test_missing_package_says_what_to_install() -> None:
    for module in ("no_such_package", "no_such_package.part"):
        assert not is_installed(module)
        with pytest.raises(MissingExtraError) as raised:
            require(module, extra="onnx")
        assert str(raised.value) == (
            f"the package {module!r} is not installed; pip install 'detector-bench[onnx]'"
        )
    assert missing_message("somewhat", extra=None) == "the package 'somewhat' is not installed; install somewhat"


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("import no_such_part", "is installed, but it needs 'no_such_part'"),
        ("raise ImportError('libGL.so.1: cannot open')", "but its import fails: libGL.so.1: cannot open"),
        ("raise OSError('libcudart.so')", "but its import fails: libcudart.so"),
    ],
)
def test_package_that_is_installed_but_broken_is_not_called_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, message: str
) -> None:
    (tmp_path / "broken_package.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(MissingExtraError) as raised:
        require("broken_package", extra="onnx")
    assert message in str(raised.value)
