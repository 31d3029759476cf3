"""The consensus rule, on cases worked out by hand."""

from __future__ import annotations

import csv
from collections import Counter, defaultdict
from itertools import permutations
from pathlib import Path

import pandas as pd
import pytest

from detector_bench.dataset import ADJUDICATOR, DISAGREEMENT, ImageSet, consensus
from detector_bench.errors import ConfigError

# The annotators' rows on one image, and the consensus: label and reason.
CASES = {
    "one annotator": ([("a", "female", "")], ("female", "")),
    "two agree": ([("a", "male", ""), ("b", "male", "")], ("male", "")),
    "two disagree": ([("a", "male", ""), ("b", "female", "")], ("low_quality", DISAGREEMENT)),
    "one of two says low quality": (
        [("a", "male", ""), ("b", "low_quality", "blurred")],
        ("low_quality", DISAGREEMENT),
    ),
    "two agree on low quality, the second gives a reason": (
        [("a", "low_quality", ""), ("b", "low_quality", "blurred")],
        ("low_quality", "blurred"),
    ),
    "two agree on low quality for different reasons": (
        [("b", "low_quality", "blurred"), ("a", "low_quality", "no_person")],
        ("low_quality", "no_person"),
    ),
    "three agree": ([("a", "male", ""), ("b", "male", ""), ("c", "male", "")], ("male", "")),
    "two of three is no agreement": (
        [("a", "male", ""), ("b", "male", ""), ("c", "female", "")],
        ("low_quality", DISAGREEMENT),
    ),
    "others by agreement": (
        [("a", "others", "androgynous"), ("b", "others", "")],
        ("others", "androgynous"),
    ),
    "others against a class": ([("a", "others", "x"), ("b", "male", "")], ("low_quality", DISAGREEMENT)),
    "adjudicator settles a disagreement": (
        [("a", "male", ""), ("b", "female", ""), (ADJUDICATOR, "female", "")],
        ("female", ""),
    ),
    "adjudicator overrules an agreement": (
        [("a", "male", ""), ("b", "male", ""), (ADJUDICATOR, "low_quality", "several_people")],
        ("low_quality", "several_people"),
    ),
    "adjudicator says others": (
        [("a", "male", ""), ("b", "female", ""), (ADJUDICATOR, "others", "a statue")],
        ("others", "a statue"),
    ),
    "adjudicator alone": ([(ADJUDICATOR, "male", "")], ("male", "")),
    "adjudicator without a reason takes that of who said the same": (
        [("a", "low_quality", "blurred"), ("b", "female", ""), (ADJUDICATOR, "low_quality", "")],
        ("low_quality", "blurred"),
    ),
    "adjudicator's reason comes before an earlier name's": (
        [("a", "low_quality", "blurred"), (ADJUDICATOR, "low_quality", "ambiguous")],
        ("low_quality", "ambiguous"),
    ),
    "the reason of an overruled annotator does not count": (
        [("a", "low_quality", "blurred"), (ADJUDICATOR, "male", "")],
        ("male", ""),
    ),
}


def table(rows: list[tuple[str, str, str, str, str]]) -> pd.DataFrame:
    names = ["image_id", "annotator", "attribute", "label", "reason"]
    return pd.DataFrame(rows, columns=names, dtype="str")


@pytest.mark.parametrize("case", CASES)
def test_one_image_in_any_order_of_rows(case: str) -> None:
    rows, expected = CASES[case]
    for order in permutations(rows):
        decided = consensus(table([("i", annotator, "gender", *said) for annotator, *said in order]))
        assert decided.to_dict("records") == [
            {"image_id": "i", "attribute": "gender", "label": expected[0], "reason": expected[1]}
        ]


def test_all_cases_in_one_table_do_not_touch_each_other() -> None:
    rows = [(case, annotator, "gender", *said) for case, (given, _) in CASES.items() for annotator, *said in given]
    mixed = rows[::2] + rows[1::2]
    decided = consensus(table(mixed)).set_index("image_id")
    assert len(decided) == len(CASES)
    for case, (_, expected) in CASES.items():
        assert (decided.loc[case, "label"], decided.loc[case, "reason"]) == expected


def test_attributes_of_an_image_are_settled_apart() -> None:
    decided = consensus(
        table(
            [
                ("i", "a", "gender", "male", ""),
                ("i", "a", "age", "young", ""),
                ("i", "b", "gender", "male", ""),
                ("i", "b", "age", "elderly", ""),
                ("j", "b", "race", "white", ""),
            ]
        )
    )
    assert decided.to_numpy().tolist() == [
        ["i", "gender", "male", ""],
        ["i", "age", "low_quality", DISAGREEMENT],
        ["j", "race", "white", ""],
    ]


def test_an_empty_table_gives_an_empty_one() -> None:
    decided = consensus(table([]))
    assert decided.columns.tolist() == ["image_id", "attribute", "label", "reason"]
    assert len(decided) == 0


def test_truth_follows_the_images_and_leaves_gaps(tmp_path: Path) -> None:
    (tmp_path / "images.csv").write_text(
        "image_id,path,t2i_model,prompt_id\nz,z.png,m,p\ny,y.png,m,p\nx,x.png,m,p\nw,w.png,m,p\n"
    )
    (tmp_path / "prompts.csv").write_text("prompt_id,category,word,prompt\np,c,w,\n")
    (tmp_path / "labels.csv").write_text(
        "image_id,annotator,attribute,label,reason\n"
        "x,a,gender,male,\nx,b,gender,female,\ny,a,age,young,\nz,b,gender,low_quality,\n"
        "z,a,gender,low_quality,blurred\nw,a,gender,others,odd\nw,a,age,elderly,\n"
    )
    image_set = ImageSet.load(tmp_path)
    gender = image_set.truth("gender")
    assert gender["image_id"].tolist() == ["z", "y", "x", "w"]
    assert gender["label"].isna().tolist() == [False, True, False, False]
    assert gender["label"].dropna().tolist() == ["low_quality", "low_quality", "others"]
    assert gender["reason"].tolist() == ["blurred", "", DISAGREEMENT, "odd"]
    assert image_set.truth("age")["label"].fillna("-").tolist() == ["-", "young", "-", "elderly"]
    assert image_set.truth("race")["label"].isna().all()
    assert image_set.attributes == ("gender", "age")


def test_truth_of_a_set_put_together_by_hand_equals_that_of_a_loaded_one(shared: Path) -> None:
    loaded = ImageSet.load(shared / "data" / "t2i_portraits")
    made = ImageSet(root=loaded.root, images=loaded.images, prompts=loaded.prompts, labels=loaded.labels)
    for attribute in loaded.attributes:
        pd.testing.assert_frame_equal(made.truth(attribute), loaded.truth(attribute))


def test_unknown_attribute(shared: Path) -> None:
    with pytest.raises(ConfigError, match="did you mean 'gender'"):
        ImageSet.load(shared / "data" / "t2i_portraits").truth("gendr")


def test_t2i_portraits_counted_another_way(shared: Path) -> None:
    folder = shared / "data" / "t2i_portraits"
    said: dict[str, list[str]] = defaultdict(list)
    with (folder / "labels.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if row["attribute"] == "gender":
                said[row["image_id"]].append(row["label"])
    expected = Counter(labels[0] if len(set(labels)) == 1 else "disagreement" for labels in said.values())
    truth = ImageSet.load(folder).truth("gender")
    disagreed = truth["reason"] == DISAGREEMENT
    found = Counter(truth["label"][~disagreed]) + Counter({"disagreement": int(disagreed.sum())})
    assert found == expected
    assert expected.total() == 384
    assert set(truth["label"][disagreed]) == {"low_quality"}


def test_consensus_of_a_whole_set_equals_its_truth(shared: Path) -> None:
    image_set = ImageSet.load(shared / "data" / "t2i_portraits")
    whole = consensus(image_set.labels)
    for attribute in image_set.attributes:
        truth = image_set.truth(attribute).dropna().set_index("image_id")
        part = whole[whole["attribute"] == attribute].set_index("image_id").drop(columns="attribute")
        pd.testing.assert_frame_equal(truth, part.loc[truth.index])
