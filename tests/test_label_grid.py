"""Pages of pictures with proposed labels: what is proposed, what is kept, and what is said of agreement."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from labelling_sets import numbered, write_image_set

from detector_bench.errors import ConfigError
from detector_bench.labelling import Answer, Asking, Choice, DeskSettings, LabelStore
from detector_bench.labelling.grid import Grid, check_grid, proposals_of
from detector_bench.labelling.label_details import label_details_csv
from detector_bench.labelling.ways import permutation_p, ways_of, ways_sentence
from detector_bench.metrics.agreement import cohen_kappa, contingency

VERDICTS = {
    "one": [
        ("i000", "clear", "male"),
        ("i001", "filtered", ""),
        ("i002", "error", ""),
        ("i003", "clear", "female"),
    ],
    "two": [("i000", "clear", "male"), ("i001", "clear", "male"), ("i002", "clear", "female")],
}


def tables() -> dict[str, pa.Table]:
    return {
        name: pa.table(
            {
                "image_id": [row[0] for row in rows],
                "attribute": ["gender"] * len(rows),
                "status": [row[1] for row in rows],
                "label": [row[2] for row in rows],
            }
        )
        for name, rows in VERDICTS.items()
    }


def test_a_detector_proposes_its_verdicts_and_several_what_most_of_them_say() -> None:
    alone, name = proposals_of(tables(), attribute="gender", detector="one")
    assert alone == {"i000": "male", "i001": "low_quality", "i003": "female"}  # an error is no verdict
    assert name == "one"
    most, name = proposals_of(tables(), attribute="gender", detector=None)
    assert most == {"i000": "male", "i002": "female", "i003": "female"}  # nothing where they are even
    assert name == "most of 2 detectors"
    with pytest.raises(ConfigError, match="no predictions of the detector 'onee'"):
        proposals_of(tables(), attribute="gender", detector="onee")
    with pytest.raises(ConfigError, match="no verdict on race by one, two"):
        proposals_of(tables(), attribute="race", detector=None)


def test_a_grid_asks_one_question() -> None:
    assert check_grid(DeskSettings(attributes=("race",))) == "race"
    with pytest.raises(ConfigError, match="this desk asks gender, age"):
        check_grid(DeskSettings(attributes=("gender", "age")))


def test_what_is_asked_alone_is_the_same_for_everybody_and_as_much_as_was_wanted(tmp_path: Path) -> None:
    images = write_image_set(tmp_path / "set", numbered(400))
    settings = DeskSettings(calibration_images=20)
    grid = Grid(dict.fromkeys(numbered(400), "male"), "one", alone=0.25)
    with LabelStore.open(tmp_path / "s.sqlite", images, settings=settings) as store:
        of_ann, of_ben = (
            {item.item_id: grid.proposal(item) for item in store.items(name, 0, 400)} for name in ("ann", "ben")
        )
        in_calibration = [item.item_id for item in store.present_items() if item.in_calibration]
    assert of_ann == of_ben
    assert {of_ann[name] for name in in_calibration} == {""}
    alone = sum(of_ann[name] == "" for name in of_ann if name not in in_calibration)
    assert 60 < alone < 130  # binomial: 95 of 380


def test_labels_know_how_they_came_about_and_both_ways_are_told_apart(tmp_path: Path) -> None:
    images = write_image_set(tmp_path / "set", numbered(40))
    with LabelStore.open(tmp_path / "s.sqlite", images, settings=DeskSettings(calibration_images=0)) as store:
        words = store.keep_wording({"language": "de", "questions": [{"name": "gender", "text": "Welches?"}]})
        for number, item_id in enumerate(numbered(40)):
            in_grid = number % 2 == 0
            asking = Asking("de", words, "male" if in_grid else "", "one" if in_grid else "")
            own = "male" if number % 4 < 2 else "female"
            for name, label in (("ann", own), ("ben", own if in_grid or number % 8 else "low_quality")):
                choice = {"gender": Choice(label)}
                store.record(name, Answer(f"{name}{number}", item_id, choice, milliseconds=900, asking=asking))
        made_up = Answer("x", "i000", {"gender": Choice("male")}, asking=Asking("de", "wording-of-nobody"))
        store.record("cyd", made_up)
        given = store.given(independent=True)
        found = ways_of(given, store.questions[0], ["ann", "ben"])
        lines = label_details_csv(store).splitlines()
    assert found.grid_labels == 40
    assert found.confirmed == 20  # every second image of the grid is called female against the proposal
    assert found.grid.kappa == 1
    assert (found.grid.images, found.alone.images, found.mixed) == (20, 20, 0)
    assert "20 of 40 labels out of a grid are the proposed ones." in ways_sentence(found)
    assert lines[1].startswith("i000,ann,gender,male,,,,de,Welches?,grid,male,one,no,0.9,")
    assert lines[2].startswith("i001,ann,gender,male,,,,de,Welches?,alone,,,no,0.9,")
    assert lines[-1].startswith("i000,cyd,gender,male,,,,de,,,,,no,")


def test_the_statistic_is_the_difference_of_kappas_and_one_deal_decides_as_by_hand() -> None:
    random = np.random.default_rng(3)
    codes = random.integers(0, 3, (2, 60))
    in_grid = np.arange(60) < 25
    kappas = [float(cohen_kappa(contingency(*codes[:, part], labels=3)).value) for part in (in_grid, ~in_grid)]
    shuffled = np.random.default_rng(0)
    dealt = np.tile(in_grid.astype(float), (64, 1))
    deals = shuffled.permuted(dealt, axis=1)[:19].astype(bool)
    by_hand = [
        abs(
            float(cohen_kappa(contingency(*codes[:, deal], labels=3)).value)
            - float(cohen_kappa(contingency(*codes[:, ~deal], labels=3)).value)
        )
        for deal in deals
    ]
    expected = (1 + sum(each >= abs(kappas[0] - kappas[1]) - 1e-12 for each in by_hand)) / 20
    assert permutation_p(codes, in_grid, labels=3, seed=0, times=19) == expected
    assert math.isnan(permutation_p(codes, np.ones(60, dtype=bool), labels=3, seed=0))


@pytest.mark.slow
@pytest.mark.parametrize("people", [2, 3])
def test_where_the_way_makes_no_difference_one_is_found_in_five_per_cent_of_studies(people: int) -> None:
    random = np.random.default_rng(people)
    studies, found = 400, 0
    for study in range(studies):
        truth = random.choice(3, 150, p=[0.6, 0.3, 0.1])
        wrong = random.random((people, 150)) < 0.15
        codes = np.where(wrong, random.integers(0, 3, (people, 150)), truth)
        in_grid = random.random(150) < 0.7
        found += permutation_p(codes, in_grid, labels=3, seed=study, times=99) < 0.05
    assert 0.02 < found / studies < 0.08  # 5 %, and three standard errors of it


def test_a_real_difference_is_found() -> None:
    random = np.random.default_rng(1)
    truth = random.integers(0, 2, 300)
    in_grid = random.random(300) < 0.5
    wrong = random.random((2, 300)) < np.where(in_grid, 0.02, 0.25)
    assert permutation_p(np.where(wrong, 1 - truth, truth), in_grid, labels=2, seed=0) < 0.01
