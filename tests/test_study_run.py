"""A study from its file to its result folder, which can be run again, and says what it rests on."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest
import yaml
from small_parts import MeanColour, forget_calls, stages_loaded, write_tables
from study_files import COUNT, run_record, with_network, write_network, write_study_file

from detector_bench.errors import (
    ConfigError,
    WeightsError,
)
from detector_bench.runner.run_record import RunProgress
from detector_bench.study import Study
from detector_bench.study_file import DetectorEntry

pytestmark = pytest.mark.slow


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_study_file(tmp_path)


def test_a_result_folder_holds_everything(folder: Path) -> None:
    result = Study.from_yaml(folder / "study.yaml").run(folder / "out")
    found = {str(path.relative_to(folder / "out")) for path in (folder / "out").rglob("*") if path.is_file()}
    tables = set(result.tables)
    assert tables >= {
        "bias_errors",
        "confusion",
        "filtering_and_accuracy",
        "label_shares",
        "model_bias_scores",
        "prompt_bias_score_difference",
        "prompt_bias_scores",
    }
    assert found == {
        *(
            f"{name}.csv"
            for name in ("accuracy_gaps", "agreement", "causes", "comparisons", "confusion", "filter_outcomes")
        ),
        "images_judged_rightly.csv",
        "local_paths.json",
        "metrics.csv",
        "metrics.parquet",
        "predictions/.lock",
        "predictions/shards/00001-of-00001.json",
        "predictions/shards/completing.lock",
        "predictions/shards/layout.json",
        "predictions/shards/layout.lock",
        "predictions/test-brightness/predictions.parquet",
        "predictions/test-colour/predictions.parquet",
        "ranks.csv",
        "inputs.parquet",
        "results.json",
        "run.json",
        "study.yaml",
        "sweep_choices.csv",
        "sweeps.csv",
        "t2i_model_biases.csv",
        "t2i_model_comparisons.csv",
        *(f"tables/{table}.{ending}" for table in tables for ending in ("csv", "md", "tex")),
    }
    assert result.out == folder / "out"
    assert len(pd.read_csv(folder / "out" / "metrics.csv")) == len(result.metrics)


def test_the_numbers_are_those_of_the_pictures(folder: Path) -> None:
    result = Study.from_yaml(folder / "study.yaml").run(folder / "out")
    metrics = result.metrics
    overall = metrics[(metrics[["t2i_model", "category", "prompt_id"]] == "all").all(axis=1)]
    values = {(row.detector, row.metric): row.value for row in overall.itertuples()}

    # The colour decides label and verdict alike; brightness keeps all 12 images and calls them male: 4 are.
    for metric in ("precision", "recall", "recall_male", "recall_female", "f1", "filter_rate", "accuracy"):
        assert values["test-colour", metric] == 1.0
    assert values["test-brightness", "precision"] == pytest.approx(8 / 12)
    assert values["test-brightness", "filter_rate"] == 0.0
    assert values["test-brightness", "accuracy"] == 0.5


def test_the_result_shows_itself_in_a_notebook(folder: Path) -> None:
    shown = Study.from_yaml(folder / "study.yaml").run(folder / "out")._repr_html_()
    assert shown.count("<table") == 4
    assert "test-brightness" in shown


def test_the_result_shows_itself_in_one_line(folder: Path) -> None:
    result = Study.from_yaml(folder / "study.yaml").run(folder / "out")
    shown = repr(result)
    assert shown.startswith(f"Results({str(folder / 'out')!r}, metrics: {len(result.metrics):,} rows, tables: ")
    assert all(name in shown for name in result.tables)
    assert "\n" not in shown


def test_in_python_detectors_are_named_as_in_a_study_file(folder: Path) -> None:
    entries = ["test-colour", {"kind": "test-colour", "name": "greener", "green": 60.0}]
    study = Study(image_set=folder / "images", detectors=entries)
    assert study.detectors == (
        DetectorEntry(name="test-colour", kind="test-colour"),
        DetectorEntry(name="greener", kind="test-colour", parameters={"green": 60.0}),
    )
    assert Study.model_validate(study.model_dump()) == study
    for wrong, message in (
        (["test-color"], "unknown detector 'test-color': did you mean 'test-colour'"),
        ([3], "detectors.0: a detector is its name, or a mapping; got 3"),
    ):
        with pytest.raises(ConfigError, match=message):
            Study(image_set=folder / "images", detectors=wrong).build_detectors()  # type: ignore[arg-type]


def test_the_public_name_runs_the_same_study(folder: Path) -> None:
    import detector_bench as db

    result = db.Study.from_yaml(folder / "study.yaml").run(folder / "out")
    assert isinstance(result, db.Results)
    assert result.counts["test-colour"] == {"gender": {"clear": 8, "filtered": 4, "error": 0}}


def test_a_study_may_be_made_in_python_with_stages_and_tuples_as_parameters(folder: Path) -> None:
    entry = DetectorEntry(name="net", kind="onnx", parameters={"network": str(folder / "net.onnx")})
    write_network(folder / "net.onnx")
    entry.parameters.update(
        input={"size": (8, 8)},
        filters=({"kind": "face", "faces": MeanColour()},),
        outputs={"gender": {"read": "classes", "output": "answers", "classes": ("male", "female")}},
    )
    study = Study(image_set=folder / "images", detectors=(entry,))
    study.write(folder / "out")
    written = yaml.safe_load((folder / "out" / "study.yaml").read_text())
    assert written["detectors"][0]["input"] == {"size": [8, 8]}
    assert written["detectors"][0]["filters"][0]["faces"]["kind"] == "test_mean_colour"


# --- the resolved study


@pytest.mark.parametrize("linked", [False, True])
def test_the_resolved_study_runs_again_from_the_result_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch, linked: bool
) -> None:
    out = folder / "results" / "deep" / "one"
    if linked:
        (folder / "elsewhere" / "far").mkdir(parents=True)
        (folder / "results").mkdir()
        (folder / "results" / "deep").symlink_to(folder / "elsewhere" / "far")
    first = with_network(folder).run(out)
    assert first.counts["net"]["gender"]["error"] == 0
    written = yaml.safe_load((out / "study.yaml").read_text())
    assert not Path(written["image_set"]).is_absolute()
    assert not Path(written["detectors"][0]["network"]).is_absolute()
    assert "extends" not in written["detectors"][0]
    assert written["name"] == "nets"

    monkeypatch.chdir(folder / "images")
    forget_calls()
    again = Study.from_yaml(out / "study.yaml").run(out)
    assert run_record(out)["sessions"][-1]["images_judged"] == 0
    assert not stages_loaded
    pd.testing.assert_frame_equal(again.metrics, first.metrics)
    assert yaml.safe_load((out / "study.yaml").read_text()) == written

    Study.from_yaml(out / "study.yaml").run(folder / "two")
    assert (folder / "two" / "metrics.csv").read_bytes() == (out / "metrics.csv").read_bytes()


def test_a_word_that_is_no_weights_path_is_left_as_it_is(folder: Path) -> None:
    study = with_network(folder)
    (folder / "classes").write_text("a file that happens to be called like a parameter's value")
    study.run(folder / "out")
    written = yaml.safe_load((folder / "out" / "study.yaml").read_text())
    assert written["detectors"][0]["outputs"]["gender"]["read"] == "classes"
    assert written["detectors"][0]["network"] == "net.onnx"


# --- resume through a study


def test_changed_weights_of_a_network_are_judged_again(folder: Path) -> None:
    with_network(folder).run(folder / "out")
    before = run_record(folder / "out")
    write_network(folder / "nets" / "net.onnx", red=-0.05)
    result = Study.from_yaml(folder / "study.yaml").run(folder / "out")
    after = run_record(folder / "out")

    assert after["sessions"][-1]["images_judged"] == COUNT
    assert before["detectors"]["net"]["fingerprint"] != after["detectors"]["net"]["fingerprint"]
    assert before["detectors"]["test-colour"] == after["detectors"]["test-colour"]
    table = pq.read_table(folder / "out" / "predictions" / "net" / "predictions.parquet").to_pandas()
    assert table["label"].tolist()[:2] == ["female", "male"], "the other way round"
    assert result.counts["net"]["gender"]["clear"] == COUNT


def test_a_study_without_its_weights_says_so_and_keeps_its_results(folder: Path) -> None:
    with_network(folder).run(folder / "out")
    before = (folder / "out" / "metrics.csv").read_bytes()
    (folder / "nets" / "net.onnx").unlink()
    with pytest.raises(WeightsError, match=r"'nets/net\.onnx' not found"):
        Study.from_yaml(folder / "study.yaml").run(folder / "out")
    assert (folder / "out" / "metrics.csv").read_bytes() == before


def test_a_detector_that_left_the_study_leaves_the_numbers(folder: Path) -> None:
    Study.from_yaml(folder / "study.yaml").run(folder / "out")
    (folder / "study.yaml").write_text("image_set: images\ndetectors: [test-brightness]\n")
    result = Study.from_yaml(folder / "study.yaml").run(folder / "out")

    assert set(result.counts) == {"test-brightness"}
    assert "test-colour" not in (folder / "out" / "metrics.csv").read_text()
    assert (folder / "out" / "predictions" / "test-colour").is_dir(), "its predictions cost something"


def test_detectors_stand_in_the_studys_order(folder: Path) -> None:
    for names in (["test-colour", "test-brightness"], ["test-brightness", "test-colour"]):
        (folder / "study.yaml").write_text(f"image_set: images\ndetectors: [{', '.join(names)}]\n")
        result = Study.from_yaml(folder / "study.yaml").run(folder / "out")
        assert [name for name in dict.fromkeys(result.metrics["detector"]) if name in names] == names
        assert list(result.counts) == names


def test_without_a_cache_nothing_is_left_in_the_cache_folder(folder: Path) -> None:
    Study.from_yaml(folder / "study.yaml").run(folder / "out", cache_dir=folder / "cache", use_cache=False)
    assert not (folder / "cache").exists()


def test_the_cache_folder_is_the_one_of_the_environment(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DETECTOR_BENCH_CACHE", str(folder / "from-environment"))
    Study.from_yaml(folder / "study.yaml").run(folder / "out")
    assert (folder / "from-environment" / "stages.sqlite").is_file()


def test_progress_is_told_before_and_after_every_batch(folder: Path) -> None:
    told: list[tuple[int, int, int, int]] = []

    class Listener:
        def update(self, progress: RunProgress) -> None:
            told.append((progress.total, progress.reused, progress.done, sum(map(len, progress.counts.values()))))

    (folder / "study.yaml").write_text("image_set: images\nbatch_size: 5\ndetectors: [test-colour]\n")
    write_tables(folder / "images", [0, 1, 2])
    Study.from_yaml(folder / "study.yaml").run(folder / "out")
    write_tables(folder / "images", range(COUNT))
    Study.from_yaml(folder / "study.yaml").run(folder / "out", progress=Listener())
    assert [entry[:3] for entry in told] == [(12, 3, 0), (12, 3, 5), (12, 3, 9)]
    assert [entry[3] > 0 for entry in told] == [False, True, True]


def test_what_comes_from_the_cache_is_told_apart(folder: Path) -> None:
    told: list[tuple[int, int]] = []

    class Listener:
        def update(self, progress: RunProgress) -> None:
            told.append((progress.done, progress.from_cache))

    (folder / "study.yaml").write_text("image_set: images\nbatch_size: 6\ndetectors: [test-colour]\n")
    write_tables(folder / "images", [0, 1, 2, 3])
    study = Study.from_yaml(folder / "study.yaml")
    study.run(folder / "out", cache_dir=folder / "cache", progress=Listener())
    write_tables(folder / "images", range(COUNT))
    study.run(folder / "beside", cache_dir=folder / "cache", progress=Listener())
    assert told == [(0, 0), (4, 0), (0, 0), (6, 4), (12, 4)]
