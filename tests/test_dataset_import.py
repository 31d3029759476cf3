"""Making an image set of a folder tree and any table of labels."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from detector_bench.dataset import ImageSet, check, import_files, import_folder
from detector_bench.errors import ConfigError, DataError, DetectorBenchError, Problem

GENDER_LABELS = "male, female, low_quality, others"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    tree = tmp_path / "tree"
    for number, path in enumerate(
        ("sdxl/a_nurse/1.png", "sdxl/a_nurse/2.JPG", "sdxl/pilot/1.png", "sd 3/a_nurse/first.webp")
    ):
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        image_format = {".png": "PNG", ".JPG": "JPEG", ".webp": "WEBP"}[Path(path).suffix]
        Image.new("RGB", (8, 8), (number * 50, 0, 0)).save(tree / path, format=image_format)
    (tree / "sdxl" / "a_nurse" / "notes.txt").write_text("not an image")
    (tree / "sdxl" / "a_nurse" / ".hidden.png").write_text("not to be seen")
    (tree / "__MACOSX").mkdir()
    (tree / "__MACOSX" / "x.png").write_text("not to be seen")
    return tree


IMAGES = [
    ["sd_3__a_nurse__first", "sd 3/a_nurse/first.webp", "sd 3", "a_nurse"],
    ["sdxl__a_nurse__1", "sdxl/a_nurse/1.png", "sdxl", "a_nurse"],
    ["sdxl__a_nurse__2", "sdxl/a_nurse/2.JPG", "sdxl", "a_nurse"],
    ["sdxl__pilot__1", "sdxl/pilot/1.png", "sdxl", "pilot"],
]


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def label_rows(image_set: ImageSet) -> list[list[str]]:
    return image_set.labels[["image_id", "annotator", "attribute", "label", "reason"]].to_numpy().tolist()


def problems_of(*arguments: Any, **options: Any) -> list[Problem]:
    with pytest.raises(DataError) as caught:
        import_folder(*arguments, **options)
    return list(caught.value.problems)


def test_in_place_without_labels(tree: Path) -> None:
    image_set = import_folder(tree, tree)
    assert image_set.images.to_numpy().tolist() == IMAGES
    assert image_set.prompts.to_numpy().tolist() == [
        ["a_nurse", "unknown", "a nurse", ""],
        ["pilot", "unknown", "pilot", ""],
    ]
    assert not (tree / "labels.csv").exists()
    assert not (tree / "images").exists()
    assert check(tree, require_labels=False).ok


def test_copied_elsewhere(tree: Path, tmp_path: Path) -> None:
    image_set = import_folder(tree, tmp_path / "new" / "set", category="profession")
    assert image_set.images["path"].tolist() == [f"images/{path}" for _, path, _, _ in IMAGES]
    for _, path, _, _ in IMAGES:
        assert (image_set.root / "images" / path).read_bytes() == (tree / path).read_bytes()
    assert image_set.prompts["category"].tolist() == ["profession", "profession"]
    assert check(image_set.root, require_labels=False).ok
    assert sorted(path.name for path in image_set.root.iterdir()) == [
        "images",
        "images.csv",
        "prompts.csv",
    ]


def test_hard_links_take_no_space_and_leave_the_original_alone(tree: Path, tmp_path: Path) -> None:
    original = tree / "sdxl" / "pilot" / "1.png"
    original.chmod(0o600)
    image_set = import_folder(tree, tmp_path / "set", link="hardlink")
    assert original.samefile(image_set.root / "images" / "sdxl" / "pilot" / "1.png")
    assert original.stat().st_mode & 0o777 == 0o600


def test_a_tree_inside_the_destination_stays_where_it_is(tree: Path) -> None:
    image_set = import_folder(tree, tree.parent)
    assert image_set.images["path"].tolist() == [f"tree/{path}" for _, path, _, _ in IMAGES]


def test_round_trip(tree: Path, tmp_path: Path) -> None:
    labels = write(
        tmp_path / "given.csv",
        "image_id,annotator,attribute,label,reason\n"
        "sdxl__a_nurse__1,a,gender,female,\nsdxl__a_nurse__1,b,gender,low_quality,blurred\n"
        "sdxl__a_nurse__2,a,age,young,\n",
    )
    prompts = write(
        tmp_path / "words.csv",
        'prompt_id,category,word,prompt\npilot,profession,pilot,"a photo, of a pilot"\n'
        "unused,place,park,\na_nurse,,nurse,\n",
    )
    image_set = import_folder(tree, tmp_path / "set", labels=labels, prompts=prompts)
    with labels.open(encoding="utf-8", newline="") as file:
        assert label_rows(image_set) == list(csv.reader(file))[1:]
    assert image_set.prompts.to_numpy().tolist() == [
        ["a_nurse", "unknown", "nurse", ""],
        ["pilot", "profession", "pilot", "a photo, of a pilot"],
    ]


def test_images_named_by_path_file_name_or_id(tree: Path, tmp_path: Path) -> None:
    labels = write(
        tmp_path / "given.csv",
        "image_id,label\nsdxl/a_nurse/1.png,male\n.\\sdxl\\pilot\\1.png,female\nfirst.webp,others\n"
        "images/sdxl/a_nurse/2.JPG,low_quality\n",
    )
    image_set = import_folder(tree, tmp_path / "set", labels=labels, attribute="gender", annotator="me")
    assert label_rows(image_set) == [
        ["sdxl__a_nurse__1", "me", "gender", "male", ""],
        ["sdxl__pilot__1", "me", "gender", "female", ""],
        ["sd_3__a_nurse__first", "me", "gender", "others", ""],
        ["sdxl__a_nurse__2", "me", "gender", "low_quality", ""],
    ]


def test_mapping_of_columns_and_values(tree: Path, tmp_path: Path) -> None:
    labels = write(
        tmp_path / "given.csv",
        "File,Who,Sex,Why\nsdxl/a_nurse/1.png,kim, M ,\nsdxl/a_nurse/2.JPG,kim,F,\n"
        "first.webp,lee,?,fuzzy\nsdxl/pilot/1.png,lee,female,\n",
    )
    image_set = import_folder(
        tree,
        tmp_path / "set",
        labels=labels,
        mapping={"image_id": "File", "annotator": "Who", "label": "Sex", "reason": "Why"},
        values={"M": "male", "F": "female", "?": "low_quality", "fuzzy": "blurred"},
    )
    assert label_rows(image_set) == [
        ["sdxl__a_nurse__1", "kim", "gender", "male", ""],
        ["sdxl__a_nurse__2", "kim", "gender", "female", ""],
        ["sd_3__a_nurse__first", "lee", "gender", "low_quality", "blurred"],
        ["sdxl__pilot__1", "lee", "gender", "female", ""],
    ]


def test_several_label_columns_are_several_annotators(tree: Path, tmp_path: Path) -> None:
    labels = write(
        tmp_path / "given.csv",
        "image_id,rater1,rater2\nsdxl/a_nurse/1.png,male,female\nfirst.webp,,male\nsdxl/pilot/1.png,,\n",
    )
    notes: list[str] = []
    image_set = import_folder(
        tree, tmp_path / "set", labels=labels, mapping={"label": "rater1,rater2"}, notes=notes
    )
    assert label_rows(image_set) == [
        ["sdxl__a_nurse__1", "rater1", "gender", "male", ""],
        ["sdxl__a_nurse__1", "rater2", "gender", "female", ""],
        ["sd_3__a_nurse__first", "rater2", "gender", "male", ""],
    ]
    assert notes == [
        "given.csv: 3 of 6 label cells are empty, and no labels",
        "given.csv: 2 label columns are 2 annotators who labelled alone: rater1 (1 label), rater2 (2 labels); "
        "what was decided after a discussion belongs to an annotator called 'adjudicator'",
        "2 prompts have the category 'unknown' and no text; a file of prompts (--prompts) names them",
    ]


def test_bad_values_and_images_are_reported_where_they_stand(tree: Path, tmp_path: Path) -> None:
    labels = write(
        tmp_path / "given.csv",
        "File,Sex,Who\n"
        "sdxl/a_nurse/1.png,M,kim\n"
        "first.webp,X,kim\n"  # 3: unmapped value
        "1.png,M,kim\n"  # 4: two files have this name
        "gone.png,M,kim\n"  # 5: no such image
        "sdxl/a_nurse/1.png,female,kim\n"  # 6: contradicts row 2
        "sdxl/pilot/1.png,M,consensus\n",  # 7: reserved
    )
    problems = problems_of(
        tree,
        tmp_path / "set",
        labels=labels,
        mapping={"image_id": "File", "label": "Sex", "annotator": "Who"},
        values={"M": "male"},
    )
    assert sorted(problems, key=lambda problem: problem.row or 0) == [
        Problem(
            "given.csv",
            "unknown label for gender",
            3,
            "Sex",
            "X",
            GENDER_LABELS + ", M; --value THEIRS=OURS maps others",
        ),
        Problem(
            "given.csv",
            "file name that several images have",
            4,
            "File",
            "1.png",
            "one of sdxl/a_nurse/1.png, sdxl/pilot/1.png",
        ),
        Problem(
            "given.csv",
            "label for an unknown image",
            5,
            "File",
            "gone.png",
            "an image id, a path such as 'sd 3/a_nurse/first.webp', or a file name",
        ),
        Problem(
            "given.csv",
            "label that contradicts an earlier one of the same annotator",
            6,
            "Sex",
            "female",
            "one label per image, annotator and attribute; row 2 says 'male'",
        ),
        Problem(
            "given.csv",
            "reserved name",
            7,
            "Who",
            "consensus",
            "any name but 'consensus', 'all_agree', 'dawid_skene'",
        ),
    ]
    assert not (tmp_path / "set").exists()


def test_missing_columns(tree: Path, tmp_path: Path) -> None:
    labels = write(tmp_path / "given.csv", "File,Sex\nfirst.webp,male\n")
    problems = problems_of(tree, tree, labels=labels, mapping={"label": "Gender"})
    assert [(item.file, item.row, item.column, item.accepted) for item in problems] == [
        ("given.csv", 1, "Gender", "File, Sex"),
    ]


def test_a_table_with_semicolons_is_read(tree: Path, tmp_path: Path) -> None:
    labels = write(tmp_path / "given.csv", "image_id;label\nsdxl/a_nurse/1.png;male\n")
    prompts = write(tmp_path / "words.csv", "prompt_id;word\na_nurse;nurse\npilot;pilot\n")
    image_set = import_folder(tree, tmp_path / "set", labels=labels, prompts=prompts)
    assert label_rows(image_set) == [["sdxl__a_nurse__1", "imported", "gender", "male", ""]]
    assert image_set.prompts["word"].tolist() == ["nurse", "pilot"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mapping": {"lable": "x"}}, "unknown column 'lable': did you mean 'label'"),
        ({"mapping": {"label": " "}}, "label is mapped to nothing"),
        ({"values": {"F": "femal"}}, "'F' is mapped to 'femal': did you mean 'female'"),
        ({"attribute": "gendr"}, "unknown attribute 'gendr'"),
    ],
)
def test_wrong_settings(tree: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        import_folder(tree, tree, **options)


def test_annotators_cannot_be_named_twice(tree: Path, tmp_path: Path) -> None:
    labels = write(tmp_path / "given.csv", "image_id,r1,r2,who\nfirst.webp,male,male,kim\n")
    with pytest.raises(ConfigError, match="several label columns name the annotators"):
        import_folder(tree, tree, labels=labels, mapping={"label": "r1,r2", "annotator": "who"})


def test_a_prompts_file_must_cover_every_prompt_folder(tree: Path, tmp_path: Path) -> None:
    prompts = write(tmp_path / "words.csv", "prompt_id,category\npilot,profession\npilot,place\n")
    assert problems_of(tree, tree, prompts=prompts) == [
        Problem("words.csv", "duplicate prompt_id", 3, "prompt_id", "pilot", "one row per prompt"),
        Problem(
            "words.csv",
            "no row for a prompt folder",
            None,
            "prompt_id",
            "a_nurse",
            "a row with prompt_id 'a_nurse', or with it as its prompt",
        ),
    ]


def test_images_at_the_wrong_depth(tree: Path) -> None:
    for path in ("top.png", "sdxl/loose.png", "sdxl/pilot/seed 1/deep.png"):
        (tree / path).parent.mkdir(exist_ok=True)
        (tree / path).write_bytes(b"x")
    problems = problems_of(tree, tree)
    assert {problem.file for problem in problems} == {"top.png", "sdxl/loose.png", "sdxl/pilot/seed 1/deep.png"}
    assert {problem.accepted for problem in problems} == {"t2i_model/prompt/image"}


def test_names_that_cannot_stand_in_a_table(tree: Path) -> None:
    for path in (
        "all/pilot/1.png",
        "sdxl/pilot/line\nbreak.png",
        "sdxl/pilot /1.png",
        "sdxl/pilot/back\\slash.png",
    ):
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).write_bytes(b"x")
    (tree / "sdxl" / "pilot" / b"caf\xe9.png".decode(errors="surrogateescape")).write_bytes(b"x")
    values = sorted(str(problem.value) for problem in problems_of(tree, tree))
    assert values == ["all", "back\\slash.png", "caf\\udce9.png", "line\nbreak.png", "pilot "]


def test_a_tree_without_images(tmp_path: Path) -> None:
    (problem,) = problems_of(tmp_path, tmp_path)
    assert (problem.file, problem.message) == (str(tmp_path), "no images found")
    (problem,) = problems_of(tmp_path / "nowhere", tmp_path / "set")
    assert (problem.file, problem.message) == (str(tmp_path / "nowhere"), "no such folder")


def test_colliding_names_get_ids_that_do_not_depend_on_the_order(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    for path in ("m/A b/1.png", "m/A b/1.jpg", "m/a_b/1.png", "m/all/1.png", "m/護士/1.png", "m/***/1.png"):
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).write_bytes(b"x")
    images = import_folder(tree, tree).images.set_index("path")
    assert images["image_id"].is_unique
    assert images.loc["m/護士/1.png", "image_id"] == "m__護士__1"
    # What `printf %s 'm/A b/1.png' | sha256sum` begins with.
    assert images.loc["m/A b/1.png", "image_id"] == "m__A_b__1_f75acd06"
    assert images.loc["m/A b/1.jpg", "image_id"] == "m__A_b__1_a3579368"
    assert images["prompt_id"].to_dict() == {
        "m/***/1.png": "prompt",
        "m/A b/1.jpg": "a_b",
        "m/A b/1.png": "a_b",
        "m/a_b/1.png": "a_b_2",
        "m/all/1.png": "all_2",
        "m/護士/1.png": "護士",
    }


class TestOverwriting:
    def test_refused(self, tree: Path) -> None:
        import_folder(tree, tree)
        before = {path: path.read_bytes() for path in tree.glob("*.csv")}
        (tree / "sdxl" / "pilot" / "new.png").write_bytes(b"x")
        problems = problems_of(tree, tree)
        assert {problem.file for problem in problems} == {"images.csv", "prompts.csv"}
        assert {problem.message for problem in problems} == {"the file exists already"}
        assert {path: path.read_bytes() for path in tree.glob("*.csv")} == before

    def test_asked_for(self, tree: Path, tmp_path: Path) -> None:
        labels = write(tmp_path / "given.csv", "image_id,label\nfirst.webp,male\n")
        first = import_folder(tree, tree, labels=labels)
        first.labels.to_parquet(tree / "labels.parquet")
        write(labels, "image_id,label\nfirst.webp,female\n")
        again = import_folder(tree, tree, labels=labels, overwrite=True)
        assert again.labels["label"].tolist() == ["female"]
        assert not (tree / "labels.parquet").exists()

    def test_labels_are_never_replaced_by_nothing(self, tree: Path, tmp_path: Path) -> None:
        labels = write(tmp_path / "given.csv", "image_id,label\nfirst.webp,male\n")
        import_folder(tree, tree, labels=labels)
        (problem,) = problems_of(tree, tree, overwrite=True)
        assert (problem.file, problem.message) == (
            "labels.csv",
            "the file exists already, and there are no labels to replace it",
        )

    def test_another_image_of_the_same_name(self, tree: Path, tmp_path: Path) -> None:
        occupied = tmp_path / "set" / "images" / "sdxl" / "pilot" / "1.png"
        occupied.parent.mkdir(parents=True)
        occupied.write_bytes(b"precious")
        (problem,) = problems_of(tree, tmp_path / "set")
        assert problem.file == "images/sdxl/pilot/1.png"
        assert occupied.read_bytes() == b"precious"
        import_folder(tree, tmp_path / "set", overwrite=True)
        assert occupied.read_bytes() == (tree / "sdxl" / "pilot" / "1.png").read_bytes()


def test_destination_inside_the_source(tree: Path) -> None:
    with pytest.raises(ConfigError, match="lies inside the source"):
        import_folder(tree, tree / "set")


def test_an_import_cut_short_is_no_image_set_and_can_be_run_again(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied: list[Path] = []

    def copy_two(origin: str, target: str) -> None:
        Path(target).write_bytes(Path(origin).read_bytes()[:10])
        if len(copied) == 2:
            raise OSError("disk full")
        Path(target).write_bytes(Path(origin).read_bytes())
        copied.append(Path(target))

    with monkeypatch.context() as patch:
        patch.setattr(import_files.shutil, "copyfile", copy_two)
        with pytest.raises(DetectorBenchError, match=r"cannot write .*: disk full; what was written stays"):
            import_folder(tree, tmp_path / "set")
    assert not list((tmp_path / "set").glob("*.csv"))
    left = sorted(path.name for path in (tmp_path / "set").rglob("*") if path.is_file())
    assert left == ["1.png", "first.webp"]
    assert len(import_folder(tree, tmp_path / "set").images) == 4
    assert check(tmp_path / "set", require_labels=False).ok
