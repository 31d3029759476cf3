"""Image sets: what a load gives, whatever the format, and what is derived from the three tables."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detector_bench_next import dataset
from detector_bench_next.attributes import ADJUDICATOR, built_in
from detector_bench_next.dataset import COLUMNS, ImageSet, positions, read_prompts, read_sample
from detector_bench_next.errors import ConfigError, DataError, Problems

IMAGES = "image_id,path,t2i_model,prompt_id\n007,images/b.png,sdxl,nurse\nNA,images/a.png,sd 3,nurse\n"
PROMPTS = 'prompt_id,category,word,prompt\nnurse,profession,nurse,"a, ""b"""\n'
LABELS = "image_id,annotator,attribute,label,reason\nNA,1,gender,male,\n007,1,gender,others,null\n"
GENDER = built_in()["gender"]


def write(folder: Path, **tables: str) -> Path:
    folder.mkdir(exist_ok=True)
    for name, text in {"images": IMAGES, "prompts": PROMPTS, "labels": LABELS, **tables}.items():
        (folder / f"{name}.csv").write_text(text, encoding="utf-8")
    return folder


def as_parquet(source: Path, folder: Path) -> Path:
    folder.mkdir()
    for name in COLUMNS:
        frame = pd.read_csv(source / f"{name}.csv", dtype=str, keep_default_na=False)
        frame.to_parquet(folder / f"{name}.parquet")
    return folder


def test_cells_stay_text_in_file_order_and_columns_have_their_types(tmp_path: Path) -> None:
    image_set = ImageSet.load(write(tmp_path / "set"))
    assert image_set.images.to_numpy().tolist() == [row.split(",") for row in IMAGES.splitlines()[1:]]
    assert image_set.prompts.to_numpy().tolist() == [["nurse", "profession", "nurse", 'a, "b"']]
    assert image_set.labels.to_numpy().tolist() == [[*row.split(","), ""] for row in LABELS.splitlines()[1:]]
    for frame in (image_set.images, image_set.prompts, image_set.labels):
        for name, kind in frame.dtypes.items():
            assert str(kind) == ("str" if name in ("image_id", "path", "value", "prompt") else "category"), name
    assert image_set.labelled == ("gender",)
    assert image_set.image_of_label.tolist() == [1, 0]
    assert "2 images" in repr(image_set)


SPELLINGS: dict[str, Callable[[str], bytes]] = {
    "byte order mark": lambda text: b"\xef\xbb\xbf" + text.encode(),
    "CRLF": lambda text: text.replace("\n", "\r\n").encode(),
    "no last line end": lambda text: text.rstrip("\n").encode(),
    "blank lines": lambda text: text.replace("\n", "\n\n").encode(),
    "another column": lambda text: "\n".join(line + ",more" for line in text.splitlines()).encode(),
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_spelling_of_the_csv_has_no_influence(tmp_path: Path, spelling: str) -> None:
    folder = write(tmp_path / "set")
    plain = ImageSet.load(folder)
    for name in COLUMNS:
        path = folder / f"{name}.csv"
        path.write_bytes(SPELLINGS[spelling](path.read_text()))
    same = ImageSet.load(folder)
    for name in COLUMNS:
        pd.testing.assert_frame_equal(getattr(plain, name), getattr(same, name), check_categorical=False)
    assert same.fingerprint() == plain.fingerprint()


CHANGES = [  # table, text, in its place, cell of a new last column; the last ones change nothing
    ("labels", "others,null", "others,nil", None),
    ("labels", "NA,1", "NA,2", None),
    ("prompts", '""b""', "b", None),
    ("prompts", "profession,nurse", "professionn,urse", None),
    ("images", "a.png,sd", "a.pngs,d", None),
    ("images", ",prompt_id\n", ",prompt_id,region\n", "left"),
    ("labels", "reason\n", "reason,value\n", ""),
    ("prompts", "word,prompt\n", "word,prompt,weight\n", ""),
]


def test_a_fingerprint_tells_every_change_and_no_format(tmp_path: Path) -> None:
    tables = {"labels": LABELS, "prompts": PROMPTS, "images": IMAGES}
    seen = {ImageSet.load(write(tmp_path / "set")).fingerprint()}
    assert seen == {ImageSet.load(as_parquet(tmp_path / "set", tmp_path / "parquet")).fingerprint()}
    for name, old, new, cell in CHANGES:
        header, *rows = tables[name].replace(old, new).splitlines()
        rows = rows if cell is None else [f"{row},{cell}" for row in rows]
        folder = write(tmp_path / "set", **{name: "\n".join([header, *rows])})
        seen.add(ImageSet.load(folder).fingerprint())
    assert len(seen) == 1 + len(CHANGES) - 2


def test_all_scripts_are_welcome_and_files_may_serve_several_images(tmp_path: Path) -> None:
    tables = {"images": IMAGES.replace("a.png", "b.png"), "prompts": PROMPTS, "labels": LABELS}
    tables = {name: text.replace("007", "看護師 é").replace("nurse", "médecin") for name, text in tables.items()}
    images = ImageSet.load(write(tmp_path / "set", **tables)).images
    assert images["image_id"].tolist() == ["看護師 é", "NA"]
    assert images["path"].tolist() == ["images/b.png", "images/b.png"]


@pytest.mark.parametrize("labels", [None, "image_id,annotator,attribute,label\n"])
def test_labels_may_be_missing_or_empty(tmp_path: Path, labels: str | None) -> None:
    folder = write(tmp_path / "set", labels=labels or "")
    if labels is None:
        (folder / "labels.csv").unlink()
    image_set = ImageSet.load(folder)
    assert image_set.labels.columns.tolist() == [*COLUMNS["labels"], "reason", "value"]
    assert (len(image_set.labels), image_set.labelled) == (0, ())
    assert image_set.truth("gender")["label"].tolist() == ["", ""]
    assert image_set.truth_codes(GENDER).tolist() == [GENDER.unlabelled] * 2
    with pytest.raises(ConfigError, match="'gender'"):
        image_set.truth("gendre")


ANNOTATORS = ["a", "b", "c", "Z", ADJUDICATOR]
ROWS = st.dictionaries(
    st.tuples(st.integers(0, 3), st.sampled_from(ANNOTATORS)),
    st.tuples(st.sampled_from(GENDER.labels), st.sampled_from(["", "blurred", "no_person"])),
)


def by_hand(said: dict[str, tuple[str, str]]) -> tuple[str, str]:
    """The rule of Lyu 2025 for what the annotators said of one image, written plainly."""
    labels = {said[ADJUDICATOR][0]} if ADJUDICATOR in said else {label for label, _ in said.values()}
    if len(labels) != 1:
        return ("low_quality", "disagreement") if labels else ("", "")
    (agreed,) = labels
    first = sorted(said, key=lambda who: (who != ADJUDICATOR, who))
    return agreed, next((said[who][1] for who in first if said[who][0] == agreed and said[who][1]), "")


@settings(max_examples=40, deadline=None)
@given(ROWS, st.randoms(use_true_random=False))
def test_the_consensus_is_the_rule_by_hand_in_any_order_of_rows_and_images(
    said: dict[tuple[int, str], tuple[str, str]], shuffled: random.Random
) -> None:
    keys, places = list(said), list(range(4))
    shuffled.shuffle(keys)
    shuffled.shuffle(places)
    rows = pd.DataFrame(
        [(who, *said[image, who]) for image, who in keys], columns=["annotator", "label", "reason"]
    )
    image = np.array([places[image] for image, _ in keys], np.int64)
    codes, reasons = dataset.consensus(rows.astype("category"), image, 4, GENDER)
    for number, place in enumerate(places):
        own = {who: said[other, who] for other, who in keys if other == number}
        assert ([*GENDER.labels, ""][codes[place]], reasons[place]) == by_hand(own)


def test_measured_values(tmp_path: Path) -> None:
    values = {
        "i0": [("a", "young", "0.1"), ("b", "young", "0.2"), ("c", "young", "0.3")],  # the mean
        "i1": [("a", "young", "20"), ("b", "young", "")],  # of those who gave one
        "i2": [("a", "young", "20"), ("b", "elderly", "70"), (ADJUDICATOR, "elderly", "")],  # of the agreed label
        "i3": [("a", "young", "20"), (ADJUDICATOR, "young", "26")],  # the adjudicator's
        "i4": [("a", "young", "20"), ("b", "elderly", "70")],  # no agreement
    }
    lines = [f"{i},{who},age,{label},{value}\n" for i, rows in values.items() for who, label, value in rows]
    images = "".join(f"{i},{i}.png,m,nurse\n" for i in (*values, "i5"))
    expected = [(0.1 + 0.2 + 0.3) / 3, 20, 70, 26, np.nan, np.nan]
    for seed in range(4):
        random.Random(seed).shuffle(lines)  # noqa: S311
        labels = "image_id,annotator,attribute,label,value\n" + "".join(lines)
        folder = write(tmp_path / "set", images=IMAGES.split("007", maxsplit=1)[0] + images, labels=labels)
        image_set = ImageSet.load(folder)
        np.testing.assert_array_equal(image_set.measured("age"), expected)  # to the last digit
        assert np.isnan(image_set.measured("gender")).all()


STATED = """prompt_id,category,word,prompt,stated_gender,stated_race,base_prompt_id,weight,language
dancer,occupation,dancer,,,,,3,
nurse,occupation,nurse,,,,dancer,,de
white_nurse,occupation,white nurse,,,white,nurse,,zh-Hans
asian_nurse,occupation,asian nurse,,others,partly,nurse,0.5,
"""


def test_statements_and_weights(tmp_path: Path) -> None:
    image_set = ImageSet.load(write(tmp_path / "set", prompts=STATED))
    race = image_set.stated("race")
    assert race is not None
    assert race.to_dict() == {"dancer": "", "nurse": "", "white_nurse": "white", "asian_nurse": "partly"}
    assert image_set.stated("age") is None
    assert image_set.prompt_weights == {"dancer": 3.0, "nurse": 3.0, "white_nurse": 3.0, "asian_nurse": 0.5}
    as_number = ImageSet.load(write(tmp_path / "set", prompts=STATED.replace(",3,", ",3.0,")))
    assert as_number.fingerprint() == image_set.fingerprint()
    other = ImageSet.load(write(tmp_path / "set", prompts=STATED.replace("de\n", "en\n")))
    assert other.fingerprint() != image_set.fingerprint()
    plain = ImageSet.load(write(tmp_path / "set"))
    empty = PROMPTS.replace("prompt\n", "prompt,stated_gender,weight,scene\n").replace('"\n', '",,,\n')
    assert ImageSet.load(write(tmp_path / "set", prompts=empty)).fingerprint() == plain.fingerprint()
    assert plain.prompt_weights is None


def test_edited_photos_and_labels_of_changes(tmp_path: Path) -> None:
    images = "image_id,path,t2i_model,prompt_id,seed_image_id,region\n"
    images += 'tom,tom.png,,,,\ne1,1.png,m,nurse,tom,left\ne2,1.png,m,nurse,e1,"0.5,0,1,0.25"\n'
    labels = "image_id,annotator,attribute,label\ne1,a,gender_change,male_female\ntom,a,gender,male\n"
    image_set = ImageSet.load(write(tmp_path / "set", images=images, labels=labels))
    assert image_set.images["seed_image_id"].tolist() == ["", "tom", "e1"]
    assert image_set.labelled == ("gender", "gender_change")
    assert image_set.truth("gender_change")["label"].tolist() == ["", "male_female", ""]
    assert "gender_change" not in ImageSet.load(write(tmp_path / "plain")).attributes


def test_select_keeps_images_with_their_labels(tmp_path: Path, shared: Path) -> None:
    whole = ImageSet.load(shared / "data" / "t2i_portraits")
    mask = np.arange(len(whole.images)) % 3 == 1
    part = whole.select(mask)
    assert len(part.images) == mask.sum()
    assert part.images["image_id"].tolist() == whole.images["image_id"][mask].tolist()
    for name in whole.labelled:
        assert part.truth(name)["label"].tolist() == whole.truth(name)["label"][mask].tolist()
    part.save(tmp_path / "part")
    assert ImageSet.load(tmp_path / "part").fingerprint() == part.fingerprint()
    assert len(whole.select(np.zeros(len(mask), bool)).images) == 0


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)


@settings(max_examples=10, deadline=None)
@given(prompts=st.lists(TEXTS, min_size=1, max_size=30), reason=TEXTS)
def test_any_text_survives_saving(
    tmp_path_factory: pytest.TempPathFactory, prompts: list[str], reason: str
) -> None:
    n = range(len(prompts))
    ids, folder = [f"p{i}" for i in n], tmp_path_factory.mktemp("set")
    images = pd.DataFrame({"image_id": ids, "path": "", "t2i_model": "m", "prompt_id": ids})
    table = pd.DataFrame({"prompt_id": ids, "category": "c", "word": "w", "prompt": prompts})
    said = {"annotator": "a", "attribute": "gender", "label": "others", "reason": reason}
    made = ImageSet.from_frames(folder, images, table, pd.DataFrame({"image_id": ids, **said}))
    made.save(folder)
    loaded = ImageSet.load(folder)
    assert loaded.prompts["prompt"].tolist() == prompts
    assert loaded.fingerprint() == made.fingerprint()


def test_data_frames_are_checked_as_files_are(tmp_path: Path) -> None:
    models = pd.Categorical(["m", "m"])
    images = pd.DataFrame({"image_id": [1, 2], "path": "", "t2i_model": models, "prompt_id": "p"})
    prompts = pd.DataFrame({"prompt_id": ["p"], "category": "c", "word": "w", "prompt": [None], "weight": [0.5]})
    labels = pd.DataFrame({"image_id": [2], "annotator": 7, "attribute": "age", "label": "young", "value": np.nan})
    image_set = ImageSet.from_frames(tmp_path, images, prompts, labels)
    assert image_set.truth("age")["label"].tolist() == ["", "young"]
    assert image_set.prompt_weights == {"p": 0.5}
    with pytest.raises(DataError) as caught:
        ImageSet.from_frames(tmp_path, images.assign(prompt_id="q", path=[object(), 1]), prompts.iloc[:, 1:])
    assert {(p.file, p.column) for p in caught.value.problems} == {("images", "path"), ("prompts", "prompt_id")}
    with pytest.raises(DataError) as caught:
        ImageSet.from_frames(tmp_path, images, prompts, labels.assign(label="yung"))
    assert [(p.row, p.column, p.value) for p in caught.value.problems] == [(2, "label", "yung")]


class TestParquet:
    def test_whole_numbers_dictionaries_and_nulls_are_text(self, tmp_path: Path) -> None:
        folder = write(tmp_path / "set")
        (folder / "labels.csv").unlink()
        columns = {
            "image_id": pa.array(["007", "NA"]),
            "annotator": pa.array([1, 2]).dictionary_encode(),
            "attribute": pa.array(["age", "age"]).dictionary_encode(),
            "label": pa.array(["young", "others"], pa.large_string()),
            "reason": pa.array([None, "x"]),
            "value": pa.array([20.5, None]),
            "seconds": pa.array([1.5, 2.5]),
        }
        pq.write_table(pa.table(columns), folder / "labels.parquet")
        labels = ImageSet.load(folder).labels
        assert labels["annotator"].tolist() == ["1", "2"]
        assert labels["reason"].tolist() == ["", "x"]
        assert labels["value"].tolist() == ["20.5", ""]
        assert "seconds" not in labels

    def test_a_folder_is_one_table_in_the_order_of_names(self, tmp_path: Path) -> None:
        folder = write(tmp_path / "set")
        (folder / "images.csv").unlink()
        parts = folder / "images.parquet"
        parts.mkdir()
        (parts / "_SUCCESS").touch()
        (parts / "_metadata.parquet").write_bytes(b"not ours")
        one = {"image_id": ["007"], "path": ["7.png"], "t2i_model": ["m"], "prompt_id": ["nurse"]}
        pq.write_table(pa.table({**one, "seed_image_id": ["NA"], "more": [1.5]}), parts / "part-1.parquet")
        pq.write_table(pa.table({**one, "image_id": ["NA"]}), parts / "part-0.parquet")
        images = ImageSet.load(folder).images
        assert images["image_id"].tolist() == ["NA", "007"]
        assert images["seed_image_id"].tolist() == ["", "NA"]
        pq.write_table(pa.table({**one, "path": ["../7.png"]}), parts / "part-2.parquet")
        with pytest.raises(DataError) as caught:
            ImageSet.load(folder)
        told = {(p.file, p.row, p.column): p.accepted for p in caught.value.problems}
        assert set(told) == {("images.parquet/part-2.parquet", 2, c) for c in ("image_id", "path")}
        assert "images.parquet/part-1.parquet, row 2" in str(told["images.parquet/part-2.parquet", 2, "image_id"])

    def test_damage_is_told(self, tmp_path: Path) -> None:
        whole = as_parquet(write(tmp_path / "set"), tmp_path / "parquet")
        path, rng = whole / "labels.parquet", random.Random(0)  # noqa: S311
        content, told = path.read_bytes(), 0
        for _ in range(20):
            bad = bytearray(content)
            for _ in range(3):
                bad[rng.randrange(len(bad))] = rng.randrange(256)
            path.write_bytes(bytes(bad[: rng.choice([len(bad), rng.randrange(len(bad))])]))
            with suppress(DataError):
                told += 1
                ImageSet.load(whole)
                told -= 1
        assert told > 5


def test_prompts_of_a_table_and_of_lines(tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text("prompt_id,prompt,stated_gender,more\n1,a nurse,female,x\n2,a cook,,y\n")
    frame = read_prompts(tmp_path / "p.csv")
    assert frame.columns.tolist() == ["prompt_id", "prompt", "stated_gender"]
    assert frame["prompt"].tolist() == ["a nurse", "a cook"]
    (tmp_path / "p.txt").write_bytes("\ufeffa nurse\r\n\n  a médecin\n".encode())
    assert read_prompts(tmp_path / "p.txt").to_dict("list") == {"prompt": ["a nurse", "a médecin"]}
    bad = [("p.csv", b"prompt\na\n"), ("p.csv", b"prompt_id,stated_gender\n1,woman\n1,\n")]
    bad += [("p.csv", b"prompt_id\n"), ("p.txt", b""), ("p.txt", b"a\nd\xe9j\xe0\n")]
    for name, content in bad:
        (tmp_path / name).write_bytes(content)
        for path in (tmp_path / name, tmp_path / f"no_{name}"):
            with pytest.raises(DataError):
                read_prompts(path)


def test_sample(tmp_path: Path) -> None:
    assert read_sample(tmp_path) is None
    header = "image_id,probability,cell_probability,draw,drawn_from\n"
    (tmp_path / "sample.csv").write_text(f"{header}i1,0.25,1,1,abc\ni2,0.5,1,2,abc\n")
    sample = read_sample(tmp_path)
    assert sample is not None
    assert sample["probability"].tolist() == [0.25, 0.5]
    assert sample["draw"].tolist() == [1, 2]
    (tmp_path / "sample.csv").write_text(f"{header}i1,0,1,1,abc\ni1,0.5,2,1.5,abc\ni3,,1,1,\n")
    with pytest.raises(DataError) as caught:
        read_sample(tmp_path)
    assert {(p.row, p.column) for p in caught.value.problems} == {
        *((2, "probability"), (3, "image_id"), (3, "cell_probability"), (3, "draw")),
        *((4, "probability"), (4, "drawn_from")),
    }


def test_small_tools(tmp_path: Path) -> None:
    (tmp_path / "calibration.csv").write_text("who,image_id\nann,i1\n,i2\n")
    problems = Problems()
    table = dataset.read_table(tmp_path / "calibration.csv", ["image_id"], [], problems)
    assert table is not None
    assert table.frame["image_id"].tolist() == ["i1", "i2"]
    assert (table.row.tolist(), table.others, problems) == ([2, 3], ("who",), [])
    ids = pd.Series(["a", "b", "é"], dtype="str")
    assert positions(ids, pd.Series(["é", "x", "a"], dtype="category")).tolist() == [2, -1, 0]
    assert dataset.slug(" A photo/of a médecin! ") == "A_photo_of_a_médecin"


@pytest.mark.slow
def test_the_old_package_says_the_same(shared: Path) -> None:
    """136 small sets (mistakes, fingerprints, consensus, values, weights), two large ones, taxonomies, pixels."""
    compare = shared / "design" / "golden" / "ground" / "compare.py"
    if not compare.is_file():
        pytest.skip(f"the goldens of the old package are not there: {compare}")
    command = [sys.executable, str(compare), "detector_bench_next"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout
