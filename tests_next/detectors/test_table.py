"""Predictions that exist, as a detector; several detectors that vote."""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from detector_bench_next.detector import Detector, Frame, ask, build, fingerprint
from detector_bench_next.errors import ConfigError
from detector_bench_next.study import Study
from detector_bench_next.weights import Where
from tests_next.lyu import write_image_set

ROWS = [
    dict(zip(("who", "gender", "p", "why", "age", "run"), row, strict=True))
    for row in (
        ("a", "Woman", "0.93", "", "31.5", "1"),
        ("b", "Male", "0.5", "", "8", "1"),
        ("images/c.png", "", "", "no face", "", "1"),
        ("d", "no_face", "0.2", "", "", "1"),
        ("e", "cat", "", "", "", "1"),
        ("f", "male", "high", "", "", "1"),
        ("a", "male", "0.6", "", "", "2"),
    )
]
ENTRY: dict[str, Any] = {
    "kind": "table",
    "columns": {"image": "who", "gender": "gender", "gender_score": "p", "reason": "why", "value": "age"},
    "values": {"Woman": "female"},
    "filtered": ["no_face"],
    "where": {"run": "1"},
    "min_score": 0.6,
}


def as_csv(path: Path) -> None:
    pd.DataFrame(ROWS).to_csv(path, index=False)


def as_parquet(path: Path) -> None:
    frame = pd.DataFrame(ROWS).replace("", None)
    frame.assign(run=frame["run"].astype(int), gender=frame["gender"].astype("category")).to_parquet(path)


def as_lines(path: Path) -> None:
    rows = [{**row, "p": float(row["p"]) if row["p"][:1] == "0" else row["p"] or None} for row in ROWS]
    path.write_bytes(gzip.compress("\n".join(map(json.dumps, rows)).encode()))


WRITERS = [("p.csv", as_csv), ("p.csv.gz", as_csv), ("p.parquet", as_parquet), ("p.jsonl.gz", as_lines)]


def told(detector: Detector, *names: str) -> list[tuple[Any, ...]]:
    frames = [Frame(name, f"images/{name}.png") for name in names]
    for frame in frames:
        frame.error = "not_at_hand"
    return [(r.status.value, r.label, r.score, r.value, r.reason) for r in ask(detector, frames)]


@pytest.mark.parametrize(("name", "write"), WRITERS)
def test_each_row_becomes_a_prediction(tmp_path: Path, name: str, write: Callable[[Path], None]) -> None:
    write(tmp_path / name)
    detector = build("detector", {**ENTRY, "file": str(tmp_path / name)})
    assert told(detector, *"abcdefg") == [
        ("clear", "female", 0.93, 31.5, None),
        ("filtered", "male", 0.5, None, "uncertain"),
        ("filtered", None, None, None, "no_face"),
        ("filtered", None, 0.2, None, "no_face"),
        ("error", None, None, None, "invalid_answer: 'cat'"),
        ("error", None, None, None, "invalid_answer: could not convert string to float: 'high'"),
        ("error", None, None, None, "no_row"),
    ]
    lenient = build("detector", {**ENTRY, "file": str(tmp_path / name), "without_row": "no_person"})
    assert told(lenient, "g") == [("filtered", None, None, None, "no_person")]


def test_predictions_of_another_program(shared: Path) -> None:
    fields = {"columns": {"image": "path", "gender": "gender", "score": "score", "reason": "reason"}}
    values, file = {"Woman": "female", "Man": "male"}, shared / "cases/predictions.csv"
    entry = {"kind": "table", "file": str(file), **fields, "values": values, "min_score": 0.6}
    detector, names = build("detector", entry), ("ceo/a_01", "ceo/a_02", "nurse/b_01", "nurse/b_02")
    frames = [Frame(str(n), f"sd/{name}.jpg") for n, name in enumerate(names)]
    assert [(row.label, row.score, row.reason) for row in ask(detector, frames)] == [
        ("female", 0.93, None),
        ("male", 0.88, None),
        (None, None, "no_face"),
        ("female", 0.51, "uncertain"),
    ]


def test_the_file_counts_by_content(tmp_path: Path) -> None:
    as_csv(tmp_path / "p.csv")
    as_csv(tmp_path / "q.csv")
    one, other = (build("detector", {**ENTRY, "file": str(tmp_path / name)}) for name in ("p.csv", "q.csv"))
    assert fingerprint(one, Where()) == fingerprint(other, Where())
    (tmp_path / "q.csv").write_text("who,gender,p,why,age,run\n", encoding="utf-8")
    assert fingerprint(one, Where()) != fingerprint(other, Where())
    assert "are not here" in build("detector", {**ENTRY, "file": "none.csv"}).lacks(Where())[0]


MISTAKES: list[tuple[dict[str, Any], str]] = [
    ({"where": {}}, "two rows for 'a': choose by `where: "),
    ({"where": {"run": "7"}}, "has no row with run = 7"),
    ({"where": {"ran": "1"}}, "has no column 'ran': did you mean 'run'"),
    ({"columns": {"gender": "gender"}}, "has no column 'image_id'"),
    ({"columns": {"image": "who"}}, r"columns: name the column of an attribute"),
    ({"columns": {"gendr": "gender"}}, "columns: unknown 'gendr': did you mean 'gender'"),
    ({"values": {"Woman": "femal"}}, "values: 'Woman' means 'femal', which is no class: did you mean 'female'"),
    ({"file": "none.csv"}, "cannot be read: .*No such file"),
    ({"file": "none.xlsx"}, "cannot be read: .*accepted: .csv, .parquet, .jsonl"),
]


@pytest.mark.parametrize(("changed", "line"), MISTAKES)
def test_mistakes_name_file_column_and_what_to_do(tmp_path: Path, changed: dict[str, Any], line: str) -> None:
    as_csv(tmp_path / "p.csv")
    (tmp_path / "none.xlsx").write_bytes(b"PK")
    entry = {**ENTRY, **changed, "file": str(tmp_path / changed.get("file", "p.csv"))}
    with pytest.raises(ConfigError, match=line):
        ask(build("detector", entry), [Frame("a")])


VOTES: list[tuple[tuple[str, ...], tuple[Any, ...]]] = [
    (("male", "male", "female"), ("clear", "male", 2 / 3, None, None)),
    (("male", "female", "skip"), ("filtered", None, 1 / 3, None, "no_majority")),
    (("skip", "male", "skip"), ("filtered", None, 2 / 3, None, "no_majority")),
    (("male", "skip", "male"), ("clear", "male", 2 / 3, None, None)),
    (("male", "male", "cat"), ("error", None, None, None, "invalid_answer: 'cat'")),
]


@pytest.mark.parametrize(("said", "wanted"), VOTES)
def test_members_have_one_vote_each(tmp_path: Path, said: tuple[str, ...], wanted: tuple[Any, ...]) -> None:
    with (tmp_path / "p.csv").open("w", encoding="utf-8") as file:
        csv.writer(file).writerows([["image_id", "one", "two", "three"], ["x", *said]])
    members = [
        {"kind": "table", "file": str(tmp_path / "p.csv"), "columns": {"gender": name}, "filtered": ["skip"]}
        for name in ("one", "two", "three")
    ]
    detector = build("detector", {"kind": "ensemble", "members": members})
    assert not detector.needs_image
    assert told(detector, "x") == [(*wanted[:2], wanted[2] and pytest.approx(wanted[2]), *wanted[3:])]
    with pytest.raises(ConfigError, match="members: 'table' does not predict age"):
        build("detector", {"kind": "ensemble", "attribute": "age", "members": members})
    wrong = [{**members[0], "columns": {"gendre": "one"}}, *members]
    with pytest.raises(ConfigError, match=r"members.0: detector 'table': columns: unknown 'gendre'"):
        build("detector", {"kind": "ensemble", "members": wrong})


PRINTED = {  # Tables 1 and 2 of the paper, SD3: model bias score, prompt bias score difference
    "clip": (0.701, 0.098),
    "clip_prob": (0.794, 0.526),
    "clip_uncertain": (0.764, 0.389),
    "clip_enhance": (0.721, 0.048),
    "fairface": (0.726, 0.053),
}


@pytest.mark.slow
def test_ten_of_ten_printed_numbers_of_lyu_2025(shared: Path, tmp_path: Path) -> None:
    study = Study.open("lyu2025_authors_sd3", write_image_set(shared, tmp_path / "sd3", "sd3"))
    results = study.run(tmp_path / "out")
    rows = results.metrics.query("t2i_model == 'sd3' and category == 'all' and prompt_id == 'all'")
    for detector, printed in PRINTED.items():
        own = rows[rows["detector"] == detector].set_index("metric")["value"]
        found = own[["model_bias_score", "prompt_bias_score_difference"]]
        assert [int(value * 1000 + 0.5 + 1e-9) / 1000 for value in found] == list(printed), detector
