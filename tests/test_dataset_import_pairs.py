"""Seeds, edited images and annotators' numbers, imported from folders and tables."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from image_pairs import AN_AGE, mistakes, picture

from detector_bench.cli.app import main
from detector_bench.dataset import check, import_folder
from detector_bench.errors import ConfigError


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Two seeds and what was made of them, beside each other."""
    for path in (
        "photos/tom.png",
        "photos/tom_b.jpg",
        "edits/sd15/a_nurse/tom.png",
        "edits/sd15/a_nurse/tom_b_0.png",
    ):
        picture(tmp_path / path)
    for path in ("edits/sd15/pilot/tom_0.png", "edits/sdxl/pilot/tom_b.webp"):
        picture(tmp_path / path)
    return tmp_path


def import_mistakes(*arguments: Any, **options: Any) -> list[str]:
    return mistakes(lambda: import_folder(*arguments, **options))


class TestImport:
    def test_the_longest_name_wins(self, tree: Path) -> None:
        image_set = import_folder(tree / "edits", tree / "set", seeds=tree / "photos")
        assert image_set.images.to_numpy().tolist() == [
            ["sd15__a_nurse__tom", "images/sd15/a_nurse/tom.png", "sd15", "a_nurse", "seed__tom"],
            ["sd15__a_nurse__tom_b_0", "images/sd15/a_nurse/tom_b_0.png", "sd15", "a_nurse", "seed__tom_b"],
            ["sd15__pilot__tom_0", "images/sd15/pilot/tom_0.png", "sd15", "pilot", "seed__tom"],
            ["sdxl__pilot__tom_b", "images/sdxl/pilot/tom_b.webp", "sdxl", "pilot", "seed__tom_b"],
            ["seed__tom", "seeds/tom.png", "", "", ""],
            ["seed__tom_b", "seeds/tom_b.jpg", "", "", ""],
        ]
        assert (tree / "set/seeds/tom_b.jpg").read_bytes() == (tree / "photos/tom_b.jpg").read_bytes()
        report = check(tree / "set", require_labels=False)
        assert (report.ok, report.n_seeds, report.n_edited, report.t2i_models) == (True, 2, 4, ("sd15", "sdxl"))

    def test_again(self, tree: Path) -> None:
        (tree / "ratings.csv").write_text("image_id,label\nphotos/tom.png,male\n")
        options: dict[str, Any] = {"seeds": tree / "photos", "labels": tree / "ratings.csv"}
        first = import_folder(tree / "edits", tree / "set", **options)
        again = import_folder(tree / "edits", tree / "set", **options, overwrite=True)
        assert again.fingerprint() == first.fingerprint()

    def test_in_place(self, tree: Path) -> None:
        """The tree is the image set, and the seeds lie in it or come into it; also a second time."""
        labels = tree / "ratings.csv"
        labels.write_text("image_id,label\nsd15/pilot/tom_0.png,male\n")
        for seeds, path in ((tree / "photos", "seeds/tom.png"), (tree / "edits" / "faces", "faces/tom.png")):
            for overwrite in (False, True):
                image_set = import_folder(
                    tree / "edits", tree / "edits", seeds=seeds, labels=labels, overwrite=overwrite
                )
                assert image_set.images["path"].tolist()[-2:] == [path, path.replace("tom.png", "tom_b.jpg")]
                assert image_set.images["t2i_model"].tolist() == ["sd15", "sd15", "sd15", "sdxl", "", ""]
                assert check(tree / "edits", require_labels=False).ok
            for table in (tree / "edits").glob("*.csv"):
                table.unlink()
            if seeds.name == "photos":
                seeds.rename(tree / "edits" / "faces")
                for copy in (tree / "edits" / "seeds").iterdir():
                    copy.unlink()

    def test_seeds_and_images_without_a_pair(self, tree: Path) -> None:
        picture(tree / "photos" / "zoe.png")
        picture(tree / "photos" / "ti.png")
        for name in ("tom2.png", "Tom_0.png", "x.png"):
            picture(tree / "edits" / "sdxl" / "pilot" / name)
        assert import_mistakes(tree / "edits", tree / "set", seeds=tree / "photos") == [
            "sdxl/pilot/Tom_0.png: image without a seed: 'Tom_0.png' (accepted: did you mean 'tom_b' or 'tom'?)",
            "sdxl/pilot/tom2.png: image without a seed: 'tom2.png' (accepted: did you mean 'tom' or 'tom_b'?)",
            "sdxl/pilot/x.png: image without a seed: 'x.png' (accepted: a file name that begins with that "
            "of a seed in "
            "photos)",
            "photos/ti.png: seed without its pair: 'ti.png' (accepted: an image t2i_model/prompt/image "
            "whose file name "
            "begins with 'ti')",
            "photos/zoe.png: seed without its pair: 'zoe.png' (accepted: an image t2i_model/prompt/image "
            "whose file "
            "name begins with 'zoe')",
        ]
        assert not (tree / "set").exists()

    def test_other_mistakes_in_the_folder_of_seeds(self, tree: Path) -> None:
        for name in ("tom.jpg", "deep/ann.png", "a\tb.png"):
            picture(tree / "photos" / name)
        (tree / "photos" / "notes.txt").write_text("no image")
        assert import_mistakes(tree / "edits", tree / "set", seeds=tree / "photos") == [
            "photos/deep/ann.png: seed in a folder below (accepted: all seeds side by side in photos)",
            r"photos/a	b.png: name that cannot stand in a table: 'a\tb.png' (accepted: UTF-8 names without "
            r"control "
            "characters, backslashes, or blanks at either end)",
            "photos/tom.png: seed of the same name as another but for the suffix: 'tom.png' (accepted: a "
            "name of its "
            "own; tom.jpg has this one)",
        ]

    def test_no_seeds(self, tree: Path) -> None:
        (tree / "empty").mkdir()
        accepted = "(accepted: a folder of photos that were edited)"
        for folder, message in (("empty", "no images found"), ("none", "no such folder")):
            found = import_mistakes(tree / "edits", tree / "set", seeds=tree / folder)
            assert found == [f"{tree / folder}: {message} {accepted}"]

    def test_seeds_of_a_tree_without_images(self, tree: Path) -> None:
        (tree / "none").mkdir()
        assert [
            line.split(" (")[0] for line in import_mistakes(tree / "none", tree / "set", seeds=tree / "photos")
        ] == [f"{tree / 'none'}: no images found"]

    def test_folders_in_each_others_way(self, tree: Path) -> None:
        with pytest.raises(ConfigError) as caught:
            import_folder(tree / "edits", tree / "edits", seeds=tree / "edits")
        assert str(caught.value) == (
            f"seeds: {tree / 'edits'} holds other things too; accepted: a folder for seeds alone"
        )
        with pytest.raises(ConfigError) as caught:
            import_folder(tree / "edits", tree / "photos" / "set", seeds=tree / "photos")
        assert str(caught.value) == (
            f"the destination {tree / 'photos' / 'set'} lies inside the folder of seeds; accepted: a "
            f"folder outside it"
        )

    def test_labels_of_seeds_with_values(self, tree: Path) -> None:
        labels = tree / "ratings.csv"
        labels.write_text(
            "file,years,group\nphotos/tom.png,25,y\nseeds/tom_b.jpg,61.5,elderly\nsd15/a_nurse/tom.png,,y\n"
            "seed__tom_b,,\n"
        )
        image_set = import_folder(
            tree / "edits",
            tree / "set",
            seeds=tree / "photos",
            labels=labels,
            mapping={"image_id": "file", "label": "group", "value": "years"},
            values={"y": "young"},
            attribute="age",
        )
        assert (tree / "set/labels.csv").read_text() == (
            "image_id,annotator,attribute,label,reason,value\nseed__tom,imported,age,young,,25\n"
            "seed__tom_b,imported,age,elderly,,61.5\nsd15__a_nurse__tom,imported,age,young,,\n"
        )
        values = image_set.measured("age").set_index("image_id")["value"].dropna()
        assert values.to_dict() == {"seed__tom": 25.0, "seed__tom_b": 61.5}

    def test_a_file_name_that_seed_and_image_share_is_ambiguous(self, tree: Path) -> None:
        (tree / "ratings.csv").write_text("image_id,label\ntom.png,male\n")
        options = {"seeds": tree / "photos", "labels": tree / "ratings.csv"}
        assert import_mistakes(tree / "edits", tree / "set", **options) == [
            "ratings.csv, row 2, column image_id: file name that several images have: 'tom.png' (accepted: one of "
            "photos/tom.png, sd15/a_nurse/tom.png)"
        ]

    def test_wrong_values_are_reported_where_they_stand(self, tree: Path) -> None:
        (tree / "ratings.csv").write_text(
            "image_id,r1,r1_age,r2,r2_age\nphotos/tom.png,young,25,young,twenty\nphotos/tom_b.jpg,young,31,,\n"
            "tom_b_0.png,elderly,70,,40\n"
        )
        options: dict[str, Any] = {"seeds": tree / "photos", "labels": tree / "ratings.csv", "attribute": "age"}
        mapping = {"label": "r1,r2", "value": "r1_age,r2_age"}
        assert import_mistakes(tree / "edits", tree / "set", **options, mapping=mapping) == [
            "ratings.csv, row 4, column r2_age: value without a label: '40' (accepted: a label in r2, or "
            "an empty cell)",
            f"ratings.csv, row 2, column value: age that is not a number: 'twenty' {AN_AGE}",
            "ratings.csv, row 3, column value: value that contradicts the label 'young': '31' (accepted: "
            "0 to below 30 "
            "(years), or the label of that value)",
        ]
        with pytest.raises(ConfigError) as caught:
            import_folder(tree / "edits", tree / "set", **options, mapping={"label": "r1,r2", "value": "r1_age"})
        assert str(caught.value) == (
            "mapping: value is r1_age and label is r1, r2; accepted: as many columns of values as of labels, in "
            "the same order"
        )

    def test_several_annotators_with_values(self, tree: Path) -> None:
        (tree / "ratings.csv").write_text("image_id,r1,r1_age,r2,r2_age\nphotos/tom.png,young,25,young,28\n")
        image_set = import_folder(
            tree / "edits",
            tree / "set",
            seeds=tree / "photos",
            labels=tree / "ratings.csv",
            attribute="age",
            mapping={"label": "r1,r2", "value": "r1_age,r2_age"},
        )
        assert image_set.labels.to_numpy().tolist() == [
            ["seed__tom", "r1", "age", "young", "", "25"],
            ["seed__tom", "r2", "age", "young", "", "28"],
        ]

    def test_a_column_called_value_may_hold_the_labels(self, tree: Path) -> None:
        (tree / "ratings.csv").write_text("image_id,value\nphotos/tom.png,male\n")
        image_set = import_folder(
            tree / "edits",
            tree / "set",
            seeds=tree / "photos",
            labels=tree / "ratings.csv",
            mapping={"label": "value"},
        )
        assert image_set.labels["label"].tolist() == ["male"]

    def test_a_missing_value_column(self, tree: Path) -> None:
        (tree / "ratings.csv").write_text("image_id,label\nphotos/tom.png,young\n")
        options: dict[str, Any] = {"seeds": tree / "photos", "labels": tree / "ratings.csv"}
        assert import_mistakes(tree / "edits", tree / "set", **options, mapping={"value": "years"}) == [
            "ratings.csv, row 1, column years: no such column to read value from; --column value=THEIRS "
            "names another: 'years' "
            "(accepted: image_id, label)"
        ]

    def test_command_line(
        self, tree: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        arguments = ["import", str(tree / "edits"), str(tree / "set"), "--seeds", str(tree / "photos")]
        monkeypatch.setattr(sys, "argv", ["detector-bench", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        assert not ended.value.code
        assert capsys.readouterr().out == f"{tree / 'set'}: 6 images, 4 of them edited, 2 prompts, 0 labels\n"
