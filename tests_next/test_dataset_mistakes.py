"""Mistakes in image sets: each is told with file, row, column, value and what is accepted; none is a traceback."""

from __future__ import annotations

import random
import string
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from detector_bench_next.dataset import ImageSet
from detector_bench_next.errors import DataError, Problem

SOUND = {
    "images": "image_id,path,t2i_model,prompt_id\n"
    "i1,images/1.png,sdxl,nurse\ni2,images/2.png,sdxl,pilot\ni3,images/3.png,sd3,nurse\n",
    "prompts": "prompt_id,category,word,prompt\n"
    'nurse,profession,nurse,"a nurse, smiling"\npilot,profession,pilot,\n',
    "labels": "image_id,annotator,attribute,label,reason\n"
    "i1,a,gender,female,\ni1,b,gender,female,\ni2,a,gender,male,\ni2,b,gender,low_quality,blurred\n"
    "i3,a,gender,others,long free text\ni3,a,age,young,\n",
}
EDITED = {
    **SOUND,
    "images": "image_id,path,t2i_model,prompt_id,seed_image_id\n"
    "tom,tom.png,,,\nann,ann.png,,,\ne1,1.png,sd,nurse,tom\ne2,2.png,sd,nurse,ann\nm1,3.png,sdxl,pilot,\n"
    "m2,4.png,sdxl,nurse,m1\n",
    "labels": "image_id,annotator,attribute,label\ntom,a,gender,male\n",
}
VALUES = {
    **SOUND,
    "labels": "image_id,annotator,attribute,label,value\n"
    "i1,a,age,young,25\ni1,b,age,young,29.9\ni2,a,age,elderly,120\ni2,b,age,low_quality,\ni3,a,gender,male,\n"
    "i3,a,skin_tone,monk_03,210\n",
}
STATED = {
    **SOUND,
    "prompts": "prompt_id,category,word,prompt,stated_gender,base_prompt_id,weight,scene,side,language\n"
    "nurse,job,nurse,,,,2,,,de\npilot,job,pilot,,male,nurse,,boat,left,\n"
    "cook,job,cook,,partly,pilot,0.5,boat,right,\n",
}
CELLS = [  # sound set, table, text, in its place, then row, column and value of each mistake
    (SOUND, "labels", "i2,a,gender,male", "i2,a,gender,man", (4, "label", "man")),
    (SOUND, "labels", "i2,a,gender,male", "i2,a,gender, Male", (4, "label", " Male")),
    (SOUND, "labels", "i2,a,gender,male", "i2,a,gender,", (4, "label", "")),
    (SOUND, "labels", "i3,a,age,young", "i3,a,hair,young", (7, "attribute", "hair")),
    (SOUND, "labels", "i3,a,age,young", "i3,a,,young", (7, "attribute", "")),
    (SOUND, "labels", "i3,a,age,young", "i3,a,age,female", (7, "label", "female")),
    (SOUND, "labels", "low_quality,blurred", "low_quality,ugly", (5, "reason", "ugly")),
    (SOUND, "labels", "i3,a,age", "i9,a,age", (7, "image_id", "i9")),
    (SOUND, "labels", "i3,a,age", ",a,age", (7, "image_id", "")),
    (SOUND, "labels", "i3,a,age,young", "i1,a,gender,female", (7, "label", "female")),
    (SOUND, "labels", "i3,a,age,young", "i1,b,gender,male", (7, "label", "male")),
    (SOUND, "labels", "i3,a,age", "i3,consensus,age", (7, "annotator", "consensus")),
    (SOUND, "labels", "i2,a,", "i2,a\0,", (4, "annotator", "a\0")),
    (SOUND, "labels", "i3,a,age,young", "i3,a,gender_change,male_male", (7, "image_id", "i3")),
    (SOUND, "images", "2.png,sdxl", "2.png,all", (3, "t2i_model", "all")),
    (SOUND, "images", "2.png,sdxl", "2.png,", (3, "t2i_model", "")),
    (SOUND, "images", "i2,", "i2 ,", (3, "image_id", "i2 ")),
    (SOUND, "images", "3.png,sd3,nurse\n", "3.png,sd3,nurse\ni1,,sd3,nurse\n", (5, "image_id", "i1")),
    (SOUND, "images", "sdxl,pilot", "sdxl,pilots", (3, "prompt_id", "pilots")),
    (SOUND, "images", "images/2.png", "images/../../2.png", (3, "path", "images/../../2.png")),
    (SOUND, "images", "images/2.png", "/etc/passwd", (3, "path", "/etc/passwd")),
    (SOUND, "images", "images/2.png", "C:/2.png", (3, "path", "C:/2.png")),
    (SOUND, "images", "images/2.png", "images\\2.png", (3, "path", "images\\2.png")),
    (SOUND, "images", "images/2.png", "ftp://a/2.png", (3, "path", "ftp://a/2.png")),
    (SOUND, "images", "images/2.png", "a.tar#2.png", (3, "path", "a.tar#2.png")),
    (SOUND, "images", "images/2.png", "a.parquet#x", (3, "path", "a.parquet#x")),
    (SOUND, "prompts", "pilot,profession", "pilot,all", (3, "category", "all")),
    (SOUND, "prompts", "pilot,profession,pilot", "pilot,profession,  ", (3, "word", "  ")),
    (SOUND, "prompts", "n,pilot,\n", "n,pilot,\nnurse,profession,nurse,\n", (4, "prompt_id", "nurse")),
    (EDITED, "images", "nurse,tom", "nurse,tomm", (4, "seed_image_id", "tomm"), (2, "image_id", "tom")),
    (EDITED, "images", "nurse,m1", "nurse,m2", (7, "seed_image_id", "m2")),
    (EDITED, "images", "nurse,tom", "nurse,e1", (2, "image_id", "tom"), (4, "seed_image_id", "e1")),
    (EDITED, "images", "pilot,\n", "pilot,m2\n", (6, "seed_image_id", "m2"), (7, "seed_image_id", "m1")),
    (EDITED, "images", "ann.png,,,", "ann.png,,nurse,", (3, "prompt_id", "nurse")),
    (EDITED, "images", "ann.png,,,", "ann.png,sd,,", (3, "prompt_id", "")),
    (EDITED, "images", "3.png,sdxl", "3.png,", (6, "prompt_id", "pilot")),
    (EDITED, "images", "2.png,sd,nurse", "2.png,,", (5, "t2i_model", ""), (5, "prompt_id", "")),
    (EDITED, "images", "pilot,\n", "pilot,  \n", (6, "seed_image_id", "  ")),
    (VALUES, "labels", "young,25", "young,about 25", (2, "value", "about 25")),
    (VALUES, "labels", "young,25", 'young,"2,5"', (2, "value", "2,5")),
    (VALUES, "labels", "young,25", "young,nan", (2, "value", "nan")),
    (VALUES, "labels", "young,25", "young,+25", (2, "value", "+25")),
    (VALUES, "labels", "young,25", "young, 25", (2, "value", " 25")),
    (VALUES, "labels", "young,25", "young,-1", (2, "value", "-1")),
    (VALUES, "labels", "young,25", "young,30", (2, "value", "30")),
    (VALUES, "labels", "elderly,120", "elderly,1e999", (4, "value", "1e999")),
    (VALUES, "labels", "elderly,120", "elderly,59.9", (4, "value", "59.9")),
    (VALUES, "labels", "low_quality,", "low_quality,33", (5, "value", "33")),
    (VALUES, "labels", "gender,male,", "gender,male,1", (6, "value", "1")),
    (VALUES, "labels", "monk_03,210", "monk_03,256", (7, "value", "256")),
    (STATED, "prompts", ",male,", ",man,", (3, "stated_gender", "man")),
    (STATED, "prompts", ",male,", ",male and female,", (3, "stated_gender", "male and female")),
    (STATED, "prompts", "stated_gender", "stated_hair", (1, "stated_hair", "stated_hair")),
    (STATED, "prompts", ",male,nurse", ",male,nurs", (3, "base_prompt_id", "nurs")),
    (STATED, "prompts", ",male,nurse", ",male,pilot", (3, "base_prompt_id", "pilot")),
    (STATED, "prompts", ",,,,2", ",,,pilot,2", (2, "base_prompt_id", "pilot"), (3, "base_prompt_id", "nurse")),
    (STATED, "prompts", ",2,", ",0,", (2, "weight", "0")),
    (STATED, "prompts", ",2,", ",1e999,", (2, "weight", "1e999")),
    (STATED, "prompts", ",2,", ",,", (2, "weight", "nurse")),
    (STATED, "prompts", "left", "middle", (3, "side", "middle")),
    (STATED, "prompts", "boat,left", "boat,", (3, "scene", "boat")),
    (STATED, "prompts", "boat,left", ",left", (3, "side", "left")),
    (STATED, "prompts", "de\n", "german\n", (2, "language", "german")),
]  # fmt: skip
_LABELS = SOUND["labels"]
FILES: list[tuple[str, bytes | None, tuple[Any, ...]]] = [  # table, its content, then row, column and value
    ("labels", None, (None, None, None)),
    ("labels", b"", (None, None, None)),
    ("labels", _LABELS.splitlines()[0].encode(), (None, None, None)),  # no record, no line end
    ("labels", _LABELS.replace(",", ";").encode(), (1, None, "image_id;annotator;attribute;label;reason")),
    ("labels", _LABELS.encode("utf-16"), (None, None, "UTF-16")),
    ("labels", _LABELS.encode("utf-32"), (None, None, "UTF-32")),
    ("labels", _LABELS.replace("long", "déjà").encode("latin-1"), (6, "reason", "d\ufffdj\ufffd free text")),
    ("labels", _LABELS.replace("i2,a,gender,male,", "i2,a").encode(), (4, None, "i2,a")),
    ("labels", _LABELS.replace(",long", ',"long').encode(), (6, "reason", "long free text\ni3,a,age,young,")),
    ("labels", _LABELS.replace("gender,others", '"gender,others').encode(),
     (6, None, 'i3,a,"gender,others,long free text\ni3,a,age,young,')),
    ("labels", (_LABELS.replace(",long", ',"long') + "i1,c,age,young,\n" * 200_000).encode(), (6, None, None)),
    ("labels", _LABELS.replace("label,", "Lable,").encode(), (1, "label", "Lable")),
    ("labels", b"PK\x03\x04xyz", (None, None, None)),  # a spreadsheet
    ("labels", b"version https://git-lfs.github.com/spec/v1\noid sha256:07\nsize 48213\n", (None, None, None)),
    ("prompts", SOUND["prompts"].replace("category", "kind").encode(), (1, "category", None)),
    ("prompts", SOUND["prompts"].replace("word,", "word,word,").encode(), (1, "word", "word")),
    ("images", b"\n\n\n", (None, None, None)),
]  # fmt: skip


def write(folder: Path, tables: dict[str, str]) -> Path:
    folder.mkdir(exist_ok=True)
    for name, text in tables.items():
        (folder / f"{name}.csv").write_text(text, encoding="utf-8")
    return folder


def problems_of(folder: Path, **options: bool) -> tuple[Problem, ...]:
    with pytest.raises(DataError) as caught:
        ImageSet.load(folder, **options)
    assert all(problem.accepted for problem in caught.value.problems if "... and" not in problem.message)
    return caught.value.problems


@pytest.mark.parametrize("number", range(len(CELLS)))
def test_a_wrong_cell_is_told_alone(tmp_path: Path, number: int) -> None:
    sound, table, old, new, *expected = CELLS[number]
    assert old in sound[table]
    ImageSet.load(write(tmp_path / "set", sound))
    folder = write(tmp_path / "set", {**sound, table: sound[table].replace(old, new, 1)})
    assert sorted((p.file, p.row, p.column, p.value) for p in problems_of(folder)) == sorted(
        (f"{table}.csv", *place) for place in expected
    )


@pytest.mark.parametrize("number", range(len(FILES)))
def test_a_broken_file_is_told_alone(tmp_path: Path, number: int) -> None:
    table, content, place = FILES[number]
    folder = write(tmp_path / "set", SOUND)
    if content is None:
        (folder / f"{table}.csv").unlink()
    else:
        (folder / f"{table}.csv").write_bytes(content)
    problem = problems_of(folder, require_labels=True)[0]
    assert (problem.file, problem.row, problem.column, problem.value) == (f"{table}.csv", *place)


def test_messages_say_what_to_do(tmp_path: Path) -> None:
    def told(table: str, old: str, new: str) -> str:
        tables = {**SOUND, table: SOUND[table].replace(old, new)}
        return "\n".join(map(str, problems_of(write(tmp_path / "set", tables))))

    line = "labels.csv, row 4, column label: unknown label for gender: 'man' "
    assert told("labels", ",male", ",man") == line + "(accepted: male, female, low_quality, others)"
    assert "not separated by commas" in told("labels", ",", "\t")
    assert "git lfs pull" in told("labels", SOUND["labels"], "version https://git-lfs.github.com/spec/v1\n")
    assert "'pilot'" in told("images", "pilot", "pilto")
    assert "labels.csv, row 2" in told("labels", "i1,b", "i1,a")
    secret = told("images", "images/2.png", "ftp://kim:pass@host/2.png?token=abc")
    assert "pass" not in secret
    assert "abc" not in secret


def test_all_files_at_once_and_twenty_of_a_kind(tmp_path: Path) -> None:
    tables = dict(SOUND)
    tables["images"] = (
        tables["images"].replace("i1,images", "i1,../images").replace("i2,images/2.png,sdxl,pilot", "i2,,,x")
    )
    tables["prompts"] += "nurse,profession,nurse,\n"
    tables["labels"] += "".join(f"i1,c{number},gender,man,\n" for number in range(1000)) + "nobody,a,age,young,\n"
    problems = problems_of(write(tmp_path / "set", tables))
    places = {(p.file, p.row, p.column) for p in problems}
    images = {(2, "path"), (3, "t2i_model"), (3, "prompt_id")}
    assert {("images.csv", *place) for place in images} | {("prompts.csv", 4, "prompt_id")} <= places
    assert ("labels.csv", 1008, "image_id") in places
    men = [p for p in problems if p.value == "man"]
    assert [p.row for p in men] == list(range(8, 28))
    assert any("980" in p.message for p in problems)
    long = problems_of(write(tmp_path / "set", {**SOUND, "labels": SOUND["labels"].replace("male", "m" * 500, 1)}))
    assert long[0].value == "fe" + "m" * 77 + "…"


def test_rows_count_as_a_spreadsheet_does(tmp_path: Path) -> None:
    labels = (
        "image_id,annotator,attribute,label,reason\n\n"  # 1, 2
        'i1,a,gender,others,"two\nlines"\n,,,,\n'  # 3, 4
        "i2,a,gender,man,\ni3,a,gender,female,\n\ni3,b,gender,woman,\n\n"  # 5, 6, 7, 8, 9
    )
    problems = problems_of(write(tmp_path / "set", {**SOUND, "labels": labels}))
    assert [(p.row, p.value) for p in problems] == [(5, "man"), (8, "woman")]
    ragged = labels.replace("i3,a,gender", "i3,gender")
    problems = problems_of(write(tmp_path / "set", {**SOUND, "labels": ragged}))
    assert [(p.row, p.value) for p in problems] == [(6, "i3,gender,female,")]


def test_what_refers_to_a_broken_table_is_no_mistake(tmp_path: Path) -> None:
    tables = {**SOUND, "images": SOUND["images"].replace("sdxl,pilot", "sdxl,pilot,x")}
    tables["prompts"] = tables["prompts"].replace("pilot,profession,pilot,", "pilot")
    problems = problems_of(write(tmp_path / "set", tables), require_labels=True)
    assert [(p.file, p.row) for p in problems] == [("images.csv", 3), ("prompts.csv", 3)]


def test_labels_may_be_required(tmp_path: Path) -> None:
    folder = write(tmp_path / "set", {**SOUND, "images": SOUND["images"] + "i4,,sd3,pilot\n"})
    assert len(ImageSet.load(folder).images) == 4
    assert [(p.row, p.value) for p in problems_of(folder, require_labels=True)] == [(5, "i4")]


def test_places_that_hold_no_image_set(tmp_path: Path) -> None:
    assert problems_of(tmp_path / "nowhere")[0].file == str(tmp_path / "nowhere")
    assert [p.file for p in problems_of(tmp_path)] == ["images.csv", "prompts.csv"]
    folder = write(tmp_path / "set", SOUND)
    frame = pd.read_csv(folder / "prompts.csv")
    frame.to_parquet(folder / "prompts.parquet")
    assert [p.file for p in problems_of(folder)] == ["prompts.csv"]
    (folder / "prompts.csv").unlink()
    pq.write_table(
        pa.table({**frame, "word": np.array([0.5, 1.5]), "category": ["c", None]}), folder / "prompts.parquet"
    )
    assert [(p.file, p.column) for p in problems_of(folder)] == [("prompts.parquet", "word")]
    (folder / "prompts.parquet").write_bytes(b"PAR1 not really PAR1")
    assert [p.file for p in problems_of(folder)] == ["prompts.parquet"]
    (folder / "prompts.parquet").unlink()
    (folder / "prompts.parquet").mkdir()
    assert [p.file for p in problems_of(folder)] == ["prompts.parquet"]
    (folder / "attributes").mkdir()
    (folder / "attributes" / "hat.yaml").write_text("name: hat\nclasses: [yes, no]\n")
    with pytest.raises(DataError, match="hat") as caught:
        ImageSet.load(folder)
    assert {p.file for p in caught.value.problems} == {"attributes/hat.yaml"}


def test_regions(tmp_path: Path) -> None:
    good = ["", "left", "right", "0,0,1,1", "0.25,0,0.5,1.0"]
    bad = [
        "middle",
        "0,0,0,1",
        "0,0,1,1.5",
        "0,0,1",
        "a,b,c,d",
        "-0.1,0,1,1",
        "0,1,1,0.5",
        "nan,0,1,1",
        "0,0,1,1,1",
    ]
    rows = [f'i{n},,m,nurse,"{region}"' for n, region in enumerate([*good, *bad])]
    images = "\n".join(["image_id,path,t2i_model,prompt_id,region", *rows])
    folder = write(tmp_path / "set", {"images": images, "prompts": SOUND["prompts"]})
    assert [(p.row, p.value) for p in problems_of(folder)] == list(enumerate(bad, 2 + len(good)))


@pytest.mark.slow
def test_ragged_rows_of_a_large_file(tmp_path: Path) -> None:
    lines = [f"i1,c{number},gender,female," for number in range(300_000)]
    for position in (5, 150_000, 299_999):
        lines[position] = "i1,ragged"
    folder = write(tmp_path / "set", {**SOUND, "labels": SOUND["labels"] + "\n".join(lines)})
    assert [p.row for p in problems_of(folder)] == [13, 150_008, 300_007]
    problems = problems_of(write(folder, {"labels": SOUND["labels"] + "i1,a,gender\n" * 300_000}))
    assert [p.row for p in problems[:20]] == list(range(8, 28))
    assert "not checked" in problems[20].message


def mutated(text: str, rng: random.Random) -> bytes:
    """A table with a few of the damages that people and programs do."""
    data = bytearray(text.encode())
    for _ in range(rng.randint(1, 2)):
        at = rng.randrange(len(data) + 1)
        kind = rng.randrange(6)
        if kind == 0:
            del data[at:]
        elif kind == 1:
            data[at:at] = rng.choice(
                [b'"', b",", b"\n", b"\r\n\n,", b"\0", b"\xff\x00", b"\xef\xbb\xbf", b" ", b"\t"]
            )
        elif kind == 2:
            del data[at : at + rng.randint(1, 9)]
        elif kind == 3:
            data[at:at] = data[rng.randrange(len(data) + 1) :][:30]
        elif kind == 4:
            data[at:at] = "".join(rng.choices(string.printable + "é看", k=4)).encode()
        else:
            lines = data.split(b"\n")
            rng.shuffle(lines)
            data = bytearray(b"\n".join(lines))
    return bytes(data)


@pytest.mark.parametrize("seeds", [range(40), pytest.param(range(40, 240), marks=pytest.mark.slow)], ids=len)
def test_no_traceback_on_damaged_sets(tmp_path: Path, seeds: range) -> None:
    outcomes = set()
    for seed in seeds:
        rng, sound = random.Random(seed), (SOUND, EDITED, VALUES, STATED)[seed % 4]  # noqa: S311
        folder, table = write(tmp_path / "set", sound), rng.choice([*SOUND])
        (folder / f"{table}.csv").write_bytes(mutated(sound[table], rng))
        try:
            ImageSet.load(folder, require_labels=seed % 3 == 0)
            outcomes.add("sound")
        except DataError as error:
            outcomes |= {"told" if p.accepted or "... and" in p.message else "untold" for p in error.problems}
    assert outcomes == {"sound", "told"}
