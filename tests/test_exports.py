"""An image set as a Hugging Face dataset: nothing lost, nothing private told, whole or not at all."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest
import yaml
from file_server import serving_files
from generation_rows import request, write_generations
from small_parts import image_name, picture, write_csv, write_image_set, write_tables

from detector_bench.dataset import ImageSet
from detector_bench.errors import ConfigError, DataError
from detector_bench.exports import carried_images
from detector_bench.exports.croissant import PublishedAs
from detector_bench.exports.export_folder import RECORD
from detector_bench.exports.hugging_face import HuggingFaceSettings, export_hugging_face

COUNT = 6


@pytest.fixture
def images(tmp_path: Path) -> Path:
    return write_image_set(tmp_path / "images", COUNT)


def settings(**more: object) -> HuggingFaceSettings:
    return HuggingFaceSettings(PublishedAs("Six colours", "cc-by-4.0", ("Us",)), **more)  # type: ignore[arg-type]


def texts(path: Path) -> pd.DataFrame:
    return pd.read_csv(path, dtype="str", keep_default_na=False)


def front_matter(folder: Path) -> dict[str, object]:
    found = yaml.safe_load((folder / "README.md").read_text(encoding="utf-8").split("---\n")[1])
    assert isinstance(found, dict)
    return found


def as_image_set(folder: Path, rebuilt: Path) -> ImageSet:
    """The export as an image set again, by the documented meaning of its tables."""
    metadata = texts(folder / "metadata.csv")
    rebuilt.mkdir()
    kept = ["image_id", "file_name", "t2i_model", "prompt_id", *metadata.columns[7:]]
    metadata[kept].rename(columns={"file_name": "path"}).to_csv(rebuilt / "images.csv", index=False)
    for name in ("prompts.csv", "labels.csv"):
        (rebuilt / name).write_bytes((folder / name).read_bytes())
    (rebuilt / "images").symlink_to(folder / "images")
    return ImageSet.load(rebuilt)


def test_what_is_exported_is_the_same_set(images: Path, tmp_path: Path) -> None:
    (images / "LICENSE").write_text("as you like\n")
    (images / "calibration.csv").write_text(f"image_id\n{image_name(1)}\n")
    before = ImageSet.load(images)
    written = export_hugging_face(before, tmp_path / "out", settings())
    assert written.images == COUNT
    again = as_image_set(tmp_path / "out", tmp_path / "again")
    assert again.fingerprint() == before.fingerprint()
    for path in before.images["path"]:
        assert (tmp_path / "out" / path).read_bytes() == (images / path).read_bytes()
    assert (tmp_path / "out" / "LICENSE").read_text() == "as you like\n"
    assert (tmp_path / "out" / "calibration.csv").read_bytes() == (images / "calibration.csv").read_bytes()
    front = front_matter(tmp_path / "out")
    assert (front["license"], front["size_categories"]) == ("cc-by-4.0", ["n<1K"])
    (config,) = front["configs"]  # type: ignore[misc]
    assert config["data_files"] == [{"split": "test", "path": ["metadata.csv", "images/**"]}]


def test_files_elsewhere_in_the_set_get_a_common_folder(tmp_path: Path) -> None:
    folder = tmp_path / "set"
    (folder / "renders").mkdir(parents=True)
    picture(0).save(folder / "renders" / "a.png")
    with tarfile.open(folder / "more.tar", "w") as archive:
        data = io.BytesIO()
        picture(1).save(data, "PNG")
        member = tarfile.TarInfo("b.png")
        member.size = len(data.getvalue())
        archive.addfile(member, io.BytesIO(data.getvalue()))
    write_tables(folder, [], extra=[("a", "renders/a.png"), ("b:1", "more.tar#b.png")])
    export_hugging_face(ImageSet.load(folder), tmp_path / "out", settings())
    names = texts(tmp_path / "out" / "metadata.csv")["file_name"].tolist()
    assert names[0] == "images/renders/a.png"
    assert names[1].startswith("images/brought/b_1-")
    assert (tmp_path / "out" / names[1]).read_bytes() == data.getvalue()


def test_ids_that_look_like_numbers_are_kept_as_text(tmp_path: Path) -> None:
    folder = tmp_path / "set"
    (folder / "images").mkdir(parents=True)
    picture(0).save(folder / "images" / "007.png")
    write_tables(folder, [], extra=[("007", "images/007.png")])
    written = export_hugging_face(ImageSet.load(folder), tmp_path / "out", settings())
    assert not (tmp_path / "out" / "metadata.csv").exists()
    assert pq.read_table(tmp_path / "out" / "metadata.parquet")["image_id"].to_pylist() == ["007"]
    assert any("would take some of the texts for numbers" in note for note in written.notes)


def test_no_folder_of_this_machine_and_no_name_that_is_to_be_hidden(images: Path, tmp_path: Path) -> None:
    rows = [request(image_name(0), "A", "p0", "made", model="/home/eve/models/sdxl", parameters='{"steps": 2}')]
    rows += [request("x", "A", "p0", "blocked", reason="nsfw")]
    write_generations(images, rows)
    export_hugging_face(ImageSet.load(images), tmp_path / "out", settings(hide_annotators=True))
    written = pq.read_table(tmp_path / "out" / "generations.parquet").to_pylist()
    assert [each["model"] for each in written] == ["sdxl", None]
    assert [each["parameters"] for each in written] == [each["parameters"] for each in rows]
    assert set(texts(tmp_path / "out" / "labels.csv")["annotator"]) == {"annotator_1"}
    everything = b"".join(path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file())
    assert b"/home/" not in everything
    assert str(tmp_path).encode() not in everything
    card = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    assert "Labels by annotator: annotator_1 6\n" in card
    assert "| A | 1 | 1 | 0 | 0 | 50.0 [9.5, 90.5] % |" in card  # Wilson's interval of 1 of 2


def test_an_interrupted_export_goes_on(images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "out"

    def stop(done: int, total: int) -> None:
        if done == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        export_hugging_face(ImageSet.load(images), out, settings(), progress=stop)
    assert not out.exists()
    (partial,) = [path for path in tmp_path.iterdir() if path.name.startswith(".out")]
    kept = {path.name: path.stat().st_ino for path in (partial / "images").iterdir()}
    assert len(kept) == 4
    export_hugging_face(ImageSet.load(images), out, settings())
    assert not partial.exists()
    now = {path.name: path.stat().st_ino for path in (out / "images").iterdir()}
    assert {name: now[name] for name in kept} == kept


def test_an_interrupted_parquet_export_reads_images_again_that_changed(
    images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("detector_bench.exports.hugging_face._rows_per_file", lambda *_: 2)
    out = tmp_path / "out"

    def stop(done: int, total: int) -> None:
        if done == 6:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        export_hugging_face(ImageSet.load(images), out, settings(form="parquet"), progress=stop)
    kept = {path.name: path.stat().st_ino for path in (tmp_path / ".out.unfinished" / "data").iterdir()}
    assert len(kept) == 2
    picture(99).resize((9, 9)).save(images / ImageSet.load(images).images["path"].iloc[0])
    export_hugging_face(ImageSet.load(images), out, settings(form="parquet"))
    shards = sorted((out / "data").iterdir())
    now = [path.stat().st_ino == kept.get(path.name) for path in shards]
    assert now == [False, True, False]
    for row in (row for shard in shards for row in pq.read_table(shard).to_pylist()):
        assert row["image"]["bytes"] == (images / row["image"]["path"]).read_bytes()
    assert {path.name for path in out.iterdir() if path.name.startswith(".")} == set()


def test_two_exports_never_write_one_folder_at_once(images: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"

    def other(done: int, total: int) -> None:
        if done == 3:
            with pytest.raises(ConfigError, match="another export is writing"):
                export_hugging_face(ImageSet.load(images), out, settings(form="parquet"))

    assert export_hugging_face(ImageSet.load(images), out, settings(), progress=other).images == COUNT
    assert len(list((out / "images").iterdir())) == COUNT
    assert not (out / ".lock").exists()


def test_a_folder_is_replaced_only_if_an_export_wrote_all_of_it(images: Path, tmp_path: Path) -> None:
    image_set, out = ImageSet.load(images), tmp_path / "out"
    export_hugging_face(image_set, out, settings())
    with pytest.raises(ConfigError, match="--overwrite"):
        export_hugging_face(image_set, out, settings())
    export_hugging_face(image_set, out, settings(form="parquet"), overwrite=True)
    assert not (out / "images").exists()
    assert json.loads((out / RECORD).read_text())["as"] == "parquet"
    (out / "thesis.txt").write_text("mine")
    with pytest.raises(ConfigError, match=r"thesis\.txt"):
        export_hugging_face(image_set, out, settings(), overwrite=True)
    for place in (images, tmp_path):
        with pytest.raises(ConfigError, match=r"lies around it|holds something"):
            export_hugging_face(image_set, place, settings(), overwrite=True)


def test_links_are_asked_for_and_never_lead_out(
    images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    image_set = ImageSet.load(images)
    export_hugging_face(image_set, tmp_path / "hard", settings(link="hardlink"))
    first = image_set.images["path"][0]
    assert (tmp_path / "hard" / first).samefile(images / first)
    written = export_hugging_face(image_set, tmp_path / "soft", settings(link="symlink"))
    assert not (tmp_path / "soft" / first).readlink().is_absolute()
    assert any("not to be pushed" in note for note in written.notes)
    monkeypatch.setattr(carried_images, "MOST_BYTES_UNASKED", 100)
    with pytest.raises(ConfigError, match="--link copy, or --link hardlink"):
        export_hugging_face(image_set, tmp_path / "out", settings())
    picture(0).save(tmp_path / "secret.png")
    (images / first).unlink()
    (images / first).symlink_to(tmp_path / "secret.png")
    with pytest.raises(DataError, match="leaves the folder through a link"):
        export_hugging_face(image_set, tmp_path / "out", settings(link="copy"))
    assert not (tmp_path / "out").exists()


def test_addresses_need_to_be_fetched_and_never_tell_their_secrets(tmp_path: Path) -> None:
    folder = tmp_path / "set"
    folder.mkdir()
    write_tables(folder, [], extra=[("a", "https://images.example/a.png?signature=abc")])
    with pytest.raises(ConfigError, match=r"1 of 1 images lie at addresses.*--fetch.*jsonl"):
        export_hugging_face(ImageSet.load(folder), tmp_path / "out", settings())


def test_addresses_are_fetched_where_that_is_wished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DETECTOR_BENCH_CACHE", str(tmp_path / "cache"))
    content = io.BytesIO()
    picture(2).save(content, "PNG")
    folder = tmp_path / "set"
    folder.mkdir()
    monkeypatch.setenv("NO_PROXY", "*")
    with serving_files() as server:
        server.files["/a"] = content.getvalue()
        write_tables(folder, [], extra=[("a", f"{server.address}/a?token=secret")])
        export_hugging_face(ImageSet.load(folder), tmp_path / "out", settings(fetch=True))
    (name,) = texts(tmp_path / "out" / "metadata.csv")["file_name"]
    assert name.endswith(".png"), "the content says what it is"
    assert (tmp_path / "out" / name).read_bytes() == content.getvalue()
    assert all(b"secret" not in path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file())


def test_edited_photos_keep_their_seeds(tmp_path: Path) -> None:
    folder = tmp_path / "set"
    (folder / "images").mkdir(parents=True)
    for number, name in enumerate(("photo", "edit")):
        picture(number).save(folder / "images" / f"{name}.png")
    write_csv(
        folder / "images.csv",
        ("image_id", "path", "t2i_model", "prompt_id", "seed_image_id"),
        [("photo", "images/photo.png", "", "", ""), ("edit", "images/edit.png", "A", "p0", "photo")],
    )
    write_csv(folder / "prompts.csv", ("prompt_id", "category", "word", "prompt"), [("p0", "c", "w", "a w")])
    export_hugging_face(ImageSet.load(folder), tmp_path / "out", settings())
    metadata = texts(tmp_path / "out" / "metadata.csv").set_index("image_id")
    assert metadata["seed_image_id"].to_dict() == {"photo": "", "edit": "photo"}
    assert "whether the people in the 1 photo agreed" in (tmp_path / "out" / "README.md").read_text().lower()


@pytest.mark.slow
@pytest.mark.parametrize("form", ["imagefolder", "parquet"])
def test_others_read_it(images: Path, tmp_path: Path, form: str) -> None:
    croissant = pytest.importorskip("mlcroissant")
    datasets = pytest.importorskip("datasets")
    write_generations(
        images, [request(image_name(n), "AB"[n % 2], f"p{n // 2 % 2}", "made") for n in range(COUNT)]
    )
    image_set = ImageSet.load(images)
    export_hugging_face(image_set, tmp_path / "out", settings(form=form))
    described = croissant.Dataset(str(tmp_path / "out" / "croissant.json"))
    assert described.metadata.issues.errors == set()
    stated = {"data_biases", "data_collection", "data_social_impact", "annotations_per_item", "data_limitations"}
    assert all(getattr(described.metadata, name) for name in stated)
    rows = list(described.records("images"))
    pixels = {row["images/image_id"].decode(): row["images/image"].getpixel((0, 0)) for row in rows}
    assert pixels == {image_name(number): picture(number).getpixel((0, 0)) for number in range(COUNT)}
    labels = [row["labels/label"].decode() for row in described.records("labels")]
    assert labels == image_set.labels["label"].tolist()
    assert len(list(described.records("generations"))) == COUNT
    read = datasets.load_dataset(str(tmp_path / "out"), split="test", cache_dir=str(tmp_path / "cache"))
    assert read["image_id"][:] == image_set.images["image_id"].tolist()
    assert read[4]["image"].getpixel((3, 3)) == picture(4).getpixel((3, 3))
    assert read[4]["prompt"] == "a photo of a nurse"
