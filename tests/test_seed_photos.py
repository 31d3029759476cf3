"""Photos that are edited: which files are taken, how they come into an image set, what is said of groups."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from recipe_parts import MAN, WOMAN, write_photos, write_recipe
from small_parts import write_csv

from detector_bench.dataset import ImageSet, check
from detector_bench.errors import ConfigError, DataError, DetectorBenchError
from detector_bench.generation.generation_order import GenerationOrder
from detector_bench.generation.making import ImageSetMaking
from detector_bench.generation.recipe import read_recipe
from detector_bench.generation.seed_faces import seed_photos_without_face
from detector_bench.generation.seed_photos import add_seed_labels, copy_seed_photos, read_seed_photos
from detector_bench.study import Study
from detector_bench.vocabulary.columns import IMAGE_COLUMNS, LABEL_COLUMNS, PROMPT_COLUMNS
from detector_bench.weights import WeightsLocator

EDITOR = {"name": "editor", "kind": "test-repainting"}
PHOTOS = {"tom.png": MAN, "ann.png": WOMAN}
LABELS = [("tom", "x", "gender", "male", ""), ("ann", "x", "gender", "female", "")]


def photo_set(folder: Path, labels: list[tuple[str, ...]], names: dict[str, Any] | None = None) -> Path:
    """A folder of photos with labels beside them."""
    write_photos(folder, PHOTOS if names is None else names)
    write_csv(folder / "labels.csv", LABEL_COLUMNS, labels)
    return folder


def test_labels_beside_photos_name_them_without_their_suffix(tmp_path: Path) -> None:
    seeds = read_seed_photos(write_photos(tmp_path, PHOTOS))
    assert [photo.image_id for photo in seeds.photos] == ["seed__ann", "seed__tom"]
    assert seeds.labels().empty
    seeds = read_seed_photos(photo_set(tmp_path, LABELS))
    said = seeds.labels()[["image_id", "label"]].to_numpy().tolist()
    assert said == [["seed__tom", "male"], ["seed__ann", "female"]]
    write_csv(tmp_path / "labels.csv", LABEL_COLUMNS, [("tom.png", "x", "gender", "man", "")])
    with pytest.raises(DataError) as raised:
        read_seed_photos(tmp_path)
    told = "\n".join(map(str, raised.value.problems))
    assert "labels.csv, row 2, column image_id: " in told
    assert "labels.csv, row 2, column label: " in told


def test_of_an_image_set_its_photos_are_taken_and_if_it_has_none_all_images(tmp_path: Path) -> None:
    write_photos(tmp_path / "photos", PHOTOS)
    write_csv(tmp_path / "labels.csv", LABEL_COLUMNS, LABELS)
    write_csv(tmp_path / "prompts.csv", PROMPT_COLUMNS, [("nurse", "profession", "nurse", "a nurse")])
    rows = [("tom", "photos/tom.png", "", "", ""), ("ann", "photos/ann.png", "sd", "nurse", "tom")]
    write_csv(tmp_path / "images.csv", (*IMAGE_COLUMNS, "seed_image_id"), rows)
    seeds = read_seed_photos(tmp_path)
    assert [photo.image_id for photo in seeds.photos] == ["seed__tom"]
    assert seeds.labels()["label"].tolist() == ["male"]
    rows = [(name, path, "sd", "nurse", "") for name, path, *_ in rows]
    write_csv(tmp_path / "images.csv", (*IMAGE_COLUMNS, "seed_image_id"), rows)
    assert [photo.image_id for photo in read_seed_photos(tmp_path).photos] == ["seed__tom", "seed__ann"]


def test_ids_differ_by_more_than_what_a_file_system_overlooks(tmp_path: Path) -> None:
    write_photos(tmp_path, dict.fromkeys(("a b.png", "a_b.jpg", "A__B.webp", "seed__eva.png"), MAN))
    ids = [photo.image_id for photo in read_seed_photos(tmp_path).photos]
    assert len({each.casefold() for each in ids}) == 4
    assert "seed__eva" in ids
    assert not any("__" in each.removeprefix("seed__") for each in ids)


def test_files_that_are_no_photos_are_all_named(tmp_path: Path) -> None:
    write_photos(tmp_path, PHOTOS)
    (tmp_path / "empty.png").touch()
    (tmp_path / "page.jpg").write_text("<html>no photo</html>")
    (tmp_path / "notes.txt").write_text("not looked at")
    with pytest.raises(DataError) as raised:
        read_seed_photos(tmp_path)
    told = [str(problem) for problem in raised.value.problems]
    assert len(told) == 2
    assert f"{tmp_path.name}/empty.png: no seed photo: empty_file" in told[0]
    assert f"{tmp_path.name}/page.jpg: no seed photo: not_an_image: the content is a web page" in told[1]


def test_photos_that_break_off_are_all_named_before_any_is_copied(tmp_path: Path) -> None:
    photos = write_photos(tmp_path / "photos", {**PHOTOS, "eva.png": MAN})
    for name in PHOTOS:
        noise = np.random.default_rng(1).integers(0, 256, (64, 64, 3), dtype=np.uint8)
        Image.fromarray(noise).save(photos / name)
        (photos / name).write_bytes((photos / name).read_bytes()[:-6000])
    seeds = read_seed_photos(photos)
    for look in (
        lambda: copy_seed_photos(seeds, tmp_path / "made"),
        lambda: seed_photos_without_face(seeds, weights=WeightsLocator()),
    ):
        with pytest.raises(DataError) as raised:
            look()
        told = [str(problem).partition(": truncated")[0] for problem in raised.value.problems]
        assert told == [f"{photos / name}: no seed photo" for name in sorted(PHOTOS)]
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("exists", [True, False])
def test_a_folder_without_photos(tmp_path: Path, exists: bool) -> None:
    place = tmp_path if exists else tmp_path / "missing"
    with pytest.raises(
        DetectorBenchError, match="no images found" if exists else "seed_photos: there is no folder"
    ):
        read_seed_photos(place)


def test_copies_stay_as_they_are_and_another_photo_of_the_name_is_refused(tmp_path: Path) -> None:
    photos = write_photos(tmp_path / "photos", PHOTOS)
    made = tmp_path / "made"
    paths = copy_seed_photos(read_seed_photos(photos), made)
    assert paths == {"seed__ann": "seeds/seed__ann.png", "seed__tom": "seeds/seed__tom.png"}
    before = (made / paths["seed__tom"]).stat().st_mtime_ns
    (made / paths["seed__ann"]).unlink()  # stopped in between
    assert copy_seed_photos(read_seed_photos(photos), made) == paths
    assert (made / paths["seed__tom"]).stat().st_mtime_ns == before
    assert (made / paths["seed__ann"]).read_bytes() == (photos / "ann.png").read_bytes()
    write_photos(photos, {"tom.png": WOMAN})
    with pytest.raises(ConfigError, match=r"seed__tom\.png: images of this set were edited from this photo"):
        copy_seed_photos(read_seed_photos(photos), made)


def test_labels_are_added_for_photos_that_have_none(tmp_path: Path) -> None:
    seeds = read_seed_photos(photo_set(tmp_path / "set", LABELS))
    made = tmp_path / "made"
    made.mkdir()
    assert add_seed_labels(seeds, made, images=["seed__tom"]) == 1
    own = [("seed__tom", "b", "gender", "female", ""), ("e1", "b", "gender", "male", "")]
    write_csv(made / "labels.csv", LABEL_COLUMNS, own)
    assert add_seed_labels(seeds, made, images=["seed__tom", "seed__ann"]) == 1
    table = pd.read_csv(made / "labels.csv", dtype="str", keep_default_na=False)
    assert table[["image_id", "annotator", "label"]].to_numpy().tolist() == [
        ["seed__tom", "b", "female"],
        ["e1", "b", "male"],
        ["seed__ann", "x", "female"],
    ]
    assert add_seed_labels(seeds, made, images=["seed__tom", "seed__ann"]) == 0
    (made / "labels.csv").write_text("something,else\n1,2\n")
    assert add_seed_labels(seeds, made, images=["seed__tom"]) == 0
    assert (made / "labels.csv").read_text() == "something,else\n1,2\n"


def balance(tmp_path: Path, labels: list[tuple[str, ...]], names: list[str]) -> list[str]:
    photos = {f"{name}.png": (40, 10 * number, 90) for number, name in enumerate(names)}
    return read_seed_photos(photo_set(tmp_path, labels, photos)).notes()


def test_balanced_groups(tmp_path: Path) -> None:
    people = [(f"{g[0]}{a[0]}{r[0]}", g, a, r) for g in GENDERS for a in AGES for r in ("black", "white")]
    labels = [
        (name, "x", attribute, label, "")
        for name, *said in people
        for attribute, label in zip(("gender", "age", "race"), said, strict=True)
    ]
    assert balance(tmp_path, labels, [name for name, *_ in people]) == [
        "seed photos by gender: male 6, female 6: balanced",
        "seed photos by age: young 4, middle_aged 4, elderly 4: balanced",
        "seed photos by race: white 6, black 6: balanced",
        "seed photos by gender x age x race: 12 of 12 groups, 1 in each",
    ]


GENDERS = ("male", "female")
AGES = ("young", "middle_aged", "elderly")


def test_groups_that_are_not_balanced_and_what_nobody_labelled(tmp_path: Path) -> None:
    labels = [(name, "x", "gender", "male", "") for name in "abc"]
    labels += [("d", "x", "gender", "low_quality", "blurred"), ("a", "x", "skin_tone", "monk_03", "")]
    told = balance(tmp_path, labels, list("abcde"))
    assert told == [
        "seed photos by gender: male 3, female 0; without a class: 2: not balanced",
        "seed photos by skin_tone: monk_03 1; without a class: 4: not balanced",
        "seed photos have no labels of age: whether they are balanced by it cannot be checked",
        "seed photos by gender x skin_tone: 1 of 2 groups, 1 in each",
        "scores of edited photos weigh groups as they are among the seeds, and a score that takes half of "
        "the seeds to be women is wrong for others",
    ]


def test_without_labels_nothing_can_be_said_and_the_same_photo_twice_is_told(tmp_path: Path) -> None:
    told = read_seed_photos(write_photos(tmp_path, dict.fromkeys(("a.png", "b.png"), MAN))).notes()
    assert told[0].startswith("2 seed photos without labels: whether their groups are balanced cannot be checked")
    assert told[1] == "seed photos with the same content, each counts: seed__a, seed__b"


def test_photos_without_a_face(tmp_path: Path) -> None:
    pytest.importorskip("dlib")
    face = pytest.importorskip("skimage.data").astronaut()
    Image.fromarray(face).save(tmp_path / "face.png")
    write_photos(tmp_path, {"wall.png": MAN})
    found = seed_photos_without_face(read_seed_photos(tmp_path), weights=WeightsLocator())
    assert (found.finder, found.without_face) == ("dlib_hog_faces", ("seed__wall",))
    assert "finds no face in 1 of the seed photos" in found.lines()[0]


@pytest.mark.slow
def test_biaspainter_scores_what_a_recipe_made_of_photos(tmp_path: Path) -> None:
    """From photos and words to scores; a refused photo is no pair, and the mitigated set shares all else."""
    photos = photo_set(
        tmp_path / "photos",
        [*LABELS, ("refused", "x", "gender", "male", "")],
        {**PHOTOS, "refused.png": MAN},
    )
    (tmp_path / "words.csv").write_text("category,word\nprofession,nurse\nprofession,pilot\n")
    (tmp_path / "templates.csv").write_text("category,template\nprofession,a person who is a/an [word]\n")
    scores = {}
    for name, more in {"plain": {}, "mitigated": {"keep_attributes": True}}.items():
        recipe = write_recipe(
            tmp_path / f"{name}.yaml",
            name=name,
            prompts={"source": "words.csv", **more},
            images_per_prompt=1,
            seeds_as="plain",
            seed_photos=photos.name,
            models=[EDITOR],
        )
        made = tmp_path / name
        making = ImageSetMaking(read_recipe(recipe), made, GenerationOrder())
        assert making.warnings()[0] == "seed photos by gender: male 2, female 1: not balanced"
        making.run(lambda _progress: None)
        report = check(made)
        assert report.ok, report.summary()
        assert (report.n_seeds, report.n_edited) == (2, 4)
        assert "    seed photos by gender: male 1, female 1: balanced" in report.summary().splitlines()
        assert set(ImageSet.load(made).truth("gender").dropna()["image_id"]) == {"seed__tom", "seed__ann"}
        study = Study(
            image_set=made,
            detectors=["test-colour"],
            attributes=["gender"],
            scores=[{"system": "biaspainter", "preset": "as_code"}],
        )
        metrics = study.run(tmp_path / f"results_{name}", use_cache=False).metrics
        rows = metrics[metrics["metric"] == "biaspainter_model_score"]
        rows = rows[
            (rows["detector"] == "test-colour") & (rows["attribute"] == "gender") & (rows["category"] == "all")
        ]
        scores[name] = set(rows["value"].dropna())
    # Of two words one turns everybody: half of the pairs flip, none with the sentence that asks to keep people.
    assert scores == {"plain": {0.5}, "mitigated": {0.0}}
