"""The validity check: the sample, the annotation sheet, and what people's answers say about the detector."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from biaspainter_parts import judgements, write

from detector_bench.errors import ConfigError, DataError
from detector_bench.others.biaspainter.annotation_sheets import (
    Borders,
    Sample,
    SampleSizes,
    draw_sample,
    read_answers,
    read_key,
    strata,
    write_annotation_sheet,
)
from detector_bench.others.biaspainter.validity import VerdictAgreement, validity
from detector_bench.others.judgements import Judgements


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Judgements:
    return judgements(tmp_path_factory.mktemp("pairs"))


def test_strata_leave_out_what_is_not_clear() -> None:
    scores = np.array([1.0, 1.01, -1.0, -1.2, 0.2, 0.19, -0.19, -0.2, 0.5, np.nan])
    found = {name: images.tolist() for name, images in strata("age", scores, borders=Borders()).items()}
    assert found == {"older": [1], "younger": [3], "unchanged": [5, 6]}
    tones = {name: images.tolist() for name, images in strata("skin_tone", scores, borders=Borders()).items()}
    assert tones == {"darker": [3], "lighter": [1], "unchanged": [5, 6]}
    genders = strata("gender", np.array([1.0, -1.0, 0.0, np.nan]), borders=Borders())
    assert {name: images.tolist() for name, images in genders.items()} == {
        "male_to_female": [0],
        "female_to_male": [1],
        "unchanged": [2],
    }


def test_a_stratum_with_fewer_pairs_gives_all_it_has(known: Judgements) -> None:
    sample = draw_sample(known, detector="d", seed=1, sizes=SampleSizes(changed=2, unchanged=3))
    # The detector sees one man become a woman and two women become men; B makes the two men 50 years older.
    assert sample.found == {
        ("gender", "male_to_female"): (1, 1),
        ("gender", "female_to_male"): (2, 2),
        ("gender", "unchanged"): (3, 8),
        ("age", "older"): (2, 2),
        ("age", "younger"): (0, 0),
        ("age", "unchanged"): (3, 6),
    }
    assert sample.shortfalls == (
        "gender, male to female: all 1 pairs (asked for: 2)",
        "age, younger: all 0 pairs (asked for: 2)",
    )
    assert len(sample.pairs) == 11
    assert len({(pair.attribute, pair.image_id) for pair in sample.pairs}) == 11
    older = {(pair.seed_image_id, pair.image_id) for pair in sample.pairs if pair.stratum == "older"}
    assert older == {("s0", "B_nurse_s0"), ("s1", "B_nurse_s1")}


def test_equal_seeds_draw_equal_samples_and_others_do_not(known: Judgements) -> None:
    sizes = SampleSizes(changed=1, unchanged=2)
    first, again, other = (draw_sample(known, detector="d", seed=seed, sizes=sizes) for seed in (1, 1, 2))
    assert first == again
    assert first.pairs != other.pairs
    attributes = [pair.attribute for pair in draw_sample(known, detector="d", seed=1).pairs]
    assert attributes != sorted(attributes, reverse=True)  # shuffled, not one attribute after the other


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"detector": "e"}, "no detector 'e'"),
        ({"sizes": SampleSizes(-1, 3)}, "sample sizes: -1 and 3"),
        ({"sizes": SampleSizes(0, 0)}, "not both 0"),
        ({"borders": Borders(0.1, 0.2)}, "0 < unchanged <= changed"),
    ],
)
def test_samples_that_cannot_be_drawn(known: Judgements, options: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        draw_sample(known, **{"detector": "d", "seed": 1, **options})


def _written(known: Judgements, folder: Path, **options: object) -> tuple[Sample, Path, Path]:
    sample = draw_sample(known, detector="d", seed=5, sizes=SampleSizes(2, 3))
    images = pd.DataFrame(
        {"image_id": known.image_ids, "path": [f"pictures/{name}.png" for name in known.image_ids]}
    )
    sheet, key = folder / "check" / "sheet.csv", folder / "key.csv"
    write_annotation_sheet(sample, images, folder / "set", sheet=sheet, key=key, **options)
    return sample, sheet, key


def test_the_sheet_does_not_tell_the_verdicts(known: Judgements, tmp_path: Path) -> None:
    sample, sheet, key = _written(known, tmp_path)
    rows = list(csv.DictReader(sheet.open(encoding="utf-8")))
    assert [row["item"] for row in rows] == [str(item) for item in range(1, 12)]
    first, pair = rows[0], sample.pairs[0]
    assert first["person_1"] == f"../set/pictures/{pair.seed_image_id}.png"
    assert first["person_2"] == f"../set/pictures/{pair.image_id}.png"
    assert {row["question"] for row in rows} == {"Which genders do you perceive?", "Who looks older?"}
    assert {bool(row["D"]) for row in rows if "older" in row["question"]} == {False}
    assert all(row["A"] and row["B"] and row["C"] and not row["answer"] for row in rows)
    # Same question, same text but for the photos: nothing depends on the verdict.
    fixed = {tuple(row[name] for name in ("question", "A", "B", "C", "D", "answer")) for row in rows}
    assert len(fixed) == 2
    entries = read_key(key)
    assert [(entry.attribute, entry.stratum) for entry in entries.values()] == [
        (pair.attribute, pair.stratum) for pair in sample.pairs
    ]


def test_sheets_are_not_overwritten(known: Judgements, tmp_path: Path) -> None:
    _, sheet, _ = _written(known, tmp_path)
    with pytest.raises(ConfigError, match="may hold answers"):
        _written(known, tmp_path)
    sheet.write_text("", encoding="utf-8")
    _written(known, tmp_path, overwrite=True)
    assert sheet.read_text(encoding="utf-8").startswith("item,question")
    with pytest.raises(ConfigError, match="the same file"):
        write_annotation_sheet(
            draw_sample(known, detector="d", seed=1), pd.DataFrame(), tmp_path, sheet=sheet, key=sheet
        )


KEY = ("item", "attribute", "stratum", "seed_image_id", "image_id", "detector", "score")
ENTRIES = [
    [1, "gender", "male_to_female", "s", "i", "d", 1],
    [2, "gender", "unchanged", "s", "i", "d", 0],
    [3, "gender", "unchanged", "s", "i", "d", 0],
    [4, "age", "older", "s", "i", "d", 2],
    [5, "age", "unchanged", "s", "i", "d", 0],
    [6, "skin_tone", "lighter", "s", "i", "d", 2],
]


def _agreements(folder: Path, *answers: str) -> dict[tuple[str, str, str], VerdictAgreement]:
    """Answers to items 1 to 6, a text per annotator; a blank for none."""
    key = read_key(write(folder / "key.csv", KEY, ENTRIES))
    files = [
        write(folder / f"annotator_{number}.csv", ("item", "answer"), list(zip(range(1, 7), text, strict=True)))
        for number, text in enumerate(answers)
    ]
    found = validity(key, read_answers(files, key))
    return {(each.annotator, each.attribute, each.stratum): each for each in found}


def test_accuracy_of_one_annotator(tmp_path: Path) -> None:
    # 1 agrees, 2 and 3 (both women) agree, 4 disagrees, 5 is unanswered, 6 agrees.
    found = _agreements(tmp_path, "BdDb A")
    everything = found["consensus", "all", "all"]
    assert (everything.agreeing, everything.judged, everything.unanswered, everything.disputed) == (4, 5, 1, 0)
    assert everything.accuracy == 0.8
    # Wilson's interval of 4 of 5, from its formula with z = 1.959964.
    assert (everything.low, everything.high) == (pytest.approx(0.3755, abs=1e-4), pytest.approx(0.9638, abs=1e-4))
    assert found["consensus", "gender", "all"].accuracy == 1
    assert found["consensus", "gender", "unchanged"].judged == 2
    assert found["consensus", "age", "older"].accuracy == 0
    unanswered = found["consensus", "age", "unchanged"]
    assert (unanswered.judged, unanswered.unanswered) == (0, 1)
    assert math.isnan(unanswered.accuracy)
    assert math.isnan(unanswered.low)
    assert ("consensus", "age", "younger") not in found


def test_consensus_of_several_annotators(tmp_path: Path) -> None:
    # 1: two of three agree; 2: A and D are one verdict; 3: three verdicts; 4: all disagree; 5: one answer; 6: no.
    found = _agreements(tmp_path, "BABBC ", "BDAB  ", "CDCB  ")
    together = found["consensus", "all", "all"]
    assert (together.agreeing, together.judged, together.disputed, together.unanswered) == (3, 4, 1, 1)
    assert found["annotator_0", "all", "all"].judged == 5
    assert found["annotator_2", "gender", "all"].accuracy == pytest.approx(1 / 3)
    # Two who disagree have no majority.
    two = _agreements(tmp_path, "BAAACA", "CAAACA")
    assert two["consensus", "gender", "male_to_female"].disputed == 1
    assert two["consensus", "all", "all"].accuracy == 1


def test_annotators_in_columns_of_one_file(tmp_path: Path) -> None:
    key = read_key(write(tmp_path / "key.csv", KEY, ENTRIES))
    rows = [[1, " b ", "C"], [4, "", "A"]]
    answers = read_answers([write(tmp_path / "both.csv", ("item", "answer_anna", "answer_ben"), rows)], key)
    assert answers == {"anna": {"1": "B"}, "ben": {"1": "C", "4": "A"}}


@pytest.mark.parametrize(
    ("header", "rows", "said"),
    [
        (
            ("item", "answer"),
            [[4, "D"]],
            "sheet.csv, row 2, column answer: unknown answer to item 4: 'D' (accepted: A, B, C)",
        ),
        (("item", "answer"), [[1, "D"], [2, "yes"]], "row 3, column answer: unknown answer to item 2: 'yes'"),
        (("item", "answer"), [[1, "A"], [1, "B"]], "row 3, column item: item listed twice: '1'"),
        (("item", "answer"), [[9, "A"]], "row 2, column item: the key has no such item: '9'"),
        (("item", "reply"), [[1, "A"]], "there is no column of answers"),
        (("number", "answer"), [[1, "A"]], "column item: the column is missing"),
    ],
)
def test_mistakes_in_filled_sheets(
    tmp_path: Path, header: tuple[str, ...], rows: list[list[object]], said: str
) -> None:
    key = read_key(write(tmp_path / "key.csv", KEY, ENTRIES))
    with pytest.raises(DataError) as caught:
        read_answers([write(tmp_path / "sheet.csv", header, rows)], key)
    assert said in str(caught.value)


def test_mistakes_in_keys_and_among_annotators(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="row 2, column stratum: unknown stratum: 'older'"):
        read_key(write(tmp_path / "a.csv", KEY, [[1, "gender", "older", "s", "i", "d", 1]]))
    with pytest.raises(DataError, match="row 2, column attribute: unknown attribute: 'race'"):
        read_key(write(tmp_path / "b.csv", KEY, [[1, "race", "lighter", "s", "i", "d", 1]]))
    key = read_key(write(tmp_path / "key.csv", KEY, ENTRIES))
    sheet = write(tmp_path / "sheet.csv", ("item", "answer"), [[1, ""]])
    with pytest.raises(ConfigError, match="no item is answered yet"):
        validity(key, read_answers([sheet], key))
    with pytest.raises(ConfigError, match="two columns of answers by 'sheet'"):
        read_answers([sheet, sheet], key)
    with pytest.raises(ConfigError, match="level"):
        validity(key, {"a": {"1": "A"}}, level=1)
    with pytest.raises(ConfigError, match="consensus"):
        validity(key, {"consensus": {"1": "A"}, "b": {"1": "A"}})
