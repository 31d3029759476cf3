"""A result folder evaluated, again and with other settings; and what is said of one that is not whole."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml
from small_parts import COLOURS, forget_calls, stages_loaded, write_csv, write_tables
from study_files import COUNT, manifest, run_record, write_study_file

from detector_bench.errors import (
    ConfigError,
    DetectorBenchError,
    IncompletePredictionsError,
    WeightsError,
)
from detector_bench.evaluation.intervals import Intervals
from detector_bench.figures import FinishedStudy
from detector_bench.results.run_record import environment
from detector_bench.sealed import SEAL, write_sealed
from detector_bench.study import Results, Study
from detector_bench.vocabulary.columns import LABEL_COLUMNS

pytestmark = pytest.mark.slow


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_study_file(tmp_path)


def test_evaluating_stored_predictions_gives_the_bytes_of_the_run(folder: Path) -> None:
    study = Study.from_yaml(folder / "study.yaml")
    result = study.run(folder / "out")
    forget_calls()
    for predictions in (folder / "out", folder / "out" / "predictions"):
        again = study.evaluate(predictions, folder / "again")
        assert (folder / "again" / "metrics.csv").read_bytes() == (folder / "out" / "metrics.csv").read_bytes()
        assert again.counts == result.counts
    assert not stages_loaded
    assert not (folder / "again" / "predictions").exists()


@pytest.mark.slow
def test_an_evaluation_records_its_predictions_versions_seed_and_settings(folder: Path) -> None:
    study = Study.from_yaml(folder / "study.yaml")
    result = study.run(folder / "out")
    ran = run_record(folder / "out")
    intervals = Intervals(seed=7, resamples=400, unit="prompt")
    changed = study.with_detectors(only=["test-colour"]).model_copy(update={"intervals": intervals})
    changed.evaluate(folder / "out", folder / "again")
    record = manifest(folder / "again")

    assert record["environment"] == environment()
    assert record["predictions"] == "out/predictions"
    assert record["seeds"]["intervals"] == {
        "method": "score",
        "level": 0.95,
        "unit": "prompt",
        "seed": 7,
        "resamples": 400,
    }
    assert record["settings"]["detectors"] == ["test-colour"]
    assert record["counts"] == {"test-colour": result.counts["test-colour"]}
    assert run_record(folder / "again") == ran
    # Evaluated in its own folder, a run's record keeps what was run.
    study.evaluate(folder / "out", folder / "out")
    assert run_record(folder / "out") == ran
    assert manifest(folder / "out")["predictions"] == "predictions"
    # The folder of an evaluation knows where its predictions are.
    assert list(Results.open(folder / "again").verdicts()["detector"].unique()) == ["test-colour"]


def test_without_resamples_no_seed_is_recorded(folder: Path) -> None:
    study = Study.from_yaml(folder / "study.yaml")
    study.model_copy(update={"intervals": Intervals(method="none")}).run(folder / "out")
    assert manifest(folder / "out")["seeds"] == {}


@pytest.mark.parametrize(
    ("was", "now", "message"),
    [
        ("n_clear: detector", "n_clear: human", "`n_clear` is 'human', .* computed with 'detector'"),
        ("level: 0.95", "level: 0.9", r"`intervals.level` is 0.9, .* computed with 0.95"),
        ("max_error_share: 0.1", "max_error_share: 0.5", "`max_error_share` is 0.5, .* computed with 0.1"),
        ("unit: image", "unit: prompt", "`intervals.unit` is 'prompt'"),
    ],
)
@pytest.mark.slow
def test_a_study_that_was_changed_since_its_evaluation_is_noticed(
    folder: Path, was: str, now: str, message: str
) -> None:
    out = folder / "out"
    Study.from_yaml(folder / "study.yaml").run(out)
    FinishedStudy.load(out)
    written = (out / "study.yaml").read_text()
    assert was in written
    (out / "study.yaml").write_text(written.replace(was, now))
    with pytest.raises(ConfigError, match=message) as caught:
        FinishedStudy.load(out)
    assert f"run `detector-bench evaluate {out} --changed-inputs`, or set it back" in str(caught.value)
    Study.from_yaml(out / "study.yaml").evaluate(out, out)
    FinishedStudy.load(out)


BROKEN = {
    "no folder": (shutil.rmtree, "there is no folder"),
    "an empty folder": (lambda out: (shutil.rmtree(out), out.mkdir()), "is no result folder: expected one of"),
    "killed while it judged": (
        lambda out: [path.unlink() for path in out.iterdir() if path.is_file()],
        "half a result folder, with predictions and no numbers: run `detector-bench run STUDY.yaml --out {out}`",
    ),
    "killed while it evaluated": (
        lambda out: (out / "results.json").unlink(),
        "half a result folder, its evaluation was cut short: run `detector-bench evaluate {out}`",
    ),
    "an older version": (
        lambda out: ((out / "results.json").unlink(), (out / "run.json").write_text('{"evaluation": {}}')),
        "older version of detector_bench (schema 1, now 3): bring it up to date with `detector-bench "
        "evaluate {out}`",
    ),
    "an older schema": (
        lambda out: rewrite(out, "schema_version", 1),
        "older version of detector_bench (schema 1, now 3): bring it up to date with `detector-bench "
        "evaluate {out}`",
    ),
    "a newer schema": (
        lambda out: rewrite(out, "schema_version", 99),
        "newer version of detector_bench (schema 99; this version knows 3): update detector-bench",
    ),
    "no JSON": (lambda out: (out / "results.json").write_text("{"), "cannot be read"),
    "no object": (lambda out: (out / "results.json").write_text("[]"), "cannot be read (it is no JSON object)"),
    "no schema": (lambda out: (out / "results.json").write_text("{}"), "the key schema_version is missing"),
    "another number": (
        lambda out: (out / "results.json").write_text(json.dumps({**sealed(out), "schema_version": 4})),
        "cannot be read (it is not as it was written: its seal does not fit): run `detector-bench evaluate {out}`",
    ),
    "a wrong setting": (lambda out: rewrite(out, "counts", 3), "counts: input should be a valid dictionary"),
    "a file missing": (lambda out: (out / "causes.csv").unlink(), "lacks causes.csv, which results.json lists"),
    "the study missing": (lambda out: (out / "study.yaml").unlink(), "lacks study.yaml, which says where"),
}


def rewrite(out: Path, key: str, value: object) -> None:
    write_sealed(out / "results.json", {**manifest(out), key: value})


def sealed(out: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((out / "results.json").read_text())
    assert SEAL in content
    return content


@pytest.mark.parametrize("broken", BROKEN)
@pytest.mark.slow
def test_a_folder_that_cannot_be_opened_says_why_in_one_line(folder: Path, broken: str) -> None:
    out = folder / "out"
    Study.from_yaml(folder / "study.yaml").run(out)
    spoil, message = BROKEN[broken]
    spoil(out)  # type: ignore[no-untyped-call]
    with pytest.raises(ConfigError) as caught:
        Results.open(out)
    assert message.format(out=out) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_table_with_other_rows_than_were_written_is_noticed(folder: Path) -> None:
    out = folder / "out"
    Study.from_yaml(folder / "study.yaml").run(out)
    lines = (out / "causes.csv").read_text().splitlines()
    for text in (lines[:-1], [*lines, "x"], [*lines[:-1], lines[-1].replace("1", "2")]):
        (out / "causes.csv").write_text("\n".join(text) + "\n")
        with pytest.raises(ConfigError, match=r"causes\.csv: not as the evaluation wrote it \(sha256\)"):
            Results.open(out).causes()
    assert Results.open(out).numbers("ranks").shape[0] > 0


@pytest.mark.slow
def test_an_older_folder_is_brought_up_to_date(folder: Path) -> None:
    out = folder / "out"
    study = Study.from_yaml(folder / "study.yaml")
    study.run(out)
    ran = run_record(out)
    old = {**ran, "evaluation": {}, "seeds": {}, "study": "x", "predictions": {"environment": ran["environment"]}}
    old["detectors"] = {name: {**each, "counts": {}} for name, each in ran["detectors"].items()}
    old["environment"] = {"of": "an evaluation"}
    (out / "run.json").write_text(json.dumps(old))  # without a seal, as it was then
    (out / "results.json").unlink()
    Study.from_yaml(out / "study.yaml").evaluate(out, out)
    assert run_record(out) == ran
    assert Results.open(out).study.name == study.name


@pytest.mark.slow
def test_another_denominator_changes_the_numbers(folder: Path) -> None:
    study = Study.from_yaml(folder / "study.yaml")
    study.run(folder / "out")
    human = study.with_n_clear("human").evaluate(folder / "out", folder / "human").metrics
    assert set(human["n_clear"].dropna()) - {""} >= {"human"}
    assert yaml.safe_load((folder / "human" / "study.yaml").read_text())["n_clear"] == "human"


@pytest.mark.slow
def test_incomplete_predictions_are_refused_or_left_out_and_counted(folder: Path) -> None:
    study = Study.from_yaml(folder / "study.yaml")
    write_tables(folder / "images", range(COUNT - 3))
    study.run(folder / "out")
    write_tables(folder / "images", range(COUNT))
    with pytest.raises(IncompletePredictionsError, match="3 of 12 images without a prediction") as caught:
        study.evaluate(folder / "out", folder / "again")
    assert "run `detector-bench run` again" in str(caught.value)
    assert not (folder / "again" / "metrics.csv").exists()

    metrics = study.evaluate(folder / "out", folder / "again", allow_incomplete=True).metrics
    everything = (metrics[["t2i_model", "category", "prompt_id"]] == "all").all(axis=1)
    row = metrics[everything & (metrics["detector"] == "test-colour") & (metrics["metric"] == "recall")].iloc[0]
    assert (row["n"], row["n_left_out"]) == (6, 2), "of the three images two are labelled male or female"


def test_missing_detectors_and_folders_are_named(folder: Path) -> None:
    study = Study.from_yaml(folder / "study.yaml")
    with pytest.raises(DetectorBenchError, match=r"no predictions in .*nowhere"):
        study.evaluate(folder / "nowhere", folder / "again")
    (folder / "study.yaml").write_text("image_set: images\ndetectors: [test-colour]\n")
    Study.from_yaml(folder / "study.yaml").run(folder / "out")
    message = r"holds no predictions of test-brightness \(it holds: test-colour\); run the study first"
    with pytest.raises(IncompletePredictionsError, match=message):
        study.evaluate(folder / "out", folder / "again")


@pytest.mark.slow
def test_what_an_interrupted_run_left_is_evaluated_each_image_once(folder: Path) -> None:
    study = Study.from_yaml(folder / "study.yaml")
    study.run(folder / "out")
    store = folder / "out" / "predictions" / "test-colour"
    whole = pq.read_table(store / "predictions.parquet")
    pq.write_table(whole.slice(0, 5), store / "part-000001.parquet")  # the parts were not removed yet
    study.evaluate(folder / "out", folder / "again")
    assert (folder / "again" / "metrics.csv").read_bytes() == (folder / "out" / "metrics.csv").read_bytes()

    (store / "predictions.parquet").unlink()  # or not joined yet
    with pytest.raises(IncompletePredictionsError, match="7 of 12 images without a prediction"):
        study.evaluate(folder / "out", folder / "again")
    study.run(folder / "out")
    assert run_record(folder / "out")["sessions"][-1]["images_judged"] == 7
    assert pq.read_table(store / "predictions.parquet").equals(whole)


def test_an_attribute_without_labels_has_what_detectors_say_beside_one_with_labels(folder: Path) -> None:
    (folder / "study.yaml").write_text(
        "image_set: images\nattributes: [gender, age]\ndetectors: [test-age-and-gender]\n"
    )
    results = Study.from_yaml(folder / "study.yaml").run(folder / "out")
    of_age = results.metrics[results.metrics["attribute"] == "age"]
    assert set(of_age.loc[of_age["detector"] == "ground_truth", "metric"]) == {"images", "images_unlabelled"}
    assert set(of_age.loc[of_age["detector"] != "ground_truth", "variant"]) == {"detector_only"}
    of_gender = results.metrics[results.metrics["attribute"] == "gender"]
    assert of_gender["variant"].isna().all()
    assert [name for name in results.tables if name.endswith("_age")] == [
        "detected_bias_scores_age",
        "detected_shares_age",
    ]


def test_two_attributes_have_numbers_and_tables_each(folder: Path) -> None:
    labels = [line.split(",") for line in (folder / "images" / "labels.csv").read_text().splitlines()[1:]]
    ages = [[image, annotator, "age", "young", ""] for image, annotator, *_ in labels]
    write_csv(folder / "images" / "labels.csv", LABEL_COLUMNS, [*labels, *ages])
    (folder / "study.yaml").write_text(
        "image_set: images\nattributes: [gender, age]\ndetectors: [test-age-and-gender, test-colour]\n"
    )
    result = Study.from_yaml(folder / "study.yaml").run(folder / "out")

    assert set(result.metrics["attribute"]) == {"gender", "age"}
    assert {"label_shares", "label_shares_age"} <= set(result.tables)
    assert result.counts["test-age-and-gender"]["age"] == {"clear": 12, "filtered": 0, "error": 0}
    assert "age" not in result.counts["test-colour"]


def test_the_colours_of_the_pictures_are_what_the_network_was_made_for() -> None:
    red, blue, green = COLOURS
    assert red[0] > red[2]
    assert blue[2] > blue[0]
    assert green[0] == green[2]


def test_all_that_is_missing_is_named_at_once_also_where_a_file_has_no_pin(folder: Path) -> None:
    onnx = {"kind": "onnx", "input": {"size": [8, 8]}}
    reading = {"gender": {"read": "classes", "output": "out", "classes": ["male", "female"]}}
    entries = [
        {"name": name, **onnx, "network": f"{name}.onnx", "outputs": reading} for name in ("first", "second")
    ]
    text = yaml.safe_dump({"image_set": "images", "detectors": entries})
    (folder / "missing.yaml").write_text(text)
    with pytest.raises(WeightsError) as found:
        Study.from_yaml(folder / "missing.yaml").run(folder / "missing")
    assert [line.split("'")[1] for line in str(found.value).splitlines()] == ["first.onnx", "second.onnx"]


@pytest.mark.slow
def test_tables_that_an_evaluation_has_no_more_are_removed_and_others_are_not(folder: Path) -> None:
    out = folder / "out"
    study = Study.from_yaml(folder / "study.yaml")
    study.run(out)
    listed = manifest(out)["tables"]
    (out / "tables" / "earlier.csv").write_text("of another study\n")
    (out / "tables" / "mine.csv").write_text("somebody's own\n")
    (out / "kept.csv").write_text("outside\n")
    (out / "results.json").write_text(json.dumps({**manifest(out), "tables": [*listed, "earlier", "../kept"]}))
    study.evaluate(out, out)
    assert manifest(out)["tables"] == listed
    assert not (out / "tables" / "earlier.csv").exists()
    assert (out / "tables" / "mine.csv").exists()
    assert (out / "kept.csv").exists()
