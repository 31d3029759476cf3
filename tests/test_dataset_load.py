"""Sound image sets: what a load gives, whatever the file format and the spelling of the CSV."""

from __future__ import annotations

import shutil
from pathlib import Path

import pandas as pd
import pytest

from detector_bench.dataset import ImageSet

LABEL_COLUMNS = ["image_id", "annotator", "attribute", "label", "reason"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "images.csv").write_text(
        "image_id,path,t2i_model,prompt_id\n007,images/b.png,sdxl,nurse\nNA,images/a.png,sd 3,nurse\n"
    )
    (tmp_path / "prompts.csv").write_text('prompt_id,category,word,prompt\nnurse,profession,nurse,"a, ""b"""\n')
    (tmp_path / "labels.csv").write_text(
        "image_id,annotator,attribute,label,reason\nNA,1,gender,male,\n007,1,gender,others,null\n"
    )
    return tmp_path


def as_parquet(source: Path, destination: Path) -> Path:
    destination.mkdir()
    for stem in ("images", "prompts", "labels"):
        table = pd.read_csv(source / f"{stem}.csv", dtype="str", keep_default_na=False)
        table.to_parquet(destination / f"{stem}.parquet")
    return destination


def assert_same_tables(one: ImageSet, other: ImageSet) -> None:
    for name in ("images", "prompts", "labels"):
        pd.testing.assert_frame_equal(getattr(one, name), getattr(other, name))


def test_every_cell_stays_text_in_file_order(folder: Path) -> None:
    image_set = ImageSet.load(folder)
    assert image_set.images.to_numpy().tolist() == [
        ["007", "images/b.png", "sdxl", "nurse"],
        ["NA", "images/a.png", "sd 3", "nurse"],
    ]
    assert image_set.prompts.to_numpy().tolist() == [["nurse", "profession", "nurse", 'a, "b"']]
    assert image_set.labels.to_numpy().tolist() == [
        ["NA", "1", "gender", "male", "", ""],
        ["007", "1", "gender", "others", "null", ""],
    ]
    for table in (image_set.images, image_set.prompts, image_set.labels):
        assert {str(dtype) for dtype in table.dtypes} == {"str"}


def test_name_and_paths(folder: Path) -> None:
    image_set = ImageSet.load(str(folder))
    assert image_set.name == folder.name
    assert image_set.image_path("images/b.png") == folder.resolve() / "images" / "b.png"


@pytest.mark.parametrize(
    "rewrite",
    [
        lambda text: b"\xef\xbb\xbf" + text.encode(),
        lambda text: text.replace("\n", "\r\n").encode(),
        lambda text: text.rstrip("\n").encode(),
        lambda text: (text + "\n\n").encode(),
        lambda text: text.replace("\n", "\n\n").encode(),
        lambda text: "\n".join(line + ",more" for line in text.splitlines()).encode(),
    ],
    ids=["byte order mark", "CRLF", "no last line end", "blank last lines", "blank lines", "another column"],
)
def test_spelling_of_the_csv_has_no_influence(folder: Path, tmp_path: Path, rewrite: object) -> None:
    plain = ImageSet.load(folder)
    for stem in ("images", "prompts", "labels"):
        path = folder / f"{stem}.csv"
        path.write_bytes(rewrite(path.read_text()))  # type: ignore[operator]
    assert_same_tables(ImageSet.load(folder), plain)
    assert ImageSet.load(folder).fingerprint() == plain.fingerprint()


def test_order_of_columns_has_no_influence(folder: Path) -> None:
    plain = ImageSet.load(folder)
    table = pd.read_csv(folder / "labels.csv", dtype="str", keep_default_na=False)
    table[LABEL_COLUMNS[::-1]].to_csv(folder / "labels.csv", index=False)
    assert_same_tables(ImageSet.load(folder), plain)


def test_csv_and_parquet_give_the_same(folder: Path) -> None:
    csv, parquet = ImageSet.load(folder), ImageSet.load(as_parquet(folder, folder / "parquet"))
    assert_same_tables(csv, parquet)
    assert csv.fingerprint() == parquet.fingerprint()


def test_reason_and_value_column_may_be_missing(folder: Path) -> None:
    (folder / "labels.csv").write_text("image_id,annotator,attribute,label\nNA,1,gender,male\n007,1,gender,male\n")
    labels = ImageSet.load(folder).labels
    assert labels.columns.tolist() == [*LABEL_COLUMNS, "value"]
    assert labels["reason"].tolist() == ["", ""]
    assert labels["value"].tolist() == ["", ""]


def test_seed_images_are_kept(folder: Path) -> None:
    (folder / "images.csv").write_text(
        "image_id,path,t2i_model,prompt_id,seed_image_id\n"
        "007,images/b.png,sdxl,nurse,\nNA,images/a.png,sd 3,nurse,007\n"
    )
    assert ImageSet.load(folder).images["seed_image_id"].tolist() == ["", "007"]


def test_one_file_may_serve_many_images(folder: Path) -> None:
    text = (folder / "images.csv").read_text().replace("images/a.png", "images/b.png")
    (folder / "images.csv").write_text(text)
    assert ImageSet.load(folder).images["path"].tolist() == ["images/b.png", "images/b.png"]


def test_other_scripts_are_welcome(folder: Path) -> None:
    for stem in ("images", "prompts", "labels"):
        path = folder / f"{stem}.csv"
        path.write_text(path.read_text().replace("007", "看護師 é").replace("nurse", "médecin"), encoding="utf-8")
    assert ImageSet.load(folder).images["image_id"].tolist() == ["看護師 é", "NA"]


def test_a_fingerprint_tells_every_change_of_content(folder: Path) -> None:
    seen = {ImageSet.load(folder).fingerprint()}
    changes = [
        ("labels.csv", "others,null", "others,nil"),
        ("labels.csv", "NA,1,gender,male", "NA,2,gender,male"),
        ("prompts.csv", '""b""', "b"),
        ("images.csv", "sd 3", "sd 4"),
        # The same letters, divided otherwise between two cells.
        ("labels.csv", "others,nil", "others,nill"),
    ]
    for name, old, new in changes:
        text = (folder / name).read_text()
        assert old in text
        (folder / name).write_text(text.replace(old, new))
        seen.add(ImageSet.load(folder).fingerprint())
    assert len(seen) == len(changes) + 1


def test_a_fingerprint_tells_where_a_cell_ends(folder: Path) -> None:
    (folder / "prompts.csv").write_text("prompt_id,category,word,prompt\nnurse,ab,c,\n")
    one = ImageSet.load(folder).fingerprint()
    (folder / "prompts.csv").write_text("prompt_id,category,word,prompt\nnurse,a,bc,\n")
    assert ImageSet.load(folder).fingerprint() != one


@pytest.mark.slow
def test_a_set_of_many_blocks_is_read_whole(tmp_path: Path) -> None:
    """More than one block of the reader, so that columns come in several pieces."""
    n = 200_000
    ids = [f"image-{number:06d}" for number in range(n)]
    images = pd.DataFrame(
        {"image_id": ids, "path": [f"a/{i}.png" for i in ids], "t2i_model": "m", "prompt_id": "p"}
    )
    labels = pd.DataFrame({"image_id": ids[::-1], "annotator": "a", "attribute": "gender", "label": "male"})
    labels.loc[labels["image_id"] == "image-123456", "label"] = "female"
    images.to_csv(tmp_path / "images.csv", index=False)
    labels.to_csv(tmp_path / "labels.csv", index=False)
    (tmp_path / "prompts.csv").write_text("prompt_id,category,word,prompt\np,c,w,\n")
    image_set = ImageSet.load(tmp_path)
    assert image_set.images["image_id"].tolist() == ids
    truth = image_set.truth("gender")
    assert truth.index[truth["label"] == "female"].tolist() == [123456]
    assert image_set.fingerprint() == ImageSet.load(as_parquet(tmp_path, tmp_path / "parquet")).fingerprint()


def test_t2i_portraits(shared: Path) -> None:
    image_set = ImageSet.load(shared / "data" / "t2i_portraits", check_files=True)
    assert (len(image_set.images), len(image_set.prompts), len(image_set.labels)) == (384, 12, 1469)
    assert image_set.attributes == ("gender", "age", "race")
    assert image_set.labels["attribute"].value_counts().to_dict() == {"gender": 768, "age": 372, "race": 329}
    assert image_set.images["t2i_model"].unique().tolist() == ["sd3.5-large-turbo"]
    assert image_set.truth("age")["label"].isna().sum() == 12


def test_group_scenes(shared: Path) -> None:
    image_set = ImageSet.load(shared / "data" / "group_scenes", check_files=True)
    assert (len(image_set.images), len(image_set.prompts), len(image_set.labels)) == (24, 8, 24)
    truth = image_set.truth("gender")
    assert truth["label"].tolist() == ["low_quality"] * 24
    assert truth["reason"].tolist() == ["several_people"] * 24
    assert "Latin American" in image_set.prompts["prompt"].iloc[0]


def test_shared_sets_are_the_same_as_parquet(shared: Path, tmp_path: Path) -> None:
    for name in ("t2i_portraits", "group_scenes"):
        csv = ImageSet.load(shared / "data" / name)
        parquet = ImageSet.load(as_parquet(shared / "data" / name, tmp_path / name))
        assert_same_tables(csv, parquet)
        assert csv.fingerprint() == parquet.fingerprint()
        shutil.rmtree(tmp_path / name)
