"""What `export huggingface` writes and `import` reads again is the same image set, with all that belongs to it."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest
from generation_rows import request, write_generations
from small_parts import picture, write_csv

from detector_bench.dataset import ImageSet, check
from detector_bench.dataset.image_sources import read_image
from detector_bench.dataset.import_settings import ImportSettings
from detector_bench.dataset.importing import import_images, plan_import
from detector_bench.dataset.sample_file import LabelSample, read_sample, sample_of, write_sample
from detector_bench.exports.croissant import PublishedAs
from detector_bench.exports.hugging_face import HuggingFaceSettings, export_hugging_face
from detector_bench.sample_design import SampleDesign

IDS = ("a:1", "007", "NA", "ä  b")
PATHS = ("images/SD 3/a.png", "images/SD 3/größe  zwei/a.png", 'images/SD 3/b, "c".PNG', "images/d.png")
BESIDE = ("sample.csv", "calibration.csv", "pair_sample.csv", "scenes.csv", "halves.csv", "LICENSE")
MOOD = "name: mood\nclasses: [glad, sad]\n"
SENTENCE = 'a photo, "quoted",\nof  two   lines; ünï'


def png(number: int) -> bytes:
    content = io.BytesIO()
    picture(number).save(content, "PNG")
    return content.getvalue()


def write_hard_set(folder: Path, paths: tuple[str, ...] = PATHS) -> ImageSet:
    """A set with everything that one may have: photos, statements, weights, values, an attribute of its own."""
    for number, path in enumerate(paths):
        if "#" not in path:
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(png(number))
    (folder / "images" / "photo.png").write_bytes(png(9))
    images = [("photo", "images/photo.png", "", "", "")]
    for number, (name, path) in enumerate(zip(IDS, paths, strict=True)):
        images.append(
            (name, path, ("SD  3", "flux")[number % 2], f"p,  {number % 2}", "photo" if not number else "")
        )
    write_csv(folder / "images.csv", ("image_id", "path", "t2i_model", "prompt_id", "seed_image_id"), images)
    write_csv(
        folder / "prompts.csv",
        ("prompt_id", "category", "word", "prompt", "stated_gender", "base_prompt_id", "weight"),
        [
            ("base", "c", "w", "a w", "", "", "2"),
            ("p,  0", "own, category", 'the "word"', SENTENCE, "female", "base", "0.25"),
            ("p,  1", "c2", "=cmd()", "one", "", "", "3"),
            ("unused", "c3", "null", "nan", "", "", "1"),
        ],
    )
    labels = []
    for name in IDS:
        labels += [(name, "anna, b.", "gender", "male", "", ""), (name, "anna, b.", "age", "young", "", "21.5")]
        labels += [(name, "Ben  C", "gender", "low_quality", "no_person", "")]
        labels += [(name, "adjudicator", "gender", "others", "", ""), (name, "Ben  C", "mood", "sad", "", "")]
    write_csv(folder / "labels.csv", ("image_id", "annotator", "attribute", "label", "reason", "value"), labels)
    (folder / "attributes").mkdir()
    (folder / "attributes" / "mood.yaml").write_text(MOOD)
    requests = [request(each[0], each[2], each[3], "made") for each in images if each[2]]
    write_generations(folder, [*requests, request("x", "flux", "p,  1", "blocked", reason="nsfw")])
    (folder / "calibration.csv").write_text("image_id\n007\n")
    (folder / "pair_sample.csv").write_text("image_id\na:1\n")
    (folder / "scenes.csv").write_text("scene_prompt_id,side,prompt_id\n")
    (folder / "halves.csv").write_text("image_id,half\n")
    (folder / "LICENSE").write_text("as you like\n")
    image_set = ImageSet.load(folder)
    rows = pd.DataFrame({"image_id": ["a:1", "NA"], "stratum": "", "probability": 0.5, "cell_probability": 0.5})
    write_sample(folder / "sample.csv", LabelSample(rows.assign(seed=0), SampleDesign.EQUAL, ("007",)), image_set)
    return image_set


def exported(image_set: ImageSet, out: Path, **more: object) -> Path:
    settings = HuggingFaceSettings(PublishedAs("Four colours"), **more)  # type: ignore[arg-type]
    export_hugging_face(image_set, out, settings)
    return out


def assert_same(before: ImageSet, after: ImageSet, *, paths: bool) -> None:
    for name in ("images", "prompts", "labels"):
        left, right = getattr(before, name), getattr(after, name)
        if name == "images" and not paths:
            left, right = left.drop(columns="path"), right.drop(columns="path")
        pd.testing.assert_frame_equal(left, right)
    for old, new in zip(before.images["path"], after.images["path"], strict=True):
        assert read_image(before.image_place(old)) == read_image(after.image_place(new))
    for name in BESIDE:
        assert (after.root / name).read_bytes() == (before.root / name).read_bytes(), name
    there = [pq.read_table(each.root / "generations.parquet") for each in (before, after)]
    assert there[0].equals(there[1])
    # A sample is refused where it was drawn from another version of the set.
    sample = read_sample(after.root / "sample.csv", after)
    assert (sample.image_ids, sample.calibration) == (["a:1", "NA"], ("007",))
    assert check(after.root).ok


@pytest.mark.parametrize("metadata", [None, "csv", "jsonl", "parquet"])
def test_the_same_set_comes_back(metadata: str | None, tmp_path: Path) -> None:
    before = write_hard_set(tmp_path / "set")
    out = exported(before, tmp_path / "out", metadata=metadata)
    after = import_images(out, tmp_path / "again")
    assert after.fingerprint() == before.fingerprint()
    assert_same(before, after, paths=True)


def test_in_parquet_files_all_but_the_paths_comes_back(tmp_path: Path) -> None:
    before = write_hard_set(tmp_path / "set")
    after = import_images(exported(before, tmp_path / "out", form="parquet"), tmp_path / "again")
    assert_same(before, after, paths=False)
    # And what has come back goes out and in again as what it now is.
    assert_same(after, import_images(exported(after, tmp_path / "o2"), tmp_path / "third"), paths=False)


def test_images_in_archives_come_back_as_files(tmp_path: Path) -> None:
    folder = tmp_path / "set"
    (folder / "images").mkdir(parents=True)
    with tarfile.open(folder / "images" / "more.tar", "w") as archive:
        for number in (1, 2):
            member = tarfile.TarInfo(f"x/{number}.png")
            member.size = len(png(number))
            archive.addfile(member, io.BytesIO(png(number)))
    before = write_hard_set(folder, (PATHS[0], "images/more.tar#x/1.png", "images/more.tar#x/2.png", PATHS[3]))
    assert_same(before, import_images(exported(before, tmp_path / "out"), tmp_path / "again"), paths=False)
    # The image set itself is a source, too, and stays in its archives; also where nothing else lies there.
    assert import_images(folder, tmp_path / "copy").fingerprint() == before.fingerprint()


def test_an_image_set_in_archives_alone_keeps_its_ids(tmp_path: Path) -> None:
    folder = tmp_path / "set"
    (folder / "images").mkdir(parents=True)
    with tarfile.open(folder / "images" / "all.tar", "w") as archive:
        member = tarfile.TarInfo("m/p/1.png")
        member.size = len(png(1))
        archive.addfile(member, io.BytesIO(png(1)))
    header = ("image_id", "path", "t2i_model", "prompt_id")
    write_csv(folder / "images.csv", header, [("one", "images/all.tar#m/p/1.png", "A", "p0")])
    write_csv(folder / "prompts.csv", ("prompt_id", "category", "word", "prompt"), [("p0", "c", "w", "a w")])
    before = ImageSet.load(folder, require_labels=False)
    after = import_images(folder, tmp_path / "copy")
    assert after.fingerprint() == before.fingerprint()


def test_a_sample_is_not_brought_into_a_set_that_grows(tmp_path: Path) -> None:
    write_hard_set(tmp_path / "set")
    header = ("image_id", "path", "t2i_model", "prompt_id")
    (tmp_path / "own" / "images").mkdir(parents=True)
    (tmp_path / "own" / "images" / "z.png").write_bytes(png(3))
    write_csv(tmp_path / "own" / "images.csv", header, [("z", "images/z.png", "A", "q")])
    columns = ("prompt_id", "category", "word", "prompt", "weight")
    write_csv(tmp_path / "own" / "prompts.csv", columns, [("q", "c", "w", "s", "1")])
    plan = plan_import(tmp_path / "set", tmp_path / "own", ImportSettings(add=True))
    assert plan.beside == {}
    assert sample_of(plan.write()) is None
