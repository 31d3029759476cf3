"""`sample --calibration`: what people agree on first is drawn, set apart, labelled by all, bends no estimate."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from labelling_sets import numbered, saying, write_image_set
from stored_study import filtered, kept, predictions_of, write_predictions
from typer.testing import CliRunner, Result

from detector_bench.cli.app import app
from detector_bench.dataset import ImageSet
from detector_bench.dataset.sample_file import LabelSample, read_sample, sample_of
from detector_bench.errors import ConfigError, DataError
from detector_bench.estimation import UNLABELLED, PartlyLabelled, estimate
from detector_bench.estimation.images_set_apart import chances_of_sample, labels_that_count
from detector_bench.estimation.working_model import cell_moments
from detector_bench.evaluation.image_verdicts import ImageVerdicts
from detector_bench.evaluation.label_sample import ToBeLabelled
from detector_bench.evaluation.labels_of_sample import LabelsOfSample
from detector_bench.labelling import Assignment, Choice, DeskSettings, LabelStore
from detector_bench.metrics import Scopes

COUNT = 60  # 6 cells of 10 images
FIRST_TEN = numbered(COUNT)[:10]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_image_set(tmp_path / "set", numbered(COUNT)).root


def run(*arguments: object) -> Result:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def loaded(folder: Path) -> ImageSet:
    return ImageSet.load(folder, require_labels=False)


def listed(file: Path) -> list[str]:
    return pd.read_csv(file, dtype=str)["image_id"].tolist()


def set_apart_by_hand(folder: Path, ids: list[str]) -> None:
    (folder / "calibration.csv").write_text("\n".join(["image_id", *ids]) + "\n")


# Drawing


def test_a_calibration_is_balanced_and_a_sample_is_drawn_from_the_others(folder: Path) -> None:
    said = run("sample", folder, "--calibration", 12).stdout
    assert "sdxl: 6 of 30 images, 2 of each of 3 prompts\n" in said
    assert "12 images, set apart from all others; design equal" in said
    assert f"labels agreement {folder} --calibration says what to discuss" in said
    first = listed(folder / "calibration.csv")
    assert "besides the 12 of the calibration" in run("sample", folder, "--labels", 24).stdout
    drawn = read_sample(folder / "sample.csv", loaded(folder))
    assert not set(first) & set(drawn.image_ids)
    assert drawn.asked == [*first, *drawn.image_ids]
    assert drawn.rows["probability"].tolist() == pytest.approx([4 / 8] * 24)
    run("sample", folder, "--labels", 12, "--add-to", folder / "sample.csv")
    grown = read_sample(folder / "sample.csv", loaded(folder))
    assert grown.rows["probability"].tolist() == pytest.approx([6 / 8] * 36)
    assert not set(first) & set(grown.image_ids)


@pytest.mark.slow
def test_images_that_detectors_differ_on_are_among_a_calibration(folder: Path, tmp_path: Path) -> None:
    ids = numbered(COUNT)
    hard = set(ids[:12])  # 2 of the 10 of each cell
    said = {name: {image: kept("male") for image in ids} for name in ("one", "two", "three")}
    said["three"] |= {image: filtered() for image in hard}
    results = write_predictions(tmp_path / "results", said)
    found = []
    for seed in range(20):
        run("sample", folder, "--calibration", 6, "--results", results, "--seed", seed, "--overwrite")
        found.append(len(hard & set(listed(folder / "calibration.csv"))) / 6)
    # 2 * (1/4 + 1/3) of 2 * (1/4 + 1/3) + 8 * 1/4 is 0.37, where 0.2 of the images are hard.
    assert np.mean(found) == pytest.approx(0.37, abs=0.1)
    run("sample", folder, "--calibration", 18, "--results", results, "--overwrite")
    assert hard & set(listed(folder / "calibration.csv"))


def test_after_a_sample_its_own_images_calibrate_and_nothing_changes(folder: Path) -> None:
    run("sample", folder, "--labels", 30)
    before = (folder / "sample.csv").read_bytes()
    assert "6 images, among the images of the sample" in run("sample", folder, "--calibration", 6).stdout
    assert set(listed(folder / "calibration.csv")) < set(listed(folder / "sample.csv"))
    assert (folder / "sample.csv").read_bytes() == before
    assert read_sample(folder / "sample.csv", loaded(folder)).calibration == ()


def test_what_does_not_go_together_is_refused(folder: Path) -> None:
    for options in ((), ("--labels", 6, "--calibration", 6)):
        with pytest.raises(ConfigError, match=r"--labels draws a sample, and --calibration what is .*: name one"):
            run("sample", folder, *options)
    with pytest.raises(ConfigError, match="leave out --out and --add-to"):
        run("sample", folder, "--calibration", 6, "--out", folder)
    with pytest.raises(ConfigError, match=r"61 labels \(accepted: 1 to 60"):
        run("sample", folder, "--calibration", 61)
    run("sample", folder, "--calibration", 6)
    with pytest.raises(ConfigError, match=r"calibration.csv' exists.*--overwrite"):
        run("sample", folder, "--calibration", 6)
    run("sample", folder, "--labels", 12)
    with pytest.raises(ConfigError, match=r"drawn beside a calibration of 6 images.*remove the sample first"):
        run("sample", folder, "--calibration", 9, "--overwrite")
    set_apart_by_hand(folder, ["i000", "i999", "i000"])
    with pytest.raises(DataError, match=r"row 3, column image_id: unknown image: 'i999'[\s\S]*image listed twice"):
        run("sample", folder, "--labels", 12, "--overwrite")
    set_apart_by_hand(folder, ["i000"])
    with pytest.raises(DataError, match=r"column drawn_from: .*the images of the calibration have changed"):
        read_sample(folder / "sample.csv", loaded(folder))


# Estimates


def truth_of(images: ImageSet, women: set[str]) -> pd.DataFrame:
    ids = images.images["image_id"]
    labels = np.where(ids.isin(women), "female", "male")
    rows = pd.DataFrame({"image_id": ids, "annotator": "a", "attribute": "gender", "label": labels, "reason": ""})
    return rows.assign(value=np.nan)


def so_far(images: ImageSet, labels: pd.DataFrame, sample: LabelSample | None) -> LabelsOfSample:
    """What the labels say that people have given by now."""
    predictions = {"one": predictions_of(dict.fromkeys(images.images["image_id"], kept("male")), detector="one")}
    labelled = replace(images, labels=labels)
    found = ImageVerdicts.read(labelled, predictions, attribute="gender", allow_incomplete=True)
    return LabelsOfSample.of(found, labelled, sample)


@pytest.mark.slow
def test_an_estimate_is_right_on_average_however_the_calibration_was_chosen(folder: Path) -> None:
    # All hard images are women's, and people chose them: counted like the others, they would make men rare.
    women = {name for number, name in enumerate(numbered(COUNT)) if number % 10 < 3}
    hard = sorted(women)[:14]
    images = loaded(folder)
    truth = truth_of(images, women)
    of_cells, naive = [], []
    for seed in range(200):
        drawn = ToBeLabelled(images, "gender", {}).sample(18, seed=seed, calibration=hard)
        found = so_far(images, truth[truth["image_id"].isin(drawn.asked)], drawn)
        assert (found.set_apart, found.set_apart_missing, found.set_apart_idle, found.altered) == (14, 0, 0, 0)
        of_cells.append(cell_moments(found.images, use_detectors=False).share[:, 0])
        naive.append(found.images.truth[found.images.labelled] == 0)
    cell = found.images.cell
    true = np.bincount(cell, ~images.images["image_id"].isin(women).to_numpy()) / np.bincount(cell)
    error = np.std(of_cells, axis=0) / np.sqrt(len(of_cells))
    assert np.abs(np.mean(of_cells, axis=0) - true).max() < 4 * error.max()
    assert np.mean(naive) < true.mean() - 0.1
    assert "14 labels of the calibration among them: each counts for its own image alone." in found.notes()


def test_while_people_calibrate_nothing_is_said_of_others(folder: Path) -> None:
    set_apart_by_hand(folder, FIRST_TEN)
    images = loaded(folder)
    truth = truth_of(images, {"i000"})
    begun = so_far(images, truth[truth["image_id"].isin(FIRST_TEN)], sample_of(images))
    assert not begun.any_label
    assert (begun.set_apart, begun.set_apart_idle, begun.sampled) == (10, 10, None)
    given = truth[truth["image_id"].isin([*FIRST_TEN[1:], "i012", "i018"])]
    some = so_far(images, given, sample_of(images))
    assert "1 image of the calibration without a label yet." in some.notes()
    assert some.set_apart_idle == 8  # of five cells, of which nobody has labelled another image
    # i006, i012 and i018 are of one cell, as i000 is, which the other two speak for until it has a label.
    chances = some.images.probability[some.images.labelled]
    assert chances.tolist() == pytest.approx([1, 2 / 9, 2 / 9])


def test_chances_of_a_sample_count_what_was_set_apart_with_certainty() -> None:
    cell, apart = np.array([0, 0, 0, 0, 1, 1]), np.array([1, 0, 0, 0, 1, 1], dtype=bool)
    labelled = np.array([1, 1, 0, 0, 1, 0], dtype=bool)
    counts = labels_that_count(labelled, apart, cell, cells=2)
    assert counts.tolist() == labelled.tolist()  # cell 1 has no others that anybody would have to speak for
    drawn, chance = np.array([0, 1, 1, 0, 0, 0], dtype=bool), np.array([1, 0.5, 0.6, np.nan, 1, 1])
    found = chances_of_sample(chance, drawn, counts, apart, cell, cells=2)
    assert found[[0, 1, 4]].tolist() == pytest.approx([1, 0.25, 1])
    labelled[1] = False
    assert labels_that_count(labelled, apart, cell, cells=2).tolist() == [False] * 4 + [True, False]


@pytest.mark.slow
def test_prompts_that_the_calibration_rules_out_are_not_estimated() -> None:
    """17 of 20 images of each prompt show the first class. Two of the others are set apart, and the third is drawn
    rarely: most drawn labels agree, but that all images of a prompt did is known to be wrong."""
    cells, scores = 60, []
    cell, apart = np.repeat(np.arange(cells), 20), np.tile(np.arange(20) < 2, cells)
    truth = np.tile(np.arange(20) < 3, cells).astype(np.int64)
    for seed in range(5):
        order = np.random.default_rng(seed).random((cells, 20)) + apart.reshape(cells, 20)
        drawn = (order.argsort(axis=1).argsort(axis=1) < 5).ravel()
        labelled = drawn | apart
        images = PartlyLabelled(
            truth=np.where(labelled, truth, UNLABELLED),
            verdicts=np.zeros((0, len(truth)), dtype=np.int8),
            cell=cell,
            t2i_models=1,
            scopes=Scopes.of_prompts(["a"] * cells),
            classes=2,
            probability=np.where(apart, 1, np.where(drawn, 5 / 18, np.nan)),
            cell_probability=np.ones(cells),
        )
        scores.append(estimate(images, seed=seed).scopes["model_bias_score"].value[1, 0])
    assert np.mean(scores) == pytest.approx(0.7, abs=0.02)


# The desk


def desk(images: ImageSet, calibration: list[str] | None, *, overlap: float = 0.0) -> LabelStore:
    named = None if calibration is None else frozenset(calibration)
    people = ("ann", "ben", "cem")
    settings = DeskSettings(calibration_images=150)
    assigned = Assignment(None, people, overlap, named)
    return LabelStore.open(images.root / "labelling.sqlite", images, settings=settings, assignment=assigned)


def first(store: LabelStore, annotator: str, count: int) -> set[str]:
    return {item.item_id for item in store.items(annotator, 0, count) if item.in_calibration}


def test_everybody_labels_the_images_of_the_file_first(folder: Path) -> None:
    images = loaded(folder)
    with desk(images, FIRST_TEN) as store:
        assert all(first(store, name, 10) == {*FIRST_TEN} for name in ("ann", "ben", "cem"))
        assert store.calibration().total == 10  # more than a tenth: these were asked for
    with desk(images, FIRST_TEN[:4]) as store:  # nobody has begun
        assert first(store, "ann", 60) == {*FIRST_TEN[:4]}
        store.record("ann", saying(FIRST_TEN[0], "male"))
    with pytest.raises(ConfigError, match=r"another calibration round, of 4 items where 10 are asked for now"):
        desk(images, FIRST_TEN)
    with desk(images, None) as store:
        assert first(store, "ann", 60) == {*FIRST_TEN[:4]}


def test_the_file_decides_which_round_comes_first(folder: Path, tmp_path: Path) -> None:
    set_apart_by_hand(folder, FIRST_TEN)
    with pytest.raises(
        ConfigError, match=r"--calibration 5 and calibration.csv, which lists 10 images, contradict"
    ):
        run("label", folder, "--annotator", "ann", "--calibration", 5, "--no-browser")
    (tmp_path / "theirs.csv").write_text("image_id,annotator,attribute,label,reason\ni000,ann,gender,male,\n")
    run("labels", "import", tmp_path / "theirs.csv", folder)
    with desk(loaded(folder), FIRST_TEN) as store:
        assert first(store, "ben", 60) == {*FIRST_TEN}


def test_agreement_in_the_calibration_is_told_answer_by_answer(folder: Path, tmp_path: Path) -> None:
    images = loaded(folder)
    unsure = {"i006": ("blurred", "no_person"), "i007": ("blurred", "blurred")}
    with desk(images, FIRST_TEN, overlap=1.0) as store:
        assert "gender: fewer than two annotators" in run("labels", "agreement", folder, "--calibration").stdout
        for place, name in enumerate(("ann", "ben")):
            for item in FIRST_TEN[:6]:
                label = "female" if item in ("i004", "i005") or (item == "i003" and place) else "male"
                store.record(name, saying(item, label, answer_id=f"{name}{item}"))
            for item, reasons in unsure.items():
                reason = reasons[place]
                store.record(name, saying(item, "low_quality", answer_id=f"{name}{item}", reason=reason))
            store.record(
                name, saying("i030", ("male", "female")[place], answer_id=f"{name}i030")
            )  # not of the round
        waiting = run("labels", "agreement", folder, "--calibration").stdout
        assert (
            "Next: label the calibration round of 10 images to its end (ann has 2 left, ben has 2 left)" in waiting
        )
        for name in ("ann", "ben"):
            for item in FIRST_TEN[8:]:
                store.record(name, saying(item, "male", answer_id=f"{name}{item}"))
        said = run("labels", "agreement", folder, "--calibration", "--out", tmp_path).stdout
        assert "Next: decide the 1 open disagreements together" in said
        found = pd.read_csv(tmp_path / "calibration_agreement.csv", keep_default_na=False).set_index(
            ["label", "reason"]
        )
        # Of 10 images 9 are alike. Chance: 6 and 5 male, 2 and 3 female, 2 and 2 low quality of 10 each.
        by_chance = (6 * 5 + 2 * 3 + 2 * 2) / 100
        assert float(found.loc[("all", ""), "kappa"]) == pytest.approx((0.9 - by_chance) / (1 - by_chance))
        assert found.loc[("low_quality", ""), ["kappa", "said_by_any", "said_by_all"]].astype(float).tolist() == [
            1,
            2,
            2,
        ]
        # Blurred: ann 2, ben 1 of 10; alike on 9.
        by_chance = (2 * 1 + 8 * 9) / 100
        blurred = found.loc[("low_quality", "blurred")]
        assert float(blurred["kappa"]) == pytest.approx((0.9 - by_chance) / (1 - by_chance))
        assert (int(blurred["said_by_any"]), int(blurred["said_by_all"])) == (2, 1)
        discuss = pd.read_csv(tmp_path / "images_to_discuss.csv", keep_default_na=False)
        assert discuss[["image_id", "differs_in"]].to_numpy().tolist() == [["i003", "label"], ["i006", "reason"]]
        assert discuss["answers"][1] == "ann: low-quality (blurred); ben: low-quality (no person)"
        store.adjudicate("i003", "gender", Choice("male"), answer_id="d1")
        assert "press *Mark as discussed*" in run("labels", "agreement", folder, "--calibration").stdout
        store.close_calibration("c1")
        again = run("labels", "agreement", folder, "--calibration", "--out", tmp_path).stdout
        assert "The round of 10 images was discussed and closed" in again
        # What was decided and revised is not what people said on their own.
        assert len(pd.read_csv(tmp_path / "images_to_discuss.csv")) == 2
        assert float(pd.read_csv(tmp_path / "calibration_agreement.csv")["equal"][0]) == 0.9
