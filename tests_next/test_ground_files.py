"""Errors, files, YAML, packaged files and texts that are fit to be published."""

from __future__ import annotations

import contextlib
import pickle
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import BaseModel, ConfigDict, ValidationError

from detector_bench_next import errors, files
from detector_bench_next.errors import ConfigError, DetectorBenchError, ImageError, Problem


class _Table:
    def __init__(self, cells: list[str]) -> None:
        self.frame, self.file = pd.DataFrame({"label": cells}), "labels.csv"

    def problem(self, i: int, column: str, message: str, accepted: str) -> Problem:
        return Problem(self.file, message, i + 2, column, self.frame[column].iloc[i], accepted)


def test_a_mistake_in_a_million_rows_is_told_twenty_times_then_counted() -> None:
    problems = errors.Problems()
    problems.rows(_Table(["mal"] * 100), "label", np.arange(100) % 2 == 0, "unknown label", lambda i: f"male {i}")
    assert len(problems) == 21
    assert str(problems[1]) == "labels.csv, row 4, column label: unknown label: 'mal' (accepted: male 2)"
    assert (problems[-1].row, problems[-1].column, problems[-1].value) == (None, None, None)
    assert "30 more" in problems[-1].message
    with pytest.raises(errors.DataError) as raised:
        problems.raise_if_any()
    again = pickle.loads(pickle.dumps(raised.value))  # noqa: S301 - errors travel between processes
    assert (again.problems, str(again)) == (tuple(problems), "\n".join(map(str, problems)))
    errors.Problems().raise_if_any()
    image = pickle.loads(pickle.dumps(ImageError("damaged", "cut")))  # noqa: S301
    assert (str(image), isinstance(image, DetectorBenchError)) == ("damaged: cut", False)


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid")
    threshold: float = 0.5


class _Finer(_Part):
    margin: float = 1.0


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid")
    name: str
    parts: list[_Part | None] = []
    mode: Literal["fast", "exact"] = "fast"


@pytest.mark.parametrize(
    ("value", "lines"),
    [
        ({"nam": "x"}, ["d: name: is missing", "d: nam: unknown key 'nam': did you mean 'name'?"]),
        ({"name": "x", "mode": "fst"}, ["d: mode: ", "; got 'fst'"]),
        ({"name": "x", "parts": [{"tresh": 1}]}, ["d: parts.0.tresh: unknown key 'tresh': did you mean 'thr"]),
        ({"name": "x", "parts": [{"margn": 1}]}, ["d: parts.0.margn: unknown key 'margn': did you mean 'margin'"]),
    ],
)
def test_mistakes_of_a_configuration_name_the_place_and_the_nearest_key(value: object, lines: list[str]) -> None:
    with pytest.raises(ValidationError) as raised:
        _Model.model_validate(value)
    told = str(errors.config_error(raised.value, "d", _Model))
    assert [line for line in lines if line not in told] == []
    assert errors.nearest_hint("qqq", ["b", "a"]) == "known: a, b"
    assert "2,000 known names" in errors.nearest_hint("9", map(str, range(2000)))


def test_a_package_that_is_not_installed_names_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tried_broken.py").write_text("import tried_absent")
    monkeypatch.syspath_prepend(tmp_path)
    assert errors.require("json", "onnx").loads("1") == 1
    for name in ("tried_absent", "tried_absent.below"):
        with pytest.raises(errors.MissingExtraError, match=r"not installed: pip install 'detector-bench\[onnx\]'"):
            errors.require(name, "onnx")
    with pytest.raises(errors.MissingExtraError, match=r"installed, but fails: .*tried_absent"):
        errors.require("tried_broken", "onnx")


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "below" / "a.txt"
    files.write_text(path, "one\n")
    with contextlib.suppress(KeyError), files.replacing(path) as place:
        place.write_text("half")
        raise KeyError
    assert (path.read_text(), [own.name for own in path.parent.iterdir()]) == ("one\n", ["a.txt"])
    files.write_parquet(pa.table({"a": [1]}), path.with_suffix(".parquet"))
    assert pq.read_table(path.with_suffix(".parquet")).to_pydict() == {"a": [1]}
    assert files.sha256_file(path) == "2c8b08da5ce60398e1f19af0e5dccc744df274b826abe585eaba68c525434806"
    with pytest.raises(DetectorBenchError, match="cannot write"):
        files.write_text(path / "not a folder", "x")


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"a: 1\nb: 2\na: 3\n", "line 3, column 1: cannot be read: the key 'a' stands here twice"),
        (b"a:\n  - {x: 1, x: 2}\n", "line 2, column 12"),
        (b"a: [1\n", "line 2, column 1"),
        (b"a: 2026-02-30\n", "x.yaml: cannot be read: "),
        (b"a: 1\nb: \xe9\n", "line 2: cannot be read: text is not UTF-8"),
        (b"a: !!python/object/apply:os.getcwd []\n", "line 1, column 4"),
        (b"? [a]\n: 1\n", "line 1"),
        (b"[" * 100_000, "line 1"),
        (b"a: &a [*a]\n", "line 1, column 4: cannot be read: it stands within itself"),
        (b"a: 1\n--- \nb: 2\n", "line 2"),
        (b"#" * 2_000_001, "larger than 2 MB"),
    ],
)
def test_yaml_that_is_refused(tmp_path: Path, content: bytes, told: str) -> None:
    path = tmp_path / "x.yaml"
    path.write_bytes(content)
    with pytest.raises(ConfigError) as raised:
        files.read_yaml(path)
    assert str(raised.value).startswith(str(path))
    assert told in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("text", "content"),
    [
        ("\ufeff{c: é}\n", "é"),
        (
            "a: &a {x: 1, y: 1}\nb: &b {<<: *a, x: 2}\nc: [*b, {<<: *b, y: 3}]",
            [{"x": 2, "y": 1}, {"x": 2, "y": 3}],
        ),
        ("c: {<<: [{x: 1}, {x: 2, y: 2}], z: 3}", {"x": 1, "y": 2, "z": 3}),
    ],
)
def test_yaml_that_is_read(tmp_path: Path, text: str, content: object) -> None:
    (tmp_path / "x.yaml").write_text(text, encoding="utf-8")
    assert files.read_yaml(tmp_path / "x.yaml")["c"] == content


def test_a_users_file_wins_over_one_that_comes_along(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shipped = files.packaged("configs", "lyu2025")
    assert shipped.parent == files.resources("configs")
    assert files.packaged("configs", "lyu2025.yaml") == shipped
    assert files.packaged("configs/detectors", "faceres").is_file()
    (tmp_path / "lyu2025").write_text("name: mine")
    assert files.packaged("configs", "lyu2025") == Path("lyu2025")
    # Words of papers are ours, whatever lies in the working directory.
    (tmp_path / "images.csv").write_text("mine")
    assert files.packaged("labels/quickstart", "images.csv") == files.resources("labels/quickstart") / "images.csv"
    for name in ("lyu2026", "below/lyu2025", "", "\0", "x" * 5000):
        with pytest.raises(ConfigError, match="there is no file"):
            files.packaged("configs", name)
    with pytest.raises(ConfigError, match="did you mean 'lyu2025'"):
        files.packaged("configs", "lyu2026")


@pytest.mark.parametrize(
    ("text", "public"),
    [
        ("GET https://kim:pw@x.org/a.png?sig=1&t=2 failed", "GET https://x.org/a.png?(hidden) failed"),
        ("s3://bucket/a b: is it 3?yes", "s3://bucket/a b: is it 3?yes"),
        ("cannot read /data/kim/secret/x.onnx: gone", "cannot read x.onnx: gone"),
        ("'/data/my pictures/x.png' and C:\\Users\\kim\\y.png", "'x.png' and y.png"),
        ("see https://x.org/a/b.png and models/x.onnx, 3/4", "see https://x.org/a/b.png and models/x.onnx, 3/4"),
        (f"{Path.home()}/x/y.png", "y.png"),
    ],
)
def test_texts_to_be_published_have_neither_secrets_nor_folders(text: str, public: str) -> None:
    assert files.without_folders(files.without_secrets(text)) == public
