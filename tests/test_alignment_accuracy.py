"""Alignment accuracy: BIGbench's Table 2, printed and recomputed, and the table of any study."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from detector_bench import metrics
from detector_bench.errors import ConfigError
from detector_bench.tables import Table
from detector_bench.tables.metric_tables import alignment_accuracy
from detector_bench.vocabulary.columns import METRIC_COLUMNS

NAN = math.nan
LABELLED = 1000
"""The paper's human-labelled images; its accuracies have one decimal, so each is a whole number of images."""


def entry(
    detector: str, attribute: str, metric: str, value: float, *, t2i_model: str = "all"
) -> dict[str, object]:
    row = dict.fromkeys(METRIC_COLUMNS, None) | {"category": "all", "prompt_id": "all", "n": 10, "n_left_out": 0}
    row |= {"detector": detector, "attribute": attribute, "t2i_model": t2i_model, "metric": metric, "value": value}
    return row | {"ci_low": NAN, "ci_high": NAN}


def metric_table(
    accuracies: dict[str, dict[str, float]], *, errors: dict[tuple[str, str], int] | None = None
) -> pd.DataFrame:
    """Accuracies by detector and attribute; errors of 100 images by attribute and T2I model, of detector "net"."""
    attributes = list(dict.fromkeys(name for each in accuracies.values() for name in each))
    rows = [entry("ground_truth", name, "images", 100, t2i_model="sdxl") for name in attributes]
    for detector, by_attribute in accuracies.items():
        for name, value in by_attribute.items():
            rows += [entry(detector, name, "images", 100, t2i_model=model) for model in ("sdxl", "sd3")]
            rows.append(entry(detector, name, "alignment_accuracy", value))
    for (attribute, model), number in (errors or {}).items():
        rows.append(entry("net", attribute, "images_error", number, t2i_model=model))
    return pd.DataFrame(rows)[list(METRIC_COLUMNS)]


def written(table: Table) -> list[list[str]]:
    return [[f"*{cell.written()}*" if cell.bold else cell.written() for cell in row.cells] for row in table.rows]


def counts_of(right: int, *, classes: int) -> np.ndarray:
    """A thousand human-clear images, so many of them right; of the others half are filtered, half misnamed."""
    counts = np.zeros((classes + 2, classes + 2), dtype=np.int64)
    wrong = LABELLED - right
    counts[0, 0], counts[1, 1] = right // 3, right - right // 3
    counts[0, 1], counts[1, classes] = wrong // 2, wrong - wrong // 2
    # Neither errors nor images that are not clear to the humans count.
    counts[0, classes + 1], counts[classes, 0], counts[classes + 1, 1] = 7, 50, 3
    return counts


@pytest.fixture(scope="module")
def published(shared: Path) -> pd.DataFrame:
    return pd.read_csv(
        shared / "data" / "published" / "bigbench_table2_alignment_accuracy.csv", index_col="method", dtype=str
    )


def test_counts_give_the_printed_table(published: pd.DataFrame) -> None:
    classes = {"gender": 2, "race": 7, "age": 3}
    accuracies: dict[str, dict[str, float]] = {}
    for method, row in published.iterrows():
        accuracies[str(method)] = {}
        for attribute, number in classes.items():
            score = metrics.alignment_accuracy(counts_of(round(float(row[attribute]) * 10), classes=number))
            assert (int(score.n), int(score.n_left_out)) == (LABELLED, 7)
            accuracies[str(method)][attribute] = float(score.value)
    table = alignment_accuracy(metric_table(accuracies), attributes=["gender", "race", "age"])
    assert [column.heading for column in table.columns] == ["Detector", "Gender", "Race", "Age", "Mean"]
    assert len(table.rows) == len(published) == 6
    for row in table.rows:
        for cell, column in zip(row.cells[1:], ("gender", "race", "age", "mean"), strict=True):
            assert float(cell.text) == float(published.loc[row.name, column]), (row.name, column)
    best = [{row.name for row in table.rows if row.cells[column].bold} for column in range(1, 5)]
    tuned = {"internvl_finetuned"}
    # Three reach 100 % on gender.
    assert best == [{"minicpm_v_2_5", "internvl", *tuned}, tuned, tuned, tuned]


def test_filtered_is_wrong_and_an_error_is_left_out() -> None:
    counts = np.zeros((4, 4), dtype=np.int64)
    counts[0] = [5, 1, 2, 4]
    counts[1] = [0, 1, 1, 0]
    counts[2] = [3, 3, 3, 3]
    value, n, left_out = metrics.alignment_accuracy(counts)
    assert (float(value), int(n), int(left_out)) == (6 / 10, 10, 4)
    # Recall 7/10 times accuracy 6/7.
    assert float(metrics.recall(counts).value * metrics.accuracy(counts).value) == pytest.approx(6 / 10)
    assert math.isnan(metrics.alignment_accuracy(np.zeros((4, 4))).value)


def test_the_mean_needs_all_attributes() -> None:
    table = alignment_accuracy(
        metric_table({"net": {"gender": 0.9, "race": 0.6}, "half": {"gender": 0.95}}),
        attributes=["gender", "race"],
    )
    assert written(table) == [["net", "90.00", "60.00", "75.00"], ["half", "*95.00*", "-", "-"]]
    assert table.rows[1].notes == (
        "- for race: the detector does not judge it",
        "- for the mean: no alignment accuracy for race",
    )
    assert table.rows[0].notes == ()
    assert table.ethics_note == "Perceived gender and race, as seen in synthetic images; not an identity."


def test_a_number_without_an_image_is_a_dash() -> None:
    table = alignment_accuracy(
        metric_table({"net": {"gender": 0.9, "skin_tone": NAN}}), attributes=["gender", "skin_tone"]
    )
    assert written(table) == [["net", "90.00", "-", "-"]]
    assert table.rows[0].notes[0] == "- for skin tone: no image is clear to the humans and has a verdict"


def test_who_was_judged_on_other_images_does_not_compete() -> None:
    accuracies = {name: {"gender": 0.9, "age": 0.9} for name in ("net", "other", "third")}
    accuracies["net"] = {"gender": 0.99, "age": 0.99}
    metrics_ = metric_table(accuracies, errors={("age", "sd3"): 90})
    table = alignment_accuracy(metrics_, attributes=["gender", "age"])
    assert written(table) == [
        ["net", "*99.00*", "99.00", "99.00"],
        ["other", "90.00", "*90.00*", "*90.00*"],
        ["third", "90.00", "*90.00*", "*90.00*"],
    ]
    assert table.rows[0].notes == (
        "age: not scored on sd3 (error on 90 of 100 images)",
        "age: judged on fewer images of sd3, so it does not compete for the best value",
    )
    nowhere = metric_table(accuracies, errors={("age", "sd3"): 90, ("age", "sdxl"): 90})
    assert written(alignment_accuracy(nowhere, attributes=["gender", "age"]))[0] == ["net", "*99.00*", "-", "-"]


def test_intervals_stand_beside_attributes_but_not_beside_the_mean() -> None:
    rows = metric_table({"net": {"gender": 0.9, "age": 0.5}})
    chosen = (rows["metric"] == "alignment_accuracy") & (rows["attribute"] == "age")
    rows.loc[chosen, ["ci_low", "ci_high"]] = 0.4, 0.6
    table = alignment_accuracy(rows, attributes=["gender", "age"], intervals=True)
    assert written(table) == [["net", "90.0", "50.0 [40.0, 60.0]", "70.00"]]


def test_mistakes_are_named() -> None:
    with pytest.raises(ConfigError, match="at least one attribute"):
        alignment_accuracy(metric_table({"net": {"gender": 0.9}}), attributes=[])
    with pytest.raises(ConfigError, match="no metrics of attribute 'race'"):
        alignment_accuracy(metric_table({"net": {"gender": 0.9}}), attributes=["gender", "race"])


def test_no_detector() -> None:
    rows = metric_table({"net": {"gender": 0.9}})
    table = alignment_accuracy(rows[rows["detector"] == "ground_truth"], attributes=["gender"])
    assert table.rows == ()
    assert table.notes == ("No detector of this study judges any of these attributes.",)
