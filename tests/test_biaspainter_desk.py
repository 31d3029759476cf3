"""The validity sample in the labelling desk: drawn, asked about, and read back; nobody is told a verdict."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest
from biaspainter_parts import judgements, predictions, write
from labelling_sets import saying
from result_folders import write_result_folder
from typer.testing import CliRunner, Result

from detector_bench.cli.app import app
from detector_bench.dataset import ImageSet
from detector_bench.dataset.pair_sample_file import PAIR_SAMPLE_FILE, read_pair_sample
from detector_bench.errors import ConfigError, DataError
from detector_bench.evaluation.intervals import Intervals
from detector_bench.labelling import Assignment, DeskSettings, LabelStore
from detector_bench.labelling.labels_csv import labels_csv
from detector_bench.labelling.opening import default_path
from detector_bench.labelling.questions import Task
from detector_bench.others.biaspainter.annotation_sheets import CANNOT_TELL, KeyEntry
from detector_bench.others.biaspainter.score_system import BiasPainterScores
from detector_bench.others.biaspainter.validity import validity

ANSWERS = {
    "ann": {"A_nurse_s0": "male_female", "A_nurse_s1": "male_male", "B_nurse_s2": "female_male"},
    "ben": {"A_nurse_s0": "male_female", "A_nurse_s1": "male_female", "B_nurse_s2": "low_quality"},
}
"""Gender of both, by annotator and edited photo."""


def run(*arguments: object) -> Result:
    result = CliRunner().invoke(app, ["biaspainter", *map(str, arguments)], env={"COLUMNS": "160"})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """A result folder with an image set of pairs beside it, whose image files are there."""
    known = judgements(tmp_path / "pairs")
    for path in pd.read_csv(tmp_path / "pairs" / "images.csv")["path"]:
        file = tmp_path / "pairs" / path
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(f"picture of {path}".encode())
    folder = tmp_path / "result"
    (folder / "predictions" / "d").mkdir(parents=True)
    pq.write_table(predictions(), folder / "predictions" / "d" / "part.parquet")
    rows = BiasPainterScores().rows(known, Intervals(method="none"))
    write_result_folder(folder, rows, image_set="../pairs", max_error_share=0.2)
    return folder


def labelled(pairs: Path) -> LabelStore:
    """The desk as `label --task pairs` opens it, with the answers of two people."""
    images = ImageSet.load(pairs, require_labels=False)
    asked = frozenset(read_pair_sample(pairs / PAIR_SAMPLE_FILE, images))
    store = LabelStore.open(
        default_path(pairs, Task.PAIRS),
        images,
        settings=DeskSettings(task="pairs", calibration_images=0),
        assignment=Assignment(asked, tuple(ANSWERS)),
    )
    for name, given in ANSWERS.items():
        assert {item.item_id for item in store.items(name, 0, 99)} == asked
        for image, label in given.items():
            store.record(name, saying(image, label, answer_id=f"{name}{image}", question="gender_change"))
    return store


def agreement(out: Path) -> dict[tuple[str, str], tuple[int, int, int]]:
    """By annotator and the detector's verdict on gender: items, judged, agreeing."""
    table = pd.read_csv(out / "biaspainter_validity.csv")
    table = table[table["attribute"] == "gender"]
    names = zip(table["annotator"], table["verdict"], strict=True)
    return dict(zip(names, table[["items", "judged", "agreeing"]].itertuples(index=False, name=None), strict=True))


def test_from_the_sample_to_the_agreement(results: Path, tmp_path: Path) -> None:
    said = run("sample", results, "--detector", "d", "--seed", 1).stdout
    pairs, key = tmp_path / "pairs", results / "biaspainter_key.csv"
    assert "label" in said
    assert "--task pairs --attributes" in " ".join(said.split())
    drawn = (pairs / PAIR_SAMPLE_FILE).read_text(encoding="utf-8").splitlines()
    assert drawn[0] == "image_id"  # no verdict, no stratum, no attribute
    assert set(drawn[1:]) == set(pd.read_csv(key)["image_id"])
    with pytest.raises(ConfigError, match="people may be at work on it"):
        run("sample", results, "--detector", "d", "--seed", 2)
    with labelled(pairs) as store:
        run("validity", key, pairs, "--out", tmp_path / "one")
        found = agreement(tmp_path / "one")
        # The detector: s0 by A became a woman, s1 stayed a man, and by B s2 became a man.
        assert found["consensus", "male to female"] == (1, 1, 1)
        assert found["consensus", "female to male"] == (2, 0, 0)  # one cannot tell, one is unanswered
        assert found["ann", "female to male"] == (2, 1, 1)
        assert found["ben", "all"][1:] == (2, 1)
        store.adjudicate("A_nurse_s1", "gender_change", None, answer_id="x")
        store.adjudicate(
            "B_nurse_s2",
            "gender_change",
            saying("", "female_male", question="q").answers["q"],
            answer_id="y",
        )
        run("validity", key, store.path, "--image-set", pairs, "--out", tmp_path / "two")
        decided = agreement(tmp_path / "two")
        assert decided["consensus", "female to male"] == (2, 1, 1)
        assert decided["ben", "all"] == found["ben", "all"]  # what everybody saw alone stays
        (tmp_path / "exported.csv").write_text(labels_csv(store), encoding="utf-8")
    run("validity", key, tmp_path / "exported.csv", "--out", tmp_path / "three")
    assert agreement(tmp_path / "three") == decided


def test_an_annotator_who_cannot_tell_is_left_out_and_counted() -> None:
    key = {str(item): KeyEntry("gender", "unchanged", "d") for item in range(4)}
    given = {"ann": {"0": "A", "1": CANNOT_TELL, "2": "A"}, "ben": {"0": "A", "1": CANNOT_TELL, "2": CANNOT_TELL}}
    consensus = validity(key, given)[0]
    assert (consensus.items, consensus.judged, consensus.agreeing) == (4, 1, 1)
    assert (consensus.not_judgeable, consensus.disputed, consensus.unanswered) == (1, 1, 1)
    decided = validity(key, {**given, "adjudicator": {"2": "B"}})[0]
    assert (decided.judged, decided.agreeing, decided.disputed) == (2, 1, 0)


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([], "no pair is listed"),
        ([["nobody"]], "row 2, column image_id: unknown image: 'nobody'"),
        ([["A_nurse_s0"], ["A_nurse_s0"]], "row 3, column image_id: image listed twice"),
        ([["s0"]], "no edited photo"),
    ],
)
def test_mistakes_in_a_sample_of_pairs(tmp_path: Path, rows: list[list[str]], said: str) -> None:
    judgements(tmp_path / "pairs")
    images = ImageSet.load(tmp_path / "pairs", require_labels=False)
    with pytest.raises(DataError) as caught:
        read_pair_sample(write(tmp_path / "pair_sample.csv", ("image_id",), rows), images)
    assert said in str(caught.value)


def test_what_holds_no_answers(results: Path, tmp_path: Path) -> None:
    run("sample", results, "--detector", "d", "--seed", 1)
    key = results / "biaspainter_key.csv"
    with pytest.raises(ConfigError, match=r"no labelling store .*label .*pairs --task pairs. makes one"):
        run("validity", key, tmp_path / "pairs")
    with pytest.raises(ConfigError, match="holds the answers of everybody"):
        run("validity", key, tmp_path / "pairs", tmp_path / "sheet.csv")
    rows = [["A_nurse_s0", "ann", "gender", "E", ""]]
    table = write(tmp_path / "t.csv", ("image_id", "annotator", "question", "answer", "label"), rows)
    item = pd.read_csv(key).query("image_id == 'A_nurse_s0' and attribute == 'gender'")
    if len(item):
        with pytest.raises(DataError, match="row 2, column answer: unknown answer about A_nurse_s0: 'E'"):
            run("validity", key, table)
    images = ImageSet.load(tmp_path / "pairs", require_labels=False)
    LabelStore.open(tmp_path / "pairs" / "single.sqlite", images).close()
    with pytest.raises(ConfigError, match="labels of single images, not of pairs"):
        run("validity", key, tmp_path / "pairs" / "single.sqlite")


@pytest.mark.slow
def test_the_desk_asks_about_the_sample_alone(results: Path, tmp_path: Path) -> None:
    pytest.importorskip("fastapi", reason="needs the extra label")
    import httpx
    from label_server import label_server

    run("sample", results, "--detector", "d", "--seed", 1, "--changed", 1, "--unchanged", 0)
    pairs = tmp_path / "pairs"
    drawn = set((pairs / PAIR_SAMPLE_FILE).read_text(encoding="utf-8").split()[1:])
    with label_server(pairs, "ann", options=("--task", "pairs", "--calibration", "0")) as server:
        found = httpx.get(f"{server.address}/api/ann/items", params={"first": 0, "count": 50}).json()
    assert 0 < len(drawn) < 12
    assert any(f"Only the {len(drawn)} pairs of" in line for line in server.said)
    shown = found["items"] if isinstance(found, dict) else found
    assert {item["item_id"] for item in shown} == drawn
