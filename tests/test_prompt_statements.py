"""What prompts state, what they were made from and what they count for: columns that a prompt table may have."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from labelling_desk import opened_store
from labelling_sets import numbered, saying, write_image_set
from PIL import Image

from detector_bench.dataset import ImageSet, check, import_folder
from detector_bench.errors import DataError, Problem
from detector_bench.vocabulary import ATTRIBUTES
from detector_bench.vocabulary.columns import PROMPT_COLUMNS, optional_prompt_columns

PROMPTS = [
    # prompt_id, stated_gender, stated_race, base_prompt_id, weight
    ("dancer", "", "", "", "3"),
    ("white_dancer", "", "white", "dancer", ""),
    ("female_white_dancer", "female", "white", "white_dancer", ""),
    ("asian_dancer", "", "partly", "dancer", "0.5"),
    ("non_binary_dancer", "others", "", "dancer", "1e1"),
]
HEADER = "prompt_id,category,word,prompt,stated_gender,stated_race,base_prompt_id,weight"


def csv_of(rows: Sequence[tuple[str, ...]]) -> str:
    lines = [",".join((name, "occupation", name.replace("_", " "), "", *cells)) for name, *cells in rows]
    return "\n".join([HEADER, *lines]) + "\n"


def written(folder: Path, prompts: str) -> Path:
    """An image set of one labelled image, of the prompt `dancer`."""
    folder.mkdir(exist_ok=True)
    (folder / "images").mkdir(exist_ok=True)
    Image.new("RGB", (4, 4)).save(folder / "images" / "1.png")
    (folder / "images.csv").write_text("image_id,path,t2i_model,prompt_id\n1,images/1.png,sdxl,dancer\n")
    (folder / "labels.csv").write_text("image_id,annotator,attribute,label\n1,a,gender,male\n")
    (folder / "prompts.csv").write_text(prompts)
    return folder


def problems_in(folder: Path) -> list[Problem]:
    with pytest.raises(DataError) as caught:
        ImageSet.load(folder)
    return list(caught.value.problems)


def test_statements_bases_and_weights_are_read(tmp_path: Path) -> None:
    image_set = ImageSet.load(written(tmp_path / "set", csv_of(PROMPTS)))
    race = image_set.stated("race")
    assert race is not None
    assert race.to_dict() == {
        "dancer": "",
        "white_dancer": "white",
        "female_white_dancer": "white",
        "asian_dancer": "partly",
        "non_binary_dancer": "",
    }
    assert image_set.stated("age") is None
    # An empty weight is that of the base prompt, over two steps if need be.
    assert image_set.prompt_weights is not None
    assert image_set.prompt_weights.to_dict() == {
        "dancer": 3.0,
        "white_dancer": 3.0,
        "female_white_dancer": 3.0,
        "asian_dancer": 0.5,
        "non_binary_dancer": 10.0,
    }


def test_a_table_without_these_columns_stays_as_it_was(tmp_path: Path) -> None:
    plain = "prompt_id,category,word,prompt\ndancer,occupation,dancer,\n"
    image_set = ImageSet.load(written(tmp_path / "plain", plain))
    assert list(image_set.prompts.columns) == list(PROMPT_COLUMNS)
    assert all(image_set.stated(attribute) is None for attribute in ATTRIBUTES)
    assert image_set.prompt_weights is None
    # Empty cells say no more than a missing column to whoever compares two sets.
    empty = ImageSet.load(written(tmp_path / "empty", f"{HEADER}\ndancer,occupation,dancer,,,,,\n"))
    assert empty.fingerprint() == image_set.fingerprint()
    assert empty.prompt_weights is None


def test_a_fingerprint_tells_statements_and_weights(tmp_path: Path) -> None:
    def fingerprint(*rows: tuple[str, ...]) -> str:
        return ImageSet.load(written(tmp_path / "set", csv_of(rows))).fingerprint()

    as_it_is = fingerprint(*PROMPTS)
    assert fingerprint(("dancer", "", "", "", "3.0"), *PROMPTS[1:]) == as_it_is
    changed = [
        fingerprint(("dancer", "", "", "", "4"), *PROMPTS[1:]),
        fingerprint(("dancer", "male", "", "", "3"), *PROMPTS[1:]),
        fingerprint(PROMPTS[0], ("white_dancer", "", "white", "", "3"), *PROMPTS[2:]),
    ]
    assert len({as_it_is, *changed}) == 4


def test_parquet_gives_the_same(tmp_path: Path) -> None:
    one = ImageSet.load(written(tmp_path / "csv", csv_of(PROMPTS)))
    folder = written(tmp_path / "parquet", csv_of(PROMPTS))
    table = pd.read_csv(folder / "prompts.csv", dtype="str", keep_default_na=False)
    table["weight"] = pd.to_numeric(table["weight"])
    table["stated_gender"] = table["stated_gender"].replace("", None)
    table.to_parquet(folder / "prompts.parquet")
    (folder / "prompts.csv").unlink()
    other = ImageSet.load(folder)
    assert other.fingerprint() == one.fingerprint()
    assert other.prompt_weights is not None
    assert one.prompt_weights is not None
    assert other.prompt_weights.to_dict() == one.prompt_weights.to_dict()


def test_the_check_counts_what_prompts_state(tmp_path: Path) -> None:
    report = check(written(tmp_path / "set", csv_of(PROMPTS)))
    assert report.ok
    assert report.stated == {"gender": 2, "race": 3}
    assert "  prompts that state an attribute: gender 2, race 3" in report.summary().splitlines()


GENDERS = "male, female, others, partly, or an empty cell where the prompt leaves gender open"
ONE_GENDER = "one of them; 'partly' where one person may be of either; a row each for two people"
A_ROW = "a prompt_id of this file (a base prompt needs a row, but no images), or an empty cell"
OTHER_BASE = "a prompt that is not made from this one, or an empty cell"


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (
            [("dancer", "woman", "", "", "")],
            [Problem("prompts.csv", "unknown gender class", 2, "stated_gender", "woman", GENDERS)],
        ),
        (
            [("dancer", "male;female", "", "", ""), ("cook", "male and female", "", "", "")],
            [
                Problem(
                    "prompts.csv",
                    "a prompt that states two classes of gender",
                    row,
                    "stated_gender",
                    value,
                    ONE_GENDER,
                )
                for row, value in ((2, "male;female"), (3, "male and female"))
            ],
        ),
        (
            [("dancer", "", "", "", ""), ("white_dancer", "", "white", "dacner", "")],
            [
                Problem(
                    "prompts.csv",
                    "base prompt that the file does not list",
                    3,
                    "base_prompt_id",
                    "dacner",
                    f"{A_ROW}; did you mean 'dancer' or 'white_dancer'?",
                )
            ],
        ),
        (
            [("dancer", "", "", "dancer", "2")],
            [
                Problem(
                    "prompts.csv",
                    "prompt that is its own base",
                    2,
                    "base_prompt_id",
                    "dancer",
                    "the prompt without what this one states, or an empty cell",
                )
            ],
        ),
        (
            [("dancer", "", "", "cook", "2"), ("cook", "", "", "dancer", "")],
            [
                Problem(
                    "prompts.csv",
                    "prompt that is its own base, by way of other prompts",
                    row,
                    "base_prompt_id",
                    value,
                    OTHER_BASE,
                )
                for row, value in ((2, "cook"), (3, "dancer"))
            ],
        ),
        (
            [
                (f"dancer{position or ''}", "", "", "", text)
                for position, text in enumerate(("0", "-1", "1e999", "nan", "two"))
            ],
            [
                Problem(
                    "prompts.csv", "weight that is not a number above 0", row, "weight", text, "such as 1 or 0.5"
                )
                for row, text in enumerate(("0", "-1", "1e999", "nan", "two"), start=2)
            ],
        ),
        (
            [*PROMPTS, ("cook", "", "", "", ""), ("white_cook", "", "white", "cook", "")],
            [
                Problem(
                    "prompts.csv",
                    "2 of 7 prompts have no weight, nor a base with one; the first",
                    7,
                    "weight",
                    "cook",
                    "a weight for all prompts, or for none",
                )
            ],
        ),
    ],
    ids=["class", "two classes", "no such base", "own base", "circle", "weights", "some weights"],
)
def test_mistakes_are_told_with_their_place(
    tmp_path: Path, rows: Sequence[tuple[str, ...]], expected: list[Problem]
) -> None:
    assert problems_in(written(tmp_path / "set", csv_of(rows))) == expected


def test_a_statement_about_no_attribute_is_a_mistake(tmp_path: Path) -> None:
    prompts = csv_of(PROMPTS).replace("stated_race", "stated_ethnicity")
    accepted = "stated_gender, stated_age, stated_race, stated_skin_tone"
    assert problems_in(written(tmp_path / "set", prompts)) == [
        Problem("prompts.csv", "unknown column", 1, "stated_ethnicity", "stated_ethnicity", accepted)
    ]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    tree = tmp_path / "tree"
    for prompt in ("Female White Dancer", "dancer"):
        (tree / "sdxl" / prompt).mkdir(parents=True)
        Image.fromarray(np.zeros((4, 4, 3), dtype=np.uint8)).save(tree / "sdxl" / prompt / "1.png")
    return tree


def test_an_import_carries_them_along_with_base_prompts(tree: Path, tmp_path: Path) -> None:
    prompts = tmp_path / "prompts.csv"
    prompts.write_text(csv_of(PROMPTS).replace("female_white_dancer", "Female White Dancer"))
    made = import_folder(tree, tmp_path / "set", prompts=prompts)
    columns = ["prompt_id", "stated_gender", "stated_race", "base_prompt_id", "weight"]
    # The base prompt of a base prompt comes along; the other prompts have no images and are nobody's base.
    assert made.prompts[columns].to_numpy().tolist() == [
        ["female_white_dancer", "female", "white", "white_dancer", ""],
        ["dancer", "", "", "", "3"],
        ["white_dancer", "", "white", "dancer", ""],
    ]
    assert made.prompt_weights is not None
    assert made.prompt_weights.to_dict() == dict.fromkeys(made.prompts["prompt_id"], 3.0)


def test_an_import_names_bases_as_the_tree_does(tree: Path, tmp_path: Path) -> None:
    rows = [("Female White Dancer", "female", "", "", "2"), ("dancer", "", "", "Female White Dancer", "")]
    prompts = tmp_path / "prompts.csv"
    prompts.write_text(csv_of(rows))
    made = import_folder(tree, tmp_path / "set", prompts=prompts)
    assert made.prompts["base_prompt_id"].tolist() == ["", "female_white_dancer"]


def test_folders_may_be_named_by_the_sentence(tree: Path, tmp_path: Path) -> None:
    rows = (
        "prompt_id,prompt,stated_gender,base_prompt_id",
        "dancer,One dancer.,,",
        "woman_dancer,female white dancer,female,dancer",
        "left,two people,,",
        "right,two people,,",
    )
    prompts = tmp_path / "prompts.csv"
    prompts.write_text("\n".join(rows) + "\n")
    made = import_folder(tree, tmp_path / "set", prompts=prompts)
    assert made.prompts[["prompt_id", "base_prompt_id"]].to_numpy().tolist() == [
        ["woman_dancer", "dancer"],
        ["dancer", ""],
    ]
    assert set(made.images["prompt_id"]) == {"woman_dancer", "dancer"}
    # Which of two prompts with one sentence a folder means, nobody can tell.
    (tree / "sdxl" / "dancer").rename(tree / "sdxl" / "two people")
    with pytest.raises(DataError, match="no row for a prompt folder: 'two people'"):
        import_folder(tree, tmp_path / "another", prompts=prompts)


def test_an_import_of_mistaken_statements_writes_nothing(tree: Path, tmp_path: Path) -> None:
    rows = [("Female White Dancer", "female,male", "", "", ""), ("dancer", "", "", "cook", "")]
    prompts = tmp_path / "prompts.parquet"
    names = HEADER.split(",")
    cells = [(name, "occupation", name, "", *rest) for name, *rest in rows]
    pd.DataFrame(cells, columns=names).assign(stated_sex="female").to_parquet(prompts)
    with pytest.raises(DataError) as caught:
        import_folder(tree, tmp_path / "set", prompts=prompts)
    assert [(each.row, each.column, each.value) for each in caught.value.problems] == [
        (1, "stated_sex", "stated_sex"),
        (2, "stated_gender", "female,male"),
        (3, "base_prompt_id", "cook"),
    ]
    assert not (tmp_path / "set").exists()


def test_labels_stay_good_when_prompts_learn_what_they_state(tmp_path: Path) -> None:
    write_image_set(tmp_path, numbered(3))
    with opened_store(tmp_path) as store:
        store.record("ann", saying("i000", "female"))
    prompts = pd.read_csv(tmp_path / "prompts.csv", dtype="str", keep_default_na=False)
    prompts = prompts.assign(
        stated_gender=["female", "", ""], base_prompt_id=["p1", "", ""], weight=["", "2", "1"]
    )
    prompts.to_csv(tmp_path / "prompts.csv", index=False)
    with opened_store(tmp_path) as store:
        assert store.progress("ann").done == 1
        stated = store.image_set.stated("gender")
    assert stated is not None
    assert stated["p0"] == "female"


def test_every_attribute_can_be_stated() -> None:
    assert set(optional_prompt_columns(ATTRIBUTES.only_built_in())) == {
        "stated_gender",
        "stated_age",
        "stated_race",
        "stated_skin_tone",
        "base_prompt_id",
        "weight",
    }
    assert ATTRIBUTES["age"].statements == ("young", "middle_aged", "elderly", "others", "partly")
