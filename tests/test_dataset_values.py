"""The numbers that annotators give beside a class."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from image_pairs import AN_AGE, LABELS, damaged, mistakes, replace, write_pairs

from detector_bench.dataset import ImageSet
from detector_bench.errors import ConfigError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_pairs(tmp_path / "set")


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
