"""Images, labels and prompts that are added to an image set: nothing in it changes, and nothing contradicts it."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from PIL import Image

from detector_bench.dataset import ImageSet, check, import_files
from detector_bench.dataset.import_settings import ImportSettings
from detector_bench.dataset.importing import import_images, plan_import
from detector_bench.errors import ConfigError, DataError, DetectorBenchError


def picture(path: Path, number: int = 0) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (8, 8), (number, 0, 0)).save(path)


@pytest.fixture
def image_set(tmp_path: Path) -> Path:
    picture(tmp_path / "first" / "sdxl" / "nurse" / "1.png", 1)
    picture(tmp_path / "first" / "sdxl" / "pilot" / "1.png", 2)
    (tmp_path / "l.csv").write_text(
        "image_id,annotator,label,reason\nsdxl__nurse__1,kim,female,\nsdxl__pilot__1,kim,low_quality,blurred\n"
    )
    import_images(tmp_path / "first", tmp_path / "set", labels=tmp_path / "l.csv")
    return tmp_path / "set"


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def labels(path: Path, *rows: str) -> Path:
    path.write_text("\n".join(["image_id,annotator,label", *rows]) + "\n")
    return path


def test_new_images_and_labels_come_along_and_old_ids_stay(image_set: Path, tmp_path: Path) -> None:
    before = ImageSet.load(image_set)
    picture(tmp_path / "more" / "sdxl" / "nurse" / "1.png", 1)  # is there already
    picture(tmp_path / "more" / "sdxl" / "nurse" / "2.png", 3)
    picture(tmp_path / "more" / "sd3" / "cook" / "1.png", 4)
    given = labels(tmp_path / "new.csv", "sdxl__nurse__1,kim,female", "sdxl__nurse__1,lee,male", "2.png,lee,male")
    plan = plan_import(tmp_path / "more", image_set, ImportSettings(labels=given, add=True))
    added = plan.additions
    assert added is not None
    assert (added.images, added.known_images, added.prompts, added.labels, added.known_labels) == (2, 1, 1, 2, 1)
    after = plan.write()
    assert after.images["image_id"].tolist() == [*before.images["image_id"], "sd3__cook__1", "sdxl__nurse__2"]
    pd.testing.assert_frame_equal(after.images[:2], before.images)
    pd.testing.assert_frame_equal(after.labels[:2], before.labels)
    assert after.labels[["image_id", "annotator", "label"]][2:].to_numpy().tolist() == [
        ["sdxl__nurse__1", "lee", "male"],
        ["sdxl__nurse__2", "lee", "male"],
    ]
    assert check(image_set).ok
    again = plan_import(tmp_path / "more", image_set, ImportSettings(labels=given, add=True))
    assert again.additions is not None
    assert (again.additions.tables, dict(again.moved)) != ((), None)
    assert (again.additions.images, again.additions.labels) == (0, 0)


def test_labels_alone(image_set: Path, tmp_path: Path) -> None:
    given = labels(tmp_path / "new.csv", "images/sdxl/nurse/1.png,lee,others")
    images = (image_set / "images.csv").read_bytes()
    after = import_images(image_set, image_set, labels=given, add=True)
    assert after.labels["annotator"].tolist() == ["kim", "kim", "lee"]
    assert (image_set / "images.csv").read_bytes() == images


def test_an_added_image_whose_name_is_taken_gets_an_id_of_its_own(image_set: Path, tmp_path: Path) -> None:
    picture(tmp_path / "more" / "sdxl" / "Nurse!" / "1.png", 9)
    after = import_images(tmp_path / "more", image_set, add=True)
    first, new = after.images["image_id"].tolist()[0], after.images["image_id"].tolist()[-1]
    assert first == "sdxl__nurse__1"
    assert new.startswith("sdxl__Nurse")
    assert after.images["image_id"].is_unique


def refused(call: Callable[[], object], image_set: Path) -> str:
    before = content(image_set)
    with pytest.raises(DataError) as caught:
        call()
    assert content(image_set) == before
    return str(caught.value)


def test_another_label_of_the_same_annotator_is_refused(image_set: Path, tmp_path: Path) -> None:
    given = labels(tmp_path / "new.csv", "sdxl__pilot__1,lee,male", "sdxl__nurse__1,kim,male")
    said = refused(lambda: import_images(image_set, image_set, labels=given, add=True), image_set)
    assert "new.csv, row 3, column label: label of 'sdxl__nurse__1' contradicts the one that is there" in said
    assert "accepted: 'female', as row 2 of labels.csv says" in said


def test_another_picture_of_the_same_name_is_refused(image_set: Path, tmp_path: Path) -> None:
    picture(tmp_path / "more" / "sdxl" / "nurse" / "1.png", 77)
    said = refused(lambda: import_images(tmp_path / "more", image_set, add=True), image_set)
    assert "images/sdxl/nurse/1.png: another image has this name already" in said


def test_another_category_of_a_prompt_is_refused(image_set: Path, tmp_path: Path) -> None:
    picture(tmp_path / "more" / "sdxl" / "nurse" / "5.png")
    prompts = tmp_path / "p.csv"
    table = pd.read_csv(image_set / "prompts.csv", dtype=str, keep_default_na=False)
    table.assign(category="profession").to_csv(image_set / "prompts.csv", index=False)
    prompts.write_text("prompt_id,category\nnurse,place\n")
    said = refused(lambda: import_images(tmp_path / "more", image_set, prompts=prompts, add=True), image_set)
    assert (
        "category of 'nurse' contradicts the one that is there: 'place' (accepted: 'profession', as row 2" in said
    )


def test_columns_that_nobody_here_knows_and_parquet_stay(image_set: Path, tmp_path: Path) -> None:
    own = pd.read_csv(image_set / "images.csv", dtype=str, keep_default_na=False).assign(steps=["20", "30"])
    own.to_csv(image_set / "images.csv", index=False)
    pd.read_csv(image_set / "labels.csv", dtype=str, keep_default_na=False).to_parquet(
        image_set / "labels.parquet"
    )
    (image_set / "labels.csv").unlink()
    picture(tmp_path / "more" / "sdxl" / "nurse" / "2.png", 3)
    given = labels(tmp_path / "new.csv", "2.png,lee,male")
    after = import_images(tmp_path / "more", image_set, labels=given, add=True)
    assert len(after.labels) == 3
    assert not (image_set / "labels.csv").exists()
    assert pd.read_csv(image_set / "images.csv", keep_default_na=False)["steps"].tolist() == ["20", "30", ""]


@pytest.mark.slow
def test_tables_in_several_files_come_with_a_command_that_makes_one(image_set: Path, tmp_path: Path) -> None:
    own = pd.read_csv(image_set / "labels.csv", dtype=str, keep_default_na=False)
    parts = image_set / "labels.parquet"
    parts.mkdir()
    own.to_parquet(parts / "a.parquet")
    own.head(0).assign(value="").to_parquet(parts / "b.parquet")
    (image_set / "labels.csv").unlink()
    picture(tmp_path / "more" / "sdxl" / "nurse" / "2.png", 3)
    with pytest.raises(DataError) as told:
        import_images(tmp_path / "more", image_set, add=True)
    (line,) = re.findall(r"`python -c (.+)`", str(told.value))
    subprocess.run([sys.executable, "-c", *shlex.split(line)], check=True)
    shutil.rmtree(parts)
    (image_set / "labels_whole.parquet").rename(parts)
    assert len(import_images(tmp_path / "more", image_set, add=True).labels) == len(own)


@pytest.mark.parametrize("stop_at", [0, 1, 2, 3])
def test_an_addition_that_is_cut_short_leaves_a_sound_set(
    stop_at: int, image_set: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = ImageSet.load(image_set)
    for number in (2, 3):
        picture(tmp_path / "more" / "sdxl" / "cook" / f"{number}.png", number)
    given = labels(tmp_path / "new.csv", "2.png,lee,male", "3.png,lee,male")
    name = "_put" if stop_at == 0 else "_csv_writer"
    real = getattr(import_files, name)
    calls: list[object] = []

    def failing(*arguments: object) -> object:
        calls.append(arguments)
        if len(calls) > max(stop_at - 1, 1 - stop_at):
            raise OSError("disk full")
        return real(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(import_files, name, failing)
        with pytest.raises((DetectorBenchError, OSError), match="disk full"):
            import_images(tmp_path / "more", image_set, labels=given, add=True)
    left = ImageSet.load(image_set, check_files=True)
    old = left.images[left.images["image_id"].isin(before.images["image_id"])]
    pd.testing.assert_frame_equal(old, before.images)
    pd.testing.assert_frame_equal(left.labels[:2], before.labels)
    after = import_images(tmp_path / "more", image_set, labels=given, add=True)
    assert (len(after.images), len(after.labels)) == (4, 4)
    assert check(image_set).ok


def test_nothing_is_added_to_what_is_no_image_set(tmp_path: Path) -> None:
    picture(tmp_path / "more" / "sdxl" / "nurse" / "1.png")
    with pytest.raises(DataError, match=r"images\.csv|no such folder"):
        import_images(tmp_path / "more", tmp_path / "none", add=True)
    with pytest.raises(ConfigError, match="--add keeps what is there"):
        import_images(tmp_path / "more", tmp_path / "none", add=True, overwrite=True)
