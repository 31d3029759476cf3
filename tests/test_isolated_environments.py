"""Environments of detectors: made once, whole or anew, from what is asked for; here from wheels in a folder."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from isolated_parts import READINGS, script
from running import judged, plain

from detector_bench.detectors import build_detector
from detector_bench.errors import ConfigError
from detector_bench.isolated.environments import (
    Environment,
    check_requirements,
    interpreter_in,
    made_environments,
    package_pins,
    remove_environment,
    requirement_lines,
)
from detector_bench.runner.readiness import lacking
from detector_bench.weights import WeightsLocator

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of its own, and a folder of wheels in place of a registry."""
    monkeypatch.setenv("DETECTOR_BENCH_ENVIRONMENTS", str(tmp_path / "environments"))
    monkeypatch.setenv("DETECTOR_BENCH_TRUST", str(tmp_path / "trust.yaml"))
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    for name in ("PIP_NO_INDEX", "UV_NO_INDEX"):
        monkeypatch.setenv(name, "1")
    for name in ("PIP_FIND_LINKS", "UV_FIND_LINKS"):
        monkeypatch.setenv(name, str(wheels))
    for version in ("1.0", "2.0"):
        wheel(wheels, "old-judge", version)
    return wheels


def wheel(folder: Path, name: str, version: str) -> None:
    """A package with one module, which knows its version."""
    module = name.replace("-", "_")
    inside = f"{module}-{version}.dist-info"
    with zipfile.ZipFile(folder / f"{module}-{version}-py3-none-any.whl", "w") as archive:
        archive.writestr(f"{module}.py", f"VERSION = {version}\n")
        archive.writestr(f"{inside}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        archive.writestr(f"{inside}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{inside}/RECORD", "")


JUDGE = """
import old_judge
def load(parameters):
    return lambda images: [{"gender": "man", "age": 10 * old_judge.VERSION} for image in images]
"""


@pytest.mark.slow
def test_made_once_from_what_is_asked_for(tmp_path: Path, command: Command) -> None:
    parameters = {"script": str(script(tmp_path, JUDGE)), "requirements": ["old-judge<2"], "outputs": READINGS}
    nowhere = WeightsLocator(cache=tmp_path / "nowhere")
    detector = build_detector("isolated", parameters=parameters)
    (line,) = lacking(detector, weights=nowhere)
    assert line.endswith("detector-bench environments make 'old-judge<2'")
    status, out, err = command("environments", "make", "old-judge<2", "--json")
    assert status == 0, err
    (row,) = json.loads(out)["rows"]
    assert row["made_now"]
    assert lacking(detector, weights=nowhere) == []
    found = judged(detector, [plain(1, 1, 1)], weights=nowhere)
    assert [each.value for each in found] == [None, 10.0]
    assert detector.stages[0].device_taken.endswith("old-judge 1.0")

    (made,) = made_environments()
    assert made.mark["packages"]["old-judge"] == "1.0"
    (row,) = json.loads(command("environments", "make", "old-judge<2", "--json")[1])["rows"]
    assert not row["made_now"]
    listed = json.loads(command("environments", "list", "--json")[1])["rows"]
    assert [each["id"] for each in listed if each["made"]] == [made.folder.name]
    (tmp_path / "same.txt").write_text("# packages\nold-judge<2  # the old one\n\n")
    assert "there already" in command("environments", "make", tmp_path / "same.txt")[1]

    # What a making left that was cut off has no mark, and is made anew.
    (made.folder / "environment.json").unlink()
    interpreter = interpreter_in(made.folder)
    assert interpreter is not None
    interpreter.unlink()
    assert len(lacking(detector, weights=nowhere)) == 1
    assert Environment(("old-judge<2",)).make()
    assert command("environments", "remove", made.folder.name[:6])[0] == 0
    assert not made.folder.exists()
    with pytest.raises(ConfigError, match="no environment"):
        remove_environment(made.folder.name)


@pytest.mark.slow
def test_two_that_ask_at_once_make_one() -> None:
    environment, made = Environment(("old-judge",)), []
    threads = [threading.Thread(target=lambda: made.append(environment.make())) for _ in range(2)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert sorted(made) == [False, True]
    done = subprocess.run(
        [environment.interpreter, "-I", "-c", "import old_judge; print(old_judge.VERSION)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "2.0\n"


@pytest.mark.slow
def test_packages_that_are_not_there_are_one_line(command: Command) -> None:
    status, _, err = command("environments", "make", "no-such-judge==7")
    assert status == 1
    assert "cannot be made" in err
    assert "no-such-judge==7" in err
    assert "Traceback" not in err
    assert not list(made_environments())


def test_a_python_that_is_not_there_is_one_line(monkeypatch: pytest.MonkeyPatch, command: Command) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    status, _, err = command("environments", "make", "old-judge", "--python-version", "3.99")
    assert (status, "there is no Python 3.99 on this machine" in err) == (1, True)
    assert "3 is no version" in command("environments", "make", "x", "--python-version", "3")[2].replace("'", "")


def test_its_name_is_what_it_is_made_of() -> None:
    ids = {
        Environment(("a", "b")).id,
        Environment(("b", "a")).id,
        Environment(("a", "b"), "3.7").id,
        Environment(("a b",)).id,
    }
    assert len(ids) == 4


def test_requirements_are_read_as_pip_reads_them() -> None:
    text = (
        "numpy<2 # old\n\n# nothing\ntorch==2.1 \\\n  --hash=sha256:00\n--extra-index-url https://x.example/y#z\n"
    )
    lines = requirement_lines(text)
    assert lines == ("numpy<2", "torch==2.1    --hash=sha256:00", "--extra-index-url https://x.example/y#z")
    assert check_requirements(lines) == lines
    pins = package_pins(
        ["numpy<2", "torch[x]==2.1", "keras==2.*", "mivolo @ git+https://x.example", "-i https://y", "a == 1 ; b"]
    )
    assert pins == {"numpy": None, "torch": "2.1", "keras": None, "mivolo": None, "a": "1"}
    of_this_machine = ("-r other.txt", "--requirement=other.txt", "-e .", "./local", "/abs", "x @ file:///y", "")
    shorter = ("-rother.txt", "--req other.txt", "-e.", "local/package", "x@file:///y", "x @ ./y", "-f/abs")
    for line in (*of_this_machine, *shorter, "numpy\x1b[2J"):
        with pytest.raises(ValueError, match=r"requirement"):
            check_requirements([line])


def test_the_python_of_an_environment_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").symlink_to(sys.executable)
    assert interpreter_in(tmp_path) == interpreter_in(tmp_path / "bin" / "python") == tmp_path / "bin" / "python"
    assert interpreter_in(tmp_path / "nothing") is None
