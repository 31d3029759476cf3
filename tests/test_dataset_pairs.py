"""Edited images and the seeds they were made from, and the numbers that annotators give beside a class."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from PIL import Image

from detector_bench.cli.app import main
from detector_bench.dataset import ImageSet, check, import_folder
from detector_bench.errors import ConfigError, DataError, IncompletePredictionsError
from detector_bench.evaluation import evaluate
from detector_bench.evaluation.counting import count_verdicts
from detector_bench.evaluation.image_index import ImageIndex, human_label_codes

# Two photos; three images edited from them; an image that a T2I model made, and another edited from that one.
IMAGES = """\
image_id,path,t2i_model,prompt_id,seed_image_id
tom,seeds/tom.png,,,
ann,seeds/ann.png,,,
e1,images/1.png,sd15,nurse,tom
e2,images/2.png,sd15,nurse,ann
e3,images/3.png,sd15,pilot,tom
m1,images/4.png,sdxl,pilot,
m2,images/5.png,sdxl,nurse,m1
"""
PROMPTS = "prompt_id,category,word,prompt\nnurse,profession,nurse,\npilot,profession,pilot,\n"
LABELS = """\
image_id,annotator,attribute,label,reason,value
tom,a,gender,male,,
ann,a,gender,female,,
e1,a,gender,female,,
e2,a,gender,female,,
e3,a,gender,male,,
m1,a,gender,male,,
m2,a,gender,low_quality,blurred,
tom,a,age,young,,25
tom,b,age,young,,28
"""
ONLY_A_SEED = "only the seed of an edited image may have none"
A_MODEL = f"(accepted: the T2I model that made the image; {ONLY_A_SEED})"
A_PROMPT = f"(accepted: the prompt that the image was made with; {ONLY_A_SEED})"
A_PAIR = "(accepted: an image whose seed_image_id names it; or the T2I model and the prompt that it was made with)"
AN_AGE = "(accepted: a number from 0 to 120 (years), or an empty cell)"


def picture(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (4, 4), (len(path.name), 0, 0)).save(path)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "set"
    for name in ("seeds/tom", "seeds/ann", *(f"images/{number}" for number in range(1, 6))):
        picture(folder / f"{name}.png")
    for name, text in (("images", IMAGES), ("prompts", PROMPTS), ("labels", LABELS)):
        (folder / f"{name}.csv").write_text(text)
    return folder


def replace(folder: Path, name: str, *changes: tuple[str, str]) -> None:
    text = (folder / name).read_text()
    for old, new in changes:
        assert text.count(old) == 1, "the change must hit exactly one place"
        text = text.replace(old, new)
    (folder / name).write_text(text)


def mistakes(call: Callable[[], object]) -> list[str]:
    with pytest.raises(DataError) as caught:
        call()
    return [str(problem) for problem in caught.value.problems]


def damaged(folder: Path, name: str, *changes: tuple[str, str]) -> list[str]:
    replace(folder, name, *changes)
    return mistakes(lambda: ImageSet.load(folder))


class TestSeeds:
    def test_a_sound_set(self, folder: Path) -> None:
        image_set = ImageSet.load(folder, check_files=True)
        assert image_set.images[["image_id", "t2i_model", "prompt_id", "seed_image_id"]].to_numpy().tolist()[
            :3
        ] == [
            ["tom", "", "", ""],
            ["ann", "", "", ""],
            ["e1", "sd15", "nurse", "tom"],
        ]
        truth = image_set.truth("gender")
        assert truth["image_id"].tolist() == ["tom", "ann", "e1", "e2", "e3", "m1", "m2"]
        assert truth["label"].tolist() == ["male", "female", "female", "female", "male", "male", "low_quality"]

    def test_report(self, folder: Path) -> None:
        report = check(folder)
        assert (report.n_images, report.n_seeds, report.n_edited) == (7, 3, 4)
        assert report.summary().splitlines() == [
            "Image set set: 7 images, 2 prompts",
            "  2 T2I models: sd15, sdxl",
            "  2 annotators: a, b",
            "  4 edited images of 3 seed images",
            "  gender: 7 labels of 7 images",
            "    consensus: male 3 (42.9%), female 3 (42.9%), low_quality 1 (14.3%)",
            "    low_quality for disagreement: 0",
            "  age: 2 labels of 1 image",
            "    consensus: young 1 (100.0%)",
            "    low_quality for disagreement: 0",
            "    measured: 2 values, agreed on for 1 image",
            "  7 image files read",
            "No mistakes.",
        ]

    @pytest.mark.parametrize(
        ("changes", "expected"),
        [
            (
                [("sd15,pilot,tom", "sd15,pilot,tomm")],
                [
                    "images.csv, row 6, column seed_image_id: seed that is not an image of the set: 'tomm' "
                    "(accepted: did you mean 'tom'?)"
                ],
            ),
            (
                [("sd15,pilot,tom", "sd15,pilot,0815")],
                [
                    "images.csv, row 6, column seed_image_id: seed that is not an image of the set: '0815' "
                    "(accepted: an image_id that images.csv lists)"
                ],
            ),
            (
                [("sdxl,pilot,\n", "sdxl,pilot,m1\n")],
                [
                    "images.csv, row 7, column seed_image_id: image that is its own seed: 'm1' "
                    "(accepted: the id of another image, or an empty cell)"
                ],
            ),
            (
                [("sdxl,pilot,\n", "sdxl,pilot,m2\n")],
                [
                    f"images.csv, row {row}, column seed_image_id: image that is made from itself, by way "
                    f"of other "
                    f"images: '{seed}' (accepted: an image that is not made from this one, or an empty cell)"
                    for row, seed in ((7, "m2"), (8, "m1"))
                ],
            ),
            (
                [("sd15,nurse,ann", "sd15,nurse,tom")],
                [f"images.csv, row 3, column image_id: seed without its pair: 'ann' {A_PAIR}"],
            ),
            (
                [("ann.png,,,", "ann.png,,nurse,")],
                [
                    "images.csv, row 3, column prompt_id: prompt of a seed that no T2I model made: 'nurse' "
                    "(accepted: an empty cell, or the T2I model too)"
                ],
            ),
            (
                [("ann.png,,,", "ann.png,sdxl,,")],
                [f"images.csv, row 3, column prompt_id: empty cell: '' {A_PROMPT}"],
            ),
            (
                [("ann.png,,,", "ann.png,,,tom")],
                [
                    f"images.csv, row 3, column t2i_model: empty cell: '' {A_MODEL}",
                    f"images.csv, row 3, column prompt_id: empty cell: '' {A_PROMPT}",
                ],
            ),
            (
                [("sd15,pilot,tom", ",pilot,tom")],
                [f"images.csv, row 6, column t2i_model: empty cell: '' {A_MODEL}"],
            ),
            (
                [("sd15,pilot,tom", "sd15,,tom")],
                [f"images.csv, row 6, column prompt_id: empty cell: '' {A_PROMPT}"],
            ),
            (
                [("sdxl,pilot,\n", ",pilot,\n"), ("sdxl,nurse,m1", "sdxl,nurse,")],
                [f"images.csv, row 7, column t2i_model: empty cell: '' {A_MODEL}"],
            ),
            (
                [("ann.png,,,", "ann.png, ,,")],
                ["images.csv, row 3, column t2i_model: blanks around the text: ' ' (accepted: '')"],
            ),
            (
                [("sdxl,pilot,\n", "sdxl,pilot,  \n")],
                ["images.csv, row 7, column seed_image_id: blanks around the text: '  ' (accepted: '')"],
            ),
        ],
    )
    def test_refused(self, folder: Path, changes: list[tuple[str, str]], expected: list[str]) -> None:
        assert damaged(folder, "images.csv", *changes) == expected

    def test_without_the_column_every_image_needs_a_model_and_a_prompt(self, folder: Path) -> None:
        lines = [line.rsplit(",", 1)[0] for line in IMAGES.splitlines()]
        (folder / "images.csv").write_text("\n".join(lines))
        assert mistakes(lambda: ImageSet.load(folder)) == [
            f"images.csv, row {row}, column {column}: empty cell: '' (accepted: some text)"
            for column in ("t2i_model", "prompt_id")
            for row in (2, 3)
        ]

    def test_the_pair_of_a_seed_may_stand_in_a_row_that_cannot_be_read(self, folder: Path) -> None:
        (problem,) = damaged(folder, "images.csv", ("sd15,nurse,ann", "sd15,nurse,ann,more"))
        assert problem.startswith("images.csv, row 5: row has 6 cells: 'e2,images/2.png,sd15,nurse,ann,more'")

    def test_a_chain_of_edits_is_no_circle(self, folder: Path) -> None:
        rows = "".join(f"m{number},images/5.png,sdxl,nurse,m{number - 1}\n" for number in range(3, 40))
        (folder / "images.csv").write_text(IMAGES + rows)
        assert len(ImageSet.load(folder, require_labels=False).images) == 44
        # m20 from m39, which comes from it; m1 to m19 lie before the circle.
        replace(folder, "images.csv", ("nurse,m19\n", "nurse,m39\n"))
        found = mistakes(lambda: ImageSet.load(folder, require_labels=False))
        assert [line.split(", column")[0] for line in found] == [f"images.csv, row {row}" for row in range(26, 46)]

    def test_a_large_set_of_pairs_is_checked_as_a_whole(self, folder: Path) -> None:
        n = 100_000
        images = pd.DataFrame({"image_id": ["tom", *(f"i{number}" for number in range(1, n))]})
        images = images.assign(path="x.png", t2i_model="m", prompt_id="nurse", seed_image_id="tom")
        images.loc[0, ["t2i_model", "prompt_id", "seed_image_id"]] = ""
        images.loc[n - 1, "seed_image_id"] = "tomm"
        images.to_csv(folder / "images.csv", index=False)
        (folder / "labels.csv").unlink()
        assert mistakes(lambda: ImageSet.load(folder, require_labels=False)) == [
            "images.csv, row 100001, column seed_image_id: seed that is not an image of the set: 'tomm' "
            "(accepted: did you mean 'tom'?)"
        ]


def predictions(**verdicts: str) -> pa.Table:
    """By image: male, female, filtered or error."""
    clear = [verdict in ("male", "female") for verdict in verdicts.values()]
    return pa.table(
        {
            "image_id": pa.array(list(verdicts)),
            "attribute": pa.array(["gender"] * len(verdicts)),
            "status": pa.array(
                [
                    "clear" if is_clear else verdict
                    for is_clear, verdict in zip(clear, verdicts.values(), strict=True)
                ]
            ),
            "label": pa.array(
                [
                    verdict if is_clear else None
                    for is_clear, verdict in zip(clear, verdicts.values(), strict=True)
                ],
                pa.string(),
            ),
        }
    )


ALL_SEVEN = {
    "tom": "female",
    "ann": "female",
    "e1": "female",
    "e2": "male",
    "e3": "filtered",
    "m1": "male",
    "m2": "error",
}
EDITED = {name: verdict for name, verdict in ALL_SEVEN.items() if name not in ("tom", "ann")}


class TestCounting:
    def test_photos_are_in_no_count(self, folder: Path) -> None:
        counts = count_verdicts(ImageSet.load(folder), {"net": predictions(**ALL_SEVEN)}, attribute="gender")
        assert (counts.t2i_models, counts.prompt_ids) == (("sd15", "sdxl"), ("nurse", "pilot"))
        # Human labels: male, female, low_quality, others.
        assert counts.human.tolist() == [[[0, 2, 0, 0], [1, 0, 0, 0]], [[0, 0, 1, 0], [1, 0, 0, 0]]]
        assert counts.unlabelled.tolist() == [[0, 0], [0, 0]]
        # Rows: human labels; columns: male, female, filtered, no verdict. e1 and e2, e3, m2, m1:
        assert counts.verdicts[0, 0, 0].tolist() == [[0, 0, 0, 0], [1, 1, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]]
        assert counts.verdicts[0, 0, 1].tolist() == [[0, 0, 1, 0], [0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]]
        assert counts.verdicts[0, 1, 0].tolist() == [[0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 1], [0, 0, 0, 0]]
        assert counts.verdicts[0, 1, 1].tolist() == [[1, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]]
        assert counts.not_run.tolist() == [[[0, 0], [0, 0]]]
        assert counts.joint.truth.tolist() == [1, 1, 0, 0, 2]
        assert counts.joint.verdicts.tolist() == [[1, 0, 2, 0, 3]]
        assert counts.joint.pair.tolist() == [0, 0, 1, 3, 2]

    def test_photos_without_a_label_are_not_among_the_unlabelled(self, folder: Path) -> None:
        replace(folder, "labels.csv", ("tom,a,gender,male,,\n", ""), ("e3,a,gender,male,,\n", ""))
        counts = count_verdicts(ImageSet.load(folder, require_labels=False), {}, attribute="gender")
        assert counts.unlabelled.tolist() == [[0, 1], [0, 0]]

    def test_a_prediction_about_a_photo_is_neither_needed_nor_refused(self, folder: Path) -> None:
        image_set = ImageSet.load(folder)
        both = {"with": predictions(**ALL_SEVEN), "without": predictions(**EDITED)}
        table = evaluate(image_set, both, attributes=["gender"])
        assert set(table["t2i_model"]) == {"all", "sd15", "sdxl"}
        of = {name: table[table["detector"] == name].drop(columns="detector") for name in both}
        pd.testing.assert_frame_equal(*(rows.reset_index(drop=True) for rows in of.values()))
        labelled = table[
            (table["metric"] == "accuracy") & (table["t2i_model"] == "all") & (table["category"] == "all")
        ]
        assert labelled["n"].tolist() == [3, 3]  # e1, e2 and m1 are clear to the humans and to the detector

    def test_a_missing_prediction_about_an_edited_image_is(self, folder: Path) -> None:
        few = predictions(**{name: verdict for name, verdict in EDITED.items() if name != "e2"})
        with pytest.raises(IncompletePredictionsError) as caught:
            count_verdicts(ImageSet.load(folder), {"net": few}, attribute="gender")
        assert str(caught.value).splitlines()[1] == (
            "  net: 1 of 5 labelled images without a prediction, the first is 'e2'"
        )

    def test_labels_of_photos_can_be_had(self, folder: Path) -> None:
        image_set = ImageSet.load(folder)
        index = ImageIndex.of(image_set)
        from detector_bench.vocabulary import attribute_named

        assert index.counted.tolist() == [False, False, True, True, True, True, True]
        assert human_label_codes(image_set, index, attribute_named("gender")).tolist() == [0, 1, 1, 1, 0, 0, 2]

    @pytest.mark.parametrize("column", ["t2i_model", "prompt_id"])
    def test_half_a_photo_belongs_nowhere(self, folder: Path, column: str) -> None:
        loaded = ImageSet.load(folder)
        images = loaded.images.copy()
        images.loc[5, column] = ""
        made = ImageSet(root=loaded.root, images=images, prompts=loaded.prompts, labels=loaded.labels)
        with pytest.raises(DataError, match="1 images without a known prompt or a T2I model, the first is: 'm1'"):
            ImageIndex.of(made)


VALUES = """\
image_id,annotator,attribute,label,reason,value
tom,a,age,young,,25
tom,b,age,young,,28.5
tom,c,age,young,,
ann,a,age,young,,20
ann,b,age,middle_aged,,40
ann,adjudicator,age,middle_aged,,
e1,a,age,young,,20
e1,adjudicator,age,elderly,,60
e1,b,age,elderly,,80
e2,a,age,young,,29
e2,b,age,middle_aged,,31
e3,a,age,low_quality,blurred,
m1,a,age,elderly,,
tom,a,skin_tone,monk_03,,181.25
m2,a,gender,male,,
"""


class TestValues:
    def test_by_hand(self, folder: Path) -> None:
        (folder / "labels.csv").write_text(VALUES)
        image_set = ImageSet.load(folder)
        age = image_set.measured("age")
        assert age["image_id"].tolist() == image_set.images["image_id"].tolist()
        # tom: (25 + 28.5) / 2; ann: only b agrees with the adjudicator; e1: the adjudicator's own; e2 in dispute;
        # e3 low-quality; m1 without a value; m2 without a label.
        np.testing.assert_array_equal(age["value"], [26.75, 40, 60, np.nan, np.nan, np.nan, np.nan])
        assert age["value"].dtype == np.float64
        tone = image_set.measured("skin_tone")["value"]
        np.testing.assert_array_equal(tone, [181.25, *[np.nan] * 6])

    def test_the_order_of_the_rows_has_no_influence(self, folder: Path) -> None:
        header, *rows = VALUES.splitlines()
        # 0.1 + 0.2 + 0.3 is not 0.3 + 0.2 + 0.1 to a computer.
        rows += [f"m2,{name},age,young,,{value}" for name, value in zip("def", (0.1, 0.2, 0.3), strict=True)]
        found = []
        for order in (rows, rows[::-1], rows[5:] + rows[:5]):
            (folder / "labels.csv").write_text("\n".join([header, *order]))
            found.append(ImageSet.load(folder).measured("age"))
        pd.testing.assert_frame_equal(found[0], found[1], check_exact=True)
        pd.testing.assert_frame_equal(found[0], found[2], check_exact=True)

    def test_a_set_without_values_has_none(self, folder: Path) -> None:
        (folder / "labels.csv").write_text("image_id,annotator,attribute,label\ntom,a,age,young\n")
        image_set = ImageSet.load(folder, require_labels=False)
        assert image_set.measured("age")["value"].isna().tolist() == [True] * 7
        made = ImageSet(
            root=folder,
            images=image_set.images,
            prompts=image_set.prompts,
            labels=image_set.labels.drop(columns="value"),
        )
        assert made.measured("age")["value"].isna().tolist() == [True] * 7
        assert made.fingerprint() == image_set.fingerprint()

    def test_an_attribute_without_a_unit(self, folder: Path) -> None:
        with pytest.raises(ConfigError) as caught:
            ImageSet.load(folder).measured("gender")
        assert str(caught.value) == "'gender' has no measured values (accepted: age, skin_tone)"

    @pytest.mark.parametrize(
        ("old", "new", "expected"),
        [
            (
                "young,,25",
                "young,,about 25",
                f"row 2, column value: age that is not a number: 'about 25' {AN_AGE}",
            ),
            ("young,,25", 'young,,"2,5"', f"row 2, column value: age that is not a number: '2,5' {AN_AGE}"),
            ("young,,25", "young,,nan", f"row 2, column value: age that is not a number: 'nan' {AN_AGE}"),
            ("young,,25", "young,,-1", f"row 2, column value: age out of range: '-1' {AN_AGE}"),
            ("elderly,,80", "elderly,,1e999", f"row 10, column value: age out of range: '1e999' {AN_AGE}"),
            ("elderly,,80", "elderly,,120.5", f"row 10, column value: age out of range: '120.5' {AN_AGE}"),
            (
                "181.25",
                "256",
                "row 15, column value: skin_tone out of range: '256' (accepted: a number from 0 to 255 "
                "(mean grey value),"
                " or an empty cell)",
            ),
            (
                "blurred,",
                "blurred,33",
                "row 13, column value: value beside the label 'low_quality': '33' (accepted: an empty "
                "cell, or a label "
                "among young, middle_aged, elderly)",
            ),
            (
                "low_quality,blurred,",
                "others,,33",
                "row 13, column value: value beside the label 'others': '33' (accepted: an empty cell, or "
                "a label among "
                "young, middle_aged, elderly)",
            ),
            (
                "e2,a,age,young,,29",
                "e2,a,age,young,,30",
                "row 11, column value: value that contradicts the label 'young': '30' (accepted: 0 to "
                "below 30 (years), "
                "or the label of that value)",
            ),
            (
                "middle_aged,,31",
                "middle_aged,,60",
                "row 12, column value: value that contradicts the label 'middle_aged': '60' (accepted: 30 "
                "to below 60 "
                "(years), or the label of that value)",
            ),
            (
                "elderly,,80",
                "elderly,,59.9",
                "row 10, column value: value that contradicts the label 'elderly': '59.9' (accepted: 60 "
                "to 120 (years), "
                "or the label of that value)",
            ),
            (
                "gender,male,,",
                "gender,male,,1",
                "row 16, column value: gender has no measured value: '1' (accepted: an empty cell; a "
                "number may stand "
                "beside age, skin_tone)",
            ),
            (
                "m2,a,gender,male,,",
                "m2,a,race,white,,1",
                "row 16, column value: race has no measured value: '1' (accepted: an empty cell; a number "
                "may stand "
                "beside age, skin_tone)",
            ),
            ("young,,25", "young,, 25", "row 2, column value: blanks around the text: ' 25' (accepted: '25')"),
            ("young,,28.5", "young,, ", "row 3, column value: blanks around the text: ' ' (accepted: '')"),
        ],
    )
    def test_refused(self, folder: Path, old: str, new: str, expected: str) -> None:
        (folder / "labels.csv").write_text(VALUES)
        assert damaged(folder, "labels.csv", (old, new)) == [f"labels.csv, {expected}"]

    def test_the_ends_of_a_range_are_in_it(self, folder: Path) -> None:
        ages = {"a": ("young", 0), "b": ("young", 29.99), "c": ("middle_aged", 30), "d": ("middle_aged", 59.5)}
        ages |= {"e": ("elderly", 60), "f": ("elderly", 120)}
        rows = [f"e1,{name},age,{label},,{value}" for name, (label, value) in ages.items()]
        rows += ["e1,a,skin_tone,monk_10,,0", "e1,b,skin_tone,monk_01,,255"]
        (folder / "labels.csv").write_text("\n".join([LABELS.splitlines()[0], *rows]))
        assert len(ImageSet.load(folder, require_labels=False).labels) == 8

    def test_an_unknown_label_or_attribute_is_one_mistake(self, folder: Path) -> None:
        (folder / "labels.csv").write_text(VALUES)
        replace(folder, "labels.csv", ("young,,25", "yung,,25"), ("skin_tone", "skin"))
        assert [line.split(":")[0] for line in mistakes(lambda: ImageSet.load(folder))] == [
            "labels.csv, row 15, column attribute",
            "labels.csv, row 2, column label",
        ]

    def test_parquet_may_hold_numbers(self, folder: Path) -> None:
        (folder / "labels.csv").write_text(VALUES)
        from_csv = ImageSet.load(folder)
        table = pd.read_csv(folder / "labels.csv", dtype={"value": float})
        assert table["value"].dtype == np.float64
        (folder / "labels.csv").unlink()
        table.to_parquet(folder / "labels.parquet")
        from_parquet = ImageSet.load(folder)
        pd.testing.assert_frame_equal(from_parquet.measured("age"), from_csv.measured("age"))
        assert from_parquet.labels["value"].tolist() == from_csv.labels["value"].tolist()
        assert from_parquet.fingerprint() == from_csv.fingerprint()
        table.assign(value=np.where(table["value"] == 25, np.inf, table["value"])).to_parquet(
            folder / "labels.parquet"
        )
        assert mistakes(lambda: ImageSet.load(folder)) == [
            f"labels.parquet, row 2, column value: age that is not a number: 'inf' {AN_AGE}"
        ]

    def test_fingerprint(self, folder: Path) -> None:
        def fingerprint(*changes: tuple[str, str]) -> str:
            (folder / "labels.csv").write_text(VALUES)
            replace(folder, "labels.csv", *changes)
            return ImageSet.load(folder).fingerprint()

        plain = fingerprint()
        assert fingerprint(("young,,25", "young,,25.0")) == plain
        changed = {fingerprint(("young,,25", "young,,26")), fingerprint(("young,,25", "young,,"))}
        assert len(changed | {plain}) == 3

    def test_fingerprint_of_a_column_without_values_is_that_of_none(self, folder: Path) -> None:
        text = "".join(line.rsplit(",", 1)[0] + "\n" for line in LABELS.splitlines())
        (folder / "labels.csv").write_text(text)
        without = ImageSet.load(folder).fingerprint()
        (folder / "labels.csv").write_text(text.replace("\n", ",\n").replace("reason,", "reason,value"))
        assert ImageSet.load(folder).fingerprint() == without
        # Computed before there were values and seeds in image sets.
        (folder / "images.csv").write_text("image_id,path,t2i_model,prompt_id\ne1,1.png,sd15,nurse\n")
        (folder / "labels.csv").write_text("image_id,annotator,attribute,label,reason\ne1,a,gender,male,\n")
        assert (
            ImageSet.load(folder).fingerprint()
            == "9960683bfee00ca203c41295bffb05edc93e7c5e93a984a5ad35d965c991298a"
        )


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
            "ratings.csv, row 1, column years: no such column to read value from; name another in the "
            "mapping: 'years' "
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
